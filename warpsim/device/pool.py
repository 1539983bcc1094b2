# SPDX-License-Identifier: Apache-2.0
"""Threads that replay graphs beside the one that asks for it; they are kept, and shared by all simulators of a process."""

import collections
import os
import queue
import threading
from collections.abc import Callable, Sequence


class _Worker(threading.Thread):
    """Makes the calls in its inbox; None there is answered in `answers` by the exception of the call before, or None.

    A daemon: at the end of the process nobody waits for it.
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
        """Wait for what was asked, and return its exception."""
        self.inbox.put(None)
        return self.answers.get()


_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not live on in a forked process


def together(calls: Sequence[Callable[[], object]], threads: int) -> None:
    """Make the calls in so many threads, this one among them, each taking the next call that is left, and wait for all.

    Raises what one of them raised. An interrupt (Ctrl-C) is raised when all are done: none writes to memory afterwards.
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
    """The exception of a worker's call, after those that interrupted the wait for it."""
    interrupts: list[BaseException | None] = []
    while True:
        try:
            error = worker.result()
            if not interrupts:  # else it may have an answer left over
                _idle.append(worker)
            return [*interrupts, error]
        except BaseException as raised:
            interrupts.append(raised)
