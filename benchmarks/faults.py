# SPDX-License-Identifier: Apache-2.0
"""Faults put into one of 1,024 worlds: no other world may change by a bit, what is not finite must be flagged, and a reset must heal.

    python -m benchmarks.faults --out benchmarks/results

Every contact solver × integrator × dtype; ants on the ground. A fault stands in the state, its memory, the control, a force, or the parameters
before a step; after four steps all other worlds are compared with those of a run without it. The world is then put back, with its parameters, and
must move as one that nothing happened to. Exit code 1 where any of this fails.
"""

import argparse
import json
import pathlib
import sys
import time
import warnings

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.bits import Crowd, combinations
from benchmarks.same_bits import REFUSALS
from warpsim.tools.bench import machine

WORLDS, BAD, SETTLE, STEPS = 1024, 517, 12, 4
VALUES = {"NaN": np.nan, "Inf": np.inf, "-Inf": -np.inf, "1e30": 1e30, "-1e30": -1e30}
MASSES = VALUES | {"0": 0.0, "-1": -1.0, "1e-30": 1e-30}
COUNTS = {"-1": -1, "2^31 - 1": 2**31 - 1, "-2^31": -(2**31)}
QUATERNIONS = {"0": 0.0, "NaN": np.nan, "1e30": 1e30, "1e-30": 1e-30, "Inf": np.inf}
PARAMETERS = ("body_mass", "body_inertia", "gravity", "geom_friction", "joint_damping", "geom_stiffness")
SLOTS = 2  # contacts that the world of the overflow has room for


class Bench:
    """A settled crowd, and what its next steps are without a fault."""

    def __init__(self, case: tuple[str, str, str]):
        self.crowd = crowd = Crowd(*case)
        self.sim = crowd.sim(WORLDS)
        self.table = crowd.table[:, :WORLDS]
        self.parameters = [name for name in PARAMETERS if self._has(name)]
        start = self.sim.state(crowd.q[:WORLDS], crowd.v[:WORLDS])
        self.state = self.sim.rollout(start, self.table[:SETTLE]).final
        self.good = self.after(self.state.clone())
        self.fresh = crowd.sim(1)
        self.healed = None

    def _has(self, name: str) -> bool:
        """Whether there is such a parameter; asking for it gives every world its own from here on."""
        try:
            return self.sim.parameters[name].size > 0
        except (KeyError, ValueError):
            return False

    def after(self, state, change=lambda step, control: {}) -> dict[str, np.ndarray]:
        """What four steps from a state leave: state, memory and what the last one measured, by name."""
        sim = self.sim
        for step in range(STEPS):
            control = self.table[SETTLE + step].copy()
            sim.step(state, control, **change(step, control), out=state)
        self.last = state
        return self.measured(state)

    def measured(self, state) -> dict[str, np.ndarray]:
        found = {name: array.numpy().copy() for name, array in state.arrays().items()}
        return found | {f"measured {name}": x.copy() for name, x in self.sim.diagnostics.numpy().items()}

    def same(self, found: dict, expected: dict, worlds) -> bool:
        return all(found[name][worlds].tobytes() == array[worlds].tobytes() for name, array in expected.items())

    def cases(self):
        """(name, state, change of inputs), each put into the parameters too where it belongs there."""
        dtype = self.table.dtype
        for name, array in self.state.arrays().items():
            values = array.numpy()
            if not values[BAD].size or name == "flags":
                continue
            kinds = COUNTS if values.dtype.kind in "iu" else VALUES
            places = [(0,), (-1,)] if name in ("q", "v") else [()]
            for label, value in kinds.items():
                for place in places:
                    yield f"state {name}{list(place) or ''} = {label}", self._with(name, place, value), None
        for label, value in QUATERNIONS.items():
            yield f"quaternion = {label}", self._with("q", (slice(3, 7),), value), None
        for label, value in VALUES.items():

            def control(step, given, value=value):
                given[BAD, 1] = value if step == 0 else given[BAD, 1]
                return {}

            def tau(step, given, value=value):
                force = np.zeros((WORLDS, self.sim.model.nv), dtype)
                force[BAD, 7] = value if step == 0 else 0.0
                return {"tau": force}

            def wrench(step, given, value=value):
                force = np.zeros((WORLDS, self.sim.model.nbody, 6), dtype)
                force[BAD, 2, 4] = value if step == 0 else 0.0
                return {"wrench": force}

            for way in (control, tau, wrench):
                yield f"{way.__name__} = {label}", self.state.clone(), way
        for name in self.parameters:
            for label, value in MASSES.items():
                array = self.sim.parameters[name]
                values = array.numpy().copy()
                values[BAD] = value
                array.assign(values)
                yield f"parameter {name} = {label}", self.state.clone(), None

    def _with(self, name: str, place: tuple, value):
        state = self.state.clone()
        array = state.arrays()[name]
        values = array.numpy().copy()
        with np.errstate(all="ignore"):
            values[(BAD, *place)] = value
        array.assign(values)
        return state

    def unflagged(self, found: dict) -> str | None:
        """What is not finite in a world without a flag; of the memory, slots that no contact uses are nobody's."""
        flags = found["flags"]
        for name, values in found.items():
            if values.dtype.kind == "f" and (name in ("q", "v", "time") or name.startswith("measured")):
                bad = ~np.isfinite(values.reshape(WORLDS, -1)).all(axis=1) & (flags == 0)
                if bad.any():
                    return f"{name} of world {np.flatnonzero(bad)[0]}"
        return None

    def reset(self) -> bool:
        """Whether the bad world, put back with its parameters, moves as one alone to which nothing happened."""
        q, v = self.crowd.q[BAD], self.crowd.v[BAD]
        self.sim.reset(self.last, [BAD], q, v, parameters=True)
        found = self.after(self.last)
        if self.healed is None:
            state = self.fresh.state(q, v)
            for step in range(STEPS):
                self.fresh.step(state, self.table[SETTLE + step][BAD : BAD + 1], out=state)
            self.healed = {name: array.numpy().copy() for name, array in state.arrays().items()}
        return all(found[name][BAD].tobytes() == array[0].tobytes() for name, array in self.healed.items())


def overflow(case: tuple[str, str, str]) -> dict:
    """A world of more contacts than it has slots for, beside ants in the air."""
    crowd = Crowd(*case)
    q = crowd.q[:WORLDS].copy()
    q[:, 2] += 30.0
    sim = crowd.sim(WORLDS, max_contacts=SLOTS)

    def run(q):
        state = sim.state(q, crowd.v[:WORLDS])
        for step in range(SETTLE + STEPS):
            sim.step(state, crowd.table[step, :WORLDS], out=state)
        return {name: array.numpy().copy() for name, array in state.arrays().items()}

    flying = run(q)
    q[BAD, 2] = 0.35
    found, others = run(q), np.arange(WORLDS) != BAD
    kept = all(found[name][others].tobytes() == array[others].tobytes() for name, array in flying.items())
    return {
        "fault": "overflow",
        "others": kept,
        "unflagged": None if found["flags"][BAD] & ws.CONTACT_OVERFLOW else "flags",
        "healed": True,
        "flags": int(found["flags"][BAD]),
    }


def check(case: tuple[str, str, str]) -> dict:
    row = dict(zip(("solver", "integrator", "dtype"), case, strict=True)) | {"refused": None, "faults": []}
    begun = time.perf_counter()
    try:
        bench = Bench(case)
    except REFUSALS as error:
        return row | {"refused": str(error)}
    others = np.arange(WORLDS) != BAD
    for name, state, change in bench.cases():
        try:
            found = bench.after(state, change or (lambda step, control: {}))
        except ValueError as error:  # refused before a step
            row["faults"].append({"fault": name, "refused": str(error)[:200]})
            bench.sim.reset(bench.state.clone(), [BAD], parameters=True)
            continue
        fault = {"fault": name, "others": bench.same(found, bench.good, others), "unflagged": bench.unflagged(found)}
        row["faults"].append(fault | {"flags": int(found["flags"][BAD]), "healed": bench.reset()})
    if case[0] != "NoContact":
        row["faults"].append(overflow(case))
    row["seconds"] = time.perf_counter() - begun
    bad = [f for f in row["faults"] if not fine(f)]
    print(
        *case, f"{len(row['faults'])} faults, {len(bad)} wrong, {row['seconds']:.0f} s", *bad[:6], sep="; ", flush=True
    )
    return row


def fine(fault: dict) -> bool:
    return "refused" in fault or (fault["others"] and fault["unflagged"] is None and fault["healed"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs=3, help="solver, integrator and dtype")
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    rows = []
    for case in combinations() if a.only is None else [tuple(a.only)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append(counted(check(case)))
    result = {"machine": machine(wp.get_device("cpu")), "rows": rows}
    text = markdown(result)
    print(text)
    if a.out:
        (a.out / "faults.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "faults.md").write_text(text)
    return 1 if any(row["wrong"] for row in rows) else 0


def counted(row: dict) -> dict:
    """A row with its faults counted, and those that went wrong."""
    faults = row.pop("faults")
    ran = [f for f in faults if "refused" not in f]
    row["counts"] = {
        "faults": len(faults),
        "refused": len(faults) - len(ran),
        "other worlds' bits changed": sum(not f["others"] for f in ran),
        "not finite, no flag": sum(f["unflagged"] is not None for f in ran),
        "not healed": sum(not f["healed"] for f in ran),
        "flagged": sum(f["flags"] > 0 for f in ran),
    }
    return row | {"wrong": [f for f in faults if not fine(f)]}


def markdown(result: dict) -> str:
    rows = [row for row in result["rows"] if not row["refused"]]
    names = list(rows[0]["counts"])
    lines = ["# Faults in one of 1,024 worlds", "", "| solver, integrator, dtype | " + " | ".join(names) + " |"]
    lines += ["|---" * (len(names) + 1) + "|"]
    for row in rows:
        label = f"{row['solver']}, {row['integrator']}, {row['dtype']}"
        lines.append(f"| {label} | " + " | ".join(str(n) for n in row["counts"].values()) + " |")
    total = [f"{sum(row['counts'][name] for row in rows):,}" for name in names]
    lines.append("| all | " + " | ".join(total) + " |")
    m = result["machine"]
    return "\n".join([*lines, "", f"{m['date']}, {m['processor']}, {m['cores']} cores", ""])


if __name__ == "__main__":
    sys.exit(main())
