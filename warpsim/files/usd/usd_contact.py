# SPDX-License-Identifier: Apache-2.0
"""What Newton's, PhysX's and MuJoCo's schemas say of contact beside UsdPhysics, as `ModelBuilder.add_geom` takes it."""

import numpy as np

from warpsim.errors import ModelError

CONDIMS = (1, 3, 4, 6)


def material_values(authored, prim, units) -> dict:
    """Torsional and rolling friction [m], stiffness [N/m] and dissipation time [s] of a physics material, those that it gives."""

    def first(names, scale, low=0.0):
        values = [(name, authored.number(prim, name, infinite=True)) for name in names]
        return authored.first(
            prim, [(name, value * scale) for name, value in values if value is not None and value > low]
        )

    kinds = ("torsional", "rolling")
    found = {f"{k}_friction": first((f"newton:{k}Friction", f"mjc:{k}friction"), units.length, -0.0) for k in kinds}
    names = (("newton:contactStiffness", "physxMaterial:compliantContactStiffness"),)
    names += (("newton:contactDamping", "physxMaterial:compliantContactDamping"),)
    stiffness, damping = (first(names[k], units.mass) for k in (0, 1))
    if stiffness is not None and np.isfinite(stiffness):
        found |= {"stiffness": stiffness, "dissipation_time": None if damping is None else damping / stiffness}
    elif damping is not None:
        authored.warn(
            f"contact damping of {prim.GetPath()}",
            "without a finite stiffness contact is near-rigid, with its own damping",
        )
    return {key: value for key, value in found.items() if value is not None}


def collider_values(authored, prims, units) -> dict:
    """Margin [m], condim and priority of a shape, of the first of its prims that says any."""
    found: dict = {}
    for prim in prims:
        choices = []
        for name in ("newton:contactMargin", "mjc:margin", "physxCollision:restOffset"):
            value = authored.number(prim, name, infinite=True)
            if value is not None and np.isfinite(value) and value < 0:
                authored.warn(f"{name} of {prim.GetPath()}", "bodies touch where their surfaces meet, not beyond")
            elif value is not None and np.isfinite(value):
                choices.append((name, value * units.length))
        margin = authored.first(prim, choices)
        condim, priority = authored.get(prim, "mjc:condim"), authored.get(prim, "mjc:priority")
        if condim is not None and condim not in CONDIMS:
            raise ModelError(f"geom {prim.GetPath()}: mjc:condim is {condim}; it must be 1, 3, 4 or 6")
        for key, value in (("margin", margin), ("condim", condim), ("priority", priority)):
            if value is not None:
                found.setdefault(key, value)
    return found
