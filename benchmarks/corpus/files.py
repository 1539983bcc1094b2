# SPDX-License-Identifier: Apache-2.0
"""The files of the corpus: which are models, and which use what is refused by name (flexes, plugins, signed distance fields).

A folder is an unpacked package. A file counts when its root is <mujoco> and MuJoCo compiles it where it lies; fragments that only other
files include do not compile, or compile and count like any other.
"""

import dataclasses
import pathlib
import re

import mujoco

REFUSED_BY_NAME = ("flex", "plugin", "sdf")


@dataclasses.dataclass(frozen=True)
class CorpusFile:
    """One file of a package: `root` is the folder that its assets may come from."""

    package: str
    path: pathlib.Path
    root: pathlib.Path

    @property
    def name(self) -> str:
        """Path within the package."""
        return str(self.path.relative_to(self.root))


def corpus_files(folders) -> list[CorpusFile]:
    """All MJCF files below the folders, by package and path."""
    found = []
    for folder in sorted(map(pathlib.Path, folders)):
        for path in sorted(folder.rglob("*.xml")):
            if re.search(r"<mujoco\b", path.read_text(errors="replace")):
                found.append(CorpusFile(folder.name, path, folder))
    return found


def compiled(path: str) -> mujoco.MjModel | str:
    """The model, or why MuJoCo compiles none."""
    try:
        return mujoco.MjModel.from_xml_path(path)
    except ValueError as error:
        return " ".join(str(error).split())


def outside(m: mujoco.MjModel) -> list[str]:
    """What the model uses of that which stays refused by name."""
    uses = (m.nflex > 0, m.nplugin > 0, bool((m.geom_type == mujoco.mjtGeom.mjGEOM_SDF).any()))
    return [name for name, used in zip(REFUSED_BY_NAME, uses, strict=True) if used]
