# SPDX-License-Identifier: Apache-2.0
"""Actuators with first-order activations: MuJoCo's steps, gradients, Jacobians, and what states of them must not break."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

SOLVER = ws.SAP(tolerance=1e-13)
CHAIN = """
<mujoco>
  <option timestep="0.003" gravity="0 0 -3"/>
  <worldbody>
    <body name="b0"><joint name="j0" axis="0.1 1 0.2" damping="0.02"/><geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 0.2" contype="0" conaffinity="0"/>
      <body name="b1" pos="0.1 0 0.2"><joint name="j1" axis="1 0.3 0" damping="0.02"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0.1 0.2" contype="0" conaffinity="0"/>
        <body name="b2" pos="0 0.1 0.2"><joint name="j2" type="slide" axis="0 1 0.5" damping="0.3"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0.1 0.1" contype="0" conaffinity="0"/>
          <body name="b3" pos="0 0.1 0.1"><joint name="j3" type="ball"/><geom type="box" size="0.03 0.04 0.05" contype="0" conaffinity="0"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="j0" coef="0.7"/><joint joint="j1" coef="-0.4"/></fixed></tendon>
  <actuator>
    <general name="filter" joint="j0" dyntype="filter" dynprm="0.03" gainprm="2" biastype="affine" biasprm="0.1 -1 0" ctrllimited="true" ctrlrange="-0.8 0.8"/>
    <motor name="plain" joint="j1" gear="0.5"/>
    <general name="exact" joint="j2" dyntype="filterexact" dynprm="0.02" gainprm="1.5" gear="2"/>
    <general name="integrator" tendon="t" dyntype="integrator" gainprm="3" actlimited="true" actrange="-0.02 0.03"/>
    <general name="early" joint="j0" dyntype="filter" dynprm="0.01" gainprm="1" actearly="true" actlimited="true" actrange="-0.5 0.5"/>
    <general name="ball" joint="j3" dyntype="filterexact" dynprm="0.05" gainprm="0.1" gear="1 0.5 -0.3"/>
    <general name="bent" joint="j1" dyntype="muscle" dynprm="0.01 0.04 0.2" gainprm="1"/>
    <general name="sudden" joint="j1" dyntype="muscle" dynprm="0.01 0.04" gainprm="-1"/>
  </actuator>
  <keyframe><key name="k" act="0.1 -0.2 0.01 0.3 0.2 0.5 0.4"/></keyframe>
</mujoco>
"""


def chain() -> tuple[mujoco.MjModel, ws.Model]:
    m = mujoco.MjModel.from_xml_string(CHAIN)
    return m, ws.load(m)


def controls(steps: int, nu: int, worlds: int = 1) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(steps, worlds, nu))


def test_activations_and_forces_are_mujocos(within):
    """Every dynamics MuJoCo's Euler has, with ranges and the force of the next activation: activations and accelerations step by step."""
    m, model = chain()
    assert model.na == m.na == 7 and model.actuator_activation.tolist() == [0, -1, 1, 2, 3, 4, 5, 6]
    d = mujoco.MjData(m)
    mujoco.mj_resetDataKeyframe(m, d, 0)
    sim = ws.Simulator(model, dtype="float64", device="cpu", solver=SOLVER)
    state = sim.state(keyframe="k")
    u = controls(200, model.nu)
    worst = moved = 0.0
    for k in range(len(u)):
        d.ctrl[:] = u[k, 0]
        mujoco.mj_step(m, d)
        state = sim.step(state, u[k])
        worst = max(worst, np.abs(state.activation.numpy()[0] - d.act).max())
        moved = max(moved, np.abs(state.v.numpy()[0] - d.qvel).max() / np.abs(d.qvel).max())
    within("activations against MuJoCo, 200 steps", worst, 1e-12)
    within("velocities against MuJoCo, 200 steps", moved, 1e-9)


@pytest.mark.parametrize(
    "integrator",
    [
        ws.SymplecticEuler(),
        ws.ExplicitEuler(),
        ws.ImplicitEuler(tolerance=1e-15),
        ws.Midpoint(tolerance=1e-15),
        ws.Variational(tolerance=1e-13),
    ],
    ids=lambda x: type(x).__name__,
)
def test_gradients_by_and_through_activations(integrator):
    """Central differences of a random loss of q, v and activations at 1, 10 and 40 steps."""
    _, model = chain()
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True, integrator=integrator, solver=SOLVER)
    found = ws.check_gradients(
        sim, sim.state(keyframe="k", v=0.2 * np.ones(model.nv)), 0.5 * controls(40, model.nu), entries=4
    )
    assert {row.variable for row in found.rows} == {"q", "v", "activation", "controls"}
    assert found.ok, str(found)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"integrator": ws.Midpoint(tolerance=1e-15)},
        {"integrator": ws.Variational(tolerance=1e-13)},
        {"solver": ws.LCP()},
    ],
)
def test_linearize_has_rows_and_columns_of_activations(options, within):
    """A (2 nv + na) and B against central differences; a second call fills the same arrays."""
    _, model = chain()
    n = 2 * model.nv + model.na
    settings = {"solver": SOLVER} | options
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True, **settings)
    q0, v0, a0, u0 = model.q0, 0.2 * np.ones(model.nv), model.keyframes["k"].activation, 0.3 * controls(1, model.nu)[0]
    size = 1e-5
    moves = np.concatenate([np.eye(n + model.nu), -np.eye(n + model.nu)]) * size
    many = ws.Simulator(model, len(moves), dtype="float64", device="cpu", **settings)
    q = model.displace(np.tile(q0, (len(moves), 1)), moves[:, : model.nv])
    start = many.state(q, v0 + moves[:, model.nv : 2 * model.nv], activation=a0 + moves[:, 2 * model.nv : n])
    after = many.step(start, u0 + moves[:, n:])
    here = sim.step(sim.state(q0, v0, activation=a0), u0)
    x = (model.difference(here.q.numpy(), after.q.numpy()), after.v.numpy(), after.activation.numpy())
    x = np.concatenate(x, axis=1)
    slopes = ((x[: n + model.nu] - x[n + model.nu :]) / (2 * size)).T
    at = sim.state(q0, v0, activation=a0)
    J = sim.linearize(at, u0, parameters=["actuator_gain"])  # by reverse passes
    shapes = J.A.shape, J.B.shape, J.parameters["actuator_gain"].shape
    assert shapes == ((1, n, n), (1, n, model.nu), (1, n, 3 * model.nu))
    J = sim.linearize(at, u0, parameters=["actuator_gain"], out=J)
    found = {"reverse": J}
    if not options:  # the closed form, of which the masses' columns are those of the reverse passes
        plain = ws.Simulator(model, dtype="float64", device="cpu", solver=SOLVER)
        found["closed"] = plain.linearize(plain.state(q0, v0, activation=a0), u0, parameters=["body_mass"])
        found["closed"] = plain.linearize(
            plain.state(q0, v0, activation=a0), u0, parameters=["body_mass"], out=found["closed"]
        )
        by_mass = sim.linearize(at, u0, parameters=["body_mass", "actuator_bias"]).parameters["body_mass"].numpy()
        error = np.abs(found["closed"].parameters["body_mass"].numpy() - by_mass).max()
        within("by masses", error, 1e-10 * np.abs(by_mass).max())
        with pytest.raises(ValueError, match="no closed form by 'actuator_gain'"):
            plain.linearize(plain.state(), u0, parameters=["actuator_gain"])
    for way, J in found.items():
        A, B = J.A.numpy()[0], J.B.numpy()[0]
        within(f"A, {way}, {options}", np.abs(A - slopes[:, :n]).max() / np.abs(slopes[:, :n]).max(), 1e-8)
        within(f"B, {way}, {options}", np.abs(B - slopes[:, n:]).max() / np.abs(slopes[:, n:]).max(), 1e-8)


def test_checkpointed_rollouts_have_the_same_gradients():
    """States are kept with their activations, and repeated from them: the same bits."""
    _, model = chain()
    sim = ws.Simulator(model, 2, dtype="float64", device="cpu", requires_grad=True, solver=SOLVER)
    found = []
    for every in (None, 4):
        start = sim.state(keyframe="k")
        u = wp.array(0.3 * controls(10, model.nu, 2), dtype=wp.float64, device="cpu", requires_grad=True)
        with wp.Tape() as tape:
            trajectory = sim.rollout(start, u, checkpoint_every=every)
        ones = {x: wp.full(x.shape, 1.0, dtype=wp.float64, device="cpu") for x in (trajectory.q, trajectory.activation)}
        tape.backward(grads=ones)
        found.append([start.activation.grad.numpy(), u.grad.numpy(), start.v.grad.numpy()])
    assert np.abs(found[0][0]).min() > 0
    for plain, kept in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, kept)


def test_rollouts_stores_and_resets_carry_activations(tmp_path):
    """Rows of a trajectory, of its store and of a saved one; worlds that are reset."""
    _, model = chain()
    sim = ws.Simulator(model, 3, dtype="float64", device="cpu")
    state = sim.state(keyframe="k")
    plain = sim.rollout(state, ws.RandomControls(1), steps=12)
    stored = sim.rollout(state, ws.RandomControls(1), steps=12, store=tmp_path / "run.zarr")
    np.testing.assert_array_equal(plain.activation.numpy(), np.asarray(stored.activation))
    np.testing.assert_array_equal(plain.activation.numpy()[-1], plain.final.activation.numpy())
    plain.save(tmp_path / "saved.zarr")
    read = ws.Trajectory.load(tmp_path / "saved.zarr")
    np.testing.assert_array_equal(read.rows("activation", [3, 12]), plain.activation.numpy()[[3, 12]])
    for name in ("actuator_dynamics", "actuator_time", "activation_range", "actuator_early", "actuator_group"):
        np.testing.assert_array_equal(getattr(read.model, name), getattr(model, name))
    np.testing.assert_array_equal(read.model.keyframes["k"].activation, model.keyframes["k"].activation)
    sim.reset(plain.final, [1], activation=0.01 * np.ones(7))
    sim.reset(plain.final, np.array([False, False, True]))
    assert plain.final.activation.numpy()[1:].tolist() == [[0.01] * 7, [0.0] * 7]
    np.testing.assert_array_equal(plain.final[0].activation.numpy(), plain.activation.numpy()[-1, :1])


class Stopping:
    """Constant controls, of which the seventh fails once."""

    def __init__(self, control):
        self.control, self.calls, self.fails = control, 0, True

    def __call__(self, state):
        self.calls += 1
        if self.fails and self.calls == 7:
            raise RuntimeError("stopped")
        return self.control

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, kept):
        self.calls, self.fails = kept["calls"], False


def test_a_run_that_was_interrupted_goes_on_with_its_activations(tmp_path):
    """The store's checkpoint has them: the same bits as without the interruption."""
    _, model = chain()
    u = 0.3 * controls(1, model.nu, 2)[0].astype(np.float32)
    sim = ws.Simulator(model, 2, device="cpu")
    source = Stopping(wp.array(u, device="cpu"))
    with pytest.raises(RuntimeError, match="stopped"):
        sim.rollout(sim.state(keyframe="k"), source, steps=12, store=tmp_path / "run.zarr")
    resumed = ws.resume(tmp_path / "run.zarr", Stopping(wp.array(u, device="cpu")))
    plain = sim.rollout(sim.state(keyframe="k"), np.tile(u, (12, 1, 1)))
    np.testing.assert_array_equal(np.asarray(resumed.activation), plain.activation.numpy())
    np.testing.assert_array_equal(resumed.final.activation.numpy(), plain.final.activation.numpy())


def test_a_model_of_models_and_a_stage_keep_the_dynamics(tmp_path):
    """`add_model` and a USD stage give the same actuators and keyframes back."""
    _, model = chain()
    b = ws.ModelBuilder("two", gravity=model.gravity, timestep=model.timestep)
    b.add_model(model, prefix="a_")
    b.add_model(model, prefix="b_", pose=[1, 0, 0])
    two = b.build()
    assert (
        two.na == 14
        and two.keyframes["b_k"].activation.tolist() == [0.0] * 7 + model.keyframes["k"].activation.tolist()
    )
    model.to_usd(tmp_path / "chain.usda")
    read = ws.load(tmp_path / "chain.usda")
    for name in (
        "actuator_dynamics",
        "actuator_time",
        "activation_range",
        "actuator_early",
        "actuator_group",
        "actuator_muscle",
    ):
        np.testing.assert_array_equal(getattr(read, name), getattr(model, name))
        np.testing.assert_array_equal(getattr(two, name)[model.nu :], getattr(model, name))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_bad_activation_or_control_stops_its_own_world_at_once(bad, dtype):
    """NONFINITE in the same step, the last finite activation kept; the other world's bits are as without it."""
    _, model = chain()
    sim = ws.Simulator(model, 2, dtype=dtype, device="cpu")
    u = np.zeros((2, model.nu), dtype=dtype)
    good = sim.step(sim.state(keyframe="k"), wp.array(u, device="cpu"))
    u[0, 3] = bad  # of the integrator, whose force is that of the activation before
    state = sim.state(keyframe="k")
    after = sim.step(state, wp.array(u, device="cpu"))
    if np.isnan(bad):
        assert after.memory["flags"].numpy().tolist() == [ws.NONFINITE, 0]
        np.testing.assert_array_equal(after.activation.numpy()[0], state.activation.numpy()[0])
    np.testing.assert_array_equal(after.activation.numpy()[1], good.activation.numpy()[1])
    np.testing.assert_array_equal(after.v.numpy()[1], good.v.numpy()[1])
    host = state.activation.numpy().copy()
    host[0, 0] = bad
    state.activation.assign(host)
    after = sim.step(state)
    assert after.memory["flags"].numpy().tolist() == [ws.NONFINITE, 0]
    np.testing.assert_array_equal(after.v.numpy()[1], good.v.numpy()[1])


def test_worlds_over_threads_have_the_same_bits():
    """Threads, and worlds by themselves."""
    _, model = chain()
    u = 0.5 * controls(5, model.nu, 6)
    runs = [ws.Simulator(model, 6, device="cpu", threads=n) for n in (1, 2)]
    found = [sim.rollout(sim.state(keyframe="k"), u).activation.numpy() for sim in runs]
    np.testing.assert_array_equal(*found)
    one = ws.Simulator(model, 1, device="cpu")
    np.testing.assert_array_equal(
        one.rollout(one.state(keyframe="k"), u[:, 4:5]).activation.numpy()[:, 0], found[0][:, 4]
    )


def test_wrong_activations_are_refused_by_name():
    """Out of range, of another shape, or of a model without."""
    _, model = chain()
    sim = ws.Simulator(model, 2, device="cpu")
    bad = np.zeros(7)
    bad[2] = 0.5
    for wrong, words in (
        ({"activation": bad}, r"activation of actuator 'integrator' in row 0 is 0.5; its range is -0.02 to 0.03"),
        ({"activation": np.zeros(3)}, r"activation has shape \(3,\); it must be \(7,\) or \(2, 7\)"),
        ({"activation": np.full(7, np.nan)}, r"activation is nan at \(0,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            sim.state(**wrong)
        with pytest.raises(ValueError, match=words):
            sim.reset(sim.state(), [0, 1], **wrong)
    b = ws.ModelBuilder("plain")
    body = b.add_body("x", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "hinge", name="h")
    plain = ws.Simulator(b.build(), device="cpu")
    with pytest.raises(ValueError, match="no actuator of model 'plain' has dynamics"):
        plain.state(activation=[0.0])
    with pytest.raises(ValueError, match="this state has no activation"):
        _ = plain.state().activation
    with pytest.raises(ValueError, match="ilqr plans states of q and v"):
        ws.ilqr(sim, sim.state(), np.zeros((3, 2, model.nu)), ws.Cost(lambda q, v, u: u))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_are_within_the_range(dtype):
    """An activation at a bound that no number of the dtype is, as a step leaves it, is taken again."""
    b = ws.ModelBuilder("plain")
    b.add_joint(b.add_body("x", mass=1.0, inertia=[1, 1, 1]), "hinge", name="h")
    b.add_actuator("h", dynamics=("filter", 0.01), activation_range=(-0.1, 0.1))
    sim = ws.Simulator(b.build(), dtype=dtype, dt=0.01, device="cpu")
    state = sim.state(activation=[0.1])
    for _ in range(100):
        state = sim.step(state, [[3.0]])
    sim.state(state.q, state.v, activation=state.activation)
    sim.reset(state, [0], activation=state.activation)
    np.testing.assert_array_equal(state.activation.numpy(), np.array([[0.1]], dtype))


def test_start_beside_zero():
    """Where a range leaves 0 out, a start has the bound next to it, of simulators, resets and masks on the device alike."""
    b = ws.ModelBuilder("plain")
    b.add_joint(b.add_body("x", mass=1.0, inertia=[1, 1, 1]), "hinge", name="h")
    b.add_actuator("h")
    b.add_actuator("h", dynamics="integrator", activation_range=(1, 2))
    b.add_actuator("h", dynamics="integrator", activation_range=(-3, -0.5))
    b.add_actuator("h", dynamics="integrator")
    sim = ws.Simulator(b.build(), 2, device="cpu")
    expected = [[1.0, -0.5, 0.0]] * 2
    state = sim.state()
    assert state.activation.numpy().tolist() == expected
    mask = wp.array([True, True], dtype=wp.bool, device="cpu")
    for worlds, options in (
        ([0, 1], {}),
        ([0, 1], {"q": [0.1]}),
        (mask, {}),
        (mask, {"q": wp.zeros((2, 1), dtype=float)}),
    ):
        state = sim.step(sim.state(activation=[2.0, -2.0, 1.0]))
        sim.reset(state, worlds, **options)
        assert state.activation.numpy().tolist() == expected


def test_keyframe_beside_zero():
    """A keyframe that gives no activations has those of a start, of a file too, where MuJoCo has 0."""
    m = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><body><joint name="h"/><geom size=".1"/></body></worldbody><actuator>
    <general joint="h" dyntype="integrator" actlimited="true" actrange="1 2"/></actuator><keyframe><key name="k" qpos=".1"/></keyframe></mujoco>""")
    model = ws.load(m)
    assert model.keyframes["k"].activation.tolist() == [1.0]
    assert ws.Simulator(model, device="cpu").state(keyframe="k").activation.numpy().tolist() == [[1.0]]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dynamics": "fast"}, "dynamics is 'fast'; use None, \"integrator\""),
        ({"dynamics": ("filter",)}, r"dynamics 'filter' has the times \[\]; give 1"),
        ({"dynamics": ("muscle", 0.01, -0.1)}, "not negative"),
        ({"activation_range": (0, 1)}, "activation_range means nothing without dynamics"),
        ({"early": True}, "early means nothing without dynamics"),
        ({"dynamics": "integrator", "activation_range": (1, 0)}, "low <= high"),
        ({"kind": "muscle"}, "a muscle needs its constants"),
        ({"muscle": 3.0, "kind": "muscle"}, "give a ws.Muscle"),
    ],
)
def test_builder_refuses_what_means_nothing(options, words):
    """One error that names the actuator."""
    b = ws.ModelBuilder("plain")
    body = b.add_body("x", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "hinge", name="h")
    with pytest.raises(ws.ModelError, match=words):
        b.add_actuator("h", name="a", **options)
    b.add_actuator("h", name="a", dynamics="integrator", activation_range=(0, 1))
    b.add_keyframe("k", activation=[2.0])
    with pytest.raises(ws.ModelError, match="keyframe 'k': the activation of actuator 'a' is 2; its range is 0 to 1"):
        b.build()
