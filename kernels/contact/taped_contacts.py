# SPDX-License-Identifier: Apache-2.0
"""Contact impulses on the tape: γ at frozen features as a function of φ, w and velocities (theory §3.5, §3.6)."""

import warp as wp

from ..laws.contact_law import STRUCK, LawOptions, impulse_at
from ..real import kernel, real, vec2, vec3
from .pair_laws import Contacts, Loads, Material, Scene, loaded_state


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    options: LawOptions,
    loads: Loads,
    weight: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    mu: wp.array2d(dtype=real),
    v_c: wp.array2d(dtype=vec3),
    rate0: wp.array2d(dtype=vec3),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """γ of every contact. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        s = loaded_state(scene, material, contacts, compliance, options, loads, w, c)
        s.phi = phi[w, c]
        s.weight = weight[w, c]
        s.v_c = v_c[w, c]
        if s.touch == STRUCK:
            s.rate0 = rate0[w, c][2]
        gamma[w, c] = impulse_at(s, mu[w, c])
