"""Equality of two joints or tendons, x and y:

φ = x − x_0 − p(y − y_0),   p(s) = c_0 + c_1 s + … + c_4 s⁴;   ∂φ/∂q_j = a_j − p'(y − y_0) b_j
"""

from ...real import func, real, vec4
from .. import bilateral
from ..table import Constants, Coordinates, Table
from .kind import PAIRED, WEIGHED, Kind


@func
def polynomial(table: Table, k: int, s: real) -> real:
    """p(s)."""
    c = table.coefficients[k]
    return c[0] + s * (c[1] + s * (c[2] + s * (c[3] + s * c[4])))


@func
def polynomial_slope(table: Table, k: int, s: real) -> real:
    """p'(s)."""
    c = table.coefficients[k]
    return c[1] + s * (real(2.0) * c[2] + s * (real(3.0) * c[3] + s * real(4.0) * c[4]))


@func
def polynomial_curvature(table: Table, k: int, s: real) -> real:
    """p''(s)."""
    c = table.coefficients[k]
    return real(2.0) * c[2] + s * (real(6.0) * c[3] + s * real(12.0) * c[4])


@func
def measure(table: Table, constants: Constants, at: Coordinates, w: int, k: int) -> vec4:
    """(φ, ∂φ/∂x, ∂φ/∂y, ∂²φ/∂y²)."""
    s = at.y - table.reference[k][1]
    phi = at.x - table.reference[k][0] - polynomial(table, k, s)
    return vec4(phi, real(1.0), -polynomial_slope(table, k, s), -polynomial_curvature(table, k, s))


KIND = Kind(WEIGHED | PAIRED, bilateral.law, bilateral.law_slopes, measure=measure)
