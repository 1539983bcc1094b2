# SPDX-License-Identifier: Apache-2.0
"""Whether a world's bits are its own: however many others there are, in whatever order, on however many threads, shards and processes.

    python -m benchmarks.bits --out benchmarks/results

Every contact solver × integrator × dtype steps 4,096 ants on the ground, each with a start and controls of its own, in one simulator of one
thread. What the rollout records of a world is then compared, bit by bit, with that of other ways to make it. Exit code 1 where one differs.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.same_bits import DTYPES, INTEGRATORS, REFUSALS, SOLVERS
from warpsim.tools.bench import machine

MOST, STEPS = 4096, 24
DIAGNOSTICS = ("contacts", "energy", "flags", "iterations", "momentum_error")
SHARDS = (1, 2, 5)  # with the defaults; with every other solver and integrator the most


class Crowd:
    """Ants near the ground under one solver, integrator and dtype; world i is the same in any number of worlds."""

    def __init__(self, solver: str, integrator: str, dtype: str):
        self.model = ws.load(ws.robots.path("ant"))
        self.options = {"solver": SOLVERS[solver](), "integrator": INTEGRATORS[integrator](), "dtype": dtype}
        self.options |= {"device": "cpu", "dt": 0.005}
        m, rng = self.model, np.random.default_rng(7)
        q = np.tile(m.q0, (MOST, 1))
        q[:, 2] = rng.uniform(0.4, 0.6, MOST)
        q[:, 7:] = np.where(m.joint_limited, m.joint_range.mean(axis=1), 0.0)[1:] + 0.1 * rng.normal(
            size=(MOST, m.nq - 7)
        )
        self.q, self.v = q, 0.5 * rng.normal(size=(MOST, m.nv))
        self.table = (0.3 * rng.uniform(-1.0, 1.0, (STEPS, MOST, m.nu))).astype(dtype)

    def sim(self, worlds: int, threads: int = 1, **options) -> ws.Simulator:
        return ws.Simulator(self.model, worlds, threads=threads, **self.options, **options)

    def run(self, chosen, threads: int = 1, **options) -> dict[str, np.ndarray]:
        """What a rollout records of the worlds `chosen`, in that order."""
        chosen = np.asarray(chosen)
        sim = self.sim(len(chosen), threads, **options)
        return recorded(sim.rollout(sim.state(self.q[chosen], self.v[chosen]), self.table[:, chosen]))

    def taped(self, chosen) -> dict[str, np.ndarray]:
        sim = self.sim(len(chosen), requires_grad=True)
        with wp.Tape() as tape:
            trajectory = sim.rollout(sim.state(self.q[chosen], self.v[chosen]), self.table[:, chosen])
        found = recorded(trajectory)
        tape.backward(grads={trajectory.final.q: wp.ones_like(trajectory.final.q)})
        return found

    def replayed(self, chosen) -> dict[str, np.ndarray]:
        """Steps of a graph that `sim.capture` records."""
        sim = self.sim(len(chosen))
        state = sim.state(self.q[chosen], self.v[chosen])
        control = wp.zeros((len(chosen), self.model.nu), dtype=SCALARS[self.options["dtype"]], device="cpu")
        again = sim.capture(lambda: sim.step(state, control, out=state))
        first = sim.state(self.q[chosen], self.v[chosen])
        for name, array in state.arrays().items():
            array.assign(first.arrays()[name])
        rows = {name: [] for name in ("q", "v", "time", *DIAGNOSTICS)}
        for step in range(STEPS):
            control.assign(self.table[step, chosen])
            again()
            for name, kept in rows.items():
                source = getattr(state, name) if name in ("q", "v", "time") else getattr(sim.diagnostics, name)
                kept.append(source.numpy().copy())
        return {name: np.stack(kept) for name, kept in rows.items()}

    def resumed(self, chosen) -> dict[str, np.ndarray]:
        class Stop(Exception):
            pass

        def stop(step):
            if step == STEPS // 2:
                raise Stop

        sim = self.sim(len(chosen))
        with tempfile.TemporaryDirectory() as folder:
            try:
                state = sim.state(self.q[chosen], self.v[chosen])
                sim.rollout(state, self.table[:, chosen], store=f"{folder}/a.zarr", progress=stop)
            except Stop:
                pass
            return recorded(ws.resume(f"{folder}/a.zarr", device="cpu"))

    def shards(self, chosen, count: int) -> dict[str, np.ndarray]:
        """Over actors of Ray."""
        sim = self.sim(len(chosen))
        state = sim.state(self.q[chosen], self.v[chosen])
        return recorded(ws.cluster.rollout(self.model, state, self.table[:, chosen], shards=count, **self.options))


SCALARS = {"float32": wp.float32, "float64": wp.float64}


def recorded(trajectory) -> dict[str, np.ndarray]:
    """Rows after the start, by name."""
    found = {name: np.asarray(_host(getattr(trajectory, name)))[1:] for name in ("q", "v", "time")}
    return found | {name: np.asarray(_host(trajectory.diagnostics[name])) for name in DIAGNOSTICS}


def _host(array):
    return array.numpy() if hasattr(array, "numpy") else array


def same(found: dict, expected: dict, chosen) -> bool:
    """Equal bits, NaN and signs of zeros included."""
    for name, array in found.items():
        wanted = np.ascontiguousarray(expected[name][-len(array) :][:, chosen])
        if wanted.shape != array.shape or wanted.tobytes() != np.ascontiguousarray(array).tobytes():
            return False
    return True


def ways(crowd: Crowd, shards: tuple[int, ...]) -> dict:
    """Name -> [(worlds, how to run them)]."""
    order = np.random.default_rng(0).permutation(64)
    found = {
        "N = 1": [([i], crowd.run) for i in (0, 5, 63, 1000, MOST - 1)],
        **{f"N = {n:,}": [(range(n), crowd.run)] for n in (7, 64, 1024)},
        "order": [(order, crowd.run), (np.arange(MOST)[::-1][:100], crowd.run)],
        "2 threads": [(range(64), lambda chosen: crowd.run(chosen, 2))],
        "4 threads": [(range(64), lambda chosen: crowd.run(chosen, 4))],
        "taped": [(range(7), lambda chosen: crowd.taped(np.asarray(chosen)))],
        "graph": [(range(7), lambda chosen: crowd.replayed(np.asarray(chosen)))],
        "resumed": [(range(7), lambda chosen: crowd.resumed(np.asarray(chosen)))],
    }
    for n in shards:
        found[f"{n} shards"] = [(range(7), lambda chosen, n=n: crowd.shards(np.asarray(chosen), n))]
    return found


def combinations() -> list[tuple[str, str, str]]:
    return list(itertools.product(SOLVERS, INTEGRATORS, DTYPES))


def child(folder: pathlib.Path, every: list[tuple[str, str, str]]) -> None:
    """The same in a process of its own: 64 worlds of every combination into files."""
    for case in every:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                np.savez(folder / f"{'-'.join(case)}.npz", **Crowd(*case).run(range(64)))
            except REFUSALS:
                continue


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--integrators", nargs="+", default=list(INTEGRATORS), choices=list(INTEGRATORS))
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    cases = [c for c in combinations() if c[0] in a.solvers and c[1] in a.integrators]
    if a.child:
        child(a.child, cases)
        return 0
    start, rows = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.bits", "--child", folder]
        command += ["--solvers", *a.solvers, "--integrators", *a.integrators]
        other = subprocess.Popen(command)
        for case in cases:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(
                    check(case, () if a.no_ray else SHARDS if case[:2] == ("lagged", "symplectic") else SHARDS[-1:])
                )
            if rows[-1]["refused"] is None:
                rows[-1]["expected"] = rows[-1].pop("arrays")
        other.wait()
        for row in rows:
            if row["refused"] is None:
                with np.load(pathlib.Path(folder) / f"{row['solver']}-{row['integrator']}-{row['dtype']}.npz") as found:
                    row["same"]["two processes"] = same(dict(found), row.pop("expected"), range(64))
    result = {"machine": machine(wp.get_device("cpu")), "seconds": time.perf_counter() - start, "rows": rows}
    text = markdown(result)
    print(text)
    if a.out:
        (a.out / "bits.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "bits.md").write_text(text)
    return 0 if all(all(row["same"].values()) for row in rows) else 1


def check(case: tuple[str, str, str], shards: tuple[int, ...]) -> dict:
    """Which ways to run one combination give the bits of the crowd."""
    row = dict(zip(("solver", "integrator", "dtype"), case, strict=True)) | {"refused": None, "same": {}}
    crowd, begun = Crowd(*case), time.perf_counter()
    try:
        crowd.sim(1)
    except REFUSALS as error:
        return row | {"refused": str(error)}
    expected = crowd.run(range(MOST))
    row |= {"contacts": int(expected["contacts"].sum()), "flagged": int((expected["flags"][-1] > 0).sum())}
    for name, runs in ways(crowd, shards).items():
        try:
            row["same"][name] = all(same(how(chosen), expected, np.asarray(chosen)) for chosen, how in runs)
        except NotImplementedError:  # gradients, of those that have none
            continue
    row |= {"arrays": {name: array[:, :64] for name, array in expected.items()}, "seconds": time.perf_counter() - begun}
    print(
        *case, {n: "same" if x else "DIFFERENT" for n, x in row["same"].items()}, f"{row['seconds']:.0f} s", flush=True
    )
    return row


def markdown(result: dict) -> str:
    rows = [row for row in result["rows"] if row["refused"] is None]
    names = list(dict.fromkeys(name for row in rows for name in row["same"]))
    lines = [
        "# Whose bits a world has",
        "",
        "| solver, integrator, dtype | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for row in rows:
        words = [{True: "same", False: "**other**", None: "–"}[row["same"].get(name)] for name in names]
        lines.append(f"| {row['solver']}, {row['integrator']}, {row['dtype']} | " + " | ".join(words) + " |")
    refused = [f"{row['solver']} with {row['integrator']}" for row in result["rows"] if row["refused"]]
    m = result["machine"]
    lines += [
        "",
        f"Each beside {MOST:,} ants in one simulator of one thread, {STEPS} steps, everything that a rollout records.",
    ]
    lines += [
        f"Refused together: {', '.join(sorted(set(refused))) or 'none'}.",
        f"{m['date']}, {m['processor']}, {m['cores']} cores",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
