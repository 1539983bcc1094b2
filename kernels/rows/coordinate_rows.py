# SPDX-License-Identifier: Apache-2.0
"""Rows on coordinates, all filled by one launch: stops, dry friction, couplings and springs of joints and tendons,
servos.

A row measures a function φ of x = Σ a_j q_j (or the angle x = ‖r‖ of a ball joint) and y = Σ b_j q_j: ∂φ/∂q_j = φ_x a_j
+ φ_y b_j. Rows of joints and servos take φ at q. Rows of tendons and couplings *lead*: they take φ where the velocity
leads, φ(q ⊕ h v0) − h J v0, as rows between frames do (`frame_rows.py`).
"""

import warp as wp

from ..linalg.lanes import lane, lanes
from ..real import func, kernel, real, vec3, vec4
from ..tree import joints
from ..tree.passes import Topology
from .dispatch import coordinate_law, joint_law, joint_measure, measure
from .kinds.kind import ELSEWHERE, ONE_SIDED, PAIRED, WEIGHED
from .kinds.stop import within_reach
from .table import (
    Constants,
    Coordinates,
    Instant,
    Rows,
    Table,
    coefficient,
    combination,
    constant_of,
    joint_state,
    keep_law,
    row_rate,
    row_state,
)
from .weights import team_weights


@func
def coordinate_constants(table: Table, constants: Constants, w: int, k: int) -> Coordinates:
    """The constants of what row k measures."""
    at = Coordinates()
    if (table.traits[k] & ONE_SIDED) != 0:
        at.bound = constant_of(table, constants, w, k)
        at.side = table.side[k]
    if (table.traits[k] & PAIRED) != 0:
        at.x_0 = table.reference[k][0]
        at.y_0 = table.reference[k][1]
        at.c_0 = coefficient(table, constants, 0, w, k)
        at.c = vec4(
            coefficient(table, constants, 1, w, k),
            coefficient(table, constants, 2, w, k),
            coefficient(table, constants, 3, w, k),
            coefficient(table, constants, 4, w, k),
        )
    return at


@func
def coordinates_at(
    table: Table,
    constants: Constants,
    rows: Rows,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    t: real,
    w: int,
    k: int,
) -> Coordinates:
    """x and y at q + t v."""
    at = coordinate_constants(table, constants, w, k)
    if table.turn[k] >= 0:
        r = joints.quaternion_log(joints.read_quaternion(q, w, table.turn[k]))
        at.x = wp.length(r)
        at.axis = vec3(real(1.0), real(0.0), real(0.0))
        if at.x > real(0.0):
            at.axis = r / at.x
    else:
        at.x = combination(table.a, table, rows, q, v, t, w, k)
        if (table.traits[k] & PAIRED) != 0:
            at.y = combination(table.b, table, rows, q, v, t, w, k)
    return at


@func
def write_jacobian(
    table: Table, rows: Rows, at: Coordinates, measured: vec4, w: int, k: int, J: wp.array3d(dtype=real)
):
    """∂φ/∂q of row k. `measured`: (φ, ∂φ/∂x, ∂φ/∂y, …)."""
    for j in range(rows.support_size[k]):
        a_j = table.a[k, j]
        if table.turn[k] >= 0:
            a_j = at.axis[j]
        J[w, k, j] = measured[1] * a_j + measured[2] * table.b[k, j]


def row_filler(state_of, measured, law_of, leading: bool):
    """A device function of all lanes that fills the rows of the kinds that the given functions know. `leading`: whether
    some rows may lead."""

    @func
    def fill_rows(
        topology: Topology,
        table: Table,
        constants: Constants,
        at_step: Instant,
        z: wp.array2d(dtype=vec3),
        phi: wp.array2d(dtype=real),
        rows: Rows,
        w: int,
    ):
        h, v0, v_star = at_step.h, at_step.v0, at_step.v_star
        for begin in range(0, table.kind.shape[0], lanes()):
            k = begin + lane()
            near = bool(False)
            weighed = int(0)
            error = real(0.0)
            rate = real(0.0)
            if k < table.kind.shape[0] and (table.traits[k] & ELSEWHERE) == 0:
                rows.R[w, k] = real(0.0)
                # Points of measurement: 0 at q, 1 where the velocity leads, 2 where the Jacobian is wanted.
                places = int(1)
                if wp.static(leading) and table.leads[k] != 0:
                    places = 2 + wp.min(at_step.q_between.shape[0], 1)
                for n in range(places):
                    at = Coordinates()
                    if n < 2:
                        at = coordinates_at(table, constants, rows, at_step.q, v0, real(n) * at_step.ahead, w, k)
                    else:
                        at = coordinates_at(table, constants, rows, at_step.q_between, v0, real(0.0), w, k)
                    found = measured(table.kind[k], at)
                    if n == 1:
                        error = found[0] - at_step.lead * rate
                    else:
                        if table.turn[k] >= 0 or (table.traits[k] & PAIRED) != 0:  # otherwise J is constant
                            write_jacobian(table, rows, at, found, w, k, rows.J)
                        rate = row_rate(rows, v0, w, k)
                    if n == 0:
                        error = found[0]
                phi[w, k] = error
                near = bool(True)
                if (table.traits[k] & ONE_SIDED) != 0:
                    near = within_reach(error, rate, row_rate(rows, v_star, w, k), rows.pull, h)
                if near and (table.traits[k] & WEIGHED) != 0:
                    weighed = int(1)
            weight = team_weights(topology, at_step.M_factor, z, rows, w, begin, weighed)
            if near:
                s = state_of(table, constants, h, at_step.sigma, w, k)
                s.phi = error
                s.rate0 = rate
                if weighed == 1:
                    s.weight = weight
                    rows.weight[w, k] = weight
                law = law_of(table.kind[k], s)
                if weighed == 0 or not (s.weight <= real(0.0)):
                    keep_law(rows, law, w, k)

    return fill_rows


fill_rows = row_filler(row_state, measure, coordinate_law, leading=True)
fill_joint_rows = row_filler(joint_state, joint_measure, joint_law, leading=False)


@kernel(lanes=True, shares="dofs")
def fill(
    topology: Topology,
    table: Table,
    constants: Constants,
    at_step: Instant,
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    phi: wp.array2d(dtype=real),
    rows: Rows,
):
    """φ, J, w, R, v̂ and bounds of every row on coordinates. R = 0 if the row does not act or moves nothing. Launch
    over (worlds, lanes).

    For rows that lead, φ is φ(q ⊕ ahead v0) − lead J v0, and J is taken at `q_between` unless that is empty.
    """
    w, _lane = wp.tid()
    fill_rows(topology, table, constants, at_step, z, phi, rows, w)


@kernel(part="joints", lanes=True, shares="dofs", registers=64)
def fill_joints(
    topology: Topology,
    table: Table,
    constants: Constants,
    at_step: Instant,
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    phi: wp.array2d(dtype=real),
    rows: Rows,
):
    """`fill` for models whose rows are all of joints. Most robots have no others and need not wait for their
    compilation."""
    w, _lane = wp.tid()
    fill_joint_rows(topology, table, constants, at_step, z, phi, rows, w)
