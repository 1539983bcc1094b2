# SPDX-License-Identifier: Apache-2.0
"""A rollout as a function of named arrays, and its gradients. The adapters for other frameworks share this.

Names are `q`, `v`, `activation` (the initial state), `controls`, `mocap`, and those of physical parameters.
"""

import numpy as np
import warp as wp

from warpsim.base.checks import short, whole
from warpsim.device.copies import SCALARS
from warpsim.device.threads import holds

STATE_NAMES = ("q", "v", "activation")
BY_STEP = ("controls", "mocap")  # (steps, worlds, …)


def input_shapes(sim, steps: int, names=()) -> dict[str, tuple[int, ...]]:
    """Shape of every input, with the worlds' axis: initial state, controls, mocap, and the parameters in `names`."""
    shapes = {name: (sim.worlds, n) for name, n in sim._inputs.start_sizes.items()}
    shapes["controls"] = (steps, sim.worlds, sim.model.nu)
    shapes["mocap"] = (steps, sim.worlds, sim.model.nmocap, 7)
    return shapes | {name: scalars(sim.parameters[name]).shape for name in names}


def shared_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an input that all worlds share: `shape` without the worlds' axis."""
    axis = 1 if name in BY_STEP else 0
    return shape[:axis] + shape[axis + 1 :]


def expansion(name: str, shape, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that makes a value broadcastable to the wanted shape. Raises `ValueError` if there is none."""
    shape, axis = tuple(shape), 1 if name in BY_STEP else 0
    if shape == wanted:
        return shape
    if shape == shared_shape(name, wanted):
        return shape[:axis] + (1,) + shape[axis:]
    raise ValueError(f"{name} has shape {shape}; it must be {wanted}, or {shared_shape(name, wanted)} for all worlds")


def count_steps(controls, steps: int | None, mocap=None) -> int:
    """The number of steps: the rows of `controls` or of mocap poses, where there are any, or `steps`."""
    if controls is None and steps is None and np.ndim(mocap) > 0:
        return len(mocap)
    if controls is None:
        if steps is None:
            raise ValueError("rollout needs steps= unless controls are given")
        whole(steps, "steps", 1)
        return steps
    if np.ndim(controls) == 0:
        raise ValueError(f"controls is {short(controls)}; give an array (steps, worlds, nu)")
    if steps is not None and steps != len(controls):
        raise ValueError(f"controls has {len(controls)} rows, but steps is {steps}")
    return len(controls)


def scalars(array: wp.array, shape: tuple[int, ...] | None = None) -> wp.array:
    """A view of an array of vectors or matrices as scalars of `shape`. Default: entries become dimensions."""
    entries = getattr(array.dtype, "_shape_", ())
    if not entries:
        return array if shape is None else array.reshape(shape)
    scalar, shape = array.dtype._wp_scalar_type_, shape or (*array.shape, *entries)
    view = wp.array(ptr=array.ptr, dtype=scalar, shape=shape, device=array.device, copy=False)
    view._ref = array
    return view


def flat(array: wp.array) -> wp.array:
    """A view of scalars (worlds, …) as (worlds, n)."""
    return array.reshape((array.shape[0], array.size // array.shape[0]))


class Inputs:
    """Initial state, controls and parameters of one rollout as device arrays of scalars, written into the simulator."""

    def __init__(self, sim, values: dict[str, wp.array]):
        self.sim, self.values = sim, values
        self.start = sim._stepper.taped_state(blank=True) if sim.requires_grad else sim._stepper.blank_state()
        for name, value in values.items():
            if name in STATE_NAMES and value.size:
                wp.copy(self.start.arrays()[name], value)
        self.controls, self.mocap = values.get("controls"), values.get("mocap")
        sim._inputs.refuse_mocap(self.mocap)
        self.parameters = {name: x for name, x in values.items() if name not in (*STATE_NAMES, *BY_STEP)}
        self.write_parameters()

    def write_parameters(self) -> None:
        """The simulator's parameters <- those of this rollout."""
        for name, value in self.parameters.items():
            wp.copy(scalars(self.sim.parameters[name]), value)


class TapedRollout:
    """A rollout on its own tape (`tape`, which may also record a loss), its `trajectory`, and its gradients.

    `found`: the arrays that it returns, by name.
    """

    def __init__(self, sim, values: dict[str, wp.array], steps: int, **options):
        self.sim = sim
        self._run(values, steps, options)
        self.found = {name: getattr(self.trajectory, name) for name in STATE_NAMES}

    @holds
    def _run(self, values: dict[str, wp.array], steps: int, options: dict) -> None:
        sim = self.sim
        self.inputs = Inputs(sim, values)
        for table in (self.inputs.controls, self.inputs.mocap):
            if table is not None:
                table.requires_grad = True
        with wp.Tape() as self.tape:
            self.trajectory = sim.rollout(
                self.inputs.start, self.inputs.controls, steps, mocap=self.inputs.mocap, **options
            )

    @holds
    def gradients(self, loss: wp.array | None = None, grads: dict | None = None) -> dict[str, wp.array]:
        """Gradients by name, of a loss recorded on the tape, or from given gradients of the rows.

        The parameters are those of the rollout, even if they have changed since: its records keep them.
        """
        inputs, parameters = self.inputs, self.inputs.sim.parameters
        start = inputs.start.smooth_arrays()
        found = {name: start[name].grad for name in STATE_NAMES if name in start}
        for name in BY_STEP:
            if getattr(inputs, name) is not None:
                found[name] = getattr(inputs, name).grad
        found |= {name: scalars(parameters[name].grad) for name in inputs.parameters}
        for array in found.values():
            array.zero_()
        self.tape.backward(loss, grads)
        return found


class TapedStep(TapedRollout):
    """A step as a `TapedRollout` of one step that returns its end alone, without the rows and diagnostics of one."""

    def __init__(self, sim, values: dict[str, wp.array], substeps: int):
        self.sim = sim
        self._run(values, 1, {"substeps": substeps})

    @holds
    def _run(self, values: dict[str, wp.array], steps: int, options: dict) -> None:
        self.inputs = Inputs(self.sim, values)
        rows = {}
        for name in BY_STEP:
            table = getattr(self.inputs, name)
            if table is not None:
                table.requires_grad = True
                rows[name] = table[0] if table.size else None
        with wp.Tape() as self.tape:
            end = self.sim.step(self.inputs.start, rows.get("controls"), mocap=rows.get("mocap"), **options)
        self.found = end.smooth_arrays()


def device_array(sim, name: str, value, wanted: tuple[int, ...]) -> wp.array:
    """Host numbers as a new array of the simulator's dtype, on its device, broadcast to the wanted shape."""
    host = sim._inputs.numbers(value, name)
    host = host.reshape(expansion(name, host.shape, wanted))
    host = np.ascontiguousarray(np.broadcast_to(host, wanted))
    return wp.array(host, dtype=SCALARS[sim.dtype], device=sim.device)
