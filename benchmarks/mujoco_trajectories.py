# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's own environments under MuJoCo's law: states, observations and rewards of ours beside theirs, action after action.

    python -m benchmarks.mujoco_trajectories [--tasks Ant …] [--integrator Euler] [--seeds 3] [--actions 200] [--dtype float64 float32] [--page FILE]

The same start and the same random actions; both solvers converge, whatever the file says. `terminate_when_unhealthy=False` where there is one. The
yardstick is how MuJoCo parts from itself when its start moves by 1e-12 (float32: 1e-7). Numbers are relative to max(1, |x|).
"""

import argparse
import dataclasses
import inspect
import pathlib
import sys
import warnings

import gymnasium
import mujoco
import numpy as np
import warp as wp

import warpsim as ws

PARTED = 1e-6  # difference that counts as parted
MOVED = {"float64": 1e-12, "float32": 1e-7}  # of MuJoCo's second start, by our dtype
STEPS, SHARE = 100, 0.8  # bars: physics steps within PARTED, and share of the step at which MuJoCo parts from itself
INTEGRATORS = {
    "Euler": "MuJoCoEuler",
    "implicitfast": "MuJoCoImplicitFast",
    "RK4": "MuJoCoRK4",
}  # ours by MuJoCo's name
TASKS = (
    "Hopper", "Walker2d", "HalfCheetah", "Reacher", "Pusher", "Swimmer", "InvertedPendulum", "InvertedDoublePendulum", "Ant", "Humanoid",
    "HumanoidStandup",
)  # fmt: skip

ABOUT = f"""# Gymnasium's environments under MuJoCo's law

`python -m benchmarks.mujoco_trajectories`, {{seeds}} starts and sequences of random actions each; "file" is the integrator of the file: RK4, or Euler for
HalfCheetah and Pusher. Both solvers converge, except in the last table. Differences are the largest of the first {STEPS} physics steps, relative to max(1, |x|). "Parts" is
the number of the first action after which the two engines differ by more than {PARTED:g}, for each start; if none does, the number of actions. MuJoCo parts from itself if its initial state is moved by
{MOVED["float64"]:g} (float32: {MOVED["float32"]:g}). To pass: within {PARTED:g} for {STEPS} physics steps and until {SHARE} of the action at which MuJoCo parts
from itself. Pusher begins exactly at the limits of joints, where MuJoCo's moved start is inside or outside. "Acted": pairs of types that touched, and limits.
The bars are for float64; float32 has tolerance 1e-5, and its rounding is like the moved start.
"""


def peer(name: str, integrator: str | None, converges: bool):
    """Gymnasium's environment, with a solver that converges or that of the file. `integrator` None: the file's."""
    makes = gymnasium.spec(f"{name}-v5").entry_point
    kind = gymnasium.envs.registration.load_env_creator(makes) if isinstance(makes, str) else makes
    ends = "terminate_when_unhealthy" in inspect.signature(kind.__init__).parameters
    env = kind(**({"terminate_when_unhealthy": False} if ends else {}))
    option = env.model.opt
    if converges:
        option.solver, option.tolerance, option.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 1e-15, 300
        option.ls_tolerance, option.ls_iterations = 1e-8, 200
    if integrator is not None:
        option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    return env


def relative(a, b) -> float:
    """Largest difference, relative to max(1, |b|)."""
    return float((np.abs(np.asarray(a) - b) / np.maximum(1.0, np.abs(b))).max(initial=0.0))


@dataclasses.dataclass
class Comparison:
    """Differences by action of (state, observation, reward), ours and of MuJoCo's second run; `frames` physics steps each."""

    name: str
    frames: int
    ours: np.ndarray
    own: np.ndarray
    flags: int
    pairs: set[str]  # types of geoms that touched, and whether limits acted

    def parted(self, rows) -> int:
        """The first action with a difference above `PARTED`; the number of actions if there is none."""
        above = np.flatnonzero(~(rows.max(1) <= PARTED))
        return int(above[0]) if len(above) else len(rows)

    @property
    def passes(self) -> bool:
        """Within `PARTED` for `STEPS` physics steps and until `SHARE` of that action."""
        most = SHARE * self.parted(self.own)
        return self.parted(self.ours) >= max(most, min(len(self.ours), STEPS / self.frames))


def compare(
    name: str,
    integrator: str | None = None,
    actions: int = 200,
    dtype: str = "float64",
    converges: bool = True,
    seed: int = 0,
) -> Comparison:
    """Both environments, from the start of Gymnasium's seed on."""
    first, second = (peer(name, integrator, converges) for _ in range(2))
    first.reset(seed=seed)
    rng = np.random.default_rng(seed)
    second.reset(seed=seed)
    second.set_state(first.data.qpos + MOVED[dtype], first.data.qvel)
    options = {} if integrator is None else {"integrator": getattr(ws, INTEGRATORS[integrator])()}
    solver = ws.MuJoCo(tolerance=1e-12) if dtype == "float64" else ws.MuJoCo()
    env = ws.envs.VectorEnv(
        name,
        1,
        solver=solver,
        dtype=dtype,
        device="cpu",
        autoreset="DISABLED",
        terminations={},
        episode=None,
        **options,
    )
    env.reset(seed=0)
    env.view.write(q=first.data.qpos[None], v=first.data.qvel[None])
    for term in env._inner_terms():
        if hasattr(term, "reset"):
            term.reset(env.view, np.ones(1, bool))
    ours, own, flags, pairs = [], [], 0, set()
    for _ in range(min(actions, gymnasium.spec(f"{name}-v5").max_episode_steps)):
        action = rng.uniform(first.action_space.low, first.action_space.high).astype(np.float32).astype(float)
        seen, reward, *_ = first.step(action)
        other, other_reward, *_ = second.step(action)
        found, found_reward, *_ = env.step(action[None])
        state = np.concatenate([first.data.qpos, first.data.qvel])
        here = np.concatenate([env.view.q[0], env.view.v[0]])
        ours.append([relative(here, state), relative(found[0], seen), relative(found_reward[0], reward)])
        state_2 = np.concatenate([second.data.qpos, second.data.qvel])
        own.append([relative(state_2, state), relative(other, seen), relative(other_reward, reward)])
        flags |= int(env.view.diagnostic("flags")[0])
        pairs |= acting(first)
    return Comparison(name, first.frame_skip, np.array(ours), np.array(own), flags, pairs)


def acting(env) -> set[str]:
    """Types of the geoms that touch now, and "limit" where one acts."""
    limits = {int(mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT), int(mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON)}
    found = {"limit"} if limits & set(env.data.efc_type.tolist()) else set()
    for pair in env.model.geom_type[env.data.contact.geom[env.data.contact.efc_address >= 0]]:
        found.add("–".join(sorted(mujoco.mjtGeom(int(t)).name[7:].lower() for t in pair)))
    return found


def cells(several: list[Comparison]) -> list:
    """A row of the table: the worst of several trajectories."""
    c = several[0]
    first = max(1, min(len(c.ours), STEPS // c.frames))
    worst = [f"{max(x.ours[:first, k].max() for x in several):.0e}" for k in range(3)]
    worst.append(f"{max(x.own[:first, 0].max() for x in several):.0e}")
    own, ours = ([x.parted(getattr(x, name)) for x in several] for name in ("own", "ours"))
    flags = int(np.bitwise_or.reduce([x.flags for x in several]))
    passed = f"{sum(x.passes for x in several)} of {len(several)}"
    acted = ", ".join(sorted(set().union(*(x.pairs for x in several))))
    return [len(c.ours), c.frames, listed(own), listed(ours), *worst, flags, passed, acted]


def listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--integrator", nargs="*", choices=("file", *INTEGRATORS), default=["file"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--actions", type=int, default=200)
    parser.add_argument("--dtype", choices=("float32", "float64"), nargs="*", default=["float64", "float32"])
    parser.add_argument("--page", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    page = [ABOUT.format(seeds=arguments.seeds)]
    for dtype in arguments.dtype:
        page += [f"## {dtype}", "", *table(arguments, dtype), ""]
    if "float64" in arguments.dtype:
        page += ["## float64, MuJoCo's solver as the file has it", "", *table(arguments, "float64", False), ""]
    if arguments.page:
        arguments.page.write_text("\n".join(page))
    return 0


def table(arguments, dtype: str, converges: bool = True) -> list[str]:
    """The lines of one table, printed as they come."""
    names = ["task", "integrator", "actions", "physics steps each", "MuJoCo parts from itself", "ours parts"]
    names += ["state", "observation", "reward", "MuJoCo's own state", "flags", "pass", "acted"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    print("\n".join(lines))
    for name in arguments.tasks:
        for integrator in arguments.integrator:
            chosen = None if integrator == "file" else integrator
            try:
                given = chosen, arguments.actions, dtype, converges
                row = cells([compare(name, *given, seed) for seed in range(arguments.seeds)])
            except (ws.ModelError, ValueError) as error:  # a line of the table
                row = [f"{type(error).__name__}: {error}", *[""] * 10]
            lines.append("| " + " | ".join(map(str, [name, integrator, *row])) + " |")
            print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    sys.exit(main())
