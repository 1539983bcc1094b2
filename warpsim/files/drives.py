# SPDX-License-Identifier: Apache-2.0
"""`ws.load(..., actuators=...)`: one actuator per hinge and slide joint that has none."""

import numpy as np

from warpsim.model.builder import ModelBuilder
from warpsim.model.builder_names import free_name
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.model import JointType, ReportLine

POSITION_GAINS = {"kp": 100.0, "kv": 10.0}  # of actuators="position": N m/rad or N/m, N m s/rad or N s/m
INFINITE = (-np.inf, np.inf)


def drive_joints(b: ModelBuilder, kind: str, efforts) -> None:
    """Add an actuator to every hinge and slide that has none; `efforts` has a range of force per joint of `b`.

    A joint that follows another joint by a constraint gets none: it is driven through that joint.
    """
    driven, taken = {a.target.joint for a in b.actuators}, {a.name for a in b.actuators}
    driven |= {c.ends[0] for c in b.constraints if c.type == ConstraintType.JOINT and c.active and c.ends[1] >= 0}
    added = 0
    for j, joint in enumerate(b.joints):
        if j in driven or joint.type not in (JointType.HINGE, JointType.SLIDE):
            continue
        name = free_name(joint.name, taken)
        taken.add(name)
        if kind == "effort":
            b.add_actuator(j, "effort", name=name, control_range=efforts[j])
        else:
            target = joint.range if joint.limited else INFINITE
            b.add_actuator(j, "position", name=name, **POSITION_GAINS, control_range=target, force_range=efforts[j])
        added += 1
    gains = "" if kind == "effort" else "".join(f", {key} = {value:g}" for key, value in POSITION_GAINS.items())
    b.report.append(ReportLine(f"actuators={kind!r}", "mapped", f"{added} joints without actuators got one{gains}"))
