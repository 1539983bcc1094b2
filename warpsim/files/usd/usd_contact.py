# SPDX-License-Identifier: Apache-2.0
"""What Newton's, PhysX's and MuJoCo's schemas say of contact beyond UsdPhysics, for `ModelBuilder.add_geom`."""

import warnings

import mujoco
import numpy as np

from warpsim.base.checks import listed
from warpsim.base.errors import ModelError
from warpsim.model.model import ReportLine

CONDIMS = (1, 3, 4, 6)


def material_values(authored, prim, units) -> dict:
    """Torsional and rolling friction [m], stiffness [N/m] and dissipation time [s] that a physics material gives."""

    def first(names, scale):
        values = [(name, authored.number(prim, name, infinite=True)) for name in names]
        return authored.first(
            prim, [(name, value * scale) for name, value in values if value is not None and value >= 0]
        )

    found = {
        f"{kind}_friction": first((f"newton:{kind}Friction", f"mjc:{kind}friction"), units.length)
        for kind in ("torsional", "rolling")
    }
    stiffness, damping = (
        first((f"newton:contact{kind}", f"physxMaterial:compliantContact{kind}"), units.mass)
        for kind in ("Stiffness", "Damping")
    )
    if stiffness and np.isfinite(stiffness):
        found |= {"stiffness": stiffness, "dissipation_time": None if damping is None else damping / stiffness}
    elif damping:
        why = "without a finite stiffness contact is near-rigid, with its own damping"
        authored.warn(f"contact damping of {prim.GetPath()}", why)
    return {key: value for key, value in found.items() if value is not None}


def collider_values(authored, prims, units) -> dict:
    """Margin [m], condim and priority of a shape, and its (solref, solimp) as "soft".

    Each value comes from the first of the shape's prims that gives it.
    """
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
        soft = [authored.numbers(prim, f"mjc:sol{name}", size) for name, size in (("ref", 2), ("imp", 5))]
        soft = None if soft[0] is None and soft[1] is None else soft
        for key, value in (("margin", margin), ("condim", condim), ("priority", priority), ("soft", soft)):
            if value is not None:
                found.setdefault(key, value)
    return found


def soften(b, soft: dict[int, list], warn) -> None:
    """Give geoms the stiffness and dissipation time of their `mjc:solref` and `mjc:solimp`, as in MJCF.

    MuJoCo scales both by a weight of the geom's body in the initial state. Its compiler finds this weight from the
    model written as MJCF.
    """
    from warpsim.files.mjcf.mjcf_constraints import compliance
    from warpsim.files.mjcf.mjcf_report import DEFAULT_SOLIMP, DEFAULT_SOLREF

    laws = {}
    for g, (solref, solimp) in soft.items():
        law = DEFAULT_SOLREF if solref is None else solref, DEFAULT_SOLIMP if solimp is None else solimp
        b.geoms[g].solref, b.geoms[g].solimp = law
        if not (np.allclose(law[0], DEFAULT_SOLREF) and np.allclose(law[1], DEFAULT_SOLIMP)):
            laws[g] = law
    if not laws:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what MJCF cannot express
            m = b.build().to_mjspec().compile()
    except (ModelError, ValueError) as error:
        named = listed(b.geoms[g].name for g in laws)
        warn(
            f"mjc:solref and mjc:solimp of {named}", f"contact is near-rigid: MuJoCo cannot weigh their bodies: {error}"
        )
        return
    for g, law in laws.items():
        geom = b.geoms[g]
        k = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_BODY, b.bodies[geom.body].name) if geom.body >= 0 else 0
        stiffness, time = compliance(m, *law, float(m.body_invweight0[k].flat[0]))
        geom.stiffness, geom.dissipation_time = stiffness, np.nan if time is None else time
        geom.mapped_stiffness = stiffness if np.isfinite(stiffness) else np.nan
    why = f"{len(laws)} geoms: stiffness and dissipation time, as of MJCF"
    b.report.append(ReportLine("mjc:solref and mjc:solimp", "mapped", why))
