# SPDX-License-Identifier: Apache-2.0
"""Accelerations without contact, limits, dry friction and constraints, against MuJoCo's `mj_forward`.

A step takes dampers and feedback at its end, so that (v' - v)/h differs from the acceleration at the state by a series in h; three steps
of h, h/2, h/4 leave its cube. The least error over the first steps `H` counts: long ones end the series too early, short ones round.
"""

import mujoco
import numpy as np

import warpsim as ws
from benchmarks.corpus.starts import place, random_states, state_of

STATES = 5
H = tuple(10.0 ** (-k / 2) for k in range(8, 25))  # [s]
SMALLEST = 1e-6  # [N m / kg] scale of an acceleration that counts as none


def unconstrained(m: mujoco.MjModel) -> None:
    """Switch off what acts through MuJoCo's constraint solver, in place."""
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER


def acceleration_error(m: mujoco.MjModel) -> float | None:
    """Worst relative error of the acceleration of random states, in the norm of M; None for a model that cannot move."""
    if m.nv == 0:
        return None
    unconstrained(m)
    states = random_states(m, STATES)
    expected, norms, data, dense = [], [], mujoco.MjData(m), np.zeros((m.nv, m.nv))
    for k in range(STATES):
        place(data, states, k)
        mujoco.mj_forward(m, data)
        mujoco.mj_fullM(m, data, dense)
        expected.append(data.qacc.copy())
        norms.append(dense.copy())
    solver = ws.NoContact(limits=ws.SAP(tolerance=1e-14))
    sim = ws.Simulator(ws.load(m), STATES, dt=H[0], solver=solver, dtype="float64", device="cpu", threads=1)

    def rate(h: float) -> np.ndarray:
        sim.dt = h
        after = sim.step(state_of(sim, states), states["control"] if m.nu else None)
        return (after.v.numpy() - states["v"]) / sim.dt

    errors = [max(map(relative_error, limit_of_rates(rate, h), expected, norms)) for h in H]
    return float(np.nanmin(errors)) if np.isfinite(errors).any() else float("nan")


def limit_of_rates(rate, h: float) -> np.ndarray:
    """rate(0) up to h³, from rates at h, h/2 and h/4."""
    first, second, third = (rate(h / part) for part in (1, 2, 4))
    return (first - 6.0 * second + 8.0 * third) / 3.0


def relative_error(found, expected, M) -> float:
    """Of an acceleration, in the norm of the mass matrix M."""
    error = found - expected
    size = np.sqrt(expected @ M @ expected)
    return float(np.sqrt(max(error @ M @ error, 0.0)) / max(size, SMALLEST * np.sqrt(np.trace(M))))
