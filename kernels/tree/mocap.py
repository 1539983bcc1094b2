# SPDX-License-Identifier: Apache-2.0
"""Mocap bodies: children of the world without a joint, whose poses are an input of every step.

Their links are fixed links with a pose per world, so that all passes of `passes.py` find them in place. They have no
velocity. The gradient of a pose is a wrench, as for all poses (`kernels/differentiate/tree_adjoint.py`).
"""

import warp as wp

from ..flags import NONFINITE
from ..real import func, kernel, real, transform
from . import joints


@func
def is_pose(X: transform) -> bool:
    """Whether X is finite. A quaternion that is not a rotation was read as not a number."""
    found = True
    for i in range(7):
        x = X[i]
        if not (x - x == real(0.0)):
            found = False
    return found


@kernel
def place(
    mocap_link: wp.array(dtype=int),
    mocap: wp.array3d(dtype=real),
    # out
    flags: wp.array(dtype=int),
    link_pose: wp.array2d(dtype=transform),
):
    """Poses of the links of mocap bodies from the input (x y z, qw qx qy qz). Launch over worlds.

    With `flags`, a world whose input is not a pose is flagged NONFINITE, and its link stays. Without, the link's pose
    becomes not a number.
    """
    w = wp.tid()
    for i in range(mocap_link.shape[0]):
        X = joints.read_pose(mocap, w, i)
        if flags.shape[0] == 0:
            link_pose[w, mocap_link[i]] = X
        elif is_pose(X):
            link_pose[w, mocap_link[i]] = X
        else:
            flags[w] = flags[w] | NONFINITE
