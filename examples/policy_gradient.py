# SPDX-License-Identifier: Apache-2.0
"""An ant learns to walk by short-horizon analytic policy gradients (SHAC style), beside random search.

    python -m examples.policy_gradient [out]        # writes out/policy_gradient.png and out/policy_gradient.usd

32 worlds go on from where they are for 8 steps; the reward of those steps and the value of the last state are
differentiated through the simulator into the policy's weights. The value is learned from returns over the last 8 of such
horizons. Random search (ARS with a linear policy, which did better
than the network; the same rewards, 32 pairs of perturbed weights at once) gets the same number of env-steps. Needs torch.

The gradients are those of softened contact (`SAP.smoothed`); every speed told is that of the true one. The horizon is
short: with 32 steps, and the settings of then, the speed was 0.11 m/s. One run proves little: medians of seeds 0 to 4 are
2.0 m/s after 49,152 env-steps, and 0.68 m/s for random search after 51,200 (`benchmarks/policy_gradient.py`); of seeds 15
to 19 1.3 and 0.62 m/s, from 0.77 to 2.5 and from 0.18 to 0.80. Random search takes a quarter of the CPU time.

After Xu et al., Accelerated Policy Learning with Parallel Differentiable Simulation (2022); Mania, Guy, Recht, Simple
random search of static linear policies (2018).
"""

import copy
import itertools
import pathlib
import sys
import time

import numpy as np
import torch
import warp as wp

import warpsim as ws
from warpsim.base.extras import import_or_explain
from warpsim.tools.demo import robot_path
from warpsim.tools.runs import perturbed_start

WORLDS, HORIZON, SUBSTEPS, DT = 32, 8, 2, 0.02
ITERATIONS, ROUNDS = 192, 8  # horizons, and the last of them that the critic learns from
SMOOTHING = 0.3  # of the contact that is differentiated
EPISODE = 250  # steps, after which a world starts anew
GAMMA, LAMBDA = 0.98, 0.95
RATE, CRITIC_RATE, LONGEST_GRADIENT = 5e-3, 2e-3, 1.0
NOISE = 0.4  # standard deviation of the controls while it learns
LOWEST, HIGHEST = 0.25, 1.1  # height of the torso [m] outside of which a world starts anew
# Random search: size of the perturbations, of a step, and pairs that count.
ARS_WORLDS, ARS_NOISE, ARS_RATE, ARS_BEST = 64, 0.2, 0.2, 16
SPEED_SCALE = 0.2  # of velocities as the policy sees them


def observe(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Height, attitude, joint angles and velocities `(worlds, 27)`."""
    return torch.cat([q[:, 2:], SPEED_SCALE * v], dim=1)


def reward(v: torch.Tensor, q: torch.Tensor, control: torch.Tensor) -> torch.Tensor:
    """Forward speed [m/s], plus what is upright of the torso, less torque `(worlds,)`."""
    upright = 1 - 2 * (q[:, 4] ** 2 + q[:, 5] ** 2)
    return v[:, 0] + 0.5 * upright - 0.05 * control.square().sum(1)


def network(outputs: int, *, bounded: bool, seed: int, hidden=(64, 64)) -> torch.nn.Sequential:
    """A network, linear without hidden layers; the last one starts small."""
    torch.manual_seed(seed)
    layers = []
    for inputs, size in itertools.pairwise((27, *hidden, outputs)):
        layers += [torch.nn.Linear(inputs, size), torch.nn.ELU(), torch.nn.LayerNorm(size)]
    with torch.no_grad():
        layers[-3].weight *= 0.1
        layers[-3].bias.zero_()
    return torch.nn.Sequential(*layers[:-2], *([torch.nn.Tanh()] if bounded else []))


class Ants:
    """The worlds that are learned in: they go on from horizon to horizon, and start anew when they must."""

    def __init__(self, worlds: int, seed: int, smoothing: float = 0.0):
        model, solver = ws.load(robot_path("ant")), ws.SAP().smoothed(smoothing)
        self.sim = ws.Simulator(model, worlds, dt=DT, device="cpu", solver=solver, requires_grad=True)
        self.seed, self.count, self.worlds = seed, 0, worlds
        self.q, self.v = self.starts()
        # Worlds are of all ages, so that they do not start anew together.
        self.age = np.random.default_rng(seed).integers(0, EPISODE, worlds)

    def starts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Poses near the model's own, close to the ground; the same ones for the same seed and count."""
        self.count += 1
        q, v = perturbed_start(self.sim.model, self.worlds, 0.1, seed=1000 * self.seed + self.count)
        q[:, 2] = 0.55
        return torch.tensor(q, dtype=torch.float32), torch.tensor(v, dtype=torch.float32)

    def step(self, q, v, control):
        """One step of DT under a control."""
        return ws.torch.step(self.sim, q, v, control, substeps=SUBSTEPS)

    def renew(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Go on from q, v; worlds that fell, blew up or are old start anew. Returns which `(worlds,)`."""
        self.age += HORIZON
        lost = ~torch.isfinite(q).all(1) | (q[:, 2] < LOWEST) | (q[:, 2] > HIGHEST) | torch.tensor(self.age >= EPISODE)
        lost |= torch.tensor(self.sim.diagnostics.flags.numpy() & ws.NONFINITE != 0)
        self.age[lost.numpy()] = 0
        fresh_q, fresh_v = self.starts()
        self.q, self.v = torch.where(lost[:, None], fresh_q, q), torch.where(lost[:, None], fresh_v, v)
        return lost


@torch.no_grad()
def evaluate(policy, ants: Ants, steps: int = 150) -> float:
    """Mean forward speed [m/s] from starts that are always the same."""
    ants.count = -1
    q, v = ants.starts()
    begin = q[:, 0].clone()
    Q, _ = ws.torch.rollout(
        ants.sim, q, v, lambda q, v: policy(observe(q, v)), steps=steps, every=steps, substeps=SUBSTEPS
    )
    return float((Q[-1, :, 0] - begin).mean() / (steps * DT))


def horizon(ants: Ants, policy, critic, steps: int, past: list) -> torch.Tensor:
    """Loss of the policy over a short horizon. Adds to `past` observations before and after, rewards and ends of it."""
    q, v = ants.q, ants.v
    total, discount = 0.0, 1.0
    rewards, seen = [], []
    for _ in range(steps):
        seen.append(observe(q, v))
        control = policy(seen[-1])
        control = torch.clamp(control + NOISE * torch.randn_like(control), -1.0, 1.0)
        q, v = ants.step(q, v, control)
        rewards.append(reward(v, q, control))
        total = total + discount * rewards[-1]
        discount *= GAMMA
    seen.append(observe(q, v))
    total = total + discount * critic(seen[-1])[:, 0] / (1 - GAMMA)  # the critic gives mean rewards, of order 1
    ended = torch.zeros(steps, len(q), dtype=torch.bool)
    ended[-1] = ants.renew(q.detach(), v.detach())
    seen = torch.stack(seen).detach()
    past.append((seen[:-1], seen[1:], torch.stack(rewards).detach(), ended))
    del past[:-ROUNDS]
    return -total.mean() / steps


@torch.no_grad()
def critic_data(critic, past: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Observations and what the critic should give for them: TD(lambda) over the last rounds, backwards in time."""
    before, after, rewards, ended = (torch.cat(rows) for rows in zip(*past, strict=True))
    value = critic(after)[..., 0] / (1 - GAMMA)
    target, targets = value[-1], []
    for k in reversed(range(len(rewards))):
        ahead = torch.where(ended[k], value[k], (1 - LAMBDA) * value[k] + LAMBDA * target)
        target = rewards[k] + GAMMA * ahead
        targets.append(target)
    return before.flatten(0, 1), (1 - GAMMA) * torch.stack(targets[::-1]).flatten()


def learn(iterations: int = ITERATIONS, seed: int = 0, every: int = 32, smoothing: float = SMOOTHING):
    """SHAC: the policy, and rows (env-steps, seconds, speed)."""
    ants, judge = Ants(WORLDS, seed, smoothing), Ants(ARS_WORLDS, seed + 1)
    policy, critic = network(8, bounded=True, seed=seed), network(1, bounded=False, seed=seed + 1)
    actor_steps = torch.optim.Adam(policy.parameters(), RATE, betas=(0.7, 0.95))
    critic_steps = torch.optim.Adam(critic.parameters(), CRITIC_RATE)
    old_critic = copy.deepcopy(critic)
    rows, spent, past = [(0, 0.0, evaluate(policy, judge))], 0.0, []
    for k in range(iterations):
        begin = time.process_time()
        for group in actor_steps.param_groups:
            group["lr"] = RATE * (1 - 0.9 * k / iterations)
        loss = horizon(ants, policy, old_critic, HORIZON, past)
        actor_steps.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), LONGEST_GRADIENT)
        if torch.isfinite(norm):
            actor_steps.step()
        seen, targets = critic_data(old_critic, past)
        for _ in range(8):
            chosen = torch.randperm(len(seen))[: len(seen) // 4]
            critic_steps.zero_grad()
            (critic(seen[chosen])[:, 0] - targets[chosen]).square().mean().backward()
            critic_steps.step()
        with torch.no_grad():
            for old, new in zip(old_critic.parameters(), critic.parameters(), strict=True):
                old.lerp_(new, 0.4)
        spent += time.process_time() - begin
        if (k + 1) % every == 0:
            rows.append(((k + 1) * WORLDS * HORIZON, spent, evaluate(policy, judge)))
    return policy, np.array(rows)


@torch.no_grad()
def random_search(env_steps: int, worlds: int = ARS_WORLDS, steps: int = 100, seed: int = 0, every: int = 2):
    """ARS with a linear policy: the policy, and rows (env-steps, seconds, speed)."""
    ants, judge = Ants(worlds, seed), Ants(worlds, seed + 1)
    policy = network(8, bounded=True, seed=seed, hidden=())
    names = [name for name, _ in policy.named_parameters()]
    pairs, best = worlds // 2, min(ARS_BEST, worlds // 2)
    call = torch.vmap(lambda weights, x: torch.func.functional_call(policy, weights, (x[None],))[0])
    rows, spent, used = [(0, 0.0, evaluate(policy, judge))], 0.0, 0
    while used + worlds * steps // 2 < env_steps:
        begin = time.process_time()
        q, v = (x[:pairs].repeat(2, 1) for x in ants.starts())  # both of a pair start alike
        noise = {name: torch.randn(pairs, *p.shape) for name, p in policy.named_parameters()}
        weights = {
            name: p + ARS_NOISE * torch.cat([noise[name], -noise[name]]) for name, p in policy.named_parameters()
        }
        total = torch.zeros(worlds)
        for _ in range(steps):
            control = call(weights, observe(q, v))
            q, v = ants.step(q, v, control)
            total += torch.nan_to_num(reward(v, q, control), nan=-10.0)
        up, down = total[:pairs], total[pairs:]
        chosen = torch.maximum(up, down).argsort(descending=True)[:best]
        gain = (up - down)[chosen] / torch.cat([up[chosen], down[chosen]]).std().clamp(min=1e-6)
        for name in names:
            step = torch.tensordot(gain, noise[name][chosen], 1) / best
            policy.get_parameter(name).add_(ARS_RATE * step)
        used += worlds * steps
        spent += time.process_time() - begin
        if (len(rows) and used // (worlds * steps) % every == 0) or used + worlds * steps // 2 >= env_steps:
            rows.append((used, spent, evaluate(policy, judge)))
    return policy, np.array(rows)


def plot(learned: np.ndarray, searched: np.ndarray, path) -> None:
    """Speed by env-steps and by CPU time."""
    figure = import_or_explain("matplotlib.figure", "show").Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, column, label in zip(axes, (0, 1), ("env-steps", "CPU time [s]"), strict=True):
        axis.plot(learned[:, column], learned[:, 2], color="#2f6fb0", label="analytic policy gradient")
        axis.plot(searched[:, column], searched[:, 2], color="#c4473a", label="random search")
        axis.set(xlabel=label)
        axis.legend()
    axes[0].set(ylabel="forward speed [m/s]", title="ant")
    figure.savefig(path, dpi=120)


def main(out: pathlib.Path) -> None:
    """Learn both ways, and write the plot and the USD stage of nine walking ants."""
    import_or_explain("matplotlib", "show")  # before the work, not after it
    torch.set_num_threads(1)  # the networks are small
    policy, learned = learn()
    _, searched = random_search(int(learned[-1, 0]))
    for name, rows in (("analytic policy gradient", learned), ("random search", searched)):
        print(
            f"{name}: {rows[0, 2]:+.2f} -> {rows[-1, 2]:+.2f} m/s after {rows[-1, 0]:.0f} env-steps, {rows[-1, 1]:.0f} s"
        )
    out.mkdir(exist_ok=True)
    plot(learned, searched, out / "policy_gradient.png")
    ants = Ants(9, 7)

    def control(state: ws.State) -> wp.array:
        with torch.no_grad():
            return wp.from_torch(policy(observe(*(wp.to_torch(x, requires_grad=False) for x in (state.q, state.v)))))

    start = ants.sim.state(*(x.numpy() for x in ants.starts()))
    ants.sim.rollout(start, control, steps=200, substeps=SUBSTEPS).to_usd(out / "policy_gradient.usd")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
