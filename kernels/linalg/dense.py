"""Square systems without symmetry, one per world: LU, and the least-norm solution of a rank-deficient system.

Both take the matrix Q transposed, K[j] = column j of Q, so that every inner loop runs along one row of storage.

    LU: K = PᵀLU with row pivoting; Q x = r is KᵀPᵀ… solved as Uᵀ, Lᵀ, Pᵀ                                    2 m³/3 flops
    QR: Q P = H [R11 R12; 0 0] with column pivoting, rank ρ = the pivots above a fraction of the first;
        [R11 R12] S⁻¹ = [L 0] Zᵀ; x = P S⁻¹ Z [L⁻¹ (Hᵀr); 0], the x of least ‖S x‖, S diagonal             4 m²ρ flops

(Golub, Van Loan: Matrix Computations, §3.4, §5.4, §5.5: the complete orthogonal decomposition.)
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.linalg import rows

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


@cached
def build(S) -> SimpleNamespace:
    """`gather_axpy`; `lu_factor`, `lu_solve`; `qr_factor`, `qr_solve` with the arrays of struct `Orthogonal`."""
    f = rows.build(S)
    row_axpy, row_copy, row_fill, row_scale, row_dot = f.row_axpy, f.row_copy, f.row_fill, f.row_scale, f.row_dot

    @wp.func_native(GATHER_AXPY)
    def gather_axpy(a: S, x: wp.array1d(dtype=S), index: wp.array1d(dtype=int), count: int, y: wp.array1d(dtype=S)):
        """y[k] ← y[k] + a x[index[k]] for k < count."""
        ...

    @wp.func_native(SWAP)
    def row_swap(x: wp.array1d(dtype=S), y: wp.array1d(dtype=S), first: int, last: int):
        """x ↔ y."""
        ...

    @wp.struct
    class Orthogonal:
        """What `qr_factor` leaves beside K, for one world: views of length m, and Z as large as K."""

        Z: wp.array2d(dtype=S)
        tau: wp.array1d(dtype=S)  # 2/vᵀv of the reflections of H
        diagonal: wp.array1d(dtype=S)  # of R11
        tau_Z: wp.array1d(dtype=S)
        diagonal_Z: wp.array1d(dtype=S)  # of L
        column: wp.array1d(dtype=int)  # P: column of Q at each place
        weight: wp.array1d(dtype=S)  # given: Σ (weight x)² is what is least

    @wp.func(inline=False)
    def lu_factor(K: wp.array2d(dtype=S), m: int, pivots: wp.array1d(dtype=int), floor: S):
        """Factor K in place; a pivot below `floor` is replaced by it."""
        for k in range(m):
            best = wp.int32(k)
            for i in range(k + 1, m):
                if wp.abs(K[i, k]) > wp.abs(K[best, k]):
                    best = i
            pivots[k] = best
            if best != k:
                row_swap(K[k], K[best], 0, m)
            if wp.abs(K[k, k]) < floor:
                K[k, k] = wp.where(K[k, k] < S(0.0), -floor, floor)
            inverse = S(1.0) / K[k, k]
            for i in range(k + 1, m):
                multiplier = K[i, k] * inverse
                K[i, k] = multiplier
                if multiplier != S(0.0):
                    row_axpy(-multiplier, K[k], K[i], k + 1, m)

    @wp.func(inline=False)
    def lu_solve(K: wp.array2d(dtype=S), m: int, pivots: wp.array1d(dtype=int), x: wp.array1d(dtype=S)):
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

    @wp.func(inline=False)
    def cholesky_factor(N: wp.array2d(dtype=S), n: int, floor: S):
        """N = LLᵀ in place, lower triangle; squared pivots below `floor` are raised to it."""
        for i in range(n):
            for j in range(i):
                N[i, j] = (N[i, j] - row_dot(N[i], N[j], 0, j)) / N[j, j]
            N[i, i] = wp.sqrt(wp.max(N[i, i] - row_dot(N[i], N[i], 0, i), floor))

    @wp.func(inline=False)
    def cholesky_forward(N: wp.array2d(dtype=S), n: int, x: wp.array1d(dtype=S)):
        """x ← L⁻¹ x."""
        for i in range(n):
            x[i] = (x[i] - row_dot(N[i], x, 0, i)) / N[i, i]

    @wp.func(inline=False)
    def cholesky_backward(N: wp.array2d(dtype=S), n: int, x: wp.array1d(dtype=S)):
        """x ← L⁻ᵀ x."""
        for reverse in range(n):
            i = n - 1 - reverse
            x[i] = x[i] / N[i, i]
            row_axpy(-x[i], N[i], x, 0, i)

    @wp.func
    def reflection(v: wp.array1d(dtype=S), k: int, m: int) -> S:
        """v[k:] ← the Householder vector that maps it to (α, 0, …), α = ∓‖v[k:]‖; returns α."""
        alpha = -wp.sqrt(row_dot(v, v, k, m))
        if v[k] < S(0.0):
            alpha = -alpha
        v[k] = v[k] - alpha
        return alpha

    @wp.func
    def reflect(v: wp.array1d(dtype=S), tau: S, x: wp.array1d(dtype=S), k: int, m: int):
        """x[k:] ← (I − τ v vᵀ) x[k:]."""
        row_axpy(-tau * row_dot(v, x, k, m), v, x, k, m)

    @wp.func
    def inverse_half_norm(v: wp.array1d(dtype=S), k: int, m: int) -> S:
        """τ = 2/vᵀv, 0 for a zero vector (nothing to reflect)."""
        norm_sq = row_dot(v, v, k, m)
        tau = S(0.0)
        if norm_sq > S(0.0):
            tau = S(2.0) / norm_sq
        return tau

    @wp.func(inline=False)
    def qr_factor(K: wp.array2d(dtype=S), m: int, tolerance: S, o: Orthogonal) -> int:
        """Factor K in place; the rank: pivots ‖column‖ above `tolerance` times the first."""
        rank = wp.int32(0)
        least = S(0.0)
        for j in range(m):
            o.column[j] = j
        for k in range(m):
            best = wp.int32(k)
            largest = S(-1.0)
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
                row_fill(S(0.0), o.Z[k], 0, k)
                o.Z[k, k] = o.diagonal[k] / o.weight[o.column[k]]
                for j in range(k + 1, m):
                    o.Z[k, j] = K[j, k] / o.weight[o.column[j]]
            for k in range(rank):
                o.diagonal_Z[k] = reflection(o.Z[k], k, m)
                o.tau_Z[k] = inverse_half_norm(o.Z[k], k, m)
                for i in range(k + 1, rank):
                    reflect(o.Z[k], o.tau_Z[k], o.Z[i], k, m)
        return rank

    @wp.func(inline=False)
    def qr_solve(
        K: wp.array2d(dtype=S), m: int, rank: int, o: Orthogonal, r: wp.array1d(dtype=S), x: wp.array1d(dtype=S)
    ):
        """x of least weighted norm among the solutions of Q x = r, where r is consistent to rounding; r is overwritten."""
        for k in range(rank):
            reflect(K[k], o.tau[k], r, k, m)
        row_fill(S(0.0), r, rank, m)
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

    return SimpleNamespace(
        gather_axpy=gather_axpy,
        Orthogonal=Orthogonal,
        cholesky_factor=cholesky_factor,
        cholesky_forward=cholesky_forward,
        cholesky_backward=cholesky_backward,
        lu_factor=lu_factor,
        lu_solve=lu_solve,
        qr_factor=qr_factor,
        qr_solve=qr_solve,
        row_copy=row_copy,
        row_scale=row_scale,
    )
