# SPDX-License-Identifier: Apache-2.0
"""Sites and cameras of a compiled MuJoCo model."""

import mujoco
import numpy as np

from warpsim.files.mjcf.mjcf_frames import site_pose
from warpsim.files.mjcf.mjcf_names import element_names
from warpsim.model.builder import ModelBuilder
from warpsim.model.marks import SITE_TYPES
from warpsim.model.model import GeomType

DEFAULT_SITE_RADIUS = 0.005  # [m], MuJoCo's


def add_marks(b: ModelBuilder, m) -> None:
    """Add the sites and the cameras, in MuJoCo's order."""
    for s, name in enumerate(element_names(m, mujoco.mjtObj.mjOBJ_SITE, m.nsite, "site")):
        material, kind = int(m.site_matid[s]), int(m.site_type[s])
        known = kind in SITE_TYPES  # a mesh site is drawn as a ball
        b.add_site(
            name,
            body=int(m.site_bodyid[s]) - 1,
            pose=site_pose(m, s),
            type=GeomType(kind) if known else GeomType.SPHERE,
            size=m.site_size[s] if known else [DEFAULT_SITE_RADIUS],
            rgba=m.site_rgba[s] if material < 0 else m.mat_rgba[material],
        )
    for c, name in enumerate(element_names(m, mujoco.mjtObj.mjOBJ_CAMERA, m.ncam, "camera")):
        pose = np.concatenate([m.cam_pos[c], m.cam_quat[c]])
        body, resolution = int(m.cam_bodyid[c]) - 1, np.maximum(m.cam_resolution[c], 1)
        b.add_camera(name, body=body, pose=pose, fovy=np.deg2rad(m.cam_fovy[c]), resolution=resolution)
