# SPDX-License-Identifier: Apache-2.0
"""Images on the geoms of a USD stage: the file of the UsdUVTexture behind `diffuseColor`, and texture coordinates.

Only files in the model's folder and packages, and in the stage's own package, are read. An image that cannot be read is
left out, with a line in the report that names its prim and file.
"""

import pathlib
import zipfile

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files import limits
from warpsim.files.safe_files import Folders, read_bytes
from warpsim.files.usd.usd_looks import displayed
from warpsim.model.looks import FIELDS, Texture, VisualMaterial, checked_texture
from warpsim.model.model import ReportLine

KEPT = "look"  # key in the data of a geom of our own export


class Looks:
    """The materials of the geoms of one stage; each image is read once."""

    def __init__(self, path: pathlib.Path, packages, root, report: list[ReportLine]):
        self.path, self.folders, self.report = path, Folders(path, packages, root), report
        self.images: dict[str, bytes | None] = {}

    def kept_material(self, shape) -> VisualMaterial | None:
        """The material that our export kept of a geom, with the stage's current image."""
        kept = shape.kept.get(KEPT)
        if not isinstance(kept, dict):
            return None
        texture = None
        if kept["texture"] is not None:
            name, kind = kept["texture"]
            shader = _image_shader(shape.prim)
            data = None if shader is None else self._image(shape.prim, shader)
            texture = (
                None if data is None else checked_texture(Texture(str(name), data, kind), f"{shape.prim.GetPath()}")
            )
        return VisualMaterial(texture, **{key: kept[key] for key in FIELDS})

    def kept_mesh(self, shape, material: VisualMaterial | None) -> tuple | None:
        """The mesh of such a geom; its written texture coordinates include the repetition, which is removed."""
        kept = shape.kept.get(KEPT)
        if shape.mesh is None or material is None or material.texture is None or not kept.get("uv"):
            return shape.mesh
        found = read_coordinates(shape.prim, shape.mesh[1])
        if found is None:
            return shape.mesh
        half = np.abs(shape.mesh[0]).max(axis=0)[:2] if material.uniform else np.ones(2)
        scale = np.array(material.repeat) * half
        uv = found.astype(float) / scale
        uv[..., 1] = 1.0 - (1.0 - found[..., 1].astype(float)) / scale[1]
        return (*shape.mesh, uv)

    def foreign(self, shape) -> tuple[VisualMaterial | None, tuple | None, dict]:
        """Material, mesh and colour of a foreign shape with an image."""
        shader = _image_shader(shape.prim)
        if shader is None:
            return None, shape.mesh, {}
        place = f"image on {shape.prim.GetPath()}"
        if shape.mesh is None:
            self.report.append(ReportLine(place, "ignored", "the shape is no mesh; it keeps its colour"))
            return None, shape.mesh, {}
        uv = read_coordinates(shape.prim, shape.mesh[1], _varname(shader))
        if uv is None:
            self.report.append(ReportLine(place, "ignored", "the mesh has no coordinates for it; it keeps its colour"))
            return None, shape.mesh, {}
        data = self._image(shape.prim, shader)
        if data is None:
            return None, shape.mesh, {}
        scale = shader.GetInput("scale").Get() if shader.GetInput("scale") else None
        colour = [1.0] * 3 if scale is None else displayed(np.clip(np.nan_to_num([*scale][:3]), 0.0, 1.0)).tolist()
        name = pathlib.PurePosixPath(_file(shader).path.replace("\\", "/")).stem or "image"
        return VisualMaterial(Texture(name, data)), (*shape.mesh, uv), {"rgba": (*colour, shape.rgba[3])}

    def _image(self, prim, shader) -> bytes | None:
        """The file of a UsdUVTexture; None, with a line in the report, if it cannot be read."""
        asset = _file(shader)
        key = asset.resolvedPath or asset.path
        if key not in self.images:
            self.images[key] = None
            try:
                data = self._read(asset)
                checked_texture(Texture("image", data), short(asset.path))
                self.images[key] = data
            except ModelError as error:
                self.report.append(
                    ReportLine(f"image of {shader.GetPath()}", "ignored", f"{error}; geoms keep their colour")
                )
        return self.images[key]

    def _read(self, asset) -> bytes:
        if not asset.path or not asset.resolvedPath:
            raise ModelError(f"{short(asset.path)}: no such file")
        outer, inside, inner = asset.resolvedPath.partition("[")
        found = self.path if pathlib.Path(outer) == self.path.absolute() else self.folders.first(asset.path, [outer])
        if not inside:
            return read_bytes(found, limits.MAX_MESH_BYTES)
        try:
            with zipfile.ZipFile(found) as archive:
                info = archive.getinfo(inner.removesuffix("]"))
                if info.file_size > limits.MAX_MESH_BYTES:
                    raise ModelError(
                        f"{short(asset.path)} has {info.file_size} bytes, more than {limits.MAX_MESH_BYTES}"
                    )
                return archive.read(info)
        except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise ModelError(f"{short(asset.path)}: {error}") from None


def _image_shader(prim):
    """The UsdUVTexture of the diffuse colour of the material bound to a prim, or None."""
    from pxr import UsdShade

    material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0]
    surface = material.ComputeSurfaceSource("")[0] if material else None
    return _source(surface.GetInput("diffuseColor") if surface else None, "UsdUVTexture")


def _source(given, kind: str):
    """The shader of type `kind` that an input is connected to, or None."""
    from pxr import UsdShade

    sources = given.GetConnectedSources()[0] if given else []
    for source in sources:
        shader = UsdShade.Shader(source.source.GetPrim())
        if shader and shader.GetIdAttr().Get() == kind:
            return shader
    return None


def _file(shader):
    """The asset of a UsdUVTexture; one with an empty path if there is none."""
    from pxr import Sdf

    given = shader.GetInput("file")
    found = given.Get() if given else None
    return found if isinstance(found, Sdf.AssetPath) else Sdf.AssetPath("")


def _varname(shader) -> str:
    """The primvar with the texture coordinates of a UsdUVTexture."""
    reader = _source(shader.GetInput("st"), "UsdPrimvarReader_float2")
    given = reader.GetInput("varname") if reader else None
    return str(given.Get() or "st") if given else "st"


def read_coordinates(prim, faces, name: str = "st") -> np.ndarray | None:
    """Texture coordinates `(m, 3, 2)` of the triangles `faces` of a polygon mesh; None if it has none that fit."""
    from pxr import UsdGeom

    from warpsim.files.usd.usd_shapes import fan

    mesh, primvar = UsdGeom.Mesh(prim), UsdGeom.PrimvarsAPI(prim).GetPrimvar(name)
    values = primvar.ComputeFlattened() if primvar else None
    if values is None or not len(values):
        return None
    values = np.array(values, np.float32).reshape(len(values), -1)
    counts = np.array(mesh.GetFaceVertexCountsAttr().Get(), np.int64)
    corners = np.array(mesh.GetFaceVertexIndicesAttr().Get(), np.int64)
    places = fan(counts, np.arange(len(corners)))
    if not np.array_equal(corners[places], faces):
        places = places[:, ::-1]
    if primvar.GetInterpolation() in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying):
        places = corners[places]
    fits = values.shape[1] == 2 and places.max() < len(values) and np.isfinite(values).all()
    return values[places] if fits and primvar.GetInterpolation() != UsdGeom.Tokens.constant else None
