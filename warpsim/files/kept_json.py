# SPDX-License-Identifier: Apache-2.0
"""What a file keeps of a model beyond its format: one JSON, in an MJCF `text` element or in USD customData.

Elements are the arguments of `ModelBuilder.add_*` (`warpsim.model.elements`). They refer to others by name where a
reader may number them differently. Large arrays are packed. The format's own values take precedence: `mjcf_kept` and
`usd_extra` say when a kept value counts.
"""

import base64
import json
import zlib

import numpy as np

from warpsim.files import limits
from warpsim.model.constraints import Constraint
from warpsim.model.elements import constraint_arguments

DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32}


def dumps(data: dict) -> str:
    """JSON without spaces; NumPy numbers and arrays become lists."""
    return json.dumps(data, default=_plain, separators=(",", ":"))


def _plain(value):
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(type(value))


def loads(text) -> dict | None:
    """The dict written by `dumps`; None for any other text."""
    try:
        data = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def pack(array) -> dict:
    """An array as text, without loss: dtype, shape and the compressed bytes in base64."""
    array = np.asarray(array)
    if array.dtype.kind != "i":
        array = array.astype(np.float32) if (array.astype(np.float32) == array).all() else array.astype(float)
    key = "i4" if array.dtype.kind == "i" else f"f{array.dtype.itemsize}"
    data = np.ascontiguousarray(array, DTYPES[key]).tobytes()
    return {"dtype": key, "shape": list(array.shape), "zlib": base64.b64encode(zlib.compress(data)).decode()}


def unpack(data: dict) -> np.ndarray:
    """The array packed by `pack`."""
    dtype, shape = np.dtype(DTYPES[data["dtype"]]), [int(n) for n in data["shape"]]
    size = int(np.prod(shape, dtype=float)) * dtype.itemsize
    if min(shape, default=0) < 0 or size > limits.MAX_MESH_BYTES:
        raise ValueError(f"an array of the shape {shape}")
    found = zlib.decompressobj().decompress(base64.b64decode(data["zlib"], validate=True), size + 1)
    array = np.frombuffer(found, dtype).reshape(shape)
    return array.astype(np.int64 if dtype.kind == "i" else float)


def add_record(b, record: dict) -> Constraint:
    """Add a kept constraint (`elements.constraint_record`) after the builder's constraints, with exactly its frames."""
    first, *second = record["ends"] if "ends" in record else record["bodies"]
    poses = np.array(record["poses"], float) if "poses" in record else None
    frames = {} if poses is None else {"pose_a": poses[0], "pose_b": poses[1]}
    b.add_constraint(a=first, b=second[0] if second else None, **frames, **constraint_arguments(record))
    added = b.constraints[-1]
    added.poses = added.poses if poses is None else tuple(poses)
    return added


def effort_rows(limits, joints, tendons) -> list[list]:
    """One row per effort limit: joint, tendon (None for the other), low, high, whether gravity compensation counts."""
    return [
        [
            None if limit.joint < 0 else joints[limit.joint],
            None if limit.tendon < 0 else tendons[limit.tendon],
            *map(float, limit.range),
            bool(limit.gravity),
        ]
        for limit in limits
    ]


def add_efforts(b, rows) -> None:
    """Add the effort limits whose joint or tendon the builder has."""
    names = {item.name for item in (*b.joints, *b.tendons)} | {None}
    for joint, tendon, low, high, gravity in rows:
        # earlier files have ["joint" or "tendon", its name, ...]
        target = {"joint": joint, "tendon": tendon} if None in (joint, tendon) else {joint: tendon}
        if names.issuperset(target.values()):
            b.add_effort_limit(**target, range=(low, high), gravity_compensation=gravity)
