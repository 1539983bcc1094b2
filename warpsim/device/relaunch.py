# SPDX-License-Identifier: Apache-2.0
"""Launches that are repeated with other arrays: their arguments are checked and packed once."""

import warp as wp

from warpsim.device.copies import copy, fill_struct, launch, recorded
from warpsim.device.ranges import is_listed
from warpsim.device.replay import capturing


class Relaunch:
    """A kernel that is launched again and again, with other arrays in some of its arguments.

    A launch from Python checks and packs every argument, which takes 15 to 30 µs. A call of this object sets the
    addresses that changed, which takes 3 to 7 µs, and keeps no reference to the arrays.

    Parameters
    ----------
    kernel, real, dim, device
        As in `copies.launch`.
    inputs : list
        The arguments. Those that change are placeholders: an array of the same type, or a struct without arrays.

    Notes
    -----
    Arrays of a call have the declared types, and their last axis is contiguous (`copies.by_rows`).
    """

    def __init__(self, kernel, real, dim, inputs: list, device):
        self._launched, self._inputs, self.device = (kernel, real, dim), inputs, device
        self._command: wp.Launch | None = None

    def __call__(self, arrays: dict[int, wp.array], fields: dict[int, dict[str, wp.array]]) -> None:
        """Launch with `arrays`, by the index of their argument, and the `fields` of structs, by index and name."""
        if is_listed():
            is_listed(copy(*self._launched[:2]))
            return
        if capturing(self.device):  # a CPU graph needs the arrays themselves
            self.launch_afresh(arrays, fields)
            return
        if self._command is None:
            self._command = recorded(*self._launched, self._inputs, self.device)
        for index, array in arrays.items():
            self._command.set_param_at_index_from_ctype(index, array.__ctype__())
        for index, values in fields.items():
            packed = self._inputs[index].__ctype__()
            for name, array in values.items():
                setattr(packed, name, array.__ctype__())
        self._command.launch()

    def launch_afresh(self, arrays, fields) -> None:
        """Launch as usual: every argument is checked and packed."""
        inputs = list(self._inputs)
        for index, values in fields.items():
            inputs[index] = type(inputs[index])()
            fill_struct(inputs[index], self.device, values)
        for index, array in arrays.items():
            inputs[index] = array
        launch(*self._launched, inputs, device=self.device, record_tape=False)
