"""Rows on coordinates: stops, dry friction, couplings and springs of joints and tendons, servos, all from one launch.

What a row measures is a function of x = Σ a_j q_j (or the angle x = ‖r‖ of a ball joint) and y = Σ b_j q_j: ∂φ/∂q_j = φ_x a_j + φ_y b_j.
Rows of joints and servos take φ at q; those of tendons and couplings where the velocity leads, φ(q ⊕ h v0) − h J v0, as rows between
frames do (`frame_rows.py`).
"""

import warp as wp

from ..real import func, kernel, real, vec3
from ..tree import joints
from ..tree.passes import Topology
from .dispatch import coordinate_law, measure
from .kinds.kind import BETWEEN, ONE_SIDED, WEIGHED
from .kinds.stop import within_reach
from .table import Constants, Coordinates, Rows, RowState, Table, combination, row_rate
from .weights import effective_weight


@func
def coordinates_at(
    table: Table,
    rows: Rows,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    t: real,
    w: int,
    k: int,
) -> Coordinates:
    """x and y at q + t v."""
    at = Coordinates()
    if table.turn[k] >= 0:
        at.x = wp.length(joints.quaternion_log(joints.read_quaternion(q, w, table.turn[k])))
    else:
        at.x = combination(table.a, table, rows, q, v, t, w, k)
    at.y = combination(table.b, table, rows, q, v, t, w, k)
    return at


@func
def coordinate_jacobian(
    table: Table,
    constants: Constants,
    rows: Rows,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    w: int,
    k: int,
    J: wp.array3d(dtype=real),
) -> real:
    """φ and ∂φ/∂q of a row at q; a ball joint that has not turned counts as turned about −x."""
    found = measure(table, constants, coordinates_at(table, rows, q, v, real(0.0), w, k), w, k)
    if table.turn[k] >= 0:
        r = joints.quaternion_log(joints.read_quaternion(q, w, table.turn[k]))
        angle = wp.length(r)
        axis = vec3(real(-1.0), real(0.0), real(0.0))
        if angle > real(0.0):
            axis = r / angle
        for j in range(3):
            J[w, k, j] = found[1] * axis[j]
    else:
        for j in range(rows.support_size[k]):
            J[w, k, j] = found[1] * table.a[k, j] + found[2] * table.b[k, j]
    return found[0]


@kernel
def fill(
    topology: Topology,
    table: Table,
    constants: Constants,
    h: real,
    sigma: real,
    ahead: real,
    lead: real,
    q: wp.array2d(dtype=real),
    q_between: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    M_factor: wp.array3d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    phi: wp.array2d(dtype=real),
    rows: Rows,
):
    """φ, J, w, R, v̂ and bounds of every row on coordinates; R = 0 where it does not act or moves nothing. Launch over worlds.

    φ(q ⊕ ahead v0) − lead J v0 of rows that lead; their J at `q_between`, unless that is empty.
    """
    w = wp.tid()
    for k in range(table.kind.shape[0]):
        if (table.traits[k] & BETWEEN) == 0:
            rows.R[w, k] = real(0.0)
            s = RowState()
            s.phi = coordinate_jacobian(table, constants, rows, q, v0, w, k, rows.J)
            s.rate0 = row_rate(rows, v0, w, k)
            if table.leads[k] != 0:
                at = coordinates_at(table, rows, q, v0, ahead, w, k)
                s.phi = measure(table, constants, at, w, k)[0] - lead * s.rate0
                if q_between.shape[0] > 0:
                    coordinate_jacobian(table, constants, rows, q_between, v0, w, k, rows.J)
                    s.rate0 = row_rate(rows, v0, w, k)
            phi[w, k] = s.phi
            near = bool(True)
            if (table.traits[k] & ONE_SIDED) != 0:
                near = within_reach(s.phi, s.rate0, row_rate(rows, v_star, w, k), rows.pull, h)
            if near:
                weighed = (table.traits[k] & WEIGHED) != 0
                if weighed:
                    s.weight = effective_weight(topology, M_factor, z, w, rows, k)
                    rows.weight[w, k] = s.weight
                s.speed = table.recovery[k]
                s.h = h
                s.sigma = sigma
                law = coordinate_law(table, constants, s, w, k)
                if not weighed or not (s.weight <= real(0.0)):
                    rows.R[w, k] = law[0]
                    rows.v_hat[w, k] = law[1]
                    rows.lower[w, k] = law[2]
                    rows.upper[w, k] = law[3]


# On the tape.


@kernel(twin=True)
def coordinate_errors(
    table: Table,
    constants: Constants,
    rows: Rows,
    ahead: real,
    q: wp.array2d(dtype=real),
    q_between: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    # out
    phi: wp.array2d(dtype=real),
    J: wp.array3d(dtype=real),
):
    """φ(q ⊕ ahead v0), and J at q; of rows that lead at `q_between`. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if (table.traits[k] & BETWEEN) == 0:
        if table.leads[k] != 0:
            phi[w, k] = measure(table, constants, coordinates_at(table, rows, q, v0, ahead, w, k), w, k)[0]
            coordinate_jacobian(table, constants, rows, q_between, v0, w, k, J)
        else:
            phi[w, k] = coordinate_jacobian(table, constants, rows, q, v0, w, k, J)
