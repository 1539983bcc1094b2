"""Net contact forces of the last step, per geom or per body."""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.contact import structs
from warpsim.kernels.precision import module_name, types


@cached
def build(S) -> SimpleNamespace:
    """Kernel `net_force` of scalar type S."""
    t = types(S)
    st = structs(S)
    Scene, Contacts = st.Scene, st.Contacts
    vec3 = t.vec3

    @wp.kernel(module=module_name("contact_force", S), enable_backward=False)
    def net_force(
        scene: Scene,
        contacts: Contacts,
        gamma: wp.array2d(dtype=vec3),
        h: S,
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

    return SimpleNamespace(net_force=net_force)
