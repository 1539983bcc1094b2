# SPDX-License-Identifier: Apache-2.0
"""One line that says what a step of setting up is doing: `make` runs `python -m venv` and `python -m pip` through this.

    python -I warpsim/tools/setup_line.py packages -m pip install -e ".[demo]"

On a terminal the line moves; elsewhere, and in CI, there is one line at the beginning and one at the end. The output of
the command is shown only if it fails. This file is run before warpsim and its dependencies are there.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time

PERIOD = 0.2  # s between two drawings of the line
SHOWN = 40  # lines of output after a failure
BAR = 20  # characters


def news(lines: list, there: int, before: int) -> str:
    """What pip is doing, by its output and the number of packages in the environment now and before."""
    for line in reversed(lines):
        if found := re.match(r"Installing collected packages: (.*)", line):
            total = found[1].count(",") + 1
            done = min(max(there - before, 0), total)
            full = BAR * done // total
            return f"installing {'#' * full}{'.' * (BAR - full)} {done}/{total}"
        if found := re.match(r" *(?:Collecting|Downloading|Using cached|Obtaining|Building) (.*)", line):
            return f"{line.split()[0].lower()} {found[1].rsplit('/', 1)[-1]}"
    return ""


def packages() -> int:
    """Packages in the environment of this interpreter."""
    return sum(1 for _ in pathlib.Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


def main(what: str, *command: str) -> int:
    """Run a command of this interpreter, and return its exit code."""
    moving = sys.stdout.isatty() and not os.environ.get("CI")
    start, before, lines = time.monotonic(), packages(), []
    if not moving:
        print(f"{what} ...", flush=True)
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    process = subprocess.Popen([sys.executable, *command], **options)
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")), daemon=True)
    reader.start()
    try:
        while reader.is_alive():
            reader.join(PERIOD)
            if moving:
                text = f"{what}: {time.monotonic() - start:.0f} s  {news(lines, packages(), before)}"
                print(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
        code = process.wait()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has had it too, and gets the next one
        process.wait()
        reader.join(PERIOD)
        code = 130
    new = packages() - before
    told = f"{what}: {f'{new} installed, ' if new > 0 else ''}{time.monotonic() - start:.0f} s"
    if code:
        told = f"{''.join(lines[-SHOWN:])}{what}: failed with exit code {code}"
    print(f"{chr(13) + chr(27) + '[K' if moving else ''}{told}", flush=True)
    return code


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # what the terminal cannot show
    sys.exit(main(*sys.argv[1:]))
