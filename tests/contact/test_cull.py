# SPDX-License-Identifier: Apache-2.0
"""Bounds that spare pairs of geoms the narrow phase must never be too large: against MuJoCo's distances, and meshes' own vertices."""

import functools
import itertools

import numpy as np
import pytest
import warp as wp
from scipy.spatial import ConvexHull
from test_collide_convex import BOX, CAPSULE, CYLINDER, ELLIPSOID, NUMPY, SPHERE, mujoco_distance, random_pairs

import warpsim as ws
from warpsim.device.copies import copy, scalar_types
from warpsim.kernels.contact import cull
from warpsim.kernels.contact.narrow import manifold
from warpsim.model.model import GeomType

DEVICE = wp.get_preferred_device()
KINDS = (SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX)


@functools.cache
def kernel(S):
    t, boxes_apart = scalar_types(S), copy(cull, S).boxes_apart

    @wp.kernel(module=f"test_cull_{S.__name__}", enable_backward=False)
    def apart(
        kind_a: wp.int32,
        kind_b: wp.int32,
        poses: wp.array2d(dtype=t.transform),
        sizes: wp.array2d(dtype=t.vec3),
        out: wp.array(dtype=S),
        along: wp.array(dtype=t.vec3),
    ):
        i = wp.tid()
        distance, way = boxes_apart(kind_a, poses[i, 0], sizes[i, 0], kind_b, poses[i, 1], sizes[i, 1])
        out[i] = distance
        along[i] = way

    return apart


def apart(S, pair, poses, sizes):
    """How far the boxes are apart, and along which way."""
    t = scalar_types(S)
    out, along = wp.zeros(len(poses), S, device=DEVICE), wp.zeros(len(poses), t.vec3, device=DEVICE)
    inputs = [
        *pair,
        wp.array(poses.astype(NUMPY[S]), dtype=t.transform, device=DEVICE),
        wp.array(sizes.astype(NUMPY[S]), dtype=t.vec3, device=DEVICE),
    ]
    wp.launch(kernel(S), len(poses), inputs=inputs, outputs=[out, along], device=DEVICE)
    return out.numpy(), along.numpy()


@pytest.mark.parametrize("S", [wp.float64, wp.float32], ids=["float64", "float32"])
def test_boxes_are_no_farther_apart_than_the_geoms(S):
    """Of every pair of kinds, with MuJoCo's distance; and far from trivial where the geoms are far apart."""
    for pair in itertools.combinations_with_replacement(KINDS, 2):
        poses, sizes = random_pairs(*pair, 200)
        distance = mujoco_distance(pair, poses, sizes)
        found, along = apart(S, pair, poses, sizes)
        assert (found >= 0).all()
        np.testing.assert_allclose(np.linalg.norm(along, axis=1), found > 0, atol=1e-6)
        assert ((along * (poses[:, 1, :3] - poses[:, 0, :3])).sum(1) >= found - 1e-6).all()  # from A to B
        assert (found <= np.maximum(distance, 0) + (1e-8 if S is wp.float64 else 1e-5)).all(), pair
        far = distance > 0.5
        assert found[far].mean() > 0.4 * distance[far].mean(), pair


def test_boxes_along_the_axes_are_as_far_apart_as_they_look():
    rng = np.random.default_rng(0)
    poses, sizes = np.zeros((100, 2, 7)), rng.uniform(0.1, 0.5, (100, 2, 3))
    poses[:, :, 6] = 1.0
    poses[:, :, :3] = rng.uniform(-2, 2, (100, 2, 3))
    gap = np.abs(poses[:, 0, :3] - poses[:, 1, :3]) - sizes.sum(1)
    found, along = apart(wp.float64, (BOX, BOX), poses, sizes)
    np.testing.assert_allclose(found, np.maximum(gap.max(1), 0), atol=1e-14)
    off = np.flatnonzero(found > 0)
    np.testing.assert_array_equal(np.abs(along[off]).argmax(1), gap[off].argmax(1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_capsules_hold_the_vertices_of_meshes(dtype):
    """Of meshes that are neither centred nor along their axes, on bodies anywhere; and their size cannot be made another."""
    rng = np.random.default_rng(1)
    b = ws.ModelBuilder("meshes")
    b.add_geom("plane")
    clouds = [
        rng.normal(size=(12, 3)) * scale + rng.normal(size=3) for scale in ([1, 1, 1], [3, 1, 0.2], [0.1, 0.2, 2])
    ]
    for cloud in clouds:
        faces = ConvexHull(cloud).simplices
        body = b.add_body(pose=[*rng.normal(size=3), *rng.normal(size=4)])
        b.add_joint(body, "free")
        b.add_geom("mesh", mesh=(cloud, faces), body=body, pose=[*rng.normal(size=3), *rng.normal(size=4)])
    model = b.build()
    sim = ws.Simulator(model, worlds=2, dtype=dtype, device="cpu", max_contacts=200)
    with pytest.raises(ValueError, match=r"'geom_size'.*a mesh .* the size of their points"):
        sim.parameters["geom_size"] = 0.5 * model.geom_size  # the bounds would be too small
    sim.step(sim.state())
    collision, link_V = sim._step.collision, sim._step.dynamics.link_V
    collision.place_geoms(link_V, link_V)  # again: the solver works where they lay
    X, capsules = collision.geom_X.numpy(), collision.geom_capsule.numpy()
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    for w, g in itertools.product(range(2), range(1, 4)):
        vertices = model.meshes[model.geom_mesh[g]].vertices
        x, u, s = vertices, X[w, g, 3:6], X[w, g, 6]
        x = x + 2 * np.cross(u, np.cross(u, x) + s * x)  # rotated by the quaternion (u, s)
        axis, radius, reach = capsules[w, g, :3], capsules[w, g, 3], capsules[w, g, 4]
        length = np.linalg.norm(axis)
        along = np.clip(x @ axis / length, -length, length)
        assert (np.linalg.norm(x - along[:, None] * axis / length, axis=1) <= radius + tolerance).all()
        assert (np.linalg.norm(x, axis=1) <= reach + tolerance).all()
        assert radius < reach < 3 * np.linalg.norm(x, axis=1).max()


def test_shapes_of_kernels_have_the_numbers_of_geom_types():
    """Device code tells shapes apart by the numbers of `GeomType`."""
    names = {"HFIELD": "HEIGHT_FIELD"}
    assert all(getattr(manifold, names.get(kind.name, kind.name)) == kind for kind in GeomType)
