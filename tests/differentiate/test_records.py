# SPDX-License-Identifier: Apache-2.0
"""A record keeps what its step used: parameters, inputs and states that are written to before the backward pass change no
gradient, whoever writes to them and however."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane
from warpsim import stepping
from warpsim.device import copies

STEPS, WORLDS = 6, 2
SIMULATORS = {
    "symplectic": {"solver": ws.SAP(tolerance=1e-13)},
    "convex": {"solver": ws.SAP(tolerance=1e-13, approximation="convex")},
    "explicit": {"integrator": ws.ExplicitEuler()},
    "midpoint": {"integrator": ws.Midpoint(tolerance=1e-14)},
    "variational": {"integrator": ws.Variational(tolerance=1e-14)},
    "LCP": {"solver": ws.LCP()},
    "Compliant": {"solver": ws.Compliant(stiffness=1e6)},
}


def sliding_box(name="symplectic", **more) -> ws.Simulator:
    """A box that slides on a plane, in two worlds."""
    model = body_on_plane("box", [0.1, 0.1, 0.1], height=0.0999, friction=0.4)
    options = {"worlds": WORLDS, "dt": 0.01, "dtype": "float64", "requires_grad": True, "device": "cpu"}
    return ws.Simulator(model, **options, **SIMULATORS[name], **more)


def start_of(sim) -> ws.State:
    return sim.state(v=[[0.3, 0.1, 0.0, 0.0, 0.0, 0.5], [0.5, -0.2, 0.0, 0.1, 0.0, 0.3]])


@wp.kernel
def scale(x: wp.array2d(dtype=wp.float64), by: wp.float64):
    i, j = wp.tid()
    x[i, j] = x[i, j] * by


WRITES = {
    "sim.parameters": lambda sim, array: sim.parameters.__setitem__("geom_friction", 0.1),
    "assign": lambda sim, array: array.assign(0.1 * np.ones(array.shape)),
    "fill": lambda sim, array: array.fill_(0.1),
    "kernel": lambda sim, array: wp.launch(scale, dim=array.shape, inputs=[array, 0.3], device="cpu"),
    "a view of its memory": lambda sim, array: array.numpy().__setitem__(slice(None), 0.1),
}


def write(sim, array, how: str) -> None:
    if how == "sim.parameters":
        sim.parameters["geom_friction"] = np.full(sim.model.ngeom, 0.1)
    else:
        WRITES[how](sim, array)


def slide(sim, tape, kind: str):
    """The state after some steps on the tape, and whose gradients are asked for."""
    start, tau = start_of(sim), wp.zeros((WORLDS, sim.model.nv), dtype=wp.float64, device="cpu", requires_grad=True)
    with tape:
        if kind == "steps":
            state = start
            for _ in range(STEPS):
                state = sim.step(state, tau=tau)
        else:
            checkpoints = {"rollout": None, "checkpoints": 4}[kind]
            state = sim.rollout(start, steps=STEPS, checkpoint_every=checkpoints).final
    return start, tau, state


def gradients(sim, kind: str, between=None) -> dict[str, np.ndarray]:
    """Of the sum of the last velocities; `between(start, tau, last)` runs before the backward pass."""
    friction, mass = sim.parameters["geom_friction"], sim.parameters["body_mass"]
    for array in (friction, mass):
        array.grad.zero_()
    tape = wp.Tape()
    start, tau, last = slide(sim, tape, kind)
    ones, q, v = wp.array(np.ones(last.v.shape), dtype=wp.float64, device="cpu"), start.q.grad, start.v.grad
    last_v = last.v
    if between is not None:
        between(start, tau, last)
    tape.backward(grads={last_v: ones})
    found = {"q": q, "v": v, "tau": tau.grad, "friction": friction.grad, "mass": mass.grad}
    return {name: x.numpy().copy() for name, x in found.items()}


def same(found: dict, expected: dict) -> None:
    for name, x in expected.items():
        np.testing.assert_array_equal(found[name], x, err_msg=name)


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("kind", ["steps", "rollout", "checkpoints"])
def test_a_parameter_written_to_between_the_passes(kind, how):
    """The gradient is that of the friction the steps were made with, to the bit; the new friction stays in place."""
    sim = sliding_box()
    expected = gradients(sim, kind)
    assert np.abs(expected["friction"]).max() > 0.01
    friction = sim.parameters["geom_friction"]
    found = gradients(sim, kind, lambda *arrays: write(sim, friction, how))
    same(found, expected)
    np.testing.assert_allclose(friction.numpy(), 0.12 if how == "kernel" else 0.1, rtol=1e-12)


@pytest.mark.parametrize("name", SIMULATORS)
def test_every_integrator_and_solver(name):
    """Friction, mass and gravity are others before the backward pass: the gradients do not see it."""
    sim = sliding_box(name)
    expected = gradients(sim, "steps")

    def change(*arrays):
        sim.parameters["geom_friction"] = np.full(sim.model.ngeom, 0.1)
        sim.parameters["body_mass"] = [5.0]
        sim.parameters["gravity"] = [1.0, 0.0, -3.0]

    same(gradients(sim, "steps", change), expected)


@pytest.mark.parametrize("kind", ["steps", "rollout", "checkpoints"])
def test_a_parameter_first_asked_for_after_the_steps(kind):
    """A parameter that is asked for, and written to, only between the passes was the model's: its gradient is that of
    the model's values."""
    expected = gradients(sliding_box(), kind)["friction"]
    sim, tape = sliding_box(), wp.Tape()
    _, _, last = slide(sim, tape, kind)
    sim.parameters["geom_friction"] = np.full(sim.model.ngeom, 0.1)
    tape.backward(grads={last.v: wp.array(np.ones(last.v.shape), dtype=wp.float64, device="cpu")})
    np.testing.assert_array_equal(sim.parameters["geom_friction"].grad.numpy(), expected)


def test_a_parameter_that_changes_from_step_to_step():
    """Friction is written to between two steps through an array that was handed out before: the gradient is the sum of the
    two steps' own, against central differences."""
    sim = sliding_box()
    friction, values = sim.parameters["geom_friction"], (0.4, 0.2)

    def run(change=0.0):
        state = start_of(sim)
        for mu in values:
            friction.fill_(mu + change)
            state = sim.step(state)
        return state.v

    friction.grad.zero_()
    with wp.Tape() as tape:
        last = run()
    tape.backward(grads={last: wp.array(np.ones(last.shape), dtype=wp.float64, device="cpu")})
    up, down = (run(sign * 1e-5).numpy().sum(axis=1) for sign in (1, -1))
    np.testing.assert_allclose(friction.grad.numpy().sum(axis=1), (up - down) / 2e-5, rtol=1e-5)


def test_inputs_written_to_between_the_passes():
    """The start, the forces, and the control array that every step reuses may be overwritten once a step was made."""

    def overwrite(start, tau, last):
        for array in (start.q, start.v, tau):
            array.fill_(0.7)

    sim = sliding_box()
    same(gradients(sim, "steps", overwrite), gradients(sim, "steps"))


@pytest.mark.parametrize("checkpoint_every", [None, 4])
def test_a_table_of_controls_overwritten(checkpoint_every):
    """A cart whose drive is strong where it is far out, so that the gradient to q depends on the controls: it is that of
    the controls used; with checkpoints, which copy no controls, an error says that they were changed."""
    b = ws.ModelBuilder("cart")
    b.add_body("cart", mass=1.0, inertia=[1.0] * 3)
    b.add_joint("cart", "slide", axis=[1, 0, 0], name="rail")
    b.add_actuator("rail", "affine", gain=(0.0, 5.0, 0.0), bias=(0.0, 0.0, 0.0))
    sim = ws.Simulator(b.build(), dt=0.05, dtype="float64", requires_grad=True, device="cpu")
    found = []
    for overwritten in (False, True):
        start, controls = sim.state([0.3]), wp.full((STEPS, 1, 1), 0.8, dtype=wp.float64, device="cpu")
        controls.requires_grad = True
        with wp.Tape() as tape:
            final = sim.rollout(start, controls, checkpoint_every=checkpoint_every).final
        if overwritten:
            controls.fill_(-0.5)
            if checkpoint_every is not None:
                with pytest.raises(ValueError, match=r"could not be repeated in world 0.*controls"):
                    tape.backward(grads={final.q: wp.array([[1.0]], dtype=wp.float64, device="cpu")})
                return
        tape.backward(grads={final.q: wp.array([[1.0]], dtype=wp.float64, device="cpu")})
        found.append((start.q.grad.numpy().copy(), controls.grad.numpy().copy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_one_control_array_for_all_steps():
    """The same control array filled anew before every step, as a loop over a recorded signal does."""
    b = ws.ModelBuilder("cart")
    b.add_body("cart", mass=1.0, inertia=[1.0] * 3)
    b.add_joint("cart", "slide", axis=[1, 0, 0], name="rail")
    b.add_actuator("rail", "affine", gain=(0.0, 5.0, 0.0), bias=(0.0, 0.0, 0.0))
    sim = ws.Simulator(b.build(), dt=0.05, dtype="float64", requires_grad=True, device="cpu")
    signal = np.linspace(-0.9, 0.9, STEPS)
    shared = wp.zeros((1, 1), dtype=wp.float64, device="cpu")
    slopes = []
    for reuse in (False, True):
        start = state = sim.state([0.3])
        with wp.Tape() as tape:
            for u in signal:
                shared.fill_(u)
                state = sim.step(state, shared if reuse else [[u]])
        tape.backward(grads={state.q: wp.array([[1.0]], dtype=wp.float64, device="cpu")})
        slopes.append(start.q.grad.numpy()[0, 0])
    assert slopes[0] == slopes[1]


@pytest.mark.parametrize("how", ["reset", "out", "assign"])
def test_a_recorded_state_is_written_to_by_the_simulator(how):
    """`reset`, `out=` and `State.assign` leave the recorded arrays to the tape: the gradient stays, to the bit."""
    sim = sliding_box()
    expected = gradients(sim, "steps")

    def overwrite(start, tau, last):
        before = last.v.numpy().copy()
        if how == "reset":
            sim.reset(last, [0, 1], v=[1.0] * 6)
        elif how == "out":
            assert sim.step(last, out=last) is last
        else:
            last.assign(start)
        assert not np.array_equal(last.v.numpy(), before)

    same(gradients(sim, "steps", overwrite), expected)


def test_reset_on_the_tape():
    """Worlds that begin anew in the middle of a tape: no gradient passes to what they were before, the others' is that
    without the reset, and after it the new start counts."""
    sim = sliding_box()

    def run(reset: bool):
        start = state = start_of(sim)
        with wp.Tape() as tape:
            for step in range(STEPS):
                if step == 3 and reset:
                    sim.reset(state, [1], q=sim.model.q0, v=[0.2, 0.1, 0.0, 0.0, 0.0, 0.4])
                state = sim.step(state)
        sim.parameters["geom_friction"].grad.zero_()
        tape.backward(grads={state.v: wp.array(np.ones(state.v.shape), dtype=wp.float64, device="cpu")})
        return state, start.v.grad.numpy(), sim.parameters["geom_friction"].grad.numpy().copy()

    sim.parameters["geom_friction"]
    plain, v_plain, friction_plain = run(False)
    fresh, v_bar, friction_bar = run(True)
    np.testing.assert_array_equal(fresh.v.numpy()[0], plain.v.numpy()[0])
    np.testing.assert_array_equal(v_bar[0], v_plain[0])
    np.testing.assert_array_equal(friction_bar[0], friction_plain[0])
    assert np.all(v_bar[1] == 0.0)

    state = sim.state(v=[[0.0] * 6, [0.2, 0.1, 0.0, 0.0, 0.0, 0.4]])
    sim.parameters["geom_friction"].grad.zero_()
    with wp.Tape() as tape:
        for _ in range(STEPS - 3):
            state = sim.step(state)
    tape.backward(grads={state.v: wp.array(np.ones(state.v.shape), dtype=wp.float64, device="cpu")})
    np.testing.assert_allclose(friction_bar[1], sim.parameters["geom_friction"].grad.numpy()[1], rtol=1e-6)


def test_a_policy_that_resets_in_a_rollout():
    """A callable that resets a world in the middle of a taped rollout: the gradient of the rows before it stays right."""
    sim = sliding_box()
    found = []
    for reset in (False, True):
        count = iter(range(STEPS))

        def policy(state, count=count, reset=reset):
            if next(count) == 3 and reset:
                sim.reset(state, [0])
            return np.zeros((WORLDS, 0))

        start = start_of(sim)
        with wp.Tape() as tape:
            rows = sim.rollout(start, policy, STEPS)
        seed = np.zeros(rows.v.shape)
        seed[:4] = 1.0  # before the reset
        tape.backward(grads={rows.v: wp.array(seed, dtype=wp.float64, device="cpu")})
        found.append(start.v.grad.numpy().copy())
    np.testing.assert_array_equal(found[0], found[1])


def test_no_copies_of_parameters_that_were_not_asked_for():
    """A record without expanded parameters keeps none; the steps of a rollout share one copy of those that were."""
    sim, tape = sliding_box(), wp.Tape()
    slide(sim, tape, "rollout")
    records = [
        launch.args[0] for launch in tape.launches if getattr(launch, "func", None) == sim._stepper.adjoint.backward
    ]
    assert len(records) == STEPS and not any(record.parameters.values for record in records)
    sim.parameters["body_mass"]
    tape = wp.Tape()
    slide(sim, tape, "rollout")
    records = [
        launch.args[0] for launch in tape.launches if getattr(launch, "func", None) == sim._stepper.adjoint.backward
    ]
    assert {id(record.parameters) for record in records} == {id(records[0].parameters)}
    assert list(records[0].parameters.values) == ["body_mass"]


@pytest.mark.parametrize("checkpoint_every", [None, 4])
def test_a_start_that_has_a_gradient_already_leaks_none(checkpoint_every):
    """Backward passes from one start, whose own gradient adds up, give the same gradient of the controls each time."""
    model = ws.load(ws.robots.path("hopper"))
    sim = ws.Simulator(model, dt=0.005, dtype="float64", requires_grad=True)
    start = sim.state()

    def gradient():
        controls = wp.array(np.full((10, 1, model.nu), 0.2), dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            trajectory = sim.rollout(start, controls, checkpoint_every=checkpoint_every)
        seed = np.zeros(trajectory.q.shape)
        seed[-1] = 1.0
        tape.backward(grads={trajectory.q: wp.array(seed, dtype=wp.float64)})
        return controls.grad.numpy()

    first = gradient()
    for _ in range(2):
        np.testing.assert_array_equal(gradient(), first)


@pytest.fixture
def modules(monkeypatch):
    """The Warp modules that simulators have compiled together, and those of the kernels that they have launched."""
    together, launched, launch = set(), set(), wp.launch

    def load(kernels, device):
        together.update(kernel.module.name for kernel in kernels)
        copies.load(kernels, device)

    def noted(kernel, *arguments, **options):
        launched.add(kernel.module.name)
        return launch(kernel, *arguments, **options)

    monkeypatch.setattr(stepping, "load", load)
    monkeypatch.setattr(wp, "launch", noted)
    return together, launched


@pytest.mark.parametrize("name", [*SIMULATORS, "impacts", "wrench"])
def test_kernels_of_a_backward_pass_are_compiled_with_those_of_the_step(name, modules):
    """A backward pass launches nothing of a module that was not compiled before the first taped step."""
    sim = sliding_box(name) if name in SIMULATORS else sliding_box(time_of_impact=name == "impacts")
    start, wrench = start_of(sim), np.zeros((WORLDS, sim.model.nbody, 6)) if name == "wrench" else None
    together, launched = modules
    launched.clear()
    with wp.Tape() as tape:
        end = sim.step(start, wrench=wrench)
    before = set(together)
    tape.backward(grads={end.q: wp.ones_like(end.q)})
    assert len(launched) > 3 and launched <= before and together == before


@pytest.mark.parametrize("name", ["symplectic", "midpoint"])
def test_kernels_of_jacobians_are_compiled_together(name, modules):
    """`linearize` and `jvp`, in closed form and by reverse passes, launch nothing that was compiled on its way."""
    sim = sliding_box(name)
    start, direction = start_of(sim), np.ones((WORLDS, 2 * sim.model.nv))
    together, launched = modules
    launched.clear()
    sim.linearize(start)
    assert len(launched) > 3 and launched <= together
    sim.jvp(start, dstate=direction)
    assert launched <= together


def test_a_simulator_compiles_again_where_compiling_was_interrupted(monkeypatch):
    """A step after an interrupt while kernels were compiled compiles them together, before it captures them."""
    sim = sliding_box()
    found = []

    def interrupted(kernels, device):
        raise KeyboardInterrupt

    monkeypatch.setattr(stepping, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sim.step(start_of(sim))
    monkeypatch.setattr(stepping, "load", lambda kernels, device: found.append(kernels) or copies.load(kernels, device))
    sim.step(start_of(sim))
    assert len(found) == 1 and len(found[0]) > 3
