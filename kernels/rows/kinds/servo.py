"""An actuator with feedback and an effort limit, or on a tendon (`kernels/forces/effort.py`); the gear stands in a.

It replaces the force that `kernels/forces/actuators.py` would add. Its slopes: `kernels/differentiate/actuator_slopes.py`.
"""

from ...forces.actuators import actuator_law, clamped
from ...forces.effort import effort_law, is_bounded, is_dissipative
from ...real import func, real, vec4
from ..table import Constants, Coordinates, RowState, Table
from .kind import Kind


@func
def measure(table: Table, constants: Constants, at: Coordinates, w: int, k: int) -> vec4:
    """The length."""
    return vec4(at.x, real(1.0), real(0.0), real(0.0))


@func
def law(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec4:
    """(R, v̂, lower, upper); R = 0 where `actuators.py` adds the force of an actuator on a joint."""
    actuator = table.element[k]
    on_tendon = table.entry[k] == 1
    gains = actuator_law(
        constants.actuator_gain,
        constants.actuator_bias,
        constants.control_range,
        constants.control,
        w,
        actuator,
    )
    limits = w % constants.force_range.shape[0]
    low = constants.force_range[limits, actuator, 0]
    high = constants.force_range[limits, actuator, 1]
    found = vec4(real(0.0), real(0.0), real(0.0), real(0.0))
    if is_dissipative(gains):
        if on_tendon or is_bounded(low, high):
            implicit = effort_law(gains, s.phi, s.h)
            found = vec4(implicit[0], implicit[1], s.h * low, s.h * high)
    elif on_tendon:
        total = gains[0] + gains[1] * s.phi + gains[2] * s.rate0
        force = clamped(total, constants.force_range, w, actuator)
        found = vec4(real(1.0), force, s.h * force, s.h * force)  # a NaN comes out through v̂
    return found


KIND = Kind(0, law, measure=measure)
