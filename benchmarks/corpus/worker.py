# SPDX-License-Identifier: Apache-2.0
"""A process that examines files one after the other, so that kernels are loaded once, and that may crash or hang without harm."""

import multiprocessing
import time
import warnings

import mujoco
import warp as wp

import warpsim as ws
from benchmarks.corpus.calm import calm
from benchmarks.corpus.files import CorpusFile, compiled, outside
from benchmarks.corpus.sensing import sensor_error
from benchmarks.corpus.smooth import acceleration_error
from benchmarks.corpus.speed import speed

FILES_PER_PROCESS = 60
STAGES = ("smooth", "sensors", "speed", "calm")


def examine(file: CorpusFile, stages) -> dict:
    """What becomes of one file: `status`, and what the stages say of it."""
    m = compiled(str(file.path))
    if isinstance(m, str):
        return {"status": "no model", "why": m}
    if uses := outside(m):
        return {"status": "outside", "why": " ".join(uses)}
    start = time.perf_counter()
    try:
        model = ws.load(file.path, root=file.root)
    except ws.ModelError as error:
        return {"status": "refused", "why": str(error).replace(str(file.path), "").lstrip(": ")}
    row = {"status": "loaded", "seconds": time.perf_counter() - start, "nv": m.nv, "stages": {}}
    actions = {
        "smooth": lambda: acceleration_error(compiled(str(file.path))),
        "sensors": lambda: sensor_error(compiled(str(file.path))),
        "speed": lambda: speed(compiled(str(file.path)), model),
        "calm": lambda: calm(m, model),
    }
    for stage in stages:
        try:
            row["stages"][stage] = actions[stage]()
        except (ws.ModelError, ValueError, NotImplementedError) as error:
            row["stages"][stage] = {"error": f"{type(error).__name__}: {error}"}
    return row


def serve(connection) -> None:
    """Take (file, stages) from `connection` and send rows, until None comes."""
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    while (job := connection.recv()) is not None:
        try:
            connection.send(examine(*job))
        except Exception as error:  # a line of the table
            connection.send({"status": "crashed", "why": f"{type(error).__name__}: {error}"})


class Worker:
    """`row(file, stages)`, in a process that is made anew after a crash, a time out, and now and then."""

    def __init__(self, seconds: float):
        self.seconds, self._process, self._served = seconds, None, 0

    def row(self, file: CorpusFile, stages) -> dict:
        if self._process is None or self._served >= FILES_PER_PROCESS:
            self.stop()
            # spawned: a fork of a process with threads may hang
            context = multiprocessing.get_context("spawn")
            self._pipe, there = context.Pipe()
            self._process = context.Process(target=serve, args=(there,), daemon=True)
            self._process.start()
            there.close()
            self._served = 0
        self._served += 1
        self._pipe.send((file, stages))
        try:
            if self._pipe.poll(self.seconds):
                return self._pipe.recv()
            why = {"status": "timed out", "why": f"{self.seconds:g} s"}
        except EOFError:
            self._process.join()
            why = {"status": "crashed", "why": f"exit {self._process.exitcode}"}
        self.stop()
        return why

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
