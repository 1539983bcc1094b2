# SPDX-License-Identifier: Apache-2.0
"""Distance of the two origins between two stops: φ = ‖p_B − p_A‖ − shortest, or longest − ‖p_B − p_A‖; the law of
`stop.py`."""

from ...real import func
from ..table import Frames, RowGeometry
from . import distance, stop
from .kind import BETWEEN, ONE_SIDED, WEIGHED, Kind


@func
def geometry(X: Frames) -> RowGeometry:
    """φ and axis."""
    measured = distance.length_row(X)
    row = RowGeometry()
    row.phi = X.side * (measured.phi - X.c)
    row.axis = X.side * measured.axis
    return row


KIND = Kind(BETWEEN | ONE_SIDED | WEIGHED, stop.stop_law, geometry, radial=True)
