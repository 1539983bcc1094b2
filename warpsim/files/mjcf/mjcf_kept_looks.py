# SPDX-License-Identifier: Apache-2.0
"""What MJCF cannot express of how geoms look, kept in the JSON of `mjcf_kept`.

The format is {"geoms": {name: {"mjcf": row, "value": index, "uv": array}}, "materials", "textures"}.
"""

import base64

import numpy as np

from warpsim.files.kept_json import pack, unpack
from warpsim.model.looks import Texture, VisualMaterial, look_row, look_table, looks_of
from warpsim.model.model import GeomType


def row(material: VisualMaterial | None) -> list | None:
    """A material as JSON, with the name of its image instead of the image."""
    return material and look_row(material, None if material.texture is None else material.texture.name)


def keep_looks(b, read, kept: dict) -> None:
    """Keep the materials, and the texture coordinates of meshes, that came back different."""
    geoms: dict = {}
    materials: dict[VisualMaterial | None, int] = {}
    for geom, other in zip(b.geoms, read.geoms, strict=True):
        if geom.material != other.material:
            index = materials.setdefault(geom.material, len(materials))
            geoms[geom.name] = {"mjcf": row(other.material), "value": index}
        if geom.type == GeomType.MESH:
            uv, was = b.meshes[geom.mesh].uv, read.meshes[other.mesh].uv
            if (uv is None) != (was is None) or (uv is not None and not np.array_equal(uv, was)):
                geoms.setdefault(geom.name, {})["uv"] = None if uv is None else pack(uv)
    if not geoms:
        return
    images, rows = look_table(list(materials))
    textures = [[t.name, t.kind, base64.b64encode(t.data).decode()] for t in images]
    kept["looks"] = {"geoms": geoms, "materials": rows, "textures": textures}


def restore_looks(b, kept: dict) -> None:
    """Restore what `keep_looks` kept, for geoms whose material in the file is still the one that was written."""
    data = kept.get("looks")
    if data is None:
        return
    images = [Texture(str(name), base64.b64decode(text, validate=True), kind) for name, kind, text in data["textures"]]
    materials = looks_of(images, data["materials"])
    for geom in b.geoms:
        entry = data["geoms"].get(geom.name)
        if entry is None or ("mjcf" in entry and row(geom.material) != entry["mjcf"]):
            continue
        if "value" in entry:
            geom.material = materials[entry["value"]]
        if "uv" in entry and geom.type == GeomType.MESH:
            mesh = b.meshes[geom.mesh]
            uv = None if entry["uv"] is None else unpack(entry["uv"]).astype(np.float32)
            if uv is None or uv.shape == (*mesh.faces.shape, 2):
                b.meshes[geom.mesh] = mesh._replace(uv=uv)
