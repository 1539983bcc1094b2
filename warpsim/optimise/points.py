# SPDX-License-Identifier: Apache-2.0
"""Losses and gradients of an `Objective` at many points at once: each point is a replica of the worlds."""

import dataclasses

import numpy as np
import warp as wp

from warpsim.differentiate.objective import Objective
from warpsim.differentiate.taped import Inputs, TapedRollout, device_array
from warpsim.differentiate.trust import worlds_axis
from warpsim.kernels.flags import NONFINITE
from warpsim.optimise.replicas import replicas
from warpsim.state import State
from warpsim.state.trajectory import Trajectory


def gradients(objective: Objective, points: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Losses at each point as the loss returns them, gradients (points, n), and where all worlds stayed finite."""
    sim, worlds = objective.sim, objective.sim.worlds
    wide = replicas(sim, len(points), requires_grad=True).sim
    run = TapedRollout(wide, _inputs(objective, wide, points), objective.steps, **objective.options)
    parts = [slice(k * worlds, (k + 1) * worlds) for k in range(len(points))]
    values = [_pull_loss(objective, _part(run.trajectory, part)) for part in parts]
    found = {name: array.numpy().astype(float) for name, array in run.gradients().items()}
    by_part = [{n: x[:, part] if worlds_axis(n) else x[part] for n, x in found.items()} for part in parts]
    slopes = [objective.pack_gradient(x) for x in by_part]
    flags = run.trajectory.diagnostics["flags"].numpy() & int(NONFINITE)
    return values, np.array(slopes), np.array([not flags[:, part].any() for part in parts])


def losses(objective: Objective, points: np.ndarray) -> np.ndarray:
    """Losses (points, worlds), or (points,) of a loss that is one number; inf where a motion or loss is not finite."""
    sim, worlds = objective.sim, objective.sim.worlds
    wide = replicas(sim, len(points)).sim
    inputs = Inputs(wide, _inputs(objective, wide, points))
    options = {name: x for name, x in objective.options.items() if name != "checkpoint_every"}
    motion = wide.rollout(inputs.start, inputs.controls, objective.steps, mocap=inputs.mocap, **options)
    flags = motion.diagnostics["flags"].numpy() & int(NONFINITE)
    found = []
    for k in range(len(points)):
        part = slice(k * worlds, (k + 1) * worlds)
        one, bad = _part(motion, part), (flags[:, part] != 0).any(axis=0)
        if objective.framework == "warp":
            value = np.asarray(objective.loss(one).numpy(), float)
        else:
            value = objective._tensors_loss(one)[0]
        each = value.shape == (worlds,)
        value, bad = (value, bad) if each else (value.sum(), bad.any())
        found.append(np.where(np.isfinite(value) & ~bad, value, np.inf))
    return np.array(found)


def _inputs(objective: Objective, wide, points: np.ndarray) -> dict:
    """The inputs of the wide simulator by name."""
    values = [{name: array.numpy() for name, array in objective.arrays(x).items()} for x in points]
    arrays = {}
    for name in values[0]:
        joined = np.concatenate([value[name] for value in values], axis=worlds_axis(name))
        arrays[name] = device_array(wide, name, joined, joined.shape)
    return arrays


def _pull_loss(objective: Objective, trajectory: Trajectory) -> np.ndarray:
    """Add the gradient of the loss of a trajectory to the gradients of its rows. Returns the loss."""
    tape = wp.Tape()
    value, seeds = objective.seeds(tape, trajectory)
    for array, seed in seeds.items():
        wp.copy(array.grad, seed)
    tape.backward()
    return value


def _part(trajectory: Trajectory, part: slice) -> Trajectory:
    """The trajectory of some worlds, in the memory of the whole one."""
    final = trajectory.final
    memory = {name: x[part] if x.size else x for name, x in final.memory.items()}
    rows = {name: getattr(trajectory, name) for name in ("q", "v", "time", "activation", "mocap")}
    return dataclasses.replace(
        trajectory,
        **{name: x if x is None or not x.size else x[:, part] for name, x in rows.items()},
        diagnostics={name: x[:, part] for name, x in trajectory.diagnostics.items()},
        final=State(final.q[part], final.v[part], final.time[part], memory),
    )
