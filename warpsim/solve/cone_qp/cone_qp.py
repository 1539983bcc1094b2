# SPDX-License-Identifier: Apache-2.0
"""Cone QPs as arrays: `solve_cone_qp` checks and scales each world's program and calls Clarabel (theory §4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from warpsim.base import checks
from warpsim.base.annotations import DeviceName, Numbers, Selection
from warpsim.base.reprs import ShownByShapes
from warpsim.device.replay import capturing
from warpsim.kernels.flags import NONFINITE, NOT_CONVERGED
from warpsim.solve import arrays
from warpsim.solve.cone_qp.second_order import Program, scaled_program

# Relative residual per dtype when the user gives none.
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
# 9 to 15 factorizations are usual, 25 for very hard programs; without strict complementarity the last digits are slow.
DEFAULT_ITERATIONS = 50

# Bits of `flags`, beside NOT_CONVERGED (x is the best point found) and NONFINITE (data too large to be scaled, too).
INFEASIBLE = 4  # no x meets the constraints (certified)
UNBOUNDED = 8  # the cost has no lower bound (certified)

# Clarabel continues to this fraction of the tolerance. At most NEWTON_STEPS Newton steps follow: a gap of δ leaves x
# uncertain by √δ. A residual below EXACT is rounding.
GOAL = 1e-2
NEWTON_STEPS = 3
EXACT = 1e-14
# Infeasibility at which Clarabel accepts an iterate; the projection and Newton's method remove it.
FEASIBILITY = 1e-8
MOST_ITERATIONS = 25  # of one attempt: an attempt that takes more diverges
# Attempts in order until one solves the program: (regularization of Clarabel's factors, fraction of the step to the
# boundary). The first is exact for near-rigid contact, the last has Clarabel's own values.
ATTEMPTS = ((1e-14, 0.99), (1e-10, 0.9), (1e-8, 0.99))
# Certificates: κ > τ/CERTIFICATE_RATIO, and quantities that should vanish are below CERTIFICATE relative to the others.
CERTIFICATE_RATIO = 1e-6
CERTIFICATE = 1e-8

# Number of variables of one cone, by its kind in `solve_cone_qp`.
CONE_SIZES = {"halfline": 1, "friction2d": 2, "friction": 3}

OWNER = "solve_cone_qp"


@dataclass(frozen=True, repr=False)
class ConeQPSolution(ShownByShapes):
    """Solution of `solve_cone_qp`.

    Attributes
    ----------
    x : array (worlds, n)
        The solution.
    duals : array (worlds, m)
        Multipliers of the rows, ≥ 0.
    cone_duals : array (worlds, n)
        Multipliers of the cones, with H x + g = Aᵀ duals + cone_duals in the symbols of `solve_cone_qp`; 0 on free
        variables.
    iterations : array (worlds,) of int
        Factorizations that the solver took.
    residual : array (worlds,)
        The largest of the relative infeasibility of rows and duals and the relative complementarity gap, in
        equilibrated variables.
    flags : array (worlds,) of int
        Bits: `ws.NONFINITE` (data are not finite, x = 0), `ws.NOT_CONVERGED` (`x` is the best point found), 4
        (certified infeasible), 8 (certified unbounded).
    """

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
    """Solve min ½ xᵀHx + gᵀx subject to A x ≥ q and x in cones.

    Parameters
    ----------
    H : array (worlds, n, n) or (n, n)
        Symmetric positive semidefinite matrix of any rank. (n, n) is one world.
    g : array (worlds, n) or (n,)
        Linear cost. All worlds share an array without the worlds' axis, here and below.
    A : array (worlds, m, n) or (m, n), optional
        Matrix of the inequality constraints. Give A and q together. Default: no constraints.
    q : array (worlds, m) or (m,), optional
        Right-hand side of the inequality constraints.
    cones : sequence of (str, int or float)
        The cones of x, in order from the first variable to the last. Default (): all variables are free.

        - `("free", k)`: k variables without a bound.
        - `("halfline", k)`: k variables ≥ 0.
        - `("friction", μ)`: 3 variables (t1, t2, n) with μ n ≥ ‖(t1, t2)‖ and n ≥ 0. μ ≥ 0 is a number or (worlds,).
        - `("friction2d", μ)`: 2 variables (t, n) with μ n ≥ abs(t) and n ≥ 0.
    variables : array (worlds,) of int, optional
        Number of variables that each world uses, counted from the first. Default: all.
    rows : array (worlds,) of int, optional
        Number of constraints that each world uses, counted from the first. Default: all.
    tolerance : float, optional
        Largest `residual` of a solution. Default: 1e-9 in float64, 1e-4 in float32.
    max_iterations : int
        Factorizations after which a world ends with its best point. Default: 50.
    dtype : str
        "float64" (default) or "float32": the type of the solution. The arithmetic is float64.
    device : str, optional
        Name of the Warp device for Warp arrays of the solution. Default: the device of the problem's Warp arrays.

    Returns
    -------
    ConeQPSolution
        Warp arrays if H, g, A or q is one, else NumPy arrays. A world that is infeasible, unbounded or not solved to
        the tolerance is flagged.

    Raises
    ------
    ValueError
        A shape is wrong, a value is not finite or out of range, H is not positive semidefinite, or a graph is being
        captured. The message names the array, the value and the fix.

    Notes
    -----
    Clarabel's interior-point method (Goulart and Chen 2024), then at most three Newton steps (docs/theory.md, §4.3).
    The host solves the worlds one after the other, in one to two milliseconds each. Arrays on a GPU are copied to the
    host and back. The bits of a world do not depend on the other worlds.

    Examples
    --------
    Project (1, 0, 1) onto the friction cone with μ = 0.5.

    >>> found = ws.solve_cone_qp(np.eye(3), g=[-1.0, 0.0, -1.0], cones=[("friction", 0.5)])
    >>> found.x.round(6).tolist(), found.flags.tolist()
    ([[0.6, 0.0, 1.2]], [0])
    """
    scalar = arrays.check_dtype(OWNER, dtype)
    arrays.check_tolerance(OWNER, tolerance)
    checks.whole(max_iterations, f"{OWNER}: max_iterations", 1)
    like = arrays.first_device_array(H, g, A, q)
    device = wp.get_device(like.device if device is None and like is not None else device)
    if capturing(device):
        raise ValueError(f"{OWNER}: works on the host, which a graph cannot capture; call it outside of the capture.")
    tolerance = DEFAULT_TOLERANCE[dtype] if tolerance is None else tolerance
    found = solve_worlds(_check(H, g, A, q, cones, variables, rows), tolerance, max_iterations)
    for name, value in found.items():
        if value.dtype.kind == "f":
            value = found[name] = value.astype(dtype)
        if like is not None:
            found[name] = arrays.to_device(value, scalar if value.dtype.kind == "f" else int, device)
    return ConeQPSolution(**found)


def solve_worlds(data: dict[str, np.ndarray], tolerance: float, max_iterations: int) -> dict[str, np.ndarray]:
    """Solve checked data, worlds first; return the arrays of a `ConeQPSolution`.

    H, g, A, q as in `solve_cone_qp`; `variables`, `rows`, `cones` (worlds,): numbers in use; `start`, `size`, `mu`
    (worlds, C): first variable, number of variables and friction coefficient of every cone.
    """
    worlds, m, n = data["A"].shape
    found = {name: np.zeros((worlds, size)) for name, size in (("x", n), ("duals", m), ("cone_duals", n))}
    found |= {name: np.zeros(worlds, dtype=np.int32) for name in ("iterations", "flags")}
    found["residual"] = np.full(worlds, np.inf)
    for w in range(worlds):
        i, k, c = (int(data[name][w]) for name in ("variables", "rows", "cones"))
        H, g, A, q = data["H"][w, :i, :i], data["g"][w, :i], data["A"][w, :k, :i], data["q"][w, :k]
        start, size, mu = (data[name][w, :c] for name in ("start", "size", "mu"))
        blocks = [(np.arange(a, a + s), float(f), 0) for a, s, f in zip(start, size, mu, strict=True)]
        with np.errstate(all="ignore"):
            program = scaled_program(H, g, A, q, blocks)
        if not (program.is_finite() and np.all(np.isfinite(mu)) and np.all(mu >= 0.0)):
            found["flags"][w] = int(NONFINITE)
            continue
        x, y, *rest = _solve(program, tolerance, max_iterations)
        found["residual"][w], found["iterations"][w], found["flags"][w] = rest
        found["x"][w, :i], found["duals"][w, :k] = x, y = program.scale_x * x, program.scale_y * y
        for block, _, _ in blocks:
            found["cone_duals"][w, block] = (H @ x + g - A.T @ y)[block]
    return found


def _solve(program: Program, tolerance: float, max_iterations: int):
    """(x, y, residual, factorizations, flags) in the program's variables."""
    best, count, flags = (np.zeros(len(program.g)), np.zeros(len(program.q)), np.inf), 0, int(NOT_CONVERGED)
    size = cost = 1.0
    if not program.g.any():  # only the rows determine the size of the cost
        size, cost = program.units(np.linalg.lstsq(program.A, program.q)[0])
    for attempt in ATTEMPTS:
        if best[2] <= tolerance or count >= max_iterations:
            break
        inner, most = program.in_units(size, cost), min(MOST_ITERATIONS, max_iterations - count)
        x, y, status, steps = _clarabel(inner, GOAL * tolerance, most, *attempt)
        count += steps
        if status.endswith("PrimalInfeasible"):
            flags |= INFEASIBLE
        elif status.endswith("DualInfeasible"):
            flags |= UNBOUNDED
        if flags != int(NOT_CONVERGED):
            break
        residual = program.residual(size * x, cost / size * y)
        for _ in range(min(NEWTON_STEPS, max_iterations - count)):
            if residual <= EXACT:
                break
            count, moved = count + 1, inner.newton(x, y)
            after = program.residual(size * moved[0], cost / size * moved[1])
            if not after < residual:
                break
            (x, y), residual = moved, after
        if residual < best[2]:
            best = size * x, cost / size * y, residual
        if status.endswith("Solved"):
            size, cost = program.units(size * x)
    return *best, count, 0 if best[2] <= tolerance else flags


def _clarabel(program: Program, tolerance: float, iterations: int, regularization: float, fraction: float):
    """(x in its cones, y, status, factorizations) by Clarabel."""
    import clarabel
    from scipy.sparse import csc_matrix

    n, m, axes = len(program.g), len(program.q), np.eye(len(program.g))
    rows = [program.A, axes[program.fixed], np.zeros((1, n))]  # Clarabel needs at least one row: a row of zeros
    kinds = [clarabel.NonnegativeConeT(m), clarabel.ZeroConeT(len(rows[1])), clarabel.NonnegativeConeT(1)]
    for block in program.cones:
        rows.append(axes[[block[-1], *block[:-1]]])
        kinds.append(clarabel.SecondOrderConeT(len(block)) if len(block) > 1 else clarabel.NonnegativeConeT(1))
    left = csc_matrix(-np.concatenate(rows))
    right = np.zeros(left.shape[0])
    right[:m] = -program.q
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.equilibrate_enable, settings.max_iter = False, False, iterations
    settings.static_regularization_constant, settings.max_step_fraction = regularization, fraction
    settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = tolerance, tolerance, FEASIBILITY
    settings.tol_infeas_abs = settings.tol_infeas_rel = CERTIFICATE
    settings.tol_ktratio = CERTIFICATE_RATIO
    problem = csc_matrix(np.triu(program.H)), program.g, left, right, kinds, settings
    found = clarabel.DefaultSolver(*problem).solve()
    x, y = np.nan_to_num(found.x), np.nan_to_num(found.z[:m])
    return program.project(x), np.maximum(y, 0.0), str(found.status), found.iterations


def _check(H, g, A, q, cones, variables, rows) -> dict[str, np.ndarray]:
    """Check the arguments and return the data of `solve_worlds`; errors name what is wrong."""
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
    """(variables, μ, index of the entry) of every cone of a description; μ is 0 for half-lines."""
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
    """start, size, mu (worlds, C) and the number of cones per world, from the description of x."""
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
