# SPDX-License-Identifier: Apache-2.0
"""Names of a builder's elements: generated, looked up and kept unique."""

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError


def free_name(name: str, taken) -> str:
    """A free name: `name`, or `name` with as many `_` appended as needed."""
    while name in taken:
        name += "_"
    return name


def numbered_name(name: str, taken, first: int = 2) -> str:
    """A free name: `name`, or `name` with the next free number from `first` on appended."""
    found, count = name, first
    while found in taken:
        found, count = f"{name}_{count}", count + 1
    return found


class ElementNames:
    """Lookup of a `ModelBuilder`'s elements by index or name."""

    def __init__(self):
        self._names: dict[str, tuple] = {}  # see `_taken`

    def _taken(self, element: str, items: list) -> set[str]:
        """Names of a list of elements, cached while the list only grows at its end."""
        known, names, count, last = self._names.get(element, (None, set(), 0, None))
        if known is not items or len(items) < count or (count and items[count - 1] is not last):
            names, count = set(), 0
        names.update(item.name for item in items[count:])
        self._names[element] = (items, names, len(items), items[-1] if items else None)
        return names

    def _name(self, element: str, name, items: list | dict) -> str:
        taken = items if isinstance(items, dict) else self._taken(element, items)
        if name is None or name == "":
            name = free_name(f"{element}_{len(items)}", taken)
        if not isinstance(name, str):
            raise ModelError(f"a {element}'s name is {short(name)}; give a text")
        if name in taken:
            raise ModelError(f"{element} name {name!r} is used twice; names must be unique (add_model takes a prefix)")
        return str(name)

    def _find(self, element: str, key, items) -> int:
        if isinstance(key, str):
            for index, item in enumerate(items):
                if item.name == key:
                    return index
        elif isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < len(items):
            return int(key)
        raise ModelError(f"no {element} {short(key)}; there are {len(items)}: {listed(i.name for i in items)}")

    def _body(self, key) -> int:
        world = key is None or (isinstance(key, (str, int, np.integer)) and key in (-1, "world"))
        return -1 if world else self._find("body", key, self.bodies)

    def _joint(self, key) -> int:
        return self._find("joint", key, self.joints)

    def _tendon(self, key) -> int:
        return self._find("tendon", key, self.tendons)

    def _geom(self, key) -> int:
        return self._find("geom", key, self.geoms)

    def _site(self, key) -> int:
        return self._find("site", key, self.sites)
