# SPDX-License-Identifier: Apache-2.0
"""The vertex of a hull farthest along a direction: most of the cost of the narrow phase of meshes.

The CPU code treats eight vertices at a time.
"""

import warp as wp

from ... import real as device
from ...linalg.vector import snippet
from ...real import vec3

# Height of vertex k, whose three coordinates are adjacent in memory.
HEIGHT = "(p[3 * (k)] * d[0] + p[3 * (k) + 1] * d[1] + p[3 * (k) + 2] * d[2])"
SCALAR_LOOP = f"""
for (; k < count; ++k) {{
    const SCALAR height = {HEIGHT};
    if (height > most) {{
        most = height;
        found = k;
    }}
}}
return found;
"""
BEGIN = """
const SCALAR* p = (const SCALAR*)(vertex.data + start);
int found = 0, k = 1;
"""
# Eight vertices are 24 numbers, loaded as three rows of eight and shuffled into x, y and z. Each of the eight SIMD
# lanes keeps its first highest vertex. Among equally high vertices the first one wins.
BY_EIGHTS = """
SCALAR most;
if (count >= 8) {
    typedef SCALAR lanes8 __attribute__((ext_vector_type(8)));
    lanes8 best = (SCALAR)(-INFINITY), at = (SCALAR)0, index = {0, 1, 2, 3, 4, 5, 6, 7};
    for (k = 0; k + 8 <= count; k += 8) {
        const lanes8 a = *(const v8*)(p + 3 * k), b = *(const v8*)(p + 3 * k + 8), c = *(const v8*)(p + 3 * k + 16);
        const lanes8 x = __builtin_shufflevector(__builtin_shufflevector(a, b, 0, 3, 6, 9, 12, 15, 0, 0), \
c, 0, 1, 2, 3, 4, 5, 10, 13);
        const lanes8 y = __builtin_shufflevector(__builtin_shufflevector(a, b, 1, 4, 7, 10, 13, 0, 0, 0), \
c, 0, 1, 2, 3, 4, 8, 11, 14);
        const lanes8 z = __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 5, 8, 11, 14, 0, 0, 0), \
c, 0, 1, 2, 3, 4, 9, 12, 15);
        const lanes8 height = x * d[0] + y * d[1] + z * d[2];
        const auto higher = height > best;
        best = higher ? height : best;
        at = higher ? index : at;
        index += (SCALAR)8;
    }
    most = best[0];
    found = (int)at[0];
    for (int l = 1; l < 8; ++l)
        if (best[l] > most || (best[l] == most && (int)at[l] < found)) {
            most = best[l];
            found = (int)at[l];
        }
} else {
    most = p[0] * d[0] + p[1] * d[1] + p[2] * d[2];
}
"""
FIRST = "SCALAR most = p[0] * d[0] + p[1] * d[1] + p[2] * d[2];\n"


@device.func_native(snippet(cpu=BEGIN + BY_EIGHTS + SCALAR_LOOP, gpu=BEGIN + FIRST + SCALAR_LOOP))
def farthest_vertex(vertex: wp.array(dtype=vec3), start: int, count: int, d: vec3) -> int:
    """Index, relative to `start`, of the farthest vertex along d among `count` >= 1 vertices; the first of equals."""
    ...
