"""The contact problem of a step as a quadratic program over cones: compliant constraints (Drumwright; theory §4).

    min ½ γᵀ(W + R)γ + (J v* − v̂)ᵀγ    over friction cones, half-lines, intervals and free rows,   W = J A⁻¹ Jᵀ
    R_n = 1/(h²K + hB),  v̂_n = −φ/(h + τ_d),  B = K τ_d;   R_t = 1/(h B_t),  K_t = 0: Coulomb friction without memory

Every constraint is a spring and a damper, solved implicitly; K has no floor. It is the dual of SAP's problem with this R
and v̂. Scalar rows bring their own R and v̂ (`kernels/rows/table.py`); one with a lower bound l is solved for
x = γ − l ≥ 0, an upper bound is a row of A. Contacts without friction have their normal row alone. Friction below rounding
is cleared, so that a scene that is symmetric stays so: a column of spheres, an unstable equilibrium, stands.
"""

import numpy as np
import warp as wp

from ...contact import contacts as contact
from ...contact.contacts import Contacts, Material, Scene, friction_coefficient
from ...contact.narrow.manifold import SPHERE
from ...laws import cone
from ...laws.cone import contact_stabilization, recovery_regularization, recovery_stabilization
from ...laws.hertz import hertz_law, in_series
from ...linalg.loops import row_fill
from ...real import func, kernel, real, struct, vec2, vec3
from ..delassus import Dual
from ..problem import Problem
from .scaling import Problem as QP


@struct
class Law:
    stiffness: real  # [N/m] where both geoms are near-rigid
    R_t: real  # 1/(h B_t) [1/kg]
    modulus: wp.array2d(dtype=real)  # (1 or worlds, geoms) of Hertz [Pa], 0: none
    size: wp.array2d(dtype=vec3)  # (1 or worlds, geoms)


@func
def linear_law(
    scene: Scene,
    stiffness: wp.array2d(dtype=real),
    dissipation_time: wp.array2d(dtype=real),
    rigid: real,
    w: int,
    p: int,
    h: real,
) -> vec3:
    """(c, τ_d, recovery speed) of a pair, c = 1/K > 0; `rigid`: K where both geoms are."""
    pair = contact.pair_compliance(scene, stiffness, dissipation_time, w, p, h / real(wp.pi))
    compliance = pair[0]
    if compliance == real(0.0):
        compliance = real(1.0) / rigid
    return vec3(compliance, pair[1], contact.pair_recovery(scene, pair[0]))


@func
def pair_modulus(scene: Scene, law: Law, w: int, p: int) -> real:
    """E* of a pair, 0 where Hertz's law does not hold."""
    row = w % law.modulus.shape[0]
    return in_series(law.modulus[row, scene.pair_geom[p, 0]], law.modulus[row, scene.pair_geom[p, 1]])


@func
def pair_radius(scene: Scene, law: Law, w: int, p: int) -> real:
    """r of a pair; what is no sphere counts as flat."""
    row = w % law.size.shape[0]
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    r_a = real(0.0)
    r_b = real(0.0)
    if scene.geom_type[a] == SPHERE:
        r_a = law.size[row, a][0]
    if scene.geom_type[b] == SPHERE:
        r_b = law.size[row, b][0]
    return in_series(r_a, r_b)


@func
def regularization(R_t: real, phi: real, compliance: real, tau_d: real, h: real) -> vec3:
    """(R_t, R_t, R_n)."""
    return cone.contact_regularization(real(1.0), phi, compliance, tau_d, h, real(0.0), R_t)


epsilon = float(np.finfo(wp.dtype_to_numpy(real)).eps)


@struct
class Bounds:
    """Of the listed rows; an upper bound that is not beyond the lower fixes γ."""

    lower: wp.array2d(dtype=real)  # (worlds, N)
    upper: wp.array2d(dtype=real)


@func
def approach(problem: Problem, scene: Scene, v: wp.array1d(dtype=real), w: int, c: int) -> vec2:
    """Velocity at which a contact closes, −v_n, and the largest with either side at rest."""
    p = problem.contact_pair[w, c]
    a = real(0.0)
    b = real(0.0)
    for k in range(problem.support_size[p]):
        u = problem.J[w, c, 2, k] * v[problem.support[p, k]]
        if scene.support_sign[p, k] < real(0.0):
            a -= u
        else:
            b -= u
    return vec2(a + b, wp.max(a + b, wp.max(a, b)))


@kernel
def regularise(
    problem: Problem,
    scene: Scene,
    material: Material,
    law: Law,
    distance: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    h: real,
):
    """R, v̂ and μ of a contact, written into the problem; v0 before the step. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c >= problem.contacts[w]:
        return
    p = problem.contact_pair[w, c]
    phi = distance[w, c]
    closing = approach(problem, scene, v0[w], w, c)
    towards = closing[0]
    if phi >= real(0.0):
        free = approach(problem, scene, problem.v_star[w], w, c)
        towards = wp.max(closing[1], free[1])
        closing[0] = wp.max(closing[0], free[0])
    pair = linear_law(scene, material.stiffness, material.dissipation_time, law.stiffness, w, p, h)
    mu = friction_coefficient(scene, material.friction, w, p)
    if (
        phi > real(0.0) and h * closing[0] <= phi
    ):  # an impact elsewhere may bring it about; the cone would rub it before
        mu = real(0.0)
    modulus = pair_modulus(scene, law, w, p)
    if modulus > real(0.0):
        radius = pair_radius(scene, law, w, p)
        local = hertz_law(modulus, radius, phi, wp.max(towards, real(0.0)), h)
        pair[0] = local[0]
        pair[2] = real(wp.inf)
        phi = local[1]
    R_free = regularization(law.R_t, phi, pair[0], pair[1], h)
    v_free = contact_stabilization(phi, pair[1], h)
    problem.R[w, c] = recovery_regularization(R_free, v_free, pair[2])
    problem.v_hat[w, c] = recovery_stabilization(v_free, pair[2])
    problem.mu[w, c] = mu


@kernel
def fill(problem: Problem, dual: Dual, qp: QP, bounds: Bounds):
    """g and bounds of a listed row; R joins the diagonal of W, which is H. Launch over (worlds, N)."""
    w, r = wp.tid()
    if r >= dual.count[w]:
        return
    slots = problem.contact_pair.shape[1]
    source = dual.source[w, r]
    v_hat = real(0.0)
    R = real(0.0)
    lower = real(-wp.inf)
    upper = real(wp.inf)
    if source < 3 * slots:
        c = source // 3
        axis = source - 3 * c
        v_hat = problem.v_hat[w, c][axis]
        R = problem.R[w, c][axis]
        if axis == 2:
            lower = real(0.0)
    else:
        k = source - 3 * slots
        v_hat = problem.row_v_hat[w, k]
        R = problem.row_R[w, k]
        lower = problem.row_lower[w, k]
        upper = problem.row_upper[w, k]
    qp.H[w, r, r] = qp.H[w, r, r] + R
    qp.g[w, r] = dual.u_star[w, r] - v_hat
    bounds.lower[w, r] = lower
    bounds.upper[w, r] = upper


@func
def add_cone(qp: QP, w: int, start: int, size: int, mu: real):
    k = qp.cones[w]
    qp.start[w, k] = start
    qp.size[w, k] = size
    qp.mu[w, k] = mu
    qp.cones[w] = k + 1


@func
def fix(qp: QP, w: int, r: int, n: int):
    """Take x_r = 0 out of the problem."""
    for i in range(n):
        qp.H[w, i, r] = real(0.0)
        qp.H[w, r, i] = real(0.0)
    qp.H[w, r, r] = real(1.0)
    qp.g[w, r] = real(0.0)


@kernel
def assemble(problem: Problem, dual: Dual, bounds: Bounds, qp: QP):
    """Cones, half-lines and upper bounds, and g for x = γ − lower. Launch over worlds."""
    w = wp.tid()
    slots = problem.contact_pair.shape[1]
    n = dual.count[w]
    qp.variables[w] = n
    qp.cones[w] = 0
    qp.rows[w] = 0
    for r in range(n):
        shift = bounds.lower[w, r]
        if shift != real(0.0) and shift != real(-wp.inf):
            for i in range(n):
                qp.g[w, i] = qp.g[w, i] + qp.H[w, i, r] * shift
    for r in range(n):
        lower = bounds.lower[w, r]
        upper = bounds.upper[w, r]
        source = dual.source[w, r]
        if source < 3 * slots:
            c = source // 3
            axis = source - 3 * c
            mu = problem.mu[w, c]
            if axis == 0:
                add_cone(qp, w, r, 3, mu)
            elif axis == 2 and mu == real(0.0):
                add_cone(qp, w, r, 1, real(0.0))
        elif upper <= lower:
            fix(qp, w, r, n)
        else:
            if lower != real(-wp.inf):
                add_cone(qp, w, r, 1, real(0.0))
            else:
                lower = real(0.0)
            if upper != real(wp.inf):
                k = qp.rows[w]
                row_fill(real(0.0), qp.A[w, k], 0, n)
                qp.A[w, k, r] = real(-1.0)
                qp.q[w, k] = lower - upper
                qp.rows[w] = k + 1


@kernel
def recover(problem: Problem, dual: Dual, bounds: Bounds, x: wp.array2d(dtype=real), impulse: wp.array2d(dtype=real)):
    """γ = x + lower; friction below the rounding of its bound μ γ_n is 0. Launch over (worlds, N)."""
    w, r = wp.tid()
    if r >= dual.count[w]:
        return
    slots = problem.contact_pair.shape[1]
    source = dual.source[w, r]
    gamma = x[w, r]
    if source < 3 * slots:
        c = source // 3
        axis = source - 3 * c
        if axis < 2:
            n = r - axis + 2
            rounding = real(epsilon) * problem.mu[w, c] * x[w, n]
            if wp.max(wp.abs(x[w, n - 2]), wp.abs(x[w, n - 1])) <= rounding:
                gamma = real(0.0)
    elif bounds.lower[w, r] != real(-wp.inf):
        gamma += bounds.lower[w, r]
    impulse[w, r] = gamma


# Impulses from velocities, for the gradient of a step. No Hertz.


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
    contacts: Contacts,
    friction: wp.array2d(dtype=real),
    stiffness: wp.array2d(dtype=real),
    dissipation_time: wp.array2d(dtype=real),
    law: Law,
    h: real,
    frozen_mu: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    v_c: wp.array2d(dtype=vec3),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """γ = P(−R⁻¹(v_c − v̂)); contacts without friction in the step have none here. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        pair = linear_law(scene, stiffness, dissipation_time, law.stiffness, w, p, h)
        R_free = regularization(law.R_t, phi[w, c], pair[0], pair[1], h)
        v_free = contact_stabilization(phi[w, c], pair[1], h)
        R = recovery_regularization(R_free, v_free, pair[2])
        v_hat = recovery_stabilization(v_free, pair[2])
        mu = real(0.0)
        if frozen_mu[w, c] > real(0.0):
            mu = contact.friction_coefficient(scene, friction, w, p)
        gamma[w, c] = cone.cone_impulse(cone.cone_y(v_c[w, c], v_hat, R), R, mu)
