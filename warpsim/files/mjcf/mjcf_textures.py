# SPDX-License-Identifier: Apache-2.0
"""Textures and materials of a compiled MJCF model, as a `Model` keeps them.

MuJoCo reads no image: it gets one pixel for each texture of a file, in a colour that encodes the texture's number here
(`numbered`). A texture that a geom uses is then read separately: a PNG as it is, any other by a MuJoCo model of its
own. A texture that cannot be read is left out, with a line in the report that names it and the file: the motion of a
model does not depend on it.
"""

import dataclasses
import struct
import typing
import xml.etree.ElementTree as xml
from collections.abc import Callable

import mujoco
import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files import limits
from warpsim.files.texture_map import project
from warpsim.model.builder import ModelBuilder
from warpsim.model.looks import PLAIN, Texture, VisualMaterial, encode_png
from warpsim.model.model import GeomType, ReportLine
from warpsim.model.pictures import plain_png, png_size

COLOUR = 1  # mjTEXROLE_RGB: the role of the image that gives the colour
KINDS = {0: "2d", 1: "cube"}  # mjtTexture; 2 is a skybox
# the six squares of a cube map below each other, as MuJoCo keeps them
SIX = {"gridsize": "6 1", "gridlayout": "RLUDFB"}
SIDES = ("fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")


@dataclasses.dataclass
class Source:
    """A texture as in its file: the MJCF attributes, and `find`, which reads a file that they name.

    `find` raises `ModelError` if it cannot.
    """

    name: str
    attributes: dict[str, str]
    find: Callable[[str], bytes]
    why: str = ""  # why it cannot be read


def numbered(index: int) -> dict[str, str]:
    """Attributes of the one pixel that replaces texture `index`; the number is in its colour."""
    colour = " ".join(f"{(byte + 0.25) / 255:.9g}" for byte in struct.pack(">I", index + 1)[1:])
    return {"builtin": "flat", "width": "1", "height": "1", "nchannel": "3", "rgb1": colour, "rgb2": colour}


def _number(m, index: int) -> int:
    """The number in the one pixel of a texture; -1 for a texture of more pixels."""
    if m.tex_width[index] != 1 or m.tex_height[index] not in (1, 6) or m.tex_nchannel[index] != 3:
        return -1
    start = int(m.tex_adr[index])
    return int.from_bytes(m.tex_data[start : start + 3].tobytes(), "big") - 1


def read_texture(source: Source) -> Texture:
    """The image of a source. Raises `ModelError` with what is wrong."""
    if source.why:
        raise ModelError(source.why)
    attributes = dict(source.attributes)
    kind = attributes.get("type", "cube")
    files = {key: value for key, value in attributes.items() if key.startswith("file") and value}
    built = attributes.get("builtin", "none") != "none"
    if built:
        files = {}
        _check_pixels(6.0 if kind != "2d" else 1.0, *(_count(attributes, key) for key in ("width", "height")))
    assets: dict[str, bytes] = {}
    for k, (key, name) in enumerate(files.items()):
        data = source.find(name)
        size = png_size(data)
        if size == (0, 0):
            raise ModelError(f"{short(name)} is no PNG image; convert it")
        _check_pixels(1.0, *size)
        shown = plain_png(data, short(name))
        attributes[key], assets[f"image_{k}.png"] = f"image_{k}.png", shown
    flipped = any(attributes.get(key, "false").strip() == "true" for key in ("hflip", "vflip"))
    if list(files) == ["file"] and not flipped and (kind == "2d" or (kind == "cube" and _is_cube(attributes, *size))):
        return Texture(source.name, data, kind)
    attributes = {key: value for key, value in attributes.items() if key not in ("class", "content_type", "name")}
    root = xml.Element("mujoco")
    xml.SubElement(xml.SubElement(root, "asset"), "texture", attributes | {"name": "t"})
    try:
        m = mujoco.MjModel.from_xml_string(xml.tostring(root, encoding="unicode"), assets)
    except Exception as error:
        why = " ".join(str(error).split())
        for k, name in enumerate(files.values()):
            why = why.replace(f"image_{k}.png", name)
        raise ModelError(why) from None
    return compiled_texture(m, 0, source.name)


def _is_cube(attributes: dict, width: int, height: int) -> bool:
    """Whether an image is one square for all sides, or six squares below each other in MuJoCo's order."""
    grid = attributes.get("gridsize", "1 1").split()
    layout = attributes.get("gridlayout", "").strip(" .")
    ours = grid == SIX["gridsize"].split() and layout == SIX["gridlayout"] and height == 6 * width
    return ours or (grid == ["1", "1"] and height == width)


def _count(attributes: dict, key: str) -> float:
    try:
        return float(attributes.get(key, "1"))
    except ValueError:
        raise ModelError(f"{key} is {short(attributes[key])}; give a whole number") from None


def _check_pixels(sides: float, width: float, height: float) -> None:
    count = 6.0 * width * width if sides > 1 else width * height
    if not 0 < count <= limits.MAX_PIXELS:
        raise ModelError(f"{width:g} x {height:g} pixels, more than the limit of {limits.MAX_PIXELS} or none")


def compiled_texture(m, index: int, name: str) -> Texture:
    """The image of a texture in a compiled model. Raises `ModelError` for a skybox or a wrong number of channels."""
    start, width, height = int(m.tex_adr[index]), int(m.tex_width[index]), int(m.tex_height[index])
    channels, kind = int(m.tex_nchannel[index]), KINDS.get(int(m.tex_type[index]))
    if kind is None or channels not in (3, 4):
        raise ModelError("is a skybox" if kind is None else f"has {channels} channels; images have 3 or 4")
    pixels = m.tex_data[start : start + width * height * channels].reshape(height, width, channels)
    return Texture(name, encode_png(pixels), kind)


class Images:
    """The images of a compiled model, each read when a geom first uses it, with lines for the report."""

    def __init__(self, m, sources: typing.Sequence[Source]):
        self.m, self.sources = m, sources
        self.known: dict[int, Texture | None] = {}
        self.lines: list[ReportLine] = []
        self.bytes = 0

    def get(self, index: int) -> Texture | None:
        """The image of texture `index` of the model; None for a negative index, or if it cannot be read."""
        if index >= 0 and index not in self.known:
            self.known[index] = self._read(index)
        return self.known.get(index)

    def _read(self, index: int) -> Texture | None:
        name, number = f"texture_{index}", _number(self.m, index)
        try:
            if self.sources and 0 <= number < len(self.sources):
                source = self.sources[number]
                name = source.name or name
                texture = read_texture(source)
            else:
                name = mujoco.mj_id2name(self.m, mujoco.mjtObj.mjOBJ_TEXTURE, index) or name
                texture = compiled_texture(self.m, index, name)
            self.bytes += len(texture.data)
            if self.bytes > limits.MAX_TOTAL_BYTES:
                raise ModelError(f"images of more than {limits.MAX_TOTAL_BYTES} bytes together")
            return texture._replace(name=name)
        except ModelError as error:
            self.lines.append(ReportLine(f"texture {name!r}", "ignored", f"{error}; its geoms keep their colour"))
            return None


def add_looks(b: ModelBuilder, m, images) -> None:
    """Give the first `m.ngeom` geoms of a builder, those of `m`, their materials with images, and add report lines."""
    materials: dict[tuple, VisualMaterial] = {}
    for g, geom in enumerate(b.geoms[: m.ngeom]):
        index = int(m.geom_matid[g])
        if index < 0:
            continue
        if (index,) not in materials:
            materials[(index,)] = _material(m, index, images.get(int(m.mat_texid[index][COLOUR])))
        material = materials[(index,)]
        if material.texture is not None and material.texture.kind == "2d" and geom.type == GeomType.MESH:
            material = _on_mesh(b, m, g, material)
        geom.material = None if material == PLAIN else material
    found = [texture for texture in images.known.values() if texture is not None]
    if found:
        b.report.append(ReportLine("textures", "used", f"{len(found)}: drawn by USD, see docs/usd_export.md"))
    left = m.ntex - len(images.known)
    if left:
        b.report.append(ReportLine("textures that no geom has", "ignored", f"{left}: a skybox is not drawn"))
    others = int((np.delete(m.mat_texid, COLOUR, axis=1) >= 0).sum()) if m.nmat else 0
    if others:
        b.report.append(ReportLine("layers of materials", "ignored", f"{others}: of the layers the colour is drawn"))
    b.report.extend(images.lines)


def _material(m, index: int, texture: Texture | None) -> VisualMaterial:
    """A material of the model; values that are negative or not finite are replaced by what MuJoCo draws."""
    repeat = tuple(float(x) if 0 < x < np.inf else 1.0 for x in m.mat_texrepeat[index])
    values = {
        key: float(getattr(m, f"mat_{key}")[index]) for key in ("emission", "specular", "shininess", "reflectance")
    }
    values = {key: round(value, 7) if 0 <= value < np.inf else 0.0 for key, value in values.items()}
    for key in ("metallic", "roughness"):
        value = float(getattr(m, f"mat_{key}")[index])
        values[key] = round(value, 7) if 0 <= value < np.inf else None
    return VisualMaterial(
        texture, repeat if texture else (1.0, 1.0), bool(m.mat_texuniform[index] and texture), **values
    )


def _on_mesh(b: ModelBuilder, m, g: int, material: VisualMaterial) -> VisualMaterial:
    """Give the mesh of a geom its texture coordinates; returns the material with the matching repetition."""
    geom, d, half = b.geoms[g], int(m.geom_dataid[g]), np.array(m.geom_size[g, :2])
    mesh = b.meshes[geom.mesh]
    if m.mesh_texcoordadr[d] >= 0:
        faces = m.mesh_facetexcoord[m.mesh_faceadr[d] : m.mesh_faceadr[d] + m.mesh_facenum[d]]
        uv = m.mesh_texcoord[m.mesh_texcoordadr[d] + faces].astype(float)
        uv[..., 1] = 1.0 - uv[..., 1]  # in MuJoCo 0 is the top of the image
        repeat = tuple(float(x) for x in np.array(material.repeat) * (half if material.uniform else 1.0))
    else:
        uv, repeat = project(mesh.vertices[mesh.faces], half, material), (1.0, 1.0)
    b.meshes[geom.mesh] = mesh._replace(uv=uv.astype(np.float32))
    return dataclasses.replace(material, repeat=repeat, uniform=False)
