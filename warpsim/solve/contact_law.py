# SPDX-License-Identifier: Apache-2.0
"""The law of contact in a step: R, v̂ and μ of every contact from its material, and its impulse (theory §3.1)."""

import warp as wp

from warpsim.contact.collision import Collision
from warpsim.device.copies import copy
from warpsim.kernels.contact import contacts as contact
from warpsim.kernels.contact import pair_laws, spin_rows, stribeck, taped_contacts
from warpsim.kernels.laws import contact_law
from warpsim.tree.dynamics import Dynamics


class ContactLaw:
    """SAP's law, γ = P(−R⁻¹(v_c − v̂)), near-rigid where geoms have no stiffness. Other laws derive from it.

    `options` has `beta` and `sigma`. `weight (worlds, max_contacts)` is the inverse effective mass w of each contact.
    `attach` connects the law to the problem that a solver reads.
    """

    reads_rate0 = False  # whether the law depends on the rates of contacts when the step begins
    softness, fast = 1.0, 0.0  # of impacts within a step, see `LawOptions`

    def __init__(self, options, dynamics: Dynamics, collision: Collision):
        self.options, self.dynamics, self.collision = options, dynamics, collision
        self.device_model, self.types = dynamics.device_model, dynamics.device_model.types
        self.weight = dynamics.array(collision.capacity, self.types.real)
        self.compliance = collision.contacts.compliance  # `record` reads it; a backward pass has its own

    def attach(self, problem) -> None:
        """Allocate the problem's arrays R, v̂ and μ, which `regularise` fills."""
        array, t, C = self.dynamics.array, self.types, self.collision.slots
        self.problem = problem
        problem.R, problem.v_hat, problem.mu = array(C, t.vec3), array(C, t.vec3), array(C, t.real)
        self.R, self.v_hat = problem.R, problem.v_hat
        self.mu = problem.mu  # `record` reads it; a backward pass has its own

    def share(self, other: "ContactLaw") -> None:
        """Use the arrays of another law of the same kind."""
        if type(other) is type(self):
            self.weight, self.R, self.v_hat = other.weight, other.R, other.v_hat
            self.problem.R, self.problem.v_hat, self.problem.mu = other.R, other.v_hat, other.problem.mu

    def regularise(self, h: float, v: wp.array, M_factor: wp.array, z: wp.array) -> None:
        """Compute R, v̂, μ and w of the detected contacts at the velocity v. `z`: scratch (worlds, nv)."""
        collision, laws = self.collision, self.filled()
        inputs = [self.device_model.topology, collision.scene, collision.material(), collision.contacts]
        inputs += [self.law_options(h), M_factor, v, z, laws, self.loads()]
        self.dynamics.launch(contact.regularise, None, inputs)
        self._slide(v)
        if collision.spin is not None:
            collision.spin.launch(laws)
        self._drive()

    def _drive(self) -> None:
        """Move the targets of contacts with the surfaces of geoms."""
        if self.collision.surfaces:
            self.collision.surfaces.drive(self.v_hat)

    def filled(self):
        """The arrays that `regularise` fills."""
        laws = copy(pair_laws.Laws, self.types.real)()
        laws.R, laws.v_hat, laws.mu, laws.weight = self.R, self.v_hat, self.problem.mu, self.weight
        return laws

    def _slide(self, v: wp.array) -> None:
        """Set μ of the contacts at the velocity v, if friction depends on it."""
        if self.collision.slides:
            collision = self.collision
            inputs = [collision.scene, collision.contacts, collision.friction(), v, collision.surface_rate]
            self.dynamics.launch(stribeck.slide, collision.capacity, [*inputs, self.problem.mu])

    def law_options(self, h: float):
        """Options of the law of all contacts in a step of h."""
        made = copy(contact_law.LawOptions, self.types.real)()
        made.h, made.beta, made.sigma = h, self.options.beta, self.options.sigma
        made.tau_share = made.beta
        made.softness, made.fast = self.softness, self.fast
        return made

    def loads(self):
        """Loads that contacts bear; none in this law."""
        loads = copy(pair_laws.Loads, self.types.real)()
        for name in ("gravity", "body_mass"):
            setattr(loads, name, self.device_model.parameters.stored(name))
        loads.load = loads.least = self.dynamics.array(0, self.types.real)
        return loads

    def solve(self, solver, h: float, v0: wp.array) -> None:
        """Solve the problem, as many times as the law needs. `v0`: velocity at the beginning of the step."""
        solver.launch()

    def record_yield(
        self, dynamics: Dynamics, h: float, weight: wp.array, phi: wp.array, gamma: wp.array, shift
    ) -> None:
        """Record what contacts in an impact yield to their impulses γ, on the tape of `dynamics`."""
        collision = self.collision
        inputs = [collision.scene, collision.contacts, collision.material(), self.law_options(h), self.loads()]
        inputs += [weight, phi, self.compliance, gamma, shift]
        dynamics.launch(taped_contacts.contact_yield, collision.capacity, inputs)

    def record(
        self,
        dynamics: Dynamics,
        h: float,
        weight: wp.array,
        phi: wp.array,
        v_c: wp.array,
        before: wp.array,
        gamma: wp.array,
    ) -> None:
        """Record γ of the contacts, with frozen features, on the tape of `dynamics`.

        The arrays are (worlds, max_contacts).
        """
        collision = self.collision
        inputs = [collision.scene, collision.contacts, collision.material(), self.law_options(h), self.loads()]
        law = taped_contacts.contact_impulse if collision.spin is None else spin_rows.contact_impulse
        dynamics.launch(law, collision.capacity, [*inputs, weight, phi, self.compliance, self.mu, v_c, before, gamma])
