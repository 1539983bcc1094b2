# SPDX-License-Identifier: Apache-2.0
"""Learning by analytic gradients beside random search at equal env-steps: medians and quartiles over seeds.

    python -m benchmarks.policy_gradient [--out benchmarks/results] [--seeds 5] [--parts throw,walk,hop,contact,directions]

"walk": the policy of `examples/policy_gradient.py`; "contact": the same with the gradients of the true contact; "hop": the
torques of `examples/hop.py`, fewer iterations; "throw": the throws of `examples/throw_ball.py`. Settings were chosen on seeds from 100 on; the seeds here are 0, 1, … .
"directions": whether the gradient of an ant's reward over a few steps is that of differences. Needs torch.
"""

import argparse
import functools
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import warp as wp

import warpsim as ws
from examples import hop, throw_ball
from examples import policy_gradient as example
from warpsim.tools.bench import machine
from warpsim.tools.demo import robot_path
from warpsim.tools.runs import smooth_controls

UNITS = {"throw": "median miss of 16 [m]", "walk": "speed [m/s]", "hop": "cost"}
GRADIENT, SEARCH, TRUE_CONTACT = "analytic gradient", "random search", "analytic gradient, true contact"
METHODS = (GRADIENT, SEARCH)
HOP_WORLDS, HOP_ITERATIONS = 16, 60
THROW_ITERATIONS = 8  # of two rollouts each
WIDEN, NARROW = 1.3, 0.9  # of the changes of the searches for a hop and for throws, after a success and a failure
DIRECTION_STEPS, DIRECTION_SMOOTHING, WIDTH, BURN_IN = (8, 16, 32), (0.0, 0.1, 0.3, 1.0), 0.01, 30


def walk(method: str, seed: int) -> np.ndarray:
    """Rows (env-steps, CPU seconds, speed)."""
    if method == SEARCH:
        return example.random_search(example.ITERATIONS * example.WORLDS * example.HORIZON, seed=seed, every=4)[1]
    smoothing = 0.0 if method == TRUE_CONTACT else example.SMOOTHING
    return example.learn(seed=seed, every=24, smoothing=smoothing)[1]


def throw_search(seed: int) -> np.ndarray:
    """Misses `(rollouts, throwers)` of a search in which every thrower keeps its best throw and changes it at random."""
    q, v = throw_ball.first_throws(seed)
    sim = ws.Simulator(throw_ball.scene(), len(q), dtype="float64", device="cpu")
    rng, size = np.random.default_rng(1000 * (seed + 1)), np.full(len(q), 0.5)
    history = [np.linalg.norm(throw_ball.miss(sim, q, v), axis=1)]
    for _ in range(2 * THROW_ITERATIONS):
        trial = v + size[:, None] * rng.standard_normal(v.shape)
        found = np.linalg.norm(throw_ball.miss(sim, q, trial), axis=1)
        better = found < history[-1]
        v = np.where(better[:, None], trial, v)
        size *= np.where(better, WIDEN, NARROW)
        history.append(np.minimum(found, history[-1]))
    return np.array(history)


def hop_search(seed: int) -> np.ndarray:
    """Costs `(iterations, worlds)` of a search that keeps the best torques and changes them by smooth waves."""
    model = ws.load(robot_path("hopper"))
    sim = ws.Simulator(model, HOP_WORLDS, dt=hop.DT, dtype="float64", device="cpu")
    waves = functools.partial(smooth_controls, model, HOP_WORLDS, hop.STEPS, hop.DT)
    amplitude, u, best, history = 0.3, waves(seed=seed, amplitude=0.3).astype(float), np.inf, []
    for k in range(HOP_ITERATIONS):
        t, loss = sim.rollout(sim.state(), u), wp.zeros(HOP_WORLDS, dtype=wp.float64, device="cpu")
        goals = [wp.float64(hop.GOAL), wp.float64(hop.APEX)]
        controls = wp.array(u, dtype=wp.float64, device="cpu")
        wp.launch(hop.cost, dim=t.q.shape[:2], inputs=[t.q, t.v, controls, *goals, loss], device="cpu")
        cost = np.nan_to_num(loss.numpy(), nan=np.inf)
        history.append(np.minimum(cost, best))
        if k:
            amplitude *= WIDEN if cost.min() < best else NARROW
        if cost.min() < best:
            best, kept = cost.min(), u[:, cost.argmin()].copy()
        u = np.clip(kept[:, None] + waves(seed=1000 * (seed + 1) + k, amplitude=amplitude), -1, 1)
    return np.array(history)


def run(task: str, method: str, seed: int) -> dict:
    """One run: its first and last result, env-steps and CPU seconds."""
    begin = time.process_time()
    if task == "walk":
        rows = walk(method, seed)
        steps, seconds, first, last = int(rows[-1, 0]), rows[-1, 1], rows[0, 2], rows[-1, 2]
    elif task == "throw":
        history = throw_search(seed) if method == SEARCH else throw_ball.learn(THROW_ITERATIONS, seed)[0]
        steps = (2 * THROW_ITERATIONS + 1) * throw_ball.THROWERS * throw_ball.STEPS
        seconds, first, last = time.process_time() - begin, np.median(history[0]), np.median(history[-1])
    else:
        history = hop_search(seed) if method == SEARCH else hop.learn(HOP_WORLDS, HOP_ITERATIONS, seed)[0]
        steps, seconds = history.size * hop.STEPS, time.process_time() - begin
        first, last = history[0].min(), history.min()
    print(f"{task}, {method}, seed {seed}: {first:.3g} -> {last:.3g}, {time.process_time() - begin:.0f} s", flush=True)
    key = {"task": task, "method": method, "seed": seed}
    return key | {"first": float(first), "last": float(last), "env_steps": steps, "seconds": float(seconds)}


def total(ants: example.Ants, policy, q, v, steps: int) -> torch.Tensor:
    """Mean reward of so many steps `(worlds,)`."""
    found = 0.0
    for _ in range(steps):
        control = policy(example.observe(q, v))
        q, v = ants.step(q, v, control)
        found = found + example.reward(v, q, control) / steps
    return found


def directions(seed: int, horizons=DIRECTION_STEPS, smoothing=DIRECTION_SMOOTHING) -> list[dict]:
    """The exact gradient by the biases of the policy's eight outputs, beside central differences of the true motion.

    And the lengths of the derivatives of the reward by each world's start: the worlds that drown the others.
    """
    true = example.Ants(64, seed)
    policy = example.network(8, bounded=True, seed=seed)
    with torch.no_grad():
        policy[-2].weight *= 3.0  # so that it moves
        q, v = true.q, true.v
        for _ in range(BURN_IN):
            q, v = true.step(q, v, policy(example.observe(q, v)))
    bias, rows = policy[-2].bias, []
    for steps in horizons:
        with torch.no_grad():
            difference = torch.zeros_like(bias)
            for j in range(len(bias)):
                values = []
                for sign in (1, -1):
                    bias[j] += sign * WIDTH
                    values.append(total(true, policy, q, v, steps).mean())
                    bias[j] -= sign * WIDTH
                difference[j] = (values[0] - values[1]) / (2 * WIDTH)
        for amount in smoothing:
            worlds = true if amount == 0.0 else example.Ants(64, seed, amount)
            start = q.clone().requires_grad_(), v.clone().requires_grad_()
            *by_start, exact = torch.autograd.grad(total(worlds, policy, *start, steps).sum(), [*start, bias])
            lengths = torch.cat(by_start, dim=1).norm(dim=1)
            cosine = float(torch.nn.functional.cosine_similarity(exact, difference, dim=0))
            spread = {"median": float(lengths.median()), "longest": float(lengths.max())}
            rows.append({"seed": seed, "steps": steps, "smoothing": amount, "cosine": cosine} | spread)
    return rows


def quartiles(values, form: str = ".2f") -> str:
    """median (lower to upper quartile)."""
    low, middle, high = np.quantile(list(values), [0.25, 0.5, 0.75])
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def report(runs: list[dict], rows: list[dict], machine: dict) -> str:
    """The tables."""
    lines = [
        "# Learning by analytic gradients and by random search",
        "",
        f"{machine['date']}, {machine['processor']}, one thread; torch {torch.__version__}, warp-lang {machine['versions']['warp-lang']}. "
        "Median (quartiles) over the seeds.",
        "",
        "| task | method | seeds | at first | at last | each seed | env-steps | CPU s |",
        "|---" * 8 + "|",
    ]
    for task, method in dict.fromkeys((r["task"], r["method"]) for r in runs):
        own = [r for r in runs if (r["task"], r["method"]) == (task, method)]
        columns = {key: [r[key] for r in own] for key in own[0]}
        each = ", ".join(f"{x:.2g}" for x in columns["last"])
        lines.append(
            f"| {task}: {UNITS[task]} | {method} | {len(own)} | {np.median(columns['first']):.2g} | {quartiles(columns['last'], '.2g')} | {each} "
            f"| {columns['env_steps'][0]:,} | {np.median(columns['seconds']):.0f} |"
        )
    if rows:
        lines += [
            "",
            "The gradient of an ant's mean reward over a few steps, 64 worlds, beside differences of the true motion:",
            "",
        ]
        lines += ["| steps | smoothing | cosine | longest derivative of a world / median |", "|---" * 4 + "|"]
        for steps, amount in dict.fromkeys((r["steps"], r["smoothing"]) for r in rows):
            own = [r for r in rows if (r["steps"], r["smoothing"]) == (steps, amount)]
            ratio = quartiles((r["longest"] / r["median"] for r in own), ".0f")
            lines.append(f"| {steps} | {amount} | {quartiles(r['cosine'] for r in own)} | {ratio} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=pathlib.Path, help="folder for policy_gradient.md and .json; the parts not run stay"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", default="throw,walk,hop,contact,directions")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    file = arguments.out and arguments.out / "policy_gradient.json"
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(file.read_text()) if file and file.is_file() else {"runs": [], "directions": []}
    about = machine(wp.get_device("cpu"))

    def keep(name: str, new: list[dict], same: tuple[str, ...]) -> None:
        """Replace the rows of the same keys, and write what there is."""
        keys = {tuple(row[k] for k in same) for row in new}
        kept[name] = [row for row in kept[name] if tuple(row[k] for k in same) not in keys] + new
        if file:
            file.write_text(json.dumps({"machine": about} | kept, indent=1) + "\n")
            file.with_suffix(".md").write_text(report(kept["runs"], kept["directions"], about))

    parts = arguments.parts.split(",")
    wanted = [(task, method) for task in UNITS if task in parts for method in METHODS]
    wanted += [("walk", TRUE_CONTACT)] if "contact" in parts else []
    for seed in range(arguments.seeds):
        if "directions" in parts:
            keep("directions", directions(seed), ("seed",))
        for task, method in wanted:
            keep("runs", [run(task, method, seed)], ("task", "method", "seed"))
    print(report(kept["runs"], kept["directions"], about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
