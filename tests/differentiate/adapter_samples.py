# SPDX-License-Identifier: Apache-2.0
"""Scenes for the tests of the adapters."""

import mujoco
import numpy as np

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


# A ball that slides and rolls on a plane, a hinge on a mocap body, driven by an actuator with an activation.
EVERYTHING = """<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 .0995"><freejoint/><geom size=".1"/></body>
<body name="hook" mocap="true" pos="2 0 1"><body pos=".3 0 0"><joint name="hinge" axis="0 1 0" damping=".1"/>
<geom size=".06"/></body></body>
</worldbody><actuator><general joint="hinge" dyntype="filter" dynprm=".1" gainprm="2"/></actuator></mujoco>"""


def everything(worlds: int = 2, **options) -> ws.Simulator:
    """Contact, a quaternion, a mocap body and an activation."""
    model = ws.load(mujoco.MjModel.from_xml_string(EVERYTHING))
    options = {"dtype": "float64", "requires_grad": True, "solver": ws.SAP(tolerance=1e-13)} | options
    return ws.Simulator(model, worlds, 0.005, device="cpu", **options)


def everything_inputs(sim, steps: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays by name, with quaternions that are not of length 1, and masses per world."""
    rng = np.random.default_rng(seed)
    model, worlds = sim.model, sim.worlds
    v = np.array([0.4, 0.1, 0, 0.5, 0, 0.3, 0.2]) + 0.01 * rng.normal(size=(worlds, model.nv))
    q = np.tile(model.q0, (worlds, 1))
    q[:, 3:7] = 1.3 * q[:, 3:7] + 0.1 * rng.normal(size=(worlds, 4))
    mocap = model.mocap0 + 0.01 * rng.normal(size=(steps, worlds, 1, 7))
    given = {"q": q, "v": v, "activation": rng.uniform(size=(worlds, 1)), "mocap": mocap}
    given["controls"] = rng.normal(size=(steps, worlds, 1))
    return given | {"body_mass": model.body_mass * (1 + 0.1 * rng.uniform(size=(worlds, model.nbody)))}
