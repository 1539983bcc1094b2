# SPDX-License-Identifier: Apache-2.0
"""Copies of the physical parameters that the steps on a tape used, so that later edits change no gradient.

Warp arrays have no version counter, and a kernel may write at any time to an array that was handed out. Each recorded
step therefore copies the parameters that may have been written to: those asked for through `sim.parameters`. Steps
share one copy where no user code runs between them, as in a rollout.
"""

from collections.abc import Callable

import warp as wp

from warpsim.device.copies import launch
from warpsim.device.recording import tape_paused
from warpsim.differentiate.taped import scalars
from warpsim.kernels.differentiate import gradient
from warpsim.model.parameters import Parameters
from warpsim.tree.dynamics import BLOCK


class KeptParameters:
    """The values of the expanded parameters at one time. All others have the model's values."""

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        with tape_paused():
            self.values = {name: wp.clone(parameters.stored(name), requires_grad=False) for name in parameters.expanded}

    def value(self, name: str) -> wp.array:
        """The kept value of a parameter, leading dimension 1 or worlds; the model's if it was not expanded then."""
        return self.values[name] if name in self.values else self.parameters.initial(name)

    def copy_to(self, name: str, target: wp.array) -> None:
        """target <- the kept value."""
        if not target.size:
            return
        source, target = scalars(self.value(name)), scalars(target)
        rows = [x.reshape((x.shape[0], x.size // x.shape[0])) for x in (source, target)]
        options = {"device": target.device, "block_dim": BLOCK, "record_tape": False}
        launch(gradient.load_rows, source.dtype, rows[1].shape, rows, **options)

    def used(self):
        """A context in which the simulator's parameters have the kept values."""
        return _Used(self)


class _Used:
    def __init__(self, kept: KeptParameters):
        self.kept = kept

    def __enter__(self):
        self.present = KeptParameters(self.kept.parameters)
        self._write(self.kept)

    def __exit__(self, *error):
        self._write(self.present)

    def _write(self, kept: KeptParameters) -> None:
        for name in self.present.values:
            kept.copy_to(name, self.kept.parameters.stored(name))


class AdjointParameters:
    """The parameters of a backward pass: the kept values, with the gradient arrays of the simulator.

    It replaces `Parameters` in a `DeviceModel`. Call `load` before the launches for a record.
    """

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self._own: dict[str, wp.array] = {}

    def stored(self, name: str) -> wp.array:
        """The array as kernels read it: leading dimension 1 or worlds."""
        return self._own[name] if name in self._own else self.parameters.stored(name)

    @property
    def expanded(self) -> list[str]:
        """The parameters that have been asked for. No other parameter has a gradient."""
        return self.parameters.expanded

    def on_expansion(self, function: Callable[[str], None]) -> None:
        """See `Parameters`."""
        self.parameters.on_expansion(function)

    def __iter__(self):
        return iter(self.parameters)

    def load(self, kept: KeptParameters) -> None:
        """Load the values of a record, and the present gradient arrays."""
        for name in self.parameters.expanded:
            present = self.parameters.stored(name)
            if name not in self._own:
                self._own[name] = wp.empty_like(present, requires_grad=False)
            if self._own[name].grad is not present.grad:
                self._own[name].grad = present.grad
            kept.copy_to(name, self._own[name])
