# SPDX-License-Identifier: Apache-2.0
"""Terms of what bodies do and of the ground, by exact motion: free fall, turning at a constant rate, rest, slopes."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import TASKS, Task, VectorEnv, sensing, terms
from warpsim.envs.terrain import KINDS, height_scan, start_on, terrain

G = 9.81


def box(z: float = 5.0, ground=None) -> ws.Model:
    b = ws.ModelBuilder("box")
    if ground is None:
        b.add_geom("plane", name="ground")
    else:
        ground.add_to(b)
    body = b.add_body("box", pose=[0, 0, z])
    b.add_joint(body, "free", name="root")
    b.add_geom("box", [0.1, 0.1, 0.1], body=body, density=1000.0)
    return b.build()


def played(q, v, steps: int, dt: float = 0.001, model=None, **observations):
    """Observations of a box from q and v, `(steps + 1, n)` for each term."""
    kind = type("Seen", (Task,), {"observations": observations, "timestep": dt, "episode": None})
    env = VectorEnv(
        kind, 2, model=box() if model is None else model, device="cpu", dtype="float64", autoreset="DISABLED"
    )
    env.reset()
    env.view.write(q=np.tile(np.asarray(q, float), (2, 1)), v=np.tile(np.asarray(v, float), (2, 1)))
    for term in env._inner_terms():
        if hasattr(term, "reset"):
            term.reset(env.view, np.ones(2, bool))
    rows = [env._observe(), *(env.step(np.zeros((2, 0)))[0] for _ in range(steps))]
    np.testing.assert_array_equal([row[0] for row in rows], [row[1] for row in rows])
    sizes = np.cumsum([0, *env._sizes["observations"]])
    return env, {name: np.array(rows)[:, 0, a:b] for name, a, b in zip(observations, sizes, sizes[1:], strict=False)}


def test_an_inertial_unit_in_free_fall_and_at_rest():
    """Falling it feels nothing, at rest gravity upwards; where an episode begins there is no motion to compare with."""
    _, seen = played([0, 0, 5, 1, 0, 0, 0], [1, 2, 3, 0, 0, 0], 50, unit=sensing.imu("box"))
    np.testing.assert_allclose(seen["unit"][0], [0, 0, 0, 0, 0, G], atol=1e-9)
    np.testing.assert_allclose(seen["unit"][1:], 0.0, atol=1e-9)
    _, seen = played([0, 0, 0.1, 1, 0, 0, 0], [0] * 6, 300, dt=0.005, unit=sensing.imu("box"))
    np.testing.assert_allclose(seen["unit"][-1], [0, 0, 0, 0, 0, G], atol=1e-3)


def test_an_inertial_unit_that_turns():
    """Off the axis it is pulled inwards by ω² r; mounted turned, it has its own axes."""
    rate, arm = 3.0, 0.2
    turned = (arm, 0, 0, np.sqrt(0.5), 0, 0, np.sqrt(0.5))  # its x axis is the body's y axis
    _, seen = played(
        [0, 0, 5, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, rate],
        20,
        dt=1e-4,
        a=sensing.imu("box", (arm, 0, 0, 1, 0, 0, 0)),
        b=sensing.imu("box", turned),
    )
    np.testing.assert_allclose(seen["a"][1:], np.tile([0, 0, rate, -(rate**2) * arm, 0, 0], (20, 1)), atol=2e-3)
    np.testing.assert_allclose(seen["b"][1:], np.tile([0, 0, rate, 0, rate**2 * arm, 0], (20, 1)), atol=2e-3)


def test_velocities_gravity_and_places_in_frames():
    """A box on its side, moving and turning: in the world and in its own axes."""
    q = [1, 2, 5, np.sqrt(0.5), np.sqrt(0.5), 0, 0]  # a quarter turn about x: its y axis is up
    _, seen = played(
        q,
        [1, 2, 3, 0.1, 0.2, 0.3],
        0,
        world=sensing.linear_velocity("box", "world"),
        body=sensing.linear_velocity("box"),
        turning=sensing.angular_velocity("box"),
        turning_world=sensing.angular_velocity("box", "world"),
        down=sensing.projected_gravity("box"),
        place=sensing.body_position("box"),
        way=sensing.body_orientation("box"),
        height=sensing.height("box"),
    )
    seen = {name: x[0] for name, x in seen.items()}
    np.testing.assert_allclose(seen["world"], [1, 2, 3], atol=1e-12)
    np.testing.assert_allclose(seen["body"], [1, 3, -2], atol=1e-12)
    np.testing.assert_allclose(seen["turning"], [0.1, 0.2, 0.3], atol=1e-12)
    np.testing.assert_allclose(seen["turning_world"], [0.1, -0.3, 0.2], atol=1e-12)
    np.testing.assert_allclose(seen["down"], [0, -1, 0], atol=1e-12)
    np.testing.assert_allclose(np.concatenate([seen["place"], seen["way"], seen["height"]]), [*q, 5], atol=1e-12)


def test_contact_and_time_in_the_air():
    """A box that falls from 0.5 m lands after √(2h/g); at rest its weight is the force on it."""
    _, seen = played(
        [0, 0, 0.6, 1, 0, 0, 0],
        [0] * 6,
        1500,
        touch=sensing.touches("box"),
        force=sensing.contact_forces("box"),
        air=sensing.air_time("box", wanted=0.1),
    )
    landing = int(np.argmax(seen["touch"][:, 0] > 0.5))
    assert landing * 0.001 == pytest.approx(np.sqrt(2 * 0.5 / G), abs=0.003)
    assert seen["air"][landing, 0] == pytest.approx(landing * 0.001 - 0.1, abs=1e-6) and not seen["air"][:landing].any()
    np.testing.assert_allclose(seen["force"][-1], [0, 0, 8.0 * G], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_ground_has_its_kinds(kind):
    """Patches are level in the middle and as high as they were asked to be; the same seed makes the same ground."""
    found, again = (terrain((kind,), levels=2, seed=3) for _ in range(2))
    np.testing.assert_array_equal(found.data, again.data)
    assert found.starts.shape == (2, 3) and 0.0 <= found.data.min() and found.data.max() <= 1.0
    expected = {"slopes": (0.2 * 2.0, 0.4 * 2.0), "steps": (0.06 * 5, 0.12 * 5)}.get(kind, (0.0, 0.0))
    np.testing.assert_allclose(found.starts[:, 2], expected, atol=1e-9)


def test_a_scan_of_the_ground_is_what_rays_meet():
    """Heights below points around a body that has turned, beside rays straight down; outside as at the edge."""
    ground = terrain(levels=1, side=4.0, cell=0.2, seed=1)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))
    angle = 0.7
    q = [1.0, -0.4, 1.5, np.cos(angle / 2), 0, 0, np.sin(angle / 2)]
    env, seen = played(q, [0] * 6, 0, model=box(5.0, ground), scan=height_scan("box", points))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    at = points @ turn.T + q[:2]
    origin = np.concatenate([at, np.full((40, 1), 3.0)], 1)
    down = np.tile([0.0, 0.0, -1.0], (40, 1))
    met = 3.0 - env.sim.ray_cast(env.state, origin, down, geoms=["ground"]).distance.numpy()[0] - q[2]
    # bilinear in a cell beside two triangles: the same on level ground and slopes, near it on rough ground
    assert np.abs(seen["scan"][0] - met).max() < 0.08 and np.median(np.abs(seen["scan"][0] - met)) < 0.01
    _, far = played([100.0, 0, 1, 1, 0, 0, 0], [0] * 6, 0, model=box(5.0, ground), scan=height_scan("box", [[0, 0]]))
    assert np.isfinite(far["scan"]).all()


def test_starts_on_patches():
    """Every place is begun on, nowhere else, in all directions; the box stands on the ground where it is let go above it."""
    ground = terrain(levels=2, side=4.0, cell=0.2)
    kind = type("Start", (Task,), {"observations": {"q": terms.positions()}, "starts": (start_on(ground.starts),)})
    env = VectorEnv(kind, 400, model=box(0.1, ground), device="cpu", dtype="float64")
    q = env.reset(seed=1)[0]
    off = q[:, None, :3] - ground.starts - [0, 0, 0.1]
    nearest = np.abs(off).max(-1).argmin(1)
    np.testing.assert_allclose(np.abs(off).max(-1).min(1), 0.0, atol=1e-6)
    assert set(nearest) == set(range(len(ground.starts)))
    angle = 2 * np.arctan2(q[:, 6], q[:, 3])
    assert np.ptp(angle) > 6.0 and abs(np.mean(angle)) < 0.4


def test_pushes_come_when_they_should():
    """Velocities jump every so many actions of an episode by no more than asked for, in each world by its own; not in between."""
    kind = type("Pushed", (Task,), {"observations": {"v": terms.velocities()}, "episode": 12, "timestep": 0.001})
    kind.events = (terms.push("root", (1.0, 1.0, 0.0, 0.0, 0.0, 2.0), every=5),)
    env = VectorEnv(kind, 64, model=box(50.0), device="cpu", dtype="float64", autoreset="SAME_STEP")
    before = env.reset(seed=1)[0]
    for k in range(1, 30):
        after = env.step(np.zeros((64, 0)))[0]
        within = (k - 1) % 12 + 1
        jump = after - before - [0, 0, -G * 0.001, 0, 0, 0]
        if within == 12:
            assert not after.any()
        elif within % 5 == 0:
            assert (np.abs(jump) <= [1, 1, 1e-9, 1e-9, 1e-9, 2]).all() and (np.ptp(jump, axis=0)[[0, 1, 5]] > 1.0).all()
        else:
            np.testing.assert_allclose(jump, 0.0, atol=1e-9)
        before = after


@pytest.mark.parametrize("wrong", [{"kinds": ("sea",)}, {"levels": 0}, {"cell": -1.0}, {"side": 1.0}])
def test_wrong_grounds_are_refused(wrong):
    """By name."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        terrain(**wrong)


def test_the_time_in_the_air_is_each_worlds_own():
    """As an observation: what is told of a landing does not change where another world's episode ends in that step."""
    found = []
    for ending in (False, True):
        observations = {"air": sensing.air_time("box"), "q": terms.positions()}
        kind = type("Air", (Task,), {"observations": observations, "timestep": 0.005, "episode": None})
        kind.terminations = {"x": lambda s, ending=ending: (s.numbers == 0) & ending}
        env = VectorEnv(kind, 2, model=box(0.3), device="cpu", dtype="float64", autoreset="SAME_STEP")
        env.reset(seed=0)
        found.append(np.array([env.step(np.zeros((2, 0)))[0][1] for _ in range(80)]))
    np.testing.assert_array_equal(*found)
    assert found[0][:, 0].max() > 0.1


def test_what_a_view_gives_is_the_simulators_and_stays():
    """Poses, velocities and wrenches, at first and from graphs, also after a parameter has been asked for: bit for bit; what a term keeps does not change."""
    env = VectorEnv(TASKS["Humanoid"], 6, device="cpu", autoreset="SAME_STEP", episode=40, terminations={})
    env.reset(seed=1)
    view, sim, state, kept = env.view, env.sim, env.state, []
    for k in range(45):
        if k == 35:
            sim.parameters["joint_pose"].assign(sim.parameters["joint_pose"].numpy() * 1.0)
        env.step(env.action_space.sample())
        here = (view.steps > 0)[:, None, None]
        wrench, *others = (x.numpy() for x in sim.about_centre(state))
        expected = [sim.kinematics(state.q).numpy(), sim.body_velocity(state).numpy(), wrench * here, *others]
        expected.append(sim.contact_wrench(state).numpy() * here)
        view.moved()
        found = [view.poses, view.velocities, *view.about_centre, view.contact_wrench]
        kept.append((found, [x.copy() for x in found]))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    assert any(np.abs(found[2]).max() > 0.0 for found, _ in kept)
    for found, copies in kept:
        for a, b in zip(found, copies, strict=True):
            np.testing.assert_array_equal(a, b)


def test_sensors_of_the_model():
    """A model's own sensors are terms by name: an accelerometer feels nothing in free fall, 0 where an episode begins; a touch bears the weight."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", name="ground")
    body = b.add_body("box", pose=[0, 0, 5])
    b.add_joint(body, "free", name="root")
    b.add_geom("box", [0.1, 0.1, 0.1], body=body, density=1000.0)
    b.add_site("imu", body="box", size=[0.3])
    for kind in ("accelerometer", "gyro", "touch"):
        b.add_sensor(kind, "imu", name=kind)
    b.add_sensor("unavailable", name="broken")
    model = b.build()
    terms_of = {"felt": sensing.sensor("accelerometer"), "both": sensing.sensor("touch", "gyro")}
    _, seen = played([0, 0, 5, 1, 0, 0, 0], [1, 2, 3, 0, 0, 0.5], 20, model=model, **terms_of)
    np.testing.assert_allclose(seen["felt"], 0.0, atol=1e-9)
    np.testing.assert_allclose(seen["both"], np.tile([0, 0, 0, 0.5], (21, 1)), atol=1e-9)
    _, seen = played([0, 0, 0.1, 1, 0, 0, 0], [0] * 6, 300, dt=0.005, model=model, **terms_of)
    np.testing.assert_allclose(seen["both"][-1], [8.0 * G, 0, 0, 0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(seen["felt"][-1], [0, 0, G], atol=1e-3)
    for names, message in (
        (("nose",), "no sensor 'nose'"),
        (("broken",), "is not evaluated"),
        ((), "is not evaluated"),
    ):
        with pytest.raises(ValueError, match=message):
            played([0, 0, 5, 1, 0, 0, 0], [0] * 6, 1, model=model, x=sensing.sensor(*names))


def test_poses_and_velocities_of_free_bodies():
    """They are read from q and v; they equal forward kinematics where other joints come before, at any orientation."""
    b = ws.ModelBuilder()
    for i, joint in enumerate(("hinge", "free", "slide", "free")):
        body = b.add_body(f"body{i}", pose=[i, 0, 1])
        b.add_joint(body, joint, name=f"joint{i}", axis=[0, 0, 1]) if joint != "free" else b.add_joint(body, joint)
        b.add_geom("box", [0.1, 0.2, 0.3], body=body, density=1000.0)
    starts = (terms.start_noise(q=0.9, v=3.0),)
    kind = type("Seen", (Task,), {"observations": {"q": terms.positions()}, "starts": starts})
    env = VectorEnv(kind, 5, model=b.build(), device="cpu", dtype="float64")
    env.reset(seed=3)
    env.step(np.zeros((5, 0)))
    for i in range(4):
        body = sensing.body_index(env.view, f"body{i}")
        np.testing.assert_allclose(env.view.pose(body), env.view.poses[:, body], rtol=0, atol=1e-14)
        np.testing.assert_allclose(env.view.velocity(body), env.view.velocities[:, body], rtol=0, atol=1e-14)
    for wrong in (np.ones(6, bool), np.ones((5, 1), bool)):
        with pytest.raises(ValueError, match=r"mask has shape .*; it must be \(5,\)"):
            env.view.replayed_among("mine", wrong, lambda: None)
