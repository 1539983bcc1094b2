"""Errors φ between two frames A and B, one row at a time, with exact Jacobians: φ̇ = a · (motion of B relative to A).

Per row the axis a in the world, and whether it takes the relative angular velocity or the relative velocity of the points
of A and B that are at B's origin. R_A has the axes x, y, z of A as columns; e is the row's axis in A.

    position    φ = eᵀ R_Aᵀ (p_B − p_A)                a = R_A e
    rotation    φ = 2 eᵀ vec(Q), Q = q_A* q_B, w ≥ 0   a = R_A (w e + vec(Q) × e): the rotation vector up to third order
    tilt        φ = eᵀ (z × b), b = R_Aᵀ z_B           a = R_A (b_z e − (eᵀb) z), for e = x, y: the z axes agree
    distance    φ = ‖p_B − p_A‖ − length               a = (p_B − p_A)/‖p_B − p_A‖

A connect is 3 positions, a weld 3 and 3 rotations, a hinge 3 and 2 tilts, a slide 2 and 3 rotations.
"""

import warp as wp

from ..real import func, real, struct, transform, vec3


@struct
class RowGeometry:
    phi: real
    axis: vec3
    angular: int


@func
def unit_axis(i: int) -> vec3:
    e = vec3(real(1.0), real(0.0), real(0.0))
    if i == 1:
        e = vec3(real(0.0), real(1.0), real(0.0))
    elif i == 2:
        e = vec3(real(0.0), real(0.0), real(1.0))
    return e


@func
def position_row(X_A: transform, X_B: transform, i: int) -> RowGeometry:
    axis = wp.quat_rotate(wp.transform_get_rotation(X_A), unit_axis(i))
    row = RowGeometry()
    row.axis = axis
    row.phi = wp.dot(axis, wp.transform_get_translation(X_B) - wp.transform_get_translation(X_A))
    row.angular = 0
    return row


@func
def rotation_row(X_A: transform, X_B: transform, i: int) -> RowGeometry:
    q_A = wp.transform_get_rotation(X_A)
    Q = wp.quat_inverse(q_A) * wp.transform_get_rotation(X_B)
    sign = real(1.0)
    if Q[3] < real(0.0):
        sign = real(-1.0)
    e = unit_axis(i)
    v = sign * vec3(Q[0], Q[1], Q[2])
    row = RowGeometry()
    row.phi = real(2.0) * wp.dot(e, v)
    row.axis = wp.quat_rotate(q_A, sign * Q[3] * e + wp.cross(v, e))
    row.angular = 1
    return row


@func
def tilt_row(X_A: transform, X_B: transform, i: int) -> RowGeometry:
    q_A = wp.transform_get_rotation(X_A)
    z = vec3(real(0.0), real(0.0), real(1.0))
    b = wp.quat_rotate_inv(q_A, wp.quat_rotate(wp.transform_get_rotation(X_B), z))
    e = unit_axis(i)
    row = RowGeometry()
    row.phi = wp.dot(e, wp.cross(z, b))
    row.axis = wp.quat_rotate(q_A, b[2] * e - wp.dot(e, b) * z)
    row.angular = 1
    return row


@func
def distance_row(X_A: transform, X_B: transform) -> RowGeometry:
    """φ is the distance itself; where the points coincide its direction is x."""
    d = wp.transform_get_translation(X_B) - wp.transform_get_translation(X_A)
    length = real(0.0)
    axis = vec3(real(1.0), real(0.0), real(0.0))
    if d[0] != real(0.0) or d[1] != real(0.0) or d[2] != real(0.0):
        length = wp.length(d)
        axis = d / length
    row = RowGeometry()
    row.phi = length
    row.axis = axis
    row.angular = 0
    return row


@func
def rotation_axis_change(X_A: transform, X_B: transform, i: int, omega: vec3) -> vec3:
    """δa of `rotation_row` when B turns by ω (world axes): δQ = ½ (0, R_Aᵀω) Q."""
    q_A = wp.transform_get_rotation(X_A)
    Q = wp.quat_inverse(q_A) * wp.transform_get_rotation(X_B)
    sign = real(0.5)
    if Q[3] < real(0.0):
        sign = real(-0.5)
    turn = sign * wp.quat_rotate_inv(q_A, omega)
    v = vec3(Q[0], Q[1], Q[2])
    e = unit_axis(i)
    return wp.quat_rotate(q_A, wp.cross(Q[3] * turn + wp.cross(turn, v), e) - wp.dot(turn, v) * e)


@func
def tilt_axis_change(X_A: transform, X_B: transform, i: int, omega: vec3) -> vec3:
    """δa of `tilt_row` when B turns by ω: δb = R_Aᵀω × b."""
    q_A = wp.transform_get_rotation(X_A)
    z = vec3(real(0.0), real(0.0), real(1.0))
    b = wp.quat_rotate_inv(q_A, wp.quat_rotate(wp.transform_get_rotation(X_B), z))
    change = wp.cross(wp.quat_rotate_inv(q_A, omega), b)
    e = unit_axis(i)
    return wp.quat_rotate(q_A, change[2] * e - wp.dot(e, change) * z)
