"""Training: it learns, repeats bit for bit, goes on with the same bits, and leaves what one can watch."""

import json

import numpy as np
import pytest

from warpsim.cli import main

pytest.importorskip("torch")
pytest.importorskip("rsl_rl")


def weights(learner) -> bytes:
    return b"".join(x.cpu().numpy().tobytes() for x in learner.ppo.save()["actor_state_dict"].values())


def test_a_training_repeats_and_goes_on(tmp_path):
    """The same seed: the same curve and weights, on one and two threads, and when it is resumed from a checkpoint."""
    from warpsim.envs.learner import Learner

    whole, again = (Learner("hopper", seed=3, num_envs=64, device="cpu", threads=n) for n in (1, 2))
    curve = [whole.iterate() for _ in range(6)]
    assert [again.iterate() for _ in range(3)] == curve[:3]
    again.save(tmp_path / "checkpoint.pt")
    resumed = Learner.load(tmp_path / "checkpoint.pt", device="cpu")
    assert [resumed.iterate() for _ in range(3)] == curve[3:]
    assert weights(resumed) == weights(whole)
    other = Learner("hopper", seed=4, num_envs=64, device="cpu")
    assert other.iterate() != curve[0]


def test_a_pole_is_learned_to_stand(tmp_path, capsys):
    """`warpsim train` and `warpsim play`: the pole stays up, and the folder holds checkpoint, curve, page and stage."""
    out = tmp_path / "pole"
    command = ["train", "inverted_pendulum", "--seed", "1", "--out", str(out), "--iterations", "40", "--envs", "128"]
    assert main([*command, "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["return"] > 900 and len(result["returns"]) == 10 and result["faults"] == 0
    assert {p.name for p in out.iterdir()} == {
        "checkpoint.pt",
        "curve.json",
        "result.json",
        "policy.html",
        "policy.usd",
    }
    assert main(["play", str(out)]) == 0
    assert f"return {result['return']:.0f}" in capsys.readouterr().out
    curve = json.loads((out / "curve.json").read_text())
    assert len(curve) == 40 and np.isfinite([row["spread"] for row in curve]).all()


def test_wrong_use_is_one_line(tmp_path, capsys):
    """Unknown tasks, folders without a training."""
    for command in (
        ["train", "unicycle"],
        ["play", str(tmp_path)],
        ["train", "hopper", "--resume", "--out", str(tmp_path)],
    ):
        assert main(command) == 2
        message = capsys.readouterr().err
        assert message.startswith("warpsim: ") and message.count("\n") == 1
