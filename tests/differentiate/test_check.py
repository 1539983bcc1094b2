# SPDX-License-Identifier: Apache-2.0
"""`ws.check_gradients`: right gradients pass, wrong ones are named, differences that mean nothing are told apart."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.differentiate.check import _judge

FINE = {"dtype": "float64", "requires_grad": True, "solver": ws.SAP(tolerance=1e-13), "device": "cpu"}


def double_pendulum(**options) -> ws.Simulator:
    b = ws.ModelBuilder("double pendulum")
    for k in range(2):
        body = b.add_body(
            f"rod{k}", parent=k - 1, pose=[0, 0, -0.5 * k], mass=1.0, com=[0, 0, -0.5], inertia=[0.02] * 3
        )
        b.add_joint(body, "hinge", axis=[0, 1, 0], name=f"hinge{k}")
        b.add_actuator(f"hinge{k}")
    return ws.Simulator(b.build(), dt=0.02, **(FINE | options))


def test_right_gradients_pass():
    """Every variable of a smooth motion in two worlds is ok at every horizon; the table lists them all."""
    sim = double_pendulum(worlds=2)
    names = ("body_mass", "body_inertia", "joint_damping", "gravity")
    check = ws.check_gradients(
        sim, sim.state([0.5, 0.2], [1.0, 0.0]), horizons=(1, 10), parameters=names, tolerance=1e-6
    )
    assert check.ok and check.worst() <= 1e-6
    assert [row.variable for row in check.rows[::2]] == ["q", "v", "controls", *names]
    assert all(row.compared and not row.notes for row in check.rows)
    assert str(check).count("ok") == len(check.rows)


@pytest.mark.parametrize("integrator", [ws.SymplecticEuler(), ws.Variational()], ids=["symplectic", "variational"])
def test_axes_are_turned_and_keep_their_length(integrator):
    """Gradients by the directions of skew axes, one of them between the axes of coordinates, agree; along an axis none is asked for."""
    b = ws.ModelBuilder("two joints")
    for k, (kind, axis) in enumerate((("hinge", [0.3, -1.0, 0.7]), ("slide", [0.0, 1.0, 0.0]))):
        body = b.add_body(
            f"b{k}", parent=k - 1, pose=[0.3 * k, 0, 0], mass=1.0, com=[0.1, 0.05, 0.02], inertia=[0.02, 0.03, 0.04]
        )
        b.add_joint(body, kind, axis=axis)
    sim = ws.Simulator(b.build(), dt=0.005, integrator=integrator, **FINE)
    start = sim.state(v=[1.0, -2.0])
    check = ws.check_gradients(
        sim, start, horizons=(1, 10), parameters=("joint_axis",), variables=("v",), tolerance=1e-6
    )
    assert check.ok
    assert [row.compared for row in check.rows if row.variable == "joint_axis"] == [6, 6]  # three, two, and a mixture


def test_a_wrong_gradient_is_named(monkeypatch):
    """A backward pass that forgets half of the controls' gradient: wrong at those rows and at no others."""
    sim = double_pendulum()
    sim.step(sim.state())
    adjoint = sim._stepper.adjoint
    add_found = adjoint._add_found

    def broken(arrays, fields):
        adjoint.control.grad.assign(0.5 * adjoint.control.grad.numpy())
        add_found(arrays, fields)

    monkeypatch.setattr(adjoint, "_add_found", broken)
    check = ws.check_gradients(sim, sim.state([0.5, 0.2]), horizons=(1, 5))
    assert not check.ok
    assert {row.variable for row in check.rows if row.verdict == "WRONG"} == {"controls"}
    assert "WRONG at world 0" in str(check)


def test_a_kink_is_told_apart():
    """A control on its bound moves the joint on one side only: its differences mean nothing, and the table says why."""
    b = ws.ModelBuilder("clamped")
    b.add_joint(b.add_body("link", mass=1.0, inertia=[0.1, 0.1, 0.1]), "hinge", axis=[0, 1, 0], name="hinge")
    b.add_actuator("hinge", control_range=(-0.5, 0.5))
    sim = ws.Simulator(b.build(), dt=0.01, **FINE)
    check = ws.check_gradients(sim, controls=np.full((5, 1, 1), 0.5), horizons=(5,), variables=("v", "controls"))
    v, controls = check.rows
    assert v.verdict == "ok" and not v.notes
    assert controls.verdict == "meaningless" and "a kink" in controls.notes[0]
    assert check.ok


def test_chaos_is_told_apart():
    """A double pendulum let go near the top: ok after 10 steps, no difference settles after 600, and chaos is named."""
    sim = double_pendulum()
    state = sim.state([3.0, 0.5])
    check = ws.check_gradients(sim, state, np.zeros((600, 1, 2)), horizons=(10, 600), variables=("v",), entries=2)
    early, late = check.rows
    assert early.verdict == "ok"
    assert late.verdict == "meaningless" and "chaos" in late.notes[0]


def test_a_world_that_stops_is_told():
    """World 1 is thrown so hard that it blows up: its differences mean nothing, those of world 0 do."""
    sim = double_pendulum(worlds=2)
    state = sim.state(v=[[1.0, 0.0], [1e4, -1e4]])
    check = ws.check_gradients(sim, state, np.zeros((20, 2, 2)), horizons=(20,), variables=("v",), entries=2)
    assert check.rows[0].verdict == "ok" and "NONFINITE" in check.rows[0].notes[0]


SIZES = np.array([1e-4, 1e-5, 1e-6, 1e-7, 1e-8])
SMOOTH = np.stack([2.0 + 50 * SIZES, 2.0 - 50 * SIZES], axis=1)
KINK = SMOOTH + np.array([1.0, -1.0])
NOISE = SMOOTH + np.array([[0.3], [-0.2], [0.1], [-0.4], [0.2]])


@pytest.mark.parametrize(
    "expected, sides, changes, growth, reason",
    [
        (2.0, SMOOTH, "", 1.0, "ok"),
        (2.1, SMOOTH, "", 1.0, "WRONG"),
        (3.0, KINK, "", 1.0, "a kink (the gradient is that of one side)"),
        (2.5, KINK, "", 1.0, "a kink (one-sided differences differ)"),
        (2.5, NOISE, "", 1e6, "chaos (gradients grow 1e+06-fold)"),
        (2.5, NOISE, "", 1.0, "differences of neighbouring step sizes disagree"),
        (2.5, SMOOTH, "contacts come or go", 1.0, "contacts come or go within the smallest step"),
    ],
)
def test_verdicts(expected, sides, changes, growth, reason):
    """One-sided differences over five step sizes: what each pattern is taken for."""
    assert _judge(expected, sides, [changes] * 5, 1.0, 1e-5, growth)[2] == reason


def falling(e: float, height: float, speed: float, worlds: int = 1):
    """A ball over a plane, and its state."""
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", restitution=e)
    ball = b.add_body("ball", pose=(0, 0, 0.5, 1, 0, 0, 0))
    b.add_joint(ball, "free")
    b.add_geom("sphere", (0.1,), body=ball, restitution=e)
    options = {"time_of_impact": True, "dtype": "float64", "device": "cpu", "requires_grad": True}
    sim = ws.Simulator(b.build(), worlds, 0.01, solver=ws.SAP(tolerance=1e-13), **options)
    q, v = np.zeros((worlds, 7)), np.zeros((worlds, 6))
    q[:, 2], q[:, 3], v[:, 2], v[:, 0] = 0.1 + height, 1, speed, 1
    return sim, sim.state(q, v)


def test_a_changed_number_of_impacts_is_named():
    """A ball that approaches at the speed from which approaches count as impacts rebounds or not: no slope."""
    sim, _ = falling(0.8, 1e-4, 0.0)
    speed = sim._step.impacts.rule(0.01).speed
    check = ws.check_gradients(*falling(0.8, 1e-4, -speed), horizons=(1,), variables=("v",))
    assert "the number of impacts changes within the smallest step" in str(check)
    assert check.ok


def test_an_impact_at_the_end_of_a_step_is_smooth():
    """A ball whose impact a perturbation moves from one step to the next has the right gradient at every horizon behind it."""
    h, g, speed = 0.01, 9.81, 1.5
    fall = 4 * h * speed + g * h * h * 16 / 2  # the path of the leapfrog: the impact is at the end of the fourth step
    check = ws.check_gradients(*falling(0.6, fall, -speed), horizons=(3, 8), variables=("q", "v"))
    assert check.ok and all(row.verdict == "ok" for row in check.rows)
    assert "contacts come or go" not in str(check)


def test_float32_is_warned_of_and_a_loose_solver_noted():
    """What limits the differences is said."""
    sim = double_pendulum(dtype="float32", solver=ws.SAP())
    with pytest.warns(UserWarning, match="float64"):
        check = ws.check_gradients(sim, horizons=(1,), entries=1, step_sizes=(1e-2, 1e-3), tolerance=1e-2)
    assert "solver stops at" in str(check)


def test_it_needs_requires_grad():
    """A simulator without gradients has none to check."""
    with pytest.raises(ValueError, match="requires_grad=True"):
        ws.check_gradients(double_pendulum(requires_grad=False))
