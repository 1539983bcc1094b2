# SPDX-License-Identifier: Apache-2.0
"""Pressure fields: a soft geom is a list of cells with linear pressure, a rigid geom a list of faces (theory §9).

The pressure in cell f is p = E F_f with F_f(x) = a·x + b in the geom's frame and the geom's modulus E [Pa]. A cell is
the convex polyhedron {F_f >= 0, F_f <= F_g for its neighbours g}. There is one per face of the surface (Masterjohn et
al. 2022 have one per tetrahedron). Functions are stored as *entries* that do not depend on the geom's size, since sizes
may differ between worlds (`warpsim/model/pressure_cells.py`, `coefficients`, is the same on the host). A margin moves
the surface out, from F = 0 to F = −shift; in this layer the pressure is negative.
"""

import warp as wp

from ...number.num import num, num3, num4, num_transform, pose_of
from ...real import func, real, struct, transform, vec3, vec4
from ..narrow.manifold import BOX, CAPSULE, CYLINDER, ELLIPSOID, PLANE, SPHERE

SURFACE = wp.constant(-1)  # a bound: F >= 0


@struct
class Fields:
    """Tables of all hydroelastic geoms, shared by all worlds."""

    pair: wp.array(dtype=int)  # rows of the pair table with hydroelastic contact
    cap: wp.array(dtype=int)  # per row of `pair`; 1: a sphere on a plane, in closed form (`caps.py`)
    geom_type: wp.array(dtype=int)
    geom_cells: wp.array2d(dtype=int)  # (ngeom, 2) first, count; count 0: the geom is rigid
    geom_faces: wp.array2d(dtype=int)  # (ngeom, 2) first, count
    geom_shift: wp.array(dtype=real)  # −F on the surface, from the margin
    geom_margin: wp.array(dtype=real)  # [m] largest distance by which the margin moves the surface out
    geom_size: wp.array(dtype=vec3)  # the model's sizes, for which the tables of capsules are made
    entry: wp.array(dtype=vec4)
    cell_entry: wp.array(dtype=int)
    cell_bounds: wp.array2d(dtype=int)  # (cells, 2) first, count
    bound: wp.array(dtype=int)  # entry, or SURFACE
    cell_large: wp.array(dtype=int)
    cell_sphere: wp.array(dtype=vec4)  # middle and radius of the capsule around a cell
    cell_axis: wp.array(dtype=vec3)  # half axis of this capsule
    cell_base: wp.array(dtype=vec4)  # middle and radius of the capsule around the cell's face on the surface
    cell_base_axis: wp.array(dtype=vec3)  # half axis of this capsule
    cell_rise: wp.array(dtype=real)  # [m] `cell_base` with its radius plus cell_rise · f holds the part with F <= f
    face_vertices: wp.array2d(dtype=int)  # (faces, 2) first, count; count 0: a half space
    face_vertex: wp.array(dtype=vec4)
    face_large: wp.array(dtype=int)
    face_sphere: wp.array(dtype=vec4)
    face_axis: wp.array(dtype=vec3)


@struct
class Sizes:
    """Parameters that may differ between worlds, (1 or worlds, ngeom)."""

    size: wp.array2d(dtype=vec3)
    modulus: wp.array2d(dtype=real)  # [Pa]
    thickness: wp.array2d(dtype=real)  # [m] of planes


@func
def pressure_function(kind: int, size: num3, thickness: num, entry: vec4) -> num4:
    """(a, b) of F = a·x + b."""
    a = num3(num(entry[0]), num(entry[1]), num(entry[2]))
    c = num(entry[3])
    b = c
    if kind == PLANE:
        a = a / thickness
    elif kind == SPHERE:
        a = -a / (size[0] * c)
        b = num(1.0)
    elif kind == ELLIPSOID:
        a = num3(-a[0] / (size[0] * c), -a[1] / (size[1] * c), -a[2] / (size[2] * c))
        b = num(1.0)
    elif kind == BOX:
        half = wp.min(size)
        b = (wp.abs(a[0]) * size[0] + wp.abs(a[1]) * size[1] + wp.abs(a[2]) * size[2]) / half
        a = -a / half
    elif kind == CYLINDER:
        half = wp.min(size[0], size[1])
        if wp.abs(a[2]) < num(0.5):
            a = -a / (half * c)
            b = size[0] / half
        else:
            a = -a / half
            b = size[1] / half
    elif kind == CAPSULE:
        b = num(1.0)
        if a[2] != num(0.0):
            b += wp.abs(a[2]) * size[1] / (size[0] * c)
        a = -a / (size[0] * c)
    return num4(a[0], a[1], a[2], b)


@func
def size_of(sizes: Sizes, w: int, g: int) -> vec3:
    return sizes.size[w % sizes.size.shape[0], g]


@func
def thickness_of(sizes: Sizes, w: int, g: int) -> real:
    return sizes.thickness[w % sizes.thickness.shape[0], g]


@struct
class Form:
    """Data that turn the entries of a geom into functions (`function_of`)."""

    kind: int
    size: num3
    thickness: num
    shift: num


@func
def form_of(fields: Fields, sizes: Sizes, w: int, g: int) -> Form:
    form = Form()
    form.kind = fields.geom_type[g]
    form.size = num3(size_of(sizes, w, g))
    form.thickness = num(thickness_of(sizes, w, g))
    form.shift = num(fields.geom_shift[g])
    return form


@func
def function_of(form: Form, entry: vec4) -> num4:
    """(a, b) of an entry in the frame of its geom."""
    return pressure_function(form.kind, form.size, form.thickness, entry)


@func
def bound_plane(fields: Fields, form: Form, bound: int, function: num4) -> num4:
    """(m, d), not normalised, of one bound m·x + d <= 0 of the cell with this function."""
    plane = num4()
    if bound == SURFACE:
        plane = -function - num4(num(0.0), num(0.0), num(0.0), form.shift)
    else:
        plane = function - function_of(form, fields.entry[bound])
    return plane


@func
def vertex_of(form: Form, u: vec4) -> num3:
    """Vertex of a face of a rigid geom, in the geom's frame."""
    kind = form.kind
    size = form.size
    scale = num3(num(1.0), num(1.0), num(1.0))
    if kind == SPHERE or kind == CAPSULE:
        scale = num3(size[0], size[0], size[0])
    elif kind == ELLIPSOID or kind == BOX:
        scale = size
    elif kind == CYLINDER:
        scale = num3(size[0], size[0], size[1])
    x = num3(scale[0] * num(u[0]), scale[1] * num(u[1]), scale[2] * num(u[2]))
    if kind == CAPSULE:
        x[2] = x[2] + num(u[3]) * size[1]
    return x


@struct
class Capsule:
    """A capsule around a cell or a face."""

    middle: vec3
    axis: vec3  # half axis
    radius: real  # infinite: a half space


@func
def capsule_scale(fields: Fields, sizes: Sizes, w: int, g: int) -> real:
    """Factor of the tables' capsules for the geom's size in this world.

    A negative result −r: the tables do not hold for this size; the ball of radius r about the geom's origin is used.
    """
    size = size_of(sizes, w, g)
    model = fields.geom_size[g]
    kind = fields.geom_type[g]
    scale = real(1.0)
    if kind != PLANE and (size[0] != model[0] or size[1] != model[1] or size[2] != model[2]):
        scale = size[0] / model[0]
        if kind != SPHERE:
            scale = wp.length(size)
            if kind == CAPSULE:
                scale = size[0] + size[1]
            elif kind == CYLINDER:
                scale = wp.sqrt(size[0] * size[0] + size[1] * size[1])
            scale *= -(real(1.0) + fields.geom_shift[g])
    return scale


@struct
class Side:
    """Data of one of the two geoms of a pair in a world, from which its parts are computed."""

    form: Form
    modulus: num
    scale: real  # `capsule_scale`
    level: real  # upper bound of F where the other geom is
    rigid: bool


@func
def side_of(fields: Fields, sizes: Sizes, w: int, g: int) -> Side:
    side = Side()
    side.form = form_of(fields, sizes, w, g)
    side.modulus = num(sizes.modulus[w % sizes.modulus.shape[0], g])
    side.scale = capsule_scale(fields, sizes, w, g)
    side.level = real(wp.inf)
    side.rigid = fields.geom_cells[g, 1] == 0
    return side


@func
def scaled(sphere: vec4, axis: vec3, scale: real) -> Capsule:
    """A capsule of the tables, scaled by `capsule_scale`."""
    capsule = Capsule()
    if scale < real(0.0):
        capsule.radius = -scale
    else:
        capsule.middle = scale * vec3(sphere[0], sphere[1], sphere[2])
        capsule.axis = scale * axis
        capsule.radius = scale * sphere[3]
    return capsule


@func
def own_capsule(fields: Fields, rigid: bool, i: int, scale: real, level: real) -> Capsule:
    """Capsule around the part of cell i with F <= level, or around face i of a rigid geom, in the geom's frame."""
    own = Capsule()
    if rigid:
        own = scaled(fields.face_sphere[i], fields.face_axis[i], scale)
    else:
        sphere = fields.cell_sphere[i]
        base = fields.cell_base[i]
        radius = wp.max(base[3] + fields.cell_rise[i] * level, real(0.0))
        if radius < sphere[3]:
            own = scaled(vec4(base[0], base[1], base[2], radius), fields.cell_base_axis[i], scale)
        else:
            own = scaled(sphere, fields.cell_axis[i], scale)
    return own


@func
def moved_capsule(X: transform, capsule: Capsule) -> Capsule:
    """A capsule carried by X."""
    moved = Capsule()
    moved.middle = wp.transform_point(X, capsule.middle)
    moved.axis = wp.transform_vector(X, capsule.axis)
    moved.radius = capsule.radius
    return moved


@func
def along(plane: num4) -> num3:
    """The vector of a function or plane (a, b)."""
    return num3(plane[0], plane[1], plane[2])


@func
def carried(X: num_transform, f: num4) -> num4:
    """The function f in the frame to which X leads from the frame of f."""
    a = wp.transform_vector(X, along(f))
    return num4(a[0], a[1], a[2], f[3] - wp.dot(a, wp.transform_get_translation(X)))


@struct
class Part:
    """A cell of a geom, or a face of a rigid one.

    `around` and `pressure`, (a, b) of E F, are in the frame of S. `function` is the cell's F in its geom's frame.
    """

    index: int
    around: Capsule
    function: num4
    pressure: num4


@func
def cell_of(fields: Fields, side_s: Side, i: int) -> Part:
    """Cell i of S."""
    part = Part()
    part.index = i
    part.around = own_capsule(fields, False, i, side_s.scale, side_s.level)
    part.function = function_of(side_s.form, fields.entry[fields.cell_entry[i]])
    part.pressure = side_s.modulus * part.function
    return part


@func
def part_of(fields: Fields, side_o: Side, X: num_transform, j: int) -> Part:
    """Cell j of O, or face j if O is rigid; X is the pose of O in the frame of S."""
    part = Part()
    part.index = j
    part.around = moved_capsule(pose_of(X), own_capsule(fields, side_o.rigid, j, side_o.scale, side_o.level))
    if not side_o.rigid:
        part.function = function_of(side_o.form, fields.entry[fields.cell_entry[j]])
        part.pressure = side_o.modulus * carried(X, part.function)
    return part


@func
def capsules_apart(a: Capsule, b: Capsule) -> bool:
    """Whether two capsules have no point in common (Ericson, Real-Time Collision Detection, §5.1.9)."""
    d = b.middle - a.middle
    uu = wp.dot(a.axis, a.axis)
    vv = wp.dot(b.axis, b.axis)
    uv = wp.dot(a.axis, b.axis)
    ud = wp.dot(a.axis, d)
    vd = wp.dot(b.axis, d)
    cross = uu * vv - uv * uv
    s = real(0.0)
    t = real(0.0)
    if cross > real(0.0):
        s = wp.clamp((ud * vv - uv * vd) / cross, real(-1.0), real(1.0))
    if vv > real(0.0):
        t = wp.clamp((uv * s - vd) / vv, real(-1.0), real(1.0))
    if uu > real(0.0):
        s = wp.clamp((uv * t + ud) / uu, real(-1.0), real(1.0))
    reach = a.radius + b.radius
    return wp.length_sq(d + t * b.axis - s * a.axis) > reach * reach
