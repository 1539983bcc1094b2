# SPDX-License-Identifier: Apache-2.0
"""SHAC: a policy learns by gradients through the simulator.

Source: Xu et al., Accelerated Policy Learning with Parallel Differentiable Simulation, 2022. Short rollouts of h
actions are differentiated from the rewards to the policy's weights. A critic estimates the return after the rollout
(eqs. 3 to 5 there). It learns from TD(λ) returns against a slowly updated target copy. An episode that ends within a
rollout ends the gradient there.

Three things differ from the paper. Rollouts are short here, so the critic's returns reach over several of them: over
one alone, the cost of a fall would move to earlier states by h actions a round. The policy that is evaluated is an
average of the weights after all rounds (Polyak and Juditsky, 1992), since single rounds differ much. With
`validate_every` it is the best of several such averages. The critic's estimate may have a weight below 1
(`critic_weight`): a legged robot that stands sees states that differ little, so the critic's slope is learned badly,
and it is 10 to 30 times as long as the gradient of the rewards.
"""

import copy
import itertools
import math
import time

import numpy as np
import torch
from torch import nn

from warpsim.base.checks import number, short, whole
from warpsim.envs.learner import Learner, like, time_of
from warpsim.envs.task import simulator_options
from warpsim.solve.sap.sap import SAP

VALIDATION_SEED, VALIDATION_EPISODES = 2_000_003, 16  # of other starts than those that judge a policy in the end
NETWORKS = ("actor", "critic", "target", "average")
LAYERS = {
    **{"elu": nn.ELU, "gelu": nn.GELU, "relu": nn.ReLU, "selu": nn.SELU, "swish": nn.SiLU, "tanh": nn.Tanh},
}


def _network(inputs: int, hidden, outputs: int, activation: str) -> nn.Sequential:
    layers, sizes = [], [inputs, *hidden]
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), LAYERS[activation](), nn.LayerNorm(b)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


class _Standard(nn.Module):
    """Observations normalized by the running mean and standard deviation of all observations so far, or as they are."""

    def __init__(self, size: int, used: bool = True):
        super().__init__()
        self.used = used
        for name, value in (("mean", torch.zeros(size)), ("variance", torch.ones(size)), ("count", torch.tensor(1e-4))):
            self.register_buffer(name, value)

    def see(self, rows) -> None:
        """Add rows `(n, size)` to the statistics, by Chan, Golub and LeVeque (1979)."""
        n, mean, variance = len(rows), rows.mean(0), rows.var(0, unbiased=False)
        total, off = self.count + n, mean - self.mean
        spread = self.variance * self.count + variance * n + off**2 * self.count * n / total
        self.mean, self.variance, self.count = self.mean + off * n / total, spread / total, total

    def forward(self, x):
        return torch.clamp((x - self.mean) / torch.sqrt(self.variance + 1e-5), -10.0, 10.0) if self.used else x


class _Policy(nn.Module):
    """Observation to action: normalization, network, and the bounds of the actions."""

    def __init__(self, standard, actor, middle, half, gain: float):
        super().__init__()
        self.standard, self.actor, self.gain = standard, actor, gain
        self.register_buffer("middle", middle)
        self.register_buffer("half_range", half)  # `half` is a method of modules

    def forward(self, observation):
        return self.middle + self.half_range * torch.tanh(self.gain * self.actor(self.standard(observation)))


def _move(old: nn.Module, new: nn.Module, kept: float) -> None:
    """Move the weights of a network towards those of another one, so that a share of the old ones is kept."""
    for a, b in zip(old.parameters(), new.parameters(), strict=True):
        a.mul_(kept).add_((1.0 - kept) * b)


class ShacLearner(Learner):
    """SHAC with gradients through `horizon` actions in all environments.

    Policies are evaluated with the true contact.
    """

    algorithm = "shac"

    def _options(self) -> dict:
        smooth = self.kind.smooth
        options = simulator_options(self.kind, **smooth)
        solver = options.get("solver", SAP())
        if not isinstance(solver, SAP):
            raise ValueError(
                f"{self.task}: shac learns in softened contact, which SAP has and {short(solver)} has not; leave out "
                "the solver, or give the task smooth={'solver': ws.SAP()}"
            )
        # gradients of the true contact are useless beyond some ten steps (docs/gradients_contact.md)
        softened = solver.smoothed(self.settings.smoothing)
        own = {"solver": None, "integrator": None, "options": {**options, "solver": softened}}
        return {"requires_grad": True, **smooth, **own}

    @property
    def horizon(self) -> int:
        own = self.settings
        return max(1, own.horizon_steps // self.env.task.decimation) if own.horizon is None else own.horizon

    def _judged_by(self) -> dict:
        seen = {name: value for name, value in self.kind.smooth.items() if name == "observations"}
        return super()._judged_by() | seen

    def _check(self, env) -> None:
        super()._check(env)
        if not np.isfinite(env.single_action_space.high - env.single_action_space.low).all():
            raise ValueError(f"{self.task}: shac needs actions with bounds; give the task an action_range")

    def _compiled(self) -> float:
        spent, begun = super()._compiled(), time.process_time()
        if self.settings.validate_every is not None:
            env = self.judge().environment(1)
            env.reset()
            env.step(env.arrays.made(np.zeros((1, *env.single_action_space.shape), np.float32)))
        return spent + time.process_time() - begun

    def _build(self) -> None:
        size, space = self.observation.shape[1], self.env.single_action_space
        device, torch_of = self.torch_device, lambda x: torch.as_tensor(x, device=self.torch_device)
        self.middle, self.half = torch_of((space.high + space.low) / 2), torch_of((space.high - space.low) / 2)
        own = self.settings
        self.standard = _Standard(size, own.obs_normalization).to(device)
        self.actor = _network(size, own.hidden, len(self.middle), own.activation).to(device)
        self.critic = _network(size, own.hidden, 1, own.activation).to(device)
        self.target = copy.deepcopy(self.critic)
        self.average = copy.deepcopy(self.actor)  # the actor that is evaluated
        self.latest = _Policy(self.standard, self.average, self.middle, self.half, own.output_gain)
        self.best: _Policy | None = None  # of those that `_validate` evaluated
        self.final: _Policy | None = None  # the last one, where it is better than that
        self.validated = -math.inf  # mean return of `best`
        self.past: dict[str, torch.Tensor] = {}  # the last rounds, which the critic learns from
        self.spread = nn.Parameter(
            torch.full_like(self.middle, math.log(own.init_std))
        )  # log of the noise's standard deviation
        self.actor_parameters = [*self.actor.parameters(), self.spread]
        self.actor_optimiser = torch.optim.Adam(self.actor_parameters, own.learning_rate, own.betas)
        rate = own.learning_rate if own.critic_learning_rate is None else own.critic_learning_rate
        self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), rate, own.betas)
        self.world.agree(p for name in NETWORKS for p in getattr(self, name).parameters())
        self.skipped = 0

    def _action(self, observation):
        """The policy's action with noise."""
        raw = self.actor(self.standard(observation))
        noisy = raw + torch.exp(self.spread) * torch.randn_like(raw)
        return self.middle + self.half * torch.tanh(self.settings.output_gain * noisy)

    def act(self, observation):
        with torch.inference_mode():
            return self._chosen()(observation)

    def policy(self):
        return copy.deepcopy(self._chosen())

    def _chosen(self) -> _Policy:
        return self.final or self.best or self.latest

    def _iterate(self) -> dict:
        begun, self.final = time.process_time(), None
        self.env.detach()
        self.observation = self.observation.detach()
        stretch, loss = self._stretch()
        self.actor_optimiser.zero_grad()
        loss.backward()
        length = self._step_actor()
        collected = time.process_time()
        rounds = math.ceil(self.settings.critic_horizon / self.horizon)
        for name, new in stretch.items():
            self.past[name] = torch.cat([self.past.get(name, new[:0]), new])[-rounds * self.horizon :]
        missed = self._fit_critic()
        begin = (1.0 + self.iteration) / (10.0 + self.iteration)  # forgets the first weights
        with torch.no_grad():
            _move(self.target, self.critic, self.settings.target_decay)
            _move(self.average, self.actor, min(self.settings.averaging**self.horizon, begin))
            if self.settings.obs_normalization:
                self.standard.see(self.world.rows_of_all(stretch["raw"].flatten(0, 1)))
            self.world.agree(self.standard.buffers())
        every = self.settings.validate_every
        if every is not None and (self.iteration + 1) * self.horizon % every < self.horizon:
            self._validate()
        self.seconds["collect"] += collected - begun
        self.seconds["update"] += time.process_time() - collected
        told = {"spread": float(torch.exp(self.spread.detach()).mean()), "gradient": length, "critic": missed}
        told |= {} if self.best is None else {"validated": self.validated}
        return told | {"skipped": self.skipped, "faults": int(self.env.faults.sum())}

    def _validate(self) -> None:
        """Evaluate the average of now, and keep it if it is the best so far."""
        begun, found = time.process_time(), self._validation()
        if found > self.validated:
            self.best, self.validated = copy.deepcopy(self.latest), found
        self.concluding = time.process_time() - begun

    def _validation(self) -> float:
        """Mean return of the average of now in episodes of their own; -inf where one of them fails."""
        judge = self.judge()
        judge.act = torch.inference_mode()(self.latest.forward)
        judged = judge.evaluate(VALIDATION_EPISODES, seed=VALIDATION_SEED)
        good = math.isfinite(judged["return"]) and not judged["failed"]
        found = torch.tensor(judged["return"] if good else -math.inf).to(self.torch_device)
        self.world.agree([found])
        return float(found)

    def conclude(self) -> None:
        """Let the last average compete with the best one. Further iterations forget the outcome."""
        if self.best is not None:
            begun = time.process_time()
            self.final = copy.deepcopy(self.latest) if self._validation() > self.validated else None
            self.seconds["update"] += time.process_time() - begun

    def _stretch(self):
        """Roll out `horizon` actions; returns the critic's data `(horizon, environments, …)` and the policy's loss.

        Of an action these are the observations before and after, reward, and whether the episode ended or terminated.
        """
        horizon, gamma = self.horizon, self.settings.gamma
        n, rows = len(self.observation), {name: [] for name in ("raw", "after", "reward", "ended", "terminated")}
        gain, discount = torch.zeros(n, device=self.torch_device), torch.ones(n, device=self.torch_device)
        loss, observation = 0.0, self.observation
        for k in range(horizon):
            self._bound_gradients()
            rows["raw"].append(observation.detach())
            observation, reward, terminated, truncated, info = self.env.step(self._action(observation))
            ended = terminated | truncated
            after = torch.where(ended[:, None], info["final_obs"], observation) if "final_obs" in info else observation
            value = torch.where(terminated, 0.0, self._value(after))
            gain, discount = gain + discount * reward, discount * gamma
            closing = ended if k + 1 < horizon else torch.ones_like(ended)
            loss = loss - torch.where(closing, gain + discount * value, 0.0).sum()
            gain, discount = torch.where(ended, 0.0, gain), torch.where(ended, 1.0, discount)
            self._count(reward.detach(), ended)
            for name, x in (("after", after), ("reward", reward), ("ended", ended), ("terminated", terminated)):
                rows[name].append(x.detach())
        self.observation = observation
        return {name: torch.stack(x) for name, x in rows.items()}, loss / (horizon * n)

    def _value(self, observation):
        """The target critic's estimate of what follows, with its weight."""
        return self.settings.critic_weight * self.target(self.standard(observation)).squeeze(-1)

    def _bound_gradients(self) -> None:
        """Limit each world's gradient with respect to the present state to a few times the median of all worlds."""

        longest = self.settings.max_state_gradient
        if longest == math.inf:
            return

        def bounded(gradient):
            length = gradient.norm(dim=-1, keepdim=True)
            length = torch.where(torch.isfinite(length), length, torch.inf)
            return torch.where(torch.isfinite(gradient), gradient, 0.0) * torch.clamp(
                longest * length.median() / length.clamp_min(1e-30), max=1.0
            )

        for name in "qv":
            tensor = getattr(self.env.view, name)
            if tensor.requires_grad:
                tensor.register_hook(bounded)

    def _step_actor(self) -> float:
        """A gradient step of the policy, skipped and counted if the gradient is not finite.

        Returns the norm before clipping.
        """
        gradients = [p.grad for p in self.actor_parameters]
        if self.world.size > 1:
            for g in gradients:
                torch.distributed.all_reduce(g)
                g /= self.world.size
        length = torch.nn.utils.clip_grad_norm_(self.actor_parameters, self.settings.max_grad_norm)
        if torch.isfinite(length):
            self.actor_optimiser.step()
        else:
            self.skipped += 1
        return float(length)

    def _returns(self):
        """TD(λ) returns over the last rounds, up to the ends of episodes, `(actions, environments)`."""
        past, gamma, lam = self.past, self.settings.gamma, self.settings.lam
        with torch.no_grad():
            following = torch.where(past["terminated"], 0.0, self._value(past["after"]))
            goal, goals = following[-1], []
            for k in reversed(range(len(following))):
                ahead = (1.0 - lam) * following[k] + lam * goal
                goal = past["reward"][k] + gamma * torch.where(past["ended"][k], following[k], ahead)
                goals.append(goal)
        return torch.stack(goals[::-1])

    def _fit_critic(self) -> float:
        """Fit the critic to the returns of the last rounds; returns the mean squared error of the last pass."""
        seen, goals = self.standard(self.past["raw"]).flatten(0, 1), self._returns().flatten()
        for _ in range(self.settings.epochs):
            missed = []
            for part in torch.randperm(len(seen), device=seen.device).chunk(self.settings.minibatches):
                error = ((self.critic(seen[part]).squeeze(-1) - goals[part]) ** 2).mean()
                self.critic_optimiser.zero_grad()
                error.backward()
                if self.world.size > 1:
                    for p in self.critic.parameters():
                        torch.distributed.all_reduce(p.grad)
                        p.grad /= self.world.size
                torch.nn.utils.clip_grad_norm_(self.critic.parameters(), self.settings.max_grad_norm)
                self.critic_optimiser.step()
                missed.append(error.detach())
        return sum(torch.stack(missed).tolist()) / len(missed)

    def _parts(self) -> dict:
        return {name: getattr(self, name) for name in ("standard", *NETWORKS, "actor_optimiser", "critic_optimiser")}

    def _learned(self) -> dict:
        kept = {name: part.state_dict() for name, part in self._parts().items()}
        kept |= {"spread": self.spread.detach().clone(), "skipped": self.skipped, "past": dict(self.past)}
        policies = {name: (own := getattr(self, name)) and own.state_dict() for name in ("best", "final")}
        return kept | policies | {"validated": self.validated, "concluding": self.concluding}

    def _checked_past(self, past: dict) -> dict:
        """The last rounds of a checkpoint. Raises `ValueError` where they are not of this task's sizes."""
        if not past:
            return {}
        n, worlds = len(past["reward"]), past["reward"].shape[1]  # of the training, also where a policy is only played
        wide = torch.zeros((n, worlds, self.observation.shape[1]), device=self.torch_device)
        for name in ("raw", "after", "reward", "ended", "terminated"):
            known = wide if name in ("raw", "after") else wide[..., 0] if name == "reward" else wide[..., 0] > 0
            like(past[name], known, f"checkpoint: past: {name}")
        return {name: past[name] for name in ("raw", "after", "reward", "ended", "terminated")}

    def _relearn(self, kept: dict) -> None:
        missing = {"average": kept["actor"], "past": {}, "best": None, "final": None}
        missing |= {"validated": -math.inf, "concluding": 0.0}
        kept = missing | kept  # which checkpoints of earlier versions lack
        for name, part in self._parts().items():
            own = {"param_groups": part.state_dict()["param_groups"]} if "optimiser" in name else {}  # the settings'
            part.load_state_dict(kept[name] | own)
        with torch.no_grad():
            self.spread.copy_(kept["spread"])
        self.skipped, self.validated = whole(kept["skipped"], "checkpoint: skipped", 0), kept["validated"]
        self.past = self._checked_past(kept["past"])
        for name in ("best", "final"):
            policy = None if kept[name] is None else copy.deepcopy(self.latest)
            if policy is not None:  # with this task's bounds of actions, whatever the file has
                policy.load_state_dict(kept[name] | {"middle": self.middle, "half_range": self.half})
            setattr(self, name, policy)
        for standard in (self.standard, *(policy.standard for policy in (self.best, self.final) if policy)):
            if (standard.variance < 0.0).any():
                raise ValueError("checkpoint: standard.variance is negative; train anew")
        number(
            self.validated,
            "checkpoint: validated",
            "it must be -inf without a best policy, else finite",
            lambda x: x == -math.inf if self.best is None else math.isfinite(x),
        )
        self.concluding = time_of(kept["concluding"], "checkpoint: concluding")
