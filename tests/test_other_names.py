# SPDX-License-Identifier: Apache-2.0
"""Names of MuJoCo, Isaac Lab and Newton answer with what to write here; what stands for something else says so; controls that are no numbers are seen."""

import dataclasses
import functools
import inspect
import re
import warnings
from typing import ClassVar

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.base.other_names import ATTRIBUTES, KEYWORDS

ARM = """<mujoco><worldbody><body name="upper"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/>
<site name="tip" pos=".5 0 0"/></body></worldbody><actuator>{}</actuator></mujoco>"""
MOTOR = '<motor name="m" joint="shoulder" ctrlrange="-1 1"/>'
URDF = """<robot name="r"><link name="base"/><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
</inertial></link><joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/></joint></robot>"""


def model(actuators: str = MOTOR) -> ws.Model:
    return ws.load(mujoco.MjModel.from_xml_string(ARM.format(actuators)))


@pytest.fixture(scope="module")
def sim() -> ws.Simulator:
    return ws.Simulator(model(), 2, device="cpu", threads=1)


OBJECTS = {
    "Simulator": lambda sim: sim,
    "State": lambda sim: sim.state(),
    "Model": lambda sim: sim.model,
    "Trajectory": lambda sim: sim.rollout(sim.state(), steps=1),
    "Diagnostics": lambda sim: sim.diagnostics,
    "ModelBuilder": lambda sim: ws.ModelBuilder(),
    "ContactList": lambda sim: sim.contacts(sim.state()),
    "VectorEnv": lambda sim: env(),
    "View": lambda sim: env().view,
}


@functools.cache
def env():
    class Own(ws.envs.Task):
        model = staticmethod(globals()["model"])
        observations: ClassVar = {"q": lambda s: s.q}

    return ws.envs.VectorEnv(Own, 1, device="cpu", threads=1)


@pytest.mark.parametrize("owner", OBJECTS)
def test_attributes_of_other_names(owner, sim):
    """None is one of ours; read or written to, each says what it is here, and nobody's listing has them."""
    thing, table = OBJECTS[owner](sim), ATTRIBUTES[owner]
    fields = {f.name for f in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    assert not set(table) & (set(vars(thing)) | fields | set(vars(type(thing)))) and not set(table) & set(dir(thing))
    for name, here in table.items():
        assert not hasattr(thing, name)
        with pytest.raises(AttributeError, match=re.escape(f"{owner} has no {name!r}; here it is {here}")):
            getattr(thing, name)
        with pytest.raises(AttributeError):
            setattr(thing, name, 1)
        word = re.match(r"[a-z_]\w*", here)
        if here == word[0]:  # one name: it is there
            assert here in dir(thing)
    with pytest.raises(AttributeError):
        _ = thing.nobody_has_this


def test_keywords_of_other_names(sim):
    """Those of the constructor, steps, rollouts, starts, queries and files; one that is near; else what there is."""
    state, m = sim.state(), sim.model
    calls = {
        "worlds=": (lambda: ws.Simulator(m, num_envs=2), lambda: sim.reset(state, env_ids=[0])),
        "dt=": (lambda: ws.Simulator(m, timestep=0.01), lambda: ws.Simulator(m, sim_dt=0.01)),
        "control=": (
            lambda: sim.step(state, ctrl=0),
            lambda: sim.step(state, actions=0),
            lambda: sim.step(state, controls=0),
        ),
        "controls=": (lambda: sim.rollout(state, control=0), lambda: sim.rollout(state, ctrl=0)),
        "steps=": (lambda: sim.rollout(state, nstep=3), lambda: sim.rollout(state, num_steps=3)),
        "rollout(state, controls, steps=n)": (lambda: sim.step(state, nstep=3), lambda: sim.step(state, decimation=4)),
        "tau=": (lambda: sim.step(state, qfrc_applied=0),),
        "wrench=": (lambda: sim.step(state, xfrc_applied=0),),
        "q=": (lambda: sim.state(qpos=0), lambda: sim.kinematics(qpos=0), lambda: sim.state(joint_q=0)),
        "v=": (lambda: sim.state(qvel=0),),
        "base=": (lambda: ws.load("a.urdf", fix_base_link=True),),
        "max_contacts=": (lambda: ws.Simulator(m, nconmax=8), lambda: ws.Simulator(m, max_contact=8)),
        "did you mean solver=?": (lambda: ws.Simulator(m, solvr=None),),
        "it takes of": (lambda: sim.contact_force(zzz=1),),
        "give by name: mocap, substeps": (lambda: sim.rollout(state, None, 3, 1),),
    }
    for words, group in calls.items():
        for call in group:
            with pytest.raises(TypeError, match=re.escape(words)):
                call()
    methods = [f for part in ws.Simulator.__mro__ for f in vars(part).values() if inspect.isfunction(f)]
    known = {name for f in (ws.load, *methods) for name in inspect.signature(f).parameters}
    assert {here for text in KEYWORDS.values() for here in text.split(", ")} <= known | {"path"}

    def policy(state):
        raise TypeError("step() got an unexpected keyword argument 'ctrl'")

    with pytest.raises(TypeError, match=r"'ctrl'$"):  # of another's function: as it is
        sim.rollout(state, policy, steps=1)


def test_names_of_the_module():
    """`ws.MjModel` and its like; what nobody knows is refused as ever."""
    for name, words in {"MjModel": "ws.load", "mj_step": "sim.step", "launch_passive": "ws.Viewer"}.items():
        with pytest.raises(AttributeError, match=words):
            getattr(ws, name)
    assert not hasattr(ws, "nobody_has_this")


@pytest.mark.parametrize("dtype", [np.float64, float, np.dtype("float64"), "torch.float64"])
def test_a_dtype_is_a_text(dtype, sim):
    """np.float64 and its like: what to write."""
    with pytest.raises(ValueError, match='write dtype="float64"' if dtype != "torch.float64" else "choose one of"):
        ws.Simulator(sim.model, dtype=dtype, device="cpu")
    with pytest.raises(ValueError, match="choose one of"):
        ws.Simulator(sim.model, dtype=np.int32, device="cpu")


def test_one_thing_for_another(sim, tmp_path):
    """A number of steps for controls, a state for positions, a site for a body, a joint's name for a column, controls without actuators."""
    state, damping = sim.state(), sim.parameters["joint_damping"]
    (tmp_path / "r.urdf").write_text(URDF)
    bare = ws.Simulator(ws.load(tmp_path / "r.urdf"), 2, device="cpu", threads=1)
    refused = {
        r"sim\.rollout\(state, steps=100\)": [
            lambda: sim.rollout(state, 100),
            lambda: sim.rollout(state, np.int64(100)),
        ],
        r"q is a State; give its array: state\.q": [
            lambda: sim.kinematics(state),
            lambda: sim.mass_matrix(state),
            lambda: sim.jacobian(state, 0),
        ],
        r"np\.tile\(control, \(2, 1\)\)": [lambda: sim.step(state, np.zeros(1))],
        r"np\.repeat\(controls\[:, None\], 2, axis=1\)": [lambda: sim.rollout(state, np.zeros((5, 1)))],
        r"'tip' is a site of body 'upper'": [lambda: sim.jacobian(state.q, "tip"), lambda: sim.model.body("tip")],
        r"'shoulder' is a joint of body 'upper'": [
            lambda: sim.parameters["shoulder"],
            lambda: sim.model.body("shoulder"),
        ],
        r"joint_coordinates\('shoulder'\)\[1\]": [
            lambda: damping["shoulder"],
            lambda: damping[0, "shoulder"],
            lambda: damping.__setitem__("shoulder", 1.0),
        ],
        r"model\.body\('upper'\)": [lambda: sim.parameters["body_mass"]["upper"]],
        r'no actuators.*actuators="effort"': [
            lambda: bare.step(bare.state(), np.zeros((2, 1))),
            lambda: bare.rollout(bare.state(), np.zeros((3, 2, 1))),
            lambda: bare.rollout(bare.state(), lambda s: np.zeros((2, 1)), steps=1),
        ],
    }
    for words, calls in refused.items():
        for call in calls:
            with pytest.raises(ValueError, match=words):
                call()
    sim.parameters["joint_damping"] = [[0.5], [0.25]]
    assert damping.numpy().tolist() == [[0.5], [0.25]] and damping[1].numpy().tolist() == [0.25]


FORCES = {
    "motor": (MOTOR, np.float64),
    "float16": (MOTOR, np.float16),
    "servo in a range": ('<position joint="shoulder" kp="9" kv="1" ctrlrange="-1 1" forcerange="-2 2"/>', np.float32),
    "muscle": ('<muscle joint="shoulder" lengthrange="-1 1" force="50"/>', np.float64),
    "smooth muscle": (
        '<muscle joint="shoulder" lengthrange="-1 1" force="50" tausmooth=".1"/>',
        np.float64,
    ),
    "filter in a range": (
        '<general joint="shoulder" dyntype="filter" dynprm=".1" actlimited="true" actrange="-1 1"/>',
        np.float64,
    ),
    "without gain": ('<general joint="shoulder" gainprm="0"/>', np.float64),
}


@pytest.mark.parametrize("name", FORCES)
def test_a_control_that_is_no_number_is_flagged(name):
    """No clamp makes a number of it: NONFINITE in its world, given by hand and by a policy; the other world's bits stay."""
    text, kind = FORCES[name]
    sim = ws.Simulator(model(text), 2, device="cpu", dtype="float64", threads=1)
    control = np.zeros((2, 1), kind)
    good = sim.step(sim.step(sim.state(), control), control).q.numpy()[0].copy()
    control[1] = np.nan
    state = sim.step(sim.step(sim.state(), control), control)
    assert state.memory["flags"].numpy().tolist() == [0, ws.NONFINITE]
    assert np.array_equal(state.q.numpy()[0], good)
    assert "flags=[NONFINITE in 1 of 2 worlds]" in repr(state) and "flags=none" in repr(sim.state())
    final = sim.rollout(sim.state(), lambda state: control, steps=2).final
    assert final.memory["flags"].numpy().tolist() == [0, ws.NONFINITE]


def test_a_call_says_where_it_warns(tmp_path):
    """Behind the wrappers, warnings of a file and of a simulator still name the line that called."""
    crossed = '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .05"><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
    with pytest.warns(UserWarning, match="overlap") as found:
        ws.Simulator(ws.load(mujoco.MjModel.from_xml_string(crossed)), device="cpu")
    assert found[0].filename == __file__
    path = tmp_path / "m.xml"
    path.write_text(ARM.format('<motor joint="shoulder" delay=".1" nsample="2"/>'))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ws.load(path, unsupported="report")
    assert {w.filename for w in told} <= {__file__}


def test_parameters_are_entries(sim):
    """An attribute of a parameter's name would change nothing; MuJoCo's name of a parameter answers with ours; masked entries are no numbers."""
    for act in (lambda: setattr(sim.parameters, "body_mass", 1.0), lambda: sim.parameters.body_mass):
        with pytest.raises(AttributeError, match=re.escape('here it is sim.parameters["body_mass"]')):
            act()
    for name, here in (("dof_damping", "joint_damping"), ("actuator_gainprm", "actuator_gain")):
        with pytest.raises(ValueError, match=f"no parameter '{name}'; here it is {here}$"):
            _ = sim.parameters[name]
    with pytest.raises(ValueError, match="are geom_torsional_friction and geom_rolling_friction"):
        sim.parameters["geom_friction"] = sim.model.geom_friction[:, None] * np.ones(3)
    masked = np.ma.masked_array(np.ones((2, 1)), mask=[[True], [False]])
    with pytest.raises(ValueError, match="control is masked_array"):
        sim.step(sim.state(), masked)
    with pytest.raises(ValueError, match=r"sim\.rollout\(state, steps=100\)$"):
        sim.rollout(sim.state(), 100.0)
