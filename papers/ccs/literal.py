# SPDX-License-Identifier: Apache-2.0
"""The programs of the compliant-constraint paper (Drumwright), as printed, for small systems in NumPy.

`sim` solves the convex complementarity form instead (docs/theory.md, §4); these are here to reproduce the
paper's figures and to show by numbers where its forms differ: Ġ terms, minimum norm, redundant rows, the weight ζ.
Notation of the paper: G, Ġv, φ, K, B per row, W = G M⁻¹Gᵀ, M̂ = W⁻¹ (pseudo-inverse), S = h²K + hB.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.integrate import solve_ivp

import warpsim as ws

DUST = 1e-10  # what is left of cancelled terms, relative to the size of Hx


@dataclass
class Rows:
    """Constraint rows of one kind: G (n, nv), φ0, K, B and Ġv0 (n,)."""

    G: np.ndarray
    phi: np.ndarray
    K: np.ndarray
    B: np.ndarray
    bend: np.ndarray = field(default=None)

    def __post_init__(self):
        self.G = np.atleast_2d(np.asarray(self.G, float))
        n = len(self.G)
        self.phi, self.K, self.B = (np.broadcast_to(x, n).astype(float) for x in (self.phi, self.K, self.B))
        self.bend = np.zeros(n) if self.bend is None else np.asarray(self.bend, float)


def none(nv: int) -> Rows:
    """No rows."""
    return Rows(np.zeros((0, nv)), 0.0, 0.0, 0.0)


def bilateral(M_inv, f, v0, h: float, rows: Rows, bend: bool, form: str = "symmetric") -> np.ndarray:
    """λ of bilateral rows (eq. 53, 61). `bend`: with the Ġ terms. `form`: "Y" as printed, or "symmetric"."""
    G, K, B, phi = rows.G, rows.K, rows.B, rows.phi
    W, S = G @ M_inv @ G.T, h * h * K + h * B
    rate, free = G @ v0, h * G @ M_inv @ f
    if form == "Y":
        rate1 = np.linalg.solve(np.eye(len(S)) + W * S, rate - h * W @ (K * phi) + free)
        force = -K * (phi + h * rate1) - B * rate1
    else:
        force = np.linalg.solve(np.diag(1.0 / S) + W, -(K * phi + (h * K + B) * (rate + free)) / S)
    return force - (np.linalg.pinv(W) @ rows.bend if bend else 0.0)


def unilateral(M_inv, f, v0, h: float, rows: Rows, convex: bool = False) -> np.ndarray:
    """λ of unilateral rows: the minimum norm of eq. 83-85, or the convex complementarity form."""
    W, S = rows.G @ M_inv @ rows.G.T, h * h * rows.K + h * rows.B
    right = -rows.K * rows.phi - (h * rows.K + rows.B) * (rows.G @ v0 + h * (rows.G @ M_inv @ f + rows.bend))
    right -= np.linalg.pinv(W) @ rows.bend
    n = len(S)
    half_lines = [("halfline", n)]
    if convex:
        return cone_qp(np.diag(1.0 / S) + W, -right / S, np.zeros((0, n)), np.zeros(0), half_lines)
    return cone_qp(np.eye(n), np.zeros(n), np.eye(n) + S[:, None] * W, right, half_lines)


@dataclass
class Contacts:
    """Rows n, r, s of the contacts and their friction coefficients."""

    n: Rows
    r: Rows
    s: Rows
    mu: np.ndarray


def contact(
    M_inv, f, v0, h: float, contacts: Contacts, held: Rows, weight: float, as_printed: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Appendix A: λ of the contacts `(nc, 3)` in the order r, s, n, and λ of the bilateral rows `held`.

    `weight` is ζ. `as_printed`: d and e (eq. 197, 198) hold f where G_bᵀC⁻¹c + f belongs.
    """
    nc, nv = len(contacts.n.G), len(v0)
    G = np.stack([contacts.r.G, contacts.s.G, contacts.n.G], axis=1).reshape(3 * nc, nv)
    S_b = h * h * held.K + h * held.B
    C = np.eye(len(S_b)) + S_b[:, None] * (held.G @ M_inv @ held.G.T)
    D = -S_b[:, None] * (held.G @ M_inv @ G.T)
    c = -held.K * held.phi - (h * held.K + held.B) * (held.G @ v0 + h * (held.G @ M_inv @ f + held.bend))
    c -= np.linalg.pinv(held.G @ M_inv @ held.G.T) @ held.bend
    force = G.T + held.G.T @ np.linalg.solve(C, D)  # what λ does to the bodies, bilateral reactions included
    known = f + held.G.T @ np.linalg.solve(C, c)

    def spring(rows: Rows, which: int, load) -> tuple[np.ndarray, np.ndarray]:
        """E, d of λ + Kφ1 + Bφ̇1 + M̂Ġv0 = Eλ + d for one direction of every contact."""
        stiff = h * rows.K + rows.B
        E = (h * stiff)[:, None] * (rows.G @ M_inv @ force)
        E[np.arange(nc), 3 * np.arange(nc) + which] += 1.0
        d = rows.K * rows.phi + stiff * (rows.G @ v0 + h * (rows.G @ M_inv @ load + rows.bend))
        return E, d + np.linalg.pinv(rows.G @ M_inv @ rows.G.T) @ rows.bend

    A, q = spring(contacts.n, 2, known)
    H, g = np.zeros((3 * nc, 3 * nc)), np.zeros(3 * nc)
    for which, rows in ((0, contacts.r), (1, contacts.s)):
        E, d = spring(rows, which, f if as_printed else known)
        H += E.T @ E
        g += E.T @ d
    H[np.diag_indices(3 * nc)] += np.tile([1.0, 1.0, weight], nc)
    cones = [("friction", float(mu)) for mu in contacts.mu]
    found = cone_qp(H, g, A, -q, cones)
    return found.reshape(nc, 3), np.linalg.solve(C, D @ found + c)


def cone_qp(H, g, A, q, cones) -> np.ndarray:
    """min ½xᵀHx + gᵀx, Ax ≥ q, x in cones as `ws.solve_cone_qp` takes them."""
    size = np.abs(H).max() * (np.abs(q).max() / np.abs(A).max() if len(q) else 0.0)
    found = ws.solve_cone_qp(H, np.where(np.abs(g) < DUST * size, 0.0, g), A, q, cones, device="cpu")
    if found.flags[0]:
        raise ArithmeticError(f"the cone QP stopped at a residual of {found.residual[0]:.1e}")
    return found.x[0]


# The paper's pendulum, §4.4 --------------------------------------------------------------------------------------------


def pendulum(h: float, K: float, B: float, seconds: float, bend: bool) -> tuple[np.ndarray, np.ndarray]:
    """q, v (steps + 1, 3) of the pendulum of `scenes/compliant.py`, by eq. 36, 37, 53."""
    M_inv, f = np.diag([1.0, 1.0, 10.0]), np.array([0.0, -9.81, 0.0])
    q, v = np.zeros(3), np.zeros(3)
    found = [(q, v)]
    with np.errstate(all="ignore"):
        for _ in range(round(seconds / h)):
            sin, cos = np.sin(q[2]), np.cos(q[2])
            G = np.array([[1.0, 0.0, sin], [0.0, 1.0, cos]])
            rows = Rows(G, [1.0 + q[0] - cos, q[1] + sin], K, B, v[2] ** 2 * np.array([cos, -sin]))
            if not np.isfinite(q).all() or np.abs(q).max() > 1e6:
                break
            v = v + h * M_inv @ (G.T @ bilateral(M_inv, f, v, h, rows, bend) + f)
            q = q + h * v
            found.append((q, v))
    return np.array([x[0] for x in found]), np.array([x[1] for x in found])


# Where the printed forms differ ----------------------------------------------------------------------------------------


def two_stops(convex: bool) -> np.ndarray:
    """λ [N] on 1 kg under 10 N: one stop touches, one that pushes the same way is 1 m off. h = 0.01, K = 1e4, B = 1e4."""
    stops = Rows([[1.0], [1.0]], [0.0, 1.0], 1e4, 1e4)
    if convex:
        return unilateral(np.eye(1), np.array([-10.0]), np.zeros(1), 0.01, stops, convex=True)
    return unilateral(np.eye(1), np.array([-10.0]), np.zeros(1), 0.01, stops)


def same_row_twice(form: str) -> np.ndarray:
    """λ [N] of one bilateral row given twice, K = 1e15, on the pendulum at 45°."""
    G = np.array([[1.0, 0.0, np.sqrt(0.5)]] * 2)
    rows = Rows(G, 1e-9, 1e15, 1.0)
    return bilateral(
        np.diag([1.0, 1.0, 10.0]), np.array([1.0, -9.81, 0.3]), np.array([0.01, 0.2, -0.3]), 0.1, rows, False, form
    )


def slide(weight: float, damping: float, h: float = 0.01, K: float = 1e6, seconds: float = 1.0) -> tuple[float, float]:
    """Greatest height [m] and distance [m] of a point of 1 kg that slides at 1 m/s, μ = 0.2, by the paper's program.

    `damping`: B_r = B_s [N s/m]; the paper's is 1e6/h. Coulomb's distance is 0.255 m.
    """
    x, v, f = np.array([0.0, 0.0, -1e-9]), np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, -9.81])
    t1, t2, n = np.eye(3)
    top = 0.0
    for _ in range(round(seconds / h)):
        load = np.zeros(3)
        if x[2] <= 0.0:  # the paper's program admits overlaps alone
            damper = {"phi": 0.0, "K": 0.0, "B": damping}
            contacts = Contacts(Rows(n, x[2], K, 1.0), Rows(t1, **damper), Rows(t2, **damper), np.array([0.2]))
            load = contact(np.eye(3), f, v, h, contacts, none(3), weight)[0][0]
        v = v + h * (load + f)
        x = x + h * v
        top = max(top, x[2])
    return top, x[0]


def complementarity_error(samples: int) -> float:
    """Largest difference, relative to |λ| or 1 N, between the convex form over half-lines and 0 ≤ λ ⟂ (S⁻¹ + W)λ − S⁻¹r ≥ 0 by `ws.solve_lcp`."""
    rng, worst, h = np.random.default_rng(0), 0.0, 0.01
    for _ in range(samples):
        n = int(rng.integers(1, 9))
        rows = Rows(
            rng.normal(size=(n, 6)), -0.01 * rng.random(n), 10.0 ** rng.uniform(1, 9), 10.0 ** rng.uniform(0, 3)
        )
        f, v0 = rng.normal(size=6), rng.normal(size=6)
        S = h * h * rows.K + h * rows.B
        right = -rows.K * rows.phi - (h * rows.K + rows.B) * (rows.G @ (v0 + h * f))
        lcp = ws.solve_lcp(np.diag(1.0 / S) + rows.G @ rows.G.T, right / S, np.full(n, np.inf), np.full(n, -1))
        convex = unilateral(np.eye(6), f, v0, h, rows, convex=True)
        worst = max(worst, np.abs(lcp.x[0] - convex).max() / max(np.abs(convex).max(), 1.0))
    return float(worst)


HERTZ = {"mass": 1.0, "radius": 0.01, "modulus": 1e7, "depth": 2e-4, "seconds": 0.02}  # swings in 35 ms about 0.46 mm


def hertz_exact() -> float:
    """Height [m] of a foot that swings on a half-space, f = E* √r d^{3/2}, by DOP853."""
    stiff = HERTZ["modulus"] * np.sqrt(HERTZ["radius"]) / HERTZ["mass"]
    rate = lambda t, y: [y[1], stiff * max(-y[0], 0.0) ** 1.5 - 9.81]  # noqa: E731
    start = [-HERTZ["depth"], 0.0]
    return solve_ivp(rate, (0.0, HERTZ["seconds"]), start, method="DOP853", rtol=1e-11, atol=1e-14).y[0, -1]


def hertz(h: float, form: str) -> float:
    """The same by the paper's unilateral program; "printed": φ = −d^{3/2}, K = E* √r (eq. 122, 123) with G = ∂φ/∂q, "normal":
    these with the normal as G, "tangent": φ = −⅔d, K = 3/2 E* √(r d) with the normal as G."""
    stiff, x, v = HERTZ["modulus"] * np.sqrt(HERTZ["radius"]), -HERTZ["depth"], 0.0
    for _ in range(round(HERTZ["seconds"] / h)):
        force = 0.0
        if x < 0.0:
            d = -x
            law = {
                "printed": (1.5 * np.sqrt(d), -(d**1.5), stiff),
                "normal": (1.0, -(d**1.5), stiff),
                "tangent": (1.0, -2.0 * d / 3.0, 1.5 * stiff * np.sqrt(d)),
            }
            G, phi, K = law[form]
            row = Rows([[G]], phi, K, 0.0)
            M_inv = np.array([[1.0 / HERTZ["mass"]]])
            force = G * unilateral(M_inv, np.array([-9.81 * HERTZ["mass"]]), np.array([v]), h, row)[0]
        v += h * (force / HERTZ["mass"] - 9.81)
        x += h * v
    return x


def printed_error(samples: int = 200) -> np.ndarray:
    """Error of λ, relative, when d and e hold f alone: random points on a rail that touch, ζ as large as it must be."""
    rng, h, errors = np.random.default_rng(0), 0.01, []
    for _ in range(samples):
        along, friction = rng.normal(size=3), rng.uniform(0.5, 3.0)
        held = Rows(along / np.linalg.norm(along), 1e-3 * rng.normal(), 10.0 ** rng.uniform(2, 7), 10.0)
        drag = 10.0 ** rng.uniform(-1, 2)
        damper = {"phi": 0.0, "K": 0.0, "B": drag / h}
        t1, t2, n = np.eye(3)
        contacts = Contacts(Rows(n, -1e-4, 1e5, 1.0), Rows(t1, **damper), Rows(t2, **damper), np.array([friction]))
        v0, f = 0.05 * rng.normal(size=3), np.array([*(3.0 * rng.normal(size=2)), -9.81])
        system = (np.eye(3), f, v0, h, contacts, held, 100.0 * (1.0 + drag) ** 2)
        printed, right = (contact(*system, as_printed=choice)[0] for choice in (True, False))
        errors.append(np.abs(printed - right).max() / np.abs(right).max())
    return np.array(errors)
