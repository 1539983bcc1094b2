# SPDX-License-Identifier: Apache-2.0
"""Memory for the matrices of LCPs: room for all, no bit that depends on whose turn it is, and the bytes that a world costs."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.device.copies import SCALARS, copy, launch
from warpsim.kernels.differentiate import lcp_residual
from warpsim.kernels.solve import delassus
from warpsim.solve import scratch

WORLDS = 6


@pytest.mark.parametrize("rows", ["full", "few", "mixed"])
@pytest.mark.parametrize("worlds", [1, 2, 64, 500])
def test_worlds_of_a_turn_have_memory_of_their_own(worlds, rows, device):
    """Whatever the active rows: stretches of one turn do not overlap, none leaves the memory, no turn is left out."""
    capacity, scalar = 20, SCALARS["float32"]
    counts = {"full": np.full(worlds, capacity), "few": np.full(worlds, 3)}
    counts["mixed"] = np.random.default_rng(0).integers(0, capacity + 1, worlds)
    memory = scratch.Scratch(worlds, 3 * capacity**2, scalar, wp.get_device(device))
    dual = copy(delassus.Dual, scalar)()
    dual.count = wp.array(counts[rows], dtype=int, device=device)
    memory.clear(lambda kernel, dim, inputs: launch(kernel, scalar, dim, inputs, device=device))
    launch(lcp_residual.reserve, scalar, worlds, [dual, memory.data], device=device)
    begin, turn, needs = memory.data.begin.numpy(), memory.data.turn.numpy(), 3 * counts[rows] ** 2
    assert turn.min() == 0 and turn.max() < memory.turns
    assert begin.min() >= 0 and (begin + needs).max() <= memory.data.numbers.size
    for k in range(memory.turns):
        order = np.argsort(begin[turn == k], kind="stable")
        starts, ends = begin[turn == k][order], (begin + needs)[turn == k][order]
        used = starts < ends
        assert (starts[used][1:] >= ends[used][:-1]).all()
    if rows == "full":
        assert memory.data.numbers.size <= worlds * 3 * capacity**2 * max(scratch.WINDOW + 1 / worlds, 2 / worlds)
    if rows == "few":
        assert turn.max() == 0  # (3/20)² < 1/32: all at once


def crowd() -> ws.Model:
    """A box that bounces and slides, and one that is welded to a post by a two-sided constraint."""
    b = ws.ModelBuilder("crowd", timestep=0.005)
    b.add_geom("plane", friction=0.5)
    for name, x in (("free", 0.0), ("held", 1.0)):
        b.add_body(name, pose=[x, 0, 0.11])
        b.add_joint(name, "free")
        b.add_geom("box", [0.1, 0.1, 0.1], body=name, friction=0.5, restitution=0.3)
    b.add_constraint("weld", "held", "world", pose_b=[1, 0, 0.11, 1, 0, 0, 0])
    return b.build()


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", SCALARS)
def test_bits_do_not_depend_on_the_turn(dtype, device, monkeypatch):
    """Motion, flags and gradients where worlds of more contacts than fit have a turn each, and where all come at once."""
    model, v = crowd(), np.random.default_rng(1).normal(0.0, 1.0, (WORLDS, 12))
    found = []
    for window in (scratch.WINDOW, 1.0):
        monkeypatch.setattr(scratch, "WINDOW", window)
        options = {"dtype": dtype, "device": device, "max_contacts": 6, "requires_grad": True}
        sim = ws.Simulator(model, WORLDS, solver=ws.LCP(), **options)
        state = sim.state(v=v)
        state.v.requires_grad = True
        after, seen = state, set()
        with wp.Tape() as tape:
            for _ in range(30):
                after = sim.step(after)
                seen.add(int(sim._step.solver.scratch.data.turn.numpy().max()))
        tape.backward(grads={after.q: wp.ones_like(after.q), after.v: wp.ones_like(after.v)})
        found.append([x.numpy() for x in (after.q, after.v, after.memory["flags"], state.v.grad)])
        assert (max(seen) >= 1) == (window < 1), "the case has several turns, and its double one"
    for several, one in zip(*found, strict=True):
        np.testing.assert_array_equal(several, one)
    assert np.abs(found[0][3]).max() > 0.0


@pytest.mark.parametrize("solver", [ws.LCP(), ws.Compliant()], ids=["LCP", "Compliant"])
@pytest.mark.parametrize("worlds", [64, 1024])
def test_a_world_costs_no_more_than_four_with_sap(worlds, solver, device, within):
    """The humanoid at its default capacity, of 64 contacts and 36 scalar rows."""
    model, sap = ws.load(ws.robots.path("humanoid")), ws.SAP(approximation="convex")
    for which, requires_grad in {"without": False, "with": True}.items():
        options = {"worlds": worlds, "device": device, "requires_grad": requires_grad}
        costs = [ws.Simulator(model, solver=x, **options).bytes_per_world() for x in (solver, sap)]
        label = f"bytes of {type(solver).__name__} beside SAP, {which} gradients, {worlds} worlds"
        within(label, costs[0] / costs[1], 4.0)


def test_a_window_beyond_32_bits_is_refused():
    """100,000 worlds of 1,500 rows each: 1/32 of what they need at most are more numbers than an array may have."""
    with pytest.raises(ValueError, match=r"worlds is 100000: .* 2250000 numbers each, .*2147483647"):
        scratch.Scratch(100_000, 1500**2, SCALARS["float32"], "cpu")
