# SPDX-License-Identifier: Apache-2.0
"""Muscles on joints and fixed tendons: MuJoCo's forces in every branch of the law, gradients through them, and motions."""

import dataclasses

import mujoco
import numpy as np
import pytest

import warpsim as ws

SOLVER = ws.SAP(tolerance=1e-13)
ARM = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.05"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
      <body name="lower" pos="0.3 0 0"><joint name="elbow" axis="0 1 0.2" damping="0.05"/><geom type="capsule" size="0.02" fromto="0 0 0 0.2 0.05 0" contype="0" conaffinity="0"/></body>
    </body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="shoulder" coef="0.5"/><joint joint="elbow" coef="-0.3"/></fixed></tendon>
  <actuator>
    <muscle name="up" joint="shoulder" lengthrange="-0.5 0.9" force="6" timeconst="0.02 0.05" tausmooth="0.1" gear="1.3"/>
    <muscle name="down" joint="shoulder" lengthrange="-0.9 0.5" force="5" gear="-1"/>
    <muscle name="flexor" joint="elbow" lengthrange="-0.9 0.5" scale="50" lmin="0.6" lmax="1.4" vmax="3" fpmax="1.1" fvmax="1.4" range="0.6 1.2"/>
    <muscle name="both" tendon="t" lengthrange="-0.5 0.5" force="20" ctrllimited="true" ctrlrange="0 1"/>
    <general name="mixed" joint="shoulder" gaintype="muscle" gainprm="0.75 1.05 3 200 0.5 1.6 1.5 1.3 1.2" lengthrange="-0.5 0.8" biastype="affine" biasprm="0.3 -1 0"/>
  </actuator>
</mujoco>
"""


@pytest.fixture(scope="module")
def arm() -> tuple[mujoco.MjModel, ws.Model]:
    m = mujoco.MjModel.from_xml_string(ARM)
    return m, ws.load(m)


def test_forces_are_mujocos_in_all_branches(arm, within):
    """3000 random states: lengths from slack to beyond the passive force's bend, velocities both ways beyond vmax, activations beyond 0 and 1."""
    m, model = arm
    W, rng = 3000, np.random.default_rng(0)
    q, v = rng.uniform(-1.8, 1.8, (W, 2)), 4 * rng.normal(size=(W, 2))
    act, u = rng.uniform(-0.2, 1.2, (W, model.na)), rng.uniform(-0.3, 1.3, (W, model.nu))
    sim = ws.Simulator(model, W, dtype="float64", device="cpu", solver=SOLVER)
    after = sim.step(sim.state(q, v, activation=act), u)
    s = np.stack(
        [np.ones((W, model.nu)), sim._step.actuation.length.numpy(), sim._step.actuation.velocity.numpy()], axis=-1
    )
    ours = (sim._step.actuation.law.numpy() * s).sum(-1)
    d, theirs, moved, lengths = mujoco.MjData(m), np.zeros((W, model.nu)), np.zeros((W, 2)), np.zeros((W, model.nu))
    for w in range(W):
        d.qpos, d.qvel, d.act, d.ctrl = q[w], v[w], act[w], u[w]
        mujoco.mj_step(m, d)
        theirs[w], lengths[w], moved[w] = d.actuator_force, d.actuator_length, d.qvel
        np.testing.assert_allclose(after.activation.numpy()[w], d.act, atol=1e-15)
    L0 = (model.actuator_length_range[:, 1] - model.actuator_length_range[:, 0]) / (
        model.actuator_muscle[:, 0, 1] - model.actuator_muscle[:, 0, 0]
    )
    L = model.actuator_muscle[:, 0, 0] + (lengths - model.actuator_length_range[:, 0]) / L0
    V = sim._step.actuation.velocity.numpy() / (L0 * model.actuator_muscle[:, 0, 5])
    low, high = model.actuator_muscle[:, 0, 3], model.actuator_muscle[:, 0, 4]
    for branch in (
        L < low,
        (L > low) & (L < (low + 1) / 2),
        (L > 1) & (L < (1 + high) / 2),
        L > (1 + high) / 2,
        L > high,
        V < -1,
        V > 1,
    ):
        assert branch[:, :4].any()
    for a in range(model.nu):
        within(
            f"force of {model.actuator_names[a]}", np.abs(ours - theirs)[:, a].max() / np.abs(theirs[:, a]).max(), 1e-14
        )
    pulls = theirs[:, :4]
    within(
        "forces, each relative to itself",
        (np.abs(ours[:, :4] - pulls)[pulls != 0] / np.abs(pulls[pulls != 0])).max(),
        1e-12,
    )
    within("velocities after a step", np.abs(after.v.numpy() - moved).max() / np.abs(moved).max(), 1e-10)


@pytest.mark.parametrize(
    "integrator",
    [ws.SymplecticEuler(), ws.Midpoint(tolerance=1e-15), ws.Variational(tolerance=1e-13)],
    ids=lambda x: type(x).__name__,
)
def test_gradients_through_muscles(arm, integrator):
    """Central differences at 1, 10 and 40 steps."""
    _, model = arm
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True, integrator=integrator, solver=SOLVER)
    u = np.random.default_rng(1).uniform(0.1, 0.9, (40, 1, model.nu))
    start = sim.state([0.2, -0.1], [0.5, -0.3], activation=[0.3, 0.2, 0.5, 0.4])
    found = ws.check_gradients(sim, start, u)
    assert found.ok, str(found)


def test_linearize_sees_lengths_velocities_and_activations(arm, within):
    """A against central differences at a state where the muscles pull."""
    _, model = arm
    n, size = 2 * model.nv + model.na, 1e-6
    x0, u = np.array([0.2, -0.1, 0.5, -0.3, 0.3, 0.2, 0.5, 0.4]), np.full(model.nu, 0.6)
    many = ws.Simulator(model, 2 * n, dtype="float64", device="cpu", solver=SOLVER)
    x = x0 + size * np.concatenate([np.eye(n), -np.eye(n)])
    after = many.step(many.state(x[:, :2], x[:, 2:4], activation=x[:, 4:]), np.tile(u, (2 * n, 1)))
    y = np.concatenate([after.q.numpy(), after.v.numpy(), after.activation.numpy()], axis=1)
    expected = ((y[:n] - y[n:]) / (2 * size)).T
    for name in ([], ["actuator_gain"]):  # in closed form, and by reverse passes
        sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=bool(name), solver=SOLVER)
        J = sim.linearize(sim.state(x0[:2], x0[2:4], activation=x0[4:]), u[None], parameters=name)
        within(f"A {name}", np.abs(J.A.numpy()[0] - expected).max(), 1e-7)


def test_a_pair_of_muscles_holds_an_arm_where_theory_says(within):
    """Two equal muscles against each other without gravity: at rest where their forces are equal, 0; more drive of one pulls the arm to its side,
    to where F FL(L1) a1 + F FP(L1) = F FL(L2) a2 + F FP(L2)."""
    b = ws.ModelBuilder("antagonists", gravity=(0, 0, 0), timestep=0.002)
    body = b.add_body("arm", mass=1.0, com=[0.2, 0, 0], inertia=[0.01, 0.01, 0.01])
    b.add_joint(body, "hinge", name="h", axis=(0, 1, 0), damping=1.0)
    muscle = ws.Muscle(force=10.0, length_range=(-1.0, 1.0), range=(0.5, 1.1), fpmax=1.3)
    for name, gear in (("a", 1.0), ("b", -1.0)):
        b.add_actuator("h", "muscle", name=name, gear=gear, muscle=muscle)
    sim = ws.Simulator(b.build(), 2, dtype="float64", device="cpu")
    drive = np.tile([[0.5, 0.5], [0.8, 0.3]], (1, 1))
    final = sim.rollout(sim.state([[0.4], [0.0]]), np.tile(drive, (5000, 1, 1))).final
    within("symmetric drive rests at 0", abs(final.q.numpy()[0, 0]), 1e-9)
    within("activations are the controls", np.abs(final.activation.numpy() - drive).max(), 1e-9)
    m = mujoco.MjModel.from_xml_string(ARM)
    prm, q = [0.5, 1.1, 10, 0, 0.5, 1.6, 1.5, 1.3, 1.2], final.q.numpy()[1, 0]

    def pull(length, a):
        at = (length, [-1.0, 1.0], 1.0, prm)
        return mujoco.mju_muscleGain(length, 0.0, *at[1:]) * a + mujoco.mju_muscleBias(*at)

    assert m.nu == 5 and q < -0.05
    within("forces balance", abs(pull(q, 0.8) - pull(-q, 0.3)), 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_muscles_with_nothing_to_pull_stay_finite(dtype):
    """A range of motion of a micrometre, no peak force, no force when lengthening: no flag, no NaN."""
    b = ws.ModelBuilder("weak", timestep=0.002)
    body = b.add_body("arm", mass=1.0, com=[0.2, 0, 0], inertia=[0.01, 0.01, 0.01])
    b.add_joint(body, "hinge", name="h", axis=(0, 1, 0))
    b.add_actuator("h", "muscle", muscle=ws.Muscle(force=0.0, length_range=(0, 1e-6), lmin=0.0))
    b.add_actuator("h", "muscle", muscle=ws.Muscle(force=1.0, length_range=(0, 1), fvmax=0.0, fpmax=0.0))
    sim = ws.Simulator(b.build(), 2, dtype=dtype, device="cpu")
    final = sim.rollout(sim.state(), ws.RandomControls(0), steps=100).final
    assert not final.memory["flags"].numpy().any() and np.isfinite(final.q.numpy()).all()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"force": -1, "length_range": (0, 1)}, "force"),
        ({"force": 1, "length_range": (1, 0)}, "length_range"),
        ({"force": 1, "length_range": (0, 1), "lmax": 0.9}, "lmax"),
        ({"force": 1, "length_range": (0, 1), "times": (0, 1)}, "times"),
    ],
)
def test_a_muscle_that_is_none_is_refused(options, words):
    """One error that names the constant."""
    with pytest.raises(ws.ModelError, match=words):
        ws.Muscle(**options)


CONSTANTS = {
    "actuator_time": lambda x: 1.5 * x,
    "actuator_length_range": lambda x: x + [-0.1, 0.2],
    "muscle_force": lambda x: 0.7 * x,
    "muscle_curve": lambda x: x * [1.1, 1.15, 0.8, 1.1, 0.7, 0.9, 1.05],
}


def with_constants(model: ws.Model, name: str, values: np.ndarray) -> ws.Model:
    """The model with other constants of its muscles."""
    if name in ("actuator_time", "actuator_length_range"):
        return dataclasses.replace(model, **{name: values})
    rows = model.actuator_muscle.copy()
    rows[..., [2] if name == "muscle_force" else [0, 1, 3, 4, 5, 6, 7]] = values.reshape(*rows.shape[:2], -1)
    return dataclasses.replace(model, actuator_muscle=rows)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_muscles_are_those_of_their_world(arm, name):
    """Written for world 1 only they leave every bit of worlds 0 and 2; world 1 has the bits of a model with these constants."""
    _, model = arm
    start, u = (([0.6, 0.7], [0.5, -0.3]), [0.3, 0.2, 0.5, 0.4]), np.full((60, 3, model.nu), 0.6)

    def run(sim):
        return sim.rollout(sim.state(*start[0], activation=start[1]), u).q.numpy()

    before = run(ws.Simulator(model, 3, device="cpu", solver=SOLVER, dtype="float64"))
    sim, given = ws.Simulator(model, 3, device="cpu", solver=SOLVER, dtype="float64"), getattr(model, name)
    changed = CONSTANTS[name](given)
    sim.parameters[name] = np.array([given, changed, given])
    after = run(sim)
    np.testing.assert_array_equal(after[:, [0, 2]], before[:, [0, 2]])
    assert np.abs(after[:, 1] - before[:, 1]).max() > 1e-3
    other = ws.Simulator(with_constants(model, name, changed), 3, device="cpu", solver=SOLVER, dtype="float64")
    np.testing.assert_array_equal(after[:, 1], run(other)[:, 1])


@pytest.mark.parametrize(
    "integrator",
    [ws.SymplecticEuler(), ws.Midpoint(tolerance=1e-15), ws.Variational(tolerance=1e-13)],
    ids=lambda x: type(x).__name__,
)
def test_gradients_by_the_constants_of_muscles(arm, integrator):
    """Central differences at 1, 10 and 40 steps, entry by entry, in two worlds whose muscles differ."""
    _, model = arm
    sim = ws.Simulator(
        model, 2, dtype="float64", device="cpu", requires_grad=True, integrator=integrator, solver=SOLVER
    )
    for name, change in CONSTANTS.items():
        given = getattr(model, name)
        sim.parameters[name] = np.array([given, change(given)])
    u = np.random.default_rng(1).uniform(0.1, 0.9, (40, 2, model.nu))
    start = sim.state([0.6, 0.7], [0.5, -0.3], activation=[0.3, 0.2, 0.5, 0.4])
    found = ws.check_gradients(sim, start, u, variables=["q"], parameters=list(CONSTANTS), entries=70)
    assert found.ok, str(found)


def test_linearize_has_columns_of_the_constants_of_muscles(arm, within):
    """By central differences, rows of activations included; NaN constants have columns of zeros, and gradients of tapes stay as they were."""
    _, model = arm
    x0, u, size = ([0.6, 0.7], [0.5, -0.3]), np.full((1, model.nu), 0.6), 1e-6
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True, solver=SOLVER)
    state = sim.state(*x0, activation=[0.3, 0.2, 0.5, 0.4])
    J = sim.linearize(state, u, parameters=list(CONSTANTS))
    for name in CONSTANTS:
        given, found = sim.parameters[name].numpy().copy(), J.parameters[name].numpy()[0]
        assert not sim.parameters[name].grad.numpy().any()
        for k, at in enumerate(np.ndindex(given.shape)):
            y = []
            for side in (1, -1):
                moved = given.copy()
                moved[at] *= 1 + side * size
                sim.parameters[name] = moved
                after = sim.step(state, u)
                y.append(np.concatenate([x.numpy()[0] for x in (after.q, after.v, after.activation)]))
            sim.parameters[name] = given
            expected = (y[0] - y[1]) / (2 * size)
            scale = given[at] if np.isfinite(given[at]) else 1.0
            within(f"{name} {at}", np.abs(found[:, k] * scale - expected).max(), 1e-8)


def test_constants_that_are_none_of_a_muscle_are_refused(arm):
    """One error that names the parameter and the place; a model without muscles has no such parameters."""
    _, model = arm
    sim = ws.Simulator(model, 2, device="cpu")
    wrong = {
        "actuator_time": 0.0 * model.actuator_time,
        "actuator_length_range": model.actuator_length_range[:, ::-1],
        "muscle_force": np.nan_to_num(model.muscle_force),
        "muscle_curve": -model.muscle_curve,
    }
    plain = ws.ModelBuilder("plain")
    plain.add_joint(plain.add_body("b", mass=1.0, inertia=[1, 1, 1]), "hinge", name="h")
    plain.add_actuator("h", "effort")
    without = ws.Simulator(plain.build(), device="cpu")
    for name, values in wrong.items():
        with pytest.raises(ValueError, match=name):
            sim.parameters[name] = values
        with pytest.raises(ValueError, match="the model has none of"):
            without.parameters[name]
