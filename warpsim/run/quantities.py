# SPDX-License-Identifier: Apache-2.0
"""Quantities of a `Simulator` at a state: kinematics, dynamics, energy, sensors, contacts and rays.

They have their own workspace, so that a query never disturbs a step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array, Device, Element, Numbers
from warpsim.base.checks import choice, whole
from warpsim.contact.collision import Collision, ContactList
from warpsim.contact.hydroelastic.contact_patch import ContactPatch, PatchFinder, contact_patches
from warpsim.contact.queries import AboutCentre, RayHits, RaySensor, height_field_table, triangle_table
from warpsim.device.threads import exclusive
from warpsim.forces.lines import Lines, has_lines
from warpsim.forces.tendon_energy import TendonEnergy, sprung
from warpsim.kernels.contact import net_force
from warpsim.kernels.solve import gradient_norm
from warpsim.kernels.tree import centre as centre_kernels
from warpsim.model.model import Model
from warpsim.state import State
from warpsim.tree.dynamics import Dynamics
from warpsim.tree.wide import WideDynamics, needs_float64


class Quantities:
    """Base class of `Simulator` with the quantities at a state. Results are new arrays."""

    model: Model
    worlds: int
    device: Device
    device_model: Any
    integrator: Any
    max_contacts: int
    _inputs: Any
    _step: Any
    _stepper: Any

    @exclusive
    def kinematics(self, q: Numbers, mocap: Numbers | None = None) -> Array:
        """Body poses `(worlds, nbody, 7)` as `[x y z qw qx qy qz]` in the world frame. Bodies are in the file's order.

        `mocap` `(nmocap, 7)` or (worlds, nmocap, 7), here and in the queries below: poses of the mocap bodies. Default:
        their poses in the model.
        """
        dynamics = self._with(mocap)
        dynamics.kinematics(*self._inputs.rows(q=q), dynamics.link_X)
        poses = dynamics.array((self.model.nbody, 7), self._scalar)
        dynamics.body_poses(poses)
        return poses

    @exclusive
    def body_velocity(self, state: State) -> Array:
        """Velocities of the body frames `(worlds, nbody, 6)`: (angular, linear) in world axes. The linear velocity is
        that of the frame's origin."""
        return self._body_velocity(self._at(state), state)

    @exclusive
    def body_motion(self, state: State) -> tuple[Array, Array]:
        """Poses `(worlds, nbody, 7)` and velocities `(worlds, nbody, 6)` of the body frames, as `kinematics` and
        `body_velocity` return them, in less time than both take."""
        dynamics = self._at(state)
        velocity = self._body_velocity(dynamics, state)
        poses = dynamics.array((self.model.nbody, 7), self._scalar)
        dynamics.body_poses(poses)
        return poses, velocity

    def _body_velocity(self, dynamics: Dynamics, state: State) -> Array:
        dynamics.kinematics(state.q, dynamics.link_X)
        dynamics.motion_subspace(dynamics.link_X, dynamics.dof_S)
        dynamics.velocity(state.v)
        velocity = dynamics.array((self.model.nbody, 6), self._scalar)
        dynamics.body_velocities(velocity)
        return velocity

    @exclusive
    def mass_matrix(self, q: Numbers, mocap: Numbers | None = None) -> Array:
        """Joint-space mass matrix `(worlds, nv, nv)` by CRBA, armature included."""

        def fill(dynamics: Dynamics, q, M):
            dynamics.position(q)
            blocks = dynamics.blocks()
            composite = dynamics.array(self.model.nlink, dynamics.device_model.types.vec10)
            dynamics.mass_matrix(composite, blocks)
            dynamics.expand_blocks(blocks, M)

        return self._evaluate(fill, (self.model.nv, self.model.nv), mocap, q=q)

    @exclusive
    def inverse_dynamics(self, q: Numbers, v: Numbers, a: Any, mocap: Numbers | None = None) -> Array:
        """`M a + c(q, v)` `(worlds, nv)` by RNEA; c contains Coriolis, gyroscopic and gravity terms."""

        def fill(dynamics: Dynamics, q, v, a, tau):
            dynamics.position(q)
            dynamics.velocity(v)
            dynamics.inverse_dynamics(v, a, tau)

        return self._evaluate(fill, self.model.nv, mocap, q=q, v=v, a=a)

    @exclusive
    def forward_dynamics(self, q: Numbers, v: Numbers, tau: Numbers, mocap: Numbers | None = None) -> Array:
        """`M^-1 (tau - c)` `(worlds, nv)` by ABA, without contact, springs, dampers and actuators."""

        def fill(dynamics: Dynamics, q, v, tau, a):
            dynamics.position(q)
            dynamics.velocity(v)
            dynamics.forward_dynamics(v, tau, a)

        return self._evaluate(fill, self.model.nv, mocap, q=q, v=v, tau=tau)

    @exclusive
    def jacobian(
        self, q: Numbers, body: Element, point: Numbers = (0.0, 0.0, 0.0), mocap: Numbers | None = None
    ) -> Array:
        """Jacobian `(worlds, 6, nv)` of a point of `body`. Rows are (angular, linear) in world axes.

        `point` (3,) or (worlds, 3) is fixed in the frame of `body`.
        """
        (q,), point = self._inputs.rows(q=q), self._inputs.host_rows(point, 3, "point")
        dynamics, body = self._with(mocap), self._inputs.body(body)
        dynamics.position(q)
        J = dynamics.array((6, self.model.nv), self._scalar)
        points = wp.array(np.atleast_2d(point), dtype=self.device_model.types.vec3, device=self.device)
        dynamics.jacobian(body, points, J)
        return J

    @exclusive
    def energy(self, state: State) -> tuple[Array, Array]:
        """Kinetic and potential energy [J], each `(worlds,)`.

        The potential energy is that of gravity and of the springs of joints and tendons, as in MuJoCo. Gravity's is 0
        with all mass at the world's origin. Constraints, actuators and contact do not contribute.
        """
        dynamics = self._at(state)
        dynamics.position(state.q)
        dynamics.velocity(state.v)
        kinetic, potential, total = (wp.zeros(self.worlds, dtype=self._scalar, device=self.device) for _ in range(3))
        dynamics.energy(state.q, state.v, kinetic, potential, total)
        if self._tendon_energy is not None:
            if self._tendon_energy.lines is not None:
                self._tendon_energy.lines.launch()
            self._tendon_energy.compute(state.q)
            self._tendon_energy.add(potential, total)
        return kinetic, potential

    @exclusive
    def sensors(self, state: State, control: Numbers | None = None) -> Array:
        """Readings of the model's sensors `(worlds, nsensordata)`, in MuJoCo's order and layout. `model.sensor(name)`
        is the slice of a sensor.

        Sensors of positions and velocities are evaluated at `state`. Sensors of accelerations and forces belong to the
        (sub)step that led to `state`, at its beginning: (v' − v)/h and impulses/h. They are NaN after `sim.state` and
        `reset`, until the next step. With `control (worlds, nu)`, actuator forces are evaluated at `state` instead. A
        tape records the readings. See docs/sensors.md.
        """
        self._stepper.check_state(state)
        return self._stepper.sensors(state, control)

    @exclusive
    def acceleration(self, state: State) -> Array:
        """Acceleration (v' − v)/h `(worlds, nv)` of the (sub)step that led to `state`, MuJoCo's qacc. NaN until a step.

        The simulator must be made with `reactions=True`. A tape records the result.
        """
        self._stepper.check_state(state)
        return self._stepper.reactions(state, "acceleration")

    @exclusive
    def joint_reaction(self, state: State) -> Array:
        """Wrench that each body's parent exerts on it through its joints `(worlds, nbody, 6)`.

        (torque, force) at the origin of the body's frame, in world axes, at the beginning of the (sub)step that led to
        `state`. It includes springs, dampers and actuators of the joints. It excludes contacts, constraints between
        bodies and `wrench`. NaN until a step.

        The simulator must be made with `reactions=True`. A tape records the result.
        """
        self._stepper.check_state(state)
        return self._stepper.reactions(state, "joint_reaction")

    @exclusive
    def contacts(self, state: State) -> ContactList:
        """The contact points at `state`, including those that its velocity can bring about within dt."""
        dynamics, capacity = self._at(state), self.max_contacts
        collision = Collision(self.device_model, dynamics, capacity or None, enabled=capacity > 0)
        collision.scene.mujoco = self._step.collision.scene.mujoco
        dynamics.position(state.q)
        dynamics.velocity(state.v)
        collision.detect(self.dt, dynamics.link_V, dynamics.link_V)
        return ContactList(collision, None)

    @exclusive
    def contact_force(self, of: str = "body") -> Array:
        """Net contact force of the last step [N] in world axes.

        An array of vec3 `(worlds, nbody)` or, with `of="geom"`, `(worlds, ngeom)`.
        """
        choice(of, "of", ("body", "geom"))
        return self._step.net_contact_force(of)

    @exclusive
    def contact_wrench(self, state: State) -> Array:
        """Net wrench of the last step's contacts on each body `(worlds, nbody, 6)`.

        (torque, force) in world axes, as `step` takes them. The torque is about the body's center of mass at `state`.
        """
        dynamics = self._at(state)
        dynamics.kinematics(state.q, dynamics.link_X)
        return self._wrench(dynamics)

    @exclusive
    def about_centre(self, state: State) -> AboutCentre:
        """Contact wrenches of the last step, inertias and velocities of the bodies, about the center of mass of their
        tree.

        They are MuJoCo's cfrc_ext, cinert and cvel.
        """
        dynamics = self._at(state)
        dynamics.position(state.q)
        dynamics.velocity(state.v)
        return self._about_centre(dynamics)

    @exclusive
    def evaluated(self, what: str) -> Any:
        """A quantity where the last (sub)step evaluated its forces, as in MuJoCo's `data` after `mj_step`.

        That is at the state with which the (sub)step began; with `ws.MuJoCoRK4()`, at its last stage. `what` is "poses"
        (as `kinematics`), "velocities" (as `body_velocity`), "about_centre", or "constraint_force": generalized forces
        of contacts and constraints `(worlds, nv)`, MuJoCo's qfrc_constraint. Only with MuJoCo's integrators.
        """
        choice(what, "what", ("poses", "velocities", "about_centre", "constraint_force"))
        if not getattr(self.integrator, "mujoco_law", False):
            raise ValueError(
                f"evaluated: integrator is {self.integrator!r}, which keeps no evaluation; use ws.MuJoCo()"
            )
        step, dynamics = self._step, self._step.dynamics
        if what == "about_centre":
            return self._about_centre(dynamics)
        if what == "constraint_force":
            out = dynamics.array(self.model.nv, self._scalar)
            inputs = [step.solver.problem, step.solver.solution, step.last_h, out]
            dynamics.launch(gradient_norm.constraint_force, self.model.nv, inputs)
            return out
        out = dynamics.array((self.model.nbody, 7 if what == "poses" else 6), self._scalar)
        (dynamics.body_poses if what == "poses" else dynamics.body_velocities)(out)
        return out

    def _about_centre(self, dynamics: Dynamics) -> AboutCentre:
        """`about_centre` with the poses and velocities of a workspace."""
        wrench, n = self._wrench(dynamics), self.model.nbody
        trees = (self.model.ntree, 4)
        centre, inertia, velocity = (dynamics.array(shape, self._scalar) for shape in (trees, (n, 10), (n, 6)))
        inputs = [self.device_model.topology, dynamics.link_X, dynamics.link_I, dynamics.link_V]
        dynamics.launch(centre_kernels.about_centre, self.model.ntree, [*inputs, wrench, centre, inertia, velocity])
        return AboutCentre(wrench, inertia, velocity, centre)

    @exclusive
    def ray_cast(
        self,
        state: State,
        origin: Numbers,
        direction: Numbers,
        *,
        max_distance: float = np.inf,
        geoms: Sequence[Element] | None = None,
        ignore: Sequence[Element] = (),
        body: Element | None = None,
    ) -> RayHits:
        """Nearest hits of rays with the geoms at `state`: distance [m] (−1: none), geom index, outward normal in world
        axes.

        `origin` and `direction` (any length) are (rays, 3) or (worlds, rays, 3), in world axes or, with `body`, in the
        frame of that body. `geoms`: indices or names of the geoms that rays can hit (default: all). `ignore`: bodies
        whose geoms are left out, by index or name ("world" or −1: the world).
        """
        sensor = self._rays(origin, direction, max_distance, geoms, ignore, body)
        return self._look(sensor, state)

    @exclusive
    def ray_sensor(
        self,
        origin: Numbers,
        direction: Numbers,
        *,
        max_distance: float = np.inf,
        geoms: Sequence[Element] | None = None,
        ignore: Sequence[Element] = (),
        body: Element | None = None,
    ) -> Callable[[State], RayHits]:
        """A function of a state that returns the hits of the rays of `ray_cast`. The rays are prepared once."""
        return functools.partial(self._look, self._rays(origin, direction, max_distance, geoms, ignore, body))

    @exclusive
    def _look(self, sensor: RaySensor, state: State) -> RayHits:
        self._at(state)
        return sensor.cast(state.q)

    def _rays(self, origin, direction, max_distance, geoms, ignore, body) -> RaySensor:
        origin, direction, reach = self._inputs.rays(origin, direction, max_distance)
        link = -1 if body is None else self._inputs.body(body)
        return RaySensor(self, origin, direction, reach, self._inputs.ray_geoms(geoms, ignore), link)

    @property
    @exclusive
    def last_contacts(self) -> ContactList:
        """The contact points of the last step. `impulse` is the impulse on geom B in the contact frame [N s]."""
        return ContactList(self._step.collision, self._step.solver.solution.gamma.numpy())

    @exclusive
    def contact_patches(self, world: int = 0, state: State | None = None) -> list[ContactPatch]:
        """The hydroelastic contact patches of one world with their polygons, one patch per pair of geoms that meet.

        Without `state` they are those of the last step, at its beginning. With `state` they are those at that state,
        where force and moment are only the elastic ones.

        The result is a copy on the host, for display and checks. Raises `ValueError` for a world that does not exist.
        """
        world = whole(world, "world", 0)
        if world >= self.worlds:
            raise ValueError(f"world is {world}; the simulator has {self.worlds}, from 0 on")
        if state is None:
            return contact_patches(self._step, world)
        self._at(state)
        if self.model.point_pairs == len(self.model.pair_geom):
            return []
        self._patch_finder.place(state.q)
        return self._patch_finder.patches(world)

    @property
    def warm_start_hits(self) -> Array:
        """`(worlds,)`: 1 where the warm start solved the last LCP at the first factorization. Only with `ws.LCP()`."""
        hits = getattr(self._step.solver, "warm_start_hits", None)
        if hits is None:
            raise ValueError(f"warm_start_hits belongs to ws.LCP(), this simulator has {self.solver!r}")
        return hits

    # workspace -------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _dynamics(self) -> Dynamics:
        return Dynamics(self.device_model)

    @property
    def _scalar(self) -> Any:
        return self.device_model.types.real

    def _at(self, state: State) -> Dynamics:
        """The workspace, with the mocap bodies placed as in `state`."""
        self._stepper.check_state(state)
        if state.mocap is not None:
            self._dynamics.place_mocap(state.mocap)
        return self._dynamics

    def _with(self, mocap) -> Dynamics:
        """The workspace, with the mocap bodies placed at `mocap`; None: at their poses in the model."""
        given = self._inputs.mocap(mocap)
        if given is None and self.model.nmocap:
            given = self._stepper.mocap_rest
        if given is not None:
            self._dynamics.place_mocap(given)
        return self._dynamics

    def _evaluate(self, function, shape, mocap, **values) -> Array:
        """`function(dynamics, *values, out)`; a float32 model with a deep tree is evaluated in float64."""
        dynamics, inputs = self._with(mocap), self._inputs.rows(**values)
        out = dynamics.array(shape, self._scalar)
        if self._wide is None:
            function(dynamics, *inputs, out)
        else:
            self._wide.evaluate(function, inputs, out)
        return out

    @functools.cached_property
    def _wide(self) -> WideDynamics | None:
        return WideDynamics(self.device_model) if needs_float64(self.device_model) else None

    def _wrench(self, dynamics: Dynamics) -> Array:
        """Wrenches of the last step's contacts on the bodies, with the link poses of a workspace."""
        d, step = self.device_model, self._step
        wrench = dynamics.array((self.model.nbody, 6), self._scalar)
        inputs = [step.collision.scene, step.collision.contacts, step.solver.solution.gamma, step.last_h, self._owner]
        inputs += [d.topology, d.parameters.stored("body_com"), dynamics.link_X, wrench]
        dynamics.launch(net_force.net_wrench, None, inputs)
        if step.collision.spin is not None:
            step.collision.spin.add_moments(step.solver.solution.gamma, step.last_h, self._owner, wrench)
        return wrench

    @functools.cached_property
    def _owner(self) -> wp.array:
        """Body index of each geom."""
        return wp.array(self.model.geom_body.astype(np.int32), dtype=wp.int32, device=self.device)

    @functools.cached_property
    def _tendon_energy(self) -> TendonEnergy | None:
        if not len(sprung(self.model)):
            return None
        return TendonEnergy(self._dynamics, Lines(self.device_model, self._dynamics) if has_lines(self.model) else None)

    @functools.cached_property
    def _placement(self) -> Collision:
        return Collision(self.device_model, self._dynamics, 1, enabled=False, placement=True)

    @functools.cached_property
    def _triangles(self):
        return triangle_table(self.device_model)

    @functools.cached_property
    def _fields(self):
        return height_field_table(self.device_model)

    @functools.cached_property
    def _patch_finder(self) -> PatchFinder:
        return PatchFinder(self._dynamics, self._placement, self.device_model.hydroelastic.max_polygons)
