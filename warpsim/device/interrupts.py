# SPDX-License-Identifier: Apache-2.0
"""Handling of signals that end a program: they act soon and leave nothing half done.

Signals that the parent process set to be ignored (`nohup`, a background job) stay ignored.
"""

import concurrent.futures
import contextlib
import signal
import threading

import warp as wp

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextlib.contextmanager
def _caught(numbers, act):
    """Inside, the first of these signals calls `act(number)`; a second one acts as usual.

    It works in the main thread only, where Python handles signals.
    """
    main = threading.current_thread() is threading.main_thread()
    usual = {number: signal.getsignal(number) for number in numbers} if main else {}
    usual = {number: handler for number, handler in usual.items() if handler not in (signal.SIG_IGN, None)}

    def back() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def handle(number, frame) -> None:
        back()
        act(number)

    for number in usual:
        signal.signal(number, handle)
    try:
        yield
    finally:
        back()


@contextlib.contextmanager
def stop_requests():
    """Yield a list of the ending signals received inside, for a loop to check."""
    found: list[int] = []
    with _caught(ENDING, found.append):
        yield found


def ended_by_signals():
    """Inside, SIGTERM and SIGHUP raise `SystemExit` with their exit code, so that cleanup runs."""

    def end(number: int) -> None:
        raise SystemExit(128 + number)

    return _caught([number for number in ENDING if number != signal.SIGINT], end)


@contextlib.contextmanager
def undisturbed():
    """Delay Ctrl-C to the end: a capture that began and did not end would take all later launches, unexecuted."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # other threads are not interrupted; a handler outside Python stays
        return
    caught: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *arguments: caught.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            before(*caught[-1])


def load_together(device, modules: list[wp.Module], block: int, workers: int, done=lambda: None) -> None:
    """`wp.force_load` of modules by `workers` threads; calls `done()` after each (see `each_together`)."""

    def load(module: wp.Module) -> None:
        wp.force_load(device, modules=[module], block_dim=block, max_workers=0)

    each_together(load, modules, workers, done)


def each_together(act, modules: list[wp.Module], workers: int, done=lambda: None) -> None:
    """`act(module)` for each by `workers` threads; calls `done()` after each.

    On an interrupt, threads finish the modules that they have begun in the background and begin no others.
    """
    if workers <= 1 or len(modules) == 1:
        for module in modules:
            act(module)
            done()
        return
    pool = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="warpsim-compile")
    try:
        for work in concurrent.futures.as_completed([pool.submit(act, module) for module in modules]):
            work.result()
            done()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
