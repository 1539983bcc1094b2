# SPDX-License-Identifier: Apache-2.0
"""Networks from ONNX files, run by onnxruntime. A file is read as if an attacker wrote it.

The file is at most `MAX_ONNX_BYTES` large and holds all its weights; onnxruntime may look for others in an empty folder
only. The network has one input `(batch, n)` and one output `(batch, m)` of float32, for any batch.
"""

import os
import pathlib
import tempfile

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.extras import import_or_explain
from warpsim.files.limits import MAX_ONNX_BYTES

ROWS = 16  # rows are evaluated in multiples of it: kernels of matrix products differ in fewer


def read_onnx(path) -> bytes:
    """The bytes of an ONNX file. Raises `ValueError` where there is none, or one that is too large."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"the network is {short(path)}; give the path of an ONNX file")
    try:
        size = os.path.getsize(path)
        if size > MAX_ONNX_BYTES:
            raise ValueError(f"{path} has {size:,} bytes; a network has at most {MAX_ONNX_BYTES:,}")
        return pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


class OnnxNetwork:
    """A network of an ONNX file, as a function of arrays `(batch, inputs)` that returns `(batch, outputs)`.

    It computes on one thread of the CPU. A row's result does not depend on the number of rows.
    """

    def __init__(self, path, content: bytes | None = None):
        runtime = import_or_explain("onnxruntime", "export")
        self.path, options = path, runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        with tempfile.TemporaryDirectory(prefix="warpsim-") as empty:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", empty)
            content = read_onnx(path) if content is None else content
            try:
                self.session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise ValueError(f"{path}: not an ONNX network that onnxruntime runs ({_first_line(error)})") from None
        sizes = []
        for kind, values in (("input", self.session.get_inputs()), ("output", self.session.get_outputs())):
            if len(values) != 1:
                names = listed(x.name for x in values)
                raise ValueError(f"{path} has {len(values)} {kind}s ({names}); a network here has one")
            (value,) = values
            shape, real = list(value.shape), value.type == "tensor(float)"
            if not real or len(shape) != 2 or isinstance(shape[0], int) or not isinstance(shape[1], int):
                raise ValueError(
                    f"{path}: {kind} {value.name!r} is {value.type} of shape {_shape(shape)}; it must be tensor(float) "
                    "of shape (batch, n), with any batch and a fixed n"
                )
            sizes.append(shape[1])
        self.inputs, self.outputs = sizes

    def __deepcopy__(self, memo) -> "OnnxNetwork":
        return self  # it keeps no state between calls

    @property
    def metadata(self) -> dict[str, str]:
        """The file's metadata."""
        return dict(self.session.get_modelmeta().custom_metadata_map)

    def __call__(self, rows) -> np.ndarray:
        rows = np.asarray(rows, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.inputs:
            raise ValueError(f"{self.path}: the input has shape {rows.shape}; it must be (batch, {self.inputs})")
        count = len(rows)
        padded = np.zeros((-(-count // ROWS) * ROWS, self.inputs), np.float32)
        padded[:count] = rows
        try:
            (found,) = self.session.run(None, {self.session.get_inputs()[0].name: padded})
        except Exception as error:
            raise ValueError(f"{self.path}: onnxruntime could not run it ({_first_line(error)})") from None
        if found.shape != (len(padded), self.outputs):
            raise ValueError(
                f"{self.path}: gives shape {found.shape} for {len(padded)} rows; it must be "
                f"({len(padded)}, {self.outputs})"
            )
        found = found[:count]
        bad = np.isfinite(rows).all(axis=1) & ~np.isfinite(found).all(axis=1)
        if bad.any():
            raise ValueError(
                f"{self.path}: gives {found[bad][0].tolist()} for finite inputs; its weights are too large or not "
                "finite: train or export it anew"
            )
        return found


def _shape(shape) -> str:
    """A shape for a message; ? is a size that is open."""
    return f"({', '.join(str(x) if isinstance(x, int) else '?' for x in shape)})"


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
