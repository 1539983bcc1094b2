# SPDX-License-Identifier: Apache-2.0
"""actuatorfrc beside a joint's actuatorfrcrange: MuJoCo's sensor reads the actuator's own force, the range clamps what the joint gets."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

ARM = """<mujoco><option gravity="0 0 -3"/><worldbody><body gravcomp=".7" pos="0 0 1"><joint name="h" axis="0 1 0" {h}/>
<geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/><body pos=".5 0 0"><joint name="k" axis="0 1 0" {k}/>
<geom type="capsule" size=".05" fromto="0 0 0 .4 0 0.1"/></body></body></worldbody>
<tendon><fixed name="t" {t}><joint joint="h" coef="-2"/></fixed><fixed name="u"><joint joint="h" coef="1"/><joint joint="k" coef=".5"/></fixed></tendon>
<actuator>{actuators}</actuator><sensor>{sensors}<jointactuatorfrc joint="h"/><jointactuatorfrc joint="k"/><tendonactuatorfrc tendon="t"/>
<tendonactuatorfrc tendon="u"/></sensor></mujoco>"""
ACTUATORS = {
    "motor": ['<motor {n} joint="h" gear="-3"/>'],
    "position of a range": ['<position {n} joint="h" kp="100" kv="2" forcerange="-1 30" gear="2"/>'],
    "tendon": ['<motor {n} tendon="t" gear="3" forcerange="-5 .3"/>'],
    "one each": ['<motor {n} joint="h" gear="3"/>', '<motor {n} joint="k" gear="-.5"/>'],
    "shared": ['<motor {n} tendon="u" gear="3"/>', '<motor {n} joint="h" gear="-.5"/>'],
    "muscle": ['<muscle {n} joint="h" lengthrange="-1 1" force="50" gear="2"/>'],
    "filter": ['<general {n} joint="k" dyntype="filter" dynprm=".1" gainprm="90"/>'],
}
RANGE, SMALL, PULL = (f'actuatorfrcrange="{x}"' for x in ("-2 1.5", "-.3 .2", "-.4 .9"))
RANGES = [(RANGE, "", ""), (RANGE + ' actuatorgravcomp="true"', SMALL, ""), (RANGE, SMALL, PULL)]


def text(actuators, ranges) -> str:
    named = [a.format(n=f'name="a{i}"') for i, a in enumerate(actuators)]
    sensors = [f'<actuatorfrc actuator="a{i}"/>' for i in range(len(actuators))]
    h, k, t = ranges
    return ARM.format(h=h, k=k, t=t, actuators="".join(named), sensors="".join(sensors))


def theirs(model: mujoco.MjModel, seed: int) -> mujoco.MjData:
    """MuJoCo at a random state, most of whose forces are beyond their ranges."""
    rng, data = np.random.default_rng(seed), mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = rng.normal(size=model.nq), rng.normal(size=model.nv)
    data.ctrl[:], data.act[:] = 10 * rng.normal(size=model.nu), rng.uniform(size=model.na)
    mujoco.mj_forward(model, data)
    return data


def ours(model: ws.Model, data: mujoco.MjData, at_state: bool = False) -> np.ndarray:
    sim = ws.Simulator(model, 1, dt=1e-8, device="cpu", dtype="float64", threads=1)
    options = {"activation": data.act.copy()} if model.na else {}
    state, control = sim.state(data.qpos.copy(), data.qvel.copy(), **options), data.ctrl[None].copy()
    return (sim.sensors(state, control) if at_state else sim.sensors(sim.step(state, control))).numpy()[0]


@pytest.mark.parametrize("name", ACTUATORS)
def test_as_mujoco_by_every_kind_of_range(name):
    """Sensors of actuators, joints and tendons, with gears, tendons, forceranges, activations and compensated gravity; and what `to_mjcf` writes reads the same."""
    for seed, ranges in enumerate(RANGES):
        reference = mujoco.MjModel.from_xml_string(text(ACTUATORS[name], ranges))
        data, model = theirs(reference, seed), ws.load(reference)
        np.testing.assert_allclose(ours(model, data), data.sensordata, rtol=1e-5, atol=1e-6)
        again = mujoco.MjModel.from_xml_string(model.to_mjcf())
        written = theirs(again, seed)
        np.testing.assert_allclose(written.sensordata, data.sensordata, rtol=1e-6)
        np.testing.assert_allclose(written.qfrc_actuator, data.qfrc_actuator, rtol=1e-6)


def test_at_a_state_and_after_every_way_of_keeping_a_model(tmp_path):
    """`sensors(state, control)` reads the same; a model in a builder, a USD file and a trajectory's store keeps the actuators' own ranges."""
    reference = mujoco.MjModel.from_xml_string(text(ACTUATORS["one each"], (RANGE, SMALL, "")))
    data, model = theirs(reference, 5), ws.load(reference)
    np.testing.assert_allclose(ours(model, data, at_state=True), data.sensordata, rtol=1e-12)
    builder = ws.ModelBuilder()
    builder.add_model(model)
    sim = ws.Simulator(model, 1, device="cpu", threads=1)
    sim.rollout(sim.state(), steps=1).save(tmp_path / "run.zarr")
    kept = [builder.build(), ws.Trajectory.load(tmp_path / "run.zarr").model]
    if pytest.importorskip("pxr"):
        model.to_usd(tmp_path / "arm.usda")
        kept.append(ws.load(tmp_path / "arm.usda"))
    for other in kept:
        assert np.array_equal(other.actuator_own_range, model.actuator_own_range, equal_nan=True)
        np.testing.assert_allclose(ours(other, data), data.sensordata, rtol=1e-5)


def test_its_derivative_is_of_the_force_that_it_reads():
    """d(actuatorfrc)/d(control) is the gain where the joint gets no more: central differences in float64."""
    reference = mujoco.MjModel.from_xml_string(text(ACTUATORS["position of a range"], RANGES[0]))
    sim = ws.Simulator(ws.load(reference), 1, dt=1e-3, device="cpu", dtype="float64", requires_grad=True, threads=1)
    state = sim.state([0.3, 0.1], [0.2, -0.3])

    def read(u):
        return sim.sensors(sim.step(state, np.array([[u]]))).numpy()[0, 0]

    control = wp.array([[0.75]], dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        found = sim.sensors(sim.step(state, control))
    seed = np.zeros(found.shape)
    seed[0, 0] = 1.0
    tape.backward(grads={found: wp.array(seed, dtype=wp.float64, device="cpu")})
    slope = (read(0.75 + 1e-6) - read(0.75 - 1e-6)) / 2e-6
    np.testing.assert_allclose(control.grad.numpy()[0, 0], slope, rtol=1e-7)
    assert slope > 1.0
