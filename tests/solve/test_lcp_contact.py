# SPDX-License-Identifier: Apache-2.0
"""Rigid contact by a boxed LCP: recorded steps of an independent engine, Newton's and Coulomb's laws, warm starts."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.examples import clutter, stack
from scenes.rigid import GAITS, REFERENCE, SCENES, gait, spheres


@pytest.mark.parametrize("name", SCENES)
def test_recorded_velocities(device, name):
    """One step of rigid contact: sliding, sticking, bouncing, pushing. 1e-9."""
    builder, force = SCENES[name]
    data = {key: REFERENCE[f"{name}/{key}"] for key in ("q", "qd", "qd_next")}
    options = {"dtype": "float64", "device": device, "time_of_impact": False}
    sim = ws.Simulator(builder.build(), solver=ws.LCP(), **options)
    state = sim.step(sim.state(q=data["q"], v=data["qd"]), tau=np.array([force], float))
    np.testing.assert_allclose(state.v.numpy()[0], data["qd_next"], atol=1e-9)
    assert sim.diagnostics.flags.numpy()[0] == 0


def ball(height: float, restitution: float, mu: float = 0.5) -> ws.Model:
    b = ws.ModelBuilder("ball", timestep=1e-3)
    b.add_geom("plane", friction=mu, restitution=restitution)
    body = b.add_body("ball", pose=[0, 0, height])
    b.add_joint(body, "free")
    b.add_geom("sphere", [0.05], body=body, friction=mu)
    return b.build()


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9])
def test_newtons_law_of_impact(device, restitution):
    """A ball dropped from 1 m leaves with e times the speed it came with, and rises to e² of its height (1 %)."""
    options = {"dtype": "float64", "device": device, "time_of_impact": False}
    sim = ws.Simulator(ball(1.05, restitution), solver=ws.LCP(), **options)
    path = sim.rollout(sim.state(), steps=900)
    speed = path.v.numpy()[:, 0, 2]
    bounce = int(np.argmax(speed >= 0)) if restitution else int(np.argmin(speed)) + 1
    bounce = max(bounce, int(np.argmin(speed)) + 1)
    if restitution == 0.0:  # one step to the floor, the next one stops there
        bounce += 1
    assert speed[bounce] == pytest.approx(-restitution * speed[bounce - 1], abs=0.02)
    apex = path.q.numpy()[bounce:, 0, 2].max() - 0.05
    assert apex == pytest.approx(restitution**2, abs=0.01)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("integrator", [ws.SymplecticEuler(), ws.ImplicitEuler()], ids=["symplectic", "implicit"])
def test_bodies_without_restitution_meet_before_they_stop(device, dtype, integrator):
    """A ball at 50 m/s, 0.5 m per step, is stopped by a wall where it touches it, and not where the step before found it."""
    b = ws.ModelBuilder("wall", timestep=0.01, gravity=[0, 0, 0])
    b.add_geom("box", [0.05, 1, 1], pose=[2.0, 0, 0, 1, 0, 0, 0])
    body = b.add_body("ball")
    b.add_joint(body, "free")
    b.add_geom("sphere", [0.05], body=body)
    sim = ws.Simulator(b.build(), dtype=dtype, device=device, solver=ws.LCP(), integrator=integrator)
    state = sim.state(v=[50.0, 0, 0, 0, 0, 0])
    for _ in range(6):
        state = sim.step(state)
    assert state.q.numpy()[0, 0] == pytest.approx(1.9, abs=1e-5)
    assert abs(state.v.numpy()[0, 0]) < 1e-3


def test_sliding_turns_into_rolling_exactly(device):
    """No compliance, no regularisation: 5/7 of the start and v = ω r to 1e-6, on the floor all the time."""
    sim = ws.Simulator(ball(0.05, 0.0, mu=0.2), dtype="float64", device=device, solver=ws.LCP())
    path = sim.rollout(sim.state(v=[1, 0, 0, 0, 0, 0]), steps=300)
    v = path.v.numpy()[-1, 0]
    assert v[0] == pytest.approx(5 / 7, abs=1e-3)
    assert v[4] * 0.05 == pytest.approx(v[0], abs=1e-6)
    assert np.abs(path.q.numpy()[:, 0, 2] - 0.05).max() < 1e-9


def test_an_overlap_is_taken_back_only_on_request(device):
    """error_reduction = 0 leaves 1 cm of overlap as it is; 0.2 takes a fifth of it back per step, by 0.2 m/s at most."""
    for reduction, speed, expected in ((0.0, None, 0.04), (0.2, None, 0.042), (0.2, 0.2, 0.0402)):
        model, solver = ball(0.04, 0.0), ws.LCP(error_reduction=reduction)
        sim = ws.Simulator(model, dtype="float64", device=device, solver=solver, recovery_speed=speed)
        assert sim.step(sim.state()).q.numpy()[0, 2] == pytest.approx(expected, abs=1e-9)


def test_rest_is_warm_started(device):
    """Spheres that have settled on an open floor (walls they may touch without a force, a tie of two classes): from step to
    step the classes stay, and the LCP solver is skipped in 95 % of steps."""
    sim = ws.Simulator(
        clutter(8, walls=False, shapes="spheres"), dtype="float64", device=device, solver=ws.LCP(error_reduction=0.2)
    )
    state = sim.rollout(sim.state(), steps=150, every=150).final
    hits = []
    for _ in range(100):
        state = sim.step(state, out=state)
        hits.append(int(sim.warm_start_hits.numpy()[0]))
    assert np.mean(hits) >= 0.95
    assert state.memory["flags"].numpy()[0] == 0


def hit_rate(sim: ws.Simulator, state: ws.State, controls) -> float:
    """Part of the steps with contact whose LCP the first guess of the classes solved; no step is flagged."""
    hits = []
    for control in controls:
        state = sim.step(state, control, out=state)
        if sim.diagnostics.contacts.numpy()[0] > 0:
            hits.append(int(sim.warm_start_hits.numpy()[0]))
    assert len(hits) > 50 and sim.diagnostics.flags.numpy()[0] == 0
    return float(np.mean(hits))


@pytest.mark.parametrize("robot", list(GAITS))
def test_walking_is_warm_started(device, assets, robot):
    """A trotting ant and a galloping half-cheetah, 6 s: they get on by more than 1 m, with 95 % of the guesses right."""
    h, steps = 0.01, 600
    sim = ws.Simulator(ws.load(assets(robot)), dt=h, dtype="float64", device=device, solver=ws.LCP())
    state = sim.rollout(sim.state(), gait(robot, steps, h)[:50], every=50).final
    start = state.q.numpy()[0, 0]
    assert hit_rate(sim, state, gait(robot, steps, h)[50:]) >= 0.95
    assert abs(state.q.numpy()[0, 0] - start) > 1.0


@pytest.mark.parametrize("poke", [0.0, 0.2])
def test_a_column_of_spheres_is_warm_started(device, poke):
    """Ten spheres on each other stand; with the top one pushed they fall. 95 % of the guesses are right."""
    sim = ws.Simulator(spheres(10), dtype="float64", device=device, solver=ws.LCP())
    v = np.zeros(60)
    v[54] = poke
    state = sim.state(v=v)
    assert hit_rate(sim, state, [None] * 300) >= 0.95
    assert (state.q.numpy()[0, 2::7].max() > 0.9) == (poke == 0.0)


PILES = {"stack": lambda: stack(10), "walls": lambda: clutter(20), "open": lambda: clutter(20, walls=False)}


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-10), ("float32", 1e-4)])
@pytest.mark.parametrize("pile", PILES)
def test_piles_are_solved_to_the_tolerance(device, pile, dtype, tolerance):
    """Ten boxes standing, 20 bodies falling into a heap: redundant contacts, 2 s without a flag but UNRESOLVED, because bodies
    of 5 cm meet at more than 2.5 m/s in steps of 10 ms."""
    model = PILES[pile]()
    sim = ws.Simulator(model, dtype=dtype, device=device, solver=ws.LCP())
    trajectory = sim.rollout(sim.state(), steps=round(2.0 / sim.dt))
    d = {name: x.numpy() for name, x in trajectory.diagnostics.items()}
    assert d["contacts"].max() >= 30 and not (d["flags"] & ~ws.UNRESOLVED).any()
    assert d["momentum_error"].max() <= tolerance
    if pile == "stack":  # it stands; contacts found a step late leave overlaps of g h² = 0.25 mm
        assert trajectory.q.numpy()[-1, 0, 2::7].max() == pytest.approx(0.95, abs=5e-3)


def test_nothing_in_contact_is_free_motion(device):
    """A world in the air beside one on the floor: no factorisation, no residual, the velocity of free fall."""
    sim = ws.Simulator(ball(0.05, 0.0), worlds=2, dtype="float64", device=device, solver=ws.LCP())
    q = np.tile([0, 0, 0.05, 1, 0, 0, 0], (2, 1)).astype(float)
    q[0, 2] = 1.0
    state = sim.step(sim.state(q=q))
    np.testing.assert_allclose(state.v.numpy()[:, 2], [-9.81e-3, 0.0], atol=1e-12)
    d = sim.diagnostics
    assert d.iterations.numpy()[0] == 0 and d.momentum_error.numpy()[0] == 0.0 and d.contacts.numpy()[0] == 0
    assert not d.flags.numpy().any()


def test_a_light_body_carries_a_heavy_one(device):
    """A 1 g sphere between the floor and one of 1 t: once they touch, nothing sinks: less than 1e-9 m in half a second."""
    b = ws.ModelBuilder("load", timestep=0.005)
    b.add_geom("plane")
    for i, mass in enumerate((1e-3, 1e3)):
        body = b.add_body(f"sphere_{i}", pose=[0, 0, 0.05 + 0.1 * i], mass=mass, inertia=[1e-3 * mass] * 3)
        b.add_joint(body, "slide", axis=[0, 0, 1])
        b.add_geom("sphere", [0.05], body=body, density=0.0)
    sim = ws.Simulator(b.build(), dtype="float64", device=device, solver=ws.LCP())
    q = sim.rollout(sim.state(), steps=100).q.numpy()[:, 0]  # in the first step both fall alike, without a contact
    assert np.abs(q[2:] - q[2]).max() < 1e-9 and sim.diagnostics.flags.numpy()[0] == 0


def test_a_world_without_a_solution_is_flagged_alone(device):
    """A ball too large for the gap between floor and ceiling, which both push it out: flagged with its residual; a NaN in
    another world is flagged too; the worlds beside them step to the bits that they have alone."""
    b = ws.ModelBuilder("gap", timestep=0.005)
    b.add_geom("plane")
    b.add_geom("plane", pose=[0, 0, 0.1, 0, 1, 0, 0])
    body = b.add_body("ball", pose=[0, 0, 0.05], mass=1.0, inertia=[1e-3] * 3)
    b.add_joint(body, "slide", axis=[0, 0, 1])
    b.add_geom("sphere", [0.04], body=body, density=0.0)
    b.add_actuator(0)
    model, solver = b.build(), ws.LCP(error_reduction=0.2)
    sim = ws.Simulator(model, worlds=4, dtype="float64", device=device, solver=solver)
    sizes = sim.parameters["geom_size"].numpy()
    sizes[1, 2, 0] = 0.06
    sim.parameters["geom_size"].assign(sizes)
    control = wp.array([[0.0], [0.0], [np.nan], [0.0]], dtype=wp.float64, device=device)
    state = sim.state()
    for _ in range(20):
        state = sim.step(state, control, out=state)
    flags, residual = sim.diagnostics.flags.numpy(), sim.diagnostics.momentum_error.numpy()
    assert flags[1] & ws.NOT_CONVERGED and residual[1] > 0.1 and np.isfinite(state.q.numpy()).all()
    assert flags[2] & ws.NONFINITE and flags[0] == flags[3] == 0
    alone = ws.Simulator(model, dtype="float64", device=device, solver=solver)
    end = alone.rollout(alone.state(), np.zeros((20, 1, 1)), every=20).final
    for w in (0, 3):
        np.testing.assert_array_equal(state.q.numpy()[w], end.q.numpy()[0])
        np.testing.assert_array_equal(state.v.numpy()[w], end.v.numpy()[0])


def test_worlds_and_resumption_do_not_change_bits(device):
    """World i of many is the world alone; a state resumed from its memory steps to the same bits."""
    v = np.zeros((4, 6))
    v[:, 0], v[:, 4] = [0.5, 1.0, -2.0, 0.0], [0.0, 3.0, 1.0, -4.0]
    many = ws.Simulator(ball(0.05, 0.3), worlds=4, device=device, solver=ws.LCP())
    middle = many.rollout(many.state(v=v), steps=20, every=20).final
    end = many.rollout(middle, steps=20, every=20).final.q.numpy()
    one = ws.Simulator(ball(0.05, 0.3), device=device, solver=ws.LCP())
    for w in range(4):
        resumed = one.rollout(middle[w], steps=20, every=20).final.q.numpy()[0]
        np.testing.assert_array_equal(resumed, end[w])


def test_joint_limits_and_constraints_are_part_of_it(device):
    """A pendulum falls on its stop and stays there; a weld to the world holds a free box."""
    b = ws.ModelBuilder("limits", timestep=1e-3)
    arm = b.add_body("arm", mass=1, inertia=[0.01] * 3, com=[0.5, 0, 0])
    b.add_joint(arm, "hinge", axis=[0, 1, 0], range=[-0.3, 0.3])
    box = b.add_body("box", pose=[3, 0, 1], mass=2, inertia=[0.1] * 3)
    b.add_joint(box, "free")
    b.add_constraint("weld", "box", "world")
    sim = ws.Simulator(b.build(), dtype="float64", device=device, solver=ws.LCP())
    state = sim.rollout(sim.state(), steps=1000, every=1000).final
    q = state.q.numpy()[0]
    assert q[0] == pytest.approx(0.3, abs=1e-6)
    np.testing.assert_allclose(q[1:4], [3, 0, 1], atol=1e-6)
    assert np.abs(state.v.numpy()).max() < 1e-6


@pytest.mark.parametrize(
    ("option", "word"),
    [({"tolerance": 0.0}, "tolerance"), ({"error_reduction": 2.0}, "error_reduction"), ({"restitution_threshold": -1.0}, "restitution_threshold")],
)  # fmt: skip
def test_bad_options_are_refused(option, word):
    """The message names the option."""
    with pytest.raises(ValueError, match=word):
        ws.LCP(**option)
