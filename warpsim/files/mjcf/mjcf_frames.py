# SPDX-License-Identifier: Apache-2.0
"""Poses of inertial frames, geoms and sites in their bodies, as MuJoCo uses them.

MuJoCo takes the body's or the inertial frame, or its axes, where an element's frame differs from it by less than 1e-6
(`mjtSameFrame`).
"""

import numpy as np

from warpsim.model.geometry import IDENTITY

BODY, INERTIA, BODY_AXES, INERTIA_AXES = 1, 2, 3, 4


def inertial_pose(m, body: int) -> np.ndarray:
    """Pose of a body's inertial frame."""
    return _pose_in_use(m.body_ipos[body], m.body_iquat[body], int(m.body_sameframe[body]), IDENTITY)


def geom_pose(m, geom: int) -> np.ndarray:
    """Pose of a geom."""
    inertial = inertial_pose(m, m.geom_bodyid[geom])
    return _pose_in_use(m.geom_pos[geom], m.geom_quat[geom], int(m.geom_sameframe[geom]), inertial)


def site_pose(m, site: int) -> np.ndarray:
    """Pose of a site."""
    inertial = inertial_pose(m, m.site_bodyid[site])
    return _pose_in_use(m.site_pos[site], m.site_quat[site], int(m.site_sameframe[site]), inertial)


def _pose_in_use(position, quaternion, same: int, inertial: np.ndarray) -> np.ndarray:
    frame = inertial if same in (INERTIA, INERTIA_AXES) else IDENTITY
    return np.concatenate([frame[:3] if same in (BODY, INERTIA) else position, frame[3:] if same else quaternion])
