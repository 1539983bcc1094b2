# SPDX-License-Identifier: Apache-2.0
"""Checks of single values that users give to a `ModelBuilder`; every function raises `ModelError` with its label."""

import numpy as np

from warpsim.base.checks import number, numbers, short, whole
from warpsim.base.errors import ModelError
from warpsim.model.geometry import IDENTITY
from warpsim.model.model import SIZES, GeomType, HField, Mesh

MOST_HULL_VERTICES = 1 << 18  # feature codes of contact leave room for 2^20 edges
SYMMETRY_TOLERANCE = 1e-9  # relative, of an inertia that a user gives


def array_of(value, label: str) -> np.ndarray:
    return numbers(value, label, ModelError)


def scalar_of(value, label: str) -> float:
    rule = "it must be a finite number, not negative"
    return number(value, label, rule, lambda x: 0 <= x < np.inf, ModelError)


def tangents_of(value, label: str) -> list[float]:
    """Friction along the two tangents; one value is that of both."""
    array = array_of(value, label)
    if array.shape not in ((), (2,)):
        raise ModelError(f"{label} has shape {array.shape}; give one value, or one for each of the two tangents")
    return [scalar_of(x, label) for x in np.broadcast_to(array, 2).tolist()]


def hertz_of(value, kind: GeomType, stiffness: float, label: str) -> float:
    """Hertz modulus of a geom; 0: none."""
    modulus = scalar_of(value, f"{label}: hertz_modulus [Pa]")
    if modulus > 0 and (kind != GeomType.SPHERE or stiffness < np.inf):
        why = f"it is a {kind.name.lower()}" if kind != GeomType.SPHERE else f"stiffness is {stiffness:g}"
        raise ModelError(f"{label}: hertz_modulus needs a sphere without a stiffness of its own, but {why}")
    return modulus


def positive_of(value, label: str) -> float:
    return number(value, label, "it must be positive and finite", lambda x: 0 < x < np.inf, ModelError)


def share_of(value, label: str) -> float:
    return number(value, label, "it must be from 0 to 1", lambda x: 0 <= x <= 1, ModelError)


def unit_of(quaternion: np.ndarray, label: str) -> np.ndarray:
    length = np.linalg.norm(quaternion)
    if length < 1e-8:
        raise ModelError(f"{label} has the quaternion {quaternion.tolist()}; it must not be zero")
    return quaternion / length


def mask_of(value, label: str) -> int:
    """The low 32 bits as a signed number, as MuJoCo keeps them."""
    return (whole(value, label, error=ModelError) + 2**31) % 2**32 - 2**31


def pair_of(value, label: str, wanted: str):
    """Unpack `value` into two parts."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ModelError(f"{label} is {short(value)}; give a pair {wanted}")
    return value


def mesh_of(name: str, mesh, label: str) -> Mesh:
    *mesh, uv = (
        mesh
        if isinstance(mesh, tuple) and len(mesh) == 3
        else (*pair_of(mesh, f"{label}: mesh", "(vertices, faces)"), None)
    )
    vertices, faces = (array_of(x, f"{label}: mesh") for x in mesh)
    shaped = all(x.ndim == 2 and x.shape[1] == 3 and len(x) for x in (vertices, faces))
    if not shaped or not np.isfinite(vertices).all() or not np.isin(faces, np.arange(len(vertices))).all():
        raise ModelError(f"{label}: the mesh needs finite vertices (n, 3) and faces (m, 3) that index them")
    if uv is not None:
        uv = array_of(uv, f"{label}: uv of its mesh").astype(np.float32)
        if uv.shape != (*faces.shape, 2) or not np.isfinite(uv).all():
            raise ModelError(f"{label}: uv of its mesh has shape {uv.shape}; give finite numbers {(*faces.shape, 2)}")
    return Mesh(name, vertices.copy(), faces.astype(int), uv=uv)


def hull_limit(value, label: str) -> int:
    """Checked limit of a mesh's hull vertices; at least the 26 directions that the simplification starts from."""
    value = whole(value, label, 32, ModelError)
    if value > MOST_HULL_VERTICES:
        raise ModelError(f"{label} is {value}; it must be at most {MOST_HULL_VERTICES}")
    return value


def hfield_of(name: str, hfield, label: str) -> HField:
    size, data = pair_of(hfield, f"{label}: hfield", "(size, data)")
    size, data = vector_of(size, 4, f"{label}: height-field size"), array_of(data, f"{label}: height-field data")
    if (size <= 0).any() or data.ndim != 2 or min(data.shape) < 2 or not np.isfinite(data).all() or (data < 0).any():
        raise ModelError(
            f"{label}: a height field needs four positive sizes [m] and data (rows, columns) >= 0, 2 or more"
        )
    return HField(name, size, data.copy())


def bounds_of(field: HField) -> np.ndarray:
    """Half extents (3,) of a box that contains a height field."""
    x, y, top, base = field.size
    return np.array([x, y, max(top * max(field.data.max(), 0.0), base)])


def vector_of(value, size: int, label: str) -> np.ndarray:
    array = array_of(value, label)
    if array.shape != (size,):
        raise ModelError(f"{label} has shape {array.shape}; it must be ({size},)")
    if not np.isfinite(array).all():
        raise ModelError(f"{label} is {short(array.tolist())}; every value must be finite")
    return array.copy()


def per_dof(value, nv: int, label: str) -> np.ndarray:
    array = array_of(value, label)
    return vector_of(np.full(nv, array) if array.ndim == 0 else array, nv, label)


def pose_of(value, label: str) -> np.ndarray:
    array = array_of(value, f"{label}: pose")
    if array.shape == (3,):
        array = np.concatenate([array, IDENTITY[3:]])
    array = vector_of(array, 7, f"{label}: pose")
    array[3:] = unit_of(array[3:], f"{label}: pose")
    return array


def inertia_of(value, label: str) -> np.ndarray:
    array = array_of(value, f"{label}: inertia")
    array = np.diag(array) if array.shape == (3,) else array
    if array.shape != (3, 3) or not np.isfinite(array).all():
        raise ModelError(f"{label}: inertia {short(array.tolist())} must be 3 or 3x3 finite values [kg m^2]")
    scale = np.abs(array).max()
    if np.abs(array - array.T).max() > SYMMETRY_TOLERANCE * scale:
        raise ModelError(f"{label}: inertia {array.tolist()} is not symmetric")
    moments = np.linalg.eigvalsh(array)
    if moments[0] < -SYMMETRY_TOLERANCE * scale:
        raise ModelError(f"{label}: inertia is not positive definite, its principal moments are {moments.tolist()}")
    return (array + array.T) / 2


def size_of(size, kind: GeomType, label: str) -> np.ndarray:
    needed = SIZES.get(kind, 0)
    array = np.atleast_1d(array_of(size, f"{label}: size"))
    if (
        array.ndim != 1 or len(array) < needed or len(array) > 3 or (needed and len(array) not in (needed, 3))
    ):  # 3: MJCF's
        raise ModelError(f"{label}: size {short(array.tolist())} of a {kind.name.lower()}; give {needed} values [m]")
    if not np.isfinite(array).all() or (array[:needed] <= 0).any():
        raise ModelError(f"{label}: size {short(array.tolist())} must be positive and finite [m]")
    full = np.zeros(3)
    full[: len(array)] = array
    return full


def geom_type_of(type, mesh, hfield, label: str) -> GeomType:
    """Type of a geom, checked against `mesh` and `hfield`."""
    try:
        kind = type if isinstance(type, GeomType) else GeomType[str(type).upper()]
    except KeyError:
        known = ", ".join(kind.name.lower() for kind in GeomType)
        raise ModelError(f"{label}: unknown type {type!r}; use {known}") from None
    if (kind == GeomType.MESH) != (mesh is not None):
        raise ModelError(f"{label}: a mesh geom, and no other, needs mesh=(vertices, faces)")
    if (kind == GeomType.HFIELD) != (hfield is not None):
        raise ModelError(f"{label}: a height-field geom, and no other, needs hfield=(size, data)")
    return kind
