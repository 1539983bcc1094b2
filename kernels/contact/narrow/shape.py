# SPDX-License-Identifier: Apache-2.0
"""What each type of geom is on a device: extents, and for the general narrow phase support points and features.

A shape is a core (point, segment, box, ellipsoid, cylinder, polytope) grown by a radius. `manifold.py` has the feature
codes of sphere, capsule, box and plane. The others are

| type      | code            | feature                                                                           |
|-----------|-----------------|-----------------------------------------------------------------------------------|
| ellipsoid | 0               | the surface                                                                       |
| cylinder  | 0, 1            | rim at z = −half_length, +half_length: its point nearest to the other geom        |
| cylinder  | 2               | the side                                                                          |
| cylinder  | 3, 4            | cap at z = −half_length, +half_length                                             |
| cylinder  | 8 + 8 s + k     | the fixed point at angle k π/4 of rim s = 0, 1                                    |
| cylinder  | 24 + 8 s + k    | the chord of rim s from fixed point k to k + 1                                    |
| cylinder  | 40 + 2 s + k    | the point of rim s 120° from the nearest one, ahead of it (k = 0) or behind       |
| mesh      | i               | vertex i                                                                          |
| mesh      | FIRST_MESH_EDGE + i, FIRST_MESH_FACE + i | edge i, face i                                           |

For clipping, a cap is the octagon of its fixed points.
"""

import warp as wp

from ...real import func, real, struct, vec3
from .box_core import edge_code, face_toward
from .farthest import farthest_vertex
from .features import FLAT, LINE, POINT, box_signs
from .manifold import (
    BOX,
    CAPSULE,
    CAPSULE_AXIS,
    CYLINDER,
    ELLIPSOID,
    FIRST_EDGE,
    FIRST_FACE,
    HEIGHT_FIELD,
    MESH,
    PLANE,
    SPHERE,
)

SIDE = wp.constant(2)
FIRST_CAP = wp.constant(3)
FIRST_RIM_POINT = wp.constant(8)
FIRST_CHORD = wp.constant(24)
FIRST_TURNED = wp.constant(40)
RIM_POINTS = wp.constant(8)
FIRST_MESH_EDGE = wp.constant(1 << 20)
FIRST_MESH_FACE = wp.constant(2 << 20)
NO_FEATURE = wp.constant(-1)

# Curves of features.
STRAIGHT = wp.constant(0)
RIM = wp.constant(1)
SURFACE = wp.constant(2)
AHEAD = wp.constant(3)
BEHIND = wp.constant(4)

UNBOUNDED = -1.0  # bounding radius that marks a plane

HALF_SQRT2 = 0.5**0.5


@struct
class MeshTable:
    """Convex meshes as flat arrays (see `warpsim.model.hull`)."""

    vertex: wp.array(dtype=vec3)
    extent: wp.array(dtype=real)  # per mesh: a length of the order of its size
    edge: wp.array2d(dtype=int)  # per edge: two vertices, numbered within the mesh
    edges_at: wp.array(dtype=int)  # per vertex, and one more: start of its edges in `edge_at`
    edge_at: wp.array(dtype=int)  # edges, numbered within the mesh, ascending at each vertex
    face: wp.array2d(dtype=int)  # per face: start and count in face_vertex and face_edge
    face_vertex: wp.array(dtype=int)
    face_edge: wp.array(dtype=int)
    face_normal: wp.array(dtype=vec3)
    mesh_range: wp.array2d(dtype=int)  # per mesh: start and count of vertices, edges, faces
    field_range: wp.array2d(dtype=int)  # per height field: its first prism (a mesh), rows and columns of cells


@struct
class Shape:
    """One geom."""

    type: wp.int32
    mesh: wp.int32
    size: vec3


@struct
class Feature:
    """A feature: kind, type of curvature, point, direction (of a line) or outward normal, and radius."""

    kind: wp.int32
    curve: wp.int32
    p: vec3
    u: vec3
    r: real


@func
def bounding_radius(type: wp.int32, size: vec3) -> real:
    """Radius [m] of the sphere around the geom's origin that contains it; UNBOUNDED (negative) for a plane."""
    if type == PLANE:
        return real(UNBOUNDED)
    if type == BOX or type == MESH or type == HEIGHT_FIELD:
        return wp.length(size)
    if type == CAPSULE:
        return size[0] + size[1]
    if type == CYLINDER:
        return wp.length(vec3(size[0], size[1], real(0.0)))
    if type == ELLIPSOID:
        return wp.max(size)
    return size[0]


@func
def half_extents(type: int, size: vec3) -> vec3:
    """Half extents of the box around a geom, along the geom's axes; negative for a plane and a height field."""
    if type == PLANE or type == HEIGHT_FIELD:
        return vec3(real(-1.0), real(-1.0), real(-1.0))
    if type == SPHERE:
        return vec3(size[0], size[0], size[0])
    if type == CAPSULE:
        return vec3(size[0], size[0], size[0] + size[1])
    if type == CYLINDER:
        return vec3(size[0], size[0], size[1])
    return size


@func
def thickness(type: wp.int32, size: vec3) -> real:
    """Least half extent [m] of a geom that is not a plane."""
    if type == SPHERE or type == CAPSULE:
        return size[0]
    if type == CYLINDER:
        return wp.min(size[0], size[1])
    return wp.min(size)


@func(inline=False)
def rim_direction(k: wp.int32) -> vec3:
    """Unit direction of fixed rim point k, at angle k π/4."""
    c = vec3(real(1.0), real(0.0), real(0.0))
    if k % 2 == 1:
        c = vec3(real(HALF_SQRT2), real(HALF_SQRT2), real(0.0))
    if (k // 2) % 2 == 1:
        c = vec3(-c[1], c[0], real(0.0))
    if k >= 4:
        c = -c
    return c


@func(inline=False)
def mesh_support(table: MeshTable, mesh: wp.int32, d: vec3) -> wp.int32:
    """The vertex farthest along d, among equals the first; numbered within the mesh."""
    return farthest_vertex(table.vertex, table.mesh_range[mesh, 0], table.mesh_range[mesh, 1], d)


@func(inline=False)
def support(table: MeshTable, shape: Shape, d: vec3) -> vec3:
    """The point of the core farthest along d, in the shape's axes."""
    h = shape.size
    if shape.type == CAPSULE:
        return vec3(real(0.0), real(0.0), wp.sign(d[2]) * h[1])
    if shape.type == ELLIPSOID:
        e = wp.cw_mul(h, d)
        return wp.cw_mul(h, e) / wp.max(wp.length(e), real(1e-30))
    if shape.type == CYLINDER:
        across = wp.sqrt(d[0] * d[0] + d[1] * d[1])
        r = real(0.0)
        if across > real(1e-30):
            r = h[0] / across
        return vec3(r * d[0], r * d[1], wp.sign(d[2]) * h[1])
    if shape.type == BOX:
        return vec3(wp.sign(d[0]) * h[0], wp.sign(d[1]) * h[1], wp.sign(d[2]) * h[2])
    if shape.type == MESH:
        return table.vertex[table.mesh_range[shape.mesh, 0] + mesh_support(table, shape.mesh, d)]
    return vec3(real(0.0), real(0.0), real(0.0))


@func(inline=False)
def radius(shape: Shape) -> real:
    """The radius by which the core is grown."""
    if shape.type == SPHERE or shape.type == CAPSULE:
        return shape.size[0]
    return real(0.0)


@func(inline=False)
def extent(table: MeshTable, shape: Shape) -> real:
    """A length of the order of the shape's size, for tolerances."""
    if shape.type == MESH:
        return table.extent[shape.mesh]
    if shape.type == PLANE:
        return real(0.0)
    if shape.type == SPHERE:
        return shape.size[0]
    if shape.type == CAPSULE or shape.type == CYLINDER:
        return shape.size[0] + shape.size[1]
    return wp.length(shape.size)


@func(inline=False)
def mesh_edge_toward(table: MeshTable, mesh: wp.int32, point: wp.int32, d: vec3) -> wp.int32:
    """The edge at a vertex with the least angle to the plane across d."""
    first = table.mesh_range[mesh, 2]
    start = table.mesh_range[mesh, 0]
    x = table.vertex[start + point]
    best = NO_FEATURE
    least = real(0.0)
    at = table.edges_at[start + point]
    while at < table.edges_at[start + point + 1]:
        k = table.edge_at[at]
        other = table.edge[first + k, 0] + table.edge[first + k, 1] - point
        u = table.vertex[start + other] - x
        slope = -wp.dot(u, d) / wp.length(u)
        if best == NO_FEATURE or slope < least:
            least = slope
            best = FIRST_MESH_EDGE + k
        at += 1
    return best


@func(inline=False)
def mesh_face_toward(table: MeshTable, mesh: wp.int32, d: vec3) -> wp.int32:
    """The face whose normal is most aligned with d."""
    return FIRST_MESH_FACE + farthest_vertex(table.face_normal, table.mesh_range[mesh, 4], table.mesh_range[mesh, 5], d)


@func(inline=False)
def positive(x: real) -> wp.int32:
    if x > real(0.0):
        return 1
    return 0


@func(inline=False)
def box_edge_toward(d: vec3) -> wp.int32:
    a = wp.abs(d)
    if a[0] <= a[1] and a[0] <= a[2]:
        return edge_code(0, d[1], d[2])
    if a[1] <= a[2]:
        return edge_code(1, d[2], d[0])
    return edge_code(2, d[0], d[1])


@func(inline=False)
def features_toward(table: MeshTable, shape: Shape, d: vec3) -> wp.vec3i:
    """The point-like, line-like and flat features that may be nearest along the unit direction d (-1: none)."""
    if shape.type == CAPSULE:
        return wp.vec3i(positive(d[2]), CAPSULE_AXIS, NO_FEATURE)
    if shape.type == CYLINDER:
        return wp.vec3i(positive(d[2]), SIDE, FIRST_CAP + positive(d[2]))
    if shape.type == BOX:
        vertex = positive(d[0]) + 2 * positive(d[1]) + 4 * positive(d[2])
        return wp.vec3i(vertex, box_edge_toward(d), face_toward(d))
    if shape.type == MESH:
        vertex = mesh_support(table, shape.mesh, d)
        edge = mesh_edge_toward(table, shape.mesh, vertex, d)
        return wp.vec3i(vertex, edge, mesh_face_toward(table, shape.mesh, d))
    return wp.vec3i(0, NO_FEATURE, NO_FEATURE)


@func(inline=False)
def beyond_mesh_feature(table: MeshTable, mesh: wp.int32, code: wp.int32, x: vec3) -> real:
    start = table.mesh_range[mesh, 0]
    beyond = real(0.0)
    if code >= FIRST_MESH_FACE:
        f = table.mesh_range[mesh, 4] + code - FIRST_MESH_FACE
        n = table.face[f, 1]
        k = wp.int32(0)
        while k < n:
            p = table.vertex[start + table.face_vertex[table.face[f, 0] + k]]
            u = table.vertex[start + table.face_vertex[table.face[f, 0] + (k + 1) % n]] - p
            beyond = wp.max(beyond, wp.dot(wp.cross(u, table.face_normal[f]), x - p) / wp.length(u))
            k += 1
    elif code >= FIRST_MESH_EDGE:
        e = table.mesh_range[mesh, 2] + code - FIRST_MESH_EDGE
        p = table.vertex[start + table.edge[e, 0]]
        u = table.vertex[start + table.edge[e, 1]] - p
        length = wp.length(u)
        along = wp.dot(u, x - p) / length
        beyond = wp.max(wp.max(-along, along - length), real(0.0))
    return beyond


@func(inline=False)
def beyond_feature(table: MeshTable, shape: Shape, code: wp.int32, x: vec3) -> real:
    """Distance of a point on the feature's line or plane beyond the feature's ends or rim.

    0 inside the feature, and for a point feature.
    """
    h = shape.size
    if shape.type == BOX:
        return wp.max(wp.max(wp.abs(x) - h), real(0.0))
    if shape.type == MESH:
        return beyond_mesh_feature(table, shape.mesh, code, x)
    if shape.type == CAPSULE and code == CAPSULE_AXIS:
        return wp.max(wp.abs(x[2]) - h[1], real(0.0))
    if shape.type == CYLINDER and code == SIDE:
        return wp.max(wp.abs(x[2]) - h[1], real(0.0))
    if shape.type == CYLINDER and code >= FIRST_CAP:
        return wp.max(wp.sqrt(x[0] * x[0] + x[1] * x[1]) - h[0], real(0.0))
    return real(0.0)


@func(inline=False)
def corners(table: MeshTable, shape: Shape, face: wp.int32) -> wp.int32:
    """Number of corners of a flat feature; 2 for the line of a cylinder's side or an axis, 1 for a point."""
    if shape.type == BOX:
        return 4
    if shape.type == MESH:
        return table.face[table.mesh_range[shape.mesh, 4] + face - FIRST_MESH_FACE, 1]
    if shape.type == CYLINDER and face >= FIRST_CAP:
        return RIM_POINTS
    if shape.type == CYLINDER or shape.type == CAPSULE:
        return 2
    return 1


@func(inline=False)
def box_face_sign(face: wp.int32, k: wp.int32, i: wp.int32) -> wp.int32:
    """Bit of axis i in the code of corner k of a box face; corners are counterclockwise from outside."""
    axis = (face - FIRST_FACE) // 2
    up = (face - FIRST_FACE) % 2
    turn = (i - axis + 3) % 3
    if turn == 0:
        return up
    step = k
    if up == 0:
        step = 3 - k
    if turn == 1:
        return ((step + 1) // 2) % 2
    return step // 2


@func(inline=False)
def corner_code(table: MeshTable, shape: Shape, face: wp.int32, k: wp.int32) -> wp.int32:
    """Code of corner k of a flat feature (counterclockwise from outside) or of an end of a line."""
    if shape.type == BOX:
        return box_face_sign(face, k, 0) + 2 * box_face_sign(face, k, 1) + 4 * box_face_sign(face, k, 2)
    if shape.type == MESH:
        return table.face_vertex[table.face[table.mesh_range[shape.mesh, 4] + face - FIRST_MESH_FACE, 0] + k]
    if shape.type == CYLINDER and face == FIRST_CAP:
        return FIRST_RIM_POINT + RIM_POINTS - 1 - k
    if shape.type == CYLINDER and face == FIRST_CAP + 1:
        return FIRST_RIM_POINT + RIM_POINTS + k
    return k


@func(inline=False)
def side_code(table: MeshTable, shape: Shape, face: wp.int32, k: wp.int32) -> wp.int32:
    """Code of the edge from corner k to corner k + 1."""
    if shape.type == BOX:
        next = (k + 1) % 4
        axis = (face - FIRST_FACE) // 2
        i = (axis + 1) % 3
        j = (axis + 2) % 3
        along = i
        if box_face_sign(face, k, i) == box_face_sign(face, next, i):
            along = j
        n = (along + 1) % 3
        m = (along + 2) % 3
        return FIRST_EDGE + 4 * along + box_face_sign(face, k, n) + 2 * box_face_sign(face, k, m)
    if shape.type == MESH:
        start = table.face[table.mesh_range[shape.mesh, 4] + face - FIRST_MESH_FACE, 0]
        return FIRST_MESH_EDGE + table.face_edge[start + k]
    if shape.type == CYLINDER and face == FIRST_CAP:
        return FIRST_CHORD + (2 * RIM_POINTS - 2 - k) % RIM_POINTS
    if shape.type == CYLINDER and face == FIRST_CAP + 1:
        return FIRST_CHORD + RIM_POINTS + k
    return SIDE


@func(inline=False)
def box_feature(size: vec3, code: wp.int32) -> Feature:
    f = Feature()
    s = box_signs(code)
    f.kind = POINT
    f.p = wp.cw_mul(s, size)
    f.u = s
    if code >= FIRST_FACE:
        f.kind = FLAT
    elif code >= FIRST_EDGE:
        f.kind = LINE
        f.u = vec3(real(1.0) - wp.abs(s[0]), real(1.0) - wp.abs(s[1]), real(1.0) - wp.abs(s[2]))
    return f


@func(inline=False)
def cylinder_feature(size: vec3, code: wp.int32) -> Feature:
    f = Feature()
    f.u = vec3(real(0.0), real(0.0), real(1.0))
    if code == SIDE:
        f.kind = LINE
        f.r = size[0]
    elif code >= FIRST_TURNED:
        k = code - FIRST_TURNED
        f.curve = AHEAD + k % 2
        f.p = vec3(real(0.0), real(0.0), real(2 * (k // 2) - 1) * size[1])
    elif code >= FIRST_CHORD:
        k = code - FIRST_CHORD
        f.kind = LINE
        first = rim_direction(k % RIM_POINTS)
        f.u = wp.normalize(rim_direction((k + 1) % RIM_POINTS) - first)
        f.p = size[0] * first + vec3(real(0.0), real(0.0), real(2 * (k // RIM_POINTS) - 1) * size[1])
    elif code >= FIRST_RIM_POINT:
        k = code - FIRST_RIM_POINT
        f.p = size[0] * rim_direction(k % RIM_POINTS) + vec3(
            real(0.0), real(0.0), real(2 * (k // RIM_POINTS) - 1) * size[1]
        )
    elif code >= FIRST_CAP:
        f.kind = FLAT
        f.u = vec3(real(0.0), real(0.0), real(2 * (code - FIRST_CAP) - 1))
        f.p = size[1] * f.u
    else:
        f.curve = RIM
        f.p = vec3(real(0.0), real(0.0), real(2 * code - 1) * size[1])
    return f


@func(inline=False)
def mesh_feature(table: MeshTable, mesh: wp.int32, code: wp.int32) -> Feature:
    f = Feature()
    start = table.mesh_range[mesh, 0]
    if code >= FIRST_MESH_FACE:
        face = table.mesh_range[mesh, 4] + code - FIRST_MESH_FACE
        f.kind = FLAT
        f.p = table.vertex[start + table.face_vertex[table.face[face, 0]]]
        f.u = table.face_normal[face]
    elif code >= FIRST_MESH_EDGE:
        edge = table.mesh_range[mesh, 2] + code - FIRST_MESH_EDGE
        f.kind = LINE
        f.p = table.vertex[start + table.edge[edge, 0]]
        f.u = wp.normalize(table.vertex[start + table.edge[edge, 1]] - f.p)
    else:
        f.p = table.vertex[start + code]
    return f


@func(inline=False)
def local_feature(table: MeshTable, geom: Shape, code: wp.int32) -> Feature:
    """A feature in the geom's axes."""
    if geom.type == BOX:
        return box_feature(geom.size, code)
    if geom.type == CYLINDER:
        return cylinder_feature(geom.size, code)
    if geom.type == MESH:
        return mesh_feature(table, geom.mesh, code)
    f = Feature()
    f.u = vec3(real(0.0), real(0.0), real(1.0))
    if geom.type == PLANE:
        f.kind = FLAT
    elif geom.type == ELLIPSOID:
        f.curve = SURFACE
    elif geom.type == CAPSULE and code == CAPSULE_AXIS:
        f.kind = LINE
        f.r = geom.size[0]
    elif geom.type == CAPSULE:
        f.p = vec3(real(0.0), real(0.0), real(2 * code - 1) * geom.size[1])
        f.r = geom.size[0]
    else:
        f.r = geom.size[0]
    return f
