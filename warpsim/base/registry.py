# SPDX-License-Identifier: Apache-2.0
"""Functions of higher rooms that methods of lower rooms call. A higher room registers them when `warpsim` is
imported."""

import importlib
from typing import Any

_HOMES: dict[str, str] = {}


def register(module: str, *names: str) -> None:
    """Register functions by name with their module. It is imported at the first call of one of them."""
    _HOMES.update(dict.fromkeys(names, module))


def registered(name: str) -> Any:
    """The function registered under a name."""
    return getattr(importlib.import_module(_HOMES[name]), name)
