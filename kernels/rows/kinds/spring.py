"""Spring and damper of a tendon, implicit, with δ = x beyond the slack interval:

γ = −h (K (δ + h ẋ) + D ẋ):   R = 1/(h (h K + D)),   v̂ = −K δ/(h K + D)
"""

import warp as wp

from ...real import func, real, vec3, vec4
from ..table import Constants, Coordinates, RowState, Table
from .kind import WEIGHED, Kind


@func
def length_beyond(table: Table, x: real, k: int) -> real:
    """δ: x beyond the slack interval."""
    slack = table.reference[k]
    beyond = real(0.0)
    if x < slack[0]:
        beyond = x - slack[0]
    elif x > slack[1]:
        beyond = x - slack[1]
    return beyond


@func
def stiffness(table: Table, constants: Constants, x: real, w: int, k: int) -> real:
    """K, 0 where the spring is slack, which is decided by x alone."""
    K = constants.tendon_stiffness[w % constants.tendon_stiffness.shape[0], table.element[k]]
    slack = table.reference[k]
    if slack[0] < slack[1] and x >= slack[0] and x <= slack[1]:
        K = real(0.0)
    return K


@func
def measure(table: Table, constants: Constants, at: Coordinates, w: int, k: int) -> vec4:
    """The length."""
    return vec4(at.x, real(1.0), real(0.0), real(0.0))


@func
def spring_law(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec4:
    """(R, v̂, −∞, ∞); R = 0, no row, where neither spring nor damper acts."""
    K = stiffness(table, constants, s.phi, w, k)
    slope = s.h * K + constants.tendon_damping[w % constants.tendon_damping.shape[0], table.element[k]]
    law = vec4(real(0.0), real(0.0), real(-wp.inf), real(wp.inf))
    if slope > real(0.0):
        v_hat = -K * length_beyond(table, s.phi, k) / slope
        law = vec4(real(1.0) / (s.h * slope), v_hat, real(-wp.inf), real(wp.inf))
    return law


@func
def spring_slopes(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec3:
    """(∂v̂/∂φ, ∂R/∂w, ∂R/∂φ)."""
    return vec3(-stiffness(table, constants, s.phi, w, k) * s.h * s.R, real(0.0), real(0.0))


KIND = Kind(WEIGHED, spring_law, spring_slopes, measure=measure)
