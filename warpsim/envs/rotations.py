# SPDX-License-Identifier: Apache-2.0
"""Operations on vectors and unit quaternions `[qw qx qy qz]` (last axis), in any framework of `Arrays`."""

import numpy as np

NUMPY_BY_COLUMNS = 8  # NumPy adds fewer numbers than this one after the other
NARROW = 5  # NumPy copies arrays of fewer columns faster column by column


def summed(values):
    """Sum along the last axis.

    NumPy's own takes six times as long as sums of columns where the axis is short; the bits are the same.
    """
    count = values.shape[-1]
    short = isinstance(values, np.ndarray) and 1 < count < NUMPY_BY_COLUMNS
    if not short or values.dtype not in (np.float32, np.float64):
        return values.sum(-1)
    found = values[..., 0] + values[..., 1]
    for i in range(2, count):
        found += values[..., i]
    return found


def joined(xp, parts):
    """Arrays of as many rows `(rows, …)` side by side. NumPy's own takes three times as long for narrow ones."""
    if xp is not np or parts[0].ndim != 2:
        return xp.concat(parts, axis=-1)
    parts = [np.asarray(x) for x in parts]
    found = np.empty((len(parts[0]), sum(x.shape[1] for x in parts)), np.result_type(*parts))
    first = 0
    for x in parts:
        end = first + x.shape[1]
        if x.shape[1] < NARROW:
            for i in range(first, end):
                found[:, i] = x[:, i - first]
        else:
            found[:, first:end] = x
        first = end
    return found


def stacked(xp, columns):
    """Arrays of one shape as the columns of a last axis. NumPy's own takes twice as long."""
    if xp is not np:
        return xp.stack(columns, axis=-1)
    found = np.empty((*columns[0].shape, len(columns)), np.result_type(*columns))
    for i, column in enumerate(columns):
        found[..., i] = column
    return found


def cross(xp, a, b):
    """a × b."""
    if xp.__name__ == "torch":  # one operation, so that forward and backward passes of a few worlds take a third
        return xp.linalg.cross(*xp.broadcast_tensors(a, b))
    (ax, ay, az), (bx, by, bz) = ([x[..., i] for i in range(3)] for x in (a, b))
    return stacked(xp, [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


def rotated(xp, quaternion, vector):
    """From the body frame to the world: R v."""
    u = quaternion[..., 1:]
    t = 2.0 * cross(xp, u, vector)
    return vector + quaternion[..., :1] * t + cross(xp, u, t)


def rotated_back(xp, quaternion, vector):
    """From the world to the body frame: Rᵀ v."""
    return rotated(xp, conjugate(xp, quaternion), vector)


def conjugate(xp, quaternion):
    """The inverse of a unit quaternion."""
    if xp is np:
        found = -quaternion
        found[..., 0] = quaternion[..., 0]
        return found
    return xp.concat([quaternion[..., :1], -quaternion[..., 1:]], axis=-1)


def product(xp, a, b):
    """Quaternion product: first b, then a."""
    real = a[..., :1] * b[..., :1] - summed(a[..., 1:] * b[..., 1:])[..., None]
    return xp.concat(
        [real, a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + cross(xp, a[..., 1:], b[..., 1:])], axis=-1
    )


def matrix(xp, quaternion):
    """Rotation matrices `(…, 3, 3)`."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, -1) for row in rows], axis=-2)


def norm(vector):
    """Length along the last axis."""
    return summed(vector * vector) ** 0.5
