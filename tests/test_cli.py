"""The command `warpsim`: what it prints and writes, and that a bad request ends in one line and exit code 2."""

import json

import numpy as np
import pytest

import warpsim as ws
from warpsim import bench, runs
from warpsim.cli import COMMANDS, main


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


def test_run_prints_only_json(assets, capsys):
    """`--json -` leaves nothing else on the output stream, and the numbers belong to the request."""
    args = ["run", assets("ant"), "--worlds", 3, "--steps", 20, "--device", "cpu", "--noise", 0.01, "--json", "-"]
    code, out, _ = run(capsys, *args)
    summary = json.loads(out)
    assert code == 0
    assert (summary["worlds"], summary["steps"], summary["dtype"]) == (3, 20, "float32")
    assert summary["world_steps_per_second"] > 0 and summary["momentum_error"] <= 1e-4
    assert summary["flags"] == {"NONFINITE": 0, "NOT_CONVERGED": 0, "CONTACT_OVERFLOW": 0}


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
        (["bench", "--engines", "abacus"], "abacus"),
    ],
)
def test_bad_requests_end_in_one_line(args, words, assets, capsys):
    """A mistake in the request is one line on the error stream that names it, exit code 2 and no traceback."""
    code, out, err = run(capsys, *(assets("ant") if arg == "ANT" else arg for arg in args))
    lines = [line for line in err.splitlines() if line.startswith("warpsim: ")]
    assert code == 2 and len(lines) == 1 and words in lines[0], err
    assert "Traceback" not in err + out


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
    table = (tmp_path / "bench.md").read_text()
    assert table.count("| ant |") == 4 and result["machine"]["date"] in table
    assert bench.table_rows(result)[0][2] == "warpsim" and "ant" in out
