# SPDX-License-Identifier: Apache-2.0
"""The medium that bodies move in: density, viscosity, wind, and the shapes it acts on (`kernels/forces/fluid.py`)."""

import numpy as np

from warpsim.base.checks import number, numbers
from warpsim.base.errors import ModelError
from warpsim.model.geom_types import half_extents
from warpsim.model.geometry import matrix_quaternion, rotation_matrix
from warpsim.model.model import GeomType, Model

# blunt drag, slender drag, angular drag, Kutta lift, Magnus lift: MuJoCo's
DEFAULT_COEFFICIENTS = (0.5, 0.25, 1.5, 1.0, 1.0)
COLUMNS = 15  # interaction, five coefficients, added mass (3) [m^3], added inertia (3) [m^5], semi-axes (3) [m]
LEAST_MASS = 1e-15  # [kg] least mass of a body that has a box
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def medium_of(density, viscosity, wind) -> dict:
    """The medium's fields of a `Model`; `ModelError` for values that are not allowed."""
    rule = "it must be a finite number, not negative"
    found = {
        f"fluid_{name}": number(value, f"{name} of the medium", rule, lambda x: 0 <= x < np.inf, ModelError)
        for name, value in (("density", density), ("viscosity", viscosity))
    }
    wind = numbers(wind, "wind", ModelError)
    if wind.shape != (3,) or not np.isfinite(wind).all():
        raise ModelError(f"wind is {wind.tolist()}; give three finite values [m/s]")
    return found | {"wind": wind.copy()}


def ellipsoid_row(kind: GeomType, size, fluid, label: str) -> np.ndarray:
    """The `geom_fluid` row of a geom on which the medium acts as on an ellipsoid; zeros where `fluid` is None.

    `fluid`: True for the default coefficients, five coefficients, or a row of `COLUMNS` as stored in a model.
    """
    if fluid is None or fluid is False:
        return np.zeros(COLUMNS)
    given = numbers(DEFAULT_COEFFICIENTS if fluid is True else fluid, f"{label}: fluid", ModelError)
    if given.shape not in ((5,), (COLUMNS,)) or not np.isfinite(given).all() or (given < 0).any():
        raise ModelError(
            f"{label}: fluid is {given.tolist()}; give True, or five numbers, not negative: blunt, slender and "
            "angular drag, Kutta and Magnus lift"
        )
    if given.shape == (COLUMNS,):
        return given.copy()
    if kind in (GeomType.PLANE, GeomType.HFIELD):
        raise ModelError(f"{label}: a {kind.name.lower()} is no ellipsoid that a medium could move; leave fluid out")
    axes = half_extents(kind, size)
    return np.concatenate([[1.0], given, *added_mass(axes), axes])


def added_mass(axes) -> tuple[np.ndarray, np.ndarray]:
    """Added mass [m^3] and inertia [m^5] of an ellipsoid per unit density.

    They follow from potential flow (Lamb, Hydrodynamics, §114-115).
    """
    a = np.asarray(axes, float)
    scale = np.cbrt(a.prod())
    s = a / scale
    x = 0.5 * (NODES + 1.0)
    growth = (x / (1.0 - x)) ** 2  # λ over the square of the scale, from 0 to infinity
    slope = 2.0 * x / (1.0 - x) ** 3
    root = np.sqrt((s[0] ** 2 + growth) * (s[1] ** 2 + growth) * (s[2] ** 2 + growth))
    kappa = np.array([(0.5 * WEIGHTS * slope / ((si**2 + growth) * root)).sum() for si in s])
    volume = 4.0 / 3.0 * np.pi * a.prod()
    inertia = np.zeros(3)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        less = a[j] ** 2 - a[k] ** 2
        below = 2.0 * less + (a[j] ** 2 + a[k] ** 2) * (kappa[j] - kappa[k])
        if abs(less) > 1e-9 * scale**2:
            inertia[i] = volume / 5.0 * less**2 * (kappa[k] - kappa[j]) / below
    return volume * kappa / (2.0 - kappa), np.maximum(inertia, 0.0)


def inertia_axes(inertia) -> np.ndarray:
    """Quaternion of the principal axes of an inertia; the identity where it is diagonal."""
    inertia = np.asarray(inertia, float)
    if np.abs(inertia - np.diag(np.diag(inertia))).max() <= 1e-12 * np.abs(inertia).max(initial=1e-300):
        return np.array([1.0, 0.0, 0.0, 0.0])
    axes = np.linalg.eigh(inertia)[1]
    return matrix_quaternion(axes * np.sign(np.linalg.det(axes)))


def body_boxes(mass, inertia, axes) -> np.ndarray:
    """`(nbody, 7)`: widths [m] and axes of the box with each body's inertia; a massless body has zero widths."""
    rows = np.zeros((len(mass), 7))
    rows[:, 3] = 1.0
    for i, m in enumerate(mass):
        rows[i, 3:] = inertia_axes(inertia[i]) if axes[i] is None else axes[i]
        if m > LEAST_MASS:
            R = rotation_matrix(rows[i, 3:])
            moments = np.diag(R.T @ inertia[i] @ R)
            rows[i, :3] = np.sqrt(6.0 * np.maximum(moments.sum() - 2.0 * moments, LEAST_MASS) / m)
    return rows


def shapes_of(model: Model) -> dict[str, np.ndarray]:
    """The shapes the medium acts on, sorted by tree: a body's ellipsoids if any of its geoms has one, else its box."""
    rows = []
    ellipsoid = model.geom_fluid[:, 0] > 0
    for body in range(model.nbody):
        own = np.flatnonzero(ellipsoid & (model.geom_body == body))
        tree = int(model.link_tree[model.body_link[body]])
        if len(own):
            rows += [(tree, body, int(g)) for g in own]
        elif model.body_fluid[body, :3].any():
            rows.append((tree, body, -1))
    table = np.array(sorted(rows), dtype=np.int32).reshape(-1, 3)
    tree, body, geom = table.T
    on_body = geom < 0
    fluid = np.where(on_body[:, None], 0.0, model.geom_fluid[geom]) if len(table) else np.zeros((0, COLUMNS))
    size = np.where(on_body[:, None], model.body_fluid[body, :3], fluid[:, 12:])
    return {
        "body": body,
        "geom": geom,
        "size": size,
        "axes": model.body_fluid[body, 3:],
        "coefficients": fluid[:, :12],
        "tree_shape": np.searchsorted(tree, np.arange(model.ntree + 1)),
    }
