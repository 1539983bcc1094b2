# SPDX-License-Identifier: Apache-2.0
"""A screw: the displacement of B along the z axis of A, minus its rotation about z times p/(2π); right-handed for a
pitch p > 0.

With Q = q_A* q_B = (v, q_w), z = (p_B − p_A)·R_A e_z, s = sin(π z/p), c = cos(π z/p), the angle θ of Q about z, and ψ =
θ − 2π z/p,

    tan ½ψ = (Q_z c − q_w s)/(q_w c + Q_z s),   ψ in (−π, π]
    φ = −(p/2π) ψ  [m],   a = R_A (−(p/2π) T, e_z),   T = (Q_z v + q_w (q_w e_z + v × e_z))/(Q_z² + q_w²)

φ is z − p θ/2π, less whole pitches: the row does not count turns. A nut with an error of more than half a pitch
continues in the next turn of the thread. φ − h J v0 is also reduced by whole pitches, so that fast nuts do not lose
any. The other rows of a screw keep the axes aligned (`position.py`, `tilt.py`).
"""

import warp as wp

from ...real import func, real, vec3
from ...tree import spatial as sp
from .. import bilateral
from ..frames import relative_quaternion, vector_part
from ..table import Frames, RowGeometry
from .kind import BETWEEN, PERIODIC, WEIGHED, Kind

LEAST = 1e-6  # of Q_z² + q_w², which is 0 if the axes have opposite directions


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
    if cosine < real(0.0):  # −Q is the same rotation as Q
        sine = -sine
        cosine = -cosine
    v = vector_part(Q)
    e = vec3(real(0.0), real(0.0), real(1.0))
    turned = (Q[2] * v + Q[3] * (Q[3] * e + wp.cross(v, e))) / wp.max(Q[2] * Q[2] + Q[3] * Q[3], real(LEAST))
    q_A = wp.transform_get_rotation(X.A)
    row = RowGeometry()
    row.phi = -X.c / real(wp.pi) * wp.atan2(sine, cosine)
    row.axis = sp.join(wp.quat_rotate(q_A, -X.c / (real(2.0) * real(wp.pi)) * turned), wp.quat_rotate(q_A, e))
    return row


KIND = Kind(BETWEEN | WEIGHED | PERIODIC, bilateral.equality_law, geometry)
