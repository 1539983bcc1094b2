# SPDX-License-Identifier: Apache-2.0
"""Sensors at random states against MuJoCo's, constraints and contact off in both as in `smooth.py`.

Those of positions and velocities at the state itself; those of accelerations and forces of a step from it, in the limit of short steps as in
`smooth.py`. An error counts relative to the largest value of the sensor, or to `LEAST` where that is more.
"""

import mujoco
import numpy as np

import warpsim as ws
from benchmarks.corpus.smooth import STATES, H, limit_of_rates, unconstrained
from benchmarks.corpus.starts import place, random_states, state_of

LEAST = 1e-2


def sensor_error(m: mujoco.MjModel) -> dict | None:
    """Worst errors `state` and `step`, the sensors that have them, and how many are compared; None without sensors or motion."""
    if m.nsensor == 0 or m.nv == 0:
        return None
    unconstrained(m)
    states, data = random_states(m, STATES), mujoco.MjData(m)
    expected = np.zeros((STATES, m.nsensordata))
    for k in range(STATES):
        place(data, states, k)
        mujoco.mj_forward(m, data)
        expected[k] = data.sensordata
    solver = ws.NoContact(limits=ws.SAP(tolerance=1e-14))
    sim = ws.Simulator(ws.load(m), STATES, dt=H[0], solver=solver, dtype="float64", device="cpu", threads=1)
    control = states["control"] if m.nu else None
    at_state = sim.sensors(state_of(sim, states)).numpy()
    after = [limit_of_rates(lambda h: _measured(sim, states, control, h), h) for h in H]
    found = {"compared": 0, "left_out": 0, "state": 0.0, "step": 0.0, "state_worst": "", "step_worst": ""}
    for i in range(m.nsensor):
        columns = slice(m.sensor_adr[i], m.sensor_adr[i] + m.sensor_dim[i])
        of_step = m.sensor_needstage[i] == mujoco.mjtStage.mjSTAGE_ACC
        tries = [x[:, columns] for x in (after if of_step else [at_state])]
        scale = max(float(np.abs(expected[:, columns]).max(initial=0.0)), LEAST)
        error = min(
            (float(np.abs(x - expected[:, columns]).max()) / scale for x in tries if np.isfinite(x).all()), default=None
        )
        found["compared" if error is not None else "left_out"] += 1
        stage = "step" if of_step else "state"
        if error is not None and error > found[stage]:
            found[stage] = error
            found[f"{stage}_worst"] = f"{mujoco.mjtSensor(int(m.sensor_type[i])).name[7:].lower()} {m.sensor(i).name}"
    return found


def _measured(sim, states, control, h: float) -> np.ndarray:
    sim.dt = h
    return sim.sensors(sim.step(state_of(sim, states), control)).numpy()
