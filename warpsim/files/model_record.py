# SPDX-License-Identifier: Apache-2.0
"""Convert a `Model` to named arrays and JSON, and back, for stores and isolated reading."""

import dataclasses
import types

import numpy as np

from warpsim.model.looks import Texture, look_table, looks_of
from warpsim.model.model import MAX_HULL_VERTICES, HField, Keyframe, Mesh, Model, ReportLine, TetField
from warpsim.model.mujoco_options import MuJoCoOptions

# Fields that are lists of named parts: their type, the prefix of the arrays of part k (then _k_), and the arrays.
PARTS = {
    "meshes": (Mesh, "mesh", ("vertices", "faces", "uv")),
    "hfields": (HField, "hfield", ("size", "data")),
    "fields": (TetField, "field", ("vertices", "tetrahedra", "pressure")),
    "keyframes": (Keyframe, "keyframe", Keyframe._fields),
}


def model_record(model: Model) -> tuple[dict[str, np.ndarray], dict]:
    """Every field of a model: arrays by name, and the rest as JSON values."""
    arrays, rest = {}, {"max_hull_vertices": [mesh.max_hull_vertices for mesh in model.meshes]}
    for field in dataclasses.fields(model):
        name, value = field.name, getattr(model, field.name)
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif name in PARTS:
            _, word, keys = PARTS[name]
            named = value.items() if name == "keyframes" else [(part.name, part) for part in value]
            rest[name] = [label for label, _ in named]
            found = {f"{word}_{k}_{key}": getattr(part, key) for k, (_, part) in enumerate(named) for key in keys}
            arrays |= {key: array for key, array in found.items() if array is not None}
        elif name == "visual_materials":
            images, rest[name] = look_table(value)
            rest["textures"] = [[image.name, image.kind] for image in images]
            arrays |= {f"texture_{k}": np.frombuffer(image.data, np.uint8) for k, image in enumerate(images)}
        elif name == "report":
            rest[name] = [list(line) for line in value]
        elif name == "mujoco":
            rest[name] = dataclasses.asdict(value)
        elif isinstance(value, tuple):
            rest[name] = list(value)
        elif isinstance(value, str | bool | int | float | np.generic):
            rest[name] = value.item() if isinstance(value, np.generic) else value
        else:
            raise TypeError(f"Model.{name} is a {type(value).__name__}, which the store cannot hold")
    return arrays, rest


def recorded_model(arrays, rest: dict) -> Model:
    """The model of a record, equal field by field; fields missing in older records get defaults.

    `arrays` is a mapping.
    """
    values: dict = {}
    for field in dataclasses.fields(Model):
        name = field.name
        if name in PARTS:
            values[name] = tuple(_parts(arrays, rest.get(name, []), *PARTS[name]))
        elif name == "visual_materials":
            labels = enumerate(rest.get("textures", []))
            images = [Texture(label, arrays[f"texture_{k}"].tobytes(), kind) for k, (label, kind) in labels]
            values[name] = tuple(looks_of(images, rest.get(name, [])))
        elif name == "report":
            values[name] = tuple(ReportLine(*line) for line in rest[name])
        elif name == "mujoco":
            values[name] = MuJoCoOptions(**rest.get(name, {}))
        elif name in rest:
            values[name] = tuple(rest[name]) if isinstance(rest[name], list) else rest[name]
        elif name in arrays:
            values[name] = arrays[name]
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise KeyError(f"model field {name!r} is not in the store; it was written by another version of warpsim")
    limits = rest.get("max_hull_vertices", [MAX_HULL_VERTICES] * len(values["meshes"]))
    meshes = zip(values["meshes"], limits, strict=True)
    values["meshes"] = tuple(mesh._replace(max_hull_vertices=limit) for mesh, limit in meshes)
    frames = dict(zip(rest.get("keyframes", []), values["keyframes"], strict=True))
    return Model(**values | {"keyframes": types.MappingProxyType(frames)})


def _parts(arrays, labels, kind, word: str, keys):
    named = "name" in kind._fields
    for k, label in enumerate(labels):
        names = {key: f"{word}_{k}_{key}" for key in keys}
        needed = {key: name for key, name in names.items() if key not in kind._field_defaults or name in arrays}
        found = {key: arrays[name] for key, name in needed.items()}
        yield kind(**found, **({"name": label} if named else {}))
