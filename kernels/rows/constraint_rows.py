"""Scalar rows of constraints and tendons (theory §3.1): error φ and Jacobian, then R, v̂ and bounds by each row's law.

φ is taken where the present velocity leads, at q ⊕ h v0, and the law acts on φ − h J v0. To first order that is φ at q; the
second-order term makes J(q) v of the end of the step hold φ to third order in h, as SHAKE does (Ryckaert et al. 1977)
with one Newton step. A constant table says what every row is.
"""

import warp as wp

from ..laws import cone
from ..laws.bounds import box_impulse
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec4, vec6
from ..tree import spatial as sp
from ..tree.effective_mass import eliminate
from ..tree.passes import Topology
from . import bilateral, coupling, frames
from .bilateral import equality_law
from .frames import RowGeometry
from .joint_rows import Rows, effective_weight
from .stop import LIMIT_BETA, stop_law, within_reach

POSITION = wp.constant(0)
ROTATION = wp.constant(1)
TILT = wp.constant(2)
DISTANCE = wp.constant(3)
SHORTEST = wp.constant(4)
LONGEST = wp.constant(5)
COUPLING = wp.constant(6)
TENDON_LOWER = wp.constant(7)
TENDON_UPPER = wp.constant(8)
TENDON_SPRING = wp.constant(9)
TENDON_FRICTION = wp.constant(10)

# A row that moves next to nothing is redundant (out of the plane of a linkage, on the axis of a hinge); R ∝ w would make it
# infinitely stiff, so that rounding or a misaligned axis jams the mechanism. So w is at least Σ u²/M_dd over its dofs times
# PERPENDICULAR, u the whole motion that the row takes one component of, and times ON_AXIS with u the lever from the tree's
# reference point.
PERPENDICULAR = 1.0 / 3.0
ON_AXIS = 1e-4
# R/w of a one-sided row that recovers, at least.
LEAST_STOP = cone.LEAST_RECOVERY_SHARE * LIMIT_BETA**2 * cone.INVERSE_FOUR_PI_SQUARED
# Entries of J below this, relative to what they are the difference of, are rounding.
ROUNDING = {wp.float32: 2e-6, wp.float64: 4e-15}
# Directions of less mobility, relative to the least w, do not move: out of the plane of a mechanism.
STILL = {wp.float32: 1e-6, wp.float64: 1e-9}


@struct
class Table:
    """What the rows are; shared by all worlds. Row i here is row `first + i` of `Rows`."""

    first: int
    exact: int  # 1: a finite stiffness of a constraint has no near-rigid limit
    kind: wp.array(dtype=int)  # (n,)
    axis: wp.array(dtype=int)  # of POSITION, ROTATION, TILT
    link: wp.array2d(dtype=int)  # (n, 2) links A and B, -1 is the world
    frame: wp.array2d(dtype=transform)  # (n, 2) in the links
    a: wp.array2d(dtype=real)  # (n, width) per dof of the support: +1 moves B, -1 moves A; of a combination a_j
    b: wp.array2d(dtype=real)  # (n, width) b_j of a coupling
    q: wp.array2d(dtype=int)  # (n, width) the coordinate of the dof
    coefficients: wp.array2d(dtype=real)  # (n, 5) of a coupling; [0] the length or bound, or the dry friction
    reference: wp.array(dtype=vec2)  # x_0, y_0 of a coupling, slack interval of a spring
    compliance: wp.array(dtype=real)  # 1/k, 0 is near-rigid
    recovery: wp.array(dtype=real)  # [m/s, rad/s] of near-rigid rows
    lever: wp.array(dtype=real)  # [m, rad] infinite where the row does not turn
    comes: wp.array(dtype=int)  # 1: a free body can come to meet it
    part: wp.array(dtype=int)  # the mechanism that it belongs to: trees that rows of the table connect
    body_part: wp.array(dtype=int)  # (nbody,) likewise, -1 of bodies that stand still
    dof_part: wp.array(dtype=int)  # (nv,)
    group: wp.array(dtype=int)  # rows from this one on that measure one vector; 0: counted with one before
    dissipation_time: wp.array(dtype=real)  # not a number: the default
    stiffness: wp.array(dtype=real)  # of a spring, as the next
    damping: wp.array(dtype=real)


rounding, still = ROUNDING[real], STILL[real]


@struct
class Loads:
    """What rows bear: weights and generalised forces."""

    body_mass: wp.array2d(dtype=real)
    gravity: wp.array(dtype=vec3)
    force: wp.array2d(dtype=real)  # (worlds, nv)


@func
def end_frame(table: Table, link_X: wp.array2d(dtype=transform), w: int, i: int, end: int) -> transform:
    X = table.frame[i, end]
    l = table.link[i, end]
    if l >= 0:
        X = link_X[w, l] * X
    return X


@func
def body_row(table: Table, link_X: wp.array2d(dtype=transform), w: int, i: int) -> RowGeometry:
    """φ and axis of a row between two frames; of a distance the distance itself."""
    X_A = end_frame(table, link_X, w, i, 0)
    X_B = end_frame(table, link_X, w, i, 1)
    kind = table.kind[i]
    if kind == POSITION:
        return frames.position_row(X_A, X_B, table.axis[i])
    if kind == ROTATION:
        return frames.rotation_row(X_A, X_B, table.axis[i])
    if kind == TILT:
        return frames.tilt_row(X_A, X_B, table.axis[i])
    return frames.distance_row(X_A, X_B)


@func
def row_error(kind: int, x: real, bound: real) -> real:
    """φ from what a row measures: `x` itself, or how far it is from its bound."""
    phi = x
    if kind == DISTANCE or kind == SHORTEST or kind == TENDON_LOWER:
        phi = x - bound
    elif kind == LONGEST or kind == TENDON_UPPER:
        phi = bound - x
    return phi


@func
def row_side(kind: int) -> real:
    """∂φ/∂x."""
    side = real(1.0)
    if kind == LONGEST or kind == TENDON_UPPER:
        side = real(-1.0)
    return side


@func
def reference_link(topology: Topology, d: int) -> int:
    """The link at whose origin the motion of dof d is taken."""
    return topology.tree_reference[topology.link_tree[topology.dof_link[d]]]


@func
def summands(motion: vec6, angular: int, point: vec3, o: vec3) -> real:
    """Size of what the motion's velocity at a point is summed from."""
    size = wp.length(sp.angular(motion))
    if angular == 0:
        size = wp.length(sp.linear(motion)) + size * (wp.length(point) + wp.length(o))
    return size


@kernel(twin=True)
def geometry(
    topology: Topology,
    table: Table,
    rows: Rows,
    link_X: wp.array2d(dtype=transform),
    link_X_ahead: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    q: wp.array2d(dtype=real),
    q_ahead: wp.array2d(dtype=real),
    taped: int,
    # out
    phi: wp.array2d(dtype=real),
    J: wp.array3d(dtype=real),
):
    """φ at q ⊕ h v0 and J at q. Launch over (worlds, rows of the table)."""
    w, i = wp.tid()
    kind = table.kind[i]
    k = table.first + i
    size = rows.support_size[k]
    if kind < COUPLING:
        row = body_row(table, link_X, w, i)
        ahead = body_row(table, link_X_ahead, w, i)
        point = wp.transform_get_translation(end_frame(table, link_X, w, i, 1))
        phi[w, i] = row_error(kind, ahead.phi, table.coefficients[i, 0])
        for j in range(size):
            d = rows.support[k, j]
            o = wp.transform_get_translation(link_X[w, reference_link(topology, d)])
            motion = sp.angular(dof_S[w, d])
            if row.angular == 0:
                motion = sp.velocity_at(dof_S[w, d], point - o)
            J_j = table.a[i, j] * row_side(kind) * wp.dot(row.axis, motion)
            if taped == 0:  # the tape needs the derivative of a J that passes through 0
                if wp.abs(J_j) <= real(rounding) * summands(dof_S[w, d], row.angular, point, o):
                    J_j = real(0.0)
            J[w, k, j] = J_j
    elif kind == COUPLING:
        x = coupling.combination(table.a, table.q, i, size, q_ahead, w)
        y = coupling.combination(table.b, table.q, i, size, q_ahead, w) - table.reference[i][1]
        phi[w, i] = x - table.reference[i][0] - coupling.polynomial(table.coefficients, i, y)
        s = coupling.combination(table.b, table.q, i, size, q, w) - table.reference[i][1]
        slope = coupling.polynomial_slope(table.coefficients, i, s)
        for j in range(size):
            J[w, k, j] = table.a[i, j] - slope * table.b[i, j]
    else:
        x = coupling.combination(table.a, table.q, i, size, q_ahead, w)
        phi[w, i] = row_error(kind, x, table.coefficients[i, 0])
        for j in range(size):
            J[w, k, j] = row_side(kind) * table.a[i, j]


@kernel(twin=True)
def least_weight(
    topology: Topology,
    table: Table,
    rows: Rows,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    inertia: wp.array2d(dtype=real),
    # out
    floor: wp.array2d(dtype=real),
):
    """floor += the least w of a row between frames; `inertia`: the diagonal of M. Launch over (worlds, table rows)."""
    w, i = wp.tid()
    kind = table.kind[i]
    if kind < COUPLING:
        k = table.first + i
        point = wp.transform_get_translation(end_frame(table, link_X, w, i, 1))
        for j in range(rows.support_size[k]):
            d = rows.support[k, j]
            omega = sp.angular(dof_S[w, d])
            square = real(PERPENDICULAR) * wp.dot(omega, omega)
            if kind != ROTATION and kind != TILT:
                arm = point - wp.transform_get_translation(link_X[w, reference_link(topology, d)])
                u = sp.velocity_at(dof_S[w, d], arm)
                v = sp.linear(dof_S[w, d])
                lever = wp.dot(v, v) + wp.dot(omega, omega) * wp.dot(arm, arm)
                square = real(PERPENDICULAR) * wp.dot(u, u) + real(ON_AXIS) * lever
            floor[w, i] += square / inertia[w, d]


@func
def row_law(table: Table, i: int, weight: real, speed: real, phi: real, h: real, sigma: real) -> vec4:
    """(R, v̂, lower, upper) of an active row; R = 0 where it does not act. `speed`: at which it closes at most."""
    kind = table.kind[i]
    c = table.compliance[i]
    time = table.dissipation_time[i]
    law = vec2(real(0.0), real(0.0))
    lower = real(-wp.inf)
    upper = real(wp.inf)
    limit_weight = weight  # of the near-rigid limit
    if table.exact == 1 and c > real(0.0):
        limit_weight = real(0.0)
    if kind <= DISTANCE or kind == COUPLING:
        law = equality_law(limit_weight, phi, c, time, h, speed)
    elif kind == TENDON_SPRING:
        law = coupling.spring_law(phi, table.stiffness[i], table.damping[i], table.reference[i], h)
    elif kind == TENDON_FRICTION:
        law = vec2(sigma * weight, real(0.0))
        upper = h * table.coefficients[i, 0]
        lower = -upper
    else:
        law = stop_law(limit_weight, phi, c, time, h, speed)
        lower = real(0.0)
    return vec4(law[0], law[1], lower, upper)


@func
def is_inactive(topology: Topology, table: Table, body_active: wp.array2d(dtype=real), w: int, i: int) -> bool:
    """Whether an end of the row stands still because its tree is switched off."""
    off = False
    for end in range(2):
        l = table.link[i, end]
        if l >= 0:
            root = topology.link_body[topology.tree_reference[topology.link_tree[l]]]
            if body_active[w % body_active.shape[0], root] == real(0.0):
                off = True
    return off


@kernel
def prepare(
    topology: Topology,
    table: Table,
    rows: Rows,
    lead: real,
    v0: wp.array2d(dtype=real),
    M_factor: wp.array3d(dtype=real),
    # in and out
    phi: wp.array2d(dtype=real),
    # out
    floor: wp.array2d(dtype=real),
    inertia: wp.array2d(dtype=real),
):
    """φ ← φ − lead J v0, floor ← 0, and M_dd from M = LᵀDL. Launch over (worlds, max(nv, table rows))."""
    w, i = wp.tid()
    if i < floor.shape[1]:
        k = table.first + i
        rate = real(0.0)
        for j in range(rows.support_size[k]):
            rate += rows.J[w, k, j] * v0[w, rows.support[k, j]]
        phi[w, i] = phi[w, i] - lead * rate
        floor[w, i] = real(0.0)
    if i < inertia.shape[1]:
        begin = topology.dof_begin[i]
        total = M_factor[w, i, i - begin]
        for d in range(i + 1, topology.tree_v[topology.link_tree[topology.dof_link[i]] + 1]):
            L = M_factor[w, d, i - begin]
            total += L * L * M_factor[w, d, d - begin]
        inertia[w, i] = total


@func
def group_mobility(
    topology: Topology, rows: Rows, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), first: int, n: int, w: int
) -> mat33:
    """W = J M⁻¹ Jᵀ of the n rows from `first` on, three at most; 0 beside them."""
    W = mat33()
    size = rows.support_size[first]
    j = int(0)
    while j < size:
        begin = topology.dof_begin[rows.support[first, j]]
        end = int(j)
        while end < size and topology.dof_begin[rows.support[first, end]] == begin:
            end += 1
        last = rows.support[first, end - 1]
        for d in range(begin, last + 1):
            z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
        for e in range(j, end):
            column = vec3(real(0.0), real(0.0), real(0.0))
            for m in range(n):
                column[m] = rows.J[w, first + m, e]
            z[w, rows.support[first, e]] = column
        W += eliminate(topology, L, z, w, begin, last)
        j = end
    return W


@func
def load_bound(
    table: Table,
    loads: Loads,
    h: real,
    w: int,
    i: int,
) -> real:
    """γ_load of a row: a multiple of the impulse of the weights and forces of its part of the model."""
    mass = real(0.0)
    for body in range(table.body_part.shape[0]):
        if table.body_part[body] == table.part[i]:
            mass += loads.body_mass[w % loads.body_mass.shape[0], body]
    total = mass * wp.length(loads.gravity[w % loads.gravity.shape[0]])
    for d in range(loads.force.shape[1]):
        if table.dof_part[d] == table.part[i]:
            total += wp.abs(loads.force[w, d]) / wp.min(table.lever[i], real(1.0))
    return real(bilateral.LOAD_SHARE) * h * total


@func
def held_speed(table: Table, weight: real, load: real, h: real, i: int) -> real:
    """v_h of `bilateral.py`; `weight`: w, `load`: γ_load."""
    share = real(bilateral.RIGID)
    if table.kind[i] == SHORTEST or table.kind[i] == LONGEST:
        share = real(LEAST_STOP)
    return share * wp.max(real(bilateral.GEOMETRIC_SHARE) * table.lever[i] / h, weight * load)


@func
def drift_speed(table: Table, rows: Rows, v: wp.array2d(dtype=real), h: real, w: int, i: int) -> real:
    """|v̂| of a group that its motion explains: the positions of an explicit step leave their constraints by h² u²/L."""
    square = real(0.0)
    for m in range(table.group[i]):
        k = table.first + i + m
        size = real(0.0)
        for j in range(rows.support_size[k]):
            size += wp.abs(rows.J[w, k, j] * v[w, rows.support[k, j]])
        square += size * size
    speed = real(0.0)
    if h * h * square < real(bilateral.DRIFT_TURN * bilateral.DRIFT_TURN) * table.lever[i] * table.lever[i]:
        speed = real(bilateral.DRIFT) * h * square / table.lever[i]
    return speed


@func
def closing_speed(
    topology: Topology,
    table: Table,
    rows: Rows,
    L: wp.array3d(dtype=real),
    z: wp.array2d(dtype=vec3),
    phi: wp.array2d(dtype=real),
    least: real,
    explained: real,
    h: real,
    w: int,
    i: int,
) -> vec4:
    """(speed at which the rows of a group, three at most, can close without haste, direction that hinders them most, where |v̂| is
    above `explained`). `least`: the least w."""
    wanted = vec3(real(0.0), real(0.0), real(0.0))
    for m in range(table.group[i]):
        wanted[m] = row_law(table, i + m, real(1.0), table.recovery[i + m], phi[w, i + m], h, real(1.0))[1]
    speed = wp.length(wanted)
    if speed <= explained:
        return vec4(real(wp.inf), real(0.0), real(0.0), real(0.0))
    wanted = wanted / speed
    W = group_mobility(topology, rows, L, z, table.first + i, table.group[i], w) / least
    for m in range(table.group[i], 3):  # no row
        W[m, m] = real(1.0) / real(still)
    axes, mobility = wp.eig3(W)
    k = int(0)
    most = real(0.0)
    slowest = real(wp.inf)
    haste = real(0.0)
    for m in range(3):
        along = wanted[0] * axes[0, m] + wanted[1] * axes[1, m] + wanted[2] * axes[2, m]
        share = along * along / wp.max(mobility[m], real(bilateral.RIGID))
        if share > most:
            most = share
            k = m
        if mobility[m] > real(still):
            haste += share
    if haste > real(bilateral.HASTE):
        slowest = table.recovery[i] * real(bilateral.HASTE) / haste
    if wp.dot(wanted, W * wanted) < real(bilateral.STUCK_SHARE):
        slowest = real(0.0)
    return vec4(slowest, axes[0, k], axes[1, k], axes[2, k])


@kernel
def regularise(
    topology: Topology,
    table: Table,
    body_active: wp.array2d(dtype=real),
    h: real,
    sigma: real,
    phi: wp.array2d(dtype=real),
    floor: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    M_factor: wp.array3d(dtype=real),
    loads: Loads,
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    speed: wp.array2d(dtype=real),
    stalled: wp.array2d(dtype=int),
    rows: Rows,
):
    """R, v̂, bounds and w of every row of the table; R = 0 where it does not act or moves nothing. Launch over worlds."""
    w = wp.tid()
    first = int(0)  # of the present group, as the three below
    limit = real(wp.inf)
    along = vec3(real(1.0), real(1.0), real(1.0))
    load = real(0.0)
    for i in range(table.kind.shape[0]):
        if table.group[i] > 0:
            first = i
            limit = real(wp.inf)
            along = vec3(real(1.0), real(1.0), real(1.0))
            load = real(0.0)
        k = table.first + i
        kind = table.kind[i]
        rate = real(0.0)
        rate_star = real(0.0)
        for j in range(rows.support_size[k]):
            d = rows.support[k, j]
            rate += rows.J[w, k, j] * v0[w, d]
            rate_star += rows.J[w, k, j] * v_star[w, d]
        error = phi[w, i]
        stop = kind == SHORTEST or kind == LONGEST or kind == TENDON_LOWER or kind == TENDON_UPPER
        rows.R[w, k] = real(0.0)
        if not is_inactive(topology, table, body_active, w, i) and (
            not stop or within_reach(error, rate, rate_star, rows.pull, h)
        ):
            weight = effective_weight(topology, M_factor, z, w, rows, k)
            row_weight = wp.max(weight, floor[w, i])
            if i == first and floor[w, i] > real(0.0):
                if stalled[w, i] != 0:
                    limit = real(0.0)
                elif table.comes[i] == 0 and table.lever[i] < real(wp.inf):
                    slow = held_speed(table, floor[w, i], real(0.0), h, i)
                    explained = wp.max(slow, drift_speed(table, rows, v0, h, w, i))
                    closing = closing_speed(topology, table, rows, M_factor, z, phi, floor[w, i], explained, h, w, i)
                    limit = closing[0]
                    along = vec3(closing[1], closing[2], closing[3])
                if limit < table.recovery[i]:
                    load = load_bound(table, loads, h, w, i)
            speed[w, i] = table.recovery[i]
            if limit < table.recovery[i] and kind < COUPLING and wp.abs(along[i - first]) > real(bilateral.ALONG):
                most = wp.max(limit, held_speed(table, row_weight, load, h, i))
                speed[w, i] = wp.min(table.recovery[i], wp.pow(real(2.0), wp.ceil(wp.log2(most))))
            law = row_law(table, i, row_weight, speed[w, i], error, h, sigma)
            if weight > real(0.0):
                rows.weight[w, k] = weight
                rows.R[w, k] = law[0]
                rows.v_hat[w, k] = law[1]
                rows.lower[w, k] = law[2]
                rows.upper[w, k] = law[3]


@func
def is_turning(
    table: Table, rows: Rows, h: real, dof_S: wp.array2d(dtype=vec6), v: wp.array2d(dtype=real), w: int, i: int
) -> bool:
    """Whether an end of the row turns by more than STALL_TURN in the step."""
    omega_a = vec3(real(0.0), real(0.0), real(0.0))
    omega_b = vec3(real(0.0), real(0.0), real(0.0))
    k = table.first + i
    for j in range(rows.support_size[k]):
        d = rows.support[k, j]
        omega = sp.angular(dof_S[w, d]) * v[w, d]
        if table.a[i, j] > real(0.0):
            omega_b += omega
        else:
            omega_a += omega
    return h * wp.max(wp.length(omega_a), wp.length(omega_b)) > real(bilateral.STALL_TURN)


@kernel
def remember_stalls(
    topology: Topology,
    table: Table,
    rows: Rows,
    h: real,
    phi: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    M_factor: wp.array3d(dtype=real),
    loads: Loads,
    v: wp.array2d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # in and out
    stalled: wp.array2d(dtype=int),
):
    """Whether each group of two-sided rows stalls at the new velocity (`bilateral.py`). Launch over worlds."""
    w = wp.tid()
    for i in range(table.kind.shape[0]):
        turning = (table.kind[i] == POSITION or table.kind[i] == DISTANCE) and table.lever[i] < real(wp.inf)
        if table.group[i] > 0 and turning:
            wanted = vec3(real(0.0), real(0.0), real(0.0))
            rate = vec3(real(0.0), real(0.0), real(0.0))
            gamma = vec3(real(0.0), real(0.0), real(0.0))
            free = vec3(real(0.0), real(0.0), real(0.0))  # v̂ without a limit
            for m in range(table.group[i]):
                k = table.first + i + m
                if rows.R[w, k] > real(0.0):
                    for j in range(rows.support_size[k]):
                        rate[m] = rate[m] + rows.J[w, k, j] * v[w, rows.support[k, j]]
                    wanted[m] = rows.v_hat[w, k]
                    free[m] = row_law(table, i + m, real(1.0), real(wp.inf), phi[w, i + m], h, real(1.0))[1]
                    gamma[m] = (wanted[m] - rate[m]) / rows.R[w, k]
            limit = table.lever[i] / h  # of W γ
            if wp.length(free) < real(0.5) * real(bilateral.RIGID) * limit:
                stalled[w, i] = 0
            elif (
                wp.dot(wanted, rate) < real(0.5) * wp.length_sq(wanted)
                and wp.length(free) > drift_speed(table, rows, v, h, w, i)
                and is_turning(table, rows, h, dof_S, v, w, i)
            ):
                W = group_mobility(topology, rows, M_factor, z, table.first + i, table.group[i], w)
                size = wp.length(gamma)
                bound = load_bound(table, loads, h, w, i)
                if wp.dot(gamma, W * gamma) > limit * size and size > bound:
                    stalled[w, i] = 1


# On the tape: which rows are active, and which can move, is frozen.


@kernel(taped=True)
def diagonal(
    topology: Topology,
    M: wp.array3d(dtype=real),
    # out
    inertia: wp.array2d(dtype=real),
):
    """M_dd. Launch over (worlds, nv)."""
    w, d = wp.tid()
    inertia[w, d] = M[w, d, d - topology.dof_begin[d]]


@kernel(taped=True)
def row_rate(
    table: Table,
    rows: Rows,
    J: wp.array3d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    rate: wp.array2d(dtype=real),
):
    """rate += J v. Launch over (worlds, rows of the table)."""
    w, i = wp.tid()
    k = table.first + i
    if rows.R[w, k] > real(0.0):
        for j in range(rows.support_size[k]):
            rate[w, i] += J[w, k, j] * v[w, rows.support[k, j]]


@kernel(taped=True)
def row_impulse(
    table: Table,
    rows: Rows,
    h: real,
    sigma: real,
    lead: real,
    phi: wp.array2d(dtype=real),
    weight: wp.array2d(dtype=real),
    floor: wp.array2d(dtype=real),
    speed: wp.array2d(dtype=real),
    rate: wp.array2d(dtype=real),
    rate0: wp.array2d(dtype=real),
    # out
    gamma: wp.array2d(dtype=real),
):
    """γ from the rates at v and v0. Launch over (worlds, rows of the table)."""
    w, i = wp.tid()
    k = table.first + i
    if rows.R[w, k] > real(0.0):
        w_row = wp.max(weight[w, k], floor[w, i])
        law = row_law(table, i, w_row, speed[w, i], phi[w, i] - lead * rate0[w, i], h, sigma)
        gamma[w, i] = box_impulse((law[1] - rate[w, i]) / law[0], law[2], law[3])


@kernel(taped=True)
def row_residual(
    table: Table,
    rows: Rows,
    J: wp.array3d(dtype=real),
    gamma: wp.array2d(dtype=real),
    # out
    r: wp.array2d(dtype=real),
):
    """r -= Jᵀγ, one column of one row. Launch over (worlds, rows of the table, width)."""
    w, i, j = wp.tid()
    k = table.first + i
    if rows.R[w, k] > real(0.0) and j < rows.support_size[k]:
        wp.atomic_add(r, w, rows.support[k, j], -J[w, k, j] * gamma[w, i])
