# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics on the host, in NumPy: body poses of recorded positions for export, plots and pictures.

One pass over the links in order, X_link = X_parent * joint_pose * J(q) * translate(-anchor), vectorized over every
leading axis of q. Memory is about three times the result; use `body_pose_chunks` for long trajectories.
"""

import numpy as np

from warpsim.device.array_module import to_host
from warpsim.model.geometry import IDENTITY, compose, quaternion_multiply
from warpsim.model.model import JointType

CHUNK_BYTES = 4 * 2**20  # of link poses held at a time by `body_pose_chunks`


def link_poses(model, q, mocap=None) -> np.ndarray:
    """Poses `(..., nlink, 7)` of all links in the world frame, `[x y z qw qx qy qz]`, float64, for `q (..., nq)`.

    `mocap (..., nmocap, 7)`: poses of the mocap bodies; None: their poses in the model. Quaternions of mocap bodies and
    of free and ball joints are normalized first. Raises `ValueError` where the last axis of q is not nq.
    """
    q = np.asarray(q, dtype=float)
    if q.ndim == 0 or q.shape[-1] != model.nq:
        raise ValueError(f"q has shape {q.shape}; its last axis must be model.nq = {model.nq}")
    if mocap is not None:
        mocap = np.broadcast_to(mocap, (*q.shape[:-1], *np.shape(mocap)[-2:]))
    return np.ascontiguousarray(np.moveaxis(_components(model, q, mocap), (0, 1), (-2, -1)))


def _components(model, q, mocap=None) -> np.ndarray:
    """Poses `(nlink, 7, ...)` for `q (..., nq)` and `mocap (..., nmocap, 7)` or None.

    The component axis comes first, which makes NumPy several times as fast.
    """
    q = np.ascontiguousarray(np.moveaxis(q, -1, 0), dtype=float)
    poses = np.empty((model.nlink, 7, *q.shape[1:]))
    given = {} if mocap is None else {int(link): i for i, link in enumerate(model.mocap_links)}
    for link in range(model.nlink):
        if link in given:
            pose = np.moveaxis(np.asarray(mocap, dtype=float)[..., given[link], :], -1, 0)
            poses[link, :3], poses[link, 3:] = pose[:3], _normalised(pose[3:])
            continue
        parent = int(model.link_parent[link])
        _place(model, link, IDENTITY if parent < 0 else poses[parent], q, poses[link])
    return poses


def body_poses(model, q, mocap=None) -> np.ndarray:
    """Poses `(..., nbody, 7)` of all bodies in the world frame, `[x y z qw qx qy qz]`, for `q (..., nq)`.

    `mocap` is as in `link_poses`.
    """
    return link_poses(model, q, mocap)[..., model.body_link, :]


def geom_poses(model, bodies) -> np.ndarray:
    """Poses `(..., ngeom, 7)` of all geoms in the world frame from body poses `(..., nbody, 7)`."""
    bodies = np.asarray(bodies, dtype=float)
    world = np.broadcast_to(IDENTITY, (*bodies.shape[:-2], 1, 7))
    return compose(np.concatenate([bodies, world], axis=-2)[..., model.geom_body, :], model.geom_pose)


def body_pose_chunks(model, q, rows, worlds, mocap=None):
    """Yield body poses `(rows in the chunk, len(worlds), nbody, 7)` of `q (frames, all worlds, nq)`, in order.

    `rows` and `worlds` are index arrays. q and `mocap (frames, all worlds, nmocap, 7)` (or None) may be NumPy, Warp or
    stored arrays. Only one chunk of them is on the host at a time.
    """
    for poses in body_component_chunks(model, q, rows, worlds, mocap):
        yield np.ascontiguousarray(np.moveaxis(poses, (0, 1), (-2, -1)))


def body_component_chunks(model, q, rows, worlds, mocap=None):
    """Like `body_pose_chunks`, with the component axis first: `(nbody, 7, rows in the chunk, len(worlds))`."""
    rows, worlds = np.asarray(rows), np.asarray(worlds)
    chosen = slice(None) if np.array_equal(worlds, np.arange(q.shape[1])) else worlds
    in_order = np.array_equal(model.body_link, np.arange(model.nlink))
    for part in row_chunks(rows, q.shape[1] * max(model.nq, 1) * 8):
        chunk = host_rows(q, part)[:, chosen]
        moved = None if mocap is None else host_rows(mocap, part)[:, chosen]
        bad = ~np.isfinite(chunk).all(axis=-1)
        if moved is not None:
            bad |= ~np.isfinite(moved).all(axis=(-2, -1))
        if bad.any():
            row, world = np.argwhere(bad)[0]
            raise ValueError(
                f"q, or a mocap pose, is not finite at frame {part[row]}, world {worlds[world]}; leave that world out "
                "(worlds=[...])"
            )
        for few in row_chunks(np.arange(len(part)), len(worlds) * max(model.nlink, 1) * 7 * 8):
            poses = _components(model, chunk[few], None if moved is None else moved[few])
            yield poses if in_order else poses[model.body_link]


def row_chunks(rows, bytes_per_row: int):
    """Split an index array into consecutive parts of at most `CHUNK_BYTES`, at least one row each."""
    size = max(1, CHUNK_BYTES // max(1, bytes_per_row))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def host_span(array, first: int, stop: int) -> np.ndarray:
    """Consecutive rows (first axis) of a NumPy, Warp, CuPy or stored array as NumPy; of one on the host a view."""
    if 0 in array.shape:  # Warp cannot slice an empty array
        array = to_host(array)
    return to_host(array[first:stop])


def host_rows(array, rows) -> np.ndarray:
    """Rows (first axis) of an array as NumPy; copies at most the span from first to last row."""
    if isinstance(array, np.ndarray):
        return array[rows]
    first = int(np.min(rows))
    return host_span(array, first, int(np.max(rows)) + 1)[np.asarray(rows) - first]


def _place(model, link: int, before, q, out) -> None:
    """Write a link's pose `out (7, ...)` from its parent's pose `before (7, ...)` and positions `q (nq, ...)`."""
    kind = JointType(model.link_type[link])
    if kind == JointType.FIXED:
        position, rotation = _moved(before[:3], before[3:], model.link_pose[link, :3]), before[3:]
        _fill(out, position, _turned(rotation, model.link_pose[link, 3:]))
        return
    start, joint = int(model.link_q[link]), int(model.link_joint[link])
    if kind == JointType.FREE:
        out[:3], out[3:] = q[start : start + 3], _normalised(q[start + 3 : start + 7])
        return
    frame, axis, offset = model.joint_pose[joint], model.joint_axis[joint], -model.joint_anchor[joint]
    position, turn = _moved(before[:3], before[3:], frame[:3]), frame[3:]
    if kind == JointType.SLIDE:
        moved = q[start] - model.q0[start]
        offset = [a * moved + x for a, x in zip(axis, offset, strict=True)]
    elif kind == JointType.HINGE:
        half = 0.5 * (q[start] - model.q0[start])
        cosine, sine = np.cos(half), np.sin(half)
        turn = [a * cosine + b * sine for a, b in zip(turn, quaternion_multiply(turn, [0.0, *axis]), strict=True)]
    else:
        turn = _turned(turn, _normalised(q[start : start + 4]))
    rotation = _turned(before[3:], turn)
    _fill(out, _moved(position, rotation, offset), rotation)


def _fill(out, position, rotation) -> None:
    """Write position and rotation components, each an array or a scalar, into `out (7, ...)`."""
    for k, value in enumerate((*position, *rotation)):
        out[k] = value


def _normalised(quaternion) -> np.ndarray:
    length = np.sqrt(np.sum(np.square(quaternion), axis=0))
    unit = quaternion / np.where(length > 0, length, 1.0)
    unit[0] = np.where(length > 0, unit[0], 1.0)
    return unit


def _turned(a, b) -> list:
    """Hamilton product of quaternions by components, scalar first; a identity b skips the arithmetic."""
    if not isinstance(b, list) and np.array_equal(b, IDENTITY[3:]):
        return list(a)
    (aw, ax, ay, az), (bw, bx, by, bz) = a, b
    return [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]


def _moved(position, rotation, offset) -> list:
    """position + R(rotation) offset by components: v + 2 u x (u x v + w v) for a quaternion (w, u)."""
    if not isinstance(offset, list) and not np.any(offset):
        return list(position)
    (w, x, y, z), (a, b, c) = rotation, offset
    s, t, u = y * c - z * b + w * a, z * a - x * c + w * b, x * b - y * a + w * c
    px, py, pz = position
    return [px + a + 2.0 * (y * u - z * t), py + b + 2.0 * (z * s - x * u), pz + c + 2.0 * (x * t - y * s)]
