# SPDX-License-Identifier: Apache-2.0
"""Rows of a Jacobian by reverse passes: the seed of a row, and the gradients of the inputs, in tangent spaces.

With q' = q ∘ (1, δ/2) for a unit quaternion, δq = T δ, TᵀT = 1/4: the covector of δ_k is 4 T e_k. A gradient g with
respect to q becomes Tᵀ g.
"""

import warp as wp

from ..flags import NONFINITE
from ..real import func, kernel, real, struct
from .gradient import Switches, is_on

PLAIN = 3  # axis of a degree of freedom that is not a rotation of a quaternion; rotations have 0, 1, 2

vec4 = wp.types.vector(4, real)


@struct
class Tangents:
    """Of each degree of freedom: its coordinate, or the first of its quaternion, and its axis there; PLAIN: none."""

    coordinate: wp.array(dtype=int)
    axis: wp.array(dtype=int)


@func
def turn(q: wp.array2d(dtype=real), w: int, i: int, axis: int) -> vec4:
    """T e_k at the quaternion that begins at q[w, i]."""
    a = q[w, i]
    b = q[w, i + 1]
    c = q[w, i + 2]
    d = q[w, i + 3]
    t = vec4(-b, a, d, -c)
    if axis == 1:
        t = vec4(-c, -d, a, b)
    if axis == 2:
        t = vec4(-d, c, -b, a)
    return real(0.5) * t


@func
def tangent_part(tangents: Tangents, q: wp.array2d(dtype=real), q_bar: wp.array2d(dtype=real), w: int, d: int) -> real:
    """The gradient with respect to δ_d of the displacement q ⊕ δ, from the gradient with respect to q."""
    i = tangents.coordinate[d]
    x = real(0.0)
    if tangents.axis[d] == PLAIN:
        x = q_bar[w, i]
    else:
        t = turn(q, w, i, tangents.axis[d])
        for k in range(4):
            x += t[k] * q_bar[w, i + k]
    return x


@kernel
def seed(
    present_row: wp.array(dtype=int),
    tangents: Tangents,
    q_next: wp.array2d(dtype=real),
    flags: wp.array(dtype=int),
    switches: Switches,
    # out
    q_bar: wp.array2d(dtype=real),
    v_bar: wp.array2d(dtype=real),
):
    """Adjoint of entry `present_row[w]` of the next (q, v) in the tangent space.

    It is 0 where the world or the tree stands still. Launch over worlds.
    """
    w = wp.tid()
    row = present_row[w]
    nv = v_bar.shape[1]
    for i in range(q_bar.shape[1]):
        q_bar[w, i] = real(0.0)
    for d in range(nv):
        v_bar[w, d] = real(0.0)
    if flags[w] & NONFINITE == 0 and is_on(switches, switches.v_body[row % nv], w):
        if row >= nv:
            v_bar[w, row - nv] = real(1.0)
        elif tangents.axis[row] == PLAIN:
            q_bar[w, tangents.coordinate[row]] = real(1.0)
        else:
            i = tangents.coordinate[row]
            t = turn(q_next, w, i, tangents.axis[row])
            for k in range(4):
                q_bar[w, i + k] = real(4.0) * t[k]


@kernel
def seed_activation(
    present_row: wp.array(dtype=int), flags: wp.array(dtype=int), activation_bar: wp.array2d(dtype=real)
):
    """Adjoint of entry `present_row[w]` of the next (q, v, activation), an activation; 0 where the world stands still.

    Launch over worlds.
    """
    w = wp.tid()
    na = activation_bar.shape[1]
    for i in range(na):
        activation_bar[w, i] = real(0.0)
    if flags[w] & NONFINITE == 0 and present_row[w] >= 0:
        activation_bar[w, present_row[w]] = real(1.0)


@kernel
def next_row(present_row: wp.array(dtype=int)):
    """Advance `present_row` by one. Launch over worlds."""
    w = wp.tid()
    present_row[w] = present_row[w] + 1


@kernel
def gather_state(
    present_row: wp.array(dtype=int),
    tangents: Tangents,
    q: wp.array2d(dtype=real),
    q_bar: wp.array2d(dtype=real),
    v_bar: wp.array2d(dtype=real),
    flags: wp.array(dtype=int),
    switches: Switches,
    # out
    A: wp.array3d(dtype=real),
):
    """Row of the Jacobian with respect to (q, v).

    It is a row of the identity in a tree that is switched off, and not finite where the step is not. Launch over
    (worlds, nv).
    """
    w, d = wp.tid()
    row = present_row[w]
    nv = v_bar.shape[1]
    x = tangent_part(tangents, q, q_bar, w, d)
    y = v_bar[w, d]
    if row < 2 * nv and row % nv == d and not is_on(switches, switches.v_body[d], w):
        if row < nv:
            x += real(1.0)
        else:
            y += real(1.0)
    if flags[w] & NONFINITE != 0:
        x = real(wp.nan)
        y = real(wp.nan)
    A[w, row, d] = x
    A[w, row, nv + d] = y


@kernel
def gather(
    present_row: wp.array(dtype=int),
    bar: wp.array2d(dtype=real),
    flags: wp.array(dtype=int),
    first: int,
    # out
    jacobian: wp.array3d(dtype=real),
):
    """Row of the Jacobian with respect to another input, columns from `first` on. Launch over (worlds, entries)."""
    w, j = wp.tid()
    x = bar[w, j]
    if flags[w] & NONFINITE != 0:
        x = real(wp.nan)
    jacobian[w, present_row[w], first + j] = x


@kernel
def add_velocity_rows(
    P: wp.array3d(dtype=real),
    rows: wp.array3d(dtype=real),
    # out
    jacobian: wp.array3d(dtype=real),
):
    """The rows of v', and those of q': the rows at fixed v', plus P ∂v'/∂x with P = ∂q'/∂v'.

    Launch over (worlds, 2 nv + na, entries).
    """
    w, row, j = wp.tid()
    nv = P.shape[1]
    x = rows[w, row, j]
    if row < nv:
        for k in range(nv):
            if P[w, row, k] != real(0.0):
                x += P[w, row, k] * rows[w, nv + k, j]
    jacobian[w, row, j] = x
