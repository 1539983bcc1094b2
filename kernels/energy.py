"""Mechanical energy of a state: kinetic (rotors included), and potential of gravity and joint springs."""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels import actuation, joints, spatial
from warpsim.kernels.cache import cached
from warpsim.kernels.precision import module_name, types
from warpsim.kernels.tree import Topology


@cached
def build(S) -> SimpleNamespace:
    """Kernel `mechanical_energy` of scalar type S."""
    t = types(S)
    sp, jt = spatial.build(S), joints.build(S)
    spring_deflection = actuation.build(S).spring_deflection
    vec3, vec6, vec10, transform = t.vec3, t.vec6, t.vec10, t.transform

    @wp.kernel(module=module_name("energy", S), enable_backward=False)
    def mechanical_energy(
        topology: Topology,
        gravity: wp.array(dtype=vec3),
        armature: wp.array2d(dtype=S),
        stiffness: wp.array2d(dtype=S),
        reference: wp.array2d(dtype=S),
        link_X: wp.array2d(dtype=transform),
        link_I: wp.array2d(dtype=vec10),
        link_V: wp.array2d(dtype=vec6),
        q: wp.array2d(dtype=S),
        v: wp.array2d(dtype=S),
        # out
        kinetic: wp.array(dtype=S),
        potential: wp.array(dtype=S),
        total: wp.array(dtype=S),
    ):
        """Launch over worlds; the potential of gravity is zero with every centre of mass at the world's origin."""
        w = wp.tid()
        T = S(0.0)
        U = S(0.0)
        g = gravity[w % gravity.shape[0]]
        for l in range(topology.link_type.shape[0]):
            I = link_I[w, l]
            V = link_V[w, l]
            T += S(0.5) * wp.dot(V, sp.momentum(I, V))
            o = wp.transform_get_translation(link_X[w, topology.tree_reference[topology.link_tree[l]]])
            U -= wp.dot(g, vec3(I[1], I[2], I[3]) + I[0] * o)
            kind = topology.link_type[l]
            if kind != joints.FIXED:
                j = topology.link_v[l]
                x = spring_deflection(kind, q, reference, w, topology.link_q[l], j)
                for i in range(jt.dofs(kind)):
                    d = j + i
                    T += S(0.5) * armature[w % armature.shape[0], d] * v[w, d] * v[w, d]
                    U += S(0.5) * stiffness[w % stiffness.shape[0], d] * x[i] * x[i]
        kinetic[w] = T
        potential[w] = U
        total[w] = T + U

    return SimpleNamespace(mechanical_energy=mechanical_energy)
