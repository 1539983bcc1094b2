# SPDX-License-Identifier: Apache-2.0
"""Adjoints run one thread per world and add without atomic instructions: gradients have the same bits on every run, on any device."""

import ast

import pytest
import warp as wp

from warpsim.device.by_world import arguments, serial
from warpsim.device.copies import adjoints_of, copy, launch
from warpsim.kernels.differentiate import contact_variation, lcp_law, residual
from warpsim.kernels.rows import taped_rows
from warpsim.kernels.solve.sap import sap
from warpsim.kernels.tree import passes
from warpsim.tools import kernel_modules


def over_rows(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    """A docstring."""
    w, i, j = wp.tid()
    if i > 0:
        y[w, i] = x[w, j]


def test_a_kernel_becomes_a_loop_within_each_world():
    """The same body in the same order of its indices, for one thread per world."""
    tree, axes = serial(over_rows)
    assert axes == ["i", "j"]
    expected = """
def over_rows(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float), i_extent: int, j_extent: int):
    'A docstring.'
    plain_sums()
    w = wp.tid()
    for i in range(i_extent):
        for j in range(j_extent):
            if i > 0:
                y[w, i] = x[w, j]
"""
    assert ast.unparse(tree) == ast.unparse(ast.parse(expected))


def over_contacts(count: wp.array(dtype=int), sizes: wp.array(dtype=int), x: wp.array2d(dtype=float)):
    w, c, i = wp.tid()
    if c < count[w] and i < sizes[c] and x[w, c] > 0.0:
        x[w, c] = 1.0


def over_made(x: wp.array2d(dtype=float)):
    w, c = wp.tid()
    n = x.shape[1]
    if c < n:
        x[w, c] = 1.0


def over_inner(sizes: wp.array(dtype=int), x: wp.array2d(dtype=float)):
    w, c, i = wp.tid()
    if c < sizes[i]:
        x[w, c] = 1.0


def test_a_loop_goes_no_further_than_its_body():
    """`if c < n` around a whole body bounds the loop over c, where n is known before it, and stays where it is not."""
    text = ast.unparse(serial(over_contacts)[0])
    assert (
        "for c in range(wp.min(c_extent, count[w])):" in text and "for i in range(wp.min(i_extent, sizes[c])):" in text
    )
    assert "if x[w, c] > 0.0:" in text and "if c <" not in text and "if i <" not in text
    for source in (over_made, over_inner):
        text = ast.unparse(serial(source)[0])
        assert "for c in range(c_extent):" in text and "if c <" in text


def no_index(x: wp.array2d(dtype=float)):
    x[0, 0] = 1.0


def leaves(x: wp.array2d(dtype=float)):
    w, i = wp.tid()
    if i > 2:
        return
    x[w, i] = 1.0


def asks_again(x: wp.array2d(dtype=float)):
    w, i = wp.tid()
    _, j = wp.tid()
    x[w, i] = float(j)


@pytest.mark.parametrize("source", [no_index, leaves, asks_again])
def test_a_kernel_that_cannot_be_a_loop_is_refused(source):
    """By its name, with what is asked of it."""
    with pytest.raises(ValueError, match=f"{source.__name__} has an adjoint: it must begin with"):
        serial(source)


def test_launches_say_what_they_lack():
    """A launch takes extents and its first world; one over too few indices is refused, and a gradient that all worlds would add to."""
    rate, S = copy(taped_rows.diagonal, wp.float64), wp.float64
    topology = copy(passes.Topology, S)()
    M, shared = (wp.zeros((n, 2, 2), dtype=S, device="cpu", requires_grad=True) for n in (3, 1))
    inertia = wp.zeros((3, 2), dtype=S, device="cpu")
    assert arguments(rate, (3, 2), [topology, M, inertia], {}) == ((3,), [topology, M, inertia, 2, 0, None], {})
    with pytest.raises(ValueError, match="diagonal is launched over 2 indices, got 3"):
        launch(taped_rows.diagonal, S, 3, [topology, M, inertia], device="cpu")
    with pytest.raises(ValueError, match=r"diagonal: M has a gradient and the shape \(1, 2, 2\); .* 3 worlds"):
        launch(taped_rows.diagonal, S, (3, 2), [topology, shared, inertia], device="cpu")


@wp.kernel(module="unique")
def atomic(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = x[0] * x[0]


def ptx_of(module: wp.Module, folder) -> str:
    wp.compile_aot_module(module, arch=kernel_modules.ARCH, module_dir=folder, use_ptx=True)
    return "".join(path.read_text(errors="replace") for path in folder.glob("*.ptx"))


def test_the_check_finds_warps_own_atomic_sums(tmp_path):
    """The adjoint that Warp makes of a read that all threads share adds to it atomically; the check names it and refuses it."""
    found = kernel_modules.atomics(ptx_of(atomic.module, tmp_path))
    ((entry, counts),) = found.items()
    assert entry.endswith("_cuda_kernel_backward") and counts["atom.global.add.f32"] >= 1
    assert kernel_modules.refused_atomics("warpsim.kernels_float32.tree.passes", found) == [entry]


TEXT = """
.visible .entry wrench_force_12ab_cuda_kernel_forward(
{
	@%p1 atom.global.add.f64 %fd1, [%rd1], %fd2;
	red.global.add.u32 [%rd1], 1;
}
.func  (.param .b64 func_retval0) _Z3addPf(
{
	red.relaxed.gpu.global.add.f32 [%rd1], %f1;
	atom.global.cas.b32 %r1, [%rd1], %r2, %r3;
}
"""


def test_atomics_of_a_text():
    """Those on real numbers and on bits, by entry and function; kernels that add to entries of their own are known by name."""
    found = kernel_modules.atomics(TEXT)
    assert found == {
        "wrench_force_12ab_cuda_kernel_forward": {"atom.global.add.f64": 1},
        "_Z3addPf": {"red.relaxed.gpu.global.add.f32": 1, "atom.global.cas.b32": 1},
    }
    assert kernel_modules.refused_atomics("warpsim.kernels_float32.tree.passes", found) == ["_Z3addPf"]
    assert kernel_modules.refused_atomics("warpsim.kernels_float32.tree.passes_grad", found) == list(found)


# Reads of scalars, vectors, matrices and transforms, sums into arrays, both scalar types. The check of all modules is `make cuda-check`.
SAMPLE = [(residual, wp.float32), (lcp_law, wp.float64)]


@pytest.mark.both_types
@pytest.mark.parametrize("file, real", SAMPLE)
def test_adjoints_have_no_atomic_instructions(file, real, tmp_path):
    """None in the PTX of a whole module, forward entries included."""
    made = adjoints_of(copy(file, real))
    assert kernel_modules.atomics(ptx_of(next(iter(made.values())).module, tmp_path)) == {}


def test_every_adjoint_is_over_worlds_alone():
    """Kernels with an adjoint ask for one index, that of the world, and add up plainly; those without are as written."""
    for file in (passes, residual, taped_rows, contact_variation):
        for kernel in adjoints_of(copy(file, wp.float32)).values():
            assert "w = wp.tid()" in kernel.adj.source and "plain_sums()" in kernel.adj.source
            assert kernel.adj.source.count("wp.tid()") == 1
    assert not hasattr(copy(sap.solve, wp.float32), "extents")
