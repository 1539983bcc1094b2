# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: poses that forward kinematics made are found again, per world, within the limits of joints."""

import numpy as np
import pytest

import warpsim as ws

LENGTHS = (0.3, 0.25, 0.2, 0.1, 0.1, 0.1, 0.1)
AXES = ((0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0))


def arms(count: int = 2) -> ws.Model:
    """Arms of seven hinges side by side."""
    b = ws.ModelBuilder("arms")
    for arm in range(count):
        parent = -1
        for k, axis in enumerate(AXES):
            up = LENGTHS[k - 1] if k else 0.0
            pose = (0.5 * arm if k == 0 else 0.0, 0.0, up, 1, 0, 0, 0)
            parent = b.add_body(f"{arm} {k}", parent=parent, pose=pose, mass=1.0, inertia=np.eye(3) * 0.01)
            b.add_joint(parent, "hinge", axis=axis, range=(-2.0, 2.0))
    return b.build()


@pytest.fixture(scope="module")
def sim() -> ws.Simulator:
    return ws.Simulator(arms(), worlds=6, dtype="float64", solver=ws.NoContact())


def test_poses_are_found_again(sim):
    """Two arms of seven hinges reach the poses of random positions from 0.4 rad away: to the square of the damping."""
    rng = np.random.default_rng(0)
    q = rng.uniform(-0.8, 0.8, (6, 14))
    poses = sim.kinematics(q).numpy()
    targets = {name: poses[:, sim.model.body(name)] for name in ("0 6", "1 6")}
    found = ws.reach(sim, q + rng.uniform(-0.4, 0.4, q.shape), targets, iterations=60, damping=1e-3)
    assert found.position_error.shape == (6, 2)
    assert found.position_error.max() < 1e-6 and found.rotation_error.max() < 1e-6
    assert np.abs(found.q).max() <= 2.0
    alone = ws.Simulator(sim.model, worlds=1, dtype="float64", solver=ws.NoContact())
    rng = np.random.default_rng(0)
    start = rng.uniform(-0.8, 0.8, (6, 14)) + rng.uniform(-0.4, 0.4, q.shape)
    one = ws.reach(alone, start[3], {k: p[3] for k, p in targets.items()}, iterations=60, damping=1e-3)
    assert np.allclose(one.q[0], found.q[3], atol=1e-9)


def test_the_posture_takes_what_the_target_leaves_free(sim):
    """Of the solutions of a seven-hinge arm the one nearer to the posture is found."""
    rng = np.random.default_rng(1)
    q = rng.uniform(-0.8, 0.8, (6, 14))
    target = {"0 6": sim.kinematics(q).numpy()[:, sim.model.body("0 6")]}
    start = q + rng.uniform(-0.3, 0.3, q.shape)
    posture = np.full(14, 0.2)
    free = ws.reach(sim, start, target, damping=1e-2)
    drawn = ws.reach(sim, start, target, damping=1e-2, posture=posture, posture_weight=0.01, iterations=100)
    assert drawn.position_error.max() < 2e-3  # w² beside the arm's lengths squared
    assert (np.linalg.norm(drawn.q - posture, axis=1) < np.linalg.norm(free.q - posture, axis=1)).all()


def test_out_of_reach_ends_near_it_and_says_so(sim):
    far = np.array([5.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    found = ws.reach(sim, sim.model.q0, {"0 6": far}, iterations=30)
    assert np.isfinite(found.q).all() and (found.position_error > 3.0).all() and (np.abs(found.q) <= 2.0).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"targets": {}}, "give a dict of bodies and poses"),
        ({"targets": {"0 6": np.zeros(3)}}, "target of '0 6' has shape"),
        ({"q": np.zeros(3)}, "q has shape"),
        ({"damping": 0.0}, "damping"),
    ],
)
def test_wrong_inputs_are_named(sim, change, words):
    options = {"q": sim.model.q0, "targets": {"0 6": np.array([0.3, 0, 0.5, 1, 0, 0, 0])}} | change
    with pytest.raises(ValueError, match=words):
        ws.reach(sim, **options)


def test_an_arm_on_a_mocap_body_reaches_from_where_that_body_is():
    """Targets that forward kinematics made with the base elsewhere in each world are found with that base, and not with the model's."""
    b = ws.ModelBuilder("carried")
    parent = b.add_body("base", mocap=True)
    for k, axis in enumerate(AXES):
        parent = b.add_body(f"{k}", parent=parent, pose=(0, 0, LENGTHS[k]), mass=1.0, inertia=np.eye(3) * 0.01)
        b.add_joint(parent, "hinge", axis=axis)
    sim = ws.Simulator(b.build(), worlds=3, dtype="float64", solver=ws.NoContact())
    rng = np.random.default_rng(2)
    q, mocap = rng.uniform(-0.8, 0.8, (3, 7)), np.tile(sim.model.mocap0, (3, 1, 1))
    mocap[..., :3] += rng.normal(size=(3, 1, 3))
    targets = {"6": sim.kinematics(q, mocap).numpy()[:, sim.model.body("6")]}
    start = q + rng.uniform(-0.3, 0.3, q.shape)
    found = ws.reach(sim, start, targets, mocap=mocap, iterations=100, damping=1e-3)
    assert found.position_error.max() < 1e-6 and found.rotation_error.max() < 1e-6
    assert ws.reach(sim, start, targets).position_error.min() > 0.1


def test_planners_hold_mocap_bodies_where_the_state_has_them():
    """A cart that is welded softly to a mocap body: what mppi predicts is the motion of a rollout, in worlds whose bodies differ."""
    b = ws.ModelBuilder("pulled", timestep=0.01)
    cart, target = b.add_body("cart", mass=1.0, inertia=np.eye(3)), b.add_body("target", mocap=True)
    b.add_joint(cart, "slide", name="x", axis=(1, 0, 0))
    b.add_actuator("x", "effort", control_range=(-1, 1))
    b.add_constraint("weld", "cart", target, stiffness=50.0, dissipation_time=0.1)
    sim = ws.Simulator(b.build(), worlds=2, dtype="float64")
    mocap = np.tile(sim.model.mocap0, (2, 1, 1))
    mocap[1, 0, 0] = 0.5
    state = sim.state(mocap=mocap)
    cost = ws.Cost(lambda q, v, u: u, lambda q, v: q - 0.3)
    plan = ws.mppi(sim, state, np.zeros((20, 2, 1)), cost, samples=4)
    final = sim.rollout(sim.state(mocap=mocap), plan.controls).q.numpy()
    np.testing.assert_allclose(plan.q, final, atol=1e-12)
    assert final[-1, 1, 0] - final[-1, 0, 0] > 0.1
