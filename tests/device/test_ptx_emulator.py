# SPDX-License-Identifier: Apache-2.0
"""The interpreter of PTX that proves kernels without a GPU (benchmarks/gpu): what an instruction says is what it does."""

import ctypes

import numpy as np
import pytest
import warp as wp

from benchmarks.gpu.memory import OutOfBounds
from benchmarks.gpu.trace import Launch, ptx_of
from benchmarks.gpu.warp import Deadlock, Program

HEAD = """.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b8 table[8] = {1, 0, 0, 0, 7, 0, 0, 0};
.visible .entry k(.param .u64 k_param_0,
.param .u64 k_param_1)
{
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b64 %rd<20>;
.shared .align 4 .b8 room[128];
.local .align 8 .b8 __local_depot0[16];
ld.param.u64 %rd1, [k_param_0];
ld.param.u64 %rd2, [k_param_1];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 8;
add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3;
ld.global.u64 %rd6, [%rd4];
"""
LANE = np.arange(32)


def run(body: str, given=LANE, dtype=np.uint64, functions: str = "", **options):
    """What a body writes to [%rd5] of each lane, which has read its entry of `given` into %rd6; and the cost."""
    source, target = np.zeros(32, np.uint64), np.zeros(32, np.uint64)
    source[:] = np.asarray(given).astype(dtype).view(np.uint64) if np.dtype(dtype).itemsize == 8 else given
    program = Program(f"{functions}{HEAD}{body}\nret;\n}}\n", "k")
    ranges = [(x.ctypes.data, x.nbytes) for x in (source, target)]
    parameters = bytes(ctypes.c_uint64(source.ctypes.data)) + bytes(ctypes.c_uint64(target.ctypes.data))
    options = {"block": 32, "grid": 1, "first": 0, "l1_bytes": 65536} | options
    cost = program.run(parameters, ranges, **options)
    return target.view(dtype) if np.dtype(dtype).itemsize == 8 else target, cost


def shuffled(mode: str, distance: str, clamp: int) -> np.ndarray:
    """Lane numbers after `shfl.sync.mode`, where the predicate says that the source was inside; −1 elsewhere."""
    body = f"""cvt.u32.u64 %r2, %rd6;
shfl.sync.{mode}.b32 %r3|%p1, %r2, {distance}, {clamp}, -1;
selp.b32 %r4, %r3, -1, %p1;
cvt.s64.s32 %rd7, %r4;
st.global.u64 [%rd5], %rd7;"""
    return run(body)[0].astype(np.int64)


def test_butterfly_shuffle_exchanges_lanes():
    """shfl.bfly: lane i has what lane i XOR d had."""
    for distance in (1, 16):
        np.testing.assert_array_equal(shuffled("bfly", str(distance), 31), LANE ^ distance)


def test_shuffle_down_and_up_stop_at_the_ends():
    """shfl.down and shfl.up: lanes without a source are told so."""
    np.testing.assert_array_equal(shuffled("down", "4", 31), np.where(LANE < 28, LANE + 4, -1))
    np.testing.assert_array_equal(shuffled("up", "3", 0), np.where(LANE >= 3, LANE - 3, -1))


def test_shuffle_by_index_within_segments():
    """shfl.idx in segments of 8 lanes (clamp 31, mask 24, as `__shfl_sync(…, 8)` writes it) stays in the segment."""
    np.testing.assert_array_equal(shuffled("idx", "5", 0x181F), LANE // 8 * 8 + 5)
    np.testing.assert_array_equal(shuffled("down", "2", 0x181F), np.where(LANE % 8 < 6, LANE + 2, -1))


def test_shuffle_of_parted_lanes_waits_for_them():
    """Lanes that took different ways meet at the shuffle and exchange what they brought; those that never come are an error."""
    body = """and.b32 %r2, %r1, 1;
setp.eq.s32 %p1, %r2, 0;
mov.u32 %r3, 100;
@%p1 bra $EVEN;
add.s32 %r3, %r1, 1000;
$EVEN:
shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;
cvt.u64.u32 %rd7, %r4;
st.global.u64 [%rd5], %rd7;"""
    np.testing.assert_array_equal(run(body)[0], np.where(LANE % 2 == 0, LANE + 1001, 100))
    waits = body.replace("$EVEN:", "bar.warp.sync -1;\n$EVEN:")
    with pytest.raises(Deadlock, match="wait for each other"):
        run(waits)


def test_votes_and_active_lanes():
    """vote.ballot, any, all of a predicate; activemask names the lanes of a branch only."""
    body = """setp.gt.u64 %p1, %rd6, 29;
vote.sync.ballot.b32 %r2, %p1, -1;
vote.sync.any.pred %p2, %p1, -1;
vote.sync.all.pred %p3, %p1, -1;
selp.b32 %r3, 4, 0, %p2;
selp.b32 %r4, 8, 0, %p3;
popc.b32 %r5, %r2;
add.s32 %r5, %r5, %r3;
add.s32 %r5, %r5, %r4;
@%p1 bra $SOME;
bra.uni $END;
$SOME:
activemask.b32 %r6;
shr.u32 %r6, %r6, 24;
add.s32 %r5, %r5, %r6;
$END:
cvt.u64.u32 %rd7, %r5;
st.global.u64 [%rd5], %rd7;"""
    np.testing.assert_array_equal(run(body)[0], np.where(LANE > 29, 6 + 0xC0, 6))


def test_votes_and_sums_of_lanes_that_name_half_a_warp():
    """Halves that meet at one instruction vote, add and are counted apart: each names its own."""
    body = """and.b32 %r2, %r1, 16;
mov.u32 %r3, 65535;
shl.b32 %r3, %r3, %r2;
setp.gt.u64 %p1, %rd6, 10;
vote.sync.ballot.b32 %r4, %p1, %r3;
vote.sync.all.pred %p2, %p1, %r3;
redux.sync.add.s32 %r5, %r1, %r3;
popc.b32 %r6, %r4;
selp.b32 %r7, 1000, 0, %p2;
add.s32 %r6, %r6, %r7;
add.s32 %r6, %r6, %r5;
cvt.u64.u32 %rd7, %r6;
st.global.u64 [%rd5], %rd7;"""
    np.testing.assert_array_equal(run(body)[0], np.where(LANE < 16, 5 + 120, 16 + 1000 + 376))


def test_lanes_must_name_themselves_and_agree():
    """A mask that leaves out the lane itself, or is not that of the others it names, is an error, not a result."""
    for mask in ("mov.u32 %r3, 65535;", "add.s32 %r2, %r1, 1;\nmov.u32 %r3, 1;\nshl.b32 %r3, %r3, %r2;"):
        with pytest.raises(ValueError, match="name"):
            run(f"{mask}\nvote.sync.ballot.b32 %r4, 1, %r3;")


def test_a_barrier_of_half_a_warp_orders_that_half_alone():
    """What one half wrote is not there for the other, though both passed a barrier of their own."""
    body = """and.b32 %r2, %r1, 16;
mov.u32 %r3, 65535;
shl.b32 %r3, %r3, %r2;
mov.u32 %r4, room;
shl.b32 %r5, %r1, 2;
add.s32 %r6, %r4, %r5;
st.shared.u32 [%r6], %r1;
bar.warp.sync %r3;
xor.b32 %r5, %r5, FAR;
add.s32 %r6, %r4, %r5;
@%p1 bra $END;
ld.shared.u32 %r7, [%r6];
$END:
cvt.u64.u32 %rd7, %r7;
st.global.u64 [%rd5], %rd7;"""
    assert not run(body.replace("FAR", "32"))[1].hazard
    # Only the upper half is at its barrier when it reads what the lower one has written.
    alone = body.replace("mov.u32 %r4, room;", "mov.u32 %r4, room;\nsetp.lt.u32 %p1, %r1, 16;").replace(
        "bar.warp.sync %r3;", "@%p1 bra $READ;\nbar.warp.sync %r3;\n$READ:"
    )
    assert "without a barrier" in run(alone.replace("FAR", "64"))[1].hazard


def test_loops_of_different_length_end_together():
    """Lane i goes i times round a loop: the result is its own, and lane slots count who takes part."""
    body = """cvt.u32.u64 %r2, %rd6;
mov.u32 %r3, 0;
mov.u32 %r4, 0;
$LOOP:
setp.ge.u32 %p1, %r3, %r2;
@%p1 bra $DONE;
add.s32 %r3, %r3, 1;
add.s32 %r4, %r4, %r3;
bra.uni $LOOP;
$DONE:
cvt.u64.u32 %rd7, %r4;
st.global.u64 [%rd5], %rd7;"""
    result, cost = run(body)
    np.testing.assert_array_equal(result, LANE * (LANE + 1) // 2)
    assert 0.45 < cost.lane_slots / cost.slots / 32 < 0.65
    assert 0 < cost.flow <= cost.in_order


def test_fused_multiply_add_rounds_once():
    """fma.f64 and fma.f32 keep the bits of the product that a sum of opposite sign leaves."""
    x = np.full(32, 1.0 + 2.0**-30)
    body = """mov.b64 %fd1, %rd6;
mul.f64 %fd2, %fd1, %fd1;
neg.f64 %fd2, %fd2;
fma.rn.f64 %fd3, %fd1, %fd1, %fd2;
st.global.f64 [%rd5], %fd3;"""
    np.testing.assert_array_equal(run(body, x, np.float64)[0], 2.0**-60)
    y = np.float32(1.0 + 2.0**-13)
    body = """mov.b64 %fd1, %rd6;
cvt.rn.f32.f64 %f1, %fd1;
mul.f32 %f2, %f1, %f1;
neg.f32 %f2, %f2;
fma.rn.f32 %f3, %f1, %f1, %f2;
cvt.f64.f32 %fd3, %f3;
st.global.f64 [%rd5], %fd3;"""
    np.testing.assert_array_equal(run(body, np.full(32, float(y)), np.float64)[0], 2.0**-26)


@pytest.mark.parametrize(
    "instruction, least, most",
    [
        ("rcp.approx.ftz.f32 %f1, %f2", 0.5, 1.5),  # rounded, and one more
        ("sqrt.approx.ftz.f32 %f1, %f2", -1.5, -0.5),
        ("div.approx.ftz.f32 %f1, %f3, %f2", -0.3, 3.6),  # a product with such a reciprocal, rounded
    ],
)
def test_approximations_are_off_by_a_unit(instruction, least, most):
    """In units in the last place; 0, infinity and NaN as they are."""
    x = np.concatenate([np.float32([0, np.inf, np.nan, 2e38]), np.linspace(0.3, 5, 28, dtype=np.float32)])
    body = f"cvt.u32.u64 %r2, %rd6; mov.b32 %f2, %r2; mov.f32 %f3, 0f40400000; {instruction}; mov.b32 %r3, %f1; cvt.u64.u32 %rd7, %r3; st.global.u64 [%rd5], %rd7;"
    found = run(body.replace("; ", ";\n"), given=x.view(np.uint32))[0].astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        true = {"div": 3 / x.astype(float), "sqrt": np.sqrt(x.astype(float)), "rcp": 1 / x.astype(float)}[
            instruction.split(".")[0]
        ]
    np.testing.assert_array_equal(found[:3], true[:3].astype(np.float32))
    units = (found[4:] - true[4:]) / np.spacing(true[4:].astype(np.float32))
    assert units.min() >= least and units.max() <= most and abs(units.mean()) > 0.5
    if instruction.startswith("rcp"):  # 5e-39 is no normal number
        assert found[3] == 0


def test_comparisons_with_nan():
    """setp.lt is false and setp.ltu, setp.neu true where a number is NaN."""
    body = """mov.b64 %fd1, %rd6;
setp.lt.f64 %p1, %fd1, 0d3FF0000000000000;
setp.ltu.f64 %p2, %fd1, 0d3FF0000000000000;
setp.neu.f64 %p3, %fd1, %fd1;
selp.b64 %rd7, 1, 0, %p1;
selp.b64 %rd8, 2, 0, %p2;
selp.b64 %rd9, 4, 0, %p3;
add.s64 %rd7, %rd7, %rd8;
add.s64 %rd7, %rd7, %rd9;
st.global.u64 [%rd5], %rd7;"""
    given = np.where(LANE == 3, np.nan, LANE.astype(float))
    source = run(body, given.view(np.uint64))[0]
    np.testing.assert_array_equal(source, np.where(LANE == 3, 6, np.where(LANE < 1, 3, 0)))


def test_integers():
    """Division towards zero, the high half of a product, bit fields and shifts by the width."""
    body = """cvt.u32.u64 %r2, %rd6;
sub.s32 %r3, %r2, 10;
div.s32 %r4, %r3, 3;
rem.s32 %r5, %r3, 3;
mul.hi.s32 %r6, %r3, 1073741824;
shl.b32 %r7, %r2, 32;
bfi.b32 %r8, %r2, 0, 8, 4;
bfe.u32 %r9, %r8, 8, 4;
mad.lo.s32 %r10, %r4, 1000, %r5;
add.s32 %r10, %r10, %r6;
add.s32 %r10, %r10, %r7;
mad.lo.s32 %r10, %r9, 100000, %r10;
cvt.s64.s32 %rd7, %r10;
st.global.u64 [%rd5], %rd7;"""
    x = LANE - 10
    quotient = np.trunc(x / 3).astype(int)
    expected = 1000 * quotient + (x - 3 * quotient) + (x * 2**30 >> 32) + 100000 * (LANE % 16)
    np.testing.assert_array_equal(run(body)[0].astype(np.int64), expected)


def test_atomics_add_lane_after_lane():
    """atom.add of all lanes to one word of shared memory: the sum, and every lane the sum of those before."""
    body = """mov.u32 %r2, room;
mov.u32 %r4, 0;
st.shared.u32 [%r2], %r4;
bar.warp.sync -1;
cvt.u32.u64 %r3, %rd6;
atom.shared.add.u32 %r4, [%r2], %r3;
bar.warp.sync -1;
ld.shared.u32 %r5, [%r2];
mad.lo.s32 %r6, %r4, 1000, %r5;
cvt.u64.u32 %rd7, %r6;
st.global.u64 [%rd5], %rd7;"""
    np.testing.assert_array_equal(run(body)[0], 1000 * (LANE * (LANE - 1) // 2) + 496)


@pytest.mark.parametrize("space, place", [("shared", "room"), ("local", "__local_depot0")])
def test_memory_begins_without_numbers(space, place):
    """What nobody has written is NaN, in shared and in local memory: times 0 it is no 0, as it may be on a GPU."""
    body = f"""mov.u32 %r2, {place};
ld.{space}.f32 %f1, [%r2+4];
mul.f32 %f2, %f1, 0f00000000;
cvt.f64.f32 %fd1, %f2;
st.global.f64 [%rd5], %fd1;"""
    assert np.isnan(run(body)[0].view(np.float64)).all()


NEIGHBOUR = """mov.u32 %r2, room;
cvt.u32.u64 %r3, %rd6;
shl.b32 %r4, %r1, 2;
add.s32 %r5, %r4, %r2;
st.shared.u32 [%r5], %r3;
BARRIER
xor.b32 %r6, %r4, 4;
add.s32 %r6, %r6, %r2;
ld.shared.u32 %r7, [%r6];
cvt.u64.u32 %rd7, %r7;
st.global.u64 [%rd5], %rd7;"""


def test_lanes_that_meet_in_memory_without_a_barrier_are_found():
    """A lane reads what its neighbour wrote: with `bar.warp.sync` in between no race, with a vote or nothing one."""
    result, cost = run(NEIGHBOUR.replace("BARRIER", "bar.warp.sync -1;"))
    np.testing.assert_array_equal(result, LANE ^ 1)
    assert cost.hazard == ""
    for instead in ("", "vote.sync.ballot.b32 %r9, 1, -1;"):
        assert "read by lanes [0], written before by lanes [1]" in run(NEIGHBOUR.replace("BARRIER", instead))[1].hazard


def test_lanes_that_all_write_one_number_are_no_race():
    """Every lane stores 7 to one word and reads it; one that reads before others write the next number is a race."""
    body = """mov.u32 %r2, room;
mov.u32 %r3, 7;
st.shared.u32 [%r2], %r3;
ld.shared.u32 %r4, [%r2];
AGAIN
cvt.u64.u32 %rd7, %r4;
st.global.u64 [%rd5], %rd7;"""
    result, cost = run(body.replace("AGAIN", ""))
    assert (result == 7).all() and cost.hazard == ""
    assert "written by lanes" in run(body.replace("AGAIN", "add.s32 %r3, %r4, 1;\nst.shared.u32 [%r2], %r3;"))[1].hazard


def test_memory_spaces():
    """Local memory is a lane's own, also by generic addresses; shared memory the warp's; tables of the module are read."""
    body = """mov.u64 %rd10, __local_depot0;
cvta.local.u64 %rd11, %rd10;
st.u64 [%rd11+8], %rd6;
ld.local.u64 %rd12, [%rd10+8];
mov.u32 %r2, room;
cvt.u32.u64 %r3, %rd6;
shl.b32 %r4, %r3, 2;
add.s32 %r4, %r4, %r2;
st.shared.u32 [%r4], %r3;
bar.sync 0;
ld.shared.u32 %r5, [%r2+124];
cvt.u64.u32 %rd13, %r5;
mov.u64 %rd14, table;
ld.global.u32 %r6, [%rd14+4];
cvt.u64.u32 %rd15, %r6;
mul.lo.s64 %rd12, %rd12, 1000;
mul.lo.s64 %rd13, %rd13, 10;
add.s64 %rd7, %rd12, %rd13;
add.s64 %rd7, %rd7, %rd15;
st.global.u64 [%rd5], %rd7;"""
    np.testing.assert_array_equal(run(body)[0], 1000 * LANE + 317)


def test_requests_are_counted_in_lines_and_sectors():
    """8 bytes a lane, one after the other: 2 lines and 8 sectors a request; every byte of a sector is used."""
    cost = run("st.global.u64 [%rd5], %rd6;")[1]
    accesses = 2  # load and store; arrays may begin in the middle of a sector
    assert 8 * accesses <= cost.memory["sectors"] <= 9 * accesses
    assert cost.memory["useful_bytes"] == 256 * accesses
    assert 2 * accesses <= cost.memory["lines"] <= 3 * accesses


def test_an_access_outside_the_arrays_is_an_error():
    """One word behind the array that the launch was given."""
    with pytest.raises(OutOfBounds, match="store of 8 bytes outside every array"):
        run("st.global.u64 [%rd5+8], %rd6;")


def test_part_of_a_block():
    """A block of 8 threads has 8 lanes: the others do nothing."""
    result, _ = run("add.s64 %rd6, %rd6, 1;\nst.global.u64 [%rd5], %rd6;", block=8)
    np.testing.assert_array_equal(result, np.where(LANE < 8, LANE + 1, 0))


TWICE = """.func (.param .b32 func_retval0) NAME(.param .b32 NAME_param_0)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
mov.b64 %rd1, NAME_param_0;
ld.local.u32 %r1, [%rd1];
ld.param.u32 %r2, [NAME_param_0];
mad.lo.s32 %r3, %r1, 10, %r2;
st.param.b32 [func_retval0+0], %r3;
ret;
}
"""
CALL = """{
.param .b32 param0;
st.param.b32 [param0+0], %r2;
.param .b32 retval0;
call.uni (retval0),
NAME,
(
param0
);
ld.param.b32 %r2, [retval0+0];
 }
"""


def test_calls_return_to_where_they_came_from():
    """Two functions in turn, one of them twice, each 11 x: by a parameter's value and by its address; odd lanes call once less."""
    functions = "".join(TWICE.replace("NAME", name) for name in ("first", "second"))
    body = f"""cvt.u32.u64 %r2, %rd6;
{CALL.replace("NAME", "first")}{CALL.replace("NAME", "second")}and.b32 %r3, %r1, 1;
setp.eq.s32 %p1, %r3, 1;
@%p1 bra $ODD;
{CALL.replace("NAME", "first")}$ODD:
cvt.u64.u32 %rd7, %r2;
st.global.u64 [%rd5], %rd7;"""
    np.testing.assert_array_equal(run(body, functions=functions)[0], LANE * np.where(LANE % 2, 121, 1331))


SUM_OF_LANES = """
#if defined(__CUDA_ARCH__)
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    __syncwarp();
    unsigned odd = __ballot_sync(0xffffffffu, lane & 1);
    return x + (double)__popc(odd);
#else
    return x;
#endif
"""


@wp.func_native(SUM_OF_LANES)
def sum_of_lanes(x: wp.float64, lane: wp.int32) -> wp.float64: ...


@wp.kernel(enable_backward=False, module="unique")
def sums(x: wp.array2d(dtype=wp.float64), total: wp.array2d(dtype=wp.float64)):
    """Launch over (worlds, 32)."""
    w, lane = wp.tid()
    total[w, lane] = wp.sin(x[w, lane]) + sum_of_lanes(x[w, lane], lane)


def test_a_kernel_of_warp_with_lanes():
    """What Warp compiles of a kernel over (worlds, 32) with shuffles of float64 and a vote: the third world, by hand."""
    x = np.random.default_rng(0).normal(size=(4, 32)) * 3.0
    given, total = wp.array(x, dtype=wp.float64, device="cpu"), wp.zeros((4, 32), dtype=wp.float64, device="cpu")
    launch = Launch(sums, (4, 32), (given, total), 32, {})
    program = Program(*ptx_of(launch))
    parameters = bytearray(program.entry.parameter_bytes)
    for (offset, size), value in zip(program.entry.parameters.values(), launch.parameters(), strict=True):
        parameters[offset : offset + size] = value
    ranges = [(a.ptr, a.capacity) for a in launch.arrays().values()]
    program.run(bytes(parameters), ranges, block=32, grid=4, first=64, l1_bytes=65536)
    np.testing.assert_allclose(total.numpy()[2], np.sin(x[2]) + x[2].sum() + 16.0, rtol=0, atol=1e-13)
    assert not total.numpy()[[0, 1, 3]].any()
