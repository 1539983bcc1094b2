# SPDX-License-Identifier: Apache-2.0
"""Jacobians times directions, and conversion of directions between the tangent space and coordinates.

For a quaternion q of any length, q' = q ∘ (1, δ/2): δq = T δ and δ = 4 Tᵀ δq/|q|², T as in `reverse_jacobian.py`.
Changes of |q| have no effect.
"""

import warp as wp

from ..linalg.loops import row_dot_at
from ..real import kernel, real
from .reverse_jacobian import PLAIN, Tangents, turn


@kernel
def add_products(
    J: wp.array3d(dtype=real),
    first: int,
    d: wp.array3d(dtype=real),
    # in and out
    Y: wp.array3d(dtype=real),
):
    """Y_ik += Σ_j J_i,first+j d_kj, with d (directions, worlds, entries). Launch over (worlds, rows, directions)."""
    w, i, k = wp.tid()
    Y[w, i, k] = Y[w, i, k] + row_dot_at(d[k, w], d.shape[2], J[w, i], first)


@kernel
def store_directions(Y: wp.array3d(dtype=real), out: wp.array3d(dtype=real)):
    """out (directions, worlds, rows) ← Y (worlds, rows, directions). Launch over (worlds, rows, directions)."""
    w, i, k = wp.tid()
    out[k, w, i] = Y[w, i, k]


@kernel
def to_tangent(tangents: Tangents, q: wp.array2d(dtype=real), dq: wp.array3d(dtype=real), d: wp.array3d(dtype=real)):
    """Convert changes of coordinates to tangent vectors, the first columns of d.

    Launch over (worlds, dofs, directions).
    """
    w, j, k = wp.tid()
    i = tangents.coordinate[j]
    x = dq[k, w, i]
    if tangents.axis[j] != PLAIN:
        t = turn(q, w, i, tangents.axis[j])
        x = real(0.0)
        square = real(0.0)
        for c in range(4):
            x += t[c] * dq[k, w, i + c]
            square += q[w, i + c] * q[w, i + c]
        x = real(4.0) * x / square
    d[k, w, j] = x


@kernel
def to_coordinates(
    tangents: Tangents, q: wp.array2d(dtype=real), d: wp.array3d(dtype=real), dq: wp.array3d(dtype=real)
):
    """Convert tangent vectors, the first columns of d, to changes of coordinates.

    Launch over (worlds, dofs, directions).
    """
    w, j, k = wp.tid()
    i = tangents.coordinate[j]
    if tangents.axis[j] == PLAIN:
        dq[k, w, i] = d[k, w, j]
    if tangents.axis[j] == 0:
        t = d[k, w, j] * turn(q, w, i, 0) + d[k, w, j + 1] * turn(q, w, i, 1) + d[k, w, j + 2] * turn(q, w, i, 2)
        for c in range(4):
            dq[k, w, i + c] = t[c]
