"""Two corrections of the convex contact model, each lagged: taken from the last iterate, so that every solve stays convex.

Slip. The convex cone makes a sliding contact separate at v_n = v̂_n + μ‖v_t‖ (Castro et al., §III-B: the gliding artefact).
Coulomb's law is the fixed point of v̂_n ← v̂_n − μ‖v_t‖ with ‖v_t‖ from the last solve (De Saxcé's change of variable; Acary,
Cadoux, Lemaréchal, Malick 2011): the friction bound and the normal law are then those of the physics.

Load. Near-rigid contact has the period β h with the effective mass 1/w of its own bodies; under a load γ_n it bears the mass
γ_n/(|g| h), and w ← min(w, |g| h/γ_n) in R_n keeps that period: a light body under a heavy one sinks no deeper than alone.
"""

import warp as wp

from ...laws.cone import INVERSE_FOUR_PI_SQUARED
from ...linalg.loops import support_rate
from ...real import kernel, real, struct, vec3
from ..problem import Problem

LARGEST_RHO = 0.9  # of the secant; several contacts that answer each other's changes may not be extrapolated further


@struct
class Lag:
    """Per contact (worlds, C) [m/s]: the s in use, the one before it, and μ‖v_t‖ that came of that one."""

    s: wp.array2d(dtype=real)
    s_before: wp.array2d(dtype=real)
    answer: wp.array2d(dtype=real)


@kernel
def lag_slip(
    problem: Problem,
    phi: wp.array2d(dtype=real),
    v_hat: wp.array2d(dtype=vec3),
    v: wp.array2d(dtype=real),
    solves: int,
    # in and out
    lag: Lag,
    # out
    lagged_v_hat: wp.array2d(dtype=vec3),
):
    """v̂_n − s, s the lagged μ‖v_t‖ after so many solves, of which v is the last result. Launch over (worlds, C).

    Before the first solve v is v0, and a contact that is still apart gets s = 0. A sliding contact answers a change of
    s by ρ = κ/(1 + κ) of it, κ = μ² W_tt/W_nn; with ρ from the last two answers, the step to the fixed point is exact.
    """
    w, c = wp.tid()
    if c < problem.contacts[w]:
        p = problem.contact_pair[w, c]
        mu = problem.mu[w, c]
        v_c = support_rate(problem.J[w, c], problem.support[p], problem.support_size[p], v[w])
        answer = mu * wp.sqrt(v_c[0] * v_c[0] + v_c[1] * v_c[1])
        s = real(0.0)
        if solves == 0:
            if phi[w, c] <= real(0.0):
                s = answer
        else:
            before = lag.s[w, c]
            rho = mu * mu / (real(1.0) + mu * mu)
            change = before - lag.s_before[w, c]
            if solves > 1 and change != real(0.0):
                rho = wp.clamp((answer - lag.answer[w, c]) / change, real(0.0), real(LARGEST_RHO))
            s = wp.max(real(0.0), before + (answer - before) / (real(1.0) - rho))
            lag.s_before[w, c] = before
            lag.answer[w, c] = answer
        lag.s[w, c] = s
        lagged_v_hat[w, c] = v_hat[w, c] - vec3(real(0.0), real(0.0), s)


@kernel
def lag_load(
    problem: Problem,
    h: real,
    beta: real,
    gravity: wp.array(dtype=vec3),
    R: wp.array2d(dtype=vec3),
    weight: wp.array2d(dtype=real),
    gamma: wp.array2d(dtype=vec3),
    # out
    lagged_R: wp.array2d(dtype=vec3),
):
    """R_n of near-rigid contacts from the supported mass. Launch over (worlds, C)."""
    w, c = wp.tid()
    if c < problem.contacts[w]:
        r = R[w, c]
        near_rigid = beta * beta * real(INVERSE_FOUR_PI_SQUARED) * weight[w, c]
        load = gamma[w, c][2] * weight[w, c]
        own = wp.length(gravity[w % gravity.shape[0]]) * h
        if r[2] <= near_rigid and load > own:
            r[2] = wp.min(r[2], near_rigid * own / load)
        lagged_R[w, c] = r
