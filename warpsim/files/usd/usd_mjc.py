# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's prims in USD, MjcActuator and MjcTendon, and NewtonActuator, with what they act on.

They act on joints, bodies, and the sites of MjcSiteAPI and NewtonSiteAPI. Their numbers are MuJoCo's, in SI. MuJoCo's
compiler does not run here, so what it derives (length ranges and strengths of muscles) must be given.
"""

import numpy as np

from warpsim.base.checks import listed
from warpsim.base.errors import ModelError
from warpsim.files.drives import INFINITE
from warpsim.files.mjcf.mjcf_actuators import law_options
from warpsim.files.mjcf.mjcf_refusals import MUSCLE_LAW
from warpsim.files.usd.usd_authored import applied
from warpsim.files.usd.usd_joint_values import read_efforts, read_limited
from warpsim.model.builder_names import free_name
from warpsim.model.model import ReportLine
from warpsim.model.muscle import NO_MUSCLE, MuscleRows
from warpsim.model.tendon_paths import Pulley

SITES = ("MjcSiteAPI", "NewtonSiteAPI")
SITE_KINDS = ("sphere", "capsule", "ellipsoid", "cylinder", "box")
LAWS, BIASES = ("fixed", "affine", "muscle"), ("none", "affine", "muscle")
DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle")
PARAMETERS = 10


class _Left(Exception):
    """The reason why a prim is left out."""


class MujocoPrims:
    """Adds tendons, actuators and effort ranges to a builder.

    `places` maps paths of prims to builder indices: {"joint": {path: index}, "body": …, "site": …, "geom": …}.
    """

    def __init__(self, b, authored, places: dict[str, dict[str, int]], scene, units, warn):
        self.b, self.authored, self.places, self.scene, self.warn = b, authored, places, scene, warn
        self.si = units.length == 1.0 and units.mass == 1.0
        self.disabled = set()
        if scene.prim is not None:
            self.disabled = {int(k) for k in authored.get(scene.prim, "mjc:option:actuatorgroupdisable", [])}

    def add(self, prims) -> None:
        """Read every MjcTendon, then every MjcActuator and NewtonActuator; warns of prims that are left out."""
        kinds = (("MjcTendon", self._tendon), ("MjcActuator", self._actuator), ("NewtonActuator", self._newton))
        for kind, method in kinds:
            these, added = [p for p in prims if str(p.GetTypeName()) == kind], 0
            for prim in these:
                try:
                    if not self.si:
                        raise _Left("its numbers are read of stages in m and kg alone")
                    method(prim)
                    added += 1
                except _Left as why:
                    self.warn(f"{kind} {prim.GetPath()}", f"{why}; it is left out")
                    self.authored.passed(prim, *(str(name) for name in prim.GetAuthoredPropertyNames()))
            if added:
                self.b.report.append(ReportLine(f"{kind} prims", "used", f"{added}"))

    def _range(self, prim, name: str, limited: str):
        """A range (low, high); infinite if it does not count."""
        low, high = (self.authored.number(prim, f"mjc:{name}:{end}", 0.0) for end in ("min", "max"))
        counts = read_limited(self.authored, prim, f"mjc:{limited}", low, high)
        if counts and not self.scene.auto_limits and self.authored.get(prim, f"mjc:{limited}") is None:
            counts = False
        return (low, high) if counts else INFINITE

    def _unique(self, prim, items) -> str:
        return free_name(str(prim.GetDisplayName() or prim.GetName()), {item.name for item in items})

    def _parameters(self, prim, name: str, default) -> np.ndarray:
        given = self.authored.get(prim, name)
        found = np.zeros(PARAMETERS)
        given = np.array(default if given is None else given, float).reshape(-1)[:PARAMETERS]
        found[: len(given)] = given
        if not np.isfinite(found).all():
            raise ModelError(f"{prim.GetPath()}: {name} is not finite")
        return found

    # Actuators -------------------------------------------------------------------------------------------------------

    def _actuator(self, prim) -> None:
        get = self.authored
        types = []
        for name, known in (("gainType", LAWS), ("biasType", BIASES), ("dynType", DYNAMICS)):
            word = str(get.get(prim, f"mjc:{name}", known[0]))
            if word not in known:
                raise _Left(f"its {name} is {word[:40]!r}")
            types.append(known.index(word))
        if get.number(prim, "mjc:actDim", -1) > 1:
            raise _Left("it has several activations")
        target = self._target(prim)
        gear = self._parameters(prim, "mjc:gear", [1.0])[:6]
        defaults = (("gain", [1.0]), ("bias", [0.0]), ("dyn", [1.0]))
        parameters = [self._parameters(prim, f"mjc:{name}Prm", default) for name, default in defaults]
        muscle = self._muscle(prim, types, parameters)
        group = int(get.number(prim, "mjc:group", 0))
        controls = self._range(prim, "ctrlRange", "ctrlLimited")
        share = get.number(prim, "mjc:inheritRange", 0.0, 0.0)
        if share:
            controls = self._inherited(prim, target, share)
        ranges, early = self._range(prim, "actRange", "actLimited"), get.flag(prim, "mjc:actEarly", False)
        made = None if group in self.disabled else lambda: muscle
        options = law_options(types, parameters, made, controls, ranges, early) | {"group": group}
        options["force_range"] = self._range(prim, "forceRange", "forceLimited")
        try:
            self.b.add_actuator(
                **target,
                name=self._unique(prim, self.b.actuators),
                **({} if "body" in target else {"gear": gear}),
                **options,
            )
        except ModelError as error:
            raise _Left(str(error).split(": ", 1)[-1]) from None

    def _newton(self, prim) -> None:
        """Add a position servo of NewtonPDControlAPI: effort = const + kp (target - q) - kd v, within its limit."""
        get, schemas = self.authored, set(applied(prim))
        others = schemas - {"NewtonPDControlAPI", "NewtonMaxEffortClampingAPI"}
        targets = get.targets(prim, "newton:targets")
        joint = self.places["joint"].get(targets[0]) if len(targets) == 1 else None
        if others or "NewtonPDControlAPI" not in schemas:
            raise _Left(f"{listed(sorted(others)) if others else 'its control'} is not simulated")
        if joint is None:
            raise _Left(f"it acts on {listed(targets)}, not one joint of one freedom")
        const, kp, kd = (get.number(prim, f"newton:{name}", 0.0) for name in ("constEffort", "kp", "kd"))
        most = get.number(prim, "newton:maxEffort", np.inf, 0.0, infinite=True)
        self.b.add_actuator(
            joint,
            "affine",
            name=self._unique(prim, self.b.actuators),
            gain=[kp, 0.0, 0.0],
            bias=[const, -kp, -kd],
            force_range=(-most, most),
        )

    def _target(self, prim) -> dict:
        """The target of an actuator, as arguments of `ModelBuilder.add_actuator`."""
        get = self.authored
        ends = {name: get.targets(prim, f"mjc:{name}") for name in ("target", "refSite", "sliderSite")}
        rod = get.number(prim, "mjc:crankLength", 0.0)
        parent = get.flag(prim, "mjc:jointInParent", False)
        path = ends["target"][0] if ends["target"] else ""
        sites = self.places["site"]
        if ends["sliderSite"]:
            slider = ends["sliderSite"][0]
            if path not in sites or slider not in sites:
                raise _Left("its crank or slider is no site")
            return {"crank": (sites[path], sites[slider], rod)}
        if path in sites:
            other = ends["refSite"][0] if ends["refSite"] else None
            if other is not None and other not in sites:
                raise _Left(f"its reference site {other} is none")
            return {"site": sites[path], "reference_site": None if other is None else sites[other]}
        for kind in ("joint", "tendon", "body"):
            if path in self.places[kind]:
                if parent and self.b.joints[self.places[kind][path]].type.name in ("BALL", "FREE"):
                    raise _Left("mjc:jointInParent is not simulated")
                return {kind: self.places[kind][path]}
        raise _Left(f"its target {path or '(none)'} is no joint of one freedom, tendon, site or body")

    def _inherited(self, prim, target: dict, share: float):
        """The control range that a position servo takes from its joint's limits."""
        joint = self.b.joints[target["joint"]] if "joint" in target else None
        if joint is None or not joint.limited:
            raise _Left("mjc:inheritRange needs a joint with limits")
        middle, half = joint.range.mean(), np.ptp(joint.range) / 2 * share
        return (middle - half, middle + half)

    def _muscle(self, prim, types, parameters) -> MuscleRows | None:
        lengths = [self.authored.number(prim, f"mjc:lengthRange:{end}", 0.0) for end in ("min", "max")]
        rows = NO_MUSCLE.copy()
        for row, type, constants in zip(rows, types[:2], parameters[:2], strict=True):
            if type == MUSCLE_LAW:
                low, high, force, _, *others = constants[:9]
                if force < 0 or not lengths[0] < lengths[1]:
                    raise _Left("a muscle needs its force and mjc:lengthRange, which MuJoCo's compiler derives")
                row[:] = low, high, force, *others
        return None if np.isnan(rows).all() else MuscleRows(rows, np.array(lengths))

    def efforts(self, limits: dict[int, tuple], gravity: set[int]) -> None:
        """Add effort ranges of joints: to a joint's only actuator, else to the sum of its actuators."""
        b = self.b
        coupled = {j for tendon in b.tendons for j in tendon.coefficients}
        for j, (low, high) in limits.items():
            drivers = [a for a in b.actuators if a.target.joint == j]
            if len(drivers) == 1 and j not in coupled and j not in gravity and drivers[0].gear[0]:
                ends = np.sort(np.array([low, high]) / drivers[0].gear[0])
                drivers[0].force_range = np.array(
                    [max(ends[0], drivers[0].force_range[0]), min(ends[1], drivers[0].force_range[1])]
                )
            elif drivers or j in coupled or j in gravity:
                b.add_effort_limit(j, (low, high), gravity_compensation=j in gravity)
            else:
                name = b.joints[j].name
                b.report.append(ReportLine(f"range of efforts of joint {name!r}", "ignored", "no actuator has it"))

    # Tendons ---------------------------------------------------------------------------------------------------------

    def _tendon(self, prim) -> None:
        get = self.authored
        fixed = get.word(prim, "mjc:type", ("spatial", "fixed"), "spatial") == "fixed"
        course = self._joints(prim) if fixed else self._path(prim)
        if get.number(prim, "mjc:armature", 0.0):
            raise _Left("tendons have no armature")
        rest = np.array(get.get(prim, "mjc:springlength", [-1.0, -1.0]), float).reshape(-1)
        limits = self._range(prim, "range", "limited")
        stiffness = get.number(prim, "mjc:stiffness", 0.0, 0.0)
        if stiffness and not fixed and not (rest >= 0).all():
            raise _Left("its spring needs mjc:springlength, which MuJoCo's compiler derives")
        tendon = self.b.add_tendon(
            **course,
            name=self._unique(prim, self.b.tendons),
            range=None if limits == INFINITE else limits,
            stiffness=stiffness,
            damping=get.number(prim, "mjc:damping", 0.0, 0.0),
            friction=get.number(prim, "mjc:frictionloss", 0.0, 0.0),
            reference=rest if (rest >= 0).all() and len(rest) else None,
        )
        self.places["tendon"][str(prim.GetPath())] = tendon
        efforts, _ = read_efforts(get, prim, 1.0)
        if efforts is not None:
            self.b.add_effort_limit(tendon=tendon, range=efforts)
        get.passed(prim, "mjc:rgba", "mjc:width", "mjc:group")

    def _order(self, prim, targets) -> list[int]:
        """The indices of the targets along the path."""
        order = [int(k) for k in self.authored.get(prim, "mjc:path:indices", range(len(targets)))]
        if not order or not all(0 <= k < len(targets) for k in order):
            raise _Left("mjc:path:indices do not fit mjc:path")
        return order

    def _joints(self, prim) -> dict:
        targets = self.authored.targets(prim, "mjc:path")
        order = self._order(prim, targets)
        factors = [float(c) for c in self.authored.get(prim, "mjc:path:coef", [1.0] * len(order))]
        missing = [path for path in targets if path not in self.places["joint"]]
        if missing or len(factors) != len(order):
            raise _Left(
                f"{listed(missing)}: no joint of one freedom" if missing else "mjc:path:coef does not fit mjc:path"
            )
        self.authored.get(prim, "mjc:path:segments")
        joints: dict[int, float] = {}
        for k, factor in zip(order, factors, strict=True):
            joint = self.places["joint"][targets[k]]
            joints[joint] = joints.get(joint, 0.0) + factor
        return {"joints": joints}

    def _path(self, prim) -> dict:
        get = self.authored
        targets, sides = get.targets(prim, "mjc:path"), get.targets(prim, "mjc:sideSites")
        order = self._order(prim, targets)
        segments = [int(k) for k in get.get(prim, "mjc:path:segments", [0] * len(order))]
        divisors = [float(x) for x in get.get(prim, "mjc:path:divisors", [1.0])]
        beside = [int(k) for k in get.get(prim, "mjc:sideSites:indices", [-1] * len(order))]
        if (
            len(segments) != len(order)
            or len(beside) != len(order)
            or not all(0 <= s < len(divisors) for s in segments)
        ):
            raise _Left("mjc:path:segments, divisors or mjc:sideSites:indices do not fit mjc:path")
        path: list = [Pulley(divisors[segments[0]])] if divisors[segments[0]] != 1.0 else []
        sites, geoms = self.places["site"], self.places["geom"]
        for n, k in enumerate(order):
            if n and segments[n] != segments[n - 1]:
                path.append(Pulley(divisors[segments[n]]))
            side = sides[beside[n]] if 0 <= beside[n] < len(sides) else None
            if targets[k] in sites:
                path.append(sites[targets[k]])
            elif targets[k] in geoms and (side is None or side in sites):
                path.append((geoms[targets[k]], None if side is None else sites[side]))
            else:
                raise _Left(f"{targets[k]} or its side site is no site, sphere or cylinder")
        return {"path": path}
