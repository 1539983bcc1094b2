# SPDX-License-Identifier: Apache-2.0
"""Steps per second of an H200, predicted from emulated warps: the largest of latency, issue, load-store unit, L2 and HBM.

A model, not a measurement: it knows nothing of caches shared between warps, and its two issue models bracket a factor of three.
"""

import math

CLOCK = 1.85e9  # Hz
PROCESSORS, SCHEDULERS = 132, 4
BLOCKS, REGISTERS = 32, 65536  # of a multiprocessor: blocks, which are of one warp, and registers
L1_BYTES = 192 * 1024
HBM_RATE, L2_RATE = 4.3e12, 5.5e12  # B/s
NODE = 2.0e-6  # s per node of the graph
ISSUE_LOSS = 1.1
SECTOR = 32
WORLDS = (8192, 65536)


def most_warps(registers: int) -> int:
    """Warps whose threads have so many registers that a multiprocessor holds; 0: not known, as few as let it hold all blocks."""
    return min(BLOCKS, REGISTERS // (32 * 8 * max(1, -(-registers // 8))))


def resident_warps(warps: float) -> float:
    """Warps that share a multiprocessor when a launch has `warps` of them."""
    return min(BLOCKS, max(1.0, warps / PROCESSORS))


def bounds(row, worlds: int) -> dict[str, float]:
    """Seconds that one kernel takes by each bound; `latency` is the optimistic, `latency in order` the pessimistic one."""
    warps = worlds * row.warps_per_world
    waves = max(1.0, warps / PROCESSORS / most_warps(row.registers))
    per_processor = worlds / PROCESSORS
    memory = {key: row.memory.get(key, 0.0) for key in ("lines", "l2_sectors", "hbm_sectors")}
    from_l2 = memory["l2_sectors"] + memory["hbm_sectors"] + row.written_sectors
    return {
        "latency": row.flow * waves / CLOCK,
        "latency in order": row.in_order * waves / CLOCK,
        "issue": ISSUE_LOSS * row.slots * per_processor / SCHEDULERS / CLOCK,
        "lines": memory["lines"] * per_processor / CLOCK,
        "L2": from_l2 * SECTOR * worlds / L2_RATE,
        "HBM": (memory["hbm_sectors"] + row.written_sectors) * SECTOR * worlds / HBM_RATE,
    }


def kernel_seconds(row, worlds: int) -> tuple[float, float]:
    """Least and most seconds of one kernel, without its node of the graph."""
    found = bounds(row, worlds)
    shared = [value for key, value in found.items() if not key.startswith("latency")]
    return max(found["latency"], *shared), max(found["latency in order"], *shared)


def step_seconds(rows, copies: int, worlds: int) -> tuple[float, float]:
    """Least and most seconds of a step of all kernels and `copies` copies."""
    nodes = (len(rows) + copies) * NODE
    each = [kernel_seconds(row, worlds) for row in rows]
    return sum(low for low, _ in each) + nodes, sum(high for _, high in each) + nodes


def steps_per_second(rows, copies: int, worlds: int) -> tuple[float, float, float]:
    """World-steps per second: least, geometric mean and most."""
    low, high = step_seconds(rows, copies, worlds)
    return worlds / high, worlds / math.sqrt(low * high), worlds / low
