# SPDX-License-Identifier: Apache-2.0
"""What a backward pass does differently from one contact model to another: how the step is solved again, and the law on the tape."""

import dataclasses
import functools

import warp as wp

from warpsim.differentiate.stage import Stage
from warpsim.solve.contact_model import ContactModel


class ContactAdjoint:
    """Contact by a regularised law, γ = P(−R⁻¹(v_c − v̂)): whoever solved it, the solution is that of SAP, which the step is
    repeated with from the solution on, and whose Hessian takes gradients back.

    `adjoint`: the `StepAdjoint` that this is part of. A model of another kind has a class of its own, see `contact_adjoint`.
    """

    is_linear = True  # the gradient of the step is linear in that of its result
    is_given = False  # the solution is the one that a record keeps

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
        """What makes the solver of a step that is repeated; see `Step`."""

        def make(*size, dtype: str, **keywords):
            options = dataclasses.replace(model.repeated_by, tolerance=model.relative_tolerance(dtype))
            return options.solver_of(*size)(*size, options=options, keep_factor=True, dtype=dtype, **keywords)

        return make

    def load(self, record) -> None:
        """Take what else a record keeps of the contact solve."""

    def start(self) -> None:
        """Before equations are evaluated: the step has been repeated."""

    def record_law(self, h: float, v_c: wp.array, gamma: wp.array) -> None:
        """γ of the contacts."""
        a = self.adjoint
        self.step.law.record(self.dynamics, h, a.weight, a.phi, v_c, gamma)

    def solve_adjoint(self, v_bar: wp.array, seed: wp.array) -> None:
        """Gradient of the residual from that of its root v."""
        self.solver.solve_adjoint(v_bar, seed)

    def stages(self, regular: bool) -> list[Stage]:
        """Further functions of the step before its momentum balance; `regular`: `is_regular` was so."""
        return []

    def adjust(self, h: float) -> None:
        """Change the gradients that the update of the positions has left."""

    def choose(self, take_back) -> None:
        """Before the backward pass: find out by `take_back()` which gradient to give."""

    def is_regular(self) -> bool:
        """Whether the solution needs no rule of least norm in any world; asks the device."""
        return True


@functools.singledispatch
def contact_adjoint(model) -> type[ContactAdjoint]:
    """The class for a contact model; `contact_adjoint.register(Model)(lambda model: Class)` adds one."""
    return ContactAdjoint
