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
    """A height field and its patches, made by `terrain`.

    Attributes
    ----------
    size : tuple of float
        Half widths in x and y, height, and depth of the base [m], as `ModelBuilder.add_geom("hfield", hfield=(size,
        data))` takes them.
    data : array (rows, columns)
        Heights from 0 to 1.
    pose : array (7,)
        Pose of the geom [x y z qw qx qy qz] in the world frame [m].
    starts : array (patches, 3)
        Middles of the patches on the ground [m], kind by kind, the easier ones first.
    """

    size: tuple
    data: np.ndarray
    pose: np.ndarray
    starts: np.ndarray

    def add_to(self, builder, name: str = "ground", **options) -> int:
        """Add the ground to a scene.

        Parameters
        ----------
        builder : ModelBuilder
            The scene.
        name : str
            Name of the geom. Default: "ground".
        **options : Any
            Further arguments of `ModelBuilder.add_geom`.

        Returns
        -------
        int
            Index of the geom.

        Examples
        --------
        >>> b = ws.ModelBuilder()
        >>> ws.envs.terrain.terrain(["rough"], levels=1).add_to(b)
        0
        """
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
    """Make ground of square patches: kinds side by side along x, difficulty along y.

    Every patch has a flat middle, where episodes begin. Easier levels have a fraction of the hardest level's roughness,
    slope, step height and gaps.

    Parameters
    ----------
    kinds : sequence of str
        Kinds of patches: "flat", "rough" (noise), "slopes" (a pyramid), "steps" (a pyramid of stairs with a tread of
        0.4 m), "stones" (flat stones with gaps between them). Default: all but "flat".
    levels : int
        Levels of difficulty. Default: 4.
    side : float
        Side of a patch [m]. Default: 6.
    cell : float
        Distance of the points of the height field [m]. Default: 0.1.
    noise : float
        Roughness of the hardest level [m]. Default: 0.05.
    slope : float
        Slope of the hardest level [m/m]. Default: 0.4.
    step : float
        Step height of the hardest level [m]. Default: 0.12.
    gap : float
        Gap between stones of the hardest level [m]. Default: 0.2.
    seed : int
        The same seed gives the same ground. Default: 0.

    Returns
    -------
    Terrain
        The height field and the middles of its patches.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed.

    Examples
    --------
    >>> ground = ws.envs.terrain.terrain(["rough", "steps"], levels=3)
    >>> ground.starts.shape, ground.data.shape
    ((6, 3), (181, 121))
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
    """Observation: height of the ground around a body, relative to the body's origin, (worlds, points) [m].

    Parameters
    ----------
    body : str
        Name of the body.
    points : array (points, 2)
        Positions relative to the body [m]: forward and to the left. They turn with its heading.
    ground : str
        Name of the height field's geom, fixed to the world and level. Default: "ground".

    Notes
    -----
    An ideal scanner without occlusion. Outside of the field the ground continues at the height of its edge.

    Examples
    --------
    >>> b = ws.ModelBuilder()
    >>> _ = ws.envs.terrain.terrain(["flat"], levels=1).add_to(b)
    >>> base = b.add_body("base", pose=[0, 0, 0.5], mass=1.0, inertia=[0.1, 0.1, 0.1])
    >>> _ = b.add_joint(base, "free")
    >>> scan = ws.envs.terrain.height_scan("base", [(0.0, 0.0), (0.5, 0.0)])
    >>> task = ws.envs.Task(model=b.build(), observations={"ground": scan})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].tolist()
    [[-0.5, -0.5]]
    """

    def __init__(self, body: str, points, ground: str = "ground"):
        self.body, self.ground, self.points = body, ground, np.asarray(points, float)
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
        """Height of the ground at points, by bilinear interpolation.

        Parameters
        ----------
        xp : module
            Functions of the framework, `view.xp`.
        x : array
            x in the world frame [m].
        y : array
            y in the world frame [m].

        Returns
        -------
        array
            Heights [m].

        Examples
        --------
        The example needs an environment with ground, see `height_scan`.

        >>> scan.ground_at(view.xp, view.q[:, 0], view.q[:, 1])                # doctest: +SKIP
        """
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
    """Start: begin episodes at a random place, with a random heading.

    Parameters
    ----------
    places : array (n, 3)
        Places [m], such as `Terrain.starts`. The place is added to the position of a free joint.
    column : int
        First coordinate in q of the free joint. Default: 0.
    turned : bool
        Whether the heading is random. Default: True.

    Examples
    --------
    >>> starts = (ws.envs.terrain.start_on([(0.0, 0.0, 0.0), (5.0, 0.0, 0.2)]),)
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q}, starts=starts)
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0].shape
    (2, 15)
    """

    def __init__(self, places, column: int = 0, turned: bool = True):
        self.places, self.column, self.turned = np.asarray(places, np.float32), whole(column, "column", 0), turned
        if self.places.ndim != 2 or self.places.shape[1] != 3:
            raise ValueError(f"places has shape {self.places.shape}; give (n, 3) [m]")

    def bind(self, view) -> None:
        self.draws, self.table = [view.draw() for _ in range(2)], view.arrays.made(self.places)

    def chosen(self, view):
        """Draw the number of each world's place.

        Parameters
        ----------
        view : View
            The worlds.

        Returns
        -------
        array (worlds,) of int
            Numbers of places.

        Examples
        --------
        >>> start = ws.envs.terrain.start_on([(0.0, 0.0, 0.0)])
        >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> start.bind(view)
        >>> start.chosen(view).tolist()
        [0, 0]
        """
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
    """Start: begin episodes on ground that becomes harder with success.

    World i always has kind i mod the number of kinds, and begins at level 0. If its free joint ends an episode farther
    than `up` from its initial position, the world goes up a level; if nearer than `down`, it goes down. After the
    hardest level a random one follows.

    Parameters
    ----------
    places : array (n, 3)
        Places [m], as `Terrain.starts`: kind by kind, the easier ones first.
    levels : int
        Number of levels of each kind.
    up : float
        Distance that leads to a harder level [m].
    down : float
        Distance below which an easier level follows [m].
    column : int
        First coordinate in q of the free joint. Default: 0.
    turned : bool
        Whether the heading is random. Default: True.

    Attributes
    ----------
    level : array (worlds,) of int
        The level of each world. Checkpoints keep it; `reset(seed=)` begins at 0 again.

    Notes
    -----
    Rudin, Hoeller, Reist and Hutter, "Learning to walk in minutes using massively parallel deep reinforcement
    learning", 2022, §3.

    Examples
    --------
    >>> ground = ws.envs.terrain.terrain(["rough", "steps"], levels=3)
    >>> starts = (ws.envs.terrain.start_by_level(ground.starts, 3, up=3.0, down=1.0),)
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q}, starts=starts)
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0].shape
    (2, 15)
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
        """Update the level of the worlds that begin an episode, and give the number of each world's place.

        Parameters
        ----------
        view : View
            The worlds.

        Returns
        -------
        array (worlds,) of int
            Numbers of places.

        Examples
        --------
        The environment calls it, see `start_by_level`.

        >>> term.chosen(view)                                                  # doctest: +SKIP
        """
        if self.origin is not None and not view.seeded:
            xp, c = view.xp, self.column
            off = view.q[:, c : c + 2] - self.origin
            walked = (off * off).sum(-1) ** 0.5
            level = self.level + 1 * (walked > self.up) - 1 * (walked < self.down)
            any_level = indices(xp.floor(view.uniform(1, draw=self.draws[0])[:, 0] * self.levels))
            level = xp.where(level >= self.levels, any_level, xp.where(level < 0, 0, level))
            judged = view.beginning if view.cut is None else view.beginning & ~view.cut
            self.level = xp.where(judged, level, self.level)
        elif view.seeded:
            self.level = view.xp.where(view.beginning, 0, self.level)
        return self.kind + self.level

    def __call__(self, view, start) -> None:
        super().__call__(view, start)
        here = view.arrays.copied(start["q"][:, self.column : self.column + 2])
        self.origin = here if self.origin is None else _rows(view, view.beginning, here, self.origin)
