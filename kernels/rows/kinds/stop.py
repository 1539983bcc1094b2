"""Stops of hinges, slides, ball joints and tendons, one-sided: a stop pushes only, 0 ≤ γ, with φ ≥ 0 the free side.

    φ = x − lower,   or   φ = upper − x;   of a ball joint x is the angle ‖r‖ of its rotation, ∂x/∂q = r/‖r‖

The law is also that of the bounds of a distance (`reach.py`).

    R = max(β²/(4π²) w, c/(h (h + τ_d))),   v̂ = −φ/(h + τ_d),   lower = 0, upper = ∞

c = 1/k is the compliance (0 is near-rigid); τ_d counts only in penetration, so that no force acts at a distance. What is beyond a
near-rigid stop comes back at the recovery speed v_r at most: as for contact (`cone.py`), v̂ and R are scaled alike where v̂ > v_r, so
that the load borne at rest stays, R to a hundredth at most. What cannot come back is held, see `bilateral.py`.
"""

import warp as wp

from ...laws import cone
from ...laws.cone import contact_regularization, contact_stabilization
from ...real import func, real, vec2, vec3, vec4
from ..bilateral import near_rigid_weight
from ..table import Constants, Coordinates, RowState, Table, bound
from .kind import ON_JOINTS, ONE_SIDED, WEIGHED, Kind

LIMIT_BETA = 0.1  # near-rigid limit of stops
LIMIT_HORIZON = 2.0  # steps ahead within which a stop counts


@func
def within_reach(distance: real, rate: real, rate_star: real, pull: real, h: real) -> bool:
    """Whether the stop may act in this step, by the rates at v0 and v*, and that which other rows may bring about.

    A distance that is not a number is in reach, and is noticed.
    """
    return not (distance >= real(LIMIT_HORIZON) * h * wp.max(wp.max(wp.abs(rate), wp.abs(rate_star)), pull))


@func
def stop_law(
    weight: real,
    distance: real,
    compliance: real,
    dissipation_time: real,
    h: real,
    recovery: real,
) -> vec2:
    """(R, v̂); a `dissipation_time` that is not a number is β h/π."""
    tau_d = dissipation_time
    if not (tau_d == tau_d):
        tau_d = real(LIMIT_BETA) * h / real(wp.pi)
    R = contact_regularization(weight, distance, compliance, tau_d, h, real(LIMIT_BETA), real(1.0))
    v_hat = contact_stabilization(distance, tau_d, h)
    R_n = R[2]
    bounded = v_hat[2]
    if compliance == real(0.0):
        if bounded > recovery:
            R_n = wp.max(recovery / bounded, real(cone.LEAST_RECOVERY_SHARE)) * R_n
            bounded = recovery
    return vec2(R_n, bounded)


@func
def stop_slopes(
    v_hat: real,
    R: real,
    weight: real,
    compliance: real,
    dissipation_time: real,
    h: real,
    recovery: real,
) -> vec3:
    """(∂v̂/∂φ, ∂R/∂w, ∂R/∂φ) of `stop_law`, from its results."""
    side = real(-1.0)  # of φ
    if v_hat < real(0.0):
        side = real(1.0)
    tau_d = dissipation_time
    if not (tau_d == tau_d):
        tau_d = real(LIMIT_BETA) * h / real(wp.pi)
    slope = side * contact_stabilization(side, tau_d, h)[2]
    if compliance == real(0.0) and v_hat >= recovery:
        slope = real(0.0)
    rigid = real(LIMIT_BETA) * real(LIMIT_BETA) * real(cone.INVERSE_FOUR_PI_SQUARED)
    by_weight = rigid
    by_distance = real(0.0)
    if compliance == real(0.0):
        by_weight = R / weight
        share = by_weight / rigid
        if share < real(1.0) and share > real(1.001 * cone.LEAST_RECOVERY_SHARE):  # R = rigid w v_r (h + τ_d)/(−φ)
            by_distance = share * R / (recovery * (h + tau_d))
    elif R > rigid * weight:
        by_weight = real(0.0)
    return vec3(slope, by_weight, by_distance)


@func
def law(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec4:
    """(R, v̂, 0, ∞)."""
    c = table.compliance[k]
    x = stop_law(near_rigid_weight(table, s.weight, c), s.phi, c, table.dissipation_time[k], s.h, s.speed)
    return vec4(x[0], x[1], real(0.0), real(wp.inf))


@func
def law_slopes(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec3:
    """(∂v̂/∂φ, ∂R/∂w, ∂R/∂φ) of `law`."""
    return stop_slopes(s.v_hat, s.R, s.weight, table.compliance[k], table.dissipation_time[k], s.h, s.speed)


@func
def measure(table: Table, constants: Constants, at: Coordinates, w: int, k: int) -> vec4:
    """The distance from the bound."""
    side = table.side[k]
    return vec4(side * (at.x - bound(table, constants, w, k)), side, real(0.0), real(0.0))


KIND = Kind(ONE_SIDED | WEIGHED | ON_JOINTS, law, law_slopes, measure=measure)
