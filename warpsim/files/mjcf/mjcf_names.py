# SPDX-License-Identifier: Apache-2.0
"""Names of the elements of a compiled MuJoCo model, all different."""

import mujoco


def element_names(m, kind, count: int, word: str, first: int = 0) -> list[str]:
    """Names of the elements `first ... count - 1`; those without get "body_0" and so on, unlike every given name."""
    names = [mujoco.mj_id2name(m, kind, i) or "" for i in range(first, count)]
    taken = set(names)
    for i, name in enumerate(names):
        if not name:
            name = f"{word}_{i}"
            while name in taken:
                name += "_"
            taken.add(name)
            names[i] = name
    return names
