# SPDX-License-Identifier: Apache-2.0
"""Small scenes for `figures.py`: the spring-cylinder of §VI-B (Figs. 5 to 7), and what the convex model gets wrong.

The second part is not in the paper: a body that slides hovers (its gliding artefact), and a light body under a heavy
one sinks. The default, Coulomb's law with `supported_load`, does neither: "lagged" and "supported load" below.
"""

import numpy as np

import warpsim as ws
from scenes.examples import SpringCylinder

SCHEMES = {
    "symplectic Euler": ws.SymplecticEuler(),
    "midpoint": ws.Midpoint(),
    "implicit Euler": ws.ImplicitEuler(),
}
COARSE = 0.02  # [s] of Figs. 5 and 6
BANDS = 100
FEW_PERIODS = 3.0  # [s] shown on the left of Figs. 5 and 6
STEPS = [0.02 / 2**k for k in range(8)]  # [s] of Fig. 7
DURATION = 5.0  # [s] of Fig. 7

RADIUS = 0.05  # [m] of the balls below
MASS = 1.0  # [kg]
SPEED = 1.0  # [m/s]
SLIDING, PRESSED = 0.5, 3.0  # [s]
CONVEX = ws.SAP(approximation="convex")
HOVER = {"convex": CONVEX, "lagged": ws.SAP()}
LOAD = {"convex": CONVEX, "supported load": ws.SAP()}


def run_cylinder(mu: float, scheme: str, h: float, seconds: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Times (rows,), energy relative to the start (rows,), error of x over the run [m]."""
    scene = SpringCylinder(mu)
    options = {"integrator": SCHEMES[scheme], "solver": ws.SAP(approximation="convex", tolerance=1e-12)}
    sim = ws.Simulator(scene.model(), dt=h, dtype="float64", device="cpu", **options)
    run = sim.rollout(sim.state(scene.at_rest), steps=round(seconds / h))
    q, v, t = run.q.numpy()[:, 0], run.v.numpy()[:, 0], run.time.numpy()[:, 0]
    energy = scene.energy(q, v)
    return t, energy / energy[0], scene.error(q, t)


def energies(seconds: float) -> tuple[list[dict], list[dict]]:
    """Figs. 5 and 6: energy over a few periods, its extremes in each of `BANDS` parts of the run; and a summary."""
    rows, summary = [], []
    for mu in (0.0, 1.0):
        for scheme in SCHEMES:
            t, energy, _ = run_cylinder(mu, scheme, COARSE, seconds)
            few = t <= FEW_PERIODS
            kept = [("few", *pair) for pair in zip(t[few], energy[few], strict=True)]
            for part in np.array_split(np.arange(len(t)), BANDS):
                at = part[[np.argmin(energy[part]), np.argmax(energy[part])]]
                kept += [("long", t[i], energy[i]) for i in sorted(at)]
            rows += [{"mu": mu, "scheme": scheme, "range": r, "time": a, "energy": e} for r, a, e in kept]
            last = t > t[-1] - FEW_PERIODS
            summary.append({
                "mu": mu, "scheme": scheme, "lowest": float(energy[few].min()), "highest": float(energy[few].max()),
                "seconds": seconds, "mean_at_end": float(energy[last].mean()),
                "mean_at_start": float(energy[few].mean()),
            })  # fmt: skip
    return rows, summary


def orders(steps: int) -> list[dict]:
    """Fig. 7: error of x over 5 s with friction, and the order from each step to its half."""
    rows = []
    for scheme in SCHEMES:
        before = None
        for h in STEPS[:steps]:
            error = run_cylinder(1.0, scheme, h, DURATION)[2]
            order = float(np.log2(before / error)) if before else float("nan")
            rows.append({"scheme": scheme, "h": h, "error": error, "order": order})
            before = error
    return rows


def _ball(b: ws.ModelBuilder, name: str, height: float, mass: float, **material) -> None:
    body = b.add_body(name, pose=[0.0, 0.0, height], mass=mass, inertia=[0.4 * mass * RADIUS**2] * 3)
    b.add_joint(body, "free")
    b.add_geom("sphere", [RADIUS], body=body, density=0.0, **material)


def hover(mu: float, h: float) -> dict:
    """Highest rise [m] of a ball set down at 1 m/s on a near-rigid floor, and its speed at the end, per approximation."""
    b = ws.ModelBuilder("sliding ball")
    b.add_geom("plane", friction=mu)
    _ball(b, "ball", RADIUS, MASS, friction=mu)
    row = {"mu": mu, "h": h}
    for name, solver in HOVER.items():
        sim = ws.Simulator(b.build(), dt=h, dtype="float64", device="cpu", solver=solver)
        path = sim.rollout(sim.state(v=[SPEED, 0, 0, 0, 0, 0]), steps=round(SLIDING / h))
        row[f"{name}_rise"] = float(path.q.numpy()[:, 0, 2].max() - RADIUS)
        row[f"{name}_speed"] = float(path.v.numpy()[-1, 0, 0])
    return row


def sink(ratio: float, h: float = 0.01) -> dict:
    """How far [m] a 1 kg ball sinks into the floor under one `ratio` times heavier, all near-rigid, per option."""
    b = ws.ModelBuilder("pressed ball")
    b.add_geom("plane", dissipation_time=h)
    for k, mass in enumerate((MASS, ratio * MASS)):
        _ball(b, f"ball_{k}", RADIUS * (2 * k + 1), mass, dissipation_time=h)
    row, steps = {"ratio": ratio, "h": h}, round(PRESSED / h)
    for name, solver in LOAD.items():
        sim = ws.Simulator(b.build(), dt=h, dtype="float64", device="cpu", solver=solver)
        height = sim.rollout(sim.state(), steps=steps, every=steps).q.numpy()[-1, 0, 2]
        row[name.replace(" ", "_")] = float(RADIUS - height)
    return row
