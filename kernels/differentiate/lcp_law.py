# SPDX-License-Identifier: Apache-2.0
"""The rigid law of contacts with known classes: impulses and errors on the tape (theory §5; DLCP (12))."""

import warp as wp

from ..contact.pair_laws import Contacts, Scene
from ..laws.contact_law import FREE
from ..real import func, kernel, real, vec3, vec5
from ..solve.lcp.contact_lcp import gap_target, pair_restitution
from .lcp_residual import CLAMPING, TOUCHING, UPPER

touching = TOUCHING[real]


@func
def tangent_impulse(kind: int, f: real, bound: real) -> real:
    """f for a clamping row, ±bound for a row at its bound, else 0."""
    found = real(0.0)
    if kind == CLAMPING:
        found = f
    elif kind == UPPER:
        found = bound
    elif kind == -UPPER:
        found = -bound
    return found


@kernel(taped=True)
def contact_impulse(
    contacts: Contacts,
    friction: wp.array2d(dtype=real),
    classes: wp.array2d(dtype=int),
    f: wp.array2d(dtype=vec3),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """gamma: f on clamping rows, ±μ f_n on tangents at their bound, 0 on others. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        mu = friction[w, c]
        n = real(0.0)
        if classes[w, 3 * c + 2] == CLAMPING:
            n = f[w, c][2]
        a = tangent_impulse(classes[w, 3 * c], f[w, c][0], mu * n)
        b = tangent_impulse(classes[w, 3 * c + 1], f[w, c][1], mu * n)
        gamma[w, c] = vec3(a, b, n)


@kernel(taped=True)
def contact_error(
    scene: Scene,
    contacts: Contacts,
    restitution: wp.array2d(dtype=real),
    classes: wp.array2d(dtype=int),
    bounces: wp.array2d(dtype=int),
    h: real,
    error_reduction: real,
    phi: wp.array2d(dtype=real),
    v_c: wp.array2d(dtype=vec3),
    v_c_star: wp.array2d(dtype=vec3),
    before: wp.array2d(dtype=vec5),
    # out
    error: wp.array2d(dtype=vec3),
):
    """c = J v − t of clamping rows, 0 on others.

    `before`: (v_n, hκ) at the velocity when the step begins, in steps with impacts. Launch over (worlds, max_contacts).
    """
    w, c = wp.tid()
    if c < contacts.count[w]:
        a = real(0.0)
        b = real(0.0)
        n = real(0.0)
        if classes[w, 3 * c] == CLAMPING:
            a = v_c[w, c][0]
        if classes[w, 3 * c + 1] == CLAMPING:
            b = v_c[w, c][1]
        if classes[w, 3 * c + 2] == CLAMPING:
            n = v_c[w, c][2]
            if contacts.touch.shape[1] > 0:
                n += before[w, c][1]
                if bounces[w, c] != 0:
                    n += pair_restitution(scene, restitution, w, contacts.pair[w, c]) * before[w, c][0]
                elif contacts.touch[w, c] == FREE:
                    n -= gap_target(phi[w, c], h, error_reduction, scene.recovery, real(touching))
            elif bounces[w, c] != 0:
                n += pair_restitution(scene, restitution, w, contacts.pair[w, c]) * v_c_star[w, c][2]
            else:
                n -= gap_target(phi[w, c], h, error_reduction, scene.recovery, real(touching))
        error[w, c] = vec3(a, b, n)
