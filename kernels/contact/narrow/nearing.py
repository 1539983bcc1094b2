# SPDX-License-Identifier: Apache-2.0
"""Bound on how much nearer two geoms come within a step, at constant velocities.

The narrow phase skips pairs that cannot touch by this bound.
"""

import warp as wp

from ...real import func, quat, real, struct, vec3


@struct
class Nearing:
    """Motion of geom B relative to geom A within a step, at v0 and at v*."""

    way: vec3  # [m] displacement of B's middle at v0
    turn: vec3  # [rad] rotation of B at v0
    way_star: vec3  # [m] at v*
    turn_star: vec3  # [rad] at v*
    radius: real  # [m] points of B, and contacts with it, lie within this distance of B's middle
    margin: real  # [m] distance below which the geoms touch without motion
    reach: real  # [m] distance below which they may touch within the step, in any direction
    first: vec3  # direction from A to B along which they may be apart; 0: unknown


@func
def within(reach: real) -> Nearing:
    """Motion of geoms that may touch if they are nearer than `reach`, whatever their velocities."""
    motion = Nearing()
    motion.margin = reach
    motion.reach = reach
    return motion


@func
def fastest(motion: Nearing) -> real:
    """Largest displacement [m] of any point of B."""
    now = wp.length(motion.way) + motion.radius * wp.length(motion.turn)
    return wp.max(now, wp.length(motion.way_star) + motion.radius * wp.length(motion.turn_star))


@func
def seen_in(q: quat, motion: Nearing) -> Nearing:
    """The motion in axes with the orientation q."""
    motion.way = wp.quat_rotate_inv(q, motion.way)
    motion.turn = wp.quat_rotate_inv(q, motion.turn)
    motion.way_star = wp.quat_rotate_inv(q, motion.way_star)
    motion.turn_star = wp.quat_rotate_inv(q, motion.turn_star)
    motion.first = wp.quat_rotate_inv(q, motion.first)
    return motion


@func
def reach_along(motion: Nearing, n: vec3, off: real) -> real:
    """Distance [m] below which the geoms may touch if the direction between their nearest points is about n (A to B).

    `off` is the sine of the largest angle between this direction and n.
    """
    now = -wp.dot(n, motion.way) + motion.radius * wp.length(wp.cross(n, motion.turn))
    then = -wp.dot(n, motion.way_star) + motion.radius * wp.length(wp.cross(n, motion.turn_star))
    nearer = wp.max(wp.max(now, then), real(0.0)) + off * fastest(motion)
    return wp.min(motion.reach, motion.margin + nearer)
