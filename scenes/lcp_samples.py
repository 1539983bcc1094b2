# SPDX-License-Identifier: Apache-2.0
"""Random boxed LCPs of rigid multi-contact: W = J M⁻¹Jᵀ, b = −J v, four to sixteen contacts (t1, t2, n), most W singular."""

from typing import NamedTuple

import numpy as np

KINDS = ("plate", "stack", "bodies", "coincident", "wedge", "articulated")
BODY = 6  # velocity of a free body: linear, then angular, in world axes


class BoxedLCP(NamedTuple):
    """One problem in the arguments of `solve_lcp`, and what it came from."""

    A: np.ndarray
    b: np.ndarray
    hi: np.ndarray
    findex: np.ndarray
    kind: str


def random_lcp(rng: np.random.Generator) -> BoxedLCP:
    """A problem with n ≤ 48 rows: μ from 0 to 2 (a few 0, some 100), mass ratios to 10⁶, impacts, rest and sliding."""
    kind = KINDS[rng.integers(len(KINDS))]
    contacts = int(rng.integers(4, 17))
    M_inverse, J, v = {
        "plate": _plate,
        "stack": _stack,
        "bodies": _bodies,
        "coincident": _bodies,
        "wedge": _wedge,
        "articulated": _articulated,
    }[kind](rng, contacts, kind == "coincident")
    contacts = len(J) // 3
    mu = np.full(contacts, rng.uniform(0.0, 2.0)) if rng.random() < 0.3 else rng.uniform(0.0, 2.0, contacts)
    mu[rng.random(contacts) < 0.05] = 0.0
    if rng.random() < 0.05:
        mu[:] = 100.0
    scale = 10.0 ** rng.uniform(-4.0, 4.0) if rng.random() < 0.3 else 1.0
    W = J @ M_inverse @ J.T
    hi, findex = np.repeat(mu, 3), np.repeat(3 * np.arange(contacts) + 2, 3)
    hi[2::3], findex[2::3] = np.inf, -1
    return BoxedLCP(0.5 * (W + W.T), -scale * (J @ v), hi, findex, kind)


def bounds(problem: BoxedLCP, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of every row at x."""
    coupled = problem.findex >= 0
    upper = problem.hi.astype(float).copy()
    upper[coupled] *= np.maximum(x[problem.findex[coupled]], 0.0)
    return np.where(coupled, -upper, 0.0), upper


def natural_residual(problem: BoxedLCP, x: np.ndarray) -> float:
    """max |x − mid(l, x − w, u)| relative to max |b|, in variables scaled to a unit diagonal of A (both are then in √J).

    Written a second time, independent of the solver.
    """
    diagonal = np.diag(problem.A)
    largest = diagonal.max() if len(diagonal) and diagonal.max() > 0.0 else 1.0
    d = 1.0 / np.sqrt(np.where(diagonal > 1e-27 * largest, diagonal, largest))
    lower, upper = bounds(problem, x)
    x, w, lower, upper = x / d, d * (problem.A @ x - problem.b), lower / d, upper / d
    size = np.abs(d * problem.b).max(initial=0.0)
    return np.abs(x - np.clip(x - w, lower, upper)).max(initial=0.0) / (size if size > 0.0 else 1.0)


def stack_problems(problems: list[BoxedLCP]) -> dict[str, np.ndarray]:
    """Keyword arguments of one `solve_lcp` over all problems, padded to the largest."""
    worlds, n = len(problems), max(len(p.b) for p in problems)
    out = {"A": np.zeros((worlds, n, n)), "b": np.zeros((worlds, n)), "hi": np.zeros((worlds, n))}
    out |= {"findex": np.full((worlds, n), -1), "rows": np.array([len(p.b) for p in problems])}
    for w, p in enumerate(problems):
        m = len(p.b)
        out["A"][w, :m, :m], out["b"][w, :m], out["hi"][w, :m], out["findex"][w, :m] = p.A, p.b, p.hi, p.findex
    return out


def _rotation(rng):
    Q, R = np.linalg.qr(rng.normal(size=(3, 3)))
    Q = Q * np.sign(np.diag(R))
    return Q if np.linalg.det(Q) > 0.0 else -Q


def _cross(p):
    return np.array([[0.0, -p[2], p[1]], [p[2], 0.0, -p[0]], [-p[1], p[0], 0.0]])


def _frame(rng, normal):
    t1 = np.cross(normal, rng.normal(size=3))
    t1 /= np.linalg.norm(t1)
    return np.stack([t1, np.cross(normal, t1), normal])


def _unit(rng):
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def _box(rng, sides, turned=True):
    """M⁻¹ of a box with mass 1e-3 … 1e3 kg, most of them near 1."""
    mass = 10.0 ** rng.uniform(-3.0, 3.0) if rng.random() < 0.2 else 10.0 ** rng.uniform(-1.0, 1.0)
    inertia = mass / 12.0 * (np.sum(sides**2) - sides**2)
    R = _rotation(rng) if turned else np.eye(3)
    inverse = np.zeros((BODY, BODY))
    inverse[:3, :3] = np.eye(3) / mass
    inverse[3:, 3:] = R @ np.diag(1.0 / inertia) @ R.T
    return inverse


def _assemble(bodies, contacts):
    """M⁻¹ and J of `bodies` (COM, M⁻¹) and `contacts` (A, B, point, frame); body −1 is the world."""
    M_inverse = np.zeros((BODY * len(bodies),) * 2)
    for k, (_, inverse) in enumerate(bodies):
        M_inverse[BODY * k : BODY * (k + 1), BODY * k : BODY * (k + 1)] = inverse
    J = np.zeros((3 * len(contacts), BODY * len(bodies)))
    for i, (a, b, point, frame) in enumerate(contacts):
        for body, sign in ((b, 1.0), (a, -1.0)):
            if body >= 0:
                block = np.concatenate([frame, -frame @ _cross(point - bodies[body][0])], axis=1)
                J[3 * i : 3 * i + 3, BODY * body : BODY * (body + 1)] += sign * block
    return M_inverse, J


def _motion(rng, size, fall=0.1):
    """Falling, with nothing else, a little or a lot on top."""
    v = rng.choice([0.0, 0.01, 1.0]) * rng.normal(size=size)
    v[2::BODY] -= fall
    return v


def _plate(rng, contacts, _):
    """One box on a plane: contacts at its corners or anywhere on its face, all coplanar: rank 6 of up to 48."""
    sides = rng.uniform(0.1, 2.0, 3) * np.array([1.0, 1.0, 0.3])
    normal = np.array([0.0, 0.0, 1.0])
    shared, corners = _frame(rng, normal), rng.random() < 0.5
    face = np.sign(rng.normal(size=(contacts, 2))) if corners else rng.uniform(-1.0, 1.0, (contacts, 2))
    points = np.concatenate([0.5 * face * sides[:2], np.zeros((contacts, 1))], axis=1)
    rows = [(-1, 0, p, shared if rng.random() < 0.7 else _frame(rng, normal)) for p in points]
    return *_assemble([(np.array([0.0, 0.0, 0.5 * sides[2]]), _box(rng, sides))], rows), _motion(rng, BODY)


def _stack(rng, contacts, _):
    """Two or three boxes on each other and the floor."""
    levels = int(rng.integers(2, 4))
    bodies, rows, height = [], [], 0.0
    frame = _frame(rng, np.array([0.0, 0.0, 1.0]))
    for level in range(levels):
        sides = rng.uniform(0.2, 1.0, 3)
        bodies.append((np.array([0.0, 0.0, height + 0.5 * sides[2]]), _box(rng, sides, turned=False)))
        for i in range(contacts // levels):
            corner = np.array([(-1.0) ** i, (-1.0) ** (i // 2)]) if i < 4 else rng.uniform(-1.0, 1.0, 2)
            rows.append((level - 1, level, np.append(0.4 * corner * sides[:2], height), frame))
        height += sides[2]
    return *_assemble(bodies, rows), _motion(rng, BODY * levels)


def _bodies(rng, contacts, coincident):
    """One to six boxes in any contact with each other and the world; `coincident`: many contacts are there twice."""
    count = int(rng.integers(1, 7))
    bodies = [(rng.normal(size=3), _box(rng, rng.uniform(0.1, 1.0, 3))) for _ in range(count)]
    rows = []
    for i in range(contacts):
        a, b = int(rng.integers(-1, count)), int(rng.integers(count))
        point = bodies[b][0] + rng.uniform(-0.5, 0.5, 3)
        rows.append((-1 if a == b else a, b, point, _frame(rng, _unit(rng))))
        if coincident and i and rng.random() < 0.3:
            a, b, point, frame = rows[-2]
            rows[-1] = (a, b, point + rng.choice([0.0, 1e-6, 1e-3]) * _unit(rng), frame)
    return *_assemble(bodies, rows), rng.normal(size=BODY * count)


def _wedge(rng, contacts, _):
    """One box jammed between two or three planes, some of them opposed."""
    normals = [_unit(rng) for _ in range(int(rng.integers(2, 4)))]
    if rng.random() < 0.3:
        normals[1] = -normals[0]
    rows = []
    for i in range(contacts):
        normal = normals[i % len(normals)]
        rows.append((-1, 0, -0.3 * normal + 0.2 * rng.normal(size=3) * (1.0 - abs(normal)), _frame(rng, normal)))
    return *_assemble([(np.zeros(3), _box(rng, rng.uniform(0.1, 1.0, 3)))], rows), rng.normal(size=BODY)


def _articulated(rng, contacts, _):
    """Any mass matrix with fewer degrees of freedom than rows; some planar, their second tangent moving nothing."""
    nv = int(rng.integers(3, 20))
    X = rng.normal(size=(nv, nv))
    J = rng.normal(size=(3 * contacts, nv))
    if rng.random() < 0.4:
        J[1::3] = 0.0
    M = X @ X.T + 10.0 ** rng.uniform(-3.0, 0.0) * np.eye(nv)
    return np.linalg.inv(M), J, rng.normal(size=nv)
