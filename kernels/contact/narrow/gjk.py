# SPDX-License-Identifier: Apache-2.0
"""Nearest points of two convex cores (GJK) and the direction of least penetration (EPA), as normals.

Both work on the set D = {x_b − x_a} of two cores in axes of geom A, through its support points. GJK (Gilbert, Johnson,
Keerthi 1988) finds the point of D nearest to the origin. Among all parts of the simplex that contain the newest
vertex, it chooses the one nearest to the origin. It compares distances, which stay accurate when determinants are only
rounding.

EPA (van den Bergen 2001) grows a polytope inside D from an extreme tetrahedron. It always grows outward from the face
whose plane has the least signed distance. This distance is a lower bound of the depth, and the support point's height
above the origin is an upper bound. The tetrahedron need not contain the origin: planes with the origin outside have
negative distance and are grown first.

Iterations are bounded; at the bound the best normal so far is returned. The feature pairs refine the normals later.
"""

import warp as wp

from ...real import func, quat, real, struct, vec3
from .nearing import Nearing, reach_along
from .shape import MeshTable, Shape, radius, support

GJK_ITERATIONS = 48
EPA_ITERATIONS = 56
MAX_VERTICES = wp.constant(60)  # of EPA's polytope
MAX_FACES = wp.constant(116)
MAX_HORIZON = wp.constant(64)
# All relative to the size. CONVERGED: gap between the bounds of the distance at which iteration ends. TOUCHING:
# distance below which cores touch. VISIBLE: height above a face from which on a point sees it.
CONVERGED = {wp.float32: 2e-6, wp.float64: 1e-10}
TOUCHING = {wp.float32: 1e-5, wp.float64: 1e-9}
VISIBLE = {wp.float32: 1e-6, wp.float64: 1e-13}
EPA_CONVERGED = {wp.float32: 1e-5, wp.float64: 1e-7}
ROUNDED = 1e-3  # radius of the ball of EPA's second run
# Squared sine of a triangle's angle below which the triangle has no normal.
SLIVER = {wp.float32: 1e-10, wp.float64: 1e-22}

mat43 = wp.types.matrix((4, 3), real)
converged = float(CONVERGED[real])
touching = float(TOUCHING[real])
visible = float(VISIBLE[real])
epa_converged = float(EPA_CONVERGED[real])
sliver = float(SLIVER[real])


@struct
class Pair:
    """Two shapes, B's pose (q, p) in axes of A, their size for tolerances, and a radius by which D is grown."""

    a: Shape
    b: Shape
    q: quat
    p: vec3
    size: real
    rounding: real


@struct
class Nearest:
    """Status (0 apart, 1 too far to touch, 2 touching or overlapping), and the best normal with its separation."""

    status: wp.int32
    n: vec3
    bound: real


@struct
class Deepest:
    """The best normal so far, the height of D above the origin along −n, and whether this height is the least."""

    n: vec3
    height: real
    converged: wp.bool


@struct
class Simplex:
    """`count` vertices (rows), the point of their hull nearest to the origin, and whether they enclose it."""

    vertex: mat43
    count: wp.int32
    v: vec3
    square: real
    encloses: wp.bool


@func(inline=False)
def lowest(table: MeshTable, pair: Pair, d: vec3) -> vec3:
    """The point of D with the least component along d."""
    x_a = support(table, pair.a, d)
    x_b = pair.p + wp.quat_rotate(pair.q, support(table, pair.b, wp.quat_rotate_inv(pair.q, -d)))
    return x_b - x_a - pair.rounding * d


@func(inline=False)
def keep(best: Simplex, v: vec3, count: wp.int32, w_0: vec3, w_1: vec3, w_2: vec3) -> Simplex:
    """The nearer of the best sub-simplex and this one."""
    square = wp.dot(v, v)
    if square < best.square:
        best.square = square
        best.v = v
        best.count = count
        best.vertex[0] = w_0
        best.vertex[1] = w_1
        best.vertex[2] = w_2
    return best


@func(inline=False)
def try_triangle(best: Simplex, w: vec3, x: vec3, y: vec3) -> Simplex:
    """`keep` the projection of the origin on a triangle, if it is inside the triangle."""
    e = x - w
    f = y - w
    n = wp.cross(e, f)
    square = wp.dot(n, n)
    if square <= real(sliver) * wp.dot(e, e) * wp.dot(f, f):
        return best
    if (
        wp.dot(n, wp.cross(x, y)) < real(0.0)
        or wp.dot(n, wp.cross(y, w)) < real(0.0)
        or wp.dot(n, wp.cross(w, x)) < real(0.0)
    ):
        return best
    return keep(best, (wp.dot(n, w) / square) * n, 3, w, x, y)


@func(inline=False)
def encloses(w: vec3, x: vec3, y: vec3, z: vec3) -> wp.bool:
    """Whether the origin is inside the tetrahedron: on the inner side of its four planes."""
    volume = wp.dot(wp.cross(x - w, y - w), z - w)
    d_w = wp.dot(wp.cross(x, y), z)
    d_x = -wp.dot(wp.cross(w, y), z)
    d_y = wp.dot(wp.cross(w, x), z)
    d_z = -wp.dot(wp.cross(w, x), y)
    if volume > real(0.0):
        return d_w >= real(0.0) and d_x >= real(0.0) and d_y >= real(0.0) and d_z >= real(0.0)
    if volume < real(0.0):
        return d_w <= real(0.0) and d_x <= real(0.0) and d_y <= real(0.0) and d_z <= real(0.0)
    return False


@func(inline=False)
def reduce(simplex: Simplex, w: vec3) -> Simplex:
    """The smallest part of the simplex and the new vertex w that holds the point nearest to the origin."""
    best = Simplex()
    best.square = wp.dot(w, w)
    best.v = w
    best.count = 1
    best.vertex[0] = w
    n = simplex.count
    i = wp.int32(0)
    while i < n:
        x = simplex.vertex[i]
        e = x - w
        s = wp.dot(e, e)
        if s > real(0.0):
            along = -wp.dot(w, e) / s
            if along > real(0.0) and along <= real(1.0):
                best = keep(best, w + along * e, 2, w, x, x)
        j = i + 1
        while j < n:
            best = try_triangle(best, w, x, simplex.vertex[j])
            j += 1
        i += 1
    if n == 3:
        best.encloses = encloses(w, simplex.vertex[0], simplex.vertex[1], simplex.vertex[2])
    return best


@func
def apart(pair: Pair, motion: Nearing, n: vec3, bound: real, distance: real, bias: real) -> wp.bool:
    """Whether the geoms cannot touch within a step.

    `bound` is the separation of the cores along n, a lower bound of their distance, and `distance` an upper bound. The
    normal of a contact has a separation within `bias` of the distance. This bounds the angle between this normal and n:
    its cosine is at least (bound − bias)/distance.
    """
    phi = bound - radius(pair.a) - radius(pair.b)
    if phi <= motion.margin or distance <= real(0.0):
        return False
    off = wp.sqrt(real(2.0) * (wp.max(distance - bound, real(0.0)) + bias) / distance)
    return phi > reach_along(motion, n, off)


@func(inline=False)
def nearest(table: MeshTable, pair: Pair, motion: Nearing, bias: real) -> Nearest:
    """GJK: the point of D nearest to the origin. The search ends early if the motion leaves the geoms `apart`."""
    result = Nearest()
    v = motion.first
    if wp.dot(v, v) == real(0.0):
        v = pair.p
    if wp.dot(v, v) == real(0.0):
        v = vec3(real(1.0), real(0.0), real(0.0))
    result.n = wp.normalize(v)
    v = lowest(table, pair, result.n)
    result.bound = wp.dot(result.n, v)
    simplex = Simplex()
    simplex.vertex[0] = v
    simplex.count = 1
    simplex.v = v
    simplex.square = wp.dot(v, v)
    if apart(pair, motion, result.n, result.bound, wp.sqrt(simplex.square), bias):
        result.status = 1
        return result
    k = wp.int32(0)
    while k < GJK_ITERATIONS:
        distance = wp.sqrt(simplex.square)
        if distance <= real(touching) * pair.size:
            result.status = 2
            return result
        n = simplex.v / distance
        w = lowest(table, pair, n)
        bound = wp.dot(n, w)
        if bound > result.bound:
            result.bound = bound
            result.n = n
        if apart(pair, motion, n, bound, distance, bias):
            result.status = 1
            return result
        if distance - bound <= real(converged) * pair.size:
            return result
        next = reduce(simplex, w)
        if next.encloses:
            result.status = 2
            return result
        if next.square >= simplex.square:
            return result
        simplex = next
        k += 1
    return result


@func(inline=False)
def add_face(
    vertex: wp.array(dtype=vec3),
    face: wp.array(dtype=wp.vec3i),
    normal: wp.array(dtype=vec3),
    distance: wp.array(dtype=real),
    f: wp.int32,
    i: wp.int32,
    j: wp.int32,
    k: wp.int32,
):
    """Write face f with its plane. A sliver gets a plane that is never chosen and never seen."""
    e = vertex[j] - vertex[i]
    g = vertex[k] - vertex[i]
    n = wp.cross(e, g)
    square = wp.dot(n, n)
    face[f] = wp.vec3i(i, j, k)
    if square > real(sliver) * wp.dot(e, e) * wp.dot(g, g):
        n = n / wp.sqrt(square)
        normal[f] = n
        distance[f] = wp.dot(n, vertex[i])
    else:
        normal[f] = vec3(real(0.0), real(0.0), real(0.0))
        distance[f] = real(1e30)


@func(inline=False)
def farther_across(table: MeshTable, pair: Pair, x: vec3, u: vec3, d: vec3, best: vec3) -> vec3:
    """The farthest from the line through x along u: the support point along d, along −d, or `best`."""
    k = wp.int32(0)
    while k < 2:
        w = lowest(table, pair, real(2 * k - 1) * d)
        if wp.length(wp.cross(u, w - x)) > wp.length(wp.cross(u, best - x)):
            best = w
        k += 1
    return best


@func(inline=False)
def first_tetrahedron(table: MeshTable, pair: Pair, vertex: wp.array(dtype=vec3)):
    """Four extreme points of D that span a volume (Quickhull's start)."""
    widest = real(-1.0)
    i = wp.int32(0)
    while i < 3:
        d = vec3(real(0.0), real(0.0), real(0.0))
        d[i] = real(1.0)
        w = lowest(table, pair, d)
        x = lowest(table, pair, -d)
        if wp.length(w - x) > widest:
            widest = wp.length(w - x)
            vertex[0] = w
            vertex[1] = x
        i += 1
    u = wp.normalize(vertex[1] - vertex[0])
    e = vec3(real(0.0), real(0.0), real(0.0))
    if wp.abs(u[0]) <= wp.abs(u[1]) and wp.abs(u[0]) <= wp.abs(u[2]):
        e[0] = real(1.0)
    elif wp.abs(u[1]) <= wp.abs(u[2]):
        e[1] = real(1.0)
    else:
        e[2] = real(1.0)
    e = wp.normalize(wp.cross(u, e))
    best = farther_across(table, pair, vertex[0], u, e, vertex[0])
    best = farther_across(table, pair, vertex[0], u, wp.cross(u, e), best)
    vertex[2] = best
    n = wp.normalize(wp.cross(vertex[1] - vertex[0], best - vertex[0]))
    w = lowest(table, pair, n)
    x = lowest(table, pair, -n)
    vertex[3] = w
    if wp.dot(n, x - best) > wp.dot(n, best - w):
        vertex[3] = x


@func(inline=False)
def add_horizon(edge: wp.array(dtype=wp.vec2i), count: wp.int32, i: wp.int32, j: wp.int32) -> wp.int32:
    """Add the directed edge i → j of a seen face, or remove its twin j → i. The edges that remain are the horizon."""
    k = wp.int32(0)
    while k < count:
        if edge[k][0] == j and edge[k][1] == i:
            edge[k] = edge[count - 1]
            return count - 1
        k += 1
    if count < MAX_HORIZON:
        edge[count] = wp.vec2i(i, j)
    return count + 1


@func(inline=False)
def grow(table: MeshTable, pair: Pair) -> Deepest:
    """One run of EPA."""
    vertex = wp.zeros(shape=(MAX_VERTICES,), dtype=vec3)
    face = wp.zeros(shape=(MAX_FACES,), dtype=wp.vec3i)
    normal = wp.zeros(shape=(MAX_FACES,), dtype=vec3)
    distance = wp.zeros(shape=(MAX_FACES,), dtype=real)
    edge = wp.zeros(shape=(MAX_HORIZON,), dtype=wp.vec2i)
    first_tetrahedron(table, pair, vertex)
    vertices = wp.int32(4)
    faces = wp.int32(4)
    flip = wp.dot(wp.cross(vertex[1] - vertex[0], vertex[2] - vertex[0]), vertex[3] - vertex[0]) > real(0.0)
    if flip:
        w = vertex[1]
        vertex[1] = vertex[2]
        vertex[2] = w
    add_face(vertex, face, normal, distance, 0, 0, 1, 2)
    add_face(vertex, face, normal, distance, 1, 0, 3, 1)
    add_face(vertex, face, normal, distance, 2, 1, 3, 2)
    add_face(vertex, face, normal, distance, 3, 2, 3, 0)
    best = Deepest()
    best.n = vec3(real(0.0), real(0.0), real(1.0))
    best.height = real(1e30)
    k = wp.int32(0)
    while k < EPA_ITERATIONS:
        nearest_face = wp.int32(0)
        f = wp.int32(1)
        while f < faces:
            if distance[f] < distance[nearest_face]:
                nearest_face = f
            f += 1
        n = normal[nearest_face]
        if wp.dot(n, n) < real(0.5):
            return best
        w = lowest(table, pair, -n)
        height = wp.dot(n, w)
        if height < best.height:
            best.height = height
            best.n = -n
        if best.height - distance[nearest_face] <= real(epa_converged) * pair.size:
            best.converged = True
            return best
        count = wp.int32(0)
        f = wp.int32(0)
        while f < faces:
            if f == nearest_face or wp.dot(normal[f], w) - distance[f] > real(visible) * pair.size:
                count = add_horizon(edge, count, face[f][0], face[f][1])
                count = add_horizon(edge, count, face[f][1], face[f][2])
                count = add_horizon(edge, count, face[f][2], face[f][0])
                faces -= 1
                if nearest_face == f:
                    nearest_face = wp.int32(-1)
                elif nearest_face == faces:
                    nearest_face = f
                face[f] = face[faces]
                normal[f] = normal[faces]
                distance[f] = distance[faces]
            else:
                f += 1
            if count > MAX_HORIZON:
                return best
        if vertices == MAX_VERTICES or faces + count > MAX_FACES or count == 0:
            return best
        vertex[vertices] = w
        i = wp.int32(0)
        while i < count:
            add_face(vertex, face, normal, distance, faces + i, edge[i][0], edge[i][1], vertices)
            i += 1
        vertices += 1
        faces += count
        k += 1
    return best


@func(inline=False)
def deepest(table: MeshTable, pair: Pair) -> vec3:
    """EPA: the unit normal from A into B along which the least motion separates the cores.

    Coplanar facets may break the polytope. Then the run is repeated with D grown by a ball: all separations shrink by
    the ball's radius, so the normal is the same, and no four support points lie in a plane.
    """
    best = grow(table, pair)
    if not best.converged:
        rounded = Pair()
        rounded.a = pair.a
        rounded.b = pair.b
        rounded.q = pair.q
        rounded.p = pair.p
        rounded.size = pair.size
        rounded.rounding = real(ROUNDED) * pair.size
        again = grow(table, rounded)
        if again.height - rounded.rounding < best.height:
            return again.n
    return best.n
