# SPDX-License-Identifier: Apache-2.0
"""Wrenches of spatial tendons on the bodies that they touch. As in MuJoCo, they are not part of what the joints bear.

The tension of a tendon is the force along ∂L/∂q, negative if it pulls. It is Σ c γ/h over its rows (stops, spring, dry
friction, couplings, actuators), with c = g ∂φ/∂x or g ∂φ/∂y, plus Σ g f over its motors. `forces/spatial_tendon.py`
computes the wrenches per unit tension.
"""

import warp as wp

from ..forces.actuators import Actuators, constant_force
from ..forces.spatial_tendon import Segments, Sites
from ..real import kernel, real, struct, transform, vec3, vec6
from ..rows.dispatch import measure
from ..rows.line_rows import LineRows, line_coordinates
from ..rows.table import Constants, Rows, Table
from ..tree import spatial as sp
from ..tree.passes import Topology
from .reactions import force_about_reference


@struct
class Strings:
    """The rows and motors that pull at each spatial tendon; shared by all worlds."""

    row_begin: wp.array(dtype=int)  # (tendons + 1,)
    row: wp.array(dtype=int)  # index in `LineRows`
    end: wp.array(dtype=int)  # 0: the tendon is the row's x, 1: its y
    motor_begin: wp.array(dtype=int)
    motor: wp.array(dtype=int)  # actuators without a row
    gear: wp.array(dtype=real)


@kernel(twin=True)
def string_tensions(
    strings: Strings,
    table: Table,
    constants: Constants,
    rows: Rows,
    on: LineRows,
    length: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    gamma: wp.array2d(dtype=real),
    h: real,
    actuators: Actuators,
    # out
    tension: wp.array2d(dtype=real),
):
    """The force along each spatial tendon. Launch over (worlds, spatial tendons)."""
    w, t = wp.tid()
    total = real(0.0)
    for i in range(strings.row_begin[t], strings.row_begin[t + 1]):
        k = on.row[strings.row[i]]
        if rows.R[w, k] > real(0.0):
            end = strings.end[i]
            slope = measure(table.kind[k], line_coordinates(table, constants, rows, on, length, q, w, strings.row[i]))
            total += on.gear[strings.row[i], end] * slope[1 + end] * gamma[w, k] / h
    for i in range(strings.motor_begin[t], strings.motor_begin[t + 1]):
        total += strings.gear[i] * constant_force(actuators, w, strings.motor[i])
    tension[w, t] = total


@kernel(twin=True)
def string_wrenches(
    topology: Topology,
    sites: Sites,
    segments: Segments,
    tension: wp.array2d(dtype=real),
    point: wp.array2d(dtype=vec3),
    force: wp.array2d(dtype=vec3),
    couple: wp.array2d(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    # out
    link_F: wp.array2d(dtype=vec6),
):
    """Adds the wrenches of every tendon to the links of its sites and geoms. Launch over worlds."""
    w = wp.tid()
    for t in range(tension.shape[1]):
        for s in range(segments.begin[t], segments.begin[t + 1]):
            for k in range(3):
                l = segments.geom_link[s]
                if k != 1:
                    l = sites.link[segments.site[s, k / 2]]
                if l >= 0:
                    i = 3 * s + k
                    f = sp.join(tension[w, t] * couple[w, i], tension[w, t] * force[w, i])
                    link_F[w, l] += force_about_reference(topology, link_X, f, point[w, i], w, l)
