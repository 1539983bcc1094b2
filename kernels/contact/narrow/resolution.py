# SPDX-License-Identifier: Apache-2.0
"""Whether a step resolves a pair of geoms: UNRESOLVED if one passed the other, may have, or is half inside it.

v_n is the relative normal velocity at v0, φ the distance at the contact, and t the least half extent of a geom. If
φ < h |v_n|, the tests are

    −h v_n > 2 (t_a + t_b)      UNRESOLVED: one geom passes the whole other within the step, whose normals and features
                                are those at its beginning
    −h v_n > ½ min(t_a, t_b)    SUSPECT: UNRESOLVED if φ₁ = φ + h u_n < −min(t_a, t_b), where u is the velocity with
                                which the solver's step moves the geoms
     h v_n > t_a + t_b + φ      UNRESOLVED: geoms that part, and whose middles met within the step before
     h v_n > ½ (t_a + t_b)      UNRESOLVED: geoms that part and are still inside each other, φ < −min(t_a, t_b)/10

v0 is also the velocity of the last step's motion. So if a force drives a body through a wall within one step, the next
step sees the two part fast. Pairs with a plane never count: φ is signed at every depth, so no geom can pass a plane.
"""

import warp as wp

from ...flags import UNRESOLVED
from ...real import func, real, vec2, vec3
from .manifold import PLANE
from .shape import thickness

# A bit of `Contacts.flags` between `contacts.detect` and `look_after` only; it never becomes a flag of the world.
SUSPECT = wp.constant(1 << 16)
# Longest motion of a step without a test: this share of the smaller least half extent, or of the sum of both for geoms
# that part (`longest_ways`). The factors below are relative to these ways.
SHARE = 0.5
WHOLE = 4.0  # times the way for geoms that part: both geoms, from front to back
INSIDE = 2.0  # times the way for geoms that approach: the thinner geom's middle is inside
STILL_INSIDE = 0.2  # times the way for geoms that approach: deeper than contact leaves geoms that it holds


@func
def longest_ways(type_a: wp.int32, size_a: vec3, type_b: wp.int32, size_b: vec3) -> vec2:
    """Longest motions along the normal [m] without a test: of geoms that approach, and of geoms that part.

    Both are infinite for a pair with a plane.
    """
    if type_a == PLANE or type_b == PLANE:
        return vec2(real(wp.inf), real(wp.inf))
    t_a = thickness(type_a, size_a)
    t_b = thickness(type_b, size_b)
    return real(SHARE) * vec2(wp.min(t_a, t_b), t_a + t_b)


@func
def looked_at(ways: vec2, phi: real, h: real, v_n: real) -> int:
    """UNRESOLVED, SUSPECT or 0 for two geoms at the beginning of a step; `ways` is from `longest_ways`."""
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
    """Whether two geoms at the distance `phi` are half inside each other."""
    return phi < -real(INSIDE) * ways[0]
