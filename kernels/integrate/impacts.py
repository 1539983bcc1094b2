# SPDX-License-Identifier: Apache-2.0
"""Impacts inside a step: fast contacts and stops act from the time of their impact on (theory §2, docs/impacts.md).

A contact or stop is fast if it is rigid, open and approaches at more than `Rule.speed`. A step of symplectic Euler is a
leapfrog step read half a step early: the velocity that belongs to q is v + ½ D, with D the change of v over h. In a
world where a fast contact closes within the step, the step is taken in segments

    solve without the fast contacts → D,   path q(σ) = q_b ⊕ h (σ w + ½ σ² D),   velocity w + σ D
    σ: the first root of the gap of a fast contact along the path
    impact at q(σ): M (w⁺ − w⁻) = Jᵀ Γ over the contacts with φ ≤ g h², v_n ≥ 0 or −e J_n w⁻
    solve from (q(σ), w⁺) over h → the D of the next segment

until no fast contact closes in the rest of the step. A segment begins at (q_b, v_b); w = v_b + ½ D in the first one,
else v_b. The last segment begins at the time t and has r = 1 − t:

    q' = q_b ⊕ h (r v_b + ½ r² D),   v' = v_b + (r − ½) D.
"""

import warp as wp

from ..contact.contacts import geom_pose_world, normal_speed, point_velocity
from ..contact.convex_contacts import ConvexScene, geom_shape
from ..contact.narrow import features, heightfield
from ..contact.narrow.features import ContactGeometry
from ..contact.narrow.manifold import is_general
from ..contact.narrow.resolution import SUSPECT
from ..contact.pair_laws import Contacts, Laws, Loads, Scene, margin_of
from ..laws.contact_law import AWAY, CLOSED, FREE, STRUCK, yield_of
from ..linalg.lanes import lane, lanes, team_before, team_bits, team_count
from ..real import func, kernel, real, struct, transform, vec3, vec6
from ..rows import kinds
from ..rows.coordinate_rows import coordinates_at
from ..rows.dispatch import measure
from ..rows.kinds.kind import ELSEWHERE, ONE_SIDED
from ..rows.table import CONSTRAINT, Constants, Rows, Table, row_rate
from ..solve.problem import Solution
from ..tree import joints
from ..tree.passes import Topology
from ..tree.plant import Plant

RESTS = wp.constant(0)  # the step has no impact
FLIES = wp.constant(1)  # a fast contact may still close
ENDS = wp.constant(2)  # the last segment is found
STILL = 1e-4  # [m/s, rad/s] speed of every dof up to which paths do not bend: κ of such speeds is below `Rule.least`
TOUCHING = 1e-9  # [m] gap above which a contact counts as open
LEAVES = wp.constant(1)  # fast contacts and stops do not act
CLOSES = wp.constant(2)  # what touches after an impact does not approach
STRIKES = wp.constant(4)  # an impact
FORCES = wp.constant((1 << kinds.code("friction")) | (1 << kinds.code("spring")) | (1 << kinds.code("servo")))


@struct
class Rule:
    """Options of the rule: speed of approach [m/s] above which a contact is fast, and gap [m] below which contacts are
    hit together."""

    speed: real
    window: real
    least: real  # [m/s] smallest hκ that counts
    half: real  # [s] half a step


@struct
class Trace:
    """Where the impacts of a step were, for a backward pass; impact i has the i-th part of every row. No columns in
    other steps."""

    q: wp.array3d(dtype=real)  # (worlds, impacts, nq) where the segment before the impact begins
    v: wp.array3d(dtype=real)  # (worlds, impacts, nv)
    change: wp.array3d(dtype=real)  # its D
    before: wp.array3d(dtype=real)  # velocity before the impact
    sigma: wp.array2d(dtype=real)
    pair: wp.array2d(dtype=int)  # of the contact that closes, or −1 − row of a stop
    feature: wp.array2d(dtype=wp.vec3i)


@struct
class Segments:
    """Where each world is in its step."""

    state: wp.array(dtype=int)  # (worlds,) RESTS, FLIES or ENDS
    impacts: wp.array(dtype=int)  # (worlds,) impacts so far
    time: wp.array(dtype=real)  # (worlds,) part of the step that is done
    sigma: wp.array(dtype=real)  # (worlds,) time of the next impact, from the beginning of the segment
    q0: wp.array2d(dtype=real)  # state at the beginning of the step
    v0: wp.array2d(dtype=real)
    q: wp.array2d(dtype=real)  # at the beginning of the segment
    v: wp.array2d(dtype=real)
    change: wp.array2d(dtype=real)  # D
    base: wp.array2d(dtype=real)  # velocity of the path at σ = 0
    way: wp.array2d(dtype=real)  # scratch: displacement/h
    plain: wp.array(dtype=int)  # (worlds,) 1: a fast contact acts in the solve that ends the step
    bound: wp.array2d(dtype=int)  # (worlds, nv) 1: then, of trees that have an impulse in it
    fast: wp.array2d(dtype=int)  # (worlds, max_contacts) 1: a fast contact; 2: one that acts
    gap: wp.array2d(dtype=real)  # (worlds, max_contacts) [m] on the path, with its rate
    rate: wp.array2d(dtype=real)
    row_fast: wp.array2d(dtype=int)  # (worlds, rows) 1: a fast stop; 2: one that acts
    touching: wp.array(dtype=int)  # (worlds,) 1: something moves, and some contact may follow the bend of its path
    mode: wp.array(dtype=int)  # (worlds,) of the solve that ends the step: LEAVES, CLOSES
    rebounds: wp.array(dtype=int)  # (worlds,) 1: some contact of an impact rebounds
    trace: Trace
    # of the solves so far: largest certificate and error, iterations, status
    error: wp.array(dtype=real)
    lag: wp.array(dtype=real)
    iterations: wp.array(dtype=int)
    status: wp.array(dtype=int)
    flags: wp.array(dtype=int)  # of the contact points of all its problems


@func
def keep_impact(segments: Segments, contacts: Contacts, sigma: real, closing: int, w: int):
    """Write an impact to the trace. `closing`: the contact, or −1 − row."""
    i = segments.impacts[w]
    if i < segments.trace.sigma.shape[1]:
        for j in range(segments.q.shape[1]):
            segments.trace.q[w, i, j] = segments.q[w, j]
        for j in range(segments.v.shape[1]):
            segments.trace.v[w, i, j] = segments.v[w, j]
            segments.trace.change[w, i, j] = segments.change[w, j]
        segments.trace.sigma[w, i] = sigma
        segments.trace.pair[w, i] = closing
        if closing >= 0:
            segments.trace.pair[w, i] = contacts.pair[w, closing]
            segments.trace.feature[w, i] = contacts.feature[w, closing]


@func
def is_rigid(scene: Scene, stiffness: wp.array2d(dtype=real), w: int, p: int) -> bool:
    """Whether pair p is near-rigid point contact."""
    rigid = bool(False)
    if p < scene.point_pairs:
        row = w % stiffness.shape[0]
        k = wp.min(stiffness[row, scene.pair_geom[p, 0]], stiffness[row, scene.pair_geom[p, 1]])
        rigid = k == real(wp.inf)
    return rigid


@func
def is_fast(
    rule: Rule, scene: Scene, stiffness: wp.array2d(dtype=real), contacts: Contacts, v: wp.array1d(dtype=real), w: int,
    c: int,
) -> bool:  # fmt: skip
    """Whether contact c is rigid and open, and approaches fast at v."""
    fast = bool(False)
    if contacts.phi[w, c] > real(TOUCHING) and is_rigid(scene, stiffness, w, contacts.pair[w, c]):
        fast = normal_speed(scene, contacts, w, c, v) < -rule.speed
    return fast


@func
def is_fast_stop(
    rule: Rule, table: Table, rows: Rows, phi: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int, k: int
) -> bool:  # fmt: skip
    """Whether row k is an open stop on coordinates that closes fast at v."""
    fast = bool(False)
    if (table.traits[k] & ONE_SIDED) != 0 and (table.traits[k] & ELSEWHERE) == 0 and rows.R[w, k] > real(0.0):
        fast = phi[w, k] > real(TOUCHING) and row_rate(rows, v, w, k) < -rule.speed
    return fast


@kernel(part="list", lanes=True)
def list_worlds(state: wp.array(dtype=int), wanted: int, first: int, count: int, chosen: wp.array(dtype=int)):
    """List the worlds from `first` on, `count` of them, whose state is `wanted`. Launch over (1, lanes)."""
    _one, _lane = wp.tid()
    n = int(0)
    for begin in range(0, count, lanes()):
        i = begin + lane()
        hit = int(0)
        if i < count:
            if state[first + i] == wanted:
                hit = int(1)
        before = team_before(hit)
        if hit == 1:
            chosen[1 + n + before] = first + i
        n += team_count(hit)
    chosen[0] = n


@func
def first_root(phi: real, a: real, b: real, left: real) -> real:
    """The smallest σ in [0, left] with φ + a σ + b σ² = 0; −1 if there is none."""
    found = real(-1.0)
    d = a * a - real(4.0) * b * phi
    if d >= real(0.0):
        below = wp.sqrt(d) - a
        if below > real(0.0):
            s = real(2.0) * phi / below
            if s >= real(0.0) and s <= left:
                found = s
    return found


@func
def go(topology: Topology, h: real, w: int, sigma: real, segments: Segments, q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real)):  # fmt: skip
    """(q, v) of the path at σ."""
    for i in range(v.shape[1]):
        D = segments.change[w, i]
        segments.way[w, i] = sigma * (segments.base[w, i] + real(0.5) * sigma * D)
        v[w, i] = segments.base[w, i] + sigma * D
    for l in range(topology.link_type.shape[0]):
        joints.advance(topology.link_type[l], segments.q, segments.way, h, w, topology.link_q[l], topology.link_v[l], q)


@struct
class Known:
    """The contact problem that a segment begins with."""

    scene: Scene
    contacts: Contacts
    table: Table
    rows: Rows
    phi: wp.array2d(dtype=real)  # errors of the rows


@func
def to_next(
    topology: Topology, h: real, w: int, known: Known, solution: Solution, segments: Segments,
    q: wp.array2d(dtype=real), v: wp.array2d(dtype=real),
) -> bool:  # fmt: skip
    """D of the solution without the fast contacts and stops, and the first root of their gaps on the parabola.

    (q, v) move there. False if there is none in the rest of the step.
    """
    half = real(0.0)
    if segments.impacts[w] == 0:
        half = real(0.5)
    for i in range(v.shape[1]):
        D = solution.v[w, i] - segments.v[w, i]
        segments.change[w, i] = D
        segments.base[w, i] = segments.v[w, i] + half * D
    left = real(1.0) - segments.time[w]
    sigma = real(2.0)
    for c in range(known.contacts.count[w]):
        if segments.fast[w, c] == 1:
            a = h * normal_speed(known.scene, known.contacts, w, c, segments.base[w])
            b = real(0.5) * h * normal_speed(known.scene, known.contacts, w, c, segments.change[w])
            s = first_root(known.contacts.phi[w, c], a, b, left)
            if s >= real(0.0) and s < sigma:
                sigma = s
    for k in range(known.table.kind.shape[0]):
        if segments.row_fast[w, k] == 1:
            a = h * row_rate(known.rows, segments.base, w, k)
            b = real(0.5) * h * row_rate(known.rows, segments.change, w, k)
            s = first_root(known.phi[w, k], a, b, left)
            if s >= real(0.0) and s < sigma:
                sigma = s
    found = sigma <= left
    if found:
        segments.sigma[w] = sigma
        go(topology, h, w, sigma, segments, q, v)
    return found


@kernel
def find(
    topology: Topology,
    h: real,
    known: Known,
    solution: Solution,
    # out
    segments: Segments,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
):
    """Find the worlds where a fast contact or stop closes within the step; (q, v) move there. Launch over worlds."""
    w = wp.tid()
    fast = int(0)
    for c in range(known.contacts.count[w]):
        fast = fast | segments.fast[w, c]
    for k in range(known.table.kind.shape[0]):
        fast = fast | segments.row_fast[w, k]
    segments.state[w] = RESTS
    segments.impacts[w] = 0
    segments.plain[w] = 0
    if fast == 1:
        segments.time[w] = real(0.0)
        segments.error[w] = real(0.0)
        segments.lag[w] = real(0.0)
        segments.iterations[w] = 0
        segments.status[w] = 0
        segments.flags[w] = 0
        segments.mode[w] = LEAVES
        for i in range(q.shape[1]):
            segments.q0[w, i] = q[w, i]
            segments.q[w, i] = q[w, i]
        for i in range(v.shape[1]):
            segments.v0[w, i] = v[w, i]
            segments.v[w, i] = v[w, i]
        if to_next(topology, h, w, known, solution, segments, q, v):
            segments.state[w] = FLIES


@kernel
def meet(
    topology: Topology,
    h: real,
    known: Known,
    solution: Solution,
    most: int,
    # in and out
    segments: Segments,
    # out
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
):
    """Move (q, v) to the next impact; a world without one, or with `most` of them, ends with its solution. Launch over
    worlds."""
    w = wp.tid()
    if not to_next(topology, h, w, known, solution, segments, q, v) or segments.impacts[w] >= most:
        segments.state[w] = ENDS
        for c in range(known.contacts.count[w]):
            if segments.fast[w, c] == 2 and solution.gamma[w, c][2] > real(0.0):
                segments.plain[w] = 1
        for k in range(known.table.kind.shape[0]):
            if segments.row_fast[w, k] == 2 and solution.row_gamma[w, k] > real(0.0):
                segments.plain[w] = 1
        if segments.plain[w] == 1:
            find_bound(topology, known, solution, segments, w)


@func
def bind(topology: Topology, segments: Segments, w: int, l: int):
    """Mark the tree of link l; −1: none."""
    if l >= 0:
        tree = topology.link_tree[l]
        for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
            segments.bound[w, d] = 1


@func
def find_bound(topology: Topology, known: Known, solution: Solution, segments: Segments, w: int):
    """Find the trees that have impulses in the last solution."""
    scene = known.scene
    for i in range(segments.bound.shape[1]):
        segments.bound[w, i] = 0
    for c in range(known.contacts.count[w]):
        if wp.length_sq(solution.gamma[w, c]) > real(0.0):
            p = known.contacts.pair[w, c]
            bind(topology, segments, w, scene.geom_link[scene.pair_geom[p, 0]])
            bind(topology, segments, w, scene.geom_link[scene.pair_geom[p, 1]])
    for k in range(known.table.kind.shape[0]):
        if known.rows.R[w, k] > real(0.0) and solution.row_gamma[w, k] != real(0.0):
            for j in range(known.rows.support_size[k]):
                bind(topology, segments, w, topology.dof_link[known.rows.support[k, j]])


@func
def ends_plainly(segments: Segments, w: int, i: int) -> bool:
    """Whether the last solution moves dof i the rest of the step as it moves a step without impacts: q' = q ⊕ r h v.

    So it is where fast contacts take part in it, for all trees that have impulses; D then has those that act at once.
    """
    return segments.impacts[w] == 0 or (segments.plain[w] == 1 and segments.bound[w, i] == 1)


@func
def keep_gap(
    topology: Topology, scene: Scene, link_X: wp.array2d(dtype=transform), link_V: wp.array2d(dtype=vec6), w: int,
    c: int, p: int, g: ContactGeometry, segments: Segments,
):  # fmt: skip
    """Store the gap of contact c and its rate."""
    u = point_velocity(topology, link_X, link_V, w, scene.geom_link[scene.pair_geom[p, 1]], g.point)
    u -= point_velocity(topology, link_X, link_V, w, scene.geom_link[scene.pair_geom[p, 0]], g.point)
    segments.gap[w, c] = g.phi - margin_of(scene, w, p)
    segments.rate[w, c] = wp.dot(g.normal, u)


@kernel(lanes=True)
def measure_gaps(
    topology: Topology,
    scene: Scene,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    contacts: Contacts,
    # out
    segments: Segments,
):
    """Gaps of the fast contacts, and their rates, at the links' poses and velocities. Launch over (worlds,
    lanes)."""
    w, _lane = wp.tid()
    for c in range(lane(), contacts.count[w], lanes()):
        if segments.fast[w, c] == 1:
            p = contacts.pair[w, c]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if not is_general(scene.geom_type[a]) and not is_general(scene.geom_type[b]):
                size = plant.geom_size
                row = w % size.shape[0]
                X_a = geom_pose_world(scene, plant, link_X, w, a)
                X_b = geom_pose_world(scene, plant, link_X, w, b)
                g = features.evaluate(
                    scene.geom_type[a], X_a, size[row, a], scene.geom_type[b], X_b, size[row, b],
                    contacts.feature[w, c],
                )  # fmt: skip
                keep_gap(topology, scene, link_X, link_V, w, c, p, g, segments)


@kernel(part="convex", lanes=True)
def measure_convex_gaps(
    convex_scene: ConvexScene,
    topology: Topology,
    scene: Scene,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    contacts: Contacts,
    # out
    segments: Segments,
):
    """`measure_gaps` for pairs with a general shape. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    for c in range(lane(), contacts.count[w], lanes()):
        if segments.fast[w, c] == 1:
            p = contacts.pair[w, c]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if is_general(scene.geom_type[a]) or is_general(scene.geom_type[b]):
                X_a = geom_pose_world(scene, plant, link_X, w, a)
                X_b = geom_pose_world(scene, plant, link_X, w, b)
                shape_a = geom_shape(scene, convex_scene, plant.geom_size, w, a)
                shape_b = geom_shape(scene, convex_scene, plant.geom_size, w, b)
                g = heightfield.evaluate(convex_scene.table, shape_a, X_a, shape_b, X_b, contacts.feature[w, c])
                keep_gap(topology, scene, link_X, link_V, w, c, p, g, segments)


@func
def newton_step(sigma: real, gap: real, rate: real) -> real:
    """σ at which a gap with this rate by σ closes; 2 where that is more than a step away."""
    found = real(2.0)
    if wp.abs(gap) < -rate:
        found = wp.max(sigma - gap / rate, real(0.0))
    return found


@kernel
def correct(
    topology: Topology,
    h: real,
    contacts: Contacts,
    table: Table,
    constants: Constants,
    rows: Rows,
    last: int,
    # in and out
    segments: Segments,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
):
    """One Newton step of σ on the gap of the contact or stop that closes first.

    (q, v) move to the impact; with `last` 1 it is found. A world whose gap closes only after the step ends with D.
    Launch over worlds.
    """
    w = wp.tid()
    now = segments.sigma[w]
    left = real(1.0) - segments.time[w]
    sigma = real(2.0)
    closing = int(0)
    for c in range(contacts.count[w]):
        if segments.fast[w, c] == 1:
            s = newton_step(now, segments.gap[w, c], h * segments.rate[w, c])
            if s < sigma:
                sigma = s
                closing = c
    for k in range(table.kind.shape[0]):
        if segments.row_fast[w, k] == 1:
            at = coordinates_at(table, constants, rows, q, v, real(0.0), w, k)
            found = measure(table.kind[k], at)
            rate = row_rate(rows, v, w, k)
            if table.turn[k] >= 0:  # the axis of a ball joint turns along the path
                rate = real(0.0)
                for j in range(rows.support_size[k]):
                    rate += found[1] * at.axis[j] * v[w, rows.support[k, j]]
            s = newton_step(now, found[0], h * rate)
            if s < sigma:
                sigma = s
                closing = -1 - k
    if sigma > left:
        segments.state[w] = ENDS
    else:
        segments.sigma[w] = sigma
        if last == 1:
            keep_impact(segments, contacts, sigma, closing, w)
            segments.time[w] = segments.time[w] + sigma
        go(topology, h, w, sigma, segments, q, v)


@kernel(lanes=True)
def touch_contacts(
    rule: Rule,
    given: int,
    scene: Scene,
    stiffness: wp.array2d(dtype=real),
    contacts: Contacts,
    v: wp.array2d(dtype=real),
    # out
    segments: Segments,
):
    """What each contact does in a solve: see `ContactState.touch`. `given`: LEAVES, CLOSES, STRIKES; −1: those of
    `segments`. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    touching = int(0)
    for c in range(lane(), contacts.count[w], lanes()):
        mode = given
        if given < 0:
            mode = segments.mode[w]
        touch = FREE
        phi = contacts.phi[w, c]
        rigid = is_rigid(scene, stiffness, w, contacts.pair[w, c])
        if (mode & STRIKES) != 0:
            touch = wp.where(rigid and phi <= rule.window, STRUCK, AWAY)
        elif (mode & CLOSES) != 0 and rigid and wp.abs(phi) <= rule.window:
            touch = CLOSED
        segments.fast[w, c] = 0
        if (mode & STRIKES) == 0 and is_fast(rule, scene, stiffness, contacts, v[w], w, c):
            segments.fast[w, c] = 2
            if (mode & LEAVES) != 0:
                touch = AWAY
                segments.fast[w, c] = 1
        contacts.touch[w, c] = touch
        contacts.bend[w, c] = real(0.0)
        contacts.shift[w, c] = vec3()
        if rigid and touch != AWAY and wp.abs(phi) <= rule.window:
            touching = int(1)
    for i in range(lane(), v.shape[1], lanes()):
        if wp.abs(v[w, i]) > real(STILL):
            touching = touching | 2
    segments.touching[w] = team_bits(touching) // 3


@kernel(lanes=True)
def touch_rows(
    rule: Rule,
    given: int,
    table: Table,
    constants: Constants,
    phi: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # in and out
    rows: Rows,
    segments: Segments,
):
    """What each row does in a solve, after the rows are filled.

    In an impact stops that touch end at a rate of at least 0, rigid constraints keep theirs at 0, and forces have no
    time to act. Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    for k in range(lane(), table.kind.shape[0], lanes()):
        mode = given
        if given < 0:
            mode = segments.mode[w]
        rows.touch[w, k] = 0
        segments.row_fast[w, k] = 0
        if rows.R[w, k] > real(0.0):
            one_sided = (table.traits[k] & ONE_SIDED) != 0
            acts = bool(True)
            if (mode & STRIKES) != 0:
                rows.touch[w, k] = 1
                acts = ((FORCES >> table.kind[k]) & 1) == 0 and not (one_sided and phi[w, k] > rule.window)
                if table.owner[k] == CONSTRAINT:
                    stiffness = constants.constraint_stiffness
                    if stiffness[w % stiffness.shape[0], table.element[k], table.entry[k]] < real(wp.inf):
                        acts = bool(False)
            elif (mode & CLOSES) != 0 and one_sided and wp.abs(phi[w, k]) <= rule.window:
                rows.touch[w, k] = 1
            if (mode & STRIKES) == 0 and is_fast_stop(rule, table, rows, phi, v, w, k):
                segments.row_fast[w, k] = 2
                if (mode & LEAVES) != 0:
                    acts = bool(False)
                    segments.row_fast[w, k] = 1
            if not acts:
                rows.R[w, k] = real(0.0)
            elif rows.touch[w, k] == 1:
                rows.v_hat[w, k] = real(0.0)


@kernel
def find_rebounds(contacts: Contacts, laws: Laws, segments: Segments):
    """Find the worlds where a contact of an impact rebounds. Launch over worlds."""
    w = wp.tid()
    found = int(0)
    for c in range(contacts.count[w]):
        if contacts.touch[w, c] == STRUCK and laws.v_hat[w, c][2] > real(0.0):
            found = int(1)
    segments.rebounds[w] = found


@kernel
def give_back(share: real, solution: Solution, loads: Loads, contacts: Contacts, laws: Laws):
    """Shift v̂ of the contacts of an impact by `share` times what they yield to their impulses. Launch over (worlds,
    max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        if contacts.touch[w, c] == STRUCK:
            load = real(0.0)
            least = real(1.0)
            if loads.load.shape[1] > 0:
                load = loads.load[w, c]
                least = loads.least[w, c]
            shift = share * yield_of(solution.gamma[w, c], laws.R[w, c], load, least)
            laws.v_hat[w, c] = laws.v_hat[w, c] + (shift - contacts.shift[w, c])
            contacts.shift[w, c] = shift


@kernel
def note(
    solution: Solution, lag_error: wp.array(dtype=real), contacts: Contacts, left_out: int, segments: Segments
):  # fmt: skip
    """Join the certificate of a solve and the flags of its contact points, but for those `left_out`, to those of the
    step. Launch over worlds."""
    w = wp.tid()
    segments.error[w] = wp.max(segments.error[w], solution.momentum_error[w])
    segments.lag[w] = wp.max(segments.lag[w], lag_error[w])
    segments.iterations[w] = segments.iterations[w] + solution.iterations[w]
    segments.status[w] = segments.status[w] | solution.status[w]
    segments.flags[w] = segments.flags[w] | (contacts.flags[w] & ~left_out)


@kernel
def take(q: wp.array2d(dtype=real), solution: Solution, most: int, segments: Segments, v: wp.array2d(dtype=real)):
    """Begin the segment after an impact, at q with the velocity of its solution.

    After `most` impacts fast contacts take part in the solve, as without this rule. Launch over worlds.
    """
    w = wp.tid()
    for i in range(q.shape[1]):
        segments.q[w, i] = q[w, i]
    k = segments.impacts[w]
    for i in range(v.shape[1]):
        if k < segments.trace.before.shape[1]:
            segments.trace.before[w, k, i] = v[w, i]
        v[w, i] = solution.v[w, i]
        segments.v[w, i] = solution.v[w, i]
    segments.impacts[w] = segments.impacts[w] + 1
    segments.mode[w] = wp.where(segments.impacts[w] < most, LEAVES | CLOSES, CLOSES)


@kernel
def end(
    topology: Topology,
    h: real,
    segments: Segments,
    # out
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    q_next: wp.array2d(dtype=real),
    solution: Solution,
    lag_error: wp.array(dtype=real),
    contacts: Contacts,
):
    """(q', v') of worlds with impacts; (q, v) are again those of the beginning. Launch over worlds."""
    w = wp.tid()
    r = real(1.0) - segments.time[w]
    segments.sigma[w] = r
    for i in range(v.shape[1]):
        D = segments.change[w, i]
        share = real(0.5) * r * r
        rest = r - real(0.5)
        if ends_plainly(segments, w, i):
            share = r
            rest = real(1.0)
        segments.way[w, i] = r * segments.v[w, i] + share * D
        solution.v[w, i] = segments.v[w, i] + rest * D
        v[w, i] = segments.v0[w, i]
    for l in range(topology.link_type.shape[0]):
        joints.advance(
            topology.link_type[l], segments.q, segments.way, h, w, topology.link_q[l], topology.link_v[l], q_next
        )
    for i in range(q.shape[1]):
        q[w, i] = segments.q0[w, i]
    solution.momentum_error[w] = segments.error[w]
    solution.iterations[w] = segments.iterations[w]
    solution.status[w] = segments.status[w]
    lag_error[w] = segments.lag[w]
    contacts.flags[w] = (contacts.flags[w] & SUSPECT) | segments.flags[w]
