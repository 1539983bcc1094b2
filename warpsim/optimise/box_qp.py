# SPDX-License-Identifier: Apache-2.0
"""Batches of small quadratic programs with bounds, by projected Newton.

    min_x ½ xᵀH x + gᵀx,    low ≤ x ≤ high

Sources: Bertsekas 1982; Tassa, Mansard, Todorov 2014, §III-B. Every program stops separately, so its result does not
depend on the others in the batch.
"""

import numpy as np

from warpsim.optimise.cost import total

ITERATIONS = 50
# on the gradient of the free variables, relative to |g|; a Newton step with the right free set is exact
TOLERANCE = 1e-9
ARMIJO = 1e-4
STEPS = 0.5 ** np.arange(12)  # step lengths, all tried at once


def box_qp(H: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimizers x `(batch, m)` and which variables are free `(batch, m)`.

    H `(batch, m, m)` is positive definite; g, low and high are `(batch, m)`.
    """
    x = np.clip(np.zeros_like(g), low, high)
    scale, done = TOLERANCE * np.abs(g).max(-1, initial=0.0), np.zeros(len(g), bool)
    for _ in range(ITERATIONS):
        slope = g + _times(H, x)
        free = ~(((x <= low) & (slope > 0)) | ((x >= high) & (slope < 0)))
        done = done | ((np.abs(slope) * free).max(-1, initial=0.0) <= scale)
        if done.all():
            break
        step = -masked_solve(H, slope[..., None], free)[..., 0]
        if ((x + step >= low) & (x + step <= high)).all():  # every line search below would take the whole step
            x = np.where(done[:, None], x, x + step)
            continue
        trial = np.clip(x + STEPS[:, None, None] * step, low, high)
        move = trial - x
        change = total(slope * move) + 0.5 * total(move * _times(H, move))
        good = change <= ARMIJO * total(slope * move)
        best = np.argmax(good, axis=0)
        done = done | ~good.any(0)  # rounding: no step lowers the objective further
        x = np.where(done[:, None], x, trial[best, np.arange(len(x))])
    slope = g + _times(H, x)
    return x, ~(((x <= low) & (slope > 0)) | ((x >= high) & (slope < 0)))


def masked_solve(H: np.ndarray, right: np.ndarray, free: np.ndarray) -> np.ndarray:
    """H⁻¹ right for the free variables `(batch, m, n)`; 0 in the rows of the others."""
    if free.all():
        return np.linalg.solve(H, right)
    pairs = free[:, :, None] & free[:, None, :]
    return np.linalg.solve(np.where(pairs, H, np.eye(free.shape[-1])), right * free[..., None])


def _times(H: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (H @ x[..., None])[..., 0]
