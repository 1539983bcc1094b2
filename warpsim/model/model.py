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

    Attributes
    ----------
    name : str
        Name of the model.
    timestep : float
        Time step of the file [s].
    gravity : array (3,)
        Gravity [m/s²], world axes.
    q0 : array (nq,)
        Initial positions [m, rad, quaternions]. A hinge or slide at its q0 leaves its link at the joint pose.
    body_names : tuple of str
        Names of the bodies.
    body_parent : array (nbody,) of int
        Parent body; −1 is the world.
    body_link : array (nbody,) of int
        The link that carries the body.
    body_mass : array (nbody,)
        Mass [kg].
    body_com : array (nbody, 3)
        Center of mass (COM) [m], body axes.
    body_inertia : array (nbody, 3, 3)
        Inertia about the COM [kg m²], body axes.
    joint_names : tuple of str
        Names of the joints.
    joint_type : array (njoint,) of int
        `JointType`.
    joint_body, joint_link : array (njoint,) of int
        The body and the link that the joint moves.
    joint_q, joint_v : array (njoint,) of int
        First coordinate in q, and first degree of freedom in v.
    joint_pose : array (njoint, 7)
        Joint frame in the previous link [m].
    joint_anchor : array (njoint, 3)
        Origin of the joint frame in the joint's own link [m].
    joint_axis : array (njoint, 3)
        Unit axis in the joint frame.
    joint_limited : array (njoint,) of bool
        Whether the joint has limits.
    joint_range : array (njoint, 2)
        Limits [rad, m]. For a ball joint the second value is the largest angle of rotation.
    joint_stiffness, joint_damping, joint_armature : array (nv,)
        Spring [N m/rad, N/m], damping [N m s/rad, N s/m] and armature [kg m², kg] of each degree of freedom.
    joint_friction : array (nv,)
        Largest dry friction [N m, N].
    joint_reference : array (nv,)
        Rest position of the spring [rad, m]; a rotation vector for ball and free joints.
    link_type : array (nlink,) of int
        `JointType`.
    link_parent, link_joint, link_body : array (nlink,) of int
        Parent link; joint, −1 for a fixed link; body that the link belongs to.
    link_pose : array (nlink, 7)
        Pose in the parent link at q0 [m]; fixed links keep it.
    link_q, link_v, link_tree : array (nlink,) of int
        First coordinate, first degree of freedom, and tree.
    tree_link, tree_v : array (ntree + 1,) of int
        First link and first degree of freedom of each tree.
    tree_reference : array (ntree,) of int
        The link whose origin is the tree's reference point.
    dof_parent, dof_link : array (nv,) of int
        The next degree of freedom toward the root, −1 at the root; the link.
    geom_names : tuple of str
        Names of the geoms.
    geom_type : array (ngeom,) of int
        `GeomType`.
    geom_body : array (ngeom,) of int
        The body; −1 is the world.
    geom_size : array (ngeom, 3)
        Sizes [m], with MuJoCo's conventions.
    geom_pose : array (ngeom, 7)
        Pose in the body [m].
    geom_friction : array (ngeom,)
        Coefficient of sliding friction.
    geom_stiffness : array (ngeom,)
        Contact stiffness [N/m]; inf is near-rigid.
    geom_dissipation_time : array (ngeom,)
        Dissipation time of contact [s]; NaN: `beta` of the solver times the time step, over π.
    geom_restitution : array (ngeom,)
        Coefficient of restitution.
    geom_hertz_modulus : array (ngeom,)
        Modulus of Hertz contact [Pa]; 0: none.
    geom_contype, geom_conaffinity : array (ngeom,) of int
        Contact masks, as in MuJoCo.
    geom_condim : array (ngeom,) of int
        1: no friction. 3: sliding friction. 4: torsional friction too. 6: rolling friction too.
    geom_priority : array (ngeom,) of int
        Of two geoms, the one of higher priority sets the friction.
    geom_rgba : array (ngeom, 4)
        Color.
    geom_mesh : array (ngeom,) of int
        Index into `meshes`; −1: none.
    geom_visible : array (ngeom,) of bool
        Whether the geom is drawn.
    meshes : tuple of Mesh
        Meshes.
    pair_geom : array (npair, 2) of int
        Pairs of geoms that may touch, the lower type first.
    pair_rule : array (npair,) of int
        `FrictionRule`.
    pair_friction : array (npair,)
        Friction of EXPLICIT pairs.
    excluded : array (n, 2) of int
        Pairs of bodies whose geoms never touch.
    friction_rule : int
        `FrictionRule` of geoms of equal priority.
    filter_parent : bool
        Whether a body and its parent never touch.
    tendon_names : tuple of str
        Names of the tendons.
    tendon_coefficients : array (ntendon, nv)
        Length of a fixed tendon per position of each hinge or slide; 0 for spatial tendons.
    tendon_limited : array (ntendon,) of bool
        Whether the length is limited.
    tendon_range : array (ntendon, 2)
        Limits of the length [m, rad].
    tendon_stiffness, tendon_damping, tendon_friction : array (ntendon,)
        Spring [N/m], damping [N s/m] and largest dry friction [N] along the tendon.
    tendon_reference : array (ntendon, 2)
        Lengths between which the spring is slack.
    constraint_names : tuple of str
        Names of the constraints.
    constraint_type : array (nconstraint,) of int
        `ConstraintType`.
    constraint_body : array (nconstraint, 2) of int
        Bodies A and B; −1 is the world or none.
    constraint_pose : array (nconstraint, 2, 7)
        The frames in A and B [m].
    constraint_joint : array (nconstraint, 2) of int
        Joints of JOINT, tendons of TENDON; −1: none.
    constraint_coefficients : array (nconstraint, 5)
        Depends on the type, see `ConstraintType`.
    constraint_active : array (nconstraint,) of bool
        Whether the constraint acts.
    constraint_stiffness : array (nconstraint, 2)
        Stiffness of the constraint along its axes [N/m] and about them [N m/rad]; JOINT and TENDON use the first; inf
        is rigid.
    constraint_dissipation_time : array (nconstraint,)
        Dissipation time [s]; NaN: as `geom_dissipation_time`.
    actuator_names : tuple of str
        Names of the actuators.
    actuator_joint, actuator_tendon : array (nu,) of int
        The joint or tendon that the actuator drives; −1: something else.
    actuator_gear : array (nu, 6)
        A joint uses one value per degree of freedom, a tendon the first.
    actuator_gain, actuator_bias : array (nu, 3)
        Force = gain · (1, length, velocity) control + bias · (1, length, velocity).
    control_range, force_range : array (nu, 2)
        Bounds of control and force; −inf, inf where unlimited.
    keyframes : dict of str to Keyframe
        Named states.
    report : tuple of ReportLine
        What the reader did with each feature of the file.
    hfields : tuple of HField
        One for each height-field geom, in the order of the geoms.
    geom_hydroelastic : array (ngeom, 4)
        Modulus [Pa] (NaN: no field, inf: rigid), resolution, thickness and margin [m] of pressure fields.
    geom_field : array (ngeom,) of int
        Index into `fields`; −1: none.
    fields : tuple of TetField
        Pressure fields on tetrahedra.
    point_pairs : int
        Pairs before this index touch at points, the others by pressure fields.
    geom_torsional_friction, geom_rolling_friction : array (ngeom,)
        Largest moment about the normal, and about the tangents, over the normal force [m].
    pair_condim : array (npair,) of int
        As `geom_condim`.
    pair_torsional_friction, pair_rolling_friction : array (npair,)
        As `geom_torsional_friction` and `geom_rolling_friction` [m], of EXPLICIT pairs.
    geom_friction_dynamic, geom_friction_velocity : array (ngeom,)
        Stribeck's law: friction at high sliding speed, and the speed scale of the decay to it [m/s]. NaN: no such law.
    site_names : tuple of str
        Names of the sites, which are frames on bodies.
    site_body : array (nsite,) of int
        The body; −1 is the world.
    site_pose : array (nsite, 7)
        Pose in the body [m].
    site_type : array (nsite,) of int
        `GeomType`.
    site_size : array (nsite, 3)
        Sizes [m].
    site_rgba : array (nsite, 4)
        Color.
    camera_names : tuple of str
        Names of the cameras. A camera looks along −z, y up.
    camera_body : array (ncamera,) of int
        The body; −1 is the world.
    camera_pose : array (ncamera, 7)
        Pose in the body [m].
    camera_fovy : array (ncamera,)
        Vertical angle of view [rad].
    camera_resolution : array (ncamera, 2) of int
        Width and height [pixels].
    wrap_tendon, wrap_type : array (nwrap,) of int
        Spatial tendon of each path element, ascending; `WrapType`.
    wrap_object, wrap_side : array (nwrap,) of int
        The site or geom, and the side site of a geom; −1: none.
    wrap_divisor : array (nwrap,)
        Divisor of a pulley.
    actuator_site : array (nu, 2) of int
        Site and reference site, or pin site and slider site of a crank; −1: none.
    actuator_rod : array (nu,)
        Length of a crank's rod [m]; 0: no crank.
    actuator_body : array (nu,) of int
        The body whose contacts stick (adhesion); −1: none.
    actuator_dynamics : array (nu,) of int
        `DynamicsType`.
    actuator_time : array (nu, 3)
        Time constant [s]. For muscles rise time and fall time [s], and the width of the control range between them.
    activation_range : array (nu, 2)
        Bounds of the activation; −inf, inf where unlimited.
    actuator_own_range : array (nu, 2)
        Bounds of the force that a force sensor reports, without the joint's effort limit; NaN: `force_range`.
    actuator_early : array (nu,) of bool
        Whether the force uses the activation at the end of the step.
    actuator_muscle : array (nu, 2, 8)
        Constants of a muscle's active and passive force, named as in `ws.Muscle`: range (low, high), force, lmin, lmax,
        vmax, fpmax, fvmax. NaN: no muscle.
    actuator_length_range : array (nu, 2)
        Least and largest length of a muscle [m, rad].
    actuator_group : array (nu,) of int
        Number of the actuator's group in the file; the simulator does not use it.
    joint_effort_range : array (njoint, 2)
        Bounds of the total actuator force on a hinge or slide [N m, N]; −inf, inf where unlimited.
    joint_effort_gravity : array (njoint,) of bool
        Whether the range also bounds gravity compensation.
    tendon_effort_range : array (ntendon, 2)
        Bounds of the total actuator force along a tendon [N]; −inf, inf where unlimited.
    body_gravcomp : array (nbody,)
        Share of gravity that is compensated.
    body_mocap : array (nbody,) of int
        Index of the mocap body, in the order of the bodies; −1: no mocap body.
    fluid_density, fluid_viscosity : float
        Density [kg/m³] and viscosity [Pa s] of the medium; both 0: no medium.
    wind : array (3,)
        Velocity of the medium [m/s], world axes.
    body_fluid : array (nbody, 7)
        Widths [m] and axes (a quaternion) of the box with the body's inertia.
    geom_fluid : array (ngeom, 15)
        Constants of an ellipsoid in the medium, see `warpsim/model/medium.py`; the first is 0 for a geom without.
    sensor_names : tuple of str
        Names of the sensors.
    sensor_type : array (nsensor,) of int
        `SensorType`.
    sensor_object_type, sensor_object : array (nsensor, 2) of int
        `ObjectType` and index of the object and of the reference; −1 is the world, or none.
    sensor_adr, sensor_size : array (nsensor,) of int
        First column of `Simulator.sensors`, and number of columns.
    sensor_cutoff : array (nsensor,)
        Largest absolute value; 0: no cutoff.
    sensor_datatype : array (nsensor,) of int
        `DataType`.
    sensor_constants : array (nsensor, 8)
        Depends on the type.
    geom_margin, pair_margin : array (ngeom,), array (npair,)
        Margin of point contact [m]. A pair's margin is the sum of its geoms', unless it has its own.
    geom_mapped_stiffness : array (ngeom,)
        Stiffness that a reader mapped from solref and solimp [N/m]; NaN: none.
    visual_materials : tuple of VisualMaterial
        Looks of geoms besides their color.
    geom_visual_material : array (ngeom,) of int
        Index into `visual_materials`; −1: none.
    mujoco : MuJoCoOptions
        Options of MuJoCo's law. Only `ws.MuJoCo()` reads these, solref, solimp and solmix.
    geom_solref, geom_solimp, geom_solmix : array (ngeom, 2), (ngeom, 5), (ngeom,)
        MuJoCo's solref, solimp and solmix of contact.
    geom_gap : array (ngeom,)
        Distance beyond the margin at which adhesion actuators act [m].
    geom_surfacevel : array (ngeom, 6)
        Velocity of the surface [m/s], and its angular velocity about the geom's origin [rad/s], geom axes.
    joint_solref, joint_solimp, joint_margin : array (njoint, 2), (njoint, 5), (njoint,)
        MuJoCo's law of joint limits, which act at this margin before their bounds [rad, m].
    joint_friction_solref, joint_friction_solimp : array (nv, 2), (nv, 5)
        MuJoCo's law of the dry friction of joints.
    tendon_solref, tendon_solimp, tendon_margin : array (ntendon, 2), (ntendon, 5), (ntendon,)
        MuJoCo's law of tendon limits.
    tendon_friction_solref, tendon_friction_solimp : array (ntendon, 2), (ntendon, 5)
        MuJoCo's law of the dry friction of tendons.
    constraint_solref, constraint_solimp : array (nconstraint, 2), (nconstraint, 5)
        MuJoCo's law of constraints.
    constraint_torquescale : array (nconstraint,)
        Length that weighs a weld's angles in MuJoCo's law [m].
    pair_own : array (npair,) of int
        For an explicit pair whose law is not that of its geoms: index of its row in the `nown` rows of the arrays
        below; −1: none.
    pair_solref, pair_solreffriction, pair_solimp : array (nown, 2), (nown, 2), (nown, 5)
        MuJoCo's law of such a pair; zeros in solreffriction: as solref.
    pair_own_friction : array (nown, 5)
        Friction of such a pair: sliding along the two tangents, torsional [m], and rolling about the two tangents [m].
    pair_own_condim, pair_own_margin : array (nown,)
        condim and margin [m] of such a pair.

    Notes
    -----
    A pose is `[x y z qw qx qy qz]`. Positions q (nq,) and velocities v (nv,) have the layout of MuJoCo's `qpos` and
    `qvel`. Bodies are counted without the world, which is body −1. A *link* is moved by one joint: a body has one link
    for each of its joints, or one fixed link. A *tree* is a set of links that joints connect.

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
    gravity: np.ndarray
    q0: np.ndarray

    body_names: tuple[str, ...]
    body_parent: np.ndarray
    body_link: np.ndarray
    body_mass: np.ndarray
    body_com: np.ndarray
    body_inertia: np.ndarray

    joint_names: tuple[str, ...]
    joint_type: np.ndarray
    joint_body: np.ndarray
    joint_link: np.ndarray
    joint_q: np.ndarray
    joint_v: np.ndarray
    joint_pose: np.ndarray
    joint_anchor: np.ndarray
    joint_axis: np.ndarray
    joint_limited: np.ndarray
    joint_range: np.ndarray
    joint_stiffness: np.ndarray
    joint_damping: np.ndarray
    joint_armature: np.ndarray
    joint_friction: np.ndarray
    joint_reference: np.ndarray

    link_type: np.ndarray
    link_parent: np.ndarray
    link_joint: np.ndarray
    link_body: np.ndarray
    link_pose: np.ndarray
    link_q: np.ndarray
    link_v: np.ndarray
    link_tree: np.ndarray
    tree_link: np.ndarray
    tree_v: np.ndarray
    tree_reference: np.ndarray
    dof_parent: np.ndarray
    dof_link: np.ndarray

    geom_names: tuple[str, ...]
    geom_type: np.ndarray
    geom_body: np.ndarray
    geom_size: np.ndarray
    geom_pose: np.ndarray
    geom_friction: np.ndarray
    geom_stiffness: np.ndarray
    geom_dissipation_time: np.ndarray
    geom_restitution: np.ndarray
    geom_hertz_modulus: np.ndarray
    geom_contype: np.ndarray
    geom_conaffinity: np.ndarray
    geom_condim: np.ndarray
    geom_priority: np.ndarray
    geom_rgba: np.ndarray
    geom_mesh: np.ndarray
    geom_visible: np.ndarray
    meshes: tuple[Mesh, ...]

    pair_geom: np.ndarray
    pair_rule: np.ndarray
    pair_friction: np.ndarray
    excluded: np.ndarray
    friction_rule: int
    filter_parent: bool

    tendon_names: tuple[str, ...]
    tendon_coefficients: np.ndarray
    tendon_limited: np.ndarray
    tendon_range: np.ndarray
    tendon_stiffness: np.ndarray
    tendon_damping: np.ndarray
    tendon_friction: np.ndarray
    tendon_reference: np.ndarray

    constraint_names: tuple[str, ...]
    constraint_type: np.ndarray
    constraint_body: np.ndarray
    constraint_pose: np.ndarray
    constraint_joint: np.ndarray
    constraint_coefficients: np.ndarray
    constraint_active: np.ndarray
    constraint_stiffness: np.ndarray
    constraint_dissipation_time: np.ndarray

    actuator_names: tuple[str, ...]
    actuator_joint: np.ndarray
    actuator_tendon: np.ndarray
    actuator_gear: np.ndarray
    actuator_gain: np.ndarray
    actuator_bias: np.ndarray
    control_range: np.ndarray
    force_range: np.ndarray

    keyframes: Mapping[str, Keyframe]
    report: tuple[ReportLine, ...]
    hfields: tuple[HField, ...] = ()

    # Pressure-field contact (`ws.Hydroelastic`). None and -1 stand for a model without it.
    geom_hydroelastic: np.ndarray = None  # type: ignore[assignment]
    geom_field: np.ndarray = None  # type: ignore[assignment]
    fields: tuple[TetField, ...] = ()
    # pairs before this index touch at points, the others by pressure fields; -1: all touch at points
    point_pairs: int = -1

    # Torsional and rolling friction [m]. None stands for the values of models stored without these fields.
    geom_torsional_friction: np.ndarray = None  # type: ignore[assignment]
    geom_rolling_friction: np.ndarray = None  # type: ignore[assignment]
    pair_condim: np.ndarray = None  # type: ignore[assignment]
    pair_torsional_friction: np.ndarray = None  # type: ignore[assignment]
    pair_rolling_friction: np.ndarray = None  # type: ignore[assignment]

    # Stribeck's law; nan: friction does not depend on the speed.
    geom_friction_dynamic: np.ndarray = None  # type: ignore[assignment]
    geom_friction_velocity: np.ndarray = None  # type: ignore[assignment]

    # Sites and cameras: frames on bodies (-1: the world). A camera looks along -z, y up.
    site_names: tuple[str, ...] = ()
    site_body: np.ndarray = None  # type: ignore[assignment]
    site_pose: np.ndarray = None  # type: ignore[assignment]
    site_type: np.ndarray = None  # type: ignore[assignment]
    site_size: np.ndarray = None  # type: ignore[assignment]
    site_rgba: np.ndarray = None  # type: ignore[assignment]
    camera_names: tuple[str, ...] = ()
    camera_body: np.ndarray = None  # type: ignore[assignment]
    camera_pose: np.ndarray = None  # type: ignore[assignment]
    camera_fovy: np.ndarray = None  # type: ignore[assignment]
    camera_resolution: np.ndarray = None  # type: ignore[assignment]

    # Paths of spatial tendons, element by element (`tendon_paths.py`). The tendon_coefficients of these tendons are 0.
    wrap_tendon: np.ndarray = None  # type: ignore[assignment]
    wrap_type: np.ndarray = None  # type: ignore[assignment]
    wrap_object: np.ndarray = None  # type: ignore[assignment]
    wrap_side: np.ndarray = None  # type: ignore[assignment]
    wrap_divisor: np.ndarray = None  # type: ignore[assignment]

    # Transmissions other than joints and tendons.
    actuator_site: np.ndarray = None  # type: ignore[assignment]
    actuator_rod: np.ndarray = None  # type: ignore[assignment]
    actuator_body: np.ndarray = None  # type: ignore[assignment]

    # Actuators with a state, and muscles (`kernels/forces/activation.py`, `muscle.py`). None: none.
    actuator_dynamics: np.ndarray = None  # type: ignore[assignment]
    actuator_time: np.ndarray = None  # type: ignore[assignment]
    activation_range: np.ndarray = None  # type: ignore[assignment]
    actuator_own_range: np.ndarray = None  # type: ignore[assignment]
    actuator_early: np.ndarray = None  # type: ignore[assignment]
    actuator_muscle: np.ndarray = None  # type: ignore[assignment]
    actuator_length_range: np.ndarray = None  # type: ignore[assignment]
    actuator_group: np.ndarray = None  # type: ignore[assignment]

    # Effort limits of the total actuator force (`kernels/forces/effort_limits.py`), gravity compensation, mocap.
    joint_effort_range: np.ndarray = None  # type: ignore[assignment]
    joint_effort_gravity: np.ndarray = None  # type: ignore[assignment]
    tendon_effort_range: np.ndarray = None  # type: ignore[assignment]
    body_gravcomp: np.ndarray = None  # type: ignore[assignment]
    body_mocap: np.ndarray = None  # type: ignore[assignment]

    # The medium (`warpsim/model/medium.py`); zero density and viscosity: no medium.
    fluid_density: float = 0.0
    fluid_viscosity: float = 0.0
    wind: np.ndarray = None  # type: ignore[assignment]
    body_fluid: np.ndarray = None  # type: ignore[assignment]
    geom_fluid: np.ndarray = None  # type: ignore[assignment]

    # Sensors (`sensor_types.py`). Sensor s has sensor_size columns of `Simulator.sensors` from sensor_adr on.
    sensor_names: tuple[str, ...] = ()
    sensor_type: np.ndarray = None  # type: ignore[assignment]
    sensor_object_type: np.ndarray = None  # type: ignore[assignment]
    sensor_object: np.ndarray = None  # type: ignore[assignment]
    sensor_adr: np.ndarray = None  # type: ignore[assignment]
    sensor_size: np.ndarray = None  # type: ignore[assignment]
    sensor_cutoff: np.ndarray = None  # type: ignore[assignment]
    sensor_datatype: np.ndarray = None  # type: ignore[assignment]
    sensor_constants: np.ndarray = None  # type: ignore[assignment]

    # Margins of point contact. A pair's margin is the sum of its geoms'; φ is the signed distance minus the margin.
    geom_margin: np.ndarray = None  # type: ignore[assignment]
    pair_margin: np.ndarray = None  # type: ignore[assignment]

    geom_mapped_stiffness: np.ndarray = None  # type: ignore[assignment]

    # How geoms look besides their color (`warpsim/model/looks.py`).
    visual_materials: tuple[VisualMaterial, ...] = ()
    geom_visual_material: np.ndarray = None  # type: ignore[assignment]

    # MuJoCo's constraint law, read by `ws.MuJoCo()` (`mujoco_options.py`). None stands for MuJoCo's defaults.
    mujoco: MuJoCoOptions = DEFAULT_OPTIONS
    geom_solref: np.ndarray = None  # type: ignore[assignment]
    geom_solimp: np.ndarray = None  # type: ignore[assignment]
    geom_solmix: np.ndarray = None  # type: ignore[assignment]
    geom_gap: np.ndarray = None  # type: ignore[assignment]
    geom_surfacevel: np.ndarray = None  # type: ignore[assignment]
    joint_solref: np.ndarray = None  # type: ignore[assignment]
    joint_solimp: np.ndarray = None  # type: ignore[assignment]
    joint_margin: np.ndarray = None  # type: ignore[assignment]
    joint_friction_solref: np.ndarray = None  # type: ignore[assignment]
    joint_friction_solimp: np.ndarray = None  # type: ignore[assignment]
    tendon_solref: np.ndarray = None  # type: ignore[assignment]
    tendon_solimp: np.ndarray = None  # type: ignore[assignment]
    tendon_margin: np.ndarray = None  # type: ignore[assignment]
    tendon_friction_solref: np.ndarray = None  # type: ignore[assignment]
    tendon_friction_solimp: np.ndarray = None  # type: ignore[assignment]
    constraint_solref: np.ndarray = None  # type: ignore[assignment]
    constraint_solimp: np.ndarray = None  # type: ignore[assignment]
    constraint_torquescale: np.ndarray = None  # type: ignore[assignment]
    # Explicit pairs whose law is not that of their geoms: the first of a pair's rows below, -1: none. A pair has
    # several rows where a file has several pairs of the same geoms; its other fields then hold the largest friction.
    pair_own: np.ndarray = None  # type: ignore[assignment]
    pair_solref: np.ndarray = None  # type: ignore[assignment]
    pair_solreffriction: np.ndarray = None  # type: ignore[assignment]
    pair_solimp: np.ndarray = None  # type: ignore[assignment]
    pair_own_friction: np.ndarray = None  # type: ignore[assignment]
    pair_own_condim: np.ndarray = None  # type: ignore[assignment]
    pair_own_margin: np.ndarray = None  # type: ignore[assignment]

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
        """`(nmocap,)` of int: index of the link that each mocap body is."""
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
        """Number of constraints."""
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
        """Number of explicit pairs with a contact law of their own, see `pair_own`."""
        return len(self.pair_solref)

    @property
    def impratio(self) -> float:
        """MuJoCo's `impratio`: the ratio of frictional to normal impedance of contacts."""
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
