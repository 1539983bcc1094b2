# SPDX-License-Identifier: Apache-2.0
"""Read an MJCF model with everything it names into one text and a virtual file system; MuJoCo then reads no disk.

This module parses the XML once, and expands includes. Each file that the XML names is looked up only in the model's
folder and packages, and read here. MuJoCo gets its bytes under a name made of their hash, so that no other file on disk
can take its place. Sub-models are treated alike. Skins are not read, because they are not drawn. Textures are
`mjcf_textures.Source`s, and MuJoCo sees one pixel of each.

The place of a file follows MuJoCo's rule:

- an asset: in `meshdir` of the main file's folder, then beside the included file that names it
- an include: in the main file's folder, then beside the including file
- a sub-model: beside the file that names it
"""

import dataclasses
import hashlib
import os
import pathlib
import re
from collections.abc import Callable

from warpsim.base.checks import short
from warpsim.base.errors import ModelError, named
from warpsim.files import limits
from warpsim.files.mjcf.mjcf_counts import Sizes, check_grid, check_values, with_triangles
from warpsim.files.mjcf.mjcf_textures import Source, numbered
from warpsim.files.safe_files import Element, Folders, check_name, parse_xml, read_bytes
from warpsim.model.model import ReportLine

DIRECTORIES = ("meshdir", "texturedir", "assetdir")
MESHES = {"model/obj": ".obj", "model/stl": ".stl", "model/vnd.mujoco.msh": ".msh"}
MESH_SUFFIXES = tuple(MESHES.values())
DEFAULTS = "default classes of textures are not read; write their attributes out"
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
UNREAD = "not read: nothing draws them, and they cannot change the motion"


@dataclasses.dataclass
class Bundle:
    """The input for MuJoCo: the main file's text, files by name, lines for the report, and ways back to the source."""

    text: str
    assets: dict[str, bytes]
    report: list[ReportLine]
    names: dict[str, str]  # the user's name of each asset
    texts: list[str]  # of the sub-models, as given to MuJoCo
    places: list[list]  # for each text, sub-models first and the main text last: the element on each line
    label: Callable
    textures: list[Source]

    def explain(self, message: str, document: int = -1) -> str:
        """A message of MuJoCo about text `document`, with the user's file names and line numbers."""
        for opaque, name in self.names.items():
            message = message.replace(opaque, name)
        elements = self.places[document]

        def place(found):
            line = int(found.group(1))
            return self.label(elements[line - 1]) if 1 <= line <= len(elements) else found.group()

        return " ".join(re.sub(r"\bline (\d+)", place, message).split())


def bundle(path: pathlib.Path, packages=None, root=None) -> Bundle:
    """Read an MJCF file and all it names.

    Raises `ModelError` for a file that is outside, missing, too large or no XML.
    """
    reader = _Reader(path, Folders(path, packages, root))
    reader.document(path.absolute(), ())
    if reader.skins:
        reader.report.append(ReportLine("files of skins", "ignored", f"{reader.skins}: {UNREAD}"))
    *texts, main = reader.texts
    return Bundle(main, reader.assets, reader.report, reader.names, texts, reader.places, reader.label, reader.textures)


class _Reader:
    """Collects the files of one model."""

    def __init__(self, path: pathlib.Path, folders: Folders):
        self.path, self.folders = path, folders
        self.assets: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        self.report: list[ReportLine] = []
        self.places: list[list[Element]] = []
        self.texts: list[str] = []
        self.sizes = Sizes(self.where)
        self.documents: dict[str, str] = {}
        self.textures: list[Source] = []
        self.texture_defaults = False
        self.skins = self.files = self.bytes = self.xml_bytes = 0

    def document(self, file: pathlib.Path, parents: tuple) -> str:
        """Read the model in `file` and return its name in MuJoCo's virtual file system ("" for the main model)."""
        real = os.path.realpath(file)
        if real in parents:
            raise ModelError(f"{self.path}: {file.name} attaches itself, through its <model> assets; break the circle")
        if real in self.documents:
            return self.documents[real]
        if len(parents) > limits.MAX_NESTED_MODELS:
            raise ModelError(f"{self.path}: models attached in models more than {limits.MAX_NESTED_MODELS} deep")
        root = self.parsed(file, real)
        if root.tag != "mujoco":
            raise ModelError(f"{self.path}: {file.name} is no MJCF model: its root element is <{root.tag[:40]}>")
        _Includes(self, file).expand(root)
        self.directories(root, file.parent)
        check_values(root, self.where)
        defaults = (element for default in root.iter("default") for element in default.findall("texture"))
        self.texture_defaults = any(element.attrib.keys() - {"class"} for element in defaults)
        models = {}
        for parent in list(root.iter()):
            for child in parent:
                if child.tag == "model" and parent.tag == "asset":
                    models[child] = self.model(child, (*parents, real))
                else:
                    self.assets_of(parent, child)
            parent[:] = [child for child in parent if not _is_unread(child)]
        self.forget_skins(root)
        self.sizes.add(real, root, models)
        text, places = write(root)
        if parents:
            name = f"ws{hashlib.sha256(text.encode()).hexdigest()}.xml"
            self.assets[name], self.names[name] = text.encode(), file.name
        else:
            name = ""
        self.texts.append(text)
        self.places.append(places)
        self.documents[real] = name
        return name

    def parsed(self, file: pathlib.Path, real) -> Element:
        """The tree of one more XML file at the real path `real`, called `file`.

        `file` may be a link; the files it names may lie beside the link.
        """
        data = read_bytes(pathlib.Path(real), limits.MAX_XML_BYTES)
        self.xml_bytes += len(data)
        if self.xml_bytes > limits.MAX_XML_BYTES:
            raise ModelError(f"{self.path}: XML files of more than {limits.MAX_XML_BYTES} bytes together")
        return parse_xml(data, file)

    def label(self, element: Element) -> str:
        """The file and line of an element."""
        try:
            file = os.path.relpath(element.file, self.folders.file.parent)
        except ValueError:  # another drive
            file = str(element.file)
        return f"line {element.line} of {file}"

    def where(self, element: Element) -> str:
        """The name of an element in errors."""
        name = f" {element.get('name')[:80]!r}" if element.get("name") else ""
        return f"{self.path}: <{element.tag[:40]}>{name}, {self.label(element)}"

    def directories(self, root: Element, folder: pathlib.Path) -> None:
        """Move the compiler's directories out of the tree; as in MuJoCo, the last of several values counts."""
        mesh, texture, strip = "", "", False
        for compiler in root.findall("compiler"):
            mesh = compiler.get("meshdir", compiler.get("assetdir", mesh))
            texture = compiler.get("texturedir", compiler.get("assetdir", texture))
            strip = compiler.get("strippath", str(strip)).strip().lower() == "true"
            for key in (*DIRECTORIES, "strippath"):
                compiler.attrib.pop(key, None)
        self.mesh_folder, self.texture_folder = (folder / name.replace("\\", "/") for name in (mesh, texture))
        self.strip = strip

    def assets_of(self, parent: Element, element: Element) -> None:
        """Replace the files that an element names by bytes, or by nothing if they are only drawn."""
        if element.tag == "texture":
            self.texture(parent, element)
            return
        named = [key for key in element.attrib if key.startswith("file")]
        if not named:
            return
        if element.tag == "skin":
            self.skins += 1
        elif named == ["file"] and element.tag in ("mesh", "hfield", "flexcomp"):
            if element.get("file"):
                self.asset(element)
        else:
            raise ModelError(f"{self.where(element)}: unknown attribute {short(named[0])}")

    def texture(self, parent: Element, element: Element) -> None:
        """Replace a texture by one pixel under the same name; its colour is the number of its source."""
        files = [value for key, value in element.items() if key.startswith("file") and value]
        name = element.get("name") or (stem(element.get("file", "")) if files else "")
        kept = {key: element.get(key) for key in ("type", "class") if key in element.attrib}
        attributes, own = dict(element.attrib), self.texture_finder(element)
        element.attrib.clear()
        if parent.tag == "asset":
            element.attrib.update(kept | numbered(len(self.textures)) | ({"name": name} if name else {}))
            self.textures.append(Source(name, attributes, own, DEFAULTS if self.texture_defaults else ""))

    def texture_finder(self, element: Element) -> Callable[[str], bytes]:
        """A function that reads a file of a texture: from `texturedir`, else beside the file that names it."""
        folders, strip = (self.texture_folder, pathlib.Path(element.file).parent), self.strip

        def find(name: str) -> bytes:
            name = check_name(name)
            name = name.rpartition("/")[2] if strip else name
            return read_bytes(self.folders.first(name, [folder / name for folder in folders]), limits.MAX_MESH_BYTES)

        return find

    def forget_skins(self, root: Element) -> None:
        """Remove references to skins from tuples, because skins with files are removed."""
        if self.skins:
            for holder in root.iter("tuple"):
                holder[:] = [element for element in holder if element.get("objtype") != "skin"]

    def asset(self, element: Element) -> None:
        """Read the file of a mesh, height field or flex."""
        name = check_name(element.get("file"))
        name = name.rpartition("/")[2] if self.strip else name
        where = self.where(element)
        with named(where):
            beside = pathlib.Path(element.file).parent
            found = self.folders.first(name, [self.mesh_folder / name, beside / name])
            data = read_bytes(found, limits.MAX_FLEX_BYTES if element.tag == "flexcomp" else limits.MAX_MESH_BYTES)
        kind = element.attrib.pop("content_type", "")
        data, opaque = usable(element.tag, data, found.suffix.lower(), kind, where, name, self.report)
        if element.tag != "flexcomp" and not element.get("name"):
            element.set("name", stem(name))
        element.set("file", opaque)
        self.count(len(data), opaque not in self.assets)
        self.assets[opaque] = data
        self.names.setdefault(opaque, name)

    def count(self, size: int, new: bool) -> None:
        self.files, self.bytes = self.files + 1, self.bytes + size * new
        check_amount(self.path, self.files, self.bytes)

    def model(self, element: Element, parents: tuple) -> str:
        """Read a sub-model beside the file that names it; it must be MJCF, whatever its suffix and type."""
        with named(self.where(element)):
            name = check_name(element.get("file", ""))
            called = pathlib.Path(element.file).parent / name
            found = self.folders.first(name, [called])
        before = self.mesh_folder, self.texture_folder, self.strip
        self.count(found.stat().st_size, True)
        opaque = self.document(called, parents)
        self.mesh_folder, self.texture_folder, self.strip = before
        element.attrib.pop("content_type", None)
        element.set("file", opaque)
        return os.path.realpath(found)


class _Includes:
    """Expands the includes of one document."""

    def __init__(self, reader: _Reader, file: pathlib.Path):
        self.reader, self.main, self.done = reader, file, {os.path.normpath(file)}
        self.elements = 0

    def expand(self, element: Element, depth: int = 1) -> None:
        """Replace every `<include>` below an element by the children of the root of the included file."""
        if depth > limits.MAX_XML_DEPTH:
            raise ModelError(f"{self.reader.path}: elements nested more than {limits.MAX_XML_DEPTH} deep")
        children, element[:] = list(element), []
        self.elements += len(children)
        if self.elements > limits.MAX_ELEMENTS:
            raise ModelError(
                f"{self.reader.where(element)}: more than the limit of {limits.MAX_ELEMENTS} elements, {self.elements} "
                "so far; nothing that large is loaded"
            )
        for child in children:
            if child.tag == "include":
                inserted = self.included(child)
                self.expand(inserted, depth + 1)
                element.extend(inserted)
            else:
                self.expand(child, depth + 1)
                element.append(child)

    def included(self, element: Element) -> Element:
        where = self.reader.where(element)
        with named(where):
            name = check_name(element.get("file", ""))
            candidates = [self.main.parent / name, pathlib.Path(element.file).parent / name]
            found = self.reader.folders.first(name, candidates)
        if len(element):
            raise ModelError(f"{where}: has children")
        key = os.path.normpath(found)
        if key in self.done:
            raise ModelError(
                f"{where}: {short(name)} is included already, or includes itself; MuJoCo reads a file once"
            )
        self.done.add(key)
        if len(self.done) > limits.MAX_INCLUDES:
            raise ModelError(f"{self.reader.path}: includes more than {limits.MAX_INCLUDES} files")
        called = next(path for path in candidates if os.path.realpath(path) == str(found))
        root = self.reader.parsed(called, found)
        if not len(root):
            raise ModelError(f"{where}: {short(name)} is empty")
        return root


def write(root, indent: str = "") -> tuple[str, list]:
    """The text of a tree, with one element per line, and the elements in that order.

    With an `indent`, each level is indented and end tags have lines of their own.
    """
    lines, places, stack = [], [], [(root, False, "")]
    while stack:
        element, closed, margin = stack.pop()
        if closed:
            if indent:
                lines.append(f"{margin}</{element.tag}>")
            else:
                lines[-1] += f"</{element.tag}>"
            continue
        attributes = "".join(f" {key}={_quoted(value)}" for key, value in element.items())
        lines.append(f"{margin}<{element.tag}{attributes}{'' if len(element) else '/'}>")
        places.append(element)
        if len(element):
            stack.append((element, True, margin))
            stack.extend((child, False, margin + indent) for child in reversed(element))
    return "\n".join(lines), places


def _quoted(value: str) -> str:
    """An attribute's value in quotes, as of `xml.sax.saxutils.quoteattr`, which imports urllib and ssl."""
    text = value.translate(ESCAPES)
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace('"', "&quot;") + '"'


def usable(tag: str, data: bytes, suffix: str, content: str, where: str, name: str, report: list) -> tuple[bytes, str]:
    """The bytes of a mesh, height field or flex as MuJoCo may read them, and a file name whose suffix gives the format.

    If the bytes differ from the file's, the report gets a line. Raises `ModelError` for a file of another format.
    """
    if tag == "hfield":
        suffix = ".png" if suffix == ".png" or content == "image/png" else ".hfield"
        data = check_grid(data, suffix, f"{where}: {short(name)[1:-1]}")
    elif tag == "mesh":
        suffix = suffix if suffix in MESH_SUFFIXES else MESHES.get(content, suffix)
        if suffix not in MESH_SUFFIXES:
            raise ModelError(f"{where}: {short(name)} is no {', '.join(MESH_SUFFIXES)} file; convert it")
    else:
        suffix = suffix if suffix in MESH_SUFFIXES else ""
    data, count = with_triangles(data) if suffix == ".obj" else (data, 0)
    if count:
        why = f"{count} of more than 100 corners, cut into triangles about a corner"
        report.append(ReportLine(f"faces of {short(name)}", "mapped", why))
    return data, f"ws{hashlib.sha256(data).hexdigest()}{suffix}"


def check_amount(label, files: int, size: int) -> None:
    """Raise `ModelError` if a model names too many files or too many bytes."""
    if files > limits.MAX_FILES or size > limits.MAX_TOTAL_BYTES:
        raise ModelError(
            f"{label}: names more than {limits.MAX_FILES} files, or files of more than {limits.MAX_TOTAL_BYTES} bytes "
            "together"
        )


def _is_unread(element) -> bool:
    """Whether an element is a skin with a file, which is not read."""
    return element.tag == "skin" and any(key.startswith("file") for key in element.attrib)


def stem(name: str) -> str:
    """MuJoCo's name of an asset without a name: its file name without folder and suffix."""
    base = name.replace("\\", "/").rpartition("/")[2]
    return base.rpartition(".")[0] or base
