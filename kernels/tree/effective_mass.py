# SPDX-License-Identifier: Apache-2.0
"""W = J M⁻¹ Jᵀ of one contact or row, with M = LᵀDL stored by trees. Cost: the sum of depths per column of Jᵀ."""

import warp as wp

from .. import real as device
from ..linalg.lanes import by_device
from ..linalg.vector import scalar
from ..real import func, mat33, real, vec3
from .passes import Topology

ELIMINATE = """
const int* parent = dof_parent.data;
const int* tree = dof_begin.data;
SCALAR* columns = (SCALAR*)z.data;
SCALAR W[6] = {0, 0, 0, 0, 0, 0};
for (int d = last; d >= begin; --d) {
    const SCALAR x = columns[3 * d], y = columns[3 * d + 1], t = columns[3 * d + 2];
    if (x == 0 && y == 0 && t == 0) continue;
    const SCALAR* row = L.data + d * L.shape[1] - tree[d];
    for (int e = parent[d]; e >= 0; e = parent[e]) {
        columns[3 * e] -= row[e] * x;
        columns[3 * e + 1] -= row[e] * y;
        columns[3 * e + 2] -= row[e] * t;
    }
    const SCALAR inverse = 1 / row[d];
    W[0] += inverse * x * x;
    W[1] += inverse * x * y;
    W[2] += inverse * x * t;
    W[3] += inverse * y * y;
    W[4] += inverse * y * t;
    W[5] += inverse * t * t;
}
return wp::mat_t<3, 3, SCALAR>(W[0], W[1], W[2], W[1], W[3], W[4], W[2], W[4], W[5]);
"""
ELIMINATE_ONE = """
const int* parent = dof_parent.data;
SCALAR* column = (SCALAR*)z.data;
SCALAR weight = 0;
for (int d = last; d >= begin; --d) {
    const SCALAR x = column[3 * d];
    if (x == 0) continue;
    const SCALAR* row = L.data + d * L.shape[1] - begin;
    for (int e = parent[d]; e >= 0; e = parent[e]) column[3 * e] -= row[e] * x;
    weight += x * x / row[d];
}
return weight;
"""
# By the lanes of a world: one degree of freedom per lane, or several in larger trees.
TEAM_ELIMINATE = """
const int size = last + 1 - begin, n = L.shape[1];
const SCALAR* rows = L.data + begin * n + begin - dof_begin.data[begin];
SCALAR* columns = (SCALAR*)(z.data + begin);
SCALAR W[6] = {0, 0, 0, 0, 0, 0};
if (size <= LANES) {
    SCALAR x = 0, y = 0, t = 0, inverse = 0;
    if (lane < size) {
        x = columns[3 * lane], y = columns[3 * lane + 1], t = columns[3 * lane + 2];
        inverse = (SCALAR)1 / rows[lane * n + lane];
    }
    for (int d = size - 1; d > 0; --d) {
        const SCALAR x_d = from_lane(x, d);
        const SCALAR y_d = from_lane(y, d);
        const SCALAR t_d = from_lane(t, d);
        if (x_d == 0 && y_d == 0 && t_d == 0) continue;
        if (lane < d) {
            const SCALAR l = rows[d * n + lane];
            x -= l * x_d;
            y -= l * y_d;
            t -= l * t_d;
        }
    }
    if (lane < size) columns[3 * lane] = x, columns[3 * lane + 1] = y, columns[3 * lane + 2] = t;
    W[0] = inverse * x * x, W[1] = inverse * x * y, W[2] = inverse * x * t;
    W[3] = inverse * y * y, W[4] = inverse * y * t, W[5] = inverse * t * t;
} else {
    for (int d = size - 1; d >= 0; --d) {
        const SCALAR x = columns[3 * d], y = columns[3 * d + 1], t = columns[3 * d + 2];
        if (x == 0 && y == 0 && t == 0) continue;
        for (int e = lane; e < d; e += LANES) {
            const SCALAR l = rows[d * n + e];
            columns[3 * e] -= l * x;
            columns[3 * e + 1] -= l * y;
            columns[3 * e + 2] -= l * t;
        }
        if (lane == 0) {
            const SCALAR inverse = (SCALAR)1 / rows[d * n + d];
            W[0] += inverse * x * x, W[1] += inverse * x * y, W[2] += inverse * x * t;
            W[3] += inverse * y * y, W[4] += inverse * y * t, W[5] += inverse * t * t;
        }
        meet();
    }
}
for (int k = 0; k < 6; ++k)
    for (int other = LANES / 2; other > 0; other >>= 1) W[k] += across(W[k], other);
meet();
return wp::mat_t<3, 3, SCALAR>(W[0], W[1], W[2], W[1], W[3], W[4], W[2], W[4], W[5]);
"""
TEAM_ELIMINATE_ONE = """
const int size = last + 1 - begin, n = L.shape[1];
const SCALAR* rows = L.data + begin * n;
SCALAR* column = (SCALAR*)(z.data + begin);
SCALAR weight = 0;
if (size <= LANES) {
    SCALAR x = lane < size ? column[3 * lane] : (SCALAR)0;
    for (int d = size - 1; d > 0; --d) {
        const SCALAR x_d = from_lane(x, d);
        if (x_d != 0 && lane < d) x -= rows[d * n + lane] * x_d;
    }
    if (lane < size) {
        column[3 * lane] = x;
        weight = x * x / rows[lane * n + lane];
    }
} else {
    for (int d = size - 1; d >= 0; --d) {
        const SCALAR x = column[3 * d];
        if (x == 0) continue;
        for (int e = lane; e < d; e += LANES) column[3 * e] -= rows[d * n + e] * x;
        if (lane == 0) weight += x * x / rows[d * n + d];
        meet();
    }
}
for (int other = LANES / 2; other > 0; other >>= 1) weight += across(weight, other);
meet();
return weight;
"""


@device.func_native(by_device(TEAM_ELIMINATE, ELIMINATE).replace("SCALAR", scalar))
def team_eliminate(
    dof_parent: wp.array1d(dtype=int),
    dof_begin: wp.array1d(dtype=int),
    L: wp.array2d(dtype=real),
    z: wp.array1d(dtype=vec3),
    begin: int,
    last: int,
) -> mat33:
    """`eliminate` by all lanes, in one tree that begins at `begin`.

    A `sync` must follow earlier writes of other lanes to z.
    """
    ...


@device.func_native(by_device(TEAM_ELIMINATE_ONE, ELIMINATE_ONE).replace("SCALAR", scalar))
def team_eliminate_one(
    dof_parent: wp.array1d(dtype=int), L: wp.array2d(dtype=real), z: wp.array1d(dtype=vec3), begin: int, last: int
) -> real:
    """`eliminate_one` by all lanes."""
    ...


@device.func_native(ELIMINATE.replace("SCALAR", scalar))
def eliminate(
    dof_parent: wp.array1d(dtype=int),
    dof_begin: wp.array1d(dtype=int),
    L: wp.array2d(dtype=real),
    z: wp.array1d(dtype=vec3),
    begin: int,
    last: int,
) -> mat33:
    """z ← L⁻ᵀz on the dofs begin to last, along the ancestors. Returns zᵀD⁻¹z, which is J M⁻¹ Jᵀ if z held Jᵀ."""
    ...


@device.func_native(ELIMINATE_ONE.replace("SCALAR", scalar))
def eliminate_one(
    dof_parent: wp.array1d(dtype=int), L: wp.array2d(dtype=real), z: wp.array1d(dtype=vec3), begin: int, last: int
) -> real:
    """`eliminate` for the first components of z alone, in one tree that begins at `begin`."""
    ...


@func
def inverse_mass_times(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, begin: int, end: int
) -> mat33:
    """z ← M⁻¹z on the dofs [begin, end) of whole trees, along the ancestors. Returns z_inᵀ M⁻¹ z_in."""
    W = eliminate(topology.dof_parent, topology.dof_begin, L[w], z[w], begin, end - 1)
    for d in range(begin, end):
        first = topology.dof_begin[d]
        x = z[w, d] / L[w, d, d - first]
        e = topology.dof_parent[d]
        while e >= 0:
            x = x - L[w, d, e - first] * z[w, e]
            e = topology.dof_parent[e]
        z[w, d] = x
    return W
