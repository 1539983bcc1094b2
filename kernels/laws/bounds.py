# SPDX-License-Identifier: Apache-2.0
"""Scalar constraints with an impulse clamped to an interval (theory §3.1).

They are limits, dry friction, bilateral rows and motors. With the rate v_c, the regularisation R > 0 and the
stabilisation velocity v̂,

    y = −(v_c − v̂)/R,   γ = clamp(y, lower, upper),   ℓ = γ R y − ½ γ R γ,   G = −∂γ/∂v_c = 1/R inside, 0 outside.

| constraint | lower | upper |
|---|---|---|
| joint limit, unilateral | 0 | ∞ |
| dry joint friction, torque e over a step h | −h e | h e |
| bilateral (weld, connect, mimic) | −∞ | ∞ |
| PD actuator with effort limit e | −h e | h e |
"""

from ..real import func, real

# Bounds may be infinite. A NaN passes through.


@func
def box_impulse(y: real, lower: real, upper: real) -> real:
    """γ = clamp(y, lower, upper)."""
    if y <= lower:
        return lower
    if y >= upper:
        return upper
    return y


@func
def box_cost(y: real, R: real, lower: real, upper: real) -> real:
    """ℓ = γ R y − ½ γ R γ."""
    gamma = box_impulse(y, lower, upper)
    return gamma * R * (y - real(0.5) * gamma)


@func
def box_hessian(y: real, R: real, lower: real, upper: real) -> real:
    """G = −∂γ/∂v_c; on a bound the value outside, 0 (0 and 1/R are both subgradients there)."""
    if y <= lower:
        return real(0.0)
    if y >= upper:
        return real(0.0)
    return real(1.0) / R
