# SPDX-License-Identifier: Apache-2.0
"""Pairs that the narrow phase leaves out because of how they move have no contact that would touch within the step."""

import numpy as np
import pytest
import warp as wp
from test_collide_convex import (
    ALL_PAIRS,
    CAPSULE,
    CYLINDER,
    MESH,
    PLANE,
    SHAPES,
    SPHERE,
    Contacts,
    default_meshes,
    random_pairs,
)

REACH = 0.4  # of shapes of about 1 m
MOVING = [pair for pair in ALL_PAIRS if PLANE not in pair]


def radius(kind, size, mesh):
    """Of the sphere around a geom."""
    if kind == MESH:
        return np.linalg.norm(SHAPES[mesh], axis=1).max()
    if kind in (CYLINDER, CAPSULE):
        return size[0] + size[1]
    return size[0] if kind == SPHERE else np.linalg.norm(size)


def motions(kind, poses, sizes, meshes, seed):
    """Ways and angles under which no point near B goes farther than REACH, half of them slow."""
    rng, n = np.random.default_rng(seed), len(poses)
    found = rng.normal(size=(n, 5, 3))
    found[:, 4, 0] = [radius(kind, size, mesh) + REACH for size, mesh in zip(sizes[:, 1], meshes[:, 1], strict=True)]
    for way, turn in ((0, 1), (2, 3)):
        far = np.linalg.norm(found[:, way], axis=1) + found[:, 4, 0] * np.linalg.norm(found[:, turn], axis=1)
        scale = rng.uniform(0.0, 1.0, n) * rng.choice([0.1, 1.0], n) * REACH / far
        found[:, [way, turn]] *= scale[:, None, None]
    found[::3, 1] = found[::3, 3] = 0.0  # sliding past each other
    return found


def touching(contacts, poses, motion):
    """(n, POINTS) those that the motion brings together: φ + n·(way + turn × arm) < 0 for one of both."""
    arm = contacts.point - poses[:, None, 1, :3]
    nearer = np.zeros(contacts.phi.shape)
    for k in (0, 2):
        u = motion[:, None, k] + np.cross(motion[:, None, k + 1], arm)
        nearer = np.minimum(nearer, (contacts.normal * u).sum(-1))
    return contacts.used & (contacts.phi + nearer < 0.0)


@pytest.mark.parametrize("S", [wp.float32, wp.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("pair", MOVING, ids=str)
def test_nothing_that_would_touch_is_left_out(pair, S):
    n = 600
    poses, sizes = random_pairs(*pair, n, seed=5)
    meshes = default_meshes(n)
    motion = motions(pair[1], poses, sizes, meshes, 6)
    whole = Contacts(S, pair, poses, sizes, REACH, meshes)
    left = Contacts(S, pair, poses, sizes, REACH, meshes, motion=motion)
    wanted = touching(whole, poses, motion)
    assert wanted.any(1).sum() > 0.2 * n
    assert np.array_equal(wanted, touching(left, poses, motion))
    assert np.array_equal(whole.phi[wanted], left.phi[wanted])
    assert (left.count == 0)[whole.count > 0].mean() > 0.02  # something is left out
