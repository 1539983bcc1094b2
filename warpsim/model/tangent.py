# SPDX-License-Identifier: Apache-2.0
"""Positions as points of a manifold, on the host: q ⊕ δ and its inverse, in the tangent space of v.

They follow MuJoCo's `mj_integratePos` and `mj_differentiatePos` with a step of 1: free joints move along world axes,
rotations turn about body axes.
"""

import numpy as np

from warpsim.base.checks import numbers
from warpsim.model.geometry import CONJUGATE, quaternion_multiply, rotation_quaternion, rotation_vector
from warpsim.model.model import JointType, Model


def displace(model: Model, q, delta) -> np.ndarray:
    """q ⊕ δ `(..., nq)` of q `(..., nq)` and δ `(..., nv)`; leading axes broadcast."""
    q, delta = _rows(model.nq, "q", q), _rows(model.nv, "delta", delta)
    shape = np.broadcast_shapes(q.shape[:-1], delta.shape[:-1])
    moved = np.array(np.broadcast_to(q, (*shape, model.nq)))
    plain, turning = tangent_coordinates(model)
    if plain:
        i, j = np.array(plain).T
        moved[..., i] += delta[..., j]
    for i, j in turning:
        turn = rotation_quaternion(delta[..., j : j + 3])
        moved[..., i : i + 4] = quaternion_multiply(moved[..., i : i + 4], turn)
    return moved


def difference(model: Model, start, end) -> np.ndarray:
    """δ `(..., nv)` with start ⊕ δ = end, both `(..., nq)`."""
    start, end = np.broadcast_arrays(_rows(model.nq, "start", start), _rows(model.nq, "end", end))
    delta = np.zeros((*start.shape[:-1], model.nv))
    plain, turning = tangent_coordinates(model)
    if plain:
        i, j = np.array(plain).T
        delta[..., j] = end[..., i] - start[..., i]
    for i, j in turning:
        turn = quaternion_multiply(CONJUGATE * start[..., i : i + 4], end[..., i : i + 4])
        delta[..., j : j + 3] = rotation_vector(turn)
    return delta


def _rows(width: int, name: str, values) -> np.ndarray:
    array = numbers(values, name)
    if array.ndim == 0 or array.shape[-1] != width:
        raise ValueError(f"{name} has shape {array.shape}; its last axis must be {width}")
    return array


def tangent_coordinates(model: Model) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(coordinate, dof) pairs of additive coordinates, and of the first entries of quaternions and their rotations."""
    plain, turning = [], []
    for kind, i, j in zip(model.joint_type.tolist(), model.joint_q.tolist(), model.joint_v.tolist(), strict=True):
        moving = {JointType.FREE: 3, JointType.BALL: 0}.get(JointType(kind), 1)
        plain += [(i + k, j + k) for k in range(moving)]
        if kind in (JointType.FREE, JointType.BALL):
            turning.append((i + moving, j + moving))
    return plain, turning
