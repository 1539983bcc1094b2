# SPDX-License-Identifier: Apache-2.0
"""Tilt of B's z axis against A's, about the axis e = x or y of A, with b = R_Aᵀ z_B:

φ = eᵀ (z × b),   a = R_A (b_z e − (eᵀb) z): the z axes agree
"""

import warp as wp

from ...real import func, real, vec3
from ...tree import spatial as sp
from .. import bilateral
from ..frames import unit_axis
from ..table import Frames, RowGeometry
from .kind import ANGULAR, BETWEEN, WEIGHED, Kind


@func
def geometry(X: Frames) -> RowGeometry:
    """φ and axis."""
    q_A = wp.transform_get_rotation(X.A)
    z = vec3(real(0.0), real(0.0), real(1.0))
    b = wp.quat_rotate_inv(q_A, wp.quat_rotate(wp.transform_get_rotation(X.B), z))
    e = unit_axis(X.e)
    row = RowGeometry()
    row.phi = wp.dot(e, wp.cross(z, b))
    row.axis = sp.join(wp.quat_rotate(q_A, b[2] * e - wp.dot(e, b) * z), vec3())
    return row


KIND = Kind(BETWEEN | ANGULAR | WEIGHED, bilateral.equality_law, geometry)
