# SPDX-License-Identifier: Apache-2.0
"""Deep trees in a float32 step: mass matrix, free motion and SAP are computed in float64 and rounded at the end.

The mass matrix of a chain is ever closer to singular: scaled to a unit diagonal, that of 100 hinges has the lowest
eigenvalue 1e-6, of 224 hinges 7e-8. Its rounding to float32 alone makes it indefinite, and bias forces that nearly cancel
leave accelerations of nothing but rounding. So for models with a tree deeper than `DEEPEST` the step goes from the float32
state, parameters and forces to the new velocities in float64. The factors keep their positive pivots when rounded.

Where nothing in the scene can touch or hold anything, nothing needs the mass matrix, and the free motion is that of articulated bodies: work and
memory are linear in the number of links.
"""

import warp as wp

from warpsim.kernels.integrate.theta import schemes
from warpsim.solve.free import FreeSolver
from warpsim.tree.wide import DEEPEST, WideDynamics, depth, narrow, needs_float64, widen


def deep_motion(step, scheme):
    """The free motion of a step whose trees are deep, `ArticulatedMotion` or `DeepMotion`; None where it needs none of its own."""
    held = step.collision.enabled or step.scalar_rows.count
    plain = scheme.has_closed_form and not scheme.implicit and step.contact_model.has_closed_form
    if plain and not held and not step.device_model.parameters.requires_grad and depth(step.model) > DEEPEST:
        return ArticulatedMotion(step)
    return DeepMotion(step) if not scheme.implicit and needs_float64(step.device_model) else None


class ArticulatedMotion(WideDynamics):
    """v* of one `Step` whose scene has neither contacts nor scalar rows, by articulated bodies in float64."""

    forms_mass_matrix = False

    def __init__(self, step):
        super().__init__(step.device_model)
        self.step, dynamics = step, self.dynamics
        model, array = self.source.model, dynamics.array
        self.q = array(model.nq, wp.float64)
        self.v, self.force, self.damping, self.v_star, self.armature, self.tau, self.a, self.still = (
            array(model.nv, wp.float64) for _ in range(8)
        )
        self.scratch = dynamics.articulated_scratch()

    def make_solver(self, *size, **keywords) -> FreeSolver:
        """What solves such a scene, whatever its contact model."""
        return FreeSolver(*size, **keywords)

    def launch(self, h: float) -> None:
        """v*."""
        step, dynamics, parameters = self.step, self.dynamics, self.device_model.parameters
        self.refresh()
        for name in ("q", "v", "force", "damping"):
            widen(getattr(step, name), getattr(self, name), self.scalar)
        dynamics.position(self.q)
        still = self.v
        if step.spin is not None:
            still = step.spin.still(h, dynamics, self.v, self.still)
        dynamics.velocity(still)
        inputs = [h, parameters.stored("joint_armature"), self.damping, self.force, self.v, self.armature, self.tau]
        dynamics.launch(schemes.damped, dynamics.model.nv, inputs)
        dynamics.articulated(still, self.tau, self.armature, self.scratch, self.a)
        dynamics.launch(schemes.accelerated, dynamics.model.nv, [h, self.v, self.a, self.v_star])
        narrow(self.v_star, step.v_star, self.scalar)


class DeepMotion(WideDynamics):
    """Arrays and launches for one `Step`: the results are the step's own bias, A, factors and v*."""

    forms_mass_matrix = True

    def __init__(self, step):
        super().__init__(step.device_model)
        self.step, dynamics = step, self.dynamics
        model, array = self.source.model, dynamics.array
        self.q = array(model.nq, wp.float64)
        self.v, self.force, self.damping, self.bias, self.v_star, self.zero = (
            array(model.nv, wp.float64) for _ in range(6)
        )
        self.A, self.M_factor, self.A_factor = (dynamics.blocks() for _ in range(3))
        self.composite = array(model.nlink, self.device_model.types.vec10)

    def make_solver(self, *size, **keywords):
        """The contact model's solver, which A and v* are to come to in float64."""
        solver = self.step.contact_model.make_solver(*size, wide=True, **keywords)
        solver.attach_wide(self.A, self.v_star, self.v)
        return solver

    def launch(self, h: float) -> None:
        """Bias, A = M + h D, the factors of M and A, and v*."""
        step, dynamics = self.step, self.dynamics
        self.refresh()
        if step.dynamics.steadied is not None:
            widen(step.dynamics.armature, dynamics.armature, self.scalar)
        for name in ("q", "v", "force", "damping"):
            widen(getattr(step, name), getattr(self, name), self.scalar)
        dynamics.position(self.q)
        dynamics.velocity(self.v)
        dynamics.mass_matrix(self.composite, self.A)
        dynamics.inverse_dynamics(self.v, self.zero, self.bias)
        if step.spin is not None:
            step.spin.leave(h, dynamics, self.v, self.composite, self.bias)
        inputs = [self.device_model.topology, h, self.v, self.force, self.bias, self.damping]
        inputs += [self.A, self.M_factor, self.A_factor, self.v_star]
        dynamics.launch(schemes.free_motion, dynamics.model.ntree, inputs)
        for name in ("bias", "A", "M_factor", "A_factor", "v_star"):
            narrow(getattr(self, name), getattr(step, name), self.scalar)
