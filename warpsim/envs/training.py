# SPDX-License-Identifier: Apache-2.0
"""`train` and `play`: a policy from a task's name, and what one can look at."""

import json
import os
import pathlib
import pickle

import torch

from warpsim.checks import choice, listed, number, short, whole
from warpsim.envs.learner import EPISODES, NAMES, Learner
from warpsim.files.output import replacing

LOOK = 10  # iterations between checkpoints
CHECKPOINT, RESULT, CURVE, PAGE, STAGE = "checkpoint.pt", "result.json", "curve.json", "policy.html", "policy.usd"
ALGORITHMS = ("ppo", "shac")
# Iterations that a task takes.
ITERATIONS = {
    "ppo": {
        "Ant": 300,
        "CartPole": 100,
        "HalfCheetah": 500,
        "Hopper": 300,
        "Humanoid": 500,
        "InvertedPendulum": 60,
        "Lift": 500,
        "Pusher": 300,
        "Quadruped": 350,
        "QuadrupedRough": 350,
        "Reach": 150,
        "Reacher": 100,
        "Walker2d": 400,
    },
    "shac": {"CartPole": 100, "HalfCheetah": 1000, "Reach": 200},
}


def make_learner(algorithm: str, task: str, **options) -> Learner:
    """A learner by the name of its algorithm."""
    if choice(algorithm, "algorithm", ALGORITHMS) == "ppo":
        from warpsim.envs.ppo import PpoLearner as kind
    else:
        from warpsim.envs.shac import ShacLearner as kind
    return kind(task, **options)


def load_learner(path, *, device=None, threads: int | None = None, policy_only: bool = False) -> Learner:
    """The learner that was saved; its next iterations have the bits that they would have had. With `policy_only` one that can be judged, no more."""
    kept = _read(path)
    try:
        number = kept["processes"] if policy_only else kept["num_envs"]
        options = {"seed": kept["seed"], "num_envs": number, "device": device, "threads": threads}
        learner = make_learner(kept["algorithm"], kept["task"], **options)
        if policy_only:
            learner._relearn(kept["learned"])
        elif learner.world.size != kept["processes"]:
            raise ValueError(
                f"{path} is of {kept['processes']} processes, here are {learner.world.size}; resume with as many"
            )
        else:
            learner.restore(kept)
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path}: not a checkpoint of warpsim ({type(error).__name__}); train anew") from error
    return learner


def _read(path) -> dict:
    """What a checkpoint holds."""
    try:
        kept = torch.load(path, weights_only=True)
        missing = {"task", "algorithm", "seed", "num_envs", "processes", "iteration"} - set(kept)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such checkpoint; `warpsim train` writes one") from None
    except (KeyError, TypeError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path}: not a checkpoint of warpsim ({type(error).__name__}); train anew") from error
    if missing:
        raise ValueError(f"{path}: not a checkpoint of warpsim (no {listed(sorted(missing))}); train anew")
    return kept


def _check_resumed(kept: dict, folder, task: str, given: dict, iterations: int | None) -> None:
    """Raise `ValueError` where a training is asked to go on as another than it is."""
    if kept["task"] != NAMES[choice(task.lower(), "task", NAMES)]:
        raise ValueError(f"{folder} holds a training of {kept['task']}, not of {task}")
    for name, value in given.items():
        if value is not None and value != kept[name]:
            raise ValueError(
                f"{name} is {short(value)}, and {folder} holds a training with {name} {kept[name]}; leave it out, or train anew without resume"
            )
    if iterations is not None and whole(iterations, "iterations", 1) < kept["iteration"]:
        raise ValueError(
            f"iterations is {iterations}, and the training in {folder} has {kept['iteration']} already; give as many or more"
        )


def train(
    task: str,
    *,
    algorithm: str | None = None,
    seed: int | None = None,
    out=None,
    iterations: int | None = None,
    num_envs: int | None = None,
    device=None,
    threads=None,
    resume: bool = False,
    tell=None,
    cpu_seconds: float | None = None,
) -> dict:
    """Train a policy; the result as in `warpsim train --json`. `out`: a folder for checkpoint, curve, page and USD stage of the policy.

    What an earlier training left in `out` is replaced. `tell`: called with what each iteration has to tell. With `resume` a training in `out` goes on, with the same bits, as the algorithm, with the seed and environments that it has; others are refused. Else
    None is PPO, seed 0 and what the algorithm takes. `cpu_seconds`: end
    after the first iteration that reaches so much processor time.
    """
    folder = None if out is None else pathlib.Path(out)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    if resume and folder is None:
        raise ValueError("resume goes on with a training in out; give out=")
    checkpoint = None if folder is None else folder / _of_process(CHECKPOINT)
    if resume:
        given = {"algorithm": algorithm, "seed": seed, "num_envs": num_envs}
        _check_resumed(_read(checkpoint), folder, task, given, iterations)
        learner = load_learner(checkpoint, device=device, threads=threads)
        curve = json.loads((folder / CURVE).read_text())[: learner.iteration] if (folder / CURVE).exists() else []
    else:
        seed = 0 if seed is None else seed
        options = {"seed": seed, "num_envs": num_envs, "device": device, "threads": threads}
        learner, curve = make_learner("ppo" if algorithm is None else algorithm, task, **options), []
        if folder is not None and learner.world.rank == 0:
            _clear(folder)
    count = (
        ITERATIONS[learner.algorithm].get(learner.task, 300)
        if iterations is None
        else whole(iterations, "iterations", 1)
    )
    first = learner.world.rank == 0
    board = _board(folder) if folder is not None and first else None
    if cpu_seconds is not None:
        number(cpu_seconds, "cpu_seconds", "give a positive time [s], or None", lambda x: x > 0)
        count = count if iterations is not None else 10**9
    while learner.iteration < count and (cpu_seconds is None or sum(learner.seconds.values()) < cpu_seconds):
        curve.append(learner.iterate())
        if first:
            _tell(curve[-1], tell, board)
        if folder is not None and learner.iteration % LOOK == 0:
            _save(learner, curve, folder)
    if folder is not None:
        _save(learner, curve, folder)
    if board is not None:
        board.close()
    judged = learner.evaluate(record=4 if folder is not None and first else 0)
    trajectory = judged.pop("trajectory", None)
    result = {
        "task": learner.task,
        "algorithm": learner.algorithm,
        "seed": learner.seed,
        "iterations": learner.iteration,
        "num_envs": learner.num_envs,
    } | judged
    result |= {
        "env_steps": learner.iteration * learner.HORIZON * learner.num_envs,
        "cpu_seconds": learner.seconds,
        "compile_seconds": learner.compile_seconds,
        "faults": int(learner.env.faults.sum()),
    }
    if folder is not None and first:
        (folder / RESULT).write_text(json.dumps(result, indent=1) + "\n")
        trajectory.to_html(folder / PAGE)
        trajectory.to_usd(folder / STAGE, spacing=2.0)
    return result


def _save(learner: Learner, curve: list, folder: pathlib.Path) -> None:
    """The checkpoint of this process, and the first one's curve."""
    learner.save(folder / _of_process(CHECKPOINT))
    if learner.world.rank == 0:
        with replacing(folder / CURVE) as new:
            new.write_text(json.dumps(curve) + "\n")


def _clear(folder: pathlib.Path) -> None:
    """Take away what an earlier training has left."""
    names = (CHECKPOINT, RESULT, CURVE, PAGE, STAGE)
    for path in [
        *(folder / name for name in names),
        *folder.glob("events.out.tfevents.*"),
        *folder.glob(f"*.{CHECKPOINT}"),
    ]:
        path.unlink(missing_ok=True)


def _of_process(name: str) -> str:
    """The name of a file of this process; the first one's is the name itself."""
    rank = int(os.environ.get("RANK", 0))
    return name if rank == 0 else f"{rank}.{name}"


def _board(folder: pathlib.Path):
    """TensorBoard's writer, None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))


def _tell(row: dict, tell, board) -> None:
    if board is not None:
        for name, value in row.items():
            if name not in ("iteration", "env_steps") and value is not None:
                board.add_scalar(name, value, row["env_steps"])
    if tell is not None:
        tell(row)


def watch(folder, *, worlds: int = 4, port: int = 8080, host: str = "127.0.0.1", device=None, ready=print) -> None:
    """Show the policy of a training at work on a live page until Ctrl-C; `ready(url)` is called once it is there."""
    from warpsim.viewer import Viewer

    learner = load_learner(os.path.join(folder, CHECKPOINT), device=device, policy_only=True)
    env = learner.judging_environment(whole(worlds, "worlds", 1))
    try:
        with Viewer(env.sim, env.state, port=port, host=host) as view:
            ready(view.url)
            learner.perform(env, view)
    except KeyboardInterrupt:
        pass


def play(folder, *, worlds: int = 4, html=None, usd=None, device=None) -> dict:
    """Judge the policy of a training again, and write a page or a stage of some worlds."""
    learner = load_learner(os.path.join(folder, CHECKPOINT), device=device, policy_only=True)
    judged = learner.evaluate(max(EPISODES, worlds), record=whole(worlds, "worlds", 1))
    trajectory = judged.pop("trajectory")
    if html is not None:
        trajectory.to_html(html)
    if usd is not None:
        trajectory.to_usd(usd, spacing=2.0)
    return judged
