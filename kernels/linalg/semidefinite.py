"""Least-norm solutions with parts of one symmetric positive semidefinite A, of any rank: the systems of an LCP's classes.

    A[c, c] = L Lᵀ,  A[u, c] = M Lᵀ,  Q = A[c, c] + A[c, u] E = L Nᵀ  with  N = L + EᵀM        (c: m rows; rank ρ)
    Q x = r, r in the range of L:  L₁ z = r₁ (the ρ pivot rows, triangular),  x = S⁻²N (NᵀS⁻²N)⁻¹ z,  least ‖S x‖

Cholesky with diagonal pivoting, up to pivots that are rounding; S diagonal. Cost m ρ² for L, as much for NᵀS⁻²N, and ρ² per
row of u; orthogonal factors of Q would take 4 m²ρ. The condition is that of Q, not its square, N having the root of it.
(Higham: Accuracy and Stability of Numerical Algorithms, §10.3.)
"""

import functools
from types import SimpleNamespace

import warp as wp

from warpsim.kernels.linalg import dense, rows


@functools.cache
def build(S) -> SimpleNamespace:
    """Struct `Product`; `product_factor`, `product_bound`, `product_normal`, `product_solve`, for scalar type S."""
    f, f_dense = rows.build(S), dense.build(S)
    row_axpy, row_axpy_at, row_copy, row_dot, row_fill = f.row_axpy, f.row_axpy_at, f.row_copy, f.row_dot, f.row_fill
    cholesky_factor = f_dense.cholesky_factor
    cholesky_forward, cholesky_backward = f_dense.cholesky_forward, f_dense.cholesky_backward

    @wp.struct
    class Product:
        """The factors of one world: matrices (n, n), vectors (n,), n ≥ m."""

        L: wp.array2d(dtype=S)  # row a: that of the a-th row of c
        N: wp.array2d(dtype=S)
        G: wp.array2d(dtype=S)  # lower triangle: Cholesky factor of NᵀS⁻²N
        rest: wp.array1d(dtype=S)  # what is left of the diagonal; scratch
        pivot: wp.array1d(dtype=int)  # row of c that is the k-th pivot
        weight: wp.array1d(dtype=S)  # given: the diagonal of S over c

    @wp.func(inline=False)
    def product_factor(A: wp.array2d(dtype=S), c: wp.array1d(dtype=int), m: int, tolerance: S, o: Product) -> int:
        """L, and N = L; the rank: pivots above `tolerance` times the first."""
        rank = wp.int32(0)
        least = S(0.0)
        for a in range(m):
            o.rest[a] = A[c[a], c[a]]
        for k in range(m):
            best = wp.int32(0)
            for a in range(m):
                if o.rest[a] > o.rest[best]:
                    best = a
            if k == 0:
                least = tolerance * o.rest[best]
            if not (o.rest[best] > least):
                break
            o.pivot[k] = best
            diagonal = wp.sqrt(o.rest[best])
            inverse = S(1.0) / diagonal
            A_best = A[c[best]]
            for a in range(m):
                if o.rest[a] >= S(0.0) and a != best:
                    L_ak = (A_best[c[a]] - row_dot(o.L[a], o.L[best], 0, k)) * inverse
                    o.L[a, k] = L_ak
                    o.rest[a] = wp.max(o.rest[a] - L_ak * L_ak, S(0.0))
                elif a != best:
                    o.L[a, k] = S(0.0)
            o.L[best, k] = diagonal
            o.rest[best] = S(-1.0)  # used
            rank += 1
        for a in range(m):
            row_copy(o.L[a], o.N[a], 0, rank)
        return rank

    @wp.func
    def product_bound(
        A_u: wp.array1d(dtype=S), E_u: S, a: int, c: wp.array1d(dtype=int), rank: int, o: Product, M: wp.array1d(dtype=S)
    ):
        """Row u joins: x_u = E_u x_c[a], N[a] ← N[a] + E_u M[u]. M: scratch."""
        for k in range(rank):
            L_k = o.L[o.pivot[k]]
            M[k] = (A_u[c[o.pivot[k]]] - row_dot(L_k, M, 0, k)) / L_k[k]
        row_axpy(E_u, M, o.N[a], 0, rank)

    @wp.func(inline=False)
    def product_normal(m: int, rank: int, floor: S, o: Product):
        """The factor of NᵀS⁻²N; squared pivots below `floor` of the largest diagonal entry are raised to it."""
        for k in range(rank):
            row_fill(S(0.0), o.G[k], 0, k + 1)
        for a in range(m):
            weight_sq = o.weight[a] * o.weight[a]
            for k in range(rank):
                N_ak = o.N[a, k]
                if N_ak != S(0.0):
                    row_axpy_at(N_ak / weight_sq, o.N[a], k + 1, o.G[k], 0)
        largest = S(0.0)
        for k in range(rank):
            largest = wp.max(largest, o.G[k, k])
        cholesky_factor(o.G, rank, floor * largest)

    @wp.func(inline=False)
    def product_solve(m: int, rank: int, r: wp.array1d(dtype=S), o: Product, x: wp.array1d(dtype=S)):
        """x of least ‖S x‖ with Q x = r, r consistent to rounding; r is overwritten."""
        z = o.rest
        for k in range(rank):
            L_k = o.L[o.pivot[k]]
            z[k] = (r[o.pivot[k]] - row_dot(L_k, z, 0, k)) / L_k[k]
        cholesky_forward(o.G, rank, z)
        cholesky_backward(o.G, rank, z)
        for a in range(m):
            x[a] = row_dot(o.N[a], z, 0, rank) / (o.weight[a] * o.weight[a])

    return SimpleNamespace(
        Product=Product,
        product_factor=product_factor,
        product_bound=product_bound,
        product_normal=product_normal,
        product_solve=product_solve,
    )
