# SPDX-License-Identifier: Apache-2.0
"""What the LTVI paper compares with, for serial chains of hinges in float64: dense Newton, and the scalable variational integrator.

    DRNEA + dense Newton   the derivative column by column, O(n^2), as the paper's algorithm 4, and Gaussian elimination, O(n^3)
    SVI                    Johnson and Murphey, IEEE T-RO 25 (2009): generalised coordinates, midpoint kinetic energy, body
                           twists V_i and their derivatives dV_i/dq_j, dV_i/dq'_j by recursion: f in O(n^2), df/dq in O(n^3)

`install(sim, evaluation, method)` puts them in place of a `ws.Variational` simulator's root finder. The stopping rule, the
initial guess and all that a step does around the search stay the same. The potential is trapezoidal in both. Device code:
`kernels.py`.
"""

import numpy as np
import warp as wp

from papers.ltvi import kernels
from papers.ltvi.kernels import mat33, real, vec3, vec6, vec10

EVALUATIONS = {"drnea": kernels.DRNEA, "svi": kernels.SVI}
METHODS = {"riqn": kernels.RIQN, "newton": kernels.NEWTON, "broyden": kernels.BROYDEN}


def install(sim, evaluation: str, method: str) -> None:
    """Make `sim`, a `ws.Variational` simulator of one serial chain of hinges in float64, step with a baseline."""
    step, model = sim._step, sim.model
    n, array = model.nv, step.dynamics.array
    chain, dense, elimination = kernels.Chain(), kernels.Dense(), kernels.Elimination()
    inertia = np.zeros((n, 10))
    inertia[:, 0], inertia[:, 1:4] = model.body_mass, model.body_com
    for column, (i, j) in enumerate(((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))):
        inertia[:, 4 + column] = model.body_inertia[:, i, j]
    chain.axis = wp.array(model.joint_axis, dtype=vec3, device=sim.device)
    chain.offset = wp.array(model.joint_pose[:, :3], dtype=vec3, device=sim.device)
    chain.inertia = wp.array(inertia, dtype=vec10, device=sim.device)
    dense.q = step.q
    dense.R, dense.V, dense.P = array(n, mat33), array(n, vec6), array(n, vec6)
    pairs = n if evaluation == "svi" else 1
    for key in ("V_q", "V_v", "P_q", "P_v"):
        setattr(dense, key, array((pairs, pairs), vec6))
    dense.J = array((n, n), real)
    for key in ("x", "p", "p_next"):
        setattr(dense, key, array(n, real))
    for key in ("aa", "al", "la", "ll"):
        setattr(elimination, key, array(n, mat33))
    elimination.row, elimination.axis = array(n, vec6), array(n, vec3)
    step.root_finder = kernels.search
    step.scratch = [EVALUATIONS[evaluation], METHODS[method], chain, dense, elimination]
    step.scratch += [array((kernels.MEMORY, n), real), array((kernels.MEMORY, 1), real)]
