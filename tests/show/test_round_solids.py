# SPDX-License-Identifier: Apache-2.0
"""Spheres and capsules of pictures: hits, normals and shadows against the distance to a segment, sampled along the rays."""

import types

import numpy as np
import pytest

from warpsim.model.geometry import rotation_matrix
from warpsim.model.model import GeomType
from warpsim.show.round_solids import FAR, SunlitPoints, half_length, round_hits, round_normals

STEP = 2e-3  # m, between samples along a ray


def solid_of(rng, kind):
    turn = rng.standard_normal(4)
    size = np.array([rng.uniform(0.1, 0.4), rng.uniform(0.1, 0.8), 0.0])
    rotation = rotation_matrix(turn / np.linalg.norm(turn))
    radius = size[0] + (size[1] if kind == GeomType.CAPSULE else 0.0)
    return types.SimpleNamespace(
        kind=kind, size=size, center=rng.uniform(-0.5, 0.5, 3), rotation=rotation, radius=radius
    )


def nearest(solid, points):
    """The nearest points of the solid's segment."""
    axis = solid.rotation[:, 2]
    along = np.clip((points - solid.center) @ axis, -half_length(solid), half_length(solid))
    return solid.center + along[..., None] * axis


def inside(solid, points):
    return np.linalg.norm(points - nearest(solid, points), axis=-1) < solid.size[0]


@pytest.mark.parametrize("kind", [GeomType.SPHERE, GeomType.CAPSULE])
def test_a_ray_hits_where_it_enters(kind):
    """The hit is on the surface, nothing before it is inside, and a ray without a hit has no sample inside."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        solid, eye = solid_of(rng, kind), rng.standard_normal(3)
        eye *= 3.0 / np.linalg.norm(eye)
        rays = solid.center + 0.8 * solid.radius * rng.uniform(-1, 1, (60, 3)) - eye
        rays[0] = solid.rotation[:, 2]  # along the axis
        rays /= np.linalg.norm(rays, axis=1)[:, None]
        t = round_hits(solid, eye, *np.ascontiguousarray(rays.T).reshape(3, 6, 10)).ravel()
        samples = np.arange(0.0, 6.0, STEP)
        met = inside(solid, eye + samples[:, None, None] * rays)
        hit = t < FAR
        assert hit.sum() > 5 and not (met.any(axis=0) & ~hit).any()
        assert not (met & (samples[:, None] < t - 1e-9)).any()
        points = eye + t[hit, None] * rays[hit]
        outward = points - nearest(solid, points)
        assert np.allclose(np.linalg.norm(outward, axis=1), solid.size[0], rtol=0, atol=1e-9)
        normals = round_normals([solid], points, np.zeros(len(points), int))
        assert np.allclose(normals, outward / solid.size[0], rtol=0, atol=1e-8)
        assert (np.einsum("ij,ij->i", normals, rays[hit]) <= 1e-9).all()


@pytest.mark.parametrize("kind", [GeomType.SPHERE, GeomType.CAPSULE])
def test_a_point_is_dark_if_the_solid_is_before_the_sun(kind):
    """As samples along the way to the sun say, but for points whose way touches the surface."""
    rng = np.random.default_rng(1)
    sun = np.array([-0.45, -0.55, 0.95]) / np.linalg.norm([-0.45, -0.55, 0.95])
    samples = np.arange(0.0, 6.0, STEP)
    dark = 0
    for k in range(10):
        solid = solid_of(rng, kind)
        if k == 0:  # along the sun's rays
            solid.rotation = np.linalg.qr(np.stack([sun, *rng.standard_normal((2, 3))], axis=1))[0][:, ::-1]
        points = solid.center + 1.5 * solid.radius * rng.uniform(-1, 1, (300, 3))
        points = points[~inside(solid, points)]
        sunlit = SunlitPoints(points, sun, 0.1)
        assert sunlit.reached(solid.center[None], np.array([solid.radius])) == [0]
        sunlit.darken_round(solid)
        found = np.zeros(len(points), bool)
        found[sunlit.order] = sunlit.dark
        ways = points + samples[:, None, None] * sun
        gap = (np.linalg.norm(ways - nearest(solid, ways), axis=-1) - solid.size[0]).min(axis=0)
        clear = np.abs(gap) > STEP
        assert (found == (gap < 0))[clear].all() and clear.mean() > 0.9
        within = np.zeros(len(points), bool)
        within[sunlit.order[sunlit.candidates(solid)]] = True
        assert len(within) == len(points) and not (found & within).any()  # those that are dark are not asked again
        dark += found.sum()
    assert dark > 50


def test_solids_far_from_all_points_are_left_out():
    """A solid beside the points, or below them, reaches none."""
    sun = np.array([0.6, 0.0, 0.8])
    points = np.random.default_rng(2).uniform(-1, 1, (50, 3))
    sunlit = SunlitPoints(points, sun, 0.5)
    centers = np.array([[0.0, 0, 0], [0.0, 9, 0], -9 * sun, 9 * sun])
    assert sunlit.reached(centers, np.full(4, 0.3)) == [0, 3]
