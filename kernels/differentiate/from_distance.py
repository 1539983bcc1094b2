# SPDX-License-Identifier: Apache-2.0
"""A weak force between geoms that are near each other, which only derivatives see (theory §7).

    f(q) = −∂U/∂q,   −U'(φ) = (k d/3) (1 − φ/d)³  for 0 < φ < d, else 0

d is the range [m] and k the stiffness [N/m] as φ → 0. The force, its slope −k (1 − φ/d)² and the change of the slope
fade to 0 at φ = d. It acts along the normal, and only between geoms that do not overlap: those that do have the
derivatives of their contact.
"""

import warp as wp

from ..contact.pair_laws import Contacts
from ..flags import CONTACT_OVERFLOW
from ..laws.contact_law import ContactState
from ..real import func, kernel, mat33, real, vec3


@func
def push(phi: real, distance: real, stiffness: real) -> real:
    """−U'(φ) [N] at 0 < φ < d."""
    x = real(1.0) - phi / distance
    return stiffness * distance / real(3.0) * x * x * x


@kernel(part="distance")
def find_apart(
    contacts: Contacts,
    distance: real,
    # out
    apart: wp.array2d(dtype=int),
):
    """1 for every point with 0 < φ < d of a pair that overlaps nowhere, else 0. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    found = int(0)
    if c < contacts.count[w] and contacts.phi[w, c] > real(0.0) and contacts.phi[w, c] < distance:
        found = int(1)
        for i in range(contacts.count[w]):
            if contacts.pair[w, i] == contacts.pair[w, c] and contacts.phi[w, i] <= real(0.0):
                found = int(0)
    apart[w, c] = found


@kernel(taped=True, part="distance")
def push_apart(
    contacts: Contacts,
    apart: wp.array2d(dtype=int),
    distance: real,
    stiffness: real,
    phi: wp.array2d(dtype=real),
    # out
    force: wp.array2d(dtype=vec3),
):
    """The force on geom B of every point, in the contact frame. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        along = real(0.0)
        if apart[w, c] == 1:
            along = push(phi[w, c], distance, stiffness)
        force[w, c] = vec3(real(0.0), real(0.0), along)


@kernel(part="distance")
def seed_push(
    contacts: Contacts,
    tau_bar: wp.array2d(dtype=real),
    # out
    r_bar: wp.array2d(dtype=real),
):
    """r̄ = −τ̄ for r = −f. NaN in worlds with more points than there are slots. Launch over (worlds, nv)."""
    w, d = wp.tid()
    x = -tau_bar[w, d]
    if contacts.flags[w] & CONTACT_OVERFLOW != 0:
        x = real(wp.nan)
    r_bar[w, d] = x


@kernel(part="distance")
def push_slopes(
    contacts: Contacts,
    apart: wp.array2d(dtype=int),
    h: real,
    distance: real,
    stiffness: real,
    # out
    law: wp.array3d(dtype=ContactState),
    gamma: wp.array2d(dtype=vec3),
    G: wp.array2d(dtype=mat33),
):
    """The impulse h f of every point, its slope with respect to φ, and a G that marks the points that have one.

    These are the inputs of `contact_slopes.contact_changes`. Launch over (worlds, max_contacts).
    """
    w, c = wp.tid()
    if c < contacts.count[w]:
        along = real(0.0)
        slope = real(0.0)
        acts = real(0.0)
        if apart[w, c] == 1:
            x = real(1.0) - contacts.phi[w, c] / distance
            along = h * push(contacts.phi[w, c], distance, stiffness)
            slope = -h * stiffness * x * x
            acts = real(1.0)
        if contacts.flags[w] & CONTACT_OVERFLOW != 0:
            slope = real(wp.nan)
            acts = real(1.0)
        s = ContactState()
        s.phi = slope
        law[w, c, 2] = s
        gamma[w, c] = vec3(real(0.0), real(0.0), along)
        marked = mat33()
        marked[2, 2] = acts
        G[w, c] = marked
