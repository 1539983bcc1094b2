# SPDX-License-Identifier: Apache-2.0
"""Tables of a model's sensors on the device, by the kernels that measure them (`kernels/sensors/`)."""

import numpy as np
import warp as wp

from warpsim.contact.collision import geom_links
from warpsim.device.copies import copy
from warpsim.kernels.sensors import coordinate_sensors, frame_sensors, ray_sensors, subtree_sensors
from warpsim.model.geometry import IDENTITY
from warpsim.model.model import JOINT_NV, JointType, Model
from warpsim.model.sensor_types import KINDS, ObjectType, SensorType, Stage
from warpsim.rows.scalar_rows import actuator_moments, dof_coordinates, padded
from warpsim.tree.dynamics import DeviceModel

K = SensorType
AT_FRAMES = (K.MAGNETOMETER, K.CAMPROJECTION, K.FRAMEPOS, K.FRAMEQUAT, K.FRAMEXAXIS, K.FRAMEYAXIS, K.FRAMEZAXIS)
AT_FRAMES += (K.INSIDESITE, K.VELOCIMETER, K.GYRO, K.FRAMELINVEL, K.FRAMEANGVEL)
AT_COORDINATES = (
    K.JOINTPOS,
    K.JOINTVEL,
    K.TENDONPOS,
    K.TENDONVEL,
    K.ACTUATORPOS,
    K.ACTUATORVEL,
    K.BALLQUAT,
    K.BALLANGVEL,
)
AT_COORDINATES += (K.JOINTLIMITPOS, K.JOINTLIMITVEL, K.TENDONLIMITPOS, K.TENDONLIMITVEL, K.CLOCK)
AT_SUBTREES = (K.SUBTREECOM, K.SUBTREELINVEL, K.SUBTREEANGMOM)
OF_ENERGY = (K.E_POTENTIAL, K.E_KINETIC)
LIMITS = (K.JOINTLIMITPOS, K.JOINTLIMITVEL, K.TENDONLIMITPOS, K.TENDONLIMITVEL)


def chosen(model: Model, kinds) -> np.ndarray:
    """Indices of the sensors of these kinds."""
    return np.flatnonzero(np.isin(model.sensor_type, [int(kind) for kind in kinds]))


def of_step(model: Model) -> np.ndarray:
    """Indices of the sensors of accelerations and forces."""
    return chosen(model, [kind for kind, rules in KINDS.items() if rules.stage == Stage.ACCELERATION])


class SensorTables:
    """Makes tables of sensors given by their indices; `adr`: where each one's numbers begin in the array that is written.

    `lines`: a `MeasuredLines`, of models with lines.
    """

    def __init__(self, device_model: DeviceModel, lines=None):
        self.lines = lines
        self.device_model, self.model, self.types = device_model, device_model.model, device_model.types

    def array(self, values, kind=wp.int32) -> wp.array:
        """Constants on the device."""
        dtype = np.int32 if kind == wp.int32 else self.device_model.dtype
        return wp.array(np.ascontiguousarray(values, dtype=dtype), dtype=kind, device=self.device_model.device)

    def frames(self, sensors):
        """`frame_sensors.Frames` of objects and references."""
        m, t = self.model, self.types
        table = copy(frame_sensors.Frames, t.real)()
        link, geom, body = (np.full((len(sensors), 2), -1) for _ in range(3))
        pose = np.tile(IDENTITY, (len(sensors), 2, 1))
        for row, s in enumerate(sensors):
            for end in range(2):
                found = self._end(ObjectType(m.sensor_object_type[s, end]), int(m.sensor_object[s, end]))
                link[row, end], geom[row, end], body[row, end], pose[row, end] = found
                if m.sensor_object_type[s, end] == ObjectType.INERTIA:
                    pose[row, end, 3:] = m.sensor_constants[s, 4 * end : 4 * end + 4]
        table.link, table.geom, table.body = self.array(link), self.array(geom), self.array(body)
        table.pose = self.array(pose[..., [0, 1, 2, 4, 5, 6, 3]], t.transform)
        return table

    def _end(self, kind: ObjectType, index: int) -> tuple[int, int, int, np.ndarray]:
        """(link, geom, body, pose) of one frame."""
        m = self.model
        on = {ObjectType.GEOM: m.geom_body, ObjectType.SITE: m.site_body, ObjectType.CAMERA: m.camera_body}.get(kind)
        body = index if on is None else int(on[index])
        link = -1 if body < 0 or kind == ObjectType.NONE else int(m.body_link[body])
        geom = index if kind == ObjectType.GEOM else -1
        poses = {ObjectType.SITE: m.site_pose, ObjectType.CAMERA: m.camera_pose}.get(kind)
        return link, geom, index if kind == ObjectType.INERTIA else -1, IDENTITY if poses is None else poses[index]

    def frame_sensors(self, sensors, adr):
        m, t = self.model, self.types
        table = copy(frame_sensors.FrameSensors, t.real)()
        table.frames, table.kind, table.adr = self.frames(sensors), self.array(m.sensor_type[sensors]), self.array(adr)
        constants, zone, size = np.zeros((len(sensors), 4)), np.zeros(len(sensors)), np.ones((len(sensors), 3))
        for row, s in enumerate(sensors):
            kind, reference = m.sensor_type[s], int(m.sensor_object[s, 1])
            if kind == K.MAGNETOMETER:
                constants[row, :3] = m.sensor_constants[s, :3]
            elif kind == K.CAMPROJECTION:
                constants[row] = *m.sensor_constants[s, :2], *(0.5 * m.camera_resolution[reference])
            elif kind == K.INSIDESITE:
                zone[row], size[row] = m.site_type[reference], m.site_size[reference]
        table.constants, table.zone, table.size = (
            self.array(constants, t.real),
            self.array(zone),
            self.array(size, t.vec3),
        )
        return table

    def coordinates(self, rows):
        """`coordinate_sensors.Coordinates` of rows ("joint", "tendon" or "actuator", index)."""
        made = copy(coordinate_sensors.Coordinates, self.types.real)()
        supports = [self._support(*row) for row in rows]
        width = max((len(x[0]) for x in supports), default=0) or 1
        made.support_size = self.array([len(x[0]) for x in supports])
        for name, column, dtype in (("v", 0, np.int32), ("q", 1, np.int32)):
            setattr(made, name, self.array(padded([x[column] for x in supports], width, dtype)))
        made.a = self.array(padded([x[2] for x in supports], width, float), self.types.real)
        made.turn = self.array([x[3] for x in supports])
        on = [(-1, 0.0) if self.lines is None else self.lines.row(*row) for row in rows]
        made.line, made.gear = self.array([x[0] for x in on]), self.array([x[1] for x in on], self.types.real)
        if self.lines is None:
            none = wp.zeros((self.device_model.worlds, 0), dtype=self.types.real, device=self.device_model.device)
            made.line_length = made.line_rate = none
        else:
            made.line_length, made.line_rate = self.lines.length, self.lines.rate
        return made

    def _support(self, kind: str, index: int) -> tuple[list, list, list, int]:
        """(degrees of freedom, coordinates or -1, weights, quaternion or -1); nothing of what is on a line, or sticks contacts."""
        m = self.model
        on_line = self.lines is not None and self.lines.row(kind, index)[0] >= 0
        if kind == "none" or on_line or (kind == "actuator" and m.actuator_body[index] >= 0):
            return [], [], [], -1
        if kind == "tendon":
            dofs = np.flatnonzero(m.tendon_coefficients[index])
            return dofs.tolist(), dof_coordinates(m)[dofs].tolist(), m.tendon_coefficients[index, dofs].tolist(), -1
        if kind == "actuator":
            dofs, moments = actuator_moments(m, index)
            if dofs:
                return dofs, dof_coordinates(m)[dofs].tolist(), moments, -1
            joint, weights = int(m.actuator_joint[index]), m.actuator_gear[index]
        else:
            joint, weights = index, np.ones(6)
        dofs = [int(m.joint_v[joint]) + i for i in range(JOINT_NV[JointType(m.joint_type[joint])])]
        turn = int(m.joint_q[joint]) if m.joint_type[joint] == JointType.BALL else -1
        return dofs, dof_coordinates(m)[dofs].tolist(), weights[: len(dofs)].tolist(), turn

    def coordinate_sensors(self, sensors, adr):
        m = self.model
        table = copy(coordinate_sensors.CoordinateSensors, self.types.real)()
        names = {ObjectType.JOINT: "joint", ObjectType.TENDON: "tendon", ObjectType.ACTUATOR: "actuator"}
        rows = [
            (names.get(ObjectType(m.sensor_object_type[s, 0]), "none"), int(m.sensor_object[s, 0])) for s in sensors
        ]
        table.coordinates, table.kind = self.coordinates(rows), self.array(m.sensor_type[sensors])
        limited = {"joint": m.joint_limited, "tendon": m.tendon_limited}
        element = [
            i if m.sensor_type[s] in LIMITS and limited[kind][i] else -1
            for s, (kind, i) in zip(sensors, rows, strict=True)
        ]
        table.element, table.margin = self.array(element), self.array(m.sensor_constants[sensors, 0], self.types.real)
        table.adr = self.array(adr)
        return table

    def subtree_sensors(self, sensors, adr):
        m = self.model
        table = copy(subtree_sensors.SubtreeSensors, self.types.real)()
        ranges = np.array([subtree_links(m, int(body)) for body in m.sensor_object[sensors, 0]]).reshape(-1, 2)
        table.kind, table.adr = self.array(m.sensor_type[sensors]), self.array(adr)
        table.begin, table.end = self.array(ranges[:, 0]), self.array(ranges[:, 1])
        return table

    def energy_sensors(self, sensors, adr):
        m, t = self.model, self.types
        table = copy(subtree_sensors.EnergySensors, t.real)()
        table.kind, table.adr = self.array(m.sensor_type[sensors]), self.array(adr)
        table.tendons = self.coordinates([("tendon", i) for i in range(m.ntendon)])
        table.slack = self.array(m.tendon_reference.reshape(-1, 2), t.vec2)
        return table

    def ray_sensors(self, sensors, adr):
        m = self.model
        table = copy(ray_sensors.RaySensors, self.types.real)()
        table.frames, table.adr = self.frames(sensors), self.array(adr)
        table.data = self.array(m.sensor_constants[sensors, 0])
        table.body = self.array(m.site_body[m.sensor_object[sensors, 0]])
        table.candidate = self.array(np.flatnonzero(m.geom_rgba[:, 3] > 0))
        table.geom_type, table.geom_body, table.geom_link = map(self.array, (m.geom_type, m.geom_body, geom_links(m)))
        return table


def subtree_links(model: Model, body: int) -> tuple[int, int]:
    """(first, past the last) link of a body and what hangs on it; of the world (-1) all links."""
    if body < 0:
        return 0, model.nlink
    first = int(np.flatnonzero(model.link_body == body).min())
    inside = np.zeros(model.nlink, dtype=bool)
    inside[first] = True
    end = first + 1
    while end < model.nlink and model.link_parent[end] >= 0 and inside[model.link_parent[end]]:
        inside[end] = True
        end += 1
    return first, end


def step_columns(model: Model) -> tuple[np.ndarray, int]:
    """Where the numbers of each sensor of `of_step` begin among those, and how many there are."""
    size = model.sensor_size[of_step(model)]
    return np.cumsum(size) - size, int(size.sum())


def columns_of_step(model: Model) -> np.ndarray:
    """`(nsensordata,)` whether a number is of the step that led to a state."""
    found = np.zeros(model.nsensordata, dtype=bool)
    for s in of_step(model):
        found[model.sensor_adr[s] : model.sensor_adr[s] + model.sensor_size[s]] = True
    return found
