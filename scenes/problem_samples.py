# SPDX-License-Identifier: Apache-2.0
"""Random contact problems for the tests of the solvers, and for `benchmarks/certificate.py`."""

import dataclasses

import numpy as np
import warp as wp

from warpsim.device.copies import SCALARS
from warpsim.kernels.linalg.vector import padded
from warpsim.solve import SAPSolver

# (nv, contacts) of `hard_problems`, from one free body to ten, with fewer and with more rows than dofs.
SIZES = ((6, 3), (12, 6), (18, 12), (30, 10), (30, 30), (45, 20), (60, 8), (60, 30))


def random_problem(rng, nv=10, contacts=5, condition=1e2, worlds=None):
    """Arguments of `ContactProblem` (R and v̂ near-rigid), friction from 0 to 2, a mix of sticking, sliding and open."""
    if worlds is not None:
        samples = [random_problem(rng, nv, contacts, condition) for _ in range(worlds)]
        return {name: np.stack([s[name] for s in samples]) for name in samples[0]}
    Q = np.linalg.qr(rng.normal(size=(nv, nv)))[0]
    A = (Q * np.logspace(0.0, np.log10(condition), nv)) @ Q.T
    A = 0.5 * (A + A.T)
    J = rng.normal(size=(3 * contacts, nv))
    w = effective_inverse_mass(A, J.reshape(contacts, 3, nv))
    R = np.stack([1e-3 * w, 1e-3 * w, w / (4.0 * np.pi**2)], axis=1)
    v_hat = np.zeros((contacts, 3))
    v_hat[:, 2] = rng.uniform(-0.1, 0.1, size=contacts)
    mu = rng.uniform(0.0, 2.0, size=contacts)
    mu[0] = 0.0
    return dict(A=A, J=J, v_star=rng.normal(size=nv), v0=rng.normal(size=nv), mu=mu, R=R, v_hat=v_hat)


def effective_inverse_mass(A, J) -> np.ndarray:
    """w_i = ‖J_i A⁻¹ J_iᵀ‖_F / 3 (nc,) of J (nc, 3, nv)."""
    W = J @ np.linalg.solve(A, np.swapaxes(J, 1, 2))
    return np.linalg.norm(W, axis=(1, 2)) / 3.0


def physical_regularization(rng, w) -> tuple[np.ndarray, np.ndarray]:
    """R and v̂ (nc, 3) of contacts with 1 … 10 ms steps, 10² … 10¹² N/m, τ_d up to 2h, σ 10⁻⁴ … 10⁻², up to 5 mm deep."""
    n = len(w)
    h, sigma = rng.choice([1e-3, 5e-3, 1e-2]), 10.0 ** rng.uniform(-4.0, -2.0)
    k, phi = 10.0 ** rng.uniform(2.0, 12.0, size=n), rng.uniform(-5e-3, 1e-3, size=n)
    tau_d = np.where(phi < 0.0, rng.uniform(0.0, 2.0 * h, size=n), 0.0)
    R_n = np.maximum(w / (4.0 * np.pi**2), 1.0 / (h * k * (h + tau_d)))
    v_hat = np.zeros((n, 3))
    v_hat[:, 2] = -phi / (h + tau_d)
    return np.stack([sigma * w, sigma * w, R_n], axis=1), v_hat


def friction(rng, n) -> np.ndarray:
    """μ (n,) from 0 to 2, a tenth of them 0."""
    return np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.0, 2.0, size=n))


def hard_problems(rng, worlds: int, nv: int, contacts: int) -> dict:
    """Arguments of `ContactProblem`, worlds stacked: condition numbers of A from 1 to 1e10, a third of the contacts
    repeated or combined from others, 0 … `contacts` of them in use, what is left filled with other contacts."""
    samples = []
    for _ in range(worlds):
        Q = np.linalg.qr(rng.normal(size=(nv, nv)))[0]
        exponents = 10.0 * rng.random() * np.concatenate([[-0.5, 0.5], rng.uniform(-0.5, 0.5, size=nv - 2)])
        A = (Q * 10.0**exponents) @ Q.T
        A = 0.5 * (A + A.T)
        J = rng.normal(size=(contacts, 3, nv))
        for c in range(2, contacts):
            kind = rng.random()
            if kind < 0.2:
                J[c] = J[rng.integers(c)]
            elif kind < 0.35:
                J[c] = 0.5 * (J[rng.integers(c)] + J[rng.integers(c)])
        R, v_hat = physical_regularization(rng, effective_inverse_mass(A, J))
        samples.append(
            dict(
                A=A, J=J.reshape(3 * contacts, nv), v_star=rng.normal(size=nv), v0=rng.normal(size=nv),
                mu=friction(rng, contacts), R=R, v_hat=v_hat, contacts=rng.integers(contacts + 1),
            )
        )  # fmt: skip
    return {name: np.stack([s[name] for s in samples]) for name in samples[0]}


@dataclasses.dataclass
class Forest:
    """A contact problem of several trees: blocks (nv_t, nv_t) of A, v*, v0 by trees; per contact its two trees (the second
    may be -1, the world), J by those trees, and mu, R, v_hat."""

    A: list
    v_star: list
    v0: list
    trees: np.ndarray  # (nc, 2)
    J: list  # per contact: [(3, nv_a)] or [(3, nv_a), (3, nv_b)]
    mu: np.ndarray
    R: np.ndarray
    v_hat: np.ndarray

    @property
    def tree_v(self) -> np.ndarray:
        """(trees + 1,) first dof of each tree."""
        return np.concatenate([[0], np.cumsum([len(v) for v in self.v_star])])

    def dofs(self, c: int) -> np.ndarray:
        """Dofs that contact c moves, tree by tree as in J."""
        begin = self.tree_v
        return np.concatenate([np.arange(begin[t], begin[t + 1]) for t in self.trees[c] if t >= 0])

    def dense(self) -> dict:
        """Arguments of `ContactProblem`, one block."""
        nv, begin = self.tree_v[-1], self.tree_v
        A, J = np.zeros((nv, nv)), np.zeros((len(self.mu), 3, nv))
        for t, block in enumerate(self.A):
            A[begin[t] : begin[t + 1], begin[t] : begin[t + 1]] = block
        for c, blocks in enumerate(self.J):
            J[c][:, self.dofs(c)] = np.concatenate(blocks, axis=1)
        v_star, v0 = np.concatenate(self.v_star), np.concatenate(self.v0)
        return dict(A=A, J=J.reshape(-1, nv), v_star=v_star, v0=v0, mu=self.mu, R=self.R, v_hat=self.v_hat)

    def permuted(self, order, contact_order) -> "Forest":
        """The same physics with trees and contacts in another order: new tree i is old tree order[i]."""
        new_tree = np.append(np.argsort(order), -1)  # -1 stays -1
        pick = [self.J[c] for c in contact_order]
        per_contact = (self.mu[contact_order], self.R[contact_order], self.v_hat[contact_order])
        by_tree = ([x[t] for t in order] for x in (self.A, self.v_star, self.v0))
        return Forest(*by_tree, new_tree[self.trees[contact_order]], pick, *per_contact)

    def unpermuted(self, v, order) -> np.ndarray:
        """v (nv,) of `permuted(order, …)` in this forest's order."""
        sizes = [len(self.v_star[t]) for t in order]
        parts = dict(zip(order, np.split(v, np.cumsum(sizes)[:-1]), strict=True))
        return np.concatenate([parts[t] for t in range(len(order))])


def random_forest(rng, trees: int, contacts: int, widest: int = 8, condition: float = 1e2) -> Forest:
    """Trees of 1 … `widest` dofs; half of the contacts join two trees, in patches of up to four; some trees stay free."""
    A, v_star, v0 = [], [], []
    for _ in range(trees):
        n = rng.integers(1, widest + 1)
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        block = (Q * 10.0 ** (np.log10(condition) * rng.uniform(-0.5, 0.5, size=n))) @ Q.T
        A.append(0.5 * (block + block.T))
        v_star.append(rng.normal(size=n))
        v0.append(rng.normal(size=n))
    pairs = []
    touched = rng.permutation(trees)[: max(1, trees - trees // 4)]
    while len(pairs) < contacts:
        a, b = rng.choice(touched), rng.choice(np.append(touched, np.full(len(touched), -1)))
        pairs += [(a, -1 if a == b else b)] * min(rng.integers(1, 5), contacts - len(pairs))
    table = np.array(pairs)
    J = [[rng.normal(size=(3, len(v_star[t]))) for t in pair if t >= 0] for pair in pairs]
    w = np.array([
        sum(np.linalg.norm(J_t @ np.linalg.solve(A[t], J_t.T)) for J_t, t in zip(blocks, pair, strict=False)) / 3.0
        for blocks, pair in zip(J, pairs, strict=True)
    ])  # fmt: skip
    return Forest(A, v_star, v0, table, J, friction(rng, contacts), *physical_regularization(rng, w))


def forest_solver(forest: Forest, options, dtype: str = "float64") -> SAPSolver:
    """SAPSolver of one world by trees, its problem filled; contact c has row c of the support tables."""
    S = SCALARS[dtype]
    vec3, nc, begin = wp.types.vector(3, S), len(forest.mu), forest.tree_v
    nv, widest = begin[-1], int(np.diff(begin).max())
    A, width = np.zeros((1, nv, padded(widest))), max(len(forest.dofs(c)) for c in range(nc))
    for t, block in enumerate(forest.A):
        A[0, begin[t] : begin[t + 1], : len(block)] = block
    support, size, J = np.zeros((nc, width)), np.zeros(nc), np.zeros((1, nc, 3, width))
    for c, blocks in enumerate(forest.J):
        dofs = forest.dofs(c)
        ascending, size[c] = np.argsort(dofs), len(dofs)
        support[c, : len(dofs)] = dofs[ascending]
        J[0, c, :, : len(dofs)] = np.concatenate(blocks, axis=1)[:, ascending]
    solver = SAPSolver(1, begin, nc, options=options, dtype=dtype, device="cpu")
    values = dict(A=A, J=J, v_star=np.concatenate(forest.v_star)[None], v0=np.concatenate(forest.v0)[None])
    values |= dict(mu=forest.mu[None])
    for name, value in values.items():
        setattr(solver.problem, name, wp.array(value, dtype=S, device="cpu"))
    solver.start_at(solver.problem.v0)
    for name, value in dict(R=forest.R[None], v_hat=forest.v_hat[None]).items():
        setattr(solver.problem, name, wp.array(value, dtype=vec3, device="cpu"))
    tables = dict(contacts=np.array([nc]), contact_pair=np.arange(nc)[None], support=support, support_size=size)
    for name, value in tables.items():
        setattr(solver.problem, name, wp.array(value.astype(np.int32), dtype=int, device="cpu"))
    solver.problem.row_J = wp.zeros((1, 0, 1), dtype=S, device="cpu")
    for name in ("row_R", "row_v_hat", "row_lower", "row_upper"):
        setattr(solver.problem, name, wp.zeros((1, 0), dtype=S, device="cpu"))
    return solver
