# SPDX-License-Identifier: Apache-2.0
"""Equality of two joints or tendons, x and y:

φ = x − x_0 − p(y − y_0),   p(s) = c_0 + c_1 s + … + c_4 s⁴;   ∂φ/∂q_j = a_j − p'(y − y_0) b_j
"""

from ...real import func, real, vec3, vec4
from .. import bilateral
from ..table import Coordinates
from .kind import PAIRED, WEIGHED, Kind


@func
def polynomial(c_0: real, c: vec4, s: real) -> vec3:
    """p(s), p'(s), p''(s)."""
    return vec3(
        c_0 + s * (c[0] + s * (c[1] + s * (c[2] + s * c[3]))),
        c[0] + s * (real(2.0) * c[1] + s * (real(3.0) * c[2] + s * real(4.0) * c[3])),
        real(2.0) * c[1] + s * (real(6.0) * c[2] + s * real(12.0) * c[3]),
    )


@func
def measure(at: Coordinates) -> vec4:
    """(φ, ∂φ/∂x, ∂φ/∂y, ∂²φ/∂y²)."""
    p = polynomial(at.c_0, at.c, at.y - at.y_0)
    return vec4(at.x - at.x_0 - p[0], real(1.0), -p[1], -p[2])


KIND = Kind(WEIGHED | PAIRED, bilateral.equality_law, measure=measure)
