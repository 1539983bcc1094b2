# SPDX-License-Identifier: Apache-2.0
"""What spatial tendons do to bodies is no part of what their joints bear: forces, torques and reactions against MuJoCo, and gradients."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

BODIES = """<site name="top" pos="0.1 0 2"/><body name="a" pos="0 0 1">{joint}<geom size=".1" pos=".1 .1 .1"/><site name="sa" pos=".1 .2 0" euler="10 20 30"/>
<geom name="drum" type="cylinder" size=".04 .2" pos=".2 0 .1" euler="80 10 0"/><site name="side" pos=".2 0.02 .3"/>
<body name="b" pos=".4 0 .1"><joint name="k" axis="0 1 .3" damping="{damping}"/><geom name="ball" size=".07" pos=".1 0 0"/><site name="sb" pos=".1 .1 .1"/></body></body>"""
JOINTS = {"fixed": '<joint name="j" axis="1 .2 0" damping="{damping}"/>', "free": "<freejoint/>"}
SENSORS = "".join(f'<force site="{s}"/><torque site="{s}"/>' for s in ("sa", "sb")) + '<force site="top"/>'
PATHS = {
    "two": '<site site="top"/><site site="sb"/>',
    "within": '<site site="sa"/><site site="sb"/>',
    "pulley": '<site site="top"/><site site="sa"/><site site="sb"/><pulley divisor="3"/><site site="top"/><site site="sb"/>',
    "drum": '<site site="top"/><geom geom="drum" sidesite="side"/><site site="sb"/>',
    "ball": '<site site="top"/><site site="sa"/><geom geom="ball"/><site site="sb"/>',
}
PULLS = {
    "spring": ('stiffness="30" springlength=".1" damping=".2"', ""),
    "motor": ("", '<motor tendon="t" gear="2"/>'),
    "servo": ("", '<position tendon="t" kp="9" kv=".5" gear="2" forcerange="-20 20"/>'),
    "muscle": ("", '<muscle tendon="t" force="20" lengthrange=".2 2"/>'),
}


def text(base, path, pull, timestep=1e-6, damping=0, more=""):
    line, actuator = pull
    body = BODIES.format(joint=JOINTS[base].format(damping=damping), damping=damping)
    return f"""<mujoco><option timestep="{timestep}"><flag contact="disable"/></option><worldbody>{body}</worldbody>
    <tendon><spatial name="t" {line}>{PATHS[path]}</spatial><spatial name="u">{PATHS["two"]}</spatial></tendon>{more}
    <actuator>{actuator}</actuator><sensor>{SENSORS}</sensor></mujoco>"""


def reactions(m, data):
    """MuJoCo's cfrc_int about the origins of the bodies."""
    found = []
    for b in range(1, m.nbody):
        torque, force = data.cfrc_int[b, :3], data.cfrc_int[b, 3:]
        arm = data.subtree_com[m.body_rootid[b]] - data.xpos[b]
        found.append(np.r_[torque + np.cross(arm, force), force])
    return np.array(found)


@pytest.mark.parametrize("pull", PULLS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("base", JOINTS)
def test_joints_bear_what_mujocos_bear(base, path, pull):
    """In motion, in a step so short that what is implicit is not seen."""
    m = mujoco.MjModel.from_xml_string(text(base, path, PULLS[pull]))
    data, rng = mujoco.MjData(m), np.random.default_rng(1)
    mujoco.mj_integratePos(m, data.qpos, 0.3 * rng.normal(size=m.nv), 1)
    data.qvel, data.ctrl, data.act = rng.normal(size=m.nv), 0.7, 0.4
    mujoco.mj_forward(m, data)
    sim = ws.Simulator(ws.load(m), dtype="float64", device="cpu", reactions=True)
    start = sim.state(data.qpos, data.qvel, **({"activation": data.act} if m.na else {}))
    state = sim.step(start, data.ctrl[None] if m.nu else None)
    scale = np.abs(data.sensordata).max()
    assert np.abs(data.ten_length).min() > 0.05 and scale > 0.5
    np.testing.assert_allclose(sim.sensors(state).numpy()[0], data.sensordata, atol=2e-5 * scale)
    np.testing.assert_allclose(sim.joint_reaction(state).numpy()[0], reactions(m, data), atol=2e-5 * scale)


@pytest.mark.parametrize(
    "line, more",
    [
        ('limited="true" range="0 1.2"', ""),
        ("", '<equality><tendon tendon1="t" polycoef="0 1 0 0 0" solref=".004 1"/></equality>'),
        ("", '<equality><tendon tendon1="u" tendon2="t" polycoef="-.1 .8 .2 0 0" solref=".004 1"/></equality>'),
    ],
    ids=["stop", "fixed", "coupled"],
)  # fmt: skip
def test_stops_and_couplings_at_rest(line, more):
    """Where the string or the coupling bears the load."""
    m = mujoco.MjModel.from_xml_string(text("fixed", "drum", (line, ""), 0.002, 3, more))
    data = mujoco.MjData(m)
    sim = ws.Simulator(ws.load(m), dtype="float64", device="cpu")
    state = sim.state()
    for _ in range(3000):
        mujoco.mj_step(m, data)
        state = sim.step(state)
    mujoco.mj_forward(m, data)
    assert np.abs(data.efc_force).max() > 5
    np.testing.assert_allclose(
        sim.sensors(state).numpy()[0], data.sensordata, atol=0.02 * np.abs(data.sensordata).max()
    )


@pytest.mark.parametrize("steps", [1, 10, 40])
@pytest.mark.parametrize("pull", PULLS)
def test_gradients(pull, steps, within):
    """Of weighted forces and torques by q0, v0 and controls, round a drum and over pulleys, against central differences."""
    more = '<equality><tendon tendon1="u" tendon2="t" polycoef="-.1 .8 .2 0 0" solref=".1 1"/></equality>'
    m = mujoco.MjModel.from_xml_string(text("fixed", "drum", PULLS[pull], 0.002, 0, more))
    model, rng = ws.load(m), np.random.default_rng(2)
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True)
    weights = wp.array(rng.normal(size=(1, model.nsensordata)), dtype=wp.float64, device="cpu")
    x0 = [0.2 * rng.normal(size=2), rng.normal(size=2), 0.5 + 0.1 * rng.normal(size=model.nu)]

    def run(x):
        start = sim.state(x[0], x[1], **({"activation": [0.4]} if m.na else {}))
        control = wp.array(np.tile(x[2], (1, 1)), dtype=wp.float64, device="cpu", requires_grad=True)
        state = start
        for _ in range(steps):
            state = sim.step(state, control if model.nu else None)
        return start, control, sim.sensors(state)

    with wp.Tape() as tape:
        start, control, found = run(x0)
    tape.backward(grads={found: weights})
    gradient = [start.q.grad, start.v.grad, *([control.grad] if model.nu else [])]
    worst = 0.0
    for k, by in enumerate(gradient):
        direction = rng.normal(size=x0[k].shape)
        expected = float(by.numpy()[0] @ direction)

        def at(s, k=k, direction=direction):
            return float(
                (run([x + s * direction if i == k else x for i, x in enumerate(x0)])[2].numpy() * weights.numpy()).sum()
            )

        slopes = [(at(s) - at(-s)) / (2 * s) for s in (1e-4, 1e-5, 1e-6)]
        worst = max(worst, min(abs(s - expected) for s in slopes) / max(1.0, abs(expected)))
    within("forces beside strings: gradients against differences, relative", worst, 1e-6)
