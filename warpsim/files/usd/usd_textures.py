# SPDX-License-Identifier: Apache-2.0
"""Images on geoms in a stage: files beside it, texture coordinates `st` on meshes, and the surfaces that show them.

Each image is one file, however many geoms use it. A mesh with a cube map of six squares is cut along the edges of the
cube, so that each triangle lies on one square.
"""

import hashlib
import os
import pathlib
import re

import numpy as np

from warpsim.files.output import check_file, check_folder, replacing
from warpsim.files.texture_map import texture_coordinates
from warpsim.model.looks import Texture, VisualMaterial, material_of

ST = "st"


class Images:
    """The image files of one stage, in the folder `folder` beside it."""

    def __init__(self, folder: str):
        self.folder = folder
        self.names: dict[Texture, str] = {}

    def path(self, texture: Texture) -> str:
        """The path of an image, relative to the stage; the file is written with the stage."""
        if texture not in self.names:
            plain = re.sub(r"[^A-Za-z0-9_-]+", "_", texture.name)[:60].strip("_") or "image"
            digest = hashlib.sha256(texture.data).hexdigest()[:8]  # so that no other image takes its place
            self.names[texture] = f"{plain}_{digest}{texture.suffix}"
        return f"./{self.folder}/{self.names[texture]}"

    def write(self, place: pathlib.Path, mode: int | None = None) -> None:
        """Write the files into the folder inside `place`; a file with the same content stays."""
        if not self.names:
            return
        folder = check_folder(place / self.folder)
        folder.mkdir(exist_ok=True)
        for texture, name in self.names.items():
            file = folder / name
            if file.is_file() and file.stat().st_size == len(texture.data) and file.read_bytes() == texture.data:
                continue
            with replacing(check_file(file)) as new:
                new.write_bytes(texture.data)
                if mode is not None:
                    os.chmod(new, mode)


def has_image(model, geom: int) -> bool:
    """Whether a geom has an image that is drawn."""
    material = material_of(model, geom)
    return material is not None and material.texture is not None


def write_coordinates(prim, model, geom: int) -> None:
    """Give the mesh that draws a geom its texture coordinates, as the primvar `st`."""
    from pxr import Sdf, UsdGeom, Vt

    mesh = UsdGeom.Mesh(prim)
    points = np.array(mesh.GetPointsAttr().Get(), float)
    faces = np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(len(mesh.GetFaceVertexCountsAttr().Get()), -1)
    found = texture_coordinates(model, geom, points[faces])
    primvar = UsdGeom.PrimvarsAPI(prim).CreatePrimvar(
        ST, Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.faceVarying
    )
    primvar.Set(Vt.Vec2fArray.FromNumpy(np.ascontiguousarray(found.reshape(-1, 2), np.float32)))


def shine(shader, material: VisualMaterial) -> None:
    """Set the roughness and the further inputs of a UsdPreviewSurface from a material.

    MuJoCo's `shininess` s is the exponent 128 s of Blinn's highlight. The roughness (2 / (128 s + 2))^(1/4) gives a
    highlight of the same width. `reflectance` becomes a clear coat.
    """
    from pxr import Sdf

    exponent = 128.0 * material.shininess
    roughness = (2.0 / (exponent + 2.0)) ** 0.25 if material.roughness is None else material.roughness
    values = {"roughness": roughness, "metallic": material.metallic, "clearcoat": material.reflectance or None}
    values["clearcoatRoughness"] = 0.03 if material.reflectance else None
    for name, value in values.items():
        if value is not None:
            shader.CreateInput(name, Sdf.ValueTypeNames.Float).Set(float(min(value, 1.0)))


def show_image(stage, surface, shader, path: str, material: VisualMaterial, color) -> None:
    """Use an image, times a linear colour (3,), as the diffuse and emissive colour of a preview surface."""
    from pxr import Gf, Sdf, UsdShade

    parent = surface.GetPath()
    reader = UsdShade.Shader.Define(stage, parent.AppendChild("Coordinates"))
    reader.CreateIdAttr("UsdPrimvarReader_float2")
    reader.CreateInput("varname", Sdf.ValueTypeNames.String).Set(ST)
    found = reader.CreateOutput("result", Sdf.ValueTypeNames.Float2)
    for name, key, share in (("Image", "diffuseColor", 1.0), ("Glow", "emissiveColor", min(material.emission, 1.0))):
        if share == 0.0:
            continue
        image = UsdShade.Shader.Define(stage, parent.AppendChild(name))
        image.CreateIdAttr("UsdUVTexture")
        image.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(Sdf.AssetPath(path))
        image.CreateInput("sourceColorSpace", Sdf.ValueTypeNames.Token).Set("sRGB")
        for wrap in ("wrapS", "wrapT"):
            image.CreateInput(wrap, Sdf.ValueTypeNames.Token).Set("repeat")
        scale = share * np.asarray(color, float)
        if not np.allclose(scale, 1.0):
            image.CreateInput("scale", Sdf.ValueTypeNames.Float4).Set(Gf.Vec4f(*scale.tolist(), 1.0))
        image.CreateInput("st", Sdf.ValueTypeNames.Float2).ConnectToSource(found)
        rgb = image.CreateOutput("rgb", Sdf.ValueTypeNames.Float3)
        shader.CreateInput(key, Sdf.ValueTypeNames.Color3f).ConnectToSource(rgb)
