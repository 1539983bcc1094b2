# SPDX-License-Identifier: Apache-2.0
"""Dry friction of a joint or tendon: v_c = ẋ, R = σ w, v̂ = 0, |γ| ≤ h e."""

from ...real import func, real, vec4
from ..table import RowState, x_itself
from .kind import ON_JOINTS, WEIGHED, YIELDS, Kind


@func
def law(s: RowState) -> vec4:
    """(R, v̂, lower, upper); R = 0 without friction."""
    bound = s.h * s.e
    R = real(0.0)
    if bound > real(0.0):
        R = s.sigma * s.weight
    return vec4(R, real(0.0), -bound, bound)


KIND = Kind(YIELDS | WEIGHED | ON_JOINTS, law, measure=x_itself)
