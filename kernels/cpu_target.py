# SPDX-License-Identifier: Apache-2.0
"""The CPU that device code is compiled for: x86-64-v3 on Linux, so that objects compiled elsewhere can be loaded.

All CPUs of that level (AVX2, FMA; Intel since 2013, AMD since 2015) then run the same instructions, and compute the
same bits. Older CPUs, arm, Windows and macOS: Warp's flags, which compile for the CPU at hand.

Warp's own flags also raise LLVM's limit for inlining from 225 to 9000, for which clang takes half as long again. All
modules keep it: without it steps take 1.2 to 1.4 times as long (`benchmarks/LOG.md`).
"""

import pathlib
import platform

# Of the level, as Linux names them; `abm` has LZCNT, `xsave` OSXSAVE, `pni` SSE3.
FEATURES = (
    *("pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "lahf_lm"),
    *("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe", "xsave"),
)
V3 = "-target-cpu x86-64-v3"
INLINING = "-mllvm=-inline-threshold=9000 -mllvm=-inline-cold-callsite-threshold=3000 -mllvm=-slp-recursion-max-depth=4"
FLAGS = f"{V3} {INLINING}"
WARPS = f"-march=native {INLINING}"  # what `wp.config.cpu_compiler_flags` is unless a user sets it
CPUINFO = pathlib.Path("/proc/cpuinfo")


def missing_features() -> list[str] | None:
    """Features of x86-64-v3 that this CPU lacks; None if this is not Linux on x86-64 or does not tell."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return None
    try:
        with CPUINFO.open(encoding="ascii", errors="replace") as lines:
            line = next(line for line in lines if line.startswith("flags"))
    except (OSError, StopIteration):
        return None
    found = set(line.partition(":")[2].split())
    return [name for name in FEATURES if name not in found]


MISSING = missing_features()
AHEAD = MISSING == []  # whether machine code of other computers can run here


def flags() -> str | None:
    """The option `cpu_compiler_flags` of this package's Warp modules, part of their hash; None: Warp's flags."""
    return FLAGS if AHEAD else None
