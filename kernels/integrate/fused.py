# SPDX-License-Identifier: Apache-2.0
"""A symplectic Euler step fused into two kernels: one per tree before contact, one per world after it.

Each kernel calls the same functions as the kernels of the single operations, in the order of docs/step.md, and leaves
the same arrays. Steps with more parts launch the operations one by one (`warpsim/integrate/step.py`).
"""

import warp as wp

from ..forces.actuators import Actuators, drive, spring_force
from ..linalg.lanes import lane, lanes, sync
from ..real import func, kernel, real, struct, transform, vec6, vec10
from ..solve.problem import Problem, Solution, clear_idle
from ..solve.sap.lagged import worst_island
from ..solve.sap.sap import Workspace, certify_world
from ..tree import joints
from ..tree.energy import Energies, team_energy
from ..tree.held import (
    ACCELERATIONS,
    AXES,
    COMPOSITES,
    FORCES,
    INERTIAS,
    MATRIX,
    POSES,
    VELOCITIES,
    hold_inertias,
    hold_matrix,
    hold_poses,
    hold_vectors,
    team_put_inertias,
    team_put_matrix,
    team_put_poses,
    team_put_vectors,
    team_room,
)
from ..tree.passes import (
    Topology,
    inertia_of_link,
    place_axes,
    team_bias_forces,
    team_mass_matrix,
    team_move,
    team_place,
)
from ..tree.plant import Plant, sprung_deflection
from .spin import is_spinning, team_leave_spin, team_leave_spin_again
from .theta.schemes import Ends, team_commit, team_free_motion


@struct
class Drives:
    """Forces on joints: given ones, and actuators. Link l has `of_link[link_begin[l]:link_begin[l + 1]]`."""

    actuators: Actuators
    tau: wp.array2d(dtype=real)
    link_begin: wp.array(dtype=int)
    of_link: wp.array(dtype=int)


@struct
class Motion:
    """Kinematics, forces, inertia and free motion: arrays that the rest of the step reads, and scratch."""

    armature: wp.array2d(dtype=real)  # in M
    link_X: wp.array2d(dtype=transform)
    dof_S: wp.array2d(dtype=vec6)
    link_I: wp.array2d(dtype=vec10)
    link_V: wp.array2d(dtype=vec6)
    force: wp.array2d(dtype=real)
    D: wp.array2d(dtype=real)
    bias: wp.array2d(dtype=real)
    A: wp.array3d(dtype=real)
    M_factor: wp.array3d(dtype=real)
    A_factor: wp.array3d(dtype=real)
    v_star: wp.array2d(dtype=real)
    link_V_star: wp.array2d(dtype=vec6)
    link_A: wp.array2d(dtype=vec6)
    link_f: wp.array2d(dtype=vec6)
    composite: wp.array2d(dtype=vec10)


@func
def held_motion(topology: Topology, motion: Motion, tree: int) -> Motion:
    """`motion` with the arrays of links in shared memory (`tree/held.py`)."""
    link = topology.tree_link[tree]
    room = team_room()
    held = Motion()
    held.armature = motion.armature
    held.force = motion.force
    held.D = motion.D
    held.bias = motion.bias
    held.A = hold_matrix(room, wp.static(MATRIX), motion.A, topology.tree_v[tree])
    held.M_factor = motion.M_factor
    held.A_factor = motion.A_factor
    held.v_star = motion.v_star
    held.link_X = hold_poses(room, wp.static(POSES), motion.link_X, link)
    held.link_I = hold_inertias(room, wp.static(INERTIAS), motion.link_I, link)
    held.composite = hold_inertias(room, wp.static(COMPOSITES), motion.composite, link)
    held.dof_S = hold_vectors(room, wp.static(AXES), motion.dof_S, topology.tree_v[tree])
    held.link_V = hold_vectors(room, wp.static(VELOCITIES), motion.link_V, link)
    held.link_A = hold_vectors(room, wp.static(ACCELERATIONS), motion.link_A, link)
    held.link_f = hold_vectors(room, wp.static(FORCES), motion.link_f, link)
    held.link_V_star = hold_vectors(room, wp.static(ACCELERATIONS), motion.link_V_star, link)  # once A is written
    return held


@func
def team_put(topology: Topology, held: Motion, motion: Motion, w: int, tree: int):
    """Write the arrays of links to global memory, before the mass matrix takes their place."""
    link = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    team_put_poses(held.link_X, motion.link_X, w, link, end)
    team_put_inertias(held.link_I, motion.link_I, w, link, end)
    team_put_vectors(held.dof_S, motion.dof_S, w, topology.tree_v[tree], topology.tree_v[tree + 1])
    team_put_vectors(held.link_V, motion.link_V, w, link, end)
    team_put_vectors(held.link_A, motion.link_A, w, link, end)
    team_put_vectors(held.link_f, motion.link_f, w, link, end)


@func
def team_kinematics(
    topology: Topology, plant: Plant, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int, tree: int,
    motion: Motion,
):  # fmt: skip
    """Poses, motion subspaces, inertias and velocities of the links of a tree."""
    team_place(topology, plant, q, w, tree, motion.link_X)
    for l in range(topology.tree_link[tree] + lane(), topology.tree_link[tree + 1], lanes()):
        place_axes(topology, plant, motion.link_X, w, l, motion.dof_S)
        motion.link_I[w, l] = inertia_of_link(topology, plant, motion.link_X, w, l)
    sync()
    team_move(topology, motion.dof_S, v, w, tree, motion.link_V)


@func
def team_forces(
    topology: Topology, plant: Plant, drives: Drives, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int,
    tree: int, motion: Motion,
):  # fmt: skip
    """Springs, given forces and actuators of the joints of a tree, and their linear damping."""
    for l in range(topology.tree_link[tree] + lane(), topology.tree_link[tree + 1], lanes()):
        x = sprung_deflection(plant, topology.link_type[l], q, w, topology.link_q[l], topology.link_v[l])
        spring_force(topology, plant, drives.tau, x, w, l, motion.force, motion.D)
        for k in range(drives.link_begin[l], drives.link_begin[l + 1]):
            drive(topology, drives.actuators, q, v, w, drives.of_link[k], motion.force, motion.D)
    sync()


@func
def team_bias(topology: Topology, plant: Plant, v: wp.array2d(dtype=real), w: int, tree: int, motion: Motion):
    """Bias forces of a tree."""
    team_bias_forces(
        topology, plant.gravity, motion.dof_S, motion.link_I, motion.link_V, v, w, tree, motion.link_A, motion.link_f,
        motion.bias,
    )  # fmt: skip


@func
def team_mass(
    topology: Topology, plant: Plant, h: real, v: wp.array2d(dtype=real), w: int, tree: int, motion: Motion
):  # fmt: skip
    """Mass matrix of a tree, and the bias force of a lone body that spins."""
    team_mass_matrix(topology, motion.armature, motion.dof_S, motion.link_I, w, tree, motion.composite, motion.A)
    team_leave_spin(topology, h, plant.gravity, motion.dof_S, motion.composite, v, w, tree, motion.bias)


@func
def team_end(topology: Topology, h: real, v: wp.array2d(dtype=real), w: int, tree: int, motion: Motion):
    """Factors, v* and the velocities of the links at v*, from the forces."""
    sync()
    team_free_motion(
        topology, h, v, motion.force, motion.bias, motion.D, w, tree, motion.A, motion.M_factor,
        motion.A_factor, motion.v_star,
    )  # fmt: skip
    team_move(topology, motion.dof_S, motion.v_star, w, tree, motion.link_V_star)


@kernel(lanes=True, shares="tree", registers=128)
def smooth_motion(
    topology: Topology,
    plant: Plant,
    drives: Drives,
    h: real,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    motion: Motion,
):
    """Kinematics, forces and free motion of a tree: v*, A = M + h D, and the factors of M and A.

    A tree has at most `LANES` links and degrees of freedom on CUDA, see `smooth_motion_of_large`. Launch over (worlds,
    trees, lanes).
    """
    w, tree, _lane = wp.tid()
    held = held_motion(topology, motion, tree)
    team_kinematics(topology, plant, q, v, w, tree, held)
    team_forces(topology, plant, drives, q, v, w, tree, held)
    team_bias(topology, plant, v, w, tree, held)
    team_put(topology, held, motion, w, tree)
    team_mass(topology, plant, h, v, w, tree, held)
    team_put_inertias(held.composite, motion.composite, w, topology.tree_link[tree], topology.tree_link[tree + 1])
    team_put_matrix(team_room(), wp.static(MATRIX), motion.A, w, topology.tree_v[tree], topology.tree_v[tree + 1])
    held.A = motion.A
    team_end(topology, h, v, w, tree, held)
    team_put_vectors(held.link_V_star, motion.link_V_star, w, topology.tree_link[tree], topology.tree_link[tree + 1])


@kernel(part="large", lanes=True, shares="tree", registers=128)
def smooth_motion_of_large(
    topology: Topology,
    plant: Plant,
    drives: Drives,
    h: real,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    motion: Motion,
):
    """`smooth_motion` of trees of any size. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    team_kinematics(topology, plant, q, v, w, tree, motion)
    team_forces(topology, plant, drives, q, v, w, tree, motion)
    team_bias(topology, plant, v, w, tree, motion)
    team_mass(topology, plant, h, v, w, tree, motion)
    team_end(topology, h, v, w, tree, motion)


@kernel(part="again", lanes=True, shares="tree", registers=128)
def move_again(
    topology: Topology,
    plant: Plant,
    drives: Drives,
    h: real,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # in and out
    motion: Motion,
):
    """`smooth_motion` at another v, where `motion` has the kinematics at q and A is M. Launch over (worlds, trees,
    lanes)."""
    w, tree, _lane = wp.tid()
    team_move(topology, motion.dof_S, v, w, tree, motion.link_V)
    team_forces(topology, plant, drives, q, v, w, tree, motion)
    team_bias_forces(
        topology, plant.gravity, motion.dof_S, motion.link_I, motion.link_V, v, w, tree, motion.link_A, motion.link_f,
        motion.bias,
    )  # fmt: skip
    team_leave_spin_again(topology, h, plant.gravity, motion.dof_S, motion.link_I, v, w, tree, motion.bias)
    team_end(topology, h, v, w, tree, motion)


@func
def certify(
    problem: Problem, work: Workspace, solution: Solution, island_error: wp.array2d(dtype=real),
    error: wp.array(dtype=real), w: int,
):  # fmt: skip
    """`sap.certify`, and where there is an array of errors, `lagged.certify_lagged`."""
    certify_world(problem, work, solution, w)
    if error.shape[0] > 0:
        error[w] = worst_island(work, island_error, w)


@kernel(part="end", lanes=True, shares="dofs", registers=64)
def finish(
    topology: Topology,
    plant: Plant,
    motion: Motion,
    step: wp.float64,
    certifies: int,
    problem: Problem,
    work: Workspace,
    island_error: wp.array2d(dtype=real),
    error: wp.array(dtype=real),
    solution: Solution,
    # in and out
    ends: Ends,
    # out
    energies: Energies,
):
    """The end of a step: certificate of the solution, energy at the start of the step, q' = q (+) h v, commit.

    The step is accepted in the worlds where it is finite. q' of spinning bodies is already set. `step`: h. `certifies`
    0: the solver has certified its solution. Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    h = real(step)
    if certifies == 1:
        clear_idle(problem, solution, w, lane(), lanes())
        if lane() == 0:
            certify(problem, work, solution, island_error, error, w)
    if energies.total.shape[0] > 0:
        team_energy(topology, plant, motion.link_X, motion.link_I, motion.link_V, ends.q, ends.v, w, energies)
    for l in range(lane(), topology.link_type.shape[0], lanes()):
        if not is_spinning(topology, h, solution.v, w, l):
            joints.advance(
                topology.link_type[l], ends.q, solution.v, h, w, topology.link_q[l], topology.link_v[l], ends.q_next
            )
    sync()
    team_commit(topology, plant, step, solution.status, w, ends)
