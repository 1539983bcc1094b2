# SPDX-License-Identifier: Apache-2.0
"""Whether a step resolves a pair of geoms: UNRESOLVED where one has passed the other or may have, or is half inside it.

v_n is the relative velocity along the normal at v0, φ the distance where the two are nearest, t a geom's least half-extent. Where φ < h |v_n|,

    −h v_n > 2 (t_a + t_b)      UNRESOLVED: one passes the whole other within the step, which sees normals and features of its start alone
    −h v_n > ½ min(t_a, t_b)    SUSPECT: UNRESOLVED where φ₁ = φ + h u_n < −min(t_a, t_b), u the velocity that the solver lets them move with
     h v_n > t_a + t_b + φ      UNRESOLVED: geoms that part and whose middles met within the step before
     h v_n > ½ (t_a + t_b)      UNRESOLVED: geoms that part and still are inside each other, φ < −min(t_a, t_b)/10

v0 is also the way that the last step went, so that a body that a force shot through a wall within one step is found at the next by how it
parts. Planes never count: φ is signed at every depth, so that none can be passed.
"""

import warp as wp

from ...flags import UNRESOLVED
from ...real import func, real, vec2, vec3
from .manifold import CAPSULE, CYLINDER, PLANE, SPHERE

SUSPECT = wp.constant(
    1 << 16
)  # a bit of a world's contacts between `detect` and `look_after` alone, never one of its flags
SHARE = 0.5  # of the thinner geom's half-extent the most that a step moves unlooked at, and of both together where geoms part
WHOLE = 4.0  # times half of both half-extents: both geoms, from front to back
INSIDE = 2.0  # times half of the thinner geom's half-extent: its middle is inside
STILL_INSIDE = 0.2  # times that: deeper than contact leaves what it holds


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
    """The ways along the normal [m] beyond which a step is looked at, of two geoms that approach each other and that part; infinite with a plane."""
    if type_a == PLANE or type_b == PLANE:
        return vec2(real(wp.inf), real(wp.inf))
    t_a = thickness(type_a, size_a)
    t_b = thickness(type_b, size_b)
    return real(SHARE) * vec2(wp.min(t_a, t_b), t_a + t_b)


@func
def looked_at(ways: vec2, phi: real, h: real, v_n: real) -> int:
    """UNRESOLVED, SUSPECT or 0 of two geoms as a step begins; `ways`: `longest_ways`."""
    way = h * wp.abs(v_n)
    most = ways[0]
    if v_n > real(0.0):
        most = ways[1]
        if phi > -real(STILL_INSIDE) * ways[0]:
            most = real(2.0) * ways[1] + phi
    found = int(0)
    if way > most and phi < way:
        found = int(UNRESOLVED)
        if v_n <= real(0.0) and way <= real(WHOLE) * ways[1]:
            found = int(SUSPECT)
    return found


@func
def is_inside(ways: vec2, phi: real) -> bool:
    """Whether a step leaves two geoms at the distance `phi` that are half inside each other."""
    return phi < -real(INSIDE) * ways[0]
