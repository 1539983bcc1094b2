# SPDX-License-Identifier: Apache-2.0
"""Optional packages, which the extras of warpsim install."""

import importlib
import importlib.util

TORCH = ("train", "torch", "sb3", "export")  # extras that install torch


def import_or_explain(module: str, extra: str):
    """Import an optional package or a module of it. The error names the package and the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{package} is not installed; run: {_first(extra)}pip install 'warpsim[{extra}]'") from error


def _first(extra: str) -> str:
    """On a machine without CUDA, the command that installs torch without it, which is far smaller."""
    if extra not in TORCH or importlib.util.find_spec("torch") is not None:
        return ""
    import warp as wp

    if wp.is_cuda_available():
        return ""
    return "pip install torch --index-url https://download.pytorch.org/whl/cpu (without CUDA, far smaller); then "
