# SPDX-License-Identifier: Apache-2.0
"""Contact impulses on the tape: γ at frozen features as a function of φ, w and velocities (theory §3.5, §3.6)."""

import warp as wp

from ..laws.contact_law import STRUCK, LawOptions, impulse_at, yield_at
from ..real import kernel, mat33, real, transform, vec2, vec3, vec5, vec6
from ..tree.passes import Topology
from .contacts import point_velocity
from .pair_laws import Contacts, Loads, Material, Scene, loaded_state


@kernel(taped=True)
def normal_rate(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
    # out
    rate: wp.array2d(dtype=real),
):
    """v_n of the contacts whose bound follows the bend of the path. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        if contacts.bend[w, c] != real(0.0):
            p = contacts.pair[w, c]
            u = point_velocity(topology, link_X, link_V, w, scene.geom_link[scene.pair_geom[p, 1]], point[w, c])
            u = u - point_velocity(topology, link_X, link_V, w, scene.geom_link[scene.pair_geom[p, 0]], point[w, c])
            normal = vec3(frame[w, c][0, 2], frame[w, c][1, 2], frame[w, c][2, 2])
            rate[w, c] = wp.dot(normal, u)


@kernel(taped=True)
def before_impact(
    contacts: Contacts,
    rate0: wp.array2d(dtype=vec3),
    rate: wp.array2d(dtype=real),
    shift: wp.array2d(dtype=vec3),
    # out
    before: wp.array2d(dtype=vec5),
):
    """(v_n, hκ, shift of v̂) at the velocity when the step begins; `rate`: v_n half a step ahead. Launch over (worlds,
    max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        bend = real(0.0)
        if contacts.bend[w, c] != real(0.0):
            bend = real(2.0) * (rate[w, c] - rate0[w, c][2])
        before[w, c] = vec5(rate0[w, c][2], bend, shift[w, c][0], shift[w, c][1], shift[w, c][2])


@kernel(taped=True)
def contact_yield(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    options: LawOptions,
    loads: Loads,
    weight: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    gamma: wp.array2d(dtype=vec3),
    # out
    shift: wp.array2d(dtype=vec3),
):
    """What contacts in an impact yield to their impulses. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        if contacts.touch[w, c] == STRUCK:
            s = loaded_state(scene, material, contacts, compliance, options, loads, w, c)
            s.phi = phi[w, c]
            s.weight = weight[w, c]
            shift[w, c] = yield_at(s, gamma[w, c])


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
    before: wp.array2d(dtype=vec5),
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
        if contacts.touch.shape[1] > 0:
            s.rate0 = before[w, c][0]
            s.bend = before[w, c][1]
            s.shift = vec3(before[w, c][2], before[w, c][3], before[w, c][4])
        gamma[w, c] = impulse_at(s, mu[w, c])
