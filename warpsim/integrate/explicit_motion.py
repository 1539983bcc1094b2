# SPDX-License-Identifier: Apache-2.0
"""The free motion of a step of the explicit schemes: v* and A.

Deep trees in a float32 step take it in float64, rounded at the end. The mass matrix of a long chain is close to
singular: scaled to a unit diagonal, its lowest eigenvalue is 1e-6 for 100 hinges and 7e-8 for 224 hinges. Rounding to
float32 alone makes it indefinite, and bias forces that nearly cancel leave accelerations that are pure rounding. For
models with a tree deeper than `DEEPEST`, the step therefore goes in float64 from the float32 state, parameters and
forces to the new velocities. The factors keep their positive pivots when rounded.

Where nothing in the scene can touch or hold anything, nothing needs the mass matrix. The free motion is then that of
articulated bodies, with work and memory linear in the number of links.
"""

import warp as wp

from warpsim.kernels.integrate.theta import schemes
from warpsim.solve.free import FreeSolver
from warpsim.tree.wide import DEEPEST, WideDynamics, depth, narrow, needs_float64, widen


def free_motion_of(step, widens: bool):
    """The free motion of a step of an explicit scheme. `widens`: deep trees may use float64."""
    if not widens:
        return FreeMotion(step)
    plain = step.scheme.has_closed_form and step.contact_model.has_closed_form
    held = step.collision.enabled or step.scalar_rows.count or step.device_model.parameters.requires_grad
    if plain and not held and depth(step.model) > DEEPEST:
        return ArticulatedMotion(step)
    return DeepMotion(step) if needs_float64(step.device_model) else FreeMotion(step)


class FreeMotion:
    """Bias, A = M + h D, the factors of M and A, and v*, in the arrays of the step."""

    forms_mass_matrix = True

    def __init__(self, step):
        self.step = step

    def make_solver(self, *size, **keywords):
        """The solver of the contact problem."""
        return self.step.contact_model.make_solver(*size, **keywords)

    def launch(self, h: float) -> None:
        """Find the free motion, after the forces."""
        self._launch(h, self.step, self.step.dynamics)

    def _launch(self, h: float, x, dynamics) -> None:
        """From v, force and damping of `x` to its bias, A, factors and v*."""
        dynamics.mass_matrix(x.composite, x.A)
        dynamics.inverse_dynamics(x.v, x.zero_acceleration, x.bias)
        for part in self.step.parts:
            part.after_bias(h, x, dynamics)
        inputs = [dynamics.device_model.topology, h, x.v, x.force, x.bias, x.damping]
        inputs += [x.A, x.M_factor, x.A_factor, x.v_star]
        dynamics.launch(schemes.free_motion, dynamics.model.ntree, inputs)


class WideMotion(FreeMotion, WideDynamics):
    """The arrays of a float32 step, in float64."""

    def __init__(self, step):
        FreeMotion.__init__(self, step)
        WideDynamics.__init__(self, step.device_model)
        model, array = self.source.model, self.dynamics.array
        self.q = array(model.nq, wp.float64)
        for name in ("v", "force", "damping", "v_star"):
            setattr(self, name, array(model.nv, wp.float64))

    def take(self) -> None:
        """Read the state, the forces and the parameters of the step."""
        self.refresh()
        for name in ("q", "v", "force", "damping"):
            widen(getattr(self.step, name), getattr(self, name), self.scalar)
        self.dynamics.position(self.q)


class ArticulatedMotion(WideMotion):
    """v* of one `Step` whose scene has neither contacts nor scalar rows, by articulated bodies in float64."""

    forms_mass_matrix = False

    def __init__(self, step):
        super().__init__(step)
        nv, array = self.source.model.nv, self.dynamics.array
        self.armature, self.tau, self.a, self.still = (array(nv, wp.float64) for _ in range(4))
        self.scratch = self.dynamics.articulated_scratch()

    def make_solver(self, *size, **keywords) -> FreeSolver:
        """The solver for such a scene, which needs no contact model."""
        return FreeSolver(*size, **keywords)

    def launch(self, h: float) -> None:
        self.take()
        dynamics, armature = self.dynamics, self.device_model.parameters.stored("joint_armature")
        still = self.step.still_velocity(h, dynamics, self.v, self.still)
        dynamics.velocity(still)
        inputs = [h, armature, self.damping, self.force, self.v, self.armature, self.tau]
        dynamics.launch(schemes.damped, dynamics.model.nv, inputs)
        dynamics.articulated(still, self.tau, self.armature, self.scratch, self.a)
        dynamics.launch(schemes.accelerated, dynamics.model.nv, [h, self.v, self.a, self.v_star])
        narrow(self.v_star, self.step.v_star, self.scalar)


class DeepMotion(WideMotion):
    """The free motion of one `Step` in float64. The results are rounded into the step's bias, A, factors and v*."""

    def __init__(self, step):
        super().__init__(step)
        model, dynamics = self.source.model, self.dynamics
        self.bias, self.zero_acceleration = (dynamics.array(model.nv, wp.float64) for _ in range(2))
        self.A, self.M_factor, self.A_factor = (dynamics.blocks() for _ in range(3))
        self.composite = dynamics.array(model.nlink, self.device_model.types.vec10)

    def make_solver(self, *size, **keywords):
        """The contact model's solver, which reads A and v* in float64."""
        solver = super().make_solver(*size, wide=True, **keywords)
        solver.attach_wide(self.A, self.v_star, self.v)
        return solver

    def launch(self, h: float) -> None:
        self.take()
        if self.step.dynamics.steadied is not None:
            widen(self.step.dynamics.armature, self.dynamics.armature, self.scalar)
        self.dynamics.velocity(self.v)
        self._launch(h, self, self.dynamics)
        for name in ("bias", "A", "M_factor", "A_factor", "v_star"):
            narrow(getattr(self, name), getattr(self.step, name), self.scalar)
