"""M⁻¹ in the columns of a Jacobian, from M = LᵀDL stored by trees: W = J M⁻¹ Jᵀ of one contact or row. Σ depth per column."""

import warp as wp

from ..real import func, mat33, real, vec3
from .passes import Topology


@func
def inverse_mass_times(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, begin: int, end: int
) -> mat33:
    """z ← M⁻¹z on the dofs [begin, end) of whole trees, along the ancestors; returns z_inᵀ M⁻¹ z_in."""
    W = mat33()
    for k in range(end - begin):
        d = end - 1 - k
        x = z[w, d]
        if x[0] != real(0.0) or x[1] != real(0.0) or x[2] != real(0.0):
            first = topology.dof_begin[d]
            e = topology.dof_parent[d]
            while e >= 0:
                z[w, e] = z[w, e] - L[w, d, e - first] * x
                e = topology.dof_parent[e]
            W += wp.outer(x, x / L[w, d, d - first])
            z[w, d] = x / L[w, d, d - first]
    for d in range(begin, end):
        x = z[w, d]
        first = topology.dof_begin[d]
        e = topology.dof_parent[d]
        while e >= 0:
            x = x - L[w, d, e - first] * z[w, e]
            e = topology.dof_parent[e]
        z[w, d] = x
    return W
