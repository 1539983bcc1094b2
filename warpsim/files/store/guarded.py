# SPDX-License-Identifier: Apache-2.0
"""The only way in which Zarr reads and writes a warpsim store: member by member, each of a kind that stores have.

Zarr and numcodecs decode whatever a store's metadata names, including pickles. Here `zarr.json` is first checked by the
rules of `metadata.py`. So Zarr sees only the formats and codecs listed there, and never the metadata of several members
in one file. No member of a folder is a link, a pipe, a socket or a device: every read and every write checks.
"""

import asyncio
import os
import pathlib
import re
import stat

try:
    from fsspec.archive import AbstractArchiveFileSystem
except ImportError:  # there are no URLs without the extra `remote`
    AbstractArchiveFileSystem = ()
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import FsspecStore, LocalStore

import warpsim.files.store.codecs  # noqa: F401  (registers the codecs that `checked_metadata` names)
from warpsim.base.errors import StoreError
from warpsim.files.limits import MAX_STORE_CHUNK
from warpsim.files.store.metadata import checked_metadata, most_of_metadata
from warpsim.files.store.store_tree import listed, refuse_kind

METADATA = "zarr.json"
OF_FORMAT_2 = (".zarray", ".zgroup", ".zattrs", ".zmetadata")  # files that are never read


class Guarded(Store):
    """A `LocalStore` or `FsspecStore` that checks each member before it is read or written."""

    supports_writes = supports_deletes = supports_listing = True

    def __init__(self, inner: LocalStore | FsspecStore):
        super().__init__(read_only=inner.read_only)
        self.inner = inner
        self.folder = inner.root if isinstance(inner, LocalStore) else None
        self.archive = isinstance(getattr(getattr(inner, "fs", None), "sync_fs", None), AbstractArchiveFileSystem)
        self.most: dict[str, int] = {}  # most bytes of a file of an array, known once its metadata is read

    def with_read_only(self, read_only: bool = False) -> "Guarded":
        return type(self)(self.inner.with_read_only(read_only))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guarded) and self.inner == other.inner

    def __repr__(self) -> str:
        return f"Guarded({self.inner!r})"

    async def _open(self) -> None:
        await self.inner._ensure_open()
        await super()._open()

    # reading --------------------------------------------------------------------------------------------------------

    async def get(self, key, prototype=None, byte_range=None):
        from zarr.core.buffer import default_buffer_prototype

        prototype = default_buffer_prototype() if prototype is None else prototype
        name = self._checked(key)
        if name in OF_FORMAT_2:
            return None
        if name == METADATA:
            return await self._metadata(key, prototype)
        most = self.most.get(re.sub(r"(^|/)c(/\d+)*$", "", key), MAX_STORE_CHUNK)
        if self.folder is None:
            return await self._fetched(key, prototype, byte_range, most)
        data = await asyncio.to_thread(_read, self.folder, key, byte_range, most)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def _fetched(self, key: str, prototype, byte_range, most: int):
        """The bytes at a URL. Raises `StoreError` for a member of an archive that is larger than `most` when unpacked.

        An archive may hold a member in a thousandth of its bytes.
        """
        if self.archive and await self.inner.exists(key):
            size = (await self.inner.fs._info(f"{self.inner.path}/{key}".lstrip("/")))["size"]
            if size > most:
                raise StoreError(f"{key} has {size} bytes; at most {most} can be what it stands for")
        return await self.inner.get(key, prototype, byte_range)

    async def _metadata(self, key: str, prototype):
        most = most_of_metadata(key)
        if self.folder is None:
            found = await self._fetched(key, prototype, None, most)
            data = None if found is None else found.to_bytes()
        else:
            data = await asyncio.to_thread(_read, self.folder, key, None, most)
        if data is None:
            return None
        if len(data) > most:
            raise StoreError(f"{key} has {len(data)} bytes; at most {most} are read")
        checked, self.most[key.removesuffix(METADATA).rstrip("/")] = checked_metadata(data, key)
        return prototype.buffer.from_bytes(checked)

    async def get_partial_values(self, prototype, key_ranges):
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key) -> bool:
        return self._checked(key) not in OF_FORMAT_2 and await self.inner.exists(key)

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of every member below a prefix, by key."""
        if self.folder is None:
            start = f"{self.inner.path}/{prefix}".rstrip("/")
            found = await self.inner.fs._find(start, detail=True)
            sizes = {path: about.get("compress_size", about["size"]) for path, about in found.items()}
            return {path.removeprefix(f"{self.inner.path}/"): size for path, size in sizes.items()}
        self._checked(prefix)
        return await asyncio.to_thread(_sizes, self.folder, prefix)

    async def list(self):
        for key in await self.sizes(""):
            yield key

    async def list_prefix(self, prefix):
        for key in await self.sizes(prefix.rstrip("/")):
            yield key

    async def list_dir(self, prefix):
        if self.folder is None:
            async for name in self.inner.list_dir(prefix):
                yield name
            return
        self._checked(prefix.rstrip("/"))
        for entry in listed(self.folder / prefix):
            yield entry.name

    # writing --------------------------------------------------------------------------------------------------------

    async def set(self, key, value) -> None:
        self._check_writable()
        self._checked(key)
        await self.inner.set(key, value)

    async def set_if_not_exists(self, key, value) -> None:
        self._check_writable()
        self._checked(key)
        await self.inner.set_if_not_exists(key, value)

    async def delete(self, key) -> None:
        self._check_writable()
        self._checked(key)
        await self.inner.delete(key)

    async def delete_dir(self, prefix) -> None:
        self._check_writable()
        self._checked(prefix.rstrip("/"))
        await self.inner.delete_dir(prefix)

    def _checked(self, key: str) -> str:
        """The last part of a key, "" for the store itself.

        Raises `StoreError` if a part of the key is no name, or if a link is on its path.
        """
        parts = key.split("/") if key else []
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise StoreError(f"{key!r} leads out of the store; no member has such a name")
        if self.folder is not None:
            place = self.folder
            for part in parts:
                place = place / part
                try:
                    mode = os.lstat(place).st_mode
                except (FileNotFoundError, NotADirectoryError):
                    break
                refuse_kind(place, mode)
        return parts[-1] if parts else ""


def _read(folder: pathlib.Path, key: str, wanted, most: int) -> bytes | None:
    """The bytes of a regular file of at most `most` bytes; None if there is no file.

    The open does not follow a link that replaced the file after the check.
    """
    path = folder / key
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            return None
        refuse_kind(path, about.st_mode)
        if about.st_size > most:
            raise StoreError(f"{key} has {about.st_size} bytes; at most {most} can be what it stands for")
        if isinstance(wanted, RangeByteRequest):
            file.seek(wanted.start)
            return file.read(max(0, min(wanted.end, about.st_size) - wanted.start))
        if isinstance(wanted, OffsetByteRequest):
            file.seek(wanted.offset)
        elif isinstance(wanted, SuffixByteRequest):
            file.seek(max(0, about.st_size - wanted.suffix))
        return file.read()


def _sizes(folder: pathlib.Path, prefix: str) -> dict[str, int]:
    found, waiting = {}, [prefix]
    while waiting:
        inside = waiting.pop()
        for entry in listed(folder / inside):
            key = f"{inside}/{entry.name}".lstrip("/")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(key)
                continue
            try:
                found[key] = entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:  # a partial file that has its final name by now
                pass
    return found
