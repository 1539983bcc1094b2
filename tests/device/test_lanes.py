# SPDX-License-Identifier: Apache-2.0
"""The lanes of a world (`kernels/linalg/lanes.py`): a warp, or part of one for models of few degrees of freedom, emulated from their CUDA code."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks.gpu.trace import Launch, ptx_of
from benchmarks.gpu.warp import Program
from scenes.examples import asset, clutter
from warpsim.device.copies import PARTS, WARP, copy, lanes_for, variant
from warpsim.kernels.contact import contacts
from warpsim.kernels.contact.narrow import manifold
from warpsim.kernels.integrate import fused
from warpsim.kernels.linalg import lanes as lane_functions
from warpsim.kernels.solve import problem
from warpsim.kernels.solve.sap import space_lagged
from warpsim.kernels.tree import passes
from warpsim.tools.warm import as_on_gpu

WIDTHS = (*PARTS, WARP)
WORLDS = 4


def primitives(lanes: int):
    """A kernel that writes what every function of `lanes.py` returns, and `team_deal`; over (worlds, lanes)."""
    team, lists = (copy(file, variant(wp.float32, lanes=lanes)) for file in (lane_functions, manifold))

    @wp.kernel(enable_backward=False, module="unique")
    def each(
        x: wp.array2d(dtype=wp.float32), n: wp.array2d(dtype=wp.int32), real_results: wp.array3d(dtype=wp.float32),
        results: wp.array3d(dtype=wp.int32),
    ):  # fmt: skip
        w, i = wp.tid()
        real_results[w, 0, i] = team.team_sum(x[w, i])
        real_results[w, 1, i] = team.team_max(x[w, i])
        real_results[w, 2, i] = team.team_value(x[w, i], team.lanes() - 1)
        results[w, 0, i] = team.team_count(n[w, i])
        results[w, 1, i] = team.team_bits(n[w, i])
        results[w, 2, i] = team.team_before(n[w, i])
        results[w, 3, i] = team.team_rank(n[w, i] % 3)
        results[w, 4, i] = team.team_take(n[w, i] % 3, 100, 2, -1)
        results[w, 5, i] = team.lane()
        list = lists.Manifold()
        for k in range(n[w, i] % 4):
            list = lists.add_contact(list, i, k, -1)
        dealt = lists.team_deal(list.count, list.features, 100 + i, team.team_before(list.count) - 1)
        for k in range(4):
            results[w, 6 + k, i] = dealt[k]
        team.sync()

    each.lanes = lanes
    return each


@pytest.mark.parametrize("lanes", WIDTHS)
def test_worlds_in_one_warp_share_nothing(lanes):
    """Sums, votes and places of each world of a warp are those of its own lanes alone."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(WORLDS, lanes)).astype(np.float32)
    n = rng.integers(0, 50, (WORLDS, lanes)).astype(np.int32)
    given = [wp.array(values, device="cpu") for values in (x, n)]
    made = [
        wp.zeros((WORLDS, rows, lanes), dtype=kind, device="cpu") for rows, kind in ((3, wp.float32), (10, wp.int32))
    ]
    launch = Launch(primitives(lanes), (WORLDS, lanes), (*given, *made), WARP, {})
    program = Program(*ptx_of(launch))
    parameters = bytearray(program.entry.parameter_bytes)
    for (offset, size), value in zip(program.entry.parameters.values(), launch.parameters(), strict=True):
        parameters[offset : offset + size] = value
    ranges = [(a.ptr, a.capacity) for a in launch.arrays().values()]
    for first in range(0, WORLDS * lanes, WARP):
        program.run(bytes(parameters), ranges, block=WARP, grid=WORLDS * lanes // WARP, first=first, l1_bytes=65536)
    reals, integers = (array.numpy() for array in made)
    np.testing.assert_allclose(reals[:, 0], np.repeat(x.sum(1)[:, None], lanes, 1), rtol=1e-5)
    assert np.array_equal(reals[:, 1], np.repeat(x.max(1)[:, None], lanes, 1))
    assert np.array_equal(reals[:, 2], np.repeat(x[:, -1:], lanes, 1))
    assert np.array_equal(integers[:, 0], np.repeat(n.sum(1)[:, None], lanes, 1))
    assert np.array_equal(integers[:, 1], np.repeat(np.bitwise_or.reduce(n, 1)[:, None], lanes, 1))
    assert np.array_equal(integers[:, 2], np.cumsum(n, 1) - n)
    hit = (n % 3 != 0).astype(int)
    assert np.array_equal(integers[:, 3], np.cumsum(hit, 1) - hit)
    assert np.array_equal(integers[:, 5], np.tile(np.arange(lanes), (WORLDS, 1)))
    for w in range(WORLDS):
        places = 100 + np.flatnonzero(hit[w])[: lanes - 2]
        assert integers[w, 4].tolist() == [-1, -1, *places, *[-1] * (lanes - 2 - len(places))]
        rows = [(i, k, -1, 100 + i) for i in range(lanes) for k in range(n[w, i] % 4)][1 : lanes + 1]
        assert [tuple(row) for row in integers[w, 6:].T[: len(rows)].tolist()] == rows


def test_a_world_gets_no_more_lanes_than_it_has_dofs():
    assert [lanes_for(n) for n in (0, 1, 8, 9, 16, 17, 400)] == [8, 8, 8, 16, 16, 32, 32]


@pytest.mark.parametrize("robot, lanes", [("hopper", 8), ("half_cheetah", 16), ("ant", 16), ("humanoid", 32)])
def test_what_a_gpu_would_launch(robot, lanes):
    """On a GPU a model's kernels are those of its lanes; on a CPU, those of all models. Structs are the same."""
    sim = ws.Simulator(ws.load(asset(robot)), 2, device="cpu")
    device_model, solver = sim._step.device_model, sim._step.solver
    chosen = lambda: [x.lanes for x in (fused.smooth_motion, contacts.detect) for x in [copy(x, device_model.code(x))]]  # noqa: E731
    assert chosen() == [32, 32] and solver.launched is wp.float32
    with as_on_gpu(sim):
        assert chosen() == [lanes, lanes]
        assert copy(space_lagged.solve_space_lagged, solver.launched).lanes == max(16, lanes)
        assert copy(passes.crba, device_model.code(passes.crba)).lanes == 32  # of a file without such copies
    assert chosen() == [32, 32] and solver.launched is wp.float32


def test_structs_are_those_of_whole_warps():
    for entry in (problem.Problem, fused.Motion, passes.Topology):
        assert copy(entry, variant(wp.float32, lanes=8)) is copy(entry, wp.float32)


def test_many_pairs_have_the_lanes_of_pairs():
    """A free ball among 20 that stand: six dofs, more pairs."""
    balls = "".join(f'<geom type="sphere" size=".05" pos="{k} 0 -2"/>' for k in range(20))
    body = '<body pos="0 0 1"><freejoint/><geom size=".1"/></body>'
    model = ws.load(mujoco.MjSpec.from_string(f"<mujoco><worldbody>{balls}{body}</worldbody></mujoco>"))
    sim = ws.Simulator(model, 1, device="cpu")
    assert sim._step.device_model.lanes_by_share() == {"dofs": 8, "tree": 8, "pairs": 32}


def test_many_trees_move_side_by_side():
    """Of 20 free bodies each is a tree of six dofs, and moves by eight lanes; the end of the step is one world's of 120."""
    device_model = ws.Simulator(clutter(20), 1, device="cpu")._step.device_model
    device_model.lanes = device_model.lanes_by_share()
    assert [copy(x, device_model.code(x)).lanes for x in (fused.smooth_motion, fused.finish)] == [8, 32]


@pytest.mark.parametrize("friction, lanes", [(0.0, 8), (0.1, 16)])
def test_rows_have_lanes(friction, lanes):
    """An arm of seven limited joints: seven rows at most act at once, with friction in the joints as many more."""
    joint = f'<joint axis="0 1 0" range="-90 90" frictionloss="{friction}"/><geom size=".05 .1" type="capsule"/>'
    body = "".join(f'<body pos="0 0 .3">{joint}' for _ in range(7)) + "</body>" * 7
    model = ws.load(mujoco.MjSpec.from_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>"))
    sim = ws.Simulator(model, 1, device="cpu", solver=ws.SAP(approximation="convex"))
    with as_on_gpu(sim):
        assert sim._step.solver.lanes == lanes
