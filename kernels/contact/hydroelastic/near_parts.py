# SPDX-License-Identifier: Apache-2.0
"""Search for the parts of two geoms that may meet: cells of the soft geom S, cells or faces of the other geom O.

Parts are tested by capsules around them, and by the plane on which their pressures are equal.
"""

import warp as wp

from ...linalg.lanes import lane, lanes, sync, team_count, team_max, team_rank, team_take
from ...real import func, real, transform, vec3, vec5
from ..narrow.manifold import PLANE
from .fields import (
    Capsule,
    Fields,
    Part,
    Side,
    along,
    capsules_apart,
    cell_of,
    function_of,
    moved_capsule,
    own_capsule,
    part_of,
)

LEEWAY = 1.001  # factor on bounds of the pressure, for rounding


@func
def parts(fields: Fields, g: int):
    """First index and number of a geom's cells, or of its faces if it is rigid."""
    first = fields.geom_cells[g, 0]
    count = fields.geom_cells[g, 1]
    if count == 0:
        first = fields.geom_faces[g, 0]
        count = fields.geom_faces[g, 1]
    return first, count


@func
def apart(cell: Capsule, part: Capsule, up: vec3, plane_s: bool) -> bool:
    """Whether the capsule around a cell of S and the capsule around a part of O have no point in common.

    A part with infinite radius is the half space below its middle, with the normal `up`. `plane_s`: S is the half space
    below the cell's middle.
    """
    off = bool(False)
    if part.radius == real(wp.inf):
        off = wp.dot(up, cell.middle - part.middle) - wp.abs(wp.dot(up, cell.axis)) > cell.radius
    elif plane_s:
        off = part.middle[2] - cell.middle[2] - wp.abs(part.axis[2]) > part.radius
    else:
        off = capsules_apart(cell, part)
    return off


@func
def ball_apart(ball: Capsule, other: Capsule, inverse: real) -> bool:
    """Whether the ball around the capsule `ball` and the capsule `other` have no point in common.

    `inverse` is 1 over the squared half axis of `other`, or 0 if it has none.
    """
    away = ball.middle - other.middle
    t = wp.clamp(wp.dot(away, other.axis) * inverse, real(-1.0), real(1.0))
    reach = ball.radius + wp.length(ball.axis) + other.radius
    return wp.length_sq(away - t * other.axis) > reach * reach


@func
def clear_of(m: vec3, d: real, capsule: Capsule) -> bool:
    """Whether a capsule lies wholly on one side of the plane m·x + d = 0."""
    height = wp.abs(wp.dot(m, capsule.middle) + d) - wp.abs(wp.dot(m, capsule.axis))
    return height > real(0.0) and height * height > capsule.radius * capsule.radius * wp.length_sq(m)


@func
def may_meet(cell: Part, part: Part, rigid: bool, up: vec3, plane_s: bool) -> bool:
    """Whether a cell of S and a part of O may have a polygon.

    The plane on which their pressures are equal must meet both of their capsules, and the capsules must meet.
    """
    near = bool(True)
    if not rigid:
        m = along(cell.pressure) - along(part.pressure)
        d = cell.pressure[3] - part.pressure[3]
        near = not clear_of(m, d, cell.around) and not clear_of(m, d, part.around)
    return near and not apart(cell.around, part.around, up, plane_s)


@func
def geom_around(fields: Fields, pose: transform, X: transform, bound: vec5, g: int) -> Capsule:
    """The capsule around a geom with its margin, in the frame to which X leads from the world.

    `pose` is the geom's pose in this frame. For a plane the capsule is a point of its surface, with infinite radius.
    """
    around = Capsule()
    around.radius = real(wp.inf)
    around.middle = wp.transform_get_translation(pose)
    if fields.geom_type[g] != PLANE:
        around.axis = wp.transform_vector(X, vec3(bound[0], bound[1], bound[2]))
        around.radius = bound[3] + fields.geom_margin[g]
    else:
        around.middle = wp.transform_point(pose, vec3(real(0.0), real(0.0), fields.geom_margin[g]))
    return around


@func
def list_near(
    fields: Fields, w: int, g: int, side: Side, other: Capsule, up: vec3, is_plane: bool, near: wp.array2d(dtype=int),
    at: int,
) -> int:  # fmt: skip
    """List the parts of geom g near the capsule around the other geom, from index `at` on; return the list's end.

    All are in the frame of g. Called by all lanes.
    """
    first, count = parts(fields, g)
    inverse = real(0.0)
    length = wp.length_sq(other.axis)
    if length > real(0.0):
        inverse = real(1.0) / length
    end = int(at)
    for k in range(0, count, lanes()):
        i = first + k + lane()
        hit = int(0)
        if k + lane() < count:
            own = own_capsule(fields, side.rigid, i, side.scale, side.level)
            if not ball_apart(own, other, inverse):
                if not apart(own, other, up, is_plane):
                    hit = int(1)
        place = end + team_rank(hit)
        if hit == 1:
            near[w, place] = i
        end += team_count(hit)
    return end


@func
def deepest_level(
    fields: Fields, w: int, side_s: Side, around_o: Capsule, near: wp.array2d(dtype=int), count_s: int
) -> real:
    """Upper bound of F of S in the capsule around O.

    Each listed cell's function has a maximum in this capsule; the bound is the least of them. Called by all lanes.
    """
    level = real(wp.inf)
    for k in range(lane(), count_s, lanes()):
        i = near[w, k]
        if fields.cell_rise[i] < real(wp.inf):
            f = function_of(side_s.form, fields.entry[fields.cell_entry[i]])
            a = along(f)
            most = wp.dot(a, around_o.middle) + f[3] + wp.abs(wp.dot(a, around_o.axis)) + around_o.radius * wp.length(a)
            level = wp.min(level, most)
    return -team_max(-level)


@func
def list_both(
    fields: Fields, X_s: transform, X: transform, w: int, s: int, o: int, side_s: Side, side_o: Side,
    geom_capsule: wp.array2d(dtype=vec5), near: wp.array2d(dtype=int),
):  # fmt: skip
    """List the cells of S and the parts of O that are near the other geom.

    Returns the number of cells, the number of combinations, and both sides with their `level` set to the largest
    possible F. Called by all lanes.
    """
    up = wp.transform_vector(X, vec3(real(0.0), real(0.0), real(1.0)))
    still = wp.transform_identity(dtype=real)
    X_to_s = wp.transform_inverse(X_s)
    X_to_o = wp.transform_inverse(X)
    around_o = geom_around(fields, X, X_to_s, geom_capsule[w, o], o)
    around_s = moved_capsule(X_to_o, geom_around(fields, still, X_to_s, geom_capsule[w, s], s))
    count_s = list_near(fields, w, s, side_s, around_o, up, fields.geom_type[s] == PLANE, near, 0)
    sync()
    # Where the geoms meet, p = E F on both sides. So `most` bounds F on both sides: of the stiffer geom only a thin
    # outer layer can meet, and of a geom that is pressed in a little only the outer part.
    most = real(LEEWAY) * side_s.modulus * deepest_level(fields, w, side_s, around_o, near, count_s)
    if not side_o.rigid and fields.geom_type[o] != PLANE:
        most = wp.min(most, real(LEEWAY) * side_o.modulus)
    above_s = side_s
    above_s.level = most / side_s.modulus
    above_o = side_o
    if not side_o.rigid:
        above_o.level = most / side_o.modulus
    # In the frame of O, S is a half space if it is a plane. The only part of a plane O is always listed.
    above = wp.transform_vector(X_to_o, vec3(real(0.0), real(0.0), real(1.0)))
    end = list_near(fields, w, o, above_o, around_s, above, False, near, count_s)
    sync()
    return count_s, count_s * (end - count_s), above_s, above_o


@func
def next_parts(
    fields: Fields, X: transform, w: int, side_s: Side, side_o: Side, near: wp.array2d(dtype=int),
    count_s: int, k: int, total: int, last: Part,
):  # fmt: skip
    """Each lane's next combination, from index k on, of a listed cell of S and a listed part of O that may meet.

    Returns whether there is one, the cell, the part, and the index to continue from. `last` is the part of the call
    before.
    """
    up = wp.transform_vector(X, vec3(real(0.0), real(0.0), real(1.0)))
    plane_s = side_s.form.kind == PLANE
    at = int(k)
    hit = bool(False)
    cell = Part()
    part = last
    if lanes() == 1:
        while at < total and not hit:
            j = near[w, count_s + at // count_s]
            if j != part.index:
                part = part_of(fields, side_o, X, j)
            cell = cell_of(fields, side_s, near[w, at % count_s])
            hit = may_meet(cell, part, side_o.rigid, up, plane_s)
            at += 1
    else:
        filled = int(0)
        own = total
        room = bool(True)
        while at < total and room:
            mine = at + lane()
            met = int(0)
            if mine < total:
                cell = cell_of(fields, side_s, near[w, mine % count_s])
                part = part_of(fields, side_o, X, near[w, count_s + mine // count_s])
                if may_meet(cell, part, side_o.rigid, up, plane_s):
                    met = int(1)
            hits = team_count(met)
            room = filled + hits <= lanes()
            if room:
                own = team_take(met, at, filled, own)
                filled += hits
                at += lanes()
        if own < total:
            hit = bool(True)
            cell = cell_of(fields, side_s, near[w, own % count_s])
            part = part_of(fields, side_o, X, near[w, count_s + own // count_s])
    return hit, cell, part, at


@func
def geoms_meet(
    fields: Fields, geom_X: wp.array2d(dtype=transform), geom_speed: wp.array2d(dtype=real),
    geom_capsule: wp.array2d(dtype=vec5), w: int, a: int, b: int,
) -> bool:  # fmt: skip
    """Whether the balls around two geoms meet; a plane meets all.

    False if a geom belongs to an inactive body or is not finite (see `contacts.place_geom`).
    """
    found = geom_speed[w, a] >= real(0.0) and geom_speed[w, b] >= real(0.0)
    if fields.geom_type[a] != PLANE and fields.geom_type[b] != PLANE:
        reach = geom_capsule[w, a][4] + geom_capsule[w, b][4] + fields.geom_margin[a] + fields.geom_margin[b]
        away = wp.transform_get_translation(geom_X[w, b]) - wp.transform_get_translation(geom_X[w, a])
        found = found and wp.length_sq(away) <= reach * reach
    return found
