# SPDX-License-Identifier: Apache-2.0
"""Figures and tables of Castro, Permenter and Han, *An Unconstrained Convex Formulation of Compliant Contact*, §VI-B and C.

    python -m papers.sap.figures [--quick] [--drake] [--out papers/sap/results] [--plots papers/sap]

Spring-cylinder (Figs. 5 to 7), clutter (Figs. 9 to 15), and two options beyond the paper. Clarabel, an interior-point solver,
stands in for Gurobi on the same problems; --drake times whole steps beside Drake (pip install drake). Everything runs in one
thread in float64; times are CPU time. About 15 minutes, --quick one. README.md explains the numbers.
"""

import argparse
import functools
import importlib.metadata
import importlib.util
import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # idle BLAS threads spin, and CPU time counts them

import warp as wp

from benchmarks.clutter import one_world
from papers.sap import piles, plots
from papers.sap import small_scenes as models
from papers.tables import formatted, made_on, results_folder, write
from warpsim.tools.bench import machine

FULL = {
    "bodies": (4, 8, 20, 40, 80, 120, 160), "seconds": 10.0, "samples": 50, "sigmas": [10.0**k for k in range(-7, 1)],
    "energy_seconds": 600.0, "orders": 8, "steps": (1e-2, 1e-3, 1e-4),
}  # fmt: skip
QUICK = {
    "bodies": (4, 8, 20, 40), "seconds": 6.0, "samples": 10, "sigmas": [1e-5, 1e-4, 1e-3, 1e-2],
    "energy_seconds": 10.0, "orders": 5, "steps": (1e-2, 1e-3),
}  # fmt: skip


def measure(size: dict, with_drake: bool) -> dict[str, list[dict]]:
    """Rows of every figure and table by name."""
    seconds, out = size["seconds"], {}

    def done(name: str, rows: list[dict]) -> None:
        out[name] = rows
        print(f"{name}: {len(rows)} rows", flush=True)

    energy, bands = models.energies(size["energy_seconds"])
    done("fig05_06_energy", energy)
    done("energy_bands", bands)
    done("fig07_order", models.orders(size["orders"]))
    done("fig09_history", piles.history(seconds))
    done("fig10_convergence", piles.convergence())
    sizes = [(bodies, walls) for walls in (True, False) for bodies in size["bodies"]]
    done("fig11_13_scaling", [piles.scaling(*pair, seconds, size["samples"]) for pair in sizes])
    sweep = [(sigma, walls) for walls in (True, False) for sigma in size["sigmas"]]
    done("fig14_15_slip", [piles.slip(*pair, seconds) for pair in sweep])
    done("beyond_hover", [models.hover(mu, h) for mu in (0.2, 1.0) for h in size["steps"]])
    done("beyond_sink", [models.sink(ratio) for ratio in (1, 10, 100, 1000)])
    if with_drake:
        whole = [one_world(bodies, "mixed", walls, seconds, 1, True) for bodies, walls in sizes]
        kept = ("bodies", "walls", "engine", "ms_per_step", "contacts", "depth", "slip")
        done("drake_whole_steps", [{key: row[key] for key in kept} for rows in whole for row in rows])
    return out


def markdown(result: dict[str, list[dict]], host: dict, size: dict) -> str:
    """Every table that is small enough to read, and the machine below them."""
    place = {True: "walls", False: "open"}
    scaling = [r | {"place": place[r["walls"]]} for r in result["fig11_13_scaling"]]
    sweep = [r | {"place": place[r["walls"]]} for r in result["fig14_15_slip"]]
    history = result["fig09_history"]
    half = history[len(history) // 2 :]
    means = [
        {"steps": name, **{key: sum(r[key] for r in rows) / len(rows) for key in history[0]}}
        for name, rows in (("first half", history[: len(history) // 2]), ("last half", half), ("all", history))
    ]
    lines = ["## Spring-cylinder: energy relative to the start (Figs. 5, 6), h = 20 ms", ""]
    lines += formatted(result["energy_bands"], {
        "μ": "{mu:g}", "scheme": "{scheme}", "lowest … highest in 3 s": "{lowest:.5f} … {highest:.5f}",
        "mean of the first 3 s": "{mean_at_start:.4f}", "mean of the last 3 s": "{mean_at_end:.4f}", "run s": "{seconds:g}",
    })  # fmt: skip
    lines += ["## Error of x over 5 s with friction (Fig. 7)", ""]
    lines += formatted(result["fig07_order"], {
        "scheme": "{scheme}", "h s": "{h:.3e}", "e_q m": "{error:.3e}", "order": "{order:.2f}",
    })  # fmt: skip
    lines += ["## 40 bodies with walls, per step (Fig. 9)", ""]
    lines += formatted(means, {
        "steps": "{steps}", "contacts": "{contacts:.0f}", "SAP iterations": "{sap_iterations:.1f}", "SAP ms": "{sap_ms:.3f}",
        "Clarabel iterations": "{clarabel_iterations:.1f}", "Clarabel ms": "{clarabel_ms:.2f}",
    })  # fmt: skip
    lines += ["## Cost after each Newton iteration (Fig. 10)", ""]
    lines += formatted(result["fig10_convergence"], {
        "step": "{step}", "iteration": "{iteration}", "(ℓ − ℓ*)/(ℓ0 − ℓ*)": "{cost_gap:.1e}", "e_m": "{momentum_error:.1e}",
    })  # fmt: skip
    lines += ["## Scalability and accuracy (Figs. 11 to 13), means over the sampled steps", ""]
    lines += formatted(scaling, {
        "scene": "{place}", "bodies": "{bodies}", "contacts at the end": "{contacts}", "SAP ms": "{sap_ms:.4f}",
        "Clarabel ms": "{clarabel_ms:.3f}", "speedup": "{speedup:.1f}", "SAP iterations": "{sap_iterations:.1f}",
        "Clarabel iterations": "{clarabel_iterations:.1f}", "SAP e_m": "{sap_e_m:.1e} (worst {sap_e_m_worst:.1e})",
        "Clarabel e_m": "{clarabel_e_m:.1e}", "SAP e_μ": "{sap_e_mu:.1e}", "Clarabel e_μ": "{clarabel_e_mu:.1e}",
        "v apart (norm of A)": "{apart:.1e}", "flags": "{flags}",
    })  # fmt: skip
    lines += ["## Slip parameter (Figs. 14, 15), 40 bodies", ""]
    lines += formatted(sweep, {
        "scene": "{place}", "σ": "{sigma:.0e}", "mean slip m/s": "{slip:.1e}", "σμhg m/s": "{bound:.1e}",
        "iterations mean / most": "{iterations:.1f} / {iterations_most}", "condition of H": "{condition:.1e}",
        "contacts": "{contacts}", "flags": "{flags}",
    })  # fmt: skip
    lines += ["## Beyond the paper: a ball set down sliding at 1 m/s", ""]
    lines += formatted([{k: 1e3 * x if k.endswith("rise") else x for k, x in r.items()} for r in result["beyond_hover"]], {
        "μ": "{mu:g}", "h s": "{h:g}", "convex: rise mm": "{convex_rise:.3f}", "lagged: rise mm": "{lagged_rise:.3f}",
        "convex: end speed m/s": "{convex_speed:.5f}", "lagged: end speed m/s": "{lagged_speed:.5f}",
    })  # fmt: skip
    lines += ["## Beyond the paper: a 1 kg ball under a heavier one", ""]
    lines += formatted([{k: 1e3 * x if k in ("convex", "supported_load") else x for k, x in r.items()} for r in result["beyond_sink"]], {
        "ratio": "{ratio}", "convex: sinks mm": "{convex:.3f}", "supported load: sinks mm": "{supported_load:.3f}",
    })  # fmt: skip
    if "drake_whole_steps" in result:
        lines += ["## Whole steps beside Drake", ""]
        rows = [r | {"place": place[r["walls"]]} for r in result["drake_whole_steps"]]
        lines += formatted(rows, {
            "scene": "{place}", "bodies": "{bodies}", "engine": "{engine}", "ms per step": "{ms_per_step:.4f}",
            "contacts": "{contacts}", "depth m": "{depth:.1e}", "slip m/s": "{slip:.1e}",
        })  # fmt: skip
    lines += [f"{made_on(host, 'warpsim', 'warp-lang', 'clarabel', 'drake')}; {size['seconds']:g} s"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer bodies, shorter runs: about a minute")
    parser.add_argument("--drake", action="store_true", help="whole steps of the same scenes in Drake")
    parser.add_argument(
        "--out", type=functools.partial(results_folder, "sap"), help="folder for tables.md and one CSV per figure"
    )
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the PNGs")
    arguments = parser.parse_args()
    wp.config.quiet = True
    with_drake = arguments.drake and importlib.util.find_spec("pydrake") is not None
    if arguments.drake and not with_drake:
        print("pydrake is not installed, Drake is left out; run: pip install drake")
    size = QUICK if arguments.quick else FULL
    host = machine(wp.get_device("cpu"))
    host["versions"]["clarabel"] = importlib.metadata.version("clarabel")
    host["versions"]["drake"] = importlib.metadata.version("drake") if with_drake else "not run"
    result = measure(size, with_drake)
    text = markdown(result, host, size)
    print("\n" + text)
    if arguments.out:
        write(result, text, arguments.out / "tables.md")
    if arguments.plots:
        plots.draw(result, arguments.plots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
