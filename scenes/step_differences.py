# SPDX-License-Identifier: Apache-2.0
"""Jacobians of one step by central differences, to check the analytic ones of `sim.linearize` and to time them against.

Every perturbation is a world of one simulator, so that all differences cost one step of it.
"""

import itertools

import numpy as np

from warpsim.differentiate.linearize import Linearization
from warpsim.simulator import Simulator

# From the largest, where the method's error O(size²) rules, to the smallest, where that of rounding does.
SIZES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


class StepDifferences:
    """Central differences of a step from (q, v) with `control`, `tau` and the model's parameters.

    One column per variable, in the order of `Linearization.arrays`: q, v, controls, forces, then `parameters`. A parameter
    beyond 1 in size is moved by its size times that of the step. `options` go to the simulator, float64 by default.
    """

    def __init__(self, model, q, v, control=None, tau=None, *, parameters=(), sizes=SIZES, **options):
        self.model, self.parameters, self.sizes = model, tuple(parameters), np.asarray(sizes, float)
        options = {"dtype": "float64"} | options
        nv, nu = model.nv, model.nu
        self.control = np.zeros(nu) if control is None else np.asarray(control, float)
        self.tau = np.zeros(nv) if tau is None else np.asarray(tau, float)
        self.entries = {"A": 2 * nv, "B": nu, "tau": nv}
        self.entries |= {name: int(np.prod(np.shape(getattr(model, name)))) for name in self.parameters}
        n = sum(self.entries.values())
        self.sim = Simulator(model, worlds=2 * len(self.sizes) * n, **options)
        moves = np.concatenate([sign * size * np.eye(n) for size in self.sizes for sign in (1.0, -1.0)])
        bounds = np.cumsum([0, nv, nv, nu, nv])
        d_q, d_v, d_u, d_tau = (moves[:, a:b] for a, b in itertools.pairwise(bounds))
        self.scale = np.ones(n)
        self._move_parameters(moves, int(bounds[-1]))
        self.base = Simulator(model, **options)
        self.start = self.sim.state(model.displace(q, d_q), np.asarray(v) + d_v)
        self.inputs = (self.control + d_u, self.tau + d_tau)
        self.point = self.base.state(q, v)

    def _move_parameters(self, moves: np.ndarray, first: int) -> None:
        for name in self.parameters:
            values = np.asarray(getattr(self.model, name), float)
            columns = slice(first, first + values.size)
            self.scale[columns] = np.where(np.isfinite(values), np.maximum(1.0, np.abs(values)), 1.0).ravel()
            self.sim.parameters[name].assign(values + (moves * self.scale)[:, columns].reshape(-1, *values.shape))
            first = columns.stop

    def step(self):
        """The states after one step, one world per perturbation: what the differences cost."""
        return self.sim.step(self.start, self.inputs[0], tau=self.inputs[1])

    def jacobians(self) -> dict[str, np.ndarray]:
        """`(sizes, 2nv, entries)` by name."""
        after, here = self.step(), self.base.step(self.point, self.control[None], tau=self.tau[None])
        moved = self.model.difference(here.q.numpy(), after.q.numpy()), after.v.numpy() - here.v.numpy()
        moved = np.concatenate(moved, axis=-1).reshape(len(self.sizes), 2, len(self.scale), -1)
        slopes = (moved[:, 0] - moved[:, 1]) / (2 * self.sizes[:, None, None] * self.scale[:, None])
        ends = np.cumsum(list(self.entries.values()))[:-1]
        return dict(zip(self.entries, np.split(slopes.transpose(0, 2, 1), ends, axis=2), strict=True))

    def errors(self, result: Linearization, world: int = 0) -> dict[str, float]:
        """Per array of `result` the worst deviation from the differences, each column's at its best size, relative to the
        largest entry of its block (δq' or δv' by δq, by δv, or by the other variables)."""
        nv, differences, worst = self.model.nv, self.jacobians(), {}
        for name, array in result.arrays().items():
            J, D = array.numpy()[world].astype(float), differences[name]
            worst[name] = 0.0
            columns = (slice(0, nv), slice(nv, 2 * nv)) if name == "A" else (slice(None),)
            for block in ((rows, c) for rows in (slice(0, nv), slice(nv, 2 * nv)) for c in columns):
                error = np.abs(D[(slice(None), *block)] - J[block]).max(axis=1, initial=0.0).min(axis=0)
                scale = np.abs(J[block]).max(initial=0.0)
                worst[name] = max(worst[name], error.max(initial=0.0) / scale if scale > 0 else error.max(initial=0.0))
        return worst
