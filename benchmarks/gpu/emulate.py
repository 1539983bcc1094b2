# SPDX-License-Identifier: Apache-2.0
"""Runs one warp of every kernel of a real step from its CUDA code, without a GPU: are results the CPU's, and what do they cost?

    python -m benchmarks.gpu.emulate --robot humanoid [--contact lagged|convex|mujoco] [--worlds 256] [--warp 1] [--dtype float32]
                                     [--impacts] [--thrown | --backward] [--only KERNEL …] [--quick] [--store]
                                     [--out benchmarks/results]

The launches of one `sim.step` are taken in turn, each on the arrays that it is really given: first its PTX runs on a few warps,
then the CPU's kernel on the same numbers, and what both wrote is compared. Exit code 1 where they differ by more than
`TOLERANCE`, where lanes of a warp meet in memory without a barrier, or where a kernel exceeds `budgets.json`.
"""

import argparse
import collections
import dataclasses
import datetime
import json
import math
import pathlib
import sys
import time

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.gpu import budgets, predict, robots
from benchmarks.gpu.trace import Launch, gradient_launches, ptx_of, step_launches
from benchmarks.gpu.warp import Cost, Program
from warpsim.kernels.linalg.vector import CHUNK, padded

WARPS = 6  # of a launch at most, unless one world has more
LANES = 32
# Of the largest number of an array among the worlds compared: sums in another order and fused multiplications; for results of the
# solver what its own tolerance leaves.
TOLERANCE = {"float32": 2e-5, "float64": 1e-10}
SOLVER_TOLERANCE = {"float32": 5e-3, "float64": 1e-5}
# Of distances, of some millimetres, that are differences of lengths, which are approximate roots; and of slopes of the law, by how fast a contact slides.
ROUGH, ROUGH_TOLERANCE = (
    ("detect", "add_convex_contacts", "find_polygons", "keep_factor"),
    {"float32": 1e-3, "float64": 1e-10},
)
SOLVERS = (
    "solve",
    "solve_in_space",
    "solve_space_lagged",
    "try_lagged",
    "solve_lagged",
    "solve_adjoint",
    "solve_lagged_adjoint",
)
SCRATCH = (
    "work",
    "lag",
    "surrogate",
    "z",
)  # arguments of solvers that hold what the last iteration left, residuals next to zero; and scratch of weights
KEEPS, SQUARE = (
    ".keep_factor",
    "newton.H",
)  # the kernel whose result scratch is, and both triangles of a factor, the second's diagonal in one column
FACTORS = ("M_factor", "A_factor")  # arrays of which only the lower triangles of the trees' blocks are ever read


@dataclasses.dataclass(frozen=True)
class Row:
    """What one kernel of a step does on a GPU; sums over the warps that were run, divided by `worlds`, the worlds they hold."""

    name: str
    dim: tuple[int, ...]
    warps: int
    worlds: float
    slots: float  # warp instructions per world
    useful: float  # share of lane operations in lanes that take part
    flow: float  # cycles of one warp, mean
    in_order: float
    lines_per_request: float
    bytes_ratio: float  # bytes of the sectors asked for by the bytes used
    memory: dict[str, float]  # counts per world
    written_sectors: float
    kinds: dict[str, float]
    difference: float
    different: str  # the array it is found in
    registers: int = 0  # by the budget file; 0: not known
    hazard: str = ""  # of lanes that met in memory without a barrier, and where

    @property
    def costs(self) -> dict[str, float]:
        """What its budget limits."""
        return {key: round(getattr(self, key), 3) for key in ("slots", "useful", "lines_per_request")}

    def agrees(self, dtype: str) -> bool:
        """Whether the results are the CPU's."""
        name = self.name.split(".")[-1]
        limit = SOLVER_TOLERANCE if name in SOLVERS else ROUGH_TOLERANCE if name in ROUGH else TOLERANCE
        return self.difference <= limit[dtype]

    @property
    def warps_per_world(self) -> float:
        """Warps that the launch has for one world."""
        return self.warps / self.worlds


class Emulator:
    """Runs launches on the CPU, and before that some warps of them from PTX; `rows` has what came out.

    `group`: which group of 32 worlds the run begins at. `only`: kernels whose names contain one of these; `quick`: without slow ones.
    """

    def __init__(
        self,
        worlds: int,
        group: int,
        only: list[str] | None = None,
        quick: bool = False,
        lower: np.ndarray | None = None,
    ):
        self.worlds, self.group, self.only, self.quick, self.lower = worlds, group, only, quick, lower
        self.rows: list[Row] = []
        self.programs: dict[tuple[str, int], Program] = {}

    def __call__(self, launch: Launch) -> None:
        if (self.quick and launch.is_slow) or (self.only and not any(name in launch.name for name in self.only)):
            launch.make()
            return
        arrays = launch.arrays()
        kept = launch.name.endswith(KEEPS)
        for name, x in arrays.items():
            if kept and name.endswith(SQUARE):
                x.zero_()  # on the CPU it may hold what islands left that were solved in the space of their rows
        before = {name: x.numpy().copy() for name, x in arrays.items()}
        first, warps, per_world = self._threads(launch)
        costs = self._run(launch, arrays, first, warps)
        emulated = {name: x.numpy().copy() for name, x in arrays.items()}
        for name, values in before.items():
            arrays[name].numpy()[...] = values
        launch.make()
        compared = self._worlds_of(launch, first / per_world, (first + LANES * warps) / per_world)
        name, difference = self._compare(arrays, before, emulated, compared, () if kept else SCRATCH)
        row = self._row(launch, costs, warps * LANES / per_world, difference, name)
        self.rows.append(dataclasses.replace(row, hazard=hazard(costs, arrays)))

    def _threads(self, launch: Launch) -> tuple[int, int, float]:
        """First thread, number of warps and threads per world."""
        per_world = launch.threads / self.worlds
        if launch.threads <= LANES:  # one warp for all worlds
            return 0, 1, per_world
        if per_world != int(per_world):
            raise ValueError(
                f"{launch.name} has {launch.threads} threads for {self.worlds} worlds: not as many for each"
            )
        warps = max(math.ceil(per_world / LANES), min(WARPS, int(per_world)))
        available = math.ceil(launch.threads / LANES)
        group = 0 if chosen_worlds(launch).size else self.group
        first = min(group * int(per_world), available - min(warps, available)) * LANES
        return first, min(warps, available), per_world

    def _worlds_of(self, launch: Launch, first: float, end: float) -> slice | np.ndarray:
        """The worlds that threads have which belong to the first, to the one before the end, of those launched over."""
        own = slice(math.ceil(first), int(end))
        chosen = chosen_worlds(launch)
        return chosen[1 : 1 + chosen[0]][own] if chosen.size else own

    def _run(self, launch: Launch, arrays, first: int, warps: int) -> list[Cost]:
        text, entry = ptx_of(launch)
        key = entry, launch.block
        program = self.programs.get(key) or Program(text, entry)
        self.programs[key] = program
        packed = bytearray(program.entry.parameter_bytes)
        for (offset, size), value in zip(program.entry.parameters.values(), launch.parameters(), strict=True):
            if len(value) != size:
                raise ValueError(f"{launch.name}: a parameter of {size} bytes is given {len(value)}")
            packed[offset : offset + size] = value
        grid = math.ceil(launch.threads / launch.block)
        ranges = [(x.ptr, x.capacity) for x in arrays.values()]
        resident = predict.resident_warps(launch.threads / self.worlds / LANES * predict.WORLDS[0])
        options = {"block": launch.block, "grid": grid, "l1_bytes": int(predict.L1_BYTES / resident)}
        return [program.run(bytes(packed), ranges, first=first + LANES * k, **options) for k in range(warps)]

    def _compare(
        self, arrays, before, emulated, compared: slice | np.ndarray, scratch: tuple[str, ...]
    ) -> tuple[str, float]:
        """The largest difference of the worlds that were run in full, and the name of its array; without arguments that are `scratch`."""
        worst, where = 0.0, ""
        for name, array in arrays.items():
            old, new, values = before[name], emulated[name], array.numpy()
            if (
                name.split(".")[0] in scratch
                or values.ndim == 0
                or len(values) != self.worlds
                or (same(old, new) and same(old, values))
            ):
                continue
            if name.split(".")[-1] in FACTORS and self.lower is not None:
                new, values = (np.where(self.lower, x, 0.0) for x in (new, values))
            if name.endswith(SQUARE):
                unread = values.shape[1] - 1 + CHUNK
                new, values = (np.delete(x, slice(unread, unread + 1), axis=2) for x in (new, values))
            gap = difference(new[compared], values[compared], values)
            if gap > worst:
                worst, where = gap, name
        return where, worst

    def _row(self, launch: Launch, costs: list[Cost], worlds: float, gap: float, where: str) -> Row:
        memory, kinds = collections.Counter(), collections.Counter()
        for cost in costs:
            memory.update(cost.memory)
            kinds.update(cost.kinds)
        slots = sum(x.slots for x in costs)
        requests = memory["loads"] + memory["stores"]
        return Row(
            name=launch.name,
            dim=launch.threads_by_axis,
            warps=len(costs),
            worlds=worlds,
            slots=slots / worlds,
            useful=sum(x.lane_slots for x in costs) / max(slots, 1) / LANES,
            flow=float(np.mean([x.flow for x in costs])),
            in_order=float(np.mean([x.in_order for x in costs])),
            lines_per_request=memory["lines"] / max(requests, 1),
            bytes_ratio=LANES * memory["sectors"] / max(memory["useful_bytes"], 1),
            memory={key: value / worlds for key, value in memory.items()},
            written_sectors=sum(x.written_sectors for x in costs) / worlds,
            kinds={key: value / worlds for key, value in kinds.items()},
            difference=gap,
            different=where,
        )


def chosen_worlds(launch: Launch) -> np.ndarray:
    """The list that a launch is over: the number of worlds, then the worlds; empty: it is over all worlds."""
    arguments = dict(zip((a.label for a in launch.kernel.adj.args), launch.inputs, strict=True))
    chosen = arguments.get("chosen_worlds")
    return np.empty(0, int) if chosen is None else chosen.numpy().copy()


def hazard(costs: list[Cost], arrays: dict[str, wp.array]) -> str:
    """The first meeting of lanes in memory without a barrier, with the name of the array."""
    for cost in costs:
        if cost.hazard:
            inside = [n for n, x in arrays.items() if 0 <= cost.hazard_address - x.ptr < x.capacity]
            return f"{inside[0] if inside else 'shared memory'} {cost.hazard}"
    return ""


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same bits."""
    return a.tobytes() == b.tobytes()


def difference(a: np.ndarray, b: np.ndarray, scale: np.ndarray) -> float:
    """Largest |a − b| by the largest |scale|, of integers the share that differs, of structs the share of bytes."""
    if a.size == 0 or same(a, b):
        return 0.0
    if a.dtype.kind != "f":
        return float(np.mean(np.frombuffer(a.tobytes(), np.uint8) != np.frombuffer(b.tobytes(), np.uint8)))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return math.inf
    a, b, scale = (np.where(np.isfinite(x), x, 0.0).astype(float) for x in (a, b, scale))
    gap = float(np.abs(a - b).max())
    return gap / max(float(np.abs(scale).max()), 1e-30) if gap else 0.0


def emulate(sim: ws.Simulator, state: ws.State, control, **options) -> tuple[list[Row], int]:
    """Rows of the kernels of one `sim.step(state, control, out=state)`, which is made, and the number of copies.

    `options` are those of `Emulator`.
    """
    emulator = Emulator(sim.worlds, lower=lower_entries(sim.model), **options)
    copies = sum(launch.kernel is None for launch in step_launches(sim, state, control, emulator))
    return emulator.rows, copies


def emulate_backward(sim: ws.Simulator, state: ws.State, control, **options) -> tuple[list[Row], int]:
    """The same of the kernels with lanes of a step on a tape and its backward pass: the factor that is kept and the adjoint solve among them."""
    emulator = Emulator(sim.worlds, lower=lower_entries(sim.model), **options)
    gradient_launches(sim, state, control, emulator)
    return emulator.rows, 0


def lower_entries(model: ws.Model) -> np.ndarray:
    """Of the blocks of the trees, stored from their first column on: the lower triangles, (nv, columns of the widest, padded)."""
    first = np.repeat(model.tree_v[:-1], np.diff(model.tree_v))
    dof = np.arange(model.nv)
    width = padded(int(np.diff(model.tree_v).max(initial=0)))
    return np.arange(width) <= (dof - first)[:, None]


def case_of(arguments) -> str:
    """Name of what is run, as in the budget file."""
    return f"{arguments.robot}/{arguments.contact}/{arguments.dtype}" + "/impacts" * arguments.impacts


def largest(costs: list[tuple[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Costs by kernel; of one that is launched several times the worst."""
    found: dict[str, dict[str, float]] = {}
    for name, cost in costs:
        old = found.get(name, cost)
        found[name] = {key: (min if key == "useful" else max)(value, old[key]) for key, value in cost.items()}
    return found


def line(row: Row) -> str:
    """A row of the printed table."""
    clocks = f"{row.flow / 1e3:8.1f} ..{row.in_order / 1e3:8.1f}"
    memory = f"{row.lines_per_request:6.1f} {row.bytes_ratio:6.1f}"
    return (
        f"{row.name:34s} {'x'.join(map(str, row.dim)):>12s} {row.slots:9.0f} {100 * row.useful:6.0f} {clocks} {memory} "
        f"{row.difference:8.1e} {row.different}"
    )


def summary(rows: list[Row], copies: int) -> list[str]:
    """Totals and predictions of a step."""
    slots = sum(row.slots for row in rows)
    useful = sum(row.slots * row.useful for row in rows) / slots
    lines = [
        f"{len(rows)} kernels, {copies} copies; {slots:.0f} warp instructions per world, {100 * useful:.0f} % useful"
    ]
    for worlds in predict.WORLDS:
        low, middle, high = predict.steps_per_second(rows, copies, worlds)
        issue = sum(predict.bounds(row, worlds)["issue"] for row in rows)
        lines.append(
            f"predicted at {worlds} worlds: {low / 1e6:.2f} .. {middle / 1e6:.2f} .. {high / 1e6:.2f} M steps/s; "
            f"all issue slots {issue * 1e6:.0f} µs"
        )
    return lines


def write(folder: pathlib.Path, case: str, worlds: int, rows: list[Row], copies: int) -> None:
    """Put the case into gpu_emulation.json of the folder, and all its cases into gpu_emulation.md."""
    kept = folder / "gpu_emulation.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    costs = {"worlds": worlds, "copies": copies, "kernels": [dataclasses.asdict(row) for row in rows]}
    results[case] = {"date": datetime.date.today().isoformat(), **costs}
    kept.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    (folder / "gpu_emulation.md").write_text(page(results))


def page(results: dict[str, dict]) -> str:
    """The text of gpu_emulation.md: one line per case, then its kernels."""
    parts = [
        "# One step in the emulator\n\n`python -m benchmarks.gpu.emulate`; what the columns mean: [docs/gpu_checks.md](../../docs/gpu_checks.md).\n\n"
    ]
    first, second = (f"predicted at {worlds:,} worlds, M steps/s" for worlds in predict.WORLDS)
    parts.append(
        f"| case | date | kernels | warp instructions per world | useful lanes | {first} | {second} |\n{'|---' * 7}|\n"
    )
    for name, result in sorted(results.items()):
        rows = [Row(**row) for row in result["kernels"]]
        slots = sum(row.slots for row in rows)
        useful = sum(row.slots * row.useful for row in rows) / slots
        speeds = [predict.steps_per_second(rows, result["copies"], worlds) for worlds in predict.WORLDS]
        ranges = [f"{low / 1e6:.1f} … {high / 1e6:.1f}" for low, _, high in speeds]
        numbers = [str(len(rows)), f"{slots:,.0f}", f"{100 * useful:.0f} %", *ranges]
        parts.append(f"| {name} | {result['date']} | {' | '.join(numbers)} |\n")
    for name, result in sorted(results.items()):
        rows = [Row(**row) for row in result["kernels"]]
        parts.append(f"\n## {name}\n\n" + "\n\n".join(summary(rows, result["copies"])) + "\n\n" + table(rows))
    return "".join(parts)


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    columns = ("kernel", "threads", "warp instructions/world", "useful lanes", "kilocycles of a warp", "lines/request")
    head = f"| {' | '.join((*columns, 'sector/useful bytes', 'difference to the CPU'))} |"
    lines = [head, "|---" * 8 + "|"]
    for row in rows:
        lines.append(
            f"| {row.name} | {' × '.join(map(str, row.dim))} | {row.slots:,.0f} | {100 * row.useful:.0f} % | "
            f"{row.flow / 1e3:,.1f} … {row.in_order / 1e3:,.1f} | {row.lines_per_request:.1f} | {row.bytes_ratio:.1f} | "
            f"{row.difference:.0e} |"
        )
    return "\n".join(lines) + "\n"


def parse(argv) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", choices=list(robots.ROBOTS), default="humanoid")
    parser.add_argument("--contact", choices=list(robots.CONTACT), default="lagged")
    parser.add_argument("--dtype", choices=list(TOLERANCE), default="float32")
    parser.add_argument("--worlds", type=int, default=256)
    parser.add_argument("--warp", type=int, default=1, help="which group of 32 worlds is run")
    parser.add_argument("--steps", type=int, default=300, help="steps before the one that is run")
    parser.add_argument("--impacts", action="store_true", help="with impacts inside the step (time_of_impact=True)")
    parser.add_argument("--thrown", action="store_true", help="a state that needs other starts instead; no budget")
    parser.add_argument("--backward", action="store_true", help="a step on a tape and its backward pass; no budget")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", help="kernels whose names contain one of these")
    parser.add_argument(
        "--quick", action="store_true", help="without the solver, whose CUDA code takes minutes to compile"
    )
    parser.add_argument("--store", action="store_true", help="keep the costs as the budget")
    parser.add_argument("--out", type=pathlib.Path, metavar="FOLDER", help="write gpu_emulation.json and .md")
    return parser.parse_args(argv)


def main(argv=None) -> int:
    """Command line; 1 if results differ from the CPU's or a kernel is above its budget."""
    arguments = parse(argv)
    wp.config.log_level = wp.LOG_WARNING
    options = {"requires_grad": arguments.backward, "time_of_impact": arguments.impacts}
    sim = robots.simulator(arguments.robot, arguments.contact, arguments.worlds, arguments.dtype, **options)
    state, control = robots.thrown(sim) if arguments.thrown else robots.settled(sim, arguments.steps)
    begin, case = time.process_time(), case_of(arguments)
    part = {"only": arguments.only, "quick": arguments.quick}
    run = emulate_backward if arguments.backward else emulate
    rows, copies = run(sim, state, control, group=arguments.warp, **part)
    assembled = budgets.read().get(case, {}).get("ptxas", {})
    rows = [dataclasses.replace(row, registers=assembled.get(row.name, {}).get("registers", 0)) for row in rows]
    print(f"{'kernel':34s} {'threads':>12s} slots/wld useful kilocycles of a warp lines/rq sect/B diff to CPU")
    print("\n".join([line(row) for row in rows] + summary(rows, copies)))
    costs, wrong = largest([(row.name, row.costs) for row in rows]), [r for r in rows if not r.agrees(arguments.dtype)]
    whole = not (arguments.thrown or arguments.backward or any(part.values()))
    if arguments.store and whole:
        budgets.store(case, "emulated", costs)
    unbudgeted, kept = (
        arguments.only or arguments.thrown or arguments.backward,
        budgets.read().get(case, {}).get("emulated"),
    )
    over = [] if unbudgeted else budgets.excess(costs, kept)
    over += [f"{row.name}: {row.different} differs from the CPU's by {row.difference:.1e}" for row in wrong]
    over += [f"{row.name}: race: {row.hazard}" for row in rows if row.hazard]
    if arguments.out and whole:
        write(arguments.out, case, arguments.worlds, rows, copies)
    print("\n".join(over) or "within the budget, same results as on the CPU", f"({time.process_time() - begin:.0f} s)")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
