"""A screw: how far B has come along the z axis of A, less what it has turned about it; a turn for each pitch p, right-handed if p > 0.

With Q = q_A* q_B = (v, q_w), z = (p_B − p_A)·R_A e_z, s = sin(π z/p), c = cos(π z/p), and ψ = θ − 2π z/p of the angle θ of Q about z,

    sin ½ψ = Q_z c − q_w s,   cos ½ψ = q_w c + Q_z s,   the sign of Q such that cos ½ψ ≥ 0
    φ = −(p/π) sin ½ψ  [m],   a = R_A (−(p/2π) (s v + c (q_w e_z + v × e_z)),   cos ½ψ e_z)

φ is z − p θ/2π up to third order, over any number of turns: none is counted, so nothing wraps. An error of more than half a pitch
falls into the next turn of the thread. The other rows of a screw keep the axes aligned (`position.py`, `tilt.py`).
"""

import warp as wp

from ...real import func, real, vec2, vec3, vec4, vec6
from ...tree import spatial as sp
from .. import bilateral
from ..frames import quaternion_change, relative_quaternion, vector_part
from ..table import FrameMotion, Frames, RowGeometry
from .kind import BETWEEN, WEIGHED, Kind


@func
def half_turn(X: Frames) -> vec2:
    """(s, c)."""
    along = wp.quat_rotate_inv(
        wp.transform_get_rotation(X.A), wp.transform_get_translation(X.B) - wp.transform_get_translation(X.A)
    )[2]
    turn = real(wp.pi) * along / X.c
    return vec2(wp.sin(turn), wp.cos(turn))


@func
def signed(Q: vec4, t: vec2) -> vec4:
    """Q or −Q, with cos ½ψ ≥ 0."""
    sign = real(1.0)
    if Q[3] * t[1] + Q[2] * t[0] < real(0.0):
        sign = real(-1.0)
    return sign * Q


@func
def turning(Q: vec4, t: vec2) -> vec3:
    """s v + c (q_w e_z + v × e_z)."""
    e = vec3(real(0.0), real(0.0), real(1.0))
    v = vector_part(Q)
    return t[0] * v + t[1] * (Q[3] * e + wp.cross(v, e))


@func
def screw_axis(X: Frames, angular: vec3, linear: real) -> vec6:
    """R_A (−(p/2π) angular, linear e_z)."""
    q_A = wp.transform_get_rotation(X.A)
    turned = -X.c / real(2.0 * wp.pi) * angular
    return sp.join(wp.quat_rotate(q_A, turned), wp.quat_rotate(q_A, vec3(real(0.0), real(0.0), linear)))


@func
def geometry(X: Frames) -> RowGeometry:
    """φ and axis."""
    t = half_turn(X)
    Q = signed(relative_quaternion(X.A, X.B), t)
    row = RowGeometry()
    row.phi = X.c / real(wp.pi) * (Q[3] * t[0] - Q[2] * t[1])
    row.axis = screw_axis(X, turning(Q, t), Q[3] * t[1] + Q[2] * t[0])
    return row


@func
def axis_change(motion: FrameMotion) -> vec6:
    """δQ = ½ (0, R_Aᵀω) Q and δ(s, c) = (c, −s) π δz/p, of what is linear in Q and in (s, c)."""
    X = motion.X
    t = half_turn(X)
    Q = signed(relative_quaternion(X.A, X.B), t)
    dQ = quaternion_change(motion, Q)
    dz = wp.quat_rotate_inv(wp.transform_get_rotation(X.A), sp.linear(motion.twist))[2]
    dt = real(wp.pi) * dz / X.c * vec2(t[1], -t[0])
    linear = dQ[3] * t[1] + dQ[2] * t[0] + Q[3] * dt[1] + Q[2] * dt[0]
    return screw_axis(X, turning(dQ, t) + turning(Q, dt), linear)


KIND = Kind(BETWEEN | WEIGHED, bilateral.equality_law, bilateral.equality_slopes, geometry, axis_change)
