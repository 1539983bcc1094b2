# SPDX-License-Identifier: Apache-2.0
"""Gradients of the poses of mocap bodies, from those of their links (`tree/mocap.py`).

They are found in coordinates and in the tangent space. The gradient of a link's pose is the wrench F about its origin:
F·V is the change of the loss when the link moves by V (`tree_adjoint.py`).
"""

import warp as wp

from ..flags import NONFINITE
from ..real import func, kernel, quat, real, transform, vec6
from ..tree import spatial as sp
from ..tree.passes import Topology, reference_point
from .tree_adjoint import pose_wrench


@kernel
def load_mocap(
    flags: wp.array(dtype=int),
    rest: wp.array3d(dtype=real),
    mocap: wp.array3d(dtype=real),
    # out
    loaded: wp.array3d(dtype=real),
):
    """Load the poses of a record, or the model's where the world stands still.

    Launch over (worlds, mocap bodies, 7).
    """
    w, i, k = wp.tid()
    loaded[w, i, k] = rest[0, i, k]
    if flags[w] & NONFINITE == 0:
        loaded[w, i, k] = mocap[w, i, k]


@kernel
def add_wrench(
    topology: Topology,
    mocap_link: wp.array(dtype=int),
    link_X: wp.array2d(dtype=transform),
    wrench: wp.array2d(dtype=vec6),
    # out
    link_pose_bar: wp.array2d(dtype=transform),
):
    """Add the gradient of the links' poses, from the wrenches on their trees about o.

    Launch over (worlds, mocap bodies).
    """
    w, i = wp.tid()
    l = mocap_link[i]
    p = wp.transform_get_translation(link_X[w, l])
    o = reference_point(topology, link_X, w, l)
    f = sp.linear(wrench[w, l])
    turn = sp.angular(wrench[w, l]) - wp.cross(p - o, f)
    r_bar = quat(turn[0], turn[1], turn[2], real(0.0)) * wp.transform_get_rotation(link_X[w, l]) * real(2.0)
    link_pose_bar[w, l] = link_pose_bar[w, l] + transform(f, r_bar)


@func
def wrench_of(link_pose: wp.array2d(dtype=transform), bar: wp.array2d(dtype=transform), w: int, l: int) -> vec6:
    """The wrench about the link's own origin."""
    return pose_wrench(link_pose[w, l], bar[w, l], wp.transform_get_translation(link_pose[w, l]))


@kernel
def add_mocap(
    flags: wp.array(dtype=int),
    mocap_link: wp.array(dtype=int),
    mocap: wp.array3d(dtype=real),
    link_pose: wp.array2d(dtype=transform),
    link_pose_bar: wp.array2d(dtype=transform),
    # out
    before_bar: wp.array3d(dtype=real),
    after_bar: wp.array3d(dtype=real),
):
    """Add the gradient of the poses at the start of a step, which are those at its end, and clear the latter.

    The gradient of a quaternion is orthogonal to it. Launch over (worlds, mocap bodies).
    """
    w, i = wp.tid()
    if flags[w] & NONFINITE == 0:
        F = wrench_of(link_pose, link_pose_bar, w, mocap_link[i])
        f = sp.linear(F)
        turn = sp.angular(F)
        r = quat(mocap[w, i, 4], mocap[w, i, 5], mocap[w, i, 6], mocap[w, i, 3])
        r_bar = quat(turn[0], turn[1], turn[2], real(0.0)) * r * (real(2.0) / wp.dot(r, r))
        for k in range(3):
            before_bar[w, i, k] = before_bar[w, i, k] + after_bar[w, i, k] + f[k]
            before_bar[w, i, 4 + k] = before_bar[w, i, 4 + k] + after_bar[w, i, 4 + k] + r_bar[k]
        before_bar[w, i, 3] = before_bar[w, i, 3] + after_bar[w, i, 3] + r_bar[3]
    for k in range(7):
        after_bar[w, i, k] = real(0.0)


@kernel
def gather(
    present_row: wp.array(dtype=int),
    mocap_link: wp.array(dtype=int),
    link_pose: wp.array2d(dtype=transform),
    link_pose_bar: wp.array2d(dtype=transform),
    flags: wp.array(dtype=int),
    # out
    jacobian: wp.array3d(dtype=real),
):
    """Row `present_row[w]` of a Jacobian with respect to the poses.

    Each pose has six columns: its translation in world axes, then its rotation in body axes. Launch over (worlds, mocap
    bodies).
    """
    w, i = wp.tid()
    l = mocap_link[i]
    F = wrench_of(link_pose, link_pose_bar, w, l)
    f = sp.linear(F)
    turn = wp.quat_rotate_inv(wp.transform_get_rotation(link_pose[w, l]), sp.angular(F))
    for k in range(3):
        x = f[k]
        y = turn[k]
        if flags[w] & NONFINITE != 0:
            x = real(wp.nan)
            y = real(wp.nan)
        jacobian[w, present_row[w], 6 * i + k] = x
        jacobian[w, present_row[w], 6 * i + 3 + k] = y
