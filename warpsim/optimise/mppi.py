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
    """Find controls that lower a cost by model predictive path integral control.

    Parameters
    ----------
    sim : Simulator
        The simulator, which is only read.
    state : State
        The initial states, which are only read.
    controls : array (knots, worlds, nu)
        The initial guess.
    cost : Cost
        What to lower.
    samples : int
        Samples per world. The first has no noise. Samples that are not finite have no weight. Default: 256.
    temperature : float
        Temperature of the weights, in units of the cost. The smaller it is, the fewer samples count
        (`Plan.effective_samples`). Default: 1.
    noise : float or array (nu,), optional
        Standard deviation of the controls. Default: a quarter of the control range.
    correlation : float
        Correlation of the noise from knot to knot, in [0, 1). Default: 0, white noise.
    limits : tuple of (low, high), optional
        Numbers or arrays that broadcast to (worlds, nu), within the model's control ranges, which always apply.
        Default: the control ranges.
    iterations : int
        Number of updates of the plan. Each rolls out all samples. Default: 1.
    seed : int or sequence of int
        The noise depends only on the seed and the world's index. The same call gives the same plan, for any number of
        worlds. Default: 0.
    substeps : int
        Number of steps that a knot's `sim.dt` is divided into, as in `sim.step`. Default: 1.

    Returns
    -------
    Plan
        The controls, their motion and cost. The cost may rise from one update to the next.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed, or an actuator has no control range and `noise` and `limits` give
        none.

    Notes
    -----
    An update adds to the controls the mean of the samples' noise, weighted by w ∝ exp(−cost / temperature) (Williams,
    Aldrich and Theodorou 2017; Williams et al. 2018). No derivatives are used, so that costs may have any form.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dt=0.02, device="cpu")
    >>> cost = ws.Cost(None, lambda q, v: 30.0 * (q[..., :1] - 0.1))       # the cart at 0.1 m
    >>> plan = ws.mppi(sim, sim.state(), np.zeros((20, 1, 1)), cost, samples=64, iterations=3)
    >>> bool(plan.cost[0] < plan.history[0, 0]), bool(1.0 <= plan.effective_samples[0] <= 64.0)
    (True, True)
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
