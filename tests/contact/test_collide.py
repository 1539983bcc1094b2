# SPDX-License-Identifier: Apache-2.0
"""Contact detection and geometry against MuJoCo, an independent NumPy distance, and difference quotients."""

import functools

import mujoco
import numpy as np
import pytest
import warp as wp
from scipy.optimize import lsq_linear

from warpsim.device.copies import copy, scalar_types
from warpsim.kernels.contact.narrow import detect as detect_module
from warpsim.kernels.contact.narrow import features as features_module
from warpsim.kernels.contact.narrow import manifold as manifold_module
from warpsim.kernels.contact.narrow import shape as shape_module

DEVICE = wp.get_preferred_device()
PLANE, SPHERE, CAPSULE, BOX = 0, 2, 3, 6
NAMES = {PLANE: "plane", SPHERE: "sphere", CAPSULE: "capsule", BOX: "box"}
PAIRS = [(a, b) for a in NAMES for b in NAMES if a <= b and b != PLANE]
POINTS = 8
NUMPY = {wp.float32: np.float32, wp.float64: np.float64}


@functools.cache
def kernels(S):
    """One kernel that detects and evaluates every pair of a batch."""
    t = scalar_types(S)
    detect = copy(detect_module, S).detect_features
    features, bounding_radius = copy(features_module, S), copy(shape_module, S).bounding_radius
    evaluate, plane_distance_bound = features.evaluate, features.plane_distance_bound
    contact_features = copy(manifold_module, S).contact_features

    @wp.kernel(module=f"test_collide_{S.__name__}", enable_backward=False)
    def collide(
        kinds: wp.array2d(dtype=wp.int32),
        poses: wp.array2d(dtype=t.transform),
        sizes: wp.array2d(dtype=t.vec3),
        margin: wp.array(dtype=S),
        counts: wp.array(dtype=wp.int32),  # out from here
        features: wp.array2d(dtype=wp.vec3i),
        phi: wp.array2d(dtype=S),
        point: wp.array2d(dtype=t.vec3),
        normal: wp.array2d(dtype=t.vec3),
        radius: wp.array2d(dtype=S),
        bound: wp.array(dtype=S),
    ):
        i = wp.tid()
        manifold = detect(kinds[i, 0], poses[i, 0], sizes[i, 0], kinds[i, 1], poses[i, 1], sizes[i, 1], margin[i], 0)
        counts[i] = manifold.count
        radius[i, 0] = bounding_radius(kinds[i, 0], sizes[i, 0])
        radius[i, 1] = bounding_radius(kinds[i, 1], sizes[i, 1])
        bound[i] = plane_distance_bound(poses[i, 0], poses[i, 1], radius[i, 1])
        k = wp.int32(0)
        while k < manifold.count:
            feature = contact_features(manifold, k)
            geometry = evaluate(kinds[i, 0], poses[i, 0], sizes[i, 0], kinds[i, 1], poses[i, 1], sizes[i, 1], feature)
            features[i, k] = feature
            phi[i, k] = geometry.phi
            point[i, k] = geometry.point
            normal[i, k] = geometry.normal
            k += 1

    return collide


class Contacts:
    """Host copies of the outputs; unused rows of phi are +inf."""

    def __init__(self, S, kinds, poses, sizes, margin):
        t, n = scalar_types(S), len(poses)
        dtype = NUMPY[S]
        kinds = np.broadcast_to(np.asarray(kinds, np.int32), (n, 2))
        out = [
            wp.zeros(n, wp.int32, device=DEVICE),
            wp.zeros((n, POINTS), wp.vec3i, device=DEVICE),
            wp.full((n, POINTS), S(np.inf), S, device=DEVICE),
            wp.zeros((n, POINTS), t.vec3, device=DEVICE),
            wp.zeros((n, POINTS), t.vec3, device=DEVICE),
            wp.zeros((n, 2), S, device=DEVICE),
            wp.zeros(n, S, device=DEVICE),
        ]
        inputs = [
            wp.array(np.ascontiguousarray(kinds), dtype=wp.int32, device=DEVICE),
            wp.array(np.asarray(poses, dtype), dtype=t.transform, device=DEVICE),
            wp.array(np.asarray(sizes, dtype), dtype=t.vec3, device=DEVICE),
            wp.array(
                np.full(n, margin, dtype) if np.ndim(margin) == 0 else np.asarray(margin, dtype), dtype=S, device=DEVICE
            ),
        ]
        wp.launch(kernels(S), n, inputs=inputs, outputs=out, device=DEVICE)
        self.count, self.features, self.phi, self.point, self.normal, self.radius, self.bound = (a.numpy() for a in out)

    @property
    def used(self):
        return np.arange(POINTS) < self.count[:, None]

    @property
    def lowest(self):
        return self.phi.min(1)


def rotate(q, v):
    """Rotate v by unit quaternions (x, y, z, w)."""
    c = 2.0 * np.cross(q[..., :3], v)
    return v + q[..., 3:] * c + np.cross(q[..., :3], c)


def random_pairs(kind_a, kind_b, n, seed=0, scale=1.0):
    """Poses and sizes of n random pairs, from deep penetration to separation by the size of a geom."""
    rng = np.random.default_rng([seed, kind_a, kind_b])
    sizes = scale * rng.uniform(0.2, 1.0, (n, 2, 3))
    poses = np.zeros((n, 2, 7))
    poses[:, :, 3:] = rng.normal(size=(n, 2, 4))
    poses[:, :, 3:] /= np.linalg.norm(poses[:, :, 3:], axis=2, keepdims=True)
    poses[:, :, :3] = scale * rng.uniform(-1.0, 1.0, (n, 2, 3)) * rng.choice([0.3, 1.0, 1.5], (n, 1, 1))
    return poses, sizes


def cores(kind, poses, sizes):
    """Every shape as an oriented box (half extents may be 0) grown by a radius: rotation matrices, centres, h, r."""
    n = len(poses)
    R = np.stack([rotate(poses[:, 3:], np.broadcast_to(e, (n, 3))) for e in np.eye(3)], axis=2)
    if kind == BOX:
        return R, poses[:, :3], sizes, np.zeros(n)
    h = np.zeros((n, 3))
    if kind == CAPSULE:
        h[:, 2] = sizes[:, 1]
    return R, poses[:, :3], h, sizes[:, 0]


def reference_distance(kind_a, kind_b, poses, sizes):
    """Signed distance by bounded least squares of the cores, by 15 separating axes where the cores overlap."""
    if kind_a == PLANE:
        normal = rotate(poses[:, 0, 3:], np.broadcast_to([0.0, 0.0, 1.0], (len(poses), 3)))
        R, p, h, r = cores(kind_b, poses[:, 1], sizes[:, 1])
        support = np.abs(np.einsum("nij,ni->nj", R, normal)) * h
        return np.einsum("ni,ni->n", normal, p - poses[:, 0, :3]) - support.sum(1) - r
    (R_a, p_a, h_a, r_a), (R_b, p_b, h_b, r_b) = (
        cores(k, poses[:, i], sizes[:, i]) for i, k in enumerate((kind_a, kind_b))
    )
    axes = np.concatenate(
        [R_a, R_b, np.stack([np.cross(R_a[:, :, i], R_b[:, :, j]) for i in range(3) for j in range(3)], axis=2)], axis=2
    )
    norms = np.linalg.norm(axes, axis=1)
    valid = norms > 1e-6
    axes = axes / np.where(valid, norms, 1.0)[:, None]
    gap = np.abs(np.einsum("nik,ni->nk", axes, p_b - p_a))
    for R, h in ((R_a, h_a), (R_b, h_b)):
        gap -= np.einsum("nkj,nj->nk", np.abs(np.einsum("nik,nij->nkj", axes, R)), h)
    distance = np.where(valid, gap, -np.inf).max(1)
    for i in np.flatnonzero(distance > 0):
        matrix = np.concatenate([R_a[i], -R_b[i]], axis=1)
        bound = np.concatenate([h_a[i], h_b[i]])
        free = bound > 0
        offset = p_b[i] - p_a[i]
        distance[i] = np.linalg.norm(offset)
        if free.any():
            fit = lsq_linear(matrix[:, free], offset, (-bound[free], bound[free]), method="bvls", tol=1e-14)
            distance[i] = np.sqrt(2 * fit.cost)
    return distance - r_a - r_b


def surface_distance(kind, pose, size, points):
    """Signed distance of points (n, k, 3) from their shapes."""
    n, k = points.shape[:2]
    inverse = pose[:, None, 3:] * np.array([-1.0, -1.0, -1.0, 1.0])
    x = rotate(np.broadcast_to(inverse, (n, k, 4)), points - pose[:, None, :3])
    if kind == PLANE:
        return x[..., 2]
    if kind == BOX:
        excess = np.abs(x) - size[:, None]
        return np.linalg.norm(np.maximum(excess, 0), axis=2) + np.minimum(excess.max(2), 0)
    if kind == CAPSULE:
        x[..., 2] -= np.clip(x[..., 2], -size[:, None, 1], size[:, None, 1])
    return np.linalg.norm(x, axis=2) - size[:, None, 0]


def nearly_parallel_boxes(kind_a, kind_b, poses):
    """Pairs of boxes with two faces within 3°, or an edge within 0.3° of a face, where FACE_BIAS applies."""
    if (kind_a, kind_b) != (BOX, BOX):
        return np.zeros(len(poses), bool)
    R = [np.stack([rotate(poses[:, i, 3:], np.broadcast_to(e, (len(poses), 3))) for e in np.eye(3)], 2) for i in (0, 1)]
    cosines = np.abs(np.einsum("nij,nik->njk", *R))
    return (cosines.max((1, 2)) > np.cos(np.radians(3.0))) | (cosines.min((1, 2)) < np.sin(np.radians(0.3)))


def pair_names(pair):
    return f"{NAMES[pair[0]]}-{NAMES[pair[1]]}"


every_pair = pytest.mark.parametrize("pair", PAIRS, ids=pair_names)
both_precisions = pytest.mark.parametrize("S", [wp.float64, wp.float32], ids=["float64", "float32"])
TOLERANCE = {wp.float64: 1e-6, wp.float32: 1e-4}  # of the size of the geoms
FAR = 100.0  # a margin that every pair is nearer than
BIAS = 1e-4  # box.FACE_BIAS


@both_precisions
@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0])
@every_pair
def test_distance_is_that_of_the_shapes(pair, scale, S):
    """The smallest φ is the signed distance (Euclidean outside, least penetration inside) from 1 mm to 10 m."""
    poses, sizes = random_pairs(*pair, 1000 if scale == 1.0 else 200, scale=scale)
    contacts = Contacts(S, pair, poses, sizes, FAR)
    error = np.abs(contacts.lowest - reference_distance(*pair, poses, sizes)) / scale
    tolerance = np.where(nearly_parallel_boxes(*pair, poses), TOLERANCE[S] + BIAS, TOLERANCE[S])
    assert (contacts.count > 0).all()
    assert (error <= tolerance).all(), (np.argmax(error), error.max())


def aligned_pairs(kind_a, kind_b, n, noise):
    """Pairs on a lattice of positions, sizes and right or half-right angles: ties of every kind, then perturbed."""
    rng = np.random.default_rng([n, kind_a, kind_b])
    sizes = rng.choice([0.1, 0.2, 0.5, 1.0], (n, 2, 3))
    poses = np.zeros((n, 2, 7))
    poses[..., :3] = 0.1 * rng.integers(-6, 7, (n, 2, 3))
    half = rng.integers(0, 8, (n, 2, 1)) * np.pi / 8
    poses[..., 3:] = np.concatenate([np.eye(3)[rng.integers(0, 3, (n, 2))] * np.sin(half), np.cos(half)], axis=2)
    poses += noise * rng.normal(size=poses.shape)
    poses[..., 3:] /= np.linalg.norm(poses[..., 3:], axis=2, keepdims=True)
    return poses, sizes


@both_precisions
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-7, 1e-5, 1e-3])
@every_pair
def test_distance_of_aligned_shapes(pair, noise, S):
    """φ stays the distance where faces, edges and axes are parallel, flush, touching or coincident, up to the bias."""
    poses, sizes = aligned_pairs(*pair, 500, noise)
    contacts = Contacts(S, pair, poses, sizes, FAR)
    error = np.abs(contacts.lowest - reference_distance(*pair, poses, sizes))
    assert (contacts.count > 0).all()
    assert error.max() <= TOLERANCE[S] + BIAS * (pair == (BOX, BOX)), (np.argmax(error), error.max())


@every_pair
def test_distance_agrees_with_mujoco(pair):
    """The smallest φ is MuJoCo's geom distance to its solver's tolerance (deep capsule–box pairs left out)."""
    poses, sizes = random_pairs(*pair, 150, seed=1)
    contacts = Contacts(wp.float64, pair, poses, sizes, FAR)
    geoms = "".join(f'<geom type="{NAMES[k]}" size="1 1 1"/>' for k in pair)
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{geoms}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    distance = np.zeros(len(poses))
    for i in range(len(poses)):
        model.geom_size[:] = sizes[i]
        data.geom_xpos[:] = poses[i, :, :3]
        for g in range(2):
            mujoco.mju_quat2Mat(data.geom_xmat[g], poses[i, g, [6, 3, 4, 5]])
        distance[i] = mujoco.mj_geomDistance(model, data, 0, 1, FAR, None)
    error = np.abs(contacts.lowest - distance)
    if pair == (CAPSULE, BOX):
        # MuJoCo does not find the least penetration of a capsule whose axis enters the box.
        error = error[contacts.lowest > -sizes[:, 0, 0]]
    assert error.max() <= 1e-6 + BIAS * (pair == (BOX, BOX)), error.max()


@both_precisions
@every_pair
def test_points_lie_between_the_two_surfaces(pair, S):
    """The points ∓ φ/2 along the normal from a contact point lie on the surfaces of A and of B.

    Of a capsule only the lowest contact is held to this: the other end ball's point can be inside the cylinder.
    """
    poses, sizes = random_pairs(*pair, 1000, seed=2)
    contacts = Contacts(S, pair, poses, sizes, FAR)
    held = contacts.used
    if CAPSULE in pair:
        held = contacts.phi == contacts.lowest[:, None]
    phi = np.where(contacts.used, contacts.phi, 0.0)[..., None]
    for side, sign in ((0, -0.5), (1, 0.5)):
        surface = contacts.point + sign * phi * contacts.normal
        distance = surface_distance(pair[side], poses[:, side], sizes[:, side], surface)
        assert np.abs(distance[held]).max() <= TOLERANCE[S]
    assert np.allclose(np.linalg.norm(contacts.normal[contacts.used], axis=1), 1.0, atol=1e-6)


@both_precisions
@every_pair
def test_normal_is_the_gradient_of_the_distance(pair, S):
    """Moving B changes the distance by the normal's components: n = ∂φ/∂p_b to 0.1° where the distance is smooth."""
    poses, sizes = random_pairs(*pair, 300, seed=3)
    contacts = Contacts(S, pair, poses, sizes, FAR)
    normal = contacts.normal[np.arange(len(poses)), contacts.phi.argmin(1)]
    step = 1e-5
    forward, backward = np.zeros((2, len(poses), 3))
    here = reference_distance(*pair, poses, sizes)
    for k in range(3):
        for sign, out in ((1, forward), (-1, backward)):
            moved = poses.copy()
            moved[:, 1, k] += sign * step
            out[:, k] = sign * (reference_distance(*pair, moved, sizes) - here) / step
    smooth = (np.abs(forward - backward).max(1) < 1e-3) & ~nearly_parallel_boxes(*pair, poses)
    gradient = 0.5 * (forward + backward)[smooth]
    angle = np.linalg.norm(np.cross(gradient, normal[smooth]), axis=1)
    assert smooth.mean() > 0.9
    assert (np.einsum("ni,ni->n", gradient, normal[smooth]) > 0).all()
    assert np.degrees(angle.max()) <= 0.1


@pytest.mark.parametrize("kind", [SPHERE, CAPSULE, BOX], ids=NAMES.get)
def test_exchange_of_the_geoms(kind):
    """Exchanging A and B keeps distances and points and reverses the normals."""
    poses, sizes = random_pairs(kind, kind, 1000, seed=4)
    one = Contacts(wp.float64, (kind, kind), poses, sizes, FAR)
    two = Contacts(wp.float64, (kind, kind), poses[:, ::-1], sizes[:, ::-1], FAR)
    clear = ~nearly_parallel_boxes(kind, kind, poses)
    assert (one.count == two.count)[clear].all()
    np.testing.assert_allclose(np.sort(one.phi, 1)[clear], np.sort(two.phi, 1)[clear], atol=1e-9)
    rows = np.arange(len(poses))
    first, second = one.phi.argmin(1), two.phi.argmin(1)
    np.testing.assert_allclose(one.normal[rows, first][clear], -two.normal[rows, second][clear], atol=1e-9)
    np.testing.assert_allclose(one.point[rows, first][clear], two.point[rows, second][clear], atol=1e-9)


@both_precisions
@every_pair
def test_margin(pair, S):
    """Exactly the pairs nearer than the margin give contacts, and every contact is nearer than it."""
    poses, sizes = random_pairs(*pair, 1000, seed=5)
    margin = 0.1
    contacts = Contacts(S, pair, poses, sizes, margin)
    distance = reference_distance(*pair, poses, sizes)
    clear = np.abs(distance - margin) > 2 * BIAS
    assert ((contacts.count > 0) == (distance < margin))[clear].all()
    assert (contacts.phi[contacts.used] < margin + TOLERANCE[S]).all()


@every_pair
def test_distance_is_continuous(pair):
    """Along a motion φ changes by at most the length that any point of the geom moves (plus twice the face bias)."""
    steps, paths = 400, 40
    poses, sizes = random_pairs(*pair, paths, seed=6)
    rng = np.random.default_rng(6)
    velocity, spin = rng.normal(size=(2, paths, 1, 3))
    time = np.linspace(-1.0, 1.0, steps)[:, None]
    half = 0.5 * np.linalg.norm(spin, axis=2, keepdims=True) * time
    turn = np.concatenate([np.sin(half) * spin / np.linalg.norm(spin, axis=2, keepdims=True), np.cos(half)], axis=2)
    path = np.repeat(poses[:, None], steps, axis=1)
    path[:, :, 1, :3] += velocity * time
    q = path[:, :, 1, 3:].copy()
    vector = turn[..., 3:] * q[..., :3] + q[..., 3:] * turn[..., :3] + np.cross(turn[..., :3], q[..., :3])
    scalar = turn[..., 3] * q[..., 3] - np.einsum("pti,pti->pt", turn[..., :3], q[..., :3])
    path[:, :, 1, 3:] = np.concatenate([vector, scalar[..., None]], axis=2)
    sizes = np.repeat(sizes[:, None], steps, axis=1)
    contacts = Contacts(wp.float64, pair, path.reshape(-1, 2, 7), sizes.reshape(-1, 2, 3), FAR)
    phi = contacts.lowest.reshape(paths, steps)
    radius = contacts.radius[:, 1].reshape(paths, steps)[:, 1:]
    speed = np.linalg.norm(velocity, axis=2) + radius * np.linalg.norm(spin, axis=2)
    assert (np.abs(np.diff(phi, axis=1)) <= speed * (time[1, 0] - time[0, 0]) + 2 * BIAS).all()


def posed(position, axis=(0.0, 0.0, 1.0), degrees=0.0):
    half = 0.5 * np.radians(degrees)
    axis = np.asarray(axis) / np.linalg.norm(axis)
    return np.array([*position, *(np.sin(half) * axis), np.cos(half)])


def one_pair(S, kinds, pose_a, size_a, pose_b, size_b, margin=0.01):
    return Contacts(S, kinds, np.array([[pose_a, pose_b]]), np.array([[size_a, size_b]]), margin)


@both_precisions
@pytest.mark.parametrize("kind", [PLANE, BOX], ids=NAMES.get)
@pytest.mark.parametrize(
    "x, degrees, tilt, points",
    [
        (0.0, 0.0, 0.0, 4),
        (0.3, 0.0, 0.0, 4),
        (0.0, 20.0, 0.0, 4),
        (0.1, 0.0, 1e-3, 4),
        (1.2, 0.0, 0.01, 4),
        (1.2, 10.0, 0.0, 4),
        (0.9, 45.0, 0.0, 5),
    ],
)
def test_resting_box(kind, x, degrees, tilt, points, S):
    """A box resting on a plane or box touches at its four vertices, or at the corners of the overlap when it overhangs."""
    height = 0.5 if kind == BOX else 0.0
    depth = 1e-3
    pose = posed(
        (x, 0.1 * (x > 0), height + 0.3 - depth), (0.0, 0.0, 1.0) if degrees else (1.0, 0.7, 0.0), degrees or tilt
    )
    contacts = one_pair(S, (kind, BOX), posed((0, 0, 0)), (1.0, 1.0, 0.5), pose, (0.4, 0.4, 0.3))
    if kind == PLANE:
        points = 4
    assert contacts.count[0] == points
    assert np.allclose(contacts.phi[0, :points], -depth, atol=np.radians(tilt) * 2 + 1e-6)
    assert np.allclose(contacts.normal[0, :points], (0.0, 0.0, 1.0), atol=np.radians(tilt) + 1e-6)


@both_precisions
@pytest.mark.parametrize(
    "x, y, degrees, points",
    [
        (0.0, 0.0, 0.0, 4),
        (0.0, 0.2, 0.0, 4),
        (0.2, -0.3, 0.0, 4),
        (0.0, 0.0, 45.0, 8),
        (0.0, 0.0, 1e-6, 4),
        (1e-8, 0.3, 1e-6, 4),
    ],
)
def test_stacked_equal_boxes(x, y, degrees, points, S):
    """Equal cubes, flush or shifted, touch at the corners of the overlap once each; turned by 45° at eight points."""
    pose = posed((x, y, 0.999), (0.0, 0.0, 1.0), degrees)
    contacts = one_pair(S, (BOX, BOX), posed((0, 0, 0)), (0.5, 0.5, 0.5), pose, (0.5, 0.5, 0.5))
    corners = contacts.point[0, :points, :2]
    assert contacts.count[0] == points
    assert np.allclose(contacts.phi[0, :points], -0.001, atol=1e-6)
    gaps = np.linalg.norm(corners[:, None] - corners[None], axis=2) + np.eye(points)
    assert gaps.min() > 0.3


@both_precisions
def test_parallel_capsules_touch_at_both_ends_of_their_overlap(S):
    """Parallel capsules give two points; nearly parallel ones the nearest point too; crossed ones give one."""
    for degrees, x, ends in (
        (0.0, 0.0, (-0.5, 0.5)),
        (0.0, 0.3, (-0.2, 0.5)),
        (180.0, 0.3, (-0.2, 0.5)),
        (0.1, 0.3, (-0.2, 0.5)),
    ):
        pose = posed((0.0, 0.2, x), (0.0, 1.0, 0.0), degrees)
        contacts = one_pair(S, (CAPSULE, CAPSULE), posed((0, 0, 0)), (0.1, 0.5, 0), pose, (0.1, 0.5, 0))
        used = contacts.point[0, : contacts.count[0], 2]
        assert np.allclose((used[0], used[-1]), ends, atol=2e-3), (degrees, used)
        assert contacts.count[0] == (3 if degrees == 0.1 else 2)
    crossed = one_pair(
        S, (CAPSULE, CAPSULE), posed((0, 0, 0)), (0.1, 0.5, 0), posed((0.0, 0.2, 0), (0, 1.0, 0), 30.0), (0.1, 0.5, 0)
    )
    assert crossed.count[0] == 1


@both_precisions
@pytest.mark.parametrize("depth", [1e-3, 0.15])
def test_capsule_along_a_box_face(depth, S):
    """A capsule lying on a face touches at its ends, or where its axis leaves the face; so also in deep penetration."""
    for x, ends in ((0.0, (-0.5, 0.5)), (0.8, (0.3, 1.0))):
        pose = posed((x, 0.0, 0.6 - depth), (0.0, 1.0, 0.0), 90.0)
        contacts = one_pair(S, (CAPSULE, BOX), pose, (0.1, 0.5, 0), posed((0, 0, 0)), (1.0, 1.0, 0.5))
        assert contacts.count[0] == 2
        assert np.allclose(contacts.point[0, :2, 0], ends, atol=1e-5)
        assert np.allclose(contacts.phi[0, :2], -depth, atol=1e-6)
        assert np.allclose(contacts.normal[0, :2], (0.0, 0.0, -1.0), atol=1e-6)


@both_precisions
@every_pair
def test_degenerate_pairs_stay_finite(pair, S):
    """Coincident poses, zero-length capsules and parallel edges give finite geometry with unit normals."""
    sizes = np.array([[[0.3, 0.3, 0.3], [0.3, 0.3, 0.3]], [[0.3, 0.0, 0.3], [0.2, 0.0, 0.2]]])[[0, 1, 0, 0, 1]]
    if BOX in pair:
        sizes = np.maximum(sizes, 0.1 * (np.array(pair)[:, None] == BOX))
    poses = np.tile(posed((0, 0, 0)), (5, 2, 1))
    poses[2, 1, 0] = 0.6
    poses[3] = [posed((0, 0, 0), (1, 1, 0), 90.0), posed((0.6, 0.6, 0), (1, 1, 0), 90.0)]
    poses[4] = [posed((1, 2, 3), (1, 2, 0), 50.0), posed((1, 2, 3), (1, 2, 0), 50.0)]
    contacts = Contacts(S, pair, poses, sizes, FAR)
    assert (contacts.count > 0).all()
    assert np.isfinite(contacts.phi[contacts.used]).all()
    assert np.isfinite(contacts.point).all()
    assert np.allclose(np.linalg.norm(contacts.normal[contacts.used], axis=1), 1.0, atol=1e-6)
    expected = reference_distance(*pair, poses, sizes)
    np.testing.assert_allclose(contacts.lowest, expected, atol=1e-6)


@every_pair
def test_bounds_hold(pair):
    """No pair is nearer than its bounding spheres, or than a plane's bound for the geom's bounding sphere."""
    poses, sizes = random_pairs(*pair, 300, seed=7)
    contacts = Contacts(wp.float64, pair, poses, sizes, FAR)
    if pair[0] == PLANE:
        assert (contacts.radius[:, 0] < 0).all()
        assert (contacts.bound <= contacts.lowest + 1e-12).all()
    else:
        centers = np.linalg.norm(poses[:, 1, :3] - poses[:, 0, :3], axis=1)
        assert (centers - contacts.radius.sum(1) <= contacts.lowest + 1e-12).all()
