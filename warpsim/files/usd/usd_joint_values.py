# SPDX-License-Identifier: Apache-2.0
"""What Newton's, PhysX's and MuJoCo's USD schemas say of a joint beyond UsdPhysics.

These are armature, dry friction, damping, a spring, efforts, the initial state, and the joint that it mimics. The
attributes are:

- `newton:*` of NewtonJointAPI and NewtonMimicAPI
- `mjc:*` of MjcJointAPI and MjcEqualityJointAPI
- `physxJoint:*`, `physxJointAxis:*` and `physxMimicJoint:*`
- `state:*` of PhysicsJointStateAPI

Newton's and PhysX's angles are in degrees. MuJoCo's gains are per radian, and its angles follow `mjc:compiler:angle`.
"""

import dataclasses

import numpy as np
from numpy.polynomial import Polynomial

from warpsim.files.usd.usd_authored import applied
from warpsim.model.builder_names import free_name
from warpsim.model.model import ReportLine

DEGREE = np.pi / 180
MIMICS = ("rotX", "rotY", "rotZ", "transX", "transY", "transZ", "angular", "linear")


@dataclasses.dataclass
class Values:
    """Values of one freedom of a joint, in SI.

    `position` and `velocity` are the initial ones if they are given; `offset` is the origin of MuJoCo's positions.
    """

    armature: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    stiffness: float = 0.0
    reference: float = 0.0
    offset: float = 0.0
    position: float | None = None
    velocity: float = 0.0
    efforts: tuple | None = None
    gravity: bool = False

    def options(self) -> dict:
        """The values as arguments of `ModelBuilder.add_joint`."""
        return {key: getattr(self, key) for key in ("armature", "damping", "friction", "stiffness", "reference")}


@dataclasses.dataclass
class Scales:
    """Factors from a stage's units to SI, for a hinge or a slide."""

    hinge: bool
    units: object
    degrees: bool  # whether MuJoCo's angles are in degrees

    @property
    def inertia(self) -> float:
        return self.units.mass * (self.units.length**2 if self.hinge else 1.0)

    @property
    def effort(self) -> float:
        return self.units.mass * self.units.length ** (2 if self.hinge else 1)

    @property
    def per_unit(self) -> float:
        """Factor of gains per degree or length."""
        return self.effort / self.unit

    @property
    def per_radian(self) -> float:
        """Factor of gains per radian or length."""
        return self.effort if self.hinge else self.effort / self.units.length

    @property
    def unit(self) -> float:
        return DEGREE if self.hinge else self.units.length

    @property
    def mujoco(self) -> float:
        return self.of(self.degrees)

    def of(self, degrees: bool) -> float:
        """Factor of positions; angles are in degrees or radians."""
        return self.unit if degrees or not self.hinge else 1.0


def read_values(authored, prim, token: str, scales: Scales) -> Values:
    """The values of the freedom `token` (angular, linear, rotX …) of a joint."""

    def number(name, scale, low=0.0):
        value = authored.number(prim, name, low=low)
        return name, None if value is None else value * scale

    def first(*choices):
        return authored.first(prim, [number(*choice) for choice in choices], 0.0)

    axis = f"physxJointAxis:{token}"
    inertias = ("newton:armature", "mjc:armature", f"{axis}:armature", "physxJoint:armature")
    efforts = ("newton:friction", "mjc:frictionloss", f"{axis}:dynamicFrictionEffort")
    rates = [("newton:damping", scales.per_unit), ("mjc:damping", scales.per_radian)]
    found = Values(
        armature=first(*((name, scales.inertia) for name in inertias)),
        friction=first(*((name, scales.effort) for name in efforts)),
        damping=first(*rates, (f"{axis}:viscousFrictionCoefficient", scales.per_unit)),
        stiffness=number("mjc:stiffness", scales.per_radian)[1] or 0.0,
    )
    anywhere = -np.inf
    found.offset = number("mjc:ref", scales.mujoco, anywhere)[1] or 0.0
    found.reference = number("mjc:springref", scales.mujoco, anywhere)[1] or 0.0
    for kind in ("position", "velocity"):
        names = (f"state:{token}:physics:{kind}", f"newton:{token}:{kind}")
        setattr(found, kind, authored.first(prim, [number(name, scales.unit, anywhere) for name in names]))
    found.velocity = found.velocity or 0.0
    found.efforts, found.gravity = read_efforts(authored, prim, scales.effort)
    return found


def read_efforts(authored, prim, scale: float) -> tuple[tuple | None, bool]:
    """The range of the sum of all actuators' efforts, or None, and whether it includes gravity compensation."""
    low, high = (authored.number(prim, f"mjc:actuatorfrcrange:{end}", 0.0) for end in ("min", "max"))
    limited = read_limited(authored, prim, "mjc:actuatorfrclimited", low, high)
    return ((low * scale, high * scale) if limited else None), authored.flag(prim, "mjc:actuatorgravcomp", False)


def read_limited(authored, prim, name: str, low: float, high: float) -> bool:
    """Whether a range of MuJoCo's counts: if its flag says so or, for "auto", if low < high."""
    word = authored.word(prim, name, ("false", "true", "auto"), "auto")
    return word == "true" or (word == "auto" and low < high)


# Mimic joints -------------------------------------------------------------------------------------------------------


def add_mimics(b, authored, prims, single: dict, scales_of, warn) -> None:
    """Add a joint constraint for every joint that follows another.

    `single` maps the paths of joints of one freedom to (index in the builder, `Values`, initial position).
    `scales_of(path)` gives their scales.
    """
    for prim in prims:
        path = str(prim.GetPath())
        for leader, terms, active in _couplings(authored, prim, warn):
            feature = f"mimic joint {path}"
            if path not in single or leader not in single or path == leader:
                lost = f"follows {leader or 'nothing'}, no other joint of one freedom"
                warn(feature, f"{lost if path in single else 'has no single freedom'}; it moves independently")
                continue
            (this, values, start), (other, others, begin) = single[path], single[leader]
            here, there = scales_of(path), scales_of(leader)
            powers = [value * here.of(degrees) / there.of(degrees) ** k for k, (value, degrees) in enumerate(terms)]
            shifted = Polynomial(powers)(Polynomial([begin - others.offset, 1.0])).coef
            coefficients = np.zeros(5)
            coefficients[: len(shifted)] = shifted[:5]
            coefficients[0] -= start - values.offset
            name = free_name(f"{b.joints[this].name}_mimic", {c.name for c in b.constraints})
            b.add_constraint("joint", this, other, name=name, coefficients=coefficients, active=active)
            text = " + ".join(f"{c:g} q^{k}" if k else f"{c:g}" for k, c in enumerate(powers) if c or not k)
            b.report.append(ReportLine(feature, "used", f"{text}, q of {leader}: constraint {name!r}"))


def _couplings(authored, prim, warn):
    """Yield (leader, terms, active) of each coupling of a joint; terms are (coefficient, in degrees) of each power."""
    follows = bool({"NewtonMimicAPI", "MjcEqualityJointAPI"} & {*applied(prim)})
    leaders = authored.targets(prim, "newton:mimicJoint")
    leaders = leaders or (authored.targets(prim, "mjc:target") if follows else [])
    taken = bool(leaders) or follows
    if taken:
        terms = [(authored.number(prim, f"mjc:coef{k}", float(k == 1)), False) for k in range(5)]
        for k in range(2):
            value = authored.number(prim, f"newton:mimicCoef{k}")
            terms[k] = terms[k] if value is None else (value, True)
        yield leaders[0] if leaders else "", terms, authored.flag(prim, "newton:mimicEnabled", True)
    for token in MIMICS:
        leaders = authored.targets(prim, f"physxMimicJoint:{token}:referenceJoint")
        gearing = authored.number(prim, f"physxMimicJoint:{token}:gearing", 1.0)
        offset = authored.number(prim, f"physxMimicJoint:{token}:offset", 0.0)
        if leaders and taken:
            warn(f"mimic joint {prim.GetPath()}", "newton:mimicJoint counts, physxMimicJoint is left out")
        elif leaders:
            yield leaders[0], [(-offset, True), (-gearing, True)], True
