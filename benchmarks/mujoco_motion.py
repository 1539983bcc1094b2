# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's law over many steps, and its derivatives, beside MuJoCo's.

    python -m benchmarks.mujoco_motion [--robots …] [--cone pyramidal elliptic] [--page FILE]

Trajectories: Gymnasium's robots under recorded random actions, with the file's integrator, both engines converged. The yardstick is how
MuJoCo parts from itself when its start moves by 1e-12. Derivatives: `sim.linearize` beside `mjd_transitionFD` (centered) at states with contact
where the quotients of two step sizes agree, so that no row changes its branch between them.
"""

import argparse
import dataclasses
import pathlib
import sys
import warnings

import gymnasium
import mujoco
import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.corpus.starts import own_start, place, state_of
from benchmarks.mujoco_contacts import contact_states
from benchmarks.mujoco_law import CONES, converged, differing

PARTED, MOVED = 1e-6, 1e-12  # difference that counts as parted; of MuJoCo's second start
RATIO = 4.0
FD_STEPS = (1e-6, RATIO * 1e-6)
FD_AGREE = 1e-5  # of quotients of both steps, relative
INTEGRATORS = {0: "MuJoCoEuler", 3: "MuJoCoImplicitFast", 1: "MuJoCoRK4"}
FRAMES = {  # physics steps per action of Gymnasium's environments
    "hopper": 4, "walker2d_v5": 4, "half_cheetah": 5, "reacher": 2, "pusher_v5": 5, "swimmer": 4, "inverted_pendulum": 2, "ant": 5,
    "humanoid": 5,
}  # fmt: skip


def robot(name: str) -> mujoco.MjModel:
    """A robot of Gymnasium."""
    root = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    return mujoco.MjModel.from_xml_path(str(root / f"{name}.xml"))


def integrator_of(m: mujoco.MjModel):
    """The counterpart of the model's integrator."""
    return getattr(ws, INTEGRATORS[int(m.opt.integrator)])()


@dataclasses.dataclass
class Trajectory:
    """Differences from MuJoCo's trajectory after every physics step, relative to max(1, |x|): ours, and MuJoCo's from a moved start."""

    name: str
    ours: np.ndarray
    own: np.ndarray
    flags: int

    @staticmethod
    def parted(x: np.ndarray) -> int:
        """The first physics step with a difference above `PARTED`; the number of steps if there is none."""
        above = np.flatnonzero(~(x <= PARTED))
        return int(above[0]) if len(above) else len(x)

    @property
    def passes(self) -> bool:
        """Within `PARTED` until 0.8 × the step at which MuJoCo parts from itself."""
        return self.parted(self.ours) >= 0.8 * self.parted(self.own)


def apart(a: mujoco.MjData, q: np.ndarray, v: np.ndarray) -> float:
    """Largest difference of positions and velocities from a state, relative to max(1, |x|)."""
    return max(float((np.abs(x - y) / np.maximum(1.0, np.abs(x))).max()) for x, y in ((a.qpos, q), (a.qvel, v)))


def trajectory(
    name: str, integrator: int | None = None, cone: str | None = None, actions: int = 200, seed: int = 0
) -> Trajectory:
    """Both engines under the same random actions, each held for the frames of the environment. None: the file's."""
    m = robot(name)
    integrator = m.opt.integrator if integrator is None else integrator
    converged(m, CONES[m.opt.cone] if cone is None else cone)
    m.opt.integrator = integrator
    rng, start = np.random.default_rng(seed), own_start(m, 1)
    mujoco.mj_integratePos(m, start["q"][0], rng.uniform(-5e-3, 5e-3, m.nv), 1.0)
    start["v"][0] = 5e-3 * rng.standard_normal(m.nv)
    first, second = mujoco.MjData(m), mujoco.MjData(m)
    place(first, start, 0)
    place(second, start, 0)
    mujoco.mj_integratePos(m, second.qpos, MOVED * np.ones(m.nv), 1.0)
    sim = ws.Simulator(
        ws.load(m), 1, dtype="float64", device="cpu", solver=ws.MuJoCo(tolerance=1e-14), integrator=integrator_of(m)
    )
    state, low, high = state_of(sim, start), *m.actuator_ctrlrange.T
    ours, own, flags = [], [], 0
    for _ in range(actions):
        control = rng.uniform(low, high)
        first.ctrl[:] = second.ctrl[:] = control
        for _ in range(FRAMES[name]):
            mujoco.mj_step(m, first)
            mujoco.mj_step(m, second)
            state = sim.step(state, control[None])
            flags |= int(sim.diagnostics.flags.numpy()[0])
            ours.append(apart(first, state.q.numpy()[0], state.v.numpy()[0]))
            own.append(apart(first, second.qpos, second.qvel))
    return Trajectory(name, np.array(ours), np.array(own), flags)


def differences(m: mujoco.MjModel, states, k: int, step: float) -> tuple[np.ndarray, np.ndarray]:
    """`mjd_transitionFD`, centered."""
    data = mujoco.MjData(m)
    place(data, states, k)
    n = 2 * m.nv + m.na
    A, B = np.zeros((n, n)), np.zeros((n, m.nu))
    mujoco.mjd_transitionFD(m, data, step, 1, A, B, None, None)
    return A, B


def at_kink(m: mujoco.MjModel, states, k: int) -> bool:
    """Whether a contact or limit is at its margin to within the steps of the differences."""
    data = mujoco.MjData(m)
    place(data, states, k)
    mujoco.mj_forward(m, data)
    Row = mujoco.mjtConstraint
    limits = np.isin(data.efc_type, [int(Row.mjCNSTR_LIMIT_JOINT), int(Row.mjCNSTR_LIMIT_TENDON)])
    inside = [*(data.efc_pos - data.efc_margin)[limits], *(c.dist - c.includemargin for c in data.contact)]
    return bool((np.abs(inside) < 2.0 * max(FD_STEPS)).any())


def gradient_errors(m: mujoco.MjModel, states, cone: str) -> dict:
    """Worst relative error of A and B over the states that count, and how many do. `m` is changed: see `converged`.

    Expected is the limit of the quotients of both steps. "quotients": the largest difference between them.
    """
    converged(m, cone)
    sim = ws.Simulator(
        ws.load(m), len(states["q"]), dtype="float64", device="cpu", threads=1, requires_grad=True,
        solver=ws.MuJoCo(cone=cone, tolerance=1e-14), integrator=integrator_of(m),
    )  # fmt: skip
    found = sim.linearize(state_of(sim, states), states["control"] if m.nu else None)
    A, B = found.A.numpy(), found.B.numpy()
    result = {"states": len(A), "compared": 0, "kinks": 0, "A": 0.0, "B": 0.0, "quotients": 0.0}
    differ = differing(m, sim, states)
    for k in range(len(A)):
        (A1, B1), (A2, B2) = (differences(m, states, k, step) for step in FD_STEPS)
        scale_A, scale_B = max(1.0, np.abs(A1).max()), max(1.0, np.abs(B1).max(initial=0.0))
        doubt = max(np.abs(A1 - A2).max() / scale_A, np.abs(B1 - B2).max(initial=0.0) / scale_B)
        if doubt > FD_AGREE or differ[k] or at_kink(m, states, k):
            result["kinks"] += 1
            continue
        result["compared"] += 1
        result["quotients"] = max(result["quotients"], float(doubt))
        expected_A, expected_B = (x + (x - y) / (RATIO**2 - 1.0) for x, y in ((A1, A2), (B1, B2)))  # Richardson
        result["A"] = max(result["A"], float(np.abs(A[k] - expected_A).max()) / scale_A)
        result["B"] = max(result["B"], float(np.abs(B[k] - expected_B).max(initial=0.0)) / scale_B)
    return result


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="*", choices=list(FRAMES), default=list(FRAMES))
    parser.add_argument("--cone", nargs="*", choices=CONES, default=list(CONES))
    parser.add_argument("--actions", type=int, default=200)
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--page", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    lines = [
        "# Many steps under MuJoCo's law, and derivatives, beside MuJoCo's",
        "",
        f"`python -m benchmarks.mujoco_motion`, MuJoCo {mujoco.__version__}, float64, both engines converged.",
        "",
        f"Gymnasium's robots under random actions, {arguments.actions} of them. *parts*: first physics step with positions or velocities more than",
        f"{PARTED:g} apart, of max(1, |x|); the number of steps if there is none. MuJoCo's second trajectory starts {MOVED:g} away.",
        "",
        "| robot | integrator | physics steps | MuJoCo parts from itself | ours parts | worst in 100 steps | passes |",
        "|" + "---|" * 7,
    ]
    for name in arguments.robots:
        for kind in INTEGRATORS:
            try:
                t = trajectory(name, kind, actions=arguments.actions)
                cells = [len(t.ours), t.parted(t.own), t.parted(t.ours), f"{t.ours[:100].max():.1e}", t.passes]
            except Exception as error:  # a line of the table
                cells = [f"{type(error).__name__}: {error}", "", "", "", ""]
            own = " (the file's)" if kind == robot(name).opt.integrator else ""
            cells = [name, INTEGRATORS[kind][6:] + own, *cells]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
    lines += [
        "",
        "`sim.linearize` beside `mjd_transitionFD` (centered; the limit of the quotients of steps 1e-6 and 4e-6), MuJoCo's Euler, at states with",
        "contact. A, B: worst differences, relative to the largest entry. *quotients*: the difference between both steps.",
        "",
    ]
    lines += ["| robot | cone | states | compared | A | B | quotients |", "|" + "---|" * 7]
    for name in arguments.robots:
        for cone in arguments.cone:
            m = robot(name)
            m.opt.integrator = 0
            states = contact_states(m, arguments.states)
            if states is None:
                continue
            try:
                r = gradient_errors(m, states, cone)
                cells = [r["states"], r["compared"], *(f"{r[x]:.1e}" for x in ("A", "B", "quotients"))]
            except Exception as error:  # a line of the table
                cells = [f"{type(error).__name__}: {error}", "", "", "", ""]
            lines.append(f"| {name} | {cone} | " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
    if arguments.page:
        arguments.page.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
