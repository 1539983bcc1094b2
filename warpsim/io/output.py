"""Files and folders that are written whole or not at all, and paths that are checked before anything is computed.

What is written grows in a folder of its own beside the destination, with a name that nothing else has, and is moved to its
place when it is whole. After an error, a full disk or Ctrl-C only that folder is removed.
"""

import contextlib
import os
import pathlib
import shutil
import tempfile

PREFIX = ".warpsim-"


def check_file(path, suffixes: tuple[str, ...] = ()) -> pathlib.Path:
    """`path` as the name of a file that can be written; raises `ValueError` with what is wrong with it."""
    path = _check(path)
    if suffixes and path.suffix not in suffixes:
        raise ValueError(f"{path}: the name must end in one of {', '.join(suffixes)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    return path


def check_folder(path) -> pathlib.Path:
    """`path` as the name of a folder that can be made, or is there; raises `ValueError` with what is wrong with it."""
    path = _check(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; give the name of a folder")
    return path


def _check(path) -> pathlib.Path:
    try:
        path = pathlib.Path(path)
    except TypeError:
        raise ValueError(f"the path is {path!r}; give a name, as a string or a pathlib.Path") from None
    if not path.name or "\0" in str(path):
        raise ValueError(f"{str(path)!r} is not the name of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; create it first")
    try:
        path.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    try:
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=path.parent))
    except OSError as error:
        raise ValueError(f"{path}: nothing can be written into {path.parent} ({error.strerror})") from None
    return path


@contextlib.contextmanager
def replacing(path: pathlib.Path):
    """Give a path to write to, `path.name` in a new folder; what is there in the end takes the place of `path`.

    `path` is one that `check_file` or `check_folder` passed. Errors of the disk become an `OSError` that names it.
    """
    folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=path.parent))
    try:
        yield folder / path.name
        _move(folder / path.name, path, folder)
    except OSError as error:
        first = error
        while isinstance(first.__cause__, OSError):
            first = first.__cause__
        raise OSError(f"{path} could not be written: {first.strerror or first}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(made: pathlib.Path, path: pathlib.Path, folder: pathlib.Path) -> None:
    """Move what was made to `path`. A folder that is there gives way, or comes back if that fails."""
    if not made.is_dir():
        os.replace(made, path)
        return
    old = folder / "replaced" / path.name
    old.parent.mkdir()
    there = os.path.lexists(path)
    if there:
        os.rename(path, old)
    try:
        os.rename(made, path)
    except OSError:
        if there:
            os.rename(old, path)
        raise


def usual_mode(folder: pathlib.Path) -> int:
    """The permissions that a file made in `folder` gets, as the process is set up."""
    probe = folder / "mode"
    os.close(os.open(probe, os.O_CREAT | os.O_WRONLY, 0o666))
    mode = probe.stat().st_mode & 0o777
    probe.unlink()
    return mode
