# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's constraint law in a compiled model: options, solref and solimp, laws of pairs, contact override."""

import copy
import dataclasses

import mujoco
import numpy as np

from warpsim.files.mjcf.mjcf_elements import unless
from warpsim.files.mjcf.mjcf_refusals import disabled
from warpsim.model.mujoco_options import (
    CONES,
    DEFAULTS,
    INTEGRATORS,
    PAIR_LAW,
    SOLIMP,
    SOLREF,
    MuJoCoOptions,
    pair_row,
)

# Fields of MjModel, by the argument of the builder.
NAMES: dict[str, dict[str, str]] = {
    "geom": {name: f"geom_{name}" for name in ("solref", "solimp", "solmix", "surfacevel", "gap")},
    "jnt": {"solref": "jnt_solref", "solimp": "jnt_solimp", "margin": "jnt_margin"},
    "tendon": {
        **{"solref": "tendon_solref_lim", "solimp": "tendon_solimp_lim", "margin": "tendon_margin"},
        **{"friction_solref": "tendon_solref_fri", "friction_solimp": "tendon_solimp_fri"},
    },
    "eq": {"solref": "eq_solref", "solimp": "eq_solimp"},
}

# Attributes of MJCF, by the name of the builder's value.
_ROWS = {"solref": "solreflimit", "solimp": "solimplimit", "margin": "margin"}
_ROWS |= {"friction_solref": "solreffriction", "friction_solimp": "solimpfriction"}
ATTRIBUTES = {"geom": tuple(NAMES["geom"]), "constraint": ("solref", "solimp", "torquescale")}
ATTRIBUTES = {kind: {name: name for name in names} for kind, names in ATTRIBUTES.items()}
ATTRIBUTES |= {"joint": _ROWS, "tendon": _ROWS}
LAW_FIELDS = {kind: tuple(names) for kind, names in ATTRIBUTES.items()}


def law_of(m, kind: str, index: int) -> dict:
    """Arguments of the builder for MuJoCo's law of one element."""
    return {name: getattr(m, field)[index] for name, field in NAMES[kind].items() if hasattr(m, field)}


def enabled(m, name: str) -> bool:
    """Whether an enable flag, such as "OVERRIDE", is set; False in versions of MuJoCo without it."""
    flag = getattr(mujoco.mjtEnableBit, f"mjENBL_{name}", None)
    return flag is not None and bool(int(m.opt.enableflags) & int(flag))


def options_of(m) -> MuJoCoOptions:
    """The options of MuJoCo's law."""
    return MuJoCoOptions(
        cone=CONES[int(m.opt.cone)],
        impratio=float(m.opt.impratio),
        integrator=INTEGRATORS[int(m.opt.integrator)],
        iterations=int(m.opt.iterations),
        tolerance=float(m.opt.tolerance),
        refsafe=not disabled(m, "REFSAFE"),
        eulerdamp=not disabled(m, "EULERDAMP"),
        diagexact=enabled(m, "DIAGEXACT"),
        speculative=enabled(m, "SPECULATIVE"),
        noslip_iterations=int(m.opt.noslip_iterations),
    )


def option_attributes(options: MuJoCoOptions) -> tuple[dict, dict]:
    """Attributes of `<option>` and of its `<flag>`, None where they are MuJoCo's default."""
    plain = MuJoCoOptions()
    found = {name: unless(value, getattr(plain, name)) for name, value in dataclasses.asdict(options).items()}
    words = {"refsafe": "disable", "eulerdamp": "disable", "diagexact": "enable", "speculative": "enable"}
    return found, {flag: None if found.pop(flag) is None else word for flag, word in words.items()}


def law_attributes(kind: str, item) -> dict:
    """Attributes of MJCF for the law of a builder's element, None where it is MuJoCo's default."""
    found = {}
    for name, attribute in ATTRIBUTES[kind].items():
        default = DEFAULTS[kind][name] if name in DEFAULTS[kind] else DEFAULTS[f"{kind}_friction"][name[9:]]
        found[attribute] = unless(np.reshape(getattr(item, name), (-1, *np.shape(default)))[0], default)
    return found


def pair_elements(b, pair: tuple) -> list[dict]:
    """Attributes of the `<pair>`s of one explicit pair of a builder."""
    first, second, mu, condim, torsional, rolling, margin, *laws = pair
    geoms = [b.geoms[first], b.geoms[second]]
    friction = (mu, mu, torsional, rolling, rolling)
    found = []
    for row in laws or [pair_row(geoms, "pair", friction, condim, margin)]:
        own = {name: np.array(row)[columns] for name, columns in PAIR_LAW.items()}
        law = {"solref": unless(own["pair_solref"], SOLREF), "solimp": unless(own["pair_solimp"], SOLIMP)}
        law["solreffriction"] = unless(own["pair_solreffriction"], np.zeros(2))
        law |= {"condim": own["pair_own_condim"], "friction": own["pair_own_friction"]}
        found.append(law | {"margin": unless(own["pair_own_margin"], 0.0)})
    return found


def pair_law(m, p: int) -> list[float]:
    """Pair p as a row of `warpsim.model.mujoco_options.PAIR_LAW`."""
    fields = ("solref", "solreffriction", "solimp", "friction", "dim", "margin")
    return np.concatenate([np.ravel(getattr(m, f"pair_{field}")[p]) for field in fields]).tolist()


def with_override(m):
    """The model, or a copy with the parameters of the contact override on all geoms and pairs if it is enabled."""
    if not enabled(m, "OVERRIDE"):
        return m
    m, o = copy.copy(m), m.opt
    m.geom_friction[:] = o.o_friction[[0, 2, 3]]
    m.geom_margin[:] = 0.5 * o.o_margin
    m.pair_friction[:], m.pair_margin[:] = o.o_friction, o.o_margin
    for field in ("geom_solref", "pair_solref", "pair_solreffriction"):
        getattr(m, field)[:] = o.o_solref
    m.geom_solimp[:] = m.pair_solimp[:] = o.o_solimp
    return m
