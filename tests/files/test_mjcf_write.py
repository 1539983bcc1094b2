# SPDX-License-Identifier: Apache-2.0
"""`Model.to_mjcf` and `to_mjspec`: every number comes back, the motion is the same, and MuJoCo reads the same robot."""

import json
import pathlib
import re
import warnings

import mujoco
import numpy as np
import pytest

import warpsim as ws
from benchmarks.corpus import written
from scenes.constraints import every_constraint
from scenes.examples import asset
from scenes.zoo import ZOO
from warpsim.files.kept_json import pack, unpack
from warpsim.files.mjcf.mjcf_kept import NAME, agrees
from warpsim.model import ModelBuilder

GYM = (
    *("ant", "half_cheetah", "hopper", "humanoid", "humanoidstandup", "inverted_double_pendulum", "inverted_pendulum"),
    *("point", "pusher", "pusher_v5", "reacher", "swimmer", "walker2d", "walker2d_v5"),
)
OWN = tuple(ws.robots.names())
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
CUBE_FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 7, 5], [4, 6, 7], [0, 5, 1], [0, 4, 5]])
CUBE_FACES = np.concatenate([CUBE_FACES, [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]])


def robot(name: str) -> str:
    return ws.robots.path(name.removeprefix("own ")) if name.startswith("own ") else asset(name)


def differing(ours: ws.Model, theirs: ws.Model) -> list[str]:
    """The fields in which two models differ, but for the last bit of keyframes, whose quaternions MuJoCo normalises once more."""
    assert list(ours.keyframes) == list(theirs.keyframes)
    for name, frame in ours.keyframes.items():
        for a, b in zip(frame, theirs.keyframes[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=4e-16, atol=4e-16)
    return [name for name in written.differing(ours, theirs) if name != "keyframes"]


def saved(model: ws.Model, path: pathlib.Path) -> ws.Model:
    model.to_mjcf(path)
    return ws.load(path)


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def accelerations(model: ws.Model, rng) -> np.ndarray:
    """Of one step from five random states with random controls, contacts, limits and friction included; NaN where the solver did not converge, as
    deep in the ground, and what it ends at hangs on the last bit."""
    displaced = [model.displace(model.q0, 0.3 * rng.standard_normal(model.nv)) for _ in range(5)]
    v, (low, high) = rng.standard_normal((5, model.nv)), np.clip(model.control_range, -1, 1).T
    control = rng.uniform(low, high, (5, model.nu))
    sim = quietly(lambda: ws.Simulator(model, 5, dtype="float64", device="cpu", threads=1))
    after = sim.step(sim.state(q=np.array(displaced), v=v), control if model.nu else None)
    unsolved = after.memory["flags"].numpy() & ws.NOT_CONVERGED
    return np.where(unsolved[:, None], np.nan, (after.v.numpy() - v) / sim.dt)


def arm() -> ws.Model:
    """An arm that tendons move: one on joints, one on sites around a cylinder and over a pulley, with a muscle."""
    b = ModelBuilder("arm")
    upper = b.add_body("upper", pose=[0, 0, 1])
    b.add_joint(upper, name="shoulder", axis=(0, 1, 0), range=(-2, 2), damping=0.1)
    b.add_geom("capsule", [0.05, 0.2], body=upper, pose=[0, 0, -0.2])
    lower = b.add_body("lower", parent=upper, pose=[0, 0, -0.45])
    b.add_joint(lower, name="elbow", axis=(0, 1, 0), range=(0, 2.5), damping=0.1)
    b.add_geom("capsule", [0.04, 0.2], body=lower, pose=[0, 0, -0.2])
    wheel = b.add_geom(
        "cylinder", [0.03, 0.05], body=upper, pose=[0, 0, -0.45, 0.7, 0.7, 0, 0], contype=0, conaffinity=0
    )
    sites = [
        b.add_site(f"s{k}", body=body, pose=[0.06, 0, z]) for k, (body, z) in enumerate(((upper, -0.1), (lower, -0.1)))
    ]
    sites += [
        b.add_site(f"s{k}", body=body, pose=[-0.06, 0, z]) for k, (body, z) in ((2, (upper, 0)), (3, (lower, -0.2)))
    ]
    b.add_tendon(
        {"shoulder": 1.0, "elbow": -0.5}, name="both", stiffness=3.0, damping=0.2, range=(-3, 3), reference=(-1, -1)
    )
    path = [sites[0], (wheel, None), sites[1], ws.Pulley(2.0), sites[2], sites[3]]
    b.add_tendon(path=path, name="cable", stiffness=20.0, reference=(0.1, 0.4), friction=0.3)
    b.add_actuator(tendon="both", kind="position", kp=5.0, kv=0.1, force_range=(-2, 2))
    muscle = ws.Muscle(force=30.0, length_range=(0.1, 0.9))
    b.add_actuator(tendon="cable", kind="muscle", muscle=muscle, control_range=(0, 1))
    b.add_geom("plane")
    return b.build()


def two_robots() -> ws.Model:
    b = ModelBuilder("two")
    for k, name in enumerate(("ant", "humanoid")):
        b.add_model(ws.load(asset(name)), pose=[2.0 * k, 0, 0.1, 0.9, 0, 0, 0.435], prefix=f"{name}/")
    return b.build()


URDF = """<robot name="rig"><link name="base"><inertial><mass value="2"/><inertia ixx=".1" iyy=".1" izz=".1" ixy=".01" ixz="0" iyz="0"/>
</inertial><collision><geometry><box size="1 1 .2"/></geometry></collision></link><link name="upper"><inertial><origin xyz=".1 0 .2"/>
<mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy=".01" ixz="0" iyz="0"/></inertial><collision><geometry><sphere radius=".2"/>
</geometry></collision></link><link name="tip"><inertial><mass value=".3"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/>
</inertial></link><joint name="turn" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 .5" rpy=".1 .2 .3"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="5" velocity="1"/><dynamics damping=".3" friction=".1"/></joint>
<joint name="slide" type="prismatic"><parent link="upper"/><child link="tip"/><axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="5"
velocity="1"/></joint></robot>"""


def of_urdf(tmp_path) -> ws.Model:
    (tmp_path / "rig.urdf").write_text(URDF)
    return ws.load(tmp_path / "rig.urdf", base="free", actuators="effort")


def of_usd(tmp_path) -> ws.Model:
    ws.load(asset("pusher")).to_usd(tmp_path / "pusher.usda")
    return ws.load(tmp_path / "pusher.usda")


MADE = {
    "arm": lambda tmp_path: arm(),
    "two robots": lambda tmp_path: two_robots(),
    "URDF": of_urdf,
    "USD": of_usd,
    "zoo": lambda tmp_path: ws.load(mujoco.MjModel.from_xml_string(ZOO)),
}


def made(name: str, tmp_path) -> ws.Model:
    return MADE[name](tmp_path) if name in MADE else ws.load(robot(name))


@pytest.mark.parametrize("name", [*GYM, *(f"own {name}" for name in OWN), *MADE])
def test_every_number_comes_back(tmp_path, name):
    """Through the text, a file with its shapes beside it, a spec, and the spec compiled: the same model, bit for bit."""
    model = made(name, tmp_path)
    (tmp_path / "text.xml").write_text(quietly(model.to_mjcf), encoding="utf-8")
    assert differing(model, ws.load(tmp_path / "text.xml")) == []
    assert differing(model, quietly(lambda: saved(model, tmp_path / "beside.xml"))) == []
    spec = quietly(model.to_mjspec)
    assert differing(model, ws.load(spec)) == []
    assert differing(model, ws.load(spec.compile())) == []


@pytest.mark.parametrize("name", [*GYM, *(f"own {name}" for name in OWN), *MADE])
def test_steps_are_the_same(tmp_path, name):
    """Accelerations of a step with its contacts, after MJCF, a spec and USD: to 1e-12."""
    pytest.importorskip("pxr")
    model = made(name, tmp_path)
    expected = accelerations(model, np.random.default_rng(7))
    assert np.isfinite(expected).all(1).sum() >= 3
    model.to_usd(tmp_path / "model.usda")
    ways = {"mjcf": quietly(lambda: saved(model, tmp_path / "model.xml")), "usd": ws.load(tmp_path / "model.usda")}
    ways["spec"] = ws.load(quietly(model.to_mjspec))
    for way, other in ways.items():
        found = accelerations(other, np.random.default_rng(7))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        assert np.nanmax(np.abs(found - expected)) <= 1e-12 * np.nanmax(np.abs(expected)), way


@pytest.mark.parametrize("name", [*GYM, *(f"own {name}" for name in OWN)])
def test_mujoco_moves_it_as_the_original(name):
    """MuJoCo's acceleration without constraints, of the original file and of what we wrote: to 1e-10."""
    path = robot(name)
    models = mujoco.MjModel.from_xml_path(path), ws.load(path).to_mjspec().compile()
    assert written.mujocos_error(*models) <= 1e-10


# What MJCF has no words for --------------------------------------------------------------------------------------------


def everything() -> ws.Model:
    """A scene in code of what MJCF cannot say, and of names and orders that it cannot keep."""
    b = ModelBuilder("every/thing <&> \"it'\n", timestep=0.004, gravity=(0.1, 0, -9.7), density=1.2, wind=(1, 0, 0))
    b.filter_parent = False
    base = b.add_body(
        "a/b <c>", mass=2.0, com=(0.1, 0, 0), inertia=[[0.2, 0.01, 0], [0.01, 0.3, 0], [0, 0, 0.25]], gravcomp=0.5
    )
    b.add_joint(base, "free", name="free & easy", damping=[1, 2, 3, 4, 5, 6])
    other = b.add_body(mass=1.0, inertia=[0.1, 0.1, 0.1], pose=[0, 1, 0])
    b.add_joint(
        other, "ball", q0=[0.8, 0.6, 0, 0], anchor=(0.1, 0, 0), range=(0, 1), stiffness=2.0, reference=(0.1, 0.2, 0)
    )
    late = b.add_body("late", parent=base, mass=1.0, inertia=[0.1, 0.1, 0.1], pose=[0.3, 0, 0])  # breadth first
    b.add_joint(late, "hinge", axis=(1, 2, 3), range=(0.5, 0.5), q0=[0.2], armature=0.1, friction=0.3)
    b.add_joint(late, "slide", name="nan", stiffness=4.0, reference=0.3)
    light = b.add_body("massless", parent=late, mass=0.0)
    b.add_joint(light, "hinge", armature=0.01)
    b.add_body("post", pose=[5, 0, 0])  # a tree of one fixed body
    b.add_body("moved", mocap=True, pose=[0, 0, 3])
    b.add_geom("sphere", [0.1], body=late, name="soft", stiffness=1e4, dissipation_time=0.03, restitution=0.2)
    b.add_geom("plane", name="soft floor", stiffness=1e5, friction=0.3)
    b.add_geom("sphere", [0.1], body=base, name="hertz", hertz_modulus=1e6, condim=6, priority=2, visible=False)
    b.add_geom(
        "box", [0.1, 0.2, 0.3], body=other, name="box", fluid=True, hydroelastic=ws.Hydroelastic(1e5, margin=1e-3)
    )
    b.add_geom(
        "mesh",
        mesh=(CUBE / 3, CUBE_FACES),
        body=base,
        name="cube",
        pose=[0.3, 0, 0, 0.5, 0.5, 0.5, 0.5],
        max_hull_vertices=32,
    )
    b.add_geom("mesh", mesh=(CUBE / 3, CUBE_FACES), body=other, name="../cube", density=0.0)
    field = (CUBE[[0, 2, 1, 4]] / 3, [[0, 1, 2, 3]])
    soft = ws.Hydroelastic(1e4, field=(*field, [0, 0, 0, 1]))
    b.add_geom("mesh", mesh=(CUBE / 3, CUBE_FACES), body=light, name="field", hydroelastic=soft, density=0.0)
    b.add_geom("hfield", hfield=([1, 2, 0.5, 0.1], [[0.3, 1.7, 0.9], [0.4, 0.3, 1 / 3]]), pose=[0, 0, -3], name="hills")
    b.add_pair("soft", "box", 0.3, condim=4, torsional_friction=0.02)
    b.exclude(base, other)
    b.add_site(body=late, name="s")
    b.add_site(name="world site", type="box", size=[0.1, 0.2, 0.3])
    b.add_camera("eye", body=late, fovy=0.9, resolution=(64, 48))
    b.add_tendon({"nan": 1.0}, name="idle")
    b.add_tendon({"nan": 0.5, "joint_2": 1 / 3}, name="pulled", stiffness=1.0, reference=(-1, -1))
    b.add_constraint("connect", base, other, pose_a=[0.1, 0.2, 0.3], pose_b=[0, 0, 0.7], stiffness=1e4, active=False)
    b.add_constraint("screw", late, "post", pitch=0.2, active=False)
    b.add_constraint("weld", "moved", other, stiffness=(1e4, 1e2), dissipation_time=0.1, active=False)
    b.add_actuator("nan", "position", kp=3.0, kv=0.1, force_range=(-np.inf, 4), gear=2.0)
    b.add_actuator(
        "joint_2",
        "affine",
        gain=(1, 0.1, 0),
        bias=(0, -1, -0.1),
        dynamics=("filter", 0.1),
        activation_range=(0, np.inf),
    )
    b.add_actuator("free & easy", gear=(1, 2, 3, 0, 0, 0), control_range=(0.5, 0.5), group=3)
    b.add_actuator(tendon="pulled", kind="velocity", kv=1.0)
    b.add_effort_limit("joint_2", (-np.inf, 3))
    b.add_sensor("framepos", ("inertia", "late"), ("site", "s"), name="where")
    b.add_sensor("magnetometer", "s", field=(1, 2, 3))
    b.add_sensor("magnetometer", "world site", field=(3, 2, 1), name="other field")
    b.add_sensor("contact", ("subtree", base), data=("found", "force"), reduce="mindist", num=2)
    b.add_sensor("unavailable", size=3)
    model = b.build()
    q = model.q0 + 0.1 * (np.arange(model.nq) > 10)
    frame = {"q": q, "activation": [0.5], "mocap": [[0, 1, 2, 1, 0, 0, 0]]}
    again = ModelBuilder(model.name, timestep=0.004, gravity=model.gravity, density=1.2, wind=(1, 0, 0))
    again.add_model(model)
    again.add_keyframe("key 'it'", **frame)
    return again.build()


def test_all_that_mjcf_cannot_say_comes_back(tmp_path):
    """Bit for bit, and one warning names what MuJoCo does otherwise; shapes lie beside the file under plain names."""
    model = everything()
    with pytest.warns(UserWarning, match="MuJoCo does not do the same") as told:
        model.to_mjcf(tmp_path / "a b.xml")
    text = str(told[0].message)
    for part in ("'soft floor'", "restitution", "hertz_modulus", "(a screw)", "damping of joint 'free & easy'"):
        assert part in text or "more" in text or "..." in text
    assert differing(model, ws.load(tmp_path / "a b.xml")) == []
    names = sorted(path.name for path in (tmp_path / "a b_assets").iterdir())
    assert names == ["cube.obj", "hills.hfield"]  # equal meshes are one file
    (tmp_path / "text.xml").write_text(quietly(model.to_mjcf), encoding="utf-8")
    assert differing(model, ws.load(tmp_path / "text.xml")) == []
    m = mujoco.MjModel.from_xml_path(str(tmp_path / "a b.xml"))
    assert (m.nq, m.nv, m.nu, m.na) == (model.nq, model.nv, model.nu, model.na)
    assert np.array_equal(m.qpos0, np.where(np.arange(model.nq) == 9, 0.0, m.qpos0))
    np.testing.assert_allclose(m.body_mass[1:].sum(), model.body_mass.sum(), rtol=1e-14)


def test_every_constraint_comes_back(tmp_path):
    """Connects, welds, hinges, slides, distances, screws, couplings of joints and tendons."""
    model = every_constraint(screw=True)
    assert differing(model, quietly(lambda: saved(model, tmp_path / "model.xml"))) == []


def test_stiffness_is_mujocos(tmp_path):
    """A stiffness becomes the solref that makes it: a ball sinks as deep in MuJoCo, m g / k."""
    b = ModelBuilder(timestep=0.001)
    b.add_geom("plane")
    ball = b.add_body("ball", pose=[0, 0, 0.1])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [0.1], body=ball, stiffness=2e4, dissipation_time=0.1)
    model = b.build()
    m = model.to_mjspec().compile()
    data = mujoco.MjData(m)
    mujoco.mj_step(m, data, 20000)
    depth = 0.1 - data.qpos[2]
    assert depth == pytest.approx(model.body_mass[0] * 9.81 / 2e4, rel=0.02)


def test_plain_models_are_plain_files():
    """Nothing is kept, and nobody is warned, where MJCF says all."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert NAME not in ws.load(ws.robots.path("hopper")).to_mjcf()


# Files that were edited ------------------------------------------------------------------------------------------------


def test_an_edited_file_reads_as_edited(tmp_path):
    """What is kept counts only where the MJCF says what it said; the rest of it still counts."""
    model = everything()
    text = quietly(model.to_mjcf)
    edited = text.replace('name="nan" type="slide" stiffness="4"', 'name="nan" type="slide" stiffness="5"')
    edited = re.sub(r'(name="soft" .*?)solref="[^"]*"', r'\1solref="-1000 -10"', edited)
    edited = edited.replace('mass="2"', 'mass="3"')
    (tmp_path / "model.xml").write_text(edited, encoding="utf-8")
    read = ws.load(tmp_path / "model.xml")
    assert read.joint_stiffness[read.joint_coordinates("nan")[1]] == 5
    assert read.body_mass[read.body("a/b <c>")] == 3
    soft = read.geom("soft")
    assert not agrees(read.geom_stiffness[soft], 1e4) and np.isfinite(read.geom_stiffness[soft])
    assert read.geom_restitution[soft] == 0.2
    assert read.body_names == model.body_names


def test_bodies_that_came_or_went(tmp_path):
    """A file with another body is read; what is kept of the others still counts."""
    text = quietly(everything().to_mjcf).replace("<worldbody>", '<worldbody><body name="new"/>')
    (tmp_path / "model.xml").write_text(text, encoding="utf-8")
    read = ws.load(tmp_path / "model.xml")
    assert "new" in read.body_names and read.geom_restitution[read.geom("soft")] == 0.2


def kept_of(text: str) -> dict:
    return json.loads(mujoco.MjSpec.from_string(text).text(NAME).data)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda kept: "no json {",
        lambda kept: json.dumps([1]),
        lambda kept: json.dumps(kept | {"version": 99}),
        lambda kept: json.dumps(kept | {"geom": {"soft": {"restitution": {"mjcf": 0.0, "value": 7}}}}),
        lambda kept: json.dumps(kept | {"geom": {"soft": {"restitution": {"mjcf": 0.0, "value": "x"}}}}),
        lambda kept: json.dumps(kept | {"geom": []}),
        lambda kept: json.dumps(kept | {"friction_rule": 77}),
        lambda kept: json.dumps(
            kept | {"shape": {"cube": {"vertices": {"dtype": "f4", "shape": [1e9, 3], "zlib": ""}}}}
        ),
        lambda kept: json.dumps(
            kept | {"shape": {"cube": kept["shape"]["cube"] | {"faces": pack(np.full((1, 3), 99))}}}
        ),
        lambda kept: json.dumps(kept | {"constraints": [kept["constraints"][0] | {"type": "joint"}]}),
        lambda kept: json.dumps(kept | {"constraints": [kept["constraints"][0] | {"type": "rope"}]}),
    ],
)
def test_damaged_data_is_an_error(tmp_path, break_it):
    """It names the text and the fix; nothing of it is read."""
    text = quietly(everything().to_mjcf)
    spec = mujoco.MjSpec.from_string(text)
    spec.text(NAME).data = break_it(kept_of(text))
    with pytest.raises(ws.ModelError, match=f"text '{NAME}'.*remove"):
        ws.load(spec)


JUNK = (
    None,
    True,
    -1,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "x",
    "",
    [],
    {},
    [[]],
    {"mjcf": 1},
    [1, "y"],
    {"value": 2},
)


def test_any_damage_is_an_error_or_nothing():
    """A value of the text, whichever, replaced by junk: a `ModelError`, or a model that a simulator could have."""
    text = quietly(everything().to_mjcf)
    rng, spec, loaded = np.random.default_rng(3), mujoco.MjSpec.from_string(text), []
    for _ in range(60):
        kept = json.loads(spec.text(NAME).data)
        places = list(leaves(kept))
        holder, key = places[rng.integers(len(places))]
        holder[key] = JUNK[rng.integers(len(JUNK))]
        damaged = spec.copy()
        damaged.text(NAME).data = json.dumps(kept)
        try:
            model = ws.load(damaged)
        except ws.ModelError:
            continue
        loaded.append(model)
        ModelBuilder().add_model(model)
    assert 0 < len(loaded) < 60  # of both there are some


def leaves(data):
    """(container, key) of every value, containers included."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(items):
        yield data, key
        yield from leaves(value)


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(2, 3), np.ones((2, 2)), np.array([[1 / 3, np.pi]]), np.zeros((0, 3))]
)
def test_packed_arrays_lose_nothing(array):
    assert np.array_equal(unpack(pack(array)), array)


def test_an_effort_limit_where_a_string_pulls(tmp_path):
    """MuJoCo's range would clamp what an actuator on sites does, too, and `ws.load` refuses it: it is kept, and told."""
    b = ModelBuilder(wind=(1, 2, 3))  # of no medium
    first, site = b.add_body("first", mass=1.0, inertia=[1, 1, 1]), []
    b.add_joint(first, name="first", axis=(0, 1, 0))
    second = b.add_body("second", parent=first, pose=[0, 0, -1], mass=1.0, inertia=[1, 1, 1])
    b.add_joint(second, name="second", axis=(0, 1, 0))
    site = [b.add_site(name, body=second, pose=[x, 0, 0]) for name, x in (("s", 0.1), ("t", 0.2))]
    b.add_actuator("first"), b.add_actuator("first")
    b.add_actuator(
        site=site[0], reference_site=site[1], gear=(1, 0, 0, 0, 0, 0)
    )  # moves neither joint: both move with them
    b.add_effort_limit("first", (-1, 2), gravity_compensation=True)
    model = b.build()
    ws.Simulator(model, device="cpu")
    with pytest.warns(UserWarning, match="effort limit of joint 'first'"):
        model.to_mjcf(tmp_path / "model.xml")
    assert differing(model, ws.load(tmp_path / "model.xml")) == []


def test_a_name_with_a_backslash(tmp_path):
    """MuJoCo takes one in the name of a file for a slash, so that the folder of the shapes has none."""
    model = everything()
    assert differing(model, quietly(lambda: saved(model, tmp_path / "a\\b.xml"))) == []


# What cannot be written ------------------------------------------------------------------------------------------------


def test_a_name_that_xml_cannot_hold():
    b = ModelBuilder()
    b.add_body("bell \a")
    with pytest.raises(ws.ModelError, match=r"body 'bell \\x07'.*rename"):
        b.build().to_mjcf()


def test_what_mujoco_cannot_compile_is_an_error():
    """A plane that is drawn on a body that moves."""
    b = ModelBuilder("m")
    b.add_joint(b.add_body(mass=1.0, inertia=[1, 1, 1]), "free")
    b.add_geom("plane", body=0, contype=0, conaffinity=0, name="sheet")
    with pytest.raises(ws.ModelError, match=r"model 'm' as MJCF: MuJoCo cannot compile it.*plane"):
        b.build().to_mjcf()


@pytest.mark.parametrize(("path", "match"), [("x.urdf", "must end in"), ("none/x.xml", "does not exist"), (3, "path")])
def test_paths_are_checked(tmp_path, path, match):
    model = ws.load(ws.robots.path("hopper"))
    with pytest.raises(ValueError, match=match):
        model.to_mjcf(path if isinstance(path, int) else tmp_path / path)


# Specs read ------------------------------------------------------------------------------------------------------------

TETRAHEDRON = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
MESH = '<mujoco model="m"><compiler meshdir="parts"/><asset><mesh name="h" file="{}"/></asset><worldbody><geom type="mesh" mesh="h"/></worldbody></mujoco>'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "x.obj").write_bytes(TETRAHEDRON)
    (tmp_path / "model.xml").write_text(MESH.format("x.obj"))
    return tmp_path


@pytest.mark.parametrize("name", GYM)
def test_a_spec_is_its_file(name):
    """The same model, under its own name, and a report of the same lines."""
    of_file, of_spec = ws.load(asset(name)), ws.load(mujoco.MjSpec.from_file(asset(name)))
    assert differing(of_file, of_spec) == [] and of_file.report == of_spec.report


def test_a_spec_finds_its_files(folder):
    """In its assets, in the folder of its file, in `root`; the spec stays as it is."""
    spec = mujoco.MjSpec.from_file(str(folder / "model.xml"))
    model = ws.load(spec)
    assert spec.meshes[0].file == "x.obj" and not spec.assets
    assert differing(model, ws.load(folder / "model.xml")) == []
    text = MESH.format("x.obj")
    assert differing(model, ws.load(mujoco.MjSpec.from_string(text, assets={"x.obj": TETRAHEDRON}))) == []
    assert differing(model, ws.load(mujoco.MjSpec.from_string(text), root=folder)) == []
    absolute = mujoco.MjSpec.from_string(MESH.format(folder / "parts" / "x.obj"))
    assert differing(model, ws.load(absolute, root=folder)) == []


def test_a_spec_opens_nothing_else(folder, tmp_path_factory):
    """Files outside the folder, or of a spec without any, are errors that name the mesh and the fix; as of files."""
    with pytest.raises(ws.ModelError, match=r"mesh 'h'.*not in spec.assets; put its bytes there, or give root="):
        ws.load(mujoco.MjSpec.from_string(MESH.format(folder / "parts" / "x.obj")))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(ws.ModelError, match=r"mesh 'h'.*outside"):
        ws.load(mujoco.MjSpec.from_string(MESH.format(folder / "parts" / "x.obj")), root=elsewhere)
    with pytest.raises(ws.ModelError, match=r"mesh 'h'.*no .obj"):
        ws.load(mujoco.MjSpec.from_string(MESH.format("x.exe"), assets={"x.exe": b""}))


def test_missing_textures_and_skins_of_a_spec_are_left_out():
    """With a line of the report each; the spec stays as it is."""
    spec = mujoco.MjSpec()
    spec.add_texture(name="t", file="nothing.png", type=mujoco.mjtTexture.mjTEXTURE_2D)
    material = spec.add_material(name="m")
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "t"
    spec.worldbody.add_geom(size=[1, 0, 0], material="m")
    spec.add_skin(name="s", file="nothing.skn")
    lines = {line.feature: line.detail for line in ws.load(spec).report}
    assert "'nothing.png' is not in spec.assets" in lines["texture 't'"] and "files of skins" in lines
    assert spec.textures[0].file == "nothing.png" and len(spec.skins) == 1


@pytest.mark.parametrize(
    ("options", "match"),
    [({"isolate": True}, "isolate"), ({"base": "free"}, "URDF"), ({"packages": {"a": "."}}, "root=")],
)
def test_options_that_a_spec_has_no_use_for(options, match):
    with pytest.raises(ws.ModelError, match=match):
        ws.load(mujoco.MjSpec(), **options)


def test_a_spec_that_does_not_compile():
    spec = mujoco.MjSpec()
    spec.worldbody.add_body(name="light").add_joint()
    with pytest.raises(ws.ModelError, match=r"MjSpec: MuJoCo cannot compile it.*light"):
        ws.load(spec)


def test_a_spec_can_be_changed():
    """What was written is a spec like any other: another robot joins it."""
    spec = ws.load(ws.robots.path("hopper")).to_mjspec()
    spec.attach(
        ws.load(ws.robots.path("cartpole")).to_mjspec(), prefix="cart/", frame=spec.worldbody.add_frame(pos=[0, 3, 0])
    )
    model = ws.load(spec)
    assert "cart/cart" in model.body_names and "trunk" in model.body_names


def test_what_a_spec_keeps_goes_with_it_to_another():
    """Under the names that it has there, what MJCF cannot say of each element still counts; rules for a whole model do not, and the report says so."""
    model = everything()
    spec = mujoco.MjSpec()
    spec.attach(quietly(model.to_mjspec), prefix="its/", suffix="!", frame=spec.worldbody.add_frame(pos=[0, 3, 0]))
    read = quietly(lambda: ws.load(spec))
    for name in ("soft", "hertz", "box", "field", "hills"):
        g, h = model.geom(name), read.geom(f"its/{name}!")
        for key in ("stiffness", "restitution", "hertz_modulus", "dissipation_time", "hydroelastic"):
            ours, theirs = (getattr(m, f"geom_{key}")[i] for m, i in ((model, g), (read, h)))
            assert np.array_equal(ours, theirs, equal_nan=True), (name, key)
    free = [
        m.joint_damping[m.joint_coordinates(name)[1]]
        for m, name in ((model, "free & easy"), (read, "its/free & easy!"))
    ]
    assert np.array_equal(*free)
    assert "its/idle!" in read.tendon_names and len(read.site_names) == len(model.site_names)
    lines = [line for line in read.report if line.feature == f"custom text its/{NAME}!"]
    assert [line.status for line in lines] == ["ignored"]
    assert lines[0].detail.startswith("friction_rule, pairs")
    text = spec.text(f"its/{NAME}!")
    text.data = text.data.replace('"geom"', '"gone')
    assert read.ngeom == quietly(lambda: ws.load(spec)).ngeom  # damaged: plain MJCF, with a line
