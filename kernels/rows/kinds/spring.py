# SPDX-License-Identifier: Apache-2.0
"""Spring and damper of a tendon, implicit, with δ = x beyond the slack interval:

γ = −h (K (δ + h ẋ) + D ẋ):   R = 1/(h (h K + D)),   v̂ = −K δ/(h K + D)
"""

import warp as wp

from ...real import func, real, vec4
from ..table import RowState, x_itself
from .kind import Kind


@func
def length_beyond(s: RowState) -> real:
    """δ: x beyond the slack interval."""
    beyond = real(0.0)
    if s.phi <= s.slack[0]:
        beyond = s.phi - s.slack[0]
    elif s.phi >= s.slack[1]:
        beyond = s.phi - s.slack[1]
    return beyond


@func
def stiffness(s: RowState) -> real:
    """K; 0 while the spring is slack, which depends only on x."""
    K = s.K
    if s.slack[0] < s.slack[1] and s.phi >= s.slack[0] and s.phi <= s.slack[1]:
        K = real(0.0)
    return K


@func
def spring_law(s: RowState) -> vec4:
    """(R, v̂, −∞, ∞); R = 0 if neither spring nor damper acts."""
    K = stiffness(s)
    slope = s.h * K + s.D
    law = vec4(real(0.0), real(0.0), real(-wp.inf), real(wp.inf))
    if slope > real(0.0):
        law = vec4(real(1.0) / (s.h * slope), -K * length_beyond(s) / slope, real(-wp.inf), real(wp.inf))
    return law


KIND = Kind(0, spring_law, measure=x_itself)
