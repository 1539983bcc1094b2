# SPDX-License-Identifier: Apache-2.0
"""Gradients through impacts inside a step by everything that a tape reaches: inputs, memory, parameters."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

BOX = (
    '<body name="box" pos="0 0 .3"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>'
    '<joint type="hinge" axis="0 1 0" name="h"/><geom type="box" size=".1 .05 .06" mass="1"/>'
    '<site name="s" pos=".1 0 .05"/></body>'
)
FLOOR = '<geom type="plane" size="9 9 1"/>'
TENDON = '<spatial stiffness="20" springlength=".1" damping=".3"><site site="t"/><site site="s"/></spatial>'
BALL = '<joint type="ball" range="0 30" limited="true"/><geom type="capsule" fromto="0 0 0 0 0 -.25" size=".05"/>'
SCENES = {
    "an activation": f"<worldbody>{FLOOR}{BOX}</worldbody><actuator>"
    '<general joint="h" dyntype="filter" dynprm=".05" gainprm="3"/></actuator>',
    "a spring on a string": f'<worldbody>{FLOOR}<site name="t" pos=".2 0 .6"/>{BOX}</worldbody>'
    f'<tendon>{TENDON}</tendon><actuator><motor joint="h"/></actuator>',
    "a mocap body": '<worldbody><body mocap="true" pos=".03 0 .1"><geom type="sphere" size=".1"/></body>'
    f"{BOX}</worldbody>",
    "a muscle": f"<worldbody>{FLOOR}{BOX}</worldbody><actuator>"
    '<muscle joint="h" ctrlrange="0 1" lengthrange="-2 2" force="8"/></actuator>',
    "adhesion": f"<worldbody>{FLOOR}{BOX}</worldbody><actuator>"
    '<adhesion body="box" gain="6" ctrlrange="0 1"/></actuator>',
    "the stop of a ball joint": f'<worldbody><body pos="0 0 .5">{BALL}</body></worldbody>',
}
WORLDS, STEPS, DT, E = 3, 14, 0.01, 1e-6


def inputs(model) -> dict:
    """A start that hits something within the motion, and inputs that act all the time, by name."""
    random = np.random.default_rng(0)
    q, v = np.repeat(model.q0[None], WORLDS, 0), random.normal(size=(WORLDS, model.nv)) * 2
    if model.nq == 3:
        q[:, 2] += random.uniform(-0.6, 0.6, WORLDS)
        q[:, 1] += 0.1 if model.nmocap else -0.05
        v[:, 1] = -2.5
    else:
        v = np.array([[5.0, 1, 0], [3, -4, 1], [-6, 2, 0.5]])
    found = {"q": q, "v": v, "tau": random.normal(size=(WORLDS, model.nv)) * 0.5}
    found["control"] = random.uniform(-1, 1, (WORLDS, model.nu))
    if model.na:
        found["activation"] = random.uniform(0, 1, (WORLDS, model.na))
    if model.nmocap:
        found["mocap"] = np.repeat(model.mocap0[None], WORLDS, 0)
    return found


def simulator(model, requires_grad, solver=None):
    solver = ws.SAP(tolerance=1e-12) if solver is None else solver
    options = {"dtype": "float64", "device": "cpu", "time_of_impact": True, "solver": solver}
    return ws.Simulator(model, WORLDS, DT, requires_grad=requires_grad, **options)


def start(sim, given):
    return sim.state(given["q"], given["v"], **{k: given[k] for k in ("activation", "mocap") if k in given})


def weights(model):
    random = np.random.default_rng(1)
    return random.normal(size=(1, model.nq)), 0.3 * random.normal(size=(1, model.nv))


def loss(sim, given) -> tuple[np.ndarray, int]:
    """A weighted end state per world, and the number of impacts."""
    state, impacts, (a, b) = start(sim, given), 0, weights(sim.model)
    for _ in range(STEPS):
        state = sim.step(state, given.get("control"), tau=given.get("tau"))
        impacts += sim.diagnostics.impacts.numpy().sum()
    return (state.q.numpy() * a).sum(1) + (state.v.numpy() * b).sum(1), impacts


def tape_gradient(sim, given) -> dict:
    state = first = start(sim, given)
    acting = {k: wp.array(given[k], dtype=wp.float64, requires_grad=True) for k in ("control", "tau") if k in given}
    with wp.Tape() as tape:
        for _ in range(STEPS):
            state = sim.step(state, acting.get("control"), tau=acting.get("tau"))
    rows = [wp.array(x.repeat(WORLDS, 0), dtype=wp.float64) for x in weights(sim.model)]
    tape.backward(grads=dict(zip((state.q, state.v), rows, strict=True)))
    return {k: x.grad.numpy() for k, x in {**first.smooth_arrays(), **acting}.items()}


@pytest.mark.parametrize("scene", SCENES)
def test_gradient_by_every_input(scene):
    """The tape is the derivative of the steps by start, controls, forces, activations and mocap poses."""
    model = ws.load(mujoco.MjModel.from_xml_string(f"<mujoco>{SCENES[scene]}</mujoco>"))
    given, sim = inputs(model), simulator(model, False)
    assert loss(sim, given)[1] >= WORLDS - 1
    found = tape_gradient(simulator(model, True), given)
    for name, x in given.items():
        # A ball joint's quaternion keeps its length, and a mocap pose is moved, not turned.
        columns = range(0 if name == "q" and model.nq == 4 else 3 if name == "mocap" else x[0].size)
        for i in columns:
            ends = []
            for sign in (1, -1):
                y = {**given, name: x.copy()}
                y[name].reshape(WORLDS, -1)[:, i] += sign * E
                ends.append(loss(sim, y)[0])
            tape = found[name].reshape(WORLDS, -1)[:, i]
            np.testing.assert_allclose(tape, (ends[0] - ends[1]) / (2 * E), rtol=1e-4, atol=1e-4, err_msg=name)


CONVEX = ws.SAP(tolerance=1e-12, approximation="convex")
FOOT = {
    "rigid": {},
    "compliant": {"stiffness": 2e4, "dissipation_time": 0.02},
    "a pressure field": {"hydroelastic": ws.Hydroelastic(1e5)},
}


@pytest.mark.parametrize(
    ("foot", "solver"), [("compliant", None), ("a pressure field", None), ("rigid", CONVEX), ("compliant", CONVEX)]
)
def test_gradient_beside_contact_that_takes_time(foot, solver):
    """A box that lands on its corners, with a foot whose contact is compliant: impacts and forces in the same steps. The
    convex law pushes at what an impact has left at a gap of 0, whatever its rounding."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", friction=0.5, hydroelastic=ws.Hydroelastic(np.inf) if "field" in foot else None)
    body = b.add_body("body", pose=(0, 0, 0.3, 1, 0, 0, 0))
    for kind, axis in (("slide", (1, 0, 0)), ("slide", (0, 0, 1)), ("hinge", (0, 1, 0))):
        b.add_joint(body, kind, axis=axis)
    b.add_geom("box", (0.1, 0.05, 0.06), body=body, friction=0.5)
    b.add_geom("sphere", (0.05,), body=body, pose=(0.12, 0, -0.03, 1, 0, 0, 0), friction=0.5, **FOOT[foot])
    model = b.build()
    given, sim = inputs(model), simulator(model, False, solver)
    assert loss(sim, given)[1] >= 2
    found = tape_gradient(simulator(model, True, solver), given)
    for name in ("q", "v", "tau"):
        for i in range(3):
            ends = []
            for sign in (1, -1):
                y = {**given, name: given[name].copy()}
                y[name][:, i] += sign * E
                ends.append(loss(sim, y)[0])
            np.testing.assert_allclose(found[name][:, i], (ends[0] - ends[1]) / (2 * E), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("solver", [ws.SAP(tolerance=1e-12), ws.LCP(tolerance=1e-13)], ids=["SAP", "LCP"])
def test_gradient_by_what_sets_the_time_of_an_impact(solver):
    """By sizes and poses of geoms, which move the impact in time, and by restitution, mass, inertia and gravity."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", friction=0.5, restitution=0.2)
    body = b.add_body("body", pose=(0, 0, 0.2, 1, 0, 0, 0), mass=1.0, inertia=np.diag([0.01, 0.012, 0.015]))
    b.add_joint(body, "free")
    b.add_geom("box", (0.1, 0.07, 0.05), body=body, friction=0.5, restitution=0.5)
    model, random = b.build(), np.random.default_rng(0)
    q, v = np.repeat(model.q0[None], WORLDS, 0), random.normal(size=(WORLDS, 6))
    q[:, 2], v[:, 2] = (0.151, 0.163, 0.177), -2
    turn = random.normal(size=(WORLDS, 4))
    q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    given, sim, taped = {"q": q, "v": v}, simulator(model, False, solver), simulator(model, True, solver)
    # the box's sizes and position, its restitution, mass, inertia and gravity
    entries = {
        "geom_size": (3, 4, 5),
        "geom_pose": (7, 8, 9),
        "geom_restitution": (1,),
        "body_mass": (0,),
        "body_inertia": (0, 4, 8),
        "gravity": (2,),
    }
    for name in entries:
        taped.parameters[name], sim.parameters[name]
    assert loss(sim, given)[1] >= WORLDS
    tape_gradient(taped, given)
    for name, columns in entries.items():
        array = sim.parameters[name]
        value, found = array.numpy().copy(), taped.parameters[name].grad.numpy().reshape(WORLDS, -1)
        for i in columns:
            ends = []
            for sign in (1, -1):
                x = value.copy()
                x.reshape(WORLDS, -1)[:, i] += sign * E
                array.assign(x)
                ends.append(loss(sim, given)[0])
            array.assign(value)
            slope = (ends[0] - ends[1]) / (2 * E)
            np.testing.assert_allclose(found[:, i], slope, rtol=1e-5, atol=1e-5, err_msg=name)


def end_gradients(model, q, v, dtype, approximation):
    """Gradients of a weighted end state by q and v, after 0.3 s with impacts, and their number."""
    solver = ws.SAP(approximation=approximation)
    options = {"dtype": dtype, "device": "cpu", "time_of_impact": True, "requires_grad": True, "solver": solver}
    sim, impacts = ws.Simulator(model, len(q), DT, **options), 0
    state = first = sim.state(q, v)
    with wp.Tape() as tape:
        for _ in range(30):
            state = sim.step(state)
            impacts += sim.diagnostics.impacts.numpy().sum()
    S = wp.float32 if dtype == "float32" else wp.float64
    rows = [wp.array(x.repeat(len(q), 0), dtype=S) for x in weights(model)]
    tape.backward(grads=dict(zip((state.q, state.v), rows, strict=True)))
    return np.c_[first.q.grad.numpy(), first.v.grad.numpy()], impacts


@pytest.mark.parametrize("approximation", ["lagged", "convex"])
@pytest.mark.parametrize("name", ["ball", "hopper"])
def test_float32_has_the_gradients_of_float64(name, approximation):
    """Within 1 % of the largest, for a ball that lands and sticks and a hopper: near-rigid friction amplifies rounding."""
    random = np.random.default_rng(0)
    if name == "hopper":
        model = ws.load(ws.robots.path("hopper"))
        q, v = model.q0 + np.zeros((4, 1)) + [0, 0.3, 0, -0.3, -0.5, 0.1], random.normal(size=(4, model.nv))
    else:
        b = ws.ModelBuilder("ball")
        b.add_geom("plane", friction=2.0)
        ball = b.add_body("ball", pose=(0, 0, 0.5, 1, 0, 0, 0))
        b.add_joint(ball, "free")
        b.add_geom("sphere", (0.1,), body=ball, friction=2.0)
        model = b.build()
        q, v = np.repeat(model.q0[None], 4, 0), np.zeros((4, 6))
        q[:, 2], v[:, 0] = random.uniform(0.15, 0.3, 4), 1
    (fine, impacts), (found, same) = (end_gradients(model, q, v, d, approximation) for d in ("float64", "float32"))
    assert impacts == same >= 4
    assert np.abs(found - fine).max() < 1e-2 * np.abs(fine).max()
