"""Host side of the scalar rows: which rows a model has, their constant tables, and the launches that fill them.

All rows stand in one list: stops and dry friction of joints first, then constraints and tendons, then actuators.
"""

import dataclasses

import numpy as np
import warp as wp

from warpsim.contact.collision import pair_supports
from warpsim.device.copies import copy, kernels_of
from warpsim.kernels.forces import actuators as actuation
from warpsim.kernels.rows import constraint_rows as kinds
from warpsim.kernels.rows import effort_rows
from warpsim.kernels.rows import joint_rows as rows
from warpsim.kernels.tree import passes
from warpsim.model.geometry import IDENTITY
from warpsim.model.model import BODY_CONSTRAINTS, JOINT_NV, ConstraintType, JointType, Model
from warpsim.rows.recovery import CONSTRAINT_SPEED, Levers, row_speed
from warpsim.tree.dynamics import DeviceModel, Dynamics

ACTUATOR_PARAMETERS = ("actuator_gain", "actuator_bias", "control_range", "force_range")
# (kind, axis) of each row of a constraint between two frames
FRAME_ROWS = {
    ConstraintType.CONNECT: [(kinds.POSITION, i) for i in range(3)],
    ConstraintType.WELD: [(kinds.POSITION, i) for i in range(3)] + [(kinds.ROTATION, i) for i in range(3)],
    ConstraintType.HINGE: [(kinds.POSITION, i) for i in range(3)] + [(kinds.TILT, i) for i in range(2)],
    ConstraintType.SLIDE: [(kinds.POSITION, i) for i in range(2)] + [(kinds.ROTATION, i) for i in range(3)],
}


@dataclasses.dataclass
class Row:
    """One row of `kernels.constraint_rows.Table`; `support` ascending, with a, b and q per entry."""

    kind: int
    support: list[int]
    a: list[float]
    b: list[float]
    q: list[int]
    axis: int = 0
    link: tuple[int, int] = (-1, -1)
    frame: tuple[np.ndarray, np.ndarray] = (IDENTITY, IDENTITY)
    coefficients: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(5))
    reference: tuple[float, float] = (0.0, 0.0)
    compliance: float = 0.0
    dissipation_time: float = np.nan
    stiffness: float = 0.0
    damping: float = 0.0


def joint_rows(model: Model) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Kind, joint and support of stops of limited joints and of dry friction."""
    found = []
    for j in range(model.njoint):
        kind, dof = JointType(model.joint_type[j]), int(model.joint_v[j])
        if model.joint_limited[j]:
            if kind == JointType.BALL:
                found.append((int(rows.UPPER), j, [dof, dof + 1, dof + 2]))
            else:
                found += [(int(rows.LOWER), j, [dof]), (int(rows.UPPER), j, [dof])]
        for k in range(JOINT_NV[kind]):
            if model.joint_friction[dof + k] > 0:
                found.append((int(rows.DRY_FRICTION), j, [dof + k]))
    kind, joint, support = zip(*found, strict=True) if found else ((), (), ())
    return np.array(kind, dtype=np.int32), np.array(joint, dtype=np.int32), list(support)


def constraint_rows(model: Model) -> list[Row]:
    """The rows of active constraints, then of tendons; none where nothing can move."""
    found: list[Row] = []
    links = np.where(model.constraint_body < 0, -1, model.body_link[model.constraint_body]).reshape(-1, 2)
    table, signs, sizes = pair_supports(model, links)
    for c in np.flatnonzero(model.constraint_active):
        if ConstraintType(model.constraint_type[c]) in BODY_CONSTRAINTS:
            n = int(sizes[c])
            support = (table[c, :n].tolist(), signs[c, :n].tolist())
            found += _body_rows(model, int(c), tuple(links[c].tolist()), *support) if n else []
        else:
            found.append(_coupling_row(model, int(c)))
    for t in range(model.ntendon):
        found += _tendon_rows(model, t)
    return found


def _body_rows(model: Model, c: int, link, support, sign) -> list[Row]:
    kind = ConstraintType(model.constraint_type[c])
    common = {
        "support": support,
        "a": sign,
        "b": [0.0] * len(support),
        "q": [0] * len(support),
        "link": link,
        "frame": tuple(model.constraint_pose[c]),
        "dissipation_time": float(model.constraint_dissipation_time[c]),
    }
    along, about = 1.0 / model.constraint_stiffness[c]
    if kind in FRAME_ROWS:
        softness = {kinds.POSITION: along, kinds.ROTATION: about, kinds.TILT: about}
        return [Row(kind=k, axis=i, compliance=softness[k], **common) for k, i in FRAME_ROWS[kind]]
    low, high = model.constraint_coefficients[c, :2].tolist()
    if low == high:
        bounds = [(kinds.DISTANCE, low)]
    else:
        bounds = [(kinds.SHORTEST, low)] * (low > 0) + [(kinds.LONGEST, high)] * (high < np.inf)
    return [Row(kind=k, compliance=along, coefficients=_padded(x), **common) for k, x in bounds]


def _padded(x: float) -> np.ndarray:
    return np.array([x, 0.0, 0.0, 0.0, 0.0])


def row_groups(found: list[Row]) -> list[int]:
    """At the first row of each group the size of the group, 0 at the others: rows of one kind of one constraint."""
    sizes = [1] * len(found)
    for i in range(len(found) - 1, 0, -1):
        row, before = found[i], found[i - 1]
        if (
            row.kind in (kinds.POSITION, kinds.ROTATION, kinds.TILT)
            and row.kind == before.kind
            and row.axis > before.axis
        ):
            sizes[i - 1], sizes[i] = sizes[i - 1] + sizes[i], 0
    return sizes


def row_parts(model: Model, found: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The parts of a model, trees that rows connect: of every row, of every body (-1: it stands still), of every dof."""
    tree = model.link_tree
    part = np.arange(int(tree.max(initial=-1)) + 1)
    for row in found:
        trees = np.unique(part[tree[model.dof_link[row.support]]])
        part[np.isin(part, trees[1:])] = trees[0]
    dofs = part[tree[model.dof_link]]
    moves = [link >= 0 and len(model.ancestors(int(link))) > 0 for link in model.body_link]
    bodies = np.where(moves, part[tree[model.body_link]], -1)
    return np.array([dofs[row.support[0]] for row in found], dtype=np.int32), bodies, dofs


def dof_coordinates(model: Model) -> np.ndarray:
    """`(nv,)` the coordinate in q of each degree of freedom of a hinge or slide; -1 of others."""
    table = np.full(model.nv, -1, dtype=np.int32)
    single = np.isin(model.joint_type, (JointType.HINGE, JointType.SLIDE))
    table[model.joint_v[single]] = model.joint_q[single]
    return table


def _coupling_row(model: Model, c: int) -> Row:
    """x − x_0 = p(y − y_0) of two joints or tendons."""
    weights = np.zeros((2, model.nv))
    for end, element in enumerate(model.constraint_joint[c]):
        if element >= 0:
            if model.constraint_type[c] == ConstraintType.TENDON:
                weights[end] = model.tendon_coefficients[element]
            else:
                weights[end, model.joint_v[element]] = 1.0
    support = np.flatnonzero(weights.any(0))
    q = dof_coordinates(model)[support]
    return Row(
        kind=kinds.COUPLING,
        support=support.tolist(),
        a=weights[0, support].tolist(),
        b=weights[1, support].tolist(),
        q=q.tolist(),
        coefficients=model.constraint_coefficients[c],
        reference=tuple(weights[:, support] @ model.q0[q]),
        compliance=1.0 / model.constraint_stiffness[c, 0],
        dissipation_time=float(model.constraint_dissipation_time[c]),
    )


def _tendon_rows(model: Model, t: int) -> list[Row]:
    """Limits, spring with damper, and dry friction of a tendon."""
    support = np.flatnonzero(model.tendon_coefficients[t])
    common = {
        "support": support.tolist(),
        "a": model.tendon_coefficients[t, support].tolist(),
        "b": [0.0] * len(support),
        "q": dof_coordinates(model)[support].tolist(),
    }
    found = []
    if model.tendon_limited[t]:
        low, high = model.tendon_range[t]
        found.append(Row(kind=kinds.TENDON_LOWER, coefficients=_padded(low), **common))
        found.append(Row(kind=kinds.TENDON_UPPER, coefficients=_padded(high), **common))
    stiffness, damping = float(model.tendon_stiffness[t]), float(model.tendon_damping[t])
    if stiffness or damping:
        spring = {"stiffness": stiffness, "damping": damping, "reference": tuple(model.tendon_reference[t])}
        found.append(Row(kind=kinds.TENDON_SPRING, **spring, **common))
    if model.tendon_friction[t]:
        friction = _padded(model.tendon_friction[t])
        found.append(Row(kind=kinds.TENDON_FRICTION, coefficients=friction, **common))
    return found


def actuator_moments(model: Model, a: int) -> tuple[list[int], list[float]]:
    """Degrees of freedom and moment arms (gear) of an actuator on a hinge, slide or tendon; empty for others."""
    joint, tendon, gear = int(model.actuator_joint[a]), int(model.actuator_tendon[a]), float(model.actuator_gear[a, 0])
    if tendon >= 0:
        support = np.flatnonzero(model.tendon_coefficients[tendon])
        return support.tolist(), (gear * model.tendon_coefficients[tendon, support]).tolist()
    if model.joint_type[joint] in (JointType.HINGE, JointType.SLIDE):
        return [int(model.joint_v[joint])], [gear]
    return [], []


def actuator_rows(model: Model, implicit: bool) -> np.ndarray:
    """`(nu,)` when a row stands for each actuator (`kernels/forces/actuators.py`); implicit schemes solve joints' themselves."""
    feedback = model.actuator_gain[:, 1:].any(1) | model.actuator_bias[:, 1:].any(1)
    joint = np.where(feedback & (not implicit), int(actuation.WHERE_IMPLICIT), int(actuation.NEVER))
    return np.where(model.actuator_tendon >= 0, int(actuation.ALWAYS), joint)


def padded(lists, width: int, dtype) -> np.ndarray:
    """Lists of unequal length as rows of an array, filled up with 0."""
    table = np.zeros((len(lists), width), dtype=dtype)
    for row, values in zip(table, lists, strict=True):
        row[: len(values)] = values
    return table


class ScalarRows:
    """The rows of all worlds: `rows` (struct of `kernels/rows/joint_rows.py`) and the launches that fill it.

    `actuators`: indices of those that have a row. `exact`: a finite stiffness counts as it is, without the near-rigid limit.
    `follow_bend`: errors of constraints include what the path bends within the step, J̇v h²/2.
    """

    def __init__(
        self,
        device_model: DeviceModel,
        dynamics: Dynamics,
        actuators,
        exact: bool = False,
        follow_bend: bool = True,
    ):
        self.device_model, self.dynamics, self.follow_bend = device_model, dynamics, follow_bend
        model, t = device_model.model, device_model.types
        S = t.real
        kind, joint, supports = joint_rows(model)
        found = constraint_rows(model)
        self.joint_count, self.table_count, self.effort_count = len(kind), len(found), len(actuators)
        self.count = self.joint_count + self.table_count + self.effort_count
        supports += [row.support for row in found] + [actuator_moments(model, a)[0] for a in actuators]
        self.support_size = np.array([len(s) for s in supports], dtype=np.int32)
        self.width = int(self.support_size.max(initial=1))
        self.support = padded(supports, self.width, np.int32)
        self.joint_type, self.joint_q = self._array(model.joint_type), self._array(model.joint_q)
        self.rows = self._rows(kind, joint)
        self.rows.recovery = self._array(
            np.where(model.joint_type[joint] == JointType.SLIDE, *device_model.recovery), S
        )
        self.table, self.effort = self._table(found, exact), self._effort_table(actuators)
        self.rows.pull = CONSTRAINT_SPEED if self.can_stall else 0.0
        self.phi, self.phi_between, self.floor, self.speed = (dynamics.array(len(found), S) for _ in range(4))
        self.stalled = dynamics.array(len(found), wp.int32)  # (worlds, rows of the table), see `bilateral.py`
        self.inertia = dynamics.array(model.nv if found else 0, S)
        self.q_ahead = dynamics.array(model.nq if found else 0, S)
        self.link_X_ahead = dynamics.array(model.nlink if found else 0, t.transform)

    def _array(self, values, kind=wp.int32) -> wp.array:
        """Constants on the device; `kind` int32, the scalar type or one made of it."""
        dtype = np.int32 if kind == wp.int32 else self.device_model.dtype
        return wp.array(np.ascontiguousarray(values, dtype=dtype), dtype=kind, device=self.device_model.device)

    def _rows(self, kind, joint):
        S, array = self.device_model.types.real, self.dynamics.array
        table = copy(rows.Rows, S)()
        table.kind, table.joint = self._array(kind), self._array(joint)
        table.support, table.support_size = self._array(self.support), self._array(self.support_size)
        table.J = array(self.support.shape, S)
        for key in ("R", "weight", "v_hat", "lower", "upper"):
            setattr(table, key, array(self.count, S))
        return table

    def _table(self, found: list[Row], exact: bool):
        t = self.device_model.types
        table = copy(kinds.Table, t.real)()
        table.first, table.exact = self.joint_count, int(exact)
        for key in ("kind", "axis"):
            setattr(table, key, self._array([getattr(row, key) for row in found]))
        table.link = self._array(np.array([row.link for row in found]).reshape(-1, 2))
        frames = np.array([row.frame for row in found]).reshape(-1, 2, 7)
        table.frame = self._array(frames[..., [0, 1, 2, 4, 5, 6, 3]], t.transform)  # quaternions scalar last
        for key in ("a", "b"):
            setattr(table, key, self._array(padded([getattr(r, key) for r in found], self.width, float), t.real))
        table.q = self._array(padded([row.q for row in found], self.width, np.int32))
        table.coefficients = self._array(np.array([row.coefficients for row in found]).reshape(-1, 5), t.real)
        table.reference = self._array(np.array([row.reference for row in found]).reshape(-1, 2), t.vec2)
        for key in ("compliance", "dissipation_time", "stiffness", "damping"):
            setattr(table, key, self._array([getattr(row, key) for row in found], t.real))
        model, speeds = self.device_model.model, self.device_model.recovery
        table.recovery = self._array([row_speed(model, row, speeds) for row in found], t.real)
        turning = [row.compliance == 0 and row.kind < kinds.COUPLING for row in found]
        levers = Levers(model) if any(turning) and min(speeds) < np.inf else None
        lever = [levers.lever(row) if x and levers else np.inf for row, x in zip(found, turning, strict=True)]
        table.lever, table.group = self._array(lever, t.real), self._array(row_groups(found))
        table.comes = self._array([levers is not None and levers.comes(row) for row in found])
        table.part, table.body_part, table.dof_part = map(self._array, row_parts(model, found))
        self.can_stall = bool(np.isfinite(lever).any())
        return table

    def _effort_table(self, actuators):
        """The table of actuators; their moment arms are the rows' constant Jacobian."""
        model, table = self.device_model.model, copy(effort_rows.EffortTable, self.device_model.types.real)()
        table.first = self.joint_count + self.table_count
        table.actuator, table.tendon = self._array(actuators), self._array(model.actuator_tendon[actuators])
        table.q = self._array(dof_coordinates(model)[self.support[table.first :]])
        if len(actuators):
            J = self.rows.J.numpy()
            J[:, table.first :] = padded([actuator_moments(model, a)[1] for a in actuators], self.width, float)
            self.rows.J.assign(J)
        return table

    def attach(self, problem) -> None:
        """Let the solver's problem read these rows."""
        problem.row_J, problem.row_R, problem.row_v_hat = self.rows.J, self.rows.R, self.rows.v_hat
        problem.row_lower, problem.row_upper = self.rows.lower, self.rows.upper

    def kernels(self) -> list:
        """Kernels that `launch` uses."""
        counts = {rows: self.joint_count, kinds: self.table_count, effort_rows: self.effort_count}
        S = self.device_model.types.real
        return [x for file, count in counts.items() if count for x in kernels_of(file, S)]

    def launch(
        self,
        h: float,
        sigma: float,
        q,
        v,
        v_star,
        M_factor,
        force,
        z,
        control,
        moves: bool = True,
        between=None,
    ) -> None:
        """Fill R, v̂, bounds, weights and Jacobians at (q, v), after `dynamics.position(q)`. `z`: scratch (worlds, nv).

        `moves`: whether this step's new velocity moves the positions; where it does not (explicit Euler), errors are those
        that v brings about. `between`: a `Dynamics` and its q where Jacobians are wanted instead (midpoint rule).
        """
        d, p, dynamics = self.device_model, self.device_model.parameters, self.dynamics
        if self.joint_count:
            inputs = [d.topology, self.joint_type, self.joint_q, p.stored("joint_range"), p.stored("joint_friction")]
            dynamics.launch(rows.joint_rows, None, [*inputs, h, sigma, q, v, v_star, M_factor, z, self.rows])
        if self.table_count:
            ahead, lead = self.lead(h, moves)
            dynamics.launch(passes.integrate_position, d.model.nlink, [d.topology, ahead, q, v, self.q_ahead])
            dynamics.kinematics(self.q_ahead, self.link_X_ahead)
            self.geometry(dynamics, q, self.phi)
            inputs = [d.topology, self.table, self.rows, lead, v, M_factor, self.phi, self.floor, self.inertia]
            dynamics.launch(kinds.prepare, max(d.model.nv, self.table_count), inputs)
            at = dynamics
            if between is not None:
                at = between[0]
                self.geometry(*between, self.phi_between)
            inputs = [d.topology, self.table, self.rows, at.link_X, at.dof_S, self.inertia, self.floor]
            dynamics.launch(kinds.least_weight, self.table_count, inputs)
            inputs = [d.topology, self.table, p.stored("body_active"), h, sigma, self.phi, self.floor, v, v_star]
            inputs += [M_factor, self._loads(force)]
            dynamics.launch(kinds.regularise, None, [*inputs, z, self.speed, self.stalled, self.rows])
        if self.effort_count:
            inputs = [self.effort, *(p.stored(key) for key in ACTUATOR_PARAMETERS), control, q, v, h, self.rows]
            dynamics.launch(effort_rows.effort_rows, self.effort_count, inputs)

    def remember_stalls(self, h: float, v, M_factor, force, z) -> None:
        """Note which rows stall at the velocity `v` that the solver found. `z`: scratch (worlds, nv)."""
        if self.can_stall:
            d = self.device_model
            inputs = [d.topology, self.table, self.rows, h, self.phi, self.dynamics.dof_S, M_factor]
            inputs += [self._loads(force), v, z, self.stalled]
            self.dynamics.launch(kinds.remember_stalls, None, inputs)

    def _loads(self, force):
        parameters = self.device_model.parameters
        loads = copy(kinds.Loads, self.device_model.types.real)()
        loads.body_mass, loads.gravity = parameters.stored("body_mass"), parameters.stored("gravity")
        loads.force = force
        return loads

    def state_memory(self) -> dict:
        """The part of the next step's input that these rows leave behind, by name."""
        return {"stalled": self.stalled} if self.can_stall else {}

    def load_memory(self, arrays: dict) -> None:
        """Take a state's, for a repetition of its step."""
        if self.can_stall:
            wp.copy(self.stalled, arrays["stalled"])

    def lead(self, h: float, moves: bool) -> tuple[float, float]:
        """(t, s): errors are φ(q ⊕ t v) − s J v."""
        ahead = h if self.follow_bend or not moves else 0.0
        return ahead, ahead if moves else 0.0

    def geometry(self, dynamics: Dynamics, q, phi) -> None:
        """J at the kinematics of `dynamics`, and φ where the velocity leads."""
        inputs = [self.device_model.topology, self.table, self.rows, dynamics.link_X, self.link_X_ahead, dynamics.dof_S]
        dynamics.launch(kinds.geometry, self.table_count, [*inputs, q, self.q_ahead, 0, phi, self.rows.J])
