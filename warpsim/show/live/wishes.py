# SPDX-License-Identifier: Apache-2.0
"""What the visitor of a live page has asked for. Callbacks of the page write it, in threads of their own; the loop reads it."""

import dataclasses
import queue
from collections.abc import Callable


@dataclasses.dataclass
class Wishes:
    """`playing`, single `steps` still to make, `speed` over real time, the `world` that is looked at, what is shown, and jobs to be done
    between two steps."""

    playing: bool = True
    steps: int = 0
    speed: float = 1.0
    world: int = 0
    follow: bool = True
    closed: bool = False
    take_over: bool = False
    layers: set = dataclasses.field(default_factory=set)
    plots: set = dataclasses.field(default_factory=set)
    control: dict = dataclasses.field(default_factory=dict)  # actuator -> value
    jobs: queue.SimpleQueue = dataclasses.field(default_factory=queue.SimpleQueue)

    def ask(self, job: Callable[[], None]) -> None:
        """Have something done between two steps, by the thread that steps."""
        self.jobs.put(job)

    def work(self) -> None:
        """Do all that was asked."""
        while not self.jobs.empty():
            self.jobs.get()()

    def take_step(self) -> bool:
        """Whether a step is to be made now; counts a single one."""
        if self.steps > 0:
            self.steps -= 1
            return True
        return self.playing
