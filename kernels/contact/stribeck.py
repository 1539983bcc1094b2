# SPDX-License-Identifier: Apache-2.0
"""Stribeck's law: friction falls with the sliding speed of a contact at the beginning of the step (theory §3.1)."""

import warp as wp

from ..laws.contact_law import PairFriction, sliding_friction_of
from ..real import func, kernel, real, struct, vec2, vec3
from .pair_laws import Contacts, Scene, pair_friction


@struct
class Friction:
    """Friction coefficients of geoms, shared or per world.

    A geom with a dynamic coefficient of NaN has none: its `friction` holds at any speed.
    """

    slides: int  # 1: some geom has a dynamic coefficient
    friction: wp.array2d(dtype=real)
    dynamic: wp.array2d(dtype=real)
    velocity: wp.array2d(dtype=real)  # [m/s]


@func
def sliding_pair(scene: Scene, of: Friction, w: int, p: int, rate: vec3) -> PairFriction:
    """The numbers from which μ of a contact of pair p with the relative velocity `rate` is computed."""
    pair = pair_friction(scene, of.friction, w, p)
    if of.slides == 1:
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        d = w % of.dynamic.shape[0]
        v = w % of.velocity.shape[0]
        pair.slides = 1
        pair.dynamic = vec2(of.dynamic[d, a], of.dynamic[d, b])
        pair.velocity = vec2(of.velocity[v, a], of.velocity[v, b])
        pair.rate = rate
    return pair


@func
def rate_at(scene: Scene, contacts: Contacts, v: wp.array2d(dtype=real), w: int, c: int) -> vec3:
    """The relative velocity J v of contact c."""
    row = contacts.row[w, c]
    rate = vec3()
    for k in range(scene.support_size[row]):
        J = vec3(contacts.J[w, c, 0, k], contacts.J[w, c, 1, k], contacts.J[w, c, 2, k])
        rate += J * v[w, scene.support[row, k]]
    return rate


@kernel
def slide(
    scene: Scene,
    contacts: Contacts,
    of: Friction,
    v0: wp.array2d(dtype=real),
    surface: wp.array2d(dtype=vec3),
    # out
    mu: wp.array2d(dtype=real),
):
    """μ at the velocity v0 and those of the surfaces, for all contacts with friction. Launch over (worlds,
    max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w] and mu[w, c] > real(0.0):
        rate = rate_at(scene, contacts, v0, w, c)
        if surface.shape[1] > 0:
            rate = rate + surface[w, c]
        mu[w, c] = sliding_friction_of(sliding_pair(scene, of, w, contacts.pair[w, c], rate))
