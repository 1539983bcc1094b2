# SPDX-License-Identifier: Apache-2.0
"""One cone QP in variables where every cone is the second-order cone x_n ≥ ‖x_t‖: scaling, residual, natural map.

The natural map of a point (x, y), with u = Hx + g − Aᵀy and v = Ax − q, is x − P(x − u) and y − P₊(y − v): 0 at a
solution. Its derivative gives Newton's step and, at the solution, the adjoint (`differentiate/cone_qp_adjoint.py`).
Theory §4.3.
"""

from dataclasses import dataclass, replace

import numpy as np

# Passes of Ruiz's equilibration.
EQUILIBRATIONS = 8
# Lower limit of the denominator of relative residuals; scaled data are of order 1.
FLOOR = 1e-6
# Singular values below this fraction of the largest are 0: redundant rows.
RANK = 1e-12
# A point is on the boundary of its cone if its distance to it, relative to its size, is below this.
BOUNDARY = 1e-7
# Smallest derivative of the projection along the circumference of a cone.
LEAST_SLOPE = 1e-12
# Sizes of x and of the cost below this count as 0.
LEAST_UNIT = 1e-30


def second_order(blocks, n: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """(T, cones, fixed) of `cone_blocks`: T x is in second-order cones; `cones` lists the variables of each.

    `fixed` marks the tangents of cones with μ = 0, which are 0.
    """
    T, cones, fixed = np.ones(n), [], np.zeros(n, dtype=bool)
    for block, mu, _ in blocks:
        if len(block) > 1 and mu > 0.0:
            T[block[-1]] = mu
        elif len(block) > 1:
            fixed[block[:-1]] = True
            block = block[-1:]
        cones.append(block)
    return T, cones, fixed


def linearise(H, A, cones, fixed, shifted, pushing):
    """The derivative of the natural map: (basis, curvature, inverse).

    The columns of `basis` are the directions in which x can move, those with a nonzero derivative V of the projection
    at `shifted` = x − u. `curvature` is (1 − V)/V along each. `inverse` is that of the matrix of the moving variables
    and of the rows that are `pushing`.
    """
    n = len(H)
    columns, curvature = [], []

    def add(block, vector, omega):
        column = np.zeros(n)
        column[block] = vector
        columns.append(column)
        curvature.append(omega)

    for block in cones:
        t, axis = shifted[block[:-1]], shifted[block[-1]]
        radius = np.linalg.norm(t)
        if axis >= radius * (1.0 + BOUNDARY) and axis > 0.0:
            for row in np.eye(len(block)):
                add(block, row, 0.0)
        elif axis > -radius * (1.0 + BOUNDARY) and radius > 0.0:
            t = t / radius
            add(block, np.append(t, 1.0) * np.sqrt(0.5), 0.0)
            if len(block) == 3:
                across = max(0.5 * (axis + radius) / radius, LEAST_SLOPE)
                add(block, np.array([-t[1], t[0], 0.0]), (1.0 - across) / across)
    for i in np.flatnonzero(free_variables(cones, fixed)):
        add(np.array([i]), np.ones(1), 0.0)
    basis, curvature = np.array(columns).reshape(-1, n).T, np.array(curvature)
    rows = -A[pushing] @ basis
    K = np.block([[basis.T @ H @ basis + np.diag(curvature), rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    # Scaled, because a large curvature would drown the other entries in rounding.
    scale = np.concatenate([1.0 / np.sqrt(1.0 + curvature), np.ones(len(rows))])
    outer = np.outer(scale, scale)
    return basis, curvature, outer * np.linalg.pinv(outer * K, rcond=RANK, hermitian=True)


def free_variables(cones, fixed) -> np.ndarray:
    """Which variables are in no cone and not fixed."""
    free = ~fixed
    for block in cones:
        free[block] = False
    return free


@dataclass
class Program:
    """min ½ xᵀHx + gᵀx, Ax ≥ q over second-order cones, in units where the data are of order 1."""

    H: np.ndarray
    g: np.ndarray
    A: np.ndarray
    q: np.ndarray
    cones: list[np.ndarray]
    fixed: np.ndarray
    scale_x: np.ndarray  # factors from x and y of the program to the user's
    scale_y: np.ndarray

    def is_finite(self) -> bool:
        """Whether all numbers of the program are finite."""
        arrays = (self.H, self.g, self.A, self.q, self.scale_x, self.scale_y)
        return all(np.isfinite(array).all() for array in arrays)

    def value(self, x: np.ndarray) -> float:
        """The size of the cost's terms at x."""
        return float(x @ self.H @ x + np.abs(x) @ np.abs(self.g))

    def units(self, x: np.ndarray) -> tuple[float, float]:
        """Sizes of x and of the cost at x; 1 where they vanish."""
        size, cost = float(np.abs(x).max(initial=0.0)), self.value(x)
        return (size if size > LEAST_UNIT else 1.0), (cost if cost > LEAST_UNIT else 1.0)

    def in_units(self, size: float, cost: float) -> "Program":
        """The same program in the variables x/size and y size/cost."""
        H, g, q = size**2 / cost * self.H, size / cost * self.g, self.q / size
        return replace(self, H=H, g=g, q=q)

    def project(self, x: np.ndarray) -> np.ndarray:
        """P x, the projection on the cones."""
        x = np.where(self.fixed, 0.0, x)
        for block in self.cones:
            t, axis = x[block[:-1]], x[block[-1]]
            radius = np.linalg.norm(t)
            if radius <= -axis:
                x[block] = 0.0
            elif radius > axis:
                along = 0.5 * (axis + radius)
                x[block[:-1]], x[block[-1]] = along / radius * t, along
        return x

    def slope(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """u = Hx + g − Aᵀy, 0 where x is fixed."""
        return np.where(self.fixed, 0.0, self.H @ x + self.g - self.A.T @ y)

    def residual(self, x: np.ndarray, y: np.ndarray) -> float:
        """Largest of the relative infeasibilities of rows and duals and the relative gap, for a point in its cones."""

        def size(*vectors):
            return max(FLOOR, *(np.abs(vector).max(initial=0.0) for vector in vectors))

        Hx, Ax, back = self.H @ x, self.A @ x, self.A.T @ y
        u, v = self.slope(x, y), Ax - self.q
        z = np.where(free_variables(self.cones, self.fixed), 0.0, self.project(u))
        primal = -v.min(initial=0.0) / size(Ax, self.q)
        dual = np.abs(u - z).max(initial=0.0) / size(Hx, self.g, back)
        gap = (abs(x @ z) + abs(y @ v)) / max(self.value(x), FLOOR)
        return float(max(primal, dual, gap))

    def newton(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) after one Newton step on the natural map, projected on its cones."""
        u, v = self.slope(x, y), self.A @ x - self.q
        shifted = x - u
        miss, pushing = x - self.project(shifted), y > v
        basis, curvature, inverse = linearise(self.H, self.A, self.cones, self.fixed, shifted, pushing)
        dx, dy = basis @ (basis.T @ miss) - miss, np.where(pushing, 0.0, -y)
        right = -basis.T @ (self.H @ dx - self.A.T @ dy) - (1.0 + curvature) * (basis.T @ miss)
        solved = inverse @ np.concatenate([right, v[pushing] + self.A[pushing] @ dx])
        dy[pushing] = solved[len(curvature) :]
        return self.project(x + dx + basis @ solved[: len(curvature)]), np.maximum(y + dy, 0.0)


def scaled_program(H, g, A, q, blocks) -> Program:
    """The program of (H, g, A, q) and `cone_blocks` in scaled variables: x = b D x̃, y = (b/c) E ỹ.

    D (constant inside a cone) and E scale the largest entry of each row of [H Aᵀ; A 0] to 1 (Ruiz). b estimates the
    size of x, and c scales H̃ and g̃ to at most 1.
    """
    n, m = len(g), len(q)
    T, cones, fixed = second_order(blocks, n)
    D, group = np.concatenate([1.0 / T, np.ones(m)]), np.arange(n + m)
    K = np.block([[0.5 * (H + H.T), A.T], [A, np.zeros((m, m))]]) * np.outer(D, D)
    for block in cones:
        group[block] = block[-1]
    for _ in range(EQUILIBRATIONS):
        largest = np.zeros(n + m)
        np.maximum.at(largest, group, np.abs(K).max(axis=1, initial=0.0))
        d = 1.0 / np.sqrt(np.where(largest > 0.0, largest, 1.0))[group]
        K *= np.outer(d, d)
        D *= d
    D, E = D[:n], D[n:]
    H, A, g, q = K[:n, :n], K[n:, :n], D * g, E * q
    empty = ~A.any(axis=1)  # 0 ≥ q: satisfied by every slack, or by none
    largest = [np.abs(x).max(initial=0.0) for x in (H, g, q[~empty])]
    # b: geometric mean of two estimates of the size of x: |q| from the rows, |g|/|H| from the unconstrained minimum.
    guesses = [x for x in (largest[2], largest[1] / largest[0] if largest[0] else 0.0) if x > 0.0]
    b = float(np.prod(np.power(guesses, 1.0 / max(len(guesses), 1))))
    c = 1.0 / (max(largest[0], largest[1] / b) or 1.0)
    q = np.where(empty, np.where(q > 0.0, 1.0, -1.0), q / b)
    return Program(c * H, c / b * g, A, q, cones, fixed, b * D, np.where(empty, 0.0, b / c * E))
