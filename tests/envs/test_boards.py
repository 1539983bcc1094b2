# SPDX-License-Identifier: Apache-2.0
"""Weights & Biases beside TensorBoard: both get every iteration, and the training stays the same."""

import json
import sys

import pytest

from warpsim.tools.cli import main

pytest.importorskip("torch")
pytest.importorskip("rsl_rl")

TRAIN = ["train", "cartpole", "--envs", "8", "--iterations", "2", "--device", "cpu"]


class Run:
    """What a run of wandb does, kept."""

    def __init__(self):
        self.rows, self.ended = [], []

    def log(self, row, step):
        self.rows.append((step, row))

    def finish(self, exit_code):
        self.ended.append(exit_code)


def test_both_boards_get_every_iteration(tmp_path, monkeypatch):
    """The axis is the number of env-steps, the run is closed, and the curve has the bits of one without a board."""
    wandb = pytest.importorskip("wandb")
    run, asked = Run(), []
    monkeypatch.setattr(wandb, "init", lambda **options: asked.append(options) or run)
    assert main([*TRAIN, "--out", str(tmp_path / "a"), "--wandb", "mine"]) == 0
    assert main([*TRAIN, "--out", str(tmp_path / "b")]) == 0
    curve = json.loads((tmp_path / "a" / "curve.json").read_text())
    assert curve == json.loads((tmp_path / "b" / "curve.json").read_text())
    assert [step for step, _ in run.rows] == [row["env_steps"] for row in curve]
    assert run.rows[0][1]["spread"] == curve[0]["spread"] and run.ended == [0]
    assert len(asked) == 1 and asked[0]["project"] == "mine" and asked[0]["config"]["task"] == "CartPole"
    if "tensorboard" in sys.modules:
        assert list((tmp_path / "a").glob("events.out.tfevents.*"))


def test_a_server_that_does_not_answer_makes_an_offline_run(tmp_path, monkeypatch):
    """The run is kept in the folder, with a warning."""
    wandb = pytest.importorskip("wandb")
    from warpsim.envs.training import train

    run, modes = Run(), []

    def init(mode=None, **options):
        modes.append(mode)
        if mode is None:
            raise wandb.errors.CommError("no network")
        return run

    monkeypatch.setattr(wandb, "init", init)
    with pytest.warns(UserWarning, match="no network.*wandb sync"):
        train("cartpole", num_envs=8, iterations=1, out=tmp_path, device="cpu", wandb="mine")
    assert modes == [None, "offline"] and len(run.rows) == 1


def test_wandb_is_asked_for_by_name_and_only_then_needed(tmp_path, monkeypatch, capsys):
    """A missing package is one line before anything is made; an empty project too."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main([*TRAIN, "--out", str(tmp_path / "a"), "--wandb", "mine"]) == 2
    message = capsys.readouterr().err
    assert "pip install 'warpsim[wandb]'" in message and message.count("\n") == 1
    assert main([*TRAIN, "--out", str(tmp_path / "a"), "--wandb", ""]) == 2
    assert "give the name of a project" in capsys.readouterr().err
    assert not (tmp_path / "a" / "checkpoint.pt").exists()
