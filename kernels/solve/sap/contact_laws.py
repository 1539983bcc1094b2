# SPDX-License-Identifier: Apache-2.0
"""The law of one contact for the solvers; in kernel copies with spin rows (`SPIN`) of a contact and its spin rows.

In copies with cones of their own shape (`SHAPED`) the convex law is that of `laws/shaped_cone.py`.

In those copies (`laws/spin_cone.py`) arrays over contacts have twice as many slots. With C contacts, slot C + c holds
the spin rows of contact c, with a Jacobian, an R and impulses of its own. Where its μ is not 0, its island lists the
slot like a contact, so Jᵀγ, Jv and the updates along the iteration treat both alike. The law, its slopes and the
coupling of both slots are in this file. `newton.G` has 3 C entries: of contacts, of spin rows, and of their coupling,
as the vectors (left, right) in the first two rows of a matrix.

One lane calls every function unless its docstring says otherwise.
"""

import warp as wp

from ...laws.cone import INVERSE_MASS_FLOOR, cone_hessian, cone_impulse
from ...laws.coulomb import Linearised, coulomb_impulse, coulomb_newton, coulomb_slopes
from ...laws.shaped_cone import shaped_impulse, shaped_slopes
from ...laws.spin_cone import (
    Coupled,
    spin_cone_hessian,
    spin_cone_impulse,
    spin_coulomb_impulse,
    spin_coulomb_newton,
    spin_coulomb_slopes,
)
from ...linalg.cross_loops import (
    team_support_add_block_cross,
    team_support_add_cross,
    team_support_add_cross_rank_one,
)
from ...linalg.loops import support_rate
from ...linalg.team_loops import (
    team_support_add,
    team_support_add_block_gram,
    team_support_add_gram,
    team_support_add_rank_one,
)
from ...real import SHAPED, SPIN, func, mat33, real, vec3, vec4
from ..problem import Problem


@func
def contact_y(u_c: vec3, R: vec3) -> vec3:
    """y = −R⁻¹ u_c."""
    return vec3(-u_c[0] / R[0], -u_c[1] / R[1], -u_c[2] / R[2])


@func
def point_slots(problem: Problem) -> int:
    """C: number of contact slots, without those of spin rows."""
    C = problem.mu.shape[1]
    if SPIN:
        C = C // 2
    return C


@func
def point_of(problem: Problem, c: int) -> int:
    """The contact that slot c belongs to."""
    point = c
    if SPIN:
        if c >= point_slots(problem):
            point = c - point_slots(problem)
    return point


@func
def is_spin(problem: Problem, c: int) -> bool:
    """Whether slot c holds spin rows."""
    spins = bool(False)
    if SPIN:
        spins = c >= point_slots(problem)
    return spins


@func
def has_spin(problem: Problem, w: int, point: int) -> bool:
    """Whether a contact has active spin rows."""
    spins = bool(False)
    if SPIN:
        spins = problem.mu[w, point_slots(problem) + point] > real(0.0)
    return spins


@func
def spin_entry(problem: Problem, x: wp.array1d(dtype=vec3), w: int, point: int) -> vec3:
    """The entry of x at a contact's spin rows; 0 if it has none."""
    found = vec3(real(0.0), real(0.0), real(0.0))
    if has_spin(problem, w, point):
        found = x[point_slots(problem) + point]
    return found


@func
def contact_rho(problem: Problem, w: int, c: int) -> real:
    """ρ, the inverse effective mass of a contact [1/kg]."""
    return wp.max(problem.weight[w, point_of(problem, c)], real(INVERSE_MASS_FLOOR))


# The convex law.

COUPLED = SPIN or SHAPED  # whether the law is that of a contact and its spin rows together


@func
def spin_basis(problem: Problem, w: int, point: int) -> vec4:
    """B of a contact's spin rows; 0 without them."""
    found = vec4()
    if SPIN:
        found = problem.basis[w, point_slots(problem) + point]
    return found


@func
def convex_law(problem: Problem, u: vec3, s: vec3, w: int, c: int) -> vec3:
    """Impulse of slot c at the velocities u − v̂ of its contact and s of its spin rows."""
    point = point_of(problem, c)
    R = problem.R[w, point]
    mu = problem.mu[w, point]
    gamma = vec3()
    sigma = vec3()
    if SHAPED:
        spins = has_spin(problem, w, point)
        B_s = spin_basis(problem, w, point)
        gamma, sigma = shaped_impulse(u, s, problem.basis[w, point], B_s, R, mu, problem.edges, spins)
    else:
        gamma, sigma = spin_cone_impulse(contact_y(u, R), -s / R[0], R, mu)
    if is_spin(problem, c):
        gamma = sigma
    return gamma


@func
def convex_slopes(problem: Problem, u: vec3, s: vec3, w: int, point: int) -> Coupled:
    """Slopes of the law of a contact and its spin rows, at the velocities of `convex_law`."""
    R = problem.R[w, point]
    mu = problem.mu[w, point]
    found = Coupled()
    if SHAPED:
        spins = has_spin(problem, w, point)
        B_s = spin_basis(problem, w, point)
        found = shaped_slopes(u, s, problem.basis[w, point], B_s, R, mu, problem.edges, spins)
    else:
        found = spin_cone_hessian(contact_y(u, R), -s / R[0], R, mu)
    return found


@func
def convex_impulse(problem: Problem, u_c: wp.array1d(dtype=vec3), w: int, c: int) -> vec3:
    """γ = P(y) of slot c."""
    gamma = vec3()
    if COUPLED:
        point = point_of(problem, c)
        gamma = convex_law(problem, u_c[point], spin_entry(problem, u_c, w, point), w, c)
    else:
        R = problem.R[w, c]
        gamma = cone_impulse(contact_y(u_c[c], R), R, problem.mu[w, c])
    return gamma


@func
def convex_impulse_along(
    problem: Problem, u_c: wp.array1d(dtype=vec3), dv_c: wp.array1d(dtype=vec3), alpha: real, w: int, c: int
) -> vec3:
    """γ = P(y) of slot c at u_c + α dv_c."""
    gamma = vec3()
    if COUPLED:
        point = point_of(problem, c)
        u = u_c[point] + alpha * dv_c[point]
        s = spin_entry(problem, u_c, w, point) + alpha * spin_entry(problem, dv_c, w, point)
        gamma = convex_law(problem, u, s, w, c)
    else:
        R = problem.R[w, c]
        gamma = cone_impulse(contact_y(u_c[c] + alpha * dv_c[c], R), R, problem.mu[w, c])
    return gamma


@func
def convex_curvature_along(
    problem: Problem, u_c: wp.array1d(dtype=vec3), dv_c: wp.array1d(dtype=vec3), alpha: real, w: int, c: int
) -> real:
    """dv_cᵀ G dv_c of slot c at u_c + α dv_c, with half of the coupling between contact and spin rows."""
    curvature = real(0.0)
    if COUPLED:
        point = point_of(problem, c)
        du = dv_c[point]
        ds = spin_entry(problem, dv_c, w, point)
        u = u_c[point] + alpha * du
        s = spin_entry(problem, u_c, w, point) + alpha * ds
        x = convex_slopes(problem, u, s, w, point)
        curvature = wp.dot(du, x.left) * wp.dot(ds, x.right)
        if is_spin(problem, c):
            curvature += wp.dot(ds, x.spin * ds)
        else:
            curvature += wp.dot(du, x.point * du)
    else:
        R = problem.R[w, c]
        dv = dv_c[c]
        y = contact_y(u_c[c] + alpha * dv, R)
        curvature = wp.dot(dv, cone_hessian(y, R, problem.mu[w, c]) * dv)
    return curvature


@func
def store_slopes(problem: Problem, G: wp.array1d(dtype=mat33), x: Coupled, c: int):
    """Store slot c's part of the slopes; a spin slot also stores the coupling."""
    C = point_slots(problem)
    if is_spin(problem, c):
        G[c] = x.spin
        G[C + c] = wp.matrix_from_rows(x.left, x.right, vec3())
    else:
        G[c] = x.point


@func
def linearise_convex(problem: Problem, G: wp.array1d(dtype=mat33), u_c: wp.array1d(dtype=vec3), w: int, c: int):
    """Store G of slot c under the convex law."""
    if COUPLED:
        point = point_of(problem, c)
        x = convex_slopes(problem, u_c[point], spin_entry(problem, u_c, w, point), w, point)
        store_slopes(problem, G, x, c)
    else:
        R = problem.R[w, c]
        G[c] = cone_hessian(contact_y(u_c[c], R), R, problem.mu[w, c])


# Coulomb's law.


@func
def contact_u(problem: Problem, v: wp.array1d(dtype=real), w: int, c: int) -> vec3:
    """u = J v − v̂."""
    pair = problem.contact_pair[w, c]
    return support_rate(problem.J[w, c], problem.support[pair], problem.support_size[pair], v) - problem.v_hat[w, c]


@func
def spin_rate(problem: Problem, v: wp.array1d(dtype=real), w: int, point: int) -> vec3:
    """s, the velocity of a contact's spin rows; 0 if it has none."""
    s = vec3(real(0.0), real(0.0), real(0.0))
    if has_spin(problem, w, point):
        s = contact_u(problem, v, w, point_slots(problem) + point)
    return s


@func
def lagged_impulse(problem: Problem, v: wp.array1d(dtype=real), w: int, c: int) -> vec3:
    """Impulse of slot c under Coulomb's law at v."""
    gamma = vec3()
    if SPIN:
        point = point_of(problem, c)
        u = contact_u(problem, v, w, point)
        s = spin_rate(problem, v, w, point)
        gamma, sigma = spin_coulomb_impulse(
            u, s, problem.R[w, point], problem.mu[w, point], problem.load[w, point], problem.least[w, point]
        )
        if is_spin(problem, c):
            gamma = sigma
    else:
        u = contact_u(problem, v, w, c)
        gamma = coulomb_impulse(u, problem.R[w, c], problem.mu[w, c], problem.load[w, c], problem.least[w, c])
    return gamma


@func
def own_part(problem: Problem, G: wp.array1d(dtype=mat33), x: Coupled, c: int) -> Linearised:
    """Slot c's part of the linearised law; stores its slopes."""
    found = Linearised()
    store_slopes(problem, G, x, c)
    if is_spin(problem, c):
        found.S = x.spin
        found.p = x.p_spin
        found.delta = x.delta_spin
        found.miss = x.miss_spin
    else:
        found.S = x.point
        found.p = x.p
        found.delta = x.delta
        found.miss = x.miss
    return found


@func
def lagged_newton(
    problem: Problem, v: wp.array1d(dtype=real), gamma: wp.array1d(dtype=vec3), G: wp.array1d(dtype=mat33), w: int,
    c: int, bears: bool, held: bool,
) -> Linearised:  # fmt: skip
    """Linearise the law of slot c at v and γ; store its slopes in G. `bears`: contacts stiffen under their loads."""
    found = Linearised()
    point = point_of(problem, c)
    rho = contact_rho(problem, w, c)
    u = contact_u(problem, v, w, point)
    least = problem.least[w, point]
    if not bears:
        least = real(1.0)
    if SPIN:
        s = spin_rate(problem, v, w, point)
        sigma = spin_entry(problem, gamma, w, point)
        R = problem.R[w, point]
        mu = problem.mu[w, point]
        x = spin_coulomb_newton(gamma[point], sigma, u, s, R, mu, problem.load[w, point], least, rho, held)
        found = own_part(problem, G, x, c)
    else:
        found = coulomb_newton(gamma[c], u, problem.R[w, c], problem.mu[w, c], problem.load[w, c], least, rho, held)
        G[c] = found.S
    return found


@func
def lagged_slopes(
    problem: Problem, v: wp.array1d(dtype=real), G: wp.array1d(dtype=mat33), w: int, c: int
) -> Linearised:
    """Slopes of slot c's law at v; also stored in G."""
    found = Linearised()
    if SPIN:
        point = point_of(problem, c)
        u = contact_u(problem, v, w, point)
        s = spin_rate(problem, v, w, point)
        mu = problem.mu[w, point]
        x = spin_coulomb_slopes(u, s, problem.R[w, point], mu, problem.load[w, point], problem.least[w, point])
        found = own_part(problem, G, x, c)
    else:
        u = contact_u(problem, v, w, c)
        found = coulomb_slopes(u, problem.R[w, c], problem.mu[w, c], problem.load[w, c], problem.least[w, c])
        G[c] = found.S
    return found


@func
def slips(p: vec3) -> bool:
    """Whether the slot's friction depends on the normal impulse: p ≠ 0, the contact slides."""
    found = p[0] != real(0.0) or p[1] != real(0.0)
    if SPIN:
        found = found or p[2] != real(0.0)
    return found


# Contributions of slots to the matrix A + JᵀGJ and to its products. All lanes call these, except where marked.


@func
def acts(problem: Problem, G: wp.array1d(dtype=mat33), c: int) -> bool:
    """Whether the contact of slot c transmits a normal impulse, by its slope."""
    g = G[point_of(problem, c)]
    return g[2, 2] != real(0.0)


@func
def add_gram(
    problem: Problem, G: wp.array1d(dtype=mat33), w: int, c: int, slot: wp.array1d(dtype=int), H: wp.array2d(dtype=real)
):
    """Add JᵀGJ of slot c to H; a spin slot also adds the coupling with its contact."""
    pair = problem.contact_pair[w, c]
    support = problem.support[pair]
    size = problem.support_size[pair]
    team_support_add_gram(problem.J[w, c], support, size, G[c], slot, H)
    if SPIN:
        if is_spin(problem, c):
            g = G[point_slots(problem) + c]
            point = point_of(problem, c)
            team_support_add_cross(problem.J[w, point], problem.J[w, c], support, size, g[0], g[1], slot, H)


@func
def add_block_gram(problem: Problem, G: wp.array1d(dtype=mat33), w: int, c: int, P: wp.array2d(dtype=real)):
    """Add the part of `add_gram` inside the tree blocks to P."""
    pair = problem.contact_pair[w, c]
    support = problem.support[pair]
    size = problem.support_size[pair]
    team_support_add_block_gram(problem.J[w, c], support, size, G[c], problem.dof_begin, P)
    if SPIN:
        if is_spin(problem, c):
            g = G[point_slots(problem) + c]
            J = problem.J[w, point_of(problem, c)]
            team_support_add_block_cross(J, problem.J[w, c], support, size, g[0], g[1], problem.dof_begin, P)


@func
def coupled_force(
    problem: Problem, G: wp.array1d(dtype=mat33), x: wp.array1d(dtype=real), rate: vec3, w: int, c: int
) -> vec3:
    """G J x of slot c with J x = `rate`, coupling included. By one lane."""
    f = G[c] * rate
    if SPIN:
        point = point_of(problem, c)
        if has_spin(problem, w, point):
            C = point_slots(problem)
            pair = problem.contact_pair[w, c]
            g = G[C + C + point]
            other = wp.where(is_spin(problem, c), point, C + point)
            theirs = support_rate(problem.J[w, other], problem.support[pair], problem.support_size[pair], x)
            if is_spin(problem, c):
                f = f + wp.dot(g[0], theirs) * g[1]
            else:
                f = f + wp.dot(g[1], theirs) * g[0]
    return f


@func
def normal_rate(problem: Problem, x: wp.array1d(dtype=real), rate: vec3, w: int, c: int) -> real:
    """eᵀ J x of slot c's contact. By one lane."""
    normal = rate[2]
    if SPIN:
        if is_spin(problem, c):
            pair = problem.contact_pair[w, c]
            J = problem.J[w, point_of(problem, c)]
            theirs = support_rate(J, problem.support[pair], problem.support_size[pair], x)
            normal = theirs[2]
    return normal


@func
def add_rank_one(
    problem: Problem, p: vec3, w: int, c: int, slot: wp.array1d(dtype=int), H: wp.array2d(dtype=real), begin: int,
    end: int,
):  # fmt: skip
    """Add Jᵀp eᵀJ of slot c, with e its contact's normal, to rows [begin, end)."""
    pair = problem.contact_pair[w, c]
    support = problem.support[pair]
    size = problem.support_size[pair]
    if is_spin(problem, c):
        J = problem.J[w, point_of(problem, c)]
        team_support_add_cross_rank_one(problem.J[w, c], J, support, size, p, slot, H, begin, end)
    else:
        team_support_add_rank_one(problem.J[w, c], support, size, p, slot, H, begin, end)


@func
def add_rank_one_product(
    problem: Problem, p: vec3, x: wp.array1d(dtype=real), w: int, c: int, transposed: int, y: wp.array1d(dtype=real)
):
    """y ← y + Jᵀp eᵀJ x of slot c, or its transpose."""
    pair = problem.contact_pair[w, c]
    support = problem.support[pair]
    size = problem.support_size[pair]
    rate = support_rate(problem.J[w, c], support, size, x)
    f = normal_rate(problem, x, rate, w, c) * p
    into = c
    if transposed == 1:
        f = vec3(real(0.0), real(0.0), wp.dot(p, rate))
        into = point_of(problem, c)
    team_support_add(problem.J[w, into], support, size, f, y)
