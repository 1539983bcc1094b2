# SPDX-License-Identifier: Apache-2.0
"""Sensors of a compiled MuJoCo model: those that can be evaluated, and placeholders for those that cannot."""

import mujoco
import numpy as np

from warpsim.files.mjcf.mjcf_frames import inertial_pose
from warpsim.files.mjcf.mjcf_names import element_names
from warpsim.model.builder import ModelBuilder
from warpsim.model.model import ReportLine
from warpsim.model.sensor_records import CONTACT_DATA, RAY_DATA, REDUCTIONS, given_ends, names_of
from warpsim.model.sensor_types import KINDS, ObjectType, SensorType

RENAMED = {"JOINTACTFRC": "JOINTACTUATORFRC", "TENDONACTFRC": "TENDONACTUATORFRC"}
OBJECTS = {
    "UNKNOWN": ObjectType.NONE,
    "BODY": ObjectType.INERTIA,
    "XBODY": ObjectType.BODY,
    "JOINT": ObjectType.JOINT,
    "GEOM": ObjectType.GEOM,
    "SITE": ObjectType.SITE,
    "CAMERA": ObjectType.CAMERA,
    "TENDON": ObjectType.TENDON,
    "ACTUATOR": ObjectType.ACTUATOR,
}
OF_CONTACT = {"BODY": ObjectType.BODY, "XBODY": ObjectType.SUBTREE}
OF_SUBTREE = {"BODY": ObjectType.BODY}
_FIXED_CAMERA = int(mujoco.mjtCamLight.mjCAMLIGHT_FIXED)
_ADHESION = int(mujoco.mjtTrn.mjTRN_BODY)
_BODY, _XBODY, _CAMERA = (int(getattr(mujoco.mjtObj, f"mjOBJ_{x}")) for x in ("BODY", "XBODY", "CAMERA"))


def sensor_kind(m, s: int) -> SensorType | None:
    """The kind of sensor `s`; None for an unknown kind."""
    name = mujoco.mjtSensor(int(m.sensor_type[s])).name[7:]
    return SensorType.__members__.get(RENAMED.get(name, name))


def sensor_lack(m, s: int) -> str | None:
    """Why sensor `s` cannot be evaluated; None if it can."""
    kind = sensor_kind(m, s)
    if kind is None:
        word = (
            mujoco.mjtSensor(int(m.sensor_type[s]))
            .name[7:]
            .lower()
            .replace("geomdist", "distance")
            .removeprefix("geom")
        )
        return "its values are the user's" if word == "user" else f"sensors of the kind {word} are not evaluated"
    for type, index in ((m.sensor_objtype[s], m.sensor_objid[s]), (m.sensor_reftype[s], m.sensor_refid[s])):
        if type == _CAMERA and index >= 0 and int(m.cam_mode[index]) != _FIXED_CAMERA:
            return "its camera follows what it looks at"
    if kind == SensorType.RANGEFINDER and m.sensor_objtype[s] == _CAMERA:
        return "rays of a camera's pixels are not cast"
    if kind == SensorType.CAMPROJECTION:
        orthographic = np.asarray(getattr(m, "cam_projection", np.zeros(m.ncam)))
        if orthographic[m.sensor_refid[s]] not in (0, b"\0"):
            return "its camera is orthographic"
    if kind == SensorType.ACTUATORVEL and m.actuator_trntype[m.sensor_objid[s]] == _ADHESION:
        return "adhesion has no velocity here"
    if kind == SensorType.JOINTACTUATORFRC and (m.actuator_trntype == _ADHESION).any():
        return "what adhesion does to a joint is not measured"
    return None


def add_sensors(b: ModelBuilder, m, tendons: dict[int, int], actuators: list[int]) -> None:
    """Add the sensors in MuJoCo's order, with lines of the report; those that cannot be evaluated keep their place.

    `tendons` maps MuJoCo's tendon index to the builder's. `actuators` are the MuJoCo indices of the builder's
    actuators.
    """
    places = {ObjectType.TENDON: tendons, ObjectType.ACTUATOR: {a: k for k, a in enumerate(actuators)}}
    missing = 0
    for s, name in enumerate(element_names(m, mujoco.mjtObj.mjOBJ_SENSOR, m.nsensor, "sensor")):
        lack, kind = sensor_lack(m, s), sensor_kind(m, s)
        ends = [] if lack else _ends(m, s, kind, places)
        if None in ends:
            lack = "what it is attached to was left out"
        if lack:
            b.add_sensor(SensorType.UNAVAILABLE, name=name, size=int(m.sensor_dim[s]))
            b.report.append(ReportLine(f"sensor {name!r}", "ignored", f"NaN: {lack}"))
            missing += 1
            continue
        given = given_ends(kind, ends)
        options = _options(m, s, kind)
        datatype, cutoff = int(m.sensor_datatype[s]), float(m.sensor_cutoff[s])
        b.add_sensor(kind, *given, name=name, cutoff=cutoff, datatype=datatype, **options)
    _report(b, m, missing)


def _report(b: ModelBuilder, m, missing: int) -> None:
    """Add lines for what all sensors share."""
    used = m.nsensor - missing
    delayed = np.count_nonzero(getattr(m, "sensor_delay", np.zeros(m.nsensor)))
    sampled = sum(np.any(x) for x in getattr(m, "sensor_interval", np.zeros((m.nsensor, 1))))
    for feature, status, count, why in (
        ("sensors", "used", used, ""),
        (
            "noise of sensors",
            "ignored",
            np.count_nonzero(m.sensor_noise),
            "add it to the values, or with `noisy` in environments",
        ),
        ("delay of sensors", "ignored", delayed, "`late` delays observations of environments"),
        ("interval of sensors", "ignored", sampled, "they are evaluated where they are asked for"),
    ):
        if count:
            text = f"{count} sensor{'s' * (count != 1)}" + (f": {why}" if why else "")
            b.report.append(ReportLine(feature, status, text))


def _ends(m, s: int, kind: SensorType, places) -> list[tuple[ObjectType, int] | None]:
    """The objects that a sensor is attached to and relative to, by builder index; None for one that is left out."""
    found: list = []
    special = (
        OF_CONTACT if kind == SensorType.CONTACT else OF_SUBTREE if KINDS[kind].objects == (ObjectType.BODY,) else {}
    )
    for type, index in ((m.sensor_objtype[s], m.sensor_objid[s]), (m.sensor_reftype[s], m.sensor_refid[s])):
        word = mujoco.mjtObj(int(type)).name[6:]
        mine, place = (OBJECTS | special)[word], int(index)
        if place < 0:
            found.append((ObjectType.NONE, -1))
        elif mine in places:
            found.append((mine, places[mine][place]) if place in places[mine] else None)
        else:
            found.append((mine, place - 1 if int(type) in (_BODY, _XBODY) else place))
    return found


def _options(m, s: int, kind: SensorType) -> dict:
    first, second, third = (int(x) for x in m.sensor_intprm[s][:3]) if hasattr(m, "sensor_intprm") else (1, 0, 1)
    index, reference = int(m.sensor_objid[s]), int(m.sensor_refid[s])
    if kind == SensorType.MAGNETOMETER:
        return {"field": np.array(m.opt.magnetic)}
    if kind == SensorType.RANGEFINDER:
        return {"data": names_of(RAY_DATA, first or 1)}
    if kind == SensorType.CONTACT:
        return {"data": names_of(CONTACT_DATA, first), "reduce": REDUCTIONS[second], "num": third}
    if kind == SensorType.CAMPROJECTION and np.all(m.cam_sensorsize[reference]):
        focal = m.cam_intrinsic[reference][:2] / m.cam_sensorsize[reference] * m.cam_resolution[reference]
        return {"focal": focal}
    if kind in (SensorType.JOINTLIMITPOS, SensorType.JOINTLIMITVEL):
        return {"margin": float(m.jnt_margin[index])}
    if kind in (SensorType.TENDONLIMITPOS, SensorType.TENDONLIMITVEL):
        return {"margin": float(m.tendon_margin[index])}
    ends = (m.sensor_objtype[s], index), (m.sensor_reftype[s], reference)
    if ObjectType.INERTIA in KINDS[kind].objects:
        return {"frames": tuple(inertial_pose(m, place)[3:] if type == _BODY else None for type, place in ends)}
    return {}
