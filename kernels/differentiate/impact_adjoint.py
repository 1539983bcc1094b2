# SPDX-License-Identifier: Apache-2.0
"""The backward pass of a step with impacts: between the adjoints of its solves (theory §2, `impacts.py`).

An impact is at the root σ of the gap φ of the contact that closes. By the implicit function theorem the gradient σ̄ of
σ is that of φ at the impact: φ̄ = −σ̄/φ̇, with φ̇ the rate of the gap along the path. φ̇ is h J_n w⁻ where no body
turns about changing axes, else that of the velocity at which the path turns (`path_velocity`).
"""

import warp as wp

from ..contact.contacts import normal_speed
from ..integrate.impacts import Known, Segments, ends_plainly
from ..integrate.spin import is_spinning
from ..laws.contact_law import STRUCK
from ..real import func, kernel, real, struct, vec3
from ..rows.table import row_rate
from ..tree import joints
from ..tree.passes import Topology


@struct
class Bars:
    """Gradients of a world with impacts. q and v: of the state where the segment begins that is being reversed."""

    q: wp.array2d(dtype=real)
    v: wp.array2d(dtype=real)
    time: wp.array(dtype=real)  # (worlds,) of σ by the length of the last segment
    before: wp.array2d(dtype=real)  # of the velocity at the end of a path
    rate: wp.array2d(dtype=real)  # scratch: joint velocity of the path at an impact
    # of the path that is being reversed: velocity where its segment begins, length, and the gradient of the length
    start: wp.array2d(dtype=real)
    length: wp.array(dtype=real)
    by_length: wp.array(dtype=real)


@kernel
def list_impacts(segments: Segments, least: int, state: wp.array(dtype=int)):
    """state = 1 in worlds with more than `least` impacts. Launch over worlds."""
    w = wp.tid()
    state[w] = wp.where(segments.impacts[w] > least, 1, 0)


@kernel
def begin_end(
    segments: Segments,
    q_next_bar: wp.array2d(dtype=real),
    v_next_bar: wp.array2d(dtype=real),
    # out
    bars: Bars,
    q: wp.array2d(dtype=real),
    way: wp.array2d(dtype=real),
    q_end_bar: wp.array2d(dtype=real),
):
    """The last path: q' = q ⊕ h way, way = r v + ½ r² D; r (v + D) where it ends plainly. Launch over worlds."""
    w = wp.tid()
    r = real(1.0) - segments.time[w]
    for i in range(q.shape[1]):
        q[w, i] = segments.q[w, i]
        q_end_bar[w, i] = q_next_bar[w, i]
    bars.length[w] = r
    for i in range(way.shape[1]):
        share = real(0.5) * r * r
        if ends_plainly(segments, w, i):
            share = r
        way[w, i] = r * segments.v[w, i] + share * segments.change[w, i]
        bars.start[w, i] = segments.v[w, i]
        bars.before[w, i] = v_next_bar[w, i]


@kernel
def reverse_end(
    segments: Segments,
    v_next_bar: wp.array2d(dtype=real),
    q_bar: wp.array2d(dtype=real),
    way_bar: wp.array2d(dtype=real),
    # out
    bars: Bars,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    solution: wp.array2d(dtype=real),
    solution_bar: wp.array2d(dtype=real),
):
    """From the gradients of (q', v') to those of the last solution and of where its segment begins. Launch over
    worlds."""
    w = wp.tid()
    r = real(1.0) - segments.time[w]
    by_r = bars.by_length[w]
    for i in range(v.shape[1]):
        D = segments.change[w, i]
        share = real(0.5) * r * r
        rest = r - real(0.5)
        slope = r
        by_rest = real(1.0)
        if ends_plainly(segments, w, i):
            share = r
            rest = real(1.0)
            slope = real(1.0)
            by_rest = real(0.0)
        D_bar = share * way_bar[w, i] + rest * v_next_bar[w, i]
        bars.v[w, i] = r * way_bar[w, i] + v_next_bar[w, i] - D_bar
        by_r += way_bar[w, i] * (segments.v[w, i] + slope * D) + by_rest * v_next_bar[w, i] * D
        v[w, i] = segments.v[w, i]
        solution[w, i] = segments.v[w, i] + D
        solution_bar[w, i] = D_bar
    for i in range(q.shape[1]):
        bars.q[w, i] = q_bar[w, i]
        q[w, i] = segments.q[w, i]
    bars.time[w] = -by_r


@kernel
def add_bars(q_bar: wp.array2d(dtype=real), v_bar: wp.array2d(dtype=real), bars: Bars):
    """Add the gradients of a solve's state. Launch over worlds."""
    w = wp.tid()
    for i in range(q_bar.shape[1]):
        bars.q[w, i] = bars.q[w, i] + q_bar[w, i]
    for i in range(v_bar.shape[1]):
        bars.v[w, i] = bars.v[w, i] + v_bar[w, i]


@kernel
def begin_impact(
    segments: Segments,
    i: int,
    bars: Bars,
    # out
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    solution: wp.array2d(dtype=real),
    solution_bar: wp.array2d(dtype=real),
):
    """The state of impact i, its solution, and the gradient of that. Launch over worlds."""
    w = wp.tid()
    last = i + 1 == segments.impacts[w]
    for j in range(q.shape[1]):
        x = segments.q[w, j]
        if not last:
            x = segments.trace.q[w, i + 1, j]
        q[w, j] = x
    for j in range(v.shape[1]):
        x = segments.v[w, j]
        if not last:
            x = segments.trace.v[w, i + 1, j]
        v[w, j] = segments.trace.before[w, i, j]
        solution[w, j] = x
        solution_bar[w, j] = bars.v[w, j]


@kernel
def begin_path(
    segments: Segments,
    i: int,
    q_bar: wp.array2d(dtype=real),
    v_bar: wp.array2d(dtype=real),
    # in and out
    bars: Bars,
    # out
    q: wp.array2d(dtype=real),
    way: wp.array2d(dtype=real),
    q_end_bar: wp.array2d(dtype=real),
):
    """The path to impact i. `q_bar`, `v_bar`: of the impact's state, by its solve. Launch over worlds."""
    w = wp.tid()
    half = wp.where(i == 0, real(0.5), real(0.0))
    sigma = segments.trace.sigma[w, i]
    for j in range(q.shape[1]):
        bars.q[w, j] = bars.q[w, j] + q_bar[w, j]
        q[w, j] = segments.trace.q[w, i, j]
        q_end_bar[w, j] = bars.q[w, j]
    bars.length[w] = sigma
    for j in range(way.shape[1]):
        bars.before[w, j] = v_bar[w, j]
        bars.start[w, j] = segments.trace.v[w, i, j]
        D = segments.trace.change[w, i, j]
        way[w, j] = sigma * (segments.trace.v[w, i, j] + (half + real(0.5) * sigma) * D)


@func
def path_velocity(
    topology: Topology, h: real, spins: int, way: wp.array2d(dtype=real), start: wp.array2d(dtype=real), w: int,
    rate: wp.array2d(dtype=real),
):  # fmt: skip
    """From the change of way by σ to the joint velocity of q ⊕ h way(σ) by h σ: for rotations dexp(h way) times it.

    `spins` 1: but for bodies that spin at the velocity `start` (`spin_slopes.turn_rate`).
    """
    for l in range(topology.link_type.shape[0]):
        kind = topology.link_type[l]
        turning = kind == joints.FREE or kind == joints.BALL
        if turning and spins == 1:
            turning = not is_spinning(topology, h, start, w, l)
        if turning:
            j = topology.link_v[l] + joints.dofs(kind) - 3
            turn = h * vec3(way[w, j], way[w, j + 1], way[w, j + 2])
            u = joints.rotation_dexp(turn) * vec3(rate[w, j], rate[w, j + 1], rate[w, j + 2])
            for i in range(3):
                rate[w, j + i] = u[i]


@kernel
def path_rate(
    topology: Topology,
    h: real,
    segments: Segments,
    i: int,
    spins: int,
    way: wp.array2d(dtype=real),
    way_bar: wp.array2d(dtype=real),
    # in and out
    bars: Bars,
):
    """The gradient of the length of the path to impact i, and the velocity at its end. Launch over worlds."""
    w = wp.tid()
    half = wp.where(i == 0, real(0.5), real(0.0))
    sigma = segments.trace.sigma[w, i]
    by_length = bars.by_length[w]
    for j in range(way.shape[1]):
        D = segments.trace.change[w, i, j]
        rate = segments.trace.v[w, i, j] + (half + sigma) * D
        by_length += way_bar[w, j] * rate + bars.before[w, j] * D
        bars.rate[w, j] = rate
    bars.by_length[w] = by_length
    path_velocity(topology, h, spins, way, bars.start, w, bars.rate)


@kernel
def seed_gap(
    h: real,
    segments: Segments,
    i: int,
    known: Known,
    v: wp.array2d(dtype=real),
    bars: Bars,
    # out
    phi_bar: wp.array2d(dtype=real),
    row_phi_bar: wp.array2d(dtype=real),
):
    """φ̄ = −σ̄/φ̇ of the contact or stop that closes at impact i; v: before the impact. Launch over worlds."""
    w = wp.tid()
    contacts = known.contacts
    by_sigma = bars.time[w] + bars.by_length[w]
    closing = segments.trace.pair[w, i]
    if closing < 0:
        k = -1 - closing
        rate = h * row_rate(known.rows, bars.rate, w, k)
        if rate < real(0.0):
            row_phi_bar[w, k] = -by_sigma / rate
    else:
        found = int(-1)
        fastest = real(0.0)
        for c in range(contacts.count[w]):
            if contacts.pair[w, c] == closing and contacts.touch[w, c] == STRUCK:
                u = normal_speed(known.scene, contacts, w, c, v[w])
                if contacts.feature[w, c] == segments.trace.feature[w, i]:
                    u = u - real(1e6)
                if u < fastest:
                    fastest = u
                    found = c
        if found >= 0:
            rate = h * normal_speed(known.scene, contacts, w, found, bars.rate[w])
            if rate < real(0.0):
                phi_bar[w, found] = -by_sigma / rate


@kernel
def add_gap(q_bar: wp.array2d(dtype=real), bars: Bars, q_end_bar: wp.array2d(dtype=real)):
    """The gradient of the configuration at an impact, that by the gap included. Launch over worlds."""
    w = wp.tid()
    for j in range(q_bar.shape[1]):
        q_end_bar[w, j] = bars.q[w, j] + q_bar[w, j]


@kernel
def reverse_path(
    segments: Segments,
    i: int,
    q_bar: wp.array2d(dtype=real),
    way_bar: wp.array2d(dtype=real),
    # out
    bars: Bars,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    solution: wp.array2d(dtype=real),
    solution_bar: wp.array2d(dtype=real),
):
    """From the gradients of the end of the path to impact i to those of its solution and of its beginning. Launch over
    worlds."""
    w = wp.tid()
    half = wp.where(i == 0, real(0.5), real(0.0))
    sigma = segments.trace.sigma[w, i]
    for j in range(q.shape[1]):
        bars.q[w, j] = q_bar[w, j]
        q[w, j] = segments.trace.q[w, i, j]
    for j in range(v.shape[1]):
        base_bar = sigma * way_bar[w, j] + bars.before[w, j]
        D_bar = real(0.5) * sigma * sigma * way_bar[w, j] + sigma * bars.before[w, j] + half * base_bar
        bars.v[w, j] = base_bar - D_bar
        v[w, j] = segments.trace.v[w, i, j]
        solution[w, j] = segments.trace.v[w, i, j] + segments.trace.change[w, i, j]
        solution_bar[w, j] = D_bar


@kernel
def give_bars(bars: Bars, q_bar: wp.array2d(dtype=real), v_bar: wp.array2d(dtype=real)):
    """The gradients of the state at the beginning of the step. Launch over worlds."""
    w = wp.tid()
    for i in range(q_bar.shape[1]):
        q_bar[w, i] = bars.q[w, i]
    for i in range(v_bar.shape[1]):
        v_bar[w, i] = bars.v[w, i]
