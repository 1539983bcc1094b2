# SPDX-License-Identifier: Apache-2.0
"""`SAP.smoothed`: its bias is the stated one, and a search through stiction needs it."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws

MASS, GRAVITY = 2.0, 9.81  # [kg], [m/s²]
DT = 0.01


def block() -> ws.Model:
    """A block that moves along x and z, with a motor along x."""
    b = ws.ModelBuilder("block")
    b.add_geom("plane", friction=0.5)
    b.add_body("block", pose=[0, 0, 0.1], mass=MASS, inertia=[0.01] * 3)
    b.add_joint("block", "slide", name="x", axis=(1, 0, 0))
    b.add_joint("block", "slide", name="z", axis=(0, 0, 1))
    b.add_geom("sphere", [0.1], body="block", density=0.0, friction=0.5)
    b.add_actuator("x")
    return b.build()


def simulator(amount: float, **options) -> ws.Simulator:
    solver = ws.SAP(tolerance=1e-12).smoothed(amount)
    return ws.Simulator(block(), dt=DT, dtype="float64", device="cpu", solver=solver, **options)


@pytest.mark.parametrize("amount", [0.1, 1.0])
def test_bias(amount):
    """Under its weight the contact gives by s w h² f_n (1 + 2√s), under a tangential force it creeps at s w h f."""
    sim, force = simulator(amount), 1.0
    # w = ‖J M⁻¹ Jᵀ‖ / 3 of a block that moves in x and z alone
    w = np.sqrt(2.0) / 3.0 / MASS
    rest = sim.rollout(sim.state(), np.full((600, 1, 1), force)).final
    sunk, creep = -rest.q.numpy()[0, 1], rest.v.numpy()[0, 0]
    assert sunk == pytest.approx(amount * w * DT**2 * MASS * GRAVITY * (1 + 2 * np.sqrt(amount)), rel=1e-3)
    assert creep == pytest.approx(amount * w * DT * force, rel=1e-3)


def test_small_amounts_change_nothing():
    """Below the solver's own regularisation its options stay as they are; nonsense is refused."""
    assert ws.SAP().smoothed(0.0) == ws.SAP() == ws.SAP().smoothed(1e-3)
    with pytest.raises(ValueError, match="smoothing is -1"):
        ws.SAP().smoothed(-1.0)


def search(amounts, iterations=30, target=0.2, steps=50) -> float:
    """Distance that the block ends from a target by the force that gradient descent finds, the amounts in turn."""
    force = 6.0  # [N], below the friction limit of 9.8 N
    for amount in amounts:
        sim = simulator(amount, requires_grad=True)
        start = sim.state(q=[0.0, -1e-5])
        for _ in range(iterations):
            control = wp.array(np.full((steps, 1, 1), force), dtype=wp.float64, device="cpu", requires_grad=True)
            with wp.Tape() as tape:
                final = sim.rollout(start, control).final
            error = final.q.numpy()[0, 0] - target
            seed = wp.array([[2.0 * error, 0.0]], dtype=wp.float64, device="cpu")
            tape.backward(grads={final.q: seed})
            force -= 120.0 * control.grad.numpy().sum()
    return abs(error)


def test_continuation_leaves_stiction():
    """Gradient descent on a force that does not move the block goes nowhere; over s = 3, 0.3, 0 it reaches the target."""
    assert search([0.0]) > 0.19
    assert search([3.0, 0.3, 0.0]) < 0.01
