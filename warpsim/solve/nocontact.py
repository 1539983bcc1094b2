"""No contact at all: geoms pass through each other. Joint limits and dry friction still act, through SAP's rows."""

import dataclasses

from warpsim.solve.sap.sap import SAP


@dataclasses.dataclass(frozen=True)
class NoContact:
    """Switch contact off; `limits` are the options of the solver that handles joint limits and dry friction."""

    limits: SAP = dataclasses.field(default_factory=SAP)

    def __post_init__(self):
        if not isinstance(self.limits, SAP):
            raise ValueError(f"NoContact: limits is {self.limits!r}; give ws.SAP(...)")
