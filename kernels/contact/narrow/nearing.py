# SPDX-License-Identifier: Apache-2.0
"""How much nearer two geoms come within a step, as if their points went on as they move now: what the narrow phase need not look at."""

import warp as wp

from ...real import func, quat, real, struct, vec3


@struct
class Nearing:
    """The motion of geom B as geom A sees it, once of v0 and once of v*: the way of B's middle within a step, and the angle by which B
    turns. `radius` [m]: how far from its middle points of B, and contacts with it, may be; `reach` [m]: how near any point of A and one
    of B must be to touch within the step, `margin` of it without any motion; `first`: a direction from A to B along which they may be apart.
    """

    way: vec3
    turn: vec3
    way_star: vec3
    turn_star: vec3
    radius: real
    margin: real
    reach: real
    first: vec3


@func
def within(reach: real) -> Nearing:
    """Of geoms that may touch wherever they are so near, however they move."""
    motion = Nearing()
    motion.margin = reach
    motion.reach = reach
    return motion


@func
def fastest(motion: Nearing) -> real:
    """How far any point of B may go."""
    now = wp.length(motion.way) + motion.radius * wp.length(motion.turn)
    return wp.max(now, wp.length(motion.way_star) + motion.radius * wp.length(motion.turn_star))


@func
def seen_in(q: quat, motion: Nearing) -> Nearing:
    """The same in axes that stand at q."""
    motion.way = wp.quat_rotate_inv(q, motion.way)
    motion.turn = wp.quat_rotate_inv(q, motion.turn)
    motion.way_star = wp.quat_rotate_inv(q, motion.way_star)
    motion.turn_star = wp.quat_rotate_inv(q, motion.turn_star)
    motion.first = wp.quat_rotate_inv(q, motion.first)
    return motion


@func
def reach_along(motion: Nearing, n: vec3, off: real) -> real:
    """The distance under which geoms may touch whose nearest points lie along n, from A to B, or along a direction `off` from it (the
    sine of the angle)."""
    now = -wp.dot(n, motion.way) + motion.radius * wp.length(wp.cross(n, motion.turn))
    then = -wp.dot(n, motion.way_star) + motion.radius * wp.length(wp.cross(n, motion.turn_star))
    nearer = wp.max(wp.max(now, then), real(0.0)) + off * fastest(motion)
    return wp.min(motion.reach, motion.margin + nearer)
