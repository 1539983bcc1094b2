# SPDX-License-Identifier: Apache-2.0
"""Paths of spatial tendons: the builder's argument, its checks, and the `wrap_*` fields of a `Model`."""

import dataclasses
import enum
import typing

import numpy as np

from warpsim.base.checks import number, short
from warpsim.base.errors import ModelError, named
from warpsim.base.reprs import fields_described
from warpsim.model.columns import columns
from warpsim.model.model import GeomType, Model


class WrapType(enum.IntEnum):
    """Elements of a path."""

    SITE = 0
    GEOM = 1
    PULLEY = 2


@fields_described
class Pulley(typing.NamedTuple):
    """Begin a new branch of a tendon's path.

    The branch's length counts 1/divisor in the tendon's length, and it pulls with 1/divisor of the tendon's force.

    Parameters
    ----------
    divisor : float
        The divisor, positive.

    Examples
    --------
    >>> builder = ws.ModelBuilder()
    >>> sites = [builder.add_site(pose=[x, 0, 0]) for x in (0, 1, 2, 3)]
    >>> builder.add_tendon(path=[0, 1, ws.Pulley(2.0), 2, 3])
    0
    """

    divisor: float


@dataclasses.dataclass
class Wrap:
    type: WrapType
    object: int = -1  # a site or geom of the builder
    side: int = -1  # a site
    divisor: float = 1.0


def read_path(b, path, label: str) -> list[Wrap]:
    """The elements of a path: sites, pairs (geom, side site or None), `Pulley`s; `ModelError` names what is wrong."""
    if isinstance(path, (str, bytes)) or not isinstance(path, (list, tuple)):
        raise ModelError(
            f"{label}: path is {short(path)}; give a list of sites, pairs (geom, side site) and ws.Pulley(divisor)"
        )
    found = [_element(b, item, label) for item in path]
    _check_order(b, found, label)
    return found


def _element(b, item, label: str) -> Wrap:
    if isinstance(item, Pulley):
        rule = "a pulley's divisor must be positive and finite"
        return Wrap(
            WrapType.PULLEY,
            divisor=number(item.divisor, f"{label}: pulley", rule, lambda x: 0 < x < np.inf, ModelError),
        )
    with named(label):
        if not isinstance(item, tuple):
            return Wrap(WrapType.SITE, b._site(item))
        if len(item) not in (1, 2):
            raise ModelError(f"{short(item)} is no element of a path; a geom is given as (geom, side site or None)")
        geom, side = b._geom(item[0]), item[1] if len(item) == 2 else None
        wrap = Wrap(WrapType.GEOM, geom, -1 if side is None else b._site(side))
    shape = b.geoms[geom]
    if shape.type not in (GeomType.SPHERE, GeomType.CYLINDER):
        raise ModelError(
            f"{label} wraps geom {shape.name!r}, a {GeomType(shape.type).name.lower()}; only spheres and cylinders "
            "can be wrapped"
        )
    if wrap.side >= 0 and b.sites[wrap.side].body != shape.body:
        raise ModelError(
            f"{label}: side site {b.sites[wrap.side].name!r} is not on the body of geom {shape.name!r}; it must move "
            "with the geom that it is a side of"
        )
    return wrap


def _check_order(b, path: list[Wrap], label: str) -> None:
    kinds = [wrap.type for wrap in path]
    if kinds.count(WrapType.SITE) < 2:
        raise ModelError(f"{label}: its path has {kinds.count(WrapType.SITE)} sites; give it two at least")
    for i, kind in enumerate(kinds):
        neighbours = [kinds[j] if 0 <= j < len(kinds) else None for j in (i - 1, i + 1)]
        if kind == WrapType.GEOM and neighbours != [WrapType.SITE] * 2:
            raise ModelError(f"{label}: geom {b.geoms[path[i].object].name!r} must stand between two sites of its path")
        first_of_all = kind == WrapType.PULLEY and i == 0
        if kind == WrapType.PULLEY and not first_of_all and neighbours[0] != WrapType.SITE:
            raise ModelError(f"{label}: pulley {i} of its path must come after a site")
    branches: list[int] = [0]
    for kind in kinds:
        if kind == WrapType.PULLEY:
            branches.append(0)
        branches[-1] += kind == WrapType.SITE
    if kinds[0] == WrapType.PULLEY:
        del branches[0]
    if min(branches) < 2:
        raise ModelError(f"{label}: between pulleys, and before and after them, its path needs two sites at least")


def compile_paths(b) -> dict:
    """The `wrap_*` fields of the Model."""
    found = [(t, wrap) for t, tendon in enumerate(b.tendons) for wrap in tendon.path]
    return columns("wrap", [wrap for _, wrap in found]) | {
        "wrap_tendon": np.array([t for t, _ in found], dtype=np.int32)
    }


def path_of(model: Model, t: int, geom: int = 0, site: int = 0) -> list | None:
    """The path of tendon t as `add_tendon` takes it, None for a fixed tendon.

    Indices of geoms and sites are offset by `geom` and `site`.
    """
    found: list = []
    for i in np.flatnonzero(model.wrap_tendon == t):
        kind, index, side = WrapType(model.wrap_type[i]), int(model.wrap_object[i]), int(model.wrap_side[i])
        if kind == WrapType.PULLEY:
            found.append(Pulley(float(model.wrap_divisor[i])))
        elif kind == WrapType.SITE:
            found.append(site + index)
        else:
            found.append((geom + index, None if side < 0 else site + side))
    return found or None


def check_paths(model: Model) -> None:
    """Raise `ModelError` where the `wrap_*` fields of a model read from a file of arrays do not fit the rest."""
    kinds, tendons = model.wrap_type, model.wrap_tendon
    counts = {int(WrapType.SITE): model.nsite, int(WrapType.GEOM): model.ngeom, int(WrapType.PULLEY): 0}
    for i, kind in enumerate(kinds.tolist()):
        least, most = (-1, 0) if kind == WrapType.PULLEY else (0, counts.get(kind, 0))
        if kind not in counts or not least <= model.wrap_object[i] < most:
            raise ModelError(
                f"wrap_type[{i}] is {kind} and wrap_object[{i}] {model.wrap_object[i]}: there is no such element"
            )
        inner = 0 < i < len(kinds) - 1 and tendons[i - 1] == tendons[i] == tendons[i + 1]
        if kind == WrapType.GEOM and not (inner and kinds[i - 1] == kinds[i + 1] == WrapType.SITE):
            raise ModelError(f"wrap_type[{i}] is a geom; it must stand between two sites of its tendon")
    if (np.diff(tendons) < 0).any():
        raise ModelError("wrap_tendon must not decrease")
    if not (model.wrap_divisor > 0).all():
        raise ModelError("wrap_divisor must be positive")
