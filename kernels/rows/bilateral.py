# SPDX-License-Identifier: Apache-2.0
"""Two-sided rows: welds, hinges, slides, balls, rods, couplings. φ = 0 holds up to the compliance c = 1/k.

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   γ = y unbounded

so that γ = −h k (φ + (h + τ_d) v_c) where the compliance decides: an implicit spring and damper.

Near-rigid rows that are violated close at the row's `recovery` speed at most, |v̂| ≤ v_r. Near the end of its reach a mechanism would move
its joints many times as fast to keep it, up to 1/(2 √(R/w)) times. A row that is more than the limit off, |φ|/(h + τ_d) = (1 + x) v_r, is
therefore softer: R grows with x, from x = 1 on to what pulls at standstill with the acceleration L/(4 h²), R = min(SOFT, RIGID v_r/v_0) w
with v_0 = RIGID L/(4 h). Rows that contradict each other would pull with
v̂/R all the time, many thousand weights. So rows that cannot close are held: v_r is then

    v_h = RIGID max(L/(4 h), w γ_load),   γ_load = 4 h (weight of the mechanism + forces given),

under which a row at standstill pulls with the acceleration L/(4 h²), or as much as the load, and velocities along it are stopped
as ever. A load of more than that makes it creep at R γ. Held are rows of a mechanism hung on the world that move next to nothing along v̂ (the weight
along v̂ is a tenth of the least w). Where they could close with haste only (v̂ᵀW⁻¹v̂ w_least/|v̂|² = n > 8, over directions that move at all) they close at 8/n of v_r,
v_h or more; of the rows of a group those along the direction that hinders it most. Both where |v̂| is more than motion explains, h u²/(20 L) at the speed u of what the row holds.

Which rows these are, and v_h (up to the next power of two), are constants of the derivatives.
"""

import warp as wp

from ..laws.cone import INVERSE_FOUR_PI_SQUARED, INVERSE_MASS_FLOOR, time_or
from ..real import func, real, vec4
from .table import RowState

# Near-rigid limit: a row sinks by (h + τ_d) R γ = β²/(4π²) (1 + β/π) h² w f under the force f. On a Stewart platform at 2 ms
# the gap is 1.35e-6, 6.0e-7, 5.7e-7 m for β = 0.1, 0.03, 0.01, and float32 takes 1.00, 1.04, 2.00 Newton steps.
EQUALITY_BETA = 0.03
RIGID = EQUALITY_BETA**2 * INVERSE_FOUR_PI_SQUARED
GEOMETRIC_SHARE = 0.25  # of L/h: a tension below what an explicit step can follow in a chain
LOAD_SHARE = 4.0  # of all weights and forces in γ_load
STUCK_SHARE = 0.1  # of the least w: a row of less along v̂ is at the end of its reach
ALONG = 0.1  # of a row in the direction that hinders its group most: other rows of the group are not held
HASTE = 8.0  # of v̂ᵀW⁻¹v̂ w_least/|v̂|²: beyond it the joints move many times as fast as the row closes
SOFT = 0.1  # R/w at most of a row that closes from afar: joints move at most 1.6 times as fast as it
DRIFT = 0.05  # of h u²/L, u the speed of what the row holds: errors of that size come from motion
DRIFT_TURN = 3.0  # of h u/L: beyond it they do not


@func
def near_rigid_weight(s: RowState) -> real:
    """w of the near-rigid limit: none where a finite stiffness counts as it is."""
    limit = s.weight
    if s.exact == 1 and s.c > real(0.0):
        limit = real(0.0)
    return limit


@func
def softening(s: RowState, v_hat: real) -> real:
    """R/w of the near-rigid limit; `v_hat`: without a limit."""
    share = real(RIGID)
    excess = wp.abs(v_hat) / s.speed - real(1.0)
    if s.c == real(0.0) and excess > real(0.0):
        most = wp.clamp(real(4.0) * s.h * s.speed / s.lever, real(RIGID), real(SOFT))
        share = share + (most - real(RIGID)) * wp.min(excess, real(1.0))
    return share


@func
def equality_law(s: RowState) -> vec4:
    """(R, v̂, −∞, ∞); the default of τ_d is β h/π."""
    tau_d = time_or(s.tau_d, real(EQUALITY_BETA) * s.h / real(wp.pi))
    v_hat = -s.phi / (s.h + tau_d)
    rigid = softening(s, v_hat) * wp.max(near_rigid_weight(s), real(INVERSE_MASS_FLOOR))
    if s.c == real(0.0):
        v_hat = wp.clamp(v_hat, -s.speed, s.speed)
    return vec4(wp.max(rigid, s.c / (s.h * (s.h + tau_d))), v_hat, real(-wp.inf), real(wp.inf))
