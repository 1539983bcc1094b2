# SPDX-License-Identifier: Apache-2.0
"""The command `warpsim`: what it prints and writes, and that a bad request ends in one line and exit code 2."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import typing

import numpy as np
import pytest

import warpsim as ws
from warpsim.tools import bench, cli, runs
from warpsim.tools.cli import COMMANDS, main
from warpsim.tools.cli_warm import CONTACT, Contact


def run(capsys, *args) -> tuple[int, str, str]:
    """Exit code, output and errors of one command."""
    capsys.readouterr()
    code = main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    """--help names the command and exits with 0."""
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"warpsim {command}" in capsys.readouterr().out


def test_info_lists_the_model_and_its_report(assets, capsys):
    """Tables name every body; --json is the same facts as plain data, the report grouped by status."""
    code, text, _ = run(capsys, "info", assets("ant"))
    assert code == 0
    code, out, _ = run(capsys, "info", assets("ant"), "--json")
    facts = json.loads(out)
    assert code == 0 and facts["nv"] == 14 and facts["ntree"] == 1 and len(facts["geoms"]) == facts["ngeom"]
    assert all(body["name"] in text for body in facts["bodies"])
    assert facts["report"]["used"] and set(facts["report"]) <= {"used", "mapped", "ignored", "refused"}


def test_info_tells_of_pressure_fields(tmp_path, capsys):
    """A column of the moduli where the model has any; rigid geoms say so."""
    path = tmp_path / "m.xml"
    fields = '<numeric name="hydroelastic:a" data="2e5"/><numeric name="hydroelastic:b" data="0"/>'
    geoms = '<geom name="a" size=".1"/><geom name="b" size=".1"/><geom name="c" size=".1"/>'
    path.write_text(f"<mujoco><custom>{fields}</custom><worldbody>{geoms}</worldbody></mujoco>")
    main(["info", str(path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [row["hydroelastic"] for row in told["geoms"]] == ["200000 Pa", "rigid", None]
    main(["info", str(path)])
    assert "200000 Pa" in capsys.readouterr().out


def test_run_prints_only_json(assets, capsys):
    """`--json -` leaves nothing else on the output stream, and the numbers belong to the request."""
    args = ["run", assets("ant"), "--worlds", 3, "--steps", 20, "--device", "cpu", "--noise", 0.01, "--json", "-"]
    code, out, _ = run(capsys, *args)
    summary = json.loads(out)
    assert code == 0
    assert (summary["worlds"], summary["steps"], summary["dtype"]) == (3, 20, "float32")
    assert summary["world_steps_per_second"] > 0 and summary["momentum_error"] <= 1e-4
    names = ("NONFINITE", "NOT_CONVERGED", "CONTACT_OVERFLOW", "UNRESOLVED", "DEEP_PRESSURE", "NOT_HELD", "ENERGY_GAIN")
    assert summary["flags"] == dict.fromkeys(names, 0)


def test_run_writes_what_is_asked_for_and_view_reads_the_store(assets, capsys, tmp_path):
    """Stage, store, picture and summary are written, every k-th step is kept, and the store becomes a page."""
    files = {name: tmp_path / name for name in ("a.usda", "a.zarr", "a.png", "a.json", "a.html")}
    args = ["run", assets("ant"), "--worlds", 2, "--steps", 10, "--every", 5, "--device", "cpu", "--controls", "zero"]
    outputs = ["--usd", files["a.usda"], "--store", files["a.zarr"], "--png", files["a.png"], "--json", files["a.json"]]
    code, out, err = run(capsys, *args, *outputs)
    assert code == 0, err
    assert "world-steps per second" in out and "flags" in out
    assert json.loads(files["a.json"].read_text())["steps"] == 10
    assert ws.Trajectory.load(files["a.zarr"]).steps == 2
    assert files["a.png"].read_bytes().startswith(b"\x89PNG") and files["a.usda"].stat().st_size > 0
    code, _, err = run(capsys, "view", files["a.zarr"], "--out", files["a.html"])
    assert code == 0, err
    assert "<html" in files["a.html"].read_text()[:1000].lower()


def test_run_and_view_show_patches(assets, capsys, tmp_path):
    """`--patches` reaches stage, page and picture; a model without pressure fields is refused before anything is simulated."""
    path = tmp_path / "m.xml"
    fields = '<numeric name="hydroelastic:a" data="2e5"/><numeric name="hydroelastic:b" data="0"/>'
    geoms = (
        '<geom name="b" type="plane" size="1 1 1"/><body pos="0 0 .095"><freejoint/><geom name="a" size=".1"/></body>'
    )
    path.write_text(f"<mujoco><custom>{fields}</custom><worldbody>{geoms}</worldbody></mujoco>")
    files = {name: tmp_path / name for name in ("a.usda", "a.html", "a.png", "a.zarr", "b.html")}
    outputs = ["--usd", files["a.usda"], "--html", files["a.html"], "--png", files["a.png"], "--store", files["a.zarr"]]
    code, _, err = run(capsys, "run", path, "--steps", 3, "--device", "cpu", "--patches", *outputs)
    assert code == 0, err
    code, _, err = run(capsys, "view", files["a.zarr"], "--out", files["b.html"], "--patches")
    assert code == 0, err
    assert "primvars:pressure" in files["a.usda"].read_text() and files["a.png"].stat().st_size > 0
    assert all("pressure 0 to" in files[name].read_text() for name in ("a.html", "b.html"))
    code, _, err = run(capsys, "run", assets("ant"), "--device", "cpu", "--patches", "--usd", tmp_path / "c.usda")
    assert code == 2 and "has no patches to show" in err and not (tmp_path / "c.usda").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "missing.xml"], "missing.xml"),
        (["run", "robot.txt"], ".txt"),
        (["info", "missing.urdf"], "missing.urdf"),
        (["run", "ANT", "--worlds", "0"], "worlds"),
        (["run", "ANT", "--steps", "0"], "steps"),
        (["run", "ANT", "--dt", "-1"], "dt"),
        (["run", "ANT", "--device", "abacus"], "abacus"),
        (["run", "ANT", "--usd", "/no/such/folder/a.usd"], "/no/such/folder"),
        (["view", "missing.zarr"], "missing.zarr"),
        (["view", "missing.zarr", "--live"], "missing.zarr"),
        (["view", "missing.zarr", "--live", "--out", "a.html"], "leave out --live"),
        (["view", "missing.zarr", "--contact", "lcp"], "--contact"),
        (["bench", "--engines", "abacus"], "abacus"),
    ],
)
def test_bad_requests_end_in_one_line(args, words, assets, capsys):
    """A mistake in the request is one line on the error stream that names it, exit code 2 and no traceback."""
    code, out, err = run(capsys, *(assets("ant") if arg == "ANT" else arg for arg in args))
    lines = [line for line in err.splitlines() if line.startswith("warpsim: ")]
    assert code == 2 and len(lines) == 1 and words in lines[0], err
    assert "Traceback" not in err + out


def test_contact_of_run_and_view(tmp_path, capsys, monkeypatch):
    """`--contact` is the simulator's contact model in both, by the names of `warm`."""
    path, solvers = tmp_path / "ball.xml", []
    path.write_text('<mujoco><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>')

    def simulator(*_, solver, **__):
        solvers.append(solver)
        raise ValueError("that is enough")

    monkeypatch.setattr(ws, "Simulator", simulator)
    monkeypatch.setattr(cli, "import_or_explain", lambda *_: None)
    for command in ("run", "view"):
        code, _, err = run(capsys, command, path, "--device", "cpu", "--contact", "convex")
        assert code == 2 and "that is enough" in err
    assert solvers == [ws.SAP(approximation="convex")] * 2
    assert set(typing.get_args(Contact)) == set(CONTACT)


def test_a_terminal_without_the_characters(tmp_path):
    """Names and signs that the shell's encoding lacks are question marks there, and end no command."""
    path = tmp_path / "m.xml"
    path.write_text(
        '<mujoco model="W\u00fcrfel"><worldbody><geom name="\u2192" size=".1"/></worldbody></mujoco>', "utf-8"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    program = "import sys; from warpsim.tools.cli import main; main(['info', sys.argv[1]]); main(['--help'])"
    done = subprocess.run([sys.executable, "-c", program, str(path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "W?rfel: nq 0" in done.stdout and "devices" in done.stdout


def test_devices(capsys):
    """The CPU is always there, and the versions in use are named."""
    code, out, _ = run(capsys, "devices", "--json")
    facts = json.loads(out)
    assert code == 0 and "cpu" in facts["devices"]
    assert facts["versions"]["warpsim"] == ws.__version__ and facts["versions"]["mujoco"] != "not installed"
    assert run(capsys, "devices")[0] == 0


def test_random_controls_stay_in_range_and_repeat(assets):
    """Smooth controls are within the control ranges, differ between worlds, and depend on nothing but the seed."""
    model = ws.load(assets("humanoid"))
    controls = runs.smooth_controls(model, 4, 50, 0.01, seed=3)
    assert controls.shape == (50, 4, model.nu)
    low, high = model.control_range.T
    assert (controls >= low - 1e-6).all() and (controls <= high + 1e-6).all()
    assert np.array_equal(controls, runs.smooth_controls(model, 4, 50, 0.01, seed=3))
    assert not np.array_equal(controls[:, 0], controls[:, 1])


def test_perturbed_start_is_a_legal_state(assets):
    """Noise keeps quaternions of unit length and joints within their limits, and leaves the free joint in place."""
    model = ws.load(assets("ant"))
    q, v = runs.perturbed_start(model, 50, noise=0.3, seed=1)
    assert np.allclose(np.linalg.norm(q[:, 3:7], axis=1), 1, atol=1e-12)
    assert np.array_equal(q[:, :3], np.tile(model.q0[:3], (50, 1)))
    for j in np.flatnonzero(model.joint_limited):
        coordinate = q[:, model.joint_q[j]]
        assert (coordinate >= model.joint_range[j, 0]).all() and (coordinate <= model.joint_range[j, 1]).all()
    assert v.std() == pytest.approx(0.3, rel=0.1)


def test_bench_writes_its_table(capsys, tmp_path):
    """A small race against MuJoCo writes JSON and a table with one row per engine and number of worlds."""
    pytest.importorskip("gymnasium")
    args = ["bench", "--models", "ant", "--worlds", "1,3", "--engines", "warpsim,mujoco", "--repeats", 1]
    args += ["--world-steps", 16, "--settle", 0.05, "--no-cold-start", "--device", "cpu", "--out", tmp_path]
    code, out, err = run(capsys, *args)
    assert code == 0, err
    result = json.loads((tmp_path / "bench.json").read_text())
    assert [(r["engine"], r["worlds"]) for r in result["rows"]] == [
        ("warpsim", 1), ("mujoco", 1), ("warpsim", 3), ("mujoco", 3)
    ]  # fmt: skip
    assert all(r["world_steps_per_second"] > 0 for r in result["rows"])
    table = (tmp_path / "bench.md").read_text("utf-8")
    assert table.count("| ant |") == 4 and result["machine"]["date"] in table
    assert bench.table_rows(result)[0][2] == "warpsim" and "ant" in out


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--usd", "a.txt", "must end in"),
        ("--usd", "folder", "must end in"),
        ("--html", "folder", "is a folder"),
        ("--png", "folder", "is a folder"),
        ("--plot", "a.xyz", "must end in"),
        ("--json", "folder", "is a folder"),
        ("--store", "file", "is a file"),
        ("--store", "full", "not a Zarr"),
        ("--html", "file/a.html", "does not exist"),
    ],
)
def test_an_output_that_cannot_be_written_is_noticed_before_the_rollout(
    assets, capsys, tmp_path, monkeypatch, option, name, words
):
    """One line and exit code 2 without a step, and nothing of what is there is touched."""
    monkeypatch.setattr(runs, "timed_rollout", lambda *a, **k: pytest.fail("rolled out"))
    (tmp_path / "file").write_text("keep")
    for folder in ("folder", "full"):
        (tmp_path / folder).mkdir()
    (tmp_path / "full" / "mine").write_text("keep")
    code, _, err = run(capsys, "run", assets("ant"), "--device", "cpu", option, tmp_path / name)
    assert code == 2 and err.count("\n") == 1 and words in err, err
    assert (tmp_path / "file").read_text() == "keep" and (tmp_path / "full" / "mine").read_text() == "keep"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "full"]


def test_two_outputs_need_two_names(assets, capsys, tmp_path):
    """The page would be overwritten by the picture."""
    path = tmp_path / "a.png"
    code, _, err = run(capsys, "run", assets("ant"), "--device", "cpu", "--html", path, "--png", path)
    assert code == 2 and "asked for twice" in err


def test_a_store_in_half_precision(assets, capsys, tmp_path):
    """`run --half` rounds the rows of --store, and means nothing without it."""
    args = ["run", assets("ant"), "--worlds", 2, "--steps", 5, "--device", "cpu", "--half"]
    code, _, err = run(capsys, *args)
    assert code == 2 and "--half is of the store" in err
    code, _, err = run(capsys, *args, "--store", tmp_path / "a.zarr")
    assert code == 0, err
    assert ws.Trajectory.load(tmp_path / "a.zarr").q.dtype == np.float16


def test_a_streamed_store_is_the_rollout(assets, capsys, tmp_path):
    """The frames that `run --store` writes piece by piece have the bits of one rollout, and of every k-th step."""
    model = ws.load(assets("ant"))
    for every in (1, 3):
        path = tmp_path / f"{every}.zarr"
        args = ["--worlds", 2, "--steps", 50, "--every", every, "--device", "cpu", "--store", path]
        code, _, err = run(capsys, "run", assets("ant"), *args)
        assert code == 0, err
        sim = ws.Simulator(model, 2, device="cpu")
        expected = sim.rollout(sim.state(), runs.smooth_controls(model, 2, 50, sim.dt), every=every)
        back = ws.Trajectory.load(path)
        assert back.steps == expected.steps
        for name in ("q", "v", "time", *expected.diagnostics):
            rows = np.arange(expected.steps if name in expected.diagnostics else expected.frames)
            np.testing.assert_array_equal(back.rows(name, rows), expected.rows(name, rows), err_msg=name)


@pytest.mark.usefixtures("from_terminal")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_keeps_what_it_simulated(assets, tmp_path, number, code):
    """Ctrl-C or a polite kill in the middle of `run --store`: one line, exit code 128 + signal, and a store that holds the
    frames until then, which are those of an uninterrupted run."""
    path = tmp_path / "a.zarr"
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-m", "warpsim", "run", assets("ant"), "--worlds", "4", "--steps", "200000"]
    command += ["--device", "cpu", "--controls", "none", "--store", str(path)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if ws.Trajectory.load(path).frames > 20:
                    break
            except ValueError:
                pass
            time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    lines = [line for line in err.splitlines() if "CUDA" not in line]
    assert process.returncode == code, err
    assert len(lines) == 1 and f"stopped by {signal.Signals(number).name} after" in lines[0] and str(path) in lines[0]
    back = ws.Trajectory.load(path)
    assert 20 < back.frames < 200000 and f"holds the {back.frames} frames" in lines[0]
    sim = ws.Simulator(ws.load(assets("ant")), 4, device="cpu")
    expected = sim.rollout(sim.state(), steps=30)
    frames = min(31, back.frames)
    np.testing.assert_array_equal(back.q[:frames], expected.q.numpy()[:frames])
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


FULL_DISK = """
import resource, sys
from warpsim.tools.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_fills_up_ends_a_run_in_one_line(assets, tmp_path):
    """No file may grow beyond 60 kB, less than a chunk of frames: exit code 2, and the store can be read."""
    pytest.importorskip("resource")
    path = tmp_path / "a.zarr"
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[2])}
    args = ["run", assets("ant"), "--worlds", "4", "--steps", "3000", "--device", "cpu", "--store", str(path)]
    args += ["--controls", "none"]
    command = [sys.executable, "-c", FULL_DISK, *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    lines = [line for line in done.stderr.splitlines() if line.startswith("warpsim: ")]
    back = ws.Trajectory.load(path)
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert f"{path} could not be written: File too large; the store holds {back.frames} frames" in lines[0]
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
    assert not list(path.rglob("*.partial"))
