# SPDX-License-Identifier: Apache-2.0
"""Sensor readings of a step on the backward pass: one more function of its initial state, velocity and impulses."""

from warpsim.device.per_world import assign, fill
from warpsim.differentiate.stage import Stage
from warpsim.kernels.sensors import touch_sensors
from warpsim.sensors.step_sensors import StepSensors, StepState, has_step_sensors, lack_of_gradient
from warpsim.tree.dynamics import DeviceModel


def measures(step, device_model: DeviceModel) -> bool:
    """Whether gradients flow through the sensors of such a step."""
    reactions = device_model.reactions
    return has_step_sensors(device_model.model, reactions) and lack_of_gradient(step, reactions) is None


class MeasurementAdjoint:
    """`StepSensors` on the tape of a `StepAdjoint`. It reads the frozen solution of the adjoint."""

    def __init__(self, adjoint):
        self.adjoint, step, d = adjoint, adjoint.step, adjoint.device_model
        self.sensors = StepSensors(adjoint.dynamics, step.collision, step.scalar_rows, d.reactions, adjoint.lines)
        t, array, C, n = d.types, adjoint.dynamics.array, step.collision.capacity, step.scalar_rows.count
        self.link_V = array(d.model.nlink, t.vec6)
        self.v_c, self.gamma = (array(step.collision.slots, t.vec3) for _ in range(2))
        self.point, self.frame = adjoint.point, adjoint.frame
        if adjoint.follows_contacts:
            self.point, self.frame = array(C, t.vec3), array(C, t.mat33)
        self.rate, self.rate0, self.row_gamma = (array(n, t.real) for _ in range(3))
        lines = self.sensors.lines
        adjoint.owners += [self, self.sensors, self.sensors.actuators, *(lines.owners() if lines else ())]
        self.bar, values, none = (step.dynamics.array(self.sensors.data.shape[1], t.real) for _ in range(3))
        adjoint.carry("measured", values, self.bar, none)  # no step reads the measurements of the step before

    def clear(self) -> None:
        """Clear the arrays that are summed up, before the step's equations are evaluated."""
        self.sensors.clear()
        for array in (self.v_c, self.rate, self.rate0):
            if array.size:
                fill(array)

    def stages(self) -> list[Stage]:
        """The measurement, as a stage after those that find the velocity."""
        return [Stage(self._record, lambda h: assign(self.sensors.data.grad, self.bar))]

    def _record(self, h: float) -> None:
        a = self.adjoint
        if self.sensors.impulses:
            self._record_impulses(h)
        a.dynamics.velocity(a.v0, self.link_V)
        if a.follows_contacts:
            between = [a.moved, a.point, a.frame, a.point_between, a.frame_between, self.point, self.frame]
            inputs = [a.step.collision.contacts, *between]
            a.dynamics.launch(touch_sensors.moved_contacts, a.step.collision.capacity, inputs)
        x = StepState(a, a.measured_velocity, a.phi, self.point, self.frame, self.gamma, self.row_gamma)
        self.sensors.measure(h, x, self.link_V)

    def _record_impulses(self, h: float) -> None:
        """γ of contacts and rows by their laws."""
        a, step = self.adjoint, self.adjoint.step
        a.record_rates(a.v, self.v_c)
        a.contact.record_law(h, self.v_c, self.gamma)
        lead, rates = a._row_lead(h)[1], (self.rate, self.rate0)
        a.rows.record_impulses(h, step.options.sigma, lead, a.v0, a.v, a.actuators, rates, self.row_gamma)
