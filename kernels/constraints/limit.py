"""One-sided rows: stops of joints and tendons, bounds of distances. A stop pushes only, 0 ≤ γ, with φ ≥ 0 the free side.

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   lower = 0, upper = ∞

c = 1/k is the compliance (0 is near-rigid); τ_d counts only in penetration, so that no force acts at a distance.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.constraints import cone
from warpsim.kernels.precision import types

LIMIT_BETA = 0.1  # near-rigid limit of stops
LIMIT_HORIZON = 2.0  # steps ahead within which a stop counts
LIMIT_RECOVERY = 5.0  # [rad/s, m/s] fastest return of what starts beyond its stop; at rest v̂ is far below


@cached
def build(S) -> SimpleNamespace:
    """`stop_law`, `within_reach` for scalar type S."""
    vec2 = types(S).vec2
    contact_regularization = cone.build(S).contact_regularization
    contact_stabilization = cone.build(S).contact_stabilization

    @wp.func
    def within_reach(distance: S, rate: S, rate_star: S, h: S) -> bool:
        """Whether the stop may act in this step, by the rates at v0 and v*."""
        return distance < S(LIMIT_HORIZON) * h * wp.max(wp.abs(rate), wp.abs(rate_star))

    @wp.func
    def stop_law(weight: S, distance: S, compliance: S, dissipation_time: S, h: S) -> vec2:
        """(R, v̂); a `dissipation_time` that is not a number is β h/π. What is far beyond a near-rigid stop is brought
        back at a bounded rate, not thrown back within a step."""
        tau_d = dissipation_time
        if not (tau_d == tau_d):
            tau_d = S(LIMIT_BETA) * h / S(wp.pi)
        R = contact_regularization(weight, distance, compliance, tau_d, h, S(LIMIT_BETA), S(1.0))
        v_hat = contact_stabilization(distance, tau_d, h)
        bounded = v_hat[2]
        if compliance == S(0.0) and bounded > S(LIMIT_RECOVERY):
            bounded = S(LIMIT_RECOVERY)
        return vec2(R[2], bounded)

    @wp.func
    def stop_slopes(v_hat: S, R: S, weight: S, compliance: S, dissipation_time: S, h: S) -> vec2:
        """(∂v̂/∂φ, ∂R/∂w) of `stop_law`, from its results."""
        side = S(-1.0)  # of φ
        if v_hat < S(0.0):
            side = S(1.0)
        tau_d = dissipation_time
        if not (tau_d == tau_d):
            tau_d = S(LIMIT_BETA) * h / S(wp.pi)
        slope = side * contact_stabilization(side, tau_d, h)[2]
        if compliance == S(0.0) and v_hat >= S(LIMIT_RECOVERY):
            slope = S(0.0)
        rigid = S(LIMIT_BETA) * S(LIMIT_BETA) * S(cone.INVERSE_FOUR_PI_SQUARED)
        if R > rigid * weight:
            rigid = S(0.0)
        return vec2(slope, rigid)

    return SimpleNamespace(stop_slopes=stop_slopes, within_reach=within_reach, stop_law=stop_law)
