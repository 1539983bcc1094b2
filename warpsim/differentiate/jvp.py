# SPDX-License-Identifier: Apache-2.0
"""Forward mode: derivatives of one step along directions (`Simulator.jvp`).

The closed form first computes the products r_x δx of all directions, then solves H δv = −r_x δx once (theory §3.5,
`linearize.py`). Elsewhere reverse passes find the Jacobians row by row (`reverse.py`).
"""

from collections.abc import Mapping

import numpy as np
import warp as wp

from warpsim.base.checks import short
from warpsim.device.per_world import fill
from warpsim.device.recording import tape_paused
from warpsim.device.threads import holds
from warpsim.differentiate.linearize import (
    blank_result,
    parameter_names,
    point_forces,
    request_entries,
    state_size,
    why_reverse,
)
from warpsim.differentiate.tangent_tables import pose_tables, tangent_tables
from warpsim.differentiate.taped import BY_STEP, STATE_NAMES, Inputs, flat, scalars
from warpsim.kernels.differentiate import directions as kernels
from warpsim.model.parameters import SPECS, values_of


class Pushforward:
    """Pushes directions through steps. Keeps one workspace per kind of request."""

    def __init__(self, stepper):
        self.stepper = stepper
        self._kept: dict[tuple, Directions] = {}
        self._tables = {"q": tangent_tables(stepper.device_model), "mocap": pose_tables(stepper.device_model)}

    def push(self, h: float, reason: str, state, control, tau, found: dict[str, wp.array]) -> wp.array:
        """Derivatives `(directions, worlds, rows)` along the directions in `found`, through one step of h.

        The next call may overwrite the result. `found`: directions (1 or directions, worlds, entries) by the names of
        `Linearization.arrays`. `reason`: the result of `why_reverse`.
        """
        stepper = self.stepper
        key = (tuple(found), max(array.shape[0] for array in found.values()))
        if key not in self._kept:
            self._kept[key] = Directions(stepper, *key)
        kept = self._kept[key]
        kept.load(found)
        if reason:
            stepper.compile_once("jvp", kept.push_jacobians)
            stepper.reverse_linearizer.fill(h, state, control, tau, kept.jacobians)
            stepper.replay.run(("jvp", id(kept)), kept.push_jacobians)
        else:
            linearizer = stepper.linearizer
            linearizer.load(state, control, tau)
            stepper.compile_once(("jvp", *found), lambda: kept.push_columns(linearizer, h))
            stepper.replay.run(("jvp", id(kept), h), lambda: kept.push_columns(linearizer, h))
        return kept.out

    def to_tangent(self, name: str, at: wp.array, change: wp.array, out: wp.array) -> None:
        """Convert changes of the coordinates of "q" or "mocap" into tangent vectors, the first entries of `out`."""
        self._convert(kernels.to_tangent, name, at, change, out)

    def to_coordinates(self, at: wp.array, tangent: wp.array, out: wp.array) -> None:
        """Convert tangent vectors of q, the first entries of `tangent`, into changes of coordinates."""
        self._convert(kernels.to_coordinates, "q", at, tangent, out)

    def _convert(self, kernel, name: str, at: wp.array, change: wp.array, out: wp.array) -> None:
        tables, launch = self._tables[name], self.stepper.step.dynamics.launch
        launch(kernel, (tables.axis.shape[0], change.shape[0]), [tables, flat(at), change, out])


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
        self.jacobians = blank_result(d, entries)  # the closed form uses the explicit part alone

    def load(self, found: dict[str, wp.array]) -> None:
        """Load directions. A single one counts for all."""
        for name, array in found.items():
            target = self.given[name]
            for k in range(target.shape[0] if target.size and array.shape[0] < target.shape[0] else 0):
                wp.copy(target[k], array[0])
            if target.size and array.shape == target.shape:
                wp.copy(target, array)

    def push_columns(self, linearizer, h: float) -> None:
        """Fill `out` at the point that is loaded in the linearizer, from the columns of the equations."""
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
    given |= {n: (f"parameters[{n!r}]", parameters[n], np.shape(values_of(model, n))) for n in names}
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
    """Directions (directions, worlds, entries) on the device, from one (worlds, *shape) or several."""
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


def change_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a change of an input: (worlds, entries), or (steps, worlds, entries) for inputs of every step."""
    lead = 2 if name in BY_STEP else 1
    return (*shape[:lead], int(np.prod(shape[lead:])))


def way_of_rollout(sim, changed: tuple[str, ...], steps: int) -> str:
    """`why_reverse` for directions of these inputs, through this number of steps."""
    names = parameter_names(tuple(name for name in changed if name not in (*STATE_NAMES, *BY_STEP)))
    carried = sorted(set(sim._step.smooth_memory()) - {"activation", "mocap", "measured"})
    if carried and steps > 1:
        raise ValueError(
            f"forward mode goes through single steps of {sim.integrator!r}, not through {steps}: it leaves out "
            f"{carried[0]!r}, which one step hands to the next; use reverse mode"
        )
    return why_reverse(sim, names, "mocap" if "mocap" in changed else "", "forward mode")


@holds
def push_rollout(sim, values: dict, changes: dict, steps: int, substeps: int = 1, every: int = 1) -> list[wp.array]:
    """Derivatives (directions, rows, worlds, n) of the rows of q, v and, where `values` has them, activations.

    `values` as in `TapedRollout`. `changes`: directions of some of them by name, in coordinates, of shape (directions,
    *`change_shape(…)`).
    """
    reason = way_of_rollout(sim, tuple(changes), steps * substeps)
    with tape_paused():
        walk = _Walk(sim, values, changes, steps // every + 1)
        for k in range(steps):
            for _ in range(substeps):
                walk.advance(k, sim.dt / substeps, reason)
            if (k + 1) % every == 0:
                walk.keep((k + 1) // every)
    return list(walk.rows.values())


class _Walk:
    """A rollout that carries directions along: `state`, and `x (directions, worlds, 2 nv + na)`."""

    def __init__(self, sim, values: dict, changes: dict, rows: int):
        self.stepper, nv = sim._stepper, sim.model.nv
        self.changes = {name: x for name, x in changes.items() if x.size}
        self.inputs = Inputs(sim, values)
        self.controls = self.inputs.controls if sim.model.nu else None
        self.state, self.S, self.device = self.inputs.start, sim.device_model.types.real, sim.device
        self.count = next(iter(changes.values())).shape[0]
        self.x = self._zeros(sim.worlds, state_size(sim.model))
        parts = {"q": slice(0, nv), "v": slice(nv, 2 * nv), "activation": slice(2 * nv, None)}
        self.parts = {name: part for name, part in parts.items() if name in values}
        self.rows = {name: self._zeros(rows, *values[name].shape) for name in self.parts}
        for name in (name for name in self.parts if name in self.changes):
            wp.copy(self.rows[name][:, 0], changes[name])
            if name == "q":
                self.stepper.pushforward.to_tangent("q", self.state.q, changes["q"], self.x)
            else:
                wp.copy(self.x[:, :, self.parts[name]], changes[name])

    def _zeros(self, *shape) -> wp.array:
        return wp.zeros((self.count, *shape), dtype=self.S, device=self.device)

    def _directions(self, k: int) -> dict[str, wp.array]:
        """The directions of step k, by the names of a `Linearization`."""
        found, changes, worlds = {"A": self.x}, self.changes, self.stepper.worlds
        if "controls" in changes:
            found["B"] = changes["controls"][:, k]
        if "mocap" in changes:
            found["mocap"] = self._zeros(worlds, 6 * self.stepper.model.nmocap)
            poses = changes["mocap"][:, k]
            self.stepper.pushforward.to_tangent("mocap", self.inputs.mocap[k], poses, found["mocap"])
        return found | {name: changes[name] for name in SPECS if name in changes}

    def advance(self, k: int, h: float, reason: str) -> None:
        """One (sub)step of h with the inputs of step k."""
        stepper, inputs, state = self.stepper, self.inputs, self.state
        control = None if self.controls is None else self.controls[k]
        if inputs.mocap is not None:
            wp.copy(state.memory["mocap"], inputs.mocap[k])
        wp.copy(self.x, stepper.pushforward.push(h, reason, state, control, None, self._directions(k)))
        stepper.set_forces(control, None, None)
        stepper.load(state)
        stepper.advance(h)
        stepper.unload(state)

    def keep(self, row: int) -> None:
        """Write the directions to a row."""
        for name, part in self.parts.items():
            if name == "q":
                change = self._zeros(*self.state.q.shape)
                self.stepper.pushforward.to_coordinates(self.state.q, self.x, change)
                wp.copy(self.rows["q"][:, row], change)
            elif self.rows[name].size:
                wp.copy(self.rows[name][:, row], self.x[:, :, part])
