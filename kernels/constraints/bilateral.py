"""Two-sided rows: welds, hinges, slides, balls, rods, couplings. φ = 0 holds up to the compliance c = 1/k.

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   γ = y unbounded

so that γ = −h k (φ + (h + τ_d) v_c) where the compliance decides: an implicit spring and damper.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.constraints.cone import INVERSE_FOUR_PI_SQUARED, INVERSE_MASS_FLOOR
from warpsim.kernels.precision import types

# Near-rigid limit: a row sinks by (h + τ_d) R γ = β²/(4π²) (1 + β/π) h² w f under the force f. On a Stewart platform at 2 ms
# the gap is 1.35e-6, 6.0e-7, 5.7e-7 m for β = 0.1, 0.03, 0.01, and float32 takes 1.00, 1.04, 2.00 Newton steps.
EQUALITY_BETA = 0.03
RIGID = EQUALITY_BETA**2 * INVERSE_FOUR_PI_SQUARED
EQUALITY_RECOVERY = 5.0  # [rad/s, m/s] fastest closing of a near-rigid constraint that starts violated


@cached
def build(S) -> SimpleNamespace:
    """`equality_law`, `equality_slopes` for scalar type S."""
    vec2 = types(S).vec2

    @wp.func
    def equality_law(weight: S, phi: S, compliance: S, dissipation_time: S, h: S) -> vec2:
        """(R, v̂); a `dissipation_time` that is not a number is β h/π."""
        tau_d = dissipation_time
        if not (tau_d == tau_d):
            tau_d = S(EQUALITY_BETA) * h / S(wp.pi)
        rigid = S(RIGID) * wp.max(weight, S(INVERSE_MASS_FLOOR))
        v_hat = -phi / (h + tau_d)
        if compliance == S(0.0):
            v_hat = wp.clamp(v_hat, S(-EQUALITY_RECOVERY), S(EQUALITY_RECOVERY))
        return vec2(wp.max(rigid, compliance / (h * (h + tau_d))), v_hat)

    @wp.func
    def equality_slopes(v_hat: S, R: S, weight: S, compliance: S, dissipation_time: S, h: S) -> vec2:
        """(∂v̂/∂φ, ∂R/∂w) of `equality_law`, from its results."""
        tau_d = dissipation_time
        if not (tau_d == tau_d):
            tau_d = S(EQUALITY_BETA) * h / S(wp.pi)
        slope = S(-1.0) / (h + tau_d)
        if compliance == S(0.0) and wp.abs(v_hat) >= S(EQUALITY_RECOVERY):
            slope = S(0.0)
        rigid = S(RIGID)
        if R > rigid * weight:
            rigid = S(0.0)
        return vec2(slope, rigid)

    return SimpleNamespace(equality_law=equality_law, equality_slopes=equality_slopes)
