# SPDX-License-Identifier: Apache-2.0
"""One step under MuJoCo's law against MuJoCo: acceleration, contact forces and the velocity after it, both cones (theory §3.8)."""

import mujoco
import pytest

from benchmarks.corpus.starts import random_states
from benchmarks.mujoco_contacts import contact_states, gymnasium_files
from benchmarks.mujoco_law import CONES, FORCE, QACC, joined, one_step
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
