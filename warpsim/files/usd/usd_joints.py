# SPDX-License-Identifier: Apache-2.0
"""Joints of a USD stage, and the kinematic trees they form.

A UsdPhysics joint holds a frame in each of two bodies; at zero the frames coincide. The trees are spanned from the
world, then from articulation roots. A joint that a tree passes from body1 to body0 gets its frames swapped and its axes
reversed.
"""

import dataclasses

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.usd import usd_extra
from warpsim.files.usd.usd_authored import LIMITLESS
from warpsim.files.usd.usd_joint_values import Values
from warpsim.files.usd.usd_shapes import decompose_transform
from warpsim.model.geometry import IDENTITY, axis_angle, compose, inverse, rotate, rotation_vector

LARGEST = 1e9
APART = 1e-3  # m and rad, between frames that should coincide up to the joint's freedom
TOKENS = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")


@dataclasses.dataclass
class Drive:
    """A drive: gains [N/m, N s/m or per rad], largest force, and targets, in SI."""

    stiffness: float
    damping: float
    max_force: float
    position: float
    velocity: float
    acceleration: bool

    @property
    def idle(self) -> bool:
        """Whether the drive does nothing: it has no gains, or no force."""
        return (self.stiffness == 0 and self.damping == 0) or self.max_force == 0


@dataclasses.dataclass
class Freedom:
    """One hinge or slide: unit axis in the joint frame; range None: unlimited."""

    hinge: bool
    axis: np.ndarray
    range: tuple | None
    drive: Drive | None
    token: str = ""  # its name in attributes: angular, linear, rotX …
    values: Values = dataclasses.field(default_factory=Values)

    def motion(self, value: float) -> np.ndarray:
        """Pose (7,) of the second frame in the first at a position of the joint."""
        if self.hinge:
            return np.concatenate([np.zeros(3), axis_angle(self.axis, value)])
        return np.concatenate([value * self.axis, IDENTITY[3:]])


@dataclasses.dataclass
class Joint:
    """A joint between `bodies` (paths; None: the world), with its `frames` (7,) in them."""

    prim: object
    name: str
    bodies: tuple
    frames: tuple
    kind: str  # "freedoms", "ball", "free" or "distance"
    freedoms: list[Freedom]
    cone: tuple | None
    excluded: bool
    touches: bool = False  # whether its bodies may touch
    enabled: bool = True
    lengths: tuple | None = None  # shortest and longest length of a distance joint; None if it has no limit
    stacks: bool = False  # whether it adds its freedoms to those of another joint of the same two bodies
    values: Values = dataclasses.field(default_factory=Values)  # of a ball joint
    stacked: list["Joint"] = dataclasses.field(default_factory=list)  # the joints that add freedoms to this one

    @property
    def starts_apart(self) -> bool:
        """Whether several freedoms together give the initial position."""
        several = self.kind == "freedoms" and len(self.freedoms) > 1 and not self.stacked
        return several and any(f.values.position for f in self.freedoms)

    def reversed(self) -> "Joint":
        """The same joint seen from the other body."""
        # the order is reversed, as in the inverse of a product
        freedoms = [dataclasses.replace(f, axis=-f.axis) for f in self.freedoms[::-1]]
        return dataclasses.replace(self, bodies=self.bodies[::-1], frames=self.frames[::-1], freedoms=freedoms)

    def pose(self, motion=IDENTITY) -> np.ndarray:
        """Pose (7,) of the second body in the first after `motion` between the frames."""
        return compose(compose(self.frames[0], motion), inverse(self.frames[1]))


def read_joint(prim, name: str, stage, owner, units, world_of, refuse) -> Joint | None:
    """The joint of a prim.

    None for a disabled joint that is not ours, and for an unknown kind, which is told to `refuse`. `owner(prim)` gives
    the path of the rigid body that a prim belongs to (None: the world), with the body's pose; `world_of(prim)` gives
    the prim's 4x4 transform.
    """
    from pxr import UsdPhysics

    label = f"joint {prim.GetPath()}"
    joint = UsdPhysics.Joint(prim)
    enabled = joint.GetJointEnabledAttr().Get() is not False
    if not enabled and "constraint" not in usd_extra.read(prim):
        return None
    ends = [_end(joint, side, stage, owner, units, world_of, label) for side in (0, 1)]
    if ends[0][0] == ends[1][0]:
        refuse(label, f"joins {ends[0][0] or 'the world'} to itself", "give two bodies")
        return None
    kind, freedoms, cone = "freedoms", [], None
    if prim.IsA(UsdPhysics.RevoluteJoint) or prim.IsA(UsdPhysics.PrismaticJoint):
        hinge = prim.IsA(UsdPhysics.RevoluteJoint)
        axis = "XYZ".find(str(prim.GetAttribute("physics:axis").Get() or "X"))
        if axis < 0:
            raise ModelError(f"{label}: its axis is not X, Y or Z")
        low, high = (prim.GetAttribute(f"physics:{end}Limit").Get() for end in ("lower", "upper"))
        freedoms = _freedom(prim, hinge, axis, low, high, "angular" if hinge else "linear", units, label)
    elif prim.IsA(UsdPhysics.SphericalJoint):
        kind, limits = "ball", [prim.GetAttribute(f"physics:coneAngle{k}Limit").Get() for k in (0, 1)]
        limits = [-1.0 if x is None or not np.isfinite(x) else float(x) for x in limits]
        cone = tuple(np.radians(limits)) if max(limits) >= 0 else None
    elif str(prim.GetTypeName()) == "PhysicsJoint":
        kind, freedoms = _six_axes(prim, units, label)
    elif prim.IsA(UsdPhysics.DistanceJoint):
        kind = "distance"
    elif not prim.IsA(UsdPhysics.FixedJoint):
        refuse(label, f"a {prim.GetTypeName()} is not simulated", "remove it")
        return None
    excluded = bool(joint.GetExcludeFromArticulationAttr().Get())
    touches = bool(joint.GetCollisionEnabledAttr().Get())
    lengths = _lengths(UsdPhysics.DistanceJoint(prim), units, label) if kind == "distance" else None
    (body0, frame0), (body1, frame1) = ends
    where = ((body0, body1), (frame0, frame1))
    return Joint(prim, name, *where, kind, freedoms, cone, excluded, touches, enabled, lengths)


def _lengths(joint, units, label: str) -> tuple | None:
    """Shortest and longest distance [m] of a distance joint; a negative attribute means no limit."""
    low, high = (
        float(-1.0 if x is None else x) for x in (joint.GetMinDistanceAttr().Get(), joint.GetMaxDistanceAttr().Get())
    )
    if np.isnan(low) or np.isnan(high) or np.isinf(low) or (0 <= high < low):
        raise ModelError(f"{label}: minDistance {low} and maxDistance {high} must be numbers with min <= max")
    low, high = max(low, 0.0) * units.length, np.inf if high < 0 else high * units.length
    return None if low == 0 and np.isinf(high) else (low, high)


def _end(joint, side: int, stage, owner, units, world_of, label: str):
    """(path of the body or None, joint frame (7,) in it) of one end of a joint."""
    targets = getattr(joint, f"GetBody{side}Rel")().GetTargets()
    position = np.array(getattr(joint, f"GetLocalPos{side}Attr")().Get() or [0, 0, 0], float) * units.length
    turn = getattr(joint, f"GetLocalRot{side}Attr")().Get()
    q = np.array([1.0, 0, 0, 0]) if turn is None else np.array([turn.GetReal(), *turn.GetImaginary()], float)
    if not np.isfinite(position).all() or not np.isfinite(q).all() or np.linalg.norm(q) < 1e-6:
        raise ModelError(f"{label}: localPos{side} or localRot{side} is not finite or zero")
    target = stage.GetPrimAtPath(targets[0]) if targets else None
    if targets and not target:
        raise ModelError(f"{label}: there is no body{side} {short(str(targets[0]))}")
    local = np.concatenate([position, q / np.linalg.norm(q)])
    if target is None:
        matrix = units.matrix(np.eye(4))
    elif owner(target)[0] == str(target.GetPath()):  # the usual case, without rounding by the way through the world
        _, scale = decompose_transform(world_of(target), label)
        return str(target.GetPath()), np.concatenate([local[:3] * np.abs(scale), local[3:]])
    else:
        matrix = world_of(target)
    pose, scale = decompose_transform(matrix, label)
    frame = compose(pose, np.concatenate([local[:3] * scale, local[3:]]))
    path, body_pose = owner(target) if target is not None else (None, IDENTITY)
    return path, compose(inverse(body_pose), frame)


def _limit(value, hinge: bool, units) -> float:
    value = float(value) if value is not None else np.inf
    if np.isnan(value):
        raise ModelError("a joint limit is not a number")
    if abs(value) >= LIMITLESS:
        return float(np.copysign(np.inf, value))
    return float(np.radians(value)) if hinge else value * units.length


def _freedom(prim, hinge: bool, axis: int, low, high, token: str, units, label: str) -> list[Freedom]:
    """One freedom; none if the lower limit is above the upper: locked."""
    low = -_limit(None, hinge, units) if low is None else _limit(low, hinge, units)
    high = _limit(high, hinge, units)
    if low > high:
        return []
    limits = None if np.isinf(low) and np.isinf(high) else (max(low, -LARGEST), min(high, LARGEST))
    return [Freedom(hinge, np.eye(3)[axis], limits, _drive(prim, token, hinge, units, label), token)]


def _drive(prim, token: str, hinge: bool, units, label: str) -> Drive | None:
    from pxr import UsdPhysics

    if not prim.HasAPI(UsdPhysics.DriveAPI, token):
        return None
    api = UsdPhysics.DriveAPI(prim, token)
    get = lambda name: float(getattr(api, f"Get{name}Attr")().Get() or 0.0)  # noqa: E731
    force = api.GetMaxForceAttr().Get()
    force = np.inf if force is None else float(force)
    stiffness, damping, position, velocity = (
        get(n) for n in ("Stiffness", "Damping", "TargetPosition", "TargetVelocity")
    )
    values = np.array([stiffness, damping, position, velocity])
    if not np.isfinite(values).all() or np.isnan(force) or min(stiffness, damping, force) < 0:
        raise ModelError(
            f"{label}: its drive has gains {values.tolist()} and the force {force}; they must be finite, >= 0"
        )
    if hinge:
        torque = units.mass * units.length**2
        gain, size = torque * 180 / np.pi, np.pi / 180
        force *= torque
    else:
        gain, size = units.mass, units.length
        force *= units.mass * units.length
    kind = str(api.GetTypeAttr().Get() or "force")
    return Drive(stiffness * gain, damping * gain, force, position * size, velocity * size, kind == "acceleration")


def _six_axes(prim, units, label: str):
    """Kind and freedoms of a generic joint of six axes; axes whose lower limit is above the upper are locked."""
    from pxr import UsdPhysics

    freedoms: list[Freedom] = []
    for token in TOKENS:
        low = high = None
        if prim.HasAPI(UsdPhysics.LimitAPI, token):
            api = UsdPhysics.LimitAPI(prim, token)
            low, high = api.GetLowAttr().Get(), api.GetHighAttr().Get()
        freedoms += _freedom(prim, token.startswith("rot"), "XYZ".index(token[-1]), low, high, token, units, label)
    plain = [f.range is None and f.drive is None for f in freedoms]
    turns = [f for f in freedoms if f.hinge]
    if len(freedoms) == 6 and all(plain):
        return "free", freedoms
    if len(turns) == 3 and all(f.range is None and f.drive is None for f in turns):
        return "ball", [f for f in freedoms if not f.hinge]
    return "freedoms", freedoms


def joint_motion(joint: Joint, parent_pose, pose) -> tuple[np.ndarray, list[float], float]:
    """Motion between a joint's frames in the stage: the joint's part of it (7,), its values, and the rest [m, rad]."""
    motion = compose(inverse(compose(parent_pose, joint.frames[0])), compose(pose, joint.frames[1]))
    if joint.kind == "ball" and not joint.freedoms:
        own = np.concatenate([np.zeros(3), motion[3:]])
        return own, [], float(np.abs(motion[:3]).max())
    if joint.starts_apart:
        own, values = _together(joint)
        return own, values, _size(compose(inverse(own), motion))
    if joint.kind != "freedoms" or len(joint.freedoms) != 1 or joint.stacked:
        return IDENTITY, [0.0] * len(joint.freedoms), _size(motion)
    freedom = joint.freedoms[0]
    axis, value = freedom.axis, freedom.values.position
    if value is not None:
        pass  # the initial position that the joint itself gives
    elif freedom.hinge:
        value = 2 * float(np.arctan2(motion[4:] @ axis, motion[3]))
        value = (value + np.pi) % (2 * np.pi) - np.pi
    else:
        value = float(motion[:3] @ axis)
    own = freedom.motion(value)
    if abs(value) < 1e-6:
        own, value = IDENTITY, 0.0
    return own, [value], _size(compose(inverse(own), motion))


def _size(motion) -> float:
    """The largest component of a pose: of its translation [m] or its rotation vector [rad]."""
    return float(max(np.abs(motion[:3]).max(), np.abs(rotation_vector(motion[3:])).max()))


def _together(joint: Joint) -> tuple[np.ndarray, list[float]]:
    """Motion (7,) of several freedoms in sequence at their initial positions, and these positions.

    Turns their axes to the initial state, in which a builder takes them.
    """
    values = [f.values.position or 0.0 for f in joint.freedoms]
    after, turned = IDENTITY, []
    for freedom, value in zip(joint.freedoms[::-1], values[::-1], strict=True):
        turned.append(dataclasses.replace(freedom, axis=rotate(inverse(after)[3:], freedom.axis)))
        after = compose(freedom.motion(value), after)
    joint.freedoms = turned[::-1]
    return after, values


def span(bodies: list[str], joints: list[Joint], roots: list[str]):
    """The trees over the bodies, as [(path, joint from its parent or None)] with parents first, and the loop joints."""
    at: dict = {}
    for joint in (j for j in joints if not j.excluded and j.kind != "distance"):
        for body in joint.bodies:
            at.setdefault(body, []).append(joint)
    order, used, placed = [], set(), set()
    never_second = {j.bodies[0] for j in joints} - {j.bodies[1] for j in joints}
    starts = [None, *roots, *(b for b in bodies if b in never_second), *bodies]
    for start in starts:
        if start in placed:
            continue
        placed.add(start)
        stack: list = [(start, None)]
        while stack:
            body, joint = stack.pop()
            if body is not None:
                order.append((body, joint))
            found = []
            for other in at.get(body, []):
                forward = other if other.bodies[0] == body else other.reversed()
                if forward.bodies[1] not in placed:
                    used.add(id(other))
                    placed.add(forward.bodies[1])
                    found.append((forward.bodies[1], forward))
                    continue
                first = next((j for child, j in found if child == forward.bodies[1]), None)
                if first is not None and first.stacks and other.stacks and other is forward:
                    used.add(id(other))
                    first.stacked.append(forward)
            stack.extend(reversed(found))
    return order, [j for j in joints if id(j) not in used]


def axis_in_body(joint: Joint, freedom: Freedom) -> np.ndarray:
    """The freedom's axis in the second body's axes, with the body at zero."""
    return rotate(joint.frames[1][3:], freedom.axis)
