"""Mesh files to triangles: STL, OBJ, DAE and glTF through `trimesh`, and convex parts through `coacd` on request.

A mesh is `(vertices (n, 3) [m], faces (m, 3))`. Contact takes convex shapes, so a colliding mesh becomes its convex hull
or, decomposed, several hulls, hidden behind the real mesh that is drawn and does not touch. Decompositions take seconds
to minutes and are kept on disk in `WARPSIM_CACHE_PATH`, by default `~/.cache/warpsim`.
"""

import functools
import hashlib
import io
import json
import os
import pathlib
import tempfile
import warnings
import xml.etree.ElementTree as xml
import zipfile

import numpy as np

from warpsim.errors import ModelError
from warpsim.io.limits import MAX_MESH_BYTES, MAX_XML_DEPTH
from warpsim.io.safe_files import Folders, check_name, first_inside, parse_xml, read_bytes
from warpsim.model.mesh_mass import convex_hull

MAX_MESH_VERTICES = 4_000_000
MAX_INSTANCES = 100_000  # of nodes in a DAE
SUFFIXES = (".stl", ".obj", ".dae", ".gltf", ".glb")
CACHED_MESHES = 128  # files kept in memory: a robot names most of its meshes twice or more
DECOMPOSITION = {"threshold": 0.05, "max_convex_hull": 16, "preprocess_resolution": 30, "seed": 0}  # coacd's settings
COLLADA_UNUSED = (
    *("library_materials", "library_effects", "library_images", "bind_material", "library_animations"),
    *("library_cameras", "library_lights", "instance_camera", "instance_light", "extra"),
)
_CACHE_FORMAT = 1


def load_mesh(path, scale=(1.0, 1.0, 1.0), folders: Folders | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All triangles of a mesh file, each axis times `scale`; a mirroring scale turns the triangles round.

    A DAE's unit is applied, its up axis ignored, as ROS does. glTF may name buffers beside it, inside `folders`.
    Raises `ModelError` for a missing, broken, empty or too large file, or without the extra that reads it.
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
    elif kind in ("gltf", "glb"):
        _check_gltf(data, kind, path)
        resolver = _Buffers(path, allowed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about colours and textures
            scene = trimesh.load_scene(io.BytesIO(data), file_type=kind, resolver=resolver, **_options(kind))
        if sum(len(g.vertices) for g in scene.geometry.values()) > MAX_MESH_VERTICES:
            raise ModelError(f"{path}: more than {MAX_MESH_VERTICES} vertices; simplify the mesh")
        parts = [(np.asarray(g.vertices, float), np.asarray(g.faces, int)) for g in _placed(scene, trimesh)]
    except ModelError as error:
        raise ModelError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except ImportError as error:
        raise ModelError(f"{path}: reading it needs {error.name or error}: pip install 'warpsim[mesh]'") from None
    except (Exception, RecursionError) as error:  # every reader has errors of its own
        message = " ".join(str(error).split())[:200]
        raise ModelError(f"{path}: not a {kind.upper()} mesh: {type(error).__name__} {message}") from None
    parts = [(v, f) for v, f in parts if len(f)]
    if not parts:
        raise ModelError(f"{path}: the mesh has no triangles")
    if sum(len(v) for v, _ in parts) > MAX_MESH_VERTICES:
        raise ModelError(f"{path}: more than {MAX_MESH_VERTICES} vertices; simplify the mesh")
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


def _placed(scene, trimesh):
    """The meshes of a scene, every one as often as the scene shows it, in the scene's frame."""
    for node in scene.graph.nodes_geometry:
        transform, geometry = scene.graph[node]
        mesh = scene.geometry[geometry]
        if isinstance(mesh, trimesh.Trimesh):
            yield mesh.copy().apply_transform(transform)


def _collada_shapes(data: bytes, path) -> tuple[bytes, float]:
    """A DAE without what nothing here draws (materials, of which broken references hide their mesh), and its unit [m]."""
    root, unit = parse_xml(data, path), 1.0
    _check_instances(root, path)
    for parent in list(root.iter()):
        for child in list(parent):
            tag = child.tag.rpartition("}")[2]
            if tag in COLLADA_UNUSED:
                parent.remove(child)
            elif tag == "unit" and parent.tag.rpartition("}")[2] == "asset":
                unit = _positive(child.get("meter", "1"), f"{path}: <unit meter>")
    return xml.tostring(root), unit


def _check_instances(root, path) -> None:
    """Refuse a DAE whose nodes, through `instance_node`, stand for absurdly many: n levels of two are 2^n."""
    nodes = {f"#{e.get('id')}": e for e in root.iter() if e.tag.rpartition("}")[2] == "node" and e.get("id")}
    sizes: dict[int, float] = {}

    def size(element, depth: int) -> float:
        if depth > MAX_XML_DEPTH:
            raise ModelError(f"{path}: nodes nested, or instanced in one another, more than {MAX_XML_DEPTH} deep")
        if id(element) not in sizes:
            total = 1.0
            for child in element:
                tag = child.tag.rpartition("}")[2]
                if tag == "node":
                    total += size(child, depth + 1)
                elif tag == "instance_node" and child.get("url") in nodes:
                    total += size(nodes[child.get("url")], depth + 1)
            sizes[id(element)] = total
        return sizes[id(element)]

    scenes = [e for e in root.iter() if e.tag.rpartition("}")[2] == "visual_scene"]
    if sum(size(scene, 0) for scene in scenes) > MAX_INSTANCES:
        raise ModelError(f"{path}: its nodes stand for more than {MAX_INSTANCES} instances")


def _check_gltf(data: bytes, kind: str, path) -> None:
    """Refuse a glTF that asks for more memory than it has vertices to fill."""
    text = data
    if kind == "glb":
        text = data[20 : 20 + int.from_bytes(data[12:16], "little")] if data[:4] == b"glTF" else b""
    try:
        accessors = json.loads(text).get("accessors", [])
        counts = [int(accessor.get("count", 0)) for accessor in accessors]
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ModelError(f"{path}: not a {kind.upper()} mesh: its JSON cannot be read") from None
    if max(counts, default=0) > 3 * MAX_MESH_VERTICES or min(counts, default=0) < 0:
        raise ModelError(f"{path}: an accessor has {max(counts)} elements, more than {3 * MAX_MESH_VERTICES}")


def _obj_shapes(data: bytes) -> bytes:
    """The vertices and faces of an OBJ, without the materials, textures and normals that nothing here draws."""
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
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not (np.isfinite(value) and value > 0):
        raise ModelError(f"{label} is {text[:40]!r}; it must be a positive number")
    return value


class _Buffers:
    """What `trimesh` may open beside a glTF: its `.bin` buffers, inside the model's folders."""

    def __init__(self, path: pathlib.Path, allowed: tuple[str, ...]):
        self.path, self.allowed = path, [pathlib.Path(folder) for folder in allowed]

    def get(self, name: str) -> bytes:
        name = check_name(name.strip())
        if not name.lower().endswith(".bin"):
            raise FileNotFoundError(name)  # pictures: nothing here draws them
        return read_bytes(first_inside(name, [self.path.parent / name], self.allowed), MAX_MESH_BYTES)

    __getitem__ = get

    def keys(self):
        return []

    def namespaced(self, namespace):
        return self


def cache_folder() -> pathlib.Path:
    """Where decompositions are kept: `WARPSIM_CACHE_PATH`, else `warpsim` in the user's cache folder."""
    own = os.environ.get("WARPSIM_CACHE_PATH")
    if own:
        return pathlib.Path(own)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "warpsim"


def decompose(vertices, faces, **settings) -> list[tuple[np.ndarray, np.ndarray]]:
    """Convex parts [(vertices, faces)] that together approximate a mesh, by `coacd` with `DECOMPOSITION` and `settings`.

    The result is read from the cache where the same mesh was decomposed with the same settings before. Raises
    `ModelError` without the extra or where coacd fails.
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
    """Parts kept at `path`, None where there are none or they are broken."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            count = len(stored.files) // 2
            parts = [(stored[f"vertices_{i}"].astype(float), stored[f"faces_{i}"].astype(int)) for i in range(count)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return parts or None


def _keep(path: pathlib.Path, parts) -> None:
    """Write beside the destination and move there, so that no reader finds half a file; a full disk is no error."""
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
    """What stands for a mesh in contact: its hull, or where `decomposed` (True, or coacd's settings) its convex parts."""
    if decomposed:
        return decompose(vertices, faces, **(decomposed if isinstance(decomposed, dict) else {}))
    return [convex_hull(vertices)]
