"""Rigid contact on the tape of the backward pass: its impulses and constraint errors (`kernels/differentiate/lcp_residual.py`; theory §5).

Beside the residual r = A (v − v*) − Jᵀγ of every contact model there is c = J_C v − t on the clamping rows, with a seed of its
own. A contact that bounces has t_n = −e J_n v*, so that the free motion v* is an input, too.
"""

import warp as wp

from warpsim.differentiate.tangent_tables import tangent_tables
from warpsim.integrate.step import Step
from warpsim.kernels.differentiate import lcp_residual, residual
from warpsim.tree.dynamics import Dynamics


class RigidAdjoint:
    """Taped twins of the contacts of `LCPAdjoint`, which has their classes and impulses."""

    def __init__(self, step: Step, dynamics: Dynamics):
        self.step, self.dynamics, self.solver = step, dynamics, step.solver
        t, array, C = step.device_model.types, dynamics.array, step.collision.capacity
        self.v_star = array(step.model.nv, t.real)
        self.rate_star, self.error = array(C, t.vec3), array(C, t.vec3)
        self.rate_null, self.gamma_null = array(C, t.vec3), array(C, t.vec3)
        self.still = wp.zeros_like(self.v_star, requires_grad=False)
        self.no_gravity = wp.zeros(1, dtype=t.vec3, device=step.device_model.device)
        device = step.device_model.device
        self.tables = [wp.array(x, dtype=wp.int32, device=device) for x in tangent_tables(step.model)]
        self._parameter_gradients: list[tuple[wp.array, wp.array]] = []

    def start(self) -> None:
        """Classes and free motion of the forward pass, which must have been repeated; clear what is summed up."""
        self.solver.classify()
        wp.copy(self.v_star, self.step.v_star)
        self.rate_star.zero_()

    def load(self, memory: dict) -> None:
        """The impulses of a record."""
        wp.copy(self.solver.contact_x, memory["lcp_contact_x"])

    def record(self, h: float, v_star: wp.array, J: wp.array, phi, v_c, gamma) -> None:
        """γ and c."""
        step, solver, p = self.step, self.solver, self.step.device_model.parameters
        scene, contacts, capacity = step.collision.scene, step.collision.contacts, step.collision.capacity
        system = solver.system
        inputs = [scene, contacts, p.stored("geom_friction"), system.classes, solver.impulse, gamma]
        self.dynamics.launch(lcp_residual.contact_impulse, capacity, inputs)
        self.dynamics.launch(residual.contact_rate, capacity, [scene, contacts, J, v_star, self.rate_star])
        inputs = [scene, contacts, p.stored("geom_restitution"), system.classes, system.bounces, h]
        inputs += [solver.options.error_reduction, phi, v_c, self.rate_star, self.error]
        self.dynamics.launch(lcp_residual.contact_error, capacity, inputs)

    def record_null(self, J: wp.array, r: wp.array) -> None:
        """J a and r −= Bᵀn of the rule of least norm."""
        step, solver = self.step, self.solver
        scene, contacts, capacity = step.collision.scene, step.collision.contacts, step.collision.capacity
        self.dynamics.launch(residual.contact_rate, capacity, [scene, contacts, J, solver.null.v, self.rate_null])
        friction = step.device_model.parameters.stored("geom_friction")
        inputs = [scene, contacts, friction, solver.system.classes, solver.null.f, self.gamma_null]
        self.dynamics.launch(lcp_residual.contact_impulse, capacity, inputs)
        self.dynamics.launch(residual.contact_residual, capacity, [scene, contacts, J, self.gamma_null, r])

    def adjust(self, q: wp.array, v_bar: wp.array, v_next_bar: wp.array) -> None:
        """What the options ask for, given the gradients of the position update by q, v and v'."""
        if self.solver.options.bounce_correction:
            self.solver.correct_bounce(self.tables, q, q.grad, v_bar)
        if self.solver.options.saddle_escape:
            self.solver.escape(v_next_bar)

    def seed(self) -> None:
        """The seed of c, after `solver.solve_adjoint`."""
        self.error.grad.assign(self.solver.error_bar)

    # the choice between the gradient and the one that escapes saddle points ------------------------------------------

    def keep_parameter_gradients(self) -> None:
        """Room for the gradients that the trials must not change; made outside of graphs."""
        p = self.step.device_model.parameters
        gradients = [array.grad for array in map(p.stored, p) if array.grad is not None]
        if [x.ptr for x, _ in self._parameter_gradients] != [x.ptr for x in gradients]:
            self._parameter_gradients = [(x, wp.zeros_like(x)) for x in gradients]

    def choose(self, propagate, v_bar: wp.array, tau_bar: wp.array) -> None:
        """Run `propagate()` with both kinds of classes, and choose the larger gradient in every world."""
        for gradient, kept in self._parameter_gradients:
            wp.copy(kept, gradient)
        for which in (0, 1):
            self.solver.chosen.fill_(which)
            propagate()
            self.solver.measure(which, v_bar, tau_bar)
            for gradient, kept in self._parameter_gradients:
                wp.copy(gradient, kept)
        self.solver.choose()
