# SPDX-License-Identifier: Apache-2.0
"""Boxed LCPs: `solve_lcp` for problems given as arrays, and the workspace of `kernels/solve/lcp/lcp.py` (theory §5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.annotations import DeviceName, Numbers, Selection
from warpsim.base.reprs import ShownByShapes
from warpsim.device.copies import copy, launch
from warpsim.device.threads import alone
from warpsim.kernels.solve.lcp import classes as lcp_classes
from warpsim.kernels.solve.lcp import lcp
from warpsim.solve import arrays
from warpsim.solve.contact_solver import BLOCK
from warpsim.solve.scratch import Scratch

# Relative residual per dtype when the user gives none.
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-10}

NOTHING, CLASSES, IMPULSES = lcp.NOTHING, lcp.CLASSES, lcp.IMPULSES
SEPARATING, CLAMPING, UPPER, TIED = lcp_classes.SEPARATING, lcp_classes.CLAMPING, lcp_classes.UPPER, lcp_classes.TIED

OWNER = "solve_lcp"


class LCPSolver:
    """Workspace and launch for one fixed size; nothing is allocated after construction.

    The caller fills `problem` (struct) with its own arrays, field by field: A (worlds, n, n), b, hi, findex, classes
    (worlds, n), rows (worlds,). `options.guess = 1` tries `problem.classes` first. `solution` (struct) holds the
    results: x, classes (worlds, n), residual, factorizations, hit, status (worlds,). With `scratch`, worlds share
    memory for matrices in turns, and A lies there.
    """

    @alone
    def __init__(
        self,
        worlds: int,
        n: int,
        *,
        tolerance: float | None = None,
        dtype: str = "float64",
        device=None,
        scratch: Scratch | None = None,
    ):
        self.scalar = scalar = arrays.check_dtype("LCPSolver", dtype)
        arrays.check_tolerance("LCPSolver", tolerance)
        self.worlds, self.device = worlds, wp.get_device(device)
        self.scratch = scratch
        if scratch is None:
            self.scratch = Scratch(worlds, lcp.MATRICES * n * n, scalar, self.device, window=1)
        shapes = {1: worlds, 2: (worlds, n)}
        self.work, self.solution = copy(lcp.Workspace, scalar)(), copy(lcp.Solution, scalar)()
        for struct in (self.work, self.solution):
            arrays.allocate(struct, self.device, shapes)
        self.problem, self.options = copy(lcp.Problem, scalar)(), copy(lcp.Options, scalar)()
        self.problem.x = wp.zeros((worlds, 0), dtype=scalar, device=self.device)
        self.options.tolerance = DEFAULT_TOLERANCE[dtype] if tolerance is None else float(tolerance)

    def launch(self, turn: int = 0):
        """Solve every world, or those of one turn: one kernel launch, off the tape."""
        inputs, device = [self.problem, self.scratch.data, turn, self.work, self.options, self.solution], self.device
        launch(lcp.solve, self.scalar, self.worlds, inputs, device=device, record_tape=False, block_dim=BLOCK)
        return self.solution


@dataclass(frozen=True, repr=False)
class LCPSolution(ShownByShapes):
    """Solution of `solve_lcp`.

    Attributes
    ----------
    x : array (worlds, n)
        The solution.
    residual : array (worlds,)
        Largest distance of x from the median of (l, x − w, u), relative to the largest abs(b), in variables scaled to a
        unit diagonal of A. The symbols are those of `solve_lcp`.
    classes : array (worlds, n) of int
        0 separating (x = 0), 1 clamping (w = 0), ±2 at the upper (lower) bound, ±3 tied (at a bound with w = 0).
    factorizations : array (worlds,) of int
        Factorizations that the solver took.
    warm_start_hits : array (worlds,) of int
        1 if the given classes were right at the first factorization.
    flags : array (worlds,) of int
        Bits: `ws.NONFINITE` (data are not finite, x = 0), `ws.NOT_CONVERGED` (`x` is the best point found).
    """

    x: Any
    residual: Any
    classes: Any
    factorizations: Any
    warm_start_hits: Any
    flags: Any


def solve_lcp(
    A: Numbers,
    b: Numbers,
    hi: Numbers,
    findex: Numbers,
    *,
    classes: Numbers | None = None,
    rows: Selection | None = None,
    tolerance: float | None = None,
    dtype: str = "float64",
    device: DeviceName | None = None,
) -> LCPSolution:
    """Solve boxed LCPs with coupled friction bounds by pivoting.

    Parameters
    ----------
    A : array (worlds, n, n) or (n, n)
        Symmetric positive semidefinite matrix of any rank. (n, n) is one world.
    b : array (worlds, n) or (n,)
        Right-hand side. All worlds share an array without the worlds' axis, here and below.
    hi : array (worlds, n) or (n,)
        Upper bound of a row with findex < 0 (≥ 0, may be infinite), or friction coefficient of a row with findex ≥ 0 (≥
        0, finite).
    findex : array (worlds, n) or (n,) of int
        −1, or the row whose x scales the friction bound of this row. That row's own findex must be −1.
    classes : array (worlds, n) or (n,) of int, optional
        Classes of an earlier solution, tried first (warm start). Default: no guess.
    rows : array (worlds,) of int, optional
        Number of rows that each world uses, counted from the first. Default: all.
    tolerance : float, optional
        Largest `residual` of a solution. Default: 1e-10 in float64, 1e-4 in float32. Where rounding of A x prevents
        that (one machine epsilon of the largest scaled abs(x)), up to ten times the tolerance is accepted.
    dtype : str
        "float64" (default) or "float32": the arithmetic of the solver.
    device : str, optional
        Name of a Warp device. Default: the device of the problem's Warp arrays, else Warp's default device.

    Returns
    -------
    LCPSolution
        Warp arrays if A, b, hi or findex is one, else NumPy arrays. The first axis is always that of worlds. Friction
        is never dropped: a world without a solution to the tolerance is flagged, and `residual` says how far it is from
        one.

    Raises
    ------
    ValueError
        A shape is wrong, a value is NaN or out of range, or A is not positive semidefinite. The message names the
        array, the value and the fix.

    Notes
    -----
    The problem: find x with w = A x − b and, for every row i,

        l_i ≤ x_i ≤ u_i;   w_i ≥ 0 where x_i = l_i,   w_i ≤ 0 where x_i = u_i,   w_i = 0 between

        findex[i] < 0:       l_i = 0,           u_i = hi_i
        findex[i] = j ≥ 0:   l_i = −hi_i x_j,   u_i = hi_i x_j

    x has the least norm among the solutions with the same classes, if that x is a solution (docs/theory.md, §5).

    Examples
    --------
    Row 0 is a normal impulse, row 1 is friction with μ = 0.5.

    >>> found = ws.solve_lcp(np.eye(2), b=[1.0, 2.0], hi=[np.inf, 0.5], findex=[-1, 0], device="cpu")
    >>> found.x.tolist(), found.classes.tolist(), found.flags.tolist()
    ([[1.0, 0.5]], [[1, 2]], [0])
    """
    scalar = arrays.check_dtype(OWNER, dtype)
    arrays.check_tolerance(OWNER, tolerance)
    like = arrays.first_device_array(A, b, hi, findex)
    data = _check(A, b, hi, findex, classes, rows)
    worlds, n = data["b"].shape
    if device is None and like is not None:
        device = like.device
    solver = LCPSolver(worlds, n, tolerance=tolerance, dtype=dtype, device=device)
    for name, value in data.items():
        kind = int if value.dtype == np.int32 else scalar
        setattr(solver.problem, name, arrays.to_device(value, kind, solver.device))
    solver.options.guess = NOTHING if classes is None else CLASSES
    out = solver.launch()
    results = (out.x, out.residual, out.classes, out.factorizations, out.hit, out.status)
    return LCPSolution(*(results if like is not None else (x.numpy() for x in results)))


def _check(A, b, hi, findex, classes, rows) -> dict[str, np.ndarray]:
    """The arrays of `lcp.Problem` on the host."""
    A = arrays.host(A, f"{OWNER}: A")
    if A.ndim not in (2, 3) or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"{OWNER}: A has shape {A.shape}; give (worlds, n, n) or (n, n).")
    worlds, n = (1 if A.ndim == 2 else A.shape[0]), A.shape[-1]
    vector = ((worlds, n), "(worlds, n)")
    data = {
        "A": arrays.batch(OWNER, "A", A, (worlds, n, n), "(worlds, n, n)"),
        "b": arrays.batch(OWNER, "b", b, *vector),
    }
    data["hi"] = arrays.batch(OWNER, "hi", hi, *vector, infinite=True)
    data["rows"] = arrays.counts(OWNER, "rows", rows, worlds, n)
    findex = arrays.batch(OWNER, "findex", findex, *vector)
    used = np.arange(n) < data["rows"][:, None]
    bounded = used & (findex >= 0)
    column = np.where(bounded, findex, 0).astype(int)
    bad = used & (data["hi"] < 0)
    if np.any(bad):
        raise arrays.entry_error(OWNER, "hi", data["hi"], bad, "an upper bound or friction coefficient is at least 0.")
    bad = bounded & np.isinf(data["hi"])
    if np.any(bad):
        raise arrays.entry_error(OWNER, "hi", data["hi"], bad, "a friction coefficient is finite (1e7 sticks).")
    target = np.take_along_axis(np.where(used, findex, 0), np.minimum(column, max(n - 1, 0)), axis=1) if n else findex
    bad = bounded & ((findex >= data["rows"][:, None]) | (findex != np.round(findex)) | (target >= 0))
    if np.any(bad):
        rule = "give −1, or the number of a used row whose own findex is −1."
        raise arrays.entry_error(OWNER, "findex", findex, bad, rule)
    data["findex"] = findex.astype(np.int32)
    data["classes"] = np.zeros((worlds, n), dtype=np.int32)
    if classes is not None:
        data["classes"] = arrays.batch(OWNER, "classes", classes, *vector)
        bad = ~np.isin(data["classes"], (SEPARATING, CLAMPING, UPPER, -UPPER, TIED, -TIED))
        if np.any(bad):
            raise arrays.entry_error(OWNER, "classes", data["classes"], bad, "give the classes of a solution.")
        data["classes"] = data["classes"].astype(np.int32)
    inside = used[:, :, None] & used[:, None, :]
    fix = "W = J M⁻¹Jᵀ is when the mass matrix M is positive definite."
    arrays.check_semidefinite(OWNER, "A", np.where(inside, data["A"], 0.0), fix)
    data["A"] = 0.5 * (data["A"] + np.swapaxes(data["A"], 1, 2))
    return data
