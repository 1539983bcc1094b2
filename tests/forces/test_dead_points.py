# SPDX-License-Identifier: Apache-2.0
"""Strings, springs and actuators that move nothing now, or never: MuJoCo's accelerations, gradients, and no throw by rounding."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

SOLVERS = [ws.SAP(), ws.SAP(approximation="convex"), ws.LCP(), ws.Compliant(), ws.NoContact()]
PENDULUM = """<mujoco><option timestep="1e-6"/><worldbody><site name="top" pos="0 0 1"/><site name="side" pos="0.3 0 1"/>
<body><joint axis="0 1 0"/><geom size=".1" pos="0 0 -.3"/><site name="end" pos="0 0 -.3"/><site name="on" pos="{axis} 0 0"/></body>
<body pos="2 0 0"><joint axis="0 1 0"/><geom size=".1" pos=".1 0 0"/></body></worldbody>{rest}</mujoco>"""
STRING = '<tendon><spatial name="t" {}><site site="top"/><site site="end"/></spatial></tendon>'
SERVO = '<actuator><position tendon="t" kp="40" kv="1"/></actuator>'
KINDS = {"spring": STRING.format('stiffness="30" springlength=".2" damping="1"'), "servo": STRING.format("") + SERVO}
KINDS["couple"] = '<actuator><position site="on" refsite="side" gear="1 2 3 0 0 0" kp="30" kv="1"/></actuator>'


def acceleration(text, solver=None, dtype="float64"):
    """Ours and MuJoCo's from rest at q0."""
    m = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    sim = ws.Simulator(ws.load(m), dtype=dtype, device="cpu", solver=solver)
    state = sim.step(sim.state())
    assert not sim.diagnostics.flags.numpy().any()
    return state.v.numpy()[0] / sim.dt, data.qacc


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda x: f"{type(x).__name__}-{getattr(x, 'approximation', None)}")
def test_no_moment_arm_beside_another_tree(solver, kind):
    """What has no moment arm at q0 does nothing there, and its world goes on."""
    found, expected = acceleration(PENDULUM.format(axis=0, rest=KINDS[kind]), solver)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["spring", "servo"])
def test_gradient_where_a_string_runs_through_the_axis(kind):
    """∂v'/∂q there is that of the moment arm, which is 0 itself: central differences."""
    model = ws.load(mujoco.MjModel.from_xml_string(PENDULUM.format(axis=0, rest=KINDS[kind])))
    sim = ws.Simulator(model, dtype="float64", dt=0.002, device="cpu", requires_grad=True)
    control = np.full((1, model.nu), 0.3)

    def velocity(q):
        return sim.step(sim.state(q=[q, 0.0]), control).v.numpy()[0, 0]

    start = sim.state()
    with wp.Tape() as tape:
        end = sim.step(start, control)
    tape.backward(grads={end.v: wp.array([[1.0, 0.0]], dtype=wp.float64, device="cpu")})
    expected = (velocity(1e-6) - velocity(-1e-6)) / 2e-6
    np.testing.assert_allclose(start.q.grad.numpy()[0, 0], expected, rtol=1e-7)
    np.testing.assert_allclose(sim.linearize(sim.state(), control).A.numpy()[0, 2, 0], expected, rtol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stop_with_a_moment_arm_of_rounding(dtype):
    """A string beyond its range whose moment arm is what rounding leaves of 0 does not throw the joint, as MuJoCo's does not."""
    string = '<tendon><spatial limited="true" range="0 .5"><site site="top"/><site site="on"/></spatial></tendon>'
    arm = 2.0 * np.finfo(dtype).eps
    found, expected = acceleration(PENDULUM.format(axis=arm, rest=string), dtype=dtype)
    assert np.abs(found - expected).max() <= 1e-3 and np.abs(expected).max() < 100


@pytest.mark.parametrize(
    "rest",
    [
        '<tendon><spatial name="t" stiffness="3" limited="true" range="0 .1"><site site="top"/><site site="side"/></spatial></tendon>' + SERVO,
        '<actuator><position site="end" refsite="on" gear="1 2 3 0 0 0" kp="30" kv="1" forcerange="-1 1"/></actuator>',
        '<actuator><general cranksite="top" slidersite="side" cranklength=".5" biastype="affine" biasprm="0 -1 0"/></actuator>',
    ],
    ids=["string", "site", "crank"],
)  # fmt: skip
def test_between_what_never_moves(rest):
    """A string or an actuator that can move nothing: no row, and the motion is MuJoCo's."""
    found, expected = acceleration(PENDULUM.format(axis=0.1, rest=rest))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
