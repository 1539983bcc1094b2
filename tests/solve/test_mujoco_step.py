# SPDX-License-Identifier: Apache-2.0
"""One step under MuJoCo's law against MuJoCo: acceleration, contact forces and the velocity after it, both cones (theory §3.8)."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from benchmarks.corpus.starts import random_states
from benchmarks.mujoco_contacts import contact_states, gymnasium_files
from benchmarks.mujoco_law import CONES, FORCE, QACC, Peer, joined, one_step
from benchmarks.mujoco_motion import gradient_errors, robot, trajectory
from scenes.mujoco_law import CONTACTS, ROWS

CYLINDER = """<body pos="-0.5 0 0.06"><freejoint/><geom type="cylinder" size="0.06 0.1" euler="85 10 0" condim="3" solimp="0.9 0.99 0.02"/></body>"""
SCENE = CONTACTS.replace("</worldbody>", f"{CYLINDER}</worldbody>")
EXACT = int(mujoco.mjtEnableBit.mjENBL_DIAGEXACT)


def _check(m: mujoco.MjModel, states, cone: str, least: int) -> None:
    row = one_step(m, states, cone, given=False)
    assert row["compared"] >= 0.8 * row["states"], row
    assert row["rows"] >= least
    assert row["residual"] < 1e-9  # MuJoCo's own
    assert row["qacc"] < QACC, row
    assert row["v"] < QACC, row
    assert row["force"] < FORCE, row
    assert row["row_force"] < FORCE, row


@pytest.mark.parametrize("flags", [0, EXACT])
@pytest.mark.parametrize("cone", CONES)
def test_contacts(cone, flags):
    """Contacts of every kind, with approximate inverse masses and with exact ones (`diagexact`)."""
    m = mujoco.MjModel.from_xml_string(SCENE)
    states = contact_states(m, 10, seconds=0.3)
    m.opt.enableflags |= flags
    _check(m, states, cone, 140)


@pytest.mark.parametrize("flags", [0, EXACT])
@pytest.mark.parametrize("cone", CONES)
def test_rows(cone, flags):
    m = mujoco.MjModel.from_xml_string(ROWS)
    m.opt.enableflags |= flags
    _check(m, random_states(m, 10), cone, 140)


@pytest.mark.parametrize("flags", [0, EXACT])
@pytest.mark.parametrize("cone", CONES)
def test_a_robot(cone, flags):
    """Gymnasium's humanoid, in contact and away from it, with joints at their stops."""
    file = next(f for f in gymnasium_files() if f.path.name == "humanoid.xml")
    m = mujoco.MjModel.from_xml_path(str(file.path))
    states = joined(contact_states(m, 8), random_states(m, 4))
    m.opt.enableflags |= flags
    _check(m, states, cone, 50)


# Bodies that adhesion pulls at contacts which touch and at others within a gap; other gaps, without adhesion, do nothing.
STICKY = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="2 2 1" gap="0.004" margin="0.001" condim="4"/>
<body name="a" pos="0 0 0.101" euler="1 0.5 0"><freejoint/><geom type="box" size="0.1 0.1 0.1" gap="0.006" margin="0.001"/>
 <geom type="sphere" pos="0.2 0 0" size="0.1"/></body>
<body name="b" pos="0.5 0 0.104"><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/><geom type="capsule" size="0.1 0.2" euler="0 90 0" gap="0.003"/></body>
<body name="c" pos="0.9 0 0.106"><freejoint/><geom type="sphere" size="0.1"/></body></worldbody>
<actuator><adhesion body="a" ctrlrange="0 1" gain="30"/><adhesion body="b" ctrlrange="0 1" gain="20"/></actuator></mujoco>"""


@pytest.mark.filterwarnings("ignore:.*overlap at its start")
@pytest.mark.parametrize("cone", CONES)
def test_adhesion_pulls_within_gaps(cone):
    """Adhesion shares its force among the contacts that act and those within the gap, which bear nothing."""
    m = mujoco.MjModel.from_xml_string(STICKY)
    states = contact_states(m, 12, seconds=0.3)
    assert any((Peer(m, states, k).data.contact.exclude == 1).any() for k in range(12))
    _check(m, states, cone, 150)


@pytest.mark.filterwarnings("ignore:.*overlap at its start")
def test_gradients_of_adhesion_within_gaps(within):
    """Gradients against differences at a state with contacts in the gap."""
    m = mujoco.MjModel.from_xml_string(STICKY)
    states = contact_states(m, 12, seconds=0.3)
    k = next(k for k in range(12) if (Peer(m, states, k).data.contact.exclude == 1).any())
    sim = ws.Simulator(ws.load(m), dtype="float64", solver=ws.MuJoCo(tolerance=1e-14), requires_grad=True)
    start, controls = sim.state(states["q"][k], states["v"][k]), np.full((1, 1, 2), 0.7)
    check = ws.check_gradients(sim, start, controls, horizons=(1,), parameters=["actuator_gain", "geom_solref"])
    within("gradients against differences, relative", check.worst(), 1e-5)


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
