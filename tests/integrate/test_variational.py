# SPDX-License-Identifier: Apache-2.0
"""The variational integrator: its recorded chain, conserved quantities, exact discrete solutions, order, and its errors."""

import itertools
import pathlib

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from test_free_motion import energies, momentum, order

import warpsim as ws
from scenes.bodies import EVERY_JOINT, GRAVITY, body_on_plane, cart, link_chain, pendulum, tumbling_chain

REFERENCE = pathlib.Path(__file__).parents[1] / "reference" / "data" / "ltvi_chain.npz"
FREE, BALL = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)
TIGHT = 1e-13  # solves DRNEA to round-off in float64


@pytest.fixture(scope="module")
def chain():
    """The recorded 10-link chain: (data, model)."""
    data = dict(np.load(REFERENCE))
    return data, link_chain(data)


def simulator(model, dt, device="cpu", *, worlds=1, dtype="float64", **options):
    return ws.Simulator(
        model, worlds, dt, integrator=ws.Variational(**options), solver=ws.NoContact(), device=device, dtype=dtype
    )


# ---- the recorded chain ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [None, TIGHT])
def test_chain_follows_the_recorded_solution(chain, device, tolerance, within):
    """Against an independent solution of the same discrete equations to round-off: the start, 500 and 1,000 steps."""
    data, model = chain
    sim = simulator(model, float(data["dt"]), device, tolerance=tolerance)
    trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=1000)
    error = np.abs(trajectory.q.numpy()[:, 0] - data["q_tight"]).max(axis=1)
    within(f"chain, tolerance {tolerance}: q1", error[1], 1e-12)
    within(f"chain, tolerance {tolerance}: q over 500 steps", error[:501].max(), 1e-10)
    within(f"chain, tolerance {tolerance}: q over 1,000 steps", error.max(), 1e-8)
    # The records' energies come from the same Legendre momenta.
    difference = trajectory.diagnostics["energy"].numpy()[1:, 0] - data["energy"][1:1000]
    within(f"chain, tolerance {tolerance}: energy", np.abs(difference).max(), 1e-6)


def test_chain_is_of_second_order(chain, device, within):
    """Against the continuous solution at 0.25 s, q at 2, 1, 0.5 and 0.25 ms; the recorded errors come out too."""
    data, model = chain
    errors = []
    for h in (2e-3, 1e-3, 0.5e-3, 0.25e-3):
        sim = simulator(model, h, device)
        trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=round(0.25 / h))
        errors.append(np.abs(trajectory.q.numpy()[-1, 0] - data["q_continuous"][250]).max())
    within("chain: |order - 2|", abs(order(errors) - 2.0), 0.02)
    np.testing.assert_allclose(errors[1:], [1.23e-5, 3.06e-6, 7.7e-7], rtol=0.01)


def test_chain_keeps_its_energy(chain, device, within):
    """Over 10 s the energy by Legendre momenta stays in a band without a trend; symplectic Euler drifts by 23 J."""
    data, model = chain
    energy = {}
    for integrator in (ws.Variational(), ws.SymplecticEuler()):
        sim = ws.Simulator(model, 1, 1e-3, integrator, ws.NoContact(), device, "float64")
        trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=10_000)
        energy[type(integrator).__name__] = trajectory.diagnostics["energy"].numpy()[:, 0]
    time = 1e-3 * np.arange(10_000)
    within("chain, 10 s: |energy - E0| [J]", np.abs(energy["Variational"] - data["E0"]).max(), 0.02)
    within("chain, 10 s: |slope of the energy| [J/s]", abs(np.polyfit(time, energy["Variational"], 1)[0]), 1e-5)
    drift = energy["SymplecticEuler"][-1] - energy["SymplecticEuler"][0]
    within("chain, 10 s: symplectic Euler's drift - 23 J", abs(drift - 23.0), 0.5)


def evaluations(model, q, v, root_finder, guess, most=9) -> np.ndarray:
    """Residual evaluations from every state (q, v) until |DRNEA| < 1e-9, the paper's criterion."""
    needed = np.full(len(q), most + 1)
    for count in range(most, 0, -1):
        options = {"root_finder": root_finder, "guess": guess, "tolerance": 1e-30, "max_iterations": count}
        sim = simulator(model, 1e-3, worlds=len(q), **options)
        sim.step(sim.state(q, v))
        needed[np.linalg.norm(sim._step.residual.numpy(), axis=1) < 1e-9] = count
    return needed


def test_residual_evaluations_per_step(chain, within):
    """RIQN takes about 5.9 evaluations from q^k and exact Newton 4.0 (the paper: 5.69 and 4); better guesses take fewer."""
    data, model = chain
    sim = simulator(model, 1e-3)
    trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=1000)
    q, v = trajectory.q.numpy()[::20, 0], trajectory.v.numpy()[::20, 0]
    riqn = [evaluations(model, q, v, "riqn", guess).mean() for guess in ("current", "euler", "dynamics")]
    newton = [evaluations(model, q, v, "newton", guess).mean() for guess in ("current", "dynamics")]
    within("RIQN from q^k: |evaluations - 5.9|", abs(riqn[0] - 5.9), 0.2)
    within("Newton from q^k: |evaluations - 4|", abs(newton[0] - 4.0), 0.1)
    assert riqn[0] > riqn[1] + 0.8 > riqn[2] + 1.6
    assert newton[1] < newton[0] - 1.5


def test_float32_chain_follows_the_continuous_solution(chain, device, within):
    """Half a second in float32: round-off of q, 1e-7 a step, is all that is added to the 2nd-order error of 5e-5."""
    data, model = chain
    sim = simulator(model, 1e-3, device, dtype="float32")
    trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=500)
    error = np.abs(trajectory.q.numpy()[:, 0] - data["q_continuous"][:501]).max()
    within("chain in float32, 0.5 s", error, 5e-4)
    assert not trajectory.diagnostics["flags"].numpy().any()


# ---- conserved quantities and order ---------------------------------------------------------------------------------


def test_momentum_of_a_free_robot(device, assets, within):
    """The gymnasium humanoid afloat without gravity: its springs, dampers and rotors are internal, so linear and angular
    momentum stay for 10 s, to round-off (the residual of a step is taken off what is carried on)."""
    compiled = mujoco.MjModel.from_xml_path(assets("humanoid"))
    compiled.opt.gravity[:], compiled.jnt_limited[:] = 0.0, 0
    model, rng = ws.load(compiled), np.random.default_rng(0)
    sim = simulator(model, 0.005, device, worlds=2)
    q = np.tile(model.q0, (2, 1))
    q[:, 7:] += 0.3 * rng.normal(size=(2, model.nv - 6))
    trajectory = sim.rollout(sim.state(q, rng.normal(size=(2, model.nv))), steps=2000, every=100)
    q, v = trajectory.q.numpy(), trajectory.v.numpy()
    P = np.array([momentum(sim, *row) for row in zip(q, v, strict=True)])
    within("free humanoid, 10 s: linear momentum [kg m/s]", np.abs(P - P[0])[..., :3].max(), 1e-9)
    within("free humanoid, 10 s: angular momentum [kg m^2/s]", np.abs(P - P[0])[..., 3:].max(), 1e-9)


def test_energy_of_a_tumbling_chain(device, within):
    """Free, ball, hinge and slide joints and a spring: the energy error at 2, 1 and 0.5 ms is of second order."""
    model = tumbling_chain()
    v = np.random.default_rng(5).normal(size=model.nv)
    errors = []
    for h in (2e-3, 1e-3, 0.5e-3):
        sim = simulator(model, h, device)
        E = energies(sim, sim.rollout(sim.state(v=v), steps=round(1.0 / h)))[:, 0]
        errors.append(np.abs(E - E[0]).max() / E[0])
    within("tumbling chain: order of the energy error, 2 - order", 2.0 - order(errors), 0.1)
    within("tumbling chain: energy error at 0.5 ms", errors[-1], 1e-4)


def mujoco_solution(compiled, q, v, control, wrench, duration):
    """(q, v) after `duration` by DOP853 at 1e-12 with MuJoCo's accelerations."""
    data = mujoco.MjData(compiled)
    data.ctrl[:], data.xfrc_applied[:] = control, wrench

    def rate(_, y):
        data.qpos[:], data.qvel[:] = y[: compiled.nq], y[compiled.nq :]
        mujoco.mj_forward(compiled, data)
        dq = np.zeros(compiled.nq)
        for kind, i, d in zip(compiled.jnt_type, compiled.jnt_qposadr, compiled.jnt_dofadr, strict=True):
            if kind == FREE:
                dq[i : i + 3] = data.qvel[d : d + 3]
                i, d = i + 3, d + 3
            if kind in (FREE, BALL):
                mujoco.mju_mulQuat(dq[i : i + 4], y[i : i + 4], np.array([0.0, *data.qvel[d : d + 3]]) / 2)
            else:
                dq[i] = data.qvel[d]
        return np.concatenate([dq, data.qacc])

    y = solve_ivp(rate, (0, duration), np.concatenate([q, v]), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return y[: compiled.nq], y[compiled.nq :]


def test_every_joint_is_of_second_order(device, within):
    """Branching trees with every joint type, springs, dampers, rotors, actuators, a wrench and joint forces against
    MuJoCo's accelerations integrated at 1e-12: q and the Legendre velocity v are of order 2."""
    compiled = mujoco.MjModel.from_xml_string(EVERY_JOINT)
    model, rng, q = ws.load(compiled), np.random.default_rng(1), compiled.qpos0.copy()
    mujoco.mj_integratePos(compiled, q, 0.3 * rng.normal(size=compiled.nv), 1.0)
    v, control = rng.normal(size=compiled.nv), np.array([0.3, 0.2, 0.1])
    applied = np.zeros((compiled.nbody, 6))
    applied[1] = [2.0, -1.0, 3.0, 0.3, 0.1, -0.2]  # force, torque on the trunk
    q_exact, v_exact = mujoco_solution(compiled, q, v, control, applied, 0.2)
    wrench = np.concatenate([applied[1:, 3:], applied[1:, :3]], axis=1)[None]
    error_q, error_v = [], []
    for h in (1e-3, 0.5e-3, 0.25e-3, 0.125e-3):
        sim = simulator(model, h, device)
        state = sim.state(q, v)
        for _ in range(round(0.2 / h)):
            sim.step(state, control[None], wrench=wrench, out=state)
        error_q.append(np.abs(state.q.numpy()[0] - q_exact).max())
        error_v.append(np.abs(state.v.numpy()[0] - v_exact).max())
    within("every joint: |order of q - 2|", abs(order(error_q[1:]) - 2.0), 0.02)
    within("every joint: |order of v - 2|", abs(order(error_v[1:]) - 2.0), 0.02)
    within("every joint: q at 1 ms", error_q[0], 1e-4)


def test_explicit_velocity_gain_is_of_second_order(device, within):
    """An actuator whose velocity gain feeds energy in stays explicit, at the velocities of both ends: still order 2."""
    xml = """<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="x" type="slide" axis="1 0 0" stiffness="40"/>
      <geom size=".1" mass="2" contype="0" conaffinity="0"/></body></worldbody>
      <actuator><general joint="x" biastype="affine" biasprm="0 0 -1"/></actuator></mujoco>"""
    model = ws.load(mujoco.MjModel.from_xml_string(xml))
    rate = 1.5 / (2 * 2.0)  # x'' = 1.5/2 x' - 40/2 x, from x = 1 at rest
    frequency = np.sqrt(20.0 - rate**2)
    exact = np.exp(rate) * (np.cos(frequency) - rate / frequency * np.sin(frequency))
    errors = []
    for h in (0.04, 0.02, 0.01):
        sim = simulator(model, h, device)
        sim.parameters["actuator_bias"] = [[0.0, 0.0, 1.5]]
        errors.append(abs(sim.rollout(sim.state([1.0]), steps=round(1.0 / h)).q.numpy()[-1, 0, 0] - exact))
    within("velocity gain: |order - 2|", abs(order(errors) - 2.0), 0.1)


# ---- exact discrete solutions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_free_fall_is_exact(device, dtype, within):
    """Trapezoidal gravity makes a thrown body's path the parabola itself, and v at the nodes exact, for any h."""
    h, n = 0.05, 40
    sim = simulator(body_on_plane("box", [0.1] * 3, floor=False, height=10.0), h, device, dtype=dtype)
    trajectory = sim.rollout(sim.state(v=[1.0, 0, 3.0, 0, 0, 0]), steps=n)
    t = h * np.arange(n + 1)
    error = np.abs(trajectory.q.numpy()[:, 0, 2] - (10.0 + 3.0 * t - GRAVITY * t**2 / 2)).max()
    epsilon = {"float64": 2.3e-16, "float32": 1.2e-7}[dtype]
    within(f"{dtype} free fall: z", error, n * 100 * epsilon)
    within(f"{dtype} free fall: v", np.abs(trajectory.v.numpy()[:, 0, 2] - 3.0 + GRAVITY * t).max(), n * 100 * epsilon)


def test_oscillator_is_stormer_verlet(device, within):
    """A spring and a mass: x_{n+1} = 2 (1 - (h w)^2/2) x_n - x_{n-1}, so x_n = a cos(n arccos(1 - (h w)^2/2) + b)."""
    mass, stiffness, h, n = 2.0, 800.0, 0.05, 2000  # h w = 1
    sim = simulator(cart(mass=mass, stiffness=stiffness), h, device)
    x = sim.rollout(sim.state([0.1], [0.7]), steps=n).q.numpy()[:, 0, 0]
    # v_0 = (x_1 - x_{-1}) / 2h is sin(turn)/h times the amplitude of the sine
    turn = np.arccos(0.5)
    exact = 0.1 * np.cos(turn * np.arange(n + 1)) + 0.7 * h / np.sin(turn) * np.sin(turn * np.arange(n + 1))
    within("oscillator: x over 2,000 steps", np.abs(x - exact).max(), 1e-11)


@pytest.mark.parametrize("damping", [0.3, 1e4])
def test_damping_is_the_trapezoidal_rule(device, damping, within):
    """A damped free slide: v_{n+1} = v_n (m - h d/2) / (m + h d/2), |v| falls for any step, also for h d = 250 m (which
    amplifies rounding as much)."""
    mass, h = 2.0, 0.05
    sim = simulator(cart(mass=mass, damping=damping), h, device)
    v = sim.rollout(sim.state([0.0], [1.0]), steps=20).v.numpy()[:, 0, 0]
    ratio = (mass - h * damping / 2) / (mass + h * damping / 2)
    within(f"slide with damping {damping:g}", np.abs(v - ratio ** np.arange(21)).max(), 1e-12)


@pytest.mark.parametrize("root_finder", ["riqn", "newton", "broyden"])
def test_spinning_body_keeps_its_angular_momentum(device, root_finder, within):
    """Euler's top at 0.3 rad a step: R I omega is constant to round-off, the energy stays in a band over 2,000 steps."""
    sim = simulator(
        body_on_plane("box", [0.3, 0.2, 0.1], floor=False), 0.05, device, root_finder=root_finder, tolerance=1e-12
    )
    sim.parameters["gravity"] = [0.0, 0.0, 0.0]
    trajectory = sim.rollout(sim.state(v=[0, 0, 0, 4.0, 3.0, -2.0]), steps=2000, every=20)
    P = np.array([momentum(sim, *row)[0] for row in zip(trajectory.q.numpy(), trajectory.v.numpy(), strict=True)])
    within(f"{root_finder} top: angular momentum", np.abs(P - P[0]).max() / np.linalg.norm(P[0]), 1e-11)
    E = energies(sim, trajectory)[:, 0]
    within(f"{root_finder} top: energy band", np.ptp(E) / E[0], 0.02)
    within(f"{root_finder} top: energy trend", abs(E[50:].mean() - E[:50].mean()) / E[0], 2e-3)


def test_step_size_may_change(device, within):
    """Steps of 4, 2 and 1 ms in turn: momentum is carried exactly, and the solution is still of second order."""
    model = tumbling_chain()
    v = np.random.default_rng(5).normal(size=model.nv)
    ends = []
    for scale in (1, 2, 4, 8):
        sim = simulator(model, 4e-3 / scale, device)
        state = sim.state(v=v)
        start = momentum(sim, state.q.numpy(), state.v.numpy())
        for _ in range(30 * scale):
            for substeps in (1, 2, 4):
                sim.step(state, substeps=substeps, out=state)
        end = momentum(sim, state.q.numpy(), state.v.numpy())
        within(f"changing step {scale}: momentum", np.abs(end - start).max() / np.abs(start).max(), 1e-12)
        ends.append(state.q.numpy()[0])
    differences = [np.abs(a - b).max() for a, b in itertools.pairwise(ends)]
    within("changing step: |order - 2|", abs(order(differences) - 2.0), 0.1)


# ---- the step as a map: worlds, states, refusals ----------------------------------------------------------------------


def test_a_state_is_all_that_a_step_reads(chain, device):
    """From a copy of (q, v) in a fresh simulator, alone or among other worlds, the rollout goes on bit for bit."""
    data, model = chain
    sim = simulator(model, 1e-3, device)
    state = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=10).final
    onward = sim.rollout(state, steps=10).q.numpy()[-1, 0]
    rng, many = np.random.default_rng(2), simulator(model, 1e-3, device, worlds=3)
    q, v = rng.normal(size=(2, 3, model.nv))
    q[1], v[1] = state.q.numpy()[0], state.v.numpy()[0]
    trajectory = many.rollout(many.state(q, v), steps=10)
    assert np.array_equal(trajectory.q.numpy()[-1, 1], onward)
    part = simulator(model, 1e-3, device, worlds=2)
    onward_part = part.rollout(trajectory.final[[0, 2]], steps=3).q.numpy()[-1]
    assert np.array_equal(onward_part, many.rollout(trajectory.final, steps=3).q.numpy()[-1][[0, 2]])


def test_unsolved_worlds_are_flagged_alone(device):
    """A world out of evaluations keeps its best iterate and is flagged; one with a NaN control stands still; the others'
    bits do not change."""
    model = ws.load(mujoco.MjModel.from_xml_string(EVERY_JOINT))
    sim = simulator(model, 2e-3, device, worlds=3, max_iterations=3)
    v = np.zeros((3, model.nv))
    v[1, 3:6] = [100.0, 150.0, 50.0]
    control = np.zeros((3, model.nu))
    state = sim.step(sim.state(v=v), control)
    assert state.memory["flags"].numpy().tolist() == [0, ws.NOT_CONVERGED, 0]
    assert sim.diagnostics.momentum_error.numpy()[1] > 1e-10 > sim.diagnostics.momentum_error.numpy()[0]
    calm = sim.step(sim.state(), control)
    assert np.array_equal(state.q.numpy()[[0, 2]], calm.q.numpy()[[0, 2]])
    control[2, 0] = np.nan
    stopped = sim.step(state, control)
    assert stopped.memory["flags"].numpy()[2] == ws.NONFINITE
    assert np.array_equal(stopped.q.numpy()[2], state.q.numpy()[2])


def test_what_it_cannot_do_is_refused():
    """Gradients of several passes of rigid contact are named as missing; bad options name the value and the choices."""
    with pytest.raises(ValueError, match=r"Variational\(passes=2\) has no gradients with LCP"):
        ws.Simulator(pendulum(), integrator=ws.Variational(passes=2), solver=ws.LCP(), requires_grad=True)
    options = (("guess", "best"), ("root_finder", "secant"), ("tolerance", 2.0), ("max_iterations", 0), ("passes", 0))
    for option, value in options:
        with pytest.raises(ValueError, match=f"Variational: {option} is {value!r}"):
            ws.Variational(**{option: value})
