# SPDX-License-Identifier: Apache-2.0
"""What our stages keep of a model that UsdPhysics has no schema for: the medium, ranges of what several actuators do, cameras and sensors.
Part of the world's data (`usd_extra.world_data`)."""

import numpy as np

from warpsim.model.actuators import EffortLimit
from warpsim.model.model import Model
from warpsim.model.sensor_records import make_sensor, sensor_arguments
from warpsim.model.sensor_types import ObjectType, SensorType


def rest_data(model: Model) -> dict:
    """Those of them that the model has."""
    found: dict = {}
    if model.has_fluid:
        found["medium"] = {"density": model.fluid_density, "viscosity": model.fluid_viscosity, "wind": model.wind}
    limits = [
        [key, int(i), *map(float, ranges[i]), key == "joint" and bool(model.joint_effort_gravity[i])]
        for key, ranges in (("joint", model.joint_effort_range), ("tendon", model.tendon_effort_range))
        for i in np.flatnonzero(np.isfinite(ranges).any(1))
    ]
    found |= {"effort_limits": limits} if limits else {}
    if model.ncamera:
        columns = zip(model.camera_body, model.camera_pose, model.camera_fovy, model.camera_resolution, strict=True)
        keys = ("body", "pose", "fovy", "resolution")
        cameras = [dict(zip(keys, row, strict=True)) for row in columns]
        found["cameras"] = [{"name": n} | camera for n, camera in zip(model.camera_names, cameras, strict=True)]
    if model.nsensor:
        found["sensors"] = [_sensor(model, s) for s in range(model.nsensor)]
    return found


def _sensor(model: Model, s: int) -> dict:
    keys = ("type", "object_type", "object", "size", "cutoff", "datatype", "constants")
    return {"name": model.sensor_names[s]} | {key: getattr(model, f"sensor_{key}")[s] for key in keys}


def add_medium_and_cameras(b, own: dict) -> None:
    """Medium and cameras of a stage that we wrote; `b` has its bodies and geoms."""
    medium = own.get("medium", {})
    b.density, b.viscosity = float(medium.get("density", 0.0)), float(medium.get("viscosity", 0.0))
    b.wind = np.array(medium.get("wind", np.zeros(3)), float)
    for camera in own.get("cameras", []):
        if int(camera["body"]) < len(b.bodies):
            b.add_camera(**camera)


def add_rest(b, own: dict) -> None:
    """Ranges of efforts, and sensors; `b` has all else."""
    for key, index, low, high, gravity in own.get("effort_limits", []):
        joint, tendon = (int(index), -1) if key == "joint" else (-1, int(index))
        if max(joint, tendon) < len(b.joints if tendon < 0 else b.tendons):
            b.effort_limits.append(EffortLimit(joint, tendon, np.array([low, high], float), bool(gravity)))
    for data in own.get("sensors", []):
        kind = SensorType(data["type"])
        ends = [(ObjectType(t), int(i)) for t, i in zip(data["object_type"], data["object"], strict=True)]
        constants = np.array(data["constants"], float)
        given, options = sensor_arguments(kind, ends, constants, int(data["size"]))
        b.sensors.append(make_sensor(b, data["name"], kind, *given, data["cutoff"], data["datatype"], options))
