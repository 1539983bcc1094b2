# SPDX-License-Identifier: Apache-2.0
"""Find the polygons of all hydroelastic pairs of a world, and turn each polygon into contact points if asked.

Polygons come in the order of pairs, cells and faces. A polygon between facets of curved shapes is one contact point at
its centroid. A large polygon, between flat faces, is four points with its area, centroid and second moments
(`large_points`), so that a box rests on its face. Each point has the pressure of the field at its place; the sums of
force, moment, stiffness and its second moments are those of the polygon.
"""

import warp as wp

from ...flags import CONTACT_OVERFLOW, DEEP_PRESSURE, NONFINITE
from ...linalg.lanes import lane, lanes, sync, team_bits, team_max, team_number
from ...number.num import num, num2, num3, num33
from ...real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec4, vec5
from ..narrow.features import orthogonal
from ..pair_laws import Contacts, Material, Scene, geom_dissipation_time
from .fields import Fields, Part, Side, Sizes, cell_of, part_of, side_of
from .near_parts import geoms_meet, list_both, next_parts
from .point_target import Target, place_point, room_of
from .polygon import ROOM, SMALLEST_AREA, Moments, Surface, clip, compliances, meet, moments

DEEP = 0.5  # largest p/E of a valid field: above it geoms are too soft, or too deep in each other
SMALLEST_SPREAD = 1e-30  # [m²] second moment per area below which a polygon counts as thin


@struct
class Polygons:
    """The polygons found, (worlds, max_polygons), in the frame of S.

    `first` (worlds, pairs + 1) is the index at which a pair's polygons begin. `normal` and the arrays after it have
    columns only if patches read them.
    """

    count: wp.array(dtype=int)
    patches: wp.array(dtype=int)  # number of pairs with polygons
    depth: wp.array(dtype=real)  # largest p/E of the softer geom
    first: wp.array2d(dtype=int)
    cells: wp.array2d(dtype=wp.vec2i)
    near: wp.array2d(dtype=int)  # scratch: cells of S, then parts of O, near the other geom
    normal: wp.array2d(dtype=vec3)  # m, into S
    centroid: wp.array2d(dtype=vec3)
    second: wp.array2d(dtype=mat33)
    gradient: wp.array2d(dtype=vec3)  # ∇p
    values: wp.array2d(dtype=vec5)  # area, p at the centroid, c, τ_d, radius about the centroid


@func
def soft_first(fields: Fields, scene: Scene, p: int):
    """The geoms of a pair as S, which is soft, and O, the other."""
    s = scene.pair_geom[p, 0]
    o = scene.pair_geom[p, 1]
    if fields.geom_cells[s, 1] == 0:
        s = scene.pair_geom[p, 1]
        o = scene.pair_geom[p, 0]
    return s, o


@func
def sign_of(scene: Scene, p: int, s: int) -> real:
    """Sign with which m, which points into S, is the normal from A into B."""
    sign = real(1.0)
    if s == scene.pair_geom[p, 0]:
        sign = real(-1.0)
    return sign


@func
def large_points(second: num33, t: num3, u: num3):
    """L, lower triangular: the four points y = L (±1, ±1) in the axes (t, u) have the given second moments."""
    tt = wp.dot(t, second * t)
    tu = wp.dot(t, second * u)
    uu = wp.dot(u, second * u)
    l_tt = num(0.0)
    l_ut = num(0.0)
    if tt > num(SMALLEST_SPREAD):
        l_tt = wp.sqrt(tt)
        l_ut = tu / l_tt
    l_uu = wp.sqrt(wp.max(uu - l_ut * l_ut, num(0.0)))
    return l_tt, l_ut, l_uu


@func
def corner(q: int) -> num2:
    """Corner q of a square: (±1, ±1), counter-clockwise."""
    x = num(1.0)
    y = num(1.0)
    if q == 1 or q == 2:
        x = num(-1.0)
    if q >= 2:
        y = num(-1.0)
    return num2(x, y)


@func
def polygon_law(surface: Surface, tau_s: num, tau_o: num) -> num2:
    """(c [m/Pa], τ_d [s]) of a polygon from the dissipation times of both geoms: the mean weighted by compliance."""
    c_s, c_o = compliances(surface)
    tau = c_s * tau_s
    tau += c_o * tau_o
    return num2(c_s + c_o, tau / (c_s + c_o))


@func
def is_large(fields: Fields, o: int, i: int, j: int) -> bool:
    """Whether a polygon is between two flat faces (cell i of S, cell or face j of O)."""
    other = int(0)
    if fields.geom_cells[o, 1] == 0:
        other = fields.face_large[j]
    else:
        other = fields.cell_large[j]
    return fields.cell_large[i] == 1 and other == 1


@func
def add_polygon(
    fields: Fields, scene: Scene, w: int, p: int, i: int, j: int, X_s: transform, surface: Surface, shape: Moments,
    law: num2, count: int, target: Target,
):  # fmt: skip
    """Store the contact points of a polygon; return the new number of contacts, and flags."""
    s, o = soft_first(fields, scene, p)
    sign = sign_of(scene, p, s)
    c = law[0]
    pressure = wp.dot(surface.a, shape.centroid) + surface.b
    now = int(count)
    if not is_large(fields, o, i, j):
        if now < room_of(target):
            feature = wp.vec3i(i, j, 0)
            place_point(
                target, w, now, p, feature, X_s, sign, surface.normal, shape.centroid, -c * pressure, c / shape.area,
                law[1],
            )  # fmt: skip
        now += 1
    else:
        t = orthogonal(surface.normal)
        u = wp.cross(surface.normal, t)
        l_tt, l_ut, l_uu = large_points(shape.second, t, u)
        for q in range(4):
            if now < room_of(target):
                y = corner(q)
                arm = (l_tt * y[0]) * t + (l_ut * y[0] + l_uu * y[1]) * u
                feature = wp.vec3i(i, j, q)
                phi = -c * (pressure + wp.dot(surface.a, arm))
                softness = c / (num(0.25) * shape.area)
                place_point(
                    target, w, now, p, feature, X_s, sign, surface.normal, shape.centroid + arm, phi, softness, law[1]
                )  # fmt: skip
            now += 1
    flags = int(0)
    if now > room_of(target):
        now = room_of(target)
        flags = int(CONTACT_OVERFLOW)
    return now, flags


@func
def extent(P: wp.array(dtype=vec3), count: int, shape: Moments) -> real:
    """Largest distance of a vertex from the centroid."""
    most = real(0.0)
    for i in range(count):
        most = wp.max(most, wp.length_sq(P[i] - shape.centroid))
    return wp.sqrt(most)


@func
def keep_polygon(polygons: Polygons, w: int, k: int, surface: Surface, shape: Moments, law: vec2, radius: real):
    polygons.normal[w, k] = surface.normal
    polygons.centroid[w, k] = shape.centroid
    polygons.second[w, k] = shape.second
    polygons.gradient[w, k] = surface.a
    pressure = wp.dot(surface.a, shape.centroid) + surface.b
    polygons.values[w, k] = vec5(shape.area, pressure, law[0], law[1], radius)


@func
def deepest(P: wp.array(dtype=vec3), surface: Surface) -> real:
    """Largest pressure of a polygon."""
    most = real(0.0)
    for i in range(surface.count):
        most = wp.max(most, wp.dot(surface.a, P[i]) + surface.b)
    return most


@func
def softest(side_s: Side, side_o: Side) -> real:
    """Modulus of the softer of two geoms; the modulus of a rigid geom is infinite."""
    return wp.min(side_s.modulus, side_o.modulus)


@func
def sides_flag(side_s: Side, side_o: Side) -> int:
    """NONFINITE if a modulus is NaN, else 0. Without it comparisons would silently drop the contact."""
    flag = int(0)
    if side_s.modulus != side_s.modulus or side_o.modulus != side_o.modulus:
        flag = int(NONFINITE)
    return flag


@func
def store_polygon(
    fields: Fields, scene: Scene, material: Material, default_tau: real, w: int, p: int, i: int, j: int, X_s: transform,
    P: wp.array(dtype=vec3), surface: Surface, shape: Moments, points: int, listed: int, count: int, polygons: Polygons,
    contacts: Contacts,
):  # fmt: skip
    """Store polygon `listed` of a world: with `points` 1 as contact points, else for patches.

    Returns the new number of contacts, and flags.
    """
    now = int(count)
    flags = int(0)
    polygons.cells[w, listed] = wp.vec2i(i, j)
    s, o = soft_first(fields, scene, p)
    tau_s = geom_dissipation_time(material.dissipation_time, w, s, default_tau)
    tau_o = geom_dissipation_time(material.dissipation_time, w, o, default_tau)
    law = polygon_law(surface, tau_s, tau_o)
    if points == 0:
        keep_polygon(polygons, w, listed, surface, shape, law, extent(P, surface.count, shape))
    else:
        now, flags = add_polygon(fields, scene, w, p, i, j, X_s, surface, shape, law, count, contacts)
    return now, flags


@kernel(lanes=True)
def find_polygons(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    geom_X: wp.array2d(dtype=transform),
    geom_speed: wp.array2d(dtype=real),
    geom_capsule: wp.array2d(dtype=vec5),
    points: int,
    # in and out
    contacts: Contacts,
    # out
    polygons: Polygons,
):
    """Find the polygons of all hydroelastic pairs; with `points` 1 append their contact points.

    Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    P = wp.zeros(shape=(ROOM,), dtype=vec3)
    count = contacts.count[w]
    sync()  # all lanes read the count before it is written
    flags = int(0)
    listed = int(0)
    patches = int(0)
    depth = real(0.0)
    pairs = fields.pair.shape[0]
    for pair in range(pairs):
        polygons.first[w, pair] = listed
        p = fields.pair[pair]
        s, o = soft_first(fields, scene, p)
        if fields.cap[pair] == 0 and geoms_meet(fields, geom_X, geom_speed, geom_capsule, w, s, o):
            X_s = geom_X[w, s]
            X = wp.transform_inverse(X_s) * geom_X[w, o]
            side_s = side_of(fields, sizes, w, s)
            side_o = side_of(fields, sizes, w, o)
            flags = flags | sides_flag(side_s, side_o)
            count_s, total, side_s, side_o = list_both(
                fields, X_s, X, w, s, o, side_s, side_o, geom_capsule, polygons.near
            )  # fmt: skip
            k = int(0)
            part = Part()
            part.index = -1
            while k < total:
                hit, cell, part, k = next_parts(fields, X, w, side_s, side_o, polygons.near, count_s, k, total, part)
                surface = Surface()
                shape = Moments()
                if hit:
                    surface = meet(fields, side_s, side_o, X, cell, part, P)
                    if surface.count > 0:
                        shape = moments(P, surface.count, surface.normal)
                        depth = wp.max(depth, deepest(P, surface) / softest(side_s, side_o))
                for of in range(lanes()):  # in the order of cells
                    kept = wp.where(shape.area > real(SMALLEST_AREA), 1, 0)
                    if team_number(kept, of) == 1:
                        if listed < polygons.cells.shape[1]:
                            if lane() == of:
                                count, more = store_polygon(
                                    fields, scene, material, default_tau, w, p, cell.index, part.index, X_s, P, surface,
                                    shape, points, listed, count, polygons, contacts,
                                )  # fmt: skip
                                flags = flags | more
                            count = team_number(count, of)
                            listed += 1
                        else:
                            flags = flags | CONTACT_OVERFLOW
            if listed > polygons.first[w, pair]:
                patches += 1
            sync()
    depth = team_max(depth)
    if depth > real(DEEP):
        flags = flags | DEEP_PRESSURE
    polygons.patches[w] = patches
    polygons.depth[w] = depth
    polygons.first[w, pairs] = listed
    polygons.count[w] = listed
    contacts.count[w] = count
    flags = team_bits(flags)
    if lane() == 0:
        contacts.flags[w] = contacts.flags[w] | flags


@struct
class Outlines:
    """Polygons of one world in world axes, (max_polygons, …), for display: vertices, pressures at them, and values."""

    count: wp.array(dtype=int)
    pair: wp.array(dtype=int)
    vertex: wp.array2d(dtype=vec3)
    pressure: wp.array2d(dtype=real)
    normal: wp.array(dtype=vec3)  # from geom A into B
    centroid: wp.array(dtype=vec3)
    force: wp.array(dtype=vec3)  # [N] elastic, on B
    moment: wp.array(dtype=vec3)  # [N m] of this force about the centroid
    # area [m²], stiffness [N/m], largest p/E, least cosine between the normal and the pressure gradients
    values: wp.array(dtype=vec4)


@kernel
def outline(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    geom_X: wp.array2d(dtype=transform),
    polygons: Polygons,
    world: int,
    # out
    outlines: Outlines,
):
    """Outlines of the polygons of a world, without their parts of negative pressure (in the layer of a margin).

    A polygon that lies wholly in this layer has area 0. Launch over the world's polygons.
    """
    k = wp.tid()
    t = int(0)
    while polygons.first[world, t + 1] <= k:
        t += 1
    P = wp.zeros(shape=(ROOM,), dtype=vec3)
    p = fields.pair[t]
    s, o = soft_first(fields, scene, p)
    sign = sign_of(scene, p, s)
    X_s = geom_X[world, s]
    cells = polygons.cells[world, k]
    X = wp.transform_inverse(X_s) * geom_X[world, o]
    side_s = side_of(fields, sizes, world, s)
    side_o = side_of(fields, sizes, world, o)
    cell = cell_of(fields, side_s, cells[0])
    found = meet(fields, side_s, side_o, X, cell, part_of(fields, side_o, X, cells[1]), P)
    if found.count > 0 and fields.geom_shift[s] + fields.geom_shift[o] > real(0.0):
        found.count = clip(P, found.count, -vec4(found.a[0], found.a[1], found.a[2], found.b))
    shape = moments(P, found.count, found.normal)
    stiffness = real(0.0)
    if found.slope_s > real(0.0) and found.slope_o > real(0.0):
        stiffness = shape.area / (real(1.0) / found.slope_s + real(1.0) / found.slope_o)
    n = sign * wp.transform_vector(X_s, found.normal)
    pressure = wp.dot(found.a, shape.centroid) + found.b
    outlines.count[k] = found.count
    outlines.pair[k] = p
    outlines.normal[k] = n
    outlines.centroid[k] = wp.transform_point(X_s, shape.centroid)
    outlines.force[k] = (shape.area * pressure) * n
    outlines.moment[k] = shape.area * wp.cross(wp.transform_vector(X_s, shape.second * found.a), n)
    for i in range(found.count):
        outlines.vertex[k, i] = wp.transform_point(X_s, P[i])
        outlines.pressure[k, i] = wp.dot(found.a, P[i]) + found.b
    largest = deepest(P, found) / softest(side_s, side_o)
    aligned = found.slope_s / wp.length(found.a)
    if found.size_o > real(0.0):
        aligned = wp.min(aligned, found.slope_o / found.size_o)
    outlines.values[k] = vec4(shape.area, stiffness, largest, aligned)
