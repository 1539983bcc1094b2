# SPDX-License-Identifier: Apache-2.0
"""The CPU that device code is compiled for: x86-64-v3 on Linux, so that objects compiled elsewhere can be loaded.

All CPUs of that level (AVX2, FMA; Intel since 2013, AMD since 2015) then run the same instructions, and compute the
same bits. Older CPUs, arm, Windows and macOS: Warp's flags, which compile for the CPU at hand.

Warp's own flags also raise LLVM's limit for inlining from 225 to 9000, for which clang takes half as long again.
Modules of a step under the defaults go without: a step takes as long (±1 %). All others keep the limit: backward passes
would take 1.5 times as long, Jacobians 1.4, LCP and MuJoCo's law 1.05. The bits are the same.

In one process Warp does not compile with and without the limit at the same time (`modules_of` of `device/copies.py`).
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
WARPS = f"-march=native {INLINING}"  # what `wp.config.cpu_compiler_flags` is unless a user sets it
# Warp modules that go without the limit for inlining, in the copies of both scalar types.
BRIEF = (
    *("contact.contacts", "contact.convex_contacts", "integrate.fused", "integrate.fused_end", "integrate.gain"),
    *("linalg.words", "rows.coordinate_rows_joints", "solve.sap.islands", "solve.sap.lagged"),
)
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


def flags(module: str) -> str | None:
    """The option `cpu_compiler_flags` of a Warp module, whose text is part of its hash; None: Warp's flags."""
    copy, _, file = module.partition(".")[2].partition(".")
    brief = file in BRIEF and copy.endswith(("_float32", "_float64"))
    return (V3 if brief else f"{V3} {INLINING}") if AHEAD else None
