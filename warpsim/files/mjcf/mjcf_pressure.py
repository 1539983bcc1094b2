# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic contact in MJCF, which has no such element: a custom numeric field for each geom.

The field is `<custom><numeric name="hydroelastic:GEOM" data="E resolution thickness margin"/></custom>`. E is in Pa, 0
for a rigid geom; lengths are in m. A value that is missing or 0 is the default.
"""

import mujoco
import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.pressure_fields import properties
from warpsim.model.hydroelastic import Hydroelastic

PREFIX = "hydroelastic:"


def named_numerics(m) -> dict[int, str]:
    """The numeric fields that belong to geoms: the geom's name by the field's index.

    If a spec was attached to another, the names of the field and of the geom have the same prefix and suffix.
    """
    found = {}
    for i in range(m.nnumeric):
        before, prefix, after = (mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_NUMERIC, i) or "").partition(PREFIX)
        if prefix and (not before or mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_GEOM, before + after) >= 0):
            found[i] = before + after
    return found


def pressure_fields(m) -> dict[int, Hydroelastic]:
    """Hydroelastic properties of geoms by their index.

    Raises `ModelError` that names the field, the value and the fix.
    """
    found = {}
    for i, name in named_numerics(m).items():
        label = f"numeric {short(PREFIX + name)}"
        geom = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_GEOM, name)
        if geom < 0:
            raise ModelError(f"{label}: there is no geom {short(name)}; name one of the file's geoms after {PREFIX!r}")
        start, size = int(m.numeric_adr[i]), int(m.numeric_size[i])
        data = np.array(m.numeric_data[start : start + size])
        if not 1 <= size <= 4 or not (np.isfinite(data).all() and (data >= 0).all()):
            raise ModelError(
                f"{label}: data is {data[:8].tolist()}; give 1 to 4 numbers, none negative: the modulus [Pa] (0: "
                "rigid), resolution, thickness and margin [m] (0: the default)"
            )
        modulus, resolution, thickness, margin = np.concatenate([data, np.zeros(4 - size)]).tolist()
        found[geom] = properties(label, modulus or np.inf, resolution or None, thickness or None, margin)
    return found
