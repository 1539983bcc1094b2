# SPDX-License-Identifier: Apache-2.0
"""Sensors of positions and velocities, measured at a state. The launches may be taped."""

import warp as wp

from warpsim.contact.queries import height_field_table, triangle_table
from warpsim.device.recording import tape_paused
from warpsim.forces.lines import has_lines
from warpsim.kernels.sensors import coordinate_sensors, frame_sensors, ray_sensors, subtree_sensors
from warpsim.model.sensor_types import OF_ACTUATORS, SensorType
from warpsim.sensors import sensor_tables
from warpsim.sensors.measured_lines import MeasuredLines
from warpsim.sensors.sensor_tables import SensorTables, chosen
from warpsim.tree.dynamics import Dynamics

SUMS = ("mass", "moment", "momentum", "spin")


class StateSensors:
    """Tables, workspace and launches, using the kinematics of `dynamics`."""

    def __init__(self, dynamics: Dynamics):
        self.dynamics, self.device_model = dynamics, dynamics.device_model
        model = self.device_model.model
        along = chosen(model, (*sensor_tables.AT_COORDINATES, *sensor_tables.OF_ENERGY, *OF_ACTUATORS))
        self.lines = MeasuredLines(dynamics) if len(along) and has_lines(model) else None
        tables = SensorTables(self.device_model, self.lines)
        self.counts, self.tables = {}, {}
        groups = {
            "frame": sensor_tables.AT_FRAMES,
            "coordinate": sensor_tables.AT_COORDINATES,
            "subtree": sensor_tables.AT_SUBTREES,
            "energy": sensor_tables.OF_ENERGY,
            "ray": (SensorType.RANGEFINDER,),
        }
        for name, kinds in groups.items():
            sensors = chosen(model, kinds)
            self.counts[name] = len(sensors)
            if len(sensors):
                self.tables[name] = getattr(tables, f"{name}_sensors")(sensors, model.sensor_adr[sensors])
        self.moves = any(self.counts[name] for name in ("frame", "subtree", "energy", "ray")) or self.lines is not None
        self.data = dynamics.array(model.nsensordata, self.device_model.types.real)
        self._make_scratch()

    def _make_scratch(self) -> None:
        t, array = self.device_model.types, self.dynamics.array
        if self.counts["subtree"]:
            self.mass = array(self.counts["subtree"], t.real)
            self.moment, self.momentum, self.spin = (array(self.counts["subtree"], t.vec3) for _ in range(3))
            self.sums = self.device_model.struct(subtree_sensors.Sums, **{key: getattr(self, key) for key in SUMS})
        if self.counts["ray"]:
            rays, d = self.counts["ray"], self.device_model
            self.triangles, self.fields = triangle_table(d), height_field_table(d)
            seen = self.tables["ray"].candidate.shape[0]
            self.geom_X = wp.zeros((d.worlds, seen), dtype=t.transform, device=d.device)
            zeros = lambda kind: wp.zeros((d.worlds, rays), dtype=kind, device=d.device)  # noqa: E731
            self.hits = d.struct(ray_sensors.Hits, geom=zeros(wp.int32), point=zeros(t.vec3), normal=zeros(t.vec3))

    def scratch(self) -> list[wp.array]:
        """The arrays that are summed into; they must be zero before `measure`."""
        return [self.data, *(getattr(self, key) for key in SUMS if self.counts["subtree"])]

    def measure(self, q: wp.array, v: wp.array, time: wp.array) -> None:
        """Fill the columns of these sensors in `data (worlds, nsensordata)`. The arrays of `scratch` must be zero
        before."""
        dynamics, p, topology = self.dynamics, self.device_model.parameters, self.device_model.topology
        if self.moves:
            dynamics.position(q)
            dynamics.velocity(v)
        if self.lines is not None:
            self.lines.compute_rates(v)
        if self.counts["coordinate"]:
            inputs = [
                self.tables["coordinate"],
                p.stored("joint_range"),
                p.stored("tendon_range"),
                q,
                v,
                time,
                self.data,
            ]
            dynamics.launch(coordinate_sensors.measure_coordinates, self.counts["coordinate"], inputs)
        if self.counts["frame"]:
            inputs = [topology, self.tables["frame"], self.device_model.plant()]
            inputs += [dynamics.link_X, dynamics.link_V, self.data]
            dynamics.launch(frame_sensors.measure_frames, self.counts["frame"], inputs)
        if self.counts["subtree"]:
            plant = self.device_model.plant()
            inputs = [topology, self.tables["subtree"], plant, dynamics.link_X, dynamics.link_V, self.sums]
            dynamics.launch(subtree_sensors.measure_subtrees, self.counts["subtree"], [*inputs, self.data])
        if self.counts["energy"]:
            parameters = [self.device_model.plant(), p.stored("tendon_stiffness")]
            inputs = [topology, self.tables["energy"], *parameters, dynamics.link_X, dynamics.link_V]
            dynamics.launch(subtree_sensors.measure_energy, self.counts["energy"], [*inputs, q, v, self.data])
        if self.counts["ray"]:
            self._measure_rays()

    def _measure_rays(self) -> None:
        dynamics, plant, table = self.dynamics, self.device_model.plant(), self.tables["ray"]
        with tape_paused():
            inputs = [table, plant, dynamics.link_X, self.geom_X]
            dynamics.launch(ray_sensors.place_candidates, self.geom_X.shape[1], inputs)
            inputs = [table, plant, self.triangles, self.fields, dynamics.link_X, self.geom_X, self.hits]
            dynamics.launch(ray_sensors.cast_rays, self.counts["ray"], inputs)
        inputs = [table, plant, dynamics.link_X, self.hits, self.data]
        dynamics.launch(ray_sensors.measure_rays, self.counts["ray"], inputs)
