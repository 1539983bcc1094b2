# SPDX-License-Identifier: Apache-2.0
"""Joint types: the transform X_J(q), the motion subspace, and q' = q (+) h v on the manifold.

Free joint: q = (x y z, qw qx qy qz), v = (linear velocity in world axes, angular velocity in body axes). Ball joint: q
= (qw qx qy qz), v = angular velocity in child axes. Hinges [rad] and slides [m] are scalars, zero at q0.
"""

import warp as wp

from ..real import func, mat33, quat, real, transform, vec3, vec6

FREE = wp.constant(0)
BALL = wp.constant(1)
SLIDE = wp.constant(2)
HINGE = wp.constant(3)
FIXED = wp.constant(4)

# [rad] Below this angle, the next term of the series is under round-off.
SMALL_ANGLE = {wp.float32: 1.0e-2, wp.float64: 1.0e-4}
SERIES_ANGLE = 0.1  # [rad] below it the closed forms of dexp and dlog cancel; their series are exact to 1e-15


# Bounds of a quaternion's length. Beyond them it is a mistake and not a rotation with rounding. 0 has no direction at
# all.
SHORTEST_QUATERNION = 1.0e-6
LONGEST_QUATERNION = 1.0e6

small = wp.constant(real(SMALL_ANGLE[real]))


@func
def unit_quaternion(a: quat) -> quat:
    """a / |a|. Not a number where |a| is outside the bounds above, so that the world is flagged NONFINITE."""
    square = wp.dot(a, a)
    if square > real(SHORTEST_QUATERNION) * real(SHORTEST_QUATERNION):
        if square < real(LONGEST_QUATERNION) * real(LONGEST_QUATERNION):
            return wp.normalize(a)
    return quat(real(wp.nan), real(wp.nan), real(wp.nan), real(wp.nan))


@func
def read_quaternion(q: wp.array2d(dtype=real), w: int, i: int) -> quat:
    """The normalized quaternion stored scalar first at q[w, i:i+4]."""
    return unit_quaternion(quat(q[w, i + 1], q[w, i + 2], q[w, i + 3], q[w, i]))


@func
def read_pose(poses: wp.array3d(dtype=real), row: int, i: int) -> transform:
    """The pose stored as (x y z, qw qx qy qz) at poses[row, i], its quaternion normalized."""
    p = vec3(poses[row, i, 0], poses[row, i, 1], poses[row, i, 2])
    r = unit_quaternion(quat(poses[row, i, 4], poses[row, i, 5], poses[row, i, 6], poses[row, i, 3]))
    return transform(p, r)


@func
def placed(link_X: wp.array2d(dtype=transform), w: int, l: int, X: transform) -> transform:
    """World pose of X, a pose in link l (-1: in the world)."""
    found = X
    if l >= 0:
        found = link_X[w, l] * X
    return found


@func
def quaternion_exp(r: vec3) -> quat:
    """Unit quaternion of the rotation vector r, by a series where the angle is small."""
    x = wp.dot(r, r)
    c = real(1.0) - x / real(8.0) + x * x / real(384.0)
    s = real(0.5) - x / real(48.0) + x * x / real(3840.0)
    if x > small * small:
        angle = wp.sqrt(x)
        c = wp.cos(real(0.5) * angle)
        s = wp.sin(real(0.5) * angle) / angle
    return quat(s * r[0], s * r[1], s * r[2], c)


@func
def quaternion_log(a: quat) -> vec3:
    """Rotation vector of a unit quaternion, of length at most pi."""
    sign = real(1.0)
    if a[3] < real(0.0):
        sign = real(-1.0)
    u = vec3(sign * a[0], sign * a[1], sign * a[2])
    c = sign * a[3]
    x = wp.dot(u, u)
    factor = real(2.0) + x / real(3.0)
    if x > small * small:
        s = wp.sqrt(x)
        factor = real(2.0) * wp.atan2(s, c) / s
    return factor * u


@func
def rotation_dexp(r: vec3) -> mat33:
    """Right Jacobian of the exponential: exp(r + dr) = exp(r) exp(dexp(r) dr) to first order in dr."""
    x = wp.dot(r, r)
    b = real(0.5) - x * (real(1.0) / real(24.0) - x * (real(1.0) / real(720.0) - x / real(40320.0)))
    c = real(1.0) / real(6.0) - x * (real(1.0) / real(120.0) - x * (real(1.0) / real(5040.0) - x / real(362880.0)))
    if x > real(SERIES_ANGLE) * real(SERIES_ANGLE):
        angle = wp.sqrt(x)
        half = wp.sin(real(0.5) * angle)
        b = real(2.0) * half * half / x
        c = (angle - wp.sin(angle)) / (x * angle)
    return wp.identity(3, real) - b * wp.skew(r) + c * (wp.outer(r, r) - x * wp.identity(3, real))


@func
def rotation_dlog(r: vec3) -> mat33:
    """Inverse of `rotation_dexp`, for angles up to pi."""
    x = wp.dot(r, r)
    c = real(1.0) / real(12.0) + x * (real(1.0) / real(720.0) + x * (real(1.0) / real(30240.0) + x / real(1209600.0)))
    if x > real(SERIES_ANGLE) * real(SERIES_ANGLE):
        half = real(0.5) * wp.sqrt(x)
        c = (real(1.0) - half * wp.cos(half) / wp.sin(half)) / x
    return wp.identity(3, real) + real(0.5) * wp.skew(r) + c * (wp.outer(r, r) - x * wp.identity(3, real))


@func
def joint_transform(
    kind: int, axis: vec3, q: wp.array2d(dtype=real), q0: wp.array(dtype=real), w: int, i: int
) -> transform:
    """X_J: pose of the moved joint frame in the joint frame (for a free joint: in the world)."""
    X = transform(vec3(real(0.0), real(0.0), real(0.0)), quat(real(0.0), real(0.0), real(0.0), real(1.0)))
    if kind == HINGE:
        half = real(0.5) * (q[w, i] - q0[i])
        s = wp.sin(half)
        X = transform(vec3(real(0.0), real(0.0), real(0.0)), quat(s * axis[0], s * axis[1], s * axis[2], wp.cos(half)))
    elif kind == SLIDE:
        X = transform((q[w, i] - q0[i]) * axis, quat(real(0.0), real(0.0), real(0.0), real(1.0)))
    elif kind == BALL:
        X = transform(vec3(real(0.0), real(0.0), real(0.0)), read_quaternion(q, w, i))
    elif kind == FREE:
        X = transform(vec3(q[w, i], q[w, i + 1], q[w, i + 2]), read_quaternion(q, w, i + 3))
    return X


@func
def write_turned(q: wp.array2d(dtype=real), w: int, i: int, turn: quat, q_next: wp.array2d(dtype=real)):
    """Write the quaternion at q[w, i:i+4], turned by `turn` in its own axes and normalized, to q_next[w, i:i+4]."""
    a = unit_quaternion(read_quaternion(q, w, i) * turn)
    q_next[w, i] = a[3]
    q_next[w, i + 1] = a[0]
    q_next[w, i + 2] = a[1]
    q_next[w, i + 3] = a[2]


@func
def write_rotated(q: wp.array2d(dtype=real), w: int, i: int, step: vec3, q_next: wp.array2d(dtype=real)):
    """`write_turned` by a rotation vector."""
    write_turned(q, w, i, quaternion_exp(step), q_next)


@func
def advance(
    kind: int,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    h: real,
    w: int,
    i: int,
    j: int,
    q_next: wp.array2d(dtype=real),
):
    """q_next = q (+) h v for the joint whose coordinates start at i and velocities at j."""
    if kind == HINGE or kind == SLIDE:
        q_next[w, i] = q[w, i] + h * v[w, j]
    elif kind == BALL:
        write_rotated(q, w, i, h * vec3(v[w, j], v[w, j + 1], v[w, j + 2]), q_next)
    elif kind == FREE:
        q_next[w, i] = q[w, i] + h * v[w, j]
        q_next[w, i + 1] = q[w, i + 1] + h * v[w, j + 1]
        q_next[w, i + 2] = q[w, i + 2] + h * v[w, j + 2]
        write_rotated(q, w, i + 3, h * vec3(v[w, j + 3], v[w, j + 4], v[w, j + 5]), q_next)


@func
def dofs(kind: int) -> int:
    """Degrees of freedom of a joint type."""
    n = int(0)
    if kind == FREE:
        n = 6
    elif kind == BALL:
        n = 3
    elif kind == HINGE or kind == SLIDE:
        n = 1
    return n


@func
def coordinates(kind: int) -> int:
    """Position coordinates of a joint type."""
    n = dofs(kind)
    if kind == FREE or kind == BALL:
        n += 1
    return n


@func
def spring_deflection(
    kind: int, q: wp.array2d(dtype=real), reference: wp.array2d(dtype=real), w: int, i: int, j: int
) -> vec6:
    """q - reference in the tangent space, joint by joint. For rotations: the rotation vector from the reference."""
    x = vec6()
    row = w % reference.shape[0]
    if kind == HINGE or kind == SLIDE:
        x = vec6(q[w, i] - reference[row, j], real(0.0), real(0.0), real(0.0), real(0.0), real(0.0))
    elif kind == BALL:
        rest = quaternion_exp(vec3(reference[row, j], reference[row, j + 1], reference[row, j + 2]))
        r = quaternion_log(wp.quat_inverse(rest) * read_quaternion(q, w, i))
        x = vec6(r[0], r[1], r[2], real(0.0), real(0.0), real(0.0))
    elif kind == FREE:
        rest = quaternion_exp(vec3(reference[row, j + 3], reference[row, j + 4], reference[row, j + 5]))
        r = quaternion_log(wp.quat_inverse(rest) * read_quaternion(q, w, i + 3))
        x = vec6(
            q[w, i] - reference[row, j],
            q[w, i + 1] - reference[row, j + 1],
            q[w, i + 2] - reference[row, j + 2],
            r[0],
            r[1],
            r[2],
        )
    return x
