# SPDX-License-Identifier: Apache-2.0
"""Rows between two frames A and B: what their kinds share. φ̇ = a · (motion of B relative to A), with exact Jacobians.

The axis a = (angular, linear) in the world takes the relative angular velocity, and the relative velocity of the points of A and B
that are at B's origin. R_A has the axes x, y, z of A as columns; e is the row's axis in A.

A connect is 3 positions, a weld 3 and 3 rotations, a hinge 3 and 2 tilts, a slide 2 and 3 rotations. When B turns by ω, the
relative orientation Q = q_A* q_B changes by δQ = ½ (0, R_Aᵀω) Q.
"""

import warp as wp

from ..real import func, real, transform, vec3, vec4
from ..tree import spatial as sp
from .table import FrameMotion


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


@func
def quaternion_change(motion: FrameMotion, Q: vec4) -> vec4:
    """δQ, scalar last."""
    turn = real(0.5) * wp.quat_rotate_inv(wp.transform_get_rotation(motion.X.A), sp.angular(motion.twist))
    v = vector_part(Q)
    change = Q[3] * turn + wp.cross(turn, v)
    return vec4(change[0], change[1], change[2], -wp.dot(turn, v))
