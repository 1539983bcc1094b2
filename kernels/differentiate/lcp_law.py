# SPDX-License-Identifier: Apache-2.0
"""The rigid law of contacts whose class is known: impulses and errors of its equations, on the tape (theory §5; DLCP (12))."""

import warp as wp

from ..contact import pair_laws
from ..contact.pair_laws import Contacts, Scene
from ..real import kernel, real, vec3
from .lcp_residual import CLAMPING, TOUCHING, UPPER

touching = TOUCHING[real]


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
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
        mu = pair_laws.friction_coefficient(scene, friction, w, contacts.pair[w, c])
        n = real(0.0)
        if classes[w, 3 * c + 2] == CLAMPING:
            n = f[w, c][2]
        a = real(0.0)
        if classes[w, 3 * c] == CLAMPING:
            a = f[w, c][0]
        elif classes[w, 3 * c] == UPPER:
            a = mu * n
        elif classes[w, 3 * c] == -UPPER:
            a = -mu * n
        b = real(0.0)
        if classes[w, 3 * c + 1] == CLAMPING:
            b = f[w, c][1]
        elif classes[w, 3 * c + 1] == UPPER:
            b = mu * n
        elif classes[w, 3 * c + 1] == -UPPER:
            b = -mu * n
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
    # out
    error: wp.array2d(dtype=vec3),
):
    """c = J v − t of clamping rows, 0 on others. Launch over (worlds, max_contacts)."""
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
            if bounces[w, c] != 0:
                row = w % restitution.shape[0]
                p = contacts.pair[w, c]
                e = wp.max(restitution[row, scene.pair_geom[p, 0]], restitution[row, scene.pair_geom[p, 1]])
                n += e * v_c_star[w, c][2]
            elif phi[w, c] <= real(touching):
                n -= wp.min(-error_reduction * phi[w, c] / h, scene.recovery)
            else:
                n += phi[w, c] / h
        error[w, c] = vec3(a, b, n)
