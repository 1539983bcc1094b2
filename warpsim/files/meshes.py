# SPDX-License-Identifier: Apache-2.0
"""Read mesh files to triangles (STL, OBJ, DAE, glTF; by `trimesh`), and split meshes into convex parts (by `coacd`).

A mesh is `(vertices (n, 3) [m], faces (m, 3))`. Contact takes convex shapes, so a colliding mesh becomes its convex
hull, or several hulls if it is decomposed. The hulls are hidden; the mesh itself is drawn and does not touch.
Decompositions take seconds to minutes and are cached on disk in `WARPSIM_CACHE_PATH`, by default `~/.cache/warpsim`.
"""

import functools
import hashlib
import io
import json
import os
import pathlib
import re
import tempfile
import warnings
import xml.etree.ElementTree as xml
import zipfile

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.files.limits import MAX_MESH_BYTES, MAX_XML_DEPTH
from warpsim.files.safe_files import Folders, check_name, first_inside, parse_xml, read_bytes, real_of
from warpsim.model.mesh_mass import convex_hull

MAX_MESH_VERTICES = 4_000_000
MAX_INSTANCES = 100_000  # of nodes in a DAE
# node levels from the roots of a glTF to its meshes, summed over the meshes: trimesh walks each path by itself
MAX_PATHS = 500_000
MAX_STL_SOLIDS = 2000  # in a text file: trimesh's time grows with the square of their number (8000: 7 s)
SUFFIXES = (".stl", ".obj", ".dae", ".gltf", ".glb")
COLOURED = {".obj": b"mtllib", ".dae": b"<library_materials", ".gltf": b'"materials"', ".glb": b'"materials"'}
CACHED_MESHES = 128  # files kept in memory: a robot names most of its meshes two or more times
DECOMPOSITION = {"threshold": 0.05, "max_convex_hull": 16, "preprocess_resolution": 30, "seed": 0}  # coacd's settings
COLLADA_UNUSED = (
    *("library_materials", "library_effects", "library_images", "bind_material", "library_animations"),
    *("library_cameras", "library_lights", "instance_camera", "instance_light", "extra"),
)
GLTF_UNUSED = ("materials", "textures", "images", "samplers", "material", "animations", "skins", "cameras")
_CACHE_FORMAT = 1


def load_mesh(path, scale=(1.0, 1.0, 1.0), folders: Folders | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All triangles of a mesh file, each axis times `scale`; a mirroring scale reverses the order of the corners.

    A DAE's unit is applied and its up axis ignored, as in ROS. A glTF may name buffers beside it, inside `folders`.
    Raises `ModelError` for a missing, broken, empty or too large file, or if the extra that reads it is not installed.
    """
    path = pathlib.Path(path)
    scale = np.asarray(scale, float)
    if scale.shape != (3,) or not np.isfinite(scale).all() or (scale == 0).any():
        raise ModelError(f"{path}: scale {scale.tolist()} of a mesh must be three finite numbers, none of them 0")
    if path.suffix.lower() not in SUFFIXES:
        raise ModelError(f"{path}: meshes are read from {', '.join(SUFFIXES)}, not from {path.suffix or 'no suffix'!r}")
    try:
        found = path.stat()
    except (OSError, ValueError):
        raise ModelError(f"{path}: no such mesh file") from None
    allowed = tuple(str(folder) for folder in (Folders(path) if folders is None else folders).allowed)
    vertices, faces = _read(str(path), found.st_mtime_ns, found.st_size, allowed)
    vertices = vertices * scale
    if not np.abs(vertices).max() < 1e9:
        raise ModelError(f"{path}: vertices as far as {np.abs(vertices).max():g} m from the origin; check the scale")
    return vertices, faces[:, ::-1] if np.prod(scale) < 0 else faces


def has_colours(path: pathlib.Path) -> bool:
    """Whether a mesh file defines materials, which are not read."""
    word = COLOURED.get(path.suffix.lower())
    return word is not None and path.stat().st_size <= MAX_MESH_BYTES and word in read_bytes(path, MAX_MESH_BYTES)


@functools.lru_cache(maxsize=CACHED_MESHES)
def _read(name: str, time: int, size: int, allowed: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    try:
        import trimesh
    except ImportError:
        raise ModelError(f"{name}: reading meshes needs trimesh: pip install 'warpsim[mesh]'") from None
    path = pathlib.Path(name)
    kind, data, unit, resolver = path.suffix.lower()[1:], read_bytes(path, MAX_MESH_BYTES), 1.0, None
    if kind == "dae":
        data, unit = _collada_shapes(data, path)
    elif kind == "obj":
        data = _obj_shapes(data)
    elif kind == "stl":
        _check_solids(data, path)
    elif kind in ("gltf", "glb"):
        data = _gltf_shapes(data, kind, path)
        resolver = _Buffers(path, allowed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about colours and textures
            scene = trimesh.load_scene(io.BytesIO(data), file_type=kind, resolver=resolver, **_options(kind))
        _check_copies(scene, path)
        parts = [(np.asarray(g.vertices, float), np.asarray(g.faces, int)) for g in _placed(scene, trimesh)]
    except ModelError as error:
        raise ModelError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except ImportError as error:
        raise ModelError(f"{path}: reading it needs {error.name or error}: pip install 'warpsim[mesh]'") from None
    except (Exception, RecursionError) as error:  # each reader raises errors of its own types
        message = " ".join(str(error).split())[:200]
        raise ModelError(f"{path}: not a {kind.upper()} mesh: {type(error).__name__} {message}") from None
    parts = [(v, f) for v, f in parts if len(f)]
    if not parts:
        raise ModelError(f"{path}: the mesh has no triangles")
    if any(v.shape[1:] != (3,) or f.shape[1:] != (3,) for v, f in parts):
        raise ModelError(f"{path}: vertices of a mesh have three coordinates, and faces three corners")
    starts = np.cumsum([0, *(len(v) for v, _ in parts)])
    vertices = np.concatenate([v for v, _ in parts]) * unit
    faces = np.concatenate([f + start for (_, f), start in zip(parts, starts, strict=False)])
    if not np.isfinite(vertices).all() or faces.min() < 0 or faces.max() >= len(vertices):
        raise ModelError(f"{path}: the mesh has vertices that are not finite, or faces without them")
    used, faces = np.unique(faces, return_inverse=True)
    vertices, faces = vertices[used], faces.reshape(-1, 3)
    vertices.setflags(write=False)
    faces.setflags(write=False)
    return vertices, faces


def _options(kind: str) -> dict:
    return {"maintain_order": True, "skip_materials": True} if kind == "obj" else {}


def _check_copies(scene, path) -> None:
    """Refuse a scene with too many vertices before any copy is made; a mesh counts once per node that shows it."""
    sizes = {name: len(getattr(mesh, "vertices", ())) for name, mesh in scene.geometry.items()}
    shown = sum(sizes[scene.graph[node][1]] for node in scene.graph.nodes_geometry)
    total = max(shown, sum(sizes.values()))
    if total > MAX_MESH_VERTICES:
        raise ModelError(f"{path}: {total} vertices with all copies, more than {MAX_MESH_VERTICES}; simplify the mesh")


def _placed(scene, trimesh):
    """The meshes of a scene in the scene's frame, one copy per node that shows it."""
    for node in scene.graph.nodes_geometry:
        transform, geometry = scene.graph[node]
        mesh = scene.geometry[geometry]
        if isinstance(mesh, trimesh.Trimesh):
            yield mesh.copy().apply_transform(transform)


def _collada_shapes(data: bytes, path) -> tuple[bytes, float]:
    """A DAE without materials and other elements that are not read, and its unit [m].

    Materials are not drawn, and a broken reference to one hides its mesh.
    """
    root, unit = parse_xml(data, path), 1.0
    _check_instances(root, path)
    for parent in list(root.iter()):
        for child in parent:
            if _tag(child) == "unit" and _tag(parent) == "asset":
                unit = _positive(child.get("meter", "1"), f"{path}: <unit meter>")
        parent[:] = [child for child in parent if _tag(child) not in COLLADA_UNUSED]
    return xml.tostring(root), unit


def _tag(element) -> str:
    """The tag of an element, without its namespace."""
    return element.tag.rpartition("}")[2]


def _check_instances(root, path) -> None:
    """Refuse a DAE whose nodes, through `instance_node`, expand to too many: n levels of two instances are 2^n.

    The reader copies the corners of a geometry to every node that shows it, so the corners are counted here. If several
    elements have the same name, the largest counts.
    """
    named: dict[tuple[str, str], list] = {}
    for element in root.iter():
        kind = _tag(element)
        if kind in ("node", "geometry"):
            named.setdefault((kind, f"#{element.get('id')}"), []).append(element)
    sizes: dict[int, tuple[float, float]] = {}  # nodes and corners

    def size(element, depth: int) -> tuple[float, float]:
        if depth > MAX_XML_DEPTH:
            raise ModelError(f"{path}: nodes nested, or instanced in one another, more than {MAX_XML_DEPTH} deep")
        if id(element) not in sizes:
            total = [(1.0, 0.0)]
            for child in element:
                tag, url = _tag(child), child.get("url")
                if tag == "node":
                    total.append(size(child, depth + 1))
                elif tag == "instance_node":
                    total.append(largest([size(e, depth + 1) for e in named.get(("node", url), ())]))
                elif tag == "instance_geometry":
                    total.append(largest([drawn(e) for e in named.get(("geometry", url), ())]))
            sizes[id(element)] = sum(n for n, _ in total), sum(c for _, c in total)
        return sizes[id(element)]

    def drawn(geometry) -> tuple[float, float]:
        if id(geometry) not in sizes:
            sizes[id(geometry)] = 0.0, _corners(geometry)
        return sizes[id(geometry)]

    def largest(found) -> tuple[float, float]:
        return max((n for n, _ in found), default=0.0), max((c for _, c in found), default=0.0)

    scenes = [size(e, 0) for e in root.iter() if _tag(e) == "visual_scene"]
    if sum(nodes for nodes, _ in scenes) > MAX_INSTANCES:
        raise ModelError(f"{path}: its nodes stand for more than {MAX_INSTANCES} instances")
    corners = sum(corners for _, corners in scenes)
    if corners > 3 * MAX_MESH_VERTICES:
        raise ModelError(
            f"{path}: {corners:.0f} corners of triangles with all copies, more than {3 * MAX_MESH_VERTICES}; simplify "
            "it"
        )


def _corners(geometry) -> float:
    """Upper bound of the corners of the triangles of a DAE's geometry, from the lengths of its index lists."""
    total = 0.0
    for element in (below for mesh in geometry for below in mesh):  # <geometry><mesh><triangles>, at no other depth
        kind = _tag(element)
        if kind in ("triangles", "polylist", "polygons"):
            inputs = [child.get("offset", "") for child in element if _tag(child) == "input"]
            stride = 1 + max((int(offset) for offset in inputs if offset.isdecimal() and len(offset) < 4), default=0)
            lists = [below.text or "" for child in element for below in (child, *child) if _tag(below) == "p"]
            total += sum(_words(text) for text in lists) / stride * (1 if kind == "triangles" else 3)
    return total


def _words(text: str) -> int:
    """The number of words in a text, counted without creating the words."""
    space = np.frombuffer(b" " + text.encode("utf-8", "replace"), np.uint8) <= 32
    return int(np.count_nonzero(space[:-1] & ~space[1:]))


def _gltf_shapes(data: bytes, kind: str, path) -> bytes:
    """A glTF without materials and pictures, which are not drawn; the reader would decode them at any size they claim.

    Refuses a file that asks for more memory than its vertices can fill, or whose vertices would be read as zeros.
    """
    text, rest = data, b""
    if kind == "glb":
        end = 20 + int.from_bytes(data[12:16], "little")
        text, rest = (data[20:end], data[end:]) if data[:4] == b"glTF" else (b"", b"")
    try:
        whole = json.loads(text)
        accessors = whole.get("accessors", [])
        _check_nodes(whole.get("nodes", []), path)
        counts = [int(accessor.get("count", 0)) for accessor in accessors]
        read = [
            index
            for mesh in whole.get("meshes", [])
            for part in mesh.get("primitives", [])
            if not part.get("extensions")  # the accessors of compressed primitives are filled by their own decoders
            for index in (part.get("attributes", {}).get("POSITION"), part.get("indices"))
            if isinstance(index, int) and 0 <= index < len(accessors)
        ]
        wrong = [(k, "is sparse" if "sparse" in accessors[k] else "has no bufferView") for k in read]
        wrong = [(k, why) for k, why in wrong if "sparse" in accessors[k] or "bufferView" not in accessors[k]]
        drawn = sum(counts[k] for k in read)  # an accessor counts once per primitive that names it
        for part in [whole, *(part for mesh in whole.get("meshes", []) for part in mesh.get("primitives", []))]:
            for name in GLTF_UNUSED:
                part.pop(name, None)
    except (ValueError, AttributeError, TypeError, IndexError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{path}: not a {kind.upper()} mesh: its JSON cannot be read") from None
    if max(counts, default=0) > 3 * MAX_MESH_VERTICES or min(counts, default=0) < 0:
        raise ModelError(f"{path}: an accessor has {max(counts)} elements, more than {3 * MAX_MESH_VERTICES}")
    if drawn > 6 * MAX_MESH_VERTICES:
        raise ModelError(
            f"{path}: its meshes have {drawn} points and corners, more than {6 * MAX_MESH_VERTICES}; simplify them"
        )
    if wrong:
        raise ModelError(
            f"{path}: accessor {wrong[0][0]} {wrong[0][1]}, which is not read; export it with plain buffers"
        )
    if accessors and not whole.get("bufferViews"):
        raise ModelError(f"{path}: it has accessors but no bufferViews; export it with plain buffers")
    text = json.dumps(whole).encode()
    if kind == "gltf":
        return text
    text += b" " * (-len(text) % 4)
    head = len(text).to_bytes(4, "little") + data[16:20] + text
    return data[:8] + (12 + len(head) + len(rest)).to_bytes(4, "little") + head + rest


def _check_nodes(nodes: list, path) -> None:
    """Refuse a glTF whose nodes do not form trees, or whose paths from the roots to the meshes are too long."""
    above = [-1] * len(nodes)
    for k, node in enumerate(nodes):
        for child in node.get("children", ()):
            if above[child] >= 0:
                raise ModelError(
                    f"{path}: node {child} hangs on node {above[child]} and on node {k}; glTF's nodes are trees, copy "
                    "it"
                )
            above[child] = k
    waiting, total = [(k, 1) for k in range(len(nodes)) if above[k] < 0], 0
    while waiting:
        k, depth = waiting.pop()
        total += depth * ("mesh" in nodes[k])
        if depth > MAX_XML_DEPTH:
            raise ModelError(f"{path}: nodes nested more than {MAX_XML_DEPTH} deep")
        waiting += [(child, depth + 1) for child in nodes[k].get("children", ())]
    if total > MAX_PATHS:
        raise ModelError(
            f"{path}: {total} nodes on the ways to its meshes, more than {MAX_PATHS}; join the meshes, or nest them "
            "less deep"
        )


def _check_solids(data: bytes, path) -> None:
    """Refuse a text STL with too many solids."""
    size = 84 + 50 * int.from_bytes(data[80:84], "little")
    solids = sum(1 for _ in re.finditer(rb"endsolid", data, re.IGNORECASE)) if len(data) != size else 0
    if solids > MAX_STL_SOLIDS:
        raise ModelError(f"{path}: {solids} solids, more than {MAX_STL_SOLIDS}; join them into one")


def _obj_shapes(data: bytes) -> bytes:
    """The vertices and faces of an OBJ, without materials, textures and normals, which are not drawn."""
    lines = [
        line.split()
        for line in data.replace(b"\\\n", b" ").splitlines()
        if line.lstrip()[:2] in (b"v ", b"v\t", b"f ", b"f\t")
    ]
    plain = (
        b" ".join(part.split(b"/", 1)[0] for part in parts) if parts[0] == b"f" else b" ".join(parts[:4])
        for parts in lines
    )
    return b"\n".join(plain) + b"\n"


def _positive(text: str, label: str) -> float:
    value = real_of(text)
    if not (np.isfinite(value) and value > 0):
        raise ModelError(f"{label} is {text[:40]!r}; it must be a positive number")
    return value


class _Buffers:
    """The files that `trimesh` may open beside a glTF: its `.bin` buffers inside the model's folders."""

    def __init__(self, path: pathlib.Path, allowed: tuple[str, ...]):
        self.path, self.allowed = path, [pathlib.Path(folder) for folder in allowed]

    def get(self, name: str) -> bytes:
        name = check_name(name.strip())
        if not name.lower().endswith(".bin"):
            raise FileNotFoundError(name)  # pictures, which are not drawn
        return read_bytes(first_inside(name, [self.path.parent / name], self.allowed), MAX_MESH_BYTES)

    __getitem__ = get

    def keys(self):
        return []

    def namespaced(self, namespace):
        return self


def cache_folder() -> pathlib.Path:
    """The folder of cached decompositions: `WARPSIM_CACHE_PATH`, else `warpsim` in the user's cache folder."""
    own = os.environ.get("WARPSIM_CACHE_PATH")
    if own:
        return pathlib.Path(own)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "warpsim"


def decompose(vertices, faces, **settings) -> list[tuple[np.ndarray, np.ndarray]]:
    """Convex parts [(vertices, faces)] that approximate a mesh, by `coacd` with `DECOMPOSITION` and `settings`.

    A mesh that was decomposed with the same settings before is read from the cache. Raises `ModelError` if the extra is
    not installed or coacd fails.
    """
    settings = DECOMPOSITION | settings
    vertices = np.ascontiguousarray(vertices, dtype=np.float64)
    faces = np.ascontiguousarray(faces, dtype=np.int32)
    key = hashlib.sha256(repr((_CACHE_FORMAT, sorted(settings.items()), vertices.shape, faces.shape)).encode())
    key.update(vertices.tobytes())
    key.update(faces.tobytes())
    path = cache_folder() / "convex" / f"{key.hexdigest()}.npz"
    parts = _cached(path)
    if parts is None:
        parts = _coacd(vertices, faces, settings)
        _keep(path, parts)
    return parts


def _coacd(vertices, faces, settings):
    try:
        import coacd
    except ImportError:
        raise ModelError("convex decomposition needs coacd: pip install 'warpsim[mesh]'") from None
    coacd.set_log_level("off")
    try:
        parts = coacd.run_coacd(coacd.Mesh(vertices, faces), **settings)
    except Exception as error:
        raise ModelError(f"coacd cannot decompose the mesh: {error}") from None
    hulls = []
    for points, _ in parts:
        try:
            hulls.append(convex_hull(points))
        except ModelError:
            continue  # a part without volume
    if not hulls:
        raise ModelError("coacd found no convex part in the mesh")
    return hulls


def _cached(path: pathlib.Path):
    """The parts cached at `path`; None if there is no such file or it is broken."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            count = len(stored.files) // 2
            parts = [(stored[f"vertices_{i}"].astype(float), stored[f"faces_{i}"].astype(int)) for i in range(count)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return parts or None


def _keep(path: pathlib.Path, parts) -> None:
    """Cache parts at `path`: write a file beside it and move it there, so that no reader finds half a file.

    A full disk is no error.
    """
    arrays = {}
    for i, (vertices, faces) in enumerate(parts):
        arrays |= {f"vertices_{i}": vertices, f"faces_{i}": faces}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            np.savez_compressed(file, **arrays)
        os.replace(file.name, path)
    except OSError:
        return


def convex_parts(vertices, faces, decomposed=False) -> list[tuple[np.ndarray, np.ndarray]]:
    """The shapes of a mesh in contact: its hull, or its convex parts if `decomposed` (True, or coacd's settings)."""
    if decomposed:
        return decompose(vertices, faces, **(decomposed if isinstance(decomposed, dict) else {}))
    return [convex_hull(vertices)]
