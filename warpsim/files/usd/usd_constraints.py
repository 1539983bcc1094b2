# SPDX-License-Identifier: Apache-2.0
"""Loop joints of a USD stage, and their counterparts here: constraints between two bodies.

The trees take all joints that they can (`warpsim.files.usd.usd_joints.span`). The joints that are left, and those with
`physics:excludeFromArticulation`, become constraints: spherical a connect, fixed a weld, revolute a hinge, prismatic a
slide, distance a distance. Our export writes constraints this way, and couplings of joints and tendons, which the
schema lacks, as customData.
"""

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.files.usd import usd_extra
from warpsim.files.usd.usd_joints import APART, Joint
from warpsim.files.usd.usd_shapes import AXES
from warpsim.files.usd.usd_values import Names, keep_name, quatf, vec3
from warpsim.model import elements
from warpsim.model.builder_names import free_name
from warpsim.model.constraint_types import BODY_CONSTRAINTS, ConstraintType
from warpsim.model.geometry import compose, inverse, rotation_vector
from warpsim.model.model import ReportLine
from warpsim.model.mujoco_options import DEFAULTS

SCHEMA = {
    ConstraintType.CONNECT: "SphericalJoint",
    ConstraintType.WELD: "FixedJoint",
    ConstraintType.HINGE: "RevoluteJoint",
    ConstraintType.SLIDE: "PrismaticJoint",
    ConstraintType.DISTANCE: "DistanceJoint",
}

# Reading ------------------------------------------------------------------------------------------------------------


def constraint_kind(joint: Joint) -> ConstraintType | None:
    """The constraint that represents a joint; None if there is none."""
    if joint.kind == "distance":
        return ConstraintType.DISTANCE
    if joint.kind == "ball":
        return None if joint.freedoms else ConstraintType.CONNECT
    if joint.kind != "freedoms" or len(joint.freedoms) > 1:
        return None
    if not joint.freedoms:
        return ConstraintType.WELD
    return ConstraintType.HINGE if joint.freedoms[0].hinge else ConstraintType.SLIDE


def add_loop(b, joint: Joint, index: dict, poses: dict, refuse) -> None:
    """Add the constraint of a loop joint; `index` maps paths to the builder's bodies, `poses` to the stage's poses."""
    label, kind = f"joint {joint.prim.GetPath()}", constraint_kind(joint)
    between = " and ".join(path or "the world" for path in joint.bodies)
    if joint.kind == "free" or (kind == ConstraintType.DISTANCE and joint.lengths is None):
        b.report.append(ReportLine(label, "ignored", f"it leaves {between} free"))
        return
    if kind is None:
        refuse(label, f"it closes a loop between {between} with several freedoms", "split it into simple joints")
        return
    if joint.cone is not None or any(f.range is not None for f in joint.freedoms):
        refuse(label, f"it closes a loop between {between}; limits of such a joint are not simulated", "remove them")
    drives = [f.drive for f in joint.freedoms if f.drive is not None]
    if drives and all(drive.idle for drive in drives):
        b.report.append(ReportLine(f"drive of {label}", "ignored", "it has no gains, or no force"))
    elif drives:
        refuse(label, f"it closes a loop between {between}; a drive of such a joint is not simulated", "remove it")
    frames = [np.array(frame) for frame in joint.frames]
    if kind in (ConstraintType.HINGE, ConstraintType.SLIDE):
        turn = np.concatenate([np.zeros(3), AXES["XYZ"[int(np.argmax(joint.freedoms[0].axis))]]])
        frames = [compose(frame, turn) for frame in frames]
    name = free_name(joint.name, {c.name for c in b.constraints})
    arguments = {"name": name, "active": joint.enabled}
    if kind == ConstraintType.DISTANCE:
        arguments["length"] = joint.lengths
    kept = usd_extra.read(joint.prim).get("constraint", {})
    if kept.get("type") == kind.name.lower():
        frames = [usd_extra.exact_pose(x, y) for x, y in zip(frames, kept["poses"], strict=True)]
        arguments |= {
            "stiffness": kept["stiffness"],
            "dissipation_time": elements.given_time(kept.get("dissipation_time")),
        } | {name: kept[name] for name in DEFAULTS["constraint"] if name in kept}
        if kind == ConstraintType.DISTANCE:
            arguments["length"] = usd_extra.exact(joint.lengths, kept["coefficients"][:2])
    elif not joint.touches and None not in joint.bodies:
        b.exclude(*(index[path] for path in joint.bodies))
    ends = [index[path] for path in joint.bodies]
    b.add_constraint(kind, *ends, pose_a=frames[0], pose_b=frames[1], **arguments)
    if not kept:
        b.report.append(ReportLine(label, "mapped", f"closes a loop: a {kind.name.lower()} constraint"))
    rest = _violation(kind, [compose(poses[p], f) for p, f in zip(joint.bodies, frames, strict=True)])
    if rest > APART:
        why = f"its frames are {rest:.3g} apart (m or rad); the constraint pulls them together"
        b.report.append(ReportLine(label, "mapped", why))


def _violation(kind: ConstraintType, frames) -> float:
    """The violation of a constraint by its frames [m, rad]."""
    if kind == ConstraintType.DISTANCE:
        return 0.0
    motion = compose(inverse(frames[0]), frames[1])
    along, about = np.abs(motion[:3]), np.abs(rotation_vector(motion[3:]))
    if kind == ConstraintType.CONNECT:
        return float(along.max())
    if kind == ConstraintType.HINGE:
        turned = compose(motion, np.array([0, 0, 1, 1, 0, 0, 0]))[:3] - motion[:3]
        return float(max(along.max(), np.abs(turned[:2]).max()))
    return float(max(along[: 2 if kind == ConstraintType.SLIDE else 3].max(), about.max()))


def restore_order(b, extra: dict, loops: list[Joint]) -> None:
    """Sort the constraints as in the exported model, if all of them come from it."""
    place = {c["name"]: int(c["index"]) for c in extra.get("constraints", [])}
    for joint in loops:
        kept = usd_extra.read(joint.prim).get("constraint", {})
        if "index" in kept:
            place[joint.name] = int(kept["index"])
    if b.constraints and all(c.name in place for c in b.constraints):
        b.constraints.sort(key=lambda c: place[c.name])


# Writing ------------------------------------------------------------------------------------------------------------


def write_constraints(stage, model, body_paths, root_path) -> None:
    """Write one UsdPhysics joint outside the articulation per constraint between bodies, under `root_path`."""
    from pxr import Sdf, UsdGeom, UsdPhysics

    names = Names()
    rows = [c for c, kind in enumerate(model.constraint_type) if ConstraintType(kind) in BODY_CONSTRAINTS]
    if rows:
        UsdGeom.Scope.Define(stage, root_path)
    for c in rows:
        kind, name = ConstraintType(model.constraint_type[c]), model.constraint_names[c]
        if kind not in SCHEMA:
            raise ModelError(f"constraint {name!r}: USD has no joint for a {kind.name.lower()}; export without it")
        joint = getattr(UsdPhysics, SCHEMA[kind]).Define(stage, f"{root_path}/{names(name)}")
        for side, body in enumerate(model.constraint_body[c]):
            pose = model.constraint_pose[c, side]
            if body >= 0:
                getattr(joint, f"CreateBody{side}Rel")().SetTargets([Sdf.Path(body_paths[body])])
            getattr(joint, f"CreateLocalPos{side}Attr")(vec3(pose[:3]))
            getattr(joint, f"CreateLocalRot{side}Attr")(quatf(pose[3:]))
        if kind in (ConstraintType.HINGE, ConstraintType.SLIDE, ConstraintType.CONNECT):
            joint.CreateAxisAttr("Z")
        if kind == ConstraintType.DISTANCE:
            low, high = model.constraint_coefficients[c, :2]
            joint.CreateMinDistanceAttr(float(low))
            joint.CreateMaxDistanceAttr(float(high) if np.isfinite(high) else -1.0)
        joint.CreateExcludeFromArticulationAttr(True)
        joint.CreateCollisionEnabledAttr(True)
        joint.CreateJointEnabledAttr(bool(model.constraint_active[c]))
        keep_name(joint.GetPrim(), name)
        usd_extra.write(joint.GetPrim(), {"constraint": elements.constraint_record(model, c)})
