# SPDX-License-Identifier: Apache-2.0
"""Jacobians of one step of symplectic Euler and SAP: solve H δv = −∂r/∂x δx for all x at once (theory §3.5).

    r(v; q, v0, u, p) = h RNEA(q, v0, (v − v0)/h) + h D v − h force(q, v0, u) − Jᵀγ = 0,   ∂r/∂v = H = A + JᵀGJ

The columns ∂r/∂x fill X (worlds, nv, n): with respect to q (in the tangent space of v), v0, controls, generalized
forces and parameters. This file has those of springs and forces, `rnea_derivative.py` those of RNEA, `*_slopes.py` the
rest. X ← H⁻¹X uses the factor that the solver left. The rows of the Jacobians follow from δv = −X and q' = q ⊕ h v.
"""

import warp as wp

from ..integrate.spin import is_spinning
from ..linalg.loops import row_axpy, row_axpy_at, row_scale, row_scaled_copy
from ..linalg.triangles import upper_entry
from ..real import kernel, real, vec3
from ..solve.problem import Problem
from ..solve.sap.newton import island_range
from ..solve.sap.sap import Workspace
from ..tree import joints
from ..tree.passes import Topology


@kernel
def block_columns(topology: Topology, h: real, D: wp.array3d(dtype=real), first: int, X: wp.array3d(dtype=real)):
    """X_d,first+e += h D_de of a matrix stored by trees. Launch over (worlds, nv)."""
    w, d = wp.tid()
    begin = topology.dof_begin[d]
    tree = topology.link_tree[topology.dof_link[d]]
    row_axpy_at(h, D[w, d], topology.tree_v[tree + 1] - begin, X[w, d], first + begin)


@kernel
def spring_columns(
    topology: Topology,
    h: real,
    stiffness: wp.array2d(dtype=real),
    reference: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    # in and out
    X: wp.array3d(dtype=real),
):
    """Columns of springs. A rotation's deflection log(rest⁻¹ q) changes by dlog δ. Launch over (worlds, links)."""
    w, l = wp.tid()
    kind = topology.link_type[l]
    j = topology.link_v[l]
    turning = joints.dofs(kind)
    if kind == joints.FREE or kind == joints.BALL:
        turning -= 3
    for i in range(turning):
        X[w, j + i, j + i] = X[w, j + i, j + i] + h * stiffness[w % stiffness.shape[0], j + i]
    if kind == joints.FREE or kind == joints.BALL:
        x = joints.spring_deflection(kind, q, reference, w, topology.link_q[l], j)
        dlog = joints.rotation_dlog(vec3(x[turning], x[turning + 1], x[turning + 2]))
        j += turning
        for i in range(3):
            hK = h * stiffness[w % stiffness.shape[0], j + i]
            for e in range(3):
                X[w, j + i, j + e] = X[w, j + i, j + e] + hK * dlog[i, e]


@kernel
def force_columns(h: real, first: int, X: wp.array3d(dtype=real)):
    """Columns of generalized forces: X = −h 1. Launch over (worlds, nv)."""
    w, d = wp.tid()
    X[w, d, first + d] = -h


@kernel
def list_dofs(problem: Problem, work: Workspace, dof: wp.array2d(dtype=int)):
    """The degree of freedom of every row of H. Launch over (worlds, nv)."""
    w, d = wp.tid()
    dof[w, work.islands.slot[w, d]] = d


@kernel
def solve_columns(
    work: Workspace,
    has_upper: int,
    dof: wp.array2d(dtype=int),
    width: int,
    # in and out
    X: wp.array3d(dtype=real),
):
    """X ← H⁻¹X from the factor, `width` columns per thread. Launch over (worlds, trees, column blocks).

    `has_upper` 1: the factor is UᵀDL (`linalg/ldu.py`), 0: LᵀDL.
    """
    w, island, block = wp.tid()
    if island >= work.islands.count[w]:
        return
    r = island_range(work.islands, w, island)
    first = block * width
    last = wp.min(first + width, X.shape[2])
    for reverse in range(r.slot_end - r.slot_begin):
        k = r.slot_end - 1 - reverse
        x_k = X[w, dof[w, k]]
        for i in range(work.newton.first[w, k], k):
            U_ki = work.newton.H[w, k, i]
            if has_upper == 1:
                U_ki = upper_entry(work.newton.H[w], r.slot_begin, r.slot_end, k, i)
            if U_ki != real(0.0):
                row_axpy(-U_ki, x_k, X[w, dof[w, i]], first, last)
    for k in range(r.slot_begin, r.slot_end):
        x_k = X[w, dof[w, k]]
        row_scale(real(1.0) / work.newton.H[w, k, k], x_k, first, last)
        for i in range(work.newton.first[w, k], k):
            L_ki = work.newton.H[w, k, i]
            if L_ki != real(0.0):
                row_axpy(-L_ki, X[w, dof[w, i]], x_k, first, last)


@kernel
def store_jacobian(
    topology: Topology,
    h: real,
    v: wp.array2d(dtype=real),
    X: wp.array3d(dtype=real),
    first: int,
    # out
    Y: wp.array3d(dtype=real),
):
    """Rows (δq', δv') of the Jacobians, from the columns of X from `first` on.

    δv' = −X, δq' = h δv', for rotations h dexp(h v') δv'. Launch over (worlds, links).
    """
    w, l = wp.tid()
    kind = topology.link_type[l]
    j = topology.link_v[l]
    moving = joints.dofs(kind)
    nv = X.shape[1]
    size = Y.shape[2]
    for i in range(moving):
        row_scaled_copy(real(-1.0), X[w, j + i], first, Y[w, nv + j + i], size)
    if kind == joints.FREE or kind == joints.BALL:
        moving -= 3
        t = j + moving
        dexp = -h * joints.rotation_dexp(h * vec3(v[w, t], v[w, t + 1], v[w, t + 2]))
        for i in range(3):
            row_scaled_copy(dexp[i, 0], X[w, t], first, Y[w, t + i], size)
            row_axpy(-dexp[i, 1], Y[w, nv + t + 1], Y[w, t + i], 0, size)
            row_axpy(-dexp[i, 2], Y[w, nv + t + 2], Y[w, t + i], 0, size)
    for i in range(moving):
        row_scaled_copy(-h, X[w, j + i], first, Y[w, j + i], size)


@kernel
def add_position(topology: Topology, h: real, v: wp.array2d(dtype=real), A: wp.array3d(dtype=real)):
    """δq' += δq at fixed velocity; for rotations exp(h v')ᵀ δq. Spinning bodies: see `spin_slopes.py`.

    Launch over (worlds, links).
    """
    w, l = wp.tid()
    if is_spinning(topology, h, v, w, l):
        return
    kind = topology.link_type[l]
    j = topology.link_v[l]
    moving = joints.dofs(kind)
    if kind == joints.FREE or kind == joints.BALL:
        moving -= 3
    for i in range(moving):
        A[w, j + i, j + i] = A[w, j + i, j + i] + real(1.0)
    if kind == joints.FREE or kind == joints.BALL:
        j += moving
        R = wp.quat_to_matrix(joints.quaternion_exp(h * vec3(v[w, j], v[w, j + 1], v[w, j + 2])))
        for i in range(3):
            for e in range(3):
                A[w, j + i, j + e] = A[w, j + i, j + e] + R[e, i]
