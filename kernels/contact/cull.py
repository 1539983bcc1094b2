# SPDX-License-Identifier: Apache-2.0
"""Culling of pairs: capsules around geoms show which pairs cannot meet within a step.

Every geom but a plane lies within a capsule with its middle m at the geom's origin, a half axis a and a radius r. For
any unit vector n, the distance of two capsules is at least n·(m_b − m_a) − |n·a_a| − |n·a_b| − r_a − r_b. The bound is
exact for n along the line between their nearest points (Ericson, Real-Time Collision Detection, §5.1.9). So no pair
that may meet is culled. For spheres, capsules and planes the test is exact.
"""

import warp as wp

from .. import real as device
from ..linalg.vector import scalar
from ..real import func, real, transform, vec3, vec5
from .narrow.manifold import BOX, CAPSULE, CYLINDER, ELLIPSOID, GENERAL, MESH, PLANE
from .narrow.shape import bounding_radius, half_extents

NEXT = """
const SCALAR* poses = (const SCALAR*)geom_X.data;
const SCALAR* capsules = (const SCALAR*)geom_capsule.data;
int last = -1;
const SCALAR *X = poses, *u = capsules;
SCALAR fast_a = 0;
bool plane = false;
for (; k < pairs; ++k) {
    const int p = candidates < 0 ? k : candidate.data[candidates + k];
    const int a = pair_geom.data[2 * p], b = pair_geom.data[2 * p + 1];
    if (a != last) {
        last = a;
        X = poses + 7 * a;
        u = capsules + 5 * a;
        fast_a = geom_speed.data[a];
        plane = geom_type.data[a] == PLANE;
    }
    const SCALAR fast_b = geom_speed.data[b];
    const SCALAR* Y = poses + 7 * b;
    const SCALAR* v = capsules + 5 * b;
    const SCALAR d0 = Y[0] - X[0], d1 = Y[1] - X[1], d2 = Y[2] - X[2];
    const SCALAR near = h * (fast_a + fast_b);
    const SCALAR far = near + u[4] + v[4];
    if (!plane && d0 * d0 + d1 * d1 + d2 * d2 > far * far) continue;  // most pairs
    if ((GENERAL >> geom_type.data[a] | GENERAL >> geom_type.data[b]) & 1 ^ general) continue;
    if (!(fast_a >= 0 && fast_b >= 0)) continue;
    SCALAR n0, n1, n2, length = 1, reach = near + v[3];
    if (plane) {
        n0 = 2 * (X[3] * X[5] + X[6] * X[4]);
        n1 = 2 * (X[4] * X[5] - X[6] * X[3]);
        n2 = 1 - 2 * (X[3] * X[3] + X[4] * X[4]);
    } else {
        const SCALAR uu = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
        const SCALAR vv = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
        const SCALAR uv = u[0] * v[0] + u[1] * v[1] + u[2] * v[2];
        const SCALAR ud = u[0] * d0 + u[1] * d1 + u[2] * d2;
        const SCALAR vd = v[0] * d0 + v[1] * d1 + v[2] * d2;
        const SCALAR cross = uu * vv - uv * uv;
        SCALAR s = cross > 0 ? (ud * vv - uv * vd) / cross : 0, t = 0;
        s = s > 1 ? 1 : s < -1 ? -1 : s;
        if (vv > 0) t = (uv * s - vd) / vv;
        t = t > 1 ? 1 : t < -1 ? -1 : t;
        if (uu > 0) s = (uv * t + ud) / uu;
        s = s > 1 ? 1 : s < -1 ? -1 : s;
        n0 = d0 + t * v[0] - s * u[0];
        n1 = d1 + t * v[1] - s * u[1];
        n2 = d2 + t * v[2] - s * u[2];
        length = n0 * n0 + n1 * n1 + n2 * n2;
        reach += u[3];
        if (length <= reach * reach) return k;
        length = wp::sqrt(length);
        reach += wp::abs(n0 * u[0] + n1 * u[1] + n2 * u[2]) / length;
    }
    const SCALAR along = n0 * v[0] + n1 * v[1] + n2 * v[2];
    if ((n0 * d0 + n1 * d1 + n2 * d2 - wp::abs(along)) / length > reach) continue;
    return k;
}
return pairs;
"""


NEXT = NEXT.replace("SCALAR", scalar).replace("GENERAL", str(int(GENERAL))).replace("PLANE", str(int(PLANE)))


@device.func_native(NEXT)
def next_candidate(
    general: int,
    pair_geom: wp.array2d(dtype=int),
    candidate: wp.array1d(dtype=int),
    candidates: int,
    geom_type: wp.array1d(dtype=int),
    geom_X: wp.array1d(dtype=transform),
    geom_capsule: wp.array1d(dtype=vec5),
    geom_speed: wp.array1d(dtype=real),
    h: real,
    k: int,
    pairs: int,
) -> int:
    """The first index from k on of a pair that may meet within h, or `pairs` if there is none.

    With `general` 1 only pairs with a general shape count (`manifold.is_general`), with 0 only the others. An index
    counts in the list `candidate` from `candidates` on, or in the pair table if `candidates` is negative. Geoms
    without a valid speed (of an inactive body, or not finite) meet nothing.
    """
    ...


@func
def geom_bound(type: int, X: transform, size: vec3) -> vec5:
    """Capsule around a geom: half axis (3) in world axes, its radius, and the radius of the sphere around it.

    A plane has no capsule.
    """
    axis = vec3(real(0.0), real(0.0), real(0.0))
    radius = bounding_radius(type, size)
    if type == CAPSULE or type == CYLINDER:
        axis = wp.transform_vector(X, vec3(real(0.0), real(0.0), size[1]))
        radius = size[0]
    if type == ELLIPSOID:
        # (ρ/b)² + (z/c)² ≤ 1 lies in the capsule of radius b whose axis reaches c − b
        longest = wp.max(size)
        radius = size[0] + size[1] + size[2] - longest - wp.min(size)
        along = vec3(longest - radius, real(0.0), real(0.0))
        if size[2] == longest:
            along = vec3(real(0.0), real(0.0), longest - radius)
        elif size[1] == longest:
            along = vec3(real(0.0), longest - radius, real(0.0))
        axis = wp.transform_vector(X, along)
    if type == BOX or type == MESH:
        along = vec3(size[0], real(0.0), real(0.0))
        if size[1] >= size[0] and size[1] >= size[2]:
            along = vec3(real(0.0), size[1], real(0.0))
        elif size[2] >= size[0]:
            along = vec3(real(0.0), real(0.0), size[2])
        axis = wp.transform_vector(X, along)
        radius = wp.length(size - along)
    return vec5(axis[0], axis[1], axis[2], radius, radius + wp.length(axis))


@func
def boxes_apart(type_a: int, X_a: transform, size_a: vec3, type_b: int, X_b: transform, size_b: vec3):
    """Lower bound on the distance of two geoms, and the unit vector from A to B along which it holds.

    The bound is the largest separation of the boxes around the geoms along one of their six axes. Both results are 0
    if the boxes overlap, and for a plane or a height field.
    """
    half_a = half_extents(type_a, size_a)
    half_b = half_extents(type_b, size_b)
    apart = real(0.0)
    along = vec3(real(0.0), real(0.0), real(0.0))
    if half_a[0] >= real(0.0) and half_b[0] >= real(0.0):
        R_a = wp.quat_to_matrix(wp.transform_get_rotation(X_a))
        R_b = wp.quat_to_matrix(wp.transform_get_rotation(X_b))
        d = wp.transform_get_translation(X_b) - wp.transform_get_translation(X_a)
        C = wp.transpose(R_a) * R_b
        d_a = wp.transpose(R_a) * d
        d_b = wp.transpose(R_b) * d
        for i in range(3):
            reach_a = half_a[i]
            reach_b = half_b[i]
            for j in range(3):
                reach_a += half_b[j] * wp.abs(C[i, j])
                reach_b += half_a[j] * wp.abs(C[j, i])
            if wp.abs(d_a[i]) - reach_a > apart:
                apart = wp.abs(d_a[i]) - reach_a
                along = wp.sign(d_a[i]) * vec3(R_a[0, i], R_a[1, i], R_a[2, i])
            if wp.abs(d_b[i]) - reach_b > apart:
                apart = wp.abs(d_b[i]) - reach_b
                along = wp.sign(d_b[i]) * vec3(R_b[0, i], R_b[1, i], R_b[2, i])
    return apart, along
