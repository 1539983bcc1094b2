# SPDX-License-Identifier: Apache-2.0
"""Actuators with a state (the activation), and muscles: the law s of every actuator's force s · (1, length, velocity).

An activation a follows the control u (clamped to its range) by a first-order law. It advances by one step of h as in
MuJoCo's Euler integrator, and is then clamped to its range:

    integrator     a' = a + h u
    filter         a' = a + h (u - a)/τ
    filterexact    a' = a + (1 - exp(-h/τ)) (u - a), exact for a constant u
    muscle         a' = a + h (u - a)/τ(u, a) (`muscle_rate`)

The force law of an actuator is s = gain · drive + bias. Its drive is the control u if it has no activation, otherwise
a, or a' if it acts early. Code that reads s in place of gain, bias and control (`actuators.py`, `kernels/rows`) does
not depend on activations. May be taped.
"""

import warp as wp

from ..real import func, kernel, real, struct
from .actuators import Actuators, clamped, scaled_law

NONE = wp.constant(0)  # MuJoCo's codes
INTEGRATOR = wp.constant(1)
FILTER = wp.constant(2)
FILTEREXACT = wp.constant(3)
MUSCLE = wp.constant(4)

LEAST = wp.constant(1e-15)  # [s, m] least divisor, as in MuJoCo


@struct
class Dynamics:
    """How the activations of actuators change; shared by all worlds."""

    kind: wp.array(dtype=int)  # (nu,)
    index: wp.array(dtype=int)  # (nu,) index in the activation; -1: none
    early: wp.array(dtype=int)  # (nu,) 1: the force uses the next activation
    range: wp.array2d(dtype=real)  # (nu, 2)


@func
def sigmoid(x: real) -> real:
    """0 below 0, 1 above 1, and in between the quintic with two continuous derivatives."""
    y = real(0.0)
    if x >= real(1.0):
        y = real(1.0)
    elif x > real(0.0):
        y = x * x * x * (real(3.0) * x * (real(2.0) * x - real(5.0)) + real(10.0))
    return y


@func
def muscle_rate(u: real, a: real, rise: real, fall: real, width: real) -> real:
    """da/dt of a muscle's activation (Millard et al. 2013, as in MuJoCo).

    The time constant of activation is rise (½ + 3/2 a), that of deactivation fall/(½ + 3/2 a). `width`: the difference
    u − a over which the two are blended.
    """
    excited = wp.min(wp.max(u, real(0.0)), real(1.0))
    if wp.isnan(u):  # `min` and `max` would turn a NaN into a number
        excited = u
    bounded = wp.min(wp.max(a, real(0.0)), real(1.0))
    if wp.isnan(a):
        bounded = a
    change = excited - a
    share = real(0.5) + real(1.5) * bounded
    up = rise * share
    down = fall / share
    tau = down
    if width >= real(LEAST):
        tau = down + (up - down) * sigmoid(change / width + real(0.5))
    elif change > real(0.0):
        tau = up
    return change / wp.max(real(LEAST), tau)


@func
def within(x: real, low: real, high: real) -> real:
    """x clamped to its limits; a NaN stays a NaN."""
    y = x
    if x < low:
        y = low
    elif x > high:
        y = high
    return y


@func
def activation_rate(dynamics: Dynamics, time: wp.array3d(dtype=real), u: real, a: real, w: int, i: int) -> real:
    """da/dt of actuator i."""
    kind = dynamics.kind[i]
    at = w % time.shape[0]
    rate = u
    if kind == FILTER or kind == FILTEREXACT:
        rate = (u - a) / wp.max(real(LEAST), time[at, i, 0])
    elif kind != INTEGRATOR:
        rate = muscle_rate(u, a, time[at, i, 0], time[at, i, 1], time[at, i, 2])
    return rate


@func
def advanced(
    dynamics: Dynamics, time: wp.array3d(dtype=real), h: real, rate: real, a: real, w: int, i: int
) -> real:  # fmt: skip
    """The activation of actuator i after a step of h at this rate."""
    y = a
    if dynamics.kind[i] == FILTEREXACT:
        tau = wp.max(real(LEAST), time[w % time.shape[0], i, 0])
        y = a + rate * tau * (real(1.0) - wp.exp(-h / tau))
    else:
        y = a + h * rate
    return within(y, dynamics.range[i, 0], dynamics.range[i, 1])


@kernel(twin=True)
def actuator_laws(
    dynamics: Dynamics,
    # (…, nu, 3) [s] τ; for a muscle τ of rise, τ of fall, and the width of the transition
    time: wp.array3d(dtype=real),
    h: real,
    actuators: Actuators,
    activation: wp.array2d(dtype=real),
    # out
    following: wp.array2d(dtype=real),
    drive: wp.array2d(dtype=real),
    law: wp.array3d(dtype=real),
):
    """s = gain drive + bias of every actuator, and its next activation. Launch over (worlds, nu)."""
    w, i = wp.tid()
    u = clamped(actuators.control[w, i], actuators.control_range, w, i)
    driven = u
    if dynamics.index[i] >= 0:
        a = activation[w, dynamics.index[i]]
        after = advanced(dynamics, time, h, activation_rate(dynamics, time, u, a, w, i), a, w, i)
        following[w, dynamics.index[i]] = after
        driven = a
        if dynamics.early[i] != 0:
            driven = after
    drive[w, i] = driven
    s = scaled_law(actuators, driven, w, i)
    for k in range(3):
        law[w, i, k] = s[k]


# Runge–Kutta stages.


@kernel
def activation_rates(
    dynamics: Dynamics,
    time: wp.array3d(dtype=real),
    actuators: Actuators,
    activation: wp.array2d(dtype=real),
    # out
    rate: wp.array2d(dtype=real),
):
    """da/dt of all activations. Launch over (worlds, nu)."""
    w, i = wp.tid()
    if dynamics.index[i] >= 0:
        u = clamped(actuators.control[w, i], actuators.control_range, w, i)
        a = activation[w, dynamics.index[i]]
        rate[w, dynamics.index[i]] = activation_rate(dynamics, time, u, a, w, i)


@kernel
def advance(
    dynamics: Dynamics,
    time: wp.array3d(dtype=real),
    h: real,
    rate: wp.array2d(dtype=real),
    activation: wp.array2d(dtype=real),
    # out
    following: wp.array2d(dtype=real),
):
    """All activations after a step of h at these rates. Launch over (worlds, nu)."""
    w, i = wp.tid()
    if dynamics.index[i] >= 0:
        k = dynamics.index[i]
        following[w, k] = advanced(dynamics, time, h, rate[w, k], activation[w, k], w, i)
