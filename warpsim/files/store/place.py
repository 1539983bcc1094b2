# SPDX-License-Identifier: Apache-2.0
"""The place of a store: a local folder, or a URL of fsspec (`s3://…`, `gs://…`, `memory://…`). Open, check, replace."""

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
MOCAP, MOCAP_GIVEN = "mocap", "mocap_given"  # recorded poses of mocap bodies, and the poses given to the steps of a run
ACTIVATION = "activation"  # recorded rows of models with activations
LOCAL = ("file://", "local://")
# Names at the top level of a store.
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
    """The names of the recorded state arrays in a store of this model."""
    return (*STATE_NAMES, *((ACTIVATION,) if model.na else ()), *((MOCAP,) if model.nmocap else ()))


def is_url(path) -> bool:
    """Whether `path` is a URL that does not name a local folder."""
    return isinstance(path, str) and "://" in path and not path.startswith(LOCAL)


def place(path):
    """`path` as a `pathlib.Path`, or unchanged if it is a URL. `file://` names a local folder."""
    if is_url(path):
        return path
    if isinstance(path, str) and path.startswith(LOCAL):
        path = path.split("://", 1)[1]
    try:
        return pathlib.Path(path)
    except TypeError:
        raise StoreError(f"the path is {path!r}; give the name of a store, or a URL") from None


def zarr_store(path, read_only: bool):
    """The Zarr store through which a warpsim store is read and written."""
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
    """Whether a file system of fsspec is the local one, or built on it."""
    while files is not None:
        if "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
            return True
        files = getattr(files, "sync_fs", None) or getattr(files, "fs", None)
    return False


def open_root(path, mode: str):
    """The root group of a warpsim store, checked: no member is a link, all kinds are known, format and version fit."""
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
            f"{path}: store version {version}, this warpsim reads versions 1 to {VERSION}; use the version that wrote "
            "it"
        )
    read(path, lambda: check_attributes(attributes))
    return root


def read(path, reading):
    """The result of `reading()`; its errors become a `StoreError` that calls the store damaged or incomplete."""
    try:
        return reading()
    except StoreError as error:
        raise _named(path, error) from error.__cause__
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise StoreError(f"{path}: the store is damaged or incomplete ({why}); record it again") from error


def _named(path, error: StoreError) -> StoreError:
    """A `StoreError` that names the store; errors of members name only their key."""
    if str(path) in str(error):
        return error
    return StoreError(f"{path}: the store is damaged or incomplete ({error}); record it again")


@contextlib.contextmanager
def writing(path, kept: str):
    """Turn disk and network errors into one `OSError` that names the store and says what it still holds."""
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
    """`path`, if a store can be written there: it is free, an empty folder, or only a complete warpsim store.

    A store of an unfinished run is not replaceable: `ws.resume` continues it.
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
    """Yield where to write the new store of `path`, which passed `check_replaceable`; on exit it replaces the old one.

    Raises `StoreError` if another process has put something there meanwhile. A store at a URL is written directly in
    its final place, over what is there: its attributes come last, and make it a store.
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
    """Hold an exclusive lock on a folder, so that only one writer writes the store there.

    Whatever ends the process releases the lock. Raises `StoreError`, which calls the store `what`, if another process
    or thread holds it. There is no lock on URLs, on Windows, and on file systems without locks.
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
                f"{path}: another process or thread is writing this {what}; wait until it has ended, or choose another "
                "path"
            ) from None
        except OSError:  # the file system has no locks on folders, such as NFS
            pass
        yield
    finally:
        os.close(folder)
