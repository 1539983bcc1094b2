# SPDX-License-Identifier: Apache-2.0
"""Friction cones with a shape of their own: ellipses and pyramids (theory §3.8).

The tangential velocities u_t of a contact enter as u' = B u_t and its impulses return as γ_t = Bᵀ γ'. B turns to the
axes of the cone and scales the second one by μ_2/μ; B_s does so for rolling. In u' the cone is circular, or a pyramid
with the edges e = n ± μ t_j, one pair for every direction t_j of friction:

    γ = Σ max(y_e, 0) e,   y_e = −e·u'/R,   G = Σ e eᵀ/R over the edges with y_e > 0
"""

import warp as wp

from ..real import func, mat33, real, vec2, vec3, vec4
from .mujoco_law import at_least
from .spin_cone import Coupled, spin_cone_hessian, spin_cone_impulse

# Which spin rows have edges.
NO_SPIN = wp.constant(0)
TORSION_ONLY = wp.constant(1)
ALL_SPIN = wp.constant(2)


@func
def turn_of(B: vec4) -> mat33:
    """The matrix of u → u', with the normal kept."""
    zero = real(0.0)
    return mat33(B[0], B[1], zero, B[2], B[3], zero, zero, zero, real(1.0))


@func
def spins_of(B_s: vec4, has_spin: bool) -> int:
    """Which spin rows of a contact have edges; B_s is 0 without rolling friction."""
    found = int(NO_SPIN)
    if has_spin:
        found = int(TORSION_ONLY)
        if B_s[0] != real(0.0) or B_s[1] != real(0.0):
            found = int(ALL_SPIN)
    return found


@func
def edges_of(u_n: real, u_t: real, mu: real, R: real) -> vec2:
    """γ of the two edges n ± μ t."""
    return vec2(at_least(real(0.0), -(u_n + mu * u_t) / R), at_least(real(0.0), -(u_n - mu * u_t) / R))


@func
def edge_slopes(u_n: real, u_t: real, mu: real, R: real) -> vec2:
    """−∂/∂u_n of Σ γ and of μ (γ₊ − γ₋): their sum and difference over the edges that act."""
    one = real(1.0) / R
    plus = wp.where(u_n + mu * u_t < real(0.0), one, real(0.0))
    minus = wp.where(u_n - mu * u_t < real(0.0), one, real(0.0))
    return vec2(plus + minus, mu * (plus - minus))


@func
def pyramid_impulse(u: vec3, s: vec3, R: real, mu: real, spins: int):
    """(γ', σ') of a pyramid at the velocities u' of the contact and s' of its spin rows."""
    zero = real(0.0)
    gamma = vec3(zero, zero, at_least(zero, -u[2] / R))
    sigma = vec3(zero, zero, zero)
    if mu > zero:
        one = edges_of(u[2], u[0], mu, R)
        two = edges_of(u[2], u[1], mu, R)
        gamma = vec3(mu * (one[0] - one[1]), mu * (two[0] - two[1]), one[0] + one[1] + two[0] + two[1])
        if spins != NO_SPIN:
            turn = edges_of(u[2], s[2], mu, R)
            total = gamma[2] + turn[0] + turn[1]
            rolls = vec2(zero, zero)
            if spins == ALL_SPIN:
                first = edges_of(u[2], s[0], mu, R)
                second = edges_of(u[2], s[1], mu, R)
                total = total + first[0] + first[1] + second[0] + second[1]
                rolls = vec2(mu * (first[0] - first[1]), mu * (second[0] - second[1]))
            gamma = vec3(gamma[0], gamma[1], total)
            sigma = vec3(rolls[0], rolls[1], mu * (turn[0] - turn[1]))
    return gamma, sigma


@func
def edge_along(y: real, rate: real) -> vec2:
    """e·du times γ R and its change, of an edge e with e·u = −y and e·du = `rate`."""
    acts = wp.where(y <= real(0.0), real(0.0), rate)
    return vec2(acts * y, -acts * rate)


@func
def pyramid_along(u: vec3, du: vec3, per_R: real, mu: real) -> vec2:
    """du·γ and du·dγ of a pyramid without spin rows at u, where u changes by du; `per_R` is 1/R."""
    found = edge_along(-u[2], du[2])
    if mu != real(0.0):
        found = (
            edge_along(-u[2] - mu * u[0], du[2] + mu * du[0])
            + edge_along(-u[2] + mu * u[0], du[2] - mu * du[0])
            + edge_along(-u[2] - mu * u[1], du[2] + mu * du[1])
            + edge_along(-u[2] + mu * u[1], du[2] - mu * du[1])
        )
    return per_R * found


@func
def pyramid_slopes(u: vec3, s: vec3, R: real, mu: real, spins: int) -> Coupled:
    """−∂(γ', σ')/∂(u', s') of a pyramid."""
    zero = real(0.0)
    found = Coupled()
    if mu == zero:
        found.point = wp.diag(vec3(zero, zero, wp.where(u[2] < zero, real(1.0) / R, zero)))
    else:
        one = edge_slopes(u[2], u[0], mu, R)
        two = edge_slopes(u[2], u[1], mu, R)
        turn = vec2(zero, zero)
        first = vec2(zero, zero)
        second = vec2(zero, zero)
        if spins != NO_SPIN:
            turn = edge_slopes(u[2], s[2], mu, R)
        if spins == ALL_SPIN:
            first = edge_slopes(u[2], s[0], mu, R)
            second = edge_slopes(u[2], s[1], mu, R)
        squared = mu * mu
        normal = one[0] + two[0] + turn[0] + first[0] + second[0]
        found.point = mat33(
            squared * one[0], zero, one[1], zero, squared * two[0], two[1], one[1], two[1], normal
        )  # fmt: skip
        found.spin = wp.diag(vec3(squared * first[0], squared * second[0], squared * turn[0]))
        found.left = vec3(zero, zero, real(1.0))
        found.right = vec3(first[1], second[1], turn[1])
    return found


@func
def shaped_impulse(u: vec3, s: vec3, B: vec4, B_s: vec4, R: vec3, mu: real, edges: int, has_spin: bool):
    """(γ, σ) of a contact at the velocities u − v̂ of its rows and s − ŝ of its spin rows."""
    T = turn_of(B)
    T_s = turn_of(B_s)
    gamma = vec3()
    sigma = vec3()
    if edges == 1:
        gamma, sigma = pyramid_impulse(T * u, T_s * s, R[2], mu, spins_of(B_s, has_spin))
    else:
        x = T * u
        y = vec3(-x[0] / R[0], -x[1] / R[1], -x[2] / R[2])
        gamma, sigma = spin_cone_impulse(y, -(T_s * s) / R[0], R, mu)
    return wp.transpose(T) * gamma, wp.transpose(T_s) * sigma


@func
def shaped_slopes(u: vec3, s: vec3, B: vec4, B_s: vec4, R: vec3, mu: real, edges: int, has_spin: bool) -> Coupled:
    """−∂(γ, σ)/∂(u, s) of `shaped_impulse`."""
    T = turn_of(B)
    T_s = turn_of(B_s)
    found = Coupled()
    if edges == 1:
        found = pyramid_slopes(T * u, T_s * s, R[2], mu, spins_of(B_s, has_spin))
    else:
        x = T * u
        y = vec3(-x[0] / R[0], -x[1] / R[1], -x[2] / R[2])
        found = spin_cone_hessian(y, -(T_s * s) / R[0], R, mu)
    found.point = wp.transpose(T) * found.point * T
    found.spin = wp.transpose(T_s) * found.spin * T_s
    found.left = wp.transpose(T) * found.left
    found.right = wp.transpose(T_s) * found.right
    return found
