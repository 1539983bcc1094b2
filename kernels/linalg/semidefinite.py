# SPDX-License-Identifier: Apache-2.0
"""Least-norm solutions with submatrices of a symmetric positive semidefinite A of any rank: the systems of LCP classes.

    A[c, c] = LᵀL,  A[c, u] = LᵀM,  Q = A[c, c] + A[c, u] E = LᵀN  with  N = L + M E       (c: m rows; L, M, N: ρ rows)
    Q x = r, r in the range of Lᵀ:  L₁ᵀz = r₁ (the ρ pivots, triangular),  x = S⁻²Nᵀ(N S⁻²Nᵀ)⁻¹ z,  of least ‖S x‖

Cholesky with diagonal pivoting, until pivots are rounding; S diagonal. Every long loop runs along a row of L or N.
Cost: ρ² (m + |u|) for L and M, as much for N S⁻²Nᵀ; orthogonal factors of Q would take 4 m²ρ. The condition number is
that of Q, not its square: N has the root of it. (Higham: Accuracy and Stability of Numerical Algorithms, §10.3.)
"""

import warp as wp

from .. import real as device
from ..real import func, real, struct
from .dense import cholesky_backward, cholesky_factor, cholesky_forward, gather_axpy
from .loops import row_axpy, row_copy, row_dot, row_fill, row_scale

DOWNDATE = """
const auto* px = x.data;
auto* py = y.data;
int best = 0;
for (int a = 0; a < count; ++a) py[a] -= px[a] * px[a];
for (int a = 1; a < count; ++a) if (py[a] > py[best]) best = a;
return best;
"""
WEIGHTED = """
const auto* px = x.data;
const auto* pw = weight.data;
auto* py = y.data;
for (int a = 0; a < count; ++a) py[a] = px[a] / (pw[a] * pw[a]);
"""


@device.func_native(DOWNDATE)
def downdate(x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), count: int) -> int:
    """y ← y − x²; return the first index of the largest y."""
    ...


@device.func_native(WEIGHTED)
def weighted(x: wp.array1d(dtype=real), weight: wp.array1d(dtype=real), y: wp.array1d(dtype=real), count: int):
    """y ← x / weight²."""
    ...


@struct
class Product:
    """Factors of one world: matrices (n, n), vectors (n,), n ≥ m + |u|."""

    L: wp.array2d(dtype=real)  # row k: its m columns of L, then those of M
    N: wp.array2d(dtype=real)
    G: wp.array2d(dtype=real)  # lower triangle: Cholesky factor of N S⁻²Nᵀ
    rest: wp.array1d(dtype=real)  # remaining diagonal of the Cholesky factorisation; scratch
    pivot: wp.array1d(dtype=int)  # index in c of the k-th pivot
    weight: wp.array1d(dtype=real)  # given: the diagonal of S over c


@func(inline=False)
def product_factor(
    A: wp.array2d(dtype=real), index: wp.array1d(dtype=int), m: int, bounds: int, tolerance: real, o: Product
) -> int:
    """Compute L and M for c = index[:m], u = index[m : m + bounds]; N = L. Returns the rank.

    The rank counts pivots above `tolerance` times the first.
    """
    rank = wp.int32(0)
    best = wp.int32(0)
    for a in range(m):
        o.rest[a] = A[index[a], index[a]]
        if o.rest[a] > o.rest[best]:
            best = a
    least = real(0.0)
    if m > 0:
        least = tolerance * o.rest[best]
    for k in range(m):
        if not (o.rest[best] > least):
            break
        L_k = o.L[k]
        diagonal = wp.sqrt(o.rest[best])
        row_fill(real(0.0), L_k, 0, m + bounds)
        gather_axpy(real(1.0), A[index[best]], index, m + bounds, L_k)
        for j in range(k):
            row_axpy(-o.L[j, best], o.L[j], L_k, 0, m + bounds)
        row_scale(real(1.0) / diagonal, L_k, 0, m + bounds)
        for j in range(k):
            L_k[o.pivot[j]] = real(0.0)
        L_k[best] = diagonal
        o.pivot[k] = best
        place = wp.int32(best)
        rank += 1
        best = downdate(L_k, o.rest, m)
        o.rest[place] = real(-1.0)  # used
        if best == place:
            for a in range(m):
                if o.rest[a] > o.rest[best]:
                    best = a
    for k in range(rank):
        row_copy(o.L[k], o.N[k], 0, m)
    return rank


@func
def product_bound(E_u: real, a: int, place: int, rank: int, o: Product):
    """Add one row of u to N = L + M E: row `place` of index, with x_u = E_u x_c[a]."""
    for k in range(rank):
        o.N[k, a] = o.N[k, a] + E_u * o.L[k, place]


@func(inline=False)
def product_normal(m: int, rank: int, floor: real, o: Product):
    """Factor N S⁻²Nᵀ; squared pivots below `floor` times the largest diagonal entry are raised to it."""
    largest = real(0.0)
    for k in range(rank):
        weighted(o.N[k], o.weight, o.rest, m)
        for l in range(k + 1):
            o.G[k, l] = row_dot(o.rest, o.N[l], 0, m)
        largest = wp.max(largest, o.G[k, k])
    cholesky_factor(o.G, rank, floor * largest)


@func(inline=False)
def product_solve(m: int, rank: int, r: wp.array1d(dtype=real), o: Product, x: wp.array1d(dtype=real)):
    """x of least ‖S x‖ with Q x = r; r is consistent to rounding and is overwritten."""
    z = o.rest
    for k in range(rank):
        z[k] = r[o.pivot[k]] / o.L[k, o.pivot[k]]
        row_axpy(-z[k], o.L[k], r, 0, m)
    cholesky_forward(o.G, rank, z)
    cholesky_backward(o.G, rank, z)
    row_fill(real(0.0), r, 0, m)
    for k in range(rank):
        row_axpy(z[k], o.N[k], r, 0, m)
    weighted(r, o.weight, x, m)
