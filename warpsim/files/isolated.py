# SPDX-License-Identifier: Apache-2.0
"""`load(..., isolate=True)`: read the file in a child process with bounds on its memory and time.

The C code of MuJoCo, USD and the mesh readers can crash on a damaged file; such a crash ends only the child process.
The child returns the model as arrays and JSON, never code.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.files.child_python import run_python
from warpsim.files.limits import ISOLATED_BYTES, ISOLATED_SECONDS
from warpsim.files.model_record import model_record, recorded_model
from warpsim.model.model import Model

CODE = "from warpsim.files.isolated import child; child()"


def load_isolated(path, options: dict, bytes: float | None = None, seconds: float | None = None) -> Model:
    """The model in a file, read by a child process.

    Raises `ModelError` for the child's error, a crash or an exceeded bound.
    """
    bytes, seconds = (
        int(ISOLATED_BYTES if bytes is None else bytes),
        float(ISOLATED_SECONDS if seconds is None else seconds),
    )
    with tempfile.TemporaryDirectory(prefix="warpsim-") as folder:
        plain = {key: dict(value) if isinstance(value, Mapping) else value for key, value in options.items()}
        request = {"path": os.fspath(path), "options": plain, "folder": folder}
        request |= {"bytes": bytes, "seconds": seconds}
        try:
            text = json.dumps(request, default=os.fspath)
        except TypeError as error:
            raise ModelError(f"{path}: isolate=True takes paths, numbers and text only: {error}") from None
        try:
            code = run_python(CODE, seconds=2 * seconds + 60, text=text)
        except subprocess.TimeoutExpired:
            raise ModelError(f"{path}: not loaded after {2 * seconds + 60:g} s") from None
        answer = _answer(pathlib.Path(folder), code, path, f"{bytes / 2**30:.3g} GiB and {seconds:g} s")
        for message in answer["warnings"]:
            warnings.warn(message, stacklevel=4)
        if answer["error"] is not None:
            raise ModelError(answer["error"])
        try:
            return _read(pathlib.Path(folder))
        except Exception as error:
            raise ModelError(f"{path}: the process that read it left no whole model: {error}") from error


def _answer(folder: pathlib.Path, code: int, path, bounds: str) -> dict:
    """The child's answer. Raises `ModelError` if the child ended without one."""
    try:
        answer = json.loads((folder / "answer.json").read_text())
    except (OSError, ValueError):
        answer = None
    if answer is None or code != 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"by {names.get(-code, -code)}" if code < 0 else f"with code {code}"
        raise ModelError(
            f"{path}: damaged or too large: the process that read it ended {how}, within the bounds of {bounds}; raise "
            "them by isolate={'bytes': ..., 'seconds': ...} if the file is trusted"
        )
    return answer


def child() -> None:
    """Load the file named on standard input, and leave the model, or the error, in the folder named there."""
    from warpsim.files.load import load

    request = json.loads(sys.stdin.read())
    folder = pathlib.Path(request["folder"])
    _bound(request["bytes"], request["seconds"])
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            model = load(request["path"], **request["options"])
        except ModelError as raised:
            error = str(raised)
        except MemoryError:
            error = f"{request['path']}: needs more than {request['bytes'] / 2**30:g} GiB"
    if error is None:
        _write(model, folder)
    said = [str(w.message) for w in caught if w.category is UserWarning]
    (folder / "answer.json").write_text(json.dumps({"error": error, "warnings": said}))


def _bound(size: int, seconds: float) -> None:
    """Bound this process's memory and processor time, beyond what it has used so far."""
    try:
        import resource
    except ImportError:  # Windows: only the parent's timeout applies
        return
    pages = pathlib.Path("/proc/self/statm")
    used = int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 0
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    limits = (
        (resource.RLIMIT_AS, used + size),
        (resource.RLIMIT_CPU, int(spent + seconds) + 1),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, value in limits:
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def _write(model: Model, folder: pathlib.Path) -> None:
    """Write a model to a folder as arrays and JSON."""
    arrays, rest = model_record(model)
    np.savez(folder / "arrays.npz", **arrays)
    (folder / "model.json").write_text(json.dumps(rest))


def _read(folder: pathlib.Path) -> Model:
    """The model written by `_write`."""
    with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
        return recorded_model(arrays, json.loads((folder / "model.json").read_text()))
