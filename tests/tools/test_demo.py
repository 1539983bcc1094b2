# SPDX-License-Identifier: Apache-2.0
"""What `make demo` and `warpsim demo` print, in which order they write, and when they open the page."""

import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import webbrowser

import pytest

from warpsim.tools import demo, setup_line
from warpsim.tools.cli import main


class Browser(webbrowser.BaseBrowser):
    """Keeps what it is asked to open."""

    def __init__(self):
        super().__init__("pretended")
        self.opened = []

    def open(self, url, new=0, autoraise=True):
        self.opened.append(url)
        return True


@pytest.fixture
def browser(monkeypatch):
    """A desktop: a terminal, a display, no CI, and a browser that only remembers."""
    found = Browser()
    monkeypatch.setattr(webbrowser, "get", lambda using=None: found)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(demo, "has_display", lambda environment, platform: True)
    monkeypatch.delenv("CI", raising=False)
    return found


def test_every_part_of_the_demo_has_a_line(tmp_path, monkeypatch, capsys):
    """The page comes before picture and stage, and its path is printed before they begin; a pipe gets plain lines only."""
    pytest.importorskip("gymnasium")
    pytest.importorskip("viser")
    before = {}

    def watched(name):
        write = getattr(demo, name)

        def call(trajectory, path):
            before[name] = capsys.readouterr().out, sorted(x.name for x in tmp_path.iterdir())
            write(trajectory, path)

        return call

    for name in ("_page", "_picture", "_usd"):
        monkeypatch.setattr(demo, name, watched(name))
    assert main(["demo", "--worlds", "2", "--steps", "20", "--device", "cpu", "--out", str(tmp_path)]) == 0
    rest = capsys.readouterr().out
    assert [files for _, files in before.values()] == [[], ["demo.html"], ["demo.html", "demo.png"]]
    assert list(before) == ["_page", "_picture", "_usd"]
    told = [text for text, _ in before.values()]
    starts = [line.partition(":")[0] for line in told[0].splitlines() if re.match(r"\w+:", line)]
    assert starts[:4] == ["robot", "kernels", "kernels", "steps"]  # then the summary
    assert told[1].startswith(f"page: {tmp_path / 'demo.html'}") and told[2].startswith("picture: ")
    assert rest.startswith(f"stage: {tmp_path / 'demo.usd'}") and f"open {tmp_path / 'demo.html'}" in rest
    assert "\x1b" not in "".join(told) + rest


@pytest.mark.parametrize("name", ["demo.html", "demo.png", "demo.usd"])
def test_what_cannot_be_written_is_said_first(name, tmp_path, capsys):
    """Before anything is loaded or written, with the path."""
    pytest.importorskip("gymnasium")
    pytest.importorskip("viser")
    (tmp_path / name).mkdir()
    assert main(["demo", "--worlds", "2", "--steps", "20", "--device", "cpu", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and f"{tmp_path / name} is a folder" in told.err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_page_opens_on_a_desktop(browser, tmp_path):
    """The browser gets the page's address."""
    assert demo.show_page(tmp_path / "demo.html")
    assert browser.opened == [(tmp_path / "demo.html").as_uri()]


def test_a_browser_that_hangs_is_not_waited_for(browser, tmp_path, monkeypatch):
    """The demo goes on: looking for a browser asks programs of the desktop, which may never answer."""
    answer = threading.Event()
    monkeypatch.setattr(webbrowser, "get", lambda using=None: answer.wait(60) and browser)
    monkeypatch.setattr(demo, "PATIENCE", 0.05)
    start = time.monotonic()
    assert not demo.show_page(tmp_path / "demo.html")
    assert time.monotonic() - start < 30
    answer.set()


@pytest.mark.parametrize(
    "where", ["CI", "pipe", "no display", "only a terminal's browser", "only elinks", "no browser", "an open quotation"]
)
def test_the_page_stays_closed_elsewhere(where, browser, tmp_path, monkeypatch):
    """Nothing is opened, and nothing is said of it."""
    if where == "CI":
        monkeypatch.setenv("CI", "true")
    elif where == "pipe":
        monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    elif where == "no display":
        monkeypatch.setattr(demo, "has_display", lambda environment, platform: False)
    elif where == "only elinks":
        monkeypatch.setattr(webbrowser, "get", lambda using=None: webbrowser.Elinks("no_such_program"))
    elif where == "an open quotation":

        def unquoted(using=None):
            return shlex.split("browser '%s")

        monkeypatch.setattr(webbrowser, "get", unquoted)
    elif where == "no browser":

        def none(using=None):
            raise webbrowser.Error("could not locate runnable browser")

        monkeypatch.setattr(webbrowser, "get", none)
    else:
        monkeypatch.setattr(webbrowser, "get", lambda using=None: webbrowser.GenericBrowser("no_such_program"))
    assert not demo.show_page(tmp_path / "demo.html") and not browser.opened


@pytest.mark.parametrize(
    ("environment", "platform", "found"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"SSH_CONNECTION": "1 2 3 4"}, "linux", False),
        ({"SSH_CONNECTION": "1 2 3 4", "DISPLAY": "localhost:10.0"}, "linux", True),
        ({"DISPLAY": ""}, "linux", False),
        ({}, "darwin", True),
        ({"SSH_TTY": "/dev/ttys1"}, "darwin", False),
        ({}, "win32", True),
        ({"SSH_CLIENT": "1 2 3"}, "win32", False),
    ],
)
def test_displays(environment, platform, found):
    """A display is X or Wayland on Linux; macOS and Windows have one, unless the user comes over SSH."""
    assert demo.has_display(environment, platform) is found


def setting_up(*command: str) -> subprocess.CompletedProcess:
    program = [sys.executable, "-I", setup_line.__file__, "packages", *command]
    return subprocess.run(program, capture_output=True, text=True)


def test_a_step_of_setting_up_has_two_lines_in_a_pipe():
    """One at the beginning and one at the end, without the output of a command that succeeds."""
    done = setting_up("-c", "print('noise')")
    assert done.returncode == 0 and not done.stderr
    assert re.fullmatch(r"packages \.\.\.\npackages: \d+ s\n", done.stdout)


def test_a_failed_step_shows_why():
    """The end of the output, errors included, and the exit code, which is the command's."""
    done = setting_up("-c", "import sys; print('first'); print('the reason', file=sys.stderr); sys.exit(3)")
    assert done.returncode == 3
    assert "first" in done.stdout and "the reason" in done.stdout
    assert done.stdout.endswith("packages: failed with exit code 3\n")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="groups of processes are of Unix")
def test_two_interrupts_end_a_step_of_setting_up(from_terminal, tmp_path):
    """Both go to the command, which may clean up after the first; the exit code is 130, and there is no traceback of ours."""
    program = (
        "import pathlib, sys, time\nsteps = [pathlib.Path(x) for x in sys.argv[1:]]\n"
        "try:\n    steps[0].touch()\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    try:\n        steps[1].touch()\n        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n        sys.exit('ended')\n"
    )
    steps = [tmp_path / "begun", tmp_path / "interrupted"]
    command = [sys.executable, "-I", setup_line.__file__, "packages", "-c", program, *map(str, steps)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    for step in steps:
        while not step.exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == ""
    assert out.endswith("ended\npackages: failed with exit code 130\n")


def test_news_of_pip():
    """The last thing that pip says; while it installs, the share of the packages that are there."""
    lines = ["Collecting numpy>=2.0\n", "  Downloading https://files.example/numpy-2.4-x86_64.whl (18.0 MB)\n"]
    assert setup_line.news([], 1, 1) == ""
    assert setup_line.news(lines[:1], 1, 1) == "collecting numpy>=2.0"
    assert setup_line.news(lines, 1, 1) == "downloading numpy-2.4-x86_64.whl (18.0 MB)"
    lines += ["Installing collected packages: a, b, c, d\n"]
    assert setup_line.news(lines, 3, 2) == "installing #####............... 1/4"
    assert setup_line.news(lines, 9, 2).endswith("4/4")


def test_the_file_runs_before_anything_is_installed():
    """It imports the standard library alone."""
    text = pathlib.Path(setup_line.__file__).read_text()
    names = set(re.findall(r"^(?:import|from) (\w+)", text, flags=re.M))
    assert names and names <= sys.stdlib_module_names
