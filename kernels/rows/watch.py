# SPDX-License-Identifier: Apache-2.0
"""What the impulses of rows between frames mean: inertia that the next step adds to light links, and constraints that let go.

**Added inertia.** The levers at which a row pulls turn with the bodies. Under the tension f = γ/h a link that is pulled at the lever r turns back as
on a spring of f·r [N m/rad], the row's geometric stiffness (Tournier, Nesme, Gilles, Faure 2015). A step knows the levers at its start only, so that this
spring is explicit: from h² f·r > 4 I on the link whirls, however well the solver solves, and the constraint lets go. Ten links of 10 g that carry 20 kg get there
at h = 2 ms. The next step therefore counts at least

    d = ½ h² Σ ½ (f·r + |f||r|)   of a joint that turns about three axes,   ½ h² Σ max(f·r, 0)   of a hinge where one end floats,      (10.10)
    and of a distance ℓ under the tension f besides  ½ h² 4 f |u|²/ℓ,  u the motion of its end across

as an armature of the degree of freedom (Andrews, Teichmann, Kry 2017). The trapezoidal rule would have half of d. It has inertia and no weight, and takes no
energy out: on a chain of length L it counts as h² g/(2 L) of what hangs there. Links that are heavy enough by themselves, d < M_dd/2, get none.

What is added is a power of two when it rises, and fades in 10 s: inertia that rose in each jerk, while links are fast, and fell after it would pump energy in. So it is also nearly
constant between the steps at which it rises, and a constant of the derivatives. The state remembers it (`memory["added_inertia"]`).

**Constraints that let go.** A near-rigid constraint is *open* when it is off by more than the speed limit closes in a step. It is *lost*, unless it is held
(`bilateral.py`), while it is open, opens further and bears no more than twice the weights and forces of its mechanism; while it is open, does not close and bears
less than a quarter of them; and while it gives way by 3 % of its lever under no more than twice them: what contradicts itself pulls harder. Angles, couplings and
mechanisms without weights and forces, which have nothing to compare with, are lost while they are open and open further. A world with a constraint that was lost for 0.04 s is
flagged NOT_HELD. The state remembers the times (`memory["lost_time"]`).
"""

import warp as wp

from ..flags import NONFINITE, NOT_HELD
from ..real import func, kernel, real, transform, vec3, vec6
from ..tree import spatial as sp
from ..tree.passes import Topology
from ..tree.plant import Plant
from . import bilateral
from .frame_rows import end_frame, load_bound, reference_link
from .frames import unit_axis
from .kinds.kind import ANGULAR, BETWEEN, ONE_SIDED
from .table import CONSTRAINT, Constants, Rows, Table, row_rate

SHARE = 0.5  # of h² f·r
COUPLED = 4.0  # motions that turn the axis of a distance at once: two bodies that shift and turn
LEAST_SHARE = 0.5  # of M_dd: less is not added
LITTLE = LEAST_SHARE / 16.0  # of M_dd: what has faded so far is forgotten
FADING = 10.0  # [s]
OPEN_SPEED = 5.0  # [m/s, rad/s] that would close an open constraint in one step
LOST_SPEED = 0.1  # [m/s, rad/s] of opening
LOST_LOAD = 0.25  # of the weights and forces of the mechanism
STRAIN = 0.03  # of the lever at which the row's axis turns, by which it may give way
OVERLOAD = 2.0  # of the same weights and forces: what contradicts itself pulls harder
LOST_TIME = 0.04  # [s]
OPEN = wp.constant(1)
LOST = wp.constant(2)


@kernel
def add_inertia(
    own: wp.array2d(dtype=real),
    added: wp.array2d(dtype=real),
    # out
    armature: wp.array2d(dtype=real),
):
    """The armature of a step. Launch over (worlds, nv)."""
    w, d = wp.tid()
    armature[w, d] = own[w % own.shape[0], d] + added[w, d]


@func
def dof_velocity(
    topology: Topology, link_X: wp.array2d(dtype=transform), dof_S: wp.array2d(dtype=vec6), point: vec3, w: int, d: int
) -> vec3:
    """Velocity of a point that dof d moves."""
    o = wp.transform_get_translation(link_X[w, reference_link(topology, d)])
    return sp.velocity_at(dof_S[w, d], point - o)


@func
def turns(dof_S: wp.array2d(dtype=vec6), w: int, d: int) -> bool:
    """Whether dof d turns its link."""
    return wp.length_sq(sp.angular(dof_S[w, d])) > real(0.0)


@func
def lever_of(
    topology: Topology, rows: Rows, link_X: wp.array2d(dtype=transform), dof_S: wp.array2d(dtype=vec6), point: vec3,
    w: int, k: int, j: int,
):  # fmt: skip
    """Lever of a point on dof j of a row, which turns its link: of a hinge from its axis, of ball and free joints from their centre; and how
    many axes the joint has."""
    lever = vec3(real(0.0), real(0.0), real(0.0))
    axes = int(0)
    l = topology.dof_link[rows.support[k, j]]
    for i in range(wp.max(j - 2, 0), wp.min(j + 3, rows.support_size[k])):
        d = rows.support[k, i]
        if topology.dof_link[d] == l and turns(dof_S, w, d):
            lever += wp.cross(dof_velocity(topology, link_X, dof_S, point, w, d), sp.angular(dof_S[w, d]))
            axes += 1
    return lever / real(wp.max(axes - 1, 1)), axes


@func
def impulse_of(table: Table, gamma: wp.array2d(dtype=real), w: int, k: int) -> real:
    """|γ| of the rows of a group."""
    square = real(0.0)
    for m in range(table.group[k]):
        square += gamma[w, k + m] * gamma[w, k + m]
    return wp.sqrt(square)


@func
def pull_of(table: Table, A: transform, apart: vec3, gamma: wp.array2d(dtype=real), w: int, k: int) -> vec3:
    """Impulse on body B of a group of rows of positions in frame A; `apart`: p_B − p_A."""
    pull = vec3(real(0.0), real(0.0), real(0.0))
    if table.radial[k] != 0:
        pull = table.side[k] * gamma[w, k] * wp.normalize(apart)
    else:
        for m in range(table.group[k]):
            axis = wp.quat_rotate(wp.transform_get_rotation(A), unit_axis(table.axis[k + m]))
            pull += gamma[w, k + m] * axis
    return pull


@func
def own_inertia(
    topology: Topology, inertia: wp.array2d(dtype=real), dof_S: wp.array2d(dtype=vec6), w: int, d: int
) -> real:
    """M_dd; the largest of the axes about which a joint turns."""
    found = inertia[w, d]
    if turns(dof_S, w, d):
        for e in range(wp.max(d - 2, 0), wp.min(d + 3, inertia.shape[1])):
            if topology.dof_link[e] == topology.dof_link[d] and turns(dof_S, w, e):
                found = wp.max(found, inertia[w, e])
    return found


@func
def level(need: real, own: real, before: real, h: real) -> real:
    """What is added where `need` is wanted: a power of two when it rises, then less from step to step."""
    kept = before * wp.max(real(1.0) - h / real(FADING), real(0.5))
    if not (kept >= real(LITTLE) * own):
        kept = real(0.0)
    found = kept
    if need > kept and need > real(LEAST_SHARE) * own and need < real(wp.inf):
        found = wp.pow(real(2.0), wp.ceil(wp.log2(need)))
    return found


@kernel
def steady(
    topology: Topology,
    table: Table,
    rows: Rows,
    h: real,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    gamma: wp.array2d(dtype=real),
    floor: wp.array2d(dtype=real),
    # scratch
    need: wp.array2d(dtype=real),
    # in and out
    inertia: wp.array2d(dtype=real),
    added: wp.array2d(dtype=real),
):
    """What the next step adds to its armature; `inertia`: M_dd, comes back without what this step added. Launch over worlds."""
    w = wp.tid()
    least = real(wp.inf)
    for d in range(added.shape[1]):
        inertia[w, d] = inertia[w, d] - added[w, d]
        need[w, d] = real(0.0)
        least = wp.min(least, inertia[w, d])
    # Of a lever r on a joint of inertia I, r²/I ≤ 9/2 floor: where the impulse is too small for any joint, there is nothing to look at.
    least = real(LEAST_SHARE / SHARE) * wp.sqrt(wp.max(least, real(0.0)) / real(4.5)) / h
    for k in range(table.kind.shape[0]):
        position = (table.traits[k] & BETWEEN) != 0 and (table.traits[k] & ANGULAR) == 0
        if (
            table.group[k] > 0
            and position
            and (table.radial[k] != 0 or impulse_of(table, gamma, w, k) * wp.sqrt(floor[w, k]) > least)
        ):
            A = end_frame(table, link_X, w, k, 0)
            point = wp.transform_get_translation(end_frame(table, link_X, w, k, 1))
            apart = point - wp.transform_get_translation(A)
            pull = pull_of(table, A, apart, gamma, w, k)
            size = wp.length(pull)
            if size > real(0.0):
                for j in range(rows.support_size[k]):
                    d = rows.support[k, j]
                    total = real(0.0)
                    if table.radial[k] != 0:
                        u = dof_velocity(topology, link_X, dof_S, point, w, d)
                        across = wp.length_sq(u) - wp.dot(u, pull) * wp.dot(u, pull) / (size * size)
                        total += real(COUPLED) * wp.max(-wp.dot(pull, apart), real(0.0)) / wp.length_sq(apart) * across
                    if turns(dof_S, w, d):
                        lever, axes = lever_of(topology, rows, link_X, dof_S, point, w, k, j)
                        along = table.a[k, j] * wp.dot(pull, lever)
                        if axes > 1:
                            total += real(0.5) * (along + size * wp.length(lever))
                        elif table.comes[k] != 0:
                            total += wp.max(along, real(0.0))
                    need[w, d] = need[w, d] + real(SHARE) * h * total
    for d in range(added.shape[1]):
        added[w, d] = level(need[w, d], own_inertia(topology, inertia, dof_S, w, d), added[w, d], h)


@func
def off_by(table: Table, rows: Rows, phi: wp.array2d(dtype=real), w: int, k: int) -> real:
    """φ of a row that acts; of a bound what is beyond it."""
    off = real(0.0)
    if rows.R[w, k] > real(0.0):
        off = phi[w, k]
        if (table.traits[k] & ONE_SIDED) != 0:
            off = wp.min(off, real(0.0))
    return off


@func
def look_at(
    table: Table, constants: Constants, rows: Rows, plant: Plant, force: wp.array2d(dtype=real), h: real, phi: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real), gamma: wp.array2d(dtype=real), w: int, k: int,
) -> int:  # fmt: skip
    """OPEN, LOST or neither: what the group of rows from k on is."""
    i = table.element[k]
    stiffness = constants.constraint_stiffness[w % constants.constraint_stiffness.shape[0], i, table.entry[k]]
    position = (table.traits[k] & BETWEEN) != 0 and (table.traits[k] & ANGULAR) == 0
    least = real(OPEN_SPEED) * h
    if position:
        least = wp.min(least, real(STRAIN) * table.lever[k])
    error = real(0.0)
    for m in range(table.group[k]):
        error += off_by(table, rows, phi, w, k + m) * off_by(table, rows, phi, w, k + m)
    error = wp.sqrt(error)
    found = int(0)
    if error > least and not (stiffness < real(wp.inf)):
        opening = real(0.0)
        held = bool(False)
        for m in range(table.group[k]):
            member = k + m
            opening += off_by(table, rows, phi, w, member) * row_rate(rows, v, w, member) / error
            if (table.traits[k] & BETWEEN) != 0:
                held = held or rows.speed[w, member] < table.recovery[member]
        share = real(0.0)  # of the load, which the rows have to bear more than
        if error > real(OPEN_SPEED) * h:
            found = int(OPEN)
            if opening > real(LOST_SPEED):
                share = real(OVERLOAD)
            elif opening > real(-LOST_SPEED):
                share = real(LOST_LOAD)
        elif opening > real(-0.5) * error / h:
            share = real(OVERLOAD)
        if share > real(0.0) and not held:
            load = share / real(bilateral.LOAD_SHARE) * load_bound(table, plant, force, h, w, k)
            bears = impulse_of(table, gamma, w, k)
            if not position or load == real(0.0):  # nothing to compare with
                bears = real(0.0)
                load = opening - real(LOST_SPEED)
            if bears < load:
                found = int(LOST)
    return found


@kernel
def find_lost(
    table: Table,
    constants: Constants,
    rows: Rows,
    plant: Plant,
    force: wp.array2d(dtype=real),
    h: real,
    phi: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    gamma: wp.array2d(dtype=real),
    # in and out
    lost_time: wp.array2d(dtype=real),
    flags: wp.array(dtype=int),
):
    """Flag worlds one of whose constraints has been lost for LOST_TIME. Launch over worlds."""
    w = wp.tid()
    for k in range(table.kind.shape[0]):
        if table.owner[k] == CONSTRAINT and table.group[k] > 0:
            found = look_at(table, constants, rows, plant, force, h, phi, v, gamma, w, k)
            time = lost_time[w, k]
            if found == LOST:
                time += h
            elif found != OPEN:
                time = wp.max(time - h, real(0.0))
            lost_time[w, k] = time
            if time > real(LOST_TIME) and (flags[w] & NONFINITE) == 0:
                flags[w] = flags[w] | NOT_HELD
