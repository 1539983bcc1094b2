# SPDX-License-Identifier: Apache-2.0
"""Patches of hydroelastic contact, each reduced to 4, 5 or 16 contact points (docs/hydroelastic.md).

A patch is all polygons of a pair of geoms whose normals are about the same. The force is F = Σ A p n, n̄ = F/|F|,
c_i = n_i·n̄, and k_i = A_i/c is the stiffness. t1 and t2 are axes across n̄. Then

    K = Σ k_i c_i,   c = Σ k_i c_i x_i/K,   S = Σ k_i c_i P((x_i − c)(x_i − c)ᵀ + C_i)Pᵀ/K,   P = (t1 t2)ᵀ
    f0 = Σ A_i p_i c_i,   m = Σ c_i P(A_i p_i (x_i − c) + A_i C_i ∇p),   β = S⁻¹ m/K
    L Lᵀ = S,   y_q = L (±1, ±1)/√(1 − w0) with weight (1 − w0)/4,   y_0 = 0 with weight w0
    k_q = K weight,   −φ_q = f0/K + β·y_q

These points keep the force, the moments about t1 and t2, the stiffness and its second moments. With five points,
w0 = 1 − (T/T4)². Then the four outer points hold no more torsion by friction than the patch, T ≈ f0 κ √tr S_p, with the
covariance S_p of the pressure. T4 is the torsion that four points hold. Sixteen points are four in each quadrant: the
lines through c along t1 and t2 cut the polygons. Only polygons that push at the velocity before the step count.
"""

import warp as wp

from ...flags import CONTACT_OVERFLOW
from ...linalg.lanes import lane, lanes, sync, team_max, team_sum
from ...number.num import (
    num,
    num2,
    num3,
    num4,
    num33,
    num_transform,
    rate_of,
    value_of,
    values_of,
    with_rate,
)
from ...real import CALLED, DUAL, func, kernel, real, struct, transform, vec3, vec6
from ...tree.passes import Topology
from ..contacts import point_velocity
from ..narrow.features import orthogonal
from ..pair_laws import Contacts, Scene
from .fields import Fields, Side, Sizes, cell_of, part_of, side_of
from .find_polygons import Polygons, corner, sign_of, soft_first
from .listed import (
    Listed,
    listed_cells,
    listed_centroid,
    listed_gradient,
    listed_normal,
    listed_second,
    listed_values,
)
from .point_target import Target, place_point, room_of
from .polygon import ROOM, clip, meet, moments

mat43 = wp.types.matrix((4, 3), real)

MOST_NORMALS = wp.constant(4)  # most patches of a pair
COHERENT = 0.99  # least |Σ A p n|/Σ A p of polygons that make one patch
SAME_NORMAL = 0.95  # cosine above which two normals always belong to one patch
LEAST_COSINE = 0.1  # least cosine between the normals of a patch and of a quadrant of it
LARGEST_CENTRE = 0.75  # largest w0
LEAST_CENTRE = 0.05  # least w0: the solvers cannot handle a point without stiffness
# κ = TORSION + TORSION_ROUND · roundness of S_p, 2 √det S_p/tr S_p: a fit to patches of all shapes, ±5 %.
TORSION = 0.863
TORSION_ROUND = 0.061
# A normal goes to a later seed only if its cosine is larger by more than this: rounding must not separate equals.
TIE = 1e-6
# Polygons with a smaller c |∇p| are stiff. Where the pressure does not grow along the normal, it is at least 20
# (1/`polygon.LEAST_SLOPE`).
STIFF = 19.9
THIN = 1e-12  # least square of L's diagonal, relative to the trace of S
SLACK = 1.001  # factor on the bound |S_tu| <= √(S_tt S_uu), for rounding


@struct
class Sums:
    """Sums over the polygons of a patch, or of a quadrant of it, with positions relative to a point."""

    K: num
    Kx: num3
    Kxx: num33
    Ktau: num
    f: num
    fx: num3
    fxx: num33
    force: num3


@struct
class Patch:
    """Axes and centre of a patch in the frame of S: n̄ (into S), t1 (`t`), t2 (`u`), and the centre of stiffness."""

    normal: num3
    t: num3
    u: num3
    centre: num3


@func
def team_num(x: num) -> num:
    """Sum over the lanes; of a dual number also the sum of the rates."""
    if DUAL:
        return with_rate(team_sum(value_of(x)), team_sum(rate_of(x)))
    else:
        return team_sum(x)


@func
def team_vec(x: num3) -> num3:
    return num3(team_num(x[0]), team_num(x[1]), team_num(x[2]))


@func
def team_symmetric(A: num33) -> num33:
    """Sum of a symmetric matrix over the lanes."""
    xx = team_num(A[0, 0])
    yy = team_num(A[1, 1])
    zz = team_num(A[2, 2])
    xy = team_num(A[0, 1])
    xz = team_num(A[0, 2])
    yz = team_num(A[1, 2])
    return num33(xx, xy, xz, xy, yy, yz, xz, yz, zz)


@func
def team_sums(s: Sums) -> Sums:
    total = Sums()
    total.K = team_num(s.K)
    total.Kx = team_vec(s.Kx)
    total.Kxx = team_symmetric(s.Kxx)
    total.Ktau = team_num(s.Ktau)
    total.f = team_num(s.f)
    total.fx = team_vec(s.fx)
    total.fxx = team_symmetric(s.fxx)
    total.force = team_vec(s.force)
    return total


@func(inline=CALLED)
def add_part(
    s: Sums, n: num3, share: num, area: num, p: num, c: num, tau: num, a: num3, x: num3, second: num33
) -> Sums:  # fmt: skip
    """Add a polygon, or a part of one, to the sums: n its normal, share = c_i, x its centroid from the sums' point."""
    k = wp.max(share, num(0.0)) * area / c  # polygons that face away from n̄ have force and no stiffness
    f = share * area * p
    spread = wp.outer(x, x) + second
    Ca = second * a
    total = Sums()
    total.K = s.K + k
    total.Kx = s.Kx + k * x
    total.Kxx = s.Kxx + k * spread
    total.Ktau = s.Ktau + k * tau
    total.force = s.force + (area * p) * n
    total.f = s.f + f
    total.fx = s.fx + f * x + (share * area) * Ca
    total.fxx = s.fxx + f * spread + (share * area) * (wp.outer(x, Ca) + wp.outer(Ca, x))
    return total


@func
def pushes(
    topology: Topology, scene: Scene, link_X: wp.array2d(dtype=transform), link_V: wp.array2d(dtype=vec6), h: real,
    w: int, p: int, sign: real, X_s: transform, polygons: Polygons, k: int,
) -> bool:  # fmt: skip
    """Whether polygon k has a positive normal force at the velocity v0."""
    values = polygons.values[w, k]
    x = wp.transform_point(X_s, polygons.centroid[w, k])
    n = sign * wp.transform_vector(X_s, polygons.normal[w, k])
    u_a = point_velocity(topology, link_X, link_V, w, scene.geom_link[scene.pair_geom[p, 0]], x)
    u_b = point_velocity(topology, link_X, link_V, w, scene.geom_link[scene.pair_geom[p, 1]], x)
    return values[1] * values[2] > (h + values[3]) * wp.dot(n, u_b - u_a)


@func(inline=CALLED)
def choose_normals(polygons: Listed, w: int, first: int, last: int):
    """Number of patches of a pair, at most MOST_NORMALS, and their seed normals.

    The first seed is the normal of the polygon with the largest force. Each further one has the largest force times
    (1 − cosine to the nearest seed). Called by all lanes.
    """
    seed = mat43()
    seeds = int(0)
    searching = bool(True)
    while searching and seeds < MOST_NORMALS:
        most = real(0.0)
        best = int(-1)
        for k in range(first + lane(), last, lanes()):
            values = listed_values(polygons, w, k)
            n = values_of(listed_normal(polygons, w, k))
            nearest = real(-1.0)
            for b in range(seeds):
                nearest = wp.max(nearest, n[0] * seed[b, 0] + n[1] * seed[b, 1] + n[2] * seed[b, 2])
            weight = value_of(values[0] * values[1]) * (real(1.0) - nearest)
            if values[0] > num(0.0) and nearest < real(SAME_NORMAL) and weight > most:
                most = weight
                best = k
        lead = team_max(most)
        own = real(-1e9)
        if best >= 0 and most == lead:
            own = -real(best)
        chosen = int(-team_max(own))  # among equals the first polygon
        if lead > real(0.0):
            n = values_of(listed_normal(polygons, w, chosen))
            for d in range(3):
                seed[seeds, d] = n[d]
            seeds += 1
        else:
            searching = bool(False)
    return seeds, seed


@func
def nearest_seed(seeds: int, seed: mat43, n: vec3) -> int:
    best = int(0)
    most = real(-2.0)
    for b in range(seeds):
        x = n[0] * seed[b, 0] + n[1] * seed[b, 1] + n[2] * seed[b, 2]
        if x > most + real(TIE):
            most = x
            best = b
    return best


@func
def coherence(polygons: Listed, w: int, first: int, last: int) -> real:
    """|Σ A p n|/Σ A p of the polygons that count (area > 0). Called by all lanes."""
    force = num3()
    total = num(0.0)
    for k in range(first + lane(), last, lanes()):
        values = listed_values(polygons, w, k)
        if values[0] > num(0.0):
            force += (values[0] * values[1]) * listed_normal(polygons, w, k)
            total += values[0] * values[1]
    force = team_vec(force)
    total = team_num(total)
    share = real(1.0)
    if total > num(0.0):
        share = value_of(wp.length(force) / total)
    return share


@func
def normals_of(polygons: Listed, w: int, first: int, last: int):
    """Number and seed normals of the patches of a pair; a single patch has no seed normal. Called by all lanes."""
    seeds = int(1)
    seed = mat43()
    if coherence(polygons, w, first, last) < real(COHERENT):
        seeds, seed = choose_normals(polygons, w, first, last)
    return seeds, seed


@func
def share_of(polygons: Listed, w: int, k: int, patch: Patch) -> num:
    """c_i of polygon k."""
    return wp.dot(listed_normal(polygons, w, k), patch.normal)


@func
def shape_of(S: num33, patch: Patch):
    """The Cholesky factor (L_tt, L_ut, L_uu) of P S Pᵀ."""
    # for a sliver far from the centre, all three may be rounding error, with any sign
    tt = wp.max(wp.dot(patch.t, S * patch.t), num(0.0))
    tu = wp.dot(patch.t, S * patch.u)
    uu = wp.max(wp.dot(patch.u, S * patch.u), num(0.0))
    least = num(THIN) * (tt + uu) + num(1e-30)
    l_tt = wp.sqrt(wp.max(tt, least))
    reach = num(SLACK) * wp.sqrt(uu)
    l_ut = wp.clamp(tu / l_tt, -reach, reach)
    l_uu = wp.sqrt(wp.max(uu - l_ut * l_ut, least))
    return l_tt, l_ut, l_uu


@func
def torsion(s: Sums, patch: Patch) -> num:
    """T = ∫ p |y − y_p| dA about the centre of pressure y_p, estimated from the covariance of p."""
    mean = s.fx / s.f
    cov = s.fxx / s.f - wp.outer(mean, mean)
    tt = wp.dot(patch.t, cov * patch.t)
    tu = wp.dot(patch.t, cov * patch.u)
    uu = wp.dot(patch.u, cov * patch.u)
    spread = wp.max(tt + uu, num(1e-30))
    roundness = num(2.0) * wp.sqrt(wp.max(tt * uu - tu * tu, num(0.0))) / spread
    return s.f * (num(TORSION) + num(TORSION_ROUND) * roundness) * wp.sqrt(spread)


@func(inline=CALLED)
def add_points(
    points: int, w: int, p: int, feature: wp.vec2i, X_s: transform, sign: real, patch: Patch, s: Sums, count: int,
    target: Target,
):  # fmt: skip
    """Store the four or five contact points of the sums; return the new number of contacts, and flags.

    Called by all lanes, each of which writes one point.
    """
    centre = s.Kx / s.K
    l_tt, l_ut, l_uu = shape_of(s.Kxx / s.K - wp.outer(centre, centre), patch)
    f = s.f
    moment = s.fx - f * centre
    # β·L z for z = (±1, ±1): L⁻¹ m/K = Lᵀβ.
    z_t = wp.dot(patch.t, moment) / (l_tt * s.K)
    z_u = (wp.dot(patch.u, moment) / s.K - l_ut * z_t) / l_uu
    depth = f / s.K
    w0 = num(0.0)
    if points == 5:
        w0 = num(LEAST_CENTRE)
        # T of four points: each has f_q = K/4 (depth + z·(±1, ±1)).
        about = Sums()
        about.f = f
        about.fx = moment
        about.fxx = s.fxx - wp.outer(centre, s.fx) - wp.outer(s.fx, centre) + f * wp.outer(centre, centre)
        T = torsion(about, patch)
        y_t = wp.dot(patch.t, moment) / f
        y_u = wp.dot(patch.u, moment) / f
        T_4 = num(0.0)
        for q in range(4):
            at = corner(q)
            f_q = wp.max(num(0.25) * s.K * (depth + z_t * at[0] + z_u * at[1]), num(0.0))
            d_t = l_tt * at[0] - y_t
            d_u = l_ut * at[0] + l_uu * at[1] - y_u
            T_4 += f_q * wp.sqrt(d_t * d_t + d_u * d_u)
        if T_4 > num(0.0):
            w0 = wp.clamp(num(1.0) - (T / T_4) * (T / T_4), num(LEAST_CENTRE), num(LARGEST_CENTRE))
    spread = num(1.0) / wp.sqrt(num(1.0) - w0)
    tilt = (wp.abs(z_t) + wp.abs(z_u)) * spread
    scale = num(1.0)
    if tilt > depth:
        scale = depth / tilt
    tau = s.Ktau / s.K
    number = int(4)
    if points == 5:
        number = int(5)
    for q in range(lane(), number, lanes()):
        c = count + q
        if c < room_of(target):
            at = corner(q)
            weight = num(0.25) * (num(1.0) - w0)
            arm = spread * ((l_tt * at[0]) * patch.t + (l_ut * at[0] + l_uu * at[1]) * patch.u)
            # rounding must not make it negative: contacts with φ > 0 have no dissipation
            pressed = wp.max(depth + scale * spread * (z_t * at[0] + z_u * at[1]), num(0.0))
            if q == 4:
                arm = num3()
                pressed = depth
                weight = w0
            place_point(
                target, w, c, p, wp.vec3i(feature[0], feature[1], q), X_s, sign, patch.normal,
                patch.centre + centre + arm, -pressed, num(1.0) / (s.K * weight), tau,
            )  # fmt: skip
    now = count + number
    flags = int(0)
    if now > room_of(target):
        now = room_of(target)
        flags = int(CONTACT_OVERFLOW)
    return now, flags


@func
def turned(patch: Patch, s: Sums):
    """Quadrant of a patch with the normal of its own force, and its sums rescaled to shares c_i of this normal."""
    own = Patch()
    own.centre = patch.centre
    own.normal = wp.normalize(s.force)
    own.t = orthogonal(own.normal)
    own.u = wp.cross(own.normal, own.t)
    ratio = num(1.0) / wp.max(wp.dot(own.normal, patch.normal), num(LEAST_COSINE))
    scaled = Sums()
    scaled.K = ratio * s.K
    scaled.Kx = ratio * s.Kx
    scaled.Kxx = ratio * s.Kxx
    scaled.Ktau = ratio * s.Ktau
    scaled.f = ratio * s.f
    scaled.fx = ratio * s.fx
    scaled.fxx = ratio * s.fxx
    return own, scaled


@func
def half_plane(direction: num3, through: num3, side: num) -> num4:
    """Plane for `clip` that keeps {x: side direction·(x − through) >= 0}."""
    m = -side * direction
    return num4(m[0], m[1], m[2], -wp.dot(m, through))


@func(inline=CALLED)
def quadrant_sums(
    fields: Fields, side_s: Side, side_o: Side, X: num_transform, w: int, first: int, last: int, seeds: int,
    seed: mat43, b: int, patch: Patch, quadrant: int, polygons: Listed,
) -> Sums:  # fmt: skip
    """Sums over the polygons of patch b, cut to a quadrant about the centre (−1: uncut). Called by all lanes."""
    P = wp.zeros(shape=(ROOM,), dtype=num3)
    at = num2()
    if quadrant >= 0:
        at = corner(quadrant)
    total = Sums()
    for k in range(first + lane(), last, lanes()):
        values = listed_values(polygons, w, k)
        n = listed_normal(polygons, w, k)
        if values[0] > num(0.0) and nearest_seed(seeds, seed, values_of(n)) == b:
            share = share_of(polygons, w, k, patch)
            x = listed_centroid(polygons, w, k) - patch.centre
            a = listed_gradient(polygons, w, k)
            along_t = at[0] * wp.dot(x, patch.t)
            along_u = at[1] * wp.dot(x, patch.u)
            if quadrant < 0 or (along_t >= values[4] and along_u >= values[4]):
                total = add_part(
                    total, n, share, values[0], values[1], values[2], values[3], a, x, listed_second(polygons, w, k)
                )  # fmt: skip
            elif along_t > -values[4] and along_u > -values[4]:
                cells = listed_cells(polygons, w, k)
                found = meet(
                    fields, side_s, side_o, X, cell_of(fields, side_s, cells[0]), part_of(fields, side_o, X, cells[1]),
                    P,
                )  # fmt: skip
                count = found.count
                if count > 0:
                    count = clip(P, count, half_plane(patch.t, patch.centre, at[0]))
                if count > 2:
                    count = clip(P, count, half_plane(patch.u, patch.centre, at[1]))
                if count > 2:
                    part = moments(P, count, n)
                    if part.area > num(0.0):
                        pressure = values[1] + wp.dot(a, part.centroid - listed_centroid(polygons, w, k))
                        x = part.centroid - patch.centre
                        total = add_part(total, n, share, part.area, pressure, values[2], values[3], a, x, part.second)
    return team_sums(total)


@func(inline=CALLED)
def find_patch(
    w: int, first: int, last: int, seeds: int, seed: mat43, b: int, polygons: Listed
):  # fmt: skip
    """Normal, axes and centre of stiffness of patch b, and whether it has any polygons. Called by all lanes."""
    force = num3()
    for k in range(first + lane(), last, lanes()):
        values = listed_values(polygons, w, k)
        n = listed_normal(polygons, w, k)
        if values[0] > num(0.0) and nearest_seed(seeds, seed, values_of(n)) == b:
            force += (values[0] * values[1]) * n
    force = team_vec(force)
    size = wp.length(force)
    patch = Patch()
    there = size > num(0.0)
    if there:
        patch.normal = force / size
        patch.t = orthogonal(patch.normal)
        patch.u = wp.cross(patch.normal, patch.t)
        origin = listed_centroid(polygons, w, first)
        K = num(0.0)
        Kx = num3()
        for k in range(first + lane(), last, lanes()):
            values = listed_values(polygons, w, k)
            if values[0] > num(0.0) and nearest_seed(seeds, seed, values_of(listed_normal(polygons, w, k))) == b:
                stiffness = wp.max(share_of(polygons, w, k, patch), num(0.0)) * values[0] / values[2]
                K += stiffness
                Kx += stiffness * (listed_centroid(polygons, w, k) - origin)
        K = team_num(K)
        Kx = team_vec(Kx)
        there = K > num(0.0)
        if there:
            patch.centre = origin + Kx / K
    return patch, there


@func
def drop_idle(
    topology: Topology, scene: Scene, link_X: wp.array2d(dtype=transform), link_V: wp.array2d(dtype=vec6), h: real,
    w: int, p: int, sign: real, X_s: transform, first: int, last: int, polygons: Polygons,
):  # fmt: skip
    """Mark the polygons that do not push by a negative area, unless no stiff one pushes. Called by all lanes."""
    pushing = real(0.0)
    for k in range(first + lane(), last, lanes()):
        # Polygons at rims have almost no stiffness and push at any velocity: they do not show whether the patch pushes.
        values = polygons.values[w, k]
        stiff = values[2] * wp.length(polygons.gradient[w, k]) < real(STIFF)
        if stiff and pushes(topology, scene, link_X, link_V, h, w, p, sign, X_s, polygons, k):
            pushing += real(1.0)
    some = team_sum(pushing) > real(0.0)
    for k in range(first + lane(), last, lanes()):
        if some and not pushes(topology, scene, link_X, link_V, h, w, p, sign, X_s, polygons, k):
            values = polygons.values[w, k]
            values[0] = -values[0]
            polygons.values[w, k] = values
    sync()


@kernel(lanes=True)
def reduce(
    topology: Topology,
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    h: real,
    points: int,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    geom_X: wp.array2d(dtype=transform),
    polygons: Polygons,
    # in and out
    contacts: Contacts,
):
    """Append the contact points of all patches of a world: 4, 5 or 16 per patch. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    count = contacts.count[w]
    sync()  # all lanes read the count before it is written
    flags = int(0)
    for t in range(fields.pair.shape[0]):
        first = polygons.first[w, t]
        last = polygons.first[w, t + 1]
        if last > first:
            p = fields.pair[t]
            s, o = soft_first(fields, scene, p)
            sign = sign_of(scene, p, s)
            X_s = geom_X[w, s]
            X = wp.transform_inverse(X_s) * geom_X[w, o]
            side_s = side_of(fields, sizes, w, s)
            side_o = side_of(fields, sizes, w, o)
            drop_idle(topology, scene, link_X, link_V, h, w, p, sign, X_s, first, last, polygons)
            seeds, seed = normals_of(polygons, w, first, last)
            for b in range(seeds):
                patch, there = find_patch(w, first, last, seeds, seed, b, polygons)
                if there:
                    if points == 16:
                        quadrant = int(0)
                        while quadrant < 4:  # `while`: an unrolled loop takes long to compile
                            sums = quadrant_sums(
                                fields, side_s, side_o, X, w, first, last, seeds, seed, b, patch, quadrant, polygons
                            )  # fmt: skip
                            if sums.K > real(0.0) and sums.f > real(0.0):
                                own, part = turned(patch, sums)
                                count, more = add_points(
                                    4, w, p, wp.vec2i(b, quadrant), X_s, sign, own, part, count, contacts
                                )  # fmt: skip
                                flags = flags | more
                            quadrant += 1
                    else:
                        sums = quadrant_sums(
                            fields, side_s, side_o, X, w, first, last, seeds, seed, b, patch, -1, polygons
                        )  # fmt: skip
                        count, more = add_points(
                            points, w, p, wp.vec2i(b, 0), X_s, sign, patch, sums, count, contacts
                        )  # fmt: skip
                        flags = flags | more
    contacts.count[w] = count
    if lane() == 0:
        contacts.flags[w] = contacts.flags[w] | flags
