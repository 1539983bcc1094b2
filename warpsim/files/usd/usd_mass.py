# SPDX-License-Identifier: Apache-2.0
"""Masses of the rigid bodies of a USD stage, by UsdPhysics' rules (`UsdPhysics.RigidBodyAPI.ComputeMassProperties`).

A body's own attributes take precedence. What they leave open follows from the body's colliding shapes. The density of a
shape is its own, else the body's, else its material's, else 1000 kg/m^3. Values are in SI and in the axes of the body.
"""

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.usd import usd_extra
from warpsim.model import mesh_mass
from warpsim.model.geom_types import volume_and_inertia
from warpsim.model.geometry import combine_masses, nearest_rotation, rotation_matrix, spread

DEFAULT_DENSITY = 1000.0  # kg/m^3, USD's
LARGEST = 1e12
POINT_RADIUS = 0.1  # m, of the sphere whose inertia USD assumes for a mass without shapes
MASS_NAMES = tuple(
    f"physics:{name}" for name in ("mass", "density", "centerOfMass", "diagonalInertia", "principalAxes")
)
ROTATIONS = 50  # most rotations of the Jacobi method, which needs a few


def read_mass(prim, shapes, units, kept: dict, stretch) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, COM and inertia (3, 3) about the COM of a rigid body.

    `stretch (3, 3)` takes the coordinates of the body's prim to the body's axes: it is the prim's scale. `kept` is what
    our export kept.
    """
    given = _Given(prim, f"body {prim.GetPath()}", units)
    if kept and "mass" in kept and given.api and np.isclose(given.mass, kept["mass"], rtol=1e-5):
        com = np.zeros(3) if given.com is None else given.com
        inertia = np.zeros((3, 3)) if given.moments is None else given.inertia(np.eye(3))
        return (
            float(kept["mass"]),
            usd_extra.exact(com, kept.get("com")),
            usd_extra.exact(inertia, kept.get("inertia"), floor=0.0),
        )
    com, mass = None if given.com is None else stretch @ given.com, given.mass
    if mass and com is not None and given.moments is not None:
        return mass, com, given.inertia(np.eye(3))
    colliders: dict = {}
    for shape in shapes:
        if shape.touches and shape.kind != "plane":
            colliders.setdefault(str(shape.collider.GetPath()), []).append(shape)
    total, centre, about = combine_masses([_collider_mass(those, given.density, units) for those in colliders.values()])
    com = centre if com is None else com
    if total == 0:
        mass, about = mass or total, 0.4 * mass * POINT_RADIUS**2 * np.eye(3)
    else:
        mass = mass or total
        about = about * mass / total + mass * spread(com - centre)
    moments, axes = principal(about)
    if given.moments is not None:
        return mass, com, given.inertia(axes)
    if given.axes is not None:
        return mass, com, given.axes @ np.diag(moments) @ given.axes.T
    return mass, com, about


class _Given:
    """What a prim with MassAPI gives, in SI and in the prim's coordinates.

    A value that is left open is None; an open mass or density is 0.
    """

    def __init__(self, prim, label: str, units):
        from pxr import UsdPhysics

        self.mass, self.density, self.com, self.moments, self.axes, self.tensor = 0.0, 0.0, None, None, None, None
        self.api = UsdPhysics.MassAPI(prim) if prim.HasAPI(UsdPhysics.MassAPI) else None
        if self.api is None:
            return
        self.mass = _amount(self.api.GetMassAttr().Get(), f"{label}: mass") * units.mass
        self.density = _amount(self.api.GetDensityAttr().Get(), f"{label}: density") * units.mass / units.length**3
        self.tensor = _full_inertia(prim, units, label)
        com = np.array(self.api.GetCenterOfMassAttr().Get() or [-np.inf] * 3, float)
        moments = np.array(self.api.GetDiagonalInertiaAttr().Get() or [0] * 3, float)
        if np.isnan(com).any() or not (np.isfinite(moments) & (moments >= 0) & (moments < LARGEST)).all():
            raise ModelError(f"{label}: centre of mass {com.tolist()} or inertia {moments.tolist()} is wrong")
        self.com = com * units.length if np.isfinite(com).all() else None
        self.moments = moments * units.mass * units.length**2 if moments.any() else None
        if self.tensor is not None:
            self.moments = np.linalg.eigvalsh(self.tensor)
        axes = self.api.GetPrincipalAxesAttr().Get()
        q = np.zeros(4) if axes is None else np.array([axes.GetReal(), *axes.GetImaginary()], float)
        if self.tensor is None and np.isfinite(q).all() and np.linalg.norm(q) > 1e-6:
            self.axes = rotation_matrix(q / np.linalg.norm(q))

    def inertia(self, axes) -> np.ndarray:
        """The inertia tensor: the given one, or that of the moments about the given axes, else about `axes`."""
        if self.tensor is not None:
            return self.tensor
        turn = axes if self.axes is None else self.axes
        inertia = turn @ np.diag(self.moments) @ turn.T
        return (inertia + inertia.T) / 2


def _full_inertia(prim, units, label: str):
    """The tensor of NewtonMassAPI, which takes precedence over moments and axes; None without one."""
    given = prim.GetAttribute("newton:inertia").Get() if prim.HasAttribute("newton:inertia") else None
    if given is None or len(given) == 0:
        return None
    if len(given) != 6 or not np.isfinite(given).all() or np.abs(given).max() >= LARGEST:
        raise ModelError(
            f"{label}: newton:inertia is {short(list(given))}; give six finite numbers: xx, yy, zz, xy, xz, yz"
        )
    xx, yy, zz, xy, xz, yz = (float(x) for x in given)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) * units.mass * units.length**2


def _amount(value, label: str) -> float:
    value = 0.0 if value is None else float(value)
    if not (np.isfinite(value) and 0 <= value < LARGEST):
        raise ModelError(f"{label} is {value:g}; it must be finite, not negative and at most {LARGEST:g}")
    return value


def _shape_mass(shape, given: "_Given", body_density: float, units):
    """Mass, centre and inertia in body axes of a shape whose collider gives `given`."""
    own = given if shape.collider == shape.prim else _Given(shape.prim, f"geom {shape.prim.GetPath()}", units)
    density = own.density or given.density or body_density or shape.material.get("density", 0.0) or DEFAULT_DENSITY
    if shape.mesh is None:
        volume, diagonal = volume_and_inertia(shape.kind, shape.size)
        centre, inertia = np.zeros(3), np.diag(diagonal)
    else:
        volume, centre, inertia, _ = mesh_mass.solid(*shape.mesh)
    density = own.mass / volume if own.mass else density
    turn = rotation_matrix(shape.pose[3:])
    return density * volume, shape.pose[:3] + turn @ centre, density * turn @ inertia @ turn.T


def _collider_mass(shapes, body_density: float, units):
    """Mass, centre and inertia in body axes of the shapes of one collider: of one shape, or of those below an Xform."""
    given = _Given(shapes[0].collider, f"geom {shapes[0].collider.GetPath()}", units)
    mass, centre, inertia = combine_masses([_shape_mass(shape, given, body_density, units) for shape in shapes])
    if given.mass and mass > 0:
        mass, inertia = given.mass, inertia * given.mass / mass
    frame = nearest_rotation(shapes[0].frame[:3, :3])
    if given.axes is not None:  # axes without moments turn the computed inertia, as in USD
        turn = frame @ given.axes @ frame.T
        inertia = turn @ inertia @ turn.T
    if given.com is not None:
        com = shapes[0].frame[:3, :3] @ given.com + shapes[0].frame[:3, 3]
        inertia = inertia + mass * spread(com - centre)
        centre = com
    if given.moments is not None:
        inertia = frame @ given.inertia(np.eye(3)) @ frame.T
    return mass, centre, inertia


def principal(inertia) -> tuple[np.ndarray, np.ndarray]:
    """Principal moments (3,) and axes (3, 3), as columns, of an inertia, by Jacobi rotations.

    The order is that of the coordinate axes that they are nearest to.
    """
    moments, axes = np.array(inertia, float), np.eye(3)
    for _ in range(ROTATIONS):
        off = np.abs(np.triu(moments, 1))
        i, j = np.unravel_index(np.argmax(off), (3, 3))
        if off[i, j] <= 1e-15 * np.abs(moments).max():
            break
        half = (moments[j, j] - moments[i, i]) / (2 * moments[i, j])
        tangent = 1.0 / (half + np.copysign(np.hypot(half, 1.0), half))  # the smaller angle, at most 45 degrees
        turn = np.eye(3)
        turn[i, i] = turn[j, j] = 1 / np.hypot(tangent, 1.0)
        turn[i, j] = tangent * turn[i, i]
        turn[j, i] = -turn[i, j]
        moments, axes = turn.T @ moments @ turn, axes @ turn
    return np.diag(moments).copy(), axes
