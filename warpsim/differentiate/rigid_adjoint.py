# SPDX-License-Identifier: Apache-2.0
"""Rigid contact on the tape of the backward pass: its impulses and constraint errors (theory §5).

Every contact model has the residual r = A (v − v*) − Jᵀγ. Rigid contact adds c = J_C v − t on the clamping rows, with
its own seed. A contact that bounces has t_n = −e J_n v*, so that the free motion v* is an input as well. With impacts
inside a step it has −e J_n v0 instead, and the repeated solves are solved. Device: `kernels/differentiate/lcp_law.py`.
"""

import warp as wp

from warpsim.device.per_world import assign, fill
from warpsim.differentiate.contact_adjoint import ContactAdjoint, contact_adjoint
from warpsim.differentiate.lcp_adjoint import LCPAdjoint
from warpsim.differentiate.stage import Stage
from warpsim.kernels.differentiate import lcp_law, residual
from warpsim.solve.lcp.contact_lcp import LCP


class RigidAdjoint(ContactAdjoint):
    """Taped twins of the contacts. The `LCPAdjoint` holds their classes and impulses."""

    is_given = True

    def __init__(self, adjoint):
        super().__init__(adjoint)
        step, array, t, C = self.step, self.dynamics.array, self.step.device_model.types, self.step.collision.capacity
        self.solver.v_start = step.v
        if step.impacts:
            if self.solver.options.saddle_escape:
                raise ValueError("LCP(saddle_escape=True) has no gradients with time_of_impact; leave one of them out")
            self.solver.solve_again()
        self.v_star = array(step.model.nv, t.real)  # on the tape, unless another function of the step gives v*
        adjoint.no_gravity = wp.zeros(1, dtype=t.vec3, device=step.device_model.device)
        self.rate_star, self.error = array(C, t.vec3), array(C, t.vec3)
        self.rate_null, self.gamma_null = array(C, t.vec3), array(C, t.vec3)
        self._parameter_gradients: list[tuple[wp.array, wp.array]] = []

    @classmethod
    def solver_of(cls, model: LCP):
        def make(*size, **keywords):
            return LCPAdjoint(*size, options=model, **keywords)

        return make

    @property
    def is_linear(self) -> bool:
        """False with `saddle_escape`, which compares the sizes of two gradients."""
        return not self.solver.options.saddle_escape

    def is_regular(self) -> bool:
        if not self.is_linear or self.step.impacts:
            return False
        self.solve_adjoint(self.adjoint.v.grad, self.adjoint.seed)
        return not self.solver.system.singular.numpy().any()

    def load(self, record) -> None:
        """Load the impulses of a record; where solves are repeated, those of the state before it."""
        assign(self.solver.contact_x, record.memory["lcp_contact_x"])
        if self.solver.solves:
            self.solver.remember(record.used)
        self._keep_parameter_gradients()

    def start(self) -> None:
        """Take the classes and the free motion of the repeated step, and clear what is summed up."""
        self.solver.classify()
        assign(self.v_star, self.step.v_star)
        fill(self.rate_star)

    @property
    def _free_velocity(self) -> wp.array:
        """v* on the tape."""
        return self.v_star if self.adjoint.v_star is None else self.adjoint.v_star

    def record_law(self, h: float, v_c: wp.array, gamma: wp.array) -> None:
        """Record γ and c."""
        step, solver, p, a = self.step, self.solver, self.step.device_model.parameters, self.adjoint
        scene, contacts, capacity = step.collision.scene, step.collision.contacts, step.collision.capacity
        system = solver.system
        inputs = [contacts, a.mu, system.classes, solver.impulse, gamma]
        self.dynamics.launch(lcp_law.contact_impulse, capacity, inputs)
        if not step.impacts:
            inputs = [scene, contacts, a.J, self._free_velocity, self.rate_star]
            self.dynamics.launch(residual.contact_rate, capacity, inputs)
        inputs = [scene, contacts, p.stored("geom_restitution"), system.classes, system.bounces, h]
        inputs += [solver.options.error_reduction, a.phi, v_c, self.rate_star, a.before, self.error]
        self.dynamics.launch(lcp_law.contact_error, capacity, inputs)

    def solve_adjoint(self, v_bar: wp.array, seed: wp.array) -> None:
        """The seeds of r and of c."""
        self.solver.solve_adjoint(v_bar, seed)
        assign(self.error.grad, self.solver.error_bar)

    def stages(self, regular: bool) -> list[Stage]:
        """The rule of least norm, and the free motion, which impacts depend on."""
        a = self.adjoint
        if not self.step.collision.enabled:
            return []
        null = Stage(self._record_null, self._seed_null, values="anew")
        free = Stage(lambda h: a.record_momentum_balance(h, self.v_star), self._seed_free_motion, values="anew")
        return [null] * (not regular) + [free] * (a.v_star is None and not self.step.impacts)

    def _seed_free_motion(self, h: float) -> None:
        """p̄ = −wᵀ ∂r/∂p of the equation r(v*) = 0 without contacts, with A w = v*_bar."""
        a = self.adjoint
        self.solver.solve_smooth(self.v_star.grad, a.seed, -1.0)
        a.clear_balance()
        assign(a.r.grad, a.seed)

    def _seed_null(self, h: float) -> None:
        """Seed the terms that the rule of least norm adds, see `kernels/differentiate/lcp_residual.py`."""
        self.adjoint.clear_balance()
        fill(self.rate_null)
        assign(self.adjoint.r.grad, self.solver.null.seed)
        assign(self.rate_null.grad, self.solver.null.error_bar)

    def _record_null(self, h: float) -> None:
        """Record J a and r = A a − Bᵀn."""
        step, solver, a = self.step, self.solver, self.adjoint
        a.record_inertia(h, solver.null.v)
        scene, contacts, capacity = step.collision.scene, step.collision.contacts, step.collision.capacity
        self.dynamics.launch(residual.contact_rate, capacity, [scene, contacts, a.J, solver.null.v, self.rate_null])
        inputs = [contacts, a.mu, solver.system.classes, solver.null.f, self.gamma_null]
        self.dynamics.launch(lcp_law.contact_impulse, capacity, inputs)
        self.dynamics.launch(residual.contact_residual, capacity, [scene, contacts, a.J, self.gamma_null, a.r])

    def adjust(self, h: float) -> None:
        """Apply `saddle_escape` to the gradient of v' from the position update."""
        if self.solver.options.saddle_escape:
            self.solver.escape(self.adjoint.v.grad)

    # the choice between the gradient and the one that escapes saddle points -------------------------------------------

    def _keep_parameter_gradients(self) -> None:
        """Make room for copies of the parameter gradients, which the trials must not change. Runs outside of graphs."""
        p = self.step.device_model.parameters
        gradients = [array.grad for array in map(p.stored, p) if array.grad is not None]
        if [x.ptr for x, _ in self._parameter_gradients] != [x.ptr for x in gradients]:
            self._parameter_gradients = [(x, wp.zeros_like(x)) for x in gradients]

    def choose(self, take_back) -> None:
        """Run `take_back()` with both kinds of classes, and choose the larger gradient in every world."""
        if self.is_linear:
            return
        for gradient, kept in self._parameter_gradients:
            assign(kept, gradient)
        for which in (0, 1):
            fill(self.solver.chosen, which)
            take_back()
            self.solver.keep_norm(which, self.adjoint.v0.grad, self.adjoint.tau.grad)
            for gradient, kept in self._parameter_gradients:
                assign(gradient, kept)
        self.solver.choose()


contact_adjoint.register(LCP)(lambda model: RigidAdjoint)
