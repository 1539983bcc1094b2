# SPDX-License-Identifier: Apache-2.0
"""Each element of a `Model` as the arguments of the `ModelBuilder.add_*` that makes it again, in the model's indices.

`add_model` uses them to append a model; our own file formats store them.
"""

import numpy as np

from warpsim.model.actuators import EffortLimit, state_options
from warpsim.model.constraint_types import BODY_CONSTRAINTS, ConstraintType, own_option
from warpsim.model.model import JOINT_NQ, JOINT_NV, FrictionRule, GeomType, JointType, Model
from warpsim.model.mujoco_options import DEFAULTS, add_laws, given_law, own_laws
from warpsim.model.targets import target_of
from warpsim.model.tendon_paths import path_of

GEOM = ("friction", "stiffness", "dissipation_time", "restitution", "hertz_modulus", "contype", "conaffinity")
GEOM += ("condim", "priority", "torsional_friction", "rolling_friction", "margin")
GEOM += ("friction_dynamic", "friction_velocity")
OPTIONAL = ("dissipation_time", "friction_dynamic", "friction_velocity")  # arguments of a geom, NaN where not given
LAW = ("condim", "torsional_friction", "rolling_friction", "margin")  # arguments of a pair, after its friction


def first_link(model: Model, body: int) -> int:
    """The first of a body's links, which hangs on the parent body."""
    link = int(model.body_link[body])
    while model.link_parent[link] >= 0 and model.link_body[model.link_parent[link]] == body:
        link = int(model.link_parent[link])
    return link


def body_pose(model: Model, body: int) -> np.ndarray:
    """Pose (7,) of a body in its parent at q0; for a free body, in the world."""
    link = first_link(model, body)
    q = int(model.link_q[link])
    return model.q0[q : q + 7] if model.link_type[link] == JointType.FREE else model.link_pose[link]


def body_arguments(model: Model, body: int) -> dict:
    """Arguments of `add_body`, except the name."""
    return {
        "parent": int(model.body_parent[body]),
        "pose": body_pose(model, body),
        **_columns(model, "body", body, ("mass", "com", "inertia", "gravcomp")),
        "mocap": bool(model.body_mocap[body] >= 0),
    }


def joint_arguments(model: Model, j: int) -> dict:
    """Arguments of `add_joint`, except the body."""
    kind, (q, v) = JointType(model.joint_type[j]), (int(model.joint_q[j]), int(model.joint_v[j]))
    dofs = slice(v, v + JOINT_NV[kind])
    return {
        "type": kind.name.lower(),
        "name": model.joint_names[j],
        **_columns(model, "joint", j, ("axis", "anchor")),
        "range": model.joint_range[j] if model.joint_limited[j] else None,
        **_columns(model, "joint", dofs, ("stiffness", "damping", "armature", "friction", "reference")),
        "q0": model.q0[q : q + JOINT_NQ[kind]],
        **given_law(model, "joint", j),
        **given_law(model, "joint_friction", dofs, "friction_"),
    }


def geom_arguments(model: Model, geom: int) -> dict:
    """Arguments of `add_geom`, except name, body, mesh, height field, pressure field and material."""
    found = {
        "type": GeomType(model.geom_type[geom]).name.lower(),
        **_columns(model, "geom", geom, (*GEOM, "size", "pose", "rgba")),
        "visible": bool(model.geom_visible[geom]),
        **given_law(model, "geom", geom),
    }
    if model.geom_mesh[geom] >= 0:
        found["max_hull_vertices"] = model.meshes[model.geom_mesh[geom]].max_hull_vertices
    if model.geom_fluid[geom, 0] > 0:
        found["fluid"] = model.geom_fluid[geom]
    return found | {key: given_time(found[key]) for key in OPTIONAL}


def given_time(time) -> float | None:
    """One of the `OPTIONAL` values as `add_*` takes it: None (the default) where the stored value is NaN or missing."""
    return None if time is None or np.isnan(time) else time


def pair_rows(model: Model) -> list[list]:
    """For each explicit pair its geoms, its friction, its `LAW` values and its own laws (rows of `PAIR_LAW`)."""
    columns = [getattr(model, f"pair_{key}") for key in ("friction", *LAW)]
    rows = np.flatnonzero(model.pair_rule == FrictionRule.EXPLICIT)
    found: dict[tuple, list] = {}
    laws = own_laws(model)
    for p in rows:
        geoms, values = tuple(model.pair_geom[p].tolist()), [column[p].item() for column in columns]
        before = found.get(geoms, [*geoms, *values])  # of separate pairs of the same geoms, the largest friction
        values = list(map(max, before[2 : 2 + len(values)], values))
        found[geoms] = [*geoms, *values, *before[2 + len(values) :], *laws.get(p, [])]
    return list(found.values())


def add_pairs(b, rows) -> None:
    """Add explicit pairs to a builder, by indices or names of geoms; trailing values of a row may be missing."""
    for first, second, friction, *law in rows:
        b.add_pair(first, second, friction, **dict(zip(LAW, law, strict=False)))
        add_laws(b, law[len(LAW) :])


def effort_limits(model: Model) -> list[EffortLimit]:
    """The effort limits of joints, then of tendons."""
    joints, tendons = model.joint_effort_range, model.tendon_effort_range
    of_joints = np.flatnonzero(np.isfinite(joints).any(1)).tolist()
    found = [EffortLimit(j, -1, joints[j], bool(model.joint_effort_gravity[j])) for j in of_joints]
    return found + [EffortLimit(-1, t, tendons[t], False) for t in np.flatnonzero(np.isfinite(tendons).any(1)).tolist()]


def site_arguments(model: Model, s: int) -> dict:
    """Arguments of `add_site`."""
    where = {"name": model.site_names[s], "body": int(model.site_body[s])}
    kind = GeomType(model.site_type[s]).name.lower()
    return where | {"type": kind} | _columns(model, "site", s, ("pose", "size", "rgba"))


def camera_arguments(model: Model, c: int) -> dict:
    """Arguments of `add_camera`."""
    where = {"name": model.camera_names[c], "body": int(model.camera_body[c])}
    return where | _columns(model, "camera", c, ("pose", "fovy", "resolution"))


def tendon_arguments(model: Model, t: int, geom: int = 0, site: int = 0) -> dict:
    """Arguments of `add_tendon`; indices of geoms and sites are offset by `geom` and `site`."""
    path = path_of(model, t, geom, site)
    row = model.tendon_coefficients[t]
    joints = {int(np.searchsorted(model.joint_v, dof)): row[dof] for dof in np.flatnonzero(row)}
    return {
        "name": model.tendon_names[t],
        **({"path": path} if path else {"joints": joints}),
        "range": model.tendon_range[t] if model.tendon_limited[t] else None,
        **_columns(model, "tendon", t, ("stiffness", "damping", "friction", "reference")),
        **given_law(model, "tendon", t),
        **given_law(model, "tendon_friction", t, "friction_"),
    }


def constraint_record(model: Model, c: int) -> dict:
    """A constraint with all its coefficients, as files store it: its index, and its ends by name (None: the world)."""
    kind = ConstraintType(model.constraint_type[c])
    found = {
        "index": c,
        "name": model.constraint_names[c],
        "type": kind.name.lower(),
        **_columns(model, "constraint", c, ("coefficients", "stiffness", "dissipation_time")),
        "active": bool(model.constraint_active[c]),
        **given_law(model, "constraint", c),
    }
    if kind in BODY_CONSTRAINTS:
        bodies = [None if end < 0 else model.body_names[end] for end in model.constraint_body[c]]
        return found | {"bodies": bodies, "poses": model.constraint_pose[c]}
    names = model.joint_names if kind == ConstraintType.JOINT else model.tendon_names
    return found | {"ends": [names[end] for end in model.constraint_joint[c] if end >= 0]}


def constraint_arguments(record: dict) -> dict:
    """Arguments of `add_constraint` from a record, except the ends and their frames."""
    kind = ConstraintType[record["type"].upper()]
    return {
        "kind": kind,
        "name": record["name"],
        **own_option(kind, np.array(record["coefficients"], float)),
        "stiffness": record["stiffness"],
        "dissipation_time": given_time(record.get("dissipation_time")),
        "active": record["active"],
        **{key: record[key] for key in DEFAULTS["constraint"] if key in record},
    }


def actuator_arguments(model: Model, a: int, **starts: int) -> dict:
    """Arguments of `add_actuator`; indices of its target are offset by `starts` (see `target_of`)."""
    state = state_options(model, a)
    return {
        "name": model.actuator_names[a],
        "kind": "affine" if state["muscle"] is None else "muscle",
        **target_of(model, a, **starts),
        **_columns(model, "actuator", a, ("gear", "gain", "bias")),
        "control_range": model.control_range[a],
        "force_range": model.force_range[a],
        **state,
    }


def _columns(model: Model, kind: str, index, keys) -> dict:
    return {key: getattr(model, f"{kind}_{key}")[index] for key in keys}
