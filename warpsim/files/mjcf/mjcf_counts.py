# SPDX-License-Identifier: Apache-2.0
"""Count what an MJCF file expands to before MuJoCo expands it; `warpsim.files.limits` has the limits."""

import itertools
import math
import re
import struct
import typing

from warpsim.base.errors import ModelError
from warpsim.files import limits
from warpsim.model.pictures import plain_png

UNITS = {"": 1, **{letter: 2 ** (10 * (k + 1)) for k, letter in enumerate("KMGTPE")}}
SOLIDS = ("body", "geom", "joint", "freejoint", "site", "frame", "camera", "light", "default")
MAX_CORNERS = 100  # of a face of an OBJ file that MuJoCo 4.0 reads
LONG_FACE = re.compile(rb"^[ \t]*f[ \t]([^\r\n]{%d,})" % (2 * MAX_CORNERS), re.MULTILINE)
# how many of `params` are counts
GENERATED = {"wedge": 2, "plate": 2, "grid": 3, "cone": 1, "supersphere": 1, "supertorus": 1}


def check_values(root, where) -> None:
    """Raise `ModelError` if one attribute asks for too much memory; `where(element)` names an element."""
    for element in root.iter():
        for key in element.keys():
            most = limits.MAX_VALUES.get((element.tag, key), limits.MAX_VALUES.get(("*", key)))
            if most is not None:
                value = _number(element, key, where)
                _at_most(value, most, element, where, f"{key}={element.get(key)[:40]!r}")
        check = CHECKS.get(element.tag)
        if check is not None:
            check(element, where)


def _check_size(element, where) -> None:
    text = element.get("memory")
    if text is not None:
        found = re.fullmatch(r"\s*(-?\d+)\s*([KMGTPE]?)\s*", text, flags=re.IGNORECASE)
        if found is None:
            raise ModelError(f"{where(element)}: memory={text[:40]!r} is no number of bytes such as '16M'")
        size = int(found.group(1)) * UNITS[found.group(2).upper()]
        _at_most(size, limits.MAX_ARENA, element, where, f"memory={text[:40]!r}")


def _check_hfield(element, where) -> None:
    rows, columns = (_number(element, key, where) for key in ("nrow", "ncol"))
    _at_most(rows * columns, limits.MAX_GRID, element, where, f"nrow x ncol = {rows:g} x {columns:g} values")


def _check_camera(element, where) -> None:
    pixels = math.prod(_numbers(element, "resolution", where))
    _at_most(pixels, limits.MAX_PIXELS, element, where, f"resolution={element.get('resolution', '')[:40]!r}")


def _check_mesh(element, where) -> None:
    """Check the number of vertices of a mesh that MuJoCo generates."""
    kind = element.get("builtin", "none")
    if kind in ("none", "sphere", "hemisphere"):  # MuJoCo bounds these itself
        return
    params = _numbers(element, "params", where)
    counts = params[: GENERATED.get(kind, len(params))]
    total = math.prod(max(1.0, abs(c)) for c in counts) ** (2 if kind in ("supersphere", "supertorus") else 1)
    what = f"builtin={kind[:40]!r} with params={element.get('params', '')[:60]!r}"
    _at_most(total, limits.MAX_MESH_PARTS, element, where, what)


CHECKS = {"size": _check_size, "hfield": _check_hfield, "camera": _check_camera, "mesh": _check_mesh}


def check_grid(data: bytes, suffix: str, where: str) -> bytes:
    """The file of a height field for MuJoCo.

    Raises `ModelError` if its header gives too many values, or another number than the file has.
    """
    if suffix == ".png":
        rows, columns = struct.unpack(">II", data[16:24]) if len(data) >= 24 else (0, 0)
    else:
        rows, columns = struct.unpack("<ii", data[:8]) if len(data) >= 8 else (0, 0)
        if min(rows, columns) < 1 or len(data) != 8 + 4 * rows * columns:
            raise ModelError(f"{where} is no height field: its head says {rows} x {columns}, it has {len(data)} bytes")
    if rows * columns > limits.MAX_GRID:
        raise ModelError(
            f"{where}: {rows} x {columns} values, more than the limit of {limits.MAX_GRID}; make it coarser"
        )
    return plain_png(data, where) if suffix == ".png" else data


def with_triangles(data: bytes) -> tuple[bytes, int]:
    """An OBJ file with faces of more than `MAX_CORNERS` corners cut into triangles about their first corner.

    Returns the number of such faces too. MuJoCo leaves them out silently.
    """
    count = 0

    def cut(found) -> bytes:
        nonlocal count
        corners = found.group(1).split()
        if len(corners) <= MAX_CORNERS:
            return found.group()
        count += 1
        first, *rest = corners
        return b"\n".join(b"f %s %s %s" % (first, *pair) for pair in itertools.pairwise(rest))

    return LONG_FACE.sub(cut, data), count


class Sizes:
    """Counts elements after expansion of replicates, attachments, composites and flexes."""

    def __init__(self, where):
        self.where = where
        self.documents: dict[str, _Document] = {}

    def add(self, key: str, root, models: dict) -> None:
        """Count the document `key`, whose `<model>` elements name the documents `models` {element: key}."""
        self.documents[key] = _Document(self, root, models)


class _Size(typing.NamedTuple):
    """Number of elements, of the solid ones among them, and of levels of nesting."""

    total: float
    solid: float
    levels: float


class _Document:
    """One document, counted in MuJoCo's reading order: an attachment copies what was read before it."""

    def __init__(self, sizes: Sizes, root, models: dict):
        self.where, self.name = sizes.where, root.get("model", "")
        self.models = {}
        for element, key in models.items():
            child = sizes.documents[key]
            self.models[element.get("name") or child.name] = child
        self.total = self.solid = 0.0
        # per open body or frame: total, solid and level at its start, and deepest level
        self.opened: dict[tuple, list[float]] = {}
        self.closed: dict[tuple, _Size] = {}
        self.deepest = 0.0
        for element, key in models.items():  # read once for each element, attached or not
            self.add(element, sizes.documents[key].size.total, sizes.documents[key].size.solid, 1.0)
        self.count(root, 1.0)
        self.size = _Size(self.total, self.solid, self.deepest)

    def count(self, element, level: float) -> None:
        """Add an element with all below it."""
        tag = element.tag
        if tag == "attach":
            self.add(element, *self.attached(element, level))
            return
        self.add(element, 1.0, float(tag in SOLIDS), level)
        start = (self.total, self.solid)
        key = (tag, element.get("name")) if tag in ("body", "frame") and element.get("name") else None
        key = None if key in self.opened else key  # defined twice: MuJoCo reports it
        if key is not None:
            self.opened[key] = [self.total - 1.0, self.solid - 1.0, level, level]
        for child in element:
            self.count(child, level + 1)
        if key is not None:
            self.closed[key] = self.so_far(key)
            del self.opened[key]
        if tag == "replicate":
            more = max(1.0, _number(element, "count", self.where)) - 1.0
            self.add(element, more * (self.total - start[0]), more * (self.solid - start[1]), level)
        elif tag in ("composite", "flexcomp"):
            points = self.points(element)
            self.add(element, 3 * points, 3 * points, level)

    def add(self, element, total: float, solid: float, level: float) -> None:
        """Count more elements, the deepest of them at `level`."""
        self.total, self.solid, self.deepest = self.total + total, self.solid + solid, max(self.deepest, level)
        for entry in self.opened.values():
            entry[3] = max(entry[3], level)
        for value, most, what in (
            (self.total, limits.MAX_ELEMENTS, "elements"),
            (self.solid, limits.MAX_SOLIDS, "bodies, geoms, joints, sites, frames, cameras, lights and defaults"),
            (level, limits.MAX_LEVELS, "levels of nesting"),
        ):
            if value > most:
                count = f"count={element.get('count')[:40]!r}: " if element.get("count") else ""
                _at_most(value, most, element, self.where, f"{count}the model stands for at least {value:g} {what}")

    def so_far(self, key: tuple) -> _Size:
        total, solid, level, deepest = self.opened[key]
        return _Size(self.total - total, self.solid - solid, deepest - level + 1)

    def attached(self, element, level: float) -> tuple[float, float, float]:
        """The size of what `<attach>` copies: a sub-model, or what was read of a body or frame, even one around it."""
        if element.get("model"):
            child = self.models.get(element.get("model"))
            size = _Size(1.0, 1.0, 1.0) if child is None else child.size  # MuJoCo reports a missing model
        else:
            key = next(((tag, element.get(tag)) for tag in ("body", "frame") if element.get(tag)), None)
            size = self.so_far(key) if key in self.opened else self.closed.get(key, _Size(1.0, 1.0, 1.0))
        return size.total, size.solid, level + size.levels

    def points(self, element) -> float:
        """Number of points of a composite or flex; each becomes a body with joints."""
        grown = element.tag == "composite" or element.get("type", "grid") not in ("mesh", "gmsh", "direct")
        points = math.prod(max(1.0, c) for c in _numbers(element, "count", self.where)) if grown else 1.0
        what = f"count={element.get('count', '')[:40]!r}, {points:g} points"
        _at_most(points, limits.MAX_POINTS, element, self.where, what)
        cells = math.prod(max(1.0, c) for c in _numbers(element, "cellcount", self.where))
        _at_most(cells, limits.MAX_POINTS, element, self.where, f"cellcount={element.get('cellcount', '')[:40]!r}")
        return points


def _number(element, key: str, where) -> float:
    return sum(_numbers(element, key, where)[:1])


def _numbers(element, key: str, where) -> list[float]:
    text = element.get(key, "")
    try:
        values = [float(part) for part in text.split()]
    except ValueError:
        raise ModelError(f"{where(element)}: {key}={text[:60]!r} is not made of numbers") from None
    if not all(math.isfinite(value) for value in values):
        raise ModelError(f"{where(element)}: {key}={text[:60]!r} must be finite")
    return values


def _at_most(value: float, most: float, element, where, what: str) -> None:
    if abs(value) > most:
        raise ModelError(f"{where(element)}: {what}, more than the limit of {most:g}; nothing that large is loaded")
