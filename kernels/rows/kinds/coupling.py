"""Equality of two joints or tendons, x and y:

φ = x − x_0 − p(y − y_0),   p(s) = c_0 + c_1 s + … + c_4 s⁴;   ∂φ/∂q_j = a_j − p'(y − y_0) b_j
"""

from ...real import func, real, vec3, vec4
from .. import bilateral
from ..table import Constants, Coordinates, Table, coefficient
from .kind import PAIRED, WEIGHED, Kind


@func
def polynomial(table: Table, constants: Constants, s: real, w: int, k: int) -> vec3:
    """p(s), p'(s), p''(s)."""
    c_0 = coefficient(table, constants, 0, w, k)
    c_1 = coefficient(table, constants, 1, w, k)
    c_2 = coefficient(table, constants, 2, w, k)
    c_3 = coefficient(table, constants, 3, w, k)
    c_4 = coefficient(table, constants, 4, w, k)
    return vec3(
        c_0 + s * (c_1 + s * (c_2 + s * (c_3 + s * c_4))),
        c_1 + s * (real(2.0) * c_2 + s * (real(3.0) * c_3 + s * real(4.0) * c_4)),
        real(2.0) * c_2 + s * (real(6.0) * c_3 + s * real(12.0) * c_4),
    )


@func
def measure(table: Table, constants: Constants, at: Coordinates, w: int, k: int) -> vec4:
    """(φ, ∂φ/∂x, ∂φ/∂y, ∂²φ/∂y²)."""
    p = polynomial(table, constants, at.y - table.reference[k][1], w, k)
    return vec4(at.x - table.reference[k][0] - p[0], real(1.0), -p[1], -p[2])


KIND = Kind(WEIGHED | PAIRED, bilateral.equality_law, bilateral.equality_slopes, measure=measure)
