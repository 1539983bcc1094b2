# SPDX-License-Identifier: Apache-2.0
"""Each world's gradient by itself: one that is not finite is taken as 0, so that what all worlds share learns from the others.

A derivative that is no number (of a reward, of a step that went wrong) would make the sum over all worlds none, and 0 · NaN is NaN: it is cut in the
backward pass where it enters and leaves a step of the simulator, and where actions come in.
"""

from warpsim.base.extras import import_or_explain

torch = import_or_explain("torch", "torch")


class _ByItself(torch.autograd.Function):
    """The identity on tensors `(worlds, n)`; backward, a world with an entry that is not finite in any of them gets 0 in all, and is counted."""

    @staticmethod
    def forward(ctx, faults, *tensors):
        ctx.faults = faults
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        good = torch.stack([torch.isfinite(g).all(-1) for g in gradients]).all(0)
        ctx.faults += ~good
        return None, *(torch.where(good[:, None], g, 0.0) for g in gradients)


def by_itself(faults, *tensors) -> tuple:
    """The tensors; `faults (worlds,)` counts whose gradient was not finite."""
    return _ByItself.apply(faults, *tensors)
