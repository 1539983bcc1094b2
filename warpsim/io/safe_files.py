"""What an importer may read: XML without entities and within limits, and files inside the model's folder or packages.

A robot file is data from somebody else. It may ask for `../../etc/passwd`, for a link out of its folder, or define
entities that grow to gigabytes. Everything here answers with a `ModelError` that says what was asked for and the fix.
"""

import os
import pathlib
import re
import xml.etree.ElementTree as xml
from xml.parsers import expat

from warpsim.errors import ModelError

MAX_XML_BYTES = 64 * 2**20
MAX_XML_ELEMENTS = 1_000_000
MAX_XML_DEPTH = 256
LAYOUT_FOLDERS = ("urdf", "robots", "robot", "xml", "mjcf", "usd", "models", "model")  # one level inside a package


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
        raise ModelError(f"{path}: no such file")
    if len(data) > limit:
        raise ModelError(f"{path}: larger than {limit} bytes, the limit for this kind of file")
    return data


def parse_xml(data: bytes, name) -> xml.Element:
    """Root element of an XML document. Entity declarations, absurd depth or size raise `ModelError`.

    Comments that contain `--`, which XML forbids and robot files are full of, are accepted.
    """
    try:
        return _parse(data, name)
    except expat.ExpatError as error:
        first = error
    if b"<![CDATA[" not in data:
        data = re.sub(rb"<!--.*?-->", lambda found: b"\n" * found.group().count(b"\n"), data, flags=re.DOTALL)
        try:
            return _parse(data, name)
        except expat.ExpatError:
            pass
    raise ModelError(f"{name}: XML that cannot be parsed: {first}") from None


def _parse(data: bytes, name) -> xml.Element:
    builder, parser = xml.TreeBuilder(), expat.ParserCreate()
    depth = count = 0

    def start(tag, attributes):
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MAX_XML_DEPTH or count > MAX_XML_ELEMENTS:
            raise ModelError(f"{name}: XML with more than {MAX_XML_DEPTH} levels or {MAX_XML_ELEMENTS} elements")
        builder.start(tag, attributes)

    def end(tag):
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def entity(*declaration):
        raise ModelError(f"{name}: XML that declares the entity {declaration[0]!r}; remove it, none is read")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.EntityDeclHandler = entity
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


def model_folder(path: pathlib.Path) -> pathlib.Path:
    """The folder whose files belong to the model in `path`.

    The nearest folder above that has a ROS `package.xml`; else the file's own folder, or its parent where it is called
    "urdf", "robots", ... as in the layout of a ROS package.
    """
    folder = path.absolute().parent.resolve()
    for above in (folder, *folder.parents[:4]):
        if (above / "package.xml").is_file():
            return above
    return folder.parent if folder.name.lower() in LAYOUT_FOLDERS and folder.parent != folder.parent.parent else folder


class Folders:
    """Finds the files that a model names, inside its folder and packages only.

    `packages` {name: path} are declared packages. Others are folders above the model's file that have the package's
    name, or a `package.xml` with that name, in themselves or in a folder beside them.
    """

    def __init__(self, path: pathlib.Path, packages=None):
        self.file = path.absolute()
        self.root = model_folder(path)
        self.packages: dict[str, pathlib.Path | None] = {}
        for name, folder in dict(packages or {}).items():
            folder = pathlib.Path(folder).absolute().resolve()
            if not folder.is_dir():
                raise ModelError(f"packages={{{name!r}: ...}}: {folder} is not a folder")
            self.packages[name] = folder

    def find(self, name: str) -> pathlib.Path:
        """Real path of the file called `name`: relative, `package://…`, `file://…` or absolute.

        Raises `ModelError` where it does not exist or lies outside.
        """
        if not name or "\0" in name or len(name) > 4096:
            raise ModelError(f"the file name {name[:80]!r} is empty, too long or not a name")
        scheme, separator, rest = name.partition("://")
        if not separator:
            return self._inside(name, [self.file.parent / name, self.root / name], [self.root])
        if scheme == "file":
            return self._inside(name, [pathlib.Path("/" + rest.lstrip("/"))], [self.root])
        if scheme not in ("package", "model"):
            raise ModelError(f"{name!r}: files come from the model's folder or package://, not from {scheme}://")
        package, _, inner = rest.lstrip("/").partition("/")
        folder = self._package(package)
        if folder is not None:
            return self._inside(name, [folder / inner], [folder])
        try:
            return self._inside(name, [self.root / inner], [self.root])
        except ModelError:
            raise ModelError(
                f"{name!r}: no file in the model's folder {self.root}, and no package {package!r} above it; give "
                f"packages={{{package!r}: path}}"
            ) from None

    def _inside(self, name: str, candidates, roots) -> pathlib.Path:
        allowed = [*roots, *(folder for folder in self.packages.values() if folder is not None)]
        outside = None
        for candidate in candidates:
            try:
                real = pathlib.Path(os.path.realpath(candidate))
                inside = any(real.is_relative_to(root) for root in allowed)
                if inside and real.is_file():
                    return real
            except (OSError, ValueError) as error:
                raise ModelError(f"{name[:200]!r}: {error}") from None
            outside = outside if inside else real
        if outside is not None:
            raise ModelError(
                f"{name!r} lies outside the model's folder {roots[0]}; nothing there is read: move it inside, or declare "
                "its folder with packages={name: path}"
            )
        raise ModelError(f"{name!r}: no such file under {roots[0]}")

    def _package(self, name: str) -> pathlib.Path | None:
        """Folder of a package, None where there is none."""
        if name in self.packages:
            return self.packages[name]
        found = None
        if name not in ("", ".", ".."):
            for above in self.file.parent.resolve().parents[::-1] + (self.file.parent.resolve(),):
                if len(above.parts) > 1 and (above.name == name or _package_name(above) == name):
                    found = above
                elif _package_name(above / name) is not None:
                    found = above / name
        self.packages[name] = None if found is None else pathlib.Path(os.path.realpath(found))
        return self.packages[name]


def _package_name(folder: pathlib.Path) -> str | None:
    """The `<name>` in a folder's ROS `package.xml`, None without one."""
    path = folder / "package.xml"
    try:
        return (read_xml(path).findtext("name") or "").strip() if path.is_file() else None
    except (ModelError, OSError):
        return None
