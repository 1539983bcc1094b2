# SPDX-License-Identifier: Apache-2.0
"""Legged robots follow commanded velocities (vx, vy, yaw rate), on flat and on rough ground.

Actions are offsets of joint targets from the stance; servos hold them. Rewards follow massively parallel locomotion
(Rudin et al., 2022): exp(-e²/σ) of the velocity error e with scales σ, minus penalties for restless motion, per second
of the episode. Legs step to a clock (Siekmann et al., 2021, in the simple form of Unitree's training of G1): bipeds
with one foot after the other, quadrupeds with both feet of a diagonal, a trot.
"""

import math

import numpy as np

from warpsim.envs import legged, symmetry
from warpsim.envs.rotations import norm, stacked, summed
from warpsim.envs.sensing import (
    angular_velocity,
    body_index,
    linear_velocity,
    projected_gravity,
    touches,
)
from warpsim.envs.task import Task
from warpsim.envs.terms import (
    action_change,
    command,
    last_action,
    noisy,
    push,
    randomise,
    scaled,
    start_from,
    start_noise,
    uniform_command,
    velocities,
)
from warpsim.envs.terrain import height_scan, start_by_level, start_on

SECOND = 0.02  # duration of an action [s]: weights are per second
SCALE, REACH = 0.25, 4.0  # joint targets are the stance + SCALE [rad] times actions in ± REACH
CLOCK = {2: (0.8, 0.55), 4: (0.48, 0.5)}  # by number of feet: a cycle [s], and the share of it in which a foot is down
AHEAD = {2: (0.0, 0.5), 4: (0.0, 0.5, 0.5, 0.0)}  # cycles by which each foot is ahead
DRAWN = 0.9  # height that policies are drawn to while they learn by gradients, as a share of the stance's
LOW = 0.6  # share of the stance's height below which a robot on flat ground lies
CLEARANCE = 0.06  # [m] that a biped's foot is lifted
FAST = ((-1.0, -0.5, -1.0), (1.0, 0.5, 1.0))  # ranges of commands (vx, vy, yaw rate) [m/s, rad/s]
SLOW = ((-0.5, -0.3, -0.5), (1.0, 0.3, 0.5))


class VelocityTracking(Task):
    """Base class of tasks in which a `LeggedRobot` follows commanded velocities (vx, vy, yaw rate) [m/s, rad/s].

    A subclass names its robot as `class Mine(VelocityTracking, robot=…)`. Two more arguments are optional: `most`, the
    least and the greatest command, and `rough=True` for rough ground. On rough ground, worlds that succeed begin their
    next episode on a harder patch.

    Parameters
    ----------
    **changes : Any
        Attributes by name, as of `Task`.

    Notes
    -----
    An action in ± 4 times 0.25 rad is the offset of a joint's target angle from the stance; servos hold the targets.
    Rewards follow Rudin et al. 2022.

    Examples
    --------
    >>> from warpsim.envs.legged import A1
    >>> class Slow(ws.envs.velocity.VelocityTracking, robot=A1, most=((-0.3, 0, 0), (0.3, 0, 0))):
    ...     episode = 500
    >>> Slow.commands["velocity"].high.round(1).tolist()
    [0.30000001192092896, 0.0, 0.0]
    """

    timestep, decimation, episode = 0.005, 4, 1000
    learning = {
        "ppo": {"iterations": 700, "hidden": (128, 128)},
        "shac": {
            **{"hidden": (128, 128), "horizon_steps": 128, "critic_weight": 0.3, "betas": (0.9, 0.99)},
            **{"smoothing": 0.1, "output_gain": 1.0 / REACH, "validate_every": 1000},
        },
    }

    def __init_subclass__(cls, robot=None, rough: bool = False, most=FAST, **options):
        super().__init_subclass__(**options)
        if robot is not None:
            for name, value in _tables(robot, rough, most).items():
                if name not in vars(cls):
                    setattr(cls, name, value)


GRID = [(x, y) for x in np.linspace(-0.6, 0.8, 8) for y in np.linspace(-0.4, 0.4, 5)]  # [m] of the height scan
UP, DOWN_AGAIN = 3.0, 1.0  # [m] walked in an episode that lead to harder and to easier ground


def _tables(robot, rough: bool, most) -> dict:
    """The attributes of a task that belong to its robot and its greatest commands."""
    _check_feet(robot)
    exact = _observed(robot)
    noise = {"linear": 0.1, "angular": 0.2, "gravity": 0.05, "joints": 0.01, "speeds": 1.5}
    seen = {name: noisy(term, uniform=noise[name]) if name in noise else term for name, term in exact.items()}
    ground = {"ground": height_scan(robot.base, GRID)} if rough else {}
    rewards, fallen = _rewards(robot), {"fallen": lambda s: inclination(s, robot) < 0.5}
    randomised = (randomise("geom_friction", 0.6, 1.4), randomise("body_mass", 0.9, 1.1))
    bound, command_range = REACH * np.ones(len(robot.moved)), uniform_command(*most, every=250)
    # In softened contact "trunk" is not read: without this a robot that lies on its trunk would lie there to the end.
    low = {} if rough else {"low": lambda s: _height(s, robot) < LOW}
    at, noise_of_start = start_from("stance"), start_noise(v=0.2)
    easy_first = start_by_level(legged.ground().starts, legged.LEVELS, UP, DOWN_AGAIN)
    anywhere = (at, start_on(legged.ground().starts), noise_of_start)
    return {
        "model": staticmethod(lambda: legged.legged_model(robot, rough)),
        "action_range": (-bound, bound),
        "actuators": (scaled(SCALE, robot.pose(robot.moved)), held(robot)),
        "commands": {"velocity": command_range},
        "observations": seen | ground,
        "critic_observations": exact | ground | {"contact": touches(*robot.feet)},
        "symmetry": _symmetry(robot, rough),
        "rewards": rewards,
        "terminations": fallen | {"trunk": lambda s: (touches(*robot.trunk)(s) > 0.5).any(-1)},
        "starts": (at, easy_first, noise_of_start) if rough else (at, noise_of_start),
        "events": (*randomised, push(robot.free, (0.5, 0.5, 0.0, 0.0, 0.0, 0.0), every=400)),
        "smooth": {
            "rewards": {name: term for name, term in rewards.items() if name not in ("gait", "slip", "swing")}
            | _upright(robot, rough),
            "terminations": fallen | low,
            "events": randomised,
            "critic_observations": {},
        },
        "evaluation": {"commands": {"velocity": command_range}} | ({"starts": anywhere} if rough else {}),
        "measures": {"velocity_error": _length(_missed(robot)), "turn_error": _length(_turn_missed(robot))},
    }


def _check_feet(robot) -> None:
    """Raise `ValueError` where there is no clock for a robot's feet, or left and right ones would step together."""
    count = len(robot.feet)
    if count not in CLOCK:
        raise ValueError(f"{robot.name}: feet has {count} bodies; there are clocks for 2 and 4 feet")
    partners, ahead = symmetry.swapped(*robot.feet)(None)[0], np.array(AHEAD[count])
    wrong = np.flatnonzero((partners != np.arange(count)) & (np.abs(ahead[partners] - ahead) != 0.5))
    if len(wrong):
        raise ValueError(
            f"{robot.name}: feet {robot.feet[wrong[0]]} and {robot.feet[partners[wrong[0]]]} would step together; give "
            "four feet so that the first and the last are on a diagonal, such as front left, front right, rear left, "
            "rear right"
        )


def _symmetry(robot, rough: bool) -> dict:
    """How observations and actions are mirrored."""
    moved = symmetry.joints(*robot.moved)
    found = {"linear": symmetry.polar, "angular": symmetry.axial, "gravity": symmetry.polar}
    found |= {"command": symmetry.planar, "contact": symmetry.swapped(*robot.feet)}
    found |= {"joints": moved, "speeds": moved, "action": moved, "actions": moved}
    found |= {"clock": symmetry.signs(-1, -1)}  # half a cycle away
    return found | ({"ground": symmetry.points(GRID)} if rough else {})


def held(robot):
    """Actuator: targets of all servos, first those that the policy moves, then the stance of the others.

    Parameters
    ----------
    robot : LeggedRobot
        The robot.

    Returns
    -------
    term
        A function of (view, control) that returns controls (worlds, nu).

    Examples
    --------
    >>> term = ws.envs.velocity.held(ws.envs.legged.G1)
    """

    def term(s, control):
        names = s.model.actuator_names[len(robot.moved) :]
        if not names:
            return control
        rest = s.constant("held joints", lambda: s.arrays.made(robot.pose(names).astype(np.float32)))
        return s.xp.concat([control, 0.0 * control[:, :1] + rest], axis=-1)

    return term


# observations ---------------------------------------------------------------------------------------------------------


def _observed(robot) -> dict:
    """What the robot observes, without noise."""
    return {
        "linear": linear_velocity(robot.base),
        "angular": angular_velocity(robot.base),
        "gravity": projected_gravity(robot.base),
        "command": command("velocity"),
        "joints": offsets(robot),
        "speeds": velocities(*robot.moved),
        "action": last_action,
        "clock": _clock(CLOCK[len(robot.feet)][0]),
    }


def offsets(robot):
    """Observation: offsets of the moved joints from the stance, (worlds, joints) [rad].

    Parameters
    ----------
    robot : LeggedRobot
        The robot.

    Returns
    -------
    term
        A term of (worlds, joints).

    Examples
    --------
    >>> term = ws.envs.velocity.offsets(ws.envs.legged.A1)
    """
    pose = robot.pose(robot.moved).astype(np.float32)
    return lambda s: s.q[:, s.columns(*robot.moved)[0]] - s.arrays.constant(pose)


def _turned(s, period: float):
    """Share of the clock's cycle that has passed `(worlds,)`."""
    return (s.steps * (s.dt / period)) % 1.0


def _clock(period: float):
    def term(s):
        angle = 2.0 * math.pi * _turned(s, period)
        return stacked(s.xp, [s.xp.sin(angle), s.xp.cos(angle)])

    return term


# rewards --------------------------------------------------------------------------------------------------------------


def _rewards(robot) -> dict:
    base = robot.base
    found = {
        "track": (1.5 * SECOND, _tracked(_missed(robot), 0.25, 1.0)),
        "turn": (0.75 * SECOND, _tracked(_turn_missed(robot), 0.25)),
        "bounce": (-2.0 * SECOND, lambda s: linear_velocity(base)(s)[:, 2] ** 2),
        "sway": (-0.05 * SECOND, lambda s: summed(angular_velocity(base)(s)[:, :2] ** 2)),
        "tilt": (-1.0 * SECOND, lambda s: summed(projected_gravity(base)(s)[:, :2] ** 2)),
        "effort": (-2e-4 * SECOND, _servo_effort(robot)),
        "change": (-0.01 * SECOND, action_change),
        "alive": (0.5 * SECOND, lambda s: s.xp.ones_like(s.q[:, 0])),
    }
    found |= {"gait": (0.6 * SECOND / len(robot.feet), _in_time(robot))}
    if len(robot.feet) == 4:
        return found
    return found | {
        "tilt": (-2.0 * SECOND, found["tilt"][1]),
        "effort": (-1e-5 * SECOND, found["effort"][1]),
        "swing": (-20.0 * SECOND, _swing(robot)),
        "slip": (-0.2 * SECOND, _slip(robot)),
        "straight": (-1.0 * SECOND, _straight(robot)),
    }


def _upright(robot, rough: bool) -> dict:
    """Rewards that see a fall coming, for learning by gradients: an episode's end has none."""
    height = {} if rough else {"height": (-25.0 * SECOND, lambda s: (_height(s, robot) - DRAWN) ** 2)}
    return {"level": (-25.0 * SECOND, lambda s: summed(projected_gravity(robot.base)(s)[:, :2] ** 2))} | height


def _height(s, robot):
    """Height of the base as a share of the stance's `(worlds,)`."""
    return s.q[:, s.host_columns(robot.free)[0][2]] / robot.height


def _missed(robot):
    """Error of the horizontal velocity `(worlds, 2)` [m/s]."""
    return lambda s: s.commands["velocity"][:, :2] - linear_velocity(robot.base)(s)[:, :2]


def _turn_missed(robot):
    """Error of the yaw rate `(worlds, 1)` [rad/s]."""
    return lambda s: s.commands["velocity"][:, 2:] - angular_velocity(robot.base)(s)[:, 2:]


def _tracked(error, *scales):
    """The mean of exp(-|e|²/σ) of an error e over scales σ: a small one for precision, a large one to begin with."""

    def term(s):
        square = summed(error(s) ** 2)
        return sum(s.xp.exp(-square / scale) for scale in scales) / len(scales)

    return term


def _length(error):
    return lambda s: norm(error(s))


def inclination(s, robot):
    """Cosine of the angle between the base's z axis and the vertical.

    Parameters
    ----------
    s : View
        The worlds.
    robot : LeggedRobot
        The robot.

    Returns
    -------
    array (worlds,)
        1 where the base is upright.

    Examples
    --------
    >>> terminations = {"fallen": lambda s: ws.envs.velocity.inclination(s, ws.envs.legged.A1) < 0.5}
    """
    return -projected_gravity(robot.base)(s)[:, 2]


def _servo_effort(robot):
    """Σ of the squared torques that the servos of the policy's joints were last commanded [N² m²]."""
    gains = np.array([(robot.servo(name).kp, robot.servo(name).kd) for name in robot.moved], np.float32).T

    def term(s):
        kp, kd = (s.arrays.constant(x) for x in gains)
        q, v = s.columns(*robot.moved)
        torque = kp * (s.control[:, : len(robot.moved)] - s.q[:, q]) - kd * s.v[:, v]
        return summed(torque**2)

    return term


def _standing(s, robot):
    """By the clock, whether each foot is down `(worlds, feet)`."""
    (period, down), ahead = CLOCK[len(robot.feet)], np.array(AHEAD[len(robot.feet)], np.float32)
    return (_turned(s, period)[:, None] + s.arrays.constant(ahead)) % 1.0 < down


def _in_time(robot):
    """Number of feet that are on or off the ground as the clock says."""
    return lambda s: summed(1.0 * ((touches(*robot.feet)(s) > 0.5) == _standing(s, robot)))


def _feet(s, robot, of):
    return of[:, s.arrays.constant(np.array([body_index(s, foot) for foot in robot.feet], int))]


def _swing(robot):
    """Σ over feet in the air of the squared distance from the height that they are lifted to [m²]."""

    def term(s):
        height = _feet(s, robot, s.poses)[:, :, 2] - robot.ankle
        return summed((height - CLEARANCE) ** 2 * s.xp.where(_standing(s, robot), 0.0, 1.0))

    return term


def _slip(robot):
    """Σ over feet on the ground of their squared speed [m²/s²]."""
    return lambda s: summed(summed(_feet(s, robot, s.velocities)[:, :, 3:] ** 2) * touches(*robot.feet)(s))


def _straight(robot):
    """Σ of the squared angles of hip roll and hip yaw from the stance [rad²]."""
    names = tuple(name for name in robot.moved if "hip_roll" in name or "hip_yaw" in name)
    pose = robot.pose(names).astype(np.float32)
    return lambda s: summed((s.q[:, s.columns(*names)[0]] - s.arrays.constant(pose)) ** 2)


# tasks ----------------------------------------------------------------------------------------------------------------


class Quadruped(VelocityTracking, robot=legged.A1):
    """A1 on flat ground follows (vx, vy, yaw rate)."""


class QuadrupedRough(VelocityTracking, robot=legged.A1, rough=True):
    """A1 on slopes, steps, stones and rough ground; it observes the heights around it."""


class Go1(VelocityTracking, robot=legged.GO1):
    """Go1 on flat ground follows (vx, vy, yaw rate)."""


class Go1Rough(VelocityTracking, robot=legged.GO1, rough=True):
    """Go1 on slopes, steps, stones and rough ground; it observes the heights around it."""


class G1(VelocityTracking, robot=legged.G1, most=SLOW):
    """G1 on flat ground follows (vx, vy, yaw rate) with its legs; waist and arms keep the stance."""


class G1Rough(VelocityTracking, robot=legged.G1, rough=True, most=SLOW):
    """G1 on slopes, steps, stones and rough ground; it observes the heights around it."""
