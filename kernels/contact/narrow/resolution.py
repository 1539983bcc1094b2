"""Whether a step is short enough for a pair of geoms: UNRESOLVED where one could pass the other, or half of it, unseen.

    h |v_n| > ½ min(thickness_a, thickness_b)   and   φ < h |v_n|

v_n is the relative velocity along the normal at v0, where the two are nearest; thickness is a geom's least half-extent.
The sign of v_n does not count: v0 is also the way that the last step went, so that a body that a force shot through a wall
within one step is found at the next. Planes never count: φ is signed at every depth, so that none can be passed.
"""

import warp as wp

from ...real import func, real, vec3
from .manifold import CAPSULE, CYLINDER, PLANE, SPHERE

RESOLVED_SHARE = 0.5  # of the thinner geom's half-extent, the most that a step may move


@func
def thickness(type: wp.int32, size: vec3) -> real:
    """Least half-extent [m] of a geom, not of a plane."""
    if type == SPHERE or type == CAPSULE:
        return size[0]
    if type == CYLINDER:
        return wp.min(size[0], size[1])
    return wp.min(size)


@func
def longest_way(type_a: wp.int32, size_a: vec3, type_b: wp.int32, size_b: vec3) -> real:
    """The way along the normal [m] up to which a step resolves two geoms; infinite with a plane."""
    if type_a == PLANE or type_b == PLANE:
        return real(wp.inf)
    return real(RESOLVED_SHARE) * wp.min(thickness(type_a, size_a), thickness(type_b, size_b))
