# SPDX-License-Identifier: Apache-2.0
"""`Model`: one world as read-only NumPy arrays, which do not change while it is simulated.

Bodies keep the order of the file; the world is body -1 and is not counted. Internally every joint is one *link*, and a
body without joints is one fixed link. Several joints on a body are thus a chain of massless links that ends in the
body's own link. Links are numbered depth first: a tree is a contiguous range of links and of degrees of freedom.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.base.annotations import Numbers, PathLike
from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError
from warpsim.base.other_names import NamesOfModel
from warpsim.base.registry import registered
from warpsim.base.reprs import show
from warpsim.model.columns import filled, no_elements
from warpsim.model.looks import VisualMaterial
from warpsim.model.mujoco_options import DEFAULT_OPTIONS, MuJoCoOptions, default_fields
from warpsim.model.muscle import FORCE

if TYPE_CHECKING:
    import mujoco


class JointType(enum.IntEnum):
    """Joint types, with MuJoCo's numbers; FIXED is the link of a body without joints."""

    FREE = 0
    BALL = 1
    SLIDE = 2
    HINGE = 3
    FIXED = 4


class DynamicsType(enum.IntEnum):
    """How an actuator's activation follows its control, with MuJoCo's numbers; NONE has no activation."""

    NONE = 0
    INTEGRATOR = 1
    FILTER = 2
    FILTEREXACT = 3
    MUSCLE = 4


class GeomType(enum.IntEnum):
    """Geometry types, with MuJoCo's numbers and size conventions."""

    PLANE = 0
    HFIELD = 1
    SPHERE = 2
    CAPSULE = 3
    ELLIPSOID = 4
    CYLINDER = 5
    BOX = 6
    MESH = 7


# How many numbers of `size` a shape uses; a type that is not listed uses none, or they follow from its data.
SIZES = {GeomType.SPHERE: 1, GeomType.CAPSULE: 2, GeomType.CYLINDER: 2, GeomType.BOX: 3, GeomType.ELLIPSOID: 3}


JOINT_NQ = {JointType.FREE: 7, JointType.BALL: 4, JointType.SLIDE: 1, JointType.HINGE: 1, JointType.FIXED: 0}
JOINT_NV = {JointType.FREE: 6, JointType.BALL: 3, JointType.SLIDE: 1, JointType.HINGE: 1, JointType.FIXED: 0}


class FrictionRule(enum.IntEnum):
    """How the friction of a pair follows from the friction of its geoms A and B."""

    MAXIMUM = 0
    FIRST = 1
    SECOND = 2
    HARMONIC = 3
    FRICTIONLESS = 4
    EXPLICIT = 5


class ReportLine(typing.NamedTuple):
    """What the reader did with one feature of the source file."""

    feature: str
    status: str  # "used", "mapped", "ignored" or "refused"
    detail: str


MAX_HULL_VERTICES = 64  # default limit of a colliding mesh: support scans are linear in the vertices


class Mesh(typing.NamedTuple):
    """Triangle mesh in geom axes: `vertices (n, 3)` [m] and `faces (m, 3)`.

    In contact a mesh is its convex hull, with at most `max_hull_vertices` vertices. `uv (m, 3, 2)`: image coordinates
    of the corners of each face, (0, 0) at the lower left; None without.
    """

    name: str
    vertices: np.ndarray
    faces: np.ndarray
    max_hull_vertices: int = MAX_HULL_VERTICES
    uv: np.ndarray | None = None

    def __repr__(self) -> str:
        return show("Mesh", self._asdict())


class HField(typing.NamedTuple):
    """Height field: `size (4,)` and `data (rows, columns)`.

    `size` holds the half widths in x and y, the height of data 1, and the depth of the base [m]. Row 0 is at y =
    -size[1], column 0 at x = -size[0]; the surface is at z = size[2] data in geom axes.
    """

    name: str
    size: np.ndarray
    data: np.ndarray

    def __repr__(self) -> str:
        return show("HField", self._asdict())


class TetField(typing.NamedTuple):
    """Pressure field on tetrahedra: `vertices (n, 3)` [m] in geom axes, `tetrahedra (m, 4)`.

    `pressure (n,)` is the pressure at each vertex divided by the modulus.
    """

    name: str
    vertices: np.ndarray
    tetrahedra: np.ndarray
    pressure: np.ndarray

    def __repr__(self) -> str:
        return show("TetField", self._asdict())


class Keyframe(typing.NamedTuple):
    """A named state: `q (nq,)`, `v (nv,)`, `control (nu,)`, `activation (na,)`, `mocap (nmocap, 7)`."""

    q: np.ndarray
    v: np.ndarray
    control: np.ndarray
    activation: np.ndarray = np.zeros(0)
    mocap: np.ndarray = np.zeros((0, 7))


class KeyframeParts(typing.NamedTuple):
    """A keyframe of an added model, keyed by the builder's indices.

    q and v are by joint, control and activation by actuator, poses by mocap body.
    """

    q: dict[int, np.ndarray]
    v: dict[int, np.ndarray]
    control: dict[int, float]
    activation: dict[int, float]
    mocap: dict[int, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Model(NamesOfModel):
    """One world, immutable: bodies, joints, geoms, actuators, constraints, as read-only NumPy arrays.

    Make one with `ws.load` or `ws.ModelBuilder`.

    Notes
    -----
    Lengths are in m, angles in rad, masses in kg. A pose is `[x y z qw qx qy qz]`. Positions q (nq,) and velocities v
    (nv,) have the layout of MuJoCo's `qpos` and `qvel`. Each array is named after its element: `body_mass (nbody,)`,
    `joint_range (njoint, 2)`, `geom_size (ngeom, 3)`, `actuator_gear (nu, 6)`. Bodies are counted without the world,
    which is body -1.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("ant"))
    >>> model.nbody, model.nu
    (9, 8)
    >>> model.body_names[model.body("torso")]
    'torso'
    """

    name: str
    timestep: float
    gravity: np.ndarray  # (3,)
    q0: np.ndarray  # (nq,) initial position; a hinge or slide at its q0 leaves its link at the joint pose

    body_names: tuple[str, ...]
    body_parent: np.ndarray  # (nbody,) -1 is the world
    body_link: np.ndarray  # (nbody,) the link that carries the body
    body_mass: np.ndarray  # (nbody,)
    body_com: np.ndarray  # (nbody, 3) body axes
    body_inertia: np.ndarray  # (nbody, 3, 3) about the COM, body axes

    joint_names: tuple[str, ...]
    joint_type: np.ndarray  # (njoint,)
    joint_body: np.ndarray  # (njoint,)
    joint_link: np.ndarray  # (njoint,)
    joint_q: np.ndarray  # (njoint,) first coordinate in q
    joint_v: np.ndarray  # (njoint,) first degree of freedom in v
    joint_pose: np.ndarray  # (njoint, 7) joint frame in the previous link
    joint_anchor: np.ndarray  # (njoint, 3) joint frame's origin in its own link
    joint_axis: np.ndarray  # (njoint, 3) in the joint frame, unit
    joint_limited: np.ndarray  # (njoint,) bool
    joint_range: np.ndarray  # (njoint, 2) rad or m; ball joints use [1] as the largest rotation angle
    joint_stiffness: np.ndarray  # (nv,)
    joint_damping: np.ndarray  # (nv,)
    joint_armature: np.ndarray  # (nv,)
    joint_friction: np.ndarray  # (nv,) largest dry-friction force or torque
    joint_reference: np.ndarray  # (nv,) spring rest position; a rotation vector for ball and free joints

    link_type: np.ndarray  # (nlink,) JointType
    link_parent: np.ndarray  # (nlink,)
    link_joint: np.ndarray  # (nlink,) -1 for fixed links
    link_body: np.ndarray  # (nlink,) the body the link belongs to
    link_pose: np.ndarray  # (nlink, 7) pose in the parent link at q0; fixed links keep it
    link_q: np.ndarray  # (nlink,)
    link_v: np.ndarray  # (nlink,)
    link_tree: np.ndarray  # (nlink,)
    tree_link: np.ndarray  # (ntree + 1,) first link of each tree
    tree_v: np.ndarray  # (ntree + 1,) first degree of freedom of each tree
    tree_reference: np.ndarray  # (ntree,) the link whose origin is the tree's reference point
    dof_parent: np.ndarray  # (nv,) the next degree of freedom toward the root, -1 at the root
    dof_link: np.ndarray  # (nv,)

    geom_names: tuple[str, ...]
    geom_type: np.ndarray  # (ngeom,) GeomType
    geom_body: np.ndarray  # (ngeom,) -1 is the world
    geom_size: np.ndarray  # (ngeom, 3)
    geom_pose: np.ndarray  # (ngeom, 7) in the body
    geom_friction: np.ndarray  # (ngeom,) Coulomb
    geom_stiffness: np.ndarray  # (ngeom,) [N/m], inf is near-rigid
    geom_dissipation_time: np.ndarray  # (ngeom,) [s], nan is the default beta h / pi
    geom_restitution: np.ndarray  # (ngeom,)
    geom_hertz_modulus: np.ndarray  # (ngeom,) [Pa], 0 is none
    geom_contype: np.ndarray  # (ngeom,) contact masks, as in MuJoCo
    geom_conaffinity: np.ndarray  # (ngeom,)
    # (ngeom,) 1: frictionless; 3: sliding friction; 4: torsional friction too; 6: rolling friction too
    geom_condim: np.ndarray
    geom_priority: np.ndarray  # (ngeom,)
    geom_rgba: np.ndarray  # (ngeom, 4)
    geom_mesh: np.ndarray  # (ngeom,) index into meshes, -1
    geom_visible: np.ndarray  # (ngeom,) bool: drawn
    meshes: tuple[Mesh, ...]

    pair_geom: np.ndarray  # (npair, 2) geoms that may touch, type of A <= type of B
    pair_rule: np.ndarray  # (npair,) FrictionRule
    pair_friction: np.ndarray  # (npair,) friction of EXPLICIT pairs
    excluded: np.ndarray  # (n, 2) pairs of bodies whose geoms never touch
    friction_rule: int  # FrictionRule of geoms of equal priority
    filter_parent: bool  # no contact between a body and its parent

    tendon_names: tuple[str, ...]  # length of a fixed tendon = tendon_coefficients . (positions of hinges and slides)
    tendon_coefficients: np.ndarray  # (ntendon, nv)
    tendon_limited: np.ndarray  # (ntendon,) bool
    tendon_range: np.ndarray  # (ntendon, 2)
    tendon_stiffness: np.ndarray  # (ntendon,)
    tendon_damping: np.ndarray  # (ntendon,)
    tendon_friction: np.ndarray  # (ntendon,) largest dry-friction force
    tendon_reference: np.ndarray  # (ntendon, 2) the spring is slack between these lengths

    constraint_names: tuple[str, ...]
    constraint_type: np.ndarray  # (n,) ConstraintType
    constraint_body: np.ndarray  # (n, 2) bodies A and B, -1 is the world or none
    constraint_pose: np.ndarray  # (n, 2, 7) the frames in A and B
    constraint_joint: np.ndarray  # (n, 2) joints of JOINT, tendons of TENDON, -1 is none
    constraint_coefficients: np.ndarray  # (n, 5) see ConstraintType
    constraint_active: np.ndarray  # (n,) bool
    # (n, 2) along [N/m] and about [N m/rad]; couplings of coordinates use the first; inf is rigid
    constraint_stiffness: np.ndarray
    constraint_dissipation_time: np.ndarray  # (n,) [s], nan is the default beta h / pi

    actuator_names: tuple[str, ...]
    actuator_joint: np.ndarray  # (nu,) -1: it acts on something else
    actuator_tendon: np.ndarray  # (nu,) -1: it acts on something else
    actuator_gear: np.ndarray  # (nu, 6) a joint uses one value per degree of freedom, a tendon the first
    actuator_gain: np.ndarray  # (nu, 3): force = gain . (1, length, velocity) control + bias . (1, length, velocity)
    actuator_bias: np.ndarray  # (nu, 3)
    control_range: np.ndarray  # (nu, 2) -inf, inf where unlimited
    force_range: np.ndarray  # (nu, 2)

    keyframes: Mapping[str, Keyframe]
    report: tuple[ReportLine, ...]
    hfields: tuple[HField, ...] = ()  # one for each height-field geom, in the order of the geoms

    # Pressure-field contact (`ws.Hydroelastic`). None and -1 stand for a model without it.
    # (ngeom, 4) modulus [Pa] (nan: none, inf: rigid), resolution, thickness, margin [m]
    geom_hydroelastic: np.ndarray = None  # type: ignore[assignment]
    geom_field: np.ndarray = None  # type: ignore[assignment]  # (ngeom,) index into fields, -1
    fields: tuple[TetField, ...] = ()
    # pairs before this index touch at points, the others by pressure fields; -1: all touch at points
    point_pairs: int = -1

    # Torsional and rolling friction [m]. None stands for the values of models stored without these fields.
    # (ngeom,) largest moment about the normal over the normal force
    geom_torsional_friction: np.ndarray = None  # type: ignore[assignment]
    # (ngeom,) largest moment about the tangents over the normal force
    geom_rolling_friction: np.ndarray = None  # type: ignore[assignment]
    pair_condim: np.ndarray = None  # type: ignore[assignment]  # (npair,)
    pair_torsional_friction: np.ndarray = None  # type: ignore[assignment]  # (npair,) of EXPLICIT pairs
    pair_rolling_friction: np.ndarray = None  # type: ignore[assignment]  # (npair,)

    # Stribeck's law; nan: friction does not depend on the speed.
    # (ngeom,) Coulomb friction at high sliding speed
    geom_friction_dynamic: np.ndarray = None  # type: ignore[assignment]
    # (ngeom,) [m/s] speed scale v_s of the decay to it
    geom_friction_velocity: np.ndarray = None  # type: ignore[assignment]

    # Sites and cameras: frames on bodies (-1: the world). A camera looks along -z, y up.
    site_names: tuple[str, ...] = ()
    site_body: np.ndarray = None  # type: ignore[assignment]  # (nsite,)
    site_pose: np.ndarray = None  # type: ignore[assignment]  # (nsite, 7) in the body
    site_type: np.ndarray = None  # type: ignore[assignment]  # (nsite,) GeomType
    site_size: np.ndarray = None  # type: ignore[assignment]  # (nsite, 3)
    site_rgba: np.ndarray = None  # type: ignore[assignment]  # (nsite, 4)
    camera_names: tuple[str, ...] = ()
    camera_body: np.ndarray = None  # type: ignore[assignment]  # (ncamera,)
    camera_pose: np.ndarray = None  # type: ignore[assignment]  # (ncamera, 7) in the body
    camera_fovy: np.ndarray = None  # type: ignore[assignment]  # (ncamera,) vertical angle of view [rad]
    camera_resolution: np.ndarray = None  # type: ignore[assignment]  # (ncamera, 2) width and height in pixels

    # Paths of spatial tendons, element by element (`tendon_paths.py`). The tendon_coefficients of these tendons are 0.
    wrap_tendon: np.ndarray = None  # type: ignore[assignment]  # (nwrap,) ascending
    wrap_type: np.ndarray = None  # type: ignore[assignment]  # (nwrap,) WrapType
    wrap_object: np.ndarray = None  # type: ignore[assignment]  # (nwrap,) the site or geom, -1: none
    wrap_side: np.ndarray = None  # type: ignore[assignment]  # (nwrap,) the side site of a geom, -1: none
    wrap_divisor: np.ndarray = None  # type: ignore[assignment]  # (nwrap,) divisor of a pulley

    # Transmissions other than joints and tendons.
    # (nu, 2) site and reference site, or pin site and slider site of a crank; -1: none
    actuator_site: np.ndarray = None  # type: ignore[assignment]
    actuator_rod: np.ndarray = None  # type: ignore[assignment]  # (nu,) length of a crank's rod [m]; 0: no crank
    actuator_body: np.ndarray = None  # type: ignore[assignment]  # (nu,) the body whose contacts stick, -1: none

    # Actuators with a state, and muscles (`kernels/forces/activation.py`, `muscle.py`). None: none.
    actuator_dynamics: np.ndarray = None  # type: ignore[assignment]  # (nu,) DynamicsType
    # (nu, 3) [s] time constant τ; for muscles rise time, fall time, and the width [1] of the control range between them
    actuator_time: np.ndarray = None  # type: ignore[assignment]
    activation_range: np.ndarray = None  # type: ignore[assignment]  # (nu, 2) -inf, inf where unlimited
    # (nu, 2) bounds of the force that the force sensor reports, without the joint's effort limit; nan: force_range
    actuator_own_range: np.ndarray = None  # type: ignore[assignment]
    # (nu,) bool: the force uses the activation at the end of the step
    actuator_early: np.ndarray = None  # type: ignore[assignment]
    # (nu, 2, 8) active and passive force, see `warpsim.model.muscle`; NaN: none
    actuator_muscle: np.ndarray = None  # type: ignore[assignment]
    actuator_length_range: np.ndarray = None  # type: ignore[assignment]  # (nu, 2) for muscles
    actuator_group: np.ndarray = None  # type: ignore[assignment]  # (nu,)

    # Effort limits of the total actuator force (`kernels/forces/effort_limits.py`), gravity compensation, mocap.
    # (njoint, 2) of a hinge or slide; -inf, inf where unlimited
    joint_effort_range: np.ndarray = None  # type: ignore[assignment]
    # (njoint,) bool: the range also bounds gravity compensation
    joint_effort_gravity: np.ndarray = None  # type: ignore[assignment]
    tendon_effort_range: np.ndarray = None  # type: ignore[assignment]  # (ntendon, 2)
    body_gravcomp: np.ndarray = None  # type: ignore[assignment]  # (nbody,) share of gravity that is compensated
    # (nbody,) index of the mocap body, in the order of the bodies; -1: no mocap body
    body_mocap: np.ndarray = None  # type: ignore[assignment]

    # The medium (`warpsim/model/medium.py`); zero density and viscosity: no medium.
    fluid_density: float = 0.0  # [kg/m^3]
    fluid_viscosity: float = 0.0  # [Pa s]
    wind: np.ndarray = None  # type: ignore[assignment]  # (3,) [m/s]
    # (nbody, 7) widths [m] and axes of the box with the body's inertia
    body_fluid: np.ndarray = None  # type: ignore[assignment]
    # (ngeom, 15) see `medium.COLUMNS`; the first value is 0 for a geom without an ellipsoid
    geom_fluid: np.ndarray = None  # type: ignore[assignment]

    # Sensors (`sensor_types.py`). Sensor s has sensor_size columns of `Simulator.sensors` from sensor_adr on.
    sensor_names: tuple[str, ...] = ()
    sensor_type: np.ndarray = None  # type: ignore[assignment]  # (nsensor,) SensorType
    # (nsensor, 2) ObjectType of the object and of the reference
    sensor_object_type: np.ndarray = None  # type: ignore[assignment]
    # (nsensor, 2) indices of the object and the reference; -1 is the world, or none
    sensor_object: np.ndarray = None  # type: ignore[assignment]
    sensor_adr: np.ndarray = None  # type: ignore[assignment]  # (nsensor,)
    sensor_size: np.ndarray = None  # type: ignore[assignment]  # (nsensor,)
    sensor_cutoff: np.ndarray = None  # type: ignore[assignment]  # (nsensor,) 0: no cutoff
    sensor_datatype: np.ndarray = None  # type: ignore[assignment]  # (nsensor,) DataType
    # (nsensor, 8) depends on the type, see `sensor_records.py`
    sensor_constants: np.ndarray = None  # type: ignore[assignment]

    # Margins of point contact. A pair's margin is the sum of its geoms'; φ is the signed distance minus the margin.
    geom_margin: np.ndarray = None  # type: ignore[assignment]  # (ngeom,) [m]
    pair_margin: np.ndarray = None  # type: ignore[assignment]  # (npair,) [m]

    # (ngeom,) [N/m] stiffness that a reader mapped from solref and solimp, nan: none (`mapped_stiffness.py`)
    geom_mapped_stiffness: np.ndarray = None  # type: ignore[assignment]

    # How geoms look besides their color (`warpsim/model/looks.py`).
    visual_materials: tuple[VisualMaterial, ...] = ()
    geom_visual_material: np.ndarray = None  # type: ignore[assignment]  # (ngeom,) index into visual_materials, -1

    # MuJoCo's constraint law, read by `ws.MuJoCo()` (`mujoco_options.py`). None stands for MuJoCo's defaults.
    mujoco: MuJoCoOptions = DEFAULT_OPTIONS
    geom_solref: np.ndarray = None  # type: ignore[assignment]  # (ngeom, 2)
    geom_solimp: np.ndarray = None  # type: ignore[assignment]  # (ngeom, 5)
    geom_solmix: np.ndarray = None  # type: ignore[assignment]  # (ngeom,)
    geom_gap: np.ndarray = None  # type: ignore[assignment]  # (ngeom,) [m] beyond the margin, for adhesion actuators
    # (ngeom, 6) of the geom's surface, in its axes: velocity [m/s], angular velocity about its origin [rad/s]
    geom_surfacevel: np.ndarray = None  # type: ignore[assignment]
    joint_solref: np.ndarray = None  # type: ignore[assignment]  # (njoint, 2) of limits
    joint_solimp: np.ndarray = None  # type: ignore[assignment]  # (njoint, 5)
    joint_margin: np.ndarray = None  # type: ignore[assignment]  # (njoint,) limits act this far before their bounds
    joint_friction_solref: np.ndarray = None  # type: ignore[assignment]  # (nv, 2)
    joint_friction_solimp: np.ndarray = None  # type: ignore[assignment]  # (nv, 5)
    tendon_solref: np.ndarray = None  # type: ignore[assignment]  # (ntendon, 2) of limits
    tendon_solimp: np.ndarray = None  # type: ignore[assignment]  # (ntendon, 5)
    tendon_margin: np.ndarray = None  # type: ignore[assignment]  # (ntendon,)
    tendon_friction_solref: np.ndarray = None  # type: ignore[assignment]  # (ntendon, 2)
    tendon_friction_solimp: np.ndarray = None  # type: ignore[assignment]  # (ntendon, 5)
    constraint_solref: np.ndarray = None  # type: ignore[assignment]  # (n, 2)
    constraint_solimp: np.ndarray = None  # type: ignore[assignment]  # (n, 5)
    constraint_torquescale: np.ndarray = None  # type: ignore[assignment]  # (n,) of welds [m]
    # Explicit pairs whose law is not that of their geoms: the first of a pair's rows below, -1: none. A pair has
    # several rows where a file has several pairs of the same geoms; its other fields then hold the largest friction.
    pair_own: np.ndarray = None  # type: ignore[assignment]  # (npair,)
    pair_solref: np.ndarray = None  # type: ignore[assignment]  # (nown, 2)
    pair_solreffriction: np.ndarray = None  # type: ignore[assignment]  # (nown, 2) zeros: as solref
    pair_solimp: np.ndarray = None  # type: ignore[assignment]  # (nown, 5)
    # (nown, 5) sliding along the two tangents, torsional, rolling about the two tangents
    pair_own_friction: np.ndarray = None  # type: ignore[assignment]
    pair_own_condim: np.ndarray = None  # type: ignore[assignment]  # (nown,)
    pair_own_margin: np.ndarray = None  # type: ignore[assignment]  # (nown,) [m]

    def __post_init__(self) -> None:
        unlimited = [-np.inf, np.inf]
        defaults = (
            no_elements("site", "camera", "wrap", "sensor")
            | default_fields(self)
            | {
                **filled(
                    "geom", self.ngeom, np.nan, "hydroelastic friction_dynamic friction_velocity mapped_stiffness"
                ),
                **filled("geom", self.ngeom, -1, "field"),
                **filled("geom", self.ngeom, 0, "fluid torsional_friction rolling_friction margin"),
                **filled("actuator", self.nu, 0, "dynamics time early length_range group"),
                **filled("actuator", self.nu, np.nan, "own_range muscle"),
                **filled("body", self.nbody, 0, "gravcomp"),
                **{
                    f"pair_{key}": np.zeros(len(self.pair_geom))
                    for key in ("torsional_friction", "rolling_friction", "margin")
                },
                "geom_visual_material": np.full(self.ngeom, -1, np.int32),
                "actuator_site": np.full((self.nu, 2), -1, np.int32),
                "actuator_rod": np.zeros(self.nu),
                "actuator_body": np.full(self.nu, -1, np.int32),
                "pair_condim": np.full(len(self.pair_geom), 3, np.int32),
                "activation_range": np.tile(unlimited, (self.nu, 1)),
                "joint_effort_range": np.tile(unlimited, (self.njoint, 1)),
                "joint_effort_gravity": np.zeros(self.njoint, bool),
                "tendon_effort_range": np.tile(unlimited, (self.ntendon, 1)),
                "body_mocap": np.full(self.nbody, -1, np.int32),
                "wind": np.zeros(3),
                "body_fluid": np.zeros((self.nbody, 7)),
            }
        )
        for name, array in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, array)
        if self.point_pairs < 0:
            object.__setattr__(self, "point_pairs", len(self.pair_geom))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __getstate__(self) -> dict[str, Any]:
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return kept | {"keyframes": dict(self.keyframes)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        fields = {field.name: field for field in dataclasses.fields(self)}
        names = fields.keys()
        added = {name for name in names - kept.keys() if fields[name].default is not dataclasses.MISSING}
        kept = kept | {name: fields[name].default for name in added}  # pickles of older versions lack these
        if kept.keys() != names:
            raise ModelError(
                f"a pickled Model with other fields ({', '.join(sorted(kept.keys() ^ names))}): "
                "it comes from another version "
                "of warpsim; keep models as robot files or in stores"
            )
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "keyframes", types.MappingProxyType(self.keyframes))
        self.__post_init__()

    def __repr__(self) -> str:
        counts = ("nq", "nv", "nu", "na", "nbody", "nmocap", "njoint", "ngeom", "ntendon", "nconstraint")
        text = ", ".join(f"{name}={n}" for name in counts if (n := getattr(self, name)))
        mass = f"{self.body_mass.sum():.4g} kg"
        return (
            f"Model({short(self.name)}: {text or 'empty'}; {len(self.pair_geom)} contact pairs, {mass}, "
            f"timestep {self.timestep:g} s)"
        )

    @property
    def nq(self) -> int:
        """Number of positions."""
        return len(self.q0)

    @property
    def nv(self) -> int:
        """Number of velocities, the degrees of freedom."""
        return len(self.joint_stiffness)

    @property
    def nu(self) -> int:
        """Number of actuators, and of controls."""
        return len(self.actuator_names)

    @property
    def na(self) -> int:
        """Number of activations: one for each actuator with dynamics, in the order of the actuators."""
        return int(np.count_nonzero(self.actuator_dynamics))

    @property
    def actuator_activation(self) -> np.ndarray:
        """`(nu,)` index of each actuator's activation, -1 where it has none."""
        stateful = self.actuator_dynamics != DynamicsType.NONE
        return np.where(stateful, np.cumsum(stateful) - 1, -1)

    @property
    def muscle_force(self) -> np.ndarray:
        """`(nu, 2)` force scale F of each muscle's active and passive force [N, N m]; NaN where there is none.

        It is one column of `actuator_muscle`.
        """
        return self.actuator_muscle[..., FORCE]

    @property
    def muscle_curve(self) -> np.ndarray:
        """`(nu, 2, 7)` the other columns of `actuator_muscle`: low, high, lmin, lmax, vmax, fpmax, fvmax."""
        return np.delete(self.actuator_muscle, FORCE, axis=-1)

    @property
    def has_muscles(self) -> bool:
        """Whether any actuator is a muscle."""
        return bool(np.isfinite(self.muscle_force).any())

    @property
    def has_effort_limits(self) -> bool:
        """Whether any joint or tendon has an effort limit: a range of the total force of all actuators."""
        return bool(np.isfinite(self.joint_effort_range).any() or np.isfinite(self.tendon_effort_range).any())

    @property
    def nbody(self) -> int:
        """Number of bodies, without the world."""
        return len(self.body_names)

    @property
    def nmocap(self) -> int:
        """Number of mocap bodies, whose poses are an input of each step."""
        return int(self.body_mocap.max(initial=-1)) + 1

    @property
    def has_fluid(self) -> bool:
        """Whether the bodies move in a medium with density or viscosity."""
        return bool(self.fluid_density or self.fluid_viscosity)

    @property
    def mocap_links(self) -> np.ndarray:
        """`(nmocap,)` the link of each mocap body."""
        return self.body_link[np.flatnonzero(self.body_mocap >= 0)]

    @property
    def mocap0(self) -> np.ndarray:
        """`(nmocap, 7)` initial poses of the mocap bodies, `[x y z qw qx qy qz]`."""
        return self.link_pose[self.mocap_links]

    @property
    def njoint(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    @property
    def ngeom(self) -> int:
        """Number of geoms."""
        return len(self.geom_names)

    @property
    def nlink(self) -> int:
        """Number of links: one per joint, and one per body without joints."""
        return len(self.link_type)

    @property
    def ntree(self) -> int:
        """Number of trees of links."""
        return len(self.tree_reference)

    @property
    def ntendon(self) -> int:
        """Number of tendons."""
        return len(self.tendon_names)

    @property
    def nconstraint(self) -> int:
        """Number of equality constraints."""
        return len(self.constraint_names)

    @property
    def has_spin(self) -> bool:
        """Whether a pair that touches at points has torsional or rolling friction."""
        return bool((self.pair_condim[: self.point_pairs] > 3).any())

    @property
    def nsite(self) -> int:
        """Number of sites."""
        return len(self.site_names)

    @property
    def ncamera(self) -> int:
        """Number of cameras."""
        return len(self.camera_names)

    @property
    def nsensor(self) -> int:
        """Number of sensors."""
        return len(self.sensor_names)

    @property
    def nsensordata(self) -> int:
        """Number of values of all sensors together."""
        return int(self.sensor_size.sum())

    @property
    def geom_hydroelastic_modulus(self) -> np.ndarray:
        """`(ngeom,)` pressure in the middle of each geom [Pa]; inf: rigid, NaN: no pressure-field contact."""
        return self.geom_hydroelastic[:, 0]

    @property
    def geom_hydroelastic_thickness(self) -> np.ndarray:
        """`(ngeom,)` thickness [m] of the soft layer of compliant planes; NaN for other geoms."""
        return self.geom_hydroelastic[:, 2]

    @property
    def nown(self) -> int:
        """Number of laws of explicit pairs that differ from those of their geoms."""
        return len(self.pair_solref)

    @property
    def impratio(self) -> float:
        """MuJoCo's `impratio`."""
        return self.mujoco.impratio

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Names by element: body, joint, geom, tendon, constraint, actuator, site, camera, sensor, keyframe."""
        kinds = ("body", "joint", "geom", "tendon", "constraint", "actuator", "site", "camera", "sensor")
        return {kind: getattr(self, f"{kind}_names") for kind in kinds} | {"keyframe": tuple(self.keyframes)}

    @property
    def parents(self) -> np.ndarray:
        """`(nbody,)` parent body of each body, -1 for the world."""
        return self.body_parent

    @property
    def masses(self) -> np.ndarray:
        """`(nbody,)` body masses [kg]."""
        return self.body_mass

    def body(self, name: str) -> int:
        """Return the index of a body by name.

        Parameters
        ----------
        name : str
            Name of the body.

        Returns
        -------
        int
            Index of the body.

        Raises
        ------
        ValueError
            The model has no body of that name. The message lists those that it has.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("ant"))
        >>> model.body("front_left_shin")
        2
        """
        return self._index("body", name)

    def joint(self, name: str) -> int:
        """Return the index of a joint by name.

        Parameters
        ----------
        name : str
            Name of the joint.

        Returns
        -------
        int
            Index of the joint.

        Raises
        ------
        ValueError
            The model has no joint of that name. The message lists those that it has.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("ant"))
        >>> model.joint("front_left_knee")
        2
        """
        return self._index("joint", name)

    def geom(self, name: str) -> int:
        """Return the index of a geom by name.

        Parameters
        ----------
        name : str
            Name of the geom.

        Returns
        -------
        int
            Index of the geom.

        Raises
        ------
        ValueError
            The model has no geom of that name. The message lists those that it has.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("ant"))
        >>> model.geom("head")
        2
        """
        return self._index("geom", name)

    def tendon(self, name: str) -> int:
        """Return the index of a tendon by name.

        Parameters
        ----------
        name : str
            Name of the tendon.

        Returns
        -------
        int
            Index of the tendon.

        Raises
        ------
        ValueError
            The model has no tendon of that name. The message lists those that it has.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> bodies = [builder.add_body(name, mass=1.0, inertia=[0.1, 0.1, 0.1]) for name in ("left", "right")]
        >>> joints = [builder.add_joint(body, "slide") for body in bodies]
        >>> tendon = builder.add_tendon({0: 1.0, 1: 1.0}, name="both")
        >>> model = builder.build()
        >>> model.tendon("both")
        0
        """
        return self._index("tendon", name)

    def constraint(self, name: str) -> int:
        """Return the index of a constraint by name.

        Parameters
        ----------
        name : str
            Name of the constraint.

        Returns
        -------
        int
            Index of the constraint.

        Raises
        ------
        ValueError
            The model has no constraint of that name. The message lists those that it has.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> bodies = [builder.add_body(name, mass=1.0, inertia=[0.1, 0.1, 0.1]) for name in ("left", "right")]
        >>> joints = [builder.add_joint(body, "slide") for body in bodies]
        >>> constraint = builder.add_constraint("joint", 0, 1, name="together")
        >>> model = builder.build()
        >>> model.constraint("together")
        0
        """
        return self._index("constraint", name)

    def actuator(self, name: str) -> int:
        """Return the index of an actuator by name.

        Parameters
        ----------
        name : str
            Name of the actuator.

        Returns
        -------
        int
            Index of the actuator.

        Raises
        ------
        ValueError
            The model has no actuator of that name. The message lists those that it has.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("ant"))
        >>> model.actuator("front_right_hip")
        2
        """
        return self._index("actuator", name)

    def site(self, name: str) -> int:
        """Return the index of a site by name.

        Parameters
        ----------
        name : str
            Name of the site.

        Returns
        -------
        int
            Index of the site.

        Raises
        ------
        ValueError
            The model has no site of that name. The message lists those that it has.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> site = builder.add_site("origin")
        >>> model = builder.build()
        >>> model.site("origin")
        0
        """
        return self._index("site", name)

    def camera(self, name: str) -> int:
        """Return the index of a camera by name.

        Parameters
        ----------
        name : str
            Name of the camera.

        Returns
        -------
        int
            Index of the camera.

        Raises
        ------
        ValueError
            The model has no camera of that name. The message lists those that it has.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> camera = builder.add_camera("above", pose=[0, 0, 3])
        >>> model = builder.build()
        >>> model.camera("above")
        0
        """
        return self._index("camera", name)

    def sensor(self, name: str) -> slice:
        """Return the columns of `Simulator.sensors` that belong to a sensor.

        Parameters
        ----------
        name : str
            Name of the sensor.

        Returns
        -------
        slice
            The columns.

        Raises
        ------
        ValueError
            The model has no sensor of that name. The message lists those that it has.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> body = builder.add_body("hand", mass=1.0)
        >>> sensor = builder.add_sensor("framepos", ("body", "hand"), name="place")
        >>> builder.build().sensor("place")
        slice(0, 3, None)
        """
        index = self._index("sensor", name)
        first = int(self.sensor_adr[index])
        return slice(first, first + int(self.sensor_size[index]))

    def _index(self, element: str, name: str) -> int:
        names = getattr(self, f"{element}_names")
        if name not in names:
            raise ValueError(
                f"no {element} named {short(name)} in model {self.name!r}{self._elsewhere(name)}; "
                f"it has: {listed(names)}"
            )
        return names.index(name)

    def _elsewhere(self, name) -> str:
        """Where else the model has this name (a site where a body is asked for), as a phrase for an error message."""
        for kind, names in self.names.items():
            if isinstance(name, str) and name in names:
                owner = getattr(self, f"{kind}_body", None)
                body = -2 if owner is None or np.ndim(owner) != 1 else int(owner[names.index(name)])
                on = "" if body < -1 else " of the world" if body < 0 else f" of body {self.body_names[body]!r}"
                return f", where {name!r} is a {kind}{on}"
        return ""

    def ancestors(self, link: int) -> list[int]:
        """Return the degrees of freedom that move a link, from the root down.

        Parameters
        ----------
        link : int
            Index of the link; −1 is the world.

        Returns
        -------
        list of int
            Indices in v; empty for the world.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("cartpole"))
        >>> model.ancestors(model.body_link[model.body("pole")])
        [0, 1]
        """
        dofs: list[int] = []
        while link >= 0:
            start = int(self.link_v[link])
            dofs[:0] = range(start, start + JOINT_NV[JointType(self.link_type[link])])
            link = int(self.link_parent[link])
        return dofs

    def joint_coordinates(self, name: str) -> tuple[slice, slice]:
        """Return the slices of q and of v that belong to a joint.

        Parameters
        ----------
        name : str
            Name of the joint.

        Returns
        -------
        q, v : slice
            The positions and the velocities of the joint.

        Raises
        ------
        ValueError
            The model has no joint of that name. The message lists those that it has.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("ant"))
        >>> model.joint_coordinates(model.joint_names[0])
        (slice(0, 7, None), slice(0, 6, None))
        """
        j = self.joint(name)
        kind = JointType(self.joint_type[j])
        q, v = int(self.joint_q[j]), int(self.joint_v[j])
        return slice(q, q + JOINT_NQ[kind]), slice(v, v + JOINT_NV[kind])

    def displace(self, q: Numbers, delta: Numbers) -> np.ndarray:
        """Move positions along a tangent vector: q ⊕ δ, as `mj_integratePos` with a step of 1.

        Parameters
        ----------
        q : array (..., nq)
            Positions.
        delta : array (..., nv)
            Displacements in the space of velocities [m, rad]: rotation vectors in body axes for free and ball joints.

        Returns
        -------
        numpy.ndarray (..., nq)
            The positions after the displacement.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("ant"))
        >>> delta = np.linspace(0, 0.1, model.nv)
        >>> moved = model.displace(model.q0, delta)
        >>> bool(np.allclose(model.difference(model.q0, moved), delta))
        True
        """
        from warpsim.model.tangent import displace

        return displace(self, q, delta)

    def difference(self, start: Numbers, end: Numbers) -> np.ndarray:
        """Return the tangent vector between positions: δ with start ⊕ δ = end, as `mj_differentiatePos`.

        Parameters
        ----------
        start, end : array (..., nq)
            Positions.

        Returns
        -------
        numpy.ndarray (..., nv)
            The displacement [m, rad]: rotation vectors in body axes for free and ball joints.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("cartpole"))
        >>> model.difference([0.0, 0.1], [1.0, 0.3]).round(3).tolist()
        [1.0, 0.2]
        """
        from warpsim.model.tangent import difference

        return difference(self, start, end)

    def to_usd(self, path: PathLike, **options: Any) -> None:
        """Write the model as a USD stage with UsdPhysics prims; see docs/usd_export.md.

        Parameters
        ----------
        path : path
            The file: `.usd`, `.usdc`, `.usda` or `.usdz`.
        **options
            `q` (nq,): positions at which the model is written. Default: the initial pose.

        Examples
        --------
        >>> ws.load(ws.robots.path("hopper")).to_usd("hopper.usda")
        >>> ws.load("hopper.usda").nv
        6
        """
        registered("write_model")(self, path, **options)

    def to_mjcf(self, path: PathLike | None = None) -> str:
        """Return the model as MJCF text; see docs/mjcf.md.

        One warning lists what MuJoCo does differently. `ws.load` reads every number back.

        Parameters
        ----------
        path : path, optional
            A file to write the text to. Meshes and height fields go to the folder `NAME_assets` beside it. Default:
            none.

        Returns
        -------
        str
            The text.

        Raises
        ------
        ModelError
            MuJoCo cannot compile the model. The message names the feature.

        Examples
        --------
        >>> text = ws.load(ws.robots.path("hopper")).to_mjcf("hopper.xml")
        >>> ws.load("hopper.xml").nv
        6
        """
        return registered("to_mjcf")(self, path)

    def to_mjspec(self) -> "mujoco.MjSpec":
        """Return the model as a MuJoCo spec, made from the text of `to_mjcf`.

        Edit and compile it in MuJoCo, or read it with `ws.load`.
        """
        return registered("to_mjspec")(self)
