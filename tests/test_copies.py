# SPDX-License-Identifier: Apache-2.0
"""Pickles and deep copies of models, states and trajectories: equal, and the same bits when stepped on."""

import copy
import dataclasses
import multiprocessing
import pickle

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.base.pickled import PackedArray

COPIES = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy}


def scene() -> ws.Model:
    """Meshes, a height field, a keyframe, a tendon, actuators: every kind of field that a model has."""
    b = ws.ModelBuilder("everything", timestep=0.005)
    rng = np.random.default_rng(0)
    b.add_geom("hfield", hfield=([1.0, 1.0, 0.1, 0.1], rng.random((5, 7))), name="ground")
    rock = b.add_body("rock", pose=[0, 0, 0.3])
    b.add_joint(rock, "free")
    corners = 0.1 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    b.add_geom("mesh", body=rock, mesh=(corners, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])))
    arm = b.add_body("arm", parent=rock, pose=[0.3, 0, 0])
    b.add_joint(arm, "hinge", name="elbow", axis=[0, 1, 0])
    b.add_geom("capsule", [0.03, 0.1], body=arm)
    b.add_actuator("elbow")
    b.add_keyframe("home", q=np.r_[0, 0, 0.5, 1, 0, 0, 0, 0.2])
    return b.build()


def same(a, b) -> bool:
    """Equal in type, names and every bit, however nested."""
    if isinstance(a, wp.array):
        return a.dtype == b.dtype and a.device == b.device and same(a.numpy(), b.numpy())
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.flags.writeable == b.flags.writeable and a.tobytes() == b.tobytes()
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "items"):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def model_sameness(a: ws.Model, b: ws.Model) -> list[str]:
    return [f.name for f in dataclasses.fields(a) if not same(getattr(a, f.name), getattr(b, f.name))]


@pytest.mark.parametrize("how", COPIES)
def test_a_model_is_copied_field_by_field(how):
    """Every field is equal, read-only arrays stay so, and the copy steps to the same bits."""
    model = scene()
    back = COPIES[how](model)
    assert back is not model and model_sameness(model, back) == []
    with pytest.raises(ValueError, match="read-only"):
        back.q0[0] = 1.0
    ends = []
    for m in (model, back):
        sim = ws.Simulator(m, worlds=2, device="cpu")
        ends.append(sim.rollout(sim.state(keyframe="home"), steps=10).q.numpy())
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("solver", [ws.SAP(), ws.LCP()], ids=["SAP", "LCP"])
def test_a_state_is_copied_with_its_memory(how, solver):
    """All arrays, memory of the solver too; the copy is independent, and steps on to the same bits."""
    sim = ws.Simulator(scene(), worlds=2, device="cpu", dtype="float64", solver=solver)
    state = sim.rollout(sim.state(), steps=5).final
    back = COPIES[how](state)
    assert all(same(a, b) for a, b in zip(state.arrays().values(), back.arrays().values(), strict=True))
    expected = sim.step(sim.step(state)).numpy()
    before = state.q.numpy().copy()
    for name, array in sim.step(sim.step(back, out=back)).numpy().items():
        np.testing.assert_array_equal(array, expected[name])
    np.testing.assert_array_equal(state.q.numpy(), before)


def test_a_state_with_gradients_keeps_them_possible():
    """A copy can be stepped on a tape; its gradients begin at zero."""
    sim = ws.Simulator(scene(), device="cpu", dtype="float64", requires_grad=True)
    state = sim.state()
    state.q.grad.fill_(3.0)
    back = pickle.loads(pickle.dumps(state))
    assert back.q.requires_grad and not back.q.grad.numpy().any()
    with wp.Tape() as tape:
        end = sim.step(back)
    tape.backward(grads={end.q: wp.full_like(end.q, 1.0)})
    assert np.abs(back.v.grad.numpy()).max() > 0


@pytest.mark.parametrize("how", COPIES)
def test_a_trajectory_is_copied_with_its_last_state_and_gradient_report(how):
    """Rows, diagnostics, `final` and `gradients` are those of the original."""
    sim = ws.Simulator(scene(), worlds=2, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        rolled = sim.rollout(sim.state(), steps=3, gradient_norms=True)
    tape.backward(grads={rolled.q: wp.full_like(rolled.q, 1.0)})
    back = COPIES[how](rolled)
    assert all(same(getattr(rolled, name), getattr(back, name)) for name in ("q", "v", "time", "diagnostics"))
    assert same(rolled.final.q, back.final.q) and same(rolled.gradient_norms, back.gradient_norms)
    assert model_sameness(rolled.model, back.model) == [] and str(back.gradients) == str(rolled.gradients)


def test_an_array_of_a_device_that_is_not_here_comes_back_on_the_cpu():
    """As from a pickle that was made on another machine."""
    packed = PackedArray(np.arange(3.0), "float64", "cuda:17", False)
    assert str(packed.unpack().device) == "cpu" and packed.unpack().numpy().tolist() == [0, 1, 2]


def test_a_model_of_another_version_is_refused():
    """A field too many or too few names itself."""
    kept = scene().__getstate__()
    del kept["geom_rgba"]
    with pytest.raises(ws.ModelError, match="geom_rgba"):
        ws.Model.__new__(ws.Model).__setstate__(kept)


def _rolled(model: ws.Model) -> np.ndarray:
    sim = ws.Simulator(model, worlds=2, device="cpu")
    return sim.rollout(sim.state(keyframe="home"), steps=10).q.numpy()


def test_a_model_goes_to_a_spawned_process():
    """A worker process that gets a model through a pipe rolls out the same bits."""
    model = scene()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply_async(_rolled, [model]).get(timeout=120)
    np.testing.assert_array_equal(found, _rolled(model))
