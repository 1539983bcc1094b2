# SPDX-License-Identifier: Apache-2.0
"""PPO of rsl_rl (Schulman et al., 2017; Schwarke et al., 2025) on a task.

Needs rsl-rl-lib (`pip install 'warpsim[train]'`).
"""

import contextlib
import io
import time

import torch

from warpsim.base.checks import listed, positive
from warpsim.base.extras import import_or_explain
from warpsim.base.learning import PpoSettings
from warpsim.envs.learner import Learner
from warpsim.envs.symmetry import without_rule

import_or_explain("rsl_rl", "train")

from rsl_rl.algorithms import PPO  # noqa: E402
from tensordict import TensorDict  # noqa: E402

LOSS_WEIGHT = 1.0  # of the mirror loss


def _configuration(own: PpoSettings, critic: str, mirrored) -> dict:
    """The settings in rsl_rl's names.

    `critic` names what the critic sees; `mirrored` appends mirrored observations and actions to those given.
    """
    network = {"class_name": "MLPModel", "hidden_dims": list(own.hidden), "activation": own.activation}
    network["obs_normalization"] = own.obs_normalization
    noise = {"class_name": "GaussianDistribution", "init_std": own.init_std, "std_type": "log"}
    names = ("gamma", "lam", "learning_rate", "schedule", "desired_kl", "value_loss_coef", "max_grad_norm")
    algorithm = {"class_name": "PPO"} | {name: getattr(own, name) for name in names}
    algorithm |= {"clip_param": own.clip, "use_clipped_value_loss": own.clip_value, "entropy_coef": own.entropy}
    algorithm |= {"num_learning_epochs": own.epochs, "num_mini_batches": own.minibatches}
    if own.symmetry != "none":
        algorithm["symmetry_cfg"] = {
            "data_augmentation_func": mirrored,
            "use_data_augmentation": own.symmetry == "augmentation",
            "use_mirror_loss": own.symmetry == "loss",
            "mirror_loss_coeff": LOSS_WEIGHT,
        }
    return {
        "obs_groups": {"actor": ["policy"], "critic": [critic]},
        "actor": network | {"distribution_cfg": noise},
        "critic": network,
        "algorithm": algorithm,
        "num_steps_per_env": own.horizon,
    }


class _Spaces:
    """The attributes that rsl_rl reads from an environment."""

    def __init__(self, env):
        self.num_envs, self.num_actions = env.num_envs, env.single_action_space.shape[0]


class PpoLearner(Learner):
    """Proximal policy optimization, on all environments of this process and, under torchrun, of all processes."""

    algorithm = "ppo"

    def _build(self) -> None:
        own, world = self.settings, self.world
        if own.symmetry != "none" and self.env.mirror is None:
            raise ValueError(
                f"{self.task}: ppo's symmetry is {own.symmetry!r}, and the task's symmetry has no rule for "
                f"{listed(without_rule(self.env.task))}; give one, such as symmetry.polar, or the setting none"
            )
        settings = _configuration(
            own, "policy" if self.privileged is None else "critic", lambda **given: self._mirrored(**given)
        )
        settings["multi_gpu"] = None if world.size == 1 else {"global_rank": world.rank, "world_size": world.size}
        with contextlib.redirect_stdout(io.StringIO()):
            self.ppo = PPO.construct_algorithm(self._seen(), _Spaces(self.env), settings, self.torch_device)
        if world.size > 1:
            self.ppo.broadcast_parameters()
        self.ppo.train_mode()

    def _seen(self) -> TensorDict:
        """What actor and critic see now."""
        seen = {"policy": self.observation} | ({} if self.privileged is None else {"critic": self.privileged})
        return TensorDict(seen, batch_size=[len(self.observation)])

    def _mirrored(self, env, obs, actions):
        """Observations and actions (or None), followed by their mirror images."""
        mirror, tables = self.env.mirror, {"policy": "observations", "critic": "critic_observations"}
        if obs is not None:
            seen = {group: mirror(obs[group], tables[group]) for group in obs.keys()}
            obs = torch.cat([obs, TensorDict(seen, batch_size=obs.batch_size)])
        return obs, None if actions is None else torch.cat([actions, mirror(actions, "actions")])

    def _check_batch(self) -> None:
        """Raise `ValueError` for rounds of fewer actions than minibatches; a policy that only plays has no rounds."""
        own, samples = self.settings, self.settings.horizon * self.env.num_envs
        if samples < max(own.minibatches, 2):
            raise ValueError(
                f"ppo: an update has {samples} actions ({self.env.num_envs} worlds × horizon {own.horizon}), and "
                f"minibatches is {own.minibatches}; give more worlds, a longer horizon, or fewer minibatches"
            )

    def _iterate(self) -> dict:
        self._check_batch()
        begun = time.process_time()
        with torch.inference_mode():
            self._collect()
            self.ppo.compute_returns(self._seen())
        collected = time.process_time()
        self.ppo.update()
        self.world.agree([*self.ppo.actor.buffers(), *self.ppo.critic.buffers()])
        self.seconds["collect"] += collected - begun
        self.seconds["update"] += time.process_time() - collected
        return {"spread": float(self.ppo.actor.output_std.detach().mean())}

    def _collect(self) -> None:
        """Act `horizon` times in all environments; the host reads nothing."""
        for _ in range(self.settings.horizon):
            action = self.ppo.act(self._seen())
            self.observation, reward, terminated, truncated, info = self.env.step(action)
            self.privileged, ended = info.get("critic"), terminated | truncated
            self.ppo.process_env_step(self._seen(), reward, ended, {"time_outs": truncated})
            self._count(reward, ended)

    def act(self, observation):
        with torch.inference_mode():
            return self.ppo.actor(TensorDict({"policy": observation}, batch_size=[len(observation)]))

    def policy(self):
        return self.ppo.actor.as_jit()

    def _judging(self, judging: bool) -> None:
        self.ppo.eval_mode() if judging else self.ppo.train_mode()

    def _learned(self) -> dict:
        return self.ppo.save()

    def _relearn(self, kept: dict) -> None:
        groups = self.ppo.optimizer.state_dict()["param_groups"]
        for group, own in zip(kept["optimizer_state_dict"]["param_groups"], groups, strict=True):
            positive(group["lr"], "checkpoint: learning rate")
            group |= {name: value for name, value in own.items() if name != "lr"}  # the settings'; the rate adapts
        self.ppo.load(kept, None, strict=True)
