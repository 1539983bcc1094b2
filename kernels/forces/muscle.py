# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's force law of a muscle: a force–length–velocity curve times the drive, and a passive force (theory §8).

The length ℓ of the actuator is scaled so that its length range becomes `range` in units of the optimal length L0. With
V = velocity/(L0 v_max):

    L = r0 + (ℓ - ℓ0)/L0,   L0 = (ℓ1 - ℓ0)/(r1 - r0),   force = -F (FL(L) FV(V) drive + FP(L))

The force is taken at the beginning of a step and is constant within it.
"""

import warp as wp

from ..real import func, kernel, real, struct, vec2
from .activation import LEAST

# Rows of a muscle's constants.
ACTIVE = wp.constant(0)  # the force that the drive scales
PASSIVE = wp.constant(1)

# Columns of its curves.
LOW = wp.constant(0)  # r0, in units of L0
HIGH = wp.constant(1)  # r1
L_MIN = wp.constant(2)  # it pulls only between these lengths
L_MAX = wp.constant(3)
V_MAX = wp.constant(4)  # [1/s] maximal speed of shortening, in units of L0
FP_MAX = wp.constant(5)  # passive force at L_MAX, in units of F
FV_MAX = wp.constant(6)  # active force when lengthening fast, in units of F


@struct
class Muscles:
    """The degrees of freedom of actuators on joints and fixed tendons; shared by all worlds."""

    size: wp.array(dtype=int)  # (nu,) number of degrees of freedom in the actuator's length
    dof: wp.array2d(dtype=int)  # (nu, width)
    q: wp.array2d(dtype=int)  # (nu, width)
    moment: wp.array2d(dtype=real)  # (nu, width)


@func
def length_sum(muscles: Muscles, q: wp.array2d(dtype=real), w: int, i: int) -> real:
    total = real(0.0)
    for k in range(muscles.size[i]):
        total += muscles.moment[i, k] * q[w, muscles.q[i, k]]
    return total


@func
def velocity_sum(muscles: Muscles, v: wp.array2d(dtype=real), w: int, i: int) -> real:
    total = real(0.0)
    for k in range(muscles.size[i]):
        total += muscles.moment[i, k] * v[w, muscles.dof[i, k]]
    return total


@kernel(twin=True)
def actuator_lengths(
    muscles: Muscles,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
):
    """Length and velocity of actuators on hinges, slides and fixed tendons, gear included. Entries of other actuators
    stay. Launch over (worlds, nu)."""
    w, i = wp.tid()
    if muscles.size[i] > 0:
        length[w, i] = length_sum(muscles, q, w, i)
        velocity[w, i] = velocity_sum(muscles, v, w, i)


@func
def scaled(low: real, high: real, least: real, most: real, length: real) -> vec2:
    """(L, L0): a length whose range [least, most] maps to [low, high] in units of L0, and L0."""
    L0 = (most - least) / wp.max(real(LEAST), high - low)
    return vec2(low + (length - least) / wp.max(real(LEAST), L0), L0)


@func
def force_length(L: real, l_min: real, l_max: real) -> real:
    """FL: 1 at L = 1, parabolas down to 0 at l_min and l_max, and 0 beyond."""
    y = real(0.0)
    if L >= l_min and L <= l_max:
        a = real(0.5) * (l_min + real(1.0))
        b = real(0.5) * (real(1.0) + l_max)
        if L <= a:
            x = (L - l_min) / wp.max(real(LEAST), a - l_min)
            y = real(0.5) * x * x
        elif L <= real(1.0):
            x = (real(1.0) - L) / wp.max(real(LEAST), real(1.0) - a)
            y = real(1.0) - real(0.5) * x * x
        elif L <= b:
            x = (L - real(1.0)) / wp.max(real(LEAST), b - real(1.0))
            y = real(1.0) - real(0.5) * x * x
        else:
            x = (l_max - L) / wp.max(real(LEAST), l_max - b)
            y = real(0.5) * x * x
    return y


@func
def force_velocity(V: real, fv_max: real) -> real:
    """FV: 0 for V ≤ −1, 1 at rest, fv_max for V ≥ fv_max − 1."""
    end = fv_max - real(1.0)
    y = fv_max
    if V <= real(-1.0):
        y = real(0.0)
    elif V <= real(0.0):
        y = (V + real(1.0)) * (V + real(1.0))
    elif V <= end:
        y = fv_max - (end - V) * (end - V) / wp.max(real(LEAST), end)
    return y


@func
def force_velocity_slope(V: real, fv_max: real) -> real:
    """dFV/dV."""
    end = fv_max - real(1.0)
    y = real(0.0)
    if V > real(-1.0):
        if V <= real(0.0):
            y = real(2.0) * (V + real(1.0))
        elif V <= end:
            y = real(2.0) * (end - V) / wp.max(real(LEAST), end)
    return y


@func
def passive(L: real, l_max: real, fp_max: real) -> real:
    """FP: 0 up to L = 1, a parabola up to the middle between 1 and l_max, and linear beyond."""
    width = real(0.5) * (real(1.0) + l_max) - real(1.0)
    x = (L - real(1.0)) / wp.max(real(LEAST), width)
    y = real(0.0)
    if L > real(1.0):
        if L <= real(1.0) + width:
            y = fp_max * real(0.5) * x * x
        else:
            y = fp_max * (x - real(0.5))
    return y


@kernel(twin=True)
def muscle_force(
    peak: wp.array3d(dtype=real),  # (…, nu, 2) F of the active and of the passive force [N, N m]; NaN: not a muscle
    curve: wp.array4d(dtype=real),  # (…, nu, 2, 7)
    length_range: wp.array3d(dtype=real),  # (…, nu, 2)
    drive: wp.array2d(dtype=real),
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    # in and out
    law: wp.array3d(dtype=real),
):
    """Adds the forces of muscles to their laws; a NaN is passed on. Launch over (worlds, nu)."""
    w, i = wp.tid()
    p = w % peak.shape[0]
    c = w % curve.shape[0]
    r = w % length_range.shape[0]
    least = length_range[r, i, 0]
    most = length_range[r, i, 1]
    pull = real(0.0)
    active = peak[p, i, ACTIVE]
    if active == active:
        at = scaled(curve[c, i, ACTIVE, LOW], curve[c, i, ACTIVE, HIGH], least, most, length[w, i])
        V = velocity[w, i] / wp.max(real(LEAST), at[1] * curve[c, i, ACTIVE, V_MAX])
        FL = force_length(at[0], curve[c, i, ACTIVE, L_MIN], curve[c, i, ACTIVE, L_MAX])
        FV = force_velocity(V, curve[c, i, ACTIVE, FV_MAX])
        pull = -active * FL * FV * drive[w, i] + (length[w, i] + velocity[w, i]) * real(0.0)
    resting = peak[p, i, PASSIVE]
    if resting == resting:
        L = scaled(curve[c, i, PASSIVE, LOW], curve[c, i, PASSIVE, HIGH], least, most, length[w, i])[0]
        pull += -resting * passive(L, curve[c, i, PASSIVE, L_MAX], curve[c, i, PASSIVE, FP_MAX])
    law[w, i, 0] += pull


@kernel(twin=True)
def muscle_slopes(
    peak: wp.array3d(dtype=real),
    curve: wp.array4d(dtype=real),
    length_range: wp.array3d(dtype=real),
    drive: wp.array2d(dtype=real),
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    # out
    slope: wp.array2d(dtype=real),
):
    """Derivative of the force of every actuator with respect to its velocity through `muscle_force`; 0 for others.

    Launch over (worlds, nu).
    """
    w, i = wp.tid()
    p = w % peak.shape[0]
    c = w % curve.shape[0]
    r = w % length_range.shape[0]
    found = real(0.0)
    active = peak[p, i, ACTIVE]
    if active == active:
        low = curve[c, i, ACTIVE, LOW]
        high = curve[c, i, ACTIVE, HIGH]
        at = scaled(low, high, length_range[r, i, 0], length_range[r, i, 1], length[w, i])
        unit = wp.max(real(LEAST), at[1] * curve[c, i, ACTIVE, V_MAX])
        FL = force_length(at[0], curve[c, i, ACTIVE, L_MIN], curve[c, i, ACTIVE, L_MAX])
        slope_V = force_velocity_slope(velocity[w, i] / unit, curve[c, i, ACTIVE, FV_MAX])
        found = -active * FL * slope_V * drive[w, i] / unit
    slope[w, i] = found
