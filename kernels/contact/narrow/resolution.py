# SPDX-License-Identifier: Apache-2.0
"""Whether a step is short enough for a pair of geoms: UNRESOLVED where one could pass the other, or half of it, unseen.

    −h v_n > ½ min(thickness_a, thickness_b)  or  h v_n > ½ (thickness_a + thickness_b),   and   φ < h |v_n|

v_n is the relative velocity along the normal at v0, where the two are nearest; thickness is a geom's least half-extent.
Geoms that part count, too: v0 is also the way that the last step went, so that a body that a force shot through a wall within one step is
found at the next. It has come a longer way than one that is about to enter: both thicknesses at least, from where the two touched on the other
side to where their middles met. Planes never count: φ is signed at every depth, so that none can be passed.
"""

import warp as wp

from ...real import func, real, vec2, vec3
from .manifold import CAPSULE, CYLINDER, PLANE, SPHERE

RESOLVED_SHARE = (
    0.5  # of the thinner geom's half-extent the most that a step may move, of both together where geoms part
)


@func
def thickness(type: wp.int32, size: vec3) -> real:
    """Least half-extent [m] of a geom, not of a plane."""
    if type == SPHERE or type == CAPSULE:
        return size[0]
    if type == CYLINDER:
        return wp.min(size[0], size[1])
    return wp.min(size)


@func
def longest_ways(type_a: wp.int32, size_a: vec3, type_b: wp.int32, size_b: vec3) -> vec2:
    """The ways along the normal [m] up to which a step resolves two geoms that approach each other, and that part; infinite with a plane."""
    if type_a == PLANE or type_b == PLANE:
        return vec2(real(wp.inf), real(wp.inf))
    t_a = thickness(type_a, size_a)
    t_b = thickness(type_b, size_b)
    return real(RESOLVED_SHARE) * vec2(wp.min(t_a, t_b), t_a + t_b)


@func
def is_unresolved(ways: vec2, phi: real, h: real, v_n: real) -> bool:
    """See above; `ways`: `longest_ways`."""
    way = h * wp.abs(v_n)
    most = ways[0]
    if v_n > real(0.0):
        most = ways[1]
    return way > most and phi < way
