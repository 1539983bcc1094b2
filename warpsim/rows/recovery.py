# SPDX-License-Identifier: Apache-2.0
"""Recovery of near-rigid contact from overlap, and of violated stops and constraints: the speeds and levers of rows.

The pull of a row at the end of its reach is limited by the *lever* at which its axis turns with the bodies
(`kernels/rows/bilateral.py`),
    lever = Σ_d c_d/M_dd / Σ_d |ω_d| |u_d|/M_dd

summed over the degrees of freedom that move its bodies. ω_d and u_d are the motion of dof d at the row's point. c_d is
the term of the least weight (`kernels/rows/frame_rows.py`). Under the impulse γ the row's geometric stiffness is at
most γ |ω_d| |u_d| on dof d. The lever is only a scale: its value at the initial position serves everywhere.
"""

import numpy as np

from warpsim.base import checks
from warpsim.kernels.rows import frame_rows, kinds
from warpsim.kernels.rows.kinds.kind import ANGULAR, ONE_SIDED
from warpsim.model.geometry import compose, rotation_matrix
from warpsim.model.host_kinematics import link_poses
from warpsim.model.model import JointType, Model

# (m/s, rad/s). At these speeds a box that starts 10 mm in the ground hops by 2 mm, and gymnasium's ant, whose ankles
# start 0.5 rad beyond their stops, by 1 mm.
RECOVERY_SPEED = (0.2, 2.0)
# [m/s, rad/s] least recovery speed of two-sided rows. A mechanism at the speed v drifts by h² v³/L² off its
# constraints; a lower limit would not take that back.
CONSTRAINT_SPEED = 5.0


def recovery_speeds(value) -> tuple[float, float]:
    """(m/s, rad/s) from the argument `recovery_speed` of `Simulator`."""
    if value is None:
        return np.inf, np.inf
    rule = "give (m/s, rad/s) above 0, one such number for both, or None for no limit"
    pair = value if isinstance(value, (tuple, list)) or np.ndim(value) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"recovery_speed is {checks.short(value)}; {rule}")
    linear, angular = (checks.number(x, "recovery_speed", rule, lambda x: x > 0.0) for x in pair)
    return linear, angular


def row_speed(model: Model, row, speeds: tuple[float, float]) -> float:
    """The recovery speed of a row of the table.

    A one-sided row of positions or on a line has speeds[0], a row of angles speeds[1]. A row on a coordinate x = Σ a_j
    q_j has the largest speed that moves no joint faster than the joint's own. Two-sided rows have at least
    `CONSTRAINT_SPEED`.
    """
    if not row.traits & int(ONE_SIDED):
        speeds = tuple(max(speed, CONSTRAINT_SPEED) for speed in speeds)
    if row.between:
        return speeds[1 if row.traits & int(ANGULAR) else 0]
    if row.on_line:
        return speeds[0]
    slides = model.joint_type[model.link_joint[model.dof_link[row.support]]] == JointType.SLIDE
    own = np.where(slides, *speeds)
    weights = np.abs(row.a)
    return float(np.min((weights * own)[weights > 0], initial=np.inf))


def comes(model: Model, row) -> bool:
    """Whether a free body may move to meet the row."""
    links = {int(model.dof_link[d]) for d in row.support}
    return any(JointType(model.link_type[link]) == JointType.FREE for link in links)


class Levers:
    """Motions and diagonal masses of a model's degrees of freedom at its initial position."""

    def __init__(self, model: Model):
        self.model = model
        self.link_pose = link_poses(model, model.q0)
        self.body_rotation = [rotation_matrix(self.link_pose[link, 3:]) for link in model.body_link]
        self.body_com = [
            self.link_pose[link, :3] + R @ com
            for link, R, com in zip(model.body_link, self.body_rotation, model.body_com, strict=True)
        ]
        self.moved: list[list[int]] = [[] for _ in range(model.nv)]
        for body, link in enumerate(model.body_link):
            for d in model.ancestors(int(link)):
                self.moved[d].append(body)
        self._mass: dict[int, float] = {}

    def motion(self, d: int, point) -> tuple[np.ndarray, np.ndarray]:
        """(ω, u) of dof d at a point, in world axes."""
        model, link = self.model, int(self.model.dof_link[d])
        kind, k = JointType(model.link_type[link]), d - int(model.link_v[link])
        X, joint = self.link_pose[link], int(model.link_joint[link])
        R, zero = rotation_matrix(X[3:]), np.zeros(3)
        if kind == JointType.FREE and k < 3:
            return zero, np.eye(3)[k]
        if kind == JointType.SLIDE:
            return zero, R @ model.joint_axis[joint]
        anchor = X[:3]
        if kind == JointType.FREE:
            axis = R[:, k - 3]
        else:
            anchor = anchor + R @ model.joint_anchor[joint]
            axis = R @ model.joint_axis[joint] if kind == JointType.HINGE else R[:, k]
        return axis, np.cross(axis, point - anchor)

    def mass(self, d: int) -> float:
        """M_dd."""
        if d not in self._mass:
            total = float(self.model.joint_armature[d])
            for b in self.moved[d]:
                omega, u = self.motion(d, self.body_com[b])
                local = self.body_rotation[b].T @ omega
                total += self.model.body_mass[b] * (u @ u) + local @ self.model.body_inertia[b] @ local
            self._mass[d] = max(total, np.finfo(float).tiny)
        return self._mass[d]

    def lever(self, row) -> float:
        """The lever of a row [m]; [rad] for a row of angles; infinite if the row's axis does not turn."""
        if not row.between:
            return np.inf
        if row.traits & int(ANGULAR):
            return frame_rows.PERPENDICULAR
        ends = [
            frame if link < 0 else compose(self.link_pose[link], frame)
            for link, frame in zip(row.link, row.frame, strict=True)
        ]
        point, length = ends[1][:3], np.inf
        if kinds.KINDS[row.kind].radial:
            length = max(float(row.length), float(np.linalg.norm(point - ends[0][:3])))
        weight = turning = 0.0
        for d in row.support:
            omega, u = self.motion(d, point)
            square, mass = float(u @ u), self.mass(d)
            weight += frame_rows.PERPENDICULAR * square / mass
            turning += (np.linalg.norm(omega) * np.sqrt(square) + (square / length if length > 0 else 0.0)) / mass
        return weight / turning if turning > 0 else np.inf
