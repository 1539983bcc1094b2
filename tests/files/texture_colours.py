# SPDX-License-Identifier: Apache-2.0
"""What MuJoCo's own renderer draws: models as MJCF from standard input, points of geom 0 and their colours to standard output, as JSON.

Run by `test_textures.py` in a process of its own, which needs OpenGL without a screen (EGL).
"""

import base64
import json
import sys

import mujoco
import numpy as np

SIZE, STEP = 240, 7  # pixels of a side, and between those that are looked at


def colours(text: str, assets: dict[str, bytes]) -> tuple[list, list]:
    """Points (n, 3) of geom 0 in its axes [m] and colours (n, 3) in 0 .. 1, from two cameras."""
    m = mujoco.MjModel.from_xml_string(text, assets)
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    points: list = []
    found: list = []
    with mujoco.Renderer(m, SIZE, SIZE) as renderer:
        for camera in range(m.ncam):
            renderer.update_scene(d, camera=camera)
            image = renderer.render() / 255.0
            renderer.enable_depth_rendering()
            depth = renderer.render()
            renderer.disable_depth_rendering()
            i, j = np.meshgrid(np.arange(3, SIZE, STEP), np.arange(3, SIZE, STEP), indexing="ij")
            away = depth[i, j].astype(float)
            slope = np.tan(np.radians(m.cam_fovy[camera]) / 2)
            x, y = (j + 0.5 - SIZE / 2) / (SIZE / 2) * slope, -(i + 0.5 - SIZE / 2) / (SIZE / 2) * slope
            rays = np.stack([x, y, -np.ones_like(x)], axis=-1) * away[..., None]
            world = d.cam_xpos[camera] + rays @ d.cam_xmat[camera].reshape(3, 3).T
            local = (world - d.geom_xpos[0]) @ d.geom_xmat[0].reshape(3, 3)
            hit = away < 0.9 * m.vis.map.zfar * m.stat.extent
            points += local[hit].tolist()
            found += image[i, j][hit].tolist()
    return points, found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    files = {name: base64.b64decode(data) for name, data in asked["assets"].items()}
    json.dump([colours(text, files) for text in asked["models"]], sys.stdout)
