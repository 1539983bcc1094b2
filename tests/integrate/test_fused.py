# SPDX-License-Identifier: Apache-2.0
"""A step in few launches is the step verb by verb, and memory that is lent for a while is nobody's for that while."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks import same_bits
from warpsim.device.memory import Lender
from warpsim.device.ranges import listed
from warpsim.integrate.step import Step
from warpsim.kernels.integrate import fused
from warpsim.solve.lcp.contact_lcp import LCPContact
from warpsim.solve.sap.lagged import LaggedSolver
from warpsim.solve.sap.sap import SAPSolver

WORLDS, STEPS = 2, 40
LAWS = {"lagged": ws.SAP(), "convex": ws.SAP(approximation="convex"), "LCP": ws.LCP(), "no contact": ws.NoContact()}
CONJUGATE = {"cg": ws.SAP(linear_solver="cg"), "convex cg": ws.SAP(approximation="convex", linear_solver="cg")}


def run(scene: str, law: str, device, dtype: str = "float64") -> list[np.ndarray]:
    """States after a while under random controls, and diagnostics."""
    model = same_bits.SCENES[scene]()
    sim = ws.Simulator(model, WORLDS, solver=(LAWS | CONJUGATE)[law], dtype=dtype, device=device)
    state = sim.state(v=0.2 * np.random.default_rng(3).normal(size=(WORLDS, model.nv)))
    table, found = same_bits.controls(scene, model, STEPS), []
    for k in range(STEPS):
        state = sim.step(state, None if table is None else table[k])
        found += [x.numpy().copy() for x in (state.q, state.v, state.memory["flags"])]
        found += sim.diagnostics.numpy().values()
    return found


def same(a, b) -> bool:
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scene", ["ant", "rows", "gripper"])
def test_verbs_in_few_launches_have_the_bits_of_verbs_one_by_one(scene, law, device, monkeypatch):
    """One tree and several, joints of every type, actuators on joints and tendons: on the CPU bit by bit, energy and certificate included."""
    if not wp.get_device(device).is_cpu:
        pytest.skip("lanes add in an order of their own")
    whole = run(scene, law, device)
    monkeypatch.setattr(Step, "_is_plain", False)
    assert same(whole, run(scene, law, device))


def test_what_a_step_launches(device, monkeypatch):
    """The default step of a robot on a GPU: thirteen nodes of a graph, the copy of its controls included; one less on a CPU."""
    from benchmarks.gpu.trace import step_launches

    if not wp.get_device(device).is_cpu:
        pytest.skip("launches are listed on the CPU")
    sim = ws.Simulator(same_bits.robot("humanoid"), WORLDS, device=device)
    state, control = sim.state(), wp.zeros((WORLDS, sim.model.nu), dtype=float, device=device)
    launches = step_launches(sim, state, control)
    names = [launch.name for launch in launches]
    assert len(names) == 13, names
    assert names.count("copy") == 1
    assert {f"fused.{fused.smooth_motion.__name__}", f"fused_end.{fused.finish.__name__}"} < set(names)


@pytest.mark.parametrize("links, kernel", [(32, "smooth_motion"), (33, "smooth_motion_of_large")])
def test_trees_that_a_warp_does_not_hold_have_a_kernel_of_their_own(links, kernel, device):
    """A chain of hinges falls with the energy that it had."""
    bodies = ""
    for k in range(links):
        bodies = f'<body pos=".2 0 0"><joint axis="{k % 2} 1 0"/><geom size=".02" pos=".1 0 0"/>{bodies}</body>'
    model = ws.load(mujoco.MjSpec.from_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>"))
    sim = ws.Simulator(model, WORLDS, dt=1e-4, dtype="float64", solver=ws.NoContact(), device=device)
    state = sim.state(v=np.random.default_rng(0).normal(0, 0.1, (WORLDS, links)))
    with listed() as kernels:
        sim._step.launch(sim.dt)
    assert kernel in {x.key for x in kernels}
    sim.step(state, out=state)
    before = sim.diagnostics.energy.numpy().copy()
    for _ in range(20):
        sim.step(state, out=state)
    np.testing.assert_allclose(sim.diagnostics.energy.numpy(), before, rtol=1e-3)


@pytest.mark.parametrize("law", ["lagged", "convex", "LCP", *CONJUGATE])
@pytest.mark.parametrize("scene", ["ant", "gripper", "rows", "clutter"])
def test_a_solver_lends_what_may_hold_anything(scene, law, device, monkeypatch):
    """NaN in all that a solver calls idle, before each of its launches, changes no bit."""
    expected = run(scene, law, device, "float32")
    for kind in (SAPSolver, LaggedSolver, LCPContact):
        monkeypatch.setattr(kind, "launch", poisoned(kind.launch))
    assert same(expected, run(scene, law, device, "float32"))


def poisoned(launch):
    """`launch` behind NaN in every idle array."""

    def poison_and_launch(self):
        for array in self.idle():
            if array.size:
                words = array.size * wp.types.type_size_in_bytes(array.dtype) // 4
                numbers = wp.array(ptr=array.ptr, dtype=float, shape=words, device=array.device, copy=False)
                numbers.fill_(float("nan"))
        return launch(self)

    return poison_and_launch


def test_lent_memory_is_disjoint_by_worlds_and_borrowers(device):
    """What one borrower writes in one world is seen by no other borrower and in no other world; what finds no room stays as it is."""
    owner = wp.zeros((3, 5, 8), dtype=float, device=device)
    lender = Lender([owner])
    a, b, c = (lender.take(wp.zeros((3, *n), dtype=float, device=device)) for n in ((2, 8), (5,), (100,)))
    assert a._ref is owner and b._ref is owner and c._ref is None
    a.fill_(1.0)
    b.fill_(2.0)
    assert (a.numpy() == 1.0).all() and (b.numpy() == 2.0).all()
    assert (owner.numpy() != 0.0).sum() == a.size + b.size


def test_a_wrench_ends_what_is_done_at_once(device):
    """From the step that is given wrenches on, verbs are launched one by one: zero wrenches change nothing."""
    model = same_bits.robot("ant")
    ends = []
    for wrench in (None, np.zeros((WORLDS, model.nbody, 6))):
        sim = ws.Simulator(model, WORLDS, dtype="float64", device=device)
        state = sim.state()
        for k in range(10):
            state = sim.step(state, wrench=wrench if k > 4 else None)
        ends.append(state.v.numpy())
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-9)
