# SPDX-License-Identifier: Apache-2.0
"""Two-sided rows: welds, hinges, slides, balls, rods, couplings. φ = 0 holds up to the compliance c = 1/k.

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   γ = y unbounded

Where the compliance decides, γ = −h k (φ + (h + τ_d) v_c): an implicit spring and damper.

**Soft rows.** A violated near-rigid row closes at most at its `recovery` speed, |v̂| ≤ v_r. A mechanism near the end of
its reach would have to move its joints up to 1/(2 √(R/w)) times as fast as the row closes. A row with |φ|/(h + τ_d) =
(1 + x) v_r, x > 0, is therefore softer. R grows linearly with x up to x = 1, and is constant beyond: R = min(SOFT,
RIGID v_r/v_0) w with v_0 = RIGID L/(4 h). At standstill the row then pulls with the acceleration L/(4 h²).

**Held rows.** Rows that contradict each other would pull with v̂/R in every step, which is many thousand times the
weight. Rows that cannot close are therefore held: v_r is replaced by

    v_h = RIGID max(L/(4 h), w γ_load),   γ_load = 4 h (weight of the mechanism + applied forces).

A held row at standstill pulls with the acceleration L/(4 h²), or with the load. It still stops velocities along it. A
larger load makes it creep at R γ. A row is held if it belongs to a mechanism attached to the world and hardly moves
along v̂: the inverse mass along v̂ is below a tenth of the least w.

**Haste.** Let n = v̂ᵀW⁻¹v̂ w_least/|v̂|², over the directions that move. If n > 8, the row can close only with fast
joints. It then closes at 8/n of v_r, but at least at v_h. Within a group, holding and haste apply to the rows along the
direction that hinders the group most. Both need a |v̂| larger than motion explains, h u²/(20 L), where u is the speed
of what the row holds.

Derivatives treat as constant which rows are held or slowed, and their speed (rounded up to a power of two).
"""

import warp as wp

from ..laws.cone import INVERSE_FOUR_PI_SQUARED, INVERSE_MASS_FLOOR, time_or
from ..real import func, real, vec4
from .table import RowState

# Near-rigid limit: a row sinks by (h + τ_d) R γ = β²/(4π²) (1 + β/π) h² w f under the force f. On a Stewart platform at
# 2 ms the gap is 1.35e-6, 6.0e-7, 5.7e-7 m for β = 0.1, 0.03, 0.01, and float32 takes 1.00, 1.04, 2.00 Newton steps.
EQUALITY_BETA = 0.03
RIGID = EQUALITY_BETA**2 * INVERSE_FOUR_PI_SQUARED
GEOMETRIC_SHARE = 0.25  # share of L/h: the tension stays below what an explicit step can follow in a chain
LOAD_SHARE = 4.0  # factor of all weights and forces in γ_load
STUCK_SHARE = 0.1  # share of the least w: a row with less inverse mass along v̂ is at the end of its reach
ALONG = 0.1  # component of a row along the direction that hinders its group most; rows with less are not held
HASTE = 8.0  # limit of v̂ᵀW⁻¹v̂ w_least/|v̂|²: beyond it the joints move many times as fast as the row closes
SOFT = 0.1  # largest R/w of a soft row: joints move at most 1.6 times as fast as the row closes
DRIFT = 0.05  # share of h u²/L, u the speed of what the row holds: motion explains errors of that size
DRIFT_TURN = 3.0  # limit of h u/L: beyond it motion explains no errors


@func
def near_rigid_weight(s: RowState) -> real:
    """w of the near-rigid limit; 0 for a finite stiffness without that limit (`exact`)."""
    limit = s.weight
    if s.exact == 1 and s.c > real(0.0):
        limit = real(0.0)
    return limit


@func
def softening(s: RowState, v_hat: real) -> real:
    """R/w of the near-rigid limit. `v_hat`: v̂ before it is clamped to the recovery speed."""
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
