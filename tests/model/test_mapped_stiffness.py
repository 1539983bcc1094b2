# SPDX-License-Identifier: Apache-2.0
"""Stiffness mapped from MuJoCo's solref is told from stiffness that is given, through files, edits and simulators."""

import dataclasses
import functools
import pickle
import warnings

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import Task, VectorEnv, terms
from warpsim.files.model_record import model_record, recorded_model
from warpsim.model.mapped_stiffness import is_mapped
from warpsim.run.description import describe_simulator, simulator_arguments

TWO = """<mujoco model="two"><option timestep=".005"/><worldbody><geom name="floor" type="plane" size="5 5 1"/>
<body name="a" pos="0 0 .5"><freejoint/><geom name="soft" size=".1" {0}/></body>
<body name="b" pos="1 0 .5"><freejoint/><geom name="plain" size=".1"/></body></worldbody></mujoco>"""
SOFT = TWO.format('solref=".03 .8"')
OPTIONS = {"dtype": "float64", "device": "cpu", "threads": 1}


def load(text: str) -> ws.Model:
    return ws.load(mujoco.MjSpec.from_string(text))


@functools.cache
def model() -> ws.Model:
    """A ball with a mapped stiffness and one without, and a ball with a given one."""
    b = ws.ModelBuilder("three", timestep=0.005)
    b.add_model(load(SOFT))
    b.add_body("c", pose=(2, 0, 0.5))
    b.add_joint("c", "free")
    b.add_geom("sphere", [0.1], body="c", name="given", stiffness=3e4, dissipation_time=0.01)
    return b.build()


def check(found: ws.Model) -> None:
    """The soft ball is mapped, and no other."""
    assert [found.geom_names[g] for g in np.flatnonzero(is_mapped(found))] == ["soft"]
    k = found.geom_stiffness
    np.testing.assert_allclose(k[found.geom("soft")], load(SOFT).geom_stiffness[1], rtol=1e-9)
    assert k[found.geom("given")] == 3e4 and np.isinf(k[[found.geom("floor"), found.geom("plain")]]).all()


def test_files_tell_them_apart(tmp_path):
    """MJCF, USD, stores, pickles and appended models; an older pickle has no mapped stiffness."""
    three = model()
    check(three)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MuJoCo rounds
        three.to_mjcf(tmp_path / "m.xml")
        three.to_usd(tmp_path / "m.usda")
    b = ws.ModelBuilder("again")
    b.add_model(three)
    for found in (
        ws.load(tmp_path / "m.xml"),
        ws.load(tmp_path / "m.usda"),
        recorded_model(*model_record(three)),
        pickle.loads(pickle.dumps(three)),
        b.build(),
    ):
        check(found)
    old, rest = model_record(three)
    del old["geom_mapped_stiffness"]
    kept = three.__getstate__()
    del kept["geom_mapped_stiffness"]
    made = object.__new__(ws.Model)
    made.__setstate__(kept)
    for found in (recorded_model(old, rest), made):
        assert not is_mapped(found).any() and np.array_equal(found.geom_stiffness, three.geom_stiffness)


def test_a_stiffness_that_is_set_is_a_given_one():
    """Another value, by `replace` or in the builder, is the user's, and stays."""
    edited = dataclasses.replace(model(), geom_stiffness=np.full(4, 5e4))
    assert not is_mapped(edited).any()
    sim = ws.Simulator(edited, mapped_stiffness=False, **OPTIONS)
    assert sim.model is edited


def test_rigid_in_every_solve():
    """Without the mapped stiffness a ball moves as if its file had none: falling, sliding, at rest; others keep theirs."""
    v = [1.0, 0.2, -1.0, 2.0, 1.0, 0.5] * 2
    ends = []
    for text, mapped in ((SOFT, False), (TWO.format(""), True), (SOFT, True)):
        sim = ws.Simulator(load(text), mapped_stiffness=mapped, **OPTIONS)
        ends.append(sim.rollout(sim.state(v=v), steps=120, every=40).q.numpy())
    np.testing.assert_array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[1], ends[2])
    sim = ws.Simulator(model(), mapped_stiffness=False, **OPTIONS)
    k = sim.parameters["geom_stiffness"].numpy()[0]
    assert k[sim.model.geom("given")] == 3e4 and np.isinf(k[sim.model.geom("soft")])
    assert np.isnan(sim.parameters["geom_dissipation_time"].numpy()[0, sim.model.geom("soft")])


def test_pairs_whose_impacts_are_not_resolved_are_counted():
    """By reason, at the present parameters; LCP has no stiffness; warned of where they are most."""
    with pytest.warns(UserWarning, match="impacts of 5 of 6 .*2 have a stiffness mapped .*3 have a given stiffness"):
        sim = ws.Simulator(model(), time_of_impact=True, mapped_stiffness=True, **OPTIONS)
    assert sim.untimed_pairs == (6, 2, 3, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim = ws.Simulator(model(), time_of_impact=True, **OPTIONS)
        assert sim.untimed_pairs == (6, 0, 3, 0) and sim.untimed_pairs.untimed == 3
        sim.parameters["geom_stiffness"] = np.full(4, np.inf)
        assert sim.untimed_pairs.untimed == 0
        lcp = ws.Simulator(model(), time_of_impact=True, mapped_stiffness=True, solver=ws.LCP(), **OPTIONS)
        assert lcp.untimed_pairs.untimed == 0
        assert ws.Simulator(model(), **OPTIONS).untimed_pairs is None


@pytest.mark.parametrize("robot, pairs", [("hopper", 7), ("half_cheetah", 8)])
def test_robots_of_gymnasium(assets, robot, pairs):
    """All of their pairs have a mapped stiffness; with the time of impact none is exempt."""
    robot = ws.load(assets(robot))
    with pytest.warns(UserWarning, match=f"{pairs} of {pairs} pairs"):
        sim = ws.Simulator(robot, time_of_impact=True, mapped_stiffness=True, **OPTIONS)
    assert sim.untimed_pairs.mapped_stiffness == sim.untimed_pairs.pairs == pairs
    assert ws.Simulator(robot, time_of_impact=True, **OPTIONS).untimed_pairs.untimed == 0


def test_restitution_of_a_spring_is_warned_of():
    """A given stiffness leaves no room for a restitution; a mapped one does, with the time of impact."""
    with pytest.warns(UserWarning, match="'floor' and 'given' may touch with a stiffness, and their restitution 0.5"):
        ws.Simulator(dataclasses.replace(model(), geom_restitution=np.full(4, 0.5)), **OPTIONS)
    bouncy = dataclasses.replace(load(SOFT), geom_restitution=np.full(3, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim = ws.Simulator(bouncy, **OPTIONS)
    q = bouncy.q0.copy()
    q[[2, 9]] = 0.6
    height = sim.rollout(sim.state(q=q), steps=140).q.numpy()[:, 0, [2, 9]] - 0.1
    np.testing.assert_allclose(height[70:].max(axis=0), 0.125, rtol=2e-3)


def test_descriptions_keep_the_choice():
    """A description carries it; one of an older version acts as it did."""
    sim = ws.Simulator(model(), time_of_impact=True, mapped_stiffness=True, **OPTIONS)
    kept = describe_simulator(sim)
    assert simulator_arguments(kept, "store")["mapped_stiffness"] is True
    del kept["mapped_stiffness"], kept["time_of_impact"]
    found = simulator_arguments(kept, "store")
    assert found["mapped_stiffness"] is True and found["time_of_impact"] is False


def test_every_variant_of_an_environment_is_rigid():
    """Worlds of other masses, and so of other mapped stiffness, have near-rigid contact as the first has."""
    models = [load(TWO.format(f'solref=".03 .8" mass="{m}"')) for m in (1.0, 2.0)]
    assert models[0].geom_stiffness[1] != models[1].geom_stiffness[1]
    task = type("Pair", (Task,), {"model": models, "observations": {"q": terms.positions()}})
    for options, rigid in (({"time_of_impact": True}, True), ({}, False)):
        task.options = options
        env = VectorEnv(task, 4, device="cpu")
        assert np.isinf(env.sim.parameters["geom_stiffness"].numpy()).all() == rigid
        assert env.sim.parameters["body_mass"].numpy()[:, 0].tolist() == [1, 2, 1, 2]
