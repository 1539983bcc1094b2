"""Inner loops over contiguous memory, as native snippets.

Warp indexes arrays by run-time strides, which keeps the compiler from vectorising; over raw pointers the same loops run
2 to 4 times faster on the CPU. Every array given here must be contiguous in its last dimension, and a matrix J (3, M)
in both. The sums of `row_dot` run in eight lanes, a fixed order.
"""

import warp as wp

from .. import real as device
from ..real import mat33, real, vec3

AXPY = """
auto* __restrict__ px = x.data;
auto* __restrict__ py = y.data;
for (int j = first; j < last; ++j) py[j] += a * px[j];
"""
COPY = """
auto* __restrict__ px = x.data;
auto* __restrict__ py = y.data;
for (int j = first; j < last; ++j) py[j] = px[j];
"""
FILL = """
auto* __restrict__ py = y.data;
for (int j = first; j < last; ++j) py[j] = a;
"""
CLEAR_VECTORS = """
auto* py = y.data;
for (int j = first; j < last; ++j) py[j] = {};
"""
SCALE = """
auto* __restrict__ py = y.data;
for (int j = first; j < last; ++j) py[j] = a * py[j];
"""
DOT = """
const auto* px = x.data;
const auto* py = y.data;
SCALAR lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
int j = first;
for (; j + 8 <= last; j += 8)
    for (int l = 0; l < 8; ++l) lane[l] += px[j + l] * py[j + l];
for (int l = 0; j < last; ++j, ++l) lane[l] += px[j] * py[j];
return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
"""
AXPY_AT = """
auto* __restrict__ px = x.data;
auto* __restrict__ py = y.data + offset;
for (int j = 0; j < size; ++j) py[j] += a * px[j];
"""
COPY_AT = """
auto* __restrict__ px = x.data;
auto* __restrict__ py = y.data + offset;
for (int j = 0; j < size; ++j) py[j] = px[j];
"""
SCALED_COPY = """
const auto* px = x.data + first;
auto* __restrict__ py = y.data;
for (int j = 0; j < size; ++j) py[j] = a * px[j];
"""
DOT_AT = DOT.replace("y.data", "y.data + offset").replace("first", "0").replace("last", "size")
GATHER = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
SCALAR a = 0, b = 0, c = 0;
for (int j = 0; j < size; ++j) {
    const auto x_j = x.data[dof[j]];
    a += J0[j] * x_j;
    b += J1[j] * x_j;
    c += J2[j] * x_j;
}
return wp::vec_t<3, SCALAR>(a, b, c);
"""
SCATTER = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
auto* px = x.data;
for (int j = 0; j < size; ++j) px[dof[j]] += J0[j] * f.c[0] + J1[j] * f.c[1] + J2[j] * f.c[2];
"""

GRAM = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
const int n = H.shape[1];
for (int a = 0; a < size; ++a) {
    const int s_a = slot.data[dof[a]];
    const auto g0 = G.data[0][0] * J0[a] + G.data[0][1] * J1[a] + G.data[0][2] * J2[a];
    const auto g1 = G.data[1][0] * J0[a] + G.data[1][1] * J1[a] + G.data[1][2] * J2[a];
    const auto g2 = G.data[2][0] * J0[a] + G.data[2][1] * J1[a] + G.data[2][2] * J2[a];
    for (int b = 0; b <= a; ++b) {
        const int s_b = slot.data[dof[b]];
        H.data[s_a > s_b ? s_a * n + s_b : s_b * n + s_a] += g0 * J0[b] + g1 * J1[b] + g2 * J2[b];
    }
}
"""


SPARSE_DOT = """
const auto* pa = a.data;
const int* dof = support.data;
SCALAR sum = 0;
for (int j = 0; j < size; ++j) sum += pa[j] * x.data[dof[j]];
return sum;
"""
SPARSE_ADD = """
const auto* pa = a.data;
const int* dof = support.data;
auto* px = x.data;
for (int j = 0; j < size; ++j) px[dof[j]] += f * pa[j];
"""
SPARSE_GRAM = """
const auto* pa = a.data;
const int* dof = support.data;
const int n = H.shape[1];
for (int i = 0; i < size; ++i) {
    const int s_i = slot.data[dof[i]];
    const auto g_i = g * pa[i];
    for (int j = 0; j <= i; ++j) {
        const int s_j = slot.data[dof[j]];
        H.data[s_i > s_j ? s_i * n + s_j : s_j * n + s_i] += g_i * pa[j];
    }
}
"""

scalar = {wp.float32: "float", wp.float64: "double"}[real]


# `row_*`: on one-dimensional views over [first, last). `support_*`: on the compressed Jacobian of one contact, `sparse_*` on
# that of one scalar row.


@device.func_native(AXPY)
def row_axpy(a: real, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), first: int, last: int):
    """y ← y + a x; x and y are different rows."""
    ...


@device.func_native(COPY)
def row_copy(x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), first: int, last: int):
    """y ← x."""
    ...


@device.func_native(FILL)
def row_fill(a: real, y: wp.array1d(dtype=real), first: int, last: int):
    """y ← a."""
    ...


@device.func_native(CLEAR_VECTORS)
def vectors_clear(y: wp.array1d(dtype=vec3), first: int, last: int):
    """y ← 0."""
    ...


@device.func_native(SCALE)
def row_scale(a: real, y: wp.array1d(dtype=real), first: int, last: int):
    """y ← a y."""
    ...


@device.func_native(DOT.replace("SCALAR", scalar))
def row_dot(x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), first: int, last: int) -> real:
    """xᵀy."""
    ...


@device.func_native(AXPY_AT)
def row_axpy_at(a: real, x: wp.array1d(dtype=real), size: int, y: wp.array1d(dtype=real), offset: int):
    """y[offset:offset + size] ← y[…] + a x[:size]."""
    ...


@device.func_native(COPY_AT)
def row_copy_at(x: wp.array1d(dtype=real), size: int, y: wp.array1d(dtype=real), offset: int):
    """y[offset:offset + size] ← x[:size]."""
    ...


@device.func_native(SCALED_COPY)
def row_scaled_copy(a: real, x: wp.array1d(dtype=real), first: int, y: wp.array1d(dtype=real), size: int):
    """y[:size] ← a x[first:first + size]."""
    ...


@device.func_native(DOT_AT.replace("SCALAR", scalar))
def row_dot_at(x: wp.array1d(dtype=real), size: int, y: wp.array1d(dtype=real), offset: int) -> real:
    """x[:size]ᵀ y[offset:offset + size]."""
    ...


@device.func_native(GATHER.replace("SCALAR", scalar))
def support_rate(
    J: wp.array2d(dtype=real), support: wp.array1d(dtype=int), size: int, x: wp.array1d(dtype=real)
) -> vec3:
    """J x of one contact."""
    ...


@device.func_native(SCATTER)
def support_add(
    J: wp.array2d(dtype=real), support: wp.array1d(dtype=int), size: int, f: vec3, x: wp.array1d(dtype=real)
):
    """x ← x + Jᵀf of one contact."""
    ...


@device.func_native(GRAM)
def support_add_gram(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    G: mat33,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """H ← H + JᵀGJ of one contact, lower triangle; dof d is row and column slot[d] of H."""
    ...


@device.func_native(SPARSE_DOT.replace("SCALAR", scalar))
def sparse_dot(a: wp.array1d(dtype=real), support: wp.array1d(dtype=int), size: int, x: wp.array1d(dtype=real)) -> real:
    """aᵀx over the support of a."""
    ...


@device.func_native(SPARSE_ADD)
def sparse_add(
    a: wp.array1d(dtype=real), support: wp.array1d(dtype=int), size: int, f: real, x: wp.array1d(dtype=real)
):
    """x ← x + f a."""
    ...


@device.func_native(SPARSE_GRAM)
def sparse_add_gram(
    a: wp.array1d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    g: real,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """H ← H + g a aᵀ, lower triangle; dof d is row and column slot[d] of H."""
    ...
