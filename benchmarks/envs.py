# SPDX-License-Identifier: Apache-2.0
"""What an environment costs: over the raw simulator, and env-steps per second of processor time beside Gymnasium's own environments.

    python -m benchmarks.envs --out benchmarks/results

Random actions, one thread, episodes begun anew in the same step. *Overhead* is the processor time of `VectorEnv.step` less that of the simulator's steps
within, by the latter: actions, observations, rewards, resets. Gymnasium's environments run one world each, with their own integrator (RK4 for most) and with
Euler's, which is ours, at the same time step and number of steps for an action. Medians over repeats.
"""

import argparse
import json
import pathlib
import statistics
import time

import gymnasium
import mujoco
import numpy as np
import warp as wp

from warpsim.envs import TASKS, VectorEnv
from warpsim.envs.frameworks import FRAMEWORKS
from warpsim.tools.bench import machine

NAMES = (
    "CartPole",
    "InvertedPendulum",
    "Reacher",
    "Hopper",
    "HalfCheetah",
    "Walker2d",
    "Ant",
    "Humanoid",
    "Quadruped",
    "Reach",
    "Lift",
)
STEPS, WARM = 40, 20


def measured(name: str, worlds: int, framework: str, repeats: int) -> dict:
    """Env-steps per second of processor time, and overhead in percent, each its median."""
    env = VectorEnv(TASKS[name], worlds, device="cpu", threads=1, autoreset="SAME_STEP", array=framework)
    env.reset(seed=0)
    space, rng = env.single_action_space, np.random.default_rng(0)
    table = rng.uniform(space.low, space.high, (WARM + STEPS, worlds, *space.shape)).astype(np.float32)
    actions, step, spent = [env.arrays.made(a) for a in table], env.view.step, [0.0]

    def timed(*given) -> None:
        begun = time.process_time()
        step(*given)
        spent[0] += time.process_time() - begun

    env.view.step = timed
    for action in actions[:WARM]:
        env.step(action)
    rates, overheads = [], []
    for _ in range(repeats):
        spent[0], begun = 0.0, time.process_time()
        for action in actions[WARM:]:
            env.step(action)
        total = time.process_time() - begun
        rates.append(STEPS * worlds / total)
        overheads.append(100.0 * (total / spent[0] - 1.0))
    return {"rate": statistics.median(rates), "overhead": statistics.median(overheads)}


def gymnasiums(name: str, repeats: int, euler: bool, steps: int = 2000) -> float:
    """Env-steps per second of processor time of Gymnasium's own environment, with its integrator or with Euler's."""
    env = gymnasium.make(f"{name}-v5")
    if euler:
        env.unwrapped.model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    env.reset(seed=0)
    env.action_space.seed(0)
    actions, rates = [env.action_space.sample() for _ in range(steps)], []
    for _ in range(repeats):
        begun = time.process_time()
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        rates.append(steps / (time.process_time() - begun))
    return statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=1024)
    parser.add_argument("--many", type=int, default=4096, help="worlds of another column: overhead, first framework")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=["numpy", "torch"])
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    if "torch" in a.frameworks:
        import torch

        torch.set_num_threads(1)  # threads that wait count as processor time
    result = {"machine": machine(wp.get_device("cpu")), "worlds": a.worlds, "many": a.many, "rows": {}}
    for name in a.names:
        row = {framework: measured(name, a.worlds, framework, a.repeats) for framework in a.frameworks}
        row["many"] = measured(name, a.many, a.frameworks[0], a.repeats)
        if f"{name}-v5" in gymnasium.registry:
            row |= {"gymnasium": gymnasiums(name, a.repeats, False), "euler": gymnasiums(name, a.repeats, True)}
        result["rows"][name] = row
        print(name, row, flush=True)
    if a.out:
        a.out.mkdir(parents=True, exist_ok=True)
        (a.out / "envs.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "envs.md").write_text(markdown(result, a.frameworks))


def markdown(result: dict, frameworks) -> str:
    columns = [f"{f}: {what}" for f in frameworks for what in ("env-steps/s", "overhead")]
    columns.append(f"{frameworks[0]}, {result['many']:,} worlds: overhead")
    lines = [
        "# What an environment costs",
        "",
        f"| task | {' | '.join(columns)} | Gymnasium's own: env-steps/s | ratio | the same with Euler's | ratio |",
    ]
    lines.append("|---" * (len(columns) + 5) + "|")
    for name, row in result["rows"].items():
        cells = [x for f in frameworks for x in (f"{row[f]['rate']:,.0f}", f"{row[f]['overhead']:.1f} %")]
        cells.append(f"{row['many']['overhead']:.1f} %")
        for key in ("gymnasium", "euler"):
            own = row.get(key)
            cells += ["", ""] if own is None else [f"{own:,.0f}", f"{row[frameworks[0]]['rate'] / own:.1f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    m = result["machine"]
    note = f"{result['worlds']:,} worlds, where no other number stands; one thread, random actions. {m['date']}, {m['processor']}, {m['cores']} cores"
    return "\n".join([*lines, "", note, ""])


if __name__ == "__main__":
    main()
