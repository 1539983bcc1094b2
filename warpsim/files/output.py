# SPDX-License-Identifier: Apache-2.0
"""Write files and folders whole or not at all, and check paths before anything is computed.

Output is written in a new folder with a unique name beside the destination, and moved to its place when it is whole.
After an error, a full disk or Ctrl-C only that folder is removed. If the destination is a symbolic link, its target is
written, whether it exists or not, as by `open(path, "w")`; the link stays.
"""

import contextlib
import errno
import os
import pathlib
import shutil
import stat
import tempfile

PREFIX = ".warpsim-"


def check_file(path, suffixes: tuple[str, ...] = ()) -> pathlib.Path:
    """`path` as the name of a file that can be written. Raises `ValueError` with what is wrong with it."""
    path = _check(path)
    if suffixes and path.suffix not in suffixes:
        raise ValueError(f"{path}: the name must end in one of {', '.join(suffixes)}")
    _check_regular(path)
    return path


def check_folder(path) -> pathlib.Path:
    """`path` as the name of a folder that exists or can be created. Raises `ValueError` with what is wrong with it."""
    path = _check(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; give the name of a folder")
    return path


def check_different(paths) -> None:
    """Raise `ValueError` where two outputs are the same file."""
    paths = list(paths)
    resolved = [path.resolve() for path in paths]
    for path, place in zip(paths, resolved, strict=True):
        if resolved.count(place) > 1:
            raise ValueError(f"{path} is asked for twice; give every output a name of its own")


def _check(path) -> pathlib.Path:
    try:
        path = pathlib.Path(path)
    except TypeError:
        raise ValueError(f"the path is {path!r}; give a name, as a string or a pathlib.Path") from None
    if not path.name or "\0" in str(path):
        raise ValueError(f"{str(path)!r} is not the name of a file")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError(f"{str(path)!r} holds a character that no name of a file can have; leave it out") from None
    try:
        folder = target(path).parent
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if not folder.is_dir():
        raise ValueError(f"{path}: the folder {folder} does not exist; create it first")
    try:
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
    except OSError as error:
        raise ValueError(f"{path}: nothing can be written into {folder} ({error.strerror})") from None
    return path


def _check_regular(path: pathlib.Path) -> None:
    """Raise `ValueError` if `path` is something other than a file, which moving a file there would destroy."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise ValueError(f"{path} is a folder; give the name of a file")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is {kind_of(mode)}, which a file cannot replace; give the name of a file")


def kind_of(mode: int) -> str:
    """The kind of a file system entry that is neither a file nor a folder, from its mode."""
    kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((kind for holds, kind in kinds if holds(mode)), "a device")


def target(path: pathlib.Path) -> pathlib.Path:
    """The path that writing to `path` writes: the target of a symbolic link, whether it exists or not, else `path`."""
    return pathlib.Path(os.path.realpath(path)) if path.is_symlink() else path


@contextlib.contextmanager
def replacing(path: pathlib.Path, free: bool = False):
    """Yield a path to write to, `path.name` in a new folder; on exit, what was written there replaces `path`.

    `path` has passed `check_file` or `check_folder`. `free` says that `path` did not exist before: a folder that
    another process has created there since is then not replaced (`FileExistsError`). Disk errors become an `OSError`
    that names `path`.
    """
    place = target(path)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=place.parent))
    old = folder / "replaced" / "old"
    try:
        yield folder / path.name
        _move(folder / path.name, place, old, free)
    except FileExistsError:
        raise
    except OSError as error:
        first = error
        while isinstance(first.__cause__, OSError):
            first = first.__cause__
        raise OSError(f"{path} could not be written: {first.strerror or first}") from error
    finally:
        if os.path.lexists(place) or not os.path.lexists(old):  # else `old` is the only copy, inside the folder
            _remove(folder)


def _move(made: pathlib.Path, path: pathlib.Path, old: pathlib.Path, free: bool) -> None:
    """Move what was made to `path`.

    An existing folder is first moved to `old`, and moved back if the next step fails. If `path` was `free`, an existing
    folder is an error instead.
    """
    if not made.is_dir():
        _check_regular(path)
        os.replace(made, path)
        return
    old.parent.mkdir()
    try:
        if os.path.lexists(path) and not free:
            os.rename(path, old)
        os.rename(made, path)
    except BaseException as error:  # Ctrl-C too
        if os.path.lexists(old) and not os.path.lexists(path):
            os.rename(old, path)
        if free and isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise FileExistsError(f"{path}: something has come there meanwhile") from error
        raise


def _remove(folder: pathlib.Path) -> None:
    """Remove the folder; a Ctrl-C meanwhile takes effect afterwards."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def usual_mode(folder: pathlib.Path) -> int:
    """The permissions that a new file in `folder` gets in this process (umask)."""
    probe = folder / "mode"
    os.close(os.open(probe, os.O_CREAT | os.O_WRONLY, 0o666))
    mode = probe.stat().st_mode & 0o777
    probe.unlink()
    return mode
