"""Rows of actuators, see `constraints/effort.py`: of those with feedback and an effort limit, and of all on tendons. They
replace the force that `actuators.py` would add. The gear stands in the row's constant Jacobian.
"""

import warp as wp

from ..forces.actuators import actuator_law, clamped
from ..forces.effort import effort_law, is_bounded, is_dissipative
from ..laws.bounds import box_impulse
from ..real import func, kernel, real, struct, vec3, vec4
from .joint_rows import Rows


@struct
class EffortTable:
    """Row i here is row `first + i` of `Rows`; shared by all worlds."""

    first: int
    actuator: wp.array(dtype=int)  # (n,)
    tendon: wp.array(dtype=int)  # (n,) -1: a joint's
    q: wp.array2d(dtype=int)  # (n, width) coordinate of each dof of the support


@func
def row_sum(rows: Rows, index: wp.array2d(dtype=int), k: int, i: int, x: wp.array2d(dtype=real), w: int) -> real:
    """Σ_j J[k, j] x[index[i, j]]: length or rate of an actuator."""
    total = real(0.0)
    for j in range(rows.support_size[k]):
        total += rows.J[w, k, j] * x[w, index[i, j]]
    return total


@func
def row_law(
    table: EffortTable,
    rows: Rows,
    s: vec3,
    force_range: wp.array3d(dtype=real),
    q: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    h: real,
    w: int,
    i: int,
) -> vec4:
    """(R, v̂, lower, upper); R = 0 where `actuators.py` adds the force of an actuator on a joint."""
    k = table.first + i
    actuator = table.actuator[i]
    limits = w % force_range.shape[0]
    low = force_range[limits, actuator, 0]
    high = force_range[limits, actuator, 1]
    length = row_sum(rows, table.q, k, i, q, w)
    law = vec4(real(0.0), real(0.0), real(0.0), real(0.0))
    if is_dissipative(s):
        if table.tendon[i] >= 0 or is_bounded(low, high):
            implicit = effort_law(s, length, h)
            law = vec4(implicit[0], implicit[1], h * low, h * high)
    elif table.tendon[i] >= 0:
        total = s[0] + s[1] * length + s[2] * row_sum(rows, rows.support, k, k, v0, w)
        force = clamped(total, force_range, w, actuator)
        law = vec4(real(1.0), force, h * force, h * force)  # a NaN comes out through v̂
    return law


@kernel
def effort_rows(
    table: EffortTable,
    gain: wp.array3d(dtype=real),
    bias: wp.array3d(dtype=real),
    control_range: wp.array3d(dtype=real),
    force_range: wp.array3d(dtype=real),
    control: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    h: real,
    # out
    rows: Rows,
):
    """R, v̂ and bounds of every row. Launch over (worlds, rows of the table)."""
    w, i = wp.tid()
    k = table.first + i
    s = actuator_law(gain, bias, control_range, control, w, table.actuator[i])
    law = row_law(table, rows, s, force_range, q, v0, h, w, i)
    rows.R[w, k] = law[0]
    rows.v_hat[w, k] = law[1]
    rows.lower[w, k] = law[2]
    rows.upper[w, k] = law[3]


@kernel(taped=True)
def effort_residual(
    table: EffortTable,
    rows: Rows,
    gain: wp.array3d(dtype=real),
    bias: wp.array3d(dtype=real),
    control_range: wp.array3d(dtype=real),
    force_range: wp.array3d(dtype=real),
    control: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    h: real,
    # out
    r: wp.array2d(dtype=real),
):
    """r -= Jᵀγ; which rows are active is frozen. Launch over (worlds, rows of the table)."""
    w, i = wp.tid()
    k = table.first + i
    if rows.R[w, k] > real(0.0):
        s = actuator_law(gain, bias, control_range, control, w, table.actuator[i])
        law = row_law(table, rows, s, force_range, q, v0, h, w, i)
        rate = row_sum(rows, rows.support, k, k, v, w)
        gamma = box_impulse((law[1] - rate) / law[0], law[2], law[3])
        for j in range(rows.support_size[k]):
            wp.atomic_add(r, w, rows.support[k, j], -rows.J[w, k, j] * gamma)
