"""M⁻¹ in the columns of a Jacobian, from M = LᵀDL stored by trees: W = J M⁻¹ Jᵀ of one contact or row. Σ depth per column."""

import warp as wp

from ..real import func, mat33, real, vec3
from .passes import Topology


@func
def eliminate(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, begin: int, last: int
) -> mat33:
    """z ← L⁻ᵀz on the dofs begin to last, along the ancestors; returns zᵀD⁻¹z, which is J M⁻¹ Jᵀ with Jᵀ in z."""
    W = mat33()
    for k in range(last + 1 - begin):
        d = last - k
        x = z[w, d]
        if x[0] != real(0.0) or x[1] != real(0.0) or x[2] != real(0.0):
            first = topology.dof_begin[d]
            e = topology.dof_parent[d]
            while e >= 0:
                z[w, e] = z[w, e] - L[w, d, e - first] * x
                e = topology.dof_parent[e]
            W += wp.outer(x, x / L[w, d, d - first])
    return W


@func
def eliminate_one(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, begin: int, last: int
) -> real:
    """`eliminate` of the first components of z alone."""
    weight = real(0.0)
    for k in range(last + 1 - begin):
        d = last - k
        x = z[w, d][0]
        if x != real(0.0):
            e = topology.dof_parent[d]
            while e >= 0:
                z[w, e] = z[w, e] - L[w, d, e - begin] * z[w, d]
                e = topology.dof_parent[e]
            weight += x * x / L[w, d, d - begin]
    return weight


@func
def inverse_mass_times(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, begin: int, end: int
) -> mat33:
    """z ← M⁻¹z on the dofs [begin, end) of whole trees, along the ancestors; returns z_inᵀ M⁻¹ z_in."""
    W = eliminate(topology, L, z, w, begin, end - 1)
    for d in range(begin, end):
        first = topology.dof_begin[d]
        x = z[w, d] / L[w, d, d - first]
        e = topology.dof_parent[d]
        while e >= 0:
            x = x - L[w, d, e - first] * z[w, e]
            e = topology.dof_parent[e]
        z[w, d] = x
    return W
