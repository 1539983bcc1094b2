# SPDX-License-Identifier: Apache-2.0
"""`Simulator` as `api.md` promises it: stepping, rollouts, substeps, parameters per world, states, cost of a step."""

import contextlib

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import GRAVITY, body_on_plane, cart, pendulum
from warpsim.device.replay import BLOCK_WORLDS

WORLDS = 5
KEYFRAMES = """<mujoco><option timestep="0.004"/><worldbody>
  <body name="a"><joint name="x" type="slide" axis="1 0 0" range="-1 1"/><joint name="turn" damping=".1"/><geom size=".1"/></body>
</worldbody><actuator><motor joint="x" ctrlrange="0.5 2"/></actuator>
<keyframe><key name="home" qpos=".1 .2" qvel="3 4"/><key name="away" qpos="-.5 1"/></keyframe></mujoco>"""


class Ant:
    """An ant simulator, start states in the air just above contact, and controls for 12 steps."""

    steps = 12

    def __init__(self, path: str, device: str, dtype: str = "float32", worlds: int = WORLDS, **options):
        self.model = ws.load(path)
        self.sim = ws.Simulator(self.model, worlds=worlds, dt=0.01, device=device, dtype=dtype, **options)
        m, rng = self.model, np.random.default_rng(2)
        q = np.tile(m.q0, (worlds, 1))
        q[:, 2] = 0.6 + 0.02 * np.arange(worlds) % 0.2
        q[:, 7:] = np.where(m.joint_limited, m.joint_range.mean(axis=1), 0.0)[1:]
        v = 0.5 * rng.normal(size=(worlds, m.nv))
        self.state = self.sim.state(q, v)
        self.controls = 0.3 * rng.uniform(-1, 1, size=(self.steps, worlds, m.nu)).astype(dtype)


@pytest.fixture(scope="module")
def ant(device, assets) -> Ant:
    return Ant(assets("ant"), device)


@pytest.fixture(scope="module")
def path_of_steps(ant):
    """q (13, worlds, nq) and the final state of 12 separate steps."""
    state, rows = ant.state, [ant.state.q.numpy().copy()]
    for control in ant.controls:
        state = ant.sim.step(state, control)
        rows.append(state.q.numpy().copy())
    assert ant.sim.diagnostics.contacts.numpy().any()
    return np.array(rows), state


def assert_equal_states(a: ws.State, b: ws.State) -> None:
    for name, values in a.numpy().items():
        np.testing.assert_array_equal(values, b.numpy()[name], err_msg=name)


# Stepping ------------------------------------------------------------------------------------------------------------


def test_step_with_out_is_the_step_without(ant):
    """out= another state, or the state itself: the same bits, and without out the input is left alone."""
    before = ant.state.clone()
    new = ant.sim.step(ant.state, ant.controls[0])
    assert_equal_states(ant.state, before)
    other = ant.sim.state()
    assert ant.sim.step(ant.state, ant.controls[0], out=other) is other
    assert_equal_states(new, other)
    same = ant.state.clone()
    assert ant.sim.step(same, ant.controls[0], out=same) is same
    assert_equal_states(new, same)


def test_graph_replay_equals_plain_launches(ant, path_of_steps):
    """The captured step replays to the bits of its own launches."""
    step, (rows, final) = ant.sim._step, path_of_steps
    ant.sim._stepper.load(ant.state)
    for i, control in enumerate(ant.controls):
        ant.sim._stepper.set_forces(control, None, None)
        step.launch(ant.sim.dt)
        np.testing.assert_array_equal(step.q.numpy(), rows[i + 1])
    np.testing.assert_array_equal(step.v.numpy(), final.v.numpy())


def test_capture_replays_a_users_function(ant):
    """`sim.capture` of three steps in place: every replay is three plain steps."""
    state, plain = ant.state.clone(), ant.state.clone()

    def three_steps():
        for _ in range(3):
            ant.sim.step(state, out=state)

    replay = ant.sim.capture(three_steps)
    state.assign(plain)
    for _ in range(2):
        replay()
    for _ in range(6):
        ant.sim.step(plain, out=plain)
    assert_equal_states(state, plain)


@pytest.mark.parametrize("kind", ["numpy", "list", "device"])
def test_controls_of_any_kind_are_the_same(ant, kind):
    """Lists and NumPy arrays are cast, device arrays taken as they are."""
    control = ant.controls[0]
    given = {
        "numpy": control.astype(float),
        "list": control.tolist(),
        "device": wp.array(control, dtype=wp.float32, device=ant.sim.device),
    }[kind]
    assert_equal_states(ant.sim.step(ant.state, given), ant.sim.step(ant.state, control))


def test_controls_are_clamped_and_none_is_zero_then_clamped(device):
    """A control range of 0.5 to 2: None gives 0.5, 9 gives 2; the slide accelerates accordingly."""
    model = ws.load(mujoco.MjModel.from_xml_string(KEYFRAMES))
    sim = ws.Simulator(model, worlds=3, device=device, dtype="float64")
    mass = sim.mass_matrix(model.q0).numpy()[0, 0, 0]
    expected = sim.dt / mass * np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(sim.step(sim.state(), [[-1.0], [1.0], [9.0]]).v.numpy()[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(sim.step(sim.state()).v.numpy()[:, 0], expected[0], rtol=1e-12)


def test_forces_of_one_step_do_not_stay_for_the_next(ant):
    """tau, wrench and control belong to one call: the step after it is that of a simulator that never saw them."""
    expected = ant.sim.step(ant.state)
    tau = np.ones((WORLDS, ant.model.nv))
    wrench = np.ones((WORLDS, ant.model.nbody, 6))
    pushed = ant.sim.step(ant.state, ant.controls[0], tau=tau, wrench=wrench)
    assert np.abs(pushed.v.numpy() - expected.v.numpy()).max() > 1e-3
    assert_equal_states(ant.sim.step(ant.state), expected)


def test_substeps_split_the_step(ant, device, assets):
    """substeps=4 of dt is four steps of dt/4 with the control held, bit for bit; time adds up to dt."""
    fine = ws.Simulator(ant.model, worlds=WORLDS, dt=0.01 / 4, device=device)
    state = fine.state(ant.state.q, ant.state.v)
    for _ in range(4):
        state = fine.step(state, ant.controls[0])
    coarse = ant.sim.step(ant.state, ant.controls[0], substeps=4)
    assert_equal_states(coarse, state)
    np.testing.assert_allclose(coarse.time.numpy(), 0.01, rtol=1e-12)


def test_time_is_float64_and_counts_steps(ant):
    """The clock is exact to float64 whatever the simulator's dtype."""
    final = ant.sim.rollout(ant.state, steps=50).final
    assert final.time.dtype == wp.float64
    np.testing.assert_allclose(final.time.numpy(), 0.5, rtol=1e-12)


def test_dt_comes_from_the_file_unless_given(device):
    model = ws.load(mujoco.MjModel.from_xml_string(KEYFRAMES))
    assert ws.Simulator(model, device=device).dt == 0.004
    assert ws.Simulator(model, dt=0.02, device=device).dt == 0.02


def test_a_scene_without_joints_runs(device):
    """nq = nv = 0: steps and rollouts advance the clock."""
    b = ws.ModelBuilder("post")
    b.add_geom("plane")
    b.add_body("post", mass=1.0)
    b.add_geom("sphere", [0.1], body="post")
    sim = ws.Simulator(b.build(), worlds=2, dt=0.01, device=device)
    assert sim.step(sim.state()).q.shape == (2, 0)
    trajectory = sim.rollout(sim.state(), steps=3)
    np.testing.assert_allclose(trajectory.time.numpy()[-1], 0.03, rtol=1e-12)


# Rollouts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "device", "callable"])
def test_rollout_equals_repeated_steps(ant, path_of_steps, kind):
    """Every row is the bits of the separate steps; the start state is not changed."""
    rows, final = path_of_steps
    before, table = ant.state.clone(), wp.array(ant.controls, device=ant.sim.device)
    seen = []

    def policy(state):
        seen.append(state.q.numpy().copy())
        return table[len(seen) - 1]

    controls = {"numpy": ant.controls, "device": table, "callable": policy}[kind]
    trajectory = ant.sim.rollout(ant.state, controls, steps=ant.steps)
    np.testing.assert_array_equal(trajectory.q.numpy(), rows)
    np.testing.assert_array_equal(trajectory.v.numpy()[-1], final.v.numpy())
    assert_equal_states(trajectory.final, final)
    assert_equal_states(ant.state, before)
    if kind == "callable":  # the policy sees the state before each step
        np.testing.assert_array_equal(np.array(seen), rows[:-1])


def test_rollout_steps_follow_from_the_controls(ant):
    assert ant.sim.rollout(ant.state, ant.controls).steps == ant.steps


@pytest.mark.parametrize("every, kept", [(1, 13), (3, 5), (5, 3), (12, 2), (20, 1)])
def test_rollout_keeps_every_kth_row(ant, path_of_steps, every, kept):
    """every=k keeps rows 0, k, 2k, ...: steps // k + 1 of them, and runs to the end all the same."""
    rows, final = path_of_steps
    trajectory = ant.sim.rollout(ant.state, ant.controls, every=every)
    assert trajectory.frames == kept
    np.testing.assert_array_equal(trajectory.q.numpy(), rows[::every][:kept])
    np.testing.assert_allclose(trajectory.time.numpy()[:, 0], 0.01 * every * np.arange(kept), rtol=1e-12)
    assert {x.shape for x in trajectory.diagnostics.values()} == {(kept - 1, WORLDS)}
    assert_equal_states(trajectory.final, final)


def test_rollout_in_two_parts_is_one_rollout(ant, path_of_steps):
    """The final state holds all that the next step reads."""
    rows, final = path_of_steps
    first = ant.sim.rollout(ant.state, ant.controls[:5])
    second = ant.sim.rollout(first.final, ant.controls[5:])
    np.testing.assert_array_equal(second.q.numpy(), rows[5:])
    assert_equal_states(second.final, final)


def test_rollout_with_substeps_is_steps_with_substeps(ant):
    state = ant.state
    for control in ant.controls[:4]:
        state = ant.sim.step(state, control, substeps=3)
    assert_equal_states(ant.sim.rollout(ant.state, ant.controls[:4], substeps=3).final, state)


def test_rollout_reports_progress(ant):
    """progress=callable is called with 1 ... steps; progress=True draws a bar."""
    calls = []
    ant.sim.rollout(ant.state, steps=4, progress=calls.append)
    assert calls == [1, 2, 3, 4]
    assert ant.sim.rollout(ant.state, steps=2, progress=True).steps == 2


def test_rollout_records_the_diagnostics_of_each_step(ant):
    """Row t of the diagnostics is what `sim.diagnostics` says after step t + 1."""
    trajectory = ant.sim.rollout(ant.state, ant.controls)
    state = ant.state
    for t, control in enumerate(ant.controls):
        state = ant.sim.step(state, control)
        for name, values in ant.sim.diagnostics.numpy().items():
            np.testing.assert_array_equal(trajectory.diagnostics[name].numpy()[t], values, err_msg=name)


def test_rollout_memory_is_its_rows(ant):
    """A trajectory holds q, v (float32), time (float64) and six diagnostics per row, and nothing else."""
    trajectory = ant.sim.rollout(ant.state, steps=6)
    arrays = [trajectory.q, trajectory.v, trajectory.time, *trajectory.diagnostics.values()]
    m = ant.model
    assert sum(a.capacity for a in arrays) == 7 * WORLDS * (4 * (m.nq + m.nv) + 8) + 6 * WORLDS * 6 * 4


# Cost of a step ------------------------------------------------------------------------------------------------------


class Counter:
    def __init__(self):
        self.launches, self.copies, self.allocations, self.host_reads, self.graphs = [], 0, 0, 0, 0


@contextlib.contextmanager
def counting(monkeypatch, device):
    """Counts launches (by kernel), copies, device allocations, host reads and graph replays."""
    counter = Counter()

    def counted(name, original, note):
        def call(*args, **kwargs):
            note(args, kwargs)
            return original(*args, **kwargs)

        patch.setattr(*name, call)

    def add(field):
        def note(args, kwargs):
            setattr(counter, field, getattr(counter, field) + 1)

        return note

    with monkeypatch.context() as patch:
        counted((wp, "launch"), wp.launch, lambda a, k: counter.launches.append((a[0] if a else k["kernel"]).key))
        counted((wp, "launch_tiled"), wp.launch_tiled, lambda a, k: counter.launches.append(a[0].key))
        counted((wp, "copy"), wp.copy, add("copies"))
        counted((wp, "capture_launch"), wp.capture_launch, add("graphs"))
        allocator = type(wp.get_device(device).get_allocator())
        counted((allocator, "allocate"), allocator.allocate, add("allocations"))
        for name in ("numpy", "list"):
            counted((wp.array, name), getattr(wp.array, name), add("host_reads"))
        yield counter


def test_the_counter_counts(device, monkeypatch):
    """The instrument of the next tests sees what it is there to see."""
    model = cart()
    with counting(monkeypatch, device) as counter:
        sim = ws.Simulator(model, device=device)
        sim.step(sim.state()).q.numpy()
    assert counter.allocations > 20 and counter.launches and counter.copies and counter.graphs == 1
    assert counter.host_reads


def test_a_step_costs_the_same_launches_for_one_world_and_for_4096(assets, device, monkeypatch, within):
    """The launches of a step, kernel by kernel, do not depend on the number of worlds; it allocates nothing and reads
    nothing back."""
    counts = {}
    for worlds in (1, 4096):
        sim = ws.Simulator(ws.load(assets("ant")), worlds=worlds, device=device)
        sim.step(sim.state())
        with counting(monkeypatch, device) as counts[worlds]:
            sim._step.launch(sim.dt)
    assert counts[1].launches == counts[4096].launches
    for counter in counts.values():
        assert (counter.allocations, counter.copies, counter.host_reads) == (0, 0, 0)
    within("launches per ant step", len(counts[1].launches), 30)


@pytest.mark.parametrize("worlds", [1, 4096])
def test_step_in_place_replays_one_graph_and_allocates_nothing(assets, device, monkeypatch, worlds):
    """`sim.step(state, device_control, out=state)` as called: one graph (of many worlds on the CPU one per block and
    the copies before and after), no launch, no allocation, no host read, and as many copies for any number of worlds."""
    sim = ws.Simulator(ws.load(assets("ant")), worlds=worlds, device=device, threads=1)
    state, control = sim.state(), wp.zeros((worlds, sim.model.nu), dtype=wp.float32, device=sim.device)
    for _ in range(2):  # the second use of the same arrays captures the copies as well
        sim.step(state, control, out=state)
    with counting(monkeypatch, device) as counter:
        for _ in range(3):
            sim.step(state, control, out=state)
    blocks = worlds // BLOCK_WORLDS if sim.device.is_cpu else 0
    assert counter.graphs == 3 * (blocks + 2 if blocks > 1 else 1)
    assert (counter.launches, counter.allocations, counter.host_reads) == ([], 0, 0)
    assert counter.copies <= 3 * 9


def test_the_first_step_is_captured_once_per_step_size(assets, device, monkeypatch):
    """Graphs are kept per step size: alternating substeps does not capture again."""
    sim = ws.Simulator(ws.load(assets("ant")), device=device)
    state = sim.state()
    for n in (1, 2, 1, 2):
        sim.step(state, substeps=n, out=state)
    with counting(monkeypatch, device) as counter:
        for n in (1, 2, 1, 2):
            sim.step(state, substeps=n, out=state)
    assert counter.launches == [] and counter.graphs == 4


def test_diagnostics_live_on_the_device(ant):
    """`sim.diagnostics` gives device arrays, one value per world; `numpy()` is the host's copy."""
    ant.sim.step(ant.state)
    d = ant.sim.diagnostics
    for name in ("iterations", "momentum_error", "contacts", "energy", "flags"):
        array = getattr(d, name)
        assert isinstance(array, wp.array) and array.shape == (WORLDS,) and array.device == ant.sim.device
        np.testing.assert_array_equal(d.numpy()[name], array.numpy())
    assert d.flags.dtype == wp.int32


# Parameters ----------------------------------------------------------------------------------------------------------


def test_parameters_are_shared_until_asked_for(assets, device):
    """The first access expands a parameter to one value per world; results keep their bits."""
    a, b = Ant(assets("ant"), device), Ant(assets("ant"), device)
    expected = a.sim.rollout(a.state, a.controls).q.numpy()
    for name in CHANGES:
        array = b.sim.parameters[name]
        assert array.shape[0] == WORLDS
        assert b.sim.parameters[name] is array
    np.testing.assert_array_equal(b.sim.rollout(b.state, b.controls).q.numpy(), expected)


CHANGES = {
    "body_mass": lambda x: 2.0 * x,
    "body_com": lambda x: x + 0.02,
    "body_inertia": lambda x: 1.5 * x,
    "joint_armature": lambda x: 2.0 * x,
    "joint_damping": lambda x: 0.1 * x,
    "joint_stiffness": lambda x: x + 3.0,
    "joint_reference": lambda x: x + 0.3,
    "joint_friction": lambda x: np.where(x > 0, 5.0, 0.0),
    "joint_range": lambda x: 0.9 * x,
    "joint_axis": lambda x: x[..., [1, 2, 0]],
    "joint_pose": lambda x: x + np.array([0.02, 0, 0, 0, 0, 0, 0]),
    "actuator_gain": lambda x: 2.0 * x,
    "actuator_bias": lambda x: x + [3.0, 0.0, 0.0],
    "control_range": lambda x: 0.1 * x,
    "force_range": lambda x: np.clip(x, -0.05, 0.05),
    "geom_size": lambda x: 1.5 * x,
    "geom_pose": lambda x: x + np.array([0, 0, 0.05, 0, 0, 0, 0]),
    "geom_friction": lambda x: 0.1 * x,
    "geom_stiffness": lambda x: np.full_like(x, 300.0),
    "geom_dissipation_time": lambda x: np.full_like(x, 0.05),
    "gravity": lambda x: 0.5 * x,
}


@pytest.fixture(scope="module")
def model_with_everything(assets):
    """The ant with springs, dry friction and biases small enough to keep it an ant, so that every parameter matters."""
    spec = mujoco.MjSpec.from_file(assets("ant"))
    for joint in spec.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_HINGE:
            joint.stiffness, joint.springref, joint.frictionloss = np.array([1.0, 0, 0]), 0.2, 0.1
    return ws.load(spec.compile())


@pytest.mark.parametrize("name", CHANGES)
def test_a_parameter_changes_its_world_alone(model_with_everything, device, name):
    """Written for world 1 only, a parameter moves world 1 and leaves every bit of worlds 0 and 2; and world 1 is the
    same as in a simulator where all worlds have the new value."""
    m = model_with_everything
    few, all_ = (ws.Simulator(m, worlds=3, dt=0.01, device=device) for _ in range(2))
    q = np.tile(m.q0, (3, 1))
    q[:, 2], q[:, 7:] = 0.5, m.joint_range.mean(axis=1)[1:]
    q[:, 8::2] = m.joint_range[2::2, 1] - 0.01  # near the stops
    control = wp.array(np.full((3, m.nu), 0.8, dtype="float32"), device=few.device)

    def run(sim):
        trajectory = sim.rollout(sim.state(q), lambda state: control, steps=60)
        assert trajectory.diagnostics["contacts"].numpy().any()
        return trajectory.q.numpy()

    before = run(few)
    default = few.parameters[name].numpy().astype(float)
    values = default.copy()
    values[1] = CHANGES[name](default)[1]
    few.parameters[name] = values
    all_.parameters[name] = CHANGES[name](default)
    after = run(few)
    np.testing.assert_array_equal(after[:, [0, 2]], before[:, [0, 2]])
    assert np.abs(after[:, 1] - before[:, 1]).max() > 1e-6
    np.testing.assert_array_equal(after[:, 1], run(all_)[:, 1])


def test_parameters_written_on_the_device_act_at_once(device):
    """A kernel or `assign` that writes the array needs no re-capture: the next step uses the new values."""
    sim = ws.Simulator(cart(mass=2.0), worlds=2, dt=0.01, device=device, dtype="float64")
    push = [[4.0], [4.0]]
    mass = sim.parameters["body_mass"]
    np.testing.assert_allclose(sim.step(sim.state(), tau=push).v.numpy()[:, 0], 0.02, rtol=1e-12)
    mass.assign(np.array([[2.0], [8.0]]))
    np.testing.assert_allclose(sim.step(sim.state(), tau=push).v.numpy()[:, 0], [0.02, 0.005], rtol=1e-12)
    sim.parameters["body_mass"] = [1.0]  # one value for all worlds
    np.testing.assert_allclose(sim.step(sim.state(), tau=push).v.numpy()[:, 0], 0.04, rtol=1e-12)


def test_queries_use_the_parameters(device):
    """Mass matrix, energy, bias and ABA of a world follow its own mass and gravity."""
    sim = ws.Simulator(cart(mass=2.0, gravity=(1.0, 0, 0)), worlds=2, device=device, dtype="float64")
    sim.parameters["body_mass"] = [[2.0], [6.0]]
    sim.parameters["gravity"] = [[1.0, 0, 0], [3.0, 0, 0]]
    np.testing.assert_allclose(sim.mass_matrix([0.0]).numpy()[:, 0, 0], [2.0, 6.0])
    np.testing.assert_allclose(sim.inverse_dynamics([0.0], [0.0], [0.0]).numpy()[:, 0], [-2.0, -18.0])
    np.testing.assert_allclose(sim.forward_dynamics([0.0], [0.0], [0.0]).numpy()[:, 0], [1.0, 3.0])
    kinetic, potential = sim.energy(sim.state([0.5], [2.0]))
    np.testing.assert_allclose(kinetic.numpy(), [4.0, 12.0])
    np.testing.assert_allclose(potential.numpy(), [-1.0, -9.0])


# States --------------------------------------------------------------------------------------------------------------


def test_state_defaults_to_the_initial_pose_at_rest(ant):
    state = ant.sim.state()
    np.testing.assert_array_equal(state.q.numpy(), np.tile(ant.model.q0, (WORLDS, 1)).astype("float32"))
    assert not state.v.numpy().any() and not state.time.numpy().any() and not state.memory["flags"].numpy().any()
    assert state.worlds == WORLDS and state.q.device == ant.sim.device and state.q.dtype == wp.float32


@pytest.mark.parametrize("shape", ["one", "worlds"])
def test_state_takes_one_row_or_one_per_world(ant, shape):
    q = np.tile(ant.model.q0, (WORLDS, 1)) + 0.1
    given = q[0] if shape == "one" else q
    np.testing.assert_array_equal(ant.sim.state(q=given).q.numpy(), q.astype("float32"))


def test_keyframes(device):
    """keyframe="home" by name; what the key does not say is the initial pose and rest; q, v may override."""
    model = ws.load(mujoco.MjModel.from_xml_string(KEYFRAMES))
    sim = ws.Simulator(model, worlds=2, device=device, dtype="float64")
    state = sim.state(keyframe="home")
    np.testing.assert_array_equal(state.q.numpy(), [[0.1, 0.2]] * 2)
    np.testing.assert_array_equal(state.v.numpy(), [[3.0, 4.0]] * 2)
    np.testing.assert_array_equal(sim.state(keyframe="away").v.numpy(), np.zeros((2, 2)))
    np.testing.assert_array_equal(sim.state(v=[1.0, 2.0], keyframe="home").v.numpy(), [[1.0, 2.0]] * 2)


def test_clone_is_independent(ant):
    state = ant.state.clone()
    copy = state.clone()
    state.q.fill_(7.0)
    state.memory["flags"].fill_(1)
    assert_equal_states(copy, ant.state)


@pytest.mark.parametrize("index", [3, slice(1, 4), [4, 0, 0], np.array([True, False, False, True, False])])
def test_indexing_a_state_copies_worlds(ant, index):
    """An index, slice, list or mask gives a State of those worlds, memory and time included."""
    state = ant.sim.step(ant.state)
    part = state[index]
    chosen = np.atleast_1d(np.arange(WORLDS)[index])
    assert part.worlds == len(chosen)
    for name, values in part.numpy().items():
        np.testing.assert_array_equal(values, state.numpy()[name][chosen], err_msg=name)
    part.q.fill_(0.0)
    assert state.q.numpy().any()


def test_a_part_of_a_state_steps_in_a_smaller_simulator(ant, assets, device):
    """state[i] goes on in a 2-world simulator with the same bits."""
    small = ws.Simulator(ant.model, worlds=2, dt=0.01, device=device)
    full = ant.sim.step(ant.sim.step(ant.state))
    part = small.step(ant.sim.step(ant.state)[[3, 1]])
    np.testing.assert_array_equal(part.q.numpy(), full.q.numpy()[[3, 1]])
    np.testing.assert_array_equal(part.time.numpy(), full.time.numpy()[[3, 1]])


def test_numpy_views_of_a_state(ant):
    """`numpy()` gives every array by name; on the CPU without a copy."""
    state = ant.state.clone()
    arrays = state.numpy()
    assert set(arrays) >= {"q", "v", "time", "flags"}
    if not state.q.device.is_cuda:
        arrays["v"][2, 0] = 42.0
        assert state.v.numpy()[2, 0] == 42.0


def test_torch_views_of_a_state(ant):
    """`torch()` shares memory both ways."""
    torch = pytest.importorskip("torch")
    state = ant.state.clone()
    tensors = state.torch()
    assert isinstance(tensors["q"], torch.Tensor) and tensors["q"].shape == (WORLDS, ant.model.nq)
    tensors["v"].zero_()
    assert not state.v.numpy().any()


def test_optional_packages_are_named_when_missing(ant):
    """Without torch or jax the view says which extra to install; cupy() says that it needs CUDA."""
    import importlib.util

    for package in ("torch", "jax"):
        if importlib.util.find_spec(package) is None:
            with pytest.raises(ImportError, match=rf"warpsim\[{package}\]"):
                getattr(ant.state, package)()
    if not ant.state.q.device.is_cuda:
        with pytest.raises(ValueError, match="CUDA"):
            ant.state.cupy()


# Contacts and other queries ------------------------------------------------------------------------------------------


def test_contacts_of_a_state_are_those_of_its_step(device):
    """`sim.contacts(state)` at rest has the geometry of `sim.last_contacts` of the step from it; frames are rotations
    with the normal from A into B; phi is the box's height above the floor."""
    sim = ws.Simulator(body_on_plane("box", [0.2, 0.3, 0.1], height=0.0995), dt=0.01, device=device, dtype="float64")
    state = sim.state()
    found = sim.contacts(state)
    assert found.impulse is None and len(found) == 4
    np.testing.assert_allclose(found.phi, -0.0005, rtol=1e-9)
    np.testing.assert_allclose(np.sort(np.abs(found.point[0, :, :2]), axis=0), [[0.2, 0.3]] * 4, rtol=1e-9)
    frame = found.frame[0]
    np.testing.assert_allclose(np.einsum("cij,cik->cjk", frame, frame), [np.eye(3)] * 4, atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(frame), 1.0)
    names = [sim.model.geom_names[g] for g in found.geoms[0, 0]]
    np.testing.assert_allclose(frame[:, :, 2], [[0, 0, 1.0 if names == ["floor", "shape"] else -1.0]] * 4, atol=1e-12)
    sim.step(state)
    last = sim.last_contacts
    for name in ("count", "geoms", "feature", "point", "frame", "phi"):
        np.testing.assert_array_equal(getattr(last, name), getattr(found, name), err_msg=name)
    assert last.impulse.shape == (1, 4, 3) and (last.impulse[0, :, 2] > 0).all()


def test_contact_force_is_the_weight_at_rest(device):
    """A box at rest: the floor's net force on it is m g upwards, on the floor m g downwards, nothing sideways."""
    model = body_on_plane("box", [0.2, 0.3, 0.1], mass=4.0)
    sim = ws.Simulator(model, dt=0.01, device=device, dtype="float64")
    sim.rollout(sim.state(), steps=100)
    np.testing.assert_allclose(sim.contact_force().numpy()[0], [[0, 0, 4.0 * GRAVITY]], rtol=1e-5, atol=1e-6)
    by_geom = sim.contact_force(of="geom").numpy()[0]
    np.testing.assert_allclose(by_geom[model.geom("floor")], [0, 0, -4.0 * GRAVITY], rtol=1e-5, atol=1e-6)


def test_kinematics_at_the_initial_pose_is_the_files(ant, assets):
    """Body poses `[x y z qw qx qy qz]` in the file's order, the world body not counted."""
    m = mujoco.MjModel.from_xml_path(assets("ant"))
    d = mujoco.MjData(m)
    mujoco.mj_kinematics(m, d)
    poses = ant.sim.kinematics(ant.model.q0).numpy()
    assert poses.shape == (WORLDS, m.nbody - 1, 7)
    np.testing.assert_allclose(poses[2, :, :3], d.xpos[1:], atol=1e-6)


def test_memory_per_world(assets, device, within):
    """Device memory of a step does not hold anything that grows faster than the worlds; the humanoid's has a target of 40 kB with
    the convex law. Coulomb's takes a tenth more: its matrix is not symmetric, and every contact has both its law and its lag."""
    for approximation, most in (("convex", 40_000), ("lagged", 46_000)):
        options = {"device": device, "solver": ws.SAP(approximation=approximation)}
        sims = [ws.Simulator(ws.load(assets("humanoid")), worlds=n, **options) for n in (64, 256)]
        small, large = (sim.bytes_per_world() for sim in sims)
        assert large <= small
        within(f"bytes per humanoid world, {approximation}", large, most)


def test_requires_grad_is_asked_for_not_assumed(ant):
    """Taping a step of a simulator made without requires_grad raises; it never returns zeros."""
    with wp.Tape(), pytest.raises(ValueError, match="requires_grad=True"):
        ant.sim.step(ant.state)


def test_dt_that_is_assigned(device):
    """A new dt is that of the next step, of captured launches and Jacobians as well; a wrong one is refused."""
    sim = ws.Simulator(pendulum(), dt=0.001, dtype="float64", device=device)
    state = sim.state()
    for _ in range(4):
        sim.step(state, out=state)
    jacobian = sim.linearize(state)
    sim.linearize(state, out=jacobian)
    sim.dt = 0.01
    for _ in range(4):
        sim.step(state, out=state)
    assert state.time.numpy()[0] == pytest.approx(0.044)
    sim.linearize(state, out=jacobian)
    assert jacobian.A.numpy()[0, 0, 1] == pytest.approx(0.01, rel=1e-2)
    with pytest.raises(ValueError, match="dt is 0; it must be positive"):
        sim.dt = 0


def test_a_policy_may_record_steps_from_what_it_is_shown(assets, device):
    """States of a rollout without a tape have gradients where the start has, for a policy that differentiates steps of its own."""
    sim = ws.Simulator(ws.load(assets("hopper")), 2, device=device, requires_grad=True)
    slopes = []

    def policy(state):
        control = wp.zeros((2, sim.model.nu), dtype=wp.float32, device=sim.device, requires_grad=True)
        with wp.Tape() as tape:
            after = sim.step(state, control)
        tape.backward(grads={after.v: wp.ones_like(after.v)})
        slopes.append(np.abs(control.grad.numpy()).max())
        return wp.zeros_like(control, requires_grad=False)

    assert sim.rollout(sim.state(), policy, steps=2).final.q.requires_grad
    assert min(slopes) > 0.0
    assert sim.rollout(sim.state(), steps=2).final.q.requires_grad
