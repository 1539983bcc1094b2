# SPDX-License-Identifier: Apache-2.0
"""The CPU that device code is compiled for: x86-64-v3 on Linux, so that objects compiled elsewhere can be loaded.

All CPUs of that level (AVX2, FMA; Intel since 2013, AMD since 2015) then run the same instructions, and compute the
same bits. Older CPUs, arm, Windows and macOS: Warp's flags, which compile for the CPU at hand.

Warp's own flags also raise LLVM's limit for inlining from 225 to 9000. Modules here go without: clang takes two thirds
of the time, and kernels compute the same bits in the same time.
"""

import pathlib
import platform

# Of the level, as Linux names them; `abm` has LZCNT, `xsave` OSXSAVE, `pni` SSE3.
FEATURES = (
    *("pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "lahf_lm"),
    *("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe", "xsave"),
)
V3 = "-target-cpu x86-64-v3"
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
FLAGS = V3 if MISSING == [] else None  # the option `cpu_compiler_flags` of Warp modules; its text is part of their hash
