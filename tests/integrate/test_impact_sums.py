# SPDX-License-Identifier: Apache-2.0
"""What a step with impacts reports is that of the whole step: forces times h are its change of momentum."""

import mujoco
import numpy as np
import pytest
import warp as wp
from test_impacts import SOLVERS, G, body, simulator

import warpsim as ws


def turned(model, worlds, seed=0):
    """A body that falls and turns, in random directions: positions and velocities."""
    random = np.random.default_rng(seed)
    q, v = np.repeat(model.q0[None], worlds, 0), random.normal(size=(worlds, 6)) * [1, 1, 1, 3, 3, 3]
    turn = random.normal(size=(worlds, 4))
    q[:, 2], q[:, 3:], v[:, 2] = 0.25, turn / np.linalg.norm(turn, axis=1, keepdims=True), -2
    return q, v


@pytest.mark.parametrize("law", SOLVERS)
@pytest.mark.parametrize(("shape", "e"), [("sphere", 0.7), ("box", 0.0), ("box", 0.6)])
def test_contact_forces_are_the_change_of_momentum(law, shape, e):
    """m (v' − v) = h (F + m g) in every step of a ball and of a box on its corners; the contacts sum up to F."""
    model, h, impacts = body(shape, e=e), 0.01, 0
    sim = simulator(model, 8, h, solver=SOLVERS[law])
    state, m = sim.state(*turned(model, 8)), model.body_mass[0]
    for _ in range(40):
        before, state = state.v.numpy().copy(), sim.step(state)
        force, found = sim.contact_force(of="body").numpy()[:, 0], sim.last_contacts
        change = m * (state.v.numpy() - before)[:, :3]
        np.testing.assert_allclose(h * (force + [0, 0, -G * m]), change, atol=1e-8)
        used = np.arange(found.phi.shape[1]) < found.count[:, None]
        at_points = np.einsum("wcij,wcj->wci", found.frame, found.impulse) * used[..., None]
        np.testing.assert_allclose(at_points.sum(1), h * force, atol=1e-12)
        np.testing.assert_array_equal(found.count, sim.diagnostics.contacts.numpy())
        impacts += sim.diagnostics.impacts.numpy().sum()
    assert impacts >= 8


def test_contact_forces_of_a_robot_that_lands():
    """A hopper's linear momentum along x and z, M v of its root, changes by the contact forces and its weight: to 0.5 % of
    the sum of forces over the landing, and to first order in h."""
    model, errors = ws.load(ws.robots.path("hopper")), []
    weight = [0, model.body_mass.sum() * G]
    for h in (0.005, 0.00125):
        sim, random = simulator(model, 4, h), np.random.default_rng(3)
        q = model.q0 + [0, 0.3, 0, -0.3, -0.5, 0.1]
        state, lost, total, impacts = sim.state(q, 0.5 * random.normal(size=(4, model.nv))), 0.0, 0.0, 0
        momentum = lambda s: np.einsum("wij,wj->wi", sim.mass_matrix(s.q).numpy(), s.v.numpy())[:, :2]  # noqa: E731
        for _ in range(round(0.4 / h)):
            before, state = momentum(state), sim.step(state)
            impulse = h * sim.contact_force(of="body").numpy().sum(1)[:, [0, 2]]
            lost += momentum(state) - before + np.multiply(weight, h) - impulse
            total += np.abs(impulse)
            impacts += sim.diagnostics.impacts.numpy().sum()
        assert impacts >= 8
        errors.append(np.abs(lost).max() / total.max())
    assert errors[0] < 5e-3
    assert errors[1] < 0.35 * errors[0]


def test_moments_of_contacts_that_resist_spin():
    """A ball with torsional and rolling friction: I (ω' − ω) = Σ (r × impulse + moment), to the turn of the axes within the step."""
    b = ws.ModelBuilder("ball")
    options = {"condim": 6, "torsional_friction": 0.02, "rolling_friction": 0.01}
    b.add_geom("plane", **options)
    ball = b.add_body("ball", pose=(0, 0, 0.2, 1, 0, 0, 0))
    b.add_joint(ball, "free")
    b.add_geom("sphere", (0.1,), body=ball, **options)
    model, h, impacts = b.build(), 0.01, 0
    sim, (q, v) = simulator(model, 4, h), turned(model, 4)
    state, inertia = sim.state(q, v), model.body_inertia[0][0, 0]
    for _ in range(30):
        before, state = state, sim.step(state)
        found, change = sim.last_contacts, inertia * (spin_of(state) - spin_of(before))
        turn = np.einsum("wcij,wcj->wci", found.frame, found.moment)
        turn += np.cross([0, 0, -0.1], np.einsum("wcij,wcj->wci", found.frame, found.impulse))
        used = np.arange(found.phi.shape[1]) < found.count[:, None]
        np.testing.assert_allclose((turn * used[..., None]).sum(1), change, atol=5e-5)
        impacts += sim.diagnostics.impacts.numpy().sum()
    assert impacts >= 4


def spin_of(state):
    """Angular velocity of a free body in world axes."""
    w, u, omega = state.q.numpy()[:, 3:4], state.q.numpy()[:, 4:], state.v.numpy()[:, 3:]
    t = 2 * np.cross(u, omega)
    return omega + w * t + np.cross(u, t)


SENSED = """<mujoco><worldbody><geom name="floor" type="plane" size="5 5 1" friction="0.8"/>
<body name="trunk" pos="0 0 .6"><freejoint/><geom type="box" size=".1 .08 .05" mass="1.5"/><site name="box" type="box" size="1 1 1"/>
 <body name="arm" pos=".15 0 0"><joint name="shoulder" axis=".2 1 .1" damping=".05" range="-40 40"/><geom type="capsule" size=".03" fromto="0 0 0 .2 0 0" mass=".5"/>
  <body name="hand" pos=".25 0 0"><joint axis="0 0 1" damping=".02"/><geom size=".05" pos=".03 .01 0" mass=".3"/></body></body></body></worldbody>
<actuator><motor joint="shoulder" gear="2"/></actuator>
<sensor><contact geom1="floor" subtree2="trunk" data="force" reduce="netforce"/><touch site="box"/></sensor></mujoco>"""


@pytest.mark.parametrize("law", ["SAP", "LCP"])
def test_accelerations_and_reactions_are_those_of_the_whole_step(law):
    """h a = v' − v, the free joint bears nothing, every joint bears the change of momentum of what it carries (to first
    order in h), and the net contact sensor reads all contact forces: a robot that lands with hand, arm and trunk."""
    model, errors = ws.load(mujoco.MjModel.from_xml_string(SENSED)), []
    for h in (0.005, 0.00125):
        random = np.random.default_rng(1)
        q, v = np.repeat(model.q0[None], 6, 0), 0.7 * random.normal(size=(6, model.nv))
        v[:, 2] = -2
        sim = simulator(model, 6, h, solver=SOLVERS[law], reactions=True)
        state, lost, total, impacts = sim.state(q, v), 0.0, 0.0, 0
        for _ in range(round(0.4 / h)):
            before, start, state = momenta(sim, state), state.v.numpy().copy(), sim.step(state, np.full((6, 1), 0.3))
            np.testing.assert_allclose(h * sim.acceleration(state).numpy(), state.v.numpy() - start, atol=1e-11)
            force, reaction = sim.contact_force(of="body").numpy(), sim.joint_reaction(state).numpy()[..., 3:]
            np.testing.assert_allclose(reaction[:, 0], 0, atol=1e-9 * np.abs(reaction).max() + 1e-5)
            np.testing.assert_allclose(sim.sensors(state).numpy()[:, :3], force.sum(1), atol=1e-8)
            change = momenta(sim, state) - before - h * (force + np.outer(model.body_mass, model.gravity))
            lost += change[:, ::-1].cumsum(1)[:, ::-1] - h * reaction
            total += np.abs(h * reaction)
            impacts += sim.diagnostics.impacts.numpy().sum()
        assert impacts >= 20
        errors.append(np.abs(lost).max() / total.max())
    assert errors[0] < 0.05
    assert errors[1] < 0.35 * errors[0]


def test_accelerations_of_a_single_body_that_spins():
    """h a = v' − v of a box that turns freely between its impacts, the turn within the step included."""
    model, impacts = body("box"), 0
    sim = simulator(model, 8, 0.01, reactions=True)
    state = sim.state(*turned(model, 8))
    for _ in range(30):
        before, state = state.v.numpy().copy(), sim.step(state)
        np.testing.assert_allclose(0.01 * sim.acceleration(state).numpy(), state.v.numpy() - before, atol=1e-12)
        impacts += sim.diagnostics.impacts.numpy().sum()
    assert impacts >= 20


def momenta(sim, state):
    """Linear momenta of the bodies in world axes."""
    model, V, X = sim.model, sim.body_velocity(state).numpy(), sim.kinematics(state.q).numpy()
    com = np.array([[turned_by(x[3:], c) for x, c in zip(row, model.body_com, strict=True)] for row in X])
    return model.body_mass[:, None] * (V[..., 3:] + np.cross(V[..., :3], com))


def turned_by(quaternion, x):
    t = 2 * np.cross(quaternion[1:], x)
    return x + quaternion[0] * t + np.cross(quaternion[1:], t)


def test_an_accelerometer_and_a_touch_sensor_on_a_ball():
    """Without spin or friction the reading times h is the change of velocity less gravity, and touch times h that of
    momentum."""
    sensors = "<sensor><accelerometer site='s'/><touch site='s'/></sensor>"
    ball = "<body pos='0 0 .3'><freejoint/><geom size='.1' friction='0'/><site name='s' size='.2'/></body>"
    text = f"<mujoco><worldbody><geom type='plane' size='1 1 1' friction='0'/>{ball}</worldbody>{sensors}</mujoco>"
    model, h, impacts = ws.load(mujoco.MjModel.from_xml_string(text)), 0.01, 0
    sim, v = simulator(model, 3, h), np.zeros((3, 6))
    v[:, 2] = -0.5, -1, -1.7
    state, m = sim.state(np.repeat(model.q0[None], 3, 0), v), model.body_mass[0]
    for _ in range(40):
        before, state = state.v.numpy().copy(), sim.step(state)
        change, read = (state.v.numpy() - before)[:, :3] + [0, 0, h * G], sim.sensors(state).numpy()
        np.testing.assert_allclose(h * read[:, :3], change, atol=1e-11)
        np.testing.assert_allclose(h * read[:, 3], m * change[:, 2], atol=1e-9)
        impacts += sim.diagnostics.impacts.numpy().sum()
    assert impacts == 3


def test_forces_of_a_joint_stop_and_of_its_motor():
    """I (ω' − ω) = h (motor − stop): a link without gravity that its motor throws at its stop."""
    hinge = "<joint name='j' axis='0 1 0' range='-30 30'/><geom type='box' size='.2 .02 .02' mass='2'/>"
    sensors = "<sensor><jointlimitfrc joint='j'/><jointactuatorfrc joint='j'/></sensor>"
    rest = f"<actuator><motor joint='j'/></actuator>{sensors}"
    text = f"<mujoco><option gravity='0 0 0'/><worldbody><body>{hinge}</body></worldbody>{rest}</mujoco>"
    model, h, impacts = ws.load(mujoco.MjModel.from_xml_string(text)), 0.005, 0
    sim = simulator(model, 3, h)
    state, inertia = sim.state(np.zeros((3, 1)), np.array([[1.0], [3.0], [5.0]])), model.body_inertia[0][1, 1]
    for k in range(120):
        before, state = state.v.numpy().copy(), sim.step(state, np.full((3, 1), 0.05 * np.sin(k)))
        read = sim.sensors(state).numpy()
        np.testing.assert_allclose(h * (read[:, 1] - read[:, 0]), inertia * (state.v.numpy() - before)[:, 0], atol=1e-9)
        impacts += sim.diagnostics.impacts.numpy().sum()
    assert impacts >= 3


def test_readings_of_a_step_on_a_tape_are_refused_by_name():
    """Readings over several solves have no gradient, and say so."""
    sim = simulator(ws.load(mujoco.MjModel.from_xml_string(SENSED)), 1, 0.005, requires_grad=True)
    with wp.Tape():
        state = sim.step(sim.state())
        with pytest.raises(ValueError, match="time_of_impact"):
            sim.sensors(state)
