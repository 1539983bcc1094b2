# SPDX-License-Identifier: Apache-2.0
"""Gradients of the variational integrator against central differences in float64, at 1 and 40 steps."""

import numpy as np
import pytest
import warp as wp
from test_step_gradient import SOLVER, STEP_SIZES, Problem, all_joints, sliding_box
from test_theta_gradient import hill

import warpsim as ws
from scenes.constraints import driven_pair, fourbar, welded_beam

# The roots must be found far below the differences' own error.
VARIATIONAL = ws.Variational(tolerance=1e-15)
horizons = pytest.mark.parametrize(("steps", "tolerance"), [(1, 1e-6), (40, 1e-5)])


def error_along(problem: Problem, name: str, gradient, direction) -> float:
    """Difference between the gradient and the best of the central differences along a direction, over the largest entry."""
    moves = [sign * size * direction for size in STEP_SIZES for sign in (1, -1)]
    ahead, behind = (
        problem.values([problem.point | {name: problem.point[name] + move} for move in moves]).reshape(-1, 2).T
    )
    errors = np.abs((ahead - behind) / (2 * np.array(STEP_SIZES)) - (gradient * direction).sum())
    return errors.min() / max(np.abs(gradient).max(), 1e-3)


def check(problem: Problem, tolerance: float) -> None:
    """Every gradient of the problem is that of the differences, along directions that move all entries at once."""
    rng = np.random.default_rng(9)
    for name, gradient in problem.gradient().items():
        direction = rng.uniform(0.5, 1.0, gradient.shape) * rng.choice([-1.0, 1.0], gradient.shape)
        assert error_along(problem, name, gradient, direction) <= tolerance, name


@horizons
@pytest.mark.parametrize("stopped", [False, True])
def test_every_joint_type(stopped, steps, tolerance):
    """Ball, hinge, slide, free and fixed joints with springs, dampers, dry friction, armature and actuators, in free flight
    and where a ball and a hinge stand beyond their stops: state, controls and twelve kinds of parameters."""
    model, rng = all_joints(), np.random.default_rng(3)
    v0, q0 = 0.5 * rng.normal(size=model.nv), model.q0.copy()
    if stopped:
        q0[:4] = np.cos(0.2505), *(np.sin(0.2505) * np.array([0.6, 0.0, 0.8]))  # beyond the ball's stop, 0.5 rad
        q0[4] = 0.301  # beyond the hinge's, 0.3 rad
    controls = 0.5 * rng.normal(size=(steps, model.nu))
    names = ("body_mass", "body_com", "joint_stiffness", "joint_damping", "joint_armature", "joint_reference")
    names += ("actuator_gain", "actuator_bias", "joint_pose", "gravity", "joint_range", "joint_friction")
    problem = Problem(model, q0, v0, steps, controls, parameters=names, integrator=VARIATIONAL)
    problem.point["actuator_bias"][:, 1:] -= 0.1  # at 0 velocity gains turn from implicit to explicit
    check(problem, tolerance)


def test_joint_axes_and_inertias():
    """Axes have length 1: their gradients mean something across them. Of an inertia the diagonal is tested: its other
    entries come in pairs, and differences move one."""
    model, rng = all_joints(), np.random.default_rng(4)
    names = ("joint_axis", "body_inertia")
    problem = Problem(model, model.q0, rng.normal(size=model.nv), 5, parameters=names, integrator=VARIATIONAL)
    gradient = problem.gradient()
    across = np.cross(problem.point["joint_axis"], rng.normal(size=(model.njoint, 3)))
    assert error_along(problem, "joint_axis", gradient["joint_axis"], across) <= 1e-6
    diagonal = np.eye(3) * rng.normal(size=(model.nbody, 1, 3))
    assert error_along(problem, "body_inertia", gradient["body_inertia"], diagonal) <= 1e-6


JOINTS = {
    "slide": '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/>',
    "free": "<freejoint/>",
}
JOINTS["hinge"] = JOINTS["slide"] + '<joint type="hinge" axis="0 1 0" damping="1e-3"/>'
JOINTS["universal"] = JOINTS["hinge"] + '<joint type="hinge" axis="1 0 0" armature="1e-3"/>'
JOINTS["ball"] = JOINTS["slide"] + '<joint type="ball"/>'
# Friction and the initial velocity along x [m/s] and about y [rad/s]; sliding spheres would begin to roll.
REGIMES = {"stiction": (0.8, 0.0, 0.0), "sliding": (0.2, 0.4, 0.0), "rolling": (0.8, 0.4, 4.0)}


def on_the_ground(joint: str, regime: str):
    """A box, or a ball that rolls, on the ground under gravity that is not upright, by one kind of joint; its v0."""
    import mujoco

    friction, along, about = REGIMES[regime]
    geom = 'type="sphere" size="0.1"' if regime == "rolling" else 'type="box" size="0.1 0.08 0.1"'
    model = ws.load(
        mujoco.MjModel.from_xml_string(f"""<mujoco><option gravity="0.3 0.2 -9.81"/><worldbody>
        <geom type="plane" size="5 5 1" friction="{friction}"/>
        <body pos="0 0 0.09999">{JOINTS[joint]}<geom {geom} friction="{0.9 * friction}"/></body></worldbody></mujoco>""")
    )
    v0 = 0.01 * np.random.default_rng(8).normal(size=model.nv)
    v0[0] += along
    if about:
        v0[3 if joint in ("hinge", "universal") else 4] += about
    return model, v0


@horizons
@pytest.mark.parametrize(
    ("joint", "regime"), [(j, r) for j in JOINTS for r in REGIMES if (j, r) != ("slide", "rolling")]
)
def test_contact_by_joint_and_regime(joint, regime, steps, tolerance):
    """Every joint type in stiction, sliding and rolling: state and parameters of body, joint, geoms and scene."""
    model, v0 = on_the_ground(joint, regime)
    names = ("body_mass", "body_com", "geom_friction", "geom_size", "gravity", "joint_damping", "joint_armature")
    problem = Problem(model, model.q0, v0, steps, parameters=names, integrator=VARIATIONAL)
    problem.point["joint_damping"] += 0.05
    problem.point["body_com"] += [0.01, -0.02, 0.015]  # where no torque acts the jump of a spin has a kink
    problem.gradient()
    assert problem.sim.diagnostics.contacts.numpy()[0] == (1 if regime == "rolling" else 4)
    check(problem, tolerance)


def test_at_rest():
    """A box that has come to rest on level ground, 40 steps: neither the pull of gravity nor its direction moves it, which is
    so because contact undoes what the free motion does, though that is nothing along the ground."""
    model = sliding_box()
    q0, v0 = model.q0 - 2e-5 * np.eye(7)[2], [0.3, 0.05, 0.0, 0.0, 0.0, 0.5]
    check(Problem(model, q0, v0, 40, parameters=("gravity", "body_com"), integrator=VARIATIONAL), 1e-5)


@pytest.mark.parametrize("joint", ["free", "ball"])
@pytest.mark.parametrize("steps", [1, 2, 10, 40])
def test_a_ball_at_rest_by_the_direction_of_gravity(joint, steps):
    """A pull along the table makes a ball at rest roll, and its friction changes the velocity along the table by less than the pull
    does: entry by entry the gradient of v' by gravity is that of the differences, though along the table both are 0."""
    import mujoco

    model = ws.load(
        mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody><geom type="plane" size="5 5 1" friction="0.1"/>
        <body pos="0 0 0.09998">{JOINTS[joint]}<geom type="sphere" size="0.1" friction="0.09"/></body></worldbody></mujoco>""")
    )
    problem = Problem(model, model.q0, np.zeros(model.nv), steps, parameters=("gravity",), integrator=VARIATIONAL)
    gradient = problem.gradient()["gravity"]
    for direction in np.eye(3):
        assert error_along(problem, "gravity", gradient, direction.reshape(gradient.shape)) <= 1e-6


@horizons
def test_a_turning_normal(steps, tolerance):
    """A ball that rolls over a fixed sphere."""
    model = hill()
    q0, v0 = model.q0 - 1e-6 * np.eye(7)[2], [0.1, 0.0, 0.0, 0.0, 1.0, 0.3]
    names = ("body_mass", "geom_size", "geom_pose")
    check(Problem(model, q0, v0, steps, parameters=names, integrator=VARIATIONAL), tolerance)


@pytest.mark.parametrize(("steps", "tolerance"), [(1, 1e-6), (10, 1e-5)])
@pytest.mark.parametrize("passes", [2, 3])
def test_several_passes(passes, steps, tolerance):
    """Contact solved again for what the change of M within the step has missed: a spinning box by a chain of joints."""
    model, v0 = on_the_ground("universal", "sliding")
    integrator = ws.Variational(tolerance=1e-15, passes=passes)
    names = ("body_mass", "body_com", "geom_friction", "geom_size", "gravity", "joint_damping")
    problem = Problem(model, model.q0, v0 + [0.0, 0.0, 0.0, 0.3, 0.2], steps, parameters=names, integrator=integrator)
    problem.point["joint_damping"] += 0.05
    problem.point["body_com"] += [0.01, -0.02, 0.015]
    check(problem, tolerance)


def test_rigid_contact():
    """A ball that slides and rolls under `ws.LCP`, 10 steps: what changes the contact stage alone fits in."""
    model, v0 = on_the_ground("free", "rolling")
    v0[4] = 1.0
    solver = ws.LCP(tolerance=1e-13)
    names = ("body_mass", "geom_friction", "gravity")
    check(Problem(model, model.q0, v0, 10, parameters=names, solver=solver, integrator=VARIATIONAL), 1e-5)


@horizons
@pytest.mark.parametrize("robot", ["ant", "half_cheetah"])
def test_robot_in_contact(assets, robot, steps, tolerance):
    """A robot on the ground, stopped joints included: state, controls, masses and friction."""
    model = ws.load(assets(robot))
    settle = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu")
    rest = settle.rollout(settle.state(), steps=300).final
    assert settle.diagnostics.contacts.numpy()[0] >= 2
    rng = np.random.default_rng(5)
    controls = 0.3 * rng.uniform(-1, 1, size=(steps, model.nu))
    q0, v0 = rest.q.numpy()[0], rest.v.numpy()[0] + 0.05 * rng.normal(size=model.nv)
    names = ("body_mass", "geom_friction", "joint_damping", "joint_armature", "geom_size")
    problem = Problem(model, q0, v0, steps, controls, parameters=names, dt=0.005, integrator=VARIATIONAL)
    problem.point["geom_friction"] *= 1 + 0.01 * np.arange(model.ngeom)  # the larger of two equal ones has a kink
    check(problem, tolerance)


@horizons
@pytest.mark.parametrize("scene", ["four-bar", "weld"])
def test_constraints_between_bodies(steps, tolerance, scene):
    """A four-bar linkage and a welded box."""
    model, dt, v0, names = fourbar("connect"), 0.002, [1.0, -0.6, 0.2], ("body_mass", "body_com", "gravity")
    if scene == "weld":
        model, dt, names = welded_beam(), 0.005, ("body_mass", "joint_pose", "joint_damping")
        v0 = 0.3 * np.random.default_rng(1).normal(size=model.nv)
    check(Problem(model, model.q0, v0, steps, parameters=names, dt=dt, integrator=VARIATIONAL), tolerance)


@pytest.mark.parametrize("target", [0.05, 3.0])
def test_servos_with_effort_limits(target):
    """Position servos within their limit (small target) and at it (large)."""
    controls = np.full((10, 2), target) * [1.0, -1.0]
    names = ("actuator_gain", "actuator_bias", "force_range", "body_mass")
    state = ([0.02, -0.03], [0.1, -0.05])
    check(Problem(driven_pair(), *state, 10, controls, parameters=names, dt=0.005, integrator=VARIATIONAL), 1e-5)


@pytest.mark.parametrize(
    "solver",
    [
        ws.SAP(tolerance=1e-13, approximation="convex"),
        ws.Compliant(tolerance=1e-12, stiffness=1e6),
        ws.NoContact(limits=SOLVER),
    ],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.parametrize("root_finder", ["newton", "broyden"])
def test_other_solvers_and_root_finders(solver, root_finder):
    """The adjoint asks for the root, not for how it was found; convex and compliant contact, and none."""
    model = sliding_box()
    q0 = model.q0 - 2e-5 * np.eye(7)[2]
    integrator = ws.Variational(tolerance=1e-15, root_finder=root_finder)
    state = (q0, [0.3, 0.05, 0.0, 0.0, 0.0, 0.5])
    check(
        Problem(model, *state, 10, parameters=("body_mass", "geom_friction"), solver=solver, integrator=integrator),
        1e-5,
    )


# state, rollouts -------------------------------------------------------------------------------------------------------

WORLDS, STEPS = 3, 11


@pytest.fixture(scope="module")
def boxes():
    """Three boxes that slide and spin to rest: simulator, q, v."""
    sim = ws.Simulator(
        sliding_box(),
        worlds=WORLDS,
        dtype="float64",
        requires_grad=True,
        device="cpu",
        integrator=VARIATIONAL,
        solver=SOLVER,
    )
    v = np.array([[0.3, 0.05, 0.0, 0.0, 0.0, 0.5]]) * np.linspace(0.6, 1.0, WORLDS)[:, None]
    return sim, sim.model.q0 - 2e-5 * np.eye(7)[2], v


def gradients(boxes, **options):
    """Trajectory, and the gradients to the start and the masses of a loss on rows and last state."""
    sim, q, v = boxes
    start, mass, rng = sim.state(q, v), sim.parameters["body_mass"], np.random.default_rng(4)
    mass.grad.zero_()
    with wp.Tape() as tape:
        t = sim.rollout(start, steps=STEPS, **options)
    arrays = [t.q, t.v, t.final.q, t.final.v]
    tape.backward(grads={a: wp.array(rng.normal(size=a.shape), dtype=a.dtype, device=a.device) for a in arrays})
    return t, [x.numpy().copy() for x in (start.q.grad, start.v.grad, mass.grad)]


def test_the_jump_carries_gradients(boxes):
    """What the state remembers of a contact's impulse, `memory["jump"]`, is an input of the next step and a result of the
    last: its gradient is that of the differences."""
    sim, q, v = boxes
    rng = np.random.default_rng(6)
    weights = {name: rng.normal(size=6) for name in ("v", "jump")}
    jump = 0.02 * rng.normal(size=(WORLDS, 6))

    def step(values):
        start = sim.state(q, v)
        start.memory["jump"].assign(values)
        return start, sim.step(start)

    def loss(values):
        arrays = step(values)[1].numpy()
        return sum(arrays[name] @ w for name, w in weights.items())

    with wp.Tape() as tape:
        start, after = step(jump)
    seeds = {after.arrays()[name]: np.tile(w, (WORLDS, 1)) for name, w in weights.items()}
    tape.backward(grads={a: wp.array(x, dtype=wp.float64, device="cpu") for a, x in seeds.items()})
    found = start.memory["jump"].grad.numpy()
    for d in range(6):
        errors = []
        for size in STEP_SIZES:
            change = size * np.eye(6)[d]
            errors.append(np.abs((loss(jump + change) - loss(jump - change)) / (2 * size) - found[:, d]).max())
        assert min(errors) <= 1e-6 * np.abs(found).max()


def test_taped_and_untaped_states_are_identical(boxes):
    """Recording changes no bit of the trajectory; nor does a simulator without gradients."""
    sim, q, v = boxes
    options = {"worlds": WORLDS, "dtype": "float64", "device": "cpu", "integrator": VARIATIONAL, "solver": SOLVER}
    without = ws.Simulator(sim.model, **options)
    expected = without.rollout(without.state(q, v), steps=STEPS)
    untaped = sim.rollout(sim.state(q, v), steps=STEPS)
    taped, _ = gradients(boxes)
    for t in (untaped, taped):
        np.testing.assert_array_equal(t.q.numpy(), expected.q.numpy())
        np.testing.assert_array_equal(t.v.numpy(), expected.v.numpy())
        np.testing.assert_array_equal(t.final.memory["jump"].numpy(), expected.final.memory["jump"].numpy())


@pytest.mark.parametrize("n", [1, 4, 100])
@pytest.mark.parametrize("substeps", [1, 2])
def test_checkpoints_change_nothing(boxes, n, substeps):
    """The same bits forward, and the same gradients to round-off: the jump and its gradient pass from piece to piece."""
    plain, expected = gradients(boxes, substeps=substeps)
    kept, found = gradients(boxes, substeps=substeps, checkpoint_every=n)
    np.testing.assert_array_equal(plain.v.numpy(), kept.v.numpy())
    for a, b in zip(expected, found, strict=True):
        assert np.abs(a - b).max() <= 1e-12 * np.abs(a).max()


@pytest.mark.parametrize("n", [None, 4])
def test_a_world_that_stops_passes_no_gradient(boxes, n):
    """A force that is not a number stops world 1 after some steps: what came before has its gradient, what comes after none,
    and the other worlds have what they get without it."""
    sim, q, v = boxes
    rng, taus = np.random.default_rng(4), np.zeros((WORLDS, 6))
    seeds = [wp.array(rng.normal(size=(WORLDS, 6)), dtype=wp.float64, device="cpu") for _ in range(2)]

    def run(broken):
        taus[1, 0] = np.nan if broken else 0.0
        start, mass = sim.state(q, v), sim.parameters["body_mass"]
        tau = wp.array(taus, dtype=wp.float64, device="cpu", requires_grad=True)
        mass.grad.zero_()
        with wp.Tape() as tape:
            middle = sim.rollout(start, steps=4, checkpoint_every=n).final
            end = sim.step(sim.step(middle, tau=tau))
        tape.backward(grads={middle.v: seeds[0], end.v: seeds[1]})
        assert end.memory["flags"].numpy().tolist() == [0, int(ws.NONFINITE) if broken else 0, 0]
        return [x.grad.numpy().copy() for x in (start.q, start.v, tau, mass)]

    expected, found = run(broken=False), run(broken=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a[[0, 2]], b[[0, 2]])
        assert np.isfinite(a).all()
    assert not found[2][1].any() and found[1][1].any()


def test_what_has_no_gradient_is_refused():
    """Several passes of rigid contact, and a state without gradients: an error each, never zeros."""
    with pytest.raises(ValueError, match="use passes=1"):
        ws.Simulator(sliding_box(), integrator=ws.Variational(passes=3), solver=ws.LCP(), requires_grad=True)
    sim, other = (
        ws.Simulator(sliding_box(), integrator=ws.Variational(), requires_grad=grad, device="cpu")
        for grad in (True, False)
    )
    with wp.Tape(), pytest.raises(ValueError, match=r"sim\.state\(\)"):
        sim.step(other.state())


def test_stiff_compliant_contact_is_repeated_as_exactly_as_it_was_solved():
    """The backward pass solves compliant contact again, by SAP, far below SAP's default tolerance: small gradients hold."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", friction=0.05)
    b.add_body("box", pose=[0, 0, 0.1], mass=1.0, com=[0.01, 0.005, -0.01], inertia=[0.005, 0.006, 0.007])
    b.add_joint("box", "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body="box", density=0.0, friction=0.1)
    options = {"dt": 0.005, "integrator": ws.Variational(tolerance=1e-13)}
    options["solver"] = ws.Compliant(tolerance=1e-12, stiffness=1e8)
    settle = ws.Simulator(b.build(), dtype="float64", device="cpu", **options)
    q0 = settle.rollout(settle.state(), steps=200).final.q.numpy()[0]
    problem = Problem(b.build(), q0, [0.3, 0.06, 0, 0, 0, 0], 5, parameters=("body_com",), **options)
    gradient = problem.gradient()["body_com"][0, 0]
    found = problem.differences("body_com", [(0, 0)], [1e-4])[0, 0]
    assert abs(gradient - found) <= 1e-3 * abs(found)
