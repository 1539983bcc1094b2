# SPDX-License-Identifier: Apache-2.0
"""Impacts inside a step (`time_of_impact`) with other integrators than plain symplectic Euler."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

G = 9.81
INTEGRATORS = {
    "implicit stiffness": ws.SymplecticEuler(implicit_stiffness=True),
    "implicit Euler": ws.ImplicitEuler(tolerance=1e-14),
}
LAWS = {"SAP": ws.SAP(tolerance=1e-12), "LCP": ws.LCP(tolerance=1e-13)}
# A leg with a spring, a damper, a stop and a servo, that is thrown at the ground.
LEG = """<mujoco><worldbody><geom type="plane" size="9 9 1" friction="0.8"/>
<body pos="0 0 .45"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
<joint name="hip" type="hinge" axis="0 1 0" range="-25 25" limited="true" armature=".01"/>
<geom type="capsule" fromto="0 0 0 .05 0 -.2" size=".04"/>
<body pos=".05 0 -.2"><joint name="knee" type="hinge" axis="0 1 0" stiffness="60" springref="10" damping=".4"/>
<geom type="capsule" fromto="0 0 0 -.05 0 -.2" size=".03"/></body></body></worldbody>
<actuator><position joint="hip" kp="10" kv=".1"/><motor joint="knee"/></actuator></mujoco>"""


def ball(e: float) -> ws.Model:
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", friction=2.0, restitution=e)
    b.add_body("ball", pose=(0, 0, 0.1))
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=500.0, friction=2.0, restitution=e)
    return b.build()


def simulator(model, worlds, dt, **options) -> ws.Simulator:
    return ws.Simulator(model, worlds, dt, **{"dtype": "float64", "device": "cpu", "time_of_impact": True} | options)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_slope_through_a_landing_is_that_of_the_motion(integrator, within):
    """A ball without spin falls with v_x and sticks: dx(T)/dz0 = 2/7 v_x / √(2 g z0), at 10 ms within 1 %."""
    vx, T, h, e, z0 = 2.0, 0.5, 0.01, 1e-5, np.linspace(0.1, 0.3, 21)
    model, n = ball(0.0), len(z0)
    sim = simulator(model, n, h, integrator=INTEGRATORS[integrator])

    def x(z):
        q, v = np.repeat(model.q0[None], n, 0), np.zeros((n, 6))
        q[:, 2], v[:, 0] = 0.1 + z, vx
        return sim.rollout(sim.state(q, v), steps=round(T / h)).final.q.numpy()[:, 0]

    exact = 2 / 7 * vx / np.sqrt(2 * G * z0)
    within("slope", np.abs((x(z0 + e) - x(z0 - e)) / (2 * e) / exact - 1).max(), 0.01)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_elastic_bounces_keep_their_height(integrator, within):
    """Restitution 1: after 12 s a ball from 0.1, 0.5, 1 and 10 m still rises as high, within 0.1 %."""
    h, z0 = 0.005, np.array([0.1, 0.5, 1.0, 10.0])
    model = ball(1.0)
    sim = simulator(model, 4, h, integrator=INTEGRATORS[integrator])
    q = np.repeat(model.q0[None], 4, 0)
    q[:, 2] += z0
    path = sim.rollout(sim.state(q), steps=round(12 / h))
    height = path.q.numpy()[-round(4 / h) :, :, 2] - 0.1
    velocity = path.v.numpy()[-round(4 / h) :, :, 2] - 0.5 * G * h  # the velocity that belongs to q
    energy = (height + velocity**2 / (2 * G)) / z0
    within("height", np.abs(energy[height > 0.02] - 1).max(), 1e-3)


def end(sim, given, steps):
    """A weighted end state per world, the number of impacts, and the weights."""
    state, hits = sim.state(given["q"], given["v"]), 0
    for _ in range(steps):
        state = sim.step(state, given["control"], tau=given["tau"])
        hits = hits + sim.diagnostics.impacts.numpy()
    random = np.random.default_rng(1)
    of_q, of_v = (random.normal(size=x.shape[1]) for x in (given["q"], given["v"]))
    return state.q.numpy() @ of_q + 0.3 * state.v.numpy() @ of_v, hits, (of_q, 0.3 * of_v)


def leg(W, random):
    """A leg that lands, and whose stop is hit."""
    model = ws.load(mujoco.MjModel.from_xml_string(LEG))
    q = np.repeat(model.q0[None], W, 0) + 0.1 * random.normal(size=(W, model.nq))
    q[:, 1] = 0.03, 0.06, 0.1
    v = np.repeat([[1.0, -2.5, 9.0, -1.0]], W, 0) + 0.3 * random.normal(size=(W, model.nv))
    return model, q, v, ("joint_stiffness", "joint_damping", "body_mass", "gravity", "geom_size")


def box(W, random):
    """A box that spins and bounces off its corners."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", friction=0.5, restitution=0.2)
    b.add_body("box", pose=(0, 0, 0.2))
    b.add_joint("box", "free")
    b.add_geom("box", (0.1, 0.07, 0.05), body="box", density=700.0, friction=0.5, restitution=0.5)
    model = b.build()
    q, v = np.repeat(model.q0[None], W, 0), random.normal(size=(W, 6))
    q[:, 2], v[:, 2] = (0.151, 0.163, 0.177), -2.0
    turn = random.normal(size=(W, 4))
    q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    return model, q, v, ("geom_restitution", "body_mass", "geom_size")


@pytest.mark.parametrize("scene", [leg, box])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_tape_is_the_derivative_of_the_steps(integrator, law, scene, within):
    """By start, controls, forces and parameters."""
    W, steps, dt, size, random = 3, 14, 0.01, 1e-6, np.random.default_rng(3)
    model, q, v, names = scene(W, random)
    given = {"q": q, "v": v, "control": random.uniform(-0.5, 0.5, (W, model.nu))}
    given["tau"] = random.normal(size=(W, model.nv))
    options = {"integrator": INTEGRATORS[integrator], "solver": LAWS[law]}
    sim, taped = (simulator(model, W, dt, requires_grad=x, **options) for x in (False, True))
    assert all(s.parameters[name].size for s in (sim, taped) for name in names)
    assert (end(sim, given, steps)[1] >= 1).all()
    state = first = taped.state(q, v)
    acting = {k: wp.array(given[k], dtype=wp.float64, requires_grad=True) for k in ("control", "tau")}
    with wp.Tape() as tape:
        for _ in range(steps):
            state = taped.step(state, acting["control"], tau=acting["tau"])
    rows = [wp.array(np.tile(x, (W, 1)), dtype=wp.float64) for x in end(sim, given, 1)[2]]
    tape.backward(grads=dict(zip((state.q, state.v), rows, strict=True)))
    found = {k: x.grad.numpy() for k, x in {"q": first.q, "v": first.v, **acting}.items()}
    for name in (*given, *names):
        array = sim.parameters[name] if name in names else None
        value = array.numpy().copy() if array else given[name]
        grad = (taped.parameters[name].grad.numpy() if array else found[name]).reshape(W, -1)
        differences = np.zeros_like(grad)
        if name == "q" and scene is box:  # a quaternion keeps its length
            grad, differences = grad[:, :3], differences[:, :3]
        for i in range(grad.shape[1]):
            ends = []
            for sign in (1, -1):
                x = value.copy()
                x.reshape(W, -1)[:, i] += sign * size
                if array:
                    array.assign(x)
                ends.append(end(sim, given if array else {**given, name: x}, steps)[0])
            differences[:, i] = (ends[0] - ends[1]) / (2 * size)
        if array:
            array.assign(value)
        error = np.abs(grad - differences).max(initial=0.0) / np.abs(differences).max(initial=1e-9)
        within(f"{integrator}, {law}, {scene.__name__}: {name}", error, 1e-5)


@pytest.mark.parametrize("integrator", [ws.ExplicitEuler(), ws.Midpoint(), ws.Variational()])
def test_the_others_say_why_not(integrator):
    """The message names the integrator, the reason and what to use."""
    name = type(integrator).__name__
    with pytest.raises(ValueError, match=rf"integrator is {name}.*resolves no impacts: it .*; use ws.SymplecticEuler"):
        simulator(ball(0.0), 1, 0.01, integrator=integrator)
