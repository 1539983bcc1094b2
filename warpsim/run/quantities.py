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
        """Compute the poses of all bodies.

        Parameters
        ----------
        q : array (nq,) or (worlds, nq)
            Positions.
        mocap : array (nmocap, 7) or (worlds, nmocap, 7), optional
            Poses of the mocap bodies. Default: those of the model.

        Returns
        -------
        array (worlds, nbody, 7)
            Poses `[x y z qw qx qy qz]` in the world frame [m]. Bodies are in the file's order.

        Raises
        ------
        ValueError
            A value is NaN, or a shape is wrong.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=2, device="cpu", dtype="float64")
        >>> poses = sim.kinematics(sim.model.q0).numpy()
        >>> poses[0, sim.model.body("torso")].tolist()
        [0.0, 0.0, 0.34, 1.0, 0.0, 0.0, 0.0]
        """
        dynamics = self._with(mocap)
        dynamics.kinematics(*self._inputs.rows(q=q), dynamics.link_X)
        poses = dynamics.array((self.model.nbody, 7), self._scalar)
        dynamics.body_poses(poses)
        return poses

    @exclusive
    def body_velocity(self, state: State) -> Array:
        """Compute the velocities of all body frames.

        Parameters
        ----------
        state : State
            The state.

        Returns
        -------
        array (worlds, nbody, 6)
            (angular, linear) in world axes [rad/s, m/s]. The linear velocity is that of the frame's origin.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), device="cpu")
        >>> state = sim.state(v=[0, 0, 2.0] + 11 * [0])
        >>> sim.body_velocity(state).numpy()[0, 0].tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 2.0]
        """
        return self._body_velocity(self._at(state), state)

    @exclusive
    def body_motion(self, state: State) -> tuple[Array, Array]:
        """Compute poses and velocities of all bodies in one call.

        It takes less time than `kinematics` and `body_velocity` together.

        Parameters
        ----------
        state : State
            The state.

        Returns
        -------
        poses : array (worlds, nbody, 7)
            As `kinematics` returns them.
        velocities : array (worlds, nbody, 6)
            As `body_velocity` returns them.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=2, device="cpu")
        >>> poses, velocities = sim.body_motion(sim.state())
        >>> poses.shape, velocities.shape
        ((2, 9, 7), (2, 9, 6))
        """
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
        """Compute the joint-space mass matrix M(q), armature included.

        Parameters
        ----------
        q : array (nq,) or (worlds, nq)
            Positions.
        mocap : array (nmocap, 7) or (worlds, nmocap, 7), optional
            Poses of the mocap bodies. Default: those of the model.

        Returns
        -------
        array (worlds, nv, nv)
            The symmetric positive definite matrix of the kinetic energy vᵀMv/2 [kg, kg m, kg m²].

        Notes
        -----
        The composite rigid body algorithm (Featherstone, Rigid Body Dynamics Algorithms, 2008, §6.2);
        docs/theory.md, §1.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", dtype="float64")
        >>> M = sim.mass_matrix(sim.model.q0).numpy()[0]
        >>> bool(np.allclose(M, M.T) and np.all(np.linalg.eigvalsh(M) > 0))
        True
        """

        def fill(dynamics: Dynamics, q, M):
            dynamics.position(q)
            blocks = dynamics.blocks()
            composite = dynamics.array(self.model.nlink, dynamics.device_model.types.vec10)
            dynamics.mass_matrix(composite, blocks)
            dynamics.expand_blocks(blocks, M)

        return self._evaluate(fill, (self.model.nv, self.model.nv), mocap, q=q)

    @exclusive
    def inverse_dynamics(self, q: Numbers, v: Numbers, a: Any, mocap: Numbers | None = None) -> Array:
        """Compute the generalized forces that cause an acceleration: M a + c(q, v).

        Parameters
        ----------
        q : array (nq,) or (worlds, nq)
            Positions.
        v : array (nv,) or (worlds, nv)
            Velocities.
        a : array (nv,) or (worlds, nv)
            Accelerations v̇.
        mocap : array (nmocap, 7) or (worlds, nmocap, 7), optional
            Poses of the mocap bodies. Default: those of the model.

        Returns
        -------
        array (worlds, nv)
            Generalized forces [N, N m]. M is the mass matrix; c contains Coriolis, gyroscopic and gravity terms.
            Contact, springs, dampers and actuators are not included.

        Notes
        -----
        The recursive Newton-Euler algorithm (Featherstone 2008, §5.3); docs/theory.md, §1.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", dtype="float64")
        >>> tau = sim.inverse_dynamics([0, 0.5], [0, 0], [0, 0]).numpy()[0]      # holds the pole against gravity
        >>> bool(np.allclose(sim.forward_dynamics([0, 0.5], [0, 0], tau).numpy(), 0))
        True
        """

        def fill(dynamics: Dynamics, q, v, a, tau):
            dynamics.position(q)
            dynamics.velocity(v)
            dynamics.inverse_dynamics(v, a, tau)

        return self._evaluate(fill, self.model.nv, mocap, q=q, v=v, a=a)

    @exclusive
    def forward_dynamics(self, q: Numbers, v: Numbers, tau: Numbers, mocap: Numbers | None = None) -> Array:
        """Compute the acceleration that generalized forces cause: M⁻¹ (tau − c(q, v)).

        Parameters
        ----------
        q : array (nq,) or (worlds, nq)
            Positions.
        v : array (nv,) or (worlds, nv)
            Velocities.
        tau : array (nv,) or (worlds, nv)
            Generalized forces [N, N m].
        mocap : array (nmocap, 7) or (worlds, nmocap, 7), optional
            Poses of the mocap bodies. Default: those of the model.

        Returns
        -------
        array (worlds, nv)
            Accelerations v̇. M is the mass matrix; c contains Coriolis, gyroscopic and gravity terms. Contact, springs,
            dampers and actuators are not included.

        Notes
        -----
        The articulated body algorithm (Featherstone 2008, §7.3); docs/theory.md, §1.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), device="cpu")
        >>> print(sim.forward_dynamics(sim.model.q0, np.zeros(14), np.zeros(14)).numpy()[0, 2].round(2))      # it falls
        -9.81
        """

        def fill(dynamics: Dynamics, q, v, tau, a):
            dynamics.position(q)
            dynamics.velocity(v)
            dynamics.forward_dynamics(v, tau, a)

        return self._evaluate(fill, self.model.nv, mocap, q=q, v=v, tau=tau)

    @exclusive
    def jacobian(
        self, q: Numbers, body: Element, point: Numbers = (0.0, 0.0, 0.0), mocap: Numbers | None = None
    ) -> Array:
        """Compute the Jacobian of a point of a body.

        Parameters
        ----------
        q : array (nq,) or (worlds, nq)
            Positions.
        body : int or str
            Index or name of the body.
        point : array (3,) or (worlds, 3)
            A point that is fixed in the frame of `body` [m]. Default: the origin of the frame.
        mocap : array (nmocap, 7) or (worlds, nmocap, 7), optional
            Poses of the mocap bodies. Default: those of the model.

        Returns
        -------
        array (worlds, 6, nv)
            J with (angular, linear) velocity = J v in world axes.

        Raises
        ------
        ValueError
            The model has no such body, a value is NaN, or a shape is wrong.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), device="cpu")
        >>> sim.jacobian(sim.model.q0, "foot", point=[0.1, 0, 0]).shape
        (1, 6, 6)
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
        """Compute kinetic and potential energy.

        Parameters
        ----------
        state : State
            The state.

        Returns
        -------
        kinetic : array (worlds,)
            vᵀMv/2 [J].
        potential : array (worlds,)
            Energy of gravity and of the springs of joints and tendons, as in MuJoCo [J]. That of gravity is relative to
            all mass at the world's origin. Constraints, actuators and contact do not contribute.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), device="cpu")
        >>> kinetic, potential = sim.energy(sim.state())
        >>> float(kinetic.numpy()[0]), bool(potential.numpy()[0] > 0)
        (0.0, True)
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
        """Read the sensors of the model.

        Parameters
        ----------
        state : State
            The state.
        control : array (worlds, nu), optional
            Controls with which actuator forces are evaluated at `state`. Default: actuator forces are those of the last
            step.

        Returns
        -------
        array (worlds, nsensordata)
            Readings in MuJoCo's order, layout and units. `model.sensor(name)` is the slice of a sensor.

        Raises
        ------
        ValueError
            `state` belongs to another simulator, or `control` has a wrong shape.

        Notes
        -----
        Sensors of positions and velocities are evaluated at `state`. Sensors of accelerations and forces belong to the
        (sub)step that led to `state`, at its beginning: the change of v, or the impulses, over the duration h. They are
        NaN after `sim.state` and `reset`, until the next step. A tape records the readings. See docs/sensors.md.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> ball = builder.add_body("ball")
        >>> joint, geom = builder.add_joint(ball, "free"), builder.add_geom("sphere", 0.1, body=ball)
        >>> sensor = builder.add_sensor("framelinvel", ("body", "ball"), name="speed")
        >>> sim = ws.Simulator(builder.build(), device="cpu")
        >>> readings = sim.sensors(sim.state(v=[1.0, 0, 0, 0, 0, 0])).numpy()
        >>> readings[0, sim.model.sensor("speed")].tolist()
        [1.0, 0.0, 0.0]
        """
        self._stepper.check_state(state)
        return self._stepper.sensors(state, control)

    @exclusive
    def acceleration(self, state: State) -> Array:
        """Return the mean acceleration of the (sub)step that led to a state, MuJoCo's `qacc`.

        The simulator must be made with `reactions=True`. A tape records the result.

        Parameters
        ----------
        state : State
            The state after a step.

        Returns
        -------
        array (worlds, nv)
            Accelerations: the change of v over the (sub)step's duration. NaN until a step.

        Raises
        ------
        ValueError
            The simulator was made without `reactions=True`.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), dt=0.005, device="cpu", reactions=True)
        >>> print(sim.acceleration(sim.step(sim.state())).numpy()[0, 2].round(2))      # free fall
        -9.81
        """
        self._stepper.check_state(state)
        return self._stepper.reactions(state, "acceleration")

    @exclusive
    def joint_reaction(self, state: State) -> Array:
        """Return the wrench that each body's parent exerts on it through its joints.

        The simulator must be made with `reactions=True`. A tape records the result.

        Parameters
        ----------
        state : State
            The state after a step.

        Returns
        -------
        array (worlds, nbody, 6)
            (torque, force) at the origin of the body's frame, in world axes, at the beginning of the (sub)step that led
            to `state` [N m, N]; NaN until a step. It includes springs, dampers and actuators of the joints. It excludes
            contacts, constraints between bodies and the `wrench` given to the step.

        Raises
        ------
        ValueError
            The simulator was made without `reactions=True`.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dt=0.01, device="cpu", reactions=True)
        >>> state = sim.step(sim.state())
        >>> rail = sim.joint_reaction(state).numpy()[0, 0, 5]      # carries the weight of cart and pole
        >>> bool(np.isclose(rail, 9.81 * sim.model.body_mass.sum()))
        True
        """
        self._stepper.check_state(state)
        return self._stepper.reactions(state, "joint_reaction")

    @exclusive
    def contacts(self, state: State) -> ContactList:
        """Find the contact points at a state.

        Parameters
        ----------
        state : State
            The state.

        Returns
        -------
        ContactList
            The contact points on the host, without impulses. Gaps that the present velocity closes within one time step
            are included.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), dt=0.005, device="cpu")
        >>> found = sim.contacts(sim.state(v=[0, 0, -5.0] + 11 * [0]))          # four feet within 2.5 cm of the ground
        >>> found.count.tolist(), found.phi.shape
        ([4], (1, 4))
        """
        dynamics, capacity = self._at(state), self.max_contacts
        collision = Collision(self.device_model, dynamics, capacity or None, enabled=capacity > 0)
        collision.scene.mujoco = self._step.collision.scene.mujoco
        dynamics.position(state.q)
        dynamics.velocity(state.v)
        collision.detect(self.dt, dynamics.link_V, dynamics.link_V)
        return ContactList(collision, None)

    @exclusive
    def contact_force(self, of: str = "body") -> Array:
        """Return the net contact force of the last step on each body or geom.

        Parameters
        ----------
        of : str
            "body" (default) or "geom".

        Returns
        -------
        array of vec3 (worlds, nbody) or (worlds, ngeom)
            Forces in world axes [N].

        Raises
        ------
        ValueError
            `of` is neither "body" nor "geom".

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), dt=0.005, device="cpu")
        >>> trajectory = sim.rollout(sim.state(), steps=400)              # the ant comes to rest
        >>> weight = 9.81 * sim.model.body_mass.sum()
        >>> bool(abs(sim.contact_force().numpy()[0, :, 2].sum() / weight - 1) < 0.05)
        True
        """
        choice(of, "of", ("body", "geom"))
        return self._step.net_contact_force(of)

    @exclusive
    def contact_wrench(self, state: State) -> Array:
        """Return the net wrench of the last step's contacts on each body.

        Parameters
        ----------
        state : State
            The state at whose centers of mass torques are taken.

        Returns
        -------
        array (worlds, nbody, 6)
            (torque, force) in world axes, as `step` takes them [N m, N]. The torque is about the body's center of mass.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), dt=0.005, device="cpu")
        >>> state = sim.step(sim.state())                                   # in the air
        >>> float(np.abs(sim.contact_wrench(state).numpy()).max())
        0.0
        """
        dynamics = self._at(state)
        dynamics.kinematics(state.q, dynamics.link_X)
        return self._wrench(dynamics)

    @exclusive
    def about_centre(self, state: State) -> AboutCentre:
        """Return contact wrenches, inertias and velocities about the center of mass of each tree.

        They are MuJoCo's `cfrc_ext`, `cinert` and `cvel`.

        Parameters
        ----------
        state : State
            The state. The wrenches are those of the last step's contacts.

        Returns
        -------
        AboutCentre
            `wrench`, `inertia`, `velocity` of the bodies and `centre` of the trees.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), device="cpu")
        >>> found = sim.about_centre(sim.state())
        >>> found.inertia.shape, found.velocity.shape
        ((1, 4, 10), (1, 4, 6))
        """
        dynamics = self._at(state)
        dynamics.position(state.q)
        dynamics.velocity(state.v)
        return self._about_centre(dynamics)

    @exclusive
    def evaluated(self, what: str) -> Any:
        """Return a quantity at the state where the last (sub)step evaluated forces, as MuJoCo's `data` after `mj_step`.

        This is the state with which the (sub)step began; with `ws.MuJoCoRK4()`, that of its last stage. The simulator
        must have one of MuJoCo's integrators.

        Parameters
        ----------
        what : str
            "poses" (as `kinematics`), "velocities" (as `body_velocity`), "about_centre" (as `about_centre`), or
            "constraint_force": generalized forces of contacts and constraints, MuJoCo's `qfrc_constraint`.

        Returns
        -------
        array or AboutCentre
            (worlds, nbody, 7), (worlds, nbody, 6), an `AboutCentre`, or (worlds, nv).

        Raises
        ------
        ValueError
            `what` is none of these, or the integrator is not one of MuJoCo's.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), solver=ws.MuJoCo(), device="cpu")
        >>> state = sim.step(sim.state())
        >>> sim.evaluated("poses").shape, sim.evaluated("constraint_force").shape
        ((1, 4, 7), (1, 6))
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
        """Find where rays first hit the geoms.

        Parameters
        ----------
        state : State
            The state.
        origin : array (rays, 3) or (worlds, rays, 3)
            Where the rays begin [m], in world axes or, with `body`, in the frame of that body.
        direction : array (rays, 3) or (worlds, rays, 3)
            Directions of any length, in the same axes.
        max_distance : float
            Longest distance that counts as a hit [m]. Default: infinite.
        geoms : sequence of int or str, optional
            Indices or names of the geoms that rays can hit. Default: all.
        ignore : sequence of int or str
            Bodies whose geoms rays pass through, by index or name ("world" or −1: the world). Default: none.
        body : int or str, optional
            The body in whose frame the rays are given. Default: the world.

        Returns
        -------
        RayHits
            Distance, geom and outward normal of the nearest hit of each ray.

        Raises
        ------
        ValueError
            A shape is wrong, a direction is zero, or the model has no such geom or body.

        Notes
        -----
        Use `ray_sensor` to cast the same rays many times.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=2, device="cpu", dtype="float64")
        >>> hits = sim.ray_cast(sim.state(), [[0, 0, 2.0]], [[0, 0, -1.0]])        # down on the torso
        >>> hits.distance.numpy()[:, 0].round(2).tolist()
        [1.56, 1.56]
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
        """Prepare rays once, to cast them at many states.

        Parameters
        ----------
        origin, direction : array (rays, 3) or (worlds, rays, 3)
            Rays, as in `ray_cast`.
        max_distance : float
            Longest distance that counts as a hit [m]. Default: infinite.
        geoms : sequence of int or str, optional
            Geoms that rays can hit. Default: all.
        ignore : sequence of int or str
            Bodies whose geoms rays pass through. Default: none.
        body : int or str, optional
            The body in whose frame the rays are given. Default: the world.

        Returns
        -------
        callable
            A function of a `State` that returns the `RayHits`.

        Raises
        ------
        ValueError
            As in `ray_cast`.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), device="cpu")
        >>> height = sim.ray_sensor([[0, 0, 0]], [[0, 0, -1.0]], body="torso", ignore=["torso"])
        >>> print(height(sim.state()).distance.numpy().round(2))
        [[0.34]]
        """
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
        """The contact points of the last step, as a `ContactList` on the host.

        `impulse` is the impulse on geom B in the contact frame [N s].
        """
        return ContactList(self._step.collision, self._step.solver.solution.gamma.numpy())

    @exclusive
    def contact_patches(self, world: int = 0, state: State | None = None) -> list[ContactPatch]:
        """Return the hydroelastic contact patches of one world with their polygons.

        Parameters
        ----------
        world : int
            Index of the world. Default: 0.
        state : State, optional
            The state at which patches are found; their force and moment are then only the elastic ones. Default: the
            patches of the last step, at its beginning.

        Returns
        -------
        list of ContactPatch
            One patch for each pair of geoms that meet by pressure fields. It is a copy on the host, for display and
            checks.

        Raises
        ------
        ValueError
            The world does not exist.

        Examples
        --------
        >>> builder = ws.ModelBuilder()
        >>> soft = ws.Hydroelastic(modulus=1e5)
        >>> floor = builder.add_geom("plane", hydroelastic=ws.Hydroelastic(modulus=np.inf))
        >>> ball = builder.add_body("ball", pose=[0, 0, 0.09, 1, 0, 0, 0])
        >>> joint, geom = builder.add_joint(ball, "free"), builder.add_geom("sphere", 0.1, body=ball, hydroelastic=soft)
        >>> sim = ws.Simulator(builder.build(), device="cpu")
        >>> (patch,) = sim.contact_patches(state=sim.state())
        >>> patch.geoms, bool(patch.elastic_force[2] > 0)
        ((0, 1), True)
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
        """`(worlds,)`: 1 where the warm start solved the LCP of the last step without pivoting, else 0.

        It needs `ws.LCP()`.
        """
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
