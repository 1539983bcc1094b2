# SPDX-License-Identifier: Apache-2.0
"""`num`, the scalar type of functions with forward-mode derivatives.

`num` is `real` in plain copies of the device code, and a dual number in the copy `Variant(real, dual=True)`. In the
dual copy `with_rate` sets the rates of a function's arguments, and `rate_of` reads the rate of the result: the
directional derivative. In plain copies `with_rate` drops the rate and `rate_of` gives 0.
"""

import warp as wp

from .. import real as device
from ..real import DUAL, NUM, func, mat33, quat, real, transform, vec3

num = NUM or real
num2 = wp.types.vector(2, num)
num3 = wp.types.vector(3, num)
num4 = wp.types.vector(4, num)
num6 = wp.types.vector(6, num)
num33 = wp.types.matrix((3, 3), num)
num_quat = wp.types.quaternion(num)
num_transform = wp.types.transformation(num)

if DUAL:

    @device.func_native("return x.value;")
    def value_of(x: num) -> real:
        """The number without its rate."""
        ...

    @device.func_native("return x.rate;")
    def rate_of(x: num) -> real:
        """The rate of a number."""
        ...

    @device.func_native("return {x, rate};")
    def with_rate(x: real, rate: real) -> num:
        """A number that changes at this rate."""
        ...

else:

    @func
    def value_of(x: num) -> real:
        return x

    @func
    def rate_of(x: num) -> real:
        return real(0.0)

    @func
    def with_rate(x: real, rate: real) -> num:
        return x


@func
def values_of(x: num3) -> vec3:
    """A vector without its rates."""
    return vec3(value_of(x[0]), value_of(x[1]), value_of(x[2]))


@func
def rates_of(x: num3) -> vec3:
    """The rates of a vector."""
    return vec3(rate_of(x[0]), rate_of(x[1]), rate_of(x[2]))


@func
def with_rates(x: vec3, rates: vec3) -> num3:
    """A vector that changes at these rates."""
    return num3(with_rate(x[0], rates[0]), with_rate(x[1], rates[1]), with_rate(x[2], rates[2]))


@func
def matrix_rates(A: num33) -> mat33:
    """The rates of a matrix."""
    rates = mat33()
    for i in range(3):
        for j in range(3):
            rates[i, j] = rate_of(A[i, j])
    return rates


@func
def matrix_with_rates(A: mat33, rates: mat33) -> num33:
    """A matrix that changes at these rates."""
    moving = num33()
    for i in range(3):
        for j in range(3):
            moving[i, j] = with_rate(A[i, j], rates[i, j])
    return moving


@func
def pose_of(X: num_transform) -> transform:
    """A pose without its rates."""
    q = wp.transform_get_rotation(X)
    turn = quat(value_of(q[0]), value_of(q[1]), value_of(q[2]), value_of(q[3]))
    return transform(values_of(wp.transform_get_translation(X)), turn)


@func
def moving_transform(X: transform, omega: vec3, u: vec3) -> num_transform:
    """The pose X moving with (ω; u) about the origin of its target frame: ṗ = u + ω × p, q̇ = ½ (ω, 0) q."""
    p = wp.transform_get_translation(X)
    q = wp.transform_get_rotation(X)
    half = real(0.5) * omega
    turn = quat(half[0], half[1], half[2], real(0.0)) * q
    return num_transform(
        with_rates(p, u + wp.cross(omega, p)),
        num_quat(
            with_rate(q[0], turn[0]), with_rate(q[1], turn[1]), with_rate(q[2], turn[2]), with_rate(q[3], turn[3])
        ),
    )
