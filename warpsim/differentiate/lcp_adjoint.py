# SPDX-License-Identifier: Apache-2.0
"""Workspace and launches of the backward pass through rigid contact (theory §5).

Device: `kernels/differentiate/lcp_residual.py`.
"""

import contextlib

import warp as wp

from warpsim.device.copies import struct
from warpsim.device.per_world import assign
from warpsim.kernels.differentiate import lcp_residual
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.delassus import Delassus
from warpsim.solve.lcp.contact_lcp import LCP, LCPContact
from warpsim.solve.lcp.lcp import IMPULSES, NOTHING
from warpsim.solve.scratch import Scratch


class LCPAdjoint(ContactSolver):
    """Replaces `LCPContact` in a repeated step: the solution is given, and only its adjoint is solved for; after
    `solve_again` the solution is found anew.

    `contact_x (worlds, 3 max_contacts)`: impulses of the recorded step; `problem.v0`: its solution v; `v_start`: its
    v0. `chosen (worlds,)`: 1 where the classes are those that escape a saddle point.
    """

    def __init__(self, *size, options: LCP, **keywords):
        super().__init__(*size, **keywords)
        self.options, self.solves, self._size = options, None, (size, keywords)
        self.delassus = Delassus(self, keep_W=False)
        W, N, C = self.worlds, self.delassus.size, self.max_contacts
        self.scratch = Scratch(W, 3 * N * N, self.scalar, self.device)
        names = ("tau", "diagonal", "tau_Z", "diagonal_Z", "scale", "r", "y", "f", "f_bar", "full")
        system = {name: self.zeros((W, N)) for name in names}
        system |= {name: self.zeros((W, N), int) for name in ("classes", "clamped", "pivots")}
        system |= {"singular": self.zeros(W, int), "speed": self.zeros(W), "bounces": self.zeros((W, C), int)}
        system |= {"z": self.zeros((W, self.nv)), "target": self.zeros((W, 0))}
        self.system = struct(lcp_residual.System, self.scalar, **system)
        self.contact_x, self.impulse = self.zeros((W, 3 * C)), self.zeros((W, C), self.vec3)
        self.recorded = self.impulse
        if C:
            pointer = self.contact_x.ptr
            self.recorded = wp.array(ptr=pointer, dtype=self.vec3, shape=(W, C), device=self.device)
        self.error_bar = self.zeros((W, C), self.vec3)
        null = {name: self.zeros((W, self.nv)) for name in ("v", "seed")}
        null |= {name: self.zeros((W, C), self.vec3) for name in ("f", "error_bar")}
        self.null = struct(lcp_residual.Null, self.scalar, **null)
        self.chosen, self.norms = self.zeros(W, int), [self.zeros(W), self.zeros(W)]
        self.v_start = None

    def solve_again(self) -> None:
        """From now on solve every problem, for steps with impacts: a record has no solution of their segments."""
        size, keywords = self._size
        own, found = LCPContact(*size, options=self.options, **keywords), self.solution
        found.momentum_error, found.iterations, found.status = (
            own.solution.momentum_error, own.solution.iterations, own.solution.status,
        )  # fmt: skip
        own.problem, own.solution, self.delassus = self.problem, found, own.delassus
        self.system.target = self.zeros((self.worlds, self.max_contacts))
        self.solves, self.problem.v0 = own, found.v
        self.first = {name: wp.zeros_like(array) for name, array in own.state_memory().items()}

    def remember(self, memory: dict[str, wp.array]) -> None:
        """Take the memory of the state that the step began with."""
        for name, array in self.solves.state_memory().items():
            assign(self.first[name], memory[name])
            assign(array, memory[name])

    @contextlib.contextmanager
    def cold(self):
        with self.solves.cold():
            yield

    @contextlib.contextmanager
    def as_at_first(self):
        options = self.solves.lcp.options
        for name, array in self.solves.state_memory().items():
            assign(array, self.first[name])
        before, options.guess = options.guess, IMPULSES if self.options.warm_start else NOTHING
        try:
            yield
        finally:
            options.guess = before

    def prepare(self, collision, restitution, h: float) -> None:
        self.collision, contacts, options = collision, collision.contacts, self.options
        self.law = struct(
            lcp_residual.Law, self.scalar, phi=contacts.phi, pair=contacts.pair, restitution=restitution, h=h,
            error_reduction=options.error_reduction, threshold=options.restitution_threshold,
            surface=collision.surface_rate,
        )  # fmt: skip
        if self.solves:
            self.law.touch, self.law.bend = contacts.touch, contacts.bend
            self.law.threshold = self.solves.threshold = self.threshold
            self.solves.prepare(collision, restitution, h)

    def launch(self):
        """List the rows of the dual problem, and take the given solution, or solve it."""
        if self.solves:
            self._solve()
        else:
            self.delassus.list_rows(self.problem)
            assign(self.solution.v, self.problem.v0)
        self.scratch.clear(self.run)
        self.run(lcp_residual.reserve, self.worlds, [self.delassus.dual, self.scratch.data])
        return self.solution

    def _solve(self) -> None:
        given, self.problem.v0 = self.problem.v0, self.v_start
        self.solves.launch()
        self.problem.v0 = given
        assign(self.contact_x, self.solves.memory.contact_x)

    def _run_by_turns(self, kernel, inputs) -> None:
        """Launch over worlds, in turns that share the scratch memory for matrices."""
        for turn in range(self.scratch.turns):
            self.delassus.multiply(self.problem, self.scratch, turn)
            self.run(kernel, self.worlds, [self.scratch.data, turn, *inputs])

    def classify(self) -> None:
        """Classes and impulses of the recorded solution, after `launch`."""
        per_row = (self.worlds, self.delassus.size)
        inputs = [self.problem, self.collision.scene, self.law, self.delassus.dual]
        self.run(lcp_residual.find_bounces, per_row, [*inputs, self.v_start, self.system])
        self.run(lcp_residual.find_speed, self.worlds, [self.problem, self.delassus.dual, self.system])
        self.run(lcp_residual.classify, per_row, [*inputs, self.contact_x, self.system])
        assign(self.impulse, self.recorded)

    def solve_smooth(self, x: wp.array, y: wp.array, sign: float = 1.0) -> None:
        """y = sign A⁻¹x `(worlds, nv)`."""
        self.run(lcp_residual.solve_smooth, self.worlds, [self.problem, self.delassus.A_factor, x, sign, y])

    def escape(self, v_bar: wp.array) -> None:
        """Change the classes of the chosen worlds to those that escape a saddle point, given the adjoint of v."""
        dual = self.delassus.dual
        self.solve_smooth(v_bar, self.system.z)
        inputs = [self.problem, dual, self.chosen, self.system]
        self.run(lcp_residual.escape, (self.worlds, self.delassus.size), inputs)
        inputs = [self.problem, self.collision.scene, self.law, dual, self.chosen, self.system, self.impulse]
        self._run_by_turns(lcp_residual.impulses, inputs)

    def solve_adjoint(self, v_bar: wp.array, seed: wp.array) -> None:
        """From the adjoint of v: seed = −w `(worlds, nv)`, `error_bar` = −λ, and `null` for the rule of least norm."""
        self.solve_smooth(v_bar, self.system.z)
        inputs = [self.problem, self.delassus.dual, self.impulse, self.system, seed, self.error_bar, self.null]
        self._run_by_turns(lcp_residual.solve_adjoint, inputs)

    def keep_norm(self, which: int, v_bar: wp.array, tau_bar: wp.array) -> None:
        """Keep the size of the gradient that was found with `chosen` = `which` in all worlds."""
        self.run(lcp_residual.squared_norm, self.worlds, [v_bar, tau_bar, self.norms[which]])

    def choose(self) -> None:
        """Set `chosen` from the sizes of both gradients."""
        self.run(lcp_residual.choose, self.worlds, [*self.norms, self.chosen])
