# SPDX-License-Identifier: Apache-2.0
"""Dynamics and contact quantities at a given state, with a workspace of their own: a step is never disturbed."""

import functools
import typing
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array
from warpsim.base.reprs import show
from warpsim.contact.collision import Collision, ContactList
from warpsim.contact.hydroelastic.contact_patch import ContactPatch, PatchFinder
from warpsim.device.copies import copy
from warpsim.forces.lines import Lines, has_lines
from warpsim.forces.tendon_energy import TendonEnergy, sprung
from warpsim.kernels.contact import net_force, ray, ray_cast, ray_field
from warpsim.kernels.tree import centre as centre_kernels
from warpsim.model.model import GeomType
from warpsim.tree.dynamics import DeviceModel, Dynamics
from warpsim.tree.wide import WideDynamics, needs_float64


class RayHits(typing.NamedTuple):
    """`distance (worlds, rays)` [m] along the ray, -1 where nothing is hit; `geom` index, -1; outward `normal`."""

    distance: Array
    geom: Array
    normal: Array

    def __repr__(self) -> str:
        return show("RayHits", self._asdict())


class AboutCentre(typing.NamedTuple):
    """About the centre of mass of each body's tree, world axes: `wrench (worlds, nbody, 6)` of the last step's contacts (torque, force), `inertia
    (worlds, nbody, 10)` (Ixx Iyy Izz Ixy Ixz Iyz, m (x - c), m), `velocity (worlds, nbody, 6)` (angular, of the body's point at c); and
    `centre (worlds, trees, 4)`: mass and place of each tree."""

    wrench: Array
    inertia: Array
    velocity: Array
    centre: Array

    def __repr__(self) -> str:
        return show("AboutCentre", self._asdict())


class RaySensor:
    """Rays that are cast again and again: `sensor(state)` gives their `RayHits`. Made by `Simulator.ray_sensor`."""

    def __init__(
        self, queries: "Queries", origin: np.ndarray, direction: np.ndarray, reach: float, geoms: Any, body: int
    ):
        d = queries.device_model
        self._queries, self.rays = queries, origin.shape[1]
        self._rays = [
            wp.array(np.ascontiguousarray(x, d.dtype), dtype=d.types.vec3, device=d.device) for x in (origin, direction)
        ]
        self._link = -1 if body < 0 else int(d.model.body_link[body])
        self._geoms = wp.array(np.asarray(geoms, np.int32), dtype=wp.int32, device=d.device)
        self._reach = float(min(reach, np.finfo(d.dtype).max))

    def cast(self, q: wp.array) -> RayHits:
        """The hits at positions q."""
        queries, d = self._queries, self._queries.device_model
        dynamics, placement = queries.dynamics, queries._placement
        dynamics.position(q)
        placement.place_geoms(dynamics.link_V, dynamics.link_V)
        shape, kinds = (d.worlds, self.rays), (queries.scalar, wp.int32, d.types.vec3)
        hits = RayHits(*(wp.zeros(shape, dtype=kind, device=d.device) for kind in kinds))
        inputs = [placement.scene.geom_type, d.parameters.stored("geom_size"), placement.geom_X, self._geoms]
        inputs += [queries._triangles, queries._fields, self._link, dynamics.link_X, *self._rays, self._reach]
        dynamics.launch(ray_cast.cast, self.rays, [*inputs, hits.distance, hits.geom, hits.normal])
        return hits


class Queries:
    """Answers for `Simulator`: kinematics, mass matrix, inverse and forward dynamics, Jacobian, energy, contacts.

    All inputs are arrays on the device; results are new arrays.
    """

    def __init__(self, device_model: DeviceModel):
        self.device_model, self.model = device_model, device_model.model
        self.dynamics = Dynamics(device_model)
        self.scalar = device_model.types.real

    def place_mocap(self, mocap: wp.array | None) -> None:
        """Put the mocap bodies at poses `(worlds, nmocap, 7)`, before a query; None where there are none."""
        if mocap is not None:
            self.dynamics.place_mocap(mocap)

    def kinematics(self, q: wp.array) -> wp.array:
        """Body poses `(worlds, nbody, 7)`."""
        self._place(q)
        poses = self.dynamics.array((self.model.nbody, 7), self.scalar)
        self.dynamics.body_poses(poses)
        return poses

    def body_velocity(self, q: wp.array, v: wp.array) -> wp.array:
        """Body velocities `(worlds, nbody, 6)`."""
        self._place(q)
        self.dynamics.motion_subspace(self.dynamics.link_X, self.dynamics.dof_S)
        self.dynamics.velocity(v)
        velocity = self.dynamics.array((self.model.nbody, 6), self.scalar)
        self.dynamics.body_velocities(velocity)
        return velocity

    def contact_wrench(self, q: wp.array, step) -> wp.array:
        """Net wrench `(worlds, nbody, 6)` of a step's contacts on each body, about the COMs at q."""
        self._place(q)
        return self._wrench(step)

    def _place(self, q: wp.array) -> None:
        """Link poses alone, of what `Dynamics.position` works out."""
        self.dynamics.kinematics(q, self.dynamics.link_X)

    def _wrench(self, step) -> wp.array:
        """Of a step's contacts, where the links are."""
        d = self.device_model
        wrench = self.dynamics.array((self.model.nbody, 6), self.scalar)
        inputs = [step.collision.scene, step.collision.contacts, step.solver.solution.gamma, step.last_h, self._owner]
        inputs += [d.topology, d.parameters.stored("body_com"), self.dynamics.link_X, wrench]
        self.dynamics.launch(net_force.net_wrench, None, inputs)
        if step.collision.spin is not None:
            step.collision.spin.add_moments(step.solver.solution.gamma, step.last_h, self._owner, wrench)
        return wrench

    @functools.cached_property
    def _owner(self) -> wp.array:
        """Body of each geom."""
        return wp.array(self.model.geom_body.astype(np.int32), dtype=wp.int32, device=self.device_model.device)

    def about_centre(self, q: wp.array, v: wp.array, step) -> AboutCentre:
        """See `AboutCentre`."""
        dynamics, n = self.dynamics, self.model.nbody
        dynamics.position(q)
        dynamics.velocity(v)
        wrench = self._wrench(step)
        trees = (self.model.ntree, 4)
        centre, inertia, velocity = (dynamics.array(shape, self.scalar) for shape in (trees, (n, 10), (n, 6)))
        inputs = [self.device_model.topology, dynamics.link_X, dynamics.link_I, dynamics.link_V]
        dynamics.launch(centre_kernels.about_centre, self.model.ntree, [*inputs, wrench, centre, inertia, velocity])
        return AboutCentre(wrench, inertia, velocity, centre)

    def mass_matrix(self, q: wp.array) -> wp.array:
        """`(worlds, nv, nv)`."""

        def fill(dynamics: Dynamics, q, M):
            dynamics.position(q)
            blocks = dynamics.blocks()
            composite = dynamics.array(self.model.nlink, dynamics.device_model.types.vec10)
            dynamics.mass_matrix(composite, blocks)
            dynamics.expand_blocks(blocks, M)

        return self._evaluate(fill, (self.model.nv, self.model.nv), q)

    def inverse_dynamics(self, q: wp.array, v: wp.array, a: wp.array) -> wp.array:
        """M a + c `(worlds, nv)`."""

        def fill(dynamics: Dynamics, q, v, a, tau):
            dynamics.position(q)
            dynamics.velocity(v)
            dynamics.inverse_dynamics(v, a, tau)

        return self._evaluate(fill, self.model.nv, q, v, a)

    def forward_dynamics(self, q: wp.array, v: wp.array, tau: wp.array) -> wp.array:
        """M^-1 (tau - c) `(worlds, nv)`."""

        def fill(dynamics: Dynamics, q, v, tau, a):
            dynamics.position(q)
            dynamics.velocity(v)
            dynamics.forward_dynamics(v, tau, a)

        return self._evaluate(fill, self.model.nv, q, v, tau)

    def _evaluate(self, function, shape, *inputs) -> wp.array:
        """`function(dynamics, *inputs, out)`, in float64 where a float32 model has a deep tree (`deep.py`)."""
        out = self.dynamics.array(shape, self.scalar)
        if self._wide is None:
            function(self.dynamics, *inputs, out)
        else:
            self._wide.evaluate(function, inputs, out)
        return out

    @functools.cached_property
    def _wide(self) -> WideDynamics | None:
        return WideDynamics(self.device_model) if needs_float64(self.device_model) else None

    def jacobian(self, q: wp.array, body: int, point: np.ndarray) -> wp.array:
        """`(worlds, 6, nv)` at `point (rows, 3)` in body axes, rows 1 or worlds."""
        self.dynamics.position(q)
        J = self.dynamics.array((6, self.model.nv), self.scalar)
        points = wp.array(point, dtype=self.device_model.types.vec3, device=self.device_model.device)
        self.dynamics.jacobian(body, points, J)
        return J

    def energy(self, q: wp.array, v: wp.array) -> tuple[wp.array, wp.array]:
        """Kinetic and potential energy, each `(worlds,)`."""
        self.dynamics.position(q)
        self.dynamics.velocity(v)
        result = tuple(
            wp.zeros(self.device_model.worlds, dtype=self.scalar, device=self.device_model.device) for _ in range(3)
        )
        self.dynamics.energy(q, v, *result)
        if self._tendon_energy is not None:
            if self._tendon_energy.lines is not None:
                self._tendon_energy.lines.launch()
            self._tendon_energy.measure(q)
            self._tendon_energy.add(*result[1:])
        return result[:2]

    @functools.cached_property
    def _tendon_energy(self) -> TendonEnergy | None:
        if not len(sprung(self.model)):
            return None
        return TendonEnergy(self.dynamics, Lines(self.device_model, self.dynamics) if has_lines(self.model) else None)

    @functools.cached_property
    def _placement(self) -> Collision:
        return Collision(self.device_model, self.dynamics, 1, enabled=False, placement=True)

    @functools.cached_property
    def _triangles(self):
        return triangle_table(self.device_model)

    @functools.cached_property
    def _fields(self):
        return height_field_table(self.device_model)

    def contacts(self, q: wp.array, v: wp.array, h: float, capacity: int) -> ContactList:
        """The contacts at (q, v) that exist or can come about within h at the present velocity."""
        collision = Collision(self.device_model, self.dynamics, capacity or None, enabled=capacity > 0)
        self.dynamics.position(q)
        self.dynamics.velocity(v)
        collision.detect(h, self.dynamics.link_V, self.dynamics.link_V)
        return ContactList(collision, None)

    def patches(self, q: wp.array, world: int) -> list[ContactPatch]:
        """The patches between pressure fields at q in one world."""
        if self.model.point_pairs == len(self.model.pair_geom):
            return []
        self._patch_finder.place(q)
        return self._patch_finder.patches(world)

    @functools.cached_property
    def _patch_finder(self) -> PatchFinder:
        return PatchFinder(self.dynamics, self._placement, self.device_model.hydroelastic.max_polygons)


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
