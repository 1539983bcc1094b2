# SPDX-License-Identifier: Apache-2.0
"""Ray casts against the geoms of a world: the nearest hit, its geom and its outward normal.

One thread per ray. The cost is rays x geoms whose bounding sphere the ray meets; that of a mesh grows with the
logarithm of its number of triangles.
"""

import warp as wp

from ..real import func, kernel, mat33, real, struct, transform, vec3
from .narrow.manifold import HEIGHT_FIELD, MESH, PLANE
from .narrow.shape import bounding_radius
from .ray import MARGIN, Hit, Triangles, miss, ray_mesh, ray_primitive
from .ray_field import Fields, ray_field


@func
def may_hit(o: vec3, d: vec3, kind: int, size: vec3) -> bool:
    """Whether a ray meets the bounding sphere of a geom, with a margin for float32 rounding.

    Planes and height fields have no bounding sphere: the result is True.
    """
    if kind == PLANE or kind == HEIGHT_FIELD:
        return True
    radius = bounding_radius(kind, size) * real(1.0 + 1e-5)
    along = wp.dot(o, d)
    return wp.dot(o, o) - along * along <= radius * radius * real(1.0 + 1e-5) + real(1e-6) * wp.dot(o, o)


@func
def ray_geom(o: vec3, d: vec3, kind: int, size: vec3, triangles: Triangles, fields: Fields, g: int) -> Hit:
    """Hit of a geom, for a ray in the geom's axes."""
    hit = miss()
    if may_hit(o, d, kind, size):
        if kind == MESH:
            hit = ray_mesh(o, d, triangles, triangles.geom_mesh[g], bounding_radius(kind, size))
        elif kind == HEIGHT_FIELD:
            hit = ray_field(o, d, fields, fields.geom_field[g])
        else:
            hit = ray_primitive(o, d, kind, size)
    return hit


@struct
class Rays:
    """Rays in the frame of a link (-1: in the world), and the geoms that they may hit."""

    link: int
    origin: wp.array2d(dtype=vec3)
    direction: wp.array2d(dtype=vec3)
    reach: real  # [m]
    candidate: wp.array(dtype=int)  # geoms


@kernel
def cast(
    geom_type: wp.array(dtype=int),
    geom_size: wp.array2d(dtype=vec3),
    geom_X: wp.array2d(dtype=transform),
    triangles: Triangles,
    fields: Fields,
    link_X: wp.array2d(dtype=transform),
    rays: Rays,
    # out
    distance: wp.array2d(dtype=real),
    geom: wp.array2d(dtype=int),
    normal: wp.array2d(dtype=vec3),
):
    """Nearest hit of each ray within its reach among the candidate geoms.

    Launch over (worlds, rays).
    """
    w, r = wp.tid()
    o = rays.origin[w % rays.origin.shape[0], r]
    d = wp.normalize(rays.direction[w % rays.direction.shape[0], r])
    if rays.link >= 0:
        o = wp.transform_point(link_X[w, rays.link], o)
        d = wp.transform_vector(link_X[w, rays.link], d)
    best = miss()
    found = int(-1)
    for i in range(rays.candidate.shape[0]):
        g = rays.candidate[i]
        X = wp.transform_inverse(geom_X[w, g])
        o_geom = wp.transform_point(X, o)
        d_geom = wp.transform_vector(X, d)
        size = geom_size[w % geom_size.shape[0], g]
        hit = ray_geom(o_geom, d_geom, geom_type[g], size, triangles, fields, g)
        if hit.t >= real(0.0) and hit.t <= rays.reach and (best.t < real(0.0) or hit.t < best.t):
            best.t = hit.t
            best.normal = wp.transform_vector(geom_X[w, g], hit.normal)
            found = g
    distance[w, r] = best.t
    geom[w, r] = found
    normal[w, r] = best.normal


@kernel(part="mesh")
def cast_at_meshes(
    origin: wp.array(dtype=vec3),  # (rays,) or (1,)
    direction: wp.array(dtype=vec3),  # (rays,) or (1,)
    triangles: Triangles,
    mesh: wp.array(dtype=int),
    radius: wp.array(dtype=real),
    centre: wp.array(dtype=vec3),
    turn: wp.array(dtype=mat33),
    # in and out
    distance: wp.array(dtype=real),
    # out
    owner: wp.array(dtype=int),
    normal: wp.array(dtype=vec3),
):
    """The nearest hit of each ray with placed meshes, if it is nearer than `distance`: which mesh (-1: none), and the
    normal towards the ray's origin. Launch over the rays."""
    r = wp.tid()
    o = origin[r % origin.shape[0]]
    d = direction[r % direction.shape[0]]
    best = distance[r]
    found = int(-1)
    for i in range(mesh.shape[0]):
        away = o - centre[i]
        along = -wp.dot(away, d)
        reach = radius[i] * real(1.0 + MARGIN)
        if along - reach < best and wp.dot(away, away) - along * along <= reach * reach:
            back = wp.transpose(turn[i])
            hit = ray_mesh(back * away, back * d, triangles, mesh[i], radius[i])
            if hit.t >= real(0.0) and hit.t < best:
                best = hit.t
                found = i
                n = turn[i] * hit.normal
                normal[r] = wp.where(wp.dot(n, d) > real(0.0), -n, n)
    distance[r] = best
    owner[r] = found
