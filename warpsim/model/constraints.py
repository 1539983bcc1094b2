# SPDX-License-Identifier: Apache-2.0
"""Constraints and tendons of a `ModelBuilder`: their checks, and what is resolved once the whole scene is known.

Frames that were not given follow from the initial pose, where the constraint then holds.
"""

import dataclasses
import typing
from collections.abc import Mapping

import numpy as np

from warpsim.base.checks import numbers, short
from warpsim.base.errors import ModelError
from warpsim.model.builder_values import array_of
from warpsim.model.columns import columns
from warpsim.model.constraint_types import BODY_CONSTRAINTS, LEAST_LENGTH, ConstraintType
from warpsim.model.geometry import IDENTITY, compose, inverse, rotate
from warpsim.model.model import JointType
from warpsim.model.mujoco_options import SOLIMP, SOLREF
from warpsim.model.tendon_paths import Wrap, compile_paths


@dataclasses.dataclass
class Tendon:
    name: str
    coefficients: dict[int, float]  # keyed by joint of the builder
    limited: bool
    range: np.ndarray
    stiffness: float
    damping: float
    friction: float
    reference: np.ndarray | None  # None: the length where the joints' springs rest
    path: list[Wrap]  # for a spatial tendon, which has no coefficients
    solref: typing.Any = SOLREF  # MuJoCo's law, see `mujoco_options.py`
    solimp: typing.Any = SOLIMP
    margin: float = 0.0
    friction_solref: typing.Any = SOLREF
    friction_solimp: typing.Any = SOLIMP


@dataclasses.dataclass
class Constraint:
    name: str
    type: ConstraintType
    ends: tuple[int, int]  # bodies, joints or tendons of the builder; -1 is the world or none
    poses: tuple[np.ndarray | None, np.ndarray | None]
    coefficients: np.ndarray | None
    active: bool
    stiffness: np.ndarray
    dissipation_time: float
    solref: typing.Any = SOLREF  # MuJoCo's law, see `mujoco_options.py`
    solimp: typing.Any = SOLIMP
    torquescale: float = 1.0


def check_stiffness(value, label: str) -> np.ndarray:
    """(along, about), each positive; a single number sets both."""
    array = numbers(value, f"{label}: stiffness", ModelError)
    if array.shape not in ((), (1,), (2,)) or not (array > 0).all():
        raise ModelError(
            f"{label}: stiffness is {short(value)}; it must be positive, [N/m] or ([N/m], [N m/rad]); inf is rigid"
        )
    return np.broadcast_to(array, (2,)).copy()


def read_coefficients(b, joints, label: str) -> dict[int, float]:
    """Nonzero coefficients of a fixed tendon, by joint of the builder."""
    coefficients: dict[int, float] = {}
    if not isinstance(joints, Mapping):
        raise ModelError(f"{label}: joints is {short(joints)}; give a dict of joints and their coefficients")
    for key, value in joints.items():
        j = b._joint(key)
        check_single(b.joints, j, label)
        c = array_of(value, f"{label}: coefficient of joint {b.joints[j].name!r}")
        if c.shape != () or not np.isfinite(c) or j in coefficients:
            why = "is there twice" if j in coefficients else f"has the coefficient {value}; give a finite number"
            raise ModelError(f"{label}: joint {b.joints[j].name!r} {why}")
        if c != 0:
            coefficients[j] = float(c)
    if not coefficients:
        raise ModelError(f"{label} moves nothing; give it at least one joint with a coefficient other than 0")
    return coefficients


def check_single(joints, index: int, label: str) -> None:
    """Check that the coordinate of a coupling or a tendon is a hinge or slide."""
    joint = joints[index]
    if joint.type not in (JointType.HINGE, JointType.SLIDE):
        raise ModelError(
            f"{label}: joint {joint.name!r} is {joint.type.name.lower()}; only hinges and slides have one position"
        )


# Compilation ----------------------------------------------------------------------------------------------------------


def compile_tendons(b, joints, dof_of_joint: dict[int, int], nv: int) -> dict:
    """The `tendon_*` fields of the Model, from the builder's `joints` and the first degree of freedom of each joint."""
    n = len(b.tendons)
    coefficients, reference = np.zeros((n, nv)), np.zeros((n, 2))
    for t, tendon in enumerate(b.tendons):
        rest = 0.0
        for j, c in tendon.coefficients.items():
            coefficients[t, dof_of_joint[j]] = c
            rest += c * float(joints[j].reference[0])
        reference[t] = rest if tendon.reference is None else tendon.reference
    return {
        "tendon_names": tuple(t.name for t in b.tendons),
        "tendon_coefficients": coefficients,
        **columns("tendon", b.tendons),
        "tendon_reference": reference,
        **compile_paths(b),
    }


def compile_constraints(b, order: dict[int, int]) -> dict:
    """The `constraint_*` fields of the Model; `order` maps joints of the builder to those of the Model."""
    n = len(b.constraints)
    body, joint = np.full((n, 2), -1, dtype=np.int32), np.full((n, 2), -1, dtype=np.int32)
    poses, coefficients = np.tile(IDENTITY, (n, 2, 1)), np.zeros((n, 5))
    world = initial_poses(b) if any(c.type in BODY_CONSTRAINTS for c in b.constraints) else {}
    for i, c in enumerate(b.constraints):
        if c.type in BODY_CONSTRAINTS:
            body[i] = c.ends
            poses[i] = _frames(c, [world[e] for e in c.ends])
        else:
            joint[i] = c.ends if c.type == ConstraintType.TENDON else [order.get(e, -1) for e in c.ends]
        if c.coefficients is not None:
            coefficients[i] = c.coefficients
        else:
            coefficients[i] = _lengths(c, [compose(world[e], p) for e, p in zip(c.ends, poses[i], strict=True)])
    return {
        "constraint_names": tuple(c.name for c in b.constraints),
        **columns("constraint", b.constraints),
        "constraint_body": body,
        "constraint_pose": poses,
        "constraint_joint": joint,
        "constraint_coefficients": coefficients,
    }


def initial_poses(b) -> dict[int, np.ndarray]:
    """World pose of every body of a builder with all joints at q0; -1 is the world."""
    joints: dict[int, list] = {}
    for joint in b.joints:
        joints.setdefault(joint.body, []).append(joint)
    poses = {-1: IDENTITY}
    for index, body in enumerate(b.bodies):  # parents come first
        own = joints.get(index, [])
        if own and own[0].type == JointType.FREE:
            poses[index] = own[0].q0
            continue
        poses[index] = compose(poses[body.parent], body.pose)
        for joint in own:  # hinges and slides are at zero
            if joint.type == JointType.BALL:
                turned = joint.anchor - rotate(joint.q0, joint.anchor)
                poses[index] = compose(poses[index], np.concatenate([turned, joint.q0]))
    return poses


def _frames(c: Constraint, world) -> list[np.ndarray]:
    """The frames in A and B.

    A missing frame coincides with the other in the initial pose. If both are missing, the frame is B's own (A's, where
    B is the world); the ends of a distance are then the bodies' origins.
    """
    given = list(c.poses)
    if c.type == ConstraintType.DISTANCE:
        return [IDENTITY if pose is None else pose for pose in given]
    if given[0] is None and given[1] is None:
        given[0 if c.ends[1] < 0 else 1] = IDENTITY
    for this, other in ((0, 1), (1, 0)):
        if given[this] is None:
            given[this] = compose(inverse(world[this]), compose(world[other], given[other]))
    return given


def _lengths(c: Constraint, ends) -> np.ndarray:
    """Shortest and longest distance, taken from the initial pose."""
    length = float(np.linalg.norm(ends[1][:3] - ends[0][:3]))
    if length <= LEAST_LENGTH:
        raise ModelError(
            f"constraint {c.name!r}: the two points coincide in the initial pose; give a length > 0, or use connect"
        )
    return np.array([length, length, 0.0, 0.0, 0.0])
