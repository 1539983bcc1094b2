# SPDX-License-Identifier: Apache-2.0
"""The law of box rows at single points, as the tests of laws and of rows ask it."""

import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.laws import bounds

S = wp.float64
BOX = copy(bounds, S)
box_impulse, box_cost, box_hessian = BOX.box_impulse, BOX.box_cost, BOX.box_hessian


@wp.kernel(module="box_law")
def evaluate_box(
    v_c: wp.array(dtype=S), R: wp.array(dtype=S), lower: wp.array(dtype=S), upper: wp.array(dtype=S),
    gamma: wp.array(dtype=S), cost: wp.array(dtype=S), G: wp.array(dtype=S),
):  # fmt: skip
    i = wp.tid()
    y = -v_c[i] / R[i]
    gamma[i] = box_impulse(y, lower[i], upper[i])
    cost[i] = box_cost(y, R[i], lower[i], upper[i])
    G[i] = box_hessian(y, R[i], lower[i], upper[i])


def run_box(*values):
    """Impulse, cost and Hessian of box rows at `v_c`, `R`, `lower` and `upper`, (n) each, in float64."""
    n = len(values[0])
    out = [wp.zeros(n, dtype=S, device="cpu") for _ in range(3)]
    wp.launch(
        evaluate_box, dim=n, inputs=[wp.array(x, dtype=S, device="cpu") for x in values], outputs=out, device="cpu"
    )
    return [x.numpy() for x in out]
