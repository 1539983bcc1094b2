# SPDX-License-Identifier: Apache-2.0
"""Which geoms of a USD stage touch: filtered pairs, collision groups, and articulations without self-collision.

Pairs of whole bodies are excluded as bodies. Finer pairs, and groups, go into the contact masks of the geoms: geoms
with the same filters form a class. A class has one bit, and takes the bits of the classes that it may touch. So there
are at most 32 classes.
"""

import collections
import itertools

import numpy as np

from warpsim.base.checks import listed
from warpsim.base.errors import ModelError
from warpsim.model.model import ReportLine

CLASSES = 32
MAX_PAIRS = 2_000_000  # of bodies
MAX_TESTS = 1_000_000  # of geoms against groups and filtered pairs
MAX_KINDS = 400  # of geoms, by their groups and filtered pairs
SELF = ("newton:selfCollisionEnabled", "physxArticulation:enabledSelfCollisions")


class Filters:
    """The filters of a stage.

    `index` maps paths of bodies to builder indices. `geoms` maps the builder's touching geoms to the path of their
    collider.
    """

    def __init__(
        self, stage, b, authored, index: dict, geoms: dict[int, str], articulations: dict[str, list[list[str]]], warn
    ):
        self.stage, self.b, self.authored, self.warn = stage, b, authored, warn
        self.index, self.geoms, self.articulations = index, geoms, articulations
        self.scans = 0
        self.apart: list[tuple[frozenset, frozenset]] = []  # pairs of sets of geoms that do not touch each other

    def add(self, prims) -> None:
        """Read all filters of the prims and apply them to the builder."""
        from pxr import UsdPhysics

        pairs = collections.Counter()
        for prim in prims:
            path = str(prim.GetPath())
            if prim.HasAPI(UsdPhysics.FilteredPairsAPI):
                for target in self.authored.targets(prim, "physics:filteredPairs"):
                    pairs[self._pair(path, target)] += 1
            if path in self.articulations:
                self._articulation(prim, path)
        if pairs[True]:
            self.b.report.append(ReportLine("filtered pairs", "used", f"{pairs[True]}"))
        self._masks([p for p in prims if p.IsA(UsdPhysics.CollisionGroup)])

    def _bounded(self, count: int, what: str) -> None:
        if count * len(self.geoms) > MAX_TESTS:
            raise ModelError(f"{what}: {count} of them and {len(self.geoms)} geoms are too many; filter whole bodies")

    def _articulation(self, prim, path: str) -> None:
        values = [self.authored.flag(prim, name, True) for name in SELF if prim.GetAttribute(name).HasAuthoredValue()]
        if not values or all(values):
            return
        if any(values):
            self.warn(path, f"{SELF[0]} and {SELF[1]} say different things; its links do not collide with each other")
        touching = {self.b.geoms[g].body for g in self.geoms}
        trees = [sorted(touching & {self.index[p] for p in tree}) for tree in self.articulations[path]]
        if sum(len(bodies) ** 2 for bodies in trees) > 2 * MAX_PAIRS:
            self.warn(path, f"its links collide with each other: more than {MAX_PAIRS} pairs to exclude")
            return
        for bodies in trees:
            for pair in itertools.combinations(bodies, 2):
                self.b.exclude(*pair)
        why = f"{sum(map(len, trees))} links do not collide with those of their tree"
        self.b.report.append(ReportLine(f"self-collisions of {path}", "used", why))

    def _members(self, path: str) -> frozenset:
        """The geoms that a filter's path names: those of a body or an articulation, else those at or below it."""
        trees = self.articulations.get(path, [[path]] if path in self.index else [])
        bodies = {self.index[p] for tree in trees for p in tree}
        below = (g for g, own in self.geoms.items() if own == path or own.startswith(path + "/"))
        return frozenset(below) | {g for g in self.geoms if self.b.geoms[g].body in bodies}

    def _pair(self, first: str, second: str) -> bool:
        """Filter a pair; returns whether there was one."""
        a, b = self.index.get(first), self.index.get(second)
        if a is not None and b is not None and a != b:
            self.b.exclude(a, b)
            return True
        self.scans += 1
        self._bounded(self.scans, "filtered pairs of what is no body")
        sides = self._members(first), self._members(second)
        if not all(sides) or first == second:
            self.warn(f"filtered pair {first}, {second}", "not two things that touch")
            return False
        self.apart.append(sides)
        return True

    def _masks(self, groups) -> None:
        """Give geoms contact masks if collision groups or pairs of geoms keep some apart."""
        if not self.apart and not groups:
            return
        if len(self.geoms) < sum(geom.contype or geom.conaffinity for geom in self.b.geoms):
            self.warn(listed(str(p.GetPath()) for p in groups), "the contact masks of our own export count instead")
            return
        self._bounded(len(groups), "collision groups")
        member, rules = self._groups(groups)
        keys: dict[tuple, list[int]] = collections.defaultdict(list)
        for g in self.geoms:
            sides = frozenset((k, s) for k, pair in enumerate(self.apart) for s in (0, 1) if g in pair[s])
            keys[(member.get(self.geoms[g], ()), sides)].append(g)
        kinds, names = list(keys), listed(str(p.GetPath()) for p in groups) if groups else "filtered pairs of colliders"
        if len(kinds) > MAX_KINDS:
            self.warn(names, f"they make {len(kinds)} kinds of colliders, more than {MAX_KINDS}; all of them collide")
            return
        allowed = np.ones((len(kinds), len(kinds)), bool)
        for i, (these, sides) in enumerate(kinds):
            for j, (those, others) in enumerate(kinds[: i + 1]):
                apart = any((k, 1 - s) in others for k, s in sides)
                allowed[i, j] = allowed[j, i] = not apart and rules(these, those)
        if allowed.all():
            self.b.report.append(ReportLine(names, "used", "they keep nothing apart"))
            return
        rows, place = np.unique(allowed, axis=0, return_inverse=True)
        place = place.reshape(-1)
        if len(rows) > CLASSES:
            self._bodies_apart(kinds, keys, allowed, names)
            return
        for i, kind in enumerate(kinds):
            touched = {int(place[j]) for j in np.flatnonzero(allowed[i])}
            for g in keys[kind]:
                self.b.geoms[g].contype = _signed(1 << int(place[i]))
                self.b.geoms[g].conaffinity = _signed(sum(1 << k for k in touched))
        if groups:
            why = f"{len(groups)}, in the masks of {len(self.geoms)} geoms"
            self.b.report.append(ReportLine("collision groups", "mapped", why))

    def _bodies_apart(self, kinds, keys, allowed, names: str) -> None:
        """Exclude pairs of bodies none of whose geoms may touch, if there are too many classes for masks."""
        of_body: dict[int, set[int]] = collections.defaultdict(set)
        for i, kind in enumerate(kinds):
            for g in keys[kind]:
                of_body[self.b.geoms[g].body].add(i)
        bodies = {body: sorted(those) for body, those in sorted(of_body.items())}
        if len(bodies) ** 2 > 2 * MAX_PAIRS:
            self.warn(names, f"{len(bodies)} bodies are too many to exclude in pairs; all of them collide")
            return
        mixed = 0
        for (a, first), (b, second) in itertools.combinations(bodies.items(), 2):
            cell = allowed[np.ix_(first, second)]
            if not cell.any():
                self.b.exclude(a, b)
            else:
                mixed += not cell.all()
        if mixed:
            self.warn(
                names, f"more than {CLASSES} classes of colliders; {mixed} pairs of bodies collide that should in part"
            )
        else:
            self.b.report.append(ReportLine(names, "mapped", f"to excluded pairs of {len(bodies)} bodies"))

    def _groups(self, groups):
        """The groups of each collider that is in any, and a function: whether colliders of some groups may touch."""
        from pxr import Sdf, UsdPhysics

        member: dict[str, list[str]] = collections.defaultdict(list)
        inverted: set[str] = set()
        merged = collections.defaultdict(list)
        for prim in groups:
            group = UsdPhysics.CollisionGroup(prim)
            query = group.GetCollidersCollectionAPI().ComputeMembershipQuery()
            for path in set(self.geoms.values()):
                if query.IsPathIncluded(Sdf.Path(path)):
                    member[path].append(str(prim.GetPath()))
            merged[str(group.GetMergeGroupNameAttr().Get() or "") or str(prim.GetPath())].append(group)
        for those in merged.values():
            if any(group.GetInvertFilteredGroupsAttr().Get() for group in those):
                inverted.update(str(group.GetPrim().GetPath()) for group in those)
        table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(self.stage) if groups else None

        def rules(these, those) -> bool:
            if these and those:
                return all(table.IsCollisionEnabled(Sdf.Path(x), Sdf.Path(y)) for x in these for y in those)
            return not inverted.intersection(these or those)

        return {path: tuple(sorted(names)) for path, names in member.items()}, rules


def _signed(mask: int) -> int:
    return mask - (1 << 32) if mask >= 1 << 31 else mask
