# SPDX-License-Identifier: Apache-2.0
"""Env-steps per second of processor time of brax's and mjlab's own environments, for `benchmarks/envs.py`'s table.

    python -m benchmarks.envs_peers brax hopper generalized     # in an environment with brax
    python -m benchmarks.envs_peers mjlab Mjlab-Velocity-Flat-Unitree-Go1

Their dependencies and ours need not agree: run it as `python benchmarks/envs_peers.py …` in an environment of theirs. Constant actions, after compiling;
`--worlds` at once. brax's hopper, ant and cheetah are not Gymnasium's (other masses, contact by springs or by projected constraints, other time steps);
mjlab is made for GPUs, its robot is Go1 and its environment has more observations and events than our quadruped.
"""

import argparse
import json
import time


def brax(name: str, backend: str, worlds: int, steps: int) -> dict:
    import jax
    from brax import envs

    env = envs.create(name, backend=backend, batch_size=worlds, auto_reset=True, episode_length=1000)
    step, state = jax.jit(env.step), jax.jit(env.reset)(jax.random.PRNGKey(0))
    action = jax.random.uniform(jax.random.PRNGKey(1), (worlds, env.action_size), minval=-1, maxval=1)
    for _ in range(3):
        state = step(state, action)
    jax.block_until_ready(state.obs)
    begun = time.process_time()
    for _ in range(steps):
        state = step(state, action)
    jax.block_until_ready(state.obs)
    return {"rate": steps * worlds / (time.process_time() - begun), "dt": float(env.dt)}


def mjlab(name: str, worlds: int, steps: int) -> dict:
    import torch
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.tasks.registry import load_env_cfg

    torch.set_num_threads(1)
    config = load_env_cfg(name)
    config.scene.num_envs = worlds
    env = ManagerBasedRlEnv(config, device="cpu")
    env.reset()
    action = torch.zeros(worlds, env.action_manager.total_action_dim)
    for _ in range(3):
        env.step(action)
    begun = time.process_time()
    for _ in range(steps):
        env.step(action)
    rate = steps * worlds / (time.process_time() - begun)
    return {"rate": rate, "dt": config.decimation * config.sim.mujoco.timestep}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=("brax", "mjlab"))
    parser.add_argument("name")
    parser.add_argument(
        "backend", nargs="?", default="generalized", help="brax: generalized, spring, positional or mjx"
    )
    parser.add_argument("--worlds", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=20)
    a = parser.parse_args()
    found = brax(a.name, a.backend, a.worlds, a.steps) if a.peer == "brax" else mjlab(a.name, a.worlds, a.steps)
    print(json.dumps({"peer": a.peer, "name": a.name, "backend": a.backend if a.peer == "brax" else None, **found}))


if __name__ == "__main__":
    main()
