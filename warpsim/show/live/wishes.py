# SPDX-License-Identifier: Apache-2.0
"""The requests of a live page's visitors. The page's callbacks write them from their threads; the loop reads them."""

import dataclasses
import queue
from collections.abc import Callable


@dataclasses.dataclass
class Wishes:
    """`playing`, `steps` still to make, `speed` over real time, the selected `world`, what is shown, and queued jobs.

    Jobs run between two steps.
    """

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
        """Queue a job, which the stepping thread runs between two steps."""
        self.jobs.put(job)

    def work(self) -> None:
        """Run all queued jobs."""
        while not self.jobs.empty():
            self.jobs.get()()

    def take_step(self) -> bool:
        """Whether to make a step now; counts down single steps."""
        if self.steps > 0:
            self.steps -= 1
            return True
        return self.playing
