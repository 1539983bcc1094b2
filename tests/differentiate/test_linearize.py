# SPDX-License-Identifier: Apache-2.0
"""`sim.linearize` in float64 against central differences of `sim.step` with a sweep of step sizes, and against the tape."""

import numpy as np
import pytest
import warp as wp
from test_step_gradient import all_joints

import warpsim as ws
from scenes import constraints as constraint_scenes
from scenes.bodies import body_on_plane
from scenes.step_differences import StepDifferences

SOLVER = ws.SAP(tolerance=1e-13)  # far below the differences' own error
CONVEX = ws.SAP(tolerance=1e-13, approximation="convex")
BAR = 1e-6
BODIES = ("body_mass", "body_com", "joint_armature")


def check(within, name, model, q, v, control=None, parameters=BODIES, dt=0.005, contacts=None):
    """Every array of the linearisation at (q, v) against differences, by both laws; how many contacts there must be."""
    check_law(within, f"{name}, convex", model, q, v, control, parameters, dt, contacts, CONVEX)
    return check_law(within, name, model, q, v, control, parameters, dt, contacts, SOLVER)


def check_law(within, name, model, q, v, control, parameters, dt, contacts, solver):
    """The same by one."""
    options = {"dt": dt, "solver": solver, "device": "cpu"}
    differences = StepDifferences(model, q, v, control, parameters=parameters, **options)
    sim = ws.Simulator(model, dtype="float64", **options)
    u = None if control is None else np.asarray(control, float)[None]
    result = sim.linearize(sim.state(q, v), u, force_jacobian=True, parameters=parameters)
    if contacts is not None:
        sim.step(sim.state(q, v), u)
        assert sim.diagnostics.contacts.numpy()[0] == contacts
    for key, error in differences.errors(result).items():
        within(f"{name}: {key}", error, BAR)
    return result


def settled(model, steps, dt=0.005, v=None):
    """(q, v) after some steps from the initial pose."""
    sim = ws.Simulator(model, dt=dt, dtype="float64", device="cpu")
    final = sim.rollout(sim.state(v=v), steps=steps).final
    return final.q.numpy()[0], final.v.numpy()[0]


# ---- smooth motion, joints, actuators ----------------------------------------------------------------------------------

JOINT_PARAMETERS = (*BODIES, "body_inertia", "gravity", "joint_damping", "joint_stiffness", "joint_reference")
JOINT_PARAMETERS += ("joint_friction", "joint_range")


def beyond_stops(model) -> np.ndarray:
    """The pose of `all_joints` with the ball joint beyond its stop at 0.5 rad and the hinge beyond its at 0.3 rad."""
    q = model.q0.copy()
    q[:4] = np.cos(0.2505), *(np.sin(0.2505) * np.array([0.6, 0.0, 0.8]))
    q[4] = 0.301
    return q


@pytest.mark.parametrize("where", ["beyond the stops", "anywhere"])
def test_every_joint_type(where, rng, within):
    """Ball, hinge, slide, free and fixed joints, springs, dampers, dry friction, stops, armature, actuators, in free flight."""
    model = all_joints()
    q = model.displace(model.q0, 0.3 * rng.normal(size=model.nv))
    if where == "beyond the stops":
        q = beyond_stops(model)
    check(within, where, model, q, rng.normal(size=model.nv), [0.3, -0.5], JOINT_PARAMETERS, dt=0.01)


@pytest.mark.parametrize("control", [(0.3, 0.2, 0.1), (0.9, 0.9, -0.9)])
def test_actuators(control, within):
    """Feedback that takes energy out, with and without an effort limit, and that feeds it in; inside and at the ranges."""
    b = ws.ModelBuilder("drives")
    laws = (
        ([1, 0.1, 0.2], [0.1, -0.1, -0.2], {"control_range": (-0.5, 0.5), "gear": 1.5}),
        ([10, 0, 0], [0, -10, -0.5], {"force_range": (-2, 2), "gear": 1.3}),
        ([2, 0, 1.5], [0, 3, 0], {"control_range": (-0.5, 0.5)}),
    )
    for k, (gain, bias, options) in enumerate(laws):
        body = b.add_body(f"link{k}", pose=[k, 0, 1], mass=1.0, inertia=[0.1, 0.1, 0.1])
        b.add_joint(body, "hinge", axis=[0, 1, 0], name=f"hinge{k}")
        b.add_actuator(f"hinge{k}", "affine", gain=gain, bias=bias, **options)
    names = ("actuator_gain", "actuator_bias", "control_range", "force_range")
    result = check(within, f"controls {control}", b.build(), [0.1, 0.2, 0.3], [0.3, -0.2, 0.4], control, names)
    driven = np.abs(result.B.numpy()[0, 3:]).max(axis=0) > 0
    np.testing.assert_array_equal(driven, np.full(3, control[0] < 0.5))


# ---- contact -----------------------------------------------------------------------------------------------------------

CONTACT_PARAMETERS = (*BODIES, "body_inertia", "gravity", "geom_friction")


@pytest.mark.parametrize(
    ("kind", "size", "friction", "velocity"),
    [
        ("box", [0.1, 0.08, 0.06], 0.5, [0, 0, 0, 0, 0, 0]),  # stiction
        ("box", [0.1, 0.08, 0.06], 0.1, [0.3, 0.1, 0, 0, 0, 0.4]),  # sliding and spinning
        ("sphere", [0.1], 0.5, [0.3, 0, 0, 0, 3.0, 0.2]),  # rolling
        ("sphere", [0.1], 0.05, [0.3, 0.1, 0, 0, 0, 0]),
    ],
)
def test_one_body_on_a_plane(kind, size, friction, velocity, within):
    """Stiction, sliding and rolling: the contact's point, normal, Jacobian and effective mass all change with q."""
    model = body_on_plane(kind, size, friction=friction, tilt=0.05)
    q, v = settled(model, 20)
    name = f"{kind} mu {friction} v {velocity[0]}"
    check(within, name, model, q, v + velocity, None, CONTACT_PARAMETERS, contacts=4 if kind == "box" else 1)


@pytest.mark.parametrize("speed", [0.01, 1.0])
def test_compliant_contact(speed, within):
    """Stiffness, dissipation time and friction of both geoms of a compliant contact that sticks, or slides."""
    b = ws.ModelBuilder("compliant box")
    b.add_geom("plane", stiffness=2e4, dissipation_time=0.01, friction=0.4)
    body = b.add_body("box", pose=[0, 0, 0.098])
    b.add_joint(body, "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body=body, stiffness=3e4, dissipation_time=0.02, friction=0.5)
    model = b.build()
    names = ("geom_friction", "geom_stiffness", "geom_dissipation_time", "body_mass")
    v = speed * np.array([0.2, 0.05, -0.05, 0.1, 0, 0.3])
    check(within, f"compliant, speed {speed}", model, model.q0, v, None, names, dt=0.01, contacts=4)


def tower(*shapes, friction=0.5):
    """Bodies on top of one another on a plane, the upper ones off centre; shapes are (kind, size, half height)."""
    b = ws.ModelBuilder("tower")
    b.add_geom("plane", friction=friction)
    z = 0.0
    for i, (kind, size, half) in enumerate(shapes):
        body = b.add_body(f"body{i}", pose=[0.013 * i, 0.021 * i, z + half - 1e-4])
        b.add_joint(body, "free")
        shape = {"mesh": size} if kind == "mesh" else {"size": size}
        b.add_geom(kind, body=body, friction=friction, density=1000, **shape)
        z += 2 * half - 1e-4
    return b.build()


BOX = ("box", [0.1, 0.12, 0.05], 0.05)
WEDGE = (
    np.array([[-1, -1, -0.6], [1, -1, -0.6], [-1, 1, -0.6], [1, 1, -0.6], [0, -0.8, 0.6], [0, 0.7, 0.6]]) * 0.06,
    np.array([[0, 2, 1], [1, 2, 3], [0, 1, 4], [2, 5, 3], [0, 4, 2], [2, 4, 5], [1, 3, 4], [3, 5, 4]]),
)


@pytest.mark.parametrize(
    ("name", "shapes", "steps"),
    [
        ("box on box", (BOX, ("box", [0.07, 0.06, 0.05], 0.05)), 20),
        ("capsule on box", (BOX, ("capsule", [0.05, 0.08], 0.13)), 6),
        ("sphere on capsule", (BOX, ("sphere", [0.05], 0.05), ("capsule", [0.05, 0.08], 0.13)), 3),
        ("cylinder on box", (BOX, ("cylinder", [0.06, 0.05], 0.05)), 20),
        (
            "ellipsoid on ellipsoid",
            (("ellipsoid", [0.06, 0.05, 0.04], 0.04), ("ellipsoid", [0.04, 0.05, 0.06], 0.06)),
            3,
        ),
        ("mesh on box", (BOX, ("mesh", WEDGE, 0.036)), 20),
    ],
)
def test_pairs_of_shapes(name, shapes, steps, rng, within):
    """Two and three free bodies in contact with one another: the frozen features of every family of pairs."""
    model = tower(*shapes)
    q, v = settled(model, steps)
    check(within, name, model, q, v + 0.02 * rng.normal(size=model.nv), None, ("body_mass",))


def test_contact_within_one_robot(rng, within):
    """Two arms of a floating body pressed together: what moves both arms changes the contact only through its weight."""
    b = ws.ModelBuilder("clasp")
    base = b.add_body("base", pose=[0, 0, 1], mass=2.0, inertia=[0.1, 0.2, 0.15])
    b.add_joint(base, "free")
    waist = b.add_body("waist", parent=base, pose=[0.1, 0, 0.1], mass=1.0, inertia=[0.02, 0.03, 0.04])
    b.add_joint(waist, "ball")
    for side in (1, -1):
        upper = b.add_body(f"upper{side}", parent=waist, pose=[0.1, 0.1 * side, 0])
        b.add_joint(upper, "hinge", axis=[0, 0.3, 1], damping=0.1)
        b.add_geom(
            "capsule", [0.03, 0.1], pose=[0.1, 0, 0, 0.7071068, 0, 0.7071068, 0], body=upper, contype=0, conaffinity=0
        )
        lower = b.add_body(f"lower{side}", parent=upper, pose=[0.2, 0, 0])
        b.add_joint(lower, "hinge", axis=[0, 0, 1], name=f"elbow{side}")
        b.add_geom("box", [0.12, 0.02, 0.03], pose=[0.12, 0, 0], body=lower, friction=0.4)
    model = b.build()
    q, v = model.q0.copy(), 0.05 * rng.normal(size=model.nv)
    q[model.joint_coordinates("elbow1")[0]] = -0.762  # the edge of one forearm meets the side of the other
    v[model.joint_coordinates("elbow1")[1]] = -0.3
    check(within, "within one robot", model, q, v, contacts=2)


def test_islands(rng, within):
    """Bodies that touch in an order unlike their numbers, one alone on the ground and one in the air: four islands."""
    b = ws.ModelBuilder("islands")
    b.add_geom("plane", friction=0.5)
    places = [(0, 0.2495), (1, 0.0498), (0, 0.0499), (2, 1.0), (0, 0.1497), (3, 0.0497)]
    for i, (x, z) in enumerate(places):
        body = b.add_body(f"box{i}", pose=[x + 0.013 * i, 0.009 * i, z])
        b.add_joint(body, "free")
        b.add_geom("box", [0.06, 0.07, 0.05], body=body, friction=0.5)
    model = b.build()
    q, v = settled(model, 5)
    result = check(within, "islands", model, q, v + 0.01 * rng.normal(size=model.nv), None, ("body_mass",), contacts=20)
    A = np.abs(result.A.numpy()[0])[36:, 36:].reshape(6, 6, 6, 6).max(axis=(1, 3)) > 0  # of bodies by bodies
    island = np.array([0, 1, 0, 2, 0, 3])
    np.testing.assert_array_equal(A, island[:, None] == island)


@pytest.mark.parametrize("robot", ["half_cheetah", "ant", "humanoid"])
def test_robots_in_contact(assets, robot, rng, within):
    """Robots on the ground, joints at their stops included: state, controls, forces and five kinds of parameters."""
    model = ws.load(assets(robot))
    q, v = settled(model, 300)
    control = 0.3 * rng.uniform(-1, 1, size=model.nu)
    names = (*BODIES, "joint_damping", "gravity")
    check(within, robot, model, q, v + 0.05 * rng.normal(size=model.nv), control, names)


# ---- scalar rows of constraints, tendons, actuators ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["fourbar", "weld", "soft weld", "slide", "distance", "mimic", "ropes", "servos", "every", "screw"]
)
def test_constraints(name, rng, within):
    """Rows between bodies, of joints, tendons and actuators with limits, the least weights of redundant rows included."""
    scenes = constraint_scenes
    soft = {"stiffness": (2e4, 3e3), "dissipation_time": 0.02}
    model = {
        "fourbar": lambda: scenes.fourbar("hinge"),
        "weld": scenes.welded_beam,
        "soft weld": lambda: scenes.welded_beam(**soft),
        "slide": lambda: scenes.welded_beam(kind="slide"),
        "distance": lambda: scenes.welded_beam(kind="distance"),
        "mimic": scenes.mimic_pair,
        "ropes": scenes.ropes,
        "servos": scenes.driven_pair,
        "every": lambda: scenes.every_constraint(screw=True),
        "screw": lambda: scenes.welded_beam(kind="screw", pitch=-0.3),
    }[name]()
    q = model.displace(model.q0, 0.02 * rng.normal(size=model.nv))
    check(within, name, model, q, 0.2 * rng.normal(size=model.nv), 0.2 * rng.normal(size=model.nu), dt=0.002)


# ---- against the tape --------------------------------------------------------------------------------------------------


def tangent(model, q) -> np.ndarray:
    """∂(q ⊕ δ)/∂δ at 0 `(nq, nv)`, from differences of a function that is linear there to the third order."""
    size = 1e-6
    moved = [model.displace(q, sign * size * np.eye(model.nv)) for sign in (1, -1)]
    return (moved[0] - moved[1]).T / (2 * size)


@pytest.mark.parametrize("scene", ["joints", "ant"])
def test_agrees_with_the_tape(scene, assets, rng, within):
    """A random row of the Jacobians, y^T (δq', δv'), is what a tape gives for the seed y, to round-off of the solves."""
    model = all_joints() if scene == "joints" else ws.load(assets("ant"))
    q, v = settled(model, 300) if scene == "ant" else (beyond_stops(model), np.zeros(model.nv))
    v = v + 0.05 * rng.normal(size=model.nv)
    names = ("body_mass", "body_com", "joint_damping", "gravity", "actuator_gain", "joint_armature", "joint_range")
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu", solver=SOLVER, requires_grad=True)
    for name in names:
        sim.parameters[name].grad.zero_()
    control, tau = (
        wp.array(0.1 * rng.normal(size=(1, n)), dtype=wp.float64, device="cpu", requires_grad=True)
        for n in (model.nu, model.nv)
    )
    state = sim.state(q, v)
    result = sim.linearize(state, control, tau=tau, force_jacobian=True, parameters=names)
    assert not sim.parameters["geom_size"].grad.numpy().any()
    with wp.Tape() as tape:
        after = sim.step(state, control, tau=tau)
    y_q, y_v = rng.normal(size=model.nv), rng.normal(size=model.nv)
    ambient = np.linalg.pinv(tangent(model, after.q.numpy()[0])).T @ y_q
    seeds = {
        array: wp.array(y[None], dtype=wp.float64, device="cpu") for array, y in ((after.q, ambient), (after.v, y_v))
    }
    tape.backward(grads=seeds)
    taped = {name: sim.parameters[name].grad.numpy().ravel() for name in names}
    taped |= {"B": control.grad.numpy()[0], "tau": tau.grad.numpy()[0]}
    taped["A"] = np.concatenate([state.q.grad.numpy()[0] @ tangent(model, q), state.v.grad.numpy()[0]])
    y = np.concatenate([y_q, y_v])
    for name, array in result.arrays().items():
        row = y @ array.numpy()[0]
        within(f"{scene}, tape: {name}", np.abs(row - taped[name]).max() / max(np.abs(row).max(), 1e-12), 1e-8)


# ---- what it is used for -----------------------------------------------------------------------------------------------


def test_worlds_are_independent_and_results_are_reused(assets, rng):
    """A world's Jacobians have the same bits alone and among others, with new arrays, with `out`, and from a graph."""
    model = ws.load(assets("half_cheetah"))
    q, v = settled(model, 100)
    v = v + 0.1 * rng.normal(size=(3, model.nv))
    u = rng.uniform(-0.5, 0.5, size=(3, model.nu))
    options = {"dt": 0.005, "dtype": "float64", "device": "cpu"}
    many = ws.Simulator(model, worlds=3, **options)
    state = many.state(np.tile(q, (3, 1)), v)
    fresh = many.linearize(state, u, parameters="body_mass")
    again = many.linearize(state, u, parameters="body_mass")
    for _ in range(3):
        assert many.linearize(state, u, parameters="body_mass", out=again) is again
    one = ws.Simulator(model, **options)
    alone = one.linearize(one.state(q, v[1]), u[1:2], parameters=["body_mass"])
    for name, array in fresh.arrays().items():
        np.testing.assert_array_equal(array.numpy(), again.arrays()[name].numpy())
        np.testing.assert_array_equal(array.numpy()[1], alone.arrays()[name].numpy()[0])
    with pytest.raises(ValueError, match="out holds"):
        many.linearize(state, u, out=again)


def test_leaves_the_simulator_as_it_was():
    """Diagnostics and contacts of the last step are not those of a linearisation."""
    model = body_on_plane("box", [0.1, 0.1, 0.1])
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    sim.step(sim.state())
    before = sim.diagnostics.numpy(), sim.last_contacts.impulse
    sim.linearize(sim.state(np.array([0, 0, 3.0, 1, 0, 0, 0])))
    assert before[1].shape == sim.last_contacts.impulse.shape
    np.testing.assert_array_equal(before[1], sim.last_contacts.impulse)
    for name, value in sim.diagnostics.numpy().items():
        np.testing.assert_array_equal(value, before[0][name])


def test_free_body_has_known_jacobians():
    """Without gravity a free body keeps its velocity: q' = q ⊕ h v, δx' = δx + h δv, and its spin turns with it."""
    b = ws.ModelBuilder("free", gravity=(0, 0, 0))
    body = b.add_body("body", mass=2.0, inertia=[0.1, 0.1, 0.1])
    b.add_joint(body, "free")
    sim = ws.Simulator(b.build(), dt=0.01, dtype="float64", device="cpu")
    spin = np.array([0.0, 0.0, 2.0])
    A = sim.linearize(sim.state(v=[0.1, 0.2, 0.3, *spin])).A.numpy()[0]
    expected = np.eye(12)
    expected[:3, 6:9] = 0.01 * np.eye(3)
    angle = 0.01 * spin[2]
    c, s = np.cos(angle), np.sin(angle)
    expected[3:6, 3:6] = [[c, s, 0], [-s, c, 0], [0, 0, 1]]
    side = (1 - c) / angle
    expected[3:6, 9:] = 0.01 * np.array([[s / angle, side, 0], [-side, s / angle, 0], [0, 0, 1]])
    np.testing.assert_allclose(A, expected, atol=1e-14)


@pytest.mark.parametrize("robot", ["half_cheetah", "humanoid"])
def test_float32(assets, robot, rng, within):
    """Single precision and its solver tolerance, 1e-4, give the Jacobians to 3e-3 of their largest entry; of the humanoid, which lies on
    its margins, to 5e-3."""
    model = ws.load(assets(robot))
    q, v = (x.astype("float32") for x in settled(model, 300))
    v = v + (0.05 * rng.normal(size=model.nv)).astype("float32")
    arrays = {}
    for dtype in ("float32", "float64"):
        sim = ws.Simulator(model, dt=0.005, dtype=dtype, device="cpu")
        result = sim.linearize(sim.state(q, v), parameters=["body_mass"], force_jacobian=True)
        arrays[dtype] = {name: array.numpy().astype(float) for name, array in result.arrays().items()}
    for name, double in arrays["float64"].items():
        error = np.abs(arrays["float32"][name] - double).max() / np.abs(double).max()
        within(f"float32 {robot}: {name}", error, 5e-3 if robot == "humanoid" else 3e-3)


def test_what_has_no_closed_form_is_refused():
    """Other integrators and solvers, conjugate gradients, some parameters: an error names each and the way out."""
    model = body_on_plane("box", [0.1, 0.1, 0.1])
    for options, message in (
        ({"integrator": ws.Midpoint()}, "Midpoint"),
        ({"integrator": ws.SymplecticEuler(implicit_stiffness=True)}, "implicit_stiffness=True"),
        ({"solver": ws.LCP()}, "LCP"),
        ({"solver": ws.SAP(linear_solver="cg")}, "cholesky"),
    ):
        sim = ws.Simulator(model, device="cpu", **options)
        with pytest.raises(ValueError, match=f"{message}.*requires_grad=True"):
            sim.linearize(sim.state())
    sim = ws.Simulator(model, device="cpu")
    with pytest.raises(ValueError, match="geom_size"):
        sim.linearize(sim.state(), parameters=["geom_size"])
    with pytest.raises(ValueError, match="'mass'"):
        sim.linearize(sim.state(), parameters="mass")
    with pytest.raises(ValueError, match="switches bodies on and off"):
        sim.linearize(sim.state(), parameters="body_active")


# ---- by backward passes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ["ant", "half_cheetah"])
def test_backward_passes_give_the_closed_form(assets, robot, rng, within):
    """Row by row from a tape or written out: the same Jacobians, in two worlds at once, quaternions and parameters included."""
    model = ws.load(assets(robot))
    sim = ws.Simulator(model, 2, dt=0.005, dtype="float64", solver=SOLVER, device="cpu", requires_grad=True)
    start = sim.rollout(sim.state(v=0.1 * rng.normal(size=(2, model.nv))), steps=200).final
    control = rng.uniform(-0.5, 0.5, size=(2, model.nu))
    sim.parameters["geom_friction"] = model.geom_friction * (1 + 0.01 * np.arange(model.ngeom))  # no kink of equal ones
    names = ("body_mass", "geom_friction", "gravity")
    closed = sim.linearize(start, control, force_jacobian=True, parameters=names)
    before, kept = sim.diagnostics.numpy(), sim.parameters["body_mass"].grad
    kept.fill_(3.0)
    passes = sim.linearize(start, control, force_jacobian=True, parameters=(*names, "geom_size"))
    for name, array in closed.arrays().items():
        error = np.abs(array.numpy() - passes.arrays()[name].numpy()).max() / np.abs(array.numpy()).max()
        within(f"{robot}: {name}", error, 1e-8)
    assert np.abs(passes.parameters["geom_size"].numpy()).max() > 0.0
    np.testing.assert_array_equal(kept.numpy(), 3.0)
    for name, value in sim.diagnostics.numpy().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    "scheme",
    [
        {"solver": SOLVER},
        {"integrator": ws.Midpoint(tolerance=1e-15)},
        {"integrator": ws.Midpoint(tolerance=1e-15), "solver": CONVEX},
        {"integrator": ws.ImplicitEuler(tolerance=1e-15)},
        {"solver": ws.LCP(tolerance=1e-13, error_reduction=0.2)},  # so that positions change velocities
        {"solver": ws.Compliant(tolerance=1e-12, stiffness=1e6)},
    ],
    ids=["SAP", "midpoint", "midpoint convex", "implicit", "LCP", "Compliant"],
)
def test_backward_passes_against_differences(scheme, within):
    """A sliding box under other integrators and solvers, geometry's own parameters included."""
    model = body_on_plane("box", [0.1, 0.1, 0.1])
    q, v = settled(model, 200)
    v[:2] = 0.3, 0.1
    parameters = ("body_mass", "geom_size", "geom_pose")
    if "LCP" in str(scheme):  # which has a kink where bodies just touch, and slides whatever the mass
        q[2] -= 1e-4
        parameters = parameters[1:]
    options = {"dt": 0.005, "solver": SOLVER, "device": "cpu"} | scheme
    differences = StepDifferences(model, q, v, None, parameters=parameters, **options)
    sim = ws.Simulator(model, dtype="float64", requires_grad=True, **options)
    result = sim.linearize(sim.state(q, v), force_jacobian=True, parameters=parameters)
    for key, error in differences.errors(result).items():
        within(f"{scheme}: {key}", error, BAR)


@pytest.mark.parametrize(
    "scheme",
    [
        {},
        {"integrator": ws.Midpoint(), "solver": ws.LCP()},
        {"solver": ws.LCP(saddle_escape=True)},
        {"integrator": ws.Variational()},
        {"integrator": ws.Variational(passes=2)},
    ],
    ids=["SAP", "midpoint LCP", "escape", "variational", "two passes"],
)
def test_rows_are_those_of_a_tape(scheme, assets, rng, within):
    """Rows of q' and v' of an ant on the ground, in two worlds, one of them switched off, as a tape gives them one by one."""
    model = ws.load(assets("ant"))
    sim = ws.Simulator(model, 2, dt=0.005, dtype="float64", device="cpu", requires_grad=True, **scheme)
    start = sim.rollout(sim.state(v=0.1 * rng.normal(size=(2, model.nv))), steps=100).final
    on = np.ones((2, model.nbody))
    on[1] = 0.0
    sim.parameters["body_active"] = on
    control = wp.array(rng.uniform(-0.5, 0.5, size=(2, model.nu)), dtype=wp.float64, device="cpu", requires_grad=True)
    sizes = sim.parameters["geom_size"]
    sim.parameters["body_mass"].grad.fill_(3.0)
    for _ in range(2):  # the second time from graphs
        result = sim.linearize(start, control, parameters="geom_size")
    np.testing.assert_array_equal(sim.parameters["body_mass"].grad.numpy(), 3.0)
    for row in (0, 4, 9, model.nv + 1, model.nv + 9):
        for array in (start.q, start.v, control, sizes):
            array.grad.zero_()
        with wp.Tape() as tape:
            after = sim.step(start, control)
        seeds = {after.q: np.zeros((2, model.nq)), after.v: np.zeros((2, model.nv))}
        for world in range(2):
            if row < model.nv:
                unit = np.eye(model.nv)[row]
                seeds[after.q][world] = np.linalg.pinv(tangent(model, after.q.numpy()[world])).T @ unit
            else:
                seeds[after.v][world, row - model.nv] = 1.0
        tape.backward(grads={x: wp.array(y, dtype=wp.float64, device="cpu") for x, y in seeds.items()})
        for world in range(2):
            by_q = start.q.grad.numpy()[world] @ tangent(model, start.q.numpy()[world])
            taped = {"A": np.concatenate([by_q, start.v.grad.numpy()[world]]), "B": control.grad.numpy()[world]}
            taped["geom_size"] = sizes.grad.numpy()[world].ravel()
            for name, values in taped.items():
                found = result.arrays()[name].numpy()[world]
                error = np.abs(found[row] - values).max() / max(np.abs(found).max(), 1e-12)
                within(f"{name}, row {row}, world {world}", error, 1e-9)


def test_backward_passes_in_a_world_that_stops():
    """A world whose step is not finite has Jacobians of NaN; the other has the bits that it has without it."""
    model = body_on_plane("box", [0.1, 0.1, 0.1])
    sim = ws.Simulator(model, 2, dtype="float64", device="cpu", requires_grad=True, integrator=ws.Midpoint())
    tau = np.zeros((2, model.nv))
    alone = sim.linearize(sim.state(), tau=tau, parameters="body_mass")
    tau[0] = 1e300
    found = sim.linearize(sim.state(), tau=tau, parameters="body_mass")
    for name in ("A", "body_mass"):
        values = found.arrays()[name].numpy()
        assert np.isnan(values[0]).all()
        np.testing.assert_array_equal(values[1], alone.arrays()[name].numpy()[1])


def test_no_contact_solver(rng, within):
    """With `NoContact` the stops still act, and nothing else is solved."""
    model = all_joints()
    options = {"dt": 0.005, "solver": ws.NoContact(), "device": "cpu"}
    q, v = model.q0, 0.5 * rng.normal(size=model.nv)
    sim = ws.Simulator(model, dtype="float64", **options)
    errors = StepDifferences(model, q, v, **options).errors(sim.linearize(sim.state(q, v)))
    for name, error in errors.items():
        within(f"no contact: {name}", error, BAR)
