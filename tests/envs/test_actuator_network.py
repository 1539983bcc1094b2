# SPDX-License-Identifier: Apache-2.0
"""Torques by a network of position errors and velocities: what it sees, its memory, its gradient, what is refused."""

import pathlib

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import Task, VectorEnv, terms

KP, KD = 40.0, 3.0


class Leg(Task):
    """The hopper by targets of its joints."""

    model = ws.robots.path("hopper")
    decimation = 1
    episode = 7
    observations = {"q": terms.positions(), "v": terms.velocities()}
    rewards = {"x": lambda s: s.v[:, 0] + s.q[:, 1]}
    starts = (terms.start_noise(q=0.05, v=0.1),)
    action_range = (-1.0, 1.0)


def network(path, weights, outputs: int = 1):
    """An ONNX file of x W, with W `(inputs, outputs)`."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weights = np.reshape(np.asarray(weights, np.float32), (-1, outputs))
    rows = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", k])
        for n, k in zip("xy", weights.shape, strict=True)
    ]
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", rows[:1], rows[1:], [onnx.numpy_helper.from_array(weights, "w")])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return str(path)


def module(weights):
    """The same as a torch module."""
    torch = pytest.importorskip("torch")
    made = torch.nn.Linear(len(weights), 1, bias=False)
    made.weight.data[:] = torch.tensor(weights)
    return made


def rolled(array: str, actuators, steps: int = 5, worlds: int = 3, **options) -> list[np.ndarray]:
    """Observations of `steps` actions."""
    env = VectorEnv(Leg, worlds, array=array, actuators=actuators, autoreset="SAME_STEP", device="cpu", **options)
    env.reset(seed=1)
    random = np.random.default_rng(0)
    found = []
    for _ in range(steps):
        action = env.arrays.made(random.uniform(-0.5, 0.5, (9, 3)).astype(np.float32)[:worlds])
        found.append(env.arrays.host(env.step(action)[0]).copy())
    return found


def test_a_linear_network_is_a_servo(tmp_path):
    """With weights (kp, -kd) it gives kp (target - q) - kd v over the gear: the same steps as a term that says so, in
    NumPy and torch, from a file and from a module."""
    gear = ws.load(Leg.model).actuator_gear[:, 0].astype(np.float32)

    def servo(s, action):
        q, v = (x[:, c] for x, c in zip((s.q, s.v), s.columns("hip", "knee", "ankle"), strict=True))
        return (KP * (action - q) - KD * v) / s.arrays.constant(gear)

    path = network(tmp_path / "n.onnx", [KP, -KD])
    wanted = rolled("numpy", (servo,))
    for array, given in (("numpy", path), ("torch", path), ("numpy", None), ("torch", None)):
        if array == "torch" or given is None:
            pytest.importorskip("torch")
        term = terms.actuator_network(module([KP, -KD]) if given is None else given, lags=(0,))
        np.testing.assert_allclose(rolled(array, (term,)), wanted, rtol=2e-5, atol=2e-5)
    turned = terms.actuator_network(network(tmp_path / "t.onnx", [-KD, KP]), lags=(0,), velocity_first=True)
    np.testing.assert_allclose(rolled("numpy", (turned,)), wanted, rtol=2e-5, atol=2e-5)


def test_it_sees_the_past_in_the_order_of_lags(tmp_path):
    """Errors and velocities of each age by itself; where an episode begins, the past is as the present."""
    for column in range(6):
        weights = np.zeros(6)
        weights[column] = 1.0
        term = terms.actuator_network(network(tmp_path / "n.onnx", weights), lags=(0, 1, 3), torque_scale=2.0)
        env = VectorEnv(Leg, 2, actuators=(term,), autoreset="SAME_STEP", device="cpu")
        env.reset(seed=1)
        seen, gear = [], ws.load(Leg.model).actuator_gear[:, 0]
        for k in range(10):
            action = np.full((2, 3), 0.1 * k, np.float32)
            q, v = (
                x[:, c].copy()
                for x, c in zip((env.view.q, env.view.v), env.view.columns(*term_names(env)), strict=True)
            )
            seen = seen if k != Leg.episode else []  # all worlds begin anew
            seen.append((np.clip(action, -1, 1) - q, v))
            env.step(action)
            age = (0, 1, 3)[column % 3]
            wanted = 2.0 * seen[max(len(seen) - 1 - age, 0)][column // 3] / gear
            np.testing.assert_allclose(env.view.control, wanted, rtol=1e-5, atol=1e-6)


def term_names(env):
    return env.task.actuators[0].names


def test_it_goes_on_with_the_same_bits(tmp_path):
    """A checkpoint keeps the past; a world has the same bits in any batch."""
    path = network(tmp_path / "n.onnx", [20.0, 5.0, 2.0, -1.0, -0.5, -0.2])

    def made():
        env = VectorEnv(Leg, 3, actuators=(terms.actuator_network(path),), autoreset="SAME_STEP", device="cpu")
        env.reset(seed=1)
        return env

    action = np.full((3, 3), 0.3, np.float32)
    env, other = made(), made()
    for _ in range(4):
        env.step(action)
    other.load_state_dict(env.state_dict())
    for _ in range(6):
        assert env.step(action)[0].tobytes() == other.step(action)[0].tobytes()
    few, many = (rolled("numpy", (terms.actuator_network(path),), worlds=n) for n in (2, 9))
    assert all(a.tobytes() == b[:2].tobytes() for a, b in zip(few, many, strict=True))


def test_gradients_are_those_of_central_differences():
    """Through a tanh network of three ages, over 4 actions, in float64: to 1e-6 of the largest, at the best step size."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    options = {"actuators": (terms.actuator_network(net, torque_scale=20.0),), "dtype": "float64", "device": "cpu"}
    env = VectorEnv(Leg, 2, array="torch", requires_grad=True, autoreset="DISABLED", starts=(), **options)

    def total(actions):
        env.reset(seed=1)
        env.detach()
        return sum(env.step(a)[1].sum() for a in actions)

    actions = torch.full((4, 2, 3), 0.2, dtype=torch.float64, requires_grad=True)
    total(actions).backward()
    along = torch.randn(actions.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    slope, errors = float((actions.grad * along).sum()), []
    for h in (1e-3, 1e-4, 1e-5, 1e-6):
        with torch.no_grad():
            found = (total(actions + h * along) - total(actions - h * along)) / (2 * h)
        errors.append(abs(float(found) - slope))
    assert abs(slope) > 1e-4 and min(errors) < 1e-6 * max(abs(slope), 1.0), (slope, errors)
    assert all(p.grad is None for p in net.parameters())


def test_other_networks_are_refused(tmp_path):
    """Sizes, NaN weights, servos, joints, gradients of a file: each a line that says what."""
    six, path = [1.0] * 6, tmp_path / "n.onnx"
    for words, make in (
        (
            "takes 4 numbers and gives 1; with 3 lags a joint has 6",
            lambda: terms.actuator_network(network(path, six[:4])),
        ),
        ("takes 6 numbers and gives 2", lambda: terms.actuator_network(network(path, six * 2, 2))),
        ("no such file", lambda: terms.actuator_network(tmp_path / "none.onnx")),
        ("lags is empty", lambda: terms.actuator_network(network(path, six), lags=())),
        ("an entry of lags is -1", lambda: terms.actuator_network(network(path, six), lags=(0, -1))),
        ("torque_scale is nan", lambda: terms.actuator_network(network(path, six), torque_scale=np.nan)),
    ):
        with pytest.raises(ValueError, match=words):
            make()
    good = terms.actuator_network(network(path, six))
    with pytest.raises(ValueError, match="the joints are knee, hip, ankle; actuators drive"):
        term = terms.actuator_network(str(path), ("knee", "hip", "ankle"))
        VectorEnv(Leg, 2, actuators=(term,), device="cpu")
    with pytest.raises(ValueError, match="is no motor of a joint"):
        text = pathlib.Path(ws.robots.path("hopper")).read_text()
        (tmp_path / "servo.xml").write_text(text.replace("<motor", "<position"))
        VectorEnv(Leg, 2, model=str(tmp_path / "servo.xml"), actuators=(good,), device="cpu")
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"has no gradient; give the network as a torch.nn.Module"):
        VectorEnv(Leg, 2, array="torch", requires_grad=True, actuators=(good,), device="cpu")
    for words, net in (
        ("takes no rows of shape", torch.nn.Linear(4, 1)),
        ("gives shape", torch.nn.Linear(6, 2)),
    ):
        with pytest.raises(ValueError, match=words):
            terms.actuator_network(net)
    net = torch.nn.Linear(6, 1)
    net.weight.data[0, 2] = torch.nan
    with pytest.raises(ValueError, match="not finite: layer weight"):
        terms.actuator_network(net)
