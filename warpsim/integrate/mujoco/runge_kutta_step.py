# SPDX-License-Identifier: Apache-2.0
"""One step of MuJoCo's Runge–Kutta method (device: `kernels/integrate/mujoco/runge_kutta.py`; theory §2.1)."""

import warp as wp

from warpsim.device.per_world import assign
from warpsim.integrate.mujoco.mujoco_step import MuJoCoStep
from warpsim.kernels.forces import activation
from warpsim.kernels.integrate.mujoco import runge_kutta

SPANS = (0.5, 0.5, 1.0)  # from the start to the next stage, in steps
SHARES = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


class RungeKuttaStep(MuJoCoStep):
    """Workspace and launches of one step. Every stage has its own contact problem.

    `moving`: the rate of the displacement from q at the start.

    Energy and sensors are those of the first stage, `last_contacts` are those of the last.
    """

    def __init__(self, device_model, *arguments, **options):
        super().__init__(device_model, *arguments, **options)
        array, S, nv, na = self.dynamics.array, device_model.types.real, self.model.nv, self.model.na
        self.q_start, self.v_start = array(self.model.nq, S), array(nv, S)
        self.a, self.mean_a, self.moving, self.mean_moving = (array(nv, S) for _ in range(4))
        self.activation_start, self.rate, self.mean_rate = (array(na, S) for _ in range(3))
        solution, flags = self.solver.solution, self.collision.contacts.flags
        found = {"status": solution.status, "iterations": solution.iterations, "error": solution.momentum_error}
        found["flags"] = flags
        self.outcome = device_model.struct(runge_kutta.Outcome, **found)
        total = {name: wp.zeros_like(x) for name, x in found.items()}
        self.total = device_model.struct(runge_kutta.Outcome, **total)

    def launch(self, h: float) -> None:
        """Advance the internal state by h."""
        self._keep_start()
        for stage, share in enumerate(SHARES):
            self.reports_energy = stage == 0
            self.smooth_motion(h)
            self.contact_problem(h)
            self.solve(h)
            self._collect(h, stage, share)
            if stage < len(SPANS):
                self._move(SPANS[stage] * h)
        self._return()
        self._end(h)

    def _keep_start(self) -> None:
        assign(self.q_start, self.q)
        assign(self.v_start, self.v)
        assign(self.moving, self.v)
        if self.model.na:
            assign(self.activation_start, self.actuation.activation)

    def _collect(self, h: float, stage: int, share: float) -> None:
        """Rates of the stage, and what its solve reports."""
        launch, v, nv, first = self.dynamics.launch, self.solver.solution.v, self.model.nv, int(stage == 0)
        launch(runge_kutta.acceleration, nv, [h, self.v, v, self.a])
        launch(runge_kutta.add_outcome, None, [first, self.outcome, self.total])
        if self.measurement and first:
            self.measurement.before_commit(h, v)
        rates = [(self.moving, self.mean_moving), (self.a, self.mean_a)]
        if self.model.na:
            launch(activation.activation_rates, self.model.nu, [*self._activations(), self.rate])
            rates.append((self.rate, self.mean_rate))
        for rate, mean in rates:
            launch(runge_kutta.add_rate, rate.shape[1], [first, share, rate, mean])

    def _activations(self) -> list:
        """Tables, time constants, controls, and the activations."""
        actuation = self.actuation
        return [actuation.table, self.device_model.parameters.stored("actuator_time"), *actuation.controls()]

    def _move(self, span: float) -> None:
        """The state of the next stage, `span` from the start at the rates of the last."""
        launch, nv = self.dynamics.launch, self.model.nv
        self._move_positions(span, self.moving, self.q)
        launch(runge_kutta.next_stage, nv, [span, self.v_start, self.a, self.v])
        inputs = [self.device_model.topology, span, self.v, self.moving]
        launch(runge_kutta.position_rate, self.model.nlink, inputs)
        if self.model.na:
            inputs = [span, self.activation_start, self.rate, self.actuation.activation]
            launch(runge_kutta.next_stage, self.model.na, inputs)

    def _move_positions(self, span: float, v: wp.array, q: wp.array) -> None:
        inputs = [self.device_model.topology, span, self.q_start, v, q]
        self.dynamics.launch(self.integrate_position, self.model.nlink, inputs)

    def _return(self) -> None:
        """The state at the start of the step."""
        assign(self.q, self.q_start)
        assign(self.v, self.v_start)
        if self.model.na:
            assign(self.actuation.activation, self.activation_start)

    def _end(self, h: float) -> None:
        """The state after the step."""
        launch, v = self.dynamics.launch, self.v_next
        self._move_positions(h, self.mean_moving, self.q_next)
        launch(runge_kutta.next_stage, self.model.nv, [h, self.v_start, self.mean_a, v])
        if self.model.na:
            table, time, _, now = self._activations()
            inputs = [table, time, h, self.mean_rate, now, self.actuation.following]
            launch(activation.advance, self.model.nu, inputs)
        self.collision.look_after(h, 1.0, self.v, v)
        self.remember(h)
        for part in self.parts:
            if part is not self.measurement:
                part.before_commit(h, v)
        self.accept(h, self.q_next, v)
