# SPDX-License-Identifier: Apache-2.0
"""Gradients of sensors, of states and of the steps that led to them, against central differences in float64, at 1, 10 and 40 steps."""

import mujoco
import numpy as np
import pytest
import warp as wp
from test_step_gradient import BATCH, SOLVER, Problem

import warpsim as ws

horizons = pytest.mark.parametrize(("steps", "tolerance"), [(1, 1e-6), (10, 1e-5), (40, 1e-5)])


@wp.kernel
def add_weighted(
    x: wp.array2d(dtype=wp.float64), a: wp.array(dtype=wp.float64), s: wp.float64, loss: wp.array(dtype=wp.float64)
):
    w, i = wp.tid()
    wp.atomic_add(loss, w, s * a[i] * x[w, i])


class SensorProblem(Problem):
    """A loss of all sensors, after the last step and halfway, as a function of q0, v0, controls and parameters."""

    def __init__(self, model, *arguments, reactions=False, threads=1, **options):
        super().__init__(model, *arguments, **options)
        self.make.keywords.update(reactions=reactions, threads=threads)
        self.sim = self.make()
        for name in self.point:
            if name not in ("q0", "v0", "controls"):
                self.sim.parameters[name]
        rng, count = np.random.default_rng(5), model.nsensordata + reactions * (model.nv + 6 * model.nbody)
        self.weights, self.reactions = rng.normal(size=count), reactions

    def scaled(self, scale) -> "SensorProblem":
        """The same with weights over the size of what they weigh."""
        self.weights = self.weights / scale
        return self

    def _run(self, sim, points):
        for name in self.point:
            if name not in ("q0", "v0", "controls"):
                sim.parameters[name].assign(np.stack([point[name] for point in points]))
        state = start = sim.state(*(np.stack([point[name] for point in points]) for name in ("q0", "v0")))
        controls = None
        if "controls" in self.point:
            values = np.stack([point["controls"] for point in points], axis=1)
            controls = wp.array(values, dtype=wp.float64, device="cpu", requires_grad=True)
        loss = wp.zeros(len(points), dtype=wp.float64, device="cpu", requires_grad=True)
        a = wp.array(self.weights, dtype=wp.float64, device="cpu")
        for k in range(self.steps):
            state = sim.step(state, None if controls is None else controls[k])
            if k == self.steps - 1 or 2 * k == self.steps:
                self.add(sim, state, a, 1.0 if k == self.steps - 1 else 0.5, loss)
        return loss, start, controls

    def add(self, sim, state, a, share, loss):
        """loss += share · weights · everything that is measured."""
        parts, begin = [sim.sensors(state)], 0
        if self.reactions:
            parts += [sim.acceleration(state), sim.joint_reaction(state)]
        for part in parts:
            part = part.reshape((part.shape[0], part.size // part.shape[0]))
            if part.size:
                wp.launch(add_weighted, part.shape, [part, a[begin : begin + part.shape[1]], share, loss], device="cpu")
            begin += part.shape[1]


def load(text: str) -> ws.Model:
    return ws.load(mujoco.MjModel.from_xml_string(text))


ARM = """<mujoco><option gravity="0.3 0.2 -9.81"/><worldbody><site name="fixed" pos="0.2 0.1 0.3" euler="10 20 30"/>
<camera name="cam" pos="0 -2 0.3" xyaxes="1 0 0 0 0.2 1" resolution="4 3"/>
<geom name="wall" type="box" size="0.1 9 9" pos="-3 0 0" euler="0 10 5" contype="0" conaffinity="0"/>
<body name="trunk" pos="0 0 1"><freejoint name="root"/><geom size="0.1" mass="1.5" contype="0" conaffinity="0"/><site name="imu" pos="0.05 0.02 0.03" euler="30 -80 50"/>
 <body name="arm" pos="0.2 0 0"><joint name="hinge" axis="0.2 1 0.1" stiffness="2" damping="0.05" armature="0.01"/>
  <geom name="link" type="box" size="0.12 0.03 0.02" pos="0.1 0.01 0" mass="0.5" contype="0" conaffinity="0"/><site name="elbow" pos="0.2 0.01 0" euler="0 15 40"/>
  <body name="hand" pos="0.25 0 0"><joint name="ball" type="ball" pos="0.02 0 0" damping="0.02"/><geom size="0.05" pos="0.03 0.01 0" mass="0.3" contype="0" conaffinity="0"/>
   <site name="tip" pos="0.08 0.01 0.01" euler="5 95 15"/></body></body></body></worldbody>
<tendon><fixed name="t"><joint joint="hinge" coef="1.3"/></fixed></tendon>
<actuator><motor name="m" joint="hinge" gear="2"/><position name="p" joint="hinge" kp="1.5" kv="0.1"/><motor name="b" joint="ball" gear="0.2 0.1 0.3"/></actuator>
<sensor><accelerometer site="imu"/><accelerometer site="tip"/><force site="elbow"/><torque site="elbow"/><force site="tip"/><torque site="tip"/><force site="imu"/><torque site="fixed"/>
<framelinacc objtype="body" objname="hand"/><frameangacc objtype="geom" objname="link"/><gyro site="tip"/><velocimeter site="imu"/><magnetometer site="tip"/><rangefinder site="imu"/>
<camprojection site="tip" camera="cam"/><framepos objtype="site" objname="tip" reftype="body" refname="trunk"/><framequat objtype="body" objname="hand" reftype="site" refname="elbow"/>
<framezaxis objtype="site" objname="tip" reftype="xbody" refname="arm"/><framelinvel objtype="site" objname="tip" reftype="site" refname="imu"/><frameangvel objtype="geom" objname="link"/>
<jointpos joint="hinge"/><jointvel joint="hinge"/><tendonpos tendon="t"/><tendonvel tendon="t"/><actuatorpos actuator="b"/><actuatorvel actuator="b"/><actuatorfrc actuator="p"/><jointactuatorfrc joint="hinge"/>
<ballquat joint="ball"/><ballangvel joint="ball"/><subtreecom body="arm"/><subtreelinvel body="trunk"/><subtreeangmom body="trunk"/><e_potential/><e_kinetic/></sensor></mujoco>"""


def check(problem: SensorProblem, tolerance: float, entries=12) -> None:
    """Every gradient of the problem is that of the differences."""
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient, entries) <= tolerance, name


@horizons
def test_free_motion(steps, tolerance):
    """All kinds of sensors on an arm in flight: by the state, controls and parameters of bodies, joints, actuators and gravity."""
    model, rng = load(ARM), np.random.default_rng(3)
    q0 = model.displace(model.q0, 0.4 * rng.normal(size=model.nv))
    controls = 0.5 * rng.normal(size=(steps, model.nu))
    names = ("body_mass", "body_com", "body_inertia", "joint_damping", "joint_stiffness", "joint_armature", "gravity")
    names += ("actuator_gain", "actuator_bias", "joint_pose")
    problem = SensorProblem(model, q0, rng.normal(size=model.nv), steps, controls, names, dt=0.005, reactions=True)
    problem.point["actuator_bias"][:, 2] -= 0.05  # at 0 velocity gains turn from implicit to explicit
    gradient = problem.gradient()
    symmetric = gradient.pop("body_inertia")
    for name, value in gradient.items():
        assert problem.worst_error(name, value, 12) <= tolerance, name
    along = problem.point["body_inertia"] * rng.uniform(
        0.5, 1.0, (model.nbody, 1, 1)
    )  # entries off the diagonal come in pairs
    errors = []
    for size in (1e-3, 1e-4, 1e-5):
        points = [problem.point | {"body_inertia": problem.point["body_inertia"] + e * along} for e in (size, -size)]
        ahead, behind = problem.values(points)
        errors.append(abs((ahead - behind) / (2 * size) - (symmetric * along).sum()))
    assert min(errors) <= tolerance * np.abs(symmetric * along).max()


GROUND = """<mujoco><worldbody><geom name="floor" type="plane" size="5 5 1" friction="0.05"/>
<body name="box" pos="0 0 0.09999"><freejoint/><geom name="box" type="box" size="0.1 0.08 0.1" mass="1" friction="{friction}"/><site name="zone" type="box" size="0.2 0.2 0.2"/>
 <site name="corner" pos="0.1 0.08 -0.1" size="0.03"/><body name="mast" pos="0 0 0.1"><joint name="hinge" axis="0 1 0" range="-5 5" limited="true" stiffness="1"/>
 <geom size="0.03" pos="0.02 0.01 0.2" mass="0.2" contype="0" conaffinity="0"/><site name="root"/></body></body></worldbody>
<sensor><touch site="zone"/><touch site="corner"/><contact geom1="box" geom2="floor" reduce="netforce" data="force torque pos"/><contact geom1="box" num="2" data="force dist pos normal tangent linvel angvel"/>
<force site="root"/><torque site="root"/><accelerometer site="root"/><force site="zone"/><jointlimitfrc joint="hinge"/><jointlimitpos joint="hinge"/><jointlimitvel joint="hinge"/></sensor></mujoco>"""


@horizons
@pytest.mark.parametrize("friction", [0.1, 0.8])
def test_contact_and_limits(steps, tolerance, friction):
    """A box on the ground, sliding or sticking, with a mast against its stop: forces, touch, contacts and reactions."""
    model = load(GROUND.format(friction=friction))
    q0, v0 = model.q0.copy(), 0.01 * np.random.default_rng(4).normal(size=model.nv)
    q0[2], q0[7], v0[0] = 0.0999, np.deg2rad(5.5), 0.3 if friction < 0.5 else 0.0
    names = ("body_mass", "body_com", "geom_friction", "gravity", "joint_range", "joint_stiffness")
    problem = SensorProblem(model, q0, v0, steps, parameters=names, dt=0.005, reactions=True)
    gradient = problem.gradient()
    assert problem.sim.diagnostics.contacts.numpy()[0] == 4
    for name, value in gradient.items():
        assert problem.worst_error(name, value, 12) <= tolerance, name


LOOP = """<mujoco><worldbody><body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.02" contype="0" conaffinity="0"/><site name="sa" pos="0.1 0 0"/>
 <body name="b" pos="0.3 0 0.1"><joint name="jb" type="ball" damping="0.01"/><geom type="capsule" fromto="0 0 0 0.3 0 -0.1" size="0.02" contype="0" conaffinity="0"/><site name="sb" pos="0.2 0 0"/></body></body></worldbody>
<equality><connect body1="b" anchor="0.3 0 -0.1"/></equality><actuator><motor joint="ja"/></actuator>
<sensor><force site="sa"/><torque site="sa"/><force site="sb"/><torque site="sb"/><accelerometer site="sb"/></sensor></mujoco>"""


@horizons
def test_constraints(steps, tolerance):
    """A loop closed by a connect: what its joints bear has the constraint's force in it."""
    model, rng = load(LOOP), np.random.default_rng(6)
    controls, names = rng.normal(size=(steps, model.nu)), ("body_mass", "body_com", "gravity")
    check(SensorProblem(model, model.q0, np.zeros(model.nv), steps, controls, names, dt=0.005), tolerance)


@pytest.mark.parametrize(
    "integrator", [ws.ExplicitEuler(), ws.ImplicitEuler(tolerance=1e-15), ws.Midpoint(tolerance=1e-15)]
)
def test_other_schemes(integrator):
    """The explicit and implicit Euler schemes, the midpoint rule and the variational integrator, in contact, at 10 steps."""
    model = load(GROUND.format(friction=0.8))
    q0, v0 = model.q0.copy(), 0.01 * np.random.default_rng(4).normal(size=model.nv)
    q0[2] = 0.0999
    names = ("body_mass", "geom_friction", "joint_stiffness")
    check(SensorProblem(model, q0, v0, 10, parameters=names, dt=0.005, integrator=integrator, reactions=True), 1e-5)


@pytest.mark.parametrize("options", [{"integrator": ws.Variational(tolerance=1e-15)}, {"solver": ws.LCP()}])
def test_accelerations_in_flight(options):
    """Accelerations without any contact or row by the variational integrator, and of models that LCP solves, at 10 steps."""
    measured = '<sensor><accelerometer site="tip"/><frameangacc objtype="geom" objname="link"/><gyro site="tip"/></sensor></mujoco>'
    model, rng = load(ARM[: ARM.index("<sensor>")] + measured), np.random.default_rng(3)
    controls, names = 0.5 * rng.normal(size=(10, model.nu)), ("body_mass", "joint_damping")
    check(SensorProblem(model, model.q0, rng.normal(size=model.nv), 10, controls, names, 0.005, **options), 1e-5)


def test_what_has_no_gradient_says_so():
    """Impulses of LCP: refused on a tape, read without one."""
    model = load(GROUND.format(friction=0.5))
    for integrator in (ws.SymplecticEuler(), ws.Variational()):
        options = {"solver": ws.LCP(), "integrator": integrator}
        sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True, **options)
        state = sim.step(sim.state())
        assert np.isfinite(sim.sensors(state).numpy()).all()
        with wp.Tape():
            state = sim.step(sim.state())
            with pytest.raises(ValueError, match="have no gradient"):
                sim.sensors(state)


def test_repeated_and_many_worlds():
    """The gradient of one world is that of the same world among many, to the last bit, and again when it is asked for again."""
    model = load(GROUND.format(friction=0.3))
    rng = np.random.default_rng(0)
    v0 = 0.1 * rng.normal(size=(BATCH, model.nv))
    grads = []
    for worlds in (BATCH, 1, 1):
        sim = ws.Simulator(model, worlds, dt=0.005, dtype="float64", device="cpu", requires_grad=True, solver=SOLVER)
        start = sim.state(None, v0[:worlds])
        loss = wp.zeros(worlds, dtype=wp.float64, device="cpu", requires_grad=True)
        a = wp.array(np.ones(model.nsensordata), dtype=wp.float64, device="cpu")
        with wp.Tape() as tape:
            x = sim.sensors(sim.step(sim.step(start)))
            wp.launch(add_weighted, x.shape, [x, a, 1.0, loss], device="cpu")
        loss.grad.fill_(1.0)
        tape.backward()
        grads.append(start.v.grad.numpy()[0])
    assert np.array_equal(grads[0], grads[1]) and np.array_equal(grads[1], grads[2])


def test_checkpointed_rollouts():
    """The last state of a rollout with checkpoints hands on what its sensors ask for, to the last bit."""
    model, grads = load(GROUND.format(friction=0.3)), []
    for every in (None, 2):
        sim = ws.Simulator(model, 2, dt=0.005, dtype="float64", device="cpu", requires_grad=True, solver=SOLVER)
        start = sim.state(None, 0.1 * np.random.default_rng(0).normal(size=(2, model.nv)))
        loss = wp.zeros(2, dtype=wp.float64, device="cpu", requires_grad=True)
        a = wp.array(np.ones(model.nsensordata), dtype=wp.float64, device="cpu")
        with wp.Tape() as tape:
            x = sim.sensors(sim.rollout(start, steps=6, checkpoint_every=every).final)
            wp.launch(add_weighted, x.shape, [x, a, 1.0, loss], device="cpu")
        loss.grad.fill_(1.0)
        tape.backward()
        grads.append((start.q.grad.numpy().copy(), start.v.grad.numpy().copy()))
    assert all(np.abs(x).max() > 0 and np.array_equal(x, y) for x, y in zip(*grads, strict=True))


def test_linearize_is_as_without_sensors():
    """Sensors of a step change no Jacobian, of either way to find them, and no bit of a step."""
    model = load(GROUND.format(friction=0.3))
    bare = load(GROUND[: GROUND.index("<sensor>")].format(friction=0.3) + "</mujoco>")
    v = 0.1 * np.random.default_rng(0).normal(size=(2, model.nv))
    for integrator in (ws.SymplecticEuler(), ws.Midpoint()):
        found = []
        for made in (model, bare):
            options = {"dtype": "float64", "device": "cpu", "requires_grad": True, "integrator": integrator}
            sim = ws.Simulator(made, 2, dt=0.005, **options)
            state = sim.state(None, v)
            J, after = sim.linearize(state), sim.step(state)
            found.append((J.A.numpy().copy(), after.q.numpy().copy(), after.v.numpy().copy()))
        assert all(np.array_equal(x, y) for x, y in zip(*found, strict=True))


MUSCLE = """<mujoco><worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0" damping="0.1" actuatorfrcrange="-0.3 0.3"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/><body pos="0.3 0 0" gravcomp="0.5"><joint name="b" axis="0 1 0" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/><site name="s"/></body></body></worldbody>
<actuator><muscle name="m" joint="b" lengthrange="-1 2" force="20"/><general name="i" joint="a" dyntype="integrator" gainprm="2"/>
<general name="f" joint="b" dyntype="filterexact" dynprm="0.05" gainprm="1.5"/><motor name="p" joint="a"/></actuator>
<sensor><actuatorfrc actuator="m"/><actuatorfrc actuator="i"/><actuatorfrc actuator="f"/><jointactuatorfrc joint="a"/><jointactuatorfrc joint="b"/>
<force site="s"/><torque site="s"/><accelerometer site="s"/></sensor></mujoco>"""


@horizons
def test_actuators_with_a_state(steps, tolerance):
    """Muscles, activations and a range of a joint's actuators, by the state, controls and masses."""
    model, rng = load(MUSCLE), np.random.default_rng(3)
    controls, names = 0.5 + 0.1 * rng.normal(size=(steps, model.nu)), ("body_mass", "gravity", "joint_damping")
    problem = SensorProblem(model, 0.2 * rng.normal(size=2), rng.normal(size=2), steps, controls, names, dt=0.005)
    check(problem, tolerance)


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_give_the_same_bits(dtype):
    """Gradients of sensors are the same to the last bit however many threads share the worlds, in both dtypes; a bad world keeps to itself."""
    model, found = load(GROUND.format(friction=0.3)), []
    v0 = 0.1 * np.random.default_rng(0).normal(size=(80, model.nv))
    for threads, bad in ((1, False), (2, False), (1, True)):
        sim = ws.Simulator(model, 80, dt=0.005, dtype=dtype, device="cpu", requires_grad=True, threads=threads)
        start = sim.state(None, v0)
        tau = np.zeros((80, model.nv))
        tau[7] = np.nan if bad else 0.0
        with wp.Tape() as tape:
            x = sim.sensors(sim.step(sim.step(start), tau=tau))
        x.grad.fill_(1.0)
        tape.backward()
        found.append(start.v.grad.numpy().copy())
    others = np.arange(80) != 7
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0][others], found[2][others])
    assert np.isfinite(found[0]).all() and np.abs(found[0]).max() > 0
