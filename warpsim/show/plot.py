# SPDX-License-Identifier: Apache-2.0
"""One figure of a rollout: an image, heights, energy, contacts, momentum error, and base paths or an arm's joints.

It is drawn with matplotlib's object interface on its own canvas. It works without a display and leaves the caller's
pyplot state unchanged.
"""

import pathlib

import numpy as np

from warpsim.base.checks import positive
from warpsim.base.extras import import_or_explain
from warpsim.files.output import check_file, replacing
from warpsim.model.host_kinematics import body_poses
from warpsim.model.model import JointType
from warpsim.state.trajectory import world_indices

LINES = 8  # worlds drawn as single lines; bands summarize all worlds
PICTURED = 9  # worlds in the image
NAMED = 10  # most joints drawn
PICTURE_SIZE = (1200, 480)  # pixels
POINTS = 1000  # most rows drawn; a plot has fewer pixels
BLUE, RED, GREY = "#2f6fb0", "#c4473a", "#8a919c"


def check_plot(path) -> pathlib.Path:
    """`path` as the name of a figure's file, `.png` added where it has no ending; raises `ValueError` otherwise."""
    path = check_file(path)
    if not path.suffix:
        return check_file(path.with_name(path.name + ".png"))
    known = import_or_explain("matplotlib.backend_bases", "show").FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"{path}: the name must end in one of {', '.join(f'.{name}' for name in sorted(known))}")
    return path


def plot_trajectory(trajectory, path=None, worlds=None, tolerance: float | None = None):
    """Figure of a trajectory, saved to `path` (PNG, PDF, SVG) if given, and returned.

    `worlds`: None for all, n for the first n, or a list. Lines are single worlds; bands are the 5th to 95th percentile
    of all chosen worlds. `tolerance` draws the solver's stopping tolerance beside the momentum error.
    """
    figures = import_or_explain("matplotlib.figure", "show")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if tolerance is not None:
        positive(tolerance, "tolerance")
    if path is not None:
        path = check_plot(path)
    chosen = world_indices(worlds, trajectory.worlds)
    rows = np.unique(np.linspace(0, trajectory.frames - 1, min(trajectory.frames, POINTS)).astype(int))
    time = trajectory.clock()[rows]
    base = _base_positions(trajectory, rows, chosen)
    figure = figures.Figure(figsize=(12, 11), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        f"{trajectory.model.name}: {_worlds(len(chosen))}, {trajectory.steps} steps, {trajectory.duration:.3g} s",
        fontsize=14,
    )
    grid = figure.add_gridspec(4, 2, height_ratios=[2.3, 1, 1, 1])
    _picture(figure.add_subplot(grid[0, :]), trajectory, chosen)
    left, right = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1:3, 1])
    joints = _single_joints(trajectory.model)
    if len(joints) and (_stands(trajectory.model) or (base == base[:1]).all()):  # an arm with a fixed base
        _joints(left, trajectory, rows, int(chosen[0]), joints, "q")
        _joints(right, trajectory, rows, int(chosen[0]), joints, "v")
    else:
        _series(left, time, base[..., 2], "height of the base [m]")
        _paths(right, base)
    shown = [("energy", "energy [J]"), ("contacts", "contacts per world"), ("momentum_error", "worst momentum error")]
    places = [grid[2, 0], grid[3, 0], grid[3, 1]]
    steps = rows[rows > 0] - 1
    for (name, label), place in zip(shown, places, strict=True):
        axes = figure.add_subplot(place)
        if name not in trajectory.diagnostics or len(steps) == 0:
            axes.text(0.5, 0.5, f"{name} not recorded", ha="center", va="center", color=GREY)
            axes.set_axis_off()
        elif name == "momentum_error":
            _errors(axes, trajectory, chosen, tolerance)
        else:
            _series(axes, time[rows > 0], trajectory.rows(name, steps)[:, chosen], label)
    if path is not None:
        with replacing(path) as new:
            figure.savefig(new, dpi=130)
    return figure


def _worlds(count: int) -> str:
    return f"{count} world" if count == 1 else f"{count} worlds"


def _first_moving(model) -> int | None:
    return next((b for b in range(model.nbody) if model.ancestors(int(model.body_link[b]))), None)


def _stands(model) -> bool:
    """Whether only hinges and balls join the first moving body to the world; its origin may then move on a circle."""
    kinds = model.joint_type[np.asarray(model.joint_body) == _first_moving(model)]
    return len(kinds) > 0 and bool(np.isin(kinds, (JointType.HINGE, JointType.BALL)).all())


def _single_joints(model) -> np.ndarray:
    """The joints that are hinges or slides."""
    return np.flatnonzero(np.isin(model.joint_type, (JointType.HINGE, JointType.SLIDE)))


def _joints(axes, trajectory, rows, world: int, joints, name: str) -> None:
    """Plot positions "q" or velocities "v" of hinges and slides over time, in one world, each with its name."""
    model = trajectory.model
    places = model.joint_q[joints] if name == "q" else model.joint_v[joints]
    values = trajectory.rows(name, rows)[:, world][:, places[:NAMED]]
    axes.plot(trajectory.clock()[rows], values, lw=1.0, label=[model.joint_names[j] for j in joints[:NAMED]])
    units = {"q": "[rad] or [m]", "v": "[rad/s] or [m/s]"}[name]
    _finish(axes, "time [s]", f"{'positions' if name == 'q' else 'velocities'} of joints {units}")
    more = f", {NAMED} of {len(joints)} joints" if len(joints) > NAMED else ""
    axes.set_title(f"world {world}{more}", fontsize=10, color=GREY)
    axes.legend(frameon=False, fontsize=7, ncols=2)


def _base_positions(trajectory, rows, chosen) -> np.ndarray:
    """Positions `(rows, worlds, 3)` [m] of the first moving body, or of the world's origin."""
    model = trajectory.model
    body = _first_moving(model)
    if body is None:
        return np.zeros((len(rows), len(chosen), 3))
    parts = []
    for start in range(0, len(rows), 32):
        q, mocap = _placed(trajectory, rows[start : start + 32], chosen)
        parts.append(body_poses(model, q, mocap)[:, :, body, :3])
    return np.concatenate(parts)


def _placed(trajectory, rows, chosen) -> tuple:
    """Positions (rows, worlds, nq), and poses of mocap bodies or None."""
    mocap = None if trajectory.mocap is None else trajectory.rows("mocap", rows)[:, chosen]
    return trajectory.rows("q", rows)[:, chosen], mocap


def _picture(axes, trajectory, chosen) -> None:
    from warpsim.show.render import render_image

    q, mocap = _placed(trajectory, [trajectory.frames - 1], chosen[:PICTURED])
    axes.set_axis_off()
    if not np.isfinite(q).all():
        axes.text(0.5, 0.5, "the last frame is not finite", ha="center", va="center", color=RED)
        return
    axes.imshow(render_image(trajectory.model, q[0], None, *PICTURE_SIZE, mocap=None if mocap is None else mocap[0]))
    axes.set_title(f"last frame, {len(q[0])} of {_worlds(trajectory.worlds)}", fontsize=10, color=GREY)


def _series(axes, time, values, label: str) -> None:
    """Plot some worlds as lines over time, and all worlds as a band and a median; `values (rows, worlds)`."""
    values = np.asarray(values, dtype=float)
    if values.shape[1] > 2:
        low, middle, high = np.nanpercentile(values, [5, 50, 95], axis=1)
        axes.fill_between(time, low, high, color=BLUE, alpha=0.15, lw=0)
    axes.plot(time, values[:, :LINES], color=BLUE, lw=0.7, alpha=0.35 if values.shape[1] > 2 else 1.0)
    if values.shape[1] > 2:
        axes.plot(time, middle, color=BLUE, lw=2)
    _finish(axes, "time [s]", label)


def _errors(axes, trajectory, chosen, tolerance) -> None:
    """Plot the largest momentum error over the worlds, per step; every step is read, none is skipped."""
    worst = np.zeros(trajectory.steps)
    for start in range(0, trajectory.steps, 256):
        rows = np.arange(start, min(start + 256, trajectory.steps))
        worst[rows] = np.nan_to_num(trajectory.rows("momentum_error", rows)[:, chosen].astype(float), nan=np.inf).max(
            axis=1
        )
    time = trajectory.clock()[1:]
    finite = np.isfinite(worst)
    axes.semilogy(time[finite], np.maximum(worst[finite], 1e-18), color=BLUE, lw=0.9)
    axes.set_ylim(
        bottom=min(axes.get_ylim()[0], np.median(np.maximum(worst[finite], 1e-18)) / 30) if finite.any() else None
    )
    for t in time[~finite]:
        axes.axvline(t, color=RED, lw=0.7)
    if tolerance is not None:
        axes.axhline(tolerance, color=RED, ls="--", lw=1.2, label=f"tolerance {tolerance:g}")
        axes.legend(frameon=False, fontsize=9)
    _finish(axes, "time [s]", "worst momentum error")


def _paths(axes, base) -> None:
    """Plot the paths of the bases from above, each relative to its beginning; a ring marks the end."""
    path = base[..., :2] - base[:1, :, :2]
    for world in range(min(path.shape[1], 256)):
        axes.plot(
            path[:, world, 0], path[:, world, 1], color=BLUE, lw=0.9, alpha=max(0.15, min(1.0, 8 / path.shape[1]))
        )
    axes.plot(path[-1, :, 0], path[-1, :, 1], "o", ms=4, mfc="white", mec=RED, lw=0)
    axes.plot(0, 0, "+", color="black", ms=9)
    axes.set_aspect("equal", adjustable="datalim")
    _finish(axes, "x - x(0) [m]", "y - y(0) [m]")
    axes.set_title("paths of the base from above", fontsize=10, color=GREY)


def _finish(axes, x: str, y: str) -> None:
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
