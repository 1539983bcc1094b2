# SPDX-License-Identifier: Apache-2.0
"""The clutter of Castro, Permenter and Han, §VI-C, measured for `figures.py`: Figs. 9 to 15.

SAP is timed alone: after a step its contact problem is solved again from the same guess, with the same result. Clarabel, a
primal-dual interior-point solver, gets the same problem as a second-order cone program (the paper's eq. 19, solved by Gurobi
there); its time is that of its iterations, without its setup. Both clocks count CPU time of the one thread.
"""

import time

import numpy as np
import warp as wp

import warpsim as ws
from scenes.contact_problems import Exported, interior_point
from scenes.examples import clutter

H = 0.01  # [s]
GRAVITY = 9.81
TOLERANCE = 1e-5  # of SAP in the paper's clutter
PEER_TOLERANCE = 1e-8  # Clarabel's default
REPEATS = 3  # of every timed solve; the best counts
DETAILED = 40  # bodies of Figs. 9, 10, 14, 15
SHOWN_STEPS = (60, 520)  # of Fig. 10
MOST_ITERATIONS = 1000  # of Fig. 15; the default of 300 is too few for a few steps at σ ≤ 1e-6


class Clutter:
    """One clutter in one world in float64; `solver`: options of SAP."""

    def __init__(self, bodies: int, walls: bool, **options):
        options = {"approximation": "convex", "tolerance": TOLERANCE} | options
        model = clutter(bodies, walls=walls, h=H)
        self.sim = ws.Simulator(model, dt=H, dtype="float64", device="cpu", solver=ws.SAP(**options))
        self.state = self.sim.state()
        self.solver = self.sim._step.solver
        self.guess = wp.zeros_like(self.state.v)
        self.sim.step(self.state)  # compile
        own_guess, self.solver.problem.v0 = self.solver.problem.v0, self.guess
        with wp.ScopedCapture(device="cpu") as capture:
            self.solver.launch()
        self.graph, self.solver.problem.v0 = capture.graph, own_guess

    def step(self) -> None:
        """Advance by H; the guess of the step's solve is kept."""
        wp.copy(self.guess, self.state.v)
        self.sim.step(self.state, out=self.state)

    def iterations(self) -> int:
        """Newton steps of the last solve: those of the island that took most."""
        return int(self.solver.solution.iterations.numpy()[0])

    def solve_seconds(self) -> float:
        """CPU time of the last step's solve: islands, Newton iterations, certificate."""
        spent = []
        for _ in range(REPEATS):
            begin = time.process_time()
            wp.capture_launch(self.graph)
            spent.append(time.process_time() - begin)
        return min(spent)

    def problem(self) -> Exported:
        """The last step's problem, with its guess."""
        problem = Exported(self.sim, 0)
        problem.v0 = self.guess.numpy()[0].copy()
        return problem


def history(seconds: float) -> list[dict]:
    """Fig. 9: iterations and milliseconds of every step, SAP and Clarabel, 40 bodies with walls."""
    scene, rows = Clutter(DETAILED, walls=True), []
    for step in range(1, round(seconds / H) + 1):
        scene.step()
        problem = scene.problem()
        peer = interior_point(problem, PEER_TOLERANCE, problem.blocks)
        rows.append({
            "step": step, "contacts": len(problem.mu), "sap_iterations": scene.iterations(),
            "sap_ms": 1e3 * scene.solve_seconds(), "clarabel_iterations": peer.iterations, "clarabel_ms": 1e3 * peer.seconds,
        })  # fmt: skip
    return rows


def convergence(steps=SHOWN_STEPS) -> list[dict]:
    """Fig. 10: (ℓ − ℓ*)/(ℓ0 − ℓ*) after every Newton iteration of the whole scene as one problem, as the paper solves it.

    The k-th iterate is the solution with at most k iterations; ℓ* is the cost where none lowers it any more. `converged`
    marks iterates that meet the tolerance.
    """
    scene, rows = Clutter(DETAILED, walls=True), []
    for step in range(1, max(steps) + 1):
        scene.step()
        if step in steps:
            problem = scene.problem()
            data = ws.ContactProblem(**problem.arguments())
            best = ws.solve_contact(data, ws.SAP(tolerance=1e-13)).v[0]
            costs, errors = [problem.cost(problem.v0)], [1.0]
            while errors[-1] > 1e-12 and len(costs) < 100:
                solution = ws.solve_contact(data, ws.SAP(tolerance=1e-13, max_iterations=len(costs)))
                costs.append(problem.cost(solution.v[0]))
                errors.append(float(solution.momentum_error[0]))
            least = min(problem.cost(best), *costs)
            for k, (cost, error) in enumerate(zip(costs, errors, strict=True)):
                gap = (cost - least) / (costs[0] - least)
                rows.append({"step": step, "iteration": k, "cost_gap": gap, "momentum_error": error})
    return rows


def scaling(bodies: int, walls: bool, seconds: float, samples: int) -> dict:
    """Figs. 11 to 13: contacts at the end, mean milliseconds and errors of SAP and Clarabel over `samples` steps."""
    scene, steps = Clutter(bodies, walls), round(seconds / H)
    sampled = set(np.linspace(1, steps, samples).astype(int))
    found = []
    for step in range(1, steps + 1):
        scene.step()
        if step not in sampled:
            continue
        p = scene.problem()
        if len(p.mu) == 0:
            continue
        peer = interior_point(p, PEER_TOLERANCE, p.blocks)
        found.append({
            "sap_ms": 1e3 * scene.solve_seconds(), "sap_iterations": scene.iterations(),
            "sap_e_m": p.momentum_error(p.v, p.generalised(p.gamma)), "sap_e_mu": p.slackness_error(p.v, p.gamma),
            "clarabel_ms": 1e3 * peer.seconds, "clarabel_iterations": peer.iterations,
            "clarabel_e_m": p.momentum_error(peer.v, p.generalised(peer.gamma)),
            "clarabel_e_mu": p.slackness_error(peer.v, peer.gamma), "apart": p.norm(peer.v - p.v) / p.size(p.v),
        })  # fmt: skip
    row = {"bodies": bodies, "walls": walls, "contacts": int((scene.sim.last_contacts.phi < 0.0).sum())}
    row |= {key: float(np.mean([f[key] for f in found])) for key in found[0]}
    worst = {"sap_e_m_worst": max(f["sap_e_m"] for f in found), "sap_e_mu_worst": max(f["sap_e_mu"] for f in found)}
    return (
        row
        | worst
        | {"speedup": row["clarabel_ms"] / row["sap_ms"], "flags": int(scene.state.memory["flags"].numpy()[0])}
    )


def slip(sigma: float, walls: bool, seconds: float) -> dict:
    """Figs. 14 and 15: mean slip at the end beside its bound σμhg, mean iterations, condition number of H at the end."""
    scene, iterations = Clutter(DETAILED, walls, sigma=sigma, max_iterations=MOST_ITERATIONS), []
    for _ in range(round(seconds / H)):
        scene.step()
        iterations.append(scene.iterations())
    p = scene.problem()
    speeds = np.linalg.norm(p.u_c[p.gamma[:, 2] > 0.0, :2], axis=1)
    row = {"sigma": sigma, "walls": walls, "slip": float(speeds.mean()), "bound": sigma * H * GRAVITY}
    row |= {
        "iterations": float(np.mean(iterations)),
        "iterations_most": max(iterations),
        "condition": float(np.linalg.cond(p.hessian(p.v))),
    }
    return row | {"contacts": len(speeds), "flags": int(scene.state.memory["flags"].numpy()[0])}
