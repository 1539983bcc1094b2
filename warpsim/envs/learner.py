# SPDX-License-Identifier: Apache-2.0
"""The base of all learning algorithms: an environment, random numbers, evaluation, and bit-exact checkpoints."""

import contextlib
import dataclasses
import io
import math
import os
import pathlib
import time
from collections.abc import Mapping

import numpy as np
import warp as wp

from warpsim.base.checks import number, whole
from warpsim.base.errors import Diverged
from warpsim.base.extras import import_or_explain
from warpsim.base.learning import changes_for, learning_changes, learning_settings
from warpsim.device.start import start_warp
from warpsim.envs.judging import EPISODES, Judge
from warpsim.envs.tasks import find_task, make_task
from warpsim.envs.vector_env import VectorEnv
from warpsim.files.output import replacing
from warpsim.files.store.plain import from_plain, to_plain

torch = import_or_explain("torch", "train")

REMEMBERED = 100  # number of episodes in the reported mean return
KEPT = ("iteration", "observation", "privileged", "returns", "finished", "episodes", "seconds", "idle", "whole")
LATER = {"idle": 0, "privileged": None, "whole": True}  # what checkpoints of earlier versions lack
PATIENCE = 20  # iterations in a row without a usable gradient after which a training stops


class World:
    """The torchrun processes that learn together, or a single one.

    Each process has its share of the environments, in order.
    """

    def __init__(self, device):
        start_warp()
        if device != "cpu" and wp.is_cuda_available() and not torch.cuda.is_available():
            raise ValueError(
                "torch is without CUDA here, and warp has it; give the device cpu, or install torch with CUDA"
            )
        self.rank, self.size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.device = device
        if self.size > 1:
            cuda = torch.cuda.is_available() and device != "cpu"
            if cuda:
                self.device = f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}"
                torch.cuda.set_device(self.device)
            if not torch.distributed.is_initialized():
                torch.distributed.init_process_group("nccl" if cuda else "gloo")

    def share(self, count: int) -> int:
        """Number of environments of this process. Raises `ValueError` where they cannot be divided evenly."""
        if count % self.size:
            raise ValueError(f"num_envs is {count}; {self.size} processes need a multiple of {self.size}")
        return count // self.size

    def most(self, value) -> float:
        """The largest of the processes' values."""
        if self.size == 1:
            return value
        found = torch.tensor(float(value), device=self.device if torch.distributed.get_backend() == "nccl" else "cpu")
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
        return float(found)

    def joined(self, items: list) -> list:
        """The items of all processes."""
        if self.size == 1:
            return items
        found: list = [None] * self.size
        torch.distributed.all_gather_object(found, items)
        return [item for part in found for item in part]

    def rows_of_all(self, rows):
        """The rows of all processes, a tensor; each process has as many."""
        if self.size == 1:
            return rows
        found = [torch.empty_like(rows) for _ in range(self.size)]
        torch.distributed.all_gather(found, rows.contiguous())
        return torch.cat(found)

    def agree(self, tensors) -> None:
        """Copy the first process's values to all processes."""
        if self.size > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, src=0)


class Learner:
    """An environment, a policy and its optimizer. `iterate` runs one iteration; `save` and `restore` keep every bit.

    `task`: a name or a class, as `find_task` takes them. `learning`: settings by algorithm that change the task's own,
    such as those of a checkpoint. Subclasses (`PpoLearner`, `ShacLearner`) make a policy and learn; they define
    `_build`, `_iterate`, `act`, `_learned`, `_relearn`.
    """

    algorithm = ""
    concluding = 0.0  # processor time [s] that `conclude` takes, as far as it is known

    def __init__(
        self,
        task,
        *,
        seed: int = 0,
        num_envs: int | None = None,
        device=None,
        threads: int | None = None,
        learning: Mapping | None = None,
    ):
        self.task, self.kind = find_task(task)
        task = make_task(self.kind)  # reports errors of the task before anything compiles
        if not (task.smooth.get("rewards", task.rewards) if self.algorithm == "shac" else task.rewards):
            raise ValueError(f"{self.task}: rewards is empty, so that nothing can be learned; give at least one term")
        changes = changes_for(self.algorithm, learning, self.task)
        self.settings = learning_settings(self.algorithm, self.kind.learning, changes)
        self.changes = learning_changes(self.algorithm, changes)
        self.seed = whole(seed, "seed", 0)
        self.num_envs = self.settings.envs if num_envs is None else whole(num_envs, "num_envs", 1)
        self.world = World(device)
        self.device, self.threads, own = self.world.device, threads, self.world.share(self.num_envs)
        torch.set_num_threads(1)  # with more threads, sums would depend on their number
        self.compile_seconds = self._compiled()
        self.env = self._environment(own, "SAME_STEP", first_world=self.world.rank * own, **self._options())
        self.torch_device = str(self.env.arrays.made(np.zeros(1)).device)
        staggered = self.env.task.episode is not None
        self.observation, info = self.env.reset(seed=self.seed, options={"staggered": staggered})
        self.privileged = info.get("critic")  # what the critic sees, in a task with `critic_observations`
        self._random = None
        with self._own_random():
            self._build()
        self.idle = 0  # iterations in a row without a usable gradient
        self.iteration, self.seconds = 0, {"collect": 0.0, "update": 0.0}
        self.returns, self.finished, self.episodes = torch.zeros(own, device=self.torch_device), [], 0
        self.whole = torch.full((own,), not staggered, device=self.torch_device)  # worlds past their staggered episode

    # defined by each algorithm ----------------------------------------------------------------------------------------

    def _options(self) -> dict:
        """Further options of the training environment."""
        return {}

    def _check(self, env: VectorEnv) -> None:
        """Raise `ValueError` where the algorithm cannot learn in an environment, before anything compiles."""
        if not env.single_action_space.shape[0]:
            raise ValueError(
                f"{self.task}: model {env.models[0].name!r} has no actuators, so that nothing can be learned; a URDF "
                'gets them by ws.load(file, actuators="effort") or "position"'
            )

    def _judged_by(self) -> dict:
        """Changes for the environment that evaluates policies."""
        return dict(self.kind.evaluation)

    def _build(self) -> None:
        """Make the policy."""
        raise NotImplementedError

    def _iterate(self) -> dict:
        """Collect data and update the policy; returns what to report."""
        raise NotImplementedError

    def act(self, observation):
        """The policy's action without noise."""
        raise NotImplementedError

    def policy(self):
        """The policy without noise: a `torch.nn.Module` from observations `(batch, n)` to actions `(batch, m)`."""
        raise NotImplementedError

    def _judging(self, judging: bool) -> None:
        """Switch the policy between evaluation and training."""

    def _learned(self) -> dict:
        """Weights and optimizer state."""
        raise NotImplementedError

    def _relearn(self, kept: dict) -> None:
        """Restore the result of `_learned`."""
        raise NotImplementedError

    # common to all algorithms -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _own_random(self):
        """A context in which torch draws from this learner's own random state."""
        cuda = [self.torch_device] if self.torch_device.startswith("cuda") else []
        with torch.random.fork_rng(devices=cuda):
            if self._random is None:
                torch.manual_seed(self.seed + 1_000_000 * self.world.rank)
            else:
                torch.set_rng_state(self._random[0])
                for device, state in zip(cuda, self._random[1:], strict=True):
                    torch.cuda.set_rng_state(state, device)
            yield
            self._random = [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in cuda)]

    def _environment(self, count: int, autoreset: str, **changes) -> VectorEnv:
        options = {"array": "torch", "autoreset": autoreset, "device": self.device, "threads": self.threads}
        return VectorEnv(self.kind, count, **options, **changes)

    def _compiled(self) -> float:
        """Compile what a step needs, in one world, unless it is compiled; returns the processor time [s]."""
        begun = time.process_time()
        env = self._environment(1, "SAME_STEP", **self._options())
        self._check(env)
        env.reset()
        action = torch.zeros((1, *env.single_action_space.shape), device=wp.device_to_torch(env.sim.device))
        reward = env.step(action.requires_grad_(env.requires_grad))[1]
        if reward.requires_grad:
            reward.sum().backward()
        return time.process_time() - begun

    def _count(self, reward, ended) -> None:
        """Accumulate rewards into the returns of whole episodes, which `_finish` reads once an iteration."""
        self.returns = self.returns + reward
        self._ends.append((self.returns, ended & self.whole))
        self.whole = ended | self.whole
        self.returns = torch.where(ended, 0.0, self.returns)

    def _finish(self) -> None:
        """Count the episodes that ended in this iteration, in the order of their ends."""
        returns, ended = (torch.stack(rows) for rows in zip(*self._ends, strict=True))
        found = self.world.joined(returns[ended].tolist())
        self.finished, self.episodes = [*self.finished, *found][-REMEMBERED:], self.episodes + len(found)
        self._ends = []

    @property
    def env_steps(self) -> int:
        """Number of actions in all environments of all processes so far."""
        return self.iteration * self.horizon * self.num_envs

    @property
    def horizon(self) -> int:
        """Number of actions in an iteration."""
        return self.settings.horizon

    def iterate(self) -> dict:
        """One iteration of acting and learning.

        Returns what to report: the mean return of the last hundred finished episodes, and the standard deviation of the
        actions. Raises `Diverged` where what has been learned is not finite, or cannot change.
        """
        self._ends: list[tuple] = []
        try:
            with self._own_random():
                told = self._iterate()
        except RuntimeError:  # torch refuses to draw with a standard deviation that is NaN
            self._check_finite(self._unfinite_here())  # of this process: the others may wait elsewhere
            raise
        self._check_learned(told)
        self._finish()
        self.iteration += 1
        found = {"iteration": self.iteration, "env_steps": self.env_steps}
        found |= {"return": float(np.mean(self.finished)) if self.finished else None, "episodes": self.episodes}
        finite = {name: x if not isinstance(x, float) or math.isfinite(x) else None for name, x in told.items()}
        return found | finite  # None: what JSON has for them

    def unfinite(self) -> str | None:
        """The first of the weights, normalizations and moments of Adam that has a NaN or infinite entry, by name."""
        name = self._unfinite_here()
        return (name or "another process's policy") if self.world.most(name is not None) else None

    def _unfinite_here(self) -> str | None:
        """`unfinite` of this process."""
        tensors = dict(_named(self._learned()))
        if torch.stack([torch.isfinite(x).all() for x in tensors.values()]).all():
            return None
        return next(name for name, x in tensors.items() if not torch.isfinite(x).all())

    @property
    def _where(self) -> str:
        return f"{self.task}, {self.algorithm}, iteration {self.iteration + 1}"

    def _check_finite(self, name: str | None) -> None:
        if name is not None:
            raise Diverged(f"{self._where}: {name} is not finite (NaN or infinite)")

    def _check_learned(self, told: dict) -> None:
        """Raise `Diverged` where the iteration left a NaN, or was the last of many without a usable gradient."""
        self._check_finite(self.unfinite())
        length = told.get("gradient", 1.0)
        self.idle = 0 if np.isfinite(length) and length > 0.0 else self.idle + 1
        if self.idle >= PATIENCE:
            raise Diverged(
                f"{self._where}: the gradient was 0 or not finite in each of the last {PATIENCE} iterations, so that "
                "the policy does not change; rewards must be differentiable and depend on the actions"
            )

    def conclude(self) -> None:
        """The training has come to its end: settle which policy is the result."""

    def judge(self) -> Judge:
        """The policy in the environments that evaluate it."""
        options = {"array": "torch", "device": self.device, "threads": self.threads}
        return Judge(self.kind, self.act, **options, changes=self._judged_by(), acting=self._acting)

    def evaluate(self, episodes: int = EPISODES, record: int = 0, stops=()) -> dict:
        """`Judge.evaluate` of the policy."""
        return self.judge().evaluate(episodes, record, stops)

    @contextlib.contextmanager
    def _acting(self):
        """A context in which the policy is evaluated."""
        self._judging(True)
        try:
            yield
        finally:
            self._judging(False)

    # checkpoints ------------------------------------------------------------------------------------------------------

    def save(self, path) -> None:
        """Save everything that the next iteration reads."""
        with replacing(pathlib.Path(path)) as new:
            new.write_bytes(self.packed())

    def packed(self) -> bytes:
        """The content of a checkpoint."""
        kept = {"task": self.task, "algorithm": self.algorithm, "seed": self.seed, "num_envs": self.num_envs}
        kept |= {
            "learning": dataclasses.asdict(self.settings),
            "changes": self.changes,
            "processes": self.world.size,
            "learned": self._learned(),
            "random": self._random,
            "env": to_plain(self.env.state_dict()),
        }
        kept |= {name: getattr(self, name) for name in KEPT}
        file = io.BytesIO()
        torch.save(kept, file)
        return file.getvalue()

    def restore(self, kept: dict) -> None:
        """Continue from what `save` wrote."""
        self._relearn(kept["learned"])
        self.env.load_state_dict(from_plain(kept["env"]))
        for name in ("iteration", "episodes"):
            whole(kept[name], f"checkpoint: {name}", 0)
        whole(kept.get("idle", 0), "checkpoint: idle", 0)
        for name in ("collect", "update"):
            time_of(kept["seconds"][name], f"checkpoint: seconds: {name}")
        for k, value in enumerate(kept["finished"]):
            number(value, f"checkpoint: finished[{k}]")
        for name in ("observation", "returns"):
            like(kept[name], getattr(self, name), f"checkpoint: {name}")
        if not kept["random"] or any(x.dtype != torch.uint8 for x in kept["random"]):
            raise ValueError("checkpoint: random is no state of random numbers; train anew")
        self._random = kept["random"]
        for name in KEPT:
            setattr(self, name, kept.get(name, LATER[name]) if name in LATER else kept[name])


def time_of(value, name: str) -> float:
    """A time [s]; raises `ValueError` for what is none."""
    return number(value, name, "it must be a time [s]", lambda x: 0.0 <= x < math.inf)


def like(found, known, name: str) -> None:
    """Raise `ValueError` for what is no tensor of finite numbers with the shape and type of a known one."""
    if not (torch.is_tensor(found) and found.shape == known.shape and found.dtype == known.dtype):
        raise ValueError(f"{name} is no tensor {tuple(known.shape)} of {known.dtype}; train anew")
    if not torch.isfinite(found).all():
        raise ValueError(f"{name} is not finite; train anew")


def _named(kept, name: str = ""):
    """The tensors of real numbers in nested tables, by name."""
    if isinstance(kept, dict):
        for key, value in kept.items():
            yield from _named(value, f"{name}.{key}".removeprefix(".").replace("_state_dict", ""))
    elif torch.is_tensor(kept) and kept.is_floating_point():
        yield name, kept
