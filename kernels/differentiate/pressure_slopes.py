# SPDX-License-Identifier: Apache-2.0
"""Gradients of contacts between pressure fields, from their rates along directions (`pressure_rates.py`, theory §9).

`rate (worlds, C, RATES, directions)` holds the rates of φ, p, n, c and τ_d of every contact along each direction, p and
n in world axes, with S at rest. `turn_slopes` turns the rates along the six motions of O into gradients with respect to
a motion (ω; u) of geom B past geom A about the contact point, as in `contact_variation.py`. On a tape
`pressure_geometry` gives contacts: what the step found, plus rate times change, whose value is 0.
"""

import warp as wp

from ..contact import contacts as contact
from ..contact.hydroelastic.fields import Fields, Sizes
from ..contact.hydroelastic.find_polygons import soft_first
from ..contact.narrow.features import contact_frame
from ..contact.pair_laws import Contacts, Scene
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec6
from ..tree import spatial as sp
from ..tree.plant import Plant
from .pressure_rates import MOTIONS

vec12 = wp.types.vector(12, real)  # of the directions that are parameters

RATES = 9  # φ, p, n, c, τ_d
LAW = wp.constant(7)  # first row of c and τ_d


@kernel
def turn_slopes(
    scene: Scene,
    fields: Fields,
    geom_X: wp.array2d(dtype=transform),
    contacts: Contacts,
    number: wp.array(dtype=int),
    rate: wp.array4d(dtype=real),
    # out
    slope: wp.array3d(dtype=vec6),
    law_slope: wp.array3d(dtype=vec6),
    parameter_slope: wp.array3d(dtype=vec12),
):
    """Gradients with respect to a motion of geom B about the contact point, and with respect to parameters.

    The former are of (φ, p, n) and (c, τ_d), the latter of all nine, where that array has columns. Launch over (worlds,
    C).
    """
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        if p >= scene.point_pairs:
            s, o = soft_first(fields, scene, p)
            arm = wp.transform_get_translation(geom_X[w, s]) - contacts.point[w, c]
            frame = contacts.frame[w, c]
            n = vec3(frame[0, 2], frame[1, 2], frame[2, 2])
            for i in range(RATES):
                turn = vec3(rate[w, c, i, 0], rate[w, c, i, 1], rate[w, c, i, 2])
                shift = vec3(rate[w, c, i, 3], rate[w, c, i, 4], rate[w, c, i, 5])
                turn += wp.cross(arm, shift)
                if o == scene.pair_geom[p, 0]:  # B is S: A moves back past it, then everything moves along
                    turn = -turn
                    shift = -shift
                    if i >= 1 and i < 4:
                        shift[i - 1] = shift[i - 1] + real(1.0)
                    elif i >= 4 and i < LAW:
                        e = vec3()
                        e[i - 4] = real(1.0)
                        turn += wp.cross(n, e)
                row = sp.join(turn, shift)
                if i < LAW:
                    slope[w, c, i] = row
                else:
                    law_slope[w, c, i - LAW] = row
                if parameter_slope.shape[1] > 0:
                    by = vec12()
                    for k in range(MOTIONS, number.shape[0]):
                        by[number[k] - MOTIONS] = rate[w, c, i, k]
                    parameter_slope[w, c, i] = by


# On a tape.


@struct
class Frozen:
    """What a step found; nothing here has a gradient."""

    geom_X: wp.array2d(dtype=transform)
    slope: wp.array3d(dtype=vec6)
    law_slope: wp.array3d(dtype=vec6)
    parameter_slope: wp.array3d(dtype=vec12)
    sizes: Sizes
    dissipation_time: wp.array2d(dtype=real)


@func
def small_motion(X: transform, X_0: transform, point: vec3) -> vec6:
    """The small motion (ω; u) about `point` that leads from X_0 to X."""
    r = wp.transform_get_rotation(X) * wp.quat_inverse(wp.transform_get_rotation(X_0))
    omega = real(2.0) * vec3(r[0], r[1], r[2])
    x_0 = wp.transform_get_translation(X_0)
    return sp.join(omega, wp.transform_get_translation(X) - x_0 + wp.cross(omega, point - x_0))


@func
def changed(x: real, x_0: real) -> real:
    """x − x_0, whose value is 0. Without a gradient where x is not a number."""
    change = real(0.0)
    if x_0 - x_0 == real(0.0):
        change = x - x_0
    return change


@func
def parameter_changes(
    frozen: Frozen, sizes: Sizes, dissipation_time: wp.array2d(dtype=real), w: int, s: int, o: int
) -> vec12:
    """Differences of the parameters from those of the step, in the order of the directions."""
    i = w % sizes.size.shape[0]
    e = w % sizes.modulus.shape[0]
    t = w % sizes.thickness.shape[0]
    d = w % dissipation_time.shape[0]
    size_s = sizes.size[i, s] - frozen.sizes.size[i, s]
    size_o = sizes.size[i, o] - frozen.sizes.size[i, o]
    return vec12(
        changed(sizes.modulus[e, s], frozen.sizes.modulus[e, s]),
        changed(sizes.modulus[e, o], frozen.sizes.modulus[e, o]),
        size_s[0], size_s[1], size_s[2], size_o[0], size_o[1], size_o[2],
        changed(sizes.thickness[t, s], frozen.sizes.thickness[t, s]),
        changed(sizes.thickness[t, o], frozen.sizes.thickness[t, o]),
        changed(dissipation_time[d, s], frozen.dissipation_time[d, s]),
        changed(dissipation_time[d, o], frozen.dissipation_time[d, o]),
    )  # fmt: skip


@func
def rows_times(slope: wp.array3d(dtype=vec6), w: int, c: int, i: int, x: vec6) -> vec3:
    """Three rows from the i-th on, times x."""
    return vec3(wp.dot(slope[w, c, i], x), wp.dot(slope[w, c, i + 1], x), wp.dot(slope[w, c, i + 2], x))


@func
def parameters_times(slope: wp.array3d(dtype=vec12), w: int, c: int, i: int, x: vec12) -> vec3:
    return vec3(wp.dot(slope[w, c, i], x), wp.dot(slope[w, c, i + 1], x), wp.dot(slope[w, c, i + 2], x))


@kernel(taped=True)
def pressure_geometry(
    scene: Scene,
    contacts: Contacts,
    frozen: Frozen,
    soft: wp.array(dtype=int),
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    sizes: Sizes,
    dissipation_time: wp.array2d(dtype=real),
    # out
    phi: wp.array2d(dtype=real),
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
    compliance: wp.array2d(dtype=vec2),
):
    """Distance, point, frame and law of the contacts between pressure fields, on a tape.

    `soft`: which geom of every pair is S. Launch over (worlds, C).
    """
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        if p >= scene.point_pairs:
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            at = contacts.point[w, c]
            F = contacts.frame[w, c]
            n = vec3(F[0, 2], F[1, 2], F[2, 2])
            law = contacts.compliance[w, c]
            motion_a = small_motion(contact.geom_pose_world(scene, plant, link_X, w, a), frozen.geom_X[w, a], at)
            motion_b = small_motion(contact.geom_pose_world(scene, plant, link_X, w, b), frozen.geom_X[w, b], at)
            past = motion_b - motion_a
            x = at + sp.linear(motion_a) + rows_times(frozen.slope, w, c, 1, past)
            turned = n + wp.cross(sp.angular(motion_a), n) + rows_times(frozen.slope, w, c, 4, past)
            distance = contacts.phi[w, c] + wp.dot(frozen.slope[w, c, 0], past)
            softness = law[0] + wp.dot(frozen.law_slope[w, c, 0], past)
            tau = law[1] + wp.dot(frozen.law_slope[w, c, 1], past)
            if frozen.parameter_slope.shape[1] > 0:
                s = soft[p - scene.point_pairs]
                change = parameter_changes(frozen, sizes, dissipation_time, w, s, a + b - s)
                distance += wp.dot(frozen.parameter_slope[w, c, 0], change)
                x += parameters_times(frozen.parameter_slope, w, c, 1, change)
                turned += parameters_times(frozen.parameter_slope, w, c, 4, change)
                softness += wp.dot(frozen.parameter_slope[w, c, LAW], change)
                tau += wp.dot(frozen.parameter_slope[w, c, LAW + 1], change)
            phi[w, c] = distance
            point[w, c] = x
            frame[w, c] = contact_frame(turned)
            compliance[w, c] = vec2(softness, tau)
