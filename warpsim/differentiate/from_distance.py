# SPDX-License-Identifier: Apache-2.0
"""Derivatives before contact: steps are differentiated as if a weak force acted between geoms that are near each other.

The derivatives are those of the step with the generalized forces τ + f(q) − f(q⁰) in place of τ, where q⁰ is the state
that the step begins with, held fixed, and f the force of `kernels/differentiate/from_distance.py`. At q = q⁰ this is
the step itself, so the motion does not change. The adjoint is q̄ += (∂f/∂q)ᵀ τ̄, and in the columns of `linearize`
∂r/∂q −= h ∂f/∂q. The idea of contacts from distance in the backward pass alone is that of DiffMJX (Paulus, Geist et al.
2025, arXiv:2506.14186). The law of the force, and that it is a force and not a softer contact problem, are ours.

Cost: the detection of contacts within the range, and their adjoint, once per backward pass.
"""

from dataclasses import dataclass

import warp as wp

from warpsim.base.checks import positive
from warpsim.contact.collision import Collision
from warpsim.device.copies import copy, twin
from warpsim.device.per_world import assign, fill
from warpsim.differentiate.contact_motion import ContactMotion
from warpsim.differentiate.stage import Stage, take_back
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.kernels.contact import convex_contacts
from warpsim.kernels.differentiate import contact_slopes, residual
from warpsim.kernels.differentiate import from_distance as kernels
from warpsim.kernels.laws import contact_law
from warpsim.model.model import Model
from warpsim.solve.contact_model import ContactModel
from warpsim.tree.dynamics import DeviceModel, Dynamics

MOST_POINTS = 1024  # slots per world


@dataclass(frozen=True)
class GradientFromDistance:
    """Derivatives that contain a force between geoms before they touch (docs/gradients_contact.md).

    The exact derivative of one body's motion with respect to another's is 0 while the two do not touch. With this
    option it is not 0 while their geoms are nearer than `distance`. Only derivatives change; motions have the same
    bits.

    Parameters
    ----------
    distance : float
        Range d of the force [m]. Choose it larger than the gap in the initial state. The force and its slope fall to 0
        at this distance.
    stiffness : float
        Slope k [N/m] of the force between two geoms that are about to touch. Choose k near m/T², where m is the mass of
        the body to move and T the horizon [s].

    Examples
    --------
    >>> b = ws.ModelBuilder()
    >>> for name, x in (("hand", 0.0), ("ball", 0.3)):
    ...     _ = b.add_joint(b.add_body(name, pose=[x, 0, 0]), "slide", axis=[1, 0, 0])
    ...     _ = b.add_geom("sphere", [0.1], body=name)
    >>> before = ws.GradientFromDistance(distance=0.5, stiffness=10.0)
    >>> sim = ws.Simulator(b.build(), dt=0.01, device="cpu", contact_gradient=before)
    >>> A = sim.linearize(sim.state()).A.numpy()[0]
    >>> bool(A[3, 0] > 0)                                         # d(ball's velocity) / d(hand's position)
    True
    """

    distance: float
    stiffness: float

    def __post_init__(self) -> None:
        for name in ("distance", "stiffness"):
            positive(getattr(self, name), f"GradientFromDistance: {name}")


def checked(option, model: Model, solver: ContactModel) -> GradientFromDistance | None:
    """The argument `contact_gradient` of a simulator."""
    if option is None:
        return None
    if not isinstance(option, GradientFromDistance):
        raise ValueError(
            f"contact_gradient is {option!r}; give ws.GradientFromDistance(distance=..., stiffness=...) or None"
        )
    fields = model.pair_geom[model.point_pairs :]
    if len(fields):
        a, b = (model.geom_names[int(g)] for g in fields[0])
        raise ValueError(
            f"contact_gradient: geoms {a!r} and {b!r} touch by pressure fields, which have no derivatives from a "
            "distance; leave it out, or make the geoms rigid"
        )
    if not solver.collides:
        raise ValueError(f"contact_gradient has no effect with {solver!r}, where nothing touches; leave it out")
    if not len(model.pair_geom):
        raise ValueError(
            f"contact_gradient has no effect: no two geoms of model {model.name!r} may touch; leave it out"
        )
    return option


class NearPoints:
    """The points of geoms within the range, at the kinematics of `dynamics`."""

    def __init__(self, device_model: DeviceModel, dynamics: Dynamics):
        option = device_model.contact_gradient
        self.dynamics, self.law = dynamics, [float(option.distance), float(option.stiffness)]
        self.collision = collision = Collision(device_model, dynamics, None, most=MOST_POINTS)
        # `detect` looks 1 s ahead at bodies at rest: it finds what is within the range.
        scene = collision.scene
        scene.window = scene.haste = float(option.distance)
        self.still = dynamics.array(device_model.model.nlink, device_model.types.vec6)
        self.apart = dynamics.array(collision.capacity, wp.int32)

    def find(self) -> None:
        collision = self.collision
        collision.detect(1.0, self.still, self.still)
        collision.jacobian()
        inputs = [collision.contacts, self.law[0], self.apart]
        self.dynamics.launch(kernels.find_apart, collision.capacity, inputs)


class DistanceAdjoint:
    """The part of a backward pass that `GradientFromDistance` adds. `adjoint`: the `StepAdjoint` that it belongs to."""

    def __init__(self, adjoint):
        d = adjoint.device_model
        self.adjoint, self.base = adjoint, Dynamics(d)
        self.q = self.base.array(d.model.nq, d.types.real)  # a step with impacts changes its own
        self.q.grad = adjoint.q.grad
        self.near = NearPoints(d, self.base)
        self.dynamics = TapedDynamics(d, self.base)
        contacts, C, S = self.near.collision.contacts, self.near.collision.capacity, d.types.real
        self.phi, self.point, self.frame, self.J = map(twin, (contacts.phi, contacts.point, contacts.frame, contacts.J))
        self.force, self.r = self.dynamics.array(C, d.types.vec3), self.dynamics.array(d.model.nv, S)
        self.all = self.base.array(C, wp.int32)
        of_links = self.dynamics.link_X, self.dynamics.dof_S, self.dynamics.link_I
        self.cleared = [self.phi, self.point, self.frame, self.J, self.force, self.r, *of_links]

    def repeat(self) -> None:
        """Find the points at the loaded positions."""
        assign(self.q, self.adjoint.q)
        self.base.place_mocap(self.adjoint.step.mocap)
        self.base.position(self.q)
        self.near.find()
        self._record_force()

    def reverse(self) -> None:
        """q̄ += (∂f/∂q)ᵀ τ̄, and the same for parameters and mocap poses, after τ̄ has been found."""
        for array in self.cleared:
            fill(array.grad)
        take_back([Stage(self._record, self._seed)], 0.0)

    def _seed(self, h: float) -> None:
        inputs = [self.near.collision.contacts, self.adjoint.tau.grad, self.r.grad]
        self.base.launch(kernels.seed_push, self.adjoint.model.nv, inputs)

    def _record_force(self) -> None:
        contacts = self.near.collision.contacts
        inputs = [contacts, self.near.apart, *self.near.law, self.phi, self.force]
        self.dynamics.launch(kernels.push_apart, self.near.collision.capacity, inputs)

    def _record(self, h: float) -> None:
        """r = −f(q)."""
        collision, dynamics, d = self.near.collision, self.dynamics, self.adjoint.device_model
        scene, contacts, C = collision.scene, collision.contacts, collision.capacity
        dynamics.position(self.q)
        geometry = [contacts, d.plant(), dynamics.link_X, self.phi, self.point, self.frame]
        dynamics.launch(residual.contact_geometry, C, [scene, *geometry])
        if collision.convex_scene is not None:
            dynamics.launch(convex_contacts.contact_geometry, C, [scene, collision.convex_scene, *geometry])
        inputs = [d.topology, scene, contacts, dynamics.link_X, dynamics.dof_S, self.point, self.frame, self.all, 0]
        dynamics.launch(residual.contact_jacobian, C, [*inputs, self.J])
        self._record_force()
        dynamics.launch(residual.contact_residual, C, [scene, contacts, self.J, self.force, self.r])


class DistanceColumns:
    """The columns that `GradientFromDistance` adds to those of a `Linearizer`, whose step is given."""

    def __init__(self, step):
        self.step, d = step, step.device_model
        self.near = NearPoints(d, step.dynamics)
        collision, array, t = self.near.collision, step.dynamics.array, d.types
        C = collision.capacity
        self.motion = ContactMotion(collision)
        self.law = array((C, 3), copy(contact_law.ContactState, t.real))
        self.gamma, self.G = array(C, t.vec3), array(C, t.mat33)
        self.no_slope, self.no_flow = array((0, 0), t.vec6), copy(contact_slopes.Flow, t.real)()
        self.no_flow.v = array(0, t.real)
        Changes = copy(contact_slopes.Changes, t.real)
        self.changes = Changes()
        for key in Changes.vars:
            setattr(self.changes, key, array((C, collision.max_support), t.vec3))

    def add(self, h: float, flow, X: wp.array) -> None:
        """X −= h ∂f/∂q, at the kinematics of the step."""
        near, launch, collision = self.near, self.step.dynamics.launch, self.near.collision
        scene, contacts, C, d = collision.scene, collision.contacts, collision.capacity, self.step.device_model
        near.find()
        self.motion.vary()
        launch(kernels.push_slopes, C, [contacts, near.apart, h, *near.law, self.law, self.gamma, self.G])
        inputs = [d.topology, scene, contacts, self.law, flow, self.no_flow, self.motion.slope, self.no_slope]
        inputs += [self.G, self.gamma, self.changes]
        launch(contact_slopes.contact_changes, (C, collision.max_support), inputs)
        launch(contact_slopes.contact_columns, None, [d.topology, scene, contacts, flow.dof_S, self.G, self.changes, X])
