# SPDX-License-Identifier: Apache-2.0
"""What policies learn: tasks trained over seeds, beside standing still, SHAC, and Gymnasium's own environment with Stable-Baselines3.

    python -m benchmarks.train --out benchmarks/results

Tasks are trained by `warpsim train` (PPO of rsl_rl) with their own number of iterations on one thread; SHAC, and Gymnasium with SB3's PPO (its default
settings, observations and rewards normalised, one environment), for as much processor time. Returns and distances are means over 10 episodes of the
final policy; the table has their medians over the seeds. Times are those of the training, without installing and compiling. Runs are kept in train.json
as they end, and those that are there are not made again.
"""

import argparse
import json
import os
import pathlib
import statistics
import time

import gymnasium
import numpy as np
import torch
import warp as wp

from warpsim.envs.judging import EPISODES, EVALUATION_SEED
from warpsim.envs.tasks import find_task
from warpsim.envs.training import make_learner, train
from warpsim.tools.bench import machine

TASKS = ("hopper", "half_cheetah", "walker2d", "ant", "cartpole", "quadruped", "reach")
BY_GRADIENTS = ("cartpole", "half_cheetah", "reach")
SEEDS = (0, 1, 2)


def standing(task: str) -> dict:
    """Return and distance of the action 0."""
    learner = make_learner("ppo", task, num_envs=1, device="cpu")
    learner.act = lambda observation: 0.0 * observation[:, :1].repeat(1, learner.env.single_action_space.shape[0])
    found = learner.evaluate()
    return {"return": found["return"], "distance": found["distance"]}


def by_gymnasium(name: str, seed: int, budget: float) -> dict:
    """SB3's PPO on Gymnasium's own environment for so much processor time."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    class Budget(BaseCallback):
        def _on_step(self) -> bool:
            return time.process_time() - begun < budget

    torch.set_num_threads(1)
    env = VecNormalize(make_vec_env(f"{name}-v5", n_envs=1, seed=seed))
    model = sb3.PPO("MlpPolicy", env, seed=seed, device="cpu")
    begun = time.process_time()
    model.learn(10**9, callback=Budget())
    spent, returns, distances = time.process_time() - begun, [], []
    judge = gymnasium.make(f"{name}-v5")
    for k in range(EPISODES):
        observation, _ = judge.reset(seed=EVALUATION_SEED + k)
        total, start, done = 0.0, judge.unwrapped.data.qpos[0], False
        while not done:
            action, _ = model.predict(env.normalize_obs(observation), deterministic=True)
            observation, reward, terminated, truncated, _ = judge.step(action)
            total, done = total + reward, terminated or truncated
        returns.append(total)
        distances.append(float(judge.unwrapped.data.qpos[0] - start))
    found = {"task": name, "seed": seed, "returns": returns, "distances": distances, "env_steps": model.num_timesteps}
    return found | {
        "return": float(np.mean(returns)),
        "distance": float(np.mean(distances)),
        "cpu_seconds": {"all": spent},
    }


def seconds(run: dict) -> float:
    return sum(run["cpu_seconds"].values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--pages", type=pathlib.Path, help="a folder for the policies")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    path = a.out / "train.json"
    result = json.loads(path.read_text()) if path.exists() else {"machine": machine(wp.get_device("cpu")), "tasks": {}}

    def keep(name: str, kind: str, seed: int, make) -> None:
        runs = result["tasks"].setdefault(name, {}).setdefault(kind, {})
        if str(seed) not in runs:
            runs[str(seed)] = make() | {
                "date": time.strftime("%Y-%m-%d"),
                "load": [round(x, 1) for x in os.getloadavg()],
            }
            shown = {k: runs[str(seed)].get(k) for k in ("return", "distance", "cpu_seconds", "env_steps", "faults")}
            print(name, kind, seed, shown, flush=True)
            path.write_text(json.dumps(result, indent=1) + "\n")

    for seed in a.seeds:
        for task in a.tasks:
            name, _ = find_task(task)
            folder = None if a.pages is None else a.pages / f"{task}-{seed}"
            options = {"seed": seed, "device": "cpu", "threads": 1}
            keep(name, "ppo", seed, lambda: train(task, out=folder, **options))
            if "standing" not in result["tasks"][name]:
                result["tasks"][name]["standing"] = standing(task)
            budget = seconds(result["tasks"][name]["ppo"][str(seed)])
            if task in BY_GRADIENTS:
                folder = None if a.pages is None else a.pages / f"{task}-shac-{seed}"
                more = {"algorithm": "shac", "cpu_seconds": budget, "out": folder}
                keep(name, "shac", seed, lambda: train(task, **options, **more))
            if f"{name}-v5" in gymnasium.registry:
                keep(name, "gymnasium", seed, lambda: by_gymnasium(name, seed, budget))
    (a.out / "train.md").write_text(markdown(result))


def column(runs, key: str, digits: int) -> str:
    """Median, and each seed's."""
    if not runs:
        return ""
    values = [runs[seed][key] for seed in sorted(runs)]
    return f"{statistics.median(values):,.{digits}f} ({', '.join(f'{x:,.{digits}f}' for x in values)})"


def markdown(result: dict) -> str:
    lines = ["# What policies learn", ""]
    lines += [
        "| task | the action 0: return, distance [m] | PPO: return | distance [m] | env-steps | CPU-minutes | SHAC, as long: return | Gymnasium and SB3, as long: return | distance [m] | env-steps |"
    ]
    lines += ["|---" * 10 + "|"]
    for name, found in result["tasks"].items():
        ppo, still, shac, other = found["ppo"], found["standing"], found.get("shac"), found.get("gymnasium")
        minutes = statistics.median(seconds(run) for run in ppo.values()) / 60
        cells = [
            name,
            f"{still['return']:,.0f}, {still['distance']:.2f}",
            column(ppo, "return", 0),
            column(ppo, "distance", 1),
        ]
        cells += [f"{next(iter(ppo.values()))['env_steps']:,}", f"{minutes:.1f}", column(shac, "return", 0)]
        cells += [column(other, "return", 0), column(other, "distance", 1)]
        cells += [f"{statistics.median(run['env_steps'] for run in other.values()):,.0f}" if other else ""]
        lines.append(f"| {' | '.join(cells)} |")
    m = result["machine"]
    seeds = ", ".join(sorted({seed for found in result["tasks"].values() for seed in found["ppo"]}))
    note = f"Medians over the seeds {seeds}, and each. Distances are along x; where a task does not go anywhere they mean nothing. One thread. {m['date']}, {m['processor']}, {m['cores']} cores"
    return "\n".join([*lines, "", note, *later(result), ""])


def later(result: dict) -> list[str]:
    """A line for the runs of each task and kind that were made on another day than the rest, with the load at their ends."""
    lines = []
    for name, found in result["tasks"].items():
        for kind in ("ppo", "shac", "gymnasium"):
            runs = [
                run
                for run in found.get(kind, {}).values()
                if run.get("date", result["machine"]["date"]) != result["machine"]["date"]
            ]
            if runs:
                loads = [run["load"][0] for run in runs]
                days = ", ".join(sorted({run["date"] for run in runs}))
                lines.append(
                    f"{name} by {kind.upper()}: {days}, at loads of {min(loads):.0f} to {max(loads):.0f}, which lengthens processor times; "
                    f'what is "as long" beside it had those of {result["machine"]["date"]}.'
                )
    return ["", *lines] if lines else []


if __name__ == "__main__":
    main()
