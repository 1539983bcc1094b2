# SPDX-License-Identifier: Apache-2.0
"""A `mujoco.MjSpec` to a compiled model, by the rules of files (`mjcf_files`): MuJoCo opens nothing.

The user's spec stays as it is. In a copy, every mesh and height field that a spec names is looked for in its assets, then in the
model's folder and packages only, read, and handed to MuJoCo as bytes; textures and skins from files are left out.
"""

import hashlib
import os
import pathlib

import mujoco

from warpsim.checks import short
from warpsim.errors import ModelError
from warpsim.files import limits
from warpsim.files.mjcf.mjcf_counts import check_grid
from warpsim.files.mjcf.mjcf_files import MESH_SUFFIXES, MESHES, UNREAD
from warpsim.files.safe_files import Folders, check_name, read_bytes
from warpsim.model.model import ReportLine

CALLED = "mujoco.MjSpec"


def compile_spec(spec: mujoco.MjSpec, packages=None, root=None) -> tuple[mujoco.MjModel, list[ReportLine]]:
    """The model that MuJoCo compiles from a spec, and lines for the report. Raises `ModelError` naming the asset and the fix."""
    copy = spec.copy()
    folders = _folders(copy, packages, root)
    names: dict[str, str] = {}
    count = size = 0
    for kind, elements in (("mesh", copy.meshes), ("hfield", copy.hfields)):
        for element in (element for element in elements if element.file):
            name = element.file
            label = f"{CALLED}: {kind} {short(element.name or name)}"
            data, suffix = _asset(copy, element, folders, kind, label)
            opaque = f"ws{hashlib.sha256(data).hexdigest()}{suffix}"
            count, size = count + 1, size + len(data) * (opaque not in names)
            if count > limits.MAX_FILES or size > limits.MAX_TOTAL_BYTES:
                raise ModelError(
                    f"{CALLED}: names more than {limits.MAX_FILES} files, or files of more than "
                    f"{limits.MAX_TOTAL_BYTES} bytes together"
                )
            names[opaque] = name
            element.name = element.name or pathlib.PurePosixPath(name.replace("\\", "/")).stem
            element.file, element.content_type = opaque, ""
            copy.assets[opaque] = data
    report = _undrawn(copy)
    try:
        return copy.compile(), report
    except Exception as error:
        why = str(error)
        for opaque, name in names.items():
            why = why.replace(opaque, name)
        raise ModelError(f"{CALLED}: MuJoCo cannot compile it: {' '.join(why.split())}") from error


def _folders(spec, packages, root) -> Folders | None:
    """Where files may come from: the folder of the file that the spec was read from, or `root`; None without either."""
    if not spec.modelfiledir and root is None:
        if packages:
            raise ModelError(f"{CALLED}: it was read from no file, so packages need root= too")
        return None
    folder = pathlib.Path(spec.modelfiledir or os.fspath(root))
    return Folders(folder / "spec.xml", packages, root)


def _asset(spec, element, folders: Folders | None, kind: str, label: str) -> tuple[bytes, str]:
    """The bytes that an element names, and the suffix that says how MuJoCo reads them."""
    try:
        name = check_name(element.file)
        strip, directory = bool(spec.strippath), element.compiler.meshdir.replace("\\", "/")
        name = name.rpartition("/")[2] if strip else name
        placed = os.path.join(directory, name)
        known = next((key for key in (placed, name, element.file, name.rpartition("/")[2]) if key in spec.assets), None)
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
    except ModelError as error:
        raise ModelError(f"{label}: {error}") from None
    suffix = os.path.splitext(name)[1].lower()
    if kind == "hfield":
        suffix = ".png" if suffix == ".png" or element.content_type == "image/png" else ".hfield"
        check_grid(data, suffix, f"{label}: {short(name)[1:-1]}")
    elif suffix not in MESH_SUFFIXES:
        suffix = MESHES.get(element.content_type, suffix)
        if suffix not in MESH_SUFFIXES:
            raise ModelError(f"{label}: {short(name)} is no {', '.join(MESH_SUFFIXES)} file; convert it")
    return data, suffix


def _undrawn(spec) -> list[ReportLine]:
    """Leave out textures and skins that are in files; a grey pixel stands for each texture."""
    textures = [t for t in spec.textures if t.file or any(t.cubefiles)]
    skins = [s for s in spec.skins if s.file]
    for texture in textures:
        texture.file, texture.cubefiles = "", [""] * len(texture.cubefiles)
        texture.builtin, texture.width, texture.height = mujoco.mjtBuiltin.mjBUILTIN_FLAT, 1, 1
    for skin in skins:
        spec.delete(skin)
    found = (len(textures), "files of textures"), (len(skins), "files of skins")
    return [ReportLine(what, "ignored", f"{count}: {UNREAD}") for count, what in found if count]
