# SPDX-License-Identifier: Apache-2.0
"""Contact problems in NumPy, for tests and benchmarks: exported from a simulator, and solved and judged a second way.

    min ½‖v − v*‖²_A + ½ σᵀRσ   s.t.   Jv − v̂ + Rσ in the dual cone {μ‖g_t‖ ≤ g_n}   (Castro et al., eq. 19)

ℓ, its v-part after σ = P(−R⁻¹(Jv − v̂)), is strongly convex with modulus 1 in the norm of A: any v lies within ‖∇ℓ(v)‖ (norm of
A⁻¹) of the optimum, whoever computed it. Nothing here is shared with the kernels.
"""

import dataclasses
import itertools
import time

import clarabel
import numpy as np
import scipy.linalg as la
import scipy.sparse as sp


def cone_projection(y, R, mu) -> np.ndarray:
    """P(y) (nc, 3): projection on ‖γ_t‖ ≤ μγ_n in the norm of R, by regions of y against the cone and its polar."""
    gamma = np.zeros_like(y)
    y_r = np.hypot(y[:, 0], y[:, 1])
    inside = y_r <= mu * y[:, 2]
    gamma[inside] = y[inside]
    # Outside of the polar cone the nearest point lies on the cone's surface, along `wall`.
    c = np.flatnonzero(~inside & (R[:, 2] * y[:, 2] > -mu * R[:, 0] * y_r))
    direction = y[c, :2] / np.where(y_r[c] > 0.0, y_r[c], 1.0)[:, None]
    wall = np.concatenate([mu[c, None] * direction, np.ones((len(c), 1))], axis=1)
    gamma[c] = wall * (np.sum(wall * R[c] * y[c], axis=1) / np.sum(wall * R[c] * wall, axis=1))[:, None]
    return gamma


@dataclasses.dataclass
class Problem:
    """One world: A (nv, nv), J (nc, 3, nv), v_star, v0 (nv,), mu (nc,), R, v_hat (nc, 3)."""

    A: np.ndarray
    J: np.ndarray
    v_star: np.ndarray
    v0: np.ndarray
    mu: np.ndarray
    R: np.ndarray
    v_hat: np.ndarray

    @classmethod
    def of_world(cls, data: dict, w: int) -> "Problem":
        """World w of arguments of `ws.ContactProblem` with a leading axis, without its padding."""
        n = int(data["contacts"][w]) if "contacts" in data else data["mu"].shape[1]
        J = data["J"][w].reshape(-1, 3, data["A"].shape[-1])[:n]
        return cls(data["A"][w], J, data["v_star"][w], data["v0"][w], *(data[k][w, :n] for k in ("mu", "R", "v_hat")))

    def arguments(self) -> dict:
        """For `ws.ContactProblem(**…)`."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(Problem)}
        return data | {"J": self.J.reshape(-1, len(self.v_star))}

    def impulse(self, v) -> np.ndarray:
        """γ(v) (nc, 3)."""
        return cone_projection((self.v_hat - self.J @ v) / self.R, self.R, self.mu)

    def gradient(self, v) -> np.ndarray:
        """∇ℓ(v) = A (v − v*) − Jᵀγ(v)."""
        return self.A @ (v - self.v_star) - self.generalised(self.impulse(v))

    def generalised(self, gamma) -> np.ndarray:
        """j_c = Jᵀγ (nv,)."""
        return np.einsum("cin,ci->n", self.J, gamma)

    def hessian(self, v, step: float = 1e-6) -> np.ndarray:
        """H(v) = A + JᵀGJ (nv, nv), G = −∂γ/∂v_c by central differences of the projection."""
        y = (self.v_hat - self.J @ v) / self.R
        slopes = []  # ∂P/∂y_a
        for a in range(3):
            d = np.zeros_like(y)
            d[:, a] = step * (np.linalg.norm(y, axis=1) + 1.0)
            ends = (cone_projection(y + sign * d, self.R, self.mu) for sign in (1.0, -1.0))
            slopes.append(np.subtract(*ends) / (2.0 * d[:, a : a + 1]))
        G = np.stack(slopes, axis=2) / self.R[:, None]
        return self.A + np.einsum("cin,cij,cjm->nm", self.J, G, self.J, optimize=True)

    def cost(self, v) -> float:
        """ℓ(v)."""
        d, gamma = v - self.v_star, self.impulse(v)
        return float(0.5 * d @ self.A @ d + 0.5 * np.sum(self.R * gamma**2))

    def norm(self, v) -> float:
        """√(vᵀAv)."""
        return float(np.sqrt(max(v @ self.A @ v, 0.0)))

    def size(self, v) -> float:
        """Norm of A that errors of v are relative to: the larger one of v and v*."""
        return max(self.norm(v), self.norm(self.v_star))

    def distance_bound(self, v) -> float:
        """‖∇ℓ(v)‖ (norm of A⁻¹) over `size`: v is at most so far from the optimum, in the norm of A."""
        g = self.gradient(v)
        return float(np.sqrt(max(g @ np.linalg.solve(self.A, g), 0.0))) / self.size(v)

    def scaled_norm(self, p) -> float:
        """‖Dp‖ of momenta p (nv,), D = diag(A)^(−1/2)."""
        return float(np.linalg.norm(p / np.sqrt(np.diag(self.A))))

    def momentum_error(self, v, j_c) -> float:
        """e_m of v and the generalised impulse j_c (Castro et al., eq. 32)."""
        scale = max(self.scaled_norm(self.A @ v), self.scaled_norm(j_c))
        return self.scaled_norm(self.A @ (v - self.v_star) - j_c) / scale if scale > 0.0 else 0.0

    def slackness_error(self, v, gamma) -> float:
        """e_μ of v and γ (eq. 33): mean of |g_i · γ_i| over ℓ, g = Jv − v̂ + Rγ."""
        g = self.J @ v - self.v_hat + self.R * gamma
        d = v - self.v_star
        cost = 0.5 * d @ self.A @ d + 0.5 * np.sum(self.R * gamma**2)
        return float(np.mean(np.abs(np.sum(g * gamma, axis=1))) / cost) if cost > 0.0 else 0.0


@dataclasses.dataclass
class InteriorPoint:
    """Clarabel's answer: v (nv,), impulses gamma (nc, 3) from the multipliers, iterations, CPU time of those [s], status."""

    v: np.ndarray
    gamma: np.ndarray
    iterations: int
    seconds: float
    status: str


def interior_point(problem: Problem, tolerance: float = 1e-11, blocks=None) -> InteriorPoint:
    """The same convex problem by Clarabel, a second-order cone program solved by a primal-dual interior-point method.

    In the variables x = Lᵀ(v − v*), A = LLᵀ, and s = R^½σ the cost is ½|x|² + ½|s|², and every cone is divided by R_n^½: as
    well scaled as the problem allows. `blocks`: first dofs of A's diagonal blocks (and nv), which keeps J L⁻ᵀ sparse.
    """
    nv, nc = len(problem.v_star), len(problem.mu)
    if nc == 0:
        return InteriorPoint(problem.v_star.copy(), np.zeros((0, 3)), 0, 0.0, "Solved")
    ranges = list(itertools.starmap(slice, itertools.pairwise([0, nv] if blocks is None else blocks)))
    L = [np.linalg.cholesky(problem.A[r, r]) for r in ranges]
    J = problem.J.reshape(3 * nc, nv)
    J_white = [la.solve_triangular(L_r, J[:, r].T, lower=True).T for L_r, r in zip(L, ranges, strict=True)]
    root = np.sqrt(problem.R)
    # Rows in Clarabel's order (n, t1, t2), which wants ‖(row 1, row 2)‖ ≤ row 0.
    weight = np.stack([problem.mu, problem.mu, np.ones(nc)], axis=1) / root[:, 2:]
    order = (3 * np.arange(nc)[:, None] + [2, 0, 1]).ravel()
    G = sp.hstack([sp.csr_matrix(np.concatenate(J_white, axis=1)), sp.diags(root.ravel())], format="csr")
    G = (sp.diags(weight.ravel()) @ G)[order].tocsc()
    h = (weight * (problem.J @ problem.v_star - problem.v_hat)).ravel()[order]
    unit = np.abs(h).max()  # the problem is homogeneous: a solution of size 1 suits the absolute tolerances
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 200
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    P, cones = sp.eye(nv + 3 * nc, format="csc"), [clarabel.SecondOrderConeT(3)] * nc
    solver = clarabel.DefaultSolver(P, np.zeros(nv + 3 * nc), -G, h / unit, cones, settings)
    begin = time.process_time()
    found = solver.solve()
    seconds = time.process_time() - begin
    x, z = unit * np.array(found.x), unit * np.array(found.z).reshape(nc, 3)
    steps = [la.solve_triangular(L_r, x[r], lower=True, trans="T") for L_r, r in zip(L, ranges, strict=True)]
    v = problem.v_star + np.concatenate(steps)
    return InteriorPoint(v, weight * z[:, [1, 2, 0]], found.iterations, seconds, str(found.status))


class Exported(Problem):
    """The contact problem and the solution of one world after a step, dense and in float64.

    Beside the fields of `Problem` (v0 is the v of the step's end: the step overwrites its own): v, gamma, u_c, and of the
    active scalar rows row_J (n, nv), row (R, v_hat, lower, upper), row_gamma, row_u_c; error, the reported e_m.
    """

    def __init__(self, sim, w: int):
        solver = sim._step.solver
        p, s, work = solver.problem, solver.solution, solver.work
        v_star, self.v, v0 = (x.numpy()[w].astype(float) for x in (p.v_star, s.v, p.v0))
        self.blocks = p.tree_v.numpy()
        A = la.block_diag(*(p.A.numpy()[w, a:b, : b - a].astype(float) for a, b in itertools.pairwise(self.blocks)))
        n, nv = int(p.contacts.numpy()[w]), len(v_star)
        R, v_hat, mu = (x.numpy()[w, :n].astype(float) for x in (p.R, p.v_hat, p.mu))
        self.gamma = s.gamma.numpy()[w, :n].astype(float)
        self.u_c = work.u_c.numpy()[w, :n].astype(float)
        support, size, pair, J_support = (x.numpy() for x in (p.support, p.support_size, p.contact_pair, p.J))
        J = np.zeros((n, 3, nv))
        for c in range(n):
            k = size[pair[w, c]]
            J[c][:, support[pair[w, c], :k]] = J_support[w, c, :, :k]
        super().__init__(A, J, v_star, v0, mu, R, v_hat)
        active = np.flatnonzero(p.row_R.numpy()[w] > 0) if p.row_R.size else np.zeros(0, int)
        support, size = p.row_support.numpy()[active], p.row_support_size.numpy()[active]
        self.row_J = np.zeros((len(active), nv))
        for i, k in enumerate(active):
            self.row_J[i, support[i, : size[i]]] = p.row_J.numpy()[w, k, : size[i]]
        self.row = [x.numpy()[w, active].astype(float) for x in (p.row_R, p.row_v_hat, p.row_lower, p.row_upper)]
        self.row_gamma = s.row_gamma.numpy()[w, active].astype(float)
        self.row_u_c = work.row_u_c.numpy()[w, active].astype(float)
        self.error = float(s.momentum_error.numpy()[w])

    def generalised(self, gamma, row_gamma=None) -> np.ndarray:
        """j_c = Jᵀγ (nv,), with the impulses of the scalar rows where they are given."""
        rows = 0.0 if row_gamma is None else self.row_J.T @ row_gamma
        return super().generalised(gamma) + rows
