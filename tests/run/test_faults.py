# SPDX-License-Identifier: Apache-2.0
"""Worlds that raise a flag are written down, and what is written steps to the same bits."""

import json
import warnings

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.files.store.place import StoreError
from warpsim.run import fault_watch
from warpsim.tools.cli import main

WORLDS = 4


def simulator(folder, **options) -> ws.Simulator:
    return ws.Simulator(ws.load(ws.robots.path("ant")), WORLDS, device="cpu", on_fault=folder, **options)


def fall(sim, steps: int, inputs=lambda step: {}) -> ws.State:
    state = sim.state(v=0.5 * np.random.default_rng(2).standard_normal((WORLDS, sim.model.nv)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(steps):
            state = sim.step(state, **inputs(step))
    return state


def nan_control(step):
    control = np.full((WORLDS, 8), 0.1)
    control[2, 3] = np.nan if step == 20 else 0.2
    return {"control": control, "tau": np.full((WORLDS, 14), 0.01), "wrench": np.full((WORLDS, 9, 6), 0.02)}


CASES = {
    "NONFINITE": ({}, nan_control),
    "NOT_CONVERGED": ({"solver": ws.SAP(tolerance=1e-12, max_iterations=1)}, lambda step: {}),
    "CONTACT_OVERFLOW": ({"max_contacts": 1}, lambda step: {}),
    "UNRESOLVED": ({"dt": 0.05}, lambda step: {"tau": np.tile(np.r_[0, 0, -4e7, np.zeros(11)], (WORLDS, 1))}),
}


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flag", CASES)
def test_what_is_written_steps_to_the_same_bits(tmp_path, flag, dtype):
    """Model, state, parameters, control, forces and options are all there; the run itself has the bits of one without `on_fault`."""
    options, inputs = CASES[flag]
    options = options | {"dtype": dtype}
    sims = [simulator(folder, **options) for folder in (tmp_path, None)]
    for sim in sims:
        sim.parameters["body_mass"] = sim.model.body_mass * np.linspace(0.5, 2, WORLDS)[:, None]
    a, b = (fall(sim, 60, inputs) for sim in sims)
    for name, array in a.arrays().items():
        np.testing.assert_array_equal(array.numpy(), b.arrays()[name].numpy())
    bit = getattr(ws, flag)
    flagged = np.flatnonzero(a.memory["flags"].numpy() & bit)
    written = [ws.load_fault(path, device="cpu") for path in sorted(tmp_path.iterdir())]
    assert len(flagged) and {f.world for f in written if f.raised & bit} == set(flagged)
    for fault in written:
        assert fault.same(fault.step())
        np.testing.assert_array_equal(fault.sim.diagnostics.flags.numpy() & fault.raised, fault.raised)
        scale = np.linspace(0.5, 2, WORLDS)[fault.world]
        np.testing.assert_allclose(
            fault.sim.parameters["body_mass"].numpy()[0], scale * fault.sim.model.body_mass, rtol=1e-6
        )
        assert not fault.same(fault.state) and (flag in repr(fault)) == bool(fault.raised & bit)
    assert ws.Trajectory.load(next(tmp_path.iterdir())).frames == 2


def test_under_a_tape(tmp_path):
    """Steps and rollouts that a tape records are watched too, and their gradients are what they were."""
    gradients = []
    for folder in (tmp_path, None):
        sim = simulator(folder, requires_grad=True, max_contacts=1)
        state = sim.state()
        with wp.Tape() as tape, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            final = sim.rollout(state, None, 30).final
        tape.backward(grads={final.q: wp.ones_like(final.q)})
        gradients.append(state.q.grad.numpy())
    np.testing.assert_array_equal(*gradients)
    assert len(list(tmp_path.iterdir())) == WORLDS
    fault = ws.load_fault(next(tmp_path.iterdir()), device="cpu")
    assert fault.same(fault.step())


def test_so_many_and_no_more(tmp_path, monkeypatch):
    """The folder does not fill up: further faults are counted, and one warning says so."""
    monkeypatch.setattr(fault_watch, "MOST", 2)
    sim = simulator(tmp_path, max_contacts=1)
    fall(sim, 60)
    assert len(list(tmp_path.iterdir())) == 2 and sim._watch.left_out == WORLDS - 2


def test_replay_and_view(tmp_path, capsys):
    """The commands step through a fault and show it."""
    fall(simulator(tmp_path, max_contacts=1), 60)
    path = str(next(tmp_path.iterdir()))
    assert main(["replay", path, "--steps", "3", "--device", "cpu", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["same bits as then"] and len(told["steps"]) == 3 and told["steps"][0]["flags"] == "CONTACT_OVERFLOW"
    assert len(told["contacts"]) == 1 and "floor" in told["contacts"][0]["geoms"]
    assert main(["replay", path, "--device", "cpu"]) == 0
    assert "the same bits" in capsys.readouterr().out
    assert main(["view", path, "--out", str(tmp_path / "fault.html")]) == 0


def test_bad_use_is_refused(tmp_path):
    """One line each: what is no folder, what is no fault, a graph that could not look."""
    (tmp_path / "file").write_text("x")
    for wrong, word in (
        (3, "on_fault"),
        (tmp_path / "file", "is a file"),
        (tmp_path / "no" / "folder", "does not exist"),
    ):
        with pytest.raises(ValueError, match=word):
            simulator(wrong)
    sim = simulator(tmp_path / "faults")
    with pytest.raises(ValueError, match="on_fault"):
        sim.capture(lambda: None)
    sim.rollout(sim.state(), None, 2).save(tmp_path / "a.zarr")
    with pytest.raises(StoreError, match="not a fault"):
        ws.load_fault(tmp_path / "a.zarr")


def test_dump_is_a_folder_here(tmp_path, monkeypatch):
    """`on_fault="dump"` writes to warpsim-faults where the process runs."""
    monkeypatch.chdir(tmp_path)
    fall(simulator("dump", max_contacts=1), 60)
    assert len(list((tmp_path / "warpsim-faults").iterdir())) == WORLDS


@pytest.mark.parametrize(
    ("name", "value"),
    [("contact_geoms", np.full((1, 2), 99, np.int32)), ("contact_phi", np.zeros((2, 2))), ("tau", np.zeros((1, 999)))],
)
def test_a_fault_from_others_has_the_contacts_and_forces_of_its_model(tmp_path, name, value):
    """Tables of a fault are named, not trusted: shapes, and geoms that there are."""
    import zarr

    b = ws.ModelBuilder("ball")
    b.add_geom("plane")
    b.add_joint(b.add_body("ball", pose=[0, 0, 1]), "free")
    b.add_geom("sphere", [0.1], body="ball")
    sim = ws.Simulator(b.build(), 1, device="cpu", on_fault=tmp_path)
    state = sim.state()
    state.v.assign(np.full((1, 6), np.nan, np.float32))
    with pytest.warns(UserWarning, match="NONFINITE"):
        sim.step(state)
    (path,) = tmp_path.iterdir()
    assert ws.load_fault(path).raised
    group = zarr.open_group(str(path), mode="r+")["fault"]
    del group[name]
    group.create_array(name, shape=value.shape, dtype=value.dtype, chunks=value.shape, compressors=None)[...] = value
    with pytest.raises(StoreError, match=name):
        ws.load_fault(path)
