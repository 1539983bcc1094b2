# SPDX-License-Identifier: Apache-2.0
"""`fast_math` of `kernels/real.py`: divisions and square roots are approximations on CUDA alone, and never beside sines."""

import numpy as np
import pytest
import warp as wp

from warpsim.kernels.preamble import warp_module
from warpsim.tools import kernel_modules


def quotients(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array2d(dtype=wp.float32)):
    i = wp.tid()
    out[i, 0] = x[i] / y[i]
    out[i, 1] = wp.sqrt(x[i])


def turns(x: wp.array(dtype=wp.float32), out: wp.array2d(dtype=wp.float32)):
    i = wp.tid()
    out[i, 0] = wp.sin(x[i])


def made(source, fast_math: bool) -> wp.Kernel:
    module = warp_module(f"tests.{source.__name__}_{fast_math}", fast_math=fast_math)
    return wp.Kernel(func=source, key=source.__name__, module=module, options={"enable_backward": False})


def ptx(kernel: wp.Kernel, folder) -> str:
    wp.compile_aot_module(kernel.module, arch=kernel_modules.ARCH, module_dir=str(folder), use_ptx=True)
    return "".join(path.read_text(errors="replace") for path in folder.glob("*.ptx"))


def test_a_cpu_rounds():
    """Quotients and roots are IEEE's there, down to the smallest numbers."""
    x = np.float32([1, 2, 1e-39, 3e-42, 7, 0, np.inf, np.nan])
    y = np.float32([3, 7, 10, 2, 1e-30, 0, 2, 1])
    out = wp.zeros((len(x), 2), dtype=wp.float32, device="cpu")
    given = [wp.array(a, dtype=wp.float32, device="cpu") for a in (x, y)]
    wp.launch(made(quotients, True), len(x), inputs=[*given, out], device="cpu")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out.numpy(), np.stack([x / y, np.sqrt(x)], axis=1))


@pytest.mark.parametrize("fast_math", [True, False])
def test_cuda_approximates_where_asked(tmp_path, fast_math):
    text = ptx(made(quotients, fast_math), tmp_path)
    assert ("div.approx" in text, "sqrt.approx" in text) == (fast_math, fast_math)
    assert ("div.rn" in text, "sqrt.rn" in text) == (not fast_math, not fast_math)


@pytest.mark.parametrize("form", ["ptx", "cubin"])
@pytest.mark.parametrize("source, fast_math", [(turns, True), (turns, False), (quotients, True)])
def test_sines_beside_approximations_are_refused(monkeypatch, source, fast_math, form):
    """By `make cuda-check`, whatever it compiles to; sines alone and divisions alone are not."""
    module = made(source, fast_math).module
    monkeypatch.setattr(kernel_modules, "_modules", lambda: {module.name: module})
    result = kernel_modules.compile_module(module.name, form)
    if source is turns and fast_math:
        assert "sine" in result.error
    else:
        assert result.error is None
