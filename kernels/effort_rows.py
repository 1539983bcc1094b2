"""Rows of actuators, see `constraints/effort.py`: of those with feedback and an effort limit, and of all on tendons. They
replace the force that `actuation.py` would add. The gear stands in the row's constant Jacobian.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels import actuation, rows
from warpsim.kernels.cache import cached
from warpsim.kernels.constraints import box, effort
from warpsim.kernels.precision import module_name, types


@wp.struct
class EffortTable:
    """Row i here is row `first + i` of `Rows`; shared by all worlds."""

    first: int
    actuator: wp.array(dtype=int)  # (n,)
    tendon: wp.array(dtype=int)  # (n,) -1: a joint's
    q: wp.array2d(dtype=int)  # (n, width) coordinate of each dof of the support


@cached
def build(S, grad: bool = False) -> SimpleNamespace:
    """Kernel `effort_rows`, function `row_sum`, and with `grad` the taped kernel `effort_residual`."""
    Rows, f_actuation, f_effort = rows.build(S).Rows, actuation.build(S, grad), effort.build(S)
    actuator_law, clamped, effort_law = f_actuation.actuator_law, f_actuation.clamped, f_effort.effort_law
    is_bounded, is_dissipative, vec4 = f_effort.is_bounded, f_effort.is_dissipative, types(S).vec4
    vec3 = types(S).vec3
    box_impulse = box.build(S).box_impulse
    module = module_name("effort_rows", S, grad)

    @wp.func
    def row_sum(rows: Rows, index: wp.array2d(dtype=int), k: int, i: int, x: wp.array2d(dtype=S), w: int) -> S:
        """Σ_j J[k, j] x[index[i, j]]: length or rate of an actuator."""
        total = S(0.0)
        for j in range(rows.support_size[k]):
            total += rows.J[w, k, j] * x[w, index[i, j]]
        return total

    @wp.func
    def row_law(
        table: EffortTable,
        rows: Rows,
        s: vec3,
        force_range: wp.array3d(dtype=S),
        q: wp.array2d(dtype=S),
        v0: wp.array2d(dtype=S),
        h: S,
        w: int,
        i: int,
    ) -> vec4:
        """(R, v̂, lower, upper); R = 0 where `actuation.py` adds the force of an actuator on a joint."""
        k = table.first + i
        actuator = table.actuator[i]
        limits = w % force_range.shape[0]
        low = force_range[limits, actuator, 0]
        high = force_range[limits, actuator, 1]
        length = row_sum(rows, table.q, k, i, q, w)
        law = vec4(S(0.0), S(0.0), S(0.0), S(0.0))
        if is_dissipative(s):
            if table.tendon[i] >= 0 or is_bounded(low, high):
                implicit = effort_law(s, length, h)
                law = vec4(implicit[0], implicit[1], h * low, h * high)
        elif table.tendon[i] >= 0:
            total = s[0] + s[1] * length + s[2] * row_sum(rows, rows.support, k, k, v0, w)
            force = clamped(total, force_range, w, actuator)
            law = vec4(S(1.0), force, h * force, h * force)  # a NaN comes out through v̂
        return law

    @wp.kernel(module=module, enable_backward=False)
    def effort_rows(
        table: EffortTable,
        gain: wp.array3d(dtype=S),
        bias: wp.array3d(dtype=S),
        control_range: wp.array3d(dtype=S),
        force_range: wp.array3d(dtype=S),
        control: wp.array2d(dtype=S),
        q: wp.array2d(dtype=S),
        v0: wp.array2d(dtype=S),
        h: S,
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

    kernels = {"effort_rows": effort_rows, "row_sum": row_sum}
    if grad:

        @wp.kernel(module=module)
        def effort_residual(
            table: EffortTable,
            rows: Rows,
            gain: wp.array3d(dtype=S),
            bias: wp.array3d(dtype=S),
            control_range: wp.array3d(dtype=S),
            force_range: wp.array3d(dtype=S),
            control: wp.array2d(dtype=S),
            q: wp.array2d(dtype=S),
            v0: wp.array2d(dtype=S),
            v: wp.array2d(dtype=S),
            h: S,
            # out
            r: wp.array2d(dtype=S),
        ):
            """r -= Jᵀγ; which rows are active is frozen. Launch over (worlds, rows of the table)."""
            w, i = wp.tid()
            k = table.first + i
            if rows.R[w, k] > S(0.0):
                s = actuator_law(gain, bias, control_range, control, w, table.actuator[i])
                law = row_law(table, rows, s, force_range, q, v0, h, w, i)
                rate = row_sum(rows, rows.support, k, k, v, w)
                gamma = box_impulse((law[1] - rate) / law[0], law[2], law[3])
                for j in range(rows.support_size[k]):
                    wp.atomic_add(r, w, rows.support[k, j], -rows.J[w, k, j] * gamma)

        kernels["effort_residual"] = effort_residual
    return SimpleNamespace(**kernels)
