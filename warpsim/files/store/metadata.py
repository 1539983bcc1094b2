# SPDX-License-Identifier: Apache-2.0
"""What `zarr.json` of a member may contain: Zarr's format 3, the codecs that warpsim writes, numbers, plausible sizes.

Zarr gets metadata written anew from what was checked. Codecs that decompress are replaced there by ours (`codecs.py`),
which write no more bytes than a chunk has.
"""

import json
import math

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import StoreError
from warpsim.files.limits import MAX_STORE_CHUNK, MAX_STORE_CHUNKS, MAX_STORE_JSON, STORE_ROOM

OURS = "warpsim."  # prefix of the names of codecs that check what they decode
SHARDING = "sharding_indexed"
DTYPES = {
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
}
GROUP = {"zarr_format", "node_type", "attributes"}
ARRAY = GROUP | {"shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"}
LEFT_OUT = {"consolidated_metadata", "dimension_names"}  # keys that other tools may have added; never read
MOST_AXES = 8
LEAST = 4096  # bytes that any chunk may have: a compressed header of 16 bytes may decode to them


def checked_metadata(data: bytes, key: str) -> tuple[bytes, int]:
    """The metadata of a group or an array, as Zarr may see it, and the most bytes of a file of the array.

    Raises `StoreError` that names the member and what no store has.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{key} is no metadata of Zarr ({type(error).__name__}: {error})") from None
    if not isinstance(found, dict):
        raise StoreError(f"{key} is {short(found)}; it must be a table")
    found = {name: value for name, value in found.items() if name not in LEFT_OUT}
    if found.pop("storage_transformers", []) != []:
        raise StoreError(f"{key}: storage_transformers are not read")
    kind = found.get("node_type")
    if found.get("zarr_format") != 3 or kind not in ("group", "array"):
        raise StoreError(
            f"{key}: format {short(found.get('zarr_format'))} of Zarr, node_type {short(kind)}; only groups and arrays "
            "of format 3 are read"
        )
    if not isinstance(found.setdefault("attributes", {}), dict):
        raise StoreError(f"{key}: attributes is {short(found['attributes'])}; it must be a table")
    wanted = GROUP if kind == "group" else ARRAY
    if found.keys() != wanted:
        raise StoreError(f"{key}: a {kind} has {', '.join(sorted(wanted))}; here {_difference(found, wanted)}")
    most = 0
    if kind == "array":
        try:
            found["codecs"], most = _array(found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise StoreError(f"{key}: {error}") from None
    return json.dumps(found).encode(), most


def most_of_metadata(key: str) -> int:
    """The most bytes of a `zarr.json`."""
    return MAX_STORE_JSON * (16 if key.startswith("sources/") else 1)


def room_of(array) -> int:
    """Bytes that a chunk may have beyond `STORE_GROWTH` times the bytes of its file."""
    return STORE_ROOM if any(codec.__class__.__name__ == "Zstd" for codec in array.metadata.codecs) else LEAST


def _difference(found, wanted) -> str:
    more, missing = sorted(found.keys() - wanted), sorted(wanted - found.keys())
    return f"{short(more[0])} besides" if more else f"{missing[0]!r} is missing"


def _array(about: dict) -> tuple[list, int]:
    """The checked codecs of an array, and the most bytes that a file of it needs.

    Raises `ValueError` for other arrays.
    """
    shape, kind = _sizes(about["shape"], "shape", 0), about["data_type"]
    if not isinstance(kind, str) or kind not in DTYPES:
        raise ValueError(f"data_type is {short(kind)}; it must be one of {', '.join(sorted(DTYPES))}")
    fill = about["fill_value"]
    if type(fill) not in (bool, int, float) or fill != 0:
        raise ValueError(f"fill_value is {short(fill)}; it must be 0, for what is missing in a store is damage")
    if about["chunk_key_encoding"] != {"name": "default", "configuration": {"separator": "/"}}:
        raise ValueError(
            f"chunk_key_encoding is {short(about['chunk_key_encoding'])}; it must be the default, with '/'"
        )
    grid = about["chunk_grid"]
    if grid["name"] != "regular" or set(grid) != {"name", "configuration"}:
        raise ValueError(f"chunk_grid is {short(grid)}; it must be regular")
    whole, size = _sizes(grid["configuration"]["chunk_shape"], "chunk_shape", 1), np.dtype(kind).itemsize
    if len(whole) != len(shape):
        raise ValueError(f"chunk_shape is {whole}, of an array of shape {shape}")
    codecs, chunk = about["codecs"], whole
    if _name(codecs[0]) == SHARDING:
        if len(codecs) != 1:
            raise ValueError(f"{codecs[1]['name']!r} besides {SHARDING}; there is no other codec then")
        inner = dict(codecs[0]["configuration"])
        chunk = _sizes(inner["chunk_shape"], "chunk_shape of a shard", 1)
        if len(chunk) != len(whole) or any(a % b for a, b in zip(whole, chunk, strict=True)):
            raise ValueError(f"chunks of {chunk} do not divide a shard of {whole}")
        if math.prod(whole) // math.prod(chunk) > MAX_STORE_CHUNKS:
            raise ValueError(f"a shard of {whole} in chunks of {chunk}: more than {MAX_STORE_CHUNKS} of them")
        index = [_name(codec) for codec in inner["index_codecs"]]
        if index != ["bytes", "crc32c"] or inner.keys() - {"chunk_shape", "codecs", "index_codecs", "index_location"}:
            raise ValueError(
                f"{SHARDING} has {short(sorted(inner))}, with an index by {short(index)}; none is written so"
            )
        result = [{"name": SHARDING, "configuration": inner | {"codecs": _codecs(inner["codecs"])}}]
    else:
        result = _codecs(codecs)
    if math.prod(chunk) * size > MAX_STORE_CHUNK:
        raise ValueError(
            f"a chunk of shape {chunk} has {math.prod(chunk) * size} bytes; at most {MAX_STORE_CHUNK} are read"
        )
    numbers, count = math.prod(whole) * size, math.prod(whole) // math.prod(chunk)
    return result, numbers + numbers // 128 + 64 * count + LEAST  # data that does not compress grows a little


def _codecs(codecs) -> list:
    """The codecs for Zarr: `bytes`, and at most one compressor, under our name. Raises `ValueError` for others."""
    names = [_name(codec) for codec in codecs]
    if names[:1] != ["bytes"] or len(names) > 2 or (len(names) == 2 and names[1] not in ("blosc", "zstd")):
        raise ValueError(f"codecs are {short(names)}; only bytes, then blosc or zstd, are read")
    order = codecs[0].get("configuration", {}).get("endian", "little")
    if order != "little":
        raise ValueError(f"the bytes of numbers are in the order {short(order)}; only 'little' is read")
    if names[1:] == ["blosc"] and codecs[1]["configuration"]["cname"] != "lz4":
        raise ValueError(f"blosc with {short(codecs[1]['configuration']['cname'])}; only 'lz4' is read")
    return [codecs[0], *(codec | {"name": OURS + codec["name"]} for codec in codecs[1:])]


def _name(codec) -> str:
    if not isinstance(codec, dict) or codec.keys() - {"name", "configuration"}:
        raise ValueError(f"a codec is {short(codec)}; it must have a name and a configuration")
    return codec["name"]


def _sizes(found, name: str, least: int) -> tuple[int, ...]:
    if (
        not isinstance(found, list)
        or len(found) > MOST_AXES
        or any(type(n) is not int or not least <= n < 2**48 for n in found)
    ):
        raise ValueError(f"{name} is {short(found)}; it must be a list of at most {MOST_AXES} sizes")
    return tuple(found)
