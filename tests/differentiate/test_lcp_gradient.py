# SPDX-License-Identifier: Apache-2.0
"""Gradients through rigid contact: recorded Jacobians, central differences, bounces, saddle points, redundant contacts."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.constraints import fourbar
from scenes.rigid import REFERENCE, SCENES, UP_Y, reverse_pendulum

SOLVER = ws.LCP(tolerance=1e-13)
# The recorded engine moves positions with the velocity before the step.
BEFORE = ws.ExplicitEuler()
POLE_FORCE = [1, -10, 0]


def simulator(model, worlds=1, solver=SOLVER, **options) -> ws.Simulator:
    options = {"dtype": "float64", "device": "cpu", "requires_grad": True} | options
    return ws.Simulator(model, worlds=worlds, solver=solver, **options)


def array(values, requires_grad=False) -> wp.array:
    return wp.array(np.asarray(values, float), dtype=wp.float64, device="cpu", requires_grad=requires_grad)


def jacobians(sim, q, v, force) -> dict[str, np.ndarray]:
    """d(q', v')/d(q, v, force, masses) of one step by rows, named as in the recorded data; for slides and hinges."""
    nv, mass, inertia = sim.model.nv, sim.parameters["body_mass"], sim.parameters["body_inertia"]
    found = {}
    for of in ("pos", "vel"):
        rows = []
        for i in range(nv):
            state, tau = sim.state(q, v), array([force], requires_grad=True)
            mass.grad.zero_()
            inertia.grad.zero_()
            with wp.Tape() as tape:
                after = sim.step(state, tau=tau)
            tape.backward(grads={after.q if of == "pos" else after.v: array(np.eye(nv)[i : i + 1])})
            # The recorded masses take the inertia along.
            along = np.einsum("bij,bij->b", inertia.grad.numpy()[0], inertia.numpy()[0]) / mass.numpy()[0]
            rows.append((state.q.grad, state.v.grad, tau.grad, mass.grad.numpy() + along))
        for name, columns in zip(("pos", "vel", "force", "mass"), zip(*rows, strict=True), strict=True):
            stacked = [x if isinstance(x, np.ndarray) else x.numpy() for x in columns]
            found[f"{name}_{of}"] = np.concatenate(stacked)
    return found


@pytest.mark.parametrize("name", [*SCENES, "SLIDING_REVERSE_PENDULUM"])
def test_recorded_jacobians(name, within):
    """One step of sliding, sticking, pushing, bouncing bodies and of a pole on a sled: every recorded block, to 1e-8, but
    ∂q'/∂(q, v) of bounces, which the recorded engine corrects for their time."""
    builder, force = SCENES.get(name, (reverse_pendulum(), POLE_FORCE))
    data = {key.split("/")[1]: REFERENCE[key] for key in REFERENCE.files if key.startswith(name + "/")}
    found = jacobians(simulator(builder.build(), integrator=BEFORE), data["q"], data["qd"], force)
    compared = [key for key in found if key in data]
    assert {"pos_pos", "vel_pos", "pos_vel", "vel_vel", "force_vel"} <= set(compared)
    if "BOUNCE" in name:
        compared = [key for key in compared if key not in ("pos_pos", "vel_pos")]
    for key in compared:
        within(f"{name} {key}", np.abs(found[key] - data[key]).max(), 1e-8)


def test_a_bounce_at_the_end_of_a_step():
    """The plain derivative of the bouncing step: where it begins shifts its end by as much, downwards too."""
    builder, force = SCENES["POS_BLOCK_BOUNCE"]
    q, v = (REFERENCE[f"POS_BLOCK_BOUNCE/{key}"] for key in ("q", "qd"))
    found = jacobians(simulator(builder.build(), integrator=BEFORE), q, v, force)
    np.testing.assert_allclose(found["pos_pos"], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found["vel_vel"], np.diag([1.0, -0.5]), atol=1e-12)


def test_two_equal_elastic_balls():
    """The struck ball's end depends on x1 and v1 alone, by 1 and by the time, with the impact inside its step."""
    b = ws.ModelBuilder("balls", gravity=(0.0, 0.0, 0.0), timestep=1e-3)
    for name in ("first", "second"):
        b.add_body(name, mass=1.0, inertia=[1.0] * 3)
        b.add_joint(name, "slide", axis=[1, 0, 0])
        b.add_geom("sphere", [0.1], body=name, restitution=1.0, friction=0.0)
    sim = simulator(b.build(), time_of_impact=True)
    start, steps = sim.state(q=[0.0, 0.2501], v=[1.0, 0.0]), 200
    with wp.Tape() as tape:
        final = sim.rollout(start, steps=steps, every=steps).final
    tape.backward(grads={final.q: array([[0.0, 1.0]])})
    slopes = np.concatenate([start.q.grad.numpy()[0], start.v.grad.numpy()[0]])
    np.testing.assert_allclose(slopes, [1.0, 0.0, steps * sim.dt, 0.0], atol=1e-10)


@pytest.mark.parametrize("escape, expected", [(False, (-0.1, -1e-4, 0.0)), (True, (-0.1, -2e-4, -1e-7))])
def test_escape_from_a_saddle_point(escape, expected):
    """A ball that rests on the floor and should rise: two steps back the derivative sees no force, the escape does.

    The escape changes neither the motion nor, where nothing clamps, the gradient.
    """
    b = ws.ModelBuilder("saddle", gravity=(0.0, -9.81, 0.0), timestep=1e-3)
    b.add_geom("plane", pose=[0.0, 0.5, *UP_Y[2:]])
    b.add_body("ball", mass=1.0, inertia=[1.0] * 3)
    b.add_joint("ball", "slide", axis=[0, 1, 0])
    b.add_geom("sphere", [0.5], body="ball")
    sim = simulator(b.build(), worlds=2, solver=ws.LCP(saddle_escape=escape), integrator=BEFORE)
    start, tau = sim.state(q=[[1.0 - 1e-4], [3.0]], v=[[-1e-4]] * 2), array(np.zeros((2, 1)), requires_grad=True)
    for _ in range(3):  # the third time from a graph
        for x in (start.q, start.v, tau):
            x.grad.zero_()
        with wp.Tape() as tape:
            after = sim.step(sim.step(start, tau=tau))
        np.testing.assert_allclose(after.v.numpy()[0], 0.0, atol=1e-15)
        tape.backward(grads={after.q: array([[-0.1]] * 2)})
        found = [x.grad.numpy()[:, 0] for x in (start.q, start.v, tau)]
        np.testing.assert_allclose([x[0] for x in found], expected, atol=1e-12)
        np.testing.assert_allclose([x[1] for x in found], (-0.1, -2e-4, -1e-7), atol=1e-12)


# ---- central differences --------------------------------------------------------------------------------------------


def box(copies: int = 1) -> ws.Model:
    """A box on the floor, its geom given so many times."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", friction=0.3)
    b.add_body("box", pose=[0.0, 0.0, 0.1], mass=2.0, inertia=[0.02] * 3)
    b.add_joint("box", "free")
    for _ in range(copies):
        b.add_geom("box", [0.1] * 3, body="box", friction=0.3, density=0.0)
    return b.build()


def ball(restitution=0.0, friction=0.7, floor="plane") -> ws.Model:
    """A ball above a plane, or on a sphere of 0.9 m, where the normal turns."""
    b = ws.ModelBuilder("ball")
    b.add_geom(floor, [0.9] if floor == "sphere" else [], friction=friction, restitution=restitution)
    b.add_body("ball", pose=[0.0, 0.0, 0.102], mass=1.0, inertia=[0.004] * 3)
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=0.0, friction=friction)
    return b.build()


def limited_pendulum() -> ws.Model:
    b = ws.ModelBuilder("pendulum")
    for name, parent, height, span in (("upper", -1, 1.0, (-0.3, 0.3)), ("lower", "upper", -1.0, None)):
        b.add_body(name, parent=parent, pose=[0, 0, height], mass=1.0, com=[0, 0, -0.5], inertia=[0.1] * 3)
        b.add_joint(name, "hinge", axis=[0, 1, 0], range=span)
    return b.build()


def stack() -> ws.Model:
    """Two boxes, the upper one sliding: eight contacts and 24 rows on 12 dofs."""
    b = ws.ModelBuilder("stack")
    b.add_geom("plane", friction=0.9)
    for i, (half, mass) in enumerate(((0.1, 3.0), (0.08, 1.0))):
        b.add_body(f"box{i}", pose=[0.0, 0.0, 0.1 + 0.18 * i], mass=mass, inertia=[0.01 * mass] * 3)
        b.add_joint(f"box{i}", "free")
        b.add_geom("box", [half] * 3, body=f"box{i}", density=0.0, friction=0.9 - 0.7 * i)
    return b.build()


def shifted(model, height):
    q = model.q0.copy()
    q[2::7] += height
    return q


ON_THE_HILL = [0.99999 * np.sin(0.4), 0.0, 0.99999 * np.cos(0.4), 1.0, 0.0, 0.0, 0.0]
MOTIONS = {
    "stiction": (box(), shifted(box(), -2e-5), np.zeros(6), ("geom_friction", "geom_size")),
    "sliding": (box(), shifted(box(), -2e-5), [0.6, 0.3, 0, 0, 0, 0.5], ("geom_friction", "geom_size", "body_com")),
    "corners that slide different ways": (
        box(),
        np.array([0.0, 0.0, 0.1 - 2e-5, np.cos(0.15), 0.0, 0.0, np.sin(0.15)]),
        [0.06, 0.03, 0, 0, 0, 0.5],
        ("geom_friction", "geom_size", "body_com"),
    ),
    "rolling over a sphere": (
        ball(floor="sphere"),
        ON_THE_HILL,
        [0.1, 0.2, 0.0, 0.1, 0.5, 0.3],
        ("geom_friction", "geom_size", "geom_pose"),
    ),
    "restitution": (ball(0.5, 0.3), ball().q0, [0.5, 0, -1, 0, 0, 0.3], ("geom_restitution", "geom_friction")),
    "restitution that grips": (ball(0.5, 2.0), ball().q0, [0.05, 0, -1, 0, 0, 0.3], ("geom_restitution", "geom_size")),
    "stop": (limited_pendulum(), [0.29, 0.5], [1.0, 0.3], ("joint_range", "body_com")),
    "loop": (fourbar(), fourbar().q0, np.zeros(3), ()),
    "stack": (stack(), shifted(stack(), -1e-5) - np.eye(14)[9] * 1e-5, [0] * 6 + [0.3, 0.1, 0, 0, 0, 0.2], ()),
}
QUICK = {"entries": 2, "step_sizes": (1e-5, 1e-6, 1e-7)}


def check(sim, state, horizons, names=(), **options):
    """No gradient is wrong; 1e-6 at one step, 1e-5 at more."""
    result = ws.check_gradients(sim, state, horizons=horizons, parameters=names, tolerance=1e-5, **QUICK, **options)
    assert result.ok, str(result)
    assert result.worst(1) <= 1e-6, str(result)
    assert all(row.compared for row in result.rows), str(result)


@pytest.mark.parametrize("name", MOTIONS)
def test_differences(name):
    """State, mass, gravity and what else matters at 1, 10 and 40 steps: those of central differences.

    Four corners that slide different ways: their impulses are not unique, the motion depends on them, and so on the rule
    of least norm.
    """
    model, q, v, names = MOTIONS[name]
    sim = simulator(model, dt=0.01)
    check(sim, sim.state(q, v), (1, 10, 40), ("body_mass", "gravity", *names))


@pytest.mark.parametrize(
    "integrator", [ws.ExplicitEuler(), ws.ImplicitEuler(tolerance=1e-15), ws.Midpoint(tolerance=1e-15)]
)
@pytest.mark.parametrize("name", ["corners that slide different ways", "rolling over a sphere", "restitution"])
def test_other_integrators(integrator, name):
    """The same with A, J and v* of the other schemes; the target −e J v* of an impact reaches through their free motion."""
    model, q, v, names = MOTIONS[name]
    sim = simulator(model, dt=0.01, integrator=integrator)
    check(sim, sim.state(q, v), (1, 10), names)


def test_variational_integrator():
    """A ball that rolls, at the solver's default tolerance; the escape is refused."""
    model, q = ball(), shifted(ball(), -0.00201)
    sim = simulator(model, dt=0.01, solver=ws.LCP(), integrator=ws.Variational())
    check(sim, sim.state(q, [0.3, 0.1, 0, 0, 0, 0.5]), (1, 10), ("body_mass",))
    with pytest.raises(ValueError, match="saddle_escape"):
        simulator(model, solver=ws.LCP(saddle_escape=True), integrator=ws.Variational())


@pytest.fixture(scope="module")
def ant(assets):
    """An ant that stands, 0.2 mm into the floor (at φ = 0 the derivative by height has two sides)."""
    model = ws.load(assets("ant"))
    settle = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu", solver=ws.LCP(error_reduction=0.2))
    rest = settle.rollout(settle.state(), steps=300, every=300).final
    assert settle.diagnostics.contacts.numpy()[0] >= 4
    return model, rest.q.numpy()[0] - 2e-4 * np.eye(model.nq)[2], rest.v.numpy()[0]


def test_ant_in_contact(ant):
    """Feet that stick and slide, stops, actuators: state, controls, masses and frictions at 1, 10 and 40 steps."""
    model, q, v = ant
    sim = simulator(model, dt=0.005)
    sim.parameters["geom_friction"].assign(
        sim.parameters["geom_friction"].numpy() * (1 + 0.01 * np.arange(model.ngeom))
    )
    v = v + 0.05 * np.random.default_rng(5).normal(size=model.nv)
    check(sim, sim.state(q, v), (1, 10, 40), ("body_mass", "geom_friction", "geom_size"))


@pytest.mark.parametrize("v", [np.zeros(6), [0.6, 0.4, 0, 0, 0, 0.5]], ids=["stuck", "sliding"])
def test_redundant_contacts_do_not_change_the_gradient(v):
    """The velocity's derivative is unique although the impulses' is not: four corners, or each of them three times."""
    found = []
    for copies in (1, 3):
        model = box(copies)
        sim = simulator(model, dt=0.01)
        start, tau = sim.state(shifted(model, -2e-5), v), array([[1.0, 0.5, -2.0, 0.1, 0.2, 0.3]], requires_grad=True)
        mass = sim.parameters["body_mass"]
        with wp.Tape() as tape:
            state = start
            for _ in range(5):
                state = sim.step(state, tau=tau)
        assert sim.diagnostics.contacts.numpy()[0] == 4 * copies
        seeds = np.random.default_rng(1).normal(size=13)
        tape.backward(grads={state.q: array([seeds[:7]]), state.v: array([seeds[7:]])})
        found.append(np.concatenate([x.grad.numpy().ravel() for x in (start.q, start.v, tau, mass)]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-11)


# ---- records, worlds, graphs ----------------------------------------------------------------------------------------

STEPS, WORLDS = 12, 3


def test_a_corner_that_touches_without_an_impulse():
    """A box that slides and turns on a tilted floor, its weight near one corner: the opposite one touches (w = 0) with no impulse,
    which must not make it one of those that clamp by the rounding of w. ∂v'/∂v is that of central differences."""
    w, x, y, z = tilt = np.array([0.8, 0.3, -0.4, 0.2]) / np.linalg.norm([0.8, 0.3, -0.4, 0.2])
    up = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
    b = ws.ModelBuilder("uneven", gravity=tuple(-9.81 * up), timestep=0.005)
    b.add_geom("plane", pose=[0, 0, 0, *tilt], friction=0.5)
    b.add_body("box", pose=[*(0.02 * up), *tilt], mass=1.0, com=[0.08, 0.072, 0.0], inertia=[0.01] * 3)
    b.add_joint("box", "free")
    b.add_geom("box", [0.1, 0.1, 0.02], body="box", friction=0.5)
    worlds, rng, size = 100, np.random.default_rng(0), 1e-6
    v = np.zeros((worlds, 6))
    v[:, :3], v[:, 5] = rng.normal(0.0, 0.3, (worlds, 3)), rng.normal(0.0, 3.0, worlds)
    v[:, :3] -= np.outer(v[:, :3] @ up, up)
    sim = simulator(b.build(), worlds)
    sim.step(sim.state(v=v))
    pushes = sim.last_contacts.impulse[:, :4, 2] > 0.0
    of_three = np.flatnonzero(pushes.sum(axis=1) == 3)
    assert len(of_three) > 20
    worst = 0.0
    for i, e in enumerate(np.eye(6)):
        state = sim.state(v=v)
        with wp.Tape() as tape:
            after = sim.step(state)
        tape.backward(grads={after.v: array(np.tile(e, (worlds, 1)))})
        for k, d in enumerate(size * np.eye(6)):
            difference = (sim.step(sim.state(v=v + d)).v.numpy() - sim.step(sim.state(v=v - d)).v.numpy())[:, i]
            error = np.abs(difference / (2 * size) - state.v.grad.numpy()[:, k])
            worst = max(worst, error[of_three].max())
    assert worst < 1e-7


def ant_gradients(ant, nan=False, **options):
    """A taped rollout of three worlds and its gradients to start, controls and masses."""
    model, q, v = ant
    sim = simulator(model, WORLDS, dt=0.005)
    values = np.random.default_rng(1).uniform(-1, 1, (STEPS, WORLDS, model.nu))
    if nan:
        values[5, 1, 0] = np.nan
    start, controls = sim.state(q, v), array(values, requires_grad=True)
    mass = sim.parameters["body_mass"]
    with wp.Tape() as tape:
        trajectory = sim.rollout(start, controls, **options)
    seed = np.random.default_rng(2).normal(size=(WORLDS, model.nq))
    for _ in range(3):  # the last from graphs
        for x in (start.q, start.v, controls, mass):
            x.grad.zero_()
        tape.backward(grads={trajectory.final.q: array(seed)})
    return sim, start, controls, trajectory, [x.grad.numpy().copy() for x in (start.q, start.v, controls, mass)]


def test_taped_rollouts_are_the_same_bits(ant):
    """Recording, with checkpoints or without, changes no bit of the motion, and checkpoints no gradient."""
    sim, start, controls, taped, found = ant_gradients(ant)
    plain = sim.rollout(start, controls)
    kept = ant_gradients(ant, checkpoint_every=5)
    for trajectory in (taped, kept[3]):
        np.testing.assert_array_equal(plain.q.numpy(), trajectory.q.numpy())
        np.testing.assert_array_equal(plain.v.numpy(), trajectory.v.numpy())
    for a, b in zip(found, kept[4], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * np.abs(a).max())


def test_a_world_that_stops_harms_no_other(ant):
    """A NaN control in world 1: zero gradients from there on, all others as without it."""
    expected = ant_gradients(ant)[4]
    sim, _, _, _, found = ant_gradients(ant, nan=True)
    assert list(sim.diagnostics.flags.numpy() & 1) == [0, 1, 0]
    for name, a, b in zip(("q", "v", "controls", "mass"), expected, found, strict=True):
        axis = 1 if name == "controls" else 0
        assert np.isfinite(b).all()
        if b.shape[axis] == WORLDS:
            np.testing.assert_array_equal(np.take(a, [0, 2], axis), np.take(b, [0, 2], axis))
            assert not np.take(b, 1, axis).any()


def test_single_precision(ant):
    """float32 finds the same gradient of one step to 1e-3, ties and rank included."""
    model, q, v = ant
    found = []
    for dtype in ("float64", "float32"):
        sim = simulator(model, 16, dtype=dtype, dt=0.005, solver=ws.LCP(error_reduction=0.2))
        scalar = wp.dtype_from_numpy(np.dtype(dtype))
        rng = np.random.default_rng(3)
        start = sim.state(q, v + 0.1 * rng.normal(size=(16, model.nv)))
        with wp.Tape() as tape:
            after = sim.step(start)
        tape.backward(grads={after.v: wp.array(rng.normal(size=(16, model.nv)), dtype=scalar, device="cpu")})
        found.append(start.v.grad.numpy().astype(float))
    error = np.abs(found[0] - found[1]).max(axis=1) / np.abs(found[0]).max(axis=1)
    assert np.sort(error)[-2] <= 1e-3  # one world may lie on a border of classes


def test_an_option_that_is_no_derivative_is_noted():
    """`check_gradients` says so where the gradient differs from the derivative on purpose."""
    sim = simulator(ball(0.5), solver=ws.LCP(tolerance=1e-13, saddle_escape=True))
    result = ws.check_gradients(sim, horizons=(1,), entries=1, step_sizes=(1e-6,))
    assert "saddle_escape: gradients are then not" in str(result)


def test_a_box_at_rest_is_on_a_kink():
    """A box at rest touches with its four corners (φ = 0 to rounding): by height the one-sided differences differ, and the
    gradient is that of an overlap, whatever the rounding; velocity and mass agree with the differences; `check_gradients`
    says what the matter is, and has nothing to say of a start inside."""
    b = ws.ModelBuilder("box", timestep=0.005)
    b.add_geom("plane", friction=0.5)
    b.add_body("box", pose=[0.0, 0.0, 0.0999], mass=1.2, com=[0.01, 0.005, -0.01], inertia=[0.005, 0.006, 0.007])
    b.add_joint("box", "free")
    b.add_geom("box", [0.1, 0.08, 0.0999], body="box", density=0.0, friction=0.4)
    sim = simulator(b.build())
    sim.step(sim.state())
    assert sim.last_contacts.count[0] == 4 and np.abs(sim.last_contacts.phi).max() < 1e-15
    options = {"horizons": 1, "entries": 7, "parameters": "body_mass", "step_sizes": (1e-5, 1e-6, 1e-7)}
    check = ws.check_gradients(sim, **options)
    assert check.ok and any("4 contacts touch at the start" in note for note in check.notes)
    rows = {row.variable: row for row in check.rows}
    assert "a kink" in " ".join(rows["q"].notes) and rows["v"].error < 1e-7 and rows["body_mass"].error < 1e-7
    slopes, weights = {}, np.arange(1.0, 7.0)

    def loss(height):
        return sim.step(sim.state(sim.model.q0 + [0, 0, height, 0, 0, 0, 0])).v.numpy()[0] @ weights

    for side in (1e-7, -1e-7):
        slopes[side] = (loss(side) - loss(0.0)) / side
    state = sim.state()
    with wp.Tape() as tape:
        after = sim.step(state)
    tape.backward(grads={after.v: array([weights])})
    found = state.q.grad.numpy()[0, 2]
    assert abs(slopes[1e-7] - slopes[-1e-7]) > 100.0
    assert abs(found - slopes[-1e-7]) < 1e-4
    inside = sim.state(sim.model.q0 - [0, 0, 2e-5, 0, 0, 0, 0])
    check = ws.check_gradients(sim, inside, **options)
    assert not any("touch" in note for note in check.notes) and not any(row.notes for row in check.rows)
