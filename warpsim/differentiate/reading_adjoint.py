# SPDX-License-Identifier: Apache-2.0
"""Sensors on a tape: reading them is one operation. The backward pass repeats it, taped.

A record keeps what was read: the parameters that have been asked for, and positions, velocities, controls and poses of
mocap bodies, as copies unless a tape made them. What a step has measured has its own place on the tape, as part of the
state (`measurement_adjoint.py`).
"""

import functools

import warp as wp

from warpsim.device.copies import launch
from warpsim.device.per_world import fill
from warpsim.device.recording import tape_paused
from warpsim.device.threads import exclusive
from warpsim.differentiate.implicit import kept_array, with_gradient
from warpsim.differentiate.kept import KeptParameters
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.kernels.differentiate import gradient, mocap_adjoint
from warpsim.sensors.reader import REACTIONS, ReactionReader, SensorReader
from warpsim.tree.dynamics import DeviceModel

NAMES = ("q", "v", "measured", "control", "mocap")


class ReadingAdjoint:
    """Workspace for reading sensors on tapes. `device_model` has `AdjointParameters` of `parameters`."""

    def __init__(self, device_model: DeviceModel, parameters):
        self.device_model, self.parameters, self.device = device_model, parameters, device_model.device
        self._use = parameters._use
        self.dynamics = TapedDynamics(device_model)
        self._inputs: dict[tuple, wp.array] = {}
        if device_model.model.nmocap:
            self._none = wp.zeros(
                (device_model.worlds, device_model.model.nmocap, 7), dtype=device_model.types.real, device=self.device
            )
            self._no_flags = wp.zeros(device_model.worlds, dtype=wp.int32, device=self.device)

    @functools.cached_property
    def sensors(self) -> SensorReader:
        return SensorReader(self.dynamics)

    @functools.cached_property
    def reactions(self) -> dict[str, ReactionReader]:
        return {what: ReactionReader(self.dynamics, what) for what in REACTIONS}

    @exclusive
    def read(self, tape, reader, state, measured, control) -> wp.array:
        """The readings `(worlds, numbers)` of `reader`, recorded on `tape`.

        `measured`: what it reads of the last step, and where.
        """
        arrays = dict(zip(NAMES, (state.q, state.v, measured[0], control, state.memory.get("mocap")), strict=True))
        kept = {n: x if state.recorded and n != "control" else kept_array(x) for n, x in arrays.items()}
        kept |= {"time": kept_array(state.time), "stepped": kept_array(measured[1])}
        parameters = KeptParameters(self.parameters)
        out = self.dynamics.array(reader.size, self.device_model.types.real)
        self._load(kept, parameters)
        self._evaluate(reader, kept, out)
        targets = {name: x for name, x in arrays.items() if x is not None and x.grad is not None}
        backward = functools.partial(self.backward, reader, kept, parameters, out, targets)
        tape.record_func(backward, [*targets.values(), out])
        return out

    @exclusive
    def backward(self, reader, kept: dict, parameters: KeptParameters, out: wp.array, targets: dict) -> None:
        """Add the gradients of what was read, from the gradient of the result, and clear the latter."""
        self._load(kept, parameters)
        found = wp.empty_like(out, requires_grad=True)
        owners = [self.dynamics, reader, *reader.owners()]
        for array in (*with_gradient(*owners), *(self._input(name, kept[name]) for name in targets)):
            fill(array.grad)
        if self.device_model.model.nmocap:
            fill(self.device_model.link_pose.grad)
        with wp.Tape() as tape:
            self._evaluate(reader, kept, found)
        wp.copy(found.grad, out.grad)
        tape.backward()
        for name, array in targets.items():
            if name == "mocap":
                self._pass_to_mocap(self._input(name, kept[name]), array.grad)
            elif array.size:
                inputs = [self._input(name, kept[name]).grad, array.grad]
                launch(gradient.move, array.dtype, array.shape, inputs, device=self.device, record_tape=False)
        fill(out.grad)

    def _pass_to_mocap(self, mocap: wp.array, bar: wp.array) -> None:
        """Add the gradient of the links' poses to that of the poses of mocap bodies."""
        d = self.device_model
        inputs = [self._no_flags, d.mocap_link, mocap, d.link_pose, d.link_pose.grad, bar, self._none]
        launch(mocap_adjoint.add_mocap, d.types.real, mocap.shape[:2], inputs, device=self.device, record_tape=False)

    def _load(self, kept: dict, parameters: KeptParameters) -> None:
        self.device_model.parameters.load(parameters)
        for name in NAMES:
            if kept[name] is not None and kept[name].size:
                wp.copy(self._input(name, kept[name]), kept[name])

    def _input(self, name: str, like: wp.array) -> wp.array:
        """The workspace array of an input."""
        key = (name, like.shape)
        if key not in self._inputs:
            self._inputs[key] = wp.zeros_like(like, requires_grad=True)
        return self._inputs[key]

    def _evaluate(self, reader, kept: dict, out: wp.array) -> None:
        x = {name: None if kept[name] is None else self._input(name, kept[name]) for name in NAMES}
        if x["mocap"] is not None:
            with tape_paused():
                self.dynamics.place_mocap(x["mocap"])
        reader.clear()
        reader.read(x["q"], x["v"], kept["time"], x["measured"], kept["stepped"], x["control"], out)
