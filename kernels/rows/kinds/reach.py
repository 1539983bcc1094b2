"""Distance of the origins between two stops: φ = ‖p_B − p_A‖ − shortest, or longest − ‖p_B − p_A‖; the law of `stop.py`."""

from ...real import func, vec6
from ..table import Constants, FrameMotion, Frames, RowGeometry, Table, bound
from . import distance, stop
from .kind import BETWEEN, ONE_SIDED, WEIGHED, Kind


@func
def geometry(table: Table, constants: Constants, X: Frames, w: int, k: int) -> RowGeometry:
    """φ and axis."""
    measured = distance.length_row(X)
    row = RowGeometry()
    row.phi = table.side[k] * (measured.phi - bound(table, constants, w, k))
    row.axis = table.side[k] * measured.axis
    return row


@func
def axis_change(table: Table, constants: Constants, motion: FrameMotion, w: int, k: int) -> vec6:
    """As of a distance, on the stop's side; the axis given has that side, twice."""
    return table.side[k] * distance.axis_change(table, constants, motion, w, k)


KIND = Kind(BETWEEN | ONE_SIDED | WEIGHED, stop.stop_law, stop.stop_slopes, geometry, axis_change, radial=True)
