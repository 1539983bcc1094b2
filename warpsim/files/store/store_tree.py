# SPDX-License-Identifier: Apache-2.0
"""Check each name in the folder of a store, so that a folder with anything else in it is never replaced."""

import dataclasses
import os
import re
import stat
from collections.abc import Callable, Iterator

from warpsim.base.errors import StoreError
from warpsim.files.output import kind_of
from warpsim.model.model import Model

# The model's arrays beyond those of its fields.
LISTS = re.compile(r"(mesh|keyframe|hfield|field)_\d+_\w+|texture_\d+")
# partial files that a killed process leaves of Zarr's files
UNFINISHED = re.compile(r"(zarr|c|\d+)\.[0-9a-f]{32}\.partial")
FAULT = re.compile(r"tau|wrench|contact_(geoms|feature|point|frame|phi|impulse)")
SLOTS = ("slot_0", "slot_1")
FIELDS = frozenset(field.name for field in dataclasses.fields(Model))


def foreign(path, attributes, states) -> str | None:
    """The first name below `path` that no store with these attributes and arrays of states has; None if all fit.

    The check reads only names and kinds, so that many chunks cost a listing of their folders and no reading.
    """
    named = attributes.get("diagnostics") or None  # None: not written yet, or not needed
    groups: dict[str, Callable] = {
        "diagnostics": lambda folder: _group(folder, lambda name: named is None or name in named, _array),
        "model": lambda folder: _group(folder, lambda name: name in FIELDS or bool(LISTS.fullmatch(name)), _array),
        "checkpoint": lambda folder: _group(folder, lambda name: name in SLOTS, slot),
    }
    slot, arrays = _slot, set(states)
    if attributes.get("version") != 1:
        slot, arrays = _array, arrays | {"commits", "controls", "mocap", "mocap_given"}
        groups["fault"] = lambda folder: _group(folder, lambda name: bool(FAULT.fullmatch(name)), _array)
        groups["sources"] = lambda folder: _group(folder, lambda name: name in SLOTS, _empty)

    def part(entry) -> Iterator[os.DirEntry]:
        return _array(entry) if entry.name in arrays else groups[entry.name](entry)

    found = next(_group(path, lambda name: name in arrays or name in groups, part), None)
    return None if found is None else os.path.relpath(found.path, path)


def _group(folder, known: Callable[[str], bool], part: Callable) -> Iterator[os.DirEntry]:
    """The foreign entries in a group whose members are `known`; `part` checks each member."""
    for entry in _listed(folder):
        if _is_folder(entry) and known(entry.name):
            yield from part(entry)
        elif not _is_file(entry, "zarr.json"):
            yield entry


def _empty(folder) -> Iterator[os.DirEntry]:
    return _group(folder, lambda name: False, _array)


def _slot(folder) -> Iterator[os.DirEntry]:
    return _group(folder, lambda name: os.path.exists(os.path.join(folder, name, "zarr.json")), _array)


def _array(folder) -> Iterator[os.DirEntry]:
    for entry in _listed(folder):
        if _is_folder(entry) and entry.name == "c":
            yield from _chunks(entry)
        elif not _is_file(entry, "zarr.json") and not _is_file(entry, "c"):  # the single chunk of a scalar
            yield entry


def _chunks(folder) -> Iterator[os.DirEntry]:
    for entry in _listed(folder):
        if _is_folder(entry) and entry.name.isdecimal():
            yield from _chunks(entry)
        elif not (entry.name.isdecimal() and _is_file(entry, entry.name)) and not _is_file(entry, ""):
            yield entry


def _listed(folder) -> list[os.DirEntry]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def listed(folder) -> list[os.DirEntry]:
    """The entries of a folder of a store, all files or folders; empty if there is no folder.

    Raises `StoreError` for a link, a pipe, a socket or a device.
    """
    try:
        found = _listed(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    for entry in found:
        if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
            try:
                refuse_kind(entry.path, entry.stat(follow_symlinks=False).st_mode)
            except FileNotFoundError:
                pass
    return found


def refuse_strange(folder) -> None:
    """Raise `StoreError` for the first entry below a folder that is neither a folder nor a file."""
    waiting = [os.fspath(folder)]
    while waiting:
        waiting += [entry.path for entry in listed(waiting.pop()) if _is_folder(entry)]


def refuse_kind(path, mode: int) -> None:
    """Raise `StoreError` if the mode of a member is not that of a file or a folder."""
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise StoreError(
            f"{path} is {kind_of(mode)}; a store has files and folders alone, so nothing of it is read: put what it "
            "stands for there"
        )


def _is_folder(entry) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _is_file(entry, name: str) -> bool:
    return entry.is_file(follow_symlinks=False) and (entry.name == name or bool(UNFINISHED.fullmatch(entry.name)))
