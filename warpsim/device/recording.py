# SPDX-License-Identifier: Apache-2.0
"""The active tape, and values whose gradient nobody would record."""

import contextlib
import sys

import warp as wp


@contextlib.contextmanager
def tape_paused():
    """Launches inside are not recorded on the active tape."""
    runtime = wp._src.context.runtime
    tape, runtime.tape = runtime.tape, None
    try:
        yield tape
    finally:
        runtime.tape = tape


@contextlib.contextmanager
def values_known(known: bool = True):
    """Launches inside are not made, because what they write is there already; the active tape takes them down, if there is one."""
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
    """A tape that takes launches down without making them: what they write is there already."""


def active_tape():
    """The tape that is recording, or None."""
    return wp._src.context.runtime.tape


def refuse_torch_gradient(values, name: str) -> None:
    """Raise where `values` is a torch tensor whose gradient would be lost.

    Torch does not see what happens here. A leaf tensor may still be given while a Warp tape records: its `grad` is shared.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(values, getattr(torch, "Tensor", ())):
        return
    if values.requires_grad and torch.is_grad_enabled() and (active_tape() is None or not values.is_leaf):
        raise ValueError(
            f"{name} is a torch tensor that requires a gradient, which would be lost here; use ws.torch.rollout or "
            f"ws.torch.step, whose gradients torch knows, or give {name}.detach()"
        )
