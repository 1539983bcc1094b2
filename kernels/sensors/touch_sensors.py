# SPDX-License-Identifier: Apache-2.0
"""Sensors of contact in a step: normal forces in the zone of a site, and contact points between chosen geoms, bodies or
subtrees.

A contact point counts if it pushes or overlaps. Two kernels without gradients first find which contact points count,
and which of them a sensor returns.
"""

import warp as wp

from ..contact.mujoco_contacts import mujoco_frame, tangent_axis
from ..contact.pair_laws import Contacts, Scene, margin_of, parameter_margin
from ..contact.ray import ray_primitive
from ..real import func, kernel, mat33, real, struct, transform, vec3, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology
from ..tree.plant import Plant
from .frame_sensors import Frames, is_inside, motion_at
from .reading import put

# What a side of a contact sensor requires of a contact point's geom.
ANYTHING = wp.constant(0)
IS_GEOM = wp.constant(1)
ON_BODY = wp.constant(2)
ON_LINKS = wp.constant(3)  # of a subtree
IN_ZONE = wp.constant(4)  # of a site
# How matches are reduced.
NEAREST = wp.constant(1)
STRONGEST = wp.constant(2)
NET = wp.constant(3)
# Bits of the numbers that a contact sensor returns, in this order, after the number of contact points found.
CONTACT_FORCE = wp.constant(1)
CONTACT_TORQUE = wp.constant(2)
CONTACT_DISTANCE = wp.constant(3)
CONTACT_POINT = wp.constant(4)
CONTACT_NORMAL = wp.constant(5)
CONTACT_TANGENT = wp.constant(6)
LINEAR_VELOCITY = wp.constant(7)
ANGULAR_VELOCITY = wp.constant(8)


@struct
class Zones:
    """Sites with their zones; shared by all worlds."""

    frames: Frames
    body: wp.array(dtype=int)
    adr: wp.array(dtype=int)
    type: wp.array(dtype=int)
    size: wp.array(dtype=vec3)


@struct
class ContactSensors:
    """The contact sensors; shared by all worlds."""

    zones: Zones  # used by sensors whose object is a site
    mode: wp.array2d(dtype=int)  # (n, 2) requirement of each side
    first: wp.array2d(dtype=int)  # (n, 2) geom, body, or first link
    last: wp.array2d(dtype=int)  # (n, 2) one past the last link
    reduction: wp.array(dtype=int)
    data: wp.array(dtype=int)  # bits
    width: wp.array(dtype=int)  # numbers per slot
    slot_begin: wp.array(dtype=int)  # (n + 1,) first slot of each sensor
    slot_sensor: wp.array(dtype=int)
    geom_body: wp.array(dtype=int)


@struct
class Matches:
    """Contact points that match the sensors in a step."""

    side: wp.array3d(
        dtype=int
    )  # (worlds, sensors, contacts) 1: the contact's B is the sensor's second, -1: its A; 0: no match
    found: wp.array2d(dtype=int)  # (worlds, sensors)
    chosen: wp.array2d(dtype=int)  # (worlds, slots) a contact point; -1: none


@struct
class ContactState:
    """Contact points of a step, as recorded on a tape."""

    phi: wp.array2d(dtype=real)
    point: wp.array2d(dtype=vec3)
    frame: wp.array2d(dtype=mat33)
    gamma: wp.array2d(dtype=vec3)
    moment: wp.array2d(dtype=vec3)  # of spin rows; no columns if there are none


@func
def moment_of(state: ContactState, h: real, w: int, c: int) -> vec3:
    """The moment of a contact point on its B in world axes [N m]."""
    found = vec3(real(0.0), real(0.0), real(0.0))
    if state.moment.shape[1] > 0:
        found = state.frame[w, c] * state.moment[w, c] / h
    return found


@func
def zone_frame(zones: Zones, link_X: wp.array2d(dtype=transform), w: int, s: int) -> transform:
    return joints.placed(link_X, w, zones.frames.link[s, 0], zones.frames.pose[s, 0])


@kernel(taped=True)
def moved_contacts(
    contacts: Contacts,
    moved: wp.array2d(dtype=int),
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
    point_between: wp.array2d(dtype=vec3),
    frame_between: wp.array2d(dtype=mat33),
    # out
    point_used: wp.array2d(dtype=vec3),
    frame_used: wp.array2d(dtype=mat33),
):
    """Points and frames of the contact points as the step used them: within the step for those that it followed. Launch
    over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        if moved[w, c] != 0:
            point_used[w, c] = point_between[w, c]
            frame_used[w, c] = frame_between[w, c]
        else:
            point_used[w, c] = point[w, c]
            frame_used[w, c] = frame[w, c]


@kernel
def find_touches(
    zones: Zones,
    scene: Scene,
    contacts: Contacts,
    geom_body: wp.array(dtype=int),
    link_X: wp.array2d(dtype=transform),
    gamma: wp.array2d(dtype=vec3),
    # out
    touches: wp.array3d(dtype=int),
):
    """1 for contact points of a site's body that push, if the ray along the normal into the other body hits the zone.

    Launch over (worlds, sensors).
    """
    w, s = wp.tid()
    X = wp.transform_inverse(zone_frame(zones, link_X, w, s))
    for c in range(contacts.count[w]):
        touches[w, s, c] = 0
        p = contacts.pair[w, c]
        a = geom_body[scene.pair_geom[p, 0]]
        b = geom_body[scene.pair_geom[p, 1]]
        if gamma[w, c][2] > real(0.0) and (a == zones.body[s] or b == zones.body[s]):
            n = contacts.frame[w, c] * vec3(real(0.0), real(0.0), real(1.0))
            if b == zones.body[s]:
                n = -n
            o = wp.transform_point(X, contacts.point[w, c])
            # A ray from inside the zone may miss it where it passes an edge.
            inside = is_inside(zones.type[s], zones.size[s], o)
            if inside or ray_primitive(o, wp.transform_vector(X, n), zones.type[s], zones.size[s]).t >= real(0.0):
                touches[w, s, c] = 1


@kernel(twin=True)
def measure_touch(
    zones: Zones,
    contacts: Contacts,
    touches: wp.array3d(dtype=int),
    gamma: wp.array2d(dtype=vec3),
    h: real,
    # out
    data: wp.array2d(dtype=real),
):
    """Add up normal forces; `data` must be zero before. Launch over (worlds, sensors)."""
    w, s = wp.tid()
    for c in range(contacts.count[w]):
        if touches[w, s, c] != 0:
            data[w, zones.adr[s]] += gamma[w, c][2] / h


@func
def fits(sensors: ContactSensors, scene: Scene, s: int, end: int, g: int) -> bool:
    """Whether geom g meets the requirement of one side of sensor s."""
    mode = sensors.mode[s, end]
    yes = mode == ANYTHING or mode == IN_ZONE
    if mode == IS_GEOM:
        yes = g == sensors.first[s, end]
    elif mode == ON_BODY:
        yes = sensors.geom_body[g] == sensors.first[s, end]
    elif mode == ON_LINKS:
        yes = scene.geom_link[g] >= sensors.first[s, end] and scene.geom_link[g] < sensors.last[s, end]
    return yes


@kernel
def find_contacts(
    sensors: ContactSensors,
    scene: Scene,
    contacts: Contacts,
    link_X: wp.array2d(dtype=transform),
    gamma: wp.array2d(dtype=vec3),
    # out
    matches: Matches,
):
    """The contact points that match each sensor, and those that fill its slots: the first, nearest or strongest. Launch
    over (worlds, sensors)."""
    w, s = wp.tid()
    n = int(0)
    X = wp.transform_inverse(zone_frame(sensors.zones, link_X, w, s))
    for c in range(contacts.count[w]):
        side = int(0)
        pushes = gamma[w, c][2] > real(0.0)
        if contacts.touch.shape[1] > 0:  # an impulse over several solves may be negative
            pushes = gamma[w, c][2] != real(0.0)
        if contacts.phi[w, c] < real(0.0) or pushes:
            p = contacts.pair[w, c]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if fits(sensors, scene, s, 0, a) and fits(sensors, scene, s, 1, b):
                side = 1
            elif fits(sensors, scene, s, 0, b) and fits(sensors, scene, s, 1, a):
                side = -1
            if side != 0 and sensors.mode[s, 0] == IN_ZONE:
                point = wp.transform_point(X, contacts.point[w, c])
                if not is_inside(sensors.zones.type[s], sensors.zones.size[s], point):
                    side = 0
        matches.side[w, s, c] = side
        if side != 0:
            n += 1
    matches.found[w, s] = n
    last = real(-wp.inf)  # value and contact point of the previous slot
    last_c = int(-1)
    for k in range(sensors.slot_begin[s], sensors.slot_begin[s + 1]):
        best = real(wp.inf)
        best_c = int(-1)
        for c in range(contacts.count[w]):
            if matches.side[w, s, c] != 0:
                value = real(0.0)
                if sensors.reduction[s] == NEAREST:
                    value = contacts.phi[w, c] + margin_of(scene, w, contacts.pair[w, c])
                elif sensors.reduction[s] == STRONGEST:
                    value = -wp.length(gamma[w, c])
                if value < best and (value > last or (value == last and c > last_c)):
                    best = value
                    best_c = c
        matches.chosen[w, k] = best_c
        last = best
        last_c = best_c


@func
def in_contact_axes(frame: mat33, x: vec3, side: real) -> vec3:
    """(normal, tangent, second tangent) of a vector on the sensor's second side, in axes that turn with `side`."""
    y = wp.transpose(frame) * x
    return vec3(y[2], y[0], side * y[1])


@kernel(twin=True)
def measure_contacts(
    topology: Topology,
    sensors: ContactSensors,
    scene: Scene,
    contacts: Contacts,
    matches: Matches,
    state: ContactState,
    h: real,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    # out
    data: wp.array2d(dtype=real),
):
    """Slots of sensors that return single contact points, from the sensor's first side to its second, in contact axes.
    Launch over (worlds, slots)."""
    w, k = wp.tid()
    s = sensors.slot_sensor[k]
    c = matches.chosen[w, k]
    if sensors.reduction[s] != NET and c >= 0:
        bits = sensors.data[s]
        adr = sensors.zones.adr[s] + (k - sensors.slot_begin[s]) * sensors.width[s]
        side = real(matches.side[w, s, c])
        p = contacts.pair[w, c]
        world_force = state.frame[w, c] * state.gamma[w, c] / h
        frame = mujoco_frame(state.frame[w, c], tangent_axis(scene, plant, link_X, w, p))
        point = state.point[w, c]
        U = motion_at(topology, link_X, link_V, point, w, scene.geom_link[scene.pair_geom[p, 1]])
        U = U - motion_at(topology, link_X, link_V, point, w, scene.geom_link[scene.pair_geom[p, 0]])
        if (bits & 1) != 0:
            data[w, adr] = real(matches.found[w, s])
            adr = adr + 1
        adr = put(in_contact_axes(frame, world_force, side), bits, CONTACT_FORCE, adr, w, data)
        adr = put(in_contact_axes(frame, moment_of(state, h, w, c), side), bits, CONTACT_TORQUE, adr, w, data)
        if ((bits >> CONTACT_DISTANCE) & 1) != 0:
            data[w, adr] = state.phi[w, c] + parameter_margin(scene, w, p)
            adr = adr + 1
        adr = put(point, bits, CONTACT_POINT, adr, w, data)
        adr = put(side * (frame * vec3(real(0.0), real(0.0), real(1.0))), bits, CONTACT_NORMAL, adr, w, data)
        adr = put(side * (frame * vec3(real(1.0), real(0.0), real(0.0))), bits, CONTACT_TANGENT, adr, w, data)
        adr = put(in_contact_axes(frame, sp.linear(U), side), bits, LINEAR_VELOCITY, adr, w, data)
        adr = put(in_contact_axes(frame, sp.angular(U), side), bits, ANGULAR_VELOCITY, adr, w, data)


@struct
class NetSums:
    """Sums over the contact points of each sensor. They must be zero before."""

    force: wp.array2d(dtype=vec3)  # (worlds, sensors)
    torque: wp.array2d(dtype=vec3)  # about the world's origin
    weight: wp.array2d(dtype=real)  # Σ |F|
    moment: wp.array2d(dtype=vec3)  # Σ |F| p


@kernel(twin=True)
def measure_net_contact(
    sensors: ContactSensors,
    contacts: Contacts,
    matches: Matches,
    state: ContactState,
    h: real,
    # scratch
    sums: NetSums,
    # out
    data: wp.array2d(dtype=real),
):
    """The net force of the sensor's first side on its second, at the center of the forces, in world axes. Launch over
    (worlds, sensors)."""
    w, s = wp.tid()
    if sensors.reduction[s] == NET:
        for c in range(contacts.count[w]):
            if matches.side[w, s, c] != 0:
                f = state.frame[w, c] * state.gamma[w, c] * (real(matches.side[w, s, c]) / h)
                size = real(0.0)
                if wp.length_sq(f) > real(0.0):
                    size = wp.length(f)
                sums.force[w, s] += f
                sums.torque[w, s] += wp.cross(state.point[w, c], f)
                sums.torque[w, s] += real(matches.side[w, s, c]) * moment_of(state, h, w, c)
                sums.weight[w, s] += size
                sums.moment[w, s] += size * state.point[w, c]
        if matches.found[w, s] > 0:
            bits = sensors.data[s]
            adr = sensors.zones.adr[s]
            centre = vec3(real(0.0), real(0.0), real(0.0))
            if sums.weight[w, s] > real(0.0):
                centre = sums.moment[w, s] / sums.weight[w, s]
            if (bits & 1) != 0:
                data[w, adr] = real(matches.found[w, s])
                adr = adr + 1
            adr = put(sums.force[w, s], bits, CONTACT_FORCE, adr, w, data)
            adr = put(sums.torque[w, s] - wp.cross(centre, sums.force[w, s]), bits, CONTACT_TORQUE, adr, w, data)
            if ((bits >> CONTACT_DISTANCE) & 1) != 0:
                adr = adr + 1
            adr = put(centre, bits, CONTACT_POINT, adr, w, data)
            adr = put(vec3(real(1.0), real(0.0), real(0.0)), bits, CONTACT_NORMAL, adr, w, data)
            adr = put(vec3(real(0.0), real(1.0), real(0.0)), bits, CONTACT_TANGENT, adr, w, data)
