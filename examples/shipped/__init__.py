"""A drone with motors at sites, and a MyoSuite arm under its muscles, each in a few lines.

MyoSuite's files come from its package, unpacked, not installed (`pip download --no-deps myosuite`, then `unzip`); FOLDER is where they lie.
"""

import pathlib


def found(folder: str, name: str) -> pathlib.Path:
    """The file under `folder` whose path ends in `name`."""
    paths = sorted(pathlib.Path(folder).rglob(pathlib.PurePosixPath(name).name))
    matches = [path for path in paths if path.as_posix().endswith(name)]
    if not matches:
        raise FileNotFoundError(f"no {name} under {folder}; unpack the package there that ships it")
    return matches[0]
