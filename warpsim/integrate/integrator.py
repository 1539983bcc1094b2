# SPDX-License-Identifier: Apache-2.0
"""The interface of a `Simulator`'s `integrator`: a description that makes the step."""

from typing import Any, ClassVar


class Integrator:
    """Base of all time integrators. A new one derives from it (or from a `ThetaScheme`) and has `make_step`."""

    contact_solves: int = 1  # contact solves of a step; more than one where the result of the last changes the problem
    ends_in_contact: ClassVar[bool] = True  # the new velocity is the solution of the contact problem
    mujoco_law: ClassVar[bool] = False  # steps as MuJoCo does, which MuJoCo's constraint law needs
    has_closed_form: bool = False  # `linearize` has the derivatives of its equations in closed form
    # Why its steps cannot resolve impacts (`warpsim/integrate/impacts.py`); empty: they can.
    untimed: str = "its steps have no rule for them"

    def make_step(
        self, device_model: Any, contact_model: Any, max_contacts: int | None, make_solver: Any = None
    ) -> Any:
        """The `Step` of this integrator. `make_solver`: see `Step`."""
        raise NotImplementedError(f"{type(self).__name__} has no make_step; return a warpsim.integrate.step.Step")

    def refuse(self, model: Any, contact_model: Any, dtype: str, requires_grad: bool) -> str | None:
        """Why this integrator cannot simulate the model so, naming the value and the fix; None where it can."""
        return None
