"""What policies learn: tasks trained over seeds within a budget of processor time, beside standing still.

    python -m benchmarks.train --out benchmarks/results

Each task is trained by `warpsim train` with its own number of iterations. Returns and distances are means over 10 episodes of the final policy; the
table has their medians over the seeds. *CPU-minutes* are those of the training, both cores added up, without installing and compiling.
"""

import argparse
import json
import pathlib
import statistics

import warp as wp

from warpsim.bench import machine
from warpsim.envs.learner import NAMES
from warpsim.envs.training import make_learner, train

SEEDS = (0, 1, 2)


def standing(task: str) -> dict:
    """Return and distance of the action 0."""
    learner = make_learner("ppo", task, num_envs=1, device="cpu")
    learner.act = lambda observation: 0.0 * observation[:, :1].repeat(1, learner.env.single_action_space.shape[0])
    found = learner.evaluate()
    return {"return": found["return"], "distance": found["distance"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tasks", nargs="+", default=["hopper", "half_cheetah", "walker2d", "cartpole", "inverted_pendulum"]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--pages", type=pathlib.Path, help="a folder for the policies")
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    result = {"machine": machine(wp.get_device("cpu")), "tasks": {}}
    for task in a.tasks:
        runs = []
        for seed in a.seeds:
            runs.append(
                train(task, seed=seed, device="cpu", out=None if a.pages is None else a.pages / f"{task}-{seed}")
            )
            short = {k: runs[-1][k] for k in ("task", "seed", "return", "distance", "cpu_seconds", "faults")}
            print(short, flush=True)
        result["tasks"][NAMES[task]] = {"runs": runs, "standing": standing(task)}
    print(markdown(result))
    if a.out:
        (a.out / "train.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "train.md").write_text(markdown(result))


def markdown(result: dict) -> str:
    lines = [
        "# What policies learn",
        "",
        "| task | return (median; each) | distance [m] (median; each) | standing: return, distance | env-steps | CPU-minutes |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in result["tasks"].items():
        runs, still = found["runs"], found["standing"]
        columns = []
        for key, digits in (("return", 0), ("distance", 2)):
            values = [run[key] for run in runs]
            columns.append(f"{statistics.median(values):,.{digits}f}; {', '.join(f'{x:,.{digits}f}' for x in values)}")
        minutes = statistics.median(sum(run["cpu_seconds"].values()) for run in runs) / 60
        lines.append(
            f"| {name} | {columns[0]} | {columns[1]} | {still['return']:,.0f}, {still['distance']:.2f} | {runs[0]['env_steps']:,} | {minutes:.1f} |"
        )
    m = result["machine"]
    return "\n".join(
        [
            *lines,
            "",
            f"PPO of rsl_rl, seeds {', '.join(str(run['seed']) for run in runs)}. {m['date']}, {m['processor']}, {m['cores']} cores",
            "",
        ]
    )


if __name__ == "__main__":
    main()
