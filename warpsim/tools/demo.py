# SPDX-License-Identifier: Apache-2.0
"""The main use in one command: a robot in many worlds on the ground, as a web page, an image and a USD stage."""

import contextlib
import importlib.util
import os
import pathlib
import sys
import threading
import time
import webbrowser

from warpsim.base.extras import import_or_explain

ROBOT = "humanoid"
DT = 0.01  # s; three times the file's step, which the convex solver allows
CONTROL = 0.4  # fraction of the control range
NOISE = 0.05  # rad, rad/s, m/s
SHOWN = 64  # worlds in the USD stage and on the page
# Worlds in the image, and its time as a fraction of the rollout, seen from just above the crowd.
PICTURED = 144
PICTURE_TIME = 0.1
EYE, TARGET, FIELD_OF_VIEW = (6.5, -11.5, 3.6), (1.0, 0.0, -1.2), 36.0  # m, m, degrees
PATIENCE = 6.0  # s until a browser has answered; Python waits up to 5 s for a running one


def robot_path(name: str) -> str:
    """MJCF file of a robot of the `gymnasium` package. Raises `ImportError` and `ValueError` that say what to do."""
    found = importlib.util.find_spec("gymnasium")
    origin = import_or_explain("gymnasium", "demo").__file__ if found is None else found.origin
    folder = pathlib.Path(origin).parent / "envs" / "mujoco" / "assets"
    path = folder / f"{name}.xml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.xml")))
        raise ValueError(f"no robot {name!r} in gymnasium; it has: {known}")
    return str(path)


def run(worlds: int, steps: int, device: str | None, out: str, open_page: bool = True) -> None:
    """Roll out, print the summary, write `demo.html`, `demo.png` and `demo.usd` in the folder `out`, and open the page.

    Every part has a line when it is done, and on a terminal a bar meanwhile.
    """
    import_or_explain("viser", "demo")
    path = robot_path(ROBOT)
    from rich.console import Console

    from warpsim.files.output import check_file
    from warpsim.tools.runs import perturbed_start, print_summary, progress_bar, smooth_controls, timed_rollout

    console = Console(highlight=False, soft_wrap=True)
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    parts = (("page", "demo.html", _page), ("picture", "demo.png", _picture), ("stage", "demo.usd", _usd))
    for _, name, _ in parts:
        check_file(folder / name)
    start = time.perf_counter()
    console.print(f"robot: {ROBOT}, {worlds} worlds, {steps} steps of {DT:g} s")
    with progress_bar("loading", 0):
        from warpsim import Simulator, load

        model = load(path)
        sim = Simulator(model, worlds, dt=DT, device=device)
        state = sim.state(*perturbed_start(model, worlds, NOISE))
        controls = smooth_controls(model, worlds, steps, DT, amplitude=CONTROL)
    console.print(f"kernels: loading on {sim.device}; the first run compiles them")
    trajectory, summary = timed_rollout(sim, state, controls, steps, tell=console.print)
    print_summary(summary, console)
    for what, name, write in parts:
        began = time.perf_counter()
        with progress_bar(what, 0):
            write(trajectory, folder / name)
        size = (folder / name).stat().st_size / 1e6
        console.print(f"{what}: {folder / name}  ({size:.1f} MB, {time.perf_counter() - began:.1f} s)")
        if what == "page" and open_page and show_page(folder / name):
            console.print("the page opens in the browser")
    console.print(f"done in {time.perf_counter() - start:.0f} s; open {folder / 'demo.html'}")


def show_page(path) -> bool:
    """Open a page in the browser; whether that was done.

    It is not done in CI, without a terminal (a pipe, a job), over SSH, without a display, where the only browser is one
    of the terminal, and where `BROWSER` is no command. A browser that does not answer is not waited for.
    """
    if os.environ.get("CI") or not sys.stdout.isatty() or not has_display(os.environ, sys.platform):
        return False
    address, opened = pathlib.Path(path).resolve().as_uri(), []

    def ask() -> None:
        with contextlib.suppress(webbrowser.Error, OSError, ValueError):  # ValueError: an open quotation in BROWSER
            browser = webbrowser.get()
            if not takes_terminal(browser):
                opened.append(browser.open(address))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return bool(opened and opened[0])


def takes_terminal(browser) -> bool:
    """Whether a browser runs in the terminal until the user leaves it, as w3m and elinks do."""
    remote = getattr(webbrowser, "UnixBrowser", ())  # those that a running one may open a page for
    return type(browser) is webbrowser.GenericBrowser or (isinstance(browser, remote) and not browser.background)


def has_display(environment, platform: str) -> bool:
    """Whether windows can be opened: on Linux by X or Wayland, which SSH may forward; elsewhere if not over SSH."""
    if platform in ("win32", "darwin", "cygwin"):
        return not any(environment.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


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
