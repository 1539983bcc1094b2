# SPDX-License-Identifier: Apache-2.0
"""Which part of a cost the controls never reach: bodies that are in it and that nothing driven touches.

The derivative of a motion with respect to its controls is exactly zero for such a body, whatever the horizon, and an
optimizer of controls converges with it unmoved. The sensitivities' pattern of zeros runs forward through the Jacobians,

    x_{k+1} depends on u where A_k ∂x_k/∂u or B_k has an entry that is not zero,

and is compared with that of the residuals. A residual that depends on a reached coordinate or on a control as well (the
distance from a hand to a body at rest) can be lowered, and does not count.
"""

import numpy as np

from warpsim.base.checks import listed
from warpsim.optimise.cost import Cost, derivative, residuals

SHARE = 1e-6  # of the cost: less than this in residuals out of reach is none


def notes_of_unreached(model, cost: Cost, A, B, q, v, u, value) -> tuple[str, ...]:
    """Per world a sentence that names the bodies out of reach on which the cost depends, or "".

    A `(knots, worlds, 2nv, 2nv)`, B `(knots, worlds, 2nv, nu)`: Jacobians of the motion q, v `(knots + 1, worlds, n)`
    under u `(knots, worlds, nu)`. `value (worlds,)`: its cost.
    """
    reached = reach(A, B)
    if reached.all():
        return ("",) * len(value)
    lost, blamed = np.zeros(len(value)), np.zeros(reached.shape, bool)
    parts = []
    if cost.running is not None:
        parts.append((cost.running, cost.running_jacobian, "running", (q[:-1], v[:-1], u)))
    if cost.terminal is not None:
        parts.append((cost.terminal, cost.terminal_jacobian, "terminal", (q[-1:], v[-1:])))
    for function, jacobian, name, point in parts:
        if name == "terminal":
            point = tuple(x[0] for x in point)
        r, s = residuals(function, name, point)
        J, slope = derivative(model, function, jacobian, name, point)
        rows = np.concatenate([J, slope[..., None, :]], axis=-2) != 0
        share = np.concatenate([0.5 * r * r, np.where(s is None, 0.0, np.inf) * np.ones((*r.shape[:-1], 1))], axis=-1)
        rows, share = (x if name == "running" else x[None] for x in (rows, share))
        beyond = np.concatenate([~reached, np.zeros((len(value), rows.shape[-1] - reached.shape[1]), bool)], axis=-1)
        out = (rows & beyond[:, None]).any(axis=-1) & ~(rows & ~beyond[:, None]).any(axis=-1)
        lost += np.where(out, share, 0.0).sum(axis=(0, -1))
        counts = out & (share > 0)
        blamed |= (rows & counts[..., None]).any(axis=(0, -2))[:, : reached.shape[1]] & ~reached
    out_of_reach = lost > SHARE * np.abs(value)
    return tuple(_note(model, row) if bad else "" for row, bad in zip(blamed, out_of_reach, strict=True))


def reach(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Coordinates of (δq, δv) that some control ever changes `(worlds, 2nv)`."""
    now = np.zeros(A.shape[1:3], bool)
    ever = now.copy()
    for A_k, B_k in zip(A, B, strict=True):
        now = ((A_k != 0) & now[:, None]).any(axis=-1) | (B_k != 0).any(axis=-1)
        ever |= now
    return ever


def _note(model, blamed: np.ndarray) -> str:
    dofs = np.flatnonzero(blamed.reshape(2, model.nv).any(axis=0))
    joints = [max(np.flatnonzero(model.joint_v <= dof), key=lambda j: model.joint_v[j]) for dof in dofs]
    names = listed(dict.fromkeys(model.body_names[model.joint_body[j]] for j in joints))
    return (
        f"the controls never reach {names}, on which the cost depends: no contact of the motion leads there, and its "
        "gradient cannot know of it; give the simulator contact_gradient=ws.GradientFromDistance(...), or start from "
        "the plan of ws.cem"
    )
