# SPDX-License-Identifier: Apache-2.0
"""Cone QPs: `solve_cone_qp` for problems given as arrays, and the workspace and launch of `kernels/solve/cone_qp/cone_qp.py` (theory §4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from warpsim.base import checks
from warpsim.base.annotations import DeviceName, Numbers, Selection
from warpsim.base.reprs import ShownByShapes
from warpsim.device.copies import copy, launch
from warpsim.device.threads import alone
from warpsim.kernels.solve.cone_qp import cone_qp
from warpsim.kernels.solve.cone_qp.system import Vm, Vn
from warpsim.solve import arrays
from warpsim.solve.contact_solver import BLOCK

# Relative residual per dtype when the user gives none.
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
# 9 to 15 factorisations are usual, 25 very hard; without strict complementarity the last digits come slowly.
DEFAULT_ITERATIONS = 50

NOT_CONVERGED = cone_qp.NOT_CONVERGED
NON_FINITE = cone_qp.NON_FINITE
INFEASIBLE = cone_qp.INFEASIBLE
UNBOUNDED = cone_qp.UNBOUNDED

# Variables of one cone, by the kind given to `solve_cone_qp`.
CONE_SIZES = {"halfline": 1, "friction2d": 2, "friction": 3}

OWNER = "solve_cone_qp"


class ConeQPSolver:
    """Workspace and launch for n variables, m rows and C cones; nothing is allocated after construction.

    `problem` (struct) is filled by the caller with its own arrays, field by field: H (worlds, n, n), g (worlds, n),
    A (worlds, m, n), q (worlds, m), start, size, mu (worlds, C) of the cones, and the used counts variables, rows, cones
    (worlds,). A world is flagged above the residual `accepted`, by default the tolerance. `solution` (struct) holds the results: x, z (worlds, n), y (worlds, m), residual, iterations, status (worlds,).
    """

    @alone
    def __init__(
        self,
        worlds: int,
        n: int,
        m: int,
        cones: int,
        *,
        tolerance: float | None = None,
        accepted: float | None = None,
        max_iterations: int = DEFAULT_ITERATIONS,
        dtype: str = "float64",
        device=None,
    ):
        self.scalar = scalar = arrays.check_dtype("ConeQPSolver", dtype)
        arrays.check_tolerance("ConeQPSolver", tolerance)
        checks.whole(max_iterations, "ConeQPSolver: max_iterations", 1)
        self.worlds, self.device = worlds, wp.get_device(device)
        self.work, self.solution = copy(cone_qp.Workspace, scalar)(), copy(cone_qp.Solution, scalar)()
        shapes = {1: worlds, 2: (worlds, n), "y": (worlds, m)}
        shapes |= {"H": (worlds, n, n), "N": (worlds, n, n), "schur": (worlds, m, m)}
        shapes |= {name: (worlds, m, n) for name in ("A", "T")}
        shapes |= {"vn": (worlds, len(Vn), n), "vm": (worlds, len(Vm), m), "stiff": (worlds, m)}
        shapes |= {name: (worlds, cones) for name in ("axis", "start", "size")}
        for struct in (self.work, self.solution):
            arrays.allocate(struct, self.device, shapes)
        self.problem, self.options = copy(cone_qp.Problem, scalar)(), copy(cone_qp.Options, scalar)()
        self.options.tolerance = DEFAULT_TOLERANCE[dtype] if tolerance is None else float(tolerance)
        self.options.accepted = self.options.tolerance if accepted is None else float(accepted)
        self.options.max_iterations = int(max_iterations)

    def launch(self):
        """Solve every world: one kernel launch, off the tape."""
        inputs, device = [self.problem, self.work, self.options, self.solution], self.device
        launch(cone_qp.solve, self.scalar, self.worlds, inputs, device=device, record_tape=False, block_dim=BLOCK)
        return self.solution


@dataclass(frozen=True, repr=False)
class ConeQPSolution(ShownByShapes):
    """x (worlds, n); duals (worlds, m) of the rows and cone_duals (worlds, n): Hx + g = Aᵀ duals + cone_duals, 0 on free
    variables; iterations (worlds,): factorisations; residual (worlds,): the largest of the relative infeasibility of rows
    and duals and the relative complementarity gap, in equilibrated variables; flags (worlds,): bit 1 not converged (x is
    the best point met), 2 non-finite data (x = 0), 4 certified infeasible, 8 certified unbounded."""

    x: Any
    duals: Any
    cone_duals: Any
    iterations: Any
    residual: Any
    flags: Any


def solve_cone_qp(
    H: Numbers,
    g: Numbers,
    A: Numbers | None = None,
    q: Numbers | None = None,
    cones: Any = (),
    *,
    variables: Sequence[str] | None = None,
    rows: Selection | None = None,
    tolerance: float | None = None,
    max_iterations: int = DEFAULT_ITERATIONS,
    dtype: str = "float64",
    device: DeviceName | None = None,
) -> ConeQPSolution:
    """Solve min ½ xᵀHx + gᵀx subject to A x ≥ q and x in cones, by an interior-point method.

    H (worlds, n, n) symmetric positive semidefinite, of any rank; g (worlds, n); A (worlds, m, n), q (worlds, m), or None for
    no rows. A missing leading axis: the same for every world (for H: one world). `cones` describes x from its first variable to its last, as a list of
        ("free", k)        k variables without a sign
        ("halfline", k)    k variables ≥ 0
        ("friction", μ)    3 variables (t1, t2, n) with μ n ≥ ‖(t1, t2)‖, n ≥ 0; μ a number or (worlds,), 0 included
        ("friction2d", μ)  2 variables (t, n) with μ n ≥ |t|, n ≥ 0
    and () means all free. `variables`, `rows (worlds,)`: the first of each world that count. NumPy in, NumPy out, and
    wp.array in, wp.array out (leading axis worlds, always). `tolerance` of the residual: None is 1e-9 in float64, 1e-4 in
    float32. A world that is infeasible, unbounded or not solved to the tolerance is flagged.
    Raises ValueError naming the array, the value and the fix.
    """
    scalar = arrays.check_dtype(OWNER, dtype)
    arrays.check_tolerance(OWNER, tolerance)
    like = arrays.first_device_array(H, g, A, q)
    data = _check(H, g, A, q, cones, variables, rows)
    worlds, m, n = data["A"].shape
    if device is None and like is not None:
        device = like.device
    size = (worlds, n, m, data["start"].shape[1])
    solver = ConeQPSolver(*size, tolerance=tolerance, max_iterations=max_iterations, dtype=dtype, device=device)
    for name, value in data.items():
        kind = int if value.dtype == np.int32 else scalar
        setattr(solver.problem, name, arrays.to_device(value, kind, solver.device))
    out = solver.launch()
    results = (out.x, out.y, out.z, out.iterations, out.residual, out.status)
    return ConeQPSolution(*(results if like is not None else (x.numpy() for x in results)))


def _check(H, g, A, q, cones, variables, rows) -> dict[str, np.ndarray]:
    """The arrays of `cone_qp.Problem` on the host."""
    H = arrays.host(H, f"{OWNER}: H")
    if H.ndim not in (2, 3) or H.shape[-1] != H.shape[-2]:
        raise ValueError(f"{OWNER}: H has shape {H.shape}; give (worlds, n, n) or (n, n).")
    worlds, n = (1 if H.ndim == 2 else H.shape[0]), H.shape[-1]
    if (A is None) != (q is None):
        raise ValueError(f"{OWNER}: one of A and q is missing; give both, or neither.")
    A = np.zeros((worlds, 0, n)) if A is None else arrays.host(A, f"{OWNER}: A")
    q = np.zeros((worlds, 0)) if q is None else q
    if A.ndim not in (2, 3):
        raise ValueError(f"{OWNER}: A has shape {A.shape}; give (worlds, m, n) or (m, n).")
    m = A.shape[-2]
    data = {
        "H": arrays.batch(OWNER, "H", H, (worlds, n, n), "(worlds, n, n)"),
        "g": arrays.batch(OWNER, "g", g, (worlds, n), "(worlds, n)"),
        "A": arrays.batch(OWNER, "A", A, (worlds, m, n), "(worlds, m, n)"),
        "q": arrays.batch(OWNER, "q", q, (worlds, m), "(worlds, m)"),
        "variables": arrays.counts(OWNER, "variables", variables, worlds, n),
        "rows": arrays.counts(OWNER, "rows", rows, worlds, m),
    }
    used = np.arange(n) < data["variables"][:, None]
    inside = used[:, :, None] & used[:, None, :]
    fix = "the problem is convex only then."
    arrays.check_semidefinite(OWNER, "H", np.where(inside, data["H"], 0.0), fix)
    return data | _cone_table(cones, worlds, n, data["variables"])


def cone_blocks(cones) -> list[tuple[np.ndarray, Any, int]]:
    """(variables, μ, number of the entry) of every cone of a description; μ is 0 for half-lines."""
    blocks, at = [], 0
    for i, entry in enumerate(
        checks.several(cones, f"{OWNER}: cones", "give a list of pairs such as ('friction', 0.5).")
    ):
        if not isinstance(entry, (tuple, list)) or len(entry) != 2 or not isinstance(entry[0], str):
            raise ValueError(f"{OWNER}: cones[{i}] is {checks.short(entry)}; give a pair such as ('friction', 0.5).")
        kind, value = entry
        if kind in ("free", "halfline"):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{OWNER}: cones[{i}] is {(kind, value)!r}; give a whole number of variables.")
            if kind == "halfline":
                blocks += [(np.array([k]), 0.0, i) for k in range(at, at + int(value))]
            at += int(value)
        elif kind in CONE_SIZES:
            mu = arrays.host(value, f"{OWNER}: cones[{i}] = {kind!r}, whose friction coefficient")
            if not np.all(np.isfinite(mu)) or np.any(mu < 0.0):
                raise ValueError(
                    f"{OWNER}: cones[{i}] is {(kind, value)!r}; give a friction coefficient of at least 0."
                )
            blocks.append((np.arange(at, at + CONE_SIZES[kind]), mu, i))
            at += CONE_SIZES[kind]
        else:
            raise ValueError(f"{OWNER}: cones[{i}] is of kind {kind!r}; choose one of {['free', *CONE_SIZES]}.")
    return blocks


def _described(cones) -> int:
    """Number of variables that a description covers."""
    return sum(int(value) if kind in ("free", "halfline") else CONE_SIZES[kind] for kind, value in cones)


def _cone_table(cones, worlds: int, n: int, variables: np.ndarray) -> dict[str, np.ndarray]:
    """start, size, mu (worlds, C) and the count per world from the description of x."""
    blocks = cone_blocks(cones)
    if cones and _described(cones) != n:
        raise ValueError(
            f"{OWNER}: cones describe {_described(cones)} variables, but H has {n}; add ('free', k) for the others."
        )
    start = np.array([block[0] for block, _, _ in blocks], dtype=np.int32)
    size = np.array([len(block) for block, _, _ in blocks], dtype=np.int32)
    end = start + size
    cut = (end > variables[:, None]) & (start < variables[:, None])
    if np.any(cut):
        w, c = (int(i) for i in np.argwhere(cut)[0])
        raise ValueError(
            f"{OWNER}: variables[{w}] is {variables[w]}, inside the cone at {start[c]}; end before or after it."
        )
    mu = np.zeros((worlds, len(blocks)))
    for c, (_, value, i) in enumerate(blocks):
        if np.size(value) not in (1, worlds):
            raise ValueError(f"{OWNER}: cones[{i}] has {np.size(value)} friction coefficients; give 1 or {worlds}.")
        mu[:, c] = value
    shape = (worlds, len(blocks))
    return {
        "start": np.broadcast_to(start, shape),
        "size": np.broadcast_to(size, shape),
        "mu": mu,
        "cones": np.sum(end <= variables[:, None], axis=1, dtype=np.int32),
    }
