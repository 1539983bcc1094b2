# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic contact of a sphere with a plane, one of them soft, in closed form.

There are no facets: a rolling ball would feel them, and a light one would sink between them. The sphere has the radius
R, its centre the height s above the plane; the depth is d = R − |s|. A soft sphere has the pressure E (1 − |x|/R) on
the disc in which the plane cuts it. A soft layer of thickness t has the pressure E z/t at the depth z, on the sphere's
cap. The integrals over disc or cap are as follows; ρ²/2 stands for the second moment about one axis across n̄:

    sphere soft   F = πE d² (1 − 2d/(3R))     K = 2πE |s| d/R
                  ∫ k ρ²/2 = πE (|s|/R) d² (R − 2d/3)
                  ∫ p ρ²/2 = (πE/R) d³ (s²/3 + |s| d/4 + d²/20)
    layer soft    F = (πE/t) d² (R − d/3)     K = 2πE/(3tR) d (3R² − 3Rd + d²)
                  ∫ k ρ²/2 = πE/(tR) d² (R³ − 5R²d/3 + Rd² − d³/5)
                  ∫ p ρ²/2 = (πE/t) d³ (R²/3 − R d/4 + d²/20)

k = g dA is the stiffness across the surface, and K = ∫ k n·n̄. F(d) is exact at every depth. K, as for polygons, is at
least a twentieth of the K of the field's full slope. `patches.add_points` makes the contact points from these sums.
"""

import warp as wp

from ...flags import DEEP_PRESSURE
from ...linalg.lanes import lane
from ...number.num import num, num3, num_transform
from ...real import func, kernel, real, struct, transform
from ..narrow.manifold import SPHERE
from ..pair_laws import Contacts, Material, Scene, geom_dissipation_time
from .fields import Fields, Side, Sizes, side_of
from .find_polygons import DEEP, Polygons, sides_flag, sign_of, soft_first
from .patches import Patch, Sums, add_points
from .polygon import LEAST_SLOPE


@struct
class Cap:
    """Sums of a sphere on a plane: F, K, and the second moments of k (`spread`) and p (`pressed`) about one axis.

    `height` is the height of the centre of stiffness above the sphere's centre.
    """

    F: num
    K: num
    spread: num
    pressed: num
    height: num
    deepest: num  # largest p/E


@func
def soft_sphere(E: num, R: num, s: num) -> Cap:
    cap = Cap()
    s_abs = wp.abs(s)
    d = R - s_abs
    pi_E = num(wp.pi) * E
    cap.F = pi_E * d * d * (num(1.0) - num(2.0) / num(3.0) * d / R)
    cap.K = num(2.0) * pi_E * s_abs * d / R
    cap.spread = pi_E * (s_abs / R) * d * d * (R - num(2.0) / num(3.0) * d)
    cap.pressed = (pi_E / R) * d * d * d * (s * s / num(3.0) + s_abs * d / num(4.0) + d * d / num(20.0))
    cap.height = -s
    cap.deepest = d / R
    area = num(wp.pi) * d * (R + s_abs)
    least = num(LEAST_SLOPE) * (E / R) * area
    if cap.K < least:
        cap.spread = num(0.25) * least * area / num(wp.pi)
        cap.K = least
    return cap


@func
def soft_layer(E: num, t: num, R: num, s: num) -> Cap:
    cap = Cap()
    depth = wp.min(R - s, num(2.0) * R)
    d = wp.min(depth, R)  # above the equator the sphere's surface faces the other way
    pi_E = num(wp.pi) * E / t
    cap.F = pi_E * depth * depth * (R - depth / num(3.0))
    around = num(3.0) * R * R - num(3.0) * R * d + d * d
    cap.K = num(2.0) / num(3.0) * pi_E * d * around / R
    cap.spread = (pi_E / R) * d * d * (R * R * R - num(5.0) / num(3.0) * R * R * d + R * d * d - d * d * d / num(5.0))
    cap.pressed = pi_E * depth * depth * depth * (R * R / num(3.0) - R * depth / num(4.0) + depth * depth / num(20.0))
    cap.height = -num(0.75) * (num(4.0) * R * R * R - num(6.0) * R * R * d + num(4.0) * R * d * d - d * d * d) / around
    cap.deepest = depth / t
    return cap


@func
def cap_patch(up: num3, across: num3, centre: num3, height: num, soft_ball: bool) -> Patch:
    """Patch with n̄ into the soft geom, from the plane's normal `up`, its x axis `across`, and the sphere's centre.

    The axes are the plane's, so that they do not turn with a rolling ball.
    """
    patch = Patch()
    patch.normal = up
    if not soft_ball:
        patch.normal = -up
    patch.t = across
    patch.u = wp.cross(patch.normal, patch.t)
    patch.centre = centre + height * up
    return patch


@func
def cap_sums(cap: Cap, patch: Patch, tau: num) -> Sums:
    across = wp.outer(patch.t, patch.t) + wp.outer(patch.u, patch.u)
    s = Sums()
    s.K = cap.K
    s.Kxx = cap.spread * across
    s.Ktau = cap.K * tau
    s.f = cap.F
    s.fxx = cap.pressed * across
    s.force = cap.F * patch.normal
    return s


@func
def plane_and_centre(fields: Fields, X: num_transform, s: int):
    """Plane's normal and x axis, sphere's centre and its height above the plane, in the frame of S.

    X is the pose of O in this frame.
    """
    up = num3(num(0.0), num(0.0), num(1.0))
    across = num3(num(1.0), num(0.0), num(0.0))
    centre = wp.transform_get_translation(X)
    height = centre[2]
    if fields.geom_type[s] == SPHERE:
        up = wp.transform_vector(X, up)
        across = wp.transform_vector(X, across)
        height = -wp.dot(up, centre)
        centre = num3()
    return up, across, centre, height


@func
def cap_of(fields: Fields, side_s: Side, side_o: Side, s: int, height: num) -> Cap:
    """The cap at this height of the centre. F is 0 if the geoms are apart, or a soft sphere is below the plane."""
    cap = Cap()
    if fields.geom_type[s] == SPHERE:
        R = side_s.form.size[0]
        if wp.abs(height) < R:
            cap = soft_sphere(side_s.modulus, R, height)
    else:
        R = side_o.form.size[0]
        if height < R:
            cap = soft_layer(side_s.modulus, side_s.form.thickness, R, height)
    return cap


@kernel(lanes=True)
def add_caps(
    scene: Scene,
    fields: Fields,
    sizes: Sizes,
    material: Material,
    default_tau: real,
    points: int,
    geom_X: wp.array2d(dtype=transform),
    geom_speed: wp.array2d(dtype=real),
    # in and out
    polygons: Polygons,
    contacts: Contacts,
):
    """Append four or five contact points for every sphere on a plane. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    count = contacts.count[w]
    flags = int(0)
    patches = int(0)
    depth = polygons.depth[w]
    for k in range(fields.pair.shape[0]):
        p = fields.pair[k]
        s, o = soft_first(fields, scene, p)
        if fields.cap[k] == 1 and geom_speed[w, s] >= real(0.0) and geom_speed[w, o] >= real(0.0):
            side_s = side_of(fields, sizes, w, s)
            side_o = side_of(fields, sizes, w, o)
            flags = flags | sides_flag(side_s, side_o)
            X_s = geom_X[w, s]
            up, across, centre, height = plane_and_centre(fields, wp.transform_inverse(X_s) * geom_X[w, o], s)
            cap = cap_of(fields, side_s, side_o, s, height)
            if cap.F > real(0.0):
                sign = sign_of(scene, p, s)
                patch = cap_patch(up, across, centre, cap.height, fields.geom_type[s] == SPHERE)
                tau = geom_dissipation_time(material.dissipation_time, w, s, default_tau)
                count, more = add_points(
                    points, w, p, wp.vec2i(0, 0), X_s, sign, patch, cap_sums(cap, patch, tau), count, contacts
                )  # fmt: skip
                flags = flags | more
                patches += 1
                depth = wp.max(depth, cap.deepest)
    if depth > real(DEEP):
        flags = flags | DEEP_PRESSURE
    if lane() == 0:
        polygons.depth[w] = depth
        polygons.patches[w] = polygons.patches[w] + patches
    contacts.count[w] = count
    contacts.flags[w] = contacts.flags[w] | flags
