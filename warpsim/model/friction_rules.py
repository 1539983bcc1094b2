# SPDX-License-Identifier: Apache-2.0
"""Friction and margins of geoms and pairs: allowed values, and how a pair's follow from its geoms' (MuJoCo's rules)."""

import numpy as np

from warpsim.base.checks import number, whole
from warpsim.base.errors import ModelError
from warpsim.model.model import FrictionRule, Model

# MuJoCo's defaults [m].
TORSIONAL_FRICTION = 0.005
ROLLING_FRICTION = 0.0001
CONDIMS = (1, 3, 4, 6)


def check_condim(condim, label: str) -> int:
    """Checked condim: 1, 3, 4 or 6."""
    if whole(condim, f"{label}: condim", error=ModelError) not in CONDIMS:
        raise ModelError(
            f"{label}: condim is {condim}; use 1 (frictionless), 3 (sliding friction), 4 (and torsional) or 6 (and "
            "rolling)"
        )
    return int(condim)


def check_lengths(torsional, rolling, margin, label: str) -> tuple[float, float, float]:
    """Checked torsional friction, rolling friction and margin [m]."""
    rule = "it must be a finite length [m], not negative"
    named = (("torsional_friction", torsional), ("rolling_friction", rolling))
    spin = [number(value, f"{label}: {name}", rule, lambda x: 0 <= x < np.inf, ModelError) for name, value in named]
    return *spin, number(margin, f"{label}: margin", "it must be a finite length [m]", np.isfinite, ModelError)


def check_sliding(dynamic, velocity, label: str) -> tuple[float, float]:
    """Dynamic friction and its speed [m/s]; both NaN where friction does not depend on speed."""
    if dynamic is None and velocity is None:
        return np.nan, np.nan
    if dynamic is None or velocity is None:
        given = "friction_dynamic" if velocity is None else "friction_velocity"
        raise ModelError(f"{label}: {given} is alone; give friction_dynamic and friction_velocity [m/s], or neither")
    rules = "it must be a finite number, not negative", "it must be a finite speed [m/s], positive"
    mu = number(dynamic, f"{label}: friction_dynamic", rules[0], lambda x: 0 <= x < np.inf, ModelError)
    return mu, number(velocity, f"{label}: friction_velocity", rules[1], lambda x: 0 < x < np.inf, ModelError)


def has_dynamic_friction(model: Model) -> bool:
    """Whether any geom's friction depends on its sliding speed."""
    return bool(np.isfinite(model.geom_friction_dynamic).any())


def pair_rules(rule, priority, condim, i: int, j: np.ndarray, swapped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rules and condims of the pairs of geom i with the geoms j.

    `rule` applies where neither geom has priority; `swapped`: where i is the second geom of the pair.
    """
    first, other = priority[i] > priority[j], priority[i] < priority[j]
    winners = np.where(first != swapped, int(FrictionRule.FIRST), int(FrictionRule.SECOND))
    dims = np.where(first, condim[i], np.where(other, condim[j], np.maximum(condim[i], condim[j])))
    return np.where(dims == 1, int(FrictionRule.FRICTIONLESS), np.where(first | other, winners, int(rule))), dims
