# SPDX-License-Identifier: Apache-2.0
"""Random cone QPs whose solution is known, made to be hard; problems without a solution; the same problems for Clarabel."""

from typing import NamedTuple

import numpy as np


class ConeQP(NamedTuple):
    """One problem in the arguments of `solve_cone_qp`, and a solution (None where there is none)."""

    H: np.ndarray
    g: np.ndarray
    A: np.ndarray
    q: np.ndarray
    cones: list
    x: np.ndarray | None
    degenerate: bool = False
    twin: "ConeQP | None" = None  # the same in units where data are of order 1: x = unit · twin.x
    unit: np.ndarray | None = None

    def cost(self, x: np.ndarray) -> float:
        return 0.5 * x @ self.H @ x + self.g @ x

    def size(self, x: np.ndarray) -> float:
        """What errors of the cost are relative to: xᵀHx + |g|ᵀ|x|, and at x = 0 that of a typical x, |g|/|H| or |q|/|A|."""
        largest = [np.abs(a).max(initial=0.0) for a in (self.H, self.g, self.A, self.q)]
        typical = largest[1] / largest[0] if largest[0] else largest[3] / largest[2] if largest[2] else 1.0
        return max(x @ self.H @ x + np.abs(self.g) @ np.abs(x), 1e-3 * largest[1] * typical) or 1.0

    def blocks(self) -> list[tuple[np.ndarray, float]]:
        """(variables, μ) of every cone."""
        out, at = [], 0
        for kind, value in self.cones:
            if kind == "halfline":
                out += [(np.array([i]), 1.0) for i in range(at, at + value)]
            if kind in ("free", "halfline"):
                at += value
            else:
                size = 3 if kind == "friction" else 2
                out.append((np.arange(at, at + size), float(value)))
                at += size
        return out


def random_cone_qp(rng: np.random.Generator) -> ConeQP:
    """Up to 40 variables, 44 rows. Condition of H to 10⁸ or rank-deficient H; a third without strict complementarity;
    rows doubled; μ from 0 and 10⁻³ to 10³; data, rows and variables scaled by up to 10^±6, 10^±3, 10^±2."""
    cones, n = _layout(rng)
    blank = ConeQP(np.zeros((n, n)), np.zeros(n), np.zeros((0, n)), np.zeros(0), cones, None)
    eigenvalues = np.logspace(0.0, -rng.uniform(0.0, 8.0), n)
    if rng.random() < 0.35:
        eigenvalues[int(rng.integers(0, n + 1)) :] = 0.0
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    H = (Q * eigenvalues) @ Q.T
    degenerate = rng.random() < 0.35
    # In variables where every cone is the second-order cone: x_n times μ.
    x, u, T = rng.normal(size=n), np.zeros(n), np.ones(n)
    for block, mu in blank.blocks():
        x[block], u[block] = _complementary(rng, len(block), mu, int(rng.integers(6 if degenerate else 3)))
        if len(block) > 1 and mu > 0.0:
            T[block[-1]] = mu
    A, y, v = _rows(rng, n, degenerate)
    g, q = u + A.T @ y - H @ x, A @ x - v
    H, g, A, x = T[:, None] * H * T, T * g, A * T, x / T
    return _scaled(rng, ConeQP(0.5 * (H + H.T), g, A, q, cones, x, degenerate))


def infeasible_cone_qp(rng: np.random.Generator) -> ConeQP:
    """Two rows that contradict each other, or one that contradicts a cone."""
    p = random_cone_qp(rng)
    row, blocks = rng.normal(size=len(p.g)), p.blocks()
    if blocks and rng.random() < 0.5:
        row = np.zeros(len(p.g))
        row[blocks[0][0][-1]] = -1.0
        rows, q = row[None], np.array([1.0])
    else:
        rows, q = np.stack([row, -row]), np.array([1.0, -0.5])
    size = max(np.abs(p.q).max(initial=0.0) / max(np.abs(p.A).max(initial=0.0), 1e-300), 1.0) if len(p.q) else 1.0
    return p._replace(A=np.concatenate([p.A, rows]), q=np.concatenate([p.q, size * q]), x=None, twin=None)


def unbounded_cone_qp(rng: np.random.Generator) -> ConeQP:
    """A direction of the cones that H does not see, the rows allow and g falls along."""
    p = random_cone_qp(rng)
    n = len(p.g)
    d = rng.normal(size=n)
    for block, _ in p.blocks():
        d[block] = 0.0
        d[block[-1]] = 1.0
    d /= np.linalg.norm(d)
    P = np.eye(n) - np.outer(d, d)
    H = P @ p.H @ P
    A = p.A * np.where(p.A @ d < 0.0, -1.0, 1.0)[:, None]
    g = p.g - d * (p.g @ d + np.abs(p.g).max() + 1e-3)
    return p._replace(H=0.5 * (H + H.T), g=g, A=A, q=-np.abs(p.q), x=None, twin=None)


def clarabel_solution(problem: ConeQP):
    """x of Clarabel at the tightest of three tolerances at which it still says "Solved"; None where it never does.

    It gets the twin in good units: its tolerances are partly absolute.
    """
    if problem.twin is not None:
        x = clarabel_solution(problem.twin)
        return None if x is None else problem.unit * x
    import clarabel
    import scipy.sparse as sp

    n = len(problem.g)
    rows, lower, cones = [problem.A], [problem.q], [clarabel.NonnegativeConeT(len(problem.q))] if len(problem.q) else []
    for block, mu in problem.blocks():
        E = np.eye(n)[block]
        if len(block) > 1 and mu == 0.0:
            rows += [E[:-1], E[-1:]]
            cones += [clarabel.ZeroConeT(len(block) - 1), clarabel.NonnegativeConeT(1)]
        elif len(block) > 1:
            rows.append(np.concatenate([mu * E[-1:], E[:-1]]))
            cones.append(clarabel.SecondOrderConeT(len(block)))
        else:
            rows.append(E)
            cones.append(clarabel.NonnegativeConeT(1))
        lower.append(np.zeros(len(block)))
    A, b = sp.csc_matrix(-np.concatenate(rows)), -np.concatenate(lower)
    if not cones:
        return np.linalg.lstsq(problem.H, -problem.g, rcond=None)[0]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for tolerance in (1e-12, 1e-10, 1e-8):
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        solution = clarabel.DefaultSolver(sp.csc_matrix(np.triu(problem.H)), problem.g, A, b, cones, settings).solve()
        if str(solution.status) == "Solved":
            return np.array(solution.x)
    return None


def _layout(rng):
    """Free variables, half-lines, plane and spatial friction cones; at least one variable."""
    cones = [("free", int(rng.integers(0, 5))), ("halfline", int(rng.integers(0, 8)))]
    for kind, most in (("friction2d", 5), ("friction", 8)):
        for _ in range(int(rng.integers(0, most))):
            mu = rng.choice([0.0, 10.0 ** rng.uniform(-3.0, 3.0), rng.uniform(0.1, 2.0)], p=[0.1, 0.2, 0.7])
            cones.append((kind, float(mu)))
    n = sum(value if kind in ("free", "halfline") else 3 if kind == "friction" else 2 for kind, value in cones)
    return (cones, n) if n else _layout(rng)


def _complementary(rng, size, mu, kind):
    """x in the second-order cone and u in its dual, xᵀu = 0. 0: x inside; 1: u inside; 2: both on the boundary; then what is
    not strictly complementary, 3: u = 0 and x on the boundary, 4: the reverse, 5: both 0."""
    if size > 1 and mu == 0.0:
        x, u = np.zeros(size), rng.normal(size=size)
        x[-1:], u[-1:] = _complementary(rng, 1, 1.0, kind)
        return x, u
    if kind == 0:
        x = np.append(rng.normal(size=size - 1), 0.0)
        x[-1] = np.linalg.norm(x) + rng.uniform(0.1, 1.0)
        return x, np.zeros(size)
    if kind == 1:
        return _complementary(rng, size, mu, 0)[::-1]
    if size == 1:
        return _complementary(rng, size, mu, int(rng.integers(2)))
    t = rng.normal(size=size - 1)
    t /= np.linalg.norm(t)
    x, u = rng.uniform(0.1, 2.0) * np.append(t, 1.0), rng.uniform(0.1, 2.0) * np.append(-t, 1.0)
    return x * (kind in (2, 3)), u * (kind in (2, 4))


def _rows(rng, n, degenerate):
    """A, multipliers y and slacks v: dense or sparse, some rows there twice, some active without a force."""
    m = int(rng.integers(0, n + 4))
    A = rng.normal(size=(m, n))
    if m and rng.random() < 0.3:
        A[rng.random((m, n)) < 0.6] = 0.0
    if m > 2 and rng.random() < 0.4:
        for _ in range(int(rng.integers(1, 4))):
            A[rng.integers(m)] = A[rng.integers(m)] * rng.choice([0.5, 1.0, 2.0])
    active = rng.random(m) < min(0.5, 0.7 * n / max(m, 1))
    y, v = np.where(active, rng.uniform(0.1, 1.0, m), 0.0), np.where(active, 0.0, rng.uniform(0.1, 1.0, m))
    if degenerate:
        y[active & (rng.random(m) < 0.4)] = 0.0
    return A, y, v


def _scaled(rng, p: ConeQP) -> ConeQP:
    """The same problem in other units."""
    H, g, A, q, x, unit = p.H, p.g, p.A, p.q, p.x, np.ones(len(p.x))
    if rng.random() < 0.5:
        a, c = 10.0 ** rng.uniform(-6.0, 6.0, 2)
        H, g, q, x, unit = c * H, a * c * g, a * q, a * x, a * unit
    if rng.random() < 0.4:
        r = 10.0 ** rng.uniform(-3.0, 3.0, len(q))
        A, q = A * r[:, None], q * r
    if rng.random() < 0.4:
        d = 10.0 ** rng.uniform(-2.0, 2.0, len(x))
        for block, _ in p.blocks():
            d[block] = d[block[0]]
        H, A, g, x, unit = d[:, None] * H * d, A * d, d * g, x / d, unit / d
    return p._replace(H=H, g=g, A=A, q=q, x=x, twin=p, unit=unit)
