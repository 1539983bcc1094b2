"""Which files an MJCF model reads: MuJoCo opens whatever the XML names, so it is looked through first.

Every attribute whose name begins with "file" is joined with the model's folder and with each `meshdir`, `texturedir` and
`assetdir` in it; a file found that way outside the model's folder and packages is refused. Includes and sub-models are
followed. The configuration of MuJoCo plugins is not looked into: no plugin is loaded by warpsim.
"""

import os
import pathlib

from warpsim.errors import ModelError
from warpsim.io.safe_files import Folders, read_xml

MAX_INCLUDES = 500
DIRECTORIES = ("meshdir", "texturedir", "assetdir")


def check_files(path: pathlib.Path, packages=None) -> None:
    """Raises `ModelError` where an MJCF file would read outside its folder and `packages`, or is no readable XML."""
    folders = Folders(path, packages)
    allowed = [folders.root, *folders.packages.values()]
    main = path.absolute().parent
    waiting, seen = [path.absolute()], set()
    while waiting:
        file = waiting.pop()
        if os.path.realpath(file) in seen:
            continue
        seen.add(os.path.realpath(file))
        if len(seen) > MAX_INCLUDES:
            raise ModelError(f"{path}: includes more than {MAX_INCLUDES} files")
        root = read_xml(file)
        bases = {main, file.parent}
        for compiler in root.iter("compiler"):
            bases |= {main / compiler.get(key) for key in DIRECTORIES if compiler.get(key)}
            bases |= {file.parent / compiler.get(key) for key in DIRECTORIES if compiler.get(key)}
        for element in root.iter():
            for key, name in element.items():
                if not key.startswith("file") or not name:
                    continue
                found = _inside(path, element.tag, name, bases, allowed)
                if element.tag in ("include", "model"):
                    waiting += [
                        candidate for candidate in found if candidate.suffix.lower() in (".xml", ".mjcf", ".urdf")
                    ]


def _inside(path, tag: str, name: str, bases, allowed) -> list[pathlib.Path]:
    """The files that `name` may be; raises for one that lies outside."""
    if "\0" in name or len(name) > 4096:
        raise ModelError(f"{path}: <{tag}> has a file name that is none: {name[:60]!r}")
    found = []
    for base in bases:
        for candidate in (base / name, base / os.path.basename(name)):
            try:
                real = pathlib.Path(os.path.realpath(candidate))
                exists = real.exists()
            except (OSError, ValueError) as error:
                raise ModelError(f"{path}: <{tag}> file {name[:200]!r}: {error}") from None
            if not exists:
                continue
            if not any(real.is_relative_to(folder) for folder in allowed):
                raise ModelError(
                    f"{path}: <{tag}> names {name!r}, which lies outside the model's folder {allowed[0]}; move it inside, "
                    "or declare its folder with packages={name: path}"
                )
            if real.is_file():
                found.append(candidate)
    return found
