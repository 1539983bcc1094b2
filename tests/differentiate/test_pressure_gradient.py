# SPDX-License-Identifier: Apache-2.0
"""Gradients of steps with contact between pressure fields: tapes against central differences, and `linearize` against tapes, in float64."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes import pressure as scenes
from warpsim.differentiate.linearize import blank_result, request_entries
from warpsim.differentiate.pressure_rates import PARAMETERS

CONVEX = ws.SAP(tolerance=1e-14, approximation="convex")
COULOMB = ws.SAP(tolerance=1e-14)
BARS = {1: 1e-6, 10: 1e-5, 40: 1e-5}
DT = 0.002
FIELDS = tuple(PARAMETERS)
MOTIONS = scenes.motions()


def simulator(model, level, worlds=1, **options) -> ws.Simulator:
    options = {"dt": DT, "dtype": "float64", "requires_grad": True, "solver": CONVEX} | options
    return ws.Simulator(model, worlds, hydroelastic=level, **options)


def start(sim, name: str) -> ws.State:
    _, q, v = MOTIONS[name]
    q, v = np.array(q, float), np.array(v, float)
    q[3:] /= np.linalg.norm(q[3:])
    return sim.state(np.tile(q, (sim.worlds, 1)), np.tile(v, (sim.worlds, 1)))


def check(found, horizons=(1, 10, 40)) -> None:
    """All gradients are right, to the bars, and nothing was left out but what has no number."""
    for row in found.rows:
        if row.variable != "geom_hydroelastic_thickness" or row.compared:
            assert row.verdict == "ok" and row.error <= BARS[row.horizon] and not row.notes, str(found)
    assert {row.horizon for row in found.rows} == set(horizons)


@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5"])
@pytest.mark.parametrize("name", MOTIONS)
def test_gradients_of_motions(name, level):
    """By q and v, moduli, sizes, thickness, dissipation time and friction, at 1, 10 and 40 steps."""
    if name == "roll exactly" and level == "polygons":
        pytest.skip("a sphere on a plane is the same at all levels")
    sim = simulator(MOTIONS[name][0], level)
    options = {"horizons": (1, 10, 40), "parameters": (*FIELDS, "geom_friction"), "entries": 2}
    check(ws.check_gradients(sim, start(sim, name), **options))


@pytest.mark.parametrize(
    "options",
    [
        {"solver": COULOMB},
        {"solver": ws.Compliant(tolerance=1e-12, stiffness=1e6)},
        {"integrator": ws.ImplicitEuler(tolerance=1e-15)},
        {"integrator": ws.Midpoint(tolerance=1e-15)},
        {"integrator": ws.Variational(tolerance=1e-13)},
    ],
    ids=lambda x: type(next(iter(x.values()))).__name__,
)
def test_gradients_of_solvers_and_integrators(options):
    """Whoever solves for contact and steps in time takes gradients through the same points."""
    sim = simulator(MOTIONS["stick"][0], "patch16", **options)
    found = ws.check_gradients(sim, start(sim, "stick"), horizons=(1, 10), parameters=FIELDS, entries=2)
    check(found, (1, 10))


def test_gradients_by_controls():
    """Two soft pads hold a ball that is turned at random: patches with several normals, motors."""
    model = scenes.grasp(("sphere", 0.03), 1e5, 0.012, 0.1, ("box", (0.02, 0.06, 0.06)), 2e5, None, 0.6, 0.02)
    sim = simulator(model, "patch5")
    controls = np.tile([21.5, 6.0, -6.0], (40, 1, 1))
    q = sim.state().q.numpy()
    q[:, -4:] = np.array([0.8, 0.3, -0.4, 0.33]) / np.linalg.norm([0.8, 0.3, -0.4, 0.33])
    state = sim.state(q)
    for _ in range(10):
        state = sim.step(state, wp.array(controls[0], dtype=wp.float64))
    state = sim.state(state.q.numpy(), state.v.numpy())
    check(ws.check_gradients(sim, state, controls, horizons=(1, 10, 40), parameters=("geom_friction",), entries=2))


def test_moduli_and_poses():
    """The gradient by a modulus, which is small per pascal, relative to itself; and by where a geom sits on its body."""
    sim = simulator(MOTIONS["stick"][0], "patch16")
    state, values = start(sim, "stick"), {}
    names = ("geom_hydroelastic_modulus", "geom_pose")
    for name in names:
        values[name] = sim.parameters[name].numpy().copy()

    def height(record=False):
        if not record:
            return float(sim.step(state).v.numpy()[0, 2])
        with wp.Tape() as tape:
            after = sim.step(state)
        seed = np.zeros(after.v.shape)
        seed[0, 2] = 1.0
        tape.backward(grads={after.v: wp.array(seed, dtype=wp.float64)})
        return tape

    height(record=True)
    for name in names:
        gradient = sim.parameters[name].grad.numpy()
        g = 1 if name == "geom_pose" else 0
        entry, step = ((0, g, 2), 1e-6) if name == "geom_pose" else ((0, g), 1e-6 * values[name][0, g])
        sides = []
        for side in (1, -1):
            moved = values[name].copy()
            moved[entry] += side * step
            sim.parameters[name] = moved
            sides.append(height())
        sim.parameters[name] = values[name]
        difference = (sides[0] - sides[1]) / (2 * step)
        assert difference != 0.0 and abs(gradient[entry] - difference) <= 1e-7 * abs(difference)


def both_ways(sim, state, names, controls=None):
    """Jacobians in closed form and those by reverse passes."""
    for name in names:
        sim.parameters[name]
    found = sim.linearize(state, controls, parameters=names).arrays()
    reverse = blank_result(sim.device_model, request_entries(sim.model, False, names))
    sim._stepper.reverse_linearizer.fill(sim.dt, state, controls, None, reverse)
    return found, reverse.arrays()


@pytest.mark.parametrize("solver", [COULOMB, CONVEX], ids=["Coulomb", "convex"])
@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5"])
@pytest.mark.parametrize("name", [*MOTIONS, "spatula"])
def test_linearize_is_the_tape(name, level, solver):
    """All columns: by the state, controls, and every parameter of the fields."""
    names = (*FIELDS, "geom_friction", "geom_stiffness", "body_mass")
    if name == "spatula":
        sim = simulator(scenes.spatula_gripper(), level, solver=solver)
        v = 0.1 * np.random.default_rng(0).normal(size=(1, sim.model.nv))
        state, controls = sim.state(sim.state().q.numpy(), v), wp.array([[5.0, -5.0]], dtype=wp.float64)
    else:
        sim = simulator(MOTIONS[name][0], level, solver=solver)
        state, controls = start(sim, name), None
    for key, (a, b) in {k: (x, y) for k, (x, y) in zip_arrays(*both_ways(sim, state, names, controls)).items()}.items():
        np.testing.assert_allclose(a, b, atol=1e-9 * max(np.abs(b).max(initial=0.0), 1e-12), rtol=0, err_msg=key)


def zip_arrays(a: dict, b: dict) -> dict:
    return {key: (a[key].numpy(), b[key].numpy()) for key in a}


@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5"])
def test_same_bits_for_any_number_of_worlds(level):
    """Gradients and Jacobians of a world are those that it has alone."""
    found = []
    for worlds in (1, 3):
        sim = simulator(MOTIONS["spin"][0], level, worlds)
        state = start(sim, "spin")
        A = sim.linearize(state).A.numpy()
        q, v = (wp.array(x.numpy(), dtype=wp.float64, requires_grad=True) for x in (state.q, state.v))
        with wp.Tape() as tape:
            after = sim.state(q, v)
            for _ in range(3):
                after = sim.step(after)
        tape.backward(grads={after.v: wp.ones_like(after.v)})
        found.append((A, q.grad.numpy(), v.grad.numpy()))
    for alone, together in zip(*found, strict=True):
        np.testing.assert_array_equal(alone[0], together[-1])


def test_polygons_without_room():
    """A step that leaves polygons out has the gradient of those it keeps."""
    sim = simulator(MOTIONS["spin"][0], "patch16", max_polygons=5)
    state = start(sim, "spin")
    found = ws.check_gradients(sim, state, horizons=(1,), entries=2)
    assert sim.diagnostics.flags.numpy()[0] & int(ws.CONTACT_OVERFLOW)
    assert all(row.verdict == "ok" and row.error <= BARS[1] for row in found.rows), str(found)


def test_mixed_pairs():
    """Pairs that touch at points and by pressure in one step; sizes then have reverse passes."""
    b = ws.ModelBuilder("both", gravity=(0, 0, -9.81))
    b.add_geom("plane", name="ground", hydroelastic=ws.Hydroelastic(1e5, thickness=0.05))
    for k, soft in enumerate((True, False)):
        body = b.add_body(f"box{k}", pose=(0.3 * k, 0, 0, 1, 0, 0, 0), mass=0.5, inertia=np.eye(3) * 1e-3)
        b.add_joint(body, "free")
        b.add_geom("box", (0.05, 0.07, 0.04), body=body, hydroelastic=ws.Hydroelastic(2e5) if soft else None)
    sim = simulator(b.build(), "patch16")
    q = sim.state().q.numpy()
    q[:, [2, 9]] = 0.039, 0.03999
    q[:, [4, 5, 11, 12]] = 0.01, 0.02, 0.001, 0.002
    v = np.zeros((1, 12))
    v[0, [0, 6]] = 0.3
    state = sim.state(q / np.repeat([1, np.linalg.norm(q[0, 3:7]), 1, np.linalg.norm(q[0, 10:])], [3, 4, 3, 4]), v)
    check(ws.check_gradients(sim, state, horizons=(1, 10), parameters=("geom_size",), entries=3), (1, 10))
    for key, (a, c) in zip_arrays(*both_ways(sim, state, ("geom_friction", "geom_dissipation_time"))).items():
        np.testing.assert_allclose(a, c, atol=1e-9 * max(np.abs(c).max(initial=0.0), 1e-12), rtol=0, err_msg=key)
    names = ("geom_size",)
    assert sim.linearize(state, parameters=names).parameters["geom_size"].shape == (1, 24, 9)
