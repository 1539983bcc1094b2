# SPDX-License-Identifier: Apache-2.0
"""Check that the tree tables of a model read from a file of arrays follow from its bodies and joints."""

from types import SimpleNamespace

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.model.compiler import number_links
from warpsim.model.geometry import IDENTITY
from warpsim.model.model import JointType, Model


def check_trees(model: Model) -> None:
    """Raise `ModelError` for the first table that differs from the depth-first numbering of links."""
    if (model.joint_type == JointType.FIXED).any():
        raise ModelError("joint_type: a joint is not fixed; a body without joints is")
    place = IDENTITY[:3]  # the tables checked do not depend on lengths
    joints = zip(model.joint_type.tolist(), model.joint_body.tolist(), strict=True)
    found = number_links(
        SimpleNamespace(
            bodies=[SimpleNamespace(parent=parent, pose=IDENTITY) for parent in model.body_parent.tolist()],
            joints=[SimpleNamespace(type=JointType(kind), body=body, anchor=place) for kind, body in joints],
        )
    )
    if found["joint_order"] != list(range(model.njoint)):
        raise ModelError("joint_body: joints must have the order of their links, depth first")
    tables = {key: found[key] for key in ("body_link", "joint_link", "joint_q", "joint_v")} | found["arrays"]
    for name in sorted(tables.keys() - {"link_pose"}):
        ours, theirs = np.asarray(tables[name]), getattr(model, name)
        if not np.array_equal(ours, theirs):
            at = np.argmax(theirs != ours) if ours.shape == theirs.shape else 0
            raise ModelError(
                f"{name}[{at}] is {theirs[at] if len(theirs) else 'missing'}; by the bodies and joints it must be "
                f"{ours[at] if len(ours) else 'missing'}"
            )
