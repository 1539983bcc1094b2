# SPDX-License-Identifier: Apache-2.0
"""Per-world gradients: a non-finite one becomes 0, so that shared parameters still learn from the other worlds.

A NaN derivative (of a reward, or of a failed step) would make the sum over all worlds NaN, because 0 · NaN is NaN. The
backward pass removes it where it enters and leaves a step of the simulator, and where actions enter.
"""

from warpsim.base.extras import import_or_explain

torch = import_or_explain("torch", "torch")


class _ByItself(torch.autograd.Function):
    """The identity on tensors `(worlds, n)`.

    In the backward pass, a world with a non-finite entry in any tensor gets gradient 0 in all of them, and is counted.
    `arrays`: the framework of the environment.
    """

    @staticmethod
    def forward(ctx, faults, arrays, *tensors):
        ctx.faults, ctx.arrays = faults, arrays
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        if ctx.arrays.near and ctx.arrays.seen_finite(*gradients):
            return None, None, *gradients
        good = torch.stack([torch.isfinite(g).all(-1) for g in gradients]).all(0)
        ctx.faults += ~good
        return None, None, *(torch.where(good[:, None], g, 0.0) for g in gradients)


def by_itself(faults, arrays, *tensors) -> tuple:
    """The tensors unchanged; `faults (worlds,)` counts the worlds whose gradient was not finite."""
    return _ByItself.apply(faults, arrays, *tensors)
