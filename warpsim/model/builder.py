# SPDX-License-Identifier: Apache-2.0
"""`ModelBuilder`: collects bodies, joints, geoms and actuators, checks each, and compiles them into a `Model`.

The importers use it too, so that a file and a scene in code pass the same checks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from warpsim.base.annotations import Element
from warpsim.base.checks import flag, listed, number, short, whole
from warpsim.base.errors import ModelError
from warpsim.base.other_names import NamesOfModelBuilder
from warpsim.model import appending, compiler, constraint_types, constraints, medium
from warpsim.model.actuators import Actuator, EffortLimit, activation_options, actuator_law, interval
from warpsim.model.builder_names import ElementNames
from warpsim.model.builder_records import Body, Geom, Joint, with_mass
from warpsim.model.builder_values import (
    array_of,
    bounds_of,
    geom_type_of,
    hertz_of,
    hfield_of,
    hull_limit,
    inertia_of,
    mask_of,
    mesh_of,
    per_dof,
    pose_of,
    positive_of,
    scalar_of,
    share_of,
    size_of,
    tangents_of,
    unit_of,
    vector_of,
)
from warpsim.model.constraint_types import BODY_CONSTRAINTS, ConstraintType
from warpsim.model.constraints import Constraint, Tendon
from warpsim.model.foundation import add_foundation
from warpsim.model.friction_rules import (
    ROLLING_FRICTION,
    TORSIONAL_FRICTION,
    check_condim,
    check_lengths,
    check_sliding,
)
from warpsim.model.geometry import IDENTITY
from warpsim.model.hydroelastic import geom_row
from warpsim.model.looks import VisualMaterial, checked_material
from warpsim.model.marks import Camera, Site, make_camera, make_site
from warpsim.model.model import (
    JOINT_NQ,
    JOINT_NV,
    MAX_HULL_VERTICES,
    FrictionRule,
    GeomType,
    HField,
    JointType,
    Keyframe,
    KeyframeParts,
    Mesh,
    Model,
    ReportLine,
    TetField,
)
from warpsim.model.mujoco_options import SOLIMP, SOLREF, STILL, MuJoCoOptions, add_laws, checked_law, pair_row
from warpsim.model.muscle import Muscle
from warpsim.model.sensor_records import Sensor, make_sensor
from warpsim.model.targets import check_feedback, read_gear, read_target
from warpsim.model.tendon_paths import read_path

if TYPE_CHECKING:
    from warpsim.model.hydroelastic import Hydroelastic

DEFAULT_DENSITY = 1000.0  # kg/m^3


class ModelBuilder(ElementNames, NamesOfModelBuilder):
    """A scene in code.

    Every `add_*` method returns the index of the element. Elements are referred to by index or name. A pose is
    `[x, y, z, qw, qx, qy, qz]`; a 3-vector is a position alone. Units are SI.

    Parameters
    ----------
    name : str
        Name of the model. Default: "model".
    gravity : array (3,)
        Acceleration of gravity in the world frame [m/s²]. Default: (0, 0, -9.81).
    timestep : float
        Time step that a `Simulator` takes by default [s]. Default: 0.01.
    density : float
        Density of the medium that all bodies move in [kg/m³]. Default: 0.
    viscosity : float
        Viscosity of the medium [Pa s]. Default: 0. Zero density and viscosity mean no medium.
    wind : array (3,)
        Velocity of the medium in the world frame [m/s]. Default: 0.

    Attributes
    ----------
    friction_rule : FrictionRule or None
        How the friction of a pair follows from its geoms, if both have the same priority. None: that of the first model
        added, else HARMONIC.
    filter_parent : bool or None
        Whether there is no contact between a body and its parent. None: as in the first model added, else True.
    mujoco : MuJoCoOptions or None
        What `ws.MuJoCo()` reads. None: that of the first model added, else MuJoCo's defaults.

    Raises
    ------
    ModelError
        A value is not allowed. The message names the element, the value and the fix; this holds for all methods.

    Examples
    --------
    >>> builder = ws.ModelBuilder("ball")
    >>> floor = builder.add_geom("plane", name="floor")
    >>> ball = builder.add_body("ball", pose=[0, 0, 1])
    >>> joint = builder.add_joint(ball, "free")
    >>> geom = builder.add_geom("sphere", [0.1], body=ball, density=500)
    >>> builder.build()
    Model('ball': nq=7, nv=6, nbody=1, njoint=1, ngeom=2; 1 contact pairs, 2.094 kg, timestep 0.01 s)
    """

    name: str
    gravity: np.ndarray
    timestep: float
    density: float
    viscosity: float
    wind: np.ndarray

    def __init__(
        self,
        name: str = "model",
        *,
        gravity: npt.ArrayLike = (0.0, 0.0, -9.81),
        timestep: float = 0.01,
        density: float = 0.0,
        viscosity: float = 0.0,
        wind: npt.ArrayLike = (0.0, 0.0, 0.0),
    ):
        if not isinstance(name, str):
            raise ModelError(f"the model's name is {short(name)}; give a text")
        self.name = name
        self.gravity = vector_of(gravity, 3, "gravity")
        self.timestep = positive_of(timestep, "timestep [s]")
        self.density, self.viscosity, self.wind = density, viscosity, wind
        medium.medium_of(density, viscosity, wind)
        super().__init__()
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.geoms: list[Geom] = []
        self.tendons: list[Tendon] = []
        self.constraints: list[Constraint] = []
        self.actuators: list[Actuator] = []
        self.effort_limits: list[EffortLimit] = []
        self.sites: list[Site] = []
        self.cameras: list[Camera] = []
        self.sensors: list[Sensor] = []
        self.meshes: list[Mesh] = []
        self.hfields: list[HField] = []
        self.fields: list[TetField] = []
        self.keyframes: dict[str, Keyframe | KeyframeParts] = {}
        self.excluded: set[tuple[int, int]] = set()
        # (geom a, geom b, friction, condim, torsional friction, rolling friction, margin, own laws ...), a < b
        self.explicit_pairs: list[tuple[Any, ...]] = []
        self.friction_rule: FrictionRule | None = None
        self.filter_parent: bool | None = None
        self.mujoco: MuJoCoOptions | None = None
        self.report: list[ReportLine] = []

    def __repr__(self) -> str:
        lists = ("bodies", "joints", "geoms", "tendons", "constraints", "actuators", "keyframes")
        counts = ", ".join(f"{n} {key}" for key in lists if (n := len(getattr(self, key))))
        return f"ModelBuilder({short(self.name)}: {counts or 'empty'})"

    def add_body(
        self,
        name: str | None = None,
        *,
        parent: Element = -1,
        pose: npt.ArrayLike = IDENTITY,
        mass: float | None = None,
        com: npt.ArrayLike = (0, 0, 0),
        inertia: npt.ArrayLike | None = None,
        gravcomp: float = 0.0,
        mocap: bool = False,
    ) -> int:
        """Add a body.

        Without joints it is fixed to its parent.

        Parameters
        ----------
        name : str, optional
            Name of the body, other than "world". Default: "body_" and the index.
        parent : int or str
            The parent body; −1 (default) or "world" is the world.
        pose : array (7,) or (3,)
            Pose in the parent at the initial position. Default: the parent's frame.
        mass : float, optional
            Mass [kg]. Default: mass, center of mass and inertia follow from the densities of the body's geoms.
        com : array (3,)
            Center of mass in body axes [m]. Default: the origin.
        inertia : array (3,) or (3, 3), optional
            Diagonal or full inertia about the center of mass, in body axes [kg m²]. Default: a point mass.
        gravcomp : float
            Share of the body's weight that a force at its center of mass compensates; 1 is all of it. Default: 0.
        mocap : bool
            Whether each step reads the body's pose as an input. Default: False.

        Returns
        -------
        int
            Index of the body.

        Raises
        ------
        ModelError
            The name is taken, the parent does not exist, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> builder.add_body("base", mass=2.0, inertia=[0.1, 0.1, 0.1])
        0
        >>> builder.add_body("arm", parent="base", pose=[0, 0, 0.5], mass=1.0, com=[0, 0, 0.2])
        1
        """
        name = self._name("body", name, self.bodies)
        if name == "world":
            raise ModelError("a body cannot be called 'world': that is the name of the fixed frame")
        parent = self._body(parent)
        label = f"body {name!r}"
        com = vector_of(com, 3, f"{label}: com")
        if mass is not None:
            mass = scalar_of(mass, f"{label}: mass [kg]")
        elif inertia is not None or com.any():
            raise ModelError(
                f"{label} has a com or an inertia but no mass; give all, or none and densities to its geoms"
            )
        inertia = np.zeros((3, 3)) if inertia is None else inertia_of(inertia, label)
        share = number(gravcomp, f"{label}: gravcomp", "it must be finite", np.isfinite, ModelError)
        mocap = flag(mocap, f"{label}: mocap", ModelError)
        body = Body(name, parent, pose_of(pose, label), mass, com, inertia, share, mocap)
        self.bodies.append(body)
        return len(self.bodies) - 1

    def add_joint(
        self,
        body: Element,
        type: str | JointType = "hinge",
        *,
        name: str | None = None,
        axis: npt.ArrayLike = (0, 0, 1),
        anchor: npt.ArrayLike = (0, 0, 0),
        range: npt.ArrayLike | None = None,
        stiffness: npt.ArrayLike = 0.0,
        damping: npt.ArrayLike = 0.0,
        armature: npt.ArrayLike = 0.0,
        friction: npt.ArrayLike = 0.0,
        reference: npt.ArrayLike = 0.0,
        q0: npt.ArrayLike | None = None,
        solref: npt.ArrayLike = SOLREF,
        solimp: npt.ArrayLike = SOLIMP,
        margin: float = 0.0,
        friction_solref: npt.ArrayLike = SOLREF,
        friction_solimp: npt.ArrayLike = SOLIMP,
    ) -> int:
        """Add a joint between a body and its parent, after the joints that the body already has.

        Parameters
        ----------
        body : int or str
            The body that the joint moves.
        type : str or JointType
            "hinge" (default), "slide", "ball" or "free".
        name : str, optional
            Name of the joint. Default: "joint_" and the index.
        axis, anchor : array (3,)
            Axis of any length, and anchor point [m], in body axes. Default: z, and the origin.
        range : array (2,), optional
            (low, high) limits of a hinge [rad] or slide [m]; (0, largest angle [rad]) for a ball. Default: no limit.
        stiffness, damping, armature, friction : float or array (nv,)
            Spring [N/m, N m/rad], damper [N s/m, N m s/rad], added inertia [kg, kg m²] and largest dry-friction force
            or torque [N, N m]: one value, or one per degree of freedom. Default: 0.
        reference : float or array (nv,)
            Rest position of the spring [m, rad]. Default: 0.
        q0 : array (nq,), optional
            Initial position. Default: 0, no rotation, or the pose of the body for a free joint.
        solref, solimp : array (2,), array (5,)
            MuJoCo's law of the limits, read by `ws.MuJoCo()`. Default: MuJoCo's.
        margin : float
            With `ws.MuJoCo()` limits act this far before their bounds [m, rad]. Default: 0.
        friction_solref, friction_solimp : array (2,), array (5,)
            MuJoCo's law of dry friction; also one row per degree of freedom. Default: MuJoCo's.

        Returns
        -------
        int
            Index of the joint.

        Raises
        ------
        ModelError
            The type is unknown, the axis has no direction, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> pole = builder.add_body("pole", pose=[0, 0, 1], mass=1.0, com=[0, 0, -0.5])
        >>> builder.add_joint(pole, "hinge", axis=[0, 1, 0], range=[-1.5, 1.5], damping=0.1)
        0
        """
        body = self._body(body)
        name = self._name("joint", name, self.joints)
        label = f"joint {name!r}"
        if body < 0:
            raise ModelError(f"{label}: the world cannot have a joint; add it to a body")
        try:
            kind = type if isinstance(type, JointType) else JointType[str(type).upper()]
            if kind == JointType.FIXED:
                raise KeyError
        except KeyError:
            raise ModelError(
                f"{label}: unknown joint type {type!r}; use free, ball, slide or hinge (no joint at all is fixed)"
            ) from None
        siblings = [j for j in self.joints if j.body == body]
        if kind == JointType.FREE and (self.bodies[body].parent != -1 or siblings):
            raise ModelError(f"{label}: a free joint must be the only joint of a body whose parent is the world")
        if siblings and any(j.type == JointType.FREE for j in siblings):
            raise ModelError(f"{label}: body {self.bodies[body].name!r} already has a free joint")
        nv = JOINT_NV[kind]
        axis = vector_of(axis, 3, f"{label}: axis")
        length = np.linalg.norm(axis)
        if kind in (JointType.SLIDE, JointType.HINGE) and length < 1e-12:
            raise ModelError(f"{label}: axis {axis.tolist()} has no direction; give a non-zero vector")
        limited = range is not None
        limits = vector_of(range, 2, f"{label}: range") if limited else np.zeros(2)
        if limited and (kind == JointType.FREE or limits[0] > limits[1]):
            why = (
                "free joints cannot be limited"
                if kind == JointType.FREE
                else "the lower bound must not exceed the upper"
            )
            raise ModelError(f"{label}: range {limits.tolist()} refused: {why}")
        if limited and kind == JointType.BALL and (limits[0] != 0 or limits[1] <= 0):
            raise ModelError(f"{label}: range {limits.tolist()} refused: a ball joint takes (0, largest angle > 0)")
        positive = {"stiffness": stiffness, "damping": damping, "armature": armature, "friction": friction}
        for key, value in positive.items():
            positive[key] = per_dof(value, nv, f"{label}: {key}")
            if (positive[key] < 0).any():
                raise ModelError(f"{label}: {key} is {value}; it must not be negative")
        if q0 is None:
            q0 = self.bodies[body].pose if kind == JointType.FREE else [1, 0, 0, 0] if kind == JointType.BALL else [0]
        q0 = vector_of(q0, JOINT_NQ[kind], f"{label}: q0")
        if kind in (JointType.FREE, JointType.BALL):
            q0[-4:] = unit_of(q0[-4:], f"{label}: q0")
        anchor = np.zeros(3) if kind == JointType.FREE else vector_of(anchor, 3, f"{label}: anchor")
        if kind == JointType.FREE and np.ndim(reference) == 0 and reference == 0.0 and positive["stiffness"].any():
            raise ModelError(f"{label}: a spring on a free joint needs its reference (position, rotation vector)")
        reference = per_dof(reference, nv, f"{label}: reference")
        axis = axis / length if length > 0 else np.array([0.0, 0.0, 1.0])
        law = checked_law(label, solref=solref, solimp=solimp, margin=margin)
        law |= checked_law(label, nv, friction_solref=friction_solref, friction_solimp=friction_solimp)
        self.joints.append(
            Joint(name, kind, body, anchor, axis, limited, limits, **positive, reference=reference, q0=q0, **law)
        )
        return len(self.joints) - 1

    def add_geom(
        self,
        type: str | GeomType,
        size: npt.ArrayLike = (),
        *,
        body: Element = -1,
        pose: npt.ArrayLike = IDENTITY,
        name: str | None = None,
        density: float = DEFAULT_DENSITY,
        friction: float = 1.0,
        stiffness: float = np.inf,
        dissipation_time: float | None = None,
        restitution: float = 0.0,
        hertz_modulus: float = 0.0,
        contype: int = 1,
        conaffinity: int = 1,
        condim: int = 3,
        priority: int = 0,
        rgba: npt.ArrayLike = (0.7, 0.7, 0.7, 1.0),
        mesh: Any = None,
        hfield: Any = None,
        visible: bool = True,
        hydroelastic: "Hydroelastic | None" = None,
        max_hull_vertices: Any = MAX_HULL_VERTICES,
        fluid: Any = None,
        torsional_friction: Any = TORSIONAL_FRICTION,
        rolling_friction: Any = ROLLING_FRICTION,
        margin: Any = 0.0,
        material: VisualMaterial | None = None,
        friction_dynamic: float | None = None,
        friction_velocity: float | None = None,
        solref: npt.ArrayLike = SOLREF,
        solimp: npt.ArrayLike = SOLIMP,
        solmix: float = 1.0,
        surfacevel: npt.ArrayLike = STILL,
        gap: float = 0.0,
    ) -> int:
        """Add a shape to a body.

        Parameters
        ----------
        type : str or GeomType
            "plane" (z up, infinite), "sphere", "capsule", "cylinder", "box", "ellipsoid", "mesh" or "hfield".
        size : array
            Sphere: radius. Capsule and cylinder: radius, half length along z. Box and ellipsoid: three half extents
            [m]. None for the others.
        body : int or str
            The body that carries the geom; −1 (default) or "world" is the world.
        pose : array (7,) or (3,)
            Pose in the body. Default: the body's frame.
        name : str, optional
            Name of the geom. Default: "geom_" and the index.
        density : float
            Density [kg/m³], for bodies without a `mass` of their own. Default: 1000.
        friction : float
            Coefficient of Coulomb friction. Default: 1.
        stiffness : float
            Contact stiffness [N/m]; inf (default) is near-rigid.
        dissipation_time : float, optional
            Dissipation time of compliant contact [s]. Default: critical damping.
        restitution : float
            Coefficient of restitution from 0 (default) to 1, read by `SAP` and `LCP`; see `time_of_impact` of
            `ws.Simulator`.
        hertz_modulus : float
            Hertz modulus E* of a sphere of radius r [Pa], for `Compliant` contact: its force is E* sqrt(r d³) at depth
            d [m]. Default: 0, none.
        contype, conaffinity : int
            Contact masks: two geoms may touch if `contype` of one and `conaffinity` of the other share a bit. Default:
            1.
        condim : int
            1: no friction; 3 (default): sliding friction; 4: torsional friction too; 6: rolling friction too. A pair
            takes the larger condim of its geoms. A pair without sliding friction has no torsional or rolling friction
            either.
        priority : int
            The geom with the larger priority gives the friction and the condim of a pair. If both are equal, the
            builder's `friction_rule` gives the friction, and the larger condim holds. Default: 0.
        rgba : array (4,)
            Color, from 0 to 1.
        mesh : tuple, optional
            `(vertices (n, 3), faces (m, 3))` [m], or `(vertices, faces, uv (m, 3, 2))`. The mesh is solid inside.
        hfield : tuple, optional
            `(size (4,), data (rows, columns))`. `size` holds the half widths in x and y, the height of data 1, and the
            depth of the base [m].
        visible : bool
            Whether the geom is drawn. Default: True.
        hydroelastic : Hydroelastic, optional
            Two geoms that both have it touch by pressure fields if at least one of them is compliant.
        max_hull_vertices : int
            A mesh touches as its convex hull, simplified to at most this many vertices. Default: 64.
        fluid : bool or array (5,), optional
            True, or the five coefficients of MuJoCo's `fluidcoef`: the medium acts on the body's geoms as ellipsoids.
            Default: it acts on the body as a box.
        torsional_friction, rolling_friction : float
            Largest moment about the normal, and about the tangents, over the normal force [m]. Default: 0.005, 0.0001.
        margin : float
            Point contact acts where two geoms are nearer than the sum of their margins [m]; they rest that far apart.
            Default: 0.
        material : VisualMaterial, optional
            How the geom looks besides its color. Default: none.
        friction_dynamic, friction_velocity : float, optional
            Stribeck's law: friction falls from `friction` μ_s at rest to μ_d + (μ_s − μ_d) exp(−(v/v_s)²) at sliding
            speed v, with μ_d = `friction_dynamic` and v_s = `friction_velocity` [m/s]. Default: friction does not
            depend on the speed.
        solref, solimp, solmix : array (2,), array (5,), float
            MuJoCo's law of contact, read by `ws.MuJoCo()`. Default: MuJoCo's.
        surfacevel : array (6,)
            Velocity of the surface [m/s] and its angular velocity about the geom's origin [rad/s], in the geom's axes.
            The surface moves, the geom does not: a belt, a treadmill, a turntable. Friction carries the bodies that
            touch it. Default: 0.
        gap : float
            With `ws.MuJoCo()` adhesion actuators also pull at contacts up to this much beyond the margin [m]. Default:
            0.

        Returns
        -------
        int
            Index of the geom.

        Raises
        ------
        ModelError
            The type is unknown, a size is missing, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> builder.add_geom("plane", name="floor", friction=0.8)
        0
        >>> box = builder.add_body("box", pose=[0, 0, 0.5])
        >>> builder.add_geom("box", [0.1, 0.2, 0.3], body=box, density=500, rgba=[0.8, 0.2, 0.1, 1])
        1
        """
        body, name = self._body(body), self._name("geom", name, self.geoms)
        label = f"geom {name!r}"
        kind = geom_type_of(type, mesh, hfield, label)
        size = size_of(size, kind, label)
        friction = scalar_of(friction, f"{label}: friction")
        restitution = share_of(restitution, f"{label}: restitution")
        density = scalar_of(density, f"{label}: density [kg/m^3]")
        rule = "it must be positive [N/m] (inf: near-rigid)"
        stiffness = number(stiffness, f"{label}: stiffness", rule, lambda k: k > 0, ModelError)
        time = np.nan if dissipation_time is None else scalar_of(dissipation_time, f"{label}: dissipation_time [s]")
        spin = check_lengths(torsional_friction, rolling_friction, margin, label)
        spin += check_sliding(friction_dynamic, friction_velocity, label)
        if hfield is not None:
            self.hfields.append(hfield_of(name, hfield, label))
            size = bounds_of(self.hfields[-1])
        modulus = hertz_of(hertz_modulus, kind, stiffness, label)
        law = (friction, stiffness, time, restitution, modulus)
        masks = (mask_of(contype, f"{label}: contype"), mask_of(conaffinity, f"{label}: conaffinity"))
        masks += (check_condim(condim, label), whole(priority, f"{label}: priority", error=ModelError))
        visible = flag(visible, f"{label}: visible", ModelError)
        pose, rgba = pose_of(pose, label), vector_of(rgba, 4, f"{label}: rgba")
        index = -1 if mesh is None else len(self.meshes)
        if mesh is not None:
            limit = hull_limit(max_hull_vertices, f"{label}: max_hull_vertices")
            self.meshes.append(mesh_of(name, mesh, label)._replace(max_hull_vertices=limit))
            size = np.abs(self.meshes[-1].vertices).max(0)  # half extents that bound it
        soft, field = geom_row(hydroelastic, kind, size, label), -1
        if hydroelastic is not None and hydroelastic.field is not None:
            self.fields.append(hydroelastic.field)
            field = len(self.fields) - 1
        drag = medium.ellipsoid_row(kind, size, fluid, label)
        looks, law_of = (density, rgba, index, visible), {"solref": solref, "solimp": solimp, "solmix": solmix}
        own = checked_law(label, **law_of, surfacevel=surfacevel, gap=gap)
        given = (*law, *masks, *looks, soft, field, drag, *spin, checked_material(material, label))
        self.geoms.append(Geom(name, kind, body, size, pose, *given, **own))
        return len(self.geoms) - 1

    def add_foundation(
        self,
        body: Element,
        face: str = "-z",
        rows: int = 10,
        columns: int = 10,
        *,
        modulus: float,
        thickness: float,
        dissipation_time: float | None = None,
    ) -> list[int]:
        """Put an elastic foundation (Winkler) on a face of the one box geom of a body.

        Each element is a tiny invisible sphere of stiffness modulus [Pa] × cell area / thickness [m]. The elements take
        over the box's friction and contact masks, and the box itself no longer touches anything. A simulator needs one
        contact slot per element (`max_contacts`).

        Parameters
        ----------
        body : int or str
            The body with the box.
        face : str
            "+x", "-x", "+y", "-y", "+z" or "-z" (default) in the box's axes.
        rows, columns : int
            Numbers of elements; rows run along the first of the other two axes. Default: 10.
        modulus : float
            Elastic modulus [Pa].
        thickness : float
            Thickness of the layer [m].
        dissipation_time : float, optional
            Dissipation time [s]. Default: critical damping.

        Returns
        -------
        list of int
            Indices of the geoms.

        Raises
        ------
        ModelError
            The body has no box or several geoms, the face is unknown, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> box = builder.add_body("box")
        >>> geom = builder.add_geom("box", [0.1, 0.1, 0.1], body=box)
        >>> len(builder.add_foundation(box, rows=4, columns=4, modulus=1e5, thickness=0.01))
        16
        """
        return add_foundation(self, self._body(body), face, rows, columns, modulus, thickness, dissipation_time)

    def add_tendon(
        self,
        joints: Mapping[Element, float] | None = None,
        *,
        path: Sequence[Any] | None = None,
        name: str | None = None,
        range: npt.ArrayLike | None = None,
        stiffness: float = 0.0,
        damping: float = 0.0,
        friction: float = 0.0,
        reference: npt.ArrayLike | None = None,
        solref: npt.ArrayLike = SOLREF,
        solimp: npt.ArrayLike = SOLIMP,
        margin: float = 0.0,
        friction_solref: npt.ArrayLike = SOLREF,
        friction_solimp: npt.ArrayLike = SOLIMP,
    ) -> int:
        """Add a fixed tendon on joints, or a spatial tendon along a path.

        Parameters
        ----------
        joints : mapping, optional
            Hinges and slides (names or indices) to coefficients. The length is the sum of coefficient times q.
        path : sequence, optional
            Sites, pairs (geom, side site or None) of spheres and cylinders to wrap between two sites, and
            `ws.Pulley(divisor)` where a new branch begins. The length is that of the taut string [m]. Give either
            `joints` or `path`.
        name : str, optional
            Name of the tendon. Default: "tendon_" and the index.
        range : array (2,), optional
            (low, high) limits of the length. Default: no limit.
        stiffness, damping : float
            Spring and damper along the length [N/m, N s/m]. Default: 0.
        friction : float
            Largest dry-friction force [N]. Default: 0.
        reference : float or array (2,), optional
            The spring is slack between these lengths. Default: a fixed tendon's length where its joints' springs rest.
        solref, solimp : array (2,), array (5,)
            MuJoCo's law of the limits, read by `ws.MuJoCo()`. Default: MuJoCo's.
        margin : float
            With `ws.MuJoCo()` limits act this far before their bounds. Default: 0.
        friction_solref, friction_solimp : array (2,), array (5,)
            MuJoCo's law of dry friction. Default: MuJoCo's.

        Returns
        -------
        int
            Index of the tendon.

        Raises
        ------
        ModelError
            Neither or both of `joints` and `path` are given, an element does not exist, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> upper = builder.add_body("upper", mass=1.0, inertia=[0.1, 0.1, 0.1])
        >>> lower = builder.add_body("lower", parent=upper, pose=[0, 0, -1], mass=1.0, inertia=[0.1, 0.1, 0.1])
        >>> hip, knee = builder.add_joint(upper, name="hip"), builder.add_joint(lower, name="knee")
        >>> builder.add_tendon({"hip": 1.0, "knee": -0.5}, range=[-0.2, 0.2])
        0
        """
        name = self._name("tendon", name, self.tendons)
        label = f"tendon {name!r}"
        if (joints is None) == (path is None):
            raise ModelError(f"{label}: give joints or a path, and not both")
        coefficients = {} if joints is None else constraints.read_coefficients(self, joints, label)
        wraps = [] if path is None else read_path(self, path, label)
        limits = np.zeros(2) if range is None else vector_of(range, 2, f"{label}: range")
        if limits[0] > limits[1]:
            raise ModelError(f"{label}: range {limits.tolist()} refused: the lower bound must not exceed the upper")
        if reference is not None:
            value = array_of(reference, f"{label}: reference")
            reference = vector_of(np.full(2, value) if value.ndim == 0 else value, 2, f"{label}: reference")
            if reference[0] > reference[1]:
                raise ModelError(f"{label}: reference {reference.tolist()}; give (low, high) with low <= high")
        forces = {"stiffness": stiffness, "damping": damping, "friction": friction}
        forces = {key: scalar_of(value, f"{label}: {key}") for key, value in forces.items()}
        if wraps and reference is None and forces["stiffness"] > 0:
            raise ModelError(f"{label} has a spring; give the length [m] where it rests as reference")
        law = checked_law(label, solref=solref, solimp=solimp, margin=margin)
        law |= checked_law(label, friction_solref=friction_solref, friction_solimp=friction_solimp)
        self.tendons.append(
            Tendon(name, coefficients, range is not None, limits, **forces, reference=reference, path=wraps, **law)
        )
        return len(self.tendons) - 1

    def add_constraint(
        self,
        kind: str | ConstraintType,
        a: Element,
        b: Element | None = None,
        *,
        name: str | None = None,
        pose_a: npt.ArrayLike | None = None,
        pose_b: npt.ArrayLike | None = None,
        length: npt.ArrayLike | None = None,
        coefficients: npt.ArrayLike | None = None,
        pitch: float | None = None,
        stiffness: npt.ArrayLike = np.inf,
        dissipation_time: float | None = None,
        active: bool = True,
        solref: npt.ArrayLike = SOLREF,
        solimp: npt.ArrayLike = SOLIMP,
        torquescale: float = 1.0,
    ) -> int:
        """Add a constraint between two bodies, two joints or two tendons.

        Parameters
        ----------
        kind : str or ConstraintType
            For bodies "connect" (ball), "weld", "hinge" (about z), "slide" (along z), "distance" or "screw"; "joint";
            "tendon".
        a, b : int or str
            The two elements. For bodies "world", or None as `b`, is the world. For a coupling None as `b` ties a to its
            constant: q_a = q_a0 + c0.
        name : str, optional
            Name of the constraint. Default: "constraint_" and the index.
        pose_a, pose_b : array (7,) or (3,), optional
            The constrained frames in bodies a and b. A missing frame coincides with the other in the initial pose. If
            both are missing, they are at b's origin (at a's if b is the world). For "distance", a missing frame is at
            its own body's origin.
        length : float or array (2,), optional
            "distance": keeps the distance of the frames' origins at `length`, or within (shortest, longest) [m].
            (0, L) is a rope of length L. Default: the initial distance.
        coefficients : array (up to 5,), optional
            "joint", "tendon": q_a − q_a0 = c0 + c1 (q_b − q_b0) + … + c4 (…)⁴, with q_0 the initial position. Default:
            (0, 1), which keeps the two equal.
        pitch : float, optional
            "screw" (five rows) leaves one degree of freedom: rotation about z with `pitch` along z per turn [m];
            positive is right-handed.
        stiffness : float or array (2,)
            Stiffness [N/m], or ([N/m], [N m/rad]) for a kind that also holds angles; inf (default) is near-rigid.
        dissipation_time : float, optional
            Damping over stiffness [s]. Default: critical damping.
        active : bool
            An inactive constraint does nothing. Default: True.
        solref, solimp : array (2,), array (5,)
            MuJoCo's law, read by `ws.MuJoCo()`. Default: MuJoCo's.
        torquescale : float
            Length that weighs the angles of a weld in MuJoCo's law [m]. Default: 1.

        Returns
        -------
        int
            Index of the constraint.

        Raises
        ------
        ModelError
            The kind is unknown, an element does not exist, an option belongs to another kind, or a value is not
            allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> left, right = builder.add_body("left", mass=1.0), builder.add_body("right", pose=[1, 0, 0], mass=1.0)
        >>> joints = [builder.add_joint(body, "slide") for body in (left, right)]
        >>> builder.add_constraint("joint", joints[0], joints[1], name="together")
        0
        """
        name = self._name("constraint", name, self.constraints)
        label = f"constraint {name!r}"
        kind = constraint_types.constraint_type(kind, label)
        find = {ConstraintType.JOINT: self._joint, ConstraintType.TENDON: self._tendon}.get(kind, self._body)
        ends = (find(a), -1 if b is None else find(b))
        if ends[0] == ends[1]:
            raise ModelError(f"{label} ties {a!r} to itself; give two different elements")
        if kind == ConstraintType.JOINT:
            for end in ends[: 1 if b is None else 2]:
                constraints.check_single(self.joints, end, label)
        options = {"length": length, "coefficients": coefficients, "pitch": pitch}
        if kind not in BODY_CONSTRAINTS:
            options |= {"pose_a": pose_a, "pose_b": pose_b}
        values = constraint_types.read_option(kind, options, b is None, label)
        if kind not in BODY_CONSTRAINTS and b is None and values[1:].any():
            raise ModelError(f"{label}: coefficients {values.tolist()} need a second {kind.name.lower()}")
        frames = [None if pose is None else pose_of(pose, label) for pose in (pose_a, pose_b)]
        time = np.nan if dissipation_time is None else scalar_of(dissipation_time, f"{label}: dissipation_time [s]")
        stiff = constraints.check_stiffness(stiffness, label)
        active = flag(active, f"{label}: active", ModelError)
        law = checked_law(label, solref=solref, solimp=solimp, torquescale=torquescale)
        self.constraints.append(Constraint(name, kind, ends, tuple(frames), values, active, stiff, time, **law))
        return len(self.constraints) - 1

    def add_actuator(
        self,
        joint: Element | None = None,
        kind: str = "effort",
        *,
        tendon: Element | None = None,
        site: Element | None = None,
        reference_site: Element | None = None,
        crank: Element | None = None,
        body: Element | None = None,
        name: str | None = None,
        gear: npt.ArrayLike = 1.0,
        kp: float = 0.0,
        kv: float = 0.0,
        gain: npt.ArrayLike | None = None,
        bias: npt.ArrayLike | None = None,
        control_range: npt.ArrayLike = (-np.inf, np.inf),
        force_range: npt.ArrayLike = (-np.inf, np.inf),
        dynamics: Any = None,
        activation_range: npt.ArrayLike = (-np.inf, np.inf),
        early: bool = False,
        muscle: Muscle | None = None,
        group: int = 0,
    ) -> int:
        """Add an actuator: force = ((gain · s) drive + bias · s) gear, with s = (1, length, velocity).

        Parameters
        ----------
        joint : int or str, optional
            The joint to act on. The length of a hinge or slide is gear q and its velocity gear v; `gear` has one value
            per degree of freedom. Give one of `joint`, `tendon`, `site`, `crank` and `body`.
        kind : str
            "effort" (default; the drive is the force), "position" (`kp`, and `kv` as damping), "velocity" (`kv`),
            "affine" (with `gain` and `bias`) or "muscle" (with `muscle=ws.Muscle(...)`).
        tendon : int or str, optional
            The tendon to act on; the length is gear times the tendon's.
        site : int or str, optional
            The site to act on: gear (6,) is a force and a torque in the site's axes, and the length is 0.
        reference_site : int or str, optional
            Force and torque on `site` are in the axes of this site, and the length is gear · (position, rotation
            vector) of `site` in these axes.
        crank : tuple, optional
            `(pin site, slider site, rod [m])` of a slider-crank: the length is the slide of the rod along the slider's
            z axis.
        body : int or str, optional
            The body of an adhesion actuator. The control is a force that pulls the body's contacts together; they
            share it. `control_range` starts at 0 or above, and there is no feedback.
        name : str, optional
            Name of the actuator. Default: "actuator_" and the index.
        gear : float or array
            Factors of the force. Default: 1.
        kp, kv : float
            Gains of "position" and "velocity" [N/m or N m/rad; N s/m or N m s/rad]. Default: 0.
        gain, bias : array (3,), optional
            Coefficients of s, for "affine".
        control_range, force_range : array (2,)
            Controls and forces are clamped to these. Default: unlimited.
        dynamics : str or tuple, optional
            None (default): the drive is the control. Otherwise the drive is an activation, a part of the state that
            follows the control: "integrator", ("filter", tau), ("filterexact", tau) or ("muscle", rise, fall, width),
            times in [s]. A muscle has its own.
        activation_range : array (2,)
            Activations are clamped to it. Default: unlimited.
        early : bool
            Whether the force uses the activation at the end of the step. Default: False.
        muscle : Muscle, optional
            The curves of a muscle, for "muscle".
        group : int
            Group of the actuator in MJCF, kept in `model.actuator_group`; the simulator does not use it. Default: 0.

        Returns
        -------
        int
            Index of the actuator.

        Raises
        ------
        ModelError
            Not exactly one element is given, it does not exist, an option belongs to another kind, or a value may not
            be.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> pole = builder.add_body("pole", mass=1.0, inertia=[0.1, 0.1, 0.1])
        >>> hinge = builder.add_joint(pole, "hinge", axis=[0, 1, 0], name="hinge")
        >>> builder.add_actuator("hinge", "position", kp=50.0, kv=2.0, force_range=[-10, 10])
        0
        """
        name = self._name("actuator", name, self.actuators)
        label = f"actuator {name!r}"
        target = read_target(self, joint, tendon, site, reference_site, crank, body, label)
        gain, bias = actuator_law(kind, kp, kv, gain, bias, label, muscle)
        gears = read_gear(self, target, gear, label)
        if bias[2] > 0:
            raise ModelError(f"{label}: velocity bias is {bias[2]}; a positive one feeds energy in, make it <= 0")
        ranges = (interval(control_range, f"{label}: control_range"), interval(force_range, f"{label}: force_range"))
        check_feedback(self, target, gain[1:].any() or bias[1:].any() or muscle is not None, ranges[0], gain, label)
        state = activation_options(dynamics, activation_range, early, muscle, label)
        self.actuators.append(
            Actuator(name, target, gears, gain, bias, *ranges, group=whole(group, f"{label}: group"), **state)
        )
        return len(self.actuators) - 1

    def add_effort_limit(
        self,
        joint: Element | None = None,
        range: npt.ArrayLike = (-np.inf, np.inf),
        *,
        tendon: Element | None = None,
        gravity_compensation: bool = False,
    ) -> int:
        """Clamp the total force of all actuators on a hinge, slide or tendon.

        Parameters
        ----------
        joint : int or str, optional
            A hinge or slide, whose generalized force is limited. Give either `joint` or `tendon`.
        range : array (2,)
            (low, high) [N, N m]. Default: unlimited.
        tendon : int or str, optional
            A tendon.
        gravity_compensation : bool
            Whether the limit of a joint also bounds the gravity compensation of bodies (gravcomp). Default: False.

        Returns
        -------
        int
            Index of the effort limit.

        Raises
        ------
        ModelError
            The element has an effort limit already, or a value is not allowed.

        Notes
        -----
        Where a single actuator acts, prefer its `force_range`: the step solves it implicitly, while this limit clamps
        the forces at the start of the step.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> pole = builder.add_body("pole", mass=1.0, inertia=[0.1, 0.1, 0.1])
        >>> hinge = builder.add_joint(pole, "hinge", name="hinge")
        >>> builder.add_effort_limit("hinge", [-20, 20])
        0
        """
        if (joint is None) == (tendon is None):
            raise ModelError("add_effort_limit: give a joint or a tendon, and not both")
        j, t = (-1, self._tendon(tendon)) if joint is None else (self._joint(joint), -1)
        label = f"tendon {self.tendons[t].name!r}" if j < 0 else f"joint {self.joints[j].name!r}"
        if j >= 0:
            constraints.check_single(self.joints, j, f"effort limit of {label}")
        if any((limit.joint, limit.tendon) == (j, t) for limit in self.effort_limits):
            raise ModelError(f"{label} has an effort limit already; give one")
        gravity = flag(gravity_compensation, f"{label}: gravity_compensation", ModelError)
        if gravity and j < 0:
            raise ModelError(f"{label}: gravity_compensation means nothing for a tendon; leave it out")
        self.effort_limits.append(EffortLimit(j, t, interval(range, f"{label}: range of efforts"), gravity))
        return len(self.effort_limits) - 1

    def add_site(
        self,
        name: str | None = None,
        *,
        body: Element = -1,
        pose: npt.ArrayLike = IDENTITY,
        type: str = "sphere",
        size: npt.ArrayLike = (0.005,),
        rgba: npt.ArrayLike = (0.5, 0.5, 0.5, 1.0),
    ) -> int:
        """Add a named frame, for tendons, actuators and sensors.

        Parameters
        ----------
        name : str, optional
            Name of the site. Default: "site_" and the index.
        body : int or str
            The body that carries it; −1 (default) or "world" is the world.
        pose : array (7,) or (3,)
            Pose in the body. Default: the body's frame.
        type : str
            "sphere" (default), "capsule", "ellipsoid", "cylinder" or "box": the zone of a touch sensor and the drawn
            shape.
        size : array
            Size of that shape, as for geoms [m]. Default: 0.005.
        rgba : array (4,)
            Color, from 0 to 1.

        Returns
        -------
        int
            Index of the site.

        Raises
        ------
        ModelError
            The body does not exist, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> hand = builder.add_body("hand", mass=1.0)
        >>> builder.add_site("palm", body="hand", pose=[0, 0, 0.05])
        0
        """
        name = self._name("site", name, self.sites)
        self.sites.append(make_site(name, self._body(body), pose, type, size, rgba))
        return len(self.sites) - 1

    def add_camera(
        self,
        name: str | None = None,
        *,
        body: Element = -1,
        pose: npt.ArrayLike = IDENTITY,
        fovy: float = np.pi / 4,
        resolution: tuple[int, int] = (1, 1),
    ) -> int:
        """Add a camera. It looks along its −z with y up.

        Parameters
        ----------
        name : str, optional
            Name of the camera. Default: "camera_" and the index.
        body : int or str
            The body that carries it; −1 (default) or "world" is the world.
        pose : array (7,) or (3,)
            Pose in the body. Default: the body's frame.
        fovy : float
            Vertical angle of view [rad]. Default: π/4.
        resolution : tuple of int
            Width and height [pixels]. Default: (1, 1).

        Returns
        -------
        int
            Index of the camera.

        Raises
        ------
        ModelError
            The body does not exist, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> builder.add_camera("above", pose=[0, 0, 3], resolution=(64, 48))
        0
        """
        name = self._name("camera", name, self.cameras)
        self.cameras.append(make_camera(name, self._body(body), pose, fovy, resolution))
        return len(self.cameras) - 1

    def add_sensor(
        self,
        kind: str,
        object: Any = None,
        reference: Any = None,
        *,
        name: str | None = None,
        cutoff: float = 0.0,
        datatype: Any = None,
        **options: Any,
    ) -> int:
        """Add a sensor, of a kind named as in MJCF; see docs/sensors.md.

        Parameters
        ----------
        kind : str
            For example "accelerometer", "framepos", "jointpos" or "touch".
        object, reference : int, str or tuple, optional
            What the sensor is attached to, and what it measures relative to. Kinds that allow one type of element take
            its name or index. Other kinds take (type, name), with the type "body", "inertia" (the principal axes at the
            center of mass), "geom", "site", "camera" or, for contact, "subtree".
        name : str, optional
            Name of the sensor. Default: "sensor_" and the index.
        cutoff : float
            Values beyond it are clamped; 0 (default): no cutoff.
        datatype : str, optional
            Data type of a file that differs from that of the kind, kept in `model.sensor_datatype`. Default: that of
            the kind.
        **options
            `field` (3,) of a magnetometer; `data` of a rangefinder; `focal` (2,) [pixels] of a camprojection; `margin`
            of joint and tendon limits; `data`, `reduce` and `num` of contact; `frames` (2 quaternions) of "inertia".

        Returns
        -------
        int
            Index of the sensor.

        Raises
        ------
        ModelError
            The kind is unknown, the element does not exist, or an option belongs to another kind.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> hand = builder.add_body("hand", mass=1.0)
        >>> site = builder.add_site("palm", body=hand)
        >>> builder.add_sensor("accelerometer", "palm", name="imu")
        0
        >>> builder.add_sensor("framepos", ("body", "hand"), name="place")
        1
        """
        name = self._name("sensor", name, self.sensors)
        self.sensors.append(make_sensor(self, name, kind, object, reference, cutoff, datatype, options))
        return len(self.sensors) - 1

    def add_keyframe(
        self,
        name: str,
        q: npt.ArrayLike | None = None,
        v: npt.ArrayLike | None = None,
        control: npt.ArrayLike | None = None,
        activation: npt.ArrayLike | None = None,
        mocap: npt.ArrayLike | None = None,
    ) -> None:
        """Add a named state.

        Parameters
        ----------
        name : str
            Name of the keyframe, for `sim.state(keyframe=name)`.
        q : array (nq,), optional
            Positions. Default: the initial pose.
        v : array (nv,), optional
            Velocities. Default: 0.
        control : array (nu,), optional
            Controls. Default: 0.
        activation : array (na,), optional
            Activations. Default: 0.
        mocap : array (nmocap, 7), optional
            Poses of the mocap bodies. Default: their initial poses.

        Raises
        ------
        ModelError
            The name is taken. `build` raises it for a wrong shape or value.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> ball = builder.add_body("ball", mass=1.0, inertia=[0.1, 0.1, 0.1])
        >>> joint = builder.add_joint(ball, "free")
        >>> builder.add_keyframe("high", q=[0, 0, 5, 1, 0, 0, 0])
        >>> sim = ws.Simulator(builder.build(), device="cpu")
        >>> float(sim.state(keyframe="high").q.numpy()[0, 2])
        5.0
        """
        frame = Keyframe(q, v, control, activation, mocap)
        self.keyframes[self._name("keyframe", name, self.keyframes)] = frame

    def exclude(self, body_a: Element, body_b: Element) -> None:
        """Disable contact between the geoms of two bodies.

        Parameters
        ----------
        body_a, body_b : int or str
            The bodies; −1 or "world" is the world.

        Raises
        ------
        ModelError
            A body does not exist.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> first, second = builder.add_body("first", mass=1.0), builder.add_body("second", mass=1.0)
        >>> builder.exclude("first", "second")
        """
        a, b = self._body(body_a), self._body(body_b)
        self.excluded.add((min(a, b), max(a, b)))

    def add_pair(
        self,
        geom_a: Element,
        geom_b: Element,
        friction: npt.ArrayLike,
        *,
        condim: int = 3,
        torsional_friction: float = TORSIONAL_FRICTION,
        rolling_friction: npt.ArrayLike = ROLLING_FRICTION,
        margin: float = 0.0,
        solref: npt.ArrayLike | None = None,
        solreffriction: npt.ArrayLike | None = None,
        solimp: npt.ArrayLike | None = None,
    ) -> None:
        """Let two geoms touch whatever the masks and filters say, with friction of their own.

        Parameters
        ----------
        geom_a, geom_b : int or str
            The geoms.
        friction : float or array (2,)
            Coefficient of Coulomb friction. Two values hold for the two tangents of the contact frame; only
            `ws.MuJoCo()` accepts them.
        condim : int
            1, 3 (default), 4 or 6, as in `add_geom`.
        torsional_friction : float
            Largest moment about the normal over the normal force [m]. Default: 0.005.
        rolling_friction : float or array (2,)
            Largest moment about the tangents over the normal force [m]. Default: 0.0001. Two values as those of
            `friction`.
        margin : float
            Distance at which contact acts [m]. Default: 0.
        solref, solreffriction, solimp : array (2,), array (2,), array (5,), optional
            MuJoCo's law of the pair, and of its friction. Default: `solref` and `solimp` follow the geoms', and
            friction has the pair's `solref`.

        Raises
        ------
        ModelError
            A geom does not exist, the pair is there already, or a value is not allowed.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> floor = builder.add_geom("plane", contype=0, conaffinity=0)
        >>> ball = builder.add_body("ball", pose=[0, 0, 1])
        >>> geom = builder.add_geom("sphere", [0.1], body=ball)
        >>> builder.add_pair(floor, geom, friction=0.3)
        """
        a, b = sorted((self._geom(geom_a), self._geom(geom_b)))
        label = f"pair of geoms {self.geoms[a].name!r} and {self.geoms[b].name!r}"
        if a == b or any((a, b) == pair[:2] for pair in self.explicit_pairs):
            raise ModelError(f"{label}: " + ("a geom cannot touch itself" if a == b else "it is there twice"))
        condim, given = check_condim(condim, label), (solref, solreffriction, solimp)
        sliding = tangents_of(friction, f"{label}: friction")
        rolling = tangents_of(rolling_friction, f"{label}: rolling_friction [m]")
        spin = check_lengths(torsional_friction, rolling[0], margin, label)
        self.explicit_pairs.append((a, b, 0.0 if condim == 1 else sliding[0], condim, *spin))
        if any(value is not None for value in given) or len({*sliding}) > 1 or len({*rolling}) > 1:
            own = [*sliding, spin[0], *rolling]
            add_laws(self, [pair_row((self.geoms[a], self.geoms[b]), label, own, condim, spin[2], *given)])

    def add_model(
        self,
        other: Model,
        pose: npt.ArrayLike = IDENTITY,
        prefix: str = "",
        parent: Element = -1,
        free: Literal["weld", "keep"] | None = None,
    ) -> list[int]:
        """Add every element of a built model.

        The world of `other` becomes a frame of the body `parent`. Keyframes and report lines come along; gravity,
        timestep and medium stay the builder's. After an error the builder is unchanged.

        Parameters
        ----------
        other : Model
            The model, from `ws.load` or `build`.
        pose : array (7,) or (3,)
            Pose of that frame in `parent`. Default: the frame of `parent`.
        prefix : str
            Put before all names of `other`. Default: nothing.
        parent : int or str
            Body that the root bodies of `other` hang on; −1 (default) is the world. It carries the geoms, sites,
            cameras, constraints and excluded contacts of the world of `other`. Below a body (not the world) mocap
            bodies are refused.
        free : str, optional
            What to do with a body of `other` that has a free joint, if `parent` is a body: a free body cannot hang on
            another. "weld" fixes it to `parent`; "keep" leaves it free in the world, with its initial pose in the
            placed frame. Default: raise `ModelError`.

        Returns
        -------
        list of int
            Indices of the bodies.

        Raises
        ------
        ModelError
            A name is taken, or `other` has geoms and its friction rule or parent filter differs from the one that the
            builder has set.

        Examples
        --------
        >>> builder = ws.ModelBuilder("two hoppers")
        >>> hopper = ws.load(ws.robots.path("hopper"))
        >>> bodies = [builder.add_model(hopper, pose=[0, y, 0], prefix=f"{y}/") for y in (0, 1)]
        >>> bodies, builder.build().body_names[4]
        ([[0, 1, 2, 3], [4, 5, 6, 7]], '1/trunk')
        """
        if not isinstance(other, Model):
            hint = "build() it" if isinstance(other, ModelBuilder) else "ws.load reads robot files"
            raise ModelError(f"add_model: other is {short(other)}; give a built Model: {hint}")
        if not isinstance(prefix, str):
            raise ModelError(f"add_model: prefix is {short(prefix)}; give a text")
        return appending.append_model(self, other, pose_of(pose, "add_model"), prefix, self._body(parent), free)

    def build(self) -> Model:
        """Check the whole scene and compile it.

        Returns
        -------
        Model
            The model. The builder can be changed and built again.

        Raises
        ------
        ModelError
            The message names the element that is wrong, its value and the fix.

        Examples
        --------
        >>> builder = ws.ModelBuilder("ball")
        >>> ball = builder.add_body("ball", mass=1.0, inertia=[0.1, 0.1, 0.1])
        >>> joint = builder.add_joint(ball, "free")
        >>> builder.build().nv
        6
        """
        scene = copy.copy(self)
        scene.gravity, scene.timestep = (
            vector_of(self.gravity, 3, "gravity"),
            positive_of(self.timestep, "timestep [s]"),
        )
        scene.bodies = [with_mass(self, index) for index in range(len(self.bodies))]
        rule, rules = self.friction_rule, {int(r): r for r in FrictionRule if r != FrictionRule.EXPLICIT}
        scene.friction_rule = rules.get(FrictionRule.HARMONIC if rule is None else rule)
        if scene.friction_rule is None:
            raise ModelError(f"friction_rule is {short(rule)}; use one of {listed(repr(r) for r in rules.values())}")
        scene.filter_parent = self.filter_parent is None or flag(self.filter_parent, "filter_parent", ModelError)
        scene.mujoco = MuJoCoOptions() if self.mujoco is None else self.mujoco
        if not isinstance(scene.mujoco, MuJoCoOptions):
            raise ModelError(f"mujoco is {short(scene.mujoco)}; give ws.MuJoCoOptions(...)")
        return compiler.compile_model(scene)
