"""`ModelBuilder`: collects bodies, joints, geoms and actuators, checks each, and compiles them into a `Model`.

The importers use it too, so that a file and a scene in code pass the same checks.
"""

import dataclasses

import numpy as np

from warpsim.errors import ModelError
from warpsim.model import compiler
from warpsim.model.geometry import IDENTITY, rotation_matrix, volume_and_inertia
from warpsim.model.model import JOINT_NQ, JOINT_NV, FrictionRule, GeomType, JointType, Keyframe, Mesh, Model, ReportLine

DEFAULT_DENSITY = 1000.0  # kg/m^3
SYMMETRY_TOLERANCE = 1e-9  # relative, of an inertia given by hand


@dataclasses.dataclass
class Body:
    name: str
    parent: int
    pose: np.ndarray
    mass: float | None
    com: np.ndarray
    inertia: np.ndarray


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
    contype: int
    conaffinity: int
    condim: int
    priority: int
    density: float
    rgba: np.ndarray
    mesh: int
    visible: bool


@dataclasses.dataclass
class Actuator:
    name: str
    joint: int
    gear: np.ndarray
    gain: np.ndarray
    bias: np.ndarray
    control_range: np.ndarray
    force_range: np.ndarray


class ModelBuilder:
    """A scene in code. Every `add_*` returns the element's index; elements are referred to by index or name.

    Poses are `[x, y, z, qw, qx, qy, qz]`; a 3-vector is a position alone. Units are SI.

        builder = ws.ModelBuilder("ball")
        builder.add_geom("plane", name="floor")
        ball = builder.add_body("ball", pose=[0, 0, 1])
        builder.add_joint(ball, "free")
        builder.add_geom("sphere", [0.1], body=ball, density=500)
        model = builder.build()
    """

    def __init__(self, name: str = "model", *, gravity=(0.0, 0.0, -9.81), timestep: float = 0.01):
        self.name = name
        self.gravity = _vector(gravity, 3, "gravity")
        self.timestep = timestep
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.geoms: list[Geom] = []
        self.actuators: list[Actuator] = []
        self.meshes: list[Mesh] = []
        self.keyframes: dict[str, Keyframe] = {}
        self.excluded: set[tuple[int, int]] = set()
        self.explicit_pairs: list[tuple[int, int, float]] = []
        self.friction_rule = FrictionRule.HARMONIC
        self.filter_parent = True
        self.report: list[ReportLine] = []

    def add_body(self, name=None, *, parent=-1, pose=IDENTITY, mass=None, com=(0, 0, 0), inertia=None) -> int:
        """Add a body; without joints it is fixed to `parent` (-1 or "world": the world).

        `mass` [kg], `com (3,)` in body axes and `inertia` about the COM in body axes, (3,) diagonal or (3, 3); without
        `mass` they follow from the densities of the body's geoms.
        """
        name = self._name("body", name, [b.name for b in self.bodies])
        parent = self._body(parent)
        label = f"body {name!r}"
        if mass is not None:
            mass = float(mass)
            if not (np.isfinite(mass) and mass >= 0):
                raise ModelError(f"{label}: mass is {mass}; it must be finite and not negative [kg]")
        inertia = np.zeros((3, 3)) if inertia is None else _inertia(inertia, label)
        body = Body(name, parent, _pose(pose, label), mass, _vector(com, 3, f"{label}: com"), inertia)
        self.bodies.append(body)
        return len(self.bodies) - 1

    def add_joint(
        self,
        body,
        type="hinge",
        *,
        name=None,
        axis=(0, 0, 1),
        anchor=(0, 0, 0),
        range=None,
        stiffness=0.0,
        damping=0.0,
        armature=0.0,
        friction=0.0,
        reference=0.0,
        q0=None,
    ) -> int:
        """Add a joint between `body` and its parent, after those the body already has.

        `type` is "free", "ball", "slide" or "hinge"; `axis` and `anchor` are in body axes. `range` (low, high) [rad or m]
        limits a hinge or slide, (0, largest angle) a ball. `stiffness`, `damping`, `armature`, `friction` and
        `reference` (the spring's rest position) are scalars or one value per degree of freedom.
        """
        body = self._body(body)
        name = self._name("joint", name, [j.name for j in self.joints])
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
        axis = _vector(axis, 3, f"{label}: axis")
        length = np.linalg.norm(axis)
        if kind in (JointType.SLIDE, JointType.HINGE) and length < 1e-12:
            raise ModelError(f"{label}: axis {axis.tolist()} has no direction; give a non-zero vector")
        limited = range is not None
        limits = _vector(range, 2, f"{label}: range") if limited else np.zeros(2)
        if limited and (kind == JointType.FREE or limits[0] > limits[1]):
            why = "free joints cannot be limited" if kind == JointType.FREE else "the lower bound must not exceed the upper"
            raise ModelError(f"{label}: range {limits.tolist()} refused: {why}")
        positive = {"stiffness": stiffness, "damping": damping, "armature": armature, "friction": friction}
        for key, value in positive.items():
            positive[key] = _per_dof(value, nv, f"{label}: {key}")
            if (positive[key] < 0).any():
                raise ModelError(f"{label}: {key} is {value}; it must not be negative")
        if q0 is None:
            q0 = self.bodies[body].pose if kind == JointType.FREE else [1, 0, 0, 0] if kind == JointType.BALL else [0]
        q0 = _vector(q0, JOINT_NQ[kind], f"{label}: q0")
        anchor = np.zeros(3) if kind == JointType.FREE else _vector(anchor, 3, f"{label}: anchor")
        if kind == JointType.FREE and np.isscalar(reference) and reference == 0.0 and positive["stiffness"].any():
            raise ModelError(f"{label}: a spring on a free joint needs its reference (position, rotation vector)")
        reference = _per_dof(reference, nv, f"{label}: reference")
        axis = axis / length if length > 0 else np.array([0.0, 0.0, 1.0])
        self.joints.append(
            Joint(name, kind, body, anchor, axis, limited, limits, **positive, reference=reference, q0=q0)
        )
        return len(self.joints) - 1

    def add_geom(
        self,
        type,
        size=(),
        *,
        body=-1,
        pose=IDENTITY,
        name=None,
        density=DEFAULT_DENSITY,
        friction=1.0,
        stiffness=np.inf,
        dissipation_time=None,
        restitution=0.0,
        contype=1,
        conaffinity=1,
        condim=3,
        priority=0,
        rgba=(0.7, 0.7, 0.7, 1.0),
        mesh=None,
        visible=True,
    ) -> int:
        """Add a shape to `body` (-1: the world).

        `type`, `size`: "plane" (z up, infinite), "sphere" (radius), "capsule" and "cylinder" (radius, half length along
        z), "box" and "ellipsoid" (half extents), "mesh" (with `mesh=(vertices, faces)`). Material: Coulomb `friction`,
        `stiffness` [N/m] (inf: near-rigid), `dissipation_time` [s] (None: critical), `restitution` (LCP contact only).
        Two geoms may touch if `contype` of one and `conaffinity` of the other share a bit; `condim=1` has no friction.
        """
        body = self._body(body)
        name = self._name("geom", name, [g.name for g in self.geoms])
        label = f"geom {name!r}"
        try:
            kind = type if isinstance(type, GeomType) else GeomType[str(type).upper()]
        except KeyError:
            raise ModelError(
                f"{label}: unknown type {type!r}; use {', '.join(t.name.lower() for t in GeomType)}"
            ) from None
        size = _size(size, kind, label)
        for key, value, low in (("friction", friction, 0), ("restitution", restitution, 0), ("density", density, 0)):
            if not (np.isfinite(value) and value >= low):
                raise ModelError(f"{label}: {key} is {value}; it must be finite and at least {low}")
        if not stiffness > 0:
            raise ModelError(f"{label}: stiffness is {stiffness}; it must be positive [N/m] (inf: near-rigid)")
        if dissipation_time is not None and not (np.isfinite(dissipation_time) and dissipation_time >= 0):
            raise ModelError(f"{label}: dissipation_time is {dissipation_time}; it must be finite and >= 0 [s]")
        if condim not in (1, 3, 4, 6):
            raise ModelError(f"{label}: condim is {condim}; use 1 (frictionless) or 3")
        if kind == GeomType.PLANE and self._is_moving(body):
            raise ModelError(f"{label}: a plane must belong to the world or to a body fixed to it")
        index = -1
        if mesh is not None:
            vertices, faces = np.asarray(mesh[0], float).reshape(-1, 3), np.asarray(mesh[1], int).reshape(-1, 3)
            self.meshes.append(Mesh(name, vertices, faces))
            index = len(self.meshes) - 1
        time = np.nan if dissipation_time is None else float(dissipation_time)
        material = (float(friction), float(stiffness), time, float(restitution))
        masks = (int(contype), int(conaffinity), int(condim), int(priority))
        look = (np.asarray(rgba, float), index, bool(visible))
        self.geoms.append(Geom(name, kind, body, size, _pose(pose, label), *material, *masks, float(density), *look))
        return len(self.geoms) - 1

    def add_actuator(
        self,
        joint,
        kind="effort",
        *,
        name=None,
        gear=1.0,
        kp=0.0,
        kv=0.0,
        gain=None,
        bias=None,
        control_range=(-np.inf, np.inf),
        force_range=(-np.inf, np.inf),
    ) -> int:
        """Add an actuator on `joint`: force = (gain . s) control + bias . s with s = (1, length, velocity), times gear.

        `kind` "effort" (control is the force), "position" (`kp`, and `kv` as damping), "velocity" (`kv`), or "affine"
        with `gain (3,)` and `bias (3,)`. `control` is clamped to `control_range`, the force to `force_range`.
        """
        j = self._joint(joint)
        name = self._name("actuator", name, [a.name for a in self.actuators])
        label = f"actuator {name!r}"
        shapes = {
            "effort": ([1, 0, 0], [0, 0, 0]),
            "position": ([kp, 0, 0], [0, -kp, -kv]),
            "velocity": ([kv, 0, 0], [0, 0, -kv]),
            "affine": (gain, bias),
        }
        if kind not in shapes:
            raise ModelError(f"{label}: unknown kind {kind!r}; use {', '.join(shapes)}")
        gain, bias = (_vector(x, 3, f"{label}: gain and bias") for x in shapes[kind])
        nv = JOINT_NV[self.joints[j].type]
        gears = np.zeros(6)
        values = np.atleast_1d(np.asarray(gear, float))
        gears[: min(nv, len(values))] = values[: min(nv, len(values))]
        if not np.isfinite(values).all() or (nv > 1 and len(values) < nv):
            raise ModelError(f"{label}: gear {values.tolist()}; give {nv} finite values")
        if nv > 1 and (gain[1:].any() or bias[1:].any()):
            raise ModelError(
                f"{label}: feedback on length or velocity needs a hinge or slide; joint {self.joints[j].name!r} is "
                f"{self.joints[j].type.name.lower()}"
            )
        if bias[2] > 0:
            raise ModelError(f"{label}: velocity bias is {bias[2]}; a positive one feeds energy in, make it <= 0")
        ranges = []
        for key, value in (("control_range", control_range), ("force_range", force_range)):
            value = np.asarray(value, float)
            if value.shape != (2,) or not value[0] <= value[1]:
                raise ModelError(f"{label}: {key} is {value.tolist()}; give (low, high) with low <= high")
            ranges.append(value)
        self.actuators.append(Actuator(name, j, gears, gain, bias, *ranges))
        return len(self.actuators) - 1

    def add_keyframe(self, name: str, q=None, v=None, control=None) -> None:
        """Add a named state; what is not given is the initial pose, rest, and zero control."""
        self.keyframes[str(name)] = Keyframe(q, v, control)

    def exclude(self, body_a, body_b) -> None:
        """No contact between the geoms of two bodies."""
        a, b = self._body(body_a), self._body(body_b)
        self.excluded.add((min(a, b), max(a, b)))

    def add_pair(self, geom_a, geom_b, friction: float) -> None:
        """Contact between two geoms whatever the masks say, with its own Coulomb friction."""
        self.explicit_pairs.append((self._geom(geom_a), self._geom(geom_b), float(friction)))

    def add_model(self, other: Model, pose=IDENTITY, prefix: str = "") -> list[int]:
        """Add every element of a built `other`, its root bodies placed at `pose`; returns the new bodies' indices."""
        return compiler.append_model(self, other, _pose(pose, "add_model"), prefix)

    def build(self) -> Model:
        """Check the whole and compile it. Raises `ModelError` naming the element that is wrong."""
        self._masses_from_geoms()
        return compiler.compile_model(self)

    # ---------------------------------------------------------------------------------------------------------------

    def _masses_from_geoms(self) -> None:
        for index, body in enumerate(self.bodies):
            if body.mass is not None:
                continue
            parts = []
            for geom in (g for g in self.geoms if g.body == index and g.density > 0 and g.type != GeomType.PLANE):
                volume, diagonal = _volume(geom, self.bodies[index].name)
                parts.append((geom.density * volume, geom.pose, geom.density * diagonal))
            mass = sum(p[0] for p in parts)
            body.mass = mass
            if mass == 0:
                continue
            body.com = sum(m * pose[:3] for m, pose, _ in parts) / mass
            for m, pose, diagonal in parts:
                rotation, arm = rotation_matrix(pose[3:]), pose[:3] - body.com
                body.inertia = body.inertia + rotation @ np.diag(diagonal) @ rotation.T
                body.inertia = body.inertia + m * (arm @ arm * np.eye(3) - np.outer(arm, arm))

    def _is_moving(self, body: int) -> bool:
        while body >= 0:
            if any(j.body == body for j in self.joints):
                return True
            body = self.bodies[body].parent
        return False

    def _name(self, element: str, name, taken: list[str]) -> str:
        if name is None or name == "":
            name = f"{element}_{len(taken)}"
            while name in taken:
                name += "_"
        if str(name) in taken:
            raise ModelError(f"{element} name {name!r} is used twice; names must be unique")
        return str(name)

    def _find(self, element: str, key, items) -> int:
        if isinstance(key, str):
            for index, item in enumerate(items):
                if item.name == key:
                    return index
        elif isinstance(key, (int, np.integer)) and 0 <= key < len(items):
            return int(key)
        raise ModelError(f"no {element} {key!r}; there are {len(items)}: {', '.join(i.name for i in items[:20])}")

    def _body(self, key) -> int:
        return -1 if key in (-1, "world", None) else self._find("body", key, self.bodies)

    def _joint(self, key) -> int:
        return self._find("joint", key, self.joints)

    def _geom(self, key) -> int:
        return self._find("geom", key, self.geoms)


def _vector(value, size: int, label: str) -> np.ndarray:
    array = np.asarray(value, float)
    if array.shape != (size,):
        raise ModelError(f"{label} has shape {array.shape}; it must be ({size},)")
    if not np.isfinite(array).all():
        raise ModelError(f"{label} is {array.tolist()}; every value must be finite")
    return array.copy()


def _per_dof(value, nv: int, label: str) -> np.ndarray:
    return _vector(np.full(nv, float(value)) if np.ndim(value) == 0 else value, nv, label)


def _pose(value, label: str) -> np.ndarray:
    array = np.asarray(value, float)
    if array.shape == (3,):
        array = np.concatenate([array, IDENTITY[3:]])
    array = _vector(array, 7, f"{label}: pose")
    length = np.linalg.norm(array[3:])
    if length < 1e-8:
        raise ModelError(f"{label}: pose has the quaternion {array[3:].tolist()}; it must not be zero")
    array[3:] /= length
    return array


def _inertia(value, label: str) -> np.ndarray:
    array = np.asarray(value, float)
    array = np.diag(array) if array.shape == (3,) else array
    if array.shape != (3, 3) or not np.isfinite(array).all():
        raise ModelError(f"{label}: inertia {array.tolist()} must be 3 or 3x3 finite values [kg m^2]")
    scale = np.abs(array).max()
    if np.abs(array - array.T).max() > SYMMETRY_TOLERANCE * scale:
        raise ModelError(f"{label}: inertia {array.tolist()} is not symmetric")
    moments = np.linalg.eigvalsh(array)
    if moments[0] < -SYMMETRY_TOLERANCE * scale:
        raise ModelError(f"{label}: inertia is not positive definite, its principal moments are {moments.tolist()}")
    return (array + array.T) / 2


def _size(size, kind: GeomType, label: str) -> np.ndarray:
    needed = {GeomType.SPHERE: 1, GeomType.CAPSULE: 2, GeomType.CYLINDER: 2, GeomType.BOX: 3, GeomType.ELLIPSOID: 3}
    needed = needed.get(kind, 0)
    array = np.atleast_1d(np.asarray(size, float))
    if len(array) < needed or len(array) > 3:
        raise ModelError(f"{label}: size {array.tolist()} of a {kind.name.lower()}; give {needed} values [m]")
    if not np.isfinite(array).all() or (array[:needed] <= 0).any():
        raise ModelError(f"{label}: size {array.tolist()} must be positive and finite [m]")
    full = np.zeros(3)
    full[: len(array)] = array
    return full


def _volume(geom: Geom, body: str) -> tuple[float, np.ndarray]:
    try:
        return volume_and_inertia(geom.type.name.lower(), geom.size)
    except ValueError as error:
        raise ModelError(f"geom {geom.name!r} of body {body!r}: {error}") from None
