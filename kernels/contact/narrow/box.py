# SPDX-License-Identifier: Apache-2.0
"""Contacts of two boxes: separating axes, then face clipping, an edge pair, or the nearest features.

The separation along each of the 15 axes (three faces of each box, nine edge pairs) is a lower bound of the distance.
The largest one is the signed distance φ of penetrating boxes. Separated boxes that face each other diagonally are
farther apart; all vertices and edge pairs are searched for their distance. Then one of these is reported:

- A face manifold, if its lowest point has the distance of the boxes. It is the overlap polygon of the reference face
  and of the other box's most opposed face (the incident face), projected along the normal. Its vertices are vertices of
  the incident face, points where incident edges cross side planes of the reference, and vertices of the reference face.
  Each has its own distance along the normal. There are up to eight. Between nearly parallel faces, and for an edge that
  lies in a face, "has the distance" means within FACE_BIAS: several points at a slightly wrong depth are stable, a
  single edge contact is not (boxes in a pile flip between the two at every other step). Only then can the smallest φ
  be wrong, and by no more than FACE_BIAS.
- Else, for penetrating boxes, the edge pair with the largest separation: one point.
- Else the nearest features of the separated boxes (vertex–vertex, vertex–edge, …): one point at the exact distance.

With `mujoco` 1 the rule is MuJoCo's: the face of the largest separation, or the edge pair if its separation is larger.
Of an edge pair nearly parallel to that face (NEAR_FACE), it must be larger by EDGE_GAIN of the face's.

Everything is in axes of box A. The columns of R are B's axes, p is B's centre.
"""

import warp as wp

from ...real import func, mat33, real, struct, transform, vec3
from .box_core import edge_code, face_code, nearest_box_feature, vertex_sign
from .manifold import FIRST_EDGE, FIRST_FACE, NO_REFERENCE, Manifold, add_contact

# Between nearly parallel faces, distances that differ by this fraction of the smallest half extent count as the same.
FACE_BIAS = 1e-4
FACE_ALIGNMENT = 0.999  # cosine (2.6°) above which two faces count as nearly parallel
EDGE_ALIGNMENT = 0.005  # sine (0.3°) below which an edge counts as lying in a face
# MuJoCo's rule: cosine above which the normal of edges counts as a face's; how much larger their separation must be.
NEAR_FACE, EDGE_GAIN, EDGE_BIAS = 0.99, 0.05, 1e-6
ANY = 1e30  # above every distance
# Squared sine below which a pair of edges defines no separating axis.
PARALLEL = {wp.float32: 1e-6, wp.float64: 1e-12}
# Polygon points nearer than this fraction of the size are the same: differences are rounding, or of no use.
SAME_POINT = {wp.float32: 4e-6, wp.float64: 1e-7}

parallel = float(PARALLEL[real])
same_point = float(SAME_POINT[real])


@struct
class Axes:
    """Largest separations over A's faces, B's faces and edge pairs, and the axis or edge pair of each."""

    face_a: real
    face_b: real
    edge: real
    axis_a: wp.int32
    axis_b: wp.int32
    edge_a: wp.int32
    edge_b: wp.int32


@struct
class FacePair:
    """A reference face and the incident face in axes (first tangent, second tangent, outward normal) of the reference.

    The incident face is center ± side_1 ± side_2; heights are above the reference face. `width` is the reference's
    half extents (x, y) and the tolerance (z). `axis_*` is the box axis of the normal, `up_*` is 1 on its positive side.
    """

    center: vec3
    side_1: vec3
    side_2: vec3
    width: vec3
    axis_reference: wp.int32
    up_reference: wp.int32
    axis_incident: wp.int32
    up_incident: wp.int32
    reference_is_b: wp.bool


@struct
class FaceContacts:
    """A manifold, its smallest distance, and whether this is the distance of the boxes."""

    manifold: Manifold
    lowest: real
    accepted: wp.bool


@struct
class Nearest:
    """Nearest features and their distance (−1: none yet)."""

    feature_a: wp.int32
    feature_b: wp.int32
    distance: real


@func
def separations(R: mat33, p: vec3, h_a: vec3, h_b: vec3) -> Axes:
    """The largest separation of each family of axes."""
    axes = Axes()
    p_b = wp.transpose(R) * p
    i = wp.int32(0)
    while i < 3:
        a = wp.abs(p[i]) - h_a[i]
        a -= wp.abs(R[i, 0]) * h_b[0] + wp.abs(R[i, 1]) * h_b[1] + wp.abs(R[i, 2]) * h_b[2]
        b = wp.abs(p_b[i]) - h_b[i]
        b -= wp.abs(R[0, i]) * h_a[0] + wp.abs(R[1, i]) * h_a[1] + wp.abs(R[2, i]) * h_a[2]
        if i == 0 or a > axes.face_a:
            axes.face_a = a
            axes.axis_a = i
        if i == 0 or b > axes.face_b:
            axes.face_b = b
            axes.axis_b = i
        i += 1
    axes.edge_a = wp.int32(-1)
    k = wp.int32(0)
    while k < 9:
        i = k // 3
        j = k - 3 * i
        i1 = (i + 1) % 3
        i2 = (i + 2) % 3
        j1 = (j + 1) % 3
        j2 = (j + 2) % 3
        square = R[i1, j] * R[i1, j] + R[i2, j] * R[i2, j]  # ‖e_i × R_j‖²
        if square > real(parallel):
            e = wp.abs(p[i2] * R[i1, j] - p[i1] * R[i2, j])
            e -= h_a[i1] * wp.abs(R[i2, j]) + h_a[i2] * wp.abs(R[i1, j])
            e -= h_b[j1] * wp.abs(R[i, j2]) + h_b[j2] * wp.abs(R[i, j1])
            e = e / wp.sqrt(square)
            if axes.edge_a < 0 or e > axes.edge:
                axes.edge = e
                axes.edge_a = i
                axes.edge_b = j
        k += 1
    return axes


@func
def face_pair(R: mat33, p: vec3, h_r: vec3, h_i: vec3, axis: wp.int32, reference_is_b: wp.bool) -> FacePair:
    """The reference's face along an axis toward p, and the most opposed face of the other box with the pose (R, p)."""
    pair = FacePair()
    f1 = (axis + 1) % 3
    f2 = (axis + 2) % 3
    up = real(1.0)
    if p[axis] < real(0.0):
        up = real(-1.0)
    g = wp.int32(0)
    if wp.abs(R[axis, 1]) > wp.abs(R[axis, g]):
        g = wp.int32(1)
    if wp.abs(R[axis, 2]) > wp.abs(R[axis, g]):
        g = wp.int32(2)
    g1 = (g + 1) % 3
    g2 = (g + 2) % 3
    down = real(1.0)  # side of the incident face on its axis
    if up * R[axis, g] > real(0.0):
        down = real(-1.0)
    normal = vec3(R[f1, g], R[f2, g], up * R[axis, g])
    pair.center = vec3(p[f1], p[f2], up * p[axis] - h_r[axis]) + (down * h_i[g]) * normal
    pair.side_1 = h_i[g1] * vec3(R[f1, g1], R[f2, g1], up * R[axis, g1])
    pair.side_2 = h_i[g2] * vec3(R[f1, g2], R[f2, g2], up * R[axis, g2])
    tolerance = real(same_point) * (h_r[f1] + h_r[f2] + h_i[g1] + h_i[g2])
    pair.width = vec3(h_r[f1], h_r[f2], tolerance)
    pair.axis_reference = axis
    pair.up_reference = wp.where(up > real(0.0), 1, 0)
    pair.axis_incident = g
    pair.up_incident = wp.where(down > real(0.0), 1, 0)
    pair.reference_is_b = reference_is_b
    return pair


@func
def add_point(
    contacts: FaceContacts,
    pair: FacePair,
    of_reference: wp.int32,
    of_incident: wp.int32,
    reference: wp.int32,
    height: real,
    margin: real,
) -> FaceContacts:
    """Add one polygon vertex, if it is nearer than the margin."""
    if height < contacts.lowest:
        contacts.lowest = height
    if height < margin:
        if pair.reference_is_b:
            contacts.manifold = add_contact(contacts.manifold, of_incident, of_reference, reference)
        else:
            contacts.manifold = add_contact(contacts.manifold, of_reference, of_incident, reference)
    return contacts


@func
def over_face(x: vec3, width: vec3) -> wp.bool:
    """Whether a point lies over the reference face, within the tolerance."""
    return wp.abs(x[0]) <= width[0] + width[2] and wp.abs(x[1]) <= width[1] + width[2]


@func
def add_vertices(contacts: FaceContacts, pair: FacePair, margin: real) -> FaceContacts:
    """Add the vertices of either face over the other; of the reference's, those without an incident vertex at them."""
    face = FIRST_FACE + 2 * pair.axis_reference + pair.up_reference
    incident_face = FIRST_FACE + 2 * pair.axis_incident + pair.up_incident
    g1 = (pair.axis_incident + 1) % 3
    g2 = (pair.axis_incident + 2) % 3
    f1 = (pair.axis_reference + 1) % 3
    f2 = (pair.axis_reference + 2) % 3
    e1, e2 = pair.side_1, pair.side_2
    area = e1[0] * e2[1] - e1[1] * e2[0]
    slack_1 = real(1.0) + real(4.0) * pair.width[2] / wp.length(e1)
    slack_2 = real(1.0) + real(4.0) * pair.width[2] / wp.length(e2)
    k = wp.int32(0)
    while k < 4:
        s1 = vertex_sign(k, 0)
        s2 = vertex_sign(k, 1)
        x = pair.center + s1 * e1 + s2 * e2
        if over_face(x, pair.width):
            code = ((k & 1) << g1) + ((k >> 1) << g2) + (pair.up_incident << pair.axis_incident)
            contacts = add_point(contacts, pair, face, code, NO_REFERENCE, x[2], margin)
        d = vec3(s1 * pair.width[0], s2 * pair.width[1], real(0.0)) - pair.center
        a = (d[0] * e2[1] - d[1] * e2[0]) / area
        b = (e1[0] * d[1] - e1[1] * d[0]) / area
        if wp.abs(a) <= slack_1 and wp.abs(b) <= slack_2:
            x = wp.sign(a) * e1 + wp.sign(b) * e2
            apart = wp.max(wp.abs(x[0] - d[0]), wp.abs(x[1] - d[1]))
            if apart > real(4.0) * pair.width[2] or not over_face(pair.center + x, pair.width):
                code = ((k & 1) << f1) + ((k >> 1) << f2) + (pair.up_reference << pair.axis_reference)
                height = pair.center[2] + a * e1[2] + b * e2[2]
                contacts = add_point(contacts, pair, code, incident_face, face, height, margin)
        k += 1
    return contacts


@func
def add_crossings(contacts: FaceContacts, pair: FacePair, margin: real) -> FaceContacts:
    """Add the points where an edge of the incident face leaves the reference face through a side plane."""
    face = FIRST_FACE + 2 * pair.axis_reference + pair.up_reference
    tolerance = pair.width[2]
    up = real(2 * pair.up_incident - 1)
    m = wp.int32(0)
    while m < 4:
        s = vertex_sign(m, 0)
        middle = pair.center + s * pair.side_2
        along = pair.side_1
        edge = edge_code((pair.axis_incident + 1) % 3, s, up)
        if m >= 2:
            middle = pair.center + s * pair.side_1
            along = pair.side_2
            edge = edge_code((pair.axis_incident + 2) % 3, up, s)
        k = wp.int32(0)
        while k < 4:
            i = k // 2
            side = vertex_sign(k, 0)
            edge_middle = side * middle[i]
            reach = wp.abs(along[i])
            limit = pair.width[i] + tolerance
            if edge_middle + reach > limit and edge_middle - reach <= limit:
                s_edge = (side * pair.width[i] - middle[i]) / along[i]
                x = middle + s_edge * along
                from_inner_end = real(1.0) + s_edge * wp.sign(side * along[i])
                beside_vertex = from_inner_end * wp.length(along) <= real(2.0) * tolerance
                if not beside_vertex and wp.abs(x[1 - i]) <= pair.width[1 - i] - tolerance:
                    side_face = face_code((pair.axis_reference + 1 + i) % 3, side)
                    contacts = add_point(contacts, pair, side_face, edge, face, x[2], margin)
            k += 1
        m += 1
    return contacts


@func
def face_contacts(
    R: mat33, p: vec3, h_a: vec3, h_b: vec3, axis: wp.int32, reference_is_b: wp.bool, margin: real
) -> FaceContacts:
    """Vertices of the overlap polygon of a reference face of A or B and the other box's opposed face."""
    pair = FacePair()
    if reference_is_b:
        pair = face_pair(wp.transpose(R), -(wp.transpose(R) * p), h_b, h_a, axis, True)
    else:
        pair = face_pair(R, p, h_a, h_b, axis, False)
    contacts = FaceContacts()
    contacts.lowest = wp.length(p) + wp.length(h_a) + wp.length(h_b)  # above every distance
    contacts = add_vertices(contacts, pair, margin)
    return add_crossings(contacts, pair, margin)


@func
def edges_normal(R: mat33, i: wp.int32, j: wp.int32) -> vec3:
    """Orthogonal to axis i of A and j of B; its length is the sine of their angle."""
    e = vec3(real(0.0), real(0.0), real(0.0))
    e[i] = real(1.0)
    return wp.cross(e, vec3(R[0, j], R[1, j], R[2, j]))


@func
def edge_by_mujoco(R: mat33, axes: Axes) -> wp.bool:
    """Whether MuJoCo takes the edge pair, not the face of the larger separation."""
    face = wp.max(axes.face_a, axes.face_b)
    if axes.edge_a < 0 or axes.edge - real(EDGE_BIAS) * wp.abs(axes.edge) <= face:
        return False
    n = edges_normal(R, axes.edge_a, axes.edge_b)
    along = n[axes.axis_a]
    if axes.face_b > axes.face_a:
        along = (wp.transpose(R) * n)[axes.axis_b]
    return wp.abs(along) <= real(NEAR_FACE) * wp.length(n) or axes.edge >= face + real(EDGE_GAIN) * wp.abs(face)


@func
def edge_pair(R: mat33, p: vec3, i: wp.int32, j: wp.int32) -> wp.vec2i:
    """The edges along axis i of A and j of B that support the boxes for the normal orthogonal to both edges."""
    n = edges_normal(R, i, j)
    if wp.dot(n, p) < real(0.0):
        n = -n
    n_b = -(wp.transpose(R) * n)
    return wp.vec2i(edge_code(i, n[(i + 1) % 3], n[(i + 2) % 3]), edge_code(j, n_b[(j + 1) % 3], n_b[(j + 2) % 3]))


@func
def improve(best: Nearest, feature_a: wp.int32, feature_b: wp.int32, gap: vec3) -> Nearest:
    """The nearer of the best pair and this one."""
    distance = wp.length(gap)
    if best.distance < real(0.0) or distance < best.distance:
        best.feature_a = feature_a
        best.feature_b = feature_b
        best.distance = distance
    return best


@func
def nearest_vertices(R: mat33, p: vec3, h_a: vec3, h_b: vec3) -> Nearest:
    """The vertex of either box that is nearest to the other box."""
    best = Nearest()
    best.distance = real(-1.0)
    k = wp.int32(0)
    while k < 8:
        signs = vec3(vertex_sign(k, 0), vertex_sign(k, 1), vertex_sign(k, 2))
        x = p + R * wp.cw_mul(signs, h_b)
        best = improve(best, nearest_box_feature(x, h_a), k, x - wp.min(wp.max(x, -h_a), h_a))
        x = wp.transpose(R) * (wp.cw_mul(signs, h_a) - p)
        best = improve(best, k, nearest_box_feature(x, h_b), x - wp.min(wp.max(x, -h_b), h_b))
        k += 1
    return best


@func
def nearest_edges(best: Nearest, R: mat33, p: vec3, h_a: vec3, h_b: vec3) -> Nearest:
    """The nearest of the best pair and all edge pairs whose common perpendicular meets both edges."""
    a = wp.int32(0)
    while a < 12:
        i = a // 4
        i1 = (i + 1) % 3
        i2 = (i + 2) % 3
        q_a = vec3(real(0.0), real(0.0), real(0.0))
        q_a[i1] = vertex_sign(a, 0) * h_a[i1]
        q_a[i2] = vertex_sign(a, 1) * h_a[i2]
        b = wp.int32(0)
        while b < 12:
            j = b // 4
            u = vec3(R[0, j], R[1, j], R[2, j])
            square = u[i1] * u[i1] + u[i2] * u[i2]
            if square > real(parallel):
                q_b = vec3(real(0.0), real(0.0), real(0.0))
                q_b[(j + 1) % 3] = vertex_sign(b, 0) * h_b[(j + 1) % 3]
                q_b[(j + 2) % 3] = vertex_sign(b, 1) * h_b[(j + 2) % 3]
                r = p + R * q_b - q_a
                s = -(r[i1] * u[i1] + r[i2] * u[i2]) / square
                gap = r + s * u
                if wp.abs(s) < h_b[j] and wp.abs(gap[i]) < h_a[i]:
                    gap[i] = real(0.0)
                    best = improve(best, FIRST_EDGE + a, FIRST_EDGE + b, gap)
            b += 1
        a += 1
    return best


@func
def face_manifold(
    R: mat33, p: vec3, h_a: vec3, h_b: vec3, axes: Axes, distance: real, margin: real, slack: real
) -> FaceContacts:
    """The manifold of A's or B's best face, accepted if its lowest point has the given distance of the boxes.

    The faces are tried from the larger separation to the smaller, A's first where they tie. `slack`: a difference that
    is accepted in any case.
    """
    bias = real(FACE_BIAS) * wp.min(wp.min(h_a), wp.min(h_b))
    rounding = real(same_point) * (wp.length(h_a) + wp.length(h_b))
    contacts = FaceContacts()
    first_is_b = axes.face_b > axes.face_a + bias
    attempt = wp.int32(0)
    while attempt < 2:
        from_b = first_is_b
        if attempt == 1:
            from_b = not first_is_b
        axis = axes.axis_a
        separation = axes.face_a
        opposed = vec3(R[axis, 0], R[axis, 1], R[axis, 2])
        if from_b:
            axis = axes.axis_b
            separation = axes.face_b
            opposed = vec3(R[0, axis], R[1, axis], R[2, axis])
        tolerance = rounding
        if wp.max(wp.abs(opposed)) > real(FACE_ALIGNMENT) or wp.min(wp.abs(opposed)) < real(EDGE_ALIGNMENT):
            tolerance = wp.max(bias, rounding)
        tolerance += slack
        if tolerance > rounding or separation >= distance - rounding:
            contacts = face_contacts(R, p, h_a, h_b, axis, from_b, margin)
            contacts.accepted = wp.abs(contacts.lowest - distance) <= tolerance
            if contacts.accepted:
                return contacts
        attempt += 1
    return contacts


@func
def box_box(X_a: transform, h_a: vec3, X_b: transform, h_b: vec3, margin: real, mujoco: int) -> Manifold:
    """Face manifold, edge contact or nearest features of two boxes; see the module's docstring."""
    q = wp.transform_get_rotation(X_a)
    p = wp.quat_rotate_inv(q, wp.transform_get_translation(X_b) - wp.transform_get_translation(X_a))
    R = wp.transpose(wp.quat_to_matrix(q)) * wp.quat_to_matrix(wp.transform_get_rotation(X_b))
    axes = separations(R, p, h_a, h_b)
    separation = wp.max(axes.face_a, axes.face_b)
    if axes.edge_a >= 0:
        separation = wp.max(separation, axes.edge)
    if separation >= margin:
        return Manifold()

    slack = real(0.0)
    if mujoco == 1:
        if edge_by_mujoco(R, axes):
            edges = edge_pair(R, p, axes.edge_a, axes.edge_b)
            return add_contact(Manifold(), edges[0], edges[1], NO_REFERENCE)
        slack = real(ANY)
        if axes.face_b > axes.face_a:
            axes.face_a = -slack
        else:
            axes.face_b = -slack
    contacts = face_manifold(R, p, h_a, h_b, axes, separation, margin, slack)
    if contacts.accepted:
        return contacts.manifold
    if separation <= real(0.0):
        if axes.edge_a < 0:
            return contacts.manifold
        edges = edge_pair(R, p, axes.edge_a, axes.edge_b)
        return add_contact(Manifold(), edges[0], edges[1], NO_REFERENCE)

    nearest = nearest_edges(nearest_vertices(R, p, h_a, h_b), R, p, h_a, h_b)
    if nearest.distance >= margin:
        return Manifold()
    contacts = face_manifold(R, p, h_a, h_b, axes, nearest.distance, margin, real(0.0))
    if contacts.accepted:
        return contacts.manifold
    return add_contact(Manifold(), nearest.feature_a, nearest.feature_b, NO_REFERENCE)
