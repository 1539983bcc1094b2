# SPDX-License-Identifier: Apache-2.0
"""Compile the kernels that simulators will launch, before they do (`warpsim warm`)."""

import pathlib
from collections.abc import Callable

import numpy as np
import warp as wp

from warpsim.device.copies import load, modules_of
from warpsim.device.ranges import listed
from warpsim.differentiate.linearize import state_size
from warpsim.simulator import Simulator


def kernels_of(sim: Simulator) -> list[wp.Kernel]:
    """The kernels of steps, resets, readings and, with `requires_grad`, of gradients and Jacobians.

    None is executed. The simulator is used up: it must not step afterwards.
    """
    stepper, model = sim._stepper, sim.model
    state, rows = sim.state(), range(sim.worlds)
    with listed() as found:
        stepper.kernels()
        sim.rollout(state, steps=1)
        sim.reset(state, list(rows))
        sim.reset(state, wp.array([True for _ in rows], dtype=wp.bool, device=sim.device))
        sim.energy(state)
        sim.contacts(state)
        sim.contact_force()
        if model.nsensordata:
            sim.sensors(state)
        sim.step(state, wrench=np.zeros((sim.worlds, model.nbody, 6)))
        if sim.requires_grad:
            found += stepper.adjoint.kernels(sim.dt)
            sim.linearize(state)
            sim.jvp(state, dstate=np.zeros((sim.worlds, state_size(model))))
    return found


def compile_kernels(
    kernels: list[wp.Kernel], device, workers: int, progress: Callable[[int], None] = lambda count: None
) -> tuple[int, int]:
    """Compile and load the Warp modules of kernels by `workers` threads.

    `progress` gets the number of modules that are ready. Returns how many were compiled, and how many there are.
    """
    cache, ready = pathlib.Path(wp.config.kernel_cache_dir), 0
    before = set(cache.glob("*/*"))

    def done() -> None:
        nonlocal ready
        ready += 1
        progress(ready)

    load(kernels, device, workers, done)
    modules = modules_of(kernels)
    files = [{pathlib.Path(loaded.binary_path) for loaded in module.execs.values()} for module in modules]
    return sum(any(file.is_relative_to(cache) for file in found - before) for found in files), len(modules)
