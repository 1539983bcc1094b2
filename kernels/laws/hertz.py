# SPDX-License-Identifier: Apache-2.0
"""Hertz's contact of a sphere with an elastic body, linearised for an implicit step (Drumwright, §6.4; theory §4).

    f = E* √r d^{3/2},   K_n = ∂f/∂d = 3/2 E* √(r d),   φ_n = −f/K_n = −2/3 d,   G the plain normal Jacobian

d is the depth of the overlap, r the radius and E* the contact modulus, 4/3 of the textbooks' E*. For two spheres 1/r
and 1/E* add. K_n is evaluated at the depth that the present velocity leads to within the step; at rest this is d.
"""

import warp as wp

from ..real import func, real, vec2

FLATTEST = 1e-14  # [m] least depth at which K_n is evaluated: K_n > 0 keeps R_n finite


@func
def in_series(a: real, b: real) -> real:
    """1/(1/a + 1/b); 0 stands for infinity."""
    total = wp.max(a, b)
    if a > real(0.0) and b > real(0.0):
        total = a * b / (a + b)
    return total


@func
def hertz_law(modulus: real, radius: real, phi: real, approach: real, h: real) -> vec2:
    """(1/K_n, φ_n) for a signed distance φ and the approach velocity −v_n ≥ 0."""
    depth = wp.max(h * approach - phi, real(FLATTEST))
    effective = phi
    if phi < real(0.0):
        effective = real(2.0) * phi / real(3.0)
    return vec2(real(2.0) / (real(3.0) * modulus * wp.sqrt(radius * depth)), effective)
