"""Rows on combinations of coordinates x = Σ a_j q_j: equalities of two joints or tendons, the spring of a tendon.

coupling   φ = x − x_0 − p(y − y_0), p(s) = c_0 + c_1 s + … + c_4 s⁴;   ∂φ/∂q_j = a_j − p'(y − y_0) b_j
spring     γ = −h (K (δ + h ẋ) + D ẋ), δ = x beyond the slack interval:   R = 1/(h (h K + D)), v̂ = −K δ/(h K + D)
"""

import warp as wp

from ..real import func, real, vec2


@func
def combination(
    a: wp.array2d(dtype=real), index: wp.array2d(dtype=int), i: int, size: int, x: wp.array2d(dtype=real), w: int
) -> real:
    """Σ_j a[i, j] x[w, index[i, j]]."""
    total = real(0.0)
    for j in range(size):
        total += a[i, j] * x[w, index[i, j]]
    return total


@func
def polynomial(c: wp.array2d(dtype=real), i: int, s: real) -> real:
    """p(s) with the coefficients c[i]."""
    return c[i, 0] + s * (c[i, 1] + s * (c[i, 2] + s * (c[i, 3] + s * c[i, 4])))


@func
def polynomial_slope(c: wp.array2d(dtype=real), i: int, s: real) -> real:
    """p'(s)."""
    return c[i, 1] + s * (real(2.0) * c[i, 2] + s * (real(3.0) * c[i, 3] + s * real(4.0) * c[i, 4]))


@func
def polynomial_curvature(c: wp.array2d(dtype=real), i: int, s: real) -> real:
    """p''(s)."""
    return real(2.0) * c[i, 2] + s * (real(6.0) * c[i, 3] + s * real(12.0) * c[i, 4])


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
