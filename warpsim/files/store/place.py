# SPDX-License-Identifier: Apache-2.0
"""Where a store lies: a folder of this machine, or a URL of fsspec (`s3://…`, `gs://…`, `memory://…`). Opened, checked, replaced."""

import contextlib
import os
import pathlib

from warpsim.base.errors import StoreError
from warpsim.files.output import check_folder, replacing, target
from warpsim.files.store.attributes import check_attributes
from warpsim.files.store.store_tree import foreign, refuse_strange

FORMAT = "warpsim.trajectory"
VERSION = 2
STATE_NAMES = ("q", "v", "time")
MOCAP, MOCAP_GIVEN = "mocap", "mocap_given"  # where mocap bodies were, and what the steps of a run were told
ACTIVATION = "activation"  # the rows that models with activations have besides
LOCAL = ("file://", "local://")
# What stands at the top of a store.
MEMBERS = {
    *STATE_NAMES,
    MOCAP,
    MOCAP_GIVEN,
    ACTIVATION,
    "commits",
    "controls",
    "diagnostics",
    "checkpoint",
    "sources",
    "model",
    "fault",
    "zarr.json",
}


def state_names(model) -> tuple[str, ...]:
    """The rows of states that a store of a model has."""
    return (*STATE_NAMES, *((ACTIVATION,) if model.na else ()), *((MOCAP,) if model.nmocap else ()))


def is_url(path) -> bool:
    """Whether `path` is a URL of another place than this machine's folders."""
    return isinstance(path, str) and "://" in path and not path.startswith(LOCAL)


def place(path):
    """`path` as a `pathlib.Path`, or as the URL that it is. `file://` names a folder."""
    if is_url(path):
        return path
    if isinstance(path, str) and path.startswith(LOCAL):
        path = path.split("://", 1)[1]
    try:
        return pathlib.Path(path)
    except TypeError:
        raise StoreError(f"the path is {path!r}; give the name of a store, or a URL") from None


def zarr_store(path, read_only: bool):
    """What Zarr reads and writes with."""
    from zarr.storage import FsspecStore, LocalStore

    from warpsim.files.store.guarded import Guarded

    if not is_url(path):
        return Guarded(LocalStore(path, read_only=read_only))
    try:
        inner = FsspecStore.from_url(path, read_only=read_only)
        if _on_this_machine(inner.fs):
            raise StoreError(f"{path}: leads to folders of this machine; give the folder itself")
        return Guarded(inner)
    except StoreError:
        raise
    except ImportError as error:
        raise ImportError(
            f"{path}: {error}; run: pip install 'warpsim[remote]', and fsspec's package for such URLs"
        ) from error
    except Exception as error:
        raise StoreError(f"{path}: no such place ({' '.join(str(error).split())}); check the URL") from error


def _on_this_machine(files) -> bool:
    """Whether a file system of fsspec is that of this machine, or stands on it."""
    while files is not None:
        if "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
            return True
        files = getattr(files, "sync_fs", None) or getattr(files, "fs", None)
    return False


def open_root(path, mode: str):
    """The root group of a warpsim store: no member is a link, each is of a kind that stores have, format and version are checked."""
    import zarr

    path = place(path)
    if not is_url(path) and not path.exists():
        raise StoreError(f"{path}: no such store")
    try:
        if not is_url(path):
            refuse_strange(path)
        root = zarr.open_group(zarr_store(path, mode == "r"), mode=mode, zarr_format=3, use_consolidated=False)
        attributes = dict(root.attrs)
    except StoreError as error:
        raise _named(path, error) from error.__cause__
    except ImportError:
        raise
    except Exception as error:
        why = " ".join(str(error).split())
        raise StoreError(
            f"{path}: not a Zarr v3 group ({why}); give what a rollout or `Trajectory.save` wrote"
        ) from error
    if attributes.get("format") != FORMAT:
        raise StoreError(f"{path}: a Zarr group, but not a warpsim trajectory (format is {attributes.get('format')!r})")
    version = attributes.get("version")
    if type(version) is not int or version < 1:
        raise StoreError(f"{path}: version is {version!r}; the store is damaged, record it again")
    if version > VERSION:
        raise StoreError(
            f"{path}: store version {version}, this warpsim reads versions 1 to {VERSION}; use the version that wrote it"
        )
    read(path, lambda: check_attributes(attributes))
    return root


def read(path, reading):
    """`reading()`, with what goes wrong in a damaged store told as such."""
    try:
        return reading()
    except StoreError as error:
        raise _named(path, error) from error.__cause__
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise StoreError(f"{path}: the store is damaged or incomplete ({why}); record it again") from error


def _named(path, error: StoreError) -> StoreError:
    """An error that names the store; those of a member know its key alone."""
    if str(path) in str(error):
        return error
    return StoreError(f"{path}: the store is damaged or incomplete ({error}); record it again")


@contextlib.contextmanager
def writing(path, kept: str):
    """Errors of the disk or of the network as one `OSError` that names the store and what it still holds."""
    try:
        yield
    except (StoreError, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not is_url(path):
            raise
        why = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{path} could not be written: {why}; {kept}") from error


def check_replaceable(path):
    """`path`, if a store can be written there: it is free, an empty folder, or a whole warpsim store and nothing else.

    A store whose run has not come to its end is kept: `ws.resume` goes on with it.
    """
    path = place(path)
    if is_url(path):
        _check_url(path)
        return path
    try:
        path = check_folder(path)
    except ValueError as error:
        raise StoreError(str(error)) from None
    if not path.is_dir() or not any(path.iterdir()):
        return path
    root = open_root(path, "r")
    other = foreign(path, dict(root.attrs), STATE_NAMES)
    if other:
        raise StoreError(
            f"{path}: the store there is not replaced, because something else is in it: {other!r}; choose another path"
        )
    _refuse_unfinished(path, root)
    return path


def _check_url(path) -> None:
    from zarr.core.sync import sync

    async def names() -> list[str]:
        return [name.strip("/") async for name in zarr_store(path, True).list_dir("")]

    try:
        found = set(sync(names()))
    except (StoreError, ImportError):
        raise
    except FileNotFoundError:
        return
    except Exception as error:
        raise StoreError(f"{path}: {' '.join(str(error).split())}; check the URL and what you may do there") from error
    other = sorted(found - MEMBERS) or (sorted(found) if "zarr.json" not in found else [])
    if other:
        raise StoreError(
            f"{path}: what is there is not replaced, because something else is in it: {other[0]!r}; choose another URL"
        )
    if found:
        _refuse_unfinished(path, open_root(path, "r"))


def _refuse_unfinished(path, root) -> None:
    if root.attrs["version"] < 2 or not root.attrs["run"]:
        return
    from warpsim.files.store.stored_array import read_whole

    planned, steps = root.attrs["run"]["steps"], read(path, lambda: read_whole(root["commits"])[:, 1])
    if len(steps) and steps.min() < planned:
        raise StoreError(
            f"{path}: holds a run that was interrupted after {steps.min()} of {planned} steps; go on with "
            "ws.resume(path), or delete it"
        )


@contextlib.contextmanager
def fresh(path):
    """Where to make the new store of `path`, which `check_replaceable` passed; in the end it takes the place of what is there.

    Raises `StoreError` where another process has put something there meanwhile. On a URL the store grows where it belongs, in place of
    what is there: its attributes come last, and make it a store.
    """
    if is_url(path):
        yield path
        return
    there = target(pathlib.Path(path))
    before = _identity(there)
    try:
        with contextlib.ExitStack() as stack, replacing(path, free=before is None) as new:
            yield new
            if before is not None:
                stack.enter_context(held(there))
                if _identity(there) != before:
                    raise FileExistsError
                check_replaceable(path)
    except FileExistsError:
        raise StoreError(f"{path}: another process has made a store there meanwhile; choose another path") from None


def _identity(path: pathlib.Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def held(path, what: str = "store"):
    """Of all who would write the store, or `what` it is, in a folder, one does; it is let go by whatever ends the process.

    Raises `StoreError` where another process, or thread, writes it. On URLs, on Windows and where a file system has no locks nobody is kept out.
    """
    try:
        import fcntl

        folder = None if is_url(path) else os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except ImportError:
        folder = None
    if folder is None:
        yield
        return
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"{path}: another process or thread is writing this {what}; wait until it has ended, or choose another path"
            ) from None
        except OSError:  # no locks on folders here, as on NFS
            pass
        yield
    finally:
        os.close(folder)
