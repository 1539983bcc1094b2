"""Net contact forces of the last step, per geom or per body."""

import warp as wp

from ..real import kernel, real, vec3
from .contacts import Contacts, Scene


@kernel
def net_force(
    scene: Scene,
    contacts: Contacts,
    gamma: wp.array2d(dtype=vec3),
    h: real,
    owner: wp.array(dtype=int),
    # out
    force: wp.array2d(dtype=vec3),
):
    """Sum of gamma/h in world axes over the contacts of each owner (-1: nobody); `force` comes in as zero."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        p = contacts.pair[w, c]
        f = contacts.frame[w, c] * gamma[w, c] / h
        a = owner[scene.pair_geom[p, 0]]
        b = owner[scene.pair_geom[p, 1]]
        if a >= 0:
            force[w, a] = force[w, a] - f
        if b >= 0:
            force[w, b] = force[w, b] + f
