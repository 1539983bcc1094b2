# SPDX-License-Identifier: Apache-2.0
"""Friction with torsion and rolling: the projection is Clarabel's, slopes are differences, and Coulomb's law holds as stated (theory §3.7)."""

import clarabel
import numpy as np
import scipy.sparse as sparse
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.laws import cone, coulomb, spin_cone

S = wp.float64
vec3, mat33 = wp.types.vector(3, S), wp.types.matrix((3, 3), S)
SPIN, CONE, COULOMB = (copy(file, S) for file in (spin_cone, cone, coulomb))
cone_impulse, cone_hessian = SPIN.spin_cone_impulse, SPIN.spin_cone_hessian
coulomb_impulse, coulomb_slopes, coulomb_newton = (
    SPIN.spin_coulomb_impulse, SPIN.spin_coulomb_slopes, SPIN.spin_coulomb_newton,
)  # fmt: skip
plain_cone, plain_hessian = CONE.cone_impulse, CONE.cone_hessian
plain_coulomb = COULOMB.coulomb_impulse


@wp.kernel(module="test_spin_law_convex")
def evaluate_convex(
    u: wp.array(dtype=vec3), s: wp.array(dtype=vec3), R: wp.array(dtype=vec3), mu: wp.array(dtype=S),
    impulse: wp.array2d(dtype=vec3), slopes: wp.array2d(dtype=mat33), plain: wp.array2d(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    y = vec3(-u[i][0] / R[i][0], -u[i][1] / R[i][0], -u[i][2] / R[i][2])
    z = -s[i] / R[i][0]
    gamma, sigma = cone_impulse(y, z, R[i], mu[i])
    x = cone_hessian(y, z, R[i], mu[i])
    impulse[i, 0] = gamma
    impulse[i, 1] = sigma
    slopes[i, 0] = x.point
    slopes[i, 1] = wp.outer(x.left, x.right)
    slopes[i, 2] = x.spin
    slopes[i, 3] = plain_hessian(y, R[i], mu[i])
    plain[i, 0] = plain_cone(y, R[i], mu[i])


@wp.kernel(module="test_spin_law_coulomb")
def evaluate_coulomb(
    u: wp.array(dtype=vec3), s: wp.array(dtype=vec3), R: wp.array(dtype=vec3), mu: wp.array(dtype=S),
    impulse: wp.array2d(dtype=vec3), slopes: wp.array2d(dtype=mat33), plain: wp.array2d(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    load = S(0.4)
    least = S(0.2)
    gamma, sigma = coulomb_impulse(u[i], s[i], R[i], mu[i], load, least)
    x = coulomb_slopes(u[i], s[i], R[i], mu[i], load, least)
    n = coulomb_newton(gamma, sigma, u[i], s[i], R[i], mu[i], load, least, S(1.3), False)
    impulse[i, 0] = gamma
    impulse[i, 1] = sigma
    impulse[i, 2] = n.miss
    impulse[i, 3] = n.miss_spin
    impulse[i, 4] = n.delta
    impulse[i, 5] = n.delta_spin
    normal = vec3(S(0.0), S(0.0), S(1.0))
    slopes[i, 0] = x.point + wp.outer(x.p, normal)
    slopes[i, 1] = wp.outer(x.left, x.right)
    slopes[i, 2] = x.spin
    slopes[i, 3] = wp.outer(x.right, x.left) + wp.outer(x.p_spin, normal)
    slopes[i, 4] = n.point + wp.outer(n.p, normal) - slopes[i, 0]
    slopes[i, 5] = wp.outer(n.left, n.right) - slopes[i, 1]
    slopes[i, 6] = n.spin - slopes[i, 2]
    slopes[i, 7] = wp.outer(n.right, n.left) + wp.outer(n.p_spin, normal) - slopes[i, 3]
    plain[i, 0] = plain_coulomb(u[i], R[i], mu[i], load, least)


def run(kernel, x, R, mu):
    """(γ, σ) and what else the kernel finds; x (n, 6) = (u, s)."""
    n = len(x)
    given = [wp.array(np.ascontiguousarray(a), dtype=vec3, device="cpu") for a in (x[:, :3], x[:, 3:], R)]
    out = [wp.zeros((n, k), dtype=kind, device="cpu") for k, kind in ((6, vec3), (8, mat33), (1, vec3))]
    wp.launch(kernel, dim=n, inputs=[*given, wp.array(mu, dtype=S, device="cpu")], outputs=out, device="cpu")
    return [a.numpy() for a in out]


def samples(n: int, seed: int = 0):
    """(u, s), R, μ over all branches; some without friction, without slip, or without spin."""
    rng = np.random.default_rng(seed)
    R_t, R_n = 10.0 ** rng.uniform(-3, 0, size=(2, n))
    x = rng.normal(size=(n, 6)) * 10.0 ** rng.uniform(-2, 1, size=(n, 1))
    x[:, 2] -= 0.5
    mu = rng.uniform(0.05, 2.0, size=n)
    mu[::10] = 0.0
    x[3::10, :2] = 0.0
    x[5::10, 3:] = 0.0
    x[7::10, [0, 1, 3, 4, 5]] *= 1e-3  # sticks
    x[8::20, [0, 1, 3, 4, 5]] = 0.0
    return x, np.stack([R_t, R_t, R_n], axis=1), mu


def matrix(slopes: np.ndarray, coupled: np.ndarray) -> np.ndarray:
    """−∂(γ, σ)/∂(u, s), (n, 6, 6)."""
    upper = np.concatenate([slopes[:, 0], slopes[:, 1]], axis=2)
    return np.concatenate([upper, np.concatenate([coupled, slopes[:, 2]], axis=2)], axis=1)


def differences(kernel, x, R, mu, size=1e-6):
    columns, smooth = [], np.ones(len(x), bool)
    for k in range(6):
        step = size * np.linalg.norm(x, axis=1)
        moved = [x + side * step[:, None] * np.eye(6)[k] for side in (1, -1, 0.5, -0.5)]
        high, low, near, far = (run(kernel, m, R, mu)[0][:, :2].reshape(-1, 6) for m in moved)
        wide, narrow = (high - low) / (2 * step[:, None]), (near - far) / step[:, None]
        smooth &= np.abs(wide - narrow).max(1) <= 1e-5 * (np.abs(wide).max(1) + 1e-3)  # no kink within the step
        columns.append(-narrow)
    return np.stack(columns, axis=2), smooth


def test_projection_is_that_of_an_interior_point_method():
    """(γ, σ) minimises ½‖x − y‖²_R over ‖(γ_t, σ)‖ ≤ μ γ_n: Clarabel's solution of 60 of them, to its own error: ours is
    within the cone and no farther from y."""
    x, R, mu = samples(60, seed=3)
    impulse = run(evaluate_convex, x, R, mu)[0][:, :2].reshape(-1, 6)
    weights = np.concatenate([R, R[:, :1].repeat(3, axis=1)], axis=1)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    order = [2, 0, 1, 3, 4, 5]
    for x_c, w, m, found in zip(x, weights, mu, impulse, strict=True):
        y = -x_c / w
        scale = np.abs(y).max()
        A = -np.diag([max(m, 0.0), 1, 1, 1, 1, 1])[:, np.argsort(order)]
        D = np.sqrt(w)  # z = D γ, well conditioned
        problem = clarabel.DefaultSolver(
            sparse.csc_matrix(np.eye(6)), -(D * y / scale), sparse.csc_matrix(A / D), np.zeros(6),
            [clarabel.SecondOrderConeT(6)], settings,
        )  # fmt: skip
        solution = np.array(problem.solve().x) / D * scale
        size = np.linalg.norm(D * y)
        apart, ours, theirs = (np.linalg.norm(D * v) / size for v in (found - solution, found - y, solution - y))
        assert np.linalg.norm(found[[0, 1, 3, 4, 5]]) <= m * found[2] * (1 + 1e-12)
        assert apart < 1e-4 and ours < theirs + 1e-8


def test_convex_slopes_are_differences_and_a_hessian():
    """−∂(γ, σ)/∂(u, s) by differences to 1e-6, symmetric, positive semidefinite."""
    x, R, mu = samples(2000)
    slopes = run(evaluate_convex, x, R, mu)[1]
    G = matrix(slopes, np.swapaxes(slopes[:, 1], 1, 2))
    expected, smooth = differences(evaluate_convex, x, R, mu)
    size = np.abs(G).max(axis=(1, 2)) + 1e-3
    assert smooth.mean() > 0.9
    assert (np.abs(G - expected).max(axis=(1, 2)) / size)[smooth].max() < 1e-6
    assert (np.linalg.eigvalsh(G)[:, 0] / size).min() > -1e-12


def test_without_spin_rows_the_laws_are_those_of_a_contact():
    """s = 0: σ = 0, and γ and its slopes are the bits of `cone.py` and `coulomb.py`, or their last ones."""
    x, R, mu = samples(2000, seed=1)
    x[:, 3:] = 0.0
    impulse, slopes, plain = run(evaluate_convex, x, R, mu)
    assert not impulse[:, 1].any()
    np.testing.assert_array_equal(impulse[:, 0], plain[:, 0])
    np.testing.assert_allclose(slopes[:, 0], slopes[:, 3], rtol=1e-12, atol=1e-10)
    impulse, _, plain = run(evaluate_coulomb, x, R, mu)
    assert not impulse[:, 1].any()
    np.testing.assert_array_equal(impulse[:, 0], plain[:, 0])


def test_coulombs_law():
    """‖(γ_t, σ)‖ ≤ μ γ_n; the slip (u_t, s) + R_t (γ_t, σ) is 0 or opposes them at the bound; γ_n is that of u_n alone."""
    x, R, mu = samples(2000, seed=2)
    impulse = run(evaluate_coulomb, x, R, mu)[0][:, :2].reshape(-1, 6)
    tangent = [0, 1, 3, 4, 5]
    t, slip = impulse[:, tangent], x[:, tangent] + R[:, :1] * impulse[:, tangent]
    bound, size = mu * impulse[:, 2], np.linalg.norm(t, axis=1)
    assert (size <= bound * (1 + 1e-12)).all()
    slides = (np.linalg.norm(slip, axis=1) > 1e-9 * np.linalg.norm(x, axis=1)) & (bound > 0)
    assert 0.1 < slides.mean() < 0.9
    np.testing.assert_allclose(size[slides], bound[slides], rtol=1e-12)
    along = np.einsum("ci,ci->c", t, slip)[slides]
    np.testing.assert_allclose(along, -(size * np.linalg.norm(slip, axis=1))[slides], rtol=1e-9)
    assert ((impulse[:, 2] > 0) == (x[:, 2] < 0)).all()


def test_coulombs_slopes_are_differences_and_those_of_newtons_method():
    """Slopes by differences to 1e-6; where the law holds, Newton's linearisation misses nothing, moves nothing and has the same slopes."""
    x, R, mu = samples(2000, seed=4)
    impulse, slopes, _ = run(evaluate_coulomb, x, R, mu)
    G = matrix(slopes, slopes[:, 3])
    expected, smooth = differences(evaluate_coulomb, x, R, mu)
    size = np.abs(G).max(axis=(1, 2)) + 1e-3
    assert smooth.mean() > 0.9
    assert (np.abs(G - expected).max(axis=(1, 2)) / size)[smooth].max() < 1e-6
    scale = np.abs(impulse[:, :2]).max(axis=(1, 2)) + 1e-6
    assert (np.abs(impulse[:, 2:]).max(axis=(1, 2)) / scale)[mu > 0].max() < 1e-8
    clear = smooth & (mu > 0)  # a hair beside a branch either may hold
    assert np.quantile((np.abs(slopes[:, 4:]).max(axis=(1, 2, 3)) / size)[clear], 0.99) < 1e-7
