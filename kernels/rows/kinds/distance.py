# SPDX-License-Identifier: Apache-2.0
"""Distance of the two origins, held at a length:

φ = ‖p_B − p_A‖ − length,   a = (p_B − p_A)/‖p_B − p_A‖
"""

import warp as wp

from ...real import func, real, vec3
from ...tree import spatial as sp
from .. import bilateral
from ..table import Frames, RowGeometry
from .kind import BETWEEN, WEIGHED, Kind


@func
def length_row(X: Frames) -> RowGeometry:
    """The distance as φ, with its axis. If the points coincide, the axis is x."""
    d = wp.transform_get_translation(X.B) - wp.transform_get_translation(X.A)
    length = real(0.0)
    axis = vec3(real(1.0), real(0.0), real(0.0))
    if d[0] != real(0.0) or d[1] != real(0.0) or d[2] != real(0.0):
        length = wp.length(d)
        axis = d / length
    row = RowGeometry()
    row.phi = length
    row.axis = sp.join(vec3(), axis)
    return row


@func
def geometry(X: Frames) -> RowGeometry:
    """φ and axis."""
    measured = length_row(X)
    row = RowGeometry()
    row.phi = measured.phi - X.c
    row.axis = measured.axis
    return row


KIND = Kind(BETWEEN | WEIGHED, bilateral.equality_law, geometry, radial=True)
