# SPDX-License-Identifier: Apache-2.0
"""Time stepping around the contact solve: free motion and finiteness (theory §2).

Every step needs the first kernels, and symplectic Euler needs no others. Part "schemes" has what the other
theta-schemes add. The free motion of implicit schemes is in `free_motion.py`.
"""

import warp as wp

from ...flags import NONFINITE, NOT_CONVERGED
from ...forces.actuators import Actuators, actuator_law, clamped, has_row
from ...linalg.lanes import lane, lanes, sync, team_bits, team_count
from ...linalg.ltdl import team_ltdl_factor_block, team_ltdl_solve_block
from ...linalg.registers import UNKNOWNS, team_damped_motion
from ...linalg.vector import team_copy_lower
from ...real import func, kernel, real, struct
from ...tree import joints
from ...tree.passes import Topology
from ...tree.plant import Plant


@func
def factor_both(
    h: real, D: wp.array1d(dtype=real), begin: int, end: int, A: wp.array2d(dtype=real),
    M_factor: wp.array2d(dtype=real), A_factor: wp.array2d(dtype=real),
):  # fmt: skip
    """A ← M + h D in place, and the factors of M and A, which are the same where nothing damps. By all lanes."""
    team_copy_lower(A, begin, end, M_factor, begin, 0)
    team_ltdl_factor_block(M_factor, begin, end)
    damped = wp.int32(0)
    for i in range(begin + lane(), end, lanes()):
        if D[i] != real(0.0):
            damped += 1
    if team_count(damped) > 0:
        for i in range(begin + lane(), end, lanes()):
            A[i, i - begin] = A[i, i - begin] + h * D[i]
        sync()
        team_copy_lower(A, begin, end, A_factor, begin, 0)
        team_ltdl_factor_block(A_factor, begin, end)
    else:
        team_copy_lower(M_factor, begin, end, A_factor, begin, 0)


@func
def team_free_motion(
    topology: Topology,
    h: real,
    v0: wp.array2d(dtype=real),
    force: wp.array2d(dtype=real),
    bias: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
    w: int,
    tree: int,
    # in: M, out: A = M + h D, stored by blocks of trees
    A: wp.array3d(dtype=real),
    # out
    M_factor: wp.array3d(dtype=real),
    A_factor: wp.array3d(dtype=real),
    v_star: wp.array2d(dtype=real),
):
    """`free_motion` of one tree by all lanes."""
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    if lanes() > 1 and end - begin <= UNKNOWNS:
        team_damped_motion(
            h, D[w], force[w], bias[w], v0[w], begin, end, A[w], M_factor[w], A_factor[w], v_star[w]
        )  # fmt: skip
    else:
        factor_both(h, D[w], begin, end, A[w], M_factor[w], A_factor[w])
        for i in range(begin + lane(), end, lanes()):
            v_star[w, i] = h * (force[w, i] - D[w, i] * v0[w, i] - bias[w, i])
        sync()
        team_ltdl_solve_block(A_factor[w], begin, end, v_star[w])
        for i in range(begin + lane(), end, lanes()):
            v_star[w, i] = v_star[w, i] + v0[w, i]
        sync()


@kernel(lanes=True)
def free_motion(
    topology: Topology,
    h: real,
    v0: wp.array2d(dtype=real),
    force: wp.array2d(dtype=real),
    bias: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
    # in: M, out: A = M + h D, stored by blocks of trees
    A: wp.array3d(dtype=real),
    # out
    M_factor: wp.array3d(dtype=real),
    A_factor: wp.array3d(dtype=real),
    v_star: wp.array2d(dtype=real),
):
    """v* = v0 + h (M + h D)^-1 (force - D v0 - bias), and the factors of M and A.

    Launch over (worlds, trees, lanes).
    """
    w, tree, _lane = wp.tid()
    team_free_motion(topology, h, v0, force, bias, D, w, tree, A, M_factor, A_factor, v_star)


# The free motion of deep trees that nothing touches or holds: by articulated bodies (`passes.aba`) instead of M.


@kernel(part="articulated")
def damped(
    h: real,
    armature: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
    force: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    # out
    damped_armature: wp.array2d(dtype=real),
    tau: wp.array2d(dtype=real),
):
    """Armature + h D and force − D v0.

    With them, the acceleration a of the undamped tree solves (M + h D) a = force − D v0 − c. Launch over (worlds,
    dofs).
    """
    w, d = wp.tid()
    damped_armature[w, d] = armature[w % armature.shape[0], d] + h * D[w, d]
    tau[w, d] = force[w, d] - D[w, d] * v0[w, d]


@kernel(part="articulated")
def accelerated(h: real, v0: wp.array2d(dtype=real), a: wp.array2d(dtype=real), v_star: wp.array2d(dtype=real)):
    """v* = v0 + h a. Launch over (worlds, dofs)."""
    w, d = wp.tid()
    v_star[w, d] = v0[w, d] + h * a[w, d]


@struct
class Ends:
    """The state that a step advances, and the results of the step."""

    q: wp.array2d(dtype=real)  # in and out, also in the next three
    v: wp.array2d(dtype=real)
    time: wp.array(dtype=wp.float64)
    flags: wp.array(dtype=int)
    q_next: wp.array2d(dtype=real)
    v_next: wp.array2d(dtype=real)  # the solution; for spinning bodies the end of their free motion (`spin.py`)
    contact_flags: wp.array(dtype=int)


@func
def team_commit(
    topology: Topology, plant: Plant, h: wp.float64, solver_status: wp.array(dtype=int), w: int, ends: Ends
):  # fmt: skip
    """`commit` of one world by all lanes."""
    flag = ends.flags[w]
    bad = int(0)
    if solver_status[w] & NONFINITE != 0 or ends.contact_flags[w] & NONFINITE != 0:
        bad = int(1)
    for i in range(lane(), ends.v.shape[1], lanes()):
        x = ends.v_next[w, i]
        if not (x - x == real(0.0)):
            bad = int(1)
    for i in range(lane(), ends.q.shape[1], lanes()):
        x = ends.q_next[w, i]
        if not (x - x == real(0.0)):
            bad = int(1)
    bad = team_bits(bad)
    now = ends.time[w]
    if not (now - now == wp.float64(0.0)):
        bad = int(1)
    sync()  # all reads end here, before the arrays may be overwritten
    if bad == 1:
        flag = flag | NONFINITE
    elif flag & NONFINITE == 0:
        if solver_status[w] != 0:
            flag = flag | NOT_CONVERGED
        flag = flag | ends.contact_flags[w]
    if flag & NONFINITE == 0:
        ends.time[w] = now + h
    for l in range(lane(), topology.link_type.shape[0], lanes()):
        kind = topology.link_type[l]
        root = topology.link_body[topology.tree_reference[topology.link_tree[l]]]
        i = topology.link_q[l]
        j = topology.link_v[l]
        if flag & NONFINITE == 0 and plant.body_active[w % plant.body_active.shape[0], root] != real(0.0):
            for k in range(joints.coordinates(kind)):
                ends.q[w, i + k] = ends.q_next[w, i + k]
            for k in range(joints.dofs(kind)):
                ends.v[w, j + k] = ends.v_next[w, j + k]
    ends.flags[w] = flag


@kernel(lanes=True)
def commit(
    topology: Topology,
    plant: Plant,
    h: wp.float64,
    solver_status: wp.array(dtype=int),
    # in and out
    ends: Ends,
):
    """Accept the step where it is finite. Elsewhere the world keeps its last finite state and is flagged.

    A world whose NONFINITE flag is set stands still until it is reset. A tree whose root body is inactive stands still.
    Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    team_commit(topology, plant, h, solver_status, w, ends)


# The theta-schemes other than symplectic Euler.


@kernel(twin=True, part="schemes")
def effective_damping(
    topology: Topology,
    plant: Plant,
    actuators: Actuators,
    share: real,
    span: real,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    D: wp.array2d(dtype=real),
):
    """D <- share D + span K, with D and K the damping and stiffness of joints and actuators at (q, v).

    Then A = M + h D, with share = theta, span = h theta theta_vq of the scheme. Left out are actuators at their limit,
    gains that feed energy in, and actuators that a row replaces. Launch over worlds.
    """
    w = wp.tid()
    for d in range(D.shape[1]):
        own = plant.joint_damping[w % plant.joint_damping.shape[0], d]
        D[w, d] = share * own + span * plant.joint_stiffness[w % plant.joint_stiffness.shape[0], d]
    for a in range(actuators.link.shape[0]):
        law = actuator_law(actuators, w, a)
        if not has_row(actuators, law, w, a):
            l = actuators.link[a]
            kind = topology.link_type[l]
            if kind == joints.HINGE or kind == joints.SLIDE:
                j = topology.link_v[l]
                ratio = actuators.gear[a, 0]
                total = law[0] + law[1] * (ratio * q[w, topology.link_q[l]]) + law[2] * (ratio * v[w, j])
                if total == clamped(total, actuators.force_range, w, a):
                    # At 0 take the derivative of a gain that takes energy out, as in `actuator_force`. `min` has no
                    # derivative there.
                    damping_gain = wp.where(law[2] <= real(0.0), law[2], real(0.0))
                    stiffness_gain = wp.where(law[1] <= real(0.0), law[1], real(0.0))
                    D[w, j] += -ratio * ratio * (share * damping_gain + span * stiffness_gain)


@kernel(twin=True, part="schemes")
def velocity_between(
    theta: real, v0: wp.array2d(dtype=real), v: wp.array2d(dtype=real), v_theta: wp.array2d(dtype=real)
):
    """theta v + (1 - theta) v0. Launch over (worlds, nv)."""
    w, d = wp.tid()
    v_theta[w, d] = theta * v[w, d] + (real(1.0) - theta) * v0[w, d]


@kernel(twin=True, part="schemes")
def momentum_balance(
    h: real,
    inertial_force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    r: wp.array2d(dtype=real),
):
    """r = A (v - v*) from M (v - v*)/h and A = M + h D. Launch over (worlds, nv)."""
    w, d = wp.tid()
    r[w, d] = h * (inertial_force[w, d] + D[w, d] * (v[w, d] - v_star[w, d]))


@kernel(part="schemes", lanes=True)
def contact_stage(
    topology: Topology,
    h: real,
    D: wp.array2d(dtype=real),
    # in: M, out: A = M + h D
    A: wp.array3d(dtype=real),
    # out
    M_factor: wp.array3d(dtype=real),
    A_factor: wp.array3d(dtype=real),
):
    """A of the second stage, and the factors of M and A. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    factor_both(h, D[w], begin, end, A[w], M_factor[w], A_factor[w])


@kernel(part="schemes")
def report(status: wp.array2d(dtype=int), solver_status: wp.array(dtype=int)):
    """Add the status of each tree's free motion to that of the contact solve. Launch over worlds."""
    w = wp.tid()
    for tree in range(status.shape[1]):
        solver_status[w] = solver_status[w] | status[w, tree]
