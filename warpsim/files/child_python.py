# SPDX-License-Identifier: Apache-2.0
"""Run code in a child process: if the code that reads a file crashes, only that process ends."""

import os
import subprocess
import sys


def run_python(code: str, *arguments: str, seconds: float, text: str = "") -> int:
    """Run code in a child Python with this one's import paths, and return its exit status.

    `text` is its standard input. Raises `subprocess.TimeoutExpired`.
    """
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        input=text.encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=seconds,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    ).returncode
