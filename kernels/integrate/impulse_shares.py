# SPDX-License-Identifier: Apache-2.0
"""The impulses of a step with impacts: those of its solves in proportion to their part of the step (theory §2).

v' − v is the sum of the changes of velocity of the solves. An impact counts in full, the change D of a segment over h
by the part s of it that the step makes:

    v' − v = Σ s_i D_i + Σ (w⁺ − w⁻),   s = ½ + σ of the first segment, σ of those between impacts, r − ½ of the last,

and Σ s_i = 1. Each D is the sum of what the impulses of its solve do, so the impulses of a step are Σ s_i γ_i + Σ Γ.
"""

import warp as wp

from ..contact.pair_laws import Contacts
from ..real import func, kernel, mat33, real, struct, vec2, vec3
from ..rows.table import Rows
from ..solve.problem import Solution
from .impacts import Segments, ends_plainly

FLIGHT = wp.constant(0)  # a segment that an impact ends
IMPACT = wp.constant(1)
LAST = wp.constant(2)  # the segment that ends the step


@struct
class Sums:
    """Contact points of a step with impacts, and what acted at them. A contact is known by its pair and feature."""

    count: wp.array(dtype=int)  # (worlds,)
    pair: wp.array2d(dtype=int)  # (worlds, max_contacts)
    feature: wp.array2d(dtype=wp.vec3i)
    phi: wp.array2d(dtype=real)  # where the contact is first found
    point: wp.array2d(dtype=vec3)  # point, frame and μ of the solve with its largest impulse
    frame: wp.array2d(dtype=mat33)
    mu: wp.array2d(dtype=real)
    size: wp.array2d(dtype=real)  # that impulse
    impulse: wp.array2d(dtype=vec3)  # on B in world axes
    moment: wp.array2d(dtype=vec3)  # of spin rows, on B in world axes; no columns without
    length: wp.array2d(dtype=vec2)  # of spin rows
    row_gamma: wp.array2d(dtype=real)  # (worlds, rows)


@func
def share_of(segments: Segments, part: int, w: int) -> real:
    """The share of a solve in v' − v; of the last one that of what has impulses."""
    share = real(1.0)
    if part == FLIGHT:
        share = segments.sigma[w]
        if segments.impacts[w] == 0:
            share += real(0.5)
    elif part == LAST and segments.impacts[w] > 0 and segments.plain[w] == 0:
        share = real(0.5) - segments.time[w]
    return share


@func
def share_at(segments: Segments, part: int, w: int, i: int) -> real:
    """The share of a solve in v' − v, of dof i."""
    share = share_of(segments, part, w)
    if part == LAST and not ends_plainly(segments, w, i):
        share = real(0.5) - segments.time[w]
    return share


@func
def slot_of(sums: Sums, contacts: Contacts, capacity: int, w: int, c: int) -> int:
    """The slot of contact c; without room that of the nearest contact of its pair, or −1."""
    n = sums.count[w]
    p = contacts.pair[w, c]
    found = int(-1)
    idle = int(-1)
    near = int(-1)
    least = real(wp.inf)
    for k in range(n):
        if sums.pair[w, k] == p:
            if sums.feature[w, k] == contacts.feature[w, c]:
                found = k
            d = wp.length_sq(sums.point[w, k] - contacts.point[w, c])
            if d < least:
                least = d
                near = k
        if idle < 0 and sums.size[w, k] == real(0.0):
            idle = k
    if found < 0:
        if n < capacity:
            found = n
            sums.count[w] = n + 1
        else:
            found = idle
        if found >= 0:
            sums.pair[w, found] = p
            sums.feature[w, found] = contacts.feature[w, c]
            sums.phi[w, found] = contacts.phi[w, c]
            sums.size[w, found] = real(-1.0)
            sums.impulse[w, found] = vec3(real(0.0), real(0.0), real(0.0))
            if sums.moment.shape[1] > 0:
                sums.moment[w, found] = vec3(real(0.0), real(0.0), real(0.0))
        else:
            found = near
    return found


@kernel
def add_impulses(
    part: int,
    contacts: Contacts,
    solution: Solution,
    mu: wp.array2d(dtype=real),
    length: wp.array2d(dtype=vec2),
    rows: Rows,
    segments: Segments,
    # in and out
    sums: Sums,
):
    """Add the impulses of a solve. The first one of a step clears the sums. Launch over worlds."""
    w = wp.tid()
    capacity = contacts.pair.shape[1]
    begins = segments.impacts[w] == 0 and part != IMPACT
    share = share_of(segments, part, w)
    if begins:
        sums.count[w] = 0
    for k in range(rows.R.shape[1]):
        x = real(0.0)
        if rows.R[w, k] > real(0.0):
            x = share * solution.row_gamma[w, k]
        if not begins:
            x += sums.row_gamma[w, k]
        sums.row_gamma[w, k] = x
    for c in range(contacts.count[w]):
        f = contacts.frame[w, c] * (share * solution.gamma[w, c])
        size = wp.length(f)
        if begins or size > real(0.0):
            k = slot_of(sums, contacts, capacity, w, c)
            if k >= 0:
                if size > sums.size[w, k]:
                    sums.size[w, k] = size
                    sums.point[w, k] = contacts.point[w, c]
                    sums.frame[w, k] = contacts.frame[w, c]
                    sums.mu[w, k] = mu[w, c]
                sums.impulse[w, k] = sums.impulse[w, k] + f
                if sums.moment.shape[1] > 0:
                    scale = length[w, c]
                    about = solution.gamma[w, capacity + c]
                    turn = vec3(scale[0] * about[0], scale[0] * about[1], scale[1] * about[2])
                    sums.length[w, k] = scale
                    sums.moment[w, k] = sums.moment[w, k] + contacts.frame[w, c] * (share * turn)


@kernel
def give_impulses(
    sums: Sums,
    rows: Rows,
    # out
    contacts: Contacts,
    solution: Solution,
    mu: wp.array2d(dtype=real),
    length: wp.array2d(dtype=vec2),
):
    """The sums in place of the contacts and impulses of the last solve. Launch over worlds."""
    w = wp.tid()
    capacity = contacts.pair.shape[1]
    contacts.count[w] = sums.count[w]
    for k in range(rows.R.shape[1]):
        solution.row_gamma[w, k] = sums.row_gamma[w, k]
    for c in range(sums.count[w]):
        frame = sums.frame[w, c]
        contacts.pair[w, c] = sums.pair[w, c]
        contacts.feature[w, c] = sums.feature[w, c]
        contacts.phi[w, c] = sums.phi[w, c]
        contacts.point[w, c] = sums.point[w, c]
        contacts.frame[w, c] = frame
        mu[w, c] = sums.mu[w, c]
        solution.gamma[w, c] = wp.transpose(frame) * sums.impulse[w, c]
        if sums.moment.shape[1] > 0:
            scale = sums.length[w, c]
            turn = wp.transpose(frame) * sums.moment[w, c]
            rolls = real(0.0)
            twists = real(0.0)
            if scale[0] > real(0.0):
                rolls = real(1.0) / scale[0]
            if scale[1] > real(0.0):
                twists = real(1.0) / scale[1]
            length[w, c] = scale
            solution.gamma[w, capacity + c] = vec3(rolls * turn[0], rolls * turn[1], twists * turn[2])


@kernel
def add_measured(
    part: int,
    measured: wp.array2d(dtype=real),
    segments: Segments,
    # in and out
    total: wp.array2d(dtype=real),
):
    """Add what sensors measured in a solve. The first one of a step clears the sums. Launch over (worlds,
    numbers)."""
    w, i = wp.tid()
    x = share_of(segments, part, w) * measured[w, i]
    if segments.impacts[w] > 0 or part == IMPACT:
        x += total[w, i]
    total[w, i] = x


@kernel
def add_changes(
    part: int,
    solved: wp.array2d(dtype=real),
    segments: Segments,
    v: wp.array2d(dtype=real),
    # in and out
    v_end: wp.array2d(dtype=real),
):
    """Add to the velocity at the beginning of the step what the solution of a solve changes. v: before an impact.
    Launch over (worlds, nv)."""
    w, i = wp.tid()
    change = solved[w, i] - segments.v[w, i]
    if part == IMPACT:
        change = solved[w, i] - v[w, i]
    before = v_end[w, i]
    if segments.impacts[w] == 0 and part != IMPACT:
        before = segments.v0[w, i]
    v_end[w, i] = before + share_at(segments, part, w, i) * change
