# SPDX-License-Identifier: Apache-2.0
"""Where a `Model` is placed in a `ModelBuilder`: the body that replaces its world, and the new element indices."""

import dataclasses

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.model.constraints import initial_poses
from warpsim.model.geometry import compose
from warpsim.model.model import JointType, Model
from warpsim.model.sensor_types import ObjectType

FREE = ("weld", "keep")


@dataclasses.dataclass(frozen=True)
class Placement:
    """Placement of a model: its world becomes the frame `pose` of body `parent` (-1: the builder's world)."""

    prefix: str
    parent: int
    pose: np.ndarray
    start: np.ndarray  # world pose of that frame with all joints at q0, from which bodies that stay free begin
    first: dict[ObjectType, int]  # index that the model's element 0 gets in the builder
    joints: np.ndarray  # builder index of each joint of the model; -1: welded

    def body(self, index) -> int:
        """The builder's index of a body of the model; `parent` for the model's world."""
        return self.parent if index < 0 else self.of(ObjectType.BODY, index)

    def of(self, kind: ObjectType, index) -> int:
        """The builder's index of element `index` of the model."""
        return int(self.joints[index]) if kind == ObjectType.JOINT else self.first[kind] + int(index)

    def joint(self, index) -> int:
        """The builder's index of a joint of the model; -1 where it is welded."""
        return int(self.joints[index])

    def frame(self, body, pose: np.ndarray) -> np.ndarray:
        """`pose` in a body of the model as the builder has it: moved where that body is the world."""
        return compose(self.pose, pose) if body < 0 else pose


def place(b, other: Model, pose: np.ndarray, prefix: str, parent: int, free: str | None) -> Placement:
    """Place `other` in builder `b`; `ModelError` for what cannot be attached to a body."""
    if free not in (None, *FREE):
        raise ModelError(f"add_model: free is {short(free)}; give 'weld', 'keep' or None")
    if parent >= 0:
        _refuse_mocap(b, other, parent)
    loose = other.joint_type == JointType.FREE
    if parent >= 0 and free is None and loose.any():
        names = other.body_names[other.joint_body[np.argmax(loose)]], b.bodies[parent].name
        raise ModelError(
            f"body {names[0]!r} of model {other.name!r} has a free joint and cannot hang on {names[1]!r}; give "
            "free='weld' to fix "
            f"it there, or free='keep' to leave it free in the world, starting at its pose in {names[1]!r}"
        )
    first = {kind: len(kind.items(b)) for kind in ObjectType if kind != ObjectType.NONE}
    kept = ~loose if free == "weld" else np.ones(other.njoint, bool)
    joints = np.where(kept, len(b.joints) + np.cumsum(kept) - 1, -1)
    start = pose if parent < 0 else compose(initial_poses(b)[parent], pose)
    return Placement(prefix, parent, pose, start, first, joints)


def _refuse_mocap(b, other: Model, parent: int) -> None:
    given = np.flatnonzero(other.body_mocap >= 0)
    if len(given):
        raise ModelError(
            f"body {other.body_names[given[0]]!r} of model {other.name!r} is a mocap body and cannot hang on "
            f"{b.bodies[parent].name!r}: a step is told its pose in the world; add the model without parent, or "
            "mocap=True to no "
            "body of it"
        )
