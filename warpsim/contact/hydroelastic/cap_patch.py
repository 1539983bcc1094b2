# SPDX-License-Identifier: Apache-2.0
"""Contact patches of spheres on planes, on the host. Their contact has a closed form without polygons
(`kernels/contact/hydroelastic/caps.py`)."""

import numpy as np

from warpsim.contact.hydroelastic.pressure_contact import PressureContact
from warpsim.model.geometry import rotation_matrix

RINGS, SECTORS = 4, 24  # of the displayed surface


def cap_patches(pressure: PressureContact, geom_X: np.ndarray, world: int) -> dict[int, dict]:
    """By pair: the fields of `ContactPatch` for the spheres on planes of one world. `geom_X`: poses (ngeom, 7) as [x y
    z qx qy qz qw]."""
    found = {}
    for pair in pressure.pairs[pressure.caps].tolist():
        patch = _cap(pressure, geom_X, world, pair)
        if patch is not None:
            found[pair] = patch
    return found


def _cap(pressure: PressureContact, geom_X: np.ndarray, world: int, pair: int) -> dict | None:
    model, stored = pressure.model, pressure.device_model.parameters.stored

    def value(name: str, geom: int):
        rows = stored(name).numpy()
        return np.asarray(rows[world % len(rows), geom], float)

    a, b = (int(g) for g in model.pair_geom[pair])  # the plane comes first
    soft = b if np.isfinite(value("geom_hydroelastic_modulus", b)) else a
    pose = geom_X[a].astype(float)
    turn = rotation_matrix(pose[[6, 3, 4, 5]])
    centre, R, E = (
        geom_X[b, :3].astype(float),
        float(value("geom_size", b)[0]),
        float(value("geom_hydroelastic_modulus", soft)),
    )
    height = float(turn[:, 2] @ (centre - pose[:3]))
    if height >= R or height <= -R or not np.isfinite(geom_X[[a, b]]).all():
        return None
    d = R - abs(height) if soft == b else R - height
    if soft == b:
        force, stiffness = np.pi * E * d**2 * (1 - 2 * d / (3 * R)), 2 * np.pi * E * abs(height) * d / R
        area, deepest, middle = np.pi * (R**2 - height**2), d / R, -height
    else:
        t = float(value("geom_hydroelastic_thickness", a))
        s = max(height, 0.0)
        force, stiffness = np.pi * E / t * d**2 * (R - d / 3), 2 * np.pi * E / (3 * t * R) * (R**3 - s**3)
        area, deepest, middle = 2 * np.pi * R * d, d / t, -(R + height) / 2
    up = turn[:, 2]
    rho = np.sqrt(R**2 - height**2) * np.linspace(0, 1, RINGS + 1)
    rise = np.full(RINGS + 1, -height) if soft == b else -np.sqrt(R**2 - rho**2)
    p = E * (1 - np.hypot(rho, height) / R) if soft == b else E * (-rise - height) / t
    angle = 2 * np.pi * np.arange(SECTORS + 1) / SECTORS
    circle = np.cos(angle)[:, None] * turn[:, 0] + np.sin(angle)[:, None] * turn[:, 1]
    grid = centre + rho[:, None, None] * circle + rise[:, None, None] * up
    corners = [(k, j) for k in range(RINGS) for j in range(SECTORS)]
    return {
        "geoms": (a, b),
        "area": float(area),
        "centroid": centre + middle * up,
        "stiffness": float(stiffness),
        "coherence": 1.0,
        "depth": float(deepest),
        "elastic_force": force * up,
        "elastic_moment": np.zeros(3),
        "vertices": [np.array([grid[k, j], grid[k + 1, j], grid[k + 1, j + 1], grid[k, j + 1]]) for k, j in corners],
        "pressure": [np.array([p[k], p[k + 1], p[k + 1], p[k]]) for k, _ in corners],
    }
