# SPDX-License-Identifier: Apache-2.0
"""Factors of up to `UNKNOWNS` rows on CUDA, in shared memory and registers.

Each lane of a world has one column of the matrix. Registers cannot be indexed, so the generated text names each. On the
CPU these functions do nothing; its loops are in `ltdl.py`. All lanes call them together; each ends with a `sync`.
"""

import warp as wp

from .. import real as device
from ..real import LANES, real
from .lanes import WORLD, WORLDS, by_device
from .vector import scalar

UNKNOWNS = wp.constant(LANES)
# Length of rows in shared memory: quads are aligned to 16 bytes, and eight rows of them use different banks.
STRIDE = wp.constant(UNKNOWNS + 4)
TURN = UNKNOWNS + 8  # numbers of a row that is broadcast

# 1/x without the special cases: of a tiny x it is infinite, which the next test, or the caller, finds.
RECIPROCAL = 'SCALAR y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;'
INVERSE = RECIPROCAL if scalar == "float" else "return (SCALAR)1 / x;"
QUAD = f"""
struct alignas(16) quad {{ SCALAR v[4]; }};
const auto quad_at = [](const SCALAR* p) {{ return *(const quad*)p; }};
const int STRIDE = {STRIDE};
const auto inverse_of = [](SCALAR x) {{ {INVERSE} }};
"""
# Not unrolled, so that an iteration fits into the instruction cache.
LOOP = "#pragma unroll 1\nfor "


def on_cuda(text: str, cpu: str = "") -> str:
    """A C++ body for CUDA; `cpu` is that of the CPU."""
    return by_device((QUAD + text).replace("LOOP ", LOOP).replace("SCALAR", scalar), cpu)


# Eliminate eight rows of A and of M, from row k = WIDTH − 1 down to row `first`, and update the right-hand side y with
# those of A. The row to be eliminated is always in the last register: each update moves the others up by one. Rows are
# broadcast from `passed`, which moves likewise; two copies of it alternate.
EIGHT = """
if (k >= WIDTH - 8) {
    LOOP (int s = 0; s < 8 && k >= first; ++s, --k) {
        const bool below = lane < k, stored = lane >= first && lane <= k;
        const SCALAR pivot = from_lane(h[LAST], k), inverse = inverse_of(pivot), y_k = from_lane(y, k);
        SCALAR *const row = passed + TURN * (s & 1), *const other = row + 2 * TURN;
        SCALAR minus = 0, minus_of_M = 0;
        if (lane == k) own = inverse;
        if (below) {
            row[lane + s] = h[LAST];
            Q_rows[k * STRIDE + lane] = h[LAST];
            minus = -h[LAST] * inverse;
        }
        const SCALAR entry = below ? -minus : pivot;
        if (stored) *factor = entry;
        if (damped) {
            const SCALAR pivot_of_M = from_lane(m[LAST], k);
            if (below) {
                other[lane + s] = m[LAST];
                minus_of_M = -m[LAST] * inverse_of(pivot_of_M);
            }
            if (stored) factor[to_other] = below ? -minus_of_M : pivot_of_M;
        } else if (stored) factor[to_other] = entry;
        meet();
        factor -= stride;
        y += minus * y_k;
UPDATE_A        if (damped) {
UPDATE_M        }
    }
    SHIFT
}
"""


def eights() -> str:
    """`EIGHT` for 32, 24, 16 and 8 rows, or as many as there are."""
    text = ""
    for width in range(UNKNOWNS, 0, -8):
        step = EIGHT
        for name, h, row, minus in (("UPDATE_A", "h", "row", "minus"), ("UPDATE_M", "m", "other", "minus_of_M")):
            quads = ""
            for c in range(width - 4, -1, -4):
                places = [j for j in range(c + 3, c - 1, -1) if j + 1 < width]
                each = " ".join(f"{h}[{j + 1}] = {h}[{j}] + {minus} * e.v[{j - c}];" for j in places)
                quads += f"        {{ const quad e = quad_at({row} + {c}); {each} }}\n"
            step = step.replace(name, quads)
        shift = " ".join(f"h[{j}] = h[{j + 8}]; m[{j}] = m[{j + 8}];" for j in range(width - 8))
        text += step.replace("SHIFT", shift).replace("WIDTH", str(width)).replace("LAST", str(width - 1))
    return text.replace("TURN", str(TURN))


# x_k = (y_k − Σ_{i<k} H_ki x_i)/D_k, from the rows kept below the diagonal of Q.
BACK = """
LOOP (int c = 0; c < n; c += 4) {
    const quad row = quad_at(Q_rows + lane * STRIDE + c);
    for (int t = 0; t < 4; ++t) {
        const SCALAR x_i = from_lane(y * own, c + t);
        if (lane > c + t) y -= row.v[t] * x_i;
    }
}
"""


# Rows of M and of A = M + h D; their factors, of one matrix where nothing damps; and A⁻¹ y from the rows that the
# elimination of A left in shared memory. Lane `first` has the first row, so that the last row is the last of eight.
DAMPED = """
const int rows_used = end - begin, stride = A.shape[1], n = (rows_used + 7) & ~7, first = n - rows_used, \
row = lane - first;
SCALAR* const rows = A.data + begin * stride;
const long long to_other = M_factor.data - A_factor.data;
__shared__ alignas(16) SCALAR all_Q_rows[32 * STRIDE];
__shared__ alignas(16) SCALAR all_passed[WORLDS * 4 * TURN];
SCALAR *const Q_rows = all_Q_rows + WORLD * LANES * STRIDE, *const passed = all_passed + WORLD * 4 * TURN;
const bool used = lane >= first && lane < n;
if (lane < first) *(quad*)(Q_rows + lane * STRIDE) = *(quad*)(Q_rows + lane * STRIDE + 4) = quad {};
const SCALAR damping = used ? D.data[begin + row] : (SCALAR)0;
const bool damped = ballot(damping != (SCALAR)0) != 0;
SCALAR y = used ? h_step * (force.data[begin + row] - damping * v0.data[begin + row] - bias.data[begin + row])\
 : (SCALAR)0;
SCALAR h[LANES], m[LANES], own = 0;
SCALAR* factor = A_factor.data + (end - 1) * stride + row;
const SCALAR* from = rows + row - first * stride;
int k = n - 1;
LOAD
if (damped && used) rows[row * stride + row] += h_step * damping;
EIGHTS
BACK
if (used) v_star.data[begin + row] = y * own + v0.data[begin + row];
meet();
"""
DAMPED_LOAD = """m[@k] = used && @k < n && lane <= @k ? *from : (SCALAR)0;
h[@k] = lane == @k ? m[@k] + h_step * damping : m[@k];
from += stride;
"""


def damped() -> str:
    """C++ of `DAMPED` with its rows expanded."""
    load = "".join(DAMPED_LOAD.replace("@k", str(k)) for k in range(UNKNOWNS))
    return (
        DAMPED.replace("TURN", str(TURN))
        .replace("WORLDS", str(WORLDS))
        .replace("WORLD", WORLD)
        .replace("LOAD", load)
        .replace("EIGHTS", eights())
        .replace("BACK", BACK)
    )


@device.func_native(on_cuda(damped()))
def team_damped_motion(
    h_step: real, D: wp.array1d(dtype=real), force: wp.array1d(dtype=real), bias: wp.array1d(dtype=real),
    v0: wp.array1d(dtype=real), begin: int, end: int, A: wp.array2d(dtype=real), M_factor: wp.array2d(dtype=real),
    A_factor: wp.array2d(dtype=real), v_star: wp.array1d(dtype=real),
):  # fmt: skip
    """A ← A + h D, LᵀDL of M and A, and v* ← v0 + h A⁻¹ (force − D v0 − bias), on rows [begin, end).

    At most `UNKNOWNS` rows; in blocks of one warp.
    """
    ...
