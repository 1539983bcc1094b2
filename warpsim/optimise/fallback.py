# SPDX-License-Identifier: Apache-2.0
"""Fallbacks of a search whose derivatives mislead: a test of its predictions, and two methods that use samples.

`Predictions` compares a step's real gain with the gain that the model of the cost predicts, world by world. Where they
disagree, derivatives say little of a motion as far away as the next step: contacts come and go, bodies stick, or
nothing touches what the cost depends on. Samples of whole motions show what derivatives do not:

    "cem"     rounds of the cross-entropy method around the present controls (`cem.updates`)
    "bundle"  derivatives that are means over a bundle of motions under perturbed controls: those of the cost smoothed
              by randomization (Suh, Pang, Tedrake 2022, arXiv:2109.05143)
"""

from dataclasses import dataclass

import numpy as np

from warpsim.base.checks import choice, whole
from warpsim.optimise.cem import updates
from warpsim.optimise.replicas import jacobians, replicas
from warpsim.optimise.sampling import NOISE, deviations, noise_of

METHODS = ("cem", "bundle")
SAMPLES = 32  # of "cem", per world and round
ROUNDS = 8  # of a fallback at most; each counts as an iteration
CORRELATION = 0.8  # of the noise, from knot to knot
CEM = {"elites": 4, "kept": 0.1, "least": 0.02}
BUNDLE = 8  # motions per world of a bundle
NEAR = 0.1  # noise around controls that steps have lowered the cost to, relative to that around a first guess
NARROWER = 0.5  # noise of each further fallback of a world, relative to the one before
NARROWEST = 3  # times that it narrows
# The real gain over the predicted one. A world is trusted whose last one lies within BAND; below FAILS it fails, and
# PATIENCE failures in a row end the search by derivatives.
BAND, FAILS, PATIENCE = (0.25, 4.0), 0.05, 4
FAILING = "steps gained less than a twentieth of what derivatives predict"
REASONS = {  # of a fallback, by the status of the world
    "untouched": "the controls did not reach all that the cost depends on",
    "stalled": "no step along the derivatives lowered the cost",
    "nonfinite": "derivatives were not finite",
    "converged": "derivatives ended the search, and no gain had confirmed them",
}


@dataclass(frozen=True)
class Fallback:
    """A method with the standard deviation of its noise, and the parts of its seed."""

    method: str
    noise: np.ndarray
    seed: tuple[int, ...]

    def draws(self, tries: np.ndarray) -> list[np.random.Generator]:
        """A generator per world. It depends on the seed, the world's index and its number of fallbacks alone."""
        return [np.random.default_rng([*self.seed, world, int(n)]) for world, n in enumerate(tries)]

    def share(self, tries: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Factors `(worlds,)` on the noise of the next fallback; worlds of the mask `near` sample nearby."""
        return np.where(near, NEAR, 1.0) * NARROWER ** np.minimum(tries, NARROWEST)


def checked_fallback(method, noise, seed, model, low: np.ndarray, high: np.ndarray, u: np.ndarray) -> Fallback | None:
    """The arguments `fallback`, `noise` and `seed` of an optimizer of controls u within low and high."""
    choice(method, "fallback", (None, *METHODS))
    seed = tuple(whole(part, "seed", 0) for part in (seed if isinstance(seed, (tuple, list)) else [seed]))
    width, largest = high - low, np.abs(u).max(axis=0)
    spread = np.where(np.isfinite(width), NOISE * width, np.where(largest > 0, largest, 1.0))
    if noise is not None:
        spread = np.broadcast_to(deviations(model, noise, low, high), width.shape)
    return None if method is None else Fallback(method, spread, seed)


class Predictions:
    """How the predicted gains of a search came true. Arrays are (worlds,).

    ratio      the last real gain over the predicted one, among predictions that mattered; NaN: there was none
    failures   how many in a row, up to now, were less than FAILS
    """

    def __init__(self, worlds: int):
        self.ratio, self.failures = np.full(worlds, np.nan), np.zeros(worlds, int)

    def add(self, going: np.ndarray, gained: np.ndarray, promised: np.ndarray, small: np.ndarray) -> None:
        """Compare the gains of an iteration. Predictions up to `small` do not matter."""
        told = going & (promised > small)
        self.ratio = np.divide(gained, promised, out=self.ratio.copy(), where=told)
        self.failures = np.where(told, np.where(self.ratio < FAILS, self.failures + 1, 0), self.failures)

    def forget(self, worlds: np.ndarray) -> None:
        """Begin anew in these worlds (a mask)."""
        self.ratio = np.where(worlds, np.nan, self.ratio)
        self.failures = np.where(worlds, 0, self.failures)

    @property
    def failing(self) -> np.ndarray:
        """Whether PATIENCE predictions in a row have failed."""
        return self.failures >= PATIENCE

    @property
    def held(self) -> np.ndarray:
        """Whether the last prediction that mattered came true."""
        return (self.ratio >= BAND[0]) & (self.ratio <= BAND[1])


class History:
    """The costs of each world after each of its own iterations and rounds."""

    def __init__(self, first: np.ndarray):
        self.rows = [first]

    def add(self, worlds: np.ndarray, used: np.ndarray, values: np.ndarray) -> None:
        """Costs of some worlds (a mask) after the `used`-th iteration or round of each."""
        for w in np.flatnonzero(worlds):
            if used[w] == len(self.rows):
                self.rows.append(np.full(len(values), np.nan))
            self.rows[used[w]][w] = values[w]

    def table(self) -> np.ndarray:
        """(iterations + 1, worlds); worlds that have ended keep their last cost."""
        for before, row in zip(self.rows[:-1], self.rows[1:], strict=True):
            row[:] = np.where(np.isnan(row), before, row)
        return np.array(self.rows)


def story(why: str, method: str, rounds: int, first: float, last: float) -> str:
    """A sentence about a fallback, for the notes of a plan."""
    done = f"lowered the cost from {first:.6g} to {last:.6g}" if last < first else "found no lower cost"
    return f"{why}: {rounds} round{'s' if rounds > 1 else ''} of {method!r} {done}"


def told(stories: list[str]) -> str:
    """The first and the last of the sentences about a world's fallbacks, and how many lie between."""
    between = len(stories) - 2
    middle = [f"{between} more fallback{'s' if between > 1 else ''}"] if between > 0 else []
    return "; ".join(stories[:1] + middle + stories[1:][-1:])


def lowest(rounds, at, first, small, chosen, wrong, left, until_gain: bool):
    """The points of least cost of rounds of samples from `at (..., worlds, n)`, whose costs are `first (worlds,)`.

    `chosen` worlds (a mask) take part for as many rounds as each has `left`, at most ROUNDS. One that is not `wrong`
    ends after its first round unless that gains more than `small`; with `until_gain` all end where one does. Returns
    points, their costs, the number of rounds of each world, and the least costs after each round.
    """
    going, best, used, rows = chosen.copy(), first.copy(), np.zeros(len(first), int), []
    for tried, value in rounds:
        lower = going & (value < best)
        at, best = np.where(lower[:, None], tried, at), np.where(lower, value, best)
        used, found = used + going, np.where(going, first - best, 0.0) > small
        rows.append(best)
        going &= (used < np.minimum(left, ROUNDS)) & (wrong | found) & ~(found & until_gain)
        if not going.any():
            break
    return at, best, used, rows


def sampled(price, draw, u, low, high, sigma):
    """Rounds of the cross-entropy method from u: the best points so far, and their costs; see `cem.updates`."""
    for best, _, costs in updates(price, draw, u, low, high, sigma, **CEM):
        yield best, costs.min(axis=0)


class SearchWithFallbacks:
    """The loop of `ws.ilqr` and `ws.shoot`. A subclass has the iterations, and the fallbacks where they fail."""

    def _iterate_all(self, iterations: int, tolerance: float) -> None:
        """Iterate until every problem has stopped, and has nothing to fall back to."""
        while True:
            going = (self.status == "iterations") & ~self._fails & (self.used < iterations)
            if going.any():
                self._iterate(going, tolerance)
                self.used += going
                self.history.add(going, self.used, self.value)
                continue
            self._note_unreached()
            if not self._fall_back(iterations, tolerance):
                break


def bundle_jacobians(sim, state, u, low, high, sigma, draws, substeps: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of A and B over motions under u + noise; motions and Jacobians that are not finite are left out."""
    knots = len(u)
    tried = np.clip(
        u[:, None] + sigma * np.moveaxis(noise_of(draws, (BUNDLE, *u[:, 0].shape), CORRELATION), 0, 1), low, high
    )
    motion = replicas(sim, BUNDLE, substeps).roll(state, knots, lambda knot, q, v: tried[knot])
    A, B, count = 0.0, 0.0, np.zeros(u.shape[1])
    for i in range(BUNDLE):
        one = motion.chosen(np.full(u.shape[1], i))
        found = jacobians(sim, one)[:2]
        good = one.finite[0] & np.all([np.isfinite(x).all(axis=(0, 2, 3)) for x in found], axis=0)
        A, B = (mean + np.where(good[:, None, None], x, 0.0) for mean, x in zip((A, B), found, strict=True))
        count += good
    weight = 1.0 / np.maximum(count, 1.0)[:, None, None]
    return weight * A, weight * B
