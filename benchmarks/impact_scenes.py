# SPDX-License-Identifier: Apache-2.0
"""Scenes with impacts, for `benchmarks.impacts`: a model, starts by a few parameters, an outcome, and where there is a
formula the exact outcome."""

import dataclasses
from collections.abc import Callable

import mujoco
import numpy as np

import warpsim as ws

GRAVITY = 9.81


@dataclasses.dataclass
class Scene:
    """`start(p (B, n))`: q, v, controls and parameters by name, a row each; `outcome(q (B, nq))`: (B, k) [m, rad]."""

    title: str
    model: ws.Model
    ranges: dict[str, tuple[float, float]]  # of the parameters, by name
    duration: float  # [s], a multiple of 10 ms
    start: Callable[[np.ndarray], dict[str, np.ndarray]]
    outcome: Callable[[np.ndarray], np.ndarray]
    exact: Callable[[np.ndarray], np.ndarray] | None = None  # outcome (B, k) of p
    seed: int = 0
    onset: float = 0.0  # [s] when the controls begin

    @property
    def has_restitution(self) -> bool:
        return bool(self.model.geom_restitution.any())

    def starts(self, count: int) -> np.ndarray:
        """(count, n), drawn from the ranges."""
        low, high = np.array(list(self.ranges.values())).T
        return low + (high - low) * np.random.default_rng(self.seed).random((count, len(low)))

    @property
    def widths(self) -> np.ndarray:
        return np.array([high - low for low, high in self.ranges.values()])


def blank(model: ws.Model, count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tile(model.q0, (count, 1)), np.zeros((count, model.nv))


def coordinates(*indices: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda q: q[:, list(indices)]


def turned(*rotations: np.ndarray) -> np.ndarray:
    """Quaternion (B, 4) of rotation vectors (B, 3), the first one outermost."""
    result = None
    for vector in rotations:
        angle = np.linalg.norm(vector, axis=1, keepdims=True)
        x = np.concatenate([np.cos(angle / 2), np.sinc(angle / 2 / np.pi) * vector / 2], axis=1)
        result = x if result is None else product(result, x)
    return result


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    w = a[:, :1] * b[:, :1] - (a[:, 1:] * b[:, 1:]).sum(axis=1, keepdims=True)
    return np.concatenate([w, a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + np.cross(a[:, 1:], b[:, 1:])], axis=1)


def rotated(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    u = 2 * np.cross(quaternion[:, 1:], vector)
    return vector + quaternion[:, :1] * u + np.cross(quaternion[:, 1:], u)


def about(axis, angle: np.ndarray) -> np.ndarray:
    return np.outer(angle, axis)


def free_body(b: ws.ModelBuilder, name: str, kind: str, size, mass: float, pose=(0, 0, 0), **geom) -> None:
    """A body with a free joint and one geom of that mass."""
    volume = {"sphere": lambda s: 4 / 3 * np.pi * s[0] ** 3, "box": lambda s: 8 * np.prod(s)}
    volume |= {"cylinder": lambda s: 2 * np.pi * s[0] ** 2 * s[1]}
    b.add_body(name, pose=pose)
    b.add_joint(name, "free", name=name)
    b.add_geom(kind, size, body=name, name=name, density=mass / volume[kind](size), **geom)


# ---- balls, with formulas -------------------------------------------------------------------------------------------


def strike(a: tuple, b: tuple | None, normal: np.ndarray, friction, restitution: float) -> None:
    """The impact of two equal balls, or of a ball b with a fixed body (a None): (v, w) change in place.

    `normal` (B, 3) points from a into b; a ball is (v, w, radius) of mass 1.
    """
    share = 1.0 if a is None else 0.5
    u = b[0] - np.cross(b[1], b[2] * normal)
    if a is not None:
        u = u - a[0] - np.cross(a[1], a[2] * normal)
    approach = -(u * normal).sum(axis=1, keepdims=True)
    slip = u + approach * normal
    speed = np.linalg.norm(slip, axis=1, keepdims=True) + 1e-300
    push = (1 + restitution) * share * approach
    drag = np.minimum(friction * push, share * speed * 2 / 7)  # 1/m + r²/I = 7/2 of a ball
    impulse = push * normal - drag * slip / speed
    for ball, sign in ((a, -1.0), (b, 1.0)):
        if ball is not None:
            ball[0][:] += sign * impulse
            ball[1][:] += -np.cross(ball[2] * normal, impulse) / (0.4 * ball[2] ** 2)


def fall(gap, v: np.ndarray, w: np.ndarray, radius: float, friction, restitution: float, duration: float) -> np.ndarray:
    """(B, 3) where a ball ends that falls on a plane, from x = y = 0 and `gap` above it: one impact, then it slides and
    rolls, or flies if it has restitution."""
    v, w, up = v.copy(), w.copy(), np.tile([0.0, 0.0, 1.0], (len(v), 1))
    time = ((v[:, 2] + np.sqrt(v[:, 2] ** 2 + 2 * GRAVITY * gap)) / GRAVITY)[:, None]
    x = v * time * [1.0, 1.0, 0.0]
    v[:, 2:] -= GRAVITY * time
    strike(None, (v, w, radius), up, friction, restitution)
    rest = duration - time
    if restitution > 0:
        return x + v * rest + up * (radius - GRAVITY / 2 * rest**2)
    slip = v - np.cross(w, radius * up)
    speed = np.linalg.norm(slip, axis=1, keepdims=True) + 1e-300
    slides = np.minimum(speed / (3.5 * friction * GRAVITY), rest)
    return x + v * rest - friction * GRAVITY * slip / speed * slides * (rest - slides / 2) + up * radius


def ball_falls(title: str, friction: float, restitution: float, ranges: dict, duration: float, kept) -> Scene:
    """Parameters: gap, v (3), w (3), friction; those not in `ranges` are 0, or `friction`."""
    b, radius, names = ws.ModelBuilder("ball"), 0.1, list(ranges)
    b.add_geom("plane", friction=friction, restitution=restitution)
    free_body(b, "ball", "sphere", [radius], 1.0, [0, 0, radius], friction=friction, restitution=restitution)
    model = b.build()

    def read(p):
        given = dict(zip(names, p.T, strict=True))
        get = lambda name, other=0.0: given.get(name, np.full(len(p), other))  # noqa: E731
        vectors = [np.stack([get(f"{s}{i}") for i in "xyz"], axis=1) for s in "vw"]
        return get("gap"), *vectors, get("friction", friction)[:, None]

    def start(p):
        gap, v, w, mu = read(p)
        q, _ = blank(model, len(p))
        q[:, 2] += gap
        given = {"geom_friction": mu * np.ones(2)} if "friction" in names else {}
        return {"q": q, "v": np.concatenate([v, w], axis=1), **given}

    def exact(p):
        gap, v, w, mu = read(p)
        return fall(gap, v, w, radius, mu, restitution, duration)[:, kept]

    return Scene(title, model, ranges, duration, start, coordinates(*kept), exact)


def sticking_ball() -> Scene:
    ranges = {"gap": (0.1, 0.3), "vx": (1.5, 2.5), "vy": (-1.0, 1.0), "vz": (-0.5, 0.5), "wy": (-4.0, 4.0)}
    return ball_falls("ball sticks", 2.0, 0.0, ranges, 0.6, [0, 1])


def slipping_ball() -> Scene:
    ranges = {"gap": (0.1, 0.3), "vx": (1.5, 2.5), "wx": (-8.0, 8.0), "wy": (-4.0, 4.0), "friction": (0.2, 0.3)}
    return ball_falls("ball, spin and slip", 0.25, 0.0, ranges, 0.6, [0, 1])


def bouncing_ball() -> Scene:
    ranges = {"gap": (0.4, 0.6), "vx": (1.5, 2.5), "wx": (-8.0, 8.0), "wy": (-4.0, 4.0)}
    return ball_falls("ball, restitution 0.8", 0.2, 0.8, ranges, 0.5, [2, 0, 1])


def billiards(title: str, pair: float) -> Scene:
    """Ball hits ball obliquely, both a wall (restitution 0.6) and come back; friction, spin, no gravity."""
    b, radius, duration, wall, mu = ws.ModelBuilder("billiards", gravity=(0, 0, 0)), 0.05, 0.5, 0.7, 0.2
    ranges = {"y": (0.05, 0.07), "z": (-0.03, 0.0), "vx": (1.8, 2.5), "wz": (-5.0, 5.0), "wy": (-5.0, 5.0)}
    b.add_geom("plane", pose=[wall, 0, 0, np.sqrt(0.5), 0, -np.sqrt(0.5), 0], friction=mu, restitution=0.6)
    free_body(b, "one", "sphere", [radius], 1.0, friction=mu, restitution=pair)
    free_body(b, "two", "sphere", [radius], 1.0, [0.4, 0, 0], friction=mu, restitution=pair)
    model = b.build()

    def start(p):
        q, v = blank(model, len(p))
        q[:, 1], q[:, 2], v[:, 0], v[:, 5], v[:, 4] = p.T
        return {"q": q, "v": v}

    def exact(p):
        q, v = blank(model, len(p))
        x, v1, w1, v2, w2 = np.zeros((5, len(p), 3))
        x[:, 1], x[:, 2], v1[:, 0], w1[:, 2], w1[:, 1] = p.T
        y = q[:, 7:10].copy()
        apart = np.sqrt(4 * radius**2 - x[:, 1] ** 2 - x[:, 2] ** 2)
        first = ((y[:, 0] - apart) / v1[:, 0])[:, None]
        x = x + v1 * first
        strike((v1, w1, radius), (v2, w2, radius), (y - x) / (2 * radius), mu, pair)
        ends = []
        for place, v, w in ((x, v1, w1), (y, v2, w2)):
            second = np.minimum((wall - radius - place[:, 0]) / np.maximum(v[:, 0], 1e-9), duration - first[:, 0])[
                :, None
            ]
            at, hits = place + v * second, (first + second < duration)[:, 0]
            ball = v[hits], w[hits], radius
            strike(None, ball, np.tile([-1.0, 0.0, 0.0], (hits.sum(), 1)), mu, 0.6)
            v[hits] = ball[0]
            ends.append(at + v * (duration - first - second))
        return np.concatenate(ends, axis=1)

    return Scene(title, model, ranges, duration, start, coordinates(0, 1, 2, 7, 8, 9), exact)


def rolling_ball(title: str, kind: str, size, pose) -> Scene:
    """A ball rolls over something fixed in the floor and lands behind it."""
    b, radius = ws.ModelBuilder("bump"), 0.1
    b.add_geom("plane", friction=0.8)
    b.add_geom(kind, size, pose=pose, friction=0.8)
    free_body(b, "ball", "sphere", [radius], 1.0, [0, 0, radius], friction=0.8)
    model, ranges = b.build(), {"vx": (1.6, 2.2), "vy": (-0.3, 0.3), "x": (-0.05, 0.05), "y": (-0.02, 0.02)}

    def start(p):
        q, v = blank(model, len(p))
        v[:, 0], v[:, 1], q[:, 0], q[:, 1] = p.T
        v[:, 3:5] = np.stack([-v[:, 1], v[:, 0]], axis=1) / radius
        return {"q": q, "v": v}

    return Scene(title, model, ranges, 0.7, start, coordinates(0, 1))


def bump() -> Scene:
    half = np.sqrt(0.5)
    return rolling_ball("ball over a bump", "capsule", [0.1, 3.0], [0.6, 0, -0.08, half, half, 0, 0])


def mound() -> Scene:
    return rolling_ball("ball over a mound", "ellipsoid", [0.25, 0.35, 0.03], [0.6, 0.1, 0])


# ---- boxes, a mug ---------------------------------------------------------------------------------------------------


def dropped(title: str, model: ws.Model, ranges: dict, duration: float, turn, outcome, seed: int = 0) -> Scene:
    """Parameters: height, two angles, vx, wy; `turn(angles)` gives the quaternion."""

    def start(p):
        q, v = blank(model, len(p))
        q[:, 2] = p[:, 0]
        q[:, 3:7] = turn(p[:, 1], p[:, 2])
        v[:, 0], v[:, 4] = p[:, 3], p[:, 4]
        return {"q": q, "v": v}

    return Scene(title, model, ranges, duration, start, outcome, seed=seed)


def box_model(side: float = 0.1, friction: float = 0.5, restitution: float = 0.0, gravity: float = 9.81) -> ws.Model:
    b = ws.ModelBuilder("box", gravity=(0, 0, -gravity))
    b.add_geom("plane", friction=friction)
    free_body(b, "box", "box", [side] * 3, 1.0, [0, 0, side], friction=friction, restitution=restitution)
    return b.build()


def box_corner() -> Scene:
    ranges = {"z": (0.30, 0.45), "tilt": (0.3, 0.6), "roll": (0.2, 0.5), "vx": (0.3, 0.8), "wy": (-1.0, 1.0)}
    turn = lambda a, b: turned(about([0, 1, 0], a), about([1, 0, 0], b))  # noqa: E731
    return dropped("box on a corner", box_model(), ranges, 0.4, turn, coordinates(0, 1))


def box_rocks() -> Scene:
    """On an edge that is askew to the world's axes."""
    ranges = {"z": (0.18, 0.25), "tilt": (0.1, 0.4), "yaw": (0.2, 0.8), "vx": (0.1, 0.4), "wy": (-0.5, 0.5)}
    turn = lambda a, b: turned(about([0, 0, 1], b), about([0, 1, 0], a))  # noqa: E731
    return dropped("box rocks to rest", box_model(), ranges, 0.6, turn, coordinates(0, 1))


def mug_mesh(radius: float = 0.04, height: float = 0.1, sides: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """A cylinder with a handle, as the hull of its points."""
    import trimesh

    a = 2 * np.pi * np.arange(sides) / sides
    ring = np.stack([radius * np.cos(a), radius * np.sin(a)], axis=1)
    points = [np.column_stack([ring, np.full(sides, z)]) for z in (-height / 2, height / 2)]
    handle = [[radius + 0.03, y, z] for y in (-0.005, 0.005) for z in (-0.02, 0.02)]
    hull = trimesh.convex.convex_hull(np.concatenate([*points, handle]))
    return np.asarray(hull.vertices), np.asarray(hull.faces)


def mug() -> Scene:
    b = ws.ModelBuilder("mug")
    b.add_geom("plane", friction=0.5)
    b.add_body("mug", pose=[0, 0, 0.2])
    b.add_joint("mug", "free")
    b.add_geom("mesh", mesh=mug_mesh(), body="mug", friction=0.5, density=700.0)
    ranges = {"z": (0.15, 0.25), "tilt": (0.2, 0.6), "yaw": (0.3, 1.2), "vx": (0.2, 0.5), "wy": (-1.0, 1.0)}
    turn = lambda a, b: turned(about([0, 0, 1], b), about([0, 1, 0], a))  # noqa: E731
    return dropped("dropped mug (mesh)", b.build(), ranges, 0.3, turn, coordinates(0, 1))


FINGER = """<mujoco><option timestep=".005"/><default><geom friction="0.3"/></default><worldbody>
<geom type="plane" size="5 5 .1"/>
<body name="box" pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
<body name="tip" pos="-.12 0 .12" gravcomp="1">
<joint name="x" type="slide" axis="1 0 0" damping="3"/>
<joint type="slide" axis="0 1 0" stiffness="80" damping="4"/>
<joint type="slide" axis="0 0 1" stiffness="80" damping="4"/>
<geom type="sphere" size=".02" mass=".4" friction="0.4"/></body></worldbody>
<actuator><motor joint="x"/></actuator></mujoco>"""


def fingertip() -> Scene:
    """A fingertip flies into a box at rest on a table, beside its center and above it, and pushes."""
    model = ws.load(mujoco.MjModel.from_xml_string(FINGER))
    ranges = {"gap": (0.03, 0.12), "y": (-0.03, 0.03), "speed": (0.2, 0.8), "force": (4.0, 6.0)}

    def start(p):
        q, v = blank(model, len(p))
        q[:, 7], q[:, 1], v[:, 6] = -p[:, 0], p[:, 1], p[:, 2]
        return {"q": q, "v": v, "controls": p[:, 3:]}

    return Scene("fingertip hits a box", model, ranges, 0.5, start, lambda q: np.stack([q[:, 0], 0.1 * yaw(q)], axis=1))


def yaw(q: np.ndarray) -> np.ndarray:
    """Of a body whose free joint comes first."""
    return 2 * np.arctan2(q[:, 6], q[:, 3])


GRIPPER = """<mujoco><option timestep=".005"/><default><geom friction="0.6"/></default><worldbody>
<geom type="plane" size="5 5 .1" friction="0.3"/>
<body name="box" pos="0 0 .03"><freejoint/><geom type="box" size=".03 .03 .03" mass=".2" friction="0.3"/></body>
<body name="left" pos="-.06 0 .04"><joint name="left" type="slide" axis="1 0 0" damping="5"/>
<geom type="box" size=".01 .03 .02" mass=".1"/></body>
<body name="right" pos=".06 0 .04"><joint name="right" type="slide" axis="-1 0 0" damping="5"/>
<geom type="box" size=".01 .03 .02" mass=".1"/></body></worldbody>
<actuator><motor joint="left"/><motor joint="right"/></actuator></mujoco>"""


def gripper() -> Scene:
    """Two fingers close on a box that stands askew between them."""
    model = ws.load(mujoco.MjModel.from_xml_string(GRIPPER))
    ranges = {"x": (0.003, 0.009), "yaw": (0.15, 0.25), "speed": (0.1, 0.4), "force": (2.0, 4.0), "more": (-0.5, 0.5)}

    def start(p):
        q, v = blank(model, len(p))
        q[:, 0], q[:, 3:7] = p[:, 0], turned(about([0, 0, 1], p[:, 1]))
        v[:, 6] = v[:, 7] = p[:, 2]
        return {"q": q, "v": v, "controls": p[:, 3:4] + p[:, 4:] * [0.5, -0.5]}

    outcome = lambda q: np.stack([q[:, 0], q[:, 1], 0.03 * yaw(q)], axis=1)  # noqa: E731
    return Scene("gripper closes on a box", model, ranges, 0.06, start, outcome)


# ---- robots ---------------------------------------------------------------------------------------------------------


def rigid(model: ws.Model) -> ws.Model:
    return dataclasses.replace(model, geom_stiffness=np.full_like(model.geom_stiffness, np.inf))


def hopper(title: str = "hopper lands and pushes", onset: float = 0.1, T: float = 0.3) -> Scene:
    """Falls in a crouch, lands, and pushes from `onset` on, by constant controls."""
    model = rigid(ws.load(ws.robots.path("hopper")))
    ranges = {"gap": (0.03, 0.08), "vx": (0.1, 0.4), "hip": (-0.1, 0.0), "knee": (-0.3, -0.2)}
    crouched = np.array([0, -0.095, 0, -0.45, 0.95, -0.5])

    def start(p):
        q, v = blank(model, len(p))
        q[:] = crouched
        q[:, 1] += p[:, 0]
        v[:, 0] = p[:, 1]
        return {"q": q, "v": v, "controls": np.column_stack([p[:, 2:], np.full(len(p), 0.1)])}

    return Scene(title, model, ranges, T, start, coordinates(0, 1), onset=onset)


LEG = """<body name="thigh{0}"><joint name="hip{0}" axis="0 1 0" stiffness="30" damping=".6" springref="{1}"/>
<geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass=".8" contype="0" conaffinity="0"/>
<body name="shin{0}" pos="0 0 -.3"><joint name="knee{0}" axis="0 1 0" stiffness="20" damping=".25" springref="{2}"/>
<geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass=".6" contype="0" conaffinity="0"/>
<geom type="sphere" pos="0 0 -.3" size=".03" mass=".01" friction="0.9" conaffinity="0"/></body></body>"""
BIPED = f"""<mujoco><compiler angle="radian"/><option timestep=".005"/><worldbody>
<geom type="plane" size="9 9 .1" friction="0.9" contype="0"/><body name="trunk" pos="0 0 .7">
<joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/><joint name="lean" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 .4" size=".06" mass="5" contype="0" conaffinity="0"/>
{LEG.format(1, -0.25, 0.5)}{LEG.format(2, -0.75, 0.75)}</body></worldbody>
<actuator><motor joint="hip1"/></actuator></mujoco>"""


def stance() -> Scene:
    """One foot stands, the other one lands."""
    model = ws.load(mujoco.MjModel.from_xml_string(BIPED))
    ranges = {"w": (-3.5, -2.5), "vx": (0.3, 0.7), "torque": (-4.0, 0.0), "lift": (-0.6, -0.45)}

    def start(p):
        q, v = blank(model, len(p))
        bend, length = 0.25, 0.3
        height = 2 * length * np.cos(bend) + 0.03
        q[:, 1], q[:, 3], q[:, 4] = height - 0.7, -bend, 2 * bend
        q[:, 5], q[:, 6] = p[:, 3] - 0.3, 0.3
        w = p[:, 1] / (height - 0.03)  # both parts of the standing leg turn by w about its foot
        v[:, 0], v[:, 3], v[:, 5], v[:, 6] = p[:, 1], w, -p[:, 0], p[:, 0] / 2
        return {"q": q, "v": v, "controls": p[:, 2:3]}

    return Scene("stance, other foot lands", model, ranges, 0.3, start, lambda q: np.stack([q[:, 0], q[:, 1]], axis=1))


ARM = """<mujoco><compiler angle="radian"/><option timestep=".005"/><default><geom contype="0" conaffinity="0"/></default>
<worldbody><body><joint axis="0 1 0"/><joint axis="1 0 0"/><geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03" mass="1"/>
<body pos="0 0 -.5"><joint name="elbow" axis="0 1 0" range="-.25 .3" limited="true"/>
<geom type="capsule" fromto="0 0 0 .1 0 -.4" size=".03" mass=".7"/></body></body></worldbody>
<actuator><motor joint="elbow"/></actuator></mujoco>"""


def stop() -> Scene:
    """A double pendulum whose elbow has stops, its shoulder free about two axes."""
    model = ws.load(mujoco.MjModel.from_xml_string(ARM))
    ranges = {"shoulder": (0.6, 1.0), "side": (0.1, 0.4), "elbow": (-0.1, 0.2), "w": (-2.0, 2.0), "torque": (-1.0, 1.0)}

    def start(p):
        q, v = blank(model, len(p))
        q[:, 0], q[:, 1], q[:, 2], v[:, 2] = p[:, :4].T
        return {"q": q, "v": v, "controls": p[:, 4:]}

    return Scene("joint stop", model, ranges, 0.6, start, coordinates(0, 1, 2))


def ant() -> Scene:
    """Falls askew; its feet land one after another."""
    model = rigid(ws.load(ws.robots.path("ant")))
    ranges = {"gap": (0.11, 0.16), "tilt": (0.1, 0.2), "vx": (0.2, 0.8), "wx": (-0.5, 0.5), "knee": (-0.5, 0.5)}

    def start(p):
        q, v = blank(model, len(p))
        q[:, 2] += p[:, 0]
        q[:, 3:7] = turned(about([0.8, 0.6, 0], p[:, 1]))
        v[:, 0], v[:, 3] = p[:, 2], p[:, 3]
        controls = np.zeros((len(p), model.nu))
        controls[:, 1] = p[:, 4]
        return {"q": q, "v": v, "controls": controls}

    return Scene("ant's feet land", model, ranges, 0.25, start, coordinates(0, 1, 2))


SCENES: dict[str, Callable[[], Scene]] = {
    "stick": sticking_ball,
    "slip": slipping_ball,
    "bounce": bouncing_ball,
    "bump": bump,
    "mound": mound,
    "corner": box_corner,
    "rock": box_rocks,
    "hopper": hopper,
    "kick": lambda: hopper("hopper kicks in the air", 0.0, 0.4),
    "stance": stance,
    "finger": fingertip,
    "billiards": lambda: billiards("billiards, e 0.6", 0.6),
    "plastic": lambda: billiards("billiards, pair e 0", 0.0),
    "stop": stop,
    "ant": ant,
    "gripper": gripper,
    "mug": mug,
}
