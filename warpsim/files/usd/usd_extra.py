# SPDX-License-Identifier: Apache-2.0
"""What UsdPhysics cannot express, or only in single precision, as JSON in `customData["warpsim"]` of our own stages.

When a stage is read, the schema's attributes take precedence: an exact value counts only if it rounds to the attribute
beside it. So a stage edited by another program reads as edited. What the schema lacks comes only from this data.
"""

import dataclasses

import numpy as np

from warpsim.files import kept_json
from warpsim.model import elements
from warpsim.model.actuators import interval
from warpsim.model.constraint_types import BODY_CONSTRAINTS, ConstraintType
from warpsim.model.looks import FIELDS, material_of
from warpsim.model.muscle import MuscleRows
from warpsim.model.sensor_records import make_sensor, sensor_arguments
from warpsim.model.sensor_types import ObjectType, SensorType
from warpsim.model.tendon_paths import Pulley

KEY = "warpsim:data"
WORLDS = "warpsim:order"  # on the instancer that shows several worlds
DRAWS = "warpsim:draws"  # on a mesh: the name of the geom that it draws; the geom's shape is beside it
FIELD_SIZE, FIELD_SHAPE, FIELD_DATA = "warpsim:fieldSize", "warpsim:fieldShape", "warpsim:fieldData"
SINGLE = 2e-6  # relative difference due to single precision and unit conversion


def write(prim, data: dict) -> None:
    """Keep `data` on a prim."""
    prim.SetCustomDataByKey(KEY, kept_json.dumps(data))


def read(prim) -> dict:
    """The data kept on a prim; empty if there is none, or none that can be read."""
    return kept_json.loads(prim.GetCustomDataByKey(KEY)) or {}


def write_heights(prim, field) -> None:
    """Keep a height field beside the mesh that shows its surface: size, and data row by row."""
    from pxr import Gf, Vt

    prim.SetCustomDataByKey(FIELD_SIZE, Gf.Vec4d(*map(float, field.size)))
    prim.SetCustomDataByKey(FIELD_SHAPE, Gf.Vec2i(*field.data.shape))
    prim.SetCustomDataByKey(FIELD_DATA, Vt.DoubleArray.FromNumpy(np.ascontiguousarray(field.data, float).reshape(-1)))


def read_heights(prim, points) -> tuple[np.ndarray, np.ndarray] | None:
    """`(size (4,), data (rows, columns))` of the height field that a mesh with these points shows.

    Heights are the kept ones if the points agree with them, else those of the points. None if the points are no longer
    the grid.
    """
    size, shape, heights = (prim.GetCustomDataByKey(key) for key in (FIELD_SIZE, FIELD_SHAPE, FIELD_DATA))
    if size is None or shape is None or heights is None:
        return None
    size, (rows, columns), heights = np.array(size, float), shape, np.array(heights, float)
    if not (np.isfinite(size).all() and (size > 0).all() and min(rows, columns) >= 2):
        return None
    if len(heights) != rows * columns or len(points) != rows * columns:
        return None
    grid = np.stack(np.meshgrid(np.linspace(-size[0], size[0], columns), np.linspace(-size[1], size[1], rows)), axis=-1)
    moved = np.abs(points[:, :2] - grid.reshape(-1, 2)).max() > SINGLE * size[:2].max()
    if moved or not (points[:, 2] >= -SINGLE * size[2]).all():
        return None
    flat = exact(points[:, 2], size[2] * heights)
    data = heights if np.array_equal(flat, size[2] * heights) else np.maximum(points[:, 2], 0.0) / size[2]
    return size, data.reshape(rows, columns)


def exact(value, better, floor: float = 1e-3):
    """`better` if it equals `value` up to rounding, else `value`; the shape is that of `value`.

    Differences are relative to the largest entry, or to `floor` if all entries are smaller.
    """
    value = np.asarray(value, float)
    try:
        better = np.asarray(better, float)
    except (TypeError, ValueError):
        return value
    if better.shape != value.shape or not value.size:
        return value
    finite = np.isfinite(value) & np.isfinite(better)
    scale = max(floor, float(np.abs(value[finite]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        same = np.where(finite, np.abs(value - better) <= SINGLE * scale, value == better)
    return better if same.all() else value


def exact_pose(value, better):
    """`exact` for poses, whose quaternions may differ in sign."""
    value, better = np.asarray(value, float), np.asarray(better if better is not None else [], float)
    if better.shape != (7,):
        return value
    signed = np.array(better)
    signed[3:] *= 1.0 if value[3:] @ better[3:] >= 0 else -1.0
    return better if exact(value, signed) is signed else value


def world_data(model) -> dict:
    """Data of the whole model: contact rules and filters, and the elements that UsdPhysics has no schema for."""
    parts = ("q", "v", "control", *(["activation"] if model.na else []), *(["mocap"] if model.nmocap else []))
    found = {
        "version": 1,
        "gravity": model.gravity,
        "friction_rule": int(model.friction_rule),
        "mujoco": dataclasses.asdict(model.mujoco),
        "filter_parent": bool(model.filter_parent),
        "excluded": model.excluded,
        "pairs": elements.pair_rows(model),
        "actuators": [_actuator(model, a) for a in range(model.nu)],
        "keyframes": {name: {part: getattr(k, part) for part in parts} for name, k in model.keyframes.items()},
        "tendons": [_tendon(model, t) for t in range(model.ntendon)],
        "constraints": [
            elements.constraint_record(model, c)
            for c, kind in enumerate(model.constraint_type)
            if ConstraintType(kind) not in BODY_CONSTRAINTS
        ],
        "effort_limits": kept_json.effort_rows(elements.effort_limits(model), model.joint_names, model.tendon_names),
        "sites": [elements.site_arguments(model, s) for s in range(model.nsite)],
        "cameras": [elements.camera_arguments(model, c) for c in range(model.ncamera)],
        "sensors": [_sensor(model, s) for s in range(model.nsensor)],
    }
    if model.has_fluid or np.any(model.wind):
        found["medium"] = {"density": model.fluid_density, "viscosity": model.fluid_viscosity, "wind": model.wind}
    return found


def _actuator(model, a: int) -> dict:
    """Every argument of `ModelBuilder.add_actuator`, and the bounds of what its sensor reads if they differ."""
    found = elements.actuator_arguments(model, a)
    for key, names in (("joint", model.joint_names), ("tendon", model.tendon_names)):
        found |= {key: names[found[key]]} if key in found else {}
    if found["muscle"] is not None:
        found |= {"muscle": found["muscle"].rows, "length_range": found["muscle"].length_range}
    own = model.actuator_own_range[a]
    return found | ({} if np.isnan(own).all() else {"own_range": np.where(np.isnan(own), model.force_range[a], own)})


def add_actuator(b, data: dict) -> None:
    """Add a kept actuator; earlier files leave out arguments that the actuator does not have."""
    data = {"muscle": None} | data
    own, lengths = data.pop("own_range", None), data.pop("length_range", None)
    if data["muscle"] is not None:
        data |= {"kind": "muscle", "muscle": MuscleRows(np.array(data["muscle"], float), np.array(lengths, float))}
    actuator = b.actuators[b.add_actuator(**{"kind": "affine"} | data)]
    if own is not None:
        own = interval(own, f"actuator {actuator.name!r}: own_range")
        actuator.own_range = np.where(own == actuator.force_range, np.nan, own)


def _tendon(model, t: int) -> dict:
    """Every argument of `ModelBuilder.add_tendon`; a path has sites [i], geoms [g, side or -1], pulleys {divisor}."""
    found = elements.tendon_arguments(model, t)
    if "joints" in found:
        return found | {"joints": {model.joint_names[j]: c for j, c in found["joints"].items()}}

    def plain(item):
        if isinstance(item, Pulley):
            return {"divisor": item.divisor}
        return [item] if isinstance(item, int) else [item[0], -1 if item[1] is None else item[1]]

    return found | {"path": [plain(item) for item in found["path"]]}


def add_tendon(b, data: dict) -> None:
    """Add a kept tendon."""

    def item(x):
        if isinstance(x, dict):
            return Pulley(float(x["divisor"]))
        return int(x[0]) if len(x) == 1 else (int(x[0]), int(x[1]) if x[1] >= 0 else None)

    b.add_tendon(**data | {"path": [item(x) for x in data["path"]]} if data.get("path") else data)


def _sensor(model, s: int) -> dict:
    ends = zip(model.sensor_object_type[s], model.sensor_object[s].tolist(), strict=True)
    # by name, because a builder's joints have another order
    named = [model.joint_names[i] if t == ObjectType.JOINT else i for t, i in ends]
    keys = ("type", "object_type", "size", "cutoff", "datatype", "constants")
    return {"name": model.sensor_names[s], "object": named} | {key: getattr(model, f"sensor_{key}")[s] for key in keys}


def add_sensor(b, data: dict) -> None:
    """Add a kept sensor; `b` already has all other elements."""
    kind, ends = SensorType(data["type"]), []
    for t, i in zip(data["object_type"], data["object"], strict=True):
        ends.append((ObjectType(t), i if isinstance(i, str) else int(i)))
    given, options = sensor_arguments(kind, ends, np.array(data["constants"], float), int(data["size"]))
    b.sensors.append(make_sensor(b, data["name"], kind, *given, data["cutoff"], data["datatype"], options))


def body_data(model, body: int) -> dict:
    """Data of a body: its index in the file's order, every argument of `ModelBuilder.add_body`, and its joints."""
    found = elements.body_arguments(model, body)
    joints = [elements.joint_arguments(model, int(j)) for j in np.flatnonzero(model.joint_body == body)]
    found = {key: value for key, value in found.items() if key not in ("mocap", "gravcomp") or value}
    axes = model.body_fluid[body, 3:]
    return {"index": body, "joints": joints} | found | ({"fluid_axes": axes} if axes.any() else {})


def geom_data(model, geom: int) -> dict:
    """Data of a geom: its index, every argument of `ModelBuilder.add_geom` except the mesh, and how it looks."""
    found, material = {"index": geom} | elements.geom_arguments(model, geom), material_of(model, geom)
    if np.isfinite(model.geom_mapped_stiffness[geom]):
        found["mapped_stiffness"] = model.geom_mapped_stiffness[geom]
    if material is not None:
        image, mesh = material.texture, int(model.geom_mesh[geom])
        look = {"texture": None if image is None else [image.name, image.kind]}
        look |= {key: getattr(material, key) for key in FIELDS}
        found["look"] = look | {"uv": mesh >= 0 and model.meshes[mesh].uv is not None}
    return found
