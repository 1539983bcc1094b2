# SPDX-License-Identifier: Apache-2.0
"""Registered tasks: a name here and in Gymnasium, of a class, of module:Class, and of another package's entry points."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import registry

import warpsim as ws
from warpsim.envs import TASKS, VectorEnv
from warpsim.envs.tasks import REGISTERED, find_task
from warpsim.tools.cli import main
from warpsim.tools.cli_training import find_modules_here

MODULE = """
from warpsim.envs import TASKS
class Pole(TASKS["CartPole"]):
    episode = 30
    learning = {"ppo": {"iterations": 1, "envs": 4, "horizon": 2, "hidden": (4,)}}
"""
POINTS = """[warpsim.tasks]
LongPole = their_tasks:Pole
Broken = their_broken:Pole
Hopper = their_tasks:Pole
NoTask = their_tasks
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the tasks of a user, and with an installed package; names and modules are forgotten afterwards."""
    before, names = set(registry), dict(REGISTERED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    for name, text in (("my_poles", MODULE), ("their_tasks", MODULE), ("their_broken", "\nimport nowhere_at_all\n")):
        (tmp_path / f"{name}.py").write_text(text)
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    yield tmp_path
    for name in set(registry) - before:
        del registry[name]
    REGISTERED.clear()
    REGISTERED.update(names)
    for name in ("my_poles", "their_tasks", "their_broken"):
        sys.modules.pop(name, None)


def test_a_name_is_the_tasks(here):
    """Every spelling finds the class, which is imported at its first use; Gymnasium's two ways make the same worlds."""
    ws.envs.register("SlowPole", "my_poles:Pole")
    assert "my_poles" not in sys.modules
    expected, _ = VectorEnv("my_poles:Pole", 2, device="cpu").reset(seed=3)
    kind = sys.modules["my_poles"].Pole
    assert all(find_task(name) == ("my_poles:Pole", kind) for name in ("SlowPole", "slow_pole", "slowpole"))
    many = gymnasium.make_vec("warpsim/SlowPole-v0", 2, "vector_entry_point", device="cpu")
    np.testing.assert_array_equal(many.reset(seed=3)[0], expected)
    one = gymnasium.make("warpsim/SlowPole-v0", device="cpu")
    np.testing.assert_array_equal(one.reset(seed=3)[0], expected[0])
    ws.envs.register(kind)  # by its own name
    assert find_task("pole") == ("my_poles:Pole", kind) and "warpsim/Pole-v0" in registry
    local = type("Local", (kind,), {"__module__": "__main__"})
    ws.envs.register(local)
    ws.envs.register(type("Local", (kind,), {"__module__": "__main__", "episode": 7}))  # a cell that is run again
    assert find_task("local")[1].episode == 7


def test_duplicates_and_what_is_no_task_are_refused(here):
    """By the name, and by what has it."""
    register = ws.envs.register
    register("SlowPole", "my_poles:Pole")
    register("SlowPole", "my_poles:Pole")
    for arguments, words in (
        (("slow_pole", "their_tasks:Pole"), ("'slow_pole'", "my_poles:Pole")),
        (("SlowPole", TASKS["Ant"]), ("'SlowPole'", "my_poles:Pole")),
        (("half_cheetah", "my_poles:Pole"), ("'half_cheetah'", "of warpsim")),
        (("Task", "my_poles:Pole"), ("'Task'", "of warpsim")),
        ((TASKS["Ant"],), ("'Ant'", "of warpsim")),
        (("a b", "my_poles:Pole"), ("'a b'",)),
        ((3,), ("name is 3",)),
        (("Other",), ("'Other'", "None", "module:Class")),
        (("Other", "my_poles"), ("'my_poles'", "module:Class")),
        (("Other", dict), ("dict", "class of Task")),
    ):
        with pytest.raises(ValueError) as error:
            register(*arguments)
        assert all(word in str(error.value) for word in words), (arguments, str(error.value))
    assert "Other" not in str(REGISTERED)
    register("Missing", "my_poles:Pool")
    with pytest.raises(ValueError, match=r"registered task 'Missing': .*'Pool' is not there; classes of Task"):
        find_task("missing")
    with pytest.raises(ValueError, match=r"Walker2d, Missing, SlowPole; a task"):
        find_task("unicycle")


def test_entry_points_are_tasks(here):
    """Of an installed package: found, not imported; a broken one is named where it is used, a taken or wrong name at once."""
    with pytest.warns(UserWarning) as told:
        ws.envs.register()
    lines = [str(w.message) for w in told if "entry points" in str(w.message)]
    assert len(lines) == 2 and all("package their-package" in line and "left out" in line for line in lines)
    assert "'Hopper'" in lines[0] and "NoTask = 'their_tasks'" in lines[1]
    assert "their_tasks" not in sys.modules and find_task("hopper")[1] is TASKS["Hopper"]
    assert find_task("long_pole") == ("their_tasks:Pole", sys.modules["their_tasks"].Pole)
    with pytest.raises(ValueError) as error:
        VectorEnv("Broken", 2, device="cpu")
    line = str(error.value)
    assert line.startswith("registered task 'Broken' of the package their-package: ") and "\n" not in line
    assert "their_broken.py, line 2" in line and "nowhere_at_all" in line


def test_importing_the_environments_reads_entry_points(here):
    """In a fresh process a package's tasks are there, and its broken ones break neither the import nor the others."""
    code = "import warpsim as ws; from warpsim.envs.tasks import find_task; ws.envs; print(find_task('LongPole')[0], find_task('ant')[0])"
    path = ":".join(x for x in sys.path if x)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path, "PATH": ""}
    )
    assert done.stdout.split() == ["their_tasks:Pole", "Ant"], done.stderr


def test_a_registered_task_is_trained_by_its_name(here, capsys):
    """From the command line; its checkpoint names module:Class, which needs no registration."""
    pytest.importorskip("rsl_rl")
    ws.envs.register("SlowPole", "my_poles:Pole")
    find_modules_here()
    main(["train", "slow_pole", "--out", "out", "--device", "cpu", "--threads", "1"])
    del REGISTERED["slow_pole"], REGISTERED["slowpole"]
    main(["play", "out", "--device", "cpu"])
    assert "return" in capsys.readouterr().out
