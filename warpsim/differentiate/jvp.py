# SPDX-License-Identifier: Apache-2.0
"""Forward mode: derivatives of one step along directions (`Simulator.jvp`).

In closed form the products r_x δx of all directions are formed first, then one solve H δv = −r_x δx follows
(theory §3.5, `linearize.py`). Elsewhere reverse passes find the Jacobians row by row (`reverse.py`).
"""

from collections.abc import Mapping

import numpy as np
import warp as wp

from warpsim.base.checks import short
from warpsim.device.ranges import fill
from warpsim.device.recording import tape_paused
from warpsim.differentiate.linearize import (
    blank_result,
    parameter_names,
    point_forces,
    request_entries,
    state_size,
    why_reverse,
)
from warpsim.differentiate.taped import scalars
from warpsim.kernels.differentiate import directions as kernels


class Pushforward:
    """Takes directions through steps; keeps a workspace for each kind of request."""

    def __init__(self, stepper):
        self.stepper = stepper
        self._kept: dict[tuple, Directions] = {}

    def push(self, h: float, reason: str, state, control, tau, found: dict[str, wp.array]) -> wp.array:
        """Derivatives `(directions, worlds, rows)` of a step of h, in an array that the next call may fill anew.

        `found`: directions (1 or directions, worlds, entries) by the names of `Linearization.arrays`. `reason`: what
        `why_reverse` returned.
        """
        stepper = self.stepper
        key = (tuple(found), max(array.shape[0] for array in found.values()))
        if key not in self._kept:
            self._kept[key] = Directions(stepper, *key)
        kept = self._kept[key]
        kept.load(found)
        if reason:
            stepper.reverse_linearizer.fill(h, state, control, tau, kept.jacobians)
            stepper.replay.run(("jvp", id(kept)), kept.push_jacobians)
        else:
            linearizer = stepper.linearizer
            linearizer.load(state, control, tau)
            stepper.replay.run(("jvp", id(kept), h), lambda: kept.push_columns(linearizer, h))
        return kept.out


class Directions:
    """Directions `given[name] (directions, worlds, entries)` and their derivatives `out (directions, worlds, rows)`."""

    def __init__(self, stepper, names: tuple[str, ...], count: int):
        d, model, worlds = stepper.device_model, stepper.model, stepper.worlds
        self.launch, rows, S = stepper.step.dynamics.launch, state_size(model), d.types.real
        self.force = "tau" in names
        self.parameters = tuple(name for name in names if name not in ("A", "B", "tau", "mocap"))
        entries = request_entries(model, self.force, self.parameters, "mocap" in names)

        def array(*shape) -> wp.array:
            return wp.zeros(shape, dtype=S, device=d.device)

        self.given = {name: array(count, worlds, entries[name]) for name in names}
        self.R, self.Y = array(worlds, model.nv, count), array(worlds, rows, count)
        self.out = array(count, worlds, rows)
        self.jacobians = blank_result(d, entries)  # in closed form the explicit part alone

    def load(self, found: dict[str, wp.array]) -> None:
        """Take directions; one that comes alone counts for all."""
        for name, array in found.items():
            target = self.given[name]
            for k in range(target.shape[0] if target.size and array.shape[0] < target.shape[0] else 0):
                wp.copy(target[k], array[0])
            if target.size and array.shape == target.shape:
                wp.copy(target, array)

    def push_columns(self, linearizer, h: float) -> None:
        """Fill `out` at the point that the linearizer has, by the columns of the equations."""
        columns = linearizer.columns(self.force, self.parameters)
        linearizer.fill_columns(h, columns)
        fill(self.R)
        for name, d in self.given.items():
            self._add(columns.X, columns.first[name], d, self.R)
        linearizer.solve(self.R)
        fill(self.Y)
        linearizer.store(h, self.R, 0, self.Y)
        for array in self.jacobians.arrays().values():
            fill(array)
        linearizer.add_explicit(h, columns, self.jacobians)
        self._finish()

    def push_jacobians(self) -> None:
        """Fill `out` from `jacobians`."""
        fill(self.Y)
        self._finish()

    def _finish(self) -> None:
        jacobians = self.jacobians.arrays()
        for name, d in self.given.items():
            self._add(jacobians[name], 0, d, self.Y)
        self.launch(kernels.store_directions, self.Y.shape[1:], [self.Y, self.out])

    def _add(self, J: wp.array, first: int, d: wp.array, Y: wp.array) -> None:
        if d.size and Y.size:
            self.launch(kernels.add_products, Y.shape[1:], [J, first, d, Y])


def jvp(sim, state, control, dstate, dcontrol, tau, dtau, dmocap, parameters, out) -> wp.array:
    """See `Simulator.jvp`."""
    sim._stepper.check_state(state)
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ValueError(f"parameters is {short(parameters)}; give a dict of directions by name")
    parameters = dict(parameters or {})
    names = parameter_names(tuple(parameters))
    reason = why_reverse(sim, names, "" if dmocap is None else "dmocap", "jvp")
    model, rows = sim.model, state_size(sim.model)
    given = {"A": ("dstate", dstate, (rows,)), "B": ("dcontrol", dcontrol, (model.nu,))}
    given |= {"tau": ("dtau", dtau, (model.nv,)), "mocap": ("dmocap", dmocap, (model.nmocap, 6))}
    given |= {n: (f"parameters[{n!r}]", parameters[n], np.shape(getattr(model, n))) for n in names}
    given = {name: request for name, request in given.items() if request[1] is not None}
    if not given:
        raise ValueError("jvp has no direction; give dstate, dcontrol, dtau, dmocap or parameters")
    with tape_paused():
        control, tau = point_forces(sim, control, tau)
        found = {name: _on_device(sim, *request) for name, request in given.items()}
        counts = {name: array.shape[0] for name, array in found.items()}
        count = max(counts.values())
        if not set(counts.values()) <= {1, count}:
            told = ", ".join(f"{given[name][0]} {n}" for name, n in counts.items())
            raise ValueError(f"numbers of directions differ: {told}; give as many of each, or one for all")
        several = any(np.ndim(x) > 1 + len(shape) for _, x, shape in given.values())
        shape = (*((count,) if several else ()), sim.worlds, rows)
        if out is not None:
            if not isinstance(out, wp.array):
                raise ValueError(f"out is a {type(out).__name__}; give the array of an earlier call")
            sim._inputs.device_array(out, shape, "out")
        found = sim._stepper.pushforward.push(sim.dt, reason, state, control, tau, found)
        result = wp.empty(shape, dtype=found.dtype, device=found.device) if out is None else out
        wp.copy(result, found.reshape(shape))
    return result


def _on_device(sim, label: str, value, shape: tuple[int, ...]) -> wp.array:
    """Directions (directions, worlds, entries) on the device, from one (worlds, *shape) or from several."""
    if not hasattr(value, "shape"):
        value = sim._inputs.numbers(value, label)
    wanted, given = (sim.worlds, *shape), (*value.shape, *getattr(value.dtype, "_shape_", ()))
    if given != wanted and (given[1:] != wanted or not given[0]):
        each = ", ".join(str(n) for n in wanted)
        raise ValueError(f"{label} has shape {given}; it must be {wanted}, or (directions, {each})")
    flat = (given[0] if len(given) > len(wanted) else 1, sim.worlds, int(np.prod(shape)))
    if isinstance(value, wp.array):
        return sim._inputs.device_array(scalars(value.contiguous(), flat), flat, label)
    return sim._inputs.device_array(value.reshape(flat), flat, label)
