# SPDX-License-Identifier: Apache-2.0
"""Islands of few rows are solved in the space of their rows (`kernels/solve/sap/space_lagged.py`), others over velocities: the same law either way."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.examples import clutter
from warpsim.device.copies import PARTS, SCALARS, WARP, copy, variant
from warpsim.kernels.linalg import row_space

STATIC_SHARED = 48 * 1024  # bytes that a block may declare
TOLERANCE = {"float32": 1e-4, "float64": 1e-6}


def without_space(sim: ws.Simulator) -> ws.Simulator:
    """The same with all islands solved over velocities: the space of rows needs the factor of A."""
    solver = sim._step.solver
    solver.problem.A_factor = wp.zeros((0, 0, 0), dtype=solver.scalar, device=solver.device)
    return sim


def pair(model, worlds, **options) -> list[ws.Simulator]:
    sims = [ws.Simulator(model, worlds, **options) for _ in range(2)]
    return [sims[0], without_space(sims[1])]


def stack(ratio: float) -> ws.Model:
    """A heavy box on a light one."""
    b = ws.ModelBuilder("stack", timestep=0.005)
    b.add_geom("plane")
    for k, mass in enumerate((1.0, ratio)):
        body = b.add_body(f"box{k}", pose=[0, 0, 0.1 + 0.2 * k, 1, 0, 0, 0], mass=mass, inertia=[0.0067 * mass] * 3)
        b.add_joint(body, "free")
        b.add_geom("box", [0.1, 0.1, 0.1], body=body)
    return b.build()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scene", ["humanoid", "ant", "boxes", "heavy on light"])
def test_both_ways_end_in_the_same_motion(device, assets, scene, dtype):
    """Thrown robots, bodies on each other, a mass ratio of 10³: as many flags, errors within the tolerance, and velocities that differ by no more
    than it in all but a few worlds, where the law has more than one solution."""
    models = {"boxes": lambda: clutter(6), "heavy on light": lambda: stack(1e3)}
    model = models[scene]() if scene in models else ws.load(assets(scene))
    here, there = pair(model, 32, dtype=dtype, device=device)
    rng = np.random.default_rng(0)
    q = np.tile(model.q0, (32, 1))
    if scene not in models:
        q[:, 2] += rng.uniform(-0.4, 0.1, 32)
    state, apart = here.state(q, rng.normal(0.0, 1.0, (32, model.nv))), []
    for _ in range(20):
        start = state.q.numpy(), state.v.numpy()
        found = [sim.step(sim.state(*start)).v.numpy() for sim in (here, there)]
        flags = [sim.diagnostics.numpy()["flags"] for sim in (here, there)]
        assert np.array_equal(*flags) and not flags[0].any()
        assert here.diagnostics.numpy()["momentum_error"].max() <= 1.01 * TOLERANCE[dtype]
        apart.append(np.abs(found[0] - found[1]).max(1) / np.maximum(1.0, np.abs(found[0]).max(1)))
        here.step(state, out=state)
    assert (np.concatenate(apart) < 100 * TOLERANCE[dtype]).mean() > 0.97


def test_few_iterations(assets):
    """Robots that have fallen take fewer than two steps of Newton's method on average, fewer than over velocities."""
    model, mean = ws.load(assets("humanoid")), []
    for sim in pair(model, 32, device="cpu"):
        state = sim.state(np.tile(model.q0, (32, 1)), np.random.default_rng(0).normal(0.0, 1.0, (32, model.nv)))
        counts = []
        for step in range(200):
            sim.step(state, out=state)
            if step >= 150:
                counts.append(sim.diagnostics.iterations.numpy())
        mean.append(np.mean(counts))
    assert mean[0] < 0.8 * mean[1] and mean[0] < 2.5


def test_one_world_is_no_other_worlds_business(device, assets):
    """A world that is not a number is flagged, and the bits of the others are those that they have without it."""
    model, rng = ws.load(assets("ant")), np.random.default_rng(1)
    q, v = np.tile(model.q0, (6, 1)), rng.normal(0.0, 1.0, (6, model.nv))
    q[:, 2] -= 0.2
    sim, found = ws.Simulator(model, 6, device=device), []
    for first in (v[3], np.nan):
        state = sim.state(q, v)
        numbers = state.v.numpy()
        numbers[3] = first
        state.v.assign(numbers)
        found.append(sim.step(state).v.numpy())
    clean, dirty = found
    assert sim.diagnostics.numpy()["flags"].astype(bool).tolist() == [False, False, False, True, False, False]
    others = [0, 1, 2, 4, 5]
    assert np.array_equal(clean[others], dirty[others])


def test_no_friction(device):
    """μ = 0: a box on a slope keeps what gravity gives it along the slope, and does not fall through."""
    b = ws.ModelBuilder("slope", timestep=0.005, gravity=[5.0, 0.0, -5.0])
    b.add_geom("plane", friction=0.0)
    body = b.add_body("box", pose=[0, 0, 0.1, 1, 0, 0, 0], mass=1.0, inertia=[0.0067] * 3)
    b.add_joint(body, "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body=body, friction=0.0)
    sim = ws.Simulator(b.build(), dtype="float64", device=device)
    state = sim.state()
    for _ in range(20):
        sim.step(state, out=state)
    v = state.v.numpy()[0]
    assert (
        v[0] == pytest.approx(5.0 * 0.1, rel=1e-6) and abs(v[2]) < 1e-3 and not sim.diagnostics.numpy()["flags"].any()
    )


@pytest.mark.parametrize("lanes", (*PARTS, WARP))
@pytest.mark.parametrize("dtype", list(SCALARS))
def test_an_island_fits_into_what_a_block_may_declare(dtype, lanes):
    """Parts begin at 16 bytes, do not overlap but for Y, whose place W takes, and are no more than a block's shared memory."""
    numbers = copy(row_space, variant(SCALARS[dtype], lanes=lanes))
    begins = [at for name, at in numbers.PLACES.items() if name != "Y"]
    assert begins == sorted(set(begins)) and all(at % 4 == 0 for at in begins) and begins[-1] < numbers.NUMBERS
    assert WARP // lanes * numbers.NUMBERS * np.dtype(dtype).itemsize <= STATIC_SHARED


CONVEX = {
    "convex": ws.SAP(approximation="convex"),
    "pyramidal": ws.MuJoCo(cone="pyramidal"),
    "elliptic": ws.MuJoCo(cone="elliptic"),
}


@pytest.mark.parametrize("law", list(CONVEX))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convex_laws_in_the_space_of_rows(device, assets, law, dtype):
    """The minimum is one: thrown ants and humanoids end at the same velocities, certified, with no more iterations, whichever way they are solved."""
    rng = np.random.default_rng(5)
    for name in ("ant", "humanoid"):
        model = ws.load(assets(name))
        here, there = pair(model, 24, device=device, dtype=dtype, solver=CONVEX[law])
        q = np.tile(model.q0, (24, 1))
        q[:, 2] += rng.uniform(-0.6, 0.2, 24)
        state, counts = here.state(q=q, v=rng.normal(0, 2.0, (24, model.nv))), []
        for _ in range(20):
            found = [sim.step(state).v.numpy() for sim in (here, there)]
            data = [sim.diagnostics.numpy() for sim in (here, there)]
            assert not data[0]["flags"].any()
            assert data[0]["momentum_error"].max() <= (TOLERANCE[dtype] if law == "convex" else 1e-5)
            scale = np.abs(found[1]).max(1, keepdims=True)
            np.testing.assert_allclose(found[0] / scale, found[1] / scale, atol=1e-2 if dtype == "float32" else 1e-4)
            counts.append([d["iterations"].mean() for d in data])
            here.step(state, out=state)
        assert np.mean(counts, axis=0)[0] <= 1.1 * np.mean(counts, axis=0)[1]
