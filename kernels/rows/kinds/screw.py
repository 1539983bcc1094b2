# SPDX-License-Identifier: Apache-2.0
"""A screw: how far B has come along the z axis of A, less what it has turned about it; a turn for each pitch p, right-handed if p > 0.

With Q = q_A* q_B = (v, q_w), z = (p_B − p_A)·R_A e_z, s = sin(π z/p), c = cos(π z/p), and ψ = θ − 2π z/p of the angle θ of Q about z,

    tan ½ψ = (Q_z c − q_w s)/(q_w c + Q_z s),   ψ in (−π, π]
    φ = −(p/2π) ψ  [m],   a = R_A (−(p/2π) T, e_z),   T = (Q_z v + q_w (q_w e_z + v × e_z))/(Q_z² + q_w²)

φ is z − p θ/2π less whole pitches: no turns are counted, and a nut that is off by more than half a pitch goes on in the next turn of the
thread. φ − h J v0 is taken less whole pitches as well, so that fast nuts lose none. The other rows of a screw keep the axes aligned
(`position.py`, `tilt.py`).
"""

import warp as wp

from ...real import func, real, vec3, vec4, vec6
from ...tree import spatial as sp
from .. import bilateral
from ..frames import quaternion_change, relative_quaternion, vector_part
from ..table import FrameMotion, Frames, RowGeometry
from .kind import BETWEEN, PERIODIC, WEIGHED, Kind

LEAST = 1e-6  # of Q_z² + q_w², 0 where the axes point against each other


@func
def turning(Q: vec4, P: vec4) -> vec3:
    """Q_z v_P + q_w (p_w e_z + v_P × e_z), the numerator of T at P = Q."""
    e = vec3(real(0.0), real(0.0), real(1.0))
    v = vector_part(P)
    return Q[2] * v + Q[3] * (P[3] * e + wp.cross(v, e))


@func
def size(Q: vec4) -> real:
    """Q_z² + q_w²."""
    return wp.max(Q[2] * Q[2] + Q[3] * Q[3], real(LEAST))


@func
def screw_axis(X: Frames, turned: vec3, linear: real) -> vec6:
    """R_A (−(p/2π) T, linear e_z)."""
    q_A = wp.transform_get_rotation(X.A)
    angular = -X.c / (real(2.0) * real(wp.pi)) * turned
    return sp.join(wp.quat_rotate(q_A, angular), wp.quat_rotate(q_A, vec3(real(0.0), real(0.0), linear)))


@func
def geometry(X: Frames) -> RowGeometry:
    """φ and axis."""
    Q = relative_quaternion(X.A, X.B)
    apart = wp.transform_get_translation(X.B) - wp.transform_get_translation(X.A)
    turn = real(wp.pi) * wp.quat_rotate_inv(wp.transform_get_rotation(X.A), apart)[2] / X.c
    s = wp.sin(turn)
    c = wp.cos(turn)
    sine = Q[2] * c - Q[3] * s
    cosine = Q[3] * c + Q[2] * s
    if cosine < real(0.0):  # −Q is the same rotation
        sine = -sine
        cosine = -cosine
    row = RowGeometry()
    row.phi = -X.c / real(wp.pi) * wp.atan2(sine, cosine)
    row.axis = screw_axis(X, turning(Q, Q) / size(Q), real(1.0))
    return row


@func
def axis_change(motion: FrameMotion) -> vec6:
    """δT of δQ = ½ (0, R_Aᵀω) Q."""
    X = motion.X
    Q = relative_quaternion(X.A, X.B)
    dQ = quaternion_change(motion, Q)
    n = size(Q)
    change = turning(dQ, Q) + turning(Q, dQ)
    change -= real(2.0) * (Q[2] * dQ[2] + Q[3] * dQ[3]) / n * turning(Q, Q)
    return screw_axis(X, change / n, real(0.0))


KIND = Kind(BETWEEN | WEIGHED | PERIODIC, bilateral.equality_law, bilateral.equality_slopes, geometry, axis_change)
