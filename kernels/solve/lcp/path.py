# SPDX-License-Identifier: Apache-2.0
"""Paths of solutions of a boxed LCP that change one class at a time (Lemke's method; continuation).

The path follows the solution for the right-hand side target + θd and bounds widened by θe, from an initial θ where it
is known, to θ = 0. It uses A + εI, which has one solution per class set. The solution is linear in θ between class
changes. Each piece is factored anew from A, which is smaller than the usual tableau (three columns per friction row)
and does not accumulate rounding.
"""

import numpy as np
import warp as wp

from ...linalg.dense import lu_factor
from ...linalg.loops import row_dot, row_fill
from ...real import func, real, struct, vec2
from .classes import CLAMPING, SEPARATING, UPPER, Workspace, World, assemble, natural_residual, project, solve_classes

# d, e = ½ + the fractional parts of i φ + ψ: all different, so that no two rows change class at the same θ.
GOLDEN = 0.6180339887498949
PLASTIC = 0.7548776662466927
# θ above every event.
INFINITE = 1e30

epsilon = float(np.finfo(wp.dtype_to_numpy(real)).eps)


@struct
class Event:
    """End of a piece of a path: at θ row `row` leaves its class on `side` (−1 lower, +1 upper)."""

    theta: real
    row: int
    side: int


@func(inline=False)
def slack(work: Workspace, at: World, i: int, side: int) -> vec2:
    """Slack of row i on a side: (value at θ = 0, derivative with respect to θ), ≥ 0 on the path."""
    class_i = work.classes[at.w, i]
    if class_i == UPPER:
        return vec2(-work.w[at.w, i], -work.w_theta[at.w, i])
    if class_i != CLAMPING:
        return vec2(work.w[at.w, i], work.w_theta[at.w, i])
    u = vec2(work.hi[at.w, i], real(0.0))
    j = work.findex[at.w, i]
    if j >= 0:
        u = vec2(work.hi[at.w, i] * work.x[at.w, j], work.hi[at.w, i] * work.x_theta[at.w, j] + work.widen[at.w, i])
    x = vec2(work.x[at.w, i], work.x_theta[at.w, i])
    if side > 0:
        return u - x
    if j >= 0:
        return u + x
    return x


@func(inline=False)
def next_event(work: Workspace, at: World, theta: real, sigma: real, last: int, last_side: int) -> Event:
    """The first slack that falls to 0 as θ moves from its value in direction σ; row −1 if none does."""
    event = Event()
    event.row = -1
    nearest = real(INFINITE)
    for i in range(at.n):
        # Clamping rows have two ends (the upper bound may be infinite), the others one.
        ends = wp.int32(1)
        if work.classes[at.w, i] == CLAMPING and work.hi[at.w, i] - work.hi[at.w, i] == real(0.0):
            ends = 2
        for end in range(ends):
            side = 2 * end - 1
            if i != last or (ends == 2 and side != last_side):
                s = slack(work, at, i, side)
                if s[1] * sigma < real(0.0):
                    # Slacks that rounding has made negative end the piece at once.
                    along = wp.max(-s[0] / s[1] * sigma, theta * sigma)
                    if along < nearest:
                        nearest = along
                        event.row = i
                        event.theta = along * sigma
                        event.side = side
    return event


@func(inline=False)
def start_far(work: Workspace, at: World, attempt: int) -> real:
    """Initial point of Lemke's path; returns its θ.

    There x = 0 on rows of the first kind, with d < 0, and w = 0 on the others, with e > 0.
    """
    for i in range(at.n):
        phase = real(GOLDEN) * real(i + 1) + real(PLASTIC) * real(attempt)
        cover = real(0.5) + phase - wp.floor(phase)
        if work.findex[at.w, i] < 0:
            work.classes[at.w, i] = SEPARATING
            work.direction[at.w, i] = -cover
            work.widen[at.w, i] = real(0.0)
        else:
            work.classes[at.w, i] = CLAMPING
            work.direction[at.w, i] = real(0.0)
            work.widen[at.w, i] = cover
    return real(INFINITE)


@func(inline=False)
def start_near(work: Workspace, at: World, regularization: real) -> real:
    """Initial point near `x`: with z = x − w, x̂ = mid(l, z, u) and ŵ = x̂ − z solve the problem at the returned θ."""
    x = work.x[at.w]
    z = work.trial[at.w]
    natural_residual(work, at, regularization, work.target[at.w], x)
    for i in range(at.n):
        z[i] = x[i] - work.w[at.w, i]
    project(work, at, z, x)
    for i in range(at.n):
        work.widen[at.w, i] = real(0.0)
        work.direction[at.w, i] = (
            row_dot(at.A[i], x, 0, at.n) + regularization * x[i] - (x[i] - z[i]) - work.target[at.w, i]
        )
        if z[i] < x[i]:
            work.classes[at.w, i] = wp.where(work.findex[at.w, i] < 0, SEPARATING, -UPPER)
        elif z[i] > x[i]:
            work.classes[at.w, i] = UPPER
        else:
            work.classes[at.w, i] = CLAMPING
    return real(1.0)


@func(inline=False)
def follow_path(work: Workspace, at: World, regularization: real, start: real, pieces: int) -> int:
    """Follow the solutions of A + εI for target + θd from θ = `start` to 0; leaves the classes. Returns the pieces."""
    target = work.target[at.w]
    theta = real(start)
    sigma = real(-1.0)
    last = wp.int32(-1)
    last_side = wp.int32(0)
    for piece in range(pieces):
        m = assemble(work, at, regularization)
        lu_factor(at.K, m, work.pivots[at.w], real(epsilon) * regularization)
        row_fill(real(0.0), work.x[at.w], 0, at.n)
        row_fill(real(0.0), work.x_theta[at.w], 0, at.n)
        solve_classes(work, at, m, -1, regularization, target, real(1.0), real(0.0), 1, work.x[at.w])
        solve_classes(work, at, m, -1, regularization, target, real(0.0), real(1.0), 1, work.x_theta[at.w])
        for i in range(at.n):
            A_i = at.A[i]
            work.w[at.w, i] = row_dot(A_i, work.x[at.w], 0, at.n) + regularization * work.x[at.w, i] - target[i]
            w_theta = row_dot(A_i, work.x_theta[at.w], 0, at.n) + regularization * work.x_theta[at.w, i]
            work.w_theta[at.w, i] = w_theta - work.direction[at.w, i]
        if last >= 0:
            sigma = wp.where(slack(work, at, last, last_side)[1] > real(0.0), real(1.0), real(-1.0))
        event = next_event(work, at, theta, sigma, last, last_side)
        if event.row < 0 or (sigma < real(0.0) and event.theta <= real(0.0)):
            return piece + 1
        theta = event.theta
        last = event.row
        class_i = work.classes[at.w, last]
        if class_i == CLAMPING:
            last_side = 0
            if event.side > 0:
                work.classes[at.w, last] = UPPER
            else:
                work.classes[at.w, last] = wp.where(work.findex[at.w, last] < 0, SEPARATING, -UPPER)
        else:
            last_side = wp.where(class_i == UPPER, 1, -1)
            work.classes[at.w, last] = CLAMPING
    return pieces
