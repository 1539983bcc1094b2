# SPDX-License-Identifier: Apache-2.0
"""The potential energy has the springs of tendons: ½ K δ², δ the length beyond the slack interval, as MuJoCo's; and what a reset does to the flags."""

import mujoco
import numpy as np
import pytest

import warpsim as ws

SCENE = """<mujoco><option gravity="0 0 -2"><flag energy="enable" contact="disable"/></option><worldbody><site name="a" pos="0 0 1"/>
<geom name="drum" type="cylinder" size=".05 .2" pos=".25 0 .9" euler="90 0 0"/><site name="side" pos=".25 0 1.2"/>
<body pos=".5 0 1"><joint name="s" type="slide" axis="1 0 0" stiffness="7"/><geom size=".05" mass="1"/><site name="b"/>
<body pos="0 0 -.3"><joint name="h" axis="0 1 0" damping=".1"/><geom size=".05" mass=".5" pos="0 0 -.1"/></body></body>
<body pos="0 1 0"><freejoint/><geom size=".1" mass="1"/></body></worldbody><tendon>{}</tendon><sensor><e_potential/></sensor></mujoco>"""
SITES = '<site site="a"/><site site="b"/>'
TENDONS = {
    "spatial": f'<spatial stiffness="100" springlength=".2">{SITES}</spatial>',
    "wrapped": '<spatial stiffness="80" springlength=".3"><site site="a"/><geom geom="drum" sidesite="side"/><site site="b"/></spatial>',
    "fixed": '<fixed stiffness="50" springlength=".2"><joint joint="s" coef="2"/><joint joint="h" coef="-.3"/></fixed>',
    "deadband": '<fixed stiffness="60" springlength="-.05 .1"><joint joint="s" coef="1"/></fixed>'
    f'<spatial stiffness="90" springlength=".3 .55" damping="1">{SITES}</spatial>',
    "none": '<fixed range="-1 1"><joint joint="s" coef="1"/></fixed>',
}
INTEGRATORS = {"default": ws.SymplecticEuler, "implicit": ws.ImplicitEuler, "variational": ws.Variational}
POSITIONS = np.array([[-0.2, 0.4], [0.02, 0.1], [0.3, -0.5]])


def theirs(reference) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of three worlds, velocities, and MuJoCo's (potential, kinetic) energy there."""
    data, found = mujoco.MjData(reference), []
    data.qvel[:] = np.arange(8) / 10
    for data.qpos[:2] in POSITIONS:
        mujoco.mj_forward(reference, data)
        found.append((data.qpos.copy(), data.energy.copy()))
    return np.array([q for q, _ in found]), data.qvel.copy(), np.array([e for _, e in found])


@pytest.mark.parametrize("name", TENDONS)
def test_energy_is_mujocos(name):
    """`sim.energy`, `diagnostics.energy` of a step and the sensor, in the fused step (tendons on joints) and beside it."""
    reference = mujoco.MjModel.from_xml_string(SCENE.format(TENDONS[name]))
    q, v, energy = theirs(reference)
    sim = ws.Simulator(ws.load(reference), 3, dt=1e-3, device="cpu", dtype="float64", threads=1)
    state = sim.state(q, np.tile(v, (3, 1)))
    kinetic, potential = (x.numpy() for x in sim.energy(state))
    np.testing.assert_allclose(potential, energy[:, 0], rtol=1e-9)
    np.testing.assert_allclose(kinetic, energy[:, 1], rtol=1e-9)
    np.testing.assert_allclose(sim.sensors(state).numpy()[:, 0], energy[:, 0], rtol=1e-9)
    for _ in range(3):  # launched, then replayed
        sim.step(state)
        np.testing.assert_allclose(sim.diagnostics.energy.numpy(), energy.sum(1), rtol=1e-9)
    assert (sim._step.fused is not None) == (name in ("fixed", "none"))


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_every_integrator_reports_it(integrator):
    """In float32, with another stiffness in each world: the energy that a rollout records is that of its states."""
    model = ws.load(mujoco.MjModel.from_xml_string(SCENE.format(TENDONS["deadband"])))
    sim = ws.Simulator(model, 3, dt=1e-3, integrator=INTEGRATORS[integrator](), device="cpu", threads=1)
    plain = sim.energy(sim.state(np.append(POSITIONS[0], model.q0[2:])))[1].numpy()
    sim.parameters["tendon_stiffness"] = np.array([[60.0, 90.0], [0.0, 0.0], [120.0, 180.0]])
    start = sim.state(np.append(POSITIONS[0], model.q0[2:]))
    found = sim.energy(start)[1].numpy()
    np.testing.assert_allclose(plain, found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2] - found[0], found[0] - found[1], rtol=1e-5)
    assert found[0] - found[1] > 0.5
    trajectory = sim.rollout(start, steps=4)
    for row in range(4):
        state = sim.state(trajectory.q.numpy()[row], trajectory.v.numpy()[row])
        energy = sum(x.numpy() for x in sim.energy(state))
        if integrator != "variational":  # whose velocities are not those of its momentum
            np.testing.assert_allclose(trajectory.diagnostics["energy"].numpy()[row], energy, rtol=1e-5)
    np.testing.assert_allclose(
        trajectory.diagnostics["energy"].numpy()[0], sum(x.numpy() for x in sim.energy(start)), rtol=1e-5
    )


def test_an_oscillator_keeps_its_energy():
    """A mass on the spring of a fixed tendon: ½ m v² + ½ K x² falls by (hω)² in a step, as the row of the spring is implicit, and is not the kinetic energy alone."""
    b = ws.ModelBuilder("oscillator", gravity=[0, 0, 0])
    b.add_joint(b.add_body("mass", mass=2.0, inertia=[1.0, 1.0, 1.0]), "slide", axis=[1, 0, 0], name="rail")
    b.add_tendon({"rail": 1.0}, stiffness=200.0)
    sim = ws.Simulator(b.build(), 1, dt=1e-4, device="cpu", dtype="float64", threads=1)
    energy = sim.rollout(sim.state([0.1]), steps=3000).diagnostics["energy"].numpy()[:, 0]
    np.testing.assert_allclose(energy, np.exp(-1e-6 * np.arange(3000)), rtol=1e-3)


def test_flags_are_down_after_a_reset():
    """`diagnostics.flags` of the worlds that were reset are 0, also where the mask is not read by the host and in a capture; others keep theirs."""
    b = ws.ModelBuilder("cart")
    b.add_joint(b.add_body("cart", mass=1e-4, inertia=[1.0, 1.0, 1.0]), "slide", name="rail")
    sim = ws.Simulator(b.build(), 4, device="cpu", dtype="float64", threads=1)
    state = sim.state()
    sim.step(state, tau=np.full((4, 1), 1e308), out=state)
    assert (sim.diagnostics.flags.numpy() == ws.NONFINITE).all()
    sim.reset(state, [1, 2])
    assert sim.diagnostics.flags.numpy().tolist() == [ws.NONFINITE, 0, 0, ws.NONFINITE]
    assert state.memory["flags"].numpy().tolist() == sim.diagnostics.flags.numpy().tolist()
    sim.step(state, out=state)
    assert sim.diagnostics.flags.numpy().tolist() == [ws.NONFINITE, 0, 0, ws.NONFINITE]
    sim.reset(state, np.ones(4, bool))
    assert not sim.diagnostics.flags.numpy().any()
