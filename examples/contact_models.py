# SPDX-License-Identifier: Apache-2.0
"""One scene under three contact models: SAP (compliant; its paper's convex friction and Coulomb's), Compliant (springs, solved in the impulses), LCP (rigid).

    python -m examples.contact_models

A box slides to rest, four boxes stand on each other, a heavy box stands on a light one, a ball spins. The table shows what
each model makes of it after 2 s of 5 ms steps; `docs/contact_models.md` says which to choose.
"""

import time

import numpy as np

import warpsim as ws

MU, SPEED, SIDE, STEPS, H = 0.4, 2.0, 0.1, 400, 0.005
SOLVERS = {
    "SAP, convex": ws.SAP(approximation="convex"),
    "SAP": ws.SAP(),
    "Compliant": ws.Compliant(),
    "LCP": ws.LCP(),
}


def scene() -> ws.Model:
    """The bodies of the table: slider, stack0 … stack3, light and heavy, ball."""
    b = ws.ModelBuilder("contact models")
    b.add_geom("plane", name="floor", friction=MU)

    def box(name: str, x: float, z: float, density: float = 500.0) -> None:
        b.add_body(name, pose=[x, 0.0, z])
        b.add_joint(name, "free", name=name)
        b.add_geom("box", [SIDE / 2] * 3, body=name, density=density, friction=MU)

    box("slider", 0.0, SIDE / 2)
    for i in range(4):
        box(f"stack{i}", -1.0, SIDE * (i + 0.5))
    box("light", -2.0, SIDE / 2)
    box("heavy", -2.0, 1.5 * SIDE, density=50_000.0)
    b.add_body("ball", pose=[-4.0, 0.0, SIDE / 2])
    b.add_joint("ball", "free", name="ball")
    b.add_geom("sphere", [SIDE / 2], body="ball", density=500.0, friction=MU)
    return b.build()


def measure(model: ws.Model, solver) -> dict[str, float]:
    """What the table shows of one solver."""
    sim = ws.Simulator(model, dt=H, solver=solver, dtype="float64")
    v = np.zeros(model.nv)

    def columns(name: str) -> tuple[slice, slice]:
        return model.joint_coordinates(name)

    v[columns("slider")[1].start] = SPEED
    v[columns("ball")[1].start + 4] = 40.0  # about y, rolls towards +x once it grips
    state = sim.state(v=v)
    sim.rollout(state, steps=4)  # compiles
    start = time.process_time()
    trajectory = sim.rollout(state, steps=STEPS)
    seconds = time.process_time() - start
    q, v_end = trajectory.q.numpy()[:, 0], trajectory.v.numpy()[-1, 0]
    slider, stack = columns("slider")[0].start, [columns(f"stack{i}") for i in range(4)]
    heights = np.array([q[-1, c[0].start + 2] for c in stack])
    potential = sim.energy(sim.state(trajectory.q.numpy()[-1], trajectory.v.numpy()[-1]))
    return {
        "sliding distance [m]": q[-1, slider],
        "largest height of the sliding box [mm]": 1e3 * (q[:, slider + 2].max() - SIDE / 2),
        "stack sinks [µm]": 1e6 * (SIDE * (np.arange(4) + 0.5) - heights).max(),
        "stack creeps [m/s]": max(np.hypot(*v_end[c[1].start : c[1].start + 2]) for c in stack),
        "light box sinks [µm]": 1e6 * (SIDE / 2 - q[-1, columns("light")[0].start + 2]),
        "final speed of the ball [m/s]": v_end[columns("ball")[1].start],
        "final energy of all bodies [J]": sum(float(x.numpy()[0]) for x in potential),
        "momentum error": float(trajectory.diagnostics["momentum_error"].numpy().max()),
        "iterations per step": float(trajectory.diagnostics["iterations"].numpy().mean()),
        "µs per step": 1e6 * seconds / STEPS,
        "flags": int(trajectory.diagnostics["flags"].numpy().max()),
    }


def main() -> None:
    """Print the table, rows by quantity."""
    model = scene()
    found = {name: measure(model, solver) for name, solver in SOLVERS.items()}
    exact = {
        "sliding distance [m]": SPEED**2 / (2 * MU * 9.81),
        "largest height of the sliding box [mm]": 0.0,
        "final speed of the ball [m/s]": 2 / 7 * 40.0 * SIDE / 2,
    }
    print("| | " + " | ".join(found) + " | rigid Coulomb |\n" + "|---" * (len(found) + 2) + "|")
    for key in next(iter(found.values())):
        cells = [f"{row[key]:.3g}" for row in found.values()]
        print(
            f"| {key} | " + " | ".join(cells) + f" | {exact[key]:.3g} |"
            if key in exact
            else f"| {key} | " + " | ".join(cells) + " | |"
        )


if __name__ == "__main__":
    main()
