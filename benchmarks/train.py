# SPDX-License-Identifier: Apache-2.0
"""What policies learn in equal processor time: SHAC beside PPO, over tasks and seeds.

    python -m benchmarks.train --list                      # what is missing, and how long it takes
    python -m benchmarks.train                             # all of it, two trainings at a time
    python -m benchmarks.train --tasks hopper ant --seeds 0 1 --minutes 1 3
    python -m benchmarks.train --report                    # the page and its picture from the rows that there are

A training is a child process of one thread. It is judged at several processor times (`MARKS`) over 10 episodes, in the
true contact, with the policy's mean action; judging, installing and compiling do not count. Where SHAC validates, its
newest policy competes at each of these times as at the end of a training, and that counts for this time. SHAC and PPO
of a task and seed follow each other in the queue. A training that has ended is a line of train.jsonl.
Ctrl-C ends those at work with a checkpoint in the work folder, from which the next call goes on with the same bits; after
a kill it goes on from a checkpoint of at most `SAVED` seconds before. A training that other code had begun starts anew.
Rows of older commits stay until their lines are removed; the page names the commits.

With `time_of_impact` (docs/impact_gradients.md) policies learn with impacts inside a step, and are judged without.
`--algorithms gymnasium` adds SB3's PPO on Gymnasium's own environment, where there is one.
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np

from benchmarks.train_page import write_page

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
GYMNASIUMS = ("hopper", "walker2d", "half_cheetah", "ant", "humanoid")  # with an environment of Gymnasium's
TASKS = (*GYMNASIUMS, "cart_pole_swing_up", "quadruped", "reach", "push")
LONG = ("ant", "reach", "half_cheetah")  # trained for ten minutes too
TIMED = ("hopper", "walker2d", "half_cheetah")  # with time_of_impact too
ALGORITHMS, BASELINES = ("shac", "ppo"), ("standing", "random")
SEEDS = (0, 1, 2, 3, 4)
MARKS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)  # CPU-minutes at which a policy is judged
SAVED = 20.0  # seconds of processor time between checkpoints
POINTS = 200  # of a learning curve in a row
OVERHEAD, STARTING = 1.15, 30.0  # estimates: judging's share, and seconds until a training begins


@dataclasses.dataclass(frozen=True)
class Run:
    """A training: what a row is of."""

    task: str
    algorithm: str
    seed: int = 0
    variant: str = ""

    def __str__(self) -> str:
        return "-".join(str(part) for part in dataclasses.astuple(self) if part != "")


# rows ---------------------------------------------------------------------------------------------------------------


def read_rows(path: pathlib.Path) -> dict[Run, dict]:
    """The rows of a file, the last of each run. A last line that is not whole is left out: its writer was killed."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows[Run(row["task"], row["algorithm"], row["seed"], row["variant"])] = row
        except (ValueError, KeyError, TypeError) as error:
            if number < len(lines):
                raise ValueError(f"{path}, line {number} is no row of benchmarks.train; remove it") from error
    return rows


def append_row(path: pathlib.Path, row: dict) -> None:
    """Add a row, on the disk when this returns."""
    content = path.read_bytes() if path.exists() else b""
    last = content.rpartition(b"\n")[2]  # empty, unless its writer was killed
    with open(path, "a") as file:
        if last and not _is_row(last.decode(errors="replace")):
            file.truncate(len(content) - len(last))
            last = b""
        file.write("\n" * bool(last) + json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _is_row(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def wanted_runs(tasks, algorithms, seeds, minutes=None, timed=TIMED) -> list[tuple[Run, tuple]]:
    """The trainings of the tables with their minutes; what is compared follows each other."""
    runs = [(Run(task, name), ()) for task in tasks for name in BASELINES]
    for seed in seeds:
        for task in tasks:
            own = tuple(minutes or ((1.0, 3.0, 10.0) if task in LONG else (1.0, 3.0)))
            runs += [(Run(task, x, seed), own) for x in algorithms if x != "gymnasium" or task in GYMNASIUMS]
            if "shac" in algorithms and task in timed:
                runs.append((Run(task, "shac", seed, "time_of_impact"), tuple(m for m in own if m <= 3.0) or own))
    return runs


def missing_runs(rows: dict, runs) -> list[tuple[Run, tuple]]:
    """The trainings that have no row, or one that ends earlier."""
    return [(run, minutes) for run, minutes in runs if run not in rows or not _covers(rows[run], minutes)]


def _covers(row: dict, minutes) -> bool:
    return "failed" in row or all(f"{m:g}" in row.get("judged", {}) for m in minutes)


def estimate(missing, jobs: int) -> float:
    """Hours until all are there, on idle cores."""
    seconds = sum(60.0 * OVERHEAD * max(minutes, default=0.0) + STARTING for _, minutes in missing)
    return seconds / jobs / 3600.0


# one training, in a process of its own ------------------------------------------------------------------------------


def code_now() -> dict:
    """The commit, and a name of the code that trainings run: its trees, with a + where files differ from them."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = "+" if git("status", "--porcelain", "--", "warpsim", "kernels") else ""
        trees = [tree[:8] for tree in git("rev-parse", "HEAD:warpsim", "HEAD:kernels").split()]
        return {"commit": git("rev-parse", "--short", "HEAD") + changed, "code": "".join(trees) + changed}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "unknown", "code": "unknown"}


def kind_of(run: Run):
    """The task's class. That of a variant learns with it, and is judged without."""
    from warpsim.envs.tasks import find_task

    kind = find_task(run.task)[1]
    if not run.variant:
        return kind
    if run.variant != "time_of_impact":
        raise ValueError(f"variant is {run.variant!r}; there is time_of_impact")
    judged = {**kind.evaluation, "options": kind.options}
    names = {"options": {**kind.options, "time_of_impact": True}, "evaluation": judged, "__module__": __name__}
    return type(kind.__name__, (kind,), names)


class Learners:
    """How a run's learner is made and loaded; a test has its own."""

    options: dict = {"device": "cpu", "threads": 1}

    def make(self, run: Run):
        from warpsim.envs.training import make_learner

        algorithm = "ppo" if run.algorithm in BASELINES else run.algorithm
        more = {"num_envs": 1} if run.algorithm in BASELINES else {}
        return make_learner(algorithm, kind_of(run), seed=run.seed, **more, **self.options)

    def load(self, path: pathlib.Path, run: Run):
        from warpsim.envs.training import load_learner

        return load_learner(path, task=kind_of(run), **self.options)


def learn(run: Run, minutes, folder: pathlib.Path, *, learners=None, stops=(), code=None) -> dict | None:
    """Train until the last of the minutes; returns the row, or None where a stop ended it with a checkpoint."""
    from warpsim.base.errors import Diverged

    learners, code = learners or Learners(), code or code_now()
    kept = _begun(folder, code)
    learner = learners.make(run) if kept is None else learners.load(folder / kept["checkpoint"], run)
    kept = kept or {**code, "judged": {}, "curve": [], "load": list(os.getloadavg()), "date": time.strftime("%Y-%m-%d")}
    marks = sorted({float(m) for m in (*MARKS, *minutes) if m <= max(minutes)})
    marks = [m for m in marks if f"{m:g}" not in kept["judged"]]
    saved = spent(learner)
    while marks and "failed" not in kept:
        judged = _judged(learner, stops) if _ends(learner) >= 60.0 * marks[0] else None
        if stops:
            _keep(learner, kept, folder)
            return None
        if judged is not None:
            while marks and judged["cpu_seconds"] >= 60.0 * marks[0]:
                kept["judged"][f"{marks.pop(0):g}"] = judged
            continue
        try:
            told = learner.iterate()
        except Diverged as error:
            kept["failed"] = str(error)
            break
        kept["curve"].append([round(spent(learner), 3), told["env_steps"], told["return"]])
        if spent(learner) - saved > SAVED:
            _keep(learner, kept, folder)
            saved = spent(learner)
    if "failed" not in kept:
        _keep(learner, kept, folder)
    return _row(run, learner, kept)


def spent(learner) -> float:
    """Seconds of processor time in training."""
    return sum(learner.seconds.values())


def _ends(learner) -> float:
    """Seconds of processor time in training, if it ended now."""
    return spent(learner) + learner.concluding


def _judged(learner, stops=()) -> dict:
    """Judge what the training would give if it ended now; it goes on as if it had not."""
    before, end = dict(learner.seconds), _ends(learner)
    learner.conclude()
    learner.seconds = before
    found = learner.evaluate(stops=stops)
    names = ("return", "distance", "success", "returns", "lengths")
    return {name: found[name] for name in names if name in found} | {
        "cpu_seconds": end,
        "env_steps": learner.env_steps,
        "iterations": learner.iteration,
    }


def _begun(folder: pathlib.Path, code: dict) -> dict | None:
    """What an earlier process has kept of this training by the same code."""
    path = folder / "begun.json"
    kept = json.loads(path.read_text()) if path.exists() else None
    return kept if kept and kept["code"] == code["code"] and (folder / kept["checkpoint"]).exists() else None


def _keep(learner, kept: dict, folder: pathlib.Path) -> None:
    """Write a checkpoint, then what names it, then remove older ones: whenever a process is killed, one is whole."""
    from warpsim.files.output import replacing

    kept["checkpoint"] = f"{learner.iteration}.pt"
    learner.save(folder / kept["checkpoint"])
    with replacing(folder / "begun.json") as new:
        new.write_text(json.dumps(kept))
    for path in folder.glob("*.pt"):
        if path.name != kept["checkpoint"]:
            path.unlink()


def _row(run: Run, learner, kept: dict) -> dict:
    import warp as wp

    from warpsim.tools.bench import machine

    row = dataclasses.asdict(run) | {name: x for name, x in kept.items() if name not in ("checkpoint", "curve")}
    curve = kept["curve"]
    keep = np.unique(np.linspace(0, len(curve) - 1, min(POINTS, len(curve))).astype(int)) if curve else []
    row |= {"curve": [curve[i] for i in keep], "load": [round(x, 1) for x in (*kept["load"][:1], os.getloadavg()[0])]}
    settings = getattr(learner, "settings", None)
    row |= {"settings": dataclasses.asdict(settings)} if dataclasses.is_dataclass(settings) else {}
    row |= {"compile_seconds": learner.compile_seconds, "faults": int(learner.env.faults.sum())}
    return row | {"machine": machine(wp.get_device("cpu"))}


def baseline(run: Run, learners=None) -> dict:
    """The row of the action 0 (standing), or of uniformly random actions."""
    import torch

    learner = (learners or Learners()).make(run)
    space, random = learner.env.single_action_space, torch.Generator().manual_seed(run.seed)
    low, high = (torch.as_tensor(np.nan_to_num(x, posinf=1.0, neginf=-1.0)) for x in (space.low, space.high))

    def act(observation):
        shape = (len(observation), len(low))
        return (
            torch.zeros(shape)
            if run.algorithm == "standing"
            else low + (high - low) * torch.rand(shape, generator=random)
        )

    learner.act = act
    begun = {**code_now(), "judged": {"0": _judged(learner)}, "curve": [], "load": list(os.getloadavg())}
    return _row(run, learner, begun | {"date": time.strftime("%Y-%m-%d")})


def by_gymnasium(run: Run, minutes, stops=()) -> dict | None:
    """SB3's PPO (its default settings, observations and rewards normalized) on Gymnasium's own environment.

    None where a stop ended it; it begins anew the next time.
    """
    import gymnasium
    import stable_baselines3 as sb3
    import torch
    import warp as wp
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    from warpsim.envs.judging import EPISODES, EVALUATION_SEED
    from warpsim.envs.tasks import find_task
    from warpsim.tools.bench import machine

    name = f"{find_task(run.task)[0]}-v5"
    torch.set_num_threads(1)
    env = VecNormalize(make_vec_env(name, n_envs=1, seed=run.seed))
    model = sb3.PPO("MlpPolicy", env, seed=run.seed, device="cpu")
    clock = {"spent": 0.0, "since": 0.0, "until": 0.0}

    class Budget(BaseCallback):
        def _on_step(self) -> bool:
            return not stops and clock["spent"] + time.process_time() - clock["since"] < clock["until"]

    judged, judge, load = {}, gymnasium.make(name), os.getloadavg()[0]
    for mark in sorted(float(m) for m in minutes):
        clock |= {"since": time.process_time(), "until": 60.0 * mark}
        model.learn(10**9, callback=Budget(), reset_num_timesteps=not judged)
        clock["spent"] += time.process_time() - clock["since"]
        returns, distances = [], []
        for k in range(EPISODES):
            if stops:
                return None
            observation, _ = judge.reset(seed=EVALUATION_SEED + k)
            total, start, done = 0.0, judge.unwrapped.data.qpos[0], False
            while not done:
                action, _ = model.predict(env.normalize_obs(observation), deterministic=True)
                observation, reward, terminated, truncated, _ = judge.step(action)
                total, done = total + reward, terminated or truncated
            returns.append(total)
            distances.append(float(judge.unwrapped.data.qpos[0] - start))
        found = {"return": float(np.mean(returns)), "distance": float(np.mean(distances)), "returns": returns}
        judged[f"{mark:g}"] = found | {"cpu_seconds": clock["spent"], "env_steps": model.num_timesteps}
    row = dataclasses.asdict(run) | code_now() | {"judged": judged, "curve": [], "date": time.strftime("%Y-%m-%d")}
    load = [round(load, 1), round(os.getloadavg()[0], 1)]
    return row | {"load": load, "machine": machine(wp.get_device("cpu"))}


def _end_with(parent: int) -> None:
    """Stop this process, as SIGTERM does, once its parent has been killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _alone(folder: pathlib.Path, patience: float = 120.0):
    """Hold the folder of a training; the process of one whose parent was killed may still be ending there."""
    from warpsim.base.errors import StoreError
    from warpsim.files.store.place import held

    with contextlib.ExitStack() as stack:
        until = time.monotonic() + patience
        while True:
            try:
                stack.enter_context(held(folder, "training"))
                break
            except StoreError:
                if time.monotonic() > until:
                    raise
                time.sleep(1.0)
        yield


def child(run: Run, minutes, folder: pathlib.Path) -> int:
    """The process of a training: writes row.json to its folder; 3 where it was stopped."""
    from warpsim.device.interrupts import stop_requests
    from warpsim.files.output import replacing

    folder.mkdir(parents=True, exist_ok=True)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with stop_requests() as stops, _alone(folder):
        if run.algorithm in BASELINES:
            row = baseline(run)
        elif run.algorithm == "gymnasium":
            row = by_gymnasium(run, minutes, stops)
        else:
            row = learn(run, minutes, folder, stops=stops)
    if row is None:
        return 3
    with replacing(folder / "row.json") as new:
        new.write_text(json.dumps(row))
    return 0


# all of them --------------------------------------------------------------------------------------------------------


def command_of(run: Run, minutes, folder: pathlib.Path) -> list[str]:
    words = [sys.executable, "-m", "benchmarks.train", "--work", folder, "--child", *dataclasses.astuple(run)]
    return [str(word) for word in (*words, "--minutes", *(minutes or (0,)))]


def train_all(missing, jobs: int, store: pathlib.Path, work: pathlib.Path, command=command_of) -> list[Run]:
    """Run the trainings, `jobs` at a time, and add each row as it ends; returns those that failed.

    An interrupt ends the children with their checkpoints, and is raised again when they have ended.
    """
    queue, running, failed = collections.deque(missing), {}, []
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    try:
        while queue or running:
            while queue and len(running) < jobs:
                run, minutes = queue.popleft()
                folder = work / str(run)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "row.json").unlink(missing_ok=True)
                with open(folder / "log", "w") as log:
                    told = {"stdout": log, "stderr": log, "start_new_session": True}
                    running[run] = subprocess.Popen(command(run, minutes, folder), cwd=ROOT, env=environment, **told)
            ended = [run for run, process in running.items() if process.poll() is not None]
            for run in ended:
                code, folder = running.pop(run).returncode, work / str(run)
                if code == 0 and (folder / "row.json").exists():
                    row = json.loads((folder / "row.json").read_text())
                    append_row(store, row)
                    print(told_of(run, row), flush=True)
                else:
                    failed.append(run)
                    print(f"{run}: ended with {code}; {folder / 'log'} says why", file=sys.stderr, flush=True)
            if not ended:
                time.sleep(0.2)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return failed


def told_of(run: Run, row: dict) -> str:
    at = ", ".join(f"{mark} min {found['return']:,.1f}" for mark, found in row["judged"].items())
    return f"{run}: {at}" + (f"; {row['failed']}" if "failed" in row else "")


def tasks_there(names) -> list[str]:
    """The names of the tasks that exist; others are told."""
    from warpsim.envs.tasks import find_task

    def known(name: str) -> bool:
        try:
            return bool(find_task(name))
        except ValueError:
            return False

    for name in names:
        if not known(name):
            print(f"{name}: no such task; left out", file=sys.stderr)
    return [name for name in names if known(name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS, choices=(*ALGORITHMS, "gymnasium"))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--minutes", nargs="+", type=float, help="CPU-minutes; default: 1 and 3, and 10 of three tasks")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="folder of train.jsonl and train.md")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "out" / "train_runs", help="folder of checkpoints")
    parser.add_argument("--list", action="store_true", help="say what is missing and how long it takes, and end")
    parser.add_argument("--report", action="store_true", help="write the page from the rows that there are, and end")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child:  # `command_of` wrote its words
        task, algorithm, seed, *variant = a.child
        return child(Run(task, algorithm, int(seed), "".join(variant)), a.minutes, a.work)
    for name, values, least in (("minutes", a.minutes or [1.0], 1e-3), ("seeds", a.seeds, 0), ("jobs", [a.jobs], 1)):
        if not all(value >= least for value in values):
            parser.error(f"--{name} is {' '.join(map(str, values))}; give numbers of at least {least:g}")
    a.out.mkdir(parents=True, exist_ok=True)
    store = a.out / "train.jsonl"
    rows = read_rows(store)
    if a.report:
        write_page(rows, a.out)
        return 0
    missing = missing_runs(rows, wanted_runs(tasks_there(a.tasks), a.algorithms, a.seeds, a.minutes))
    for run, minutes in missing if a.list else ():
        print(run, *(f"{m:g}" for m in minutes))
    print(f"{len(missing)} trainings are missing: about {estimate(missing, a.jobs):.1f} hours, {a.jobs} at a time")
    if a.list:
        return 0
    from warpsim.device.interrupts import ended_by_signals
    from warpsim.files.store.place import held

    a.work.mkdir(parents=True, exist_ok=True)
    try:
        with ended_by_signals(), held(a.work, "benchmark"):
            failed = train_all(missing, a.jobs, store, a.work)
    except KeyboardInterrupt:
        print("interrupted; the same call goes on", file=sys.stderr)
        return 130
    write_page(read_rows(store), a.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
