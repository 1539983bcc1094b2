# SPDX-License-Identifier: Apache-2.0
"""Stops of hinges, slides, ball joints and tendons. A stop is one-sided: it only pushes, 0 ≤ γ; φ ≥ 0 is the free side.

    φ = x − lower,   or   φ = upper − x;   for a ball joint x is the angle ‖r‖ of its rotation, ∂x/∂q = r/‖r‖

The bounds of a distance (`reach.py`) have the same law.

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   lower = 0, upper = ∞

c = 1/k is the compliance (0: near-rigid). τ_d counts only in penetration, so that no force acts at a distance. Beyond a
near-rigid stop a joint returns at most at the recovery speed v_r. As for contact (`cone.py`), v̂ and R are scaled by
the same factor if v̂ > v_r, so that the load at rest stays the same; R is scaled by at least 1/100. Stops that cannot
return are held, see `bilateral.py`.
"""

import warp as wp

from ...laws import cone
from ...laws.cone import contact_regularization, contact_stabilization, time_or
from ...real import func, real, vec4
from ..bilateral import near_rigid_weight
from ..table import Coordinates, RowState
from .kind import ON_JOINTS, ONE_SIDED, WEIGHED, Kind

LIMIT_BETA = 0.1  # near-rigid limit of stops
LIMIT_HORIZON = 2.0  # number of steps ahead within which a stop counts


@func
def within_reach(distance: real, rate: real, rate_star: real, pull: real, h: real) -> bool:
    """Whether the stop may act in this step, by the rates at v0 and v* and by `pull`, the rate that other rows may
    cause.

    A NaN distance is within reach, so that it is noticed.
    """
    return not (distance >= real(LIMIT_HORIZON) * h * wp.max(wp.max(wp.abs(rate), wp.abs(rate_star)), pull))


@func
def stop_law(s: RowState) -> vec4:
    """(R, v̂, 0, ∞); the default of τ_d is β h/π."""
    tau_d = time_or(s.tau_d, real(LIMIT_BETA) * s.h / real(wp.pi))
    R = contact_regularization(near_rigid_weight(s), s.phi, s.c, tau_d, s.h, real(LIMIT_BETA), real(1.0))
    v_hat = contact_stabilization(s.phi, tau_d, s.h)
    R_n = R[2]
    bounded = v_hat[2]
    if s.c == real(0.0):
        if bounded > s.speed:
            R_n = wp.max(s.speed / bounded, real(cone.LEAST_RECOVERY_SHARE)) * R_n
            bounded = s.speed
    return vec4(R_n, bounded, real(0.0), real(wp.inf))


@func
def measure(at: Coordinates) -> vec4:
    """Signed distance to the bound and its derivatives."""
    return vec4(at.side * (at.x - at.bound), at.side, real(0.0), real(0.0))


KIND = Kind(ONE_SIDED | WEIGHED | ON_JOINTS, stop_law, measure=measure)
