# SPDX-License-Identifier: Apache-2.0
"""Islands that one warp of a GPU holds have kernels of their own, which are launched first (`kernels/solve/sap/space.py`)."""

import numpy as np
import pytest

import warpsim as ws
from scenes.examples import clutter
from warpsim.device.copies import PARTS, SCALARS, WARP, copy, variant
from warpsim.kernels.linalg import row_space
from warpsim.kernels.linalg.registers import UNKNOWNS
from warpsim.kernels.solve.sap import sap

STATIC_SHARED = 48 * 1024  # bytes that a block may declare
LAWS = {"lagged": ws.SAP(), "convex": ws.SAP(approximation="convex")}
# Of the largest velocity: two solutions within the solver's tolerance.
CLOSE = {"float32": 1e-2, "float64": 1e-4}


def simulators(model, law, dtype, device, **options):
    """Two, that differ in what is launched: all islands by one kernel, and small ones first."""
    made = [ws.Simulator(model, 24, dtype=dtype, device=device, solver=LAWS[law], **options) for _ in range(2)]
    for sim, first in zip(made, (False, True), strict=True):
        sim._step.solver.as_on_gpu = first
    return made


def starts(model, rng):
    """Bodies thrown about, in the air, on the ground and within it."""
    q = np.tile(model.q0, (24, 1))
    q[:, 2] += rng.uniform(-0.4, 0.3, 24)
    if model.nq == 7 * len(model.tree_v[1:]):  # free bodies, pushed together
        q.reshape(24, -1, 7)[12:, :, :2] *= 0.5
    return {"q": q, "v": rng.normal(0, 2.0, (24, model.nv))}


@pytest.mark.parametrize("law", list(LAWS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_islands_are_solved_as_others(device, assets, law, dtype):
    """From the same states, steps of both have the same velocities, on the CPU bit by bit and on a GPU within the tolerance, converge alike, and
    leave no island to nobody; among them are islands of limits alone, islands larger than a warp holds, and, of Coulomb's law, some that need
    another start."""
    rng = np.random.default_rng(3)
    restarted = larger = 0
    for model in (ws.load(assets("humanoid")), clutter(12)):
        plain, small = simulators(model, law, dtype, device)
        state = plain.state(**starts(model, rng))
        for _ in range(25):
            here = plain.state(q=state.q.numpy(), v=state.v.numpy())
            found = [sim.step(here).v.numpy() for sim in (plain, small)]
            flags = [sim.diagnostics.numpy()["flags"] for sim in (plain, small)]
            scale = np.abs(found[0]).max(1, keepdims=True)
            assert np.array_equal(*flags)
            sound = flags[0] == 0
            close = CLOSE[dtype] * scale if plain.device.is_cuda else 0.0
            assert np.all(np.abs(found[0] - found[1]) <= close, where=sound[:, None])
            work = small._step.solver.work
            assert work.status.numpy().max() < sap.UNDECIDED
            restarted += (work.iterations.numpy() > 16).sum()
            larger += (np.diff(work.islands.slot_end.numpy(), axis=1) > UNKNOWNS).sum()
            plain.step(state, out=state)
    assert larger
    assert restarted or law == "convex"


@pytest.mark.parametrize("law", list(LAWS))
def test_gradients_need_nothing_else(device, assets, law):
    """What small islands leave is what adjoints start from: the gradients of five steps are those of the other kernel's."""
    import warp as wp

    model, rng, found = ws.load(assets("humanoid")), np.random.default_rng(3), []
    start = starts(model, rng)
    for sim in simulators(model, law, "float64", device, requires_grad=True):
        first = sim.state(**start)
        with wp.Tape() as tape:
            state = first
            for _ in range(5):
                state = sim.step(state)
        tape.backward(grads={state.v: wp.ones_like(state.v), state.q: wp.ones_like(state.q)})
        found.append(first.v.grad.numpy().copy())
    scale = np.abs(found[0]).max(1, keepdims=True)
    close = np.abs(found[0] - found[1]) <= (1e-4 * scale if sim.device.is_cuda else 0.0)
    assert close.all(1).mean() >= 0.9  # the others are near a kink, where two solutions may lie on its sides


@pytest.mark.parametrize(
    "solver", [ws.SAP(line_search="backtracking", approximation="convex"), ws.SAP(linear_solver="cg")]
)
def test_what_they_do_not_do_is_left(device, assets, solver):
    """Backtracking and conjugate gradients have no kernels for small islands: the same bits with and without what a GPU launches first."""
    model, rng = ws.load(assets("humanoid")), np.random.default_rng(3)
    start, found = starts(model, rng), []
    for first in (False, True):
        sim = ws.Simulator(model, 24, device=device, solver=solver)
        sim._step.solver.as_on_gpu = first
        state = sim.state(**start)
        for _ in range(3):
            sim.step(state, out=state)
        found.append(state.v.numpy())
    assert np.array_equal(*found)


@pytest.mark.parametrize("lanes", (*PARTS, WARP))
@pytest.mark.parametrize("dtype", list(SCALARS))
def test_an_island_fits_into_what_a_block_may_declare(dtype, lanes):
    """Parts do not overlap, begin at 16 bytes, and are no more than a block's shared memory: in CI only float32's is compiled for CUDA."""
    numbers = copy(row_space, variant(SCALARS[dtype], lanes=lanes))
    begins = list({name: at for name, at in numbers.PLACES.items() if name != "Y"}.values())  # Y is in the place of W
    assert begins == sorted(set(begins)) and all(at % 4 == 0 for at in begins) and begins[-1] < numbers.NUMBERS
    assert WARP // lanes * numbers.NUMBERS * np.dtype(dtype).itemsize <= STATIC_SHARED
