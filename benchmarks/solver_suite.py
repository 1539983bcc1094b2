# SPDX-License-Identifier: Apache-2.0
"""The two solvers as functions on their full sets of problems: boxed LCPs and cone QPs.

    python -m benchmarks.solver_suite [--lcps 10000] [--cone-qps 1000] [--out benchmarks/results]

LCPs: 206 recorded ones of a walking robot, and random multi-contact ones of up to 48 rows, solved together in one launch.
Residuals are computed a second time, without the solver. Cone QPs: random ones with a known optimum, also given to
Clarabel, and the duals of compliant contact with stiffness from 1 to 10¹⁵. Times are CPU time of one thread.
"""

import argparse
import importlib.metadata
import json
import pathlib
import sys
import time

import numpy as np
import warp as wp

import warpsim as ws
from scenes.cone_samples import ConeQP, clarabel_solution, infeasible_cone_qp, random_cone_qp, unbounded_cone_qp
from scenes.lcp_samples import BoxedLCP, natural_residual, random_lcp, stack_problems
from warpsim.solve.cone_qp.cone_qp import INFEASIBLE, UNBOUNDED
from warpsim.tools.bench import machine

RECORDED = pathlib.Path(__file__).parents[1] / "tests" / "reference" / "data" / "boxed_lcps.npz"
DTYPES = ("float64", "float32")


def timed(solve, repeats: int = 3) -> float:
    """CPU seconds of the fastest of some calls, after one that compiles."""
    solve()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        solve()
        seconds.append(time.process_time() - start)
    return min(seconds)


def recorded_lcps() -> list[BoxedLCP]:
    with np.load(RECORDED) as data:
        names = sorted({key.rsplit("/", 1)[0] for key in data})
        return [BoxedLCP(*(data[f"{k}/{f}"] for f in ("A", "b", "hi", "findex")), "recorded") for k in names]


def lcps(name: str, problems: list[BoxedLCP]) -> list[dict]:
    """One row per dtype: how many are solved, residuals, factorisations, warm start, time of the kernel."""
    from warpsim.solve import arrays
    from warpsim.solve.lcp.lcp import LCPSolver, _check

    stacked, rows = stack_problems(problems), []
    checked = _check(*(stacked[k] for k in ("A", "b", "hi", "findex")), None, stacked["rows"])
    for dtype in DTYPES:
        scalar = wp.float64 if dtype == "float64" else wp.float32
        solver = LCPSolver(*stacked["b"].shape, dtype=dtype, device="cpu")
        for key, value in checked.items():
            setattr(solver.problem, key, arrays.to_device(value, int if value.dtype == np.int32 else scalar, "cpu"))
        seconds = timed(solver.launch)
        out = solver.solution
        # Copies: the second launch below writes into the same memory.
        x, flags, count = (np.array(a.numpy()) for a in (out.x, out.status, out.factorizations))
        residual = np.array([natural_residual(p, x[w, : len(p.b)].astype(float)) for w, p in enumerate(problems)])
        solver.problem.classes, solver.options.guess = wp.clone(out.classes), 1
        hits = solver.launch().hit.numpy()
        rows.append(
            {
                "problems": name,
                "count": len(problems),
                "dtype": dtype,
                "solved": int(np.sum(flags == 0)),
                "residual": float(residual[flags == 0].max()),
                "residual_flagged": float(residual[flags != 0].max(initial=0.0)),
                "within_1e-7": int(np.sum(residual <= 1e-7)),
                "factorizations_median": float(np.median(count)),
                "factorizations_mean": float(count.mean()),
                "factorizations_max": int(count.max()),
                "warm_start_hits": float(hits.mean()),
                "ms_per_problem": 1e3 * seconds / len(problems),
            }
        )
    return rows


def solve(problem: ConeQP, dtype: str = "float64"):
    return ws.solve_cone_qp(problem.H, problem.g, problem.A, problem.q, problem.cones, dtype=dtype, device="cpu")


def cone_qps(problems: list[ConeQP], with_clarabel: bool) -> list[dict]:
    """One row per dtype: how many are solved, factorisations, cost against the known optimum and Clarabel."""
    rows = []
    peers = [clarabel_solution(p) for p in problems] if with_clarabel else []
    for dtype in DTYPES:
        solutions = [solve(p, dtype) for p in problems]
        solved = [s.flags[0] == 0 for s in solutions]
        count = np.array([s.iterations[0] for s in solutions])

        def error(others, solutions=solutions, solved=solved):
            errors = [
                abs(p.cost(s.x[0].astype(float)) - p.cost(x)) / p.size(p.x)
                for p, s, x, ok in zip(problems, solutions, others, solved, strict=True)
                if ok and x is not None
            ]
            return {f"{q:g}": float(np.quantile(errors, q)) for q in (0.5, 0.99, 1.0)}

        rows.append(
            {
                "count": len(problems),
                "dtype": dtype,
                "solved": int(np.sum(solved)),
                "residual": float(max(s.residual[0] for s, ok in zip(solutions, solved, strict=True) if ok)),
                "iterations_mean": float(count.mean()),
                "iterations_max": int(count.max()),
                "above_25": int(np.sum(count > 25)),
                "cost_error": error([p.x for p in problems]),
                "cost_to_clarabel": error(peers) if with_clarabel else None,
                "without_clarabel": sum(x is None for x in peers),
            }
        )
    return rows


def certificates(count: int) -> list[dict]:
    """Flags of problems without a solution, per dtype."""
    rng, rows = np.random.default_rng(1), []
    for name, make in (("infeasible", infeasible_cone_qp), ("unbounded", unbounded_cone_qp)):
        problems = [make(rng) for _ in range(count)]
        for dtype in DTYPES:
            flags = np.array([solve(p, dtype).flags[0] for p in problems])
            rows.append(
                {
                    "problems": name,
                    "dtype": dtype,
                    "count": count,
                    "certified": int(np.sum((flags & (INFEASIBLE | UNBOUNDED)) > 0)),
                    "not_converged": int(np.sum(flags == ws.NOT_CONVERGED)),
                    "taken_as_solved": int(np.sum(flags == 0)),
                }
            )
    return rows


def compliant_contact(count: int) -> list[dict]:
    """min ½λᵀ(S⁻¹ + W)λ − bᵀλ over friction cones, W of the random LCPs, S = 1 … 10¹⁵ per row; time of all."""
    rng = np.random.default_rng(2)
    problems = []
    for p in (random_lcp(rng) for _ in range(count)):
        stiffness = 10.0 ** rng.uniform(0.0, 15.0, len(p.b))
        problems.append((p.A + np.diag(1.0 / stiffness), -p.b, [("friction", mu) for mu in p.hi[0::3]]))
    rows = []
    for dtype in DTYPES:

        def run(dtype=dtype):
            return [ws.solve_cone_qp(H, g, cones=cones, dtype=dtype, device="cpu") for H, g, cones in problems]

        seconds, solutions = timed(run), run()
        flags, iterations = (np.array([getattr(s, name)[0] for s in solutions]) for name in ("flags", "iterations"))
        rows.append(
            {
                "count": count,
                "dtype": dtype,
                "solved": int(np.sum(flags == 0)),
                "iterations_mean": float(iterations.mean()),
                "iterations_max": int(iterations.max()),
                "ms_per_problem": 1e3 * seconds / count,
            }
        )
    return rows


def markdown(result: dict) -> str:
    """The tables of `results/solver_suite.md`."""
    lines = [
        "# Solvers as functions",
        "",
        "## Boxed LCPs (`ws.solve_lcp`)",
        "",
        "| problems | dtype | solved | largest residual of these | of the flagged | ≤ 1e-7 | factorisations median / mean / max | own classes hit | ms/problem |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["lcps"]:
        counts = f"{r['factorizations_median']:.0f} / {r['factorizations_mean']:.1f} / {r['factorizations_max']}"
        lines.append(
            f"| {r['problems']} | {r['dtype']} | {r['solved']} of {r['count']} | {r['residual']:.1e} | "
            f"{r['residual_flagged']:.1e} | {r['within_1e-7']} | {counts} | {r['warm_start_hits']:.2%} | {r['ms_per_problem']:.3f} |"
        )
    lines += [
        "",
        "## Cone QPs (`ws.solve_cone_qp`)",
        "",
        "| dtype | solved | factorisations mean / max | above 25 | cost against the known optimum: median / 99 % / worst | against Clarabel |",
        "|---|---|---|---|---|---|",
    ]
    for r in result["cone_qps"]:
        errors = [
            "not run" if e is None else " / ".join(f"{v:.1e}" for v in e.values())
            for e in (r["cost_error"], r["cost_to_clarabel"])
        ]
        lines.append(
            f"| {r['dtype']} | {r['solved']} of {r['count']} | {r['iterations_mean']:.1f} / {r['iterations_max']} | "
            f"{r['above_25']} | {errors[0]} | {errors[1]} |"
        )
    lines += ["", "| no solution | dtype | certified | not converged | taken as solved |", "|---|---|---|---|---|"]
    for r in result["certificates"]:
        lines.append(
            f"| {r['problems']} | {r['dtype']} | {r['certified']} of {r['count']} | {r['not_converged']} | {r['taken_as_solved']} |"
        )
    lines += ["", "| compliant contact | dtype | factorisations mean / max | ms/problem |", "|---|---|---|---|"]
    for r in result["compliant_contact"]:
        counts = f"{r['iterations_mean']:.1f} / {r['iterations_max']}"
        lines.append(f"| {r['solved']} of {r['count']} | {r['dtype']} | {counts} | {r['ms_per_problem']:.3f} |")
    m = result["machine"]
    versions = ", ".join(f"{name} {m['versions'][name]}" for name in ("warpsim", "warp-lang", "clarabel"))
    lines += ["", f"{m['date']}, {m['processor']}, one thread of {m['cores']} cores; {versions}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lcps", type=int, default=10000)
    parser.add_argument("--cone-qps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, help="folder for solver_suite.json and solver_suite.md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    result = {"machine": machine(wp.get_device("cpu"))}
    try:
        result["machine"]["versions"]["clarabel"] = importlib.metadata.version("clarabel")
    except importlib.metadata.PackageNotFoundError:
        result["machine"]["versions"]["clarabel"] = "not installed"
        print("clarabel is not installed, the comparison is left out; run: pip install clarabel")
    rng = np.random.default_rng(arguments.seed)
    random_lcps = [random_lcp(rng) for _ in range(arguments.lcps)]
    result["lcps"] = lcps("recorded, walking robot", recorded_lcps()) + lcps("random, n ≤ 48", random_lcps)
    problems = [random_cone_qp(rng) for _ in range(arguments.cone_qps)]
    result["cone_qps"] = cone_qps(problems, result["machine"]["versions"]["clarabel"] != "not installed")
    result["certificates"] = certificates(max(arguments.cone_qps // 5, 1))
    result["compliant_contact"] = compliant_contact(max(arguments.lcps // 5, 1))
    print(markdown(result))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "solver_suite.json").write_text(json.dumps(result, indent=1) + "\n")
        (arguments.out / "solver_suite.md").write_text(markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
