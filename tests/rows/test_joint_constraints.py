# SPDX-License-Identifier: Apache-2.0
"""Joint stops and dry friction: hold below their bound, do not rebound, carry load with the regularised penetration."""

import numpy as np
import pytest

import warpsim as ws
from scenes.bodies import GRAVITY, cart, pendulum

H = 0.01
SIGMA, BETA_LIMIT = 1e-3, 0.1
DTYPES = ("float64", "float32")
TOLERANCE = {"float64": 1e-6, "float32": 1e-4}  # the solver's default relative tolerance


def penetration(w: float, impulse: float, h: float = H) -> float:
    """At rest gamma = impulse = (v_hat - 0)/R, v_hat = -phi/(h + tau_d), with Rn = beta^2 w/(4 pi^2), tau_d = beta h/pi."""
    return (h + BETA_LIMIT * h / np.pi) * BETA_LIMIT**2 / (4 * np.pi**2) * w * impulse


@pytest.mark.parametrize("dtype", DTYPES)
def test_dry_friction_holds_below_its_bound(device, dtype, within):
    """|tau| < e: in the steady state gamma = h tau, so the joint creeps at R gamma = sigma w h tau, w = 1/m; no faster."""
    m, e, tau = 2.0, 5.0, 4.0
    sim = ws.Simulator(cart(mass=m, friction=e), dt=H, device=device, dtype=dtype)
    state = sim.state()
    for _ in range(20):
        state = sim.step(state, tau=[[tau]])
    creep = SIGMA / m * H * tau
    within(f"{dtype} dry friction, held: creep, relative", abs(state.v.numpy()[0, 0] / creep - 1.0), 1e-3)
    np.testing.assert_allclose(sim._step.solver.solution.row_gamma.numpy(), -H * tau, rtol=1e-3)
    assert sim.diagnostics.flags.numpy()[0] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_dry_friction_slips_above_its_bound(device, dtype, within):
    """|tau| > e: m dv = h (tau - e) exactly, against the motion in both directions; a moving joint stops dead."""
    m, e, h = 2.0, 5.0, H
    sim = ws.Simulator(cart(mass=m, friction=e), worlds=3, dt=h, device=device, dtype=dtype)
    state = sim.state(v=[[0.0], [-1.0], [1.0]])
    pushed = sim.step(state, tau=[[8.0], [-8.0], [0.0]]).v.numpy()[:, 0]
    expected = [h * 3.0 / m, -1.0 - h * 3.0 / m, 1.0 - h * e / m]
    within(f"{dtype} dry friction, slipping: dv", np.abs(pushed - expected).max(), 2 * TOLERANCE[dtype])
    # Coasting to rest takes m v / e = 0.4 s = 40 steps, then nothing moves.
    coast = sim.rollout(state, steps=60).v.numpy()[:, 2, 0]
    np.testing.assert_allclose(coast[:40], 1.0 - h * e / m * np.arange(40), atol=40 * TOLERANCE[dtype])
    within(f"{dtype} dry friction, after coasting to rest", np.abs(coast[42:]).max(), 1e-4)
    assert not sim.diagnostics.flags.numpy().any()


def test_dry_friction_of_zero_costs_and_does_nothing(device):
    """Friction 0 in one world next to friction 5 in another (per-world parameter): the first moves freely."""
    sim = ws.Simulator(cart(friction=5.0), worlds=2, dt=H, device=device, dtype="float64")
    sim.parameters["joint_friction"] = [[0.0], [5.0]]
    v = sim.step(sim.state(), tau=[[2.0], [2.0]]).v.numpy()[:, 0]
    assert v[0] == H * 2.0 / 2.0
    assert abs(v[1]) < 1e-4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_hinge_stop_holds_a_load_without_rebound(device, dtype, side, within):
    """A pendulum held out level falls 0.5 rad on its stop: it never rebounds and rests at the regularised depth."""
    m, l, stop = 2.0, 0.5, 1.0
    model = pendulum(mass=m, length=l, range=[-stop, stop])
    sim = ws.Simulator(model, dt=H, device=device, dtype=dtype)
    # Gravity sideways pushes the bob against the stop at +-1 rad.
    sim.parameters["gravity"] = [-side * GRAVITY, 0.0, 0.0]
    trajectory = sim.rollout(sim.state([0.5 * side]), steps=200)
    q, v = side * trajectory.q.numpy()[:, 0, 0], side * trajectory.v.numpy()[:, 0, 0]
    hit = int(np.argmax(q >= stop - 1e-6))
    assert 0 < hit < 100
    within(f"{dtype} hinge stop {side:+.0f}: rebound velocity", -v[hit:].min(), 1e-3)
    within(f"{dtype} hinge stop {side:+.0f}: rebound angle", stop - q[hit:].min(), 1e-5)
    depth = penetration(1.0 / (m * l * l), H * m * GRAVITY * l * np.cos(stop))
    # float32 resolves an angle of 1 rad to 1.2e-7 = 10 % of this depth.
    slack = 0.01 * depth + (0.0 if dtype == "float64" else 2.4e-7)
    within(f"{dtype} hinge stop {side:+.0f}: depth at rest", abs(q[-1] - stop - depth), slack)
    assert sim.diagnostics.flags.numpy()[0] == 0


def test_stop_does_not_act_before_it_is_reached(device):
    """A stop out of reach within the step changes nothing: v' is the free motion to the last bit until the last step."""
    free, stopped = (
        ws.Simulator(cart(mass=1.0, **limits), dt=H, device=device, dtype="float64")
        for limits in ({}, {"range": [-1.0, 1.0]})
    )
    runs = [sim.rollout(sim.state(v=[2.0]), steps=60) for sim in (free, stopped)]
    q, v = ([getattr(run, name).numpy()[:, 0, 0] for run in runs] for name in ("q", "v"))
    touching = int(np.argmax(q[0] > 1.0))
    assert np.array_equal(q[0][:touching], q[1][:touching])
    assert np.array_equal(v[0][:touching], v[1][:touching])
    # The impact step ends at the stop, not before it: phi' = -h R gamma.
    depth = q[1][touching] - 1.0
    assert 0.0 <= depth <= 1.1 * H * BETA_LIMIT**2 / (4 * np.pi**2) * 2.0
    assert np.abs(v[1][touching + 2 :]).max() < 1e-2


@pytest.mark.parametrize("dtype", DTYPES)
def test_slide_stop_holds_weight(device, dtype, within):
    """A vertical slide dropped 0.2 m on its lower stop carries m g at the regularised depth, without rebound."""
    m = 3.0
    b = ws.ModelBuilder("lift")
    b.add_body("car", mass=m, inertia=[1.0, 1.0, 1.0])
    b.add_joint("car", "slide", name="shaft", axis=[0.0, 0.0, 1.0], range=[0.0, 2.0])
    sim = ws.Simulator(b.build(), dt=H, device=device, dtype=dtype)
    trajectory = sim.rollout(sim.state([0.2]), steps=150)
    z, v = trajectory.q.numpy()[:, 0, 0], trajectory.v.numpy()[:, 0, 0]
    hit = int(np.argmax(z <= 1e-9))
    within(f"{dtype} slide stop: rebound", z[hit:].max(), 1e-6)
    depth = penetration(1.0 / m, H * m * GRAVITY)
    within(f"{dtype} slide stop: depth at rest, relative", abs(z[-1] / -depth - 1.0), 1e-2)
    within(f"{dtype} slide stop: speed at rest", abs(v[-1]), 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ball_stop_bounds_the_angle(device, dtype, within):
    """A ball joint limited to 0.8 rad, pulled sideways along a generic axis, stops there and holds the torque."""
    m, l, stop = 2.0, 0.5, 0.8
    b = ws.ModelBuilder("ball pendulum")
    b.add_body("bob", mass=m, com=[0.0, 0.0, -l], inertia=[0.01, 0.01, 0.01])
    b.add_joint("bob", "ball", name="shoulder", range=[0.0, stop], damping=0.2)
    sim = ws.Simulator(b.build(), dt=H, device=device, dtype=dtype)
    sim.parameters["gravity"] = [0.6 * GRAVITY, -0.8 * GRAVITY, 0.0]
    trajectory = sim.rollout(sim.state(), steps=300)
    q = trajectory.q.numpy()[:, 0].astype(float)
    angle = 2.0 * np.arctan2(np.linalg.norm(q[:, 1:], axis=1), np.abs(q[:, 0]))
    hit = int(np.argmax(angle >= stop - 1e-5))
    assert 0 < hit < 100
    within(f"{dtype} ball stop: rebound angle", stop - angle[hit:].min(), 1e-4)
    depth = penetration(1.0 / (0.01 + m * l * l), H * m * GRAVITY * l * np.cos(stop))
    within(
        f"{dtype} ball stop: depth at rest", abs(angle[-1] - stop - depth), 0.02 * depth + (dtype == "float32") * 5e-7
    )
    # The bob hangs in the plane of gravity: the rotation axis is normal to it and to the rod's rest direction.
    axis = q[-1, 1:] / np.linalg.norm(q[-1, 1:])
    within(f"{dtype} ball stop: axis", np.abs(np.abs(axis @ [-0.8, -0.6, 0.0]) - 1.0), 1e-3)
    assert sim.diagnostics.flags.numpy()[0] == 0


def test_both_stops_of_a_locked_joint_hold(device):
    """A range of zero width locks the joint: loaded either way it moves by the regularised depth only."""
    sim = ws.Simulator(cart(mass=2.0, range=[0.3, 0.3]), worlds=2, dt=H, device=device, dtype="float64")
    state = sim.state([0.3])
    for _ in range(50):
        state = sim.step(state, tau=[[30.0], [-30.0]])
    depth = penetration(0.5, H * 30.0)
    np.testing.assert_allclose(state.q.numpy()[:, 0] - 0.3, [depth, -depth], rtol=0.02)


def test_stop_of_a_chain_does_no_work_on_the_rest(device, within):
    """An internal stop adds no total momentum: two carts on one rail, the second stopped against the first."""
    b = ws.ModelBuilder("train", gravity=(0.0, 0.0, 0.0))
    b.add_body("first", mass=1.0, inertia=[1.0, 1.0, 1.0])
    b.add_joint("first", "slide", axis=[1.0, 0.0, 0.0])
    b.add_body("second", parent="first", mass=3.0, inertia=[1.0, 1.0, 1.0])
    b.add_joint("second", "slide", axis=[1.0, 0.0, 0.0], range=[0.0, 0.1])
    sim = ws.Simulator(b.build(), dt=H, device=device, dtype="float64")
    v = sim.rollout(sim.state([0.0, 0.05], [0.0, 2.0]), steps=30).v.numpy()[:, 0]
    p = 1.0 * v[:, 0] + 3.0 * (v[:, 0] + v[:, 1])
    within("internal stop: drift of momentum", np.abs(p / 6.0 - 1.0).max(), 1e-9)
    # The depth of the impact step, h Rn gamma, is given back: a restitution of at most beta^2/(4 pi^2) = 2.5e-4.
    within("internal stop: speed after over speed before", abs(v[-1, 1]) / 2.0, BETA_LIMIT**2 / (4 * np.pi**2))


def test_a_stop_violated_at_the_start_is_undone_gently(device, assets, within):
    """Gymnasium's ant starts with its ankles 0.52 rad beyond their stops. Pushing them back must not throw the robot:
    turned on its side in the air it rises by less than its own size and its joints do not race, at any step."""
    model = ws.load(assets("ant"))
    q = model.q0.copy()
    q[2] = 3.0
    q[3:7] = np.array([0.8, 0.3, 0.4, 0.2]) / np.linalg.norm([0.8, 0.3, 0.4, 0.2])
    for h in (0.01, 0.002):
        sim = ws.Simulator(model, dt=h, device=device, dtype="float64")
        trajectory = sim.rollout(sim.state(q), steps=round(0.5 / h))
        within(f"ant beyond its stops, h = {h:g}: highest rise", trajectory.q.numpy()[:, 0, 2].max() - q[2], 0.5)
        within(f"ant beyond its stops, h = {h:g}: fastest joint", np.abs(trajectory.v.numpy()[:, 0, 6:]).max(), 30.0)
