# SPDX-License-Identifier: Apache-2.0
"""Starting Warp leaves out one line of stderr, and nothing else."""

import os

import pytest

from warpsim.device.start import _without_driver_line


def test_other_lines_stay(capfd):
    """What else is written meanwhile comes afterwards, also where the start fails."""
    line = b"Warp CUDA warning: Could not find or load the NVIDIA CUDA driver. GPU execution will not be available.\n"
    with pytest.raises(ZeroDivisionError), _without_driver_line():
        os.write(2, b"one\n" + line + b"two")
        raise ZeroDivisionError
    os.write(2, b" three\n")
    assert capfd.readouterr().err == "one\ntwo three\n"


def test_no_stderr(monkeypatch):
    """A process without one, as a service has, starts too."""

    def closed(descriptor):
        raise OSError

    monkeypatch.setattr(os, "dup", closed)
    with _without_driver_line():
        pass
