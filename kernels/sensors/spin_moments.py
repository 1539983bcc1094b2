# SPDX-License-Identifier: Apache-2.0
"""Moments of torsional and rolling friction at contact points, for sensors."""

import warp as wp

from ..contact.pair_laws import Contacts, Material, Scene
from ..contact.spin_rows import Spin, spin_lengths
from ..real import kernel, vec3


@kernel(twin=True)
def spin_moments(
    scene: Scene,
    spin: Spin,
    material: Material,
    contacts: Contacts,
    gamma: wp.array2d(dtype=vec3),
    # out
    moment: wp.array2d(dtype=vec3),
):
    """Angular impulses on B about (t1, t2, n), from the spin rows in slots C + c of `gamma`. Launch over (worlds,
    max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        x = gamma[w, contacts.pair.shape[1] + c]
        scale = spin_lengths(scene, spin, material, w, contacts.pair[w, c])
        moment[w, c] = vec3(scale[0] * x[0], scale[0] * x[1], scale[1] * x[2])
