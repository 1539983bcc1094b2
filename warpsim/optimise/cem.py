# SPDX-License-Identifier: Apache-2.0
"""`cem`: the cross-entropy method over control sequences, by sampling.

Sources: Rubinstein 1999; de Boer, Kroese, Mannor, Rubinstein 2005; for control sequences Pinneri et al. 2020, from whom
the correlated noise and the sample that is kept come. Samples are worlds. From each initial state, controls of a
normal distribution per knot are rolled out side by side. The distribution moves to the mean and the standard deviation
of the elites, the samples of least cost. No derivatives are used, so costs may be of any form.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import number, whole
from warpsim.device.recording import tape_paused
from warpsim.device.threads import holds
from warpsim.optimise.cost import Cost, total
from warpsim.optimise.plan import Plan, checked_problem
from warpsim.optimise.sampling import deviations, generators, noise_of, rolled
from warpsim.simulator import Simulator
from warpsim.state import State


@holds
def cem(
    sim: Simulator,
    state: State,
    controls: Numbers,
    cost: Cost,
    *,
    samples: int = 64,
    elites: int | None = None,
    smoothing: float = 0.1,
    noise: Numbers | None = None,
    least_noise: float = 0.02,
    correlation: float = 0.0,
    limits: Numbers | None = None,
    iterations: int = 20,
    seed: int | Sequence[int] = 0,
    substeps: int = 1,
) -> Plan:
    """Find controls `(knots, worlds, nu)` that lower `cost` from each world of `state`: the best of all samples.

        guess = ws.cem(sim, start, controls, cost, correlation=0.8)     # finds the valley
        plan = ws.ilqr(sim, start, guess.controls, cost)                # descends to its floor

    Parameters
    ----------
    sim, state : Simulator, State
        The simulator and the initial states. Both are only read.
    controls : array
        The initial guess `(knots, worlds, nu)`: the first mean.
    cost : Cost
        What to lower.
    samples : int
        Samples per world and iteration. The first is the mean and the second the best so far, both without noise.
    elites : int
        Samples that the next mean and standard deviation are taken of; None: a tenth, at least 2. Non-finite samples
        are never elites.
    smoothing : float
        Share of the present mean and standard deviation in the next ones, from 0 to below 1.
    noise : float or (nu,)
        First standard deviation of the controls; None: a quarter of the range.
    least_noise : float
        Least standard deviation, as a fraction of the first.
    correlation : float
        Correlation of the noise from knot to knot, from 0 (white) to below 1.
    limits : tuple
        (low, high) within the model's control ranges, which always apply.
    iterations : int
        Number of updates of the distribution; each rolls out all samples.
    seed : int or sequence of int
        The noise depends only on the seed and the world's index: the same call gives the same plan, for any number of
        worlds.
    substeps : int
        Number of parts that a knot's sim.dt is divided into, as in `sim.step`.

    Raises
    ------
    ValueError
        Names the argument.

    Notes
    -----
    No cost ever rises: `Plan.history` holds the least cost so far.
    """
    u, low, high = checked_problem(sim, state, controls, cost, limits)
    samples, iterations = whole(samples, "samples", 4), whole(iterations, "iterations", 1)
    elites = max(2, samples // 10) if elites is None else whole(elites, "elites", 2)
    if elites > samples:
        raise ValueError(f"elites is {elites}; give at most samples = {samples}")
    share = "give a number from 0 to below 1"
    rho, kept, least = (
        number(value, name, share, lambda x: 0.0 <= x < 1.0)
        for name, value in (("correlation", correlation), ("smoothing", smoothing), ("least_noise", least_noise))
    )
    substeps, draws = whole(substeps, "substeps", 1), generators(seed, sim.worlds)
    first = deviations(sim.model, noise, low, high)

    def price(tried: np.ndarray) -> np.ndarray:
        return rolled(sim, state, tried, cost, substeps)[2]

    def draw() -> np.ndarray:
        return noise_of(draws, (samples, *u[:, 0].shape), rho)

    history, worlds = [], np.arange(sim.worlds)
    search = updates(price, draw, u, low, high, first, elites=elites, kept=kept, least=least)
    with tape_paused():
        for _ in range(iterations):
            best, mean, costs = next(search)
            history.append(costs[1])
        q, v, costs = rolled(sim, state, np.stack([best, mean]), cost, substeps)
    least_cost = np.argmin(costs, axis=0)
    value = costs[least_cost, worlds]
    found = (x[least_cost, :, worlds].swapaxes(0, 1) for x in (np.stack([best, mean]), q, v))
    status = np.where(np.isfinite(value), "iterations", "nonfinite")
    return Plan(*found, value, np.array([*history, value]), status)


def updates(price, draw, u, low, high, first, *, elites, kept, least):
    """Endless updates of the distribution, whose first mean is u `(knots, worlds, nu)` and first deviation `first`.

    `price(samples)` gives costs `(samples, worlds)` of `(samples, knots, worlds, nu)`, and `draw()` as much noise. Each
    update yields the best controls so far, the next mean, and the costs, of which the second is that of the best
    controls before.
    """
    mean, sigma, best, worlds = u, np.broadcast_to(first, u.shape), u, np.arange(u.shape[1])
    while True:
        tried = np.clip(mean + sigma * draw(), low, high)
        tried[0], tried[1] = mean, best
        costs = price(tried)
        best = tried[np.argmin(costs, axis=0), :, worlds].swapaxes(0, 1)
        mean, sigma = _fitted(tried, costs, elites, kept, mean, sigma, least * first)
        yield best, mean, costs


def _fitted(tried, costs, elites, kept, mean, sigma, least):
    """The next mean and standard deviation `(knots, worlds, nu)`; those of a world without two finite samples stay."""
    order = np.argsort(costs, axis=0, kind="stable")[:elites]
    weight = np.isfinite(np.take_along_axis(costs, order, 0)).astype(float)
    count = total(weight, 0)
    weight, few = weight / np.maximum(count, 1.0), (count < 2)[:, None]
    chosen = np.take_along_axis(tried, order[:, None, :, None], 0)
    new = total(weight[:, None, :, None] * chosen, 0)
    spread = np.sqrt(total(weight[:, None, :, None] * (chosen - new) ** 2, 0))
    moved = kept * mean + (1.0 - kept) * new, np.maximum(kept * sigma + (1.0 - kept) * spread, least)
    return tuple(np.where(few, x, y) for x, y in zip((mean, sigma), moved, strict=True))
