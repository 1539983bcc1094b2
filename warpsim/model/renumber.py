# SPDX-License-Identifier: Apache-2.0
"""Reorder the bodies, geoms, sites or cameras of a `ModelBuilder`, and update everything that refers to them."""

from warpsim.model.constraint_types import BODY_CONSTRAINTS
from warpsim.model.model import GeomType
from warpsim.model.tendon_paths import WrapType

LISTS = {"body": "bodies", "geom": "geoms", "site": "sites", "camera": "cameras"}


def renumber(b, kind: str, order: list[int]) -> None:
    """Reorder the elements of `kind` such that `order[new] = old`; parents stay before children.

    Elements that `order` leaves out are removed; nothing may refer to them.
    """
    items = getattr(b, LISTS[kind])
    place = {-1: -1} | {old: new for new, old in enumerate(order)}
    if kind == "geom":
        _renumber_shapes(b, order)
    setattr(b, LISTS[kind], [items[old] for old in order])
    {"body": _bodies, "geom": _geoms, "site": _sites, "camera": lambda b, place: None}[kind](b, place)
    for sensor in b.sensors:
        sensor.objects = tuple((t, place[i] if t.element == kind else i) for t, i in sensor.objects)


def _bodies(b, place: dict[int, int]) -> None:
    for body in b.bodies:
        body.parent = place[body.parent]
    for item in (*b.joints, *b.geoms, *b.sites, *b.cameras):
        item.body = place[item.body]
    b.excluded = {tuple(sorted((place[i], place[j]))) for i, j in b.excluded}
    for constraint in b.constraints:
        if constraint.type in BODY_CONSTRAINTS:
            constraint.ends = tuple(place[end] for end in constraint.ends)
    for actuator in b.actuators:
        actuator.target.body = place[actuator.target.body]


def _geoms(b, place: dict[int, int]) -> None:
    b.explicit_pairs = [(*sorted((place[i], place[j])), *law) for i, j, *law in b.explicit_pairs]
    for wrap in (wrap for tendon in b.tendons for wrap in tendon.path if wrap.type == WrapType.GEOM):
        wrap.object = place[wrap.object]


def _renumber_shapes(b, order: list[int]) -> None:
    """Reorder meshes and height fields, which have the order of their geoms."""
    fields = dict(zip((g for g, geom in enumerate(b.geoms) if geom.type == GeomType.HFIELD), b.hfields, strict=True))
    b.hfields = [fields[g] for g in order if g in fields]
    used = [b.geoms[g].mesh for g in order if b.geoms[g].mesh >= 0]
    if len(set(used)) == len(used) == len(b.meshes):
        b.meshes = [b.meshes[mesh] for mesh in used]
        for new, g in enumerate(g for g in order if b.geoms[g].mesh >= 0):
            b.geoms[g].mesh = new


def _sites(b, place: dict[int, int]) -> None:
    for wrap in (wrap for tendon in b.tendons for wrap in tendon.path):
        wrap.side = place[wrap.side]
        if wrap.type == WrapType.SITE:
            wrap.object = place[wrap.object]
    for actuator in b.actuators:
        actuator.target.site = tuple(place[s] for s in actuator.target.site)
