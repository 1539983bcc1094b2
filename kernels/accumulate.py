"""Element-wise sums of arrays, for gradients."""

import functools
from types import SimpleNamespace

import warp as wp

from warpsim.kernels.precision import module_name


@functools.cache
def build(S) -> SimpleNamespace:
    """Kernel `add` over 2-D arrays of scalar type S."""

    @wp.kernel(module=module_name("accumulate", S), enable_backward=False)
    def add(source: wp.array2d(dtype=S), target: wp.array2d(dtype=S)):
        """target += source."""
        i, j = wp.tid()
        target[i, j] = target[i, j] + source[i, j]

    return SimpleNamespace(add=add)
