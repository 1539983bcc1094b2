"""Eight numbers at a time: what the snippets of `ltdl.py`, `ldu.py` and `loops.py` begin with, and products with tree blocks.

On the CPU rows are walked in chunks of eight, fused multiply-adds where the processor has them, from the first column of the tree or
island on. A chunk may reach up to seven columns beyond the entries that count, within its row: rows of `blocks` (`padded` columns) have the
room, and what stands there is multiplied by zero or never read. So no loop has a scalar tail, which took longer than all the rest of a row of
20. On a GPU the same snippets are plain loops.
"""

import warp as wp

from .. import real as device
from ..real import real
from .lanes import by_device

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
    """Length of a row that chunks of eight may walk from its first column."""
    return -(-columns // CHUNK) * CHUNK


def snippet(cpu: str, gpu: str) -> str:
    """A body in C++ for each of the two."""
    text = f"#if defined(__CUDA_ARCH__)\n{gpu}\n#else\n{V8}\n{cpu}\n#endif\n"
    return text.replace("SUM_V8", SUM_V8).replace("SCALAR", scalar)


BLOCK_TIMES = snippet(
    cpu="""
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
""",
    gpu="""
const int stride = A.shape[1];
for (int i = begin; i < end; ++i) {
    SCALAR sum = 0;
    for (int j = begin; j < end; ++j) sum += A.data[i * stride + j - begin] * x.data[j];
    y.data[i] = sum;
}
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


TEAM_COPY_LOWER = """
const int n = A.shape[1], m = B.shape[1];
for (int i = 0; i < end - begin; ++i)
    for (int j = threadIdx.x & 31; j <= i; j += 32) B.data[(row + i) * m + column + j] = A.data[(begin + i) * n + j];
__syncwarp();
"""


@device.func_native(by_device(TEAM_COPY_LOWER, COPY_LOWER))
def team_copy_lower(A: wp.array2d(dtype=real), begin: int, end: int, B: wp.array2d(dtype=real), row: int, column: int):
    """`copy_lower` by all lanes."""
    ...


@device.func_native(BLOCK_TIMES)
def block_times(A: wp.array2d(dtype=real), begin: int, end: int, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)):
    """y ← A x on [begin, end), A symmetric, both triangles, rows padded with zeros; x and y are different rows."""
    ...


@device.func_native(COPY_LOWER)
def copy_lower(A: wp.array2d(dtype=real), begin: int, end: int, B: wp.array2d(dtype=real), row: int, column: int):
    """The lower triangle of the block A[begin:end] to B from (row, column) on; rows of both are padded."""
    ...
