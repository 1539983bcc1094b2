# SPDX-License-Identifier: Apache-2.0
"""`OnnxPolicy`: a policy of an ONNX file, with the description that `export` put into it."""

import json
import warnings

import numpy as np

from warpsim.base.checks import short
from warpsim.envs.judging import Judge
from warpsim.envs.onnx_network import OnnxNetwork
from warpsim.envs.policy_description import FORMAT, model_hash
from warpsim.envs.task import Task
from warpsim.envs.tasks import find_task, make_task, same_task
from warpsim.envs.vector_env import VectorEnv

KEY = "warpsim"  # of the description in the metadata


class OnnxPolicy:
    """A policy from an ONNX file: a function of observations (batch, n) that returns actions (batch, m), in NumPy.

    Parameters
    ----------
    path : path
        A file that `warpsim export` wrote, or any other with one input (batch, n) and one output (batch, m) of float32.

    Attributes
    ----------
    about : dict
        The description (`policy.json`). Empty for a file of another program.

    Raises
    ------
    ValueError
        The file is no such network. The message names its inputs and sizes.

    Examples
    --------
    The example needs a trained policy, so that doctest skips it.

    >>> policy = ws.envs.OnnxPolicy("policy.onnx")                       # doctest: +SKIP
    >>> env = ws.envs.VectorEnv("Hopper", 8)                             # doctest: +SKIP
    >>> observation, info = env.reset(seed=1)                            # doctest: +SKIP
    >>> env.step(policy(observation))                                    # doctest: +SKIP
    """

    def __init__(self, path):
        self.path, self.network = path, OnnxNetwork(path)
        self.about = _about(path, self.network.metadata.get(KEY))

    def __call__(self, observation) -> np.ndarray:
        return self.network(observation)

    def judge(self, task=None, *, device=None) -> Judge:
        """Make the judge that evaluates the policy in its task.

        Parameters
        ----------
        task : class or str, optional
            The task. Default: the one that the file names, if it is one of warpsim's.
        device : str, optional
            Name of a Warp device. Default: as in `ws.Simulator`.

        Returns
        -------
        Judge
            The policy together with the environments that evaluate it.

        Raises
        ------
        ValueError
            The file is of another task, or has other sizes than the task.

        Examples
        --------
        The example needs a trained policy, so that doctest skips it.

        >>> judge = ws.envs.OnnxPolicy("policy.onnx").judge("Hopper")        # doctest: +SKIP
        """
        kind = self._task(task)
        changes = dict(kind.evaluation)
        if self.about.get("algorithm") == "shac" and "observations" in kind.smooth:
            changes["observations"] = kind.smooth["observations"]
        make_task(kind)  # reports errors of the task before anything compiles
        env = VectorEnv(kind, 1, device=device, **changes)
        sizes = (env.single_observation_space.shape[0], env.single_action_space.shape[0])
        if sizes != (self.network.inputs, self.network.outputs):
            raise ValueError(
                f"{self.path} takes {self.network.inputs} observations and gives {self.network.outputs} actions; "
                f"{kind.__name__} has {sizes[0]} observations and {sizes[1]} actions"
            )
        robot = self.about.get("robot")
        if isinstance(robot, dict) and robot.get("model_sha256") not in (None, model_hash(env.models[0])):
            warnings.warn(
                f"{self.path} was trained on another version of this robot, {env.models[0].name}", stacklevel=3
            )
        return Judge(kind, self, device=device, changes=changes)

    def _task(self, task) -> type[Task]:
        """The class of the task. A file's own name is followed to warpsim's tasks only, for others are code."""
        name = self.about.get("task")
        if task is not None:
            told, kind = find_task(task)
            if isinstance(name, str) and not same_task(told, name):
                raise ValueError(f"{self.path} is of the task {short(name)}, not of {told}")
            return kind
        if not isinstance(name, str) or ":" in name:
            which = f"is of the task {short(name)}, which is code" if name else "names no task"
            raise ValueError(f"{self.path} {which}; say it yourself: --task module:Class, or a name such as hopper")
        return find_task(name)[1]


def _about(path, text: str | None) -> dict:
    """The description in the metadata; empty where there is none."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path}: its description is not of the format {FORMAT!r}; export it anew")
    return found
