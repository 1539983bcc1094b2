# SPDX-License-Identifier: Apache-2.0
"""How the contacts between pressure fields change with the motion of their geoms and with what the fields are made of (theory §9).

`rate (worlds, C, RATES, directions)` holds the rates of φ, p, n, c and τ_d of every contact along each direction asked for (`hydroelastic/rates.py`), p and n
in world axes, S at rest. `turn_slopes` makes of the six motions of O the gradients by a motion (ω; u) of geom B about the contact's
point past geom A, as in `contact_variation.py`. On a tape contacts are `pressure_geometry`: what the step found, and rate times change, whose value is 0.
"""

import warp as wp

from ..contact import contacts as contact
from ..contact.hydroelastic.cap_rates import moving_cap
from ..contact.hydroelastic.fields import Fields, Sizes
from ..contact.hydroelastic.find_polygons import Polygons, corner, is_large, sign_of, soft_first
from ..contact.hydroelastic.patch_rates import (
    MovingSums,
    PolygonRates,
    add_moving,
    cut_to_quadrant,
    form,
    moving_patch,
    moving_point,
    moving_points,
    moving_scaled,
    moving_share,
    moving_turned,
    over,
    root,
    stored_polygon,
    times,
)
from ..contact.hydroelastic.patches import COHERENT, choose_normals, nearest_seed, team_vec
from ..contact.hydroelastic.polygon import MAX_VERTICES
from ..contact.hydroelastic.rates import (
    MOTIONS,
    Moving,
    direction_of,
    moving_polygon,
    orthogonal_rate,
)
from ..contact.narrow.features import contact_frame, orthogonal
from ..contact.pair_laws import Contacts, Material, Scene
from ..linalg.lanes import lane, lanes, team_sum
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec4, vec6
from ..tree import spatial as sp

mat43 = wp.types.matrix((4, 3), real)
vec12 = wp.types.vector(12, real)  # by the directions that are no motions

RATES = 9  # φ, p, n, c, τ_d
LAW = wp.constant(7)  # where c and τ_d begin


@struct
class Rates:
    """What the kernels of rates write."""

    number: wp.array(dtype=int)  # of every direction asked for: the six motions first
    rate: wp.array4d(dtype=real)  # (worlds, C, RATES, directions)


@func
def put(
    rates: Rates, w: int, c: int, k: int, X_s: transform, sign: real, phi: real, x: vec3, n: vec3, law: vec2
):  # fmt: skip
    """Rates of a contact along direction k; those of its place and of m are in the frame of S."""
    x_world = wp.transform_vector(X_s, x)
    n_world = sign * wp.transform_vector(X_s, n)
    rates.rate[w, c, 0, k] = phi
    for i in range(3):
        rates.rate[w, c, 1 + i, k] = x_world[i]
        rates.rate[w, c, 4 + i, k] = n_world[i]
    rates.rate[w, c, LAW, k] = law[0]
    rates.rate[w, c, LAW + 1, k] = law[1]


@func
def has_polygons(scene: Scene, fields: Fields, p: int) -> bool:
    """Whether a pair touches by pressure fields, and not in closed form."""
    found = bool(False)
    if p >= scene.point_pairs:
        found = fields.cap[p - scene.point_pairs] == 0
    return found


@kernel(part="caps")
def cap_slopes(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    points: int,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    # out
    rates: Rates,
):
    """Rates of the points of spheres on planes. Launch over (worlds, C, directions)."""
    w, c, k = wp.tid()
    begins = bool(False)
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        begins = p >= scene.point_pairs and not has_polygons(scene, fields, p) and contacts.feature[w, c][2] == 0
    if begins:
        p = contacts.pair[w, c]
        s, o = soft_first(fields, scene, p)
        X_s = geom_X[w, s]
        X = wp.transform_inverse(X_s) * geom_X[w, o]
        way = direction_of(rates.number[k], X_s)
        patch, sums = moving_cap(fields, sizes, material, default_tau, X, w, s, o, way)
        common = moving_points(points, patch, sums)
        sign = sign_of(scene, p, s)
        for q in range(points):
            if c + q < contacts.count[w]:
                phi, x_rate, law = moving_point(common, patch, q)
                put(rates, w, c + q, k, X_s, sign, phi[1], x_rate, patch.rate.normal, vec2(law[1], common.tau[1]))


# Polygons as points.


@func
def put_large(rates: Rates, w: int, c: int, k: int, X_s: transform, sign: real, q: int, m: Moving):
    """Point q of the four of a large polygon."""
    t = orthogonal(m.now.normal)
    t_rate = orthogonal_rate(m.now.normal, m.rate.normal)
    u = wp.cross(m.now.normal, t)
    u_rate = wp.cross(m.rate.normal, t) + wp.cross(m.now.normal, t_rate)
    tt = form(m.now.second, m.rate.second, t, t_rate, t, t_rate)
    tu = form(m.now.second, m.rate.second, t, t_rate, u, u_rate)
    uu = form(m.now.second, m.rate.second, u, u_rate, u, u_rate)
    l_tt = root(tt)
    l_ut = vec2()
    if l_tt[0] > real(0.0):
        l_ut = over(tu, l_tt)
    l_uu = root(uu - times(l_ut, l_ut))
    at = corner(q)
    along_t = at[0] * l_tt
    along_u = at[0] * l_ut + at[1] * l_uu
    arm = along_t[0] * t + along_u[0] * u
    arm_rate = along_t[1] * t + along_t[0] * t_rate + along_u[1] * u + along_u[0] * u_rate
    pressure = vec2(m.now.pressure + wp.dot(m.now.a, arm), m.rate.pressure)
    pressure[1] = pressure[1] + wp.dot(m.rate.a, arm) + wp.dot(m.now.a, arm_rate)
    c_rate = vec2(m.now.c, m.rate.c)
    phi = -times(c_rate, pressure)
    law = over(c_rate, real(0.25) * vec2(m.now.area, m.rate.area))
    put(rates, w, c, k, X_s, sign, phi[1], m.rate.centroid + arm_rate, m.rate.normal, vec2(law[1], m.rate.tau))


@kernel
def polygon_slopes(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    # out
    rates: Rates,
):
    """Rates of the contacts that are polygons of their own, or quarters of one. Launch over (worlds, C, directions)."""
    w, c, k = wp.tid()
    P = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    D = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    spare = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    spare_D = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    distance = wp.zeros(shape=(MAX_VERTICES,), dtype=real)
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        if has_polygons(scene, fields, p):
            s, o = soft_first(fields, scene, p)
            feature = contacts.feature[w, c]
            X_s = geom_X[w, s]
            X = wp.transform_inverse(X_s) * geom_X[w, o]
            d = direction_of(rates.number[k], X_s)
            m = moving_polygon(
                fields, sizes, material, default_tau, X, w, s, o, feature[0], feature[1], d, P, D, spare, spare_D,
                distance,
            )  # fmt: skip
            sign = sign_of(scene, p, s)
            if m.now.area > real(0.0):
                if is_large(fields, o, feature[0], feature[1]):
                    put_large(rates, w, c, k, X_s, sign, feature[2], m)
                else:
                    c_rate = vec2(m.now.c, m.rate.c)
                    phi = -times(c_rate, vec2(m.now.pressure, m.rate.pressure))
                    law = over(c_rate, vec2(m.now.area, m.rate.area))
                    put(rates, w, c, k, X_s, sign, phi[1], m.rate.centroid, m.rate.normal, vec2(law[1], m.rate.tau))
            else:
                put(rates, w, c, k, X_s, sign, real(0.0), vec3(), vec3(), vec2())


# Patches.


@kernel(lanes=True, part="patches")
def list_patches(
    fields: Fields,
    polygons: Polygons,
    # out
    patch: wp.array2d(dtype=int),
):
    """Which patch of its pair a polygon belongs to after `reduce`, −1 where it does not count. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    for t in range(fields.pair.shape[0]):
        first = polygons.first[w, t]
        last = polygons.first[w, t + 1]
        force = vec3()
        total = real(0.0)
        for k in range(first + lane(), last, lanes()):
            values = polygons.values[w, k]
            if values[0] > real(0.0):
                force += (values[0] * values[1]) * polygons.normal[w, k]
                total += values[0] * values[1]
        force = team_vec(force)
        total = team_sum(total)
        seeds = int(1)
        seed = mat43()
        if total > real(0.0):
            if wp.length(force) / total < real(COHERENT):
                seeds, seed = choose_normals(polygons, w, first, last)
        for k in range(first + lane(), last, lanes()):
            values = polygons.values[w, k]
            patch[w, k] = -1
            if values[0] > real(0.0):
                patch[w, k] = nearest_seed(seeds, seed, polygons.normal[w, k])


@kernel(part="patches")
def polygon_rates(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    geom_X: wp.array2d(dtype=transform),
    polygons: Polygons,
    number: wp.array(dtype=int),
    # out
    of_polygons: PolygonRates,
):
    """Rates of the polygons that count. Launch over (worlds, max_polygons, directions)."""
    w, k, d = wp.tid()
    P = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    D = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    spare = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    spare_D = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    distance = wp.zeros(shape=(MAX_VERTICES,), dtype=real)
    if k < polygons.count[w]:
        if of_polygons.patch[w, k] >= 0:
            t = int(0)
            while polygons.first[w, t + 1] <= k:
                t += 1
            s, o = soft_first(fields, scene, fields.pair[t])
            cells = polygons.cells[w, k]
            X_s = geom_X[w, s]
            X = wp.transform_inverse(X_s) * geom_X[w, o]
            way = direction_of(number[d], X_s)
            m = moving_polygon(
                fields, sizes, material, default_tau, X, w, s, o, cells[0], cells[1], way, P, D, spare, spare_D,
                distance,
            )  # fmt: skip
            of_polygons.normal[w, k, d] = m.rate.normal
            of_polygons.centroid[w, k, d] = m.rate.centroid
            of_polygons.second[w, k, d] = m.rate.second
            of_polygons.a[w, k, d] = m.rate.a
            of_polygons.values[w, k, d] = vec4(m.rate.area, m.rate.pressure, m.rate.c, m.rate.tau)


@kernel(part="patches")
def patch_slopes(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    points: int,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    polygons: Polygons,
    of_polygons: PolygonRates,
    # out
    rates: Rates,
):
    """Rates of the points of patches: a thread does all of the same sums. Launch over (worlds, C, directions)."""
    w, c, d = wp.tid()
    P = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    D = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    spare = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    spare_D = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    distance = wp.zeros(shape=(MAX_VERTICES,), dtype=real)
    begins = bool(False)
    if c < contacts.count[w]:
        begins = has_polygons(scene, fields, contacts.pair[w, c]) and contacts.feature[w, c][2] == 0
    if begins:
        p = contacts.pair[w, c]
        b = contacts.feature[w, c][0]
        s, o = soft_first(fields, scene, p)
        X_s = geom_X[w, s]
        X = wp.transform_inverse(X_s) * geom_X[w, o]
        way = direction_of(rates.number[d], X_s)
        t = p - scene.point_pairs
        first = polygons.first[w, t]
        last = polygons.first[w, t + 1]
        patch = moving_patch(polygons, of_polygons, w, first, last, b, d)
        at = corner(contacts.feature[w, c][1])
        sums = MovingSums()
        for k in range(first, last):
            if of_polygons.patch[w, k] == b:
                m = stored_polygon(polygons, of_polygons, w, k, d)
                share = moving_share(m, patch)
                x = m.now.centroid - patch.now.centre
                along_t = at[0] * wp.dot(x, patch.now.t)
                along_u = at[1] * wp.dot(x, patch.now.u)
                radius = polygons.values[w, k][4]
                if points != 16 or (along_t >= radius and along_u >= radius):
                    sums = add_moving(sums, share, m, patch)
                elif along_t > -radius and along_u > -radius:
                    cells = polygons.cells[w, k]
                    # once more, for its vertices
                    whole = moving_polygon(
                        fields, sizes, material, default_tau, X, w, s, o, cells[0], cells[1], way, P, D, spare,
                        spare_D, distance,
                    )  # fmt: skip
                    if whole.now.area > real(0.0):
                        part = cut_to_quadrant(P, D, spare, spare_D, distance, whole.count, m, patch, at)
                        if part.now.area > real(0.0):
                            sums = add_moving(sums, share, part, patch)
        if sums.now.K > real(0.0):
            number = int(4)
            if points == 5:
                number = int(5)
            if points == 16:
                own = moving_turned(patch, sums)
                sums = moving_scaled(sums, patch, own)
                patch = own
            common = moving_points(points, patch, sums)
            sign = sign_of(scene, p, s)
            for q in range(number):
                if c + q < contacts.count[w]:
                    phi, x_rate, law = moving_point(common, patch, q)
                    put(rates, w, c + q, d, X_s, sign, phi[1], x_rate, patch.rate.normal, vec2(law[1], common.tau[1]))


# Slopes by the motion of geom B past geom A.


@kernel
def turn_slopes(
    scene: Scene,
    fields: Fields,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    rates: Rates,
    # out
    slope: wp.array3d(dtype=vec6),
    law_slope: wp.array3d(dtype=vec6),
    parameter_slope: wp.array3d(dtype=vec12),
):
    """Gradients of (φ, p, n) and of (c, τ_d) by the motion of geom B about the contact's point, and of all nine by parameters where that array
    has columns. Launch over (worlds, C)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        if p >= scene.point_pairs:
            s, o = soft_first(fields, scene, p)
            arm = wp.transform_get_translation(geom_X[w, s]) - contacts.point[w, c]
            frame = contacts.frame[w, c]
            n = vec3(frame[0, 2], frame[1, 2], frame[2, 2])
            for i in range(RATES):
                turn = vec3(rates.rate[w, c, i, 0], rates.rate[w, c, i, 1], rates.rate[w, c, i, 2])
                shift = vec3(rates.rate[w, c, i, 3], rates.rate[w, c, i, 4], rates.rate[w, c, i, 5])
                turn += wp.cross(arm, shift)
                if o == scene.pair_geom[p, 0]:  # B is S: A moves back past it, and then all is carried along
                    turn = -turn
                    shift = -shift
                    if i >= 1 and i < 4:
                        shift[i - 1] = shift[i - 1] + real(1.0)
                    elif i >= 4 and i < LAW:
                        e = vec3()
                        e[i - 4] = real(1.0)
                        turn += wp.cross(n, e)
                row = sp.join(turn, shift)
                if i < LAW:
                    slope[w, c, i] = row
                else:
                    law_slope[w, c, i - LAW] = row
                if parameter_slope.shape[1] > 0:
                    by = vec12()
                    for k in range(MOTIONS, rates.number.shape[0]):
                        by[rates.number[k] - MOTIONS] = rates.rate[w, c, i, k]
                    parameter_slope[w, c, i] = by


# On a tape.


@struct
class Frozen:
    """What a step found; nothing of it has a gradient."""

    geom_X: wp.array2d(dtype=transform)
    slope: wp.array3d(dtype=vec6)
    law_slope: wp.array3d(dtype=vec6)
    parameter_slope: wp.array3d(dtype=vec12)
    size: wp.array2d(dtype=vec3)
    modulus: wp.array2d(dtype=real)
    thickness: wp.array2d(dtype=real)
    dissipation_time: wp.array2d(dtype=real)


@func
def small_motion(X: transform, X_0: transform, point: vec3) -> vec6:
    """The small motion (ω; u) about `point` from X_0 to X."""
    r = wp.transform_get_rotation(X) * wp.quat_inverse(wp.transform_get_rotation(X_0))
    omega = real(2.0) * vec3(r[0], r[1], r[2])
    x_0 = wp.transform_get_translation(X_0)
    return sp.join(omega, wp.transform_get_translation(X) - x_0 + wp.cross(omega, point - x_0))


@func
def changed(x: real, x_0: real) -> real:
    """x − x_0, whose value is 0; without a gradient where x is no number."""
    change = real(0.0)
    if x_0 - x_0 == real(0.0):
        change = x - x_0
    return change


@func
def parameter_changes(
    frozen: Frozen, size: wp.array2d(dtype=vec3), modulus: wp.array2d(dtype=real), thickness: wp.array2d(dtype=real),
    dissipation_time: wp.array2d(dtype=real), w: int, s: int, o: int,
) -> vec12:  # fmt: skip
    """What the parameters differ by from those of the step, in the order of the directions."""
    i = w % size.shape[0]
    e = w % modulus.shape[0]
    t = w % thickness.shape[0]
    d = w % dissipation_time.shape[0]
    size_s = size[i, s] - frozen.size[i, s]
    size_o = size[i, o] - frozen.size[i, o]
    return vec12(
        changed(modulus[e, s], frozen.modulus[e, s]), changed(modulus[e, o], frozen.modulus[e, o]),
        size_s[0], size_s[1], size_s[2], size_o[0], size_o[1], size_o[2],
        changed(thickness[t, s], frozen.thickness[t, s]), changed(thickness[t, o], frozen.thickness[t, o]),
        changed(dissipation_time[d, s], frozen.dissipation_time[d, s]),
        changed(dissipation_time[d, o], frozen.dissipation_time[d, o]),
    )  # fmt: skip


@func
def rows_times(slope: wp.array3d(dtype=vec6), w: int, c: int, i: int, x: vec6) -> vec3:
    """Three rows from the i-th on."""
    return vec3(wp.dot(slope[w, c, i], x), wp.dot(slope[w, c, i + 1], x), wp.dot(slope[w, c, i + 2], x))


@func
def parameters_times(slope: wp.array3d(dtype=vec12), w: int, c: int, i: int, x: vec12) -> vec3:
    return vec3(wp.dot(slope[w, c, i], x), wp.dot(slope[w, c, i + 1], x), wp.dot(slope[w, c, i + 2], x))


@kernel(taped=True)
def pressure_geometry(
    scene: Scene,
    contacts: Contacts,
    frozen: Frozen,
    soft: wp.array(dtype=int),
    geom_pose: wp.array3d(dtype=real),
    link_X: wp.array2d(dtype=transform),
    geom_size: wp.array2d(dtype=vec3),
    modulus: wp.array2d(dtype=real),
    thickness: wp.array2d(dtype=real),
    dissipation_time: wp.array2d(dtype=real),
    # out
    phi: wp.array2d(dtype=real),
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
    compliance: wp.array2d(dtype=vec2),
):
    """Distance, point, frame and law of the contacts between pressure fields; `soft`: which geom of every pair is S. Launch over (worlds, C)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        if p >= scene.point_pairs:
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            at = contacts.point[w, c]
            F = contacts.frame[w, c]
            n = vec3(F[0, 2], F[1, 2], F[2, 2])
            law = contacts.compliance[w, c]
            motion_a = small_motion(contact.geom_pose_world(scene, geom_pose, link_X, w, a), frozen.geom_X[w, a], at)
            motion_b = small_motion(contact.geom_pose_world(scene, geom_pose, link_X, w, b), frozen.geom_X[w, b], at)
            past = motion_b - motion_a
            x = at + sp.linear(motion_a) + rows_times(frozen.slope, w, c, 1, past)
            turned = n + wp.cross(sp.angular(motion_a), n) + rows_times(frozen.slope, w, c, 4, past)
            distance = contacts.phi[w, c] + wp.dot(frozen.slope[w, c, 0], past)
            softness = law[0] + wp.dot(frozen.law_slope[w, c, 0], past)
            tau = law[1] + wp.dot(frozen.law_slope[w, c, 1], past)
            if frozen.parameter_slope.shape[1] > 0:
                s = soft[p - scene.point_pairs]
                change = parameter_changes(frozen, geom_size, modulus, thickness, dissipation_time, w, s, a + b - s)
                distance += wp.dot(frozen.parameter_slope[w, c, 0], change)
                x += parameters_times(frozen.parameter_slope, w, c, 1, change)
                turned += parameters_times(frozen.parameter_slope, w, c, 4, change)
                softness += wp.dot(frozen.parameter_slope[w, c, LAW], change)
                tau += wp.dot(frozen.parameter_slope[w, c, LAW + 1], change)
            phi[w, c] = distance
            point[w, c] = x
            frame[w, c] = contact_frame(turned)
            compliance[w, c] = vec2(softness, tau)
