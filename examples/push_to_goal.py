# SPDX-License-Identifier: Apache-2.0
"""Push a box to a goal with an arm: controls found with the gradients of MuJoCo's law, then replayed in MuJoCo.

    python -m examples.push_to_goal [--cone pyramidal elliptic] [--knots 40]

`ws.ilqr` plans the torques of a two-link arm, each knot of ten physics steps. MuJoCo then runs the file with those torques,
and the cost of its motion is compared with that of ours.
"""

import argparse
import time

import mujoco
import numpy as np

import warpsim as ws

SUBSTEPS = 10
GOALS = np.array([[0.60, 0.30], [0.55, 0.35], [0.65, 0.20]])  # of the box, a world each
SCENE = """<mujoco><option timestep="0.002" integrator="implicitfast" tolerance="1e-14" iterations="200" ls_tolerance="1e-8" cone="CONE"/>
<worldbody><geom type="plane" size="3 3 0.1" friction="0.4"/>
<body name="upper" pos="0 0 0.05"><joint name="shoulder" axis="0 0 1" damping="0.2"/>
 <geom type="capsule" size="0.02" fromto="0 0 0.08 0.3 0 0.08" mass="0.5" contype="0" conaffinity="0"/>
 <body name="lower" pos="0.3 0 0"><joint name="elbow" axis="0 0 1" damping="0.2"/>
  <geom type="capsule" size="0.02" fromto="0 0 0.08 0.25 0 0.08" mass="0.3" contype="0" conaffinity="0"/>
  <geom name="tip" type="sphere" pos="0.25 0 -0.01" size="0.02" mass="0.1" friction="0.4"/></body></body>
<body name="box" pos="0 0 0.05"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/>
 <joint axis="0 0 1"/><geom type="box" size="0.05 0.05 0.05" mass="0.3" friction="0.4"/></body>
</worldbody><actuator><motor joint="shoulder" ctrlrange="-4 4" ctrllimited="true"/><motor joint="elbow" ctrlrange="-4 4" ctrllimited="true"/>
</actuator></mujoco>"""
Q0 = np.array([-0.36, 1.49, 0.45, 0.2, 0.0, 0.0])  # the tip just off the box


def tip(q: np.ndarray) -> np.ndarray:
    """The place of the arm's tip in the plane."""
    a, b = q[..., 0], q[..., 0] + q[..., 1]
    return np.stack([0.3 * np.cos(a) + 0.25 * np.cos(b), 0.3 * np.sin(a) + 0.25 * np.sin(b)], axis=-1)


def make_cost(goals: np.ndarray) -> ws.Cost:
    """The box at its goal and at rest in the end, small torques, the tip near the box."""

    def running(q, v, u):
        return np.concatenate([0.02 * u, 0.3 * (tip(q) - q[..., 2:4]), 0.5 * (q[..., 2:4] - goals)], axis=-1)

    def terminal(q, v):
        return np.concatenate([30.0 * (q[..., 2:4] - goals), 2.0 * v[..., 2:4], 0.3 * v[..., :2]], axis=-1)

    return ws.Cost(running, terminal)


def replay(m: mujoco.MjModel, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """MuJoCo's q and v `(knots + 1, worlds, n)`."""
    q, v = [], []
    for w in range(controls.shape[1]):
        d = mujoco.MjData(m)
        d.qpos[:] = Q0
        rows = [(d.qpos.copy(), d.qvel.copy())]
        for control in controls[:, w]:
            d.ctrl[:] = control
            for _ in range(SUBSTEPS):
                mujoco.mj_step(m, d)
            rows.append((d.qpos.copy(), d.qvel.copy()))
        q.append([row[0] for row in rows])
        v.append([row[1] for row in rows])
    return np.moveaxis(q, 0, 1), np.moveaxis(v, 0, 1)


def plan(cone: str, knots: int, iterations: int = 60):
    """The plan, the costs of MuJoCo's motion under its controls, and how far the boxes end from their goals."""
    m = mujoco.MjModel.from_xml_string(SCENE.replace("CONE", cone))
    model, cost = ws.load(m), make_cost(GOALS)
    sim = ws.Simulator(
        model, len(GOALS), m.opt.timestep * SUBSTEPS, dtype="float64", device="cpu", requires_grad=True,
        solver=ws.MuJoCo(tolerance=1e-12),
    )  # fmt: skip
    guess = np.zeros((knots, len(GOALS), 2))
    guess[:, :, 0] = 0.3
    found = ws.ilqr(sim, sim.state(Q0), guess, cost, iterations=iterations, tolerance=1e-4, substeps=SUBSTEPS)
    q, v = replay(m, found.controls)
    return found, cost.value(q, v, found.controls), np.linalg.norm(q[-1, :, 2:4] - GOALS, axis=-1)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cone", nargs="*", default=["pyramidal", "elliptic"], choices=["pyramidal", "elliptic"])
    parser.add_argument("--knots", type=int, default=40)
    arguments = parser.parse_args()
    for cone in arguments.cone:
        began = time.perf_counter()
        found, replayed, distance = plan(cone, arguments.knots)
        print(f"{cone}: {len(found.history) - 1} iterations, {time.perf_counter() - began:.0f} s")
        for w, cost in enumerate(found.cost):
            print(f"  goal {GOALS[w]}: cost {found.history[0, w]:.3f} -> {cost:.6f} ({found.status[w]}); MuJoCo's motion costs "
                  f"{replayed[w]:.6f}, relative difference {abs(replayed[w] / cost - 1):.1e}; box {1e3 * distance[w]:.1f} mm "
                  "from its goal", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
