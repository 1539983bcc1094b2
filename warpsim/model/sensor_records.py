# SPDX-License-Identifier: Apache-2.0
"""Sensors of a `ModelBuilder`: checked when added, compiled into a `Model`'s tables, appended from another model."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from warpsim.base.checks import number, short, whole
from warpsim.base.errors import ModelError, named
from warpsim.model.builder_records import with_mass
from warpsim.model.builder_values import unit_of, vector_of
from warpsim.model.columns import columns
from warpsim.model.geometry import matrix_quaternion
from warpsim.model.model import JointType, Model
from warpsim.model.sensor_types import (
    CONTACT_DATA,
    FRAMES,
    KINDS,
    RAY_DATA,
    REDUCTIONS,
    DataType,
    ObjectType,
    SensorType,
    data_size,
)

if TYPE_CHECKING:
    from warpsim.model.placement import Placement

CONSTANTS = 8  # columns of `Model.sensor_constants`
MAGNETIC_FIELD = (0.0, -0.5, 0.0)  # MuJoCo's default
# Options of each kind, and their defaults; see `ModelBuilder.add_sensor`.
OPTIONS: dict[SensorType, dict] = {
    SensorType.MAGNETOMETER: {"field": MAGNETIC_FIELD},
    SensorType.RANGEFINDER: {"data": ("dist",)},
    SensorType.CONTACT: {"data": ("found",), "reduce": "none", "num": 1},
    SensorType.CAMPROJECTION: {"focal": None},
    SensorType.JOINTLIMITPOS: {"margin": 0.0},
    SensorType.JOINTLIMITVEL: {"margin": 0.0},
    SensorType.TENDONLIMITPOS: {"margin": 0.0},
    SensorType.TENDONLIMITVEL: {"margin": 0.0},
    SensorType.UNAVAILABLE: {"size": 1},
}


@dataclasses.dataclass
class Sensor:
    name: str
    type: SensorType
    objects: tuple[tuple[ObjectType, int], tuple[ObjectType, int]]  # the object and the reference
    cutoff: float
    datatype: DataType
    size: int
    constants: np.ndarray


def kind_called(kind, label: str) -> SensorType:
    """The type of sensor with this name."""
    names = {member.name.lower(): member for member in SensorType}
    found = kind if isinstance(kind, SensorType) else names.get(kind.lower()) if isinstance(kind, str) else None
    if found is None:
        raise ModelError(f"{label}: unknown kind {short(kind)}; use one of {', '.join(names)}")
    return found


def make_sensor(b, name: str, kind, object, reference, cutoff, datatype, options: dict) -> Sensor:
    """A checked sensor of builder `b`; see `ModelBuilder.add_sensor`."""
    label = f"sensor {name!r}"
    type = kind_called(kind, label)
    known, rules = OPTIONS.get(type, {}), KINDS[type]
    inertial = {"frames"} if ObjectType.INERTIA in rules.objects else set()
    for key in options:
        if key not in known and key not in inertial:
            allowed = f"it takes {', '.join(sorted({*known, *inertial}))}" if known or inertial else "it takes none"
            raise ModelError(f"{label}: option {key} means nothing for a {type.name.lower()}; {allowed}")
    ends = (_end(b, object, rules.objects, label, "object"), _end(b, reference, rules.references, label, "reference"))
    _refuse_joint(b, type, ends[0], label)
    cutoff = number(
        cutoff, f"{label}: cutoff", "give a number of at least 0 (0: none)", lambda x: 0 <= x < np.inf, ModelError
    )
    size, constants = _constants(b, type, ends, known | options, label)
    datatype = rules.datatype if datatype is None else DataType(datatype)
    return Sensor(name, type, ends, cutoff, datatype, size, constants)


def _end(b, given, allowed, label: str, word: str) -> tuple[ObjectType, int]:
    """(type, index) of an object given by name or index, or by (type, name) where several types are allowed."""
    if given is None:
        if ObjectType.NONE not in allowed:
            raise ModelError(f"{label}: give its {word}, {_wanted(allowed)}")
        return ObjectType.NONE, -1
    types = [x for x in allowed if x != ObjectType.NONE]
    names = {x.name.lower(): x for x in types}
    if isinstance(given, (tuple, list)):
        if len(given) != 2 or not (given[0] in types or given[0] in names):
            raise ModelError(f"{label}: {word} {short(given)}; give {_wanted(allowed)}")
        type, key = names.get(given[0], given[0]), given[1]
    elif len(types) == 1:
        type, key = types[0], given
    else:
        raise ModelError(f"{label}: {word} {short(given)}; give {_wanted(allowed)}")
    with named(label):
        return ObjectType(type), _index(b, ObjectType(type), key)


def _wanted(allowed) -> str:
    names = [x.name.lower() for x in allowed if x != ObjectType.NONE]
    if not names:
        return "nothing: this kind has none"
    return f"the name of a {names[0]}" if len(names) == 1 else f"(type, name), the type one of {', '.join(names)}"


def _index(b, type: ObjectType, key) -> int:
    return b._body(key) if type.element == "body" else b._find(type.element, key, type.items(b))


def _refuse_joint(b, type: SensorType, end, label: str) -> None:
    """Refuse a joint of a type that the kind of sensor cannot measure."""
    if end[0] != ObjectType.JOINT:
        return
    joint, ball = b.joints[end[1]], type in (SensorType.BALLQUAT, SensorType.BALLANGVEL)
    limit = type in (SensorType.JOINTLIMITPOS, SensorType.JOINTLIMITVEL, SensorType.JOINTLIMITFRC)
    fits = {JointType.BALL} if ball else {JointType.HINGE, JointType.SLIDE}
    fits |= {JointType.BALL} if limit else set()
    if joint.type not in fits:
        wanted = " or ".join(x.name.lower() for x in sorted(fits))
        raise ModelError(
            f"{label}: a {type.name.lower()} measures a {wanted}, but joint {joint.name!r} is {joint.type.name.lower()}"
        )


def _constants(b, type: SensorType, ends, options: dict, label: str) -> tuple[int, np.ndarray]:
    """Number of values of the sensor, and the constants that its kind keeps of its options.

    - frame sensors: rotations (qw qx qy qz) of the inertial frames of object and reference in their bodies
    - magnetometer: the field
    - camprojection: focal lengths in pixels
    - joint and tendon limits: the margin
    - rangefinder: the bits of its data
    - contact: the bits of its data, how it reduces, and how many contacts it gives
    """
    constants, size = np.zeros(CONSTANTS), KINDS[type].size
    if type == SensorType.MAGNETOMETER:
        constants[:3] = vector_of(options["field"], 3, f"{label}: field")
    elif type == SensorType.CAMPROJECTION:
        constants[:2] = _focal(b.cameras[ends[1][1]], options["focal"], label)
    elif "margin" in options:
        constants[0] = number(options["margin"], f"{label}: margin", error=ModelError)
    elif type == SensorType.RANGEFINDER:
        constants[0] = _bits(options["data"], RAY_DATA, label)
        size = data_size(RAY_DATA, int(constants[0]))
    elif type == SensorType.CONTACT:
        if options["reduce"] not in REDUCTIONS:
            raise ModelError(f"{label}: reduce is {short(options['reduce'])}; use one of {', '.join(REDUCTIONS)}")
        moving = [name for name in names_of(CONTACT_DATA, _bits(options["data"], CONTACT_DATA, label)) if "vel" in name]
        if options["reduce"] == "netforce" and moving:
            raise ModelError(f"{label}: netforce has no {moving[0]}; leave it out of data, or reduce in another way")
        count = whole(options["num"], f"{label}: num", 1, ModelError)
        constants[:3] = _bits(options["data"], CONTACT_DATA, label), REDUCTIONS.index(options["reduce"]), count
        size = count * data_size(CONTACT_DATA, int(constants[0]))
    elif type == SensorType.UNAVAILABLE:
        size = whole(options["size"], f"{label}: size", 0, ModelError)
    elif set(KINDS[type].objects) & set(FRAMES):
        frames = options.get("frames", (None, None))
        for k, (kind, body) in enumerate(ends):
            constants[4 * k : 4 * k + 4] = 1.0, 0.0, 0.0, 0.0
            if kind == ObjectType.INERTIA and body >= 0:
                constants[4 * k : 4 * k + 4] = _inertial(b, body, frames[k], label)
    return size, constants


def _inertial(b, body: int, rotation, label: str) -> np.ndarray:
    """Rotation of a body's inertial frame; by default its principal axes, the largest moment first."""
    if rotation is not None:
        return unit_of(vector_of(rotation, 4, f"{label}: frames"), f"{label}: frames")
    _, axes = np.linalg.eigh(with_mass(b, body).inertia)
    axes = axes[:, ::-1].copy()
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return matrix_quaternion(axes)


def _focal(camera, focal, label: str) -> np.ndarray:
    """Focal lengths in pixels: the given ones, or those of the vertical angle of view."""
    if focal is not None:
        return vector_of(focal, 2, f"{label}: focal")
    return np.full(2, 0.5 / np.tan(0.5 * camera.fovy) * camera.resolution[1])


def _bits(data, table: dict[str, int], label: str) -> int:
    names = (data,) if isinstance(data, str) else tuple(data)
    bad = [name for name in names if name not in table]
    if bad or not names:
        raise ModelError(f"{label}: data is {short(data)}; give one or more of {', '.join(table)}")
    return sum(1 << list(table).index(name) for name in dict.fromkeys(names))


def options_of(type: SensorType, constants: np.ndarray, size: int) -> dict:
    """The options that give these constants."""
    bits = int(constants[0])
    if type == SensorType.MAGNETOMETER:
        return {"field": constants[:3]}
    if type == SensorType.CAMPROJECTION:
        return {"focal": constants[:2]}
    if "margin" in OPTIONS.get(type, {}):
        return {"margin": constants[0]}
    if type == SensorType.RANGEFINDER:
        return {"data": names_of(RAY_DATA, bits)}
    if type == SensorType.CONTACT:
        return {"data": names_of(CONTACT_DATA, bits), "reduce": REDUCTIONS[int(constants[1])], "num": int(constants[2])}
    if type == SensorType.UNAVAILABLE:
        return {"size": size}
    if ObjectType.INERTIA in KINDS[type].objects:
        return {"frames": (constants[:4], constants[4:])}
    return {}


def names_of(table: dict[str, int], bits: int) -> tuple[str, ...]:
    """The names of the data that `bits` selects."""
    return tuple(name for place, name in enumerate(table) if bits >> place & 1)


def compile_sensors(b, joint_order) -> dict:
    """The sensor fields of a `Model`; `joint_order` gives the model's index of each of the builder's joints."""
    ends = []
    for sensor in b.sensors:
        ends.append([(int(t), joint_order[i] if t == ObjectType.JOINT else i) for t, i in sensor.objects])
    table = np.array(ends, dtype=np.int32).reshape(-1, 2, 2)
    found = columns("sensor", b.sensors)
    return found | {
        "sensor_names": tuple(s.name for s in b.sensors),
        "sensor_object_type": table[:, :, 0].copy(),
        "sensor_object": table[:, :, 1].copy(),
        "sensor_adr": (np.cumsum(found["sensor_size"]) - found["sensor_size"]).astype(np.int32),
    }


def append_sensors(b, other: Model, at: "Placement") -> None:
    """Add the sensors of a model.

    Sensors that measure in the model's world, or all of it, then measure in the builder's world, or all of that. A
    contact sensor of the model's world body refers to body `at.parent`.
    """
    for s, name in enumerate(other.sensor_names):
        type, ends = SensorType(other.sensor_type[s]), []
        for kind, index in zip(other.sensor_object_type[s], other.sensor_object[s], strict=True):
            kind, index = ObjectType(kind), int(index)
            world = at.parent if (kind, type) == (ObjectType.BODY, SensorType.CONTACT) else -1
            ends.append((kind, world if index < 0 or kind == ObjectType.NONE else at.of(kind, index)))
        given, options = sensor_arguments(type, ends, other.sensor_constants[s], int(other.sensor_size[s]))
        more = {"cutoff": other.sensor_cutoff[s], "datatype": other.sensor_datatype[s]}
        b.add_sensor(type, *given, name=at.prefix + name, **more, **options)


def sensor_arguments(type: SensorType, ends, constants: np.ndarray, size: int) -> tuple[list, dict]:
    """A model's sensor as arguments of `ModelBuilder.add_sensor`: object and reference, and options."""
    return given_ends(type, ends), options_of(type, constants, size)


def given_ends(type: SensorType, ends) -> list:
    """Object and reference as `ModelBuilder.add_sensor` takes them."""
    given: list = [None if kind == ObjectType.NONE else (kind, index) for kind, index in ends]
    for k, allowed in enumerate((KINDS[type].objects, KINDS[type].references)):
        if given[k] is not None and len([x for x in allowed if x]) == 1:
            given[k] = given[k][1]
    return given
