# SPDX-License-Identifier: Apache-2.0
"""Torsional and rolling friction of a point contact (theory §3.7): `cone.py` and `coulomb.py` with spin rows.

A contact has three *spin rows* besides its three rows. They are the relative angular velocity about (t1, t2, n) times
the lengths μ_r/μ, μ_r/μ and μ_τ/μ. So s [m/s] is a velocity and σ [N s] its impulse; the moments are length times σ.
The cone

    ‖(γ_t, σ)‖ ≤ μ γ_n

is isotropic, with five tangential directions instead of two. Spin rows have the regularisation R_t, v̂ = 0, and the
same laws: every formula holds with y_r = ‖(y_t, z)‖, z = −s/R_t and t̂ = (y_t, z)/y_r. A row with length 0 has no
velocity and no impulse.
"""

import warp as wp

from ..real import func, mat33, real, struct, vec3
from .coulomb import compression, compression_slope, normal_impulse


@struct
class Coupled:
    """−∂(γ, σ)/∂(u, s) = [[point, left rightᵀ], [right leftᵀ, spin]] + (p, p_spin) eᵀ, e the normal.

    δ and the misses, as in `coulomb.Linearised`, are set for Newton's method only.
    """

    point: mat33
    spin: mat33
    left: vec3
    right: vec3
    p: vec3
    p_spin: vec3
    delta: vec3
    delta_spin: vec3
    miss: vec3
    miss_spin: vec3


@func
def spin_cone_impulse(y: vec3, z: vec3, R: vec3, mu: real):
    """(γ, σ), the projection of (y, z) on the cone in the norm of R."""
    zero = real(0.0)
    gamma = vec3(zero, zero, y[2])
    if y[2] < zero:  # NaN stays
        gamma = vec3(zero, zero, zero)
    sigma = vec3(zero, zero, zero)
    if mu > zero:
        y_rr = y[0] * y[0] + y[1] * y[1] + wp.dot(z, z)
        mu_hat = mu * R[0] / R[2]
        if y[2] <= zero and y[2] * y[2] >= mu_hat * mu_hat * y_rr:
            gamma = vec3(zero, zero, zero)
        elif y[2] > zero and y_rr <= mu * mu * y[2] * y[2]:
            gamma = y
            sigma = z
        else:
            y_r = wp.sqrt(y_rr)
            gamma_n = (y[2] + mu_hat * y_r) / (real(1.0) + mu * mu_hat)
            slide = mu * gamma_n / y_r
            gamma = vec3(slide * y[0], slide * y[1], gamma_n)
            sigma = slide * z
    return gamma, sigma


@func(inline=False)
def spin_cone_hessian(y: vec3, z: vec3, R: vec3, mu: real) -> Coupled:
    """G = −∂(γ, σ)/∂(u, s) of the convex law, symmetric positive semidefinite."""
    found = Coupled()
    zero = real(0.0)
    one = real(1.0)
    y_rr = y[0] * y[0] + y[1] * y[1] + wp.dot(z, z)
    mu_hat = mu * R[0] / R[2]
    if mu == zero:
        if y[2] > zero:
            found.point = wp.diag(vec3(zero, zero, one / R[2]))
    elif y[2] <= zero and y[2] * y[2] >= mu_hat * mu_hat * y_rr:
        found.point = mat33()
    elif y[2] > zero and y_rr <= mu * mu * y[2] * y[2]:
        g = one / R[0]
        found.point = wp.diag(vec3(g, g, one / R[2]))
        found.spin = wp.diag(vec3(g, g, g))
    else:
        y_r = wp.sqrt(y_rr)
        t = vec3(y[0] / y_r, y[1] / y_r, zero)
        b = z / y_r
        G_n = one / (R[2] * (one + mu * mu_hat))
        G_t = mu * mu_hat * G_n * R[2] / R[0]
        G_perp = mu * (mu_hat + y[2] / y_r) * G_n * R[2] / R[0]
        along = G_t - G_perp
        normal = vec3(zero, zero, mu * G_n)
        found.point = (
            wp.diag(vec3(G_perp, G_perp, G_n)) + along * wp.outer(t, t) + wp.outer(t, normal) + wp.outer(normal, t)
        )
        found.spin = wp.diag(vec3(G_perp, G_perp, G_perp)) + along * wp.outer(b, b)
        found.left = along * t + normal
        found.right = b
    return found


@func
def spin_coulomb_impulse(u: vec3, s: vec3, R: vec3, mu: real, load: real, least: real):
    """(γ, σ) of Coulomb's law."""
    gamma_n = normal_impulse(-u[2], R[2], load, least)
    bound = mu * gamma_n
    u_tt = u[0] * u[0] + u[1] * u[1] + wp.dot(s, s)
    gamma = vec3(real(0.0), real(0.0), gamma_n)
    sigma = vec3(real(0.0), real(0.0), real(0.0))
    if bound > real(0.0):
        if u_tt <= bound * bound * R[0] * R[0]:
            gamma = vec3(-u[0] / R[0], -u[1] / R[0], gamma_n)
            sigma = -s / R[0]
        else:
            u_t = wp.sqrt(u_tt)
            gamma = vec3(-bound * u[0] / u_t, -bound * u[1] / u_t, gamma_n)
            sigma = -(bound / u_t) * s
    return gamma, sigma


@func
def across_slip(coupled: Coupled, d: vec3, b: vec3, g: real, g_n: real) -> Coupled:
    """Set the symmetric part: g across the direction (d, b) of the tangent space, 0 along it, g_n along the normal."""
    coupled.point = wp.diag(vec3(g, g, g_n)) - g * wp.outer(d, d)
    coupled.spin = wp.diag(vec3(g, g, g)) - g * wp.outer(b, b)
    coupled.left = -g * d
    coupled.right = b
    return coupled


@func(inline=False)
def spin_coulomb_slopes(u: vec3, s: vec3, R: vec3, mu: real, load: real, least: real) -> Coupled:
    """−∂(γ, σ)/∂(u, s) of `spin_coulomb_impulse`; δ and the misses are 0."""
    found = Coupled()
    zero = real(0.0)
    gamma_n = normal_impulse(-u[2], R[2], load, least)
    if gamma_n > zero:
        g_n = real(1.0) / compression_slope(gamma_n, R[2], load, least)
        bound = mu * gamma_n
        u_tt = u[0] * u[0] + u[1] * u[1] + wp.dot(s, s)
        if mu == zero:
            found.point = wp.diag(vec3(zero, zero, g_n))
        elif u_tt <= bound * bound * R[0] * R[0]:
            g = real(1.0) / R[0]
            found.point = wp.diag(vec3(g, g, g_n))
            found.spin = wp.diag(vec3(g, g, g))
        else:
            u_t = wp.sqrt(u_tt)
            d = vec3(-u[0] / u_t, -u[1] / u_t, zero)
            b = -s / u_t
            found = across_slip(found, d, b, bound / u_t, g_n)
            found.p = (mu * g_n) * d
            found.p_spin = (mu * g_n) * b
    return found


@func(inline=False)
def spin_coulomb_newton(
    gamma: vec3, sigma: vec3, u: vec3, s: vec3, R: vec3, mu: real, load: real, least: real, rho: real, held: bool
) -> Coupled:
    """`coulomb.coulomb_newton` of a contact with spin rows.

    The trial (y, z) = (γ, σ) − ((u, s) + R (γ, σ))/ρ chooses the branch.
    """
    found = Coupled()
    zero = real(0.0)
    gap = u[2] + compression(gamma[2], R[2], load, least)
    y_n = gamma[2] - gap / rho
    if not (y_n > zero):
        found.delta = -gamma
        found.delta_spin = -sigma
        found.miss = gamma
        found.miss_spin = sigma
        if not (y_n <= zero):
            found.miss = vec3(y_n, y_n, y_n)  # not a number
        return found
    slope = compression_slope(gamma[2], R[2], load, least)
    g_n = real(1.0) / slope
    delta_n = -gap / slope
    if mu == zero:
        found.point = wp.diag(vec3(zero, zero, g_n))
        found.delta = vec3(-gamma[0], -gamma[1], delta_n)
        found.delta_spin = -sigma
        found.miss = vec3(gamma[0], gamma[1], gamma[2] - y_n)
        found.miss_spin = sigma
        return found
    y_t = vec3(gamma[0] - (u[0] + R[0] * gamma[0]) / rho, gamma[1] - (u[1] + R[0] * gamma[1]) / rho, zero)
    z = sigma - (s + R[0] * sigma) / rho
    bound = mu * y_n
    y_r = wp.sqrt(wp.dot(y_t, y_t) + wp.dot(z, z))
    if y_r <= bound:
        g = real(1.0) / R[0]
        found.point = wp.diag(vec3(g, g, g_n))
        found.spin = wp.diag(vec3(g, g, g))
        found.delta = vec3(-u[0] * g - gamma[0], -u[1] * g - gamma[1], delta_n)
        found.delta_spin = -g * s - sigma
        found.miss = vec3(gamma[0] - y_t[0], gamma[1] - y_t[1], gamma[2] - y_n)
        found.miss_spin = sigma - z
    else:
        d = y_t / y_r
        b = z / y_r
        # 1/(ρ(1 − k)/k + R_t) with k = bound/y_r; at a solution it is μγ_n over the slip.
        g = bound / (rho * (y_r - bound) + R[0] * bound)
        found = across_slip(found, d, b, g, g_n)
        slide = mu * wp.max(gamma[2], zero)
        if not held:
            slide = mu * (gamma[2] + delta_n)
            found.p = (mu * g_n) * d
            found.p_spin = (mu * g_n) * b
        pull = slide + g * (d[0] * u[0] + d[1] * u[1] + wp.dot(b, s))
        found.delta = vec3(pull * d[0] - g * u[0] - gamma[0], pull * d[1] - g * u[1] - gamma[1], delta_n)
        found.delta_spin = pull * b - g * s - sigma
        found.miss = vec3(gamma[0] - bound * d[0], gamma[1] - bound * d[1], gamma[2] - y_n)
        found.miss_spin = sigma - bound * b
    return found
