# SPDX-License-Identifier: Apache-2.0
"""SE(3): exponential, logarithm and the derivative of the logarithm, against matrix power series in extended precision."""

from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import SCALARS, copy, scalar_types
from warpsim.kernels.tree import se3

DTYPES = ("float64", "float32")
EPSILON = {"float64": 2.3e-16, "float32": 1.2e-7}
REAL = np.longdouble
# Angles: 0, far below and around the switch from series to closed form (0.25 to 0.5), up to the log's last value, pi.
ANGLES = (0.0, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.24, 0.3, 0.354, 0.356, 0.45, 0.51, 0.8, 1.5, 2.0, 2.1, 2.8, 3.1)
NEAR_PI = (np.pi - 1e-2, np.pi - 1e-4, np.pi - 1e-6, np.pi - 1e-9)
PER_ANGLE = 20


def hat(a) -> np.ndarray:
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=REAL)


def ad(xi) -> np.ndarray:
    """6x6 ad of (phi; rho)."""
    zero = np.zeros((3, 3), REAL)
    return np.block([[hat(xi[:3]), zero], [hat(xi[3:]), hat(xi[:3])]])


def exp_minus_one(xi) -> tuple[np.ndarray, np.ndarray]:
    """(R - I, p) of exp(xi), summed without the identity."""
    X = np.zeros((4, 4), REAL)
    X[:3, :3], X[:3, 3] = hat(xi[:3]), xi[3:]
    total, power = np.zeros((4, 4), REAL), np.eye(4, dtype=REAL)
    for n in range(1, 40):
        power = power @ X / n
        total = total + power
    return total[:3, :3], total[:3, 3]


def bernoulli(count: int) -> list[Fraction]:
    B = [Fraction(1)]
    for n in range(1, count):
        B.append(-sum(comb(n + 1, k) * B[k] for k in range(n)) / (n + 1))
    return B


BERNOULLI = [REAL(b.numerator) / REAL(b.denominator) / REAL(factorial(j)) for j, b in enumerate(bernoulli(110))]


def dlog_matrix(xi) -> np.ndarray:
    """sum_j B_j/j! ad^j; converges like (angle / 2 pi)^j."""
    X, total, power = ad(xi), np.zeros((6, 6), REAL), np.eye(6, dtype=REAL)
    for coefficient in BERNOULLI:
        total = total + coefficient * power
        power = power @ X
    return total


def samples(angles) -> np.ndarray:
    """(n, 6) vectors xi with rotation angles `angles`, PER_ANGLE of each, in random directions."""
    rng = np.random.default_rng(3)
    axes = rng.normal(size=(len(angles) * PER_ANGLE, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    return np.concatenate([np.repeat(angles, PER_ANGLE)[:, None] * axes, rng.normal(size=axes.shape)], axis=1)


def kernels(dtype):
    """A kernel that writes exp, log and dlog of one sample per thread."""
    S = SCALARS[dtype]
    f, t = copy(se3, S), scalar_types(S)

    @wp.kernel(module=f"test_se3_{S.__name__}", enable_backward=False)
    def exponential(xi: wp.array(dtype=t.vec6), A: wp.array(dtype=t.mat33)):
        i = wp.tid()
        A[i] = f.exp_rotation(t.vec3(xi[i][0], xi[i][1], xi[i][2]))

    @wp.kernel(module=f"test_se3_{S.__name__}", enable_backward=False)
    def logarithm(
        A: wp.array(dtype=t.mat33),
        p: wp.array(dtype=t.vec3),
        W: wp.array(dtype=t.vec6),
        F: wp.array(dtype=t.vec6),
        xi: wp.array(dtype=t.vec6),
        forward: wp.array(dtype=t.vec6),
        transpose: wp.array(dtype=t.vec6),
        change: wp.array(dtype=t.vec6),
    ):
        i = wp.tid()
        log = f.log_rotation(A[i])
        rho = f.log_translation(log, p[i])
        phi = log.phi
        xi[i] = t.vec6(phi[0], phi[1], phi[2], rho[0], rho[1], rho[2])
        forward[i] = f.dlog(log, rho, W[i])
        transpose[i] = f.dlog_transpose(log, rho, F[i])
        slope = f.dlog_transpose_slope(log, f.beta_curvature(A[i]), rho, F[i])
        turn = t.vec3(W[i][0], W[i][1], W[i][2])
        torque = slope.by_rotation * turn + slope.by_translation * t.vec3(W[i][3], W[i][4], W[i][5])
        force = slope.by_translation * turn
        change[i] = t.vec6(torque[0], torque[1], torque[2], force[0], force[1], force[2])

    return exponential, logarithm, t


def run_logarithm(dtype, xi, W, F):
    """log, dlog W, dlog^T F and its change along W, at the rounded exp(xi)."""
    _, logarithm, t = kernels(dtype)
    pairs = [exp_minus_one(x) for x in xi.astype(REAL)]
    A = wp.array(np.array([a for a, _ in pairs]).astype(dtype), dtype=t.mat33, device="cpu")
    p = wp.array(np.array([b for _, b in pairs]).astype(dtype), dtype=t.vec3, device="cpu")
    given = [wp.array(x.astype(dtype), dtype=t.vec6, device="cpu") for x in (W, F)]
    out = [wp.zeros(len(xi), dtype=t.vec6, device="cpu") for _ in range(4)]
    wp.launch(logarithm, dim=len(xi), inputs=[A, p, *given, *out], device="cpu")
    return [array.numpy().astype(float) for array in out]


@pytest.fixture(scope="module")
def directions():
    rng = np.random.default_rng(4)
    n = len(ANGLES) * PER_ANGLE
    return rng.normal(size=(n, 6)), rng.normal(size=(n, 6))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponential_is_the_power_series(dtype, within):
    """R - I relative to the angle, so that tiny rotations are right too."""
    exponential, _, t = kernels(dtype)
    xi = samples((*ANGLES, *NEAR_PI, 5.0, 6.2))
    given = wp.array(xi.astype(dtype), dtype=t.vec6, device="cpu")
    A = wp.zeros(len(xi), dtype=t.mat33, device="cpu")
    wp.launch(exponential, dim=len(xi), inputs=[given, A], device="cpu")
    expected = [exp_minus_one(x) for x in given.numpy().astype(REAL)]
    angle = np.linalg.norm(given.numpy()[:, :3].astype(float), axis=1)
    error_A = np.array([np.abs(A.numpy()[i] - e[0]).max() for i, e in enumerate(expected)], float)
    within(f"{dtype} exp: R - I over the angle", (error_A / np.maximum(angle, 1e-30)).max(), 8 * EPSILON[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithm_inverts_the_power_series(dtype, directions, within):
    """log(exp(xi)) = xi, the rotation relative to its angle, from 0 to 3.1 rad."""
    xi = samples(ANGLES)
    log = run_logarithm(dtype, xi, *directions)[0]
    angle = np.maximum(np.linalg.norm(xi[:, :3], axis=1), 1e-30)
    within(f"{dtype} log: phi over the angle", (np.abs(log - xi)[:, :3].max(axis=1) / angle).max(), 30 * EPSILON[dtype])
    within(f"{dtype} log: rho", np.abs(log - xi)[:, 3:].max(), 60 * EPSILON[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithm_near_pi(dtype, within):
    """Up to half a turn the angle and the axis are right; at half a turn both signs of the axis are."""
    xi = samples((*NEAR_PI, np.pi))
    rng = np.random.default_rng(8)
    log = run_logarithm(dtype, xi, rng.normal(size=xi.shape), rng.normal(size=xi.shape))[0]
    # Within a few epsilon of pi the sign of the axis is that of rounding.
    flipped = np.linalg.norm(log[:, :3] + xi[:, :3], axis=1) < 1.0
    assert not flipped[np.linalg.norm(xi[:, :3], axis=1) < np.pi - 10 * EPSILON[dtype]].any()
    turn = np.where(flipped[:, None], -log[:, :3], log[:, :3])
    within(f"{dtype} log near pi: phi", np.abs(turn - xi[:, :3]).max(), 30 * EPSILON[dtype])
    back = np.array([np.concatenate([x.ravel() for x in exp_minus_one(row.astype(REAL))]) for row in log], float)
    there = np.array([np.concatenate([x.ravel() for x in exp_minus_one(row.astype(REAL))]) for row in xi], float)
    within(f"{dtype} log near pi: exp(log) - id", np.abs(back - there).max(), 60 * EPSILON[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivative_of_the_logarithm_is_the_bernoulli_series(dtype, directions, within):
    """dlog W and dlog^T F equal sum_j B_j/j! ad^j on both sides of the switch between series and closed form."""
    xi, (W, F) = samples(ANGLES), directions
    _, forward, transpose, _ = run_logarithm(dtype, xi, W, F)
    matrices = [dlog_matrix(x.astype(REAL)) for x in xi]
    exact = np.array([D @ w for D, w in zip(matrices, W, strict=True)], float)
    exact_transpose = np.array([D.T @ f for D, f in zip(matrices, F, strict=True)], float)
    within(f"{dtype} dlog", np.abs(forward - exact).max() / np.abs(exact).max(), 30 * EPSILON[dtype])
    error = np.abs(transpose - exact_transpose).max() / np.abs(exact_transpose).max()
    within(f"{dtype} dlog transposed", error, 30 * EPSILON[dtype])


def test_second_derivative_of_the_logarithm(directions, within):
    """The change of dlog^T F along W equals the central difference of the series in extended precision."""
    xi, (W, F) = samples(ANGLES), directions
    change = run_logarithm("float64", xi, W, F)[3]
    step = REAL(1e-6)
    exact = []
    for x, w, f in zip(xi.astype(REAL), W, F, strict=True):
        exact.append((dlog_matrix(x + step * w).T @ f - dlog_matrix(x - step * w).T @ f) / (2 * step))
    exact = np.array(exact, float)
    within("dlog: second derivative", np.abs(change - exact).max() / np.abs(exact).max(), 1e-10)
