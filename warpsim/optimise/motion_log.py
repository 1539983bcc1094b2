# SPDX-License-Identifier: Apache-2.0
"""`MotionLog`: a recorded motion of a robot from a CSV file, checked against the robot's model.

Columns: `time` [s], `q:JOINT` position of every hinge [rad] and slide [m], `v:JOINT` velocity (optional, of any
joints), `u:ACTUATOR` control of every actuator; the name of the one joint that an actuator drives stands for it.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
import warnings

import numpy as np

from warpsim.base.annotations import PathLike
from warpsim.base.checks import listed, short
from warpsim.base.reprs import ShownByShapes
from warpsim.files.safe_files import read_bytes
from warpsim.model.model import JointType, Model

MOST_BYTES = 1 << 29
UNEVEN = 0.02  # largest deviation of a sampling interval, relative to the median one
SCALAR = (JointType.HINGE, JointType.SLIDE)


@dataclasses.dataclass(frozen=True, repr=False)
class MotionLog(ShownByShapes):
    """A motion sampled every `dt` seconds: q `(rows, nq)`, v `(rows, nv)` (NaN: not measured), u `(rows, nu)`."""

    path: str
    dt: float
    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray


def read_log(path: PathLike, model: Model) -> MotionLog:
    """Read a motion of `model` from a CSV file.

    Raises
    ------
    ValueError
        Names the row (the header is row 1), the column, and what to do.
    """
    for j, kind in enumerate(model.joint_type):
        if kind not in SCALAR:
            raise ValueError(
                f"joint {model.joint_names[j]!r} of robot {model.name!r} is a {JointType(kind).name.lower()} joint; a "
                "log has hinges and slides (a robot on the ground: fix its base)"
            )
    if model.na:
        raise ValueError(f"actuators of robot {model.name!r} have activations, which a log does not have")
    name = pathlib.Path(path).name
    header, table = _parsed(read_bytes(pathlib.Path(path), MOST_BYTES), name)
    places = _places(header, model, name)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{name}: row {row + 2}, column {header[column]!r} is not a finite number; leave the row out at the log's "
            "ends, or fill it in"
        )
    time = table[:, header.index("time")]
    dt = _interval(time, name)
    q, v, u = (np.full((len(table), n), np.nan) for n in (model.nq, model.nv, model.nu))
    for column, (kind, index) in places.items():
        {"q": q, "v": v, "u": u}[kind][:, index] = table[:, column]
    _warn_of_units(model, q, u, name)
    return MotionLog(str(path), dt, time, q, v, u)


def _warn_of_units(model: Model, q: np.ndarray, u: np.ndarray, name: str) -> None:
    """Warn of positions far outside a joint's range, and of controls that the model clamps."""
    for j in np.flatnonzero(model.joint_limited):
        (low, high), x = model.joint_range[j], q[:, model.joint_q[j]]
        if max(low - x.min(), x.max() - high) > high - low:
            unit = "radians" if model.joint_type[j] == JointType.HINGE else "meters"
            warnings.warn(
                f"{name}: column 'q:{model.joint_names[j]}' goes from {x.min():.4g} to {x.max():.4g}, and the joint's "
                f"range is {low:.4g} to {high:.4g}; give {unit}",
                stacklevel=4,
            )
    for a, (low, high) in enumerate(model.control_range):
        x, slack = u[:, a], 1e-6 * (high - low)
        beyond = int(((x < low - slack) | (x > high + slack)).sum())
        if beyond:
            warnings.warn(
                f"{name}: column 'u:{model.actuator_names[a]}' goes from {x.min():.4g} to {x.max():.4g}; {beyond} rows "
                f"are outside the actuator's control range, {low:.4g} to {high:.4g}, and are clamped to it: check the "
                "unit, and the range in the robot's file",
                stacklevel=4,
            )


def _parsed(data: bytes, name: str) -> tuple[list[str], np.ndarray]:
    """Column names, and the table of numbers, with NaN for a cell that is empty."""
    try:
        text = data.decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text.rstrip() + "\n", newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{name}: no CSV file in UTF-8: {short(str(error))}") from None
    if not rows or not rows[0]:
        raise ValueError(f"{name}: empty; the first row names the columns: time, q:JOINT, v:JOINT, u:ACTUATOR")
    header = [cell.strip() for cell in rows[0]]
    if len(header) == 1:
        raise ValueError(
            f"{name}: row 1 is {short(header[0])}, without a comma; it names the columns, as time,q:JOINT,u:ACTUATOR: "
            "separate cells by commas, and write numbers with a decimal point"
        )
    table = np.full((len(rows) - 1, len(header)), np.nan)
    for i, row in enumerate(rows[1:]):
        if len(row) != len(header):
            comma = "; write numbers with a decimal point" if len(row) > len(header) else ""
            raise ValueError(f"{name}: row {i + 2} has {len(row)} cells; the header has {len(header)}{comma}")
        for k, cell in enumerate(row):
            try:
                table[i, k] = float(cell.replace("_", "?")) if cell.strip() else np.nan  # 1_0 is no number here
            except ValueError:
                raise ValueError(f"{name}: row {i + 2}, column {header[k]!r} is {short(cell)}; give a number") from None
    return header, table


def _places(header: list[str], model: Model, name: str) -> dict[int, tuple[str, int]]:
    """Column -> ("q", "v" or "u", index there). Every position and every control must be there."""
    found: dict[int, tuple[str, int]] = {}
    for column, label in enumerate(header):
        if label == "time":
            continue
        kind, _, owner = label.partition(":")
        if kind not in ("q", "v", "u") or not owner:
            raise ValueError(f"{name}: column {short(label)} is none of time, q:JOINT, v:JOINT, u:ACTUATOR")
        found[column] = kind, _actuator(owner, model, name) if kind == "u" else _joint(owner, label, model, name)
    if header.count("time") != 1:
        raise ValueError(f"{name}: has {header.count('time')} columns 'time'; give one, in seconds")
    places = list(found.values())
    for place in places:
        if places.count(place) > 1:
            raise ValueError(f"{name}: column {header[list(found)[places.index(place)]]!r} is there twice")
    needed = [("q", int(model.joint_q[j]), f"q:{n}") for j, n in enumerate(model.joint_names)]
    needed += [("u", a, f"u:{n}") for a, n in enumerate(model.actuator_names)]
    missing = [label for kind, index, label in needed if (kind, index) not in places]
    if missing:
        raise ValueError(
            f"{name}: no column {listed(missing)}; a log has the position of every joint and every control"
        )
    return found


def _joint(owner: str, label: str, model: Model, name: str) -> int:
    if owner not in model.joint_names:
        raise ValueError(
            f"{name}: column {label!r}: robot {model.name!r} has no joint {owner!r}; there are: "
            f"{listed(model.joint_names)}"
        )
    j = model.joint_names.index(owner)
    return int((model.joint_q if label.startswith("q") else model.joint_v)[j])


def _actuator(owner: str, model: Model, name: str) -> int:
    """Index of an actuator, given by its name or by the joint that it alone drives."""
    if owner in model.actuator_names:
        return model.actuator_names.index(owner)
    if owner in model.joint_names:
        j = model.joint_names.index(owner)
        driving = np.flatnonzero(model.actuator_joint == j)
        if len(driving) == 1:
            return int(driving[0])
    there = listed(model.actuator_names) if model.nu else "none; load the robot with actuators='effort'"
    raise ValueError(f"{name}: column 'u:{owner}': robot {model.name!r} has no actuator {owner!r}; there are: {there}")


def _interval(time: np.ndarray, name: str) -> float:
    """The sampling interval; the times must be evenly spaced."""
    if len(time) < 3:
        raise ValueError(f"{name}: has {len(time)} rows of data, which is too short a motion")
    steps = np.diff(time)
    dt = float(np.median(steps))
    bad = np.flatnonzero((steps <= 0) | (np.abs(steps - dt) > UNEVEN * dt))
    if len(bad):
        i = int(bad[0])
        raise ValueError(
            f"{name}: row {i + 3} is {steps[i]:.6g} s after row {i + 2}, where rows are {dt:.6g} s apart ({len(bad)} "
            "such intervals); resample the log to even times, or cut it at the gap"
        )
    return float((time[-1] - time[0]) / (len(time) - 1))
