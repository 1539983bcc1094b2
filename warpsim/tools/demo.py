# SPDX-License-Identifier: Apache-2.0
"""The main use in one command: a robot in many worlds on the ground, as a USD stage, a web page and an image."""

import pathlib
import time

from warpsim import Simulator, load
from warpsim.tools.runs import perturbed_start, print_summary, smooth_controls, timed_rollout

ROBOT = "humanoid"
DT = 0.01  # s; three times the file's step, which the convex solver allows
CONTROL = 0.4  # fraction of the control range
NOISE = 0.05  # rad, rad/s, m/s
SHOWN = 64  # worlds in the USD stage and on the page
# Worlds in the image, and its time as a fraction of the rollout, seen from just above the crowd.
PICTURED = 144
PICTURE_TIME = 0.1
EYE, TARGET, FIELD_OF_VIEW = (6.5, -11.5, 3.6), (1.0, 0.0, -1.2), 36.0  # m, m, degrees


def robot_path(name: str) -> str:
    """MJCF file of a robot of the `gymnasium` package. Raises `ImportError` and `ValueError` that say what to do."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError(
            "the robots come from gymnasium, which is not installed; run: pip install 'warpsim[demo]'"
        ) from error
    folder = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    path = folder / f"{name}.xml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.xml")))
        raise ValueError(f"no robot {name!r} in gymnasium; it has: {known}")
    return str(path)


def run(worlds: int, steps: int, device: str | None, out: str) -> None:
    """Roll out, print the summary, write `out/demo.usd`, `out/demo.html` and `out/demo.png`."""
    from rich.console import Console

    console = Console(highlight=False)
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    model = load(robot_path(ROBOT))
    sim = Simulator(model, worlds, dt=DT, device=device)
    console.print(
        f"{ROBOT}, {worlds} worlds, {steps} steps of {DT:g} s on {sim.device}; the first run compiles kernels"
    )
    state = sim.state(*perturbed_start(model, worlds, NOISE))
    controls = smooth_controls(model, worlds, steps, DT, amplitude=CONTROL)
    trajectory, summary = timed_rollout(sim, state, controls, steps)
    print_summary(summary, console)
    for name, write in (("demo.usd", _usd), ("demo.html", _page), ("demo.png", _picture)):
        began = time.perf_counter()
        write(trajectory, folder / name)
        size = (folder / name).stat().st_size / 1e6
        console.print(f"wrote {folder / name}  ({size:.1f} MB, {time.perf_counter() - began:.1f} s)")
    console.print(f"all in {time.perf_counter() - start:.0f} s; open {folder / 'demo.html'} in a browser")


def _usd(trajectory, path) -> None:
    trajectory.to_usd(path, worlds=min(SHOWN, trajectory.worlds))


def _page(trajectory, path) -> None:
    trajectory.to_html(path, worlds=min(SHOWN, trajectory.worlds))


def _picture(trajectory, path) -> None:
    from warpsim.show.render import Camera

    frame = int(PICTURE_TIME * trajectory.steps)
    camera = Camera(EYE, TARGET, FIELD_OF_VIEW) if trajectory.worlds >= PICTURED else None
    worlds = min(PICTURED, trajectory.worlds)
    trajectory.render(path, worlds=worlds, frame=frame, width=1200, height=500, camera=camera)
