# SPDX-License-Identifier: Apache-2.0
"""Rigid contact by a boxed LCP: options, and the solver of a step (Werling et al.; theory §5)."""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warpsim.base import checks
from warpsim.base.other_names import answers
from warpsim.device.copies import copy
from warpsim.kernels.solve.lcp import contact_lcp, lcp
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.delassus import Delassus
from warpsim.solve.lcp.lcp import DEFAULT_TOLERANCE, IMPULSES, NOTHING, LCPSolver
from warpsim.solve.scratch import Scratch

if TYPE_CHECKING:
    from warpsim.model.model import Model


# Names of the arrays that a step passes to the next for its warm start.
LCP_MEMORY = ("lcp_count", "lcp_key", "lcp_contact_x", "lcp_row_x")


@dataclass(frozen=True)
class LCP(ContactModel):
    """Options of rigid contact as a boxed LCP (friction pyramid, restitution), solved by pivoting.

    Parameters
    ----------
    tolerance : float, optional
        Largest residual of the LCP, relative to the largest velocity of a contact or row that the impulses must change
        (docs/theory.md, §5.1). Default: 1e-10 in float64, 1e-4 in float32.
    error_reduction : float
        Fraction of an overlap, 0 to 1, that one step removes, at most at the recovery speed. Default: 0, overlaps stay.
    restitution_threshold : float
        Approach speed below which a contact does not bounce, so that bodies come to rest [m/s]. With `time_of_impact`
        it is a threshold of the rebound speed, and at least ¼ g h, with gravity g and time step h. Default: 1e-3.
    warm_start : bool
        Whether to start from the impulses of the previous step. With `time_of_impact` only the first solve of a step
        does. Default: True.
    saddle_escape : bool
        Whether gradients treat a contact as separating if a smaller normal impulse would lower the loss. This holds in
        worlds where it makes the gradients larger (docs/gradients_limits.md). The motion is the same. Default: False.

    Raises
    ------
    ValueError
        A value is not allowed. The message names it and the fix.

    Notes
    -----
    A world without a solution to the tolerance is flagged NOT_CONVERGED; `diagnostics.momentum_error` has its residual.
    `diagnostics.iterations` counts the factorizations of the island that took the most. `sim.warm_start_hits` tells in
    which worlds the warm start was right at the first factorization. docs/theory.md, §5.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), solver=ws.LCP(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    tolerance: float | None = None
    error_reduction: float = 0.0
    restitution_threshold: float = 1e-3
    warm_start: bool = True
    saddle_escape: bool = False
    has_restitution: ClassVar[bool] = True
    has_pyramid: ClassVar[bool] = True
    has_spin: ClassVar[bool] = True
    times_impacts: ClassVar[bool] = True
    is_rigid: ClassVar[bool] = True
    kinks_at_touch: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.tolerance(self.tolerance, "LCP: tolerance")
        rule = "give a number from 0 to 1"
        checks.number(self.error_reduction, "LCP: error_reduction", rule, lambda x: 0.0 <= x <= 1.0)
        rule = "give a speed of at least 0 [m/s]"
        checks.number(self.restitution_threshold, "LCP: restitution_threshold", rule, lambda x: 0.0 <= x < np.inf)
        for name in ("warm_start", "saddle_escape"):
            checks.flag(getattr(self, name), f"LCP: {name}")

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance that a simulator of `dtype` "float32" or "float64" uses."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)

    def refuse(self, model: "Model", integrator: Any, dtype: str, requires_grad: bool) -> str | None:
        if requires_grad and integrator.contact_solves > 1:
            return (
                f"{type(integrator).__name__}(passes={integrator.passes}) has no gradients with LCP(); use passes=1, "
                "or ws.SAP()"
            )
        if requires_grad and self.saddle_escape and not integrator.ends_in_contact:
            return (
                f"LCP(saddle_escape=True) has no gradients with {type(integrator).__name__}(); use another integrator"
            )
        if requires_grad and model.has_spin:
            pair = self.spin_pair(model)
            return (
                f"LCP() has no gradients of torsional and rolling friction, which {pair}; use ws.SAP(), or "
                "requires_grad=False"
            )
        if model.point_pairs < len(model.pair_geom):
            names = " and ".join(repr(model.geom_names[g]) for g in model.pair_geom[model.point_pairs])
            return (
                f"LCP() is rigid, and hydroelastic contact is compliant (geoms {names}); use ws.SAP() or ws.Compliant()"
            )
        return super().refuse(model, integrator, dtype, requires_grad)


LCP.__init__ = answers(LCP.__init__)  # type: ignore[method-assign]


class LCPContact(ContactSolver):
    """Workspace and launches: Delassus matrix, LCP, velocities. `prepare` sets inputs that the problem lacks."""

    def __init__(self, *size, options: LCP | None = None, **keywords):
        super().__init__(*size, **keywords)
        self.options = LCP() if options is None else options
        self.threshold = self.options.restitution_threshold
        self.delassus = Delassus(self, keep_W=False)
        W, N = self.worlds, self.delassus.size
        self.scratch = Scratch(W, lcp.MATRICES * N * N + self.rows * N, self.scalar, self.device)
        options = {"tolerance": self.options.tolerance, "scratch": self.scratch}
        self.lcp = LCPSolver(W, N, dtype=self.dtype, device=self.device, **options)
        self.boxed, self.memory = copy(contact_lcp.Boxed, self.code)(), copy(contact_lcp.Memory, self.code)()
        for name in ("b", "hi", "shift", "E_b"):
            setattr(self.boxed, name, self.zeros((W, N)))
        for name in ("findex", "bilateral"):
            setattr(self.boxed, name, self.zeros((W, N), int))
        self.boxed.bilaterals = self.zeros(W, int)
        self.memory.count = self.zeros(W, int)
        self.memory.key = self.zeros((W, 4 * self.max_contacts), int)
        self.memory.contact_x, self.memory.row_x = self.zeros((W, 3 * self.max_contacts)), self.zeros((W, self.rows))
        self.guess = self.impulse = self.zeros((W, N))  # guess is read before impulse is written
        data = self.lcp.problem
        # A lies in the scratch memory.
        data.A, data.rows, data.x = self.delassus.dual.W, self.delassus.dual.count, self.guess
        data.b, data.hi, data.findex = self.boxed.b, self.boxed.hi, self.boxed.findex
        self.lcp.options.guess = IMPULSES if self.options.warm_start else NOTHING
        result = self.lcp.solution
        self.solution.momentum_error, self.solution.iterations = result.residual, result.factorizations
        self.solution.status, self.warm_start_hits = result.status, result.hit

    def idle(self) -> list:
        return [self.delassus.dual.Y]

    @contextlib.contextmanager
    def cold(self):
        before, self.lcp.options.guess = self.lcp.options.guess, NOTHING
        try:
            yield
        finally:
            self.lcp.options.guess = before

    def state_memory(self) -> dict:
        """Arrays that a step passes to the next."""
        return {name: getattr(self.memory, name.removeprefix("lcp_")) for name in LCP_MEMORY}

    def prepare(self, collision, restitution, h: float) -> None:
        """Set the inputs of launches besides the problem: contacts, restitution of the geoms, step."""
        self.collision, self.restitution, self.h = collision, restitution, h

    def launch(self):
        """Solve every world, off the tape."""
        per_row, dual = (self.worlds, self.delassus.size), self.delassus.dual
        contacts = self.collision.contacts
        self.delassus.list_rows(self.problem)
        inputs = [self.problem, self.collision.scene, contacts, self.restitution, self.h]
        inputs += [self.options.error_reduction, self.threshold, self.collision.surface_rate, dual, self.boxed]
        self.run(contact_lcp.fill, per_row, inputs)
        self.scratch.clear(self.run)
        self.run(contact_lcp.reserve, self.worlds, [dual, self.boxed, self.scratch.data])
        if self.lcp.options.guess == IMPULSES:
            self.run(contact_lcp.recall, self.worlds, [contacts, dual, self.memory, self.guess])
        for turn in range(self.scratch.turns):
            place = [self.scratch.data, turn]
            self.delassus.multiply(self.problem, self.scratch, turn)
            self.run(contact_lcp.eliminate, self.worlds, [self.problem, dual, self.boxed, *place])
            self.lcp.launch(turn)
            inputs = [dual, self.boxed, *place, self.lcp.solution.x, self.impulse]
            self.run(contact_lcp.recover, self.worlds, inputs)
        self.run(contact_lcp.remember, self.worlds, [contacts, dual, self.lcp.solution.x, self.memory])
        self.delassus.recover(self.problem, self.impulse, self.solution)
        return self.solution


LCP.workspace = LCPContact
