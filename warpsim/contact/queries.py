# SPDX-License-Identifier: Apache-2.0
"""Rays against the geoms, and what the queries of a `Simulator` return."""

import typing
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array
from warpsim.base.reprs import show
from warpsim.device.copies import copy
from warpsim.kernels.contact import ray, ray_cast, ray_field
from warpsim.model.model import GeomType
from warpsim.tree.dynamics import DeviceModel


class RayHits(typing.NamedTuple):
    """`distance (worlds, rays)` [m] along the ray, -1 where nothing is hit; `geom` index, -1; outward `normal`."""

    distance: Array
    geom: Array
    normal: Array

    def __repr__(self) -> str:
        return show("RayHits", self._asdict())


class AboutCentre(typing.NamedTuple):
    """About the centre of mass of each body's tree, world axes: `wrench (worlds, nbody, 6)` of the last step's contacts
    (torque, force), `inertia (worlds, nbody, 10)` (Ixx Iyy Izz Ixy Ixz Iyz, m (x - c), m),
    `velocity (worlds, nbody, 6)` (angular, of the body's point at c); and `centre (worlds, trees, 4)`: mass and place
    of each tree."""

    wrench: Array
    inertia: Array
    velocity: Array
    centre: Array

    def __repr__(self) -> str:
        return show("AboutCentre", self._asdict())


class RaySensor:
    """Rays that are cast again and again: `sensor(state)` gives their `RayHits`. Made by `Simulator.ray_sensor`."""

    def __init__(self, sim: Any, origin: np.ndarray, direction: np.ndarray, reach: float, geoms: Any, body: int):
        d = sim.device_model
        self._sim, self.rays = sim, origin.shape[1]
        rays = self._rays = copy(ray_cast.Rays, d.types.real)()
        rays.origin, rays.direction = (
            wp.array(np.ascontiguousarray(x, d.dtype), dtype=d.types.vec3, device=d.device) for x in (origin, direction)
        )
        rays.link = -1 if body < 0 else int(d.model.body_link[body])
        rays.candidate = wp.array(np.asarray(geoms, np.int32), dtype=wp.int32, device=d.device)
        rays.reach = float(min(reach, np.finfo(d.dtype).max))

    def cast(self, q: wp.array) -> RayHits:
        """The hits at positions q."""
        sim, d = self._sim, self._sim.device_model
        dynamics, placement = sim._dynamics, sim._placement
        dynamics.position(q)
        placement.place_geoms(dynamics.link_V, dynamics.link_V)
        shape, kinds = (d.worlds, self.rays), (d.types.real, wp.int32, d.types.vec3)
        hits = RayHits(*(wp.zeros(shape, dtype=kind, device=d.device) for kind in kinds))
        inputs = [placement.scene.geom_type, d.parameters.stored("geom_size"), placement.geom_X]
        inputs += [sim._triangles, sim._fields, dynamics.link_X, self._rays]
        dynamics.launch(ray_cast.cast, self.rays, [*inputs, hits.distance, hits.geom, hits.normal])
        return hits


def triangle_table(d: DeviceModel):
    """Triangles of a model's meshes on the device."""
    m = d.model
    table = copy(ray.Triangles, d.types.real)()
    starts = np.cumsum([0, *(len(mesh.faces) for mesh in m.meshes)])
    offsets = np.cumsum([0, *(len(mesh.vertices) for mesh in m.meshes)])
    faces = [mesh.faces + offset for mesh, offset in zip(m.meshes, offsets, strict=False)]
    vertices = np.concatenate([mesh.vertices for mesh in m.meshes]) if m.meshes else np.zeros((0, 3))
    table.vertex = wp.array(vertices.astype(d.dtype), dtype=d.types.vec3, device=d.device)
    faces = np.concatenate(faces) if faces else np.zeros((0, 3))
    table.face = wp.array(faces.astype(np.int32), dtype=wp.int32, device=d.device)
    table.mesh_start = wp.array(starts.astype(np.int32), dtype=wp.int32, device=d.device)
    table.geom_mesh = wp.array(m.geom_mesh, dtype=wp.int32, device=d.device)
    return table


def height_field_table(d: DeviceModel):
    """Height fields of a model on the device."""
    m, S = d.model, d.types.real
    table = copy(ray_field.Fields, S)()
    heights = [field.size[2] * field.data.ravel() for field in m.hfields] or [np.zeros(0)]
    starts = np.cumsum([0, *(len(h) for h in heights)])
    shapes = np.array([field.data.shape for field in m.hfields]).reshape(-1, 2)
    sizes = np.array([[field.size[0], field.size[1], field.size[3]] for field in m.hfields]).reshape(-1, 3)
    is_field = m.geom_type == GeomType.HFIELD
    table.height = wp.array(np.concatenate(heights).astype(d.dtype), dtype=S, device=d.device)
    table.size = wp.array(sizes.astype(d.dtype), dtype=S, device=d.device)
    owner = np.where(is_field, np.cumsum(is_field) - 1, -1)
    for name, values in (("start", starts), ("shape", shapes), ("geom_field", owner)):
        setattr(table, name, wp.array(values.astype(np.int32), dtype=wp.int32, device=d.device))
    return table
