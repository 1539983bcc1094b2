# SPDX-License-Identifier: Apache-2.0
"""Square systems without symmetry, one per world: LU, and the least-norm solution of a rank-deficient system.

Both take the matrix Q transposed, K[j] = column j of Q, so that every inner loop runs along one row of storage.

    LU: K = PᵀLU with row pivoting; Q x = r is KᵀPᵀ… solved as Uᵀ, Lᵀ, Pᵀ                                   2 m³/3 flops
    QR: Q P = H [R11 R12; 0 0] with column pivoting, rank ρ = the pivots above a fraction of the first;
        [R11 R12] S⁻¹ = [L 0] Zᵀ; x = P S⁻¹ Z [L⁻¹ (Hᵀr); 0], the x of least ‖S x‖, S diagonal             4 m²ρ flops

(Golub, Van Loan: Matrix Computations, §3.4, §5.4, §5.5: the complete orthogonal decomposition.)
"""

import warp as wp

from .. import real as device
from ..real import func, real, struct
from .loops import row_axpy, row_dot, row_fill

GATHER_AXPY = """
const auto* px = x.data;
const int* which = index.data;
auto* py = y.data;
for (int k = 0; k < count; ++k) py[k] += a * px[which[k]];
"""
SWAP = """
auto* px = x.data;
auto* py = y.data;
for (int j = first; j < last; ++j) { const auto t = px[j]; px[j] = py[j]; py[j] = t; }
"""


@device.func_native(GATHER_AXPY)
def gather_axpy(
    a: real, x: wp.array1d(dtype=real), index: wp.array1d(dtype=int), count: int, y: wp.array1d(dtype=real)
):
    """y[k] ← y[k] + a x[index[k]] for k < count."""
    ...


@device.func_native(SWAP)
def row_swap(x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), first: int, last: int):
    """x ↔ y."""
    ...


@struct
class Orthogonal:
    """Result of `qr_factor` besides K, for one world: views of length m, and Z as large as K."""

    Z: wp.array2d(dtype=real)
    tau: wp.array1d(dtype=real)  # 2/vᵀv of the reflections of H
    diagonal: wp.array1d(dtype=real)  # of R11
    tau_Z: wp.array1d(dtype=real)
    diagonal_Z: wp.array1d(dtype=real)  # of L
    column: wp.array1d(dtype=int)  # P: column of Q at each position
    weight: wp.array1d(dtype=real)  # given: Σ (weight x)² is minimized


@func(inline=False)
def lu_factor(K: wp.array2d(dtype=real), m: int, pivots: wp.array1d(dtype=int), floor: real):
    """Factor K in place; a pivot smaller than `floor` is raised to ±`floor`."""
    for k in range(m):
        best = wp.int32(k)
        for i in range(k + 1, m):
            if wp.abs(K[i, k]) > wp.abs(K[best, k]):
                best = i
        pivots[k] = best
        if best != k:
            row_swap(K[k], K[best], 0, m)
        if wp.abs(K[k, k]) < floor:
            K[k, k] = wp.where(K[k, k] < real(0.0), -floor, floor)
        inverse = real(1.0) / K[k, k]
        for i in range(k + 1, m):
            multiplier = K[i, k] * inverse
            K[i, k] = multiplier
            if multiplier != real(0.0):
                row_axpy(-multiplier, K[k], K[i], k + 1, m)


@func(inline=False)
def lu_solve(K: wp.array2d(dtype=real), m: int, pivots: wp.array1d(dtype=int), x: wp.array1d(dtype=real)):
    """x ← Q⁻¹ x = K⁻ᵀ x."""
    for k in range(m):
        x[k] = x[k] / K[k, k]
        row_axpy(-x[k], K[k], x, k + 1, m)
    for reverse in range(m):
        k = m - 1 - reverse
        row_axpy(-x[k], K[k], x, 0, k)
    for reverse in range(m):
        k = m - 1 - reverse
        p = pivots[k]
        if p != k:
            x_k = x[k]
            x[k] = x[p]
            x[p] = x_k


@func(inline=False)
def cholesky_factor(N: wp.array2d(dtype=real), n: int, floor: real):
    """N = LLᵀ in place, lower triangle; squared pivots below `floor` are raised to it."""
    for i in range(n):
        for j in range(i):
            N[i, j] = (N[i, j] - row_dot(N[i], N[j], 0, j)) / N[j, j]
        N[i, i] = wp.sqrt(wp.max(N[i, i] - row_dot(N[i], N[i], 0, i), floor))


@func(inline=False)
def cholesky_forward(N: wp.array2d(dtype=real), n: int, x: wp.array1d(dtype=real)):
    """x ← L⁻¹ x."""
    for i in range(n):
        x[i] = (x[i] - row_dot(N[i], x, 0, i)) / N[i, i]


@func(inline=False)
def cholesky_backward(N: wp.array2d(dtype=real), n: int, x: wp.array1d(dtype=real)):
    """x ← L⁻ᵀ x."""
    for reverse in range(n):
        i = n - 1 - reverse
        x[i] = x[i] / N[i, i]
        row_axpy(-x[i], N[i], x, 0, i)


@func
def reflection(v: wp.array1d(dtype=real), k: int, m: int) -> real:
    """v[k:] ← the Householder vector that maps it to (α, 0, …), α = ∓‖v[k:]‖; returns α."""
    alpha = -wp.sqrt(row_dot(v, v, k, m))
    if v[k] < real(0.0):
        alpha = -alpha
    v[k] = v[k] - alpha
    return alpha


@func
def reflect(v: wp.array1d(dtype=real), tau: real, x: wp.array1d(dtype=real), k: int, m: int):
    """x[k:] ← (I − τ v vᵀ) x[k:]."""
    row_axpy(-tau * row_dot(v, x, k, m), v, x, k, m)


@func
def inverse_half_norm(v: wp.array1d(dtype=real), k: int, m: int) -> real:
    """τ = 2/vᵀv, 0 for a zero vector (nothing to reflect)."""
    norm_sq = row_dot(v, v, k, m)
    tau = real(0.0)
    if norm_sq > real(0.0):
        tau = real(2.0) / norm_sq
    return tau


@func(inline=False)
def qr_factor(K: wp.array2d(dtype=real), m: int, tolerance: real, o: Orthogonal) -> int:
    """Factor K in place; return the rank: pivots ‖column‖ above `tolerance` times the first."""
    rank = wp.int32(0)
    least = real(0.0)
    for j in range(m):
        o.column[j] = j
    for k in range(m):
        best = wp.int32(k)
        largest = real(-1.0)
        for j in range(k, m):
            norm_sq = row_dot(K[j], K[j], k, m)
            if norm_sq > largest:
                largest = norm_sq
                best = j
        if k == 0:
            least = tolerance * tolerance * largest
        if not (largest > least):
            break
        if best != k:
            row_swap(K[k], K[best], 0, m)
            column = o.column[k]
            o.column[k] = o.column[best]
            o.column[best] = column
        o.diagonal[k] = reflection(K[k], k, m)
        o.tau[k] = inverse_half_norm(K[k], k, m)
        for j in range(k + 1, m):
            reflect(K[k], o.tau[k], K[j], k, m)
        rank += 1
    if rank < m:
        for k in range(rank):
            row_fill(real(0.0), o.Z[k], 0, k)
            o.Z[k, k] = o.diagonal[k] / o.weight[o.column[k]]
            for j in range(k + 1, m):
                o.Z[k, j] = K[j, k] / o.weight[o.column[j]]
        for k in range(rank):
            o.diagonal_Z[k] = reflection(o.Z[k], k, m)
            o.tau_Z[k] = inverse_half_norm(o.Z[k], k, m)
            for i in range(k + 1, rank):
                reflect(o.Z[k], o.tau_Z[k], o.Z[i], k, m)
    return rank


@func(inline=False)
def qr_solve(
    K: wp.array2d(dtype=real), m: int, rank: int, o: Orthogonal, r: wp.array1d(dtype=real), x: wp.array1d(dtype=real)
):
    """x of least weighted norm among the solutions of Q x = r; r is consistent to rounding and is overwritten."""
    for k in range(rank):
        reflect(K[k], o.tau[k], r, k, m)
    row_fill(real(0.0), r, rank, m)
    if rank == m:
        for reverse in range(rank):
            k = m - 1 - reverse
            r[k] = r[k] / o.diagonal[k]
            row_axpy(-r[k], K[k], r, 0, k)
    else:
        for k in range(rank):
            r[k] = (r[k] - row_dot(o.Z[k], r, 0, k)) / o.diagonal_Z[k]
        for reverse in range(rank):
            k = rank - 1 - reverse
            reflect(o.Z[k], o.tau_Z[k], r, k, m)
        for k in range(m):
            r[k] = r[k] / o.weight[o.column[k]]
    for k in range(m):
        x[o.column[k]] = r[k]
