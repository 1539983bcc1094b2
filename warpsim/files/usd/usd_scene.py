# SPDX-License-Identifier: Apache-2.0
"""What physics scenes say: gravity, the default step, the medium, and MuJoCo's disable flags."""

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.model.model import ReportLine

EARTH = 9.81  # m/s^2, if the scene gives no gravity
FLAGS = (
    "actuation",
    "clampctrl",
    "constraint",
    "contact",
    "damper",
    "equality",
    "filterparent",
    "frictionloss",
    "gravity",
    "limit",
    "spring",
)
STEPS = ("newton:timeStepsPerSecond", "physxScene:timeStepsPerSecond")


class Scene:
    """The first scene of a stage, the only one that counts; the defaults without one."""

    def __init__(self, scenes, authored, units, report: list, warn):
        self.prim, self.authored, self.units, self.report = scenes[0] if scenes else None, authored, units, report
        if len(scenes) > 1:
            warn(f"{len(scenes)} physics scenes", f"the first counts for all, {scenes[0].GetPath()}")
        on = lambda name: self.prim is None or authored.flag(self.prim, name, True)  # noqa: E731
        self.off = {name for name in FLAGS if not on(f"mjc:flag:{name}")}
        if self.off & {"constraint"}:
            self.off |= {"contact", "limit", "equality", "frictionloss"}
        if not on("newton:gravityEnabled"):
            self.off.add("gravity")
        if self.off:
            report.append(ReportLine(f"turned off by {self.prim.GetPath()}", "mapped", ", ".join(sorted(self.off))))
        self.degrees = self.prim is None or "radian" != authored.word(
            self.prim, "mjc:compiler:angle", ("degree", "radian"), "degree"
        )
        self.auto_limits = on("mjc:compiler:autoLimits")

    def gravity(self) -> np.ndarray:
        """The gravitational acceleration (3,) [m/s^2], with z up."""
        from pxr import UsdPhysics

        direction, strength = np.zeros(3), EARTH
        if self.prim is not None:
            scene = UsdPhysics.Scene(self.prim)
            direction = np.array(scene.GetGravityDirectionAttr().Get() or [0, 0, 0], float)
            given = scene.GetGravityMagnitudeAttr().Get()
            if given is not None and (np.isnan(given) or given == np.inf):
                raise ModelError(
                    f"{self.prim.GetPath()}: gravityMagnitude is {given}; give a finite one, -inf for 9.81"
                )
            if given is not None and given >= 0:
                strength = float(given) * self.units.length
        if not np.isfinite(direction).all():
            raise ModelError(f"gravity direction {direction.tolist()} is not finite")
        length = np.linalg.norm(direction)
        up = self.units.up @ direction / length if length > 0 else np.array([0.0, 0.0, -1.0])
        return (0.0 if "gravity" in self.off else strength) * up

    def timestep(self, default: float) -> float:
        """The default step [s]."""
        if self.prim is None:
            return default
        rates = [(name, self.authored.number(self.prim, name)) for name in STEPS]
        step = self.authored.number(self.prim, "mjc:option:timestep")
        choices = [(name, 1.0 / rate) for name, rate in rates[:1] if rate and rate > 0]
        choices += [("mjc:option:timestep", step)] if step and step > 0 else []
        choices += [(name, 1.0 / rate) for name, rate in rates[1:] if rate and rate > 0]
        found = choices[0][1] if choices else default
        if choices:
            self.report.append(ReportLine(choices[0][0], "used", f"default step {found:g} s"))
        return found

    def medium(self) -> dict:
        """Density [kg/m^3], viscosity [Pa s] and wind [m/s] of the medium, as a builder's attributes."""
        if self.prim is None or ("spring" in self.off and "damper" in self.off):
            return {}
        units, get = self.units, self.authored
        density = get.number(self.prim, "mjc:option:density", 0.0, 0.0) * units.mass / units.length**3
        viscosity = get.number(self.prim, "mjc:option:viscosity", 0.0, 0.0) * units.mass / units.length
        wind = units.up @ get.numbers(self.prim, "mjc:option:wind", 3, np.zeros(3)) * units.length
        if density or viscosity:
            self.report.append(ReportLine("medium", "used", f"density {density:g}, viscosity {viscosity:g}"))
        return {"density": density, "viscosity": viscosity, "wind": wind} if density or viscosity or wind.any() else {}

    def turn_off(self, b) -> None:
        """Disable in a builder what MuJoCo's flags disable."""
        if "filterparent" in self.off:
            b.filter_parent = False
        if "contact" in self.off:
            for geom in b.geoms:
                geom.contype = geom.conaffinity = 0
        for item in (*b.joints, *b.tendons):
            item.limited = item.limited and "limit" not in self.off
            for flag, key in (("spring", "stiffness"), ("damper", "damping"), ("frictionloss", "friction")):
                if flag in self.off:
                    setattr(item, key, np.zeros_like(getattr(item, key))[()])
        if "equality" in self.off:
            for constraint in b.constraints:
                constraint.active = False
        if "actuation" in self.off:
            for actuator in b.actuators:
                actuator.gain, actuator.bias = np.zeros(3), np.zeros(3)
        if "clampctrl" in self.off:
            for actuator in b.actuators:
                actuator.control_range = (-np.inf, np.inf)
