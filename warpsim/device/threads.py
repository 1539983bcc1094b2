# SPDX-License-Identifier: Apache-2.0
"""Several threads in one process, each with its own simulators: makes safe what Warp shares between threads.

Warp stores the recording tape and the CPU capture in progress in attributes of its one runtime object. A launch of
another thread would land on a foreign tape, or be written into a graph while that is recorded, which ends the process.
Here these become attributes per thread (the native recorder of CPU captures is per thread already). One thread at a
time loads a module; different modules load in parallel. One thread at a time declares kernels (`copies.py`). Replayed
graphs take no lock, so stepping on the CPU runs in parallel.

A CUDA device has one stream for all threads, and a capture on it includes whatever is launched meanwhile. Host calls
therefore take turns on CUDA; this costs nothing where kernels run in sequence anyway.

A simulator has one workspace: `Use` refuses a call on it while another thread is inside one.
"""

import contextlib
import functools
import threading
import typing
from collections.abc import Callable

import warp as wp

from warpsim.base.other_names import reraise
from warpsim.device.start import start_warp

Method = typing.TypeVar("Method", bound=Callable[..., typing.Any])
TURN = threading.RLock()
_ANY_TIME = contextlib.nullcontext()
PER_THREAD = ("tape", "_apic_capture", "_apic_graph")  # attributes of Warp's runtime


class PerThread:
    """An attribute with one value per thread, None until the thread sets it."""

    def __init__(self):
        self._local = threading.local()

    def __get__(self, owner, kind=None):
        return self if owner is None else getattr(self._local, "value", None)

    def __set__(self, owner, value):
        self._local.value = value


def turn(device):
    """A context in which no other thread launches or captures on this device, if it is a CUDA device."""
    return TURN if device.is_cuda else _ANY_TIME


def in_turn(method: Method) -> Method:
    """Decorator of a method that launches on `self.device`: runs it in `turn`."""

    @functools.wraps(method)
    def call(self, *arguments, **named):
        if self.device.is_cuda:
            with TURN:
                return method(self, *arguments, **named)
        return method(self, *arguments, **named)

    return typing.cast(Method, call)


def alone(method: Method) -> Method:
    """Decorator of a method that one thread at a time may run, on any device, such as a constructor; starts Warp."""

    @functools.wraps(method)
    def call(*arguments, **named):
        with TURN:
            start_warp()
            return method(*arguments, **named)

    return typing.cast(Method, call)


class Use:
    """Refuses calls on one simulator while another thread is inside a call; calls of the same thread may be nested.

    `run` takes the lock in a `with` statement, so that Ctrl-C finds it either taken and to be released, or not taken. A
    thread that comes at the same instant as another waits for it.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._owner = 0  # identifier of the thread in the outermost call
        self._call: Callable | None = None

    def __reduce__(self):
        return Use, ()  # a copy of a simulator is in no call

    def run(self, function: Callable, arguments: tuple, named: dict):
        """`function(*arguments, **named)`. Raises `RuntimeError` while another thread is in a call."""
        thread = threading.get_ident()
        if self._lock.locked():
            if self._owner == thread:
                return function(*arguments, **named)
            self._refuse(function)
        with self._lock:
            try:
                self._owner, self._call = thread, function
                return function(*arguments, **named)
            finally:
                self._owner = 0

    def _refuse(self, function: Callable) -> None:
        owner, call = self._owner, self._call
        names = [thread.name for thread in threading.enumerate() if thread.ident == owner]
        raise RuntimeError(
            f"{function.__qualname__} was called in thread {threading.current_thread().name!r} while "
            f"{f'thread {names[0]!r}' if names else 'another thread'} is in "
            f"{call.__qualname__ if call else 'a call'} of the same simulator, which has one workspace; "
            "let that call return first, or make a Simulator for each thread (docs/threads.md)"
        )


def exclusive(method: Method) -> Method:
    """Decorator of a method whose object has the `_use` of a simulator: no other thread may use that meanwhile.

    Its launches run `in_turn`.
    """
    taking_turns = in_turn(method)

    @functools.wraps(method)
    def call(self, *arguments, **named):
        use = self._use
        try:
            if self.device.is_cuda or use._lock.locked():
                return use.run(taking_turns, (self, *arguments), named)
            with use._lock:  # the same as `run`, which takes a third longer
                try:
                    use._owner, use._call = threading.get_ident(), method
                    return method(self, *arguments, **named)
                finally:
                    use._owner = 0
        except TypeError as error:
            reraise(error, method)

    return typing.cast(Method, call)


def unshared(method: Method) -> Method:
    """`exclusive` for a method that launches through other methods."""

    @functools.wraps(method)
    def call(self, *arguments, **named):
        try:
            return self._use.run(method, (self, *arguments), named)
        except TypeError as error:
            reraise(error, method)

    return typing.cast(Method, call)


def holds(function: Method) -> Method:
    """Decorator of a function of a simulator, or of an object with a `sim`: no other thread may use that meanwhile.

    The simulator or the object is the first argument.
    """

    @functools.wraps(function)
    def call(*arguments, **named):
        sim = arguments[0] if arguments else named.get("sim")
        use = getattr(getattr(sim, "sim", sim), "_use", None)
        return function(*arguments, **named) if use is None else use.run(function, arguments, named)

    return typing.cast(Method, call)


def _one_at_a_time(load):
    """Wrap `Module.load`: one thread at a time loads a module, and a second one finds it loaded."""
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
        attribute.__set__(present, value)  # this thread may be recording now
    wp.Module.load = _one_at_a_time(wp.Module.load)


_install()
