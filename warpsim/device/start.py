# SPDX-License-Identifier: Apache-2.0
"""Starting Warp without the line that this machine has no CUDA driver: on a CPU there is nothing to do about it."""

import contextlib
import os
import tempfile

import warp as wp

NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"


def start_warp() -> None:
    """`wp.init()`; Warp's line about a missing CUDA driver is left out unless its log level is below warnings.

    A CUDA device that is asked for and missing is an error of its own (`device_called`).
    """
    if wp._src.context.runtime is not None:
        return
    with _without_driver_line() if wp.config.log_level >= wp.LOG_WARNING else contextlib.nullcontext():
        wp.init()


@contextlib.contextmanager
def _without_driver_line():
    """Inside, the process's stderr goes to a file; at the end what is there is written to stderr, but for that line.

    Warp's native library writes the line, so it has to be the file descriptor.
    """
    try:
        written, usual = tempfile.TemporaryFile(), os.dup(2)
    except OSError:  # no stderr, or no place for a file
        yield
        return
    with written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(usual, 2)
            os.close(usual)
            written.seek(0)
            if rest := b"".join(line for line in written if NO_DRIVER not in line):
                os.write(2, rest)
