# SPDX-License-Identifier: Apache-2.0
"""Gradients of MuJoCo's integrators: against centered differences of MuJoCo's steps, and of our own in float64."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks.corpus.starts import place, random_states, state_of
from tests.integrate.test_mujoco_schemes import SCENE

MEDIUM = 'density="20" viscosity="0.3" wind="0.3 0 0"'
SCHEMES = {"Euler": ws.MuJoCoEuler(), "implicitfast": ws.MuJoCoImplicitFast()}
every_scheme = pytest.mark.parametrize("name", SCHEMES)
WORLDS = 4


def model(name: str) -> mujoco.MjModel:
    m = mujoco.MjModel.from_xml_string(SCENE if name == "Euler" else SCENE.replace(MEDIUM, ""))
    m.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{name.upper()}")
    return m


def simulator(m: mujoco.MjModel, name: str, solver: ws.NoContact) -> ws.Simulator:
    options = {"dtype": "float64", "device": "cpu", "requires_grad": True}
    return ws.Simulator(ws.load(m), WORLDS, solver=solver, integrator=SCHEMES[name], **options)


def differences(m: mujoco.MjModel, states, k: int) -> tuple[np.ndarray, np.ndarray]:
    """∂(q', v', activation')/∂(q, v, activation) and by the controls, by `mjd_transitionFD`."""
    data = mujoco.MjData(m)
    place(data, states, k)
    n = 2 * m.nv + m.na
    A, B = np.zeros((n, n)), np.zeros((n, m.nu))
    mujoco.mjd_transitionFD(m, data, 1e-6, 1, A, B, None, None)
    return A, B


@every_scheme
def test_jacobians_are_those_of_mujocos_step(within, name):
    """`linearize` through the reverse passes: rows of positions, velocities and activations, columns of controls."""
    m = model(name)
    states = random_states(m, WORLDS)
    states["v"][WORLDS // 2 :] *= 3.0
    sim = simulator(m, name, ws.NoContact())
    found = sim.linearize(state_of(sim, states), states["control"])
    for k in range(WORLDS):
        A, B = differences(m, states, k)
        within(f"A of world {k}", np.abs(found.A.numpy()[k] - A).max() / np.abs(A).max(), 1e-7)
        within(f"B of world {k}", np.abs(found.B.numpy()[k] - B).max() / np.abs(B).max(), 1e-7)


@every_scheme
def test_gradients_are_those_of_differences(name):
    """Tapes of one and ten steps, by states, controls and the parameters in M, C and the forces."""
    m = model(name)
    sim = simulator(m, name, ws.NoContact(limits=ws.SAP(tolerance=1e-13)))
    states = random_states(m, WORLDS)
    names = ("joint_damping", "tendon_damping", "tendon_stiffness", "actuator_bias", "body_inertia", "muscle_force")
    controls = np.tile(0.6 * states["control"], (10, 1, 1))
    check = ws.check_gradients(
        sim, state_of(sim, states), controls, parameters=names, horizons=(1, 10), entries=3, tolerance=1e-6
    )
    assert check.ok, check


@every_scheme
def test_sensors_have_gradients(within, name):
    """Force and acceleration sensors, with tensions of tendons that have no row, along a random direction of the controls."""
    xml = SCENE if name == "Euler" else SCENE.replace(MEDIUM, "")
    sensors = '<sensor><accelerometer site="s2"/><force site="s1"/><torque site="s2"/></sensor></mujoco>'
    m = mujoco.MjModel.from_xml_string(xml.replace("</mujoco>", sensors))
    sim, states = simulator(m, name, ws.NoContact()), random_states(m, WORLDS)
    rng = np.random.default_rng(5)
    weights, along = rng.normal(size=(WORLDS, 9)), rng.normal(size=(WORLDS, m.nu))

    def read(u):
        return sim.sensors(sim.step(state_of(sim, states), u))

    u = wp.array(states["control"], dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        readings = read(u)
    tape.backward(grads={readings: wp.array(weights, dtype=wp.float64, device="cpu")})
    up, down = (read(states["control"] + size * along).numpy() for size in (1e-6, -1e-6))
    difference = float(((up - down) * weights).sum() / 2e-6)
    within("gradient", abs(float((u.grad.numpy() * along).sum()) / difference - 1.0), 1e-7)


def test_a_medium_is_refused():
    """The derivatives of a medium's forces have no gradient."""
    m = mujoco.MjModel.from_xml_string(SCENE)
    with pytest.raises(ValueError, match=r"MuJoCoImplicitFast\(\) has no gradients in a medium; use ws.MuJoCoEuler"):
        simulator(m, "implicitfast", ws.NoContact())
