# SPDX-License-Identifier: Apache-2.0
"""The contact problem of a step as a quadratic program over cones: compliant constraints (Drumwright; theory §4).

    min ½ γᵀ(W + R)γ + (J v* − v̂)ᵀγ   over friction cones, half-lines, intervals and free rows,   W = J A⁻¹ Jᵀ
    R_n = 1/(h²K + hB),  v̂_n = −φ/(h + τ_d),  B = K τ_d;   R_t = 1/(h B_t),  K_t = 0: Coulomb friction without memory

Every constraint is a spring and a damper, integrated implicitly; K has no lower limit. The program (`island_qp.py`) is
the dual of SAP's problem with this R and v̂. Scalar rows have their own R and v̂ (`kernels/rows/table.py`). A contact
without friction has its normal row alone.
"""

import warp as wp

from ...contact.narrow.manifold import SPHERE
from ...contact.pair_laws import Contacts, Material, Scene, contact_state
from ...laws.contact_law import (
    ContactState,
    LawOptions,
    compliance_of,
    friction_of,
    impulse_at,
    regularised,
)
from ...laws.hertz import hertz_law, in_series
from ...real import func, kernel, real, struct, vec2, vec3
from ..problem import Problem


@struct
class Hertz:
    """Parameters of Hertz's law."""

    modulus: wp.array2d(dtype=real)  # (1 or worlds, geoms) [Pa], 0: none
    size: wp.array2d(dtype=vec3)  # (1 or worlds, geoms)


@func
def linear_state(
    scene: Scene,
    material: Material,
    contacts: Contacts,
    compliance: wp.array2d(dtype=vec2),
    options: LawOptions,
    phi: real,
    w: int,
    c: int,
) -> ContactState:
    """The state of the spring-damper law at a contact, velocities excepted; R_t is σ."""
    s = contact_state(scene, material, contacts, compliance, options, w, c)
    s.phi = phi
    s.weight = real(1.0)
    return s


@func
def pair_modulus(scene: Scene, hertz: Hertz, w: int, p: int) -> real:
    """E* of a pair; 0 where Hertz's law does not apply."""
    row = w % hertz.modulus.shape[0]
    return in_series(hertz.modulus[row, scene.pair_geom[p, 0]], hertz.modulus[row, scene.pair_geom[p, 1]])


@func
def pair_radius(scene: Scene, hertz: Hertz, w: int, p: int) -> real:
    """r of a pair; geoms that are not spheres count as flat."""
    row = w % hertz.size.shape[0]
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    r_a = real(0.0)
    r_b = real(0.0)
    if scene.geom_type[a] == SPHERE:
        r_a = hertz.size[row, a][0]
    if scene.geom_type[b] == SPHERE:
        r_b = hertz.size[row, b][0]
    return in_series(r_a, r_b)


@func
def approach(problem: Problem, scene: Scene, v: wp.array1d(dtype=real), w: int, c: int) -> vec2:
    """Closing velocity −v_n of a contact, and its largest value with either side at rest."""
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
    contacts: Contacts,
    options: LawOptions,
    hertz: Hertz,
    v0: wp.array2d(dtype=real),
):
    """Write R, v̂ and μ of a contact into the problem; v0: before the step. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c >= problem.contacts[w]:
        return
    p = contacts.pair[w, c]
    phi = contacts.phi[w, c]
    h = options.h
    closing = approach(problem, scene, v0[w], w, c)
    towards = closing[0]
    if phi >= real(0.0):
        free = approach(problem, scene, problem.v_star[w], w, c)
        towards = wp.max(closing[1], free[1])
        closing[0] = wp.max(closing[0], free[0])
    contacts.recovery[w, c] = scene.recovery
    s = linear_state(scene, material, contacts, contacts.compliance, options, phi, w, c)
    mu = friction_of(s.friction)
    # The contact does not close in this step by itself, but an impact elsewhere may close it; a cone would apply
    # friction before that.
    if phi > real(0.0) and h * closing[0] <= phi:
        mu = real(0.0)
    modulus = pair_modulus(scene, hertz, w, p)
    if modulus > real(0.0) and p < scene.point_pairs:
        radius = pair_radius(scene, hertz, w, p)
        local = hertz_law(modulus, radius, phi, wp.max(towards, real(0.0)), h)
        s.compliance = vec2(local[0], compliance_of(s)[1])
        s.is_field = 1
        s.phi = local[1]
    R, v_hat = regularised(s)
    problem.R[w, c] = R
    problem.v_hat[w, c] = v_hat
    problem.mu[w, c] = mu


# Impulses as functions of velocities, for the gradient of a step. Without Hertz's law.


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    options: LawOptions,
    frozen_mu: wp.array2d(dtype=real),
    friction: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    v_c: wp.array2d(dtype=vec3),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """γ of every contact; contacts whose frozen μ is 0 get no friction. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        s = linear_state(scene, material, contacts, compliance, options, phi[w, c], w, c)
        s.v_c = v_c[w, c]
        mu = real(0.0)
        if frozen_mu[w, c] > real(0.0):
            mu = friction[w, c]
        gamma[w, c] = impulse_at(s, mu)
