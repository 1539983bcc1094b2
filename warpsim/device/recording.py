# SPDX-License-Identifier: Apache-2.0
"""The active tape: pausing it, recording without execution, and refusing gradients that it would lose."""

import contextlib
import sys

import warp as wp


@contextlib.contextmanager
def tape_paused():
    """Do not record launches inside on the active tape."""
    runtime = wp._src.context.runtime
    tape, runtime.tape = runtime.tape, None
    try:
        yield tape
    finally:
        runtime.tape = tape


@contextlib.contextmanager
def values_known(known: bool = True):
    """Record launches inside on the active tape, if any, without executing them: their outputs are computed already."""
    if not known:
        yield
        return
    runtime = wp._src.context.runtime
    tape, inner = runtime.tape, KnownTape()
    runtime.tape = inner
    try:
        yield
    finally:
        runtime.tape = tape
    if tape is not None:
        tape.launches.extend(inner.launches)


class KnownTape(wp.Tape):
    """A tape that records launches without executing them: their outputs are computed already."""


def active_tape():
    """The recording tape, or None."""
    return wp._src.context.runtime.tape


def refuse_torch_gradient(values, name: str) -> None:
    """Raise if `values` is a torch tensor whose gradient would be lost.

    Torch does not see operations of this package. A leaf tensor is accepted while a Warp tape records: its `grad` is
    shared.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(values, getattr(torch, "Tensor", ())):
        return
    if values.requires_grad and torch.is_grad_enabled() and (active_tape() is None or not values.is_leaf):
        raise ValueError(
            f"{name} is a torch tensor that requires a gradient, which would be lost here; use ws.torch.rollout or "
            f"ws.torch.step, whose gradients torch knows, or give {name}.detach()"
        )
