# SPDX-License-Identifier: Apache-2.0
"""Tables that relate the tangent vectors of a model's positions to its coordinates (theory (7.2))."""

import numpy as np

from warpsim.kernels.differentiate import reverse_jacobian
from warpsim.model.tangent import tangent_coordinates


def tangent_tables(model) -> tuple[np.ndarray, np.ndarray]:
    """Per degree of freedom `(nv,)`: its coordinate, or its quaternion's first; its axis (`reverse_jacobian.py`)."""
    coordinate, axis = np.zeros(model.nv, np.int32), np.full(model.nv, reverse_jacobian.PLAIN, np.int32)
    plain, turning = tangent_coordinates(model)
    for i, d in plain:
        coordinate[d] = i
    for i, d in turning:
        coordinate[d : d + 3], axis[d : d + 3] = i, range(3)
    return coordinate, axis


def pose_tables(poses: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for poses [x y z qw qx qy qz], which have six degrees of freedom each."""
    first = 7 * np.arange(poses)[:, None]
    coordinate = first + np.array([0, 1, 2, 3, 3, 3])
    axis = np.broadcast_to([reverse_jacobian.PLAIN] * 3 + [0, 1, 2], coordinate.shape)
    return coordinate.ravel().astype(np.int32), axis.ravel().astype(np.int32)
