# SPDX-License-Identifier: Apache-2.0
"""`ws.identify_log` and `warpsim identify`: parameters with intervals from a CSV log, and what a log must be."""

import csv
import dataclasses
import importlib.metadata
import json

import numpy as np
import pytest

import warpsim as ws
from benchmarks import identify_arm
from warpsim.optimise.motion_log import read_log
from warpsim.tools.cli import main

DT, ROWS = 0.01, 120
ARM = """<mujoco model="arm"><compiler angle="radian"/><option timestep="0.002"/><worldbody><body name="upper">
 <joint name="shoulder" axis="0 1 0" damping="DAMPING"/><inertial pos="0 0 -0.2" mass="1.0" diaginertia="0.02 0.02 0.004"/>
 <body name="lower" pos="0 0 -0.4"><joint name="elbow" axis="0 1 0" damping="0.05"/>
 <inertial pos="0 0 -0.15" mass="MASS" diaginertia="0.008 0.008 0.003"/></body></body></worldbody>
 <actuator><motor name="lift" joint="shoulder"/><motor name="bend" joint="elbow"/></actuator></mujoco>"""


def robot(path, damping: float = 0.1, mass: float = 0.5):
    """The file of a planar arm of two links."""
    path.write_text(ARM.replace("DAMPING", str(damping)).replace("MASS", str(mass)))
    return path


def record(tmp_path, seed: int = 0, stiffness: float = 0.0) -> dict[str, np.ndarray]:
    """The columns of a noisy log of an arm with other damping and mass than the file's, and with springs."""
    rng = np.random.default_rng(seed)
    model = ws.load(robot(tmp_path / "true.xml", 0.25, 0.7))
    model = dataclasses.replace(model, joint_stiffness=np.full_like(model.joint_stiffness, stiffness))
    sim = ws.Simulator(model, 1, DT, dtype="float64", device="cpu", integrator=ws.Midpoint(), solver=ws.NoContact())
    t = DT * np.arange(ROWS)
    u = np.stack([2.0 * np.sin(5 * t) + np.sin(13 * t), 0.8 * np.sin(7 * t + 1) + 0.5 * np.sin(17 * t)], axis=1)
    motion = sim.rollout(sim.state([[0.3, -0.2]]), u[:-1, None], substeps=5)
    q, v = (x.numpy()[:, 0] + size * rng.normal(size=(ROWS, 2)) for x, size in ((motion.q, 1e-3), (motion.v, 1e-2)))
    columns = {"time": t, "q:shoulder": q[:, 0], "q:elbow": q[:, 1], "v:elbow": v[:, 1]}
    return columns | {"u:lift": u[:, 0], "u:elbow": u[:, 1]}  # the second by the joint that it drives


def write(path, columns: dict):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
    return path


def test_command_finds_what_made_the_log(tmp_path, capsys):
    """The command prints and writes estimates whose intervals hold the true values, and a robot file with them."""
    log, file = write(tmp_path / "log.csv", record(tmp_path)), robot(tmp_path / "arm.xml")
    out = tmp_path / "found.json"
    kinds = ["--parameters", "body_mass", "joint_damping"]
    assert main(["identify", str(log), str(file), *kinds, "--out", str(out), "--device", "cpu"]) == 0
    text = capsys.readouterr().out
    data = json.loads(out.read_text())
    found = {f"{e['parameter']}[{e['element']}]": e for e in data["estimates"]}
    assert data["status"] == "converged" and data["warnings"] == [] and "joint_damping" in text and "wrote" in text
    true = {
        "body_mass[lower]": 0.7,
        "body_mass[upper]": 1.0,
        "joint_damping[shoulder]": 0.25,
        "joint_damping[elbow]": 0.05,
    }
    assert set(found) == set(true)
    for name, value in true.items():
        width = (found[name]["high"] - found[name]["low"]) / 2
        assert abs(found[name]["value"] - value) < 1.5 * width and width < 0.1 * value, (name, found[name])
    assert found["body_mass[lower]"]["file"] == 0.5 and found["body_mass[lower]"]["unit"] == "kg"
    np.testing.assert_allclose([data["noise"]["q:elbow"], data["noise"]["v:elbow"]], [1e-3, 1e-2], rtol=0.2)
    result = ws.identify_log(log, ws.load(file), ["body_mass"], device="cpu")
    result.save(tmp_path / "arm_found.xml")
    again = ws.load(tmp_path / "arm_found.xml")
    np.testing.assert_allclose(again.body_mass[again.body_names.index("lower")], result.estimates[1].value, rtol=1e-6)


def test_a_robot_that_has_what_its_model_lacks_is_not_called_converged(tmp_path):
    """Springs that the file does not have: the residuals are larger than the noise of the columns, which is told."""
    log = write(tmp_path / "log.csv", record(tmp_path, stiffness=1.0))
    kinds = ["body_mass", "joint_damping"]
    found = ws.identify_log(log, ws.load(robot(tmp_path / "arm.xml")), kinds, substeps=5, device="cpu")
    assert found.status == "misfit" and found.excess[0] > 3 * found.excess[1]
    assert any("above the noise of the columns" in text for text in found.warnings)
    assert found.estimates[0].all_low < found.estimates[0].low and found.wider > 1.2
    assert set(found.data()) >= {"moved", "restarts", "excess", "status"}
    better = dataclasses.replace(found, excess=(0.0, 0.1), moved=1.0, restarts=(3.0, 2.0, 1.0), status="unsettled")
    texts = "; ".join(better.warnings)
    assert "moved by 1 standard deviations" in texts and "ended at a lower cost" in texts and "above" not in texts


def test_what_the_motion_does_not_show_is_named(tmp_path):
    """A joint that nothing turns shows neither the damping nor the delay of its motor: both stay as the file has them."""
    columns = record(tmp_path)
    still = {"q:shoulder": 0.0, "q:elbow": 0.0, "v:elbow": 0.0, "u:lift": 0.0, "u:elbow": 0.0}
    noise = np.random.default_rng(1).normal(size=(2, ROWS))
    columns |= {name: np.full(ROWS, value) for name, value in still.items()}
    columns["q:shoulder"], columns["q:elbow"] = 1e-4 * noise
    model = ws.load(robot(tmp_path / "arm.xml"))
    found = ws.identify_log(write(tmp_path / "log.csv", columns), model, ["delay"], device="cpu")
    assert found.unshown == ("delay[lift]", "delay[bend]") and found.estimates == ()


def changed(tmp_path, change, rows=ROWS):
    columns = {name: x[:rows].astype(object) for name, x in record(tmp_path).items()}
    change(columns)
    return write(tmp_path / "bad.csv", columns)


def put(name, row, value):
    return lambda columns: columns[name].__setitem__(row, value)


def later(columns):
    columns["time"][50:] = columns["time"][50:] + 0.03


@pytest.mark.parametrize(
    "change, message",
    [
        (later, r"row 52 is 0.04 s after row 51, where rows are 0.01 s apart \(1 such intervals\); resample"),
        (put("q:elbow", 7, "nan"), "row 9, column 'q:elbow' is not a finite number"),
        (put("u:lift", 3, ""), "row 5, column 'u:lift' is not a finite number"),
        (put("time", 3, "soon"), "row 5, column 'time' is 'soon'; give a number"),
        (lambda c: c.update({"q:wrist": c["q:elbow"]}), "'q:wrist': robot 'arm' has no joint 'wrist'; there are: shoulder, elbow"),
        (lambda c: c.update({"u:wrist": c["q:elbow"]}), "robot 'arm' has no actuator 'wrist'; there are: lift, bend"),
        (lambda c: c.update({"u:bend": c["u:elbow"]}), "column 'u:elbow' is there twice|column 'u:bend' is there twice"),
        (lambda c: c.update({"current": c["u:elbow"]}), "column 'current' is none of time, q:JOINT, v:JOINT, u:ACTUATOR"),
        (lambda c: c.pop("q:elbow"), "no column q:elbow; a log has the position of every joint"),
        (lambda c: c.pop("time"), "has 0 columns 'time'; give one, in seconds"),
    ],
)  # fmt: skip
def test_a_bad_log_is_refused_by_row_and_column(tmp_path, change, message):
    model = ws.load(robot(tmp_path / "arm.xml"))
    with pytest.raises(ValueError, match=message):
        read_log(changed(tmp_path, change), model)


def test_short_logs_and_other_requests_are_refused(tmp_path, capsys):
    model, short = ws.load(robot(tmp_path / "arm.xml")), changed(tmp_path, lambda columns: None, 9)
    with pytest.raises(ValueError, match=r"bad\.csv: has 9 rows of data; identification needs at least 14"):
        ws.identify_log(short, model)
    with pytest.raises(ValueError, match="an entry of parameters is 'mass'; choose one of"):
        ws.identify_log(short, model, ["mass"])
    (tmp_path / "empty.csv").write_text("")
    assert main(["identify", str(tmp_path / "empty.csv"), str(tmp_path / "arm.xml")]) == 2
    assert "empty; the first row names the columns" in capsys.readouterr().err
    assert main(["identify", str(tmp_path / "none.csv"), str(tmp_path / "arm.xml")]) == 2
    assert "none.csv: no such file" in capsys.readouterr().err
    free = ws.load(ws.robots.path("ant"))
    with pytest.raises(ValueError, match="is a free joint; a log has hinges and slides"):
        read_log(short, free)


def test_other_ways_to_write_a_table_are_named(tmp_path):
    """Semicolons, decimal commas, tabs, a comment before the header, digits in groups, UTF-16: one line with the fix."""
    model, good = ws.load(robot(tmp_path / "arm.xml")), changed(tmp_path, lambda columns: None, 30).read_text()
    for text, words in (
        (good.replace(",", ";"), "row 1 is 'time;q:shoulder.*without a comma; .*separate cells by commas"),
        (good.replace(",", "\t"), "without a comma"),
        ("# my log\n" + good, "row 1 is '# my log', without a comma"),
        (good.replace(".", ","), "row 2 has [0-9]+ cells; the header has 6; write numbers with a decimal point"),
        (good.replace("\n0.0,", "\n1_0,", 1), "row 2, column 'time' is '1_0'; give a number"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(ValueError, match=words):
            read_log(tmp_path / "bad.csv", model)
    (tmp_path / "bad.csv").write_text(good, "utf-16")
    with pytest.raises(ValueError, match="no CSV file in UTF-8"):
        read_log(tmp_path / "bad.csv", model)


def test_other_units_are_told(tmp_path, capsys):
    """Milliseconds are refused, degrees and clamped controls are warned of, what overflows is refused."""
    file = tmp_path / "limited.xml"
    model = ws.load(robot(file))
    slow = changed(tmp_path, lambda c: c.update(time=1000 * c["time"]))
    with pytest.raises(ValueError, match=r"bad\.csv: rows are 10 s apart, .*give the column time in seconds"):
        ws.identify_log(slow, model)
    limits = file.read_text().replace('damping="0.05"', 'damping="0.05" range="-2 2"')
    file.write_text(limits.replace('name="bend"', 'name="bend" ctrllimited="true" ctrlrange="-1 1"'))
    degrees = changed(tmp_path, lambda c: c.update({"q:elbow": np.degrees(c["q:elbow"].astype(float))}))
    with pytest.warns(UserWarning) as told:
        read_log(degrees, ws.load(file))
    assert "column 'q:elbow' goes from" in str(told[0].message) and "give radians" in str(told[0].message)
    assert "column 'u:bend'" in str(told[1].message) and "clamped" in str(told[1].message) and len(told) == 2
    huge = changed(tmp_path, lambda c: c.update({"q:elbow": 1e300 * c["q:elbow"].astype(float)}))
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="is not finite; check the units of its columns"),
    ):
        ws.identify_log(huge, model)


def test_what_is_read_is_not_written(tmp_path, capsys):
    file, log = robot(tmp_path / "arm.xml"), changed(tmp_path, lambda columns: None)
    before = file.read_text()
    assert main(["identify", str(log), str(file), "--out", str(file)]) == 2
    assert "is read here; give another name" in capsys.readouterr().err and file.read_text() == before


def test_a_noisy_log_of_a_six_joint_arm(within):
    """UR5 with other masses, friction, damping and armature, and delayed motors: `benchmarks.identify_arm` with a short log.
    Deviations are those of the intervals; 95 % of them lie within 1.96 standard deviations, here of 29."""
    try:
        importlib.metadata.version("example-robot-data")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs example-robot-data")
    result = identify_arm.run(100, 2.0, substeps=10)
    z = np.array([row["z"] for row in result["rows"]])
    assert result["status"] == "converged" and result["unshown"] == ("body_mass[base_link]", "body_mass[shoulder_link]")
    within("root mean square deviation, in standard deviations", np.sqrt((z**2).mean()), 1.6)
    within("share of parameters outside their 95 % intervals", (np.abs(z) > 1.96).mean(), 0.2)
