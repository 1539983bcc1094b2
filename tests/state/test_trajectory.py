# SPDX-License-Identifier: Apache-2.0
"""The trajectory object and the host's forward kinematics against MuJoCo's."""

import mujoco
import numpy as np
import pytest

from scenes.trajectories import asset, random_q, rollout, small
from warpsim.files.scene import frame_rows, grid_origins
from warpsim.model import host_kinematics
from warpsim.state.trajectory import Trajectory, world_indices


@pytest.mark.parametrize(
    "name", ["small", "ant", "humanoid", "half_cheetah", "hopper", "walker2d", "swimmer", "pusher"]
)
def test_poses_agree_with_mujoco(name):
    """Body and geom poses equal MuJoCo's xpos/xquat to rounding (1e-12 m), up to the quaternion's sign."""
    compiled, model = small() if name == "small" else asset(name)
    rng, data = np.random.default_rng(1), mujoco.MjData(compiled)
    q = np.stack([random_q(compiled, rng) for _ in range(12)]).reshape(4, 3, -1)
    poses = host_kinematics.body_poses(model, q)
    geoms = host_kinematics.geom_poses(model, poses)
    for index in np.ndindex(4, 3):
        data.qpos[:] = q[index]
        mujoco.mj_kinematics(compiled, data)
        np.testing.assert_allclose(poses[index][:, :3], data.xpos[1:], atol=1e-12)
        sign = np.sign(np.sum(poses[index][:, 3:] * data.xquat[1:], axis=-1, keepdims=True))
        np.testing.assert_allclose(poses[index][:, 3:] * sign, data.xquat[1:], atol=1e-12)
        np.testing.assert_allclose(geoms[index][:, :3], data.geom_xpos, atol=1e-12)


def test_unnormalised_quaternions_are_normalised():
    """A free or ball quaternion scaled by 2 gives the same poses."""
    compiled, model = small()
    q = random_q(compiled, np.random.default_rng(0))
    scaled = q.copy()
    scaled[3:7] *= 2
    np.testing.assert_allclose(
        host_kinematics.body_poses(model, q), host_kinematics.body_poses(model, scaled), atol=1e-14
    )


def test_chunks_equal_the_whole(monkeypatch):
    """Streaming in chunks of one row gives the same bits as one pass, for chosen worlds."""
    trajectory = rollout(*small(), worlds=4, steps=7)
    whole = trajectory.poses(worlds=[3, 1])
    monkeypatch.setattr(host_kinematics, "CHUNK_BYTES", 1)
    chunks = list(trajectory.pose_chunks(worlds=[3, 1]))
    assert len(chunks) == 8 and np.array_equal(np.concatenate(chunks), whole)
    assert whole.shape == (8, 2, trajectory.model.nbody, 7)


def test_warp_arrays_work_as_numpy_does():
    """q, v, time may live in Warp arrays."""
    wp = pytest.importorskip("warp")
    t = rollout(*small(), worlds=2, steps=4)
    same = Trajectory(t.model, *(wp.array(a, dtype=wp.float64, device="cpu") for a in (t.q, t.v, t.time)))
    assert np.array_equal(same.poses(), t.poses())
    assert same.duration == t.duration and "worlds=2" in repr(same)


def test_wrong_shapes_and_non_finite_values_are_named():
    """Errors name the array and the frame."""
    t = rollout(*small(), worlds=2, steps=4)
    with pytest.raises(ValueError, match="v has shape"):
        Trajectory(t.model, t.q, t.v[1:], t.time)
    with pytest.raises(ValueError, match="q has shape"):
        Trajectory(t.model, t.q[..., 1:], t.v, t.time)
    with pytest.raises(ValueError, match=r"diagnostics\['energy'\]"):
        Trajectory(t.model, t.q, t.v, t.time, {"energy": np.zeros((5, 2))})
    t.q[2, 1, 0] = np.nan
    with pytest.raises(ValueError, match="frame 2, world 1"):
        t.poses()


def test_worlds_frames_and_grid():
    """Choice of worlds, thinning to a rate, and the grid's layout."""
    assert world_indices(2, 5).tolist() == [0, 1] and world_indices(None, 3).tolist() == [0, 1, 2]
    assert world_indices([4, 0], 5).tolist() == [4, 0]
    for wrong in (0, 6, [5], [-1], [], 1.5, "all"):
        with pytest.raises(ValueError, match="worlds="):
            world_indices(wrong, 5)
    time = np.arange(1001) * 0.005
    rows, fps = frame_rows(time, None)
    assert fps == pytest.approx(50) and rows[:3].tolist() == [0, 4, 8]
    rows, fps = frame_rows(time, 30.0)
    assert fps == 30 and np.abs(time[rows] - np.arange(len(rows)) / 30).max() <= 0.0025 + 1e-9
    rows, fps = frame_rows(time, 1000.0)
    assert len(rows) == 1001 and fps == pytest.approx(200)
    with pytest.raises(ValueError, match="fps is 0"):
        frame_rows(time, 0)
    origins = grid_origins(7, 2.0)
    assert len(np.unique(origins, axis=0)) == 7 and np.allclose(origins[1] - origins[0], [2, 0, 0])
