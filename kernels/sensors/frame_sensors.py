# SPDX-License-Identifier: Apache-2.0
"""Sensors of frames on bodies: poses, velocities, the magnetic field, pixels of a camera, and points inside a site's
zone.

A frame without a reference is measured relative to the world, whose frame is fixed at the origin.
"""

import warp as wp

from ..contact.narrow.manifold import BOX, CAPSULE, CYLINDER, ELLIPSOID, SPHERE
from ..real import func, kernel, real, struct, transform, vec3, vec4, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology, reference_point
from ..tree.plant import Plant
from .kinds_of_sensors import (
    CAMPROJECTION,
    FRAMEANGVEL,
    FRAMELINVEL,
    FRAMEPOS,
    FRAMEQUAT,
    FRAMEXAXIS,
    FRAMEZAXIS,
    GYRO,
    INSIDESITE,
    MAGNETOMETER,
    VELOCIMETER,
)

LEAST_DEPTH = 1e-15  # [m] least depth in front of a camera


@struct
class Frames:
    """Pairs of frames, object and reference; shared by all worlds."""

    link: wp.array2d(dtype=int)  # (n, 2) -1: the world
    geom: wp.array2d(dtype=int)  # (n, 2) >= 0: use the pose of this geom, a parameter
    body: wp.array2d(dtype=int)  # (n, 2) >= 0: use this body's center of mass as origin, a parameter
    pose: wp.array2d(dtype=transform)  # (n, 2) in the link


@struct
class FrameSensors:
    """The sensors of frames; shared by all worlds."""

    frames: Frames
    kind: wp.array(dtype=int)
    adr: wp.array(dtype=int)
    constants: wp.array2d(dtype=real)  # magnetic field; or focal lengths and image center [pixels]
    zone: wp.array(dtype=int)  # GeomType of a site
    size: wp.array(dtype=vec3)


@func
def frame_of(
    frames: Frames,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    w: int,
    s: int,
    end: int,
) -> transform:
    """World pose of one of the two frames of sensor s."""
    X = frames.pose[s, end]
    g = frames.geom[s, end]
    b = frames.body[s, end]
    if g >= 0:
        X = joints.read_pose(plant.geom_pose, w % plant.geom_pose.shape[0], g)
    if b >= 0:
        X = transform(plant.body_com[w % plant.body_com.shape[0], b], wp.transform_get_rotation(frames.pose[s, end]))
    return joints.placed(link_X, w, frames.link[s, end], X)


@func
def motion_at(
    topology: Topology, link_X: wp.array2d(dtype=transform), link_V: wp.array2d(dtype=vec6), point: vec3, w: int, l: int
) -> vec6:
    """(angular, linear) velocity of a point of a link."""
    V = vec6()
    if l >= 0:
        o = reference_point(topology, link_X, w, l)
        V = sp.join(sp.angular(link_V[w, l]), sp.velocity_at(link_V[w, l], point - o))
    return V


@func
def back(X: transform, x: vec3) -> vec3:
    """A world vector in the axes of a frame."""
    return wp.quat_rotate_inv(wp.transform_get_rotation(X), x)


@func
def as_vec4(x: vec3) -> vec4:
    return vec4(x[0], x[1], x[2], real(0.0))


@func
def relative_pose(kind: int, X: transform, Y: transform) -> vec4:
    """Position, quaternion (scalar first) or an axis of X in Y."""
    value = vec4()
    if kind == FRAMEPOS:
        value = as_vec4(back(Y, wp.transform_get_translation(X) - wp.transform_get_translation(Y)))
    elif kind == FRAMEQUAT:
        r = wp.quat_inverse(wp.transform_get_rotation(Y)) * wp.transform_get_rotation(X)
        value = vec4(r[3], r[0], r[1], r[2])
    else:
        e = vec3(real(1.0), real(0.0), real(0.0))
        if kind == FRAMEXAXIS + 1:
            e = vec3(real(0.0), real(1.0), real(0.0))
        elif kind == FRAMEZAXIS:
            e = vec3(real(0.0), real(0.0), real(1.0))
        value = as_vec4(back(Y, wp.transform_vector(X, e)))
    return value


@func
def relative_velocity(kind: int, X: transform, Y: transform, V: vec6, U: vec6) -> vec4:
    """Velocity of X relative to Y, in the axes of Y. Y moves with U."""
    value = vec4()
    if kind == FRAMEANGVEL:
        value = as_vec4(back(Y, sp.angular(V) - sp.angular(U)))
    else:
        arm = wp.transform_get_translation(X) - wp.transform_get_translation(Y)
        value = as_vec4(back(Y, sp.linear(V) - sp.linear(U) - wp.cross(sp.angular(U), arm)))
    return value


@func
def pixel(X: transform, camera: transform, fx: real, fy: real, cx: real, cy: real) -> vec4:
    """Image position of a point [pixels] from the top left corner. The camera looks along −z, with y up."""
    p = back(camera, wp.transform_get_translation(X) - wp.transform_get_translation(camera))
    depth = p[2]
    if depth >= real(0.0) and depth < real(LEAST_DEPTH):
        depth = real(LEAST_DEPTH)
    elif depth < real(0.0) and depth > real(-LEAST_DEPTH):
        depth = real(-LEAST_DEPTH)
    return vec4((cx * p[2] - fx * p[0]) / depth, (cy * p[2] + fy * p[1]) / depth, real(0.0), real(0.0))


@func
def is_inside(kind: int, size: vec3, p: vec3) -> bool:
    """Whether a point, in the zone's axes, is inside the zone."""
    inside = False
    if kind == SPHERE:
        inside = wp.length_sq(p) <= size[0] * size[0]
    elif kind == CAPSULE:
        past = wp.max(wp.abs(p[2]) - size[1], real(0.0))
        inside = p[0] * p[0] + p[1] * p[1] + past * past <= size[0] * size[0]
    elif kind == CYLINDER:
        inside = p[0] * p[0] + p[1] * p[1] <= size[0] * size[0] and wp.abs(p[2]) <= size[1]
    elif kind == ELLIPSOID:
        inside = wp.length_sq(wp.cw_div(p, size)) <= real(1.0)
    elif kind == BOX:
        inside = wp.abs(p[0]) <= size[0] and wp.abs(p[1]) <= size[1] and wp.abs(p[2]) <= size[2]
    return inside


@func
def numbers_of(kind: int) -> int:
    """How many numbers a sensor of frames returns."""
    n = int(3)
    if kind == FRAMEQUAT:
        n = 4
    elif kind == CAMPROJECTION:
        n = 2
    elif kind == INSIDESITE:
        n = 1
    return n


@kernel(twin=True)
def measure_frames(
    topology: Topology,
    sensors: FrameSensors,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    # out
    data: wp.array2d(dtype=real),
):
    """Measure every sensor of frames. Launch over (worlds, sensors)."""
    w, s = wp.tid()
    kind = sensors.kind[s]
    X = frame_of(sensors.frames, plant, link_X, w, s, 0)
    Y = frame_of(sensors.frames, plant, link_X, w, s, 1)
    value = vec4()
    if kind >= FRAMEPOS and kind <= FRAMEZAXIS:
        value = relative_pose(kind, X, Y)
    elif kind == MAGNETOMETER:
        value = as_vec4(back(X, vec3(sensors.constants[s, 0], sensors.constants[s, 1], sensors.constants[s, 2])))
    elif kind == CAMPROJECTION:
        c = vec4(sensors.constants[s, 0], sensors.constants[s, 1], sensors.constants[s, 2], sensors.constants[s, 3])
        value = pixel(X, Y, c[0], c[1], c[2], c[3])
    elif kind == INSIDESITE:
        p = back(Y, wp.transform_get_translation(X) - wp.transform_get_translation(Y))
        if is_inside(sensors.zone[s], sensors.size[s], p):
            value = vec4(real(1.0), real(0.0), real(0.0), real(0.0))
    else:
        V = motion_at(topology, link_X, link_V, wp.transform_get_translation(X), w, sensors.frames.link[s, 0])
        if kind == VELOCIMETER:
            value = as_vec4(back(X, sp.linear(V)))
        elif kind == GYRO:
            value = as_vec4(back(X, sp.angular(V)))
        elif kind == FRAMELINVEL or kind == FRAMEANGVEL:
            U = motion_at(topology, link_X, link_V, wp.transform_get_translation(Y), w, sensors.frames.link[s, 1])
            value = relative_velocity(kind, X, Y, V, U)
    for i in range(numbers_of(kind)):
        data[w, sensors.adr[s] + i] = value[i]
