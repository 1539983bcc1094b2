# SPDX-License-Identifier: Apache-2.0
"""UNRESOLVED: what a step did not resolve of the motion of a listed pair is flagged, and what contact stops is not."""

import dataclasses

import numpy as np
import pytest

import warpsim as ws
from warpsim.tools.demo import CONTROL, DT, NOISE
from warpsim.tools.runs import perturbed_start, smooth_controls

BOTH = pytest.mark.parametrize("dtype", ["float32", "float64"])


def builder(timestep: float = 0.01) -> ws.ModelBuilder:
    return ws.ModelBuilder("fast", timestep=timestep, gravity=[0, 0, 0])


def free_geom(b: ws.ModelBuilder, name: str, kind: str, size, position) -> None:
    body = b.add_body(name, pose=[*position, 1, 0, 0, 0])
    b.add_joint(body, "free")
    b.add_geom(kind, size, body=body)


def wall_and_ball(half: float = 0.02, radius: float = 0.01) -> ws.Model:
    b = builder()
    b.add_geom("box", [half, 1, 1], pose=[2.0 + half, 0, 0, 1, 0, 0, 0])
    free_geom(b, "ball", "sphere", [radius], [0, 0, 0])
    return b.build()


def flags_after(model: ws.Model, v, steps: int = 1, **settings) -> np.ndarray:
    """The flags of one world after so many steps from velocity v."""
    sim = ws.Simulator(model, **settings)
    return sim.rollout(sim.state(v=v), steps=steps).final.memory["flags"].numpy()[0]


@BOTH
@pytest.mark.parametrize("solver", [ws.SAP(), ws.LCP(), ws.Compliant()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("speed", [1000.0, 300.0])
def test_a_fast_ball_at_a_thin_wall(device, dtype, solver, speed):
    """A ball of 1 cm at 1,000 m/s passes a wall of 4 cm with SAP; with every solver the world says that it could."""
    model = wall_and_ball()
    assert flags_after(model, [speed, 0, 0, 0, 0, 0], 1, dtype=dtype, device=device, solver=solver) & ws.UNRESOLVED


@BOTH
def test_the_definition_by_its_border(device, dtype):
    """Within a step of 10 ms a ball of 4 cm and a wall of 6 cm may approach by both together, 10 m/s, where contact stops them."""
    for v, expected in ((9.9, 0), (10.1, ws.UNRESOLVED)):
        b = builder()
        b.add_geom("box", [0.03, 1, 1], pose=[0.1, 0, 0, 1, 0, 0, 0])
        free_geom(b, "ball", "sphere", [0.02], [0.1 - 0.03 - 0.02 - 0.002, 0, 0])
        assert flags_after(b.build(), [v, 0, 0, 0, 0, 0], 1, dtype=dtype, device=device) == expected
    # Where the sweeps do not meet there is nothing to resolve: too far away, or flying along the wall at a distance.
    assert flags_after(wall_and_ball(), [150.0, 0, 0, 0, 0, 0], 1, dtype=dtype, device=device) == 0
    b = builder()
    b.add_geom("box", [0.03, 5, 5], pose=[0.2, 0, 0, 1, 0, 0, 0])
    free_geom(b, "ball", "sphere", [0.02], [0, 0, 0])
    assert flags_after(b.build(), [0, 100.0, 0, 0, 0, 0], 1, dtype=dtype, device=device) == 0


SIZES = {
    "sphere": [0.03],
    "capsule": [0.03, 0.1],
    "box": [0.03, 0.1, 0.1],
    "cylinder": [0.03, 0.1],
    "ellipsoid": [0.03, 0.1, 0.1],
}


@BOTH
@pytest.mark.parametrize("solver", [ws.SAP(), ws.LCP(), ws.Compliant()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", SIZES)
def test_what_contact_stops_is_resolved(device, dtype, solver, kind):
    """Two moving bodies, 6 cm thin, that meet at 6 m/s, their own thickness in a step of 10 ms: the step stops them, fused or verb by verb."""
    b = builder()
    for name, x in (("left", -0.05), ("right", 0.05)):
        free_geom(b, name, kind, SIZES[kind], [x, 0, 0])
    sim = ws.Simulator(b.build(), dtype=dtype, device=device, solver=solver)
    for given in ({}, {"wrench": np.zeros((1, 2, 6))}):
        state = sim.state(v=[3, 0, 0, 0, 0, 0, -3, 0, 0, 0, 0, 0])
        for _ in range(3):
            state = sim.step(state, **given)
        assert not sim.diagnostics.flags.numpy().any() and sim.contacts(state).phi.min(initial=0.0) > -0.001


@BOTH
@pytest.mark.parametrize("integrator", [ws.SymplecticEuler(), ws.Variational()], ids=lambda i: type(i).__name__)
def test_what_contact_does_not_stop_is_found_in_the_same_step(device, dtype, integrator):
    """Balls of foam that end a step deeper than their radius, after less than their own size."""
    for stiffness, expected in ((1.0, ws.UNRESOLVED), (np.inf, 0)):
        b = builder()
        for name, x in (("left", -0.015), ("right", 0.015)):
            body = b.add_body(name, pose=[x, 0, 0, 1, 0, 0, 0])
            b.add_joint(body, "free")
            b.add_geom("sphere", [0.01], body=body, stiffness=stiffness)
        options = {"dtype": dtype, "device": device, "integrator": integrator}
        v = [1.5, 0, 0, 0, 0, 0, -1.5, 0, 0, 0, 0, 0]
        assert flags_after(b.build(), v, 1, **options) == expected


def test_explicit_euler_moves_with_the_old_velocity(device):
    """Its positions move by v0, which contact does not change: the ball is in the wall after the step."""
    b = builder()
    b.add_geom("box", [0.02, 1, 1], pose=[0.04, 0, 0, 1, 0, 0, 0])
    free_geom(b, "ball", "sphere", [0.01], [0, 0, 0])
    for integrator, expected in ((ws.ExplicitEuler(), ws.UNRESOLVED), (ws.SymplecticEuler(), 0)):
        assert (
            flags_after(b.build(), [3, 0, 0, 0, 0, 0], dtype="float64", device=device, integrator=integrator)
            == expected
        )


def test_a_pair_without_a_slot_is_not_resolved(device):
    """Contacts beyond `max_contacts` act on nobody: fast ones among them are flagged at once."""
    b = builder()
    b.add_geom("box", [0.02, 1, 1], pose=[0.05, 0, 0, 1, 0, 0, 0])
    for i in range(2):
        free_geom(b, f"ball {i}", "sphere", [0.01], [0, 0.1 * i, 0])
    model, v = b.build(), [3, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0]
    assert flags_after(model, v, dtype="float64", device=device) == 0
    assert flags_after(model, v, dtype="float64", device=device, max_contacts=1) == ws.UNRESOLVED | ws.CONTACT_OVERFLOW


def test_the_demo_raises_none(device, assets):
    """Limbs strike each other at several m/s, steps of 10 ms, and are stopped: no flag in 4,000 world-steps."""
    model = ws.load(assets("humanoid"))
    sim = ws.Simulator(model, 40, dt=DT, device=device)
    controls = np.asarray(smooth_controls(model, 256, 300, DT, amplitude=CONTROL))[:100, :40]
    state = sim.state(*(x[:40] for x in perturbed_start(model, 256, NOISE)))
    final = sim.rollout(state, np.ascontiguousarray(controls, np.float32), every=100).final
    np.testing.assert_array_equal(final.memory["flags"].numpy(), 0)


@pytest.mark.parametrize("substeps", [1, 4])
def test_the_message_names_pair_and_speed(device, tmp_path, substeps):
    """The warning of `on_fault` says which geoms, how fast and which step would do; so does the replay."""
    b = builder()
    b.add_geom("box", [0.02, 1, 1], pose=[2.02, 0, 0, 1, 0, 0, 0], name="wall")
    body = b.add_body("ball")
    b.add_joint(body, "free")
    b.add_geom("sphere", [0.01], body=body, name="shot")
    sim = ws.Simulator(b.build(), worlds=2, dtype="float64", device=device, on_fault=tmp_path)
    v = np.zeros((2, 6))
    v[1, 0] = 1000.0
    expected = (
        f"'shot' and 'wall' meet at 1000 m/s, {10 / substeps:g} m in a step of {0.01 / substeps:g} s; one of 5e-06 s"
    )
    with pytest.warns(UserWarning, match=f"world 1 raised UNRESOLVED.*{expected}"):
        sim.step(sim.state(v=v), substeps=substeps)
    fault = ws.load_fault(next(tmp_path.iterdir()), device=device)
    rows, same = fault.replay(1)
    assert same and expected in rows[0]["unresolved"]
    assert not dataclasses.replace(fault, raised=ws.NONFINITE).unresolved_pair()  # another flag names no pair


@BOTH
def test_small_bodies_against_each_other(device, dtype):
    """Two balls of 1 cm that meet at 40 m/s, thin planks that cross, and a rod that a spinning plank strikes."""
    b = builder()
    free_geom(b, "left", "sphere", [0.01], [-0.15, 0, 0])
    free_geom(b, "right", "sphere", [0.01], [0.15, 0, 0])
    assert flags_after(b.build(), [20, 0, 0, 0, 0, 0, -20, 0, 0, 0, 0, 0], dtype=dtype, device=device) == ws.UNRESOLVED
    assert flags_after(b.build(), [20, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0], dtype=dtype, device=device) == 0
    b = builder()
    free_geom(b, "low", "box", [0.3, 0.3, 0.005], [0, 0, 0])
    free_geom(b, "high", "box", [0.3, 0.3, 0.005], [0.1, 0, 0.1])
    assert flags_after(b.build(), [0, 0, 10, 0, 0, 0, 0, 0, -10, 0, 0, 0], dtype=dtype, device=device) == ws.UNRESOLVED
    assert flags_after(b.build(), [0, 0, 10, 0, 0, 0, 0, 0, 10, 0, 0, 0], dtype=dtype, device=device) == 0
    b = builder()
    free_geom(b, "plank", "box", [0.5, 0.05, 0.005], [0, 0, 0])
    free_geom(b, "rod", "capsule", [0.01, 0.05], [0.45, 0, 0.02])
    assert flags_after(b.build(), [0, 0, 0, 0, -20, 0, *[0] * 6], dtype=dtype, device=device) == ws.UNRESOLVED


def test_a_convex_pair_and_a_height_field(device):
    """Cylinders, ellipsoids and height fields count, too."""
    for kind, size in (("cylinder", [0.02, 0.1]), ("ellipsoid", [0.02, 0.05, 0.1])):
        b = builder()
        b.add_geom("box", [0.02, 1, 1], pose=[2.02, 0, 0, 1, 0, 0, 0])
        free_geom(b, "body", kind, size, [0, 0, 0])
        assert flags_after(b.build(), [300, 0, 0, 0, 0, 0], dtype="float64", device=device) == ws.UNRESOLVED
        assert flags_after(b.build(), [0.5, 0, 0, 0, 0, 0], dtype="float64", device=device) == 0
    b = builder()
    b.add_geom("hfield", hfield=([1, 1, 0.1, 0.05], np.zeros((4, 4))))
    free_geom(b, "ball", "sphere", [0.02], [0, 0, 0.5])
    assert flags_after(b.build(), [0, 0, -100, 0, 0, 0], dtype="float64", device=device) == ws.UNRESOLVED


@BOTH
def test_geoms_that_part(device, dtype):
    """They have come through each other only where a step is as long as half of both: bumps of 1 cm and 3 cm that overlap part at up to 2 m/s.

    Where they touch and overlap no more, as limbs that brush past each other, up to where their middles met: 4 m/s.
    """
    for v, expected in ((1.99, 0), (2.02, ws.UNRESOLVED)):
        b = builder()
        b.add_geom("box", [0.03, 1, 1], pose=[0.1, 0, 0, 1, 0, 0, 0])
        free_geom(b, "ball", "sphere", [0.01], [0.1 - 0.03 - 0.01 + 0.002, 0, 0])
        assert flags_after(b.build(), [-v, 0, 0, 0, 0, 0], 1, dtype=dtype, device=device) == expected
    for v, expected in ((3.99, 0), (4.05, ws.UNRESOLVED)):
        b = builder()
        b.add_geom("box", [0.03, 1, 1], pose=[0.1, 0, 0, 1, 0, 0, 0])
        free_geom(b, "ball", "sphere", [0.01], [0.1 - 0.03 - 0.01 - 0.0001, 0, 0])
        assert flags_after(b.build(), [-v, 0, 0, 0, 0, 0], 1, dtype=dtype, device=device) == expected


def test_a_plane_resolves_every_motion(device):
    """The distance to a plane is signed at every depth: a ball of 1 cm at 1,000 m/s is not lost, and not flagged."""
    b = builder()
    b.add_geom("plane")
    free_geom(b, "ball", "sphere", [0.01], [0, 0, 3.0])
    sim = ws.Simulator(b.build(), dtype="float64", device=device, solver=ws.LCP())
    path = sim.rollout(sim.state(v=[0, 0, -1000, 0, 0, 0]), steps=4)
    assert not path.final.memory["flags"].numpy().any()
    np.testing.assert_allclose(path.q.numpy()[-1, 0, 2], 0.01, atol=1e-9)


def test_spin_that_moves_no_surface_is_resolved(device):
    """A ball that spins on a box, and a wheel about its axle, stay where they are at any speed."""
    b = builder()
    b.add_geom("box", [1, 1, 0.1], pose=[0, 0, -0.1, 1, 0, 0, 0], friction=0.0)
    free_geom(b, "ball", "sphere", [0.05], [0.5, 0, 0.051])
    wheel = b.add_body("wheel", pose=[0, 0, 0.101, 0.5**0.5, 0.5**0.5, 0, 0])
    b.add_joint(wheel, "hinge", axis=[0, 0, 1])
    b.add_geom("cylinder", [0.1, 0.02], body=wheel, friction=0.0)
    assert flags_after(b.build(), [0, 0, 0, 0, 0, 300, 300], dtype="float64", device=device) == 0


def test_a_body_that_a_force_shoots_through_a_wall_is_found_a_step_later(device):
    """At rest before, beyond the wall after: the sweep looks one step back."""
    sim = ws.Simulator(wall_and_ball(), dtype="float64", device=device)
    state = sim.state()
    mass = sim.model.body_mass[0]
    state = sim.step(state, tau=[[mass * 1e5, 0, 0, 0, 0, 0]])
    assert state.q.numpy()[0, 0] > 2.1
    state = sim.step(state)
    assert state.memory["flags"].numpy()[0] == ws.UNRESOLVED


def test_worlds_and_the_broad_phase_agree(device):
    """The same flags from the grid as from the list of pairs, world by world, and sticky until reset."""
    b = builder()
    b.add_geom("box", [0.02, 1, 1], pose=[2.02, 0, 0, 1, 0, 0, 0])
    for i in range(6):
        free_geom(b, f"ball {i}", "sphere", [0.01], [0, 0.1 * i, 0])
    model = b.build()
    v = np.zeros((3, model.nv))
    v[1, 12] = 1000.0
    expected = [0, ws.UNRESOLVED, 0]
    for largest in (None, 0):
        with pytest.MonkeyPatch.context() as patch:
            if largest is not None:
                patch.setattr("warpsim.contact.collision.LARGEST_LIST", largest)
            sim = ws.Simulator(model, worlds=3, dtype="float64", device=device)
        assert (sim._step.collision.broadphase is not None) == (largest == 0)
        state = sim.step(sim.step(sim.state(v=v)))
        np.testing.assert_array_equal(state.memory["flags"].numpy(), expected)
    sim.reset(state, [1])
    np.testing.assert_array_equal(sim.step(state).memory["flags"].numpy(), 0)


@BOTH
@pytest.mark.parametrize("robot", ["ant", "humanoid", "half_cheetah"])
def test_random_motion_of_robots_is_never_flagged(device, assets, robot, dtype):
    """1,000 steps of random controls, each held for ten steps, in 4 worlds: no flag at all."""
    model = ws.load(assets(robot))
    sim = ws.Simulator(model, worlds=4, dtype=dtype, device=device)
    rng = np.random.default_rng(0)
    low, high = model.control_range.T
    controls = np.repeat(rng.uniform(low, high, (100, 4, model.nu)), 10, axis=0).astype(dtype)
    final = sim.rollout(sim.state(), controls, every=1000).final
    np.testing.assert_array_equal(final.memory["flags"].numpy(), 0)


@BOTH
@pytest.mark.parametrize(
    "kind, size", [("box", [0.1] * 3), ("mesh", [1.0] * 3), ("cylinder", [0.1] * 2), ("ellipsoid", [0.1] * 3)]
)
def test_shapes_that_part(device, dtype, kind, size):
    """Every shape 14 cm beside a wall of 1 cm, from which it comes at 50 m/s, may have passed it; one at 1 m/s has not."""
    for v, expected in ((50.0, ws.UNRESOLVED), (1.0, 0)):
        b = builder()
        b.add_geom("box", [0.01, 1, 1])
        body = b.add_body("flies", pose=[0.25, 0, 0, 1, 0, 0, 0])
        b.add_joint(body, "free")
        corners = 0.1 * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
        faces = [(0, 1, 2), (1, 2, 3), (4, 5, 6), (5, 6, 7), (0, 1, 4), (2, 3, 6)]
        mesh = {"mesh": (corners, faces)} if kind == "mesh" else {}
        b.add_geom(kind, size, body=body, **mesh)
        assert flags_after(b.build(), [v, 0, 0, 0, 0, 0], 1, dtype=dtype, device=device) == expected
