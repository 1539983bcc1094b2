# SPDX-License-Identifier: Apache-2.0
"""Gradients of steps through `wp.Tape` against central differences in float64, at 1, 10 and 40 steps."""

import functools
import itertools

import numpy as np
import pytest
import warp as wp

import warpsim as ws

# The solver must be far below the differences' own error: 1e-13 against steps of 1e-4 to 1e-7.
SOLVER = ws.SAP(tolerance=1e-13)
CONVEX = ws.SAP(tolerance=1e-13, approximation="convex")
both_laws = pytest.mark.parametrize("solver", [SOLVER, CONVEX], ids=["Coulomb", "convex"])
STEP_SIZES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
BATCH = 50  # points of the differences at a time, a world each: worlds are independent to the last bit


@wp.kernel
def weighted_sum(
    q: wp.array2d(dtype=wp.float64),
    v: wp.array2d(dtype=wp.float64),
    a: wp.array(dtype=wp.float64),
    b: wp.array(dtype=wp.float64),
    loss: wp.array(dtype=wp.float64),
):
    w, i = wp.tid()
    if i < q.shape[1]:
        wp.atomic_add(loss, w, a[i] * q[w, i])
    if i < v.shape[1]:
        wp.atomic_add(loss, w, b[i] * v[w, i])


class Problem:
    """A scalar loss of the state after some steps, as a function of q0, v0, controls and parameters."""

    def __init__(self, model, q0, v0, steps, controls=None, parameters=(), dt=0.01, integrator=None, solver=SOLVER):
        options = dict(dtype="float64", requires_grad=True, solver=solver, device="cpu", integrator=integrator)
        self.make = functools.partial(ws.Simulator, model, dt=dt, **options)
        self.sim, self.many = self.make(), None
        self.model, self.steps = model, steps
        rng = np.random.default_rng(7)
        self.a, self.b = (wp.array(rng.normal(size=n), dtype=wp.float64, device="cpu") for n in (model.nq, model.nv))
        self.point = {"q0": np.array(q0, float), "v0": np.array(v0, float)}
        if controls is not None:
            self.point["controls"] = np.array(controls, float)
        for name in parameters:
            self.point[name] = self.sim.parameters[name].numpy()[0].copy()

    def _run(self, sim, points):
        """Losses (worlds), start and controls of one point per world."""
        for name in self.point:
            if name not in ("q0", "v0", "controls"):
                sim.parameters[name].assign(np.stack([point[name] for point in points]))
        state = sim.state(*(np.stack([point[name] for point in points]) for name in ("q0", "v0")))
        controls = None
        if "controls" in self.point:
            values = np.stack([point["controls"] for point in points], axis=1)
            controls = wp.array(values, dtype=wp.float64, device="cpu", requires_grad=True)
        start = state
        for k in range(self.steps):
            state = sim.step(state, None if controls is None else controls[k])
        loss = wp.zeros(len(points), dtype=wp.float64, device="cpu", requires_grad=True)
        dim = (len(points), max(self.model.nq, self.model.nv))
        wp.launch(weighted_sum, dim=dim, inputs=[state.q, state.v, self.a, self.b, loss], device="cpu")
        return loss, start, controls

    def value(self, point):
        return float(self._run(self.sim, [point])[0].numpy()[0])

    def values(self, points) -> np.ndarray:
        """The loss at each of the points."""
        if self.many is None:
            self.many = self.make(BATCH)
        found = []
        for first in range(0, len(points), BATCH):
            part = points[first : first + BATCH]
            part += [part[-1]] * (BATCH - len(part))
            found.append(self._run(self.many, part)[0].numpy().copy())
        return np.concatenate(found)[: len(points)]

    def gradient(self):
        for name in self.point:
            if name not in ("q0", "v0", "controls"):
                self.sim.parameters[name].grad.zero_()
        with wp.Tape() as tape:
            loss, start, controls = self._run(self.sim, [self.point])
        tape.backward(loss)
        result = {"q0": start.q.grad.numpy()[0], "v0": start.v.grad.numpy()[0]}
        if controls is not None:
            result["controls"] = controls.grad.numpy()[:, 0]
        for name in self.point:
            if name not in result:
                result[name] = self.sim.parameters[name].grad.numpy()[0]
        assert not (self.sim.diagnostics.flags.numpy() & ~ws.UNRESOLVED).any()
        return result

    def differences(self, name, indices, sizes=STEP_SIZES) -> np.ndarray:
        """Central differences (indices, sizes) by entries of one argument."""
        points = []
        for index, size, sign in itertools.product(indices, sizes, (1, -1)):
            value = self.point[name].copy()
            value[index] += sign * size
            points.append(self.point | {name: value})
        values = self.values(points).reshape(len(indices), len(sizes), 2)
        return (values[..., 0] - values[..., 1]) / (2 * np.asarray(sizes))

    def worst_error(self, name, gradient, entries=None, seed=0):
        """Largest |gradient - difference| of some entries, relative to the largest entry of this gradient."""
        indices = list(np.ndindex(gradient.shape))
        if entries is not None and len(indices) > entries:
            chosen = np.random.default_rng(seed).choice(len(indices), entries, replace=False)
            indices = [indices[i] for i in chosen]
        scale = max(np.abs(gradient).max(), 1e-3)
        at = np.array([gradient[index] for index in indices])
        return np.abs(self.differences(name, indices) - at[:, None]).min(axis=1).max(initial=0.0) / scale


def sliding_box():
    b = ws.ModelBuilder("sliding box")
    b.add_geom("plane", name="floor", friction=0.3)
    box = b.add_body("box", pose=[0, 0, 0.1])
    b.add_joint(box, "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body=box, friction=0.3)
    return b.build()


@both_laws
@pytest.mark.parametrize(("steps", "tolerance"), [(1, 1e-6), (10, 1e-5), (40, 1e-5)])
def test_box_sliding_to_rest(steps, tolerance, solver):
    """A box that slides and spins to rest in 0.1 s: state and parameter gradients are those of the differences.

    mu |v_t| < g h, so the convex cone does not lift it out of contact (docs/contact_models.md, hovering).
    """
    model = sliding_box()
    q0 = model.q0 + np.array([0, 0, -2e-5, 0, 0, 0, 0])
    parameters = ("body_mass", "geom_friction", "gravity", "body_com", "body_inertia")
    problem = Problem(model, q0, [0.3, 0.05, 0, 0, 0, 0.5], steps, parameters=parameters, solver=solver)
    for name, gradient in problem.gradient().items():
        if name == "body_inertia":  # only its symmetric part means anything, and differences move one entry
            found = problem.differences(name, [(0, i, i) for i in range(3)], STEP_SIZES[1:])
            errors = np.abs(found - np.diagonal(gradient[0])[:, None]).min(axis=1)
            assert (errors <= tolerance * (np.abs(gradient).max() + 1e-3)).all(), name
            continue
        assert problem.worst_error(name, gradient) <= tolerance, name


JOINTS = """
<mujoco><compiler angle="radian"/><option timestep="0.01"/><worldbody>
  <body pos="0 0 1"><joint type="ball" damping="0.1" range="0 0.5" limited="true" stiffness="0.3"/>
    <geom type="capsule" size="0.05 0.2" pos="0.1 0 -0.2"/>
    <body pos="0 0 -0.4"><joint type="hinge" axis="0 1 0" range="-0.3 0.3" limited="true" damping="0.05"/>
      <joint type="slide" axis="1 0 1" frictionloss="0.2" stiffness="4" springref="0.05" armature="0.02"/>
      <geom type="sphere" size="0.1" pos="0 0.05 0"/></body></body>
  <body pos="1 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.15"/>
    <body pos="0.3 0 0"><joint type="hinge" axis="0 0 1"/><geom type="capsule" size="0.04 0.1"/></body></body>
</worldbody><actuator>
  <position joint="{hinge}" kp="3" kv="0.2"/><motor joint="{slide}" gear="2" ctrllimited="true" ctrlrange="-1 1"/>
</actuator></mujoco>
"""


def all_joints():
    import mujoco

    text = JOINTS.replace('type="hinge" axis="0 1 0"', 'name="h" type="hinge" axis="0 1 0"')
    text = text.replace('type="slide"', 'name="s" type="slide"').format(hinge="h", slide="s")
    return ws.load(mujoco.MjModel.from_xml_string(text))


@pytest.mark.parametrize("steps", [1, 10])
def test_every_joint_type_in_free_motion(steps):
    """Ball, hinge, slide, free and fixed joints with springs, dampers, dry friction, stops, armature and actuators."""
    model = all_joints()
    rng = np.random.default_rng(3)
    v0 = 0.5 * rng.normal(size=model.nv)
    q0 = model.q0.copy()
    q0[:4] = np.cos(0.2505), *(np.sin(0.2505) * np.array([0.6, 0.0, 0.8]))  # beyond the ball's stop, 0.5 rad
    q0[4] = 0.301  # beyond the hinge's, 0.3 rad
    controls = 0.5 * rng.normal(size=(steps, model.nu))
    names = ("body_mass", "body_com", "joint_stiffness", "joint_damping", "joint_armature", "joint_reference")
    names += ("actuator_gain", "actuator_bias", "joint_pose", "joint_axis", "gravity", "joint_range", "joint_friction")
    problem = Problem(model, q0, v0, steps, controls, parameters=names)
    problem.point["actuator_bias"][:, 2] -= 0.1  # at 0 velocity gains turn from implicit to explicit
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient, entries=8) <= 1e-6 * (1 if steps == 1 else 10), name


@both_laws
@pytest.mark.parametrize("robot", ["ant", "humanoid"])
@pytest.mark.parametrize("steps", [1, 10])
def test_robot_in_contact(assets, robot, steps, solver):
    """A robot on the ground, stopped joints included: gradients to state, controls, masses and friction."""
    model = ws.load(assets(robot))
    settle = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu")
    rest = settle.rollout(settle.state(), steps=300).final
    assert settle.diagnostics.contacts.numpy()[0] >= 2
    rng = np.random.default_rng(5)
    controls = 0.3 * rng.uniform(-1, 1, size=(steps, model.nu))
    q0, v0 = rest.q.numpy()[0], rest.v.numpy()[0] + 0.05 * rng.normal(size=model.nv)
    names = ("body_mass", "geom_friction", "joint_damping", "geom_size")
    problem = Problem(model, q0, v0, steps, controls, parameters=names, dt=0.005, solver=solver)
    problem.point["geom_friction"] *= 1 + 0.01 * np.arange(model.ngeom)  # the larger of two equal ones has a kink
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient, entries=8) <= (1e-6 if steps == 1 else 1e-5), name


def test_tape_needs_requires_grad():
    """A simulator made without requires_grad refuses a tape; it never returns zeros."""
    sim = ws.Simulator(sliding_box(), device="cpu")
    state = sim.state()
    with wp.Tape(), pytest.raises(ValueError, match="requires_grad=True"):
        sim.step(state)


def test_taped_and_untaped_states_are_identical():
    """Recording changes no bit of the trajectory."""
    sim = ws.Simulator(sliding_box(), dtype="float64", requires_grad=True, device="cpu")
    start = sim.state(v=[1.0, 0, 0, 0, 0, 0.3])
    plain = sim.rollout(start, steps=20)
    with wp.Tape():
        taped = sim.rollout(start, steps=20)
    np.testing.assert_array_equal(plain.q.numpy(), taped.q.numpy())
    np.testing.assert_array_equal(plain.v.numpy(), taped.v.numpy())


def test_gradient_through_rollout_rows():
    """A loss on a recorded row of a rollout reaches the start and the controls."""
    model = all_joints()
    sim = ws.Simulator(model, dtype="float64", requires_grad=True, solver=SOLVER, device="cpu")
    start = sim.state()
    controls = wp.zeros((5, 1, model.nu), dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        trajectory = sim.rollout(start, controls)
    seed = wp.zeros_like(trajectory.q)
    host = seed.numpy()
    host[3, 0, 4] = 1.0
    tape.backward(grads={trajectory.q: seed})
    gradient = controls.grad.numpy()[:, 0, 0]
    assert (gradient[:3] != 0).all()
    assert (gradient[3:] == 0).all()


@pytest.mark.parametrize("shape", [("sphere", [0.1]), ("capsule", [0.06, 0.1]), ("box", [0.1, 0.08, 0.06])])
def test_contact_with_a_height_field(shape):
    """Bodies that slide and roll on a slope of a height field: state and mass gradients of 5 steps."""
    b = ws.ModelBuilder("slope")
    x = np.linspace(-1, 1, 9)
    relief = 0.5 + 0.2 * x[None, :] + 0.1 * x[:, None] + 0.02 * np.sin(5 * x)[None, :]
    b.add_geom("hfield", hfield=([1.0, 1.0, 0.5, 0.1], relief), friction=0.4)
    body = b.add_body("body", pose=[0.06, 0.04, 0.42, 0.95, 0.2, 0.1, 0.15])
    b.add_joint(body, "free")
    b.add_geom(shape[0], shape[1], body=body, friction=0.4)
    model = b.build()
    settle = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu")
    state = settle.rollout(settle.state(), steps=60).final
    assert settle.diagnostics.contacts.numpy()[0] >= 1
    problem = Problem(model, state.q.numpy()[0], state.v.numpy()[0], 5, parameters=("body_mass",), dt=0.005)
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient) <= 1e-5, name


@pytest.mark.parametrize("steps", [1, 10])
def test_compliant_contact_parameters(steps):
    """Stiffness, dissipation time, friction and pose of geoms, and generalised forces on a compliant box."""
    b = ws.ModelBuilder("compliant box")
    b.add_geom("plane", stiffness=2e4, dissipation_time=0.01, friction=0.4)
    body = b.add_body("box", pose=[0, 0, 0.098])
    b.add_joint(body, "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body=body, stiffness=3e4, dissipation_time=0.02, friction=0.5)
    model = b.build()
    names = ("geom_stiffness", "geom_dissipation_time", "geom_friction", "geom_pose", "geom_size", "body_mass")
    problem = Problem(model, model.q0, [0.2, 0.05, -0.05, 0.1, 0.0, 0.3], steps, parameters=names)
    for name, gradient in problem.gradient().items():
        if name == "geom_size":  # a plane has no size to vary
            gradient = np.where(np.arange(2)[:, None] == 1, gradient, 0.0)
            problem.point[name][0] = 1.0
        assert problem.worst_error(name, gradient, entries=14) <= 1e-5, name


def test_gradients_of_clamped_actuators():
    """A control beyond its range moves with the range, a force beyond its own with that limit."""
    b = ws.ModelBuilder("clamped")
    for k in range(2):
        body = b.add_body(f"link{k}", pose=[k, 0, 1], mass=1.0, inertia=[0.1, 0.1, 0.1])
        b.add_joint(body, "hinge", axis=[0, 1, 0], name=f"hinge{k}")
    b.add_actuator("hinge0", control_range=(-0.5, 0.5))
    b.add_actuator("hinge1", "position", kp=10.0, kv=0.5, force_range=(-2.0, 2.0))
    model = b.build()
    problem = Problem(
        model, [0.1, 0.2], [0.3, -0.2], 5, np.full((5, 2), 0.9), parameters=("control_range", "force_range")
    )
    problem.point["force_range"] = np.nan_to_num(problem.point["force_range"], posinf=50.0, neginf=-50.0)
    problem.point["control_range"] = np.nan_to_num(problem.point["control_range"], posinf=50.0, neginf=-50.0)
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient) <= 1e-6, name
    assert abs(problem.gradient()["control_range"][0, 1]) > 0
    assert abs(problem.gradient()["force_range"][1, 1]) > 0


@pytest.mark.parametrize(
    "integrator",
    [ws.SymplecticEuler(), ws.Midpoint(), ws.Variational(tolerance=1e-15)],
    ids=["symplectic", "midpoint", "variational"],
)
@pytest.mark.parametrize("name", ["tau", "wrench"])
def test_gradient_to_generalised_forces_and_wrenches(name, integrator):
    """`tau` and `wrench` on a tape, at the first of two steps: each entry against a central difference."""
    model = all_joints()
    options = {"dtype": "float64", "requires_grad": True, "solver": SOLVER, "device": "cpu"}
    sim = ws.Simulator(model, integrator=integrator, **options)
    shape = (1, model.nv) if name == "tau" else (1, model.nbody, 6)
    force = np.random.default_rng(2).normal(size=shape)
    weights = np.random.default_rng(3).normal(size=model.nv)

    def after(values):
        state = sim.step(sim.state(), **{name: values})
        return float(sim.step(state).v.numpy()[0] @ weights)

    array = wp.array(force, dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        state = sim.step(sim.step(sim.state(), **{name: array}))
    tape.backward(grads={state.v: wp.array(weights[None], dtype=wp.float64, device="cpu")})
    for index in np.ndindex(shape):
        step = np.zeros(shape)
        step[index] = 1e-5
        difference = (after(force + step) - after(force - step)) / 2e-5
        assert abs(array.grad.numpy()[index] - difference) <= 1e-6 * np.abs(array.grad.numpy()).max()


def test_what_a_tape_cannot_record_is_refused():
    """With out= the step's inputs would be overwritten: an error, never zeros."""
    sim = ws.Simulator(sliding_box(), requires_grad=True, device="cpu")
    state = sim.state()
    with wp.Tape(), pytest.raises(ValueError, match="out="):
        sim.step(state, out=state)


@pytest.mark.parametrize(
    "integrator", [ws.SymplecticEuler(), ws.Variational(tolerance=1e-15)], ids=["symplectic", "variational"]
)
def test_bodies_switched_off(integrator):
    """World 0 has only the sliding box, world 1 only the one that would hit it: each has the gradients that its active
    body has alone, and what stands still hands its gradients on."""
    b = ws.ModelBuilder("two boxes")
    b.add_geom("plane", friction=0.2)
    for k in range(2):
        box = b.add_body(f"box{k}", pose=[0.25 * k, 0, 0.1])
        b.add_joint(box, "free")
        b.add_geom("box", [0.1, 0.1, 0.1], body=box, friction=0.3)
    model = b.build()
    v = np.zeros(12)
    v[0], v[6] = 0.5, -0.4
    worlds = 3
    options = {"dtype": "float64", "requires_grad": True, "solver": SOLVER, "device": "cpu"}
    sim = ws.Simulator(model, worlds, integrator=integrator, **options)
    active = np.array([[1, 0], [0, 1], [1, 1]])
    sim.parameters["body_active"] = active
    start = sim.state(model.q0 - np.array([0, 0, 2e-5, 0, 0, 0, 0] * 2), v)
    mass = sim.parameters["body_mass"]

    def final():
        return sim.rollout(start, steps=20).final

    with wp.Tape() as tape:
        end = final()
    assert not sim.diagnostics.flags.numpy().any()
    rng = np.random.default_rng(2)
    a, c = rng.normal(size=(worlds, model.nq)), rng.normal(size=(worlds, model.nv))
    seeds = {x: wp.array(s, dtype=wp.float64, device="cpu") for x, s in ((end.q, a), (end.v, c))}
    tape.backward(grads=seeds)
    for w, off in ((0, 1), (1, 0)):
        np.testing.assert_array_equal(start.q.grad.numpy()[w].reshape(2, 7)[off], a[w].reshape(2, 7)[off])
        np.testing.assert_array_equal(start.v.grad.numpy()[w].reshape(2, 6)[off], c[w].reshape(2, 6)[off])
        assert mass.grad.numpy()[w, off] == 0.0

    def loss():
        state = final()
        return (state.q.numpy() * a).sum(axis=1) + (state.v.numpy() * c).sum(axis=1)

    for array in (start.v, mass):
        value, gradient = array.numpy().copy(), array.grad.numpy()
        for i in range(value.shape[1]):
            errors = []
            for size in STEP_SIZES[1:]:
                sides = []
                for sign in (1, -1):
                    moved = value.copy()
                    moved[:, i] += sign * size
                    array.assign(moved)
                    sides.append(loss())
                errors.append(np.abs((sides[0] - sides[1]) / (2 * size) - gradient[:, i]))
            array.assign(value)
            assert (np.min(errors, axis=0) <= 1e-5 * max(np.abs(gradient).max(), 1e-3)).all(), i
