# SPDX-License-Identifier: Apache-2.0
"""A sphere on a plane in closed form with its rates of change: `caps.py` once more (theory §9). Numbers with rates are pairs (x, ẋ)."""

import warp as wp

from ...real import func, real, struct, transform, vec2, vec3
from ..narrow.manifold import SPHERE
from ..pair_laws import Material, geom_dissipation_time
from .caps import Cap, cap_patch, cap_sums, plane_and_centre
from .fields import Fields, Sizes, thickness_of
from .patch_rates import MovingPatch, MovingSums, both, one, over, size_of, times
from .patches import Patch, Sums
from .polygon import LEAST_SLOPE
from .rates import Direction


@struct
class MovingCap:
    """`Cap` with rates."""

    F: vec2
    K: vec2
    spread: vec2
    pressed: vec2
    height: vec2


@func
def cube(x: vec2) -> vec2:
    return times(x, times(x, x))


@func
def moving_soft_sphere(E: vec2, R: vec2, s: vec2) -> MovingCap:
    cap = MovingCap()
    below = size_of(s)
    d = R - below
    pi_E = real(wp.pi) * E
    dd = times(d, d)
    cap.F = times(times(pi_E, dd), one(real(1.0)) - real(2.0 / 3.0) * over(d, R))
    cap.K = real(2.0) * times(pi_E, over(times(below, d), R))
    cap.spread = times(times(pi_E, over(below, R)), times(dd, R - real(2.0 / 3.0) * d))
    inner = real(1.0 / 3.0) * times(s, s) + real(0.25) * times(below, d) + real(0.05) * dd
    cap.pressed = times(times(over(pi_E, R), cube(d)), inner)
    cap.height = -s
    area = real(wp.pi) * times(d, R + below)
    least = real(LEAST_SLOPE) * times(over(E, R), area)
    if cap.K[0] < least[0]:
        cap.spread = real(0.25 / 3.141592653589793) * times(least, area)
        cap.K = least
    return cap


@func
def moving_soft_layer(E: vec2, t: vec2, R: vec2, s: vec2) -> MovingCap:
    cap = MovingCap()
    depth = R - s
    if depth[0] > real(2.0) * R[0]:
        depth = real(2.0) * R
    d = depth
    if d[0] > R[0]:
        d = R
    pi_E = real(wp.pi) * over(E, t)
    RR = times(R, R)
    dd = times(d, d)
    around = real(3.0) * RR - real(3.0) * times(R, d) + dd
    cap.F = times(times(pi_E, times(depth, depth)), R - real(1.0 / 3.0) * depth)
    cap.K = real(2.0 / 3.0) * over(times(times(pi_E, d), around), R)
    inner = cube(R) - real(5.0 / 3.0) * times(RR, d) + times(R, dd) - real(0.2) * cube(d)
    cap.spread = times(over(pi_E, R), times(dd, inner))
    inner = real(1.0 / 3.0) * RR - real(0.25) * times(R, depth) + real(0.05) * times(depth, depth)
    cap.pressed = times(times(pi_E, cube(depth)), inner)
    high = real(4.0) * cube(R) - real(6.0) * times(RR, d) + real(4.0) * times(R, dd) - cube(d)
    cap.height = real(-0.75) * over(high, around)
    return cap


@func
def moving_cap(
    fields: Fields, sizes: Sizes, material: Material, default_tau: real, X: transform, w: int, s: int, o: int, way: Direction
):  # fmt: skip
    """Patch and sums of a sphere on a plane along a direction, in the frame of S."""
    up, across, centre, height = plane_and_centre(fields, X, s)
    row = w % sizes.size.shape[0]
    E = vec2(sizes.modulus[w % sizes.modulus.shape[0], s], way.modulus_s)
    up_rate = vec3()
    across_rate = vec3()
    centre_rate = vec3()
    cap = MovingCap()
    if fields.geom_type[s] == SPHERE:
        up_rate = wp.cross(way.omega, up)
        across_rate = wp.cross(way.omega, across)
        R = vec2(sizes.size[row, s][0], way.size_s[0])
        cap = moving_soft_sphere(E, R, vec2(height, -wp.dot(up, way.u)))
    else:
        centre_rate = way.u + wp.cross(way.omega, centre)
        R = vec2(sizes.size[row, o][0], way.size_o[0])
        t = vec2(thickness_of(sizes, w, s), way.thickness_s)
        cap = moving_soft_layer(E, t, R, vec2(height, centre_rate[2]))
    still = Cap()
    still.F = cap.F[0]
    still.K = cap.K[0]
    still.spread = cap.spread[0]
    still.pressed = cap.pressed[0]
    tau = geom_dissipation_time(material.dissipation_time, w, s, default_tau)
    patch = MovingPatch()
    now = cap_patch(up, across, centre, cap.height[0], fields.geom_type[s] == SPHERE)
    rate = Patch()
    rate.normal = wp.dot(now.normal, up) * up_rate
    rate.t = across_rate
    rate.u = wp.cross(rate.normal, now.t) + wp.cross(now.normal, rate.t)
    rate.centre = centre_rate + cap.height[1] * up + cap.height[0] * up_rate
    patch.now = now
    patch.rate = rate
    sums = MovingSums()
    sums.now = cap_sums(still, now, tau)
    spread = wp.outer(now.t, now.t) + wp.outer(now.u, now.u)
    spread_rate = both(now.t, rate.t) + both(now.u, rate.u)
    change = Sums()
    change.K = cap.K[1]
    change.Kxx = cap.spread[1] * spread + cap.spread[0] * spread_rate
    change.Ktau = cap.K[1] * tau + cap.K[0] * way.tau_s
    change.f = cap.F[1]
    change.fxx = cap.pressed[1] * spread + cap.pressed[0] * spread_rate
    sums.rate = change
    return patch, sums
