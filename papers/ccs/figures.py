# SPDX-License-Identifier: Apache-2.0
"""The experiments of the compliant-constraint paper (Drumwright), with `ws.Compliant()` beside the paper's numbers.

    python -m papers.ccs.figures [--quick] [--parts pendulum,stack] [--out papers/ccs/results] [--plot papers/ccs/figures.png]

Pendulum in absolute coordinates (Fig. 4) and its stability, pendulum with a stop (Fig. 6), cube on an elastic foundation
against SciPy (Tables 1, 2), box on an incline (Fig. 9), stacks of spheres (Fig. 10), and the paper's printed programs
where they differ (`literal.py`). CPU, float64. The quick part takes a minute,
all of it about half an hour.
"""

import argparse
import functools
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # times are CPU seconds of one thread

import numpy as np
import warp as wp

import warpsim as ws
from papers.ccs import foundation, literal
from papers.ccs.program import PrintedSimulator
from papers.tables import made_on, results_folder, table
from scenes import compliant as scenes
from warpsim.base.extras import import_or_explain
from warpsim.files.output import replacing
from warpsim.tools.bench import machine

STIFFNESSES = 10.0 ** np.arange(16)  # [N/m] 1 to 1e15
FRICTIONS = (0.0, 0.125, 0.25, 0.375)
TILT = np.radians(15.0)
SCIPY_LIMIT = 20.0  # CPU seconds for one run of an integrator of SciPy
# The paper's tables 1 and 2 by (elements, load [N], modulus [Pa]): seconds (constraint-based, ode15s, ode45), error.
PAPER = {
    (100, 5, 1e7): ((0.331, 0.302, 28.0), 2.96e-5),
    (100, 5, 1e11): ((0.286, 0.189, 27.4), 2.91e-7),
    (100, 50, 1e7): ((0.332, 9.55, 15.5), 0.813),
    (100, 50, 1e11): ((0.396, 5550.0, 621.0), 0.814),
    (900, 5, 1e7): ((7.40, 4.75, 829.0), 1.98e-5),
    (900, 5, 1e11): ((8.23, 1.10, 17100.0), 2.71e-9),
    (900, 50, 1e7): ((12.98, 27.3, 346.0), 1.0e-2),
    (900, 50, 1e11): ((26.00, 2.31, 17400.0), 1.0e-2),
}


class Tally:
    """The most factorisations, the worst residual and the failures over a part."""

    def __init__(self):
        self.steps, self.most, self.worst, self.failures = 0, 0, 0.0, 0

    def add(self, diagnostics) -> None:
        read = diagnostics.numpy() if hasattr(diagnostics, "numpy") else {k: v.numpy() for k, v in diagnostics.items()}
        self.steps += read["iterations"].size
        self.most = max(self.most, int(read["iterations"].max(initial=0)))
        self.worst = max(self.worst, float(read["momentum_error"].max(initial=0.0)))
        self.failures += int(np.count_nonzero(read["flags"]))


TALLY = [Tally()]  # of the part that runs


def simulator(model, h: float, worlds: int = 1, solver=None, **options) -> ws.Simulator:
    """Compliant contact in float64 on the CPU."""
    solver = ws.Compliant() if solver is None else solver
    return ws.Simulator(model, worlds, h, solver=solver, dtype="float64", device="cpu", **options)


def printed(model, h: float, **options) -> PrintedSimulator:
    """The paper's programs, on the CPU."""
    return PrintedSimulator(model, 1, h, device="cpu", **options)


def rollout(sim: ws.Simulator, state, steps: int):
    """Trajectory, kept in the tally."""
    trajectory = sim.rollout(state, steps=steps)
    TALLY[0].add(trajectory.diagnostics)
    return trajectory


# Pendulum --------------------------------------------------------------------------------------------------------------


def pendulum_deviations(quick: bool) -> list[dict]:
    """Fig. 4: largest distance from the joint within 1 s at K = 1e15, B = 1: ours, and the printed scheme's."""
    rows = []
    for h in (0.1, 0.01, 1e-3) if quick else (0.1, 0.01, 1e-3, 1e-4):
        sim = simulator(scenes.pendulum(1e15), h)
        q = rollout(sim, sim.state(), round(1.0 / h)).q.numpy()[:, 0]
        printed = literal.pendulum(h, 1e15, 1.0, 1.0, bend=True)[0]
        deviations = [float(scenes.pendulum_deviation(x).max()) for x in (q, printed)]
        rows.append({"h": h, "ours": deviations[0], "printed": deviations[1]})
    return rows


def pendulum_energies(quick: bool, h: float = 0.1, seconds: float = 20.0) -> dict[str, list[float]]:
    """Energy over time at K = 1e15: ours, the printed scheme with its Ġ terms, and ours with jdot."""
    found = {}
    for name, options in (("ours", {}), ("with jdot", {"jdot": True})):
        model = scenes.pendulum(1e15)
        sim = ws.Simulator(model, dt=h, solver=ws.Compliant(**options), dtype="float64", device="cpu")
        trajectory = rollout(sim, sim.state(), round(seconds / h))
        found[name] = scenes.pendulum_energy(trajectory.q.numpy()[:, 0], trajectory.v.numpy()[:, 0])
    found["printed, with Ġ"] = scenes.pendulum_energy(*literal.pendulum(h, 1e15, 1.0, seconds, bend=True))
    return {name: energy.tolist() for name, energy in found.items()}


def blow_up(energy: np.ndarray, h: float) -> float:
    """Time at which the energy passes what the pendulum has from top to bottom, 2 m g; infinite where it does not."""
    above = np.flatnonzero(~(energy < 2.0 * scenes.GRAVITY))
    return float(above[0] * h) if len(above) else np.inf


def pendulum_stability(quick: bool) -> list[dict]:
    """Highest energy in the first 2 s and in the 18 s after, for every K and h; 0 at the start."""
    rows = []
    for h in (0.1, 0.01) if quick else (0.1, 0.01, 1e-3, 1e-4, 1e-5):
        for K in STIFFNESSES[::5] if h < 1e-3 else STIFFNESSES[:: 5 if quick else 3]:
            sim = simulator(scenes.pendulum(K), h)
            tenths = 10
            block = min(round(20.0 / h) // tenths, 1000)
            peaks, state = [], sim.state()
            for _ in range(tenths):
                peak = -np.inf
                for _ in range(round(20.0 / h) // (tenths * block)):
                    trajectory = sim.rollout(state, steps=block)
                    TALLY[0].add(trajectory.diagnostics)
                    q, v = trajectory.q.numpy()[1:, 0], trajectory.v.numpy()[1:, 0]
                    peak = max(peak, float(scenes.pendulum_energy(q, v).max()))
                    state = sim.state(q[-1:], v[-1:])
                peaks.append(peak)
            rows.append({"h": h, "K": K, "first": peaks[0], "later": max(peaks[1:])})
    return rows


def thrown_stability(quick: bool) -> list[dict]:
    """Largest rise of kinetic + potential + elastic energy of a thrown box and sphere, 16 stiffnesses in 16 worlds."""
    spans = ((0.1, 20.0), (0.01, 2.0)) if quick else ((0.1, 20.0), (0.01, 20.0), (1e-3, 20.0), (1e-4, 2.0), (1e-5, 0.2))
    rows = []
    for kind in ("box", "sphere"):
        for h, seconds in spans:
            sim = simulator(scenes.thrown_body(kind), h, worlds=len(STIFFNESSES))
            stiffness = np.full((len(STIFFNESSES), 2), np.inf)
            stiffness[:, 1] = STIFFNESSES
            sim.parameters["geom_stiffness"] = stiffness
            state = sim.state(v=[1.0, 0.3, -0.5, 0.2, 0.4, 0.1])
            steps = round(seconds / h)
            block = min(steps, 500)
            energy = [scenes.stored_energy(sim, state.q.numpy(), state.v.numpy(), STIFFNESSES)]
            for _ in range(steps // block):
                trajectory = rollout(sim, state, block)
                q, v = trajectory.q.numpy(), trajectory.v.numpy()
                for i in range(max(1, block // 20), block + 1, max(1, block // 20)):
                    energy.append(scenes.stored_energy(sim, q[i], v[i], STIFFNESSES))
                state = sim.state(q[-1], v[-1])
            rise = np.diff(energy, axis=0).max()
            rows.append({"body": kind, "h": h, "seconds": seconds, "rise": float(rise), "start": float(energy[0][0])})
    return rows


def stop_restitution(quick: bool) -> list[dict]:
    """Fig. 6: speed after the stop over that before at K = 1e12, B = 0: ours, the recursion by hand, the exact spring."""
    rows = []
    for h in (1e-5, 1e-6, 1e-7) if quick else (1e-5, 1e-6, 1e-7, 1e-8):
        sim = simulator(scenes.pendulum_with_stop(1e12), h)
        omega = -np.sqrt(2.0 * scenes.GRAVITY / 1.004)  # from θ = π/2
        state = sim.state([2.0 * h * abs(omega)], [omega])
        steps = round(4e-6 / h) + 20
        v = rollout(sim, state, steps).v.numpy()[:, 0, 0]
        rows.append({"h": h, "ours": float(v[-1] / -omega), "by hand": _stop_by_hand(h, omega, steps)})
    return rows


def _stop_by_hand(h: float, omega: float, steps: int) -> float:
    """The same by the paper's unilateral program, one row on the hinge angle."""
    theta, rate, M_inv = 2.0 * h * abs(omega), np.array([omega]), np.array([[1.0 / 1.004]])
    for _ in range(steps):
        f = np.array([-scenes.GRAVITY * np.sin(theta)])
        rows = literal.Rows([[1.0]], theta, 1e12, 0.0)
        load = literal.unilateral(M_inv, f, rate, h, rows) if theta <= 0.0 else 0.0
        rate = rate + h * M_inv @ (f + load)
        theta += h * rate[0]
    return float(rate[0] / -omega)


# Contact ---------------------------------------------------------------------------------------------------------------


def foundation_run(
    count: int, modulus: float, force: float, h: float = 0.01, make=simulator
) -> tuple[float, np.ndarray]:
    """(seconds, q after 1 s) of the cube on its foundation under the turning load."""
    sim = make(scenes.cube_on_foundation(count, modulus), h, max_contacts=count)
    state, wrench = sim.state(), np.zeros((1, 1, 6))
    sim.step(state, wrench=wrench)  # compiles
    start = time.process_time()
    for k in range(round(1.0 / h)):
        arm = foundation.rotation(state.q.numpy()[0, 3:]) @ foundation.load_point(k * h)
        down = np.array([0.0, 0.0, -force])
        wrench[0, 0] = [*np.cross(arm, down), *down]
        state = sim.step(state, wrench=wrench)
        TALLY[0].add(sim.diagnostics)
    return time.process_time() - start, state.q.numpy()[0]


def foundations(quick: bool, elements: int = 100) -> list[dict]:
    """Tables 1 and 2: times and errors, ours and SciPy's, against the reference."""
    cases = [case for case in PAPER if case[0] == elements and not (quick and case[2] > 1e7)]
    rows = []
    for count, force, modulus in cases:
        exact, steps = foundation.reference(count, modulus, force)
        seconds, q = foundation_run(count, modulus, force)
        row = {"elements": count, "load": force, "modulus": modulus, "ours": seconds, "reference steps": steps}
        row["error"], row["relative"] = foundation.error(q, exact)
        if count == 100:
            row["error at 1 ms"] = foundation.error(foundation_run(count, modulus, force, 1e-3)[1], exact)[0]
        for method in ("BDF", "Radau"):
            found = foundation.scipy_run(method, count, modulus, force, limit=10.0 if quick else SCIPY_LIMIT)
            row[method] = None if found is None else (found[0], foundation.error(found[1], exact)[0])
        rows.append(row)
        print(f"foundation {count} {force} N {modulus:g} Pa: {row}", file=sys.stderr, flush=True)
    return rows


def printed_foundations(quick: bool) -> list[dict]:
    """The same by the printed program (eq. 83 to 85), 100 elements, and the reference by DOP853."""
    rows = []
    for force in (5, 50):
        for modulus in (1e7,) if quick else (1e7, 1e11):
            exact = foundation.reference(100, modulus, force)[0]
            seconds, q = foundation_run(100, modulus, force, make=printed)
            row = {"load": force, "modulus": modulus, "seconds": seconds, "error": foundation.error(q, exact)[0]}
            if modulus == 1e7 and not quick:
                tight = {"rtol": 1e-9, "atol": 1e-12, "max_step": np.inf}
                found = foundation.scipy_run("DOP853", 100, modulus, force, limit=10 * SCIPY_LIMIT, **tight)
                row["reference by DOP853"] = None if found is None else foundation.error(found[1], exact)[0]
            rows.append(row)
    return rows


def incline(quick: bool) -> list[dict]:
    """Fig. 9: distance after 1 s beside ½ g (sin − μ cos), and what the box that sticks creeps at."""
    rows = []
    for mu in FRICTIONS:
        row = {"mu": mu, "exact": 0.5 * scenes.GRAVITY * max(0.0, np.sin(TILT) - mu * np.cos(TILT))}
        for h in (0.01, 0.001):
            sim = simulator(scenes.box_on_incline(mu), h)
            trajectory = rollout(sim, sim.state(), round(1.0 / h))
            row[f"h = {h:g}"] = float(trajectory.q.numpy()[-1, 0, 0])
            row[f"speed, h = {h:g}"] = float(trajectory.v.numpy()[-1, 0, 0])
        rows.append(row)
    return rows


def weights(quick: bool) -> list[dict]:
    """The incline by the printed program for weights ζ from 1/h up: x after 1 s and the highest rise of the box."""
    rows = []
    for weight in 10.0 ** np.array([2, 16] if quick else [2, 6, 10, 12, 13, 14, 15, 16]):
        row = {"weight": float(weight)}
        for mu in FRICTIONS[1:]:
            sim = printed(scenes.box_on_incline(mu), 0.01, normal_weight=float(weight))
            q = rollout(sim, sim.state(), 100).q.numpy()[:, 0]
            row[str(mu)] = (float(q[-1, 0]), float(q[:, 2].max() - q[0, 2]))
        rows.append(row)
    return rows


def stacks(quick: bool) -> list[dict]:
    """Fig. 10: 500 steps of 10 ms; time, and whether the stack stands."""
    rows = []
    for count in (10, 20) if quick else (10, 20, 40, 60, 80, 100):
        sim = simulator(scenes.stack_of_spheres(count), 0.01, max_contacts=2 * count)
        state = sim.state()
        sim.rollout(state, steps=2)
        start = time.process_time()
        trajectory = rollout(sim, state, 500)
        seconds = time.process_time() - start
        q, v = trajectory.q.numpy()[-1, 0].reshape(count, 7), trajectory.v.numpy()[-1, 0]
        heights = 0.1 + 0.2 * np.arange(count)
        row = {"spheres": count, "seconds": seconds, "sinks": float((heights - q[:, 2]).max())}
        row |= {"lateral": float(np.abs(q[:, :2]).max()), "speed": float(np.abs(v).max())}
        row["iterations"] = float(trajectory.diagnostics["iterations"].numpy().mean())
        rows.append(row)
    return rows


# Printed forms ---------------------------------------------------------------------------------------------------------


def printed_forms(quick: bool) -> dict:
    """What a check of the paper's programs found; see `literal.py`."""
    errors = literal.printed_error(50 if quick else 200)
    drag, exact = 10.0, literal.hertz_exact()
    steps = [1e-3 / 2**k for k in range(5)]
    hertz = {f"Hertz, {form}: error [m], h = 1 ms / 1 … 16": [literal.hertz(h, form) - exact for h in steps]
             for form in ("printed", "normal", "tangent")}  # fmt: skip
    return hertz | {
        "two stops, minimum norm [N]": literal.two_stops(convex=False).tolist(),
        "two stops, complementarity [N]": literal.two_stops(convex=True).tolist(),
        "one row twice at K = 1e15, Y as printed [N]": literal.same_row_twice("Y").tolist(),
        "one row twice at K = 1e15, symmetric [N]": literal.same_row_twice("symmetric").tolist(),
        "convex form against the LCP, |dλ|/|λ|": [literal.complementarity_error(50)],
        "slider, ζ = 1/h: (height, distance) [m]": [float(x) for x in literal.slide(100.0, 1e8)],
        "slider, ζ = 100 (1 + hB_r/m)²": [float(x) for x in literal.slide(100.0 * (1 + drag) ** 2, drag / 0.01)],
        "d, e as printed: error of λ, median, 90 %, share above 10 %": [
            float(np.median(errors)),
            float(np.quantile(errors, 0.9)),
            float(np.mean(errors > 0.1)),
        ],
    }


# Report ----------------------------------------------------------------------------------------------------------------


def report(found: dict) -> list[str]:
    """The tables of everything found."""
    return [
        *summary(found),
        *pendulum_tables(found),
        *foundation_tables(found),
        *contact_tables(found),
        *printed_tables(found),
    ]


def summary(found: dict) -> list[str]:
    """The machine, and the totals over all parts."""
    tallies = found["tally"].values()
    steps, failures = (sum(tally[key] for tally in tallies) for key in ("steps", "failures"))
    most, worst = (max(tally[key] for tally in tallies) for key in ("most", "worst"))
    return [
        f"{made_on(found['machine'], 'warp-lang', 'warpsim')}, float64.",
        "",
        f"Over all of it: {steps:,} steps of a world, at most {most} factorisations, worst residual "
        f"{worst:.1e}, {failures} flags.",
        "",
    ]


def pendulum_tables(found: dict) -> list[str]:
    """Pendulums, thrown bodies, and the stop."""
    lines = ["## Pendulum: largest distance from the joint in 1 s, K = 1e15, B = 1", ""]
    rows = [(f"{r['h']:g}", f"{r['ours']:.2e}", f"{r['printed']:.2e}") for r in found["deviation"]]
    lines += table(["h [s]", "ours [m]", "as printed [m]"], rows)
    h = 0.1
    lines += [f"## Pendulum: energy over 20 s, h = {h:g}, K = 1e15", ""]
    for name, energy in found["energy"].items():
        energy = np.asarray(energy)
        end = blow_up(energy, h)
        what = (
            f"passes 2 m g at {end:.1f} s"
            if np.isfinite(end)
            else f"at most {energy.max():.2f} J, at the end {energy[-1]:.2f} J"
        )
        lines.append(f"- {name}: {what}")
    lines += ["", "## Pendulum: highest energy [J], 0 at the start", ""]
    rows = [(f"{r['h']:g}", f"{r['K']:g}", f"{r['first']:.3g}", f"{r['later']:.3g}") for r in found["stability"]]
    lines += table(["h [s]", "K [N/m]", "0 to 2 s", "2 to 20 s"], rows)
    lines += ["## Thrown bodies: largest rise of the energy, K = 1 … 1e15", ""]
    rows = [(r["body"], f"{r['h']:g}", f"{r['seconds']:g}", f"{r['rise']:.1e}") for r in found["thrown"]]
    lines += table(["body", "h [s]", "span [s]", "rise [J]"], rows)
    lines += ["## Pendulum with a stop, K = 1e12, B = 0: speed after over before", ""]
    rows = [(f"{r['h']:g}", f"{r['ours']:.4f}", f"{r['by hand']:.4f}") for r in found["stop"]]
    lines += table(["h [s]", "ours", "eq. 83 by hand"], rows)
    return lines


def foundation_tables(found: dict) -> list[str]:
    """Times and errors of the cube on its bed."""
    beds = found["foundation 100"] + found["foundation 900"]
    lines = ["## Cube on an elastic foundation, 1 s, h = 0.01: CPU seconds", ""]
    rows = []
    for r in beds:
        key = (r["elements"], r["load"], r["modulus"])
        scipy = [f"{r[m][0]:.2f}" if r[m] else f"> {SCIPY_LIMIT:g}" for m in ("BDF", "Radau")]
        rows.append((*key[:2], f"{key[2]:g}", f"{r['ours']:.2f}", *scipy, *PAPER[key][0]))
    heads = ["elements", "load N", "E Pa", "ours", "BDF", "Radau", "paper", "paper, ode15s", "paper, ode45"]
    lines += table(heads, rows)
    lines += ["## The same: error of position and orientation", ""]
    rows = []
    for r in beds:
        key = (r["elements"], r["load"], r["modulus"])
        scipy = [f"{r[m][1]:.1e}" if r[m] else "stopped" for m in ("BDF", "Radau")]
        finer = f"{r['error at 1 ms']:.1e}" if "error at 1 ms" in r else "–"
        rows.append((*key[:2], f"{key[2]:g}", f"{r['error']:.1e}", finer, *scipy, f"{PAPER[key][1]:.1e}"))
    lines += table(["elements", "load N", "E Pa", "ours", "ours, h = 1 ms", "BDF", "Radau", "paper"], rows)
    return lines


def contact_tables(found: dict) -> list[str]:
    """The incline and the stacks."""
    lines = ["## Box on an incline of 15°: x after 1 s", ""]
    rows = [
        (r["mu"], f"{r['exact']:.6f}", f"{r['h = 0.01']:.6g}", f"{r['h = 0.001']:.6g}", f"{r['speed, h = 0.01']:.2g}")
        for r in found["incline"]
    ]
    lines += table(["μ", "Coulomb [m]", "h = 0.01", "h = 0.001", "last speed, h = 0.01 [m/s]"], rows)
    lines += ["## Stacks of spheres, 500 steps of 10 ms", ""]
    rows = [
        (
            r["spheres"],
            f"{r['seconds']:.2f}",
            f"{r['iterations']:.1f}",
            f"{r['sinks']:.1e}",
            f"{r['lateral']:.1e}",
            f"{r['speed']:.1e}",
        )
        for r in found["stack"]
    ]
    lines += table(
        ["spheres", "seconds", "mean factorisations", "deepest [m]", "lateral [m]", "last speed [m/s]"], rows
    )
    return lines


def printed_tables(found: dict) -> list[str]:
    """What the paper's own programs give."""
    lines = ["## The same by the printed program, 100 elements", ""]
    rows = [(r["load"], f"{r['modulus']:g}", f"{r['seconds']:.2f}", f"{r['error']:.1e}",
             f"{r['reference by DOP853']:.1e}" if r.get("reference by DOP853") is not None else "–")
            for r in found["printed foundation"]]  # fmt: skip
    lines += table(["load N", "E Pa", "seconds", "error", "reference, RK4 against DOP853"], rows)
    lines += ["## Incline by the printed program, B_t = 1e6/h: x after 1 s and highest rise [m]", ""]
    rows = [(f"{r['weight']:g}", *(f"{x:.4f}, {rise:.1e}" for x, rise in (r[str(mu)] for mu in FRICTIONS[1:])))
            for r in found["weights"]]  # fmt: skip
    lines += table(["ζ", *(f"μ = {mu}" for mu in FRICTIONS[1:])], rows)
    lines += ["## The printed programs", ""]
    lines += [f"- {what}: " + ", ".join(f"{x:.4g}" for x in values) for what, values in found["printed"].items()]
    return lines


def figure(path: pathlib.Path, found: dict) -> None:
    """Energy of the pendulum, restitution at the stop, incline, time of the stack."""
    import_or_explain("matplotlib", "show").use("Agg")
    import matplotlib.pyplot as plt

    axes = plt.subplots(1, 4, figsize=(13, 2.8), layout="constrained")[1]
    for name, energy in found["energy"].items():
        energy = np.clip(np.asarray(energy), -30.0, 30.0)
        axes[0].plot(0.1 * np.arange(len(energy)), energy, lw=0.8, label=name)
    axes[0].set(title="pendulum, h = 0.1, K = 1e15", xlabel="t [s]", ylabel="E [J]")
    axes[0].legend(fontsize=6)
    axes[1].semilogx([r["h"] for r in found["stop"]], [r["ours"] for r in found["stop"]], "o-")
    axes[1].set(title="stop, K = 1e12", xlabel="h [s]", ylabel="speed after / before")
    axes[2].plot(FRICTIONS, [r["exact"] for r in found["incline"]], "k-", lw=0.8, label="Coulomb")
    axes[2].plot(FRICTIONS, [r["h = 0.01"] for r in found["incline"]], "o", label="h = 0.01")
    axes[2].set(title="incline", xlabel="μ", ylabel="x(1 s) [m]")
    axes[2].legend(fontsize=6)
    axes[3].loglog([r["spheres"] for r in found["stack"]], [r["seconds"] for r in found["stack"]], "o-")
    axes[3].set(title="stack, 500 steps", xlabel="spheres", ylabel="s")
    plt.savefig(path, dpi=90)


PARTS = {
    "deviation": pendulum_deviations,
    "energy": pendulum_energies,
    "stability": pendulum_stability,
    "thrown": thrown_stability,
    "stop": stop_restitution,
    "incline": incline,
    "stack": stacks,
    "weights": weights,
    "printed": printed_forms,
    "printed foundation": printed_foundations,
    "foundation 100": foundations,
    "foundation 900": functools.partial(foundations, elements=900),
}


def earlier(file: pathlib.Path, parser: argparse.ArgumentParser) -> dict:
    """The parts that an earlier call has left in --out; an error of the command where the file is none of its tables."""
    try:
        found = json.loads(file.read_text())
        if not set(found) - {"machine", "tally"} <= set(PARTS) or not isinstance(found["tally"], dict):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        parser.error(f"argument --out: {file} is no table of these parts; move it away, or give another folder")
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small cases, in a minute")
    parser.add_argument("--parts", default=",".join(PARTS), help="which, comma between; the others are read from --out")
    parser.add_argument(
        "--out", type=functools.partial(results_folder, "ccs"), help="folder for tables.md and tables.json"
    )
    parser.add_argument("--plot", type=pathlib.Path, help="PNG of the figures")
    arguments = parser.parse_args()
    chosen = arguments.parts.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--parts: no part is called {sorted(unknown)}; choose from {list(PARTS)}")
    wp.config.log_level = wp.LOG_WARNING
    file = arguments.out / "tables.json" if arguments.out else None
    found = earlier(file, parser) if file and file.is_file() else {"tally": {}}
    found["machine"] = machine(wp.get_device("cpu"))
    for name in chosen:
        start, TALLY[:] = time.process_time(), [Tally()]
        found[name] = PARTS[name](arguments.quick)
        found["tally"][name] = vars(TALLY[0])
        print(f"{name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
        if file:
            with replacing(file) as new:
                new.write_text(json.dumps(found, indent=1, default=float) + "\n")
    if missing := [name for name in PARTS if name not in found]:
        print(f"not run yet: {', '.join(missing)}", file=sys.stderr)
        return 0
    lines = report(found)
    print("\n".join(lines))
    if arguments.out:
        (arguments.out / "tables.md").write_text("\n".join(lines) + "\n")
    if arguments.plot:
        figure(arguments.plot, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
