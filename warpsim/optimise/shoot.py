# SPDX-License-Identifier: Apache-2.0
"""`shoot`: descent along the gradients of an `Objective`, with samples where gradients mislead.

Limited-memory BFGS (Nocedal 1980) projected on the bounds, one search per world where the worlds are independent. An
iteration costs one rollout of 8 step sizes side by side and one gradient. Losses of real motions decide which step is
taken, and how far the gradient's predictions came true decides whether samples go on (`fallback.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import choice, listed, number, numbers, positive, short, whole
from warpsim.base.reprs import show
from warpsim.device.threads import holds
from warpsim.differentiate.objective import Objective
from warpsim.differentiate.taped import STATE_NAMES, shared_shape
from warpsim.differentiate.trust import worlds_axis
from warpsim.optimise.cost import total
from warpsim.optimise.fallback import (
    BUNDLE,
    CORRELATION,
    FAILING,
    METHODS,
    NARROWER,
    REASONS,
    SAMPLES,
    Fallback,
    History,
    Predictions,
    SearchWithFallbacks,
    lowest,
    sampled,
    story,
    told,
)
from warpsim.optimise.points import gradients, losses
from warpsim.optimise.sampling import NOISE

STEP_SIZES = 10.0 ** np.linspace(0.0, -3.0, 8)
MEMORY = 10  # pairs of the quasi-Newton matrix
FIRST = 0.3 / NOISE  # largest move of a step without curvature, in deviations of the noise: 0.3 of a control's range
ARMIJO = 1e-4  # least fraction of the predicted reduction for a step to be accepted
CURVED = 1e-10  # a pair counts if yᵀs is more than this fraction of |y| |s|


@dataclass(frozen=True, eq=False, repr=False)
class Shot:
    """Variables that `shoot` found. `groups` is the number of worlds, or 1 where worlds share variables or a loss.

    Attributes
    ----------
    x : array (n,)
        The variables, packed.
    values : dict of str to array
        The variables by name.
    loss : array (groups,)
        Loss; infinite where a motion is not finite.
    history : array (iterations + 1, groups)
        Loss before the first iteration, and after each iteration or round of samples.
    status : array (groups,) of str
        "converged"; "iterations": all were used; "stalled": no step lowers the loss; "nonfinite": the first loss or a
        gradient is not finite; "untouched": the gradient is zero, and the loss depends on bodies that no variable
        reaches.
    fallbacks : array (groups,) of int
        Number of fallbacks that found a lower loss.
    notes : tuple of str
        Per group: the bodies that no variable reaches, why the search fell back and what its samples found, or "".
    """

    x: np.ndarray
    values: dict[str, np.ndarray]
    loss: np.ndarray
    history: np.ndarray
    status: np.ndarray
    fallbacks: np.ndarray
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        counts = {str(name): int(n) for name, n in zip(*np.unique(self.status, return_counts=True), strict=True)}
        loss = f"{np.median(self.loss):.6g} median"
        return show(
            "Shot", {"groups": len(self.loss), "loss": loss, "iterations": len(self.history) - 1, "status": counts}
        )


@holds
def shoot(
    objective: Objective,
    x: Numbers | None = None,
    *,
    iterations: int = 100,
    tolerance: float = 1e-6,
    fallback: str | None = "cem",
    noise: Mapping[str, float] | None = None,
    seed: int | Sequence[int] = 0,
) -> Shot:
    """Find variables that lower the loss of an `Objective`, by gradients, and by samples where gradients mislead.

    Parameters
    ----------
    objective : Objective
        The loss. If it is one number per world and no variable is shared, each world has a search of its own. The loss
        function then gets trajectories of more worlds than the simulator has: several replicas of each.
    x : array (n,), optional
        The packed initial guess, within the objective's bounds. Default: `objective.x0`.
    iterations : int
        Largest number of iterations, rounds of the fallback included. Default: 100.
    tolerance : float
        A search has converged once an iteration lowers its loss, or predicts to lower it, by less than this fraction or
        by less than a rounding of the first loss. Default: 1e-6.
    fallback : str or None
        What a search does where its gradient misleads. "cem" (default): rounds of the cross-entropy method around its
        variables. "bundle": steps along the mean gradient of perturbed variables. The search then goes on with its own
        gradient. None: no samples are taken.
    noise : dict of str to float, optional
        Standard deviation of the fallback's samples, by name of a variable. Default: a quarter of the bounds or of the
        control range; without these a quarter of a parameter's size, of the world's largest control, or of a unit of
        `scale`.
    seed : int or sequence of int
        The random numbers depend only on the seed, the world's index and the number of its fallbacks. Default: 0.

    Returns
    -------
    Shot
        The variables, their losses, and how each search ended. No loss is higher than the first.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed.

    Notes
    -----
    Limited-memory BFGS (Nocedal 1980), projected onto the bounds. A search falls back under the conditions of
    `ws.ilqr`.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("cartpole"))
    >>> sim = ws.Simulator(model, dt=0.02, dtype="float64", device="cpu", requires_grad=True)
    >>> def cart(trajectory):                                              # the last position of each world's cart
    ...     return trajectory.q[trajectory.steps, :, 0]
    >>> objective = ws.Objective(sim, cart, {"controls": np.zeros((10, 1, 1))}, bounds={"controls": (-1.0, 1.0)})
    >>> shot = ws.shoot(objective, iterations=10)
    >>> shot.values["controls"][:3, 0, 0].tolist(), bool(shot.loss[0] < 0)
    ([-1.0, -1.0, -1.0], True)
    """
    if not isinstance(objective, Objective):
        raise ValueError(f"objective is {short(objective)}; give a ws.Objective")
    iterations = whole(iterations, "iterations", 0)
    tolerance = number(tolerance, "tolerance", "it must not be negative", lambda x: 0.0 <= x < np.inf)
    choice(fallback, "fallback", (None, *METHODS))
    seed = tuple(whole(part, "seed", 0) for part in (seed if isinstance(seed, (tuple, list)) else [seed]))
    point = numbers(objective.x0 if x is None else x, "x")
    if point.shape != objective.x0.shape or not np.isfinite(point).all():
        raise ValueError(f"x has shape {point.shape}; give {objective.x0.shape} finite numbers")
    low, high = np.array(objective.bounds or [(-np.inf, np.inf)] * len(point)).T
    bad = np.flatnonzero((point < low) | (point > high))
    if len(bad):
        i = int(bad[0])
        raise ValueError(f"x is {point[i]:g} at {i}, beyond the bounds [{low[i]:g}, {high[i]:g}]; clip the first guess")
    sigma = _deviations(objective, point, low, high, noise)
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite values are handled explicitly
        return _Shooting(objective, point, low, high, sigma, fallback, seed).run(iterations, tolerance)


def _deviations(objective: Objective, point, low, high, noise) -> np.ndarray:
    """The standard deviation of each entry of x."""
    given = {} if noise is None else noise
    if not isinstance(given, Mapping) or not set(given) <= set(objective.start):
        raise ValueError(f"noise is {short(noise)}; give numbers by name, of {sorted(objective.start)}")
    sizes, sim = {}, objective.sim
    for name, value in objective.unpack(point).items():
        if name in given:
            sizes[name] = np.full(value.shape, positive(given[name], f"noise[{name!r}]"))
        elif name == "controls":
            width = np.diff(sim.parameters.stored("control_range").numpy().astype(float), axis=-1)[..., 0]
            width = np.broadcast_to(width, (sim.worlds, sim.model.nu))
            width = width if value.ndim == 3 else width.min(axis=0)
            largest = np.abs(value).max(axis=0, initial=0.0)
            own = np.where(largest > 0, largest, objective.scale[name])
            sizes[name] = NOISE * np.broadcast_to(np.where(np.isfinite(width), width, own), value.shape)
        elif name in (*STATE_NAMES, "mocap"):
            sizes[name] = np.full(value.shape, NOISE * objective.scale[name])
        else:
            sizes[name] = NOISE * np.abs(value)
    sigma = objective.pack(sizes)
    named = objective.pack({name: np.full(x.shape, float(name in given)) for name, x in sizes.items()}) > 0
    return np.where(np.isfinite(high - low) & ~named, NOISE * (high - low), sigma)


class _Shooting(SearchWithFallbacks):
    """The state of a search. Its variables z are (n, groups), entries of x by group."""

    def __init__(self, objective, point, low, high, sigma, fallback, seed):
        self.objective, self.point = objective, point.copy()
        self.columns = np.arange(len(point))[None]
        value, slope, _ = gradients(objective, point[None])
        self.columns = self._groups(value[0].shape)
        self.groups = len(self.columns)
        self.low, self.high, self.sigma = (x[self.columns.T] for x in (low, high, sigma))
        self.fallback = None if fallback is None else Fallback(fallback, self.sigma, seed)
        self.z, self.slope, self.value = point[self.columns.T], slope[0][self.columns.T], self._price(point[None])[0]
        self.status = np.where(np.isfinite(self.value), "iterations", "nonfinite").astype("<U10")
        self.pairs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # s, y, 1 / yᵀs or 0
        self.predictions, self.history = Predictions(self.groups), History(self.value)
        self.used, self.fallbacks, self.tries = np.zeros((3, self.groups), int)
        self.barren, self.stories = np.zeros(self.groups, bool), [[] for _ in range(self.groups)]
        self.unreached = [""] * self.groups

    def _groups(self, of_loss: tuple[int, ...]) -> np.ndarray:
        """The entries of x that belong to each group `(groups, n)`."""
        objective, worlds = self.objective, self.objective.sim.worlds
        owner = []
        for name, value in objective.start.items():
            if of_loss != (worlds,) or value.shape == shared_shape(name, objective.shapes[name]):
                return self.columns
            axis = worlds_axis(name)
            index = np.arange(worlds).reshape([-1 if i == axis else 1 for i in range(value.ndim)])
            owner.append(np.broadcast_to(index, value.shape).ravel())
        owner = np.concatenate(owner)
        return np.stack([np.flatnonzero(owner == w) for w in range(worlds)])

    def run(self, iterations: int, tolerance: float) -> Shot:
        """Iterate until every group has stopped, and has nothing to fall back to."""
        self._iterate_all(iterations, tolerance)
        x = self._points(self.z[None])[0]
        notes = tuple("; ".join(filter(None, (a, told(b)))) for a, b in zip(self.unreached, self.stories, strict=True))
        table, values = self.history.table(), self.objective.unpack(x)
        return Shot(x, values, self.value, table, self.status, self.fallbacks, notes)

    @property
    def _fails(self) -> np.ndarray:
        """Groups whose predictions have failed too often."""
        return self.predictions.failing & ~self.barren & (self.fallback is not None)

    def _small(self, tolerance: float) -> np.ndarray:
        """A gain that does not count: a fraction of the loss, or a rounding of the first one."""
        rounding = np.finfo(self.objective.sim.dtype).eps * np.abs(self.history.rows[0])
        return np.maximum(tolerance * np.abs(self.value), rounding)

    def _points(self, z: np.ndarray) -> np.ndarray:
        """Packed points of z `(points, n, groups)`."""
        points = np.tile(self.point, (len(z), 1))
        points[:, self.columns.T] = z
        return points

    def _price(self, points: np.ndarray) -> np.ndarray:
        """Losses `(points, groups)`."""
        found = losses(self.objective, points)
        if found.ndim > 1 and len(self.columns) == 1:
            found = total(found, 1)
        return found.reshape(len(points), len(self.columns))

    def _direction(self) -> tuple[np.ndarray, np.ndarray]:
        """The direction of each group's next step `(n, groups)`, and whether pairs give it a length."""
        g = np.nan_to_num(self.slope)
        fixed = ((self.z <= self.low) & (g > 0)) | ((self.z >= self.high) & (g < 0))
        r, weights = np.where(fixed, 0.0, g), []
        gamma, curved = np.ones(self.groups), np.zeros(self.groups, bool)
        for s, y, rho in reversed(self.pairs):
            newest = ~curved & (rho > 0)
            scale = np.maximum(rho * total(y * y, 0), 1e-300)
            gamma, curved = np.where(newest, 1.0 / scale, gamma), curved | newest
            weights.append(rho * total(s * r, 0))
            r = r - weights[-1] * y
        r = gamma * r
        for (s, y, rho), weight in zip(self.pairs, reversed(weights), strict=True):
            r = r + (weight - rho * total(y * r, 0)) * s
        d = -np.where(fixed, 0.0, r)
        curved &= total(g * d, 0) < 0
        return np.where(curved, d, self._plain(np.where(fixed, 0.0, g))), curved

    def _plain(self, slope: np.ndarray) -> np.ndarray:
        """Downhill in units of the noise; the largest move is `FIRST` of it."""
        move = -slope * self.sigma**2
        most = (np.abs(move) / np.where(self.sigma > 0, self.sigma, 1.0)).max(axis=0, initial=0.0)
        return FIRST * move / np.where(most > 0, most, 1.0)

    def _search(self, d: np.ndarray):
        """The best of the step sizes along d: variables, losses, moves of the whole step."""
        tried = np.clip(self.z + STEP_SIZES[:, None, None] * d, self.low, self.high)
        values = self._price(self._points(tried))
        best, groups = np.argmin(values, axis=0), np.arange(self.groups)
        return tried[best, :, groups].T, values[best, groups], tried[0] - self.z

    def _iterate(self, going: np.ndarray, tolerance: float) -> None:
        """One step of each group that goes on."""
        usable = np.isfinite(self.slope).all(axis=0)
        self.status[going & ~usable] = "nonfinite"
        going = going & usable
        d, curved = self._direction()
        z, value, whole_move = self._search(d)
        gained = np.where(going, self.value, 0.0) - value
        ahead = -total(self.slope * np.where(going, z - self.z, 0.0), 0)
        promised = 0.5 * np.where(curved, -total(self.slope * np.where(going, whole_move, 0.0), 0), ahead)
        accepted, small = going & (gained > 0) & (gained > ARMIJO * ahead), self._small(tolerance)
        self.predictions.add(going, np.where(accepted, gained, 0.0), promised, np.where(going, small, 0.0))
        before, old = self.z, self.slope
        self._move(accepted, z, value)
        s, y = np.where(accepted, self.z - before, 0.0), np.where(accepted, np.nan_to_num(self.slope - old), 0.0)
        sy = total(s * y, 0)
        good = accepted & (sy > CURVED * np.sqrt(total(s * s, 0) * total(y * y, 0)))
        self.pairs.append((s, y, np.divide(1.0, sy, out=np.zeros_like(sy), where=good)))
        del self.pairs[:-MEMORY]
        self._forget_pairs(going & ~accepted)
        self.status[going & ~accepted & ~curved] = "stalled"
        self.status[going & ((promised <= small) | (accepted & (gained <= small)))] = "converged"

    def _move(self, groups: np.ndarray, z: np.ndarray, value: np.ndarray) -> None:
        """Take these variables in some groups (a mask), and their gradient."""
        if not groups.any():
            return
        self.z, self.value = np.where(groups, z, self.z), np.where(groups, value, self.value)
        slope = gradients(self.objective, self._points(self.z[None]))[1][0][self.columns.T]
        self.slope = np.where(groups, slope, self.slope)

    def _forget_pairs(self, groups: np.ndarray) -> None:
        self.pairs = [(s, y, np.where(groups, 0.0, rho)) for s, y, rho in self.pairs]

    def _note_unreached(self) -> None:
        """Name the bodies that groups with a zero gradient leave alone; their status becomes "untouched"."""
        ended = np.isin(self.status, ("converged", "stalled", "untouched")) & ~self.slope.any(axis=0)
        if not ended.any():
            return
        names = self.objective.unreached(self._points(self.z[None])[0])
        if self.groups == 1:
            names = (tuple(dict.fromkeys(name for of_world in names for name in of_world)),)
        for w in np.flatnonzero(ended):
            if names[w]:
                self.status[w] = "untouched"
                self.unreached[w] = f"no variable reaches {listed(names[w])}, on which the loss depends"

    def _fall_back(self, iterations: int, tolerance: float) -> bool:
        """Rounds of samples for the groups whose gradients mislead. Whether there were any such groups."""
        if self.fallback is None:
            return False
        wrong = np.isin(self.status, ("stalled", "untouched")) | self._fails
        wrong |= (self.status == "nonfinite") & np.isfinite(self.value)
        chosen = (wrong | ((self.status == "converged") & ~self.predictions.held)) & ~self.barren
        chosen &= self.used < iterations
        if not chosen.any():
            return False
        first, small = self.value, np.where(chosen, self._small(tolerance), 0.0)
        left, bundle = iterations - self.used, self.fallback.method == "bundle"
        z, value, rounds, rows = lowest(self._rounds(), self.z[..., None], first, small, chosen, wrong, left, bundle)
        for n, row in enumerate(rows, 1):
            self.history.add(rounds >= n, self.used + n, row)
        self.used += rounds
        found = chosen & (np.where(chosen, first - value, 0.0) > small)
        for w in np.flatnonzero(chosen & (wrong | found)):
            why = FAILING if self._fails[w] else REASONS[self.status[w]]
            last = value[w] if found[w] else first[w]
            self.stories[w].append(story(why, self.fallback.method, rounds[w], first[w], last))
        self._move(found, z[..., 0], value)
        self._forget_pairs(found)
        self.status[found] = "iterations"
        self.fallbacks, self.tries = self.fallbacks + found, self.tries + chosen
        self.barren = self.barren | (chosen & ~found)
        self.unreached = ["" if again else note for again, note in zip(found, self.unreached, strict=True)]
        self.predictions.forget(found)
        return True

    def _rounds(self):
        """Endless rounds of the fallback: variables `(n, groups, 1)` and their losses."""
        afar = (self.status == "untouched") | (np.isnan(self.predictions.ratio) & (self.tries == 0))
        sigma, draws = self.fallback.share(self.tries, ~afar) * self.sigma, self.fallback.draws(self.tries)
        low, high, z = self.low[..., None], self.high[..., None], self.z[..., None]
        if self.fallback.method == "cem":

            def price(tried: np.ndarray) -> np.ndarray:
                return self._price(self._points(tried[..., 0]))

            yield from sampled(price, lambda: self._noise(draws, SAMPLES), z, low, high, sigma[..., None])
        while True:
            tried = np.clip(self.z + sigma * self._noise(draws, BUNDLE)[..., 0], self.low, self.high)
            slopes = gradients(self.objective, self._points(tried))[1][:, self.columns.T]
            good = np.isfinite(slopes).all(axis=1, keepdims=True)
            best, value, _ = self._search(self._plain(total(np.where(good, slopes, 0.0), 0)))
            yield best[..., None], value
            sigma = NARROWER * sigma

    def _noise(self, draws: list[np.random.Generator], count: int) -> np.ndarray:
        """Normal noise of unit variance `(count, n, groups, 1)`; that of controls is correlated from step to step."""
        noise = np.stack([draw.standard_normal((count, len(self.z))) for draw in draws], axis=-1)
        at = 0
        for name, value in self.objective.start.items():
            size = value.size // self.groups
            if name == "controls" and size:
                part = noise[:, at : at + size].reshape(count, len(value), -1, self.groups)
                for k in range(1, len(value)):
                    part[:, k] = CORRELATION * part[:, k - 1] + np.sqrt(1.0 - CORRELATION**2) * part[:, k]
                noise[:, at : at + size] = part.reshape(count, size, self.groups)
            at += size
        return noise[..., None]
