# SPDX-License-Identifier: Apache-2.0
"""Slopes of a contact's impulse by the data of its law, of the cone or of Coulomb's: the latter where the problem has loads (theory §3.5, §3.6)."""

from ..laws import cone, coulomb
from ..real import func, real, vec3
from ..solve.problem import Problem


@func
def impulse_by_R(
    problem: Problem, w: int, c: int, gamma: vec3, u: vec3, rate: vec3, load_rate: real, least_rate: real
) -> vec3:
    """dγ when R changes by `rate` = (dRt, dRt, dRn), and γ_0 and σ_m of Coulomb's law by the others, at fixed u = v_c − v̂."""
    by_R = vec3()
    if problem.load.shape[0] > 0:
        by_R = coulomb.coulomb_impulse_by_R(
            gamma,
            u,
            problem.R[w, c],
            problem.mu[w, c],
            problem.load[w, c],
            problem.least[w, c],
            rate,
            load_rate,
            least_rate,
        )
    else:
        by_R = cone.cone_impulse_by_R(gamma, u, problem.R[w, c], problem.mu[w, c], rate)
    return by_R


@func
def impulse_by_mu(problem: Problem, w: int, c: int, gamma: vec3, u: vec3) -> vec3:
    """∂γ/∂μ at fixed u."""
    by_mu = vec3()
    if problem.load.shape[0] > 0:
        by_mu = coulomb.coulomb_impulse_by_mu(gamma, u, problem.R[w, c], problem.mu[w, c])
    else:
        by_mu = cone.cone_impulse_by_mu(gamma, u, problem.R[w, c], problem.mu[w, c])
    return by_mu


@func
def load_by_weight(problem: Problem, w: int, c: int) -> real:
    """∂γ_0/∂w of γ_0 = |g| h/(2 w)."""
    slope = real(0.0)
    if problem.load.shape[0] > 0:
        slope = -problem.load[w, c] / problem.weight[w, c]
    return slope


@func
def least_by_weight(problem: Problem, w: int, c: int) -> real:
    """∂σ_m/∂w of σ_m = 1/(w M), where it is below 1."""
    slope = real(0.0)
    if problem.load.shape[0] > 0:
        if problem.least[w, c] < real(1.0):
            slope = -problem.least[w, c] / problem.weight[w, c]
    return slope
