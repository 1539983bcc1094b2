# SPDX-License-Identifier: Apache-2.0
"""The example scenes do what their names say."""

import numpy as np
import pytest

import warpsim as ws
from scenes.examples import clutter, dominoes, grip_and_lift, gripper, stack


@pytest.mark.parametrize(("boxes", "dtype"), [(1, "float32"), (10, "float32"), (10, "float64")])
def test_a_stack_stands_still_for_a_minute(device, boxes, dtype):
    """After it has settled, nothing in a stack moves by 1e-5 m in 60 s, and no step is left unconverged."""
    sim = ws.Simulator(stack(boxes, h=0.01), device=device, dtype=dtype)
    settled = sim.rollout(sim.state(), steps=100, every=100).final
    end = sim.rollout(settled, steps=6000, every=6000).final
    moved = np.abs(end.q.numpy() - settled.q.numpy()).max()
    assert moved < 1e-5
    assert end.memory["flags"].numpy()[0] == 0


def test_dominoes_fall_one_after_the_other(device):
    """The ball tips the first, and 2 s later all twenty lie."""
    model = dominoes(20)
    sim = ws.Simulator(model, device=device)
    v = np.zeros(model.nv)
    v[model.joint_coordinates("ball_free")[1].start] = 2.0
    trajectory = sim.rollout(sim.state(v=v), steps=400)
    heights = trajectory.q.numpy()[:, 0, :-7].reshape(401, 20, 7)[:, :, 2]
    assert (heights[-1] < 0.025).all()
    half_down = (heights < 0.026).argmax(axis=0)
    assert (np.diff(half_down)[4:] > 0).all()  # the ball throws the first few down together


def test_a_gripper_holds_by_friction(device):
    """Two pads squeeze a 0.5 kg box and lift it by 0.2 m; the box creeps down by less than 0.2 mm in the last second."""
    model = gripper()
    sim = ws.Simulator(model, device=device)
    trajectory = sim.rollout(sim.state(), grip_and_lift(600)[:, None])
    height = trajectory.q.numpy()[:, 0, model.joint_coordinates("object_free")[0].start + 2]
    assert height[-1] > 0.29
    assert abs(height[-1] - height[-200]) < 2e-4


@pytest.mark.parametrize("walls", [True, False])
def test_clutter_settles(device, walls):
    """20 spheres and boxes: finite, converged at every step, under 2 mm deep and under 1 mm/s of mean slip after 5 s."""
    sim = ws.Simulator(clutter(20, walls=walls), device=device, dtype="float64")
    trajectory = sim.rollout(sim.state(), steps=500)
    assert np.isfinite(trajectory.q.numpy()).all()
    assert not (trajectory.diagnostics["flags"].numpy() & ~ws.UNRESOLVED).any()  # 5 cm meet at 2.5 m/s in 10 ms
    assert trajectory.diagnostics["momentum_error"].numpy().max() <= 1e-6
    assert trajectory.diagnostics["iterations"].numpy()[400:].mean() <= 5
    assert sim.last_contacts.phi.min() > -2e-3
    slip = sim._step.solver.work.u_c.numpy()[0, : len(sim.last_contacts), :2]
    assert np.linalg.norm(slip, axis=1).mean() < 1e-3
