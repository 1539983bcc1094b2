"""Robot files that nobody here wrote: which load, whether they accelerate as in MuJoCo, and whether they stay calm.

    python -m benchmarks.corpus FOLDER [FOLDER …] [--out benchmarks/results] [--steps 100] [--seconds 120]

Every FOLDER (an unpacked package or checkout with MJCF files) is a row of the table. A file counts when MuJoCo compiles it.
What loads is compared in its acceleration at four random states with random controls, without contact, where
the file has no equality, dry friction or tendon limit; then two worlds run `steps` random steps with the defaults. A file is
read in a process of its own, at most `seconds` long, so that a crash or a hang is a line of the table.
"""

import argparse
import collections
import datetime
import importlib.metadata
import json
import multiprocessing
import pathlib
import re
import sys
import time
import warnings

import mujoco
import numpy as np
import warp as wp

import warpsim as ws
from warpsim import simulator

H = 1e-6  # [s], of the step whose change of velocity is the acceleration
WITHIN = 1e-6  # relative error that counts as equal
FAST = 1e3  # [m/s, rad/s]: a world faster than this has blown up, flagged or not


def acceleration_error(model, m: mujoco.MjModel, rng) -> float | None:
    """Worst relative error of the acceleration in the norm of M, or None where the file cannot be compared."""
    friction = np.any(m.dof_frictionloss) or np.any(m.tendon_frictionloss)
    if m.neq or friction or np.any(m.tendon_limited) or m.nv == 0:
        return None
    states, m.opt.disableflags = 4, m.opt.disableflags | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    m.opt.timestep, m.opt.integrator = H, mujoco.mjtIntegrator.mjINT_EULER
    sim = ws.Simulator(model, states, dt=H, solver=ws.NoContact(), dtype="float64", device="cpu")
    q, v = np.tile(m.qpos0, (states, 1)), 0.3 * rng.standard_normal((states, m.nv))
    limited = (m.jnt_limited > 0) & np.isin(m.jnt_type, (2, 3))
    for k in range(states):
        mujoco.mj_integratePos(m, q[k], 0.05 * rng.standard_normal(m.nv), 1.0)
        low, high = m.jnt_range[limited].T
        inside = m.jnt_qposadr[limited]
        q[k, inside] = np.clip(q[k, inside], 0.9 * low + 0.1 * high, 0.1 * low + 0.9 * high)
    u = rng.uniform(-1.0, 1.0, (states, m.nu))
    after = sim.step(sim.state(q, v), u if m.nu else None).v.numpy()
    worst, data, dense = 0.0, mujoco.MjData(m), np.zeros((m.nv, m.nv))
    for k in range(states):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[k], v[k], u[k]
        mujoco.mj_forward(m, data)
        mujoco.mj_fullM(m, data, dense)
        error = (after[k] - v[k]) / H - data.qacc
        scale = data.qacc @ dense @ data.qacc + 1e-4
        worst = max(worst, float(np.sqrt(max(error @ dense @ error, 0.0) / scale)))
    return worst


def examine(path: str, root: str, steps: int) -> dict:
    """What becomes of one file."""
    try:
        m = mujoco.MjModel.from_xml_path(path)
    except ValueError:
        return {"status": "no model"}
    start = time.perf_counter()
    try:
        model = ws.load(path, root=root)
    except ws.ModelError as error:
        return {"status": "refused", "why": str(error).replace(path, "").lstrip(": ")}
    row = {"status": "loaded", "seconds": time.perf_counter() - start}
    rng = np.random.default_rng(1)
    try:
        row["error"] = acceleration_error(model, m, rng)
        sim = ws.Simulator(model, 2, device="cpu")
        state, speed = sim.state(), 0.0
        for _ in range(steps):
            control = rng.uniform(-1.0, 1.0, (2, model.nu)) if model.nu else None
            state = sim.step(state, control, out=state)
            speed = max(speed, float(np.abs(state.v.numpy()).max(initial=0.0)))
    except (ws.ModelError, ValueError) as error:
        return row | {"status": "not simulated", "why": str(error)}
    return row | {"flags": int(np.bitwise_or.reduce(sim.diagnostics.flags.numpy())), "speed": speed}


def send(connection, path: str, root: str, steps: int) -> None:
    """`examine` in a forked process; what it says goes through `connection`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            connection.send(examine(path, root, steps))
        except Exception as error:  # a line of the table
            connection.send({"status": "crashed", "why": f"{type(error).__name__}: {error}"})


def in_a_process(path: pathlib.Path, root: pathlib.Path, steps: int, seconds: float) -> dict:
    """`examine` in a process of its own, forked after the imports and before Warp starts."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=send, args=(there, str(path), str(root), steps))
    process.start()
    there.close()
    try:
        row = here.recv() if here.poll(seconds) else {"status": "timed out"}
    except EOFError:
        process.join()
        row = {"status": "crashed", "why": f"exit {process.exitcode}"}
    process.kill()
    process.join()
    return row


def is_mjcf(path: pathlib.Path) -> bool:
    """Whether the file's root is <mujoco>, judged by its text."""
    return re.search(r"<mujoco\b", path.read_text(errors="replace")) is not None


def flag_names(bits: int) -> str:
    """Names of the flags in a mask."""
    names = ("NONFINITE", "NOT_CONVERGED", "CONTACT_OVERFLOW", "UNRESOLVED")
    return " ".join(n for n in names if bits & getattr(simulator, n, 0))


def report(rows: dict[str, dict[str, dict]], steps: int) -> str:
    """The Markdown page."""
    today, version = datetime.date.today(), importlib.metadata.version("mujoco")
    lines = [f"{today}; MuJoCo {version}; {steps} random steps, float32, defaults.", ""]
    lines += [
        f"| package | MuJoCo compiles | load | acceleration compared | within {WITHIN:g} | flagged | fast, no flag |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    refused, odd = collections.Counter(), []
    for package, files in rows.items():
        known = {name: row for name, row in files.items() if row["status"] != "no model"}
        loaded = {name: row for name, row in known.items() if "error" in row}
        compared = {name: row["error"] for name, row in loaded.items() if row["error"] is not None}
        flagged = [name for name, row in loaded.items() if row.get("flags")]
        fast = [n for n, row in loaded.items() if not row.get("flags") and not row.get("speed", 0.0) < FAST]
        same = sum(error <= WITHIN for error in compared.values())
        numbers = (len(known), len(loaded), len(compared), same, len(flagged), len(fast))
        lines.append(f"| {package} | " + " | ".join(map(str, numbers)) + " |")
        for name, row in known.items():
            if row["status"] == "refused":
                refused[re.sub(r"'[^']*'|\d+(\.\d+)?", "…", row["why"])[:110]] += 1
            elif row["status"] != "loaded":
                odd.append(f"| {package}/{name} | {row['status']}: {row.get('why', '')[:160]} |")
            elif not compared.get(name, 0.0) <= WITHIN:
                odd.append(f"| {package}/{name} | acceleration off by {compared[name]:.1e} |")
            elif row["flags"] or not row["speed"] < FAST:
                odd.append(
                    f"| {package}/{name} | {flag_names(row['flags']) or 'no flag'}, up to {row['speed']:.2g} per s |"
                )
    lines += ["", "| files | refused because |", "|---|---|"]
    lines += [f"| {count} | {why.replace('|', '/')} |" for why, count in refused.most_common()]
    lines += ["", "| file | what |", "|---|---|", *odd]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="folder for corpus.md and corpus.json")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120.0)
    arguments = parser.parse_args()
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    rows: dict[str, dict[str, dict]] = {}
    for folder in arguments.folders:
        files = rows[folder.name] = {}
        for path in sorted(p for p in folder.rglob("*.xml") if is_mjcf(p)):
            row = in_a_process(path, folder, arguments.steps, arguments.seconds)
            files[str(path.relative_to(folder))] = row
            print(folder.name, path.relative_to(folder), row, file=sys.stderr, flush=True)
    page = report(rows, arguments.steps)
    print(page)
    if arguments.out:
        (arguments.out / "corpus.md").write_text(page)
        (arguments.out / "corpus.json").write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
