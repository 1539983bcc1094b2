# SPDX-License-Identifier: Apache-2.0
"""Pictures of meshes: a solid made of many triangles is drawn as the primitive it is."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.show.render import Camera, render_image

SIZE = np.array([0.3, 0.2, 0.15])


def box(mesh: bool) -> ws.Model:
    """A turned box above a floor, each face as 2 x 12² triangles if it is a mesh."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", name="floor")
    b.add_body("box", pose=[0, 0, 0.4, 0.9, 0.1, 0.3, 0.2])
    b.add_joint("box", "free")
    look = {"rgba": (0.8, 0.3, 0.2, 1), "body": "box"}
    if not mesh:
        b.add_geom("box", SIZE, **look)
        return b.build()
    n = 12
    grid = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, c, d, e = grid[:-1, :-1].ravel(), grid[1:, :-1].ravel(), grid[1:, 1:].ravel(), grid[:-1, 1:].ravel()
    side = np.stack([np.stack([a, c, d], -1), np.stack([a, d, e], -1)], 1).reshape(-1, 3)
    u, v = np.meshgrid(np.linspace(-1, 1, n + 1), np.linspace(-1, 1, n + 1), indexing="ij")
    vertices, faces = [], []
    for axis in range(3):
        for sign in (1, -1):
            flat = np.stack([np.full(u.size, sign), u.ravel(), v.ravel()], -1)
            vertices.append(np.roll(flat, axis, axis=1) * SIZE)
            faces.append((side if sign > 0 else side[:, ::-1]) + len(faces) * len(flat))
    b.add_geom("mesh", mesh=(np.concatenate(vertices), np.concatenate(faces)), density=0.0, **look)
    b.bodies[0].mass, b.bodies[0].inertia = 1.0, np.eye(3)
    return b.build()


@pytest.mark.parametrize(
    "camera", [None, Camera((0.5, -0.4, 0.6), (0.0, 0.0, 0.4), 100.0)], ids=["whole", "so near that some is behind"]
)
def test_a_mesh_is_drawn_as_its_primitive(camera):
    """Equal pixels up to the edges between triangles, where a ray may slip through by rounding: 1 in 1000."""
    images = [render_image(m := box(mesh), m.q0, camera, 160, 90).astype(int) for mesh in (False, True)]
    differs = np.abs(images[0] - images[1]).max(axis=-1) > 1
    assert differs.mean() < 1e-3
    assert np.abs(images[1] - images[1][0, 0]).max() > 50  # there is something to see
