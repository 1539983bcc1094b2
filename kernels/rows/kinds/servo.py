# SPDX-License-Identifier: Apache-2.0
"""An actuator with feedback and an effort limit, or on a tendon (`kernels/forces/effort.py`); a contains the gear.

It replaces the force that `kernels/forces/actuators.py` would add.
"""

from ...forces.effort import effort_law, is_bounded, is_dissipative
from ...real import func, real, vec4
from ..table import RowState, x_itself
from .kind import Kind


@func
def law(s: RowState) -> vec4:
    """(R, v̂, lower, upper). R = 0 for an actuator on a joint whose force `actuators.py` adds."""
    found = vec4(real(0.0), real(0.0), real(0.0), real(0.0))
    if is_dissipative(s.gains):
        if s.on_tendon == 1 or is_bounded(s.low, s.high):
            implicit = effort_law(s.gains, s.phi, s.h)
            found = vec4(implicit[0], implicit[1], s.h * s.low, s.h * s.high)
    elif s.on_tendon == 1:
        force = s.gains[0] + s.gains[1] * s.phi + s.gains[2] * s.rate0
        if force < s.low:
            force = s.low
        elif force > s.high:
            force = s.high
        found = vec4(real(1.0), force, s.h * force, s.h * force)  # a NaN of the force passes through v̂
    return found


KIND = Kind(0, law, measure=x_itself)
