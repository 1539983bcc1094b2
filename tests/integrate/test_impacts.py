# SPDX-License-Identifier: Apache-2.0
"""Impacts inside a step (`time_of_impact`): motion, slopes and what they conserve, against exact solutions."""

import dataclasses
import functools

import mujoco
import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation

import warpsim as ws
from scenes.examples import clutter
from warpsim.device.per_world import fill
from warpsim.device.ranges import WorldList, among
from warpsim.run.description import describe_simulator, simulator_arguments

G = 9.81


@functools.cache
def body(shape: str, e: float = 0.0, mu: float = 0.5) -> ws.Model:
    """A sphere or a box over a plane."""
    b = ws.ModelBuilder(shape)
    b.add_geom("plane", friction=mu, restitution=e)
    free = b.add_body("body", pose=(0, 0, 0.2, 1, 0, 0, 0))
    b.add_joint(free, "free")
    size = (0.1,) if shape == "sphere" else (0.1, 0.07, 0.05)
    b.add_geom(shape, size, body=free, friction=mu, restitution=e)
    return b.build()


def simulator(model, worlds, dt, **options):
    return ws.Simulator(model, worlds, dt, **{"dtype": "float64", "device": "cpu", "time_of_impact": True} | options)


def run(sim, q, v, steps, control=None):
    state = sim.state(q, v)
    for i in range(steps):
        state = sim.step(state, None if control is None else control[i])
    return np.c_[state.q.numpy(), state.v.numpy()]


SOLVERS = {"SAP": ws.SAP(tolerance=1e-10), "convex": ws.SAP(tolerance=1e-10, approximation="convex"), "LCP": ws.LCP()}


@pytest.mark.parametrize("law", SOLVERS)
def test_slope_through_a_landing_is_that_of_the_motion(law):
    """A ball without spin falls with v_x and sticks: dx(T)/dz0 = 2/7 v_x / √(2 g z0), at 10 ms within 3 %."""
    vx, T, h, e, z0 = 2.0, 0.5, 0.01, 1e-5, np.linspace(0.1, 0.3, 21)
    model = body("sphere", mu=2.0)

    def x(z):
        q, v = np.repeat(model.q0[None], len(z), 0), np.zeros((len(z), 6))
        q[:, 2], v[:, 0] = 0.1 + z, vx
        return run(simulator(model, len(z), h, solver=SOLVERS[law]), q, v, round(T / h))[:, 0]

    slope = (x(z0 + e) - x(z0 - e)) / (2 * e)
    np.testing.assert_allclose(slope, 2 / 7 * vx / np.sqrt(2 * G * z0), rtol=0.03)


@pytest.mark.parametrize(("law", "dtype"), [("SAP", "float64"), ("SAP", "float32"), ("LCP", "float64")])
def test_elastic_bounces_keep_their_height(law, dtype):
    """Restitution 1: after six bounces the ball rises to its start within 0.1 %, from 0.1 m and from 1 m."""
    model, z0 = body("sphere", e=1.0), np.array([0.1, 1.0])
    q, v = np.repeat(model.q0[None], 2, 0), np.zeros((2, 6))
    q[:, 2] = 0.1 + z0
    sim = simulator(model, 2, 0.005, solver=ws.SAP() if dtype == "float32" else SOLVERS[law], dtype=dtype)
    state, height = sim.state(q, v), []
    for _ in range(1100):
        state = sim.step(state)
        height.append(state.q.numpy()[:, 2] - 0.1)
    height = np.array(height)
    for k, z in enumerate(z0):
        after = int(11 * np.sqrt(2 * z / G) / 0.005)  # past the sixth bounce
        assert np.abs(height[after:, k].max() / z - 1) < 1e-3
    assert not sim.diagnostics.flags.numpy().any()


@pytest.mark.parametrize("law", ["SAP", "LCP"])
@pytest.mark.parametrize(
    ("shape", "velocity"),
    [
        ("sphere", [0] * 6),
        ("sphere", [1, 0.3, 0, 0, 0, 0]),
        ("sphere", [1, 0, 0, 0, 10, 0]),
        ("box", [1, 0.3, 0, 0, 0, 0]),
    ],
)
def test_what_does_not_hit_has_the_same_bits(law, shape, velocity):
    """Rest, sliding and rolling on a plane: the rule changes nothing."""
    model = body(shape)
    q = model.q0.copy()
    q[2] = 0.1 if shape == "sphere" else 0.05
    v = np.array(velocity, float)
    on, off = (
        run(simulator(model, 1, 0.005, solver=SOLVERS[law], time_of_impact=rule), q, v, 100) for rule in (True, False)
    )
    np.testing.assert_array_equal(on, off)


def gradient_error(model, q, v, dt, steps, control=None, e=1e-6):
    """Largest relative difference of the tape's gradient of a weighted end state from central differences, per world."""
    worlds, random = len(q), np.random.default_rng(1)
    a, b = random.normal(size=(1, model.nq)).repeat(worlds, 0), random.normal(size=(1, model.nv)).repeat(worlds, 0)
    options = {"solver": ws.SAP(tolerance=1e-12)}
    sim = simulator(model, worlds, dt, requires_grad=True, **options)
    start = state = sim.state(q, v)
    with wp.Tape() as tape:
        for i in range(steps):
            state = sim.step(state, None if control is None else control[i])
    tape.backward(grads={state.q: wp.array(a, dtype=wp.float64), state.v: wp.array(b, dtype=wp.float64)})
    found = np.c_[start.q.grad.numpy(), start.v.grad.numpy()]
    n, size = model.nq + model.nv, np.c_[a, b]
    x = np.repeat(np.c_[q, v][None], 2 * n, 0)
    x[np.arange(n), :, np.arange(n)] += e
    x[n + np.arange(n), :, np.arange(n)] -= e
    x = x.reshape(-1, n)
    tiled = None if control is None else np.tile(control, (1, 2 * n, 1))
    ends = run(simulator(model, len(x), dt, **options), x[:, : model.nq], x[:, model.nq :], steps, tiled)
    loss = (ends.reshape(2 * n, worlds, n) * size).sum(2)
    slope = ((loss[:n] - loss[n:]) / (2 * e)).T
    return np.abs(found - slope).max(1) / np.abs(slope).max(1)


@pytest.mark.parametrize("e", [0.0, 0.7])
def test_tape_through_a_box_that_lands_on_a_corner(e):
    """The tape is the derivative of the steps: two to four impacts of a box that turns, friction and rebound included."""
    random, model = np.random.default_rng(0), body("box", e=e)
    q, v = np.repeat(model.q0[None], 4, 0), random.normal(size=(4, 6)) * [1, 1, 1, 3, 3, 3]
    v[:, 2] = -2
    turn = random.normal(size=(4, 4))
    q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    assert gradient_error(model, q, v, 0.01, 12).max() < 1e-6


def test_tape_through_a_box_that_bounces_off_a_face():
    """Contacts that rebound together are solved twice; the tape is the derivative of both solves."""
    random, model = np.random.default_rng(0), body("box", e=0.8)
    q, v = np.repeat(model.q0[None], 4, 0), random.normal(size=(4, 6)) * [1, 1, 1, 0.01, 0.01, 0.01]
    v[:, 2] = -2
    q[:, 3:] += 1e-4 * random.normal(size=(4, 4))
    assert gradient_error(model, q, v, 0.01, 12, e=2e-7).max() < 1e-6


GRIPPER = """<mujoco><default><geom friction=".6"/></default><worldbody><geom type="plane" size="5 5 .1" friction=".3"/>
<body pos="0 0 .03"><freejoint/><geom type="box" size=".03 .03 .03" mass=".2" friction=".3"/></body>
<body pos="-.06 0 .04"><joint name="l" type="slide" axis="1 0 0" damping="5"/><geom type="box" size=".01 .03 .02" mass=".1"/></body>
<body pos=".06 0 .04"><joint name="r" type="slide" axis="-1 0 0" damping="5"/><geom type="box" size=".01 .03 .02" mass=".1"/></body>
</worldbody><actuator><motor joint="l"/><motor joint="r"/></actuator></mujoco>"""


def test_an_impact_on_a_gripped_box_is_solved():
    """Twelve contacts, whose impulses oppose each other: the solver ends within its tolerance, unflagged."""
    sim = simulator(ws.load(mujoco.MjModel.from_xml_string(GRIPPER)), 1, 0.005)
    q = [-1.0546e-3, -2.285e-4, 0.0299943, 0.9981102162, 2.851e-6, 3.889e-6, 0.06144913558, 0.0154927, 0.0173481]
    v = [0.1566, -0.07614, -5.21e-5, 6.24e-4, 7.49e-4, -2.264787, 0.215338, 0.563829]
    sim.step(sim.state([q], [v]), np.array([[3.06, 3.26]]))
    assert sim.diagnostics.impacts.numpy()[0] > 0
    assert sim.diagnostics.iterations.numpy()[0] < 100
    assert not sim.diagnostics.flags.numpy().any()


def test_tape_and_jacobians_through_stops_and_feet():
    """A hopper that falls with its joints moving: tape and `linearize` are the differences of the steps."""
    model, random = ws.load(ws.robots.path("hopper")), np.random.default_rng(3)
    worlds, dt = 3, 0.005
    q, v = np.repeat(model.q0[None], worlds, 0), random.normal(size=(worlds, model.nv))
    q += [0, 0.3, 0, -0.3, -0.5, 0.1]
    control = random.uniform(-1, 1, (60, worlds, model.nu))
    assert np.median(gradient_error(model, q, v, dt, 60, control)) < 1e-5
    sim = simulator(model, worlds, dt, requires_grad=True, solver=ws.SAP(tolerance=1e-12))
    state, step = sim.state(q, v), 0
    while not sim.diagnostics.impacts.numpy().any():
        before, state = state, sim.step(state, control[step])
        step += 1
    jacobian, x, e = sim.linearize(before, control[step - 1]).A.numpy(), np.c_[before.q.numpy(), before.v.numpy()], 1e-6
    for j in range(2 * model.nv):
        ends = []
        for sign in (1, -1):
            y = x.copy()
            y[:, j] += sign * e
            after = sim.step(sim.state(y[:, : model.nq], y[:, model.nq :]), control[step - 1])
            ends.append(np.c_[after.q.numpy(), after.v.numpy()])
        np.testing.assert_allclose(jacobian[:, :, j], (ends[0] - ends[1]) / (2 * e), atol=1e-6 * np.abs(jacobian).max())


def test_bits_do_not_depend_on_batch_threads_or_launches():
    """Every world has the same bits in any batch, on any number of threads, and where the step is launched part by part."""
    model, random = ws.load(ws.robots.path("ant")), np.random.default_rng(0)
    control = random.uniform(-1, 1, (60, 70, model.nu))
    ends, impacts = [], 0
    for worlds, threads, wrench in ((70, 1, False), (70, 2, False), (5, 1, False), (5, 1, True)):
        sim = simulator(model, worlds, 0.005, dtype="float32", threads=threads)
        state, given = sim.state(), np.zeros((worlds, model.nbody, 6)) if wrench else None
        for u in control:
            state = sim.step(state, u[:worlds], wrench=given)
            impacts += sim.diagnostics.impacts.numpy().sum()
        ends.append(np.c_[state.q.numpy(), state.v.numpy()][:5])
    assert impacts > 50
    for end in ends[1:]:
        np.testing.assert_array_equal(end, ends[0])


def test_of_two_corners_that_come_down_the_one_that_lands_is_hit():
    """A cube at 24 rad/s, 10 ms: the corner that is lower swings up again before it lands. The cube keeps its energy."""
    b, dt = ws.ModelBuilder("cube"), 0.01
    b.add_geom("plane", friction=0.0, restitution=1.0)
    cube = b.add_body("cube", pose=(0, 0, 0.3, 1, 0, 0, 0), mass=1.0, inertia=np.eye(3) / 150)
    b.add_joint(cube, "free")
    b.add_geom("box", (0.1, 0.1, 0.1), body=cube, friction=0.0, restitution=1.0)
    q = np.array([[0, 0, 0.156067, -0.036688, 0.006197, 0.948279, 0.315249]])
    v = np.array([[0, 0, -1.4271, -22.208, -6.1778, -6.6657]])

    def energy(x):
        """At the time of q: symplectic Euler is leapfrog half a step off."""
        u = x[:, 7:] - [0, 0, G * dt / 2, 0, 0, 0]
        return G * x[:, 2] + (u[:, :3] ** 2).sum(1) / 2 + (u[:, 3:] ** 2).sum(1) / 300

    end = run(simulator(b.build(), 1, dt), q, v, 3)
    np.testing.assert_allclose(energy(end), energy(np.c_[q, v]), rtol=1e-4)


def test_plastic_impacts_raise_no_energy():
    """Boxes that land without restitution: the energy at the time of q, at v + ½ D, falls in every step with impacts."""
    random, model, worlds, h = np.random.default_rng(0), body("box"), 16, 0.005
    q, v = np.repeat(model.q0[None], worlds, 0), random.normal(size=(worlds, 6)) * [0.5, 0.5, 1, 2, 2, 2]
    turn = random.normal(size=(worlds, 4))
    q[:, 2], q[:, 3:] = 0.3, turn / np.linalg.norm(turn, axis=1, keepdims=True)
    sim = simulator(model, worlds, h, solver=SOLVERS["SAP"])
    state, places, speeds, impacts = sim.state(q, v), [q], [v], []
    for _ in range(80):
        state = sim.step(state)
        places.append(state.q.numpy().copy())
        speeds.append(state.v.numpy().copy())
        impacts.append(sim.diagnostics.impacts.numpy() > 0)
    change, seen = np.diff(speeds, axis=0), 0
    energy = lambda q, v: sum(x.numpy() for x in sim.energy(sim.state(q, v)))  # noqa: E731
    for k in range(1, 79):
        alone = impacts[k] & ~impacts[k - 1] & ~impacts[k + 1]  # D of the steps around it
        before = energy(places[k], speeds[k] + 0.5 * change[k - 1])
        after = energy(places[k + 1], speeds[k + 1] + 0.5 * change[k + 1])
        assert (after < before)[alone].all()
        seen += alone.sum()
    assert seen > worlds


def test_no_vertex_of_a_rim_lands_unseen():
    """Cans of 16 sides that tumble over their rims: more vertices are near than a pair has contacts, and the one that
    closes first is among them. None gets deeper than g h²."""
    sides, worlds, h, random = 16, 64, 0.005, np.random.default_rng(0)
    angle = 2 * np.pi * np.arange(sides) / sides
    ring = 0.04 * np.column_stack([np.cos(angle), np.sin(angle)])
    points = np.concatenate([np.column_stack([ring, np.full(sides, z)]) for z in (-0.05, 0.05)])
    k, j = np.arange(sides), (np.arange(sides) + 1) % sides
    sheath = [np.column_stack(x) for x in ((k, j, sides + j), (k, sides + j, sides + k))]
    m, n = np.arange(1, sides - 1), np.arange(2, sides)
    caps = [np.column_stack(x) for x in ((0 * m, n, m), (0 * m + sides, sides + m, sides + n))]
    b = ws.ModelBuilder("can")
    b.add_geom("plane", friction=0.5)
    can = b.add_body("can", pose=(0, 0, 0.2, 1, 0, 0, 0))
    b.add_joint(can, "free")
    b.add_geom("mesh", mesh=(points, np.concatenate(sheath + caps)), body=can, friction=0.5, density=700.0)
    model = b.build()
    q = np.repeat(model.q0[None], worlds, 0)
    turn = Rotation.from_euler("ZY", np.column_stack([np.linspace(0.3, 0.9, worlds), np.linspace(0.1, 0.4, worlds)]))
    lowest = lambda turns: np.array([x.apply(points)[:, 2].min() for x in turns])  # noqa: E731
    q[:, 2], q[:, 3:] = 0.01 - lowest(turn), turn.as_quat()[:, [3, 0, 1, 2]]
    sim = simulator(model, worlds, h)
    state = sim.state(q, random.normal(size=(worlds, 6)) * [0.5, 0.5, 0.2, 3, 3, 10])
    for _ in range(60):
        state = sim.step(state)
        q = state.q.numpy()
        assert (q[:, 2] + lowest(Rotation.from_quat(q[:, [4, 5, 6, 3]]))).min() > -G * h**2


def test_momentum_of_bodies_that_collide():
    """Two boxes of unequal inertia that spin, without gravity, keep their linear and angular momentum to rounding."""
    b = ws.ModelBuilder("boxes")
    b.gravity = (0, 0, 0)
    for k, size in enumerate(((0.1, 0.1, 0.1), (0.2, 0.1, 0.15))):
        part = b.add_body(f"box{k}", pose=(0.5 * k, 0.02 * k, 0, 1, 0, 0, 0))
        b.add_joint(part, "free")
        b.add_geom("box", size, body=part, restitution=0.5)
    model = b.build()
    v = np.zeros((1, 12))
    v[0, :6], v[0, 6:] = [1, 0.1, 0, 1, 2, 0], [-1, 0, 0.1, 0, 1, 1]
    sim, mass = simulator(model, 1, 0.005), model.body_mass
    end = run(sim, model.q0[None], v, 80)[0]
    linear = lambda v: mass[0] * v[:3] + mass[1] * v[6:9]  # noqa: E731

    def angular(x):
        """About the origin, of a state (q, v)."""
        total = 0.0
        for k in range(2):
            q, u = x[7 * k : 7 * k + 7], x[14 + 6 * k : 20 + 6 * k]
            turn = Rotation.from_quat(q[[4, 5, 6, 3]])
            total += np.cross(q[:3], mass[k] * u[:3]) + turn.apply(model.body_inertia[k] @ u[3:])
        return total

    np.testing.assert_allclose(linear(end[14:]), linear(v[0]), atol=1e-11)
    np.testing.assert_allclose(angular(end), angular(np.r_[model.q0, v[0]]), atol=1e-11)
    assert np.abs(end[14:] - v[0]).max() > 0.5


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"integrator": ws.Midpoint()}, "Midpoint"),
        ({"solver": ws.Compliant()}, "Compliant"),
        ({"solver": ws.LCP(saddle_escape=True), "requires_grad": True}, "saddle_escape"),
        ({"time_of_impact": 1}, "time_of_impact is 1"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(options, named):
    """Nothing falls back in silence."""
    with pytest.raises(ValueError, match=named):
        simulator(body("sphere"), 1, 0.01, **options)


def test_deep_trees_are_refused_by_name():
    """Trees that float32 steps in float64."""
    b = ws.ModelBuilder("chain")
    link = -1
    for _ in range(45):
        link = b.add_body(parent=link, pose=(0, 0, 0.1, 1, 0, 0, 0), mass=1.0, inertia=0.01 * np.eye(3))
        b.add_joint(link, "hinge", axis=(0, 1, 0))
    with pytest.raises(ValueError, match="trees deeper than"):
        simulator(b.build(), 1, 0.01, dtype="float32")


def test_over_a_list_arrays_are_cleared_not_filled():
    """A value that would be lost over a list of worlds is refused."""
    array = wp.ones((3, 2), dtype=wp.float64, device="cpu")
    chosen = WorldList(3, "cpu")
    chosen.array.assign([1, 2, 0, 0, 0, 0])
    with among(chosen):
        fill(array)
        with pytest.raises(ValueError, match="cleared over a list"):
            fill(array, 2)
    np.testing.assert_array_equal(array.numpy(), [[1, 1], [1, 1], [0, 0]])


def test_restitution_needs_the_rule_with_sap_and_stores_keep_it():
    """`ws.SAP()` refuses restitution without the rule; a description of the simulator carries the rule."""
    with pytest.raises(ValueError, match="restitution"):
        simulator(body("sphere", e=0.5), 1, 0.01, time_of_impact=False)
    sim = simulator(body("sphere", e=0.5), 1, 0.01)
    assert sim.time_of_impact
    assert "time_of_impact" in repr(sim)
    assert simulator_arguments(describe_simulator(sim), "store")["time_of_impact"] is True


@pytest.mark.parametrize("law", SOLVERS)
def test_impacts_in_a_pile_converge_in_float32_and_raise_no_energy(law):
    """Spheres that fall on each other keep their certificates; plastic impacts and friction only take energy."""
    model = clutter(8, shapes="spheres")
    model = dataclasses.replace(model, geom_stiffness=np.full(model.ngeom, np.inf))
    solver = {"SAP": ws.SAP(), "convex": ws.SAP(approximation="convex"), "LCP": ws.LCP()}[law]
    sim = simulator(model, 1, 0.01, dtype="float32", solver=solver)
    state, energy = sim.state(), []
    for _ in range(60):
        state = sim.step(state)
        energy.append(float(sim.diagnostics.energy.numpy()[0]))
    assert sim.diagnostics.flags.numpy()[0] == 0
    assert np.diff(energy).max() < 1e-3 * energy[0]


def free_bodies(shapes, **options):
    """Free bodies in space, 0.4 m apart."""
    sizes = {"sphere": (0.1,), "box": (0.1, 0.07, 0.05), "capsule": (0.05, 0.1), "cylinder": (0.06, 0.08)}
    b = ws.ModelBuilder("space", gravity=(0, 0, 0))
    for k, shape in enumerate(shapes):
        free = b.add_body(f"body{k}", pose=(0.4 * k, 0, 0, 1, 0, 0, 0))
        b.add_joint(free, "free")
        b.add_geom(shape, sizes[shape], body=free, friction=0.0, **options)
    return b.build()


@pytest.mark.parametrize("shapes", [("box", "sphere"), ("capsule", "capsule"), ("cylinder", "cylinder")])
@pytest.mark.parametrize("spin", [1.0, 5.0])
def test_elastic_bodies_that_spin_keep_their_energy(shapes, spin):
    """Of bodies without friction, in some of whose steps an edge comes past the other body unforeseen and overlaps as the
    next step begins, or that part along curved paths."""
    model, random, worlds = free_bodies(shapes, restitution=1.0), np.random.default_rng(1), 64
    q, v = np.repeat(model.q0[None], worlds, 0), np.zeros((worlds, 12))
    v[:, 3:6], v[:, 9:12] = spin * random.normal(size=(2, worlds, 3))
    v[:, 0], v[:, 1:3] = 2, 0.1 * random.normal(size=(worlds, 2))
    sim = simulator(model, worlds, 0.005, solver=SOLVERS["SAP"])
    state = sim.state(q, v)
    before = sim.energy(state)[0].numpy()
    for _ in range(60):
        state = sim.step(state)
    assert (np.abs(state.v.numpy()[:, 6]) > 0.1).all()
    np.testing.assert_allclose(sim.energy(state)[0].numpy(), before, rtol=1e-4)


@pytest.mark.parametrize("law", SOLVERS)
def test_edges_that_are_almost_parallel_do_not_kick(law):
    """The lines of two such edges meet outside the bodies half a step later; the bend of that path is not theirs."""
    model = free_bodies(("cylinder", "capsule"))
    q = [0.0979, 0.1055, 0.0212, 0.9476, -0.2354, 0.0216, -0.215]
    q += [0.1325, 0.2402, 0.0506, 0.9714, -0.2306, 0.0532, 0.0209]
    v = [-1.08, -0.16, 0.35, -15.05, 7.04, -3.31, -0.09, -0.57, 0.06, 3.28, 16.09, 0.62]
    sim = simulator(model, 1, 0.005, solver=SOLVERS[law])
    state = sim.state(np.array([q]), np.array([v]))
    after = sim.step(state)
    assert sim.energy(after)[0].numpy() < sim.energy(state)[0].numpy()


def test_impacts_of_bodies_of_unequal_mass_converge_in_float32():
    """Bodies of 2 kg between others of 2 t in space, where no load stiffens contact: no flag, and no energy."""
    b, worlds, random = ws.ModelBuilder("space", gravity=(0, 0, 0)), 8, np.random.default_rng(102)
    shapes = (("cylinder", (0.06, 0.08)), ("sphere", (0.1,)), ("capsule", (0.05, 0.1)), ("capsule", (0.05, 0.1)))
    at = np.array([[0, 0, 0], [0.35, 0, 0.02], [0, 0.35, 0.04], [0.35, 0.35, 0.06]])
    for k, (shape, size) in enumerate(shapes):
        free = b.add_body(shape + str(k), pose=(*at[k], 1, 0, 0, 0))
        b.add_joint(free, "free")
        b.add_geom(shape, size, body=free, friction=0.5, density=1e6 if k % 2 else 1e3)
    model = b.build()
    v = np.zeros((worlds, 4, 6))
    v[..., :3] = (at.mean(0) - at) * random.uniform(2, 8, (worlds, 4, 1)) + 0.1 * random.normal(size=(worlds, 4, 3))
    v[..., 3:] = 3 * random.normal(size=(worlds, 4, 3))
    sim = simulator(model, worlds, 0.005, dtype="float32")
    state = sim.state(np.repeat(model.q0[None], worlds, 0), v.reshape(worlds, -1))
    energy = sim.energy(state)[0].numpy().copy()
    for _ in range(80):
        state, before = sim.step(state), energy
        energy = sim.energy(state)[0].numpy().copy()
        assert (energy < 1.001 * before).all()
    assert not sim.diagnostics.flags.numpy().any()
