# SPDX-License-Identifier: Apache-2.0
"""Tree passes against MuJoCo and Pinocchio, two independent implementations, at random states far from the initial pose.

Errors of matrices and forces are measured in MuJoCo's own metric: entries of M are divided by sqrt(M_ii M_jj), forces by
sqrt(M_ii), so that metres and radians, heavy and light links count alike; then the largest is taken relative to the norm
of the whole. Tolerances: 1e-10 absolute for poses and 1e-9 relative for dynamics in float64; in float32
1e-4, at the float32-rounded state, since rounding the *state* is the caller's doing. Accelerations from ABA are compared
in the norm of M, |a - a*|_M / |a*|_M: M^-1 amplifies the rounding of a force by the condition number of M (1e4 to 1e6
here), which no algorithm can undo, but in this norm (the square root of the kinetic energy of the error) it does not.
"""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.zoo import DRIVES, ZOO, random_states
from warpsim.kernels.rows.table import ACTUATOR

ROBOTS = ("ant", "humanoid", "half_cheetah", "hopper", "walker2d", "swimmer")
STATES = 100
POSE = {"float64": 1e-10, "float32": 1e-4}  # [m] and quaternion components; float32: a chain a few metres from 0
RELATIVE = {"float64": 1e-9, "float32": 1e-4}
DTYPES = ("float64", "float32")


def mjcf(name: str, assets) -> mujoco.MjModel:
    """A compiled robot, or "zoo"."""
    if name == "zoo":
        return mujoco.MjModel.from_xml_string(ZOO.replace("</mujoco>", DRIVES + "</mujoco>"))
    return mujoco.MjModel.from_xml_path(assets(name))


def normalised(m: mujoco.MjModel, q: np.ndarray) -> np.ndarray:
    """The configuration with unit quaternions, as MuJoCo needs it and our kernels make it."""
    q = q.copy()
    mujoco.mj_normalizeQuat(m, q)
    return q


class Case:
    """One model at `STATES` random states in one dtype, with MuJoCo's answers, computed once for all tests."""

    def __init__(self, m: mujoco.MjModel, dtype: str, device: str, seed: int = 3):
        self.m, self.dtype, self.device = m, dtype, device
        self.d = mujoco.MjData(m)
        self.model = ws.load(m)
        self.sim = ws.Simulator(self.model, worlds=STATES, solver=ws.NoContact(), device=device, dtype=dtype)
        self.q, self.v, self.a = random_states(m, STATES, dtype, np.random.default_rng(seed))
        rows = [self._reference(*state) for state in zip(self.q, self.v, self.a, strict=True)]
        self.poses, self.M, self.bias, self.tau, self.energy = (np.array(x) for x in zip(*rows, strict=True))
        self.scale = np.sqrt(np.einsum("wii->wi", self.M))

    def _reference(self, q, v, a):
        m, d = self.m, self.d
        d.qpos[:], d.qvel[:], d.qacc[:] = normalised(m, q), v, a
        mujoco.mj_fwdPosition(m, d)
        mujoco.mj_fwdVelocity(m, d)
        mujoco.mj_energyPos(m, d)
        mujoco.mj_energyVel(m, d)
        M, bias, tau = np.zeros((m.nv, m.nv)), np.zeros(m.nv), np.zeros(m.nv)
        mujoco.mj_fullM(m, d, M)
        mujoco.mj_rne(m, d, 0, bias)
        mujoco.mj_rne(m, d, 1, tau)
        poses = np.concatenate([d.xpos[1:], d.xquat[1:]], axis=1)
        return poses, M, bias, tau + m.dof_armature * a, d.energy[::-1].copy()

    def force_error(self, tau, reference) -> float:
        """Largest error over the states, in units of sqrt(M_ii), relative to the norm of the force."""
        error = np.linalg.norm((tau - reference) / self.scale, axis=1)
        return float(np.max(error / np.linalg.norm(reference / self.scale, axis=1)))

    def acceleration_error(self, a, reference) -> float:
        """Largest |a - a*|_M / |a*|_M over the states."""

        def norm(x):
            return np.sqrt(np.einsum("wi,wij,wj->w", x, self.M, x))

        return float(np.max(norm(a - reference) / norm(reference)))


@pytest.fixture(scope="module")
def case(device, assets):
    cases = {}

    def get(name: str, dtype: str) -> Case:
        if (name, dtype) not in cases:
            cases[name, dtype] = Case(mjcf(name, assets), dtype, device)
        return cases[name, dtype]

    return get


every_model = pytest.mark.parametrize("name", [*ROBOTS, "zoo"])
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


@every_model
@every_dtype
def test_body_poses(case, name, dtype, within):
    """Forward kinematics: body origins and orientations in the world (quaternions up to sign)."""
    c = case(name, dtype)
    poses = c.sim.kinematics(c.q).numpy().astype(float)
    sign = np.sign(np.sum(poses[..., 3:] * c.poses[..., 3:], axis=-1, keepdims=True))
    poses[..., 3:] *= sign
    assert poses.shape == (STATES, c.m.nbody - 1, 7)
    within(f"{dtype} {name}: body poses", np.abs(poses - c.poses).max(), POSE[dtype])


@every_model
@every_dtype
def test_mass_matrix(case, name, dtype, within):
    """CRBA with armature, every entry in units of sqrt(M_ii M_jj); exactly symmetric; zero between trees."""
    c = case(name, dtype)
    M = c.sim.mass_matrix(c.q).numpy().astype(float)
    error = np.abs(M - c.M) / (c.scale[:, :, None] * c.scale[:, None, :])
    within(f"{dtype} {name}: mass matrix", error.max(), RELATIVE[dtype])
    assert np.array_equal(M, np.swapaxes(M, 1, 2))


@every_model
@every_dtype
def test_bias(case, name, dtype, within):
    """Coriolis, gyroscopic and gravity forces: RNEA at zero acceleration."""
    c = case(name, dtype)
    bias = c.sim.inverse_dynamics(c.q, c.v, np.zeros(c.m.nv)).numpy()
    within(f"{dtype} {name}: bias", c.force_error(bias, c.bias), RELATIVE[dtype])


@every_model
@every_dtype
def test_inverse_dynamics(case, name, dtype, within):
    """RNEA against MuJoCo's RNEA plus armature, and against M a + c from its mass matrix."""
    c = case(name, dtype)
    tau = c.sim.inverse_dynamics(c.q, c.v, c.a).numpy()
    within(f"{dtype} {name}: RNEA", c.force_error(tau, c.tau), RELATIVE[dtype])
    product = np.einsum("wij,wj->wi", c.M, c.a) + c.bias
    within(f"{dtype} {name}: RNEA against M a + c", c.force_error(tau, product), RELATIVE[dtype])


@every_model
@every_dtype
def test_forward_dynamics(case, name, dtype, within):
    """ABA inverts RNEA: from MuJoCo's force tau(a), rounded to the dtype, back to the acceleration of that force."""
    c = case(name, dtype)
    tau = c.tau.astype(dtype).astype(float)
    expected = np.linalg.solve(c.M, (tau - c.bias)[..., None])[..., 0]
    a = c.sim.forward_dynamics(c.q, c.v, tau).numpy()
    within(f"{dtype} {name}: ABA", c.acceleration_error(a, expected), RELATIVE[dtype])


@every_model
@every_dtype
def test_jacobian(case, name, dtype, rng, within):
    """Jacobians at a random point fixed in each body, against mj_jac; rows (angular, linear)."""
    c = case(name, dtype)
    points = rng.normal(size=(STATES, 3)).astype(dtype).astype(float)
    worst = 0.0
    for body in rng.permutation(c.model.nbody)[:5]:
        J = c.sim.jacobian(c.q, int(body), points).numpy()
        for w in range(0, STATES, 5):
            linear, angular = np.zeros((2, 3, c.m.nv))
            c.d.qpos[:] = normalised(c.m, c.q[w])
            mujoco.mj_kinematics(c.m, c.d)
            mujoco.mj_comPos(c.m, c.d)
            R = c.d.xmat[body + 1].reshape(3, 3)
            mujoco.mj_jac(c.m, c.d, linear, angular, c.d.xpos[body + 1] + R @ points[w], body + 1)
            worst = max(worst, np.abs(J[w] - np.vstack([angular, linear])).max())
    # Levers of up to 10 m multiply the error of the axes.
    within(f"{dtype} {name}: Jacobian", worst, 10.0 * POSE[dtype])


@every_model
@every_dtype
def test_energy(case, name, dtype, within):
    """Kinetic and potential energy; relative to their sum of magnitudes, as potential energy has no natural zero."""
    c = case(name, dtype)
    kinetic, potential = (x.numpy() for x in c.sim.energy(c.sim.state(c.q, c.v)))
    scale = np.abs(c.energy).sum(axis=1)
    within(f"{dtype} {name}: kinetic energy", np.max(np.abs(kinetic - c.energy[:, 0]) / scale), RELATIVE[dtype])
    within(f"{dtype} {name}: potential energy", np.max(np.abs(potential - c.energy[:, 1]) / scale), RELATIVE[dtype])


def effort_forces(step, v, h: float) -> np.ndarray:
    """Generalised force at v of the actuators that a row stands for: clamp((v_hat - J v)/R, lower, upper)/h."""
    table, force = step.scalar_rows, np.zeros_like(v)
    R, v_hat, low, high = (getattr(table.rows, x).numpy().astype(float) for x in ("R", "v_hat", "lower", "upper"))
    for k in table.of(ACTUATOR):
        dofs, J = table.support[k, : table.support_size[k]], table.rows.J.numpy()[:, k, : table.support_size[k]]
        on = R[:, k] > 0
        y = (v_hat[on, k] - np.sum(J[on] * v[on][:, dofs], axis=1)) / R[on, k]
        force[np.ix_(on, dofs)] += J[on] * (np.clip(y, low[on, k], high[on, k]) / h)[:, None]
    return force


@every_model
@every_dtype
def test_actuators_springs_and_dampers(case, name, dtype, rng, within):
    """Applied forces at (q, v, control) against qfrc_passive + qfrc_actuator: springs and dampers of all joint types,
    motor, position, velocity and affine actuators with gears, control and force ranges (controls reach past both)."""
    c = case(name, dtype)
    m, d = c.m, c.d
    control = (3.0 * rng.normal(size=(STATES, m.nu))).astype(dtype).astype(float)
    # A step leaves the forces of the state it began from in its workspace; those of actuators with rows, in the limit of a
    # step of no length, in the rows.
    h = 1e-12
    sim = ws.Simulator(c.model, STATES, h, solver=ws.NoContact(), device=c.device, dtype=dtype)
    sim.step(sim.state(c.q, c.v), control)
    step = sim._step
    force = step.force.numpy() - step.damping.numpy() * c.v + effort_forces(step, c.v, h)
    expected = np.zeros((STATES, m.nv))
    for w in range(STATES):
        d.qpos[:], d.qvel[:], d.ctrl[:] = normalised(m, c.q[w]), c.v[w], control[w]
        mujoco.mj_fwdPosition(m, d)
        mujoco.mj_fwdVelocity(m, d)
        mujoco.mj_fwdActuation(m, d)
        expected[w] = d.qfrc_passive + d.qfrc_actuator
    assert np.abs(expected).max() > 0.1
    error = np.abs(force - expected).max() / np.abs(expected).max()
    within(f"{dtype} {name}: applied forces", error, RELATIVE[dtype])


def test_feedback_of_actuators_is_implicit(case, rng):
    """Without a force range D takes gear^2 times the velocity slope; with one a row takes slope and stiffness, D nothing."""
    c = case("zoo", "float64")
    slide = c.model.joint_coordinates("slide")[1].start
    control = np.zeros((STATES, c.m.nu))
    control[:, 3] = rng.uniform(0.0, 1.0, size=STATES)
    c.sim.step(c.sim.state(c.q, c.v), control)
    D, table = c.sim._step.damping.numpy(), c.sim._step.scalar_rows
    np.testing.assert_array_equal(D[:, slide], 2.0)
    row = next(k for k in table.of(ACTUATOR) if table.support[k, 0] == slide)
    np.testing.assert_allclose(table.rows.R.numpy()[:, row], 1.0 / (c.sim.dt * (c.sim.dt * 40.0 + 3.0)), rtol=1e-12)
    np.testing.assert_array_equal(table.rows.J.numpy()[:, row, 0], 2.0)
    tail = c.model.joint_coordinates("tail")[1].start
    np.testing.assert_allclose(D[:, tail], 1.5**2 * (control[:, 3] + 0.2), rtol=1e-12)


def test_a_velocity_gain_that_feeds_energy_in_is_not_implicit(device):
    """Force = u v with u > 0 is negative damping: implicit it would make A = M + h D indefinite (here 1 - 2 kg)."""
    b = ws.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("cart", mass=1.0, inertia=[1, 1, 1])
    b.add_joint("cart", "slide")
    b.add_actuator(0, "affine", gain=[0, 0, 1], bias=[0, 0, 0])
    sim = ws.Simulator(b.build(), dt=0.01, solver=ws.NoContact(), device=device, dtype="float64")
    state = sim.step(sim.state(v=[1.0]), [[200.0]])
    np.testing.assert_allclose(state.v.numpy(), [[1.0 + 0.01 * 200.0 * 1.0]], rtol=1e-12)
    assert sim.diagnostics.flags.numpy()[0] == 0


def test_wrench_and_tau_act_as_forces_on_bodies(case, rng):
    """A wrench (torque, force) at every COM in world axes is J^T of it (mj_applyFT); tau adds to it."""
    c = case("zoo", "float64")
    wrench, tau = rng.normal(size=(STATES, c.model.nbody, 6)), rng.normal(size=(STATES, c.m.nv))
    state = c.sim.state(c.q, c.v)
    c.sim.step(state)
    without = c.sim._step.force.numpy().copy()
    c.sim.step(state, tau=tau, wrench=wrench)
    added = c.sim._step.force.numpy() - without
    for w in range(0, STATES, 10):
        expected = tau[w].copy()
        c.d.qpos[:] = c.q[w]
        mujoco.mj_kinematics(c.m, c.d)
        mujoco.mj_comPos(c.m, c.d)
        for body in range(c.model.nbody):
            torque, force = wrench[w, body, :3], wrench[w, body, 3:]
            mujoco.mj_applyFT(c.m, c.d, force, torque, c.d.xipos[body + 1], body + 1, expected)
        np.testing.assert_allclose(added[w], expected, rtol=1e-9, atol=1e-11)


def test_integration_on_the_manifold(case):
    """q' = q (+) h v for every joint type, against mj_integratePos, over a step long enough to turn by a radian."""
    c = case("zoo", "float64")
    options = {"solver": ws.NoContact(), "integrator": ws.ExplicitEuler(), "device": c.device, "dtype": "float64"}
    sim = ws.Simulator(c.model, worlds=STATES, dt=1.0, **options)  # which moves q by the velocity that it begins with
    q, v = sim.step(sim.state(c.q, c.v)).q.numpy(), c.v
    for w in range(0, STATES, 10):
        expected = c.q[w].copy()
        mujoco.mj_integratePos(c.m, expected, v[w], 1.0)
        np.testing.assert_allclose(q[w], expected, rtol=1e-10, atol=1e-10 * np.abs(v[w]).max())


# Pinocchio -----------------------------------------------------------------------------------------------------------

URDF = """<robot name="branch">
  <link name="base"><inertial><mass value="3"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  {links}
  <joint name="turn" type="revolute"><parent link="base"/><child link="a"/><origin xyz="0 .1 .2" rpy=".1 .2 .3"/>
    <axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="5" velocity="1"/></joint>
  <joint name="lift" type="prismatic"><parent link="a"/><child link="b"/><origin xyz=".2 0 0" rpy="0 .5 0"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="5" velocity="1"/></joint>
  <joint name="roll" type="continuous"><parent link="b"/><child link="c"/><origin xyz="0 .1 .3" rpy="1 0 0"/>
    <axis xyz="0 1 0"/></joint>
  <joint name="side" type="revolute"><parent link="a"/><child link="d"/><origin xyz="-.2 0 .1" rpy="0 0 1"/>
    <axis xyz=".6 0 .8"/><limit lower="-2" upper="2" effort="5" velocity="1"/></joint>
</robot>""".format(
    links="".join(
        f'<link name="{name}"><inertial><origin xyz="{x} .05 -.02" rpy=".3 {x} 0"/><mass value="{1 + x}"/>'
        f'<inertia ixx=".01" iyy=".02" izz=".015" ixy=".001" ixz="-.002" iyz=".0005"/></inertial></link>'
        for name, x in (("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 0.4))
    )
)


def pinocchio_answers(pin, model, q, v, a):
    data = model.createData()
    M = pin.crba(model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    return M, pin.rnea(model, data, q, v, a), pin.aba(model, data, q, v, pin.rnea(model, data, q, v, a))


def test_urdf_against_pinocchio(device, tmp_path, rng):
    """A branched URDF with revolute, prismatic and continuous joints: M, RNEA, ABA to 1e-9 relative."""
    pin = pytest.importorskip("pinocchio")
    path = tmp_path / "branch.urdf"
    path.write_text(URDF)
    theirs = pin.buildModelFromUrdf(str(path))
    model = ws.load(path)
    sim = ws.Simulator(model, worlds=20, solver=ws.NoContact(), device=device, dtype="float64")
    q, v, a = rng.normal(size=(3, 20, model.nv))
    M, tau = sim.mass_matrix(q).numpy(), sim.inverse_dynamics(q, v, a).numpy()
    back = sim.forward_dynamics(q, v, tau).numpy()
    column = [model.joint_coordinates(name)[1].start for name in list(theirs.names)[1:]]
    for w in range(20):
        x = np.zeros(theirs.nq)
        for k, joint in enumerate(list(theirs.joints)[1:]):
            value = q[w, column[k]]
            x[joint.idx_q : joint.idx_q + joint.nq] = value if joint.nq == 1 else (np.cos(value), np.sin(value))
        M_ref, tau_ref, _ = pinocchio_answers(pin, theirs, x, v[w, column], a[w, column])
        np.testing.assert_allclose(M[w][np.ix_(column, column)], M_ref, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(tau[w, column], tau_ref, rtol=1e-9, atol=1e-9 * np.abs(tau_ref).max())
        np.testing.assert_allclose(back[w], a[w], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["walker2d", "ant", "humanoid"])
def test_mjcf_against_pinocchio(device, assets, name, rng):
    """Robots with fixed and floating base. Pinocchio's free-flyer velocity is the body's, ours the world's: v_pin = X v."""
    pin = pytest.importorskip("pinocchio")
    theirs, model = pin.buildModelFromMJCF(assets(name)), ws.load(mujoco.MjModel.from_xml_path(assets(name)))
    theirs.gravity.linear = np.array(model.gravity)
    sim = ws.Simulator(model, worlds=20, solver=ws.NoContact(), device=device, dtype="float64")
    q, v, a = random_states(mujoco.MjModel.from_xml_path(assets(name)), 20, "float64", rng)
    M, tau = sim.mass_matrix(q).numpy(), sim.inverse_dynamics(q, v, a).numpy()
    for w in range(20):
        x, X, drift = q[w].copy(), np.eye(model.nv), np.zeros(model.nv)
        if name != "walker2d":
            x[3:7] = q[w, [4, 5, 6, 3]]
            R = pin.Quaternion(x[3:7]).toRotationMatrix()
            X[:3, :3] = R.T
            # d/dt (R^T u) = R^T du/dt - omega x R^T u
            drift[:3] = -np.cross(v[w, 3:6], R.T @ v[w, :3])
        M_ref, tau_ref, _ = pinocchio_answers(pin, theirs, x, X @ v[w], X @ a[w] + drift)
        np.testing.assert_allclose(M[w], X.T @ M_ref @ X, rtol=0, atol=1e-9 * np.abs(M_ref).max())
        np.testing.assert_allclose(tau[w], X.T @ tau_ref, rtol=0, atol=1e-9 * np.abs(tau_ref).max())


def test_queries_take_device_arrays_and_leave_the_step_alone(case):
    """Queries accept host rows and device arrays alike and have a workspace of their own: a step is not disturbed."""
    c = case("ant", "float64")
    state = c.sim.state(c.q, c.v)
    expected = c.sim.step(state).q.numpy()
    host = c.sim.mass_matrix(c.q).numpy()
    on_device = c.sim.mass_matrix(wp.array(c.q, dtype=wp.float64, device=c.device)).numpy()
    c.sim.inverse_dynamics(c.q * 0.9, c.v, c.a)
    assert np.array_equal(host, on_device)
    assert np.array_equal(c.sim.step(state).q.numpy(), expected)
