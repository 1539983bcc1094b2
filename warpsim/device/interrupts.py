# SPDX-License-Identifier: Apache-2.0
"""Signals that end a program: they come soon and leave nothing half done. Those that its starter has it ignore (`nohup`, a job in the background) stay ignored."""

import concurrent.futures
import contextlib
import signal
import threading

import warp as wp

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextlib.contextmanager
def _caught(numbers, act):
    """Within, the first of these signals calls `act(number)`; a second one acts as usual. In the main thread alone, where Python takes signals."""
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
    """A list of the signals that came within to end the program, for a loop to look at."""
    found: list[int] = []
    with _caught(ENDING, found.append):
        yield found


def ended_by_signals():
    """SIGTERM and SIGHUP end what is within as an exception would, so that nothing is left behind; the exit code is theirs."""

    def end(number: int) -> None:
        raise SystemExit(128 + number)

    return _caught([number for number in ENDING if number != signal.SIGINT], end)


@contextlib.contextmanager
def undisturbed():
    """Ctrl-C waits until the end: into a capture that is begun and not ended every later launch would go, unexecuted."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # only the main thread is interrupted, and not where something else than Python does it
        return
    caught: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *arguments: caught.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            before(*caught[-1])


def load_together(device, modules: list[wp.Module], block: int, workers: int) -> None:
    """`wp.force_load`, by so many threads. When it is interrupted the modules in work are finished behind the caller's back, and no others begun."""

    def load(module: wp.Module) -> None:
        wp.force_load(device, modules=[module], block_dim=block, max_workers=0)

    if workers <= 1 or len(modules) == 1:
        for module in modules:
            load(module)
        return
    pool = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="warpsim-compile")
    try:
        for work in [pool.submit(load, module) for module in modules]:
            work.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
