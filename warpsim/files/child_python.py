# SPDX-License-Identifier: Apache-2.0
"""Code in a process of its own: a crash of what it reads ends that process alone."""

import os
import subprocess
import sys


def run_python(code: str, *arguments: str, seconds: float, text: str = "") -> int:
    """Run code in a Python of its own, which finds what this one does, and return its exit status.

    Raises `subprocess.TimeoutExpired`.
    """
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        input=text.encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=seconds,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    ).returncode
