# SPDX-License-Identifier: Apache-2.0
"""The robots of the figures, in states that they come to under random controls."""

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import clutter
from scenes.pressure import spatula_gripper
from warpsim.tools.demo import robot_path

ROBOTS = {
    "humanoid": lambda: ws.load(robot_path("humanoid")),
    "ant": lambda: ws.load(robot_path("ant")),
    "half_cheetah": lambda: ws.load(robot_path("half_cheetah")),
    "hopper": lambda: ws.load(robot_path("hopper")),
    "clutter": lambda: clutter(20),
    "arm": lambda: ws.load(robot_path("pusher")),
    "bubbles": spatula_gripper,
}
CONTACT = {"lagged": lambda: ws.SAP(), "convex": lambda: ws.SAP(approximation="convex"), "mujoco": lambda: ws.MuJoCo()}
SCALE = 0.4  # of the control range


def simulator(robot: str, contact: str, worlds: int, dtype: str, device: str = "cpu", **options) -> ws.Simulator:
    """One of many worlds; under MuJoCo's law with its Euler integrator."""
    if contact == "mujoco":
        options = {"integrator": ws.MuJoCoEuler()} | options
    return ws.Simulator(ROBOTS[robot](), worlds, solver=CONTACT[contact](), dtype=dtype, device=device, **options)


def random_controls(sim: ws.Simulator, rng: np.random.Generator, count: int) -> list[wp.array | None]:
    """Controls (worlds, nu) over part of their range, or None of a model without actuators."""
    if not sim.model.nu:
        return [None] * count
    low, high = np.nan_to_num(np.asarray(sim.model.control_range, float).T, neginf=-1.0, posinf=1.0) * SCALE
    scalar = {"float32": wp.float32, "float64": wp.float64}[np.dtype(sim.dtype).name]
    shape = (sim.worlds, sim.model.nu)
    return [wp.array(rng.uniform(low, high, shape), dtype=scalar, device=sim.device) for _ in range(count)]


def settled(sim: ws.Simulator, steps: int, seed: int = 0) -> tuple[ws.State, wp.array | None]:
    """The state after some steps from random velocities, and the next controls."""
    rng = np.random.default_rng(seed)
    state = sim.state(v=rng.normal(0, 0.1, (sim.worlds, sim.model.nv)))
    controls = random_controls(sim, rng, 8)
    for k in range(steps):
        sim.step(state, controls[k % 8], out=state)
    return state, controls[0]


def thrown(sim: ws.Simulator, seed: int = 3) -> tuple[ws.State, wp.array | None]:
    """A state of bodies in the air, with joints at their limits, on the ground and deep within it, that move fast: some of Coulomb's law need other
    starts; and controls."""
    rng = np.random.default_rng(seed)
    q = np.tile(sim.model.q0, (sim.worlds, 1))
    q[:, 2] += rng.uniform(-0.6, 0.1, sim.worlds)
    return sim.state(q=q, v=rng.normal(0, 3.0, (sim.worlds, sim.model.nv))), random_controls(sim, rng, 1)[0]
