# SPDX-License-Identifier: Apache-2.0
"""`ilqr`: iterative LQR with control limits, in all worlds at once.

This is Gauss-Newton differential dynamic programming. The motion is linearized at every knot (`sim.linearize`). A
backward sweep solves the quadratic model, a minimum over δu within the limits (box-DDP: Tassa, Mansard, Todorov 2014).
Its feedback is rolled out with several step sizes side by side, and each world takes its best. An iteration costs one
rollout of worlds × step sizes, one linearization of worlds × knots, and small matrices on the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import number, whole
from warpsim.device.recording import tape_paused
from warpsim.device.threads import holds
from warpsim.optimise.box_qp import box_qp, masked_solve
from warpsim.optimise.cost import Cost, total
from warpsim.optimise.fallback import (
    CORRELATION,
    FAILING,
    NARROWER,
    REASONS,
    SAMPLES,
    History,
    Predictions,
    SearchWithFallbacks,
    bundle_jacobians,
    checked_fallback,
    lowest,
    sampled,
    story,
    told,
)
from warpsim.optimise.plan import Plan, checked_problem
from warpsim.optimise.reached import notes_of_unreached
from warpsim.optimise.replicas import jacobians, replicas
from warpsim.optimise.sampling import noise_of, rolled
from warpsim.simulator import Simulator
from warpsim.state import State

STEP_SIZES = 10.0 ** np.linspace(0.0, -3.0, 8)
ACCEPTED = 1e-4  # least fraction of the predicted reduction for a step to be accepted
LONG_STEP = 0.3  # step size from which on the regularization decreases
LEAST, MOST, GROWTH = 1e-6, 1e10, 4.0  # bounds of the regularization; it grows by GROWTH, GROWTH², ... as steps fail
FALL = 0.1  # factor on the regularization after a long step
JITTER = 1e-13  # times the trace of ∂²/∂u²: offsets the rounding of a semidefinite matrix


@holds
def ilqr(
    sim: Simulator,
    state: State,
    controls: Numbers,
    cost: Cost,
    *,
    limits: Numbers | None = None,
    iterations: int = 100,
    tolerance: float = 1e-6,
    regularisation: float = 0.0,
    substeps: int = 1,
    fallback: str | None = "cem",
    noise: Numbers | None = None,
    seed: int | Sequence[int] = 0,
) -> Plan:
    """Find controls `(knots, worlds, nu)` that lower `cost` from `state` on: a local optimum per world.

    Parameters
    ----------
    sim, state : Simulator, State
        The simulator and the initial states. Both are only read. Solvers whose Jacobians have no closed form use the
        general path of `sim.linearize`.
    controls : array
        The initial guess `(knots, worlds, nu)`.
    cost : Cost
        What to lower.
    limits : tuple
        (low, high), numbers or arrays that broadcast to (worlds, nu), within the model's control ranges, which always
        apply. Default: the control ranges.
    iterations : int
        Largest number of iterations, rounds of the fallback included. Default: 100.
    tolerance : float
        A world has converged once an iteration lowers its cost, or predicts to lower it, by less than this fraction.
        Default: 1e-6.
    regularisation : float
        Initial regularization of the second derivative of the cost with respect to controls, in units of cost per
        control². It adapts per world. Default: 0.
    substeps : int
        Number of steps that a knot's `sim.dt` is divided into, as in `sim.step`. Default: 1.
    fallback : "cem", "bundle" or None
        What a world does where its derivatives mislead (see Notes). "cem" (default): rounds of the cross-entropy method
        around its controls. "bundle": steps with derivatives that are means over motions under perturbed controls. The
        world then continues with the derivatives of its own motion. None: no samples are taken.
    noise : float or (nu,)
        Standard deviation of the samples' controls. Default: a quarter of the control range, or, without a range, the
        largest control of the world (1 if all are 0). A world uses a tenth of it, except if it is "untouched" or its
        first fallback comes before any step has tested its derivatives. Each further fallback of a world halves it,
        three times at most.
    seed : int or sequence of int
        The random numbers depend only on the seed, the world's index and the number of its fallbacks. Default: 0.

    Returns
    -------
    Plan
        Controls, their motion and cost, and how the search of each world ended.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed. The message names it.

    Notes
    -----
    Steps are accepted by the cost of the exact motion. No cost ever rises, and a world's plan does not depend on the
    other worlds.

    A world falls back if its search ends as "untouched", as "stalled" or with derivatives that are not finite, or if 4
    iterations in a row gain less than a twentieth of what the derivatives predict. If a search has converged but its
    last gain is not within a factor of 4 of the predicted one, or no step has tested the derivatives, the world takes
    one round of samples, and further rounds only if the first one lowers the cost. Each round counts as an iteration.
    `Plan.fallbacks` counts the fallbacks that found a lower cost, and `Plan.notes` says what happened. A search that
    never falls back has the same bits as with `fallback=None`.

    Examples
    --------
    >>> b = ws.ModelBuilder("pusher")
    >>> for name, x in (("hand", 0.0), ("box", 0.3)):
    ...     _ = b.add_joint(b.add_body(name, pose=[x, 0, 0]), "slide", axis=[1, 0, 0], name=name, damping=1.0)
    ...     _ = b.add_geom("sphere", [0.1], body=name, density=250.0)
    >>> _ = b.add_actuator("hand", control_range=(-10, 10))
    >>> sim = ws.Simulator(b.build(), dt=0.02, dtype="float64", device="cpu")
    >>> cost = ws.Cost(lambda q, v, u: 0.01 * u, lambda q, v: 10.0 * (q[..., 1:] - 0.2))    # the box, 0.2 m ahead
    >>> guess = np.zeros((30, 1, 1))
    >>> ws.ilqr(sim, sim.state(), guess, cost, fallback=None).status.tolist()
    ['untouched']
    >>> plan = ws.ilqr(sim, sim.state(), guess, cost)
    >>> plan.status.tolist(), plan.fallbacks.tolist(), bool(abs(plan.q[-1, 0, 1] - 0.2) < 0.01)
    (['converged'], [1], True)
    """
    u, low, high = checked_problem(sim, state, controls, cost, limits)
    if sim.model.na:
        raise ValueError(
            f"ilqr plans states of q and v, and actuators of model {sim.model.name!r} have activations besides; use "
            "ws.mppi"
        )
    iterations, substeps = whole(iterations, "iterations", 0), whole(substeps, "substeps", 1)
    tolerance = number(tolerance, "tolerance", "it must not be negative", lambda x: 0.0 <= x < np.inf)
    mu = number(regularisation, "regularisation", "it must not be negative", lambda x: 0.0 <= x < np.inf)
    chosen = checked_fallback(fallback, noise, seed, sim.model, low, high, u)
    with tape_paused(), np.errstate(over="ignore", invalid="ignore"):  # non-finite values are handled explicitly
        return _Search(sim, state, u, cost, low, high, mu, substeps, chosen).run(iterations, tolerance)


class _Search(SearchWithFallbacks):
    """The state of a search: per world the best motion so far, its cost, its regularization, and whether it goes on.

    `used` counts iterations and rounds of a world, `fallbacks` those that found less cost. A world that is `barren` has
    had one that did not.
    """

    def __init__(self, sim, state, u, cost, low, high, mu, substeps, fallback):
        self.sim, self.model, self.cost, self.low, self.high = sim, sim.model, cost, low, high
        self.start, self.knots, self.substeps, self.fallback = state, len(u), substeps, fallback
        self.first_mu, self.mu, self.growth = mu, np.full(sim.worlds, mu), np.full(sim.worlds, GROWTH)
        self.gains = np.zeros((*u.shape, 2 * self.model.nv))
        motion, values = self._roll(lambda knot, q, v: u[knot])
        self.motion, self.value = motion.chosen(np.zeros(sim.worlds, int)), values[0]
        self.status = np.where(np.isfinite(self.value), "iterations", "nonfinite").astype("<U10")
        self.predictions, self.unreached = Predictions(sim.worlds), [""] * sim.worlds
        self.history = History(self.value)
        self.used, self.fallbacks, self.tries = np.zeros((3, sim.worlds), int)
        self.barren, self.stories = np.zeros(sim.worlds, bool), [[] for _ in range(sim.worlds)]

    def run(self, iterations: int, tolerance: float) -> Plan:
        """Iterate until every world has stopped, and has nothing to fall back to."""
        self._iterate_all(iterations, tolerance)
        m = self.motion
        notes = tuple("; ".join(filter(None, (x, told(y)))) for x, y in zip(self.unreached, self.stories, strict=True))
        found = m.controls[:, 0], m.q[:, 0], m.v[:, 0], self.value, self.history.table(), self.status, self.gains
        return Plan(*found, notes=notes, fallbacks=self.fallbacks)

    @property
    def _fails(self) -> np.ndarray:
        """Worlds whose predictions have failed too often."""
        return self.predictions.failing & ~self.barren & (self.fallback is not None)

    def _note_unreached(self) -> None:
        """Name what worlds that have stopped leave undone; their status becomes "untouched"."""
        ended = np.isin(self.status, ("converged", "stalled", "untouched"))
        if not ended.any():
            return
        A, B, _ = jacobians(self.sim, self.motion)
        q, v, u = self.motion.q[:, 0], self.motion.v[:, 0], self.motion.controls[:, 0]
        found = notes_of_unreached(self.model, self.cost, A, B, q, v, u, self.value)
        self.unreached = [note if stopped else "" for note, stopped in zip(found, ended, strict=True)]
        self.status[np.array([bool(note) for note in self.unreached])] = "untouched"

    def _roll(self, policy):
        """The motions of all step sizes under a policy, and their costs `(step sizes, worlds)`; inf if not finite."""
        motion = replicas(self.sim, len(STEP_SIZES), self.substeps).roll(self.start, self.knots, policy)
        values = self.cost.value(*(np.moveaxis(x, 1, 0) for x in (motion.q, motion.v, motion.controls)))
        return motion, np.where(motion.finite, values, np.inf)

    def _propose(self, A: np.ndarray, B: np.ndarray, mu: np.ndarray):
        """One backward sweep and one rollout, with A and B of the motion's knots and a regularization per world.

        Returns the best motion with its cost and step size, the gains and the promised changes of the sweep, and which
        worlds have finite derivatives.
        """
        q, v, u = self.motion.q[:, 0], self.motion.v[:, 0], self.motion.controls[:, 0]
        running, terminal = self.cost.model(self.model, q, v, u)
        parts = [np.concatenate([A, B], axis=-1), *running, *(x[None] for x in terminal)]
        usable = np.all([np.isfinite(x).all(axis=(0, *range(2, x.ndim))) for x in parts], axis=0)
        F, g, H, g_end, H_end = (np.where(usable.reshape(-1, *[1] * (x.ndim - 2)), x, 0.0) for x in parts)
        step, gain, promise = backward(F, g, H, g_end[0], H_end[0], mu, self.low - u, self.high - u)
        sizes = STEP_SIZES[:, None, None]

        def policy(knot, q_now, v_now):
            deviation = np.concatenate([self.model.difference(q[knot], q_now), v_now - v[knot]], axis=-1)
            control = u[knot] + sizes * step[knot] + (gain[knot] @ deviation[..., None])[..., 0]
            return np.clip(np.nan_to_num(control), self.low, self.high)

        motion, values = self._roll(policy)
        best = np.argmin(values, axis=0)
        return motion.chosen(best), values[best, np.arange(len(best))], STEP_SIZES[best], gain, promise, usable

    def _iterate(self, going: np.ndarray, tolerance: float) -> None:
        """One iteration with the derivatives of the motion, for the worlds that go on."""
        A, B, _ = jacobians(self.sim, self.motion)
        motion, value, size, gain, promise, usable = self._propose(A, B, self.mu)
        self.status[going & ~usable] = "nonfinite"
        going = going & usable
        gained, promised = np.where(going, self.value, 0.0) - value, -(size * promise[0] + size**2 * promise[1])
        accepted = going & (gained > 0.0) & (gained > ACCEPTED * promised)
        small = tolerance * np.where(going, np.abs(self.value), 0.0)
        self.predictions.add(going, np.where(accepted, gained, 0.0), -promise.sum(0), small)
        self.motion = self.motion.updated(accepted, motion)
        self.value = np.where(accepted, value, self.value)
        tight, useful = self.mu <= LEAST, accepted & (gained > small)
        settled = (-promise.sum(0) <= small) | (accepted & (size >= LONG_STEP) & ~useful)
        converged = going & tight & settled
        self.gains = np.where((accepted | converged)[:, None, None], gain, self.gains)
        self._regularise(going & ~useful, useful & (size >= LONG_STEP))
        self.status[going & (self.mu > MOST)] = "stalled"
        self.status[converged] = "converged"

    def _regularise(self, failed: np.ndarray, long: np.ndarray) -> None:
        """Decrease the regularization after a long step; increase it, faster each time, after a failed one."""
        less = np.where(FALL * self.mu < LEAST, 0.0, FALL * self.mu)
        self.mu = np.where(failed, np.maximum(self.growth * self.mu, LEAST), np.where(long, less, self.mu))
        self.growth = np.where(failed, self.growth * GROWTH, GROWTH)

    def _fall_back(self, iterations: int, tolerance: float) -> bool:
        """Rounds of samples for the worlds whose derivatives mislead. Whether there were any such worlds."""
        if self.fallback is None:
            return False
        wrong = np.isin(self.status, ("stalled", "untouched")) | self._fails
        wrong |= (self.status == "nonfinite") & np.isfinite(self.value)
        doubted = (self.status == "converged") & ~self.predictions.held
        chosen = (wrong | doubted) & ~self.barren & (self.used < iterations)
        if not chosen.any():
            return False
        first, small = self.value, tolerance * np.abs(np.where(chosen, self.value, 0.0))
        controls, _, rounds, rows = lowest(
            self._rounds(),
            self.motion.controls[:, 0],
            first,
            small,
            chosen,
            wrong,
            iterations - self.used,
            until_gain=self.fallback.method == "bundle",
        )
        for n, row in enumerate(rows, 1):
            self.history.add(rounds >= n, self.used + n, row)
        self.used += rounds
        motion, values = self._roll(lambda knot, q, v: controls[knot])
        found = chosen & (np.where(chosen, first, 0.0) - values[0] > small)
        self._tell(chosen & (wrong | found), rounds, first, np.where(found, values[0], first))
        self.motion = self.motion.updated(found, motion.chosen(np.zeros(len(found), int)))
        self.value = np.where(found, values[0], first)
        self.gains = np.where(found[:, None, None], 0.0, self.gains)
        self.mu, self.growth = np.where(found, self.first_mu, self.mu), np.where(found, GROWTH, self.growth)
        self.status[found] = "iterations"
        self.fallbacks, self.tries = self.fallbacks + found, self.tries + chosen
        self.barren = self.barren | (chosen & ~found)
        self.unreached = ["" if again else note for again, note in zip(found, self.unreached, strict=True)]
        self.predictions.forget(found)
        return True

    def _rounds(self):
        """Endless rounds of the fallback from the motion so far: controls `(knots, worlds, nu)` and costs."""
        fallback, u, mu = self.fallback, self.motion.controls[:, 0], np.full(len(self.mu), self.first_mu)
        afar = (self.status == "untouched") | (np.isnan(self.predictions.ratio) & (self.tries == 0))
        sigma, draws = fallback.share(self.tries, ~afar)[:, None] * fallback.noise, fallback.draws(self.tries)
        if fallback.method == "cem":

            def price(tried: np.ndarray) -> np.ndarray:
                return rolled(self.sim, self.start, tried, self.cost, self.substeps)[2]

            def draw() -> np.ndarray:
                return noise_of(draws, (SAMPLES, *u[:, 0].shape), CORRELATION)

            yield from sampled(price, draw, u, self.low, self.high, sigma)
        while True:
            A, B = bundle_jacobians(self.sim, self.start, u, self.low, self.high, sigma, draws, self.substeps)
            motion, value, *_ = self._propose(A, B, mu)
            yield motion.controls[:, 0], value
            sigma = NARROWER * sigma

    def _tell(self, worlds: np.ndarray, rounds: np.ndarray, first: np.ndarray, last: np.ndarray) -> None:
        """Add a sentence about the fallback to the notes of these worlds (a mask)."""
        for w in np.flatnonzero(worlds):
            why = FAILING if self._fails[w] else REASONS[self.status[w]]
            self.stories[w].append(story(why, self.fallback.method, rounds[w], first[w], last[w]))


def backward(F, g, H, g_end, H_end, mu, low, high):
    """Riccati sweep with limits.

    Returns the step `(knots, worlds, nu)` of the controls, its feedback `(knots, worlds, nu, n)`, and the linear and
    quadratic change of cost (2, worlds) that the step predicts. F = (A, B) `(knots, worlds, n, n + nu)`. g, H: gradient
    and Hessian of the running cost with respect to (x, u); g_end, H_end: of the terminal cost with respect to x. mu
    `(worlds,)` is added to the diagonal of Q_uu. low, high `(knots, worlds, nu)` bound the step.
    """
    knots, worlds, n, m = *F.shape[:3], low.shape[-1]
    step, gain, promise = np.zeros((knots, worlds, m)), np.zeros((knots, worlds, m, n)), np.zeros((2, worlds))
    V_x, V_xx = g_end, H_end
    for k in reversed(range(knots)):
        F_T = np.swapaxes(F[k], -1, -2)
        q, Q = g[k] + _times(F_T, V_x), H[k] + F_T @ V_xx @ F[k]
        q_x, q_u, Q_xx, Q_ux, Q_uu = q[:, :n], q[:, n:], Q[:, :n, :n], Q[:, n:, :n], Q[:, n:, n:]
        # 1e-100 is for controls that no cost depends on
        more = mu + JITTER * np.trace(Q_uu, axis1=-2, axis2=-1) + 1e-100
        R = Q_uu + more[:, None, None] * np.eye(m)
        du, free = box_qp(R, q_u, low[k], high[k])
        K = -masked_solve(R, Q_ux, free)
        K_T, Q_xu, Q_du = np.swapaxes(K, -1, -2), np.swapaxes(Q_ux, -1, -2), _times(Q_uu, du)
        V_x = q_x + _times(K_T, Q_du + q_u) + _times(Q_xu, du)
        V_xx = Q_xx + K_T @ Q_uu @ K + K_T @ Q_ux + Q_xu @ K
        V_xx = 0.5 * (V_xx + np.swapaxes(V_xx, -1, -2))
        promise += total(q_u * du), 0.5 * total(du * Q_du)
        step[k], gain[k] = du, K
    return step, gain, promise


def _times(H: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (H @ x[..., None])[..., 0]
