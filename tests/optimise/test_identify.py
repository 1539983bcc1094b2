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
