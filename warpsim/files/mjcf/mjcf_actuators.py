# SPDX-License-Identifier: Apache-2.0
"""Law and dynamics of an actuator of a compiled MuJoCo model, as arguments of `ModelBuilder.add_actuator`."""

import numpy as np

from warpsim.files.drives import INFINITE
from warpsim.files.mjcf.mjcf_refusals import (
    MUSCLE_LAW,
    TRN_CRANK,
    TRN_SITE,
    control_index,
    disabled,
    on_joint,
    on_tendon,
)
from warpsim.model.actuators import TIMES
from warpsim.model.model import DynamicsType
from warpsim.model.muscle import NO_MUSCLE, MuscleRows

LEAST = 1e-15  # MuJoCo's lower bound of divisors
AFFINE = 1


def actuator_options(m, a: int, off: bool) -> dict:
    """Kind, gains, dynamics and ranges. An actuator that is `off` gives no force and keeps its activation."""
    c = control_index(m, a)
    limited = m.actuator_ctrllimited[c] and not disabled(m, "CLAMPCTRL")
    return law_options(
        (m.actuator_gaintype[a], m.actuator_biastype[a], m.actuator_dyntype[a]),
        (m.actuator_gainprm[a], m.actuator_biasprm[a], m.actuator_dynprm[a]),
        (lambda: _muscle(m, a)) if not off else None,
        m.actuator_ctrlrange[c] if limited else INFINITE,
        m.actuator_actrange[a] if m.actuator_actlimited[a] else INFINITE,
        bool(m.actuator_actearly[a]),
    ) | {"group": int(m.actuator_group[a])}


def law_options(types, parameters, muscle, controls, activations, early: bool) -> dict:
    """An actuator law of MuJoCo as arguments of `ModelBuilder.add_actuator`.

    `types` (numbers) and `parameters` are those of gain, bias and dynamics. `muscle()` returns the muscle; None means
    that the actuator is off.
    """
    (gain_type, bias_type, _), kind, off = types, DynamicsType(types[2]), muscle is None
    gain, bias = (np.zeros(3) if off else np.array(x[:3], float) for x in parameters[:2])
    muscle = None if off else muscle()
    found = {
        "kind": "affine" if muscle is None else "muscle",
        "gain": gain * np.where(gain_type == MUSCLE_LAW, 0.0, [1.0, *[gain_type == AFFINE] * 2]),
        "bias": bias * (bias_type == AFFINE),
        "muscle": muscle,
        "control_range": controls,
    }
    if kind == DynamicsType.NONE:
        return found
    found["activation_range"] = activations
    if off:
        return found | {"dynamics": "integrator", "control_range": (0.0, 0.0)}
    times = np.maximum(parameters[2][: TIMES[kind.name.lower()][1]], 0.0)
    return found | {"dynamics": (kind.name.lower(), *times), "early": early}


def actuator_target(m, a: int, tendons: dict[int, int]) -> dict:
    """The target of an actuator, and its gear; `tendons` maps MuJoCo's tendon index to the builder's."""
    return {"gear": m.actuator_gear[a]} | _target(m, a, tendons)


def _target(m, a: int, tendons: dict[int, int]) -> dict:
    first, second = (int(i) for i in m.actuator_trnid[a])
    if on_joint(m, a):
        return {"joint": first}
    if on_tendon(m, a):
        return {"tendon": tendons[first]}
    if m.actuator_trntype[a] == TRN_SITE:
        return {"site": first, "reference_site": None if second < 0 else second}
    if m.actuator_trntype[a] == TRN_CRANK:
        return {"crank": (first, second, float(m.actuator_cranklength[a]))}
    return {"body": first - 1, "gear": 1.0}  # MuJoCo does not use the gear here


def _muscle(m, a: int) -> MuscleRows | None:
    """The constants of a muscle's active and passive force; None if the actuator is no muscle."""
    rows = NO_MUSCLE.copy()
    for row, types, constants in (
        (rows[0], m.actuator_gaintype, m.actuator_gainprm),
        (rows[1], m.actuator_biastype, m.actuator_biasprm),
    ):
        if types[a] == MUSCLE_LAW:
            low, high, force, scale, *others = constants[a, :9]
            row[:] = low, high, force if force >= 0 else scale / max(LEAST, m.actuator_acc0[a]), *others
    return None if np.isnan(rows).all() else MuscleRows(rows, np.array(m.actuator_lengthrange[a]))
