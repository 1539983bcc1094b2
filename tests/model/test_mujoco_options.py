# SPDX-License-Identifier: Apache-2.0
"""The fields of MuJoCo's constraint law: builder, MJCF in and out, stores, pairs, and what other contact models say of them."""

import dataclasses
import pickle

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.base.errors import ModelError
from warpsim.envs.variants import apply_variants
from warpsim.files.model_record import model_record, recorded_model
from warpsim.model.mujoco_options import DEFAULTS, PAIR_LAW, ROWS, SOLIMP, SOLREF, MuJoCoOptions, separate_pairs
from warpsim.model.parameters import LAW_SPECS
from warpsim.model.tables import check_tables

SCENE = """<mujoco><option cone="elliptic" impratio="3" integrator="implicitfast" iterations="7" tolerance="1e-5">
  <flag refsafe="disable" eulerdamp="disable" diagexact="enable"/></option>
<default><geom solimp=".8 .9 .01 .4 3"/></default>
<worldbody><geom name="floor" type="plane" size="1 1 1" solref="-100 -2" margin=".01"/>
  <site name="s" pos="0 0 2"/>
  <body name="a" pos="0 0 1"><freejoint/><geom name="b" size=".1" solmix="2"/><geom name="c" size=".2"/><site name="t"/></body>
  <body name="d" pos="1 0 1"><joint name="j" range="-1 1" limited="true" solreflimit=".1 1" solimplimit=".7 .9 .1 .5 2" margin=".01"
    frictionloss=".1" solreffriction=".3 1" solimpfriction=".5 .6 .001 .5 2"/><geom name="e" size=".1"/></body></worldbody>
<contact><pair geom1="floor" geom2="b" solref=".04 .8" condim="6" friction="1 .5 .01 .002 .003" solreffriction=".1 1" margin=".02"/>
  <pair geom1="floor" geom2="e"/><pair geom1="e" geom2="c" friction=".4 .4"/><pair geom1="e" geom2="c" friction="2 2" condim="4"/></contact>
<equality><weld body1="a" body2="d" torquescale="2" solref=".3 1"/><connect body1="a" body2="d" anchor="0 0 0" solimp=".3 .9 .001 .5 2"/></equality>
<tendon><spatial name="rope" limited="true" range="0 2" solreflimit=".06 .7" solimplimit=".6 .9 .1 .5 2" margin=".03" frictionloss="1"
  solreffriction="-10 -1" solimpfriction=".4 .6 .001 .5 2"><site site="s"/><site site="t"/></spatial></tendon></mujoco>"""
NAMES = {"joint": "jnt", "constraint": "eq", "joint_friction": "dof"}
LAW = [f"{prefix}_{name}" for prefix, values in DEFAULTS.items() for name in values] + [*PAIR_LAW, "pair_own", "mujoco"]
# of MjModel; the writer keeps the order of these elements
COMPILED = (
    *("geom_solref", "geom_solimp", "geom_solmix", "geom_margin", "jnt_solref", "jnt_solimp", "jnt_margin"),
    *("dof_solref", "dof_solimp", "tendon_solref_lim", "tendon_solimp_lim", "tendon_solref_fri", "tendon_solimp_fri"),
    *("tendon_margin", "eq_solref", "eq_solimp", "pair_solref", "pair_solreffriction", "pair_solimp", "pair_dim"),
    *("pair_friction", "pair_margin"),
)


def compiled() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(SCENE)


def assert_equal(a, b) -> None:
    for name in LAW:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_fields_are_mujocos():
    """Every element has the values of the compiled model; so do the options."""
    m = compiled()
    model = ws.load(m)
    for name in ("geom_solref", "geom_solimp", "geom_solmix"):
        np.testing.assert_array_equal(getattr(model, name), getattr(m, name))
    for kind in ("joint", "constraint", "joint_friction"):
        for name in set(DEFAULTS[kind]) - {"torquescale"}:
            np.testing.assert_array_equal(getattr(model, f"{kind}_{name}"), getattr(m, f"{NAMES[kind]}_{name}"))
    for suffix, kind in (("lim", "tendon"), ("fri", "tendon_friction")):
        for name in ("solref", "solimp"):
            np.testing.assert_array_equal(getattr(model, f"{kind}_{name}"), getattr(m, f"tendon_{name}_{suffix}"))
    np.testing.assert_array_equal(model.tendon_margin, m.tendon_margin)
    np.testing.assert_array_equal(model.constraint_torquescale, [2, 1])
    assert model.mujoco == MuJoCoOptions("elliptic", 3.0, "implicitfast", 7, 1e-5, False, False, True)
    check_tables(model)


def test_pairs_of_the_same_geoms():
    """One pair per law for MuJoCo's law: as many contacts as in MuJoCo; else one pair with the largest friction."""
    m = compiled()
    model = ws.load(m)
    separate = separate_pairs(model)
    own = separate.pair_own >= 0
    assert len(separate.pair_geom) == len(model.pair_geom) + 1 and own.sum() == model.nown
    order = separate.pair_own[own]
    assert sorted(order) == list(range(model.nown))
    np.testing.assert_array_equal(separate.pair_condim[own], model.pair_own_condim[order])
    np.testing.assert_array_equal(separate.pair_friction[own], model.pair_own_friction[order, 0])
    row = {tuple(sorted(pair)): p for p, pair in enumerate(model.pair_geom.tolist())}[2, 3]
    assert model.pair_friction[row] == 2.0 and model.pair_condim[row] == 4
    assert separate_pairs(separate) is separate
    check_tables(separate)
    b = ws.ModelBuilder()
    b.add_model(separate)
    assert_equal(b.build(), model)


def test_two_pairs_are_two_contacts():
    geoms = (
        '<geom name="f" type="plane" size="1 1 1"/><body pos="0 0 .0999"><freejoint/><geom name="g" size=".1"/></body>'
    )
    pairs = "".join(f'<pair geom1="f" geom2="g" friction="{mu} {mu}"/>' for mu in (0.3, 0.6))
    m = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{geoms}</worldbody><contact>{pairs}</contact></mujoco>")
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    for model, count in ((ws.load(m), 1), (separate_pairs(ws.load(m)), d.ncon)):
        sim = ws.Simulator(model, dtype="float64", device="cpu")
        sim.step(sim.state())
        assert int(sim.last_contacts.count[0]) == count
    assert d.ncon == 2


ROLLING = {
    "two pairs": '<pair geom1="f" geom2="g" friction=".3 .3"/><pair geom1="f" geom2="g" friction=".6 .6" solref=".05 1" condim="4"/>',
    "anisotropic": '<pair geom1="f" geom2="g" friction=".5 .2"/>',
    "own law": '<pair geom1="f" geom2="g" friction=".5 .2 .01 .002 .003" condim="6" solreffriction=".1 1" solref=".04 .8" margin=".01"/>',
    "override": "",
}  # fmt: skip


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("pairs", ROLLING)
def test_pairs_act_as_in_mujoco(pairs, cone):
    """Change of velocity in one step of a ball that rolls, turns and sinks, under MuJoCo's law."""
    enabled = "enable" if pairs == "override" else "disable"
    m = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <option cone="{cone}" impratio="2" tolerance="1e-14" iterations="200" ls_tolerance="1e-8" o_solref="-300 -7"
        o_solimp=".5 .6 .01 .5 2" o_friction=".7 .7 .01 .002 .002" o_margin=".04"><flag override="{enabled}"/></option>
      <worldbody><geom name="f" type="plane" size="1 1 1"/><body pos="0 0 .0995"><freejoint/><geom name="g" size=".1"/></body></worldbody>
      <contact>{ROLLING[pairs]}</contact></mujoco>""")
    d, v = mujoco.MjData(m), np.array([0.3, 0.2, -0.1, 0.5, 0.4, 0.3])
    sim = ws.Simulator(ws.load(m), dtype="float64", device="cpu", solver=ws.MuJoCo())
    ours = sim.step(sim.state(v=v)).v.numpy()[0]
    d.qvel[:] = v
    mujoco.mj_step(m, d)
    assert sim.last_contacts.count[0] == d.ncon
    assert np.abs(ours - d.qvel).max() <= 1e-8 * np.abs(d.qvel - v).max()


ACTING = """<mujoco><option cone="elliptic" impratio="3"/><compiler angle="radian"/>
<default><geom contype="0" conaffinity="0" size=".1"/><joint type="slide" axis="1 0 0" solreflimit=".1 1" margin=".01"/></default>
<worldbody><geom name="floor" type="plane" size="9 9 1" contype="1" solref=".03 1"/>
  <body pos="0 0 .099"><freejoint/><geom conaffinity="1" solmix="2"/></body>
  <body pos="1 0 .099"><freejoint/><geom name="c"/></body>
  <body pos="2 0 1"><joint name="limited" range="-1 .01"/><geom/></body>
  <body pos="3 0 1"><joint frictionloss="99"/><geom/></body>
  <body pos="4 0 1"><joint name="on_limited"/><geom/></body>
  <body pos="5 0 1"><joint name="on_dry"/><geom/></body>
  <body name="held" pos="6 0 1"><freejoint/><geom/></body></worldbody>
<contact><pair geom1="floor" geom2="c" friction="1 .5" solref=".04 1" solreffriction=".05 1"/></contact>
<equality><weld body1="held" torquescale="2" solref=".05 1"/></equality>
<tendon><fixed limited="true" range="-1 .01" margin=".02"><joint joint="on_limited" coef="1"/></fixed>
  <fixed frictionloss="99"><joint joint="on_dry" coef="1"/></fixed></tendon></mujoco>"""


@pytest.fixture(scope="module")
def two_worlds():
    """Two worlds in a state where every row of a scene acts, and that state."""
    model = ws.load(mujoco.MjModel.from_xml_string(ACTING))
    sim = ws.Simulator(model, worlds=2, dtype="float64", device="cpu", solver=ws.MuJoCo())
    q, v = model.q0.copy(), np.linspace(0.01, 0.02, model.nv)
    q[[model.joint_q[model.joint(name)] for name in ("limited", "on_limited")]] = 0.0005, -0.0095
    q[-4:], v[6] = (0.8, 0.6, 0.0, 0.0), 5.0  # the ball with its own pair slides
    return sim, q, v


@pytest.mark.parametrize("name", LAW_SPECS)
def test_every_parameter_of_the_law_acts(two_worlds, name):
    """A world with another value moves otherwise; with the model's again it does not."""
    sim, q, v = two_worlds
    values = sim.parameters[name].numpy().copy()
    share = np.linspace(0.7, 0.9, values[0].size).reshape(values[0].shape)
    if name == "pair_own_friction":
        share = [0.7, 0.7, 1.0, 1.0, 1.0]  # only sliding friction may differ between worlds
    sim.parameters[name] = np.stack([values[0], share * values[0] - 0.005 * ("margin" in name)])
    moved = sim.step(sim.state(q=q, v=v)).v.numpy()
    sim.parameters[name] = values
    same = sim.step(sim.state(q=q, v=v)).v.numpy()
    assert np.abs(moved[0] - moved[1]).max() > 1e-9
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(same[0], moved[0])


def test_the_law_comes_back():
    """Through a builder, a record, a pickle, MJCF, and `dataclasses.replace`; records and pickles without it get defaults."""
    model = ws.load(compiled())
    b = ws.ModelBuilder()
    b.add_model(model)
    arrays, rest = model_record(model)
    for other in (
        b.build(),
        recorded_model(arrays, rest),
        pickle.loads(pickle.dumps(model)),
        ws.load(model.to_mjspec()),
    ):
        assert_equal(other, model)
    assert_equal(dataclasses.replace(model, timestep=0.1), model)
    older = recorded_model(
        {k: x for k, x in arrays.items() if k not in LAW}, {k: x for k, x in rest.items() if k != "mujoco"}
    )
    for prefix, count in ROWS.items():
        for name, value in DEFAULTS[prefix].items():
            np.testing.assert_array_equal(
                getattr(older, f"{prefix}_{name}"), np.full((getattr(model, count), *np.shape(value)), value)
            )
    assert older.mujoco == MuJoCoOptions() and (older.pair_own == -1).all() and older.nown == 0
    check_tables(older)


@pytest.mark.parametrize("source", ["scene", "ant", "humanoid"])
def test_written_files_compile_to_the_same_law(source):
    m = compiled() if source == "scene" else mujoco.MjModel.from_xml_path(str(ws.robots.path(source)))
    written = ws.load(m).to_mjspec().compile()
    names = COMPILED if source == "scene" else COMPILED[:9]
    for name in names:
        was = getattr(m, name)
        if name.startswith("pair"):  # geoms of a pair are sorted, and so are the pairs
            key = ("pair_solreffriction", "pair_friction", "pair_margin")
            one, two = (np.lexsort(np.column_stack([getattr(x, k) for k in key]).T) for x in (m, written))
            np.testing.assert_array_equal(getattr(written, name)[two], was[one], err_msg=name)
        else:
            np.testing.assert_array_equal(getattr(written, name), was, err_msg=name)
    for name in ("cone", "impratio", "integrator", "iterations", "tolerance", "disableflags", "enableflags"):
        assert getattr(written.opt, name) == getattr(m.opt, name), name


def test_override():
    """The contact override is on every geom and pair, as MuJoCo's contacts have it; anisotropic friction is refused."""
    option = '<option o_solref="-300 -7" o_solimp=".5 .6 .01 .5 2" o_friction="{0} .7 .01 .002 .002" o_margin=".04"><flag override="enable"/></option>'
    text = SCENE.replace("<mujoco>", "<mujoco>" + option)
    m = mujoco.MjModel.from_xml_string(text.format("0.7"))
    model, d = ws.load(m), mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    assert (model.geom_solref == [-300, -7]).all() and (model.pair_solimp[:, :2] == [0.5, 0.6]).all()
    assert (model.geom_friction == 0.7).all() and (model.pair_margin == 0.04).all()
    for contact in d.contact:
        np.testing.assert_array_equal(contact.solref, model.geom_solref[contact.geom1])
        assert contact.includemargin == pytest.approx(model.geom_margin[contact.geom].sum())
    with pytest.raises(ModelError, match=r"override.*anisotropic"):
        ws.load(mujoco.MjModel.from_xml_string(text.format("0.2")))


def test_builder():
    """Arguments become fields; a pair that names no law follows its geoms."""
    b = ws.ModelBuilder()
    body = b.add_body("ball")
    b.add_joint(body, "ball", friction_solref=[[0.1, 1], [0.2, 1], [0.3, 1]], margin=0.1)
    geoms = [
        b.add_geom("sphere", [0.1], body=at, solref=(0.1 * (k + 1), 1), solmix=k)
        for k, at in enumerate((-1, body, body))
    ]
    b.add_pair(geoms[0], geoms[1], 0.5)
    b.add_pair(geoms[0], geoms[2], (0.5, 0.2), rolling_friction=(0.1, 0.3), solimp=(0.5, 0.6, 0.1, 0.5, 2))
    model = b.build()
    np.testing.assert_array_equal(model.joint_friction_solref[:, 0], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(model.pair_own_friction, [[0.5, 0.2, 0.005, 0.1, 0.3]])
    np.testing.assert_allclose(model.pair_solref, [[0.3, 1]])  # solmix 0 and 2
    assert sorted(model.pair_own) == [-1, 0] and model.mujoco == MuJoCoOptions()
    b.mujoco = MuJoCoOptions(cone="elliptic")
    assert b.build().impratio == 1.0 and b.build().mujoco.cone == "elliptic"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda b: b.add_geom("sphere", [1], name="g", solref=(1,)), "geom 'g': solref.*2 finite numbers"),
        (lambda b: b.add_geom("sphere", [1], name="g", solimp=(1, 2, np.nan, 1, 1)), "geom 'g': solimp.*5 finite numbers"),
        (lambda b: b.add_joint(0, name="j", margin=np.inf), "joint 'j': margin"),
        (lambda b: b.add_joint(0, "ball", name="j", friction_solref=np.ones((2, 2))), "joint 'j': friction_solref"),
        (lambda b: b.add_constraint("weld", 0, name="w", torquescale="x"), "constraint 'w': torquescale"),
        (lambda b: b.add_pair("floor", "ball", (1, 2, 3)), "pair of geoms 'ball' and 'floor': friction.*two tangents"),
        (lambda b: b.add_pair("floor", "ball", 1, solref=1.0), "pair of geoms 'ball' and 'floor': solref"),
        (lambda b: setattr(b, "mujoco", "elliptic") or b.build(), "mujoco.*ws.MuJoCoOptions"),
        (lambda b: MuJoCoOptions(cone="round"), "cone.*pyramidal"),
        (lambda b: MuJoCoOptions(impratio=0.0), "impratio.*positive"),
        (lambda b: MuJoCoOptions(refsafe=1), "refsafe.*True or False"),
    ],
)  # fmt: skip
def test_bad_values_are_named(make, words):
    b = ws.ModelBuilder()
    b.add_geom("sphere", [1.0], body=b.add_body(), name="ball")
    b.add_geom("plane", name="floor")
    with pytest.raises(ModelError, match=words):
        make(b)


def test_other_contact_models_say_what_they_do_not_read():
    """Parameters of the law and anisotropic pairs are refused by name; worlds may differ in what is not read."""
    model = ws.load(ws.robots.path("ant"))
    sim = ws.Simulator(model, worlds=2, device="cpu")
    for name in LAW_SPECS:
        with pytest.raises(ValueError, match=f"{name}.*ws.MuJoCo"):
            sim.parameters[name]
    other = dataclasses.replace(
        model, geom_solref=model.geom_solref + 0.1, mujoco=MuJoCoOptions(), joint_margin=model.joint_margin + 1
    )
    apply_variants(sim, [model, other], [0, 1])
    with pytest.raises(ValueError, match=r"anisotropic friction.*'floor' and 'b'"):
        ws.Simulator(ws.load(compiled()), device="cpu")
    assert SOLREF == tuple(model.joint_solref[0]) and SOLIMP == tuple(model.joint_solimp[0])
