# SPDX-License-Identifier: Apache-2.0
"""A built `Model` added to a `ModelBuilder`: every element again, its root bodies and what stands in its world on a body, at a pose."""

import copy

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError
from warpsim.model import hydroelastic
from warpsim.model.actuators import actuator_kind, state_options
from warpsim.model.constraint_types import ConstraintType, own_option
from warpsim.model.geometry import IDENTITY, axis_angle, compose, rotate, rotation_vector
from warpsim.model.looks import material_of
from warpsim.model.marks import append_marks
from warpsim.model.model import (
    JOINT_NQ,
    JOINT_NV,
    MAX_HULL_VERTICES,
    FrictionRule,
    GeomType,
    JointType,
    KeyframeParts,
    Model,
    ReportLine,
)
from warpsim.model.placement import Placement, place
from warpsim.model.sensor_records import append_sensors
from warpsim.model.sensor_types import ObjectType
from warpsim.model.targets import target_of
from warpsim.model.tendon_paths import path_of


def append_model(
    b, other: Model, pose: np.ndarray, prefix: str, parent: int = -1, free: str | None = None
) -> list[int]:
    """Add the elements of `other` to builder `b`, its world as the frame `pose` of body `parent`; after an error `b` is as it was."""
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
    append_marks(b, other, at)
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
    """One rule of friction and one of contact with parents for the scene; a model without geoms has none to lose."""
    for key in ("friction_rule", "filter_parent"):
        ours, theirs = getattr(b, key), getattr(other, key)
        if ours is None:
            setattr(b, key, FrictionRule(theirs) if key == "friction_rule" else theirs)
        elif ours != theirs and other.ngeom:
            said = [FrictionRule(x).name if x in tuple(FrictionRule) else short(x) for x in (theirs, ours)]
            said = said if key == "friction_rule" else [theirs, short(ours)]
            raise ModelError(
                f"model {other.name!r} has {key} {said[0]}, the builder {said[1]}, and a scene has one for all its contacts; to have "
                f"the builder's in those of this model too add dataclasses.replace(model, {key}=builder.{key})"
            )


def _append_bodies(b, other: Model, at: Placement) -> None:
    for i, name in enumerate(other.body_names):
        link = other.body_link[i]
        while other.link_parent[link] >= 0 and other.link_body[other.link_parent[link]] == i:
            link = other.link_parent[link]
        parent, pose = at.body(other.body_parent[i]), other.link_pose[link]
        if other.link_type[link] == JointType.FREE:
            q = other.link_q[link]
            pose = other.q0[q : q + 7]
            if at.joint(other.link_joint[link]) >= 0:
                parent, pose = -1, compose(at.start, pose)
            else:
                pose = compose(at.pose, pose)
        else:
            pose = at.frame(other.body_parent[i], pose)
        b.add_body(
            at.prefix + name,
            parent=parent,
            pose=pose,
            mass=other.body_mass[i],
            com=other.body_com[i],
            inertia=other.body_inertia[i],
            mocap=other.body_mocap[i] >= 0,
            gravcomp=other.body_gravcomp[i],
        )
        b.bodies[-1].axes = other.body_fluid[i, 3:].copy() if other.body_fluid[i, 3:].any() else None


def _append_joints(b, other: Model, at: Placement) -> None:
    for j, name in enumerate(other.joint_names):
        kind = JointType(other.joint_type[j])
        q, v = int(other.joint_q[j]), int(other.joint_v[j])
        dofs = slice(v, v + JOINT_NV[kind])
        q0 = other.q0[q : q + JOINT_NQ[kind]]
        if at.joint(j) < 0:
            body = other.body_names[other.joint_body[j]]
            why = f"body {at.prefix + body!r} is welded; damping, springs and keyframes of the joint are gone"
            b.report.append(ReportLine(f"joint {at.prefix + name!r}", "ignored", why))
            continue
        b.add_joint(
            at.body(other.joint_body[j]),
            kind,
            name=at.prefix + name,
            axis=other.joint_axis[j],
            anchor=other.joint_anchor[j],
            range=other.joint_range[j] if other.joint_limited[j] else None,
            stiffness=other.joint_stiffness[dofs],
            damping=other.joint_damping[dofs],
            armature=other.joint_armature[dofs],
            friction=other.joint_friction[dofs],
            reference=_placed_reference(kind, at.start, other.joint_reference[dofs]),
            q0=compose(at.start, q0) if kind == JointType.FREE else q0,
        )


def _append_actuators(b, other: Model, at: Placement) -> None:
    """Actuators, and ranges of what several do together."""
    for a, name in enumerate(other.actuator_names):
        index = b.add_actuator(
            kind=actuator_kind(other, a),
            name=at.prefix + name,
            gear=other.actuator_gear[a],
            gain=other.actuator_gain[a],
            bias=other.actuator_bias[a],
            control_range=other.control_range[a],
            force_range=other.force_range[a],
            **state_options(other, a),
            **_placed_target(other, a, at),
        )
        b.actuators[index].own_range = other.actuator_own_range[a]
    for j in np.flatnonzero(np.isfinite(other.joint_effort_range).any(1)):
        gravity = bool(other.joint_effort_gravity[j])
        b.add_effort_limit(at.joint(j), other.joint_effort_range[j], gravity_compensation=gravity)
    for t in np.flatnonzero(np.isfinite(other.tendon_effort_range).any(1)):
        b.add_effort_limit(tendon=at.of(ObjectType.TENDON, t), range=other.tendon_effort_range[t])


def _placed_target(other: Model, a: int, at: Placement) -> dict:
    """What actuator a acts on, in the builder."""
    starts = (at.first[kind] for kind in (ObjectType.TENDON, ObjectType.SITE, ObjectType.BODY))
    target = target_of(other, a, 0, *starts)
    if "joint" in target:
        joint = target["joint"]
        target["joint"] = at.joint(joint)
        if target["joint"] < 0:
            raise ModelError(
                f"actuator {other.actuator_names[a]!r} of model {other.name!r} drives the free joint {other.joint_names[joint]!r}, "
                "which free='weld' takes away; give free='keep', or take the actuator out of the model"
            )
    return target


def _placed_reference(kind: JointType, start, reference):
    """Rest of a free joint's spring (position, rotation vector) after the model is placed at `start`."""
    if kind != JointType.FREE:
        return reference
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
    joint_of_dof = {int(v): at.joint(j) for j, v in enumerate(other.joint_v)}
    for t, name in enumerate(other.tendon_names):
        row, path = (
            other.tendon_coefficients[t],
            path_of(other, t, at.first[ObjectType.GEOM], at.first[ObjectType.SITE]),
        )
        b.add_tendon(
            None if path else {joint_of_dof[int(d)]: row[d] for d in np.flatnonzero(row)},
            path=path,
            name=at.prefix + name,
            range=other.tendon_range[t] if other.tendon_limited[t] else None,
            stiffness=other.tendon_stiffness[t],
            damping=other.tendon_damping[t],
            friction=other.tendon_friction[t],
            reference=other.tendon_reference[t],
        )


def _append_constraints(b, other: Model, at: Placement) -> None:
    """Their frames in the world are placed."""
    coordinates = {ConstraintType.JOINT: ObjectType.JOINT, ConstraintType.TENDON: ObjectType.TENDON}
    for c, name in enumerate(other.constraint_names):
        kind, time = ConstraintType(other.constraint_type[c]), other.constraint_dissipation_time[c]
        if kind in coordinates:
            ends = [None if e < 0 else at.of(coordinates[kind], e) for e in other.constraint_joint[c]]
            geometry = {}
        else:
            bodies = other.constraint_body[c]
            ends = [at.body(e) for e in bodies]
            frames = [at.frame(e, p) for e, p in zip(bodies, other.constraint_pose[c], strict=True)]
            geometry = {"pose_a": frames[0], "pose_b": frames[1]}
        b.add_constraint(
            kind,
            *ends,
            name=at.prefix + name,
            **geometry,
            **own_option(kind, other.constraint_coefficients[c]),
            stiffness=other.constraint_stiffness[c],
            dissipation_time=None if np.isnan(time) else time,
            active=other.constraint_active[c],
        )


def _append_geoms(b, other: Model, at: Placement) -> None:
    fields = iter(other.hfields)
    for g, name in enumerate(other.geom_names):
        body = int(other.geom_body[g])
        mesh, limit = None, MAX_HULL_VERTICES
        if other.geom_mesh[g] >= 0:
            source = other.meshes[other.geom_mesh[g]]
            mesh, limit = (source.vertices, source.faces, source.uv), source.max_hull_vertices
        time = other.geom_dissipation_time[g]
        b.add_geom(
            GeomType(other.geom_type[g]),
            other.geom_size[g],
            body=at.body(body),
            pose=at.frame(body, other.geom_pose[g]),
            name=at.prefix + name,
            density=0.0,
            friction=other.geom_friction[g],
            stiffness=other.geom_stiffness[g],
            dissipation_time=None if np.isnan(time) else time,
            restitution=other.geom_restitution[g],
            hertz_modulus=other.geom_hertz_modulus[g],
            contype=other.geom_contype[g],
            conaffinity=other.geom_conaffinity[g],
            condim=other.geom_condim[g],
            torsional_friction=other.geom_torsional_friction[g],
            rolling_friction=other.geom_rolling_friction[g],
            margin=other.geom_margin[g],
            priority=other.geom_priority[g],
            rgba=other.geom_rgba[g],
            mesh=mesh,
            hydroelastic=hydroelastic.of_geom(other, g),
            fluid=other.geom_fluid[g] if other.geom_fluid[g, 0] > 0 else None,
            hfield=next(fields)[1:] if other.geom_type[g] == GeomType.HFIELD else None,
            visible=other.geom_visible[g],
            max_hull_vertices=limit,
            material=material_of(other, g),
        )


def _append_pairs(b, other: Model, at: Placement) -> None:
    for p in np.flatnonzero(other.pair_rule == FrictionRule.EXPLICIT):
        first, second = (at.of(ObjectType.GEOM, g) for g in other.pair_geom[p])
        b.add_pair(
            first,
            second,
            float(other.pair_friction[p]),
            condim=int(other.pair_condim[p]),
            torsional_friction=float(other.pair_torsional_friction[p]),
            rolling_friction=float(other.pair_rolling_friction[p]),
            margin=float(other.pair_margin[p]),
        )


def _report(b, other: Model) -> None:
    """Its lines; what is one for the whole scene stays the builder's."""
    theirs = {"gravity": other.gravity, "timestep": other.timestep, "wind": other.wind}
    theirs |= {"density": other.fluid_density, "viscosity": other.fluid_viscosity}
    lost = {key: value for key, value in theirs.items() if not np.array_equal(getattr(b, key), value)}
    for line in other.report:
        said_anew = line.feature == hydroelastic.FEATURE  # of the whole
        if not said_anew and not line.feature.startswith(tuple(f"option {key} = " for key in lost)):
            b.report.append(line)
    for key, value in lost.items():
        what = f"{np.asarray(value).tolist()}: that of the scene that {other.name!r} is added to counts"
        b.report.append(ReportLine(key, "ignored", what))


def _report_masses(b, other: Model, at: Placement) -> None:
    """A model does not say what the geoms of its world would weigh."""
    bare = [at.prefix + name for name, body in zip(other.geom_names, other.geom_body, strict=True) if body < 0]
    if at.parent >= 0 and bare:
        why = f"{listed(bare)} stand in the world of {other.name!r} and add none to body {b.bodies[at.parent].name!r}"
        b.report.append(ReportLine("mass of geoms", "ignored", why))
