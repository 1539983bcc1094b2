# SPDX-License-Identifier: Apache-2.0
"""Scenes with everything of MuJoCo's constraint law, for tests and benchmarks of its gradients."""

import mujoco
import numpy as np

import warpsim as ws

# Contacts with 1, 3, 4 and 6 dimensions, of solref in both forms, a solimp that depends on depth, margins, priorities and explicit pairs.
CONTACTS = """<mujoco><option timestep="0.003" impratio="3"/><worldbody>
<geom name="floor" type="plane" size="5 5 1" friction="0.7 0.01 0.002" solref="0.03 0.8" euler="0.1 0.15 0"/>
<body pos="0 0 0.099"><freejoint/><geom type="sphere" size="0.1" condim="6" friction="0.9 0.02 0.004" solmix="3"/></body>
<body pos="0.5 0 0.098"><freejoint/><geom type="capsule" size="0.05 0.1" euler="80 20 0" condim="4" solimp="0.7 0.97 0.01 0.3 3"/></body>
<body pos="0 0.5 0.05"><freejoint/><geom name="box" type="box" size="0.1 0.07 0.05" solref="-900 -30" margin="0.004"/></body>
<body pos="0.02 0.5 0.148"><freejoint/><geom name="top" type="sphere" size="0.05" condim="1" priority="1" solref="-2000 -9"/></body>
<body pos="-0.5 0.5 0.098"><freejoint/><geom name="own" type="sphere" size="0.1"/></body>
</worldbody><contact><pair geom1="floor" geom2="own" condim="6" friction="0.8 0.3 0.01 0.002 0.004" solref="0.05 0.6"
 solreffriction="0.03 1" solimp="0.8 0.9 0.005" margin="0.003"/></contact></mujoco>"""

# Limits with margins of hinges, balls and tendons, dry friction of joints and tendons, and every kind of equality.
ROWS = """<mujoco><option timestep="0.003"/><default><joint armature="0.01" damping="0.3"/><geom mass="1" contype="0"/></default>
<worldbody><body name="a"><joint name="h0" axis="0 1 0" limited="true" range="-0.01 40" margin="0.05" frictionloss="0.4"
 solreffriction="0.03 0.9" solreflimit="-500 -8" solimplimit="0.8 0.95 0.05"/><geom size="0.1 0.2" type="capsule" pos="0.2 0 0"/>
<body name="b" pos="0.4 0 0"><joint name="ball" type="ball" limited="true" range="0 20" solreflimit="0.04 1"/>
 <geom size="0.05 0.2" type="capsule" pos="0.2 0 0"/><site name="s" pos="0.3 0 0"/>
<body name="c" pos="0.4 0 0"><joint name="h1" axis="0 0 1" frictionloss="0.1" solimpfriction="0.5 0.8 0.1"/><joint name="h2" axis="0 1 0"/>
 <geom size="0.05 0.2" type="capsule" pos="0.2 0 0"/></body></body></body>
<body name="d" pos="0 1 0"><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body>
<body name="e" pos="0.5 1 0"><freejoint/><geom type="box" size="0.1 0.2 0.1"/></body>
<body name="f" pos="1.3 0.1 0"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/><geom size="0.1"/></body>
</worldbody><tendon><fixed name="t" limited="true" range="-0.02 0.3" margin="0.04" frictionloss="0.2" solreflimit="0.05 0.7"
 solreffriction="-30 -5"><joint joint="h1" coef="1"/><joint joint="h2" coef="-0.6"/></fixed>
<fixed name="u"><joint joint="x" coef="1"/><joint joint="y" coef="0.5"/></fixed></tendon>
<equality><weld body1="d" body2="e" torquescale="0.6" solref="0.04 0.9" relpose="0.5 0.02 0 1 0.05 0 0"/>
<connect body1="c" body2="f" anchor="0.4 0 0" solimp="0.7 0.9 0.02"/><joint joint1="y" joint2="h0" polycoef="0.1 0.5 -0.3 0.2 0.1"/>
<tendon tendon1="t" tendon2="u" polycoef="0 0.7 0.1" solref="-100 -10"/></equality></mujoco>"""


def contacts() -> ws.Model:
    """Bodies in contact with a floor and with each other."""
    return ws.load(mujoco.MjModel.from_xml_string(CONTACTS))


def rows() -> ws.Model:
    """Bodies at limits and on equalities."""
    return ws.load(mujoco.MjModel.from_xml_string(ROWS))


def start(sim: ws.Simulator, settle: int, push: float, turn: float = 0.0) -> ws.State:
    """After `settle` steps from the model's positions, moved and pushed at random."""
    model, rng = sim.model, np.random.default_rng(4)
    rest = sim.rollout(sim.state(), steps=settle).final if settle else sim.state()
    q = model.displace(rest.q.numpy()[0], turn * rng.normal(size=model.nv))
    return sim.state(q, rest.v.numpy()[0] + push * rng.normal(size=model.nv))
