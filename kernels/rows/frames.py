# SPDX-License-Identifier: Apache-2.0
"""What all kinds of rows between two frames A and B share. φ̇ = a · (motion of B relative to A), with exact Jacobians.

The axis a = (angular, linear), in world axes, multiplies the relative angular velocity and the relative velocity of the
two points of A and B that are at B's origin. R_A has the axes x, y, z of A as columns; e is the row's axis in A.

A connect has 3 positions, a weld 3 positions and 3 rotations, a hinge 3 positions and 2 tilts, a slide 2 positions and
3 rotations.
"""

import warp as wp

from ..real import func, real, transform, vec3, vec4


@func
def unit_axis(i: int) -> vec3:
    e = vec3(real(1.0), real(0.0), real(0.0))
    if i == 1:
        e = vec3(real(0.0), real(1.0), real(0.0))
    elif i == 2:
        e = vec3(real(0.0), real(0.0), real(1.0))
    return e


@func
def relative_quaternion(X_A: transform, X_B: transform) -> vec4:
    """Q = q_A* q_B, scalar last."""
    Q = wp.quat_inverse(wp.transform_get_rotation(X_A)) * wp.transform_get_rotation(X_B)
    return vec4(Q[0], Q[1], Q[2], Q[3])


@func
def vector_part(Q: vec4) -> vec3:
    return vec3(Q[0], Q[1], Q[2])
