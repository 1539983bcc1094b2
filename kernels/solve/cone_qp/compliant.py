# SPDX-License-Identifier: Apache-2.0
"""The contact problem of a step as a quadratic program over cones: compliant constraints (Drumwright; theory §4).

    min ½ γᵀ(W + R)γ + (J v* − v̂)ᵀγ    over friction cones, half-lines, intervals and free rows,   W = J A⁻¹ Jᵀ   (`island_qp.py`)
    R_n = 1/(h²K + hB),  v̂_n = −φ/(h + τ_d),  B = K τ_d;   R_t = 1/(h B_t),  K_t = 0: Coulomb friction without memory

Every constraint is a spring and a damper, solved implicitly; K has no floor. It is the dual of SAP's problem with this R
and v̂. Scalar rows bring their own R and v̂ (`kernels/rows/table.py`). Contacts without friction have their normal row alone.
"""

import warp as wp

from ...contact import pair_laws
from ...contact.narrow.manifold import SPHERE
from ...contact.pair_laws import Contacts, Material, Scene, friction_coefficient
from ...laws import cone
from ...laws.cone import contact_stabilization, recovery_regularization, recovery_stabilization
from ...laws.hertz import hertz_law, in_series
from ...real import func, kernel, real, struct, vec2, vec3
from ..problem import Problem


@struct
class Law:
    stiffness: real  # [N/m] where both geoms are near-rigid
    R_t: real  # 1/(h B_t) [1/kg]
    modulus: wp.array2d(dtype=real)  # (1 or worlds, geoms) of Hertz [Pa], 0: none
    size: wp.array2d(dtype=vec3)  # (1 or worlds, geoms)


@func
def linear_law(
    scene: Scene, material: Material, compliances: wp.array2d(dtype=vec2), rigid: real, w: int, c: int, p: int, h: real
) -> vec3:
    """(c, τ_d, recovery speed) of contact c of a pair, c = 1/K > 0; `rigid`: K where both geoms are."""
    pair = pair_laws.contact_compliance(
        scene, material.stiffness, material.dissipation_time, compliances, w, c, p, h / real(wp.pi)
    )
    compliance = pair[0]
    if compliance == real(0.0):
        compliance = real(1.0) / rigid
    return vec3(compliance, pair[1], pair_laws.pair_recovery(scene.recovery, pair[0]))


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
    pair_of: wp.array2d(dtype=int),
    distance: wp.array2d(dtype=real),
    compliances: wp.array2d(dtype=vec2),
    v0: wp.array2d(dtype=real),
    h: real,
):
    """R, v̂ and μ of a contact, written into the problem; v0 before the step. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c >= problem.contacts[w]:
        return
    p = pair_of[w, c]
    phi = distance[w, c]
    closing = approach(problem, scene, v0[w], w, c)
    towards = closing[0]
    if phi >= real(0.0):
        free = approach(problem, scene, problem.v_star[w], w, c)
        towards = wp.max(closing[1], free[1])
        closing[0] = wp.max(closing[0], free[0])
    pair = linear_law(scene, material, compliances, law.stiffness, w, c, p, h)
    mu = friction_coefficient(scene, material.friction, w, p)
    if (
        phi > real(0.0) and h * closing[0] <= phi
    ):  # an impact elsewhere may bring it about; the cone would rub it before
        mu = real(0.0)
    modulus = pair_modulus(scene, law, w, p)
    if modulus > real(0.0) and p < scene.point_pairs:
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


# Impulses from velocities, for the gradient of a step. No Hertz.


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    law: Law,
    h: real,
    frozen_mu: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    v_c: wp.array2d(dtype=vec3),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """γ = P(−R⁻¹(v_c − v̂)); contacts without friction in the step have none here. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        pair = linear_law(scene, material, compliance, law.stiffness, w, c, p, h)
        R_free = regularization(law.R_t, phi[w, c], pair[0], pair[1], h)
        v_free = contact_stabilization(phi[w, c], pair[1], h)
        R = recovery_regularization(R_free, v_free, pair[2])
        v_hat = recovery_stabilization(v_free, pair[2])
        mu = real(0.0)
        if frozen_mu[w, c] > real(0.0):
            mu = pair_laws.friction_coefficient(scene, material.friction, w, p)
        gamma[w, c] = cone.cone_impulse(cone.cone_y(v_c[w, c], v_hat, R), R, mu)
