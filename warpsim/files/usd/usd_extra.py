# SPDX-License-Identifier: Apache-2.0
"""What UsdPhysics cannot say, or only in single precision, as JSON in `customData["warpsim"]` of our own stages.

On the way back the schema's attributes rule: an exact value is taken only where it rounds to the attribute beside it, so
that a stage edited by another program reads as edited. What the schema lacks comes from here alone.
"""

import json

import numpy as np

from warpsim.files.usd.usd_rest import rest_data
from warpsim.model.actuators import state_options
from warpsim.model.looks import FIELDS, material_of
from warpsim.model.model import JOINT_NQ, JOINT_NV, FrictionRule, GeomType, JointType
from warpsim.model.muscle import MuscleRows
from warpsim.model.targets import target_of

KEY = "warpsim:data"
WORLDS = "warpsim:order"  # of the instancer that shows several worlds
DRAWS = "warpsim:draws"  # on a mesh: the name of the geom that it draws, whose shape stands beside it
FIELD_SIZE, FIELD_SHAPE, FIELD_DATA = "warpsim:fieldSize", "warpsim:fieldShape", "warpsim:fieldData"
GEOM_FIELDS = (
    "friction",
    "stiffness",
    "dissipation_time",
    "restitution",
    "hertz_modulus",
    "contype",
    "conaffinity",
    "condim",
    "priority",
    "torsional_friction",
    "rolling_friction",
    "margin",
)
ACTUATOR_FIELDS = ("name", "gear", "gain", "bias", "control_range", "force_range")
ACTUATOR_STATE = ("dynamics", "activation_range", "early", "group", "muscle")  # of actuators that have any
SINGLE = 2e-6  # relative difference that single precision and conversions of units may make


def write(prim, data: dict) -> None:
    """Keep `data` on a prim."""
    prim.SetCustomDataByKey(KEY, json.dumps(data, default=_plain, separators=(",", ":")))


def _plain(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(type(value))


def read(prim) -> dict:
    """What was kept on a prim; empty where there is nothing, or nothing that can be read."""
    text = prim.GetCustomDataByKey(KEY)
    try:
        data = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def write_heights(prim, field) -> None:
    """Keep a height field beside the mesh that shows its surface: size, and data row by row."""
    from pxr import Gf, Vt

    prim.SetCustomDataByKey(FIELD_SIZE, Gf.Vec4d(*map(float, field.size)))
    prim.SetCustomDataByKey(FIELD_SHAPE, Gf.Vec2i(*field.data.shape))
    prim.SetCustomDataByKey(FIELD_DATA, Vt.DoubleArray.FromNumpy(np.ascontiguousarray(field.data, float).reshape(-1)))


def read_heights(prim, points) -> tuple[np.ndarray, np.ndarray] | None:
    """`(size (4,), data (rows, columns))` of the height field that a mesh with these points shows; None where they are no grid any more.

    Heights are what was kept where the points agree with it, else the points'.
    """
    size, shape, kept = (prim.GetCustomDataByKey(key) for key in (FIELD_SIZE, FIELD_SHAPE, FIELD_DATA))
    if size is None or shape is None or kept is None:
        return None
    size, (rows, columns), kept = np.array(size, float), shape, np.array(kept, float)
    if not (np.isfinite(size).all() and (size > 0).all() and min(rows, columns) >= 2):
        return None
    if len(kept) != rows * columns or len(points) != rows * columns:
        return None
    grid = np.stack(np.meshgrid(np.linspace(-size[0], size[0], columns), np.linspace(-size[1], size[1], rows)), axis=-1)
    moved = np.abs(points[:, :2] - grid.reshape(-1, 2)).max() > SINGLE * size[:2].max()
    if moved or not (points[:, 2] >= -SINGLE * size[2]).all():
        return None
    flat = exact(points[:, 2], size[2] * kept)
    data = kept if np.array_equal(flat, size[2] * kept) else np.maximum(points[:, 2], 0.0) / size[2]
    return size, data.reshape(rows, columns)


def exact(value, kept, floor: float = 1e-3):
    """`kept` where it is `value` in better precision, else `value`; the shape is that of `value`.

    Differences count relative to the largest entry, or to `floor` where all are smaller.
    """
    value = np.asarray(value, float)
    try:
        kept = np.asarray(kept, float)
    except (TypeError, ValueError):
        return value
    if kept.shape != value.shape or not value.size:
        return value
    finite = np.isfinite(value) & np.isfinite(kept)
    scale = max(floor, float(np.abs(value[finite]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):  # of two infinities
        same = np.where(finite, np.abs(value - kept) <= SINGLE * scale, value == kept)
    return kept if same.all() else value


def exact_pose(value, kept):
    """As `exact` for poses, whose quaternions may differ in sign."""
    value, kept = np.asarray(value, float), np.asarray(kept if kept is not None else [], float)
    if kept.shape != (7,):
        return value
    signed = np.array(kept)
    signed[3:] *= 1.0 if value[3:] @ kept[3:] >= 0 else -1.0
    return kept if exact(value, signed) is signed else value


def pair_lengths(model, p: int) -> tuple[float, float, float]:
    """Torsional and rolling friction and margin of an explicit pair."""
    return tuple(float(x[p]) for x in (model.pair_torsional_friction, model.pair_rolling_friction, model.pair_margin))


def world_data(model) -> dict:
    """Of the whole model: rules and filters of contact, actuators, keyframes."""
    pairs = [
        [
            *map(int, model.pair_geom[p]),
            float(model.pair_friction[p]),
            int(model.pair_condim[p]),
            *pair_lengths(model, p),
        ]
        for p in np.flatnonzero(model.pair_rule == FrictionRule.EXPLICIT)
    ]
    keys = ("gear", "gain", "bias")
    actuators = [
        {"name": name}
        | _transmission(model, a)
        | {key: getattr(model, f"actuator_{key}")[a] for key in keys}
        | {"control_range": model.control_range[a], "force_range": model.force_range[a]}
        | _own_range(model, a)
        | _actuator_state(model, a)
        for a, name in enumerate(model.actuator_names)
    ]
    parts = ("q", "v", "control", *(["activation"] if model.na else []), *(["mocap"] if model.nmocap else []))
    frames = {name: {part: getattr(k, part) for part in parts} for name, k in model.keyframes.items()}
    return (
        {
            "version": 1,
            "gravity": model.gravity,
            "friction_rule": int(model.friction_rule),
            "filter_parent": bool(model.filter_parent),
            "excluded": model.excluded,
            "pairs": pairs,
            "actuators": actuators,
            "keyframes": frames,
        }
        | ({"sites": site_data(model)} if model.nsite else {})
        | rest_data(model)
    )


def _own_range(model, a: int) -> dict:
    """Bounds of what its sensor reads, where they are not those of the force."""
    own = model.actuator_own_range[a]
    return {} if np.isnan(own).all() else {"own_range": np.where(np.isnan(own), model.force_range[a], own)}


def _actuator_state(model, a: int) -> dict:
    """Dynamics, muscle and group of an actuator that has any."""
    found = state_options(model, a)
    muscle = found.pop("muscle")
    if muscle is not None:
        found |= {"muscle": muscle.rows, "length_range": muscle.length_range}
    return found if found["dynamics"] or muscle is not None or found["group"] else {}


def actuator_arguments(data: dict) -> dict:
    """What `ModelBuilder.add_actuator` takes, besides the transmission, of what was kept of an actuator."""
    found = {key: data[key] for key in ACTUATOR_FIELDS}
    found |= {key: data[key] for key in ACTUATOR_STATE if key in data}
    if "muscle" in found:
        found["muscle"] = MuscleRows(np.array(found["muscle"], float), np.array(data["length_range"], float))
    return {"kind": "muscle" if "muscle" in found else "affine", **found}


def _transmission(model, a: int) -> dict:
    joint, tendon = int(model.actuator_joint[a]), int(model.actuator_tendon[a])
    if joint >= 0:
        return {"joint": model.joint_names[joint]}
    if tendon >= 0:
        return {"tendon": model.tendon_names[tendon]}
    return {key: list(x) if isinstance(x, tuple) else x for key, x in target_of(model, a).items() if x is not None}


def actuator_target(kept: dict) -> dict:
    """What an actuator acts on as `ModelBuilder.add_actuator` takes it, from what `world_data` has kept."""
    found = {key: kept[key] for key in ("joint", "tendon", "site", "reference_site", "crank", "body") if key in kept}
    for key in found.keys() & {"site", "reference_site", "body"}:
        found[key] = int(found[key])
    if "crank" in found:
        pin, slider, rod = found["crank"]
        found["crank"] = (int(pin), int(slider), float(rod))
    return found


def site_data(model) -> list[dict]:
    """Of the sites: every argument of `ModelBuilder.add_site`."""
    return [
        {
            "name": name,
            "body": int(model.site_body[s]),
            "pose": model.site_pose[s],
            "type": GeomType(model.site_type[s]).name.lower(),
            "size": model.site_size[s],
            "rgba": model.site_rgba[s],
        }
        for s, name in enumerate(model.site_names)
    ]


def body_data(model, body: int, pose) -> dict:
    """Of a body: its place in the file's order, pose in its parent at q0, mass, COM and inertia, and joints."""
    joints = [joint_data(model, int(j)) for j in np.flatnonzero(model.joint_body == body)]
    return {
        "index": body,
        "parent": int(model.body_parent[body]),
        "pose": pose,
        "mass": model.body_mass[body],
        "com": model.body_com[body],
        "inertia": model.body_inertia[body],
        "joints": joints,
        **({"mocap": True} if model.body_mocap[body] >= 0 else {}),
        **({"gravcomp": model.body_gravcomp[body]} if model.body_gravcomp[body] else {}),
        **({"fluid_axes": model.body_fluid[body, 3:]} if model.body_fluid[body, 3:].any() else {}),
    }


def joint_data(model, j: int) -> dict:
    """Of a joint: every argument of `ModelBuilder.add_joint`."""
    kind = JointType(model.joint_type[j])
    q, v = int(model.joint_q[j]), int(model.joint_v[j])
    dofs = slice(v, v + JOINT_NV[kind])
    data = {key: getattr(model, f"joint_{key}")[dofs] for key in ("stiffness", "damping", "armature", "friction")}
    return data | {
        "name": model.joint_names[j],
        "type": kind.name.lower(),
        "axis": model.joint_axis[j],
        "anchor": model.joint_anchor[j],
        "range": model.joint_range[j] if model.joint_limited[j] else None,
        "reference": model.joint_reference[dofs],
        "q0": model.q0[q : q + JOINT_NQ[kind]],
    }


def geom_data(model, geom: int) -> dict:
    """Of a geom: every argument of `ModelBuilder.add_geom` but the mesh."""
    data = {key: getattr(model, f"geom_{key}")[geom] for key in GEOM_FIELDS}
    if model.geom_mesh[geom] >= 0:
        data["max_hull_vertices"] = model.meshes[model.geom_mesh[geom]].max_hull_vertices
    if model.geom_fluid[geom, 0] > 0:
        data["fluid"] = model.geom_fluid[geom]
    material = material_of(model, geom)
    if material is not None:
        image, mesh = material.texture, int(model.geom_mesh[geom])
        data["look"] = {"texture": None if image is None else [image.name, image.kind]}
        data["look"] |= {key: getattr(material, key) for key in FIELDS}
        data["look"]["uv"] = mesh >= 0 and model.meshes[mesh].uv is not None
    return data | {
        "index": geom,
        "type": GeomType(model.geom_type[geom]).name.lower(),
        "size": model.geom_size[geom],
        "pose": model.geom_pose[geom],
        "rgba": model.geom_rgba[geom],
        "visible": bool(model.geom_visible[geom]),
    }
