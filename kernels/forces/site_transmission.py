# SPDX-License-Identifier: Apache-2.0
"""Actuators on sites: wrenches in a site's axes, pulls between two sites, slider-cranks. Lengths and moment arms are
MuJoCo's.

On one site, the gear is a force and a couple in its axes, and the length is 0. With a reference site, the gear is a
force and a couple in the axes of the reference site. The length is then gear · (position, rotation vector) of the site
in those axes. Degrees of freedom that move both sites do not count.

A slider-crank has a rod of length r that drives a slide on the axis a of the slider site. With the vector v from the
slider site to the pin,

    ℓ = a·v − √((a·v)² + r² − v·v),   or a·v if the rod does not reach
"""

import warp as wp

from ..real import func, kernel, real, struct, transform, vec3
from ..tree import joints
from .spatial_tendon import Sites, site_pose


@struct
class Pulls:
    """Actuators on sites and cranks; shared by all worlds."""

    line: wp.array(dtype=int)
    wrench: wp.array(dtype=int)  # (n,) first wrench of each
    site: wp.array2d(dtype=int)  # (n, 2) site and reference site (-1: none), or pin and slider
    force: wp.array(dtype=vec3)  # gear; a crank uses only [0]
    couple: wp.array(dtype=vec3)
    rod: wp.array(dtype=real)  # [m] 0: no crank


@func
def rotation_from(A: transform, B: transform) -> vec3:
    """Rotation vector of B in A."""
    return joints.quaternion_log(wp.quat_inverse(wp.transform_get_rotation(A)) * wp.transform_get_rotation(B))


@func
def crank_slopes(v: vec3, a: vec3, rod: real):
    """(ℓ, ∂ℓ/∂v, ∂ℓ/∂a)."""
    along = wp.dot(a, v)
    square = along * along + rod * rod - wp.dot(v, v)
    length = along
    by_v = a
    by_a = v
    if square > real(0.0):
        root = wp.sqrt(square)
        length = along - root
        by_v = (real(1.0) - along / root) * a + v / root
        by_a = (real(1.0) - along / root) * v
    return length, by_v, by_a


@kernel(twin=True)
def pull_at_sites(
    sites: Sites,
    pulls: Pulls,
    link_X: wp.array2d(dtype=transform),
    # out
    length: wp.array2d(dtype=real),
    point: wp.array2d(dtype=vec3),
    force: wp.array2d(dtype=vec3),
    couple: wp.array2d(dtype=vec3),
):
    """Lengths of the actuators' lines, and the wrenches per unit force. Launch over (worlds, actuators on sites)."""
    w, i = wp.tid()
    X = site_pose(sites, link_X, w, pulls.site[i, 0])
    x = wp.transform_get_translation(X)
    k = pulls.wrench[i]
    point[w, k] = x
    if pulls.site[i, 1] < 0:
        length[w, pulls.line[i]] = real(0.0)
        force[w, k] = wp.transform_vector(X, pulls.force[i])
        couple[w, k] = wp.transform_vector(X, pulls.couple[i])
    else:
        Y = site_pose(sites, link_X, w, pulls.site[i, 1])
        y = wp.transform_get_translation(Y)
        point[w, k + 1] = y
        if pulls.rod[i] > real(0.0):
            gear = pulls.force[i][0]
            axis = wp.transform_vector(Y, vec3(real(0.0), real(0.0), real(1.0)))
            found, by_v, by_a = crank_slopes(x - y, axis, pulls.rod[i])
            length[w, pulls.line[i]] = gear * found
            force[w, k] = gear * by_v
            couple[w, k] = vec3()
            force[w, k + 1] = -gear * by_v
            couple[w, k + 1] = gear * wp.cross(axis, by_a)
        else:
            F = wp.transform_vector(Y, pulls.force[i])
            C = wp.transform_vector(Y, pulls.couple[i])
            length[w, pulls.line[i]] = wp.dot(F, x - y) + wp.dot(pulls.couple[i], rotation_from(Y, X))
            force[w, k] = F
            couple[w, k] = C
            force[w, k + 1] = -F
            couple[w, k + 1] = -C
