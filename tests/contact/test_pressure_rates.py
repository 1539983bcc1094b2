# SPDX-License-Identifier: Apache-2.0
"""Rates of polygons and of points of patches against central differences, every pair of shapes, rigid and soft."""

import numpy as np
import pytest
from pressure_rates import CASES, compare, contacts_at, moved, pair_model, random_poses, simulator, slopes_at

import warpsim as ws

# Of the largest entry of a kind: the best difference of four step sizes errs by 1e-9, by more where points lie in thin parts of patches.
TOLERANCE = 1e-7
SMOOTH = [case for case in CASES if case[0] in ("plane", "capsule", "cylinder") or case[1] == "box"]
NAMES = {"ids": "-".join}


def check(case, level, margin=0.0, tessellate=True, **options):
    found = compare(pair_model(*case, margin=margin, tessellate=tessellate), level, **options)
    assert found["contacts"] > 0 and found["skipped"] == 0
    assert max(found["errors"].values()) <= TOLERANCE, found["errors"]


@pytest.mark.parametrize("case", CASES, **NAMES)
def test_polygons_by_motions(case):
    """φ, p, n, c and τ_d of every polygon, and of the four points of large ones, by all motions of geom B."""
    check(case, "polygons", poses=1)


@pytest.mark.parametrize("case", CASES, **NAMES)
def test_points_of_quadrants_by_motions(case):
    """The points of patches cut into quadrants, whose lines and normals move."""
    check(case, "patch16", poses=1)


@pytest.mark.parametrize("level", ["patch4", "patch5"])
@pytest.mark.parametrize("case", SMOOTH[::3], **NAMES)
def test_points_of_patches_by_motions(case, level):
    """The points of whole patches, and the share of the one in the middle."""
    check(case, level, poses=1)


@pytest.mark.parametrize("level", ["polygons", "patch5"])
@pytest.mark.parametrize("case", CASES[::6], **NAMES)
def test_by_parameters(case, level):
    """By modulus, size, thickness and dissipation time of both geoms."""
    check(case, level, poses=1, by_parameters=True)


@pytest.mark.parametrize("case", CASES[4::9], **NAMES)
def test_with_a_margin(case):
    """Surfaces that are moved out."""
    check(case, "polygons", poses=1, margin=0.005, by_parameters=True)


@pytest.mark.parametrize("level", ["patch16", "patch5"])
@pytest.mark.parametrize("softness", ["rigid and soft", "soft and rigid"])
def test_spheres_on_planes(softness, level):
    """The points of the closed form."""
    check(("plane", "sphere", softness), level, poses=3, tessellate=False, by_parameters=True)


@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5"])
def test_same_bits_for_any_number_of_worlds(level):
    """Rates of a world do not depend on the others."""
    model = pair_model("box", "cylinder", "both soft")
    q = random_poses(model, 5, np.random.default_rng(1))
    together = slopes_at(simulator(model, 5, level), q, [0, 3])
    alone = simulator(model, 1, level)
    for k in range(5):
        np.testing.assert_array_equal(slopes_at(alone, q[k : k + 1], [0, 3])[0], together[k])


@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5"])
def test_polygons_without_room(level):
    """Polygons beyond `max_polygons` have no rates, those kept the right ones."""
    model = pair_model("sphere", "box", "both soft")
    q = random_poses(model, 24, np.random.default_rng(0))
    sims = [simulator(model, 24, level, max_polygons=n) for n in (4, None)]
    few, all_ = (slopes_at(sim, q, []) for sim in sims)
    assert sims[0].diagnostics.flags.numpy().max() & int(ws.CONTACT_OVERFLOW)
    for a, b in zip(few, all_, strict=True):
        assert np.isfinite(a).all()
        if level == "polygons":
            np.testing.assert_array_equal(a, b[: len(a)])


def test_what_is_carried_along():
    """A motion of both geoms carries φ, c and τ_d unchanged, points and normals along: so has a motion of A minus that of B."""
    model = pair_model("sphere", "box", "rigid and soft")
    q = random_poses(model, 24, np.random.default_rng(0))
    sim = simulator(model, 24, "patch16")
    slopes, values = slopes_at(sim, q, []), contacts_at(sim, q)
    step = 1e-6
    for d in range(6):
        sides = []
        for side in (1, -1):
            x = q.copy()
            for k in range(len(q)):
                # A, the first body, moves: as the last body of its own coordinates
                x[k, :7] = moved(q[k, :7], side * step * np.eye(6)[d])
            sides.append(contacts_at(sim, x))
        for k in range(len(q)):
            up, down, now = sides[0][k], sides[1][k], values[k]
            if not len(now["values"]) or not up["key"] == now["key"] == down["key"]:
                continue
            difference = (up["values"] - down["values"]) / (2 * step)
            own = -slopes[k][:, :, d]
            omega, u = np.eye(6)[d, :3], np.eye(6)[d, 3:]
            own[:, 1:4] += np.cross(omega, now["values"][:, 1:4]) + u
            own[:, 4:7] += np.cross(omega, now["values"][:, 4:7])
            size = np.abs(own[:, :7]).max(0) + 1e-3
            assert np.abs((own - difference)[:, :7] / size).max() < 1e-4
