# SPDX-License-Identifier: Apache-2.0
"""Rows between two frames (theory §10): the error φ and its Jacobian, then R, v̂ and bounds by each row's law, and
which rows are held.

φ is taken where the velocity leads, at q ⊕ h v0, and the law acts on φ − h J v0. To first order that is φ at q. With
the second-order term, J(q) v at the end of the step holds φ to third order in h. This is SHAKE (Ryckaert et al. 1977)
with one Newton step. `kinds/` and `frames.py` define what a row measures; stops and servos of joints:
`coordinate_rows.py`.
"""

import warp as wp

from ..laws import cone
from ..real import func, kernel, real, transform, vec3, vec4, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology
from ..tree.plant import Plant
from . import bilateral, dispatch
from .dispatch import frame_law
from .kinds.kind import ANGULAR, BETWEEN, ONE_SIDED, PERIODIC
from .kinds.stop import LIMIT_BETA, within_reach
from .table import Constants, Frames, Instant, Rows, Table, constant_of, frame_state, keep_law, row_rate
from .weights import effective_weight, group_mobility

# A row that moves almost nothing is redundant (out of the plane of a linkage, about the axis of a hinge). R ∝ w would
# make it infinitely stiff, and rounding or a misaligned axis would jam the mechanism. w is therefore at least the sum
# over the row's dofs of PERPENDICULAR u²/M_dd, where u is the whole motion of which the row takes one component. A
# second term is ON_AXIS times the same sum, with u² = |v|² + |ω|² |arm|², arm from the tree's reference point.
PERPENDICULAR = 1.0 / 3.0
ON_AXIS = 1e-4
# Least R/w of a one-sided row that recovers.
LEAST_STOP = cone.LEAST_RECOVERY_SHARE * LIMIT_BETA**2 * cone.INVERSE_FOUR_PI_SQUARED
# Entries of J below this share of the terms that they are a difference of are rounding errors.
ROUNDING = {wp.float32: 2e-6, wp.float64: 4e-15}
# Directions with less inverse mass than this share of the least w do not move: out of the plane of a mechanism.
STILL = {wp.float32: 1e-6, wp.float64: 1e-9}


rounding, still = ROUNDING[real], STILL[real]


@func
def end_frame(table: Table, link_X: wp.array2d(dtype=transform), w: int, k: int, end: int) -> transform:
    return joints.placed(link_X, w, table.link[k, end], table.frame[k, end])


@func
def reference_link(topology: Topology, d: int) -> int:
    """The link whose origin is the reference point of the motion of dof d."""
    return topology.tree_reference[topology.link_tree[topology.dof_link[d]]]


@func
def summands(motion: vec6, traits: int, point: vec3, o: vec3) -> real:
    """Size of the terms that sum to the motion's velocity at a point."""
    size = wp.length(sp.angular(motion))
    if (traits & ANGULAR) == 0:
        size = wp.length(sp.linear(motion)) + size * (wp.length(point) + wp.length(o))
    return size


@func
def frames_of(table: Table, constants: Constants, link_X: wp.array2d(dtype=transform), w: int, k: int) -> Frames:
    """The frames that row k compares, with its constants."""
    X = Frames()
    X.A = end_frame(table, link_X, w, k, 0)
    X.B = end_frame(table, link_X, w, k, 1)
    X.e = table.axis[k]
    X.side = table.side[k]
    X.c = constant_of(table, constants, w, k)
    return X


@func
def led_error(table: Table, constants: Constants, phi: real, lead: real, rate: real, w: int, k: int) -> real:
    """φ − lead J v0; of a periodic row the value nearest to 0."""
    found = phi - lead * rate
    if (table.traits[k] & PERIODIC) != 0:
        period = wp.abs(constant_of(table, constants, w, k))
        found -= period * wp.round(found / period)
    return found


@kernel(twin=True)
def frame_errors(
    topology: Topology,
    table: Table,
    constants: Constants,
    rows: Rows,
    link_X: wp.array2d(dtype=transform),
    link_X_ahead: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    taped: int,
    # out
    phi: wp.array2d(dtype=real),
    J: wp.array3d(dtype=real),
):
    """φ at q ⊕ h v0 and J at q of the rows between frames. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if (table.traits[k] & BETWEEN) != 0:
        row = dispatch.geometry(table.kind[k], frames_of(table, constants, link_X, w, k))
        ahead = dispatch.geometry(table.kind[k], frames_of(table, constants, link_X_ahead, w, k))
        point = wp.transform_get_translation(end_frame(table, link_X, w, k, 1))
        phi[w, k] = ahead.phi
        for j in range(rows.support_size[k]):
            d = rows.support[k, j]
            o = wp.transform_get_translation(link_X[w, reference_link(topology, d)])
            motion = sp.join(sp.angular(dof_S[w, d]), sp.velocity_at(dof_S[w, d], point - o))
            J_j = table.a[k, j] * wp.dot(row.axis, motion)
            if taped == 0:  # a tape needs the derivative of an entry that passes through 0
                if wp.abs(J_j) <= real(rounding) * summands(dof_S[w, d], table.traits[k], point, o):
                    J_j = real(0.0)
            J[w, k, j] = J_j


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
    """floor += the least w of each row between frames. `inertia`: the diagonal of M. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if (table.traits[k] & BETWEEN) != 0:
        point = wp.transform_get_translation(end_frame(table, link_X, w, k, 1))
        for j in range(rows.support_size[k]):
            d = rows.support[k, j]
            omega = sp.angular(dof_S[w, d])
            square = real(PERPENDICULAR) * wp.dot(omega, omega)
            if (table.traits[k] & ANGULAR) == 0:
                arm = point - wp.transform_get_translation(link_X[w, reference_link(topology, d)])
                u = sp.velocity_at(dof_S[w, d], arm)
                v = sp.linear(dof_S[w, d])
                lever = wp.dot(v, v) + wp.dot(omega, omega) * wp.dot(arm, arm)
                square = real(PERPENDICULAR) * wp.dot(u, u) + real(ON_AXIS) * lever
            floor[w, k] += square / inertia[w, d]


@func
def is_inactive(topology: Topology, table: Table, plant: Plant, w: int, k: int) -> bool:
    """Whether an end of the row stands still because its tree is switched off."""
    off = False
    for end in range(2):
        l = table.link[k, end]
        if l >= 0:
            root = topology.link_body[topology.tree_reference[topology.link_tree[l]]]
            if plant.body_active[w % plant.body_active.shape[0], root] == real(0.0):
                off = True
    return off


@kernel
def prepare(
    topology: Topology,
    table: Table,
    constants: Constants,
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
    """φ ← φ − lead J v0, floor ← 0, and M_dd from M = LᵀDL. Launch over (worlds, max(nv, rows))."""
    w, k = wp.tid()
    if k < floor.shape[1]:
        if (table.traits[k] & BETWEEN) != 0:
            phi[w, k] = led_error(table, constants, phi[w, k], lead, row_rate(rows, v0, w, k), w, k)
        floor[w, k] = real(0.0)
    if k < inertia.shape[1]:
        begin = topology.dof_begin[k]
        total = M_factor[w, k, k - begin]
        for d in range(k + 1, topology.tree_v[topology.link_tree[topology.dof_link[k]] + 1]):
            L = M_factor[w, d, k - begin]
            total += L * L * M_factor[w, d, d - begin]
        inertia[w, k] = total


@func
def load_bound(
    table: Table, plant: Plant, force: wp.array2d(dtype=real), h: real, w: int, k: int
) -> real:  # fmt: skip
    """γ_load of a row: `LOAD_SHARE` times the impulse of all weights and generalized forces of its mechanism."""
    mass = real(0.0)
    for body in range(table.body_part.shape[0]):
        if table.body_part[body] == table.part[k]:
            mass += plant.body_mass[w % plant.body_mass.shape[0], body]
    total = mass * wp.length(plant.gravity[w % plant.gravity.shape[0]])
    for d in range(force.shape[1]):
        if table.dof_part[d] == table.part[k]:
            total += wp.abs(force[w, d]) / wp.min(table.lever[k], real(1.0))
    return real(bilateral.LOAD_SHARE) * h * total


@func
def held_speed(table: Table, weight: real, load: real, h: real, k: int) -> real:
    """v_h of `bilateral.py`. `weight`: w; `load`: γ_load."""
    share = real(bilateral.RIGID)
    if (table.traits[k] & ONE_SIDED) != 0:
        share = real(LEAST_STOP)
    return share * wp.max(real(bilateral.GEOMETRIC_SHARE) * table.lever[k] / h, weight * load)


@func
def drift_speed(table: Table, rows: Rows, v: wp.array2d(dtype=real), h: real, w: int, k: int) -> real:
    """|v̂| of a group that motion explains: the positions of an explicit step drift off their constraints by h²
    u²/L."""
    square = real(0.0)
    for m in range(table.group[k]):
        member = k + m
        size = real(0.0)
        for j in range(rows.support_size[member]):
            size += wp.abs(rows.J[w, member, j] * v[w, rows.support[member, j]])
        square += size * size
    speed = real(0.0)
    if h * h * square < real(bilateral.DRIFT_TURN * bilateral.DRIFT_TURN) * table.lever[k] * table.lever[k]:
        speed = real(bilateral.DRIFT) * h * square / table.lever[k]
    return speed


@func
def closing_rate(table: Table, constants: Constants, phi: real, speed: real, h: real, w: int, k: int) -> real:
    """v̂ of a row whose recovery speed is `speed`."""
    s = frame_state(table, constants, h, real(1.0), w, k)
    s.phi = phi
    s.weight = real(1.0)
    s.speed = speed
    return frame_law(table.kind[k], s)[1]


@func
def closing_speed(
    topology: Topology, table: Table, constants: Constants, rows: Rows, at_step: Instant, z: wp.array2d(dtype=vec3),
    phi: wp.array2d(dtype=real), least: real, explained: real, w: int, k: int,
) -> vec4:  # fmt: skip
    """(the speed at which a group of at most three rows can close without haste; the direction that hinders it most).

    The speed is infinite if the group's |v̂| is at most `explained`, and 0 if the group is held. `least`: the least w.
    """
    wanted = vec3(real(0.0), real(0.0), real(0.0))
    for m in range(table.group[k]):
        wanted[m] = closing_rate(table, constants, phi[w, k + m], table.recovery[k + m], at_step.h, w, k + m)
    speed = wp.length(wanted)
    if speed <= explained:
        return vec4(real(wp.inf), real(0.0), real(0.0), real(0.0))
    wanted = wanted / speed
    W = group_mobility(topology, rows, at_step.M_factor, z, k, table.group[k], w) / least
    for m in range(table.group[k], 3):  # rows that the group does not have
        W[m, m] = real(1.0) / real(still)
    axes, mobility = wp.eig3(W)
    worst = int(0)
    most = real(0.0)
    slowest = real(wp.inf)
    haste = real(0.0)
    for m in range(3):
        along = wanted[0] * axes[0, m] + wanted[1] * axes[1, m] + wanted[2] * axes[2, m]
        share = along * along / wp.max(mobility[m], real(bilateral.RIGID))
        if share > most:
            most = share
            worst = m
        if mobility[m] > real(still):
            haste += share
    if haste > real(bilateral.HASTE):
        slowest = table.recovery[k] * real(bilateral.HASTE) / haste
    if wp.dot(wanted, W * wanted) < real(bilateral.STUCK_SHARE):
        slowest = real(0.0)
    return vec4(slowest, axes[0, worst], axes[1, worst], axes[2, worst])


@kernel
def regularise(
    topology: Topology,
    table: Table,
    constants: Constants,
    plant: Plant,
    at_step: Instant,
    phi: wp.array2d(dtype=real),
    floor: wp.array2d(dtype=real),
    force: wp.array2d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    rows: Rows,
):
    """R, v̂, bounds and w of every row between frames; R = 0 if a row does not act or moves nothing. Launch over
    worlds."""
    w = wp.tid()
    first = int(0)  # first row of the present group; the next three are also of that group
    limit = real(wp.inf)
    along = vec3(real(1.0), real(1.0), real(1.0))
    load = real(0.0)
    for k in range(table.kind.shape[0]):
        if table.group[k] > 0:
            first = k
            limit = real(wp.inf)
            along = vec3(real(1.0), real(1.0), real(1.0))
            load = real(0.0)
        if (table.traits[k] & BETWEEN) == 0:
            continue
        rows.R[w, k] = real(0.0)
        acts = not is_inactive(topology, table, plant, w, k)
        if (table.traits[k] & ONE_SIDED) != 0 and acts:
            acts = within_reach(
                phi[w, k], row_rate(rows, at_step.v0, w, k), row_rate(rows, at_step.v_star, w, k), rows.pull, at_step.h
            )
        if acts:
            weight = effective_weight(topology, at_step.M_factor, z, w, rows, k)
            row_weight = wp.max(weight, floor[w, k])
            if k == first and floor[w, k] > real(0.0):
                if table.comes[k] == 0 and table.lever[k] < real(wp.inf):
                    slow = held_speed(table, floor[w, k], real(0.0), at_step.h, k)
                    explained = wp.max(slow, drift_speed(table, rows, at_step.v0, at_step.h, w, k))
                    closing = closing_speed(
                        topology, table, constants, rows, at_step, z, phi, floor[w, k], explained, w, k
                    )  # fmt: skip
                    limit = closing[0]
                    along = vec3(closing[1], closing[2], closing[3])
                if limit < table.recovery[k]:
                    load = load_bound(table, plant, force, at_step.h, w, k)
            rows.speed[w, k] = table.recovery[k]
            if limit < table.recovery[k] and wp.abs(along[k - first]) > real(bilateral.ALONG):
                most = wp.max(limit, held_speed(table, row_weight, load, at_step.h, k))
                rows.speed[w, k] = wp.min(table.recovery[k], wp.pow(real(2.0), wp.ceil(wp.log2(most))))
            s = frame_state(table, constants, at_step.h, at_step.sigma, w, k)
            s.phi = phi[w, k]
            s.weight = row_weight
            s.speed = rows.speed[w, k]
            law = frame_law(table.kind[k], s)
            if not (weight <= real(0.0)):
                rows.weight[w, k] = weight
                keep_law(rows, law, w, k)
