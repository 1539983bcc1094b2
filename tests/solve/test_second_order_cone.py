# SPDX-License-Identifier: Apache-2.0
"""The second-order cone's algebra: projection, Jordan product, Nesterov–Todd scaling, steps to the boundary."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import SCALARS, copy
from warpsim.kernels.solve.cone_qp import second_order_cone

J = np.diag([-1.0, -1.0, 1.0])


def evaluate(name, a, b, dtype="float64"):
    """f(a, b) of every pair of rows, as vectors (scalars in the last component)."""
    S = SCALARS[dtype]
    f = copy(second_order_cone, S)
    project, product, divide, longest_step, scaling_point = (
        f.project, f.product, f.divide, f.longest_step, f.scaling_point,
    )  # fmt: skip
    vec3 = wp.types.vector(3, S)

    @wp.kernel(module=f"test_second_order_cone_{dtype}", enable_backward=False)
    def all_of_them(code: int, a: wp.array(dtype=vec3), b: wp.array(dtype=vec3), out: wp.array(dtype=vec3)):
        i = wp.tid()
        if code == 0:
            out[i] = project(a[i])
        elif code == 1:
            out[i] = product(a[i], b[i])
        elif code == 2:
            out[i] = divide(a[i], b[i])
        elif code == 3:
            out[i] = vec3(S(0.0), S(0.0), longest_step(a[i], b[i]))
        else:
            out[i] = scaling_point(a[i], b[i])

    code = ("project", "product", "divide", "longest_step", "scaling_point").index(name)
    a, b = (wp.array(np.asarray(x, dtype=float), dtype=vec3, device="cpu") for x in (a, b))
    out = wp.zeros(len(a), dtype=vec3, device="cpu")
    wp.launch(all_of_them, dim=len(a), inputs=[code, a, b, out], device="cpu")
    return out.numpy()


def inside(rng, count):
    """Points inside the cone, some near its boundary, some on its axis."""
    x = rng.normal(size=(count, 3))
    x[:, 2] = np.linalg.norm(x[:, :2], axis=1) + 10.0 ** rng.uniform(-6.0, 1.0, count)
    x[0] = (0.0, 0.0, 1.0)
    return x


def test_projection(rng):
    """P v is in the cone, P v − v in the dual cone, and they are orthogonal (Moreau)."""
    v = np.concatenate([rng.normal(size=(40, 3)), [(0, 0, 1), (0, 0, -1), (0, 0, 0), (3, 4, 5), (3, 4, -5)]])
    p = evaluate("project", v, v)
    for x in (p, p - v):
        assert np.all(x[:, 2] - np.linalg.norm(x[:, :2], axis=1) >= -1e-14)
    np.testing.assert_allclose(np.sum(p * (p - v), axis=1), 0.0, atol=1e-14)


def test_product_and_its_inverse(rng):
    """a ∘ b has the axis aᵀb, commutes, has (0, 0, 1) as its one, and divide undoes it."""
    a, b = inside(rng, 30), rng.normal(size=(30, 3))
    ab = evaluate("product", a, b)
    np.testing.assert_allclose(ab[:, 2], np.sum(a * b, axis=1), rtol=1e-14)
    np.testing.assert_array_equal(ab, evaluate("product", b, a))
    np.testing.assert_array_equal(evaluate("product", a, np.tile([0.0, 0.0, 1.0], (30, 1))), a)
    determinant = a[:, 2] ** 2 - np.sum(a[:, :2] ** 2, axis=1)
    size = np.sum(a**2, axis=1) / determinant * np.linalg.norm(b, axis=1)
    assert np.all(np.linalg.norm(evaluate("divide", a, ab) - b, axis=1) <= 1e-14 * size)


def test_scaling_point(rng):
    """W² = η² (2 w̄ w̄ᵀ − J) with η⁴ = det x / det z maps z to x."""
    x, z = inside(rng, 30), inside(rng, 30)[::-1]
    for x_i, z_i, w in zip(x, z, evaluate("scaling_point", x, z), strict=True):
        eta_sq = np.sqrt((x_i @ J @ x_i) / (z_i @ J @ z_i))
        assert w @ J @ w == pytest.approx(1.0, abs=1e-8 * (w @ w))
        W_sq = eta_sq * (2.0 * np.outer(w, w) - J)
        assert np.linalg.norm(W_sq @ z_i - x_i) <= 1e-9 * np.linalg.norm(W_sq) * np.linalg.norm(z_i)


def test_longest_step(rng):
    """a + αd is on the boundary at the longest step, inside before; directions in the cone have none."""
    a, d = inside(rng, 40), rng.normal(size=(40, 3))
    d[:5] = inside(rng, 5)
    alpha = evaluate("longest_step", a, d)[:, 2]
    endless = d[:, 2] >= np.linalg.norm(d[:, :2], axis=1)
    assert np.sum(endless) >= 5
    np.testing.assert_array_equal(alpha > 1e20, endless)
    a, d, alpha = a[~endless], d[~endless], alpha[~endless, None]
    end, middle = a + alpha * d, a + 0.999 * alpha * d
    assert np.all(np.abs(end[:, 2] - np.linalg.norm(end[:, :2], axis=1)) <= 1e-8 * (1.0 + np.abs(end[:, 2])))
    assert np.all(middle[:, 2] > np.linalg.norm(middle[:, :2], axis=1))
