# SPDX-License-Identifier: Apache-2.0
"""Spatial tendons: paths over sites, around spheres and cylinders, and divided by pulleys.

A path is a list of segments. Each runs from one site to the next, straight or around one geom (`wrapping.py`). A
segment of length L_s in a part of the path with the divisor d_s adds L_s/d_s to the tendon's length. A taut string
pulls with a force of 1/d_s at its ends and where it leaves a geom. Moment arms ∂L/∂q therefore follow from wrenches on
links (`transmission.py`). Motion of the points of contact does not count, because the length is stationary there.

`choose_wraps` finds the discrete case of every segment; gradients treat it as constant. `measure_segments` is smooth.
"""

import warp as wp

from ..real import func, kernel, real, struct, transform, vec3
from ..tree import joints
from ..tree.plant import Plant, placed_geom
from . import wrapping
from .wrapping import Wrap, choose_wrap, touch, unit


@struct
class Sites:
    """Frames in links; shared by all worlds."""

    link: wp.array(dtype=int)  # (nsite,) -1: fixed to the world
    pose: wp.array(dtype=transform)


@struct
class Segments:
    """End points of the segments and their tendons; shared by all worlds."""

    site: wp.array2d(dtype=int)  # (n, 2) first and last site
    geom: wp.array(dtype=int)  # (n,) geom that the segment may wrap; -1: straight
    geom_link: wp.array(dtype=int)
    cylinder: wp.array(dtype=int)  # 1: cylinder, 0: sphere
    side: wp.array(dtype=int)  # a site that selects the side of the geom, or its inside; -1: the shorter way
    share: wp.array(dtype=real)  # 1/d_s
    begin: wp.array(dtype=int)  # (spatial tendons + 1,) the first segment of each


@func
def site_pose(sites: Sites, link_X: wp.array2d(dtype=transform), w: int, i: int) -> transform:
    """World pose of site i."""
    return joints.placed(link_X, w, sites.link[i], sites.pose[i])


@func
def site_point(sites: Sites, link_X: wp.array2d(dtype=transform), w: int, i: int) -> vec3:
    """World position of site i."""
    return wp.transform_get_translation(site_pose(sites, link_X, w, i))


@func
def seen_from(X: transform, p: vec3) -> vec3:
    """A point of the world in the axes of X."""
    return wp.quat_rotate_inv(wp.transform_get_rotation(X), p - wp.transform_get_translation(X))


@kernel
def choose_wraps(
    sites: Sites,
    segments: Segments,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    # out
    choice: wp.array2d(dtype=int),
    angle: wp.array2d(dtype=real),
    residual: wp.array2d(dtype=real),
):
    """Choose how every segment wraps its geom. Launch over (worlds, segments)."""
    w, s = wp.tid()
    g = segments.geom[s]
    if g >= 0:
        X = placed_geom(plant, link_X, w, segments.geom[s], segments.geom_link[s])
        p_0 = seen_from(X, site_point(sites, link_X, w, segments.site[s, 0]))
        p_1 = seen_from(X, site_point(sites, link_X, w, segments.site[s, 1]))
        side = vec3()
        sided = int(0)
        if segments.side[s] >= 0:
            side = seen_from(X, site_point(sites, link_X, w, segments.side[s]))
            sided = int(1)
        r = plant.geom_size[w % plant.geom_size.shape[0], g][0]
        found = choose_wrap(segments.cylinder[s], r, p_0, p_1, sided, side)
        choice[w, s] = found.choice
        angle[w, s] = found.angle
        residual[w, s] = found.residual


@kernel(twin=True)
def measure_segments(
    sites: Sites,
    segments: Segments,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    choice: wp.array2d(dtype=int),
    angle: wp.array2d(dtype=real),
    residual: wp.array2d(dtype=real),
    # out
    segment_length: wp.array2d(dtype=real),
    point: wp.array2d(dtype=vec3),
    force: wp.array2d(dtype=vec3),
    couple: wp.array2d(dtype=vec3),
):
    """L_s/d_s of every segment, and the wrenches of its unit tension on the links of the first site, the geom and the
    second site.

    The wrenches, a force at a point and a couple, are the gradients of the length. Launch over (worlds, segments).
    """
    w, s = wp.tid()
    x_0 = site_point(sites, link_X, w, segments.site[s, 0])
    x_1 = site_point(sites, link_X, w, segments.site[s, 1])
    share = segments.share[s]
    first = 3 * s
    point[w, first] = x_0
    point[w, first + 2] = x_1
    if choice[w, s] == wrapping.NONE:
        u = unit(x_1 - x_0)
        segment_length[w, s] = share * wp.length(x_1 - x_0)
        point[w, first + 1] = x_0
        force[w, first] = -share * u
        force[w, first + 1] = vec3()
        force[w, first + 2] = share * u
        couple[w, first + 1] = vec3()
    else:
        X = placed_geom(plant, link_X, w, segments.geom[s], segments.geom_link[s])
        r = plant.geom_size[w % plant.geom_size.shape[0], segments.geom[s]][0]
        wrap = Wrap()
        wrap.choice = choice[w, s]
        wrap.angle = angle[w, s]
        wrap.residual = residual[w, s]
        t_0, t_1, arc = touch(segments.cylinder[s], r, seen_from(X, x_0), seen_from(X, x_1), wrap)
        y_0 = wp.transform_point(X, t_0)
        y_1 = wp.transform_point(X, t_1)
        u_0 = unit(y_0 - x_0)
        u_1 = unit(x_1 - y_1)
        segment_length[w, s] = share * (wp.length(y_0 - x_0) + arc + wp.length(x_1 - y_1))
        point[w, first + 1] = y_0
        force[w, first] = -share * u_0
        force[w, first + 1] = share * (u_0 - u_1)
        force[w, first + 2] = share * u_1
        couple[w, first + 1] = -share * wp.cross(y_1 - y_0, u_1)


@kernel(twin=True)
def tendon_lengths(
    segments: Segments,
    segment_length: wp.array2d(dtype=real),
    # out
    length: wp.array2d(dtype=real),
):
    """L = Σ L_s/d_s of every spatial tendon. Launch over (worlds, spatial tendons)."""
    w, t = wp.tid()
    length[w, t] = total_length(segments, segment_length, w, t)


@func
def total_length(segments: Segments, segment_length: wp.array2d(dtype=real), w: int, t: int) -> real:
    total = real(0.0)
    for s in range(segments.begin[t], segments.begin[t + 1]):
        total += segment_length[w, s]
    return total
