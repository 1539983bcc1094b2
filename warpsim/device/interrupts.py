# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while kernels are compiled or graphs captured: it comes soon, and leaves nothing half done."""

import concurrent.futures
import contextlib
import signal
import threading

import warp as wp


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
