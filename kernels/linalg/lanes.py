# SPDX-License-Identifier: Apache-2.0
"""Lanes: the threads that share one world. A warp on CUDA, or part of one in the copies for small models (`real.LANES`), where they work side by
side; one thread on the CPU.

A kernel with lanes is launched over (worlds, …, lanes), in blocks of whole warps, and is written so that
every lane of a world takes the same way through it: conditions depend on the world alone. What is done for each of many things is divided,

    for i in range(begin + lane(), end, lanes()):

and a lane reads what another has written only after a `sync`. Sums over lanes are made in an order of their own, which depends on
nothing but the number of lanes, and every lane has the result, so that bits depend neither on the batch nor on the block. On the CPU
there is one lane, `lane()` is 0, sums are what they are given, and `sync` is nothing.

Functions named `team_*`, those of this file, and those of files that say so are called by all lanes of a world together; everything else
by one lane, for itself. A number that all lanes have may be written by all.
"""

import re

from .. import real as device
from ..real import LANES, real, vec2, vec3

# What bodies for CUDA may name: the number of lanes, which one this is, those of its world as bits, and what they do together.
LOWEST = f"(threadIdx.x & {32 - LANES})"  # of the lanes of this world in its warp
TEAM = f"""
constexpr int LANES = {LANES};
const int lane = threadIdx.x & {LANES - 1};
const unsigned ALL = {hex(2**LANES - 1)}u{"" if LANES == 32 else f" << {LOWEST}"};
const auto from_lane = [=](auto x, int k) {{ return __shfl_sync(ALL, x, k, LANES); }};
const auto across = [=](auto x, int distance) {{ return __shfl_xor_sync(ALL, x, distance, LANES); }};
const auto ballot = [=](bool x) {{ return __ballot_sync(ALL, x){"" if LANES == 32 else f" >> {LOWEST} & {hex(2**LANES - 1)}u"}; }};
const auto meet = [=] {{ __syncwarp(ALL); }};
"""
# The same of one thread.
ALONE = "constexpr int lane = 0, LANES = 1;\n"
NAMED = re.compile(r"\b(LANES|lane|ALL|from_lane|across|ballot|meet)\b")


def on_gpu(text: str) -> str:
    """A body for CUDA, with what it names of `TEAM`."""
    return TEAM + text if NAMED.search(text) else text


def by_device(gpu: str, cpu: str) -> str:
    """A body in C++ for each of the two; the second alone in the copies in which a thread has an island to itself."""
    if LANES == 1:
        return cpu
    return f"#if defined(__CUDA_ARCH__)\n{on_gpu(gpu)}\n#else\n{cpu}\n#endif\n"


# Warps of a block where their kernels keep `pace`, and where a world's part of an array of a block's threads in shared memory begins.
WARPS = 4
OWN_PART = "(threadIdx.x & ~(LANES - 1))"
WORLDS = 32 // LANES  # of a block of one warp, and which of them this is
WORLD = "0" if WORLDS == 1 else f"(threadIdx.x / {LANES})"
SUM = """
auto sum = x;
for (int other = LANES / 2; other > 0; other >>= 1) sum += across(sum, other);
return sum;
"""
BITS = """
auto bits = x;
for (int other = LANES / 2; other > 0; other >>= 1) bits |= across(bits, other);
return bits;
"""


def by_one(whole_warp: str, others: str) -> str:
    """What a whole warp does by one instruction, where there is one."""
    return f"#if __CUDA_ARCH__ >= 800\n{whole_warp}\n#else\n{others}\n#endif\n" if LANES == 32 else others


COUNT = by_one("return __reduce_add_sync(ALL, x);", SUM)
ANY_BITS = by_one("return __reduce_or_sync(ALL, x);", BITS)
SUMS = """
auto sum = x;
for (int other = LANES / 2; other > 0; other >>= 1) {
    auto more = sum;
    for (int i = 0; i < COUNT; ++i) more.c[i] = across(sum.c[i], other);
    for (int i = 0; i < COUNT; ++i) sum.c[i] += more.c[i];
}
return sum;
"""
LARGEST = """
auto most = x;
for (int other = LANES / 2; other > 0; other >>= 1) {
    const auto y = across(most, other);
    most = y > most || y != y ? y : most;
}
return most;
"""


@device.func_native(by_device("return lane;", "return 0;"))
def lane() -> int:
    """Which of the lanes this is."""
    ...


@device.func_native(by_device("return LANES;", "return 1;"))
def lanes() -> int:
    """How many there are."""
    ...


@device.func_native(by_device("meet();", ""))
def sync():
    """What lanes have written before can be read by all of them after it."""
    ...


@device.func_native(by_device(SUM, "return x;"))
def team_sum(x: real) -> real:
    """Sum of x over the lanes; every lane has it."""
    ...


@device.func_native(by_device(SUMS.replace("COUNT", "2"), "return x;"))
def team_sum_2(x: vec2) -> vec2:
    """Sums as by `team_sum`, of two numbers at once: one waits for the shuffles of the other."""
    ...


@device.func_native(by_device(SUMS.replace("COUNT", "3"), "return x;"))
def team_sum_3(x: vec3) -> vec3:
    """The same of three."""
    ...


@device.func_native(by_device("__syncthreads();" if LANES == 32 else "", ""))
def pace():
    """Wait for the other warps of the block that are not gone, where a world has the whole of one. Nothing depends on it but time: between two of these
    they read the same machine code, more of which than the processor's instruction cache holds each would read from farther away. They may have come to
    different ones."""
    ...


BEFORE = """
int sum = x;
for (int other = 1; other < LANES; other <<= 1) {
    const int y = __shfl_up_sync(ALL, sum, other, LANES);
    if (lane >= other) sum += y;
}
return sum - x;
"""


@device.func_native(by_device(BEFORE, "return 0;"))
def team_before(x: int) -> int:
    """Sum of a number over the lanes before this one."""
    ...


@device.func_native(by_device(COUNT, "return x;"))
def team_count(x: int) -> int:
    """Sum of a number over the lanes."""
    ...


@device.func_native(by_device(LARGEST, "return x;"))
def team_max(x: real) -> real:
    """Largest x of all lanes; NaN where one is."""
    ...


@device.func_native(by_device("return from_lane(x, from_);", "return x;"))
def team_value(x: real, from_: int) -> real:
    """x of one lane."""
    ...


@device.func_native(by_device("return from_lane(x, from_);", "return x;"))
def team_number(x: int, from_: int) -> int:
    """x of one lane, an integer."""
    ...


@device.func_native(by_device(ANY_BITS, "return x;"))
def team_bits(x: int) -> int:
    """The bits that any lane has."""
    ...


TAKE = """
unsigned left = ballot(hit != 0);
int at = filled;
while (left) {
    if (lane == at) taken = first + __popc((left & -left) - 1);
    left &= left - 1;
    ++at;
}
return taken;
"""


@device.func_native(by_device(TAKE, "return hit != 0 ? first : taken;"))
def team_take(hit: int, first: int, filled: int, taken: int) -> int:
    """Places first + l of the lanes l with a hit, handed out in order to the lanes from `filled` on; the others keep what they have taken."""
    ...


@device.func
def team_vector(x: vec3, from_: int) -> vec3:
    """x of one lane."""
    return vec3(team_value(x[0], from_), team_value(x[1], from_), team_value(x[2], from_))


@device.func_native(by_device("return __popc(ballot(x != 0) & ((1u << lane) - 1));", "return 0;"))
def team_rank(x: int) -> int:
    """Number of lanes before this one whose x is not 0."""
    ...
