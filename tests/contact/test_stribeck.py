# SPDX-License-Identifier: Apache-2.0
"""Stribeck's law, μ(v) = μ_d + (μ_s − μ_d) exp(−(v/v_s)²): motion against theory, gradients, limits, bad input, files."""

import pickle

import numpy as np
import pytest
import warp as wp
from scipy.integrate import solve_ivp

import warpsim as ws
from scenes.step_differences import StepDifferences
from warpsim.base.errors import ModelError
from warpsim.differentiate.linearize import blank_result, request_entries, why_reverse

G = 9.81
STATIC, DYNAMIC, SPEED = 0.6, 0.2, 0.4
SOLVERS = {
    "coulomb": ws.SAP(tolerance=1e-14),
    "convex": ws.SAP(tolerance=1e-14, approximation="convex"),
    "compliant": ws.Compliant(),
    "lcp": ws.LCP(),
}
NAMES = ("geom_friction", "geom_friction_dynamic", "geom_friction_velocity")
TABLE = {"friction": 0.3, "friction_dynamic": 0.1, "friction_velocity": 0.7}
LAW = {"friction": STATIC, "friction_dynamic": DYNAMIC, "friction_velocity": SPEED}


def block(law=LAW, table=TABLE, **options):
    """A block that slides along x and y on a table; their coefficients combine by the harmonic mean, the default."""
    b = ws.ModelBuilder("block")
    b.add_geom("plane", name="table", **table)
    b.add_body("block", mass=1.0, inertia=np.eye(3) * 0.01, pose=[0, 0, 0.0999, 0, 0, 0, 1])
    for axis in np.eye(3):
        b.add_joint("block", "slide", axis=axis)
    b.add_geom("sphere", [0.1], body="block", name="block", **law | options)
    return b.build()


def simulator(model, worlds=1, **options) -> ws.Simulator:
    options = {"dt": 0.005, "dtype": "float64", "device": "cpu", "solver": SOLVERS["coulomb"]} | options
    return ws.Simulator(model, worlds, **options)


def friction(v, law=LAW, table=TABLE):
    """μ(v) of the pair."""
    found = []
    for of in (law, table):
        static = of["friction"]
        dynamic, speed = of.get("friction_dynamic", static), of.get("friction_velocity", 1.0)
        found.append(dynamic + (static - dynamic) * np.exp(-((v / speed) ** 2)))
    return 2 * found[0] * found[1] / (found[0] + found[1])


def speeds(sim, v, steps: int):
    """The velocity after so many steps from v, once the block rests on the table."""
    settled = sim.rollout(sim.state(), steps=20).final
    return sim.rollout(sim.state(settled.q.numpy(), v), steps=steps).final.v.numpy()


@pytest.mark.parametrize("law", ["coulomb", "lcp"])
def test_a_block_slows_down_as_the_law_says(law):
    """dv/dt = −g μ(v) to the first order of the step: half the step, half the error."""
    time, start = 0.2, 1.2
    exact = solve_ivp(lambda t, v: -G * friction(v), (0, time), [start], rtol=1e-10, atol=1e-12).y[0, -1]
    errors = []
    for dt in (0.01, 0.005):
        v = speeds(simulator(block(), dt=dt, solver=SOLVERS[law]), [start, 0, 0], round(time / dt))
        errors.append(v[0, 0] - exact)
    assert abs(errors[0]) < 0.02 and errors[0] / errors[1] == pytest.approx(2.0, abs=0.25)


def test_equal_coefficients_are_the_plain_law():
    """With μ_d = μ_s a model has the bits of one that does not know the law; so has one whose pair has a friction of its own."""
    plain = block({"friction": STATIC}, {"friction": 0.3})
    same = block(LAW | {"friction_dynamic": STATIC}, {"friction": 0.3})
    v = [0.5, 0.3, 0]
    expected = speeds(simulator(plain), v, 10)
    np.testing.assert_array_equal(speeds(simulator(same), v, 10), expected)
    assert np.abs(speeds(simulator(block()), v, 10) - expected).max() > 0.01
    own = ws.ModelBuilder("own")
    own.add_model(block())
    own.add_pair("table", "block", friction(0.0, {"friction": STATIC}, {"friction": 0.3}))
    np.testing.assert_allclose(speeds(simulator(own.build()), v, 10), expected, rtol=1e-12)


@pytest.mark.parametrize("law", SOLVERS)
def test_gradients(law):
    """By v and the three parameters at 1, 10 and 40 steps, against central differences; `linearize` is the tape."""
    sim = simulator(block(), requires_grad=True, solver=SOLVERS[law], dt=0.002)
    settled = sim.rollout(sim.state(), steps=20).final
    state = sim.state(settled.q.numpy(), [[0.7, 0.35, 0.0]])
    found = ws.check_gradients(sim, state, horizons=(1, 10, 40), parameters=NAMES, entries=2)
    for row in found.rows:
        assert row.verdict == "ok" and row.error <= 1e-5, str(found)
    jacobians = sim.linearize(state, parameters=NAMES)
    for row in range(2):
        for array in (state.v, *(sim.parameters[name] for name in NAMES)):
            array.grad.zero_()
        with wp.Tape() as tape:
            after = sim.step(state)
        tape.backward(grads={after.v: wp.array(np.eye(3)[[row]], dtype=wp.float64, device="cpu")})
        own = jacobians.A.numpy()[0, 3 + row, 3:]
        np.testing.assert_allclose(own, state.v.grad.numpy()[0], rtol=1e-10, atol=1e-12)
        for name in NAMES:
            own, taped = jacobians.parameters[name].numpy()[0, 3 + row], sim.parameters[name].grad.numpy()[0]
            np.testing.assert_allclose(own, taped, rtol=1e-10, atol=1e-12)
            assert abs(own[1]) > 1e-5


def box_on_slab():
    """A box that slides and turns on a slab that slides on the ground; the slab has no law of its own."""
    b = ws.ModelBuilder("box on slab")
    b.add_geom("plane", **TABLE)
    for name, z, size, law in (
        ("slab", 0.0499, [0.4, 0.3, 0.05], {"friction": 0.5}),
        ("box", 0.1497, [0.06, 0.05, 0.05], LAW),
    ):
        b.add_body(name, pose=[0, 0, z])
        b.add_joint(name, "free")
        b.add_geom("box", size, body=name, density=500.0, **law)
    return b.build(), [0.2, -0.1, 0.0, 0.0, 0.0, 0.1, 0.7, 0.2, 0.0, 0.0, 0.0, 0.5]


def fingers(**options):
    """An arm with two hinges whose tip slides over a ball that rolls on the ground."""
    b = ws.ModelBuilder("fingers")
    b.add_geom("plane", name="ground", **TABLE)
    b.add_body("ball", pose=[0.02, 0.03, 0.0999])
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=800.0, **LAW)
    b.add_body("upper", mass=0.4, inertia=np.eye(3) * 1e-3, pose=[-0.4, 0, 0.349])
    b.add_joint("upper", "hinge", axis=[0, 1, 0])
    b.add_body("lower", parent="upper", mass=0.3, com=[0.2, 0, -0.1], inertia=np.eye(3) * 1e-3, pose=[0.2, 0, 0])
    b.add_joint("lower", "hinge", axis=[0.3, 1, 0])
    b.add_geom(
        "sphere",
        [0.05],
        body="lower",
        pose=[0.2, 0, -0.1],
        **{"friction": 0.8, "friction_dynamic": 0.3, "friction_velocity": 0.5} | options,
    )
    return b.build(), [0.3, 0.1, 0.0, 0.2, 0.4, -0.3, 0.5, 0.2]


def pressed():
    """A ball of rubber that slides and rolls on a rigid table."""
    b = ws.ModelBuilder("pressed")
    b.add_geom("plane", hydroelastic=ws.Hydroelastic(np.inf), **TABLE)
    b.add_body("ball", pose=[0, 0, 0.097])
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=800.0, hydroelastic=ws.Hydroelastic(1e5), **LAW)
    return b.build(), [0.6, 0.3, -0.01, 0.5, 1.0, 0.2]


CLOSED = {"box": box_on_slab, "fingers": fingers, "pressure": pressed}


@pytest.mark.parametrize("law", ["coulomb", "convex"])
@pytest.mark.parametrize("scene", CLOSED)
def test_linearize_is_the_tape_and_the_differences(scene, law, within):
    """Where μ falls with the speed, `linearize` has a closed form: the slopes of the tape, to 1e-10, and of differences."""
    model, v = CLOSED[scene]()
    names = (*NAMES, "geom_stiffness", "body_mass", "gravity")
    if scene == "pressure":
        names += ("geom_hydroelastic_modulus", "geom_size")
    options = {"dt": 0.005, "solver": SOLVERS[law], "device": "cpu"}
    sim = simulator(model, requires_grad=True, **options)
    state = sim.state(v=[v])
    assert why_reverse(sim, names, "", "linearize") == ""
    found = sim.linearize(state, parameters=names)
    sim.step(state)
    assert sim.diagnostics.contacts.numpy()[0] > 0
    taped = blank_result(sim.device_model, request_entries(model, False, names))
    sim._stepper.reverse_linearizer.fill(sim.dt, state, None, None, taped)
    for name, array in found.arrays().items():
        own, other = array.numpy(), taped.arrays()[name].numpy()
        error = np.abs(own - other).max(initial=0.0) / np.abs(other).max(initial=1e-12)
        within(f"{scene}, {law}, tape: {name}", error, 1e-10)
    names = (*NAMES, *names[len(NAMES) + 1 :])  # a stiffness of inf has no differences
    differences = StepDifferences(model, model.q0, v, parameters=names, **options)
    for name, error in differences.errors(sim.linearize(state, parameters=names)).items():
        within(f"{scene}, {law}: {name}", error, 1e-6)
    for name in NAMES[1:]:
        assert np.nanmax(np.abs(found.parameters[name].numpy())) > 1e-5


SOFT = ws.Hydroelastic(1e5)
ELSEWHERE = {
    "midpoint": ({}, {"integrator": ws.Midpoint(tolerance=1e-15)}),
    "variational": ({}, {"integrator": ws.Variational(tolerance=1e-13)}),
    "pressure": ({"hydroelastic": SOFT}, {}),
    "spin": ({"condim": 4, "torsional_friction": 0.02}, {}),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_gradients_elsewhere(case):
    """Other integrators, pressure fields, and spin rows, whose lengths are those of static friction."""
    options, more = ELSEWHERE[case]
    table = TABLE | ({"hydroelastic": ws.Hydroelastic(np.inf)} if case == "pressure" else {})
    sim = simulator(block(table=table, **options), requires_grad=True, dt=0.002, **more)
    settled = sim.rollout(sim.state(), steps=50).final
    state = sim.state(settled.q.numpy(), [[0.7, 0.35, 0.0]])
    assert sim.rollout(state, steps=1).final.v.numpy()[0, 0] < 0.7
    found = ws.check_gradients(sim, state, horizons=(1, 10), parameters=NAMES, entries=2)
    for row in found.rows:
        assert row.verdict == "ok" and row.error <= 1e-5, str(found)


@pytest.mark.parametrize("speed", [1e-200, 1e-9, 1e9, 1e200])
@pytest.mark.parametrize("v", [0.0, 0.5])
def test_extreme_speeds(v, speed):
    """At rest friction is static; where v_s is tiny it is dynamic in motion, where huge static: with numbers as gradients."""
    sim = simulator(block(LAW | {"friction_velocity": speed}, {"friction": 0.1}), requires_grad=True)
    settled = sim.rollout(sim.state(), steps=20).final
    state = sim.state(settled.q.numpy(), [[v, 0, 0]])
    for name in NAMES:
        sim.parameters[name]
    with wp.Tape() as tape:
        after = sim.step(state)
    tape.backward(grads={after.v: wp.array([[1.0, 1.0, 1.0]], dtype=wp.float64, device="cpu")})
    mu = friction(0.0, {"friction": DYNAMIC if speed < 1 else STATIC}, {"friction": 0.1})
    expected = 0.0 if v == 0.0 else v - G * mu * sim.dt
    np.testing.assert_allclose(after.v.numpy()[0, 0], expected, atol=1e-6)
    for array in (state.q.grad, state.v.grad, *(sim.parameters[name].grad for name in NAMES)):
        assert np.isfinite(array.numpy()).all()
    table = [sim.parameters[name].grad.numpy()[0, 0] for name in NAMES[1:]]
    np.testing.assert_array_equal(table, 0.0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_worlds_have_their_own(dtype):
    """Per world, each as alone; a geom without the law keeps none."""
    sim = simulator(block(table={"friction": 0.05}), 3, dtype=dtype, solver=ws.SAP())
    values = sim.parameters["geom_friction_dynamic"].numpy().copy()
    assert np.isnan(values[:, 0]).all()
    values[:, 1] = (0.1, 0.2, 0.5)
    sim.parameters["geom_friction_dynamic"] = values
    sim.parameters["geom_friction_velocity"] = [np.nan, 0.3]
    v = speeds(sim, [0.8, 0, 0], 1)[:, 0]
    laws = [LAW | {"friction_dynamic": x, "friction_velocity": 0.3} for x in values[:, 1]]
    expected = [0.8 - sim.dt * G * friction(0.8, law, {"friction": 0.05}) for law in laws]
    np.testing.assert_allclose(v, expected, rtol=1e-4)


def test_bad_values_are_refused():
    for law, message in (
        ({"friction_dynamic": 0.1}, "'block': friction_dynamic is alone; give friction_dynamic and friction_velocity"),
        ({"friction_velocity": 0.1}, "'block': friction_velocity is alone"),
        ({"friction_dynamic": -0.1, "friction_velocity": 1}, "'block': friction_dynamic.*-0.1.*not negative"),
        ({"friction_dynamic": np.nan, "friction_velocity": 1}, "'block': friction_dynamic.*nan"),
        ({"friction_dynamic": 0.1, "friction_velocity": 0}, "'block': friction_velocity.*0.*positive"),
        ({"friction_dynamic": 0.1, "friction_velocity": np.inf}, "'block': friction_velocity.*inf"),
    ):
        with pytest.raises(ModelError, match=message):
            block(law)
    sim = simulator(block(table={"friction": 0.3}))
    with pytest.raises(ValueError, match="keep it, and others get none"):
        sim.parameters["geom_friction_dynamic"] = [0.1, 0.1]
    with pytest.raises(ValueError, match="a speed must be positive"):
        sim.parameters["geom_friction_velocity"] = [np.nan, 0.0]
    with pytest.raises(ValueError, match=r"geom_friction_dynamic.*which the model has none of"):
        simulator(block({"friction": 0.3}, {"friction": 0.3})).parameters["geom_friction_dynamic"]
    plain = simulator(block({"friction": 0.3}, {"friction": 0.3}))
    with pytest.raises(ValueError, match=r"geom_friction_velocity.*which the model has none of"):
        plain.linearize(plain.state(), parameters=["geom_friction_velocity"])


def test_models_keep_it(tmp_path):
    """Appended, pickled, stored, and through MJCF and USD; models that were kept before there was any have none."""
    model = block(table={"friction": 0.3})
    b = ws.ModelBuilder("both")
    b.add_model(model, prefix="a/")
    sim = simulator(model)
    sim.rollout(sim.state(), steps=2, store=tmp_path / "run.zarr")
    ways = {"append": b.build(), "pickle": pickle.loads(pickle.dumps(model))}
    ways["store"] = ws.Trajectory.load(tmp_path / "run.zarr").model
    for suffix, write in ((".xml", "to_mjcf"), (".usda", "to_usd")):
        getattr(model, write)(tmp_path / f"model{suffix}")
        ways[suffix] = ws.load(tmp_path / f"model{suffix}")
    for way, other in ways.items():
        for name in NAMES:
            np.testing.assert_array_equal(getattr(other, name), getattr(model, name), err_msg=f"{way}: {name}")
