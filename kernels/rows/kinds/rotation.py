# SPDX-License-Identifier: Apache-2.0
"""Rotation about an axis e of frame A, Q = q_A* q_B with its scalar part q_w ≥ 0:

φ = 2 eᵀ vec(Q),   a = R_A (q_w e + vec(Q) × e): the rotation vector up to third order
"""

import warp as wp

from ...real import func, real, vec3
from ...tree import spatial as sp
from .. import bilateral
from ..frames import relative_quaternion, unit_axis, vector_part
from ..table import Frames, RowGeometry
from .kind import ANGULAR, BETWEEN, WEIGHED, Kind


@func
def geometry(X: Frames) -> RowGeometry:
    """φ and axis."""
    Q = relative_quaternion(X.A, X.B)
    sign = real(1.0)
    if Q[3] < real(0.0):
        sign = real(-1.0)
    e = unit_axis(X.e)
    v = sign * vector_part(Q)
    row = RowGeometry()
    row.phi = real(2.0) * wp.dot(e, v)
    axis = wp.quat_rotate(wp.transform_get_rotation(X.A), sign * Q[3] * e + wp.cross(v, e))
    row.axis = sp.join(axis, vec3())
    return row


KIND = Kind(BETWEEN | ANGULAR | WEIGHED, bilateral.equality_law, geometry)
