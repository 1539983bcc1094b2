# SPDX-License-Identifier: Apache-2.0
"""Optional packages, which the extras of warpsim install."""

import importlib


def import_or_explain(module: str, extra: str):
    """Import an optional package. The error names the extra that installs it."""

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed; run: pip install 'warpsim[{extra}]'") from error
