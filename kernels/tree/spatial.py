# SPDX-License-Identifier: Apache-2.0
"""Spatial vectors and rigid-body inertias in world axes about a common reference point o of each tree.

A motion vector is (omega; v_o), a force vector (tau_o; f). All vectors of one tree are added and multiplied without
transforms. Featherstone, Rigid Body Dynamics Algorithms (2008), chapter 2. An inertia is the 10-vector (m, m c, I_xx,
I_yy, I_zz, I_xy, I_xz, I_yz) with c the center of mass from o and I the rotational inertia about o.
"""

import warp as wp

from ..real import func, mat33, quat, real, transform, vec3, vec6, vec10


@func
def angular(a: vec6) -> vec3:
    return vec3(a[0], a[1], a[2])


@func
def linear(a: vec6) -> vec3:
    return vec3(a[3], a[4], a[5])


@func
def join(a: vec3, b: vec3) -> vec6:
    return vec6(a[0], a[1], a[2], b[0], b[1], b[2])


@func
def cross_motion(a: vec6, b: vec6) -> vec6:
    """a x b of motion vectors."""
    w = angular(a)
    return join(wp.cross(w, angular(b)), wp.cross(w, linear(b)) + wp.cross(linear(a), angular(b)))


@func
def cross_force(a: vec6, f: vec6) -> vec6:
    """a x* f of a motion and a force vector."""
    w = angular(a)
    return join(wp.cross(w, angular(f)) + wp.cross(linear(a), linear(f)), wp.cross(w, linear(f)))


@func
def rigid_inertia(mass: real, com: vec3, R: mat33, I_com: mat33) -> vec10:
    """Inertia about o of a body with its COM at `com` from o, orientation R, inertia I_com in body axes."""
    I = R * I_com * wp.transpose(R)
    h = mass * com
    return vec10(
        mass,
        h[0],
        h[1],
        h[2],
        I[0, 0] + h[1] * com[1] + h[2] * com[2],
        I[1, 1] + h[0] * com[0] + h[2] * com[2],
        I[2, 2] + h[0] * com[0] + h[1] * com[1],
        I[0, 1] - h[0] * com[1],
        I[0, 2] - h[0] * com[2],
        I[1, 2] - h[1] * com[2],
    )


@func
def momentum(I: vec10, a: vec6) -> vec6:
    """I a: spatial momentum of motion a, or the force that gives acceleration a."""
    w = angular(a)
    v = linear(a)
    h = vec3(I[1], I[2], I[3])
    Iw = vec3(
        I[4] * w[0] + I[7] * w[1] + I[8] * w[2],
        I[7] * w[0] + I[5] * w[1] + I[9] * w[2],
        I[8] * w[0] + I[9] * w[1] + I[6] * w[2],
    )
    return join(Iw + wp.cross(h, v), I[0] * v + wp.cross(w, h))


@func
def velocity_at(a: vec6, r: vec3) -> vec3:
    """Velocity of the body-fixed point at r from o."""
    return linear(a) + wp.cross(angular(a), r)


@func
def moved(X: transform, point: vec3, motion: vec6) -> transform:
    """X after the small motion (ω; u) about `point`, correct to first order."""
    turn = real(0.5) * angular(motion)
    x = wp.transform_get_translation(X) + velocity_at(motion, wp.transform_get_translation(X) - point)
    return transform(x, quat(turn[0], turn[1], turn[2], real(1.0)) * wp.transform_get_rotation(X))
