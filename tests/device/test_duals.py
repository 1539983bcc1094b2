# SPDX-License-Identifier: Apache-2.0
"""Dual numbers: every operation's rate against Warp's adjoint and central differences, and copies that keep apart."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import Variant, copy
from warpsim.kernels import preamble
from warpsim.kernels import real as real_module
from warpsim.kernels.number import num as num_module

CASES = 26


def forward(number):
    """The operations, of numbers of the copy whose `num.py` is given."""
    num, num2, num3, num33 = number.num, number.num2, number.num3, number.num33
    num_quat, num_transform = number.num_quat, number.num_transform

    @wp.func
    def operation(case: int, x: num3, y: num3) -> num3:
        r = num3()
        a = x[0]
        b = y[1]
        if case == 0:
            r = x + y - num(3.0) * x
        elif case == 1:
            r = num3(a * b, a / b, -a)
        elif case == 2:
            r = num3(wp.min(a, b), wp.max(a, b), wp.abs(-a))
        elif case == 3:
            r = num3(wp.clamp(a, b, num(9.0)), wp.clamp(a, num(0.1), b), wp.clamp(a, num(-9.0), num(9.0)))
        elif case == 4:
            r = num3(wp.sqrt(a), wp.exp(a), wp.log(a))
        elif case == 5:
            r = num3(wp.sin(a), wp.cos(a), wp.tanh(a))
        elif case == 6:
            r = num3(wp.pow(a, num(1.5)), wp.atan2(a, b), wp.atan(a))
        elif case == 7:
            r = num3(wp.dot(x, y), wp.length(x), wp.length_sq(y))
        elif case == 8:
            r = wp.cross(x, y)
        elif case == 9:
            r = wp.normalize(x)
        elif case == 10:
            r = wp.outer(x, y) * x + wp.transpose(wp.outer(x, x)) * y
        elif case == 11:
            r = num33(a, b, x[1], x[2], y[0], y[2], a, a, b) * y
        elif case == 12:
            r = wp.inverse(num33(a, b, x[1], x[2], y[0], y[2], a * a, a, b)) * y
        elif case == 13:
            r = wp.where(a < b, x, y)
        elif case == 14:
            if a * b > num(0.0):
                r = x * a
            else:
                r = y
        elif case == 15:
            for i in range(3):
                r[i] = x[i] * x[i] + y[2 - i]
        elif case == 16:
            r[0] = wp.sign(a) * b
            r[1] = num(0.1) * a
            r[2] = num(1) / (num(case) * b)
        elif case == 17:
            r = wp.quat_rotate(num_quat(x[0], x[1], x[2], b), y)
        elif case == 18:
            r = wp.transform_point(num_transform(x, wp.normalize(num_quat(x[1], y[1], a, b))), y)
        elif case == 19:
            X = num_transform(y, wp.normalize(num_quat(x[1], y[1], a, b)))
            r = wp.transform_vector(wp.transform_inverse(X) * X * X, x)
        elif case == 20:
            z = num2(a, b)
            r = num3(z[0] * z[1], wp.dot(z, z), wp.length(z))
        elif case == 21:
            r = wp.cw_mul(x, y) + wp.cw_div(x, y)
        elif case == 22:
            s = num(0.5)
            s += a * b
            s *= a
            s -= b
            s /= a
            r = num3(s, s * s, a)
        elif case == 23:
            r = x / b
        elif case == 24:
            r = num3(wp.determinant(wp.outer(x, y) + num(2.0) * wp.skew(x)), wp.trace(wp.outer(x, y)), b)
        elif case == 25:
            r = x + (wp.dot(x, y) / (a - wp.length(y))) * (y - x)
        return r

    return operation


def dual_kernel(real):
    """Values and rates of all operations, along a direction."""
    number = copy(num_module, Variant(real, dual=True))
    operation, vec3 = forward(number), wp.types.vector(3, real)
    with_rates, values_of, rates_of = number.with_rates, number.values_of, number.rates_of
    module = preamble.warp_module(f"test_duals_{real.__name__}", more=number.num.text)

    @wp.kernel(module=module, enable_backward=False)
    def rates(
        x: wp.array(dtype=vec3),
        y: wp.array(dtype=vec3),
        dx: vec3,
        dy: vec3,
        value: wp.array2d(dtype=vec3),
        rate: wp.array2d(dtype=vec3),
    ):
        i, case = wp.tid()
        r = operation(case, with_rates(x[i], dx), with_rates(y[i], dy))
        value[i, case] = values_of(r)
        rate[i, case] = rates_of(r)

    return rates


def plain_kernel(real):
    """Values of all operations, with an adjoint."""
    operation, vec3 = forward(copy(num_module, real)), wp.types.vector(3, real)

    @wp.kernel(module=wp.get_module(f"test_duals_plain_{real.__name__}"))
    def values(x: wp.array2d(dtype=vec3), y: wp.array2d(dtype=vec3), value: wp.array2d(dtype=vec3)):
        i, case = wp.tid()
        value[i, case] = operation(case, x[i, case], y[i, case])

    return values


@pytest.mark.parametrize("real", [wp.float32, wp.float64])
def test_rates_of_every_operation(real):
    """Rates are those of Warp's adjoint and of central differences; values have the bits of the plain copy."""
    rng = np.random.default_rng(0)
    dtype, vec3, n = wp.dtype_to_numpy(real), wp.types.vector(3, real), 8
    points = rng.uniform(0.2, 2.0, (2, n, 3)).astype(dtype)
    way = rng.normal(size=(2, 3)).astype(dtype)
    value, rate = (wp.zeros((n, CASES), dtype=vec3) for _ in range(2))
    inputs = [*(wp.array(p, dtype=vec3) for p in points), vec3(way[0]), vec3(way[1]), value, rate]
    wp.launch(dual_kernel(real), (n, CASES), inputs)
    plain = plain_kernel(real)

    def at(moved, **options):
        given = [wp.array(np.repeat(p[:, None], CASES, 1), dtype=vec3, **options) for p in moved]
        return given, wp.zeros((n, CASES), dtype=vec3, **options)

    given, result = at(points, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(plain, (n, CASES), [*given, result])
    np.testing.assert_array_equal(value.numpy(), result.numpy())
    for component in range(3):
        seed = np.zeros((n, CASES, 3), dtype)
        seed[..., component] = 1
        tape.backward(grads={result: wp.array(seed, dtype=vec3)})
        adjoint = sum((x.grad.numpy() * w).sum(-1) for x, w in zip(given, way, strict=True))
        tape.zero()
        size = 1 + np.abs(adjoint)
        tolerance = 1e-12 if real is wp.float64 else 2e-4
        assert np.abs((rate.numpy()[..., component] - adjoint) / size).max() < tolerance
    if real is wp.float64:
        h, sides = 1e-6, []
        for side in (h, -h):
            given, result = at(points + side * way[:, None])
            wp.launch(plain, (n, CASES), [*given, result])
            sides.append(result.numpy())
        difference = (sides[0] - sides[1]) / (2 * h)
        assert np.abs((rate.numpy() - difference) / (1 + np.abs(difference))).max() < 1e-7


def test_copies_keep_apart():
    """The dual copy has numbers of its own, the plain one has `real`, both in one process."""
    for real in (wp.float32, wp.float64):
        plain, dual = copy(num_module, real), copy(num_module, Variant(real, dual=True))
        assert plain.num is real and dual.num is not real
        assert copy(real_module, Variant(real, dual=True)).real is real
        assert dual.num is copy(num_module, Variant(real, dual=True)).num
        assert not copy(real_module, real).DUAL and copy(real_module, Variant(real, dual=True)).DUAL


def test_constants_in_full_precision():
    """A constant of a dual number is not rounded to float32 on its way."""
    number = copy(num_module, Variant(wp.float64, dual=True))
    num, value_of = number.num, number.value_of
    module = preamble.warp_module("test_dual_constants", more=num.text)

    @wp.kernel(module=module, enable_backward=False)
    def constants(found: wp.array(dtype=wp.float64)):
        found[0] = value_of(num(0.1))
        found[1] = value_of(num(-0.3) + num(wp.pi))

    found = wp.zeros(2, dtype=wp.float64)
    wp.launch(constants, 1, [found])
    np.testing.assert_array_equal(found.numpy(), [0.1, -0.3 + np.pi])
