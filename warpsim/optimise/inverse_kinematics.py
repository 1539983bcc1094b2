# SPDX-License-Identifier: Apache-2.0
"""`reach`: inverse kinematics by damped least squares, in all worlds at once.

Sources: Wampler 1986; Nakamura and Hanafusa 1986. Each iteration solves (JᵀJ + (λ² + w²) I) δ = Jᵀ e + w² (posture ⊖ q)
with the errors e of all targets, then q ← q ⊕ δ. It costs one call of `sim.kinematics`, and one of `sim.jacobian` per
target.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import number, numbers, positive, short, whole
from warpsim.base.reprs import fields_described
from warpsim.device.threads import holds
from warpsim.model.geometry import quaternion_multiply, rotation_vector
from warpsim.model.model import JointType
from warpsim.simulator import Simulator

SMALLEST = 1e-12  # shorter steps are not scaled


@fields_described
class Reach(typing.NamedTuple):
    """Positions that `reach` found, and their errors. Targets are in the given order.

    Attributes
    ----------
    q : array (worlds, nq)
        Positions.
    position_error : array (worlds, targets)
        Distance of each body frame's origin from its target [m].
    rotation_error : array (worlds, targets)
        Angle between each body frame and its target [rad].
    """

    q: np.ndarray
    position_error: np.ndarray
    rotation_error: np.ndarray


@holds
def reach(
    sim: Simulator,
    q: Numbers,
    targets: Mapping[str, Any],
    *,
    iterations: int = 50,
    damping: float = 0.01,
    posture: Numbers | None = None,
    posture_weight: float = 0.01,
    largest_step: float = 0.3,
    mocap: Numbers | None = None,
) -> Reach:
    """Find positions at which bodies have given poses: inverse kinematics.

    Parameters
    ----------
    sim : Simulator
        The simulator, which is only read; preferably float64.
    q : array (nq,) or (worlds, nq)
        The initial guess.
    targets : dict of str or int to array (7,) or (worlds, 7)
        By name or index of a body, the pose `[x y z qw qx qy qz]` of its frame in the world frame, as `sim.kinematics`
        gives it [m].
    iterations : int
        Number of iterations. Default: 50.
    damping : float
        Damping λ of the least squares. Errors in meters and radians have the same weight; λ and w are in these units.
        Default: 0.01.
    posture : array (nq,) or (worlds, nq), optional
        Preferred positions. Default: none.
    posture_weight : float
        Weight w of the preferred positions. Default: 0.01.
    largest_step : float
        Largest change of a coordinate of v in one iteration [m, rad]. Default: 0.3.
    mocap : array (nmocap, 7) or (worlds, nmocap, 7), optional
        Poses of the mocap bodies. Default: those of the model.

    Returns
    -------
    Reach
        The last iterate, whatever its errors. Where a target is out of reach, the body ends as near as the damping
        allows. Hinges and slides stay within their ranges.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed, or the model has no body of this name.

    Notes
    -----
    Damped least squares (Wampler 1986; Nakamura and Hanafusa 1986): each iteration solves (JᵀJ + (λ² + w²) 1) δ = Jᵀe +
    w² (posture ⊖ q) and sets q ← q ⊕ δ. J is the Jacobian of the bodies' frames, e their position and rotation errors,
    δ a change in the space of v; ⊕ is `Model.displace`, ⊖ `Model.difference`.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", dtype="float64")
    >>> goal = sim.kinematics([0.2, 0.3]).numpy()[0, sim.model.body("pole")]
    >>> found = ws.reach(sim, [0.0, 0.0], {"pole": goal})
    >>> found.q.round(3).tolist(), bool(found.position_error[0, 0] < 1e-4)
    ([[0.2, 0.3]], True)
    """
    if not isinstance(sim, Simulator):
        raise ValueError(f"sim is a {type(sim).__name__}; give a Simulator")
    model = sim.model
    iterations = whole(iterations, "iterations", 0)
    damping, largest = positive(damping, "damping"), positive(largest_step, "largest_step")
    weight = number(posture_weight, "posture_weight", "it must be finite and not negative", lambda x: 0 <= x < np.inf)
    if not isinstance(targets, Mapping) or not targets:
        raise ValueError(f"targets is {short(targets)}; give a dict of bodies and poses")
    bodies = [model.body(b) if isinstance(b, str) else whole(b, "body", 0) for b in targets]
    goals = np.stack([_rows(pose, 7, sim.worlds, f"target of {b!r}") for b, pose in targets.items()], axis=1)
    goals[..., 3:] /= np.linalg.norm(goals[..., 3:], axis=-1, keepdims=True)
    q = _rows(q, model.nq, sim.worlds, "q")
    rest = None if posture is None else _rows(posture, model.nq, sim.worlds, "posture")
    low, high, at = _ranges(model)
    for _ in range(iterations):
        error = _errors(sim.kinematics(q, mocap).numpy()[:, bodies].astype(float), goals)
        jacobian = np.concatenate([sim.jacobian(q, b, mocap=mocap).numpy() for b in bodies], axis=1).astype(float)
        right = np.einsum("wri,wr->wi", jacobian, error.reshape(len(q), -1))
        left = np.einsum("wri,wrj->wij", jacobian, jacobian)
        diagonal = damping**2
        if rest is not None:
            right += weight**2 * model.difference(q, rest)
            diagonal += weight**2
        left += diagonal * np.eye(model.nv)
        delta = np.linalg.solve(left, right[..., None])[..., 0]
        most = np.abs(delta).max(axis=1, keepdims=True)
        q = model.displace(q, delta * np.minimum(1.0, largest / np.maximum(most, SMALLEST)))
        q[:, at] = np.clip(q[:, at], low, high)
    error = _errors(sim.kinematics(q, mocap).numpy()[:, bodies].astype(float), goals)
    return Reach(q, np.linalg.norm(error[..., 3:], axis=-1), np.linalg.norm(error[..., :3], axis=-1))


def _rows(values, size: int, worlds: int, label: str) -> np.ndarray:
    """A copy (worlds, size) of finite values (size,) or (worlds, size)."""
    values = numbers(values, label)
    if values.shape not in ((size,), (worlds, size)) or not np.isfinite(values).all():
        raise ValueError(f"{label} has shape {values.shape}; give finite values ({size},) or ({worlds}, {size})")
    return np.array(np.broadcast_to(values, (worlds, size)), dtype=float)


def _ranges(model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits of hinges and slides, and their indices in q."""
    kinds = np.isin(model.joint_type, (JointType.HINGE, JointType.SLIDE)) & np.asarray(model.joint_limited, bool)
    return model.joint_range[kinds, 0], model.joint_range[kinds, 1], np.asarray(model.joint_q)[kinds]


def _errors(pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """(..., 6) rotation [rad] and translation [m] from pose to goal, in world axes, as the rows of `sim.jacobian`."""
    turn = quaternion_multiply(goal[..., 3:], pose[..., 3:] * (1.0, -1.0, -1.0, -1.0))
    return np.concatenate([rotation_vector(turn), goal[..., :3] - pose[..., :3]], axis=-1)
