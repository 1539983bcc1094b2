# SPDX-License-Identifier: Apache-2.0
"""No step of an environment of tensors reads from the device or copies to it from the host: on CUDA nothing waits.

Counted on the CPU, where such reads and copies are cheap, with `arrays.near` False, as it is on CUDA.
"""

import collections
import contextlib

import numpy as np
import pytest
import warp as wp

from warpsim.envs import terms
from warpsim.envs.mujoco_tasks import Ant, Humanoid
from warpsim.envs.sensing import contact_forces, imu, touches
from warpsim.envs.terrain import start_by_level
from warpsim.envs.vector_env import VectorEnv
from warpsim.run.rollout import Frames

torch = pytest.importorskip("torch")

READS = {"item", "tolist", "cpu", "numpy", "__array__", "__bool__", "__float__", "__int__", "__index__"}
READS |= {"nonzero", "masked_select", "argwhere", "equal"}
MADE = {"as_tensor", "tensor", "from_numpy", "asarray"}


class _Watch(torch.overrides.TorchFunctionMode):
    """Counts what reads tensors on the host, and what makes tensors of host numbers. `quiet`: depth of calls that are not counted."""

    def __init__(self):
        super().__init__()
        self.found, self.quiet = collections.Counter(), 0

    def note(self, what: str) -> None:
        if not self.quiet:
            self.found[what] += 1

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in READS or (name in MADE and not torch.is_tensor(args[0])):
            self.note(name)
        elif name in ("__getitem__", "__setitem__"):
            for place in args[1] if isinstance(args[1], tuple) else (args[1],):
                if isinstance(place, (np.ndarray, list)) or (torch.is_tensor(place) and place.dtype is torch.bool):
                    self.note(name)
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def waits():
    """Yield a count of what is read and copied inside, by name."""
    watch = _Watch()

    def wrapped(function, name=None):
        def call(*given, **named):
            # an array of memory on the device is no copy from the host
            on_device = name in ("array", "assign") and (len(given) < 2 or isinstance(given[1], wp.array))
            if name and not on_device:
                watch.note(f"wp.{name}")
            watch.quiet += 1
            try:
                return function(*given, **named)
            finally:
                watch.quiet -= 1

        return call

    with pytest.MonkeyPatch.context() as patch, watch:
        patch.setattr(wp.array, "__init__", wrapped(wp.array.__init__, "array"))
        for name in ("numpy", "list", "assign"):
            patch.setattr(wp.array, name, wrapped(getattr(wp.array, name), name))
        for name in ("synchronize", "synchronize_device", "synchronize_stream"):
            patch.setattr(wp, name, wrapped(getattr(wp, name), name))
        for name in ("to_torch", "from_torch"):  # share memory
            patch.setattr(wp, name, wrapped(getattr(wp, name)))
        patch.setattr(Frames, "_copy", wrapped(Frames._copy))  # by NumPy on the CPU alone
        yield watch.found


class Busy(Ant):
    """An ant with every kind of term."""

    episode = 7
    actuators = (terms.delayed(1), terms.first_order(0.1), terms.dc_motor(1.0, 20.0))
    commands = {
        "speed": terms.uniform_command((-1.0,), (1.0,), every=3),
        "wide": terms.widening_command((-1.0,), (1.0,), 3, lambda s: 1.0 * (s.v[:, 0] > 0.0)),
    }
    critic_observations = {"feet": touches("torso", "front_left_leg"), "wide": terms.command("wide")}
    starts = (*Ant.starts, start_by_level(np.zeros((4, 3)), 2, up=0.1, down=0.05))
    observations = Ant.observations | {
        "hips": terms.noisy(terms.positions("hip_1", "hip_2"), uniform=0.1, normal=0.1, bias=0.1),
        "late": terms.late(terms.velocities("ankle_1"), 2),
        "history": terms.history(terms.positions("ankle_1"), 3),
        "feet": touches("torso", "front_left_leg"),
        "forces": contact_forces("front_left_leg"),
        "speed": terms.command("speed"),
        "unit": imu("torso"),
    }
    events = (
        terms.randomise("body_mass", 0.5, 2.0, when="reset"),
        terms.every(terms.randomise("geom_friction", 0.5, 2.0, when="reset", each=True), (2, 4)),
        terms.push("root", (1.0, 1.0, 0.0, 0.0, 0.0, 1.0), every=2),
    )


def environment(task, near: bool, autoreset: str = "SAME_STEP", worlds: int = 4, **options) -> VectorEnv:
    env = VectorEnv(task, worlds, array="torch", device="cpu", threads=1, autoreset=autoreset, **options)
    assert env.arrays.near
    env.arrays.near = near
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("autoreset", ["SAME_STEP", "NEXT_STEP", "DISABLED"])
@pytest.mark.parametrize("task", ["hopper", "inverted_double_pendulum", "push", Humanoid, Busy])
def test_a_step_waits_for_nothing(task, autoreset):
    env = environment(task, False, autoreset)
    action = torch.zeros((4, *env.single_action_space.shape))
    for _ in range(3):  # captures graphs
        env.step(action)
    with waits() as found:
        for _ in range(8):
            env.step(action)
    assert not found, found


def test_a_wait_is_counted():
    with waits() as found:
        x = torch.arange(3)
        _ = x[x > 1], x[[0]], bool((x > 0).all()), x.cpu(), x.tolist(), torch.as_tensor(np.zeros(3)), np.asarray(x)
        wp.array([1.0], dtype=float, device="cpu").numpy()
    assert found["__getitem__"] == 2 and {"cpu", "tolist", "as_tensor", "wp.array", "wp.numpy"} <= set(found)
    assert "__bool__" in found and "__array__" in found


@pytest.mark.parametrize("autoreset", ["SAME_STEP", "NEXT_STEP"])
def test_nothing_is_read_for_the_same_numbers(autoreset):
    """Observations, rewards and ends of episodes are those of an environment that looks before it begins episodes; a NaN ends its world alone."""
    near, far = (environment(Busy, n, autoreset) for n in (True, False))
    rng, ends = np.random.default_rng(0), 0
    for k in range(20):
        action = torch.as_tensor(rng.uniform(-1.5, 1.5, (4, 8)).astype(np.float32))
        if k == 5:
            action[2] = torch.nan
        found, expected = far.step(action), near.step(action)
        for a, b in zip(found[:4], expected[:4], strict=True):
            assert torch.equal(a, b)
        ended = found[2] | found[3]
        ends += int(ended.sum())
        if "final_obs" in expected[4]:
            assert torch.equal(found[4]["final_obs"], expected[4]["final_obs"])
            assert torch.equal(found[4]["_final_obs"], ended)
        elif autoreset == "SAME_STEP":
            assert not found[4]["_final_obs"].any()
    assert ends > 4 and near.faults.tolist() == far.faults.tolist() == [0, 0, 1, 0]
    assert near.clipped.tolist() == far.clipped.tolist() and sum(near.clipped) > 0


def test_steps_and_gradients_of_shac_wait_for_nothing():
    """The policy, the environment's steps, their backward pass and the counting of episodes; what is reported is read once an iteration."""
    from warpsim.envs.shac import ShacLearner

    learner = ShacLearner("hopper", num_envs=4, device="cpu", threads=1)
    learner.env.arrays.near = False
    learner.iterate()
    learner._ends = []
    learner.env.detach()
    learner.observation = learner.observation.detach()
    with waits() as found:
        _, loss = learner._stretch()
        loss.backward()
    assert not found, found


def test_steps_of_ppo_wait_for_nothing():
    pytest.importorskip("rsl_rl")
    from warpsim.envs.ppo import PpoLearner

    learner = PpoLearner("hopper", num_envs=4, device="cpu", threads=1)
    learner.env.arrays.near = False
    learner.iterate()
    learner._ends = []
    with torch.inference_mode(), waits() as found:
        learner._collect()
    assert not found, found
