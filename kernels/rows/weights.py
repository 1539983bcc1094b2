# SPDX-License-Identifier: Apache-2.0
"""Inverse effective masses of rows: w = J M⁻¹ Jᵀ [1/kg, 1/(kg m²)] of one row, and the matrix of up to three rows."""

import warp as wp

from ..linalg.lanes import lane, lanes, sync, team_number
from ..real import func, mat33, real, vec3
from ..tree.effective_mass import eliminate, eliminate_one, rows_at_once, team_eliminate_one, team_row_weight
from ..tree.passes import Topology
from .table import Rows


@func
def effective_weight(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, rows: Rows, k: int
) -> real:
    """Inverse effective mass of row k, tree by tree."""
    weight = real(0.0)
    n = rows.support_size[k]
    i = int(0)
    while i < n:
        begin = topology.dof_begin[rows.support[k, i]]
        end = int(i + 1)
        while end < n and topology.dof_begin[rows.support[k, end]] == begin:
            end += 1
        last = rows.support[k, end - 1]
        for d in range(begin, last + 1):
            z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
        for j in range(i, end):
            z[w, rows.support[k, j]] = vec3(rows.J[w, k, j], real(0.0), real(0.0))
        weight += eliminate_one(topology.dof_parent, L[w], z[w], begin, last)
        i = end
    return weight


@func
def team_effective_weight(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, rows: Rows, k: int
) -> real:
    """`effective_weight` by all lanes. A `sync` must follow writes of other lanes to J."""
    weight = real(0.0)
    n = rows.support_size[k]
    i = int(0)
    while i < n:
        begin = topology.dof_begin[rows.support[k, i]]
        end = int(i + 1)
        while end < n and topology.dof_begin[rows.support[k, end]] == begin:
            end += 1
        last = rows.support[k, end - 1]
        for d in range(begin + lane(), last + 1, lanes()):
            z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
        sync()
        for j in range(i + lane(), end, lanes()):
            z[w, rows.support[k, j]] = vec3(rows.J[w, k, j], real(0.0), real(0.0))
        sync()
        weight += team_eliminate_one(topology.dof_parent, L[w], z[w], begin, last)
        i = end
    return weight


@func
def team_weights(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), rows: Rows, w: int, begin: int,
    weighed: int,
) -> real:  # fmt: skip
    """Inverse effective mass of this lane's row, `begin` + lane; 0 if `weighed` is 0."""
    weight = real(0.0)
    count = rows.support_size.shape[0]
    each = rows_at_once(L[w])
    if each > 0:
        k = wp.min(begin + lane(), count - 1)
        for part in range(0, lanes(), each):
            n = int(0)
            if lane() >= part and lane() < part + each:
                n = weighed * rows.support_size[k]
            weight += team_row_weight(topology.dof_begin, L[w], rows.support[k], rows.J[w, k], n, False)[0]
    else:
        sync()
        for of in range(wp.min(lanes(), count - begin)):
            if team_number(weighed, of) == 1:
                found = team_effective_weight(topology, L, z, w, rows, begin + of)
                if lane() == of:
                    weight = found
    return weight


@func
def group_mobility(
    topology: Topology, rows: Rows, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), first: int, n: int, w: int
) -> mat33:
    """W = J M⁻¹ Jᵀ of n ≤ 3 rows from `first` on; the other entries are 0."""
    W = mat33()
    size = rows.support_size[first]
    j = int(0)
    while j < size:
        begin = topology.dof_begin[rows.support[first, j]]
        end = int(j)
        while end < size and topology.dof_begin[rows.support[first, end]] == begin:
            end += 1
        last = rows.support[first, end - 1]
        for d in range(begin, last + 1):
            z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
        for e in range(j, end):
            column = vec3(real(0.0), real(0.0), real(0.0))
            for m in range(n):
                column[m] = rows.J[w, first + m, e]
            z[w, rows.support[first, e]] = column
        W += eliminate(topology.dof_parent, topology.dof_begin, L[w], z[w], begin, last)
        j = end
    return W
