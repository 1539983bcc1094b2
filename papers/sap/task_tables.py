# SPDX-License-Identifier: Apache-2.0
"""Tables and figure of the two arms' task (Figs. 18, 19 and 21 of the SAP paper), from runs of `two_arms.run_task`."""

import numpy as np

from papers.sap.two_arms import PHASES, REACHED
from papers.tables import formatted, made_on, table

STRIDE = 10  # steps between rows of the history


def history(rows: dict, dt: float, world: int = 0) -> list[dict]:
    """Of one world every `STRIDE` steps: phase, contacts, iterations, e_m."""
    picked = range(0, len(rows["phase"]), STRIDE)
    return [
        {
            "time": dt * (k + 1), "phase": PHASES[rows["phase"][k, world]].name, "contacts": int(rows["contacts"][k, world]),
            "iterations": int(rows["iterations"][k, world]), "momentum_error": float(rows["momentum_error"][k, world]),
        }
        for k in picked
    ]  # fmt: skip


def summary(rows: dict, seconds: dict, outcome: dict, tolerance: float) -> dict:
    """One line of a run: successes, iterations, e_m, contacts, CPU per step and world."""
    steps, worlds = rows["phase"].shape
    iterations, error, contacts = (rows[name] for name in ("iterations", "momentum_error", "contacts"))
    return {
        "tolerance": tolerance, "worlds": worlds, "success": int(outcome["success"].sum()),
        "marbles": float(outcome["marbles"].mean()), "steps": steps,
        "iterations": float(iterations.mean()), "most_iterations": int(iterations.max()),
        "e_m_mean": float(error.mean()), "e_m_median": float(np.median(error)), "e_m_most": float(error.max()),
        "contacts": float(contacts.mean()), "most_contacts": int(contacts.max()),
        "ms": 1e3 * seconds["steps"] / (steps * worlds), "ms_all": 1e3 * seconds["all"] / (steps * worlds),
    }  # fmt: skip


def markdown(summaries: list[dict], reached: dict, worlds: int, host: dict) -> str:
    """Success by phase in the run of most worlds, and every run's line."""
    lines = ["## Two arms open a jar (stage 2 of §VI-E)", ""]
    lines += table(["reached", f"of {worlds} worlds"], ([name, int(np.sum(reached[name]))] for name in REACHED))
    lines += formatted(sorted(summaries, key=lambda r: r["tolerance"]), {
        "tolerance": "{tolerance:.0e}", "worlds": "{worlds}", "succeed": "{success}", "marbles in the bowl": "{marbles:.1f}",
        "steps": "{steps}", "iterations mean / most": "{iterations:.2f} / {most_iterations}",
        "e_m mean / median / most": "{e_m_mean:.0e} / {e_m_median:.0e} / {e_m_most:.0e}",
        "contacts mean / most": "{contacts:.0f} / {most_contacts}", "CPU ms per step and world": "{ms:.1f}",
        "with the program": "{ms_all:.1f}",
    })  # fmt: skip
    return "\n".join([*lines, made_on(host, "warpsim", "warp-lang", "mujoco")]) + "\n"


def draw(rows: list[dict], events: dict, summaries: list[dict]):
    """Fig. 18: contacts against time with events and phases; Figs. 19 and 21: e_m and iterations against the tolerance."""
    from papers.sap.plots import BLUE, GREY, RED, finish, new_figure

    figure, axes = new_figure((12, 7), 2, 2)
    grid = axes[0, 0].get_gridspec()
    for a in axes[0]:
        a.remove()
    top = figure.add_subplot(grid[0, :])
    top.grid(True, color="0.9", linewidth=0.6)
    t = np.array([r["time"] for r in rows])
    top.plot(t, [r["contacts"] for r in rows], color=BLUE, linewidth=1, label="contacts")
    high = max(r["contacts"] for r in rows)
    begun = [k for k in range(len(rows)) if k == 0 or rows[k]["phase"] != rows[k - 1]["phase"]]
    for k in begun:
        top.axvline(t[k], color="0.85", linewidth=0.8)
        top.text(t[k] + 0.05, 1.03 * high, rows[k]["phase"], rotation=90, fontsize=7, va="bottom", color=GREY)
    for name, time in events.items():
        top.axvline(time, color=RED, linewidth=1)
        top.text(time + 0.05, 0.98 * high, name, rotation=90, fontsize=8, va="top", color=RED)
    top.set_ylim(0, 1.3 * high)
    finish(top, "Fig. 18: contacts, hydroelastic ones included", xlabel="t [s]", ylabel="contacts")
    top.get_legend().remove()
    runs = sorted(summaries, key=lambda r: r["tolerance"])
    tolerance = [r["tolerance"] for r in runs]
    left, right = axes[1]
    for key, style, label in (("e_m_mean", "o-", "mean"), ("e_m_median", "s--", "median"), ("e_m_most", "^:", "most")):
        left.loglog(tolerance, [max(r[key], 1e-17) for r in runs], style, color=BLUE, ms=4, label=label)
    left.loglog(tolerance, tolerance, color=GREY, linewidth=1, label="the tolerance")
    finish(left, "Fig. 19: momentum error", xlabel="tolerance", ylabel="e_m")
    right.semilogx(tolerance, [r["iterations"] for r in runs], "o-", color=BLUE, label="mean iterations a step")
    for r in runs:
        done = f"{r['success']}/{r['worlds']} succeed"
        right.annotate(done, (r["tolerance"], r["iterations"]), fontsize=7, xytext=(0, 6), textcoords="offset points")
    right.set(ylim=(0, 1.25 * max(r["iterations"] for r in runs)), xlim=(0.3 * tolerance[0], 10 * tolerance[-1]))
    finish(right, "Fig. 21: iterations", xlabel="tolerance", ylabel="iterations")
    return figure


SHOWN = ("over lid", "carry", "empty", "over jar", "leave lid", "end")  # frames of the film, as their phases begin
EYE, LOOK = (1.75, -0.55, 0.75), (0.6, 0.0, 0.2)  # [m]


def film(model, q: np.ndarray, times: np.ndarray, phase_start: np.ndarray) -> np.ndarray:
    """One picture of six moments of a world: `q (frames, nq)`, `times` [s] of the frames, `phase_start` (phases,) [s]."""
    from warpsim.show.render import Camera, render_image

    begun = [phase_start[[p.name for p in PHASES].index(name)] for name in SHOWN]
    frames = [int(np.argmin(np.abs(times - t))) for t in begun]
    pictures = [render_image(model, q[k], Camera(EYE, LOOK), 420, 330, samples=1) for k in frames]
    return np.concatenate([np.concatenate(pictures[i : i + 3], axis=1) for i in (0, 3)], axis=0)
