# SPDX-License-Identifier: Apache-2.0
"""Sensors of coordinates: positions, velocities and limits of joints, tendons and actuators; the clock."""

import warp as wp

from ..real import func, kernel, real, struct, vec2, vec3, vec4
from ..tree import joints
from .kinds_of_sensors import (
    ACTUATORPOS,
    ACTUATORVEL,
    BALLANGVEL,
    BALLQUAT,
    CLOCK,
    JOINTLIMITPOS,
    JOINTLIMITVEL,
    JOINTPOS,
    JOINTVEL,
    TENDONLIMITPOS,
    TENDONLIMITVEL,
    TENDONPOS,
    TENDONVEL,
)


@struct
class Coordinates:
    """x = Σ a_j q_j and its rate Σ a_j v_j; shared by all worlds.

    For a ball joint a_j are weights of the rotation vector. For a line, x is gear times its length.
    """

    support_size: wp.array(dtype=int)
    v: wp.array2d(dtype=int)  # (n, width) degrees of freedom
    q: wp.array2d(dtype=int)  # (n, width) their coordinates; -1: none
    a: wp.array2d(dtype=real)  # (n, width)
    turn: wp.array(dtype=int)  # index of a ball joint's quaternion in q; -1: none
    line: wp.array(dtype=int)  # a line (`forces/transmission.py`); -1: none
    gear: wp.array(dtype=real)
    line_length: wp.array2d(dtype=real)  # (worlds, lines)
    line_rate: wp.array2d(dtype=real)


@struct
class CoordinateSensors:
    """The sensors of coordinates; shared by all worlds."""

    coordinates: Coordinates
    kind: wp.array(dtype=int)
    adr: wp.array(dtype=int)
    element: wp.array(dtype=int)  # joint or tendon of a limit; -1: it has no limit
    margin: wp.array(dtype=real)  # of a limit


@func
def coordinate(c: Coordinates, q: wp.array2d(dtype=real), w: int, s: int) -> real:
    """x of row s."""
    x = real(0.0)
    l = c.line[s]
    if l >= 0:
        x = c.gear[s] * c.line_length[w, l]
    elif c.turn[s] >= 0:
        r = joints.quaternion_log(joints.read_quaternion(q, w, c.turn[s]))
        x = c.a[s, 0] * r[0] + c.a[s, 1] * r[1] + c.a[s, 2] * r[2]
    else:
        for j in range(c.support_size[s]):
            if c.q[s, j] >= 0:
                x += c.a[s, j] * q[w, c.q[s, j]]
    return x


@func
def rate(c: Coordinates, v: wp.array2d(dtype=real), w: int, s: int) -> real:
    """The rate of x of row s."""
    x = real(0.0)
    l = c.line[s]
    if l >= 0:
        x = c.gear[s] * c.line_rate[w, l]
    for j in range(c.support_size[s]):
        x += c.a[s, j] * v[w, c.v[s, j]]
    return x


@func
def angle_and_rate(c: Coordinates, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int, s: int) -> vec2:
    """Angle and rate of a ball joint; the rate is 0 at angle 0."""
    r = joints.quaternion_log(joints.read_quaternion(q, w, c.turn[s]))
    omega = vec3(v[w, c.v[s, 0]], v[w, c.v[s, 1]], v[w, c.v[s, 2]])
    found = vec2(real(0.0), real(0.0))
    if wp.length_sq(r) > real(0.0):
        angle = wp.length(r)
        found = vec2(angle, wp.dot(r, omega) / angle)
    return found


@func
def limit_of(
    sensors: CoordinateSensors,
    limits: wp.array3d(dtype=real),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    w: int,
    s: int,
) -> vec2:
    """(distance minus margin, its rate) of the active limit, the lower before the upper; 0 if none is active."""
    c = sensors.coordinates
    e = sensors.element[s]
    found = vec2(real(0.0), real(0.0))
    if e >= 0:
        row = w % limits.shape[0]
        margin = sensors.margin[s]
        if c.turn[s] >= 0:
            turned = angle_and_rate(c, q, v, w, s)
            distance = wp.max(limits[row, e, 0], limits[row, e, 1]) - turned[0]
            if distance < margin:
                found = vec2(distance - margin, -turned[1])
        else:
            x = coordinate(c, q, w, s)
            if x - limits[row, e, 0] < margin:
                found = vec2(x - limits[row, e, 0] - margin, rate(c, v, w, s))
            elif limits[row, e, 1] - x < margin:
                found = vec2(limits[row, e, 1] - x - margin, -rate(c, v, w, s))
    return found


@kernel(twin=True)
def measure_coordinates(
    sensors: CoordinateSensors,
    joint_range: wp.array3d(dtype=real),
    tendon_range: wp.array3d(dtype=real),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    time: wp.array(dtype=wp.float64),
    # out
    data: wp.array2d(dtype=real),
):
    """Measure every sensor of coordinates. Launch over (worlds, sensors)."""
    w, s = wp.tid()
    kind = sensors.kind[s]
    adr = sensors.adr[s]
    c = sensors.coordinates
    if kind == JOINTPOS or kind == TENDONPOS or kind == ACTUATORPOS:
        data[w, adr] = coordinate(c, q, w, s)
    elif kind == JOINTVEL or kind == TENDONVEL or kind == ACTUATORVEL:
        data[w, adr] = rate(c, v, w, s)
    elif kind == BALLQUAT:
        r = joints.read_quaternion(q, w, c.turn[s])
        value = vec4(r[3], r[0], r[1], r[2])
        for i in range(4):
            data[w, adr + i] = value[i]
    elif kind == BALLANGVEL:
        for i in range(3):
            data[w, adr + i] = v[w, c.v[s, i]]
    elif kind == JOINTLIMITPOS or kind == JOINTLIMITVEL:
        limit = limit_of(sensors, joint_range, q, v, w, s)
        data[w, adr] = wp.where(kind == JOINTLIMITPOS, limit[0], limit[1])
    elif kind == TENDONLIMITPOS or kind == TENDONLIMITVEL:
        stop = limit_of(sensors, tendon_range, q, v, w, s)
        data[w, adr] = wp.where(kind == TENDONLIMITPOS, stop[0], stop[1])
    elif kind == CLOCK:
        data[w, adr] = real(time[w])
