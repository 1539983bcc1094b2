"""Actuators with feedback and an effort limit: stiffness, damping and saturation in one implicit row.

With the force f = s_0 + s_1 ℓ + s_2 ℓ̇ of the length ℓ = Σ gear q, K_p = −s_1 ≥ 0, K_d = −s_2 ≥ 0, and ℓ ← ℓ + h ℓ̇,

    γ = clamp(h (s_0 + s_1 ℓ − (h K_p + K_d) ℓ̇), h e_low, h e_high):
    R = 1/(h (h K_p + K_d)),   v̂ = (s_0 + s_1 ℓ)/(h K_p + K_d),   v_c = ℓ̇

A force that does not take energy out is explicit: both bounds are h f, so that γ = h f whatever R and v̂.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.precision import types


@cached
def build(S) -> SimpleNamespace:
    """Functions of scalar type S; s = (s_0, s_1, s_2)."""
    t = types(S)
    vec2, vec3 = t.vec2, t.vec3

    @wp.func
    def is_bounded(low: S, high: S) -> bool:
        """Whether an effort has a limit."""
        return low > S(-wp.inf) or high < S(wp.inf)

    @wp.func
    def is_dissipative(s: vec3) -> bool:
        """Whether there is feedback, and it takes energy out."""
        return s[1] <= S(0.0) and s[2] <= S(0.0) and s[1] + s[2] < S(0.0)

    @wp.func
    def effort_law(s: vec3, length: S, h: S) -> vec2:
        """(R, v̂) of an implicit actuator."""
        slope = -h * s[1] - s[2]
        return vec2(S(1.0) / (h * slope), (s[0] + s[1] * length) / slope)

    return SimpleNamespace(is_bounded=is_bounded, is_dissipative=is_dissipative, effort_law=effort_law)
