# SPDX-License-Identifier: Apache-2.0
"""Rows on lines: limits, springs, dry friction and couplings of spatial tendons; actuators on them, on sites and on
cranks.

They are like rows on coordinates (`coordinate_rows.py`), with x = Σ a_j q_j + g ℓ and y alike. ℓ is the length of a
line; its moment arms are ∂ℓ/∂q. A coupling may have a fixed tendon on one side and a spatial tendon on the other.
Everything is measured at q.
"""

import numpy as np
import warp as wp

from ..real import func, kernel, real, struct, vec3, vec4
from ..tree.passes import Topology
from .coordinate_rows import coordinate_constants
from .dispatch import coordinate_law, measure
from .kinds.kind import ONE_SIDED, PAIRED, WEIGHED
from .kinds.stop import within_reach
from .table import Constants, Coordinates, Instant, Rows, Table, combination, keep_law, row_rate, row_state
from .weights import effective_weight

# Moment arms below this share of the length are rounding errors of 0, where a string runs straight through an axis.
rounded_share = 16.0 * float(np.finfo(wp.dtype_to_numpy(real)).eps)


@struct
class LineRows:
    """Which rows are on lines, and on which lines; shared by all worlds."""

    row: wp.array(dtype=int)  # (n,) index in the table of rows
    line: wp.array2d(dtype=int)  # (n, 2) lines of x and of y; -1: none
    gear: wp.array2d(dtype=real)  # (n, 2)
    column: wp.array3d(dtype=int)  # (n, 2, width) column of the moment arm of each dof of the row's support; -1: none


@func
def line_length(on: LineRows, length: wp.array2d(dtype=real), w: int, i: int, end: int) -> real:
    """g ℓ of row i's x (end 0) or y (end 1)."""
    found = real(0.0)
    if on.line[i, end] >= 0:
        found = on.gear[i, end] * length[w, on.line[i, end]]
    return found


@func
def line_slope(on: LineRows, moment: wp.array2d(dtype=real), w: int, i: int, end: int, j: int) -> real:
    """g ∂ℓ/∂q_j."""
    found = real(0.0)
    if on.column[i, end, j] >= 0:
        found = on.gear[i, end] * moment[w, on.column[i, end, j]]
    return found


@func
def is_at_dead_point(
    rows: Rows, on: LineRows, length: wp.array2d(dtype=real), w: int, i: int, J: wp.array3d(dtype=real)
) -> bool:
    """Whether row i moves nothing but rounding errors."""
    k = on.row[i]
    reach = wp.abs(line_length(on, length, w, i, 0)) + wp.abs(line_length(on, length, w, i, 1))
    found = bool(True)
    for j in range(rows.support_size[k]):
        if not (wp.abs(J[w, k, j]) <= real(rounded_share) * reach):
            found = bool(False)
    return found


@func
def line_coordinates(
    table: Table,
    constants: Constants,
    rows: Rows,
    on: LineRows,
    length: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    w: int,
    i: int,
) -> Coordinates:
    """x and y of row i at q."""
    k = on.row[i]
    at = coordinate_constants(table, constants, w, k)
    at.x = combination(table.a, table, rows, q, q, real(0.0), w, k) + line_length(on, length, w, i, 0)
    if (table.traits[k] & PAIRED) != 0:
        at.y = combination(table.b, table, rows, q, q, real(0.0), w, k) + line_length(on, length, w, i, 1)
    return at


@func
def write_slopes(
    table: Table, rows: Rows, on: LineRows, moment: wp.array2d(dtype=real), measured: vec4, w: int, i: int,
    J: wp.array3d(dtype=real),
):  # fmt: skip
    """∂φ/∂q of row i. `measured`: (φ, ∂φ/∂x, ∂φ/∂y, …)."""
    k = on.row[i]
    for j in range(rows.support_size[k]):
        x_j = table.a[k, j] + line_slope(on, moment, w, i, 0, j)
        y_j = table.b[k, j] + line_slope(on, moment, w, i, 1, j)
        J[w, k, j] = measured[1] * x_j + measured[2] * y_j


@kernel
def fill(
    topology: Topology,
    table: Table,
    constants: Constants,
    on: LineRows,
    at_step: Instant,
    length: wp.array2d(dtype=real),
    moment: wp.array2d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    phi: wp.array2d(dtype=real),
    rows: Rows,
):
    """φ, J, w, R, v̂ and bounds of the rows on lines; R = 0 if a row does not act or moves nothing. Launch over
    worlds."""
    w = wp.tid()
    for i in range(on.row.shape[0]):
        k = on.row[i]
        rows.R[w, k] = real(0.0)
        found = measure(table.kind[k], line_coordinates(table, constants, rows, on, length, at_step.q, w, i))
        write_slopes(table, rows, on, moment, found, w, i, rows.J)
        phi[w, k] = found[0]
        rate = row_rate(rows, at_step.v0, w, k)
        near = bool(True)
        if (table.traits[k] & ONE_SIDED) != 0:
            near = within_reach(found[0], rate, row_rate(rows, at_step.v_star, w, k), rows.pull, at_step.h)
        if near:
            s = row_state(table, constants, at_step.h, at_step.sigma, w, k)
            s.phi = found[0]
            s.rate0 = rate
            weighed = (table.traits[k] & WEIGHED) != 0
            if weighed:
                s.weight = effective_weight(topology, at_step.M_factor, z, w, rows, k)
                rows.weight[w, k] = s.weight
            law = coordinate_law(table.kind[k], s)
            if not weighed or not (s.weight <= real(0.0) or is_at_dead_point(rows, on, length, w, i, rows.J)):
                keep_law(rows, law, w, k)


@kernel(taped=True)
def errors(
    table: Table,
    constants: Constants,
    rows: Rows,
    on: LineRows,
    length: wp.array2d(dtype=real),
    moment: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    # out
    phi: wp.array2d(dtype=real),
    J: wp.array3d(dtype=real),
):
    """φ and J of the rows on lines at q. Launch over (worlds, rows on lines)."""
    w, i = wp.tid()
    found = measure(table.kind[on.row[i]], line_coordinates(table, constants, rows, on, length, q, w, i))
    phi[w, on.row[i]] = found[0]
    write_slopes(table, rows, on, moment, found, w, i, J)
