"""Rollouts: many steps in a row, recorded on the device as a `Trajectory`."""

import numpy as np
import warp as wp

from warpsim.gradients.implicit import active_tape
from warpsim.kernels.precision import SCALARS
from warpsim.trajectory import Trajectory

RECORDED = ("iterations", "momentum_error", "contacts", "energy", "flags")


def rollout(sim, state, controls, steps, *, substeps, every, progress, checkpoint_every) -> Trajectory:
    """See `Simulator.rollout`."""
    source, steps = _control_source(sim, controls, steps)
    rows = steps // every
    S = SCALARS[sim.dtype]
    model, worlds, device = sim.model, sim.worlds, sim.device
    taped = active_tape() is not None
    q = wp.zeros((rows + 1, worlds, model.nq), dtype=S, device=device, requires_grad=taped)
    v = wp.zeros((rows + 1, worlds, model.nv), dtype=S, device=device, requires_grad=taped)
    time = wp.zeros((rows + 1, worlds), dtype=wp.float64, device=device)
    kinds = {"iterations": wp.int32, "contacts": wp.int32, "flags": wp.int32}
    diagnostics = {name: wp.zeros((rows, worlds), dtype=kinds.get(name, S), device=device) for name in RECORDED}
    state = state if taped else state.clone()

    def record(row: int) -> None:
        if model.nv:
            wp.copy(q[row], state.q)
            wp.copy(v[row], state.v)
        wp.copy(time[row], state.time)
        if row > 0:
            for name in RECORDED:
                wp.copy(diagnostics[name][row - 1], getattr(sim.diagnostics, name))

    record(0)
    for step in _with_progress(range(steps), progress):
        control = source(step, state)
        if not taped:
            sim.step(state, control, substeps=substeps, out=state)
        else:
            state = sim.step(state, control, substeps=substeps)
        if (step + 1) % every == 0:
            record((step + 1) // every)
    return Trajectory(model, q, v, time, diagnostics, state)


def _control_source(sim, controls, steps):
    """A function (step, state) -> control, and the number of steps."""
    if controls is None or callable(controls):
        if steps is None:
            raise ValueError("rollout needs steps= unless controls is an array (steps, worlds, nu)")
        steps = _positive(steps, "steps")
        if controls is None:
            return (lambda step, state: None), steps
        return (lambda step, state: controls(state)), steps
    shape = tuple(controls.shape) if hasattr(controls, "shape") else np.asarray(controls).shape
    expected = (steps if steps is not None else (shape[0] if shape else 0), sim.worlds, sim.model.nu)
    if shape != expected:
        raise ValueError(f"controls has shape {shape}; it must be (steps, worlds, nu) = {expected}")
    table = controls if isinstance(controls, wp.array) else np.asarray(controls, dtype=sim.dtype)
    table = sim._device_array(table, shape, "controls")
    return (lambda step, state: table[step]), _positive(shape[0], "steps")


def _positive(value, name: str) -> int:
    try:
        whole = int(value) == value and value >= 1
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least 1")
    return int(value)


def _with_progress(steps, progress):
    """`steps` behind a progress bar, a callback(step), or nothing."""
    if not progress:
        yield from steps
        return
    if callable(progress):
        for step in steps:
            yield step
            progress(step + 1)
        return
    from tqdm import tqdm

    yield from tqdm(steps, unit="step")
