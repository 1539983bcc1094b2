"""Scalar constraints whose impulse is clamped to an interval (theory §3.1): limits, dry friction, bilateral rows, motors.

With rate v_c, regularisation R > 0 and stabilisation velocity v̂,

    y = −(v_c − v̂)/R,   γ = clamp(y, lower, upper),   ℓ = γ R y − ½ γ R γ,   G = −∂γ/∂v_c = 1/R inside, 0 outside.

| constraint | lower | upper |
|---|---|---|
| joint limit, unilateral | 0 | ∞ |
| dry joint friction, torque e over a step h | −h e | h e |
| bilateral (weld, connect, mimic) | −∞ | ∞ |
| PD actuator with effort limit e | −h e | h e |
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached


@cached
def build(S) -> SimpleNamespace:
    """Functions of one scalar row; bounds may be infinite, a NaN passes through."""

    @wp.func
    def box_impulse(y: S, lower: S, upper: S) -> S:
        """γ = clamp(y, lower, upper)."""
        if y <= lower:
            return lower
        if y >= upper:
            return upper
        return y

    @wp.func
    def box_cost(y: S, R: S, lower: S, upper: S) -> S:
        """ℓ = γ R y − ½ γ R γ."""
        gamma = box_impulse(y, lower, upper)
        return gamma * R * (y - S(0.5) * gamma)

    @wp.func
    def box_hessian(y: S, R: S, lower: S, upper: S) -> S:
        """G = −∂γ/∂v_c; on a bound the outer value 0, of the two that are subgradients."""
        if y <= lower:
            return S(0.0)
        if y >= upper:
            return S(0.0)
        return S(1.0) / R

    return SimpleNamespace(box_impulse=box_impulse, box_cost=box_cost, box_hessian=box_hessian)
