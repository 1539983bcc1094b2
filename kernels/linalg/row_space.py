# SPDX-License-Identifier: Apache-2.0
"""Linear algebra of one small contact problem in the space of its constraint rows: up to `ROWS` rows, `DOFS` dofs.

    W = J A⁻¹ Jᵀ = Y Yᵀ,   Y = J L⁻¹ D^(−½),   A = LᵀDL,   (I + G W) x = δ

All numbers of a problem are in one array `x`: on CUDA in shared memory, a row and a dof a lane, on the CPU in memory of
the world. `PLACES` and `ALONE` are the offsets of its parts. J and W are dense; entries beyond the used rows and dofs
up to the next multiple of eight are 0. All lanes call these functions together; each ends with a `sync`.
"""

import warp as wp

from .. import real as device
from ..real import LANES, real, vec3, vec4
from .registers import INVERSE, LOOP
from .vector import BLOCK_TIMES_ALONE, SOLVE_BY_EIGHTS, padded, scalar, snippet, solved

ROWS = wp.constant(LANES)
DOFS = wp.constant(LANES)
STRIDE = LANES + 4  # of rows on CUDA: four numbers are aligned to 16 bytes, and eight rows of them use different banks
ROOT = "rsqrtf" if scalar == "float" else "rsqrt"
ALONE_ROWS = 32
ALONE_DOFS = 96  # on the CPU; J and Y, the last parts, have room for as many as the largest island has


def places(sizes: dict[str, int]) -> tuple[dict[str, int], int]:
    """Offsets of arrays of the given sizes, each aligned to 16 bytes, and the total length."""
    found, end = {}, 0
    for name, size in sizes.items():
        found[name] = end
        end += -(-size // 4) * 4
    return found, end


OF_ROWS = ("b", "u", "gamma", "dgamma", "before", "miss", "delta", "R", "v_hat", "rho", "mu", "load", "least")
BOUNDS = ("lower", "upper")
OF_DOFS = ("v_star", "p_star", "D_sq", "j_c", "j_miss", "dv", "m")
PLACES, NUMBERS = places(
    dict.fromkeys(OF_ROWS + BOUNDS, LANES) | dict.fromkeys(OF_DOFS, LANES) | {"G": 3 * LANES + 8}
    | {"J": LANES * STRIDE, "W": LANES * STRIDE, "passed": 2 * (LANES + 8)}
)  # fmt: skip
PLACES["Y"] = PLACES["W"]
ALONE, ALONE_NUMBERS = places(
    dict.fromkeys(OF_ROWS + BOUNDS, ALONE_ROWS) | dict.fromkeys(OF_DOFS, ALONE_DOFS) | {"G": 3 * ALONE_ROWS + 8}
    | {"W": ALONE_ROWS * ALONE_ROWS, "J": 0}
)  # fmt: skip


def alone_numbers(dofs: int) -> int:
    """Numbers of a world on the CPU whose largest island has so many dofs."""
    return ALONE_NUMBERS + 2 * ALONE_ROWS * padded(min(dofs, ALONE_DOFS))


def placed(text: str, of: dict[str, int]) -> str:
    """C++ with `@name` replaced by the first number of that part."""
    for name in sorted(of, key=len, reverse=True):
        text = text.replace(f"@{name}", f"(x.data + {of[name]})")
    return text


def algebra(cpu: str, gpu: str) -> str:
    """A C++ body for each device. On the CPU Y is stored by dofs, ROWS numbers each, J by rows of DOFS numbers."""
    alone = f"constexpr int ROWS = {ALONE_ROWS};\n"
    if "DOFS" in cpu or "@Y" in cpu:
        alone += "const int DOFS = (dofs + 7) & ~7;\n"
    alone += placed(cpu.replace("@Y", "(@J + ROWS * DOFS)"), ALONE)
    shared = f"constexpr int STRIDE = {STRIDE};\n" + placed(QUAD + gpu.replace("LOOP ", LOOP), PLACES)
    shared = shared.replace("ROOT", ROOT)
    return snippet(cpu=alone, gpu=shared)


CLEAR = """
const int ends = (n + 7) & ~7;
for (int r = 0; r < n; ++r)
    for (int d = 0; d < dofs; d += 8) *(v8*)(@J + r * DOFS + d) = (SCALAR)0;
for (int d = 0; d < dofs; ++d)
    for (int r = 0; r < ends; r += 8) *(v8*)(@Y + d * ROWS + r) = (SCALAR)0;
for (int r = 0; r < ends; r += 8)
    *(v8*)(@gamma + r) = *(v8*)(@miss + r) = *(v8*)(@delta + r) = *(v8*)(@dgamma + r) = (SCALAR)0;
"""
PLACE = """
const SCALAR *const J0 = J.data, *const J1 = J0 + J.shape[1], *const J2 = J1 + J.shape[1];
for (int j = 0; j < size; ++j) {
    const int s = slot.data[support.data[j]] - begin;
    SCALAR *const at = @J + row * DOFS + s, *const y = @Y + s * ROWS + row;
    at[0] = y[0] = turn.c[0] * J0[j] + turn.c[1] * J1[j];
    at[DOFS] = y[1] = turn.c[2] * J0[j] + turn.c[3] * J1[j];
    at[2 * DOFS] = y[2] = J2[j];
}
"""
PLACE_ONE = """
for (int j = 0; j < size; ++j) {
    const int s = slot.data[support.data[j]] - begin;
    @J[row * DOFS + s] = @Y[s * ROWS + row] = J.data[j];
}
"""
RATES = """
for (int r = 0; r < n; r += 8) {
    v8 sum = (SCALAR)0;
    for (int d = 0; d < dofs; ++d) sum = fma((v8)@v_star[d], *(const v8*)(@Y + d * ROWS + r), sum);
    *(v8*)(@b + r) = sum;
}
"""
# Y ← J L⁻¹ D^(−½) for the columns of one tree: from the last row of L up.
HALF = """
const int step = L.shape[1], size = end - begin, chunks = (n + 7) >> 3;
const SCALAR* const rows = L.data + begin * step;
for (int k = size - 1; k >= 0; --k) {
    SCALAR* const y_k = @Y + (column + k) * ROWS;
    const SCALAR* const L_k = rows + k * step;
    const v8 scale = (SCALAR)1 / sqrt(L_k[k]);
    for (int j = 0; j < k; ++j) {
        const SCALAR l = -L_k[j];
        if (l == (SCALAR)0) continue;
        SCALAR* const y_j = @Y + (column + j) * ROWS;
        for (int q = 0; q < chunks; ++q) \
*(v8*)(y_j + 8 * q) = fma((v8)l, *(const v8*)(y_k + 8 * q), *(v8*)(y_j + 8 * q));
    }
    for (int q = 0; q < chunks; ++q) *(v8*)(y_k + 8 * q) *= scale;
}
"""
GRAM = """
const int ends = (n + 7) & ~7;
for (int c = 0; c < ends; c += 8) {
    int r = 0;
    for (; r + 1 < ends; r += 2) {
        v8 a = (SCALAR)0, b = (SCALAR)0;
        const SCALAR* y = @Y;
        for (int d = 0; d < dofs; ++d, y += ROWS) {
            const v8 right = *(const v8*)(y + c);
            a = fma((v8)y[r], right, a);
            b = fma((v8)y[r + 1], right, b);
        }
        *(v8*)(@W + r * ROWS + c) = a;
        *(v8*)(@W + (r + 1) * ROWS + c) = b;
    }
}
"""
TIMES = """
for (int c = 0; c < n; c += 8) {
    v8 s = (SCALAR)0, t = (SCALAR)0;
    for (int r = 0; r < n; r += 2) {
        s = fma((v8)f.data[r], *(const v8*)(@W + r * ROWS + c), s);
        t = fma((v8)f.data[r + 1], *(const v8*)(@W + (r + 1) * ROWS + c), t);
    }
    *(v8*)(y.data + c) = s + t;
}
"""
ADD_THREE = """
const SCALAR* const w = @W + row * ROWS;
for (int c = 0; c < n; c += 8) *(v8*)(@u + c) = fma((v8)f.c[0], *(const v8*)(w + c), \
fma((v8)f.c[1], *(const v8*)(w + ROWS + c), fma((v8)f.c[2], *(const v8*)(w + 2 * ROWS + c), *(v8*)(@u + c))));
"""
ADD_ONE = """
const SCALAR* const w = @W + row * ROWS;
for (int c = 0; c < n; c += 8) *(v8*)(@u + c) = fma((v8)f, *(const v8*)(w + c), *(v8*)(@u + c));
"""
FORCES = """
for (int d = 0; d < dofs; d += 8) {
    v8 s = (SCALAR)0, t = (SCALAR)0;
    for (int r = 0; r < n; ++r) {
        const v8 row = *(const v8*)(@J + r * DOFS + d);
        s = fma((v8)@gamma[r], row, s);
        t = fma((v8)@miss[r], row, t);
    }
    *(v8*)(@j_c + d) = s;
    *(v8*)(@j_miss + d) = t;
}
"""
TIMES_A = BLOCK_TIMES_ALONE.replace("x.data + begin", "x_.data + column").replace("y.data + begin", "y_.data + column")
SOLVE = """
const int n = L.shape[1], size = end - begin;
const SCALAR* base = L.data + begin * n;
SCALAR* px = @dv + column;
""" + solved(SOLVE_BY_EIGHTS, "base", "base", "base", "0")
# The rows of I + G W, with δ as one more column; three are eliminated at once, those of a contact.
NEWTON = """
constexpr int WIDE = ROWS + 8;
const int ends = (n + 8) & ~7;
alignas(32) SCALAR K[ROWS * WIDE];
for (int i = 0; i < n; ++i) {
    SCALAR* const K_i = K + i * WIDE;
    const SCALAR* const g = @G + 3 * i;
    const SCALAR* const w = @W + (i < 3 * contacts ? i / 3 * 3 : i) * ROWS;
    if (i < 3 * contacts)
        for (int c = 0; c < n; c += 8) *(v8*)(K_i + c) = fma((v8)g[0], *(const v8*)(w + c), \
fma((v8)g[1], *(const v8*)(w + ROWS + c), (v8)g[2] * *(const v8*)(w + 2 * ROWS + c)));
    else
        for (int c = 0; c < n; c += 8) *(v8*)(K_i + c) = (v8)g[0] * *(const v8*)(w + c);
    K_i[i] += (SCALAR)1;
    K_i[n] = @delta[i];
}
int k = 0;
for (; k + 2 < n; k += 3) {
    SCALAR *const P = K + k * WIDE, *const Q = P + WIDE, *const T = Q + WIDE;
    const SCALAR p1 = P[k + 1], p2 = P[k + 2], a = (SCALAR)1 / P[k], q0 = -Q[k] * a, t0 = -T[k] * a;
    const SCALAR q2 = Q[k + 2] + q0 * p2, b = (SCALAR)1 / (Q[k + 1] + q0 * p1), t1 = -(T[k + 1] + t0 * p1) * b;
    const SCALAR d = (SCALAR)1 / (T[k + 2] + t0 * p2 + t1 * q2);
    if (!(a - a == (SCALAR)0 && b - b == (SCALAR)0 && d - d == (SCALAR)0)) return k + 1;
    for (int c = k & ~7; c < ends; c += 8) {
        const v8 p = *(const v8*)(P + c), q = fma((v8)q0, p, *(const v8*)(Q + c));
        *(v8*)(Q + c) = q;
        *(v8*)(T + c) = fma((v8)t1, q, fma((v8)t0, p, *(const v8*)(T + c)));
    }
    P[k] = a;
    Q[k + 1] = b;
    T[k + 2] = d;
    for (int i = k + 3; i < n; ++i) {
        SCALAR* const K_i = K + i * WIDE;
        const SCALAR x = -K_i[k] * a, y = -(K_i[k + 1] + x * p1) * b, z = -(K_i[k + 2] + x * p2 + y * q2) * d;
        for (int c = k & ~7; c < ends; c += 8) *(v8*)(K_i + c) = fma((v8)z, *(const v8*)(T + c), \
fma((v8)y, *(const v8*)(Q + c), fma((v8)x, *(const v8*)(P + c), *(const v8*)(K_i + c))));
    }
}
for (; k < n; ++k) {
    SCALAR* const P = K + k * WIDE;
    const SCALAR a = (SCALAR)1 / P[k];
    if (!(a - a == (SCALAR)0)) return k + 1;
    P[k] = a;
    for (int i = k + 1; i < n; ++i) {
        SCALAR* const K_i = K + i * WIDE;
        const v8 x = -K_i[k] * a;
        for (int c = k & ~7; c < ends; c += 8) *(v8*)(K_i + c) = fma(x, *(const v8*)(P + c), *(const v8*)(K_i + c));
    }
}
SCALAR* const r = @dgamma;
for (int i = 0; i < n; ++i) r[i] = K[i * WIDE + n];
for (int k = n - 1; k >= 0; --k) {
    const SCALAR x_k = r[k] * K[k * WIDE + k];
    r[k] = x_k;
    for (int i = 0; i < k; ++i) r[i] -= K[i * WIDE + k] * x_k;
}
return 0;
"""

QUAD = """
struct alignas(16) quad { SCALAR v[4]; };
const auto quad_at = [](const SCALAR* p) { return *(const quad*)p; };
const auto inverse_of = [](SCALAR x) { INVERSE };
""".replace("INVERSE", INVERSE)
TEAM_CLEAR = """
const quad none = {};
for (int k = 4 * lane; k < LANES * STRIDE; k += 4 * LANES) *(quad*)(@J + k) = *(quad*)(@Y + k) = none;
@gamma[lane] = @miss[lane] = @delta[lane] = @dgamma[lane] = @v_star[lane] = (SCALAR)0;
for (int k = 0; k < 3; ++k) @G[lane + k * LANES] = (SCALAR)0;
meet();
"""
TEAM_PLACE = """
const SCALAR *const J0 = J.data, *const J1 = J0 + J.shape[1], *const J2 = J1 + J.shape[1];
for (int j = lane; j < size; j += LANES) {
    SCALAR* const at = @J + row * STRIDE + slot.data[support.data[j]] - begin;
    at[0] = turn.c[0] * J0[j] + turn.c[1] * J1[j];
    at[STRIDE] = turn.c[2] * J0[j] + turn.c[3] * J1[j];
    at[2 * STRIDE] = J2[j];
}
"""
TEAM_PLACE_ONE = """
for (int j = lane; j < size; j += LANES) @J[row * STRIDE + slot.data[support.data[j]] - begin] = J.data[j];
"""
TEAM_RATES = """
SCALAR sum = (SCALAR)0;
LOOP (int d = 0; d < dofs; d += 4) {
    const quad a = quad_at(@J + lane * STRIDE + d), v = quad_at(@v_star + d);
    for (int t = 0; t < 4; ++t) sum += a.v[t] * v.v[t];
}
@b[lane] = sum;
meet();
"""
# A lane has a row of J in registers. Rows of L are read from global memory, the same number by all lanes.
TEAM_HALF = """
const int step = L.shape[1], size = end - begin;
const SCALAR* const rows = L.data + begin * step;
SCALAR *const J_row = @J + lane * STRIDE + column, *const Y_row = @Y + lane * STRIDE + column;
SCALAR y[LANES];
@j_miss[lane] = lane < size ? ROOT(rows[lane * step + lane]) : (SCALAR)0;
meet();
const bool whole = (column & 3) == 0;
READ
ROWS_UP
WRITE
meet();
"""
# Row j of Y gives its place to row j of W, once all lanes have read it.
TEAM_GRAM = """
quad own[LANES / 4];
for (int q = 0; q < LANES / 4; ++q) own[q] = quad_at(@Y + lane * STRIDE + 4 * q);
meet();
LOOP (int j = 0; j < n; ++j) {
    SCALAR* const row = @Y + j * STRIDE;
    SCALAR sum[4] = {};
    for (int q = 0; q < LANES / 4; q += 2)
        if (4 * q < dofs)
            for (int p = q; p < q + 2; ++p) {
                const quad a = quad_at(row + 4 * p);
                for (int t = 0; t < 4; ++t) sum[t] += a.v[t] * own[p].v[t];
            }
    meet();
    row[lane] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
meet();
"""
TEAM_TIMES = """
SCALAR sum = (SCALAR)0;
LOOP (int r = 0; r < n; r += 4) {
    const quad a = quad_at(@W + lane * STRIDE + r), b = quad_at(f.data + r);
    for (int t = 0; t < 4; ++t) sum += a.v[t] * b.v[t];
}
y.data[lane] = sum;
meet();
"""
TEAM_ADD_THREE = """
const SCALAR* const w = @W + row * STRIDE + lane;
@u[lane] += w[0] * f.c[0] + w[STRIDE] * f.c[1] + w[2 * STRIDE] * f.c[2];
meet();
"""
TEAM_ADD_ONE = """
@u[lane] += @W[row * STRIDE + lane] * f;
meet();
"""
TEAM_FORCES = """
SCALAR s = (SCALAR)0, m = (SCALAR)0;
LOOP (int r = 0; r < n; r += 4) {
    const SCALAR* const J_r = @J + r * STRIDE + lane;
    const quad a = quad_at(@gamma + r), b = quad_at(@miss + r);
    for (int t = 0; t < 4; ++t) {
        s += J_r[t * STRIDE] * a.v[t];
        m += J_r[t * STRIDE] * b.v[t];
    }
}
@j_c[lane] = s;
@j_miss[lane] = m;
meet();
"""
# Rows of L, without the diagonal, take the place of W as they come.
TEAM_SOLVE = """
const int step = L.shape[1], size = end - begin;
const SCALAR* from = L.data + (end - 1) * step + (lane < size ? lane : 0);
SCALAR y = lane < size ? @dv[column + lane] : (SCALAR)0;
SCALAR* to = @W + (size - 1) * STRIDE + lane;
const SCALAR pivot = lane < size ? L.data[(begin + lane) * step + lane] : (SCALAR)1;
meet();
#pragma unroll 4
for (int k = size - 1; k >= 0; --k, from -= step, to -= STRIDE) {
    const SCALAR l = lane < k ? *from : (SCALAR)0;
    *to = l;
    y = fma(-l, from_lane(y, k), y);
}
meet();
y *= inverse_of(pivot);
LOOP (int c = 0; c < size; c += 4) {
    const quad l = quad_at(@W + lane * STRIDE + c);
    for (int t = 0; t < 4; ++t) y = fma(-l.v[t], from_lane(y, c + t), y);
}
if (lane < size) @dv[column + lane] = y;
meet();
"""
# A is symmetric: a lane has one of its columns, in the order of memory.
TEAM_TIMES_A = """
const int step = A.shape[1], size = end - begin;
const SCALAR *from = A.data + begin * step + lane, *const f = x_.data + column;
SCALAR sum = (SCALAR)0;
if (lane < size) {
    int k = 0;
    LOOP (; k + 4 <= size; k += 4, from += 4 * step) {
        const SCALAR a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
        sum += (a * f[k] + b * f[k + 1]) + (c * f[k + 2] + d * f[k + 3]);
    }
    LOOP (; k < size; ++k, from += step) sum += *from * f[k];
    y_.data[column + lane] = sum;
}
meet();
"""
# A lane has a row of I + G W. Row k is subtracted from all others, from the last, which is padded to a multiple of
# eight, to the first; its column is always in the last register, and two copies of the row alternate.
TEAM_NEWTON = """
const bool of_contact = lane < 3 * contacts;
const int base = of_contact ? lane / 3 * 3 : lane, more = of_contact ? STRIDE : 0;
const SCALAR g0 = @G[3 * lane], g1 = of_contact ? @G[3 * lane + 1] : (SCALAR)0;
const SCALAR g2 = of_contact ? @G[3 * lane + 2] : (SCALAR)0;
SCALAR K[LANES], r = @delta[lane], own = (SCALAR)0;
FORM
int k = ((n + 7) & ~7) - 1;
EIGHTS
const SCALAR x_k = lane < n ? r * own : (SCALAR)0;
@dgamma[lane] = x_k;
const bool failed = ballot(!(x_k - x_k == (SCALAR)0)) != 0;
meet();
return failed ? 1 : 0;
"""
FORM_QUAD = """if (@c < n) {
    const SCALAR* const w = @W + base * STRIDE + @c;
    const quad a = quad_at(w), b = quad_at(w + more), c = quad_at(w + 2 * more);
    EACH
} else { NONE }
"""
EIGHT = """
if (k >= WIDTH - 8) {
    LOOP (int s = 0; s < 8; ++s, --k) {
        const SCALAR inverse = inverse_of(from_lane(K[LAST], k)), r_k = from_lane(r, k);
        SCALAR* const row = passed + TURN * (s & 1);
        if (lane == k) {
            own = inverse;
            STORE
        }
        meet();
        const SCALAR m = lane == k ? (SCALAR)0 : -K[LAST] * inverse;
        r += m * r_k;
        QUADS
    }
    SHIFT
}
"""


def half_of(columns: int) -> str:
    """C++ of `TEAM_HALF` for a lane's row in `columns` registers."""
    read, up, write = "", "", ""
    for c in range(0, columns, 4):
        each = [f"y[{c + t}] = {c + t} < size ? a.v[{t}] : (SCALAR)0;" for t in range(4)]
        read += f"if ({c} < size) {{ quad a; if (whole) a = quad_at(J_row + {c}); else for (int t = 0; t < 4; ++t) "
        read += f"a.v[t] = J_row[{c} + t]; {' '.join(each)} }}\nelse {{ "
        read += " ".join(f"y[{c + t}] = (SCALAR)0;" for t in range(4)) + " }\n"
        entries = " ".join(f"a.v[{t}] = y[{c + t}] * d.v[{t}];" for t in range(4))
        write += f"if ({c} < size) {{ const quad d = quad_at(@j_miss + {c}); quad a; {entries} "
        write += f"if (whole) *(quad*)(Y_row + {c}) = a; else for (int t = 0; t < 4; ++t) "
        write += f"if ({c} + t < size) Y_row[{c} + t] = a.v[t]; }}\n"
    for k in range(columns - 1, 0, -1):
        up += f"if ({k} < size) {{\n    const SCALAR minus = -y[{k}];\n"
        for c in range(0, k, 4):
            each = [f"y[{c + t}] = fma(a.v[{t}], minus, y[{c + t}]);" for t in range(min(4, k - c))]
            up += f"    {{ const quad a = quad_at(rows + {k} * step + {c}); {' '.join(each)} }}\n"
        up += "}\n"
    return TEAM_HALF.replace("READ", read).replace("ROWS_UP", up).replace("WRITE", write)


def newton_of(columns: int) -> str:
    """C++ of `TEAM_NEWTON` for a lane's row in `columns` registers."""
    form, eights = "", ""
    for c in range(0, columns, 4):
        unit = [f"(lane == {c + t} ? (SCALAR)1 : (SCALAR)0)" for t in range(4)]
        each = " ".join(
            f"K[{c + t}] = g0 * a.v[{t}] + (g1 * b.v[{t}] + (g2 * c.v[{t}] + {unit[t]}));" for t in range(4)
        )
        none = " ".join(f"K[{c + t}] = {unit[t]};" for t in range(4))
        form += FORM_QUAD.replace("EACH", each).replace("NONE", none).replace("@c", str(c))
    for width in range(columns, 0, -8):
        store, quads = "", ""
        for c in range(0, width, 4):
            store += "{ quad a; " + " ".join(f"a.v[{t}] = K[{c + t}];" for t in range(4))
            store += f" *(quad*)(row + {c}) = a; }}\n"
        for c in range(width - 4, -1, -4):
            each = [f"K[{c + t + 1}] = K[{c + t}] + m * e.v[{t}];" for t in range(3, -1, -1) if c + t + 1 < width]
            quads += f"{{ const quad e = quad_at(row + {c}); {' '.join(each)} }}\n"
        shift = " ".join(f"K[{j}] = K[{j + 8}];" for j in range(width - 8))
        step = EIGHT.replace("STORE", store).replace("QUADS", quads).replace("SHIFT", shift)
        eights += step.replace("WIDTH", str(width)).replace("LAST", str(width - 1))
    text = "SCALAR* const passed = @passed;\n" + TEAM_NEWTON.replace("FORM", form).replace("EIGHTS", eights)
    return text.replace("TURN", str(columns + 8))


@device.func_native(algebra(CLEAR, TEAM_CLEAR))
def team_space_clear(x: wp.array1d(dtype=real), n: int, dofs: int):
    """Set J to 0, and γ, Δγ, δ and misses up to the next multiple of eight."""
    ...


@device.func_native(algebra(PLACE, TEAM_PLACE))
def team_space_place(
    J: wp.array2d(dtype=real), support: wp.array1d(dtype=int), size: int, slot: wp.array1d(dtype=int), begin: int,
    row: int, turn: vec4, dofs: int, x: wp.array1d(dtype=real),
):  # fmt: skip
    """Rows `row` … `row` + 2 of J: those of a contact, its tangents turned; `begin`: slot of the first dof."""
    ...


@device.func_native(algebra(PLACE_ONE, TEAM_PLACE_ONE))
def team_space_place_one(
    J: wp.array1d(dtype=real), support: wp.array1d(dtype=int), size: int, slot: wp.array1d(dtype=int), begin: int,
    row: int, dofs: int, x: wp.array1d(dtype=real),
):  # fmt: skip
    """Row `row` of J: a scalar row."""
    ...


@device.func_native(algebra(RATES, TEAM_RATES))
def team_space_rates(x: wp.array1d(dtype=real), n: int, dofs: int):
    """b = J v*. Before `team_space_half`."""
    ...


@device.func_native(algebra(HALF, half_of(LANES)))
def team_space_half(
    L: wp.array2d(dtype=real), begin: int, end: int, column: int, n: int, dofs: int, x: wp.array1d(dtype=real)
):
    """Y = J L⁻¹ D^(−½) in the columns of one tree, from `column` on, whose factor is in rows [begin, end)."""
    ...


@device.func_native(algebra(GRAM, TEAM_GRAM))
def team_space_gram(x: wp.array1d(dtype=real), n: int, dofs: int):
    """W = Y Yᵀ. On CUDA it takes the place of Y."""
    ...


@device.func_native(algebra(TIMES, TEAM_TIMES))
def team_space_times(x: wp.array1d(dtype=real), n: int, f: wp.array1d(dtype=real), y: wp.array1d(dtype=real)):
    """y = W f; f is 0 beyond row n."""
    ...


@device.func_native(algebra(ADD_THREE, TEAM_ADD_THREE))
def team_space_add_three(x: wp.array1d(dtype=real), n: int, row: int, f: vec3):
    """u ← u + W f with f in rows `row` … `row` + 2."""
    ...


@device.func_native(algebra(ADD_ONE, TEAM_ADD_ONE))
def team_space_add_one(x: wp.array1d(dtype=real), n: int, row: int, f: real):
    """u ← u + W f with f in row `row`."""
    ...


@device.func_native(algebra(FORCES, TEAM_FORCES))
def team_space_forces(x: wp.array1d(dtype=real), n: int, dofs: int):
    """j_c = Jᵀγ and j_miss = Jᵀmiss."""
    ...


@device.func_native(algebra(SOLVE, TEAM_SOLVE))
def team_space_solve(L: wp.array2d(dtype=real), begin: int, end: int, column: int, x: wp.array1d(dtype=real)):
    """dv ← A⁻¹ dv in the dofs of one tree, from `column` on, whose factor is in rows [begin, end). W is overwritten."""
    ...


@device.func_native(snippet(cpu=TIMES_A, gpu=TEAM_TIMES_A.replace("LOOP ", LOOP)))
def team_space_times_A(
    A: wp.array2d(dtype=real), begin: int, end: int, column: int, x_: wp.array1d(dtype=real),
    y_: wp.array1d(dtype=real),
):  # fmt: skip
    """y ← A x in the dofs of one tree, from `column` on."""
    ...


@device.func_native(algebra(NEWTON, newton_of(LANES)))
def team_space_newton(x: wp.array1d(dtype=real), n: int, contacts: int) -> int:
    """Δγ = (I + G W)⁻¹ δ; returns 0, or k + 1 if pivot k is 0 or not finite.

    G has a 3 × 3 block per contact, and one number, the first of three, per scalar row.
    """
    ...
