# SPDX-License-Identifier: Apache-2.0
"""Free motion of the implicit theta-schemes: Newton's method for v*, one thread per (world, tree) (theory §2, stage 1).

    m(v) = M(q^θ)(v − v0) − h k(q^θ, v^θ) = h r(v),   r(v) = RNEA(q^θ, v^θ, (v − v0)/h) − force(q^θ, v^θ)
    v^θ = θ v + (1 − θ) v0,   q^θ = q0 ⊕ h θ v^θ       (implicit Euler θ = 1, midpoint rule θ = 1/2; both have θvq = θ)

`force` contains joint springs and dampers, actuators within their limits, tau, and wrenches on bodies, all at (q^θ,
v^θ). The Jacobian dr/dv is exact: the derivatives of RNEA along dq = h θ² dexp(h θ v^θ), dv = θ, da = 1/h, and the
slopes of the forces. It is not symmetric, and is factored by LU with threshold pivoting, which has no fill-in on a
tree.

A step along the Newton direction is halved until ‖D m‖ falls, D = diag(A)^(−1/2). The iteration ends at ‖D m‖ ≤ ε ·
scale. The scale adds up the momentum, the impulses of all forces, and that of the tree's weight, all in the same norm.
"""

import warp as wp

from ...flags import NONFINITE, NOT_CONVERGED
from ...forces import actuators as forces
from ...forces.actuators import Actuators
from ...linalg.lu import lu_factor_block, lu_solve_block, lu_solve_transposed_block
from ...real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec6
from ...tree import joints, passes
from ...tree import spatial as sp
from ...tree.passes import Topology
from ...tree.plant import Plant
from ...tree.rnea_derivative import Motion, Sweep, derivative, load_rotation

RUNNING = wp.constant(-1)
CONVERGED = wp.constant(0)

# A shortened step is accepted when the residual falls by at least this share of the fall of a linear residual.
DECREASE = 1e-4
# A step shorter than this share of the Newton step means that the residual cannot fall any more.
SHORTEST_STEP = 1e-3
# The factor of an earlier Jacobian is reused while each step with it divides the residual by at least this.
KEPT_REDUCTION = 10.0


@struct
class Load:
    """The forces on the tree."""

    actuators: Actuators
    tree_actuator: wp.array(dtype=int)  # (trees + 1,) first row of `actuator` of each tree
    actuator: wp.array(dtype=int)  # actuators on joints, tree by tree
    tau: wp.array2d(dtype=real)
    wrench: wp.array3d(dtype=real)  # (worlds, bodies, 6) or empty


@struct
class Scheme:
    """Options."""

    h: real
    theta: real
    tolerance: real
    stall: real  # a residual that cannot fall is round-off below this share of the scale
    max_evaluations: int


@struct
class Problem:
    """The equations of v*."""

    plant: Plant
    load: Load
    scheme: Scheme
    q0: wp.array2d(dtype=real)
    v0: wp.array2d(dtype=real)


@struct
class Newton:
    """Workspace."""

    motion: Motion  # at q^θ, as `sweep`
    sweep: Sweep
    q: wp.array2d(dtype=real)  # (worlds, nq) q^θ
    v: wp.array2d(dtype=real)  # (worlds, nv) trial velocity
    v_theta: wp.array2d(dtype=real)
    a: wp.array2d(dtype=real)  # (v − v0)/h
    link_X: wp.array2d(dtype=transform)  # at q^θ
    magnitude: wp.array2d(dtype=real)  # sum of the magnitudes of the terms of r
    r: wp.array2d(dtype=real)
    dv: wp.array2d(dtype=real)
    weight: wp.array2d(dtype=real)  # diag(A)
    dq: wp.array2d(dtype=vec6)  # motion of q^θ per unit of v
    J: wp.array3d(dtype=real)  # dr/dv, then its factor, stored by trees
    pivot: wp.array2d(dtype=int)
    evaluations: wp.array2d(dtype=int)  # (worlds, trees) evaluations of r
    status: wp.array2d(dtype=int)  # (worlds, trees)


@func
def gravity_of(plant: Plant, w: int) -> vec3:
    return plant.gravity[w % plant.gravity.shape[0]]


@func(inline=False)
def apply_wrench(topology: Topology, problem: Problem, work: Newton, w: int, l: int):
    """f_l ← f_l − wrench, and how the wrench changes when the link turns."""
    motion, sweep = work.motion, work.sweep
    wrench = problem.load.wrench
    body = topology.link_body[l]
    sweep.E[w, l] = mat33()
    sweep.e[w, l] = vec3()
    if body >= 0:
        F = forces.wrench_about_reference(topology, problem.plant, work.link_X, wrench, w, body)
        motion.link_f[w, l] = motion.link_f[w, l] - F
        torque = vec3(wrench[w, body, 0], wrench[w, body, 1], wrench[w, body, 2])
        com = wp.transform_point(work.link_X[w, l], problem.plant.body_com[w % problem.plant.body_com.shape[0], body])
        com -= passes.reference_point(topology, work.link_X, w, l)
        sweep.E[w, l] = load_rotation(torque, sp.linear(F), com)
        sweep.e[w, l] = sp.linear(F)


@func(inline=False)
def inertial_force(topology: Topology, problem: Problem, w: int, tree: int, work: Newton):
    """r ← RNEA(q^θ, v^θ, (v − v0)/h) at the trial velocity. Wrenches are subtracted on the way."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    h, theta = problem.scheme.h, problem.scheme.theta
    plant, motion, v0 = problem.plant, work.motion, problem.v0
    g = gravity_of(plant, w)
    for l in range(first, end):
        kind = topology.link_type[l]
        j = topology.link_v[l]
        for i in range(joints.dofs(kind)):
            d = j + i
            work.v_theta[w, d] = theta * work.v[w, d] + (real(1.0) - theta) * v0[w, d]
            work.a[w, d] = (work.v[w, d] - v0[w, d]) / h
        joints.advance(kind, problem.q0, work.v_theta, h * theta, w, topology.link_q[l], j, work.q)
        passes.place_link(topology, plant, work.q, w, l, work.link_X)
        passes.place_axes(topology, plant, work.link_X, w, l, motion.dof_S)
        motion.link_I[w, l] = passes.inertia_of_link(topology, plant, work.link_X, w, l)
        passes.move_link(topology, motion.dof_S, work.v_theta, w, l, motion.link_V)
        passes.accelerate_link(
            topology, g, motion.dof_S, motion.link_I, motion.link_V, work.v_theta, work.a, w, l,
            motion.link_A, motion.link_f,
        )  # fmt: skip
        if problem.load.wrench.shape[0] > 0:
            apply_wrench(topology, problem, work, w, l)
    for k in range(end - first):
        l = end - 1 - k
        parent = topology.link_parent[l]
        if parent >= 0:
            motion.link_f[w, parent] = motion.link_f[w, parent] + motion.link_f[w, l]
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        rotor = plant.joint_armature[w % plant.joint_armature.shape[0], d] * work.a[w, d]
        r = wp.dot(motion.dof_S[w, d], motion.link_f[w, topology.dof_link[d]]) + rotor
        work.r[w, d] = r
        work.magnitude[w, d] = wp.abs(r)


@func
def push(work: Newton, w: int, d: int, f: real):
    """r ← r − f."""
    work.r[w, d] = work.r[w, d] - f
    work.magnitude[w, d] = work.magnitude[w, d] + wp.abs(f)


@func
def drive_force(actuators: Actuators, work: Newton, law: vec3, w: int, a: int, i: int, j: int) -> vec2:
    """(force before its limits, force) of an actuator on one degree of freedom, in units of the actuator."""
    ratio = actuators.gear[a, 0]
    total = law[0] + law[1] * (ratio * work.q[w, i]) + law[2] * (ratio * work.v_theta[w, j])
    return vec2(total, forces.clamped(total, actuators.force_range, w, a))


@func(inline=False)
def residual(topology: Topology, problem: Problem, w: int, tree: int, work: Newton):
    """r at the trial velocity."""
    inertial_force(topology, problem, w, tree, work)
    plant, load, actuators = problem.plant, problem.load, problem.load.actuators
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        kind = topology.link_type[l]
        j = topology.link_v[l]
        if kind != joints.FIXED:
            x = joints.spring_deflection(kind, work.q, plant.joint_reference, w, topology.link_q[l], j)
            for i in range(joints.dofs(kind)):
                d = j + i
                push(work, w, d, -plant.joint_stiffness[w % plant.joint_stiffness.shape[0], d] * x[i])
                push(work, w, d, -plant.joint_damping[w % plant.joint_damping.shape[0], d] * work.v_theta[w, d])
                push(work, w, d, load.tau[w, d])
    for k in range(load.tree_actuator[tree], load.tree_actuator[tree + 1]):
        a = load.actuator[k]
        l = actuators.link[a]
        j = topology.link_v[l]
        law = forces.actuator_law(actuators, w, a)
        n = joints.dofs(topology.link_type[l])
        if n == 1:
            f = drive_force(actuators, work, law, w, a, topology.link_q[l], j)
            push(work, w, j, actuators.gear[a, 0] * f[1])
        else:
            limit = forces.clamped(law[0], actuators.force_range, w, a)
            for i in range(n):
                push(work, w, j + i, actuators.gear[a, i] * limit)


@func
def turn_columns(work: Newton, c: real, angle: real, w: int, j: int) -> mat33:
    """Write dq = c S dexp(angle v^θ) for the three rotations that start at j. Returns the matrix dexp."""
    motion = work.motion
    dexp = joints.rotation_dexp(angle * vec3(work.v_theta[w, j], work.v_theta[w, j + 1], work.v_theta[w, j + 2]))
    for i in range(3):
        work.dq[w, j + i] = c * (
            dexp[0, i] * motion.dof_S[w, j] + dexp[1, i] * motion.dof_S[w, j + 1] + dexp[2, i] * motion.dof_S[w, j + 2]
        )
    return dexp


@func(inline=False)
def linearise(topology: Topology, problem: Problem, w: int, tree: int, work: Newton):
    """J ← dr/dv at the velocity of the last `residual`."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    begin = topology.tree_v[tree]
    plant, load, actuators = problem.plant, problem.load, problem.load.actuators
    motion = work.motion
    h, theta = problem.scheme.h, problem.scheme.theta
    angle = h * theta
    c_q = angle * theta
    for l in range(first, end):
        kind = topology.link_type[l]
        j = topology.link_v[l]
        n = joints.dofs(kind)
        if kind == joints.BALL or kind == joints.FREE:
            turn_columns(work, c_q, angle, w, j + n - 3)
            n -= 3
        for i in range(n):
            work.dq[w, j + i] = c_q * motion.dof_S[w, j + i]
    g = gravity_of(plant, w)
    derivative(topology, g, motion, work.v_theta, work.a, work.dq, theta, real(1.0) / h, w, tree, work.sweep, work.J)
    for l in range(first, end):
        kind = topology.link_type[l]
        j = topology.link_v[l]
        n = joints.dofs(kind)
        for i in range(n):
            d = j + i
            slope = plant.joint_armature[w % plant.joint_armature.shape[0], d] / h
            slope += theta * plant.joint_damping[w % plant.joint_damping.shape[0], d]
            if kind != joints.BALL and (kind != joints.FREE or i < 3):
                slope += c_q * plant.joint_stiffness[w % plant.joint_stiffness.shape[0], d]
            work.J[w, d, d - begin] = work.J[w, d, d - begin] + slope
        if kind == joints.BALL or kind == joints.FREE:
            x = joints.spring_deflection(kind, work.q, plant.joint_reference, w, topology.link_q[l], j)
            t0 = j + n - 3
            # d log(rest^-1 q^θ) = dlog dexp c_q dv
            turned = joints.rotation_dlog(vec3(x[n - 3], x[n - 2], x[n - 1])) * turn_columns(work, c_q, angle, w, t0)
            for i in range(3):
                K = plant.joint_stiffness[w % plant.joint_stiffness.shape[0], t0 + i]
                for e in range(3):
                    k = t0 + e - begin
                    work.J[w, t0 + i, k] = work.J[w, t0 + i, k] + K * c_q * turned[i, e]
    for k in range(load.tree_actuator[tree], load.tree_actuator[tree + 1]):
        a = load.actuator[k]
        l = actuators.link[a]
        if joints.dofs(topology.link_type[l]) == 1:
            j = topology.link_v[l]
            law = forces.actuator_law(actuators, w, a)
            f = drive_force(actuators, work, law, w, a, topology.link_q[l], j)
            if f[0] == f[1]:  # the force is within its limits; at a limit it does not change
                ratio = actuators.gear[a, 0]
                slope = ratio * ratio * (c_q * law[1] + theta * law[2])
                work.J[w, j, j - begin] = work.J[w, j, j - begin] - slope


@func(inline=False)
def set_weights(topology: Topology, problem: Problem, w: int, tree: int, work: Newton):
    """diag(A), A ≈ h dr/dv, at the first velocity; at least diag(M), which keeps it positive."""
    armature = problem.plant.joint_armature
    begin = topology.tree_v[tree]
    for d in range(begin, topology.tree_v[tree + 1]):
        S_d = work.motion.dof_S[w, d]
        M = wp.dot(S_d, sp.momentum(work.sweep.I[w, topology.dof_link[d]], S_d))
        M += armature[w % armature.shape[0], d]
        work.weight[w, d] = wp.max(M, problem.scheme.h * work.J[w, d, d - begin])


@func(inline=False)
def residual_norm(topology: Topology, problem: Problem, w: int, tree: int, work: Newton) -> vec2:
    """(‖D m‖, scale) at the trial velocity [√J]."""
    residual_sq = real(0.0)
    impulse_sq = real(0.0)
    momentum_sq = real(0.0)
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        A = work.weight[w, d]
        residual_sq += work.r[w, d] * work.r[w, d] / A
        impulse_sq += work.magnitude[w, d] * work.magnitude[w, d] / A
        momentum_sq += work.v[w, d] * work.v[w, d] * A
    h = problem.scheme.h
    fall = h * wp.length(gravity_of(problem.plant, w)) * wp.sqrt(work.sweep.I[w, topology.tree_link[tree]][0])
    return vec2(h * wp.sqrt(residual_sq), h * wp.sqrt(impulse_sq) + wp.sqrt(momentum_sq) + fall)


@func
def newton_step(topology: Topology, w: int, tree: int, work: Newton):
    """dv ← −J⁻¹ r, with the factor of J."""
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for d in range(begin, end):
        work.dv[w, d] = -work.r[w, d]
    lu_solve_block(work.J[w], begin, end, work.pivot[w], work.dv[w])


@func(inline=False)
def search(
    topology: Topology, problem: Problem, guess: wp.array2d(dtype=real), w: int, tree: int, work: Newton,
    v_star: wp.array2d(dtype=real),
) -> int:  # fmt: skip
    """Search v* from the guess. Returns how the search ended. v* is the last velocity of a residual evaluation."""
    scheme = problem.scheme
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for d in range(begin, end):
        v_star[w, d] = guess[w, d]
        work.v[w, d] = guess[w, d]
    size = vec2()
    alpha = real(0.0)  # trial share of the Newton step; 0 at the guess, and where a trial was given up
    kept = int(0)  # 1 while the factor is that of an earlier Jacobian
    stalled = int(0)
    evaluations = int(0)
    state = int(RUNNING)
    while state == RUNNING:
        residual(topology, problem, w, tree, work)
        evaluations += 1
        after = residual_norm(topology, problem, w, tree, work)
        if alpha > real(0.0) and not (after[0] <= (real(1.0) - real(DECREASE) * alpha) * size[0]):
            alpha = real(0.5) * alpha
            if kept == 1 or alpha < real(SHORTEST_STEP) or evaluations >= scheme.max_evaluations:
                stalled = 1 - kept
                kept = 0
                alpha = real(0.0)
        else:
            kept = int(alpha == real(1.0) and after[0] * real(KEPT_REDUCTION) <= size[0])
            if evaluations == 1 or (kept == 0 and stalled == 0 and after[0] > scheme.tolerance * after[1]):
                linearise(topology, problem, w, tree, work)
            if evaluations == 1:
                set_weights(topology, problem, w, tree, work)
            size = residual_norm(topology, problem, w, tree, work)
            for d in range(begin, end):
                v_star[w, d] = work.v[w, d]
            if not (size[0] - size[0] == real(0.0)):
                state = NONFINITE
            elif size[0] <= scheme.tolerance * size[1] or (stalled == 1 and size[0] <= scheme.stall * size[1]):
                state = CONVERGED
            elif stalled == 1 or evaluations >= scheme.max_evaluations:
                state = NOT_CONVERGED
            elif kept == 0 and lu_factor_block(work.J[w], begin, end, work.pivot[w]) != 0:
                state = NOT_CONVERGED
            else:
                newton_step(topology, w, tree, work)
                alpha = real(1.0)
        for d in range(begin, end):
            work.v[w, d] = v_star[w, d]
            if alpha > real(0.0):
                work.v[w, d] = v_star[w, d] + alpha * work.dv[w, d]
    if state == NONFINITE:
        for d in range(begin, end):
            v_star[w, d] = size[0]
    work.evaluations[w, tree] = evaluations
    return state


@kernel
def free_motion(
    topology: Topology,
    problem: Problem,
    guess: wp.array2d(dtype=real),
    restarts: int,
    # scratch; out: the kinematics at q^θ(v*), evaluations, status
    work: Newton,
    # out
    v_star: wp.array2d(dtype=real),
):
    """Search v* from the guess. Launch over (worlds, trees).

    `restarts` of 1: search again from v0 where the search from the guess fails. A residual that is not finite gives a
    v* that is not finite.
    """
    w, tree = wp.tid()
    state = search(topology, problem, guess, w, tree, work, v_star)
    if restarts > 0 and state != CONVERGED:
        state = search(topology, problem, problem.v0, w, tree, work, v_star)
    work.status[w, tree] = state


@kernel(part="adjoint")
def factor_root(
    topology: Topology,
    problem: Problem,
    v_star: wp.array2d(dtype=real),
    # in, out
    work: Newton,
):
    """The factor of dm/dv / h at the root that `free_motion` has found; NaN where it is singular.

    Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    if work.evaluations[w, tree] > 1 or work.status[w, tree] != CONVERGED:  # else J is there, but not factored yet
        if problem.load.wrench.shape[0] > 0:  # `linearise` has summed the rotation of wrenches over subtrees
            for d in range(begin, end):
                work.v[w, d] = v_star[w, d]
            residual(topology, problem, w, tree, work)
        linearise(topology, problem, w, tree, work)
    if lu_factor_block(work.J[w], begin, end, work.pivot[w]) != 0:
        for d in range(begin, end):
            for e in range(end - begin):
                work.J[w, d, e] = real(wp.nan)


@kernel(part="adjoint")
def root_adjoint(
    topology: Topology,
    h: real,
    v_star_bar: wp.array2d(dtype=real),
    work: Newton,
    # out
    seed: wp.array2d(dtype=real),
):
    """seed = -(dm/dv)^-T v_star_bar, after `factor_root`; NaN where dm/dv is singular. Launch over (worlds, trees)."""
    w, tree = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for d in range(begin, end):
        seed[w, d] = -v_star_bar[w, d] / h
    lu_solve_transposed_block(work.J[w], begin, end, work.pivot[w], seed[w])
