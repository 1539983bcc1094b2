# SPDX-License-Identifier: Apache-2.0
"""How actuator laws s change with controls, activations and the state.

From columns ∂r/∂s, these kernels fill those of (q, v0, activation, u). The law of an actuator depends only on its own
control, activation, length and velocity (`kernels/forces/activation.py`, `muscle.py`). One adjoint of all laws, seeded
with a component of s, therefore gives the slopes of all actuators.
"""

import warp as wp

from ..forces.muscle import Muscles
from ..real import func, kernel, real, struct


@struct
class LawSlopes:
    """∂s/∂x of every actuator, (worlds, nu, 3), and the slopes of the next activations."""

    control: wp.array3d(dtype=real)
    activation: wp.array3d(dtype=real)
    length: wp.array3d(dtype=real)
    velocity: wp.array3d(dtype=real)
    following_control: wp.array2d(dtype=real)  # (worlds, nu)
    following_activation: wp.array2d(dtype=real)  # (worlds, na)


@kernel
def seed_law(component: int, law_bar: wp.array3d(dtype=real)):
    """Seed the adjoint of one component of every law. Launch over (worlds, nu)."""
    w, a = wp.tid()
    for i in range(3):
        law_bar[w, a, i] = real(0.0)
    law_bar[w, a, component] = real(1.0)


@kernel
def keep_law_slopes(
    component: int,
    index: wp.array(dtype=int),
    control_bar: wp.array2d(dtype=real),
    activation_bar: wp.array2d(dtype=real),
    length_bar: wp.array2d(dtype=real),
    velocity_bar: wp.array2d(dtype=real),
    # out
    slopes: LawSlopes,
):
    """Keep the gradients of one component of every law as slopes. Launch over (worlds, nu)."""
    w, a = wp.tid()
    slopes.control[w, a, component] = control_bar[w, a]
    slopes.activation[w, a, component] = real(0.0)
    if index[a] >= 0:
        slopes.activation[w, a, component] = activation_bar[w, index[a]]
    if length_bar.shape[1] > 0:
        slopes.length[w, a, component] = length_bar[w, a]
        slopes.velocity[w, a, component] = velocity_bar[w, a]


@func
def add_column(factor: real, source: int, target: int, w: int, X: wp.array3d(dtype=real)):
    """X[:, target] += factor X[:, source]."""
    if factor != real(0.0):
        for d in range(X.shape[1]):
            X[w, d, target] = X[w, d, target] + factor * X[w, d, source]


@kernel
def law_columns(
    index: wp.array(dtype=int),
    muscles: Muscles,
    has_lengths: int,
    slopes: LawSlopes,
    first_law: int,
    first_control: int,
    # in and out
    X: wp.array3d(dtype=real),
):
    """Add to the columns of q, v0, activations and controls what they change through the laws. Launch over worlds."""
    w = wp.tid()
    nv = X.shape[1]
    for a in range(index.shape[0]):
        for i in range(3):
            law = first_law + 3 * a + i
            add_column(slopes.control[w, a, i], law, first_control + a, w, X)
            if index[a] >= 0:
                add_column(slopes.activation[w, a, i], law, 2 * nv + index[a], w, X)
            if has_lengths != 0:
                for k in range(muscles.size[a]):
                    dof = muscles.dof[a, k]
                    add_column(slopes.length[w, a, i] * muscles.moment[a, k], law, dof, w, X)
                    add_column(slopes.velocity[w, a, i] * muscles.moment[a, k], law, nv + dof, w, X)


@kernel
def activation_rows(
    index: wp.array(dtype=int),
    slopes: LawSlopes,
    first_row: int,
    # out
    A: wp.array3d(dtype=real),
    B: wp.array3d(dtype=real),
):
    """Rows of the next activations, which depend only on their own control and activation. Launch over (worlds, nu)."""
    w, a = wp.tid()
    if index[a] >= 0:
        row = first_row + index[a]
        A[w, row, row] = slopes.following_activation[w, index[a]]
        B[w, row, a] = slopes.following_control[w, a]
