# SPDX-License-Identifier: Apache-2.0
"""The elastic force of pressure fields is the derivative of their energy U = ∫ min(p_A, p_B) dV, and does no work around loops, to rounding."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.contact.elastic_energy import elastic_energy
from tests.contact.test_patches import elastic, polygons_at, two_bodies

BALL = ["sphere", 0.05, 1e5, 0.05]
BOX = ["box", (0.1, 0.14, 0.08), 1e5, None]
TABLE = ["box", (0.3, 0.3, 0.1), 4e5, None]
RIGID = ["box", (0.3, 0.3, 0.1), None, None]
GROUND = ["half_space", None, None, None]
SOFT_GROUND = ["half_space", None, 1e5, None, 0.05]
# the two geoms, the height of a's middle above the surface of b, and how far it is turned at most
PAIRS = {
    "soft box, soft box": (BOX, TABLE, 0.055, 0.9),
    "soft box, rigid box": (BOX, RIGID, 0.05, 0.9),
    "soft box, ground": (BOX, GROUND, 0.05, 0.9),
    "rigid box, soft ground": (["box", (0.1, 0.14, 0.08), None, None], SOFT_GROUND, 0.05, 0.9),
    "ball of facets, soft box": (BALL, TABLE, 0.043, 0.9),
    "ball of facets, ground": (BALL, GROUND, 0.04, 0.9),
}
BELOW = np.array([0.0, 0.0, -0.05, 1.0, 0.0, 0.0, 0.0])  # of a table whose top is z = 0


class Loop:
    """A closed motion of a over t from 0 to 1, over faces, edges and corners: it moves by 12 mm and turns about all axes."""

    def __init__(self, name: str):
        first, second, self.height, self.turn = PAIRS[name]
        self.model = two_bodies({"a": first, "b": second})
        self.fixed = second[0] == "half_space"
        # `elastic` has the force on B of the model's pair
        b = int(self.model.pair_geom[-1, 1])
        self.sign = 1.0 if self.model.geom_names[b] == "a" else -1.0
        self.pair = self.model.geom("a"), self.model.geom("b")

    def place(self, t):
        """Positions (n, 3), rotation vectors (n, 3), and their rates."""
        w, zero = 2 * np.pi, 0 * t
        x = np.stack([0.012 * np.sin(w * t), 0.012 * np.sin(2 * w * t), self.height + 0.006 * np.cos(w * t)], axis=1)
        v = w * np.stack([0.012 * np.cos(w * t), 0.024 * np.cos(2 * w * t), -0.006 * np.sin(w * t)], axis=1)
        turn = self.turn * np.stack([np.sin(w * t + 0.3), 0.7 * np.cos(w * t), 0.5 * np.sin(2 * w * t)], axis=1)
        rate = self.turn * w * np.stack([np.cos(w * t + 0.3), -0.7 * np.sin(w * t), np.cos(2 * w * t) + zero], axis=1)
        return x, turn, v, rate

    def positions(self, t) -> np.ndarray:
        x, turn, _, _ = self.place(t)
        q = np.concatenate([x, Rotation.from_rotvec(turn).as_quat()[:, [3, 0, 1, 2]]], axis=1)
        return q if self.fixed else np.concatenate([q, np.repeat(BELOW[None], len(t), axis=0)], axis=1)

    def power(self, t) -> np.ndarray:
        """Of the elastic force on a, dW/dt."""
        x, turn, v, rate = self.place(t)
        wrench = self.sign * elastic(self.model, self.positions(t))
        return np.einsum("ni,ni->n", wrench[:, :3], v - np.cross(omega(turn, rate), x)) + np.einsum(
            "ni,ni->n", wrench[:, 3:], omega(turn, rate)
        )

    def energy(self, t: float) -> float:
        q = self.positions(np.array([t]))[0]
        return elastic_energy(
            self.model, self.pair, [q[:7], np.array([0, 0, 0, 1.0, 0, 0, 0]) if self.fixed else q[7:]]
        )

    def kinds(self, t) -> list[tuple]:
        """Which cells meet, in polygons of how many corners."""
        found, sim = polygons_at(self.model, self.positions(t))
        cells = sim._step.collision.pressure.polygons.cells.numpy()
        return [
            () if o is None else tuple(map(tuple, np.column_stack([cells[w, : len(o["count"])], o["count"]]).tolist()))
            for w, o in enumerate(found)
        ]

    def breaks(self, samples: int) -> np.ndarray:
        """Times between which the power is smooth: bisected to rounding where the kinds change."""
        t = np.linspace(0.0, 1.0, samples)
        kinds = self.kinds(t)
        low = [k for k in range(samples - 1) if kinds[k] != kinds[k + 1]]
        a, b, before = t[low], t[np.array(low) + 1], [kinds[k] for k in low]
        for _ in range(38):
            middle = (a + b) / 2
            same = np.array([x == y for x, y in zip(self.kinds(middle), before, strict=True)])
            a, b = np.where(same, middle, a), np.where(same, b, middle)
        return np.unique(np.concatenate([[0.0], (a + b) / 2, t[:: samples // 40], [1.0]]))


def omega(turn, rate) -> np.ndarray:
    """Angular velocity in world axes of rotation vectors and their rates."""
    angle = np.linalg.norm(turn, axis=1)[:, None]
    crossed = np.cross(turn, rate)
    a, b = (1 - np.cos(angle)) / angle**2, (angle - np.sin(angle)) / angle**3
    return rate + a * crossed + b * np.cross(turn, crossed)


@pytest.mark.parametrize("name", PAIRS)
def test_no_work_around_a_loop(name):
    """∮ (F·v + M·ω) dt over a loop of shifts and turns through changes of topology is 1e-12 of the work that is done and taken back;
    between two points of it the work is the difference of the energies."""
    loop = Loop(name)
    ends = loop.breaks(2000)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(ends) / 2
    t = (ends[:-1, None] + half[:, None] * (1 + nodes)).ravel()
    work = ((half[:, None] * weights) * loop.power(t).reshape(len(half), -1)).sum(axis=1)
    done = np.abs(work).sum()
    assert len(ends) > 45
    assert abs(work.sum()) < 1e-12 * done
    part = np.searchsorted(ends, 0.3)
    difference = loop.energy(0.0) - loop.energy(ends[part])
    assert abs(work[:part].sum() - difference) < 1e-12 * done
