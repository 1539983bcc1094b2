# SPDX-License-Identifier: Apache-2.0
"""Cameras and lidars on bodies, by ray casting: every pixel of every world in one launch.

An image is observed as one flat row per world, `(worlds, rows · columns · channels)`. A camera looks along -z of its
pose with +y up, as in MuJoCo, USD and OpenGL. A lidar's angles are about z of its pose, from x. The pose `FORWARD`
makes a camera look along x of the body, with z up.
"""

import math

import numpy as np

from warpsim.base.checks import choice, number, numbers, short, whole
from warpsim.envs.sensing import body_index
from warpsim.envs.terms import Term
from warpsim.model.geometry import rotation_matrix

FORWARD = (0.0, 0.0, 0.0, 0.5, 0.5, -0.5, -0.5)
HERE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
CHANNELS = {"depth": 1, "segmentation": 1, "normals": 3, "rgb": 3}
SUN = np.array([0.3, -0.5, 0.81])  # direction to the light, world axes
AMBIENT, SKY = 0.35, np.array([0.6, 0.75, 0.95])


def _pose(pose, label: str) -> tuple[np.ndarray, np.ndarray]:
    values = numbers(pose, label)
    if values.shape != (7,) or not np.isfinite(values).all() or abs(np.linalg.norm(values[3:]) - 1.0) > 1e-3:
        raise ValueError(f"{label} is {short(pose)}; give [x y z qw qx qy qz] with a unit quaternion")
    return values[:3], rotation_matrix(values[3:] / np.linalg.norm(values[3:]))


class _Rays(Term):
    """Rays fixed in a body, or in the world if the body is "world"."""

    def __init__(self, body: str, pose, directions: np.ndarray, reach: float, ignore, geoms):
        self.body, self.pose, self.ignore, self.geoms = body, pose, ignore, geoms
        self.reach = number(reach, "reach", "give a positive distance [m]", lambda x: 0.0 < x < math.inf)
        self.origin, self.rotation = _pose(pose, "pose")
        self.directions = directions @ self.rotation.T

    def bind(self, view) -> None:
        body = None if self.body == "world" else body_index(view, self.body)
        ignore = ([] if body is None else [self.body]) if self.ignore is None else self.ignore
        options = {"max_distance": self.reach, "geoms": self.geoms, "ignore": ignore, "body": body}
        origin = np.broadcast_to(self.origin, self.directions.shape)
        self.sensor = view.sim.ray_sensor(origin, self.directions, **options)

    def __deepcopy__(self, memo):
        new = type(self).__new__(type(self))
        new.__dict__ = {name: value for name, value in self.__dict__.items() if name != "sensor"}
        return new

    def look(self, view):
        """Cast the rays.

        Parameters
        ----------
        view : View
            The worlds.

        Returns
        -------
        distance : array (worlds, rays)
            Distances [m]; `reach` without a hit.
        geom : array (worlds, rays) of int
            Index of the geom; −1 without a hit.
        normal : array (worlds, rays, 3)
            Normals in world axes; 0 without a hit.

        Examples
        --------
        The environment calls it where the term is evaluated.

        >>> distance, geom, normal = term.look(view)                           # doctest: +SKIP
        """
        hits = view._once(("rays", id(self)), lambda: [view.arrays.of(x) for x in self.sensor(view.state)])
        distance, geom, normal = hits
        return view.xp.where(geom >= 0, distance, self.reach), geom, normal


class lidar(_Rays):
    """Observation: distances along rows of rays from a body, (worlds, channels · columns) [m], from the lowest row up.

    Parameters
    ----------
    body : str
        Name of the body, or "world".
    columns : int
        Rays per row. Default: 64.
    channels : int
        Rows. Default: 1.
    horizontal : (float, float)
        First and last angle of a row [degrees], about the z axis of the pose and from its x axis. A full turn omits its
        last ray, which would repeat the first. Default: (−180, 180).
    vertical : (float, float)
        Elevation of the first and of the last row [degrees]. Default: (0, 0).
    pose : array (7,)
        Pose of the lidar in the body's frame [x y z qw qx qy qz]. Default: the frame itself.
    reach : float
        Largest distance, and the value without a hit [m]. Default: 10.
    ignore : sequence of str, optional
        Bodies that are not seen. Default: the body that carries the lidar.
    geoms : sequence, optional
        The geoms that are seen, as in `Simulator.ray_sensor`. Default: all.

    Examples
    --------
    >>> scan = ws.envs.cameras.lidar("torso", columns=16, vertical=(-30.0, 0.0), channels=2)
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"scan": scan})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].shape
    (1, 32)
    """

    def __init__(
        self,
        body: str,
        columns: int = 64,
        channels: int = 1,
        *,
        horizontal=(-180.0, 180.0),
        vertical=(0.0, 0.0),
        pose=HERE,
        reach: float = 10.0,
        ignore=None,
        geoms=None,
    ):
        columns, channels = whole(columns, "columns", 1), whole(channels, "channels", 1)
        spans = {name: numbers(x, name) for name, x in (("horizontal", horizontal), ("vertical", vertical))}
        for name, span in spans.items():
            if span.shape != (2,) or not np.isfinite(span).all() or span[0] > span[1]:
                raise ValueError(f"{name} is {short(span.tolist())}; give (first, last) [degrees]")
        self.columns, self.channels, self.horizontal, self.vertical = columns, channels, horizontal, vertical
        turn = spans["horizontal"][1] - spans["horizontal"][0] >= 360.0
        across = np.radians(np.linspace(*spans["horizontal"], columns, endpoint=not turn))
        up = np.radians(np.linspace(*spans["vertical"], channels))[:, None]
        parts = [np.cos(up) * np.cos(across), np.cos(up) * np.sin(across), np.sin(up) + 0.0 * across]
        super().__init__(body, pose, np.stack(parts, -1).reshape(-1, 3), reach, ignore, geoms)

    def __call__(self, view):
        return self.look(view)[0]


class camera(_Rays):
    """Observation: an image, (worlds, height · width · channels), row by row from the top left.

    Parameters
    ----------
    body : str
        Name of the body, or "world".
    width : int
        Columns of pixels. Default: 32.
    height : int
        Rows of pixels. Default: 32.
    what : str
        "depth" (default): distance along the camera's axis [m], `reach` without a hit. "segmentation": index of the
        geom, −1 without a hit. "normals": in world axes, 0 without a hit. "rgb": the geoms' colors in the light of the
        sky and a sun, 0 to 1.
    fov : float
        Vertical field of view [degrees]. Default: 60.
    pose : array (7,)
        Pose of the camera in the body's frame [x y z qw qx qy qz]. It looks along −z of its pose, +y up, as in MuJoCo,
        USD and OpenGL. Default: `FORWARD`, along x of the body with z up.
    reach : float
        Largest distance [m]. Default: 10.
    ignore : sequence of str, optional
        Bodies that are not seen. Default: the body that carries the camera.
    geoms : sequence, optional
        The geoms that are seen, as in `Simulator.ray_sensor`. Default: all.

    Examples
    --------
    >>> eye = ws.envs.cameras.camera("torso", 8, 6, what="rgb")
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"eye": eye})
    >>> observation, _ = ws.envs.VectorEnv(task, 1, device="cpu").reset()
    >>> eye.picture(observation).shape
    (1, 6, 8, 3)
    """

    def __init__(
        self,
        body: str,
        width: int = 32,
        height: int = 32,
        *,
        what: str = "depth",
        fov: float = 60.0,
        pose=FORWARD,
        reach: float = 10.0,
        ignore=None,
        geoms=None,
    ):
        self.what = choice(what, "what", tuple(CHANNELS))
        self.shape = (whole(height, "height", 1), whole(width, "width", 1), CHANNELS[what])
        number(fov, "fov", "give an angle between 0 and 180 degrees", lambda x: 0.0 < x < 180.0)
        self.width, self.height, self.fov = width, height, fov
        tangent = math.tan(math.radians(fov) / 2)
        y = tangent * (1.0 - (2.0 * np.arange(height) + 1.0) / height)
        x = tangent * width / height * ((2.0 * np.arange(width) + 1.0) / width - 1.0)
        rays = np.stack(np.broadcast_arrays(x[None], y[:, None], -1.0), -1).reshape(-1, 3)
        self.along = 1.0 / np.linalg.norm(rays, axis=-1)  # depth per distance along the ray
        super().__init__(body, pose, rays, reach, ignore, geoms)

    def bind(self, view) -> None:
        if self.what == "rgb" and any(not np.array_equal(m.geom_rgba, view.model.geom_rgba) for m in view.models):
            raise ValueError(
                "models differ in geom_rgba, which a camera takes from the first; give them the same colours"
            )
        super().bind(view)
        made, dtype = view.arrays.made, view.sim.dtype
        self._along, self._sun = made(self.along.astype(dtype)), made((SUN / np.linalg.norm(SUN)).astype(dtype))
        self._colours = made(np.concatenate([view.model.geom_rgba[:, :3], SKY[None]]).astype(dtype))

    def __call__(self, view):
        distance, geom, normal = self.look(view)
        xp = view.xp
        if self.what == "depth":
            return xp.where(geom >= 0, distance * self._along, self.reach)
        if self.what == "segmentation":
            return view.arrays.floats(geom, view.sim.dtype)
        if self.what == "normals":
            return normal.reshape(view.worlds, -1)
        light = AMBIENT + (1.0 - AMBIENT) * xp.clip((normal * self._sun).sum(-1), 0.0, 1.0)
        light = xp.where(geom >= 0, light, 1.0)[..., None]
        return (self._colours[geom] * light).reshape(view.worlds, -1)

    def picture(self, values) -> np.ndarray:
        """Turn the term's values into images.

        Parameters
        ----------
        values : array (worlds, height · width · channels)
            Values of the term.

        Returns
        -------
        array (worlds, height, width, channels)
            The images.

        Examples
        --------
        >>> ws.envs.cameras.camera("torso", 8, 6).picture(np.zeros((2, 48))).shape
        (2, 6, 8, 1)
        """
        return np.asarray(values).reshape(-1, *self.shape)
