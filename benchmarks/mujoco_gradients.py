# SPDX-License-Identifier: Apache-2.0
"""Derivatives under MuJoCo's law: beside `mjd_transitionFD`, beside coarse differences, and in float32.

    python -m benchmarks.mujoco_gradients [--corpus FOLDER …] [--only TEXT …] [--states 10] [--part fd coarse float32] [--page FILE]

- fd: `sim.linearize` beside MuJoCo's centered differences with Euler and implicitfast, both cones, at states where the quotients of
  two step sizes agree, so that no row changes its branch between them. Gymnasium's robots, or the files of --corpus.
- coarse: the tape's derivative of the place where something ends, by the friction, over the central difference of 3 % of the friction
  to either side (`benchmarks.useful_gradients`), at the time step given and at finer ones.
- float32: gradients of a rollout on ant and hopper in float32 beside float64's.
"""

import argparse
import pathlib
import sys
import warnings

import mujoco
import numpy as np
import warp as wp

import warpsim as ws
from benchmarks import useful_gradients as useful
from benchmarks.corpus.files import compiled, corpus_files, outside
from benchmarks.corpus.starts import random_states
from benchmarks.gradient_grid import LAW_SOLVERS
from benchmarks.mujoco_contacts import contact_states, gymnasium_files
from benchmarks.mujoco_law import CONES, joined
from benchmarks.mujoco_motion import gradient_errors

INTEGRATORS = {"Euler": mujoco.mjtIntegrator.mjINT_EULER, "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST}
BAR = 1e-5


def beside_differences(files, cones, count: int) -> list[str]:
    """The table of part fd."""
    head = ["file", "integrator", "cone", "states", "compared", "A", "B", "quotients"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    worst, compared = 0.0, 0
    for file in files:
        m = compiled(str(file.path))
        if isinstance(m, str) or outside(m) or not m.nv:
            continue
        states = joined(contact_states(m, count), random_states(m, 4))
        for (name, kind), cone in ((i, c) for i in INTEGRATORS.items() for c in cones):
            m = compiled(str(file.path))
            m.opt.integrator = kind
            try:
                r = gradient_errors(m, states, cone)
                errors = (f"{r[x]:.1e}" if r["compared"] else "–" for x in ("A", "B", "quotients"))
                cells = [r["states"], r["compared"], *errors]
                worst, compared = max(worst, r["A"], r["B"]), compared + r["compared"]
            except (ws.ModelError, ValueError, NotImplementedError, mujoco.FatalError) as error:
                cells = [f"{type(error).__name__}: {str(error).splitlines()[0][:100]}", "", "", "", ""]
            lines.append(f"| {file.package}/{file.name} | {name} | {cone} | " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
    return [f"{compared} states compared, worst {worst:.1e} (bar {BAR:g}).", "", *lines]


def beside_coarse(steps: tuple[float, ...]) -> list[str]:
    """The table of part coarse."""
    head = ["scene", "cone", "time step", "tape / coarse − 1, median", "worst", "within 10 %", "trusted"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    speeds, frictions = np.array([0.3, 1.0, 2.0]), useful.FRICTIONS[::2]
    grid = np.repeat(speeds, len(frictions)), np.tile(frictions, len(speeds))
    for cone, solver in LAW_SOLVERS.items():
        for name in ("sliding box", "thrown ball", "ant's feet"):
            for h in steps:
                scene = useful.scenes(solver)[name]()
                scene.steps = round(scene.steps * useful.DT / h)
                found = useful.places(scene, solver, grid[1], grid[0], dt=h)
                error = np.abs(found["tape"] / found["coarse"] - 1)
                cells = [
                    f"{np.median(error):.1e}",
                    f"{error.max():.1e}",
                    f"{np.mean(error < 0.1):.0%}",
                    f"{found['trusted'].mean():.0%}",
                ]
                lines.append(f"| {name} | {cone} | {h:g} | " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
    return lines


@wp.kernel
def weigh(x: wp.array2d(dtype=wp.float64), a: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    """loss += a · x."""
    w, i = wp.tid()
    wp.atomic_add(loss, 0, a[i] * x[w, i])


def rollout_gradient(robot: str, cone: str, dtype: str, steps: int) -> dict[str, np.ndarray]:
    """Gradients of a random linear function of the last velocity."""
    model = ws.load(ws.robots.path(robot))
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    sim = ws.Simulator(
        model, 1, dtype=dtype, device="cpu", requires_grad=True, integrator=ws.MuJoCoEuler(),
        solver=ws.MuJoCo(cone=cone, tolerance=tolerance),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    rest = ws.Simulator(
        model, 1, dtype="float64", device="cpu", integrator=ws.MuJoCoEuler(), solver=ws.MuJoCo(cone=cone)
    )
    rest = rest.rollout(rest.state(), steps=300).final
    q, v = rest.q.numpy(), rest.v.numpy() + 0.05 * rng.normal(size=(1, model.nv))
    controls = wp.array(
        rng.uniform(-0.3, 0.3, size=(1, model.nu)), dtype=sim.device_model.types.real, device="cpu", requires_grad=True
    )
    for name in ("body_mass", "geom_friction", "geom_solref"):
        sim.parameters[name]
    weights = wp.array(rng.normal(size=(1, model.nv)), dtype=sim.device_model.types.real, device="cpu")
    with wp.Tape() as tape:
        state = begin = sim.state(q, v)
        for _ in range(steps):
            state = sim.step(state, controls)
    tape.backward(grads={state.v: weights})
    found = {"q": begin.q.grad, "v": begin.v.grad, "control": controls.grad}
    found |= {name: sim.parameters[name].grad for name in ("body_mass", "geom_friction", "geom_solref")}
    return {name: x.numpy().astype(float) for name, x in found.items()}


def in_float32(steps: tuple[int, ...] = (1, 10, 40)) -> list[str]:
    """The table of part float32."""
    names = ("q", "v", "control", "body_mass", "geom_friction", "geom_solref")
    lines = ["| robot | cone | steps | " + " | ".join(names) + " |", "|" + "---|" * (3 + len(names))]
    for robot, cone, n in ((r, c, n) for r in ("ant", "hopper") for c in CONES for n in steps):
        single, double = (rollout_gradient(robot, cone, dtype, n) for dtype in ("float32", "float64"))
        cells = []
        for name in names:
            finite = np.isfinite(single[name]).all()
            error = np.abs(single[name] - double[name]).max() / max(np.abs(double[name]).max(), 1e-12)
            cells.append(f"{error:.1e}" if finite else "not finite")
        lines.append(f"| {robot} | {cone} | {n} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", nargs="*", type=pathlib.Path, default=[])
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--cone", nargs="*", choices=CONES, default=list(CONES))
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--part", nargs="*", choices=["fd", "coarse", "float32"], default=["fd", "coarse", "float32"])
    parser.add_argument("--steps", nargs="*", type=float, default=[0.005, 0.001], help="time steps of part coarse [s]")
    parser.add_argument("--page", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    files = corpus_files(arguments.corpus) if arguments.corpus else gymnasium_files()
    files = [f for f in files if not arguments.only or any(word in f"{f.package}/{f.name}" for word in arguments.only)]
    lines = ["# Derivatives under MuJoCo's law", ""]
    if "fd" in arguments.part:
        lines += ["## Beside mjd_transitionFD", "", *beside_differences(files, arguments.cone, arguments.states), ""]
    if "coarse" in arguments.part:
        lines += ["## Beside differences of 3 % of the friction", "", *beside_coarse(tuple(arguments.steps)), ""]
    if "float32" in arguments.part:
        lines += ["## float32 beside float64, relative to the largest entry", "", *in_float32(), ""]
    if arguments.page:
        arguments.page.write_text("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
