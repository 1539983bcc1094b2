# SPDX-License-Identifier: Apache-2.0
"""What the steps on a tape used of the physical parameters: copies, so that later edits change no gradient.

Arrays have no version, and a kernel may write to one that was handed out at any time: whoever records a step copies what
can have been written to, which is what has been asked for through `sim.parameters`. Where nobody else's code runs between
the steps, as in a rollout, they share one copy.
"""

import warp as wp

from warpsim.device.copies import launch
from warpsim.device.recording import tape_paused
from warpsim.differentiate.taped import scalars
from warpsim.kernels.differentiate import gradient
from warpsim.model.parameters import Parameters
from warpsim.tree.dynamics import BLOCK


class KeptParameters:
    """The values of the expanded parameters at one time; all others are the model's."""

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        with tape_paused():
            self.values = {name: wp.clone(parameters.stored(name), requires_grad=False) for name in parameters.expanded}

    def value(self, name: str) -> wp.array:
        """The value of a parameter that is expanded by now, leading dimension 1 or worlds."""
        return self.values[name] if name in self.values else self.parameters.initial(name)

    def copy_to(self, name: str, target: wp.array) -> None:
        """target <- the value kept."""
        if not target.size:
            return
        source, target = scalars(self.value(name)), scalars(target)
        rows = [x.reshape((x.shape[0], x.size // x.shape[0])) for x in (source, target)]
        options = {"device": target.device, "block_dim": BLOCK, "record_tape": False}
        launch(gradient.load_rows, source.dtype, rows[1].shape, rows, **options)

    def used(self):
        """A context in which the simulator's parameters have the values kept."""
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
    """The parameters of a backward pass: values as they were kept, gradients those of the simulator's own arrays.

    Takes the place of `Parameters` in a `DeviceModel`; `load` a record's before its launches.
    """

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self._own: dict[str, wp.array] = {}

    def stored(self, name: str) -> wp.array:
        """The array as kernels read it: leading dimension 1 or worlds."""
        return self._own[name] if name in self._own else self.parameters.stored(name)

    @property
    def expanded(self) -> list[str]:
        """The parameters that have been asked for: none of the others has a gradient."""
        return self.parameters.expanded

    def __iter__(self):
        return iter(self.parameters)

    def load(self, kept: KeptParameters) -> None:
        """The values of a record, and the present gradient arrays."""
        for name in self.parameters.expanded:
            present = self.parameters.stored(name)
            if name not in self._own:
                self._own[name] = wp.empty_like(present, requires_grad=False)
            if self._own[name].grad is not present.grad:
                self._own[name].grad = present.grad
            kept.copy_to(name, self._own[name])
