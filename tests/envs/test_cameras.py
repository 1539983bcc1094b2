# SPDX-License-Identifier: Apache-2.0
"""Cameras and lidars: distances of planes, walls and spheres by geometry; the same in every framework; carried along by bodies."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import Task, VectorEnv
from warpsim.envs.cameras import FORWARD, camera, lidar

DOWN = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)  # along -z


def scene() -> ws.Model:
    """A free box in a square room, 4 m wide; a ball on the floor before it."""
    b = ws.ModelBuilder("room")
    b.add_geom("plane", name="floor", rgba=(0.2, 0.4, 0.6, 1))
    for k, (x, y) in enumerate(((2, 0), (-2, 0), (0, 2), (0, -2))):
        size = [0.05, 2, 1] if x else [2, 0.05, 1]
        b.add_geom("box", size, pose=[x + 0.05 * np.sign(x), y + 0.05 * np.sign(y), 1.0], name=f"wall{k}")
    b.add_geom("sphere", [0.2], pose=[1.0, 0, 0.5], name="ball", rgba=(1, 0, 0, 1), contype=0, conaffinity=0)
    body = b.add_body("robot", pose=[0, 0, 0.5], mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "free", name="root")
    b.add_geom("box", [0.1, 0.1, 0.05], body=body, name="box", contype=0, conaffinity=0)
    return b.build()


def task(**observations) -> type[Task]:
    return type("Looking", (Task,), {"model": staticmethod(scene), "observations": observations, "action_range": None})


def looked(term, worlds: int = 2, q=None, **options):
    env = VectorEnv(task(seen=term), worlds, device="cpu", dtype="float64", **options)
    env.reset()
    if q is not None:
        env.view.write(q=np.broadcast_to(q, (worlds, 7)))
    return np.asarray(env._observe())


def test_depth_is_along_the_axis():
    """Straight down on the floor every pixel has the same depth; sky has the reach; the carrier is not seen."""
    seen = looked(camera("robot", 16, 12, pose=DOWN, fov=80.0))
    np.testing.assert_allclose(seen, 0.5, atol=1e-12)
    up = looked(camera("robot", 4, 4, pose=(0, 0, 0, 0, 1, 0, 0), reach=7.0))
    np.testing.assert_array_equal(up, 7.0)
    assert (looked(camera("robot", 4, 4, pose=DOWN, ignore=())) < 0.06).all()


def test_pictures_are_the_right_way_up():
    """Forward: the ball in the middle as large as it should be, floor below, walls above and at both sides, left is left."""
    term = camera("robot", 101, 101, what="segmentation", fov=60.0)
    seen = term.picture(looked(term))[0, :, :, 0].astype(int)
    names = np.array(scene().geom_names)[seen]
    angle = np.arcsin(0.2 / 1.0)
    assert (names == "ball").sum() == pytest.approx(
        np.pi * (50.5 * np.tan(angle) / np.tan(np.radians(30))) ** 2, rel=0.03
    )
    rows, columns = np.nonzero(names == "ball")
    assert rows.mean() == pytest.approx(50, abs=0.5) and columns.mean() == pytest.approx(50, abs=0.5)
    assert (names[-1] == "floor").all() and (names[50, [0, -1]] == "wall0").all() and names[0, 50] in ("wall0", "")
    turned = (0, 0, 0.5, np.cos(0.3), 0, 0, np.sin(0.3))  # to the left: the ball is seen on the right
    columns = np.nonzero(term.picture(looked(term, q=turned))[0, :, :, 0] == scene().geom("ball"))[1]
    assert columns.mean() > 80


def test_normals_and_colours():
    """Floors look up, and have their colour in the light from above; what is not met is sky."""
    seen = looked(camera("robot", 3, 3, what="normals", pose=DOWN)).reshape(2, 3, 3, 3)
    np.testing.assert_allclose(seen, np.broadcast_to([0, 0, 1.0], seen.shape), atol=1e-12)
    colour = looked(camera("robot", 3, 3, what="rgb", pose=DOWN)).reshape(-1, 3)
    np.testing.assert_allclose(colour / colour.max(), np.tile([1 / 3, 2 / 3, 1], (18, 1)), atol=1e-6)
    sky = looked(camera("robot", 2, 2, what="rgb", pose=(0, 0, 0, 0, 1, 0, 0)))
    np.testing.assert_allclose(sky.reshape(-1, 3)[0], [0.6, 0.75, 0.95])
    assert FORWARD[3] == 0.5


def test_a_lidar_in_a_square_room():
    """Distances to the walls by angle; channels from the lowest up; in the world, too."""
    seen = looked(lidar("robot", 8, ignore=["robot", "world"], reach=9.0))
    np.testing.assert_array_equal(seen, 9.0)
    angles = np.radians(np.linspace(-180, 180, 16, endpoint=False))
    expected = 2.0 / np.maximum(abs(np.cos(angles)), abs(np.sin(angles)))
    walls = [f"wall{k}" for k in range(4)]
    np.testing.assert_allclose(looked(lidar("robot", 16, geoms=walls)), [expected] * 2, atol=1e-9)
    two = looked(lidar("robot", 16, 2, vertical=(-30.0, 0.0), geoms=["floor"], reach=5.0)).reshape(2, 2, 16)
    np.testing.assert_allclose(two[0], [[1.0] * 16, [5.0] * 16], atol=1e-9)
    fixed = looked(lidar("world", 16, geoms=walls, pose=(0, 0, 1.0, 1, 0, 0, 0)), q=(0.5, 0.3, 0.6, 1, 0, 0, 0))
    np.testing.assert_allclose(fixed, [expected] * 2, atol=1e-9)


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("what", ["depth", "segmentation", "normals", "rgb"])
def test_frameworks_see_the_same(framework, what):
    """NumPy, torch and JAX."""
    pytest.importorskip(framework)
    rows = [
        np.asarray(
            VectorEnv(task(seen=camera("robot", 8, 6, what=what)), 3, array=array, device="cpu").reset(seed=1)[0]
        )
        for array in ("numpy", framework)
    ]
    np.testing.assert_allclose(rows[1], rows[0], atol=1e-6)


def test_wrong_cameras_are_refused():
    """By name."""
    for make, word in (
        (lambda: camera("robot", what="heat"), "what"),
        (lambda: camera("robot", 0), "width"),
        (lambda: camera("robot", fov=180), "fov"),
        (lambda: camera("robot", pose=(0, 0, 0)), "pose"),
        (lambda: lidar("robot", horizontal=(10, -10)), "horizontal"),
        (lambda: lidar("robot", reach=0), "reach"),
        (lambda: looked(camera("head")), "head"),
    ):
        with pytest.raises(ValueError, match=word):
            make()
