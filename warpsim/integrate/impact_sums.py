# SPDX-License-Identifier: Apache-2.0
"""The impulses of a step with impacts over all its solves (device: `impulse_shares.py`; theory §2)."""

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

    def add(self, part: int) -> None:
        """Add the impulses of the present solution. `part`: FLIGHT, IMPACT or LAST."""
        step, solver = self.step, self.step.solver
        inputs = [part, step.collision.contacts, solver.solution, solver.problem.mu, self.length]
        inputs += [step.scalar_rows.rows, self.impacts.segments, self.sums]
        step.dynamics.launch(impulse_shares.add_impulses, None, inputs)

    def give(self) -> None:
        """Put the sums in place of the contacts and impulses of the last solve."""
        step, solver = self.step, self.step.solver
        outputs = [step.collision.contacts, solver.solution, solver.problem.mu, self.length]
        step.dynamics.launch(impulse_shares.give_impulses, None, [self.sums, step.scalar_rows.rows, *outputs])
