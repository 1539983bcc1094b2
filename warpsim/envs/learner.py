"""PPO of rsl_rl (Schulman et al., 2017; Schwarke et al., 2025) on a task: training that repeats bit for bit, goes on, and is judged.

Needs torch and rsl-rl-lib (`pip install 'warpsim[train]'`).
"""

import contextlib
import io
import json
import os
import pathlib
import re
import time

import numpy as np
import torch

from warpsim.checks import choice, whole
from warpsim.envs.register import TASKS
from warpsim.envs.vector_env import VectorEnv
from warpsim.files.output import replacing
from warpsim.files.store.plain import from_plain, to_plain
from warpsim.state import import_or_explain
from warpsim.trajectory import Trajectory

import_or_explain("rsl_rl", "train")

from rsl_rl.algorithms import PPO  # noqa: E402
from tensordict import TensorDict  # noqa: E402

HORIZON = 32  # actions between updates
HIDDEN = (64, 64)
EPISODES = 10  # by which a policy is judged
EVALUATION_SEED = 1_000_003
LOOK = 10  # iterations between checkpoints
CHECKPOINT, RESULT, CURVE = "checkpoint.pt", "result.json", "curve.json"
SETTINGS = {
    "num_steps_per_env": HORIZON,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "multi_gpu": None,
    "actor": {
        "class_name": "MLPModel",
        "hidden_dims": list(HIDDEN),
        "activation": "elu",
        "obs_normalization": True,
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "log"},
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": list(HIDDEN), "activation": "elu", "obs_normalization": True},
    "algorithm": {"class_name": "PPO", "gamma": 0.99, "lam": 0.95, "learning_rate": 1e-3, "entropy_coef": 0.0},
}
# Iterations that a task takes with 512 environments.
ITERATIONS = {
    "Ant": 500,
    "CartPole": 40,
    "HalfCheetah": 500,
    "Hopper": 300,
    "Humanoid": 500,
    "InvertedPendulum": 60,
    "Lift": 500,
    "Pusher": 300,
    "Quadruped": 500,
    "QuadrupedRough": 500,
    "Reach": 200,
    "Reacher": 200,
    "Walker2d": 500,
}
LARGE = {
    "Quadruped": (128, 128),
    "QuadrupedRough": (128, 128),
    "Humanoid": (128, 128),
}  # hidden layers that are not `HIDDEN`
NAMES = {name.lower(): name for name in TASKS} | {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", x).lower(): x for x in TASKS}


class _Ppo:
    """What rsl_rl wants to know of an environment."""

    def __init__(self, env: VectorEnv):
        self.num_envs, self.num_actions = env.num_envs, env.single_action_space.shape[0]


class Learner:
    """An environment, a policy and what it learns with. `iterate` is one round of PPO; `save` and `load` keep every bit of it."""

    def __init__(self, task: str, *, seed: int = 0, num_envs: int = 512, device=None, threads: int | None = None):
        self.task = NAMES[choice(task.lower(), "task", NAMES)]
        self.seed, self.num_envs = whole(seed, "seed", 0), whole(num_envs, "num_envs", 1)
        self.device, self.threads = device, threads
        torch.set_num_threads(1)  # with more, sums depend on how many
        self.env = self._environment(self.num_envs, "SAME_STEP")
        self.torch_device = str(self.env.arrays.made(np.zeros(1)).device)
        self.observation, _ = self.env.reset(seed=self.seed)
        settings = json.loads(json.dumps(SETTINGS))
        for part in ("actor", "critic"):
            settings[part]["hidden_dims"] = list(LARGE.get(self.task, HIDDEN))
        self._random = None
        with self._own_random(), contextlib.redirect_stdout(io.StringIO()):
            self.ppo = PPO.construct_algorithm(
                self._seen(self.observation), _Ppo(self.env), settings, self.torch_device
            )
        self.ppo.train_mode()
        self.iteration, self.seconds = 0, {"collect": 0.0, "update": 0.0}
        self._fresh()

    @contextlib.contextmanager
    def _own_random(self):
        """torch's random numbers are this learner's within, whoever else draws."""
        cuda = [self.torch_device] if self.torch_device.startswith("cuda") else []
        with torch.random.fork_rng(devices=cuda):
            if self._random is None:
                torch.manual_seed(self.seed)
            else:
                torch.set_rng_state(self._random[0])
                for device, state in zip(cuda, self._random[1:], strict=True):
                    torch.cuda.set_rng_state(state, device)
            yield
            self._random = [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in cuda)]

    def _environment(self, count: int, autoreset: str, **changes) -> VectorEnv:
        options = {"array": "torch", "autoreset": autoreset, "device": self.device, "threads": self.threads}
        return VectorEnv(TASKS[self.task], count, **options, **changes)

    @staticmethod
    def _seen(observation) -> TensorDict:
        return TensorDict({"policy": observation}, batch_size=[len(observation)])

    def _fresh(self) -> None:
        self.returns = torch.zeros(self.num_envs, device=self.torch_device)
        self.finished: list[float] = []

    def iterate(self) -> dict:
        """Actions, then an update; what is to be told of it: mean return of the episodes that ended, spread of the actions."""
        with self._own_random():
            return self._iterate()

    def _iterate(self) -> dict:
        begun = time.process_time()
        with torch.inference_mode():
            for _ in range(HORIZON):
                action = self.ppo.act(self._seen(self.observation))
                self.observation, reward, terminated, truncated, _ = self.env.step(action)
                ended = terminated | truncated
                extras = {"time_outs": truncated}
                self.ppo.process_env_step(self._seen(self.observation), reward, ended, extras)
                self.returns = self.returns + reward
                if ended.any():
                    self.finished += self.returns[ended].tolist()
                    self.returns = torch.where(ended, 0.0, self.returns)
            self.ppo.compute_returns(self._seen(self.observation))
        collected = time.process_time()
        self.ppo.update()
        self.seconds["collect"] += collected - begun
        self.seconds["update"] += time.process_time() - collected
        self.iteration += 1
        told = {"iteration": self.iteration, "env_steps": self.iteration * HORIZON * self.num_envs}
        told |= {"return": float(np.mean(self.finished)) if self.finished else None, "episodes": len(self.finished)}
        self.finished = []
        return told | {"spread": float(self.ppo.actor.output_std.detach().mean())}

    def act(self, observation):
        """The policy's action without noise."""
        with torch.inference_mode():
            return self.ppo.actor(self._seen(observation))

    def evaluate(self, episodes: int = EPISODES, record: int = 0) -> dict:
        """Returns, distances [m] along x and lengths of the first episode of so many worlds; with `record` a `Trajectory` of so many of them."""
        env = self._environment(episodes, "DISABLED", **TASKS[self.task].evaluation)
        observation, _ = env.reset(seed=EVALUATION_SEED)
        self.ppo.eval_mode()
        total, live = torch.zeros(episodes), torch.ones(episodes, dtype=bool)
        start = env.state.q.numpy()[:, 0].copy()
        end, length, rows = start.copy(), np.zeros(episodes, int), []
        for _ in range(env.task.episode or 1000):
            row = [getattr(env.state, name).numpy()[:record].copy() for name in ("q", "v", "time")]
            shown = live.numpy()[:record, None]  # worlds whose episode has ended stay as they were then
            rows.append([np.where(shown, x, rows[-1][k]) if rows and k < 2 else x for k, x in enumerate(row)])
            observation, reward, terminated, truncated, _ = env.step(self.act(observation))
            total += torch.where(live, reward.cpu(), 0.0)
            alive = live.numpy()
            end, length = np.where(alive, env.state.q.numpy()[:, 0], end), length + alive
            live = live & ~(terminated | truncated).cpu()
            if not live.any():
                break
        self.ppo.train_mode()
        found = {"returns": total.tolist(), "distances": (end - start).tolist(), "lengths": length.tolist()}
        found |= {"return": float(total.mean()), "distance": float((end - start).mean())}
        if record:
            q, v, times = (np.stack(x) for x in zip(*rows, strict=True))
            found["trajectory"] = Trajectory(env.sim.model, q, v, times)
        return found

    # checkpoints -----------------------------------------------------------------------------------------------------

    def save(self, path) -> None:
        """Everything that the next iteration reads."""
        kept = {"task": self.task, "seed": self.seed, "num_envs": self.num_envs, "iteration": self.iteration}
        kept |= {"ppo": self.ppo.save(), "random": self._random, "env": to_plain(self.env.state_dict())}
        kept |= {
            "observation": self.observation,
            "returns": self.returns,
            "finished": self.finished,
            "seconds": self.seconds,
        }
        with replacing(pathlib.Path(path)) as new:
            torch.save(kept, new)

    @classmethod
    def load(cls, path, *, device=None, threads: int | None = None) -> "Learner":
        """The learner that was saved; its next iterations have the bits that they would have had."""
        try:
            kept = torch.load(path, weights_only=True)
            learner = cls(kept["task"], seed=kept["seed"], num_envs=kept["num_envs"], device=device, threads=threads)
        except FileNotFoundError:
            raise ValueError(f"{path}: no such checkpoint; `warpsim train` writes one") from None
        except (KeyError, RuntimeError, EOFError) as error:
            raise ValueError(f"{path}: not a checkpoint of warpsim ({type(error).__name__}); train anew") from error
        learner.ppo.load(kept["ppo"], None, strict=True)
        learner.env.load_state_dict(from_plain(kept["env"]))
        learner.observation, learner.returns = kept["observation"], kept["returns"]
        learner.finished, learner.iteration, learner.seconds = kept["finished"], kept["iteration"], kept["seconds"]
        learner._random = kept["random"]
        return learner


def train(
    task: str,
    *,
    seed: int = 0,
    out=None,
    iterations: int | None = None,
    num_envs: int = 512,
    device=None,
    threads=None,
    resume: bool = False,
    tell=None,
) -> dict:
    """Train a policy; the result as in `warpsim train --json`. `out`: a folder for checkpoint, curve, page and USD stage of the policy.

    `tell`: called with what each iteration has to tell. With `resume` a training in `out` goes on, with the same bits.
    """
    folder = None if out is None else pathlib.Path(out)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    if resume and folder is None:
        raise ValueError("resume goes on with a training in out; give out=")
    if resume:
        learner, curve = (
            Learner.load(folder / CHECKPOINT, device=device, threads=threads),
            json.loads((folder / CURVE).read_text()),
        )
        if learner.task != NAMES[choice(task.lower(), "task", NAMES)]:
            raise ValueError(f"{folder} holds a training of {learner.task}, not of {task}")
    else:
        learner, curve = Learner(task, seed=seed, num_envs=num_envs, device=device, threads=threads), []
    count = ITERATIONS[learner.task] if iterations is None else whole(iterations, "iterations", 1)
    while learner.iteration < count:
        curve.append(learner.iterate())
        if tell is not None:
            tell(curve[-1])
        if folder is not None and (learner.iteration % LOOK == 0 or learner.iteration == count):
            learner.save(folder / CHECKPOINT)
            (folder / CURVE).write_text(json.dumps(curve) + "\n")
    judged = learner.evaluate(record=4 if folder is not None else 0)
    trajectory = judged.pop("trajectory", None)
    result = {
        "task": learner.task,
        "seed": learner.seed,
        "iterations": learner.iteration,
        "num_envs": learner.num_envs,
    } | judged
    result |= {
        "env_steps": learner.iteration * HORIZON * learner.num_envs,
        "cpu_seconds": learner.seconds,
        "faults": int(learner.env.faults.sum()),
    }
    if folder is not None:
        (folder / RESULT).write_text(json.dumps(result, indent=1) + "\n")
        trajectory.to_html(folder / "policy.html")
        trajectory.to_usd(folder / "policy.usd", spacing=2.0)
    return result


def play(folder, *, worlds: int = 4, html=None, usd=None, device=None) -> dict:
    """Judge the policy of a training again, and write a page or a stage of some worlds."""
    learner = Learner.load(os.path.join(folder, CHECKPOINT), device=device)
    judged = learner.evaluate(max(EPISODES, worlds), record=whole(worlds, "worlds", 1))
    trajectory = judged.pop("trajectory")
    if html is not None:
        trajectory.to_html(html)
    if usd is not None:
        trajectory.to_usd(usd, spacing=2.0)
    return judged
