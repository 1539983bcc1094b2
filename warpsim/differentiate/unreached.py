# SPDX-License-Identifier: Apache-2.0
"""Bodies that a loss of a rollout depends on and that none of its variables reaches, world by world.

Such a body belongs to a tree that nothing which depends on the variables touches, and the derivative of its motion is
exactly zero. It is found by backward passes, one per tree in the loss: the gradient of a random combination of the
tree's positions and velocities in all rows is exactly zero only if all of their derivatives are.
"""

import numpy as np
import warp as wp

from warpsim.device.copies import SCALARS
from warpsim.differentiate.taped import BY_STEP, TapedRollout
from warpsim.model.model import JOINT_NQ, JointType


def unreached(objective, arrays: dict) -> tuple[tuple[str, ...], ...]:
    """Names of these bodies for each world of an `Objective` whose rollout has the inputs `arrays`."""
    sim, model = objective.sim, objective.sim.model
    run = TapedRollout(sim, arrays, objective.steps, **objective.options)
    slopes = [x != 0 for x in _loss_gradients(objective, run.trajectory)]
    found: list[list[str]] = [[] for _ in range(sim.worlds)]
    for joints in _joints_of_trees(model):
        columns = _columns(model, joints)
        depends = np.any([x[..., c].any(axis=(0, 2)) for x, c in zip(slopes, columns, strict=True)], axis=0)
        if not depends.any():
            continue
        names = list(dict.fromkeys(model.body_names[model.joint_body[j]] for j in joints))
        for w in np.flatnonzero(depends & ~_reached(objective, arrays, columns)):
            found[w] += names
    return tuple(tuple(names) for names in found)


def _loss_gradients(objective, trajectory) -> list[np.ndarray]:
    """∂loss/∂q and ∂loss/∂v of the rows `(rows, worlds, n)`, without the motion between them."""
    tape = wp.Tape()
    _, seeds = objective.seeds(tape, trajectory)
    for array, seed in seeds.items():
        wp.copy(array.grad, seed)
    tape.backward()
    return [x.grad.numpy().copy() for x in (trajectory.q, trajectory.v)]


def _joints_of_trees(model) -> list[list[int]]:
    """Joints by tree."""
    tree = np.searchsorted(model.tree_v, model.joint_v, side="right")
    movable = [j for j in range(model.njoint) if JOINT_NQ[JointType(model.joint_type[j])]]
    return [[j for j in movable if tree[j] == t] for t in dict.fromkeys(tree[j] for j in movable)]


def _columns(model, joints: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The columns of q and of v that belong to joints of one tree."""
    q = [int(model.joint_q[j]) + i for j in joints for i in range(JOINT_NQ[JointType(model.joint_type[j])])]
    ends = np.append(np.sort(model.joint_v), model.nv)
    v = [d for j in joints for d in range(int(model.joint_v[j]), int(ends[ends > model.joint_v[j]][0]))]
    return np.array(q), np.array(v)


def _reached(objective, arrays: dict, columns: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Whether any variable changes any of these coordinates in any row `(worlds,)`."""
    sim, rng = objective.sim, np.random.default_rng(0)
    run = TapedRollout(sim, arrays, objective.steps, **objective.options)
    seeds = {}
    for array, chosen in zip((run.trajectory.q, run.trajectory.v), columns, strict=True):
        seed = np.zeros(array.shape)
        seed[..., chosen] = rng.uniform(0.5, 1.5, seed[..., chosen].shape)
        seeds[array] = wp.array(seed, dtype=SCALARS[sim.dtype], device=sim.device)
    gradients = run.gradients(grads=seeds)
    reached = np.zeros(sim.worlds, bool)
    for name in objective.start:
        x = np.moveaxis(gradients[name].numpy(), 1 if name in BY_STEP else 0, 0)
        reached |= (x.reshape(sim.worlds, -1) != 0).any(axis=1)
    return reached
