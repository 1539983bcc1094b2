# SPDX-License-Identifier: Apache-2.0
"""What MuJoCo's constraint law needs beside the other laws' material: options, and solref and solimp of elements.

The law is `ws.MuJoCo()`; other contact models do not read these fields. Values out of range are allowed, as in MuJoCo:
a `solref` of mixed signs counts as the default, and `solimp` is clamped. MuJoCo's `gap` lists contacts that have no
force; adhesion actuators pull at them too.
"""

import dataclasses

import numpy as np

from warpsim.base.checks import choice, flag, number, numbers, positive, short, whole
from warpsim.base.errors import ModelError

SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
STILL = (0.0,) * 6
_LAW = {"solref": SOLREF, "solimp": SOLIMP}
# MuJoCo's default of each field PREFIX_NAME of the model, and what has a row in it.
DEFAULTS: dict[str, dict] = {
    "geom": {**_LAW, "solmix": 1.0, "surfacevel": STILL, "gap": 0.0},
    "joint": {**_LAW, "margin": 0.0},
    "joint_friction": _LAW,
    "tendon": {**_LAW, "margin": 0.0},
    "tendon_friction": _LAW,
    "constraint": {**_LAW, "torquescale": 1.0},
}
ROWS = {prefix: f"n{prefix.partition('_')[0]}" for prefix in DEFAULTS} | {"joint_friction": "nv"}
# Columns of the laws of explicit pairs, and the fields of the model that hold them; one row per law.
PAIR_LAW = {
    "pair_solref": slice(0, 2),
    "pair_solreffriction": slice(2, 4),  # zeros: as solref
    "pair_solimp": slice(4, 9),
    "pair_own_friction": slice(9, 14),  # sliding along two tangents, torsional, rolling about them
    "pair_own_condim": 14,
    "pair_own_margin": 15,
}
PAIR_WIDTH = 16
CONES = ("pyramidal", "elliptic")
INTEGRATORS = ("Euler", "RK4", "implicit", "implicitfast", "discrete")
LEAST = 1e-15  # a solmix below it counts as 0


@dataclasses.dataclass(frozen=True)
class MuJoCoOptions:
    """Options of an MJCF file that `ws.MuJoCo()` and its integrators take as defaults: `model.mujoco`.

    Parameters
    ----------
    cone : str
        "pyramidal" (default) or "elliptic".
    impratio : float
        Ratio of frictional to normal impedance of contacts. Default: 1.
    integrator : str
        "Euler" (default), "RK4", "implicitfast", "implicit" or "discrete". `ws.MuJoCo()` refuses the last two unless
        the simulator is given an integrator.
    iterations, tolerance : int, float
        Largest number of iterations and tolerance of MuJoCo's own solver. warpsim does not use them; `to_mjcf` writes
        them. Default: 100, 1e-8.
    refsafe : bool
        Whether time constants of `solref` are at least two timesteps. Default: True.
    eulerdamp : bool
        Whether Euler integrates the damping of joints implicitly. Default: True.
    diagexact : bool
        Whether the regularization follows from the exact diagonal of J M⁻¹ Jᵀ, with the constraints' Jacobian J and the
        mass matrix M. There are no gradients then. Default: False.
    speculative, noslip_iterations : bool, int
        Speculative contacts, and sweeps without slip after the solve; refused by `ws.MuJoCo()`. Default: False, 0.

    Raises
    ------
    ModelError
        A value is not allowed. The message names it and the fix.

    Examples
    --------
    >>> builder = ws.ModelBuilder()
    >>> builder.mujoco = ws.MuJoCoOptions(cone="elliptic")
    >>> builder.build().mujoco.cone
    'elliptic'
    """

    cone: str = "pyramidal"
    impratio: float = 1.0
    integrator: str = "Euler"
    iterations: int = 100
    tolerance: float = 1e-8
    refsafe: bool = True
    eulerdamp: bool = True
    diagexact: bool = False
    speculative: bool = False
    noslip_iterations: int = 0

    def __post_init__(self) -> None:
        choice(self.cone, "cone", CONES, ModelError)
        choice(self.integrator, "integrator", INTEGRATORS, ModelError)
        for name in ("refsafe", "eulerdamp", "diagexact", "speculative"):
            flag(getattr(self, name), name, ModelError)
        positive(self.impratio, "impratio", error=ModelError)
        for name in ("iterations", "noslip_iterations"):
            whole(getattr(self, name), name, 0, ModelError)
        number(self.tolerance, "tolerance", "it must be finite, not negative", lambda x: 0.0 <= x < np.inf, ModelError)


DEFAULT_OPTIONS = MuJoCoOptions()


def default_fields(model) -> dict[str, np.ndarray]:
    """The fields of a model whose elements all have MuJoCo's default law."""
    return {
        f"{prefix}_{name}": np.full((getattr(model, ROWS[prefix]), *np.shape(value)), value)
        for prefix, values in DEFAULTS.items()
        for name, value in values.items()
    } | pair_fields(np.full(len(model.pair_geom), -1), ())


def pair_fields(own, rows) -> dict[str, np.ndarray]:
    """The fields of the laws of explicit pairs: `own (npair,)` is the first of a pair's `rows`, -1: none."""
    table = np.array(rows, float).reshape(-1, PAIR_WIDTH)
    found = {name: table[:, columns].copy() for name, columns in PAIR_LAW.items()}
    found["pair_own_condim"] = found["pair_own_condim"].astype(np.int32)
    return found | {"pair_own": np.array(own, np.int32)}


def checked_law(label: str, rows: int | None = None, **values) -> dict:
    """Checked values of one element, by name. `rows`: one row for each degree of freedom, or one for all."""
    found = {}
    for name, value in values.items():
        default = (_LAW | {"surfacevel": STILL}).get(name.removeprefix("friction_"), 0.0)
        if value is default or (type(value) is float and type(default) is float and abs(value) < np.inf):
            found[name] = value if rows is None else np.tile(value, (rows, 1))
            continue
        shape = np.shape(default)
        array = numbers(value, f"{label}: {name}", ModelError)
        if array.shape not in (shape, (rows or 1, *shape)[rows is None :]) or not np.isfinite(array).all():
            what = f"{shape[0]} finite numbers" if shape else "a finite number"
            raise ModelError(f"{label}: {name} is {short(value)}; give {what}, as in MuJoCo")
        found[name] = float(array) if not shape else np.broadcast_to(array, (*([rows] if rows else []), *shape)).copy()
    return found


def given_law(model, prefix: str, index, start: str = "") -> dict:
    """Arguments of `ModelBuilder.add_*` for the values of one element that differ from MuJoCo's default."""
    found = {name: getattr(model, f"{prefix}_{name}")[index] for name in DEFAULTS[prefix]}
    return {start + name: value for name, value in found.items() if (value != DEFAULTS[prefix][name]).any()}


def mixed_law(first, second) -> tuple[np.ndarray, np.ndarray]:
    """solref and solimp of a pair of geoms of a builder (MuJoCo's rule: priority, then solmix)."""
    if first.priority != second.priority:
        geom = first if first.priority > second.priority else second
        return np.array(geom.solref), np.array(geom.solimp)
    a, b = (geom.solmix if geom.solmix >= LEAST else 0.0 for geom in (first, second))
    share = a / (a + b) if a + b > 0 else 0.5
    (solref, solimp), (other, imp) = ((np.array(x.solref), np.array(x.solimp)) for x in (first, second))
    standard = solref[0] > 0 and other[0] > 0
    mixed = share * solref + (1 - share) * other if standard else np.minimum(solref, other)
    return mixed, share * solimp + (1 - share) * imp


def pair_row(geoms, label: str, friction, condim: int, margin: float, solref=None, solreffriction=None, solimp=None):
    """One row of `PAIR_LAW`; a solref or solimp that is None is that of the geoms."""
    mixed = dict(zip(("solref", "solimp"), mixed_law(*geoms), strict=True))
    given = {"solref": solref, "solimp": solimp}
    given = {name: mixed[name] if value is None else value for name, value in given.items()}
    law = checked_law(label, **given)
    reference = checked_law(label, solref=(0.0, 0.0) if solreffriction is None else solreffriction)["solref"]
    return [*law["solref"].tolist(), *reference.tolist(), *law["solimp"].tolist(), *friction, condim, margin]


def follows(row, geoms) -> bool:
    """Whether a pair with this row of `PAIR_LAW` has the law of its geoms, and isotropic friction."""
    row, (solref, solimp) = np.array(row), mixed_law(*geoms)
    sliding, other, _, rolling, last = row[PAIR_LAW["pair_own_friction"]]
    mixed = np.concatenate([solref, np.zeros(2), solimp])
    return sliding == other and rolling == last and np.allclose(row[: len(mixed)], mixed, rtol=1e-12, atol=0.0)


def plain_law(row) -> list[float]:
    """Friction, condim, torsional and rolling friction, and margin of a row of `PAIR_LAW`, for other contact models."""
    (mu, _, torsional, rolling, _), condim = np.array(row)[PAIR_LAW["pair_own_friction"]], row[-2]
    return [mu * (condim > 1), condim, torsional * (condim > 3), rolling * (condim > 4), row[-1]]


def own_pairs(model) -> np.ndarray:
    """`(nown,)` the pair of each own law."""
    pairs = np.flatnonzero(model.pair_own >= 0)
    pairs = pairs[np.argsort(model.pair_own[pairs])]
    return np.repeat(pairs, np.diff([*model.pair_own[pairs], model.nown]))


def own_laws(model) -> dict[int, list[list[float]]]:
    """The own laws of each explicit pair that has some, as rows of `PAIR_LAW`."""
    found: dict[int, list[list[float]]] = {}
    table = np.column_stack([getattr(model, name) for name in PAIR_LAW]).tolist()
    for pair, row in zip(own_pairs(model).tolist(), table, strict=True):
        found.setdefault(pair, []).append(row)
    return found


def separate_pairs(model):
    """The model with one contact pair for each law of explicit pairs, where some have several."""
    pairs = own_pairs(model)
    count = np.maximum(np.bincount(pairs, minlength=len(model.pair_own)), 1)
    if (count == 1).all():
        return model
    rows = np.repeat(np.arange(len(count)), count)
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    changed = {name: fields[name][rows] for name in fields if name.startswith("pair_") and name not in PAIR_LAW}
    own = changed["pair_own"] + np.arange(len(rows)) - (np.cumsum(count) - count)[rows]
    own[changed["pair_own"] < 0] = -1
    given = own >= 0
    plain = np.array([row for laws in own_laws(model).values() for row in map(plain_law, laws)])[own[given]].T
    kinds = ("friction", "condim", "torsional_friction", "rolling_friction", "margin")
    for kind, values in zip(kinds, plain, strict=True):
        changed[f"pair_{kind}"][given] = values
    changed |= {"pair_own": own.astype(np.int32), "point_pairs": int((rows < model.point_pairs).sum())}
    return dataclasses.replace(model, **changed)


def add_laws(b, rows) -> None:
    """Give the last explicit pair of a builder its own laws, rows of `PAIR_LAW`."""
    if not rows:
        return
    first, second, *law = b.explicit_pairs[-1][:7]
    label = f"pair of geoms {b.geoms[first].name!r} and {b.geoms[second].name!r}"
    array = numbers(rows, f"{label}: own laws", ModelError)
    if array.ndim != 2 or array.shape[1] != PAIR_WIDTH or not np.isfinite(array).all():
        raise ModelError(f"{label}: own laws are {short(rows)}; give rows of {PAIR_WIDTH} finite numbers")
    b.explicit_pairs[-1] = (first, second, *law, *array.tolist())
