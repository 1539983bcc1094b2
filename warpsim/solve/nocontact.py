# SPDX-License-Identifier: Apache-2.0
"""No contact at all: geoms pass through each other. Joint limits and dry friction still act, through SAP's rows."""

import dataclasses
from typing import Any, ClassVar

from warpsim.solve.contact_model import ContactModel
from warpsim.solve.sap.sap import SAP


@dataclasses.dataclass(frozen=True)
class NoContact(ContactModel):
    """Switch contact off: geoms pass through each other.

    Parameters
    ----------
    limits : SAP
        Options of the solver of joint limits and dry friction. Default: `ws.SAP()`.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), solver=ws.NoContact(), device="cpu")
    >>> state = sim.rollout(sim.state(), steps=200).final
    >>> int(sim.diagnostics.contacts.numpy()[0])
    0
    """

    limits: SAP = dataclasses.field(default_factory=SAP)
    name: ClassVar[str] = "SAP"  # rows follow SAP's rules
    collides: ClassVar[bool] = False
    has_closed_form: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.limits, SAP):
            raise ValueError(f"NoContact: limits is {self.limits!r}; give ws.SAP(...)")

    @property
    def regularisation(self) -> SAP:
        return self.limits

    def make_solver(self, *size: Any, **keywords: Any) -> Any:
        """Make the solver and its arrays. `Simulator` calls it."""
        return self.limits.make_solver(*size, **keywords)

    def make_law(self, dynamics: Any, collision: Any) -> Any:
        """Make the law that gives contacts their regularization R, velocity v̂ and friction μ. `Simulator` calls it."""
        return self.limits.make_law(dynamics, collision)
