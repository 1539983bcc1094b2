# SPDX-License-Identifier: Apache-2.0
"""The page and the picture of `python -m benchmarks.train`: who is ahead in equal processor time, by the median of seeds."""

import math
import pathlib
import statistics

SATURATED = 0.95  # share of the way from standing still to the best return
ROOT = pathlib.Path(__file__).parent.parent


def write_page(rows: dict, out: pathlib.Path) -> None:
    """Write train.md to the folder, and the picture beside it, or among the docs' pictures for the committed results."""
    if not any(run.algorithm in ("shac", "ppo") for run in rows):
        print("no trainings yet, no page")
        return
    rows = paired(rows)
    committed = out.resolve() == ROOT / "benchmarks" / "results"
    picture = ROOT / "docs" / "pictures" / "train.png" if committed else out / "train.png"
    drawn = draw(rows, picture)
    link = "../../docs/pictures/train.png" if committed else "train.png"
    (out / "train.md").write_text(report(rows, link if drawn else None))


def paired(rows: dict) -> dict:
    """The rows without seeds of a task that only one of SHAC and PPO has, if there are seeds that both have."""
    seeds: dict = {}
    for run in rows:
        if run.algorithm in ("shac", "ppo") and run.variant == "":
            seeds.setdefault(run.task, {}).setdefault(run.algorithm, set()).add(run.seed)
    both = {task: set.intersection(*found.values()) for task, found in seeds.items() if len(found) == 2}
    return {
        run: row
        for run, row in rows.items()
        if run.algorithm not in ("shac", "ppo") or not both.get(run.task) or run.seed in both[run.task]
    }


def tasks_of(rows: dict) -> list[str]:
    return list(dict.fromkeys(run.task for run in rows if run.algorithm in ("shac", "ppo")))


def rows_of(rows: dict, task: str, algorithm: str, variant: str = "") -> list[dict]:
    """The rows of one task, algorithm and variant, by seed."""
    found = [(run.seed, row) for run, row in rows.items() if (run.task, run.algorithm) == (task, algorithm)]
    return [row for _, row in sorted((x for x in found if x[1]["variant"] == variant), key=lambda x: x[0])]


def values_at(rows: list[dict], mark: str, key: str = "return") -> list[float]:
    """The values at a processor time. A training that diverged before keeps the last that it had, else -inf."""
    found = []
    for row in rows:
        if mark in row["judged"]:
            found.append(row["judged"][mark][key])
        elif "failed" in row:
            found.append(row["judged"][max(row["judged"], key=float)][key] if row["judged"] else -math.inf)
    return found


def cell(values: list[float]) -> str:
    """Median, and the range of how many."""
    if not values:
        return ""
    digits = 0 if max(map(abs, values)) >= 100.0 else 1
    shown = [f"{x:,.{digits}f}" for x in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]}; {len(values)})"


def ahead(rows: dict, task: str, mark: str) -> str:
    """Who has the larger median at a processor time, or, where both saturate by then, who is there sooner.

    "neither" where both are below standing still. Empty unless both have the same seeds.
    """
    found = [[row for row in rows_of(rows, task, name) if values_at([row], mark)] for name in ("shac", "ppo")]
    shac, ppo = (values_at(own, mark) for own in found)
    if not shac or {row["seed"] for row in found[0]} != {row["seed"] for row in found[1]}:
        return ""
    times = saturation(rows, task, mark)
    if times is not None:
        a, b = (-statistics.median_high(x) for x in times)
        return "equal" if a == b else "SHAC, sooner" if a > b else "PPO, sooner"
    a, b = statistics.median(shac), statistics.median(ppo)
    base = still(rows, task)
    if base is not None and max(a, b) <= base:
        return "neither"
    return "SHAC" if a > b else "PPO" if b > a else "equal"


def marks_of(rows: dict, task: str) -> list[str]:
    """The processor times of a task's comparison: 1, 3 and 10 minutes where there are such, else the last."""
    there = {m for name in ("shac", "ppo") for row in rows_of(rows, task, name) for m in row["judged"]}
    return [m for m in ("1", "3", "10") if m in there] or sorted(there, key=float)[-1:]


def still(rows: dict, task: str) -> float | None:
    """The return of standing still."""
    found = rows_of(rows, task, "standing")
    return found[0]["judged"]["0"]["return"] if found else None


def saturation(rows: dict, task: str, mark: str) -> list[list[float]] | None:
    """Processor times until 95 % of the best median, of each seed of SHAC and PPO; inf: not reached.

    The share is counted from the return of standing still. None: the median of one of them is not there by `mark`.
    """
    base, runs = still(rows, task), [rows_of(rows, task, name) for name in ("shac", "ppo")]
    ends = [statistics.median(x) for found in runs for m in marks_of(rows, task) if (x := values_at(found, m))]
    now = [statistics.median(x) for found in runs if (x := values_at(found, mark))]
    if base is None or len(now) < 2 or max(ends) <= base:
        return None
    goal = base + SATURATED * (max(ends) - base)
    if min(now) < goal:
        return None
    times = []
    for found in runs:
        judged = [sorted((float(m), x["return"]) for m, x in row["judged"].items()) for row in found]
        times.append([min((m for m, x in each if x >= goal), default=math.inf) for each in judged])
    return times


def shown_time(times: list[float]) -> str:
    """The median of processor times, and how many have none."""
    never, middle = sum(map(math.isinf, times)), statistics.median_high(times)
    return ("not reached" if math.isinf(middle) else f"{middle:g}") + (
        f" ({never} of {len(times)} not)" if never else ""
    )


def report(rows: dict, picture: str | None) -> str:
    lines = ["# What policies learn", ""]
    lines += [
        "Policies by SHAC and by PPO (rsl_rl) after equal processor time of one thread: return of the mean action, in the true contact, over 10 episodes; median over",
        "seeds (range; number of seeds). Installing, compiling and judging do not count. `python -m benchmarks.train` makes this page from `train.jsonl`, a line per training.",
        "Ahead is who has the larger median. Where both medians reach 95 % of the way from standing still to the best one, it is who reaches that sooner. *Neither* is ahead",
        "where both are no better than standing still. Seeds that only one of the two has are left out. PPO learns from a task as it is, SHAC from its `smooth` variant, if it has",
        "one (ant and humanoid without observations of contact, half-cheetah with episodes of 100 actions, quadruped without rewards for its gait, with penalties of tilt and height); both are judged by the task's rewards.",
        "",
    ]
    lines += [*(["![Return against processor time, SHAC and PPO, by task](" + picture + ")", ""] if picture else [])]
    lines += [
        *(*(told := verdict(rows)), *([""] if told else [])),
        *table(rows),
        *saturated(rows),
        *validated(rows),
        *timed(rows),
        *others(rows),
        *origin(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def verdict(rows: dict) -> list[str]:
    """At each processor time, on how many tasks SHAC is ahead."""
    lines = []
    for mark in ("1", "3", "10"):
        found = {task: who for task in tasks_of(rows) if (who := ahead(rows, task, mark))}
        if found:
            first = [task for task, who in found.items() if who.startswith("SHAC")]
            behind = [task for task in found if task not in first]
            seeds = min(len(values_at(rows_of(rows, task, "shac"), mark)) for task in found)
            text = f"- CPU-minutes: {mark}, seeds: {seeds}. SHAC is ahead on {len(first)} of {len(found)} tasks"
            lines.append(text + (f"; not on {', '.join(behind)}" if behind else ""))
    return lines


def table(rows: dict) -> list[str]:
    lines = ["| task | CPU-minutes | SHAC | PPO | ahead | env-steps SHAC, PPO | standing, random |", "|---" * 7 + "|"]
    for task in tasks_of(rows):
        base = [rows_of(rows, task, name) for name in ("standing", "random")]
        base = ", ".join(f"{x[0]['judged']['0']['return']:,.0f}" for x in base if x)
        for mark in marks_of(rows, task):
            both = [rows_of(rows, task, name) for name in ("shac", "ppo")]
            values = [values_at(found, mark) for found in both]
            steps = [values_at(found, mark, "env_steps") for found in both]
            shown = ", ".join(f"{statistics.median(x):,.0f}" if x else "–" for x in steps)
            cells = [task, mark, *map(cell, values), ahead(rows, task, mark), shown, base]
            lines.append(f"| {' | '.join(cells)} |")
    failed = {f"{run.task} by {run.algorithm} {run.variant}".strip(): 0 for run, row in rows.items() if "failed" in row}
    for run, row in rows.items():
        if "failed" in row:
            failed[f"{run.task} by {run.algorithm} {run.variant}".strip()] += 1
    told = "; ".join(f"{name}: {count}" for name, count in failed.items())
    return [*lines, "", *([f"Trainings that diverged, which keep their last return: {told}.", ""] if told else [])]


def saturated(rows: dict) -> list[str]:
    last = {task: marks_of(rows, task)[-1] for task in tasks_of(rows)}
    found = {task: times for task, mark in last.items() if (times := saturation(rows, task, mark))}
    if not found:
        return []
    lines = [
        "Where the medians of both reach 95 % of the way from standing still to the best median, who is there sooner is ahead. CPU-minutes until then (medians, at the times",
        "of judging):",
        "",
        "| task | SHAC | PPO |",
        "|---|---|---|",
    ]
    return [*lines, *(f"| {task} | {shown_time(a)} | {shown_time(b)} |" for task, (a, b) in found.items()), ""]


def validated(rows: dict) -> list[str]:
    """Beside SHAC that keeps the best of validated policies, the best that PPO had at any time of judging so far."""
    lines = []
    for task in tasks_of(rows):
        shac, ppo = (rows_of(rows, task, name) for name in ("shac", "ppo"))
        if not ppo or not any(row.get("settings", {}).get("validate_every") for row in shac):
            continue
        for mark in marks_of(rows, task):
            best = [
                max((x["return"] for m, x in row["judged"].items() if float(m) <= float(mark)), default=-math.inf)
                for row in ppo
                if values_at([row], mark)
            ]
            lines.append(f"| {task} | {mark} | {cell(values_at(shac, mark))} | {cell(best)} |")
    head = [
        "On these tasks SHAC validates: every `validate_every` actions it evaluates its policy over 16 episodes of their own, and keeps the best so far. That is part of its",
        "processor time. PPO does not; its best over all times of judging until then would be:",
        "",
        "| task | CPU-minutes | SHAC | PPO, its best so far |",
        "|---|---|---|---|",
    ]
    return [*head, *lines, ""] if lines else []


def timed(rows: dict) -> list[str]:
    lines = []
    for task in tasks_of(rows):
        with_it, seeds = rows_of(rows, task, "shac", "time_of_impact"), set()
        seeds = {row["seed"] for row in with_it}
        without = [row for row in rows_of(rows, task, "shac") if row["seed"] in seeds]
        for mark in marks_of(rows, task) if with_it else ():
            if values := values_at(with_it, mark):
                lines.append(f"| {task} | {mark} | {cell(values)} | {cell(values_at(without, mark))} |")
    head = ["SHAC with impacts inside a step while it learns (`time_of_impact`):", ""]
    head += ["| task | CPU-minutes | with | without |", "|---|---|---|---|"]
    return [*head, *lines, ""] if lines else []


def others(rows: dict) -> list[str]:
    lines = []
    for task in dict.fromkeys(run.task for run in rows if run.algorithm == "gymnasium"):
        found = rows_of(rows, task, "gymnasium")
        for mark in sorted({m for row in found for m in row["judged"]}, key=float):
            steps = statistics.median(values_at(found, mark, "env_steps"))
            lines.append(f"| {task} | {mark} | {cell(values_at(found, mark))} | {steps:,.0f} |")
    head = [
        "SB3's PPO on Gymnasium's own environment, as long:",
        "",
        "| task | CPU-minutes | return | env-steps |",
        "|---|---|---|---|",
    ]
    return [*head, *lines, ""] if lines else []


def origin(rows: dict) -> list[str]:
    """Commits, days, machines and loads of the rows, by commit and algorithm."""
    lines = ["| commit | trainings | days | load | machine |", "|---|---|---|---|---|"]
    for commit, algorithm in dict.fromkeys((row["commit"], row["algorithm"]) for row in rows.values()):
        own = [row for row in rows.values() if (row["commit"], row["algorithm"]) == (commit, algorithm)]
        tasks = ", ".join(dict.fromkeys(row["task"] for row in own))
        days = sorted({row["date"] for row in own})
        loads = [x for row in own for x in row["load"]]
        machines = sorted({f"{row['machine']['processor']}, {row['machine']['cores']} cores" for row in own})
        cells = [
            commit,
            f"{len(own)} {algorithm}: {tasks}",
            ", ".join(days),
            f"{min(loads):.1f} to {max(loads):.1f}",
            "; ".join(machines),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    note = (
        "The rows are of these commits. A load above the number of cores lengthens processor times, so rows of a higher load have fewer env-steps. The same seed gives the same bits, "
        "and so does a training that is resumed (`tests/envs/test_learner.py`)."
    )
    return [note, "", *lines, ""]


def draw(rows: dict, path: pathlib.Path) -> bool:
    """Curves of the medians and ranges against processor time, a panel per task. False without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure
    except ImportError:
        return False
    tasks = tasks_of(rows)
    columns = min(3, len(tasks))
    lines = -(-len(tasks) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.2 * lines), layout="constrained")
    for k, task in enumerate(tasks):
        axes = figure.add_subplot(lines, columns, k + 1)
        for name, color in (("shac", "#1f5fbf"), ("ppo", "#d9822b")):
            found = rows_of(rows, task, name)
            marks = sorted({m for row in found for m in row["judged"]}, key=float)
            marks = [m for m in marks if len(values_at(found, m)) == len(found)]
            points = [values_at(found, m) for m in marks]
            times = [float(m) for m in marks]
            axes.plot(times, [statistics.median(x) for x in points], color=color, lw=1.6, label=name.upper())
            axes.fill_between(times, [min(x) for x in points], [max(x) for x in points], color=color, alpha=0.18, lw=0)
        if (base := still(rows, task)) is not None:
            axes.axhline(base, color="0.6", lw=0.8, ls=":")
        axes.set_title(task, fontsize=9)
        axes.tick_params(labelsize=7)
        if k == 0:
            axes.legend(fontsize=7, frameon=False)
        if k // columns == lines - 1:
            axes.set_xlabel("CPU-minutes", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return True
