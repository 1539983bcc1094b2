# SPDX-License-Identifier: Apache-2.0
"""The convex friction cone of SAP: γ as a projection on the cone (Castro et al., §III, theory §3.1).

Steps follow Coulomb's law (`coulomb.py`) by default; the cone's law is that of `SAP(approximation="convex")`, of
`solve_contact` and of Compliant. R, v̂ and the recovery from overlap, below, are the same for both laws.

Contact velocity v_c = (v_t1, v_t2, v_n), regularisation R = diag(Rt, Rt, Rn), stabilisation velocity v̂ = (0, 0, v̂_n),

    y = −R⁻¹ (v_c − v̂),   γ = P(y),   ℓ = ½ γᵀRγ,   G = −∂γ/∂v_c ⪰ 0,

where P is the projection on the cone ‖γ_t‖ ≤ μ γ_n in the norm of R. With y_r = ‖y_t‖, t̂ = y_t/y_r, μ̂ = μ Rt/Rn and
μ̃² = μ μ̂:

    no contact   y_n ≤ −μ̂ y_r          γ = 0                                              G = 0
    μ = 0        y_n > 0                 γ = (0, 0, y_n)                                    G = diag(0, 0, 1/Rn)
    stiction     y_r ≤ μ y_n             γ = y                                              G = R⁻¹
    sliding      otherwise               γ_n = (y_n + μ̂ y_r)/(1 + μ̃²), γ_t = μ γ_n t̂      G = 1/(1 + μ̃²) ×
                 [[ μ/Rt (μ̂ P + (μ̂ + y_n/y_r) P⊥), μ/Rn t̂ ], [ μ/Rn t̂ᵀ, 1/Rn ]],  P = t̂t̂ᵀ, P⊥ = I − P

The code tests μ = 0 first (0 · ∞ is a NaN, and y_r = 0 with y_n < 0 must not pull), then the other rows in this order.
The tests compare squares. So only the sliding branch, where y_r > 0, has a square root and a division by y_r: values
and adjoints stay finite at y_r = 0. A NaN falls through to the last branch and comes out as a NaN.

Recovery from overlap. Near-rigid contact would separate overlapping bodies within one step, at the speed
v̂_n = −φ/(h + τ_d). If this is more than the recovery speed v_r, the law is scaled by s = v_r/v̂_n: v̂_n ← s v̂_n = v_r
and R_n ← s R_n. Then no force acts for v_n ≥ v_r. The load borne at v_n = 0, v̂_n/R_n, stays the same, so that a light
body under a heavy one sinks no deeper. For R_n s is at least 1/100. Contact with a given stiffness keeps its law.
"""

import warp as wp

from ..real import func, mat33, real, struct, vec3

# 1/(4π²): with this factor the contact's spring has the period β h in the near-rigid limit (Castro et al., §V-B).
INVERSE_FOUR_PI_SQUARED = 0.025330295910584444
# Floor of w [1/kg]: R = 0 would divide 0 by 0.
INVERSE_MASS_FLOOR = 1e-12
INERT = 1e12  # replaces w = 0 of a contact that moves nothing, so that it has no impulse
# Least s of R_n: it makes R_n as small as that of a joint stop (`limit.LIMIT_BETA`² times a contact's), which float32
# can solve.
LEAST_RECOVERY_SHARE = 1e-2


# Vectors below are in the axes (t1, t2, n); R = (Rt, Rt, Rn) has equal tangential entries.


@func
def cone_y(v_c: vec3, v_hat: vec3, R: vec3) -> vec3:
    """y = −R⁻¹ (v_c − v̂), the impulse without the cone constraint."""
    return vec3((v_hat[0] - v_c[0]) / R[0], (v_hat[1] - v_c[1]) / R[1], (v_hat[2] - v_c[2]) / R[2])


@func
def cone_impulse(y: vec3, R: vec3, mu: real) -> vec3:
    """γ = P(y)."""
    if mu == real(0.0):
        if y[2] <= real(0.0):
            return vec3(real(0.0), real(0.0), real(0.0))
        return vec3(real(0.0), real(0.0), y[2])
    y_rr = y[0] * y[0] + y[1] * y[1]
    mu_hat = mu * R[0] / R[2]
    if y[2] <= real(0.0) and y[2] * y[2] >= mu_hat * mu_hat * y_rr:
        return vec3(real(0.0), real(0.0), real(0.0))
    if y[2] > real(0.0) and y_rr <= mu * mu * y[2] * y[2]:
        return y
    y_r = wp.sqrt(y_rr)
    gamma_n = (y[2] + mu_hat * y_r) / (real(1.0) + mu * mu_hat)
    slide = mu * gamma_n / y_r
    return vec3(slide * y[0], slide * y[1], gamma_n)


@func
def cone_cost(gamma: vec3, R: vec3) -> real:
    """ℓ = ½ γᵀRγ."""
    return real(0.5) * (R[0] * gamma[0] * gamma[0] + R[1] * gamma[1] * gamma[1] + R[2] * gamma[2] * gamma[2])


@func
def cone_hessian(y: vec3, R: vec3, mu: real) -> mat33:
    """G = −∂γ/∂v_c, symmetric positive semidefinite."""
    zero = real(0.0)
    if mu == zero:
        if y[2] <= zero:
            return mat33(zero, zero, zero, zero, zero, zero, zero, zero, zero)
        return mat33(zero, zero, zero, zero, zero, zero, zero, zero, real(1.0) / R[2])
    y_rr = y[0] * y[0] + y[1] * y[1]
    mu_hat = mu * R[0] / R[2]
    if y[2] <= zero and y[2] * y[2] >= mu_hat * mu_hat * y_rr:
        return mat33(zero, zero, zero, zero, zero, zero, zero, zero, zero)
    if y[2] > zero and y_rr <= mu * mu * y[2] * y[2]:
        G_t = real(1.0) / R[0]
        return mat33(G_t, zero, zero, zero, G_t, zero, zero, zero, real(1.0) / R[2])
    y_r = wp.sqrt(y_rr)
    t1 = y[0] / y_r
    t2 = y[1] / y_r
    G_n = real(1.0) / (R[2] * (real(1.0) + mu * mu_hat))
    G_t = mu * mu_hat * G_n * R[2] / R[0]
    G_perp = mu * (mu_hat + y[2] / y_r) * G_n * R[2] / R[0]
    G_12 = (G_t - G_perp) * t1 * t2
    G_1n = mu * G_n * t1
    G_2n = mu * G_n * t2
    return mat33(
        G_t * t1 * t1 + G_perp * t2 * t2, G_12, G_1n,
        G_12, G_t * t2 * t2 + G_perp * t1 * t1, G_2n,
        G_1n, G_2n, G_n,
    )  # fmt: skip


@struct
class Projected:
    """γ = P(y) and the terms of its derivatives, computed without branches.

    Lanes whose contacts are on different parts of the cone then do not diverge.
    """

    gamma: vec3
    t_1: real  # t̂
    t_2: real
    per_y_r: real  # 1/y_r, 0 at y_r = 0
    share: real  # 1/(1 + μ̃²)
    is_open: bool
    sticks: bool


@func
def project(y: vec3, mu_hat: real, mu: real) -> Projected:
    """γ = P(y) for μ̂ = μ Rt/Rn, as `cone_impulse`, with the terms of its derivatives.

    No tape may record it: it divides by y_r also at y_r = 0, so its adjoint would be NaN there.
    """
    zero = real(0.0)
    x = Projected()
    y_1 = wp.where(mu == zero, zero, y[0])
    y_2 = wp.where(mu == zero, zero, y[1])
    y_rr = y_1 * y_1 + y_2 * y_2
    y_r = wp.sqrt(y_rr)
    x.per_y_r = wp.where(y_rr == zero, zero, real(1.0) / y_r)
    x.t_1 = y_1 * x.per_y_r
    x.t_2 = y_2 * x.per_y_r
    x.share = real(1.0) / (real(1.0) + mu * mu_hat)
    x.is_open = y[2] <= zero and y[2] * y[2] >= mu_hat * mu_hat * y_rr
    x.sticks = mu != zero and y[2] > zero and y_rr <= mu * mu * y[2] * y[2]
    gamma_n = (y[2] + mu_hat * y_r) * x.share
    slide = vec3(mu * gamma_n * x.t_1, mu * gamma_n * x.t_2, gamma_n)
    x.gamma = wp.where(x.is_open, vec3(zero, zero, zero), wp.where(x.sticks, y, slide))
    return x


@func
def projected_rate(x: Projected, rate: vec3, mu_hat: real, mu: real) -> vec3:
    """dγ when y changes by `rate`."""
    zero = real(0.0)
    along = x.t_1 * rate[0] + x.t_2 * rate[1]
    rate_n = (rate[2] + mu_hat * along) * x.share
    turn = mu * x.gamma[2] * x.per_y_r
    growth = mu * rate_n - turn * along
    slide = vec3(growth * x.t_1 + turn * rate[0], growth * x.t_2 + turn * rate[1], rate_n)
    return wp.where(x.is_open, vec3(zero, zero, zero), wp.where(x.sticks, rate, slide))


@func
def projected_hessian(x: Projected, y_n: real, per_R: vec3, mu_hat: real, mu: real) -> mat33:
    """G = −∂γ/∂v_c of a projection; `per_R` is 1/R."""
    zero = real(0.0)
    G_n = x.share * per_R[2]
    G_t = mu * mu_hat * x.share * per_R[0]
    G_perp = mu * (mu_hat + y_n * x.per_y_r) * x.share * per_R[0]
    G_12 = (G_t - G_perp) * x.t_1 * x.t_2
    G_1n = mu * G_n * x.t_1
    G_2n = mu * G_n * x.t_2
    slide = mat33(
        G_t * x.t_1 * x.t_1 + G_perp * x.t_2 * x.t_2, G_12, G_1n,
        G_12, G_t * x.t_2 * x.t_2 + G_perp * x.t_1 * x.t_1, G_2n,
        G_1n, G_2n, G_n,
    )  # fmt: skip
    stick = mat33(per_R[0], zero, zero, zero, per_R[0], zero, zero, zero, per_R[2])
    none = mat33(zero, zero, zero, zero, zero, zero, zero, zero, zero)
    return wp.where(x.is_open, none, wp.where(x.sticks, stick, slide))


@func
def cone_trial(gamma: vec3, u: vec3, R: vec3, mu: real, rho: real) -> mat33:
    """G with γ⁺ = −G u⁺ on the part of the law that the trial y = γ − (u + Rγ)/ρ chooses.

    ρ is the inverse mass of the contact. A choice by u alone, as `cone_hessian`, finds sticking contacts one after the
    other; from γ near the solution this one is nearly always right.
    """
    zero = real(0.0)
    G = mat33(zero, zero, zero, zero, zero, zero, zero, zero, zero)
    y_0 = gamma[0] - (u[0] + R[0] * gamma[0]) / rho
    y_1 = gamma[1] - (u[1] + R[0] * gamma[1]) / rho
    y_n = gamma[2] - (u[2] + R[2] * gamma[2]) / rho
    y_t = wp.sqrt(y_0 * y_0 + y_1 * y_1)
    if mu == zero and y_n > zero:
        G[2, 2] = real(1.0) / R[2]
    elif mu != zero and y_t <= mu * y_n:
        G = mat33(real(1.0) / R[0], zero, zero, zero, real(1.0) / R[0], zero, zero, zero, real(1.0) / R[2])
    elif y_n + mu * y_t > zero and mu != zero:
        g = real(1.0) / (mu * mu * R[0] + R[2])
        bound = mu * (y_n + mu * y_t) / (real(1.0) + mu * mu)
        side = bound / (rho * (y_t - bound) + R[0] * bound)
        along = mu * mu * g - side
        d_0 = y_0 / y_t
        d_1 = y_1 / y_t
        G = mat33(
            along * d_0 * d_0 + side, along * d_0 * d_1, mu * g * d_0,
            along * d_0 * d_1, along * d_1 * d_1 + side, mu * g * d_1,
            mu * g * d_0, mu * g * d_1, g,
        )  # fmt: skip
    return G


@func
def time_or(tau_d: real, default: real) -> real:
    """τ_d, or the default if τ_d is NaN."""
    found = default
    if tau_d == tau_d:
        found = tau_d
    return found


@func
def contact_regularization(w: real, phi: real, compliance: real, tau_d: real, h: real, beta: real, sigma: real) -> vec3:
    """(Rt, Rt, Rn) from physical parameters: Rn = max(β²/(4π²) w, c/(h (h + τ_d))), Rt = σ w (Castro et al., §V).

    w = ‖W_ii‖_F/3 [1/kg] is the contact's effective inverse mass, and c = 1/k [m/N] its compliance (0 is near-rigid).
    τ_d [s] is the dissipation time; it counts as 0 while φ > 0 [m], so that no force acts at a distance. A contact that
    moves nothing (w = 0) has no impulse.
    """
    w_floored = wp.max(w, real(INVERSE_MASS_FLOOR))
    if w == real(0.0):
        w_floored = real(INERT)
    damping = tau_d
    if phi > real(0.0):
        damping = real(0.0)
    R_n = wp.max(beta * beta * real(INVERSE_FOUR_PI_SQUARED) * w_floored, compliance / (h * (h + damping)))
    R_t = sigma * w_floored
    return vec3(R_t, R_t, R_n)


@func
def contact_stabilization(phi: real, tau_d: real, h: real) -> vec3:
    """v̂ = (0, 0, −φ/(h + τ_d)), with τ_d = 0 while φ > 0."""
    damping = tau_d
    if phi > real(0.0):
        damping = real(0.0)
    return vec3(real(0.0), real(0.0), -phi / (h + damping))


@func
def recovery_regularization(R: vec3, v_hat: vec3, recovery: real) -> vec3:
    """R with s R_n in place of R_n. If v̂_n ≤ v_r, R is unchanged to the bit."""
    limited = R
    if v_hat[2] > recovery:
        share = wp.max(recovery / v_hat[2], real(LEAST_RECOVERY_SHARE))
        limited = vec3(R[0], R[1], share * R[2])
    return limited


@func
def recovery_stabilization(v_hat: vec3, recovery: real) -> vec3:
    """(0, 0, min(v̂_n, v_r))."""
    limited = v_hat
    if v_hat[2] > recovery:
        limited = vec3(v_hat[0], v_hat[1], recovery)
    return limited
