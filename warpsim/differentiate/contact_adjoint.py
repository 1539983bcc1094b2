# SPDX-License-Identifier: Apache-2.0
"""How the backward pass depends on the contact model: how it solves the step again, and which law it tapes."""

import dataclasses
import functools

import warp as wp

from warpsim.differentiate.stage import Stage
from warpsim.solve.contact_model import ContactModel


class ContactAdjoint:
    """The backward pass of contact with a regularized law, γ = P(−R⁻¹(v_c − v̂)).

    Any regularized law has SAP's solution. The backward pass re-solves the step with SAP, warm-started at the solution,
    and uses the Hessian of SAP. `adjoint`: the `StepAdjoint` that this belongs to. Other kinds of contact models have
    their own class, see `contact_adjoint`.
    """

    is_linear = True  # the step's gradient is linear in the gradient of its result
    is_given = False  # the record keeps the solution, and nothing is solved again

    def __init__(self, adjoint):
        self.adjoint, self.step, self.dynamics, self.solver = (
            adjoint,
            adjoint.step,
            adjoint.dynamics,
            adjoint.step.solver,
        )
        self.solver.start_at(adjoint.v_solved)

    @classmethod
    def solver_of(cls, model: ContactModel):
        """A function that makes the solver of a repeated step, see `Step`."""

        def make(*size, dtype: str, **keywords):
            options = dataclasses.replace(model.repeated_by, tolerance=model.relative_tolerance(dtype))
            return options.solver_of(*size)(*size, options=options, keep_factor=True, dtype=dtype, **keywords)

        return make

    def load(self, record) -> None:
        """Load what else a record keeps of the contact solve."""

    def start(self) -> None:
        """Called once the step has been repeated, before its equations are evaluated."""

    def record_law(self, h: float, v_c: wp.array, gamma: wp.array) -> None:
        """Record γ of the contacts."""
        a = self.adjoint
        self.step.law.record(self.dynamics, h, a.weight, a.phi, v_c, a.before, gamma)

    def solve_adjoint(self, v_bar: wp.array, seed: wp.array) -> None:
        """The gradient of the residual, from the gradient of its root v."""
        self.solver.solve_adjoint(v_bar, seed)

    def stages(self, regular: bool) -> list[Stage]:
        """Further functions of the step, before its momentum balance. `regular`: the result of `is_regular`."""
        return []

    def adjust(self, h: float) -> None:
        """Change the gradients that the reverse of the position update leaves."""

    def choose(self, take_back) -> None:
        """Called before the backward pass: decide, by running `take_back()`, which gradient to give."""

    def is_regular(self) -> bool:
        """Whether no world's solution needs the rule of least norm. Reads from the device."""
        return True


@functools.singledispatch
def contact_adjoint(model) -> type[ContactAdjoint]:
    """The class for a contact model; `contact_adjoint.register(Model)(lambda model: Class)` adds one."""
    return ContactAdjoint
