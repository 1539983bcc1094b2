# SPDX-License-Identifier: Apache-2.0
"""Impulses that oppose each other: what float32 can know of their difference is not called a failure."""

import numpy as np
import pytest

import warpsim as ws


def pressed(depth: float, mass: float = 1.0) -> ws.Model:
    """An arm on a hinge that lies against its stop with a floor deep inside it: the floor lifts, the stop holds."""
    b = ws.ModelBuilder("pressed", timestep=0.002)
    b.add_geom("plane", pose=[0, 0, -0.05 + depth, 1, 0, 0, 0], friction=1.0)
    arm = b.add_body("arm", pose=[0, 0, 0, 1, 0, 0, 0], mass=mass, com=[0.3, 0, 0], inertia=[0.001, 0.03, 0.03])
    b.add_joint(arm, "hinge", axis=[0, -1, 0], range=(-1.0, -1e-3))
    b.add_geom("box", [0.2, 0.05, 0.05], pose=[0.5, 0, 0, 1, 0, 0, 0], body=arm, friction=1.0)
    finger = b.add_body("finger", parent="arm", pose=[0.7, 0, 0, 1, 0, 0, 0], mass=1e-3, inertia=[1e-7, 1e-7, 1e-7])
    b.add_joint(finger, "hinge", axis=[0, 1, 0], damping=1e-4)
    return b.build()


@pytest.mark.parametrize("depth", [0.01, 0.05])
def test_a_stop_against_a_deep_contact(device, depth, within):
    """Each impulse is many times their difference: float32 solves to the rounding of the impulses, says so by
    its momentum error, is not flagged, and v is float64's."""
    model = pressed(depth)
    result = {}
    for dtype in ("float64", "float32"):
        sim = ws.Simulator(model, dtype=dtype, device=device)
        state = sim.state()
        for _ in range(20):
            sim.step(state, out=state)
            assert sim.diagnostics.iterations.numpy()[0] < 60
        assert state.memory["flags"].numpy()[0] == 0
        result[dtype] = state.v.numpy()[0].astype(float), state.q.numpy()[0].astype(float)
    for name, a, b in zip("vq", result["float32"], result["float64"], strict=True):
        within(f"{name} of a stop against a contact {depth} m deep", np.abs(a - b).max(), 1e-4)
