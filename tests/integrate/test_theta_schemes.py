# SPDX-License-Identifier: Apache-2.0
"""The theta-schemes: exact discrete maps, orders, energy, stability, contact at second order, and the reliability contract."""

import numpy as np
import pytest
import warp as wp
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import warpsim as ws
from scenes.bodies import GRAVITY, body_on_plane, cart, tumbling_chain
from scenes.examples import SpringCylinder

EXPLICIT, SYMPLECTIC, IMPLICIT, MIDPOINT = ws.ExplicitEuler(), ws.SymplecticEuler(), ws.ImplicitEuler(), ws.Midpoint()
SCHEMES = {"explicit": EXPLICIT, "symplectic": SYMPLECTIC, "implicit": IMPLICIT, "midpoint": MIDPOINT}
STIFF = {"explicit, K": ws.ExplicitEuler(True), "symplectic, K": ws.SymplecticEuler(implicit_stiffness=True)}


def simulate(model, scheme, dt, steps, device, *, q=None, v=None, worlds=1, dtype="float64", solver=None, **options):
    """A trajectory's q, v (rows, worlds, n), times (rows,), and the simulator."""
    solver = ws.NoContact() if solver is None else solver
    limit = {key: options.pop(key) for key in ("recovery_speed",) if key in options}
    sim = ws.Simulator(model, worlds, dt, scheme, solver, device, dtype, **limit)
    trajectory = sim.rollout(sim.state(q, v), steps=steps, **options)
    return trajectory.q.numpy(), trajectory.v.numpy(), trajectory.time.numpy()[:, 0], sim


def orders(errors) -> np.ndarray:
    """log2 of the quotients of errors whose steps are halved from one to the next."""
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


# The discrete maps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMES | STIFF)
@pytest.mark.parametrize("drive", ["joint", "actuator"])
def test_damped_oscillator_follows_the_exact_map(device, name, drive, within):
    """M v' + D v + K x = 0 is linear: every scheme is a 2 x 2 matrix, whose powers the rollout reproduces to round-off.

    Spring and damper of the joint and those of a position actuator are treated alike."""
    M, K, D, h, steps = 2.0, 800.0, 7.0, 0.02, 50
    model = cart(mass=M, stiffness=K, damping=D)
    if drive == "actuator":
        b = ws.ModelBuilder(gravity=(0.0, 0.0, 0.0))
        b.add_body("cart", mass=M, inertia=[1.0, 1.0, 1.0])
        b.add_joint("cart", "slide", axis=[1.0, 0.0, 0.0])
        b.add_actuator(0, "position", kp=K / 4.0, kv=D / 4.0, gear=2.0)
        model = b.build()
    # m v1 = a x0 + b v0 and x1 = x0 + h (s v1 + (1 - s) v0)
    m, a, b, s = {
        "explicit": (M + h * D, -h * K, M, 0.0),
        "symplectic": (M + h * D, -h * K, M, 1.0),
        "explicit, K": (M + h * D + h * h * K, -h * K, M, 0.0),
        "symplectic, K": (M + h * D + h * h * K, -h * K, M, 1.0),
        "implicit": (M + h * D + h * h * K, -h * K, M, 1.0),
        "midpoint": (M + h / 2 * D + h * h / 4 * K, -h * K, M - h / 2 * D - h * h / 4 * K, 0.5),
    }[name]
    step = np.array([[1.0 + h * s * a / m, h * (s * b / m + 1.0 - s)], [a / m, b / m]])
    q, v, _, _ = simulate(model, (SCHEMES | STIFF)[name], h, steps, device, q=[0.1], v=[0.7])
    expected = [np.array([0.1, 0.7])]
    for _ in range(steps):
        expected.append(step @ expected[-1])
    error = np.abs(np.stack([q[:, 0, 0], v[:, 0, 0]], axis=1) - expected).max() / np.abs(expected).max()
    within(f"{name}: discrete map of a {drive}'s spring and damper", error, 1e-12)


def test_contact_stage_is_the_one_of_the_theory(device, assets, within):
    """A = M(q^θ) + h² θ θvq K + h θ D with the stiffness and damping of the joints, at q^θ(v*), for a humanoid in the air."""
    model = ws.load(assets("humanoid"))
    rng = np.random.default_rng(4)
    v = rng.normal(size=model.nv)
    for scheme, theta in ((IMPLICIT, 1.0), (MIDPOINT, 0.5)):
        _, _, _, sim = simulate(model, scheme, 0.01, 1, device, v=v)
        step = sim._step
        A = step.dynamics.array((model.nv, model.nv), wp.float64)
        step.dynamics.expand_blocks(step.A, A)
        # q^θ = q0 ⊕ h θ v^θ: a symplectic step of a simulator that only integrates positions.
        between = theta * step.v_star.numpy()[0] + (1.0 - theta) * v
        M = sim.mass_matrix(advanced(model, model.q0, between, 0.01 * theta)).numpy()[0]
        h = 0.01
        expected = M + np.diag(h * h * theta * theta * model.joint_stiffness + h * theta * model.joint_damping)
        within(f"{type(scheme).__name__}: A", np.abs(A.numpy()[0] - expected).max() / np.abs(M).max(), 1e-13)


def advanced(model, q, v, h) -> np.ndarray:
    """q ⊕ h v on the host."""
    q = np.array(q, float)
    for j in range(model.njoint):
        i, d = int(model.joint_q[j]), int(model.joint_v[j])
        kind = ws.JointType(model.joint_type[j])
        if kind == ws.JointType.FREE:
            q[i : i + 3] += h * v[d : d + 3]
            i, d = i + 3, d + 3
        if kind in (ws.JointType.FREE, ws.JointType.BALL):
            turned = Rotation.from_quat(q[[i + 1, i + 2, i + 3, i]]) * Rotation.from_rotvec(h * v[d : d + 3])
            q[[i + 1, i + 2, i + 3, i]] = turned.as_quat()
        else:
            q[i] += h * v[d]
    return q


# Order ---------------------------------------------------------------------------------------------------------------


def branching() -> ws.Model:
    """A floating body with two branches, ball and hinge, and ball and slide, under gravity, with springs and dampers."""
    b = ws.ModelBuilder("branching", gravity=(0.5, -1.0, -9.81))

    def part(parent, size, pose, joint, **options):
        body = b.add_body(parent=parent, pose=pose)
        b.add_joint(body, joint, **options)
        b.add_geom("box", size, body=body, contype=0, conaffinity=0)
        return body

    trunk = part(-1, [0.2, 0.1, 0.05], [0.0, 0.0, 1.0], "free")
    upper = part(trunk, [0.05, 0.15, 0.1], [0.3, 0.05, 0.1], "ball", anchor=[-0.15, 0, 0], stiffness=5.0, damping=0.3)
    part(upper, [0.1, 0.05, 0.2], [0.2, 0.1, 0.0], "hinge", axis=[0.2, 1.0, 0.3], stiffness=20.0, armature=0.1)
    other = part(trunk, [0.08, 0.1, 0.06], [-0.3, 0.0, 0.1], "ball", anchor=[0.1, 0, 0], armature=0.05)
    part(other, [0.05, 0.08, 0.1], [0.0, 0.2, 0.1], "slide", axis=[0.2, 1.0, 0.3], stiffness=500.0, damping=5.0)
    return b.build()


class Continuous:
    """The motion of `branching` under tau and a wrench on its last body, by DOP853 with RNEA and the mass matrix."""

    def __init__(self, device):
        self.model = branching()
        self.sim = ws.Simulator(self.model, solver=ws.NoContact(), device=device, dtype="float64")
        rng = np.random.default_rng(8)
        self.q0, self.v0 = self.model.q0, rng.normal(size=self.model.nv)
        self.tau = rng.normal(size=self.model.nv)
        self.wrench = np.zeros((1, self.model.nbody, 6))
        self.wrench[0, -1] = rng.normal(size=6)
        self.time = 0.4
        motion = solve_ivp(self.rate, [0.0, self.time], np.r_[self.q0, self.v0], "DOP853", rtol=1e-11, atol=1e-12)
        self.q, self.v = np.split(motion.y[:, -1], [self.model.nq])

    def rate(self, _, y):
        """dq/dt in coordinates, dv/dt from M dv/dt = force - c."""
        m, sim = self.model, self.sim
        q, v = np.split(y, [m.nq])
        force = self.tau - m.joint_damping * v
        dq = np.zeros(m.nq)
        for j in range(m.njoint):
            i, d = int(m.joint_q[j]), int(m.joint_v[j])
            kind = ws.JointType(m.joint_type[j])
            if kind == ws.JointType.FREE:
                dq[i : i + 3] = v[d : d + 3]
                i, d = i + 3, d + 3
            if kind in (ws.JointType.FREE, ws.JointType.BALL):
                w, u, omega = q[i], q[i + 1 : i + 4], v[d : d + 3]
                dq[i : i + 4] = 0.5 * np.r_[-u @ omega, w * omega + np.cross(u, omega)]
                deflection = Rotation.from_quat(np.r_[u, w]).as_rotvec()
                force[d : d + 3] -= m.joint_stiffness[d : d + 3] * deflection
            else:
                dq[i] = v[d]
                force[d] -= m.joint_stiffness[d] * q[i]
        last = m.nbody - 1
        force += sim.jacobian(q, last, m.body_com[last]).numpy()[0].T @ self.wrench[0, last]
        c = sim.inverse_dynamics(q, v, np.zeros(m.nv)).numpy()[0]
        return np.r_[dq, np.linalg.solve(sim.mass_matrix(q).numpy()[0], force - c)]

    def error(self, scheme, dt, device) -> float:
        """Largest error of q (quaternions up to sign) and v at the end."""
        sim = ws.Simulator(self.model, dt=dt, integrator=scheme, solver=ws.NoContact(), device=device, dtype="float64")
        state = sim.state(self.q0, self.v0)
        for _ in range(round(self.time / dt)):
            state = sim.step(state, tau=self.tau[None], wrench=self.wrench, out=state)
        q, v = state.q.numpy()[0].copy(), state.v.numpy()[0]
        for j in range(self.model.njoint):
            i = int(self.model.joint_q[j]) + 3 * (self.model.joint_type[j] == ws.JointType.FREE)
            if self.model.joint_type[j] in (ws.JointType.FREE, ws.JointType.BALL):
                q[i : i + 4] *= np.sign(q[i : i + 4] @ self.q[i : i + 4])
        return max(np.abs(q - self.q).max(), np.abs(v - self.v).max())


@pytest.fixture(scope="module")
def continuous(device) -> Continuous:
    return Continuous(device)


@pytest.mark.parametrize("name", SCHEMES | STIFF)
def test_order_of_the_free_motion(continuous, device, name, within):
    """The midpoint rule is of order 2, the Euler schemes of order 1, on a branching tree with every joint type, springs,
    dampers, tau and a wrench, against the continuous motion (DOP853 at 1e-11)."""
    scheme = (SCHEMES | STIFF)[name]
    errors = [continuous.error(scheme, dt, device) for dt in (0.005, 0.0025, 0.00125, 0.000625)]
    within(f"{name}: |order of the free motion - {scheme.order}|", abs(orders(errors)[-1] - scheme.order), 0.1)


# Energy and stability ------------------------------------------------------------------------------------------------


def test_midpoint_keeps_the_energy_of_a_tumbling_chain(device, within):
    """10 s of a floating chain of every joint type at h = 5 ms: the midpoint rule's energy error is about a thousandth of
    symplectic Euler's."""
    model = tumbling_chain()
    v = np.random.default_rng(5).normal(size=(8, model.nv))
    v[:, -1] *= 0.2
    error = {}
    for name in ("symplectic", "midpoint"):
        options = dict(worlds=8, dt=0.005, solver=ws.NoContact(), device=device, dtype="float64")
        sim = ws.Simulator(model, integrator=SCHEMES[name], **options)
        E = sim.rollout(sim.state(v=v), steps=2000).diagnostics["energy"].numpy()
        error[name] = np.abs(E / E[0] - 1.0)
    worst = error["midpoint"].max()
    within("midpoint: energy error of the tumbling chain over 10 s", worst, 2e-4)
    within("midpoint: the same in units of symplectic Euler's", worst / error["symplectic"].max(), 2e-3)


@pytest.mark.parametrize("name", ["implicit", "midpoint", *STIFF])
def test_stable_for_a_stiff_spring(device, name, within):
    """k h² / m = 1e6, a thousand times what an explicit scheme bears: the chain's slide stays where its spring holds it."""
    b = ws.ModelBuilder("stiff")
    b.add_body("a", mass=1.0, com=[0.0, 0.0, -0.2], inertia=[0.01, 0.01, 0.01])
    b.add_joint("a", "hinge", axis=[0.0, 1.0, 0.0])
    b.add_body("b", parent="a", pose=[0.0, 0.0, -0.5], mass=1.0, inertia=[0.01, 0.01, 0.01])
    b.add_joint("b", "slide", axis=[0.0, 0.0, 1.0], stiffness=1e10)
    q, v, _, sim = simulate(b.build(), (SCHEMES | STIFF)[name], 0.01, 500, device, q=[1.0, 0.0])
    within(f"{name}: deflection of a stiff spring [m]", np.abs(q[:, 0, 1]).max(), 1e-6)
    assert np.abs(v[:, 0, 0]).max() < 10.0
    assert not (sim.diagnostics.flags.numpy() & ~ws.UNRESOLVED).any()  # limbs strike each other


def test_symplectic_euler_is_not_stable_there(device):
    """The control of the test above: k h² / m = 25 is beyond the limit of 4, and the motion blows up."""
    model = cart(mass=1.0, stiffness=25.0 / 0.01**2)
    q, _, _, _ = simulate(model, SYMPLECTIC, 0.01, 20, device, q=[1e-3])
    assert np.abs(q).max() > 1.0


# Contact -------------------------------------------------------------------------------------------------------------

COARSE = 0.02  # [s]


def run_cylinder(mu, scheme, dt, time, device):
    """q (rows, 3), energy(t) / energy(0), times of the spring-cylinder."""
    scene, solver = SpringCylinder(mu), ws.SAP(tolerance=1e-12)
    q, v, t, _ = simulate(scene.model(), scheme, dt, round(time / dt), device, q=scene.at_rest, solver=solver)
    energy = scene.energy(q[:, 0], v[:, 0])
    return q[:, 0], energy / energy[0], t


def test_energy_of_the_frictionless_cylinder(device, within):
    """Castro et al., figure 5: symplectic Euler keeps the energy in a band of 28-29 % peak to peak (0.876 to 1.165 of the
    start), the midpoint rule conserves it to round-off, implicit Euler dissipates it in a few periods."""
    _, E, _ = run_cylinder(0.0, SYMPLECTIC, COARSE, 5.0, device)
    within("cylinder, symplectic: lower end of the energy band", abs(E.min() - 0.876), 1e-3)
    within("cylinder, symplectic: upper end of the energy band", abs(E.max() - 1.165), 1e-3)
    assert 0.28 < np.ptp(E) < 0.29
    _, E, _ = run_cylinder(0.0, MIDPOINT, COARSE, 60.0, device)
    within("cylinder, midpoint: energy error in a minute", np.abs(E - 1.0).max(), 1e-13)
    _, E, _ = run_cylinder(0.0, IMPLICIT, COARSE, 5.0, device)
    assert E[-1] < 1e-6 and np.all(np.diff(E) <= 0.0)


def test_energy_of_the_rolling_cylinder(device, within):
    """Castro et al., figure 6: with friction the midpoint rule varies by less than 0.2 % in the first periods; over ten the
    reference implementation reaches 0.9977 of the start."""
    period = 2.0 * np.pi / SpringCylinder(1.0).frequency
    _, E, t = run_cylinder(1.0, MIDPOINT, COARSE, 10.0 * period, device)
    within("rolling cylinder, midpoint: energy variation in five periods", np.ptp(E[t < 5.0 * period]), 2e-3)
    within("rolling cylinder, midpoint: energy lost in ten periods", 1.0 - E[-1], 3e-3)
    within("rolling cylinder, midpoint: energy gained", E.max() - 1.0, 1e-12)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_order_of_the_cylinder(device, name, mu, within):
    """Castro et al., figure 7: x(t) over 5 s against x0 cos(w t), in the L2 norm. The midpoint rule has order 2, at least
    1.95, from h = 10 ms on, with and without friction; the Euler schemes have order 1 where their errors are small."""
    steps = (COARSE / 2, COARSE / 4, COARSE / 8) if name == "midpoint" else (COARSE / 32, COARSE / 64)
    errors = []
    for dt in steps:
        q, _, t = run_cylinder(mu, SCHEMES[name], dt, 5.0, device)
        errors.append(SpringCylinder(mu).error(q, t))
    if name == "midpoint":
        within(f"cylinder mu = {mu:g}, midpoint: 2 - order", 2.0 - orders(errors).min(), 0.05)
    else:
        within(f"cylinder mu = {mu:g}, {name}: |order - 1|", abs(orders(errors)[-1] - 1.0), 0.15)


def test_rolling_over_a_sphere_is_second_order(device, within):
    """A ball rolls down a fixed sphere: the normal turns, and order 2 needs the contact Jacobian at q^θ, not at q0.

    Rolling without slip, 7/5 L angle'' = g sin(angle)."""
    b = ws.ModelBuilder("hill")
    b.add_geom("sphere", [0.9], friction=1.0)
    b.add_body("ball", pose=[0.0, 0.0, 1.0], mass=1.0, inertia=[0.4 * 0.1**2] * 3)
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=0.0, friction=1.0)
    model, time, start = b.build(), 0.4, 0.4
    exact = solve_ivp(
        lambda t, y: [y[1], 5.0 / 7.0 * GRAVITY * np.sin(y[0])], [0.0, time], [start, 0.0], rtol=1e-12, atol=1e-13
    ).y[0, -1]
    errors = {}
    for name in ("midpoint", "symplectic"):
        errors[name] = []
        for dt in (0.01, 0.005, 0.0025):
            q0 = [np.sin(start), 0.0, np.cos(start), 1.0, 0.0, 0.0, 0.0]
            solver = ws.SAP(tolerance=1e-12, sigma=1e-6)
            q, _, _, _ = simulate(model, SCHEMES[name], dt, round(time / dt), device, q=q0, solver=solver)
            errors[name].append(abs(np.arctan2(q[-1, 0, 0], q[-1, 0, 2]) - exact))
    within("ball on a sphere, midpoint: |order - 2|", np.abs(orders(errors["midpoint"]) - 2.0).max(), 0.05)
    within("ball on a sphere, symplectic: |order - 1|", np.abs(orders(errors["symplectic"]) - 1.0).max(), 0.05)


@pytest.mark.parametrize(
    "name, least, most", [("explicit", 0.7, 0.8), ("implicit", 0.0, 0.03), ("midpoint", 0.3, 0.34)]
)
def test_impacts_rebound_where_positions_lag_velocities(device, name, least, most):
    """The contact law ends the approach within the step, φ0 + h v_n = 0, for θvq = 1: with the other schemes a near-rigid
    ball that is dropped from 1 m overlaps. Without a recovery speed it comes back at the share of its speed that
    docs/integrators.md states, with one at 0.2 m/s at most."""
    model = body_on_plane("sphere", [0.1], height=1.1)
    for dt in (0.01, 0.001):
        options = {"solver": ws.SAP(), "recovery_speed": None}
        _, v, _, _ = simulate(model, SCHEMES[name], dt, round(0.6 / dt), device, **options)
        assert least <= v[:, 0, 2].max() / -v[:, 0, 2].min() <= most
        _, v, _, _ = simulate(model, SCHEMES[name], dt, round(0.6 / dt), device, solver=ws.SAP())
        assert v[:, 0, 2].max() <= 0.2


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("solver", [ws.SAP(), ws.SAP(approximation="convex"), ws.LCP()], ids=["SAP", "convex", "LCP"])
def test_a_box_stays_on_an_incline(device, name, solver, within):
    """Stiction of every scheme with every solver: creep within the bound μσhg of SAP's regularisation (theory §3.1)."""
    model = body_on_plane("box", [0.1, 0.1, 0.1], tilt=0.2, friction=0.5)
    _, v, _, sim = simulate(model, SCHEMES[name], 0.01, 500, device, solver=solver)
    within(f"{name}, {type(solver).__name__}: creep of a box [m/s]", np.abs(v[-1]).max(), 0.5 * 1e-3 * 0.01 * GRAVITY)
    assert not (sim.diagnostics.flags.numpy() & ~ws.UNRESOLVED).any()  # limbs strike each other


# Reliability ---------------------------------------------------------------------------------------------------------


class Herd:
    """Humanoids in the air and near the ground, each world with its own state and controls."""

    def __init__(self, scheme, assets, device, worlds, dtype):
        self.model = ws.load(assets("humanoid"))
        self.sim = ws.Simulator(self.model, worlds=worlds, dt=0.005, integrator=scheme, device=device, dtype=dtype)
        rng = np.random.default_rng(9)
        self.q = np.tile(self.model.q0, (16, 1))
        self.q[:, 2] = rng.uniform(1.0, 1.4, size=16)
        self.v, self.control = rng.normal(size=(16, self.model.nv)), rng.uniform(-0.4, 0.4, size=(16, self.model.nu))

    def run(self, chosen, steps=40, control=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        state = self.sim.state(self.q[chosen], self.v[chosen])
        control = self.control[chosen] if control is None else control
        for _ in range(steps):
            state = self.sim.step(state, control)
        return state.q.numpy(), state.v.numpy(), state.memory["flags"].numpy()


@pytest.mark.both_types
@pytest.mark.parametrize("name", ["explicit", "implicit", "midpoint"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_world_does_not_see_the_others(device, assets, name, dtype):
    """World i of 16 is the run of it alone bit for bit, in contact and in the air. Coulomb's law is not met in one world of the 16
    at most, whose limbs strike each other at 12 m/s and 4 cm deep: it says so, and goes on."""
    many = Herd(SCHEMES[name], assets, device, 16, dtype).run(np.arange(16))
    alone = Herd(SCHEMES[name], assets, device, 1, dtype)
    for i in (0, 7, 15):
        for left, right in zip(many, alone.run([i]), strict=True):
            np.testing.assert_array_equal(left[i], right[0])
    assert not (many[2] & ~ws.UNRESOLVED).any()  # limbs strike each other


@pytest.mark.parametrize("name", ["explicit", "implicit", "midpoint"])
def test_a_nan_is_contained(device, assets, name):
    """A NaN in a control stops its world at the last finite state with NONFINITE; the others do not notice."""
    herd = Herd(SCHEMES[name], assets, device, 4, "float64")
    chosen = np.arange(4)
    clean = herd.run(chosen)
    control = herd.control[chosen].copy()
    control[2, 3] = np.nan
    device_control = wp.array(control, dtype=wp.float64, device=device)
    q, v, flags = herd.run(chosen, control=device_control)
    np.testing.assert_array_equal(flags & ~ws.UNRESOLVED, [0, 0, ws.NONFINITE, 0])
    others = [0, 1, 3]
    np.testing.assert_array_equal(q[others], clean[0][others])
    np.testing.assert_array_equal(v[others], clean[1][others])
    np.testing.assert_array_equal(q[2], herd.q[2])
