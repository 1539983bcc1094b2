# SPDX-License-Identifier: Apache-2.0
"""Spatial tendons, sites and adhesion in motion: exact solutions, gradients by differences, and what is refused."""

import pickle

import numpy as np
import pytest

import warpsim as ws
from scenes.bodies import GRAVITY
from scenes.tendons import drone, roped_arm, sucker, wound_tree

FINE = ws.SAP(tolerance=1e-13)


def hoist(masses=(1.0, 2.0), **tendon) -> ws.Model:
    """Two weights on vertical slides, hung over a beam 2 m above them by one rope."""
    b = ws.ModelBuilder("hoist", gravity=(0, 0, -GRAVITY), timestep=0.002)
    for k, mass in enumerate(masses):
        b.add_site(f"beam{k}", pose=[k, 0, 2])
        body = b.add_body(f"weight{k}", pose=[k, 0, 0], mass=mass, inertia=[0.01] * 3)
        b.add_joint(body, "slide", axis=(0, 0, 1), name=f"z{k}")
        b.add_site(f"hook{k}", body=body)
    b.add_tendon(path=["beam0", "hook0", ws.Pulley(1.0), "beam1", "hook1"], name="rope", **tendon)
    return b.build()


def run(model, steps, device, dt=None, controls=None, **options):
    sim = ws.Simulator(model, dt=dt, dtype="float64", device=device, **options)
    trajectory = sim.rollout(sim.state(), controls, steps=steps)
    assert not sim.diagnostics.flags.numpy().any()
    return trajectory.q.numpy()[:, 0], trajectory.v.numpy()[:, 0], sim


def test_a_taut_rope_makes_atwoods_machine(device, within):
    """Weights of 1 and 2 kg on a rope of the length that it has: (m1 − m0) g/(m0 + m1), and the rope stays 4 m long to 1e-5 m."""
    q, v, _ = run(hoist(range=(0.0, 4.0)), 250, device)
    expected = GRAVITY / 3 * 0.5
    within("Atwood's machine: speed after 0.5 s, relative", abs(v[-1, 0] / expected - 1), 1e-5)
    within("Atwood's machine: longer than its rope [m]", (4.0 - q.sum(1)).max() - 4.0, 1e-5)


def test_divisors_share_the_force(device):
    """A branch of divisor 2 pulls with half the force: weights of 1 and 0.5 kg on it balance."""
    b = ws.ModelBuilder("tackle", gravity=(0, 0, -GRAVITY), timestep=0.002)
    for k, mass in enumerate((1.0, 0.5)):
        b.add_site(f"beam{k}", pose=[k, 0, 2])
        body = b.add_body(f"weight{k}", pose=[k, 0, 0], mass=mass, inertia=[0.01] * 3)
        b.add_joint(body, "slide", axis=(0, 0, 1))
        b.add_site(f"hook{k}", body=body)
    b.add_tendon(path=["beam0", "hook0", ws.Pulley(2.0), "beam1", "hook1"], range=(0.0, 3.0))
    _, v, _ = run(b.build(), 500, device)
    assert np.abs(v).max() < 1e-5


def test_a_spring_with_slack_hangs_where_it_balances(device):
    """m g = k (L − L1) beyond the slack interval; within it nothing holds."""
    model = hoist((1.0, 1.0), stiffness=100.0, damping=30.0, reference=(3.9, 4.2))
    q, v, _ = run(model, 4000, device)
    assert (4.0 - q[-1].sum()) == pytest.approx(4.2 + GRAVITY / 100.0, abs=1e-6) and np.abs(v[-1]).max() < 1e-6
    q, _, _ = run(hoist((1.0, 1.0), stiffness=100.0, reference=(3.9, 4.2)), 50, device)
    assert q[-1].sum() == pytest.approx(-GRAVITY * 0.1 * 0.102, rel=1e-6)  # two free falls of 0.1 s


def test_dry_friction_of_a_rope_holds_and_slips(device):
    """A rope whose two ends carry alike slides only where the weight of one exceeds the friction."""
    _, held, _ = run(hoist((0.5, 0.5), friction=6.0), 300, device)
    assert np.abs(held[-1]).max() < 0.02
    _, slips, _ = run(hoist((0.5, 0.5), friction=4.0), 300, device)
    assert slips[-1, 0] == pytest.approx(-(GRAVITY - 8.0) * 0.6, rel=1e-3)


def test_a_fixed_and_a_spatial_tendon_are_coupled(device, within):
    """x − x_0 = 0.5 (L − L_0) between a slide and a rope, to 1e-6 m, while both move."""
    b = ws.ModelBuilder("coupled", gravity=(0, 0, -GRAVITY), timestep=0.002)
    for k in range(2):
        body = b.add_body(f"weight{k}", pose=[k, 0, 0], mass=1.0 - 0.8 * k, inertia=[0.01] * 3)
        b.add_joint(body, "slide", axis=(0, 0, 1), name=f"z{k}")
        b.add_site(f"hook{k}", body=body)
    b.add_site("beam", pose=[0.3, 0.4, 2])
    b.add_tendon({"z1": 1.0}, name="slide")
    b.add_tendon(path=["beam", "hook0"], name="rope")
    b.add_constraint("tendon", "slide", "rope", coefficients=(0, 0.5))
    q, v, _ = run(b.build(), 200, device)
    length = np.sqrt(0.25 + (2.0 - q[:, 0]) ** 2)
    assert np.abs(v[-1]).max() > 0.3
    within("coupled tendons: apart [m]", np.abs(q[:, 1] - 0.5 * (length - length[0])).max(), 1e-5)


# Adhesion ----------------------------------------------------------------------------------------------------------------


def lift(device, suck: float):
    """Height of the weight and of the cup after the cup was lifted by 0.1 m within a second."""
    sim = ws.Simulator(ws.load(sucker()), dtype="float64", device=device, solver=FINE)
    state = sim.state()
    for k in range(300):
        state = sim.step(state, [[0.1 * min(k / 200, 1.0), suck]])
    assert not sim.diagnostics.flags.numpy().any()
    return state.q.numpy()[0]


def test_a_sucker_holds_a_weight(device):
    """30 N hold a box of 1 kg, 6 N do not; it hangs where it was stuck, to a tenth of a millimetre."""
    held, dropped = lift(device, 1.0), lift(device, 0.2)
    assert held[3] - held[0] == pytest.approx(0.93, abs=1e-4) and held[0] > 0.09
    assert dropped[3] < -1.0


def test_adhesion_bears_on_the_law_of_contact(device):
    """At rest the contacts push with the suction less the weight."""
    sim = ws.Simulator(ws.load(sucker()), dtype="float64", device=device, solver=FINE)
    state = sim.state()
    for _ in range(400):
        state = sim.step(state, [[0.0, 1.0]])
    impulse = sim.last_contacts.impulse[0][: sim.last_contacts.count[0], 2].sum()
    assert impulse / sim.dt == pytest.approx(30.0 - GRAVITY, rel=1e-3)


def test_adhesion_does_not_push(device):
    """Parameters that would turn the suction into a push are refused by the actuator's name, as in the model."""
    model = ws.load(sucker())
    parameters = ws.Simulator(model, 2, device=device).parameters
    a = int(np.flatnonzero(model.actuator_body >= 0)[0])
    for name, value in (("actuator_gain", -1.0), ("control_range", -1.0), ("actuator_bias", -1.0)):
        values = parameters[name].numpy()
        values[1, a, 0] = value
        with pytest.raises(ValueError, match=f"actuator '{model.actuator_names[a]}' push"):
            parameters[name] = values


def test_gradients_of_adhesion(device, within):
    """q, v and both controls of a box that hangs from the cup, at 1, 10 and 40 steps."""
    sim = ws.Simulator(ws.load(sucker()), dtype="float64", device=device, solver=FINE, requires_grad=True)
    state = sim.state()
    for _ in range(100):
        state = sim.step(state, [[0.0, 1.0]])
    state = sim.state(state.q.numpy(), state.v.numpy())
    controls = np.tile([[[0.001, 0.8]]], (40, 1, 1))
    check = ws.check_gradients(sim, state, controls)
    assert check.ok, str(check)
    within("adhesion: gradients against differences, relative", check.worst(), 1e-5)


# Gradients ---------------------------------------------------------------------------------------------------------------

Q, V = [[0.2, 0.4, 0.1], [-0.3, 0.9, 0.3]], [[0.1, -0.2, 0.3], [1.0, 0.5, -0.4]]


@pytest.mark.parametrize(
    ("drive", "options"),
    [
        ("tendon motor", {}),
        ("tendon motor", {"rope": "limits"}),
        ("tendon servo", {"inside": True}),
        ("site motor", {"coupled": True}),
        ("site servo", {"rope": "free"}),
        ("crank", {"rope": "limits"}),
        ("muscle", {}),
    ],
)
def test_gradients_by_differences(device, within, drive, options):
    """A rope round a sphere and a cylinder, or through it, with every kind of row and drive: 1, 10 and 40 steps."""
    m = roped_arm(drive, **options)
    sim = ws.Simulator(ws.load(m), worlds=2, dtype="float64", device=device, solver=FINE, requires_grad=True)
    check = ws.check_gradients(sim, sim.state(Q, V), horizons=(1, 10, 40))
    assert check.ok, str(check)
    assert (sim._step.lines.choice.numpy() != 0).any()
    within(f"{drive} {options}: gradients against differences, relative", check.worst(), 1e-5)


@pytest.mark.parametrize("drive", ["tendon servo", "site motor"])
def test_linearize_is_the_tape_row_by_row(device, drive):
    """A and B of `linearize`, which goes the reverse way here, against central differences of steps."""
    sim = ws.Simulator(ws.load(roped_arm(drive)), dtype="float64", device=device, solver=FINE, requires_grad=True)
    q, v, u = np.array(Q[:1]), np.array(V[:1]), np.array([[0.3]])
    found = sim.linearize(sim.state(q, v), u)
    eps, A, B = 1e-6, np.zeros((6, 6)), np.zeros((6, 1))

    def end(q, v, u):
        state = sim.step(sim.state(q, v), u)
        return np.concatenate([state.q.numpy()[0], state.v.numpy()[0]])

    for k in range(6):
        dx = eps * np.eye(6)[k]
        A[:, k] = (end(q + dx[:3], v + dx[3:], u) - end(q - dx[:3], v - dx[3:], u)) / (2 * eps)
    B[:, 0] = (end(q, v, u + eps) - end(q, v, u - eps)) / (2 * eps)
    np.testing.assert_allclose(found.A.numpy()[0], A, atol=1e-6 * np.abs(A).max())
    np.testing.assert_allclose(found.B.numpy()[0], B, atol=1e-6 * max(np.abs(B).max(), 1e-3))


@pytest.mark.parametrize(
    ("integrator", "solver"),
    [
        (ws.ImplicitEuler(), FINE),
        (ws.Midpoint(), FINE),
        (ws.Variational(), FINE),
        (ws.SymplecticEuler(), ws.LCP()),
        (ws.SymplecticEuler(), ws.Compliant(tolerance=1e-13)),
    ],
)
def test_every_scheme_and_solver_pulls(device, integrator, solver):
    """The motor of a rope and its spring, over 20 ms: all agree with symplectic Euler to the first order, and have gradients."""
    model = ws.load(roped_arm("tendon motor"))
    ends = []
    for scheme, law in ((ws.SymplecticEuler(), FINE), (integrator, solver)):
        sim = ws.Simulator(model, dt=5e-4, dtype="float64", device=device, integrator=scheme, solver=law)
        ends.append(sim.rollout(sim.state(Q[0], V[0]), np.full((40, 1, 1), 3.0)).v.numpy()[-1, 0])
    assert np.abs(ends[1] - ends[0]).max() < 0.02 * np.abs(ends[0] - V[0]).max()


# Worlds, copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_bad_world_changes_no_other_bit(device, dtype):
    """Three worlds, the middle one with a NaN: the others as alone, bit by bit, with two threads as well."""
    model = ws.load(roped_arm("site servo", rope="limits"))
    q, v = np.array([Q[0], Q[1], Q[0]]), np.array([V[0], V[1], V[1]])
    alone = []
    for k in (0, 2):
        sim = ws.Simulator(model, dtype=dtype, device=device)
        alone.append(sim.rollout(sim.state(q[k], v[k]), np.full((30, 1, 1), 0.4)).q.numpy()[-1, 0])
    for threads in (1, 2):
        sim = ws.Simulator(model, worlds=3, dtype=dtype, device=device, threads=threads if device == "cpu" else None)
        controls = np.full((30, 3, 1), 0.4)
        controls[10, 1] = np.nan
        end = sim.rollout(sim.state(q, v), controls).q.numpy()[-1]
        assert list(sim.diagnostics.flags.numpy()) == [0, int(ws.NONFINITE), 0]
        assert (end[0] == alone[0]).all() and (end[2] == alone[1]).all()


def accelerations(model, device):
    """(v' − v)/h of one step of a model at its start, all controls 0.5."""
    sim = ws.Simulator(model, dtype="float64", device=device, solver=ws.NoContact())
    return (sim.step(sim.state(), np.full((1, model.nu), 0.5)).v.numpy() / sim.dt)[0]


def test_copies_are_the_same_model(device, tmp_path):
    """Pickled, added to another builder, kept in a store and in a USD stage: the same accelerations."""
    model = ws.load(wound_tree(2, actuators=True))
    expected = accelerations(model, device)
    b = ws.ModelBuilder("copy", timestep=model.timestep)
    b.friction_rule, b.gravity = model.friction_rule, model.gravity
    b.add_model(model, prefix="copied_")
    copies = {"pickle": pickle.loads(pickle.dumps(model)), "add_model": b.build()}
    sim = ws.Simulator(model, dtype="float64", device=device)
    sim.rollout(sim.state(), np.zeros((1, 1, model.nu))).save(tmp_path / "run.zarr")
    copies["store"] = ws.Trajectory.load(tmp_path / "run.zarr").model
    model.to_usd(tmp_path / "model.usda")
    copies["usd"] = ws.load(tmp_path / "model.usda")
    for name, copy in copies.items():
        bar = 1e-4 if name == "usd" else 1e-12
        np.testing.assert_allclose(accelerations(copy, device), expected, rtol=bar, atol=bar, err_msg=name)


# Mistakes ------------------------------------------------------------------------------------------------------------------


def builder() -> ws.ModelBuilder:
    b = ws.ModelBuilder("bad")
    body = b.add_body("body", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "hinge", name="hinge")
    for name in ("a", "b", "c"):
        b.add_site(name, body=body)
    b.add_site("far")
    b.add_geom("sphere", [0.1], body=body, name="ball")
    b.add_geom("box", [0.1, 0.1, 0.1], body=body, name="box")
    return b


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ([], "0 sites"),
        (["a"], "1 sites"),
        (["a", ("box", None), "b"], "a box; only spheres and cylinders"),
        (["a", ("ball", "far"), "b"], "side site 'far' is not on the body of geom 'ball'"),
        (["a", ("ball", None)], "1 sites"),
        (["a", "b", ("ball", None)], "must stand between two sites"),
        (["a", ("ball", None), ("ball", None), "b"], "must stand between two sites"),
        (["a", ws.Pulley(2.0), "b"], "needs two sites at least"),
        (["a", "b", ws.Pulley(2.0)], "needs two sites at least"),
        (["a", "b", ws.Pulley(2.0), ws.Pulley(2.0), "a", "b"], "must come after a site"),
        (["a", "b", ws.Pulley(0.0), "a", "b"], "divisor must be positive"),
        (["a", "missing"], "no site 'missing'"),
        (["a", ("missing", None), "b"], "no geom 'missing'"),
        ("ab", "give a list of sites"),
    ],
)
def test_paths_that_are_none(path, why):
    with pytest.raises(ws.ModelError, match=why):
        builder().add_tendon(path=path)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "give one of joint, tendon, site, crank, body"),
        ({"site": "a", "joint": "hinge"}, "give one of"),
        ({"site": "a", "gear": [1.0, 2.0]}, "give 6 finite values"),
        ({"site": "missing", "gear": [1.0] * 6}, "no site 'missing'"),
        ({"joint": "hinge", "reference_site": "a"}, "reference_site means nothing"),
        ({"crank": ("a", "b")}, "length of the rod"),
        ({"crank": ("a", "b", 0.0)}, "positive and finite"),
        ({"body": "world", "control_range": (0, 1)}, "the world cannot stick"),
        ({"body": "body"}, "give a control_range from 0 on"),
        ({"body": "body", "control_range": (0, 1), "kind": "position", "kp": 1.0}, "have no length"),
        ({"body": "body", "control_range": (0, 1), "gear": 2.0}, "means nothing for contacts that stick"),
    ],
)
def test_targets_that_are_none(arguments, why):
    with pytest.raises(ws.ModelError, match=why):
        builder().add_actuator(**arguments)


def test_a_spring_needs_the_length_where_it_rests():
    with pytest.raises(ws.ModelError, match="give the length"):
        builder().add_tendon(path=["a", "far"], stiffness=1.0)
    with pytest.raises(ws.ModelError, match="joints or a path"):
        builder().add_tendon()


def test_what_a_simulator_refuses():
    """Adhesion with an implicit scheme; feedback given to a motor without a row; an effort limit of a joint that a rope moves."""
    with pytest.raises(ValueError, match="sticks contacts of a body"):
        ws.Simulator(ws.load(sucker()), integrator=ws.ImplicitEuler())
    sim = ws.Simulator(ws.load(drone()), device="cpu")
    with pytest.raises(ValueError, match="has no feedback"):
        sim.parameters["actuator_bias"] = np.full((4, 3), -1.0)
    b = builder()
    b.add_tendon(path=["a", "far"], name="rope")
    b.add_actuator(tendon="rope", name="winch")
    b.add_effort_limit("hinge", (-1.0, 1.0))
    with pytest.raises(ws.ModelError, match="'winch' on a spatial tendon"):
        ws.Simulator(b.build(), device="cpu")
