# SPDX-License-Identifier: Apache-2.0
"""A capsule held between two pads creeps down by the give of regularised friction, σ w h f, as docs/contact_properties.md says."""

import numpy as np
import pytest

import warpsim as ws

WEIGHT = 0.045 * 9.81


def pinch(h: float) -> ws.Model:
    """Two pads of 50 g on slides, pressed together by 20 N, and a capsule of 45 g between them."""
    b = ws.ModelBuilder("pinch", timestep=h)
    for name, side in (("left", -1), ("right", 1)):
        pad = b.add_body(name, pose=[0.014 * side, 0, 0.1, 1, 0, 0, 0], mass=0.05, inertia=[1e-5] * 3)
        b.add_joint(pad, "slide", axis=[-side, 0, 0], damping=20.0, name=name)
        b.add_geom("box", [0.01, 0.02, 0.02], body=pad, friction=0.7)
        b.add_actuator(name)
    body = b.add_body("capsule", pose=[0, 0, 0.1, 0.5**0.5, 0.5**0.5, 0, 0], mass=0.045, inertia=[1e-5] * 3)
    b.add_joint(body, "free")
    b.add_geom("capsule", [0.004, 0.02], body=body, friction=0.7)
    return b.build()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("h, most", [(0.002, 15e-6), (0.005, 35e-6)])
def test_creep_is_proportional_to_sigma_and_the_step(device, dtype, h, most):
    """`SAP(sigma=1e-4)` has a tenth of the default's creep without more iterations; nothing slips, and no flag."""
    creep, iterations = [], []
    for sigma in (1e-3, 1e-4):
        sim = ws.Simulator(pinch(h), dtype=dtype, device=device, solver=ws.SAP(sigma=sigma))
        steps = round(0.5 / h)
        begun = sim.rollout(sim.state(), np.full((steps, 1, 2), 20.0, dtype)).final
        path = sim.rollout(begun, np.full((steps, 1, 2), 20.0, dtype), every=steps)
        z = [state.q.numpy()[0, 4].astype(float) for state in (begun, path.final)]
        creep.append((z[0] - z[1]) / 0.5)
        iterations.append(path.diagnostics["iterations"].numpy().mean())
        assert not path.final.memory["flags"].numpy().any()
        np.testing.assert_allclose(sim.contact_force().numpy()[0, 2, 2], WEIGHT, rtol=2e-2)
    assert 1e-6 < creep[0] < most and abs(creep[1]) < 0.15 * most
    assert iterations[1] <= iterations[0] + 0.1
