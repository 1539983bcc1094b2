# SPDX-License-Identifier: Apache-2.0
"""Tables of a model's sensors on the device, one per kernel that measures them (`kernels/sensors/`)."""

import numpy as np
import warp as wp

from warpsim.contact.collision import geom_links
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
    """Makes tables for sensors given by their indices. `adr`: the first column of each sensor in the array that is
    written.

    `lines`: a `MeasuredLines`, for models with lines.
    """

    def __init__(self, device_model: DeviceModel, lines=None):
        self.lines = lines
        self.device_model, self.model, self.types = device_model, device_model.model, device_model.types

    def frames(self, sensors):
        """`frame_sensors.Frames` of the objects and references of these sensors."""
        m = self.model
        link, geom, body = (np.full((len(sensors), 2), -1) for _ in range(3))
        pose = np.tile(IDENTITY, (len(sensors), 2, 1))
        for row, s in enumerate(sensors):
            for end in range(2):
                found = self._end(ObjectType(m.sensor_object_type[s, end]), int(m.sensor_object[s, end]))
                link[row, end], geom[row, end], body[row, end], pose[row, end] = found
                if m.sensor_object_type[s, end] == ObjectType.INERTIA:
                    pose[row, end, 3:] = m.sensor_constants[s, 4 * end : 4 * end + 4]
        pose = pose[..., [0, 1, 2, 4, 5, 6, 3]]
        return self.device_model.struct(frame_sensors.Frames, link=link, geom=geom, body=body, pose=pose)

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
        m = self.model
        constants, zone, size = np.zeros((len(sensors), 4)), np.zeros(len(sensors)), np.ones((len(sensors), 3))
        for row, s in enumerate(sensors):
            kind, reference = m.sensor_type[s], int(m.sensor_object[s, 1])
            if kind == K.MAGNETOMETER:
                constants[row, :3] = m.sensor_constants[s, :3]
            elif kind == K.CAMPROJECTION:
                constants[row] = *m.sensor_constants[s, :2], *(0.5 * m.camera_resolution[reference])
            elif kind == K.INSIDESITE:
                zone[row], size[row] = m.site_type[reference], m.site_size[reference]
        table = {"frames": self.frames(sensors), "kind": m.sensor_type[sensors], "adr": adr, "constants": constants}
        return self.device_model.struct(frame_sensors.FrameSensors, zone=zone, size=size, **table)

    def coordinates(self, rows):
        """`coordinate_sensors.Coordinates` of rows ("joint", "tendon" or "actuator", index)."""
        supports = [self._support(*row) for row in rows]
        width = max((len(x[0]) for x in supports), default=0) or 1
        on = [(-1, 0.0) if self.lines is None else self.lines.row(*row) for row in rows]
        none = wp.zeros((self.device_model.worlds, 0), dtype=self.types.real, device=self.device_model.device)
        return self.device_model.struct(
            coordinate_sensors.Coordinates,
            support_size=[len(x[0]) for x in supports],
            v=padded([x[0] for x in supports], width, np.int32),
            q=padded([x[1] for x in supports], width, np.int32),
            a=padded([x[2] for x in supports], width, float),
            turn=[x[3] for x in supports],
            line=[x[0] for x in on],
            gear=[x[1] for x in on],
            line_length=none if self.lines is None else self.lines.length,
            line_rate=none if self.lines is None else self.lines.rate,
        )

    def _support(self, kind: str, index: int) -> tuple[list, list, list, int]:
        """(degrees of freedom, coordinates or −1, weights, quaternion or −1). Empty for elements on a line and for
        adhesion."""
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
        names = {ObjectType.JOINT: "joint", ObjectType.TENDON: "tendon", ObjectType.ACTUATOR: "actuator"}
        rows = [
            (names.get(ObjectType(m.sensor_object_type[s, 0]), "none"), int(m.sensor_object[s, 0])) for s in sensors
        ]
        limited = {"joint": m.joint_limited, "tendon": m.tendon_limited}
        element = [
            i if m.sensor_type[s] in LIMITS and limited[kind][i] else -1
            for s, (kind, i) in zip(sensors, rows, strict=True)
        ]
        return self.device_model.struct(
            coordinate_sensors.CoordinateSensors,
            coordinates=self.coordinates(rows),
            kind=m.sensor_type[sensors],
            element=element,
            margin=m.sensor_constants[sensors, 0],
            adr=adr,
        )

    def subtree_sensors(self, sensors, adr):
        m = self.model
        begin, end = np.array([subtree_links(m, int(body)) for body in m.sensor_object[sensors, 0]]).reshape(-1, 2).T
        kind = m.sensor_type[sensors]
        return self.device_model.struct(subtree_sensors.SubtreeSensors, kind=kind, adr=adr, begin=begin, end=end)

    def energy_sensors(self, sensors, adr):
        m = self.model
        tendons, slack = self.coordinates([("tendon", i) for i in range(m.ntendon)]), m.tendon_reference.reshape(-1, 2)
        known = {"kind": m.sensor_type[sensors], "adr": adr}
        return self.device_model.struct(subtree_sensors.EnergySensors, tendons=tendons, slack=slack, **known)

    def ray_sensors(self, sensors, adr):
        m = self.model
        return self.device_model.struct(
            ray_sensors.RaySensors,
            frames=self.frames(sensors),
            adr=adr,
            data=m.sensor_constants[sensors, 0],
            body=m.site_body[m.sensor_object[sensors, 0]],
            candidate=np.flatnonzero(m.geom_rgba[:, 3] > 0),
            geom_type=m.geom_type,
            geom_body=m.geom_body,
            geom_link=geom_links(m),
        )


def subtree_links(model: Model, body: int) -> tuple[int, int]:
    """(first link, one past the last) of a body's subtree; all links for the world (−1)."""
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
    """The first column of each sensor of `of_step` among the numbers of a step, and how many numbers there are."""
    size = model.sensor_size[of_step(model)]
    return np.cumsum(size) - size, int(size.sum())


def columns_of_step(model: Model) -> np.ndarray:
    """`(nsensordata,)` whether a number belongs to the step that led to a state."""
    found = np.zeros(model.nsensordata, dtype=bool)
    for s in of_step(model):
        found[model.sensor_adr[s] : model.sensor_adr[s] + model.sensor_size[s]] = True
    return found
