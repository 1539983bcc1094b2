# SPDX-License-Identifier: Apache-2.0
"""Motion imitation: G1 follows a squat of our own making (after DeepMimic, Peng et al., 2018).

The reference is a cycle of postures. `ws.reach` finds the joint angles at which the pelvis is lower and the feet stay.
An episode begins at a random frame of the cycle (reference state initialization), and the policy observes the phase.
Rewards are exp(-w e²) of the errors of posture, joint speeds, pelvis height and inclination, weighted as there.
"""

import functools
import math

import numpy as np

from warpsim.envs.legged import G1, legged_model
from warpsim.envs.rotations import norm
from warpsim.envs.sensing import angular_velocity, height, linear_velocity, projected_gravity
from warpsim.envs.task import Task
from warpsim.envs.terms import Term, action_change, indices, last_action, scaled, start_noise, velocities
from warpsim.envs.velocity import REACH, SCALE, SECOND, held, inclination, offsets
from warpsim.optimise.inverse_kinematics import reach
from warpsim.simulator import Simulator

FRAMES = 100  # of the cycle, one per action: 2 s
DEPTH = 0.15  # [m] that the pelvis goes down and up
EPISODE_DRAW = 10_000  # number of the random draw of an episode's first frame, beyond those of terms


@functools.cache
def squat() -> dict:
    """The reference: positions `q (FRAMES, nq)` and velocities of G1's legs `v (FRAMES, joints)`.

    Raises `ValueError` where the legs cannot reach a frame to 1 mm and 1 mrad.
    """
    model = legged_model(G1)
    sim = Simulator(model, FRAMES, device="cpu", dtype="float64")
    q = np.tile(model.keyframes["stance"].q, (FRAMES, 1))
    poses = sim.kinematics(q).numpy()
    phase = 2.0 * math.pi * np.arange(FRAMES) / FRAMES
    targets = {foot: poses[:, model.body(foot)] for foot in G1.feet} | {G1.base: poses[:, model.body(G1.base)].copy()}
    targets[G1.base][:, 2] -= 0.5 * DEPTH * (1.0 - np.cos(phase))
    found = reach(sim, q, targets, posture=q, posture_weight=1e-4, iterations=100)
    q = np.array(found.q)
    missed = max(np.abs(sim.kinematics(q).numpy()[:, model.body(name)] - pose).max() for name, pose in targets.items())
    if missed > 1e-3:
        raise ValueError(f"squat: a frame is {missed:.1e} m or rad from its target; choose a smaller DEPTH")
    columns = [model.joint_coordinates(name)[0].start for name in G1.moved]
    v = (np.roll(q, -1, 0) - np.roll(q, 1, 0))[:, columns] / (2.0 * SECOND)
    return {"q": q, "v": v, "columns": np.array(columns)}


def frame(s):
    """The number of the present frame `(worlds,)`."""
    first = s.uniform(1, 0.0, float(FRAMES), draw=EPISODE_DRAW, of_episode=True)[:, 0]
    return (s.xp.floor(first) + s.steps) % FRAMES


def _rows(s, name: str):
    """Rows of a table of the reference at the present frame."""
    table = s.constant(f"reference {name}", lambda: s.arrays.made(squat()[name].astype(np.float32)))
    return table[indices(frame(s))]


class start_in_reference(Term):
    """Begin episodes at a random frame of the reference, at rest."""

    def __call__(self, view, start) -> None:
        first = view.xp.floor(view.uniform(1, 0.0, float(FRAMES), draw=EPISODE_DRAW, of_episode=True)[:, 0])
        table = view.constant("reference q", lambda: view.arrays.made(squat()["q"].astype(np.float32)))
        start["q"] = table[indices(first)]


def _phase(s):
    angle = 2.0 * math.pi * frame(s) / FRAMES
    return s.xp.stack([s.xp.sin(angle), s.xp.cos(angle)], axis=-1)


def _posture(s):
    """Errors of the legs' angles `(worlds, joints)` [rad]."""
    columns = s.arrays.constant(squat()["columns"])
    return s.q[:, columns] - _rows(s, "q")[:, columns]


def _speeds(s):
    """Errors of the legs' speeds `(worlds, joints)` [rad/s]."""
    return velocities(*G1.moved)(s) - _rows(s, "v")


def _lowered(s):
    """Error of the pelvis' height `(worlds, 1)` [m]."""
    return s.q[:, 2:3] - _rows(s, "q")[:, 2:3]


def _near(error, weight: float):
    """exp(-w |e|²)."""
    return lambda s: s.xp.exp(-weight * (error(s) ** 2).sum(-1))


class Imitate(Task):
    """G1 squats as the reference does, and stays upright."""

    model = staticmethod(lambda: legged_model(G1))
    timestep, decimation, episode = 0.005, 4, 500
    learning = {"ppo": {"iterations": 300, "hidden": (128, 128)}, "shac": {"hidden": (128, 128)}}
    action_range = (-REACH * np.ones(len(G1.moved)), REACH * np.ones(len(G1.moved)))
    actuators = (scaled(SCALE, G1.pose(G1.moved)), held(G1))
    observations = {
        "phase": _phase,
        "height": height(G1.base),
        "linear": linear_velocity(G1.base),
        "angular": angular_velocity(G1.base),
        "gravity": projected_gravity(G1.base),
        "joints": offsets(G1),
        "speeds": velocities(*G1.moved),
        "action": last_action,
    }
    rewards = {
        "posture": (0.65 * SECOND, _near(_posture, 2.0)),
        "speeds": (0.1 * SECOND, _near(_speeds, 0.1)),
        "height": (0.15 * SECOND, _near(_lowered, 200.0)),
        "upright": (0.1 * SECOND, _near(lambda s: projected_gravity(G1.base)(s)[:, :2], 10.0)),
        "change": (-0.005 * SECOND, action_change),
    }
    terminations = {"fallen": lambda s: inclination(s, G1) < 0.5, "low": lambda s: s.q[:, 2] < 0.4}
    starts = (start_in_reference(), start_noise(v=0.1))
    measures = {
        "joint_error": lambda s: norm(_posture(s)) / math.sqrt(len(G1.moved)),
        "height_error": lambda s: abs(_lowered(s)[:, 0]),
    }
