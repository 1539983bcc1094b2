# SPDX-License-Identifier: Apache-2.0
"""Geoms that overlap at a model's own start: how deep, who is told, and who is not."""

import glob
import warnings

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.files.load import load
from warpsim.model.hull import convex_mesh
from warpsim.model.overlap import Start, start_of

KINDS = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}


def start(model) -> Start:
    return Start(model, {k: convex_mesh(mesh)["vertices"] for k, mesh in enumerate(model.meshes)})


def two(first: str, second: str, world: str = "") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"<mujoco>{world}<worldbody><body><freejoint/><geom {first}/></body><body><freejoint/><geom {second}/></body>"
        "</worldbody></mujoco>"
    )


def text(values) -> str:
    return " ".join(f"{x:.17g}" for x in values)


@pytest.mark.parametrize("kinds", [(a, b) for a in KINDS for b in KINDS if a <= b and (a, b) != ("box", "capsule")])
def test_depths_are_mujocos(kinds):
    """`mj_geomDistance` of random pairs, to 1 % of the depth or 0.1 mm, and to 1e-4 in the median; what does not overlap
    there does not here. (Of a capsule and a box MuJoCo gives the depth of the capsule's ends.)"""
    rng, errors = np.random.default_rng(3), []
    for _ in range(20):
        quaternions = [text(rng.normal(size=4)) for _ in kinds]
        geoms = [
            f'type="{k}" size="{text(rng.uniform(0.05, 0.3, KINDS[k]))}" quat="{q}"'
            for k, q in zip(kinds, quaternions, strict=True)
        ]
        m = two(geoms[0], f'{geoms[1]} pos="{text(0.15 * rng.normal(size=3))}"')
        d = mujoco.MjData(m)
        mujoco.mj_kinematics(m, d)
        depth = -mujoco.mj_geomDistance(m, d, 0, 1, 1.0, None)
        found = start(load(m)).overlaps()
        assert bool(found) == (depth > 1e-3) or abs(depth - 1e-3) < 1e-4
        if found:
            errors.append(abs(found[0][0] - depth))
            assert errors[-1] <= max(0.01 * depth, 1e-4)
    assert len(errors) >= 5 and np.median(errors) < 1e-5


CUBE = np.array([(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)])
FACES = [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)]  # fmt: skip
GROUNDS = {
    "plane": {"type": "plane", "pose": [0, 0, 0, np.cos(0.15), np.sin(0.15), 0, 0]},
    "hfield": {"type": "hfield", "hfield": ([1, 1, 0.5, 0.2], np.full((5, 7), 0.4)), "pose": [0, 0, -0.2]},
}


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("gap", [-0.05, -0.0005, 0.0, 0.02])
def test_depth_in_the_ground(ground, gap):
    """A cube, as a box and as a mesh, at a known gap over a tilted plane and over a flat height field."""
    b = ws.ModelBuilder()
    b.add_geom(**GROUNDS[ground], name="ground")
    height = 0.1 + gap if ground == "hfield" else (0.1 + gap) / np.cos(0.3)
    for k, shape in enumerate(({"type": "box", "size": [0.1] * 3}, {"type": "mesh", "mesh": (CUBE, FACES)})):
        turn = [1, 0, 0, 0] if ground == "hfield" else GROUNDS[ground]["pose"][3:]
        body = b.add_body(f"cube_{k}", pose=[k * 0.5 - 0.2, 0, height, *turn])
        b.add_joint(body, "free")
        b.add_geom(**shape, body=body, name=f"cube_{k}")
    found = start(b.build()).overlaps()
    assert len(found) == (2 if gap < -0.001 else 0)
    np.testing.assert_allclose([depth for depth, _ in found], -gap, atol=1e-9)
    assert len(start(b.build()).touching()) == (0 if gap > 0 else 2)


def stack(gap: float, count: int = 2):
    b = ws.ModelBuilder("stack")
    for k in range(count):
        body = b.add_body(f"box_{k}", pose=[0, 0, (0.2 + gap) * k])
        b.add_joint(body, "free")
        b.add_geom("box", [0.3, 0.3, 0.1], body=body, name=f"box_{k}")
    return b.build()


def told(model, **options) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ws.Simulator(model, device="cpu", **options)
    return [str(w.message) for w in caught]


def test_an_overlap_at_the_start_is_one_warning_for_a_model():
    """It names the deepest pairs with their depths and the way out, in one line; a second simulator says nothing more."""
    model = stack(-0.03, 6)
    (message,) = told(model)
    assert "'stack': 5 pairs" in message and "'box_0' and 'box_1' by 30 mm" in message and "exclude" in message
    assert message.count(" mm") == 3 and "\n" not in message
    assert told(model) == []


@pytest.mark.parametrize("gap", [-5e-4, 0.0, 1e-3])
def test_bodies_that_rest_on_each_other_say_nothing(gap):
    assert told(stack(gap)) == []


def test_without_contact_overlaps_say_nothing():
    assert told(stack(-0.03), solver=ws.NoContact()) == []


def test_robots_of_gymnasium_that_do_not_overlap_say_nothing():
    """Only humanoidstandup lies in the floor: 36 mm deep, as in MuJoCo."""
    gymnasium = pytest.importorskip("gymnasium")
    deep = {}
    for path in sorted(glob.glob(f"{gymnasium.__path__[0]}/envs/mujoco/assets/*.xml")):
        m = mujoco.MjModel.from_xml_path(path)
        model, d = load(m), mujoco.MjData(m)
        found = start(model).overlaps() if len(model.pair_geom) else []
        mujoco.mj_forward(m, d)
        theirs = {tuple(sorted(c.geom.tolist())): -c.dist for c in d.contact if c.dist < -1e-3}
        assert {tuple(sorted(model.pair_geom[i].tolist())) for _, i in found} == set(theirs)
        if found:
            deep[path.rsplit("/", 1)[1]] = found[0][0]
            np.testing.assert_allclose(found[0][0], max(theirs.values()), rtol=1e-6)
    assert list(deep) == ["humanoidstandup.xml"]
    np.testing.assert_allclose(deep["humanoidstandup.xml"], 0.036, atol=0.001)


def test_a_model_is_looked_at_once():
    model = stack(-0.03)
    assert start_of(model, {}) is start_of(model, {})


# Slots -------------------------------------------------------------------------------------------------------------------


def wall(side: int):
    """A wall of side x side cubes of one tree, each on its own slide, that all touch their neighbours, 0.1 mm deep."""
    b = ws.ModelBuilder("wall", gravity=(0, 0, 0))
    base = b.add_body("base")
    b.add_joint(base, "free")
    b.add_geom("sphere", [0.1], body=base, pose=[0, 5, 0])
    for i in range(side):
        for j in range(side):
            body = b.add_body(f"cube_{i}_{j}", parent=base, pose=[0.1999 * i, 0, 0.1999 * j])
            b.add_joint(body, "slide", name=f"slide_{i}_{j}", axis=[0, 1, 0])
            b.add_geom("box", [0.1] * 3, body=body, name=f"cube_{i}_{j}")
    return b.build()


def test_slots_follow_the_contacts_of_the_start():
    """60 pairs of faces that touch have 4 points each, more than the usual 64 slots: none is lost."""
    sim = ws.Simulator(wall(6), device="cpu")
    state = sim.step(sim.state())
    assert sim.max_contacts >= 240 and sim.diagnostics.flags.numpy()[0] == 0
    assert sim.diagnostics.contacts.numpy()[0] >= 240
    assert np.isfinite(state.v.numpy()).all()


@pytest.mark.parametrize("robot, slots", [("ant", 25), ("humanoid", 32), ("half_cheetah", 16), ("humanoidstandup", 32)])
def test_slots_of_robots_are_those_of_each_geom_in_contact(assets, robot, slots):
    """Memory per world: few of their pairs touch at the start; the humanoid's geoms, each on the ground, have 29 points, and 32 is the least."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ws.Simulator(load(assets(robot)), device="cpu").max_contacts == slots


@pytest.mark.parametrize("boxes, slots", [(3, 32), (5, 40), (12, 64)])
def test_slots_of_a_fan_of_boxes(boxes, slots):
    """Boxes on hinges of one base, far apart: 8 points a box, though every two of them may touch."""
    b = ws.ModelBuilder("fan")
    base = b.add_body("base")
    b.add_joint(base, "free")
    for k in range(boxes):
        body = b.add_body(f"box_{k}", parent=base, pose=[k, 0, 0])
        b.add_joint(body, "hinge", name=f"hinge_{k}", axis=[0, 1, 0])
        b.add_geom("box", [0.1] * 3, body=body)
    if boxes == 3:  # 24 points with each other
        b.add_geom("plane", body=-1, pose=[0, 0, -1])
    assert ws.Simulator(b.build(), device="cpu").max_contacts == slots


def test_a_humanoid_at_play_needs_half_its_slots(assets, device):
    """Dropped in any attitude, and thrown about by random controls (3,000 steps of 512 worlds: 12 contacts at most)."""
    rng, worlds = np.random.default_rng(1), 64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sim = ws.Simulator(load(assets("humanoid")), worlds, device=device)
    q = np.tile(sim.model.q0, (worlds, 1))
    q[:, 3:7] = rng.normal(size=(worlds, 4))
    state, most = sim.state(q=q, v=rng.normal(size=(worlds, sim.model.nv))), 0
    for k in range(300):
        if k % 10 == 0:
            control = rng.uniform(-1, 1, (worlds, sim.model.nu))
        state = sim.step(state, control)
        most = max(most, int(sim.diagnostics.contacts.numpy().max()))
    assert 4 <= most <= sim.max_contacts // 2
    assert not (state.memory["flags"].numpy() & 4).any()
