"""Sensors of models with mocap bodies, spatial tendons, spin of contacts, a medium and adhesion, against MuJoCo in float64."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

MOCAP = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody>
<body name="hook" mocap="true" pos="0 0 1"><geom size=".05" contype="0" conaffinity="0"/><site name="s" pos="0.1 0.2 0"/>
 <body name="bob" pos=".3 0 0"><joint axis="0 1 0"/><geom size=".06" contype="0" conaffinity="0"/><site name="t" pos="0.1 0 0"/></body></body>
</worldbody><sensor><framepos objtype="xbody" objname="hook"/><framepos objtype="site" objname="s"/><framequat objtype="xbody" objname="hook"/>
<framepos objtype="site" objname="t"/><gyro site="s"/><framelinvel objtype="site" objname="t"/></sensor></mujoco>"""


def loaded(text: str) -> tuple[mujoco.MjModel, mujoco.MjData, ws.Model]:
    m = mujoco.MjModel.from_xml_string(text)
    return m, mujoco.MjData(m), ws.load(m)


def poses(model, worlds: int) -> np.ndarray:
    found = np.tile(model.mocap0, (worlds, 1, 1)) + 0.5 * np.random.default_rng(0).normal(
        size=(worlds, model.nmocap, 7)
    )
    found[..., 3:] /= np.linalg.norm(found[..., 3:], axis=-1, keepdims=True)
    return found


def test_frames_on_mocap_bodies():
    """After steps with different poses, each state is read with its own, whatever was stepped since."""
    m, data, model = loaded(MOCAP)
    sim = ws.Simulator(model, 3, dtype="float64", device="cpu")
    given = poses(model, 3)
    state = sim.step(sim.state(None, np.full((3, 1), 0.3)), mocap=given)
    sim.step(state, mocap=poses(model, 3)[::-1].copy())
    found = sim.sensors(state).numpy()
    for w in range(3):
        data.qpos[:], data.qvel[:] = state.q.numpy()[w], state.v.numpy()[w]
        data.mocap_pos[:], data.mocap_quat[:] = given[w, :, :3], given[w, :, 3:]
        mujoco.mj_forward(m, data)
        np.testing.assert_allclose(found[w], data.sensordata, atol=1e-12)


def test_gradient_by_the_poses_of_mocap_bodies():
    """Of weighted sensors by the poses that a step is given, against central differences along directions tangent to the rotations."""
    _, _, model = loaded(MOCAP)
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True)
    given, rng = poses(model, 1), np.random.default_rng(1)
    weights = wp.array(rng.normal(size=(1, model.nsensordata)), dtype=wp.float64, device="cpu")

    def reading(values):
        return float((sim.sensors(sim.step(sim.state(), mocap=values)).numpy() * weights.numpy()).sum())

    mocap = wp.array(given, dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        x = sim.sensors(sim.step(sim.state(), mocap=mocap))
    tape.backward(grads={x: weights})
    gradient = mocap.grad.numpy()
    for _ in range(3):
        along = rng.normal(size=given.shape)
        along[..., 3:] -= given[..., 3:] * (along[..., 3:] * given[..., 3:]).sum(-1, keepdims=True)
        errors = []
        for size in (1e-4, 1e-5, 1e-6):
            slope = (reading(given + size * along) - reading(given - size * along)) / (2 * size)
            errors.append(abs(slope - (gradient * along).sum()))
        assert min(errors) <= 1e-8, errors
