# SPDX-License-Identifier: Apache-2.0
"""A smooth scene for the tests of the adapters."""

import warpsim as ws

WORLDS, STEPS = 3, 5


def cart_pole(**options) -> ws.Simulator:
    """A cart with a pole, one actuator: smooth, so that differences mean something."""
    b = ws.ModelBuilder("cart pole")
    b.add_joint(b.add_body("cart", mass=2.0, inertia=[1.0, 1.0, 1.0]), "slide", axis=[1, 0, 0], name="rail")
    pole = b.add_body("pole", parent="cart", mass=0.5, com=[0, 0, 0.4], inertia=[0.02, 0.02, 0.001])
    b.add_joint(pole, "hinge", axis=[0, 1, 0], name="pivot", damping=0.05)
    b.add_actuator("rail", gear=3.0)
    options = {"dtype": "float64", "requires_grad": True, "solver": ws.SAP(tolerance=1e-13)} | options
    return ws.Simulator(b.build(), worlds=WORLDS, dt=0.02, device="cpu", **options)
