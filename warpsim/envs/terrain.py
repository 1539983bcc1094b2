# SPDX-License-Identifier: Apache-2.0
"""Ground for locomotion: a height field of square patches, with kinds side by side along x and difficulty along y.

Kinds: "flat", "rough" (noise), "slopes" (a pyramid), "steps" (a pyramid of stairs), "stones" (flat stones with gaps
between them). Every patch has a flat middle, where episodes begin.
"""

import dataclasses

import numpy as np

from warpsim.base.checks import choice, number, several, whole
from warpsim.envs.rotations import product, rotated
from warpsim.envs.sensing import body_index
from warpsim.envs.terms import Term, _rows, indices

KINDS = ("flat", "rough", "slopes", "steps", "stones")
MIDDLE = 1.0  # [m] side of the flat middle


@dataclasses.dataclass(frozen=True)
class Terrain:
    """A height field and its patches.

    `size` and `data` are as `ModelBuilder.add_geom("hfield", hfield=(size, data))` takes them. `pose (7,)` is the
    geom's. `starts (patches, 3)` [m] are the middles of the patches on the ground, kind by kind, the easier ones first.
    """

    size: tuple
    data: np.ndarray
    pose: np.ndarray
    starts: np.ndarray

    def add_to(self, builder, name: str = "ground", **options) -> int:
        """Add the ground to a scene; `options` are those of `ModelBuilder.add_geom`."""
        return builder.add_geom("hfield", hfield=(self.size, self.data), pose=self.pose, name=name, **options)


def terrain(
    kinds=("rough", "slopes", "steps", "stones"),
    levels: int = 4,
    *,
    side: float = 6.0,
    cell: float = 0.1,
    noise: float = 0.05,
    slope: float = 0.4,
    step: float = 0.12,
    gap: float = 0.2,
    seed: int = 0,
) -> Terrain:
    """A ground of patches of `side` [m], with points every `cell` [m].

    The hardest level has `noise` [m] of roughness, `slope` [m/m], steps of height `step` [m] and tread 0.4 m, and gaps
    of `gap` [m] between stones. Easier levels have a fraction of these. The same seed gives the same ground.
    """
    kinds = [choice(kind, "an entry of kinds", KINDS) for kind in several(kinds, "kinds", "give names")]
    levels = whole(levels, "levels", 1)
    positive = {"side": side, "cell": cell, "noise": noise, "slope": slope, "step": step, "gap": gap}
    for name, value in positive.items():
        number(value, name, "give a positive number [m]", lambda x: 0.0 < x < np.inf)
    n = round(side / cell)
    if n < 2 * MIDDLE / cell:
        raise ValueError(f"side is {side} with a cell of {cell}; a patch needs {2 * MIDDLE:g} m at least")
    rng = np.random.default_rng(seed)
    heights = np.zeros((levels * n + 1, len(kinds) * n + 1))
    x, y = np.meshgrid(*[np.arange(n + 1) * cell - side / 2] * 2, indexing="xy")
    starts = []
    for k, kind in enumerate(kinds):
        for level in range(levels):
            share = (level + 1) / levels
            patch = _patch(kind, x, y, share, {"noise": noise, "slope": slope, "step": step, "gap": gap}, side, rng)
            rows, columns = slice(level * n, level * n + n + 1), slice(k * n, k * n + n + 1)
            heights[rows, columns] = np.where(
                np.abs(patch) > np.abs(heights[rows, columns]), patch, heights[rows, columns]
            )
            middle = ((k + 0.5) * side - len(kinds) * side / 2, (level + 0.5) * side - levels * side / 2)
            starts.append([*middle, patch[n // 2, n // 2]])
    low, high = heights.min(), max(heights.max(), heights.min() + 1e-3)
    size = (len(kinds) * n * cell / 2, levels * n * cell / 2, high - low, 1.0)
    return Terrain(size, (heights - low) / (high - low), np.array([0, 0, low, 1.0, 0, 0, 0]), np.array(starts))


def _patch(kind: str, x, y, share: float, most: dict, side: float, rng) -> np.ndarray:
    """Heights of one patch, nearly 0 along its edge."""
    out = np.maximum(np.abs(x), np.abs(y))  # distance from the middle in the maximum norm
    climb = np.clip(side / 2 - 0.5 - out, 0.0, side / 2 - 0.5 - MIDDLE / 2)
    if kind == "rough":
        return np.where(out > MIDDLE / 2, rng.uniform(-1.0, 1.0, x.shape) * share * most["noise"], 0.0)
    if kind == "slopes":
        return share * most["slope"] * climb
    if kind == "steps":
        return share * most["step"] * np.round(climb / 0.4)
    if kind == "stones":
        width = 0.5
        inside = [np.abs((c + width / 2) % width - width / 2) < (width - share * most["gap"]) / 2 for c in (x, y)]
        stone = (inside[0] & inside[1]) | (out < MIDDLE / 2) | (out > side / 2 - 0.5)
        return np.where(stone, 0.0, -0.3)
    return 0.0 * x


def _ground(view, name: str):
    """The height field of a geom and its position."""
    model = view.model
    geom = model.geom(name)
    fields = [g for g in range(model.ngeom) if model.geom_type[g] == 1]
    if geom not in fields or model.geom_body[geom] >= 0 or not np.allclose(model.geom_pose[geom, 3:], [1, 0, 0, 0]):
        raise ValueError(f"geom {name!r} is no level height field that is fixed to the world")
    if any(not np.array_equal(m.geom_pose[geom], model.geom_pose[geom]) for m in view.models):
        raise ValueError(
            f"models differ in the pose of {name!r}, which a scan takes from the first; put it in one place"
        )
    field = model.hfields[fields.index(geom)]
    return field, model.geom_pose[geom, :3]


class height_scan(Term):
    """Height of the ground below points around a body, relative to the body's origin, `(worlds, points)` [m].

    An ideal scanner without occlusion. `points (points, 2)` [m] are forward and to the left of the body, and turn with
    its heading. `ground` is the geom of the height field. Outside the field the ground continues at its edge height.
    """

    def __init__(self, body: str, points, ground: str = "ground"):
        self.body, self.ground, self.points = body, ground, np.asarray(points, np.float32)
        if self.points.ndim != 2 or self.points.shape[1] != 2 or not np.isfinite(self.points).all():
            raise ValueError(f"points has shape {self.points.shape}; give (points, 2) [m]")

    def bind(self, view) -> None:
        self.index, made = body_index(view, self.body), view.arrays.made
        field, self.origin = _ground(view, self.ground)
        self.size = field.size
        self.heights = made((field.size[2] * field.data + self.origin[2]).astype(np.float32))
        self.offsets = made(np.concatenate([self.points, np.zeros((len(self.points), 1))], 1).astype(np.float32))

    def __call__(self, view):
        xp, pose = view.xp, view.pose(self.index)
        forward = rotated(
            xp, pose[:, 3:], 0.0 * pose[:, :3] + view.arrays.constant(np.array([1.0, 0.0, 0.0], np.float32))
        )
        angle = xp.arctan2(forward[:, 1], forward[:, 0])[:, None]
        c, s = xp.cos(angle), xp.sin(angle)
        at = [
            pose[:, :1] + c * self.offsets[:, 0] - s * self.offsets[:, 1],
            pose[:, 1:2] + s * self.offsets[:, 0] + c * self.offsets[:, 1],
        ]
        return self.ground_at(xp, *at) - pose[:, 2:3]

    def ground_at(self, xp, x, y):
        """Height of the ground [m] at points in world axes, by bilinear interpolation."""
        places = []
        for value, axis in ((y, 1), (x, 0)):
            count = self.heights.shape[0 if axis == 1 else 1]
            t = (value - float(self.origin[axis]) + float(self.size[axis])) * (
                (count - 1) / (2.0 * float(self.size[axis]))
            )
            t = xp.clip(t, 0.0, count - 1.0)
            i = xp.clip(xp.floor(t), 0.0, count - 2.0)
            places.append((indices(i), t - i))
        (i, a), (j, b) = places
        h = self.heights
        return (1 - a) * ((1 - b) * h[i, j] + b * h[i, j + 1]) + a * ((1 - b) * h[i + 1, j] + b * h[i + 1, j + 1])


class start_on(Term):
    """Begin episodes at a random place of `places (n, 3)` [m], with a random heading.

    The place is added to the position of the free joint whose coordinates in q begin at `column`.
    """

    def __init__(self, places, column: int = 0, turned: bool = True):
        self.places, self.column, self.turned = np.asarray(places, np.float32), whole(column, "column", 0), turned
        if self.places.ndim != 2 or self.places.shape[1] != 3:
            raise ValueError(f"places has shape {self.places.shape}; give (n, 3) [m]")

    def bind(self, view) -> None:
        self.draws, self.table = [view.draw() for _ in range(2)], view.arrays.made(self.places)

    def chosen(self, view):
        """The number of each world's place `(worlds,)`."""
        share = view.uniform(1, draw=self.draws[0])[:, 0]
        return indices(view.xp.floor(share * len(self.places)))

    def __call__(self, view, start) -> None:
        xp, c = view.xp, self.column
        q = start["q"]
        parts = [q[:, :c], q[:, c : c + 3] + self.table[self.chosen(view)], q[:, c + 3 :]]
        if self.turned:
            half = np.pi * (view.uniform(1, draw=self.draws[1]) - 0.5)
            zero = 0.0 * half
            turn = xp.concat([xp.cos(half), zero, zero, xp.sin(half)], axis=-1)
            parts[2:] = [product(xp, turn, q[:, c + 3 : c + 7]), q[:, c + 7 :]]
        start["q"] = xp.concat(parts, axis=-1)


class start_by_level(start_on):
    """Begin episodes on ground that becomes harder with success (Rudin et al., 2022, §3).

    `places` are those of `Terrain.starts`: kind by kind, the easier first, `levels` of each. World i always has kind i
    mod the number of kinds, and begins at level 0. After an episode in which its free joint came farther than `up` [m]
    from where it began it goes up a level, nearer than `down` [m] it goes down. Beyond the hardest level, a random one
    follows. `level (worlds,)` is kept in checkpoints; `reset(seed=)` begins at 0 again.
    """

    memory = ("level", "origin")

    def __init__(self, places, levels: int, up: float, down: float, column: int = 0, turned: bool = True):
        super().__init__(places, column, turned)
        self.levels = whole(levels, "levels", 1)
        if len(self.places) % self.levels:
            raise ValueError(f"there are {len(self.places)} places; {levels} levels need a multiple of {levels}")
        rule = "give a distance [m] of at least 0"
        self.up, self.down = (number(x, n, rule, lambda x: 0.0 <= x < np.inf) for n, x in (("up", up), ("down", down)))
        if self.down > self.up:
            raise ValueError(f"down is {down} and up {up}; give down <= up")

    def bind(self, view) -> None:
        super().bind(view)
        made = view.arrays.made
        self.kind = made(view.numbers % (len(self.places) // self.levels) * self.levels)
        self.level, self.origin = made(np.zeros(view.worlds, np.int64)), None

    def chosen(self, view):
        if self.origin is not None and not view.seeded:
            xp, c = view.xp, self.column
            off = view.q[:, c : c + 2] - self.origin
            walked = (off * off).sum(-1) ** 0.5
            level = self.level + 1 * (walked > self.up) - 1 * (walked < self.down)
            any_level = indices(xp.floor(view.uniform(1, draw=self.draws[0])[:, 0] * self.levels))
            level = xp.where(level >= self.levels, any_level, xp.where(level < 0, 0, level))
            self.level = xp.where(view.beginning, level, self.level)
        elif view.seeded:
            self.level = view.xp.where(view.beginning, 0, self.level)
        return self.kind + self.level

    def __call__(self, view, start) -> None:
        super().__call__(view, start)
        here = view.arrays.copied(start["q"][:, self.column : self.column + 2])
        self.origin = here if self.origin is None else _rows(view, view.beginning, here, self.origin)
