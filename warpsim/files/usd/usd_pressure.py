# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic contact in USD: attributes `warpsim:hydroelastic:*` of prims with PhysicsCollisionAPI.

They are doubles in the stage's units: `modulus` (inf: rigid) [mass/(length s²)], `resolution`, `thickness` and `margin`
[length]. A field of tetrahedra also has `vertices`, `tetrahedra` and `pressure`.
"""

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.pressure_fields import properties
from warpsim.model.hydroelastic import Hydroelastic, of_geom

PREFIX = "warpsim:hydroelastic:"
NUMBERS = ("modulus", "resolution", "thickness", "margin")
ARRAYS = ("vertices", "tetrahedra", "pressure")


def write_pressure_field(prim, model, geom: int) -> None:
    """Author the attributes of a geom that has a pressure field."""
    from pxr import Sdf, Vt

    soft = of_geom(model, geom)
    if soft is None:
        return
    for name in NUMBERS:
        value = getattr(soft, name)
        if value is not None:
            prim.CreateAttribute(PREFIX + name, Sdf.ValueTypeNames.Double, True).Set(float(value))
    if soft.field is None:
        return
    arrays = {
        "vertices": (Sdf.ValueTypeNames.Double3Array, Vt.Vec3dArray, np.float64),
        "tetrahedra": (Sdf.ValueTypeNames.Int4Array, Vt.Vec4iArray, np.int32),
        "pressure": (Sdf.ValueTypeNames.DoubleArray, Vt.DoubleArray, np.float64),
    }
    for name, (kind, array, dtype) in arrays.items():
        values = np.ascontiguousarray(getattr(soft.field, name), dtype)
        prim.CreateAttribute(PREFIX + name, kind, True).Set(array.FromNumpy(values))


def read_pressure_field(prim, units, label: str) -> Hydroelastic | None:
    """Hydroelastic properties from a prim's attributes, in SI; None if it has none.

    Raises `ModelError` that names prim, attribute, value and fix.
    """
    found = {}
    for name in (*NUMBERS, *ARRAYS):
        attribute = prim.GetAttribute(PREFIX + name)
        if attribute and attribute.HasAuthoredValue():
            found[name] = attribute.Get()
    if not found:
        return None
    scales = {"modulus": units.mass / units.length} | dict.fromkeys(NUMBERS[1:], units.length)
    for name in found.keys() & set(NUMBERS):
        if isinstance(found[name], bool) or not isinstance(found[name], (int, float)):
            raise ModelError(f"{label}: {PREFIX}{name} is {short(found[name])}; it must be one number, of type double")
        found[name] = found[name] * scales[name]
    if "modulus" not in found:
        raise ModelError(
            f"{label}: {PREFIX}{next(iter(found))} without {PREFIX}modulus; give the modulus, inf for a rigid geom"
        )
    field = None
    if "vertices" in found or "tetrahedra" in found:
        arrays = [None if name not in found else np.array(found[name]) for name in ARRAYS]
        if arrays[0] is None or arrays[1] is None:
            raise ModelError(f"{label}: {PREFIX}vertices and {PREFIX}tetrahedra go together; give both, or neither")
        field = (arrays[0] * units.length, *arrays[1:])
    lengths = found.get("resolution"), found.get("thickness"), found.get("margin", 0.0)
    return properties(label, found["modulus"], *lengths, field)
