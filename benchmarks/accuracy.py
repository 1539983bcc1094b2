# SPDX-License-Identifier: Apache-2.0
"""Accuracy in numbers: dynamics against MuJoCo, SAP against recorded problems, contact against theory, gradients.

    python -m benchmarks.accuracy [--out benchmarks/results/accuracy.md]

Prints one table of what was measured beside what is asked for. The tests assert the same facts one by one.
"""

import argparse
import pathlib
import sys

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import asset

REFERENCE = pathlib.Path(__file__).parents[1] / "tests" / "reference" / "data"
ROBOTS = ("ant", "humanoid", "half_cheetah", "hopper", "walker2d", "swimmer")
INCLINE = {0.0: "1.282", 0.125: "0.684", 0.25: "0.0935", 0.375: "< 1e-3"}


def dynamics(dtype: str, states: int = 100) -> dict[str, float]:
    """Worst errors against MuJoCo over all robots: poses absolute, the others relative to the largest entry."""
    import mujoco

    worst = dict.fromkeys(("poses", "mass matrix", "bias", "RNEA", "ABA"), 0.0)
    for robot in ROBOTS:
        m = mujoco.MjModel.from_xml_path(asset(robot))
        data, model, rng = mujoco.MjData(m), ws.load(m), np.random.default_rng(0)
        q = np.tile(m.qpos0, (states, 1))
        for row in q:
            mujoco.mj_integratePos(m, row, rng.normal(size=m.nv), 1.0)
        v, a = (rng.normal(size=(states, m.nv)).astype(dtype) for _ in range(2))
        q = q.astype(dtype)
        sim = ws.Simulator(model, worlds=states, dtype=dtype, device="cpu")
        poses, M = sim.kinematics(q).numpy(), sim.mass_matrix(q).numpy()
        bias, rnea = sim.inverse_dynamics(q, v, 0 * a).numpy(), sim.inverse_dynamics(q, v, a).numpy()
        for i in range(states):
            data.qpos[:], data.qvel[:] = q[i], v[i]
            mujoco.mj_forward(m, data)
            data.qacc[:] = a[i]
            full, inverse = np.zeros((m.nv, m.nv)), np.zeros(m.nv)
            mujoco.mj_fullM(m, data, full)
            mujoco.mj_rne(m, data, 1, inverse)
            inverse += m.dof_armature * a[i]
            quaternion = poses[i, :, 3:] * np.sign(np.sum(poses[i, :, 3:] * data.xquat[1:], axis=1))[:, None]
            errors = {
                "poses": max(np.abs(poses[i, :, :3] - data.xpos[1:]).max(), np.abs(quaternion - data.xquat[1:]).max()),
                "mass matrix": _relative(M[i], full),
                "bias": _relative(bias[i], data.qfrc_bias),
                "RNEA": _relative(rnea[i], inverse),
            }
            worst.update({key: max(worst[key], value) for key, value in errors.items()})
        tau = rng.normal(size=(states, m.nv)).astype(dtype)
        forward = sim.forward_dynamics(q, v, tau).numpy()
        for i in range(states):
            data.qpos[:], data.qvel[:] = q[i], v[i]
            mujoco.mj_forward(m, data)
            exact = np.zeros((1, m.nv))
            mujoco.mj_solveM(m, data, exact, (tau[i].astype(float) - data.qfrc_bias)[None])
            full = np.zeros((m.nv, m.nv))
            mujoco.mj_fullM(m, data, full)
            error = forward[i] - exact[0]
            worst["ABA"] = max(worst["ABA"], np.sqrt(error @ full @ error / (exact[0] @ full @ exact[0])))
    return worst


def _relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def recorded_problems(dtype: str, tolerance: float | None) -> tuple[float, int]:
    """Worst relative error in v over the recorded contact problems, and how many did not converge."""
    groups: dict[str, dict] = {}
    with np.load(REFERENCE / "contact_problems.npz") as data:
        for key in data:
            scene, field = key.rsplit("/", 1)
            groups.setdefault(scene, {})[field] = data[key]
    worst, flagged = 0.0, 0
    for g in groups.values():
        v_hat = np.zeros((len(g["mu"]), 3))
        v_hat[:, 2] = g["vhat_n"]
        R = np.stack([g["Rt"], g["Rt"], g["Rn"]], axis=1)
        problem = ws.ContactProblem(g["A"], g["J"], g["v_star"], g["mu"], R=R, v_hat=v_hat, v0=g["v0"])
        solution = ws.solve_contact(problem, solver=ws.SAP(tolerance=tolerance), dtype=dtype)
        worst = max(worst, float(np.linalg.norm(solution.v[0] - g["v"]) / np.linalg.norm(g["v"])))
        flagged += int(solution.flags[0] != 0)
    return worst, flagged


def incline(mu: float, h: float = 0.01) -> float:
    """Distance that a 1 m box slides in 1 s on a 15 degree incline (k = 1e10 N/m, tau_d = h)."""
    angle = np.radians(15.0)
    b = ws.ModelBuilder("incline", gravity=(9.81 * np.sin(angle), 0.0, -9.81 * np.cos(angle)))
    b.add_geom("plane", friction=mu, dissipation_time=h)
    box = b.add_body("box", pose=[0, 0, 0.5])
    b.add_joint(box, "free")
    b.add_geom("box", [0.5, 0.5, 0.5], body=box, density=8.0, friction=mu, stiffness=1e10, dissipation_time=h)
    sim = ws.Simulator(b.build(), dt=h, dtype="float64", device="cpu")
    return float(sim.rollout(sim.state(), steps=round(1.0 / h)).final.q.numpy()[0, 0])


def dropped_box() -> tuple[float, float]:
    """A near-rigid box dropped from 1 m at h = 0.01: rebound [m], and impulse before it touches [N s]."""
    b = ws.ModelBuilder("drop")
    b.add_geom("plane")
    box = b.add_body("box", pose=[0, 0, 1.1])
    b.add_joint(box, "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body=box)
    sim = ws.Simulator(b.build(), dt=0.01, dtype="float64", device="cpu")
    state, touched, rebound, early = sim.state(), False, 0.0, 0.0
    for _ in range(200):
        sim.step(state, out=state)
        height = state.q.numpy()[0, 2] - 0.1
        impulse = np.abs(sim.last_contacts.impulse).sum()
        if touched:
            rebound = max(rebound, height)
        elif height > 1e-4:
            early = max(early, impulse)
        touched = touched or impulse > 0
    return rebound, early


def at_rest(robot: str, dtype: str) -> dict[str, float]:
    """A robot dropped without actuation for 10 s: worst certificate, flags, final penetration [m] and speed [m/s]."""
    sim = ws.Simulator(ws.load(asset(robot)), dt=0.005, dtype=dtype, device="cpu")
    trajectory = sim.rollout(sim.state(), steps=2000)
    return {
        "e_m": float(trajectory.diagnostics["momentum_error"].numpy().max()),
        "flags": int(trajectory.diagnostics["flags"].numpy().max()),
        "penetration": float(-min(sim.last_contacts.phi.min(initial=0.0), 0.0)),
        "speed": float(np.abs(trajectory.final.v.numpy()).max()),
    }


def report(write) -> None:
    """Measure everything; `write(what, asked, measured)` takes one row at a time."""
    for dtype, asked in (("float64", "1e-10 poses, 1e-9"), ("float32", "1e-4")):
        worst = dynamics(dtype)
        write(f"against MuJoCo, {dtype}", asked, ", ".join(f"{key} {value:.1e}" for key, value in worst.items()))
    for dtype, tolerance, asked in (("float64", None, "1e-6"), ("float32", 1e-6, "1e-5"), ("float32", None, "")):
        worst, flagged = recorded_problems(dtype, tolerance)
        label = "default tolerance" if tolerance is None else f"tolerance {tolerance:g}"
        write(f"59 recorded problems, {dtype}, {label}", asked, f"{worst:.1e}, {flagged} not converged")
    for mu, asked in INCLINE.items():
        write(f"incline, mu = {mu:g}: x after 1 s [m]", asked, f"{incline(mu):.5f}")
    rebound, early = dropped_box()
    write("dropped box: rebound [m], impulse before touching [N s]", "0, 0", f"{rebound:.1e}, {early:.1e}")
    for robot in ("ant", "humanoid"):
        for dtype in ("float32", "float64"):
            r = at_rest(robot, dtype)
            text = (
                f"e_m {r['e_m']:.1e}, flags {r['flags']}, penetration {r['penetration']:.1e} m, speed {r['speed']:.1e}"
            )
            write(f"{robot} dropped, 10 s, {dtype}", "e_m <= tolerance, no flag, < 1e-3 m", text)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, help="also write the table to this Markdown file")
    arguments = parser.parse_args()
    wp.config.quiet = True
    lines = ["| what | asked | measured |", "|---|---|---|"]

    def write(*row: str) -> None:
        lines.append("| " + " | ".join(row) + " |")
        print(lines[-1], flush=True)

    report(write)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
