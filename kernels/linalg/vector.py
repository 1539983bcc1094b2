# SPDX-License-Identifier: Apache-2.0
"""Chunks of eight numbers: the common C++ of `ltdl.py`, `ldu.py` and `loops.py`, and products with tree blocks.

On the CPU, loops walk rows in chunks of eight from the first column of the tree or island on, with fused
multiply-adds where the processor has them. A chunk may reach up to seven columns beyond the used entries, within its
row: rows of `blocks` have room (`padded` columns), and the extra entries are multiplied by zero or never read. So no
loop has a scalar tail, which took longer than the rest of a row of 20. On a GPU the same snippets are plain loops.
"""

import warp as wp

from .. import real as device
from ..real import real
from .lanes import OWN_PART, WARPS, by_device, on_gpu

CHUNK = 8

# SCALAR: the type; v8: eight of them, anywhere in memory; fma(a, x, y) = a x + y.
V8 = """
typedef SCALAR v8 __attribute__((ext_vector_type(8), aligned(sizeof(SCALAR))));
const auto fma = [](v8 a, v8 x, v8 y) -> v8 {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_elementwise_fma(a, x, y);
#else
    return a * x + y;
#endif
};
"""
SUM_V8 = "(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])))"

scalar = {wp.float32: "float", wp.float64: "double"}[real]


def padded(columns: int) -> int:
    """Length of a row that chunks of eight can walk from its first column."""
    return -(-columns // CHUNK) * CHUNK


def snippet(cpu: str, gpu: str) -> str:
    """A C++ body for CPU and GPU."""
    text = f"#if defined(__CUDA_ARCH__)\n{on_gpu(gpu)}\n#else\n{V8}\n{cpu}\n#endif\n"
    return text.replace("SUM_V8", SUM_V8).replace("SCALAR", scalar)


# x ← U⁻¹ D⁻¹ L⁻¹ x and the like, in blocks of eight rows. UP is the first number of the triangle of the pass from the
# last row up, DOWN that of the pass from the first row down, DIAGONAL that of D. FIRST is where row k begins; the rest
# of its first chunk is zero. Within a block numbers stay in registers: the processor stalls when it reads eight numbers
# at once that were written one by one.
SOLVE_BY_EIGHTS = """
SCALAR s[8];
int chunk[8];
for (int b = (size - 1) & ~7; b >= 0; b -= 8) {
    const int m = size - b < 8 ? size - b : 8;
    const SCALAR* rows = UP + b * UP_STEP;
    int lowest = b;
    for (int r = 0; r < m; ++r) {
        const int k = b + r;
        s[r] = px[k];
        chunk[r] = (FIRST) & ~7;
        if (chunk[r] < lowest) lowest = chunk[r];
    }
    for (int r = m - 1; r > 0; --r)
        for (int i = 0; i < r; ++i) s[i] -= s[r] * rows[r * UP_STEP + b + i];
    for (int r = 0; r < m; ++r) px[b + r] = s[r];
    for (int c = lowest; c < b; c += 8) {
        v8 y = *(const v8*)(px + c);
        for (int r = 0; r < m; ++r)
            if (c >= chunk[r]) y = fma((v8)(-s[r]), *(const v8*)(rows + r * UP_STEP + c), y);
        *(v8*)(px + c) = y;
    }
}
for (int b = 0; b < size; b += 8) {
    const int m = size - b < 8 ? size - b : 8;
    const SCALAR* rows = DOWN + b * DOWN_STEP;
    SCALAR left[8];
    for (int r = 0; r < m; ++r) {
        const int k = b + r;
        v8 s = (SCALAR)0;
        for (int c = (FIRST) & ~7; c < b; c += 8) \
s = fma(*(const v8*)(rows + r * DOWN_STEP + c), *(const v8*)(px + c), s);
        left[r] = px[k] / DIAGONAL[k * n + k] - SUM_V8;
    }
    for (int r = 0; r < m; ++r) {
        px[b + r] = left[r];
        for (int i = r + 1; i < m; ++i) left[i] -= rows[i * DOWN_STEP + b + r] * left[r];
    }
}
"""
# The same by the lanes of a world: one row per lane, or several of larger blocks.
SOLVE_BY_LANES = """
if (size <= LANES) {
    SCALAR y = lane < size ? px[lane] : (SCALAR)0;
    for (int k = size - 1; k > 0; --k) {
        const SCALAR x_k = from_lane(y, k);
        if (lane < k) y -= x_k * UP[k * UP_STEP + lane];
    }
    if (lane < size) y /= DIAGONAL[lane * n + lane];
    for (int k = 1; k < size; ++k) {
        SCALAR sum = lane < k ? DOWN[k * DOWN_STEP + lane] * y : (SCALAR)0;
        for (int other = LANES / 2; other > 0; other >>= 1) sum += across(sum, other);
        if (lane == k) y -= sum;
    }
    if (lane < size) px[lane] = y;
} else {
    for (int k = size - 1; k > 0; --k) {
        const SCALAR x_k = px[k];
        for (int j = FIRST + lane; j < k; j += LANES) px[j] -= x_k * UP[k * UP_STEP + j];
        meet();
    }
    for (int k = 0; k < size; ++k) {
        SCALAR sum = 0;
        for (int j = FIRST + lane; j < k; j += LANES) sum += DOWN[k * DOWN_STEP + j] * px[j];
        for (int other = LANES / 2; other > 0; other >>= 1) sum += across(sum, other);
        if (lane == 0) px[k] = px[k] / DIAGONAL[k * n + k] - sum;
        meet();
    }
}
meet();
"""


def solved(text: str, up: str, down: str, diagonal: str, first: str, up_step: str = "n", down_step: str = "n") -> str:
    """C++ of the two passes on `px`, `size` and matrices that the preceding text names.

    Rows of UP are `up_step` numbers apart, those of DOWN `down_step`, those of DIAGONAL n.
    """
    steps = {"UP_STEP": up_step, "DOWN_STEP": down_step}
    for name, what in (steps | {"UP": up, "DOWN": down, "DIAGONAL": diagonal, "FIRST": first}).items():
        text = text.replace(name, what)
    return text


# Pairs b ≤ a have the numbers a (a + 1)/2 + b. Where b is 0 the root is of a square; an approximate root, too small by
# one unit in the last place, is corrected.
PAIR = """
const auto row_of_pair = [](unsigned pair) -> unsigned {
    const unsigned a = (unsigned)((sqrtf(8.0f * pair + 1.0f) - 1.0f) * 0.5f), begin = a * (a + 1) / 2;
    return a - (begin > pair) + (begin + a + 1 <= pair);
};
"""
# With up to `LANES` rows on a GPU: the nonzero entries of a row are packed in shared memory, and each lane takes one
# pair of them. UPDATE updates the entry in row place[a] and column place[b].
ELIMINATE_PAIRS = """
    const unsigned below_lane = left & ((1u << lane) - 1);
    if (left >> lane & 1u) {
        const int rank = __popc(below_lane);
        place[rank] = lane;
        KEEP
    }
    meet();
    const unsigned held = __popc(left), pairs = held * (held + 1) / 2;
    const auto update = [&](unsigned a, unsigned b) {
        const unsigned at = place[a] * row + place[b] * (unsigned)sizeof(SCALAR);
        UPDATE
    };
    if (lane < pairs) update(a_0, b_0);
    if (lane + LANES < pairs) update(a_1, b_1);
    for (unsigned pair = lane + 2 * LANES; pair < pairs; pair += LANES) {
        const unsigned a = row_of_pair(pair);
        update(a, pair - a * (a + 1) / 2);
    }
    meet();
"""
FIRST_PAIRS = """
const unsigned row = n * sizeof(SCALAR), a_0 = row_of_pair(lane), b_0 = lane - a_0 * (a_0 + 1) / 2;
const unsigned a_1 = row_of_pair(lane + LANES), b_1 = lane + LANES - a_1 * (a_1 + 1) / 2;
"""


def eliminated(text: str, keep: str, update: str) -> str:
    """A C++ body with its PAIRS replaced by `ELIMINATE_PAIRS`."""
    pairs = ELIMINATE_PAIRS.replace("KEEP", keep).replace("UPDATE", update)
    text = text.replace("FIRST_PAIRS", PAIR + FIRST_PAIRS).replace("PAIRS", pairs)
    return text.replace("OWN_PART", OWN_PART).replace("WARPS", str(WARPS))


BLOCK_TIMES_ALONE = """
const int stride = A.shape[1], size = end - begin;
const SCALAR* rows = A.data + begin * stride;
const SCALAR* px = x.data + begin;
SCALAR* py = y.data + begin;
for (int c = 0; c < size; c += 24) {
    const SCALAR* row = rows + c;
    const int left = size - c;
    v8 a = (SCALAR)0, b = (SCALAR)0, d = (SCALAR)0;
    if (left > 16)
        for (int i = 0; i < size; ++i, row += stride) {
            const v8 m = px[i];
            a = fma(m, *(const v8*)row, a);
            b = fma(m, *(const v8*)(row + 8), b);
            d = fma(m, *(const v8*)(row + 16), d);
        }
    else if (left > 8)
        for (int i = 0; i < size; ++i, row += stride) {
            const v8 m = px[i];
            a = fma(m, *(const v8*)row, a);
            b = fma(m, *(const v8*)(row + 8), b);
        }
    else
        for (int i = 0; i < size; ++i, row += stride) a = fma((v8)px[i], *(const v8*)row, a);
    SCALAR out[24];
    *(v8*)out = a;
    *(v8*)(out + 8) = b;
    *(v8*)(out + 16) = d;
    const int count = left < 24 ? left : 24;
    for (int j = 0; j < count; ++j) py[c + j] = out[j];
}
"""
BLOCK_TIMES = snippet(
    cpu=BLOCK_TIMES_ALONE,
    gpu="""
const int stride = A.shape[1], size = end - begin;
const SCALAR* rows = A.data + begin * stride;
for (int j = lane; j < size; j += LANES) {
    SCALAR sum = 0;
    for (int i = 0; i < size; ++i) sum += rows[i * stride + j] * x.data[begin + i];
    y.data[begin + j] = sum;
}
meet();
""",
)
COPY_LOWER = snippet(
    cpu="""
const int n = A.shape[1], m = B.shape[1], size = end - begin;
const SCALAR* a = A.data + begin * n;
SCALAR* b = B.data + row * m + column;
for (int i = 0; i < size; ++i, a += n, b += m)
    for (int c = 0; c <= i; c += 8) *(v8*)(b + c) = *(const v8*)(a + c);
""",
    gpu="""
const int n = A.shape[1], m = B.shape[1];
for (int i = 0; i < end - begin; ++i)
    for (int j = 0; j <= i; ++j) B.data[(row + i) * m + column + j] = A.data[(begin + i) * n + j];
""",
)


# Loads whose result nothing uses, of one number in every sector of the cache: lanes do not wait for them.
FETCH = """
for (int at = lane * (32 / sizeof(SCALAR)); at < COUNT; at += LANES * (32 / sizeof(SCALAR))) {
    SCALAR unused;
    asm volatile("ld.global.TYPE %0, [%1];" : "=REGISTER"(unused) : "l"(FIRST + at));
}
""".replace("TYPE", {"float": "f32", "double": "f64"}[scalar]).replace("REGISTER", scalar[0])


def fetched(first: str, count: str) -> str:
    """C++ by which the lanes of a world ask for `count` numbers from the pointer `first` on, on CUDA.

    What is then read in sequence comes from the cache, without a wait for memory at every step.
    """
    return FETCH.replace("FIRST", first).replace("COUNT", count)


ROWS_FETCHED = snippet(cpu="", gpu=fetched("A.data + begin * A.shape[1]", "(end - begin) * A.shape[1]"))


@device.func_native(ROWS_FETCHED)
def team_fetch(A: wp.array2d(dtype=real), begin: int, end: int):
    """Have rows [begin, end) of A brought to the cache, on CUDA. By all lanes; it changes times only."""
    ...


TEAM_COPY_LOWER = """
const int n = A.shape[1], m = B.shape[1];
for (int i = 0; i < end - begin; ++i)
    for (int j = lane; j <= i; j += LANES) B.data[(row + i) * m + column + j] = A.data[(begin + i) * n + j];
meet();
"""


@device.func_native(by_device(TEAM_COPY_LOWER, COPY_LOWER))
def team_copy_lower(A: wp.array2d(dtype=real), begin: int, end: int, B: wp.array2d(dtype=real), row: int, column: int):
    """`copy_lower` by all lanes."""
    ...


@device.func_native(BLOCK_TIMES)
def team_block_times(
    A: wp.array2d(dtype=real), begin: int, end: int, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)
):
    """y ← A x on [begin, end) by all lanes; A symmetric with both triangles, rows padded with zeros; x ≠ y."""
    ...


@device.func_native(COPY_LOWER)
def copy_lower(A: wp.array2d(dtype=real), begin: int, end: int, B: wp.array2d(dtype=real), row: int, column: int):
    """Copy the lower triangle of the block A[begin:end] to B from (row, column) on; rows of both are padded."""
    ...
