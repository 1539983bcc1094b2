# SPDX-License-Identifier: Apache-2.0
"""Append a built `Model` to a `ModelBuilder`: every element is added again, placed in a frame of the builder."""

import copy

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError
from warpsim.model import elements, hydroelastic
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.geometry import IDENTITY, axis_angle, compose, rotate, rotation_vector
from warpsim.model.looks import material_of
from warpsim.model.model import FrictionRule, GeomType, JointType, KeyframeParts, Model, ReportLine
from warpsim.model.placement import Placement, place
from warpsim.model.sensor_records import append_sensors
from warpsim.model.sensor_types import ObjectType


def append_model(
    b, other: Model, pose: np.ndarray, prefix: str, parent: int = -1, free: str | None = None
) -> list[int]:
    """Add the elements of `other` to builder `b`. The world of `other` becomes the frame `pose` of body `parent`.

    After an error `b` is unchanged.
    """
    before = {key: copy.copy(value) for key, value in vars(b).items()}
    try:
        return _append(b, other, place(b, other, pose, prefix, parent, free))
    except BaseException:
        vars(b).update(before)
        raise


def _append(b, other: Model, at: Placement) -> list[int]:
    _join_rules(b, other)
    _append_bodies(b, other, at)
    _append_joints(b, other, at)
    _append_geoms(b, other, at)
    _append_pairs(b, other, at)
    _append_marks(b, other, at)
    for pair in other.excluded:
        b.excluded.add(tuple(sorted(at.body(x) for x in pair)))
    _append_tendons(b, other, at)
    _append_constraints(b, other, at)
    _append_actuators(b, other, at)
    append_sensors(b, other, at)
    _append_keyframes(b, other, at)
    _report(b, other)
    _report_masses(b, other, at)
    return list(range(at.first[ObjectType.BODY], len(b.bodies)))


def _join_rules(b, other: Model) -> None:
    """The scene has one friction rule and one parent filter; a model without geoms does not constrain them."""
    b.mujoco = other.mujoco if b.mujoco is None else b.mujoco
    for key in ("friction_rule", "filter_parent"):
        ours, theirs = getattr(b, key), getattr(other, key)
        if ours is None:
            setattr(b, key, FrictionRule(theirs) if key == "friction_rule" else theirs)
        elif ours != theirs and other.ngeom:
            said = [FrictionRule(x).name if x in tuple(FrictionRule) else short(x) for x in (theirs, ours)]
            said = said if key == "friction_rule" else [theirs, short(ours)]
            raise ModelError(
                f"model {other.name!r} has {key} {said[0]}, the builder {said[1]}, and a scene has one for all its "
                "contacts; to have "
                f"the builder's in those of this model too add dataclasses.replace(model, {key}=builder.{key})"
            )


def _append_bodies(b, other: Model, at: Placement) -> None:
    for i, name in enumerate(other.body_names):
        found, link = elements.body_arguments(other, i), elements.first_link(other, i)
        parent, pose = at.body(found["parent"]), at.frame(found["parent"], found["pose"])
        if other.link_type[link] == JointType.FREE and at.joint(other.link_joint[link]) >= 0:
            parent, pose = -1, compose(at.start, found["pose"])
        b.add_body(**found | {"name": at.prefix + name, "parent": parent, "pose": pose})
        b.bodies[-1].axes = other.body_fluid[i, 3:].copy() if other.body_fluid[i, 3:].any() else None


def _append_joints(b, other: Model, at: Placement) -> None:
    for j, name in enumerate(other.joint_names):
        if at.joint(j) < 0:
            body = other.body_names[other.joint_body[j]]
            why = f"body {at.prefix + body!r} is welded; damping, springs and keyframes of the joint are gone"
            b.report.append(ReportLine(f"joint {at.prefix + name!r}", "ignored", why))
            continue
        found = elements.joint_arguments(other, j) | {"name": at.prefix + name}
        if other.joint_type[j] == JointType.FREE:
            found["reference"] = _placed_reference(at.start, found["reference"])
            found["q0"] = compose(at.start, found["q0"])
        b.add_joint(at.body(other.joint_body[j]), **found)


def _append_actuators(b, other: Model, at: Placement) -> None:
    """Append actuators and effort limits."""
    starts = {key: at.first[ObjectType[key.upper()]] for key in ("tendon", "site", "body")}
    for a, name in enumerate(other.actuator_names):
        found = elements.actuator_arguments(other, a, **starts) | {"name": at.prefix + name}
        if "joint" in found:
            found["joint"] = _placed_joint(other, a, found["joint"], at)
        index = b.add_actuator(**found)
        b.actuators[index].own_range = other.actuator_own_range[a]
    for limit in elements.effort_limits(other):
        if limit.joint >= 0:
            b.add_effort_limit(at.joint(limit.joint), limit.range, gravity_compensation=limit.gravity)
        else:
            b.add_effort_limit(tendon=at.of(ObjectType.TENDON, limit.tendon), range=limit.range)


def _placed_joint(other: Model, a: int, joint: int, at: Placement) -> int:
    """The builder's index of the joint that actuator a drives."""
    if at.joint(joint) < 0:
        raise ModelError(
            f"actuator {other.actuator_names[a]!r} of model {other.name!r} drives the free joint "
            f"{other.joint_names[joint]!r}, which free='weld' takes away; give free='keep', or take the actuator out "
            "of the model"
        )
    return at.joint(joint)


def _placed_reference(start, reference):
    """Rest pose (position, rotation vector) of a free joint's spring after the model is placed at `start`."""
    angle = np.linalg.norm(reference[3:])
    turn = axis_angle(reference[3:] / angle, angle) if angle > 0 else IDENTITY[3:]
    placed = compose(start, np.concatenate([reference[:3], turn]))
    return np.concatenate([placed[:3], rotation_vector(placed[3:])])


def _append_keyframes(b, other: Model, at: Placement) -> None:
    bodies = [at.body(i) for i in np.flatnonzero(other.body_mocap >= 0)]
    first = at.first[ObjectType.ACTUATOR]
    for name, frame in other.keyframes.items():
        stateful = first + np.flatnonzero(other.actuator_dynamics)
        activation = dict(zip(stateful.tolist(), map(float, frame.activation), strict=True))
        control = {first + a: float(c) for a, c in enumerate(frame.control)}
        mocap = dict(zip(bodies, compose(at.start, frame.mocap), strict=True))
        parts = KeyframeParts({}, {}, control, activation, mocap)
        for j, joint in enumerate(other.joint_names):
            if at.joint(j) < 0:
                continue
            q, v = (array[rows].copy() for array, rows in zip(frame[:2], other.joint_coordinates(joint), strict=True))
            if other.joint_type[j] == JointType.FREE:
                q, v[:3] = compose(at.start, q), rotate(at.start[3:], v[:3])
            parts.q[at.joint(j)], parts.v[at.joint(j)] = q, v
        b.keyframes[b._name("keyframe", at.prefix + name, b.keyframes)] = parts


def _append_tendons(b, other: Model, at: Placement) -> None:
    for t, name in enumerate(other.tendon_names):
        found = elements.tendon_arguments(other, t, at.first[ObjectType.GEOM], at.first[ObjectType.SITE])
        if "joints" in found:
            found["joints"] = {at.joint(j): c for j, c in found["joints"].items()}
        b.add_tendon(**found | {"name": at.prefix + name})


def _append_constraints(b, other: Model, at: Placement) -> None:
    """Append constraints; frames in the world of `other` are placed."""
    coordinates = {ConstraintType.JOINT: ObjectType.JOINT, ConstraintType.TENDON: ObjectType.TENDON}
    for c, name in enumerate(other.constraint_names):
        found = elements.constraint_arguments(elements.constraint_record(other, c)) | {"name": at.prefix + name}
        if found["kind"] in coordinates:
            ends = [None if e < 0 else at.of(coordinates[found["kind"]], e) for e in other.constraint_joint[c]]
        else:
            bodies = other.constraint_body[c]
            ends = [at.body(e) for e in bodies]
            frames = [at.frame(e, p) for e, p in zip(bodies, other.constraint_pose[c], strict=True)]
            found |= {"pose_a": frames[0], "pose_b": frames[1]}
        b.add_constraint(a=ends[0], b=ends[1], **found)


def _append_geoms(b, other: Model, at: Placement) -> None:
    fields = iter(other.hfields)
    for g, name in enumerate(other.geom_names):
        body, found, mesh = int(other.geom_body[g]), elements.geom_arguments(other, g), None
        if other.geom_mesh[g] >= 0:
            source = other.meshes[other.geom_mesh[g]]
            mesh = (source.vertices, source.faces, source.uv)
        where = {"name": at.prefix + name, "body": at.body(body), "pose": at.frame(body, found["pose"])}
        b.add_geom(
            **found | where,
            density=0.0,
            mesh=mesh,
            hydroelastic=hydroelastic.of_geom(other, g),
            hfield=next(fields)[1:] if other.geom_type[g] == GeomType.HFIELD else None,
            material=material_of(other, g),
        )
        b.geoms[-1].mapped_stiffness = float(other.geom_mapped_stiffness[g])


def _append_pairs(b, other: Model, at: Placement) -> None:
    rows = elements.pair_rows(other)
    elements.add_pairs(b, [[*(at.of(ObjectType.GEOM, g) for g in row[:2]), *row[2:]] for row in rows])


def _append_marks(b, other: Model, at: Placement) -> None:
    """Append sites and cameras."""
    for arguments, add, names in (
        (elements.site_arguments, b.add_site, other.site_names),
        (elements.camera_arguments, b.add_camera, other.camera_names),
    ):
        for k, name in enumerate(names):
            found = arguments(other, k)
            where = {"body": at.body(found["body"]), "pose": at.frame(found["body"], found["pose"])}
            add(**found | where | {"name": at.prefix + name})


def _report(b, other: Model) -> None:
    """Append report lines, except those that describe the whole scene."""
    theirs = {"gravity": other.gravity, "timestep": other.timestep, "wind": other.wind}
    theirs |= {"density": other.fluid_density, "viscosity": other.fluid_viscosity, "mujoco": other.mujoco}
    lost = {key: value for key, value in theirs.items() if not np.array_equal(getattr(b, key), value)}
    for line in other.report:
        said_anew = line.feature == hydroelastic.FEATURE  # compiled anew for the whole scene
        if not said_anew and not line.feature.startswith(tuple(f"option {key} = " for key in lost)):
            b.report.append(line)
    for key, value in lost.items():
        what = f"{np.asarray(value).tolist()}: that of the scene that {other.name!r} is added to counts"
        b.report.append(ReportLine(key, "ignored", what))


def _report_masses(b, other: Model, at: Placement) -> None:
    """Report that the geoms of a model's world add no mass to the body that replaces the world."""
    bare = [at.prefix + name for name, body in zip(other.geom_names, other.geom_body, strict=True) if body < 0]
    if at.parent >= 0 and bare:
        why = f"{listed(bare)} stand in the world of {other.name!r} and add none to body {b.bodies[at.parent].name!r}"
        b.report.append(ReportLine("mass of geoms", "ignored", why))
