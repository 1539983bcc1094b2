"""Rows of a Jacobian by reverse passes: the seed of a row in the tangent space, and gradients back in that of the inputs.

With q' = q ∘ (1, δ/2) for a unit quaternion, δq = T δ, TᵀT = 1/4: the covector of δ_k is 4 T e_k, and a gradient g by q is Tᵀ g.
"""

import warp as wp

from ..flags import NONFINITE
from ..real import func, kernel, real

PLAIN = 3  # axis of a degree of freedom that is no rotation of a quaternion; those have 0, 1, 2

vec4 = wp.types.vector(4, real)


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
def tangent_part(
    coordinate: wp.array(dtype=int),
    axis: wp.array(dtype=int),
    q: wp.array2d(dtype=real),
    q_bar: wp.array2d(dtype=real),
    w: int,
    d: int,
) -> real:
    """The gradient by δ_d of the displacement q ⊕ δ, from that by q."""
    i = coordinate[d]
    x = real(0.0)
    if axis[d] == PLAIN:
        x = q_bar[w, i]
    else:
        t = turn(q, w, i, axis[d])
        for k in range(4):
            x += t[k] * q_bar[w, i + k]
    return x


@kernel
def seed(
    row: int,
    coordinate: wp.array(dtype=int),
    axis: wp.array(dtype=int),
    q_next: wp.array2d(dtype=real),
    # out
    q_bar: wp.array2d(dtype=real),
    v_bar: wp.array2d(dtype=real),
):
    """Adjoint of entry `row` of the next (q, v) in the tangent space; comes in as zero. Launch over worlds."""
    w = wp.tid()
    nv = v_bar.shape[1]
    if row >= nv:
        v_bar[w, row - nv] = real(1.0)
    elif axis[row] == PLAIN:
        q_bar[w, coordinate[row]] = real(1.0)
    else:
        i = coordinate[row]
        t = turn(q_next, w, i, axis[row])
        for k in range(4):
            q_bar[w, i + k] = real(4.0) * t[k]


@kernel
def gather_state(
    row: int,
    coordinate: wp.array(dtype=int),
    axis: wp.array(dtype=int),
    q: wp.array2d(dtype=real),
    q_bar: wp.array2d(dtype=real),
    v_bar: wp.array2d(dtype=real),
    flags: wp.array(dtype=int),
    # out
    A: wp.array3d(dtype=real),
):
    """Row of the Jacobian by (q, v); not finite where the step is not. Launch over (worlds, nv)."""
    w, d = wp.tid()
    x = tangent_part(coordinate, axis, q, q_bar, w, d)
    y = v_bar[w, d]
    if flags[w] & NONFINITE != 0:
        x = real(wp.nan)
        y = real(wp.nan)
    A[w, row, d] = x
    A[w, row, v_bar.shape[1] + d] = y


@kernel
def gather(row: int, bar: wp.array2d(dtype=real), flags: wp.array(dtype=int), jacobian: wp.array3d(dtype=real)):
    """Row of the Jacobian by another input. Launch over (worlds, entries)."""
    w, j = wp.tid()
    x = bar[w, j]
    if flags[w] & NONFINITE != 0:
        x = real(wp.nan)
    jacobian[w, row, j] = x
