# SPDX-License-Identifier: Apache-2.0
"""Tables that relate the tangent vectors of a model's positions to its coordinates (theory (7.2))."""

import numpy as np

from warpsim.kernels.differentiate import reverse_jacobian
from warpsim.model.tangent import tangent_coordinates


def tangent_tables(device_model):
    """`Tangents` of the positions of a model."""
    model = device_model.model
    coordinate, axis = np.zeros(model.nv, np.int32), np.full(model.nv, reverse_jacobian.PLAIN, np.int32)
    plain, turning = tangent_coordinates(model)
    for i, d in plain:
        coordinate[d] = i
    for i, d in turning:
        coordinate[d : d + 3], axis[d : d + 3] = i, range(3)
    return device_model.struct(reverse_jacobian.Tangents, coordinate=coordinate, axis=axis)


def pose_tables(device_model):
    """The same for the poses [x y z qw qx qy qz] of mocap bodies, which have six degrees of freedom each."""
    first = 7 * np.arange(device_model.model.nmocap)[:, None]
    coordinate = first + np.array([0, 1, 2, 3, 3, 3])
    axis = np.broadcast_to([reverse_jacobian.PLAIN] * 3 + [0, 1, 2], coordinate.shape)
    return device_model.struct(reverse_jacobian.Tangents, coordinate=coordinate.ravel(), axis=axis.ravel())
