# SPDX-License-Identifier: Apache-2.0
"""What the impulses of rows between frames imply: inertia that the next step adds to light links, and constraints that
let go.

**Added inertia.** The levers at which a row pulls turn with the bodies. Under the tension f = γ/h a link pulled at the
lever r turns back as on a spring of f·r [N m/rad], the row's geometric stiffness (Tournier, Nesme, Gilles, Faure 2015).
A step knows the levers only at its beginning, so this spring is explicit. If h² f·r > 4 I, the link whirls however well
the solver solves, and the constraint lets go. Ten links of 10 g that carry 20 kg reach this at h = 2 ms. The next step
therefore adds at least

    d = ½ h² Σ ½ (f·r + |f||r|)   to a joint that turns about three axes,
    d = ½ h² Σ max(f·r, 0)        to a hinge if one end floats,                                                  (10.10)

and for a distance ℓ under the tension f also ½ h² 4 f |u|²/ℓ, where u is the motion of its end across the line.

d is added as armature of the degree of freedom (Andrews, Teichmann, Kry 2017). The trapezoidal rule would need half of
d. Added inertia has no weight and dissipates no energy. On a chain of length L it counts as h² g/(2 L) of the mass that
hangs there. Links that are heavy enough by themselves, d < M_dd/2, get none.

Added inertia rises to a power of two and then fades in 10 s. Inertia that rose in each jerk, while links are fast, and
fell after it would pump energy into the system. It is therefore nearly constant between the steps at which it rises,
and derivatives treat it as constant. The state stores it (`memory["added_inertia"]`).

**Constraints that let go.** A near-rigid constraint is *open* if its error is larger than OPEN_SPEED closes in one
step. Let its *load* be the weights and forces of its mechanism. A constraint that is not held (`bilateral.py`) is
*lost*

- while it is open, opens further and bears at most twice its load;
- while it is open, does not close and bears less than a quarter of its load;
- while it has given way by 3 % of its lever and bears at most twice its load: rows that contradict each other pull
  harder.

Angles, couplings and mechanisms without weights and forces have no load to compare with. They are lost while they are
open and open further. A world with a constraint that has been lost for 0.04 s raises the flag NOT_HELD. The state
stores the times (`memory["lost_time"]`).
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

SHARE = 0.5  # factor of h² f·r
COUPLED = 4.0  # factor for a distance: the shift and turn of both bodies turn its axis at once
LEAST_SHARE = 0.5  # share of M_dd: smaller amounts are not added
LITTLE = LEAST_SHARE / 16.0  # share of M_dd: faded amounts below it become 0
FADING = 10.0  # [s] in which added inertia fades
OPEN_SPEED = 5.0  # [m/s, rad/s] a constraint is open if this speed does not close it in one step
LOST_SPEED = 0.1  # [m/s, rad/s] of opening
LOST_LOAD = 0.25  # share of the weights and forces of the mechanism
STRAIN = 0.03  # share of the lever at which the row's axis turns: error at which a constraint has given way
OVERLOAD = 2.0  # factor of the weights and forces of the mechanism: rows that contradict each other pull harder
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
    """The armature of a step: the parameter plus the added inertia. Launch over (worlds, nv)."""
    w, d = wp.tid()
    armature[w, d] = own[w % own.shape[0], d] + added[w, d]


@func
def dof_velocity(
    topology: Topology, link_X: wp.array2d(dtype=transform), dof_S: wp.array2d(dtype=vec6), point: vec3, w: int, d: int
) -> vec3:
    """Velocity of a point per unit velocity of dof d."""
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
    """Lever of a point with respect to dof j of a row, which turns its link; and the number of axes of the joint.

    The lever of a hinge is from its axis, that of a ball or free joint from its center.
    """
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
    """|γ| of the group of rows that begins at row k."""
    square = real(0.0)
    for m in range(table.group[k]):
        square += gamma[w, k + m] * gamma[w, k + m]
    return wp.sqrt(square)


@func
def pull_of(table: Table, A: transform, apart: vec3, gamma: wp.array2d(dtype=real), w: int, k: int) -> vec3:
    """Impulse on body B of a group of position rows in frame A. `apart`: p_B − p_A."""
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
    """M_dd of dof d; for a joint with several axes of rotation the largest of them."""
    found = inertia[w, d]
    if turns(dof_S, w, d):
        for e in range(wp.max(d - 2, 0), wp.min(d + 3, inertia.shape[1])):
            if topology.dof_link[e] == topology.dof_link[d] and turns(dof_S, w, e):
                found = wp.max(found, inertia[w, e])
    return found


@func
def level(need: real, own: real, before: real, h: real) -> real:
    """The inertia to add, given the inertia that is needed: it rises to a power of two and then fades from step to
    step."""
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
    """The inertia that the next step adds. `inertia` is M_dd; on return, the inertia added in this step is subtracted.
    Launch over worlds."""
    w = wp.tid()
    least = real(wp.inf)
    for d in range(added.shape[1]):
        inertia[w, d] = inertia[w, d] - added[w, d]
        need[w, d] = real(0.0)
        least = wp.min(least, inertia[w, d])
    # A lever r on a joint of inertia I has r²/I ≤ 9/2 floor. An impulse below `least` is too small for any joint.
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
    """φ of a row that acts, otherwise 0; for a one-sided row only the part beyond the bound."""
    off = real(0.0)
    if rows.R[w, k] > real(0.0):
        off = phi[w, k]
        if (table.traits[k] & ONE_SIDED) != 0:
            off = wp.min(off, real(0.0))
    return off


@func
def look_at(
    table: Table, constants: Constants, rows: Rows, plant: Plant, force: wp.array2d(dtype=real), h: real,
    phi: wp.array2d(dtype=real), v: wp.array2d(dtype=real), gamma: wp.array2d(dtype=real), w: int, k: int,
) -> int:  # fmt: skip
    """OPEN, LOST or 0: the state of the constraint whose group of rows begins at row k."""
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
        share = real(0.0)  # LOST if the rows bear less than this share of the load
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
            if not position or load == real(0.0):  # no load to compare with: LOST if it opens fast enough
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
    """Raise NOT_HELD in worlds with a constraint that has been lost for LOST_TIME. Launch over worlds."""
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
