# SPDX-License-Identifier: Apache-2.0
"""The table of scalar rows: what the rows are, what a step computes for them, and their constants, which may differ per
world.

A row limits one rate v_c = J v by its error φ: γ = clamp(−(v_c − v̂)/R, lower, upper) (theory §10). The kind of a row
(`kinds/`) defines what it measures and its law. Its `owner`, a joint, tendon, constraint or actuator, provides its
constants.
"""

import warp as wp

from ..forces.actuators import Actuators, actuator_law
from ..real import func, real, struct, transform, vec2, vec3, vec4, vec6

JOINT = wp.constant(0)
TENDON = wp.constant(1)
CONSTRAINT = wp.constant(2)
ACTUATOR = wp.constant(3)


@struct
class Table:
    """What the rows are; shared by all worlds."""

    exact: int  # 1: a finite stiffness of a constraint has no near-rigid limit
    kind: wp.array(dtype=int)  # (n,)
    traits: wp.array(dtype=int)  # properties of the kind, see `kinds/kind.py`
    owner: wp.array(dtype=int)
    element: wp.array(dtype=int)  # the joint, degree of freedom, tendon, constraint or actuator
    # constraint: 0 for the stiffness along, 1 for that about an axis; actuator: 1 if on a tendon
    entry: wp.array(dtype=int)
    side: wp.array(dtype=real)  # stops: +1 lower, -1 upper
    axis: wp.array(dtype=int)  # rows between frames
    link: wp.array2d(dtype=int)  # (n, 2) links A and B, -1 is the world
    frame: wp.array2d(dtype=transform)  # (n, 2) frame poses in the links
    # (n, width) per dof of the support: +1 moves B, -1 moves A; on coordinates a_j of x = Σ a_j q_j
    a: wp.array2d(dtype=real)
    b: wp.array2d(dtype=real)  # (n, width) b_j of y = Σ b_j q_j
    q: wp.array2d(dtype=int)  # (n, width) coordinate of each dof
    turn: wp.array(dtype=int)  # first entry of the quaternion whose angle is x; -1: x is the sum
    leads: wp.array(dtype=int)  # 1: the error is taken where the velocity leads
    reference: wp.array(dtype=vec2)  # coupling: x_0, y_0; spring: slack interval
    recovery: wp.array(dtype=real)  # [m/s, rad/s] recovery speed of near-rigid rows
    lever: wp.array(dtype=real)  # [m, rad]; infinite if the row's axis does not turn
    radial: wp.array(dtype=int)  # 1: the axis turns with the ends
    comes: wp.array(dtype=int)  # 1: a free body may move to meet it
    part: wp.array(dtype=int)  # mechanism of the row: the trees that rows of the table connect
    body_part: wp.array(dtype=int)  # (nbody,) mechanism of each body; -1 if it stands still
    dof_part: wp.array(dtype=int)  # (nv,)
    # number of rows from this one on that measure one vector; 0: the row belongs to an earlier group
    group: wp.array(dtype=int)


@struct
class Rows:
    """What a step computes for its rows."""

    pull: real  # [m/s, rad/s] rate that constraints may give to what meets a stop within a step
    support: wp.array2d(dtype=int)  # (rows, width) dofs that move the row, ascending
    support_size: wp.array(dtype=int)  # (rows,)
    J: wp.array3d(dtype=real)  # (worlds, rows, width); columns: the support
    R: wp.array2d(dtype=real)  # <= 0: the row does not act
    weight: wp.array2d(dtype=real)  # inverse effective mass of active rows
    v_hat: wp.array2d(dtype=real)
    lower: wp.array2d(dtype=real)
    upper: wp.array2d(dtype=real)
    speed: wp.array2d(dtype=real)  # largest speed at which rows between frames close
    touch: wp.array2d(dtype=int)  # 1: v̂ = 0, in an impact and where stops touch after it; no columns without impacts


@struct
class Instant:
    """The step of length h whose rows are filled."""

    h: real
    sigma: real
    ahead: real  # errors are φ(q ⊕ ahead v0) − lead J v0
    lead: real
    q: wp.array2d(dtype=real)
    q_between: wp.array2d(dtype=real)  # where Jacobians are evaluated; empty: at q
    v0: wp.array2d(dtype=real)
    v_star: wp.array2d(dtype=real)
    M_factor: wp.array3d(dtype=real)


@struct
class Constants:
    """Parameters that laws read, with one row for all worlds or one per world; and the actuators with their
    controls."""

    joint_range: wp.array3d(dtype=real)
    joint_friction: wp.array2d(dtype=real)
    tendon_range: wp.array3d(dtype=real)
    tendon_stiffness: wp.array2d(dtype=real)
    tendon_damping: wp.array2d(dtype=real)
    tendon_friction: wp.array2d(dtype=real)
    constraint_stiffness: wp.array3d(dtype=real)
    constraint_dissipation_time: wp.array2d(dtype=real)
    constraint_coefficients: wp.array3d(dtype=real)
    actuators: Actuators


@struct
class Frames:
    """The two frames that a row compares, in the world, and its constants: axis in A, side, and length or pitch."""

    A: transform
    B: transform
    e: int
    side: real
    c: real


@struct
class FrameMotion:
    """The frames of a row, and a motion that its axis is multiplied with."""

    X: Frames
    motion: vec6


@struct
class RowGeometry:
    """φ and the axis a in world axes: φ̇ = a · (angular, linear) motion of B relative to A at B's origin."""

    phi: real
    axis: vec6


@struct
class Coordinates:
    """x = Σ a_j q_j, or the angle of a ball joint; y = Σ b_j q_j; and constants of the row."""

    bound: real  # of a stop, as is side
    side: real
    x_0: real  # of a coupling, as are the next three
    y_0: real
    c_0: real
    c: vec4  # c_1 to c_4
    x: real
    y: real
    axis: vec3  # rotation axis of a ball joint; x, as in MuJoCo, if the angle is 0


@struct
class RowState:
    """What a law reads: the row's state and its constants."""

    exact: int  # as in `Table`
    c: real  # compliance 1/k, 0 is near-rigid
    tau_d: real  # NaN: the default
    e: real  # dry friction
    K: real  # of a spring, as are the next two
    D: real
    slack: vec2
    gains: vec3  # of an actuator, as are the next three
    low: real
    high: real
    on_tendon: int
    touch: int  # 1: v̂ = 0
    phi: real
    rate: real  # J v; laws do not depend on it
    rate0: real  # J v0
    weight: real  # w, with its floor
    speed: real  # largest speed at which the row closes
    lever: real  # as in `Table`
    h: real
    sigma: real


@func
def coefficient(table: Table, constants: Constants, n: int, w: int, k: int) -> real:
    """Coefficient n of a constraint."""
    return constants.constraint_coefficients[w % constants.constraint_coefficients.shape[0], table.element[k], n]


@func
def constant_of(table: Table, constants: Constants, w: int, k: int) -> real:
    """The constant of row k: the bound of a stop, or the length or pitch of a constraint."""
    i = table.element[k]
    end = int(0)
    if table.side[k] < real(0.0):
        end = 1
    if table.owner[k] == JOINT:
        return constants.joint_range[w % constants.joint_range.shape[0], i, end]
    if table.owner[k] == TENDON:
        return constants.tendon_range[w % constants.tendon_range.shape[0], i, end]
    return coefficient(table, constants, end, w, k)


@func
def x_itself(at: Coordinates) -> vec4:
    """Measure of rows whose φ is x: (φ, ∂φ/∂x, ∂φ/∂y, ∂²φ/∂y²)."""
    return vec4(at.x, real(1.0), real(0.0), real(0.0))


@func
def joint_state(table: Table, constants: Constants, h: real, sigma: real, w: int, k: int) -> RowState:
    """The row state with the constants of a joint's rows."""
    s = RowState()
    s.h = h
    s.sigma = sigma
    s.speed = table.recovery[k]
    s.lever = table.lever[k]
    s.tau_d = real(wp.nan)
    d = table.element[k]  # the dof of a friction row
    if table.owner[k] == JOINT and d < constants.joint_friction.shape[1]:
        s.e = constants.joint_friction[w % constants.joint_friction.shape[0], d]
    return s


@func
def frame_state(table: Table, constants: Constants, h: real, sigma: real, w: int, k: int) -> RowState:
    """The row state with the constants of rows between frames and of couplings."""
    s = RowState()
    s.h = h
    s.sigma = sigma
    s.speed = table.recovery[k]
    s.lever = table.lever[k]
    s.exact = table.exact
    i = table.element[k]
    c = constants.constraint_stiffness[w % constants.constraint_stiffness.shape[0], i, table.entry[k]]
    s.c = real(1.0) / c
    s.tau_d = constants.constraint_dissipation_time[w % constants.constraint_dissipation_time.shape[0], i]
    return s


@func
def row_state(table: Table, constants: Constants, h: real, sigma: real, w: int, k: int) -> RowState:
    """The row state with the constants of any row."""
    i = table.element[k]
    if table.owner[k] == CONSTRAINT:
        return frame_state(table, constants, h, sigma, w, k)
    s = joint_state(table, constants, h, sigma, w, k)
    if table.owner[k] == TENDON:
        s.e = constants.tendon_friction[w % constants.tendon_friction.shape[0], i]
        s.K = constants.tendon_stiffness[w % constants.tendon_stiffness.shape[0], i]
        s.D = constants.tendon_damping[w % constants.tendon_damping.shape[0], i]
        s.slack = table.reference[k]
    elif table.owner[k] == ACTUATOR:
        s.gains = actuator_law(constants.actuators, w, i)
        s.low = constants.actuators.force_range[w % constants.actuators.force_range.shape[0], i, 0]
        s.high = constants.actuators.force_range[w % constants.actuators.force_range.shape[0], i, 1]
        s.on_tendon = table.entry[k]
    return s


@func
def combination(
    a: wp.array2d(dtype=real),
    table: Table,
    rows: Rows,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    t: real,
    w: int,
    k: int,
) -> real:
    """Σ_j a[k, j] (q + t v)_j over the support of row k."""
    total = real(0.0)
    for j in range(rows.support_size[k]):
        total += a[k, j] * (q[w, table.q[k, j]] + t * v[w, rows.support[k, j]])
    return total


@func
def row_rate(rows: Rows, v: wp.array2d(dtype=real), w: int, k: int) -> real:
    """J v of row k."""
    rate = real(0.0)
    for j in range(rows.support_size[k]):
        rate += rows.J[w, k, j] * v[w, rows.support[k, j]]
    return rate


@func
def keep_law(rows: Rows, law: vec4, w: int, k: int):
    """Store (R, v̂, lower, upper) of a row that acts."""
    rows.R[w, k] = law[0]
    rows.v_hat[w, k] = law[1]
    rows.lower[w, k] = law[2]
    rows.upper[w, k] = law[3]
