"""Arrays of a float32 step in float64 and back, for the smooth dynamics of deep trees (`warpsim/deep.py`)."""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.precision import module_name


@cached
def build(S) -> SimpleNamespace:
    """Kernels `widen` and `narrow` between scalar type S and float64."""
    module = module_name("wide", S)

    @wp.kernel(module=module, enable_backward=False)
    def widen(values: wp.array2d(dtype=S), wide: wp.array2d(dtype=wp.float64)):
        """Every row of `wide` from its row of `values`, or from the only one. Launch over the shape of `wide`."""
        w, i = wp.tid()
        wide[w, i] = wp.float64(values[w % values.shape[0], i])

    @wp.kernel(module=module, enable_backward=False)
    def narrow(wide: wp.array2d(dtype=wp.float64), values: wp.array2d(dtype=S)):
        """Rounded. Launch over the shape of `values`."""
        w, i = wp.tid()
        values[w, i] = S(wide[w, i])

    return SimpleNamespace(widen=widen, narrow=narrow)
