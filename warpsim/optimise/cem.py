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
    """Find controls that lower a cost by the cross-entropy method (CEM): the best of all samples.

    Parameters
    ----------
    sim : Simulator
        The simulator, which is only read.
    state : State
        The initial states, which are only read.
    controls : array (knots, worlds, nu)
        The initial guess: the first mean.
    cost : Cost
        What to lower.
    samples : int
        Samples per world and iteration, at least 4. The first is the mean and the second the best so far, both without
        noise. Default: 64.
    elites : int, optional
        Number of samples of least cost, of which the next mean and standard deviation are taken. Samples that are not
        finite are never elites. Default: a tenth of the samples, at least 2.
    smoothing : float
        Weight of the present mean and standard deviation in the next ones, in [0, 1). Default: 0.1.
    noise : float or array (nu,), optional
        First standard deviation of the controls. Default: a quarter of the control range.
    least_noise : float
        Least standard deviation, as a fraction of the first, in [0, 1). Default: 0.02.
    correlation : float
        Correlation of the noise from knot to knot, in [0, 1). Default: 0, white noise.
    limits : tuple of (low, high), optional
        Numbers or arrays that broadcast to (worlds, nu), within the model's control ranges, which always apply.
        Default: the control ranges.
    iterations : int
        Number of updates of the distribution. Each rolls out all samples. Default: 20.
    seed : int or sequence of int
        The noise depends only on the seed and the world's index. The same call gives the same plan, for any number of
        worlds. Default: 0.
    substeps : int
        Number of steps that a knot's `sim.dt` is divided into, as in `sim.step`. Default: 1.

    Returns
    -------
    Plan
        The best controls, their motion and cost. `Plan.history` has the least cost so far, so that it never rises.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed, or an actuator has no control range and `noise` and `limits` give
        none.

    Notes
    -----
    Rubinstein 1999; for control sequences Pinneri et al. 2020 (correlated noise, the best sample is kept). No
    derivatives are used, so that costs may have any form. Its plan is a good initial guess for `ws.ilqr`.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dt=0.02, device="cpu")
    >>> cost = ws.Cost(None, lambda q, v: q[..., :1] - 0.1)                # the cart at 0.1 m
    >>> plan = ws.cem(sim, sim.state(), np.zeros((20, 1, 1)), cost, samples=16, iterations=5)
    >>> bool(plan.cost[0] < 0.1 * plan.history[0, 0])
    True
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
