# SPDX-License-Identifier: Apache-2.0
"""Derivatives of steps of bodies that spin, in float64 against central differences: `sim.linearize`, the tape, many steps."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.step_differences import StepDifferences

SOLVER = ws.SAP(tolerance=1e-13)
PARAMETERS = ("body_mass", "body_com", "body_inertia", "joint_armature", "gravity", "joint_damping")
TEXT = """<mujoco><worldbody>{floor}<body name="a">{joint}<geom type="box" size=".3 .2 .1" mass="0.0001"/>
    <inertial pos="{com}" mass="0.7" fullinertia="1 2 2.5 0.2 -0.1 0.3"/>{more}</body>{beside}</worldbody></mujoco>"""
WELDED = '<body pos=".3 .1 0" euler="20 30 40"><inertial pos="0.1 0 0" mass="0.3" diaginertia=".1 .2 .25"/></body>'
ARM = """<body pos="2 0 3"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size=".1 .2"/>
    <body pos="0.3 0 0"><joint type="hinge" axis="1 0 0"/><geom type="capsule" size=".05 .2"/></body></body>"""


def scene(joint="<freejoint/>", com="0.4 -.2 .1", more=WELDED, beside="", floor=""):
    return ws.load(
        mujoco.MjModel.from_xml_string(TEXT.format(joint=joint, com=com, more=more, beside=beside, floor=floor))
    )


BALL = '<joint type="ball" pos=".2 .1 0" damping=".2" stiffness="2" armature=".2"/>'
SCENES = {  # model, q or none, v
    "eccentric, two links, beside an arm": (lambda: scene(beside=ARM), None, [1, 2, 3, 20, -30, 10, 1, 2]),
    "in two parts a step, with armature": (
        lambda: scene('<joint type="free" armature=".1" damping=".3"/>'), None, [1, 2, 3, 90, -120, 60]
    ),
    "ball joint with a spring": (lambda: scene(BALL), None, [20, -30, 10]),
    "in contact": (
        lambda: scene(com="0.04 -.02 .01", more="", floor='<geom type="plane" size="3 3 .1"/>'),
        [0, 0, 0.095, 1, 0.02, 0.01, 0.3], [1, 0, -0.5, 6, -5, 20],
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ["closed form", "row by row"])
@pytest.mark.parametrize("name", SCENES)
def test_jacobians(name, way, rng, within):
    """(δq', δv') by q, v, forces and parameters: by closed form, and by the tape of the scheme with implicit stiffness."""
    make, q, v = SCENES[name]
    model, v = make(), np.asarray(v, float)
    q = model.displace(model.q0, 0.3 * rng.normal(size=model.nv)) if q is None else np.asarray(q)
    tape = way != "closed form"
    options = {"dt": 0.01, "solver": SOLVER, "device": "cpu"}
    options["integrator"] = ws.SymplecticEuler(implicit_stiffness=tape)
    sim = ws.Simulator(model, dtype="float64", requires_grad=tape, **options)
    result = sim.linearize(sim.state(q, v), force_jacobian=True, parameters=PARAMETERS)
    errors = StepDifferences(model, q, v, parameters=PARAMETERS, **options).errors(result)
    for key, error in errors.items():
        within(f"{name}, {way}: {key}", error, 1e-7)


def test_jacobians_of_the_midpoint_rule(within):
    """(δq', δv') of a body in contact that the midpoint rule turns by cay(h ω)."""
    make, q, v = SCENES["in contact"]
    options = {"dt": 0.01, "solver": SOLVER, "device": "cpu", "integrator": ws.Midpoint()}
    sim = ws.Simulator(model := make(), dtype="float64", requires_grad=True, **options)
    result = sim.linearize(sim.state(np.asarray(q), np.asarray(v, float)), parameters=("body_inertia",))
    errors = StepDifferences(model, np.asarray(q), v, parameters=("body_inertia",), **options).errors(result)
    for key, error in errors.items():
        within(f"midpoint: {key}", error, 1e-7)


@pytest.mark.parametrize("steps", [1, 10, 40])
def test_gradient_of_many_steps(steps, within):
    """A thrown box that lands: gradient of a functional of the last state by the first one and the masses, along random directions."""
    model = scene(com="0.04 -.02 .01", more="", floor='<geom type="plane" size="3 3 .1"/>')
    rng = np.random.default_rng(5)
    directions, size = 3, 1e-6
    worlds = 1 + 2 * directions
    sim = ws.Simulator(model, worlds, dt=0.005, dtype="float64", solver=SOLVER, requires_grad=True, device="cpu")
    q, v = np.array([0, 0, 0.35, 1, 0.02, 0.01, 0.3]), np.array([1, 0, -1, 12, -10, 25.0])
    moves = size * np.concatenate([np.zeros((1, 12)), (m := rng.normal(size=(directions, 12))), -m])
    masses = 1 + size * np.concatenate([[0], (dm := rng.normal(size=directions)), -dm])
    mass = sim.parameters["body_mass"]
    mass.assign(model.body_mass * masses[:, None])
    state = sim.state(q=model.displace(q, moves[:, :6]), v=v + moves[:, 6:])
    weights = [wp.array(np.tile(rng.normal(size=n), (worlds, 1)), dtype=wp.float64, device="cpu") for n in (7, 6)]
    mass.grad.zero_()
    with wp.Tape() as tape:
        trajectory = sim.rollout(state, steps=steps)
    final = trajectory.final
    tape.backward(grads={final.q: weights[0], final.v: weights[1]})
    loss = (final.q.numpy() * weights[0].numpy()).sum(1) + (final.v.numpy() * weights[1].numpy()).sum(1)
    # the rate of the quaternion along a tangent vector, from the displaced poses themselves
    dq = (state.q.numpy()[1 : 1 + directions] - state.q.numpy()[1 + directions :]) / 2
    slope = dq @ state.q.grad.numpy()[0] + size * (m[:, 6:] @ state.v.grad.numpy()[0])
    slope += size * dm * (mass.grad.numpy()[0] @ model.body_mass)
    found = (loss[1 : 1 + directions] - loss[1 + directions :]) / 2
    assert trajectory.diagnostics["contacts"].numpy().any() or steps < 40
    within(f"{steps} steps", np.abs(slope - found).max() / np.abs(found).max(), 1e-5)
