# SPDX-License-Identifier: Apache-2.0
"""Types of constraints: what each holds, its rows, and its specific argument of `ModelBuilder.add_constraint`."""

import enum
import typing

import numpy as np

from warpsim.base.checks import numbers, short
from warpsim.base.errors import ModelError

LEAST_LENGTH = 1e-9  # m; below it the direction of a distance is undefined


class ConstraintType(enum.IntEnum):
    """Types of constraints: between frames A and B of two bodies, or between two coordinates (JOINT, TENDON).

    - CONNECT: the origins coincide.
    - WELD: the frames coincide.
    - HINGE: the origins and the z axes coincide.
    - SLIDE: the frames coincide except for a translation along z.
    - DISTANCE: the distance of the origins [m] is between coefficients[0] and coefficients[1].
    - JOINT: q1 - q1_0 is the sum of coefficients[k] (q2 - q2_0)^k, where q_0 is the initial position.
    - TENDON: the same for the lengths of two tendons.
    - SCREW: the z axes coincide; B moves coefficients[0] [m] along z of A per turn about it.
    """

    CONNECT = 0
    WELD = 1
    HINGE = 2
    SLIDE = 3
    DISTANCE = 4
    JOINT = 5
    TENDON = 6
    SCREW = 7


class TypeTable(typing.NamedTuple):
    """Properties of a constraint type.

    `between`: the type ties bodies. `rows`: kind (`kernels/rows/kinds`) and axis of each row between the frames.
    `option`: the argument that only some types take; `read` turns it into `size` of the five coefficients.
    """

    between: bool = True
    rows: tuple[tuple[str, int], ...] = ()
    option: str | None = None
    size: int = 0
    read: typing.Callable | None = None


def polynomial(values, alone: bool, label: str) -> np.ndarray:
    """Coefficients of a coupling; without a second element only the first is allowed."""
    default = (0.0,) if alone else (0.0, 1.0)
    array = np.atleast_1d(numbers(default if values is None else values, f"{label}: coefficients", ModelError))
    if array.ndim != 1 or not 1 <= len(array) <= 5 or not np.isfinite(array).all():
        raise ModelError(f"{label}: coefficients {short(array.tolist())}; give at most 5 finite values c0, c1, ...")
    return array


def lengths(value, alone: bool, label: str) -> np.ndarray | None:
    """(shortest, longest) distance. None stays None: the distance follows from the initial pose."""
    if value is None:
        return None
    array = numbers(value, f"{label}: length", ModelError)
    low, high = np.broadcast_to(array, (2,)) if array.shape in ((), (1,), (2,)) else (np.nan, np.nan)
    if not (np.isfinite(low) and 0 <= low <= high and high > LEAST_LENGTH):
        raise ModelError(
            f"{label}: length {short(array.tolist())}; give a length > 0 or (shortest, longest) with 0 <= shortest "
            "<= longest [m]; use connect where two points coincide"
        )
    return np.array([low, high])


def pitch(value, alone: bool, label: str) -> np.ndarray:
    """Pitch [m] per turn."""
    array = numbers(np.nan if value is None else value, f"{label}: pitch", ModelError)
    if array.shape not in ((), (1,)) or not np.isfinite(array).all() or not array.all():
        given = "missing" if value is None else short(array.tolist())
        raise ModelError(
            f"{label}: pitch is {given}; give the distance [m] that a turn advances, > 0 for a right-handed thread, < "
            "0 for a "
            "left-handed one; use slide, or hinge, where nothing couples the two"
        )
    return array.reshape(1)


def _along(kind: str, count: int) -> tuple[tuple[str, int], ...]:
    return tuple((kind, axis) for axis in range(count))


COUPLING = TypeTable(between=False, option="coefficients", size=5, read=polynomial)
TYPES = {
    ConstraintType.CONNECT: TypeTable(rows=_along("position", 3)),
    ConstraintType.WELD: TypeTable(rows=_along("position", 3) + _along("rotation", 3)),
    ConstraintType.HINGE: TypeTable(rows=_along("position", 3) + _along("tilt", 2)),
    ConstraintType.SLIDE: TypeTable(rows=_along("position", 2) + _along("rotation", 3)),
    ConstraintType.DISTANCE: TypeTable(option="length", size=2, read=lengths),
    ConstraintType.JOINT: COUPLING,
    ConstraintType.TENDON: COUPLING,
    ConstraintType.SCREW: TypeTable(
        rows=(*_along("position", 2), *_along("tilt", 2), ("screw", 0)), option="pitch", size=1, read=pitch
    ),
}
BODY_CONSTRAINTS = tuple(kind for kind, table in TYPES.items() if table.between)


def constraint_type(kind, label: str) -> ConstraintType:
    """The type called `kind`."""
    try:
        return kind if isinstance(kind, ConstraintType) else ConstraintType[str(kind).upper()]
    except KeyError:
        known = ", ".join(t.name.lower() for t in ConstraintType)
        raise ModelError(f"{label}: unknown kind {kind!r}; use {known}") from None


def read_option(kind: ConstraintType, options: dict, alone: bool, label: str) -> np.ndarray | None:
    """The five coefficients of a constraint from its type-specific argument; None: they follow from the initial pose.

    `alone`: the constraint has no second element. An argument of another type is an error.
    """
    table = TYPES[kind]
    for key in (key for key, value in options.items() if value is not None and key != table.option):
        raise ModelError(f"{label}: {key} means nothing for a {kind.name.lower()} constraint; leave it out")
    if table.read is None:
        return np.zeros(5)
    values = table.read(options[table.option], alone, label)
    return None if values is None else np.pad(values, (0, 5 - len(values)))


def own_option(kind: ConstraintType, coefficients: np.ndarray) -> dict:
    """The type-specific argument that gives these coefficients."""
    table = TYPES[kind]
    if table.option is None:
        return {}
    return {table.option: coefficients[: table.size] if table.size > 1 else coefficients[0]}
