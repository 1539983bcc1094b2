# SPDX-License-Identifier: Apache-2.0
"""Rays against single shapes.

A ray is origin + t direction in the geom's frame, with a unit direction. Each function finds the smallest t >= 0 at
which the ray crosses the shape's surface. From inside a shape the ray hits the far side, as in MuJoCo. Of a mesh, the
triangles whose bounds the ray meets are tested (Moeller and Trumbore 1997).
"""

import warp as wp

from ..real import func, real, struct, vec3
from .narrow.manifold import BOX, CAPSULE, CYLINDER, ELLIPSOID, PLANE, SPHERE

MISS = -1.0  # distance of a ray that hits nothing
MARGIN = 1e-5  # of the bounds of triangles, relative to the mesh's radius: more than float32 rounds on a ray


@struct
class Triangles:
    """Triangles of all meshes. `tree` has a bounding volume hierarchy (`wp.Bvh`) of the triangles of each mesh."""

    vertex: wp.array(dtype=vec3)
    face: wp.array2d(dtype=int)
    mesh_start: wp.array(dtype=int)  # (meshes + 1,) first face of each mesh
    geom_mesh: wp.array(dtype=int)
    tree: wp.array(dtype=wp.uint64)


@struct
class Hit:
    t: real
    normal: vec3


@func
def miss() -> Hit:
    hit = Hit()
    hit.t = real(MISS)
    return hit


@func
def nearest(a: real, b: real) -> real:
    """The smaller of the roots a <= b that is not negative, or MISS."""
    if a >= real(0.0):
        return a
    if b >= real(0.0):
        return b
    return real(MISS)


@func
def ray_plane(o: vec3, d: vec3) -> Hit:
    """The plane z = 0, which only rays from above hit."""
    hit = miss()
    if d[2] < real(0.0) and o[2] >= real(0.0):
        hit.t = -o[2] / d[2]
        hit.normal = vec3(real(0.0), real(0.0), real(1.0))
    return hit


@func
def ray_ellipsoid(o: vec3, d: vec3, size: vec3) -> Hit:
    hit = miss()
    p = wp.cw_div(o, size)
    u = wp.cw_div(d, size)
    a = wp.dot(u, u)
    b = wp.dot(u, p)
    c = wp.dot(p, p) - real(1.0)
    root = b * b - a * c
    if root >= real(0.0):
        s = wp.sqrt(root)
        hit.t = nearest((-b - s) / a, (-b + s) / a)
        if hit.t >= real(0.0):
            hit.normal = wp.normalize(wp.cw_div(p + hit.t * u, size))
    return hit


@func
def ray_sphere(o: vec3, d: vec3, radius: real) -> Hit:
    return ray_ellipsoid(o, d, vec3(radius, radius, radius))


@func
def side_roots(o: vec3, d: vec3, radius: real) -> vec3:
    """(found, first t, last t) at which the ray crosses the infinite cylinder around z; found is 1 or 0."""
    a = d[0] * d[0] + d[1] * d[1]
    b = o[0] * d[0] + o[1] * d[1]
    c = o[0] * o[0] + o[1] * o[1] - radius * radius
    root = b * b - a * c
    if a <= real(0.0) or root < real(0.0):
        return vec3(real(0.0), real(0.0), real(0.0))
    s = wp.sqrt(root)
    return vec3(real(1.0), (-b - s) / a, (-b + s) / a)


@func
def closer(best: Hit, t_new: real, normal: vec3) -> Hit:
    """The nearer of a hit and a candidate at t_new >= 0."""
    hit = best
    if t_new >= real(0.0) and (best.t < real(0.0) or t_new < best.t):
        hit.t = t_new
        hit.normal = normal
    return hit


@func
def side_hit(best: Hit, o: vec3, d: vec3, half: real, t_new: real) -> Hit:
    """Hit of the side of a cylinder or capsule at t_new, if it lies within the length."""
    x = o + t_new * d
    hit = best
    if wp.abs(x[2]) <= half:
        hit = closer(best, t_new, wp.normalize(vec3(x[0], x[1], real(0.0))))
    return hit


@func
def end_hit(best: Hit, o: vec3, d: vec3, radius: real, half: real, end: real) -> Hit:
    """Hit of the outer half sphere at one end of a capsule."""
    centre = vec3(real(0.0), real(0.0), end * half)
    p = o - centre
    b = wp.dot(p, d)
    root = b * b - (wp.dot(p, p) - radius * radius)
    hit = best
    if root >= real(0.0):
        s = wp.sqrt(root)
        for k in range(2):
            t_new = -b + (real(2.0) * real(k) - real(1.0)) * s
            x = p + t_new * d
            if x[2] * end >= real(0.0):
                hit = closer(hit, t_new, x / radius)
    return hit


@func
def ray_capsule(o: vec3, d: vec3, size: vec3) -> Hit:
    hit = miss()
    side = side_roots(o, d, size[0])
    if side[0] > real(0.0):
        hit = side_hit(hit, o, d, size[1], side[1])
        hit = side_hit(hit, o, d, size[1], side[2])
    hit = end_hit(hit, o, d, size[0], size[1], real(-1.0))
    return end_hit(hit, o, d, size[0], size[1], real(1.0))


@func
def cap_hit(best: Hit, o: vec3, d: vec3, size: vec3, end: real) -> Hit:
    """Hit of one flat end of a cylinder."""
    hit = best
    if d[2] != real(0.0):
        t_new = (end * size[1] - o[2]) / d[2]
        x = o + t_new * d
        if x[0] * x[0] + x[1] * x[1] <= size[0] * size[0]:
            hit = closer(best, t_new, vec3(real(0.0), real(0.0), end))
    return hit


@func
def ray_cylinder(o: vec3, d: vec3, size: vec3) -> Hit:
    hit = miss()
    side = side_roots(o, d, size[0])
    if side[0] > real(0.0):
        hit = side_hit(hit, o, d, size[1], side[1])
        hit = side_hit(hit, o, d, size[1], side[2])
    hit = cap_hit(hit, o, d, size, real(-1.0))
    return cap_hit(hit, o, d, size, real(1.0))


@func
def face_hit(best: Hit, o: vec3, d: vec3, size: vec3, i: int, j: int, k: int, sign: real) -> Hit:
    """Hit of one face of a box with its normal along axis i; j and k are the other axes."""
    hit = best
    if d[i] != real(0.0):
        t_new = (sign * size[i] - o[i]) / d[i]
        x = o + t_new * d
        if wp.abs(x[j]) <= size[j] and wp.abs(x[k]) <= size[k]:
            normal = vec3(real(0.0), real(0.0), real(0.0))
            normal[i] = sign
            hit = closer(best, t_new, normal)
    return hit


@func
def ray_box(o: vec3, d: vec3, size: vec3) -> Hit:
    hit = miss()
    for i in range(3):
        j = (i + 1) % 3
        k = (i + 2) % 3
        hit = face_hit(hit, o, d, size, i, j, k, real(-1.0))
        hit = face_hit(hit, o, d, size, i, j, k, real(1.0))
    return hit


@func
def ray_primitive(o: vec3, d: vec3, kind: int, size: vec3) -> Hit:
    """Hit of a shape that its size describes; none for meshes and height fields."""
    hit = miss()
    if kind == PLANE:
        hit = ray_plane(o, d)
    elif kind == SPHERE:
        hit = ray_sphere(o, d, size[0])
    elif kind == CAPSULE:
        hit = ray_capsule(o, d, size)
    elif kind == ELLIPSOID:
        hit = ray_ellipsoid(o, d, size)
    elif kind == CYLINDER:
        hit = ray_cylinder(o, d, size)
    elif kind == BOX:
        hit = ray_box(o, d, size)
    return hit


@func
def triangle_hit(best: Hit, o: vec3, d: vec3, a: vec3, b: vec3, c: vec3) -> Hit:
    """Hit of a triangle from either side; its normal is (b - a) x (c - a)."""
    hit = best
    e1 = b - a
    e2 = c - a
    p = wp.cross(d, e2)
    det = wp.dot(e1, p)
    if det != real(0.0):
        r = o - a
        u = wp.dot(r, p) / det
        q = wp.cross(r, e1)
        v = wp.dot(d, q) / det
        if u >= real(0.0) and v >= real(0.0) and u + v <= real(1.0):
            hit = closer(best, wp.dot(e2, q) / det, wp.normalize(wp.cross(e1, e2)))
    return hit


@func
def single(v: vec3) -> wp.vec3f:
    return wp.vec3f(wp.float32(v[0]), wp.float32(v[1]), wp.float32(v[2]))


@func
def ray_mesh(o: vec3, d: vec3, triangles: Triangles, mesh: int, radius: real) -> Hit:
    """Hit of a mesh within `radius` of the origin.

    The tree is in float32, so the ray begins near the sphere of that radius. Triangles are tested in `real`.
    """
    before = wp.max(real(0.0), -wp.dot(o, d) - radius * real(1.0 + MARGIN))
    start = o + before * d
    margin = wp.float32(radius) * wp.float32(2.0 * MARGIN)
    best = miss()
    farthest = wp.float32(wp.inf)
    f = int(0)
    query = wp.bvh_query_ray(triangles.tree[mesh], single(start), single(d))
    while wp.bvh_query_next(query, f, farthest):
        row = triangles.mesh_start[mesh] + f
        a = triangles.vertex[triangles.face[row, 0]]
        b = triangles.vertex[triangles.face[row, 1]]
        c = triangles.vertex[triangles.face[row, 2]]
        best = triangle_hit(best, start, d, a, b, c)
        if best.t >= real(0.0):
            farthest = wp.float32(best.t) + margin
    if best.t >= real(0.0):
        best.t += before
    return best
