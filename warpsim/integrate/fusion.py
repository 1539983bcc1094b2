# SPDX-License-Identifier: Apache-2.0
"""A step of symplectic Euler in few launches, each of several operations (device: `kernels/integrate/fused.py`)."""

import numpy as np

from warpsim.device.copies import WARP
from warpsim.kernels.integrate import fused
from warpsim.kernels.solve import problem as problems
from warpsim.kernels.solve.sap import sap
from warpsim.kernels.tree import energy
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.sap.lagged import LaggedSolver
from warpsim.solve.sap.sap import SAPSolver

# Fields of the structs in `kernels/integrate/fused.py` that are attributes of the step or of its kinematics.
LINKS = ("link_X", "dof_S", "link_I", "link_V", "link_A", "link_f")
MOTION = ("force", "bias", "A", "M_factor", "A_factor", "v_star", "link_V_star", "composite")


class FusedStep:
    """The smooth motion in one launch and the end of the step in another, on the arrays of a `Step`.

    The step decides whether it may be fused.
    """

    def __init__(self, step):
        self.step, self.device_model = step, step.device_model
        model, array = step.model, self.device_model.array
        link = np.maximum(step.actuator_tables[0].numpy(), 0)
        begin = np.searchsorted(np.sort(link), np.arange(model.nlink + 1))
        of_link = np.argsort(link, kind="stable")  # keeps the order of the actuators
        self.link_begin, self.of_link = array(begin), array(of_link)
        step.solver.certified_later = self.certifies
        self.elastic = [step.tendon_energy] if step.tendon_energy and step.reports_energy else []

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces, A and its factors, v*, and the links' velocities at v*."""
        step, d = self.step, self.device_model
        inputs = [d.topology, d.plant(), self._drives(), h, step.q, step.v, self._motion()]
        small = d.largest_tree <= WARP
        step.dynamics.launch(fused.smooth_motion if small else fused.smooth_motion_of_large, step.model.ntree, inputs)
        for part in self.elastic:
            part.compute(step.q)

    def move_again(self, h: float) -> None:
        """`smooth_motion` at another v, after one at the same q with h = 0."""
        step, d = self.step, self.device_model
        inputs = [d.topology, d.plant(), self._drives(), h, step.q, step.v, self._motion()]
        step.dynamics.launch(fused.move_again, step.model.ntree, inputs)

    @property
    def certifies(self) -> bool:
        """Whether `finish` certifies the solution.

        It does for a solver that the step launches once, and whose factor no backward pass needs.
        """
        step = self.step
        known = type(step.solver) in (SAPSolver, LaggedSolver) and step.solver.code is step.solver.scalar
        return known and type(step.law).solve is ContactLaw.solve and not step.solver.options.keep_factor

    def finish(self, h: float) -> None:
        """The certificate, the energy at the start of the step, and q' and v' where they are finite."""
        step, d = self.step, self.device_model
        energies = {"kinetic": step.kinetic, "potential": step.potential, "total": step.energy}
        energies = d.struct(energy.Energies, **(energies if step.reports_energy else {}))
        inputs = [d.topology, d.plant(), self._motion(), h, int(self.certifies), *self._certificate()]
        step.dynamics.launch(fused.finish, None, [*inputs, step.ends(step.q_next, step.v_end), energies])
        for part in self.elastic:
            part.add(step.potential, step.energy)

    def _certificate(self) -> list:
        """The solver's arrays that `finish` reads, and its solution."""
        solver, struct = self.step.solver, self.device_model.struct
        if self.certifies:
            return [solver.problem, solver.work, *solver.errors(), solver.solution]
        solution = struct(problems.Solution, v=solver.solution.v, status=solver.solution.status)
        nothing = [solver.zeros((0, 0)), solver.zeros(0)]
        return [struct(problems.Problem), struct(sap.Workspace), *nothing, solution]

    def _drives(self):
        step, of_links = self.step, {"link_begin": self.link_begin, "of_link": self.of_link}
        return self.device_model.struct(fused.Drives, actuators=step.actuators, tau=step.acting_tau, **of_links)

    def _motion(self):
        step = self.step
        of_links = {name: getattr(step.dynamics, name) for name in LINKS}
        of_step = {name: getattr(step, name) for name in MOTION}
        of_step |= {"D": step.damping, "armature": step.dynamics.armature}
        return self.device_model.struct(fused.Motion, **of_links, **of_step)
