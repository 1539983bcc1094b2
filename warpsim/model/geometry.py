# SPDX-License-Identifier: Apache-2.0
"""Poses `[x y z qw qx qy qz]` and the mass properties of primitive shapes, on the host in NumPy."""

import numpy as np

IDENTITY = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])  # component-wise factor that conjugates a quaternion


def quaternion_multiply(a, b) -> np.ndarray:
    """Hamilton product of quaternions `(..., 4)`, scalar first."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    aw, ax, ay, az = (a[..., i] for i in range(4))
    bw, bx, by, bz = (b[..., i] for i in range(4))
    product = np.empty(np.broadcast_shapes(a.shape, b.shape))
    product[..., 0] = aw * bw - ax * bx - ay * by - az * bz
    product[..., 1] = aw * bx + ax * bw + ay * bz - az * by
    product[..., 2] = aw * by - ax * bz + ay * bw + az * bx
    product[..., 3] = aw * bz + ax * by - ay * bx + az * bw
    return product


def rotation_matrix(quaternion) -> np.ndarray:
    """Rotation matrices `(..., 3, 3)` of unit quaternions `(..., 4)`, scalar first."""
    quaternion = np.asarray(quaternion, float)
    w, x, y, z = (quaternion[..., i] for i in range(4))
    matrix = np.empty((*quaternion.shape[:-1], 3, 3))
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            matrix[..., i, j] = entry
    return matrix


def rotate(quaternion, vector) -> np.ndarray:
    """Rotate `vector (..., 3)` by unit `quaternion (..., 4)`."""
    return np.einsum("...ij,...j->...i", rotation_matrix(quaternion), np.asarray(vector, float))


def compose(a, b) -> np.ndarray:
    """Pose `a b`: first b, then a."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    return np.concatenate(
        [a[..., :3] + rotate(a[..., 3:], b[..., :3]), quaternion_multiply(a[..., 3:], b[..., 3:])], axis=-1
    )


def inverse(a) -> np.ndarray:
    """Inverse of a pose."""
    a = np.asarray(a, float)
    conjugate = CONJUGATE * a[..., 3:]
    return np.concatenate([-rotate(conjugate, a[..., :3]), conjugate], axis=-1)


def axis_angle(axis, angle) -> np.ndarray:
    """Quaternion of a rotation by `angle` [rad] about the unit `axis (3,)`."""
    return np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * np.asarray(axis, float)])


def rotation_quaternion(vector) -> np.ndarray:
    """Unit quaternions `(..., 4)` of rotation vectors `(..., 3)`."""
    r = np.asarray(vector, float)
    half = np.linalg.norm(r, axis=-1, keepdims=True) / 2
    return np.concatenate([np.cos(half), np.sinc(half / np.pi) / 2 * r], axis=-1)


def rotation_vector(quaternion) -> np.ndarray:
    """Rotation vectors `(..., 3)` of unit quaternions; their length is at most pi."""
    q = np.asarray(quaternion, float)
    q = np.where(q[..., :1] < 0, -q, q)
    length = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    factor = np.full_like(length, 2.0)
    np.divide(2 * np.arctan2(length, q[..., :1]), length, out=factor, where=length > 0)
    return factor * q[..., 1:]


def spread(arm) -> np.ndarray:
    """Inertia (3, 3) of a unit mass at the end of `arm (3,)`: the parallel-axis term."""
    return arm @ arm * np.eye(3) - np.outer(arm, arm)


def cross_matrix(vector) -> np.ndarray:
    """The matrix of the cross product: its product with u is `vector` x u."""
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def spatial_inertia(mass, com, inertia) -> np.ndarray:
    """Inertia (6, 6) (angular, linear) about the origin of a body with `inertia (3, 3)` about its center of mass."""
    lever = mass * cross_matrix(com)
    return np.block([[inertia - lever @ cross_matrix(com), lever], [lever.T, mass * np.eye(3)]])


def combine_masses(parts) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, center (3,) and inertia (3, 3) about it of rigidly joined parts [(mass, centre, inertia about it)]."""
    mass = float(sum(m for m, _, _ in parts))
    if mass == 0:
        return 0.0, np.zeros(3), sum((inertia for _, _, inertia in parts), np.zeros((3, 3)))
    centre = sum(m * c for m, c, _ in parts) / mass
    total = np.zeros((3, 3))
    for m, c, inertia in parts:
        total += inertia + m * spread(c - centre)
    return mass, centre, total


def roll_pitch_yaw(angles) -> np.ndarray:
    """Quaternion of URDF's `rpy` [rad]: about the fixed axes x, then y, then z."""
    x, y, z = (axis_angle(axis, angle) for axis, angle in zip(np.eye(3), angles, strict=True))
    return quaternion_multiply(z, quaternion_multiply(y, x))


def matrix_quaternion(matrix) -> np.ndarray:
    """Unit quaternion `(4,)`, scalar first, of a rotation matrix: the top eigenvector of a symmetric matrix."""
    m = np.asarray(matrix, float)
    k = np.array(
        [
            [m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [0, m[0, 0] - m[1, 1] - m[2, 2], m[1, 0] + m[0, 1], m[0, 2] + m[2, 0]],
            [0, 0, m[1, 1] - m[0, 0] - m[2, 2], m[2, 1] + m[1, 2]],
            [0, 0, 0, m[2, 2] - m[0, 0] - m[1, 1]],
        ]
    )
    quaternion = np.linalg.eigh(np.triu(k).T)[1][:, -1]
    return quaternion if quaternion[0] >= 0 else -quaternion


def nearest_rotation(linear) -> np.ndarray:
    """The rotation (3, 3) of a linear map with scale; a mirrored map is mirrored back along its last axis."""
    u, _, vt = np.linalg.svd(linear / np.linalg.norm(linear, axis=0))
    turn = u @ vt
    return turn * [1.0, 1.0, -1.0] if np.linalg.det(turn) < 0 else turn
