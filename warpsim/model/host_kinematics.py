"""Forward kinematics on the host, in NumPy: body poses of recorded positions for export, plots and pictures.

One pass over the links in order, X_link = X_parent * joint_pose * J(q) * translate(-anchor), vectorised over every
leading axis of q. Memory is that of the result times about three; long trajectories go through `body_pose_chunks`.
"""

import numpy as np

from warpsim.model.geometry import IDENTITY, compose, quaternion_multiply
from warpsim.model.model import JointType

CHUNK_BYTES = 4 * 2**20  # of link poses held at a time by `body_pose_chunks`


def link_poses(model, q, mocap=None) -> np.ndarray:
    """Poses `(..., nlink, 7)` of all links, world frame, `[x y z qw qx qy qz]`, float64, for positions `q (..., nq)`.

    `mocap (..., nmocap, 7)`: where the mocap bodies are; None: where the model has them. Quaternions of these, of free and ball joints are
    normalised first. Raises `ValueError` where q's last axis is not nq.
    """
    q = np.asarray(q, dtype=float)
    if q.ndim == 0 or q.shape[-1] != model.nq:
        raise ValueError(f"q has shape {q.shape}; its last axis must be model.nq = {model.nq}")
    poses = np.empty((*q.shape[:-1], model.nlink, 7))
    given = {} if mocap is None else {int(link): i for i, link in enumerate(model.mocap_links)}
    for link in range(model.nlink):
        if link in given:
            pose = np.asarray(mocap, dtype=float)[..., given[link], :]
            poses[..., link, :] = np.concatenate([pose[..., :3], _normalised(pose[..., 3:])], axis=-1)
            continue
        parent = int(model.link_parent[link])
        before = IDENTITY if parent < 0 else poses[..., parent, :]
        poses[..., link, :] = _link_pose(model, link, before, q)
    return poses


def body_poses(model, q, mocap=None) -> np.ndarray:
    """Poses `(..., nbody, 7)` of all bodies, world frame, `[x y z qw qx qy qz]`, for positions `q (..., nq)`; `mocap` as in `link_poses`."""
    return link_poses(model, q, mocap)[..., model.body_link, :]


def geom_poses(model, bodies) -> np.ndarray:
    """Poses `(..., ngeom, 7)` of all geoms in the world frame from body poses `(..., nbody, 7)`."""
    bodies = np.asarray(bodies, dtype=float)
    world = np.broadcast_to(IDENTITY, (*bodies.shape[:-2], 1, 7))
    return compose(np.concatenate([bodies, world], axis=-2)[..., model.geom_body, :], model.geom_pose)


def body_pose_chunks(model, q, rows, worlds, mocap=None):
    """Yield body poses `(rows in the chunk, len(worlds), nbody, 7)` of `q (frames, all worlds, nq)`, in order.

    `rows` and `worlds` are index arrays. q and `mocap (frames, all worlds, nmocap, 7)`, or None, may be NumPy or Warp arrays; only a chunk of them
    is ever on the host.
    """
    rows, worlds = np.asarray(rows), np.asarray(worlds)
    for part in row_chunks(rows, len(worlds) * max(model.nlink, 1) * 7 * 8):
        chunk = host_rows(q, part)[:, worlds]
        moved = None if mocap is None else host_rows(mocap, part)[:, worlds]
        bad = ~np.isfinite(chunk).all(axis=-1)
        if moved is not None:
            bad |= ~np.isfinite(moved).all(axis=(-2, -1))
        if bad.any():
            row, world = np.argwhere(bad)[0]
            raise ValueError(
                f"q, or a mocap pose, is not finite at frame {part[row]}, world {worlds[world]}; leave that world out (worlds=[...])"
            )
        yield body_poses(model, chunk, moved)


def row_chunks(rows, bytes_per_row: int):
    """Split an index array into consecutive parts of at most `CHUNK_BYTES`, at least one row each."""
    size = max(1, CHUNK_BYTES // max(1, bytes_per_row))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def host_span(array, first: int, stop: int) -> np.ndarray:
    """Neighbouring rows (first axis) of a NumPy, Warp or stored array as NumPy; in the memory of the array where that is the host's."""
    if 0 in array.shape:  # of which Warp has no slices
        array = array.numpy() if hasattr(array, "numpy") else np.asarray(array)
    span = array[first:stop]
    return span.numpy() if hasattr(span, "numpy") else np.asarray(span)


def host_rows(array, rows) -> np.ndarray:
    """Rows (first axis) of a NumPy, Warp or stored array as NumPy, copying no more than the span from first to last row."""
    if isinstance(array, np.ndarray):
        return array[rows]
    first = int(np.min(rows))
    return host_span(array, first, int(np.max(rows)) + 1)[np.asarray(rows) - first]


def _link_pose(model, link: int, before, q) -> np.ndarray:
    kind = JointType(model.link_type[link])
    if kind == JointType.FIXED:
        return compose(before, model.link_pose[link])
    start, joint = int(model.link_q[link]), int(model.link_joint[link])
    if kind == JointType.FREE:
        return np.concatenate([q[..., start : start + 3], _normalised(q[..., start + 3 : start + 7])], axis=-1)
    frame = compose(before, model.joint_pose[joint])
    position, rotation = frame[..., :3], frame[..., 3:]
    axis, offset = model.joint_axis[joint], -model.joint_anchor[joint]
    if kind == JointType.SLIDE:
        offset = axis * (q[..., start, None] - model.q0[start]) + offset
    elif kind == JointType.HINGE:
        half = 0.5 * (q[..., start, None] - model.q0[start])
        rotation = quaternion_multiply(rotation, np.concatenate([np.cos(half), np.sin(half) * axis], axis=-1))
    else:
        rotation = quaternion_multiply(rotation, _normalised(q[..., start : start + 4]))
    position = position + _rotate(rotation, offset)
    return np.concatenate([position, np.broadcast_to(rotation, (*position.shape[:-1], 4))], axis=-1)


def _normalised(quaternion) -> np.ndarray:
    length = np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return np.where(length > 0, quaternion / np.where(length > 0, length, 1.0), IDENTITY[3:])


def _rotate(quaternion, vector) -> np.ndarray:
    """v + 2 u x (u x v + w v) for quaternion (w, u): a third of the work of building the matrix."""
    w, u = quaternion[..., :1], quaternion[..., 1:]
    return vector + 2.0 * np.cross(u, np.cross(u, vector) + w * vector)
