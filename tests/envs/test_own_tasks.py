# SPDX-License-Identifier: Apache-2.0
"""Tasks of one's own: found by `module:Class`, as ours by name; what is no part of a task is refused; they are trained, played and resumed."""

import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest

import warpsim as ws
from warpsim.base.learning import learning_settings
from warpsim.envs import TASKS, MixedEnv, PpoSettings, ShacSettings, Task, VectorEnv, terms
from warpsim.envs.single import SingleEnv
from warpsim.envs.tasks import find_task, same_task
from warpsim.tools.cli import main
from warpsim.tools.cli_training import find_modules_here

gymnasium.register_envs(ws.envs)
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "own_tasks.md"
MODULE = """
from warpsim.envs import TASKS
_bound = 0.5
class Pole(TASKS["CartPole"]):
    episode = 30
    rewards = {"upright": lambda s: s.xp.cos(s.q[:, 1])}
    evaluation = {"episode": 20}
    options = {"max_contacts": 3}
    learning = {"ppo": {"iterations": 4, "envs": 8, "horizon": 4, "hidden": (8,), "gamma": 0.9, "entropy": 0.01},
                "shac": {"iterations": 2, "envs": 4, "horizon": 3, "hidden": (8, 4), "learning_rate": 1e-3}}
class Outer:
    class Inner(Pole):
        pass
class Misspelt(Pole):
    termination = {}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with `my_tasks.py`, which is the current one; nothing of it stays with the interpreter."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_tasks.py").write_text(MODULE)
    yield tmp_path
    for name in ("my_tasks", "broken", "ended"):
        sys.modules.pop(name, None)


@pytest.fixture
def found(here):
    find_modules_here()
    return here


def test_names(found):
    """Ours in every spelling, anybody's by module and class, nested ones too; the name of a class finds it."""
    for name in ("HalfCheetah", "half_cheetah", "halfcheetah", "warpsim.envs.mujoco_tasks:HalfCheetah"):
        assert find_task(name) == ("HalfCheetah", TASKS["HalfCheetah"])
    for name in ("my_tasks:Pole", "my_tasks:Outer.Inner"):
        label, kind = find_task(name)
        assert label == name and find_task(kind) == (name, kind) and kind.__name__ == name.split(":")[1].split(".")[-1]
    assert same_task("__main__:Pole", "my_tasks:Pole") and not same_task("Hopper", "my_tasks:Hopper")


def test_what_is_no_task_is_named(found):
    """With the names there are, the module that is not there, or the file and line in which it fails."""
    (found / "broken.py").write_text("import os\nnot_there()\n")
    (found / "ended.py").write_text("raise SystemExit(3)\n")
    for wrong, words in (
        ("unicycle", ("'unicycle'", "Walker2d", "module:Class")),
        ("my_tasks", ("'my_tasks'", "module:Class")),
        ("my_tasks:Pool", ("'Pool' is not there", "Pole, Misspelt")),
        ("my_tasks:_bound", ("0.5", "Pole")),
        ("my_tasks.py:Pole", ("without .py", "my_tasks:Pole")),
        ("some/where.py:Pole", ("without .py", "where:Pole")),
        ("a b:Pole", ("module:Class",)),
        ("nowhere:Pole", ("no module 'nowhere'",)),
        ("my_tasks.inner:Pole", ("no module 'my_tasks.inner'",)),
        ("broken:Pole", ("broken.py, line 2", "not_there")),
        ("ended:Pole", ("ended.py, line 1", "SystemExit")),
        (3, ("3", "name of a task")),
        (Task(observations={"q": terms.positions()}), ("class",)),
    ):
        with pytest.raises(ValueError) as error:
            find_task(wrong)
        assert all(word in str(error.value) for word in words), (wrong, str(error.value))


def test_every_wrapper_takes_a_name(found):
    """Vector, single, mixed, Gymnasium's and Stable-Baselines3's environments are those of the class."""
    expected, _ = VectorEnv(find_task("my_tasks:Pole")[1], 2, device="cpu").reset(seed=3)
    envs = [
        VectorEnv("my_tasks:Pole", 2, device="cpu"),
        MixedEnv(["my_tasks:Pole"], 2, device="cpu"),
        gymnasium.make_vec("warpsim/Task-v0", 2, "vector_entry_point", task="my_tasks:Pole", device="cpu"),
    ]
    for env in envs:
        np.testing.assert_array_equal(env.reset(seed=3)[0], expected)
    for env in (
        SingleEnv("my_tasks:Pole", device="cpu"),
        gymnasium.make("warpsim/Task-v0", task="my_tasks:Pole", device="cpu"),
    ):
        np.testing.assert_array_equal(env.reset(seed=3)[0], expected[0])
    if importlib.util.find_spec("stable_baselines3"):
        env = ws.envs.Sb3Env("my_tasks:Pole", 2, device="cpu")
        env.seed(3)
        np.testing.assert_array_equal(env.reset(), expected)
    with pytest.raises(ValueError, match="task is None"):
        gymnasium.make("warpsim/Task-v0", device="cpu")


@pytest.mark.parametrize(
    ("names", "near"),
    [
        (dict(termination={}), "terminations"),
        (dict(reward={}), "rewards"),
        (dict(obs={}), "observations"),
        (dict(episodes=3), "episode"),
        (dict(start=()), "starts"),
        (dict(action_ranges=None), "action_range"),
        (dict(reset=lambda self: None), None),
        (dict(dt=0.1), None),
    ],
)
def test_unknown_attributes_are_refused(names, near):
    """On the class, a class it inherits from, a mixin, an object, or for one environment: by name, with the nearest that a task has."""
    (name,) = names
    plain, mixin = TASKS["CartPole"], type("Mixin", (), names)
    changed = plain()
    setattr(changed, name, names[name])
    for make in (
        lambda: type("Own", (plain,), names)(),
        lambda: VectorEnv(type("Own", (type("Base", (plain,), names),), {}), 1, device="cpu"),
        lambda: VectorEnv(type("Own", (mixin, plain), {}), 1, device="cpu"),
        lambda: VectorEnv(changed, 1, device="cpu"),
        lambda: VectorEnv(plain, 1, device="cpu", **names),
        lambda: type("Own", (plain,), {"evaluation": names})(),
        lambda: type("Own", (plain,), {"smooth": names})(),
    ):
        with pytest.raises(ValueError) as error:
            make()
        said = str(error.value)
        assert f"{name!r}, which is no attribute of a task" in said and "underscore" in said
        assert (f"did you mean {near!r}?" in said) if near else ("did you mean" not in said)
    type("Own", (plain,), {f"_{name}": names[name], "check": lambda self: None})()


def test_what_a_class_hides_is_refused():
    """Annotations without a value, attributes that `__init__` sets after the check, properties, arguments of `__init__` and of the model: said by name."""
    plain = TASKS["CartPole"]

    def late(self, **changes):
        plain.__init__(self, **changes)
        self.decimaton = 3

    def aimed(self, goal, **changes):
        plain.__init__(self, **changes)

    for names, said in (
        ({"__annotations__": {"termination": dict}}, "Own has 'termination', which is no attribute"),
        ({"__init__": late}, "Own has 'decimaton', which is no attribute"),
        ({"rewards": property(lambda self: {})}, "Own: rewards is a property"),
        ({"__init__": aimed}, "Own: its __init__ is called with no arguments, and missing a required argument: 'goal'"),
        ({"model": lambda self: None}, "Own: model is the function"),
    ):
        with pytest.raises(ValueError, match=said):
            VectorEnv(type("Own", (plain,), names), 1, device="cpu")
    VectorEnv(type("Own", (plain,), {"__init__": aimed})(goal=1), 1, device="cpu")


def test_settings_belong_to_the_task():
    """What a task says is used, the rest is the algorithm's; what is no setting, or out of range, is refused by name."""
    own = {"ppo": {"iterations": 7, "hidden": [32]}, "shac": ShacSettings(lam=1.0)}
    assert learning_settings("ppo", own) == PpoSettings(iterations=7, hidden=(32,))
    assert learning_settings("shac", own) == ShacSettings(lam=1.0)
    changed = learning_settings("ppo", own, {"ppo": {"gamma": 0.5}}, {"ppo": {"gamma": 0.6}})
    assert changed == PpoSettings(iterations=7, hidden=(32,), gamma=0.6)
    assert learning_settings("ppo", own, {"ppo": PpoSettings(gamma=0.6)}) == PpoSettings(gamma=0.6)
    for wrong, words in (
        (3, "learning is 3"),
        ({"pop": {}}, "'pop'.*ppo"),
        ({"ppo": 3}, r"learning\['ppo'\] is 3; give PpoSettings"),
        ({"ppo": ShacSettings()}, r"learning\['ppo'\] is ShacSettings"),
        ({"ppo": {"iteration": 3}}, "'iteration'.*iterations"),
        ({"shac": {"entropy": 0.1}}, "'entropy'"),
        ({"ppo": {"iterations": 0}}, r"\['iterations'\] is 0"),
        ({"ppo": {"horizon": 1.5}}, r"\['horizon'\] is 1.5"),
        ({"ppo": {"horizon": None}}, r"\['horizon'\] is None"),
        ({"ppo": {"hidden": 64}}, r"\['hidden'\] is 64"),
        ({"ppo": {"hidden": (64, 0)}}, r"\['hidden'\] is 0"),
        ({"ppo": {"gamma": 1.1}}, r"\['gamma'\] is 1.1"),
        ({"ppo": {"learning_rate": 0.0}}, r"\['learning_rate'\] is 0"),
        ({"ppo": {"entropy": -1.0}}, r"\['entropy'\] is -1"),
    ):
        with pytest.raises(ValueError, match=words):
            type("Own", (TASKS["CartPole"],), {"learning": wrong})()


BAD = {
    ("iterations", "envs", "epochs", "minibatches", "horizon_steps", "critic_horizon"): (0, 1.5, True, "3", None),
    ("horizon", "validate_every"): (0, 1.5, True, "3"),
    ("hidden",): ((), 64, "64", (64, 0), (64.0,)),
    ("activation", "schedule", "symmetry"): ("ELU", None, 1),
    ("obs_normalization", "clip_value"): (1, None, "yes"),
    ("gamma", "lam", "critic_weight", "target_decay"): (-0.1, 1.1, float("nan"), "0.9", True),
    ("learning_rate", "desired_kl", "clip", "init_std", "output_gain", "critic_learning_rate"): (
        0.0,
        -1.0,
        float("inf"),
        "1",
    ),
    ("entropy", "value_loss_coef", "smoothing"): (-1.0, float("inf"), float("nan"), (1.0,)),
    ("max_grad_norm", "max_state_gradient"): (0.0, -1.0, float("nan"), "1"),
    ("averaging",): (-0.1, 1.0, float("nan"), "0.9"),
    ("betas",): ((0.9,), 0.9, (0.9, 1.0), (0.9, float("nan"))),
}


@pytest.mark.parametrize("kind", [PpoSettings, ShacSettings])
def test_every_setting_is_checked_and_described(kind):
    """A bad value of any field is one line that names it, the value and the fix, in the dataclass and in a dict; help tells of each."""
    checked = {name: values for names, values in BAD.items() for name in names}
    algorithm = {PpoSettings: "ppo", ShacSettings: "shac"}[kind]
    for field in dataclasses.fields(kind):
        assert f"\n    {field.name} : " in kind.__doc__
        for value in checked[field.name]:
            with pytest.raises(ValueError, match=rf"^{kind.__name__}: {field.name} is |an entry of {kind.__name__}"):
                kind(**{field.name: value})
            with pytest.raises(ValueError, match=rf"Own: learning\['{algorithm}'\]\['{field.name}'\] is "):
                type("Own", (TASKS["CartPole"],), {"learning": {algorithm: {field.name: value}}})()
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind().gamma = 0.5
    found = kind(envs=np.int64(3), gamma=np.float32(0.5), hidden=[np.int32(8)])
    assert (type(found.envs), type(found.gamma), found.hidden, type(found.hidden[0])) == (int, float, (8,), int)


def test_settings_of_ppo_are_those_of_rsl_rl(torch):
    """Fields that rsl_rl has too have its defaults, but for the entropy and for values that are clipped; all reach it under its names."""
    import inspect

    from rsl_rl.algorithms import PPO

    from warpsim.envs.ppo import _configuration

    theirs = inspect.signature(PPO.__init__).parameters
    ours = _configuration(PpoSettings(entropy=0.01, clip_value=True), "policy", None)["algorithm"]
    assert {name: theirs[name].default for name in ours if name != "class_name"} == {
        name: value for name, value in ours.items() if name != "class_name"
    }
    given = {"schedule": "fixed", "clip": 0.3, "epochs": 2, "minibatches": 3, "desired_kl": 0.02, "init_std": 0.5}
    given |= {"value_loss_coef": 0.7, "max_grad_norm": 0.6, "activation": "tanh", "obs_normalization": False}
    from warpsim.envs.training import make_learner

    ppo = make_learner("ppo", "cartpole", num_envs=2, device="cpu", learning={"ppo": given}).ppo
    assert (ppo.schedule, ppo.clip_param, ppo.num_learning_epochs, ppo.num_mini_batches) == ("fixed", 0.3, 2, 3)
    assert not ppo.use_clipped_value_loss
    assert (ppo.desired_kl, ppo.value_loss_coef, ppo.max_grad_norm) == (0.02, 0.7, 0.6)
    assert torch.allclose(ppo.actor.distribution.log_std_param.exp(), torch.tensor(0.5))
    assert "Tanh" in repr(ppo.actor) and "Normalization" not in repr(ppo.actor)
    with pytest.raises(ValueError, match=r"1 worlds × horizon 3.*minibatches is 4"):
        make_learner("ppo", "cartpole", num_envs=1, device="cpu", learning={"ppo": {"horizon": 3}}).iterate()


def test_settings_of_shac_reach_it(torch):
    """Each setting of SHAC changes what is learned; with inf nothing is limited."""
    from warpsim.envs.training import make_learner

    def learned(**given) -> list:
        learning = {"shac": {"horizon": 4, "hidden": (8,)} | given}
        learner = make_learner("shac", "hopper", num_envs=4, device="cpu", learning=learning)
        gradient = [learner.iterate()["gradient"] for _ in range(3)][-1]
        parts = (learner.actor, learner.target, learner.average)
        return [x.tolist() for part in parts for x in part.state_dict().values()] + [gradient]

    plain = learned()
    assert learned() == plain
    for name, value in {
        **{"activation": "tanh", "obs_normalization": False, "init_std": 0.5, "betas": (0.5, 0.9), "epochs": 2},
        **{"critic_learning_rate": 1e-4, "minibatches": 2, "max_grad_norm": 0.01, "target_decay": 0.9},
        **{"max_state_gradient": 0.01, "smoothing": 1.0, "critic_horizon": 1, "averaging": 0.0},
        **{"critic_weight": 0.5, "output_gain": 0.5},
    }.items():
        assert learned(**{name: value}) != plain, name
    assert np.isfinite(learned(max_state_gradient=float("inf"), max_grad_norm=float("inf"))[-1])
    actor = slice(6)  # two layers and a norm between them, which do not depend on a critic without weight
    alone, other = (learned(critic_weight=0.0, critic_learning_rate=rate) for rate in (1e-4, 1e-2))
    assert alone[actor] == other[actor] and alone != other and alone[actor] != plain[actor]
    for given, actions in (({}, 5), ({"horizon_steps": 11}, 2), ({"horizon_steps": 3}, 1), ({"horizon": 4}, 4)):
        learner = make_learner("shac", "hopper", num_envs=2, device="cpu", learning={"shac": given})
        assert learner.horizon == actions, given  # an action of the hopper is four physics steps
        learner.iterate()
        assert learner.env_steps == 2 * actions


def test_settings_on_the_command_line(torch, here, capsys):
    """They change the task's, are kept in the checkpoint and hold when the training goes on; others are refused by name."""
    command = ["train", "my_tasks:Pole", "--out", "out", "--device", "cpu", "--algorithm", "shac"]
    code, _, err = run(capsys, *command, "--shac.horizon", 2, "--shac.hidden", 6, 5, "--shac.betas", 0.5, 0.9)
    assert code == 0, err
    import torch as t

    kept = t.load("out/checkpoint.pt", weights_only=True)
    own = {"iterations": 2, "envs": 4, "learning_rate": 1e-3}
    given = {"horizon": 2, "hidden": (6, 5), "betas": (0.5, 0.9)}
    assert kept["learning"] == dataclasses.asdict(ShacSettings(**own, **given)) and kept["changes"] == given
    files = {path.name: path.read_bytes() for path in pathlib.Path("out").iterdir()}
    for wrong, words in (
        (["--resume", "--shac.horizon", 3], "my_tasks:Pole: learning['shac']['horizon'] is 3, and out holds"),
        (["--resume", "--ppo.clip", 0.3], "learning['ppo']['clip'] is given, and the algorithm is shac"),
        (["--ppo.clip", 0.3], "learning['ppo']['clip'] is given, and the algorithm is shac"),
        (["--shac.gamma", 1.5], "my_tasks:Pole: learning['shac']['gamma'] is 1.5; give a number between 0 and 1"),
    ):
        code, _, err = run(capsys, *command, *wrong)
        assert code == 2 and words in err and err.count("\n") == 1, err
    assert {path.name: path.read_bytes() for path in pathlib.Path("out").iterdir()} == files
    code, _, err = run(capsys, *command, "--resume", "--iterations", 3, "--shac.horizon", 2)
    assert code == 0, err
    assert len(json.loads(pathlib.Path("out/curve.json").read_text())) == 3
    assert t.load("out/checkpoint.pt", weights_only=True)["changes"] == given


def test_none_on_the_command_line(torch, monkeypatch):
    """None is given where it is a setting's value; the word task, like no option, leaves the task's."""
    import tyro

    from warpsim.envs import training
    from warpsim.tools.cli_training import Train

    class Stopped(Exception):
        pass

    def train(task, **options):
        raise Stopped(options["learning"])

    monkeypatch.setattr(training, "train", train)
    for given, learning in (
        (["--shac.validate-every", "None"], {"shac": {"validate_every": None}}),
        (["--shac.validate-every", "task", "--shac.hidden", "task"], {}),
        (["--shac.critic-learning-rate", "None", "--ppo.clip-value", "False"],
         {"ppo": {"clip_value": False}, "shac": {"critic_learning_rate": None}}),
    ):  # fmt: skip
        with pytest.raises(Stopped) as stop:
            tyro.cli(Train, args=["hopper", *given])()
        assert stop.value.args[0] == learning


def test_checkpoints_of_versions_with_fewer_settings(torch, found, capsys):
    """They have the values that held before there was a setting, and go on with the same bits; a setting that is unknown is refused."""
    import torch as t

    from warpsim.base.learning import BEFORE, SETTINGS, kept_settings
    from warpsim.envs.training import load_learner, train

    for algorithm in ("ppo", "shac"):
        then = {name: value for name, value in BEFORE[algorithm].items() if name != "horizon"}
        options = {"algorithm": algorithm, "device": "cpu", "out": "out", "learning": {algorithm: then}}
        train("my_tasks:Pole", iterations=1, **options)
        kept = t.load("out/checkpoint.pt", weights_only=True)
        old = ("iterations", "envs", "horizon", "hidden", "gamma", "lam", "learning_rate", "entropy")
        kept["learning"] = {name: value for name, value in kept["learning"].items() if name in old}
        del kept["changes"]
        whole = load_learner("out/checkpoint.pt", device="cpu").iterate()
        t.save(kept, "out/checkpoint.pt")
        assert load_learner("out/checkpoint.pt", device="cpu").iterate() == whole
        assert train("my_tasks:Pole", resume=True, **options)["algorithm"] == algorithm
        kept["learning"]["zeal"] = 3
        t.save(kept, "out/checkpoint.pt")
        code, _, err = run(capsys, "play", "out")
        assert code == 2 and "'zeal'" in err and err.count("\n") == 1, err
    assert kept_settings("shac", {}, "x").max_state_gradient == 3.0
    for algorithm, kind in SETTINGS.items():  # a setting that is new has a value in BEFORE
        names = {field.name for field in dataclasses.fields(kind)}
        assert names - set(old) <= set(BEFORE[algorithm]) <= names


def test_evaluation_and_smooth_are_checked_at_the_beginning():
    """What would end a training when its policy is judged is refused before it begins."""
    for name in ("evaluation", "smooth"):
        for wrong, words in (
            (3, f"{name} is 3"),
            ({"episode": 0}, "episode"),
            ({"rewards": {"a": 3}}, r"rewards\['a'\]"),
        ):
            with pytest.raises(ValueError, match=words):
                type("Own", (TASKS["CartPole"],), {name: wrong})()


def test_a_function_that_gives_the_model_is_inherited():
    """A plain function as `model`, of the class or of one that it inherits from."""
    base = type("Base", (TASKS["CartPole"],), {"model": TASKS["CartPole"].__dict__["model"].__func__})
    for kind in (base, type("Own", (base,), {})):
        assert len(kind().make_models()) == 1


def page_module(folder: pathlib.Path) -> None:
    """`my_tasks.py` as the page prints it, and a robot for it."""
    (block,) = [
        b for b in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S) if "class Track" in b
    ]
    (folder / "my_tasks.py").write_text(block, "utf-8")
    shutil.copy(ws.robots.path("ant"), folder / "my_robot.xml")


def test_the_task_of_the_page(found):
    """docs/own_tasks.md: the module as printed is a task that every environment takes by name."""
    page_module(found)
    env = VectorEnv("my_tasks:Track", 2, device="cpu")
    env.reset(seed=1)
    assert np.isfinite(env.step(env.action_space.sample())[1]).all()
    assert find_task("my_tasks:Track")[1].learning


@pytest.fixture
def torch():
    pytest.importorskip("rsl_rl")
    return pytest.importorskip("torch")


def run(capsys, *args) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_page_is_trained_and_played(torch, here, capsys):
    """docs/own_tasks.md, shortened: `warpsim train my_tasks:Track` from the folder of the module, and `warpsim play`."""
    page_module(here)
    short = ["--iterations", 1, "--envs", 2, "--device", "cpu"]
    code, _, err = run(capsys, "train", "my_tasks:Track", "--out", "track", *short)
    assert code == 0 and "my_tasks:Track: return" in err, err
    assert run(capsys, "play", "track", "--device", "cpu")[0] == 0


@pytest.mark.parametrize("algorithm", ["ppo", "shac"])
def test_a_task_of_ones_own_is_trained_played_and_resumed(torch, here, capsys, algorithm):
    """With the settings and options of the task; resumed with the same bits; as a class in Python it is the same training."""
    from warpsim.envs.training import load_learner, train

    command = ["train", "my_tasks:Pole", "--algorithm", algorithm, "--device", "cpu", "--out"]
    code, _, err = run(capsys, *command, "whole", "--json", "-")
    assert code == 0, err
    result, curve = (json.loads(pathlib.Path("whole", name).read_text()) for name in ("result.json", "curve.json"))
    count, envs, horizon = (4, 8, 4) if algorithm == "ppo" else (2, 4, 3)
    assert (result["task"], len(curve), result["num_envs"]) == ("my_tasks:Pole", count, envs)
    assert result["env_steps"] == count * envs * horizon and max(result["lengths"]) <= 20
    learner = load_learner("whole/checkpoint.pt", device="cpu")
    assert learner.env.task.options["max_contacts"] == 3
    actor = learner.ppo.actor if algorithm == "ppo" else learner.actor
    assert min(x.shape[0] for x in actor.parameters() if x.ndim == 2 and x.shape[0] > 1) == (
        8 if algorithm == "ppo" else 4
    )
    assert run(capsys, *command, "part", "--iterations", count - 1)[0] == 0
    code, _, err = run(capsys, *command, "part", "--resume")
    assert code == 0, err
    assert json.loads(pathlib.Path("part/curve.json").read_text()) == curve
    code, out, _ = run(capsys, "play", "part", "--html", "page.html", "--usd", "policy.usda", "--device", "cpu")
    assert code == 0 and f"return {result['return']:.0f}" in out
    assert pathlib.Path("page.html").stat().st_size > 0 and pathlib.Path("policy.usda").stat().st_size > 0
    again = train(find_task("my_tasks:Pole")[1], algorithm=algorithm, device="cpu")
    assert again["returns"] == result["returns"] and again["task"] == "my_tasks:Pole"


def test_errors_of_ones_own_code_are_told_by_file_and_line(torch, here, capsys):
    """An error in a term or in `__init__`: one line, no folder. The same for folders that cannot be, and a broken curve."""
    (here / "broken_tasks.py").write_text(
        "from warpsim.envs import TASKS\nclass Term(TASKS['CartPole']):\n    rewards = {'x': lambda s: s.commands['no']}\n"
        "class Init(TASKS['CartPole']):\n    def __init__(self):\n        raise RuntimeError('boom')\n"
    )
    for name, words in (("Term", "line 3: KeyError: 'no'"), ("Init", "line 6: RuntimeError: boom")):
        code, _, err = run(capsys, "train", f"broken_tasks:{name}", "--out", str(here / "n" / "m"), "--device", "cpu")
        assert code == 2 and f"broken_tasks.py, {words}" in err and "Traceback" not in err
    for out in ("broken_tasks.py", "broken_tasks.py/a/b"):
        code, _, err = run(capsys, "train", "cartpole", "--out", str(here / out), "--device", "cpu")
        assert code == 2 and "broken_tasks.py is a file; give the name of a folder" in err
    assert not (here / "n").exists()


def test_no_memory_is_one_line(here, capsys, monkeypatch):
    from warpsim.envs import overview

    def full():
        raise MemoryError("1000 worlds do not fit, at most 10 do")

    monkeypatch.setattr(overview, "task_table", full)
    code, _, err = run(capsys, "tasks")
    assert code == 2 and err.endswith("MemoryError: 1000 worlds do not fit, at most 10 do\n") and "Traceback" not in err


def test_a_reader_that_goes_away(here):
    """`warpsim train --help | true`: no traceback."""
    line = f"{shlex.quote(sys.executable)} -c 'import time, warpsim.tools.cli as c; time.sleep(0.3); c.main()' train --help"
    ended = subprocess.run(f"{line} | true", shell=True, capture_output=True, text=True, timeout=60)
    assert ended.stderr == ""


def test_one_training_at_a_time_writes_a_folder(torch, here, capsys):
    """Of two in one folder the second is refused, and nothing of the first is touched; afterwards the folder is free."""
    short = ["my_tasks:Pole", "--iterations", 1, "--device", "cpu", "--out", "both"]
    (here / "both").mkdir()
    (here / "both" / "curve.json").write_text("[]")
    from warpsim.files.store.place import held

    with held(here / "both"):
        code, _, err = run(capsys, "train", *short)
        assert code == 2 and "is writing this training" in err and (here / "both" / "curve.json").read_text() == "[]"
    assert run(capsys, "train", *short)[0] == 0


def test_faults_of_a_training_are_told(torch, here, capsys):
    """A reward that is not a number ends episodes with 0, which the last line says."""
    with open(here / "my_tasks.py", "a") as file:
        file.write("class Faulty(Pole):\n    rewards = {'none': lambda s: s.q[:, 0] * float('nan')}\n")
    assert main(["train", "my_tasks:Faulty", "--iterations", "1", "--device", "cpu", "--out", "faulty"]) == 0
    assert "episodes ended because something in them was not finite" in capsys.readouterr().err


def test_settings_of_a_checkpoint(torch, here, capsys):
    """A training goes on with the settings that it has, and says where those of the task are others; its policy is shown whatever the task says today, under another name too."""
    command = ["train", "my_tasks:Pole", "--out", "out", "--device", "cpu"]
    assert run(capsys, *command)[0] == 0
    kept = {path.name: path.read_bytes() for path in pathlib.Path("out").iterdir()}
    text = pathlib.Path("my_tasks.py").read_text()
    pathlib.Path("other.py").write_text(text.replace('"hidden": (8,), "gamma": 0.9', '"hidden": (16,), "gamma": 0.8'))
    code, _, err = run(capsys, "train", "other:Pole", *command[2:], "--resume", "--iterations", 9, "--ppo.gamma", 0.8)
    assert code == 2 and "learning['ppo']['gamma'] is 0.8" in err and "training with 0.9" in err, err
    shutil.copytree("out", "copy")
    with pytest.warns(UserWarning, match=r"own settings: .*hidden \(8,\) \(the task of today: \(16,\)\)"):
        assert run(capsys, "train", "other:Pole", *command[2:], "--resume", "--out", "copy")[0] == 0
    assert torch.load("copy/checkpoint.pt", weights_only=True)["learning"]["gamma"] == 0.9
    code, _, err = run(capsys, "train", "my_tasks:Outer.Inner", *command[2:], "--resume")
    assert code == 2 and "holds a training of my_tasks:Pole, not of my_tasks:Outer.Inner" in err
    pathlib.Path("my_tasks.py").unlink()
    sys.modules.pop("my_tasks")
    code, _, err = run(capsys, "play", "out")
    assert code == 2 and err.count("\n") == 1 and "no module 'my_tasks'" in err and "--task" in err
    code, _, err = run(capsys, "play", "out", "--task", "hopper")
    assert code == 2 and "is of the task 'my_tasks:Pole', not of Hopper" in err
    assert run(capsys, "play", "out", "--task", "other:Pole", "--device", "cpu")[0] == 0
    code, _, err = run(capsys, "view", "out")
    assert code == 2 and "`warpsim play out --live`" in err
    assert {path.name: path.read_bytes() for path in pathlib.Path("out").iterdir()} == kept
    sys.modules.pop("other")


@pytest.mark.usefixtures("from_terminal")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupted_training_goes_on(torch, here, capsys, monkeypatch, name, code):
    """Ctrl-C or a polite kill: one line that says how to go on, a whole checkpoint of the iteration at work, and by that line the uninterrupted curve."""
    from warpsim.show.live_curve import LiveCurve

    command = ["train", "my_tasks:Pole", "--device", "cpu", "--iterations", 5, "--out"]
    assert run(capsys, *command, "whole")[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(
            LiveCurve, "add", lambda self, row: row["iteration"] == 2 and os.kill(os.getpid(), getattr(signal, name))
        )
        assert run(capsys, *command, "a folder")[0] == code
        capsys.readouterr()
        assert main([*map(str, command), "a folder"]) == code
        err = capsys.readouterr().err
    (line,) = [line for line in err.splitlines() if line.startswith("warpsim: ")]
    assert f"stopped by {name} after 2 of 5 iterations; a folder holds a whole checkpoint" in line
    again = shlex.split(re.search("`warpsim (.*?)` goes on", line)[1])
    code, _, err = run(capsys, *again)
    assert code == 0, err
    curves = [json.loads(pathlib.Path(folder, "curve.json").read_text()) for folder in ("whole", "a folder")]
    assert curves[0] == curves[1] and len(curves[0]) == 5
    assert not list(pathlib.Path("a folder").glob(".warpsim-*"))


@pytest.mark.usefixtures("from_terminal")
def test_an_interrupted_judgement_goes_on(torch, found, monkeypatch):
    """A signal while the policy is judged: all iterations are in the checkpoint, and going on judges it."""
    from warpsim.base.errors import Stopped
    from warpsim.envs.learner import Learner
    from warpsim.envs.training import train

    whole, judge = train("my_tasks:Pole", device="cpu"), Learner.evaluate
    with monkeypatch.context() as patch:
        patch.setattr(
            Learner,
            "evaluate",
            lambda *args, **options: (os.kill(os.getpid(), signal.SIGTERM), judge(*args, **options))[1],
        )
        with pytest.raises(Stopped, match="after 4 of 4 iterations"):
            train("my_tasks:Pole", device="cpu", out="out")
    assert not pathlib.Path("out/result.json").exists()
    assert train("my_tasks:Pole", device="cpu", out="out", resume=True)["returns"] == whole["returns"]


@pytest.mark.usefixtures("from_terminal")
def test_a_signal_ends_what_shows_the_policy(torch, here, capsys, monkeypatch):
    """A video takes long: Ctrl-C ends the command at once, and the result and the checkpoint are there."""
    from warpsim.envs import training

    later = []
    monkeypatch.setattr(
        training, "_show", lambda *_: (os.kill(os.getpid(), signal.SIGINT), time.sleep(0.1), later.append("video"))
    )
    assert run(capsys, "train", "my_tasks:Pole", "--out", "out", "--iterations", 1, "--device", "cpu")[0] == 130
    assert not later and {"result.json", "checkpoint.pt"} <= {path.name for path in pathlib.Path("out").iterdir()}


def test_a_training_says_how_far_its_video_is(torch, here, capsys):
    """`train --video` counts the frames on the error stream, from none to all; `play --video` writes the policy's too."""
    pytest.importorskip("av")
    command = ("train", "my_tasks:Pole", "--out", "out", "--iterations", 1, "--device", "cpu", "--video")
    code, _, told = run(capsys, *command)
    first, *_, last = [line.split() for line in told.splitlines() if line.startswith("drawing the video: ")]
    assert code == 0 and first[3] == "0" and last[3] == last[5] == first[5]
    assert run(capsys, "play", "out", "--video", "again.mp4", "--device", "cpu")[0] == 0
    assert all(pathlib.Path(name).stat().st_size > 1000 for name in ("out/policy.mp4", "again.mp4"))


def test_a_robot_that_cannot_be_seen_is_trained(torch, found, recwarn):
    """Without a geom there is no page; that is said, and the training is whole."""
    from warpsim.envs.training import train

    b = ws.ModelBuilder("unseen", timestep=0.01)
    b.add_model(TASKS["CartPole"]().make_models()[0])
    b.geoms.clear()
    unseen = b.build()
    kind = type("Unseen", (find_task("my_tasks:Pole")[1],), {"model": unseen})
    result = train(kind, device="cpu", out="out", iterations=1)
    assert json.loads(pathlib.Path("out/result.json").read_text()) == result
    assert any("no page" in str(w.message) for w in recwarn)


def test_a_policy_is_watched(torch, here, capsys, monkeypatch):
    """`warpsim play --live` steps the policy on a page, an action after the other, until Ctrl-C."""
    pytest.importorskip("viser")
    assert run(capsys, "train", "my_tasks:Pole", "--out", "out", "--iterations", 1, "--device", "cpu")[0] == 0
    times = []

    def sync(view, state, seconds):
        times.append((state.time.numpy()[0], seconds))
        if len(times) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ws.Viewer, "sync", sync)
    code, out, err = run(capsys, "play", "out", "--live", "--port", 0, "--device", "cpu")
    assert code == 0 and "http://" in out, err
    np.testing.assert_allclose(times, [(0.02 * k, 0.02) for k in (1, 2, 3)], rtol=1e-5)


def test_a_torch_without_cuda(torch, monkeypatch):
    """Where warp has a GPU that torch cannot use, the fix is said instead of an error of torch's."""
    import warp as wp

    from warpsim.envs.learner import World

    monkeypatch.setattr(wp, "is_cuda_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in (None, "cuda:0"):
        with pytest.raises(ValueError, match="give the device cpu"):
            World(device)
    assert World("cpu").most(3) == 3


def test_devices_follow_one_rule():
    """Every command's device is None by default: CUDA where there is one, else the CPU, as of `ws.Simulator`."""
    import dataclasses

    from warpsim.tools.cli import COMMANDS

    for name, command in COMMANDS.items():
        defaults = {field.name: field.default for field in dataclasses.fields(command)}
        assert defaults.get("device") is None, name
