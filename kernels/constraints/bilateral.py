"""Two-sided rows: welds, hinges, slides, balls, rods, couplings. φ = 0 holds up to the compliance c = 1/k.

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   γ = y unbounded

so that γ = −h k (φ + (h + τ_d) v_c) where the compliance decides: an implicit spring and damper.

Near-rigid rows that are violated close at the row's `recovery` speed at most, |v̂| ≤ v_r. Rows that contradict each other, or one at
the end of its reach, would pull with v̂/R all the time, many thousand weights. Their axes turn with the bodies at a lever L: the
tension γ/h acts like a spring γ/(h L) across, explicitly, and h w γ/L ≫ 1 makes the mechanism whirl. So the pull saturates,

    R ≥ |v̂| min(s w, 1/γ_load),   s = 4 h/L,

at the acceleration L/(4 h²), or at γ_load where that is more. It does so

* with γ_load = 0 for a row of a mechanism hung on the world that moves next to nothing along v̂ (the weight along v̂ is a quarter of the
  least w), or could close with haste only (v̂ᵀW⁻¹v̂ w_least/|v̂|² ≥ 8);
* with γ_load = 4 h (weight of all bodies + forces given), up to the next power of two, for positions that have stalled: closing at less
  than v̂/2 under h γᵀWγ/|γ| > L and γ > γ_load, while one of the bodies turns by more than 2 mrad in the step; until |v̂| is what a
  rigid row at half that tension has. A state remembers it (`memory["stalled"]`).

Which rows these are, and γ_load, are constants of the derivatives. Every other row bears any load.
"""

import warp as wp

from ..real import func, real, vec2, vec3
from .cone import INVERSE_FOUR_PI_SQUARED, INVERSE_MASS_FLOOR

# Near-rigid limit: a row sinks by (h + τ_d) R γ = β²/(4π²) (1 + β/π) h² w f under the force f. On a Stewart platform at 2 ms
# the gap is 1.35e-6, 6.0e-7, 5.7e-7 m for β = 0.1, 0.03, 0.01, and float32 takes 1.00, 1.04, 2.00 Newton steps.
EQUALITY_BETA = 0.03
RIGID = EQUALITY_BETA**2 * INVERSE_FOUR_PI_SQUARED
GEOMETRIC_SHARE = 4.0  # of h/L in s: the tension then ends below what an explicit step can follow in a chain
LOAD_SHARE = 4.0  # of all weights and forces in γ_load
STUCK_SHARE = 0.25  # of the least w: a row of less is at the end of its reach
STALL_TURN = 0.002  # [rad] of a body in a step
HASTE = 8.0  # of v̂ᵀW⁻¹v̂ w_least/|v̂|²: beyond it the joints move many times as fast as the row closes
HASTE_ROUNDING = 1e-6  # of the least w, added to the diagonal of W, which is singular in a plane


@func
def softening(weight: real, h: real, lever: real, load: real) -> real:
    """R/|v̂| of a row whose pull saturates; the lever may be infinite, the load is where it does not."""
    return wp.min(real(GEOMETRIC_SHARE) * h / lever * weight, real(1.0) / load)


@func
def equality_law(
    weight: real, phi: real, compliance: real, dissipation_time: real, h: real, recovery: real, lever: real, load: real
) -> vec2:
    """(R, v̂); a `dissipation_time` that is not a number is β h/π. `load`: γ_load, infinite where the pull does not saturate."""
    tau_d = dissipation_time
    if not (tau_d == tau_d):
        tau_d = real(EQUALITY_BETA) * h / real(wp.pi)
    rigid = real(RIGID) * wp.max(weight, real(INVERSE_MASS_FLOOR))
    v_hat = -phi / (h + tau_d)
    softest = compliance / (h * (h + tau_d))
    if compliance == real(0.0):
        v_hat = wp.clamp(v_hat, -recovery, recovery)
        softest = wp.abs(v_hat) * softening(weight, h, lever, load)
    return vec2(wp.max(rigid, softest), v_hat)


@func
def equality_slopes(
    v_hat: real,
    R: real,
    weight: real,
    compliance: real,
    dissipation_time: real,
    h: real,
    recovery: real,
    lever: real,
    load: real,
) -> vec3:
    """(∂v̂/∂φ, ∂R/∂w, ∂R/∂φ) of `equality_law`, from its results."""
    tau_d = dissipation_time
    if not (tau_d == tau_d):
        tau_d = real(EQUALITY_BETA) * h / real(wp.pi)
    slope = real(-1.0) / (h + tau_d)
    if compliance == real(0.0) and wp.abs(v_hat) >= recovery:
        slope = real(0.0)
    by_weight = real(RIGID)
    by_error = real(0.0)
    if R > by_weight * weight:
        by_weight = real(0.0)
        if compliance == real(0.0):
            share = softening(weight, h, lever, load)
            if share * load < real(1.0):
                by_weight = wp.abs(v_hat) * share / weight
            by_error = wp.sign(v_hat) * slope * share
    return vec3(slope, by_weight, by_error)
