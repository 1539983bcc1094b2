# SPDX-License-Identifier: Apache-2.0
"""The commands `warpsim train`, `warpsim play` and `warpsim export`."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import sys
import typing
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from warpsim.base.extras import import_or_explain
from warpsim.base.learning import PpoSettings, ShacSettings

TASKS_OWN = "task"  # of an option that is not given; None is a value of some settings


def _options_of(kind: type) -> type:
    """The settings of an algorithm as options, each `TASKS_OWN` where it is not given.

    `--iterations` and `--envs` are options of both algorithms.
    """
    options = []
    for field in dataclasses.fields(kind):
        if field.name in ("iterations", "envs"):
            continue
        default = " ".join(
            f"{x:.3g}" if isinstance(x, float) else str(x)
            for x in (field.default if isinstance(field.default, tuple) else (field.default,))
        )
        choices = [str(x) for x in typing.get_args(field.type) if isinstance(x, str)]
        shown = {
            int: "INT",
            float: "FLOAT",
            bool: "{True,False}",
            int | None: "{None}|INT",
            float | None: "{None}|FLOAT",
        }
        shown |= {tuple[int, ...]: "INT [INT ...]", tuple[float, float]: "FLOAT FLOAT"}
        metavar = f"{{{','.join(choices)}}}" if choices else shown.get(field.type)
        told = tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(the task's, else {default})")
        own = Literal[TASKS_OWN]  # type: ignore[valid-type]
        options.append((field.name, Annotated[field.type | own, told], dataclasses.field(default=TASKS_OWN)))
    return dataclasses.make_dataclass(f"{kind.__name__}Options", options, namespace={"__doc__": kind.__doc__})


PpoOptions, ShacOptions = _options_of(PpoSettings), _options_of(ShacSettings)


def _given(options) -> dict:
    return {name: value for name, value in vars(options).items() if value != TASKS_OWN}


@dataclasses.dataclass
class Train:
    """Train a policy for a task by PPO or SHAC, and write its checkpoint, curve, page and USD stage to a folder.

    Ctrl-C ends the training after the present iteration; `--resume` continues it.
    Settings of the algorithm that are not given are the task's (its `learning`), else the algorithm's.
    """

    task: Positional[str]
    """A task by name, such as hopper, ant or quadruped; an unknown one is answered with all names.
    Of your own: module:Class, as my_tasks:Track for the class Track in my_tasks.py of this folder,
    or of an installed package."""
    algorithm: Literal["ppo", "shac"] | None = None
    """PPO of rsl_rl, which None is, or SHAC, which learns by gradients through the simulator."""
    seed: int | None = None
    """Seed of initial states, actions and weights; None is 0. The same seed learns the same policy, bit for bit."""
    out: str = "out/train"
    """Folder of the results; those of an earlier training there are replaced."""
    iterations: int | None = None
    """Iterations of actions and an update; None is what the task's `learning` says."""
    envs: int | None = None
    """Worlds at once; None is what the task's `learning` says. Under torchrun all processes share them."""
    resume: bool = False
    """Continue the training in the folder, with its algorithm, seed, worlds and settings."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""
    threads: int | None = None
    """Threads of the CPU that share the worlds; None is as many as the cores that this process may use."""
    video: bool = False
    """Write an MP4 of the policy too."""
    wandb: str | None = None
    """Report to this project of Weights & Biases too; offline where it does not answer."""
    json: str | None = None
    """Where to write the result as JSON: a file, or - for standard output."""
    ppo: PpoOptions = dataclasses.field(default_factory=PpoOptions)  # type: ignore[valid-type]
    """Settings of PPO."""
    shac: ShacOptions = dataclasses.field(default_factory=ShacOptions)  # type: ignore[valid-type]
    """Settings of SHAC."""

    def __call__(self) -> None:
        import_or_explain("gymnasium", "train")
        from warpsim.envs.training import train
        from warpsim.files.output import check_file, replacing
        from warpsim.show.live_curve import LiveCurve

        if self.json and self.json != "-":
            check_file(self.json)
        find_modules_here()
        screen = console(stderr=True)
        options = {
            "algorithm": self.algorithm,
            "seed": self.seed,
            "out": self.out,
            "iterations": self.iterations,
            "num_envs": self.envs,
            "resume": self.resume,
            "video": self.video,
            "wandb": self.wandb,
            "learning": {name: given for name in ("ppo", "shac") if (given := _given(getattr(self, name)))},
        }
        options |= {"device": self.device, "threads": self.threads}
        with LiveCurve(screen) as live:
            result = train(self.task, **options, tell=live.add, progress=live.drawing)
        if self.json == "-":
            print(json.dumps(result))
        elif self.json:
            with replacing(pathlib.Path(self.json)) as new:
                new.write_text(json.dumps(result) + "\n")
        seconds, page = sum(result["cpu_seconds"].values()), pathlib.Path(self.out) / "policy.html"
        screen.print(
            f"{result['task']}: {told(result)} after {result['env_steps']:,} env-steps and {seconds:.0f} s of "
            "processor time"
            + (f"; {page} shows the policy" if page.exists() else "")
            + (
                f"; {result['faults']:,} episodes ended because something in them was not finite"
                if result["faults"]
                else ""
            )
            + (
                f"; {result['skipped']:,} updates were skipped, because their gradient was not finite"
                if result.get("skipped")
                else ""
            ),
            highlight=False,
            soft_wrap=True,
        )


@dataclasses.dataclass
class Play:
    """Evaluate and show a trained policy: of a training's folder, or an ONNX file."""

    source: Positional[str]
    """What `warpsim train --out` or `warpsim export --onnx` wrote, or any ONNX file of the task's sizes."""
    task: str | None = None
    """Its task as module:Class, where that has another name today than when it was trained.
    An ONNX file needs it unless its task is one of warpsim's."""
    worlds: int = 4
    """Worlds to show."""
    episodes: int | None = None
    """Episodes to evaluate, whose means are printed; None is 10."""
    html: str | None = None
    """Write a web page."""
    usd: str | None = None
    """Write a USD stage."""
    video: str | None = None
    """Write a video, .mp4."""
    live: bool = False
    """Watch it on a live page instead, until Ctrl-C."""
    port: int = 8080
    """Port of the live page; 0 takes a free one."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""

    def __call__(self) -> None:
        from warpsim.envs.playing import play_policy, watch_policy
        from warpsim.files.output import check_different, check_file
        from warpsim.files.usd.usd_output import SUFFIXES
        from warpsim.show.video import check_video
        from warpsim.tools.runs import progress_bar

        find_modules_here()
        if self.live or self.html:
            import_or_explain("viser", "show")
        if self.live:
            if self.episodes is not None:
                raise ValueError("--live goes on until Ctrl-C; leave out --episodes")
            if self.html or self.usd or self.video:
                raise ValueError("--live shows the policy at work; write page, stage or video by a call without it")
            ready = functools.partial(print, flush=True)
            watch_policy(self._judge(), self.worlds, port=self.port, ready=ready)
            return
        outputs = [check_file(path, suffixes) for path, suffixes in ((self.html, ()), (self.usd, SUFFIXES)) if path]
        outputs += [check_video(self.video)] if self.video else []
        check_different(outputs)
        for path in outputs:
            for read in (self.source, os.path.join(self.source, "checkpoint.pt")):
                if path.exists() and os.path.exists(read) and path.samefile(read):
                    raise ValueError(f"{path} is the policy that is played; give another name")
        options = {} if self.episodes is None else {"episodes": self.episodes}
        options |= {"html": self.html, "usd": self.usd, "video": self.video}
        with progress_bar("playing and drawing the video", 0) if self.video else contextlib.nullcontext() as progress:
            judged = play_policy(self._judge(), self.worlds, progress=progress, **options)
        console().print(told(judged), highlight=False, soft_wrap=True)

    def _judge(self):
        """The policy; torch is imported only for a folder."""
        if pathlib.Path(self.source).suffix.lower() == ".onnx":
            from warpsim.envs.onnx_policy import OnnxPolicy

            return OnnxPolicy(self.source).judge(self.task, device=self.device)
        from warpsim.envs.training import judge_of

        return judge_of(self.source, task=self.task, device=self.device)


@dataclasses.dataclass
class Export:
    """Write a trained policy as a file that needs no warpsim, with normalization inside.

    Beside x.onnx lies x.json: task, robot, layout of observations, joints, actuators, bounds, rates, delays.
    """

    folder: Positional[str]
    """What `warpsim train --out` wrote."""
    onnx: str | None = None
    """An ONNX file, .onnx."""
    torch: str | None = None
    """A program of torch.export, .pt2."""
    task: str | None = None
    """Its task as module:Class, where that has another name today than when it was trained."""

    def __call__(self) -> None:
        from warpsim.envs.export import export

        find_modules_here()
        about = export(self.folder, self.onnx, torch_program=self.torch, task=self.task)
        sizes = f"{about['observation']['size']} observations, {about['action']['size']} actions"
        for path in (self.onnx, self.torch):
            if path:
                console().print(
                    f"wrote {path}, and its description beside it: {sizes}", highlight=False, soft_wrap=True
                )


def told(judged: dict) -> str:
    """Means of an evaluation, the share of successes and the measures of a task that says what they are."""
    success = f", success {100 * judged['success']:.0f} %" if "success" in judged else ""
    success += "".join(f", {name} {value:.3f}" for name, value in judged.get("measures", {}).items())
    moved = f", distance along the first coordinate {judged['distance']:.2f} m" if "distance" in judged else ""
    failed = f"; {judged['failed']} of them ended because something was not finite" if judged.get("failed") else ""
    return f"return {judged['return']:.0f}{moved}{success} (means of {len(judged['returns'])} episodes{failed})"


def find_modules_here() -> None:
    """Let task modules be imported from the current folder, as with `python -m`.

    Installed modules of the same name go first.
    """
    if not sys.flags.safe_path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def console(stderr: bool = False):
    from rich.console import Console

    return Console(stderr=stderr, force_jupyter=False)  # print lines there too, as other output of a notebook cell
