# SPDX-License-Identifier: Apache-2.0
"""A policy that balances a pole, learned on several processes or machines: the same bits for any number of them.

    python -m examples.data_parallel                                      # one process
    torchrun --nproc-per-node 2 -m examples.data_parallel [iterations]    # two; on many machines as torchrun says

Worlds are dealt out in blocks. Starts belong to the number of the world (`ws.RandomStream`), a world's motion and its gradient to it alone, so that a
block's gradient does not depend on who computes it. What would is the sum: `all_reduce` adds up in an order of its own. So the gradients of all blocks
are gathered, and every process adds them up in the order of the blocks. Every process then makes the same step of Adam and has the same weights.
With a GPU each it is one block per GPU, as large as fits; here eight blocks of 16. Needs torch.
"""

import hashlib
import itertools
import os
import sys

import torch
import torch.distributed as dist
import warp as wp

import warpsim as ws

BLOCKS, WORLDS = 8, 16  # of a block
STEPS, SUBSTEPS, DT = 50, 1, 0.02
RATE, SEED = 1e-2, 3
SPREAD = 0.3  # of the starts: m, rad, m/s, rad/s


class Learner:
    """Policy and simulator of one process of several."""

    def __init__(self, rank: int = 0, processes: int = 1):
        self.rank, self.processes = rank, processes
        cuda = torch.cuda.is_available()
        self.device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if cuda else "cpu"
        model = ws.load(ws.robots.path("cartpole"))
        self.sim = ws.Simulator(model, WORLDS, dt=DT, device=self.device, requires_grad=True)
        torch.manual_seed(SEED)  # the same first policy everywhere
        layers = itertools.pairwise((model.nq + model.nv, 32, model.nu))
        net = [layer for sizes in layers for layer in (torch.nn.Linear(*sizes), torch.nn.Tanh())]
        self.policy = torch.nn.Sequential(*net[:-1]).to(self.device)
        self.optimiser = torch.optim.Adam(self.policy.parameters(), RATE)
        share = -(-BLOCKS // processes)
        self.blocks = range(min(BLOCKS, rank * share), min(BLOCKS, (rank + 1) * share))
        self.share = share

    def loss(self, block: int, iteration: int) -> torch.Tensor:
        """Mean cost of the worlds of a block."""
        numbers = range(block * WORLDS, (block + 1) * WORLDS)
        stream = ws.RandomStream(SEED, list(numbers), device=self.device)
        nq, nv = self.sim.model.nq, self.sim.model.nv
        start = wp.to_torch(stream.uniform(nq + nv, -SPREAD, SPREAD, ahead=iteration)).clone()
        start[:, :nq] += torch.tensor(self.sim.model.q0, dtype=start.dtype, device=start.device)
        q, v = ws.torch.rollout(
            self.sim,
            start[:, :nq],
            start[:, nq:],
            lambda q, v: self.policy(torch.cat([q, v], 1)),
            steps=STEPS,
            substeps=SUBSTEPS,
        )
        return (q.square() + 0.1 * v.square()).sum(2).mean()

    def gradients(self, iteration: int) -> torch.Tensor:
        """Loss and gradient of each of this process's blocks `(share, 1 + weights)`."""
        weights = list(self.policy.parameters())
        rows = torch.zeros((self.share, 1 + sum(w.numel() for w in weights)), device=self.device)
        for row, block in enumerate(self.blocks):
            loss = self.loss(block, iteration)
            found = torch.autograd.grad(loss, weights)
            rows[row] = torch.cat([loss.detach().reshape(1), *(g.reshape(-1) for g in found)])
        return rows

    def step(self, iteration: int) -> float:
        """One step of Adam along the mean gradient of all blocks, added up in their order; the mean loss before it."""
        rows = self.gradients(iteration)
        if self.processes > 1:
            parts = [torch.empty_like(rows) for _ in range(self.processes)]
            dist.all_gather(parts, rows)
            rows = torch.cat(parts)
        total = torch.zeros_like(rows[0])
        for row in rows[:BLOCKS]:
            total += row
        total /= BLOCKS
        start = 1
        for weight in self.policy.parameters():
            weight.grad = total[start : start + weight.numel()].reshape(weight.shape).clone()
            start += weight.numel()
        self.optimiser.step()
        return float(total[0])

    def fingerprint(self) -> str:
        """Of every bit of the weights."""
        weights = (w.detach().cpu().numpy().tobytes() for w in self.policy.parameters())
        return hashlib.sha256(b"".join(weights)).hexdigest()


def learn(iterations: int = 60) -> tuple[list[float], str]:
    """Losses by iteration, and the fingerprint of the weights at the end."""
    torch.set_num_threads(1)
    processes, rank = (int(os.environ.get(name, default)) for name, default in (("WORLD_SIZE", 1), ("RANK", 0)))
    if processes > 1:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        learner = Learner(rank, processes)
        losses = [learner.step(iteration) for iteration in range(iterations)]
        return losses, learner.fingerprint()
    finally:
        if processes > 1:
            dist.destroy_process_group()


if __name__ == "__main__":
    history, found = learn(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"cost {history[0]:.3f} -> {history[-1]:.3f}; weights {found[:16]}")
