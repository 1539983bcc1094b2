# SPDX-License-Identifier: Apache-2.0
"""One step under MuJoCo's law against MuJoCo: acceleration, contact forces and the velocity after it, both cones (theory §3.8)."""

import mujoco
import pytest

from benchmarks.corpus.starts import random_states
from benchmarks.mujoco_contacts import contact_states, gymnasium_files
from benchmarks.mujoco_law import CONES, FORCE, QACC, joined, one_step
from benchmarks.mujoco_motion import gradient_errors, robot, trajectory
from scenes.mujoco_law import ROWS

# Contacts with 1, 3, 4 and 6 dimensions, of solref in both forms, a solimp that depends on depth, margins, priorities and explicit pairs.
CONTACTS = """<mujoco><option timestep="0.003" impratio="3"/><worldbody>
<geom name="floor" type="plane" size="5 5 1" friction="0.7 0.01 0.002" solref="0.03 0.8" euler="2 3 0"/>
<body pos="0 0 0.099"><freejoint/><geom type="sphere" size="0.1" condim="6" friction="0.9 0.02 0.004" solmix="3"/></body>
<body pos="0.5 0 0.098"><freejoint/><geom type="capsule" size="0.05 0.1" euler="80 20 0" condim="4" solimp="0.7 0.97 0.01 0.3 3"/></body>
<body pos="0 0.5 0.05"><freejoint/><geom name="box" type="box" size="0.1 0.07 0.05" solref="-900 -30" margin="0.004"/></body>
<body pos="0.02 0.5 0.148"><freejoint/><geom name="top" type="sphere" size="0.05" condim="1" priority="1" solref="-2000 -9"/></body>
<body pos="-0.5 0 0.06"><freejoint/><geom type="cylinder" size="0.06 0.1" euler="85 10 0" condim="3" solimp="0.9 0.99 0.02"/></body>
<body pos="-0.5 0.5 0.098"><freejoint/><geom name="own" type="sphere" size="0.1"/></body>
</worldbody><contact><pair geom1="floor" geom2="own" condim="6" friction="0.8 0.3 0.01 0.002 0.004" solref="0.05 0.6"
 solreffriction="0.01 1" solimp="0.8 0.9 0.005" margin="0.003"/></contact></mujoco>"""


def _check(m: mujoco.MjModel, states, cone: str, least: int) -> None:
    row = one_step(m, states, cone, given=False)
    assert row["compared"] >= 0.8 * row["states"], row
    assert row["rows"] >= least
    assert row["residual"] < 1e-9  # MuJoCo's own
    assert row["qacc"] < QACC, row
    assert row["v"] < QACC, row
    assert row["force"] < FORCE, row
    assert row["row_force"] < FORCE, row


@pytest.mark.parametrize("cone", CONES)
def test_contacts(cone):
    m = mujoco.MjModel.from_xml_string(CONTACTS)
    _check(m, contact_states(m, 10, seconds=0.3), cone, 140)


@pytest.mark.parametrize("cone", CONES)
def test_rows(cone):
    m = mujoco.MjModel.from_xml_string(ROWS)
    _check(m, random_states(m, 10), cone, 140)


@pytest.mark.parametrize("cone", CONES)
def test_a_robot(cone):
    """Gymnasium's humanoid, in contact and away from it, with joints at their stops."""
    file = next(f for f in gymnasium_files() if f.path.name == "humanoid.xml")
    m = mujoco.MjModel.from_xml_path(str(file.path))
    _check(m, joined(contact_states(m, 8), random_states(m, 4)), cone, 50)


@pytest.mark.parametrize(("name", "integrator"), [("hopper", 1), ("half_cheetah", 0), ("ant", 3)])
def test_trajectories(name, integrator):
    """Gymnasium's robots follow MuJoCo for 100 steps under the same random actions (Euler 0, RK4 1, implicitfast 3)."""
    found = trajectory(name, integrator, actions=25)
    assert len(found.ours) >= 100
    assert found.ours.max() < 1e-9
    assert found.flags == 0


@pytest.mark.parametrize(
    ("name", "cone", "integrator"), [("half_cheetah", "elliptic", 3), ("humanoid", "pyramidal", 0)]
)
def test_derivatives(name, cone, integrator):
    """`sim.linearize` has MuJoCo's finite differences (`mjd_transitionFD`, centered) of a step in contact as its limit."""
    m = robot(name)
    m.opt.integrator = integrator
    found = gradient_errors(m, contact_states(m, 3), cone)
    assert found["compared"] >= 2
    assert found["A"] < 1e-7
    assert found["B"] < 1e-7
