# SPDX-License-Identifier: Apache-2.0
"""The stages of MuJoCo's Runge–Kutta method of order 4 (theory §2.1).

Positions are those of a Runge–Kutta–Munthe-Kaas method: a stage is at q0 ⊕ u, and the rate of u is dexp(u)⁻¹ v.
"""

import warp as wp

from ...real import func, kernel, real, struct, vec3
from ...tree import joints
from ...tree.passes import Topology


@struct
class Outcome:
    """What the solves of a step report, per world."""

    status: wp.array(dtype=int)
    flags: wp.array(dtype=int)  # of the contacts
    iterations: wp.array(dtype=int)
    error: wp.array(dtype=real)


@kernel
def add_rate(
    first: int,
    share: real,
    rate: wp.array2d(dtype=real),
    # in and out
    total: wp.array2d(dtype=real),
):
    """total += share rate; `first` of 1: total = share rate. Launch over (worlds, n)."""
    w, i = wp.tid()
    before = real(0.0)
    if first == 0:
        before = total[w, i]
    total[w, i] = before + share * rate[w, i]


@kernel
def next_stage(
    span: real, start: wp.array2d(dtype=real), rate: wp.array2d(dtype=real), x: wp.array2d(dtype=real)
):  # fmt: skip
    """x = start + span rate. Launch over (worlds, n)."""
    w, i = wp.tid()
    x[w, i] = start[w, i] + span * rate[w, i]


@func
def shortest(u: vec3) -> vec3:
    """The rotation vector of the same rotation with an angle of at most π, which MuJoCo reads from the quaternions."""
    angle = wp.length(u)
    found = u
    if angle > real(wp.pi):
        turn = real(2.0) * real(wp.pi)
        found = (real(1.0) - turn * wp.round(angle / turn) / angle) * u
    return found


@func
def turn_rate(u: vec3, omega: vec3) -> vec3:
    """dexp(u)⁻¹ ω = ω + ½ u × ω + (1 − ½θ cot ½θ)/θ² u × (u × ω), θ = ‖u‖, of a rotation vector in body axes."""
    square = wp.dot(u, u)
    c = real(1.0) / real(12.0) + square / real(720.0)
    if square > real(1e-6):
        half = real(0.5) * wp.sqrt(square)
        c = (real(1.0) - half / wp.tan(half)) / square
    return omega + real(0.5) * wp.cross(u, omega) + c * wp.cross(u, wp.cross(u, omega))


@kernel
def position_rate(
    topology: Topology,
    span: real,
    v: wp.array2d(dtype=real),
    # in: that of the stage before, which led to this one in `span`; out
    rate: wp.array2d(dtype=real),
):
    """The rate of u at q0 ⊕ u with u = span rate, where the velocity is v. Launch over (worlds, links)."""
    w, l = wp.tid()
    kind = topology.link_type[l]
    n = joints.dofs(kind)
    first = topology.link_v[l] + n - 3  # of the rotation
    turning = vec3(real(0.0), real(0.0), real(0.0))
    if kind == joints.BALL or kind == joints.FREE:
        u = shortest(span * vec3(rate[w, first], rate[w, first + 1], rate[w, first + 2]))
        turning = turn_rate(u, vec3(v[w, first], v[w, first + 1], v[w, first + 2]))
    for i in range(n):
        d = topology.link_v[l] + i
        rate[w, d] = v[w, d]
        if kind == joints.BALL or (kind == joints.FREE and i >= 3):
            rate[w, d] = turning[d - first]


@kernel
def add_outcome(first: int, found: Outcome, total: Outcome):
    """Add an outcome to those of the stages before; `found` is then the sum. `first` of 1: there are none.

    Statuses and flags are joined, iterations added, of errors the largest is kept. Launch over worlds.
    """
    w = wp.tid()
    if first == 0:
        found.status[w] = found.status[w] | total.status[w]
        found.flags[w] = found.flags[w] | total.flags[w]
        found.iterations[w] = found.iterations[w] + total.iterations[w]
        found.error[w] = wp.max(found.error[w], total.error[w])
    total.status[w] = found.status[w]
    total.flags[w] = found.flags[w]
    total.iterations[w] = found.iterations[w]
    total.error[w] = found.error[w]


@kernel
def acceleration(
    h: real, v: wp.array2d(dtype=real), v_s: wp.array2d(dtype=real), a: wp.array2d(dtype=real)
):  # fmt: skip
    """a = (v_s − v)/h. Launch over (worlds, nv)."""
    w, d = wp.tid()
    a[w, d] = (v_s[w, d] - v[w, d]) / h
