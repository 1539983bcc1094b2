# SPDX-License-Identifier: Apache-2.0
"""`mppi`: model predictive path integral control, by sampling.

Sources: Williams, Aldrich, Theodorou 2017; Williams et al. 2018. Samples are worlds. From each initial state, controls
u + ε, with ε normal noise within the limits, are rolled out side by side. The plan moves by the mean of ε with the
weights w ∝ exp(-cost / temperature). No derivatives are used, so costs may be of any form.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import number, positive, whole
from warpsim.device.recording import tape_paused
from warpsim.device.threads import holds
from warpsim.optimise.cost import Cost, total
from warpsim.optimise.plan import Plan, checked_problem
from warpsim.optimise.sampling import deviations, generators, noise_of, rolled
from warpsim.simulator import Simulator
from warpsim.state import State


@holds
def mppi(
    sim: Simulator,
    state: State,
    controls: Numbers,
    cost: Cost,
    *,
    samples: int = 256,
    temperature: float = 1.0,
    noise: Numbers | None = None,
    correlation: float = 0.0,
    limits: Numbers | None = None,
    iterations: int = 1,
    seed: int | Sequence[int] = 0,
    substeps: int = 1,
) -> Plan:
    """Find controls `(knots, worlds, nu)` that lower `cost` from each world of `state`.

    Parameters
    ----------
    sim, state : Simulator, State
        The simulator and the initial states. Both are only read.
    controls : array
        The initial guess `(knots, worlds, nu)`.
    cost : Cost
        What to lower.
    samples : int
        Samples per world; the first has no noise. Non-finite samples have no weight.
    temperature : float
        In units of the cost: the smaller, the fewer samples count (`Plan.effective_samples`).
    noise : float or (nu,)
        Standard deviation of the controls; None: a quarter of the range.
    correlation : float
        Correlation of the noise from knot to knot, from 0 (white) to below 1.
    limits : tuple
        (low, high) within the model's control ranges, which always apply.
    iterations : int
        Number of updates of the plan; each rolls out all samples.
    seed : int or sequence of int
        The noise depends only on the seed and the world's index: the same call gives the same plan, for any number of
        worlds.
    substeps : int
        Number of parts that a knot's sim.dt is divided into, as in `sim.step`.

    Raises
    ------
    ValueError
        Names the argument.
    """
    u, low, high = checked_problem(sim, state, controls, cost, limits)
    samples, iterations = whole(samples, "samples", 2), whole(iterations, "iterations", 1)
    temperature, substeps = positive(temperature, "temperature"), whole(substeps, "substeps", 1)
    rho = number(correlation, "correlation", "give a number from 0 to below 1", lambda x: 0.0 <= x < 1.0)
    draws = generators(seed, sim.worlds)
    sigma = deviations(sim.model, noise, low, high)
    history, effective = [], np.ones(sim.worlds)
    with tape_paused():
        for _ in range(iterations):
            tried = np.clip(u + sigma * noise_of(draws, (samples, *u[:, 0].shape), rho), low, high)
            tried[0] = u
            _, _, costs = rolled(sim, state, tried, cost, substeps)
            history.append(costs[0])
            weights, effective = _weights(costs, temperature)
            u = u + total(weights[:, None, :, None] * (tried - u), 0)
        q, v, costs = rolled(sim, state, u[None], cost, substeps)
    finite = np.isfinite(history[0]) | np.isfinite(costs[0])
    status = np.where(finite, "iterations", "nonfinite")
    return Plan(u, q[0], v[0], costs[0], np.array([*history, costs[0]]), status, effective_samples=effective)


def _weights(costs: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights `(samples, worlds)`, and the effective number of samples `(worlds,)`; zero if no cost is finite."""
    least = costs.min(axis=0)
    finite = np.isfinite(least)
    weights = np.where(finite, np.exp(-(costs - np.where(finite, least, 0.0)) / temperature), 0.0)
    weights /= np.where(finite, total(weights, 0), 1.0)
    return weights, np.where(finite, 1.0 / np.where(finite, total(weights**2, 0), 1.0), 0.0)
