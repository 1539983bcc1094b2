"""A sphere on a plane with rates of change: `caps.py` once more, with pairs (x, ẋ) for numbers (theory §9)."""

import warp as wp

from ...real import func, real, struct, transform, vec2, vec3
from ..narrow.manifold import SPHERE
from .fields import Fields, Sizes, thickness_of
from .patch_rates import MovingPatch, MovingSums, one, over, size_of, times
from .patches import Patch, Sums
from .polygon import LEAST_SLOPE
from .rates import Direction


@struct
class MovingCap:
    """A `Cap` with rates."""

    F: vec2
    K: vec2
    spread: vec2
    pressed: vec2
    height: vec2


@func
def square(a: vec2) -> vec2:
    return times(a, a)


@func
def moving_soft_sphere(E: vec2, R: vec2, s: vec2) -> MovingCap:
    """`soft_sphere` with rates."""
    cap = MovingCap()
    s_abs = size_of(s)
    d = R - s_abs
    d_2 = square(d)
    d_3 = times(d_2, d)
    pi_E = real(wp.pi) * E
    share = real(2.0 / 3.0)
    cap.F = times(times(pi_E, d_2), one(real(1.0)) - share * over(d, R))
    cap.K = real(2.0) * over(times(times(pi_E, s_abs), d), R)
    cap.spread = times(times(over(times(pi_E, s_abs), R), d_2), R - share * d)
    arms = real(1.0 / 3.0) * square(s) + real(0.25) * times(s_abs, d) + real(0.05) * d_2
    cap.pressed = times(times(over(pi_E, R), d_3), arms)
    cap.height = -s
    area = real(wp.pi) * times(d, R + s_abs)
    least = real(LEAST_SLOPE) * times(over(E, R), area)
    if cap.K[0] < least[0]:
        cap.spread = (real(0.25) / real(wp.pi)) * times(least, area)
        cap.K = least
    return cap


@func
def moving_soft_layer(E: vec2, t: vec2, R: vec2, s: vec2) -> MovingCap:
    """`soft_layer` with rates."""
    cap = MovingCap()
    depth = R - s
    if depth[0] > real(2.0) * R[0]:
        depth = real(2.0) * R
    d = depth
    if depth[0] > R[0]:
        d = R
    d_2 = square(d)
    d_3 = times(d_2, d)
    R_2 = square(R)
    R_3 = times(R_2, R)
    pi_E = real(wp.pi) * over(E, t)
    third = real(1.0 / 3.0)
    depth_2 = square(depth)
    cap.F = times(times(pi_E, depth_2), R - third * depth)
    around = real(3.0) * R_2 - real(3.0) * times(R, d) + d_2
    cap.K = (real(2.0) * third) * over(times(times(pi_E, d), around), R)
    arms = R_3 - real(5.0 / 3.0) * times(R_2, d) + times(R, d_2) - real(0.2) * d_3
    cap.spread = times(times(over(pi_E, R), d_2), arms)
    arms = third * R_2 - real(0.25) * times(R, depth) + real(0.05) * depth_2
    cap.pressed = times(times(pi_E, times(depth_2, depth)), arms)
    lever = real(4.0) * R_3 - real(6.0) * times(R_2, d) + real(4.0) * times(R, d_2) - d_3
    cap.height = real(-0.75) * over(lever, around)
    return cap


@func
def moving_cap_patch(
    X_plane: transform, omega: vec3, up: vec3, centre: vec3, centre_rate: vec3, height: vec2, soft_ball: bool
) -> MovingPatch:  # fmt: skip
    """`cap_patch` with rates, omega that of the plane."""
    now = Patch()
    rate = Patch()
    now.normal = up
    if not soft_ball:
        now.normal = -up
    now.t = wp.transform_vector(X_plane, vec3(real(1.0), real(0.0), real(0.0)))
    now.u = wp.cross(now.normal, now.t)
    rate.normal = wp.cross(omega, now.normal)
    rate.t = wp.cross(omega, now.t)
    rate.u = wp.cross(omega, now.u)
    now.centre = centre + height[0] * up
    rate.centre = centre_rate + height[1] * up + height[0] * wp.cross(omega, up)
    patch = MovingPatch()
    patch.now = now
    patch.rate = rate
    return patch


@func
def moving_cap_sums(cap: MovingCap, patch: MovingPatch, tau: vec2) -> MovingSums:
    """`cap_sums` with rates."""
    t = patch.now.t
    u = patch.now.u
    across = wp.outer(t, t) + wp.outer(u, u)
    turn = wp.outer(t, patch.rate.t) + wp.outer(patch.rate.t, t) + wp.outer(u, patch.rate.u) + wp.outer(patch.rate.u, u)
    now = Sums()
    rate = Sums()
    now.K = cap.K[0]
    rate.K = cap.K[1]
    now.Kxx = cap.spread[0] * across
    rate.Kxx = cap.spread[1] * across + cap.spread[0] * turn
    Ktau = times(cap.K, tau)
    now.Ktau = Ktau[0]
    rate.Ktau = Ktau[1]
    now.f = cap.F[0]
    rate.f = cap.F[1]
    now.fxx = cap.pressed[0] * across
    rate.fxx = cap.pressed[1] * across + cap.pressed[0] * turn
    sums = MovingSums()
    sums.now = now
    sums.rate = rate
    return sums


@func(inline=False)
def moving_cap(
    fields: Fields, sizes: Sizes, geom_X: wp.array2d(dtype=transform), w: int, s: int, o: int, tau: real, d: Direction
):  # fmt: skip
    """Patch and sums of a sphere on a plane with rates along d, whose motion is in world axes; no force where they are apart."""
    soft_ball = fields.geom_type[s] == SPHERE
    sphere = o
    plane = s
    if soft_ball:
        sphere = s
        plane = o
    up = wp.transform_vector(geom_X[w, plane], vec3(real(0.0), real(0.0), real(1.0)))
    centre = wp.transform_get_translation(geom_X[w, sphere])
    arm = centre - wp.transform_get_translation(geom_X[w, plane])
    R = vec2(sizes.size[w % sizes.size.shape[0], sphere][0], d.size_o[0])
    omega = vec3()
    centre_rate = vec3()
    height = vec2(wp.dot(up, arm), real(0.0))
    if soft_ball:  # the plane moves
        R[1] = d.size_s[0]
        omega = d.omega
        height[1] = wp.dot(wp.cross(omega, up), arm) - wp.dot(up, d.u - wp.cross(d.omega, arm))
    else:
        centre_rate = d.u + wp.cross(d.omega, arm)
        height[1] = wp.dot(up, centre_rate)
    E = vec2(sizes.modulus[w % sizes.modulus.shape[0], s], d.modulus_s)
    cap = MovingCap()
    if height[0] < R[0] and height[0] > -R[0]:
        if soft_ball:
            cap = moving_soft_sphere(E, R, height)
        else:
            cap = moving_soft_layer(E, vec2(thickness_of(sizes, w, s), d.thickness_s), R, height)
    patch = moving_cap_patch(geom_X[w, plane], omega, up, centre, centre_rate, cap.height, soft_ball)
    return patch, moving_cap_sums(cap, patch, vec2(tau, d.tau_s))
