# SPDX-License-Identifier: Apache-2.0
"""`warpsim tasks`: names, what is in a task, a picture."""

import struct

from warpsim.envs import TASKS
from warpsim.tools.cli import main


def test_all_names_are_listed(capsys):
    """With a line about each task."""
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = dict(line.split(": ", 1) for line in lines if ": " in line)
    assert set(TASKS) <= set(told) and all(told[name] for name in TASKS)


def test_a_task_is_told_and_drawn(capsys, tmp_path):
    """Its terms by name, rewards with their weights; the picture is a small PNG. Wrong requests are one line."""
    path = tmp_path / "push.png"
    assert main(["tasks", "push", "--picture", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Push: A paddle pushes a box") and "rewards: far (-2), near (1)" in out
    assert "success: place, angle" in out
    data = path.read_bytes()
    assert data[:4] == b"\x89PNG" and struct.unpack(">2I", data[16:24]) == (480, 320) and len(data) < 150_000
    for wrong, words in (
        (["tasks", "unicycle"], "choose one of"),
        (["tasks", "--picture", str(path)], "of one task"),
        (["tasks", "push", "--picture", str(tmp_path / "a.jpg")], ".png"),
    ):
        assert main(wrong) == 2 and words in capsys.readouterr().err
