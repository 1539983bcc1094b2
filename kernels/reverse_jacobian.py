"""Rows of a Jacobian by reverse passes: the seed of a row in the tangent space, and gradients back in that of the inputs.

With q' = q ∘ (1, δ/2) for a unit quaternion, δq = T δ, TᵀT = 1/4: the covector of δ_k is 4 T e_k, and a gradient g by q is Tᵀ g.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.flags import NONFINITE
from warpsim.kernels.precision import module_name

PLAIN = 3  # axis of a degree of freedom that is no rotation of a quaternion; those have 0, 1, 2


@cached
def build(S) -> SimpleNamespace:
    """Kernels of scalar type S."""
    module = module_name("reverse_jacobian", S)
    vec4 = wp.types.vector(4, S)

    @wp.func
    def turn(q: wp.array2d(dtype=S), w: int, i: int, axis: int) -> vec4:
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
        return S(0.5) * t

    @wp.func
    def tangent_part(
        coordinate: wp.array(dtype=int),
        axis: wp.array(dtype=int),
        q: wp.array2d(dtype=S),
        q_bar: wp.array2d(dtype=S),
        w: int,
        d: int,
    ) -> S:
        """The gradient by δ_d of the displacement q ⊕ δ, from that by q."""
        i = coordinate[d]
        x = S(0.0)
        if axis[d] == PLAIN:
            x = q_bar[w, i]
        else:
            t = turn(q, w, i, axis[d])
            for k in range(4):
                x += t[k] * q_bar[w, i + k]
        return x

    @wp.kernel(module=module, enable_backward=False)
    def seed(
        row: int,
        coordinate: wp.array(dtype=int),
        axis: wp.array(dtype=int),
        q_next: wp.array2d(dtype=S),
        # out
        q_bar: wp.array2d(dtype=S),
        v_bar: wp.array2d(dtype=S),
    ):
        """Adjoint of entry `row` of the next (q, v) in the tangent space; comes in as zero. Launch over worlds."""
        w = wp.tid()
        nv = v_bar.shape[1]
        if row >= nv:
            v_bar[w, row - nv] = S(1.0)
        elif axis[row] == PLAIN:
            q_bar[w, coordinate[row]] = S(1.0)
        else:
            i = coordinate[row]
            t = turn(q_next, w, i, axis[row])
            for k in range(4):
                q_bar[w, i + k] = S(4.0) * t[k]

    @wp.kernel(module=module, enable_backward=False)
    def gather_state(
        row: int,
        coordinate: wp.array(dtype=int),
        axis: wp.array(dtype=int),
        q: wp.array2d(dtype=S),
        q_bar: wp.array2d(dtype=S),
        v_bar: wp.array2d(dtype=S),
        flags: wp.array(dtype=int),
        # out
        A: wp.array3d(dtype=S),
    ):
        """Row of the Jacobian by (q, v); not finite where the step is not. Launch over (worlds, nv)."""
        w, d = wp.tid()
        x = tangent_part(coordinate, axis, q, q_bar, w, d)
        y = v_bar[w, d]
        if flags[w] & NONFINITE != 0:
            x = S(wp.nan)
            y = S(wp.nan)
        A[w, row, d] = x
        A[w, row, v_bar.shape[1] + d] = y

    @wp.kernel(module=module, enable_backward=False)
    def gather(row: int, bar: wp.array2d(dtype=S), flags: wp.array(dtype=int), jacobian: wp.array3d(dtype=S)):
        """Row of the Jacobian by another input. Launch over (worlds, entries)."""
        w, j = wp.tid()
        x = bar[w, j]
        if flags[w] & NONFINITE != 0:
            x = S(wp.nan)
        jacobian[w, row, j] = x

    return SimpleNamespace(turn=turn, tangent_part=tangent_part, seed=seed, gather_state=gather_state, gather=gather)
