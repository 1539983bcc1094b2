# SPDX-License-Identifier: Apache-2.0
"""Contact points of `mujoco_points` against MuJoCo's: boxes and cylinders on a plane, boxes on boxes, in any pose. MuJoCo's rule of frames."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from benchmarks.mujoco_contacts import audit, contact_states, frame_of, gymnasium_files

SCENE = """<mujoco><worldbody><geom type="plane" size="9 9 1" pos="0.1 0 0.2" euler="10 25 0" margin="{margin}"/>
<body><freejoint/><geom type="{kind}" size="{size}" margin="0.01"/></body></worldbody></mujoco>"""


def random_poses(m: mujoco.MjModel, worlds: int, upright: int) -> dict[str, np.ndarray]:
    """States near the plane; the first `upright` of them stand or lie on it up to 1e-3 rad."""
    rng = np.random.default_rng(0)
    q = np.zeros((worlds, 7))
    q[:, :3], q[:, 3:] = rng.uniform(-0.15, 0.15, (worlds, 3)) + [0.1, 0.0, 0.25], rng.normal(size=(worlds, 4))
    plane = m.geom_quat[0]
    for k in range(upright):
        turn = [[1, 0, 0, 0], [0, 1, 0, 0], [0.5**0.5, 0.5**0.5, 0, 0], [0.5**0.5, 0, 0.5**0.5, 0]][k % 4]
        mujoco.mju_mulQuat(q[k, 3:], plane, np.array(turn) + 1e-3 * rng.normal(size=4))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    return {"q": q, "v": np.zeros((worlds, 6)), "control": np.zeros((worlds, 0)), "act": np.zeros((worlds, 0)), "mocap": np.zeros((worlds, 0, 7))}  # fmt: skip


@pytest.mark.parametrize("margin", [0.0, 0.05])
@pytest.mark.parametrize(
    ("kind", "size"), [("box", "0.1 0.06 0.03"), ("cylinder", "0.08 0.05"), ("cylinder", "0.02 0.1")]
)
def test_points_on_a_plane(kind, size, margin):
    """Number, distance, place and normal are MuJoCo's to 1e-9, standing, lying and in random poses."""
    m = mujoco.MjModel.from_xml_string(SCENE.format(kind=kind, size=size, margin=margin))
    rows, frames = audit(m, ws.load(m), random_poses(m, 60, 20))
    found = [row for of_state in rows for row in of_state]
    assert len(found) > 25
    assert {row.theirs for row in found} >= {1, 2}
    assert max(row.worst for row in found) < 1e-9
    assert max(row.margin for row in found) < 1e-15
    assert max(frames.values()) < 1e-12


BOXES = """<mujoco><worldbody><geom type="box" size="0.1 0.07 0.05" euler="10 25 40" margin="{margin}"/>
<body><freejoint/><geom type="box" size="0.06 0.08 0.03" margin="{margin}"/></body></worldbody></mujoco>"""


def box_poses(m: mujoco.MjModel, worlds: int) -> dict[str, np.ndarray]:
    """Every other state in a random pose; the others on the upper face, turned, tilted by 1e-5 to 0.1 rad and up to 10 mm deep or above it."""
    rng, states = np.random.default_rng(0), random_poses(m, worlds, 0)
    states["q"][:, :3] -= [0.1, 0.0, 0.25]
    for q in states["q"][::2]:
        tilt, yaw = 10 ** rng.uniform(-5, -1), rng.uniform(0, np.pi)
        turned, on_face = np.zeros(4), np.zeros(4)
        mujoco.mju_mulQuat(turned, np.array([1.0, tilt, -tilt, 0.0]), np.array([np.cos(yaw), 0.0, 0.0, np.sin(yaw)]))
        mujoco.mju_mulQuat(on_face, m.geom_quat[0], turned)
        q[3:] = on_face / np.linalg.norm(on_face)
        height = 0.08 + 10 ** rng.uniform(-5, -2) - 10 ** rng.uniform(-5, -2)
        mujoco.mju_rotVecQuat(q[:3], np.array([*rng.uniform(-0.07, 0.07, 2), height]), m.geom_quat[0])
    return states


@pytest.mark.parametrize("margin", [0.0, 0.005])
def test_points_of_two_boxes(margin):
    """MuJoCo's face or edge pair, and its points to 1e-9: random poses and slightly tilted stacks.

    Of 400 separated boxes within the margin one pair of edges has its common perpendicular beyond an end; MuJoCo's point is at the end.
    """
    m = mujoco.MjModel.from_xml_string(BOXES.format(margin=margin))
    rows, _ = audit(m, ws.load(m), box_poses(m, 400))
    found = [row for of_state in rows for row in of_state]
    assert len(found) > 200
    assert {row.theirs for row in found} >= {1, 2, 3, 4, 5, 6}
    beyond_an_end = [row for row in found if row.worst >= 1e-9]
    assert len(beyond_an_end) == (0 if margin == 0.0 else 1)
    assert all(row.theirs == row.ours == 1 and max(row.dist, row.normal) < 1e-9 for row in beyond_an_end)


def test_frames_and_points_of_a_robot():
    """Gymnasium's humanoid: all pairs agree, and MuJoCo's tangents are those of `frame_of`, along a capsule on a plane."""
    file = next(f for f in gymnasium_files() if f.path.name == "humanoid.xml")
    m = mujoco.MjModel.from_xml_path(str(file.path))
    rows, frames = audit(m, ws.load(m), contact_states(m, 5))
    assert max(row.worst for of_state in rows for row in of_state) < 1e-9
    assert max(frames.values()) < 1e-12
    assert (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_CAPSULE) in frames


def test_an_upright_capsule_has_no_direction():
    """A capsule whose axis is the plane's normal gives x as the tangent, as MuJoCo's."""
    m = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.19"><freejoint/>'
        '<geom type="capsule" size="0.1 0.1"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    assert np.array_equal(
        data.contact.frame[0].reshape(3, 3), frame_of(np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    )
