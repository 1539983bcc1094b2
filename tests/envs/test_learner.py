# SPDX-License-Identifier: Apache-2.0
"""Training: it learns, repeats bit for bit, goes on with the same bits, and leaves what one can watch."""

import json
import subprocess
import sys

import numpy as np
import pytest

from warpsim.tools.cli import main

pytest.importorskip("torch")
pytest.importorskip("rsl_rl")


def weights(learner) -> bytes:
    parts = [learner.ppo.actor] if learner.algorithm == "ppo" else [learner.actor, learner.average]
    return b"".join(x.cpu().numpy().tobytes() for part in parts for x in part.state_dict().values())


@pytest.mark.parametrize("algorithm", ["ppo", "shac"])
def test_a_training_repeats_and_goes_on(tmp_path, algorithm):
    """The same seed: the same curve and weights, on one and two threads, and when it is resumed from a checkpoint."""
    from warpsim.envs.training import load_learner, make_learner

    def Learner(*given, **options):
        return make_learner(algorithm, *given, **options)

    whole, again = (Learner("hopper", seed=3, num_envs=64, device="cpu", threads=n) for n in (1, 2))
    curve = [whole.iterate() for _ in range(6)]
    assert [again.iterate() for _ in range(3)] == curve[:3]
    again.save(tmp_path / "checkpoint.pt")
    resumed = load_learner(tmp_path / "checkpoint.pt", device="cpu")
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
    assert {p.name for p in out.iterdir() if not p.name.startswith("events.")} == {
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


def test_what_is_kept_is_what_was_judged(tmp_path):
    """However a training ends, the checkpoint is of its last iteration; a training anew leaves nothing of the one before."""
    from warpsim.envs.training import load_learner, train

    (tmp_path / "events.out.tfevents.old").write_text("")
    for algorithm in ("ppo", "shac"):
        options = {"algorithm": algorithm, "num_envs": 16, "out": tmp_path, "device": "cpu"}
        result = train("cartpole", cpu_seconds=0.5 if algorithm == "ppo" else 1.0, **options)
        assert load_learner(tmp_path / "checkpoint.pt", device="cpu").iteration == result["iterations"]
        again = load_learner(tmp_path / "checkpoint.pt", device="cpu", policy_only=True)
        assert again.evaluate()["returns"] == result["returns"]
        assert len(json.loads((tmp_path / "curve.json").read_text())) == result["iterations"]
    assert not (tmp_path / "events.out.tfevents.old").exists()


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


def test_a_training_goes_on_as_what_it_is(tmp_path, capsys):
    """`--resume` with another seed, algorithm, number of environments or fewer iterations than are done is refused by name; without them it goes on."""
    out = ["--out", str(tmp_path)]
    assert (
        main(["train", "cartpole", *out, "--algorithm", "shac", "--seed", "3", "--envs", "16", "--iterations", "2"])
        == 0
    )
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for wrong, words in (
        (["--seed", "4"], ("seed", "3", "4")),
        (["--algorithm", "ppo"], ("algorithm", "shac", "ppo")),
        (["--envs", "8"], ("num_envs", "16", "8")),
        (["--iterations", "1"], ("iterations", "2", "1")),
    ):
        capsys.readouterr()
        assert main(["train", "cartpole", *out, "--resume", *wrong]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1 and all(word in message for word in words), message
    assert main(["train", "hopper", *out, "--resume"]) == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    assert main(["train", "cartpole", *out, "--resume", "--iterations", "3"]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["seed"], result["algorithm"], result["num_envs"], result["iterations"]) == (3, "shac", 16, 3)


@pytest.mark.parametrize("algorithm", ["ppo", "shac"])
def test_two_processes_learn_one_policy(tmp_path, algorithm):
    """Under torchrun: environments are shared, curves repeat, also when they are resumed; processes of another number are refused."""
    run = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "warpsim",
        "train",
    ]
    run += ["cartpole", "--algorithm", algorithm, "--envs", "32", "--device", "cpu"]

    def trained(name: str, iterations: int, *more: str) -> list:
        out = tmp_path / name
        command = [*run, "--out", str(out), "--iterations", str(iterations), *more]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
        return json.loads((out / "curve.json").read_text())

    whole = trained("whole", 4)
    assert trained("half", 2) == whole[:2]
    assert trained("half", 4, "--resume") == whole
    assert whole[-1]["env_steps"] == 4 * 32 * (32 if algorithm == "ppo" else 16)
    if algorithm == "shac":  # normalization and episodes are of all 32 environments, not of one process
        import torch

        kept = torch.load(tmp_path / "whole" / "checkpoint.pt", weights_only=True)
        assert float(kept["learned"]["standard"]["count"]) == pytest.approx(4 * 32 * 16)
        other = torch.load(tmp_path / "whole" / "1.checkpoint.pt", weights_only=True)
        assert kept["episodes"] == other["episodes"] and kept["finished"] == other["finished"]
    assert main(["train", "cartpole", "--out", str(tmp_path / "whole"), "--resume", "--iterations", "5"]) == 2
    assert main(["play", str(tmp_path / "whole")]) == 0
