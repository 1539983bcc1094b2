# SPDX-License-Identifier: Apache-2.0
"""Lanes: the threads that share one world. On CUDA a warp, or part of one in kernel copies for small models
(`real.LANES`); on the CPU one thread.

A kernel with lanes is launched over (worlds, …, lanes), in blocks of whole warps. Every lane of a world takes the same
branches: conditions depend on the world alone. Loops over many items are divided among the lanes,

    for i in range(begin + lane(), end, lanes()):

and a lane reads what another lane has written only after a `sync`. Sums over lanes run in a fixed order that depends on
the number of lanes alone, and every lane has the result: bits depend neither on the batch nor on the block. On the CPU
there is one lane, `lane()` is 0, sums return their argument, and `sync` does nothing.

All lanes of a world call together the functions named `team_*`, those of this file, and those of files that say so. One
lane calls everything else, for itself. All lanes may write a number that all of them have.
"""

import re

import warp as wp

from .. import real as device
from ..real import LANES, real, vec2, vec3

# Names for C++ bodies on CUDA: number of lanes, index of this lane, mask of its world's lanes, and their collectives.
LOWEST = f"(threadIdx.x & {32 - LANES})"  # first lane of this world in its warp
TEAM = f"""
constexpr int LANES = {LANES};
const int lane = threadIdx.x & {LANES - 1};
const unsigned ALL = {hex(2**LANES - 1)}u{"" if LANES == 32 else f" << {LOWEST}"};
const auto from_lane = [=](auto x, int k) {{ return __shfl_sync(ALL, x, k, LANES); }};
const auto across = [=](auto x, int distance) {{ return __shfl_xor_sync(ALL, x, distance, LANES); }};
const auto ballot = [=](bool x) {{ return \
__ballot_sync(ALL, x){"" if LANES == 32 else f" >> {LOWEST} & {hex(2**LANES - 1)}u"}; }};
const auto meet = [=] {{ __syncwarp(ALL); }};
"""
# The same names for one thread.
ALONE = "constexpr int lane = 0, LANES = 1;\n"
NAMED = re.compile(r"\b(LANES|lane|ALL|from_lane|across|ballot|meet)\b")


def on_gpu(text: str) -> str:
    """A C++ body for CUDA, preceded by `TEAM` if it uses its names."""
    return TEAM + text if NAMED.search(text) else text


def by_device(gpu: str, cpu: str) -> str:
    """A C++ body for each device; the CPU's alone in kernel copies in which one thread solves an island."""
    if LANES == 1:
        return cpu
    return f"#if defined(__CUDA_ARCH__)\n{on_gpu(gpu)}\n#else\n{cpu}\n#endif\n"


# Warps per block of kernels that keep `pace`; offset of a world's part in a shared-memory array of a block's threads.
WARPS = 4
OWN_PART = "(threadIdx.x & ~(LANES - 1))"
WORLDS = 32 // LANES  # worlds per block of one warp; WORLD is the index of this one
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
    """The single instruction of a whole warp, where the device has it, else `others`."""
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


# Integers in the order of the numbers, NaN above all.
LARGEST_OF_WARP = """
const unsigned bits = __float_as_uint(x), most = __reduce_max_sync(ALL, \
x != x ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u);
return __uint_as_float(most == 0xffffffffu ? 0x7fc00000u : most >> 31 ? most & 0x7fffffffu : ~most);
"""
if real is wp.float32:
    LARGEST = by_one(LARGEST_OF_WARP, LARGEST)


@device.func_native(by_device("return lane;", "return 0;"))
def lane() -> int:
    """Index of this lane."""
    ...


@device.func_native(by_device("return LANES;", "return 1;"))
def lanes() -> int:
    """Number of lanes of a world."""
    ...


@device.func_native(by_device("meet();", ""))
def sync():
    """After it, all lanes of the world can read what any of them wrote before it."""
    ...


@device.func_native(by_device(SUM, "return x;"))
def team_sum(x: real) -> real:
    """Sum of x over the lanes, on every lane."""
    ...


@device.func_native(by_device(SUMS.replace("COUNT", "2"), "return x;"))
def team_sum_2(x: vec2) -> vec2:
    """`team_sum` of two numbers at once: their shuffles overlap."""
    ...


@device.func_native(by_device(SUMS.replace("COUNT", "3"), "return x;"))
def team_sum_3(x: vec3) -> vec3:
    """`team_sum` of three numbers at once."""
    ...


@device.func_native(by_device("__syncthreads();" if LANES == 32 else "", ""))
def pace():
    """Wait for the running warps of the block, where a world has a whole warp; affects time only.

    Between two such points the warps read the same machine code, which exceeds the instruction cache: warps that drift
    apart would each fetch it from farther away. Warps may wait at different points.
    """
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
    """Sum of x over the lanes before this one."""
    ...


@device.func_native(by_device(COUNT, "return x;"))
def team_count(x: int) -> int:
    """Sum of x over the lanes, an integer."""
    ...


@device.func_native(by_device(LARGEST, "return x;"))
def team_max(x: real) -> real:
    """Largest x of all lanes; NaN if any lane has NaN."""
    ...


@device.func_native(by_device("return from_lane(x, from_);", "return x;"))
def team_value(x: real, from_: int) -> real:
    """x of lane `from_`."""
    ...


@device.func_native(by_device("return from_lane(x, from_);", "return x;"))
def team_number(x: int, from_: int) -> int:
    """x of lane `from_`, an integer."""
    ...


@device.func_native(by_device(ANY_BITS, "return x;"))
def team_bits(x: int) -> int:
    """Bitwise or of x over the lanes."""
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
    """Deal the indices first + l of the lanes l with a hit, in order, to the lanes from `filled` on.

    Returns this lane's index; lanes that get none keep `taken`.
    """
    ...


@device.func
def team_vector(x: vec3, from_: int) -> vec3:
    """x of lane `from_`."""
    return vec3(team_value(x[0], from_), team_value(x[1], from_), team_value(x[2], from_))


@device.func_native(by_device("return __popc(ballot(x != 0) & ((1u << lane) - 1));", "return 0;"))
def team_rank(x: int) -> int:
    """Number of lanes before this one whose x is not 0."""
    ...
