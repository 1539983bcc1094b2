# SPDX-License-Identifier: Apache-2.0
"""Inner loops over contiguous memory, as native snippets.

Warp indexes arrays by run-time strides, which prevents vectorization; over raw pointers the same loops run 2 to 4 times
faster on the CPU. Every array must be contiguous in its last dimension, a matrix J (3, M) in both. `row_dot` sums in
eight accumulators, in a fixed order.
"""

import warp as wp

from .. import real as device
from ..real import real, vec3
from .lanes import ALONE
from .vector import scalar, snippet

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
for (int j = first + lane; j < last; j += LANES) py[j] = a;
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
SCALED_COPY = """
const auto* px = x.data + first;
auto* __restrict__ py = y.data;
for (int j = 0; j < size; ++j) py[j] = a * px[j];
"""
DOT_AT = DOT.replace("y.data", "y.data + offset").replace("first", "0").replace("last", "size")
# Pointers of one contact, and of one scalar row.
ROWS = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
"""
ROW = """
const auto* pa = a.data;
const int* dof = support.data;
"""
GATHER = (
    ROWS
    + """
SCALAR a = 0, b = 0, c = 0, a_odd = 0, b_odd = 0, c_odd = 0;
int j = 0;
for (; j + 1 < size; j += 2) {
    const auto even = x.data[dof[j]], odd = x.data[dof[j + 1]];
    a += J0[j] * even;
    b += J1[j] * even;
    c += J2[j] * even;
    a_odd += J0[j + 1] * odd;
    b_odd += J1[j + 1] * odd;
    c_odd += J2[j + 1] * odd;
}
if (j < size) {
    const auto even = x.data[dof[j]];
    a += J0[j] * even;
    b += J1[j] * even;
    c += J2[j] * even;
}
return wp::vec_t<3, SCALAR>(a + a_odd, b + b_odd, c + c_odd);
"""
)
SCATTER = (
    ROWS
    + """
auto* px = x.data;
for (int j = lane; j < size; j += LANES) px[dof[j]] += J0[j] * f.c[0] + J1[j] * f.c[1] + J2[j] * f.c[2];
"""
)
# J expanded to whole rows over the window of columns from its first to its last entry, so that rows of H are updated in
# chunks of eight. The window begins at a multiple of eight and so stays inside the rows of H; entries written beyond
# the diagonal are cleared when H is factored.
WINDOW = """
int low = slot.data[dof[0]], high = low;
for (int a = 1; a < size; ++a) {
    const int s = slot.data[dof[a]];
    low = s < low ? s : low;
    high = s > high ? s : high;
}
low &= ~7;
const bool by_eights = high - low < 64;
SCALAR d0[64], d1[64], d2[64];
if (by_eights) {
    for (int c = 0; c <= high - low; c += 8) *(v8*)(d0 + c) = *(v8*)(d1 + c) = *(v8*)(d2 + c) = (SCALAR)0;
    for (int a = 0; a < size; ++a) {
        const int s = slot.data[dof[a]] - low;
        d0[s] = J0[a];
        d1[s] = J1[a];
        d2[s] = J2[a];
    }
}
"""
ROW_BY_EIGHTS = """
    SCALAR* row = H.data + s_a * n + low;
    for (int c = 0; by_eights && c <= s_a - low; c += 8) {
        const v8 sum = fma((v8)g1, *(const v8*)(d1 + c), fma((v8)g2, *(const v8*)(d2 + c), *(v8*)(row + c)));
        *(v8*)(row + c) = fma((v8)g0, *(const v8*)(d0 + c), sum);
    }
"""
# Update of an entry of H by a contact and by a scalar row: pointers, terms common to row a, and the entry.
CONTACT_ENTRY = (
    ROWS,
    """
    const SCALAR g0 = G.data[0][0] * J0[a] + G.data[0][1] * J1[a] + G.data[0][2] * J2[a];
    const SCALAR g1 = G.data[1][0] * J0[a] + G.data[1][1] * J1[a] + G.data[1][2] * J2[a];
    const SCALAR g2 = G.data[2][0] * J0[a] + G.data[2][1] * J1[a] + G.data[2][2] * J2[a];
""",
    "g0 * J0[b] + g1 * J1[b] + g2 * J2[b]",
)
ROW_ENTRY = (ROW, "const SCALAR g_a = g * pa[a];", "g_a * pa[b]")
BY_SLOTS = """
const int n = H.shape[1];
for (int a = 0; a < size; ++a) {
    const int s_a = slot.data[dof[a]];
    WEIGHTS
    for (int b = 0; b <= a; ++b) {
        const int s_b = slot.data[dof[b]];
        H.data[s_a > s_b ? s_a * n + s_b : s_b * n + s_a] += ENTRY;
    }
}
"""


def with_entry(text: str, entry: tuple[str, str, str]) -> str:
    """A C++ body whose loops over row a and column b add `entry`."""
    pointers, weights, added = entry
    return (pointers + text.replace("WEIGHTS", weights).replace("ENTRY", added)).replace("SCALAR", scalar)


BY_EIGHTS = WINDOW + BY_SLOTS.replace("WEIGHTS", "WEIGHTS" + ROW_BY_EIGHTS).replace("b <= a", "!by_eights && b <= a")
GRAM = snippet(cpu=with_entry(BY_EIGHTS, CONTACT_ENTRY), gpu=with_entry(BY_SLOTS, CONTACT_ENTRY))
SPARSE_GRAM = with_entry(BY_SLOTS, ROW_ENTRY)
SPARSE_DOT = (
    ROW
    + """
SCALAR sum = 0;
for (int j = 0; j < size; ++j) sum += pa[j] * x.data[dof[j]];
return sum;
"""
)
SPARSE_ADD = (
    ROW
    + """
auto* px = x.data;
for (int j = lane; j < size; j += LANES) px[dof[j]] += f * pa[j];
"""
)

# `row_*` work on one-dimensional views over [first, last), `support_*` on the compressed Jacobian of one contact,
# `sparse_*` on that of one scalar row.


@device.func_native(AXPY)
def row_axpy(a: real, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), first: int, last: int):
    """y ← y + a x; x and y are different rows."""
    ...


@device.func_native(COPY)
def row_copy(x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), first: int, last: int):
    """y ← x."""
    ...


@device.func_native(ALONE + FILL)
def row_fill(a: real, y: wp.array1d(dtype=real), first: int, last: int):
    """y ← a."""
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


@device.func_native(ALONE + SCATTER)
def support_add(
    J: wp.array2d(dtype=real), support: wp.array1d(dtype=int), size: int, f: vec3, x: wp.array1d(dtype=real)
):
    """x ← x + Jᵀf of one contact."""
    ...


@device.func_native(SPARSE_DOT.replace("SCALAR", scalar))
def sparse_dot(a: wp.array1d(dtype=real), support: wp.array1d(dtype=int), size: int, x: wp.array1d(dtype=real)) -> real:
    """aᵀx over the support of a."""
    ...


@device.func_native(ALONE + SPARSE_ADD)
def sparse_add(
    a: wp.array1d(dtype=real), support: wp.array1d(dtype=int), size: int, f: real, x: wp.array1d(dtype=real)
):
    """x ← x + f a."""
    ...
