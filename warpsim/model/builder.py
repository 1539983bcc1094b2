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
    """A scene in code. Every `add_*` returns the element's index; elements are referred to by index or name.

    Poses are `[x, y, z, qw, qx, qy, qz]`; a 3-vector is a position alone. Units are SI.

        builder = ws.ModelBuilder("ball")
        builder.add_geom("plane", name="floor")
        ball = builder.add_body("ball", pose=[0, 0, 1])
        builder.add_joint(ball, "free")
        builder.add_geom("sphere", [0.1], body=ball, density=500)
        model = builder.build()

    The attribute `friction_rule` applies to geoms of equal priority; `filter_parent` turns off contact between a body
    and its parent; `mujoco` holds the `ws.MuJoCoOptions` that `ws.MuJoCo()` reads. Where they stay None, the builder
    takes them from the first model added, or else uses HARMONIC, True and MuJoCo's defaults. The attributes `density`
    [kg/m^3], `viscosity` [Pa s] and `wind` [m/s] describe the medium that all bodies move in; zero density and
    viscosity mean no medium.
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
        """Add a body. Without joints it is fixed to `parent`; with `mocap` each step reads its pose as an input.

        Parameters
        ----------
        parent : index or name
            The parent body; -1 or "world" is the world.
        pose : (7,) or (3,)
            Pose in the parent at the initial position.
        mass : float
            Mass [kg]. None: mass, COM and inertia follow from the densities of the body's geoms.
        com : (3,)
            Center of mass in body axes [m].
        inertia : (3,) or (3, 3)
            Diagonal or full inertia about the COM in body axes [kg m^2]. None: a point mass.
        gravcomp : float
            Share of the body's weight that a force at its COM compensates; 1 is all of it.
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
        """Add a joint between `body` and its parent, after the joints that the body already has.

        Parameters
        ----------
        type : str
            "free", "ball", "slide" or "hinge".
        axis, anchor : (3,)
            Axis and anchor point in body axes.
        range : (2,)
            (low, high) limits of a hinge [rad] or slide [m]; (0, largest angle) for a ball.
        stiffness, damping, armature, friction : float or (nv,)
            One value, or one per degree of freedom. `friction` is the largest dry-friction force or torque.
        reference : float or (nv,)
            Rest position of the spring.
        q0 : array
            Initial position.
        solref, solimp, margin : (2,), (5,), float
            MuJoCo's law of the limits, read by `ws.MuJoCo()`.
        friction_solref, friction_solimp : (2,), (5,)
            MuJoCo's law of dry friction; also one row per degree of freedom.
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
        """Add a shape to `body` (-1: the world).

        Parameters
        ----------
        type, size : str, array
            "plane" (z up, infinite), "sphere" (radius), "capsule" and "cylinder" (radius, half length along z), "box"
            and "ellipsoid" (half extents), "mesh" (with `mesh`), "hfield" (with `hfield`).
        mesh : tuple
            `(vertices, faces)` or `(vertices, faces, uv)`, see `model.Mesh`. The mesh is solid inside.
        max_hull_vertices : int
            A mesh touches as its convex hull, simplified to at most this many vertices.
        hfield : tuple
            `(size, data)`, see `model.HField`.
        density : float
            Density [kg/m^3], for bodies without a `mass` of their own.
        friction : float
            Coulomb friction.
        friction_dynamic, friction_velocity : float
            Stribeck's law: friction falls from `friction` μ_s at rest to μ_d + (μ_s − μ_d) exp(−(v/v_s)²) at sliding
            speed v, with μ_d = `friction_dynamic` and v_s = `friction_velocity` [m/s].
        stiffness : float
            Contact stiffness [N/m]; inf is near-rigid.
        dissipation_time : float
            Dissipation time [s]; None is critical.
        restitution : float
            Coefficient of restitution, read by `SAP` and `LCP`; see `time_of_impact` of `ws.Simulator`.
        hertz_modulus : float
            E* [Pa] of a sphere (`Compliant` contact only): its force is E* sqrt(r d^3) at depth d.
        contype, conaffinity : int
            Contact masks: two geoms may touch if `contype` of one and `conaffinity` of the other share a bit.
        condim : int
            1: no friction; 3: sliding friction; 4: torsional friction too; 6: rolling friction too. A pair takes the
            larger condim of its geoms. A pair without sliding friction has no torsional or rolling friction either.
        torsional_friction, rolling_friction : float
            Largest moment about the normal, and about the tangents, over the normal force [m].
        margin : float
            Point contact acts where two geoms are nearer than the sum of their margins [m]; they rest that far apart.
        hydroelastic : ws.Hydroelastic
            Two geoms that both have it touch by pressure fields if at least one of them is compliant.
        fluid : bool or (5,)
            True, or the five coefficients (see `medium`): the medium acts on the body's geoms as ellipsoids, instead of
            on the body as a box.
        rgba, material, visible
            How the geom looks: color, `ws.VisualMaterial`, and whether it is drawn.
        solref, solimp, solmix : (2,), (5,), float
            MuJoCo's law of contact, read by `ws.MuJoCo()`.
        surfacevel : (6,)
            Of the surface, in the geom's axes: velocity [m/s] and angular velocity about the origin [rad/s]. The
            surface moves so, the geom does not: a belt, a treadmill, a turntable. Friction carries what touches it.
        gap : float
            With `ws.MuJoCo()` adhesion actuators also pull at contacts up to this much beyond the margin [m].
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
        """Put an elastic foundation (Winkler) on a face of the one box geom of `body`: `rows` x `columns` point
        elements.

        `face` is "+x", "-x", "+y", "-y", "+z" or "-z" in the box's axes; rows run along the first of the other two
        axes. Each element is a tiny invisible sphere of stiffness modulus [Pa] x cell area / thickness [m]. The
        elements take over the box's friction and contact masks, and the box itself no longer touches anything. A
        simulator needs one contact slot per element (`max_contacts`). Returns the indices of the geoms.
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
        """Add a fixed tendon on `joints`, or a spatial tendon along a `path`.

        Parameters
        ----------
        joints : mapping
            Hinges and slides (names or indices) -> coefficients. The length is the sum of coefficient times q.
        path : list
            Sites, pairs (geom, side site or None) of spheres and cylinders to wrap between two sites, and
            `ws.Pulley(divisor)` where a new branch begins. The length is that of the taut string [m].
        range : (2,)
            (low, high) limits of the length.
        reference : float or (2,)
            The spring is slack between these lengths. None: a fixed tendon's length where its joints' springs rest.
        friction : float
            Largest dry-friction force.
        solref, solimp, margin, friction_solref, friction_solimp
            MuJoCo's law of the limits and of dry friction, see `add_joint`.
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
        """Add an equality constraint between two bodies, two joints or two tendons.

        Parameters
        ----------
        kind : str
            For bodies "connect" (ball), "weld", "hinge" (about z), "slide" (along z), "distance" or "screw"; "joint";
            "tendon".
        a, b : index or name
            The two elements. For bodies "world", or None as `b`, is the world. For a coupling None as `b` ties a to its
            constant: q_a = q_a0 + c0.
        pose_a, pose_b : (7,)
            The constrained frames in bodies a and b. A missing frame follows from the initial pose, where the
            constraint then holds. If both are missing, the frame is at b's origin.
        length : float or (2,)
            "distance": keeps the distance of the frames' origins at `length`, or within (shortest, longest). None: the
            initial distance.
        pitch : float
            "screw" (five rows) leaves one degree of freedom: rotation about z with `pitch` [m] along z per turn
            (> 0: right-handed).
        coefficients : (up to 5,)
            "joint", "tendon": q_a - q_a0 = c0 + c1 (q_b - q_b0) + ... + c4 (...)^4, with q_0 the initial position.
            Default: (0, 1), which keeps the two equal.
        stiffness : float or (2,)
            [N/m], or ([N/m], [N m/rad]) for a kind that also holds angles; inf is near-rigid.
        dissipation_time : float
            Damping over stiffness [s].
        active : bool
            An inactive constraint does nothing.
        solref, solimp, torquescale : (2,), (5,), float
            MuJoCo's law, read by `ws.MuJoCo()`. `torquescale` [m] weighs the angles of a weld.
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
        """Add an actuator: force = ((gain . s) drive + bias . s) gear, with s = (1, length, velocity).

        Parameters
        ----------
        joint : index or name
            The joint to act on. The length of a hinge or slide is gear q and its velocity gear v; `gear` has one value
            per degree of freedom.
        tendon : index or name
            The tendon to act on; the length is gear times the tendon's.
        site, reference_site : index or name
            The site to act on: gear (6,) is a force and a torque in the site's axes, and the length is 0. With
            `reference_site` they are in the axes of that site, and the length is gear · (position, rotation vector) of
            the site in these axes.
        crank : tuple
            `(pin site, slider site, rod [m])` of a slider-crank: the length is the slide of the rod along the slider's
            z axis.
        body : index or name
            The contacts of this body stick with the force, which they share (`control_range` from 0 up, no feedback).
        kind : str
            "effort" (the drive is the force), "position" (`kp`, and `kv` as damping), "velocity" (`kv`), "affine" (with
            `gain (3,)` and `bias (3,)`) or "muscle" (with `muscle=ws.Muscle(...)`).
        control_range, force_range : (2,)
            Controls and forces are clamped to these.
        dynamics : str or tuple
            None: the drive is the control. Otherwise the drive is an activation, a part of the state that follows the
            control: "integrator", ("filter", tau), ("filterexact", tau) or ("muscle", rise, fall, width), times in [s].
            A muscle has its own.
        activation_range : (2,)
            Activations are clamped to it.
        early : bool
            The force uses the activation at the end of the step.
        group : int
            A number kept in `model.actuator_group`.
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
        """Clamp the total force of all actuators on a hinge or slide `joint` (generalized force), or on a `tendon`.

        `gravity_compensation`: for a joint, the limit also bounds the gravity compensation of bodies (gravcomp). Where
        a single actuator acts, prefer its `force_range`: the step solves it implicitly, while this limit clamps the
        forces at the start of the step.
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
        """Add a named frame at `pose` in `body` (-1 or "world": the world), for tendons, actuators and sensors.

        `type` ("sphere", "capsule", "ellipsoid", "cylinder", "box") and `size`, as for geoms, are the zone of a touch
        sensor and the drawn shape.
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
        """Add a camera at `pose` in `body`.

        It looks along its −z with y up; `fovy` is the vertical angle of view [rad].
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
        """Add a sensor of `kind`, named as in MJCF ("accelerometer", "framepos", …; docs/sensors.md).

        Parameters
        ----------
        object, reference : index, name or tuple
            What the sensor is attached to, and what it measures relative to. Kinds that allow one type of element take
            its name or index. Other kinds take (type, name), with the type "body", "inertia" (the principal axes at the
            center of mass), "geom", "site", "camera" or, for contact, "subtree".
        cutoff : float
            Values beyond it are clamped; 0: no cutoff.
        datatype : str
            For files that give a data type of their own.
        options
            `field` (3,) of a magnetometer; `data` of a rangefinder; `focal` (2,) [pixels] of a camprojection; `margin`
            of joint and tendon limits; `data`, `reduce` and `num` of contact; `frames` (2 quaternions) of "inertia".
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

        What is not given is the initial pose (also of mocap bodies, `mocap (nmocap, 7)`), zero velocity, zero control
        and zero activation.
        """
        frame = Keyframe(q, v, control, activation, mocap)
        self.keyframes[self._name("keyframe", name, self.keyframes)] = frame

    def exclude(self, body_a: Element, body_b: Element) -> None:
        """Disable contact between the geoms of two bodies."""
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
        """Let two geoms touch whatever the masks and filters say.

        The pair has its own friction, `condim` and `margin`, see `add_geom`.

        Parameters
        ----------
        friction, rolling_friction : float or (2,)
            Two values are those of the two tangents of the contact frame, which `ws.MuJoCo()` alone has.
        solref, solreffriction, solimp : (2,), (2,), (5,)
            MuJoCo's law of the pair, and of its friction. None: `solref` and `solimp` follow the geoms', and friction
            has the pair's `solref`.
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
        """Add every element of the built model `other`; returns its bodies' indices.

        The world of `other` becomes the frame `pose` of body `parent` (-1: the world). Keyframes and report lines come
        along; gravity, timestep and medium stay the builder's. After an error the builder is unchanged.

        Parameters
        ----------
        prefix : str
            Put before all names of `other`.
        parent : index or name
            The root bodies of `other` hang on it. It carries the geoms, sites, cameras, constraints and excluded
            contacts of the world of `other`. Below a body (not the world) mocap bodies are refused.
        free : str
            What to do below a body with a body that has a free joint, which cannot hang on another body. "weld" fixes
            it; "keep" leaves it free in the world, with its initial pose at the placed frame.

        Raises
        ------
        ModelError
            If `other` has geoms and its friction rule or parent filter differs from the one that the builder has set.
        """
        if not isinstance(other, Model):
            hint = "build() it" if isinstance(other, ModelBuilder) else "ws.load reads robot files"
            raise ModelError(f"add_model: other is {short(other)}; give a built Model: {hint}")
        if not isinstance(prefix, str):
            raise ModelError(f"add_model: prefix is {short(prefix)}; give a text")
        return appending.append_model(self, other, pose_of(pose, "add_model"), prefix, self._body(parent), free)

    def build(self) -> Model:
        """Check the whole scene and compile it. Raises `ModelError` naming the element that is wrong."""
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
