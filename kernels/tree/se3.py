# SPDX-License-Identifier: Apache-2.0
"""Exponential and logarithm on SE(3), and the derivative of the logarithm, in closed form with series near 0.

A displacement is x -> (I + A) x + p. It is stored as (A, p) = (R - I, p), because R itself would lose a small step to
rounding in float32. Its logarithm is xi = (phi; rho) with A = exp[phi] - I and rho = N p, where

    N(phi) = I - [phi]/2 + beta [phi]^2,   beta(x) = (1 - (t/2) cot(t/2)) / x,   x = t^2 = |phi|^2

and dlog_xi = sum_j B_j/j! ad_xi^j = [[N, 0], [dN(phi).rho, N]] (Lee, Liu, Park, Srinivasa, eq. 12): f(ad) of an
analytic f is block triangular, with f and its derivative as blocks. In the squared half-angle sine u = sin^2(t/2) =
-tr(A)/4, every coefficient is a power series. All series are generated here from the Bernoulli numbers, so that values
and derivatives agree.
"""

import functools
from fractions import Fraction
from math import comb, factorial

import numpy as np
import warp as wp

from ..real import COPY, func, mat33, real, struct, vec3, vec6

# Below these values the series are used: x = angle^2 for the exponential, u = sin^2(angle/2) for the logarithm.
SMALL_X = 0.25
SMALL_U = {wp.float32: 1.0 / 16.0, wp.float64: 1.0 / 32.0}
# Above it (120 degrees) the axis of a rotation comes from the symmetric part of R, because its skew part fades towards
# pi.
LARGE_U = 0.75
TERMS = 15  # terms of every series before it is cut to the precision; Warp unrolls up to 16


def _product(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    return [sum(a[k] * b[n - k] for k in range(n + 1)) for n in range(TERMS)]


def _composed(f: list[Fraction], powers: list[list[Fraction]]) -> list[Fraction]:
    """Coefficients of f(x(u)), from the powers of x."""
    return [sum(c * power[n] for c, power in zip(f, powers, strict=True)) for n in range(TERMS)]


def _bernoulli(count: int) -> list[Fraction]:
    B = [Fraction(1)]
    for n in range(1, count):
        B.append(-sum(comb(n + 1, k) * B[k] for k in range(n)) / (n + 1))
    return B


@functools.cache
def series() -> dict[str, tuple[Fraction, ...]]:
    """Taylor coefficients: sine, versine and remainder in x; g = t/sin t, beta and its x-derivatives in u."""
    B = _bernoulli(2 * TERMS + 7)
    g = [Fraction(4**n * factorial(n) ** 2, factorial(2 * n + 1)) for n in range(TERMS)]
    x = [Fraction(0)] + [Fraction(2 * 4**n, n * n * comb(2 * n, n)) for n in range(1, TERMS)]  # 4 arcsin^2(sqrt u)
    powers = [[Fraction(1)] + [Fraction(0)] * (TERMS - 1)]
    for _ in range(1, TERMS):
        powers.append(_product(powers[-1], x))
    beta = [abs(B[2 * n + 2]) / factorial(2 * n + 2) for n in range(TERMS + 2)]
    beta_1 = [n * beta[n] for n in range(1, TERMS + 2)]
    beta_2 = [n * beta_1[n] for n in range(1, TERMS + 1)]
    return {
        "sine": tuple(Fraction((-1) ** n, factorial(2 * n + 1)) for n in range(TERMS)),
        "versine": tuple(Fraction((-1) ** n, factorial(2 * n + 2)) for n in range(TERMS)),
        "remainder": tuple(Fraction((-1) ** n, factorial(2 * n + 3)) for n in range(TERMS)),
        "g": tuple(g),
        "beta": tuple(_composed(beta[:TERMS], powers)),
        "beta_1": tuple(_composed(beta_1[:TERMS], powers)),
        "beta_2": tuple(_composed(beta_2[:TERMS], powers)),
    }


def _polynomial(key: str, reach: float):
    """Horner's rule over the terms of a series that matter up to `reach` in this precision."""
    if not COPY:
        return None
    epsilon = np.finfo(wp.dtype_to_numpy(real)).eps
    values = [float(c) for c in series()[key]]
    terms = next((n for n in range(1, TERMS) if abs(values[n]) * reach**n < epsilon / 4 * abs(values[0])), TERMS)
    top = terms - 1
    # Not `wp.static` of the loop's index: Warp's hash of a module depends on whether it was built before.
    coefficients = wp.types.vector(terms, real)(*values[:terms])

    @func
    def polynomial(x: real) -> real:
        c = coefficients
        y = c[top]
        for i in range(top):
            y = y * x + c[top - 1 - i]
        return y

    return polynomial


small_u = SMALL_U[real]
sine, versine, remainder = (_polynomial(key, SMALL_X) for key in ("sine", "versine", "remainder"))
series_g, series_beta, series_beta_1, series_beta_2 = (
    _polynomial(key, small_u) for key in ("g", "beta", "beta_1", "beta_2")
)


@struct
class Logarithm:
    """phi, and the coefficients of N there: beta(x) and its derivative with respect to x = |phi|^2."""

    phi: vec3
    beta: real
    beta_1: real


@func
def exp_coefficients(x: real) -> vec3:
    """(sin t / t, (1 - cos t) / t^2, (t - sin t) / t^3) at x = t^2."""
    c = vec3(real(0.0), real(0.0), real(0.0))
    if x < real(SMALL_X):
        c = vec3(sine(x), versine(x), remainder(x))
    else:
        angle = wp.sqrt(x)
        s = wp.sin(angle)
        half = wp.sin(real(0.5) * angle)
        c = vec3(s / angle, real(2.0) * half * half / x, (angle - s) / (angle * x))
    return c


@func
def exp_rotation(phi: vec3) -> mat33:
    """exp[phi] - I."""
    x = wp.dot(phi, phi)
    c = exp_coefficients(x)
    v = c[1] * phi
    return mat33(
        v[0] * phi[0] - c[1] * x, v[0] * phi[1] - c[0] * phi[2], v[0] * phi[2] + c[0] * phi[1],
        v[1] * phi[0] + c[0] * phi[2], v[1] * phi[1] - c[1] * x, v[1] * phi[2] - c[0] * phi[0],
        v[2] * phi[0] - c[0] * phi[1], v[2] * phi[1] + c[0] * phi[0], v[2] * phi[2] - c[1] * x,
    )  # fmt: skip


@func
def axial(A: mat33) -> vec3:
    """Half the axial vector of A - A^T; phi sin t / t of A = exp[phi] - I."""
    return real(0.5) * vec3(A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1])


@func
def half_angle(A: mat33) -> real:
    """u = sin^2(t/2) of A = exp[phi] - I."""
    return wp.max(real(-0.25) * (A[0, 0] + A[1, 1] + A[2, 2]), real(0.0))


@func
def symmetric_axis(A: mat33, u: real) -> vec3:
    """Unit axis from n n^T = I + (A + A^T) / 4u, up to its sign."""
    scale = real(0.25) / u
    n = vec3(real(1.0) + real(2.0) * scale * A[0, 0], scale * (A[0, 1] + A[1, 0]), scale * (A[0, 2] + A[2, 0]))
    if A[1, 1] > A[0, 0] and A[1, 1] >= A[2, 2]:
        n = vec3(scale * (A[0, 1] + A[1, 0]), real(1.0) + real(2.0) * scale * A[1, 1], scale * (A[1, 2] + A[2, 1]))
    elif A[2, 2] > A[0, 0]:
        n = vec3(scale * (A[0, 2] + A[2, 0]), scale * (A[1, 2] + A[2, 1]), real(1.0) + real(2.0) * scale * A[2, 2])
    return wp.normalize(n)


@func(inline=False)
def log_large(A: mat33, u: real) -> Logarithm:
    """`log_rotation` away from 0, up to and including the angle pi."""
    result = Logarithm()
    w = axial(A)
    s = wp.length(w)
    angle = wp.atan2(s, real(1.0) - real(2.0) * u)
    if u < real(LARGE_U):
        result.phi = (angle / s) * w
    else:
        n = symmetric_axis(A, u)
        if wp.dot(n, w) < real(0.0):
            n = -n
        result.phi = angle * n
    x = angle * angle
    c = real(0.25) * angle * s / u  # (t/2) cot(t/2)
    c_1 = real(0.5) * c / x - real(0.125) / u
    result.beta = (real(1.0) - c) / x
    result.beta_1 = -(c_1 + result.beta) / x
    return result


@func
def log_rotation(A: mat33) -> Logarithm:
    """phi of A = exp[phi] - I, 0 <= |phi| <= pi, and the coefficients of N(phi)."""
    result = Logarithm()
    u = half_angle(A)
    if u < real(small_u):
        result.phi = series_g(u) * axial(A)
        result.beta = series_beta(u)
        result.beta_1 = series_beta_1(u)
    else:
        result = log_large(A, u)
    return result


@func(inline=False)
def beta_curvature(A: mat33) -> real:
    """Second derivative of beta with respect to x = |phi|^2, at A = exp[phi] - I."""
    u = half_angle(A)
    beta_2 = series_beta_2(u)
    if u >= real(small_u):
        log = log_large(A, u)
        x = wp.dot(log.phi, log.phi)
        s = wp.length(axial(A))
        c = real(1.0) - x * log.beta
        c_1 = real(0.5) * c / x - real(0.125) / u
        c_2 = real(0.5) * (c_1 - c / x) / x + real(0.03125) * s / (wp.sqrt(x) * u * u)
        beta_2 = -(c_2 + real(2.0) * log.beta_1) / x
    return beta_2


@func
def log_translation(log: Logarithm, p: vec3) -> vec3:
    """rho = N p."""
    b = wp.cross(log.phi, p)
    return p - real(0.5) * b + log.beta * wp.cross(log.phi, b)


@func
def dlog(log: Logarithm, rho: vec3, W: vec6) -> vec6:
    """dlog_xi W at xi = (log.phi; rho): the change of the logarithm when exp(W) follows the displacement."""
    phi = log.phi
    w = vec3(W[0], W[1], W[2])
    v = vec3(W[3], W[4], W[5])
    b = wp.cross(phi, w)
    bb = wp.cross(phi, b)
    a = w - real(0.5) * b + log.beta * bb
    r = wp.cross(rho, w)
    c = wp.cross(phi, v)
    d = v - real(0.5) * (c + r) + log.beta * (wp.cross(phi, c + r) + wp.cross(rho, b))
    d += real(2.0) * log.beta_1 * wp.dot(phi, rho) * bb
    return vec6(a[0], a[1], a[2], d[0], d[1], d[2])


@func
def dlog_transpose(log: Logarithm, rho: vec3, F: vec6) -> vec6:
    """[dlog_xi]^T F at xi = (log.phi; rho)."""
    phi = log.phi
    tau = vec3(F[0], F[1], F[2])
    f = vec3(F[3], F[4], F[5])
    b = wp.cross(phi, tau)
    r = wp.cross(rho, f)
    c = wp.cross(phi, f)
    cc = wp.cross(phi, c)
    a = tau + real(0.5) * (b + r) + log.beta * (wp.cross(phi, b + r) + wp.cross(rho, c))
    a += real(2.0) * log.beta_1 * wp.dot(phi, rho) * cc
    d = f + real(0.5) * c + log.beta * cc
    return vec6(a[0], a[1], a[2], d[0], d[1], d[2])


@struct
class TransposeSlope:
    """Blocks of the derivative of [dlog_xi]^T F with respect to xi.

    `by_translation` is also the derivative of the force with respect to phi.
    """

    by_rotation: mat33
    by_translation: mat33


@func
def square_by_rotation(phi: vec3, u: vec3) -> mat33:
    """Derivative of phi x (phi x u) with respect to phi."""
    return (
        wp.outer(phi, u)
        - real(2.0) * wp.outer(u, phi)
        + wp.diag(wp.dot(phi, u) * vec3(real(1.0), real(1.0), real(1.0)))
    )


@func
def half_skew(a: vec3) -> mat33:
    """[a]/2."""
    return real(0.5) * wp.skew(a)


@func
def dlog_block(log: Logarithm) -> mat33:
    """The diagonal blocks N(phi) of dlog_xi."""
    phi = log.phi
    x = wp.dot(phi, phi)
    one = real(1.0) - log.beta * x
    return log.beta * wp.outer(phi, phi) + wp.diag(vec3(one, one, one)) - half_skew(phi)


@func
def dlog_coupling(log: Logarithm, rho: vec3) -> mat33:
    """The block of dlog_xi that maps rotations to translations."""
    phi = log.phi
    pitch = wp.dot(phi, rho)
    bend = real(2.0) * log.beta_1 * pitch
    one = -real(2.0) * log.beta * pitch - bend * wp.dot(phi, phi)
    mixed = log.beta * (wp.outer(rho, phi) + wp.outer(phi, rho))
    return mixed + bend * wp.outer(phi, phi) + wp.diag(vec3(one, one, one)) - half_skew(rho)


@func
def dlog_transpose_slope(log: Logarithm, beta_2: real, rho: vec3, F: vec6) -> TransposeSlope:
    """Derivative of [dlog_xi]^T F with respect to xi, at fixed F."""
    phi = log.phi
    tau = vec3(F[0], F[1], F[2])
    f = vec3(F[3], F[4], F[5])
    pitch = wp.dot(phi, rho)
    b_1 = real(2.0) * log.beta_1
    of_force = square_by_rotation(phi, f)
    square = wp.cross(phi, wp.cross(phi, f))
    k = wp.dot(phi, f) * rho + wp.dot(rho, f) * phi - (real(2.0) * pitch) * f
    along = b_1 * (wp.cross(phi, wp.cross(phi, tau)) + k) + (real(4.0) * beta_2 * pitch) * square
    Q = TransposeSlope()
    Q.by_translation = log.beta * of_force + b_1 * wp.outer(square, phi) - half_skew(f)
    Q.by_rotation = log.beta * (square_by_rotation(phi, tau) + square_by_rotation(rho, f)) - half_skew(tau)
    Q.by_rotation += wp.outer(along, phi) + b_1 * (wp.outer(square, rho) + pitch * of_force)
    return Q
