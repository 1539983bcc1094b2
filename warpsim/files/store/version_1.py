# SPDX-License-Identifier: Apache-2.0
"""Stores of version 1: `frames` counts the rows, diagnostics have one row less, each chunk holds all worlds."""

from warpsim.files.store.place import STATE_NAMES
from warpsim.files.store.stored_array import StoredArray


def arrays(path, root) -> tuple[list[StoredArray], dict[str, StoredArray]]:
    """q, v, time, and the diagnostics by name. Raises `StoreError` if a chunk is missing."""
    frames, worlds = root.attrs["frames"], root.attrs["worlds"]
    found = [StoredArray(path, root[name], 0, frames) for name in STATE_NAMES]
    group = root["diagnostics"]
    measured = {name: StoredArray(path, group[name], 0, frames - 1) for name in root.attrs["diagnostics"]}
    for rows, array in [(frames, a) for a in found] + [(frames - 1, a) for a in measured.values()]:
        array.require(rows, worlds)
    return found, measured
