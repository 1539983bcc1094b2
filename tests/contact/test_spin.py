# SPDX-License-Identifier: Apache-2.0
"""Torsional and rolling friction in steps: times and ways until things stop, what holds and what turns, reports, bits, bad input."""

import dataclasses
import pickle

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes import spin as scenes
from warpsim.base.errors import ModelError

G = 9.81
CONVEX = ws.SAP(approximation="convex")
LAWS = {"coulomb": ws.SAP(), "convex": CONVEX, "cg": ws.SAP(linear_solver="cg"), "lcp": ws.LCP()}


def simulator(model, worlds=1, **options) -> ws.Simulator:
    return ws.Simulator(model, worlds, **({"dt": 0.002, "dtype": "float64", "device": "cpu"} | options))


def roll_out(sim, q=None, v=None, steps: int = 1):
    """Positions and velocities after every step, (steps, worlds, n); no flag, and momentum balances that hold."""
    state = sim.state(q, v)
    qs, vs = [], []
    bar = sim.solver.relative_tolerance(sim.dtype)
    for _ in range(steps):
        state = sim.step(state)
        qs.append(state.q.numpy().copy())
        vs.append(state.v.numpy().copy())
        assert sim.diagnostics.momentum_error.numpy().max() <= bar
    assert not sim.diagnostics.flags.numpy().any()
    return np.array(qs), np.array(vs)


def stop(values, dt: float) -> float:
    """When a speed that falls evenly has gone: from its values at 3/4 and 1/4 of the first."""
    speed = np.abs(values)
    first, last = np.argmax(speed < 0.75 * speed[0]), np.argmax(speed < 0.25 * speed[0])
    slope = (speed[last] - speed[first]) / (last - first)
    return dt * (1 + first - speed[first] / slope)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("law", ["coulomb", "cg", "lcp"])
def test_a_spinning_ball_stops_when_theory_says(law, dtype):
    """I ω/(μ_τ m g), by its deceleration and by the time that it is at rest, to 1 %; the moment is μ_τ m g."""
    omega, torsional = 10.0, 0.01
    model = scenes.ball(4, torsional=torsional)
    sim = simulator(model, dtype=dtype, solver=LAWS[law])
    inertia, weight = model.body_inertia[0, 2, 2], model.body_mass[0] * G
    time = inertia * omega / (torsional * weight)
    _, v = roll_out(sim, v=[0, 0, 0, 0, 0, omega], steps=int(0.5 * time / sim.dt))
    moment = sim.last_contacts.moment[0, 0] / sim.dt
    np.testing.assert_allclose(moment, [0, 0, -torsional * weight], atol=1e-3 * torsional * weight)
    _, after = roll_out(sim, v=[0, 0, 0, 0, 0, omega], steps=int(1.01 * time / sim.dt) + 1)
    assert abs(stop(after[:, 0, 5], sim.dt) / time - 1) < 0.01
    assert np.abs(after[-1]).max() < 0.01 * omega
    assert np.abs(v[:, 0, :5]).max() < 1e-3


def test_the_convex_law_stops_it_too():
    """The convex cone throws a spinning ball up by μ‖s‖ and catches it: on average it brakes as much, to 3 %."""
    model = scenes.ball(4, torsional=0.01)
    sim = simulator(model, solver=CONVEX, dt=0.001)
    time = model.body_inertia[0, 2, 2] * 10.0 / (0.01 * model.body_mass[0] * G)
    _, v = roll_out(sim, v=[0, 0, 0, 0, 0, 10.0], steps=int(1.1 * time / sim.dt))
    assert abs(stop(v[:, 0, 5], sim.dt) / time - 1) < 0.03


def rolling(model, mu: float, rolling_friction: float, radius: float) -> tuple[float, float]:
    """Deceleration, and speed per angular speed, of a ball that rolls: it slips by as much as the cone's axes say (theory §3.7)."""
    arm = radius + 0.4 * radius
    for _ in range(20):
        tangent = rolling_friction / mu / arm
        ratio = radius + rolling_friction / mu * tangent
        arm = radius + 0.4 * radius**2 / ratio
    return mu * G * tangent / np.hypot(1.0, tangent), ratio


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("coefficient", [0.001, 0.01])
def test_a_rolling_ball_stops_where_theory_says(coefficient, dtype):
    """v²/(2a) to 1 %, a of the cone; where rolling friction is small beside the radius, a = μ_r g/(1.4 r)."""
    mu, speed = 0.5, 0.2
    model = scenes.ball(6, mu, rolling=coefficient)
    sim = simulator(model, dtype=dtype)
    brakes, ratio = rolling(model, mu, coefficient, scenes.RADIUS)
    if coefficient < 0.005:
        assert abs(brakes / (coefficient * G / (1.4 * scenes.RADIUS)) - 1) < 0.01
    q, v = roll_out(sim, v=[speed, 0, 0, 0, speed / ratio, 0], steps=int(1.05 * speed / brakes / sim.dt))
    assert abs(q[-1, 0, 0] / (speed**2 / (2 * brakes)) - 1) < 0.01
    assert abs(v[-1, 0, 0]) < 0.01 * speed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_boxes_of_an_lcp(dtype):
    """LCP bounds each row by itself: a ball that rolls brakes by μ_r g/(1.4 r) without slip, and one that slides and spins by μ g and by
    μ_τ m g/I; a box, four corners that resist torsion each, stops where its corners would and sooner."""
    coefficient, speed = 0.01, 0.2
    sim = simulator(scenes.ball(6, rolling=coefficient), dtype=dtype, solver=ws.LCP())
    brakes = coefficient * G / (1.4 * scenes.RADIUS)
    q, v = roll_out(sim, v=[speed, 0, 0, 0, speed / scenes.RADIUS, 0], steps=int(1.05 * speed / brakes / sim.dt))
    assert abs(q[-1, 0, 0] / (speed**2 / (2 * brakes)) - 1) < 0.01 and np.abs(v[-1]).max() < 1e-3
    np.testing.assert_allclose(v[:, 0, 0], scenes.RADIUS * v[:, 0, 4], atol=1e-4)
    sim = simulator(scenes.ball(4, friction=0.2, torsional=0.02), dtype=dtype, solver=ws.LCP())
    state = sim.rollout(sim.state(), steps=5).final
    _, v = roll_out(sim, state.q.numpy(), [1.0, 0, 0, 0, 0, 10.0], steps=20)
    np.testing.assert_allclose((1.0 - v[-1, 0, 0]) / (20 * sim.dt), 0.2 * G, rtol=1e-3)
    spin = 0.02 * sim.model.body_mass[0] * G / sim.model.body_inertia[0, 2, 2]
    np.testing.assert_allclose(10.0 - np.linalg.norm(v[-1, 0, [5]]), 20 * sim.dt * spin, rtol=2e-2)
    angle = {}
    for condim in (3, 4):
        b = ws.ModelBuilder("box")
        b.add_geom("plane")
        body = b.add_body("box", pose=[0, 0, 0.1])
        b.add_joint(body, "free")
        b.add_geom("box", [0.1] * 3, body=body, friction=0.1, torsional_friction=0.02, condim=condim, priority=1)
        sim = simulator(b.build(), dtype=dtype, solver=ws.LCP())
        q, v = roll_out(sim, v=[0, 0, 0, 0, 0, 5.0], steps=200)
        assert abs(v[-1, 0, 5]) < 1e-2
        angle[condim] = 2 * np.arcsin(abs(q[-1, 0, 6]))
    assert 0.2 * angle[3] < angle[4] < 0.95 * angle[3]


def test_spin_and_slip_share_the_cone():
    """A body that slides and spins with v = μ_τ/μ ω, its inertia m (μ_τ/μ)²: both fall together and stop after √2 v/(μ g)."""
    mu, length, speed = 0.5, 0.1, 1.0
    b = ws.ModelBuilder("slider")
    b.add_geom("plane")
    body = b.add_body("body", pose=[0, 0, 0.1], mass=1.0, inertia=[1, 1, length**2])
    for kind, axis in (("slide", (1, 0, 0)), ("slide", (0, 0, 1)), ("hinge", (0, 0, 1))):
        b.add_joint(body, kind, axis=axis)
    b.add_geom("sphere", [0.1], body=body, friction=mu, torsional_friction=mu * length, condim=4, priority=1)
    sim = simulator(b.build())
    time = np.sqrt(2) * speed / (mu * G)
    _, v = roll_out(sim, v=[speed, 0, speed / length], steps=int(1.01 * time / sim.dt) + 1)
    np.testing.assert_allclose(v[:, 0, 0], length * v[:, 0, 2], atol=1e-6)
    assert abs(stop(v[:, 0, 0], sim.dt) / time - 1) < 0.01 and np.abs(v[-1]).max() < 0.02 * speed


def test_rolling_friction_holds_on_a_slope_that_is_not_too_steep():
    """Below tan α = μ_r/r a ball stays, above it rolls; with condim 4 it rolls on both."""
    model = scenes.ball(6, rolling=0.01)
    sim = simulator(model, 3)
    tilt = np.array([0.05, 0.2, 0.05])
    sim.parameters["gravity"] = G * np.stack([np.sin(tilt), 0 * tilt, -np.cos(tilt)], axis=1)
    sim.parameters["geom_rolling_friction"] = np.array([[0, 0.01], [0, 0.01], [0, 0.0]])
    q, _ = roll_out(sim, steps=250)
    way = q[-1, :, 0]
    assert abs(way[0]) < 1e-4
    np.testing.assert_allclose(way[2], 0.5 * G * np.sin(0.05) / 1.4 * 0.5**2, rtol=0.02)
    assert 0.3 * way[2] < way[1]


def gripper(condim: int) -> ws.Model:
    """Two balls pinch a rod, 30 mm off its centre of mass."""
    b = ws.ModelBuilder("gripper")
    for name, side in (("left", 1), ("right", -1)):
        finger = b.add_body(name, pose=[0, 0.03 * side, 0], mass=0.2, inertia=[1e-4] * 3)
        joint = b.add_joint(finger, "slide", axis=(0, -side, 0), armature=0.1)
        b.add_geom("sphere", [0.02], body=finger, density=0.0, friction=0.8, torsional_friction=0.006, condim=condim)
        b.add_actuator(joint)
    rod = b.add_body("rod", pose=[0.03, 0, 0], mass=0.05, inertia=[2e-5, 2e-4, 2e-4])
    b.add_joint(rod, "free")
    b.add_geom("box", [0.08, 0.01, 0.01], body=rod, density=0.0, friction=0.8, torsional_friction=0.006)
    return b.build()


@pytest.mark.parametrize("law", ["coulomb", "convex"])
def test_fingers_hold_a_rod_off_its_centre(law):
    """m g d = 15 mN m under 2 μ_τ N = 24 mN m: with condim 4 the rod stays level, with condim 3 it swings down."""
    angle = {}
    for condim in (3, 4):
        sim = simulator(gripper(condim), solver=LAWS[law])
        state, control = sim.state(), np.array([[2.0, 2.0]])
        for _ in range(150):
            state = sim.step(state, control)
        assert not sim.diagnostics.flags.numpy().any()
        q = state.q.numpy()[0, 2:]
        angle[condim] = 2 * np.arcsin(abs(q[5]))
        assert abs(q[2]) < (0.002 if condim == 4 else 0.1)
    assert angle[4] < 0.01 and angle[3] > 0.5


def test_no_coefficients_are_condim_3():
    """Torsional and rolling friction of 0: the motion of condim 3, to rounding; and towards it as they fall."""
    v0 = [0.5, 0.1, 0, 1.0, 2.0, 3.0]
    q, _ = roll_out(simulator(scenes.ball(3)), v=v0, steps=100)
    none, _ = roll_out(simulator(scenes.ball(6, torsional=0.0, rolling=0.0)), v=v0, steps=100)
    np.testing.assert_allclose(none, q, atol=1e-9)
    errors = []
    for share in (1e-3, 1e-4):
        little, _ = roll_out(simulator(scenes.ball(6, torsional=share, rolling=share)), v=v0, steps=100)
        errors.append(np.abs(little - q).max())
    assert errors[1] < 0.2 * errors[0] < 4e-3


def test_certificate_from_the_problem():
    """A (v − v*) = Jᵀ(γ, σ), computed from the exported arrays, and every contact's law, also of two bodies one on the other."""
    b = ws.ModelBuilder("two")
    b.add_geom("plane", condim=6, friction=0.6)
    for k in range(2):
        body = b.add_body(f"b{k}", pose=[0.02 * k, 0, 0.1 + 0.2 * k])
        b.add_joint(body, "free")
        own = {"friction": 0.5, "condim": 4 + 2 * k, "torsional_friction": 0.02, "rolling_friction": 0.01}
        b.add_geom("box" if k == 0 else "sphere", [0.1] * (3 if k == 0 else 1), body=body, **own)
    sim = simulator(b.build(), dt=0.005)
    state = sim.state(v=[0.4, 0, 0, 0, 0, 3.0, 0, 0, 0, 0, 0, -20.0])
    slides = 0
    for _ in range(60):
        state = sim.step(state)
        p, x, C = sim._step.solver.problem, sim._step.solver.solution, sim.max_contacts
        n = int(p.contacts.numpy()[0])
        v, A, J, gamma = x.v.numpy()[0], np.zeros((12, 12)), p.J.numpy()[0], x.gamma.numpy()[0]
        for begin in (0, 6):
            A[begin : begin + 6, begin : begin + 6] = p.A.numpy()[0, begin : begin + 6, :6]
        support, size, pair = p.support.numpy(), p.support_size.numpy(), p.contact_pair.numpy()[0]
        impulse, mu, R = np.zeros(12), p.mu.numpy()[0], p.R.numpy()[0]
        for c in (*range(n), *range(C, C + n)):
            dofs = support[pair[c], : size[pair[c]]]
            impulse[dofs] += J[c, :, : len(dofs)].T @ gamma[c]
        for c in range(n):
            dofs = support[pair[c], : size[pair[c]]]
            tangent = np.concatenate([gamma[c, :2], gamma[C + c]])
            rate = np.concatenate([(J[c, :2, : len(dofs)] @ v[dofs]), J[C + c, :, : len(dofs)] @ v[dofs]])
            slip, bound = rate + R[c, 0] * tangent, mu[c] * gamma[c, 2]
            assert np.linalg.norm(tangent) <= bound * (1 + 1e-9)
            if np.linalg.norm(slip) > 1e-4 and bound > 0:
                slides += 1
                np.testing.assert_allclose(tangent, -bound * slip / np.linalg.norm(slip), atol=1e-4 * bound)
        left = A @ (v - p.v_star.numpy()[0]) - impulse
        assert np.linalg.norm(left) < 1e-5 * (np.linalg.norm(A @ v) + np.linalg.norm(impulse))
    assert slides > 30


def test_moments_are_reported():
    """The change of a ball's angular momentum is the wrench's torque; the force has no part in it."""
    model = scenes.ball(6)
    sim = simulator(model)
    state = sim.step(sim.state(v=[0.3, 0, 0, 1.0, 2.0, 5.0]))
    for _ in range(5):
        before, state = state, sim.step(state)
        wrench = sim.contact_wrench(before).numpy()[0, 0]
        change = model.body_inertia[0, 0, 0] * (state.v.numpy() - before.v.numpy())[0, 3:] / sim.dt

        q = before.q.numpy()[0, 3:]
        axis = q[1:]
        rotate = lambda x, w=q[0], a=axis: x + 2 * np.cross(a, np.cross(a, x) + w * x)  # noqa: E731
        np.testing.assert_allclose(rotate(change), wrench[:3], rtol=2e-2, atol=2e-3 * np.abs(wrench[:3]).max())
        found = sim.last_contacts
        arm = found.point[0, 0] - before.q.numpy()[0, :3]
        own = np.cross(arm, found.frame[0, 0] @ found.impulse[0, 0]) + found.frame[0, 0] @ found.moment[0, 0]
        np.testing.assert_allclose(own / sim.dt, wrench[:3], rtol=1e-3, atol=1e-3 * np.abs(wrench[:3]).max())
        assert np.abs(found.moment[0, 0]).min() > 0


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bits_depend_on_nothing_but_the_world(dtype):
    """64 worlds with coefficients of their own, on two threads: each has the bits that it has alone; a world of NaN changes no other."""
    model, rng = scenes.ball(6), np.random.default_rng(0)
    torsional, rolling = rng.uniform(0, 0.05, size=(2, 64, 2))
    v = rng.normal(size=(64, 6)) * [0.3, 0.3, 0, 2, 2, 5]
    two = 1 if wp.config.mode == "debug" else 2  # unoptimised code (`pytest --bounds`) crashes in two threads
    sims = [simulator(model, 64, dtype=dtype, threads=t) for t in (1, two)] + [simulator(model, 64, dtype=dtype)]
    v[:, 2] = 0
    found = []
    for k, sim in enumerate(sims):
        sim.parameters["geom_torsional_friction"] = torsional
        sim.parameters["geom_rolling_friction"] = rolling
        if k == 2:
            broken = sim.parameters["geom_torsional_friction"].numpy().copy()
            broken[5] = np.nan
            sim.parameters["geom_torsional_friction"].assign(broken)
        state = sim.state(v=v)
        for _ in range(30):
            state = sim.step(state)
        found.append(np.concatenate([state.q.numpy(), state.v.numpy()], axis=1))
    np.testing.assert_array_equal(found[0], found[1])
    others = np.arange(64) != 5
    np.testing.assert_array_equal(found[0][others], found[2][others])
    assert sims[2].diagnostics.flags.numpy()[5] != 0 and not sims[2].diagnostics.flags.numpy()[others].any()
    for w in (0, 17, 63):
        alone = simulator(model, dtype=dtype)
        alone.parameters["geom_torsional_friction"] = torsional[w]
        alone.parameters["geom_rolling_friction"] = rolling[w]
        state = alone.state(v=v[w])
        for _ in range(30):
            state = alone.step(state)
        np.testing.assert_array_equal(np.concatenate([state.q.numpy(), state.v.numpy()], axis=1)[0], found[0][w])


def load(text: str, folder) -> ws.Model:
    path = folder / "model.xml"
    path.write_text(text)
    return ws.load(path)


def test_a_spinning_ball_beside_mujocos(tmp_path):
    """MuJoCo's, with elliptic cones and stiff contact, stops at the same time, to 2 %."""
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><option cone="elliptic" timestep=".001" impratio="10"/><default><geom solref=".004 1" condim="4"/></default>
      <worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .05"><freejoint/>
      <geom size=".05" friction="1 .01 .001" priority="1"/></body></worldbody></mujoco>"""
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    model = load(text, tmp_path)
    assert model.pair_condim.tolist() == [4] and model.has_spin
    sim = simulator(dataclasses.replace(model, geom_stiffness=np.full(2, np.inf)), dt=0.001)
    mujoco.mj_step(theirs, data, 300)  # at rest
    data.qvel[5], speeds = 10.0, []
    for _ in range(150):
        mujoco.mj_step(theirs, data)
        speeds.append(data.qvel[5])
    _, v = roll_out(sim, v=[0, 0, 0, 0, 0, 10.0], steps=150)
    assert abs(stop(v[:, 0, 5], 0.001) / stop(np.array(speeds), 0.001) - 1) < 0.02


def test_pairs_follow_mujocos_rules(tmp_path):
    """condim and the three coefficients of 40 random pairs, by priority or else the larger, and of explicit ones: those of mj_collision."""
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(1)
    bodies = ""
    for k in range(9):
        mu = " ".join(f"{x:.3f}" for x in rng.uniform(0.1, 1, size=3))
        law = f'condim="{rng.choice([1, 3, 4, 6])}" priority="{rng.integers(0, 2)}" friction="{mu}"'
        bodies += f'<body pos="0 0 {0.01 * k}"><freejoint/><geom name="g{k}" size=".1" {law}/></body>'
    pair = '<contact><pair geom1="g0" geom2="g1" condim="6" friction=".5 .5 .02 .003 .003"/></contact>'
    text = f"<mujoco><worldbody>{bodies}</worldbody>{pair}</mujoco>"
    theirs, model = mujoco.MjModel.from_xml_string(text), load(text, tmp_path)
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    expected = {tuple(sorted(c.geom)): (c.dim, *c.friction[[0, 2, 3]]) for c in data.contact}
    sim = simulator(model, max_contacts=64)
    sim.step(sim.state())
    collision = sim._step.collision
    length, mu = collision.spin.length.numpy()[0], sim._step.solver.problem.mu.numpy()[0]
    pairs = collision.contacts.pair.numpy()[0, : int(collision.contacts.count.numpy()[0])]
    assert len(pairs) == len(expected) == 36
    for c, p in enumerate(pairs):
        dim, sliding, torsional, rolling_friction = expected[tuple(sorted(model.pair_geom[p].tolist()))]
        assert model.pair_condim[p] == dim
        found = [mu[c], mu[c] * length[c, 1], mu[c] * length[c, 0]]
        np.testing.assert_allclose(found, [sliding * (dim > 1), torsional * (dim > 3), rolling_friction * (dim > 4)])


BAD = {
    "torsional negative": ({"torsional_friction": -0.1}, "'g'.*torsional_friction.*-0.1"),
    "torsional nan": ({"torsional_friction": np.nan}, "'g'.*torsional_friction.*nan"),
    "rolling infinite": ({"rolling_friction": np.inf}, "'g'.*rolling_friction.*inf"),
    "rolling text": ({"rolling_friction": "much"}, "'g'.*rolling_friction"),
    "condim 2": ({"condim": 2}, "'g'.*condim is 2.*use 1"),
    "condim 5": ({"condim": 5}, "'g'.*condim is 5"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_coefficients(name):
    """One error that names the geom, or the pair, and the value."""
    values, text = BAD[name]
    b = ws.ModelBuilder()
    with pytest.raises(ModelError, match=text):
        b.add_geom("sphere", [1], name="g", **values)
    b.add_geom("sphere", [1], name="g")
    b.add_geom("sphere", [1], name="h")
    with pytest.raises(ModelError, match=text):
        b.add_pair("g", "h", 0.5, **values)


def test_what_does_not_have_it_refuses_it():
    """Other solvers by name; parameters that would have no effect, and values out of range."""
    model = scenes.ball(4)
    for solver, grad in ((ws.Compliant(), False), (ws.LCP(), True)):
        with pytest.raises(ValueError, match=f"{type(solver).__name__}.*condim 4.*'floor' and 'ball'.*SAP"):
            ws.Simulator(model, solver=solver, device="cpu", requires_grad=grad)
    plain = dataclasses.replace(model, pair_condim=np.minimum(model.pair_condim, 3))
    ws.Simulator(plain, solver=ws.Compliant(), device="cpu")
    with pytest.raises(ValueError, match=r"geom_torsional_friction.*no effect.*condim"):
        _ = simulator(plain).parameters["geom_torsional_friction"]
    with pytest.raises(ValueError, match="geom_rolling_friction"):
        simulator(model).parameters["geom_rolling_friction"] = np.array([0.0, -1.0])
    assert not simulator(plain)._step.collision.slots - simulator(plain).max_contacts


def test_models_keep_it(tmp_path):
    """Through `add_model`, explicit pairs, a pickle, a store and USD."""
    b = ws.ModelBuilder()
    b.add_model(scenes.ball(6, torsional=0.03, rolling=0.004), prefix="a/")
    b.add_geom("sphere", [0.1], name="post", pose=[1, 0, 0])
    b.add_pair("a/ball", "post", 0.3, condim=4, torsional_friction=0.07)
    model = b.build()
    names = [f"{kind}_{name}" for kind in ("geom", "pair") for name in ("torsional_friction", "rolling_friction")]
    sim = simulator(model)
    motion = sim.rollout(sim.state(), steps=2)
    motion.save(tmp_path / "motion.zarr")
    motion.to_usd(tmp_path / "motion.usda")
    kept = pickle.loads(pickle.dumps(model)), ws.Trajectory.load(tmp_path / "motion.zarr").model
    for again in (*kept, ws.load(tmp_path / "motion.usda")):
        for name in (*names, "geom_condim", "pair_condim"):
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert sorted(model.pair_condim.tolist()) == [4, 6]
    assert model.geom_torsional_friction[1] == 0.03 and model.pair_torsional_friction.max() == 0.07


def test_deep_trees_step_in_float64():
    """A chain of 45 hinges in float32, whose end spins on the floor: the moment is that of float64."""
    b = ws.ModelBuilder("chain")
    b.add_geom("plane")
    parent = b.add_body("base", pose=[0, 0, 0.1], mass=1.0, inertia=[0.01] * 3)
    b.add_joint(parent, "free")
    b.add_geom("sphere", [0.1], body=parent, density=0.0, condim=4, friction=0.5, torsional_friction=0.05, priority=1)
    for k in range(45):
        parent = b.add_body(f"b{k}", parent=parent, pose=[0, 0, 0.01], mass=0.01, inertia=[1e-5] * 3)
        b.add_joint(parent, "hinge", axis=(0, 0, 1), stiffness=1.0, damping=0.1)
    found = {}
    for dtype in ("float32", "float64"):
        sim = simulator(b.build(), dtype=dtype)
        v = np.zeros(sim.model.nv)
        v[5] = 5.0
        _, v = roll_out(sim, v=v, steps=20)
        found[dtype] = v[-1, 0]
        assert abs(sim.last_contacts.moment[0, 0, 2]) > 1e-4
    np.testing.assert_allclose(found["float32"], found["float64"], atol=1e-4)
