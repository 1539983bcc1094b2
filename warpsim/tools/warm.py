# SPDX-License-Identifier: Apache-2.0
"""Compile the kernels that simulators will launch, before they do (`warpsim warm`)."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import warp as wp

from warpsim.device.copies import WARP, block_of, load, modules_of
from warpsim.device.interrupts import each_together
from warpsim.device.ranges import listed
from warpsim.device.start import start_warp
from warpsim.differentiate.linearize import state_size
from warpsim.simulator import Simulator
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.sap.sap import SAPSolver


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


def compile_for_gpus(
    kernels: list[wp.Kernel], archs: list[int], workers: int, progress: Callable[[int], None] = lambda count: None
) -> tuple[int, int, int]:
    """Compile the Warp modules of kernels for GPUs, into the kernel cache; no GPU is needed.

    Warp loads PTX where the driver is as new as its own CUDA toolkit, else machine code: both are made. `archs` are
    compute capabilities, such as 90 for sm_90. `progress` gets the number of modules that are ready.
    Returns how many files were made, how many there are, and their bytes.
    """
    modules, made, files, ready = modules_of(kernels), [], [], 0

    def build(module: wp.Module) -> None:
        usual = module.options["block_dim"]
        module.options["block_dim"] = block_of(module.kernels.values())  # known at compile time, part of the hash
        try:
            folder = pathlib.Path(wp.config.kernel_cache_dir) / module.get_module_identifier()
            before = {*folder.glob("*.cubin"), *folder.glob("*.ptx")}
            found = {
                pathlib.Path(path)
                for use_ptx in (False, True)
                for path in wp.compile_aot_module(module, arch=archs, use_ptx=use_ptx)
            }
        finally:
            module.options["block_dim"] = usual
        files.extend(found)
        made.extend(found - before)

    def done() -> None:
        nonlocal ready
        ready += 1
        progress(ready)

    each_together(build, modules, workers, done)
    return len(made), len(files), sum(file.stat().st_size for file in files)


def gpu_archs() -> list[int]:
    """Compute capabilities that Warp's compiler makes machine code for; empty if this Warp has no CUDA compiler."""
    start_warp()
    return sorted(getattr(wp._src.context.runtime, "nvrtc_supported_archs", None) or ())


def _choose_as_on_gpu(solver: ContactSolver) -> None:
    """Let a solver launch what it would on a GPU."""
    if isinstance(solver, SAPSolver):
        solver.as_on_gpu = True
        solver.lanes = solver.lanes_of_island()


@contextlib.contextmanager
def as_on_gpu(sim: Simulator) -> Iterator[None]:
    """Inside, a simulator on the CPU launches the kernels that it would launch on a GPU.

    So do solvers that are made inside, as a first backward pass does.
    """
    solver, model, make = sim._step.solver, sim._step.device_model, SAPSolver.__init__
    chosen = [solver]

    def made(solver, *size, **options):
        make(solver, *size, **options)
        chosen.append(solver)
        _choose_as_on_gpu(solver)

    try:
        model.lanes, SAPSolver.__init__ = model.lanes_by_share(), made
        _choose_as_on_gpu(solver)
        yield
    finally:
        model.lanes, SAPSolver.__init__ = {}, make
        for solver in chosen:
            solver.lanes = WARP
            if isinstance(solver, SAPSolver):
                solver.as_on_gpu = False
