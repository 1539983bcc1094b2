# SPDX-License-Identifier: Apache-2.0
"""Cost of `sim.linearize` beside central differences of the same step, in one process on one device.

    python -m benchmarks.linearize [--robots half_cheetah ant humanoid humanoid33] [--out benchmarks/results]

All Jacobians: A, B, by generalised forces and by body masses, in float64. Robots stand on the ground, controls and velocities
disturbed. The differences perturb every variable both ways; all perturbations of a state are the worlds of one simulator and
cost one replayed step of it (making the perturbed states and forming the quotients is not counted). Times are the least of
CPU seconds of the process, one thread on the CPU.
"""

import argparse
import pathlib
import time

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import asset
from scenes.step_differences import StepDifferences
from warpsim.tools.bench import machine

H = 0.005  # [s]
WORLDS = (1, 16, 256)
SETTLE = 200  # steps
NOISE = 0.02  # [m/s, rad/s] of the velocities
TOLERANCE = 1e-12  # differences of 1e-6 need it; the Jacobians take the same solutions
PARAMETERS = ("body_mass",)
JACOBIANS = 7  # dq'/dq, dq'/dv, dv'/dq, dv'/dv, and by controls, forces and masses
REPEATS = 20
SAMPLE = 0.05  # [s] of work per repeat
ROBOTS = ("half_cheetah", "ant", "humanoid", "humanoid33")
# Published times per Jacobian, one world on one core (Werling et al. 2021; Atlas has 33 dofs) [µs]; not measured here.
NIMBLE = {"half_cheetah": 134.0, "humanoid33": 10900.0}


def humanoid33() -> ws.Model:
    """A humanoid with the joints of Atlas: a free pelvis, 3 in the back, 6 per arm and per leg; servos; feet are boxes."""
    b = ws.ModelBuilder("humanoid33", timestep=H)
    b.add_geom("plane", name="floor", friction=0.8)
    b.add_body("pelvis", pose=[0, 0, 0.948])
    b.add_joint("pelvis", "free", name="root")
    b.add_geom("sphere", [0.12], body="pelvis", density=1200, contype=0, conaffinity=0)

    def limb(name, parent, parts):
        for i, (at, axis, radius, reach) in enumerate(parts):
            body = f"{name}{i}"
            b.add_body(body, parent=parent if i == 0 else f"{name}{i - 1}", pose=at)
            b.add_joint(body, "hinge", name=body, axis=axis, range=[-1.5, 1.5], damping=1.0, armature=0.05)
            middle = np.asarray(reach, float) / 2
            b.add_geom("sphere", [radius], body=body, pose=middle, density=1000, contype=0, conaffinity=0)
            b.add_actuator(body, "position", kp=300.0, kv=10.0, force_range=(-300.0, 300.0))

    X, Y, Z = np.eye(3)
    limb(
        "back",
        "pelvis",
        [([0, 0, 0.1], Z, 0.08, Z * 0), ([0, 0, 0.05], Y, 0.08, Z * 0), ([0, 0, 0.05], X, 0.17, Z * 0.35)],
    )
    for side, y in (("left", 1), ("right", -1)):
        reaches = [0, 0.1, 0.2, 0.15, 0.1, 0.1]
        origins = [[0, 0.22 * y, 0.35], *([0, r * y, 0] for r in reaches[:-1])]
        radii = [0.07, 0.08, 0.08, 0.07, 0.06, 0.05]
        arm = [(o, a, r, Y * y * x) for o, a, r, x in zip(origins, [Y, X] * 3, radii, reaches, strict=True)]
        limb(f"{side}_arm", "back2", arm)
        origins = [[0, 0.1 * y, -0.05], [0, 0, 0], [0, 0, 0], [0, 0, -0.42], [0, 0, -0.4], [0, 0, 0]]
        radii, reaches = [0.07, 0.06, 0.11, 0.1, 0.05, 0.05], [0, 0, 0.4, 0.38, 0, 0]
        leg = [(o, a, r, -Z * x) for o, a, r, x in zip(origins, [Z, X, Y, Y, Y, X], radii, reaches, strict=True)]
        limb(f"{side}_leg", "pelvis", leg)
        b.add_geom("box", [0.12, 0.06, 0.02], pose=[0.04, 0, -0.06], body=f"{side}_leg5", density=1500, friction=0.8)
    return b.build()


def load(robot: str) -> ws.Model:
    """A robot of gymnasium, or the humanoid above."""
    return humanoid33() if robot == "humanoid33" else ws.load(asset(robot))


def least_seconds(function) -> float:
    """CPU seconds of one call, the least of the repeats."""
    function()
    begin = time.process_time()
    function()
    calls = max(1, round(SAMPLE / max(time.process_time() - begin, 1e-6)))
    samples = []
    for _ in range(REPEATS):
        begin = time.process_time()
        for _ in range(calls):
            function()
        samples.append((time.process_time() - begin) / calls)
    return min(samples)


def disturbed(model: ws.Model, worlds: int):
    """(q, v, control), one row per world, of robots that stand or lie on the ground."""
    rng = np.random.default_rng(0)
    sim = ws.Simulator(model, dt=H, dtype="float64", device="cpu")
    rest = sim.rollout(sim.state(), steps=SETTLE).final
    q = np.tile(rest.q.numpy(), (worlds, 1))
    return q, rest.v.numpy() + NOISE * rng.normal(size=(worlds, model.nv)), 0.05 * rng.normal(size=(worlds, model.nu))


def array(values) -> wp.array:
    return wp.array(np.atleast_2d(values), dtype=wp.float64, device="cpu")


def differences(model: ws.Model, solver) -> tuple[float, dict]:
    """Seconds of the central differences of one state, and the errors of the analytic Jacobians there."""
    q, v, u = (x[0] for x in disturbed(model, 1))
    options = {"dt": H, "device": "cpu", "solver": solver}
    timed = StepDifferences(model, q, v, u, parameters=PARAMETERS, sizes=(1e-6,), **options)
    inputs, out = [array(x) for x in timed.inputs], timed.start.clone()
    seconds = least_seconds(lambda: timed.sim.step(timed.start, inputs[0], tau=inputs[1], out=out))
    sim = ws.Simulator(model, dtype="float64", **options)
    result = sim.linearize(sim.state(q, v), array(u), force_jacobian=True, parameters=PARAMETERS)
    return seconds, StepDifferences(model, q, v, u, parameters=PARAMETERS, **options).errors(result)


def measure(robot: str) -> dict:
    """Times of one robot, in microseconds per world."""
    model, solver = load(robot), ws.SAP(tolerance=TOLERANCE)
    seconds, errors = differences(model, solver)
    row = {"robot": robot, "dofs": model.nv, "differences": 1e6 * seconds, "error": max(errors.values())}
    row["steps"] = 2 * (3 * model.nv + model.nu + model.nbody)
    for worlds in WORLDS:
        sim = ws.Simulator(model, worlds=worlds, dt=H, dtype="float64", device="cpu", solver=solver)
        q, v, u = disturbed(model, worlds)
        state, control, out = sim.state(q, v), array(u), None
        out = sim.linearize(state, control, force_jacobian=True, parameters=PARAMETERS)
        after = sim.step(state, control)
        row["contacts"] = float(sim.diagnostics.contacts.numpy().mean())
        options = {"force_jacobian": True, "parameters": PARAMETERS, "out": out}
        run = [
            least_seconds(lambda: sim.linearize(state, control, **options)),
            least_seconds(lambda: sim.step(state, control, out=after)),
        ]
        row[worlds], row[f"step {worlds}"] = (1e6 * seconds / worlds for seconds in run)
    return row


def markdown(rows: list[dict]) -> str:
    """The table, and the machine below it."""
    batches = " | ".join(f"{n} worlds" if n > 1 else "1 world" for n in WORLDS)
    lines = [
        f"| robot | dofs, contacts | step µs | central differences µs | all Jacobians, µs per world: {batches} | times faster | per Jacobian µs | Nimble µs | worst error |",
        "|---|---|---|---|" + "---|" * len(WORLDS) + "---|---|---|---|",
    ]
    for r in rows:
        largest = WORLDS[-1]
        analytic = " | ".join(f"{r[n]:.1f}" for n in WORLDS)
        nimble = f"{NIMBLE[r['robot']]:,.0f}" if r["robot"] in NIMBLE else ""
        lines.append(
            f"| {r['robot']} | {r['dofs']}, {r['contacts']:.1f} | {r[f'step {largest}']:.1f} | {r['differences']:,.0f} "
            f"({r['steps']} steps) | {analytic} | {r['differences'] / r[largest]:.0f} | {r[largest] / JACOBIANS:.1f} | "
            f"{nimble} | {r['error']:.1e} |"
        )
    m = machine(wp.get_device("cpu"))
    lines += ["", f"{m['date']}, {m['processor']}, one thread, float64; warp-lang {m['versions']['warp-lang']}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=ROBOTS)
    parser.add_argument("--out", type=pathlib.Path, help="folder for linearize.md")
    arguments = parser.parse_args()
    wp.config.quiet = True
    rows = []
    for robot in arguments.robots:
        rows.append(measure(robot))
        print(rows[-1], flush=True)
    table = markdown(rows)
    print(table)
    if arguments.out:
        (arguments.out / "linearize.md").write_text(table)


if __name__ == "__main__":
    main()
