# SPDX-License-Identifier: Apache-2.0
"""Unique names of the elements of a compiled MuJoCo model."""

import mujoco

from warpsim.model.builder_names import free_name


def element_names(m, kind, count: int, word: str, first: int = 0) -> list[str]:
    """Names of the elements `first ... count - 1`; unnamed ones get unique names such as "body_0"."""
    names = [mujoco.mj_id2name(m, kind, i) or "" for i in range(first, count)]
    taken = set(names)
    for i, name in enumerate(names):
        if not name:
            names[i] = free_name(f"{word}_{i}", taken)
            taken.add(names[i])
    return names
