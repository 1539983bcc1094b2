# SPDX-License-Identifier: Apache-2.0
"""Gradients against central differences: every joint type x contact regime x integrator x solver, at 1 to 100 steps.

    python -m benchmarks.gradient_grid [--only TEXT ...] [--robots] [--fields] [--actuation] [--impacts] [--quick]
        [--out benchmarks/results]

Every cell is a trunk and a child on the joint of its row, float64, and asks `ws.check_gradients` for the gradients of a
random linear loss by q0, v0, controls and five kinds of parameters. The numbers are the worst relative errors over all of
them at each horizon, each entry at its best of seven step sizes. Differences that mean nothing (a kink, a contact that
comes or goes within the smallest step, chaos) are counted, not compared. CPU, about 20 minutes; --quick takes one.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import pathlib
import sys
import time

import numpy as np
import warp as wp

import warpsim as ws
from scenes import pressure, sensing, spin, tendons
from warpsim.tools.bench import machine
from warpsim.tools.demo import robot_path

HORIZONS = (1, 10, 40, 100)
BARS = {1: 1e-6, 10: 1e-5, 40: 1e-5, 100: 1e-4}
STEP_SIZES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
DT = 0.005
JOINTS = ("free", "ball", "hinge", "slide", "planar")
REGIMES = ("free flight", "limit", "stiction", "sliding", "rolling")
TIMED = "symplectic, impacts"  # steps with `time_of_impact=True`
HITS = ("landing", "hitting")  # regimes of --impacts alone: a fall on the floor, a blow on the stops
# Roots and optima far below the differences' own error.
INTEGRATORS = {
    "symplectic": ws.SymplecticEuler(),
    "implicit": ws.ImplicitEuler(tolerance=1e-15),
    "midpoint": ws.Midpoint(tolerance=1e-15),
    "variational": ws.Variational(tolerance=1e-13),
}
SOLVERS = {
    "SAP": ws.SAP(tolerance=1e-14),
    "convex": ws.SAP(tolerance=1e-14, approximation="convex"),
    "Compliant": ws.Compliant(tolerance=1e-12, stiffness=1e6),
    "LCP": ws.LCP(),
}
# MuJoCo's law, which `benchmarks.mujoco_gradient_grid` has rows of.
LAW_INTEGRATORS = {"Euler": ws.MuJoCoEuler(), "implicitfast": ws.MuJoCoImplicitFast()}
LAW_SOLVERS = {cone: ws.MuJoCo(cone=cone, tolerance=1e-14) for cone in ("pyramidal", "elliptic")}
OVERLAP = 2e-5  # [m] at first; rigid contact keeps it, and has a kink where bodies just touch
FRICTION = {"stiction": 0.8, "sliding": 0.1, "rolling": 0.8, "landing": 0.3}
STOPPED = ("limit", "hitting")
SPEED = 0.3  # [m/s] of what slides or rolls; mu v < g h, so that the convex cone does not throw it up
ROBOTS = ("ant", "humanoid", "half_cheetah")
FIELDS = {"polygons": "polygons", "quadrants": "patch16", "five points": "patch5"}  # of contact between pressure fields
MOTIONS = pressure.motions()
ACTUATION = ("activation", "muscle", "shared range", "gravcomp")  # of an arm of two hinges
MUSCLES = ["actuator_time", "actuator_length_range", "muscle_force", "muscle_curve"]
LINES = (
    "spatial tendon",
    "site motor",
    "wrapped muscle",
    "crank",
)  # of an arm of three hinges with a rope (`scenes/tendons.py`)
SENSED = "sensors"  # the rows whose loss is of sensors, after the last step


def scene(joint: str, regime: str) -> ws.Model:
    """A trunk, free or (where a stop acts) fixed, that carries a body on the joint; a free joint is the trunk's own."""
    b = ws.ModelBuilder(f"{joint}, {regime}")
    contact = regime in FRICTION
    if contact:
        b.add_geom("plane", name="floor", friction=0.5 * FRICTION[regime])
    parent = "world"
    if regime not in STOPPED:
        parent = "trunk"
        b.add_body(parent, pose=[0, 0, 0.1], mass=1.0, com=[0.01, 0.005, -0.01], inertia=[0.005, 0.006, 0.007])
        b.add_joint(parent, "free")
        if contact:
            shape = ("sphere", [0.1]) if regime == "rolling" else ("box", [0.1, 0.1, 0.1])
            b.add_geom(*shape, body=parent, density=0.0, friction=FRICTION[regime])
    if joint == "free":
        return b.build()
    body = b.add_body("child", parent=parent, pose=[0.02, 0.01, 0.05], mass=0.2, com=[0.01, 0.03, -0.04],
                      inertia=[0.001, 0.002, 0.0015])  # fmt: skip
    spring = {"stiffness": 2.0, "damping": 0.05, "reference": 0.05}
    stop = {"range": (-0.1, 0.1)} if regime in STOPPED else {}
    if joint == "ball":
        b.add_joint(body, "ball", stiffness=2.0, damping=0.05, **({"range": (0, 0.1)} if stop else {}))
        return b.build()
    for k, (kind, axis) in enumerate(
        {
            "hinge": [("hinge", (0.2, 1, 0.1))],
            "slide": [("slide", (1, 0.3, 0.5))],
            "planar": [("slide", (1, 0, 0)), ("slide", (0, 0, 1)), ("hinge", (0, 1, 0))],
        }[joint]
    ):
        stiffness = 50.0 if kind == "slide" else 2.0
        name = b.add_joint(body, kind, name=f"j{k}", axis=axis, **{**spring, "stiffness": stiffness}, **stop)
        b.add_actuator(name, gear=0.5)
    return b.build()


def arm(kind: str) -> ws.Model:
    """Two hinges with what the rows of actuation are about."""
    b = ws.ModelBuilder(kind)
    upper = b.add_body("upper", mass=1.0, com=[0.1, 0, 0.02], inertia=[0.01, 0.02, 0.015])
    lower = b.add_body(
        "lower",
        parent=upper,
        pose=[0.3, 0, 0],
        mass=0.5,
        com=[0.1, 0.02, 0],
        inertia=[0.004, 0.005, 0.006],
        gravcomp=0.8 if kind == "gravcomp" else 0.0,
    )
    for body, name, axis in ((upper, "shoulder", (0, 1, 0.1)), (lower, "elbow", (0.1, 1, 0.3))):
        b.add_joint(body, "hinge", name=name, axis=axis, damping=0.1)
    b.add_tendon({"shoulder": 0.5, "elbow": -0.3}, name="both")
    if kind == "activation":
        b.add_actuator("shoulder", "position", kp=3.0, kv=0.1, dynamics=("filter", 0.03))
        b.add_actuator("elbow", dynamics="integrator", activation_range=(-2, 2), early=True)
        b.add_actuator(tendon="both", dynamics=("filterexact", 0.02), force_range=(-0.5, 0.5))
        b.add_actuator("elbow", dynamics=("muscle", 0.01, 0.04, 0.2))
    elif kind == "muscle":
        for name, gear in (("shoulder", 1.0), ("shoulder", -1.0), ("elbow", 1.0)):
            b.add_actuator(name, "muscle", gear=gear, muscle=ws.Muscle(force=4.0, length_range=(-1.2, 1.0), width=0.1))
        b.add_actuator(tendon="both", kind="muscle", muscle=ws.Muscle(force=8.0, length_range=(-0.5, 0.5)))
    elif kind == "gravcomp":
        b.add_actuator("shoulder", gear=2.0, force_range=(-1, 1))
    elif kind == "shared range":
        b.add_actuator("shoulder", "position", kp=3.0, kv=0.1)
        b.add_actuator("shoulder", gear=0.5)
        b.add_actuator(tendon="both")
        b.add_actuator(tendon="both", gear=-2.0)
        b.add_effort_limit("shoulder", (-0.4, 0.3))
        b.add_effort_limit(tendon="both", range=(-0.5, 0.5))
    return b.build()


def roped_arm(kind: str) -> ws.Model:
    """An arm with a rope round a sphere and a cylinder; a wrapped muscle passes through the cylinder."""
    drive = {"spatial tendon": "tendon servo", "wrapped muscle": "muscle"}.get(kind, kind)
    rope = "limits" if kind == "crank" else "spring"
    return ws.load(tendons.roped_arm(drive, rope=rope, inside=kind == "wrapped muscle"))


def roped_start(sim: ws.Simulator):
    return sim.state([0.2, 0.4, 0.1], [0.1, -0.2, 0.3])


def arm_start(sim: ws.Simulator):
    activation = {"activation": np.linspace(0.2, 0.6, sim.model.na)} if sim.model.na else {}
    return sim.state([0.3, -0.4], [0.5, 0.2], **activation)


def parameters(joint: str, regime: str) -> list[str]:
    """Five kinds and more."""
    names = ["body_mass", "body_com", "body_inertia", "gravity"]
    names += [] if joint == "free" else ["joint_damping", "joint_stiffness", "joint_pose"]
    names += ["geom_friction", "geom_size", "geom_pose"] if regime in FRICTION else []
    return names + (["joint_range"] if regime in STOPPED else [])


def start(sim: ws.Simulator, joint: str, regime: str):
    """Settled on the floor, then set moving; in the air, falling or against its stops otherwise."""
    model, rng = sim.model, np.random.default_rng(11)
    state = sim.state()
    q, v = state.q.numpy()[0], 0.3 * rng.normal(size=model.nv)
    if regime in STOPPED:
        angle, way = (0.11, 0.0) if regime == "limit" else (0.095, 1.0)
        if joint == "ball":
            q[:] = np.cos(angle / 2), *(np.sin(angle / 2) * np.array([0.6, 0.0, 0.8]))
            v += way * np.array([0.6, 0.0, 0.8])
        else:
            q[:] = angle
            v += way
    if regime == "landing":
        q[2] += 5e-3
        q[3:7] = [np.cos(0.02), 0.6 * np.sin(0.02), 0.8 * np.sin(0.02), 0]  # a corner strikes first
        v[2] -= 0.5
    elif regime in FRICTION:
        q[2] -= OVERLAP
        rest = sim.rollout(sim.state(q), steps=400).final
        q, v = rest.q.numpy()[0], rest.v.numpy()[0]
        v[6:] += 0.2 * rng.normal(size=model.nv - 6)
        if regime != "stiction":
            v[:2] += SPEED * np.array([1.0, 0.2])
        if regime == "rolling":
            v[3:6] += SPEED / 0.1 * np.array([-0.2, 1.0, 0.0])
    return sim.state(q, v)


def simulate(model, integrator: str, solver: str, **options) -> ws.Simulator:
    """A differentiable simulator on the CPU."""
    return ws.Simulator(
        model, dt=DT, dtype="float64", device="cpu", requires_grad=True,
        integrator=(INTEGRATORS | LAW_INTEGRATORS)["symplectic" if integrator == TIMED else integrator],
        solver=(SOLVERS | LAW_SOLVERS)[solver], time_of_impact=integrator == TIMED, **options
    )  # fmt: skip


def check(model, integrator: str, solver: str, names, begin, entries: int, horizons, **options) -> dict:
    """Worst errors, verdict and what was not compared."""
    try:
        sim = simulate(model, integrator, solver, **options)
        found = ws.check_gradients(
            sim,
            begin(sim),
            horizons=horizons,
            parameters=[n for n in names if n in sim.parameters],
            entries=entries,
            step_sizes=STEP_SIZES,
        )
    except (ValueError, NotImplementedError) as error:
        return {"refused": str(error).splitlines()[0]}
    result = {"errors": {str(h): found.worst(h) for h in horizons}, "ok": found.ok, "compared": 0, "left": 0}
    for row in found.rows:
        result["compared"] += row.compared
        result["left"] += sum(int(note.split(" of ")[0]) for note in row.notes)
    bad = [row for row in found.rows if row.compared and not row.error <= BARS[row.horizon]]
    result["misses"] = [f"{r.variable} at {r.horizon} steps {r.error:.1e} ({r.verdict}, {r.where})" for r in bad]
    result["flags"] = int(np.bitwise_or.reduce(sim.diagnostics.flags.numpy()))
    return result


def line(label: list[str], result: dict, horizons) -> str:
    """A row of the table."""
    if "refused" in result:
        return "| " + " | ".join(label + ["refused"] * len(horizons) + ["", result["refused"]]) + " |"
    errors = [f"{result['errors'][str(h)]:.0e}" for h in horizons]
    misses = "; ".join(result["misses"])
    return "| " + " | ".join([*label, *errors, f"{result['compared']} ({result['left']})", misses]) + " |"


@wp.kernel
def add_weighted(x: wp.array2d(dtype=wp.float64), a: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    """loss += a · x, world by world."""
    w, i = wp.tid()
    wp.atomic_add(loss, w, a[i] * x[w, i])


def check_sensors(model, motion: str, integrator: str, solver: str, names, entries: int, horizons) -> dict:
    """As `check`, of a random linear loss of sensors; differences are along entries, a world for each point."""
    q0, v0 = sensing.start(motion)
    rng, sizes = np.random.default_rng(1), np.array(STEP_SIZES[1:6])
    weights = wp.array(rng.normal(size=model.nsensordata), dtype=wp.float64, device="cpu")
    point = {"q": q0, "v": v0} | {name: simulate_values(model, integrator, solver, name) for name in names}
    worlds = 2 * len(sizes) * entries

    def losses(sim, values: dict, steps: int):
        for name in names:
            sim.parameters[name].assign(values[name])
        state = begin = sim.state(values["q"], values["v"])
        for _ in range(steps):
            state = sim.step(state)
        loss, x = wp.zeros(sim.worlds, dtype=wp.float64, device="cpu", requires_grad=True), sim.sensors(state)
        wp.launch(add_weighted, x.shape, [x, weights, loss], device="cpu")
        return loss, begin

    try:
        one, many = (simulate(model, integrator, solver, worlds=n) for n in (1, worlds))
        result = {"errors": {}, "ok": True, "compared": 0, "left": 0, "misses": [], "flags": 0}
        for steps in horizons:
            for name in names:
                one.parameters[name].grad.zero_()
            with wp.Tape() as tape:
                loss, begin = losses(one, {name: x[None] for name, x in point.items()}, steps)
            loss.grad.fill_(1.0)
            tape.backward()
            found = {"q": begin.q.grad.numpy()[0], "v": begin.v.grad.numpy()[0]}
            found |= {name: one.parameters[name].grad.numpy()[0].copy() for name in names}
            worst = 0.0
            for name, gradient in found.items():
                indices = list(np.ndindex(gradient.shape))
                chosen = [indices[i] for i in rng.choice(len(indices), min(entries, len(indices)), replace=False)]
                values = {key: np.repeat(x[None], worlds, axis=0) for key, x in point.items()}
                for k, (index, size, sign) in enumerate(itertools.product(chosen, sizes, (1, -1))):
                    values[name][(k, *index)] += sign * size
                moved = (
                    losses(many, values, steps)[0].numpy()[: 2 * len(sizes) * len(chosen)].reshape(len(chosen), -1, 2)
                )
                slopes = (moved[..., 0] - moved[..., 1]) / (2 * sizes)
                gaps = np.abs(slopes - np.array([gradient[index] for index in chosen])[:, None]).min(axis=1)
                error = float(gaps.max() / max(np.abs(gradient).max(), 1e-3))
                worst = max(worst, error)
                result["compared"] += len(chosen)
                if not error <= BARS[steps]:
                    result["misses"].append(f"{name} at {steps} steps {error:.1e}")
            result["errors"][str(steps)] = worst
    except ValueError as error:
        return {"refused": str(error).splitlines()[0]}
    return result


def simulate_values(model, integrator: str, solver: str, name: str) -> np.ndarray:
    """A parameter as a simulator has it, of one world."""
    return simulate(model, integrator, solver).parameters[name].numpy()[0].copy()


def robot_start(sim: ws.Simulator):
    """The robot settled on the ground, moving a little."""
    rest = sim.rollout(sim.state(), steps=300).final
    v = rest.v.numpy()[0] + 0.05 * np.random.default_rng(5).normal(size=sim.model.nv)
    return sim.state(rest.q.numpy()[0], v)


def cases(arguments):
    """(label, model, integrator, solver, parameters, start) of every row asked for."""
    schemes = list(itertools.product(INTEGRATORS, SOLVERS))
    if arguments.actuation:
        names = ["body_mass", "body_com", "gravity", "joint_damping", "force_range"]
        for kind, (integrator, solver) in itertools.product(ACTUATION, schemes):
            if solver == "SAP":
                own = {"activation": ["actuator_time"], "muscle": MUSCLES}.get(kind, [])
                yield ["arm", kind, integrator, solver], lambda k=kind: arm(k), [*names, *own], arm_start
        for kind, (integrator, solver) in itertools.product(LINES, schemes):
            names = ["body_mass", "gravity", "geom_size", "geom_pose", "force_range"]
            names += MUSCLES if kind == "wrapped muscle" else []
            names += ["tendon_stiffness", "tendon_damping"] if kind != "crank" else ["tendon_range", "tendon_friction"]
            if solver == "SAP" or kind == "spatial tendon":
                yield ["roped arm", kind, integrator, solver], lambda k=kind: roped_arm(k), names, roped_start
    elif arguments.impacts:
        yield from impact_cases()
    elif not arguments.robots_only and not arguments.fields:
        for joint, regime in itertools.product(JOINTS, REGIMES):
            if joint == "free" and regime == "limit":
                continue  # a free joint has none
            for integrator, solver in schemes:
                if regime == "free flight" and solver != "SAP":
                    continue  # nothing to solve
                names = parameters(joint, regime)
                begin = lambda sim, j=joint, r=regime: start(sim, j, r)  # noqa: E731
                yield [joint, regime, integrator, solver], lambda j=joint, r=regime: scene(j, r), names, begin
        yield from part_cases(schemes)
        for motion, integrator, solver in itertools.product(sensing.MOTIONS, INTEGRATORS, SOLVERS):
            if motion != "flight" or solver == "SAP":
                names = ["body_mass", "body_com", "gravity", "joint_stiffness"] + ["geom_friction"] * (
                    motion != "flight"
                )
                yield [SENSED, motion, integrator, solver], lambda m=motion: sensing.model(m), names, None
        yield from torsion_cases()
    if arguments.fields:
        yield from field_cases()
    if arguments.robots or arguments.robots_only:
        names = ["body_mass", "geom_friction", "joint_damping", "geom_size", "gravity", "actuator_gain"]
        for robot, (integrator, solver) in itertools.product(ROBOTS, schemes):
            yield [robot, "contact", integrator, solver], lambda r=robot: robot_model(r), names, robot_start


def part_cases(schemes):
    """The rows of mocap bodies (a weld pulls, a table carries) and of a medium."""
    for integrator, solver in schemes:
        yield ["mocap", "weld, contact", integrator, solver], mocap_scene, ["body_mass", "gravity"], mocap_start
    names = ["fluid_density", "fluid_viscosity", "wind", "body_com", "geom_pose", "body_mass"]
    for integrator, fluid in itertools.product(INTEGRATORS, ("box", "ellipsoid")):
        model = functools.partial(fluid_scene, fluid == "ellipsoid" or None)
        yield ["fluid", fluid, integrator, "SAP"], model, names, lambda sim: moving_start(sim, 1.0)


def mocap_scene() -> ws.Model:
    """A gripper welded to one mocap body, a ball that slides on another."""
    b = ws.ModelBuilder("mocap")
    target, table = (b.add_body(name, mocap=True, pose=[x, 0, 0]) for name, x in (("target", 0), ("table", 1)))
    b.add_geom("box", [0.2, 0.2, 0.1], body=table, friction=FRICTION["sliding"])
    for name, pose, shape in (
        ("gripper", [0, 0, 0.0], ("box", [0.05, 0.04, 0.03])),
        ("ball", [1, 0, 0.2 - OVERLAP], ("sphere", [0.1])),
    ):
        body = b.add_body(name, pose=pose)
        b.add_joint(body, "free")
        b.add_geom(
            *shape,
            body=body,
            friction=FRICTION["sliding"],
            contype=int(name == "ball"),
            conaffinity=int(name == "ball"),
        )
    b.add_constraint("weld", "gripper", target)
    return b.build()


def mocap_start(sim: ws.Simulator):
    """The gripper a little off its target."""
    return sim.state(
        mocap=sim.model.mocap0 + np.array([[1e-3, -2e-3, 1e-3, 0, 1e-3, 0, 2e-3], [0, 0, 0, 0, 0, 0, 1e-3]])
    )


def fluid_scene(fluid) -> ws.Model:
    """Two bodies on a ball joint that fly through a medium in the wind."""
    b = ws.ModelBuilder("fluid", density=100.0, viscosity=0.5, wind=(0.5, -0.3, 0.2))
    trunk = b.add_body("trunk", pose=[0, 0, 1])
    b.add_joint(trunk, "free")
    b.add_geom("ellipsoid", [0.1, 0.2, 0.05], body=trunk, fluid=fluid)
    child = b.add_body("child", parent=trunk, pose=[0.1, 0, 0])
    b.add_joint(child, "ball")
    b.add_geom("box", [0.1, 0.03, 0.05], body=child, pose=[0.1, 0.01, 0], fluid=fluid)
    return b.build()


def moving_start(sim: ws.Simulator, speed: float):
    rng = np.random.default_rng(3)
    q = sim.model.displace(sim.model.q0, 0.2 * rng.normal(size=sim.model.nv))
    return sim.state(q, speed * rng.normal(size=sim.model.nv))


def impact_cases():
    """The rows of steps that resolve impacts."""
    for joint, regime in itertools.product(JOINTS, (*REGIMES, *HITS)):
        if (joint == "free" and regime in STOPPED) or regime == "free flight":
            continue
        for solver in ("SAP", "convex", "LCP"):
            begin = lambda sim, j=joint, r=regime: start(sim, j, r)  # noqa: E731
            yield (
                [joint, regime, TIMED, solver],
                lambda j=joint, r=regime: scene(j, r),
                parameters(joint, regime),
                begin,
            )
    names = ["body_mass", "geom_friction", "joint_damping", "geom_size", "gravity", "actuator_gain"]
    for robot, solver in itertools.product(ROBOTS, ("SAP", "convex", "LCP")):
        yield [robot, "contact", TIMED, solver], lambda r=robot: rigid(robot_model(r)), names, robot_start


def rigid(model: ws.Model) -> ws.Model:
    """The model with near-rigid contact."""
    return dataclasses.replace(model, geom_stiffness=np.full(model.ngeom, np.inf))


def torsion_cases():
    """The rows of torsional and rolling friction; Compliant has none, and LCP no gradients of it."""
    names = [
        "geom_friction",
        "geom_torsional_friction",
        "geom_rolling_friction",
        "geom_size",
        "geom_pose",
        "body_mass",
        "gravity",
    ]
    for motion, integrator, solver in itertools.product(spin.MOTIONS, INTEGRATORS, ("SAP", "convex")):
        model = lambda m=motion: spin.body_and_pendulum(m)  # noqa: E731
        yield ["torsion", motion, integrator, solver], model, names, lambda sim, m=motion: spin.start(sim, m)


def field_cases():
    """The rows of hydroelastic contact; LCP has none."""
    names = ["geom_hydroelastic_modulus", "geom_hydroelastic_thickness", "geom_size", "geom_friction"]
    names += ["geom_dissipation_time", "geom_pose", "body_mass", "gravity"]
    for level, motion, integrator, solver in itertools.product(FIELDS, MOTIONS, INTEGRATORS, SOLVERS):
        if solver != "LCP":
            yield (
                [level, motion, integrator, solver],
                lambda m=motion: MOTIONS[m][0],
                names,
                lambda s, m=motion: field_start(s, m),
            )


def field_start(sim: ws.Simulator, motion: str):
    _, q, v = MOTIONS[motion]
    q = np.array(q, float)
    q[3:] /= np.linalg.norm(q[3:])
    return sim.state(q[None], np.array(v, float)[None])


def robot_model(robot: str) -> ws.Model:
    """The robot; frictions differ, because the larger of two equal ones has a kink."""
    model = ws.load(robot_path(robot))
    return dataclasses.replace(model, geom_friction=model.geom_friction * (1 + 0.01 * np.arange(model.ngeom)))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="rows whose label has all of these words")
    parser.add_argument("--robots", action="store_true", help="the gymnasium robots as well")
    parser.add_argument("--robots-only", action="store_true")
    parser.add_argument("--fields", action="store_true", help="contact between pressure fields instead")
    parser.add_argument(
        "--actuation", action="store_true", help="activations, muscles, shared ranges and gravity compensation instead"
    )
    parser.add_argument("--impacts", action="store_true", help="steps with time_of_impact=True instead")
    parser.add_argument("--quick", action="store_true", help="two entries a variable, at most 10 steps")
    parser.add_argument("--entries", type=int, default=4)
    parser.add_argument("--resume", action="store_true", help="keep the rows that --out has")
    parser.add_argument("--out", type=pathlib.Path, help="folder for gradient_grid.json and .md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    horizons, entries = (HORIZONS[:2], 2) if arguments.quick else (HORIZONS, arguments.entries)
    head = ["joint", "regime", "integrator", "solver", *(f"{h} steps" for h in horizons), "compared (not)", "beyond"]
    order, results, begin_time = [], {}, time.perf_counter()
    kept = arguments.out / "gradient_grid.json" if arguments.out else None
    if kept and kept.exists() and not arguments.quick:
        results = {tuple(row.pop("label")): row for row in json.loads(kept.read_text())["rows"]}
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for label, model, names, begin in cases(arguments):
        if not all(any(word == part for part in label) for word in arguments.only):
            continue
        if arguments.resume and tuple(label) in results:
            continue
        options = {"hydroelastic": FIELDS[label[0]]} if label[0] in FIELDS else {}
        if label[0] == SENSED:
            results[tuple(label)] = check_sensors(model(), *label[1:], names, entries, horizons)
        else:
            results[tuple(label)] = check(model(), *label[2:], names, begin, entries, horizons, **options)
        order.append(tuple(label))
        print(line(label, results[tuple(label)], horizons), flush=True)
        if arguments.out:
            write(arguments.out, results, head, horizons)
    print(f"{summary([results[label] for label in order])}; {time.perf_counter() - begin_time:.0f} s")
    return 0 if not any(results[label].get("misses") for label in order) else 1


def summary(rows: list[dict]) -> str:
    """How many rows keep the bars."""
    refused = sum("refused" in r for r in rows)
    beyond = sum(bool(r.get("misses")) for r in rows)
    return f"{len(rows)} rows: {len(rows) - refused - beyond} within the bars, {beyond} beyond, {refused} refused"


def overview(rows: list[dict], horizons) -> list[str]:
    """Worst errors by integrator and solver, rows within the bars, and differences compared and not."""
    head = ["integrator", "solver", "rows", "within", *(f"worst, {h} steps" for h in horizons), "compared (not)"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for scheme in itertools.product((*INTEGRATORS, TIMED), SOLVERS):
        chosen = [r for r in rows if tuple(r["label"][2:]) == scheme and "errors" in r]
        if not chosen:
            continue
        worst = [f"{np.nanmax([r['errors'][str(h)] for r in chosen]):.0e}" for h in horizons]
        counts = f"{sum(r['compared'] for r in chosen)} ({sum(r['left'] for r in chosen)})"
        cells = [*scheme, str(len(chosen)), str(sum(not r["misses"] for r in chosen)), *worst, counts]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def grid_labels() -> list[tuple[str, ...]]:
    """The labels of all rows there are, in the order of the grid."""
    off = dict.fromkeys(("actuation", "impacts", "fields", "robots", "robots_only"), False)
    parts = [off | dict.fromkeys(on, True) for on in ((), ("robots_only",), ("fields",), ("actuation",), ("impacts",))]
    return [tuple(case[0]) for part in parts for case in cases(argparse.Namespace(**part))]


def write(folder: pathlib.Path, results: dict, head: list[str], horizons) -> None:
    """gradient_grid.json and .md of all rows, those of earlier runs included, in the order of the grid."""
    place = {label: number for number, label in enumerate(grid_labels())}
    ordered = sorted(results, key=lambda label: place[tuple(label)])
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"label": label, **results[label]} for label in ordered]
    text = json.dumps({"machine": machine(wp.get_device("cpu")), "rows": rows}, indent=1)
    (folder / "gradient_grid.json").write_text(text + "\n")
    bars = ", ".join(f"{bar:g} at {h}" for h, bar in BARS.items())
    lines = ["# Gradients against central differences", "", f"{summary(rows)}. Bars: {bars} steps.", ""]
    lines += [*overview(rows, horizons), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [line(list(label), results[label], horizons) for label in ordered]
    (folder / "gradient_grid.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
