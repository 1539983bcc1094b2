# SPDX-License-Identifier: Apache-2.0
"""`ilqr`: iterative LQR with control limits, in all worlds at once.

This is Gauss-Newton differential dynamic programming. The motion is linearized at every knot (`sim.linearize`). A
backward sweep solves the quadratic model, a minimum over δu within the limits (box-DDP: Tassa, Mansard, Todorov 2014).
Its feedback is rolled out with several step sizes side by side, and each world takes its best. An iteration costs one
rollout of worlds × step sizes, one linearization of worlds × knots, and small matrices on the host.
"""

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import number, whole
from warpsim.device.recording import tape_paused
from warpsim.device.threads import holds
from warpsim.optimise.box_qp import box_qp, masked_solve
from warpsim.optimise.cost import Cost, total
from warpsim.optimise.plan import Plan, checked_problem
from warpsim.optimise.reached import notes_of_unreached
from warpsim.optimise.replicas import jacobians, replicas
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
        (low, high) within the model's control ranges, which always apply.
    iterations : int
        Largest number of iterations.
    tolerance : float
        A world has converged once an iteration lowers its cost, or predicts to lower it, by less than this fraction.
    regularisation : float
        Initial regularization of ∂²/∂u², in units of cost per control². It adapts per world.
    substeps : int
        Number of parts that a knot's sim.dt is divided into, as in `sim.step`.

    Raises
    ------
    ValueError
        Names the argument.

    Notes
    -----
    No cost ever rises, and a world's plan does not depend on the other worlds.
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
    with tape_paused(), np.errstate(over="ignore", invalid="ignore"):  # non-finite values are handled explicitly
        return _Search(sim, state, u, cost, low, high, mu, substeps).run(iterations, tolerance)


class _Search:
    """The state of a search: per world the best motion so far, its cost, its regularization, and whether it goes on."""

    def __init__(self, sim, state, u, cost, low, high, mu, substeps):
        self.sim, self.model, self.cost, self.low, self.high = sim, sim.model, cost, low, high
        self.start, self.knots, self.substeps = state, len(u), substeps
        self.mu, self.growth = np.full(sim.worlds, mu), np.full(sim.worlds, GROWTH)
        self.gains = np.zeros((*u.shape, 2 * self.model.nv))
        motion, values = self._roll(lambda knot, q, v: u[knot])
        self.motion, self.value = motion.chosen(np.zeros(sim.worlds, int)), values[0]
        self.status = np.where(np.isfinite(self.value), "iterations", "nonfinite").astype("<U10")

    def run(self, iterations: int, tolerance: float) -> Plan:
        """Iterate until every world has stopped."""
        history = [self.value]
        for _ in range(iterations):
            going = self.status == "iterations"
            if not going.any():
                break
            self._iterate(going, tolerance)
            history.append(self.value)
        m = self.motion
        q, v = m.q[:, 0], m.v[:, 0]
        notes = self._notes(q, v)
        return Plan(m.controls[:, 0], q, v, self.value, np.array(history), self.status, self.gains, notes=notes)

    def _notes(self, q: np.ndarray, v: np.ndarray) -> tuple[str, ...]:
        """What worlds that have stopped leave undone; their status becomes "untouched"."""
        ended = np.isin(self.status, ("converged", "stalled"))
        if not ended.any():
            return ("",) * len(ended)
        A, B, _ = jacobians(self.sim, self.motion)
        u = self.motion.controls[:, 0]
        found = notes_of_unreached(self.model, self.cost, A, B, q, v, u, self.value)
        found = tuple(note if stopped else "" for note, stopped in zip(found, ended, strict=True))
        self.status[np.array([bool(note) for note in found])] = "untouched"
        return found

    def _roll(self, policy):
        """The motions of all step sizes under a policy, and their costs `(step sizes, worlds)`; inf if not finite."""
        motion = replicas(self.sim, len(STEP_SIZES), self.substeps).roll(self.start, self.knots, policy)
        values = self.cost.value(*(np.moveaxis(x, 1, 0) for x in (motion.q, motion.v, motion.controls)))
        return motion, np.where(motion.finite, values, np.inf)

    def _iterate(self, going: np.ndarray, tolerance: float) -> None:
        """One backward sweep and one rollout, for the worlds that go on."""
        q, v, u = self.motion.q[:, 0], self.motion.v[:, 0], self.motion.controls[:, 0]
        A, B, _ = jacobians(self.sim, self.motion)
        running, terminal = self.cost.model(self.model, q, v, u)
        parts = [np.concatenate([A, B], axis=-1), *running, *(x[None] for x in terminal)]
        usable = np.all([np.isfinite(x).all(axis=(0, *range(2, x.ndim))) for x in parts], axis=0)
        F, g, H, g_end, H_end = (np.where(usable.reshape(-1, *[1] * (x.ndim - 2)), x, 0.0) for x in parts)
        self.status[going & ~usable] = "nonfinite"
        going = going & usable
        step, gain, promise = backward(F, g, H, g_end[0], H_end[0], self.mu, self.low - u, self.high - u)
        sizes = STEP_SIZES[:, None, None]

        def policy(knot, q_now, v_now):
            deviation = np.concatenate([self.model.difference(q[knot], q_now), v_now - v[knot]], axis=-1)
            control = u[knot] + sizes * step[knot] + (gain[knot] @ deviation[..., None])[..., 0]
            return np.clip(np.nan_to_num(control), self.low, self.high)

        motion, values = self._roll(policy)
        best = np.argmin(values, axis=0)
        value, size = values[best, np.arange(len(best))], STEP_SIZES[best]
        gained, promised = np.where(going, self.value, 0.0) - value, -(size * promise[0] + size**2 * promise[1])
        accepted = going & (gained > 0.0) & (gained > ACCEPTED * promised)
        small = tolerance * np.where(going, np.abs(self.value), 0.0)
        self.motion = self.motion.updated(accepted, motion.chosen(best))
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
