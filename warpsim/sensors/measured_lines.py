# SPDX-License-Identifier: Apache-2.0
"""Lengths and rates of lines for sensors: at a state from a separate `Lines`, in a step from those of the step. May be
taped."""

import warp as wp

from warpsim.device.recording import tape_paused
from warpsim.forces.lines import Lines
from warpsim.kernels.sensors import line_sensors
from warpsim.tree.dynamics import Dynamics


class MeasuredLines:
    """`length`, `rate` (worlds, lines) [m, m/s] and `moment`.

    `source`: a `Lines`, which may be on a tape. None: `measure` launches its own.
    """

    def __init__(self, dynamics: Dynamics, source=None):
        self.dynamics, self.owned = dynamics, source is None
        self.lines = Lines(dynamics.device_model, dynamics) if source is None else source
        self.tables = self.lines.tables
        self.length, self.moment = self.lines.length, self.lines.moment
        self.rate = dynamics.array(self.length.shape[1], dynamics.device_model.types.real)

    def owners(self) -> list:
        """The objects whose arrays are written to."""
        return [self, self.lines] if self.owned else [self]

    def compute_rates(self, v: wp.array) -> None:
        """Compute the rates at v, after the kinematics."""
        if self.owned:
            with tape_paused():
                self.lines.choose()
            self.lines.compute_lengths()
        inputs = [self.lines.columns, self.moment, v, self.rate]
        self.dynamics.launch(line_sensors.line_rates, self.rate.shape[1], inputs)

    def pulling(self):
        """The table `transmission.Motors` of all actuators on lines."""
        model = self.dynamics.model
        return self.lines.motor_table([a for a in range(model.nu) if self.tables.line_of(a)[0] >= 0])

    def add_pulls(self, motors, dof: wp.array, adr: wp.array, force: wp.array, data: wp.array) -> None:
        """Add the forces of these actuators on degrees of freedom to columns of `data`."""
        inputs = [motors, dof, adr, force, self.moment, data]
        self.dynamics.launch(line_sensors.add_pulls, dof.shape[0], inputs)

    def row(self, kind: str, index: int) -> tuple[int, float]:
        """(line, gear) of a tendon or an actuator; (−1, 0) if it is on no line."""
        if kind == "tendon":
            line = self.tables.line_of_tendon(index)
            return line, float(line >= 0)
        return self.tables.line_of(index) if kind == "actuator" else (-1, 0.0)
