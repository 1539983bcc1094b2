# SPDX-License-Identifier: Apache-2.0
"""The contact problem of one step: what every contact solver reads (theory §3.1).

    A (v − v*) = Jᵀγ,  γ from each constraint's own law of v_c = J v

A is block diagonal by trees: row d stores the columns of its tree, counted from the tree's first dof. Jacobians are
stored on their *support*, the dofs that a constraint moves. A contact has three rows and a cone, a scalar row an
interval. In kernel copies with spin rows, contact arrays have twice the slots (`sap/contact_laws.py`).
"""

import warp as wp

from ..real import SPIN, func, real, struct, vec3, vec4


@struct
class Problem:
    """Data of every world.

    C = max_contacts, M = largest support, K = scalar rows. B = dofs of the widest tree; rows of smaller trees are
    `padded` with zeros.
    """

    tree_v: wp.array(dtype=int)  # (trees + 1,) first dof of each tree; shared
    dof_tree: wp.array(dtype=int)  # (nv,); shared
    dof_begin: wp.array(dtype=int)  # (nv,) first dof of its tree; shared
    A: wp.array3d(dtype=real)  # (worlds, nv, B) SPD, both triangles, by trees
    A_factor: wp.array3d(dtype=real)  # (worlds, nv, B) LᵀDL of A's tree blocks (`linalg/ltdl.py`); empty: not at hand
    v_star: wp.array2d(dtype=real)  # (worlds, nv) velocity of the free motion
    v0: wp.array2d(dtype=real)  # (worlds, nv) initial guess
    contacts: wp.array(dtype=int)  # (worlds,) number of used contact slots
    # (worlds, C) row of the support tables: one row per pair of geoms, or one per contact
    contact_pair: wp.array2d(dtype=int)
    support: wp.array2d(dtype=int)  # (rows, M) dofs that a contact moves, ascending
    support_size: wp.array(dtype=int)  # (rows,)
    J: wp.array4d(dtype=real)  # (worlds, C, 3, M) rows t1, t2, n; columns: the support
    R: wp.array2d(dtype=vec3)  # (worlds, C) (Rt, Rt, Rn)
    v_hat: wp.array2d(dtype=vec3)  # (worlds, C)
    mu: wp.array2d(dtype=real)  # (worlds, C)
    weight: wp.array2d(dtype=real)  # (worlds, C) inverse effective mass w [1/kg]; for Coulomb's law, as the next two
    load: wp.array2d(dtype=real)  # (worlds, C) impulse γ_0 above which the contact stiffens
    least: wp.array2d(dtype=real)  # (worlds, C) smallest fraction of R_n to which it stiffens; 1: never
    # (worlds, C) of cones with a shape of their own (`laws/shaped_cone.py`)
    basis: wp.array2d(dtype=vec4)
    edges: int  # 1: these cones are pyramids
    row_support: wp.array2d(dtype=int)  # (K, Mr) dofs that a scalar row moves, ascending; shared
    row_support_size: wp.array(dtype=int)  # (K,); shared
    row_J: wp.array3d(dtype=real)  # (worlds, K, Mr); columns: the row's support
    row_R: wp.array2d(dtype=real)  # (worlds, K); ≤ 0: the row is not active
    row_v_hat: wp.array2d(dtype=real)  # (worlds, K)
    row_lower: wp.array2d(dtype=real)  # (worlds, K)
    row_upper: wp.array2d(dtype=real)  # (worlds, K)


@struct
class Solution:
    v: wp.array2d(dtype=real)  # (worlds, nv)
    gamma: wp.array2d(dtype=vec3)  # (worlds, C) impulses, 0 in unused slots
    row_gamma: wp.array2d(dtype=real)  # (worlds, K)
    iterations: wp.array(dtype=int)  # (worlds,) largest count of a world's islands
    momentum_error: wp.array(dtype=real)  # (worlds,) the certificate, see the solver
    status: wp.array(dtype=int)  # (worlds,) bits NONFINITE, NOT_CONVERGED


@func
def is_idle(problem: Problem, w: int, c: int) -> bool:
    """Whether contact c has no impulse whatever the motion: it moves no dof, or its R is 0, as of contacts that do not
    act while others have an impact."""
    R = problem.R[w, c]
    return problem.support_size[problem.contact_pair[w, c]] == 0 or R[2] == real(0.0)


@func
def clear_idle(problem: Problem, solution: Solution, w: int, first: int, step: int):
    """Set γ = 0 in unused slots, in idle contacts and in inactive rows: in every `step`-th from `first` on."""
    slots = solution.gamma.shape[1]
    if SPIN:
        slots = slots // 2
    used = wp.min(problem.contacts[w], slots)
    for c in range(first, slots, step):
        idle = c >= used
        if c < used:
            idle = is_idle(problem, w, c)
        if idle:
            solution.gamma[w, c] = vec3(real(0.0), real(0.0), real(0.0))
        if SPIN:
            if idle or problem.mu[w, slots + c] == real(0.0):
                solution.gamma[w, slots + c] = vec3(real(0.0), real(0.0), real(0.0))
    for k in range(first, problem.row_support.shape[0], step):
        if not (problem.row_R[w, k] > real(0.0)):
            solution.row_gamma[w, k] = real(0.0)
