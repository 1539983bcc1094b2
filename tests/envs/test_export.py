# SPDX-License-Identifier: Apache-2.0
"""Policies as files: ONNX and torch.export give torch's actions, say what a robot needs, and play without torch."""

import json
import subprocess
import sys

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import OnnxPolicy
from warpsim.tools.cli import main

torch = pytest.importorskip("torch")
for package in ("rsl_rl", "onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package)

import onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

CLOSE = 1e-6  # float32 has 1e-7; sums of 64 products in another order


@pytest.fixture(scope="module", params=["ppo", "shac"])
def exported(tmp_path_factory, request):
    """A short training of the cart pole, its ONNX file and its program."""
    from warpsim.envs.training import train

    folder = tmp_path_factory.mktemp(request.param)
    learning = {"shac": {"output_gain": 0.5}} if request.param == "shac" else {}
    options = {"algorithm": request.param, "learning": learning, "device": "cpu"}
    train("cartpole", seed=100, num_envs=16, iterations=3, out=folder, **options)
    command = ["export", str(folder), "--onnx", str(folder / "p.onnx"), "--torch", str(folder / "p.pt2")]
    assert main(command) == 0
    return folder


def test_files_give_the_actions_of_torch(exported):
    """Random and extreme observations, one and many: to 1e-6 of the largest action, and the same for any batch."""
    from warpsim.envs.training import load_learner

    learner = load_learner(exported / "checkpoint.pt", device="cpu", policy_only=True)
    learner._judging(True)
    policy, program = OnnxPolicy(exported / "p.onnx"), torch.export.load(exported / "p.pt2").module()
    size = learner.observation.shape[1]
    random = torch.Generator().manual_seed(0)
    for scale in (0.0, 1e-3, 1.0, 1e3, 1e9, 1e30):
        many = scale * torch.randn(64, size, generator=random)
        largest = max(1.0, float(abs(learner.act(many)).max()))
        for seen in (many, many[:1]):
            wanted = learner.act(seen).numpy()
            for found in (policy(seen.numpy()), program(seen).detach().numpy()):
                assert found.shape == wanted.shape and found.dtype == np.float32
                assert abs(found - wanted).max() <= CLOSE * largest
        rows = np.concatenate([policy(row[None]) for row in many.numpy()])
        assert rows.tobytes() == policy(many.numpy()).tobytes()


def test_the_description_says_what_a_robot_needs(exported):
    """It lies beside the files and inside both; columns of the observation are found by their values."""
    text = (exported / "p.json").read_text()
    about = json.loads(text)
    assert OnnxPolicy(exported / "p.onnx").about == about
    inside = {"warpsim.json": ""}
    torch.export.load(exported / "p.pt2", extra_files=inside)
    assert inside["warpsim.json"] == text
    assert (about["task"], about["seed"]) == ("CartPole", 100) and about["env_steps"] > 0
    assert about["dt"] * about["decimation"] * about["control_rate"] == pytest.approx(1.0)
    env = ws.envs.VectorEnv("CartPole", 3)
    assert about["action"]["low"] == env.single_action_space.low.tolist()
    assert [a["name"] for a in about["actuators"]] == list(env.models[0].actuator_names)
    ends = [term["slice"] for term in about["observation"]["terms"]]
    assert ends[0][0] == 0 and ends[-1][1] == about["observation"]["size"] == env.single_observation_space.shape[0]
    paths = (b"/work", b"/home", b"site-packages", str(exported).encode())
    assert not any(path in (exported / "p.onnx").read_bytes() for path in paths)


def test_columns_are_told_by_their_values():
    """Offsets, scales, noise and delays of the A1's observations are those of its task."""
    from warpsim.envs.policy_description import describe
    from warpsim.envs.sensing import height
    from warpsim.envs.task import Task
    from warpsim.envs.terms import command, delayed, history, last_action, late, noisy, scaled, uniform_command

    class Arm(Task):
        model = ws.robots.path("hopper")
        decimation = 5
        observations = {
            "q": noisy(lambda s: 2.0 * s.q[:, 3:] - 0.5, uniform=0.1),
            "v": late(lambda s: s.v, 2),
            "cos": lambda s: s.xp.cos(s.q[:, 2]),
            "wish": command("wish"),
            "before": last_action,
            "up": height("trunk"),
            "past": history(lambda s: s.v[:, :2], 3),
        }
        rewards = {"none": lambda s: 0.0 * s.q[:, 0]}
        commands = {"wish": uniform_command((-1.0, 2.0), (1.0, 3.0))}
        actuators = (scaled(0.25, (0.1, 0.2, 0.3)), delayed(1))
        action_range = (-4.0, 4.0)

    about = describe(Arm, "Arm", {}, {})
    terms = {term["name"]: term for term in about["observation"]["terms"]}
    model = ws.load(ws.robots.path("hopper"))
    assert [c["joint"] for c in terms["q"]["columns"]] == list(model.joint_names[3:])
    assert {(c["quantity"], c["scale"], c["offset"]) for c in terms["q"]["columns"]} == {("joint_position", 2.0, -0.5)}
    assert terms["q"]["noise"] == {"uniform": 0.1}
    assert terms["v"]["delay"] == pytest.approx(10 * model.timestep)
    assert [c["joint"] for c in terms["v"]["columns"]] == list(model.joint_names)
    assert terms["cos"]["columns"] == [None]
    assert [(c["quantity"], c["index"]) for c in terms["wish"]["columns"]] == [("command", 0), ("command", 1)]
    assert [c["quantity"] for c in terms["before"]["columns"]] == ["last_action"] * 3
    assert (terms["up"]["term"], terms["up"]["arguments"]) == ("height", {"body": "trunk"})
    ages = [round(c["age"] / (5 * model.timestep)) for c in terms["past"]["columns"]]
    assert ages == [2, 2, 1, 1, 0, 0] and terms["past"]["slice"][1] == about["observation"]["size"]
    first, second = about["action"]["terms"]
    assert (first["term"], first["scale"]) == ("scaled", 0.25) and first["offset"] == pytest.approx([0.1, 0.2, 0.3])
    assert second["term"] == "delayed" and second["delay"] == pytest.approx(5 * model.timestep)
    assert about["action"]["low"] == [-4.0] * 3


def test_terms_keep_their_arguments():
    """Sensors by name, the place of an inertial unit and a lidar's rays: what a robot's program needs for columns of no joint."""
    from warpsim.envs import Task, Term, cameras, sensing, terms
    from warpsim.envs.policy_description import describe

    class Last(Term):
        def __init__(self, columns, rule):
            self.columns, self.rule = columns, rule

        def __call__(self, view):
            return view.q[:, self.columns]

    b = ws.ModelBuilder()
    b.add_model(ws.load(ws.robots.path("cartpole")))
    b.add_site("tip", body="pole")
    b.add_sensor("accelerometer", "tip", name="felt")
    b.add_sensor("jointpos", "pivot", name="encoder")
    pose = (0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0)
    observations = {
        "felt": terms.history(terms.noisy(sensing.sensor("felt"), normal=0.1), 2),
        "all": sensing.sensor(),
        "imu": sensing.imu("pole", pose),
        "turn": sensing.angular_velocity("pole"),
        "scan": cameras.lidar("cart", columns=3, horizontal=(-30.0, 30.0)),
        "last": Last(slice(1, None), rule=len),
    }
    about = describe(Task, "Task", {"model": b.build(), "observations": observations}, {})
    found = {term["name"]: term for term in json.loads(json.dumps(about, allow_nan=False))["observation"]["terms"]}
    assert found["felt"]["arguments"] == {"names": ["felt"]} and found["felt"]["slice"] == [0, 6]
    assert found["all"]["arguments"] == {"names": ["felt", "encoder"]}
    assert found["all"]["columns"][:3] == [None] * 3 and found["all"]["columns"][3]["joint"] == "pivot"
    assert (found["imu"]["term"], found["imu"]["arguments"]) == ("imu", {"body": "pole", "pose": list(pose)})
    assert found["turn"]["term"] == "angular_velocity" and found["turn"]["arguments"]["body"] == "pole"
    scan = {"columns": 3, "channels": 1, "horizontal": [-30.0, 30.0], "vertical": [0.0, 0.0], "reach": 10.0}
    assert found["scan"]["arguments"].items() >= ({"body": "cart"} | scan).items()
    assert found["last"]["arguments"] == {"columns": [1, None]}


def test_an_onnx_file_plays_as_its_folder(exported, capsys):
    """`warpsim play` of both: the same returns to 1e-4. Terms may be described with or without arguments."""
    from warpsim.envs.training import play

    folder, file = play(exported, device="cpu"), play(exported / "p.onnx", device="cpu")
    np.testing.assert_allclose(file["returns"], folder["returns"], rtol=1e-4)
    assert file["lengths"] == folder["lengths"]
    policy = OnnxPolicy(exported / "p.onnx")
    for term in policy.about["observation"]["terms"]:
        term.pop("arguments", None)
    policy.judge(device="cpu")
    page, stage = exported / "a.html", exported / "a.usda"
    assert main(["play", str(exported / "p.onnx"), "--html", str(page), "--usd", str(stage), "--device", "cpu"]) == 0
    assert "return" in capsys.readouterr().out and page.exists() and stage.exists()


def test_playing_a_file_needs_no_torch(tmp_path):
    """Neither torch nor rsl_rl is imported."""
    code = "import sys; from warpsim.tools.cli import main\n"
    code += f"assert main(['play', {network(tmp_path / 'p.onnx')!r}, '--task', 'cartpole', '--worlds', '1', '--device', 'cpu']) == 0\n"
    code += "assert not {'torch', 'rsl_rl', 'tensordict'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def refused(capsys, *command: str) -> str:
    """The one line that refuses a command."""
    capsys.readouterr()
    assert main(list(command)) == 2
    message = capsys.readouterr().err
    assert message.startswith("warpsim: ") and message.count("\n") == 1, message
    return message


def test_weights_that_are_not_finite_are_refused(exported, tmp_path, capsys):
    """The layer is named, and nothing is written."""
    kept = torch.load(exported / "checkpoint.pt", weights_only=True)
    learned = kept["learned"]
    weights = learned.get("actor_state_dict", learned.get("actor"))
    name = next(key for key in weights if key.endswith("2.weight") or key.endswith("3.weight"))
    weights[name].view(-1)[0] = torch.nan
    torch.save(kept, tmp_path / "checkpoint.pt")
    message = refused(capsys, "export", str(tmp_path), "--onnx", str(tmp_path / "p.onnx"))
    assert f"{name} is not finite" in message
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_outputs_are_checked_first(exported, tmp_path, capsys):
    """Endings, folders, another's JSON, nothing asked for."""
    for words, more in (
        ("writes nothing", []),
        ("must end in one of .onnx", ["--onnx", str(tmp_path / "p.bin")]),
        ("must end in one of .pt2", ["--torch", str(tmp_path / "p.pt")]),
        ("does not exist", ["--onnx", str(tmp_path / "none" / "p.onnx")]),
        ("no policy's description", ["--onnx", str(exported / "result.onnx")]),
    ):
        assert words in refused(capsys, "export", str(exported), *more)
    assert not list(tmp_path.iterdir())


def network(path, inputs=((None, 4),), outputs=((None, 1),), kind=TensorProto.FLOAT, weight=None):
    """An ONNX file with inputs and outputs of these shapes, and a product with a weight between the first ones."""
    names = [f"x{k}" for k in range(len(inputs))], [f"y{k}" for k in range(len(outputs))]
    shapes = [
        [f"d{i}" if x is None else x for i, x in enumerate(shape)] if shape else None for shape in (*inputs, *outputs)
    ]
    values = [helper.make_tensor_value_info(n, kind, s) for n, s in zip([*names[0], *names[1]], shapes, strict=True)]
    rows, columns = (inputs[0] or (None, 4))[-1] or 4, (outputs[0] or (None, 1))[-1] or 1
    if weight is None:
        real = np.float64 if kind == TensorProto.DOUBLE else np.float32
        weight = onnx.numpy_helper.from_array(np.ones((rows, columns), real), "w")
    nodes = [helper.make_node("MatMul", ["x0", "w"], [y]) for y in names[1]]
    graph = helper.make_graph(nodes, "g", values[: len(inputs)], values[len(inputs) :], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return str(path)


def test_other_networks_are_refused_by_their_sizes(tmp_path, capsys):
    """Wrong sizes, types, ranks, numbers of inputs, no ONNX at all: one line each; a fitting one of another program plays."""
    path = tmp_path / "p.onnx"
    for words, options in (
        (
            "takes 7 observations and gives 1 actions; CartPole has 4 observations and 1 actions",
            {"inputs": ((None, 7),)},
        ),
        ("takes 4 observations and gives 2 actions", {"outputs": ((None, 2),)}),
        ("is tensor(double) of shape (?, 4); it must be tensor(float)", {"kind": TensorProto.DOUBLE}),
        ("of shape (?, ?)", {"inputs": ((None, None),)}),
        ("of shape (1, 4)", {"inputs": ((1, 4),)}),
        ("of shape (?, ?, 4)", {"inputs": ((None, None, 4),)}),
        ("has 2 inputs (x0, x1)", {"inputs": ((None, 4), (None, 4))}),
        ("has 2 outputs (y0, y1)", {"outputs": ((None, 1), (None, 1))}),
    ):
        network(path, **options)
        assert words in refused(capsys, "play", str(path), "--task", "cartpole")
    for content in (b"", b"not a network", b"\x80" * 1000):
        path.write_bytes(content)
        assert "not an ONNX network" in refused(capsys, "play", str(path), "--task", "cartpole")
    assert "no such file" in refused(capsys, "play", str(tmp_path / "none.onnx"))
    network(path)
    assert "names no task" in refused(capsys, "play", str(path))
    assert main(["play", str(path), "--task", "cartpole", "--device", "cpu"]) == 0


def test_actions_that_are_not_finite_and_outputs_over_the_policy(exported, tmp_path, capsys):
    """A network with NaN is no policy of return 0; a page does not replace what is played; broken bytes are named."""
    bad = onnx.numpy_helper.from_array(np.full((4, 1), np.nan, np.float32), "w")
    path = network(tmp_path / "p.onnx", weight=bad)
    assert "p.onnx: gives [nan] for finite inputs" in refused(capsys, "play", path, "--task", "cartpole")
    assert np.isnan(OnnxPolicy(path)(np.full((1, 4), np.nan))).all()  # of a world that is not finite
    for shape in ((4,), (3, 1), (2, 5), (2, 1, 4)):
        with pytest.raises(ValueError, match=r"p\.onnx: the input has shape .*; it must be \(batch, 4\)"):
            OnnxPolicy(path)(np.zeros(shape))
    with pytest.raises(ValueError, match="the network is 5; give the path"):
        OnnxPolicy(5)
    kept = (exported / "checkpoint.pt").read_bytes()
    for source, over in ((path, path), (str(exported), str(exported / "checkpoint.pt"))):
        assert "is the policy that is played" in refused(capsys, "play", source, "--task", "cartpole", "--html", over)
    assert (exported / "checkpoint.pt").read_bytes() == kept
    assert "p.onnx is a file; give the folder" in refused(capsys, "export", path, "--torch", str(tmp_path / "q.pt2"))
    for content in (b"", kept[:1000], kept[: len(kept) // 2], b"PK\x03\x04" + bytes(200)):
        (tmp_path / "checkpoint.pt").write_bytes(content)
        assert "checkpoint.pt: not a checkpoint of warpsim" in refused(capsys, "play", str(tmp_path))
    for name, value in (("iteration", "2"), ("processes", 0), ("num_envs", -1)):
        torch.save(
            torch.load(exported / "checkpoint.pt", weights_only=True) | {name: value}, tmp_path / "checkpoint.pt"
        )
        assert f"checkpoint.pt: {name} is {value!r}; it must be" in refused(capsys, "play", str(tmp_path))


def test_a_file_reads_no_other_file(tmp_path, capsys, monkeypatch):
    """Weights outside the file are refused, wherever they are said to lie; a file's own code is not imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for place in ("secret", "sub/../secret", "../secret", str(tmp_path / "secret")):
        (tmp_path / "secret").write_bytes(np.ones(4, np.float32).tobytes())
        (tmp_path.parent / "secret").write_bytes(np.ones(4, np.float32).tobytes())
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 1], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=place)
        path = network(tmp_path / "p.onnx", weight=weight)
        assert "not an ONNX network" in refused(capsys, "play", path, "--task", "cartpole")
    path = network(tmp_path / "p.onnx")
    (tmp_path / "evil.py").write_text("open('imported', 'w')")
    made = onnx.load(path)
    helper.set_model_props(made, {"warpsim": json.dumps({"format": "warpsim policy 1", "task": "evil:Task"})})
    onnx.save(made, path)
    assert "which is code" in refused(capsys, "play", path)
    assert not (tmp_path / "imported").exists()
    for text in ("[" * 100000, "{}", "null", '{"format": "other"}'):
        helper.set_model_props(made, {"warpsim": text})
        onnx.save(made, path)
        assert "its description" in refused(capsys, "play", path)


def test_a_file_that_is_too_large_is_not_read(tmp_path, capsys, monkeypatch):
    """The bound is of the file's size."""
    from warpsim.envs import onnx_network

    monkeypatch.setattr(onnx_network, "MAX_ONNX_BYTES", 10)
    assert "at most 10" in refused(capsys, "play", network(tmp_path / "p.onnx"), "--task", "cartpole")
