# SPDX-License-Identifier: Apache-2.0
"""Adhesion: an actuator on a body pulls at the body's contacts, with an equal share of its force along each normal.

The contacts are those that the step has found: surfaces that touch, or would touch within the step. With n contacts
each one gets f/n, which pulls the two bodies together. The generalised force −J_nᵀ f/n is explicit and is applied
after the free motion: v* ← v* − h A⁻¹ J_nᵀ f/n. The contact law then bears this force, so friction grows with it. The
backward pass keeps n constant.
"""

import warp as wp

from ..forces.actuators import Actuators, constant_force
from ..laws.contact_law import AWAY
from ..linalg.ltdl import ltdl_solve_block
from ..real import func, kernel, real, struct
from ..tree.passes import Topology
from .pair_laws import Contacts, Scene


@struct
class Stickers:
    """Adhesion actuators on bodies; shared by all worlds."""

    actuator: wp.array(dtype=int)  # (n,)
    holds: wp.array2d(dtype=int)  # (n, ngeom) 1: the geom belongs to the actuator's body
    gap: wp.array(dtype=real)  # (pairs,) [m] largest φ of a contact that counts; no entries: all contacts count


@func
def is_held(stickers: Stickers, scene: Scene, contacts: Contacts, w: int, s: int, c: int) -> bool:
    """Whether a geom of contact c belongs to the body of sticker s, the contact is no wider than its gap, and no impact
    makes it later in the step."""
    p = contacts.pair[w, c]
    if stickers.gap.shape[0] > 0:
        if contacts.phi[w, c] >= stickers.gap[p]:
            return False
    if contacts.touch.shape[1] > 0:
        if contacts.touch[w, c] == AWAY:
            return False
    return stickers.holds[s, scene.pair_geom[p, 0]] != 0 or stickers.holds[s, scene.pair_geom[p, 1]] != 0


@func
def share_of(
    stickers: Stickers,
    scene: Scene,
    contacts: Contacts,
    actuators: Actuators,
    held: wp.array2d(dtype=int),
    w: int,
    s: int,
    c: int,
) -> real:
    """f/n of sticker s at contact c; 0 if the sticker does not hold the contact."""
    found = real(0.0)
    if is_held(stickers, scene, contacts, w, s, c):
        found = constant_force(actuators, w, stickers.actuator[s]) / real(held[w, s])
    return found


@kernel
def stick(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    stickers: Stickers,
    h: real,
    actuators: Actuators,
    A_factor: wp.array3d(dtype=real),
    # scratch
    dv: wp.array2d(dtype=real),
    # out
    held: wp.array2d(dtype=int),
    v_star: wp.array2d(dtype=real),
):
    """Add the pull of all stickers to v*, and count the contacts of each. Launch over worlds."""
    w = wp.tid()
    for d in range(dv.shape[1]):
        dv[w, d] = real(0.0)
    for s in range(stickers.actuator.shape[0]):
        count = int(0)
        for c in range(contacts.count[w]):
            if is_held(stickers, scene, contacts, w, s, c):
                count += 1
        held[w, s] = count
        for c in range(contacts.count[w]):
            share = share_of(stickers, scene, contacts, actuators, held, w, s, c)
            p = contacts.row[w, c]
            for k in range(scene.support_size[p]):
                d = scene.support[p, k]
                dv[w, d] = dv[w, d] - h * share * contacts.J[w, c, 2, k]
    for tree in range(topology.tree_v.shape[0] - 1):
        ltdl_solve_block(A_factor[w], topology.tree_v[tree], topology.tree_v[tree + 1], dv[w])
    for d in range(dv.shape[1]):
        v_star[w, d] = v_star[w, d] + dv[w, d]


@kernel(taped=True)
def sticking_residual(
    scene: Scene,
    contacts: Contacts,
    stickers: Stickers,
    h: real,
    actuators: Actuators,
    held: wp.array2d(dtype=int),
    J: wp.array4d(dtype=real),
    # out
    r: wp.array2d(dtype=real),
):
    """r += h J_nᵀ f/n. Launch over (worlds, max_contacts, stickers)."""
    w, c, s = wp.tid()
    if c < contacts.count[w]:
        p = contacts.row[w, c]
        for k in range(scene.support_size[p]):
            share = share_of(stickers, scene, contacts, actuators, held, w, s, c)
            wp.atomic_add(r, w, scene.support[p, k], h * share * J[w, c, 2, k])
