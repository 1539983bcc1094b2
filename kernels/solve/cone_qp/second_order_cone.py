# SPDX-License-Identifier: Apache-2.0
"""The second-order cone x_n ≥ ‖x_t‖ of up to three components, as the algebra that interior-point methods need.

Vectors are (t1, t2, n); half-lines and plane cones have 0 in the absent components. ∘ is the Jordan product,
J = diag(−1, −1, 1), and the determinant x_n² − ‖x_t‖² is positive inside the cone (Alizadeh, Goldfarb: Second-order
cone programming, §4; Andersen, Dahl, Vandenberghe: Implementation of nonsymmetric interior-point methods, for the
scaling).
"""

import warp as wp

from ...real import func, real, vec3

INFINITE = 1e30


@func
def tangent(v: vec3) -> real:
    """‖v_t‖."""
    return wp.sqrt(v[0] * v[0] + v[1] * v[1])


@func
def determinant(v: vec3) -> real:
    """v_n² − ‖v_t‖², without cancellation."""
    r = tangent(v)
    return (v[2] - r) * (v[2] + r)


@func
def project(v: vec3) -> vec3:
    """P_K v, the projection on the cone."""
    r = tangent(v)
    if r <= v[2]:
        return v
    if r <= -v[2]:
        return vec3(real(0.0), real(0.0), real(0.0))
    c = real(0.5) * (v[2] + r)
    return vec3(c * v[0] / r, c * v[1] / r, c)


@func
def product(a: vec3, b: vec3) -> vec3:
    """a ∘ b."""
    return vec3(a[2] * b[0] + b[2] * a[0], a[2] * b[1] + b[2] * a[1], wp.dot(a, b))


@func
def divide(a: vec3, b: vec3) -> vec3:
    """The c with a ∘ c = b."""
    n = (a[2] * b[2] - a[0] * b[0] - a[1] * b[1]) / determinant(a)
    return vec3((b[0] - n * a[0]) / a[2], (b[1] - n * a[1]) / a[2], n)


@func
def longest_step(a: vec3, d: vec3) -> real:
    """The largest α with a + αd in the cone, for a inside."""
    size = wp.sqrt(determinant(a))
    b = a / size
    along = b[2] * d[2] - b[0] * d[0] - b[1] * d[1]
    factor = (along + d[2]) / (b[2] + real(1.0))
    t0 = d[0] - factor * b[0]
    t1 = d[1] - factor * b[1]
    inverse = (wp.sqrt(t0 * t0 + t1 * t1) - along) / size
    if inverse > real(0.0):
        return real(1.0) / inverse
    return real(INFINITE)


@func
def scaling_point(x: vec3, z: vec3) -> vec3:
    """w̄ of the Nesterov–Todd scaling W² = η² (2 w̄ w̄ᵀ − J), x = W² z, η⁴ = det x / det z."""
    d_x = wp.sqrt(determinant(x))
    d_z = wp.sqrt(determinant(z))
    cosine = (wp.dot(x, z) / (d_x * d_z) + real(1.0)) * real(0.5)
    inverse = real(0.5) / wp.sqrt(cosine)
    return vec3(
        inverse * (x[0] / d_x - z[0] / d_z),
        inverse * (x[1] / d_x - z[1] / d_z),
        inverse * (x[2] / d_x + z[2] / d_z),
    )
