"""Runs one warp of every kernel of a real step from its CUDA code, without a GPU: are results the CPU's, and what do they cost?

    python -m benchmarks.gpu.emulate --robot humanoid [--contact lagged|convex] [--worlds 256] [--warp 1] [--dtype float32]
                                     [--only KERNEL …] [--out benchmarks/results]

The launches of one `sim.step` are taken in turn, each on the arrays that it is really given: first its PTX runs on a few warps,
then the CPU's kernel on the same numbers, and what both wrote is compared. Exit code 1 where they differ by more than
`TOLERANCE`, or where a kernel exceeds `budgets.json`.
"""

import argparse
import collections
import dataclasses
import json
import math
import pathlib
import sys
import time

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.gpu import predict, robots
from benchmarks.gpu.trace import Launch, intercepted, ptx_of, unreplayed
from benchmarks.gpu.warp import Cost, Program

WARPS = 6  # of a launch at most, unless one world has more
LANES = 32
# Of the largest number of the array among the worlds compared: sums in another order and fused multiplications, and for
# the solvers what their own tolerance leaves.
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}
SOLVER_TOLERANCE = {"float32": 3e-3, "float64": 1e-5}


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

    @property
    def warps_per_world(self) -> float:
        """Warps that the launch has for one world."""
        return self.warps / self.worlds


class Emulator:
    """Runs launches on the CPU, and before that some warps of them from PTX; `rows` has what came out.

    `group`: of the groups of worlds whose threads begin at a warp, which one is run.
    """

    def __init__(self, worlds: int, group: int, only: list[str] | None = None):
        self.worlds, self.group, self.only = worlds, group, only
        self.rows: list[Row] = []
        self.programs: dict[tuple[str, int], Program] = {}

    def __call__(self, launch: Launch) -> None:
        if self.only and not any(name in launch.name for name in self.only):
            launch.make()
            return
        arrays = launch.arrays()
        before = [x.numpy().copy() for x in arrays]
        first, warps, per_world = self._threads(launch)
        costs = self._run(launch, arrays, first, warps)
        emulated = [x.numpy().copy() for x in arrays]
        for array, values in zip(arrays, before, strict=True):
            array.numpy()[...] = values
        launch.make()
        start = math.ceil(first / per_world)
        compared = slice(start, int((first + LANES * warps) // per_world))
        name, difference = self._compare(arrays, before, emulated, compared)
        self.rows.append(self._row(launch, costs, warps * LANES / per_world, difference, name))

    def _threads(self, launch: Launch) -> tuple[int, int, float]:
        """First thread, number of warps and threads per world."""
        per_world = launch.threads / self.worlds
        if per_world != int(per_world):
            raise ValueError(f"{launch.name} has {launch.threads} threads for {self.worlds} worlds: not as many for each")
        warps = max(math.ceil(per_world / LANES), min(WARPS, int(per_world)))
        available = math.ceil(launch.threads / LANES)
        first = min(self.group * int(per_world), available - min(warps, available)) * LANES
        return first, min(warps, available), per_world

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
        ranges = [(x.ptr, x.capacity) for x in arrays]
        resident = predict.resident_warps(launch.threads / self.worlds / LANES * predict.WORLDS[0])
        options = {"block": launch.block, "grid": grid, "l1_bytes": int(predict.L1_BYTES / resident)}
        return [program.run(bytes(packed), ranges, first=first + LANES * k, **options) for k in range(warps)]

    def _compare(self, arrays, before, emulated, compared: slice) -> tuple[str, float]:
        """The largest difference of the worlds that were run in full, and the shape of its array."""
        worst, where = 0.0, ""
        for array, old, new in zip(arrays, before, emulated, strict=True):
            values = array.numpy()
            if values.ndim == 0 or len(values) != self.worlds or (same(old, new) and same(old, values)):
                continue
            gap = difference(new[compared], values[compared])
            if gap > worst:
                worst, where = gap, f"{array.dtype.__name__}{list(array.shape)}"
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
            dim=launch.dim,
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


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same bits."""
    return a.tobytes() == b.tobytes()


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """Largest |a − b| by the largest |b|, of integers the share that differs, of structs the share of bytes."""
    if a.size == 0 or same(a, b):
        return 0.0
    if a.dtype.kind != "f":
        return float(np.mean(np.frombuffer(a.tobytes(), np.uint8) != np.frombuffer(b.tobytes(), np.uint8)))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return math.inf
    a, b = (np.where(np.isfinite(x), x, 0.0).astype(float) for x in (a, b))
    gap = float(np.abs(a - b).max())
    return gap / max(float(np.abs(b).max()), 1e-30) if gap else 0.0


def emulate(sim: ws.Simulator, state: ws.State, control, group: int, only: list[str] | None = None) -> list[Row]:
    """Rows of the kernels of one `sim.step(state, control, out=state)`, which is made."""
    emulator = Emulator(sim.worlds, group, only)
    with intercepted(emulator), unreplayed(sim):
        sim.step(state, control, out=state)
    return emulator.rows
