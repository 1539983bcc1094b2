# SPDX-License-Identifier: Apache-2.0
"""The number of worlds that fit into memory, and the message when they do not."""

import functools
import gc
import os
import pathlib
import traceback
import typing

from warpsim.base.checks import short, whole
from warpsim.device.memory import LARGEST_INDEX, array_bytes
from warpsim.device.threads import Method
from warpsim.run.inputs import device_called

SHARE = 0.9  # of the free memory; the rest is for states, graphs and the code of kernels
SAMPLES = 32, 96  # numbers of worlds; memory grows linearly in between and beyond


def most_worlds(simulator, model, device, memory=None, **options) -> int:
    """The number of worlds that fit, extrapolated from two simulators of class `simulator`; see `ws.fit_worlds`."""
    device = device_called(device)
    memory = int(SHARE * free_memory(device)) if memory is None else whole(memory, "memory", 1)
    found = []
    for worlds in SAMPLES:
        sim = simulator(model, worlds, device=device, **options)
        found.append(sim.bytes_per_world() * worlds + 2 * array_bytes(sim.state()))
    each = (found[1] - found[0]) / (SAMPLES[1] - SAMPLES[0])
    fixed = max(found[0] - SAMPLES[0] * each, 0.0)
    worlds = min(int((memory - fixed) / each), LARGEST_INDEX)
    if worlds < 1:
        raise MemoryError(
            f"one world of {short(model.name)} needs {(fixed + each) / 1e6:.3g} MB on {device}, and {memory / 1e6:.3g} "
            "MB are free; give fewer max_contacts, or a device with more memory"
        )
    return worlds


def free_memory(device) -> int:
    """Free bytes of a device. On the CPU the limit of the control group counts, too."""
    if device.is_cuda:
        return int(device.free_memory)
    limits = [_available()]
    group = pathlib.Path("/sys/fs/cgroup")
    try:
        limits.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no control group, or "max"
        pass
    return max(min(limits), 0)


def _available() -> int:
    try:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**32


def explains_shortage(make: Method) -> Method:
    """Decorate `__init__(self, model, worlds, …)`: a failed allocation raises a `MemoryError`.

    Its message names the array and the number of worlds that fit.
    """

    @functools.wraps(make)
    def made(self, *arguments, **named):
        missing = None
        try:
            make(self, *arguments, **named)
        except RuntimeError as error:
            if "Failed to allocate" not in str(error):
                raise
            missing = _missing(error)
        if missing is not None:  # outside the except block, the frames that held the arrays are freed
            vars(self).clear()
            gc.collect()
            raise MemoryError(f"{missing}: {_advice(type(self), *arguments, **named)}")

    return typing.cast(Method, made)


def _missing(error: RuntimeError) -> str:
    """Describe the array whose allocation failed; its name is guessed from the lines of the traceback."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    shape = dtype = name = None
    for frame, entry in zip(frames, traceback.extract_tb(error.__traceback__), strict=True):
        if frame.f_code.co_name == "_init_new":
            shape, dtype = frame.f_locals.get("shape"), frame.f_locals.get("dtype")
        elif f"{os.sep}warpsim{os.sep}" in entry.filename:
            target = (entry.line or "").split("=")[0].strip()
            called = [frame.f_locals[key] for key in ("name", "key") if isinstance(frame.f_locals.get(key), str)]
            if target.replace(".", "").replace("_", "").isalnum() and "." in target:
                name = target.removeprefix("self.")
            elif called:
                name = called[0]
    what = name or "an array"
    if shape is not None:
        what += f" {shape} of {getattr(dtype, '__name__', dtype)}"
    return f"no memory for {what} ({error})"


def _advice(simulator, model, worlds=1, *rest, device=None, **options) -> str:
    names = (
        "dt",
        "integrator",
        "solver",
        "device",
        "dtype",
        "requires_grad",
        "max_contacts",
        "recovery_speed",
        "threads",
    )
    options |= dict(zip(names, rest, strict=False))
    device = options.pop("device", device)
    try:
        return (
            f"{worlds} worlds do not fit, at most {most_worlds(simulator, model, device, **options)} do (ws.fit_worlds)"
        )
    except MemoryError as error:
        return str(error)
