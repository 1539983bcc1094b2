# SPDX-License-Identifier: Apache-2.0
"""The impulses of a step with impacts over all its solves (device: `impulse_shares.py`; theory §2)."""

from warpsim.device.per_world import assign
from warpsim.kernels.integrate import impulse_shares

FLIGHT, IMPACT, LAST = int(impulse_shares.FLIGHT), int(impulse_shares.IMPACT), int(impulse_shares.LAST)


class ImpactSums:
    """Sums up the contact points and impulses of the solves of an `Impacts`, launched over its worlds."""

    def __init__(self, impacts):
        self.impacts, step = impacts, impacts.step
        self.step, C = step, step.collision.capacity
        sizes = dict.fromkeys(("pair", "feature", "phi", "point", "frame", "mu", "size", "impulse"), C)
        spin = C if step.collision.spin is not None else 0
        sizes |= {"count": None, "moment": spin, "length": spin, "row_gamma": step.scalar_rows.count}
        self.sums = step.dynamics.workspace(impulse_shares.Sums, **sizes)
        self.length = step.collision.spin.length if spin else self.sums.length
        self.measurement = step.measurement
        if self.measurement:
            self.data = self.measurement.sensors.data
            array, S, nv = (
                step.dynamics.array,
                step.device_model.types.real,
                self.measurement.sensors.acceleration.shape[1],
            )
            self.total, self.v_end = array(self.data.shape[1], S), array(nv if step.spin else 0, S)

    def measure(self, h: float, is_impact: bool = False) -> None:
        """Measure what sensors read of the present solution, with the kinematics where it begins."""
        if self.measurement:
            s, step = self.impacts.segments, self.step
            q, v = (step.q, step.v) if is_impact else (s.q, s.v)
            self.measurement.measure_solve(h, q, v, is_impact)

    def add(self, part: int) -> None:
        """Add the impulses of the present solution. `part`: FLIGHT, IMPACT or LAST."""
        step, solver = self.step, self.step.solver
        inputs = [part, step.collision.contacts, solver.solution, solver.problem.mu, self.length]
        inputs += [step.scalar_rows.rows, self.impacts.segments, self.sums]
        step.dynamics.launch(impulse_shares.add_impulses, None, inputs)
        if self.measurement:
            self._add_measured(part)
            changed = [part, solver.solution.v, self.impacts.segments, step.v, self.v_end]
            step.dynamics.launch(impulse_shares.add_changes, self.v_end.shape[1], changed)

    def _add_measured(self, part: int) -> None:
        inputs = [part, self.data, self.impacts.segments, self.total]
        self.step.dynamics.launch(impulse_shares.add_measured, self.data.shape[1], inputs)

    def give(self, h: float) -> None:
        """Put the sums in place of the contacts and impulses of the last solve, and of what was measured in it."""
        step, solver = self.step, self.step.solver
        outputs = [step.collision.contacts, solver.solution, solver.problem.mu, self.length]
        step.dynamics.launch(impulse_shares.give_impulses, None, [self.sums, step.scalar_rows.rows, *outputs])
        if self.measurement:
            if self.v_end.size:  # what spinning bodies turn by along the path
                self.measurement.measure_turn(h, self.v_end)
                self._add_measured(IMPACT)
            assign(self.data, self.total)
            self.measurement.finish_solves(h)
