# SPDX-License-Identifier: Apache-2.0
"""Triangles of meshes on a device, with trees in which rays find them."""

import numpy as np
import warp as wp

from warpsim.device.copies import struct
from warpsim.kernels.contact import ray


def mesh_triangles(meshes, real, device, geom_mesh=()):
    """The table `ray.Triangles` of meshes; `geom_mesh`: the mesh of each geom."""
    offsets = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [np.asarray(mesh.faces) + offset for mesh, offset in zip(meshes, offsets, strict=False)]
    trees = [_tree(np.asarray(mesh.vertices, float)[mesh.faces], device) for mesh in meshes]
    ids = wp.array([tree.id for tree in trees], dtype=wp.uint64, device=device)
    ids.trees = trees  # live as long as their table
    return struct(
        ray.Triangles,
        real,
        device,
        vertex=np.concatenate([np.zeros((0, 3)), *(mesh.vertices for mesh in meshes)]),
        face=np.concatenate([np.zeros((0, 3)), *faces]),
        mesh_start=np.cumsum([0, *map(len, faces)]),
        geom_mesh=np.asarray(geom_mesh),
        tree=ids,
    )


def _tree(corners: np.ndarray, device) -> wp.Bvh:
    """Tree of triangles with these `corners (n, 3, 3)`, whose bounds have the margin that `ray_mesh` needs."""
    margin = ray.MARGIN * np.linalg.norm(corners, axis=-1).max(initial=0.0)
    low, high = corners.min(axis=1) - margin, corners.max(axis=1) + margin
    return wp.Bvh(*(wp.array(x.astype(np.float32), dtype=wp.vec3, device=device) for x in (low, high)))
