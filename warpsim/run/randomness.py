# SPDX-License-Identifier: Apache-2.0
"""Random numbers keyed by world, episode and step, independent of what else runs."""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array, Device, DeviceName, Numbers, Selection
from warpsim.base.checks import choice, number, numbers, short, whole
from warpsim.device.copies import SCALARS, copy, launch
from warpsim.device.threads import in_turn
from warpsim.kernels import randomness
from warpsim.run.inputs import device_called

if TYPE_CHECKING:
    from warpsim.simulator import Simulator

MOST = 1 << 16  # limit on draws, and on columns / 4


class RandomStream:
    """Random numbers that depend only on (seed, world, episode, step, draw).

    Parameters
    ----------
    seed : int
        Seed of up to 64 bits. Default: 0.
    worlds : int or array of int
        Number of worlds, or the index of each world. With indices, a subset or a permutation of the worlds draws the
        same numbers per world as the full set. Default: 1.
    device : str, optional
        Name of a Warp device. Default: as in `ws.Simulator`.
    dtype : str
        "float32" (default) or "float64".

    Attributes
    ----------
    world, episode, step : array (worlds,) of int
        The position of each world on the device. Episodes and steps begin at 0. `advance` and `reset` change them;
        `Simulator.reset` does not.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed.

    Notes
    -----
    The generator is Philox-4x32-10 (Salmon, Moraes, Dror and Shaw 2011). The numbers are the same on all devices,
    except for the last bits of `normal`.

    Examples
    --------
    >>> stream = ws.RandomStream(seed=1, worlds=3, device="cpu")
    >>> first = stream.uniform(2).numpy()
    >>> stream.advance()
    >>> bool((first == stream.uniform(2).numpy()).any())
    False
    >>> one = ws.RandomStream(seed=1, worlds=[2], device="cpu")       # world 2 alone draws the same
    >>> bool((first[2] == one.uniform(2).numpy()[0]).all())
    True
    """

    seed: int
    dtype: str
    device: Device
    worlds: int
    world: Array
    episode: Array
    step: Array

    def __init__(self, seed: int = 0, worlds: Numbers = 1, *, device: DeviceName | None = None, dtype: str = "float32"):
        self.seed = whole(seed, "seed", 0)
        if self.seed >= 1 << 64:
            raise ValueError(f"seed is {short(seed)}; it has up to 64 bits")
        self.dtype, self.device = choice(dtype, "dtype", SCALARS), device_called(device)
        ids = _numbers_of_worlds(worlds)
        self.worlds = len(ids)
        self._seed = self._ints(np.array([self.seed & 0xFFFFFFFF, self.seed >> 32]), wp.uint32)
        self.world, self.episode, self.step = (self._ints(x) for x in (ids, 0 * ids, 0 * ids))
        self._bounds: dict = {}

    def __repr__(self) -> str:
        return f"RandomStream(seed={self.seed}, worlds={self.worlds}, dtype={self.dtype!r}, device={self.device})"

    @in_turn
    def words(self, columns: int, *, draw: int = 0, ahead: int = 0, out: Array | None = None) -> Array:
        """Draw random 32-bit words.

        Parameters
        ----------
        columns : int
            Number of words per world.
        draw : int
            Index of the draw. Different indices give independent numbers in one step. Default: 0.
        ahead : int
            Number of steps after the present one whose numbers are drawn. Default: 0.
        out : array (worlds, columns) of uint32, optional
            Array to write to. Default: a new one.

        Returns
        -------
        array (worlds, columns) of uint32
            The words.

        Examples
        --------
        >>> ws.RandomStream(seed=1, worlds=2, device="cpu").words(3).shape
        (2, 3)
        """
        return self._draw(randomness.words, wp.uint32, columns, {}, draw, ahead, out)

    @in_turn
    def uniform(
        self,
        columns: int,
        low: Numbers = 0.0,
        high: Numbers = 1.0,
        *,
        draw: int = 0,
        ahead: int = 0,
        out: Array | None = None,
    ) -> Array:
        """Draw uniform numbers in [low, high).

        Parameters
        ----------
        columns : int
            Number of random numbers per world.
        low : float or array (columns,)
            Lower bound. Default: 0.
        high : float or array (columns,)
            Upper bound. Default: 1.
        draw : int
            Index of the draw. Different indices give independent numbers in one step. Default: 0.
        ahead : int
            Number of steps after the present one whose numbers are drawn. Default: 0.
        out : array (worlds, columns), optional
            Array to write to. Default: a new one.

        Returns
        -------
        array (worlds, columns)
            The numbers.

        Examples
        --------
        >>> x = ws.RandomStream(seed=1, worlds=2, device="cpu").uniform(3, low=-1.0, high=[1.0, 2.0, 3.0]).numpy()
        >>> x.shape, bool((x >= -1.0).all() and (x < [1.0, 2.0, 3.0]).all())
        ((2, 3), True)
        """
        return self._draw(randomness.uniform, self._real, columns, {"low": low, "high": high}, draw, ahead, out)

    @in_turn
    def normal(
        self,
        columns: int,
        mean: Numbers = 0.0,
        deviation: Numbers = 1.0,
        *,
        draw: int = 0,
        ahead: int = 0,
        out: Array | None = None,
    ) -> Array:
        """Draw normally distributed numbers.

        Parameters
        ----------
        columns : int
            Number of random numbers per world.
        mean : float or array (columns,)
            Mean. Default: 0.
        deviation : float or array (columns,)
            Standard deviation. Default: 1.
        draw : int
            Index of the draw. Different indices give independent numbers in one step. Default: 0.
        ahead : int
            Number of steps after the present one whose numbers are drawn. Default: 0.
        out : array (worlds, columns), optional
            Array to write to. Default: a new one.

        Returns
        -------
        array (worlds, columns)
            The numbers.

        Examples
        --------
        >>> noise = ws.RandomStream(seed=1, worlds=1000, device="cpu").normal(1, deviation=0.1).numpy()
        >>> bool(0.09 < noise.std() < 0.11)
        True
        """
        return self._draw(
            randomness.normal, self._real, columns, {"mean": mean, "deviation": deviation}, draw, ahead, out
        )

    @in_turn
    def advance(self) -> None:
        """Go to the next step in every world."""
        launch(randomness.advance, self._real, self.worlds, [self.step], device=self.device)

    @in_turn
    def reset(self, worlds: Numbers) -> None:
        """Go to the next episode of the chosen worlds, at step 0.

        Parameters
        ----------
        worlds : array of int, or array (worlds,) of bool
            Indices, or a mask. A mask on the stream's device is not copied to the host.

        Raises
        ------
        ValueError
            An index or the shape of the mask is wrong.

        Examples
        --------
        >>> stream = ws.RandomStream(seed=1, worlds=3, device="cpu")
        >>> stream.advance()
        >>> stream.reset([0, 2])
        >>> stream.episode.numpy().tolist(), stream.step.numpy().tolist()
        ([1, 0, 1], [0, 1, 0])
        """
        if not (isinstance(worlds, wp.array) and worlds.dtype is wp.bool and worlds.device == self.device):
            chosen = np.zeros(self.worlds, bool)
            index = np.asarray(worlds.numpy() if isinstance(worlds, wp.array) else worlds)
            if index.dtype == bool and index.shape != (self.worlds,):
                raise ValueError(f"the mask of worlds has shape {index.shape}; it must be ({self.worlds},)")
            try:
                chosen[index if index.size else np.zeros(0, int)] = True
            except IndexError:
                raise ValueError(
                    f"worlds is {short(index.tolist())}; there are worlds 0 to {self.worlds - 1}"
                ) from None
            worlds = wp.array(chosen, dtype=wp.bool, device=self.device)
        if worlds.shape != (self.worlds,):
            raise ValueError(f"the mask of worlds has shape {worlds.shape}; it must be ({self.worlds},)")
        inputs = [worlds, self.episode, self.step]
        launch(randomness.next_episode, self._real, self.worlds, inputs, device=self.device)

    def state_dict(self) -> dict[str, Any]:
        """The position of the stream: a dict with `seed`, `world`, `episode` and `step`, for `load_state_dict`."""
        arrays = {name: getattr(self, name).numpy().copy() for name in ("world", "episode", "step")}
        return {"seed": self.seed, **arrays}

    def load_state_dict(self, kept: dict[str, Any]) -> None:
        """Go to a position from `state_dict`.

        Parameters
        ----------
        kept : dict
            What `state_dict` of a stream with the same number of worlds returned.

        Raises
        ------
        ValueError
            `kept` has another number of worlds.

        Examples
        --------
        >>> stream = ws.RandomStream(seed=1, worlds=2, device="cpu")
        >>> kept, first = stream.state_dict(), stream.uniform(1).numpy()
        >>> stream.advance()
        >>> stream.load_state_dict(kept)
        >>> bool((stream.uniform(1).numpy() == first).all())
        True
        """
        found = {name: np.asarray(kept[name]) for name in ("world", "episode", "step")}
        for name, array in found.items():
            if array.shape != (self.worlds,):
                raise ValueError(f"{name} has shape {array.shape}; this stream has {self.worlds} worlds")
        self.seed = whole(kept["seed"], "seed", 0)
        self._seed.assign(np.array([self.seed & 0xFFFFFFFF, self.seed >> 32], np.uint32))
        for name, array in found.items():
            getattr(self, name).assign(array.astype(np.int32))

    @property
    def _real(self):
        return SCALARS[self.dtype]

    def _ints(self, values, kind=wp.int32) -> wp.array:
        return wp.array(np.asarray(values), dtype=kind, device=self.device)

    def _draw(self, kernel, kind, columns, bounds, draw, ahead, out) -> wp.array:
        columns = whole(columns, "columns", 0)
        for name, value, most in (("draw", whole(draw, "draw", 0), MOST), ("columns", columns, 4 * MOST)):
            if value >= most:
                raise ValueError(f"{name} is {value}; it must be below {most}")
        if out is None:
            out = wp.empty((self.worlds, columns), dtype=kind, device=self.device)
        elif not isinstance(out, wp.array):
            raise ValueError(f"out is {short(out)}; give a wp.array, or None")
        elif (out.shape, out.dtype, out.device) != ((self.worlds, columns), kind, self.device):
            raise ValueError(
                f"out is {out.dtype.__name__} of shape {out.shape} on {out.device}; it must be {kind.__name__} of "
                f"shape {(self.worlds, columns)} on {self.device}"
            )
        stream = copy(randomness.Stream, self._real)()
        stream.seed, stream.world, stream.episode, stream.step = self._seed, self.world, self.episode, self.step
        inputs = [stream, whole(ahead, "ahead"), draw]
        inputs += [self._bound(bound, name, columns) for name, bound in bounds.items()] + [out]
        if columns:
            launch(kernel, self._real, (self.worlds, -(-columns // 4)), inputs, device=self.device)
        return out

    def _bound(self, value, name: str, columns: int) -> wp.array:
        """A bound as an array on the device. Arrays of plain numbers are cached."""
        shapes = ((1,), (columns,))
        if isinstance(value, wp.array):
            if value.shape not in shapes or value.dtype != self._real or value.device != self.device:
                raise ValueError(
                    f"{name} is {value.dtype.__name__} of shape {value.shape} on {value.device}; it must be "
                    f"{self.dtype} of shape ({columns},) on {self.device}"
                )
            return value
        key = float(value) if isinstance(value, (int, float)) else None
        if key is None or key not in self._bounds:
            array = np.atleast_1d(numbers(value, name, dtype=self.dtype))
            if array.shape not in shapes or not np.isfinite(array).all():
                raise ValueError(f"{name} is {short(value)}; give a finite number or ({columns},) of them")
            made = wp.array(array, dtype=self._real, device=self.device)
            if key is None:
                return made
            self._bounds[key] = made
        return self._bounds[key]


@dataclasses.dataclass(frozen=True)
class RandomControls:
    """Random controls of a rollout.

    They are uniform in [c − scale · r, c + scale · r], where c is the center and r half the width of an actuator's
    control range. An actuator without a control range has c = 0 and r = 1.

    Parameters
    ----------
    seed : int
        Seed of up to 64 bits. Default: 0.
    scale : float
        Factor on the control range, at least 0. Default: 1.
    hold : int
        Number of steps that each control is held for. Default: 1.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed.

    Notes
    -----
    The numbers depend only on (seed, world, step of the rollout), see `RandomStream`. The store of a rollout keeps
    these three arguments in place of the numbers.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu")
    >>> sim.rollout(sim.state(), ws.RandomControls(seed=1, hold=5), steps=10).q.shape
    (11, 2, 2)
    """

    seed: int = 0
    scale: float = 1.0
    hold: int = 1

    def __post_init__(self) -> None:
        if whole(self.seed, "RandomControls: seed", 0) >= 1 << 64:
            raise ValueError(f"RandomControls: seed is {self.seed}; it has up to 64 bits")
        number(self.scale, "RandomControls: scale", "give a finite number of at least 0", lambda x: 0.0 <= x < np.inf)
        whole(self.hold, "RandomControls: hold", 1)

    def of(self, sim: "Simulator", worlds: Selection | None = None) -> Any:
        """Make the function that computes the controls for a simulator.

        Parameters
        ----------
        sim : Simulator
            The simulator.
        worlds : array (worlds,) of int, optional
            Indices of the simulator's worlds in the whole run, if it has more worlds. Default: 0, 1, ….

        Returns
        -------
        callable
            A function (step, state) that returns controls (worlds, nu) on the simulator's device, or None for a model
            without actuators. Each call overwrites the array of the last.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu")
        >>> control = ws.RandomControls(seed=1).of(sim)
        >>> control(0, sim.state()).shape
        (2, 1)
        """
        model = sim.model
        stream = RandomStream(self.seed, sim.worlds if worlds is None else worlds, device=sim.device, dtype=sim.dtype)
        bounded = np.isfinite(model.control_range).all(axis=1)
        low, high = (np.where(bounded, model.control_range[:, i], x) for i, x in ((0, -1.0), (1, 1.0)))
        centre, half = (low + high) / 2, self.scale * (high - low) / 2
        bounds = [wp.array(x, dtype=stream._real, device=sim.device) for x in (centre - half, centre + half)]
        out = wp.empty((sim.worlds, model.nu), dtype=stream._real, device=sim.device)

        def control(step: int, state) -> wp.array | None:
            return stream.uniform(model.nu, *bounds, ahead=step // self.hold, out=out) if model.nu else None

        return control


def _numbers_of_worlds(worlds) -> np.ndarray:
    try:
        return np.arange(whole(operator.index(worlds), "worlds", 1))
    except TypeError:
        pass
    ids = np.asarray(worlds)
    if (
        ids.ndim != 1
        or not ids.size
        or not np.issubdtype(ids.dtype, np.integer)
        or ids.min() < 0
        or ids.max() >= 1 << 31
    ):
        raise ValueError(f"worlds is {short(worlds)}; give how many, or their numbers")
    return ids
