# SPDX-License-Identifier: Apache-2.0
"""Steps on one core beside MuJoCo C: robots, piles, chains; and what a large scene takes.

    python -m benchmarks.one_core [--corpus FOLDER] [--only NAME ...] [--starts settled fallen thrown] [--repeats 2] [--out benchmarks/results]

Every scene in our contact laws and in MuJoCo's, float32, against MuJoCo C (Newton, Euler, float64) in one thread: the same start states, the same
controls, engines by turns; median of the ratios of processor time over the rounds of three seeds. Starts are made by MuJoCo: settled under random
controls; for the robots of ROBOTS also fallen (3 s without control, so that they lie) and thrown (0.5 to 1 m up, turned and moving at random, so
that worlds fly and land while they are timed). All are timed under random controls. --corpus: a folder with the
packages dm_control and robosuite, unpacked (`make corpus` makes build/corpus), for humanoid_CMU and the Panda. Large scenes: one world,
time per step, memory and loading. --out writes one_core.json and one_core.md.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import mujoco
import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import asset, clutter
from warpsim.tools.bench import by_turns, machine, random_controls
from warpsim.tools.bench_engines import MujocoEngine, Scene, WarpsimEngine

OWN_STEPS, TIMED_STEPS, STARTS_OF_A_SEED, SEEDS = 20, 200, 16, (0, 1, 2)
ROBOTS, STARTS, FALL = ("humanoid", "ant", "half_cheetah"), ("settled", "fallen", "thrown"), 3.0  # [s]
LAWS = {
    "convex": lambda: ws.SAP(approximation="convex"),
    "default": lambda: ws.SAP(),
    "same law": lambda: ws.MuJoCo(),
}
CHAINS = (16, 32, 64, 128, 256)


class Engine(WarpsimEngine):
    """This package on a MuJoCo model, in one of its contact laws."""

    def __init__(self, scene: Scene, worlds: int, controls: np.ndarray, solver):
        self.on_gpu, self.controls = False, controls
        self.sim = ws.Simulator(
            ws.load(scene.mj_model), worlds, dt=scene.dt, device="cpu", threads=1, dtype="float32", solver=solver
        )
        self.start = self.sim.state(*scene.starts(worlds))
        self.state = self.start.clone()


def spheres(count: int) -> str:
    """A pile in a walled square, as in `scenes.examples.clutter`, of spheres and boxes."""
    rng = np.random.default_rng(0)
    bodies = []
    for i in range(count):
        x, y = ((i % 2) - 0.5) * 0.3 + rng.uniform(-0.01, 0.01), ((i // 2 % 2) - 0.5) * 0.3 + rng.uniform(-0.01, 0.01)
        size = 'type="sphere" size="0.05"' if (i + i // 4) % 2 == 0 else 'type="box" size="0.05 0.05 0.05"'
        bodies.append(f'<body pos="{x} {y} {0.1 + 0.15 * (i // 4)}"><freejoint/><geom {size} density="1000"/></body>')
    walls = "".join(
        f'<geom type="plane" pos="{0.4 * x} {0.4 * y} 0" zaxis="{-x} {-y} 0" size="2 2 0.1"/>'
        for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1))
    )
    return _scene(f'<geom type="plane" size="2 2 0.1"/>{walls}{"".join(bodies)}', timestep=0.01)


def arm(boxes: int) -> str:
    """A seven-jointed arm with a gripper, position servos on all of it, and boxes on the ground."""
    links, ends, servos = [], 0, []
    for k in range(7):
        axis = "0 0 1" if k % 2 == 0 else "0 1 0"
        links.append(
            f'<body pos="0 0 {0.15 if k else 0.1}"><joint name="j{k}" axis="{axis}" range="-2.5 2.5" damping="1"/>'
            f'<geom type="capsule" size="0.04" fromto="0 0 0 0 0 0.12" mass="{3 - 0.3 * k}"/>'
        )
        ends += 1
        servos.append(f'<position joint="j{k}" kp="200" kv="20" ctrlrange="-1 1" forcerange="-87 87"/>')
    for side in (-1, 1):
        links.append(
            f'<body pos="0 {0.03 * side} 0.15"><joint name="f{side}" type="slide" axis="0 {side} 0" range="-0.02 0.04"/>'
            '<geom type="box" size="0.01 0.01 0.04" mass="0.05"/></body>'
        )
        servos.append(f'<position joint="f{side}" kp="500" kv="10" ctrlrange="-0.02 0.04" forcerange="-20 20"/>')
    free = "".join(
        f'<body pos="{0.4 + 0.2 * i} 0 0.05"><freejoint/><geom type="box" size="0.04 0.04 0.04" density="500"/></body>'
        for i in range(boxes)
    )
    body = f'<geom type="plane" size="2 2 0.1"/>{"".join(links)}{"</body>" * ends}{free}'
    return _scene(body, f"<actuator>{''.join(servos)}</actuator>")


def chain(links: int) -> str:
    """Hinges in a row that touch nothing."""
    link = '<body pos="0 0 {}"><joint axis="{}" damping="0.01"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.1" mass="0.1" contype="0" conaffinity="0"/>'
    return _scene(
        "".join(link.format(-0.1 if k else 0, ("0 1 0", "1 0 0")[k % 2]) for k in range(links)) + "</body>" * links
    )


def three_humanoids() -> mujoco.MjModel:
    return several_humanoids(3)


def several_humanoids(count: int) -> mujoco.MjModel:
    """Copies of gymnasium's humanoid on one ground."""
    spec = mujoco.MjSpec.from_file(asset("humanoid"))
    for k in range(1, count):
        frame = spec.worldbody.add_frame(pos=[1.0 * (k % 10), 1.0 * (k // 10), 0])
        other = mujoco.MjSpec.from_file(asset("humanoid"))
        frame.attach_body(other.worldbody.first_body(), f"r{k}_", "")
    return spec.compile()


def _scene(body: str, rest: str = "", timestep: float = 0.002) -> str:
    return f'<mujoco><option timestep="{timestep}"/><worldbody>{body}</worldbody>{rest}</mujoco>'


def _from_text(text: str) -> Callable[[], mujoco.MjModel]:
    return lambda: mujoco.MjModel.from_xml_string(text)


def _from_file(path: str) -> Callable[[], mujoco.MjModel]:
    return lambda: mujoco.MjModel.from_xml_path(path)


def scenes(corpus: pathlib.Path | None) -> dict[str, tuple[Callable[[], mujoco.MjModel], int, float, float]]:
    """Model, worlds, seconds of settling, and the share of the control range; files that are not there are left out."""
    found = {name: (_from_file(asset(name)), 64, 1.0, 1.0) for name in ("humanoid", "ant", "half_cheetah")}
    found["humanoid, lying"] = (_from_file(asset("humanoid")), 64, 4.0, 0.0)
    if corpus is not None:
        for name, pattern, worlds in (
            ("humanoid_CMU", "suite/humanoid_CMU.xml", 16),
            ("Panda", "robots/panda/robot.xml", 64),
        ):
            for path in sorted(corpus.rglob(pattern))[:1]:
                found[name] = (_from_file(str(path)), worlds, 1.0, 1.0)
    found["arm, gripper, servos"] = (_from_text(arm(0)), 64, 0.5, 1.0)
    found["the same and 2 boxes"] = (_from_text(arm(2)), 64, 0.5, 1.0)
    found["3 humanoids"] = (three_humanoids, 16, 1.0, 1.0)
    found["pile of 40"] = (_from_text(spheres(40)), 4, 2.0, 1.0)
    found |= {f"chain {n}": (_from_text(chain(n)), 16 if n <= 64 else 4, 0.1, 1.0) for n in CHAINS}
    found["humanoid, 1 world"] = (_from_file(asset("humanoid")), 1, 1.0, 1.0)
    found["ant, 1 world"] = (_from_file(asset("ant")), 1, 1.0, 1.0)
    return found


def throw(model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
    """Half a meter to a meter up, turned at random, with velocities of 1 m/s and 1 rad/s."""
    upward = [j for j in range(model.njnt) if model.jnt_bodyid[j] == 1 and abs(model.jnt_axis[j, 2]) > 0.9]
    if model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE:
        data.qpos[2] += rng.uniform(0.5, 1.0)
        data.qpos[3:7] = rng.normal(size=4)
    else:
        data.qpos[model.jnt_qposadr[upward[0]]] += rng.uniform(0.5, 1.0)
    mujoco.mj_normalizeQuat(model, data.qpos)
    data.qvel[:] = rng.normal(size=model.nv)


def begin(
    name: str, model: mujoco.MjModel, seconds: float, share: float, start: str = "settled", seed: int = 0
) -> Scene:
    """Start states: after random controls, after a fall without control, or thrown."""
    model.opt.integrator, model.opt.solver = mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtSolver.mjSOL_NEWTON
    rng, data, states = np.random.default_rng(seed), mujoco.MjData(model), []
    seconds, share = {"settled": (seconds, share), "fallen": (FALL, 0.0), "thrown": (0.0, 0.0)}[start]
    for _ in range(STARTS_OF_A_SEED):
        mujoco.mj_resetData(model, data)
        data.qvel[:] = rng.normal(0.0, 0.1, model.nv)
        if start == "thrown":
            throw(model, data, rng)
        for _ in range(round(seconds / model.opt.timestep)):
            data.ctrl[:] = share * random_controls(model, rng, ())
            mujoco.mj_step(model, data)
        states.append((data.qpos.copy(), data.qvel.copy()))
    q, v = (np.array(part) for part in zip(*states, strict=True))
    return Scene(name, "", model, q, v, 0, 0)


def race(name: str, make, worlds: int, seconds: float, share: float, repeats: int, start: str = "settled") -> dict:
    """Processor time per world-step of MuJoCo C and of our laws, and how many times as fast as MuJoCo C they are."""
    model, times, facts = make(), collections.defaultdict(list), collections.defaultdict(list)
    steps = max(10, min(TIMED_STEPS, 20000 // (worlds * max(1, model.nv // 20))))
    for seed in SEEDS:
        scene = begin(name, model, seconds, share, start, seed)
        controls = share * random_controls(model, np.random.default_rng(seed + 1), (OWN_STEPS + steps, worlds))
        controls = controls.astype(np.float32)
        runners = {"mujoco": MujocoEngine(scene, worlds, controls, None)}
        for law, solver in LAWS.items():
            with contextlib.suppress(ValueError):  # float32 refuses deep trees under MuJoCo's law
                runners[law] = Engine(scene, worlds, controls, solver())
        for law, spent in by_turns(runners, repeats, OWN_STEPS, OWN_STEPS + steps).items():
            times[law] += [x / (worlds * steps) * 1e6 for x in spent]
            facts[law].append(runners[law].facts())
    row = {"scene": name, "start": start, "nv": int(model.nv), "worlds": worlds}
    for law in runners:
        row[f"{law}_us"] = statistics.median(times[law])
        row[f"{law}_contacts"] = statistics.mean(x["contacts_per_world"] for x in facts[law])
    for law in runners.keys() & LAWS.keys():
        row[f"{law}_iterations"] = statistics.mean(x["iterations"] for x in facts[law])
        row[f"{law}_bytes"] = facts[law][-1]["bytes_per_world"]
        row[f"{law}_flagged"] = sum(x["flagged_worlds"] for x in facts[law])
        row[f"{law}_speed"] = statistics.median(a / b for a, b in zip(times["mujoco"], times[law], strict=True))
    return row


def large(name: str, make: Callable[[], ws.Model], steps: int) -> dict:
    """One world of a large scene: seconds to load it and to make the simulator, per step, and memory."""
    begin = time.process_time()
    model = make()
    loaded = time.process_time()
    sim = ws.Simulator(model, 1, device="cpu", threads=1)
    made = time.process_time()
    state = sim.state()
    sim.step(state, out=state)
    times = []
    for _ in range(steps):
        start = time.process_time()
        sim.step(state, out=state)
        times.append(time.process_time() - start)
    return {
        "scene": name, "nv": model.nv, "load_s": loaded - begin, "make_s": made - loaded,
        "step_s": statistics.median(times), "last_step_s": times[-1], "bytes": sim.bytes_per_world(),
        "contacts": int(sim.diagnostics.contacts.numpy()[0]),
    }  # fmt: skip


def markdown(result: dict) -> str:
    m = result["machine"]
    lines = [
        "# Steps on one core beside MuJoCo C",
        "",
        f"`python -m benchmarks.one_core`, {m['processor']}, {m['date']}, Warp {m['versions']['warp-lang']}, "
        f"MuJoCo {m['versions']['mujoco']}. One thread, float32 (MuJoCo: float64), medians of {result['repeats']} rounds by turns of each of {len(SEEDS)} "
        "seeds. Starts: settled under random controls, fallen (3 s without control) or thrown (0.5 to 1 m up); timed under random controls (lying: "
        "none). Speed: MuJoCo C's time over ours. Contacts per world at the end in brackets: laws differ, and so do motions; 'same law' is "
        "`ws.MuJoCo()`, converged to 1e-5; a dash: float32 refuses it.",
        "",
        "| scene | start | nv | worlds | MuJoCo C, µs | "
        + " | ".join(f"{law}, µs" for law in LAWS)
        + " | "
        + " | ".join(f"speed, {law}" for law in LAWS)
        + " | kB per world, default |",
        "|---" * (6 + 2 * len(LAWS)) + "|",
    ]
    for r in result["rows"]:
        ours = " | ".join(
            f"{r[law + '_us']:.1f} ({r[law + '_contacts']:.1f})" if law + "_us" in r else "–" for law in LAWS
        )
        speed = " | ".join(f"{r[law + '_speed']:.2f}" if law + "_us" in r else "–" for law in LAWS)
        lines.append(
            f"| {r['scene']} | {r['start']} | {r['nv']} | {r['worlds']} | {r['mujoco_us']:.1f} ({r['mujoco_contacts']:.1f}) | {ours} | {speed} | "
            f"{r['default_bytes'] / 1e3:.1f} |"
        )
    if result["large"]:
        lines += [
            "",
            "| large scene, 1 world | nv | load, s | make, s | step, s | MB | contacts |",
            "|---|---|---|---|---|---|---|",
        ]
    for r in result["large"]:
        lines.append(
            f"| {r['scene']} | {r['nv']} | {r['load_s']:.1f} | {r['make_s']:.1f} | {r['step_s']:.3f} | {r['bytes'] / 1e6:.1f} | {r['contacts']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--starts", nargs="*", choices=STARTS, default=STARTS)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    mujoco.set_mju_user_warning(lambda message: None)
    result: dict = {"machine": machine(wp.get_device("cpu")), "repeats": options.repeats}
    result |= {"rows": [], "large": []}
    for name, (make, worlds, seconds, share) in scenes(options.corpus).items():
        if options.only is not None and not any(part in name for part in options.only):
            continue
        for start in options.starts if name in ROBOTS else set(options.starts) & {"settled"}:
            row = race(name, make, worlds, seconds, share, options.repeats, start)
            result["rows"].append(row)
            print(
                f"{name:22s} {start:7s} nv {row['nv']:4d} worlds {worlds:3d}  C {row['mujoco_us']:8.1f} ({row['mujoco_contacts']:.1f})  "
                + "  ".join(
                    f"{law} {row[law + '_us']:8.1f} ({row[law + '_contacts']:.1f}, {row[law + '_iterations']:.1f} it) × {row[law + '_speed']:.2f}"
                    for law in LAWS
                    if law + "_us" in row
                )
                + f"  {row['default_bytes'] / 1e3:.1f} kB",
                flush=True,
            )
    if options.only is None or "large" in options.only:
        for name, make, steps in (
            ("1,000 bodies", lambda: clutter(1000), 40),
            ("100 humanoids", lambda: ws.load(several_humanoids(100)), 20),
        ):
            result["large"].append(large(name, make, steps))
            print(result["large"][-1], flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "one_core.json").write_text(json.dumps(result, indent=1) + "\n")
        (options.out / "one_core.md").write_text(markdown(result))


if __name__ == "__main__":
    main()
