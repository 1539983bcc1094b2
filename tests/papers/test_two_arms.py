# SPDX-License-Identifier: Apache-2.0
"""The two arms that open a jar: the parts of the program, and with the robots' files that the jar is taken and lifted."""

import numpy as np
import pytest

from papers.sap import two_arms
from papers.sap.two_arms import HOLDS, PHASES, Task, between, jar_places, minimum_jerk
from scenes.two_arms import JAR, MARBLE_RADIUS, folders, marble_places
from warpsim.model.geometry import axis_angle, rotation_matrix

FILES = folders()
needs_files = pytest.mark.skipif(FILES is None, reason="needs pip install robosuite example-robot-data")


def test_minimum_jerk_starts_and_ends_at_rest():
    s = np.array([0.0, 1e-4, 0.5, 1 - 1e-4, 1.0, 2.0])
    assert np.allclose(minimum_jerk(s), [0, 0, 0.5, 1, 1, 1], atol=1e-10)


def test_poses_between():
    """Half way of a turn by 2 rad about x is 1 rad, whichever sign the quaternion has."""
    a = np.array([[0.0, 0, 0, 1, 0, 0, 0]])
    b = np.concatenate([[[1.0, 2, 3]], -axis_angle((1.0, 0, 0), 2.0)[None]], axis=1)
    half = between(a, b, np.array([0.5]))
    assert np.allclose(half[0, :3], [0.5, 1, 1.5])
    assert np.allclose(rotation_matrix(half[0, 3:]), rotation_matrix(axis_angle((1.0, 0, 0), 1.0)))


def test_marbles_fit_in_the_jar():
    """Apart from each other, from the walls and below the plug."""
    at = marble_places()
    apart = np.linalg.norm(at[:, None] - at[None], axis=2) + np.eye(len(at))
    assert apart.min() > 2 * MARBLE_RADIUS
    assert np.linalg.norm(at[:, :2], axis=1).max() + MARBLE_RADIUS < JAR.inner
    assert at[:, 2].max() + MARBLE_RADIUS < JAR.height - JAR.plug


def test_palms_face_what_they_hold():
    """The left palm looks at the jar's axis from +y, the right one down on the lid."""
    left, right = (rotation_matrix(HOLDS[side][3:]) for side in ("left", "right"))
    assert np.allclose(left[:, 0], [0, -1, 0], atol=1e-12) and HOLDS["left"][1] > JAR.outer
    assert np.allclose(right[:, 0], [0, 0, -1], atol=1e-12) and HOLDS["right"][2] > JAR.cap


@pytest.mark.assets
@needs_files
def test_the_jar_is_taken_and_lifted():
    """160 degrees of freedom; two jars, one of them elsewhere, are grasped with more than 10 N and lifted with their lids on."""
    task = Task(FILES, jar_places(2), max_polygons=two_arms.POLYGONS)
    assert task.model.nv == 160 and task.dofs == 46
    assert max(error.max() for error in task.start_errors) < 2e-3
    over = [p.name for p in PHASES].index("over lid")
    while task.phase.min() < over and task.time < 9.0:
        task.step()
    assert task.reached["jar grasped"].all() and task.reached["jar lifted, closed"].all()
    assert not (task.sim.diagnostics.flags.numpy() & 7).any()
