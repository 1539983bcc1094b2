# SPDX-License-Identifier: Apache-2.0
"""Threads that replay graphs beside the calling one; all simulators of a process share and keep them."""

import collections
import os
import queue
import threading
from collections.abc import Callable, Sequence


class _Worker(threading.Thread):
    """Runs the calls in its inbox. On None it puts the exception of the previous call, or None, in `answers`.

    A daemon: the process does not wait for it at exit.
    """

    def __init__(self):
        super().__init__(name="warpsim-worker", daemon=True)
        self.inbox: queue.SimpleQueue = queue.SimpleQueue()
        self.answers: queue.SimpleQueue = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        error = None
        while True:
            call = self.inbox.get()
            if call is None:
                self.answers.put(error)
                error = None
                continue
            try:
                call()
            except BaseException as raised:
                error = raised

    def result(self) -> BaseException | None:
        """Wait for the call and return its exception, or None."""
        self.inbox.put(None)
        return self.answers.get()


_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a forked process has none of these threads


def together(calls: Sequence[Callable[[], object]], threads: int) -> None:
    """Run the calls in `threads` threads, the calling one included, each taking the next call left; wait for all.

    Raises the exception of a call. An interrupt (Ctrl-C) is raised when all calls are done: no thread writes to memory
    afterwards.
    """
    left = collections.deque(calls)
    busy: list[_Worker] = []
    errors: list[BaseException | None] = []

    def work() -> None:
        while True:
            try:
                call = left.popleft()
            except IndexError:
                return
            call()

    try:
        for _ in range(min(threads, len(left)) - 1):
            busy.append(_worker())
            busy[-1].inbox.put(work)
        work()
    except BaseException as raised:
        errors.append(raised)
    for worker in busy:
        errors += _results(worker)
    for error in errors:
        if error is not None:
            raise error


def _worker() -> _Worker:
    try:
        return _idle.pop()
    except IndexError:
        return _Worker()


def _results(worker: _Worker) -> list[BaseException | None]:
    """The exception of a worker's call, preceded by the interrupts that occurred while waiting for it."""
    interrupts: list[BaseException | None] = []
    while True:
        try:
            error = worker.result()
            if not interrupts:  # after an interrupt an answer may be left over
                _idle.append(worker)
            return [*interrupts, error]
        except BaseException as raised:
            interrupts.append(raised)
