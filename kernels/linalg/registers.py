# SPDX-License-Identifier: Apache-2.0
"""Linear algebra of up to `UNKNOWNS` unknowns and `ROWS` constraint rows on CUDA, in shared memory and registers.

Each lane of a world has one unknown. J is dense, with rows of `STRIDE` numbers: four numbers are read at once, and
lanes that read rows or columns have no bank conflicts. A square `Q` holds A in its upper triangle, diagonal included,
and below it the rows that elimination leaves of H = A + JᵀGJ. H itself is in registers: each lane has one column, and
one row if H is not symmetric. Registers cannot be indexed, so the generated text names each. Entries before and after
the unknowns and beyond the used rows are 0, or their results are never used.

On the CPU these functions do nothing; its loops are in `ltdl.py`, `ldu.py` and `loops.py`. All lanes call them
together; each ends with a `sync`.
"""

import warp as wp

from .. import real as device
from ..real import LANES, mat33, real
from .lanes import WORLD, WORLDS, by_device
from .vector import scalar

UNKNOWNS = wp.constant(LANES)
# Length of rows in shared memory: quads are aligned to 16 bytes, and eight rows of them use different banks.
STRIDE = wp.constant(UNKNOWNS + 4)
ROWS = wp.constant(min(40, 4 * LANES))
TURN = UNKNOWNS + 8  # numbers of a row that is broadcast
SCRATCH = wp.constant(4 * TURN)  # two rows of each of two triangles

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


def by_quads(text: str, each: str, end: int = UNKNOWNS) -> str:
    """Repeat `text` for @c = 0, 4, … < end; EACH becomes `each` for the numbers @t of a quad, at index @j of a row."""
    made = ""
    for c in range(0, end, 4):
        entries = [each.replace("@j", str(c + t)).replace("@t", str(t)) for t in range(4)]
        made += text.replace("@c", str(c)).replace("EACH", " ".join(entries))
    return made


# Lane i has h[j] = H_ji, j ≥ i, and u[j] = H_ij if H is not symmetric; entries before the diagonal are never used.
A_QUAD = "{ const quad a = quad_at(Q.data + lane * STRIDE + @c); EACH }\n"
# Quads of columns in which a constraint row has only zeros are skipped. SLIDES: (J_iᵀ G)_n of unsymmetric G.
CONTACTS = """
LOOP (int c = 0; c < contacts; ++c) {
    const SCALAR* const g = (const SCALAR*)(G.data + c);
    if (g[8] == (SCALAR)0) continue;
    const SCALAR* const J_c = J.data + 3 * c * STRIDE;
    const SCALAR a0 = J_c[lane], a1 = J_c[STRIDE + lane], a2 = J_c[2 * STRIDE + lane];
    const unsigned held = ballot(a0 != (SCALAR)0 || a1 != (SCALAR)0 || a2 != (SCALAR)0);
    SCALAR s0 = g[0] * a0 + g[1] * a1 + g[2] * a2;
    SCALAR s1 = g[3] * a0 + g[4] * a1 + g[5] * a2;
    const SCALAR s2 = g[6] * a0 + g[7] * a1 + g[8] * a2;
    SLIDES
QUADS}
"""
CONTACT_QUAD = """    if (held & (15u << @c)) {
        const quad t1 = quad_at(J_c + @c), t2 = quad_at(J_c + STRIDE + @c), n_ = quad_at(J_c + 2 * STRIDE + @c);
        EACH
    }
"""
SCALAR_ROWS = """
LOOP (int k = 0; k < rows; ++k) {
    const SCALAR g = row_G.data[k];
    if (g == (SCALAR)0) continue;
    const SCALAR* const J_k = J.data + (3 * contacts + k) * STRIDE;
    const SCALAR a = J_k[lane], s = g * a;
    const unsigned held = ballot(a != (SCALAR)0);
QUADS}
"""
ROW_QUAD = "    if (held & (15u << @c)) { const quad row = quad_at(J_k + @c); EACH }\n"
# Eliminate eight rows, from row k = WIDTH − 1 down to row `first`, and update the right-hand side y with them. The row
# to be eliminated is always in the last register: each update moves the others up by one. The row is broadcast from
# `passed`, which moves likewise; two copies of it alternate.
EIGHT = """
if (k >= WIDTH - 8) {
    LOOP (int s = 0; s < 8 && k >= first; ++s, --k) {
        const SCALAR pivot = from_lane(h[LAST], k);
        TEST
        const SCALAR inverse = inverse_of(pivot), y_k = from_lane(y, k);
        SCALAR* const row = passed + TURN * (s & 1);
        if (lane == k) own = inverse;
        if (lane < k) {
            row[lane + s] = h[LAST];
            KEEP
        }
        meet();
        const SCALAR left = lane < k ? h[LAST] * inverse : (SCALAR)0;
        ABOVE
QUADS    }
    SHIFT
}
"""


def eights(test: str, keep: str, above: str, columns: tuple[tuple[str, str, str], ...]) -> str:
    """`EIGHT` for 32, 24, 16 and 8 rows, or as many as there are.

    `columns`: (array in registers, factor, its copy in shared memory) of the arrays to update.
    """
    text = ""
    for width in range(UNKNOWNS, 0, -8):
        quads, shift = "", ""
        for c in range(width - 4, -1, -4):
            for x, factor, row in columns:
                each = [
                    f"{x}[{j + 1}] = {x}[{j}] - {factor} * e.v[{j - c}];"
                    for j in range(c + 3, c - 1, -1)
                    if j + 1 < width
                ]
                quads += f"        {{ const quad e = quad_at({row} + {c}); {' '.join(each)} }}\n"
        for x, _, _ in columns:
            shift += " ".join(f"{x}[{j}] = {x}[{j + 8}];" for j in range(width - 8))
        step = (
            EIGHT.replace("TEST", test)
            .replace("KEEP", keep)
            .replace("ABOVE", above)
            .replace("QUADS", quads)
            .replace("SHIFT", shift)
        )
        text += (
            step.replace("WIDTH", str(width)).replace("LAST", str(width - 1)).replace("TURN", str(TURN * len(columns)))
        )
    return text


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


def newton(start: str, slides: str, contact: str, row: str, sound: str, keep: str, above: str, columns: tuple) -> str:
    """C++ that assembles H, eliminates and solves; the arguments differ between symmetric and unsymmetric H."""
    text = f"SCALAR h[{UNKNOWNS}], u[{UNKNOWNS}], y = x.data[lane], own = (SCALAR)0;\n" + by_quads(A_QUAD, start)
    text += CONTACTS.replace("SLIDES", slides).replace("QUADS", by_quads(CONTACT_QUAD, contact))
    text += SCALAR_ROWS.replace("QUADS", by_quads(ROW_QUAD, row))
    text += "SCALAR *const passed = scratch.data, *const Q_rows = Q.data;\nint k = n - 1;\nmeet();\n"
    text += eights(f"if (!({sound} && pivot - pivot == (SCALAR)0)) return k + 1;", keep, above, columns) + BACK
    return text + "meet();\nx.data[lane] = y * own;\nmeet();\nreturn 0;\n"


SYMMETRIC = newton(
    start="h[@j] = a.v[@t];",
    slides="",
    contact="h[@j] += s0 * t1.v[@t] + s1 * t2.v[@t] + s2 * n_.v[@t];",
    row="h[@j] += s * row.v[@t];",
    sound="pivot > (SCALAR)0",
    keep="Q_rows[k * STRIDE + lane] = h[LAST];",
    above="y -= left * y_k;",
    columns=(("h", "left", "row"),),
)
# Rows of M, then of A = M + h D (M itself where nothing damps); their factors, and A⁻¹ y from the rows that elimination
# left in shared memory. Lane `first` has the first row, so that the last row is the last of eight.
DAMPED = """
const int rows_used = end - begin, stride = A.shape[1], n = (rows_used + 7) & ~7, first = n - rows_used, \
row = lane - first;
SCALAR* const rows = A.data + begin * stride;
const long long to_other = M_factor.data - A_factor.data;
__shared__ alignas(16) SCALAR all_Q_rows[32 * STRIDE];
__shared__ alignas(16) SCALAR all_passed[WORLDS * 2 * TURN];
SCALAR *const Q_rows = all_Q_rows + WORLD * LANES * STRIDE, *const passed = all_passed + WORLD * 2 * TURN;
const bool used = lane >= first && lane < n;
if (lane < first) *(quad*)(Q_rows + lane * STRIDE) = *(quad*)(Q_rows + lane * STRIDE + 4) = quad {};
const SCALAR damping = used ? D.data[begin + row] : (SCALAR)0;
const SCALAR rest = used ? h_step * (force.data[begin + row] - damping * v0.data[begin + row]\
 - bias.data[begin + row]) : (SCALAR)0;
const bool damped = ballot(damping != (SCALAR)0) != 0;
SCALAR h[LANES], y, own;
LOOP (int turn = damped ? 0 : 1; turn < 2; ++turn) {
    if (turn == 1 && damped) {
        if (used) rows[row * stride + row] += h_step * damping;
        meet();
    }
    SCALAR* factor = A_factor.data + (turn == 1 ? 0 : to_other) + (end - 1) * stride + row;
    const SCALAR* from = rows + row - first * stride;
    y = rest;
    own = (SCALAR)0;
    int k = n - 1;
LOAD
EIGHTS
}
BACK
if (used) v_star.data[begin + row] = y * own + v0.data[begin + row];
meet();
"""
DAMPED_LOAD = "    h[@k] = used && @k < n && lane <= @k ? *from : (SCALAR)0;\n    from += stride;\n"
DAMPED_STORE = """if (lane >= first && lane <= k) {
            *factor = lane < k ? left : pivot;
            if (!damped) factor[to_other] = lane < k ? left : pivot;
        }
        factor -= stride;
        y -= left * y_k;"""


def damped() -> str:
    """C++ of `DAMPED` with its rows expanded."""
    load = "".join(DAMPED_LOAD.replace("@k", str(k)) for k in range(UNKNOWNS))
    text = eights("", "Q_rows[k * STRIDE + lane] = h[LAST];", DAMPED_STORE, (("h", "left", "row"),))
    return (
        DAMPED.replace("TURN", str(TURN))
        .replace("WORLDS", str(WORLDS))
        .replace("WORLD", WORLD)
        .replace("LOAD", load)
        .replace("EIGHTS", text)
        .replace("BACK", BACK)
    )


A_TIMES = """
SCALAR sum = (SCALAR)0;
LOOP (int c = 0; c < n; c += 4) {
    const quad a = quad_at(Q.data + lane * STRIDE + c), b = quad_at(x.data + c);
    for (int t = 0; t < 4; ++t) sum += (c + t >= lane ? a.v[t] : Q.data[(c + t) * STRIDE + lane]) * b.v[t];
}
y.data[lane] = sum;
meet();
"""
RATES = """
LOOP (int row = lane; row < rows; row += LANES) {
    SCALAR sum = (SCALAR)0;
    LOOP (int c = 0; c < n; c += 4) {
        const quad a = quad_at(J.data + row * STRIDE + c), b = quad_at(x.data + c);
        sum += (a.v[0] * b.v[0] + a.v[1] * b.v[1]) + (a.v[2] * b.v[2] + a.v[3] * b.v[3]);
    }
    rate.data[row] = sum;
}
meet();
"""
FORCES = """
SCALAR sum = (SCALAR)0;
LOOP (int r = 0; r < rows; r += 4) {
    const SCALAR* const J_r = J.data + r * STRIDE + lane;
    const quad b = quad_at(f.data + r);
    for (int t = 0; t < 4; ++t) sum += TERM;
}
x.data[lane] = sum;
meet();
"""
CLEAR = """
const quad none = {};
LOOP (int k = 4 * lane; k < size; k += 4 * LANES) *(quad*)(x + k) = none;
meet();
"""
ADD_ROWS = """
for (int r = lane; r < rows; r += LANES) y.data[r] += a * x.data[r];
meet();
"""


@device.func_native(on_cuda("SCALAR* const x = J.data; const int size = (rows + 3) / 4 * 4 * STRIDE;" + CLEAR))
def team_clear_rows(J: wp.array2d(dtype=real), rows: int):
    """Set `rows` rows, and up to three more, to 0."""
    ...


@device.func_native(on_cuda(SYMMETRIC, "return 0;"))
def team_newton_symmetric(
    Q: wp.array2d(dtype=real), J: wp.array2d(dtype=real), G: wp.array1d(dtype=mat33), row_G: wp.array1d(dtype=real),
    scratch: wp.array1d(dtype=real), first: int, n: int, contacts: int, rows: int, x: wp.array1d(dtype=real),
) -> int:  # fmt: skip
    """x ← (A + JᵀGJ)⁻¹ x with symmetric G of contacts.

    Returns 0, or k + 1 if pivot k is not positive or not finite; x is then unchanged. Rows run from `first` < 8 to n, a
    multiple of eight; `scratch` has room for `SCRATCH` numbers, as in the next function.
    """
    ...


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


@device.func_native(on_cuda(A_TIMES))
def team_A_times(Q: wp.array2d(dtype=real), n: int, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)):
    """y ← A x."""
    ...


@device.func_native(on_cuda(RATES))
def team_rates(J: wp.array2d(dtype=real), n: int, rows: int, x: wp.array1d(dtype=real), rate: wp.array1d(dtype=real)):
    """rate ← J x."""
    ...


@device.func_native(on_cuda(FORCES.replace("TERM", "J_r[t * STRIDE] * b.v[t]")))
def team_forces(J: wp.array2d(dtype=real), rows: int, f: wp.array1d(dtype=real), x: wp.array1d(dtype=real)):
    """x ← Jᵀf; f is padded with 0 to a multiple of four."""
    ...


@device.func_native(on_cuda(FORCES.replace("TERM", "fabs(J_r[t * STRIDE] * b.v[t])")))
def team_absolute_forces(J: wp.array2d(dtype=real), rows: int, f: wp.array1d(dtype=real), x: wp.array1d(dtype=real)):
    """x ← |J|ᵀ|f|; f is padded with 0 to a multiple of four."""
    ...


@device.func_native(on_cuda(ADD_ROWS))
def team_add_rows(a: real, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), rows: int):
    """y ← y + a x."""
    ...
