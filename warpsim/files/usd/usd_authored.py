# SPDX-License-Identifier: Apache-2.0
"""The values that a stage authors on simulated prims, and those of them that were not read.

`Authored` returns values and remembers which were read. `unread` then goes through every authored property and applied
schema of bodies, joints, colliders, articulation roots, scenes and materials. A property or schema that was not read
gets a line of the report by the tables of `usd_known`, and a warning if it changes the motion.
"""

import collections

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError
from warpsim.files.usd import usd_known as known
from warpsim.model.model import ReportLine

LIMITLESS = 1e30  # what some exporters write for infinity

IMPLIED = {  # schemas that apply another one, where their USD plugins are installed
    "NewtonCollisionAPI": "PhysicsCollisionAPI",
    "NewtonMeshCollisionAPI": "PhysicsMeshCollisionAPI",
    "MjcCollisionAPI": "PhysicsCollisionAPI",
    "MjcMeshCollisionAPI": "PhysicsMeshCollisionAPI",
    "NewtonArticulationRootAPI": "PhysicsArticulationRootAPI",
    "NewtonMassAPI": "PhysicsMassAPI",
    "NewtonMaterialAPI": "PhysicsMaterialAPI",
    "MjcMaterialAPI": "PhysicsMaterialAPI",
}


class Authored:
    """Checked values of prims by name; values that were returned count as read."""

    def __init__(self, warn, report: list):
        self.warn, self.report = warn, report
        self.read: set[tuple[str, str]] = set()

    def get(self, prim, name: str, default=None):
        """The authored value of an attribute; `default` if it has none."""
        attribute = prim.GetAttribute(name)
        if not attribute or not attribute.HasAuthoredValue():
            return default
        self.read.add((str(prim.GetPath()), name))
        value = attribute.Get()
        return default if value is None else value

    def number(self, prim, name: str, default=None, low: float = -np.inf, infinite: bool = False):
        """A finite number of at least `low`; with `infinite` also infinities, and what exporters write for them."""
        value = self.get(prim, name)
        if value is None:
            return default
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and not np.isnan(value)
        if number and infinite and abs(value) >= LIMITLESS:
            return float(np.copysign(np.inf, value))
        if not number or not np.isfinite(value) or value < low:
            rule = "a finite number" if low == -np.inf else f"a finite number of at least {low:g}"
            raise ModelError(f"{prim.GetPath()}: {name} is {short(value)}; it must be {rule}")
        return float(value)

    def flag(self, prim, name: str, default: bool) -> bool:
        """A bool; 0 and 1 count too."""
        value = self.get(prim, name, default)
        if isinstance(value, str) or not isinstance(value, (bool, int)):
            raise ModelError(f"{prim.GetPath()}: {name} is {short(value)}; it must be true or false")
        return bool(value)

    def numbers(self, prim, name: str, size: int, default=None):
        """The authored array of `size` finite numbers; `default` if there is none."""
        value = self.get(prim, name)
        if value is None:
            return default
        try:
            found = np.array(value, float).reshape(-1)
        except (TypeError, ValueError):
            found = np.zeros(0)
        if found.shape != (size,) or not np.isfinite(found).all():
            raise ModelError(f"{prim.GetPath()}: {name} is {short(value)}; it must be {size} finite numbers")
        return found

    def word(self, prim, name: str, words: tuple, default: str) -> str:
        """The authored word, which must be one of `words`; `default` if there is none."""
        value = str(self.get(prim, name, default))
        if value not in words:
            raise ModelError(f"{prim.GetPath()}: {name} is {short(value)}; it must be one of {listed(words)}")
        return value

    def first(self, prim, choices, default=None):
        """The first authored one of `choices` (name, value in SI or None); warns if another one has another value."""
        found = [(name, value) for name, value in choices if value is not None]
        for name, value in found[1:]:
            if not np.isclose(value, found[0][1], rtol=1e-4, atol=0.0):
                self.warn(f"{prim.GetPath()}", f"{found[0][0]} counts, {name} says otherwise")
        return found[0][1] if found else default

    def targets(self, prim, name: str) -> list[str]:
        """Paths that a relationship names."""
        relationship = prim.GetRelationship(name)
        if not relationship or not relationship.HasAuthoredTargets():
            return []
        self.read.add((str(prim.GetPath()), name))
        return [str(path) for path in relationship.GetTargets()]

    def passed(self, prim, *names: str) -> None:
        """Mark properties that were read elsewhere."""
        self.read.update((str(prim.GetPath()), name) for name in names)

    # What was not read -----------------------------------------------------------------------------------------------

    def unread(self, prims, kinematic) -> None:
        """Report each kind of authored property and applied schema that was not read.

        `kinematic(prim)` says whether a prim is fixed in the world.
        """
        said: dict[tuple, list[str]] = collections.defaultdict(list)
        used: collections.Counter = collections.Counter()
        for prim in prims:
            schemas = applied(prim)
            names = [str(name) for name in prim.GetAuthoredPropertyNames()]
            if not _simulated(prim, schemas, names):
                continue
            path, kinds = str(prim.GetPath()), known.kinds_of(prim, schemas)
            for name in names:
                if (path, name) in self.read:
                    used[name] += not name.startswith("physics:")
                else:
                    outcome = _outcome(prim, name, schemas, kinds)
                    if outcome is not None:
                        said[(name, *outcome)].append(path)
                if _sampled(prim, name):
                    placed = prim.GetAttribute(name).Get() is not None
                    drawn = placed and not kinematic(prim) and name.startswith("xformOp:")
                    why = "its samples in time are not read, its default value counts"
                    said[(name, why, not drawn)].append(path)
            if known.unknown_type(prim) and not str(prim.GetTypeName()).endswith("Joint"):
                said[(str(prim.GetTypeName()), "an unknown kind of prim, not simulated", True)].append(path)
            for schema in schemas:
                outcome = known.schema(schema)
                if outcome is not None:
                    said[(schema, *outcome)].append(path)
        self.report.extend(ReportLine(name, "used", f"of {count} prims") for name, count in used.items() if count)
        for (name, why, warns), paths in said.items():
            where = f"{name} of {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
            if warns:
                self.warn(where, why)
            else:
                self.report.append(ReportLine(where, "ignored", why))


def applied(prim) -> list[str]:
    """Names of all applied schemas, also of those that this USD does not know."""
    return [str(name) for name in prim.GetPrimTypeInfo().GetAppliedAPISchemas()]


def imply(stage, prims, warn) -> None:
    """Apply the UsdPhysics schemas that other schemas imply, only in the session layer."""
    from pxr import Usd

    with Usd.EditContext(stage, stage.GetSessionLayer()):
        for prim in prims:
            schemas = applied(prim)
            for schema in sorted({IMPLIED[s] for s in schemas if s in IMPLIED}.difference(schemas)):
                if prim.IsInstanceProxy():
                    warn(
                        str(prim.GetPath()),
                        f"{schema} cannot be applied to a prim of an instance; do it in its prototype",
                    )
                else:
                    prim.AddAppliedSchema(schema)


def _simulated(prim, schemas, names) -> bool:
    words = (str(prim.GetTypeName()), *schemas)
    return any(known.PHYSICS_SCHEMAS.match(word) for word in words) or any(map(known.PHYSICS_NAMES.match, names))


def _sampled(prim, name: str) -> bool:
    attribute = prim.GetAttribute(name)
    return bool(attribute) and attribute.GetNumTimeSamples() > 0


def _outcome(prim, name: str, schemas, kinds) -> tuple[str, bool] | None:
    """(Why a property is not read, whether that changes the motion); None if it is read."""
    attribute = prim.GetAttribute(name)
    if attribute and not attribute.HasAuthoredValue():
        return None  # blocked, or only a connection
    needs = known.needs(name)
    if needs is not None:
        return None if kinds & needs else (known.missing(name, needs), name != known.AXIS)
    row = known.ignored(name)
    if row is not None:
        _, neutral, why, warns = row
        return why, warns and not neutral(attribute.Get() if attribute else None)
    return known.UNKNOWN, bool(known.PHYSICS_NAMES.match(name))
