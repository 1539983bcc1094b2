# SPDX-License-Identifier: Apache-2.0
"""What cannot be learned ends in one clear line: tasks without rewards, weights that become NaN, no gradient."""

import json
import pathlib

import pytest

import warpsim as ws
from warpsim.base.errors import Diverged
from warpsim.base.extras import import_or_explain
from warpsim.envs import TASKS
from warpsim.tools.cli import main

URDF = (
    '<robot name="arm"><link name="base"/><joint name="turn" type="revolute"><parent link="base"/><child link="arm"/>'
    '<limit effort="1" velocity="1" lower="-1" upper="1"/></joint><link name="arm"><inertial><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>'
)
SMALL = {"ppo": {"horizon": 4, "hidden": (4,), "envs": 2}, "shac": {"horizon": 2, "hidden": (4,), "envs": 2}}
BOTH = pytest.mark.parametrize("algorithm", ["ppo", "shac"])


def pole(**attributes) -> type:
    return type("Pole", (TASKS["CartPole"],), {"learning": SMALL, "evaluation": {"episode": 3}} | attributes)


@pytest.fixture
def torch():
    pytest.importorskip("rsl_rl")
    return pytest.importorskip("torch")


def poisoned(monkeypatch, torch, part: str, at: int, value=float("nan")) -> None:
    """In the iteration `at`, the update leaves a NaN in the critic or in the actor."""
    from warpsim.envs.ppo import PpoLearner
    from warpsim.envs.shac import ShacLearner

    for kind, owner in ((PpoLearner, lambda x: x.ppo), (ShacLearner, lambda x: x)):

        def iterate(learner, plain=kind._iterate, owner=owner):
            told = plain(learner)
            if learner.iteration + 1 == at:
                with torch.no_grad():
                    next(getattr(owner(learner), part).parameters())[0] = value
            return told

        monkeypatch.setattr(kind, "_iterate", iterate)


@BOTH
def test_a_task_without_rewards(torch, tmp_path, algorithm):
    """It is an environment, and no training: refused before anything compiles, and the folder keeps what it has."""
    from warpsim.envs.training import train

    kinds = [pole(rewards={}), pole(smooth={"rewards": {}})][: 2 if algorithm == "shac" else 1]
    (tmp_path / "curve.json").write_text("[]")
    for kind in kinds:
        with pytest.raises(ValueError, match="Pole: rewards is empty, so that nothing can be learned"):
            train(kind, algorithm=algorithm, device="cpu", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["curve.json"]
    ws.envs.VectorEnv(pole(rewards={}), 1, device="cpu").reset()


@BOTH
def test_a_task_without_actuators(torch, tmp_path, algorithm):
    """A URDF that is loaded without `actuators` has none. It is an environment, and no training."""
    from warpsim.envs.training import train

    (tmp_path / "arm.urdf").write_text(URDF)
    kind = pole(model=tmp_path / "arm.urdf", rewards={"q": lambda s: s.q[:, 0]})
    with pytest.raises(ValueError, match="Pole: model 'arm' has no actuators, so that nothing can be learned; a URDF"):
        train(kind, algorithm=algorithm, device="cpu", out=tmp_path / "out")


@pytest.mark.parametrize(("algorithm", "part"), [("ppo", "actor"), ("shac", "critic")])
def test_weights_that_become_nan_end_a_training(torch, tmp_path, monkeypatch, algorithm, part):
    """The line names iteration and weights; checkpoint and curve are those of the iteration before, bit for bit."""
    from warpsim.envs.training import load_learner, play, train

    kind = pole()
    options = {"algorithm": algorithm, "device": "cpu", "seed": 101}
    train(kind, **options, out=tmp_path / "whole", iterations=3)
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        poisoned(patch, torch, part, at=3, value=float("nan") if part == "actor" else float("inf"))
        with pytest.raises(Diverged, match=rf"Pole, {algorithm}, iteration 3: {part}.* is not finite.*of iteration 2;"):
            train(kind, **options, out=out, iterations=5)
        with pytest.raises(Diverged, match="iteration 3"):  # and so it does when it is resumed
            train(kind, device="cpu", out=out, iterations=5, resume=True)
        with pytest.raises(Diverged, match=r"iteration 3: .* The training stops; train anew"):
            train(kind, **options, iterations=5)
    assert not (out / "result.json").exists()
    assert load_learner(out / "checkpoint.pt", task=kind, device="cpu").iteration == 2
    assert len(json.loads((out / "curve.json").read_text())) == 2
    play(out, task=kind, device="cpu")
    train(kind, device="cpu", out=out, iterations=3, resume=True)
    assert (out / "curve.json").read_bytes() == (tmp_path / "whole" / "curve.json").read_bytes()


@BOTH
def test_a_learning_rate_that_is_too_large(torch, tmp_path, capsys, monkeypatch, algorithm):
    """A true divergence, from the command line: one line, and no policy where the first iteration diverged."""
    monkeypatch.chdir(tmp_path)
    command = ["train", "cartpole", "--algorithm", algorithm, "--envs", "2", "--iterations", "9", "--device", "cpu"]
    command += [f"--{algorithm}.learning-rate", "1e30", f"--{algorithm}.horizon", "4"]
    assert main([*command, *(["--ppo.schedule", "fixed"] if algorithm == "ppo" else [])]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warpsim: ")]
    assert f"CartPole, {algorithm}, iteration" in line and "is not finite" in line, line
    assert "train anew with less than" in line and "1e+30" in line, line


@BOTH
def test_a_checkpoint_with_nan_is_refused(torch, tmp_path, algorithm):
    """Whoever wrote it: neither played nor resumed."""
    from warpsim.envs.training import play, train

    kind = pole()
    train(kind, algorithm=algorithm, device="cpu", out=tmp_path, iterations=1)
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    actor = kept["learned"]["actor_state_dict" if algorithm == "ppo" else "actor"]
    next(iter(actor.values())).view(-1)[0] = float("nan")
    torch.save(kept, tmp_path / "checkpoint.pt")
    for use in (lambda: play(tmp_path, task=kind, device="cpu"), lambda: train(kind, out=tmp_path, resume=True)):
        with pytest.raises(ValueError, match=r"checkpoint\.pt: actor.* is not finite.*train anew"):
            use()


def test_a_checkpoint_of_an_attacker_is_refused(torch, tmp_path):
    """Whatever it has instead of times, returns, random numbers, rounds and normalization is named before anything acts."""
    from warpsim.envs.training import load_learner, train

    kind, nan = pole(), float("nan")
    attacks = [
        ("both", "seconds", lambda kept: kept["seconds"].update(update=nan)),
        ("both", "checkpoint", lambda kept: kept.update(seconds={})),
        ("both", "finished", lambda kept: kept.update(finished=["x"])),
        ("both", "finished", lambda kept: kept.update(finished=[nan])),
        ("both", "returns", lambda kept: kept["returns"].fill_(nan)),
        ("both", "returns", lambda kept: kept.update(returns=kept["returns"][:1])),
        ("both", "random", lambda kept: kept.update(random=None)),
        ("both", "random", lambda kept: kept.update(random=[torch.zeros(3)])),
        ("both", "task", lambda kept: kept.update(task=3)),
        ("ppo", "learning rate", lambda kept: kept["learned"]["optimizer_state_dict"]["param_groups"][0].update(lr=-1)),
        ("shac", "past: ", lambda kept: kept["learned"]["past"].update(reward=torch.zeros(3, 1))),
        ("shac", "checkpoint", lambda kept: kept["learned"]["past"].pop("after")),
        ("shac", "variance", lambda kept: kept["learned"]["standard"]["variance"].fill_(-1.0)),
        ("shac", "skipped", lambda kept: kept["learned"].update(skipped="x")),
    ]
    for algorithm in ("ppo", "shac"):
        out = tmp_path / algorithm
        train(kind, algorithm=algorithm, device="cpu", out=out, num_envs=16, iterations=2)
        for who, words, attack in attacks:
            if who in ("both", algorithm):
                kept = torch.load(out / "checkpoint.pt", weights_only=True)
                attack(kept)
                torch.save(kept, tmp_path / "wrong.pt")
                with pytest.raises(ValueError, match=words):
                    load_learner(tmp_path / "wrong.pt", task=kind, device="cpu")
    kept = torch.load(tmp_path / "shac" / "checkpoint.pt", weights_only=True)
    kept["learned"]["actor_optimiser"]["param_groups"][0].update(lr=-1.0, maximize=True)
    torch.save(kept, tmp_path / "wrong.pt")
    group = load_learner(tmp_path / "wrong.pt", task=kind, device="cpu").actor_optimiser.param_groups[0]
    assert group["lr"] == 2e-3 and not group["maximize"]  # the settings'


def test_files_of_others_are_not_replaced(torch, tmp_path):
    """A folder with files of the names of a training's and without a checkpoint, before anything compiles."""
    from warpsim.envs.training import train

    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "mine.checkpoint.pt").write_text("mine")
    with pytest.raises(ValueError, match=r"has result\.json, which no training of warpsim wrote"):
        train(pole(), device="cpu", out=tmp_path, iterations=1)
    (tmp_path / "result.json").unlink()
    train(pole(), device="cpu", out=tmp_path, iterations=1)
    train(pole(), device="cpu", out=tmp_path, iterations=1)
    assert (tmp_path / "mine.checkpoint.pt").read_text() == "mine"


def test_a_training_is_resumed_with_its_own_settings(torch, tmp_path):
    """Also where the task's have changed since; settings that are given, and others, are refused."""
    from warpsim.envs.training import load_learner, train

    kind = pole()
    train(kind, algorithm="shac", device="cpu", out=tmp_path, num_envs=16, iterations=1)
    kind.learning = {"shac": {"gamma": 0.5}}
    with pytest.raises(ValueError, match=r"\['gamma'\] is 0.5, and .* holds a training with 0.99; leave it out"):
        train(kind, device="cpu", out=tmp_path, iterations=2, resume=True, learning=kind.learning)
    same = {"shac": {"gamma": 0.99, "hidden": [4]}}
    train(kind, device="cpu", out=tmp_path, iterations=2, resume=True, learning=same)
    learner = load_learner(tmp_path / "checkpoint.pt", task=kind, device="cpu")
    assert learner.settings.gamma == 0.99 and learner.iteration == 2


def test_a_training_that_is_resumed_waits_for_no_other(torch, tmp_path, monkeypatch):
    """It holds the folder before it reads the checkpoint: one that another training writes meanwhile is not lost."""
    from warpsim.base.errors import StoreError
    from warpsim.envs import training

    kind, read = pole(), training._read
    options = {"algorithm": "shac", "device": "cpu", "num_envs": 16, "out": tmp_path}
    training.train(kind, **options, iterations=1)

    def meanwhile(path):
        with monkeypatch.context() as patch:
            patch.setattr(training, "_read", read)
            with pytest.raises(StoreError, match="training"):
                training.train(kind, **options, iterations=3, seed=7)
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(training, "_read", meanwhile)
        assert training.train(kind, **options, iterations=2, resume=True)["seed"] == 0


def test_an_error_of_one_process_is_told_by_it(torch, monkeypatch):
    """It asks the other processes nothing: these may wait for something else, and the error would be lost."""
    from warpsim.envs.training import make_learner

    def failing(*_):
        raise RuntimeError("mine")

    def asked(*_):
        raise AssertionError("the other processes were asked")

    learner = make_learner("shac", pole(), num_envs=2, device="cpu")
    monkeypatch.setattr(learner, "_iterate", failing)
    monkeypatch.setattr(learner.world, "most", asked)
    with pytest.raises(RuntimeError, match="mine"):
        learner.iterate()


def test_a_number_of_iterations_and_a_time_end_a_training(torch):
    """Whichever comes first, wherever the number is given."""
    from warpsim.envs.training import train

    options = {"algorithm": "shac", "device": "cpu", "num_envs": 16, "cpu_seconds": 60.0}
    assert train(pole(), **options, learning={"shac": {"iterations": 2}})["iterations"] == 2
    with pytest.raises(ValueError, match="cpu_seconds is inf"):
        train(pole(), **(options | {"cpu_seconds": float("inf")}))


@pytest.mark.parametrize("factor", [0.0, float("nan")])
def test_shac_without_a_gradient_ends(torch, tmp_path, monkeypatch, factor):
    """A gradient that is 0 or not a number in many iterations in a row is said, and counted across a resumption; a single one is not."""
    from warpsim.envs import learner
    from warpsim.envs.shac import ShacLearner
    from warpsim.envs.training import train

    monkeypatch.setattr(learner, "PATIENCE", 4)
    build, kind = ShacLearner._build, pole()

    def without(self):
        build(self)
        for p in self.actor_parameters:
            p.register_hook(lambda g: g * (factor if self.iteration != 1 else 1.0))

    monkeypatch.setattr(ShacLearner, "_build", without)
    train(kind, algorithm="shac", device="cpu", out=tmp_path, iterations=4)
    assert "NaN" not in (tmp_path / "curve.json").read_text()  # which JSON does not have
    with pytest.raises(
        Diverged, match="iteration 6: the gradient was 0 or not finite in each of the last 4 iterations"
    ):
        train(kind, device="cpu", out=tmp_path, iterations=20, resume=True)
    assert len(json.loads(pathlib.Path(tmp_path, "curve.json").read_text())) == 5


def test_advice_of_torch_without_cuda(monkeypatch):
    """Where torch is missing and the machine has no CUDA, the small torch is installed first; else not."""
    import importlib.util

    import warp as wp

    found = {}
    for has_torch in (False, True):
        for has_cuda in (False, True):
            monkeypatch.setattr(importlib.util, "find_spec", lambda name, has=has_torch: object() if has else None)
            monkeypatch.setattr(wp, "is_cuda_available", lambda has=has_cuda: has)
            with pytest.raises(ImportError) as error:
                import_or_explain("no_such_module", "train")
            found[has_torch, has_cuda] = "whl/cpu" in str(error.value)
            assert "pip install 'warpsim[train]'" in str(error.value)
    assert found == {(False, False): True, (False, True): False, (True, False): False, (True, True): False}
