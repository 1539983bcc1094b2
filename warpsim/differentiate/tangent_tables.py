# SPDX-License-Identifier: Apache-2.0
"""Where the tangent vectors of a model's positions are among its coordinates (theory (7.2))."""

import numpy as np

from warpsim.kernels.differentiate import reverse_jacobian
from warpsim.model.tangent import tangent_coordinates


def tangent_tables(model) -> tuple[np.ndarray, np.ndarray]:
    """Per degree of freedom `(nv,)` its coordinate, or where its quaternion begins, and its axis as in `reverse_jacobian.py`."""
    coordinate, axis = np.zeros(model.nv, np.int32), np.full(model.nv, reverse_jacobian.PLAIN, np.int32)
    plain, turning = tangent_coordinates(model)
    for i, d in plain:
        coordinate[d] = i
    for i, d in turning:
        coordinate[d : d + 3], axis[d : d + 3] = i, range(3)
    return coordinate, axis
