# SPDX-License-Identifier: Apache-2.0
"""The command `warpsim`: run, train, play, export, view and others."""

import dataclasses
import io
import json
import math
import os
import pathlib
import sys
import sysconfig
import traceback
from typing import Literal

import tyro
from tyro.conf import Positional

from warpsim.base import checks
from warpsim.base.extras import import_or_explain
from warpsim.tools.cli_identify import Identify
from warpsim.tools.cli_tasks import Tasks
from warpsim.tools.cli_training import Export, Play, Train
from warpsim.tools.cli_training import console as _console
from warpsim.tools.cli_warm import CONTACT, Contact, Warm

ROBOT_FILES = (
    ".xml",
    ".mjcf",
    ".urdf",
    ".usd",
    ".usda",
    ".usdc",
    ".usdz",
)  # files that `view` steps; anything else is a store


@dataclasses.dataclass
class Run:
    """Roll out a robot file in many worlds, print a summary, and write the requested outputs."""

    model: Positional[str]
    """MJCF (.xml, .mjcf), URDF (.urdf) or USD (.usd, .usda, .usdc, .usdz) file."""
    worlds: int = 1
    """Independent copies."""
    steps: int = 500
    """Steps of dt."""
    dt: float | None = None
    """Step [s]; None is the file's."""
    substeps: int = 1
    """Equal parts of each step."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""
    threads: int | None = None
    """Threads of the CPU that share the worlds; None is as many as the cores that this process may use."""
    controls: Literal["random", "zero", "none"] = "random"
    """Random sine waves within the control ranges; or zero, which is what actuators without a command (none) get."""
    actuators: Literal["effort", "position"] | None = None
    """Add one actuator per joint where the file has none (URDF)."""
    unsupported: Literal["error", "report"] = "error"
    """What changes the motion and cannot be simulated is an error, or a warning and left out."""
    contact: Contact = "sap"
    """Contact model: ws.SAP(), ws.SAP(approximation="convex"), ws.Compliant(), ws.LCP(), ws.MuJoCo() or
    ws.NoContact()."""
    time_of_impact: bool = False
    """Resolve impacts within steps. Without this, only steps of files with restitution do."""
    seed: int = 0
    """Of controls and noise."""
    noise: float = 0.0
    """Standard deviation of the initial joint positions and velocities [rad, m, rad/s, m/s]."""
    every: int = 1
    """Record every n-th step."""
    usd: str | None = None
    """Write an animated USD stage."""
    html: str | None = None
    """Write a stand-alone web page."""
    store: str | None = None
    """Write a Zarr store, a path or a URL, as it is simulated: Ctrl-C keeps what was, and `warpsim resume` goes on.
    A whole store that is there is replaced."""
    half: bool = False
    """Positions and velocities of the store in half precision."""
    png: str | None = None
    """Write a picture of the last frame."""
    video: str | None = None
    """Write a video in real time, .mp4."""
    plot: str | None = None
    """Write plots of heights, energy, contacts and errors."""
    patches: bool = False
    """Show the patches between pressure fields in stage, page and picture."""
    json: str | None = None
    """Write the summary as JSON; - prints it and nothing else."""
    on_fault: str | None = None
    """A folder for worlds that raise a flag (dump: warpsim-faults), to be stepped through by `warpsim replay`."""

    def __call__(self) -> None:
        import warpsim as ws
        from warpsim.files.output import replacing
        from warpsim.files.patch_frames import refuse_without_fields
        from warpsim.tools.runs import perturbed_start, print_summary, smooth_controls, timed_rollout

        self._check()
        model = ws.load(self.model, actuators=self.actuators, unsupported=self.unsupported)
        if self.patches:
            refuse_without_fields(model)
        options = {"dt": self.dt, "device": self.device, "dtype": self.dtype, "threads": self.threads}
        options |= {"on_fault": self.on_fault, "time_of_impact": self.time_of_impact or None}
        sim = ws.Simulator(model, self.worlds, solver=CONTACT[self.contact](ws), **options)
        q, v = perturbed_start(model, self.worlds, self.noise, self.seed) if self.noise else (None, None)
        controls = None
        if self.controls == "random" and model.nu:
            controls = smooth_controls(model, self.worlds, self.steps, sim.dt, self.seed)
        options = {"substeps": self.substeps, "every": self.every, "store": self.store, "half": self.half}
        trajectory, summary = timed_rollout(sim, sim.state(q, v), controls, self.steps, **options)
        self._write(trajectory)
        if self.json == "-":
            print(json.dumps(summary, indent=2))
            return
        if self.json:
            with replacing(pathlib.Path(self.json)) as new:
                new.write_text(json.dumps(summary, indent=2) + "\n")
        print_summary(summary, _console())
        for path in (self.usd, self.html, self.store, self.png, self.video, self.plot, self.json):
            if path:
                _console().print(f"wrote {path}", highlight=False)

    def _check(self) -> None:
        for name in ("worlds", "steps", "substeps", "every"):
            checks.whole(getattr(self, name), name, 1)
        checks.whole(self.seed, "seed", 0)
        checks.number(self.noise, "noise", "give a number of at least 0", lambda x: 0.0 <= x < math.inf)
        self._check_outputs()

    def _check_outputs(self) -> None:
        """Refuse outputs that cannot be written, before anything is computed."""
        from warpsim.files.output import check_different, check_file
        from warpsim.files.store.place import check_replaceable, is_url
        from warpsim.files.usd.usd_output import SUFFIXES
        from warpsim.show.plot import check_plot
        from warpsim.show.video import check_video

        if self.html:
            import_or_explain("viser", "show")
        found = [check_file(path) for path in (self.html, self.png, self.json) if path and path != "-"]
        if self.usd:
            found.append(check_file(self.usd, SUFFIXES))
        if self.video:
            found.append(check_video(self.video))
        if self.plot:
            found.append(check_plot(self.plot))
        if self.half and not self.store:
            raise ValueError("--half is of the store; give --store")
        if self.store:
            place = check_replaceable(self.store)
            found += [] if is_url(place) else [place]
        check_different(found)

    def _write(self, trajectory) -> None:
        from warpsim.tools.runs import progress_bar

        t = trajectory
        for path, write in ((self.usd, t.to_usd), (self.html, t.to_html), (self.png, t.render)):
            if path:
                write(path, patches=self.patches)
        if self.video:
            with progress_bar("drawing the video", 0) as progress:
                t.to_video(self.video, progress=progress)
        if self.plot:
            t.plot(self.plot)


@dataclasses.dataclass
class Resume:
    """Continue an interrupted run from its store alone, with the same bits."""

    store: Positional[str]
    """A Zarr store that `warpsim run --store` or `sim.rollout(store=…)` has begun: a path or a URL."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""
    threads: int | None = None
    """Threads of the CPU that share the worlds; None is as many as the cores that this process may use."""

    def __call__(self) -> None:
        from warpsim.jobs.resume import resume
        from warpsim.tools.runs import progress_bar

        with progress_bar("stepping", 0) as progress:
            trajectory = resume(self.store, device=self.device, threads=self.threads, progress=progress)
        _console().print(f"{self.store} is whole: {trajectory!r}", highlight=False, soft_wrap=True)


@dataclasses.dataclass
class Replay:
    """Repeat the steps of a faulty world that `on_fault` has written, and continue from there."""

    fault: Positional[str]
    """A folder that a simulator with on_fault has written."""
    steps: int = 10
    """Steps, the faulty one first; all with its control and forces."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        from warpsim.jobs.fault import load_fault

        checks.whole(self.steps, "steps", 1)
        fault = load_fault(self.fault, self.device)
        rows, again = fault.replay(self.steps)
        told = {"fault": repr(fault), "dt": fault.sim.dt, "same bits as then": again, "contacts": fault.contact_rows()}
        if self.json:
            print(json.dumps(_finite(told | {"steps": rows}), indent=2))
            return
        from rich.table import Table

        console = _console()
        console.print(f"{fault!r}; stepped again: {'the same bits' if again else 'OTHER bits'}", highlight=False)
        for title, lines in (("contacts of the step", told["contacts"]), ("steps", rows)):
            if lines:
                table = Table(*lines[0], title=title, title_justify="left")
                for line in lines:
                    table.add_row(*(_cell(value) for value in line.values()))
                console.print(table)


def _finite(value):
    """The value as JSON allows it: None for a number that is not finite."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclasses.dataclass
class Info:
    """List the contents of a robot file, and how each of its features is handled."""

    model: Positional[str]
    """MJCF (.xml, .mjcf), URDF (.urdf) or USD (.usd, .usda, .usdc, .usdz) file."""
    actuators: Literal["effort", "position"] | None = None
    """Add one actuator per joint where the file has none (URDF)."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        from warpsim import load

        # Features that cannot be simulated are part of the report, so they raise no error here.
        model = load(self.model, actuators=self.actuators, unsupported="report")
        facts = describe(model)
        if self.json:
            print(json.dumps(facts, indent=2))
        else:
            _print_info(facts)


def describe(model) -> dict:
    """Counts, elements and report of a model, as plain data."""
    from warpsim.model.constraint_types import ConstraintType
    from warpsim.model.model import DynamicsType, GeomType, JointType
    from warpsim.model.targets import target_name

    def body(index: int) -> str:
        return model.body_names[index] if index >= 0 else "world"

    counts = ("nq", "nv", "nu", "nbody", "njoint", "ngeom", "ntree")
    facts = {"name": model.name, "dt": model.timestep, "gravity": [float(g) for g in model.gravity]}
    facts |= {name: getattr(model, name) for name in counts}
    facts |= {"pairs": len(model.pair_geom), "mass": float(model.body_mass.sum()), "keyframes": list(model.keyframes)}
    facts["bodies"] = [
        {"name": name, "parent": body(model.body_parent[b]), "mass": float(model.body_mass[b])}
        for b, name in enumerate(model.body_names)
    ]
    facts["joints"] = [
        {
            "name": name,
            "type": JointType(model.joint_type[j]).name.lower(),
            "body": body(model.joint_body[j]),
            "range": [float(x) for x in model.joint_range[j]] if model.joint_limited[j] else None,
        }
        for j, name in enumerate(model.joint_names)
    ]
    facts["geoms"] = [
        {
            "name": name,
            "type": GeomType(model.geom_type[g]).name.lower(),
            "body": body(model.geom_body[g]),
            "friction": float(model.geom_friction[g]),
        }
        for g, name in enumerate(model.geom_names)
    ]
    facts["actuators"] = [
        {
            "name": name,
            "on": target_name(model, a),
            "range": [float(x) if abs(x) < float("inf") else None for x in model.control_range[a]],
        }
        for a, (name, t) in enumerate(zip(model.actuator_names, model.actuator_tendon, strict=True))
    ]
    if model.na:
        for row, kind in zip(facts["actuators"], model.actuator_dynamics, strict=True):
            row["dynamics"] = DynamicsType(kind).name.lower()
    facts["constraints"] = [
        {
            "name": name,
            "type": ConstraintType(model.constraint_type[c]).name.lower(),
            "between": _constrained(model, c, body),
            "active": str(bool(model.constraint_active[c])),
        }
        for c, name in enumerate(model.constraint_names)
    ]
    soft = model.geom_hydroelastic_modulus
    if not all(modulus != modulus for modulus in soft):  # NaN: not soft
        for row, modulus in zip(facts["geoms"], soft.tolist(), strict=True):
            row["hydroelastic"] = (
                None if modulus != modulus else "rigid" if modulus == float("inf") else f"{modulus:g} Pa"
            )
    facts["report"] = {}
    for line in model.report:
        facts["report"].setdefault(line.status, []).append({"feature": line.feature, "detail": line.detail})
    return facts


def _constrained(model, c: int, body) -> str:
    """Names of the two ends of a constraint."""
    from warpsim.model.constraint_types import ConstraintType

    names = {ConstraintType.JOINT: model.joint_names, ConstraintType.TENDON: model.tendon_names}
    found = names.get(ConstraintType(model.constraint_type[c]))
    if found is None:
        return ", ".join(body(e) for e in model.constraint_body[c])
    return ", ".join(found[e] for e in model.constraint_joint[c] if e >= 0)


def _print_info(facts: dict) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = _console()
    console.print(
        f"[bold]{escape(facts['name'])}[/bold]: nq {facts['nq']}, nv {facts['nv']}, nu {facts['nu']}; "
        f"{facts['nbody']} bodies "
        f"in {facts['ntree']} trees, {facts['njoint']} joints, {facts['ngeom']} geoms, {facts['pairs']} pairs that may "
        f"touch; {facts['mass']:.4g} kg, dt {facts['dt']:g} s, keyframes: "
        f"{escape(', '.join(facts['keyframes'])) or 'none'}",
        highlight=False,
        soft_wrap=True,
    )
    for key in ("bodies", "joints", "geoms", "constraints", "actuators"):
        if facts[key]:
            table = Table(*facts[key][0], title=key, title_justify="left")
            for row in facts[key]:
                table.add_row(*(escape(_cell(value)) for value in row.values()))
            console.print(table)
    for status, style in (("refused", "red"), ("ignored", "yellow"), ("mapped", "cyan"), ("used", "green")):
        for line in facts["report"].get(status, []):
            text = escape(f"{line['feature']}: {line['detail']}")
            console.print(f"[{style}]{status:8s}[/{style}] {text}", highlight=False, soft_wrap=True)


def _cell(value) -> str:
    if isinstance(value, list):
        return " … ".join("∞" if x is None else f"{x:.4g}" for x in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


@dataclasses.dataclass
class View:
    """Step a robot file live in the browser, or open a stored rollout: play, pause and scrub."""

    source: Positional[str]
    """A robot file (.xml, .urdf, .usd), or a Zarr store written by `warpsim run --store` or `Trajectory.save`."""
    worlds: int | None = None
    """Of a robot file so many worlds, by default one; of a store the first n, by default up to 64."""
    port: int = 8080
    """Of the page; 0 takes a free one."""
    host: str = "127.0.0.1"
    """Address to listen at: this machine only. At any other the page of a store is behind a token,
    which is part of the link that is printed; a robot file is stepped at this machine alone."""
    out: str | None = None
    """Write the page of a store here and serve nothing."""
    patches: bool = False
    """Show the patches between pressure fields of a store; a live page has a box for them."""
    live: bool = False
    """Read the frames of a store when they are shown, however many there are,
    and find those that a run adds meanwhile."""
    dt: float | None = None
    """Step of a robot file [s]; by default the file's."""
    device: str | None = None
    """Warp device that a robot file is stepped on."""
    contact: Contact = "sap"
    """Contact model of a robot file, as of `warpsim run`."""
    time_of_impact: bool = False
    """Of a robot file: resolve impacts within steps. Without this, only steps of files with restitution do."""

    def __call__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"port is {self.port}; give 0 to 65535")
        if (pathlib.Path(self.source) / "checkpoint.pt").is_file():
            raise ValueError(f"{self.source} holds a training; `warpsim play {self.source} --live` shows its policy")
        import_or_explain("viser", "show")
        if pathlib.Path(self.source).suffix.lower() in ROBOT_FILES and not pathlib.Path(self.source).is_dir():
            self._step_live()
        elif self.dt is not None or self.device is not None or self.time_of_impact or self.contact != "sap":
            raise ValueError(
                f"{self.source} is a stored rollout, which is not stepped; --dt, --device, --contact and "
                "--time-of-impact are of robot files"
            )
        elif self.live:
            self._play_store()
        else:
            self._show_store()

    def _step_live(self) -> None:
        if self.out or self.patches:
            raise ValueError(f"{self.source} is a robot file, stepped live; --out and --patches are of stored rollouts")
        import warpsim as ws

        options = {"dt": self.dt, "device": self.device, "time_of_impact": self.time_of_impact or None}
        worlds = 1 if self.worlds is None else self.worlds
        sim = ws.Simulator(ws.load(self.source), worlds, solver=CONTACT[self.contact](ws), **options)
        with ws.Viewer(sim, port=self.port, host=self.host) as view:
            print(f"{view.url}  (stop with Ctrl-C)", flush=True)
            view.run()

    def _play_store(self) -> None:
        if self.out or self.patches:
            raise ValueError("--out and --patches are of a page with all frames in it; leave out --live")
        from warpsim.show.live.playback import Playback

        with Playback(self.source, self.worlds, self.port, self.host) as page:
            print(f"{page.url}  (stop with Ctrl-C)", flush=True)
            page.run()

    def _show_store(self) -> None:
        import tempfile

        from warpsim import Trajectory
        from warpsim.files.output import check_file
        from warpsim.show.serve import serve

        if self.out:
            check_file(self.out)
        trajectory = Trajectory.load(self.source)
        if self.out:
            trajectory.to_html(self.out, worlds=self.worlds, patches=self.patches)
            print(f"wrote {self.out}")
            return
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "index.html"
            trajectory.to_html(page, worlds=self.worlds, patches=self.patches)
            serve(folder, self.port, self.host, lambda link: print(f"{link}  (stop with Ctrl-C)", flush=True))


@dataclasses.dataclass
class Bench:
    """Compare speed, cold start and memory with mujoco_warp and MuJoCo C, side by side in one run."""

    models: str = "humanoid,ant"
    """Comma-separated: names of gymnasium's robots, or MJCF files."""
    worlds: str = "1,64,512,4096"
    """Comma-separated."""
    engines: str = "warpsim,same_law,mujoco_warp,mujoco"
    """Comma-separated; the ones not installed are skipped with a line. same_law: warpsim under MuJoCo's law."""
    repeats: int = 3
    """Of every timing; the median counts."""
    world_steps: int = 16384
    """World-steps per timing, in 8 to 2000 steps."""
    settle: float = 1.0
    """Seconds of random controls before the clock starts, so that the robots are on the ground."""
    device: str | None = None
    """Warp device of warpsim and mujoco_warp."""
    cold_start: bool = True
    """Time a fresh process with an empty kernel cache, up to its first step."""
    out: str = "benchmarks/results"
    """Folder of the JSON and the table."""

    def __call__(self) -> None:
        from warpsim.tools import bench

        worlds = self.worlds.split(",")
        if not all(n.strip().isdecimal() and int(n) > 0 for n in worlds):
            raise ValueError(f"worlds is {self.worlds!r}; give whole numbers of at least 1, comma-separated")
        for name in ("repeats", "world_steps"):
            checks.whole(getattr(self, name), name, 1)
        checks.number(self.settle, "settle", "give seconds of at least 0", lambda x: 0.0 <= x < math.inf)
        bench.run(
            models=self.models.split(","),
            worlds=[int(n) for n in worlds],
            engines=self.engines.split(","),
            repeats=self.repeats,
            world_steps=self.world_steps,
            settle=self.settle,
            device=self.device,
            cold_start=self.cold_start,
            out=self.out,
        )


@dataclasses.dataclass
class Demo:
    """Roll out a robot in 256 worlds on the ground, and write a web page, an image and a USD stage."""

    worlds: int = 256
    """Independent copies."""
    steps: int = 500
    """Steps."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""
    out: str = "out"
    """Folder of the results; those of an earlier demo there are replaced."""
    open: bool = True
    """Open the page in a browser. Only on a terminal of a machine with a display, and never in CI."""

    def __call__(self) -> None:
        from warpsim.tools import demo

        for name in ("worlds", "steps"):
            checks.whole(getattr(self, name), name, 1)
        demo.run(self.worlds, self.steps, self.device, self.out, open_page=self.open)


@dataclasses.dataclass
class Devices:
    """List devices, versions, and available features."""

    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        facts = environment()
        if self.json:
            print(json.dumps(facts, indent=2))
            return
        from rich.table import Table
        from rich.text import Text

        for key in ("devices", "versions", "works here"):
            table = Table(title=key, title_justify="left", show_header=False)
            for name, value in facts[key].items():
                table.add_row(name, Text(str(value)))
            _console().print(table)


def environment() -> dict:
    """Devices, relevant versions and available features, as plain data."""
    import importlib.metadata
    import importlib.util
    import platform

    import warp as wp

    import warpsim

    def version(name: str) -> str:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return "not installed"

    def installed(module: str, extra: str) -> str:
        found = importlib.util.find_spec(module) is not None
        return "yes" if found else f"no; install warpsim[{extra}]"

    devices = {
        str(d): f"{d.name}, sm_{d.arch}, {d.total_memory / 2**30:.0f} GiB"
        if d.is_cuda
        else platform.processor() or "CPU"
        for d in wp.get_devices()
    }
    cuda = wp.is_cuda_available()
    packages = ("warp-lang", "mujoco", "usd-core", "numpy", "zarr", "viser", "matplotlib", "mujoco-warp", "gymnasium")
    return {
        "devices": devices,
        "versions": {"warpsim": warpsim.__version__, "python": platform.python_version()}
        | {name: version(name) for name in packages},
        "works here": {
            "simulation on the CPU": "yes",
            "simulation on CUDA": "yes" if cuda else "no: no CUDA driver or device was found",
            "compile check for CUDA (python -m warpsim.tools.kernel_modules)": "yes" if _can_compile_cuda() else "no",
            "warpsim demo": installed("gymnasium", "demo"),
            "web pages and the live viewer": installed("viser", "show"),
            "plots": installed("matplotlib", "show"),
            "warpsim bench against mujoco_warp": installed("mujoco_warp", "bench"),
            "State.torch()": installed("torch", "torch"),
            "State.jax()": installed("jax", "jax"),
            "State.cupy()": installed("cupy", "gpu") if cuda else "no: needs CUDA",
        },
    }


def _can_compile_cuda() -> bool:
    import warp as wp

    runtime = wp._src.context.runtime
    return bool(getattr(runtime, "toolkit_version", None))


def _printable() -> None:
    """Print a question mark for characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _quiet() -> None:
    """Suppress Warp's start-up banner and compile lines (WARPSIM_VERBOSE=1 keeps them).

    Warnings are printed as one line each, MuJoCo's too, instead of going to a log file.
    """
    import warnings

    import mujoco

    import warpsim

    warpsim._hush()
    warnings.formatwarning = lambda message, *where: f"warning: {message}\n"
    said = set()

    def warn(message: str) -> None:
        if message not in said:
            said.add(message)
            print(f"mujoco: {message}", file=sys.stderr)

    mujoco.set_mju_user_warning(warn)


GROUPS: dict[str, dict[str, type]] = {
    "Simulate": {"run": Run, "resume": Resume, "replay": Replay, "view": View, "demo": Demo},
    "Robot files": {"info": Info, "identify": Identify},
    "Learn": {"tasks": Tasks, "train": Train, "play": Play, "export": Export},
    "This machine": {"devices": Devices, "warm": Warm, "bench": Bench},
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
HELP = "\n\n".join(
    [
        "warpsim COMMAND --help explains a command.",
        *(f"{group}: {', '.join(commands)}." for group, commands in GROUPS.items()),
    ]
)


def users_line(error: BaseException) -> str:
    """The last line of a user's own code, such as a term of a task, that an error went through; else empty."""
    ours = str(pathlib.Path(__file__).parents[1]) + os.sep
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    begun = next((k for k, (name, _) in enumerate(frames) if name.startswith(ours)), len(frames))
    library = (ours, *(sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "purelib", "platlib")), "<")
    own = [x for x in frames[begun:] if not x[0].startswith(library) and "site-packages" not in x[0]]
    return f"{own[-1][0]}, line {own[-1][1]}: " if own else ""


def main(args=None) -> int:
    """Run one command and return the exit code.

    The code is 0; 2 after a one-line message about an invalid request; 128 plus the number of the signal that ended it
    (130: Ctrl-C).
    """
    from warpsim.base.errors import Stopped

    _printable()
    try:
        command = tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="warpsim", description=HELP, args=args)
        _quiet()
        from warpsim.device.interrupts import ended_by_signals  # imports Warp, which --help does not need

        with ended_by_signals():
            command()
    except BrokenPipeError:  # as of `warpsim tasks | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE
    except Stopped as stop:
        print(f"warpsim: {stop}", file=sys.stderr)
        return stop.code
    except KeyboardInterrupt:
        print("warpsim: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        place = users_line(error)
        if not (place or isinstance(error, (ValueError, ImportError, OSError, MemoryError))):
            raise
        kind = "" if isinstance(error, (ValueError, ImportError, OSError)) else f"{type(error).__name__}: "
        print(f"warpsim: {' '.join(f'{place}{kind}{error}'.split())}", file=sys.stderr)
        return 2
    return 0
