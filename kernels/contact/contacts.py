# SPDX-License-Identifier: Apache-2.0
"""From geoms to a contact problem: contact points, their features and Jacobians, and SAP's regularisation.

The contact frame has the columns t1, t2, n. The normal n points from geom A into geom B, and v_c is the velocity of B
relative to A. The Jacobian of a contact is stored on its *support*: the degrees of freedom that move one of the two
geoms but not both. Their sign is +1 on B's side and -1 on A's; common ancestors cancel exactly and are not stored.
Pairs are visited in a fixed order.
"""

import warp as wp

from ..flags import CONTACT_OVERFLOW, NONFINITE, NOT_CONVERGED, UNRESOLVED
from ..laws.cone import INVERSE_MASS_FLOOR
from ..laws.contact_law import AWAY, STRUCK, LawOptions, friction_of, load_of, regularised
from ..linalg.lanes import (
    lane,
    lanes,
    sync,
    team_before,
    team_bits,
    team_count,
    team_rank,
    team_sum,
    team_take,
    team_value,
)
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec5, vec6
from ..tree import spatial as sp
from ..tree.effective_mass import rows_at_once, team_eliminate, team_row_weight
from ..tree.passes import Topology, reference_point
from ..tree.plant import Plant, placed_geom
from .broadphase import Grid
from .cull import geom_bound, next_candidate
from .narrow.detect import detect_features
from .narrow.features import ContactGeometry, contact_frame, evaluate
from .narrow.manifold import PLANE, Manifold, team_deal
from .narrow.resolution import SUSPECT, is_inside, longest_ways, looked_at
from .narrow.shape import bounding_radius
from .pair_laws import (
    Contacts,
    Geoms,
    Laws,
    Loads,
    Material,
    Scene,
    calm_recovery,
    contact_state,
    margin_of,
    parameter_margin,
    seen_from,
    total_mass,
)

# A contact counts as on a joint's axis when its distance from the axis is rounding error. This is the square of that
# distance, relative to the squared lengths that the distance is computed from.
AXIS_ROUNDING = {wp.float32: 2.5e-11, wp.float64: 4e-28}
axis_rounding = float(AXIS_ROUNDING[real])
TOUCHES = wp.constant(1)  # a bit of the result of `look_ahead`, as UNRESOLVED and SUSPECT are


@struct
class Moving:
    """Poses of the links at the beginning of a step, and their velocities at v0 and at the free velocity v*."""

    X: wp.array2d(dtype=transform)
    V: wp.array2d(dtype=vec6)
    V_star: wp.array2d(dtype=vec6)


@func
def geom_pose_world(scene: Scene, plant: Plant, link_X: wp.array2d(dtype=transform), w: int, g: int) -> transform:
    """World pose of a geom."""
    return placed_geom(plant, link_X, w, g, scene.geom_link[g])


@func
def place_geom(topology: Topology, scene: Scene, plant: Plant, links: Moving, w: int, g: int, geoms: Geoms):
    """Write the world pose of a geom, a bound on the speed of its points at v0 and v*, and a capsule around it."""
    l = scene.geom_link[g]
    X = placed_geom(plant, links.X, w, g, l)
    size = plant.geom_size[w % plant.geom_size.shape[0], g]
    speed = real(0.0)
    if l >= 0:
        arm = wp.transform_get_translation(X) - reference_point(topology, links.X, w, l)
        radius = wp.max(bounding_radius(scene.geom_type[g], size), real(0.0))
        V = links.V[w, l]
        V_star = links.V_star[w, l]
        now = wp.length(sp.velocity_at(V, arm)) + radius * wp.length(sp.angular(V))
        then = wp.length(sp.velocity_at(V_star, arm)) + radius * wp.length(sp.angular(V_star))
        speed = wp.max(now, then) + scene.haste
    x = wp.transform_get_translation(X)
    r = wp.transform_get_rotation(X)
    total = x[0] + x[1] + x[2] + r[0] + r[1] + r[2] + r[3] + size[0] + size[1] + size[2]
    if not (total - total == real(0.0)):
        speed = real(wp.nan)
    if l >= 0:
        if plant.body_active[w % plant.body_active.shape[0], topology.link_body[l]] == real(0.0):
            speed = real(-1.0)
    geoms.X[w, g] = X
    geoms.speed[w, g] = speed
    bound = geom_bound(scene.geom_type[g], X, size)
    grown = scene.geom_reach[w % scene.geom_reach.shape[0], g]
    geoms.capsule[w, g] = vec5(bound[0], bound[1], bound[2], bound[3] + grown, bound[4] + grown)


@kernel
def set_margins(scene: Scene):
    """`Scene.kind_margin` of pairs from the parameters. Launch over (worlds, pairs)."""
    w, p = wp.tid()
    scene.kind_margin[w, p] = parameter_margin(scene, w, p)


@kernel
def grow_bounds(scene: Scene, planes: wp.array(dtype=int), own: wp.array(dtype=int), reach: wp.array2d(dtype=real)):
    """`Scene.geom_reach` for margins that are parameters: planes do not grow, so that the others grow by theirs too.

    `own`: the pairs with a margin of their own. Launch over (worlds, ngeom).
    """
    w, g = wp.tid()
    row = w % scene.geom_margin.shape[0]
    grown = real(0.0)
    if scene.geom_type[g] != PLANE:
        for i in range(planes.shape[0]):
            grown = wp.max(grown, scene.geom_margin[row, planes[i]])
        grown += wp.max(scene.geom_margin[row, g], real(0.0))
        for i in range(own.shape[0]):
            if scene.pair_geom[own[i], 0] == g or scene.pair_geom[own[i], 1] == g:
                grown = wp.max(grown, scene.pair_margin[w % scene.pair_margin.shape[0], i])
    reach[w, g] = grown


@kernel(shares="pairs")
def place_geoms(topology: Topology, scene: Scene, plant: Plant, links: Moving, geoms: Geoms):
    """Run `place_geom` for every geom that takes part in contact. Launch over (worlds, scene.placed)."""
    w, i = wp.tid()
    place_geom(topology, scene, plant, links, w, scene.placed[i], geoms)


@func
def point_velocity(
    topology: Topology,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    w: int,
    l: int,
    point: vec3,
) -> vec3:
    """Velocity of the material point of link l (-1: the world) that is at `point`."""
    u = vec3()
    if l >= 0:
        u = sp.velocity_at(link_V[w, l], point - reference_point(topology, link_X, w, l))
    return u


@func
def look_ahead(
    topology: Topology, scene: Scene, links: Moving, h: real, ways: vec2, w: int, a: int, b: int, g: ContactGeometry
) -> int:
    """TOUCHES if the contact exists, or if the motion closes it within the step h.

    The motion is the relative velocity at v0 or at v*, with `expect_impacts` also the velocity of either geom alone.
    UNRESOLVED or SUSPECT is set if the motion at v0 within h is longer than `ways`; see `resolution.py`.
    """
    l_a = scene.geom_link[a]
    l_b = scene.geom_link[b]
    u_a = point_velocity(topology, links.X, links.V, w, l_a, g.point)
    u_b = point_velocity(topology, links.X, links.V, w, l_b, g.point)
    u_star_a = point_velocity(topology, links.X, links.V_star, w, l_a, g.point)
    u_star_b = point_velocity(topology, links.X, links.V_star, w, l_b, g.point)
    now = wp.dot(g.normal, u_b - u_a)
    approach = wp.min(now, wp.dot(g.normal, u_star_b - u_star_a))
    if scene.expect_impacts == 1:
        alone_a = wp.min(wp.dot(g.normal, -u_a), wp.dot(g.normal, -u_star_a))
        alone_b = wp.min(wp.dot(g.normal, u_b), wp.dot(g.normal, u_star_b))
        approach = wp.min(approach, wp.min(alone_a, alone_b))
    found = looked_at(ways, g.phi, h, now)
    if g.phi + h * wp.min(approach, real(0.0)) < scene.window:
        found = found | TOUCHES
    return found


@func
def flags_of(found: int, room: bool) -> int:
    """Flags of a contact from the result of `look_ahead`.

    Without `room` the contact is dropped: that is an overflow, and a suspect contact is then unresolved.
    """
    flags = found & (UNRESOLVED | SUSPECT)
    if found & TOUCHES != 0 and not room:
        flags = CONTACT_OVERFLOW
        if found & (UNRESOLVED | SUSPECT) != 0:
            flags = CONTACT_OVERFLOW | UNRESOLVED
    return flags


@func
def store_contact(contacts: Contacts, w: int, c: int, p: int, feature: wp.vec3i, g: ContactGeometry):
    """Write contact c of pair p."""
    contacts.pair[w, c] = p
    contacts.feature[w, c] = feature
    contacts.phi[w, c] = g.phi
    contacts.point[w, c] = g.point
    contacts.frame[w, c] = contact_frame(g.normal)


@func
def next_pairs(
    scene: Scene, candidate: wp.array1d(dtype=int), candidates: int, geoms: Geoms, h: real, w: int, k: int, pairs: int
):  # fmt: skip
    """Each lane's next candidate pair from index k on (`pairs` if none), and the index to continue from.

    Candidates are the pairs that may meet within h.
    """
    X = geoms.X[w]
    capsule = geoms.capsule[w]
    speed = geoms.speed[w]
    own = pairs
    at = int(k)
    if lanes() == 1:
        own = next_candidate(
            0, scene.pair_geom, candidate, candidates, scene.geom_type, X, capsule, speed, h, at, pairs
        )
        at = own + 1
    else:
        filled = int(0)
        room = bool(True)
        while at < pairs and room:
            mine = at + lane()
            hit = int(0)
            if mine < pairs:
                nearest = next_candidate(
                    0, scene.pair_geom, candidate, candidates, scene.geom_type, X, capsule, speed, h, mine, mine + 1
                )  # fmt: skip
                if nearest == mine:
                    hit = int(1)
            hits = team_count(hit)
            room = filled + hits <= lanes()
            if room:
                own = team_take(hit, at, filled, own)
                filled += hits
                at += lanes()
    return own, at


@func
def find_features(
    scene: Scene, h: real, size: wp.array2d(dtype=vec3), geoms: Geoms, w: int, p: int
) -> Manifold:  # fmt: skip
    """Feature contacts of pair p that touch, or may touch within h."""
    row = w % size.shape[0]
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    reach = seen_from(scene, geoms, h, w, p)
    return detect_features(
        scene.geom_type[a], geoms.X[w, a], size[row, a], scene.geom_type[b], geoms.X[w, b], size[row, b], reach,
        scene.mujoco,
    )  # fmt: skip


@func
def find_contact(
    topology: Topology, scene: Scene, h: real, size: wp.array2d(dtype=vec3), links: Moving, geoms: Geoms, w: int,
    p: int, feature: wp.vec3i,
):  # fmt: skip
    """Geometry of a feature contact of pair p, and the result of `look_ahead`."""
    row = w % size.shape[0]
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    type_a = scene.geom_type[a]
    type_b = scene.geom_type[b]
    size_a = size[row, a]
    size_b = size[row, b]
    g = evaluate(type_a, geoms.X[w, a], size_a, type_b, geoms.X[w, b], size_b, feature)
    g.phi = g.phi - margin_of(scene, w, p)
    ways = longest_ways(type_a, size_a, type_b, size_b)
    return g, look_ahead(topology, scene, links, h, ways, w, a, b, g)


@func
def write_jacobian(
    topology: Topology,
    scene: Scene,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    w: int,
    c: int,
    begin: int,
    end: int,
    contacts: Contacts,
):
    """Rows t1, t2, n of the Jacobian of contact c, in the columns [begin, end) of its support."""
    p = contacts.row[w, c]
    frame = contacts.frame[w, c]
    point = contacts.point[w, c]
    lengths = wp.length_sq(point) + contacts.phi[w, c] * contacts.phi[w, c]
    for k in range(begin, wp.min(end, scene.support_size[p])):
        d = scene.support[p, k]
        o = reference_point(topology, link_X, w, topology.dof_link[d])
        S = dof_S[w, d]
        u = scene.support_sign[p, k] * sp.velocity_at(S, point - o)
        summands = wp.length_sq(sp.linear(S)) + wp.length_sq(sp.angular(S)) * (lengths + wp.length_sq(o))
        if wp.length_sq(u) <= real(axis_rounding) * summands:
            u = vec3(real(0.0), real(0.0), real(0.0))
        for i in range(3):
            contacts.J[w, c, i, k] = frame[0, i] * u[0] + frame[1, i] * u[1] + frame[2, i] * u[2]


@func
def write_jacobians(
    topology: Topology, scene: Scene, link_X: wp.array2d(dtype=transform), dof_S: wp.array2d(dtype=vec6), w: int,
    count: int, contacts: Contacts,
):  # fmt: skip
    """`write_jacobian` of all contacts of the world; several lanes take a column each."""
    columns = contacts.J.shape[3]
    if lanes() == 1:
        for c in range(count):
            write_jacobian(topology, scene, link_X, dof_S, w, c, 0, columns, contacts)
    else:
        for i in range(lane(), count * columns, lanes()):
            c = i / columns
            k = i - c * columns
            write_jacobian(topology, scene, link_X, dof_S, w, c, k, k + 1, contacts)


@kernel(lanes=True, shares="pairs", registers=128, fast_math=True)
def detect(
    topology: Topology,
    scene: Scene,
    plant: Plant,
    h: real,
    links: Moving,
    dof_S: wp.array2d(dtype=vec6),
    grid: Grid,
    completes: int,
    # out
    geoms: Geoms,
    contacts: Contacts,
):
    """Find the contacts that exist (phi < 0), or that v0 or the free velocity v* would close within the step.

    Points that pass by or recede are left out: the convex cone would apply friction at a distance up to h mu |v_t|.
    Pairs come from the pair table, or from the broad phase's candidates if `grid.capacity` > 0, in the same order.
    The kernel places the geoms itself; with a broad phase `place_geoms` has done so.
    With `completes` 1 no other kernel appends contacts, so the kernel also writes the Jacobians.
    A lane finds the features of one pair, then the contact of one feature. Contacts are stored in the order of pairs.
    Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    if grid.capacity == 0:
        for i in range(lane(), scene.placed.shape[0], lanes()):
            place_geom(topology, scene, plant, links, w, scene.placed[i], geoms)
        sync()
    count = int(0)
    flags = int(0)
    for i in range(lane(), geoms.speed.shape[1], lanes()):
        if not (geoms.speed[w, i] == geoms.speed[w, i]):
            flags = int(NONFINITE)
    pairs = scene.point_pairs
    candidates = int(-1)
    if grid.capacity > 0:
        pairs = grid.count[w]
        candidates = w * grid.capacity
        flags = flags | (grid.overflow[w] * CONTACT_OVERFLOW)
    k = int(0)
    while k < pairs:
        own, k = next_pairs(scene, grid.candidate, candidates, geoms, h, w, k, pairs)
        manifold = Manifold()
        p = own
        if own < pairs:
            if candidates >= 0:
                p = grid.candidate[candidates + own]
            if p < scene.point_pairs:
                manifold = find_features(scene, h, plant.geom_size, geoms, w, p)
        # The features of all lanes' pairs, in the order of pairs, a lane each.
        before = team_before(manifold.count)
        features = team_count(manifold.count)
        for first in range(0, features, lanes()):
            dealt = team_deal(manifold.count, manifold.features, p, before - first)
            found = int(0)
            g = ContactGeometry()
            if first + lane() < features:
                feature = wp.vec3i(dealt[0], dealt[1], dealt[2])
                g, found = find_contact(topology, scene, h, plant.geom_size, links, geoms, w, dealt[3], feature)
            now = count + team_rank(found & TOUCHES)
            room = now < contacts.pair.shape[1]
            flags = flags | flags_of(found, room)
            if found & TOUCHES != 0 and room:
                store_contact(contacts, w, now, dealt[3], feature, g)
            count = wp.min(count + team_count(found & TOUCHES), contacts.pair.shape[1])
    contacts.count[w] = count
    contacts.flags[w] = team_bits(flags)
    if completes == 1:
        sync()
        write_jacobians(topology, scene, links.X, dof_S, w, count, contacts)


@func
def normal_speed(scene: Scene, contacts: Contacts, w: int, c: int, v: wp.array1d(dtype=real)) -> real:
    """v_n of contact c at joint velocities v."""
    row = contacts.row[w, c]
    speed = real(0.0)
    for k in range(scene.support_size[row]):
        speed += contacts.J[w, c, 2, k] * v[scene.support[row, k]]
    return speed


@kernel
def look_after(
    scene: Scene,
    geom_size: wp.array2d(dtype=vec3),
    h: real,
    theta_vq: real,
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # in and out
    contacts: Contacts,
):
    """Clear SUSPECT; raise UNRESOLVED if the solution v leaves a suspect pair of geoms half inside each other.

    Launch over worlds.
    """
    w = wp.tid()
    flags = contacts.flags[w]
    if flags & SUSPECT == 0:
        return
    flags = flags & ~SUSPECT
    row = w % geom_size.shape[0]
    for c in range(contacts.count[w]):
        p = contacts.pair[w, c]
        if p < scene.point_pairs:
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            ways = longest_ways(scene.geom_type[a], geom_size[row, a], scene.geom_type[b], geom_size[row, b])
            before = normal_speed(scene, contacts, w, c, v0[w])
            moves = theta_vq * normal_speed(scene, contacts, w, c, v[w]) + (real(1.0) - theta_vq) * before
            phi = contacts.phi[w, c]
            if looked_at(ways, phi, h, before) != 0 and is_inside(ways, phi + h * moves):
                flags = flags | UNRESOLVED
    contacts.flags[w] = flags


@kernel
def look_along(
    scene: Scene,
    geom_size: wp.array2d(dtype=vec3),
    h: real,
    v: wp.array2d(dtype=real),
    contacts: Contacts,
    # in and out
    flags: wp.array(dtype=int),
):
    """Raise UNRESOLVED where geoms approach so fast at v that one passes the whole other within h.

    Launch over worlds.
    """
    w = wp.tid()
    row = w % geom_size.shape[0]
    for c in range(contacts.count[w]):
        p = contacts.pair[w, c]
        if p < scene.point_pairs:
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            ways = longest_ways(scene.geom_type[a], geom_size[row, a], scene.geom_type[b], geom_size[row, b])
            u = normal_speed(scene, contacts, w, c, v[w])
            if u < real(0.0) and looked_at(ways, contacts.phi[w, c], h, u) == UNRESOLVED:
                flags[w] = flags[w] | UNRESOLVED


@kernel(lanes=True, shares="pairs")
def list_supports(
    scene: Scene, chain: wp.array2d(dtype=int), chain_size: wp.array(dtype=int), contacts: Contacts
):  # fmt: skip
    """Write the support of every contact in its own row: the dofs that move one of its geoms but not both.

    `chain` (nlink + 1, depth) lists the dofs that move each link, ascending; the last row is the world's.
    Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    for c in range(lane(), contacts.count[w], lanes()):
        row = contacts.row[w, c]
        a = scene.geom_link[scene.pair_geom[contacts.pair[w, c], 0]]
        b = scene.geom_link[scene.pair_geom[contacts.pair[w, c], 1]]
        if a < 0:
            a = chain.shape[0] - 1
        if b < 0:
            b = chain.shape[0] - 1
        i = int(0)
        j = int(0)
        size = int(0)
        while i < chain_size[a] or j < chain_size[b]:
            take_a = j >= chain_size[b]
            take_b = i >= chain_size[a]
            if not take_a and not take_b:
                take_a = chain[a, i] <= chain[b, j]
                take_b = chain[b, j] <= chain[a, i]
            if take_a != take_b:
                if take_a:
                    scene.support[row, size] = chain[a, i]
                    scene.support_sign[row, size] = real(-1.0)
                else:
                    scene.support[row, size] = chain[b, j]
                    scene.support_sign[row, size] = real(1.0)
                size += 1
            i += wp.where(take_a, 1, 0)
            j += wp.where(take_b, 1, 0)
        scene.support_size[row] = size


@kernel(lanes=True, shares="pairs")
def jacobian(
    topology: Topology,
    scene: Scene,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    contacts: Contacts,
):
    """Jacobians of all contacts. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    write_jacobians(topology, scene, link_X, dof_S, w, contacts.count[w], contacts)


@func
def inverse_mass(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    L: wp.array3d(dtype=real),
    z: wp.array2d(dtype=vec3),
    w: int,
    c: int,
    p: int,
) -> mat33:
    """J M^-1 J^T of one contact, summed over the trees of its support. Called by all lanes."""
    W = mat33()
    size = scene.support_size[p]
    k = int(0)
    while k < size:
        begin = topology.dof_begin[scene.support[p, k]]
        end = int(k + 1)
        while end < size and topology.dof_begin[scene.support[p, end]] == begin:
            end += 1
        last = scene.support[p, end - 1]
        for d in range(begin + lane(), last + 1, lanes()):
            z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
        sync()
        for i in range(k + lane(), end, lanes()):
            z[w, scene.support[p, i]] = vec3(contacts.J[w, c, 0, i], contacts.J[w, c, 1, i], contacts.J[w, c, 2, i])
        sync()
        W += team_eliminate(topology.dof_parent, topology.dof_begin, L[w], z[w], begin, last)
        k = end
    return W


@func
def team_weights(
    topology: Topology, scene: Scene, contacts: Contacts, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int,
    first: int, count: int,
):  # fmt: skip
    """w and W_n of W = J M^-1 J^T, on lane i those of contact `first` + i."""
    weight = real(0.0)
    W_n = real(0.0)
    end = wp.min(first + lanes(), count)
    each = rows_at_once(L[w]) / 3
    if each > 0:
        for at in range(first, end, each):
            c = at + lane() / 3
            n = int(0)
            if lane() / 3 < each and c < end:
                n = scene.support_size[contacts.row[w, c]]
            else:
                c = at
            found = team_row_weight(
                topology.dof_begin, L[w], scene.support[contacts.row[w, c]], contacts.J[w, c, lane() % 3], n, True
            )
            square = found[0] * found[0] + real(2.0) * found[1] * found[1]
            own = lane() - (at - first)
            sum = team_value(square, 3 * own) + team_value(square, 3 * own + 1) + team_value(square, 3 * own + 2)
            normal = team_value(found[0], 3 * own + 2)
            if own >= 0 and own < each:
                weight = wp.sqrt(sum) / real(3.0)
                W_n = normal
    else:
        for c in range(first, end):
            W = inverse_mass(topology, scene, contacts, L, z, w, c, contacts.row[w, c])
            if lane() == c - first:
                weight = wp.sqrt(wp.ddot(W, W)) / real(3.0)
                W_n = W[2, 2]
    return weight, W_n


@func
def is_too_heavy(
    topology: Topology, scene: Scene, contacts: Contacts, M_factor: wp.array3d(dtype=real), weight: real, w: int, c: int
) -> bool:  # fmt: skip
    """Whether w is below INVERSE_MASS_FLOOR because of the inertia that the contact moves, not of a short lever.

    Such a contact is too soft to bear that inertia.
    """
    heavy = bool(False)
    if weight > real(0.0) and weight < real(INVERSE_MASS_FLOOR):
        row = contacts.row[w, c]
        for k in range(scene.support_size[row]):
            d = scene.support[row, k]
            if M_factor[w, d, d - topology.dof_begin[d]] * real(INVERSE_MASS_FLOOR) > real(1.0):
                heavy = bool(True)
    return heavy


@kernel(lanes=True, shares="pairs", registers=64)
def regularise(
    topology: Topology,
    scene: Scene,
    material: Material,
    contacts: Contacts,
    options: LawOptions,
    M_factor: wp.array3d(dtype=real),
    v: wp.array2d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    laws: Laws,
    loads: Loads,
):
    """R, v_hat, mu and w of every contact, w = |J M^-1 J^T|_F / 3 (theory §3.1), and its loads under Coulomb's law.

    A contact that moves more than 10¹² kg raises NOT_CONVERGED (`is_too_heavy`). Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    count = contacts.count[w]
    mass = real(0.0)
    if count > 0:
        mass = team_sum(total_mass(loads.body_mass, w, lane(), lanes()))
    for first in range(0, count, lanes()):
        w_c, W_n = team_weights(topology, scene, contacts, M_factor, z, w, first, count)
        c = first + lane()
        if c < count:
            laws.weight[w, c] = w_c
            if is_too_heavy(topology, scene, contacts, M_factor, w_c, w, c):
                contacts.flags[w] = contacts.flags[w] | NOT_CONVERGED
            contacts.recovery[w, c] = calm_recovery(scene.recovery, W_n, mass)
            s = contact_state(scene, material, contacts, contacts.compliance, options, w, c)
            s.phi = contacts.phi[w, c]
            s.weight = w_c
            if s.touch == STRUCK or s.restitution > real(0.0):
                s.rate0 = normal_speed(scene, contacts, w, c, v[w])
            R, v_hat = regularised(s)
            if s.touch == AWAY:
                R = vec3(real(0.0), real(0.0), real(0.0))
            laws.R[w, c] = R
            laws.v_hat[w, c] = v_hat
            laws.mu[w, c] = friction_of(s.friction)
            if options.coulomb == 1:
                s.gravity = loads.gravity[w % loads.gravity.shape[0]]
                s.mass = mass
                load = load_of(s)
                loads.load[w, c] = load[0]
                loads.least[w, c] = load[1]
