# SPDX-License-Identifier: Apache-2.0
"""Contacts of cylinders, ellipsoids and meshes against MuJoCo, a NumPy search over directions, and difference quotients."""

import functools

import mujoco
import numpy as np
import pytest
import warp as wp
from scipy.spatial import ConvexHull
from test_collide import Contacts as SimpleContacts

from warpsim.device.copies import copy, scalar_types
from warpsim.kernels.contact.narrow import convex as convex_module
from warpsim.kernels.contact.narrow import convex_features as features_module
from warpsim.kernels.contact.narrow import manifold as manifold_module
from warpsim.kernels.contact.narrow import nearing as nearing_module
from warpsim.kernels.contact.narrow import shape as shape_module
from warpsim.model import ModelBuilder
from warpsim.model.hull import convex_table
from warpsim.model.model import Mesh
from warpsim.simulator import Simulator

DEVICE = wp.get_preferred_device()
PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 0, 2, 3, 4, 5, 6, 7
NAMES = {2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh", 0: "plane"}
CURVED = (ELLIPSOID, CYLINDER, MESH)
ALL_PAIRS = [(a, b) for a in sorted(NAMES) for b in sorted(NAMES) if a <= b and (a in CURVED or b in CURVED)]
POINTS = 8
NUMPY = {wp.float32: np.float32, wp.float64: np.float64}
FAR = 100.0


def hull(n, seed):
    points = np.random.default_rng(seed).normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * [0.5, 0.7, 0.9]


CUBE = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
SHAPES = [CUBE * 0.5, hull(4, 0), hull(8, 1), hull(20, 2), hull(60, 3), CUBE * [0.8, 0.3, 0.1]]


class Meshes:
    """Stands for a model that has nothing but meshes."""

    geom_mesh = np.arange(len(SHAPES))
    pair_geom = np.stack([geom_mesh, geom_mesh], axis=1)
    hfields = ()

    def __init__(self, scale):
        self.meshes = tuple(Mesh(str(i), scale * v, None) for i, v in enumerate(SHAPES))


@functools.cache
def table(S, scale=1.0):
    t, host = scalar_types(S), convex_table(Meshes(scale))
    out = copy(shape_module, S).MeshTable()
    for key, value in host.items():
        if key != "deviation":
            dtype = {"vertex": t.vec3, "face_normal": t.vec3, "extent": t.real}.get(key, wp.int32)
            setattr(out, key, wp.array(value, dtype=dtype, device=DEVICE))
    return out


@functools.cache
def kernels(S):
    """One kernel that detects and evaluates every pair of a batch."""
    t = scalar_types(S)
    st = copy(shape_module, S)
    detect, evaluate = copy(convex_module, S).detect_convex, copy(features_module, S).evaluate
    MeshTable, Shape, within = st.MeshTable, st.Shape, copy(nearing_module, S).within

    contact_features = copy(manifold_module, S).contact_features

    @wp.kernel(module=f"test_collide_convex_{S.__name__}", enable_backward=False)
    def collide(
        table: MeshTable,
        kinds: wp.array2d(dtype=wp.int32),
        meshes: wp.array2d(dtype=wp.int32),
        poses: wp.array2d(dtype=t.transform),
        sizes: wp.array2d(dtype=t.vec3),
        margin: S,
        motions: wp.array2d(dtype=t.vec3),
        counts: wp.array(dtype=wp.int32),  # out from here
        features: wp.array2d(dtype=wp.vec3i),
        phi: wp.array2d(dtype=S),
        point: wp.array2d(dtype=t.vec3),
        normal: wp.array2d(dtype=t.vec3),
    ):
        i = wp.tid()
        a = Shape()
        b = Shape()
        a.type = kinds[i, 0]
        a.mesh = meshes[i, 0]
        a.size = sizes[i, 0]
        b.type = kinds[i, 1]
        b.mesh = meshes[i, 1]
        b.size = sizes[i, 1]
        motion = within(margin)
        if motions.shape[0] > 0:
            motion.margin = S(0.0)
            motion.way = motions[i, 0]
            motion.turn = motions[i, 1]
            motion.way_star = motions[i, 2]
            motion.turn_star = motions[i, 3]
            motion.radius = motions[i, 4][0]
        manifold = detect(table, a, poses[i, 0], b, poses[i, 1], margin, motion, 0)
        counts[i] = manifold.count
        k = wp.int32(0)
        while k < manifold.count:
            feature = contact_features(manifold, k)
            geometry = evaluate(table, a, poses[i, 0], b, poses[i, 1], feature)
            features[i, k] = feature
            phi[i, k] = geometry.phi
            point[i, k] = geometry.point
            normal[i, k] = geometry.normal
            k += 1

    return collide


class Contacts:
    """Host copies of the outputs; unused rows of phi are +inf. `motion` (n, 5, 3): the ways, angles and (the last one's first) radius of
    `Nearing`; without it nothing is left out for where it goes."""

    def __init__(self, S, kinds, poses, sizes, margin, meshes=None, scale=1.0, motion=()):
        t, n, dtype = scalar_types(S), len(poses), NUMPY[S]
        kinds = np.broadcast_to(np.asarray(kinds, np.int32), (n, 2))
        meshes = default_meshes(n) if meshes is None else np.broadcast_to(np.asarray(meshes, np.int32), (n, 2))
        out = [
            wp.zeros(n, wp.int32, device=DEVICE),
            wp.zeros((n, POINTS), wp.vec3i, device=DEVICE),
            wp.full((n, POINTS), S(np.inf), S, device=DEVICE),
            wp.zeros((n, POINTS), t.vec3, device=DEVICE),
            wp.zeros((n, POINTS), t.vec3, device=DEVICE),
        ]
        inputs = [
            table(S, scale),
            wp.array(np.ascontiguousarray(kinds), dtype=wp.int32, device=DEVICE),
            wp.array(np.ascontiguousarray(meshes), dtype=wp.int32, device=DEVICE),
            wp.array(np.asarray(poses, dtype), dtype=t.transform, device=DEVICE),
            wp.array(np.asarray(sizes, dtype), dtype=t.vec3, device=DEVICE),
            margin,
            wp.array(np.asarray(motion, dtype).reshape(-1, 5, 3), dtype=t.vec3, device=DEVICE),
        ]
        wp.launch(kernels(S), n, inputs=inputs, outputs=out, device=DEVICE)
        self.count, self.features, self.phi, self.point, self.normal = (a.numpy() for a in out)

    @property
    def used(self):
        return np.arange(POINTS) < self.count[:, None]

    @property
    def lowest(self):
        return self.phi.min(1)

    @property
    def lowest_normal(self):
        return self.normal[np.arange(len(self.phi)), self.phi.argmin(1)]


def default_meshes(n):
    return np.stack([np.arange(n), np.arange(n) // 2 + 1], 1).astype(np.int32) % len(SHAPES)


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


def posed(position, axis=(0.0, 0.0, 1.0), degrees=0.0):
    half = 0.5 * np.radians(degrees)
    axis = np.asarray(axis) / np.linalg.norm(axis)
    return np.array([*position, *(np.sin(half) * axis), np.cos(half)])


def support_height(kind, pose, size, mesh, d, scale=1.0):
    """max of d·x over the shapes, for directions d (n, m, 3)."""
    q = (pose[:, 3:] * [-1, -1, -1, 1])[:, None]
    x = rotate(np.broadcast_to(q, (*d.shape[:2], 4)), d)
    s = size[:, None]
    offset = np.einsum("nmi,ni->nm", d, pose[:, :3])
    if kind == SPHERE:
        return offset + s[..., 0]
    if kind == CAPSULE:
        return offset + s[..., 0] + s[..., 1] * np.abs(x[..., 2])
    if kind == ELLIPSOID:
        return offset + np.linalg.norm(s * x, axis=2)
    if kind == CYLINDER:
        return offset + s[..., 0] * np.hypot(x[..., 0], x[..., 1]) + s[..., 1] * np.abs(x[..., 2])
    if kind == BOX:
        return offset + (s * np.abs(x)).sum(2)
    height = np.zeros(d.shape[:2])
    for k, vertices in enumerate(SHAPES):
        rows = mesh == k
        height[rows] = (x[rows] @ (scale * vertices).T).max(2)
    return offset + height


def separation(pair, poses, sizes, meshes, n, scale=1.0):
    """Separation of B from A along unit directions n (rows, m, 3), each from A into B."""
    a, b = (
        support_height(k, poses[:, i], sizes[:, i], meshes[:, i], s * n, scale)
        for i, (k, s) in enumerate(zip(pair, (1, -1), strict=True))
    )
    return -b - a


def sphere_directions(m):
    z = 1 - (2 * np.arange(m) + 1) / m
    angle = np.arange(m) * np.pi * (3 - 5**0.5)
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], 1)


def reference_distance(pair, poses, sizes, scale=1.0):
    """Signed distance as the largest separation: a grid of directions, then a shrinking random search from the best.

    Exact for a plane, else a lower bound, since the search can end early on a ridge.
    """
    rng, count, meshes = np.random.default_rng(0), len(poses), default_meshes(len(poses))
    if pair[0] == PLANE:
        n = rotate(poses[:, 0, 3:], np.broadcast_to([0.0, 0.0, 1.0], (count, 3)))[:, None]
        height = support_height(pair[1], poses[:, 1], sizes[:, 1], meshes[:, 1], -n, scale)
        return -height[:, 0] - np.einsum("ni,ni->n", n[:, 0], poses[:, 0, :3])
    grid = sphere_directions(600)
    value = separation(pair, poses, sizes, meshes, np.broadcast_to(grid, (count, *grid.shape)), scale)
    best = np.argsort(-value, axis=1)[:, :4]
    n = grid[best]
    value = separation(pair, poses, sizes, meshes, n, scale)
    reach = np.full(n.shape[:2], 0.05)
    for _ in range(60):
        step = rng.normal(size=(count, n.shape[1], 3, 3)) * reach[..., None, None]
        trial = n[:, :, None] + np.concatenate([step, -step], 2)
        trial /= np.linalg.norm(trial, axis=3, keepdims=True)
        found = separation(pair, poses, sizes, meshes, trial.reshape(count, -1, 3), scale).reshape(trial.shape[:3])
        pick = found.argmax(2)
        new = np.take_along_axis(found, pick[..., None], 2)[..., 0]
        better = new > value
        n = np.where(better[..., None], np.take_along_axis(trial, pick[..., None, None], 2)[:, :, 0], n)
        value = np.maximum(value, new)
        reach *= np.where(better, 1.3, 0.7)
    return value.max(1)


def mujoco_distance(pair, poses, sizes, scale=1.0):
    """mj_geomDistance of every pair, its iteration carried to convergence."""
    meshes, out = default_meshes(len(poses)), np.zeros(len(poses))
    assets = "".join(
        f'<mesh name="m{i}" inertia="convex" vertex="{" ".join(map(repr, (scale * v).ravel().tolist()))}"/>'
        for i, v in enumerate(SHAPES)
    )
    for key in sorted({tuple(m) for m in meshes.tolist()} if MESH in pair else {(0, 0)}):
        geoms = "".join(
            f'<geom type="mesh" mesh="m{key[i]}"/>' if k == MESH else f'<geom type="{NAMES[k]}" size="1 1 1"/>'
            for i, k in enumerate(pair)
        )
        xml = f'<mujoco><option ccd_tolerance="1e-12" ccd_iterations="500"/><asset>{assets}</asset><worldbody>{geoms}</worldbody></mujoco>'
        model = mujoco.MjModel.from_xml_string(xml)
        data = mujoco.MjData(model)
        for i in range(len(poses)):
            if MESH in pair and tuple(meshes[i]) != key:
                continue
            for g, k in enumerate(pair):
                position, rotation = poses[i, g, :3].copy(), np.zeros(9)
                quaternion = poses[i, g, [6, 3, 4, 5]]
                if k == MESH:  # MuJoCo moves meshes to their centre and axes of inertia
                    position += rotate(poses[i, g, 3:], model.mesh_pos[key[g]])
                    product = np.zeros(4)
                    mujoco.mju_mulQuat(product, quaternion, model.mesh_quat[key[g]])
                    quaternion = product
                else:
                    model.geom_size[g] = sizes[i, g]
                mujoco.mju_quat2Mat(rotation, quaternion)
                data.geom_xpos[g], data.geom_xmat[g] = position, rotation
            out[i] = mujoco.mj_geomDistance(model, data, 0, 1, FAR, None)
    return out


@functools.cache
def mesh_planes(k):
    return ConvexHull(SHAPES[k]).equations


def outside(kind, pose, size, mesh, points):
    """A measure of how far points (n, k, 3) are outside their shapes: 0 on the surface, to first order a distance."""
    n, k = points.shape[:2]
    inverse = pose[:, None, 3:] * np.array([-1.0, -1.0, -1.0, 1.0])
    x = rotate(np.broadcast_to(inverse, (n, k, 4)), points - pose[:, None, :3])
    s = size[:, None]
    if kind == PLANE:
        return x[..., 2]
    if kind == ELLIPSOID:
        value = np.linalg.norm(x / s, axis=2)
        return (value - 1) * value / np.linalg.norm(x / s**2, axis=2)
    if kind == BOX:
        return (np.abs(x) - s).max(2)
    if kind == CYLINDER:
        return np.maximum(np.hypot(x[..., 0], x[..., 1]) - s[..., 0], np.abs(x[..., 2]) - s[..., 1])
    if kind == MESH:
        out = np.zeros((n, k))
        for i in range(len(SHAPES)):
            planes = mesh_planes(i)
            out[mesh == i] = (x[mesh == i] @ planes[:, :3].T + planes[:, 3]).max(2)
        return out
    if kind == CAPSULE:
        x[..., 2] -= np.clip(x[..., 2], -s[..., 1], s[..., 1])
    return np.linalg.norm(x, axis=2) - s[..., 0]


def pair_names(pair):
    return f"{NAMES[pair[0]]}-{NAMES[pair[1]]}"


every_pair = pytest.mark.parametrize("pair", ALL_PAIRS, ids=pair_names)
both_precisions = pytest.mark.parametrize("S", [wp.float64, wp.float32], ids=["float64", "float32"])
TOLERANCE = {wp.float64: 1e-6, wp.float32: 1e-4}  # of the size of the geoms
ALIGNED = 2e-4  # where faces and axes are within rounding of parallel: convex.FACE_BIAS, and frozen normals


@functools.cache
def reference_sample(pair, count, scale):
    poses, sizes = random_pairs(*pair, count, scale=scale)
    return poses, sizes, reference_distance(pair, poses, sizes, scale)


def check_distance(pair, S, contacts, poses, sizes, reference, scale, tolerance):
    """φ is the separation along the contact's normal, and no direction separates more: so φ is the distance."""
    assert (contacts.count > 0).all()
    assert np.isfinite(contacts.phi[contacts.used]).all()
    if pair[0] == PLANE:
        proof = reference
    else:
        n = contacts.lowest_normal[:, None].astype(float)
        n /= np.linalg.norm(n, axis=2, keepdims=True)
        proof = separation(pair, poses, sizes, default_meshes(len(poses)), n, scale)[:, 0]
    error = np.abs(contacts.lowest - proof) / scale
    missed = (reference - contacts.lowest) / scale
    nearly_flush = np.maximum(error, missed) > tolerance  # an axis or face within 2e-4 rad of a face: FACE_BIAS
    assert nearly_flush.mean() <= 0.007 and (len(poses) < 1000 or nearly_flush.mean() <= 0.002)
    assert max(error.max(), missed.max()) <= max(ALIGNED, tolerance), (np.argmax(error), np.argmax(missed))


@both_precisions
@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0])
@every_pair
def test_distance_is_that_of_the_shapes(pair, scale, S):
    """The smallest φ is the signed distance (Euclidean outside, least penetration inside) from 1 mm to 10 m."""
    poses, sizes, reference = reference_sample(pair, 1000 if scale == 1.0 else 150, scale)
    contacts = Contacts(S, pair, poses, sizes, FAR, scale=scale)
    check_distance(pair, S, contacts, poses, sizes, reference, scale, TOLERANCE[S])


@both_precisions
@pytest.mark.parametrize("noise", [0.0, 1e-7, 1e-5])
@every_pair
def test_distance_of_aligned_shapes(pair, noise, S):
    """φ stays the distance, up to ALIGNED, where faces, edges and axes are parallel, flush, touching or coincident."""
    rng = np.random.default_rng(pair)
    n = 60
    sizes = rng.choice([0.1, 0.2, 0.5, 1.0], (n, 2, 3))
    poses = np.zeros((n, 2, 7))
    poses[..., :3] = 0.1 * rng.integers(-6, 7, (n, 2, 3))
    half = rng.integers(0, 8, (n, 2, 1)) * np.pi / 8
    poses[..., 3:] = np.concatenate([np.eye(3)[rng.integers(0, 3, (n, 2))] * np.sin(half), np.cos(half)], axis=2)
    poses += noise * rng.normal(size=poses.shape)
    poses[..., 3:] /= np.linalg.norm(poses[..., 3:], axis=2, keepdims=True)
    contacts = Contacts(S, pair, poses, sizes, FAR)
    tolerance = ALIGNED + 2 * TOLERANCE[S]
    check_distance(pair, S, contacts, poses, sizes, reference_distance(pair, poses, sizes), 1.0, tolerance)


@pytest.mark.parametrize("pair", [p for p in ALL_PAIRS if p[0] != PLANE], ids=pair_names)
def test_distance_agrees_with_mujoco(pair):
    """The smallest φ is MuJoCo's geom distance; its meshes are float32."""
    poses, sizes = random_pairs(*pair, 150, seed=1)
    contacts = Contacts(wp.float64, pair, poses, sizes, FAR)
    assert np.abs(contacts.lowest - mujoco_distance(pair, poses, sizes)).max() <= 1e-6


@both_precisions
@every_pair
def test_points_lie_between_the_two_surfaces(pair, S):
    """The points ∓ φ/2 along the normal from every contact point lie on the surfaces of A and of B.

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
        distance = outside(pair[side], poses[:, side], sizes[:, side], default_meshes(1000)[:, side], surface)
        outliers = np.abs(distance[held]) > TOLERANCE[S]
        assert outliers.mean() <= (0.001 if S is wp.float32 else 0.0)  # parallel lines to float32's digits
    assert np.allclose(np.linalg.norm(contacts.normal[contacts.used], axis=1), 1.0, atol=1e-6)


@both_precisions
@every_pair
def test_normal_is_the_gradient_of_the_distance(pair, S):
    """Moving B changes the distance by the normal's components: n = ∂φ/∂p_b to 0.1° where the distance is smooth."""
    poses, sizes = random_pairs(*pair, 300, seed=3)
    normal = Contacts(S, pair, poses, sizes, FAR).lowest_normal
    here = Contacts(wp.float64, pair, poses, sizes, FAR).lowest
    step = 1e-5
    forward, backward = np.zeros((2, len(poses), 3))
    for k in range(3):
        for sign, out in ((1, forward), (-1, backward)):
            moved = poses.copy()
            moved[:, 1, k] += sign * step
            out[:, k] = sign * (Contacts(wp.float64, pair, moved, sizes, FAR).lowest - here) / step
    smooth = np.abs(forward - backward).max(1) < 1e-3
    gradient = 0.5 * (forward + backward)[smooth]
    angle = np.linalg.norm(np.cross(gradient, normal[smooth]), axis=1)
    assert smooth.mean() > 0.9
    assert (np.einsum("ni,ni->n", gradient, normal[smooth]) > 0).all()
    assert np.degrees(angle.max()) <= 0.1


@pytest.mark.parametrize("kind", CURVED, ids=NAMES.get)
def test_exchange_of_the_geoms(kind):
    """Exchanging A and B keeps the distance and reverses the normal."""
    poses, sizes = random_pairs(kind, kind, 1000, seed=4)
    meshes = default_meshes(1000)
    one = Contacts(wp.float64, (kind, kind), poses, sizes, FAR, meshes)
    two = Contacts(wp.float64, (kind, kind), poses[:, ::-1], sizes[:, ::-1], FAR, meshes[:, ::-1])
    np.testing.assert_allclose(one.lowest, two.lowest, atol=1e-8)
    tied = np.linalg.norm(one.lowest_normal + two.lowest_normal, axis=1) > 1e-4  # two directions of equal depth
    assert tied.mean() <= 0.005


@both_precisions
@every_pair
def test_margin(pair, S):
    """Exactly the pairs nearer than the margin give contacts, and every contact is nearer than it."""
    poses, sizes = random_pairs(*pair, 500, seed=5)
    margin = 0.1
    contacts = Contacts(S, pair, poses, sizes, margin)
    distance = Contacts(wp.float64, pair, poses, sizes, FAR).lowest
    clear = np.abs(distance - margin) > 1e-4
    assert ((contacts.count > 0) == (distance < margin))[clear].all()
    assert (contacts.phi[contacts.used] < margin + TOLERANCE[S]).all()


@every_pair
def test_distance_is_continuous_along_a_motion(pair):
    """Along a smooth motion φ changes by no more than the motion: feature changes do not make it jump."""
    rng = np.random.default_rng(pair)
    paths, steps = 10, 150
    poses, sizes = random_pairs(*pair, paths, seed=6)
    time = np.linspace(0.0, 0.05, steps)[None, :, None]
    velocity, spin = rng.normal(size=(2, paths, 1, 3))
    path = np.repeat(poses[:, None], steps, axis=1)
    path[:, :, 1, :3] += time * velocity
    half = 0.5 * np.linalg.norm(spin, axis=2, keepdims=True) * time
    axis = spin / np.linalg.norm(spin, axis=2, keepdims=True)
    turn = np.concatenate([np.sin(half) * axis, np.cos(half)], axis=2)
    q = path[:, :, 1, 3:]
    vector = turn[..., 3:] * q[..., :3] + q[..., 3:] * turn[..., :3] + np.cross(turn[..., :3], q[..., :3])
    scalar = turn[..., 3] * q[..., 3] - (turn[..., :3] * q[..., :3]).sum(2)
    path[:, :, 1, 3:] = np.concatenate([vector, scalar[..., None]], axis=2)
    meshes = np.repeat(default_meshes(paths), steps, axis=0)
    flat = np.repeat(sizes[:, None], steps, axis=1).reshape(-1, 2, 3)
    contacts = Contacts(wp.float64, pair, path.reshape(-1, 2, 7), flat, FAR, meshes)
    phi = contacts.lowest.reshape(paths, steps)
    speed = np.linalg.norm(velocity, axis=2) + 2.0 * np.linalg.norm(spin, axis=2)
    assert (np.abs(np.diff(phi, axis=1)) <= speed * (time[0, 1, 0] - time[0, 0, 0]) + 1e-6).all()


UPRIGHT, LYING = (0.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 90.0)


@both_precisions
@pytest.mark.parametrize("floor", [PLANE, CYLINDER, BOX, MESH], ids=NAMES.get)
@pytest.mark.parametrize(
    "kind, turn, points",
    [(CYLINDER, UPRIGHT, 4), (CYLINDER, LYING, 2), (MESH, UPRIGHT, 4), (ELLIPSOID, UPRIGHT, 1), (BOX, UPRIGHT, 4)],
    ids=["standing", "lying", "mesh", "ellipsoid", "box"],
)
@pytest.mark.parametrize("tilt", [0.0, 1e-9, 1e-4])
def test_resting_manifolds(kind, turn, points, floor, tilt, S):
    """What rests on a face touches it with its whole face, or line, at the depth it has."""
    if floor in (PLANE, BOX) and kind == BOX:
        return
    depth, size = 1e-3, {CYLINDER: (0.3, 0.5, 0), ELLIPSOID: (0.5, 0.4, 0.3), BOX: (0.5, 0.5, 0.5)}.get(kind, (1, 1, 1))
    height = {ELLIPSOID: 0.3, CYLINDER: 0.3 if turn == LYING else 0.5}.get(kind, 0.5)
    ground = {PLANE: 0.0, CYLINDER: 0.5, BOX: 0.5, MESH: 0.5}[floor]
    below = (posed((0, 0, 0)), (1.0, 0.5, 0.0) if floor == CYLINDER else (2.0, 2.0, 0.5), 0)
    axis, angle = turn[:3], turn[3]
    if tilt:
        angle, axis = (90.0 + np.degrees(tilt), axis) if turn == LYING else (np.degrees(tilt), (1.0, 0.2, 0.0))
    above = (posed((0.05, 0.02, ground + height - depth), axis, angle), size, 0)
    kinds, shapes = (floor, kind), (below, above)
    if floor > kind:
        kinds, shapes = (kind, floor), (above, below)
    (pose_a, size_a, mesh_a), (pose_b, size_b, mesh_b) = shapes
    contacts = Contacts(S, kinds, np.array([[pose_a, pose_b]]), np.array([[size_a, size_b]]), 0.01, [[mesh_a, mesh_b]])
    used = contacts.used[0]
    assert points <= used.sum() <= 8
    assert np.allclose(contacts.phi[0, used], -depth, atol=2 * tilt + 1e-6)
    assert np.allclose(np.abs(contacts.normal[0, used, 2]), 1.0, atol=1e-6)
    spread = np.ptp(contacts.point[0, used, :2], axis=0)
    assert points == 1 or spread.max() > 0.5


def test_cube_mesh_is_a_box():
    """A mesh of eight vertices touches as the box of the same corners: distances, normals, points."""
    n = 500
    poses, _ = random_pairs(BOX, MESH, n, seed=8)
    sizes = np.full((n, 2, 3), 0.5)
    for other in (PLANE, BOX):
        box = SimpleContacts(wp.float64, (other, BOX), poses, sizes, FAR)
        mesh = Contacts(wp.float64, (other, MESH), poses, sizes, FAR, np.zeros((n, 2), int))
        np.testing.assert_allclose(mesh.lowest, box.lowest, atol=1e-4)
        same = np.abs(mesh.lowest - box.lowest) < 1e-8
        assert same.mean() > 0.98
        assert (mesh.count == box.count)[same].mean() > 0.98
        np.testing.assert_allclose(
            mesh.lowest_normal[same], box.normal[np.arange(n), box.phi.argmin(1)][same], atol=1e-6
        )


FACES = [(0, 1, 2), (1, 2, 3), (4, 5, 6), (5, 6, 7), (0, 1, 4), (2, 3, 6)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("floor", ["plane", "box", "mesh", "cylinder"])
def test_resting_bodies_stay(floor, dtype):
    """Standing and lying cylinder, mesh and ellipsoid, each alone in its world: no drift above 1e-5 m in 10 s."""
    half = 0.5**0.5
    for kind, size, z, turn in (
        ("cylinder", (0.1, 0.2), 0.2, (1, 0, 0, 0)),
        ("cylinder", (0.1, 0.2), 0.1, (half, 0, half, 0)),
        ("mesh", (0.2, 0.2, 0.1), 0.1, (1, 0, 0, 0)),
        ("ellipsoid", (0.2, 0.2, 0.1), 0.1, (1, 0, 0, 0)),
    ):
        b = ModelBuilder("rest", timestep=0.01)
        size_below = {"plane": (5, 5, 1), "cylinder": (3, 0.5)}.get(floor, (3, 3, 0.5))
        below = {"mesh": (CUBE * [3, 3, 0.5], FACES)} if floor == "mesh" else {}
        b.add_geom(floor, size_below, pose=[0, 0, 0 if floor == "plane" else -0.5, 1, 0, 0, 0], **below)
        body = b.add_body("body", pose=[0.01, 0.02, z, *turn], mass=5.0, inertia=(0.05, 0.05, 0.05))
        b.add_joint(body, "free")
        b.add_geom(kind, size, body=body, friction=0.8, **({"mesh": (CUBE * size, FACES)} if kind == "mesh" else {}))
        simulator = Simulator(b.build(), worlds=1, dt=0.01, dtype=dtype)
        state = simulator.state()
        for i in range(1000):
            simulator.step(state, out=state)
            if i == 100:
                settled = state.q.numpy().copy()
        assert np.abs(state.q.numpy() - settled).max() < 1e-5, (kind, size)
        assert abs(state.q.numpy()[0, 2] - z) < 1e-3


def test_a_simplified_hull_is_told():
    """A mesh whose hull has to lose vertices says so once, by name and by how much."""
    points = np.random.default_rng(0).normal(size=(2000, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    b = ModelBuilder("ball")
    b.add_geom("plane")
    body = b.add_body("ball", pose=[0, 0, 2], mass=1.0, inertia=[0.4, 0.4, 0.4])
    b.add_joint(body, "free")
    b.add_geom("mesh", body=body, mesh=(points, ConvexHull(points).simplices), name="fine ball")
    with pytest.warns(UserWarning, match="fine ball.*inside the mesh's own hull"):
        Simulator(b.build(), device="cpu")


@pytest.mark.parametrize("S", [wp.float32, wp.float64])
def test_the_farthest_vertex_is_the_first_of_equals(S):
    """Of any number of vertices, by eights or not, along any direction: what NumPy's argmax finds; the first of a cube's four."""
    shapes = copy(shape_module, S)
    tables = [CUBE, *(hull(n, n) for n in (4, 7, 9, 16, 23, 64, 101))]

    @wp.kernel(module=f"test_farthest_{S.__name__}", enable_backward=False)
    def search(table: shapes.MeshTable, d: wp.array(dtype=scalar_types(S).vec3), out: wp.array2d(dtype=int)):
        mesh, k = wp.tid()
        out[mesh, k] = shapes.mesh_support(table, mesh, d[k])

    vertices = np.concatenate(tables).astype(NUMPY[S])
    counts = [len(t) for t in tables]
    ranges = np.zeros((len(tables), 6), np.int32)
    ranges[:, 0], ranges[:, 1] = np.cumsum([0, *counts[:-1]]), counts
    table = shapes.MeshTable()
    table.vertex = wp.array(vertices, dtype=scalar_types(S).vec3, device=DEVICE)
    table.mesh_range = wp.array(ranges, dtype=wp.int32, device=DEVICE)
    directions = np.concatenate([np.eye(3), -np.eye(3), np.random.default_rng(5).normal(size=(200, 3))]).astype(
        NUMPY[S]
    )
    found = wp.zeros((len(tables), len(directions)), dtype=wp.int32, device=DEVICE)
    d = wp.array(directions, dtype=scalar_types(S).vec3, device=DEVICE)
    wp.launch(search, found.shape, [table, d, found], device=DEVICE)
    for points, row in zip(tables, found.numpy(), strict=True):
        heights = points.astype(NUMPY[S]) @ directions.T
        best, exact = heights.argmax(axis=0), np.ptp(np.sort(heights, axis=0)[-2:], axis=0) > 1e-5
        assert np.array_equal(row[exact], best[exact])
        assert np.array_equal(row[:6], best[:6])
