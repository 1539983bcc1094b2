# SPDX-License-Identifier: Apache-2.0
"""Whether gradients through impacts matter: identification from throws, and open-loop search for a throw and a hop, with
`time_of_impact` and without it, and by CMA-ES at equal numbers of steps.

    python -m benchmarks.impact_searches [--parts identify throw hop] [--seeds 16] [--out benchmarks/results] [--tune]

`identify`: a thrown ball hits a slower one in the air and then bounces and slips on the floor; `ws.identify` finds its mass, friction and
restitution from both balls' positions, recorded every 10 ms with noise of 1 mm. The recordings are the motion at steps of 0.25
ms with the rule on. A row by CMA-ES (400 rollouts) says what the same steps find without gradients. `throw`: velocity and spin of a ball that bounces once and shall be at a target after 0.8 s. `hop`: torques of
the hopper, by knots, for the hop of `examples/hop.py`. One seed is one world: its unknown parameters, its first guess, its noise.
Rates of Adam and widths of CMA-ES were chosen by `--tune`, on seeds from 100 on, for each method by itself; the seeds shown are 0, 1, …
CMA-ES needs cma (`pip install cma`). With restitution the law without the rule is `ws.LCP()`, the only one that has it there.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.impact_scenes import GRAVITY, free_body, hopper
from benchmarks.impacts import table
from examples import hop as hopping
from warpsim.tools.bench import machine

FIRST_TUNING_SEED = 100
FINE = 2.5e-4  # [s] steps of the true motion


@dataclasses.dataclass
class Method:
    """A way to step: a law, with the rule or without."""

    title: str
    timed: bool
    solver: object

    def simulator(self, model: ws.Model, worlds: int, dt: float, **options) -> ws.Simulator:
        options["time_of_impact"] = self.timed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ws.Simulator(
                model, worlds, dt, solver=self.solver, dtype="float64", device="cpu", threads=1, **options
            )


TIMED = Method("on, SAP", True, ws.SAP(tolerance=1e-10))
TIMED_LCP = Method("on, LCP", True, ws.LCP())
LCP = Method("off, LCP", False, ws.LCP())
SAP = Method("off, SAP", False, ws.SAP(tolerance=1e-10))


def half_step_before(v: np.ndarray, dt: float, up: list[int]) -> np.ndarray:
    """Velocities that symplectic Euler starts with to follow a fall: those of half a step before."""
    v = v.copy()
    v[:, up] += 0.5 * GRAVITY * dt
    return v


def quartiles(x: np.ndarray, form: str = ".2g") -> str:
    low, middle, high = np.nanquantile(x, [0.25, 0.5, 0.75])
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


# ---- identification -------------------------------------------------------------------------------------------------

KNOT, KNOTS, NOISE = 0.01, 80, 1e-3  # [s], number, [m]
UNKNOWN = {"body_mass": (0.5, 2.0), "geom_friction": (0.08, 0.25), "geom_restitution": (0.5, 0.9)}


def balls() -> ws.Model:
    """A floor and a plastic ball of 1 kg, both of friction 0.2, and a ball whose mass and material are unknown."""
    b = ws.ModelBuilder("balls", timestep=KNOT)
    b.add_geom("plane", friction=0.2)
    free_body(b, "known", "sphere", [0.1], 1.0, [0.6, 0, 0.44], friction=0.2)
    free_body(b, "unknown", "sphere", [0.1], 1.0, [0, 0, 0.44], friction=0.15, restitution=0.7)
    return b.build()


def drawn(rng: np.random.Generator) -> dict[str, float]:
    return {name: low * (high / low) ** rng.random() for name, (low, high) in UNKNOWN.items()}


@dataclasses.dataclass
class Throws:
    """A world per seed: start, true and guessed parameters, noise of the recording."""

    q: np.ndarray
    v: np.ndarray
    true: list[dict]
    guess: list[dict]
    noise: np.ndarray

    @classmethod
    def of(cls, model: ws.Model, seeds) -> "Throws":
        rngs = [np.random.default_rng(seed) for seed in seeds]
        q, v = np.tile(model.q0, (len(rngs), 1)), np.zeros((len(rngs), model.nv))
        for w, rng in enumerate(rngs):
            q[w, 9] = rng.uniform(0.4, 0.48)  # all in a plane, where LCP's pyramid is Coulomb's cone
            v[w, 0], v[w, 6], v[w, 10] = 2.0, rng.uniform(4.5, 5.5), rng.uniform(-40.0, -20.0)
        true, guess = [drawn(rng) for rng in rngs], [drawn(rng) for rng in rngs]
        return cls(q, v, true, guess, NOISE * np.stack([rng.normal(size=(KNOTS + 1, 6)) for rng in rngs], axis=1))


PLACES = [0, 1, 2, 7, 8, 9]  # coordinates of both centers


def place_of(model: ws.Model, name: str) -> int:
    return (model.body if name == "body_mass" else model.geom)("unknown")


def set_parameters(sim: ws.Simulator, given: list[dict]) -> None:
    for name in UNKNOWN:
        values = np.tile(getattr(sim.model, name).astype(float), (len(given), 1))
        values[:, place_of(sim.model, name)] = [row[name] for row in given]
        sim.parameters[name].assign(values)


def start_of(throws: Throws, sim: ws.Simulator, dt: float) -> ws.State:
    return sim.state(q=throws.q, v=half_step_before(throws.v, dt, [2, 8]))


def record(model: ws.Model, throws: Throws, method: Method = TIMED, dt: float = FINE) -> np.ndarray:
    """Positions (knots + 1, worlds, 6) of the true motion."""
    sim, every = method.simulator(model, len(throws.q), dt), round(KNOT / dt)
    set_parameters(sim, throws.true)
    motion = sim.rollout(start_of(throws, sim, dt), steps=KNOTS * every, every=every)
    return motion.q.numpy()[..., PLACES]


def identify(seeds: int, steps) -> tuple[list, dict]:
    model = balls()
    throws = Throws.of(model, range(seeds))
    motion = record(model, throws)
    other = record(model, throws, LCP, 5e-5)
    apart = np.abs(other - motion).max(axis=(0, 2))
    seen = motion + throws.noise
    rows = []
    told = {"recordings, rule on at 0.25 ms and LCP without it at 0.05 ms, apart [m]": quartiles(apart)}
    true = np.array([[row[name] for name in UNKNOWN] for row in throws.true])
    for dt in steps:
        for method, fit in ((LCP, by_gradients), (LCP, by_samples), (TIMED_LCP, by_gradients), (TIMED, by_gradients)):
            begun = time.process_time()
            values, cost, needed = fit(model, throws, seen, method, dt)
            cpu, errors = time.process_time() - begun, np.abs(values / true - 1)
            rms, good = np.sqrt(2 * cost / (6 * KNOTS)), np.mean(errors.max(axis=1) < 0.02)
            title = method.title + ("" if fit is by_gradients else ", CMA-ES")
            rows.append([f"{1e3 * dt:g}", title, *(quartiles(100 * e) for e in errors.T), f"{good:.0%}"])
            rows[-1] += [quartiles(rms), quartiles(needed, ".0f"), f"{cpu:.0f}"]
            print(rows[-1], flush=True)
    guesses = np.abs(np.array([[row[name] for name in UNKNOWN] for row in throws.guess]) / true - 1)
    told["first guesses"] = ", ".join(f"{n} {quartiles(100 * e)} %" for n, e in zip(UNKNOWN, guesses.T, strict=True))
    return rows, told


def by_gradients(model: ws.Model, throws: Throws, seen: np.ndarray, method: Method, dt: float):
    """Parameters (worlds, 3), costs, and iterations until the cost is within 1 % of the last, by `ws.identify`."""
    sim = method.simulator(model, len(throws.q), KNOT, requires_grad=True)
    set_parameters(sim, throws.guess)
    controls = np.zeros((KNOTS, len(throws.q), 0))
    found = ws.identify(
        sim, start_of(throws, sim, dt), controls, lambda q, v: (q[..., PLACES] - seen) / NOISE,
        {name: ["unknown"] for name in UNKNOWN}, substeps=round(KNOT / dt), iterations=40,
    )  # fmt: skip
    values = np.stack([found.parameters[name][:, place_of(model, name)] for name in UNKNOWN], axis=1)
    return values, found.cost, (np.array(found.history) > 1.01 * found.cost).sum(axis=0)


def by_samples(model: ws.Model, throws: Throws, seen: np.ndarray, method: Method, dt: float, rollouts: int = 400):
    """The same by CMA-ES in the logarithms, within twice the ranges; rollouts in place of iterations."""
    sims, worlds, every = {}, len(throws.q), round(KNOT / dt)

    def losses(x: np.ndarray) -> np.ndarray:
        sim = sims.setdefault(len(x), None) or method.simulator(model, len(x) * worlds, dt)
        sims[len(x)] = sim
        values = np.exp(x.reshape(-1, 3))
        values[:, 2] = np.minimum(values[:, 2], 1.0)
        set_parameters(sim, [dict(zip(UNKNOWN, row, strict=True)) for row in values])
        wide = dataclasses.replace(throws, q=np.tile(throws.q, (len(x), 1)), v=np.tile(throws.v, (len(x), 1)))
        motion = sim.rollout(start_of(wide, sim, dt), steps=KNOTS * every, every=every).q.numpy()
        r = (motion.reshape(KNOTS + 1, len(x), worlds, -1)[..., PLACES] - seen[:, None]) / NOISE
        return 0.5 * (r**2).sum(axis=(0, 3))

    x = np.log([[row[name] for name in UNKNOWN] for row in throws.guess])
    low, high = np.log(np.array(list(UNKNOWN.values())).T * [[0.5], [2.0]])
    history, best = cma_es(losses, x, 0.3, rollouts, range(worlds), list(low), list(high))
    values = np.exp(best)
    values[:, 2] = np.minimum(values[:, 2], 1.0)
    return values, history[-1], (history > 1.01 * history[-1]).sum(axis=0)


IDENTIFY_HEAD = ("ms", "rule, law", "mass: error [%]", "friction [%]", "restitution [%]", "all within 2 %")
IDENTIFY_HEAD += ("residual, in units of the noise", "iterations or rollouts", "CPU s")


# ---- search ---------------------------------------------------------------------------------------------------------


def adam(evaluate, x: np.ndarray, rate: float, iterations: int, low=-np.inf, high=np.inf, longest=None):
    """Best losses (iterations, B) so far, and the best x (B, n); the rate falls linearly to a tenth."""
    mean, square = np.zeros_like(x), np.zeros_like(x)
    best, best_loss, history = x.copy(), np.full(len(x), np.inf), []
    for k in range(iterations):
        loss, gradient = evaluate(x)
        gradient = np.where(np.isfinite(gradient), gradient, 0.0)
        if longest:
            gradient = gradient * np.minimum(1.0, longest / (np.linalg.norm(gradient, axis=1, keepdims=True) + 1e-300))
        better = loss < best_loss
        best[better], best_loss = x[better], np.where(better, loss, best_loss)
        history.append(best_loss)
        mean += 0.1 * (gradient - mean)
        square += 0.01 * (gradient**2 - square)
        step = mean / (1 - 0.9 ** (k + 1)) / (np.sqrt(square / (1 - 0.99 ** (k + 1))) + 1e-12)
        x = np.clip(x - rate * (1 - 0.9 * k / iterations) * step, low, high)
    return np.array(history), best


def cma_es(losses, x: np.ndarray, width: float, rollouts: int, seeds, low=None, high=None):
    """The same by CMA-ES with the package's defaults, a search per row; `losses(x (m, B, n))` (m, B). One row of the history per rollout."""
    import cma

    options = {"verbose": -9, "bounds": [low, high], "tolfun": 0, "tolx": 0, "tolfunhist": 0, "tolflatfitness": 10**9}
    searches = [
        cma.CMAEvolutionStrategy(row, width, options | {"seed": seed + 1}) for row, seed in zip(x, seeds, strict=True)
    ]
    best, best_loss, history = x.copy(), np.full(len(x), np.inf), []
    while len(history) < rollouts:
        asked = np.stack([search.ask() for search in searches], axis=1)
        loss = np.nan_to_num(losses(asked), nan=1e9, posinf=1e9)
        for w, search in enumerate(searches):
            search.tell(list(asked[:, w]), list(loss[:, w]))
        for each, now in zip(asked, loss, strict=True):
            better = now < best_loss
            best[better], best_loss = each[better], np.where(better, now, best_loss)
            history.append(best_loss)
    return np.array(history[:rollouts]), best


class Throw:
    """Velocity and spin (6) of a ball of restitution 0.7; loss: squared distance from the target after 0.8 s [m²]."""

    marks, goal = (25, 50, 100, 200), 1e-4  # of the loss: 1 cm
    duration, target = 0.8, np.array([0.0, 0.0, 0.5])
    rates, widths = (0.1, 0.2, 0.4), (0.1, 0.3, 1.0)
    without = LCP

    def __init__(self):
        b = ws.ModelBuilder("throw")
        b.add_geom("plane", friction=0.4)
        free_body(b, "ball", "sphere", [0.1], 0.5, [0, 0, 1], friction=0.4, restitution=0.7)
        self.model = b.build()

    def starts(self, seeds) -> np.ndarray:
        """First throws (B, 6) downwards, which bounce; keeps where they are thrown from."""
        rngs = [np.random.default_rng(seed) for seed in seeds]
        self.q, x = np.tile(self.model.q0, (len(rngs), 1)), np.zeros((len(rngs), 6))
        for w, rng in enumerate(rngs):
            angle, far, high = rng.uniform(0, 2 * np.pi), rng.uniform(2.0, 3.5), rng.uniform(0.8, 1.4)
            self.q[w, :3] = far * np.cos(angle), far * np.sin(angle), high
            x[w, :2], x[w, 2] = -rng.uniform(0.7, 1.3) * self.q[w, :2] / self.duration, rng.uniform(-2.0, 0.0)
            x[w, :2] += rng.normal(0.0, 0.5, 2)
        return x

    def simulate(self, method: Method, dt: float, x: np.ndarray, sim=None) -> np.ndarray:
        """Misses (m, B, 3) of throws (m, B, 6)."""
        many = len(x)
        sim = sim or method.simulator(self.model, many * x.shape[1], dt)
        q = np.tile(self.q, (many, 1))
        v = half_step_before(x.reshape(-1, 6), dt, [2])
        steps = round(self.duration / dt)
        end = sim.rollout(sim.state(q=q, v=v), steps=steps, every=steps).q.numpy()[-1, :, :3]
        return end.reshape(many, -1, 3) - self.target

    def evaluate(self, method: Method, dt: float):
        sim = method.simulator(self.model, len(self.q), dt, requires_grad=True)
        steps = round(self.duration / dt)

        def loss_and_gradient(x: np.ndarray):
            state = sim.state(q=self.q, v=half_step_before(x, dt, [2]))
            with wp.Tape() as tape:
                motion = sim.rollout(state, steps=steps, every=steps)
            miss = motion.q.numpy()[-1, :, :3] - self.target
            seed = np.zeros(motion.q.shape)
            seed[-1, :, :3] = 2 * miss
            tape.backward(grads={motion.q: wp.array(seed, dtype=wp.float64, device=sim.device)})
            return (miss**2).sum(axis=1), state.v.grad.numpy().copy()

        return loss_and_gradient

    def losses(self, method: Method, dt: float):
        sims = {}

        def of(x: np.ndarray) -> np.ndarray:
            if len(x) not in sims:
                sims[len(x)] = method.simulator(self.model, x.shape[0] * x.shape[1], dt)
            return (self.simulate(method, dt, x, sims[len(x)]) ** 2).sum(axis=2)

        return of

    def shown(self, loss: np.ndarray) -> np.ndarray:
        return np.sqrt(loss)

    def true(self, x: np.ndarray, dt: float) -> np.ndarray:
        """Losses of the true motion."""
        return (self.simulate(TIMED, FINE, x[None])[0] ** 2).sum(axis=1)


class Hop:
    """Controls of the hopper at 12 knots, linear between them (36 unknowns); loss: that of `examples/hop.py`."""

    marks, goal = (25, 50, 100, 200), 8.0
    knots, duration, limit, longest = 12, 0.8, 1.0, 0.5
    rates, widths = (0.03, 0.1, 0.3), (0.1, 0.3)
    without = SAP

    def __init__(self):
        self.model = hopper().model

    def starts(self, seeds) -> np.ndarray:
        return np.stack([np.random.default_rng(s).uniform(-0.3, 0.3, self.knots * self.model.nu) for s in seeds])

    def table(self, x: np.ndarray, dt: float) -> np.ndarray:
        """Controls (steps, worlds, nu) of knots (worlds, n), and the weights (steps, knots)."""
        steps = round(self.duration / dt)
        at = (np.arange(steps) + 0.5) / steps * (self.knots - 1)
        W = np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(self.knots)))
        return np.einsum("sk,wkj->swj", W, x.reshape(len(x), self.knots, -1)), W

    def roll(self, sim: ws.Simulator, values: np.ndarray, tape: bool, parts: int = 1):
        """Losses, and their gradients by the controls; each control acts for `parts` steps."""
        controls = wp.array(values, dtype=wp.float64, device="cpu", requires_grad=tape)
        loss = wp.zeros(sim.worlds, dtype=wp.float64, device="cpu", requires_grad=tape)

        def run():
            given = controls if parts == 1 else np.repeat(values, parts, axis=0)
            motion = sim.rollout(sim.state(), given, every=parts)
            goals = [wp.float64(hopping.GOAL), wp.float64(hopping.APEX)]
            wp.launch(
                hopping.cost, dim=motion.q.shape[:2], inputs=[motion.q, motion.v, controls, *goals, loss], device="cpu"
            )

        if not tape:
            run()
            return loss.numpy(), None
        with wp.Tape() as record:
            run()
        record.backward(grads={loss: wp.ones_like(loss)})
        return loss.numpy(), controls.grad.numpy()

    def evaluate(self, method: Method, dt: float):
        sims = {}

        def loss_and_gradient(x: np.ndarray):
            sim = sims.setdefault(0, None) or method.simulator(self.model, len(x), dt, requires_grad=True)
            sims[0] = sim
            values, W = self.table(x, dt)
            loss, gradient = self.roll(sim, values, True)
            return np.nan_to_num(loss, nan=1e9), np.einsum("sk,swj->wkj", W, gradient).reshape(x.shape)

        return loss_and_gradient

    def losses(self, method: Method, dt: float):
        sims = {}

        def of(x: np.ndarray) -> np.ndarray:
            if len(x) not in sims:
                sims[len(x)] = method.simulator(self.model, x.shape[0] * x.shape[1], dt)
            values, _ = self.table(x.reshape(-1, x.shape[2]), dt)
            return self.roll(sims[len(x)], values, False)[0].reshape(x.shape[:2])

        return of

    def shown(self, loss: np.ndarray) -> np.ndarray:
        return loss

    def true(self, x: np.ndarray, dt: float, parts: int = 10) -> np.ndarray:
        """Losses at a tenth of the step with the rule on, the same controls, measured at the same times."""
        sim = TIMED.simulator(self.model, len(x), dt / parts)
        return self.roll(sim, self.table(x, dt)[0], False, parts)[0]


TASKS = {"throw": Throw, "hop": Hop}
# Rates and widths by --tune (8 seeds from 100 on, 100 rollouts), by task, search and step length [ms].
CHOSEN = {
    "throw": {
        "Adam, rule off, 10": 0.4, "Adam, rule on, 10": 0.4, "CMA-ES, rule off, 10": 0.1, "CMA-ES, rule on, 10": 1.0,
        "Adam, rule off, 5": 0.4, "Adam, rule on, 5": 0.4, "CMA-ES, rule off, 5": 0.3, "CMA-ES, rule on, 5": 1.0,
    },
    "hop": {
        "Adam, rule off, 10": 0.1, "Adam, rule on, 10": 0.1, "CMA-ES, rule off, 10": 0.1, "CMA-ES, rule on, 10": 0.3,
        "Adam, rule off, 5": 0.1, "Adam, rule on, 5": 0.1, "CMA-ES, rule off, 5": 0.3, "CMA-ES, rule on, 5": 0.1,
    },
}  # fmt: skip


def search(task, dt: float, label: str, seeds, setting: float, rollouts: int) -> tuple[np.ndarray, np.ndarray, float]:
    """History (rollouts, B) of best losses, losses of the best in the true motion, CPU seconds."""
    x, begun = task.starts(seeds), time.process_time()
    limit = getattr(task, "limit", np.inf)
    bounds = (None, None) if limit == np.inf else (-limit, limit)
    if label.startswith("Adam"):
        method = TIMED if label.endswith("on") else task.without
        evaluate = task.evaluate(method, dt)
        history, best = adam(evaluate, x, setting, rollouts, -limit, limit, getattr(task, "longest", None))
    else:
        method = TIMED if label.endswith("on") else task.without
        history, best = cma_es(task.losses(method, dt), x, setting, rollouts, seeds, *bounds)
    cpu = time.process_time() - begun
    return history, task.true(best, dt), cpu


LABELS = ("Adam, rule off", "Adam, rule on", "CMA-ES, rule off", "CMA-ES, rule on")


def tune(names, seeds: int, rollouts: int, steps) -> dict:
    """The setting of the least median loss, by task, method and step length."""
    chosen = {}
    for name in names:
        for dt in steps:
            for label in LABELS:
                found = {}
                for setting in TASKS[name].rates if label.startswith("Adam") else TASKS[name].widths:
                    numbers = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + seeds)
                    history, _, cpu = search(TASKS[name](), dt, label, numbers, setting, rollouts)
                    found[setting] = float(np.median(history[-1]))
                    print(name, dt, label, setting, quartiles(history[-1]), f"{cpu:.0f} s", flush=True)
                chosen[f"{name}, {label}, {1e3 * dt:g}"] = min(found, key=found.get)
    return chosen


def searches(name: str, seeds: int, rollouts: int, steps) -> list:
    rows = []
    for dt in steps:
        for label in LABELS:
            task = TASKS[name]()
            setting = CHOSEN[name][f"{label}, {1e3 * dt:g}"]
            history, true, cpu = search(task, dt, label, range(seeds), setting, rollouts)
            cells = [quartiles(task.shown(history[n - 1])) for n in task.marks if n <= rollouts]
            reached = (history > task.goal).sum(axis=0)
            share = np.mean(history[-1] <= task.goal)
            cells.append(f"{share:.0%}" + (f", {np.median(reached[reached < rollouts]):.0f}" if share else ""))
            rows.append(
                [name, f"{1e3 * dt:g}", label, f"{setting:g}", *cells, quartiles(task.shown(true)), f"{cpu:.0f}"]
            )
            print(rows[-1], flush=True)
    return rows


SEARCH_HEAD = (
    "task",
    "ms",
    "search",
    "rate or width",
    *(f"after {n} rollouts" for n in Throw.marks),
    "goal: share, rollouts",
    "in the true motion",
    "CPU s",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", nargs="+", default=["identify", "throw", "hop"], choices=["identify", "throw", "hop"]
    )
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--rollouts", type=int, default=200)
    parser.add_argument("--steps", nargs="+", type=float, default=[10.0, 5.0], help="[ms]")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    steps = [1e-3 * ms for ms in arguments.steps]
    tasks = [part for part in arguments.parts if part in TASKS]
    if arguments.tune:
        print(json.dumps(tune(tasks, arguments.seeds, arguments.rollouts, steps), indent=1))
        return 0
    about = machine(wp.get_device("cpu"))
    parts = ["# What gradients through impacts are good for"]
    parts.append(
        f"{about['date']}, {about['processor']}, CPU, one thread, float64; warpsim {about['versions']['warpsim']}."
    )
    if "identify" in arguments.parts:
        rows, told = identify(arguments.seeds, steps)
        parts += [table(IDENTIFY_HEAD, rows), "\n".join(f"- {k}: {x}" for k, x in told.items())]
    rows = [row for part in tasks for row in searches(part, arguments.seeds, arguments.rollouts, steps)]
    if rows:
        parts.append(table(SEARCH_HEAD, rows))
    text = "\n\n".join(parts) + "\n"
    print(text)
    if arguments.out:
        (arguments.out / "impact_searches.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
