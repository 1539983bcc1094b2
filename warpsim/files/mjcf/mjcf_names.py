# SPDX-License-Identifier: Apache-2.0
"""Names of the elements of a compiled MuJoCo model, all different."""

import mujoco

from warpsim.model.builder_names import free_name


def element_names(m, kind, count: int, word: str, first: int = 0) -> list[str]:
    """Names of the elements `first ... count - 1`; those without get "body_0" and so on, unlike every given name."""
    names = [mujoco.mj_id2name(m, kind, i) or "" for i in range(first, count)]
    taken = set(names)
    for i, name in enumerate(names):
        if not name:
            names[i] = free_name(f"{word}_{i}", taken)
            taken.add(names[i])
    return names
