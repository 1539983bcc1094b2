# SPDX-License-Identifier: Apache-2.0
"""One step of the linear-time variational integrator, with contact (Lee, Liu, Park, Srinivasa; theory §6).

    node (q, v): p + h/2 F → DRNEA(dq*) = 0 → contact: A (dq/h − dq*/h) = Jᵀγ, A = M(q) + h D/2 → DRNEA(dq) = Jᵀγ
    → q' = q ⊕ dq, p' → v' = M(q')⁻¹ p'

p is the momentum that the last interval hands on, with its half of the node's force. Without contact p = M(q) v. The
impulse of a contact acts at the node between two intervals. The reported velocity is the velocity before the impulse
plus `jump`: half of the change by contact, but at most as much as the free motion changed it in half a step. At rest,
`jump` takes −gh/2 to 0. The state keeps `jump`, and p = M(q) (v − jump).
"""

import numpy as np
import warp as wp

from warpsim.device.per_world import fill
from warpsim.integrate.step import Step
from warpsim.kernels.integrate.theta import schemes
from warpsim.kernels.integrate.variational import drnea, roots, variational
from warpsim.kernels.tree import passes
from warpsim.model.model import JointType, Model

SLIDES = 3  # consecutive slides that form one vector, as a free joint's translation does


def vectors_of(model: Model) -> np.ndarray:
    """Where the vectors of coordinates begin, (vectors + 1,).

    A translation is one vector, as are consecutive slides. Every rotation about an axis is a vector by itself.
    """
    begin = []
    for d, link in enumerate(model.dof_link):
        kind, since = model.link_type[link], d - model.link_v[link]
        first = kind != JointType.FREE or since not in (1, 2)
        if kind == JointType.SLIDE and d and model.dof_parent[d] == d - 1:
            first = model.link_type[model.dof_link[d - 1]] != JointType.SLIDE or d - begin[-1] == SLIDES
        if first:
            begin.append(d)
    return np.array([*begin, model.nv])


def elimination(dynamics):
    """Workspace of Newton's method for DRNEA."""
    nl, nv = dynamics.model.nlink, dynamics.model.nv
    return dynamics.workspace(roots.Elimination, aa=nl, al=nl, la=nl, ll=nl, row=nv, axis=nv)


class VariationalStep(Step):
    """Workspace and launches of one variational step. `impulse (worlds, nv)`: Jᵀγ, on the right-hand side."""

    motors_pull = False
    widens = False  # DRNEA is linear-time and passes momenta from link to link

    def __init__(
        self,
        device_model,
        integrator,
        contact_model,
        max_contacts: int | None,
        make_solver=None,
    ):
        super().__init__(device_model, contact_model, max_contacts, make_solver=make_solver)
        self.integrator = integrator
        model, t, S = self.model, device_model.types, device_model.types.real
        array, (nl, nv, trees) = self.dynamics.array, (model.nlink, model.nv, model.ntree)
        self.link_X_next, self.dof_S_next = array(nl, t.transform), array(nv, t.vec6)
        self.force_next, self.damping_next, self.v_next = array(nv, S), array(nv, S), array(nv, S)
        self.no_damping, self.residual, self.impulse = array(nv, S), array(nv, S), array(nv, S)
        self.momentum, self.scale = array(nl, t.vec6), array(trees, S)
        struct = self.dynamics.workspace
        self.frame, self.frame_next = (struct(drnea.Frame, offset=nl, inertia=nl, axis=nv) for _ in range(2))
        self.factor = struct(drnea.Factor, J=nl, H=nl, M=nl, K=nv, D=nv)
        self.work = struct(drnea.Motion, dq=nv, u=nv, A=nl, dr=nl, mu=nl, wrench=nl, rate=nl)
        self.root = struct(drnea.Root, evaluations=trees, status=trees, error=trees, least=trees, best=nv)
        self.v_left, self.jump, self.jump_next, self.v_free = (array(nv, S) for _ in range(4))
        begin = vectors_of(model)
        self.vectors = len(begin) - 1
        self.vector_begin = device_model.array(begin)
        self.constrained = self.collision.enabled or self.solver.rows > 0
        if not self.constrained:
            self.v_next = self.v_free
        self._make_root_finder()

    def memory(self) -> dict:
        return super().memory() | {"jump": self.jump}

    def smooth_memory(self) -> tuple[str, ...]:
        return (*super().smooth_memory(), "jump")

    def _make_root_finder(self) -> None:
        model, array, S = self.model, self.dynamics.array, self.device_model.types.real
        choice, self.scratch = self.integrator.root_finder, []
        self.root_finder = getattr(roots, choice)
        if choice == "newton":
            self.scratch = [elimination(self.dynamics)]
        elif choice == "broyden":
            memory = roots.BROYDEN_MEMORY
            self.scratch = [array((memory, model.nv), S), array((memory, model.ntree), S)]
        limits = {"tolerance": self.integrator.relative_tolerance(self.device_model.dtype)}
        limits["max_evaluations"] = int(self.integrator.max_iterations)
        arrays = {"frame": self.frame, "factor": self.factor, "work": self.work, "root": self.root}
        self.search = self.device_model.struct(roots.Search, **arrays, **limits, residual=self.residual)

    def launch(self, h: float) -> None:
        """Advance the internal state by h."""
        self.begin(h)
        self.find_root(h)
        if self.constrained:
            self.constrain(h)
        self.end(h)

    def constrain(self, h: float, visit=None) -> None:
        """Impulse of contacts and rows at the node, and dq with it. Calls `visit(number)` after each pass."""
        d, dynamics, solution, nv = self.device_model, self.dynamics, self.solver.solution, self.model.nv
        dynamics.mass_matrix(self.composite, self.A)
        inputs = [d.topology, 0.5 * h, self.v_left, self.force, self.no_damping, self.damping]
        inputs += [self.A, self.M_factor, self.A_factor, self.v_free]
        dynamics.launch(schemes.free_motion, self.model.ntree, inputs)
        dynamics.launch(variational.average_velocity, nv, [h, self.work.dq, self.v_star])
        self.contact_problem(h)
        self.solve(h)
        for further in range(self.integrator.passes):
            if further:
                inputs = [h, self.work.dq, solution.v, self.v_star, self.v_star]
                dynamics.launch(variational.corrected_velocity, nv, inputs)
                self.solve(h)
            inputs = [d.topology, h, self.A, self.v_star, solution.v, self.impulse, self.work.dq]
            dynamics.launch(variational.impulse_of, self.model.ntree, inputs)
            self.find_root(h, from_guess=False)
            if visit is not None:
                visit(further)
        self.collision.look_after(h, 1.0, self.v, solution.v)
        self.remember(h)

    def equation(self, h: float):
        """DRNEA(dq) = impulse, for a step of h."""
        return self.device_model.struct(
            drnea.Equation, h=h, armature=self.dynamics.armature, damping=self.damping, v=self.v_left, force=self.force,
            impulse=self.impulse, momentum=self.momentum, scale=self.scale,
        )  # fmt: skip

    def begin(self, h: float) -> None:
        """Kinematics and forces at the node, its momentum, the factor of M + h D/2, and the guess."""
        dynamics, d = self.dynamics, self.device_model
        self.kinematics(h)
        dynamics.launch(variational.left_velocity, self.model.nv, [self.v, self.jump, self.v_left])
        dynamics.velocity(self.v_left)
        if self.constrained:
            fill(self.impulse)
        self.forces()
        self.place(dynamics.link_X, self.frame)
        inputs = [d.topology, d.parameters.stored("gravity"), variational.GUESSES[self.integrator.guess]]
        inputs += [self.frame, self.equation(h), self.factor, self.work]
        dynamics.launch(variational.begin_step, self.model.ntree, inputs)

    def place(self, link_X: wp.array, frame) -> None:
        """Frame and rigid inertias at the link poses."""
        d = self.device_model
        inputs = [d.topology, d.plant(), link_X, frame, self.factor]
        self.dynamics.launch(variational.place_links, self.model.nlink, inputs)

    def find_root(self, h: float, *, from_guess: bool = True) -> None:
        """Find dq with DRNEA(dq) = impulse, from the guess or from the dq of the last solve."""
        self.search.equation = self.equation(h)
        self.search.first_step = h if from_guess and self.integrator.guess == "dynamics" else 0.0
        inputs = [self.device_model.topology, self.search, *self.scratch]
        self.dynamics.launch(self.root_finder, self.model.ntree, inputs)

    def end(self, h: float) -> None:
        """Arrive at q', and accept the step in the worlds where it is finite."""
        self.arrive(h)
        self.commit(h, self.q_next, self.v_next)
        if self.constrained:
            inputs = [self.flags, self.jump_next, self.jump]
            self.dynamics.launch(variational.keep_jump, self.model.nv, inputs)

    def arrive(self, h: float) -> None:
        """q' = q ⊕ dq, the Legendre velocity there, and the velocity to report."""
        dynamics, d, p, solution = self.dynamics, self.device_model, self.device_model.parameters, self.solver.solution
        inputs = [d.topology, 1.0, self.q, self.work.dq, self.q_next]
        dynamics.launch(passes.integrate_position, self.model.nlink, inputs)
        dynamics.kinematics(self.q_next, self.link_X_next)
        self.place(self.link_X_next, self.frame_next)
        if self.wrench is not None:
            dynamics.motion_subspace(self.link_X_next, self.dof_S_next)
        dynamics.launch(variational.extrapolate, self.model.nv, [h, self.v_left, self.work.dq, self.v_free])
        after = (self.q_next, self.v_free, self.link_X_next, self.dof_S_next, self.force_next, self.damping_next)
        self.launch_forces(dynamics, *after, dynamics.link_f)
        inputs = [d.topology, p.stored("gravity"), self.no_damping, self.equation(h), self.residual, self.force_next]
        inputs += [self.frame, self.frame_next, self.factor, self.work, self.v_free]
        dynamics.launch(variational.end_step, self.model.ntree, inputs)
        inputs = [self.root, int(self.constrained), solution.iterations, solution.momentum_error, solution.status]
        dynamics.launch(variational.report, None, inputs)
        if self.constrained:
            inputs = [self.vector_begin, p.stored("gravity"), 0.0, self.v_left, self.v_star, solution.v, self.v_free]
            inputs += [self.jump_next, self.v_next]
            dynamics.launch(variational.jump_of, self.vectors, inputs)
