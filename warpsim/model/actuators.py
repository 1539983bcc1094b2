# SPDX-License-Identifier: Apache-2.0
"""Actuators of a `ModelBuilder`: gain and bias by kind, dynamics, and checks of the arguments."""

import dataclasses

import numpy as np

from warpsim.base.checks import flag, number, numbers, short
from warpsim.base.errors import ModelError
from warpsim.model.model import DynamicsType, Model
from warpsim.model.muscle import FORCE, NO_MUSCLE, Muscle, MuscleRows
from warpsim.model.targets import Target

USES = {"effort": (), "position": ("kp", "kv"), "velocity": ("kv",), "affine": ("gain", "bias")}
USES |= {"muscle": ("muscle", "gain", "bias")}
# Names of the times of each kind of dynamics, and how many of them must and may be given.
TIMES = {"integrator": (0, 0), "filter": (1, 1), "filterexact": (1, 1), "muscle": (2, 3)}


@dataclasses.dataclass
class Actuator:
    name: str
    target: Target
    gear: np.ndarray
    gain: np.ndarray
    bias: np.ndarray
    control_range: np.ndarray
    force_range: np.ndarray
    dynamics: DynamicsType = DynamicsType.NONE
    time: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    activation_range: np.ndarray = dataclasses.field(default_factory=lambda: np.array([-np.inf, np.inf]))
    early: bool = False
    group: int = 0
    muscle: np.ndarray = dataclasses.field(default_factory=lambda: NO_MUSCLE.copy())
    length_range: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(2))
    own_range: np.ndarray = dataclasses.field(
        default_factory=lambda: np.full(2, np.nan)
    )  # see `Model.actuator_own_range`


@dataclasses.dataclass
class EffortLimit:
    """The range of the total force of all actuators on a joint or a tendon of the builder; the unused index is -1."""

    joint: int
    tendon: int
    range: np.ndarray
    gravity: bool  # whether the range also bounds gravity compensation


def actuator_law(kind, kp, kv, gain, bias, label: str, muscle=None) -> tuple[np.ndarray, np.ndarray]:
    """Gain and bias, (3,) each. Arguments that the kind does not use are refused."""
    if not isinstance(kind, str) or kind not in USES:
        raise ModelError(f"{label}: unknown kind {short(kind)}; use {', '.join(USES)}")
    rule = "gains must be finite and not negative"
    kp, kv = (
        number(x, f"{label}: {n}", rule, lambda x: 0 <= x < np.inf, ModelError) for n, x in (("kp", kp), ("kv", kv))
    )
    given = {"kp": kp != 0, "kv": kv != 0, "gain": gain is not None, "bias": bias is not None}
    given["muscle"] = muscle is not None
    if kind == "muscle" and muscle is None:
        raise ModelError(f"{label}: a muscle needs its constants; give muscle=ws.Muscle(force=..., length_range=...)")
    for key in (key for key, value in given.items() if value and key not in USES[kind]):
        raise ModelError(f"{label}: {key} means nothing for an actuator of kind {kind!r}; leave it out")
    law = {
        "effort": ([1.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        "position": ([kp, 0.0, 0.0], [0.0, -kp, -kv]),
        "velocity": ([kv, 0.0, 0.0], [0.0, 0.0, -kv]),
        "affine": (gain, bias),
        "muscle": ([0.0] * 3 if gain is None else gain, [0.0] * 3 if bias is None else bias),
    }[kind]
    law = [numbers(x, f"{label}: {name}", ModelError) for name, x in zip(("gain", "bias"), law, strict=True)]
    for name, x in zip(("gain", "bias"), law, strict=True):
        if x.shape != (3,) or not np.isfinite(x).all():
            raise ModelError(f"{label}: {name} is {short(x.tolist())}; give 3 finite values")
    return law[0].copy(), law[1].copy()


def interval(value, label: str) -> np.ndarray:
    """(low, high); either may be infinite."""
    value = numbers(value, label, ModelError)
    if value.shape != (2,) or not (value[0] <= value[1] and value[0] < np.inf and value[1] > -np.inf):
        raise ModelError(f"{label} is {short(value.tolist())}; give (low, high) with low <= high")
    return value.copy()


def dynamics_of(dynamics, label: str) -> tuple[DynamicsType, np.ndarray]:
    """Kind and times (3,) [s] of a `dynamics` argument.

    `dynamics` is None, "integrator", ("filter", τ), ("filterexact", τ) or ("muscle", rise, fall, width).
    """
    if dynamics is None:
        return DynamicsType.NONE, np.zeros(3)
    words = [dynamics] if isinstance(dynamics, str) else list(dynamics) if np.iterable(dynamics) else []
    name, *times = words or [None]
    if not isinstance(name, str) or name not in TIMES:
        forms = 'None, "integrator", ("filter", tau), ("filterexact", tau) or ("muscle", rise, fall, width)'
        raise ModelError(f"{label}: dynamics is {short(dynamics)}; use {forms}")
    least, most = TIMES[name]
    found = numbers(times, f"{label}: times of dynamics", ModelError)
    if not least <= len(found) <= most or found.ndim != 1 or not (np.isfinite(found) & (found >= 0)).all():
        count = f"{least}" if least == most else f"{least} or {most}"
        raise ModelError(f"{label}: dynamics {name!r} has the times {short(times)}; give {count}, not negative [s]")
    return DynamicsType[name.upper()], np.concatenate([found, np.zeros(3 - len(found))])


def activation_options(dynamics, activation_range, early, muscle, label: str) -> dict:
    """The fields of an `Actuator` that hold its activation and its muscle."""
    if muscle is not None and not isinstance(muscle, (Muscle, MuscleRows)):
        raise ModelError(f"{label}: muscle is {short(muscle)}; give a ws.Muscle")
    if muscle is not None and dynamics is None:
        dynamics = muscle.dynamics
    kind, time = dynamics_of(dynamics, label)
    found = {
        "dynamics": kind,
        "time": time,
        "activation_range": interval(activation_range, f"{label}: activation_range"),
    }
    found["early"] = flag(early, f"{label}: early", ModelError)
    if kind == DynamicsType.NONE:
        for name, value in (("activation_range", np.isfinite(found["activation_range"]).any()), ("early", early)):
            if value:
                raise ModelError(f"{label}: {name} means nothing without dynamics; leave it out")
    if muscle is not None:
        found |= {"muscle": muscle.rows.copy(), "length_range": np.array(muscle.length_range, float)}
    return found


def state_options(model: Model, a: int) -> dict:
    """Dynamics, muscle and group of actuator a of a model, as arguments of `ModelBuilder.add_actuator`."""
    kind = DynamicsType(model.actuator_dynamics[a])
    times = {DynamicsType.NONE: 0, DynamicsType.INTEGRATOR: 0, DynamicsType.MUSCLE: 3}.get(kind, 1)
    rows = MuscleRows(model.actuator_muscle[a], model.actuator_length_range[a])
    return {
        "dynamics": (kind.name.lower(), *map(float, model.actuator_time[a, :times])) if kind else None,
        "activation_range": model.activation_range[a],
        "early": bool(model.actuator_early[a]),
        "muscle": None if np.isnan(rows.rows[:, FORCE]).all() else rows,
        "group": int(model.actuator_group[a]),
    }
