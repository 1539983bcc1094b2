# SPDX-License-Identifier: Apache-2.0
"""Safe reading for the importers: XML without entities and within limits, and files in the model's folder or packages.

A robot file is data from somebody else. It may ask for `../../etc/passwd`, for a link out of its folder, or define
entities that grow to gigabytes. Everything here answers with a `ModelError` that says what was asked for and the fix.
"""

import math
import os
import pathlib
import re
import warnings
import xml.etree.ElementTree as xml
from xml.parsers import expat

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.limits import MAX_XML_ATTRIBUTES, MAX_XML_BYTES, MAX_XML_DEPTH, MAX_XML_ELEMENTS

PACKAGE_LEVELS = 4  # parent folders of a file in which its `package.xml` is looked for
LONGEST_NAME = 4096
CLOSED = {b"<!--": b"-->", b"<![CDATA[": b"]]>"}
OPENED = re.compile(rb"<!--|<!\[CDATA\[")
UNSPACED = re.compile(rb"""(=\s*(?:"[^"<>]*"|'[^'<>]*'))(?=[A-Za-z_])""")
AROUND = b" \t\r\n\0\x1a"  # spaces, and characters that editors of other systems end a file with
BEFORE = re.compile(rb"(?:[ \t\r\n\0]|\xef\xbb\xbf)*")  # and byte order marks


class Element(xml.Element):
    """An XML element with the `file` and `line` where it was written."""

    __slots__ = ("file", "line")


def left_out(source, refused: list[str], unsupported: str, stacklevel: int) -> None:
    """Raise `ModelError` for features that cannot be simulated, or warn of them if `unsupported` is "report"."""
    if refused and unsupported == "error":
        raise ModelError(f"{'; '.join(refused)} (unsupported='report' loads the model without them)")
    if refused:
        why = "Everything else is; see model.report"
        warnings.warn(f"{source}: {'; '.join(refused)}. {why}", stacklevel=stacklevel + 1)


def read_bytes(path: pathlib.Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; raises `ModelError` for anything else."""
    try:
        data = None
        if path.is_file():
            with open(path, "rb") as file:
                data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if data is None:
        raise ModelError(f"{path}: {missing(path)}")
    if len(data) > limit:
        raise ModelError(f"{path}: larger than {limit} bytes, the limit for this kind of file")
    return data


def missing(path: pathlib.Path) -> str:
    """The reason why a path that is no regular file is not read."""
    if path.is_dir():
        return "a folder, not a file"
    return "not a regular file but a pipe, a socket or a device" if path.exists() else "no such file"


def parse_xml(data: bytes, name) -> xml.Element:
    """Root element of an XML document. Raises `ModelError` for a DOCTYPE with content, and for too much depth or size.

    Only this parser reads a robot file's text. Other parsers get a text written anew from its tree, so that no two of
    them can read one file differently. Elements know their `file` (`name`) and `line`.

    The parser accepts comments that contain `--` (XML forbids them, but they are common in robot files), attributes
    without a space between them, and blank lines, comments, NULs or byte order marks around the document.
    """
    try:
        return _parse(data, name)
    except expat.ExpatError as error:
        first = error
    try:
        return _parse(*_mended(data, name))
    except (expat.ExpatError, UnicodeDecodeError):
        raise ModelError(f"{name}: XML that cannot be parsed: {first}") from None


def _mended(data: bytes, name) -> tuple:
    """Arguments of `_parse` for a repaired text; its lines keep their numbers.

    The text has no comments, a space between any two attributes, and nothing around the document. Every step takes time
    proportional to the text, whatever it contains.
    """
    encoding = None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data, encoding = data.decode("utf-16").encode(), "utf-8"
    parts, at = [], 0
    while found := OPENED.search(data, at):
        end = data.find(CLOSED[found.group()], found.end())
        if end < 0:
            break  # the parser raises the error
        end += len(CLOSED[found.group()])
        parts.append(UNSPACED.sub(rb"\1 ", data[at : found.start()]))
        whole = data[found.start() : end]
        parts.append(b"\n" * whole.count(b"\n") if found.group() == b"<!--" else whole)
        at = end
    data = b"".join([*parts, UNSPACED.sub(rb"\1 ", data[at:])]).rstrip(AROUND)
    before = BEFORE.match(data).end()
    data, lines = data[before:], b"\n" * data.count(b"\n", 0, before)
    head = data.find(b"?>") + 2 if data.startswith(b"<?xml") else 0
    return data[:head] + lines + data[head:], name, encoding


def _parse(data: bytes, name, encoding: str | None = None) -> xml.Element:
    builder, parser = xml.TreeBuilder(element_factory=Element), expat.ParserCreate(encoding)
    depth = count = 0

    def start(tag, attributes):
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MAX_XML_DEPTH or count > MAX_XML_ELEMENTS:
            raise ModelError(f"{name}: XML with more than {MAX_XML_DEPTH} levels or {MAX_XML_ELEMENTS} elements")
        if len(attributes) > MAX_XML_ATTRIBUTES:
            raise ModelError(
                f"{name}: line {parser.CurrentLineNumber}: <{tag[:40]}> with {len(attributes)} attributes, more than "
                f"the limit of {MAX_XML_ATTRIBUTES}"
            )
        element = builder.start(tag, attributes)
        element.file, element.line = name, parser.CurrentLineNumber

    def end(tag):
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def doctype(kind, system, public, declares):
        if declares or system or public:
            raise ModelError(f"{name}: a DOCTYPE that may declare an entity or a default; remove it, none is read")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except (ValueError, LookupError) as error:  # an unknown encoding
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{name}: XML that cannot be parsed: {error}") from None
    return builder.close()


def read_xml(path: pathlib.Path) -> xml.Element:
    """Root element of an XML file, by the rules of `parse_xml`."""
    return parse_xml(read_bytes(path, MAX_XML_BYTES), path)


def root_tag(path: pathlib.Path) -> str:
    """Tag of the root element of an XML file, even if the rest of the file is broken."""
    data, found = read_bytes(path, MAX_XML_BYTES), []

    def start(tag, attributes):
        found.append(tag)
        raise StopIteration

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    try:
        parser.Parse(data, True)
    except StopIteration:
        return found[0]
    except (expat.ExpatError, ValueError, LookupError):
        pass
    return parse_xml(data, path).tag


def model_folder(path: pathlib.Path) -> pathlib.Path:
    """The model's folder for the file `path`: that of the nearest ROS `package.xml` above, else the file's own."""
    folder = path.absolute().parent.resolve()
    for above in (folder, *folder.parents[:PACKAGE_LEVELS]):
        if above != above.parent and (above / "package.xml").is_file():
            return above
    return folder


def check_name(name: str) -> str:
    """A file name with forward slashes. Raises `ModelError` for a name that is empty, too long or contains NUL."""
    if not name or "\0" in name or len(name) > LONGEST_NAME:
        raise ModelError(f"the file name {name[:80]!r} is empty, too long or not a name")
    return name.replace("\\", "/")


def real_of(text: str) -> float:
    """The number in a text; NaN if the text is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


class Folders:
    """Finds the files that a model names, only inside one root folder and the declared packages.

    `root` is the caller's, else the model's folder (`model_folder`), never a folder that the model's own paths lead to.
    `packages` {name: path} are further folders, and resolve `package://name/...`.
    """

    def __init__(self, path: pathlib.Path, packages=None, root=None):
        self.file = path.absolute()
        self.root = model_folder(path) if root is None else _folder(root, "root=")
        self.packages = {
            name: _folder(folder, f"packages={{{name!r}: ...}}: ") for name, folder in dict(packages or {}).items()
        }

    @property
    def allowed(self) -> list[pathlib.Path]:
        """The folders from which files may be read."""
        return [self.root, *self.packages.values()]

    def find(self, name: str) -> pathlib.Path:
        """Real path of the file called `name`: relative, `package://…`, `file://…` or absolute.

        Raises `ModelError` if the file does not exist or lies outside the allowed folders.
        """
        scheme, separator, rest = check_name(name).partition("://")
        if not separator:
            return self.first(name, [self.file.parent / scheme, self.root / scheme])
        if scheme == "file":
            return self.first(name, [pathlib.Path("/" + rest.lstrip("/"))])
        if scheme not in ("package", "model"):
            raise ModelError(f"{short(name)}: files come from the model's folder or package://, not from {scheme}://")
        package, _, inner = rest.lstrip("/").partition("/")
        if package in self.packages:
            return self.first(name, [self.packages[package] / inner])
        try:
            return self.first(name, self._in_package(package, inner))
        except ModelError:
            raise ModelError(
                f"{short(name)}: no file in the model's folder {self.root}, and no package {short(package)} in it; "
                f"give packages={{{short(package)}: path}} or root="
            ) from None

    def _in_package(self, package: str, inner: str) -> list[pathlib.Path]:
        """The paths, all inside the root, at which the file `inner` of a package may be."""
        folder, above = self.file.parent.resolve(), [self.root]
        if folder.is_relative_to(self.root):
            above = [folder, *(f for f in folder.parents if f.is_relative_to(self.root))]
        named = [f for f in above if package and package in (f.name, _package_name(f))]
        beside = [f / package for f in above] if package not in ("", ".", "..") else []
        return [f / inner for f in (*named, *beside, self.root)]

    def first(self, name: str, candidates) -> pathlib.Path:
        """Real path of the first candidate that is a file; see `first_inside`."""
        return first_inside(name, candidates, self.allowed)


def first_inside(name: str, candidates, allowed) -> pathlib.Path:
    """Real path of the first candidate that is a file. Raises `ModelError` if it lies outside the folders `allowed`."""
    outside, why = False, "no such file"
    for candidate in candidates:
        try:
            real = pathlib.Path(os.path.realpath(candidate))
            inside, exists = any(real.is_relative_to(folder) for folder in allowed), real.is_file()
        except (OSError, ValueError) as error:
            raise ModelError(f"{short(name)}: {error.strerror if isinstance(error, OSError) else error}") from None
        if inside and exists:
            return real
        if inside and why == "no such file" and not real.is_dir():
            why = missing(real)
        outside = outside or not inside
        if exists:
            break
    if outside:
        raise ModelError(
            f"{short(name)} lies outside the model's folder {allowed[0]}; nothing there is read: move it inside, give "
            "root=, a folder that holds all files of the model, or declare its folder with packages={name: path}"
        )
    raise ModelError(f"{short(name)}: {why} under {allowed[0]}")


def _folder(path, label: str) -> pathlib.Path:
    """Real path of a folder given by the caller."""
    try:
        folder = pathlib.Path(os.path.realpath(os.fspath(path) or "''"))
    except (TypeError, ValueError) as error:
        raise ModelError(f"{label}{str(path)[:80]!r} is not a path: {error}") from None
    if not folder.is_dir():
        raise ModelError(f"{label}{folder} is not a folder")
    return folder


def _package_name(folder: pathlib.Path) -> str | None:
    """The `<name>` in a folder's ROS `package.xml`; None if there is none."""
    path = folder / "package.xml"
    try:
        return (read_xml(path).findtext("name") or "").strip() if path.is_file() else None
    except (ModelError, OSError):
        return None
