# SPDX-License-Identifier: Apache-2.0
"""What our stages keep of a model that UsdPhysics has no schema for: the medium, ranges of what several actuators do, cameras and sensors.
Part of the world's data (`usd_extra.world_data`)."""

import numpy as np

from warpsim.model.model import Model
from warpsim.model.sensor_records import make_sensor, sensor_arguments
from warpsim.model.sensor_types import ObjectType, SensorType


def rest_data(model: Model) -> dict:
    """Those of them that the model has."""
    found: dict = {}
    if model.has_fluid or np.any(model.wind):
        found["medium"] = {"density": model.fluid_density, "viscosity": model.fluid_viscosity, "wind": model.wind}
    efforts = (
        ("joint", model.joint_names, model.joint_effort_range),
        ("tendon", model.tendon_names, model.tendon_effort_range),
    )
    limits = [
        [key, names[i], *map(float, ranges[i]), key == "joint" and bool(model.joint_effort_gravity[i])]
        for key, names, ranges in efforts
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
    keys = ("type", "object_type", "size", "cutoff", "datatype", "constants")
    ends = zip(model.sensor_object_type[s], model.sensor_object[s].tolist(), strict=True)
    named = [
        model.joint_names[i] if t == ObjectType.JOINT else i for t, i in ends
    ]  # a builder's joints have another order
    return {"name": model.sensor_names[s], "object": named} | {key: getattr(model, f"sensor_{key}")[s] for key in keys}


def add_medium_and_cameras(b, own: dict) -> None:
    """Medium and cameras of a stage that we wrote; `b` has its bodies and geoms."""
    if medium := own.get("medium"):
        b.density, b.viscosity = float(medium.get("density", 0.0)), float(medium.get("viscosity", 0.0))
        b.wind = np.array(medium.get("wind", np.zeros(3)), float)
    for camera in own.get("cameras", []):
        if int(camera["body"]) < len(b.bodies):
            b.add_camera(**camera)


def add_rest(b, own: dict) -> None:
    """Ranges of efforts, and sensors; `b` has all else."""
    for key, name, low, high, gravity in own.get("effort_limits", []):
        if name in {item.name for item in (b.joints if key == "joint" else b.tendons)}:
            b.add_effort_limit(**{str(key): name}, range=(low, high), gravity_compensation=bool(gravity))
    for data in own.get("sensors", []):
        kind = SensorType(data["type"])
        ends = [
            (ObjectType(t), i if isinstance(i, str) else int(i))
            for t, i in zip(data["object_type"], data["object"], strict=True)
        ]
        constants = np.array(data["constants"], float)
        given, options = sensor_arguments(kind, ends, constants, int(data["size"]))
        b.sensors.append(make_sensor(b, data["name"], kind, *given, data["cutoff"], data["datatype"], options))
