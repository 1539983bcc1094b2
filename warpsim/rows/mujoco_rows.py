# SPDX-License-Identifier: Apache-2.0
"""Host side of the scalar rows under MuJoCo's constraint law (device: `kernels/rows/soft_rows.py`)."""

from warpsim.device.per_world import fill
from warpsim.forces.lines import Lines, Tables
from warpsim.kernels.rows import soft_rows, table
from warpsim.kernels.rows.kinds.kind import ANGULAR
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.mujoco_weights import Weights, inverse_weights
from warpsim.rows.scalar_rows import Row, ScalarRows
from warpsim.tree.dynamics import DeviceModel, Dynamics

PARAMETERS = (
    *("joint_solref", "joint_solimp", "joint_margin", "joint_friction_solref", "joint_friction_solimp"),
    *("tendon_solref", "tendon_solimp", "tendon_margin", "tendon_friction_solref", "tendon_friction_solimp"),
    *("constraint_solref", "constraint_solimp", "constraint_torquescale"),
)


class MuJoCoRows(ScalarRows):
    """The scalar rows of all worlds under MuJoCo's law: limits, friction loss and equalities."""

    looks_ahead = False

    def __init__(self, device_model: DeviceModel, dynamics: Dynamics, lines: Lines | None = None):
        super().__init__(device_model, dynamics, (), lines=lines, follow_bend=False, springs=False)
        self.lines = lines
        found, model = self.row_list, device_model.model
        begin = {(row.owner, row.element): k for k, row in reversed(list(enumerate(found))) if row.between}
        first = [begin.get((row.owner, row.element), k) for k, row in enumerate(found)]
        self.bodies = len(begin)  # number of connects and welds
        weights = inverse_weights(model, None if lines is None else lines.moment_arms_at(model.q0))
        tables = {
            "weight": [self._weight(weights, row) for row in found],
            "first": first,
            "size": [first.count(k) for k in first],
            "bodies": sorted(begin.values()),
            "refsafe": int(model.mujoco.refsafe),
        }
        made = device_model.struct(soft_rows.Soft, **tables)
        self.tables = {name: getattr(made, name) for name in tables}
        # J M⁻¹Jᵀ, where the option diagexact asks for it
        self.exact = dynamics.array(self.count if model.mujoco.diagexact else 0, device_model.types.real)
        self.shift = dynamics.array(self.count if self.bodies else 0, device_model.types.real)  # J̇ v0

    def _find_rows(self, tables: Tables | None) -> list[Row]:
        """See `ScalarRows`. Supports of rows between bodies contain the degrees of freedom that move both."""
        model, found = self.device_model.model, super()._find_rows(tables)
        for row in found:
            row.leads = 0
            if row.between:
                ends = [set(model.ancestors(link)) if link >= 0 else set() for link in row.link]
                row.support, row.rigid = sorted(ends[0] | ends[1]), False
                row.a, row.b = ([float(d in end) for d in row.support] for end in ends)
        return found

    def _weight(self, weights: Weights, row: Row) -> float:
        """MuJoCo's approximate inverse mass of a row."""
        model, i = self.device_model.model, row.element
        if row.owner == table.TENDON:
            return float(weights.tendon[i])
        if row.owner == table.JOINT:
            return float(weights.dof[i if row.kind == "friction" else model.joint_v[i]])
        if row.between:
            column = int(row.traits & int(ANGULAR) != 0)
            return float(sum(weights.body[b, column] for b in model.constraint_body[i] if b >= 0))
        of = weights.tendon if model.constraint_type[i] == ConstraintType.TENDON else weights.dof[model.joint_v]
        return float(sum(of[e] for e in model.constraint_joint[i] if e >= 0))

    def _table(self, found: list[Row], exact: bool):
        made = super()._table(found, exact)
        self.can_lose = False
        return made

    def soft(self):
        """The struct `Soft` with the present parameters."""
        stored = {name: self.device_model.parameters.stored(name) for name in PARAMETERS}
        return self.device_model.struct(soft_rows.Soft, **self.tables, exact=self.exact, **stored)

    def launch(self, h, sigma, q, v, v_star, M_factor, force, z, actuators, moves=True, between=None) -> None:
        """Fill Jacobians, R, v̂ and bounds at (q, v), after `dynamics.position(q)` and `dynamics.velocity(v)`."""
        if not self.count:
            return
        d, dynamics, constants, soft = self.device_model, self.dynamics, self.constants(actuators), self.soft()
        if self.bodies:
            fill(self.shift)
        self.measure(dynamics, constants, soft, q, v, dynamics.link_V, self.phi, self.rows.J)
        if self.exact.size:
            dynamics.launch(soft_rows.exact_weights, None, [d.topology, self.rows, M_factor, z, self.exact])
        inputs = [d.topology, self.table, constants, soft, d.plant(), h, v, self.phi, self.shift, self.rows]
        dynamics.launch(soft_rows.regularise, self.count, inputs)

    def measure(self, at: Dynamics, constants, soft, q, v, link_V, phi, J) -> None:
        """φ and J of every row at the kinematics of `at`, and shift += J̇ v of rows between bodies."""
        known = [self.table, constants, soft, self.rows]
        at.launch(soft_rows.coordinate_errors, self.count, [*known, q, phi, J])
        if self.on_lines is not None:
            on, lines = self.on_lines, self.lines
            at.launch(soft_rows.line_errors, on.count, [*known, on.table, lines.length, lines.moment, q, phi, J])
        if self.bodies:
            inputs = [self.device_model.topology, self.table, soft, self.rows, at.link_X, at.dof_S, link_V, v]
            at.launch(soft_rows.body_errors, self.bodies, [*inputs, self.shift, phi, J])
