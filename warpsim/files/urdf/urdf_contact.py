# SPDX-License-Identifier: Apache-2.0
"""Drake's contact properties in a URDF: `<drake:proximity_properties>` of a `<collision>`.

https://drake.mit.edu/doxygen_cxx/group__multibody__parsing.html. A value is in `value=`, or is text, as in SDF.
"""

import collections
import dataclasses

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError
from warpsim.files.pressure_fields import properties
from warpsim.files.safe_files import real_of
from warpsim.model.hydroelastic import Hydroelastic
from warpsim.model.model import ReportLine

GROUP = "drake:proximity_properties"
SWITCHES = ("compliant_hydroelastic", "rigid_hydroelastic")
NUMBERS = (
    *("hydroelastic_modulus", "mesh_resolution_hint", "hydroelastic_margin"),
    *("relaxation_time", "mu_dynamic", "mu_static", "point_contact_stiffness"),
)
POSITIVE = ("hydroelastic_modulus", "mesh_resolution_hint", "point_contact_stiffness")
IGNORED = {"hunt_crossley_dissipation": "contact has a relaxation time instead: give drake:relaxation_time"}
WHAT = {  # for the report: what becomes of a property that is read
    "compliant_hydroelastic": ("used", "contact by pressure fields"),
    "rigid_hydroelastic": ("used", "contact by pressure fields with compliant geoms"),
    "hydroelastic_modulus": ("used", "the pressure in the middle of the shape"),
    "mesh_resolution_hint": ("used", "the longest edge of the polyhedron of a curved shape"),
    "hydroelastic_margin": ("used", "of compliant shapes"),
    "relaxation_time": (
        "mapped",
        "dissipation_time; of a pair the mean weighted by compliance, where Drake adds the two",
    ),
    "mu_dynamic": ("used", "Coulomb friction"),
    "mu_static": ("mapped", "Coulomb friction where there is no drake:mu_dynamic: there is one coefficient"),
    "point_contact_stiffness": ("used", "stiffness of point contact"),
}


@dataclasses.dataclass
class Contact:
    """Contact properties of a collision: `material` (arguments of `ModelBuilder.add_geom`) and its pressure field."""

    material: dict
    hydroelastic: Hydroelastic | None = None


def read_contact(element, label: str, counts: collections.Counter) -> Contact | None:
    """The properties of a `<collision>`; None if it has none. `counts` counts the names that it has.

    Raises `ModelError` that names the element, the value and the fix.
    """
    group = element.find(GROUP)
    if group is None:
        return None
    values: dict[str, float] = {}
    for child in group:
        name = child.tag.removeprefix("drake:")
        counts[name] += 1
        if name in SWITCHES:
            values[name] = 1.0
        elif name in NUMBERS:
            values[name] = _value(child, name, label)
    if all(name in values for name in SWITCHES):
        raise ModelError(f"{label}: both <drake:rigid_hydroelastic> and <drake:compliant_hydroelastic>; keep one")
    material = {}
    friction = values.get("mu_dynamic", values.get("mu_static"))
    named = (("friction", friction), ("dissipation_time", values.get("relaxation_time")))
    for name, value in (*named, ("stiffness", values.get("point_contact_stiffness"))):
        if value is not None:
            material[name] = value
    resolution, margin = values.get("mesh_resolution_hint"), values.get("hydroelastic_margin", 0.0)
    soft = None
    if "rigid_hydroelastic" in values:
        soft = properties(label, np.inf, resolution, None, margin)
    elif "compliant_hydroelastic" in values:
        if "hydroelastic_modulus" not in values:
            raise ModelError(
                f"{label}: <drake:compliant_hydroelastic> without a modulus; give <drake:hydroelastic_modulus "
                'value="..."/> [Pa]'
            )
        soft = properties(label, values["hydroelastic_modulus"], resolution, None, margin)
    return Contact(material, soft)


def _value(child, name: str, label: str) -> float:
    text = child.get("value")
    text = (child.text or "").strip() if text is None else text
    value = real_of(text)
    wanted = "a positive number" if name in POSITIVE else "a number, not negative"
    if not (0 <= value < np.inf) or (name in POSITIVE and value == 0):
        raise ModelError(f'{label}: <drake:{name}> is {short(text)}; give {wanted}, as value="..."')
    return value


def contact_lines(counts: collections.Counter) -> list[ReportLine]:
    """The report lines for the properties that a file has."""
    lines = []
    for name, count in sorted(counts.items()):
        status, why = WHAT.get(
            name, ("ignored", IGNORED.get(name, f"not known here; known are {listed(sorted(WHAT))}"))
        )
        lines.append(ReportLine(f"drake:{name}", status, f"{count}: {why}"))
    return lines
