# SPDX-License-Identifier: Apache-2.0
"""`ws.identify`: what made the data is found again, in coordinates in which everything is physical."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.optimise.charts import MEMBERS, PseudoInertia, charts, pseudo_inertia

DT = 0.01
TIGHT = {"dtype": "float64", "device": "cpu", "solver": ws.SAP(tolerance=1e-13, approximation="convex")}


def arm() -> ws.Model:
    """A driven upper arm, and a hand on a ball joint that turns about all axes and shows all of its inertia."""
    b = ws.ModelBuilder("arm", timestep=DT)
    upper = b.add_body("upper", mass=1.0, com=[0.0, 0.0, -0.2], inertia=[0.02, 0.02, 0.004])
    b.add_joint(upper, "hinge", name="shoulder", axis=[0, 1, 0], damping=0.05, friction=0.02)
    hand = b.add_body(
        "hand", parent=upper, pose=[0, 0, -0.4], mass=0.6, com=[0.05, 0.02, -0.15], inertia=[0.008, 0.007, 0.003]
    )
    b.add_joint(hand, "ball", name="ball", damping=0.01)
    b.add_actuator("shoulder", gear=2.0)
    return b.build()


def recorded(model: ws.Model, worlds: int, steps: int, true: dict, seed: int = 0):
    """Start, controls and motion of worlds with parameters of their own."""
    rng = np.random.default_rng(seed)
    sim = ws.Simulator(model, worlds, **TIGHT)
    for name, value in true.items():
        sim.parameters[name] = value
    q = model.displace(model.q0, 0.5 * rng.normal(size=(worlds, model.nv)))
    v, u = rng.normal(size=(worlds, model.nv)), rng.normal(size=(steps, worlds, model.nu))
    motion = sim.rollout(sim.state(q, v), u)
    return q, v, u, motion.q.numpy(), motion.v.numpy()


def errors(model, seen_q, seen_v):
    return lambda q, v: np.concatenate([model.difference(seen_q, q), v - seen_v], axis=-1)


def test_masses_and_joint_laws_per_world(within):
    """Masses, damping and dry friction of each world, from a motion of its own, to the solver's accuracy."""
    model, rng, worlds = arm(), np.random.default_rng(1), 3
    names = ("body_mass", "joint_damping", "joint_friction")
    true = {name: getattr(model, name) * np.exp(0.4 * rng.normal(size=(worlds, 1))) for name in names}
    q, v, u, seen_q, seen_v = recorded(model, worlds, 40, true)
    sim = ws.Simulator(model, worlds, **TIGHT)
    unknown = {"body_mass": ["upper", "hand"], "joint_damping": None, "joint_friction": "shoulder"}
    found = ws.identify(sim, sim.state(q, v), u, errors(model, seen_q, seen_v), unknown)
    assert (found.status == "converged").all() and (np.diff(found.history, axis=0) <= 0).all()
    for name in names:
        within(f"identified {name}", np.abs(found.parameters[name] - true[name]).max() / np.abs(true[name]).max(), 1e-6)
    assert found.labels[:3] == ("body_mass[upper]", "body_mass[hand]", "joint_damping[shoulder]")
    assert found.information.shape == (3, 7, 7)


def test_full_inertia_shared_by_all_worlds(within):
    """Ten inertial parameters of a hand that turns about all axes, from several motions with one set."""
    model, worlds = arm(), 4
    chart = PseudoInertia(model, 1)
    values = {name: getattr(model, name)[None].astype(float) for name in MEMBERS}
    true = {name: x.copy() for name, x in values.items()}
    chart.move(true, 0.2 * np.random.default_rng(1).normal(size=(1, 10)), False)
    q, v, u, seen_q, seen_v = recorded(model, worlds, 40, {name: x[0] for name, x in true.items()})
    sim = ws.Simulator(model, worlds, **TIGHT)
    found = ws.identify(sim, sim.state(q, v), u, errors(model, seen_q, seen_v), {"inertial": "hand"}, shared=True)
    assert found.status == ["converged"] and found.information.shape == (1, 10, 10)
    for name in MEMBERS:
        within(f"identified {name}", np.abs(found.parameters[name] - true[name]).max(), 1e-6)
        assert found.parameters[name].shape[0] == worlds
        np.testing.assert_array_equal(found.parameters[name], found.parameters[name][:1].repeat(worlds, 0))
        sim.parameters[name] = found.parameters[name]  # takes it


def test_sliding_friction(within):
    """Friction of boxes that slide, per world, from guesses above and below."""
    b = ws.ModelBuilder("box", timestep=DT)
    b.add_geom("plane", name="floor", friction=0.2)
    b.add_joint(b.add_body("box", pose=[0, 0, 0.1]), "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body="box", name="foot", friction=0.3)
    model, true = b.build(), np.array([[0.2, 0.3], [0.2, 0.15]])
    start = np.array([[0.3, 0, 0, 0, 0, 0], [0.2, 0.2, 0, 0, 0, 0.0]])
    sim = ws.Simulator(model, 2, **TIGHT)
    sim.parameters["geom_friction"] = true
    seen = sim.rollout(sim.state(v=start), steps=12)
    sim.parameters["geom_friction"] = np.array([[0.2, 0.2], [0.2, 0.25]])
    residual = errors(model, seen.q.numpy(), seen.v.numpy())
    found = ws.identify(sim, sim.state(v=start), np.zeros((12, 2, 0)), residual, {"geom_friction": "foot"})
    within("identified friction", np.abs(found.parameters["geom_friction"] - true).max(), 1e-6)


def test_bounds_hold_where_the_data_want_less():
    """Data of a joint without damping, spoilt so that they want a negative one: the estimate is 0 and no candidate below."""
    model = arm()
    q, v, u, seen_q, seen_v = recorded(model, 1, 30, {"joint_damping": np.zeros(model.nv)})
    grows = 1.0 + 0.01 * np.arange(31)[:, None, None]
    sim = ws.Simulator(model, 1, **TIGHT)
    found = ws.identify(sim, sim.state(q, v), u, errors(model, seen_q, grows * seen_v), {"joint_damping": "shoulder"})
    assert found.parameters["joint_damping"][0, 0] == 0.0 and found.status == ["converged"]


def test_every_step_is_physical(within):
    """After random long steps, many in a row, the mass and the eigenvalues of the pseudo-inertia are above 0 and the triangle
    inequalities hold; other bodies stay; the derivatives of a step are those of differences."""
    model, rng = arm(), np.random.default_rng(0)
    chart = PseudoInertia(model, 1)
    values = {name: np.repeat(getattr(model, name)[None].astype(float), 200, 0) for name in MEMBERS}
    for straight in 10 * (False, True):
        chart.move(values, rng.uniform(-2, 2, size=(200, 10)), straight)
        mass, com, inertia = (values[name][:, 1] for name in MEMBERS)
        assert (mass > 0).all() and (np.linalg.eigvalsh(pseudo_inertia(mass, com, inertia))[:, 0] > 0).all()
        moments = np.linalg.eigvalsh(inertia)
        assert (moments[:, 0] > 0).all() and (moments[:, 0] + moments[:, 1] > moments[:, 2] * (1 - 1e-9)).all()
    np.testing.assert_array_equal(values["body_mass"][:, 0], model.body_mass[0])
    values = {name: np.repeat(getattr(model, name)[None].astype(float), 5, 0) for name in MEMBERS}
    chart.move(values, 0.3 * rng.normal(size=(5, 10)), True)
    for name in MEMBERS:
        entries, slope = chart.derivative(values, name)
        for i in range(10):
            sides = []
            for sign in (1e-6, -1e-6):
                moved = {key: x.copy() for key, x in values.items()}
                chart.move(moved, sign * np.eye(10)[[i] * 5], False)
                sides.append(moved[name].reshape(5, -1)[:, entries])
            within("derivative of a step", np.abs((sides[0] - sides[1]) / 2e-6 - slope[..., i]).max(), 1e-8)


def test_a_world_that_is_not_finite_changes_no_other():
    """Its parameters are those given and its status says so; the others' bits are those without it."""
    model = arm()
    q, v, u, seen_q, seen_v = recorded(model, 2, 20, {"body_mass": 1.3 * model.body_mass})
    sim = ws.Simulator(model, 2, **TIGHT)
    options = (u, errors(model, seen_q, seen_v), {"body_mass": None})
    state = sim.state(q, v)
    expected = ws.identify(sim, state, *options, iterations=5)
    state.memory["flags"].assign(np.array([0, ws.NONFINITE], np.int32))
    found = ws.identify(sim, state, *options, iterations=5)
    np.testing.assert_array_equal(found.parameters["body_mass"][0], expected.parameters["body_mass"][0])
    np.testing.assert_array_equal(found.parameters["body_mass"][1], model.body_mass)
    assert found.status[1] == "nonfinite" and np.isinf(found.cost[1])


def test_steps_of_mujocos_law():
    """solref keeps its signs, impedances stay within 0 and 1, a pair takes one number of an element; slopes are right."""
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", name="floor", solref=(-500, -20))
    b.add_joint(b.add_body("ball"), "free")
    b.add_geom("sphere", [0.1], body="ball", name="ball", solimp=(0.7, 0.9, 0.01, 0.4, 3))
    model, x = b.build(), np.array([[0.3, -0.2, 0.5, 0.1, -0.3]])
    found = charts(model, {"geom_solref": ["floor", ("ball", 1)], "geom_solimp": "ball"})
    assert [c.labels[-1] for c in found] == ["geom_solref[ball][1]", "geom_solimp[ball][4]"]
    for chart, step in zip(found, (x[:, :3], x), strict=True):
        values = {chart.name: getattr(model, chart.name)[None].copy()}
        columns, slope = chart.derivative(values, chart.name)
        ends = [{chart.name: values[chart.name].copy()} for _ in range(3)]
        for end, size in zip(ends, (1e-6, -1e-6, 40.0), strict=True):
            chart.move(end, size * step, False)
        flat = [end[chart.name].reshape(1, -1)[:, columns] for end in ends]
        np.testing.assert_allclose((flat[0] - flat[1]) / 2e-6, (slope @ step[..., None])[..., 0], rtol=1e-8)
        assert (np.sign(flat[2]) == np.sign(flat[0])).all()
    assert (flat[2][:, [0, 1, 3]] <= 1).all() and flat[2][0, 4] == 1
    with pytest.raises(ValueError, match=r"holds \('ball', 5\); its elements have the numbers 0 to 4"):
        charts(model, {"geom_solimp": [("ball", 5)]})
    with pytest.raises(ValueError, match=r"geom_solimp\[ball\]\[0\] is 1 in world 0; .* between 0 and 1"):
        found[1].check({"geom_solimp": np.ones((1, 2, 5))})


def test_mass_scales_with_its_inertia():
    """`scale_mass`: another density. The motion of free flight stays, bit by bit where the factor is a power of 2; reset undoes it."""
    model = arm()
    sim = ws.Simulator(model, 3, **TIGHT)
    sim.parameters.scale_mass(np.array([1.0, 2.0, 0.5]))
    sim.parameters.scale_mass(np.array([1.0, 2.0, 0.5]))  # of the model's, not of the first
    for w, factor in enumerate((1.0, 2.0, 0.5)):
        np.testing.assert_array_equal(sim.parameters["body_mass"].numpy()[w], factor * model.body_mass)
        np.testing.assert_array_equal(sim.parameters["body_inertia"].numpy()[w], factor * model.body_inertia)
    M = sim.mass_matrix(sim.state().q).numpy()
    np.testing.assert_allclose(M[1], 2 * M[0], rtol=1e-14, atol=1e-16)
    by_body = np.array([1.0, 2.0])
    sim.parameters.scale_mass(by_body[None])
    np.testing.assert_array_equal(sim.parameters["body_mass"].numpy(), np.tile(by_body * model.body_mass, (3, 1)))
    for bad, message in (
        (0.0, "factor is 0.0; every value must be positive"),
        (np.ones(2), r"factor has shape \(2,\); give a number"),
    ):
        with pytest.raises(ValueError, match=message):
            sim.parameters.scale_mass(bad)


def test_bad_input_says_what_to_do():
    """Every error names what is wrong and what would do."""
    model = arm()
    sim = ws.Simulator(model, 2, **TIGHT)
    state, u = sim.state(), np.zeros((3, 2, model.nu))
    cases = [
        ({}, r"parameters is \{\}; give a dict"),
        ({"mass": None}, "a key of parameters is 'mass'; choose one of"),
        ({"body_inertia": None}, "use 'inertial', which keeps it physical"),
        ({"joint_axis": None}, "'joint_axis', which has no steps here"),
        ({"body_mass": "foot"}, "names 'foot'; there are: upper, hand"),
        ({"body_mass": [7]}, "holds 7; the indices are 0 to 1"),
        ({"body_mass": ["hand", 1]}, "name each element once"),
        ({"body_mass": None, "inertial": "hand"}, "which it holds"),
    ]
    for parameters, message in cases:
        with pytest.raises(ValueError, match=message):
            ws.identify(sim, state, u, lambda q, v: q, parameters)
    with pytest.raises(ValueError, match="residual is 3; give a function"):
        ws.identify(sim, state, u, 3, {"body_mass": None})
    with pytest.raises(ValueError, match="residual returned residuals of shape"):
        ws.identify(sim, state, u, lambda q, v: q[0], {"body_mass": None})
    sim.parameters["body_mass"] = np.array([[1.0, 0.6], [1.0, 0.7]])
    with pytest.raises(ValueError, match="shared=True, but the worlds of"):
        ws.identify(sim, state, u, lambda q, v: q, {"body_mass": None}, shared=True)
    sim.parameters["body_mass"] = np.array([1.0, 0.0])
    with pytest.raises(
        ValueError, match=r"body_mass\[hand\] is 0 in world 0; set sim.parameters to a finite value above 0"
    ):
        ws.identify(sim, state, u, lambda q, v: q, {"body_mass": None})
    sim.parameters["body_inertia"] = np.diag([1.0, 1.0, 3.0])[None].repeat(2, 0)
    with pytest.raises(ValueError, match="body 'hand' has an inertia that no density has"):
        charts(model, {"inertial": "hand"})[0].check({n: sim.parameters[n].numpy() for n in MEMBERS})


def test_unknown_initial_states(within):
    """From measured initial states that are wrong, `free_start` finds them and the parameters; the information is what the
    normal equations of parameters and initial states together leave for the parameters."""
    model, worlds = arm(), 2
    q, v, u, seen_q, seen_v = recorded(model, worlds, 40, {"joint_damping": model.joint_damping * [1.4, 1, 1, 1]})
    rng = np.random.default_rng(3)
    wrong = model.displace(q, 0.05 * rng.normal(size=v.shape)), v + 0.1 * rng.normal(size=v.shape)
    sim, unknown = ws.Simulator(model, worlds, **TIGHT), {"joint_damping": "shoulder", "body_mass": "hand"}
    residual = errors(model, seen_q, seen_v)
    found = ws.identify(sim, sim.state(*wrong), u, residual, unknown, shared=True, free_start=True)
    assert found.status == ["converged"]
    within("damping", abs(found.parameters["joint_damping"][0, 0] / (1.4 * model.joint_damping[0]) - 1), 1e-6)
    within("mass", abs(found.parameters["body_mass"][0, 1] / model.body_mass[1] - 1), 1e-6)
    within("initial positions", np.abs(model.difference(q, found.start[0])).max(), 1e-6)
    within("initial velocities", np.abs(found.start[1] - v).max(), 1e-6)
    sim.parameters["joint_damping"], n = found.parameters["joint_damping"], 2 * model.nv

    def motion(x):
        """Residuals of all worlds after a step x of damping, mass and the initial states."""
        sim.parameters["joint_damping"] = found.parameters["joint_damping"] + np.eye(model.nv)[0] * x[0]
        sim.parameters["body_mass"] = model.body_mass * np.where(np.arange(2) == 1, np.exp(x[1]), 1.0)
        dx = x[2:].reshape(worlds, n)
        moved = sim.state(model.displace(q, dx[:, : model.nv]), v + dx[:, model.nv :])
        rolled = sim.rollout(moved, u)
        return residual(rolled.q.numpy(), rolled.v.numpy()).ravel()

    step = 1e-5
    size = 2 + worlds * n
    J = np.stack([(motion(step * e) - motion(-step * e)) / (2 * step) for e in np.eye(size)], axis=1)
    N = J.T @ J
    wanted = N[:2, :2] - N[:2, 2:] @ np.linalg.solve(N[2:, 2:], N[2:, :2])
    within("information", np.abs(found.information[0] / wanted - 1).max(), 1e-5)


@pytest.mark.parametrize("true", [0.0, 1.0, 2.6])
def test_delay_of_an_actuator(true, within):
    """Controls that act late by a number of knots, not necessarily whole: the delay is found, and the damping with it."""
    model, worlds, knots, before = arm(), 2, 40, 4
    rng, sim = np.random.default_rng(0), ws.Simulator(model, worlds, **TIGHT)
    phase = rng.uniform(0, 6, (2, worlds, 1))
    t = np.arange(-before, knots)[:, None, None]
    u = np.sin(0.3 * t + phase[0]) + np.sin(0.5 * t + phase[1])
    late = sum(share * u[before - shift : before - shift + knots] for share, shift in
               ((1 - true % 1, int(true)), (true % 1, min(int(true) + 1, before))))  # fmt: skip
    sim.parameters["joint_damping"] = model.joint_damping * [1.5, 1, 1, 1]
    seen = sim.rollout(sim.state(), late)
    sim.parameters["joint_damping"] = model.joint_damping
    residual = errors(model, seen.q.numpy(), seen.v.numpy())
    unknown = {"delay": None, "joint_damping": "shoulder"}
    found = ws.identify(sim, sim.state(), u[before:], residual, unknown, shared=True, history=u[:before])
    assert found.labels[0] == "delay[actuator_0]" and found.status == ["converged"]
    within("delay", np.abs(found.parameters["delay"] - true).max(), 1e-6)
    within("damping", abs(found.parameters["joint_damping"][0, 0] / (1.5 * model.joint_damping[0]) - 1), 1e-6)


def test_unknowns_that_the_motion_does_not_depend_on_are_named():
    """The friction of a ball that touches nothing and its mass in free fall; a driven arm beside it is identified."""
    b = ws.ModelBuilder("two", timestep=DT)
    b.add_geom("plane", name="floor", friction=0.5)
    b.add_joint(b.add_body("ball", pose=[0, 0, 8.0]), "free")
    b.add_geom("sphere", [0.1], body="ball", name="shell", friction=0.4)
    upper = b.add_body("upper", pose=[2, 0, 1], mass=1.0, com=[0, 0, -0.3], inertia=[0.02, 0.02, 0.01])
    b.add_joint(upper, "hinge", name="elbow", axis=[0, 1, 0], damping=0.05)
    b.add_actuator("elbow")
    model = b.build()
    sim, u = ws.Simulator(model, 1, dtype="float64", device="cpu"), np.ones((20, 1, 1))
    start = sim.state(v=np.arange(1.0, model.nv + 1))
    seen = sim.rollout(start, u)
    residual = errors(model, seen.q.numpy(), seen.v.numpy())
    sim.parameters["joint_damping"] = 1.2 * model.joint_damping
    unknown = {"joint_damping": "elbow", "body_mass": None, "geom_friction": ["shell"]}
    found = ws.identify(sim, start, u, residual, unknown)
    assert found.notes == ("the motion does not depend on body_mass[ball], geom_friction[shell]: left as given",)
    assert found.status[0] != "untouched" and abs(found.parameters["joint_damping"][0, -1] - 0.05) < 1e-3
    np.testing.assert_array_equal(found.parameters["geom_friction"][0], model.geom_friction)
    alone = ws.identify(sim, start, u, residual, {"geom_friction": ["shell"], "body_mass": "ball"})
    assert list(alone.status) == ["untouched"]
