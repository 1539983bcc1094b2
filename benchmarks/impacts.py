# SPDX-License-Identifier: Apache-2.0
"""Impacts inside a step: whether slopes through impacts are those of the motion, and what impacts conserve.

    python -m benchmarks.impacts [--scenes NAME …] [--steps 10 5 2.5] [--rule off on] [--quick] [--tape] [--write FILE]

"rule on" is `time_of_impact=True`, "rule off" is False ("today" in the second table). Every scene of `impact_scenes` has
24 starts, in float64, as worlds of one simulator. Slopes are derivatives of the outcome with respect to the parameters of
the start, by central differences of the steps (1e-5 of a parameter's range), with `--tape` by the tape as well. The true
slope is a formula's if there is one, else that of fine steps with the rule on, extrapolated from 1 and 0.5 ms. Coarse
differences (`COARSE` of the range) with the rule off at 0.25 ms check it; a component that two estimates disagree about is
left out ("unsure"). `--keep FOLDER` keeps the runs at 0.25 ms for the next time.

Columns: slope over true slope, quantiles over starts and components; cosine between the gradient and the true one, its 10 %
quantile over starts; share of the components above a tenth of their start's largest that are within 15 %; absolute error of
the slope of the first outcome by the first parameter, 95 % quantile; error of the outcome [m, rad]; impacts per motion,
most in a step; flags.

Invariants: restitution, energy, momentum, and scenes without impacts that keep their bits.
"""

import argparse
import dataclasses
import pathlib
import sys
import time
import warnings
import zlib

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks import impact_invariants
from benchmarks.impact_scenes import SCENES, Scene
from warpsim.tools.bench import machine

STARTS = 24
FINE, COARSE, SMALL_FORMULA = 1e-5, (0.1, 0.02, 0.01), 1e-6  # differences, of the range
REFERENCE = (5e-4, 1e-3)  # [s] fine steps with the rule on
TODAY = 2.5e-4  # [s] fine steps of today's rule
HALF = False  # --half: the velocity of a start is that of its time, not of half a step before
LAWS = {
    "SAP": lambda: ws.SAP(tolerance=1e-12),
    "convex": lambda: ws.SAP(tolerance=1e-12, approximation="convex"),
    "LCP": lambda: ws.LCP(),
}


# ---- runs -----------------------------------------------------------------------------------------------------------


def make(model: ws.Model, worlds: int, dt: float, law: str, rule: str, **options) -> ws.Simulator:
    impacts = {"time_of_impact": rule == "on"}
    options = {"dtype": "float64", "device": "cpu", "threads": 1} | impacts | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ws.Simulator(model, worlds, dt, solver=LAWS[law](), **options)


def count_impacts(sim: ws.Simulator) -> np.ndarray:
    """Of each world in the last step."""
    return sim.diagnostics.impacts.numpy()


class Counter:
    """Counts impacts while a rollout runs."""

    def __init__(self, sim):
        self.sim, self.total, self.most = sim, np.zeros(sim.worlds, int), 0

    def __call__(self, step) -> None:
        now = count_impacts(self.sim)
        self.total += now
        self.most = max(self.most, int(now.max()))


@dataclasses.dataclass
class Run:
    outcome: np.ndarray  # (B, k)
    impacts: float  # per world
    most: int  # in a step
    flags: int


def run(scene: Scene, p: np.ndarray, dt: float, law: str, rule: str, counts: bool = False) -> Run:
    given = scene.start(p)
    sim = make(scene.model, len(p), dt, law, rule)
    for name in given.keys() - {"q", "v", "controls"}:
        sim.parameters[name].assign(given[name])
    steps = round(scene.duration / dt)
    controls = controls_of(scene, given, steps)
    counter = Counter(sim) if counts and rule == "on" else None
    state = sim.state(q=given["q"], v=given["v"])
    if HALF:  # symplectic Euler's v is leapfrog's half a step before
        today_law = "LCP" if scene.has_restitution else law
        today = sim if rule == "off" else make(scene.model, len(p), dt, today_law, "off")
        after = today.step(today.state(q=given["q"], v=given["v"]), None if controls is None else controls[0]).v.numpy()
        state = sim.state(q=given["q"], v=1.5 * given["v"] - 0.5 * after)
    found = sim.rollout(state, controls, steps, every=steps, progress=counter)
    flags = int(np.bitwise_or.reduce(found.diagnostics["flags"].numpy()[-1]))
    told = (float(counter.total.mean()), counter.most) if counter else (0.0, 0)
    return Run(scene.outcome(found.q.numpy()[-1]), *told, flags)


def controls_of(scene: Scene, given: dict, steps: int) -> np.ndarray | None:
    if "controls" not in given:
        return None
    return given["controls"] * acting(scene, steps)[:, None, None]


def acting(scene: Scene, steps: int) -> np.ndarray:
    """Whether the controls have begun at each step."""
    return np.arange(steps) * scene.duration / steps >= scene.onset - 1e-9


def moved(scene: Scene, p: np.ndarray, share: float) -> np.ndarray:
    """Starts (1 + 2 n, B, n): p, then every parameter to either side by `share` of its range."""
    step = share * np.diag(scene.widths)
    return np.stack([p, *(p + sign * row for row in step for sign in (1, -1))])


def differences(outcomes: np.ndarray, share: float) -> np.ndarray:
    """(B, k, n) [per range] of the outcomes (1 + 2 n, B, k) of `moved`."""
    return np.stack([(a - b) / (2 * share) for a, b in zip(outcomes[1::2], outcomes[2::2], strict=True)], axis=-1)


@dataclasses.dataclass
class Slopes:
    """Outcome (B, k) of the starts, and its derivative (B, k, n) per range of the parameters: by small differences and
    by coarse ones of each width."""

    outcome: np.ndarray
    small: np.ndarray
    coarse: list[np.ndarray]
    run: Run


def slopes(scene: Scene, p: np.ndarray, dt: float, law: str, rule: str, coarse: tuple = ()) -> Slopes:
    shares = (FINE, *coarse)
    starts = [moved(scene, p, share) for share in shares]
    found = run(scene, np.concatenate(starts).reshape(-1, p.shape[1]), dt, law, rule, counts=not coarse)
    outcomes = found.outcome.reshape(len(shares), -1, len(p), found.outcome.shape[1])
    result = [differences(x, share) for x, share in zip(outcomes, shares, strict=True)]
    return Slopes(outcomes[0, 0], result[0], result[1:], found)


def tape_slopes(scene: Scene, p: np.ndarray, dt: float, law: str, rule: str) -> np.ndarray:
    """(B, k, n) [per range] by the tape."""
    given = scene.start(p)
    sim = make(scene.model, len(p), dt, law, rule, requires_grad=True)
    leaves = {}
    for name in given.keys() - {"q", "v", "controls"}:
        leaves[name] = sim.parameters[name]
        leaves[name].assign(given[name])
    steps = round(scene.duration / dt)
    table = controls_of(scene, given, steps)
    controls = None if table is None else wp.array(table, dtype=wp.float64, device="cpu", requires_grad=True)
    state = sim.state(q=given["q"], v=given["v"])
    leaves |= {"q": state.q, "v": state.v} | ({} if table is None else {"controls": controls})
    with wp.Tape() as tape:
        rows = sim.rollout(state, controls, steps)
    q = rows.q.numpy()
    directions = [2 * FINE * row for row in np.diag(scene.widths)]
    sides = [[scene.start(p + sign * d) for sign in (0.5, -0.5)] for d in directions]
    result = []
    for weight in outcome_rates(scene, q[-1]):
        tape.zero()
        for leaf in leaves.values():  # a tape does not know a simulator's parameters
            leaf.grad.zero_()
        seed = np.zeros_like(q)
        seed[-1] = weight
        tape.backward(grads={rows.q: wp.array(seed, dtype=wp.float64, device="cpu")})
        gradient = {name: leaf.grad.numpy() for name, leaf in leaves.items()}
        if table is not None:
            gradient["controls"] = gradient["controls"][acting(scene, steps)].sum(axis=0)
        columns = []
        for a, b in sides:
            parts = [(gradient[n] * (a[n] - b[n])).reshape(len(p), -1).sum(axis=1) for n in leaves]
            columns.append(sum(parts) / (2 * FINE))
        result.append(np.stack(columns, axis=1))
    return np.stack(result, axis=1)


def outcome_rates(scene: Scene, q: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """(k, B, nq): derivative of the outcome by q."""
    columns = [(scene.outcome(q + step * e) - scene.outcome(q - step * e)) / (2 * step) for e in np.eye(q.shape[1])]
    return np.stack(columns, axis=-1).transpose(1, 0, 2)


# ---- the truth ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Truth:
    """Outcome, slopes and which components are sure; `agreement`: coarse differences of today's rule over the slopes."""

    outcome: np.ndarray
    slopes: np.ndarray
    sure: np.ndarray
    agreement: dict[str, np.ndarray]
    text: str


def large(slope: np.ndarray) -> np.ndarray:
    """Components above a tenth of the largest of their start."""
    return np.abs(slope) > 0.1 * np.abs(slope).max(axis=(1, 2), keepdims=True)


def columns(slope: np.ndarray) -> np.ndarray:
    """Components of columns above 2 % of the largest in the median, without those far below their column's median."""
    size, whole = np.abs(slope), np.abs(slope).max(axis=(1, 2), keepdims=True)
    middle = np.median(size, axis=0)
    return (size > 0.05 * middle) & (np.median(size / whole, axis=0) > 0.02)


def near(a: np.ndarray, b: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Whether a and b differ by less than that share of the larger of |b| and a tenth of the start's largest."""
    return np.abs(a - b) <= share * np.maximum(np.abs(b), np.abs(b).max(axis=(1, 2), keepdims=True) / 10)


def kept(folder: pathlib.Path | None, name: str, compute):
    """The arrays of `compute()`, from the folder if they are there."""
    path = None if folder is None else folder / f"{name}.npz"
    if path is not None and path.exists():
        with np.load(path) as file:
            return [file[key] for key in file.files]
    arrays = compute()
    if path is not None:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, *arrays)
    return arrays


def truth(scene: Scene, name: str, p: np.ndarray, law: str, today_law: str, folder) -> Truth:
    def today():
        found = slopes(scene, p, TODAY, today_law, "off", COARSE[:1])
        return found.outcome, found.coarse[0]

    given = b"".join(x.tobytes() for x in scene.start(p).values())
    label = f"{name}-{today_law}-{zlib.crc32(given)}-{scene.duration}"
    x_today, today_coarse = kept(folder, label, today)
    fine = None
    try:
        a, b = (slopes(scene, p, dt, law, "on", COARSE) for dt in REFERENCE)
        small = np.where(near(a.small, b.small), 2 * a.small - b.small, a.small)
        fine = 2 * a.outcome - b.outcome, small, *a.coarse
    except Exception as error:
        print(f"no reference with the rule on: {error}")
    if scene.exact:
        grid = moved(scene, p, SMALL_FORMULA).reshape(-1, p.shape[1])
        outcomes = scene.exact(grid).reshape(-1, *x_today.shape)
        slope = differences(outcomes, SMALL_FORMULA)
        outcome, sure, text = outcomes[0], np.ones(slope.shape, bool), "formula"
    elif fine is None:
        outcome, slope, sure, text = x_today, today_coarse, np.ones(today_coarse.shape, bool), "today, coarse"
    else:
        outcome, small, wide, middle, narrow = fine
        smooth = near(small, narrow)
        sure = near(today_coarse, wide, 0.15) & (smooth | near(middle, narrow))
        slope, share = np.where(smooth, small, narrow), np.mean(~smooth[sure & large(narrow)])
        text = f"rule on, fine; coarse {share:.0%}"
    agreement = {"today, coarse": ratio(today_coarse, slope, large(slope))}
    if fine is not None:
        agreement["on, small"] = ratio(fine[1], slope, large(slope))
        agreement["on, coarse"] = ratio(fine[4], slope, large(slope))
        agreement["today/on at one width"] = ratio(today_coarse, fine[2], large(fine[2]))
    return Truth(outcome, slope, sure, agreement, text)


def ratio(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> np.ndarray:
    return a[where] / b[where]


def spread(values: np.ndarray, form: str = ".3g") -> str:
    return " ".join(format(x, form) for x in np.quantile(values, [0.05, 0.5, 0.95])) if len(values) else "–"


# ---- tables ---------------------------------------------------------------------------------------------------------

HEAD = ("scene", "law", "rule", "ms", "slope/true 5 50 95 %", "cos 10 %", "within 15 %", "abs. error 95 %")
HEAD += ("outcome: median", "max", "impacts", "in a step", "flags")


def row(
    scene: Scene, name: str, truth: Truth, law: str, rule: str, dt: float, found: Slopes, slope, tag: str = ""
) -> list:
    used = large(truth.slopes) & truth.sure
    r = ratio(slope, truth.slopes, columns(truth.slopes) & truth.sure)
    good = np.abs(ratio(slope, truth.slopes, used) - 1) < 0.15
    dot = (slope * truth.slopes).sum(axis=(1, 2))
    norms = [np.sqrt((x**2).sum(axis=(1, 2))) + 1e-300 for x in (slope, truth.slopes)]
    whole = (truth.sure | ~large(truth.slopes)).all(axis=(1, 2))  # starts without a component that is unsure
    cos = (dot / norms[0] / norms[1])[whole]
    error = np.abs(found.outcome - truth.outcome).max(axis=1)
    first = np.abs(slope - truth.slopes)[:, 0, 0] / scene.widths[0]
    return [
        name, law, rule + tag, f"{1e3 * dt:g}", spread(r, ".3f"), f"{np.quantile(cos, 0.1):.4f}" if len(cos) else "–",
        f"{np.mean(good):.0%}" if len(good) else "–", f"{np.quantile(first, 0.95):.3f}",
        f"{np.median(error):.2g}", f"{error.max():.2g}", f"{found.run.impacts:.2f}", found.run.most, found.run.flags,
    ]  # fmt: skip


def table(head, rows) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(x) for x in line) + " |" for line in lines)


def forward_errors(rows: list) -> str:
    """Median error of the outcome of each scene and law without the rule and with it, and their ratio at the shortest step."""
    off = {(row[0], row[1], row[3]): row[8] for row in rows if row[2] == "off"}
    on = {(row[0], row[1], row[3]): row[8] for row in rows if row[2] == "on"}
    steps = list(dict.fromkeys(row[3] for row in rows))
    lines = []
    for scene, law in dict.fromkeys(key[:2] for key in on):
        without = law if (scene, law, steps[0]) in off else "LCP"  # with restitution
        pairs = [(off.get((scene, without, ms), "–"), on[scene, law, ms]) for ms in steps]
        try:
            ratio = f"{float(pairs[-1][1]) / float(pairs[-1][0]):.2g}"
        except ValueError:
            ratio = "–"
        lines.append([scene, law, *(f"{a} → {b}" for a, b in pairs), ratio])
    return table(("scene", "law", *(f"{ms} ms" for ms in steps), f"ratio at {steps[-1]} ms"), lines)


def measure_scene(name: str, arguments) -> tuple[list, list]:
    """Rows of the table of slopes, and of that of the references."""
    scene = SCENES[name]()
    p = scene.starts(arguments.starts)
    rows, told = [], []
    for law in arguments.laws:
        today_law = "LCP" if scene.has_restitution else law
        true = truth(scene, name, p, law, today_law, arguments.keep)
        agreement = [f"{k}: {spread(v)}" for k, v in true.agreement.items()]
        told.append([name, law, true.text, f"{(~true.sure & large(true.slopes)).sum()} of {large(true.slopes).sum()}"])
        told[-1].append("; ".join(agreement))
        for rule in arguments.rule:
            for ms in arguments.steps:
                used = today_law if rule == "off" else law
                try:
                    found = slopes(scene, p, 1e-3 * ms, used, rule)
                    rows.append(row(scene, name, true, used, rule, 1e-3 * ms, found, found.small))
                    if arguments.tape:
                        taped = tape_slopes(scene, p, 1e-3 * ms, used, rule)
                        far = np.abs(taped - found.small) / np.abs(found.small).max(axis=(1, 2), keepdims=True)
                        tag = f", tape (differences: {np.quantile(far, 0.95):.0e} {far.max():.0e})"
                        rows.append(row(scene, name, true, used, rule, 1e-3 * ms, found, taped, tag))
                except Exception as error:
                    rows.append([name, used, rule, f"{ms:g}", f"{type(error).__name__}: {str(error)[:100]}"])
                    rows[-1] += [""] * (len(HEAD) - len(rows[-1]))
    return rows, told


# ---- invariants -----------------------------------------------------------------------------------------------------


def motion(model: ws.Model, start: dict, dt: float, steps: int, rule: str, law: str = "SAP", **options) -> tuple:
    """(q, v, simulator) of every step; without the rule restitution is LCP's."""
    law = "LCP" if rule == "off" and model.geom_restitution.any() else law
    sim = make(model, len(start["q"]), dt, law, rule, **options)
    found = sim.rollout(sim.state(q=start["q"], v=start["v"]), steps=steps)
    return found.q.numpy(), found.v.numpy(), sim


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", nargs="*", default=list(SCENES), choices=[*SCENES])
    parser.add_argument("--steps", nargs="+", type=float, default=[10.0, 5.0, 2.5], help="[ms]")
    parser.add_argument("--rule", nargs="+", default=["off", "on"], choices=["off", "on"])
    parser.add_argument("--laws", nargs="+", default=["SAP"], choices=list(LAWS))
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--tape", action="store_true")
    parser.add_argument("--quick", action="store_true", help="8 starts, 5 ms")
    parser.add_argument("--only", choices=["slopes", "invariants"])
    parser.add_argument("--half", action="store_true", help="start with the velocity of half a step before")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.starts, arguments.steps = 8, [5.0]
    global HALF
    HALF = arguments.half
    slopes_table, references = [], []
    for name in arguments.scenes if arguments.only != "invariants" else ():
        began = time.perf_counter()
        rows, told = measure_scene(name, arguments)
        slopes_table += rows
        references += told
        print(
            table(HEAD, rows) + "\n" + "; ".join(map(str, told)) + f"  [{time.perf_counter() - began:.0f} s]\n",
            flush=True,
        )
    head = ("scene", "law", "truth", "unsure", "agreement of estimates, 5 50 95 %")
    about = machine(wp.get_device("cpu"))
    parts = [
        f"{about['date']}, {about['processor']}, CPU, one thread, float64; warpsim {about['versions']['warpsim']}."
    ]
    if slopes_table:
        parts += [table(HEAD, slopes_table), table(head, references)]
        parts += ["Median error of the outcome [m, rad], without the rule → with it:", forward_errors(slopes_table)]
    if arguments.only != "slopes":
        parts.append(table(impact_invariants.HEAD, impact_invariants.measure(motion, arguments.steps)))
    text = "\n\n".join(parts)
    print(text)
    if arguments.write:
        arguments.write.write_text(f"# Impacts inside a step\n\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
