"""Contact detection and geometry against MuJoCo, an independent NumPy distance, and difference quotients."""

import functools

import mujoco
import numpy as np
import pytest
import warp as wp

from warpsim.kernels.collide import detect as detect_module
from warpsim.kernels.collide import features as features_module
from warpsim.kernels.collide.manifold import contact_features
from warpsim.kernels.precision import module_name, types

PLANE, SPHERE, CAPSULE, BOX = 0, 2, 3, 6
NAMES = {PLANE: "plane", SPHERE: "sphere", CAPSULE: "capsule", BOX: "box"}
PAIRS = [(a, b) for a in NAMES for b in NAMES if a <= b and b != PLANE]
POINTS = 8
NUMPY = {wp.float32: np.float32, wp.float64: np.float64}


@functools.cache
def kernels(S):
    """One kernel that detects and evaluates every pair of a batch."""
    t = types(S)
    detect = detect_module.build(S).detect
    shapes = features_module.build(S)
    evaluate, contact_frame = shapes.evaluate, shapes.contact_frame

    @wp.kernel(module=module_name("test_collide", S), enable_backward=False)
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
        frame: wp.array2d(dtype=t.mat33),
    ):
        i = wp.tid()
        manifold = detect(
            kinds[i, 0], poses[i, 0], sizes[i, 0], kinds[i, 1], poses[i, 1], sizes[i, 1], margin[i]
        )
        counts[i] = manifold.count
        k = wp.int32(0)
        while k < manifold.count:
            feature = contact_features(manifold, k)
            geometry = evaluate(kinds[i, 0], poses[i, 0], sizes[i, 0], kinds[i, 1], poses[i, 1], sizes[i, 1], feature)
            features[i, k] = feature
            phi[i, k] = geometry.phi
            point[i, k] = geometry.point
            normal[i, k] = geometry.normal
            frame[i, k] = contact_frame(geometry.normal)
            k += 1

    return collide


class Contacts:
    """Host copies of the outputs; unused rows of phi are +inf."""

    def __init__(self, S, kinds, poses, sizes, margin):
        t, n = types(S), len(poses)
        dtype = NUMPY[S]
        kinds = np.broadcast_to(np.asarray(kinds, np.int32), (n, 2))
        out = [
            wp.zeros(n, wp.int32, device="cpu"),
            wp.zeros((n, POINTS), wp.vec3i, device="cpu"),
            wp.full((n, POINTS), S(np.inf), S, device="cpu"),
            wp.zeros((n, POINTS), t.vec3, device="cpu"),
            wp.zeros((n, POINTS), t.vec3, device="cpu"),
            wp.zeros((n, POINTS), t.mat33, device="cpu"),
        ]
        inputs = [
            wp.array(np.ascontiguousarray(kinds), dtype=wp.int32, device="cpu"),
            wp.array(np.asarray(poses, dtype), dtype=t.transform, device="cpu"),
            wp.array(np.asarray(sizes, dtype), dtype=t.vec3, device="cpu"),
            wp.array(np.full(n, margin, dtype) if np.ndim(margin) == 0 else np.asarray(margin, dtype), dtype=S, device="cpu"),
        ]
        wp.launch(kernels(S), n, inputs=inputs, outputs=out, device="cpu")
        self.count, self.features, self.phi, self.point, self.normal, self.frame = (a.numpy() for a in out)

    @property
    def used(self):
        return np.arange(POINTS) < self.count[:, None]


def rotate(q, v):
    """Rotate v by unit quaternions (x, y, z, w)."""
    c = 2.0 * np.cross(q[..., :3], v)
    return v + q[..., 3:] * c + np.cross(q[..., :3], c)


def random_pairs(kind_a, kind_b, n, seed, scale=1.0):
    """Poses and sizes of n random pairs, from deep penetration to separation by the size of a geom."""
    rng = np.random.default_rng(seed)
    sizes = scale * rng.uniform(0.2, 1.0, (n, 2, 3))
    poses = np.zeros((n, 2, 7))
    poses[:, :, 3:] = rng.normal(size=(n, 2, 4))
    poses[:, :, 3:] /= np.linalg.norm(poses[:, :, 3:], axis=2, keepdims=True)
    poses[:, :, :3] = scale * rng.uniform(-1.0, 1.0, (n, 2, 3)) * rng.choice([0.3, 1.0, 1.5], (n, 1, 1))
    return poses, sizes
