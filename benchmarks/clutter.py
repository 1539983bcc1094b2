# SPDX-License-Identifier: Apache-2.0
"""The clutter of the SAP paper, §VI-C: does it settle, how deep, how much slip, how many iterations, how fast.

    python -m benchmarks.clutter [--drake] [--bodies 8 20 40 80] [--seconds 10] [--worlds 256] [--out benchmarks/results]

With --drake the same scenes run in Drake (pip install drake), turn about, in one thread, in float64. --worlds N measures
the speed of N worlds too. --out writes clutter.json and clutter.md. docs/clutter.md explains the numbers.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import clutter
from warpsim.tools.bench import machine

H = 0.01  # [s]
SETTLED = 2.0  # the last seconds, over which iterations "after settling" are averaged
SCENES = (("spheres", True), ("spheres", False), ("mixed", True), ("mixed", False))
# Many worlds: seconds that the pile is let fall before the clock starts, and steps on the clock.
FALL, TIMED_STEPS = 1.5, 50
JITTER = 0.005  # [m] worlds differ by this much in the bodies' start positions


class Warpsim:
    """One world; `run` lets the scene fall from its start and returns seconds of CPU time."""

    def __init__(self, model: ws.Model, seconds: float):
        self.sim = ws.Simulator(model, 1, dt=H, dtype="float64", device="cpu")
        self.steps, self.state = round(seconds / H), self.sim.state()
        for _ in range(5):  # compile, capture
            self.sim.step(self.state, out=self.state)

    def run(self) -> float:
        sim, state = self.sim, self.state
        sim.reset(state, [0])
        begin = time.process_time()
        for _ in range(self.steps):
            sim.step(state, out=state)
        return time.process_time() - begin

    def observe(self) -> dict:
        """The same run again, off the clock, with everything read after every step."""
        sim, state, d = self.sim, self.state, self.sim.diagnostics
        sim.reset(state, [0])
        iterations, errors, depths, slips, speeds = [], [], [], [], []
        for _ in range(self.steps):
            sim.step(state, out=state)
            contacts = sim.last_contacts
            count = int(contacts.count[0])
            phi = contacts.phi[0, :count]
            # Tangential velocities at the step's end; v_hat has no tangential part.
            slip = np.linalg.norm(sim._step.solver.work.u_c.numpy()[0, :count, :2], axis=1)
            iterations.append(int(d.iterations.numpy()[0]))
            errors.append(float(d.momentum_error.numpy()[0]))
            depths.append(float(max(0.0, -phi.min(initial=0.0))))
            slips.append(float(slip[phi < 0].mean()) if (phi < 0).any() else 0.0)
            speeds.append(float(np.abs(state.v.numpy()).max()))
        last, half = round(SETTLED / H), self.steps // 2
        return {
            "contacts": int((phi < 0).sum()),
            "depth": depths[-1],
            "slip": slips[-1],
            "fastest": speeds[-1],
            "iterations": float(np.mean(iterations)),
            "iterations_last_half": float(np.mean(iterations[half:])),
            "iterations_settled": float(np.mean(iterations[-last:])),
            "iterations_most": max(iterations),
            "momentum_error": max(errors),
            "flags": int(d.flags.numpy()[0]),
            "finite": bool(np.isfinite(state.q.numpy()).all() and np.isfinite(state.v.numpy()).all()),
        }


class Drake:
    """The same scene in Drake: SAP, point contact. Series stiffness as here; its dissipation times add, so h/2 each."""

    def __init__(self, model: ws.Model, seconds: float):
        from pydrake.geometry import Box, HalfSpace, ProximityProperties, Sphere
        from pydrake.math import RigidTransform, RotationMatrix
        from pydrake.multibody.plant import (
            AddMultibodyPlantSceneGraph,
            ContactModel,
            CoulombFriction,
            DiscreteContactApproximation,
        )
        from pydrake.multibody.tree import SpatialInertia, UnitInertia
        from pydrake.systems.analysis import Simulator
        from pydrake.systems.framework import DiagramBuilder

        builder = DiagramBuilder()
        plant, _ = AddMultibodyPlantSceneGraph(builder, time_step=H)
        plant.set_contact_model(ContactModel.kPoint)
        plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        plant.mutable_gravity_field().set_gravity_vector(model.gravity)
        bodies = []
        for b, name in enumerate(model.body_names):
            mass = model.body_mass[b]
            I = model.body_inertia[b] / mass
            unit = UnitInertia(I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
            bodies.append(plant.AddRigidBody(name, SpatialInertia(mass, model.body_com[b], unit)))
        for g in range(model.ngeom):
            kind, size, pose = ws.GeomType(model.geom_type[g]), model.geom_size[g], model.geom_pose[g]
            shapes = {ws.GeomType.PLANE: lambda s: HalfSpace(), ws.GeomType.SPHERE: lambda s: Sphere(s[0])}
            shape = shapes.get(kind, lambda s: Box(*(2 * s)))(size)
            properties = ProximityProperties()
            mu, tau = float(model.geom_friction[g]), float(model.geom_dissipation_time[g]) / 2
            properties.AddProperty("material", "coulomb_friction", CoulombFriction(mu, mu))
            properties.AddProperty("material", "point_contact_stiffness", float(model.geom_stiffness[g]))
            properties.AddProperty("material", "relaxation_time", tau)
            properties.AddProperty("material", "hunt_crossley_dissipation", 0.0)
            body = plant.world_body() if model.geom_body[g] < 0 else bodies[model.geom_body[g]]
            X = RigidTransform(RotationMatrix(_rotation(pose[3:])), pose[:3])
            plant.RegisterCollisionGeometry(body, X, shape, f"geom_{g}", properties)
        plant.Finalize()
        self.plant, self.diagram, self.seconds = plant, builder.Build(), seconds
        self.simulator = Simulator(self.diagram)
        self.context = plant.GetMyMutableContextFromRoot(self.simulator.get_mutable_context())
        self.starts = []
        for b, body in enumerate(bodies):
            q = model.q0[7 * b : 7 * b + 7]
            self.starts.append((body, RigidTransform(RotationMatrix(_rotation(q[3:])), q[:3])))
        self._reset()
        self.simulator.AdvanceTo(2 * H)

    def _reset(self) -> None:
        self.simulator.get_mutable_context().SetTime(0.0)
        self.plant.SetVelocities(self.context, np.zeros(self.plant.num_velocities()))
        for body, X in self.starts:
            self.plant.SetFreeBodyPose(self.context, body, X)
        self.simulator.Initialize()

    def run(self) -> float:
        self._reset()
        begin = time.process_time()
        self.simulator.AdvanceTo(self.seconds)
        return time.process_time() - begin

    def observe(self) -> dict:
        """State at the end of the last run. Drake keeps its iteration counts to itself."""
        results = self.plant.get_contact_results_output_port().Eval(self.context)
        found = [results.point_pair_contact_info(i) for i in range(results.num_point_pair_contacts())]
        v = self.plant.GetVelocities(self.context)
        return {
            "contacts": len(found),
            "depth": max((c.point_pair().depth for c in found), default=0.0),
            "slip": float(np.mean([c.slip_speed() for c in found])) if found else 0.0,
            "fastest": float(np.abs(v).max()),
            "finite": bool(np.isfinite(v).all()),
        }


def _rotation(quaternion) -> np.ndarray:
    """Matrix of a unit quaternion w, x, y, z."""
    w, x, y, z = np.asarray(quaternion, dtype=float)
    u = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * u + 2 * u @ u


def one_world(bodies: int, shapes: str, walls: bool, seconds: float, repeats: int, with_drake: bool) -> list[dict]:
    """One row per engine: they take turns, the first one changing with every repeat."""
    model = clutter(bodies, walls=walls, shapes=shapes, h=H)
    engines = {"warpsim": Warpsim(model, seconds)}
    if with_drake:
        engines["drake"] = Drake(model, seconds)
    spent = {name: [] for name in engines}
    for repeat in range(repeats):
        for name in sorted(engines, reverse=repeat % 2 == 0):
            spent[name].append(engines[name].run())
    rows = []
    for name, engine in engines.items():
        ms = 1e3 * statistics.median(spent[name]) * H / seconds
        scene = {"shapes": shapes, "walls": walls, "bodies": bodies, "engine": name, "ms_per_step": ms}
        rows.append({**scene, **engine.observe()})
    return rows


def many_worlds(bodies: int, worlds: int, dtype: str) -> dict:
    """World-steps per CPU-second of `worlds` piles that started a little apart, after `FALL` seconds."""
    model = clutter(bodies, h=H)
    sim = ws.Simulator(model, worlds, dt=H, dtype=dtype, device="cpu")
    q = np.tile(model.q0, (worlds, 1)).reshape(worlds, bodies, 7)
    q[:, :, :2] += np.random.default_rng(0).uniform(-JITTER, JITTER, (worlds, bodies, 2))
    state = sim.state(q=q.reshape(worlds, -1))
    for _ in range(round(FALL / H)):
        sim.step(state, out=state)
    spent, iterations = [], []
    for _ in range(TIMED_STEPS):
        begin = time.process_time()
        sim.step(state, out=state)
        spent.append(time.process_time() - begin)
        iterations.append(sim.diagnostics.iterations.numpy().mean())
    return {
        "bodies": bodies,
        "worlds": worlds,
        "dtype": dtype,
        "world_steps_per_second": worlds * TIMED_STEPS / sum(spent),
        "iterations": float(np.mean(iterations)),
        "contacts": float(sim.diagnostics.contacts.numpy().mean()),
        "flags": int(sim.diagnostics.flags.numpy().max()),
        "finite": bool(np.isfinite(state.q.numpy()).all()),
    }


def beside(rows: list[dict]) -> list[str]:
    """A line per scene with both engines in a cell, as far as they ran."""
    lines = [
        "| scene | bodies | ms/step: warpsim / Drake | faster | contacts | depth m | slip m/s | iterations mean / last 2 s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    scenes: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        scenes.setdefault((row["shapes"], row["walls"], row["bodies"]), {})[row["engine"]] = row
    for (shapes, walls, bodies), engines in scenes.items():
        both = [engines[name] for name in ("warpsim", "drake") if name in engines]
        forms = {"ms_per_step": ".3g", "contacts": "", "depth": ".1e", "slip": ".1e"}
        cells = [" / ".join(f"{row[key]:{form}}" for row in both) for key, form in forms.items()]
        cells.insert(1, f"{both[1]['ms_per_step'] / both[0]['ms_per_step']:.1f}×" if len(both) == 2 else "")
        iterations = f"{both[0]['iterations']:.2g} / {both[0]['iterations_settled']:.2g}"
        lines.append(f"| {shapes}, {'walls' if walls else 'open'} | {bodies} | {' | '.join(cells)} | {iterations} |")
    return lines


def markdown(result: dict) -> str:
    """The tables, and the machine below them."""
    lines = []
    if result["rows"]:
        lines += [*beside(result["rows"]), ""]
        lines += [
            "| scene | bodies | engine | ms/step | contacts | depth m | slip m/s | fastest m/s, rad/s | iterations "
            "mean / last 5 s / last 2 s | worst e_m |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
    for r in result["rows"]:
        iterations, error = "not told", ""
        if "iterations" in r:
            iterations = " / ".join(f"{r[f'iterations{k}']:.2g}" for k in ("", "_last_half", "_settled"))
            error = f"{r['momentum_error']:.1e}" + ("" if r["flags"] == 0 else f", flags {r['flags']}")
        numbers = f"{r['contacts']} | {r['depth']:.1e} | {r['slip']:.1e} | {r['fastest']:.1e}"
        scene = f"{r['shapes']}, {'walls' if r['walls'] else 'open'} | {r['bodies']} | {r['engine']}"
        lines.append(f"| {scene} | {r['ms_per_step']:.3g} | {numbers} | {iterations} | {error} |")
    if result["worlds"]:
        lines += ["", "| mixed, walls: bodies | worlds | dtype | world-steps/s | iterations | contacts | flags |"]
        lines.append("|---|---|---|---|---|---|---|")
    for r in result["worlds"]:
        speed = f"{r['world_steps_per_second']:,.0f} | {r['iterations']:.2g} | {r['contacts']:.0f} | {r['flags']}"
        lines.append(f"| {r['bodies']} | {r['worlds']} | {r['dtype']} | {speed} |")
    m = result["machine"]
    versions = ", ".join(f"{name} {m['versions'][name]}" for name in ("warpsim", "warp-lang", "drake"))
    where = f"{m['date']}, {m['processor']}, {m['cores']} cores, one thread, load {result['load']:.1f} at the start"
    lines += ["", f"{where}; {versions}; {result['seconds']:g} s"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, nargs="*", default=[8, 20, 40, 80])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--drake", action="store_true", help="the same scenes in Drake")
    parser.add_argument("--worlds", type=int, default=0, help="measure 20 and 40 bodies in so many worlds too")
    parser.add_argument("--out", type=pathlib.Path, help="folder for clutter.json and clutter.md")
    arguments = parser.parse_args()
    wp.config.quiet = True
    with_drake = arguments.drake and importlib.util.find_spec("pydrake") is not None
    if arguments.drake and not with_drake:
        print("pydrake is not installed, Drake is left out; run: pip install drake")
    result = {"machine": machine(wp.get_device("cpu")), "load": os.getloadavg()[0], "seconds": arguments.seconds}
    result |= {"rows": [], "worlds": []}
    result["machine"]["versions"]["drake"] = importlib.metadata.version("drake") if with_drake else "not run"
    for shapes, walls in SCENES:
        for bodies in arguments.bodies:
            rows = one_world(bodies, shapes, walls, arguments.seconds, arguments.repeats, with_drake)
            result["rows"] += rows
            for r in rows:
                print(
                    shapes, "walls" if walls else "open", bodies, *(f"{k} {r[k]:.3g}" for k in list(r)[4:]), flush=True
                )
    if arguments.worlds:
        for bodies in (20, 40):
            for dtype in ("float32", "float64"):
                result["worlds"].append(many_worlds(bodies, arguments.worlds, dtype))
                print(result["worlds"][-1], flush=True)
    print("\n" + markdown(result))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "clutter.json").write_text(json.dumps(result, indent=1) + "\n")
        (arguments.out / "clutter.md").write_text(markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
