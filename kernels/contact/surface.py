# SPDX-License-Identifier: Apache-2.0
"""Surface velocities of geoms: a belt, a treadmill, a turntable (theory §3.9).

A geom's surface moves along σ(x) = v + ω × (x − p) while the geom does not, with v, ω in the geom's axes and its origin
p. A contact law reads J v + s in the place of J v: s are the tangential components of σ_B − σ_A at the contact point.
Spin rows get its angular velocity about the normal.
"""

import warp as wp

from ..real import func, kernel, mat33, real, transform, vec3
from ..tree.plant import Plant
from .contacts import geom_pose_world
from .pair_laws import Contacts, Material, Scene
from .spin_rows import Spin, spin_lengths


@func
def surface_turn(surfacevel: wp.array3d(dtype=real), X: transform, w: int, g: int) -> vec3:
    """ω of the surface of geom g, in world axes."""
    row = w % surfacevel.shape[0]
    turn = vec3(surfacevel[row, g, 3], surfacevel[row, g, 4], surfacevel[row, g, 5])
    return wp.quat_rotate(wp.transform_get_rotation(X), turn)


@func
def surface_velocity(surfacevel: wp.array3d(dtype=real), X: transform, w: int, g: int, point: vec3) -> vec3:
    """σ of the surface of geom g at `point`, in world axes."""
    row = w % surfacevel.shape[0]
    own = vec3(surfacevel[row, g, 0], surfacevel[row, g, 1], surfacevel[row, g, 2])
    turn = surface_turn(surfacevel, X, w, g)
    moved = wp.quat_rotate(wp.transform_get_rotation(X), own)
    return moved + wp.cross(turn, point - wp.transform_get_translation(X))


@func
def is_chosen(chosen: wp.array2d(dtype=int), choice: int, w: int, c: int) -> bool:
    """Whether `chosen` of contact c is `choice`; without columns all contacts are chosen."""
    found = bool(True)
    if chosen.shape[1] > 0:
        found = chosen[w, c] == choice
    return found


@kernel(twin=True)
def surface_rates(
    scene: Scene,
    contacts: Contacts,
    plant: Plant,
    surfacevel: wp.array3d(dtype=real),
    link_X: wp.array2d(dtype=transform),
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
    chosen: wp.array2d(dtype=int),
    choice: int,
    # out
    rate: wp.array2d(dtype=vec3),
):
    """s of the contacts with `chosen` = `choice`. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w] and is_chosen(chosen, choice, w, c):
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        X_a = geom_pose_world(scene, plant, link_X, w, a)
        X_b = geom_pose_world(scene, plant, link_X, w, b)
        u = surface_velocity(surfacevel, X_b, w, b, point[w, c]) - surface_velocity(surfacevel, X_a, w, a, point[w, c])
        s = wp.transpose(frame[w, c]) * u
        rate[w, c] = vec3(s[0], s[1], real(0.0))


@kernel(twin=True, part="spin")
def spin_surface_rates(
    scene: Scene,
    spin: Spin,
    material: Material,
    contacts: Contacts,
    plant: Plant,
    surfacevel: wp.array3d(dtype=real),
    link_X: wp.array2d(dtype=transform),
    frame: wp.array2d(dtype=mat33),
    chosen: wp.array2d(dtype=int),
    choice: int,
    # out
    rate: wp.array2d(dtype=vec3),
):
    """s of the spin rows of the contacts with `chosen` = `choice`. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w] and is_chosen(chosen, choice, w, c):
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        X_a = geom_pose_world(scene, plant, link_X, w, a)
        X_b = geom_pose_world(scene, plant, link_X, w, b)
        turn = surface_turn(surfacevel, X_b, w, b) - surface_turn(surfacevel, X_a, w, a)
        scale = spin_lengths(scene, spin, material, w, p)
        s = wp.transpose(frame[w, c]) * turn
        rate[w, contacts.pair.shape[1] + c] = vec3(real(0.0), real(0.0), scale[1] * s[2])


@kernel
def drive(contacts: Contacts, rate: wp.array2d(dtype=vec3), v_hat: wp.array2d(dtype=vec3)):
    """v̂ −= s, for laws in which J v alone has a target. Launch over (worlds, slots): contacts, then their spin rows."""
    w, c = wp.tid()
    if c % contacts.pair.shape[1] < contacts.count[w]:
        v_hat[w, c] = v_hat[w, c] - rate[w, c]


@kernel(taped=True)
def add_rates(
    contacts: Contacts,
    rate: wp.array2d(dtype=vec3),
    # out
    v_c: wp.array2d(dtype=vec3),
):
    """v_c += s. Launch over (worlds, slots): contacts, then their spin rows."""
    w, c = wp.tid()
    if c % contacts.pair.shape[1] < contacts.count[w]:
        v_c[w, c] += rate[w, c]
