"""Two-sided rows: welds, hinges, slides, balls, rods, couplings. φ = 0 holds up to the compliance c = 1/k.

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   γ = y unbounded

so that γ = −h k (φ + (h + τ_d) v_c) where the compliance decides: an implicit spring and damper.

Near-rigid rows that are violated close at the row's `recovery` speed at most, |v̂| ≤ v_r. A row at the end of its reach, which moves
next to nothing where it wants to (J ≈ 0 along v̂), would pull with v̂/R all the time, many thousand weights. Its axis turns with
the bodies at a lever L: the tension T acts like a spring T/L across, explicitly, and h² w T/L ≫ 1 makes the mechanism whirl. So
its pull saturates,

    R ≥ s (|v̂| − v_s) w,   s = 4 h/L,   v_s = 0 there, infinite for every other row,

at 1/(s w), that is at the acceleration L/(4 h²). A row that can close bears any load.
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
GEOMETRIC_SHARE = 4.0  # of h/L in s: the tension then ends below what an explicit step can follow in a chain
STUCK_SHARE = 0.25  # of the least w: a row of less is at the end of its reach


@cached
def build(S) -> SimpleNamespace:
    """`equality_law`, `equality_slopes`, `softening`, `softened` for scalar type S."""
    vec2, vec3 = types(S).vec2, types(S).vec3

    @wp.func
    def softening(h: S, lever: S) -> S:
        """s [s/m] of a near-rigid row; the lever may be infinite."""
        return S(GEOMETRIC_SHARE) * h / lever

    @wp.func
    def softened(weight: S, v_hat: S, h: S, lever: S, stiff: S) -> S:
        """The least R; `stiff`: v_s, infinite where there is none."""
        return softening(h, lever) * wp.max(wp.abs(v_hat) - stiff, S(0.0)) * weight

    @wp.func
    def equality_law(
        weight: S, phi: S, compliance: S, dissipation_time: S, h: S, recovery: S, lever: S, stiff: S
    ) -> vec2:
        """(R, v̂); a `dissipation_time` that is not a number is β h/π."""
        tau_d = dissipation_time
        if not (tau_d == tau_d):
            tau_d = S(EQUALITY_BETA) * h / S(wp.pi)
        rigid = S(RIGID) * wp.max(weight, S(INVERSE_MASS_FLOOR))
        v_hat = -phi / (h + tau_d)
        softest = compliance / (h * (h + tau_d))
        if compliance == S(0.0):
            v_hat = wp.clamp(v_hat, -recovery, recovery)
            softest = softened(weight, v_hat, h, lever, stiff)
        return vec2(wp.max(rigid, softest), v_hat)

    @wp.func
    def equality_slopes(
        v_hat: S, R: S, weight: S, compliance: S, dissipation_time: S, h: S, recovery: S, lever: S, stiff: S
    ) -> vec3:
        """(∂v̂/∂φ, ∂R/∂w, ∂R/∂φ) of `equality_law`, from its results."""
        tau_d = dissipation_time
        if not (tau_d == tau_d):
            tau_d = S(EQUALITY_BETA) * h / S(wp.pi)
        slope = S(-1.0) / (h + tau_d)
        if compliance == S(0.0) and wp.abs(v_hat) >= recovery:
            slope = S(0.0)
        by_weight = S(RIGID)
        by_error = S(0.0)
        if R > by_weight * weight:
            by_weight = S(0.0)
            if compliance == S(0.0):
                by_weight = softened(S(1.0), v_hat, h, lever, stiff)
                by_error = wp.sign(v_hat) * slope * softening(h, lever) * weight
        return vec3(slope, by_weight, by_error)

    return SimpleNamespace(
        equality_law=equality_law, equality_slopes=equality_slopes, softening=softening, softened=softened
    )
