"""Whether a step is short enough for a pair of geoms: UNRESOLVED where one could pass the other, or half of it, unseen.

    h |v_n| > ½ min(thickness_a, thickness_b)   and   φ < h |v_n|

v_n is the relative velocity along the normal at v0, where the two are nearest; thickness is a geom's least half-extent.
The sign of v_n does not count: v0 is also the way that the last step went, so that a body that a force shot through a wall
within one step is found at the next. Planes never count: φ is signed at every depth, so that none can be passed.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.collide.manifold import CAPSULE, CYLINDER, PLANE, SPHERE
from warpsim.kernels.precision import types

RESOLVED_SHARE = 0.5  # of the thinner geom's half-extent, the most that a step may move


@cached
def build(S) -> SimpleNamespace:
    """The functions of this file for scalar type S."""
    vec3 = types(S).vec3

    @wp.func
    def thickness(type: wp.int32, size: vec3) -> S:
        """Least half-extent [m] of a geom, not of a plane."""
        if type == SPHERE or type == CAPSULE:
            return size[0]
        if type == CYLINDER:
            return wp.min(size[0], size[1])
        return wp.min(size)

    @wp.func
    def longest_way(type_a: wp.int32, size_a: vec3, type_b: wp.int32, size_b: vec3) -> S:
        """The way along the normal [m] up to which a step resolves two geoms; infinite with a plane."""
        if type_a == PLANE or type_b == PLANE:
            return S(wp.inf)
        return S(RESOLVED_SHARE) * wp.min(thickness(type_a, size_a), thickness(type_b, size_b))

    return SimpleNamespace(longest_way=longest_way)
