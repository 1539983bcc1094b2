# SPDX-License-Identifier: Apache-2.0
"""Actuators with feedback and an effort limit: stiffness, damping and saturation in one implicit row.

With the force f = s_0 + s_1 ℓ + s_2 ℓ̇ of the length ℓ = Σ gear q, K_p = −s_1 ≥ 0, K_d = −s_2 ≥ 0, and ℓ ← ℓ + h ℓ̇,

    γ = clamp(h (s_0 + s_1 ℓ − (h K_p + K_d) ℓ̇), h e_low, h e_high):
    R = 1/(h (h K_p + K_d)),   v̂ = (s_0 + s_1 ℓ)/(h K_p + K_d),   v_c = ℓ̇

A force that is not dissipative is explicit: both bounds are h f, so that γ = h f for any R and v̂.
"""

import warp as wp

from ..real import func, real, vec2, vec3


@func
def is_bounded(low: real, high: real) -> bool:
    """Whether an effort has a limit."""
    return low > real(-wp.inf) or high < real(wp.inf)


@func
def is_dissipative(s: vec3) -> bool:
    """Whether there is feedback and it dissipates energy."""
    return s[1] <= real(0.0) and s[2] <= real(0.0) and s[1] + s[2] < real(0.0)


@func
def effort_law(s: vec3, length: real, h: real) -> vec2:
    """(R, v̂) of an implicit actuator."""
    slope = -h * s[1] - s[2]
    return vec2(real(1.0) / (h * slope), (s[0] + s[1] * length) / slope)
