# SPDX-License-Identifier: Apache-2.0
"""Coulomb's law of regularised contact, and its linearisation for Newton's method (theory §3.6).

With u = v_c − v̂, R = diag(Rt, Rt, Rn) and the compression c(γ_n) [m/s] of the normal, the law of one contact is

    γ_n ≥ 0  ⟂  u_n + c(γ_n) ≥ 0,      ‖γ_t‖ ≤ μ γ_n,      s = u_t + R_t γ_t = 0, or γ_t = −μ γ_n s/‖s‖.

The slip s is u_t without the elastic part −R_t γ_t of friction. The law is the fixed point of SAP's convex law under
the lag v̂_n ← v̂_n − μ‖s‖ (De Saxcé's change of variable; Acary, Cadoux, Lemaréchal, Malick 2011). A sliding contact
keeps its normal law; under the convex cone it lifts off at the speed μ‖v_t‖. Solved for the impulse,

    γ_n = c⁻¹(max(0, −u_n)),   γ_t = −u_t / max(R_t, ‖u_t‖/(μ γ_n)).

Supported load. Contact without a given stiffness is a spring with the period β h at the mass 1/w of the contact's
bodies. Under a load γ it supports the mass γ/(|g| h). To keep the period, the tangent stiffness grows with the load,
from half of the bodies' weight on, γ_0 = |g| h/(2 w):

    dc/dγ = R_n max(min(1, γ_0/γ), σ_m),   σ_m = min(1, 1/(w M)).

So c = R_n γ up to γ_0, and c = R_n γ_0 (1 + ln(γ/γ_0)) above it. c is linear again above the load of M, the total mass
of the world: bodies wedged between others press with any force. A light body under a body 10³ times heavier sinks 4
times as deep as alone, not 10³ times. Contact with a given stiffness keeps c = R_n γ, σ_m = 1.
"""

import warp as wp

from ..real import func, mat33, real, struct, vec3
from .cone import INVERSE_MASS_FLOOR

OWN_SHARE = 0.5  # γ_0 over the impulse |g| h/w that supports the mass 1/w of the contact


@struct
class Linearised:
    """One contact linearised at (γ, u): γ⁺ = γ + δ − (S + p eᵀ) du with p = (p_1, p_2, 0) and e the normal."""

    S: mat33  # symmetric, positive semidefinite
    p: vec3  # change of friction with the normal velocity, the unsymmetric part; 0 unless the contact slides
    delta: vec3
    miss: vec3  # γ minus the projection of γ − (u + R γ)/ρ on the law; 0 if the law holds


@func
def compression(gamma_n: real, R_n: real, load: real, least: real) -> real:
    """c(γ_n) [m/s]; `least`: σ_m."""
    c = R_n * gamma_n
    if least < real(1.0) and gamma_n > load:
        if gamma_n * least >= load:  # >=: if load is 0 and the product underflows, no division by load
            c = R_n * (least * gamma_n - load * wp.log(least))
        else:
            c = R_n * load * (real(1.0) + wp.log(gamma_n / load))
    return c


@func
def compression_slope(gamma_n: real, R_n: real, load: real, least: real) -> real:
    """dc/dγ_n [1/kg]."""
    slope = R_n
    if least < real(1.0) and gamma_n > load:
        slope = R_n * wp.max(load / gamma_n, least)
    return slope


@func
def normal_impulse(x: real, R_n: real, load: real, least: real) -> real:
    """c⁻¹(x), 0 for x ≤ 0."""
    gamma_n = real(0.0)
    if x > real(0.0):
        gamma_n = x / R_n
        if least < real(1.0) and gamma_n > load:
            straight = (gamma_n + load * wp.log(least)) / least
            if straight * least >= load:
                gamma_n = straight
            else:
                gamma_n = load * wp.exp(gamma_n / load - real(1.0))
    return gamma_n


@func
def least_share(compliance: real, w: real, mass: real) -> real:
    """σ_m of a contact with the compliance 1/k [m/N] (0: near-rigid)."""
    least = real(1.0)
    if compliance == real(0.0) and w * mass > real(1.0):
        least = real(1.0) / (w * mass)
    return least


@func
def supported_load(gravity: vec3, h: real, w: real) -> real:
    """γ_0 = |g| h/(2 w) [N s] of a contact."""
    return real(OWN_SHARE) * wp.length(gravity) * h / wp.max(w, real(INVERSE_MASS_FLOOR))


@func
def coulomb_impulse(u: vec3, R: vec3, mu: real, load: real, least: real) -> vec3:
    """γ of the law. Only the sliding branch, with ‖u_t‖ > 0, has a root and a division: adjoints stay finite."""
    gamma_n = normal_impulse(-u[2], R[2], load, least)
    bound = mu * gamma_n
    u_tt = u[0] * u[0] + u[1] * u[1]
    gamma = vec3(real(0.0), real(0.0), gamma_n)
    if bound > real(0.0):
        if u_tt <= bound * bound * R[0] * R[0]:
            gamma = vec3(-u[0] / R[0], -u[1] / R[0], gamma_n)
        else:
            u_t = wp.sqrt(u_tt)
            gamma = vec3(-bound * u[0] / u_t, -bound * u[1] / u_t, gamma_n)
    return gamma


@func
def across(d0: real, d1: real, g: real, g_n: real) -> mat33:
    """Matrix with g across the direction d in the tangent plane, 0 along d, and g_n along the normal."""
    zero = real(0.0)
    return mat33(g * d1 * d1, -g * d0 * d1, zero, -g * d0 * d1, g * d0 * d0, zero, zero, zero, g_n)


@func
def coulomb_slopes(u: vec3, R: vec3, mu: real, load: real, least: real) -> Linearised:
    """S and p of −∂γ/∂u = S + p eᵀ of `coulomb_impulse`; δ and the miss are 0."""
    found = Linearised()
    gamma_n = normal_impulse(-u[2], R[2], load, least)
    if gamma_n > real(0.0):
        g_n = real(1.0) / compression_slope(gamma_n, R[2], load, least)
        bound = mu * gamma_n
        u_tt = u[0] * u[0] + u[1] * u[1]
        if mu == real(0.0):
            found.S = wp.diag(vec3(real(0.0), real(0.0), g_n))
        elif u_tt <= bound * bound * R[0] * R[0]:
            found.S = wp.diag(vec3(real(1.0) / R[0], real(1.0) / R[0], g_n))
        else:
            u_t = wp.sqrt(u_tt)
            d0 = -u[0] / u_t
            d1 = -u[1] / u_t
            found.S = across(d0, d1, bound / u_t, g_n)
            found.p = vec3(mu * g_n * d0, mu * g_n * d1, real(0.0))
    return found


@func
def coulomb_newton(
    gamma: vec3, u: vec3, R: vec3, mu: real, load: real, least: real, rho: real, held: bool
) -> Linearised:
    """The law linearised at an impulse γ and a velocity u that need not satisfy it.

    The trial y = γ − (u + Rγ)/ρ chooses the branch (augmented Lagrangian; Alart, Curnier 1991), with ρ the inverse mass
    of the contact. A choice by u alone would find sticking contacts one after the other. `held`: the friction bound
    keeps its present value.
    """
    found = Linearised()
    gap = u[2] + compression(gamma[2], R[2], load, least)
    y_n = gamma[2] - gap / rho
    if not (y_n > real(0.0)):
        found.delta = -gamma
        found.miss = gamma
        if not (y_n <= real(0.0)):
            found.miss = vec3(y_n, y_n, y_n)  # not a number
        return found
    slope = compression_slope(gamma[2], R[2], load, least)
    g_n = real(1.0) / slope
    delta_n = -gap / slope
    if mu == real(0.0):
        found.S = wp.diag(vec3(real(0.0), real(0.0), g_n))
        found.delta = vec3(-gamma[0], -gamma[1], delta_n)
        found.miss = vec3(gamma[0], gamma[1], gamma[2] - y_n)
        return found
    y_0 = gamma[0] - (u[0] + R[0] * gamma[0]) / rho
    y_1 = gamma[1] - (u[1] + R[0] * gamma[1]) / rho
    bound = mu * y_n
    y_t = wp.sqrt(y_0 * y_0 + y_1 * y_1)
    if y_t <= bound:
        g_t = real(1.0) / R[0]
        found.S = wp.diag(vec3(g_t, g_t, g_n))
        found.delta = vec3(-u[0] * g_t - gamma[0], -u[1] * g_t - gamma[1], delta_n)
        found.miss = vec3(gamma[0] - y_0, gamma[1] - y_1, gamma[2] - y_n)
    else:
        d0 = y_0 / y_t
        d1 = y_1 / y_t
        # 1/(ρ(1 − k)/k + R_t) with k = bound/y_t; at a solution it is μγ_n/‖u_t‖.
        g_t = bound / (rho * (y_t - bound) + R[0] * bound)
        side = g_t * (u[0] * -d1 + u[1] * d0)
        slide = mu * wp.max(gamma[2], real(0.0))
        found.S = across(d0, d1, g_t, g_n)
        if not held:
            slide = mu * (gamma[2] + delta_n)
            found.p = vec3(mu * g_n * d0, mu * g_n * d1, real(0.0))
        found.delta = vec3(slide * d0 + side * d1 - gamma[0], slide * d1 - side * d0 - gamma[1], delta_n)
        found.miss = vec3(gamma[0] - bound * d0, gamma[1] - bound * d1, gamma[2] - y_n)
    return found
