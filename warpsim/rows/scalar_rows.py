# SPDX-License-Identifier: Apache-2.0
"""Host side of the scalar rows: the rows of a model, their constant table, and the launches that fill it.

All rows are in one table: first stops and dry friction of joints, then constraints and tendons, then actuators.
"""

import dataclasses

import numpy as np
import warp as wp

from warpsim.contact.collision import pair_supports
from warpsim.device.per_world import assign
from warpsim.forces.actuators import actuators_of
from warpsim.forces.lines import Lines, Tables
from warpsim.kernels.forces import actuators as actuation
from warpsim.kernels.rows import coordinate_rows, frame_rows, kinds, line_rows, table, taped_rows, watch
from warpsim.kernels.rows.kinds.kind import ANGULAR, BETWEEN, ON_LINES
from warpsim.kernels.tree import passes
from warpsim.model.constraint_types import BODY_CONSTRAINTS, TYPES, ConstraintType
from warpsim.model.geometry import IDENTITY
from warpsim.model.model import JOINT_NV, JointType, Model
from warpsim.rows.recovery import CONSTRAINT_SPEED, Levers, comes, row_speed
from warpsim.rows.rows_on_lines import RowsOnLines, add_initial_lengths, line_support
from warpsim.tree.dynamics import DeviceModel, Dynamics

CONSTANTS = (
    *("joint_range", "joint_friction", "tendon_range", "tendon_stiffness", "tendon_damping", "tendon_friction"),
    *("constraint_stiffness", "constraint_dissipation_time", "constraint_coefficients"),
)
# State memory of the rows that derivatives of the next step treat as constant.
ROW_MEMORY = ("added_inertia",)
LOWER, UPPER = {"side": 1.0}, {"side": -1.0}


@dataclasses.dataclass
class Row:
    """One row of `kernels.rows.table.Table`. `support` is ascending; a, b and q have one entry per dof of it."""

    kind: str
    owner: int
    element: int
    support: list[int]
    a: list[float]
    b: list[float] = dataclasses.field(default_factory=list)
    q: list[int] = dataclasses.field(default_factory=list)
    entry: int = 0
    side: float = 1.0
    turn: int = -1
    leads: int = 1
    axis: int = 0
    link: tuple[int, int] = (-1, -1)
    frame: tuple[np.ndarray, np.ndarray] = (IDENTITY, IDENTITY)
    length: float = 0.0  # of a distance. These fields are constant; laws read the rest from parameters.
    reference: tuple[float, float] = (0.0, 0.0)
    rigid: bool = True
    lines: tuple[int, int] = (-1, -1)  # whose lengths are part of x and y
    gear: tuple[float, float] = (1.0, 1.0)

    @property
    def traits(self) -> int:
        """The properties of the row's kind (`kernels/rows/kinds/kind.py`)."""
        kinds.code(self.kind)  # raises an error that names an unknown kind
        return int(kinds.KINDS[self.kind].traits) | (int(ON_LINES) if self.on_line else 0)

    @property
    def between(self) -> bool:
        """Whether the row measures between two frames."""
        return self.traits & int(BETWEEN) != 0

    @property
    def on_line(self) -> bool:
        """Whether the row measures the length of a line."""
        return max(self.lines) >= 0


def joint_rows(model: Model) -> list[Row]:
    """Stops of limited joints, and dry friction of joints."""
    found: list[Row] = []
    for j in range(model.njoint):
        kind, dof, q = JointType(model.joint_type[j]), int(model.joint_v[j]), int(model.joint_q[j])
        common = {"owner": int(table.JOINT), "leads": 0}
        if model.joint_limited[j]:
            stop = {"kind": "stop", "element": j, **common}
            if kind == JointType.BALL:
                found.append(Row(**stop, support=[dof, dof + 1, dof + 2], a=[1.0] * 3, turn=q, **UPPER))
            else:
                found += [Row(**stop, support=[dof], a=[1.0], q=[q], **end) for end in (LOWER, UPPER)]
        for d in range(dof, dof + JOINT_NV[kind]):
            if model.joint_friction[d] > 0:
                found.append(Row(kind="friction", element=d, **common, support=[d], a=[1.0]))
    return found


def constraint_rows(model: Model, tables: Tables | None = None) -> list[Row]:
    """The rows of active constraints, then of tendons; no rows for constraints that nothing can move. `tables`: of the
    model's lines."""
    found: list[Row] = []
    links = np.where(model.constraint_body < 0, -1, model.body_link[model.constraint_body]).reshape(-1, 2)
    supports, signs, sizes = pair_supports(model, links)
    for c in np.flatnonzero(model.constraint_active):
        if ConstraintType(model.constraint_type[c]) in BODY_CONSTRAINTS:
            n = int(sizes[c])
            support = (supports[c, :n].tolist(), signs[c, :n].tolist())
            found += _body_rows(model, int(c), tuple(links[c].tolist()), *support) if n else []
        else:
            found.append(_coupling_row(model, int(c), tables))
    for t in range(model.ntendon):
        found += _tendon_rows(model, t, tables)
    return found


def _body_rows(model: Model, c: int, link, support, sign) -> list[Row]:
    kind = ConstraintType(model.constraint_type[c])
    common = {
        "owner": int(table.CONSTRAINT),
        "element": c,
        "support": support,
        "a": sign,
        "link": link,
        "frame": tuple(model.constraint_pose[c]),
    }
    rigid = np.isinf(model.constraint_stiffness[c])
    if kind != ConstraintType.DISTANCE:
        found = [Row(kind=name, axis=axis, **common) for name, axis in TYPES[kind].rows]
        for row in found:
            row.entry = int(row.traits & int(ANGULAR) != 0)
            row.rigid = bool(rigid[row.entry])
        return found
    low, high = model.constraint_coefficients[c, :2].tolist()
    if low == high:
        return [Row(kind="distance", rigid=rigid[0], length=low, **common)]
    bounds = [(low, LOWER)] * (low > 0) + [(high, UPPER)] * (high < np.inf)
    return [Row(kind="reach", rigid=rigid[0], length=x, **end, **common) for x, end in bounds]


def row_groups(found: list[Row]) -> list[int]:
    """The size of each group at its first row, 0 at its other rows. A group is the rows of one kind of one
    constraint."""
    sizes = [1] * len(found)
    for i in range(len(found) - 1, 0, -1):
        row, before = found[i], found[i - 1]
        if row.between and (row.kind, row.element) == (before.kind, before.element) and row.axis > before.axis:
            sizes[i - 1], sizes[i] = sizes[i - 1] + sizes[i], 0
    return sizes


def row_parts(model: Model, found: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mechanisms of a model, trees that rows connect: the mechanism of every row, body (−1: it stands still) and
    dof."""
    tree = model.link_tree
    part = np.arange(int(tree.max(initial=-1)) + 1)
    for row in found:
        if row.owner in (table.TENDON, table.CONSTRAINT):
            trees = np.unique(part[tree[model.dof_link[row.support]]])
            part[np.isin(part, trees[1:])] = trees[0]
    dofs = part[tree[model.dof_link]]
    moves = [link >= 0 and len(model.ancestors(int(link))) > 0 for link in model.body_link]
    bodies = np.where(moves, part[tree[model.body_link]], -1)
    return np.array([dofs[row.support[0]] if row.support else 0 for row in found], dtype=np.int32), bodies, dofs


def dof_coordinates(model: Model) -> np.ndarray:
    """`(nv,)` the coordinate in q of each dof of a hinge or slide; −1 for other dofs."""
    found = np.full(model.nv, -1, dtype=np.int32)
    single = np.isin(model.joint_type, (JointType.HINGE, JointType.SLIDE))
    found[model.joint_v[single]] = model.joint_q[single]
    return found


def _coupling_row(model: Model, c: int, tables: Tables | None) -> Row:
    """x − x_0 = p(y − y_0) for two joints or tendons. A simulator later adds the lengths of lines to x_0 and y_0."""
    weights, lines = np.zeros((2, model.nv)), [-1, -1]
    for end, element in enumerate(model.constraint_joint[c]):
        if element >= 0:
            if model.constraint_type[c] == ConstraintType.TENDON:
                weights[end] = model.tendon_coefficients[element]
                lines[end] = -1 if tables is None else tables.line_of_tendon(int(element))
            else:
                weights[end, model.joint_v[element]] = 1.0
    support = np.union1d(np.flatnonzero(weights.any(0)), line_support(tables, lines)).astype(int)
    q = _coordinates(model, support)
    return Row(
        kind="coupling",
        owner=int(table.CONSTRAINT),
        element=c,
        support=support.tolist(),
        a=weights[0, support].tolist(),
        b=weights[1, support].tolist(),
        q=q,
        reference=tuple(weights[:, support] @ model.q0[q]),
        lines=tuple(lines),
        leads=int(max(lines) < 0),
    )


def _coordinates(model: Model, support) -> list[int]:
    """The coordinate in q of each of these dofs; 0 for dofs of ball and free joints, which only rows on lines have."""
    return np.maximum(dof_coordinates(model)[support], 0).tolist()


def _tendon_rows(model: Model, t: int, tables: Tables | None) -> list[Row]:
    """Limits, spring with damper, and dry friction of a tendon."""
    line = -1 if tables is None else tables.line_of_tendon(t)
    support = np.flatnonzero(model.tendon_coefficients[t]) if line < 0 else np.array(line_support(tables, [line]), int)
    common = {
        "owner": int(table.TENDON),
        "element": t,
        "support": support.tolist(),
        "a": model.tendon_coefficients[t, support].tolist(),
        "q": _coordinates(model, support),
        "lines": (line, -1),
        "leads": int(line < 0),
    }
    found = []
    if model.tendon_limited[t]:
        found += [Row(kind="stop", **end, **common) for end in (LOWER, UPPER)]
    if model.tendon_stiffness[t] or model.tendon_damping[t]:
        found.append(Row(kind="spring", reference=tuple(model.tendon_reference[t]), **common))
    if model.tendon_friction[t]:
        found.append(Row(kind="friction", **common))
    return found


def actuator_moments(model: Model, a: int) -> tuple[list[int], list[float]]:
    """Degrees of freedom and moment arms (gear) of an actuator on a hinge, slide or fixed tendon; empty for other
    actuators."""
    joint, tendon, gear = int(model.actuator_joint[a]), int(model.actuator_tendon[a]), float(model.actuator_gear[a, 0])
    if tendon >= 0:
        support = np.flatnonzero(model.tendon_coefficients[tendon])
        return support.tolist(), (gear * model.tendon_coefficients[tendon, support]).tolist()
    if joint >= 0 and model.joint_type[joint] in (JointType.HINGE, JointType.SLIDE):
        return [int(model.joint_v[joint])], [gear]
    return [], []


def servo_row(model: Model, a: int, tables: Tables | None = None) -> Row:
    """The row of an actuator."""
    support, moments = actuator_moments(model, a)
    line, gear = (-1, 0.0) if tables is None else tables.line_of(a)
    if line >= 0:
        support = line_support(tables, [line])
        moments = [0.0] * len(support)
    apart = int(model.actuator_joint[a] < 0)
    row = Row(
        "servo", int(table.ACTUATOR), int(a), support, moments, q=_coordinates(model, support), entry=apart, leads=0
    )
    row.lines, row.gear = (line, -1), (gear, 0.0)
    return row


def actuator_rows(model: Model, implicit: bool) -> np.ndarray:
    """`(nu,)` when a row replaces each actuator's force (`kernels/forces/actuators.py`). Implicit schemes solve
    actuators on joints themselves."""
    feedback = model.actuator_gain[:, 1:].any(1) | model.actuator_bias[:, 1:].any(1)
    joint = np.where(feedback & (not implicit), int(actuation.WHERE_IMPLICIT), int(actuation.NEVER))
    return np.where(model.actuator_joint < 0, int(actuation.ALWAYS), joint)


def padded(lists, width: int, dtype) -> np.ndarray:
    """Lists of unequal length as rows of an array, padded with 0."""
    filled = np.zeros((len(lists), width), dtype=dtype)
    for row, values in zip(filled, lists, strict=True):
        row[: len(values)] = values
    return filled


class ScalarRows:
    """The scalar rows of all worlds: `rows` (struct of `kernels/rows/table.py`) and the launches that fill it.

    `actuators`: indices of the actuators that have a row. `exact`: a finite stiffness has no near-rigid limit.
    `follow_bend`: errors of constraints include the bend of the path within the step, J̇v h²/2. `springs`: whether
    springs and dampers of tendons are rows.
    """

    looks_ahead = True  # errors of rows between frames are taken where the velocity leads
    bodies = 0  # connects and welds under MuJoCo's law

    def __init__(
        self,
        device_model: DeviceModel,
        dynamics: Dynamics,
        actuators,
        exact: bool = False,
        follow_bend: bool = True,
        lines: Lines | None = None,
        springs: bool = True,
    ):
        self.device_model, self.dynamics, self.follow_bend = device_model, dynamics, follow_bend
        model, t = device_model.model, device_model.types
        S = t.real
        tables = None if lines is None else lines.tables
        found = self._find_rows(tables) + [servo_row(model, a, tables) for a in actuators]
        found = [row for row in found if row.support]  # a line between links that stand still moves nothing
        found = [row for row in found if springs or row.kind != "spring"]
        self.row_list, self.count = found, len(found)
        self.has_frames = self.looks_ahead and any(row.between for row in found)
        of_joints = all(row.owner == table.JOINT for row in found if not (row.between or row.on_line))
        self._fill = coordinate_rows.fill_joints if of_joints else coordinate_rows.fill
        self.support_size = np.array([len(row.support) for row in found], dtype=np.int32)
        self.width = int(self.support_size.max(initial=1))
        self.support = padded([row.support for row in found], self.width, np.int32)
        self.on_lines = None
        if lines is not None and any(row.on_line for row in found):
            add_initial_lengths(lines, found)
            self.on_lines = RowsOnLines(device_model, lines, found, self.width)
        self.table, self.rows = self._table(found, exact), self._rows()
        n = self.count if self.has_frames else 0
        self.phi = dynamics.array(self.count, S)
        self.phi_between, self.floor, self.rows.speed = (dynamics.array(n, S) for _ in range(3))
        self.inertia = dynamics.array(model.nv if n else 0, S)
        self.armature = dynamics.array(model.nv, S) if n else None  # armature of a step, including `added`
        self.need, self.added = (dynamics.array(model.nv if n else 0, S) for _ in range(2))
        self.lost_time = dynamics.array(self.count if self.can_lose else 0, S)
        self.q_ahead = dynamics.array(model.nq if n else 0, S)
        self.link_X_ahead = dynamics.array(model.nlink if n else 0, t.transform)
        self.nothing = wp.empty((0, 0), dtype=S, device=device_model.device)

    def _find_rows(self, tables: Tables | None) -> list[Row]:
        """The rows of joints, constraints and tendons."""
        model = self.device_model.model
        return joint_rows(model) + constraint_rows(model, tables)

    def of(self, *owners: int) -> np.ndarray:
        """Indices of the rows of joints, tendons, constraints or actuators."""
        return np.flatnonzero([row.owner in owners for row in self.row_list])

    def _rows(self):
        n, constant = self.count, padded([row.side * np.array(row.a) for row in self.row_list], self.width, float)
        of_rows = dict.fromkeys(("R", "weight", "v_hat", "lower", "upper"), n)
        rows = self.dynamics.workspace(table.Rows, J=self.support.shape, touch=0, **of_rows)
        self.device_model.fill(rows, support=self.support, support_size=self.support_size)
        rows.J.assign(np.tile(constant, (self.device_model.worlds, 1, 1)))
        rows.pull = CONSTRAINT_SPEED if self.can_hold else 0.0
        return rows

    def _table(self, found: list[Row], exact: bool):
        model, speeds = self.device_model.model, self.device_model.recovery
        frames = np.array([row.frame for row in found]).reshape(-1, 2, 7)
        turning = [row.rigid and row.between for row in found]
        levers = Levers(model) if any(turning) and min(speeds) < np.inf else None
        lever = [levers.lever(row) if x and levers else np.inf for row, x in zip(found, turning, strict=True)]
        self.can_hold = bool(np.isfinite(lever).any())
        self.can_lose = any(row.owner == table.CONSTRAINT for row in found)
        alike = ("traits", "owner", "element", "entry", "axis", "turn", "leads", "side")
        part, body_part, dof_part = row_parts(model, found)
        return self.device_model.struct(
            table.Table,
            exact=int(exact),
            kind=[kinds.code(row.kind) for row in found],
            **{key: [getattr(row, key) for row in found] for key in alike},
            **{key: padded([getattr(row, key) for row in found], self.width, float) for key in ("a", "b", "q")},
            link=np.array([row.link for row in found]).reshape(-1, 2),
            frame=frames[..., [0, 1, 2, 4, 5, 6, 3]],  # quaternions scalar last
            reference=np.array([row.reference for row in found]).reshape(-1, 2),
            recovery=[row_speed(model, row, speeds) for row in found],
            lever=lever,
            group=row_groups(found),
            comes=[comes(model, row) for row in found],
            part=part,
            body_part=body_part,
            dof_part=dof_part,
            radial=[kinds.KINDS[row.kind].radial for row in found],
        )

    def constants(self, actuators=None):
        """The struct `Constants`: present parameters that laws read, and `actuators` (`Step.actuators`).

        Default of `actuators`: the parameters without controls.
        """
        stored = {name: self.device_model.parameters.stored(name) for name in CONSTANTS}
        actuators = actuators_of(self.device_model, self.nothing) if actuators is None else actuators
        return self.device_model.struct(table.Constants, actuators=actuators, **stored)

    def attach(self, problem) -> None:
        """Make these rows part of the solver's problem."""
        problem.row_J, problem.row_R, problem.row_v_hat = self.rows.J, self.rows.R, self.rows.v_hat
        problem.row_lower, problem.row_upper = self.rows.lower, self.rows.upper

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
        actuators,
        moves: bool = True,
        between=None,
    ) -> None:
        """Fill R, v̂, bounds, weights and Jacobians at (q, v), after `dynamics.position(q)`. `z`: scratch (worlds, nv).

        `moves`: whether the new velocity of this step moves the positions. If not (explicit Euler), the errors are
        those to which v leads. `between`: a `Dynamics` and its q at which Jacobians are evaluated instead (midpoint
        rule).
        """
        if not self.count:
            return
        d, dynamics = self.device_model, self.dynamics
        constants, (ahead, lead) = self.constants(actuators), self.lead(h, moves)
        q_between = self.nothing if between is None else between[1]
        now = d.struct(
            table.Instant, h=h, sigma=sigma, ahead=ahead, lead=lead, q=q, v0=v, v_star=v_star, M_factor=M_factor,
            q_between=q_between,
        )  # fmt: skip
        dynamics.launch(self._fill, None, [d.topology, self.table, constants, now, z, self.phi, self.rows])
        if self.on_lines is not None:
            on, lines = self.on_lines.table, self.on_lines.lines
            inputs = [d.topology, self.table, constants, on, now, lines.length, lines.moment, z, self.phi, self.rows]
            dynamics.launch(line_rows.fill, None, inputs)
        if self.has_frames:
            self.look_ahead(q, ahead, v)
            self.frame_errors(dynamics, constants, self.phi, self.rows.J)
            inputs = [d.topology, self.table, constants, self.rows, lead, v, M_factor]
            inputs += [self.phi, self.floor, self.inertia]
            dynamics.launch(frame_rows.prepare, max(d.model.nv, self.count), inputs)
            at = dynamics
            if between is not None:
                at = between[0]
                self.frame_errors(at, constants, self.phi_between, self.rows.J)
            self.least_weights(at)
            inputs = [d.topology, self.table, constants, d.plant(), now, self.phi, self.floor, force, z, self.rows]
            dynamics.launch(frame_rows.regularise, None, inputs)

    def errors(self, q, u, phi) -> None:
        """φ(q ⊕ u) of every row of a tendon or constraint, after `dynamics.position(q)`. Also writes the Jacobians at
        q."""
        constants = self.constants()
        inputs = [self.table, constants, self.rows, 1.0, q, q, u, phi, self.rows.J]
        self.dynamics.launch(taped_rows.coordinate_errors, self.count, inputs)
        if self.has_frames:
            self.look_ahead(q, 1.0, u)
            self.frame_errors(self.dynamics, constants, phi, self.rows.J)

    def steady(self) -> None:
        """Compute the armature of a step: the parameter plus the inertia added to steady light links under tension."""
        if self.armature is not None:
            own = self.device_model.parameters.stored("joint_armature")
            self.dynamics.launch(watch.add_inertia, self.armature.shape[1], [own, self.added, self.armature])

    def remember(self, h: float, solution, force, flags) -> None:
        """Find the inertia that the next step adds, from the impulses of this one, and flag worlds whose constraints
        let go."""
        d, launch = self.device_model, self.dynamics.launch
        if self.has_frames:
            inputs = [d.topology, self.table, self.rows, h, self.dynamics.link_X, self.dynamics.dof_S]
            launch(watch.steady, None, [*inputs, solution.row_gamma, self.floor, self.need, self.inertia, self.added])
        if self.can_lose:
            inputs = [self.table, self.constants(), self.rows, d.plant(), force, h, self.phi]
            launch(watch.find_lost, None, [*inputs, solution.v, solution.row_gamma, self.lost_time, flags])

    @property
    def reads_forces(self) -> bool:
        """Whether the rows need the applied forces to compare their load with."""
        return self.can_hold or self.can_lose

    def state_memory(self) -> dict:
        """Arrays by name that these rows leave for the next step."""
        found = {"added_inertia": self.added} if self.has_frames else {}
        return found | ({"lost_time": self.lost_time} if self.can_lose else {})

    def load_memory(self, arrays: dict) -> None:
        """Load the memory of a state, to repeat its step."""
        for name, array in self.state_memory().items():
            if name in ROW_MEMORY:
                assign(array, arrays[name])

    def lead(self, h: float, moves: bool) -> tuple[float, float]:
        """(t, s) such that errors are φ(q ⊕ t v) − s J v."""
        ahead = h if self.follow_bend or not moves else 0.0
        return ahead, ahead if moves else 0.0

    def look_ahead(self, q, ahead: float, v) -> None:
        """Kinematics at q ⊕ ahead v."""
        d, dynamics = self.device_model, self.dynamics
        dynamics.launch(passes.integrate_position, d.model.nlink, [d.topology, ahead, q, v, self.q_ahead])
        dynamics.kinematics(self.q_ahead, self.link_X_ahead)

    def frame_errors(self, at: Dynamics, constants, phi, J, on_tape: int = 0) -> None:
        """Rows between frames: J at the kinematics of `at`, and φ where the velocity leads."""
        inputs = [self.device_model.topology, self.table, constants, self.rows, at.link_X, self.link_X_ahead, at.dof_S]
        at.launch(frame_rows.frame_errors, self.count, [*inputs, on_tape, phi, J])

    def least_weights(self, at: Dynamics) -> None:
        """Compute `floor` from `inertia`, at the kinematics of `at`."""
        inputs = [self.device_model.topology, self.table, self.rows, at.link_X, at.dof_S, self.inertia, self.floor]
        self.dynamics.launch(frame_rows.least_weight, self.count, inputs)
