# SPDX-License-Identifier: Apache-2.0
"""Contact queries and ray casts of a simulator."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import warpsim as ws

SHAPES = """
<mujoco><worldbody>
  <geom name="floor" type="plane" size="0 0 0.1"/>
  <geom name="wall" type="box" size="0.1 1 1" pos="2 0 1.05" euler="0 0 20"/>
  <body pos="0 0 1"><freejoint/><geom name="ball" type="sphere" size="0.3"/></body>
  <body pos="1 1 1" euler="30 20 10"><freejoint/><geom name="capsule" type="capsule" size="0.2 0.4"/></body>
  <body pos="-1 1 1" euler="10 50 10"><freejoint/><geom name="box" type="box" size="0.3 0.2 0.4"/></body>
  <body pos="-1 -1 1" euler="40 0 70"><freejoint/><geom name="cylinder" type="cylinder" size="0.3 0.4"/></body>
  <body pos="1 -1 1" euler="5 80 20"><freejoint/><geom name="egg" type="ellipsoid" size="0.3 0.2 0.4"/></body>
</worldbody></mujoco>
"""


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 2e-5)])
def test_ray_casts_are_those_of_mujoco(dtype, tolerance):
    """Distance, geom and normal of 2,000 random rays against every primitive, from outside and inside."""
    m = mujoco.MjModel.from_xml_string(SHAPES)
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    sim = ws.Simulator(ws.load(m), dtype=dtype, solver=ws.NoContact(), device="cpu")
    rng = np.random.default_rng(0)
    origin = rng.uniform([-2, -2, 0.1], [2, 2, 2], size=(2000, 3))
    direction = rng.normal(size=(2000, 3))
    hits = sim.ray_cast(sim.state(), origin, direction)
    distance, geom, normal = (x.numpy()[0] for x in hits)
    wrong = 0
    for i in range(len(origin)):
        unit = direction[i] / np.linalg.norm(direction[i])
        index, along = np.zeros(1, dtype=np.int32), np.zeros(3)
        expected = mujoco.mj_ray(m, data, origin[i], unit, None, 1, -1, index, along)
        if dtype == "float32" and (geom[i] != index[0] or abs(distance[i] - expected) > 1e-3):
            wrong += 1  # a grazing ray that rounds to the other side of an edge
            continue
        assert geom[i] == index[0]
        assert distance[i] == pytest.approx(expected, rel=tolerance, abs=tolerance)
        if index[0] >= 0:
            np.testing.assert_allclose(normal[i], along, atol=100 * tolerance)
    assert wrong <= 2


def test_ray_cast_of_a_mesh_and_filters():
    """A ray hits the nearest triangle of a mesh; ignored bodies and other geoms are not seen; reach ends a ray."""
    b = ws.ModelBuilder("mesh")
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    body = b.add_body("tetrahedron", pose=[0, 0, 1], mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "free")
    b.add_geom("mesh", body=body, mesh=(vertices, faces), name="mesh", contype=0, conaffinity=0)
    b.add_geom("plane", name="floor")
    sim = ws.Simulator(b.build(), worlds=2, dtype="float64", device="cpu")
    state = sim.state()
    down = {"origin": [[0.2, 0.2, 5.0]], "direction": [[0, 0, -2.0]]}
    assert sim.ray_cast(state, **down).distance.numpy()[1, 0] == pytest.approx(5 - 1.6)
    assert sim.ray_cast(state, **down, ignore=["tetrahedron"]).distance.numpy()[0, 0] == pytest.approx(5.0)
    assert sim.ray_cast(state, **down, geoms=["floor"]).geom.numpy()[0, 0] == sim.model.geom("floor")
    assert sim.ray_cast(state, **down, max_distance=2.0).geom.numpy()[0, 0] == -1
    with pytest.raises(ValueError, match="zero vector"):
        sim.ray_cast(state, [[0, 0, 0]], [[0, 0, 0]])


def triangle_distances(origin, direction, corners) -> np.ndarray:
    """Distance along each ray to the nearest of triangles `corners (n, 3, 3)` by Cramer's rule; inf without a hit."""
    a, e1, e2 = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    found = []
    for o, d in zip(origin, direction, strict=True):
        det = np.linalg.det(np.stack([np.broadcast_to(-d, e1.shape), e1, e2], axis=-1))
        columns = [np.stack(x, axis=-1) for x in ((o - a, e1, e2), (np.broadcast_to(-d, e1.shape), o - a, e2))]
        columns.append(np.stack([np.broadcast_to(-d, e1.shape), e1, o - a], axis=-1))
        with np.errstate(divide="ignore", invalid="ignore"):
            t, u, w = (np.linalg.det(x) / det for x in columns)
        found.append(np.where((t >= 0) & (u >= 0) & (w >= 0) & (u + w <= 1), t, np.inf).min(initial=np.inf))
    return np.array(found)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 2e-4)])
@pytest.mark.parametrize("flat", [False, True], ids=["soup", "flat"])
def test_rays_find_the_nearest_triangle_of_a_mesh(dtype, tolerance, flat):
    """Of 500 triangles that lie anyhow, or in one plane, as by a test of all: from within, beside, and 1,000 m away."""
    rng = np.random.default_rng(1)
    vertices = rng.normal(size=(1500, 3)) * ([1, 1, 0] if flat else [1, 0.3, 2])
    faces = np.arange(1500).reshape(-1, 3)
    b = ws.ModelBuilder("mesh")
    b.add_body("body", pose=[0.3, -0.2, 0.1, 0.5, 0.5, -0.5, 0.5], mass=1.0, inertia=[1, 1, 1])
    b.add_joint("body", "free")
    look = {"contype": 0, "conaffinity": 0, "density": 0.0}
    b.add_geom("mesh", body="body", mesh=(vertices, faces), **look)
    b.add_geom("mesh", body="body", mesh=(vertices[:3], faces[:1]), name="other", **look)
    sim = ws.Simulator(b.build(), dtype=dtype, solver=ws.NoContact(), device="cpu")
    turn = Rotation.from_quat([0.5, 0.5, -0.5, 0.5], scalar_first=True)
    goal = turn.apply(vertices[faces].mean(axis=1)) + [0.3, -0.2, 0.1]
    origin = rng.normal(size=(500, 3)) * np.array([0.1, 3.0, 1000.0])[np.arange(500) % 3, None]
    direction = goal - origin
    length = np.linalg.norm(direction, axis=1)
    expected = triangle_distances(
        origin,
        direction / length[:, None],
        turn.apply(vertices[faces].reshape(-1, 3)).reshape(-1, 3, 3) + [0.3, -0.2, 0.1],
    )
    found = sim.ray_cast(sim.state(), origin, direction).distance.numpy()[0]
    assert (expected <= length * (1 + 1e-6)).all()
    wrong = ~(np.abs(found - expected) <= tolerance * np.maximum(length, 1.0))
    assert wrong.sum() <= (0 if dtype == "float64" else 5)  # in float32, rays round to the other side of an edge


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rays_meet_the_corners_of_a_mesh(dtype):
    """Which lie on its bounding sphere; rays aim a little beside them."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * [0.3, 0.7, 0.11]
    faces = [
        [0, 1, 3],
        [0, 3, 2],
        [4, 6, 7],
        [4, 7, 5],
        [0, 4, 5],
        [0, 5, 1],
        [2, 3, 7],
        [2, 7, 6],
        [0, 2, 6],
        [0, 6, 4],
    ]
    faces = np.array([*faces, [1, 5, 7], [1, 7, 3]])
    b = ws.ModelBuilder("box")
    b.add_body("box", mass=1.0, inertia=[1, 1, 1])
    b.add_joint("box", "free")
    b.add_geom("mesh", body="box", mesh=(corners, faces), contype=0, conaffinity=0, density=0.0)
    sim = ws.Simulator(b.build(), dtype=dtype, solver=ws.NoContact(), device="cpu")
    goal = np.tile(corners * (1.0 - np.array([1e-5, 2e-5, 3e-5])), (2, 1))
    origin = np.concatenate([corners * 3.0, corners * 50.0])
    found = sim.ray_cast(sim.state(), origin, goal - origin).distance.numpy()[0]
    np.testing.assert_allclose(found, np.linalg.norm(goal - origin, axis=1), rtol=2e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
def test_rays_meet_height_fields_as_mujocos(dtype, tolerance):
    """Distance and normal of 2,000 random rays against a field and what lies on it, from all sides, some of them along its cells."""
    rng = np.random.default_rng(1)
    heights = rng.uniform(size=(7, 5))
    text = " ".join(f"{x:.9f}" for x in heights.ravel())
    field = f'<asset><hfield name="hills" nrow="7" ncol="5" size="1.5 2 0.8 0.3" elevation="{text}"/></asset>'
    geoms = '<geom type="hfield" hfield="hills" pos="0.2 -0.1 0.4" euler="10 20 30"/><geom type="sphere" size="0.3" pos="0 0 1.4"/>'
    m = mujoco.MjModel.from_xml_string(f"<mujoco>{field}<worldbody>{geoms}</worldbody></mujoco>")
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    sim = ws.Simulator(ws.load(m), dtype=dtype, solver=ws.NoContact(), device="cpu")
    origin = rng.uniform([-3, -3, 0.0], [3, 3, 4], size=(2000, 3))
    target = rng.uniform([-1.5, -1.5, 0], [1.5, 1.5, 1.2], size=(2000, 3))
    direction = target - origin
    direction[:100, :2] = 0.0
    hits = sim.ray_cast(sim.state(), origin, direction)
    distance, geom, normal = (x.numpy()[0] for x in hits)
    wrong, met = 0, 0
    for i in range(len(origin)):
        unit = direction[i] / np.linalg.norm(direction[i])
        index, along = np.zeros(1, dtype=np.int32), np.zeros(3)
        expected = mujoco.mj_ray(m, data, origin[i], unit, None, 1, -1, index, along)
        inside = (
            index[0] == 0 and np.dot(along, unit) > 0
        )  # from within the solid: surfaces are told apart by their cause
        if inside or geom[i] != index[0] or abs(distance[i] - expected) > tolerance * (1 + expected):
            wrong += not inside
            continue
        met += index[0] == 0
        if index[0] >= 0:
            np.testing.assert_allclose(normal[i], along, atol=100 * tolerance)
    assert wrong <= (0 if dtype == "float64" else 4) and met > 800


def test_rays_of_a_body_turn_with_it():
    """Rays in a body's axes are those of the world, moved; a sensor that is made once gives the same."""
    m = mujoco.MjModel.from_xml_string(SHAPES)
    sim = ws.Simulator(ws.load(m), worlds=3, dtype="float64", solver=ws.NoContact(), device="cpu")
    rng = np.random.default_rng(2)
    state = sim.state(q=sim.model.q0)
    pose = sim.kinematics(state.q).numpy()[:, 1]
    origin, direction = 0.1 * rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    turn = Rotation.from_quat(pose[:, [4, 5, 6, 3]])
    there = np.stack([r.apply(origin) + p[:3] for r, p in zip(turn, pose, strict=True)])
    along = np.stack([r.apply(direction) for r in turn])
    options = {"ignore": [sim.model.body_names[1]], "max_distance": 4.0}
    expected = sim.ray_cast(state, there, along, **options)
    sensor = sim.ray_sensor(origin, direction, body=1, **options)
    for found in (sim.ray_cast(state, origin, direction, body=1, **options), sensor(state), sensor(state)):
        np.testing.assert_array_equal(found.geom.numpy(), expected.geom.numpy())
        np.testing.assert_allclose(found.distance.numpy(), expected.distance.numpy(), atol=1e-12)
    assert (expected.geom.numpy() >= 0).any() and (expected.geom.numpy() < 0).any()


def test_body_velocities_and_contact_wrenches():
    """Velocities as MuJoCo's of body frames; wrenches as the sum over the list of contacts, about the COMs, after substeps too."""
    m = mujoco.MjModel.from_xml_string(SHAPES)
    data, rng = mujoco.MjData(m), np.random.default_rng(3)
    mujoco.mj_resetData(m, data)
    data.qvel[:] = rng.normal(size=m.nv)
    mujoco.mj_forward(m, data)
    sim = ws.Simulator(ws.load(m), worlds=2, dt=0.02, dtype="float64", device="cpu")
    state = sim.state(data.qpos, data.qvel)
    velocity = sim.body_velocity(state).numpy()
    for body in range(1, m.nbody):
        expected = np.zeros(6)
        mujoco.mj_objectVelocity(m, data, mujoco.mjtObj.mjOBJ_XBODY, body, expected, 0)
        np.testing.assert_allclose(velocity[:, body - 1], [expected, expected], atol=1e-12)
    for _ in range(60):
        sim.step(state, substeps=4, out=state)
    contacts, model = sim.last_contacts, sim.model
    wrench, force = sim.contact_wrench(state).numpy(), sim.contact_force().numpy()
    np.testing.assert_array_equal(wrench[..., 3:], force)
    poses = sim.kinematics(state.q).numpy()
    total = np.zeros_like(wrench)
    for w in range(2):
        for c in range(contacts.count[w]):
            along = contacts.frame[w, c] @ contacts.impulse[w, c] / (sim.dt / 4)
            for geom, sign in zip(contacts.geoms[w, c], (-1.0, 1.0), strict=True):
                body = model.geom_body[geom]
                if body >= 0:
                    turn = Rotation.from_quat(poses[w, body, [4, 5, 6, 3]])
                    com = poses[w, body, :3] + turn.apply(model.body_com[body].copy())
                    total[w, body] += np.concatenate([np.cross(contacts.point[w, c] - com, sign * along), sign * along])
    np.testing.assert_allclose(wrench, total, atol=1e-9)
    assert np.abs(wrench[..., :3]).max() > 1.0


def test_net_contact_force_of_a_resting_stack():
    """The floor carries the whole weight, and each body's net contact force is its own weight."""
    b = ws.ModelBuilder("stack")
    b.add_geom("plane", name="floor")
    for i in range(2):
        body = b.add_body(f"box{i}", pose=[0, 0, 0.1 + 0.2 * i])
        b.add_joint(body, "free")
        b.add_geom("box", [0.1, 0.1, 0.1], body=body, density=1000.0)
    sim = ws.Simulator(b.build(), worlds=3, dt=0.01, dtype="float64", device="cpu")
    state = sim.state()
    for _ in range(200):
        sim.step(state, out=state)
    weight = 8.0 * 9.81
    body = sim.contact_force().numpy()
    np.testing.assert_allclose(body, np.broadcast_to([0, 0, weight], body.shape), atol=1e-4 * weight)
    geom = sim.contact_force("geom").numpy()
    np.testing.assert_allclose(geom[:, sim.model.geom("floor"), 2], -2 * weight, rtol=1e-4)


def test_inactive_bodies_stand_still_and_touch_nothing():
    """`body_active` per world: an inactive object keeps its state, others pass through it, other worlds are untouched."""
    b = ws.ModelBuilder("two balls")
    b.add_geom("plane", name="floor")
    for i in range(2):
        body = b.add_body(f"ball{i}", pose=[0, 0, 0.3 + 0.5 * i])
        b.add_joint(body, "free")
        b.add_geom("sphere", [0.1], body=body)
    model = b.build()
    sim = ws.Simulator(model, worlds=2, dt=0.01, dtype="float64", device="cpu")
    plain = sim.rollout(sim.state(), steps=100).final
    active = np.ones((2, 2))
    active[1, 0] = 0
    sim.parameters["body_active"] = active
    mixed = sim.rollout(sim.state(), steps=100).final
    np.testing.assert_array_equal(mixed.q.numpy()[0], plain.q.numpy()[0])
    q = mixed.q.numpy()[1]
    np.testing.assert_array_equal(q[:7], model.q0[:7])
    assert q[9] == pytest.approx(0.1, abs=1e-3)  # the other ball fell through it to the floor
    assert plain.q.numpy()[0, 9] > 0.25


def test_inactive_cylinders_touch_nothing():
    """The general shapes obey `body_active` too."""
    b = ws.ModelBuilder("cylinder")
    b.add_geom("plane")
    body = b.add_body("cylinder", pose=[0, 0, 0.05])
    b.add_joint(body, "free")
    b.add_geom("cylinder", [0.1, 0.1], body=body)
    sim = ws.Simulator(b.build(), worlds=2, dt=0.01, device="cpu")
    sim.parameters["body_active"] = np.array([[1.0], [0.0]])
    sim.step(sim.state())
    assert sim.diagnostics.contacts.numpy().tolist() == [4, 0]
