# SPDX-License-Identifier: Apache-2.0
"""Packages that an extra of warpsim brings."""

import importlib


def import_or_explain(module: str, extra: str):
    """Import an optional package, or say which extra brings it."""

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed; run: pip install 'warpsim[{extra}]'") from error
