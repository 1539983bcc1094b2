# SPDX-License-Identifier: Apache-2.0
"""Dry friction that reverses inside a step: the motion, and its derivatives.

A joint that slides at speed v > 0 and turns around decelerates by a₁ = τ + F before v = 0, and accelerates by
a₂ = τ - F after it, τ being all that acts on it but friction. The instant of the reversal moves with v, so that a
deviation changes by the saltation matrix (Aizerman & Gantmacher 1958; Leine & Nijmeijer 2004, §7.1)

    δv⁺ = δv⁻ - (1 - ρ) m δv⁻_d / m_d,    ρ = a₂ / a₁,    m = M⁻¹ e_d,    δq⁺ = δq⁻

The step that holds the reversal has another derivative: either friction changes its direction in it (ρ = 1), or the
joint rests for this one step (ρ = 0). Both are derivatives of the step, but only their mean over all phases of the
reversal in the step is that of the motion, at any step size. `corrected` puts ρ in place.

The steps themselves err by O(h) at a reversal, since friction has one direction in a step. `Reversals` mends this: from
the accelerations of the steps before and after, the reversal is at t₁ = -v / a₁ and the motion is v + a₁ t₁ +
a₂ (t - t₁). What remains is O(h²) as long as forces change by O(h) from step to step.
"""

from collections import deque

import numpy as np

REST = 5e-3  # share of the change of velocity in a step; a joint that rests creeps at less
EARLY = 1.05  # a reversal is in a step if it is at most this share of the step after its beginning
STUCK = 1e-3  # share of a sliding joint's sensitivity to its friction; one that is stuck has none


def corrected(A: np.ndarray, slope: np.ndarray, v: np.ndarray, friction: np.ndarray) -> np.ndarray:
    """Jacobians of all steps of a motion, with saltation matrices in the steps where a joint's friction reverses.

    Parameters
    ----------
    A : array
        Jacobians `(steps, worlds, n, n)` in the order δq, δv.
    slope : array
        Derivatives of the next states with respect to friction `(steps, worlds, n, nv)`.
    v : array
        Velocities `(steps + 1, worlds, nv)`.
    friction : array
        Dry friction `(worlds, nv)` of all degrees of freedom.
    """
    nv = v.shape[-1]
    found, dofs = A.copy(), range(nv)
    own = slope[:, :, [nv + d for d in dofs], dofs]  # -(direction of sliding) h w
    slides = np.abs(own) > STUCK * np.abs(own).max(axis=0, initial=0.0)
    way = np.where(slides, -np.sign(own), 0.0)
    before, here, after = way[:-2], way[1:-1], way[2:]
    passes, rests = before * here < 0, (here == 0) & (before * after < 0)
    slowed = -before * (v[1:-2] - v[:-3])  # h a₁
    rho = np.clip(1.0 - 2.0 * friction * np.abs(own[:-2]) / np.where(slowed > 0, slowed, np.inf), 0.0, 1.0)
    for k, w in np.argwhere(rests.any(axis=-1)):
        found[k + 1, w] = A[k, w]  # the step before, in which the joint slides
    for k, w, d in np.argwhere((passes | rests) & (slowed > 0)):
        direction = slope[k, w, nv : 2 * nv, d] / own[k, w, d]
        change = (1.0 - rho[k, w, d]) * found[k + 1, w][:, nv : 2 * nv] @ direction
        found[k + 1, w][:, nv + d] -= change
    return found


class Reversals:
    """Mends the states of a motion, step by step, after friction has reversed in a joint.

    A joint that reverses ends one step on the other side of v = 0, or rests at the end of one step. Either is known
    when the joint slides at the end of a step on the other side.
    """

    def __init__(self, model, h: float, q: np.ndarray, v: np.ndarray):
        self.model, self.h = model, h
        self.past = deque([(q.astype(float), v.astype(float))], maxlen=4)

    def mended(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The next state q `(worlds, nq)`, v `(worlds, nv)`, or None where it is the given one."""
        self.past.append((q.astype(float), v.astype(float)))
        if len(self.past) < self.past.maxlen:
            return None
        speeds = [past[1] for past in self.past]
        later = self._found(*speeds[1:]), self._found(speeds[0], speeds[1], speeds[3])
        rests = np.abs(speeds[2]) <= REST * np.abs(speeds[2] - speeds[1])
        events = [(2, w, d) for w, d in np.argwhere(later[0] & ~rests)]
        events += [(1, w, d) for w, d in np.argwhere(later[1] & rests)]
        if not events:
            return None
        q, v = (x.copy() for x in self.past[-1])
        dq = np.zeros_like(v)
        for at, w, d in events:
            v[w], dq[w] = self._after(at, w, d)
        self.past[-1] = self.model.displace(q, dq), v
        return self.past[-1]

    @staticmethod
    def _found(before: np.ndarray, start: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Joints that slid to `start`, would be at rest within a step, and slide the other way now."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(before != start, start / (before - start), np.inf)
        return (start * now < 0) & (before * start > 0) & (steps > 0) & (steps <= EARLY)

    def _after(self, at: int, w: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Velocity now, and the change of position, of a world whose joint d slid one way until the state `at`."""
        h, (q0, v0), (_, earlier) = self.h, self.past[at], self.past[at - 1]
        (q1, v1), (_, before_last) = self.past[3], self.past[2]
        a1, a2, time = (v0[w] - earlier[w]) / h, (v1[w] - before_last[w]) / h, (3 - at) * h
        t1 = min(-v0[w, d] / a1[d], time)
        rest, middle = time - t1, v0[w] + a1 * t1
        moved = 0.5 * t1 * (v0[w] + middle) + rest * (middle + 0.5 * a2 * rest)
        return middle + a2 * rest, moved - self.model.difference(q0[w : w + 1], q1[w : w + 1])[0]
