# SPDX-License-Identifier: Apache-2.0
"""Host side of the energy of tendon springs. Models without any have no launch of it."""

import numpy as np
import warp as wp

from warpsim.device.copies import copy
from warpsim.forces.lines import Lines
from warpsim.kernels.forces import elastic_tendons
from warpsim.model.model import Model
from warpsim.tree.dynamics import Dynamics


def sprung(model: Model) -> np.ndarray:
    """The tendons that have a spring, or can be given one in a simulator: those whose damper has the row for it."""
    return np.flatnonzero((model.tendon_stiffness > 0) | (model.tendon_damping > 0))


class TendonEnergy:
    """`measure` finds the energy [J] of the tendon springs of every world, `add` adds it to the potential and total energy."""

    def __init__(self, dynamics: Dynamics, lines: Lines | None):
        self.dynamics, self.lines, d = dynamics, lines, dynamics.device_model
        model, t = d.model, d.types
        found = sprung(model)
        rows, columns = np.nonzero(model.tendon_coefficients[found])
        made = self.springs = copy(elastic_tendons.TendonSprings, t.real)()
        whole = {
            "tendon": found,
            "line": [-1 if lines is None else lines.tables.line_of_tendon(int(tendon)) for tendon in found],
            "begin": np.searchsorted(rows, np.arange(len(found) + 1)),
            "q": model.link_q[model.dof_link[columns]],
        }
        for name, values in whole.items():
            setattr(made, name, wp.array(np.asarray(values, np.int32), dtype=wp.int32, device=d.device))
        coefficients = model.tendon_coefficients[found[rows], columns]
        made.coefficient = wp.array(coefficients.astype(d.dtype), dtype=t.real, device=d.device)
        made.slack = wp.array(model.tendon_reference[found].astype(d.dtype), dtype=t.vec2, device=d.device)
        self.elastic = wp.zeros(d.worlds, dtype=t.real, device=d.device)
        self._no_lines = wp.zeros((0, 0), dtype=t.real, device=d.device)

    def measure(self, q: wp.array) -> None:
        """At q, where the lines have been measured."""
        length = self._no_lines if self.lines is None else self.lines.length
        stiffness = self.dynamics.device_model.parameters.stored("tendon_stiffness")
        self.dynamics.launch(elastic_tendons.tendon_energy, None, [self.springs, stiffness, q, length, self.elastic])

    def add(self, potential: wp.array, total: wp.array) -> None:
        """What was measured."""
        self.dynamics.launch(elastic_tendons.add_elastic, None, [self.elastic, potential, total])
