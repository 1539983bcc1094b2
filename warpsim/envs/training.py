# SPDX-License-Identifier: Apache-2.0
"""`train` and `play`: train a policy for a task, and show it."""

import contextlib
import dataclasses
import io
import json
import math
import os
import pathlib
import shlex
import signal
import warnings

from warpsim.base.checks import choice, flag, listed, number, short, whole
from warpsim.base.errors import Diverged, Stopped
from warpsim.base.extras import import_or_explain
from warpsim.base.learning import (
    SETTINGS,
    changes_for,
    check_learning,
    kept_settings,
    learning_changes,
    learning_settings,
)
from warpsim.device.interrupts import stop_requests
from warpsim.envs.boards import Boards, check_wandb
from warpsim.envs.judging import Judge
from warpsim.envs.learner import Learner
from warpsim.envs.onnx_policy import OnnxPolicy
from warpsim.envs.playing import play_policy, watch_policy
from warpsim.envs.tasks import find_task, same_task
from warpsim.files.output import check_file, check_folder, replacing
from warpsim.files.store.place import held

torch = import_or_explain("torch", "train")

LOOK = 10  # iterations between checkpoints
CHECKPOINT, RESULT, CURVE, PAGE, STAGE = "checkpoint.pt", "result.json", "curve.json", "policy.html", "policy.usd"
VIDEO = "policy.mp4"


def make_learner(algorithm: str, task, **options) -> Learner:
    """A learner of a task (a name or a class), by the name of its algorithm."""
    if choice(algorithm, "algorithm", tuple(SETTINGS)) == "ppo":
        from warpsim.envs.ppo import PpoLearner as kind
    else:
        from warpsim.envs.shac import ShacLearner as kind
    return kind(task, **options)


def __getattr__(name: str):
    """Import `export` on first access: it is of a file that imports this one."""
    if name == "export":
        from warpsim.envs.export import export

        return export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_learner(path, *, task=None, device=None, threads: int | None = None, policy_only: bool = False) -> Learner:
    """The saved learner; its next iterations give the same bits as without the interruption.

    With `policy_only` the learner can only be evaluated. The checkpoint names its task; `task` gives the same task
    under a new name, or as a class.
    """
    kept = _read(path)
    task = _task_of(kept, path, task)
    try:
        number = int(os.environ.get("WORLD_SIZE", 1)) if policy_only else kept["num_envs"]
        options = {"seed": kept["seed"], "num_envs": number, "device": device, "threads": threads}
        learning = None if kept["learning"] is None else {kept["algorithm"]: kept["learning"]}
        learner = make_learner(kept["algorithm"], task, **options, learning=learning)
        learner.changes = kept["changes"]
        if policy_only:
            learner._relearn(kept["learned"])
            learner.trained_steps = kept["iteration"] * learner.horizon * kept["num_envs"]
        elif learner.world.size != kept["processes"]:
            raise ValueError(
                f"{path} is of {kept['processes']} processes, here are {learner.world.size}; resume with as many"
            )
        elif learner.world.most(kept["iteration"]) != kept["iteration"]:
            raise ValueError(f"{path} is older than the checkpoint of another process; train anew")
        else:
            learner.restore(kept)
        name = learner.unfinite()
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path}: not a checkpoint of warpsim ({type(error).__name__}); train anew") from error
    if name is not None:
        raise ValueError(f"{path}: {name} is not finite (NaN or infinite), so that it has no policy; train anew")
    return learner


def _task_of(kept: dict, path, task):
    """The name or class of a checkpoint's task.

    Raises `ValueError` where `task` is a different one, or none can be found.
    """
    name = kept["task"]
    if task is not None:
        if not same_task(find_task(task)[0], name):
            raise ValueError(f"{path} is of the task {short(name)}, not of {find_task(task)[0]}")
        return task
    try:
        find_task(name)
    except ValueError as error:
        raise ValueError(
            f"{path}: {error}. Its task is named so where it was trained; run this in the folder of that module, or "
            "say its name of today: --task module:Class"
        ) from error
    return name


def _content(path) -> dict:
    """The content of a checkpoint, of any version."""
    try:
        content = pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such checkpoint; `warpsim train` writes one") from None
    except NotADirectoryError:
        folder = pathlib.Path(path).parent
        raise ValueError(f"{folder} is a file; give the folder that `warpsim train --out` wrote") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; `warpsim train` writes a checkpoint") from None
    try:
        kept = torch.load(io.BytesIO(content), weights_only=True)
        missing = {"task", "algorithm", "seed", "num_envs", "processes", "iteration"} - set(kept)
        missing |= {name for name in ("task", "algorithm") if not isinstance(kept.get(name), str)}
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # broken bytes raise anything
        raise ValueError(f"{path}: not a checkpoint of warpsim ({type(error).__name__}); train anew") from error
    if missing:
        raise ValueError(f"{path}: not a checkpoint of warpsim (no {listed(sorted(missing))}); train anew")
    return kept


def _read(path) -> dict:
    """The content of a checkpoint, as this version has it."""
    kept = _content(path)
    for name, least in (("seed", 0), ("num_envs", 1), ("processes", 1), ("iteration", 0)):
        whole(kept[name], f"{path}: {name}", least)
    kept.setdefault("learning", None)  # checkpoints of versions without settings in tasks
    choice(kept["algorithm"], f"{path}: algorithm", tuple(SETTINGS))
    kept["changes"] = kept.get("changes", {})
    check_learning({kept["algorithm"]: kept["changes"]}, f"{path}: changes")
    if kept["learning"] is not None:
        kept["learning"] = kept_settings(kept["algorithm"], kept["learning"], str(path))
    return kept


def _check_resumed(kept: dict, folder, task, given: dict, learning, iterations: int | None) -> tuple:
    """Settings of a resumed training, the checkpoint's, and those of them that are not the task's.

    Raises `ValueError` where it is given different options, or settings but for a number of iterations. Warns where the
    task has other settings today.
    """
    label, kind = find_task(task)
    if not same_task(label, kept["task"]):
        raise ValueError(f"{folder} holds a training of {kept['task']}, not of {label}")
    algorithm = kept["algorithm"]
    for name, value in given.items():
        if value is not None and value != kept[name]:
            raise ValueError(
                f"{name} is {short(value)}, and {folder} holds a training with {name} {kept[name]}; leave it out, or "
                "train anew without resume"
            )
    learning = changes_for(algorithm, learning, label)
    asked = learning_changes(algorithm, learning)
    changes = learning_changes(algorithm, {algorithm: kept["changes"]}, learning)
    if iterations is None and "iterations" in asked:
        iterations = changes["iterations"]
    if iterations is not None and whole(iterations, "iterations", 1) < kept["iteration"]:
        raise ValueError(
            f"iterations is {iterations}, and the training in {folder} has {kept['iteration']} already; give as many "
            "or more"
        )
    now = learning_settings(algorithm, kind.learning, {algorithm: changes})
    before = kept["learning"] or learning_settings(algorithm, kind.learning)
    for key, value in asked.items():
        if key != "iterations" and value != getattr(before, key):
            raise ValueError(
                f"{label}: learning[{algorithm!r}][{key!r}] is {short(value)}, and {folder} holds a training with "
                f"{short(getattr(before, key))}; leave it out, or train anew without resume"
            )
    kept_ones = dataclasses.replace(before, iterations=now.iterations)
    differ = [
        f"{name} {value} (the task of today: {getattr(now, name)})"
        for name, value in dataclasses.asdict(kept_ones).items()
        if value != getattr(now, name)
    ]
    if differ:
        warnings.warn(f"the training in {folder} goes on with its own settings: {listed(differ)}", stacklevel=4)
    return kept_ones, changes


def train(
    task,
    *,
    algorithm: str | None = None,
    seed: int | None = None,
    out=None,
    iterations: int | None = None,
    num_envs: int | None = None,
    learning=None,
    device=None,
    threads=None,
    resume: bool = False,
    tell=None,
    cpu_seconds: float | None = None,
    video: bool = False,
    wandb: str | None = None,
    progress=None,
) -> dict:
    """Train a policy; returns the same result as `warpsim train --json`.

    Parameters
    ----------
    task : str or class
        A name (`hopper`, `module:Class`) or a class.
    algorithm, seed, iterations, num_envs
        None: PPO, seed 0, and the values of the task's `learning`.
    learning : dict
        Changes of the task's settings, as `{"shac": {"horizon": 8}}`, or all of them, as `{"shac": ShacSettings(...)}`.
    out : path
        Folder for checkpoint, curve, page and USD stage of the policy. An earlier training there is replaced. SIGINT,
        SIGTERM and SIGHUP raise `Stopped` once the present iteration is in the checkpoint; the message says how to
        continue. `Diverged`, where weights become NaN or SHAC has no gradient, leaves the checkpoint of the iteration
        before. While page, stage and video are written, after `result.json`, signals act as usual.
    resume : bool
        Continue the training in `out`, with the same bits, and with its algorithm, seed, environments and settings;
        different ones are refused, but for more iterations.
    tell : callable
        Called with the report of each iteration.
    cpu_seconds : float
        End after the first iteration that reaches this processor time.
    video : bool
        Write an MP4 of the policy too (extra `video`).
    wandb : str
        Report to this project of Weights & Biases too (extra `wandb`), offline where it does not answer.
    progress : callable
        Called as `progress(k, frames)` while the video is drawn, as in `Trajectory.to_video`.
    """
    folder = None if out is None else pathlib.Path(out)
    _check(folder, resume, iterations, cpu_seconds, video, wandb)
    given = {"algorithm": algorithm, "seed": seed, "num_envs": num_envs}
    options = {"device": device, "threads": threads}
    first = int(os.environ.get("RANK", 0)) == 0
    with contextlib.ExitStack() as stack:
        if resume:
            if first and folder.is_dir():  # before anything there is read
                stack.enter_context(held(folder, "training"))
            learner, curve = _resumed(folder, task, given, learning, iterations, options)
        else:
            given |= {"algorithm": "ppo" if algorithm is None else algorithm, "seed": 0 if seed is None else seed}
            learner, curve = make_learner(task=task, **given, **options, learning=learning), []
            if folder is not None and first:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(folder, "training"))
        count = learner.settings.iterations if iterations is None else iterations
        if iterations is None and cpu_seconds is not None and "iterations" not in learner.changes:
            count = 10**9
        with contextlib.nullcontext([]) if folder is None else stop_requests() as stops:
            if folder is not None and first and not resume:
                _clear(folder)
            _learn(learner, count, cpu_seconds, curve, folder, tell if first else None, stops, wandb)
            judged = {} if stops else learner.evaluate(record=4 if folder is not None and first else 0, stops=stops)
            if learner.world.most(len(stops)):
                again = _again(learner, folder, iterations, cpu_seconds, device, video, wandb)
                _stop(learner, stops, count, folder, again)
        trajectory = judged.pop("trajectory", None)
        result = _result(learner, judged, curve)
        if folder is not None and first:
            with replacing(folder / RESULT) as new:
                new.write_text(json.dumps(result, indent=1) + "\n")
            _show(trajectory, folder, video, progress)
    return result


def _check(folder: pathlib.Path | None, resume: bool, iterations, cpu_seconds, video: bool, wandb) -> None:
    """Raise for arguments of `train` that nothing can be done with."""
    if folder is not None:
        _check_out(folder)
        if not resume:
            _check_earlier(folder)
    if resume and folder is None:
        raise ValueError("resume goes on with a training in out; give out=")
    check_wandb(wandb)
    if flag(video, "video"):
        import_or_explain("av", "video")
    if cpu_seconds is not None:
        number(cpu_seconds, "cpu_seconds", "give a positive time [s], or None", lambda x: 0 < x < math.inf)
    if iterations is not None:
        whole(iterations, "iterations", 1)


def _resumed(folder: pathlib.Path, task, given: dict, learning, iterations: int | None, options: dict) -> tuple:
    """The learner of a folder with the settings of now, and its curve so far."""
    checkpoint = folder / _of_process(CHECKPOINT)
    settings, changes = _check_resumed(_read(checkpoint), folder, task, given, learning, iterations)
    learner = load_learner(checkpoint, task=task, **options)
    learner.settings, learner.changes = settings, changes
    return learner, _curve_of(folder)[: learner.iteration]


def _result(learner: Learner, judged: dict, curve: list) -> dict:
    """What `train` returns and writes."""
    names = ("task", "algorithm", "seed", "iteration", "num_envs")
    result = {"iterations" if name == "iteration" else name: getattr(learner, name) for name in names} | judged
    result |= {
        "env_steps": learner.env_steps,
        "cpu_seconds": learner.seconds,
        "compile_seconds": learner.compile_seconds,
        "faults": sum(learner.world.joined([int(learner.env.faults.sum())])),
    }
    return result | {name: curve[-1][name] for name in ("skipped",) if curve and name in curve[-1]}


def _check_out(folder: pathlib.Path) -> None:
    """Raise `ValueError` where the folder of results cannot be written; nothing is created."""
    if folder.is_dir():
        check_file(folder / CHECKPOINT)
        return
    while not folder.parent.is_dir():
        folder = folder.parent
    check_folder(folder)


def _curve_of(folder: pathlib.Path) -> list:
    """The curve of a training that goes on; empty where there is none."""
    try:
        found = json.loads((folder / CURVE).read_text())
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ValueError(f"{folder / CURVE} is no curve of a training; remove it, and the curve begins anew")
    return found


def _show(trajectory, folder: pathlib.Path, video: bool, progress) -> None:
    """Write page and stage of the policy. What cannot be written is left out with a warning.

    A robot without visible geoms has neither; the page needs viser.
    """
    try:
        try:
            trajectory.to_html(folder / PAGE)
        except ImportError as error:
            warnings.warn(f"{folder} has no page of the policy: {error}", stacklevel=3)
        trajectory.to_usd(folder / STAGE, spacing=2.0)
        if video:
            trajectory.to_video(folder / VIDEO, progress=progress)
    except ValueError as error:
        warnings.warn(f"{folder} has no page and no stage of the policy: {error}", stacklevel=3)


def _learn(learner: Learner, count: int, cpu_seconds, curve: list, folder, tell, stops: list, wandb) -> None:
    """Iterate up to a count, a processor time or a stop signal, which reaches all processes.

    The folder then has the result.
    """
    world = learner.world
    good = None if folder is None or learner.iteration == 0 else learner.packed()
    with Boards(folder, wandb, learner) as boards:
        while learner.iteration < count:
            spent = cpu_seconds is not None and sum(learner.seconds.values()) >= cpu_seconds
            if world.most(spent or len(stops)):
                break
            try:
                curve.append(learner.iterate())
            except Diverged as error:
                _keep_last(error, learner, curve, good, folder)
            if folder is not None:
                good = learner.packed()
            boards.add(curve[-1])
            if tell is not None:
                tell(curve[-1])
            if folder is not None and learner.iteration % LOOK == 0:
                _save(learner, curve, folder)
        if not world.most(len(stops)):
            learner.conclude()
        if folder is not None:
            _save(learner, curve, folder)


def _keep_last(error: Diverged, learner: Learner, curve: list, good: bytes | None, folder) -> None:
    """Write the checkpoint of the iteration before the one that diverged, and raise the error with its place."""
    kept = ""
    if good is not None:
        _save(learner, curve, folder, good)
        kept = f"; {folder} holds the checkpoint of iteration {learner.iteration}"
    settings = f"{learner.algorithm}.learning-rate {learner.settings.learning_rate:g}"
    raise Diverged(
        f"{error}. The training stops{kept}; train anew with less than {settings}, or other rewards"
    ) from None


def _again(learner: Learner, folder, iterations: int | None, cpu_seconds, device, video: bool, wandb) -> str:
    """The command that continues a training, where there is one."""
    if "<" in learner.task or learner.task.startswith("__main__:") or cpu_seconds is not None:
        return "the same call with resume=True goes on"
    words = ["torchrun", "--nproc-per-node", learner.world.size, "-m"] if learner.world.size > 1 else []
    words += ["warpsim", "train", learner.task, "--out", folder, "--resume"]
    words += [] if iterations is None else ["--iterations", iterations]
    words += [] if device is None else ["--device", device]
    words += ["--video"] if video else []
    words += [] if wandb is None else ["--wandb", wandb]
    return f"`{shlex.join(map(str, words))}` goes on"


def _stop(learner: Learner, stops: list, count: int, folder, again: str) -> None:
    """End a training stopped by a signal, here or in another process; the first process reports how to continue."""
    number = stops[0] if stops else signal.SIGTERM
    if learner.world.rank > 0:
        raise SystemExit(128 + number)
    of = f" of {count}" if count < 10**9 else ""
    name = signal.Signals(number).name
    raise Stopped(
        number,
        f"stopped by {name} after {learner.iteration}{of} iterations; {folder} holds a whole checkpoint, and {again}",
    )


def _save(learner: Learner, curve: list, folder: pathlib.Path, content: bytes | None = None) -> None:
    """Save the first process's curve and this process's checkpoint. On resume, a curve that is longer is cut.

    Checkpoints of several processes take their places together. With `content`, which the last one that was good is,
    other processes may be gone.
    """
    if learner.world.rank == 0:
        with replacing(folder / CURVE) as new:
            new.write_text(json.dumps(curve) + "\n")
    with replacing(folder / _of_process(CHECKPOINT)) as new:
        new.write_bytes(learner.packed() if content is None else content)
        if content is None:
            learner.world.most(0.0)


def _files_of(folder: pathlib.Path) -> list[pathlib.Path]:
    """What an earlier training left in a folder, but its records for TensorBoard."""
    names = (CHECKPOINT, RESULT, CURVE, PAGE, STAGE, VIDEO)
    others = [x for x in folder.glob(f"*.{CHECKPOINT}") if x.name.removesuffix(f".{CHECKPOINT}").isdecimal()]
    return [path for name in names if (path := folder / name).exists()] + others


def _check_earlier(folder: pathlib.Path) -> None:
    """Raise `ValueError` where files would be replaced that no training of warpsim wrote."""
    found = _files_of(folder)
    if not found:
        return
    try:
        if found == [folder / CURVE]:  # of a training that ended before its first checkpoint
            _curve_of(folder)
        else:
            _content(folder / CHECKPOINT)
    except ValueError as error:
        names = listed(path.name for path in found)
        raise ValueError(
            f"{folder} has {names}, which no training of warpsim wrote ({error}); remove them, or give another folder"
        ) from None


def _clear(folder: pathlib.Path) -> None:
    """Remove the files of an earlier training."""
    for path in [*(found := _files_of(folder)), *(folder.glob("events.out.tfevents.*") if found else ())]:
        path.unlink(missing_ok=True)


def _of_process(name: str) -> str:
    """File name for this process; the first process uses the name itself."""
    rank = int(os.environ.get("RANK", 0))
    return name if rank == 0 else f"{rank}.{name}"


def judge_of(source, *, task=None, device=None) -> Judge:
    """The policy of a training's folder or of an `.onnx` file; `task` is as in `play`."""
    if pathlib.Path(source).suffix.lower() == ".onnx":
        return OnnxPolicy(source).judge(task, device=device)
    return load_learner(os.path.join(source, CHECKPOINT), task=task, device=device, policy_only=True).judge()


def watch(source, *, task=None, device=None, **options) -> None:
    """Show the policy of a training, which may be running, on a live page until Ctrl-C, as `watch_policy`."""
    watch_policy(judge_of(source, task=task, device=device), **options)


def play(source, *, task=None, device=None, **options) -> dict:
    """Evaluate a trained policy, and write a page or a stage of some worlds.

    Parameters
    ----------
    source : path
        The folder of a training, or an ONNX file (`export`), which onnxruntime runs.
    task : str or class
        The task, where it has another name today. An ONNX file needs it unless the task is one of warpsim's.
    options
        `worlds`, the number of worlds shown, `episodes`, and the outputs of `play_policy`.

    Returns
    -------
    dict
        `returns` and `lengths` of the episodes, and the mean `return`. Where the first joint is free or a slide, also
        `distances` along the first coordinate [m] and their mean `distance`.
    """
    return play_policy(judge_of(source, task=task, device=device), **options)
