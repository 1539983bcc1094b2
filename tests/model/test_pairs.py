# SPDX-License-Identifier: Apache-2.0
"""Which geoms may touch: every contact MuJoCo finds is between a pair of ours, and every pair of ours can touch there."""

import mujoco
import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files.mjcf.mjcf import load_mujoco
from warpsim.model import ModelBuilder
from warpsim.model.model import FrictionRule

ROBOTS = ("ant", "half_cheetah", "hopper", "humanoid", "walker2d", "swimmer")


def mujoco_pairs(m, states: int, seed: int) -> set[tuple[int, int]]:
    """Geom pairs in contact in random states: free bodies piled up at the origin, joints anywhere."""
    rng, d, found = np.random.default_rng(seed), mujoco.MjData(m), set()
    m.geom_margin[:] = 0.5 * m.stat.extent  # near counts as touching
    m.body_margin[:] = 0.5 * m.stat.extent
    for _ in range(states):
        d.qpos[:] = rng.uniform(-3, 3, m.nq)
        for j in range(m.njnt):
            if m.jnt_type[j] == 0:
                d.qpos[m.jnt_qposadr[j] : m.jnt_qposadr[j] + 3] *= 0.1
        mujoco.mj_kinematics(m, d)
        mujoco.mj_comPos(m, d)
        mujoco.mj_collision(m, d)
        found |= {(min(c), max(c)) for c in d.contact.geom[: d.ncon].tolist()}
    return found


def our_pairs(model) -> set[tuple[int, int]]:
    return {(min(p), max(p)) for p in model.pair_geom.tolist()}


@pytest.mark.parametrize("robot", ROBOTS)
def test_pairs_of_gymnasium_robots_are_mujocos(robot):
    gymnasium = pytest.importorskip("gymnasium")
    path = f"{gymnasium.__path__[0]}/envs/mujoco/assets/{robot}.xml"
    model = load_mujoco(path)
    found = mujoco_pairs(mujoco.MjModel.from_xml_path(path), 300, seed=0)
    assert found == our_pairs(model)


SCENE = """
<mujoco><option><flag filterparent="{filterparent}"/></option>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" priority="1" friction="0.3"/>
    <geom name="wall" type="box" size=".5 .5 .5"/>
    <body name="post"><geom name="post" size=".3"/><body name="sign"><geom name="sign" type="capsule" size=".1 .2"/></body></body>
    <body name="a"><freejoint/><geom name="a" size=".3"/>
      <body name="a_fixed"><geom name="a_fixed" type="box" size=".2 .2 .2" pos=".1 0 0"/>
        <body name="b"><joint type="ball"/><geom name="b" size=".2"/><geom name="b_ghost" size=".3" contype="0" conaffinity="0"/>
          <body name="c"><joint/><geom name="c" type="capsule" size=".1 .2" contype="2" conaffinity="1"/></body>
        </body></body></body>
    <body name="root"><joint/><geom name="root" size=".3" pos=".1 0 0" condim="1"/></body>
  </worldbody>
  <contact><exclude body1="a" body2="root"/><pair geom1="b_ghost" geom2="floor" friction="0.7 0.7 0 0 0"/>
    <pair geom1="a" geom2="a_fixed" condim="1"/></contact>
</mujoco>"""


@pytest.mark.parametrize("filterparent", ["enable", "disable"])
def test_filters_exclusions_masks_and_pairs_are_mujocos(filterparent):
    """Welded bodies, static bodies, parent filter, world as parent, exclusion of one body of a weld, explicit pairs."""
    m = mujoco.MjModel.from_xml_string(SCENE.format(filterparent=filterparent))
    model = load_mujoco(m)
    assert mujoco_pairs(m, 300, seed=1) == our_pairs(model)
    rules = {frozenset(model.geom_names[g] for g in pair): k for k, pair in enumerate(model.pair_geom)}
    ghost, frictionless = rules[frozenset({"b_ghost", "floor"})], rules[frozenset({"a", "a_fixed"})]
    assert model.pair_rule[ghost] == model.pair_rule[frictionless] == FrictionRule.EXPLICIT
    assert (model.pair_friction[ghost], model.pair_friction[frictionless]) == (0.7, 0.0)
    assert model.pair_rule[rules[frozenset({"floor", "root"})]] == FrictionRule.FIRST  # the plane is first by its type
    assert model.pair_rule[rules[frozenset({"wall", "root"})]] == FrictionRule.MAXIMUM


def test_friction_of_a_pair_is_mujocos():
    """Priority first, else the larger friction; condim 1 of the winner means no friction."""
    rng = np.random.default_rng(2)
    text = '<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>'
    for i in range(12):
        condim, priority, mu = rng.choice([1, 3]), rng.integers(0, 2), rng.uniform(0.1, 2)
        shape = 'type="box" size=".1 .1 .1"' if i % 2 else 'size=".1"'
        text += f'<body><freejoint/><geom {shape} condim="{condim}" priority="{priority}" friction="{mu}"/></body>'
    m = mujoco.MjModel.from_xml_string(text + "</worldbody></mujoco>")
    model, d = load_mujoco(m), mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    ours = {}
    for (a, b), rule in zip(model.pair_geom.tolist(), model.pair_rule, strict=True):
        mu_a, mu_b = model.geom_friction[[a, b]]
        value = {0: max(mu_a, mu_b), 1: mu_a, 2: mu_b, 4: 0.0}[int(rule)]
        ours[min(a, b), max(a, b)] = value
        assert model.geom_type[a] <= model.geom_type[b]
    seen = set()
    for contact in d.contact:
        pair = (int(min(contact.geom)), int(max(contact.geom)))
        np.testing.assert_allclose(ours[pair], contact.friction[0] if contact.dim > 1 else 0.0)
        seen.add(pair)
    assert len(seen) > 50


def test_harmonic_is_the_rule_in_code_and_masks_are_32_bits():
    b = ModelBuilder()
    b.add_geom("plane", contype=0xFFFFFFFF, conaffinity=0)
    b.add_body("ball")
    b.add_joint("ball", "free")
    b.add_geom("sphere", [1], body="ball", contype=0, conaffinity=1 << 31)
    model = b.build()
    assert model.pair_rule.tolist() == [FrictionRule.HARMONIC]
    b.add_pair(0, 1, 0.5)
    with pytest.raises(ModelError, match="twice"):
        b.add_pair(1, 0, 0.5)
    assert b.build().pair_rule.tolist() == [FrictionRule.EXPLICIT]
