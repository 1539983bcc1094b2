# SPDX-License-Identifier: Apache-2.0
"""Time of a step and world against one world of MuJoCo C, float32, one thread.

Both start at the file's own start and make the same steps, engines by turns; processor time. MuJoCo runs Newton and Euler as in the other
benchmarks, every engine at the file's step.
"""

import statistics
import time

import mujoco
import numpy as np

import warpsim as ws
from benchmarks.corpus.starts import own_start, place, state_of

WORLDS, SETTLE, STEPS, TURNS = 16, 100, 50, 5


def speed(m: mujoco.MjModel, model: ws.Model) -> dict | None:
    """`ms` per step and world, `mujoco_ms`, and `ratio`, the median of turns; None for a model that cannot move."""
    if m.nv == 0:
        return None
    m.opt.integrator, m.opt.solver = mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtSolver.mjSOL_NEWTON
    states, data = own_start(m, WORLDS), mujoco.MjData(m)
    place(data, states, 0)
    sim = ws.Simulator(model, WORLDS, device="cpu", threads=1)
    state, control = state_of(sim, states), states["control"] if m.nu else None

    def ours(steps: int) -> float:
        start = time.process_time()
        for _ in range(steps):
            sim.step(state, control, out=state)
        return (time.process_time() - start) / steps / WORLDS

    def theirs(steps: int) -> float:
        start = time.process_time()
        mujoco.mj_step(m, data, steps)
        return (time.process_time() - start) / steps

    ours(SETTLE), theirs(SETTLE)
    turns = [(ours(STEPS), theirs(STEPS)) for _ in range(TURNS)]
    return {
        "ms": 1e3 * statistics.median(a for a, _ in turns),
        "mujoco_ms": 1e3 * statistics.median(b for _, b in turns),
        "ratio": statistics.median(a / b for a, b in turns),
        "contacts": float(np.mean(sim.diagnostics.contacts.numpy())),
    }
