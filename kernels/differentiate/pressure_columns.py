# SPDX-License-Identifier: Apache-2.0
"""Columns ∂r/∂p of the parameters of pressure fields: moduli, sizes, thicknesses, dissipation times (theory §3.5, §9).

A parameter changes φ, p, n, c and τ_d of a contact at fixed poses, and with them its wrench as in `contact_slopes.py`.
`weight_slopes.py` adds what δp changes through the effective mass.
"""

import warp as wp

from ..contact.pair_laws import Contacts, Scene
from ..laws.contact_law import ContactState
from ..real import func, kernel, mat33, real, struct, vec2, vec3, vec6
from ..tree import spatial as sp
from ..tree.passes import Topology
from .contact_slopes import Flow, contact_J, impulse_change, slope_by_rate, velocity_about
from .pressure_slopes import LAW, vec12


@struct
class FieldColumns:
    """Slopes with respect to the parameters of a contact's two geoms, and first columns (−1: not asked for)."""

    soft: wp.array(dtype=int)  # the soft geom S of every pair
    slope: wp.array3d(dtype=vec12)  # (worlds, C, 9); no columns where nothing was asked for
    dissipation_times: wp.array2d(dtype=real)
    modulus: int
    size: int
    thickness: int
    dissipation_time: int


@func
def field_column(scene: Scene, columns: FieldColumns, w: int, p: int, k: int) -> int:
    """The column of entry k of the slopes; −1 if it has none."""
    s = columns.soft[p - scene.point_pairs]
    o = scene.pair_geom[p, 0] + scene.pair_geom[p, 1] - s
    g = s
    first = columns.dissipation_time
    place = int(0)
    if k >= 2 and k < 8:
        first = columns.size
        if k >= 5:
            g = o
        place = 3 * g + (k - 2) % 3
    else:
        if k % 2 == 1:
            g = o
        place = g
        if k < 2:
            first = columns.modulus
        elif k < 10:
            first = columns.thickness
        else:
            tau = columns.dissipation_times[w % columns.dissipation_times.shape[0], g]
            if not (tau == tau):  # not a number: the default, which depends on the step size
                first = int(-1)
    column = int(-1)
    if first >= 0:
        column = first + place
    return column


@func
def slope_by(columns: FieldColumns, w: int, c: int, i: int, k: int) -> real:
    row = columns.slope[w, c, i]
    return row[k]


@func
def vector_by(columns: FieldColumns, w: int, c: int, i: int, k: int) -> vec3:
    return vec3(slope_by(columns, w, c, i, k), slope_by(columns, w, c, i + 1, k), slope_by(columns, w, c, i + 2, k))


@func
def relative_velocity(topology: Topology, scene: Scene, flow: Flow, w: int, pair: int, at: vec3) -> vec6:
    """Velocity of geom B past geom A about the point `at`."""
    V_b = velocity_about(topology, flow, w, scene.geom_link[scene.pair_geom[pair, 1]], at)
    return V_b - velocity_about(topology, flow, w, scene.geom_link[scene.pair_geom[pair, 0]], at)


@func
def rate_at_moved(relative: vec6, delta_p: vec3, theta: vec3) -> vec3:
    """Change of the relative velocity where the point moves by δp and the frame turns by θ."""
    return wp.cross(sp.angular(relative), delta_p) - wp.cross(theta, sp.linear(relative))


@kernel
def field_columns(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    law: wp.array3d(dtype=ContactState),
    flow: Flow,
    before: Flow,
    G: wp.array2d(dtype=mat33),
    gamma: wp.array2d(dtype=vec3),
    columns: FieldColumns,
    # in and out
    X: wp.array3d(dtype=real),
):
    """X −= δ(Jᵀγ) with respect to the requested parameters, contact by contact. Launch over worlds.

    `before`: as in `contact_slopes.contact_changes`.
    """
    w = wp.tid()
    for c in range(contacts.count[w]):
        pair = contacts.pair[w, c]
        if pair >= scene.point_pairs and G[w, c][2, 2] != real(0.0):
            F = contacts.frame[w, c]
            n = vec3(F[0, 2], F[1, 2], F[2, 2])
            at = contacts.point[w, c]
            relative = relative_velocity(topology, scene, flow, w, pair, at)
            relative0 = vec6()
            if before.v.shape[1] > 0:
                relative0 = relative_velocity(topology, scene, before, w, pair, at)
            force = F * gamma[w, c]
            row = contacts.row[w, c]
            for k in range(12):
                column = field_column(scene, columns, w, pair, k)
                if column >= 0:
                    delta_p = vector_by(columns, w, c, 1, k)
                    theta = wp.cross(n, vector_by(columns, w, c, 4, k))
                    delta_u = rate_at_moved(relative, delta_p, theta)
                    delta_law = vec2(slope_by(columns, w, c, LAW, k), slope_by(columns, w, c, LAW + 1, k))
                    delta_phi = slope_by(columns, w, c, 0, k)
                    change = impulse_change(law, w, c, delta_phi, wp.transpose(F) * delta_u, delta_law)
                    change += wp.transpose(F) * wp.cross(theta, force)
                    if before.v.shape[1] > 0:
                        delta_0 = wp.transpose(F) * rate_at_moved(relative0, delta_p, theta)
                        change += slope_by_rate(law, w, c, delta_0)
                    torque = wp.cross(delta_p, force)
                    for i in range(scene.support_size[row]):
                        e = scene.support[row, i]
                        turn = scene.support_sign[row, i] * sp.angular(flow.dof_S[w, e])
                        by = wp.dot(contact_J(contacts, w, c, i), change) + wp.dot(turn, torque)
                        X[w, e, column] = X[w, e, column] - by
