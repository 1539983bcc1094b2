# SPDX-License-Identifier: Apache-2.0
"""Several threads in one process, each with simulators of its own: what Warp shares between threads, made safe.

Warp keeps the tape that records and the CPU capture in progress in two attributes of its one runtime object, so a launch
of another thread lands on a tape that is not its own, or is written into a graph while that is being recorded, which
ends the process. Here both become attributes per thread (the native recorder of CPU captures is per thread already).
A module is loaded by one thread at a time; different ones in parallel. Kernels are declared by one thread at a time (`copies.py`).
Replayed graphs take no lock, so stepping on the CPU runs in parallel.

A CUDA device has one stream for all threads, and a capture there takes in whatever is launched meanwhile: host calls
take turns there, which costs nothing where the kernels run one after the other anyway.
"""

import contextlib
import functools
import threading
import typing
from collections.abc import Callable

import warp as wp

Method = typing.TypeVar("Method", bound=Callable[..., typing.Any])
TURN = threading.RLock()
_ANY_TIME = contextlib.nullcontext()
PER_THREAD = ("tape", "_apic_capture", "_apic_graph")  # attributes of Warp's runtime


class PerThread:
    """An attribute with one value per thread, None until it is set there."""

    def __init__(self):
        self._local = threading.local()

    def __get__(self, owner, kind=None):
        return self if owner is None else getattr(self._local, "value", None)

    def __set__(self, owner, value):
        self._local.value = value


def turn(device):
    """A context in which no other thread launches or captures on this device, where that matters: CUDA."""
    return TURN if device.is_cuda else _ANY_TIME


def in_turn(method: Method) -> Method:
    """A method that launches on `self.device`, in its `turn`."""

    @functools.wraps(method)
    def call(self, *arguments, **named):
        if self.device.is_cuda:
            with TURN:
                return method(self, *arguments, **named)
        return method(self, *arguments, **named)

    return typing.cast(Method, call)


def alone(method: Method) -> Method:
    """A method that one thread at a time runs, whatever the device: what builds a simulator, and initialises Warp."""

    @functools.wraps(method)
    def call(*arguments, **named):
        with TURN:
            wp.init()
            return method(*arguments, **named)

    return typing.cast(Method, call)


def _one_at_a_time(load):
    """`Module.load`, by one thread at a time per module: the second finds it loaded."""
    locks = threading.Lock()

    @functools.wraps(load)
    def locked(module, *arguments, **named):
        lock = module.__dict__.get("_warpsim_loading")
        if lock is None:
            with locks:
                lock = module.__dict__.setdefault("_warpsim_loading", threading.RLock())
        with lock:
            return load(module, *arguments, **named)

    return locked


def _install() -> None:
    runtime = wp._src.context.Runtime
    if isinstance(vars(runtime).get("tape"), PerThread):
        return
    present = wp._src.context.runtime
    for name in PER_THREAD:
        value = vars(present).get(name) if present is not None else None
        attribute = PerThread()
        setattr(runtime, name, attribute)
        attribute.__set__(present, value)  # this thread's, if it is recording just now
    wp.Module.load = _one_at_a_time(wp.Module.load)


_install()
