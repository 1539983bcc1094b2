# SPDX-License-Identifier: Apache-2.0
"""Jacobians of one step by reverse passes, one per row, for all integrators, solvers and parameters of a tape.

The step is made and repeated once. Each row of the Jacobian then takes a seed, one linear solve with the factor of the
repeated step, and the reverse of its residual (`implicit.py`); one graph is replayed for every row. Where q' = q ⊕ h v
follows from v', only the nv rows of v' are found so. With P = ∂q'/∂v',

    ∂q'/∂x = ∂q'/∂x at fixed v' + P ∂v'/∂x.

Cost: one repeated step and nv reverse passes of all worlds, or 2 nv where q' does not follow from v'
(`StepAdjoint.parts_position`). Rows of activations are reverse passes of their own equations alone. `linearize.py` is
faster where it applies.
"""

import warp as wp

from warpsim.device.copies import launch
from warpsim.device.per_world import assign, fill
from warpsim.differentiate.implicit import StepRecord
from warpsim.differentiate.kept import KeptParameters
from warpsim.differentiate.tangent_tables import tangent_tables
from warpsim.differentiate.taped import scalars
from warpsim.kernels.differentiate import mocap_adjoint, reverse_jacobian
from warpsim.tree.dynamics import BLOCK


class ReverseLinearizer:
    """Tables, workspace and launches. `stepper`: of a simulator made with `requires_grad=True`."""

    def __init__(self, stepper):
        self.stepper, self.nv = stepper, stepper.model.nv
        self.tangents = tangent_tables(stepper.device_model)
        self.start, self.after = stepper.blank_state(), stepper.blank_state()
        self.control, self.tau = (self._zeros(n) for n in (stepper.model.nu, self.nv))
        self.row = wp.zeros(stepper.worlds, dtype=wp.int32, device=stepper.device)  # the row that the graphs are at
        self.activation_row = wp.zeros_like(self.row)  # the same among the rows of activations
        self.P = self._zeros(self.nv, self.nv)
        self._rows: dict[tuple, dict[str, wp.array]] = {}

    def fill(self, h: float, state, control, tau, out) -> None:
        """Write the Jacobians of a step of h into the arrays of a `Linearization`."""
        stepper = self.stepper
        stepper.compile(back=True)
        stepper.compile_once("rows", lambda: self._launch(reverse_jacobian.next_row, stepper.worlds, [self.row]))
        parameters = {name: stepper.parameters[name] for name in out.parameters}
        saved = {name: wp.clone(getattr(stepper.diagnostics, name)) for name in stepper.diagnostics.NAMES}
        kept = self._hold_gradients()
        for array, source in ((self.control, control), (self.tau, tau)):
            fill(array) if source is None else assign(array, source)
        self._load(h, state)
        self._find_rows(h, self._workspace(out), parameters)
        self._store(out)
        for name, array in kept.items():
            assign(stepper.parameters[name].grad, array)
        for name, array in saved.items():
            assign(getattr(stepper.diagnostics, name), array)

    def _load(self, h: float, state) -> None:
        """Make the step, and load it into the adjoint."""
        stepper, start, after = self.stepper, self.start, self.after
        start.assign(state)
        stepper.set_forces(self.control, self.tau, None)
        stepper.load(start)
        stepper.advance(h)
        stepper.unload(after)
        used = {"control": self.control, "tau": self.tau, "wrench": None}
        record = StepRecord(h, start, after, self.control, self.tau, None, used, KeptParameters(stepper.parameters))
        record.v_contact = stepper.step.solver.solution.v
        stepper.adjoint.load(record)

    def _workspace(self, out) -> dict[str, wp.array]:
        """Arrays for the rows, by name. A request keeps its arrays, so that graphs can be replayed."""
        shapes = {name: array.shape[1:] for name, array in out.arrays().items()}
        key = tuple(shapes.items())
        if key not in self._rows:
            self._rows[key] = {name: self._zeros(*shape) for name, shape in shapes.items()}
        self.rows = self._rows[key]
        return self.rows

    def _find_rows(self, h: float, rows: dict[str, wp.array], parameters: dict[str, wp.array]) -> None:
        stepper, adjoint, nv = self.stepper, self.stepper.adjoint, self.nv
        run, gradients = stepper.replay.run, adjoint.parameter_gradients()
        run(("repeat", h), lambda: adjoint.repeat(h))
        fill(self.row)
        options = {"regular": adjoint.contact.is_regular()}
        key = (h, id(rows), options["regular"], *gradients)
        if adjoint.parts_position:
            for _ in range(nv):
                run(("position row", *key), lambda: self._position_row(h, rows))
        else:
            for _ in range(nv):
                run(("row of q", *key), lambda: self._row(h, rows, parameters, by_position=True, **options))
        for _ in range(nv):
            run(("row of v", *key), lambda: self._row(h, rows, parameters, **options))
        if self.stepper.model.na:
            fill(self.activation_row)
            for _ in range(self.stepper.model.na):
                run(("row of activation", *key), lambda: self._activation_row(h, rows, parameters))

    def _position_row(self, h: float, rows: dict[str, wp.array]) -> None:
        """The next row of q' at fixed v', and the next row of P."""
        adjoint = self.stepper.adjoint
        self._seed()
        adjoint.reverse_position(h)
        self._gather_state(rows["A"])
        self._gather(adjoint.end_velocity.grad, self.P)
        self._launch(reverse_jacobian.next_row, self.stepper.worlds, [self.row])

    def _row(self, h: float, rows: dict[str, wp.array], parameters: dict[str, wp.array], **options) -> None:
        """The next row; `options` as in `StepAdjoint.reverse`."""
        adjoint = self.stepper.adjoint
        for array in parameters.values():
            fill(array.grad)
        self._seed()
        if adjoint.uses_up_repeat:
            adjoint.repeat(h)
        adjoint.reverse(h, **options)
        self._gather_row(rows, parameters)

    def _activation_row(self, h: float, rows: dict[str, wp.array], parameters: dict[str, wp.array]) -> None:
        """The next row of an activation."""
        stepper, bar = self.stepper, self.stepper.adjoint.actuation.following_bar
        for array in parameters.values():
            fill(array.grad)
        inputs = [self.activation_row, self.after.memory["flags"], bar]
        self._launch(reverse_jacobian.seed_activation, stepper.worlds, inputs)
        stepper.adjoint.reverse_activation(h)
        self._gather_row(rows, parameters)
        self._launch(reverse_jacobian.next_row, stepper.worlds, [self.activation_row])

    def _gather_row(self, rows: dict[str, wp.array], parameters: dict[str, wp.array]) -> None:
        adjoint = self.stepper.adjoint
        found = {name: array.grad for name, array in parameters.items()}
        self._gather_state(rows["A"])
        if "mocap" in rows:
            d = adjoint.device_model
            inputs = [self.row, d.mocap_link, d.link_pose, d.link_pose.grad, self.after.memory["flags"], rows["mocap"]]
            self._launch(mocap_adjoint.gather, (self.stepper.worlds, self.stepper.model.nmocap), inputs)
        found |= {"B": adjoint.control.grad, "tau": adjoint.tau.grad}
        for name, bar in found.items():
            if name in rows and bar.size:
                self._gather(scalars(bar).reshape((self.stepper.worlds, -1)), rows[name])
        self._launch(reverse_jacobian.next_row, self.stepper.worlds, [self.row])

    def _seed(self) -> None:
        inputs, adjoint = self.stepper.adjoint.inputs, self.stepper.adjoint
        arguments = [self.row, self.tangents, self.after.q, self.after.memory["flags"], adjoint.switches]
        self._launch(reverse_jacobian.seed, self.stepper.worlds, [*arguments, inputs.q_next_bar, inputs.v_next_bar])

    def _gather_state(self, A: wp.array) -> None:
        adjoint = self.stepper.adjoint
        inputs = [self.row, self.tangents, adjoint.q, adjoint.q.grad, adjoint.v0.grad]
        inputs += [self.after.memory["flags"], adjoint.switches, A]
        self._launch(reverse_jacobian.gather_state, (self.stepper.worlds, self.nv), inputs)
        if self.stepper.model.na:
            self._gather(adjoint.actuation.activation.grad, A, first=2 * self.nv)

    def _gather(self, bar: wp.array, jacobian: wp.array, first: int = 0) -> None:
        inputs = [self.row, bar, self.after.memory["flags"], first, jacobian]
        self._launch(reverse_jacobian.gather, bar.shape, inputs)

    def _store(self, out) -> None:
        """Copy the rows found, and add to those of q' what they depend on through v'."""
        for name, array in out.arrays().items():
            if not array.size:
                continue
            rows = self.rows[name]
            if self.stepper.adjoint.parts_position:
                self._launch(reverse_jacobian.add_velocity_rows, array.shape, [self.P, rows, array])
            else:
                assign(array, rows)

    def _hold_gradients(self) -> dict[str, wp.array]:
        """Copies of the parameter gradients that come from the user's own tapes."""
        parameters = self.stepper.parameters
        return {
            name: wp.clone(parameters[name].grad) for name in parameters.expanded if parameters[name].grad is not None
        }

    def _zeros(self, *shape) -> wp.array:
        stepper = self.stepper
        return wp.zeros((stepper.worlds, *shape), dtype=stepper.device_model.types.real, device=stepper.device)

    def _launch(self, kernel, dim, inputs) -> None:
        launch(kernel, self.stepper.device_model.types.real, dim, inputs, device=self.stepper.device, block_dim=BLOCK)
