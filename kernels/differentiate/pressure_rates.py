# SPDX-License-Identifier: Apache-2.0
"""Rates of contacts between pressure fields along directions: the forward code with dual numbers (theory §9).

A *direction* is a motion (ω; u) of geom O past the soft geom S, about the origin of S, or a change of a parameter of
the fields. The cells that meet, the polygons that count, the patches and the quadrants are those that the step found.
The kernels are launched in the copy with dual numbers. Each thread, or all lanes of a world, has one direction.
"""

import warp as wp

from ..contact.hydroelastic.caps import cap_of, cap_patch, cap_sums, plane_and_centre
from ..contact.hydroelastic.fields import Fields, Side, Sizes, cell_of, part_of, side_of
from ..contact.hydroelastic.find_polygons import (
    add_polygon,
    is_large,
    polygon_law,
    sign_of,
    soft_first,
)
from ..contact.hydroelastic.listed import MovingPolygons
from ..contact.hydroelastic.patches import (
    Patch,
    add_points,
    find_patch,
    mat43,
    normals_of,
    quadrant_sums,
    turned,
)
from ..contact.hydroelastic.point_target import Rates
from ..contact.hydroelastic.polygon import ROOM, Moments, meet, moments
from ..contact.narrow.manifold import SPHERE
from ..contact.pair_laws import Contacts, Material, Scene, geom_dissipation_time
from ..number.num import (
    matrix_rates,
    moving_transform,
    num,
    num2,
    num3,
    num_transform,
    rate_of,
    rates_of,
    value_of,
    values_of,
    with_rate,
    with_rates,
)
from ..real import func, kernel, real, struct, transform, vec3, vec4

# Directions: rotations of O about the world's three axes, translations along them, then parameters, each for S and O.
MOTIONS = wp.constant(6)
MODULUS = wp.constant(6)
SIZE = wp.constant(8)  # three of S, three of O
THICKNESS = wp.constant(14)
DISSIPATION = wp.constant(16)


@struct
class Pair:
    """Two geoms that meet, S soft, along a direction."""

    X_s: transform
    X: num_transform  # pose of O in the frame of S
    side_s: Side
    side_o: Side
    tau_s: num
    tau_o: num


@func
def unit(i: int) -> vec3:
    """The unit vector along axis i; 0 if i is not an axis."""
    e = vec3()
    if i >= 0 and i < 3:
        e[i] = real(1.0)
    return e


@func
def one_if(same: bool) -> real:
    """1 if `same`, else 0."""
    return wp.where(same, real(1.0), real(0.0))


@func
def moving_side(side: Side, modulus: real, size: vec3, thickness: real) -> Side:
    """A side whose parameters have these rates."""
    moving = side
    form = side.form
    form.size = with_rates(values_of(form.size), size)
    form.thickness = with_rate(value_of(form.thickness), thickness)
    moving.form = form
    moving.modulus = with_rate(value_of(side.modulus), modulus)
    return moving


@func
def moving_pair(
    fields: Fields, sizes: Sizes, material: Material, default_tau: real, geom_X: wp.array2d(dtype=transform), w: int,
    s: int, o: int, direction: int,
) -> Pair:  # fmt: skip
    """Geoms S and O of a world along a direction."""
    pair = Pair()
    pair.X_s = geom_X[w, s]
    turn = wp.transform_get_rotation(pair.X_s)
    omega = wp.quat_rotate_inv(turn, unit(direction))
    u = wp.quat_rotate_inv(turn, unit(direction - 3))
    pair.X = moving_transform(wp.transform_inverse(pair.X_s) * geom_X[w, o], omega, u)
    side_s = side_of(fields, sizes, w, s)
    side_o = side_of(fields, sizes, w, o)
    size_s = unit(direction - SIZE)
    size_o = unit(direction - SIZE - 3)
    pair.side_s = moving_side(side_s, one_if(direction == MODULUS), size_s, one_if(direction == THICKNESS))
    pair.side_o = moving_side(side_o, one_if(direction == MODULUS + 1), size_o, one_if(direction == THICKNESS + 1))
    tau_s = geom_dissipation_time(material.dissipation_time, w, s, default_tau)
    tau_o = geom_dissipation_time(material.dissipation_time, w, o, default_tau)
    pair.tau_s = with_rate(tau_s, one_if(direction == DISSIPATION))
    pair.tau_o = with_rate(tau_o, one_if(direction == DISSIPATION + 1))
    return pair


@func
def meet_again(fields: Fields, pair: Pair, i: int, j: int, P: wp.array(dtype=num3)):
    """The polygon of cell i of S with part j of O, and its moments."""
    shape = Moments()
    found = meet(
        fields, pair.side_s, pair.side_o, pair.X, cell_of(fields, pair.side_s, i),
        part_of(fields, pair.side_o, pair.X, j), P,
    )  # fmt: skip
    if found.count > 0:
        shape = moments(P, found.count, found.normal)
    return found, shape


@func
def has_polygons(scene: Scene, fields: Fields, p: int) -> bool:
    """Whether a pair touches by pressure fields, and not in closed form."""
    found = bool(False)
    if p >= scene.point_pairs:
        found = fields.cap[p - scene.point_pairs] == 0
    return found


@func
def clear(target: Rates, w: int, c: int, count: int):
    """Clear the rates of `count` contacts from c on."""
    for q in range(count):
        for i in range(target.rate.shape[2]):
            target.rate[w, c + q, i, target.direction] = real(0.0)


@kernel
def polygon_point_rates(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    number: wp.array(dtype=int),
    # out
    rate: wp.array4d(dtype=real),
):
    """Rates of contacts that are one polygon each, or a quarter of one. Launch over (worlds, C, directions)."""
    w, c, d = wp.tid()
    P = wp.zeros(shape=(ROOM,), dtype=num3)
    begins = bool(False)
    if c < contacts.count[w]:
        begins = has_polygons(scene, fields, contacts.pair[w, c]) and contacts.feature[w, c][2] == 0
    if begins:
        p = contacts.pair[w, c]
        s, o = soft_first(fields, scene, p)
        i = contacts.feature[w, c][0]
        j = contacts.feature[w, c][1]
        pair = moving_pair(fields, sizes, material, default_tau, geom_X, w, s, o, number[d])
        found, shape = meet_again(fields, pair, i, j, P)
        target = Rates()
        target.rate = rate
        target.direction = d
        if shape.area > num(0.0):
            law = polygon_law(found, pair.tau_s, pair.tau_o)
            _count, _flags = add_polygon(fields, scene, w, p, i, j, pair.X_s, found, shape, law, c, target)
        else:
            clear(target, w, c, wp.min(wp.where(is_large(fields, o, i, j), 4, 1), contacts.count[w] - c))


@kernel(part="patches")
def polygon_rates(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    geom_X: wp.array2d(dtype=transform),
    number: wp.array(dtype=int),
    # in and out
    polygons: MovingPolygons,
):
    """Rates of the polygons that count. Launch over (worlds, max_polygons, directions)."""
    w, k, d = wp.tid()
    P = wp.zeros(shape=(ROOM,), dtype=num3)
    counts = bool(False)
    if k < polygons.fixed.count[w]:
        counts = polygons.fixed.values[w, k][0] > real(0.0)
    if counts:
        t = int(0)
        while polygons.fixed.first[w, t + 1] <= k:
            t += 1
        s, o = soft_first(fields, scene, fields.pair[t])
        cells = polygons.fixed.cells[w, k]
        pair = moving_pair(fields, sizes, material, default_tau, geom_X, w, s, o, number[d])
        found, shape = meet_again(fields, pair, cells[0], cells[1], P)
        law = num2()
        if shape.area > num(0.0):
            law = polygon_law(found, pair.tau_s, pair.tau_o)
        pressure = wp.dot(found.a, shape.centroid) + found.b
        polygons.normal[w, k, d] = rates_of(found.normal)
        polygons.centroid[w, k, d] = rates_of(shape.centroid)
        polygons.second[w, k, d] = matrix_rates(shape.second)
        polygons.gradient[w, k, d] = rates_of(found.a)
        polygons.values[w, k, d] = vec4(rate_of(shape.area), rate_of(pressure), rate_of(law[0]), rate_of(law[1]))


@kernel(lanes=True, part="patches")
def patch_point_rates(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    points: int,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    polygons: MovingPolygons,
    number: wp.array(dtype=int),
    # out
    rate: wp.array4d(dtype=real),
):
    """Rates of the points of patches, 4, 5 or 16 each. Launch over (worlds, directions, lanes)."""
    w, d, _lane = wp.tid()
    listed = polygons
    listed.direction = d
    target = Rates()
    target.rate = rate
    target.direction = d
    each = wp.where(points == 5, 5, 4)
    pair = Pair()
    patch = Patch()
    seed = mat43()
    seeds = int(0)
    first = int(0)
    last = int(0)
    before = wp.vec2i(-1, -1)  # pair and patch of the previous points
    c = int(0)
    while c < contacts.count[w]:
        p = contacts.pair[w, c]
        if has_polygons(scene, fields, p):
            s, o = soft_first(fields, scene, p)
            feature = contacts.feature[w, c]
            if p != before[0]:
                pair = moving_pair(fields, sizes, material, default_tau, geom_X, w, s, o, number[d])
                first = polygons.fixed.first[w, p - scene.point_pairs]
                last = polygons.fixed.first[w, p - scene.point_pairs + 1]
                seeds, seed = normals_of(listed, w, first, last)
            if p != before[0] or feature[0] != before[1]:
                patch, _there = find_patch(w, first, last, seeds, seed, feature[0], listed)
            before = wp.vec2i(p, feature[0])
            quadrant = wp.where(points == 16, feature[1], -1)
            sums = quadrant_sums(
                fields, pair.side_s, pair.side_o, pair.X, w, first, last, seeds, seed, feature[0], patch, quadrant,
                listed,
            )  # fmt: skip
            if sums.K > num(0.0):
                own = patch
                if points == 16:
                    own, sums = turned(patch, sums)
                _count, _flags = add_points(
                    each, w, p, wp.vec2i(feature[0], feature[1]), pair.X_s, sign_of(scene, p, s), own, sums, c, target
                )  # fmt: skip
            else:
                clear(target, w, c, wp.min(each, contacts.count[w] - c))
            c += each
        else:
            c += 1


@kernel(lanes=True, part="caps")
def cap_point_rates(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    points: int,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    number: wp.array(dtype=int),
    # out
    rate: wp.array4d(dtype=real),
):
    """Rates of the points of spheres on planes. Launch over (worlds, directions, lanes)."""
    w, d, _lane = wp.tid()
    target = Rates()
    target.rate = rate
    target.direction = d
    c = int(0)
    while c < contacts.count[w]:
        p = contacts.pair[w, c]
        if p >= scene.point_pairs and not has_polygons(scene, fields, p):
            s, o = soft_first(fields, scene, p)
            pair = moving_pair(fields, sizes, material, default_tau, geom_X, w, s, o, number[d])
            up, across, centre, height = plane_and_centre(fields, pair.X, s)
            cap = cap_of(fields, pair.side_s, pair.side_o, s, height)
            patch = cap_patch(up, across, centre, cap.height, fields.geom_type[s] == SPHERE)
            sums = cap_sums(cap, patch, pair.tau_s)
            _count, _flags = add_points(
                points, w, p, wp.vec2i(0, 0), pair.X_s, sign_of(scene, p, s), patch, sums, c, target
            )  # fmt: skip
            c += points
        else:
            c += 1
