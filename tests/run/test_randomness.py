# SPDX-License-Identifier: Apache-2.0
"""Random numbers by counting: known answers of Philox-4x32-10, and keys that mean what they say."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws

MASK = 0xFFFFFFFF


def philox(counter, key) -> list[int]:
    """The generator as the paper has it, in whole numbers of Python."""
    c, k = [int(x) for x in counter], [int(x) for x in key]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def test_known_answers():
    """The vectors that Random123 is tested with, for this file's generator; and the kernel's words are that generator's."""
    known = [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([MASK] * 4, [MASK] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ]
    for counter, key, answer in known:
        assert philox(counter, key) == answer
    seed, ids = 0x299F31D0_A4093822, np.array([0, 3, 2**31 - 1])
    stream = ws.RandomStream(seed, ids, device="cpu")
    kept = {"seed": seed, "world": ids, "episode": np.array([5, 0, 2**31 - 1]), "step": np.array([7, 1, 2**31 - 1])}
    stream.load_state_dict(kept)
    found = stream.words(10, draw=0x0370).numpy()
    for w in range(3):
        for four in range(3):
            counter = [ids[w], kept["episode"][w], kept["step"][w], 0x0370 << 16 | four]
            words = philox(counter, [0xA4093822, 0x299F31D0])
            assert found[w, 4 * four : 4 * four + 4].tolist() == words[: min(4, 10 - 4 * four)]


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_world_draws_what_it_draws_in_any_company(dtype):
    """Numbers depend on (seed, world, episode, step, draw): not on how many worlds there are, their order, or what was drawn before."""
    whole = ws.RandomStream(7, 50, device="cpu", dtype=dtype)
    part = ws.RandomStream(7, [31, 4, 49], device="cpu", dtype=dtype)
    for _ in range(4):
        for draw in (0, 3):
            for method in ("uniform", "normal"):
                a, b = (getattr(s, method)(6, draw=draw).numpy() for s in (whole, part))
                np.testing.assert_array_equal(a[[31, 4, 49]], b)
        whole.uniform(3, draw=9)
        whole.advance(), part.advance()
        whole.reset([4]), part.reset(np.array([False, True, False]))
    assert whole.episode.numpy()[4] == 4 and whole.step.numpy()[4] == 0 and part.step.numpy().tolist() == [4, 0, 4]
    ahead = whole.uniform(5, ahead=2).numpy()
    whole.advance(), whole.advance()
    np.testing.assert_array_equal(whole.uniform(5).numpy(), ahead)
    values = [
        ws.RandomStream(seed, 2, device="cpu").uniform(4, draw=draw).numpy() for seed in (0, 1) for draw in (0, 1)
    ]
    assert len({v.tobytes() for v in values}) == 4


def test_moments_and_bounds():
    """Uniform numbers fill their interval, normal ones have the moments 0, 1, 0, 3; columns are uncorrelated."""
    stream = ws.RandomStream(1, 200_000, device="cpu", dtype="float64")
    u = stream.uniform(5, [-1, 0, 2, 5, 7], [1, 0, 3, 9, 8]).numpy()
    assert (u[:, 1] == 0).all() and u[:, 0].min() < -0.9999 and u[:, 0].max() < 1.0 and abs(u[:, 3].mean() - 7) < 0.02
    x = stream.normal(5, deviation=2.0, draw=1).numpy() / 2
    for power, expected in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert np.abs((x**power).mean(axis=0) - expected).max() < 0.06
    assert np.abs(np.corrcoef(x.T) - np.eye(5)).max() < 0.01


def test_a_stream_goes_on_from_its_state():
    """`state_dict` holds all: another stream loaded with it draws the same."""
    a = ws.RandomStream(3, 4, device="cpu")
    for k in range(3):
        a.advance()
        a.reset(wp.array([False, k == 1, True, False], dtype=wp.bool, device="cpu"))
    b = ws.RandomStream(0, 4, device="cpu")
    b.load_state_dict(a.state_dict())
    np.testing.assert_array_equal(a.normal(9).numpy(), b.normal(9).numpy())


def test_random_controls_are_of_their_world_and_step():
    """Within the ranges, held for some steps, and of a world what they are in any shard."""
    model = ws.load(ws.robots.path("ant"))
    controls = ws.RandomControls(seed=2, scale=0.5, hold=3)
    sims = [ws.Simulator(model, n, device="cpu") for n in (6, 2)]
    whole, part = controls.of(sims[0]), controls.of(sims[1], np.array([4, 5]))
    last = None
    for step in range(7):
        a, b = whole(step, None).numpy().copy(), part(step, None).numpy()
        np.testing.assert_array_equal(a[4:], b)
        if step % 3:
            np.testing.assert_array_equal(a, last)
        last = a
    low, high = model.control_range.T
    assert (np.abs(a) <= 0.5 * (high - low) / 2 + 1e-6).all() and np.abs(a).max() > 0.3 * high.max()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda: ws.RandomStream(-1), "seed"),
        (lambda: ws.RandomStream(1 << 64), "64 bits"),
        (lambda: ws.RandomStream(0, 0), "worlds"),
        (lambda: ws.RandomStream(0, [1.5]), "worlds"),
        (lambda: ws.RandomStream(0, [-1]), "worlds"),
        (lambda: ws.RandomStream(0, 2, dtype="half"), "dtype"),
        (lambda: ws.RandomStream(0, 2, device="cpu").uniform(3, [0.0, 1.0]), "low"),
        (lambda: ws.RandomStream(0, 2, device="cpu").uniform(3, np.nan), "low"),
        (lambda: ws.RandomStream(0, 2, device="cpu").uniform(3, draw=1 << 16), "draw"),
        (lambda: ws.RandomStream(0, 2, device="cpu").uniform(3, out=wp.zeros((2, 2), device="cpu")), "out"),
        (lambda: ws.RandomStream(0, 2, device="cpu").reset([2]), "worlds"),
        (lambda: ws.RandomStream(0, 2, device="cpu").reset([True]), "mask"),
        (lambda: ws.RandomControls(seed=-1), "seed"),
        (lambda: ws.RandomControls(scale=np.nan), "scale"),
        (lambda: ws.RandomControls(hold=0), "hold"),
    ],
)
def test_wrong_arguments_are_named(wrong, word):
    """One `ValueError` that names the argument."""
    with pytest.raises(ValueError, match=word):
        wrong()


def test_bounds_on_the_device_are_of_the_columns():
    """What a kernel is to read has the shape, the dtype and the device that it reads."""
    stream = ws.RandomStream(1, 3, device="cpu")
    for wrong in (wp.zeros(2, dtype=wp.float32), wp.zeros(4, dtype=wp.float64), wp.zeros((4, 4), dtype=wp.float32)):
        with pytest.raises(ValueError, match="low is"):
            stream.uniform(4, wrong)
    np.testing.assert_array_equal(stream.uniform(4, wp.zeros(4, dtype=wp.float32)).numpy(), stream.uniform(4).numpy())
