# SPDX-License-Identifier: Apache-2.0
"""Compile a `mujoco.MjSpec` by the rules for files (`mjcf_files`): MuJoCo opens no file.

The user's spec stays unchanged. In a copy, each mesh and height field from a file is looked up in the spec's assets,
then only in the model's folder and packages. It is read here and given to MuJoCo as bytes. MuJoCo sees one pixel for
each texture from a file (`mjcf_textures`). Skins from files are left out.
"""

import functools
import os
import pathlib

import mujoco

from warpsim.base.checks import short
from warpsim.base.errors import ModelError, named
from warpsim.files import limits
from warpsim.files.mjcf.mjcf_files import UNREAD, check_amount, stem, usable
from warpsim.files.mjcf.mjcf_textures import SIDES, Source, numbered
from warpsim.files.safe_files import Folders, check_name, read_bytes
from warpsim.model.model import ReportLine

CALLED = "mujoco.MjSpec"
TYPES = ("2d", "cube", "skybox")  # mjtTexture


def compile_spec(
    spec: mujoco.MjSpec, packages=None, root=None
) -> tuple[mujoco.MjModel, list[ReportLine], list[Source]]:
    """Compile a spec with MuJoCo. Returns the model, lines for the report, and its textures.

    Raises `ModelError` that names the asset and the fix.
    """
    copy = spec.copy()
    folders = _folders(copy, packages, root)
    names: dict[str, str] = {}
    count, size, report = 0, 0, []
    for kind, elements in (("mesh", copy.meshes), ("hfield", copy.hfields)):
        for element in (element for element in elements if element.file):
            name, label = element.file, f"{CALLED}: {kind} {short(element.name or element.file)}"
            with named(label):
                data, suffix = _read(copy, element.compiler.meshdir, folders, name)
            data, opaque = usable(kind, data, suffix, element.content_type, label, name, report)
            count, size = count + 1, size + len(data) * (opaque not in names)
            check_amount(CALLED, count, size)
            names[opaque] = name
            element.name = element.name or stem(name)
            element.file, element.content_type = opaque, ""
            copy.assets[opaque] = data
    textures = _textures(copy, folders)
    report += _undrawn(copy)
    try:
        return copy.compile(), report, textures
    except Exception as error:
        why = str(error)
        for opaque, name in names.items():
            why = why.replace(opaque, name)
        raise ModelError(f"{CALLED}: MuJoCo cannot compile it: {' '.join(why.split())}") from error


def _folders(spec, packages, root) -> Folders | None:
    """The folders of the spec's files: that of the file the spec was read from, or `root`; None without either."""
    if not spec.modelfiledir and root is None:
        if packages:
            raise ModelError(f"{CALLED}: it was read from no file, so packages need root= too")
        return None
    folder = pathlib.Path(spec.modelfiledir or os.fspath(root))
    return Folders(folder / "spec.xml", packages, root)


def _read(spec, directory: str, folders: Folders | None, file: str) -> tuple[bytes, str]:
    """Bytes and suffix of a file that a spec names: from its assets, else from its directory or the model's folder."""
    name = check_name(file)
    name = name.rpartition("/")[2] if spec.strippath else name
    placed = os.path.join(directory.replace("\\", "/"), name)
    known = next((key for key in (placed, name, file, name.rpartition("/")[2]) if key in spec.assets), None)
    if known is not None:
        data = bytes(spec.assets[known])
        if len(data) > limits.MAX_MESH_BYTES:
            raise ModelError(f"{short(name)} has {len(data)} bytes, more than the limit of {limits.MAX_MESH_BYTES}")
    elif folders is None:
        raise ModelError(
            f"{short(name)} is not in spec.assets; put its bytes there, or give root=, the folder of the files"
        )
    else:
        found = folders.first(name, [folders.file.parent / placed, folders.root / name])
        data, name = read_bytes(found, limits.MAX_MESH_BYTES), found.name
    return data, os.path.splitext(name)[1].lower()


def _undrawn(spec) -> list[ReportLine]:
    """Remove skins from files, with a line for the report."""
    skins = [s for s in spec.skins if s.file]
    for skin in skins:
        spec.delete(skin)
    return [ReportLine("files of skins", "ignored", f"{len(skins)}: {UNREAD}")] if skins else []


def _textures(spec, folders: Folders | None) -> list[Source]:
    """The textures from files; in the spec, one pixel replaces each."""
    found: list[Source] = []
    for texture in spec.textures:
        if not (texture.file or any(texture.cubefiles)):
            if texture.width == 1 and texture.builtin != mujoco.mjtBuiltin.mjBUILTIN_NONE:
                texture.width = texture.height = 2  # the same picture; a single pixel would mean a texture from a file
            continue
        attributes = {"file": texture.file} if texture.file else dict(zip(SIDES, texture.cubefiles, strict=True))
        attributes |= {"type": TYPES[int(texture.type)], "nchannel": str(texture.nchannel)}
        attributes |= {key: str(bool(getattr(texture, key))).lower() for key in ("hflip", "vflip")}
        if attributes["type"] != "2d" and texture.file:
            attributes |= {
                "gridsize": " ".join(map(str, texture.gridsize)),
                "gridlayout": "".join(texture.gridlayout[i] for i in range(12)).strip("\0"),
            }
        name = texture.name or stem(texture.file)
        find = functools.partial(_image, spec, str(texture.compiler.texturedir), folders)
        pixel = numbered(len(found))
        found.append(Source(name, attributes, find))
        texture.name, texture.file, texture.cubefiles = name, "", [""] * len(texture.cubefiles)
        texture.builtin, texture.width, texture.height = mujoco.mjtBuiltin.mjBUILTIN_FLAT, 1, 1
        texture.nchannel, texture.content_type = 3, ""
        texture.rgb1 = texture.rgb2 = [float(x) for x in pixel["rgb1"].split()]
    return found


def _image(spec, directory: str, folders: Folders | None, name: str) -> bytes:
    """The bytes of an image that a texture names."""
    return _read(spec, directory, folders, name)[0]
