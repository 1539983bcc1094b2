# SPDX-License-Identifier: Apache-2.0
"""The kinds of scalar rows. Every file of this folder with a `KIND` is a kind, named as the file. Its code is its index
in `NAMES`."""

import importlib
import pkgutil

_FILES = {x.name: importlib.import_module(f"{__name__}.{x.name}") for x in pkgutil.iter_modules(__path__)}
KINDS = {name: file.KIND for name, file in sorted(_FILES.items()) if hasattr(file, "KIND")}
NAMES = tuple(KINDS)


def code(name: str) -> int:
    """The code of a kind in tables."""
    if name not in KINDS:
        raise ValueError(f"no kind of row is called {name!r}; there are {', '.join(NAMES)}")
    return NAMES.index(name)
