# SPDX-License-Identifier: Apache-2.0
"""Functions of higher rooms that methods of lower ones call: a room registers its own when `warpsim` is imported."""

import importlib
from typing import Any

_HOMES: dict[str, str] = {}


def register(module: str, *names: str) -> None:
    """Tell the module of the functions of these names; it is imported when the first of them is called."""
    _HOMES.update(dict.fromkeys(names, module))


def registered(name: str) -> Any:
    """The function that is registered by a name."""
    return getattr(importlib.import_module(_HOMES[name]), name)
