# SPDX-License-Identifier: Apache-2.0
"""`wp.grad` in kernels without adjoints is whole in any order of the kernels, and refused where it would be 0."""

import numpy as np
import pytest
import warp as wp

import warpsim.kernels.preamble  # noqa: F401  what is tested here


@wp.struct
class Pair:
    x: wp.float64
    y: wp.float64


def functions():
    """A kernel that calls f, and one with the gradient of what calls f. Fresh functions: Warp remembers their state."""

    @wp.func
    def deepest(x: wp.float64) -> wp.float64:
        return x * x

    @wp.func
    def inner(s: Pair) -> wp.float64:
        return deepest(s.x) * s.y

    @wp.func
    def outer(s: Pair) -> wp.float64:
        return inner(s) + s.x

    @wp.func
    def slope_of_outer(s: Pair) -> wp.float64:
        by = wp.grad(outer)(s)
        return by.x

    @wp.func
    def twice_the_slope(s: Pair) -> wp.float64:
        return wp.float64(2.0) * slope_of_outer(s)

    def value(x: wp.array1d(dtype=wp.float64), out: wp.array1d(dtype=wp.float64)):
        i = wp.tid()
        s = Pair()
        s.x = x[i]
        s.y = wp.float64(3.0)
        out[i] = inner(s)

    def slope(x: wp.array1d(dtype=wp.float64), out: wp.array1d(dtype=wp.float64)):
        i = wp.tid()
        s = Pair()
        s.x = x[i]
        s.y = wp.float64(3.0)
        out[i] = wp.float64(0.5) * twice_the_slope(s)

    return value, slope


def kernel(function, key: str, module: str, adjoint: bool = False) -> wp.Kernel:
    return wp.Kernel(func=function, key=key, module=wp.get_module(module), options={"enable_backward": adjoint})


def slopes_at(launched: wp.Kernel) -> np.ndarray:
    x, out = (wp.full(2, 2.0, dtype=wp.float64, device="cpu") for _ in range(2))
    wp.launch(launched, 2, [x, out], device="cpu")
    return out.numpy()


@pytest.mark.parametrize("name", "abcdefgh")
def test_gradients_are_whole_whichever_kernel_comes_first(name):
    """`name` changes the order, which is that of hashes; Warp 1.19 gives 1 instead of 13 where `value` comes first."""
    value, slope = functions()
    kernel(value, f"value_{name}", f"gradients_{name}")
    np.testing.assert_allclose(slopes_at(kernel(slope, "slope", f"gradients_{name}")), 13.0, rtol=1e-15)


def test_gradients_are_whole_beside_kernels_with_adjoints():
    value, slope = functions()
    kernel(value, "value", "gradients_taped", adjoint=True)
    np.testing.assert_allclose(slopes_at(kernel(slope, "slope", "gradients_taped")), 13.0, rtol=1e-15)


def test_adjoints_of_gradients_are_refused():
    _value, slope = functions()
    with pytest.raises(TypeError, match=r"calls wp.grad and has an adjoint"):
        slopes_at(kernel(slope, "slope", "gradients_of_gradients", adjoint=True))
