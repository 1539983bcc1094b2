# SPDX-License-Identifier: Apache-2.0
"""Sums in a fixed order: those of adjoints, and those over worlds.

`warpsim/device/by_world.py` gives every kernel with an adjoint one thread per world and calls `plain_sums` before its
body. A thread then reads and writes the rows of its own world only. It adds to them in program order without atomic
instructions, so the bits of a gradient are the same in every run.
"""

import warp as wp

from . import real as device
from .real import kernel, real


@kernel
def sum_rows(
    x: wp.array2d(dtype=real),
    count: int,
    # out
    total: wp.array2d(dtype=real),
):
    """Sum groups of `count` rows in order. Launch over `total`, (rows/count, n)."""
    k, i = wp.tid()
    s = real(0.0)
    for row in range(k * count, wp.min((k + 1) * count, x.shape[0])):
        s += x[row, i]
    total[k, i] = s


# Warp writes the text of a native function before all adjoints. This text closes the function, defines Warp's function
# templates that add to arrays in global memory again with plain sums, and redirects the code that follows to them.
# Numbers other than real ones have no gradients, as in Warp. On the CPU Warp's own sums are plain.
@device.func_native("""
#if defined(__CUDA_ARCH__)
}
namespace wp {
#define PLAIN inline CUDA_CALLABLE
template <typename T> PLAIN void plain_add(T* p, const T& x) { adj_atomic_add(p, x); }
PLAIN void plain_add(float* p, const float& x) { *p += x; }
PLAIN void plain_add(double* p, const double& x) { *p += x; }
template <unsigned N, typename S> PLAIN void plain_add(vec_t<N, S>* p, const vec_t<N, S>& x)
{ for (unsigned i = 0; i < N; ++i) plain_add(&p->c[i], x.c[i]); }
template <unsigned N, unsigned M, typename S> PLAIN void plain_add(mat_t<N, M, S>* p, const mat_t<N, M, S>& x)
{ for (unsigned i = 0; i < N; ++i) for (unsigned j = 0; j < M; ++j) plain_add(&p->data[i][j], x.data[i][j]); }
template <typename S> PLAIN void plain_add(quat_t<S>* p, const quat_t<S>& x)
{ plain_add(&p->x, x.x); plain_add(&p->y, x.y); plain_add(&p->z, x.z); plain_add(&p->w, x.w); }
template <typename S> PLAIN void plain_add(transform_t<S>* p, const transform_t<S>& x)
{ plain_add(&p->p, x.p); plain_add(&p->q, x.q); }

// The adjoint of reading an array: g, or else the gradient that the array brings along, += y.
template <typename T> PLAIN void plain_adj_address(const array_t<T>& x, int i, const array_t<T>& g, int, const T& y)
{ if (g.data) plain_add(&index(g, i), y); else if (x.grad) plain_add(&index_grad(x, i), y); }
template <typename T> PLAIN void plain_adj_address(
    const array_t<T>& x, int i, int j, const array_t<T>& g, int, int, const T& y)
{ if (g.data) plain_add(&index(g, i, j), y); else if (x.grad) plain_add(&index_grad(x, i, j), y); }
template <typename T> PLAIN void plain_adj_address(
    const array_t<T>& x, int i, int j, int k, const array_t<T>& g, int, int, int, const T& y)
{ if (g.data) plain_add(&index(g, i, j, k), y); else if (x.grad) plain_add(&index_grad(x, i, j, k), y); }
template <typename T> PLAIN void plain_adj_address(
    const array_t<T>& x, int i, int j, int k, int l, const array_t<T>& g, int, int, int, int, const T& y)
{ if (g.data) plain_add(&index(g, i, j, k, l), y); else if (x.grad) plain_add(&index_grad(x, i, j, k, l), y); }

// x[...] += y.
template <typename T> PLAIN T plain_atomic_add(const array_t<T>& x, int i, T y)
{ T old = index(x, i); plain_add(&index(x, i), y); return old; }
template <typename T> PLAIN T plain_atomic_add(const array_t<T>& x, int i, int j, T y)
{ T old = index(x, i, j); plain_add(&index(x, i, j), y); return old; }
template <typename T> PLAIN T plain_atomic_add(const array_t<T>& x, int i, int j, int k, T y)
{ T old = index(x, i, j, k); plain_add(&index(x, i, j, k), y); return old; }
template <typename T> PLAIN T plain_atomic_add(const array_t<T>& x, int i, int j, int k, int l, T y)
{ T old = index(x, i, j, k, l); plain_add(&index(x, i, j, k, l), y); return old; }
#undef PLAIN
}
#define adj_address plain_adj_address
#define atomic_add plain_atomic_add
static CUDA_CALLABLE void end_of_plain_sums() {
#endif
""")
def plain_sums():
    """From here on, the module's sums into arrays are plain, not atomic."""
