# SPDX-License-Identifier: Apache-2.0
"""What pressure fields cost in accuracy: force of spheres that are polyhedra, torsion by friction of polygons and of patches as points.

    python -m benchmarks.pressure_patches [--out benchmarks/results/pressure_patches.md]

Spheres: mean elastic force over orientations on rigid ground beside that of the exact ball, F = π E (a² − (2/3R)(R³ − s³)) with s = R − d, a² = R² − s².
Torsion: ∫ p |y − y_p| dA over ∫ p dA [mm] of a bubble on the handle (`scenes.pressure`), of the polygons' pressure and of the points that stand for it.
Slip: how far the spatula turns from 4.5 s, when the grip goes from 16 to 1 N, to 6.4 s, when it is held again.
docs/hydroelastic.md and docs/hydroelastic_drake.md explain the numbers. A minute.
"""

import argparse
import pathlib

import numpy as np
import warp as wp

import warpsim as ws
from scenes import pressure as scenes
from warpsim.files.patch_frames import triangles_of
from warpsim.tools.bench import machine

RADIUS, MODULUS = 0.05, 1e5
RESOLUTIONS, DEPTHS, TURNS = (0.025, 0.01, 0.005, 0.0025), (0.001, 0.002, 0.005, 0.01, 0.02), 20
BUBBLES, LEVELS = (0.04, 0.02, 0.01), ("polygons", "patch16", "patch5", "patch4")
SETTLED, INSTANT = 300, 1e-6  # steps of 5 ms; [s] of the step that reads elastic forces


def ball_force(depth: float) -> float:
    s = RADIUS - depth
    return np.pi * MODULUS * (RADIUS**2 - s**2 - 2 / (3 * RADIUS) * (RADIUS**3 - s**3))


def spheres() -> list[str]:
    rng = np.random.default_rng(0)
    turns = rng.normal(size=(TURNS, 4))
    lines = ["| edge [mm] | facets | " + " | ".join(f"d = {1e3 * d:g} mm" for d in DEPTHS) + " |", "|---" * 7 + "|"]
    for resolution in RESOLUTIONS:
        model = scenes.drop(("sphere", RADIUS), MODULUS, resolution, 0.5, ("half_space", None, None), 0.3, 0.02)
        sim = ws.Simulator(model, TURNS, dtype="float64", max_polygons=4096)
        row = []
        for depth in DEPTHS:
            q = np.concatenate([np.tile([0.0, 0.0, RADIUS - depth], (TURNS, 1)), turns], axis=1)
            state = sim.state(q)
            found = [sum(p.force[2] for p in sim.contact_patches(w, state)) for w in range(TURNS)]
            row.append(f"{100 * (np.mean(found) / ball_force(depth) - 1):+.1f} %")
        level = int(np.ceil(np.log2(np.pi / np.arcsin(resolution / (2 * RADIUS))) - 2))
        lines.append(f"| {1e3 * resolution:g} | {8 * 4**level} | " + " | ".join(row) + " |")
    return lines


def arm(points, force, axis) -> float:
    """Σ f |y − y_p| / Σ f across the axis."""
    r = points - (force[:, None] * points).sum(axis=0) / force.sum()
    r -= np.outer(r @ axis, axis)
    return float((force * np.linalg.norm(r, axis=1)).sum() / force.sum())


def exact_arm(patch, axis, halvings: int = 3) -> float:
    x, p = triangles_of([patch])
    for _ in range(halvings):
        (a, b, c), (s, t, u) = x.swapaxes(0, 1), p.T
        parts = ((a, (a + b) / 2, (a + c) / 2), ((a + b) / 2, b, (b + c) / 2), ((a + c) / 2, (b + c) / 2, c))
        parts += (((a + b) / 2, (b + c) / 2, (a + c) / 2),)
        values = ((s, (s + t) / 2, (s + u) / 2), ((s + t) / 2, t, (t + u) / 2), ((s + u) / 2, (t + u) / 2, u))
        values += (((s + t) / 2, (t + u) / 2, (s + u) / 2),)
        x, p = (np.concatenate([np.stack(part, axis=1) for part in which]) for which in (parts, values))
    area = np.linalg.norm(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]), axis=1) / 2
    return arm(x.mean(axis=1), area * p.mean(axis=1), axis)


def torsion() -> list[str]:
    lines = ["| grip [N] | bubbles' edge [mm] | polygons | exact | " + " | ".join(LEVELS) + " |", "|---" * 8 + "|"]
    for grip in (1.0, 16.0):
        for resolution in BUBBLES:
            model = scenes.spatula_gripper(bubble=(1e5, resolution))
            sim = ws.Simulator(model, dt=0.005, dtype="float64", hydroelastic="polygons", max_polygons=4096)
            controls = np.tile([grip, -grip], (SETTLED, 1, 1))
            q = sim.rollout(sim.state(scenes.spatula_start(model)), controls).final.q.numpy()
            row = []
            for level in LEVELS:
                sim = ws.Simulator(model, dt=INSTANT, dtype="float64", hydroelastic=level, max_polygons=4096)
                sim.step(sim.state(q))
                patch, contacts = sim.contact_patches()[0], sim.last_contacts
                own = (contacts.geoms[0] == patch.geoms).all(axis=1)
                axis = patch.elastic_force / np.linalg.norm(patch.elastic_force)
                row.append(1e3 * arm(contacts.point[0][own], contacts.impulse[0][own, 2], axis))
            exact = 1e3 * exact_arm(patch, axis)
            cells = [f"{x:.2f} ({100 * (x / exact - 1):+.0f} %)" for x in row]
            lines.append(
                f"| {grip:g} | {1e3 * resolution:g} | {len(patch.vertices)} | {exact:.2f} | " + " | ".join(cells) + " |"
            )
    return lines


def slip() -> list[str]:
    lines = ["| bubbles' edge [mm] | " + " | ".join(LEVELS) + " |", "|---" * 5 + "|"]
    controls = scenes.grip(0.005 * np.arange(1280))
    for resolution in BUBBLES:
        model, row = scenes.spatula_gripper(bubble=(1e5, resolution)), []
        for level in LEVELS:
            sim = ws.Simulator(model, dt=0.005, dtype="float64", hydroelastic=level, max_polygons=2048)
            start = sim.state(scenes.spatula_start(model))
            q = sim.rollout(start, np.stack([controls, -controls], axis=-1)[:, None]).q.numpy()[:, 0]
            row.append(np.degrees(np.diff(scenes.pitch(q[[900, 1280]])))[0])
        cells = [f"{x:.2f} ({100 * (x / row[0] - 1):+.0f} %)" for x in row]
        lines.append(f"| {1e3 * resolution:g} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path)
    out = parser.parse_args().out
    facts = machine(wp.get_device("cpu"))
    where = f"{facts['date']}, Warp {facts['versions']['warp-lang']}"
    parts = ["# Patches of pressure fields", "", f"`python -m benchmarks.pressure_patches`, float64, CPU; {where}.", ""]
    parts += [f"Force of a sphere of {1e3 * RADIUS:g} mm as a polyhedron, beside the ball's:", "", *spheres(), ""]
    parts += ["Torsion by friction over μ N [mm] of a bubble on the handle:", "", *torsion(), ""]
    parts += ["Turn of the spatula in the first loose phase [°]:", "", *slip(), ""]
    text = "\n".join(parts)
    print(text)
    if out:
        out.write_text(text)


if __name__ == "__main__":
    main()
