# SPDX-License-Identifier: Apache-2.0
"""Evaluate a policy in an environment: returns, distances, lengths, and a recorded trajectory. It needs no torch."""

import contextlib

import numpy as np

from warpsim.envs.task import Task
from warpsim.envs.vector_env import VectorEnv
from warpsim.model.model import JointType
from warpsim.state.trajectory import Trajectory

EPISODES = 10  # number of episodes that evaluate a policy
EVALUATION_SEED = 1_000_003


class Judge:
    """A policy in the environments that evaluate it.

    Parameters
    ----------
    kind : class of Task
        The task.
    act : callable
        The action of an observation, both `(worlds, n)` arrays of the framework `array`.
    array, device, threads
        As in `VectorEnv`.
    changes : dict
        Attributes of the task that differ where it is evaluated.
    acting : callable
        Returns a context in which the policy acts.
    """

    def __init__(
        self,
        kind: type[Task],
        act,
        *,
        array: str = "numpy",
        device=None,
        threads=None,
        changes=(),
        acting=contextlib.nullcontext,
    ):
        self.kind, self.act, self.acting, self.changes = kind, act, acting, dict(changes)
        self.options = {"array": array, "device": device, "threads": threads}

    def environment(self, worlds: int, autoreset: str = "SAME_STEP") -> VectorEnv:
        """An environment for evaluation; by default episodes follow each other in it."""
        return VectorEnv(self.kind, worlds, autoreset=autoreset, **self.options, **self.changes)

    def evaluate(self, episodes: int = EPISODES, record: int = 0, stops=(), seed: int = EVALUATION_SEED) -> dict:
        """Returns and lengths of the first episode of `episodes` worlds, the share of successes, and how many failed.

        Where the first joint is a free joint or a slide, also the distances [m] along the first coordinate.

        With `record`, a `Trajectory` of that many worlds is returned too. A nonempty `stops` ends the evaluation early
        with the results so far.
        """
        env = self.environment(episodes, "DISABLED")
        host = env.arrays.host
        observation, _ = env.reset(seed=seed)
        total, live = np.zeros(episodes, np.float32), np.ones(episodes, dtype=bool)
        good, measured = np.zeros(episodes, dtype=bool), dict.fromkeys(env.task.measures, 0.0)
        failed = np.zeros(episodes, dtype=bool)  # ended by what is not finite
        start = env.state.q.numpy()[:, 0].copy()
        end, length, rows = start.copy(), np.zeros(episodes, int), []
        with self.acting():
            for _ in range(env.task.episode or 1000):
                row = [getattr(env.state, name).numpy()[:record].copy() for name in ("q", "v", "time")]
                shown = live[:record, None]  # worlds whose episode has ended keep their last state
                rows.append([np.where(shown, x, rows[-1][k]) if rows and k < 2 else x for k, x in enumerate(row)])
                observation, reward, terminated, truncated, _ = env.step(self.act(observation))
                total = total + np.where(live, host(reward), np.float32(0.0))
                good = np.where(live, host(env.succeeded()), good) if env.task.success else good
                for name, values in env.measured().items():
                    measured[name] += float(np.where(live, host(values), 0.0).sum())
                end, length = np.where(live, env.state.q.numpy()[:, 0], end), length + live
                failed = failed | (live & (env.faults > 0))
                live = live & ~host(terminated | truncated)
                if not live.any() or stops:
                    break
        found = {"returns": total.tolist(), "lengths": length.tolist(), "return": float(total.mean())}
        if env.sim.model.joint_type[0] in (JointType.FREE, JointType.SLIDE):
            found |= {"distances": (end - start).tolist(), "distance": float((end - start).mean())}
        found |= {"failed": int(failed.sum())}
        found |= {"success": float(good.mean())} if env.task.success else {}
        found |= {"measures": {n: x / length.sum() for n, x in measured.items()}} if measured else {}
        if record:
            q, v, times = (np.stack(x) for x in zip(*rows, strict=True))
            found["trajectory"] = Trajectory(env.sim.model, q, v, times)
        return found

    def perform(self, env: VectorEnv, view) -> None:
        """Let the policy act in an environment while a `ws.Viewer` of it is open."""
        observation, _ = env.reset(seed=EVALUATION_SEED)

        def again():
            nonlocal observation
            observation, _ = env.reset(seed=EVALUATION_SEED)
            return env.state

        view.on_reset = again
        with self.acting():
            while view.running:
                observation = env.step(self.act(observation))[0]
                view.sync(env.state, env.view.dt)
