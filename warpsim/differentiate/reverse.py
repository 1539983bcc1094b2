"""Jacobians of one step row by row, a backward pass each: for every integrator, solver and parameter that a tape has.

Cost: 2 nv backward passes of all worlds. `linearize.py` is the fast way, for what it covers.
"""

import numpy as np
import warp as wp

from warpsim.device.copies import SCALARS, launch
from warpsim.differentiate.taped import scalars
from warpsim.kernels.differentiate import reverse_jacobian
from warpsim.model.tangent import tangent_coordinates
from warpsim.tree.dynamics import BLOCK


class ReverseLinearizer:
    """Tables and launches. `sim` must have been made with `requires_grad=True`."""

    def __init__(self, sim):
        self.sim = sim
        self.coordinate, self.axis = (wp.array(x, dtype=wp.int32, device=sim.device) for x in tangent_tables(sim.model))

    def fill(self, state, control, tau, out) -> None:
        """Write the Jacobians at a point into the arrays of a `Linearization`."""
        sim = self.sim
        saved = {name: wp.clone(getattr(sim.diagnostics, name)) for name in sim.diagnostics.NAMES}
        kept = self._hold_gradients(out.parameters)
        start = sim._blank_state()
        start.assign(state)
        control, tau = (self._input(x, n) for x, n in ((control, sim.model.nu), (tau, sim.model.nv)))
        with wp.Tape() as tape:
            after = sim.step(start, control, tau=tau)
        inputs = {"B": control, "tau": tau} | {name: sim.parameters[name] for name in out.parameters}
        gradients = {
            name: scalars(x.grad).reshape((sim.worlds, -1)) for name, x in inputs.items() if name in out.arrays()
        }
        for row in range(2 * sim.model.nv):
            for array in (start.q.grad, start.v.grad, control.grad, tau.grad, *gradients.values()):
                array.zero_()
            seeds = [row, self.coordinate, self.axis, after.q, after.q.grad, after.v.grad]
            self._launch(reverse_jacobian.seed, sim.worlds, seeds)
            tape.backward()
            self._gather(row, start, after, gradients, out)
        for name, array in kept.items():
            wp.copy(sim.parameters[name].grad, array)
        for name, array in saved.items():
            wp.copy(getattr(sim.diagnostics, name), array)

    def _gather(self, row: int, start, after, gradients, out) -> None:
        flags, arrays, nv = after.memory["flags"], out.arrays(), self.sim.model.nv
        inputs = [row, self.coordinate, self.axis, start.q, start.q.grad, start.v.grad, flags, out.A]
        self._launch(reverse_jacobian.gather_state, (self.sim.worlds, nv), inputs)
        for name, bar in gradients.items():
            self._launch(reverse_jacobian.gather, bar.shape, [row, bar, flags, arrays[name]])

    def _hold_gradients(self, names) -> dict[str, wp.array]:
        """Copies of the gradients that parameters have from the user's own tapes."""
        return {name: wp.clone(self.sim.parameters[name].grad) for name in names}

    def _input(self, values: wp.array | None, n: int) -> wp.array:
        """A control or force as an array with a gradient; None is zero."""
        array = wp.zeros(
            (self.sim.worlds, n), dtype=SCALARS[self.sim.dtype], device=self.sim.device, requires_grad=True
        )
        if values is not None:
            wp.copy(array, values)
        return array

    def _launch(self, kernel, dim, inputs) -> None:
        launch(kernel, SCALARS[self.sim.dtype], dim, inputs, device=self.sim.device, block_dim=BLOCK)


def tangent_tables(model) -> tuple[np.ndarray, np.ndarray]:
    """Per degree of freedom `(nv,)` its coordinate, or where its quaternion begins, and its axis as in `reverse_jacobian.py`."""
    coordinate, axis = np.zeros(model.nv, np.int32), np.full(model.nv, reverse_jacobian.PLAIN, np.int32)
    plain, turning = tangent_coordinates(model)
    for i, d in plain:
        coordinate[d] = i
    for i, d in turning:
        coordinate[d : d + 3], axis[d : d + 3] = i, range(3)
    return coordinate, axis
