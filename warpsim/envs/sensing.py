# SPDX-License-Identifier: Apache-2.0
"""Terms of bodies: poses, velocities, inertial units, contact.

Bodies are given by name; frames are "world" or "body" (the body's own axes). An inertial unit measures angular
velocity, and acceleration minus gravity, in its own axes, as a real one does.
"""

import numpy as np

from warpsim.base.checks import choice, listed, number, short
from warpsim.envs.rotations import cross, norm, product, rotated, rotated_back, summed
from warpsim.envs.terms import Term, _rows
from warpsim.model.sensor_types import SensorType

FRAMES = ("body", "world")


def body_index(view, name) -> int:
    """Find the index of a body, with an error that lists the names.

    Parameters
    ----------
    view : View
        The worlds.
    name : str
        Name of the body.

    Returns
    -------
    int
        Index of the body.

    Raises
    ------
    ValueError
        The model has no such body.

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
    >>> ws.envs.sensing.body_index(ws.envs.VectorEnv(task, 1, device="cpu").view, "pole")
    1
    """
    if not isinstance(name, str) or name not in view.model.body_names:
        raise ValueError(f"no body {short(name)} in model {view.model.name!r}; it has: {listed(view.model.body_names)}")
    return view.model.body(name)


def body_position(body: str):
    """Observation: origin of a body frame in the world frame, (worlds, 3) [m].

    Parameters
    ----------
    body : str
        Name of the body.

    Returns
    -------
    term
        A term of (worlds, 3).

    Examples
    --------
    >>> observations = {"torso": ws.envs.sensing.body_position("torso")}
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations=observations)
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].shape
    (1, 3)
    """
    return lambda s: s.pose(body_index(s, body))[:, :3]


def body_orientation(body: str):
    """Observation: orientation of a body frame in the world frame, (worlds, 4) as [qw qx qy qz].

    Parameters
    ----------
    body : str
        Name of the body.

    Returns
    -------
    term
        A term of (worlds, 4).

    Examples
    --------
    >>> observations = {"torso": ws.envs.sensing.body_orientation("torso")}
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations=observations)
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].tolist()
    [[1.0, 0.0, 0.0, 0.0]]
    """
    return lambda s: s.pose(body_index(s, body))[:, 3:]


def height(body: str):
    """Observation: z of a body frame's origin, (worlds,) [m].

    Parameters
    ----------
    body : str
        Name of the body.

    Returns
    -------
    term
        A term of (worlds,).

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"z": ws.envs.sensing.height("torso")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].round(2).shape
    (1, 1)
    """
    return lambda s: s.pose(body_index(s, body))[:, 2]


def _velocity(name: str, body: str, frame: str, columns: slice):
    """A term of some columns of a body's velocity, in a frame; `name`: of the function that makes it."""
    choice(frame, "frame", FRAMES)

    def term(s):
        b = body_index(s, body)
        if frame == "world":
            return s.velocity(b)[:, columns]
        return _in_body(s, b, f"velocity {columns}", lambda: s.velocity(b)[:, columns])

    term.__qualname__ = f"{name}.<locals>.term"  # as `describe` reads it
    return term


def _in_body(s, body: int, name: str, vector):
    """A vector in a body's axes, copied; `name`: what it is. Several terms of a task read the same ones."""

    def make():
        return rotated_back(s.xp, s.pose(body)[:, 3:], vector())

    if s.differentiable:  # gradients of one array for all terms would be added in another order
        return make()
    return s.arrays.copied(s._once((name, body), make))


def linear_velocity(body: str, frame: str = "body"):
    """Observation: velocity of a body frame's origin, (worlds, 3) [m/s].

    Parameters
    ----------
    body : str
        Name of the body.
    frame : str
        Axes: "body" (default), the body's own, or "world".

    Returns
    -------
    term
        A term of (worlds, 3).

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"v": ws.envs.sensing.linear_velocity("torso")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].tolist()
    [[0.0, 0.0, 0.0]]
    """
    return _velocity("linear_velocity", body, frame, slice(3, None))


def angular_velocity(body: str, frame: str = "body"):
    """Observation: angular velocity of a body, (worlds, 3) [rad/s].

    Parameters
    ----------
    body : str
        Name of the body.
    frame : str
        Axes: "body" (default), the body's own, or "world".

    Returns
    -------
    term
        A term of (worlds, 3).

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"w": ws.envs.sensing.angular_velocity("torso")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].tolist()
    [[0.0, 0.0, 0.0]]
    """
    return _velocity("angular_velocity", body, frame, slice(3))


def projected_gravity(body: str):
    """Observation: direction of gravity in a body's axes, (worlds, 3). It is (0, 0, −1) where the body is upright.

    Parameters
    ----------
    body : str
        Name of the body.

    Returns
    -------
    term
        A term of (worlds, 3).

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"g": ws.envs.sensing.projected_gravity("torso")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].round(6).tolist()
    [[0.0, 0.0, -1.0]]
    """

    def term(s):
        b = body_index(s, body)

        def down():
            gravity = s.parameter("gravity") * s.xp.ones_like(s.pose(b)[:, :3])
            return gravity / norm(gravity)[:, None]

        return _in_body(s, b, "down", down)

    return term


def displacement(a: str, b: str):
    """Observation: vector from one body's origin to another's in world axes, (worlds, 3) [m].

    Parameters
    ----------
    a : str
        Name of the body that the vector begins at.
    b : str
        Name of the body that it ends at.

    Returns
    -------
    term
        A term of (worlds, 3).

    Examples
    --------
    >>> observations = {"x": ws.envs.sensing.displacement("cart", "pole")}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations=observations)
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].round(2).shape
    (1, 3)
    """
    return lambda s: s.pose(body_index(s, b))[:, :3] - s.pose(body_index(s, a))[:, :3]


def _forces_on(s, bodies):
    """Net contact forces on bodies `(worlds, n, 3)`."""
    return s.contact_force[:, s.arrays.constant(np.array([body_index(s, b) for b in bodies], int))]


def contact_forces(*bodies: str):
    """Observation: net contact forces on bodies in the last physics step, world axes, (worlds, 3 n) [N].

    Parameters
    ----------
    *bodies : str
        Names of the n bodies.

    Returns
    -------
    term
        A term of (worlds, 3 n).

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"f": ws.envs.sensing.contact_forces("torso")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].tolist()
    [[0.0, 0.0, 0.0]]
    """
    return lambda s: _forces_on(s, bodies).reshape(s.worlds, -1)


def touches(*bodies: str, above: float = 1.0):
    """Observation: whether bodies touch something, (worlds, n) of 0 and 1.

    Parameters
    ----------
    *bodies : str
        Names of the n bodies.
    above : float
        Force above which a body counts as touching: its net contact force in the last physics step [N]. Default: 1.

    Returns
    -------
    term
        A term of (worlds, n).

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"down": ws.envs.sensing.touches("torso")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].tolist()
    [[0.0]]
    """
    number(above, "above", "give a force [N] of at least 0", lambda x: x >= 0.0)

    def term(s):
        force = s._once(("contact forces", bodies), lambda: norm(_forces_on(s, bodies)))
        return s.xp.where(force > above, 1.0, 0.0)

    return term


class sensor(Term):
    """Observation: values of the model's sensors, concatenated (docs/sensors.md).

    Sensors of accelerations and forces read the last physics step, and 0 where an episode begins.

    Parameters
    ----------
    *names : str
        Names of sensors. Default: all.

    Examples
    --------
    >>> b = ws.ModelBuilder()
    >>> _ = b.add_model(ws.load(ws.robots.path("cartpole")))
    >>> _ = b.add_sensor("jointpos", "pivot", name="encoder")
    >>> task = ws.envs.Task(model=b.build(), observations={"encoder": ws.envs.sensing.sensor("encoder")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].tolist()
    [[0.0]]
    """

    def __init__(self, *names: str):
        self.names = names

    def bind(self, view) -> None:
        model = view.model
        if not model.nsensor:
            raise ValueError(f"model {model.name!r} has no sensors")
        missing = [name for name in self.names if name not in model.sensor_names]
        if missing:
            raise ValueError(
                f"no sensor {short(missing[0])} in model {model.name!r}; it has: {listed(model.sensor_names)}"
            )
        self.names = self.names or model.sensor_names
        bad = [n for n in self.names if model.sensor_type[model.sensor_names.index(n)] == SensorType.UNAVAILABLE]
        if bad:
            raise ValueError(
                f"sensor {bad[0]!r} of model {model.name!r} is not evaluated (see model.report); name the others"
            )
        self.columns = np.concatenate([np.arange(model.nsensordata)[model.sensor(name)] for name in self.names])

    def __call__(self, view):
        return view.sensors[:, view.arrays.constant(self.columns)]


class air_time(Term):
    """Reward: Σ (t − wanted) over the feet that land in this action, where t is a foot's air time, (worlds,) [s].

    The air time is the time since the foot's last contact.

    Parameters
    ----------
    *bodies : str
        Names of the feet's bodies.
    wanted : float
        Air time above which a landing is rewarded, and below which it is penalized [s]. Default: 0.
    above : float
        Net contact force above which a foot counts as touching [N]. Default: 1.

    Examples
    --------
    >>> rewards = {"air": (0.5, ws.envs.sensing.air_time("torso", wanted=0.2))}
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q}, rewards=rewards)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    """

    memory = ("time", "found")

    def __init__(self, *bodies: str, wanted: float = 0.0, above: float = 1.0):
        self.bodies, self.wanted, self.above = bodies, float(wanted), above
        self.count, self.touch = len(bodies), touches(*bodies, above=above)

    def bind(self, view) -> None:
        self.time = view.arrays.made(np.zeros((view.worlds, self.count), np.float32))
        self.found = self.time.sum(-1)

    def reset(self, view, mask) -> None:
        self.time, self.found = view.xp.where(mask[:, None], 0.0, self.time), view.xp.where(mask, 0.0, self.found)

    def __call__(self, view):
        if self.first(view):
            down = self.touch(view) > 0.5
            landed = down & (self.time > 0.0)
            self.found = summed(view.xp.where(landed, self.time + view.dt - self.wanted, 0.0))
            self.time = view.xp.where(down, 0.0, self.time + view.dt)
        return self.found


class imu(Term):
    """Observation: an inertial unit on a body, (worlds, 6).

    It measures angular velocity [rad/s], then acceleration minus gravity [m/s²], both in its own axes.

    Parameters
    ----------
    body : str
        Name of the body.
    pose : array (7,)
        Pose of the unit in the body's frame [x y z qw qx qy qz]. Default: the frame itself.

    Notes
    -----
    The acceleration is the change of velocity during the action over its duration. Where an episode begins it is 0, so
    that the unit reads minus gravity.

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"imu": ws.envs.sensing.imu("torso")})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].round(2).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0, 9.8100004196167]]
    """

    memory = ("before",)

    def __init__(self, body: str, pose=(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)):
        self.body, self.pose = body, np.asarray(pose, float)
        if (
            self.pose.shape != (7,)
            or not np.isfinite(self.pose).all()
            or not abs(np.linalg.norm(self.pose[3:]) - 1.0) < 1e-3
        ):
            raise ValueError(f"pose is {short(pose)}; give [x y z qw qx qy qz] with a unit quaternion")

    def bind(self, view) -> None:
        self.index, self.before, self.begun = body_index(view, self.body), None, None
        pose, made = self.pose.astype(np.float32), view.arrays.made
        self.at, self.turn = made(pose[:3]), made(pose[3:])

    def reset(self, view, mask) -> None:
        self.begun = mask if self.begun is None else self.begun | mask

    def __call__(self, view):
        xp, b = view.xp, self.index
        orientation, velocity = view.pose(b)[:, 3:], view.velocity(b)
        angular = velocity[:, :3]
        now = velocity[:, 3:] + cross(xp, angular, rotated(xp, orientation, self.at + 0.0 * angular))
        if self.before is None:
            self.before = [now, now]  # at the beginning and the end of this action
        if self.begun is not None:
            self.before = [_rows(view, self.begun, now, x) for x in self.before]
            self.begun = None
        self.before = [self.before[1], now] if self.first(view) else [self.before[0], now]
        acceleration = (now - self.before[0]) / view.dt - view.parameter("gravity")
        unit = product(xp, orientation, self.turn + 0.0 * orientation)
        return xp.concat([rotated_back(xp, unit, angular), rotated_back(xp, unit, acceleration)], axis=-1)
