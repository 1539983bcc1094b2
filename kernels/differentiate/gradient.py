# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of the backward pass of a step, one launch each; sums and norms of gradients.

A world that stands still (NONFINITE) passes no gradient. Its backward pass runs at the initial pose, at rest and from a
seed of zero, so that nothing infinite reaches the gradients that worlds share. A tree that is switched off
(body_active) hands its gradients on unchanged.
"""

import warp as wp

from ..flags import NONFINITE
from ..real import func, kernel, real, struct


@struct
class Inputs:
    """Inputs, result and seed of a step, or their gradients. The arrays for the current step keep their addresses."""

    q: wp.array2d(dtype=real)
    v: wp.array2d(dtype=real)
    control: wp.array2d(dtype=real)
    tau: wp.array2d(dtype=real)
    q_next: wp.array2d(dtype=real)
    v_next: wp.array2d(dtype=real)
    q_next_bar: wp.array2d(dtype=real)
    v_next_bar: wp.array2d(dtype=real)


@struct
class Switches:
    """Which coordinates and velocities move: those whose root body is active."""

    body_active: wp.array2d(dtype=real)
    q_body: wp.array(dtype=int)
    v_body: wp.array(dtype=int)


@func
def given_or_zero(source: wp.array2d(dtype=real), w: int, i: int) -> real:
    """An optional input; 0 where the array is empty."""
    x = real(0.0)
    if source.shape[0] > 0:
        x = source[w, i]
    return x


@func
def is_on(switches: Switches, body: int, w: int) -> bool:
    return switches.body_active[w % switches.body_active.shape[0], body] != real(0.0)


@kernel
def load_record(
    flags: wp.array(dtype=int),
    q_rest: wp.array(dtype=real),
    record: Inputs,
    switches: Switches,
    # out
    inputs: Inputs,
):
    """Load a record, whose `control` and `tau` may be empty. Launch over (worlds, the largest of nq, nv, nu)."""
    w, i = wp.tid()
    moves = flags[w] & NONFINITE == 0
    if i < inputs.q.shape[1]:
        inputs.q[w, i] = q_rest[i]
        inputs.q_next[w, i] = q_rest[i]
        inputs.q_next_bar[w, i] = real(0.0)
        if moves:
            inputs.q[w, i] = record.q[w, i]
            inputs.q_next[w, i] = record.q_next[w, i]
            if is_on(switches, switches.q_body[i], w):
                inputs.q_next_bar[w, i] = record.q_next_bar[w, i]
    if i < inputs.v.shape[1]:
        inputs.v[w, i] = real(0.0)
        inputs.tau[w, i] = real(0.0)
        inputs.v_next[w, i] = real(0.0)
        inputs.v_next_bar[w, i] = real(0.0)
        if moves:
            inputs.v[w, i] = record.v[w, i]
            inputs.tau[w, i] = given_or_zero(record.tau, w, i)
            inputs.v_next[w, i] = record.v_next[w, i]
            if is_on(switches, switches.v_body[i], w):
                inputs.v_next_bar[w, i] = record.v_next_bar[w, i]
    if i < inputs.control.shape[1]:
        inputs.control[w, i] = real(0.0)
        if moves:
            inputs.control[w, i] = given_or_zero(record.control, w, i)


@func
def add(gradient: wp.array2d(dtype=real), w: int, i: int, total: wp.array2d(dtype=real)):
    """total += gradient, where `total` is not empty."""
    if total.shape[0] > 0:
        total[w, i] = total[w, i] + gradient[w, i]


@kernel
def add_found(
    flags: wp.array(dtype=int),
    gradient: Inputs,
    switches: Switches,
    # in and out
    total: Inputs,
):
    """Add the gradients found to those of the inputs, `total` (which may be empty), and clear those of the result."""
    w, i = wp.tid()
    moves = flags[w] & NONFINITE == 0
    if i < gradient.q.shape[1]:
        if moves:
            add(gradient.q, w, i, total.q)
            if not is_on(switches, switches.q_body[i], w):
                add(total.q_next_bar, w, i, total.q)
        total.q_next_bar[w, i] = real(0.0)
    if i < gradient.v.shape[1]:
        if moves:
            add(gradient.v, w, i, total.v)
            add(gradient.tau, w, i, total.tau)
            if not is_on(switches, switches.v_body[i], w):
                add(total.v_next_bar, w, i, total.v)
        total.v_next_bar[w, i] = real(0.0)
    if i < gradient.control.shape[1]:
        if moves:
            add(gradient.control, w, i, total.control)


@kernel
def begin_wrench(
    flags: wp.array(dtype=int),
    wrench: wp.array3d(dtype=real),
    # out
    loaded: wp.array3d(dtype=real),
):
    """Load the wrenches of a record, which may be empty. Launch over (worlds, bodies, 6)."""
    w, b, i = wp.tid()
    loaded[w, b, i] = real(0.0)
    if flags[w] & NONFINITE == 0 and wrench.shape[0] > 0:
        loaded[w, b, i] = wrench[w, b, i]


@kernel
def finish_wrench(
    flags: wp.array(dtype=int),
    gradient: wp.array3d(dtype=real),
    # out
    wrench_bar: wp.array3d(dtype=real),
):
    """Add the gradient found to that of the wrenches. Launch over (worlds, bodies, 6)."""
    w, b, i = wp.tid()
    if flags[w] & NONFINITE == 0:
        wrench_bar[w, b, i] = wrench_bar[w, b, i] + gradient[w, b, i]


@kernel
def begin_memory(
    flags: wp.array(dtype=int),
    before: wp.array2d(dtype=real),
    after_bar: wp.array2d(dtype=real),
    # out
    loaded: wp.array2d(dtype=real),
    loaded_bar: wp.array2d(dtype=real),
):
    """Load an array of the state's memory, and its gradient at the end of the step."""
    w, i = wp.tid()
    loaded[w, i] = real(0.0)
    loaded_bar[w, i] = real(0.0)
    if flags[w] & NONFINITE == 0:
        loaded[w, i] = before[w, i]
        loaded_bar[w, i] = after_bar[w, i]


@kernel
def finish_memory(
    flags: wp.array(dtype=int),
    gradient: wp.array2d(dtype=real),
    # out
    before_bar: wp.array2d(dtype=real),
    after_bar: wp.array2d(dtype=real),
):
    """Add the gradient found, and clear the gradient at the end of the step."""
    w, i = wp.tid()
    after_bar[w, i] = real(0.0)
    if flags[w] & NONFINITE == 0:
        before_bar[w, i] = before_bar[w, i] + gradient[w, i]


@kernel
def norm(q_bar: wp.array2d(dtype=real), v_bar: wp.array2d(dtype=real), result: wp.array(dtype=real)):
    """Euclidean norm of a state's gradient; not finite where an entry is not. Launch over worlds."""
    w = wp.tid()
    total = wp.float64(0.0)  # float64, because the square of a large float32 overflows
    for i in range(q_bar.shape[1]):
        total += wp.float64(q_bar[w, i]) * wp.float64(q_bar[w, i])
    for i in range(v_bar.shape[1]):
        total += wp.float64(v_bar[w, i]) * wp.float64(v_bar[w, i])
    result[w] = real(wp.sqrt(total))


@kernel
def move(source: wp.array2d(dtype=real), target: wp.array2d(dtype=real)):
    """target += source, source <- 0."""
    w, i = wp.tid()
    target[w, i] = target[w, i] + source[w, i]
    source[w, i] = real(0.0)


@kernel
def differ(a: wp.array2d(dtype=real), b: wp.array2d(dtype=real), result: wp.array(dtype=int)):
    """result <- 1 where a world's values differ."""
    w, i = wp.tid()
    if a[w, i] != b[w, i]:
        result[w] = 1


@kernel
def load_rows(source: wp.array2d(dtype=real), target: wp.array2d(dtype=real)):
    """target <- source, which has one row per world or one for all. Launch over `target`."""
    w, i = wp.tid()
    target[w, i] = source[w % source.shape[0], i]


@kernel
def pass_on(stays: wp.array(dtype=int), source: wp.array2d(dtype=real), target: wp.array2d(dtype=real)):
    """target += source in the worlds that stay, and source <- 0 in all. Launch over (worlds, n)."""
    w, i = wp.tid()
    if stays[w] != 0:
        target[w, i] = target[w, i] + source[w, i]
    source[w, i] = real(0.0)
