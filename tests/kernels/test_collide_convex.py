"""Contacts of cylinders, ellipsoids and meshes against MuJoCo, a NumPy search over directions, and difference quotients."""

import functools

import mujoco
import numpy as np
import pytest
import warp as wp
from warpsim.kernels.collide import convex as convex_module
from warpsim.kernels.collide import convex_features as features_module
from warpsim.kernels.collide import shape as shape_module
from warpsim.kernels.collide.manifold import contact_features
from warpsim.kernels.precision import module_name, types
from warpsim.model.convex import convex_table
from warpsim.model.model import Mesh

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
    geom_type = np.full(len(SHAPES), MESH)

    def __init__(self, scale):
        self.meshes = tuple(Mesh(str(i), scale * v, None) for i, v in enumerate(SHAPES))


@functools.cache
def table(S, scale=1.0):
    t, host = types(S), convex_table(Meshes(scale))
    out = shape_module.structs(S).MeshTable()
    for key, value in host.items():
        if key != "deviation":
            dtype = t.vec3 if key in ("vertex", "face_normal") else wp.int32
            setattr(out, key, wp.array(value, dtype=dtype, device=DEVICE))
    return out


@functools.cache
def kernels(S):
    """One kernel that detects and evaluates every pair of a batch."""
    t = types(S)
    st = shape_module.structs(S)
    detect, evaluate = convex_module.build(S).detect, features_module.build(S).evaluate
    MeshTable, Shape = st.MeshTable, st.Shape

    @wp.kernel(module=module_name("test_collide_convex", S), enable_backward=False)
    def collide(
        table: MeshTable,
        kinds: wp.array2d(dtype=wp.int32),
        meshes: wp.array2d(dtype=wp.int32),
        poses: wp.array2d(dtype=t.transform),
        sizes: wp.array2d(dtype=t.vec3),
        margin: S,
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
        manifold = detect(table, a, poses[i, 0], b, poses[i, 1], margin)
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
    """Host copies of the outputs; unused rows of phi are +inf."""

    def __init__(self, S, kinds, poses, sizes, margin, meshes=None, scale=1.0):
        t, n, dtype = types(S), len(poses), NUMPY[S]
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


def reference_distance(pair, poses, sizes, scale=1.0, start=None):
    """Signed distance as the largest separation: a grid of directions, then a shrinking random search from the best."""
    rng, count, meshes = np.random.default_rng(0), len(poses), default_meshes(len(poses))
    if pair[0] == PLANE:
        n = rotate(poses[:, 0, 3:], np.broadcast_to([0.0, 0.0, 1.0], (count, 3)))[:, None]
        height = support_height(pair[1], poses[:, 1], sizes[:, 1], meshes[:, 1], -n, scale)
        return -height[:, 0] - np.einsum("ni,ni->n", n[:, 0], poses[:, 0, :3])
    grid = sphere_directions(600)
    value = separation(pair, poses, sizes, meshes, np.broadcast_to(grid, (count, *grid.shape)), scale)
    best = np.argsort(-value, axis=1)[:, :10]
    n = grid[best]
    if start is not None:
        n = np.concatenate([n, start[:, None]], 1)
    value = separation(pair, poses, sizes, meshes, n, scale)
    reach = np.full(n.shape[:2], 0.1)
    for _ in range(90):
        step = rng.normal(size=(count, n.shape[1], 4, 3)) * reach[..., None, None]
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


def surface_distance(kind, pose, size, mesh, points, scale=1.0):
    """How far points (n, k, 3) are outside their shapes (negative inside), a lower bound: over a grid of directions."""


def pair_names(pair):
    return f"{NAMES[pair[0]]}-{NAMES[pair[1]]}"


every_pair = pytest.mark.parametrize("pair", ALL_PAIRS, ids=pair_names)
both_precisions = pytest.mark.parametrize("S", [wp.float64, wp.float32], ids=["float64", "float32"])
TOLERANCE = {wp.float64: 1e-6, wp.float32: 1e-4}  # of the size of the geoms
