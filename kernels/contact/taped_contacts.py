# SPDX-License-Identifier: Apache-2.0
"""Impulses of contacts by their laws, for the tape: P(−R⁻¹(v_c − v̂)) at frozen features, with R and v̂ from φ and w (theory §3.5, §3.6)."""

import warp as wp

from ..laws import cone, coulomb
from ..real import kernel, real, vec2, vec3
from .pair_laws import Contacts, Loads, Material, Scene, contact_law, friction_coefficient, load_of, total_mass


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    h: real,
    beta: real,
    sigma: real,
    weight: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    v_c: wp.array2d(dtype=vec3),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """gamma = P(-R^-1 (v_c - v_hat)) with R and v_hat as `regularise` has them, for the tape. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        R, v_hat, _softness = contact_law(
            scene, contacts, material, compliance, w, c, p, weight[w, c], phi[w, c], h, beta, sigma
        )
        mu = friction_coefficient(scene, material.friction, w, p)
        gamma[w, c] = cone.cone_impulse(cone.cone_y(v_c[w, c], v_hat, R), R, mu)


@kernel(taped=True, part="coulomb")
def coulomb_contact_impulse(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    h: real,
    beta: real,
    sigma: real,
    weight: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    v_c: wp.array2d(dtype=vec3),
    loads: Loads,
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """gamma of Coulomb's law (theory §3.6), as `contact_impulse`."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        R, v_hat, softness = contact_law(
            scene, contacts, material, compliance, w, c, p, weight[w, c], phi[w, c], h, beta, sigma
        )
        u = v_c[w, c] - v_hat
        mu = friction_coefficient(scene, material.friction, w, p)
        load = load_of(loads, h, weight[w, c], softness, total_mass(loads.body_mass, w), w)
        gamma[w, c] = coulomb.coulomb_impulse(u, R, mu, load[0], load[1])
