"""A built `Model` added to a `ModelBuilder`: every element again, its root bodies and what stands in the world placed at a pose."""

import numpy as np

from warpsim.errors import ModelError
from warpsim.model import hydroelastic
from warpsim.model.actuators import actuator_kind, state_options
from warpsim.model.constraint_types import ConstraintType, own_option
from warpsim.model.geometry import IDENTITY, axis_angle, compose, rotate, rotation_vector
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
)
from warpsim.model.sensor_records import append_sensors
from warpsim.model.sensor_types import ObjectType
from warpsim.model.targets import target_of
from warpsim.model.tendon_paths import path_of


def append_model(b, other: Model, pose: np.ndarray, prefix: str) -> list[int]:
    """Add the elements of `other` to builder `b`; root bodies and world geoms are placed at `pose`."""
    for key in ("friction_rule", "filter_parent"):
        ours, theirs = getattr(b, key), getattr(other, key)
        if ours is not None and ours != theirs:
            raise ModelError(
                f"model {other.name!r} has {key} {theirs!r}, the builder {ours!r}: set builder.{key} to None to take the "
                "model's, or load them as one file"
            )
        setattr(b, key, FrictionRule(theirs) if key == "friction_rule" else theirs)
    first, joint_start = len(b.bodies), len(b.joints)
    _append_bodies(b, other, pose, prefix, first)
    _append_joints(b, other, pose, prefix, first)
    geom_start, site_start, camera_start = len(b.geoms), len(b.sites), len(b.cameras)
    _append_geoms(b, other, pose, prefix, first)
    _append_pairs(b, other, geom_start)
    append_marks(b, other, pose, prefix, first)
    for body_a, body_b in other.excluded:
        b.excluded.add(tuple(-1 if x < 0 else first + int(x) for x in (body_a, body_b)))
    tendon_start = len(b.tendons)
    _append_constraints(b, other, pose, prefix, first, joint_start, geom_start, site_start)
    _append_actuators(b, other, prefix, joint_start, tendon_start, site_start, first)
    starts = {ObjectType.JOINT: joint_start, ObjectType.GEOM: geom_start, ObjectType.TENDON: tendon_start}
    starts |= {
        ObjectType.SITE: site_start,
        ObjectType.CAMERA: camera_start,
        ObjectType.ACTUATOR: len(b.actuators) - other.nu,
    }
    starts |= dict.fromkeys((ObjectType.BODY, ObjectType.INERTIA, ObjectType.SUBTREE), first)
    append_sensors(b, other, prefix, starts)
    _append_keyframes(b, other, pose, prefix, first, joint_start, len(b.actuators) - other.nu)
    b.report.extend(
        line for line in other.report if line.feature != hydroelastic.FEATURE
    )  # it is said anew of the whole
    return list(range(first, len(b.bodies)))


def _append_bodies(b, other: Model, pose: np.ndarray, prefix: str, first: int) -> None:
    for i, name in enumerate(other.body_names):
        link = other.body_link[i]
        while other.link_parent[link] >= 0 and other.link_body[other.link_parent[link]] == i:
            link = other.link_parent[link]
        parent = int(other.body_parent[i])
        local = other.link_pose[link]
        if other.link_type[link] == JointType.FREE:
            q = other.link_q[link]
            local = other.q0[q : q + 7]
        b.add_body(
            prefix + name,
            parent=-1 if parent < 0 else first + parent,
            pose=compose(pose, local) if parent < 0 else local,
            mass=other.body_mass[i],
            com=other.body_com[i],
            inertia=other.body_inertia[i],
            mocap=other.body_mocap[i] >= 0,
            gravcomp=other.body_gravcomp[i],
        )
        b.bodies[-1].axes = other.body_fluid[i, 3:].copy() if other.body_fluid[i, 3:].any() else None


def _append_joints(b, other: Model, pose: np.ndarray, prefix: str, first: int) -> None:
    for j, name in enumerate(other.joint_names):
        kind = JointType(other.joint_type[j])
        q, v = int(other.joint_q[j]), int(other.joint_v[j])
        dofs = slice(v, v + JOINT_NV[kind])
        q0 = other.q0[q : q + JOINT_NQ[kind]]
        b.add_joint(
            first + int(other.joint_body[j]),
            kind,
            name=prefix + name,
            axis=other.joint_axis[j],
            anchor=other.joint_anchor[j],
            range=other.joint_range[j] if other.joint_limited[j] else None,
            stiffness=other.joint_stiffness[dofs],
            damping=other.joint_damping[dofs],
            armature=other.joint_armature[dofs],
            friction=other.joint_friction[dofs],
            reference=_placed_reference(kind, pose, other.joint_reference[dofs]),
            q0=compose(pose, q0) if kind == JointType.FREE else q0,
        )


def _append_actuators(
    b, other: Model, prefix: str, joint_start: int, tendon_start: int, site_start: int, first: int
) -> None:
    """Actuators, and ranges of what several do together."""
    for a, name in enumerate(other.actuator_names):
        b.add_actuator(
            kind=actuator_kind(other, a),
            name=prefix + name,
            gear=other.actuator_gear[a],
            gain=other.actuator_gain[a],
            bias=other.actuator_bias[a],
            control_range=other.control_range[a],
            force_range=other.force_range[a],
            **state_options(other, a),
            **target_of(other, a, joint_start, tendon_start, site_start, first),
        )
    for j in np.flatnonzero(np.isfinite(other.joint_effort_range).any(1)):
        gravity = bool(other.joint_effort_gravity[j])
        b.add_effort_limit(joint_start + int(j), other.joint_effort_range[j], gravity_compensation=gravity)
    for t in np.flatnonzero(np.isfinite(other.tendon_effort_range).any(1)):
        b.add_effort_limit(tendon=tendon_start + int(t), range=other.tendon_effort_range[t])


def _placed_reference(kind: JointType, pose, reference):
    """Rest of a free joint's spring (position, rotation vector) after the model is placed at `pose`."""
    if kind != JointType.FREE:
        return reference
    angle = np.linalg.norm(reference[3:])
    turn = axis_angle(reference[3:] / angle, angle) if angle > 0 else IDENTITY[3:]
    placed = compose(pose, np.concatenate([reference[:3], turn]))
    return np.concatenate([placed[:3], rotation_vector(placed[3:])])


def _append_keyframes(
    b, other: Model, pose, prefix: str, first_body: int, joint_start: int, actuator_start: int
) -> None:
    bodies = [first_body + int(i) for i in np.flatnonzero(other.body_mocap >= 0)]
    for name, frame in other.keyframes.items():
        stateful = actuator_start + np.flatnonzero(other.actuator_dynamics)
        activation = dict(zip(stateful.tolist(), map(float, frame.activation), strict=True))
        control = {actuator_start + a: float(c) for a, c in enumerate(frame.control)}
        parts = KeyframeParts({}, {}, control, activation, dict(zip(bodies, compose(pose, frame.mocap), strict=True)))
        for j, joint in enumerate(other.joint_names):
            q, v = (array[rows].copy() for array, rows in zip(frame[:2], other.joint_coordinates(joint), strict=True))
            if other.joint_type[j] == JointType.FREE:
                q, v[:3] = compose(pose, q), rotate(pose[3:], v[:3])
            parts.q[joint_start + j], parts.v[joint_start + j] = q, v
        b.keyframes[b._name("keyframe", prefix + name, list(b.keyframes))] = parts


def _append_constraints(
    b, other: Model, pose, prefix: str, first_body: int, joint_start: int, geom_start: int, site_start: int
) -> None:
    """Tendons and constraints; frames in the world are placed at `pose`."""
    tendon_start = len(b.tendons)
    joint_of_dof = {int(v): joint_start + j for j, v in enumerate(other.joint_v)}
    for t, name in enumerate(other.tendon_names):
        row, path = other.tendon_coefficients[t], path_of(other, t, geom_start, site_start)
        b.add_tendon(
            None if path else {joint_of_dof[int(d)]: row[d] for d in np.flatnonzero(row)},
            path=path,
            name=prefix + name,
            range=other.tendon_range[t] if other.tendon_limited[t] else None,
            stiffness=other.tendon_stiffness[t],
            damping=other.tendon_damping[t],
            friction=other.tendon_friction[t],
            reference=other.tendon_reference[t],
        )
    start = {ConstraintType.JOINT: joint_start, ConstraintType.TENDON: tendon_start}
    for c, name in enumerate(other.constraint_names):
        kind, time = ConstraintType(other.constraint_type[c]), other.constraint_dissipation_time[c]
        if kind in start:
            ends = [None if e < 0 else start[kind] + int(e) for e in other.constraint_joint[c]]
            geometry = {}
        else:
            ends = [-1 if e < 0 else first_body + int(e) for e in other.constraint_body[c]]
            frames = [compose(pose, p) if e < 0 else p for e, p in zip(ends, other.constraint_pose[c], strict=True)]
            geometry = {"pose_a": frames[0], "pose_b": frames[1]}
        b.add_constraint(
            kind,
            *ends,
            name=prefix + name,
            **geometry,
            **own_option(kind, other.constraint_coefficients[c]),
            stiffness=other.constraint_stiffness[c],
            dissipation_time=None if np.isnan(time) else time,
            active=other.constraint_active[c],
        )


def _append_geoms(b, other: Model, pose, prefix: str, first_body: int) -> None:
    fields = iter(other.hfields)
    for g, name in enumerate(other.geom_names):
        body = int(other.geom_body[g])
        mesh, limit = None, MAX_HULL_VERTICES
        if other.geom_mesh[g] >= 0:
            source = other.meshes[other.geom_mesh[g]]
            mesh, limit = (source.vertices, source.faces), source.max_hull_vertices
        time = other.geom_dissipation_time[g]
        b.add_geom(
            GeomType(other.geom_type[g]),
            other.geom_size[g],
            body=-1 if body < 0 else first_body + body,
            pose=compose(pose, other.geom_pose[g]) if body < 0 else other.geom_pose[g],
            name=prefix + name,
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
        )


def _append_pairs(b, other: Model, geom_start: int) -> None:
    for p in np.flatnonzero(other.pair_rule == FrictionRule.EXPLICIT):
        first, second = (geom_start + int(g) for g in other.pair_geom[p])
        b.add_pair(
            first,
            second,
            float(other.pair_friction[p]),
            condim=int(other.pair_condim[p]),
            torsional_friction=float(other.pair_torsional_friction[p]),
            rolling_friction=float(other.pair_rolling_friction[p]),
            margin=float(other.pair_margin[p]),
        )
