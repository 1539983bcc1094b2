# SPDX-License-Identifier: Apache-2.0
"""Indices of threads are computed in 32 bits (`kernels/preamble.py`): the same numbers as Warp's, on a CPU and from CUDA code."""

import math

import numpy as np
import pytest
import warp as wp

from benchmarks.gpu.trace import Launch, ptx_of
from benchmarks.gpu.warp import Program
from warpsim.device import copies
from warpsim.device.copies import launch
from warpsim.kernels.linalg import words
from warpsim.kernels.preamble import warp_module

EXTENTS = ((7,), (5, 3), (5, 16), (3, 5, 8), (9, 1, 32), (3, 2, 5, 7), (2, 4, 1, 32))


def of_1(out: wp.array2d(dtype=int)):
    i = wp.tid()
    out[i, 0] = i


def of_2(out: wp.array3d(dtype=int)):
    i, j = wp.tid()
    out[i, j, 0] = i
    out[i, j, 1] = j


def of_3(out: wp.array4d(dtype=int)):
    i, j, k = wp.tid()
    out[i, j, k, 0] = i + 1000 * j + 1000000 * k


def of_4(out: wp.array4d(dtype=int)):
    i, j, k, l = wp.tid()
    out[i, j, k, l] = i + 100 * j + 10000 * k + 1000000 * l


def made(dim: tuple[int, ...]) -> tuple[wp.Kernel, wp.array, np.ndarray]:
    """A kernel that writes its indices, the array that it writes, and what should be in it."""
    source, at = (of_1, of_2, of_3, of_4)[len(dim) - 1], np.indices(dim)
    expected = {
        1: lambda: at[0][:, None],
        2: lambda: np.stack([at[0], at[1]], axis=2),
        3: lambda: (at[0] + 1000 * at[1] + 1000000 * at[2])[..., None],
        4: lambda: at[0] + 100 * at[1] + 10000 * at[2] + 1000000 * at[3],
    }[len(dim)]()
    module = warp_module(f"tests.{source.__name__}")
    kernel = wp.Kernel(func=source, key=source.__name__, module=module, options={"enable_backward": False})
    return kernel, wp.full(expected.shape, -1, dtype=wp.int32, device="cpu"), expected


@pytest.mark.parametrize("dim", EXTENTS)
def test_indices_on_a_cpu(dim):
    kernel, out, expected = made(dim)
    wp.launch(kernel, dim, inputs=[out], device="cpu")
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("dim", EXTENTS)
def test_indices_of_cuda_code(dim):
    """Every warp of the launch, its last block in part beyond the end; in the code no loop over the grid and no division of 64 bits."""
    kernel, out, expected = made(dim)
    each = Launch(kernel, dim, (out,), 32, {})
    text, entry = ptx_of(each)
    assert "div.u64" not in text and "rem.u64" not in text
    program = Program(text, entry)
    parameters = bytearray(program.entry.parameter_bytes)
    for (offset, size), value in zip(program.entry.parameters.values(), each.parameters(), strict=True):
        parameters[offset : offset + size] = value
    grid = math.ceil(math.prod(dim) / 32)
    for block in range(grid + 1):
        program.run(bytes(parameters), [(out.ptr, out.capacity)], block=32, grid=grid, first=32 * block, l1_bytes=65536)
    np.testing.assert_array_equal(out.numpy(), expected)


def test_more_threads_than_32_bits_count_are_refused(monkeypatch):
    a, none = (wp.zeros(shape, dtype=wp.int32, device="cpu") for shape in ((4, 3), (0, 0)))
    arrays = [a, *[none] * 5]
    launch(words.copy_arrays, wp.float32, 4, [*arrays, *arrays], device="cpu")
    monkeypatch.setattr(copies, "MOST_THREADS", 4)
    with pytest.raises(ValueError, match="copy_arrays would be launched over"):
        launch(words.copy_arrays, wp.float32, 4, [*arrays, *arrays], device="cpu")
