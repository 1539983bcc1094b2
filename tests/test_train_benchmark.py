# SPDX-License-Identifier: Apache-2.0
"""The bookkeeping of `python -m benchmarks.train`, with a learner that learns nothing: what is kept, compared and missing."""

import json
import signal
import subprocess
import sys
import time

import pytest

from benchmarks import train, train_page
from benchmarks.train import Run, append_row, learn, missing_runs, read_rows, train_all, wanted_runs
from warpsim.base.errors import Diverged

CODE = {"commit": "abc", "code": "abc"}


class Faults:
    def sum(self) -> int:
        return 0


class Fake:
    """An iteration takes 9 s of processor time; the return is the number of iterations, and judging takes none."""

    concluding = 0.0

    def __init__(self, run: Run, kept=None):
        self.run, self.iteration, self.seconds = run, 0, {"collect": 0.0, "update": 0.0}
        self.iteration, self.seconds = (kept["iteration"], kept["seconds"]) if kept else (0, self.seconds)
        self.compile_seconds, self.judged, self.env = 5.0, [], type("Env", (), {"faults": Faults()})

    @property
    def env_steps(self) -> int:
        return 100 * self.iteration

    def iterate(self) -> dict:
        if self.run.algorithm == "ppo" and self.run.seed == 13 and self.iteration == 8:
            raise Diverged("iteration 9: actor is not finite")
        self.iteration += 1
        self.seconds["collect"] += 6.0
        self.seconds["update"] += 3.0
        return {"env_steps": self.env_steps, "return": float(self.iteration)}

    def evaluate(self, stops=()) -> dict:
        self.judged.append(self.iteration)
        return {"return": float(self.iteration), "distance": 0.0, "returns": [1.0], "lengths": [1]}

    def conclude(self) -> None:
        self.seconds["update"] += self.concluding

    def save(self, path) -> None:
        path.write_text(json.dumps({"iteration": self.iteration, "seconds": self.seconds}))


class Fakes:
    """`train.Learners` of fakes."""

    def __init__(self):
        self.made, self.loaded = [], []

    def make(self, run):
        self.made.append(Fake(run))
        return self.made[-1]

    def load(self, path, run):
        self.loaded.append(Fake(run, json.loads(path.read_text())))
        return self.loaded[-1]


def same(row: dict) -> dict:
    return {name: x for name, x in row.items() if name not in ("load", "machine", "date")}


def test_one_training_is_judged_at_each_processor_time(tmp_path):
    """Once after the first iteration that reaches it, though an iteration may reach several; judging does not count."""
    fakes = Fakes()
    row = learn(Run("hopper", "shac", 3), (1.0, 3.0), tmp_path, learners=fakes, code=CODE)
    (fake,) = fakes.made
    assert fake.judged == [1, 2, 4, 5, 7, 10, 14, 20] and not fakes.loaded
    assert list(row["judged"]) == ["0.1", "0.25", "0.5", "0.75", "1", "1.5", "2", "3"]
    assert row["judged"]["1"] == {
        **{"return": 7.0, "distance": 0.0, "returns": [1.0], "lengths": [1]},
        **{"cpu_seconds": 63.0, "env_steps": 700, "iterations": 7},
    }
    assert row["curve"][0] == [9.0, 100, 1.0] and len(row["curve"]) == 20 and row["compile_seconds"] == 5.0
    assert (row["task"], row["algorithm"], row["seed"], row["variant"]) == ("hopper", "shac", 3, "")
    assert {"commit", "code", "date", "load", "machine", "faults"} <= set(row)


def test_the_end_of_a_training_counts_once(tmp_path, monkeypatch):
    """What `conclude` takes is part of the time of each judgement, as if the training ended there, and of no later one."""
    monkeypatch.setattr(Fake, "concluding", 5.0)
    row = learn(Run("hopper", "shac", 3), (1.0, 3.0), tmp_path, learners=Fakes(), code=CODE)
    iterations = {name: judged["iterations"] for name, judged in row["judged"].items()}
    assert iterations == {"0.1": 1, "0.25": 2, "0.5": 3, "0.75": 5, "1": 7, "1.5": 10, "2": 13, "3": 20}
    assert row["judged"]["2"]["cpu_seconds"] == 13 * 9.0 + 5.0


def make_folders(folder) -> None:
    for name in ("whole", "part"):
        (folder / name).mkdir()


class Later(list):
    """True after as many questions."""

    def __init__(self, count: int):
        self.count = count

    def __bool__(self) -> bool:
        self.count -= 1
        return self.count < 0


@pytest.mark.parametrize("after", [0, 1, 2, 7, 12, 25])
def test_a_stopped_training_goes_on(tmp_path, after):
    """Its row is that of a training without a stop, and a stop while it is judged judges it again; other code begins anew; more minutes go on."""
    make_folders(tmp_path)
    whole = learn(Run("hopper", "shac", 3), (1.0, 3.0), tmp_path / "whole", learners=Fakes(), code=CODE)
    folder, fakes = tmp_path / "part", Fakes()
    assert learn(Run("hopper", "shac", 3), (1.0, 3.0), folder, learners=fakes, code=CODE, stops=Later(after)) is None
    row = learn(Run("hopper", "shac", 3), (1.0, 3.0), folder, learners=fakes, code=CODE)
    assert same(row) == same(whole) and len(fakes.loaded) == 1
    assert len(list(folder.glob("*.pt"))) == 1
    longer = learn(Run("hopper", "shac", 3), (1.0, 3.0, 4.0), folder, learners=fakes, code=CODE)
    assert fakes.loaded[-1].judged == [27] and longer["judged"]["1"] == row["judged"]["1"]
    other = learn(Run("hopper", "shac", 3), (0.1,), folder, learners=fakes, code={"commit": "b", "code": "b"})
    assert len(fakes.made) == 2 and other["commit"] == "b"


def test_a_killed_training_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    """Killed in the middle of an iteration, or between the files of a checkpoint: the row is the same."""
    run = Run("hopper", "ppo", 3)
    make_folders(tmp_path)
    whole = learn(run, (1.0, 3.0), tmp_path / "whole", learners=Fakes(), code=CODE)
    plain = Fake.iterate

    def killed(self):
        if self.iteration == 12:
            raise SystemExit
        return plain(self)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Fake, "iterate", killed)
        learn(run, (1.0, 3.0), tmp_path / "part", learners=Fakes(), code=CODE)
    (tmp_path / "part" / "13.pt").write_text("half of a check")
    fakes = Fakes()
    assert same(learn(run, (1.0, 3.0), tmp_path / "part", learners=fakes, code=CODE)) == same(whole)
    assert not fakes.made and fakes.loaded[0].judged == [14, 20]


def test_a_training_that_diverges_is_a_row(tmp_path):
    """It says why, keeps what was judged, and is not made again."""
    run = Run("hopper", "ppo", 13)
    row = learn(run, (1.0, 3.0), tmp_path, learners=Fakes(), code=CODE)
    assert row["failed"] == "iteration 9: actor is not finite" and list(row["judged"])[-1] == "1"
    assert not missing_runs({run: row}, [(run, (1.0, 3.0))])
    assert train_page.values_at([row], "3") == [7.0]


def test_what_is_missing_is_listed_in_the_order_of_comparison(tmp_path):
    """SHAC and PPO of a task and seed follow each other; a row of fewer minutes is missing, one of more is not."""
    runs = wanted_runs(["hopper", "reach"], ("shac", "ppo"), (0, 1), timed=("hopper",))
    names = [str(run) for run, _ in runs]
    assert names[:4] == ["hopper-standing-0", "hopper-random-0", "reach-standing-0", "reach-random-0"]
    assert names[4:9] == [
        "hopper-shac-0",
        "hopper-ppo-0",
        "hopper-shac-0-time_of_impact",
        "reach-shac-0",
        "reach-ppo-0",
    ]
    minutes = dict(runs)
    assert minutes[Run("hopper", "ppo", 1)] == (1.0, 3.0) and minutes[Run("reach", "ppo", 1)] == (1.0, 3.0, 10.0)
    assert minutes[Run("hopper", "shac", 1, "time_of_impact")] == (1.0, 3.0)
    rows = {run: {"judged": {"1": {}, "3": {}}} for run, _ in runs}
    assert [str(run) for run, _ in missing_runs(rows, runs)] == [
        f"reach-{a}-{s}" for s in (0, 1) for a in ("shac", "ppo")
    ]
    assert train.estimate([(Run("hopper", "ppo"), (60.0,))], 2) == pytest.approx(0.58, abs=0.01)


def test_rows_outlive_whatever_writes_them(tmp_path):
    """The last row of a run counts; half a line at the end is left out, and the next row is whole; one in the middle is refused by number."""
    path = tmp_path / "train.jsonl"
    rows = [{"task": "hopper", "algorithm": "ppo", "seed": k % 2, "variant": "", "k": k} for k in range(3)]
    for row in rows:
        append_row(path, row)
    assert [row["k"] for row in read_rows(path).values()] == [2, 1]
    with open(path, "a") as file:
        file.write('{"task": "hop')
    assert len(read_rows(path)) == 2
    append_row(path, rows[0] | {"seed": 5})
    append_row(path, rows[0] | {"seed": 6})
    assert [run.seed for run in read_rows(path)] == [0, 1, 5, 6]
    path.write_text(path.read_text().removesuffix("\n"))  # killed before the end of its line
    append_row(path, rows[0] | {"seed": 7})
    assert [run.seed for run in read_rows(path)] == [0, 1, 5, 6, 7] and path.read_text().count("\n") == 6
    path.write_text("nonsense\n" + path.read_text())
    with pytest.raises(ValueError, match=r"train\.jsonl, line 1 is no row"):
        read_rows(path)


def scripted(text: str):
    """Commands of children that run a script, with `folder` and `run` in it."""

    def command(run, minutes, folder) -> list[str]:
        head = f"import json, pathlib, signal, sys, time; folder, run = pathlib.Path({str(folder)!r}), {str(run)!r}\n"
        row = {"task": run.task, "algorithm": run.algorithm, "seed": run.seed, "variant": run.variant, "judged": {}}
        return [sys.executable, "-c", f"{head}row = {row!r}\n{text}"]

    return command


def test_rows_are_stored_as_children_end(tmp_path, capsys):
    """Two at a time; of one that fails the log is named, and the others are made."""
    runs = [(Run("hopper", "ppo", seed), (1.0,)) for seed in range(4)]
    text = (
        "time.sleep(0.3)\nif run.endswith('1'): sys.exit('no luck')\n(folder / 'row.json').write_text(json.dumps(row))"
    )
    failed = train_all(runs, 2, tmp_path / "train.jsonl", tmp_path, command=scripted(text))
    assert failed == [Run("hopper", "ppo", 1)]
    assert [run.seed for run in read_rows(tmp_path / "train.jsonl")] in ([0, 2, 3], [0, 3, 2])
    assert "hopper-ppo-1/log says why" in capsys.readouterr().err
    assert "no luck" in (tmp_path / "hopper-ppo-1" / "log").read_text()


def test_an_interrupt_ends_the_children(tmp_path, monkeypatch):
    """Each gets SIGTERM, on which it keeps its checkpoint; rows of those that had ended are there."""
    text = """
signal.signal(signal.SIGTERM, lambda *x: ((folder / 'kept').write_text(''), sys.exit(3)))
(folder / 'up').write_text('')
if run.endswith('0'): (folder / 'row.json').write_text(json.dumps(row)); sys.exit()
time.sleep(30)
"""
    store, sleep, own = tmp_path / "train.jsonl", time.sleep, signal.getsignal(signal.SIGINT)

    def interrupted(seconds):
        sleep(0.05)
        if store.exists() and all((tmp_path / f"hopper-ppo-{k}" / "up").exists() for k in (1, 2)):
            raise KeyboardInterrupt

    monkeypatch.setattr(train.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_all([(Run("hopper", "ppo", k), (1.0,)) for k in range(3)], 2, store, tmp_path, command=scripted(text))
    assert [run.seed for run in read_rows(store)] == [0]
    assert all((tmp_path / f"hopper-ppo-{k}" / "kept").exists() for k in (1, 2))
    assert signal.getsignal(signal.SIGINT) is own


def test_children_end_with_a_killed_parent(tmp_path):
    """A training whose parent was killed stops as by SIGTERM, and the next one of its folder waits for that."""
    lines = "import os, sys, time, pathlib; from benchmarks import train\nfolder = pathlib.Path(sys.argv[1])\n"
    one = f"{lines}train.learn = lambda *x, stops, **y: [(folder / 'up').write_text(''), *iter(lambda: (time.sleep(0.05), len(stops))[1], 1)][:0] or None\n"
    one += "code = train.child(train.Run('hopper', 'ppo'), (1.0,), folder); (folder / f'ended{code}').write_text('')"
    two = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {one!r}, sys.argv[1]], start_new_session=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", two, str(tmp_path)], cwd=train.ROOT)
    wait_for(tmp_path / "up")
    parent.kill()
    parent.wait()
    with train._alone(tmp_path, patience=30.0):
        wait_for(tmp_path / "ended3")


def wait_for(path, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} does not come"
        time.sleep(0.05)


def row(task: str, algorithm: str, seed: int, judged: dict, variant: str = "", **more) -> tuple[Run, dict]:
    judged = {mark: {"return": x, "env_steps": 1000 * seed} for mark, x in judged.items()}
    whole = {"task": task, "algorithm": algorithm, "seed": seed, "variant": variant, "judged": judged, "curve": []}
    whole |= {"commit": "abc", "date": "2026-01-02", "load": [1.0, 2.0], "machine": {"processor": "x", "cores": 2}}
    return Run(task, algorithm, seed, variant), whole | more


def test_the_page_says_who_is_ahead(tmp_path):
    """By the median of as many seeds at each time; where both saturate, the times until 95 %; commits of the rows."""
    found = dict([row("hopper", "standing", 0, {"0": 0.0}), row("hopper", "random", 0, {"0": -5.0})])
    for seed, (a, b) in enumerate(((10.0, 50.0), (60.0, 55.0), (70.0, 5.0))):
        found |= [row("hopper", "shac", seed, {"0.5": a, "1": a, "3": 100.0 - seed})]
        found |= [row("hopper", "ppo", seed, {"0.5": 0.0, "1": b, "3": 99.0}, **({"commit": "def"} if seed else {}))]
    found |= [row("ant", "shac", 0, {"1": 1.0}), row("hopper", "shac", 1, {"1": 80.0}, "time_of_impact")]
    lines = train_page.report(found, None).splitlines()
    assert "- CPU-minutes: 1, seeds: 3. SHAC is ahead on 1 of 1 tasks" in lines
    assert "| hopper | 1 | 60.0 (10.0 to 70.0; 3) | 50.0 (5.0 to 55.0; 3) | SHAC | 1,000, 1,000 | 0, -5 |" in lines
    assert "| hopper | 3 | 99 (98 to 100; 3) | 99.0 (99.0 to 99.0; 3) | equal | 1,000, 1,000 | 0, -5 |" in lines
    assert "| ant | 1 | 1.0 (1.0 to 1.0; 1) |  |  | 0, – |  |" in lines
    assert "| hopper | 3 | 3 |" in lines  # both are within 95 % by then, and as late
    sooner = found | dict(row("hopper", "shac", s, {"0.5": 96.0, "1": 97.0, "3": 98.0}) for s in range(3))
    assert " | SHAC, sooner | " in next(
        x for x in train_page.report(sooner, None).splitlines() if "| hopper | 3 |" in x
    )
    assert "| hopper | 0.5 | 3 |" in train_page.report(sooner, None)
    assert "| hopper | 1 | 80.0 (80.0 to 80.0; 1) | 60.0 (60.0 to 60.0; 1) |" in lines
    assert sum(line.startswith(("| abc |", "| def |")) for line in lines) == 5  # two commits, four algorithms
    found |= [row("ant", "ppo", 0, {"1": 2.0}), row("ant", "standing", 0, {"0": 3.0})]  # neither is better than that
    lines = train_page.report(found, None).splitlines()
    assert "| neither |" in next(line for line in lines if line.startswith("| ant | 1 |"))
    found |= [row("hopper", "ppo", 2, {"0.5": 96.0, "1": 2.0}, failed="iteration 9")]
    text = train_page.report(found, None)
    assert "diverged, which keep their last return: hopper by ppo: 1." in text
    train_page.write_page({}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_beside_validated_policies_stands_the_best_of_those_that_are_not(tmp_path):
    """PPO's best over all times of judging until then, where SHAC keeps the best of several; elsewhere nothing."""
    found = dict([row("hopper", "ppo", 0, {"0.5": 7.0, "1": 2.0, "3": 5.0}), row("ant", "ppo", 0, {"1": 1.0})])
    found |= [row("hopper", "shac", 0, {"1": 3.0, "3": 6.0}, settings={"validate_every": 100})]
    found |= [row("hopper", name, 1, {"0.5": 9.0}) for name in ("shac", "ppo")]  # which ended before
    found |= [row("ant", "shac", 0, {"1": 1.0}, settings={"validate_every": None})]
    lines = train_page.report(found, None).splitlines()
    first = lines.index("| task | CPU-minutes | SHAC | PPO, its best so far |")
    for k, (mark, own) in enumerate((("1", "3.0"), ("3", "6.0"))):
        assert lines[first + 2 + k] == f"| hopper | {mark} | {own} ({own} to {own}; 1) | 7.0 (7.0 to 7.0; 1) |"
    assert lines[first + 4] == ""


def test_a_stop_ends_a_training_on_gymnasiums_own_environment():
    """Without a row; and no task without such an environment is wanted."""
    pytest.importorskip("stable_baselines3")
    assert train.by_gymnasium(Run("hopper", "gymnasium"), (10.0,), stops=[15]) is None
    wanted = wanted_runs(("hopper", "reach"), ("gymnasium",), (0,))
    assert {run.task for run, _ in wanted if run.algorithm == "gymnasium"} == {"hopper"}


def test_a_training_that_diverged_before_it_was_judged_counts():
    """As the worst of all, also beside policies that are validated; and medians of other seeds are not compared."""
    found = dict([row("hopper", "ppo", 0, {"1": 5.0}), row("hopper", "ppo", 1, {}, failed="iteration 2")])
    found |= dict(row("hopper", "shac", s, {"1": 3.0}, settings={"validate_every": 100}) for s in (0, 1))
    lines = train_page.report(found, None).splitlines()
    line = next(x for x in lines if x.startswith("| hopper | 1 |"))
    assert "-inf (-inf to 5; 2)" in line and "| SHAC |" in line
    other = dict([row("hopper", "shac", 0, {"1": 3.0, "3": 9.0}), row("hopper", "shac", 1, {"1": 3.0})])
    other |= dict([row("hopper", "ppo", 0, {"1": 5.0}), row("hopper", "ppo", 1, {"1": 5.0, "3": 1.0})])
    assert train_page.ahead(other, "hopper", "1") == "PPO" and train_page.ahead(other, "hopper", "3") == ""


def test_seeds_that_one_algorithm_has_are_left_out():
    """Both are compared on the same seeds; a task that one of them has alone, or no seed in common, keeps its rows."""
    rows = dict(row("hopper", "shac", seed, {"1": 1.0}) for seed in range(4))
    rows |= dict(row("hopper", "ppo", seed, {"1": 1.0}) for seed in (1, 3, 5))
    rows |= dict([row("ant", "shac", 0, {"1": 1.0}), row("hopper", "standing", 0, {"0": 0.0})])
    rows |= dict([row("walker2d", "shac", 0, {"1": 1.0}), row("walker2d", "ppo", 1, {"1": 1.0})])
    left = {(run.task, run.algorithm, run.seed) for run in train_page.paired(rows)}
    kept = {("hopper", name, seed) for name in ("shac", "ppo") for seed in (1, 3)}
    others = {("ant", "shac", 0), ("hopper", "standing", 0), ("walker2d", "shac", 0), ("walker2d", "ppo", 1)}
    assert left == kept | others


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    rows = dict(
        row(t, a, s, {"1": 1.0 + s, "3": 2.0}) for t in ("hopper", "ant") for a in ("shac", "ppo") for s in (0, 1)
    )
    train_page.write_page(rows, tmp_path)
    assert (tmp_path / "train.png").stat().st_size > 1000 and "(train.png)" in (tmp_path / "train.md").read_text()


@pytest.mark.parametrize("option", [("--minutes", "-1"), ("--minutes", "nan"), ("--seeds", "-1"), ("--jobs", "0")])
def test_numbers_that_mean_nothing_are_refused(option, monkeypatch, capsys):
    """Budgets, seeds and jobs: by name and value, before anything is trained."""
    monkeypatch.setattr("sys.argv", ["train", "--list", *option])
    with pytest.raises(SystemExit):
        train.main()
    assert f"{option[0]} is {float(option[1]) if option[0] == '--minutes' else option[1]}" in capsys.readouterr().err


def test_the_command_of_every_run_reaches_it(tmp_path, monkeypatch):
    """Baselines have no budget: their children are not refused for it."""
    reached = []
    monkeypatch.setattr(train, "child", lambda run, minutes, folder: reached.append((run, tuple(minutes))) or 0)
    runs = train.wanted_runs(("hopper",), train.ALGORITHMS, (0,))
    for run, minutes in runs:
        monkeypatch.setattr("sys.argv", train.command_of(run, minutes, tmp_path)[2:])
        assert train.main() == 0
    assert reached == [(run, minutes or (0.0,)) for run, minutes in runs]
