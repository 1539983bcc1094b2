"""Rows on combinations of coordinates x = Σ a_j q_j: equalities of two joints or tendons, the spring of a tendon.

coupling   φ = x − x_0 − p(y − y_0), p(s) = c_0 + c_1 s + … + c_4 s⁴;   ∂φ/∂q_j = a_j − p'(y − y_0) b_j
spring     γ = −h (K (δ + h ẋ) + D ẋ), δ = x beyond the slack interval:   R = 1/(h (h K + D)), v̂ = −K δ/(h K + D)
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.precision import types


@cached
def build(S) -> SimpleNamespace:
    """Functions of scalar type S."""
    vec2 = types(S).vec2

    @wp.func
    def combination(
        a: wp.array2d(dtype=S), index: wp.array2d(dtype=int), i: int, size: int, x: wp.array2d(dtype=S), w: int
    ) -> S:
        """Σ_j a[i, j] x[w, index[i, j]]."""
        total = S(0.0)
        for j in range(size):
            total += a[i, j] * x[w, index[i, j]]
        return total

    @wp.func
    def polynomial(c: wp.array2d(dtype=S), i: int, s: S) -> S:
        """p(s) with the coefficients c[i]."""
        return c[i, 0] + s * (c[i, 1] + s * (c[i, 2] + s * (c[i, 3] + s * c[i, 4])))

    @wp.func
    def polynomial_slope(c: wp.array2d(dtype=S), i: int, s: S) -> S:
        """p'(s)."""
        return c[i, 1] + s * (S(2.0) * c[i, 2] + s * (S(3.0) * c[i, 3] + s * S(4.0) * c[i, 4]))

    @wp.func
    def polynomial_curvature(c: wp.array2d(dtype=S), i: int, s: S) -> S:
        """p''(s)."""
        return S(2.0) * c[i, 2] + s * (S(6.0) * c[i, 3] + s * S(12.0) * c[i, 4])

    @wp.func
    def spring_law(x: S, stiffness: S, damping: S, slack: vec2, h: S) -> vec2:
        """(R, v̂); R = 0, no row, where neither spring nor damper acts. Whether it is slack is decided by x alone."""
        beyond = S(0.0)
        if x < slack[0]:
            beyond = x - slack[0]
        elif x > slack[1]:
            beyond = x - slack[1]
        K = stiffness
        if beyond == S(0.0) and slack[0] < slack[1]:
            K = S(0.0)
        slope = h * K + damping
        law = vec2(S(0.0), S(0.0))
        if slope > S(0.0):
            law = vec2(S(1.0) / (h * slope), -K * beyond / slope)
        return law

    return SimpleNamespace(
        combination=combination,
        polynomial=polynomial,
        polynomial_slope=polynomial_slope,
        polynomial_curvature=polynomial_curvature,
        spring_law=spring_law,
    )
