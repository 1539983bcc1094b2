# SPDX-License-Identifier: Apache-2.0
"""`Trajectory`: the record of a rollout, and its output as Zarr store, USD stage, web page, plots and pictures.

It only holds data and launches nothing. Body poses are computed from positions on the host, in chunks of frames.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from warpsim.base.annotations import Array, Numbers, PathLike, Selection
from warpsim.base.checks import choice, flag, numbers, short, whole
from warpsim.base.other_names import NamesOfTrajectory
from warpsim.base.pickled import pack, unpack
from warpsim.base.registry import registered
from warpsim.device.array_module import computable, to_host
from warpsim.model import host_kinematics
from warpsim.model.model import Model
from warpsim.state import State
from warpsim.state.statistics import flag_counts, spread

if TYPE_CHECKING:
    from warpsim.differentiate.report import GradientReport


@dataclasses.dataclass(eq=False)
class Trajectory(NamesOfTrajectory):
    """The record of a rollout in several worlds.

    Row 0 is the initial state, row t the state after step t, or after step k·t with `every=k`.

    Parameters
    ----------
    model : Model
        The model of one world.
    q : array (T + 1, worlds, nq)
        Positions, with MuJoCo's layout of `qpos`; `wp.array`, NumPy or CuPy.
    v : array (T + 1, worlds, nv)
        Velocities.
    time : array (T + 1, worlds)
        Time [s].
    diagnostics : dict
        Arrays (T, worlds) by name: iterations, momentum_error, lag_error, contacts, energy, flags. Row t belongs to the
        step that ends in row t + 1 of q.
    final : State, optional
        The state after the last simulated step, to continue from. A stored trajectory has none.
    gradients : GradientReport, optional
        Gradient norms, if the rollout was asked for them.
    activation : array (T + 1, worlds, na), optional
        Activations of actuators with dynamics.
    mocap : array (T + 1, worlds, nmocap, 7), optional
        Poses of the mocap bodies. Default: those of the model.
    undrawn : tuple of str
        Names of the parameters that shape or place geoms and differed from the model's values. Pictures show the
        model's values.

    Raises
    ------
    ValueError
        The shapes of the arrays do not fit together. The message names the array.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
    >>> trajectory = sim.rollout(sim.state(), steps=10)
    >>> trajectory.frames, trajectory.worlds
    (11, 3)
    >>> trajectory.rows("q", [-1]).shape      # the last row, in NumPy
    (1, 3, 6)
    """

    model: Model
    q: Any
    v: Any
    time: Any
    diagnostics: dict[str, Any] = dataclasses.field(default_factory=dict)
    final: State | None = None
    gradients: "GradientReport | None" = None
    activation: Any = None
    mocap: Any = None
    undrawn: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise ValueError(f"model is a {type(self.model).__name__}; give a Model")
        for name in ("q", "v", "time", *(("mocap",) if self.mocap is not None else ())):
            if not hasattr(getattr(self, name), "shape"):
                raise ValueError(f"{name} is a {type(getattr(self, name)).__name__}; give a NumPy or Warp array")
        shape = tuple(self.q.shape)
        if len(shape) != 3 or shape[0] < 1 or shape[1] < 1 or shape[2] != self.model.nq:
            raise ValueError(f"q has shape {shape}; it must be (frames >= 1, worlds >= 1, nq = {self.model.nq})")
        expected = {"v": (*shape[:2], self.model.nv), "time": shape[:2]}
        if self.activation is not None:
            expected["activation"] = (*shape[:2], self.model.na)
        if self.mocap is not None:
            expected["mocap"] = (*shape[:2], self.model.nmocap, 7)
        for name, want in expected.items():
            got = tuple(getattr(self, name).shape)
            if got != want:
                raise ValueError(f"{name} has shape {got}; with q of shape {shape} it must be {want}")
        for name, array in self.diagnostics.items():
            if tuple(array.shape) != (shape[0] - 1, shape[1]):
                raise ValueError(
                    f"diagnostics[{name!r}] has shape {tuple(array.shape)}; it must be (steps, worlds) = "
                    f"{(shape[0] - 1, shape[1])}"
                )

    def __getstate__(self) -> dict[str, Any]:
        return pack(vars(self))

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(unpack(kept))

    @property
    def frames(self) -> int:
        """Number of recorded rows, T + 1."""
        return int(self.q.shape[0])

    @property
    def steps(self) -> int:
        """Number of recorded steps, T."""
        return self.frames - 1

    @property
    def worlds(self) -> int:
        """Number of recorded worlds."""
        return int(self.q.shape[1])

    @property
    def gradient_norms(self) -> "Array":
        """‖∂loss/∂(q, v)‖ after each step `(steps + 1, worlds)`.

        It needs `rollout(..., gradient_norms=True)` and a backward pass.
        """
        if self.gradients is None:
            raise ValueError("this rollout has no gradient norms; ask for them: sim.rollout(..., gradient_norms=True)")
        return self.gradients.norms

    def __repr__(self) -> str:
        return f"Trajectory({short(self.model.name)}, steps={self.steps}, worlds={self.worlds}, {self.duration:g} s)"

    def _repr_html_(self) -> str:
        return registered("trajectory_html")(self)

    @property
    def duration(self) -> float:
        """Simulated time [s] from the first row to the last, of the world with the latest time."""
        return float(np.max(self.rows("time", [self.frames - 1]) - self.rows("time", [0])))

    def rows(self, name: str, rows: Numbers) -> np.ndarray:
        """Return chosen rows of one array in NumPy.

        Parameters
        ----------
        name : str
            "q", "v", "time", "activation", "mocap" or the name of a diagnostic.
        rows : array of int
            Indices of rows; negative ones count from the end.

        Returns
        -------
        numpy.ndarray (len(rows), worlds, ...)
            The rows, read from the device or from the store.

        Raises
        ------
        ValueError
            There is no array of that name, or no such row.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, dt=0.005, device="cpu")
        >>> trajectory = sim.rollout(sim.state(), steps=10)
        >>> trajectory.rows("time", [0, -1])[:, 0].round(3).tolist()
        [0.0, 0.05]
        """
        arrays = {"q": self.q, "v": self.v, "time": self.time, **self.diagnostics}
        arrays |= {name: x for name in ("activation", "mocap") if (x := getattr(self, name)) is not None}
        array = arrays[choice(name, "name", arrays)]
        return host_kinematics.host_rows(array, _row_indices(rows, len(array)))

    def clock(self) -> np.ndarray:
        """Time of the world with the latest time `(T + 1,)` [s].

        A world that was stopped early keeps its last time.
        """
        furthest = int(np.argmax(self.rows("time", [self.frames - 1])[0]))
        return to_host(self.time[:, furthest])

    def statistics(
        self, names: Sequence[str] | None = None, quantiles: Numbers = (0.5, 0.99), per_world: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Statistics of the recorded diagnostics over all steps and worlds.

        They are computed where the rows are: on CUDA by CuPy (extra `gpu`). Without CuPy one diagnostic at a time is
        copied to the host.

        Parameters
        ----------
        names : sequence of str, optional
            The diagnostics. Default: all that were recorded.
        quantiles : array (k,)
            Numbers from 0 to 1; interpolated as by `numpy.quantile`. Default: (0.5, 0.99).
        per_world : bool
            Whether statistics are those of each world over its steps, as arrays whose last axis is (worlds,). Default:
            False.

        Returns
        -------
        dict
            By name of the diagnostic: `mean`, `max`, `quantiles` (k,) and `not_finite`, the number of values that are
            infinite or NaN and therefore left out. Of `flags`: by name of the flag the number of worlds that raised it;
            with `per_world` the number of steps with it.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> found = sim.rollout(sim.state(), steps=10).statistics()
        >>> found["contacts"]["max"], found["flags"]["NOT_CONVERGED"]
        (2.0, 0)
        """
        if not self.steps:
            raise ValueError("this trajectory has no steps, and so no diagnostics")
        names, per_world = list(self.diagnostics if names is None else names), flag(per_world, "per_world")
        quantiles = numbers(quantiles, "quantiles")
        if quantiles.ndim != 1 or not ((quantiles >= 0) & (quantiles <= 1)).all():
            raise ValueError(f"quantiles is {short(quantiles.tolist())}; give a list of numbers from 0 to 1")
        found = {}
        for name in names:
            values = computable(self.diagnostics[choice(name, "names", list(self.diagnostics))])
            found[name] = flag_counts(values, per_world) if name == "flags" else spread(values, quantiles, per_world)
        return found

    def poses(self, worlds: Selection | None = None) -> np.ndarray:
        """Compute the poses of all bodies in all rows.

        Parameters
        ----------
        worlds : int or sequence of int, optional
            The first n worlds, or indices of worlds. Default: all.

        Returns
        -------
        numpy.ndarray (T + 1, worlds, nbody, 7)
            Poses `[x y z qw qx qy qz]` in the world frame [m], in float64.

        Notes
        -----
        All poses are in memory at once; for long rollouts iterate over `pose_chunks`.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.rollout(sim.state(), steps=10).poses(worlds=2).shape
        (11, 2, 4, 7)
        """
        return np.concatenate(list(self.pose_chunks(worlds=worlds)))

    def pose_chunks(self, rows: Numbers | None = None, worlds: Selection | None = None) -> Iterator[np.ndarray]:
        """Yield the poses of all bodies in chunks of rows, in bounded memory.

        Parameters
        ----------
        rows : array of int, optional
            Indices of rows. Default: all.
        worlds : int or sequence of int, optional
            The first n worlds, or indices of worlds. Default: all.

        Yields
        ------
        numpy.ndarray (rows of the chunk, worlds, nbody, 7)
            Poses `[x y z qw qx qy qz]` in the world frame [m], in float64, in the order of the rows.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> trajectory = sim.rollout(sim.state(), steps=10)
        >>> sum(len(poses) for poses in trajectory.pose_chunks(rows=range(0, 11, 2)))
        6
        """
        rows = np.arange(self.frames) if rows is None else _row_indices(rows, self.frames)
        chosen = world_indices(worlds, self.worlds)
        return host_kinematics.body_pose_chunks(self.model, self.q, rows, chosen, self.mocap)

    def save(self, path: PathLike, half: bool = False) -> None:
        """Write the trajectory with its model as a Zarr store.

        Parameters
        ----------
        path : path
            The folder to write, or a URL of fsspec. A warpsim store that is there is replaced once the new one is
            complete.
        half : bool
            Whether to write positions, velocities, activations and mocap poses in half precision: relative error 5e-4,
            largest number 65504 (docs/stores.md). Default: False.

        Raises
        ------
        ValueError
            The path is another file or folder, or a store with foreign files in it. Nothing is written then.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.rollout(sim.state(), steps=10).save("hops.zarr")
        >>> ws.Trajectory.load("hops.zarr").q.shape
        (11, 3, 6)
        """
        registered("save_trajectory")(self, path, flag(half, "half"))

    @classmethod
    def load(cls, path: PathLike, model: Model | None = None) -> "Trajectory":
        """Read a store that `save` or a rollout has written.

        Parameters
        ----------
        path : path
            The folder, or a URL of fsspec.
        model : Model, optional
            A model in place of the stored one. It must fit the data. Default: the stored model.

        Returns
        -------
        Trajectory
            Its arrays read from the store on demand.

        Raises
        ------
        ValueError
            The path is no store of warpsim, the store is damaged, or `model` does not fit.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> trajectory = sim.rollout(sim.state(), steps=10, store="run.zarr")
        >>> ws.Trajectory.load("run.zarr").steps
        10
        """
        if model is not None and not isinstance(model, Model):
            raise ValueError(f"model is a {type(model).__name__}; give a Model, or None for the stored one")
        return registered("load_trajectory")(path, model)

    def to_usd(
        self,
        path: PathLike,
        worlds: Selection | None = None,
        fps: float | None = None,
        spacing: float | None = None,
        patches: bool = False,
        form: Literal["instanced", "named"] | None = None,
        frames_per_file: int | None = None,
        diagnostics: bool = False,
        contact_forces: Numbers | None = None,
    ) -> None:
        """Write an animated USD stage with a camera and lights under `/View`; see docs/usd_export.md.

        Parameters
        ----------
        path : path
            The file: `.usd`, `.usdc`, `.usda` or `.usdz`.
        worlds : int or sequence of int, optional
            The first n worlds, or indices of worlds. Default: all.
        fps : float, optional
            Frames per second. Default: the recorded rate, thinned to at most 60.
        spacing : float, optional
            Distance of the worlds on a grid [m]. Default: from the size of a world.
        patches : bool
            Whether to draw hydroelastic contact patches as colored meshes, with see-through geoms
            (docs/hydroelastic.md). Default: False.
        form : str, optional
            "named": prims of each world's bodies, for any number of worlds, without physics. "instanced": point
            instancers, 20 bytes per body and frame. Default: for one world a tree of named prims with UsdPhysics, for
            several "instanced".
        frames_per_file : int, optional
            Makes `path` a folder with value clips of at most this many frames; open its `stage.usda`. Default: one
            file.
        diagnostics : bool
            Whether to write the recorded diagnostics, flags included, as attributes `warpsim:NAME` of the worlds.
            Default: False.
        contact_forces : array (steps, worlds, nbody, 3), optional
            The results of `sim.contact_force()` after each step [N], written as attributes or primvars
            `warpsim:contactForce` of the bodies. Default: none.

        Raises
        ------
        ValueError
            An argument has a wrong value, or `patches` is set and the model has no pressure fields.

        Examples
        --------
        >>> import pathlib
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.rollout(sim.state(), steps=10).to_usd("hops.usdc", worlds=2)
        >>> pathlib.Path("hops.usdc").exists()
        True
        """
        registered("write_trajectory")(
            self,
            path,
            worlds=worlds,
            fps=fps,
            spacing=spacing,
            patches=patches,
            form=form,
            frames_per_file=frames_per_file,
            diagnostics=diagnostics,
            contact_forces=contact_forces,
        )

    def to_html(
        self,
        path: PathLike,
        worlds: Selection | None = None,
        fps: float = 30.0,
        spacing: float | None = None,
        patches: bool = False,
    ) -> None:
        """Write one stand-alone web page with play, pause and scrub controls.

        The page opens without a network. It needs viser (`pip install 'warpsim[show]'`).

        Parameters
        ----------
        path : path
            The file, `.html`.
        worlds : int or sequence of int, optional
            The first n worlds, or indices of worlds. Default: all, at most 64.
        fps : float
            Rate of the frames kept [1/s]. Default: 30.
        spacing : float, optional
            Distance of the worlds on a grid [m]. Default: from the size of a world.
        patches : bool
            Whether to draw hydroelastic contact patches as colored meshes, with see-through geoms and a color scale.
            Default: False.

        Raises
        ------
        ValueError
            An argument has a wrong value, or `patches` is set and the model has no pressure fields.

        Examples
        --------
        >>> import pathlib
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.rollout(sim.state(), steps=10).to_html("hops.html")
        >>> pathlib.Path("hops.html").exists()
        True
        """
        registered("write_html")(self, path, worlds=worlds, fps=fps, spacing=spacing, patches=patches)

    def to_video(
        self,
        path: PathLike,
        worlds: Selection | None = None,
        fps: float = 30.0,
        width: int = 640,
        height: int = 360,
        *,
        camera: Any = None,
        follow: bool = True,
        spacing: float | None = None,
        progress: Callable[[int, int], Any] | None = None,
    ) -> None:
        """Write an MP4 (H.264) in real time.

        It needs PyAV (`pip install 'warpsim[video]'`). A world whose positions are not finite is drawn at its last
        finite positions, with a warning.

        Parameters
        ----------
        path : path
            The file, `.mp4`.
        worlds : int or sequence of int, optional
            The first n worlds, or indices of worlds. Default: up to 9.
        fps : float
            Frames per second, at most the recorded rate. Default: 30.
        width, height : int
            Size in pixels, even numbers. Default: 640, 360.
        camera : Camera, optional
            `warpsim.show.render.Camera` at the first frame. Default: one that shows all chosen worlds.
        follow : bool
            Move the camera with the mean position of the bodies. Default: True.
        spacing : float, optional
            Distance of the worlds on a grid [m]. Default: from the size of a world.
        progress : callable, optional
            Called as `progress(k, frames)` before the first frame and whenever k frames are drawn. Default: none.

        Raises
        ------
        ValueError
            An argument has a wrong value.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> trajectory = sim.rollout(sim.state(), steps=200)
        >>> trajectory.to_video("hops.mp4", fps=25, width=320, height=180)                  # doctest: +SKIP
        """
        registered("write_video")(
            self,
            path,
            worlds,
            fps,
            width,
            height,
            camera=camera,
            follow=follow,
            spacing=spacing,
            progress=progress,
        )

    def plot(
        self, path: PathLike | None = None, worlds: Selection | None = None, tolerance: float | None = None
    ) -> Any:
        """Draw heights, energy, contacts, momentum error, base paths and the last frame with Matplotlib.

        If the base stands still, positions and velocities of the joints of the first chosen world replace heights and
        paths. It needs Matplotlib (`pip install 'warpsim[show]'`).

        Parameters
        ----------
        path : path, optional
            A file to save the figure to: PNG, PDF or SVG. Default: none.
        worlds : int or sequence of int, optional
            The first n worlds, or indices of worlds. Default: all.
        tolerance : float, optional
            A stopping tolerance of the solver, drawn beside the momentum error. Default: none.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> figure = sim.rollout(sim.state(), steps=10).plot("hops.png")
        >>> type(figure).__name__
        'Figure'
        """
        return registered("plot_trajectory")(self, path, worlds=worlds, tolerance=tolerance)

    def render(self, path: PathLike, worlds: Selection | None = None, frame: int = -1, **options: Any) -> None:
        """Write a PNG of the chosen worlds at one row.

        Parameters
        ----------
        path : path
            The file, `.png`.
        worlds : int or sequence of int, optional
            The first n worlds, or indices of worlds. Default: up to 9.
        frame : int
            Index of the row; negative ones count from the end. Default: the last.
        **options
            Those of `warpsim.show.render.render_image`: `camera`, `width`, `height` [pixels], `spacing` [m], `samples`
            and `patches`.

        Raises
        ------
        ValueError
            There is no such row or world, or an option has a wrong value.

        Examples
        --------
        >>> import pathlib
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.rollout(sim.state(), steps=10).render("last.png", worlds=1, width=80, height=45)
        >>> pathlib.Path("last.png").exists()
        True
        """
        if not -self.frames <= whole(frame, "frame") < self.frames:
            raise ValueError(f"frame={frame}: the trajectory has rows 0 to {self.frames - 1}")
        q = self.rows("q", [frame % self.frames])[0]
        chosen = world_indices(min(9, self.worlds) if worlds is None else worlds, self.worlds)
        mocap = None if self.mocap is None else self.rows("mocap", [frame % self.frames])[0][chosen]
        warn_undrawn(self, 3)
        registered("render_png")(self.model, q[chosen], path, mocap=mocap, **options)


def _row_indices(rows, count: int) -> np.ndarray:
    """Row indices as an array; negative indices count from the end."""
    rows = np.atleast_1d(np.asarray(rows))
    if not rows.size:
        return np.zeros(0, dtype=int)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"rows is {short(rows.tolist())}; give indices of rows")
    if rows.min() < -count or rows.max() >= count:
        raise ValueError(f"rows is {short(rows.tolist())}; there are rows 0 to {count - 1}")
    return rows % count


def world_indices(worlds, count: int) -> np.ndarray:
    """Indices of the chosen worlds out of `count`: None is all, an int n the first n, otherwise a list of indices."""
    if worlds is None:
        return np.arange(count)
    if isinstance(worlds, int | np.integer) and not isinstance(worlds, bool):
        if not 1 <= worlds <= count:
            raise ValueError(
                f"worlds={worlds}: the trajectory has {count} worlds; give 1 to {count}, or a list of indices"
            )
        return np.arange(int(worlds))
    chosen = np.atleast_1d(np.asarray(worlds))
    if chosen.dtype == bool and chosen.shape == (count,):
        chosen = np.flatnonzero(chosen)
    if chosen.size == 0 or chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise ValueError(f"worlds={short(worlds)} must be None, an int, or a list of world indices")
    if chosen.min() < 0 or chosen.max() >= count:
        raise ValueError(f"worlds={short(chosen.tolist())}: indices must be 0 to {count - 1}")
    return chosen


def warn_undrawn(trajectory, depth: int = 4) -> None:
    """Warn if the simulation had parameters other than the model's, which drawings use."""
    if trajectory.undrawn:
        warnings.warn(
            f"parameters {', '.join(trajectory.undrawn)} of this simulation were not the model's, by which it is "
            "drawn; a world that is to be drawn by its own: dataclasses.replace(trajectory, model=..., undrawn=())",
            stacklevel=depth,
        )
