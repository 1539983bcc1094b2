"""Spring and damper of a tendon, implicit, with δ = x beyond the slack interval:

γ = −h (K (δ + h ẋ) + D ẋ):   R = 1/(h (h K + D)),   v̂ = −K δ/(h K + D)
"""

import warp as wp

from ...real import func, real, vec2, vec3, vec4
from ..table import Constants, Coordinates, RowState, Table
from .kind import WEIGHED, Kind


@func
def spring_law(x: real, stiffness: real, damping: real, slack: vec2, h: real) -> vec2:
    """(R, v̂); R = 0, no row, where neither spring nor damper acts. Whether it is slack is decided by x alone."""
    beyond = real(0.0)
    if x < slack[0]:
        beyond = x - slack[0]
    elif x > slack[1]:
        beyond = x - slack[1]
    K = stiffness
    if beyond == real(0.0) and slack[0] < slack[1]:
        K = real(0.0)
    slope = h * K + damping
    law = vec2(real(0.0), real(0.0))
    if slope > real(0.0):
        law = vec2(real(1.0) / (h * slope), -K * beyond / slope)
    return law


@func
def measure(table: Table, constants: Constants, at: Coordinates, w: int, k: int) -> vec4:
    """The length."""
    return vec4(at.x, real(1.0), real(0.0), real(0.0))


@func
def law(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec4:
    """(R, v̂, −∞, ∞)."""
    x = spring_law(s.phi, table.coefficients[k, 0], table.coefficients[k, 1], table.reference[k], s.h)
    return vec4(x[0], x[1], real(-wp.inf), real(wp.inf))


@func
def law_slopes(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec3:
    """(∂v̂/∂φ, ∂R/∂w, ∂R/∂φ)."""
    slack = table.reference[k]
    slopes = vec3(real(0.0), real(0.0), real(0.0))
    if s.phi < slack[0] or s.phi > slack[1] or slack[0] == slack[1]:
        slopes[0] = -table.coefficients[k, 0] * s.h * s.R
    return slopes


KIND = Kind(WEIGHED, law, law_slopes, measure=measure)
