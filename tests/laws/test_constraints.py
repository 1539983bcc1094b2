# SPDX-License-Identifier: Apache-2.0
"""Friction cone and box rows: value, gradient and Hessian agree with each other, in every region and on its edges."""

import numpy as np
import pytest
import warp as wp

from scenes.box_law import run_box
from warpsim.device.copies import copy
from warpsim.kernels.laws import cone

S = wp.float64
vec3, mat33 = wp.types.vector(3, S), wp.types.matrix((3, 3), S)
CONE = copy(cone, S)
cone_y, cone_impulse, cone_cost, cone_hessian = CONE.cone_y, CONE.cone_impulse, CONE.cone_cost, CONE.cone_hessian
project, projected_rate, projected_hessian = CONE.project, CONE.projected_rate, CONE.projected_hessian


@wp.kernel(module="test_constraints_cone")
def evaluate_cone(
    v_c: wp.array(dtype=vec3), R: wp.array(dtype=vec3), mu: wp.array(dtype=S),
    gamma: wp.array(dtype=vec3), cost: wp.array(dtype=S), G: wp.array(dtype=mat33),
):  # fmt: skip
    i = wp.tid()
    y = cone_y(v_c[i], vec3(S(0.0), S(0.0), S(0.0)), R[i])
    gamma[i] = cone_impulse(y, R[i], mu[i])
    cost[i] = cone_cost(cone_impulse(y, R[i], mu[i]), R[i])
    G[i] = cone_hessian(y, R[i], mu[i])


@wp.kernel(module="test_constraints_cone")
def evaluate_projection(
    v_c: wp.array(dtype=vec3), rate: wp.array(dtype=vec3), R: wp.array(dtype=vec3), mu: wp.array(dtype=S),
    gamma: wp.array(dtype=vec3), change: wp.array(dtype=vec3), G: wp.array(dtype=mat33),
):  # fmt: skip
    i = wp.tid()
    y, y_rate = -wp.cw_div(v_c[i], R[i]), -wp.cw_div(rate[i], R[i])
    mu_hat = mu[i] * R[i][0] / R[i][2]
    found = project(y, mu_hat, mu[i])
    gamma[i] = found.gamma
    change[i] = projected_rate(found, y_rate, mu_hat, mu[i])
    G[i] = projected_hessian(found, y[2], wp.cw_div(vec3(S(1.0), S(1.0), S(1.0)), R[i]), mu_hat, mu[i])


def run_cone(v_c, R, mu):
    n = len(v_c)
    out = [wp.zeros(n, dtype=kind, device="cpu") for kind in (vec3, S, mat33)]
    inputs = [wp.array(x, dtype=kind, device="cpu") for x, kind in ((v_c, vec3), (R, vec3), (mu, S))]
    wp.launch(evaluate_cone, dim=n, inputs=inputs, outputs=out, device="cpu")
    return [x.numpy() for x in out]


def cone_samples(n=3000, seed=0):
    """v_c, R, μ over all regions; every tenth without friction, every tenth with y_r = 0."""
    rng = np.random.default_rng(seed)
    R_t, R_n = 10.0 ** rng.uniform(-3, 0, size=(2, n))
    v_c = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1))
    mu = rng.uniform(0.05, 2.0, size=n)
    mu[::10] = 0.0
    v_c[5::10, :2] = 0.0
    return v_c, np.stack([R_t, R_t, R_n], axis=1), mu


def regions(v_c, R, mu):
    """Region and relative distance in y from its edges: differences must not straddle one."""
    y = -v_c / R
    y_r, mu_hat = np.linalg.norm(y[:, :2], axis=1), mu * R[:, 0] / R[:, 2]
    edges = np.stack([y[:, 2] + mu_hat * y_r, y_r - mu * y[:, 2]], axis=1)
    size = np.linalg.norm(y, axis=1)
    closeness = np.abs(edges).min(axis=1) / (size * (1.0 + mu_hat + mu))
    open_ = edges[:, 0] <= 0
    return np.where(open_, 0, np.where(mu == 0, 1, np.where(edges[:, 1] <= 0, 2, 3))), closeness


def test_cone_gradient_and_hessian_are_the_differences():
    """−∂ℓ/∂v_c = γ and −∂γ/∂v_c = G by central differences, to 1e-7 relative."""
    v_c, R, mu = cone_samples()
    region, closeness = regions(v_c, R, mu)
    assert set(region) == {0, 1, 2, 3}
    gamma, _, G = run_cone(v_c, R, mu)
    step = 1e-5 * np.linalg.norm(v_c, axis=1)
    # An edge nearer than the step, seen through diag(R), would put both sides on different formulas.
    smooth = closeness > 1e-3 * (R.max(axis=1) / R.min(axis=1)) ** 0.5
    smooth &= (np.linalg.norm(v_c[:, :2], axis=1) > 1e-3 * np.linalg.norm(v_c, axis=1)) | (region != 3)
    assert smooth.mean() > 0.7
    gradient_fd, G_fd = np.zeros_like(gamma), np.zeros_like(G)
    for axis in range(3):
        shift = np.zeros_like(v_c)
        shift[:, axis] = step
        up, down = run_cone(v_c + shift, R, mu), run_cone(v_c - shift, R, mu)
        gradient_fd[:, axis] = -(up[1] - down[1]) / (2.0 * step)
        G_fd[:, :, axis] = -(up[0] - down[0]) / (2.0 * step)[:, None]
    scale = np.linalg.norm(v_c / R, axis=1)
    assert (np.abs(gradient_fd - gamma).max(axis=1) / scale)[smooth].max() < 1e-7
    G_scale = (1.0 / R).max(axis=1)
    assert (np.abs(G_fd - G).max(axis=(1, 2)) / G_scale)[smooth].max() < 1e-7


def test_the_projection_without_branches_is_the_same():
    """What the small islands of a GPU use: γ, G and dγ = −G dv_c in every region, on y_r = 0, without friction and at rest; a NaN comes out as one."""
    v_c, R, mu = cone_samples()
    v_c[:3] = [[0.0, 0.0, 0.0], [1e-200, 0.0, 0.0], [np.nan] * 3]
    gamma, _, G = run_cone(v_c, R, mu)
    rate = np.random.default_rng(1).normal(size=v_c.shape)
    out = [wp.zeros(len(mu), dtype=kind, device="cpu") for kind in (vec3, vec3, mat33)]
    inputs = [wp.array(x, dtype=kind, device="cpu") for x, kind in ((v_c, vec3), (rate, vec3), (R, vec3), (mu, S))]
    wp.launch(evaluate_projection, dim=len(mu), inputs=inputs, outputs=out, device="cpu")
    found, change, slopes = (x.numpy() for x in out)
    assert np.isnan(found[2]).any() and np.isnan(gamma[2]).any()
    sound = np.arange(len(mu)) != 2
    scale = np.linalg.norm(v_c / R, axis=1)[sound]
    assert np.all(np.abs(found - gamma).max(axis=1)[sound] <= 1e-14 * scale)
    stiffness = (1.0 / R).max(axis=1)[sound]
    assert np.all(np.abs(slopes - G).max(axis=(1, 2))[sound] <= 1e-13 * stiffness)
    expected = -np.einsum("nij,nj->ni", G, rate)
    assert np.all(np.abs(change - expected).max(axis=1)[sound] <= 1e-12 * stiffness)


def test_cone_impulse_is_feasible_and_complementary():
    """γ is in its cone, g = v_c + Rγ in the dual cone μ‖g_t‖ ≤ g_n, and gᵀγ = 0; G is symmetric and ⪰ 0."""
    v_c, R, mu = cone_samples()
    gamma, _, G = run_cone(v_c, R, mu)
    g = v_c + R * gamma
    size = np.linalg.norm(v_c, axis=1)
    assert np.all(np.linalg.norm(gamma[:, :2], axis=1) <= mu * gamma[:, 2] * (1 + 1e-14))
    assert np.all(gamma[:, 2] >= 0.0)
    assert np.all(mu * np.linalg.norm(g[:, :2], axis=1) <= g[:, 2] + 1e-13 * size * (1 + mu))
    assert np.all(np.abs(np.sum(g * gamma, axis=1)) <= 1e-12 * size * np.linalg.norm(v_c / R, axis=1))
    np.testing.assert_array_equal(G, np.swapaxes(G, 1, 2))
    assert np.all(np.linalg.eigvalsh(G)[:, 0] >= -1e-12 / R.min(axis=1))


def test_cone_special_cases():
    """Frictionless contacts push only along n, never pull; the axis y_r = 0 and a contact at rest are finite."""
    R = np.tile([1e-3, 1e-3, 1e-2], (6, 1))
    v_c = np.array([[1, 2, -1], [1, 2, 1], [0, 0, -1], [0, 0, 1], [0, 0, 0], [1e-200, 0, 0]], dtype=float)
    gamma, cost, G = run_cone(v_c, R, np.array([0.0, 0.0, 0.5, 0.5, 0.5, 0.5]))
    np.testing.assert_allclose(gamma[:4], [[0, 0, 100], [0, 0, 0], [0, 0, 100], [0, 0, 0]])
    np.testing.assert_array_equal(gamma[4], 0.0)
    np.testing.assert_allclose(G[0], np.diag([0, 0, 100]))
    np.testing.assert_array_equal(G[[1, 3, 4]], 0.0)
    np.testing.assert_allclose(G[2], np.diag([1000, 1000, 100]))
    assert np.isfinite(gamma).all() and np.isfinite(G).all() and np.isfinite(cost).all()


def test_cone_adjoint_is_the_hessian():
    """Reverse mode through P gives Gᵀ in every region, and stays finite on the axis and at rest."""
    v_c, R, mu = cone_samples(400, seed=1)
    v_c[0] = 0.0
    _, _, G = run_cone(v_c, R, mu)
    for axis in range(3):
        v = wp.array(v_c, dtype=vec3, device="cpu", requires_grad=True)
        R_w = wp.array(R, dtype=vec3, device="cpu", requires_grad=True)
        mu_w = wp.array(mu, dtype=S, device="cpu", requires_grad=True)
        out = [wp.zeros(len(mu), dtype=kind, device="cpu", requires_grad=True) for kind in (vec3, S, mat33)]
        with wp.Tape() as tape:
            wp.launch(evaluate_cone, dim=len(mu), inputs=[v, R_w, mu_w], outputs=out, device="cpu")
        seed = np.zeros_like(v_c)
        seed[:, axis] = 1.0
        tape.backward(grads={out[0]: wp.array(seed, dtype=vec3, device="cpu")})
        assert np.isfinite(R_w.grad.numpy()).all() and np.isfinite(mu_w.grad.numpy()).all()
        np.testing.assert_allclose(v.grad.numpy(), -G[:, axis, :], atol=1e-10 / R.min())


@pytest.mark.parametrize("lower, upper", [(0.0, np.inf), (-0.3, 0.3), (-np.inf, np.inf), (-0.1, 0.7), (0.0, 0.0)])
def test_box_rows(lower, upper):
    """Limit, dry friction, bilateral, motor, blocked: derivatives by differences, γ in its interval, complementarity."""
    rng = np.random.default_rng(0)
    n = 1000
    R = 10.0 ** rng.uniform(-3, 0, size=n)
    v_c = -R * rng.normal(size=n)
    low, up = np.full(n, lower), np.full(n, upper)
    gamma, _, G = run_box(v_c, R, low, up)
    y = -v_c / R
    np.testing.assert_array_equal(gamma, np.clip(y, lower, upper))
    step = 1e-6 * R
    after, before = run_box(v_c + step, R, low, up), run_box(v_c - step, R, low, up)
    smooth = np.minimum(np.abs(y - lower), np.abs(y - upper)) > 1e-5
    np.testing.assert_allclose((-(after[1] - before[1]) / (2 * step))[smooth], gamma[smooth], atol=1e-7)
    np.testing.assert_allclose((-(after[0] - before[0]) / (2 * step) * R)[smooth], (G * R)[smooth], atol=1e-7)
    slip = v_c + R * gamma
    assert np.all(slip[gamma < upper] >= -1e-14) and np.all(slip[gamma > lower] <= 1e-14)
    np.testing.assert_array_equal(run_box(np.zeros(1), np.ones(1), low[:1], up[:1])[0], np.clip(0.0, lower, upper))
