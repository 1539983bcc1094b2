# SPDX-License-Identifier: Apache-2.0
"""Contacts of a height field (geom A) with a sphere, capsule, ellipsoid, cylinder, box or mesh.

A height field is a grid of cells of two triangles. Each triangle is the top of a vertical prism, stored as a convex
mesh of the mesh table, so that the general narrow phase handles every pair and feature. The prisms under the bounding
sphere of geom B are tried in order.

Features of a prism that are not on the field's surface do not count. A contact with the top counts. Any other contact
counts only if no vertex of the cells around is farther out along the normal: else a neighbour's surface is met there.
If no contact is left, as in a narrow valley, the deepest contact with an upward normal is taken. If geom B is so deep
that a prism's wall is nearest, the contact is with the top above it. Of more than eight points the extreme ones in
directions of the field's plane are kept, and the lowest.

A feature code of A is PRISM_CODES * prism + i: vertex i < 6 (0..2 on top), edge 6 + i, face 15 + i of the prism.
"""

import warp as wp

from ...real import func, real, transform, vec3
from . import clip
from .clip import Candidates, reduce
from .convex import detect_convex
from .convex_features import evaluate as evaluate_convex
from .features import ContactGeometry
from .manifold import HEIGHT_FIELD, MESH, NO_REFERENCE, Manifold, add_contact, contact_features
from .nearing import Nearing, within
from .shape import FIRST_MESH_EDGE, FIRST_MESH_FACE, MeshTable, Shape, beyond_feature, features_toward

PRISM_CODES = wp.constant(32)
FIRST_EDGE = wp.constant(6)
FIRST_FACE = wp.constant(15)
UPWARDS = 0.05  # least upward component of the normal of a contact that is taken if no other is left
OUTER = {wp.float32: 1e-4, wp.float64: 1e-6}  # largest height of a neighbour along the normal, over the cell's width
MAX_CANDIDATES = wp.constant(48)

outer = float(OUTER[real])


@func(inline=False)
def pack(prism: wp.int32, code: wp.int32) -> wp.int32:
    """Code of a prism's feature as a feature of the field."""
    if code >= FIRST_MESH_FACE:
        return PRISM_CODES * prism + FIRST_FACE + code - FIRST_MESH_FACE
    if code >= FIRST_MESH_EDGE:
        return PRISM_CODES * prism + FIRST_EDGE + code - FIRST_MESH_EDGE
    return PRISM_CODES * prism + code


@func(inline=False)
def unpack(code: wp.int32) -> wp.int32:
    """Code of a field's feature as a feature of its prism."""
    i = code % PRISM_CODES
    if i >= FIRST_FACE:
        return FIRST_MESH_FACE + i - FIRST_FACE
    if i >= FIRST_EDGE:
        return FIRST_MESH_EDGE + i - FIRST_EDGE
    return i


@func(inline=False)
def prism_shape(table: MeshTable, field: Shape, prism: wp.int32) -> Shape:
    s = Shape()
    s.type = MESH
    s.mesh = table.field_range[field.mesh, 0] + prism
    return s


@func(inline=False)
def evaluate(
    table: MeshTable, geom_a: Shape, X_a: transform, geom_b: Shape, X_b: transform, feature: wp.vec3i
) -> ContactGeometry:
    """`convex_features.evaluate`, also for a height field as geom A."""
    if geom_a.type == HEIGHT_FIELD:
        prism = prism_shape(table, geom_a, feature[0] // PRISM_CODES)
        own = wp.vec3i(unpack(feature[0]), feature[1], feature[2])
        return evaluate_convex(table, prism, X_a, geom_b, X_b, own)
    return evaluate_convex(table, geom_a, X_a, geom_b, X_b, feature)


@func(inline=False)
def outermost(table: MeshTable, field: Shape, prism: wp.int32, x: vec3, n: vec3, tolerance: real) -> wp.bool:
    """Whether no vertex of the cells around a prism is farther along n than x, in axes of the field."""
    rows = table.field_range[field.mesh, 1]
    columns = table.field_range[field.mesh, 2]
    cell = prism // 2
    i = wp.max(cell // columns - 1, 0)
    while i <= wp.min(cell // columns + 1, rows - 1):
        j = wp.max(cell % columns - 1, 0)
        while j <= wp.min(cell % columns + 1, columns - 1):
            k = wp.int32(0)
            while k < 2:
                mesh = table.field_range[field.mesh, 0] + 2 * (i * columns + j) + k
                c = wp.int32(0)
                while c < 3:
                    if wp.dot(n, table.vertex[table.mesh_range[mesh, 0] + c] - x) > tolerance:
                        return False
                    c += 1
                k += 1
            j += 1
        i += 1
    return True


@func(inline=False)
def substitute(
    table: MeshTable, prism: Shape, X_a: transform, geom_b: Shape, X_b: transform, feature: wp.vec3i, n: vec3
) -> wp.vec3i:
    """Substitute for a contact that does not count.

    If its normal n points upwards, it is the contact itself. Else it is the prism's top with the point of geom B
    deepest below it, or −1 if that point is not below the top.
    """
    if n[2] > real(UPWARDS):
        return feature
    q_a = wp.transform_get_rotation(X_a)
    up = table.face_normal[table.mesh_range[prism.mesh, 4]]
    down = wp.quat_rotate_inv(wp.transform_get_rotation(X_b), wp.quat_rotate(q_a, -up))
    top = wp.vec3i(FIRST_MESH_FACE, features_toward(table, geom_b, down)[0], NO_REFERENCE)
    g = evaluate_convex(table, prism, X_a, geom_b, X_b, top)
    x = wp.quat_rotate_inv(q_a, g.point - wp.transform_get_translation(X_a))
    if beyond_feature(table, prism, FIRST_MESH_FACE, x) > real(0.0):
        return wp.vec3i(-1, -1, -1)
    return top


@func(inline=False)
def field_contacts(
    table: MeshTable, geom_a: Shape, X_a: transform, geom_b: Shape, X_b: transform, radius_b: real, margin: real
) -> Manifold:
    """Contacts of the prisms under the bounding sphere of geom B.

    All prisms within the margin are tried, whatever the motion (`within`): a geom that is deep in some prisms may have
    its contact at a prism beside them.
    """
    features = wp.zeros(shape=(clip.MAX_CANDIDATES,), dtype=wp.vec3i)
    points = wp.zeros(shape=(clip.MAX_CANDIDATES,), dtype=vec3)
    phi = wp.zeros(shape=(clip.MAX_CANDIDATES,), dtype=real)
    found = Candidates()
    found.lowest = real(1e30)
    rows = table.field_range[geom_a.mesh, 1]
    columns = table.field_range[geom_a.mesh, 2]
    center = wp.transform_point(wp.transform_inverse(X_a), wp.transform_get_translation(X_b))
    q_a = wp.transform_get_rotation(X_a)
    width = vec3(
        real(2.0) * geom_a.size[0] / real(columns), real(2.0) * geom_a.size[1] / real(rows), real(1.0)
    )  # of a cell
    reach = radius_b + margin
    j_0 = wp.max(wp.int32(wp.floor((center[0] + geom_a.size[0] - reach) / width[0])), 0)
    j_1 = wp.min(wp.int32(wp.floor((center[0] + geom_a.size[0] + reach) / width[0])), columns - 1)
    i_0 = wp.max(wp.int32(wp.floor((center[1] + geom_a.size[1] - reach) / width[1])), 0)
    i_1 = wp.min(wp.int32(wp.floor((center[1] + geom_a.size[1] + reach) / width[1])), rows - 1)
    cells = wp.max(i_1 - i_0 + 1, 0) * wp.max(j_1 - j_0 + 1, 0)
    same = real(clip.SAME_POINT) * (width[0] + width[1])
    spare = wp.vec3i(0, 0, 0)
    spare_phi = real(1e30)
    c = wp.int32(0)
    while c < 2 * cells:
        i = i_0 + (c // 2) // (j_1 - j_0 + 1)
        j = j_0 + (c // 2) % (j_1 - j_0 + 1)
        prism = 2 * (i * columns + j) + c % 2
        own = prism_shape(table, geom_a, prism)
        top = table.mesh_range[own.mesh, 0]
        high = wp.max(table.vertex[top][2], wp.max(table.vertex[top + 1][2], table.vertex[top + 2][2]))
        manifold = Manifold()
        if center[2] - reach < high:
            manifold = detect_convex(table, own, X_a, geom_b, X_b, margin, within(margin), 0)
        k = wp.int32(0)
        while k < manifold.count:
            feature = contact_features(manifold, k)
            g = evaluate_convex(table, own, X_a, geom_b, X_b, feature)
            n = wp.quat_rotate_inv(q_a, g.normal)
            valid = feature[0] == FIRST_MESH_FACE or feature[2] == 2 * FIRST_MESH_FACE
            if not valid:
                x = g.point - real(0.5) * g.phi * g.normal - wp.transform_get_translation(X_a)
                x = wp.quat_rotate_inv(q_a, x)
                valid = outermost(table, geom_a, prism, x, n, real(outer) * wp.min(width[0], width[1]))
                if not valid:
                    other = substitute(table, own, X_a, geom_b, X_b, feature, n)
                    if other[0] >= 0:
                        g = evaluate_convex(table, own, X_a, geom_b, X_b, other)
                        if g.phi < spare_phi:
                            spare_phi = g.phi
                            spare = wp.vec3i(pack(prism, other[0]), other[1], other[2])
            valid = valid and found.count < MAX_CANDIDATES
            m = wp.int32(0)
            while m < found.count:
                if wp.length(points[m] - g.point) < same:
                    valid = False
                m += 1
            if valid:
                code = pack(prism, feature[0])
                features[found.count] = wp.vec3i(code, feature[1], feature[2])
                points[found.count] = g.point
                phi[found.count] = g.phi
                found.count += 1
                found.lowest = wp.min(found.lowest, g.phi)
            k += 1
        c += 1
    if found.count == 0 and spare_phi < margin:
        return add_contact(Manifold(), spare[0], spare[1], spare[2])
    e = wp.quat_rotate(q_a, vec3(real(1.0), real(0.0), real(0.0)))
    f = wp.quat_rotate(q_a, vec3(real(0.0), real(1.0), real(0.0)))
    return reduce(found, e, f, real(outer) * (width[0] + width[1]), features, points, phi)


@func(inline=False)
def detect_general(
    table: MeshTable, geom_a: Shape, X_a: transform, geom_b: Shape, X_b: transform, radius_b: real, margin: real,
    motion: Nearing, mujoco: int,
) -> Manifold:  # fmt: skip
    """`convex.detect_convex`, also for a height field as geom A; `radius_b` is the bounding radius of geom B."""
    if geom_a.type == HEIGHT_FIELD:
        return field_contacts(table, geom_a, X_a, geom_b, X_b, radius_b, margin)
    return detect_convex(table, geom_a, X_a, geom_b, X_b, margin, motion, mujoco)
