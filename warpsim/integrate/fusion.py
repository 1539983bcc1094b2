# SPDX-License-Identifier: Apache-2.0
"""The launches of a step of symplectic Euler that do several verbs at once (device: `kernels/integrate/fused.py`)."""

import numpy as np
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.integrate import fused
from warpsim.kernels.solve import problem as problems
from warpsim.kernels.solve.sap import sap
from warpsim.kernels.tree import energy
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.sap.lagged import LaggedSolver
from warpsim.solve.sap.sap import SAPSolver


class FusedStep:
    """Smooth motion in one launch, and the end of a step in another, on the arrays of a `Step`, which knows whether it may."""

    def __init__(self, step):
        self.step, self.device_model = step, step.device_model
        model, device = step.model, self.device_model.device
        link = np.maximum(step.actuator_tables[0].numpy(), 0)
        begin = np.searchsorted(np.sort(link), np.arange(model.nlink + 1))
        tables = (begin, np.argsort(link, kind="stable"))  # in the order of the actuators
        self.link_begin, self.of_link = (wp.array(x.astype(np.int32), dtype=wp.int32, device=device) for x in tables)

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces, A, its factors, v*, and the velocities of links at it."""
        step = self.step
        d = self.device_model
        inputs = [d.topology, d.plant(), self._drives(), h, step.q, step.v, self._motion()]
        step.dynamics.launch(fused.smooth_motion, step.model.ntree, inputs)

    @property
    def certifies(self) -> bool:
        """Whether `finish` certifies the solution, of a solver that a step launches once and no backward pass asks for a factor."""
        step = self.step
        known = type(step.solver) in (SAPSolver, LaggedSolver) and step.solver.code is step.solver.scalar
        return known and type(step.law).solve is ContactLaw.solve and not step.solver.options.keep_factor

    def finish(self, h: float) -> None:
        """The certificate, the energy that the step began with, and q' and v where they are finite."""
        step, d, energies = self.step, self.device_model, copy(energy.Energies, self.device_model.types.real)()
        if step.reports_energy:
            energies.kinetic, energies.potential, energies.total = step.kinetic, step.potential, step.energy
        inputs = [d.topology, d.plant(), self._motion(), h, int(self.certifies), *self._certificate()]
        step.dynamics.launch(fused.finish, None, [*inputs, step.ends(step.q_next, step.v_end), energies])

    def _certificate(self) -> list:
        """What `finish` reads of a solver, and its solution."""
        solver, S = self.step.solver, self.device_model.types.real
        if self.certifies:
            return [solver.problem, solver.work, *solver.errors(), solver.solution]
        solution = copy(problems.Solution, S)()
        solution.v, solution.status = solver.solution.v, solver.solution.status
        nothing = [solver.zeros((0, 0)), solver.zeros(0)]
        return [copy(problems.Problem, S)(), copy(sap.Workspace, S)(), *nothing, solution]

    def _made(self, name: str):
        return copy(getattr(fused, name), self.device_model.types.real)()

    def _drives(self):
        step, made = self.step, self._made("Drives")
        made.actuators, made.tau = step.actuators, step.acting_tau
        made.link_begin, made.of_link = self.link_begin, self.of_link
        return made

    def _motion(self):
        step, dynamics, made = self.step, self.step.dynamics, self._made("Motion")
        for name in ("link_X", "dof_S", "link_I", "link_V", "link_A", "link_f"):
            setattr(made, name, getattr(dynamics, name))
        for name in ("force", "bias", "A", "M_factor", "A_factor", "v_star", "link_V_star", "composite"):
            setattr(made, name, getattr(step, name))
        made.D, made.still, made.armature = step.damping, step.zero_acceleration, dynamics.armature
        return made
