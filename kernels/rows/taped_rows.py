# SPDX-License-Identifier: Apache-2.0
"""The scalar rows on the tape: r −= Jᵀγ, from their errors and Jacobians. The active set and the rows that can move are
frozen."""

import warp as wp

from ..real import kernel, real
from ..tree.passes import Topology
from . import dispatch
from .coordinate_rows import coordinates_at, write_jacobian
from .frame_rows import led_error
from .kinds.kind import BETWEEN, ELSEWHERE
from .table import Constants, Rows, Table, row_state


@kernel(taped=True)
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
    """φ(q ⊕ ahead v0) and J at q; for rows that lead, J at `q_between`. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if (table.traits[k] & ELSEWHERE) == 0:
        at = coordinates_at(table, constants, rows, q, v0, ahead * real(table.leads[k]), w, k)
        found = dispatch.measure(table.kind[k], at)
        phi[w, k] = found[0]
        if table.leads[k] != 0:
            there = coordinates_at(table, constants, rows, q_between, v0, real(0.0), w, k)
            write_jacobian(table, rows, there, dispatch.measure(table.kind[k], there), w, k, J)
        else:
            write_jacobian(table, rows, at, found, w, k, J)


@kernel(taped=True)
def diagonal(
    topology: Topology,
    M: wp.array3d(dtype=real),
    # out
    inertia: wp.array2d(dtype=real),
):
    """M_dd, the diagonal of M. Launch over (worlds, nv)."""
    w, d = wp.tid()
    inertia[w, d] = M[w, d, d - topology.dof_begin[d]]


@kernel(taped=True)
def taped_rate(
    rows: Rows,
    J: wp.array3d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    rate: wp.array2d(dtype=real),
):
    """rate += J v. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if rows.R[w, k] > real(0.0):
        for j in range(rows.support_size[k]):
            rate[w, k] += J[w, k, j] * v[w, rows.support[k, j]]


@kernel(taped=True)
def row_impulse(
    table: Table,
    constants: Constants,
    rows: Rows,
    h: real,
    sigma: real,
    lead: real,
    phi: wp.array2d(dtype=real),
    weight: wp.array2d(dtype=real),
    floor: wp.array2d(dtype=real),
    rate: wp.array2d(dtype=real),
    rate0: wp.array2d(dtype=real),
    # out
    gamma: wp.array2d(dtype=real),
):
    """γ from the rates at v and v0. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if rows.R[w, k] > real(0.0):
        s = row_state(table, constants, h, sigma, w, k)
        s.rate = rate[w, k]
        s.rate0 = rate0[w, k]
        if rows.touch.shape[1] > 0:
            s.touch = rows.touch[w, k]
        if table.leads[k] != 0:
            s.phi = led_error(table, constants, phi[w, k], lead, rate0[w, k], w, k)
        else:
            s.phi = phi[w, k]
        if (table.traits[k] & BETWEEN) != 0:
            s.weight = wp.max(weight[w, k], floor[w, k])
            s.speed = rows.speed[w, k]
        else:
            s.weight = weight[w, k]
        gamma[w, k] = dispatch.row_impulse(table.kind[k], s)


@kernel(taped=True)
def row_residual(
    rows: Rows,
    J: wp.array3d(dtype=real),
    gamma: wp.array2d(dtype=real),
    # out
    r: wp.array2d(dtype=real),
):
    """r −= Jᵀγ, one entry of J per thread. Launch over (worlds, rows, width)."""
    w, k, j = wp.tid()
    if rows.R[w, k] > real(0.0) and j < rows.support_size[k]:
        wp.atomic_add(r, w, rows.support[k, j], -J[w, k, j] * gamma[w, k])
