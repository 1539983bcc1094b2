"""From a `ModelBuilder`'s lists to a `Model`: numbering of links, trees and degrees of freedom, contact pairs, checks."""

import types

import numpy as np

from warpsim.errors import ModelError
from warpsim.model.geometry import IDENTITY, compose
from warpsim.model.model import JOINT_NQ, JOINT_NV, FrictionRule, GeomType, JointType, Keyframe, Model


def compile_model(b) -> Model:
    """Compile builder `b`. Raises `ModelError` naming what is wrong."""
    _check_bodies(b)
    if not (np.isfinite(b.timestep) and b.timestep > 0):
        raise ModelError(f"timestep is {b.timestep}; it must be positive and finite [s]")
    links = _number_links(b)
    joints = [b.joints[i] for i in links["joint_order"]]
    nv = sum(JOINT_NV[j.type] for j in joints)
    q0 = np.concatenate([j.q0 for j in joints]) if joints else np.zeros(0)
    pairs = _contact_pairs(b, links)
    order = {old: new for new, old in enumerate(links["joint_order"])}
    model = Model(
        name=b.name,
        timestep=float(b.timestep),
        gravity=b.gravity.copy(),
        q0=q0,
        body_names=tuple(x.name for x in b.bodies),
        body_parent=np.array([x.parent for x in b.bodies], dtype=np.int32),
        body_link=np.array(links["body_link"], dtype=np.int32),
        body_mass=np.array([x.mass for x in b.bodies], dtype=float),
        body_com=_stack([x.com for x in b.bodies], (3,)),
        body_inertia=_stack([x.inertia for x in b.bodies], (3, 3)),
        joint_names=tuple(j.name for j in joints),
        joint_type=np.array([j.type for j in joints], dtype=np.int32),
        joint_body=np.array([j.body for j in joints], dtype=np.int32),
        joint_link=np.array(links["joint_link"], dtype=np.int32),
        joint_q=np.array(links["joint_q"], dtype=np.int32),
        joint_v=np.array(links["joint_v"], dtype=np.int32),
        joint_pose=_stack(links["joint_pose"], (7,)),
        joint_anchor=_stack([j.anchor for j in joints], (3,)),
        joint_axis=_stack([j.axis for j in joints], (3,)),
        joint_limited=np.array([j.limited for j in joints], dtype=bool),
        joint_range=_stack([j.range for j in joints], (2,)),
        **{
            f"joint_{key}": np.concatenate([getattr(j, key) for j in joints]) if nv else np.zeros(0)
            for key in ("stiffness", "damping", "armature", "friction", "reference")
        },
        **links["arrays"],
        geom_names=tuple(g.name for g in b.geoms),
        geom_type=np.array([g.type for g in b.geoms], dtype=np.int32),
        geom_body=np.array([g.body for g in b.geoms], dtype=np.int32),
        geom_size=_stack([g.size for g in b.geoms], (3,)),
        geom_pose=_stack([g.pose for g in b.geoms], (7,)),
        geom_friction=np.array([g.friction for g in b.geoms], dtype=float),
        geom_stiffness=np.array([g.stiffness for g in b.geoms], dtype=float),
        geom_dissipation_time=np.array([g.dissipation_time for g in b.geoms], dtype=float),
        geom_restitution=np.array([g.restitution for g in b.geoms], dtype=float),
        **{
            f"geom_{key}": np.array([getattr(g, key) for g in b.geoms], dtype=np.int32)
            for key in ("contype", "conaffinity", "condim", "priority")
        },
        geom_rgba=_stack([g.rgba for g in b.geoms], (4,)),
        geom_mesh=np.array([g.mesh for g in b.geoms], dtype=np.int32),
        geom_visible=np.array([g.visible for g in b.geoms], dtype=bool),
        meshes=tuple(b.meshes),
        **pairs,
        excluded=np.array(sorted(b.excluded), dtype=np.int32).reshape(-1, 2),
        friction_rule=int(b.friction_rule),
        filter_parent=bool(b.filter_parent),
        actuator_names=tuple(a.name for a in b.actuators),
        actuator_joint=np.array([order[a.joint] for a in b.actuators], dtype=np.int32),
        actuator_gear=_stack([a.gear for a in b.actuators], (6,)),
        actuator_gain=_stack([a.gain for a in b.actuators], (3,)),
        actuator_bias=_stack([a.bias for a in b.actuators], (3,)),
        control_range=_stack([a.control_range for a in b.actuators], (2,)),
        force_range=_stack([a.force_range for a in b.actuators], (2,)),
        keyframes=types.MappingProxyType(_keyframes(b, q0, nv)),
        report=tuple(b.report),
    )
    _check_inertia(model)
    return model


def _stack(rows, shape) -> np.ndarray:
    return np.array(rows, dtype=float).reshape((len(rows), *shape))


def _number_links(b) -> dict:
    """Number links depth first, so that trees are contiguous; the joints take the order of their links."""
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
    last_dof: list[int] = []  # per link: the last degree of freedom on the path from the root to it
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


def _contact_pairs(b, links) -> dict:
    """All pairs of geoms that may touch, after the masks and filters (MuJoCo's rules), in a fixed order."""
    weld = _weld_groups(b)
    weld_parent = {group: weld[b.bodies[group].parent] if group >= 0 else -1 for group in set(weld.values())}
    moving = _moving_bodies(b)
    rows = []
    explicit = {(min(p[:2]), max(p[:2])): p[2] for p in b.explicit_pairs}
    for i, first in enumerate(b.geoms):
        for j in range(i + 1, len(b.geoms)):
            second = b.geoms[j]
            if (i, j) in explicit:
                rows.append(_ordered_pair(b, i, j, FrictionRule.EXPLICIT, explicit[i, j]))
                continue
            if not (first.contype & second.conaffinity or second.contype & first.conaffinity):
                continue
            wa, wb = weld[first.body], weld[second.body]
            if wa == wb or not (moving[first.body] or moving[second.body]):
                continue
            parented = wa != -1 and wb != -1 and (weld_parent[wa] == wb or weld_parent[wb] == wa)
            if b.filter_parent and parented:
                continue
            if (min(first.body, second.body), max(first.body, second.body)) in b.excluded:
                continue
            if first.type == GeomType.PLANE and second.type == GeomType.PLANE:
                continue
            rows.append(_ordered_pair(b, i, j, _friction_rule(b, first, second), 0.0))
    return {
        "pair_geom": np.array([r[0] for r in rows], dtype=np.int32).reshape(-1, 2),
        "pair_rule": np.array([r[1] for r in rows], dtype=np.int32),
        "pair_friction": np.array([r[2] for r in rows], dtype=float),
    }


def _weld_groups(b) -> dict[int, int]:
    """The first body of each rigid group: bodies without joints belong to their parent's group; -1 is the world."""
    jointed = {j.body for j in b.joints}
    weld = {-1: -1}

    def group(body: int) -> int:
        path = []
        while body not in weld and body not in jointed:
            path.append(body)
            body = b.bodies[body].parent
        result = weld.get(body, body)
        for member in (*path, body):
            weld[member] = result
        return result

    for index in range(len(b.bodies)):
        group(index)
    return weld


def _moving_bodies(b) -> dict[int, bool]:
    jointed = {j.body for j in b.joints}
    moving = {-1: False}
    for start in range(len(b.bodies)):
        path, body = [], start
        while body not in moving and body not in jointed:
            path.append(body)
            body = b.bodies[body].parent
        result = moving.get(body, True)
        moving.update(dict.fromkeys([*path, body], result))
    return moving


def _friction_rule(b, first, second) -> FrictionRule:
    """The rule for geoms in the order (first, second); `_ordered_pair` swaps it with them."""
    if first.priority != second.priority:
        winner = first if first.priority > second.priority else second
        condim = winner.condim
        rule = FrictionRule.FIRST if winner is first else FrictionRule.SECOND
    else:
        condim = max(first.condim, second.condim)
        rule = b.friction_rule
    return FrictionRule.FRICTIONLESS if condim == 1 else rule


def _ordered_pair(b, i: int, j: int, rule: FrictionRule, friction: float):
    if b.geoms[i].type > b.geoms[j].type:
        swap = {FrictionRule.FIRST: FrictionRule.SECOND, FrictionRule.SECOND: FrictionRule.FIRST}
        return (j, i), swap.get(rule, rule), friction
    return (i, j), rule, friction


def _keyframes(b, q0, nv) -> dict[str, Keyframe]:
    frames = {}
    sizes = (("q", len(q0), q0), ("v", nv, np.zeros(nv)), ("control", len(b.actuators), np.zeros(len(b.actuators))))
    for name, frame in b.keyframes.items():
        values = []
        for (key, size, default), value in zip(sizes, frame, strict=True):
            array = default.copy() if value is None else np.asarray(value, float)
            if array.shape != (size,) or not np.isfinite(array).all():
                raise ModelError(f"keyframe {name!r}: {key} must be ({size},) finite values, got shape {array.shape}")
            values.append(array)
        frames[name] = Keyframe(*values)
    return frames


def _check_bodies(b) -> None:
    for body in b.bodies:
        moments = np.linalg.eigvalsh(body.inertia)
        if moments[0] + moments[1] < moments[2] * (1 - 1e-6) - 1e-15:
            raise ModelError(
                f"body {body.name!r}: principal moments {moments.tolist()} break the triangle inequality, so no mass "
                "distribution has them; check the inertia"
            )


def _check_inertia(model: Model) -> None:
    """Every degree of freedom must move some inertia, or the mass matrix is singular."""
    mass = np.zeros(model.nlink)
    moment = np.zeros(model.nlink)
    np.add.at(mass, model.body_link, model.body_mass)
    np.add.at(moment, model.body_link, np.trace(model.body_inertia, axis1=1, axis2=2))
    for link in range(model.nlink - 1, 0, -1):
        parent = model.link_parent[link]
        if parent >= 0:
            mass[parent] += mass[link]
            moment[parent] += moment[link]
    for j, name in enumerate(model.joint_names):
        link, kind = model.joint_link[j], JointType(model.joint_type[j])
        dofs = slice(model.joint_v[j], model.joint_v[j] + JOINT_NV[kind])
        if (model.joint_armature[dofs] > 0).all() or (mass[link] > 0 and (kind == JointType.SLIDE or moment[link] > 0)):
            continue
        if mass[link] > 0 and kind == JointType.HINGE:
            continue
        body = model.body_names[model.joint_body[j]]
        raise ModelError(
            f"joint {name!r} moves body {body!r} with mass {mass[link]:g} and no rotational inertia below it, so its "
            "mass matrix is singular; give the body a mass and a positive definite inertia, or the joint an armature"
        )


def append_model(b, other: Model, pose: np.ndarray, prefix: str) -> list[int]:
    """Add the elements of `other` to builder `b`; root bodies and world geoms are placed at `pose`."""
    first = len(b.bodies)
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
        )
    joint_start = len(b.joints)
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
            reference=other.joint_reference[dofs],
            q0=compose(pose, q0) if kind == JointType.FREE else q0,
        )
    geom_start = len(b.geoms)
    _append_geoms(b, other, pose, prefix, first)
    _append_pairs(b, other, geom_start)
    for body_a, body_b in other.excluded:
        b.excluded.add(tuple(-1 if x < 0 else first + int(x) for x in (body_a, body_b)))
    for a, name in enumerate(other.actuator_names):
        b.add_actuator(
            joint_start + int(other.actuator_joint[a]),
            "affine",
            name=prefix + name,
            gear=other.actuator_gear[a],
            gain=other.actuator_gain[a],
            bias=other.actuator_bias[a],
            control_range=other.control_range[a],
            force_range=other.force_range[a],
        )
    return list(range(first, len(b.bodies)))


def _append_geoms(b, other: Model, pose, prefix: str, first_body: int) -> None:
    for g, name in enumerate(other.geom_names):
        body = int(other.geom_body[g])
        mesh = None
        if other.geom_mesh[g] >= 0:
            source = other.meshes[other.geom_mesh[g]]
            mesh = (source.vertices, source.faces)
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
            contype=other.geom_contype[g],
            conaffinity=other.geom_conaffinity[g],
            condim=other.geom_condim[g],
            priority=other.geom_priority[g],
            rgba=other.geom_rgba[g],
            mesh=mesh,
            visible=other.geom_visible[g],
        )


def _append_pairs(b, other: Model, geom_start: int) -> None:
    for (first, second), rule, friction in zip(other.pair_geom, other.pair_rule, other.pair_friction, strict=True):
        if rule == FrictionRule.EXPLICIT:
            b.add_pair(geom_start + int(first), geom_start + int(second), float(friction))
