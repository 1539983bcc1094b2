# SPDX-License-Identifier: Apache-2.0
"""Rangefinders: the hits of rays along the z axis of sites, and their derivatives with respect to the poses of the site
and of the geom.

Near a hit, the tangent plane represents the surface and moves with the geom. Distance and point have exact first
derivatives. The normal has the derivatives of a flat surface.
"""

import warp as wp

from ..contact.narrow.manifold import PLANE
from ..contact.ray import Hit, Triangles
from ..contact.ray_cast import ray_geom
from ..contact.ray_field import Fields
from ..real import func, kernel, real, struct, transform, vec3
from ..tree.plant import Plant, placed_geom
from .frame_sensors import Frames, frame_of
from .reading import put

# Bits of the numbers that a rangefinder returns, in this order.
DISTANCE = wp.constant(0)
DIRECTION = wp.constant(1)
ORIGIN = wp.constant(2)
POINT = wp.constant(3)
NORMAL = wp.constant(4)
DEPTH = wp.constant(5)


@struct
class RaySensors:
    """The rangefinders; shared by all worlds."""

    frames: Frames
    adr: wp.array(dtype=int)
    data: wp.array(dtype=int)  # bits
    body: wp.array(dtype=int)  # body whose geoms are not seen
    candidate: wp.array(dtype=int)  # geoms that rays can see
    geom_type: wp.array(dtype=int)
    geom_body: wp.array(dtype=int)
    geom_link: wp.array(dtype=int)


@struct
class Hits:
    """The hit of each ray: the geom (-1: none), and in its axes the point and the outward normal."""

    geom: wp.array2d(dtype=int)  # (worlds, rays)
    point: wp.array2d(dtype=vec3)
    normal: wp.array2d(dtype=vec3)


@func
def within_plane(hit: Hit, kind: int, size: vec3, point: vec3) -> bool:
    """Whether a hit counts. A plane with a size is seen only within its drawn area."""
    seen = hit.t >= real(0.0)
    if kind == PLANE:
        for i in range(2):
            if size[i] > real(0.0) and wp.abs(point[i]) > size[i]:
                seen = False
    return seen


@kernel
def place_candidates(
    sensors: RaySensors,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    # out
    geom_X: wp.array2d(dtype=transform),
):
    """Transformation from the world to the axes of every geom that rays can see. Launch over (worlds, candidates)."""
    w, i = wp.tid()
    g = sensors.candidate[i]
    geom_X[w, i] = wp.transform_inverse(placed_geom(plant, link_X, w, g, sensors.geom_link[g]))


@kernel
def cast_rays(
    sensors: RaySensors,
    plant: Plant,
    triangles: Triangles,
    fields: Fields,
    link_X: wp.array2d(dtype=transform),
    geom_X: wp.array2d(dtype=transform),
    # out
    hits: Hits,
):
    """The nearest hit of each ray, after `place_candidates`. Launch over (worlds, rays)."""
    w, s = wp.tid()
    X = frame_of(sensors.frames, plant, link_X, w, s, 0)
    d = wp.transform_vector(X, vec3(real(0.0), real(0.0), real(1.0)))
    best = real(-1.0)
    hits.geom[w, s] = int(-1)
    for i in range(sensors.candidate.shape[0]):
        g = sensors.candidate[i]
        if sensors.geom_body[g] != sensors.body[s]:
            Y = geom_X[w, i]
            o = wp.transform_point(Y, wp.transform_get_translation(X))
            along = wp.transform_vector(Y, d)
            kind = sensors.geom_type[g]
            size = plant.geom_size[w % plant.geom_size.shape[0], g]
            hit = ray_geom(o, along, kind, size, triangles, fields, g)
            point = o + hit.t * along
            if within_plane(hit, kind, size, point) and (best < real(0.0) or hit.t < best):
                best = hit.t
                hits.geom[w, s] = g
                hits.point[w, s] = point
                hits.normal[w, s] = hit.normal


@kernel(twin=True)
def measure_rays(
    sensors: RaySensors,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    hits: Hits,
    # out
    data: wp.array2d(dtype=real),
):
    """Distance [m], direction, origin, point, normal and depth along the ray; without a hit -1 and zeros. Launch over
    (worlds, rays)."""
    w, s = wp.tid()
    X = frame_of(sensors.frames, plant, link_X, w, s, 0)
    origin = wp.transform_get_translation(X)
    d = wp.transform_vector(X, vec3(real(0.0), real(0.0), real(1.0)))
    t = real(-1.0)
    n = vec3(real(0.0), real(0.0), real(0.0))
    point = vec3(real(0.0), real(0.0), real(0.0))
    seen = vec3(real(0.0), real(0.0), real(0.0))
    g = hits.geom[w, s]
    if g >= 0:
        Y = placed_geom(plant, link_X, w, g, sensors.geom_link[g])
        n = wp.transform_vector(Y, hits.normal[w, s])
        t = wp.dot(n, wp.transform_point(Y, hits.point[w, s]) - origin) / wp.dot(n, d)
        point = origin + t * d
        seen = d
    chosen = sensors.data[s]
    adr = sensors.adr[s]
    if (chosen & 1) != 0:
        data[w, adr] = t
        adr = adr + 1
    adr = put(seen, chosen, DIRECTION, adr, w, data)
    adr = put(origin, chosen, ORIGIN, adr, w, data)
    adr = put(point, chosen, POINT, adr, w, data)
    adr = put(n, chosen, NORMAL, adr, w, data)
    if ((chosen >> DEPTH) & 1) != 0:
        data[w, adr] = t
