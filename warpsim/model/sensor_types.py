# SPDX-License-Identifier: Apache-2.0
"""Types of sensors, named as in MJCF: what each is attached to, its number of values, and its stage of a step."""

import dataclasses
import enum


class Stage(enum.IntEnum):
    """What a sensor reads: positions or velocities of a state, or accelerations and forces of the last step."""

    POSITION = 1
    VELOCITY = 2
    ACCELERATION = 3


class DataType(enum.IntEnum):
    """How a cutoff clamps: real values at both ends, positive values above, axes and quaternions not at all.

    The numbers are MuJoCo's.
    """

    REAL = 0
    POSITIVE = 1
    AXIS = 2
    QUATERNION = 3


class ObjectType(enum.IntEnum):
    """What a sensor is attached to.

    BODY is the body's frame, INERTIA its principal axes at the center of mass, SUBTREE the body and all its
    descendants.
    """

    NONE = 0
    BODY = 1
    INERTIA = 2
    SUBTREE = 3
    JOINT = 4
    GEOM = 5
    SITE = 6
    CAMERA = 7
    TENDON = 8
    ACTUATOR = 9

    @property
    def element(self) -> str:
        """The element that it is or belongs to; "body" also for an inertia and a subtree."""
        return "body" if self in (ObjectType.BODY, ObjectType.INERTIA, ObjectType.SUBTREE) else self.name.lower()

    def items(self, b) -> list:
        """All elements of this type in a builder."""
        return getattr(b, "bodies" if self.element == "body" else f"{self.element}s")


class SensorType(enum.IntEnum):
    """Types of sensors by MJCF's names. UNAVAILABLE stands for a sensor that is not evaluated; its values are NaN."""

    TOUCH = 0
    ACCELEROMETER = 1
    VELOCIMETER = 2
    GYRO = 3
    FORCE = 4
    TORQUE = 5
    MAGNETOMETER = 6
    RANGEFINDER = 7
    CAMPROJECTION = 8
    JOINTPOS = 9
    JOINTVEL = 10
    TENDONPOS = 11
    TENDONVEL = 12
    ACTUATORPOS = 13
    ACTUATORVEL = 14
    ACTUATORFRC = 15
    JOINTACTUATORFRC = 16
    TENDONACTUATORFRC = 17
    BALLQUAT = 18
    BALLANGVEL = 19
    JOINTLIMITPOS = 20
    JOINTLIMITVEL = 21
    JOINTLIMITFRC = 22
    TENDONLIMITPOS = 23
    TENDONLIMITVEL = 24
    TENDONLIMITFRC = 25
    FRAMEPOS = 26
    FRAMEQUAT = 27
    FRAMEXAXIS = 28
    FRAMEYAXIS = 29
    FRAMEZAXIS = 30
    FRAMELINVEL = 31
    FRAMEANGVEL = 32
    FRAMELINACC = 33
    FRAMEANGACC = 34
    SUBTREECOM = 35
    SUBTREELINVEL = 36
    SUBTREEANGMOM = 37
    INSIDESITE = 38
    CONTACT = 39
    E_POTENTIAL = 40
    E_KINETIC = 41
    CLOCK = 42
    UNAVAILABLE = 43


FRAMES = (ObjectType.BODY, ObjectType.INERTIA, ObjectType.GEOM, ObjectType.SITE, ObjectType.CAMERA)
MATCHED = (ObjectType.GEOM, ObjectType.BODY, ObjectType.SUBTREE)  # object types that contacts are matched with
NOTHING = (ObjectType.NONE,)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Properties of a type of sensor.

    `size`: number of values, 0 where options set it. `objects`, `references`: the types it may be attached to, and
    measure relative to; with NONE the argument may be left out.
    """

    size: int
    stage: Stage
    objects: tuple[ObjectType, ...]
    references: tuple[ObjectType, ...] = NOTHING
    datatype: DataType = DataType.REAL


_SITE, _JOINT, _TENDON = (ObjectType.SITE,), (ObjectType.JOINT,), (ObjectType.TENDON,)
_ACTUATOR, _BODY = (ObjectType.ACTUATOR,), (ObjectType.BODY,)
_P, _V, _A = Stage.POSITION, Stage.VELOCITY, Stage.ACCELERATION
_RELATIVE = (*NOTHING, *FRAMES)

KINDS: dict[SensorType, Kind] = {
    SensorType.TOUCH: Kind(1, _A, _SITE, datatype=DataType.POSITIVE),
    SensorType.ACCELEROMETER: Kind(3, _A, _SITE),
    SensorType.VELOCIMETER: Kind(3, _V, _SITE),
    SensorType.GYRO: Kind(3, _V, _SITE),
    SensorType.FORCE: Kind(3, _A, _SITE),
    SensorType.TORQUE: Kind(3, _A, _SITE),
    SensorType.MAGNETOMETER: Kind(3, _P, _SITE),
    SensorType.RANGEFINDER: Kind(0, _P, _SITE),
    SensorType.CAMPROJECTION: Kind(2, _P, _SITE, (ObjectType.CAMERA,)),
    SensorType.JOINTPOS: Kind(1, _P, _JOINT),
    SensorType.JOINTVEL: Kind(1, _V, _JOINT),
    SensorType.TENDONPOS: Kind(1, _P, _TENDON),
    SensorType.TENDONVEL: Kind(1, _V, _TENDON),
    SensorType.ACTUATORPOS: Kind(1, _P, _ACTUATOR),
    SensorType.ACTUATORVEL: Kind(1, _V, _ACTUATOR),
    SensorType.ACTUATORFRC: Kind(1, _A, _ACTUATOR),
    SensorType.JOINTACTUATORFRC: Kind(1, _A, _JOINT),
    SensorType.TENDONACTUATORFRC: Kind(1, _A, _TENDON),
    SensorType.BALLQUAT: Kind(4, _P, _JOINT, datatype=DataType.QUATERNION),
    SensorType.BALLANGVEL: Kind(3, _V, _JOINT),
    SensorType.JOINTLIMITPOS: Kind(1, _P, _JOINT),
    SensorType.JOINTLIMITVEL: Kind(1, _V, _JOINT),
    SensorType.JOINTLIMITFRC: Kind(1, _A, _JOINT),
    SensorType.TENDONLIMITPOS: Kind(1, _P, _TENDON),
    SensorType.TENDONLIMITVEL: Kind(1, _V, _TENDON),
    SensorType.TENDONLIMITFRC: Kind(1, _A, _TENDON),
    SensorType.FRAMEPOS: Kind(3, _P, FRAMES, _RELATIVE),
    SensorType.FRAMEQUAT: Kind(4, _P, FRAMES, _RELATIVE, DataType.QUATERNION),
    SensorType.FRAMEXAXIS: Kind(3, _P, FRAMES, _RELATIVE, DataType.AXIS),
    SensorType.FRAMEYAXIS: Kind(3, _P, FRAMES, _RELATIVE, DataType.AXIS),
    SensorType.FRAMEZAXIS: Kind(3, _P, FRAMES, _RELATIVE, DataType.AXIS),
    SensorType.FRAMELINVEL: Kind(3, _V, FRAMES, _RELATIVE),
    SensorType.FRAMEANGVEL: Kind(3, _V, FRAMES, _RELATIVE),
    SensorType.FRAMELINACC: Kind(3, _A, FRAMES),
    SensorType.FRAMEANGACC: Kind(3, _A, FRAMES),
    SensorType.SUBTREECOM: Kind(3, _P, _BODY),
    SensorType.SUBTREELINVEL: Kind(3, _V, _BODY),
    SensorType.SUBTREEANGMOM: Kind(3, _V, _BODY),
    SensorType.INSIDESITE: Kind(1, _P, FRAMES, _SITE, DataType.POSITIVE),
    SensorType.CONTACT: Kind(0, _A, (*NOTHING, *MATCHED, ObjectType.SITE), (*NOTHING, *MATCHED)),
    SensorType.E_POTENTIAL: Kind(1, _P, NOTHING),
    SensorType.E_KINETIC: Kind(1, _V, NOTHING),
    SensorType.CLOCK: Kind(1, _P, NOTHING),
    SensorType.UNAVAILABLE: Kind(0, _P, NOTHING),
}

# Data that a rangefinder and a contact sensor can give, in this order: name -> number of values. The index is the bit
# in their `data`.
RAY_DATA = {"dist": 1, "dir": 3, "origin": 3, "point": 3, "normal": 3, "depth": 1}
CONTACT_DATA = {
    "found": 1,
    "force": 3,
    "torque": 3,
    "dist": 1,
    "pos": 3,
    "normal": 3,
    "tangent": 3,
    "linvel": 3,
    "angvel": 3,
}
REDUCTIONS = ("none", "mindist", "maxforce", "netforce")

# Sensors computed from impulses: of contacts, or of scalar rows.
OF_IMPULSES = (SensorType.TOUCH, SensorType.FORCE, SensorType.TORQUE, SensorType.CONTACT)
OF_IMPULSES += (SensorType.JOINTLIMITFRC, SensorType.TENDONLIMITFRC)
# Sensors of actuator forces at the start of a step, recomputed when the control changes.
OF_ACTUATORS = (SensorType.ACTUATORFRC, SensorType.JOINTACTUATORFRC, SensorType.TENDONACTUATORFRC)


def data_size(table: dict[str, int], bits: int) -> int:
    """Number of values of the data that `bits` selects."""
    return sum(size for place, size in enumerate(table.values()) if bits >> place & 1)
