# SPDX-License-Identifier: Apache-2.0
"""Records of a `ModelBuilder`: the checked arguments of bodies, joints and geoms."""

import dataclasses
import typing
import warnings

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.model import mesh_mass
from warpsim.model.geom_types import volume_and_inertia
from warpsim.model.geometry import combine_masses, rotate, rotation_matrix
from warpsim.model.looks import VisualMaterial
from warpsim.model.model import GeomType, JointType
from warpsim.model.mujoco_options import SOLIMP, SOLREF, STILL


@dataclasses.dataclass
class Body:
    name: str
    parent: int
    pose: np.ndarray
    mass: float | None
    com: np.ndarray
    inertia: np.ndarray
    gravcomp: float = 0.0
    mocap: bool = False
    axes: np.ndarray | None = None  # quaternion of the inertia's axes, where a file gives it


@dataclasses.dataclass
class Joint:
    name: str
    type: JointType
    body: int
    anchor: np.ndarray
    axis: np.ndarray
    limited: bool
    range: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    armature: np.ndarray
    friction: np.ndarray
    reference: np.ndarray
    q0: np.ndarray
    solref: typing.Any = SOLREF  # MuJoCo's law, see `mujoco_options.py`
    solimp: typing.Any = SOLIMP
    margin: float = 0.0
    friction_solref: typing.Any = SOLREF
    friction_solimp: typing.Any = SOLIMP


@dataclasses.dataclass
class Geom:
    name: str
    type: GeomType
    body: int
    size: np.ndarray
    pose: np.ndarray
    friction: float
    stiffness: float
    dissipation_time: float
    restitution: float
    hertz_modulus: float
    contype: int
    conaffinity: int
    condim: int
    priority: int
    density: float
    rgba: np.ndarray
    mesh: int
    visible: bool
    hydroelastic: np.ndarray
    field: int  # index into the builder's fields, -1
    fluid: np.ndarray
    torsional_friction: float
    rolling_friction: float
    margin: float
    friction_dynamic: float
    friction_velocity: float
    material: VisualMaterial | None = None
    mapped_stiffness: float = np.nan  # the stiffness, where a reader mapped it from solref and solimp
    solref: typing.Any = SOLREF  # MuJoCo's law, see `mujoco_options.py`
    solimp: typing.Any = SOLIMP
    solmix: float = 1.0
    surfacevel: typing.Any = STILL
    gap: float = 0.0


def geom_mass(builder, geom: Geom, body: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass of a geom of uniform density, its center of mass, and its inertia about that; both in body axes."""
    label = f"geom {geom.name!r} of body {body!r}"
    centre = np.zeros(3)
    try:
        if geom.type == GeomType.MESH:
            mesh = builder.meshes[geom.mesh]
            volume, centre, inertia, closed = mesh_mass.solid(mesh.vertices, mesh.faces)
            if not closed:
                warnings.warn(f"{label}: the mesh is not watertight; its mass is that of its hull", stacklevel=4)
        else:
            volume, diagonal = volume_and_inertia(geom.type.name.lower(), geom.size)
            inertia = np.diag(diagonal)
    except ValueError as error:
        raise ModelError(f"{label}: {error}") from None
    rotation = rotation_matrix(geom.pose[3:])
    centre = geom.pose[:3] + rotate(geom.pose[3:], centre)
    return geom.density * volume, centre, geom.density * rotation @ inertia @ rotation.T


def with_mass(builder, index: int) -> Body:
    """The body with mass, COM and inertia: its own, or those of its geoms."""
    body = builder.bodies[index]
    if body.mass is not None:
        return body
    parts = []
    for geom in (g for g in builder.geoms if g.body == index and g.density > 0 and g.type != GeomType.PLANE):
        parts.append(geom_mass(builder, geom, body.name))
    mass, com, inertia = combine_masses(parts)
    return dataclasses.replace(body, mass=mass, com=com, inertia=inertia)
