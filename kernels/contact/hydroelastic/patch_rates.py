# SPDX-License-Identifier: Apache-2.0
"""The contact points of patches with their rates of change: `patches.py` once more, polygon by polygon (theory §9).

Polygons that count, their normals, the quadrants and what is clamped are as the step found them. Numbers with rates are pairs (x, ẋ).
"""

import warp as wp

from ...real import func, mat33, real, struct, vec2, vec3, vec4
from ..narrow.features import orthogonal
from .find_polygons import Polygons, corner
from .patches import LARGEST_CENTRE, LEAST_CENTRE, LEAST_COSINE, SLACK, THIN, TORSION, TORSION_ROUND, Patch, Sums
from .polygon import moments
from .rates import Moving, Polygon, clip_moving, moment_rates, orthogonal_rate


@struct
class PolygonRates:
    """Rates of the polygons of a step, (worlds, max_polygons, directions)."""

    normal: wp.array3d(dtype=vec3)
    centroid: wp.array3d(dtype=vec3)
    second: wp.array3d(dtype=mat33)
    a: wp.array3d(dtype=vec3)
    values: wp.array3d(dtype=vec4)  # area, pressure, c, τ_d
    patch: wp.array2d(dtype=int)  # which patch of its pair a polygon belongs to, −1: none


@struct
class MovingPatch:
    now: Patch
    rate: Patch


@struct
class MovingSums:
    now: Sums
    rate: Sums


@struct
class Points:
    """What all points of some sums have in common, with rates: lengths in the axes t, u."""

    l_tt: vec2
    l_ut: vec2
    l_uu: vec2
    z_t: vec2
    z_u: vec2
    depth: vec2
    spread: vec2
    scale: vec2
    share: vec2  # 1 − w0
    tau: vec2
    K: vec2
    centre: vec3  # from that of the patch
    centre_rate: vec3


# Numbers with rates.


@func
def times(a: vec2, b: vec2) -> vec2:
    return vec2(a[0] * b[0], a[0] * b[1] + a[1] * b[0])


@func
def over(a: vec2, b: vec2) -> vec2:
    x = a[0] / b[0]
    return vec2(x, (a[1] - x * b[1]) / b[0])


@func
def root(a: vec2) -> vec2:
    """√a, at 0 without a rate."""
    x = wp.sqrt(wp.max(a[0], real(0.0)))
    rate = real(0.0)
    if x > real(0.0):
        rate = real(0.5) * a[1] / x
    return vec2(x, rate)


@func
def larger(a: vec2, b: vec2) -> vec2:
    """The larger one; of equal ones b."""
    x = b
    if a[0] > b[0]:
        x = a
    return x


@func
def size_of(a: vec2) -> vec2:
    x = a
    if a[0] < real(0.0):
        x = -a
    return x


@func
def one(x: real) -> vec2:
    """A number that does not change."""
    return vec2(x, real(0.0))


@func
def product(x: vec3, x_rate: vec3, y: vec3, y_rate: vec3) -> vec2:
    return vec2(wp.dot(x, y), wp.dot(x_rate, y) + wp.dot(x, y_rate))


@func
def form(A: mat33, A_rate: mat33, x: vec3, x_rate: vec3, y: vec3, y_rate: vec3) -> vec2:
    """x·A y."""
    return vec2(wp.dot(x, A * y), wp.dot(x_rate, A * y) + wp.dot(x, A_rate * y) + wp.dot(x, A * y_rate))


@func
def both(x: vec3, y: vec3) -> mat33:
    return wp.outer(x, y) + wp.outer(y, x)


# Sums over polygons.


@func
def stored_polygon(polygons: Polygons, rates: PolygonRates, w: int, k: int, d: int) -> Moving:
    values = polygons.values[w, k]
    change = rates.values[w, k, d]
    now = Polygon()
    now.normal = polygons.normal[w, k]
    now.centroid = polygons.centroid[w, k]
    now.second = polygons.second[w, k]
    now.a = polygons.gradient[w, k]
    now.area = values[0]
    now.pressure = values[1]
    now.c = values[2]
    now.tau = values[3]
    rate = Polygon()
    rate.normal = rates.normal[w, k, d]
    rate.centroid = rates.centroid[w, k, d]
    rate.second = rates.second[w, k, d]
    rate.a = rates.a[w, k, d]
    rate.area = change[0]
    rate.pressure = change[1]
    rate.c = change[2]
    rate.tau = change[3]
    result = Moving()
    result.now = now
    result.rate = rate
    return result


@func
def moving_share(m: Moving, patch: MovingPatch) -> vec2:
    return product(m.now.normal, m.rate.normal, patch.now.normal, patch.rate.normal)


@func
def moving_stiffness(share: vec2, m: Moving) -> vec2:
    """A/c of a polygon that does not face away."""
    return over(times(larger(share, vec2()), vec2(m.now.area, m.rate.area)), vec2(m.now.c, m.rate.c))


@func
def add_moving(s: MovingSums, share: vec2, m: Moving, patch: MovingPatch) -> MovingSums:
    """`add_part` with rates, of a polygon about the centre of the patch."""
    area = times(share, vec2(m.now.area, m.rate.area))
    k = moving_stiffness(share, m)
    f = times(area, vec2(m.now.pressure, m.rate.pressure))
    x = m.now.centroid - patch.now.centre
    dx = m.rate.centroid - patch.rate.centre
    spread = wp.outer(x, x) + m.now.second
    dspread = both(x, dx) + m.rate.second
    Ca = m.now.second * m.now.a
    dCa = m.rate.second * m.now.a + m.now.second * m.rate.a
    now = Sums()
    now.K = s.now.K + k[0]
    now.Kx = s.now.Kx + k[0] * x
    now.Kxx = s.now.Kxx + k[0] * spread
    now.Ktau = s.now.Ktau + k[0] * m.now.tau
    plain = times(vec2(m.now.area, m.rate.area), vec2(m.now.pressure, m.rate.pressure))
    now.force = s.now.force + plain[0] * m.now.normal
    now.f = s.now.f + f[0]
    now.fx = s.now.fx + f[0] * x + area[0] * Ca
    now.fxx = s.now.fxx + f[0] * spread + area[0] * both(x, Ca)
    rate = Sums()
    rate.K = s.rate.K + k[1]
    rate.Kx = s.rate.Kx + k[1] * x + k[0] * dx
    rate.Kxx = s.rate.Kxx + k[1] * spread + k[0] * dspread
    rate.Ktau = s.rate.Ktau + k[1] * m.now.tau + k[0] * m.rate.tau
    rate.force = s.rate.force + plain[1] * m.now.normal + plain[0] * m.rate.normal
    rate.f = s.rate.f + f[1]
    rate.fx = s.rate.fx + f[1] * x + f[0] * dx + area[1] * Ca + area[0] * dCa
    rate.fxx = (
        s.rate.fxx + f[1] * spread + f[0] * dspread + area[1] * both(x, Ca) + area[0] * (both(dx, Ca) + both(x, dCa))
    )
    total = MovingSums()
    total.now = now
    total.rate = rate
    return total


@func
def moving_axes(force: vec3, rate: vec3) -> MovingPatch:
    """Normal and axes of a patch with this force, its centre left open."""
    size = wp.length(force)
    now = Patch()
    change = Patch()
    now.normal = force / size
    now.t = orthogonal(now.normal)
    now.u = wp.cross(now.normal, now.t)
    change.normal = (rate - wp.dot(now.normal, rate) * now.normal) / size
    change.t = orthogonal_rate(now.normal, change.normal)
    change.u = wp.cross(change.normal, now.t) + wp.cross(now.normal, change.t)
    result = MovingPatch()
    result.now = now
    result.rate = change
    return result


@func(inline=False)
def moving_patch(polygons: Polygons, rates: PolygonRates, w: int, first: int, last: int, b: int, d: int) -> MovingPatch:
    """`find_patch` with rates."""
    force = vec3()
    force_rate = vec3()
    for k in range(first, last):
        if rates.patch[w, k] == b:
            m = stored_polygon(polygons, rates, w, k, d)
            f = times(vec2(m.now.area, m.rate.area), vec2(m.now.pressure, m.rate.pressure))
            force += f[0] * m.now.normal
            force_rate += f[1] * m.now.normal + f[0] * m.rate.normal
    size = wp.length(force)
    result = MovingPatch()
    if size > real(0.0):
        result = moving_axes(force, force_rate)
        now = result.now
        rate = result.rate
        origin = polygons.centroid[w, first]
        K = real(0.0)
        Kx = vec3()
        K_rate = real(0.0)
        Kx_rate = vec3()
        for k in range(first, last):
            if rates.patch[w, k] == b:
                m = stored_polygon(polygons, rates, w, k, d)
                stiffness = moving_stiffness(moving_share(m, result), m)
                x = m.now.centroid - origin
                K += stiffness[0]
                K_rate += stiffness[1]
                Kx += stiffness[0] * x
                Kx_rate += stiffness[1] * x + stiffness[0] * m.rate.centroid
        if K > real(0.0):
            now.centre = origin + Kx / K
            rate.centre = (Kx_rate - K_rate * (Kx / K)) / K
            result.now = now
            result.rate = rate
    return result


@func
def moving_half_plane(direction: vec3, direction_rate: vec3, patch: MovingPatch, side: real):
    """`half_plane` through the centre of a patch, and its rate."""
    m = -side * direction
    m_rate = -side * direction_rate
    offset_rate = -wp.dot(m_rate, patch.now.centre) - wp.dot(m, patch.rate.centre)
    now = vec4(m[0], m[1], m[2], -wp.dot(m, patch.now.centre))
    return now, vec4(m_rate[0], m_rate[1], m_rate[2], offset_rate)


@func(inline=False)
def cut_to_quadrant(
    P: wp.array(dtype=vec3),
    D: wp.array(dtype=vec3),
    spare: wp.array(dtype=vec3),
    spare_D: wp.array(dtype=vec3),
    distance: wp.array(dtype=real),
    count: int,
    m: Moving,
    patch: MovingPatch,
    at: vec2,
) -> Moving:
    """The part in a quadrant of the polygon whose vertices stand in `outline`; no area where there is none."""
    left = int(count)
    result = Moving()
    if left > 2:
        plane, rate = moving_half_plane(patch.now.t, patch.rate.t, patch, at[0])
        left = clip_moving(P, D, spare, spare_D, distance, left, plane, rate)
    if left > 2:
        plane, rate = moving_half_plane(patch.now.u, patch.rate.u, patch, at[1])
        left = clip_moving(P, D, spare, spare_D, distance, left, plane, rate)
    if left > 2:
        shape = moments(P, left, m.now.normal)
        rates = moment_rates(P, D, left, m.now.normal, m.rate.normal, shape)
        now = m.now
        change = m.rate
        arm = shape.centroid - m.now.centroid
        now.pressure = m.now.pressure + wp.dot(m.now.a, arm)
        change.pressure = m.rate.pressure + wp.dot(m.rate.a, arm) + wp.dot(m.now.a, rates.centroid - m.rate.centroid)
        now.area = shape.area
        now.centroid = shape.centroid
        now.second = shape.second
        change.area = rates.area
        change.centroid = rates.centroid
        change.second = rates.second
        result.now = now
        result.rate = change
    return result


# Points.


@func
def moving_torsion(s: MovingSums, patch: MovingPatch) -> vec2:
    """`torsion` with its rate."""
    f = vec2(s.now.f, s.rate.f)
    mean = s.now.fx / s.now.f
    mean_rate = (s.rate.fx - s.rate.f * mean) / s.now.f
    cov = s.now.fxx / s.now.f - wp.outer(mean, mean)
    cov_rate = (s.rate.fxx - s.rate.f * (s.now.fxx / s.now.f)) / s.now.f - both(mean, mean_rate)
    tt = form(cov, cov_rate, patch.now.t, patch.rate.t, patch.now.t, patch.rate.t)
    tu = form(cov, cov_rate, patch.now.t, patch.rate.t, patch.now.u, patch.rate.u)
    uu = form(cov, cov_rate, patch.now.u, patch.rate.u, patch.now.u, patch.rate.u)
    spread = larger(tt + uu, one(real(1e-30)))
    roundness = over(real(2.0) * root(larger(times(tt, uu) - times(tu, tu), vec2())), spread)
    kappa = one(real(TORSION)) + real(TORSION_ROUND) * roundness
    return times(times(f, kappa), root(spread))


@func
def centre_share(s: MovingSums, patch: MovingPatch, p: Points, m_t: vec2, m_u: vec2) -> vec2:
    """w0 of five points, from the moments of force about the centre of stiffness."""
    f = vec2(s.now.f, s.rate.f)
    moment = s.now.fx - s.now.f * p.centre
    moment_rate = s.rate.fx - s.rate.f * p.centre - s.now.f * p.centre_rate
    now = Sums()
    rate = Sums()
    now.f = s.now.f
    rate.f = s.rate.f
    now.fx = moment
    rate.fx = moment_rate
    C = wp.outer(p.centre, p.centre)
    now.fxx = s.now.fxx - both(p.centre, s.now.fx) + s.now.f * C
    rate.fxx = (
        s.rate.fxx
        - both(p.centre, s.rate.fx)
        - both(p.centre_rate, s.now.fx)
        + s.rate.f * C
        + s.now.f * both(p.centre, p.centre_rate)
    )
    about = MovingSums()
    about.now = now
    about.rate = rate
    T = moving_torsion(about, patch)
    y_t = over(m_t, f)
    y_u = over(m_u, f)
    T_4 = vec2()
    for q in range(4):
        at = corner(q)
        f_q = larger(real(0.25) * times(p.K, p.depth + at[0] * p.z_t + at[1] * p.z_u), vec2())
        d_t = at[0] * p.l_tt - y_t
        d_u = at[0] * p.l_ut + at[1] * p.l_uu - y_u
        T_4 = T_4 + times(f_q, root(times(d_t, d_t) + times(d_u, d_u)))
    w0 = one(real(LEAST_CENTRE))
    if T_4[0] > real(0.0):
        r = over(T, T_4)
        x = one(real(1.0)) - times(r, r)
        if x[0] > real(LARGEST_CENTRE):
            w0 = one(real(LARGEST_CENTRE))
        elif x[0] > real(LEAST_CENTRE):
            w0 = x
    return w0


@func(inline=False)
def moving_points(points: int, patch: MovingPatch, s: MovingSums) -> Points:
    """What `add_points` finds before it stores, with rates."""
    p = Points()
    p.K = vec2(s.now.K, s.rate.K)
    p.centre = s.now.Kx / s.now.K
    p.centre_rate = (s.rate.Kx - s.rate.K * p.centre) / s.now.K
    S = s.now.Kxx / s.now.K - wp.outer(p.centre, p.centre)
    S_rate = (s.rate.Kxx - s.rate.K * (s.now.Kxx / s.now.K)) / s.now.K - both(p.centre, p.centre_rate)
    tt = form(S, S_rate, patch.now.t, patch.rate.t, patch.now.t, patch.rate.t)
    tu = form(S, S_rate, patch.now.t, patch.rate.t, patch.now.u, patch.rate.u)
    uu = form(S, S_rate, patch.now.u, patch.rate.u, patch.now.u, patch.rate.u)
    tt = larger(tt, one(real(0.0)))
    uu = larger(uu, one(real(0.0)))
    least = real(THIN) * (tt + uu) + one(real(1e-30))
    p.l_tt = root(larger(tt, least))
    reach = real(SLACK) * root(uu)
    p.l_ut = larger(-reach, -larger(-reach, -over(tu, p.l_tt)))
    p.l_uu = root(larger(uu - times(p.l_ut, p.l_ut), least))
    f = vec2(s.now.f, s.rate.f)
    moment = s.now.fx - s.now.f * p.centre
    moment_rate = s.rate.fx - s.rate.f * p.centre - s.now.f * p.centre_rate
    m_t = product(patch.now.t, patch.rate.t, moment, moment_rate)
    m_u = product(patch.now.u, patch.rate.u, moment, moment_rate)
    p.z_t = over(m_t, times(p.l_tt, p.K))
    p.z_u = over(over(m_u, p.K) - times(p.l_ut, p.z_t), p.l_uu)
    p.depth = over(f, p.K)
    p.share = one(real(1.0))
    if points == 5:
        p.share = one(real(1.0)) - centre_share(s, patch, p, m_t, m_u)
    p.spread = over(one(real(1.0)), root(p.share))
    tilt = times(size_of(p.z_t) + size_of(p.z_u), p.spread)
    p.scale = one(real(1.0))
    if tilt[0] > p.depth[0]:
        p.scale = over(p.depth, tilt)
    p.tau = over(vec2(s.now.Ktau, s.rate.Ktau), p.K)
    return p


@func
def moving_point(p: Points, patch: MovingPatch, q: int):
    """Of point q of these: (φ, rate), the rate of its place in the frame of S, and (c, rate)."""
    at = corner(q)
    weight = real(0.25) * p.share
    arm_t = times(p.spread, at[0] * p.l_tt)
    arm_u = times(p.spread, at[0] * p.l_ut + at[1] * p.l_uu)
    pressed = larger(p.depth + times(times(p.scale, p.spread), at[0] * p.z_t + at[1] * p.z_u), vec2())
    if q == 4:
        arm_t = vec2()
        arm_u = vec2()
        pressed = p.depth
        weight = one(real(1.0)) - p.share
    rate = patch.rate.centre + p.centre_rate
    rate += arm_t[1] * patch.now.t + arm_t[0] * patch.rate.t + arm_u[1] * patch.now.u + arm_u[0] * patch.rate.u
    return -pressed, rate, over(one(real(1.0)), times(p.K, weight))


@func
def moving_turned(patch: MovingPatch, s: MovingSums) -> MovingPatch:
    """The patch with the normal of the force of a part of it."""
    own = moving_axes(s.now.force, s.rate.force)
    now = own.now
    rate = own.rate
    now.centre = patch.now.centre
    rate.centre = patch.rate.centre
    own.now = now
    own.rate = rate
    return own


@func
def moving_scaled(s: MovingSums, patch: MovingPatch, own: MovingPatch) -> MovingSums:
    """Sums of a part of a patch with shares of its own normal, as `turned`."""
    cosine = product(own.now.normal, own.rate.normal, patch.now.normal, patch.rate.normal)
    ratio = over(one(real(1.0)), larger(cosine, one(real(LEAST_COSINE))))
    r = ratio[0]
    dr = ratio[1]
    now = Sums()
    rate = Sums()
    now.K = r * s.now.K
    rate.K = dr * s.now.K + r * s.rate.K
    now.Kx = r * s.now.Kx
    rate.Kx = dr * s.now.Kx + r * s.rate.Kx
    now.Kxx = r * s.now.Kxx
    rate.Kxx = dr * s.now.Kxx + r * s.rate.Kxx
    now.Ktau = r * s.now.Ktau
    rate.Ktau = dr * s.now.Ktau + r * s.rate.Ktau
    now.f = r * s.now.f
    rate.f = dr * s.now.f + r * s.rate.f
    now.fx = r * s.now.fx
    rate.fx = dr * s.now.fx + r * s.rate.fx
    now.fxx = r * s.now.fxx
    rate.fxx = dr * s.now.fxx + r * s.rate.fxx
    result = MovingSums()
    result.now = now
    result.rate = rate
    return result
