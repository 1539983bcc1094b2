# SPDX-License-Identifier: Apache-2.0
"""Host side of the energy of tendon springs. A model without tendon springs has no launch of it."""

import numpy as np
import warp as wp

from warpsim.forces.lines import Lines
from warpsim.kernels.forces import elastic_tendons
from warpsim.model.model import Model
from warpsim.tree.dynamics import Dynamics
from warpsim.tree.part import Part


def sprung(model: Model) -> np.ndarray:
    """The tendons that have a spring, or a damper: its row also accepts a stiffness that is set in a simulator."""
    return np.flatnonzero((model.tendon_stiffness > 0) | (model.tendon_damping > 0))


class TendonEnergy(Part):
    """Energy [J] of the tendon springs of every world: `measure` computes it, `add` adds it to the potential and total
    energy."""

    name, fuses = "tendon_energy", True

    def __init__(self, dynamics: Dynamics, lines: Lines | None):
        self.dynamics, self.lines, d = dynamics, lines, dynamics.device_model
        model, t = d.model, d.types
        found = sprung(model)
        rows, columns = np.nonzero(model.tendon_coefficients[found])
        self.springs = d.struct(
            elastic_tendons.TendonSprings,
            tendon=found,
            line=[-1 if lines is None else lines.tables.line_of_tendon(int(tendon)) for tendon in found],
            begin=np.searchsorted(rows, np.arange(len(found) + 1)),
            q=model.link_q[model.dof_link[columns]],
            coefficient=model.tendon_coefficients[found[rows], columns],
            slack=model.tendon_reference[found],
        )
        self.elastic = wp.zeros(d.worlds, dtype=t.real, device=d.device)
        self.length = lines.length if lines else wp.zeros((0, 0), dtype=t.real, device=d.device)

    def before_forces(self, h: float) -> None:
        if self.of.reports_energy:
            self.compute(self.of.q)
            self.add(self.of.potential, self.of.energy)

    def compute(self, q: wp.array) -> None:
        """Compute the energy at q, after the lengths of the lines."""
        d = self.dynamics.device_model
        inputs = [self.springs, d.parameters.stored("tendon_stiffness"), q, self.length, self.elastic]
        self.dynamics.launch(elastic_tendons.tendon_energy, None, inputs)

    def add(self, potential: wp.array, total: wp.array) -> None:
        """Add the computed energy."""
        self.dynamics.launch(elastic_tendons.add_elastic, None, [self.elastic, potential, total])
