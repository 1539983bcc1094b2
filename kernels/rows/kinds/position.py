# SPDX-License-Identifier: Apache-2.0
"""Position along an axis e of frame A:

φ = eᵀ R_Aᵀ (p_B − p_A),   a = R_A e
"""

import warp as wp

from ...real import func, vec3
from ...tree import spatial as sp
from .. import bilateral
from ..frames import unit_axis
from ..table import Frames, RowGeometry
from .kind import BETWEEN, WEIGHED, Kind


@func
def geometry(X: Frames) -> RowGeometry:
    """φ and axis."""
    axis = wp.quat_rotate(wp.transform_get_rotation(X.A), unit_axis(X.e))
    row = RowGeometry()
    row.phi = wp.dot(axis, wp.transform_get_translation(X.B) - wp.transform_get_translation(X.A))
    row.axis = sp.join(vec3(), axis)
    return row


KIND = Kind(BETWEEN | WEIGHED, bilateral.equality_law, geometry)
