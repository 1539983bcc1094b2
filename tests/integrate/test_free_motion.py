# SPDX-License-Identifier: Apache-2.0
"""Motion without contact: conserved quantities, exact discrete solutions and the order of symplectic Euler."""

import itertools

import numpy as np
import pytest

import warpsim as ws
from scenes.bodies import EPSILON, GRAVITY, body_on_plane, cart, pendulum, quaternion_matrix, tumbling_chain

DTYPES = ("float64", "float32")
STEP = 0.02  # [s], halved by substeps
HALVINGS = (4, 8, 16, 32)


@pytest.fixture(scope="module")
def tumbling(device):
    """The floating chain without gravity in 8 worlds, thrown with random velocities, and its runs over 1 s: the
    simulator, {substeps: trajectory}."""
    sim = ws.Simulator(tumbling_chain(), worlds=8, dt=STEP, solver=ws.NoContact(), device=device, dtype="float64")
    v = np.random.default_rng(5).normal(size=(8, sim.model.nv))
    v[:, -1] *= 0.2
    state = sim.state(v=v)
    return sim, {n: sim.rollout(state, steps=round(1.0 / STEP), substeps=n) for n in HALVINGS}


def order(errors) -> float:
    """Slope of log(error) over log(h) for steps halved from one error to the next, by least squares."""
    return -np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0]


def energies(sim, trajectory) -> np.ndarray:
    """(rows, worlds) total energy by the public query."""
    q, v = trajectory.q.numpy(), trajectory.v.numpy()
    pairs = [sim.energy(sim.state(a, b)) for a, b in zip(q, v, strict=True)]
    return np.array([kinetic.numpy() + potential.numpy() for kinetic, potential in pairs])


def momentum(sim, q, v) -> np.ndarray:
    """(worlds, 6) linear and angular momentum about the world's origin, summed body by body from the Jacobians."""
    model, total = sim.model, 0.0
    poses = sim.kinematics(q).numpy()
    for b in range(model.nbody):
        J = sim.jacobian(q, b, model.body_com[b]).numpy()
        twist = np.einsum("wij,wj->wi", J, v)
        R = quaternion_matrix(poses[:, b, 3:])
        com = poses[:, b, :3] + R @ model.body_com[b]
        p = model.body_mass[b] * twist[:, 3:]
        spin = np.einsum("wij,jk,wlk,wl->wi", R, model.body_inertia[b], R, twist[:, :3])
        total = total + np.concatenate([p, spin + np.cross(com, p)], axis=1)
    return total


def test_energy_drift_of_a_tumbling_chain_is_first_order(tumbling, within):
    """Symplectic Euler is of order 1: the worst energy error over 1 s halves with the step (fitted order 1 +- 0.1)."""
    sim, runs = tumbling
    errors = []
    for trajectory in runs.values():
        E = energies(sim, trajectory)
        errors.append(np.max(np.abs(E - E[0]) / E[0]))
    within("energy drift of the tumbling chain: |order - 1|", abs(order(errors) - 1.0), 0.1)
    within(f"energy drift of the tumbling chain at h = {STEP / HALVINGS[-1]:g} s", errors[-1], 0.02)


def test_recorded_energy_is_that_of_the_state_the_step_began_from(tumbling):
    """`diagnostics["energy"]` of row t belongs to the state before the last substep; with substeps = 1 to row t."""
    sim, _ = tumbling
    trajectory = sim.rollout(sim.state(v=np.ones(sim.model.nv)), steps=5)
    expected = energies(sim, trajectory)[:-1]
    np.testing.assert_allclose(trajectory.diagnostics["energy"].numpy(), expected, rtol=1e-12)


def test_momentum_of_a_floating_chain_drifts_at_first_order(tumbling, within):
    """Without external forces linear and angular momentum are conserved by the motion, by the scheme to order 1.

    The discrete law M(q0)(v1 - v0) = -h c conserves them at frozen q0 exactly; moving q0 to q1 is the error, O(h)."""
    sim, runs = tumbling
    drift = []
    for trajectory in runs.values():
        q, v = trajectory.q.numpy(), trajectory.v.numpy()
        start, end = momentum(sim, q[0], v[0]), momentum(sim, q[-1], v[-1])
        drift.append(np.abs(end - start).max(axis=0) / np.linalg.norm(start, axis=1).max())
    drift = np.array(drift)
    linear, angular = drift[:, :3].max(axis=1), drift[:, 3:].max(axis=1)
    within("momentum drift, linear: |order - 1|", abs(order(linear) - 1.0), 0.2)
    within("momentum drift, angular: |order - 1|", abs(order(angular) - 1.0), 0.2)
    within("momentum drift at the finest step", drift[-1].max(), 0.02)


def test_one_step_conserves_momentum_at_frozen_configuration(tumbling, within):
    """M(q0) v1 = M(q0) v0 - h c(q0, v0) - h K dq: no force or torque on the whole beyond the inertial ones; exact."""
    sim, _ = tumbling
    state = sim.state(v=np.random.default_rng(6).normal(size=(8, sim.model.nv)))
    q, v = state.q.numpy(), state.v.numpy()
    M, c = sim.mass_matrix(q).numpy(), sim.inverse_dynamics(q, v, np.zeros(sim.model.nv)).numpy()
    v_next = sim.step(state).v.numpy()
    residual = np.einsum("wij,wj->wi", M, v_next - v) + STEP * c
    within("momentum balance of one step", np.abs(residual).max() / np.abs(STEP * c).max(), 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_spinning_ball_keeps_its_momentum(device, dtype, within):
    """A ball has no gyroscopic torque: v and omega stay what they were, to round-off, for 1,000 steps."""
    model = body_on_plane("sphere", [0.1], floor=False, height=1.0)
    sim = ws.Simulator(model, dt=0.01, device=device, dtype=dtype)
    sim.parameters["gravity"] = [0.0, 0.0, 0.0]
    v = np.array([1.0, -2.0, 0.5, 3.0, -1.0, 2.0])
    final = sim.rollout(sim.state(v=v), steps=1000).v.numpy()[-1, 0]
    # Each step adds 0 up to a rounding error of the gyroscopic cross product.
    within(f"{dtype} spinning ball: drift of v", np.abs(final - v).max(), 1000 * 20 * EPSILON[dtype])


def test_free_body_turns_at_second_order(device, within):
    """Euler's equations of a box thrown about a generic axis: R I omega stays, omega at a time is of order 2."""
    model = body_on_plane("box", [0.3, 0.2, 0.1], floor=False, height=1.0)
    sim = ws.Simulator(model, dt=STEP, device=device, dtype="float64")
    sim.parameters["gravity"] = [0.0, 0.0, 0.0]
    I = model.body_inertia[0]
    omega = np.array([2.0, 3.0, -1.0])
    ends = []
    for n in HALVINGS:
        trajectory = sim.rollout(sim.state(v=[0, 0, 0, *omega]), steps=50, substeps=n)
        R = quaternion_matrix(trajectory.q.numpy()[-1, 0, 3:])
        ends.append(trajectory.v.numpy()[-1, 0, 3:])
        error = np.linalg.norm(R @ I @ ends[-1] - I @ omega) / np.linalg.norm(I @ omega)
        within("angular momentum of a thrown box", error, 1e-12)
    halving = [np.linalg.norm(coarse - fine) for coarse, fine in itertools.pairwise(ends)]
    within("velocity of a thrown box: |order - 2|", abs(order(halving) - 2.0), 0.1)
    norm = np.linalg.norm(trajectory.q.numpy()[:, 0, 3:], axis=1)
    within("unit quaternion after 1600 steps", np.abs(norm - 1.0).max(), 1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_free_fall_is_the_exact_discrete_solution(device, dtype, within):
    """v_n = v0 - n h g and z_n = z0 + n h v0 - h^2 g n (n + 1) / 2: the sums of symplectic Euler, to round-off."""
    h, n, z0, v0 = 0.01, 200, 10.0, 3.0
    sim = ws.Simulator(body_on_plane("box", [0.1] * 3, floor=False, height=z0), dt=h, device=device, dtype=dtype)
    trajectory = sim.rollout(sim.state(v=[1.0, 0, v0, 0, 0, 0]), steps=n)
    k = np.arange(n + 1)
    z, v = trajectory.q.numpy()[:, 0, 2], trajectory.v.numpy()[:, 0, 2]
    within(f"{dtype} free fall: v", np.abs(v - (v0 - k * h * GRAVITY)).max(), n * 20 * EPSILON[dtype])
    exact = z0 + k * h * v0 - h * h * GRAVITY * k * (k + 1) / 2
    within(f"{dtype} free fall: z", np.abs(z - exact).max(), n * 20 * EPSILON[dtype])
    np.testing.assert_allclose(trajectory.q.numpy()[:, 0, 0], k * h, atol=n * 2 * EPSILON[dtype])
    np.testing.assert_allclose(trajectory.time.numpy()[:, 0], k * h, rtol=1e-13)  # float64 in either dtype


@pytest.mark.parametrize("damping", [0.0, 0.3, 1e4])
def test_pendulum_with_damping_is_the_implicit_formula(device, damping, within):
    """v* = v0 + h (M + h D)^-1 (k - D v0), k = -m g l sin q: one step exactly, from stiff damping too (h D = 200 M)."""
    m, l, h = 2.0, 0.5, 0.01
    sim = ws.Simulator(pendulum(mass=m, length=l, damping=damping), dt=h, device=device, dtype="float64")
    q, v = 0.7, 1.3
    state = sim.step(sim.state([q], [v]))
    M = m * l * l + 1e-9
    expected = v + h * (-m * GRAVITY * l * np.sin(q) - damping * v) / (M + h * damping)
    within(f"pendulum with damping {damping:g}", abs(state.v.numpy()[0, 0] - expected), 1e-12)
    np.testing.assert_allclose(state.q.numpy()[0, 0], q + h * expected, rtol=1e-13)


def test_step_formula_with_springs_dampers_and_actuators(device, assets, rng, within):
    """The same formula on a whole robot, from public queries: (M + hD)(v* - v0) = h (tau - K dq - D v0 - c).

    The half-cheetah has springs, dampers and armature; away from its stops and the floor nothing else acts."""
    model = ws.load(assets("half_cheetah"))
    sim = ws.Simulator(model, worlds=4, solver=ws.NoContact(), device=device, dtype="float64")
    middle = np.where(model.joint_limited, model.joint_range.mean(axis=1), 0.0)
    q = middle + 0.05 * rng.normal(size=(4, model.nq))
    v, control = 0.1 * rng.normal(size=(4, model.nv)), rng.uniform(-1, 1, size=(4, model.nu))
    v_next = sim.step(sim.state(q, v), control).v.numpy()
    M, c = sim.mass_matrix(q).numpy(), sim.inverse_dynamics(q, v, np.zeros(model.nv)).numpy()
    D, K, h = np.diag(model.joint_damping), model.joint_stiffness, sim.dt
    force = -K * (q - model.joint_reference)
    dofs = model.joint_v[model.actuator_joint]
    force[:, dofs] += model.actuator_gear[:, 0] * control
    expected = v + h * np.linalg.solve(M + h * D, (force - v @ D - c)[..., None])[..., 0]
    within("half-cheetah: free motion of one step", np.abs(v_next - expected).max() / np.abs(expected).max(), 1e-11)


def test_oscillator_conserves_the_symplectic_invariant(device, within):
    """A spring and a mass under symplectic Euler: v^2 + w^2 x^2 - h w^2 x v is conserved exactly, for any h < 2/w."""
    mass, stiffness, h = 2.0, 800.0, 0.05  # h w = 1
    sim = ws.Simulator(cart(mass=mass, stiffness=stiffness), dt=h, device=device, dtype="float64")
    trajectory = sim.rollout(sim.state([0.1], [0.7]), steps=2000)
    x, v = trajectory.q.numpy()[:, 0, 0], trajectory.v.numpy()[:, 0, 0]
    w2 = stiffness / mass
    # With v_n from the half before x_n: x_n = x_{n-1} + h v_n and v_{n+1} = v_n - h w^2 x_n.
    invariant = v**2 + w2 * x**2 - h * w2 * x * v
    within("oscillator: drift of the invariant", np.abs(invariant / invariant[0] - 1.0).max(), 1e-11)


def test_pendulum_converges_to_the_exact_period(device, within):
    """Released at 90 degrees, the time of a quarter swing tends to K(sin 45 deg)/w0 at order 1 or better."""
    from scipy.special import ellipk

    length, h = 0.5, 0.01
    sim = ws.Simulator(pendulum(length=length), dt=h, device=device, dtype="float64")
    exact = ellipk(0.5) / np.sqrt(GRAVITY / length)
    errors = []
    for n in (1, 2, 4, 8):
        trajectory = sim.rollout(sim.state([np.pi / 2]), steps=80, substeps=n)
        q, t = trajectory.q.numpy()[:, 0, 0], trajectory.time.numpy()[:, 0]
        i = int(np.argmax(q < 0.0))
        errors.append(abs(t[i - 1] + (t[i] - t[i - 1]) * q[i - 1] / (q[i - 1] - q[i]) - exact))
    within("pendulum: error of the quarter period at h/8", errors[-1] / exact, 2e-3)
    assert order(errors) > 0.8
