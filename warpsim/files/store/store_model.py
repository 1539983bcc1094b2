# SPDX-License-Identifier: Apache-2.0
"""A `Model` in a Zarr group: arrays as arrays, names and scalars as JSON attributes; no pickles."""

import numpy as np

from warpsim.files.limits import STORE_GROWTH, STORE_ROOM
from warpsim.files.model_record import model_record, recorded_model
from warpsim.files.store.metadata import DTYPES
from warpsim.files.store.stored_array import read_whole, sync_sizes
from warpsim.model.model import Model
from warpsim.model.tables import check_tables


def model_to_group(model: Model, group) -> None:
    """Write every field of a `Model`: arrays as arrays, the rest as JSON attributes."""
    arrays, rest = model_record(model)
    for name, value in arrays.items():
        put(group, name, value)
    group.attrs.update({"fields": rest})


def model_from_group(group) -> Model:
    """The `Model` written by `model_to_group`, equal field by field. Raises `ModelError` if its tables do not fit."""
    model = recorded_model(_Tables(group), dict(group.attrs["fields"]))
    check_tables(model)
    return model


class _Tables:
    """The arrays of a model's group, together no larger than their files can decompress to."""

    def __init__(self, group):
        self.group, sizes = group, sync_sizes(group)
        self.left = STORE_ROOM + STORE_GROWTH * sum(sizes.values())
        self.sizes: dict[str, dict[str, int]] = {}  # file sizes by key, for each array
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


def full(array):
    """The array, which then also writes chunks of zeros, so that a missing chunk means damage."""
    return array.with_config({"write_empty_chunks": True})


def create_array(group, name: str, shape, dtype, chunks, shards=None, plain: bool = False):
    """Create an array in chunks. Axes beyond those in `chunks` are not split.

    The chunks of a shard share a file. `plain`: not compressed.
    """
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
    """LZ4 after a bit shuffle: the fastest on motions, and no larger than the others (docs/stores.md)."""
    from zarr.codecs import BloscCodec

    return BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle")


def put(group, name: str, value) -> None:
    value = np.asarray(value)
    array = create_array(group, name, value.shape, value.dtype, value.shape)
    if value.size:
        full(array)[...] = value
