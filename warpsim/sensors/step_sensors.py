# SPDX-License-Identifier: Apache-2.0
"""Sensors of accelerations, forces and contact, measured in a step. The launches may be taped.

`StepSensors` is part of a `Step` that has such sensors. Its backward pass has one too, with arrays of the tape in place
of the step's.
"""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.device.per_world import fill
from warpsim.device.recording import tape_paused
from warpsim.kernels.rows import line_rows
from warpsim.kernels.rows import table as row_table
from warpsim.kernels.sensors import actuator_sensors, spin_moments, string_wrenches, touch_sensors
from warpsim.kernels.sensors import reactions as reaction_kernels
from warpsim.model.model import Model
from warpsim.model.sensor_types import OF_ACTUATORS, OF_IMPULSES, ObjectType, SensorType
from warpsim.rows.scalar_rows import ScalarRows
from warpsim.sensors.actuator_forces import ActuatorForces, summing_table
from warpsim.sensors.measured_lines import MeasuredLines
from warpsim.sensors.sensor_tables import SensorTables, chosen, of_step, step_columns, subtree_links
from warpsim.tree.dynamics import Dynamics
from warpsim.tree.part import Part

K = SensorType
AT_FRAMES = (K.ACCELEROMETER, K.FRAMELINACC, K.FRAMEANGACC, K.FORCE, K.TORQUE)
ROW_OWNERS = {K.JOINTLIMITFRC: int(row_table.JOINT), K.TENDONLIMITFRC: int(row_table.TENDON)}


def has_step_sensors(model: Model, reactions: bool) -> bool:
    """Whether a step has anything to measure."""
    return reactions or len(of_step(model)) > 0


def reads_impulses(model: Model, reactions: bool) -> bool:
    """Whether measurements of a step depend on impulses, and not only on its velocities."""
    return reactions or len(chosen(model, OF_IMPULSES)) > 0


def lack_of_gradient(step, reactions: bool) -> str | None:
    """The reason why measurements of a step have no gradient; None if they have one."""
    if reads_impulses(step.model, reactions) and step.contact_model.has_pyramid:
        return f"by impulses of {step.contact_model.label}; use SAP for such models"
    if step.device_model.time_of_impact:
        return "through impacts inside a step; set time_of_impact=False"
    return None


@dataclasses.dataclass
class StepState:
    """What is read of the step or backward pass `of` besides kinematics: velocity, impulses and contact points. `gamma`
    may be None: no impulses act.

    `rest`: for an impact, a velocity and a gravity of zeros. It has no duration, so that impulses act alone.
    """

    of: Any
    v: wp.array
    phi: wp.array
    point: wp.array
    frame: wp.array
    gamma: wp.array | None
    row_gamma: wp.array | None
    rest: tuple[wp.array, wp.array] | None = None


class StepSensors:
    """Tables, workspace and launches, with the kinematics of `dynamics` at the beginning of a step.

    `data (worlds, n)`: the numbers of the sensors, one after the other; with `reactions` followed by the accelerations
    `(nv,)` and the wrenches on every body's joints `(nbody, 6)`. `lines`: those of the step, or their copies on a tape.
    """

    def __init__(self, dynamics: Dynamics, collision: Collision, rows: ScalarRows, reactions: bool, lines=None):
        self.dynamics, self.collision, self.rows, self.reactions = dynamics, collision, rows, reactions
        self.device_model, self.model = dynamics.device_model, dynamics.model
        model, d = self.model, dynamics.device_model
        self.impulses = reads_impulses(model, reactions)
        self.first = step_columns(model)[1]  # first column after the sensors
        size = self.first + (model.nv + 6 * model.nbody if reactions else 0)
        t, array = d.types, dynamics.array
        self.data = array(size, t.real)
        measured = lines is not None and len(chosen(model, OF_ACTUATORS)) > 0
        self.lines = MeasuredLines(dynamics, lines) if measured else None
        self._tables = SensorTables(d, self.lines)
        sensors, begin = of_step(model), step_columns(model)[0]
        self._adr = dict(zip(sensors.tolist(), begin.tolist(), strict=True))
        self._make_frames()
        self.strings = self._make_strings(lines) if self.bears and lines is not None else None
        self.actuators = ActuatorForces(dynamics, self._columns(chosen(model, OF_ACTUATORS)), self.lines)
        self._make_touch()
        self._make_contacts()
        self._make_moments()
        self._make_limits()

    def _columns(self, sensors) -> list[int]:
        return [self._adr[int(s)] for s in sensors]

    def _make_frames(self) -> None:
        sensors, model, t, array = (
            chosen(self.model, AT_FRAMES),
            self.model,
            self.device_model.types,
            self.dynamics.array,
        )
        self.frames = self._tables.frame_sensors(sensors, self._columns(sensors)) if len(sensors) else None
        self.frame_count = len(sensors)
        self.bears = self.reactions or len(chosen(model, (K.FORCE, K.TORQUE))) > 0
        self.moves = self.bears or len(sensors) > 0
        links = model.nlink if self.moves else 0
        self.acceleration = array(model.nv if self.moves else 0, t.real)
        self.link_A, self.link_f, self.link_F = (array(links, t.vec6) for _ in range(3))

    def _make_strings(self, lines):
        """The table of the rows and motors at spatial tendons; None without spatial tendons. `tension`: the force along
        each."""
        tables, S = lines.tables, self.device_model.types.real
        count = len(tables.tendons)
        if not count:
            return None
        on_lines = [row for row in self.rows.row_list if row.on_line]
        pulls, motors = [[] for _ in range(count)], [[] for _ in range(count)]
        for i, row in enumerate(on_lines):
            for end, line in enumerate(row.lines):
                if 0 <= line < count:
                    pulls[line].append((i, end))
        driven = {row.element for row in on_lines if row.kind == "servo"}
        for a in range(self.model.nu):
            line, gear = tables.line_of(a)
            if a not in driven and 0 <= line < count:
                motors[line].append((a, gear))
        of_rows = {
            "row_begin": np.cumsum([0, *map(len, pulls)]),
            "row": [row for own in pulls for row, _ in own],
            "end": [end for own in pulls for _, end in own],
        }
        made = self.device_model.struct(
            string_wrenches.Strings,
            motor_begin=np.cumsum([0, *map(len, motors)]),
            motor=[motor for own in motors for motor, _ in own],
            gear=[gear for own in motors for _, gear in own],
            **of_rows,
        )
        none = {"motor_begin": np.zeros(count + 1, int), "motor": [], "gear": []}
        self.strings_of_rows = self.device_model.struct(string_wrenches.Strings, **of_rows, **none)
        table = self.rows.on_lines
        none = {"row": [], "line": np.empty((0, 2)), "gear": np.empty((0, 2)), "column": np.empty((0, 2, 1))}
        self.on_lines = table.table if table else self.device_model.struct(line_rows.LineRows, **none)
        self.lines_of_strings = lines
        self.tension = self.dynamics.array(count, S)
        return made

    def _integers(self, *shape) -> wp.array:
        d = self.device_model
        return wp.zeros((d.worlds, *shape), dtype=wp.int32, device=d.device)

    def _make_touch(self) -> None:
        sensors = chosen(self.model, [K.TOUCH])
        self.touch_count = len(sensors) if self.collision.enabled else 0
        if self.touch_count:
            self.zones = self._zones(sensors)
            self.geom_body = self.device_model.array(self.model.geom_body)
            self.touches = self._integers(len(sensors), self.collision.capacity)

    def _zones(self, sensors):
        m, sites = self.model, self.model.sensor_object[sensors, 0]
        is_site = m.sensor_object_type[sensors, 0] == ObjectType.SITE

        def of_site(values, other):
            return [values[i] if yes else other for i, yes in zip(sites, is_site, strict=True)]

        return self.device_model.struct(
            touch_sensors.Zones,
            frames=self._tables.frames(sensors),
            adr=self._columns(sensors),
            body=of_site(m.site_body, -1),
            type=of_site(m.site_type, -1),
            size=of_site(m.site_size, np.ones(3)),
        )

    def _make_moments(self) -> None:
        """Arrays for contact points with torsional and rolling friction."""
        collision = self.collision
        self.turns = collision.spin is not None and (self.bears or self.contact_count > 0)
        self.moment = self.dynamics.array(collision.capacity if self.turns else 0, self.device_model.types.vec3)

    def _make_contacts(self) -> None:
        m, t, array = self.model, self.device_model.types, self.dynamics.array
        sensors = chosen(m, [K.CONTACT])
        self.contact_count = len(sensors) if self.collision.enabled else 0
        if not self.contact_count:
            return
        mode, first, last = np.array([[self._side(s, end) for end in range(2)] for s in sensors]).transpose(2, 0, 1)
        bits, reduction, slots = m.sensor_constants[sensors, :3].astype(int).T
        self.contact_sensors = self.device_model.struct(
            touch_sensors.ContactSensors,
            zones=self._zones(sensors),
            mode=mode,
            first=first,
            last=last,
            data=bits,
            reduction=reduction,
            width=m.sensor_size[sensors] // slots,
            slot_begin=np.cumsum([0, *slots]),
            slot_sensor=np.repeat(np.arange(len(sensors)), slots),
            geom_body=m.geom_body,
        )
        n, self.slots = len(sensors), int(slots.sum())
        matches = {"side": self._integers(n, self.collision.capacity), "found": self._integers(n)}
        matches["chosen"] = self._integers(self.slots)
        self.matches = self.device_model.struct(touch_sensors.Matches, **matches)
        self.net_force, self.net_torque, self.net_moment = (array(n, t.vec3) for _ in range(3))
        self.net_weight = array(n, t.real)
        net = {key: getattr(self, f"net_{key}") for key in ("force", "torque", "moment", "weight")}
        self.net = self.device_model.struct(touch_sensors.NetSums, **net)

    def _side(self, s: int, end: int) -> tuple[int, int, int]:
        """(requirement, first, one past the last) of one side of a contact sensor."""
        m, k = self.model, touch_sensors
        kind, index = ObjectType(m.sensor_object_type[s, end]), int(m.sensor_object[s, end])
        if kind == ObjectType.SUBTREE:
            first, last = subtree_links(m, index)
            return int(k.ON_LINKS), first if index >= 0 else -1, last
        modes = {
            ObjectType.NONE: k.ANYTHING,
            ObjectType.SITE: k.IN_ZONE,
            ObjectType.GEOM: k.IS_GEOM,
            ObjectType.BODY: k.ON_BODY,
        }
        return int(modes[kind]), index, index

    def _make_limits(self) -> None:
        m, sensors = self.model, chosen(self.model, ROW_OWNERS)
        found = []
        for s in sensors:
            owner, element = ROW_OWNERS[SensorType(m.sensor_type[s])], int(m.sensor_object[s, 0])
            stops = (
                k
                for k, row in enumerate(self.rows.row_list)
                if row.kind == "stop" and (row.owner, row.element) == (owner, element)
            )
            found.append(dict.fromkeys(stops, 1.0))
        self.limit_count = len(sensors)
        self.limits = summing_table(self._tables, self._columns(sensors), found)

    def clear(self) -> None:
        """Before `measure`: set arrays that are summed into to zero."""
        sums = [self.data, self.link_F]
        if self.contact_count:
            sums += [self.net_force, self.net_torque, self.net_weight, self.net_moment]
        for array in sums:
            if array.size:
                fill(array)

    def measure(self, h: float, x: StepState, link_V: wp.array, contacts: bool = True) -> None:
        """Fill `data`, after `clear` and with the kinematics at the beginning of the step. `link_V`: velocities of the
        links there. `contacts`: whether to fill the columns of contact sensors."""
        dynamics, of = self.dynamics, x.of
        if self.lines is not None and x.rest is None:
            self.lines.compute_rates(of.v0)
        if self.actuators.count and x.rest is None:
            totals = None if of.actuation is None else of.actuation.total
            self.actuators.measure(of.q, of.v0, of.actuators, self.data, totals)
        if x.gamma is not None:
            inputs = [self.limits, x.row_gamma, 1.0 / h, self.data]
            dynamics.launch(actuator_sensors.measure_sums, self.limit_count, inputs)
            self._find_moments(x)
            if self.touch_count:
                self._measure_touch(h, x)
            if self.contact_count and contacts:
                self._measure_contacts(h, x, link_V)
        if not self.moves:
            return
        topology, plant, v_bias = self.device_model.topology, self.device_model.plant(), of.v0
        if x.rest is not None:
            v_bias, plant.gravity = x.rest
        inputs = [topology, plant, h, of.v0, x.v, self.acceleration]
        dynamics.launch(reaction_kernels.accelerations, self.model.nv, inputs)
        if self.bears and x.gamma is not None:
            self._external_wrenches(h, x)
        inputs = [topology, plant, dynamics.dof_S, dynamics.link_I, link_V, v_bias, self.acceleration]
        dynamics.launch(
            reaction_kernels.link_reactions, self.model.ntree, [*inputs, self.link_F, self.link_A, self.link_f]
        )
        if self.frame_count:
            inputs = [topology, self.frames, plant]
            inputs += [dynamics.link_X, link_V, self.link_A, self.link_f, self.data]
            dynamics.launch(reaction_kernels.measure_accelerations, self.frame_count, inputs)
        if self.reactions:
            dynamics.launch(
                reaction_kernels.keep_accelerations, self.model.nv, [self.acceleration, self.first, self.data]
            )
            inputs = [topology, dynamics.link_X, self.link_f, self.first + self.model.nv, self.data]
            dynamics.launch(reaction_kernels.keep_reactions, self.model.nbody, inputs)

    def measure_contacts(self, h: float, x: StepState, link_V: wp.array) -> None:
        """Fill the columns of contact sensors alone."""
        self._find_moments(x)
        if self.contact_count:
            self._measure_contacts(h, x, link_V)

    def _find_moments(self, x: StepState) -> None:
        if self.turns:
            inputs = [*self.collision.spin.inputs(), x.gamma, self.moment]
            self.dynamics.launch(spin_moments.spin_moments, self.collision.capacity, inputs)

    def _external_wrenches(self, h: float, x: StepState) -> None:
        """The wrenches on links other than those of joints and gravity."""
        dynamics, d, collision, of = self.dynamics, self.device_model, self.collision, x.of
        if of.wrench is not None and x.rest is None:
            inputs = [d.topology, d.plant(), dynamics.link_X, of.wrench, self.link_F]
            dynamics.launch(reaction_kernels.user_wrenches, self.model.nbody, inputs)
        if collision.enabled:
            inputs = [d.topology, collision.scene, collision.contacts, x.point, x.frame, x.gamma, self.moment]
            dynamics.launch(reaction_kernels.contact_wrenches, None, [*inputs, h, dynamics.link_X, self.link_F])
        if self.rows.has_frames:
            inputs = [d.topology, self.rows.table, self.rows.constants(), self.rows.rows, x.row_gamma, h]
            dynamics.launch(reaction_kernels.row_wrenches, None, [*inputs, dynamics.link_X, self.link_F])
        if self.rows.bodies:
            inputs = [d.topology, self.rows.table, self.rows.soft(), self.rows.rows, x.row_gamma, h]
            dynamics.launch(reaction_kernels.soft_row_wrenches, None, [*inputs, dynamics.link_X, self.link_F])
        if self.strings is not None:
            lines, strings = self.lines_of_strings, self.strings
            if x.rest is not None or of.pulls is not None:
                strings = self.strings_of_rows
            inputs = [strings, self.rows.table, self.rows.constants(), self.rows.rows, self.on_lines, lines.length]
            inputs += [of.q, x.row_gamma, h, of.actuators, self.tension]
            dynamics.launch(string_wrenches.string_tensions, self.tension.shape[1], inputs)
            if of.pulls is not None and x.rest is None:
                of.pulls.add_tensions(dynamics, self.tension)
            inputs = [d.topology, lines.sites, lines.segments, self.tension, lines.point, lines.force, lines.couple]
            dynamics.launch(string_wrenches.string_wrenches, None, [*inputs, dynamics.link_X, self.link_F])

    def _measure_touch(self, h: float, x: StepState) -> None:
        dynamics, collision = self.dynamics, self.collision
        inputs = [
            self.zones,
            collision.scene,
            collision.contacts,
            self.geom_body,
            dynamics.link_X,
            x.gamma,
            self.touches,
        ]
        with tape_paused():
            dynamics.launch(touch_sensors.find_touches, self.touch_count, inputs)
        inputs = [self.zones, collision.contacts, self.touches, x.gamma, h, self.data]
        dynamics.launch(touch_sensors.measure_touch, self.touch_count, inputs)

    def _measure_contacts(self, h: float, x: StepState, link_V: wp.array) -> None:
        dynamics, collision, table = self.dynamics, self.collision, self.contact_sensors
        read = {key: getattr(x, key) for key in ("phi", "point", "frame", "gamma")}
        state = self.device_model.struct(touch_sensors.ContactState, moment=self.moment, **read)
        inputs = [table, collision.scene, collision.contacts, dynamics.link_X, x.gamma, self.matches]
        with tape_paused():
            dynamics.launch(touch_sensors.find_contacts, self.contact_count, inputs)
        inputs = [self.device_model.topology, table, collision.scene, collision.contacts, self.matches, state, h]
        inputs += [self.device_model.plant(), dynamics.link_X, link_V, self.data]
        dynamics.launch(touch_sensors.measure_contacts, self.slots, inputs)
        inputs = [table, collision.contacts, self.matches, state, h, self.net, self.data]
        dynamics.launch(touch_sensors.measure_net_contact, self.contact_count, inputs)


class StepMeasurement(Part):
    """The sensors of a step as a `Part` of it. The state keeps the measured numbers."""

    name = "measurement"

    def __init__(self, step, reactions: bool):
        self.sensors = StepSensors(step.dynamics, step.collision, step.scalar_rows, reactions, step.lines)
        d, model = step.device_model, step.model
        self.link_V = step.dynamics.array(model.nlink, d.types.vec6)
        self.measured = step.dynamics.array(self.sensors.data.shape[1], d.types.real)
        self.lack = lack_of_gradient(step, reactions)
        self._no_gravity = wp.zeros(1, dtype=d.types.vec3, device=d.device)
        self.stepped = wp.zeros(step.worlds, dtype=wp.int32, device=d.device)

    def memory(self) -> dict:
        """Arrays by name that a state keeps: the numbers, and the worlds that have any."""
        return {"measured": self.measured, "stepped": self.stepped}

    def smooth_memory(self) -> tuple[str, ...]:
        return () if self.lack else ("measured",)

    def _state(self, of, v: wp.array, rest=None) -> StepState:
        contacts, solution = self.of.collision.contacts, self.of.solver.solution
        found = (contacts.phi, contacts.point, contacts.frame, solution.gamma, solution.row_gamma)
        return StepState(of, v, *found, rest)

    def before_commit(self, h: float, v: wp.array) -> None:
        """Measure the step from (q, v0) to v."""
        step = self.of
        step.dynamics.velocity(step.v, self.link_V)
        self.sensors.clear()
        self.sensors.measure(h, self._state(step, v), self.link_V)

    def measure_solve(self, h: float, q: wp.array, v: wp.array, is_impact: bool) -> None:
        """Measure one solve of a step with impacts, from (q, v) to its solution, with the kinematics at q."""
        step = self.of
        of = SimpleNamespace(q=q, v0=v, wrench=step.wrench, actuators=step.actuators, actuation=step.actuation)
        of.pulls = None  # steps with impacts have none
        rest = (step.zero_acceleration, self._no_gravity) if is_impact else None
        step.dynamics.velocity(step.zero_acceleration if is_impact else v, self.link_V)
        self.sensors.clear()
        self.sensors.measure(h, self._state(of, step.solver.solution.v, rest), self.link_V, contacts=False)

    def measure_turn(self, h: float, v: wp.array) -> None:
        """Measure the change of velocity of bodies that turn freely, from v to the end of the step."""
        step, rest = self.of, (self.of.zero_acceleration, self._no_gravity)
        of = SimpleNamespace(q=step.q, v0=v, wrench=None, pulls=None)
        step.dynamics.velocity(rest[0], self.link_V)
        self.sensors.clear()
        none = (None,) * 5
        self.sensors.measure(h, StepState(of, step.solver.solution.v, *none, rest), self.link_V, contacts=False)

    def finish_solves(self, h: float) -> None:
        """After the sums over the solves are in `sensors.data`: measure the contacts of the step, from (q, v0) on."""
        step, sensors = self.of, self.sensors
        if sensors.reactions:
            v, (a, first) = step.solver.solution.v, (sensors.acceleration, sensors.first)
            inputs = [step.device_model.topology, step.device_model.plant(), h, step.v, v, a]
            step.dynamics.launch(reaction_kernels.accelerations, step.model.nv, inputs)
            step.dynamics.launch(reaction_kernels.keep_accelerations, step.model.nv, [a, first, sensors.data])
        if sensors.contact_count:
            step.dynamics.position(step.q)
            step.dynamics.velocity(step.v, self.link_V)
            sensors.measure_contacts(h, self._state(step, step.solver.solution.v), self.link_V)

    def after_commit(self) -> None:
        """Keep the measured numbers in worlds whose step was accepted."""
        step = self.of
        inputs = [step.flags, self.sensors.data, self.measured, self.stepped]
        step.dynamics.launch(reaction_kernels.keep_measured, self.measured.shape[1], inputs)
