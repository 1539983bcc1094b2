# SPDX-License-Identifier: Apache-2.0
"""Rays against the geoms, and the results of queries of a `Simulator`."""

from __future__ import annotations

import typing
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array
from warpsim.base.reprs import fields_described, show
from warpsim.contact.mesh_trees import mesh_triangles
from warpsim.kernels.contact import ray_cast, ray_field
from warpsim.model.model import GeomType
from warpsim.tree.dynamics import DeviceModel


@fields_described
class RayHits(typing.NamedTuple):
    """The nearest hits of rays, from `sim.ray_cast` and `sim.ray_sensor`.

    Attributes
    ----------
    distance : wp.array (worlds, rays)
        Distance along the ray [m]; −1 without a hit.
    geom : wp.array (worlds, rays)
        Index of the geom; −1 without a hit.
    normal : wp.array of vec3 (worlds, rays)
        Outward normal of the surface in world axes; 0 without a hit.
    """

    distance: Array
    geom: Array
    normal: Array

    def __repr__(self) -> str:
        return show("RayHits", self._asdict())


@fields_described
class AboutCentre(typing.NamedTuple):
    """Bodies about the center of mass c of their tree, in world axes, from `sim.about_centre`.

    Attributes
    ----------
    wrench : wp.array (worlds, nbody, 6)
        (torque, force) of the last step's contacts [N m, N].
    inertia : wp.array (worlds, nbody, 10)
        (Ixx Iyy Izz Ixy Ixz Iyz, m (x − c), m), with the body's mass m and center of mass x [kg m², kg m, kg].
    velocity : wp.array (worlds, nbody, 6)
        (angular, linear of the body's point at c) [rad/s, m/s].
    centre : wp.array (worlds, ntree, 4)
        Mass [kg] and center of mass c [m] of each tree.
    """

    wrench: Array
    inertia: Array
    velocity: Array
    centre: Array

    def __repr__(self) -> str:
        return show("AboutCentre", self._asdict())


class RaySensor:
    """Prepared rays; `Simulator.ray_sensor` makes them."""

    def __init__(self, sim: Any, origin: np.ndarray, direction: np.ndarray, reach: float, geoms: Any, body: int):
        d = sim.device_model
        self._sim, self.rays = sim, origin.shape[1]
        link = -1 if body < 0 else int(d.model.body_link[body])
        reach = float(min(reach, np.finfo(d.dtype).max))
        known = {"origin": origin, "direction": direction, "candidate": geoms}
        self._rays = d.struct(ray_cast.Rays, link=link, reach=reach, **known)

    def cast(self, q: wp.array) -> RayHits:
        """Return the hits at positions q.

        `sim.ray_sensor` returns a function that calls it.

        Parameters
        ----------
        q : wp.array (worlds, nq)
            Positions.

        Returns
        -------
        RayHits
            Distance, geom and outward normal of the nearest hit of each ray.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), device="cpu")
        >>> look = sim.ray_sensor([[0, 0, 2.0]], [[0, 0, -1.0]])       # calls `cast`
        >>> look(sim.state()).normal.numpy()[0, 0].tolist()
        [0.0, 0.0, 1.0]
        """
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
    return mesh_triangles(d.model.meshes, d.types.real, d.device, d.model.geom_mesh)


def height_field_table(d: DeviceModel):
    """Height fields of a model on the device."""
    m = d.model
    heights = [field.size[2] * field.data.ravel() for field in m.hfields]
    is_field = m.geom_type == GeomType.HFIELD
    return d.struct(
        ray_field.Fields,
        height=np.concatenate([np.zeros(0), *heights]),
        size=np.array([[field.size[0], field.size[1], field.size[3]] for field in m.hfields]).reshape(-1, 3),
        start=np.cumsum([0, *map(len, heights)]),
        shape=np.array([field.data.shape for field in m.hfields]).reshape(-1, 2),
        geom_field=np.where(is_field, np.cumsum(is_field) - 1, -1),
    )
