# SPDX-License-Identifier: Apache-2.0
"""Counter-based random numbers: Philox-4x32-10.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).

Four 32-bit words are a function of a key (the seed) and a counter (world, episode, step, draw). No number depends on
earlier draws, on the number of worlds or on the device.
"""

import warp as wp

from .real import func, kernel, real, struct

MULTIPLIER_0, MULTIPLIER_1 = wp.constant(wp.uint64(0xD2511F53)), wp.constant(wp.uint64(0xCD9E8D57))
WEYL_0, WEYL_1 = wp.constant(wp.uint32(0x9E3779B9)), wp.constant(wp.uint32(0xBB67AE85))
ROUNDS = wp.constant(10)
LOW_WORD = wp.constant(wp.uint64(0xFFFFFFFF))
Words = wp.types.vector(4, wp.uint32)


@func
def philox(counter: Words, seed_low: wp.uint32, seed_high: wp.uint32) -> Words:
    """Four random words of a counter and a 64-bit key."""
    x, k0, k1 = counter, seed_low, seed_high
    for _ in range(ROUNDS):
        a, b = wp.uint64(x[0]) * MULTIPLIER_0, wp.uint64(x[2]) * MULTIPLIER_1
        x = Words(
            wp.uint32(b >> wp.uint64(32)) ^ x[1] ^ k0,
            wp.uint32(b & LOW_WORD),
            wp.uint32(a >> wp.uint64(32)) ^ x[3] ^ k1,
            wp.uint32(a & LOW_WORD),
        )
        k0, k1 = k0 + WEYL_0, k1 + WEYL_1
    return x


@struct
class Stream:
    """The key, and the parts of the counter of every world."""

    seed: wp.array1d(dtype=wp.uint32)  # (2,) low and high word
    world: wp.array1d(dtype=wp.int32)
    episode: wp.array1d(dtype=wp.int32)
    step: wp.array1d(dtype=wp.int32)


@func
def drawn(stream: Stream, w: int, ahead: int, draw: int, four: int) -> Words:
    """Words 4 `four` to 4 `four` + 3 of one world's draw; up to 65,536 draws of 65,536 fours."""
    last = (wp.uint32(draw) << wp.uint32(16)) | wp.uint32(four)
    step = wp.uint32(stream.step[w] + ahead)
    counter = Words(wp.uint32(stream.world[w]), wp.uint32(stream.episode[w]), step, last)
    return philox(counter, stream.seed[0], stream.seed[1])


@kernel
def words(
    stream: Stream,
    ahead: int,
    draw: int,
    # out
    out: wp.array2d(dtype=wp.uint32),
):
    """Random words. Launch over (worlds, fours of columns)."""
    w, four = wp.tid()
    x = drawn(stream, w, ahead, draw, four)
    for i in range(wp.min(4, out.shape[1] - 4 * four)):
        out[w, 4 * four + i] = x[i]


@kernel
def uniform(
    stream: Stream,
    ahead: int,
    draw: int,
    low: wp.array1d(dtype=real),
    high: wp.array1d(dtype=real),
    # out
    out: wp.array2d(dtype=real),
):
    """Numbers in [low, high): multiples of 2⁻²⁴ of the range. Launch over (worlds, fours of columns)."""
    w, four = wp.tid()
    x = drawn(stream, w, ahead, draw, four)
    for i in range(wp.min(4, out.shape[1] - 4 * four)):
        c = 4 * four + i
        a, b = low[c % low.shape[0]], high[c % high.shape[0]]
        out[w, c] = a + (b - a) * (real(x[i] >> wp.uint32(8)) * real(5.9604644775390625e-8))


@kernel
def normal(
    stream: Stream,
    ahead: int,
    draw: int,
    mean: wp.array1d(dtype=real),
    deviation: wp.array1d(dtype=real),
    # out
    out: wp.array2d(dtype=real),
):
    """Normal numbers by Box and Muller, two from each two words. Launch over (worlds, fours of columns)."""
    w, four = wp.tid()
    x = drawn(stream, w, ahead, draw, four)
    for pair in range(2):
        u = (real(x[2 * pair] >> wp.uint32(8)) + real(1.0)) * real(5.9604644775390625e-8)
        angle = real(6.283185307179586) * (real(x[2 * pair + 1] >> wp.uint32(8)) * real(5.9604644775390625e-8))
        radius = wp.sqrt(real(-2.0) * wp.log(u))
        for i in range(2):
            c = 4 * four + 2 * pair + i
            if c < out.shape[1]:
                value = radius * wp.where(i == 0, wp.cos(angle), wp.sin(angle))
                out[w, c] = mean[c % mean.shape[0]] + deviation[c % deviation.shape[0]] * value


@kernel
def advance(step: wp.array1d(dtype=wp.int32)):
    """Advance the step counter of every world. Launch over worlds."""
    w = wp.tid()
    step[w] = step[w] + 1


@kernel
def next_episode(
    mask: wp.array1d(dtype=wp.bool), episode: wp.array1d(dtype=wp.int32), step: wp.array1d(dtype=wp.int32)
):
    """The chosen worlds begin their next episode, at step 0. Launch over worlds."""
    w = wp.tid()
    if mask[w]:
        episode[w] = episode[w] + 1
        step[w] = 0
