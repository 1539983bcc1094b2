# SPDX-License-Identifier: Apache-2.0
"""Types of constraints: what each holds, its rows, and the argument of `ModelBuilder.add_constraint` that is its own."""

import enum
import typing

import numpy as np

from warpsim.base.checks import numbers, short
from warpsim.base.errors import ModelError

LEAST_LENGTH = 1e-9  # m; below it the direction of a distance is undefined


class ConstraintType(enum.IntEnum):
    """What a constraint holds: of bodies, on the frames A and B, or of coordinates (JOINT, TENDON)."""

    CONNECT = 0  # the origins coincide
    WELD = 1  # the frames coincide
    HINGE = 2  # the origins and the z axes coincide
    SLIDE = 3  # the frames coincide up to a shift along z
    DISTANCE = 4  # of the origins: between coefficients[0] and coefficients[1] [m]
    JOINT = 5  # q1 - q1_0 = sum of coefficients[k] (q2 - q2_0)^k, q_0 the initial position
    TENDON = 6  # the same of two tendons' lengths
    SCREW = 7  # the z axes coincide; B comes coefficients[0] [m] along z of A for each turn about it


class TypeTable(typing.NamedTuple):
    """`between`: of bodies. `rows`: kind (`kernels/rows/kinds`) and axis of each row between the frames. `option`: the argument
    that only some types take, which `read` turns into `size` of the five coefficients."""

    between: bool = True
    rows: tuple[tuple[str, int], ...] = ()
    option: str | None = None
    size: int = 0
    read: typing.Callable | None = None


def polynomial(values, alone: bool, label: str) -> np.ndarray:
    """Coefficients of a coupling; of one that ties its coordinate to nothing the first alone."""
    default = (0.0,) if alone else (0.0, 1.0)
    array = np.atleast_1d(numbers(default if values is None else values, f"{label}: coefficients", ModelError))
    if array.ndim != 1 or not 1 <= len(array) <= 5 or not np.isfinite(array).all():
        raise ModelError(f"{label}: coefficients {short(array.tolist())}; give at most 5 finite values c0, c1, ...")
    return array


def lengths(value, alone: bool, label: str) -> np.ndarray | None:
    """(shortest, longest) distance; None stays so: it follows from the initial pose."""
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
    """[m] for each turn."""
    array = numbers(np.nan if value is None else value, f"{label}: pitch", ModelError)
    if array.shape not in ((), (1,)) or not np.isfinite(array).all() or not array.all():
        given = "missing" if value is None else short(array.tolist())
        raise ModelError(
            f"{label}: pitch is {given}; give the distance [m] that a turn advances, > 0 for a right-handed thread, < 0 for a "
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
    """The five coefficients of a constraint, from the arguments that are not every type's; None: from the initial pose.

    `alone`: it has no second element. An argument of other types is an error.
    """
    table = TYPES[kind]
    for key in (key for key, value in options.items() if value is not None and key != table.option):
        raise ModelError(f"{label}: {key} means nothing for a {kind.name.lower()} constraint; leave it out")
    if table.read is None:
        return np.zeros(5)
    values = table.read(options[table.option], alone, label)
    return None if values is None else np.pad(values, (0, 5 - len(values)))


def own_option(kind: ConstraintType, coefficients: np.ndarray) -> dict:
    """The argument of its own of a constraint with these coefficients."""
    table = TYPES[kind]
    if table.option is None:
        return {}
    return {table.option: coefficients[: table.size] if table.size > 1 else coefficients[0]}
