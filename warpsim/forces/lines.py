# SPDX-License-Identifier: Apache-2.0
"""Host side of lines, the spatial tendons of a model and its actuators on sites and cranks: their lengths and moment
arms.

Lines are numbered: first the spatial tendons, in the order of tendons, then the actuators on sites or cranks, in the
order of actuators. See `kernels/forces/transmission.py`. A model without lines has no `Lines` and launches none of
these kernels.
"""

import dataclasses

import numpy as np
import warp as wp

from warpsim.base.errors import ModelError
from warpsim.kernels.forces import site_transmission, spatial_tendon, transmission
from warpsim.model.model import GeomType, Model
from warpsim.model.tendon_paths import WrapType
from warpsim.tree.dynamics import DeviceModel, Dynamics
from warpsim.tree.part import Part

WRENCHES_OF_SEGMENT = 3  # on the first site's link, the geom's, the second site's


@dataclasses.dataclass
class Segment:
    """A segment of a tendon from site to site, around a geom if `geom` ≥ 0. `side`: the side site, −1 if there is
    none."""

    sites: tuple[int, int]
    geom: int
    side: int
    share: float


def line_tendons(model: Model) -> np.ndarray:
    """The spatial tendons."""
    return np.unique(model.wrap_tendon)


def line_actuators(model: Model) -> np.ndarray:
    """The actuators on sites and cranks."""
    return np.flatnonzero(model.actuator_site[:, 0] >= 0)


def line_motors(model: Model) -> np.ndarray:
    """The actuators on lines without feedback: their force depends neither on the length nor on its rate."""
    feedback = model.actuator_gain[:, 1:].any(1) | model.actuator_bias[:, 1:].any(1)
    on_line = np.isin(model.actuator_tendon, line_tendons(model)) | (model.actuator_site[:, 0] >= 0)
    return np.flatnonzero(on_line & ~feedback)


def has_lines(model: Model) -> bool:
    """Whether a model has any line."""
    return bool(len(model.wrap_tendon) or len(line_actuators(model)))


def tendon_segments(model: Model, t: int) -> list[Segment]:
    """The segments of a spatial tendon, along its path."""
    found: list[Segment] = []
    share, last, geom, side = 1.0, -1, -1, -1
    for i in np.flatnonzero(model.wrap_tendon == t):
        kind, index = WrapType(model.wrap_type[i]), int(model.wrap_object[i])
        if kind == WrapType.PULLEY:
            share, last = 1.0 / float(model.wrap_divisor[i]), -1
        elif kind == WrapType.GEOM:
            geom, side = index, int(model.wrap_side[i])
        else:
            if last >= 0:
                found.append(Segment((last, index), geom, side, share))
            last, geom, side = index, -1, -1
    return found


class Tables:
    """The structure of the lines: segments of the tendons, and the wrenches on links by which every line acts.

    `supports` and `columns` follow from them.
    """

    def __init__(self, model: Model):
        self.model = model
        self.tendons, self.actuators = line_tendons(model), line_actuators(model)
        of_tendon = [tendon_segments(model, int(t)) for t in self.tendons]
        self.segments = [s for own in of_tendon for s in own]
        self.segment_begin = np.cumsum([0, *map(len, of_tendon)])
        self.wrenches = WRENCHES_OF_SEGMENT * len(self.segments)
        self.supports: list[list[int]] = []  # per line: its degrees of freedom
        self.dofs: list[int] = []  # per column: its degree of freedom
        self.listed: list[list[int]] = []  # per column: its wrenches
        for own, first in zip(of_tendon, self.segment_begin, strict=False):
            groups = [self._segment_links(s) for s in own]
            starts = [WRENCHES_OF_SEGMENT * (int(first) + i) for i in range(len(own))]
            self._add_line(list(zip(starts, groups, strict=True)))
        self.first_wrench: list[int] = []  # of each actuator's line
        for a in self.actuators:
            links = [self.site_link(int(s)) for s in model.actuator_site[a] if s >= 0]
            self.first_wrench.append(self.wrenches)
            self._add_line([(self.wrenches, [(k, link) for k, link in enumerate(links)])], grounded=len(links) == 1)
            self.wrenches += len(links)
        self.line_begin = np.cumsum([0, *map(len, self.supports)])

    def site_link(self, s: int) -> int:
        body = int(self.model.site_body[s])
        return -1 if body < 0 else int(self.model.body_link[body])

    def geom_link(self, g: int) -> int:
        body = int(self.model.geom_body[g])
        return -1 if body < 0 else int(self.model.body_link[body])

    def _segment_links(self, s: Segment) -> list[tuple[int, int]]:
        first, last = ((2 * k, self.site_link(site)) for k, site in enumerate(s.sites))
        return [first, *([(1, self.geom_link(s.geom))] if s.geom >= 0 else []), last]

    def _add_line(self, groups, grounded: bool = False) -> None:
        """Add a line whose parts act by wrenches on links: (first wrench, [(index, link)]).

        A dof that moves all links of a part does not change the length. It counts only if the line is `grounded`, that
        is, acts against the world.
        """
        by_dof: dict[int, list[int]] = {}
        for first, links in groups:
            moved: dict[int, list[int]] = {}
            for k, link in links:
                for d in self.model.ancestors(link):
                    moved.setdefault(d, []).append(first + k)
            for d, wrenches in moved.items():
                if grounded or len(wrenches) < len(links):
                    by_dof.setdefault(d, []).extend(wrenches)
        support = sorted(by_dof)
        self.supports.append(support)
        self.dofs += support
        self.listed += [by_dof[d] for d in support]

    def line_of(self, a: int) -> tuple[int, float]:
        """(line, gear) of actuator a; (−1, 0) if it is on no line."""
        tendon, own = int(self.model.actuator_tendon[a]), np.flatnonzero(self.actuators == a)
        if tendon >= 0 and tendon in self.tendons:
            return self.line_of_tendon(tendon), float(self.model.actuator_gear[a, 0])
        return (len(self.tendons) + int(own[0]), 1.0) if len(own) else (-1, 0.0)

    def line_of_tendon(self, t: int) -> int:
        """The line of a spatial tendon; −1 for a fixed tendon."""
        found = np.flatnonzero(self.tendons == t)
        return int(found[0]) if len(found) else -1


def _refuse_effort_limits(tables: Tables) -> None:
    """Refuse joint effort limits for joints that a line moves: the limits need constant moment arms."""
    model = tables.model
    limited = model.joint_v[np.isfinite(model.joint_effort_range).any(1)]
    for a in range(model.nu):
        line = tables.line_of(a)[0]
        reached = np.intersect1d(limited, tables.supports[line]) if line >= 0 else []
        if len(reached):
            joint = model.joint_names[int(model.link_joint[model.dof_link[int(reached[0])]])]
            raise ModelError(
                f"joint {joint!r} has an effort limit, and actuator {model.actuator_names[a]!r} on a spatial tendon, "
                "sites or a crank moves it; give the actuators force ranges instead"
            )


class Lines(Part):
    """Lengths and moment arms of all lines in all worlds: after `launch`, `length` (worlds, lines) and `moment`
    (worlds, columns).

    `motors`: the actuators whose forces `add_forces` adds.

    The columns of line i are `tables.line_begin[i:i + 2]`; their degrees of freedom are in `tables.supports`.
    """

    name, moves = "lines", True
    TAPED = ("segment_length", "point", "force", "couple", "length", "moment")

    def __init__(self, device_model: DeviceModel, dynamics: Dynamics, motors=()):
        self.device_model, self.dynamics = device_model, dynamics
        model, t = device_model.model, device_model.types
        self.tables = tables = Tables(model)
        _refuse_effort_limits(tables)
        array, n = dynamics.array, len(tables.segments)
        self.wraps = any(s.geom >= 0 for s in tables.segments)
        self.choice = array(n, wp.int32)
        self.angle, self.residual, self.segment_length = (array(n, t.real) for _ in range(3))
        self.point, self.force, self.couple = (array(tables.wrenches, t.vec3) for _ in range(3))
        self.length, self.moment = array(len(tables.supports), t.real), array(len(tables.dofs), t.real)
        self.sites, self.segments, self.columns, self.pulls = self._structs()
        self.motors = self.motor_table(motors) if len(motors) else None
        self.measured = self._measured()

    def _structs(self):
        model, tables, struct = self.device_model.model, self.tables, self.device_model.struct
        poses = model.site_pose[:, [0, 1, 2, 4, 5, 6, 3]]
        links = [tables.site_link(s) for s in range(model.nsite)]
        sites, found = struct(spatial_tendon.Sites, link=links, pose=poses), tables.segments
        segments = struct(
            spatial_tendon.Segments,
            site=[s.sites for s in found],
            geom=[s.geom for s in found],
            side=[s.side for s in found],
            geom_link=[tables.geom_link(s.geom) if s.geom >= 0 else -1 for s in found],
            cylinder=[s.geom >= 0 and model.geom_type[s.geom] == GeomType.CYLINDER for s in found],
            share=[s.share for s in found],
            begin=tables.segment_begin,
        )
        columns = struct(
            transmission.Columns,
            dof=tables.dofs,
            line=tables.line_begin,
            begin=np.cumsum([0, *map(len, tables.listed)]),
            wrench=[i for own in tables.listed for i in own],
        )
        on, actuators = len(tables.tendons), tables.actuators
        gear = model.actuator_gear[actuators]
        pulls = struct(
            site_transmission.Pulls,
            line=np.arange(len(actuators)) + on,
            wrench=tables.first_wrench,
            site=model.actuator_site[actuators],
            force=gear[:, :3],
            couple=gear[:, 3:],
            rod=model.actuator_rod[actuators],
        )
        return sites, segments, columns, pulls

    def motor_table(self, actuators):
        """The struct `transmission.Motors` of actuators on lines."""
        tables, model = self.tables, self.device_model.model
        found: list[list[tuple[int, int, float]]] = [[] for _ in range(model.nv)]
        for a in actuators:
            line, gear = tables.line_of(int(a))
            for k, d in enumerate(tables.supports[line]):
                found[d].append((int(a), int(tables.line_begin[line]) + k, gear))
        actuator, column, gears = zip(*(x for own in found for x in own), strict=True) if any(found) else ((),) * 3
        begin = np.cumsum([0, *map(len, found)])
        return self.device_model.struct(transmission.Motors, begin=begin, actuator=actuator, column=column, gear=gears)

    def _measured(self):
        lines = [self.tables.line_of(a) for a in range(self.device_model.model.nu)]
        chosen = [a for a, (line, _) in enumerate(lines) if line >= 0]
        on = {"line": [lines[a][0] for a in chosen], "gear": [lines[a][1] for a in chosen]}
        return self.device_model.struct(transmission.Measured, actuator=chosen, **on)

    def add_forces(self, force: wp.array) -> None:
        """Add the forces of the motors to `force`."""
        if self.motors is not None:
            inputs = [self.motors, self.of.actuators, self.moment, force]
            self.dynamics.launch(transmission.motor_forces, self.device_model.model.nv, inputs)

    def measure_actuators(self, v: wp.array, length: wp.array, velocity: wp.array) -> None:
        """Write lengths and velocities of the actuators on lines into arrays (worlds, nu)."""
        inputs = [self.columns, self.measured, self.length, self.moment, v, length, velocity]
        self.dynamics.launch(transmission.measure_actuators, self.measured.actuator.shape[0], inputs)

    def before_forces(self, h: float) -> None:
        self.launch()

    def record(self, h: float) -> None:
        self.dynamics.position(self.of.q)
        self.compute_lengths()

    def choose(self) -> None:
        """Choose how each tendon wraps, at the kinematics of `dynamics`."""
        if self.wraps:
            inputs = [self.sites, self.segments, self.device_model.plant(), self.dynamics.link_X]
            inputs += [self.choice, self.angle, self.residual]
            self.dynamics.launch(spatial_tendon.choose_wraps, len(self.tables.segments), inputs)

    def launch(self) -> None:
        """Lengths and moment arms at the kinematics of `dynamics`."""
        self.choose()
        self.compute_lengths()

    def lengths_at(self, q) -> np.ndarray:
        """Lengths (lines,) at a position of the model. Overwrites the arrays of all worlds."""
        d = self.device_model
        self.dynamics.position(wp.array(np.tile(q, (d.worlds, 1)), dtype=d.types.real, device=d.device))
        self.launch()
        return self.length.numpy()[0].astype(float)

    def moment_arms_at(self, q) -> np.ndarray:
        """Moment arms (lines, nv) at a position of the model. Overwrites the arrays of all worlds."""
        self.lengths_at(q)
        tables, moment = self.tables, self.moment.numpy()[0]
        arms = np.zeros((len(tables.supports), self.device_model.model.nv))
        for line, support in enumerate(tables.supports):
            arms[line, support] = moment[tables.line_begin[line] : tables.line_begin[line + 1]]
        return arms

    def compute_lengths(self) -> None:
        """Lengths and moment arms for the present choice of wraps, at the kinematics of `dynamics`; they are smooth in
        q."""
        dynamics, d, tables = self.dynamics, self.device_model, self.tables
        X, wrenches = dynamics.link_X, [self.point, self.force, self.couple]
        inputs = [self.sites, self.segments, d.plant(), X]
        inputs += [self.choice, self.angle, self.residual, self.segment_length, *wrenches]
        dynamics.launch(spatial_tendon.measure_segments, len(tables.segments), inputs)
        inputs = [self.segments, self.segment_length, self.length]
        dynamics.launch(spatial_tendon.tendon_lengths, len(tables.tendons), inputs)
        inputs = [self.sites, self.pulls, X, self.length, *wrenches]
        dynamics.launch(site_transmission.pull_at_sites, len(tables.actuators), inputs)
        inputs = [d.topology, self.columns, X, dynamics.dof_S, *wrenches, self.moment]
        dynamics.launch(transmission.moment_arms, len(tables.dofs), inputs)
