# SPDX-License-Identifier: Apache-2.0
"""A `Model` in a Zarr group: arrays as arrays, names and scalars as JSON attributes; no pickles."""

import dataclasses
import types

import numpy as np

from warpsim.files.limits import STORE_GROWTH, STORE_ROOM
from warpsim.files.store.metadata import DTYPES
from warpsim.files.store.stored_array import read_whole, sync_sizes
from warpsim.model.looks import Texture, VisualMaterial, look_table, looks_of
from warpsim.model.model import MAX_HULL_VERTICES, HField, Keyframe, Mesh, Model, ReportLine, TetField
from warpsim.model.tables import check_tables


def model_to_group(model: Model, group) -> None:
    """Write every field of a `Model`: arrays as arrays, the rest as JSON attributes."""
    attributes: dict = {}
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if isinstance(value, np.ndarray):
            put(group, field.name, value)
        elif field.name == "meshes":
            attributes["meshes"] = [mesh.name for mesh in value]
            attributes["max_hull_vertices"] = [mesh.max_hull_vertices for mesh in value]
            for index, mesh in enumerate(value):
                put(group, f"mesh_{index}_vertices", mesh.vertices)
                put(group, f"mesh_{index}_faces", mesh.faces)
                if mesh.uv is not None:
                    put(group, f"mesh_{index}_uv", mesh.uv)
        elif field.name == "visual_materials":
            attributes |= _looks_to_group(value, group)
        elif field.name == "keyframes":
            attributes["keyframes"] = list(value)
            for index, frame in enumerate(value.values()):
                for key in Keyframe._fields:
                    put(group, f"keyframe_{index}_{key}", getattr(frame, key))
        elif field.name == "hfields":
            attributes["hfields"] = [height.name for height in value]
            for index, height in enumerate(value):
                put(group, f"hfield_{index}_size", height.size)
                put(group, f"hfield_{index}_data", height.data)
        elif field.name == "fields":
            attributes["fields"] = [part.name for part in value]
            for index, part in enumerate(value):
                for key in TetField._fields[1:]:
                    put(group, f"field_{index}_{key}", getattr(part, key))
        elif field.name == "report":
            attributes["report"] = [list(line) for line in value]
        elif isinstance(value, tuple):
            attributes[field.name] = list(value)
        elif isinstance(value, str | bool | int | float | np.generic):
            attributes[field.name] = value.item() if isinstance(value, np.generic) else value
        else:
            raise TypeError(f"Model.{field.name} is a {type(value).__name__}, which the store cannot hold")
    group.attrs.update({"fields": attributes})


def model_from_group(group) -> Model:
    """The `Model` written by `model_to_group`, equal field by field. Raises `ModelError` where its tables do not fit."""
    attributes, group = dict(group.attrs["fields"]), _Tables(group)
    values: dict = {}
    for field in dataclasses.fields(Model):
        name = field.name
        if name == "meshes":
            limits = attributes.get("max_hull_vertices", [MAX_HULL_VERTICES] * len(attributes[name]))
            values[name] = tuple(
                Mesh(
                    label,
                    group[f"mesh_{i}_vertices"],
                    group[f"mesh_{i}_faces"],
                    limit,
                    _optional(group, f"mesh_{i}_uv"),
                )
                for i, (label, limit) in enumerate(zip(attributes[name], limits, strict=True))
            )
        elif name == "visual_materials":
            values[name] = _looks_from_group(attributes, group)
        elif name == "hfields":
            labels = attributes.get(name, [])
            values[name] = tuple(
                HField(label, group[f"hfield_{i}_size"], group[f"hfield_{i}_data"]) for i, label in enumerate(labels)
            )
        elif name == "fields":
            values[name] = tuple(
                TetField(label, *(group[f"field_{i}_{key}"] for key in TetField._fields[1:]))
                for i, label in enumerate(attributes.get(name, []))
            )
        elif name == "keyframes":
            frames = {
                label: Keyframe(
                    **{key: group[f"keyframe_{i}_{key}"] for key in Keyframe._fields if f"keyframe_{i}_{key}" in group}
                )
                for i, label in enumerate(attributes[name])
            }
            values[name] = types.MappingProxyType(frames)
        elif name == "report":
            values[name] = tuple(ReportLine(*line) for line in attributes[name])
        elif name in attributes:
            value = attributes[name]
            values[name] = tuple(value) if isinstance(value, list) else value
        elif name in group:
            values[name] = group[name]
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise KeyError(f"model field {name!r} is not in the store; it was written by another version of warpsim")
    model = Model(**values)
    check_tables(model)
    return model


class _Tables:
    """The arrays of a model's group, which together are no larger than their files can be."""

    def __init__(self, group):
        self.group, sizes = group, sync_sizes(group)
        self.left = STORE_ROOM + STORE_GROWTH * sum(sizes.values())
        self.sizes: dict[str, dict[str, int]] = {}  # of each array's files
        for key, size in sizes.items():
            self.sizes.setdefault(key.removeprefix(f"{group.path}/").partition("/")[0], {})[key] = size

    def __contains__(self, name: str) -> bool:
        return name in self.group

    def __getitem__(self, name: str) -> np.ndarray:
        array = self.group[name]
        if not hasattr(array, "chunks"):
            raise ValueError(f"{name} is a group; it must be an array")
        self.left -= array.size * array.dtype.itemsize
        if self.left < 0:
            raise ValueError(
                f"{name} has the shape {array.shape}: with it the model takes more memory than its files can stand for"
            )
        return read_whole(array, self.sizes.get(name, {}))


def _optional(group, name: str):
    return group[name] if name in group else None


def _looks_to_group(materials, group) -> dict:
    """Write the images of materials as arrays of bytes; the rest, as attributes."""
    textures, rows = look_table(materials)
    for index, texture in enumerate(textures):
        put(group, f"texture_{index}", np.frombuffer(texture.data, np.uint8))
    return {"textures": [[texture.name, texture.kind] for texture in textures], "visual_materials": rows}


def _looks_from_group(attributes: dict, group) -> tuple[VisualMaterial, ...]:
    labels = attributes.get("textures", [])
    textures = [Texture(name, group[f"texture_{i}"].tobytes(), kind) for i, (name, kind) in enumerate(labels)]
    return tuple(looks_of(textures, attributes.get("visual_materials", [])))


def full(array):
    """The array with chunks of zeros written too, so that a missing chunk is known to be damage."""
    return array.with_config({"write_empty_chunks": True})


def create_array(group, name: str, shape, dtype, chunks, shards=None, plain: bool = False):
    """An array of chunks; further axes than `chunks` has are not cut. Several chunks of a shard share a file. `plain`: not compressed."""
    dtype = np.dtype(dtype)
    if dtype.name not in DTYPES:
        raise ValueError(f"{name} has the dtype {dtype}; a store holds {', '.join(sorted(DTYPES))}")
    rest = tuple(shape[len(chunks) :])
    chunks, shards = (None if x is None else tuple(max(1, n) for n in (*x, *rest)) for x in (chunks, shards))
    options = {"compressors": None if plain else _compressor()}
    if shards is not None and shards != chunks:
        options["shards"] = shards
    return group.create_array(name, shape=shape, dtype=dtype.newbyteorder("<"), chunks=chunks, **options)


def _compressor():
    """LZ4 on the bits of numbers side by side: the quickest on motions, and no larger than others (docs/stores.md)."""
    from zarr.codecs import BloscCodec

    return BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle")


def put(group, name: str, value) -> None:
    value = np.asarray(value)
    array = create_array(group, name, value.shape, value.dtype, value.shape)
    if value.size:
        full(array)[...] = value
