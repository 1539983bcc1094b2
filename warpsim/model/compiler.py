# SPDX-License-Identifier: Apache-2.0
"""Compile a `ModelBuilder`'s lists into a `Model`: numbering of links, trees and dofs, contact pairs, checks."""

import collections
import types

import numpy as np

from warpsim.base.checks import numbers
from warpsim.base.errors import ModelError
from warpsim.model import hydroelastic, medium
from warpsim.model.columns import columns
from warpsim.model.constraints import compile_constraints, compile_tendons
from warpsim.model.friction_rules import pair_rules
from warpsim.model.geometry import IDENTITY, axis_angle, compose, rotate, rotation_matrix, spatial_inertia
from warpsim.model.looks import compile_looks
from warpsim.model.model import (
    JOINT_NQ,
    JOINT_NV,
    FrictionRule,
    GeomType,
    JointType,
    Keyframe,
    Model,
)
from warpsim.model.mujoco_options import pair_fields
from warpsim.model.sensor_records import compile_sensors
from warpsim.model.targets import compile_targets

# articulated over composite inertia; below this ratio a degree of freedom moves no inertia beyond rounding
SINGULAR = 1e-12


def compile_model(b) -> Model:
    """Compile builder `b`. Raises `ModelError` naming what is wrong."""
    _check_bodies(b)
    _check_planes(b)
    _check_mocap(b)
    links = number_links(b)
    joints = [b.joints[i] for i in links["joint_order"]]
    nv = sum(JOINT_NV[j.type] for j in joints)
    q0 = np.concatenate([j.q0 for j in joints]) if joints else np.zeros(0)
    soft = _stack([g.hydroelastic for g in b.geoms], (4,))
    pairs, point_pairs = hydroelastic.sort_pairs(soft, _contact_pairs(b))
    own, laws = _own_laws(b, pairs["pair_geom"])
    order = {old: new for new, old in enumerate(links["joint_order"])}
    model = Model(
        name=b.name,
        timestep=float(b.timestep),
        gravity=b.gravity.copy(),
        q0=q0,
        **_compile_bodies(b, links),
        joint_names=tuple(j.name for j in joints),
        **columns("joint", joints),
        joint_link=np.array(links["joint_link"], dtype=np.int32),
        joint_q=np.array(links["joint_q"], dtype=np.int32),
        joint_v=np.array(links["joint_v"], dtype=np.int32),
        joint_pose=_stack(links["joint_pose"], (7,)),
        **{
            f"joint_{key}": np.concatenate([getattr(j, key) for j in joints]) if nv else np.zeros(0)
            for key in ("stiffness", "damping", "armature", "friction", "reference")
        },
        **{
            f"joint_friction_{key}": _stack(
                [x for j in joints for x in np.broadcast_to(getattr(j, f"friction_{key}"), (JOINT_NV[j.type], size))],
                (size,),
            )
            for key, size in (("solref", 2), ("solimp", 5))
        },
        mujoco=b.mujoco,
        **pair_fields(own, laws),
        **links["arrays"],
        geom_names=tuple(g.name for g in b.geoms),
        **columns("geom", b.geoms),
        **compile_looks(b.geoms),
        meshes=tuple(b.meshes),
        hfields=tuple(b.hfields),
        fields=tuple(b.fields),
        point_pairs=point_pairs,
        **medium.medium_of(b.density, b.viscosity, b.wind),
        site_names=tuple(s.name for s in b.sites),
        **columns("site", b.sites),
        camera_names=tuple(c.name for c in b.cameras),
        **columns("camera", b.cameras),
        **compile_sensors(b, order),
        **pairs,
        excluded=np.array(sorted(b.excluded), dtype=np.int32).reshape(-1, 2),
        friction_rule=int(b.friction_rule),
        filter_parent=bool(b.filter_parent),
        **compile_tendons(b, b.joints, dict(zip(links["joint_order"], links["joint_v"], strict=True)), nv),
        **compile_constraints(b, order),
        **compile_targets(b, order),
        actuator_names=tuple(a.name for a in b.actuators),
        **columns("actuator", b.actuators),
        **_effort_limits(b, joints, order),
        keyframes=types.MappingProxyType(_keyframes(b, joints, order, q0)),
        report=(
            *b.report,
            *hydroelastic.report_lines(soft, pairs["pair_geom"], pairs["pair_margin"], [g.name for g in b.geoms]),
        ),
    )
    _check_inertia(model)
    return model


def _compile_bodies(b, links: dict) -> dict:
    boxes = ([getattr(x, key) for x in b.bodies] for key in ("mass", "inertia", "axes"))
    return columns("body", b.bodies) | {
        "body_names": tuple(x.name for x in b.bodies),
        "body_link": np.array(links["body_link"], dtype=np.int32),
        "body_mocap": _numbered([x.mocap for x in b.bodies]),
        "body_fluid": medium.body_boxes(*boxes),
    }


def _numbered(chosen) -> np.ndarray:
    """Consecutive numbers from 0 for the chosen elements, -1 for the others."""
    chosen = np.array(chosen, dtype=bool)
    return np.where(chosen, np.cumsum(chosen) - 1, -1).astype(np.int32)


def _stack(rows, shape) -> np.ndarray:
    return np.array(rows, dtype=float).reshape((len(rows), *shape))


def number_links(b) -> dict:
    """Number links depth first, so that each tree is contiguous. Joints take the order of their links."""
    children: dict[int, list[int]] = {}
    for index, body in enumerate(b.bodies):
        children.setdefault(body.parent, []).append(index)
    body_joints: dict[int, list[int]] = {}
    for index, joint in enumerate(b.joints):
        body_joints.setdefault(joint.body, []).append(index)

    out = {key: [] for key in ("joint_order", "joint_link", "joint_q", "joint_v", "joint_pose")}
    fields = ("link_type", "link_parent", "link_joint", "link_body", "link_pose", "link_q", "link_v", "link_tree")
    link: dict[str, list] = {key: [] for key in fields}
    body_link = [-1] * len(b.bodies)
    tree_link, tree_v, tree_reference, dof_parent, dof_link = [], [], [], [], []
    last_dof: list[int] = []  # per link: the last degree of freedom on the path from the root to the link
    nq = nv = 0

    stack = [(body, -1) for body in reversed(children.get(-1, []))]
    while stack:
        index, parent = stack.pop()
        body = b.bodies[index]
        if parent < 0:
            tree_link.append(len(link["link_type"]))
            tree_v.append(nv)
            tree_reference.append(-1)
        for position, joint_index in enumerate(body_joints.get(index, [None])):
            joint = None if joint_index is None else b.joints[joint_index]
            kind = JointType.FIXED if joint is None else joint.type
            pose = body.pose if position == 0 else IDENTITY
            if kind == JointType.FREE:
                pose = IDENTITY
            this = len(link["link_type"])
            dof_before = last_dof[parent] if parent >= 0 else -1
            values = (kind, parent, len(out["joint_order"]) if joint else -1, index, pose, nq, nv, len(tree_link) - 1)
            for key, value in zip(fields, values, strict=True):
                link[key].append(value)
            if joint is not None:
                out["joint_order"].append(joint_index)
                out["joint_link"].append(this)
                out["joint_q"].append(nq)
                out["joint_v"].append(nv)
                offset = np.concatenate([joint.anchor, IDENTITY[3:]])
                out["joint_pose"].append(compose(pose, offset))
            for k in range(JOINT_NV[kind]):
                dof_parent.append(dof_before if k == 0 else nv + k - 1)
                dof_link.append(this)
            last_dof.append(nv + JOINT_NV[kind] - 1 if JOINT_NV[kind] else dof_before)
            nq, nv, parent = nq + JOINT_NQ[kind], nv + JOINT_NV[kind], this
        body_link[index] = parent
        if tree_reference[-1] < 0:
            tree_reference[-1] = parent
        stack.extend((child, parent) for child in reversed(children.get(index, [])))

    arrays = {key: np.array(link[key], dtype=np.int32) for key in fields if key != "link_pose"}
    arrays["link_pose"] = _stack(link["link_pose"], (7,))
    arrays["tree_link"] = np.array([*tree_link, len(link["link_type"])], dtype=np.int32)
    arrays["tree_v"] = np.array([*tree_v, nv], dtype=np.int32)
    arrays["tree_reference"] = np.array(tree_reference, dtype=np.int32)
    arrays["dof_parent"] = np.array(dof_parent, dtype=np.int32)
    arrays["dof_link"] = np.array(dof_link, dtype=np.int32)
    return out | {"body_link": body_link, "arrays": arrays}


def _contact_pairs(b) -> dict:
    """All pairs of geoms that may touch after the masks and filters (MuJoCo's rules), in a fixed order."""
    weld, moving = _weld_groups(b)
    columns = ("body", "type", "contype", "conaffinity", "priority", "condim")
    body, kind, contype, conaffinity, priority, condim = (
        np.array([getattr(g, key) for g in b.geoms], np.int64) for key in columns
    )
    margin = np.array([g.margin for g in b.geoms], float)
    group = np.array([weld[g.body] for g in b.geoms], np.int64)
    above = np.array([weld[b.bodies[k].parent] if k >= 0 else -1 for k in group.tolist()], np.int64)
    moves = np.array([moving[g.body] for g in b.geoms], bool)
    flat = np.isin(kind, (int(GeomType.PLANE), int(GeomType.HFIELD)))  # never touch each other
    excluded = np.unique(np.array([_body_key(b, *pair) for pair in b.excluded], np.int64))
    explicit, named = {pair[:2]: pair[2:] for pair in b.explicit_pairs}, collections.defaultdict(list)
    for i, j in explicit:
        named[i].append(j)
    pairs, rules, own = [np.empty((0, 2), int)], [np.empty(0, int)], [np.empty((0, 5))]
    for i in range(len(b.geoms)):
        j = np.arange(i + 1, len(b.geoms))
        touch = (contype[i] & conaffinity[j] | contype[j] & conaffinity[i]) != 0
        touch &= group[j] != group[i]
        if b.filter_parent and group[i] != -1:
            touch &= (group[j] == -1) | ((above[i] != group[j]) & (above[j] != group[i]))
        if len(excluded):
            key = _body_key(b, np.minimum(body[i], body[j]), np.maximum(body[i], body[j]))
            touch &= excluded[np.minimum(np.searchsorted(excluded, key), len(excluded) - 1)] != key
        chosen = np.isin(j, named[i])
        j, chosen = j[touch | chosen], chosen[touch | chosen]
        able = (moves[i] | moves[j]) & ~(flat[i] & flat[j])
        j, chosen = j[able], chosen[able]
        swapped = kind[i] > kind[j]
        rule, dims = pair_rules(b.friction_rule, priority, condim, i, j, swapped)
        table = np.zeros((len(j), 5))  # friction, condim, torsional and rolling friction, margin
        table[:, 1], table[:, 4] = dims, margin[i] + margin[j]
        for row in np.flatnonzero(chosen):
            table[row] = explicit[i, int(j[row])][:5]
        pairs.append(np.stack([np.where(swapped, j, i), np.where(swapped, i, j)], axis=1))
        rules.append(np.where(chosen, int(FrictionRule.EXPLICIT), rule))
        own.append(table)
    friction, condim, torsional, rolling, margins = np.concatenate(own).T
    return {
        "pair_geom": np.concatenate(pairs).astype(np.int32),
        "pair_rule": np.concatenate(rules).astype(np.int32),
        "pair_friction": friction.copy(),
        "pair_condim": condim.astype(np.int32),
        "pair_torsional_friction": torsional.copy(),
        "pair_rolling_friction": rolling.copy(),
        "pair_margin": margins.copy(),
    }


def _own_laws(b, pairs: np.ndarray) -> tuple[list[int], list[list[float]]]:
    """The first own law of each pair, -1: none; and the laws, in the order of the pairs."""
    own, laws = np.full(len(pairs), -1), []
    given = {pair[:2]: pair[7:] for pair in b.explicit_pairs if len(pair) > 7}
    place = {tuple(sorted(pair)): p for p, pair in enumerate(pairs.tolist())} if given else {}
    for p, rows in sorted((place[geoms], rows) for geoms, rows in given.items() if geoms in place):
        own[p] = len(laws)
        laws += rows
    return own, laws


def _body_key(b, first, second):
    """One integer key for a pair of bodies; −1 is the world."""
    return (first + 1) * (len(b.bodies) + 1) + second + 1


def _weld_groups(b) -> tuple[dict[int, int], dict[int, bool]]:
    """The first body of each body's rigid group, and whether a joint moves the group; -1 is the world.

    Bodies without joints belong to their parent's group. A body with a joint, or a mocap body, begins its own group.
    """
    jointed = {j.body for j in b.joints}
    weld, moving = {-1: -1}, {-1: False}
    for i, body in enumerate(b.bodies):  # parents come before children
        weld[i] = i if i in jointed or body.mocap else weld[body.parent]
        moving[i] = i in jointed or moving[body.parent]
    return weld, moving


def _keyframes(b, joints, order, q0) -> dict[str, Keyframe]:
    nq = np.cumsum([0, *(JOINT_NQ[j.type] for j in joints)])
    nv = np.cumsum([0, *(JOINT_NV[j.type] for j in joints)])
    stateful = [i for i, a in enumerate(b.actuators) if a.dynamics]
    mocap = [i for i, body in enumerate(b.bodies) if body.mocap]
    defaults = {
        "q": q0,
        "v": np.zeros(nv[-1]),
        "control": np.zeros(len(b.actuators)),
        "activation": np.array([np.clip(0.0, *b.actuators[i].activation_range) for i in stateful]),
        "mocap": _stack([b.bodies[i].pose for i in mocap], (7,)),
    }
    frames = {}
    for name, frame in b.keyframes.items():
        values = {key: default.copy() for key, default in defaults.items()}
        if isinstance(frame, Keyframe):
            for key, value in zip(values, frame, strict=True):
                label = f"keyframe {name!r}: {key}"
                values[key] = values[key] if value is None else numbers(value, label, ModelError).copy()
                if values[key].shape != defaults[key].shape or not np.isfinite(values[key]).all():
                    wanted, found = defaults[key].shape, values[key].shape
                    raise ModelError(f"keyframe {name!r}: {key} must be {wanted} finite values, got shape {found}")
        else:
            for key, starts, part in (("q", nq, frame.q), ("v", nv, frame.v)):
                for joint, value in part.items():
                    values[key][starts[order[joint]] : starts[order[joint] + 1]] = value
            for actuator, value in frame.control.items():
                values["control"][actuator] = value
            for actuator, value in frame.activation.items():
                values["activation"][stateful.index(actuator)] = value
            for body, value in frame.mocap.items():
                values["mocap"][mocap.index(body)] = value
        _check_activation(b, stateful, values["activation"], f"keyframe {name!r}")
        turning = [k for k, joint in enumerate(joints) if joint.type in (JointType.FREE, JointType.BALL)]
        quaternions = [(f"joint {joints[k].name!r}", values["q"][nq[k + 1] - 4 : nq[k + 1]]) for k in turning]
        quaternions += [
            (f"mocap body {b.bodies[i].name!r}", row[3:]) for i, row in zip(mocap, values["mocap"], strict=True)
        ]
        for owner, quaternion in quaternions:
            length = np.linalg.norm(quaternion)
            if length < 1e-8:
                raise ModelError(f"keyframe {name!r}: the quaternion of {owner} must not be zero")
            quaternion /= length
        frames[name] = Keyframe(**values)
    return frames


def _check_mocap(b) -> None:
    jointed = {j.body: j.name for j in b.joints}
    for index, body in enumerate(b.bodies):
        if body.mocap and index in jointed:
            raise ModelError(
                f"body {body.name!r} is a mocap body and has joint {jointed[index]!r}; its pose is given, so leave out "
                "the joint, or mocap=True"
            )
        if body.mocap and body.parent >= 0:
            raise ModelError(
                f"body {body.name!r} is a mocap body and hangs on {b.bodies[body.parent].name!r}; a mocap body must "
                "be a "
                "child of the world"
            )


def _effort_limits(b, joints, order) -> dict[str, np.ndarray]:
    """The effort limits of joints and tendons; joints in the model's order."""
    found = {
        "joint_effort_range": np.tile([-np.inf, np.inf], (len(joints), 1)),
        "joint_effort_gravity": np.zeros(len(joints), bool),
        "tendon_effort_range": np.tile([-np.inf, np.inf], (len(b.tendons), 1)),
    }
    for limit in b.effort_limits:
        if limit.joint < 0:
            found["tendon_effort_range"][limit.tendon] = limit.range
        else:
            found["joint_effort_range"][order[limit.joint]] = limit.range
            found["joint_effort_gravity"][order[limit.joint]] = limit.gravity
    return found


def _check_activation(b, stateful: list[int], values: np.ndarray, label: str) -> None:
    """Check that activations lie within the ranges of their actuators."""
    for i, value in zip(stateful, values, strict=True):
        low, high = b.actuators[i].activation_range
        if not low <= value <= high:
            raise ModelError(
                f"{label}: the activation of actuator {b.actuators[i].name!r} is {value:g}; its range is {low:g} to "
                f"{high:g}"
            )


def _check_bodies(b) -> None:
    for body in b.bodies:
        moments = np.linalg.eigvalsh(body.inertia)
        if moments[0] + moments[1] < moments[2] * (1 - 1e-6) - 1e-15:
            raise ModelError(
                f"body {body.name!r}: principal moments {moments.tolist()} break the triangle inequality, so no mass "
                "distribution has them; check the inertia"
            )


def _check_planes(b) -> None:
    _, moving = _weld_groups(b)
    for geom in b.geoms:
        if geom.type == GeomType.PLANE and moving[geom.body] and (geom.contype or geom.conaffinity):
            raise ModelError(
                f"geom {geom.name!r}: a plane that touches must belong to the world or to a body fixed to it, but body "
                f"{b.bodies[geom.body].name!r} moves; use a box, or set contype and conaffinity to 0"
            )


def _check_inertia(model: Model) -> None:
    """Check that every degree of freedom moves some inertia, without which the mass matrix is singular.

    One articulated-body pass (Featherstone, ch. 7) in a generic pose: with s the motion of a degree of freedom and I
    the articulated inertia, D = s.I s + armature must stand above rounding of the composite inertia.
    """
    origin, motion = _generic_motions(model)
    articulated = np.zeros((model.nlink, 6, 6))
    for body, link in enumerate(model.body_link):
        articulated[link] += _spatial_inertia(model, body, origin[link])
    composite = articulated.copy()
    for link in range(model.nlink - 1, -1, -1):
        first = model.link_v[link]
        dofs = range(first, first + JOINT_NV[JointType(model.link_type[link])])
        for dof in reversed(dofs):
            s = motion[dof]
            force = articulated[link] @ s
            inertia = s @ force + model.joint_armature[dof]
            turning = s[:3].any()
            scale = _trace_about(composite[link], origin[link][:3]) if turning else composite[link][5, 5]
            if inertia <= SINGULAR * scale or inertia <= 0:
                raise ModelError(_singular(model, link, composite[link][5, 5]))
            articulated[link] -= np.outer(force, force) / inertia
        parent = model.link_parent[link]
        if parent >= 0:
            articulated[parent] += articulated[link]
            composite[parent] += composite[link]


def _singular(model: Model, link: int, mass: float) -> str:
    j = model.link_joint[link]
    body = model.body_names[model.joint_body[j]]
    return (
        f"joint {model.joint_names[j]!r} has a direction in which it moves no inertia (body {body!r}, {mass:g} kg from "
        "there on), so the mass matrix is singular; give the body a mass and a positive definite inertia, or the joint "
        "an armature"
    )


def _generic_motions(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Generic link poses `(nlink, 7)` within their tree, and the dofs' motions `(nv, 6)` (angular, linear) there."""
    pose, motion = np.zeros((model.nlink, 7)), np.zeros((model.nv, 6))
    for link in range(model.nlink):
        parent, j, kind = model.link_parent[link], model.link_joint[link], JointType(model.link_type[link])
        before = IDENTITY if parent < 0 else pose[parent]
        local = model.link_pose[link] if j < 0 else model.joint_pose[j]
        if parent < 0:  # the tree's root is at the origin, where rounding is least
            local = np.concatenate([np.zeros(3), local[3:]])
        frame = compose(before, local)
        if j < 0:
            pose[link] = frame
            continue
        axis, offset = model.joint_axis[j], 0.3 + 0.1 * (link % 7)
        step = IDENTITY.copy()
        if kind == JointType.HINGE:
            step[3:] = axis_angle(axis, offset)
        elif kind == JointType.SLIDE:
            step[:3] = offset * axis
        frame = compose(frame, step)
        axes = axis[None] if kind in (JointType.HINGE, JointType.SLIDE) else np.eye(3)
        axes = rotate(frame[3:], axes)
        first = model.link_v[link]
        if kind == JointType.FREE:
            motion[first : first + 3, 3:] = np.eye(3)
            first += 3
        rows = slice(first, first + len(axes))
        if kind == JointType.SLIDE:
            motion[rows, 3:] = axes
        else:
            motion[rows, :3], motion[rows, 3:] = axes, np.cross(frame[:3], axes)
        pose[link] = compose(frame, np.concatenate([-model.joint_anchor[j], IDENTITY[3:]]))
    return pose, motion


def _spatial_inertia(model: Model, body: int, pose) -> np.ndarray:
    """Inertia `(6, 6)` (angular, linear) of a body at `pose`, about the origin."""
    rotation = rotation_matrix(pose[3:])
    com = pose[:3] + rotation @ model.body_com[body]
    return spatial_inertia(model.body_mass[body], com, rotation @ model.body_inertia[body] @ rotation.T)


def _trace_about(inertia: np.ndarray, point: np.ndarray) -> float:
    motions = np.concatenate([np.eye(3), np.cross(point, np.eye(3))], axis=1)
    return float(np.einsum("ij,jk,ik->", motions, inertia, motions))
