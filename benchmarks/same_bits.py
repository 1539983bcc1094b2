# SPDX-License-Identifier: Apache-2.0
"""Does a change of the code change a number? Rollouts and gradients of a grid, stored by one version, compared by another.

    python -m benchmarks.same_bits --store FILE.npz [--scenes ant gripper …] [--quick]
    python -m benchmarks.same_bits --compare FILE.npz [--scenes …] [--quick] [--derivatives]

The grid is scene × contact solver × integrator × dtype, two worlds each, on the CPU, with seeded random velocities and
controls. `--compare` reruns the grid of the file and prints for each combination "same bits", or the largest relative
differences: of the trajectory, which chaos lets grow; of two steps restarted from each stored state, without its memory;
and of derivatives at the stored middle state. The last two are held to `BARS`. Beside what is above them stands how far
one round-off of those states leads: some problems are that sensitive, but a change that goes there has to be explained.
`--derivatives` says that the change is one of how derivatives are found: everything else must have the same bits, and
derivatives agree to `DERIVATIVES`.
Exit code 1 if one is above its bar, if diagnostics differ on the same trajectory, or if a combination that ran runs no
more. Only what users see of warpsim is called, so that the inside may move.
"""

import argparse
import dataclasses
import hashlib
import itertools
import json
import pathlib
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import clutter, grip_and_lift, gripper

WORLDS, STEPS, EVERY = 2, 200, 10
HORIZON = 10  # steps of the loss whose gradient is kept
RESTARTED = 2  # steps from each stored state: the second one uses the memory that the first one leaves
# Relative to the largest entry of the stored array. Rounding in another order stays below; in float32 as many round-offs.
BARS = {"float64": {"restart": 1e-12, "gradient": 1e-10}, "float32": {"restart": 5e-4, "gradient": 5e-2}}
# Of derivatives alone, with all else the same bits: relative to the largest entry of the array.
DERIVATIVES = {"float64": {"restart": 0.0, "gradient": 1e-12}, "float32": {"restart": 0.0, "gradient": 1e-4}}
DIAGNOSTICS = ("iterations", "contacts", "flags", "momentum_error", "energy")
PARAMETERS = ("body_mass", "geom_friction", "joint_damping")
COLUMNS = (  # parameters of `sim.linearize`
    *("body_mass", "body_com", "body_inertia", "joint_armature", "gravity", "joint_damping", "joint_stiffness"),
    *("joint_reference", "joint_friction", "joint_range", "actuator_gain", "actuator_bias", "control_range"),
    *("force_range", "geom_friction", "geom_stiffness", "geom_dissipation_time"),
)
FIELD_COLUMNS = ("geom_hydroelastic_modulus", "geom_hydroelastic_thickness", "geom_size")
REFUSALS = (ValueError, NotImplementedError)  # `ws.ModelError` is a ValueError

SOLVERS: dict[str, Callable[[], Any]] = {
    "SAP": lambda: ws.SAP(approximation="convex"),
    "lagged": lambda: ws.SAP(),
    "Compliant": lambda: ws.Compliant(),
    "LCP": lambda: ws.LCP(),
    "NoContact": lambda: ws.NoContact(),
}
INTEGRATORS: dict[str, Callable[[], Any]] = {
    "symplectic": lambda: ws.SymplecticEuler(),
    "explicit": lambda: ws.ExplicitEuler(),
    "implicit": lambda: ws.ImplicitEuler(),
    "midpoint": lambda: ws.Midpoint(),
    "variational": lambda: ws.Variational(),
}
DTYPES = ("float32", "float64")
QUICK_SCENES = ("ant", "fourbar", "gripper", "shapes", "rows")


# scenes --------------------------------------------------------------------------------------------------------------


def robot(name: str) -> ws.Model:
    """A robot of the gymnasium package."""
    import gymnasium

    return ws.load(str(pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml"))


def fourbar() -> ws.Model:
    """Crank, coupler and rocker (uniform rods, 1 kg/m, hinges about y), closed by a hinge; a servo of limited effort.

    The rocker has a stop near its start, dry friction and a spring with damper.
    """
    a, b, c, d, angle = 0.3, 0.5, 0.4, 0.6, 0.3  # lengths of crank, coupler, rocker and ground [m]; of the crank [rad]
    P, D = a * np.array([np.sin(angle), -np.cos(angle)]), np.array([d, 0.0])
    reach = np.linalg.norm(D - P)
    along = (D - P) / reach
    x = (b * b - c * c + reach * reach) / (2.0 * reach)
    Q = P + x * along + np.sqrt(b * b - x * x) * np.array([along[1], -along[0]])
    turns = [np.arctan2(-r[0], -r[1]) for r in (P, Q - P, Q - D)]
    builder = ws.ModelBuilder("fourbar", timestep=0.005)
    for name, parent, at, length, turn in (
        ("crank", -1, [0, 0, 0], a, turns[0]),
        ("coupler", "crank", [0, 0, -a], b, turns[1] - turns[0]),
        ("rocker", -1, [d, 0, 0], c, turns[2]),
    ):
        inertia = [length**3 / 12, length**3 / 12, 1e-4]
        pose = [*at, np.cos(turn / 2), 0, np.sin(turn / 2), 0]
        builder.add_body(name, parent=parent, pose=pose, mass=length, com=[0, 0, -length / 2], inertia=inertia)
        rows = {"range": (-0.1, 0.4), "friction": 0.02, "stiffness": 0.5, "damping": 0.02} if name == "rocker" else {}
        builder.add_joint(name, "hinge", name=name, axis=[0, 1, 0], **rows)
    along_y = [np.sqrt(0.5), -np.sqrt(0.5), 0, 0]
    builder.add_constraint("hinge", "coupler", "rocker", name="pin", pose_a=[0, 0, -b, *along_y])
    builder.add_actuator(
        "crank", "position", name="servo", kp=4.0, kv=0.2, control_range=(-0.2, 0.2), force_range=(-0.7, 0.7)
    )
    return builder.build()


def hertz() -> ws.Model:
    """Three spheres with Hertz's law above each other and above a near-rigid plane."""
    b = ws.ModelBuilder("hertz", timestep=0.005)
    b.add_geom("plane", friction=0.5, dissipation_time=0.0)
    for i in range(3):
        b.add_body(f"ball{i}", pose=[0.01 * i, 0.0, 0.11 + 0.21 * i])
        b.add_joint(f"ball{i}", "free")
        b.add_geom("sphere", [0.1], body=f"ball{i}", friction=0.5, hertz_modulus=1e7, dissipation_time=0.01)
    return b.build()


def bounce() -> ws.Model:
    """A sphere and a box with restitution, dropped on a plane and on each other."""
    b = ws.ModelBuilder("bounce", timestep=0.005)
    b.add_geom("plane", friction=0.5)
    for i, (kind, size) in enumerate((("sphere", [0.1]), ("box", [0.1, 0.08, 0.06]))):
        b.add_body(f"body{i}", pose=[0.02 * i, 0.0, 0.15 + 0.25 * i, 0.9, 0.1 * i, 0.2 * i, 0.0])
        b.add_joint(f"body{i}", "free")
        b.add_geom(kind, size, body=f"body{i}", friction=0.5, restitution=0.6 - 0.2 * i)
    return b.build()


def shapes() -> ws.Model:
    """A body of every shape, dropped on a height field beside a wall; one pair of bodies falls on each other."""
    b = ws.ModelBuilder("shapes", timestep=0.005)
    x = np.linspace(-1.0, 1.0, 9)
    b.add_geom("hfield", hfield=([1.0, 1.0, 0.2, 0.1], 0.5 + 0.25 * np.sin(3.0 * x)[:, None] * np.cos(2.0 * x)))
    b.add_geom("plane", pose=[-0.8, 0, 0, np.sqrt(0.5), 0, np.sqrt(0.5), 0], friction=0.4)
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.2]]) * 0.08
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])
    for i, (kind, size, extra) in enumerate(
        (
            ("sphere", [0.07], {"stiffness": 1e4}),
            ("capsule", [0.05, 0.08], {"friction": 0.3}),
            ("ellipsoid", [0.1, 0.07, 0.05], {}),
            ("cylinder", [0.06, 0.07], {"condim": 1}),
            ("box", [0.06, 0.08, 0.05], {"dissipation_time": 0.02}),
            ("mesh", [], {"mesh": (corners, faces)}),
            ("cylinder", [0.05, 0.09], {}),
            ("mesh", [], {"mesh": (corners, faces), "stiffness": 2e4}),
        )
    ):
        turn = np.random.default_rng(i).normal(size=4)
        b.add_body(f"body{i}", pose=[0.25 * (i % 3) - 0.25, 0.25 * (i // 3 % 2) - 0.1, 0.3 + 0.22 * (i // 6), *turn])
        b.add_joint(f"body{i}", "free")
        b.add_geom(kind, size, body=f"body{i}", density=400.0, **extra)
    return b.build()


def rows() -> ws.Model:
    """Every joint, tendon, constraint and kind of actuator between a chain on the world and a free body with a hand."""
    b = ws.ModelBuilder("rows", timestep=0.004)
    for k in range(4):
        pose = [0.3, 0.05 * k, 0, 0.96, 0, 0.28, 0] if k else [0, 0, 1]
        b.add_body(f"link{k}", parent=k - 1, pose=pose, mass=1.0, com=[0.15, 0, 0.02], inertia=[0.02, 0.03, 0.025])
        b.add_joint(f"link{k}", "hinge", name=f"h{k}", axis=[0, 1, 0.2 * k], damping=0.1, armature=0.01)
    b.add_body("rail", pose=[0, -0.6, 1], mass=0.8, inertia=[0.01, 0.02, 0.015])
    b.add_joint("rail", "slide", name="rail", axis=[1, 0, 0.1], range=(-0.1, 0.1), friction=0.5, stiffness=20.0)
    b.add_body("loose", pose=[0.9, 0.8, 1], mass=1.0, inertia=[0.03, 0.04, 0.05])
    b.add_joint("loose", "free", name="root")
    b.add_body("hand", parent="loose", pose=[0.2, 0, 0.1], mass=0.5, com=[0, 0.1, 0], inertia=[0.01] * 3)
    b.add_joint("hand", "ball", name="wrist", anchor=[0, 0, -0.1], range=(0, 0.5), damping=0.05, friction=0.02)
    b.add_body("box", pose=[0.5, -0.6, 1], mass=0.5, inertia=[0.01] * 3)
    b.add_joint("box", "free", name="box")
    b.add_body("follower", pose=[0, 1.2, 1], mass=0.5, com=[0, 0, -0.2], inertia=[0.01] * 3)
    b.add_joint("follower", "hinge", name="follower", axis=[0, 1, 0])
    forces = {"stiffness": 30.0, "damping": 0.5, "friction": 0.2}
    b.add_tendon({"h0": 1.0, "h2": -0.3}, name="cable", range=(-0.3, 0.3), reference=(0, 0.1), **forces)
    b.add_tendon({"h1": 2.0, "h3": 0.5}, name="other")
    b.add_constraint("joint", "follower", "h1", coefficients=(0.0, 0.7, 0.2))
    b.add_constraint("tendon", "other", "cable", stiffness=500.0, coefficients=(0.0, 1.0, 0.2))
    b.add_constraint("distance", "link3", "loose", length=(0.0, 1.0))
    b.add_constraint("connect", "hand", "world", stiffness=2e3, dissipation_time=0.02)
    b.add_constraint("weld", "box", "rail", stiffness=(1e4, 1e3))
    b.add_actuator("h0", "position", kp=20.0, kv=0.5, gear=1.5, force_range=(-8.0, 9.0), control_range=(-0.5, 0.5))
    b.add_actuator("h2", "velocity", kv=0.3)
    b.add_actuator("h3", "affine", gain=[0.5, 0.1, 0.0], bias=[0.1, -1.0, -0.1])
    b.add_actuator("wrist", gear=[0.1, 0.2, 0.3])
    b.add_actuator(tendon="other", kind="position", kp=3.0, kv=0.2)
    return b.build()


def pressure() -> ws.Model:
    """A box on a box and a sphere on a half-space, all soft: contact between pressure fields."""
    b = ws.ModelBuilder("pressure", timestep=0.005)
    soft = {"dissipation_time": 0.05, "friction": 0.6}
    b.add_geom("plane", name="floor", hydroelastic=ws.Hydroelastic(1e5, thickness=0.1), **soft)
    b.add_geom("box", (0.2, 0.2, 0.05), pose=(0, 0, 0.05), name="block", hydroelastic=ws.Hydroelastic(8e4), **soft)
    for i, (kind, size, place) in enumerate(
        (("box", (0.05, 0.06, 0.04), (0.01, 0, 0.138, 0.9, 0.1, 0.02, 0.3)), ("sphere", (0.06,), (0.4, 0.1, 0.055)))
    ):
        body = b.add_body(f"solid_{i}", pose=place)
        b.add_joint(body, "free")
        b.add_geom(kind, size, body=body, density=600.0, name=f"solid_{i}", hydroelastic=ws.Hydroelastic(5e4), **soft)
    return b.build()


SCENES: dict[str, Callable[[], ws.Model]] = {
    "ant": lambda: robot("ant"),
    "humanoid": lambda: robot("humanoid"),
    "clutter": lambda: clutter(20),
    "fourbar": fourbar,
    "gripper": gripper,
    "hertz": hertz,
    "bounce": bounce,
    "shapes": shapes,
    "rows": rows,
    "pressure": pressure,
}


def controls(scene: str, model: ws.Model, steps: int) -> np.ndarray | None:
    """Random controls (steps, worlds, nu) over their range; the gripper closes and lifts, with noise."""
    if not model.nu:
        return None
    rng = np.random.default_rng(5)
    if scene == "gripper":
        return grip_and_lift(steps)[:, None] + rng.normal(scale=0.005, size=(steps, WORLDS, model.nu))
    low, high = np.nan_to_num(np.asarray(model.control_range, float).T, neginf=-1.0, posinf=1.0)
    return rng.uniform(low, high, size=(steps, WORLDS, model.nu))


# the grid ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Combination:
    """One cell of the grid, by names."""

    scene: str
    solver: str
    integrator: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.scene}/{self.solver}/{self.integrator}/{self.dtype}"

    def simulator(self, model: ws.Model, **options) -> ws.Simulator:
        """On the CPU; raises what the library raises."""
        return ws.Simulator(
            model,
            WORLDS,
            integrator=INTEGRATORS[self.integrator](),
            solver=SOLVERS[self.solver](),
            dtype=self.dtype,
            device="cpu",
            time_of_impact=False,
            **options,
        )


def grid(scenes, quick: bool) -> list[Combination]:
    """The combinations; the quick ones are some scenes with symplectic Euler, or with SAP in float64."""
    every = [Combination(*names) for names in itertools.product(SCENES, SOLVERS, INTEGRATORS, DTYPES)]
    every = [c for c in every if c.scene in scenes and (c.solver != "NoContact" or c.scene in ("ant", "fourbar"))]
    if not quick:
        return every
    small = [c for c in every if c.scene in QUICK_SCENES]
    return [c for c in small if c.integrator == "symplectic" or (c.solver == "SAP" and c.dtype == "float64")]


# one combination -----------------------------------------------------------------------------------------------------


@wp.kernel
def smooth_loss(x: wp.array2d(dtype=Any), weight: wp.array2d(dtype=Any), loss: wp.array(dtype=Any)):
    """Add Σ weight sin(x) to the loss. Launch over the entries of x (worlds, n)."""
    w, i = wp.tid()
    wp.atomic_add(loss, 0, weight[w, i] * wp.sin(x[w, i]))


def run(cell: Combination, model: ws.Model, stored: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Arrays of one combination by name, or its refusal. Restarts and derivatives begin at the `stored` states, else at its own."""
    try:
        sim = cell.simulator(model)
        result = rollout(cell, sim)
    except REFUSALS as error:
        return {"refused": np.array(first_line(error))}
    start = result if stored is None or "q" not in stored else stored
    return result | follow(cell, sim, start["q"], start["v"])


def follow(cell: Combination, sim: ws.Simulator, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """What is judged: restarts from the states, and derivatives at the middle one or their refusal."""
    result, middle = restarts(cell, sim, q, v), len(q) // 2
    try:
        return result | gradient(cell, sim.model, q[middle], v[middle], middle * EVERY)
    except REFUSALS as error:
        return result | {"gradient_refused": np.array(first_line(error))}


def rollout(cell: Combination, sim: ws.Simulator) -> dict[str, np.ndarray]:
    """Every tenth state, a hash of all, and the diagnostics."""
    v0 = 0.2 * np.random.default_rng(3).normal(size=(WORLDS, sim.model.nv))
    run = sim.rollout(sim.state(v=v0), controls(cell.scene, sim.model, STEPS), steps=STEPS)
    q, v = run.q.numpy(), run.v.numpy()
    digest = hashlib.sha1(q.tobytes() + v.tobytes() + run.time.numpy().tobytes()).hexdigest()
    result = {"q": q[::EVERY].copy(), "v": v[::EVERY].copy(), "sha1": np.array(digest)}
    return result | {f"diagnostics_{name}": run.diagnostics[name].numpy().copy() for name in DIAGNOSTICS}


def restarts(cell: Combination, sim: ws.Simulator, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """States (restarts, steps, worlds, n) that follow on the given ones, each with a fresh memory."""
    table, rows = controls(cell.scene, sim.model, STEPS), {"restart_q": [], "restart_v": []}
    for k in range(len(q) - 1):
        part = None if table is None else table[k * EVERY : k * EVERY + RESTARTED]
        after = sim.rollout(sim.state(q[k], v[k]), part, steps=RESTARTED)
        rows["restart_q"].append(after.q.numpy()[1:].copy())
        rows["restart_v"].append(after.v.numpy()[1:].copy())
    return {name: np.array(values) for name, values in rows.items()}


def gradient(cell: Combination, model: ws.Model, q, v, first: int) -> dict[str, np.ndarray]:
    """Gradients of the loss after `HORIZON` steps, with the controls from step `first`; and Jacobians in closed form."""
    sim = cell.simulator(model, requires_grad=True)
    scalar, rng = {"float32": wp.float32, "float64": wp.float64}[cell.dtype], np.random.default_rng(7)
    options = {"dtype": scalar, "device": "cpu", "requires_grad": True}
    parameters = {name: sim.parameters[name] for name in PARAMETERS}
    state, loss, table = sim.state(q, v), wp.zeros(1, **options), controls(cell.scene, model, STEPS)
    if table is not None:
        table = wp.array(table[first : first + HORIZON], **options)
    with wp.Tape() as tape:
        final = sim.rollout(state, table, steps=HORIZON).final
        for x in (final.q, final.v):
            weight = wp.array(rng.normal(size=x.shape), **options | {"requires_grad": False})
            wp.launch(smooth_loss, dim=x.shape, inputs=[x, weight, loss], device="cpu")
    tape.backward(loss)
    found = {"q": state.q, "v": state.v, "control": table, **parameters}
    result = {f"gradient_{name}": x.grad.numpy().copy() for name, x in found.items() if x is not None}
    if cell.integrator == "symplectic" and cell.solver in ("SAP", "lagged", "NoContact"):
        control = None if table is None else table[0]
        names = (*COLUMNS, *(FIELD_COLUMNS if cell.scene == "pressure" else ()))
        J = sim.linearize(sim.state(q, v), control, parameters=names, force_jacobian=True)
        result |= {f"gradient_J_{name}": x.numpy().copy() for name, x in J.arrays().items()}
    return result


def first_line(error: Exception) -> str:
    """What a refusal says."""
    return str(error).splitlines()[0]


# comparison ----------------------------------------------------------------------------------------------------------


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same bits."""
    return (a.shape, a.dtype) == (b.shape, b.dtype) and a.tobytes() == b.tobytes()


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """Largest |a − b| by the largest |b|; infinite where shapes or non-finite entries differ."""
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    if same(a, b) or not a.size:
        return 0.0
    a, b = (np.where(np.isfinite(x), x, 0.0).astype(float) for x in (a, b))
    gap = np.abs(a - b).max()
    return float(gap / max(np.abs(b).max(), np.finfo(float).tiny)) if gap else 0.0


def worst(new: dict[str, np.ndarray], old: dict[str, np.ndarray], what: str) -> tuple[float, str]:
    """Largest difference of the arrays of a kind, "restart" or "gradient", and the name of its array."""
    names = [name for name in old if name.startswith(what + "_") and name in new and name != "gradient_refused"]
    return max(((difference(new[name], old[name]), name) for name in names), default=(0.0, ""))


def sensitivity(cell: Combination, model: ws.Model, stored: dict[str, np.ndarray]) -> str:
    """What moving every number of the stored states to a neighbour does to the judged numbers, by the present code."""
    rng, sim = np.random.default_rng(0), cell.simulator(model)
    moved = [
        np.nextafter(x, rng.choice([-np.inf, np.inf], x.shape).astype(x.dtype)) for x in (stored["q"], stored["v"])
    ]
    new, old = follow(cell, sim, *moved), follow(cell, sim, stored["q"], stored["v"])
    parts = [f"{what} {worst(new, old, what)[0]:.1e}" for what in ("restart", "gradient")]
    return f"(one round-off of the start changes {', '.join(parts)})"


def judge(
    cell: Combination, new: dict[str, np.ndarray], old: dict[str, np.ndarray], derivatives: bool = False
) -> tuple[str, bool]:
    """A line on one combination, and whether it is above a bar; `derivatives`: one of those of `DERIVATIVES`."""
    bars = (DERIVATIVES if derivatives else BARS)[cell.dtype]
    if "refused" in new or "refused" in old:
        if "refused" not in old:
            return f"REMOVED: refused now: {new['refused']}", True
        if "refused" not in new:
            return f"NEW: was refused: {old['refused']}", False
        return (
            "refused" if same(new["refused"], old["refused"]) else f"refused in other words: {new['refused']}"
        ), False
    words, bad = [], False
    gone = sorted(old.keys() - new.keys() - {"gradient_refused"})
    if gone:
        words, bad = [f"REMOVED: {', '.join(gone)}: {new.get('gradient_refused', '')}"], True
    if came := sorted(new.keys() - old.keys() - {"gradient_refused"}):
        words.append(f"NEW: {', '.join(came)}")
    both = [name for name in old if name in new and name != "gradient_refused"]
    if all(same(new[name], old[name]) for name in both):
        return "; ".join([*words, "same bits"]), bad
    if same(new["sha1"], old["sha1"]):
        words.append("trajectory same bits")
        for name in (name for name in both if name.startswith("diagnostics_")):
            if not same(new[name], old[name]):
                words, bad = (
                    [*words, f"{name.replace('_', ' ', 1)} DIFFER by {difference(new[name], old[name]):.1e}"],
                    True,
                )
    else:
        words.append(f"trajectory {max(difference(new[x], old[x]) for x in ('q', 'v')):.1e}")
        bad |= derivatives
    for what in ("restart", "gradient"):
        value, name = worst(new, old, what)
        above = value > bars[what]
        if name:
            words.append(f"{what} {value:.1e}" + (f" ABOVE {bars[what]:g} ({name})" if above else ""))
        bad |= above
    return "; ".join(words), bad


# files and command line ----------------------------------------------------------------------------------------------


def write(path: pathlib.Path, results: dict[Combination, dict[str, np.ndarray]], quick: bool) -> None:
    """Store the results, with what was asked for."""
    about = {"versions": {"warp": wp.config.version, "numpy": np.__version__, "mujoco": mujoco.__version__}}
    about |= {"quick": quick, "cells": [dataclasses.astuple(cell) for cell in results]}
    arrays = {f"{cell}/{name}": x for cell, found in results.items() for name, x in found.items()}
    with open(path, "wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)


def read(path: pathlib.Path) -> tuple[dict[Combination, dict[str, np.ndarray]], bool]:
    """The results of a file, and whether they are the quick ones."""
    with np.load(path) as file:
        about = json.loads(str(file["about"]))
        results: dict[Combination, dict[str, np.ndarray]] = {Combination(*names): {} for names in about["cells"]}
        by_name = {str(cell): found for cell, found in results.items()}
        for key in file.files:
            if key != "about":
                cell, name = key.rsplit("/", 1)
                by_name[cell][name] = file[key]
    return results, about["quick"]


def store(path: pathlib.Path, scenes, quick: bool) -> int:
    """Run the grid and write the file."""
    results, models = {}, {name: SCENES[name]() for name in scenes}
    for cell in grid(scenes, quick):
        begin = time.process_time()
        found = results[cell] = run(cell, models[cell.scene])
        refusal = found.get("refused", found.get("gradient_refused"))
        what = "stored" if refusal is None else f"{'refused' if 'refused' in found else 'no gradient'}: {refusal}"
        print(f"{cell}: {what} ({time.process_time() - begin:.1f} s)", flush=True)
    write(path, results, quick)
    print(f"{len(results)} combinations in {path}")
    return 0


def compare(path: pathlib.Path, scenes, quick: bool, derivatives: bool = False) -> int:
    """Rerun the grid of a file; 1 if a combination is above a bar."""
    stored, was_quick = read(path)
    scenes = list(dict.fromkeys(cell.scene for cell in stored)) if scenes is None else scenes
    cells, failed, equal, refused = grid(scenes, quick or was_quick), 0, 0, 0
    models = {name: SCENES[name]() for name in scenes if name in SCENES}
    wanted = set(cells) if quick else {cell for cell in stored if cell.scene in scenes}
    for cell in cells:
        if cell not in stored:
            print(f"{cell}: NEW: not in the file", flush=True)
            continue
        try:
            line, bad = judge(cell, run(cell, models[cell.scene], stored[cell]), stored[cell], derivatives)
            if "ABOVE" in line:
                line += " " + sensitivity(cell, models[cell.scene], stored[cell])
        except Exception as error:  # a line of the report
            line, bad = f"CRASHED: {type(error).__name__}: {error}", True
        failed, equal, refused = failed + bad, equal + line.endswith("same bits"), refused + (line == "refused")
        print(f"{cell}: {line}", flush=True)
    for cell in (cell for cell in stored if cell in wanted and cell not in cells):
        print(f"{cell}: REMOVED: not in the grid")
        failed += 1
    print(f"{len(cells)} combinations, {equal} with the same bits, {refused} refused as before, {failed} failed")
    return int(failed > 0)


def main(argv=None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--store", type=pathlib.Path, metavar="FILE.npz")
    action.add_argument("--compare", type=pathlib.Path, metavar="FILE.npz")
    parser.add_argument("--scenes", nargs="+", choices=list(SCENES), help="default: all, or those of the file")
    parser.add_argument("--quick", action="store_true", help="a part of the grid")
    parser.add_argument("--derivatives", action="store_true", help="same bits but for derivatives")
    arguments = parser.parse_args(argv)
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of geoms that overlap at the start
        if arguments.store:
            return store(arguments.store, arguments.scenes or list(SCENES), arguments.quick)
        return compare(arguments.compare, arguments.scenes, arguments.quick, arguments.derivatives)


if __name__ == "__main__":
    sys.exit(main())
