"""What a `ModelBuilder` collects: bodies, joints and geoms as they were given, checked."""

import dataclasses

import numpy as np

from warpsim.model.model import GeomType, JointType


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
    axes: np.ndarray | None = None  # quaternion of the inertia's, where a file says which


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
    field: int  # into the builder's fields, -1
    fluid: np.ndarray
    torsional_friction: float
    rolling_friction: float
