# SPDX-License-Identifier: Apache-2.0
"""Islands small enough to keep in shared memory on CUDA, in the order of the rows of H (`linalg/registers.py`).

Most robots have such islands. SAP (`sap.py`) runs the same iteration on them, built from the functions of
`small_convex.py`. On CUDA that kernel is launched first and leaves larger islands to the general one. If it is launched
on the CPU (tests), it solves the same islands with the general functions.

Constraint rows are numbered in sequence: three per contact, then the scalar rows. `u`, `du`, `gamma`, `R` and J have
one entry per row. All lanes call every function together unless its docstring says otherwise. Each lane has one dof,
one contact and one scalar row; the entry of a dof has the index of its lane.
"""

import warp as wp

from ... import real as device
from ...linalg.lanes import WORLD, WORLDS, by_device, lane, lanes, sync, team_number, team_sum, team_sum_3
from ...linalg.registers import ROWS, SCRATCH, STRIDE, UNKNOWNS, team_absolute_forces, team_clear_rows
from ...linalg.vector import scalar
from ...real import BY_CG, LANES, SPIN, func, mat33, real, struct, vec3, vec4
from ..problem import Problem, Solution
from .newton import Range
from .sap import Workspace

CONTACTS = wp.constant(min(12, LANES))


@struct
class Small:
    """The island in shared memory."""

    dof: int  # dof of this lane; −1: none
    first: int  # lane of dof 0, less than 8
    n: int  # one past the last dof's lane, a multiple of 8; elimination takes rows from there downwards
    contacts: int
    scalars: int  # scalar rows
    rows: int  # 3 contacts + scalars
    Q: wp.array2d(dtype=real)  # A, and what elimination leaves, see `registers.py`
    J: wp.array2d(dtype=real)
    v: wp.array1d(dtype=real)  # per dof, as the arrays down to D_sq
    v_star: wp.array1d(dtype=real)
    p_star: wp.array1d(dtype=real)  # A v*
    m: wp.array1d(dtype=real)  # A (v − v*)
    j_c: wp.array1d(dtype=real)  # Jᵀγ
    dv: wp.array1d(dtype=real)  # the Newton step
    dp: wp.array1d(dtype=real)  # A Δv
    D_sq: wp.array1d(dtype=real)  # 1/diag(A)
    u: wp.array1d(dtype=real)  # per row, as the arrays down to v_hat: J v − v̂
    du: wp.array1d(dtype=real)
    gamma: wp.array1d(dtype=real)
    R: wp.array1d(dtype=real)
    v_hat: wp.array1d(dtype=real)
    mu: wp.array1d(dtype=real)  # per contact, as the array G
    G: wp.array1d(dtype=mat33)
    lower: wp.array1d(dtype=real)  # per scalar row, as the next two
    upper: wp.array1d(dtype=real)
    row_G: wp.array1d(dtype=real)
    scratch: wp.array1d(dtype=real)  # memory of an elimination


def places(**sizes: int) -> tuple[dict[str, int], int]:
    """Offsets of arrays of the given sizes, each aligned to 16 bytes, and the total length."""
    found, end = {}, 0
    for name, size in sizes.items():
        found[name] = end
        end += -(-size // 4) * 4
    return found, end


OF_LANES = dict.fromkeys(
    ("v", "v_star", "p_star", "m", "j_c", "dv", "dp", "D_sq", "lower", "upper", "row_G"), int(UNKNOWNS)
)
OF_ROWS = dict.fromkeys(("u", "du", "gamma", "R", "v_hat"), int(ROWS))
OF_CONTACTS = dict.fromkeys(("mu",), int(CONTACTS))
PLACES, NUMBERS = places(
    Q=UNKNOWNS * STRIDE, J=ROWS * STRIDE, **OF_LANES, **OF_ROWS, **OF_CONTACTS, G=9 * CONTACTS,
    scratch=SCRATCH,
)  # fmt: skip
if LANES < 32:
    NUMBERS += (LANES - NUMBERS) % 32  # two worlds of a warp then never use the same bank
SHARED = f"""
__shared__ alignas(16) {scalar} entries[{WORLDS * NUMBERS}];
return wp::array_t<{scalar}>(entries + {WORLD} * {NUMBERS}, {NUMBERS});
"""


@device.func_native(by_device(SHARED, f"return wp::array_t<{scalar}>();"))
def shared_numbers() -> wp.array1d(dtype=real):
    """This world's numbers in shared memory, in blocks of one warp; empty on the CPU."""
    ...


@device.func_native(f"return wp::array_t<{scalar}>(all.data + at, count);")
def part(all: wp.array1d(dtype=real), at: int, count: int) -> wp.array1d(dtype=real):
    """View of `count` numbers from index `at`."""
    ...


@device.func_native(f"return wp::array_t<{scalar}>(all.data + at, count, {STRIDE});")
def rows_part(all: wp.array1d(dtype=real), at: int, count: int) -> wp.array2d(dtype=real):
    """View as rows of length STRIDE."""
    ...


@device.func_native(
    f"return wp::array_t<wp::mat_t<3, 3, {scalar}>>((wp::mat_t<3, 3, {scalar}>*)(all.data + at), count);"
)
def matrices_part(all: wp.array1d(dtype=real), at: int, count: int) -> wp.array1d(dtype=mat33):
    """View as matrices."""
    ...


@func
def small_island(r: Range) -> Small:
    """The arrays of this warp's island in shared memory."""
    x = Small()
    dofs = r.slot_end - r.slot_begin
    x.n = (dofs + 7) // 8 * 8
    x.first = x.n - dofs
    x.dof = wp.int32(-1)
    if lane() >= x.first and lane() < x.n:
        x.dof = lane() - x.first
    x.contacts = r.contact_end - r.contact_begin
    x.scalars = r.row_end - r.row_begin
    x.rows = 3 * x.contacts + x.scalars
    all = shared_numbers()
    x.Q = rows_part(all, wp.static(PLACES["Q"]), UNKNOWNS)
    x.J = rows_part(all, wp.static(PLACES["J"]), ROWS)
    x.v = part(all, wp.static(PLACES["v"]), UNKNOWNS)
    x.v_star = part(all, wp.static(PLACES["v_star"]), UNKNOWNS)
    x.p_star = part(all, wp.static(PLACES["p_star"]), UNKNOWNS)
    x.m = part(all, wp.static(PLACES["m"]), UNKNOWNS)
    x.j_c = part(all, wp.static(PLACES["j_c"]), UNKNOWNS)
    x.dv = part(all, wp.static(PLACES["dv"]), UNKNOWNS)
    x.dp = part(all, wp.static(PLACES["dp"]), UNKNOWNS)
    x.D_sq = part(all, wp.static(PLACES["D_sq"]), UNKNOWNS)
    x.u = part(all, wp.static(PLACES["u"]), ROWS)
    x.du = part(all, wp.static(PLACES["du"]), ROWS)
    x.gamma = part(all, wp.static(PLACES["gamma"]), ROWS)
    x.R = part(all, wp.static(PLACES["R"]), ROWS)
    x.v_hat = part(all, wp.static(PLACES["v_hat"]), ROWS)
    x.mu = part(all, wp.static(PLACES["mu"]), CONTACTS)
    x.G = matrices_part(all, wp.static(PLACES["G"]), CONTACTS)
    x.lower = part(all, wp.static(PLACES["lower"]), UNKNOWNS)
    x.upper = part(all, wp.static(PLACES["upper"]), UNKNOWNS)
    x.row_G = part(all, wp.static(PLACES["row_G"]), UNKNOWNS)
    x.scratch = part(all, wp.static(PLACES["scratch"]), SCRATCH)
    return x


@func
def is_small(r: Range) -> bool:
    """Whether one warp can hold the island in shared memory."""
    contacts = r.contact_end - r.contact_begin
    fits = r.slot_end - r.slot_begin <= UNKNOWNS and contacts <= CONTACTS
    scalars = r.row_end - r.row_begin
    fits = fits and scalars <= UNKNOWNS and 3 * contacts + scalars <= ROWS
    if SPIN or BY_CG:
        fits = bool(False)
    return fits


@func
def triple(x: wp.array1d(dtype=real), c: int) -> vec3:
    """The entries of contact c. By one lane."""
    return vec3(x[3 * c], x[3 * c + 1], x[3 * c + 2])


@func
def set_triple(x: wp.array1d(dtype=real), c: int, value: vec3):
    """Set the entries of contact c. By one lane."""
    x[3 * c] = value[0]
    x[3 * c + 1] = value[1]
    x[3 * c + 2] = value[2]


@func
def take_matrix(problem: Problem, work: Workspace, x: Small, w: int, r: Range):
    """Load A, v* and D²."""
    team_clear_rows(x.Q, UNKNOWNS)
    i = lane()
    d = wp.int32(0)
    begin = wp.int32(-1)
    x.v[i] = real(0.0)
    x.v_star[i] = real(0.0)
    x.dv[i] = real(0.0)
    x.D_sq[i] = real(0.0)
    if x.dof >= 0:
        d = work.islands.dof[w, r.slot_begin + x.dof]
        begin = problem.dof_begin[d]
        x.v_star[i] = problem.v_star[w, d]
        x.D_sq[i] = real(1.0) / problem.A[w, d, d - begin]
    for k in range(0, x.n, 4):
        column = vec4()  # four loads are in flight at once
        for t in range(4):
            d_k = team_number(d, k + t)
            begin_k = team_number(begin, k + t)
            if begin >= 0 and begin == begin_k and i >= k + t:
                column[t] = problem.A[w, d_k, d - begin]
        for t in range(4):
            if i >= k + t:
                x.Q[k + t, i] = column[t]


@func
def take_laws(problem: Problem, work: Workspace, x: Small, w: int, r: Range):
    """Load R, v̂ and μ of contacts."""
    c = lane()
    if c < x.contacts:
        at = work.islands.contact[w, r.contact_begin + c]
        set_triple(x.R, c, problem.R[w, at])
        set_triple(x.v_hat, c, problem.v_hat[w, at])
        x.mu[c] = problem.mu[w, at]


@struct
class Held:
    """A dof that a contact moves, and its column of J."""

    dof: int
    J: vec3


@func
def held_by_lane(problem: Problem, w: int, at: int, pair: int, size: int) -> Held:
    """This lane's dof of the contact's support; −1: none."""
    held = Held()
    held.dof = wp.int32(-1)
    i = lane()
    if i < size:
        held.dof = problem.support[pair, i]
        held.J = vec3(problem.J[w, at, 0, i], problem.J[w, at, 1, i], problem.J[w, at, 2, i])
    return held


@func
def take_contacts(problem: Problem, work: Workspace, x: Small, w: int, r: Range):
    """Load J of contacts, and R, v̂ and μ."""
    c = lane()
    at = wp.int32(0)
    pair = wp.int32(0)
    size = wp.int32(0)
    if c < x.contacts:
        at = work.islands.contact[w, r.contact_begin + c]
        pair = problem.contact_pair[w, at]
        size = problem.support_size[pair]
    next = held_by_lane(problem, w, team_number(at, 0), team_number(pair, 0), team_number(size, 0))
    for c in range(x.contacts):
        held = next
        if c + 1 < x.contacts:  # load the next contact while this one is stored
            next = held_by_lane(problem, w, team_number(at, c + 1), team_number(pair, c + 1), team_number(size, c + 1))
        if held.dof >= 0:
            s = work.islands.slot[w, held.dof] - r.slot_begin + x.first
            for axis in range(3):
                x.J[3 * c + axis, s] = held.J[axis]
    take_laws(problem, work, x, w, r)


@func
def take_scalar_rows(problem: Problem, work: Workspace, x: Small, w: int, r: Range):
    """Load J, R, v̂ and bounds of scalar rows."""
    for k in range(x.scalars):
        at = work.islands.row[w, r.row_begin + k]
        i = lane()
        if i < problem.row_support_size[at]:
            s = work.islands.slot[w, problem.row_support[at, i]] - r.slot_begin + x.first
            x.J[3 * x.contacts + k, s] = problem.row_J[w, at, i]
    k = lane()
    if k < x.scalars:
        at = work.islands.row[w, r.row_begin + k]
        x.R[3 * x.contacts + k] = problem.row_R[w, at]
        x.v_hat[3 * x.contacts + k] = problem.row_v_hat[w, at]
        x.lower[k] = problem.row_lower[w, at]
        x.upper[k] = problem.row_upper[w, at]


@func
def take_island(problem: Problem, work: Workspace, w: int, r: Range):
    """Load the data that stay constant during the solve."""
    x = small_island(r)
    take_matrix(problem, work, x, w, r)
    team_clear_rows(x.J, x.rows)
    for at in range(lane(), ROWS, lanes()):
        x.gamma[at] = real(0.0)
    sync()
    take_contacts(problem, work, x, w, r)
    take_scalar_rows(problem, work, x, w, r)
    sync()


@func
def set_velocity(problem: Problem, work: Workspace, x: Small, w: int, r: Range, free: bool):
    """v = v0, or v* if the initial state is `free`."""
    i = lane()
    if x.dof >= 0:
        x.v[i] = x.v_star[i]
        if not free:
            x.v[i] = problem.v0[w, work.islands.dof[w, r.slot_begin + x.dof]]
    sync()


@func
def give_point(
    work: Workspace, w: int, r: Range, v: wp.array1d(dtype=real), gamma: wp.array1d(dtype=vec3),
    row_gamma: wp.array1d(dtype=real),
):  # fmt: skip
    """Write v and impulses back to the world's arrays."""
    x = small_island(r)
    i = lane()
    if x.dof >= 0:
        v[work.islands.dof[w, r.slot_begin + x.dof]] = x.v[i]
    if i < x.contacts:
        gamma[work.islands.contact[w, r.contact_begin + i]] = triple(x.gamma, i)
    if i < x.scalars:
        row_gamma[work.islands.row[w, r.row_begin + i]] = x.gamma[3 * x.contacts + i]
    sync()


@func
def weighted_squares(x: Small, residual: real, momentum: real, impulse: real) -> vec3:
    """Squared D-weighted norms of three vectors over dofs; each lane passes its entries."""
    return team_sum_3(x.D_sq[lane()] * vec3(residual * residual, momentum * momentum, impulse * impulse))


@func
def small_opposing_impulses(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> real:
    """‖D |J|ᵀ|γ|‖, as `opposing_impulses`. Overwrites dp."""
    x = small_island(r)
    team_absolute_forces(x.J, x.rows, x.gamma, x.dp)
    total = x.dp[lane()]
    return wp.sqrt(team_sum(total * total * x.D_sq[lane()]))
